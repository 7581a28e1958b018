"""Modules from dicts, as a config or a checkpoint can hold them, and from the choices of a user."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.errors import ParameterError
from rfnb.nn.module.module import ROOT, Module, NotSpecified


class GetModelFunc(Protocol):
    """A function that makes the model: `get_model(epoch=…, step=…)`. It must accept further keyword arguments.

    >>> def get_model(*, epoch: int, step: int, **_: object) -> rf.Module:
    ...     return rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> make: rf.GetModelFunc = get_model
    """

    def __call__(self, *, epoch: int, step: int, **kwargs: object) -> Module:
        """Returns the model for this epoch and step."""


class StepFunc(Protocol):
    """A training step or forward step: `train_step(model=…, extern_data=…)` marks losses or outputs.

    >>> def train_step(*, model: rf.Module, extern_data: rf.TensorDict, **_: object) -> None:
    ...     model(extern_data["data"]).mark_as_loss("loss")
    >>> step: rf.StepFunc = train_step
    """

    def __call__(self, *, model: Module, extern_data: TensorDict, **kwargs: object) -> None:
        """Marks losses or outputs in the current run context."""


PREFIXES = ("rf", ROOT, "returnn.frontend")
"""Prefixes of names in the public namespace."""


def build_dict(cls: Callable[..., object], **kwargs: object) -> dict[str, Any]:
    """Describes a class and its options by a dict, from which `rf.build_from_dict` makes an object.

    >>> rf.build_dict(rf.Linear, with_bias=False)
    {'class': 'rf.Linear', 'with_bias': False}

    cls: a Module class, or a function such as an activation. Raises ParameterError for anything else.
    """
    _check_buildable(cls, "build_dict", getattr(cls, "__qualname__", repr(cls)))
    return {"class": _name_of(cls), **kwargs}


def build_from_dict(d: Mapping[str, object], *args: object, **kwargs: object) -> Any:
    """Calls the class `d["class"]` with the other entries as options and with the arguments given here.

    >>> inp, out = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> rf.build_from_dict({"class": "rf.Linear", "with_bias": False}, inp, out).bias is None
    True

    A function is not called: with options, the result is a function of the remaining arguments.

    >>> rf.build_from_dict({"class": "rf.relu"}) is rf.relu
    True

    Nothing is imported. The name is one of `rf` ("rf.Linear", "rf.decoder.transformer.FeedForwardGated"), or refers to
    a module that is already imported ("my_model.Encoder"), and then to a subclass of rf.Module or a function that is
    annotated to return a Tensor. Raises ParameterError for any other name.
    """
    if not isinstance(d, Mapping) or "class" not in d:
        raise ParameterError("build_from_dict: needs a dict with a 'class'", got=d, expected='{"class": "rf.…", …}')
    options = {name: value for name, value in d.items() if name != "class"}
    twice = sorted(set(options) & set(kwargs))
    if twice:
        raise ParameterError(f"build_from_dict: {twice[0]!r} is given twice", got=f"{d} and {twice[0]}=…")
    cls = class_of_name(d["class"])
    if inspect.isclass(cls):
        return cls(*args, **options, **kwargs)
    return functools.partial(cls, *args, **options, **kwargs) if args or options or kwargs else cls


def _name_of(cls: Callable[..., object]) -> str:
    name: str = cls.__qualname__
    return f"rf.{name}" if getattr(sys.modules[ROOT], name, None) is cls else f"{cls.__module__}.{name}"


def class_of_name(name: object) -> Any:
    """The class or function that `rf.build_from_dict` finds by this name. Raises ParameterError if it builds none."""
    cls = _find(name) if isinstance(name, str) else name
    _check_buildable(cls, "build_from_dict", name)
    return cls


def _find(name: str) -> object:
    path = name.split(".")
    for prefix in PREFIXES:
        if name.startswith(f"{prefix}."):
            names = path[prefix.count(".") + 1 :]
            member = _below(sys.modules[ROOT], names)  # elsewhere, it may be in another file
            return _below(sys.modules[ROOT], names[-1:]) if member is None else member
    for length in range(len(path) - 1, 0, -1):
        if (module := sys.modules.get(".".join(path[:length]))) is not None:
            return _below(module, path[length:])
    return _below(sys.modules[ROOT], path)


def _below(found: object, path: list[str]) -> object:
    """The attribute at `path`, if it already exists: attributes that a module computes might import something."""
    for name in path:
        if found is sys.modules[ROOT]:
            getattr(found, name, None)  # some names of rfnb itself are imported on first use
        found = None if name.startswith("_") else getattr(found, "__dict__", {}).get(name)
    return found


def _check_buildable(found: object, what: str, name: object) -> None:
    if inspect.isclass(found):
        fine = issubclass(found, Module) or found.__module__.startswith(f"{ROOT}.nn.")
    else:
        fine = inspect.isfunction(found) and "Tensor" in str(inspect.signature(found).return_annotation)
    if not fine:
        raise ParameterError(
            f"{what}: {name!r} cannot be found" if found is None else f"{what}: {name!r} cannot be built from a dict",
            got=None if found is None else f"{type(found).__name__} of {getattr(found, '__module__', '?')}",
            expected="a subclass of rf.Module, or a function with `-> Tensor`",
            hint=_nearest(str(name)) if found is None else None,
        )


def _nearest(name: str) -> str | None:
    tail = name.rpartition(".")[2]
    near = did_you_mean(tail, _public(), "'rf.{}'")
    if near is None and "." in name and name.partition(".")[0] not in sys.modules:
        return f"import {name.rpartition('.')[0]} first"
    return near


def _public() -> Iterator[str]:
    for name, value in vars(sys.modules[ROOT]).items():
        is_base = inspect.isclass(value) and issubclass(value, Module) and value.__call__ is Module.__call__
        if not name.startswith("_") and callable(value) and not is_base:
            yield name


Choice = type | dict[str, Any] | Module | Callable[..., Any]
"""A choice of a part: a class, the result of `rf.build_dict`, a module, which is copied, or a function."""


def build_part(choice: Choice, *args: object, **options: object) -> Any:
    """A part of a module: an object of a class or dict with these options, a copy of a module, or a function itself.

    Options in the dict have precedence.
    """
    if isinstance(choice, dict):
        return build_from_dict(choice, *args, **{name: x for name, x in options.items() if name not in choice})
    if isinstance(choice, Module):
        return copy.deepcopy(choice)  # so that layers made from one module do not share parameters
    if isinstance(choice, type | functools.partial):
        return choice(*args, **options)
    if callable(choice):
        return choice
    raise ParameterError(
        "no part of a module can be made from this",
        got=repr(choice),
        expected="a class, a function, a Module or rf.build_dict(…)",
    )


def given_options(**options: object) -> dict[str, object]:
    """The options that are neither None nor `NotSpecified`."""
    return {name: x for name, x in options.items() if x is not None and x is not NotSpecified}
