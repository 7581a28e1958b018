"""Growing axes: an op on values whose size differs per step is called as an op in each step, not as raw calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.backend.base.tape import Call, Tape, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import all_nodes
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of, tensors_in
from rfnb.errors import LoopError
from rfnb.trace.record.record import OpCall, Recorder

RENAMING = ("cum_concat_step", "replace_dim", "replace_dim_v2")
"""Ops that give an axis another dim, `out_dim` or `out_spatial_dim`."""


def grows(tree: object, roots: set[int]) -> bool:
    """Whether a structure of tensors and dims contains a dim that is derived from one of `roots`."""
    for leaf in leaves(tree):
        dims: Sequence[Dim] = leaf.dims if isinstance(leaf, Tensor) else [leaf] if isinstance(leaf, Dim) else ()
        if any(not roots.isdisjoint(dim.roots) for dim in dims):
            return True
    return False


def replace_grown(recorder: Recorder, sizes: Sequence[tuple[Dim, Var]]) -> None:
    """Replaces the raw calls of each op that works on a growing axis by one call of the op.

    An axis that such an op makes grows as well: its size becomes an additional result.
    """
    sizes, tape = list(sizes), recorder.tape
    roots = {dim.serial for dim, _ in sizes}
    serial = min(roots)  # Dims with a higher serial were made in the body
    for op_call in recorder.op_calls:
        if not grows([op_call.args, op_call.kwargs, op_call.result], roots):
            continue
        if op_call.node.kind == "cond":
            raise LoopError(
                f"{recorder.name}: a branch of `cond` works on an axis that grows",
                hint="give values of the same size in both sides and grow the axis outside of `cond`; or use rf.where",
            )
        if op_call.row.random:
            raise LoopError(
                f"{recorder.name}: random numbers over an axis that grows",
                got=op_call.row.name,
                hint="draw them before the loop for the largest size, and slice them in the body",
            )
        new_dims = _new_dims(op_call, serial, roots)
        repeated = _RepeatedOp(op_call, [dim for dim, _ in sizes], new_dims)
        raws = [x._raw for x in op_call.results]
        parts = [(i, ref.number) for i, raw in enumerate(raws) if isinstance(ref := tape.find(raw), Var)]
        arguments = (*[var for _, var in sizes], *[tape.refer(raw) for raw in repeated.raws])
        for dim in new_dims:
            var = tape.number_input(0)
            parts.append((len(raws) + new_dims.index(dim), var.number))
            sizes.append((dim, var))
            roots.add(dim.serial)
        new = Call(repeated, arguments, {}, None, tuple(parts), effect=op_call.row.effect, node=op_call.node)
        _replace(tape, op_call, new)


def _new_dims(op_call: OpCall, first: int, known: set[int]) -> list[Dim]:
    """New axes in the result of an op that are not computed from other dims, such as the ranks of a sort.

    A dim from outside of the body is one too where an op calls a growing axis by it, each time with a size of its own.
    """
    inputs = {dim for leaf in leaves([op_call.args, op_call.kwargs]) if isinstance(leaf, Tensor) for dim in leaf.dims}
    results = [dim for leaf in leaves(op_call.result) for dim in (leaf.dims if isinstance(leaf, Tensor) else [leaf])]
    new = [dim for dim in results if isinstance(dim, Dim) and dim not in inputs and set(dim.roots) == {dim.serial}]
    called = set(leaves(op_call.kwargs)) if op_call.row.name in RENAMING else ()
    return list(dict.fromkeys(dim for dim in new if dim in called or (dim.serial > first and dim.serial not in known)))


def _replace(tape: Tape, op_call: OpCall, new: Call) -> None:
    nodes = set(map(id, all_nodes([op_call.node])))
    place = next((i for i, call in enumerate(tape.calls) if id(call.node) in nodes), None)
    calls = [call for call in tape.calls if id(call.node) not in nodes]
    if place is not None and (new.parts or new.effect):
        calls.insert(place, new)
    tape.calls = calls


class _RepeatedOp:
    """Calls an op again with the sizes and tensors of a step: f(*sizes, *raws) → raws, sizes of new dims."""

    def __init__(self, op_call: OpCall, dims: Sequence[Dim], new_dims: Sequence[Dim]):
        self.op_call = op_call
        self.dims, self.new_dims = dims, new_dims
        self.raws = [x._raw for x in tensors_in([op_call.args, op_call.kwargs])]

    def __call__(self, *values: object) -> list[RawTensor]:
        sizes = {
            dim: size if isinstance(size, Size) else Size([], size)
            for dim, size in zip(self.dims, values, strict=False)
        }
        for dim, size in sizes.items():
            dim.bind(size)
        raws = iter(values[len(self.dims) :])

        def now(leaf: object) -> Any:
            return tensor_of(next(raws), leaf.sig, leaf.lengths.bind(sizes)) if isinstance(leaf, Tensor) else leaf

        args, kwargs = map_leaves(now, [self.op_call.args, self.op_call.kwargs])
        with listening(None):
            result = self.op_call.row.fn(*args, **kwargs)
        outputs = [x._raw for x in tensors_in(result)]
        return [*outputs, *(self._size(dim, result) for dim in self.new_dims)]

    def _size(self, dim: Dim, result: object) -> Size:
        for template, value in zip(leaves(self.op_call.result), leaves(result), strict=True):
            if isinstance(template, Tensor) and dim in template.dims:
                size: Size | None = value.lengths.size(value.dims[template.dims.index(dim)])
                return dim.size if size is None else size
        return dim.size


class SizeOf:
    """The size of a dim, from the sizes of growing dims in this step: f(*sizes) → int."""

    def __init__(self, dim: Dim, dims: Sequence[Dim]):
        self.dim, self.dims = dim, dims

    def __call__(self, *sizes: int) -> int:
        """The size of `dim`; also binds the growing dims to `sizes`."""
        for dim, size in zip(self.dims, sizes, strict=True):
            dim.bind(Size([], size))
        return self.dim.size.max
