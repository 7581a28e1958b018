"""Where raw tensors and lengths become Tensors with dims, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rfnb.core.binding import current_lengths
from rfnb.core.dim import Dim, check_dims
from rfnb.core.lengths import Size
from rfnb.core.nested import leaves
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.core.tensor_dict import as_dicts
from rfnb.errors import DimError, ParameterError
from rfnb.nn.bridge.symbolic import SymbolicValues, symbolic_size
from rfnb.ops.convert import convert_to_tensor


class Inputs:
    """The dims of the arguments of a call: a list of dims, a template, or a Dim for each, by position or by name."""

    def __init__(self, in_dims: Any):
        by_name = isinstance(in_dims, Mapping)
        if not by_name and in_dims and all(isinstance(entry, Dim) for entry in in_dims):
            in_dims = [in_dims]  # of the only argument
        entries = dict(in_dims.items() if by_name else enumerate(in_dims))
        self.by_name = by_name
        self.entries: dict[Any, Any] = {name: _template(entry, name) for name, entry in entries.items()}
        self.raws = [name for name, entry in self.entries.items() if isinstance(entry, Tensor)]
        self.ragged = _ragged([entry.dims for entry in self.entries.values() if isinstance(entry, Tensor)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inputs) and _described(self.entries) == _described(other.entries)

    __hash__ = None  # type: ignore[assignment]

    def tensors(
        self, args: Sequence[Any], kwargs: dict[str, Any], lengths: Any, *, traced: bool = False
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the module, from raw tensors and the lengths behind them."""
        positional = [name for name in self.raws if name not in kwargs]
        given = dict(zip(positional, args, strict=False)) | {n: kwargs.pop(n) for n in self.raws if n in kwargs}
        missing = [name for name in self.raws if name not in given]
        if missing:
            raise ParameterError(
                f"to_torch: the argument {missing[0]!r} is missing", got=f"{len(args)} tensors", expected=self._call()
            )
        known = self._lengths(args[len(positional) :], lengths)
        whole = {name: entry if isinstance(entry, Dim) else given[name] for name, entry in self.entries.items()}
        bind = _traced if traced else _bound
        if not traced:
            self._new_batch(whole, known)
        for name in self.raws:
            if whole[name] is not None:
                whole[name] = bind(str(name), self.entries[name], whole[name], known)
        return ([], whole | kwargs) if self.by_name else (list(whole.values()), kwargs)

    def _new_batch(self, raws: dict[Any, Any], lengths: dict[Dim, Any]) -> None:
        """Dims without lengths have the size of the first argument that has them; those of the last batch are gone."""
        seen: set[Dim] = set()
        for name in self.raws:
            dims = self.entries[name].dims if raws[name] is not None else ()
            for dim, size in zip(dims, getattr(raws[name], "shape", ()), strict=False):
                if dim in seen or dim.is_static() or dim.expr is not None:
                    continue
                seen.add(dim)
                dim.reset_raw()
                if dim not in lengths:
                    dim.bind(Size([], size))

    def _lengths(self, behind: Sequence[Any], named: Any) -> dict[Dim, Any]:
        if named is not None and not isinstance(named, Mapping):
            behind, named = [*behind, named], None
        if len(behind) > len(self.ragged):
            raise ParameterError("to_torch: too many arguments", got=f"{len(behind)} lengths", expected=self._call())
        known = dict(zip(self.ragged, behind, strict=False))
        for name, values in (named or {}).items():
            dim = next((dim for dim in self.ragged if name in (dim, dim.name)), None)
            if dim is None:
                raise ParameterError(
                    f"to_torch: lengths of {name!r}, which is no dim of an argument",
                    got=name,
                    expected=", ".join(dim.name for dim in self.ragged) or "no lengths",
                )
            known[dim] = values
        return {dim: values for dim, values in known.items() if values is not None}

    def _call(self) -> str:
        """What the call looks like, for messages."""
        names = [str(name) if self.by_name else f"argument{name}" for name in self.raws]
        return f"({', '.join([*names, *(f'lengths of {dim.name}' for dim in self.ragged)])})"


