"""The results of a bridged module: from Tensors to raw tensors and lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import form_of
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.core.tensor.tensor_dict import State, TensorDict, as_dicts
from rfnb.errors import DimError
from rfnb.nn.bridge.symbolic import SymbolicValues


class Outputs:
    """The dims of the results, in the order that their raw tensors shall have."""

    def __init__(self, out_dims: Any):
        if not isinstance(out_dims, Mapping | list | tuple):
            check_dims(out_dims, "out_dims")
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
        """The raw tensors with these dims, followed by lengths."""
        tensors = self._tensors(as_dicts(result))
        raws = {name: tensors[name].copy_transpose(dims).raw_tensor for name, dims in self.entries.items()}
        values = raws if self.by_name else next(iter(raws.values())) if self.single else tuple(raws.values())
        if not self.ragged:
            return values
        lengths = {dim.name: self._lengths(dim, tensors) for dim in self.ragged}
        lengths_only = next(iter(lengths.values())) if len(lengths) == 1 else lengths
        return (values, lengths_only) if self.by_name or self.single else (*values, lengths_only)

    def _tensors(self, result: Any) -> dict[Any, Tensor]:
        if self.by_name and isinstance(result, dict):
            tensors = {name: value for name, value in result.items() if isinstance(value, Tensor)}
        else:
            tensors = dict(zip(self.entries, tensors_in(result), strict=False))
        missing = [name for name in self.entries if name not in tensors]
        if missing:
            raise DimError(
                f"to_torch: `out_dims` describe {len(self.entries)} results",
                got=", ".join(map(str, tensors)) or "no Tensor",
                expected=", ".join(map(str, self.entries)),
            )
        return tensors

    def _lengths(self, dim: Dim, tensors: dict[Any, Tensor]) -> torch.Tensor:
        owner = next(tensors[name] for name, dims in self.entries.items() if dim in dims)
        return lengths_raw(dim, owner.size_of(dim), owner)


def raws_of(result: Any) -> Any:
    """The structure with raw tensors for Tensors and lengths for Dims."""
    return with_leaves(_raw_of, result)


def _raw_of(leaf: Any) -> Any:
    if isinstance(leaf, TensorDict):
        return {name: x.raw_tensor for name, x in leaf.data.items()}
    if isinstance(leaf, Dim):
        return lengths_raw(leaf, leaf.size)
    return leaf.raw_tensor if isinstance(leaf, Tensor) else leaf


def with_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The structure with `fn(leaf)` for each leaf, and a plain dict, which torch knows, for each State."""
    if isinstance(tree, State):
        tree = dict(tree)
    form = form_of(type(tree))
    return fn(tree) if form is None else form.like(tree, [with_leaves(fn, part) for part in form.parts(tree)])


def lengths_raw(dim: Dim, size: Size, of: Tensor | None = None) -> torch.Tensor:
    """The lengths as a torch tensor; without padding, the size repeated for each entry of the first dim of `of`."""
    values = size.values
    raw = values.raw if isinstance(values, SymbolicValues) else torch.tensor(values)
    if isinstance(raw, torch.Tensor) and (raw.ndim or of is None):
        return raw
    shape = () if of is None or dim is of.dims[0] else of.raw_tensor.shape[:1]
    return torch.ones(shape, dtype=torch.int64) * raw
