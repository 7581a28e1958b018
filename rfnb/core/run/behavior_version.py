"""The version of the behavior, for models that ask for it."""

from __future__ import annotations

from rfnb.errors import OptionError

NEWEST = 1000
"""A number above those of all versions that a model may ask for."""


class BehaviorVersion:
    """The version of the behavior, which is always the newest: there is only one.

    >>> rf.BehaviorVersion.set_min_behavior_version(21)
    >>> rf.BehaviorVersion.get() >= 21
    True
    """

    @classmethod
    def get(cls) -> int:
        """A number above those of all versions."""
        return NEWEST

    @classmethod
    def set(cls, version: int) -> None:
        """Accepts any version, and changes nothing."""

    @classmethod
    def set_min_behavior_version(cls, min_behavior_version: int) -> None:
        """Accepts any version, and changes nothing."""

    @classmethod
    def is_set(cls) -> bool:
        """True."""
        return True

    @classmethod
    def require(cls, condition: bool, message: str, version: int) -> None:
        """Raises OptionError with this message if the condition, which holds from `version` on, is not fulfilled."""
        if not condition:
            raise OptionError(f"BehaviorVersion: {message}", expected=f"what is required since version {version}")
