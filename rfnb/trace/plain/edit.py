"""Edits of a paused loop of plain Python: new values for the local variables of the frame that runs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.plain import plain_tensor
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError, LoopError
from rfnb.ops.math import where
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
        new: a number, a text, a list of numbers, an array, or a tensor; for all but texts also the text of a number, or
            an expression.
        at: the step, for expressions.

    Raises LoopError for a variable that cannot be edited, DimError for another shape, DtypeError for values that it
    cannot hold, ExpressionError for a text that is neither a number nor an expression.
    """
    if isinstance(old, str):
        if not isinstance(new, str):
            raise DtypeError(f"edit: `{name}` is a text", got=type(new).__name__, expected="a text")
        return new
    if isinstance(old, Tensor) and old.raw_tensor is not None:
        if isinstance(new, Tensor) and new.dims and set(new.dims) == set(old.dims):
            new = new.copy_transpose(old.dims)
        return old.like(_edited_raw(name, old._raw, _array(name, new, at)))
    if backend_of(old) is not None:
        return _edited_raw(name, old, _array(name, new, at))
    if not isinstance(old, bool | int | float | complex | np.generic | np.ndarray):
        raise LoopError(
            f"edit: `{name}` cannot be edited, as it is a {type(old).__name__}",
            expected="a tensor, an array, a number, a bool or a text",
        )
    kind = np.asarray(old).dtype
    array = _fitting(name, _array(name, new, at), np.shape(old), str(kind))
    with np.errstate(all="ignore"):
        made = np.broadcast_to(array, np.shape(old)).astype(kind)
    _check_held(name, array, made, str(kind))
    return made if isinstance(old, np.ndarray) else type(old)(made.item() if not isinstance(old, np.generic) else made)


def write_variables(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Writes variables of a frame that runs."""
    for name, value in values.items():
        names = frame.f_locals if name in frame.f_locals else frame.f_globals
        names[name] = value
        if sys.version_info < (3, 13):  # there, `f_locals` is a copy for functions
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _edited_raw(name: str, raw: Any, array: np.ndarray) -> Any:
    backend = backend_of_raw(raw)
    if not backend.is_readable_raw(raw):
        raise LoopError(f"edit: `{name}` cannot be edited, as its numbers cannot be read", got=type(raw).__name__)
    if backend.is_leaf_raw(raw):
        raise LoopError(
            f"edit: `{name}` is a parameter: what holds it, such as an optimizer, would keep the old one",
            hint=f"with torch.no_grad(): {name}.fill_(…), in the code",
        )
    old, shape = plain_tensor(raw), tuple(backend.get_shape_tuple_raw(raw))
    array = _fitting(name, array, shape, old.dtype)
    made = backend.convert_raw(np.broadcast_to(array, shape).copy(), old.dtype, old.device)
    if type(made) is not type(raw):
        raise LoopError(f"edit: `{name}` cannot be edited, as it is a {type(raw).__name__}")
    _check_held(name, array, backend.to_numpy_raw(made), old.dtype)
    before = backend.to_numpy_raw(raw)
    same = (before == backend.to_numpy_raw(made)) | ((before != before) & (array != array))
    if array.ndim == 0 or not same.any() or not backend.needs_gradient_raw(raw):
        return made
    return where(old.like(backend.from_numpy_raw(~same, old.device)), old.like(made), old)._raw


def _array(name: str, new: Any, at: RunStep) -> np.ndarray:
    """The numbers of a new value."""
    if isinstance(new, str):
        new = _of_text(new.strip(), at)
    raw = new._raw if isinstance(new, Tensor) and new.raw_tensor is not None else new
    backend = backend_of(raw)
    try:
        array = np.asarray(raw if backend is None else backend.to_numpy_raw(raw))
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        raise DtypeError(f"edit: the new value of `{name}` is not numbers", got=type(new).__name__)
    return array


def _of_text(text: str, at: RunStep) -> Any:
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    for kind in (int, float):
        try:
            return kind(text.replace("−", "-"))
        except ValueError:
            pass
    return at.eval(text)


def _fitting(name: str, array: np.ndarray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """One number for all entries, or one for each."""
    if array.dtype.kind == "c" and not dtype.startswith("complex"):
        raise _not_held(name, array, dtype)
    if array.shape not in ((), shape):
        raise DimError(f"edit: the new value of `{name}` has another shape", got=str(array.shape), expected=str(shape))
    return array


def _check_held(name: str, array: np.ndarray, made: np.ndarray, dtype: str) -> None:
    """Raises DtypeError if numbers were changed by more than rounding."""
    fits = np.isfinite(made) | ~np.isfinite(array) if made.dtype.kind in "fc" else made == array
    if not fits.all():
        raise _not_held(name, array, dtype)


def _not_held(name: str, array: np.ndarray, dtype: str) -> DtypeError:
    return DtypeError(f"edit: `{name}` cannot hold the new value", got=str(array.dtype), expected=dtype)
