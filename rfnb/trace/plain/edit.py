"""Edits of a paused loop of plain Python: new values for the local variables of the frame that runs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, plain_tensor
from rfnb.errors import LoopError
from rfnb.ops.math import where
from rfnb.trace.plain.edited_value import edited_value, has_numbers, reason_missing
from rfnb.trace.plain.values import backend_of

if TYPE_CHECKING:
    from rfnb.trace.run.step import RunStep

TRUTH = {"true": True, "false": False}


def edited(name: str, old: Any, new: Any, at: RunStep) -> Any:
    """The value that a variable gets by an edit: of the type, shape, dtype and device of its old one.

    The new entries of a tensor are constants to gradients, all others go on.

    Args:
        name: of the variable.
        old: its value.
        new: as `edited_value` takes it; for all but texts also the text of a number, or an expression.
        at: the step, for expressions.

    Raises LoopError for a variable that cannot be edited, LoopError and DtypeError for values that do not fit,
    ExpressionError for a text that is neither a number nor an expression.
    """
    if isinstance(new, str) and not isinstance(old, str):
        new = _of_text(new.strip(), at)
    _check(name, old)
    raw = old._raw if isinstance(old, Tensor) else old
    backend = backend_of(raw)
    value = edited_value(name, old, new)
    if backend is None or not backend.needs_gradient_raw(raw):
        return value
    result = value._raw if isinstance(old, Tensor) else value
    raw = result if np.ndim(getattr(new, "_raw", new)) == 0 else _changed(raw, result)
    return old.like(raw) if isinstance(old, Tensor) else raw


def _check(name: str, old: Any) -> None:
    """Raises LoopError for a variable that cannot be edited, whatever its new value is."""
    raw = old._raw if isinstance(old, Tensor) else old
    backend = backend_of(raw)
    if backend is not None and not backend.is_readable_raw(raw):
        raise LoopError(f"edit: `{name}` cannot be edited, as its numbers cannot be read", got=type(raw).__name__)
    if backend is not None and backend.is_leaf_raw(raw):
        raise LoopError(
            f"edit: `{name}` is a parameter: what holds it, such as an optimizer, would keep the old one",
            hint=f"with torch.no_grad(): {name}.fill_(…), in the code",
        )


def locked(names: Iterable[str], values: Mapping[str, Any]) -> dict[str, str]:
    """The states that cannot be edited with numbers, with the reasons. values: the variables of the frame."""
    reasons: dict[str, str] = {}
    for name in names:
        try:
            _check(name, values.get(name))
        except LoopError as error:
            reasons[name] = error.what.removeprefix("edit: ")
        if name not in values:
            reasons[name] = reason_missing(name)
        elif not has_numbers(values[name]):
            reasons[name] = f"`{name}` has no numbers: it is of type {type(values[name]).__name__}"
    return reasons


def write_variables(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Writes variables of a frame that runs."""
    for name, value in values.items():
        names = frame.f_locals if name in frame.f_locals else frame.f_globals
        names[name] = value
        if sys.version_info < (3, 13):  # there, `f_locals` is a copy for functions
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _changed(raw: Any, made: Any) -> Any:
    """The old tensor with the entries that differ in the new one."""
    backend, old = backend_of_raw(raw), plain_tensor(raw)
    before, after = backend.to_numpy_raw(raw), backend.to_numpy_raw(made)
    differs = np.asarray((before != after) & ((before == before) | (after == after)))
    return where(old.like(backend.from_numpy_raw(differs, old.device)), old.like(made), old)._raw


def _of_text(text: str, at: RunStep) -> Any:
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    for kind in (int, float):
        try:
            return kind(text.replace("−", "-"))
        except ValueError:
            pass
    return at.eval(text)
