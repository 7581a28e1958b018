"""Modules as dicts: what a config or a checkpoint can hold."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import ParameterError
from rfnb.nn.module.module import Module

ROOT = __name__.partition(".")[0]
PREFIXES = ("rf", ROOT, "returnn.frontend")
"""What names of the public namespace may begin with."""


def build_dict(cls: Callable[..., Any], **kwargs: Any) -> dict[str, Any]:
    """A class and its options as a dict, from which `rf.build_from_dict` makes an object.

    >>> rf.build_dict(rf.Linear, with_bias=False)
    {'class': 'rf.Linear', 'with_bias': False}

    cls: a Module class, or a function: an activation, for example. Raises ParameterError for anything else.
    """
    _check_buildable(cls, "build_dict", getattr(cls, "__qualname__", repr(cls)))
    return {"class": _name_of(cls), **kwargs}


def build_from_dict(d: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """What `d["class"]` makes of the other entries, as options, and of the arguments given here.

    >>> inp, out = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> rf.build_from_dict({"class": "rf.Linear", "with_bias": False}, inp, out).bias is None
    True

    A function is not called: given options, it is a function of what is missing.

    >>> rf.build_from_dict({"class": "rf.relu"}) is rf.relu
    True

    Nothing is imported: the name is one of `rf` ("rf.Linear", "rf.decoder.transformer.FeedForwardGated"), or that of
    something in a module that is imported already: a subclass of rf.Module, or a function whose annotation says that it
    gives a Tensor ("my_model.Encoder"). Raises ParameterError for any other.
    """
    if not isinstance(d, Mapping) or "class" not in d:
        raise ParameterError("build_from_dict: a dict with a 'class' is needed", got=d, expected='{"class": "rf.…", …}')
    options = {name: value for name, value in d.items() if name != "class"}
    twice = sorted(set(options) & set(kwargs))
    if twice:
        raise ParameterError(f"build_from_dict: {twice[0]!r} is given twice", got=f"{d}, and {twice[0]}=…")
    cls = _find(d["class"]) if isinstance(d["class"], str) else d["class"]
    _check_buildable(cls, "build_from_dict", d["class"])
    if inspect.isclass(cls):
        return cls(*args, **options, **kwargs)
    return functools.partial(cls, *args, **options, **kwargs) if args or options or kwargs else cls


def _name_of(cls: Callable[..., Any]) -> str:
    name: str = cls.__qualname__
    return f"rf.{name}" if getattr(sys.modules[ROOT], name, None) is cls else f"{cls.__module__}.{name}"


def _find(name: str) -> Any:
    path = name.split(".")
    for prefix in PREFIXES:
        if name.startswith(f"{prefix}."):
            inside = path[prefix.count(".") + 1 :]
            found = _below(sys.modules[ROOT], inside)  # elsewhere, it may be in another file
            return _below(sys.modules[ROOT], inside[-1:]) if found is None else found
    for length in range(len(path) - 1, 0, -1):
        if (module := sys.modules.get(".".join(path[:length]))) is not None:
            return _below(module, path[length:])
    return _below(sys.modules[ROOT], path)


def _below(found: Any, path: list[str]) -> Any:
    """By what is there already: an attribute that a module computes might import something."""
    for name in path:
        if found is sys.modules[ROOT]:
            getattr(found, name, None)  # of its own names, some are imported when asked for
        found = None if name.startswith("_") else getattr(found, "__dict__", {}).get(name)
    return found


def _check_buildable(found: Any, what: str, name: object) -> None:
    if inspect.isclass(found):
        fine = issubclass(found, Module) or found.__module__.startswith(f"{ROOT}.nn.")
    else:
        fine = inspect.isfunction(found) and _gives_tensor(found)
    if not fine:
        raise ParameterError(
            f"{what}: there is no {name!r} that can be built" if found is None else f"{what}: {name!r} is not meant",
            got=None if found is None else f"{type(found).__name__} of {getattr(found, '__module__', '?')}",
            expected="a subclass of rf.Module, or a function with `-> Tensor`",
            hint=_nearest(str(name)) if found is None else None,
        )


def _gives_tensor(function: Any) -> bool:
    return "Tensor" in str(inspect.signature(function).return_annotation)


def _nearest(name: str) -> str | None:
    last = name.rpartition(".")[2]
    near = did_you_mean(last, _public(), "'rf.{}'")
    if near is None and "." in name and name.partition(".")[0] not in sys.modules:
        return f"import {name.rpartition('.')[0]} first"
    return near


def _public() -> Iterator[str]:
    for name, value in vars(sys.modules[ROOT]).items():
        if not name.startswith("_") and callable(value):
            yield name


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
