"""A constructed recurrent net: its axis, what it carries from step to step, what leaves it, the values of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.netdict.build import NetNode
from rfnb.netdict.layer import nets_inside
from rfnb.netdict.resolve import Scope
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full
from rfnb.ops.math import cast
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim

if TYPE_CHECKING:
    from rfnb.netdict.build import NetNode
    from rfnb.netdict.layer import Layer
    from rfnb.netdict.layers.nested import RecSubnet
    from rfnb.netdict.loops.run import NetLines
    from rfnb.netdict.loops.search import SearchChoices
    from rfnb.search.result import Found


@dataclass(eq=False)
class RecNet:
    """The net of a recurrent layer: the body of a loop.

    Attributes:
        axis: the axis of the loop. known: whether its lengths are known before the loop, by data.
        spoken: the frames of the target of a search, which has as many steps in a training.
        own_axis: another axis for the steps of the loop, if a step takes, or has, values with `axis` too.
        outer: the loop around this one.
        source: the template of `data:source`, with all frames; None without a source.
        sources: the paths of the sources outside of the loop.
        beam: the hypotheses of a search; None if there is none. last_choice: the layer that chooses them.
        choices: the result of the last search.
        previous: the paths of layers whose value in the step before is needed.
        initial: by the same paths, the initial value: a number, a Parameter, the path of a layer, or "apply(0)".
        accumulated: the paths of values in the loop that are needed outside, for all steps.
        end: the path of the condition that ends sequences; None if their lengths are known.
        moves: whether layers may leave the loop.
        before, inside, after: the nodes of the net that are computed for all frames together before the loop, in each
            step, and after the loop; each after those that it needs.
        lines: the lines of the net dict that describe the layers, once the net has run.
    """

    path: str
    scope: Scope
    layer: RecSubnet
    outer: RecNet | None
    sources: tuple[str, ...] = ()
    source: Tensor | None = None
    axis: Dim = None  # type: ignore[assignment]
    spoken: Dim | None = None
    own_axis: Dim | None = None
    known: bool = True
    beam: Dim | None = None
    last_choice: Layer | None = None
    choices: SearchChoices | None = None
    previous: dict[str, None] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    accumulated: dict[str, None] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    end: str | None = None
    moves: bool = True
    before: list[NetNode] = field(default_factory=list)
    inside: list[NetNode | RecNet] = field(default_factory=list)
    after: list[NetNode] = field(default_factory=list)
    lines: NetLines | None = None

    @property
    def follows(self) -> Dim | None:
        """The frames of the target if this is a search in a training."""
        return self.spoken if get_run_ctx().is_train_flag_enabled() else None

    @property
    def found(self) -> Found | None:
        """The last search."""
        return None if self.choices is None else self.choices.found

    def make_own_axis(self) -> Dim:
        """Sets the other axis for the steps, unless there is one; returns it."""
        if self.own_axis is None:
            self.own_axis = Dim(None, name=f"{self.axis.name} of steps", kind="spatial")
        return self.own_axis

    @property
    def frames(self) -> Dim:
        """The axis of values of all steps, while they are computed."""
        return self.own_axis or self.axis

    @property
    def chain(self) -> list[RecNet]:
        """This loop and those around it, from the inside."""
        return [self, *([] if self.outer is None else self.outer.chain)]

    def __contains__(self, other: object) -> bool:
        """Whether a loop is this one, or inside of it."""
        return isinstance(other, RecNet) and self in other.chain

    def members(self, nodes: Mapping[str, NetNode]) -> list[NetNode]:
        """The nodes of its steps, and those of loops inside of it."""
        return [node for node in nodes.values() if node.loop in self]

    def inner(self, nodes: Mapping[str, NetNode]) -> set[RecNet]:
        """The loops inside of this one."""
        return {node.loop for node in self.members(nodes) if node.loop is not None} - {self}

    def stacked_dims(self, x: Tensor) -> list[Dim]:
        """The dims of the values of all steps, by the template of a step."""
        batch = [dim for dim in x.dims if dim.is_batch_dim() or dim is self.beam]
        axis = self.axis if self.own_axis is None or self.axis not in x.dims else self.own_axis
        return [axis, *batch, *(dim for dim in x.dims if dim not in batch)]

    def name_of(self, path: str) -> str:
        """The name of a layer in the net: "sub/layer" for "output/sub/layer"."""
        return path.removeprefix(f"{self.path}/")


LOGITS, BEFORE, OUTPUT = "logits", "before its activation", "output"
"""What losses and constraints take of a layer in a loop."""


def filled(template: Tensor, number: object, dims: Sequence[Dim] | None = None) -> Tensor:
    """A tensor with the dims and dtype of a template. dims: others than those of the template."""
    dims = template.dims if dims is None else dims
    x = full(dims=dims, fill_value=number, dtype=template.dtype, sparse_dim=template.sparse_dim)
    return set_feature_dim(x, template.feature_dim)


def like(x: Tensor, template: Tensor) -> Tensor:
    """The value with all dims of a template, and its dtype."""
    feature = template.feature_dim
    if feature is not None and feature not in x.dims and x.feature_dim is not None:
        x = replace_dim(x, in_dim=x.feature_dim, out_dim=feature)[0]
    hypotheses = any(is_beam(dim) for dim in x.dims)  # perhaps those after a choice
    for dim in template.dims:
        if dim not in x.dims and not (hypotheses and is_beam(dim)):
            x = expand_dim(x, dim)
    if x.dtype != template.dtype:
        x = cast(x, template.dtype)
    if x.sparse_dim is not template.sparse_dim:
        x = set_sparse_dim(x, template.sparse_dim)
    if x.dims != template.dims and set(x.dims) == set(template.dims):
        x = x.copy_transpose(template.dims)
    return set_feature_dim(x, feature)


def featured(x: Tensor, feature: Dim | None) -> Tensor:
    """The value with this dim as its features."""
    return x if x.feature_dim is feature else set_feature_dim(x, feature)


def one_more(axis: Dim) -> Dim:
    """An axis with one more frame for each sequence but the longest: a search of the reference counts it."""
    size = axis.size
    lengths = np.minimum(size.values + 1, size.max)
    longer = Dim(None, name=axis.name, kind=axis.kind)
    longer.bind(Size(size.dims, lengths))
    return longer


def with_frames(x: Tensor, old: Dim, new: Dim) -> Tensor:
    """The same frames along another axis, where sequences have other lengths."""
    dims = [new if dim is old else dim for dim in x.dims]
    return convert_to_tensor(x.raw_tensor, dims=dims, sparse_dim=x.sparse_dim, feature_dim=x.feature_dim)


def mapped(function: Callable[[Any, Any], object], made: object, other: Any, *, grown: bool = True) -> Any:
    """A state with the function of each tensor in it and of that in another state, such as its template.

    grown: whether also of tensors with an axis that grows from step to step; otherwise these stay as they are.
    """
    if isinstance(made, Tensor):
        return function(made, other)
    if not isinstance(made, dict):
        return made
    growing = set[Dim]() if grown else grown_in(other)
    stay = {name for name, part in other.items() if isinstance(part, Tensor) and not growing.isdisjoint(part.dims)}
    parts = made.items()
    return type(made)({n: x if n in stay else mapped(function, x, other[n], grown=grown) for n, x in parts})


def grown_in(state: Mapping[str, object]) -> set[Dim]:
    """The axes in a state, which grow from step to step."""
    return {part for part in state.values() if isinstance(part, Dim)}


def along(x: Tensor, axis: Dim) -> Tensor:
    """The value with an axis of frames; one without it is the same in each frame."""
    return x if axis in x.dims else set_feature_dim(expand_dim(x, axis), x.feature_dim)


def with_axis(x: Tensor, frames: Dim, axis: Dim, node: NetNode) -> Tensor:
    """Data with the axis of a loop in place of its own, after comparing lengths. Raises DimError if they differ."""
    got, expected = x.size_of(frames).values, axis.size.values
    if got.shape != expected.shape or (got != expected).any():
        at = next((i for i, pair in enumerate(zip(got.flat, expected.flat, strict=False)) if pair[0] != pair[1]), 0)
        raise DimError(
            f"{node.of}: its lengths are not those of the loop; sequence {at} is the first that differs",
            got=f"{got.flat[at] if at < got.size else '?'} frames",
            expected=f"{expected.flat[at] if at < expected.size else '?'} frames, those of {axis.name!r}",
            hint=f'"size_target": "{node.of.removeprefix("data:")}", if its length is that of the loop',
        )
    return replace_dim(x, in_dim=frames, out_dim=axis)[0]


def of_losses(node: NetNode) -> Iterator[tuple[str, Tensor]]:
    """The names and values, in one step, of what has to leave the loop besides outputs."""
    layer = node.layer
    assert layer is not None
    if node.loss is not None and layer.last.logits is not None:
        yield LOGITS, layer.last.logits
    if layer.last.for_penalties is not None:
        yield from zip((BEFORE, OUTPUT), layer.last.for_penalties, strict=True)


def give_back(node: NetNode, name: str, x: Tensor) -> None:
    """Gives the value of all steps to the layer."""
    assert node.layer is not None
    call = node.layer.last
    if name == LOGITS:
        call.logits = x
    else:
        call.for_penalties = (x, x) if name == BEFORE or call.for_penalties is None else (call.for_penalties[0], x)


def forget_penalties(item: NetNode | RecNet) -> None:
    """Drops what one step left in layers, also in loops inside of the loop and in units, which have no constraints."""
    if isinstance(item, RecNet):
        for node in (*item.before, *item.inside, *item.after):
            forget_penalties(node)
    elif item.layer is not None:
        item.layer.last.for_penalties = None
        for net in nets_inside(item.layer):
            for node in net.every_node().values():
                forget_penalties(node)
