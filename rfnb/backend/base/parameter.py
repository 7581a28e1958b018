"""Setting, changing and moving the values of parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.index import check_range
from rfnb.backend.base.require import axis_of, require_ints
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import ParameterError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.core.tensor.parameter import Parameter

Key = int | slice | Tensor
OPS = ("assign", "add")


class ParameterOps:
    """Raw part: `parameter_assign_raw(raw, value, op=)`, `parameter_assign_at_raw(raw, index, value, op=)`, where
    `index` has an array of positions, or a full slice, for each axis, and `parameter_move_raw(raw, device, dtype)`.
    """

    parameter_assign_raw: Callable[..., None]
    parameter_assign_at_raw: Callable[..., None]
    parameter_move_raw: Callable[[RawTensor, str | None, str | None], None]

    @classmethod
    def set_parameter_initial_value(cls: type[Backend], param: Parameter, value: object) -> None:
        """Sets the initial values; None means 0."""
        cls.parameter_assign(param, 0 if value is None else value)

    @classmethod
    def parameter_assign(cls: type[Backend], param: Parameter, value: object, *, op: str = "assign") -> None:
        """Sets the values ("assign"), or adds to them ("add"): a number, an array, or a Tensor."""
        cls.parameter_assign_raw(param._raw, _aligned(cls, param, value, param.dims, op), op=op)

    @classmethod
    def parameter_assign_key(
        cls: type[Backend],
        param: Parameter,
        key: Key | Sequence[Key],
        value: object,
        *,
        op: str = "assign",
        axis: Dim | Sequence[Dim | None] | None = None,
        key_dim: Dim | Sequence[Dim | None] | None = None,
    ) -> None:
        """Sets, or adds to, the values at `key` along `axis`: a number, a slice, or indices {…}; or several at once.

        A slice gives `key_dim`; indices keep their dims, and shared dims are aligned. "add" adds all of
        several values for the same place.
        """
        keys: list[Any] = list(key) if isinstance(key, list | tuple) else [key]
        axes = [_axis(k, a) for k, a in zip(keys, _each(axis, len(keys), "axis"), strict=True)]
        places = {
            a: _indices(cls, param, *entry)
            for a, *entry in zip(axes, axes, keys, _each(key_dim, len(keys), "key_dim"), strict=True)
        }
        for dim in param.dims:  # an axis that indices share is aligned with them
            if dim not in places and (op == "add" or any(dim in p.dims for p in places.values())):
                places[dim] = _along(cls, param, dim, range(dim.dimension or 0))
        over = list(dict.fromkeys(d for dim in param.dims if dim in places for d in places[dim].dims))
        at = [param.axis(dim) for dim in places]
        outer = param.dims[: min(at)] if max(at) - min(at) + 1 == len(at) else ()
        out = [*outer, *over, *(d for d in param.dims if d not in outer and d not in places)]
        index = [
            align.apply(align.move(places[dim].dims, over, trailing=False), places[dim]._raw)
            if dim in places
            else slice(None)
            for dim in param.dims
        ]
        try:
            cls.parameter_assign_at_raw(param._raw, tuple(index), _aligned(cls, param, value, out, op), op=op)
        except (IndexError, RuntimeError):
            for dim, place in places.items():
                check_range(cls, "assign_key", place, (dim,), (dim.dimension or 0,))
            raise

    @classmethod
    def parameter_move_to(
        cls: type[Backend], param: Parameter, *, device: str | None = None, dtype: str | None = None
    ) -> None:
        """Moves the values to a device, or casts them, in place."""
        cls.parameter_move_raw(param._raw, device, dtype)


def _aligned(backend: type[Backend], param: Parameter, value: object, dims: Sequence[Dim], op: str) -> object:
    """The raw value in the order of `dims`, to be broadcast; a number stays a number."""
    if op not in OPS:
        raise ParameterError("assign: unknown `op`", got=repr(op), expected=" or ".join(OPS))
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, Tensor):
        extra = [dim for dim in value.dims if dim not in dims]
        if extra:
            raise ParameterError(
                f"assign: {param.name} has no dim {extra[0].name}",
                got=value.describe_dims(),
                expected=align.show_dims(dims),
            )
        return value.copy_compatible_to_dims_raw(dims)
    raw = backend.convert_raw(value, param.dtype, param.device)
    shape, expected = backend.get_shape_tuple_raw(raw), tuple(dim.size.max for dim in dims)
    if shape not in ((), expected):
        raise ParameterError(f"assign: the array has a different shape than {param.name}", got=shape, expected=expected)
    return raw


def _each(given: object, count: int, name: str) -> list[Any]:
    entries = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(entries) != count:
        raise ParameterError(
            f"assign_key: the number of `{name}` differs from the number of keys", got=len(entries), expected=count
        )
    return entries


def _axis(key: Key, axis: Dim | None) -> Dim:
    axis = key.sparse_dim if axis is None and isinstance(key, Tensor) else axis
    if axis is None:
        raise ParameterError("assign_key: `axis` is missing, and the key does not imply it", got=key, hint="axis=dim")
    return axis


def _indices(backend: type[Backend], param: Parameter, axis: Dim, key: Key, key_dim: Dim | None) -> Tensor:
    """A key as indices along `axis`."""
    size = param.dims[axis_of("assign_key", param, axis, param.name)].dimension or 0
    if isinstance(key, Tensor):
        require_ints("assign_key", key, "key")
        return key.like(backend.cast_raw(key._raw, "int64"))
    if isinstance(key, slice):
        positions = range(size)[key]
        dim = Dim(len(positions), name=f"{axis.name}_slice") if key_dim is None else key_dim
        if dim.size.max != len(positions):
            raise ParameterError(
                "assign_key: the slice has a different size than `key_dim`", got=len(positions), expected=dim
            )
        return _along(backend, param, dim, positions)
    if not -size <= int(key) < size:
        raise ParameterError(f"assign_key: {axis.name} has no entry {key}", got=key, expected=f"less than {size}")
    return _along(backend, param, None, [int(key) % size])


def _along(backend: type[Backend], param: Parameter, dim: Dim | None, positions: Sequence[int]) -> Tensor:
    values = np.array(positions if dim is not None else positions[0], dtype=np.int64)
    raw = backend.from_numpy_raw(values, backend.device_key_raw(param._raw))
    return tensor_of(raw, align.sig([] if dim is None else [dim]), EMPTY)
