"""`loop.end` and `loop.reorder`: which sequences end, and a new order of what the loop carries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.loop.ends import KeptOrder
from rfnb.loop.step import place_of
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.ops.math import logical_or
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body


def end(body: Body, source: Tensor, include_eos: bool) -> None:
    """Ends sequences, or hypotheses of a search, where `source` is true."""
    body.refuse_in_branch("end")
    if body.condition is not None:
        raise LoopError(
            f"{body.loop.name}: end is called twice",
            hint="combine: loop.end(rf.logical_or(a, b), …)",
        )
    if not isinstance(source, Tensor):
        raise LoopError(f"{body.loop.name}: end is not an rf.Tensor", got=repr(source), expected="a Tensor of bool")
    if source.dtype != "bool":
        raise LoopError(f"{body.loop.name}: end needs a bool", got=source.dtype, expected="bool")
    if body.size is not None and not set(body.size.dims) <= set(source.dims):
        source = logical_or(full(dims=body.size.dims, fill_value=False), source)
    body.condition, body.include_eos = body.of_body(source, "end"), include_eos
    place = place_of(body.carried, "search ended")
    if place is None:
        like = body.condition.plain
        body.carry("ended", like, "bool")
    else:
        like = body.carried[place].before.plain
        body.carried[place] = replace(body.carried[place], kind="ended")
    body.carry("lengths", like, "int64")


def reorder(body: Body, indices: Tensor, dim: Dim) -> None:
    """Reorders all states by `indices` along `dim`, including values that the loop itself carries."""
    body.refuse_in_branch("reorder")
    state = body.loop.state
    if body.hypotheses is not None and dim is body.hypotheses.beam:
        raise LoopError(
            f"{body.loop.name}: reorder of {dim.name}, whose hypotheses a choice orders",
            hint="leave it out: after loop.choice, all states follow their hypotheses",
        )
    if not any(isinstance(leaf, Tensor) and dim in leaf.dims_set for _, leaf in state._leaves()):
        raise LoopError(
            f"{body.loop.name}: reorder: no state has the dim {dim.name}",
            got=", ".join(f"{name} {x.describe_dims()}" for name, x in state._leaves() if isinstance(x, Tensor)),
            expected=f"a state with {dim.describe()}",
            hint="use the dim that the states have from the start; rf.top_k(…, k_dim=that dim) keeps it",
        )
    names = {id(leaf): name for name, leaf in state._leaves()}
    order = _kept_order(body, indices, dim) if body.recorder.grown and isinstance(indices, Tensor) else indices

    def moved(leaf: Tensor) -> Tensor:
        return gather(leaf, indices=order, axis=dim).with_name(names[id(leaf)])

    state._map(lambda leaf: moved(leaf) if dim in leaf.dims_set else leaf)
    body.reorders.append((indices, dim))


def _kept_order(body: Body, indices: Tensor, dim: Dim) -> Tensor:
    """The indices, but those of sequences that have ended keep the order, as the end of the step will know."""
    plain = body.plain(indices)
    with body.untraced():
        order = plain.like(body.backend.identity_raw(plain._raw))
    body.kept_orders.append(KeptOrder(plain, dim))
    body.kept_orders[-1].record(body.tape, order._raw)
    return Traced(order, body.recorder, indices.value) if isinstance(indices, Traced) else order
