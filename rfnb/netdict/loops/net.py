"""A recurrent net, once it is constructed: its axis, what it carries from step to step, what leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.kept.kept_steps import KeptSteps
from rfnb.netdict.resolve import Scope

if TYPE_CHECKING:
    from rfnb.netdict.build.node import NetNode
    from rfnb.netdict.layer import Layer
    from rfnb.netdict.loops.lines import NetLines
    from rfnb.netdict.loops.search import SearchChoices


@dataclass(eq=False)
class RecNet:
    """The net of a recurrent layer: the body of a loop.

    Attributes:
        axis: the axis of the loop. known: whether its lengths are known before the loop, by data.
        own_axis: another axis for the steps of the loop, if a step takes, or has, values with `axis` too.
        outer: the loop around this one.
        source: the template of `data:source`, with all frames; None without a source.
        sources: the paths of the sources outside of the loop.
        beam: the hypotheses of a search; None if there is none. last_choice: the layer that chooses them.
        choices: the result of the last search.
        previous: by the path of a layer, the path of its value in the step before.
        initial: by the same paths, the initial value: a number, a Parameter, the path of a layer, or "apply(0)".
        accumulated: the paths of values in the loop that are needed outside, for all steps.
        end: the path of the condition that ends sequences; None if their lengths are known.
        moves: whether layers may leave the loop.
        before, inside, after: the nodes of the net that are computed for all frames together before the loop, in each
            step, and after the loop; each after those that it needs.
        kept_steps: its step, as earlier calls have traced it. has_functions: whether a layer has a function of the
            user; None: this is not known yet.
        lines: the lines of the net dict that describe the layers, once the net has run.
    """

    path: str
    scope: Scope
    layer: Layer
    outer: RecNet | None
    sources: tuple[str, ...] = ()
    source: Tensor | None = None
    axis: Dim = None  # type: ignore[assignment]
    own_axis: Dim | None = None
    known: bool = True
    beam: Dim | None = None
    last_choice: Layer | None = None
    choices: SearchChoices | None = None
    previous: dict[str, str] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    accumulated: dict[str, None] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    end: str | None = None
    moves: bool = True
    before: list[NetNode] = field(default_factory=list)
    inside: list[NetNode | RecNet] = field(default_factory=list)
    after: list[NetNode] = field(default_factory=list)
    kept_steps: KeptSteps = field(default_factory=KeptSteps)
    has_functions: bool | None = None
    lines: NetLines | None = None

    @property
    def found(self) -> Any:
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

    def inner(self, nodes: Mapping[str, NetNode]) -> set[RecNet]:
        """The loops inside of this one."""
        return {node.loop for node in nodes.values() if node.loop is not None and node.loop in self} - {self}

    def stacked_dims(self, x: Tensor) -> list[Dim]:
        """The dims of the values of all steps, by the template of a step."""
        batch = [dim for dim in x.dims if dim.is_batch_dim() or dim is self.beam]
        axis = self.axis if self.own_axis is None or self.axis not in x.dims else self.own_axis
        return [axis, *batch, *(dim for dim in x.dims if dim not in batch)]

    def name_of(self, path: str) -> str:
        """The name of a layer in the net: "sub/layer" for "output/sub/layer"."""
        return path.removeprefix(f"{self.path}/")
