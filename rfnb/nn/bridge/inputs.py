"""The arguments of a bridged module: from raw tensors and lengths to Tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.tensor.template import NoData
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import ParameterError
from rfnb.nn.bridge.symbolic import symbolic_size
from rfnb.ops.convert import convert_to_tensor


class RawArguments(NamedTuple):
    """The raw arguments of a call by position or name, the lengths of their dims, and all other arguments."""

    raws: dict[Any, Any]
    lengths: dict[Dim, Any]
    more: dict[str, Any]

    def has_numbers(self) -> bool:
        """Whether lengths can be read as numbers, which they cannot inside `torch.vmap`."""
        try:
            for values in self.lengths.values():
                if isinstance(values, torch.Tensor):
                    values.tolist()
        except RuntimeError:
            return False
        return True


class Inputs:
    """The dims of the arguments, by position or name: for each a list of dims, a template, or a Dim to pass on."""

    def __init__(self, in_dims: Any):
        by_name = isinstance(in_dims, Mapping)
        if not by_name and not isinstance(in_dims, list | tuple):
            check_dims(in_dims, "in_dims")
        if not by_name and in_dims and all(isinstance(entry, Dim) for entry in in_dims):
            in_dims = [in_dims]  # there is only one argument
        entries = dict(in_dims.items() if by_name else enumerate(in_dims))
        self.by_name = by_name
        self.entries: dict[Any, Any] = {name: _template(entry, name) for name, entry in entries.items()}
        self.raws = [name for name, entry in self.entries.items() if isinstance(entry, Tensor)]
        self.ragged = _ragged([entry.dims for entry in self.entries.values() if isinstance(entry, Tensor)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inputs) and _described(self.entries) == _described(other.entries)

    __hash__ = None  # type: ignore[assignment]

    def given(self, args: Sequence[Any], kwargs: dict[str, Any], lengths: Any) -> RawArguments:
        """Sorts the arguments of a call. Raises ParameterError if there are too few or too many."""
        positional = [name for name in self.raws if name not in kwargs]
        raws = dict(zip(positional, args, strict=False)) | {n: kwargs[n] for n in self.raws if n in kwargs}
        missing = [name for name in self.raws if name not in raws]
        if missing:
            raise ParameterError(
                f"to_torch: the argument {missing[0]!r} is missing", got=f"{len(args)} tensors", expected=self._call()
            )
        dim_lengths = self._lengths(args[len(positional) :], lengths)
        return RawArguments(raws, dim_lengths, {name: value for name, value in kwargs.items() if name not in raws})

    def tensors(self, given: RawArguments, *, traced: bool) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the rfnb module. traced: whether lengths must not be read as numbers."""
        values = {n: entry if isinstance(entry, Dim) else given.raws[n] for n, entry in self.entries.items()}
        bind = _traced if traced else _bound
        if not traced:
            self._new_batch(values, given.lengths)
        for name in self.raws:
            if values[name] is not None:
                values[name] = bind(str(name), self.entries[name], values[name], given.lengths)
        return ([], values | given.more) if self.by_name else (list(values.values()), given.more)

    def _new_batch(self, raws: dict[Any, Any], lengths: dict[Dim, Any]) -> None:
        """Binds dims without lengths to their size in the first argument with that dim, and forgets the last batch."""
        bound: set[Dim] = set()
        for name in self.raws:
            dims = self.entries[name].dims if raws[name] is not None else ()
            for dim, size in zip(dims, getattr(raws[name], "shape", ()), strict=False):
                if dim in bound or dim.is_static() or dim.expr is not None:
                    continue
                bound.add(dim)
                dim.reset_raw()
                if dim not in lengths:
                    dim.bind(Size([], size))

    def _lengths(self, trailing: Sequence[Any], named: Any) -> dict[Dim, Any]:
        if named is not None and not isinstance(named, Mapping):
            trailing, named = [*trailing, named], None
        if len(trailing) > len(self.ragged):
            raise ParameterError("to_torch: too many arguments", got=f"{len(trailing)} lengths", expected=self._call())
        by_dim = dict(zip(self.ragged, trailing, strict=False))
        for name, values in (named or {}).items():
            dim = next((dim for dim in self.ragged if name in (dim, dim.name)), None)
            if dim is None:
                raise ParameterError(
                    f"to_torch: lengths are given for {name!r}, which is not a dim of an argument",
                    got=name,
                    expected=", ".join(dim.name for dim in self.ragged) or "no lengths",
                )
            by_dim[dim] = values
        return {dim: values for dim, values in by_dim.items() if values is not None}

    def _call(self) -> str:
        """The signature of the call, for messages."""
        names = [str(name) if self.by_name else f"argument{name}" for name in self.raws]
        return f"({', '.join([*names, *(f'lengths of {dim.name}' for dim in self.ragged)])})"


def _template(entry: Any, name: Any) -> Tensor | Dim:
    if isinstance(entry, Tensor | Dim):
        return entry
    check_dims(entry, f"to_torch: in_dims of argument {name!r}")
    template = tensor_of(NoData("float32"), align.sig(entry), EMPTY)  # whatever batch the dims are bound to now
    template.name = str(name)
    return template


def _described(entries: dict[Any, Tensor | Dim]) -> dict[Any, Any]:
    return {name: entry if isinstance(entry, Dim) else entry.sig for name, entry in entries.items()}


def _ragged(arguments: Sequence[Sequence[Dim]]) -> list[Dim]:
    """The dims that take lengths, in order of appearance: dynamic dims except the first of an argument."""
    leading = {dims[0] for dims in arguments if dims}
    dims = [dim for dims in arguments for dim in dims if dim not in leading]
    return [dim for dim in dict.fromkeys(dims) if dim.is_dynamic() and dim.expr is None]


def _bound(name: str, template: Tensor, raw: Any, lengths: dict[Dim, Any]) -> Tensor:
    sizes = {dim: lengths[dim] for dim in template.dims if dim in lengths}
    return convert_to_tensor(
        raw,
        dims=template.dims,
        sparse_dim=template.sparse_dim,
        feature_dim=template.feature_dim,
        lengths=sizes,
        name=name,
    )


def _traced(name: str, template: Tensor, raw: Any, lengths: dict[Dim, Any]) -> Tensor:
    """A Tensor while torch is tracing: no length is read as a number, and padding is not trimmed."""
    for axis, dim in enumerate(template.dims):
        if dim.is_dynamic() and dim.expr is None:
            dim.bind(symbolic_size(template.dims[0], lengths.get(dim), raw.shape[axis]))
    return tensor_of(raw, template.sig, current_lengths(template.dims)).with_name(name)
