"""New values of variables of plain Python code, checked against the values that they replace."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DtypeError, LoopError
from rfnb.printable import printable
from rfnb.trace.plain.values import backend_of

NUMBERS = bool | int | float | complex | np.generic


def edited_value(name: str, old: Any, new: Any) -> Any:
    """A value for a variable that is of the kind of the old one: a tensor or array of its shape and dtype, a number, a
    text, a container of its type.

    A number, or a tensor that can be broadcast, fills a tensor; a list of numbers takes those of a tensor. The new
    value shares no memory with anything.

    Raises DtypeError for numbers that the dtype cannot hold, LoopError for other values that do not fit.
    """
    if isinstance(old, Tensor):
        if isinstance(new, Tensor):
            new = new.copy_compatible_to_dims_raw(old.dims) if new.dims_set <= old.dims_set else new._raw
        return tensor_of(edited_value(name, old._raw, new), old.sig, old.lengths)
    if isinstance(new, Tensor):
        new = new._raw
    if isinstance(old, np.ndarray) or backend_of(old) is not None:
        return _filled(name, old, new)
    if isinstance(old, NUMBERS):
        return _number(name, old, new)
    if old is None or isinstance(new, type(old)):
        return copy.deepcopy(new)
    if has_numbers(old) and len(getattr(new, "shape", ())) == 1:
        return type(old)(_filled(name, np.asarray(old), new).tolist())
    raise _refused(name, new, f"{printable(type(old).__name__)}, as it is")


def has_numbers(value: Any) -> bool:
    """Whether the new value of a variable with this one may be a tensor."""
    if isinstance(value, Tensor | np.ndarray | NUMBERS) or backend_of(value) is not None:
        return True
    return type(value) in (list, tuple) and bool(value) and all(isinstance(part, bool | int | float) for part in value)


def reason_missing(name: str) -> str:
    """Why something with this name, which has a value in the loop, cannot be edited."""
    return f"`{name}` {'has no value yet' if name.isidentifier() else 'is an attribute, not a variable'}"


def _number(name: str, old: object, new: object) -> Any:
    """A number of the type of the old one; a tensor or array with one entry is one too."""
    if type(new) is type(old):
        return new
    dtype = np.dtype(type(old)) if not isinstance(old, np.generic) else old.dtype
    value = _numbers(name, new, dtype, ()).astype(dtype)[()]
    return value if isinstance(old, np.generic) else value.item()


def _filled(name: str, old: Any, new: Any) -> Any:
    """A tensor or array like the old one."""
    backend, shape = raw_registry.backend_of_raw(old), tuple(old.shape)
    if type(new) is type(old) and tuple(new.shape) == shape and new.dtype == old.dtype:
        numbers: Any = new.detach() if backend_of(new) is not None else new
    else:
        like = np.asarray(old if isinstance(old, np.ndarray) else backend.to_numpy_raw(old[..., :0] if shape else old))
        numbers = np.array(_numbers(name, new, like.dtype, shape))
    if isinstance(old, np.ndarray):
        return np.array(numbers, old.dtype)
    raw = backend.convert_raw(numbers, backend.get_dtype_name_raw(old), backend.get_device_raw(old))
    return backend.snapshot_raw(raw)


def _numbers(name: str, new: object, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers as an array of a shape, which a dtype can hold."""
    backend = backend_of(new)
    try:
        array = np.asarray(new if backend is None else backend.to_numpy_raw(new))
        array = np.broadcast_to(array, shape)
    except (ValueError, TypeError):
        raise _refused(name, new, f"shape {list(shape)}") from None
    if array.dtype.kind not in "biufc":
        raise _refused(name, new, f"numbers that fit {dtype}")
    if array.dtype.kind == "c" and dtype.kind != "c":
        fits = False
    else:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype)
            equal = converted == array if dtype.kind in "biu" else np.isfinite(converted) >= np.isfinite(array)
        fits = bool(equal.all()) and (dtype.kind != "b" or array.dtype.kind == "b")
    if not fits:
        raise DtypeError(f"`{name}` cannot hold this value", got=_text(new), expected=str(dtype))
    return array


def _refused(name: str, new: object, expected: str) -> LoopError:
    return LoopError(f"`{name}` cannot have this value", got=_text(new), expected=expected)


def _text(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {list(shape)}" if shape else printable(repr(value))[:60]
