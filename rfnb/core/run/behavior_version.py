"""The version of the behavior, for models that ask for it."""

from __future__ import annotations

import warnings

from rfnb.errors import OptionError

NEWEST = 1000
"""A number above those of all versions that a model may ask for."""

EARLIER = {
    19: "attention shared the dropout of its weights: att_dropout_broadcast=True",
    20: "rf.TransformerDecoder had share_embedding=False, input_embedding_scale=1.0 and input_dropout=0.0",
    23: "convolution took the values of the padding as they were, not as 0",
    24: "convolution with padding='same' and strides began its windows elsewhere",
    29: "a Conformer's batch norm counted padding: conv_norm_opts={'use_mask': False}",
}
"""What modules did before each version."""


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
        """Changes nothing, and warns of what modules did in this version but do not do here.

        Raises OptionError if it is not a number.
        """
        if not isinstance(version, int):
            raise OptionError("BehaviorVersion.set: not a version", got=repr(version), expected="a whole number")
        earlier = [text for since, text in EARLIER.items() if version < since]
        if earlier:
            text = "\n".join(f"  {line}" for line in earlier)
            warnings.warn(
                f"BehaviorVersion: all models have the newest behavior. In version {version}:\n{text}", stacklevel=2
            )

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