class Outputs:
    """The dims of the results."""

    def __init__(self, out_dims: Any):
        self.single = not isinstance(out_dims, Mapping) and all(isinstance(entry, Dim) for entry in out_dims)
        entries = {"": out_dims} if self.single else out_dims
        self.entries = dict(entries.items() if isinstance(entries, Mapping) else enumerate(entries))
        for name, dims in self.entries.items():
            check_dims(dims, f"out_dims {name!r}" if name != "" else "out_dims")
        self.entries = {name: tuple(dims) for name, dims in self.entries.items()}
        self.by_name = isinstance(out_dims, Mapping)
        self.ragged = [
            dim for dim in dict.fromkeys(d for dims in self.entries.values() for d in dims[1:]) if dim.is_dynamic()
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outputs) and (self.single, self.entries) == (other.single, other.entries)

    __hash__ = None  # type: ignore[assignment]

    def raws(self, result: Any) -> Any:
        """The raw tensors with these dims, and the lengths behind them."""
        tensors = self._tensors(as_dicts(result))
        raws = {name: tensors[name].copy_transpose(dims).raw_tensor for name, dims in self.entries.items()}
        found = raws if self.by_name else next(iter(raws.values())) if self.single else tuple(raws.values())
        if not self.ragged:
            return found
        lengths = {dim.name: self._lengths(dim, tensors) for dim in self.ragged}
        lengths_only = next(iter(lengths.values())) if len(lengths) == 1 else lengths
        return (found, lengths_only) if self.by_name or self.single else (*found, lengths_only)

    def _tensors(self, result: Any) -> dict[Any, Tensor]:
        if self.by_name and isinstance(result, dict):
            found = {name: value for name, value in result.items() if isinstance(value, Tensor)}
        else:
            found = dict(zip(self.entries, [x for x in leaves(result) if isinstance(x, Tensor)], strict=False))
        missing = [name for name in self.entries if name not in found]
        if missing:
            raise DimError(
                f"to_torch: `out_dims` tell of {len(self.entries)} results",
                got=", ".join(map(str, found)) or "no Tensor",
                expected=", ".join(map(str, self.entries)),
            )
        return found

    def _lengths(self, dim: Dim, tensors: dict[Any, Tensor]) -> torch.Tensor:
        owner = next(tensors[name] for name, dims in self.entries.items() if dim in dims)
        return lengths_raw(dim, owner.size_of(dim), owner)


def _template(entry: Any, name: Any) -> Tensor | Dim:
    if isinstance(entry, Tensor | Dim):
        return entry
    check_dims(entry, f"to_torch: in_dims of argument {name!r}")
    return Tensor(str(name), entry)


def _described(entries: dict[Any, Tensor | Dim]) -> dict[Any, Any]:
    return {name: entry if isinstance(entry, Dim) else entry.sig for name, entry in entries.items()}


def _ragged(arguments: Sequence[Sequence[Dim]]) -> list[Dim]:
    """The dims that come with lengths, in the order of appearance: those that the data sizes, but no first ones."""
    first = {dims[0] for dims in arguments if dims}
    dims = [dim for dims in arguments for dim in dims if dim not in first]
    return [dim for dim in dict.fromkeys(dims) if dim.is_dynamic() and dim.expr is None]


def _bound(name: str, template: Tensor, raw: Any, lengths: dict[Dim, Any]) -> Tensor:
    own = {dim: lengths[dim] for dim in template.dims if dim in lengths}
    return convert_to_tensor(
        raw,
        dims=template.dims,
        sparse_dim=template.sparse_dim,
        feature_dim=template.feature_dim,
        lengths=own,
        name=name,
    )


def _traced(name: str, template: Tensor, raw: Any, lengths: dict[Dim, Any]) -> Tensor:
    """Likewise while torch traces: no number is read, and the padding stays as long as it is."""
    for axis, dim in enumerate(template.dims):
        if dim.is_dynamic() and dim.expr is None:
            dim.bind(symbolic_size(template.dims[0], lengths.get(dim), raw.shape[axis]))
    return tensor_of(raw, template.sig, current_lengths(template.dims)).with_name(name)


def raws_of(result: Any) -> Any:
    """The structure, of plain dicts, lists and tuples, with raw tensors for Tensors, and lengths for dims."""
    result = as_dicts(result)
    if isinstance(result, dict):
        return {name: raws_of(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        parts = [raws_of(value) for value in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, Dim):
        return lengths_raw(result, result.size)
    return result.raw_tensor if isinstance(result, Tensor) else result


def lengths_raw(dim: Dim, size: Size, of: Tensor | None = None) -> torch.Tensor:
    """The lengths as torch has them; where there is no padding, the same for each entry of the first dim of `of`."""
    values = size.values
    raw = values.raw if isinstance(values, SymbolicValues) else torch.tensor(values)
    if isinstance(raw, torch.Tensor) and (raw.ndim or of is None):
        return raw
    shape = () if of is None or dim is of.dims[0] else of.raw_tensor.shape[:1]
    return torch.ones(shape, dtype=torch.int64) * raw
