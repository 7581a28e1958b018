"""Parts of a module that the user may choose: `norm=rf.RMSNorm`, or what `rf.build_dict` gives."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from rfnb.errors import ParameterError
from rfnb.nn.module.build import build_from_dict
from rfnb.nn.module.module import Module

Choice = type | dict[str, Any] | Module | Callable[..., Any]
"""What makes a part: a class, what `rf.build_dict` gives, a module that is copied, or a function."""


def build_part(choice: Choice, *args: Any, **options: Any) -> Any:
    """The part: of a class with these options, of a dict with its own ones before them, or a copy of a module.

    A function is the part itself.
    """
    if isinstance(choice, dict):
        return build_from_dict(choice, *args, **{name: x for name, x in options.items() if name not in choice})
    if isinstance(choice, Module):
        return copy.deepcopy(choice)  # so that layers which are made from one module do not share it
    if isinstance(choice, type | functools.partial):
        return choice(*args, **options)
    if callable(choice):
        return choice
    raise ParameterError(
        "this makes no part of a module", got=repr(choice), expected="a class, a function, a Module or rf.build_dict(…)"
    )


def given(**options: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: x for name, x in options.items() if x is not None}
