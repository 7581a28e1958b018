"""masked_computation and unmask: a layer that is computed only where a mask is true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, time_of, without
from rfnb.netdict.build import NetNode, stepping
from rfnb.netdict.builder import Builder
from rfnb.netdict.inner_net import TARGET, UNIT, InnerBuilder, InnerNet, chosen
from rfnb.netdict.layer import LayerOfNets, SteppingLayer
from rfnb.netdict.loops.net import along
from rfnb.netdict.loops.order import let_leave, run_over_frames, what_keeps
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.resolve import Scope, names_of_sources
from rfnb.ops.concat import concat
from rfnb.ops.create import zeros
from rfnb.ops.index import gather
from rfnb.ops.mask import masked_select
from rfnb.ops.math import cast, where
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.slice import cumsum

MASKED = "masked by"
"""Marks an axis that has only the frames where a mask is true."""
FIRST = "initial:output"
"""The output before the first frame, as a part of masked_computation."""
LOSS = "loss:"
"""Stands before the names of parts of masked_computation that losses need."""
OUTPUT = "output of the unit"
"""The output, as a part of the state."""


class MaskedComputation(
    SteppingLayer,
    LayerOfNets,
    layer_class="masked_computation",
    state_has_output=True,
    joins=False,
    sourceless=True,
    units=(UNIT,),
):
    """A layer that is computed only where a mask is true.

    In a loop, its output and states stay as they were where the mask is false. Over a sequence, the frames where the
    mask is true become a shorter sequence. {…, axis} → {…, frames}
    """

    mask: object = layer(REQUIRED)
    unit: object = value(REQUIRED, dict)
    masked_from: object = value(None, str)
    inner: InnerNet
    loss_parts: Sequence[str] = ()
    frames_of_losses: Dim | None = None
    left: tuple[Dim, Dim] | None = None  # the axis of the loop that it has left, and that of the frames taken

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The unit takes the sources."""
        return {name: option for name, option in described.items() if name != "from"}

    @classmethod
    def net_inside(
        cls, builder: Builder, scope: Scope, path: str, described: Mapping[str, object]
    ) -> tuple[InnerNet, dict[str, str]]:
        """The unit. Outside of loops, values with the axis of the mask are packed."""
        where = builder.find(scope, str(described["mask"]), path)
        mask = builder.seen(where, scope)
        if mask.dtype != "bool":
            raise NetworkError("the mask is not bool", got=f"{where}: {mask.dtype}", expected='"class": "compare"')
        axis = time_of(mask)
        if axis is None and scope.in_loop is None:
            got = f"{where}: {mask.describe_dims()}"
            raise NetworkError("the mask has no frames", got=got, expected="{batch, time}")
        frames = None
        if axis is not None:
            frames = _frames(builder.axes, where, axis, scope, path)
            if described.get("masked_from"):
                described = {**described, "from": described["masked_from"]}
            else:
                _check_frames(builder, scope, path, names_of_sources(described, None), axis)
        inner = InnerBuilder(builder, scope, path, described, lambda x: packed(x, mask, axis, frames))
        if axis is None:
            inner.masked_loop = inner.loop
        net = inner.net(axis, frames)
        if net.ends and isinstance(builder, InnerBuilder):
            raise NetworkError(
                "a layer with a loss is in a masked_computation that is in another one",
                got=next(iter(net.ends.values())).path, expected="losses in the outer unit, or outside of both",
            )  # fmt: skip
        return net, dict(net.inputs)

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters of the unit."""
        return self.inner.params

    @property
    def nets_inside(self) -> list[InnerNet]:
        """That of the unit."""
        return [self.inner]

    @property
    def stepwise(self) -> bool:
        """Whether the mask is that of a step."""
        return self.loop is not None and self.inner.axis is None

    def compute(self, mask: Tensor, **outside: Tensor) -> Tensor:
        """{…, axis} → {…, frames}"""
        if self.left is not None:
            return self._over_frames(mask, outside, *self.left)
        axis, frames = self.inner.axis, self.inner.frames
        values, _ = self.inner.run({key: packed(x, mask, axis, frames) for key, x in outside.items()})
        self.last.parts = {**self.inner.parts_of(values), **self._of_losses(values)}
        self.last.parts[FIRST] = self.inner.first_output(outside)
        return values[self.inner.output.path]

    @property
    def what_keeps(self) -> str:
        """That of a layer in the unit."""
        return what_keeps(self.inner) if self.stepwise else super().what_keeps

    @property
    def needs_all_frames(self) -> bool:
        """Whether a layer in the unit does."""
        return any(member.needs_all_frames for member in self._carrying)

    def leave_loop(self, axis: Dim) -> None:
        """The frames that the mask takes are packed, and the unit is computed along them."""
        self.left = axis, Dim(None, name=f"{axis.name} of {self.name_in_loop}", kind="spatial")
        let_leave(self.inner.nodes.values(), self.left[1])

    def _over_frames(self, mask: Tensor, outside: Mapping[str, Tensor], axis: Dim, frames: Dim) -> Tensor:
        """Each frame has the output of the last one that the mask took, as in the steps. {…, axis} → {…, axis}"""
        inner, mask = self.inner, along(mask, axis)
        constants = {key: None if axis in x.dims else x for key, x in outside.items()}
        inputs = {key: packed(x, mask, axis, frames) for key, x in outside.items()}
        if not any(frames in x.dims for x in inputs.values()):
            packed(mask, mask, axis, frames)  # for the lengths
        values = run_over_frames(inner, inputs, constants, frames)
        at = cumsum(cast(mask.copy_masked(False), "int32"), spatial_dim=axis)

        def placed(x: Tensor, first: Tensor) -> Tensor:
            return unpacked(along(x, frames), frames, first, at)

        parts = {name: placed(values[path], inner.first_output(constants, inner.nodes[path], first))
                 for name, (path, first) in inner.kept.items()}  # fmt: skip
        for name, x in self._of_losses(values).items():
            x = along(x, frames)
            parts[name] = placed(x, zeros(without(x, frames), dtype=x.dtype, sparse_dim=x.sparse_dim))
        self.last.parts = parts
        return placed(values[inner.output.path], inner.first_output(constants))

    def first_state(self, mask: Tensor | None = None, **outside: Tensor | None) -> State:
        """The states of the unit, and its output before the first frame."""
        state = self.inner.first_state(outside)
        if not self.inner.grows:
            state[OUTPUT] = self.inner.first_output(outside)
        return state

    @property
    def _carrying(self) -> list[SteppingLayer]:
        """The layers of the unit that carry a state."""
        return [stepping(node) for node in self.inner.carrying.values() if node.layer is not None]

    def begin_steps(self) -> None:
        """That of the layers in the unit which have the same parameters in each step."""
        for member in self._carrying:
            if member.spec.changes is None:
                member.begin_steps()

    def end_steps(self) -> None:
        """That of the layers in the unit."""
        for member in self._carrying:
            member.end_steps()

    def step(self, state: State, mask: Tensor, **outside: Tensor) -> tuple[Tensor, State]:
        """{…} → {…}"""
        # Where the mask is false, there may be labels that the unit does not know: blanks, for example.
        inputs = {key: where(mask, x, 0) if x.sparse_dim is not None else x for key, x in outside.items()}
        values, new = self.inner.run(inputs, state)
        if not self.inner.grows:
            new[OUTPUT] = values[self.inner.output.path]
        new = chosen(mask, new, state)
        self.last.parts = {**self.parts_of(new), **self._of_losses(values)}
        return self.output_of(new), new

    def output_of(self, state: State) -> Tensor:
        """The last output where the mask was true."""
        out: Tensor = self.inner.grown_output(state) if self.inner.grows else state[OUTPUT]
        return set_feature_dim(out, self.inner.output.template.feature_dim)

    def parts_of(self, state: State) -> dict[str, Tensor]:
        """The last states of the unit."""
        return self.inner.parts_of_state(state)

    def _of_losses(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the losses of layers in the unit need, as parts. In a loop, frames that do not count are among them."""
        parts = {}
        for name, end in self.inner.ends.items():
            paths = {"output": end.path, "target": end.target or "", "factor": end.inv_norm_factor or ""}
            parts.update({_part(key, name): values[path] for key, path in paths.items() if path in values})
            if end.layer is not None and end.layer.last.logits is not None:
                parts[_part("logits", name)] = end.layer.last.logits
        self.loss_parts = tuple(parts)
        return parts

    def ends_inside(self, node: NetNode) -> list[str]:
        """The outputs in the unit, what losses need, and the mask, of which a view shows the frames taken."""
        ends = {self.inner.called(path): end for path, end in self.inner.nodes.items() if end.layer is not None}
        names = [name for name, end in ends.items() if end.layer.spec.common.is_output_layer]  # type: ignore[union-attr]
        parts = [f"{node.path}/{name}" if name else node.path for name in [*names, *self.loss_parts]]
        return [*parts, node.inputs["mask"]]

    def mask_of_frames(self, node: NetNode, values: Mapping[str, Tensor]) -> tuple[Tensor, Dim] | None:
        """The mask of all frames in the last batch, and their axis; None if there was none."""
        mask, axis = values.get(node.inputs["mask"]), self.inner.axis
        if self.stepwise and self.loop is not None:
            axes = [self.loop.own_axis, self.loop.axis]
            axis = next((dim for dim in axes if mask is not None and dim in mask.dims), None)
        return None if mask is None or axis is None else (mask, axis)

    def losses_inside(self, node: NetNode) -> list[NetNode]:
        """The layers in the unit that have a loss."""
        nodes = []
        for name, end in self.inner.ends.items():
            path = f"{node.path}/{name}" if name else node.path
            target = None if end.target is None else end.target.removeprefix(TARGET)
            nodes.append(replace(end, path=path, target=target, loop=node.loop))
        return nodes

    def values_of_loss(self, node: NetNode, end: NetNode, values: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The values of the frames where the mask is true."""
        name, by_path = end.path.removeprefix(node.path).removeprefix("/"), {}
        mask, axis, frames = values[node.inputs["mask"]], self.inner.axis, self.inner.frames
        parts = {key: values.get(f"{node.path}/{_part(key, name)}") for key in ("output", "target", "factor", "logits")}
        if self.stepwise:
            assert self.loop is not None and parts["output"] is not None
            axis = parts["output"].dims[0]
            frames = self.frames_of_losses = self.frames_of_losses or Dim(None, name="taken", kind="spatial")
            mask = mask if axis in mask.dims else expand_dim(mask, axis)
            parts = {key: None if x is None else packed(x, mask, axis, frames) for key, x in parts.items()}
        if parts["target"] is None and end.target is not None and end.target in values:
            parts["target"] = _taken(values[end.target], mask, axis, frames)
        assert end.layer is not None
        end.layer.last.logits = parts["logits"]
        by_path = {end.path: parts["output"], end.target: parts["target"], end.inv_norm_factor: parts["factor"]}
        return {path: x for path, x in by_path.items() if path is not None and x is not None}

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the unit; dims that only the mask has come first."""
        dims = self.inner.output.template.dims
        return [*(dim for dim in order if dim not in dims), *dims]

    def names_of_dims(self) -> dict[Dim, str]:
        """name:masked:time."""
        return {} if self.inner.frames is None else {self.inner.frames: f"{self.name}:masked:time"}


def _frames(axes: NetworkDims, mask: str, axis: Dim, scope: Scope, path: str) -> Dim:
    """The axis of the frames where a mask is true; the same one for the same mask."""
    key = (MASKED, mask, axis)
    frames = next((dim for dim, of in axes.made_of.items() if of == key), None)
    if frames is None:
        frames = Dim(None, name=f"{path[len(scope.path) :]}:masked:time", kind="spatial")
        axes.made_of[frames] = key
    return frames


def _check_frames(builder: Builder, scope: Scope, path: str, sources: Sequence[str], axis: Dim) -> None:
    """Raises NetworkError if a source does not have the axis of the mask."""
    for name in sources:
        x = builder.seen(builder.find(scope, name, path), scope)
        if axis not in x.dims:
            got = f"{name}: {x.describe_dims()}"
            raise NetworkError("the source lacks the frames of the mask", got=got, expected=f"{axis}, as in the mask")


def packed(x: Tensor, mask: Tensor, axis: Dim | None, frames: Dim | None) -> Tensor:
    """The frames where the mask is true. {…, axis}, {…, axis} → {…, frames}"""
    if axis is None or axis not in x.dims:
        return x
    y, _ = masked_select(x, mask=mask, dims=[axis], out_dim=frames)
    return set_feature_dim(y, x.feature_dim)


def unpacked(x: Tensor, frames: Dim, first: Tensor, at: Tensor) -> Tensor:
    """The frame of each place. first: the value before all frames; at: the number of frames up to each place.

    {…, frames}, {…}, {…, axis} → {…, axis}
    """
    head = Dim(1, name="before")
    y, joined = concat((expand_dim(first, head), head), (x, frames), allow_broadcast=True)
    y = gather(y, indices=set_sparse_dim(at, joined), axis=joined)
    return set_feature_dim(y, x.feature_dim)


def _part(key: str, name: str) -> str:
    """The part of masked_computation that has the output, or another value, of a layer in the unit for its loss."""
    return f"{LOSS}{key}/{name}"


def _taken(target: Tensor, mask: Tensor, axis: Dim | None, frames: Dim | None) -> Tensor:
    """The frames of a target where the mask is true; one that has other lengths than the mask is taken as it is."""
    time = time_of(target)
    if time is not None and axis not in (None, time) and target.size_of(time).agrees(axis.size):
        target, time = replace_dim(target, in_dim=time, out_dim=axis)[0], axis
    return packed(target, mask, axis, frames) if time is axis else target


class Unmask(LayerOfNets, layer_class="unmask"):
    """The frames of masked_computation at the places that they come from, each until the next one.

    In a loop, the source has stayed there already. {…, frames} → {…, axis}
    """

    mask: object = layer(REQUIRED)
    skip_initial: bool = value(False, bool)

    @classmethod
    def net_inside(
        cls, builder: Builder, scope: Scope, path: str, described: Mapping[str, object]
    ) -> tuple[None, dict[str, str]]:
        """What stands before the first frame: the output of masked_computation there."""
        source = builder.find(scope, names_of_sources(described, None)[0], path)
        initial = f"{source}/{FIRST}"
        return None, {"first": initial} if initial in builder.nodes else {}

    def setup(self, x: Tensor, mask: Tensor, **more: Tensor) -> None:
        """The axes of the mask and of the source."""
        self.axis = time_of(mask)
        masked = [dim for dim in x.dims if self.pool.made_of.get(dim, ("",))[0] == MASKED]
        self.frames = masked[0] if masked else time_of(x)
        if self.frames is self.axis:
            self.axis = None

    @property
    def what_keeps(self) -> str:
        """Nothing, where the source has stayed at its places."""
        return "" if self.axis is None else "unpacks frames in each step"

    def compute(self, x: Tensor, mask: Tensor, first: Tensor | None = None) -> Tensor:
        """{…, frames}, {…, axis} → {…, axis}"""
        if self.axis is None or self.frames is None:
            return x
        if first is None:
            first = zeros(without(x, self.frames), dtype=x.dtype, sparse_dim=x.sparse_dim)
        at = cumsum(cast(mask.copy_masked(False), "int32"), spatial_dim=self.axis)
        return unpacked(x, self.frames, first, at)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """That of the source, with the frames of the mask."""
        if self.axis is None:
            return order
        dims = [self.axis if dim is self.frames else dim for dim in sources[0].dims]
        return [*dims, *(dim for dim in order if dim not in dims)]
