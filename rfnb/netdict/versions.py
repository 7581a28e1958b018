"""Behavior versions of net dicts: which rules hold from which version on. 0 is the default."""

from __future__ import annotations

from rfnb.errors import OptionError

SINCE = {
    "from is required": 1,
    "dot needs its axes": 3,
    "sources share dims": 4,
    "axes are no numbers": 5,
    "merge_dims takes the order of axes": 6,
    "conv has a bias": 10,
    "batch_norm is of version 2": 12,
    "dot takes other dims as others": 14,
    "a dim of the user is no other": 16,
    "zoneoutlstm gives the zoned output": 17,
    "window puts its axis first": 18,
    "pad respects lengths": 21,
}
"""The first version in which each rule holds."""

_default = [0]


def set_behavior_version(version: int) -> None:
    """Sets the behavior version of the networks that are made from now on, unless their config has one.

    >>> rf.set_behavior_version(0)

    Raises OptionError if it is not a number from 0 on.
    """
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise OptionError("set_behavior_version: not a version", got=repr(version), expected="0, 1, 2, …")
    _default[0] = version


def default_behavior_version() -> int:
    """The version that was set last."""
    return _default[0]


def holds(rule: str, version: int) -> bool:
    """Whether a rule holds in a version."""
    return version >= SINCE[rule]
