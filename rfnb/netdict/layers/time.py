"""Layers that change the frames of an axis: window, prefix_in_time, postfix_in_time, pad, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Count, Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.create import cast_number
from rfnb.netdict.options import axes, axis, layer, value
from rfnb.netdict.versions import holds
from rfnb.ops.concat import concat
from rfnb.ops.create import full, zeros
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.sequence import repeat
from rfnb.ops.shape import expand_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.signal import window
from rfnb.ops.slice import pad, shift_left, slice as slice_


class Window(SteppingLayer, layer_class="window"):
    """The frames around each frame, along a new axis. {…, axis} → {…, axis', window}"""

    window_size: int | Dim = value(1, int, Dim)
    window_dim: Dim | None = value(None, Dim)
    window_left: int | None = value(None, Count)
    window_right: int | None = value(None, Count)
    axis: Dim = axis("T")
    padding: str = value("same", str)
    stride: int = value(1, Positive)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The new axis."""
        self.new_dim = self.window_dim or self.pool.static(self.window_size, x.dims)
        if self.stepwise and (self.window_right or 0) + (self.window_left or 0) + 1 != self.window_size:
            self.window_left = self.new_dim.get_dim_value() - 1 - (self.window_right or 0)
        if self.stepwise and self.window_left != self.new_dim.get_dim_value() - 1:
            raise NetworkError(
                "window: in a loop, frames after this one are not known yet", got=f"window_left={self.window_left}",
                expected=f'"window_left": {self.new_dim.get_dim_value() - 1}',
            )  # fmt: skip

    def first_state(self, x: Tensor) -> State:
        """Frames of zeros before the first one."""
        return State(frames=zeros([self.new_dim, *x.dims], dtype=x.dtype))

    def step(self, state: State, x: Tensor) -> tuple[Tensor, State]:
        """{…} → {…, window}"""
        y = shift_left(state.frames, axis=self.new_dim, pad_value=x)
        return set_feature_dim(y, x.feature_dim), State(frames=y)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis', window}"""
        frames_before = self.window_left
        if frames_before is None and self.window_right is not None:
            frames_before = self.new_dim.get_dim_value() - 1 - self.window_right
        y, self.frames = window(
            x,
            spatial_dim=self.axis,
            window_dim=self.new_dim,
            window_left=frames_before,
            window_right=self.window_right,
            padding=self.padding.lower(),
            stride=self.stride,
            use_mask=self.spec.batch_independent,
        )
        return y

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The new axis stands behind the frames, since version 18 before them."""
        if self.stepwise:
            return order
        dims = [dim for dim in order if dim is not self.new_dim]
        first = holds("window puts its axis first", self.spec.version)
        dims.insert(dims.index(self.frames) + (not first), self.new_dim)
        return dims

    def names_of_dims(self) -> dict[Dim, str]:
        """name:window."""
        return {self.new_dim: f"{self.name}:window"}


class Prefix(Layer, layer_class="prefix_in_time"):
    """A number, or the output of a layer, before the first frame. {…, axis} → {…, axis + repeat}"""

    axis: Dim = axis("T")
    prefix: Any = layer(0.0)
    repeat: int = value(1, Count)
    size_base: Any = value(None)
    at_end = False

    def compute(self, x: Tensor, prefix: Tensor | None = None, postfix: Tensor | None = None) -> Tensor:
        """{…, axis} → {…, axis + repeat}"""
        filler = postfix if prefix is None else prefix
        added = Dim(self.repeat, name="more")
        if filler is None:
            number = getattr(self, "postfix" if self.at_end else "prefix")
            filler = full(dims=[], fill_value=cast_number(number, x), dtype=x.dtype)
        filler = set_sparse_dim(filler, x.sparse_dim)
        parts = [(expand_dim(filler, added), added), (x, self.axis)]
        out_dim = self.axis + self.repeat if self.at_end else self.repeat + self.axis
        y, _ = concat(*(parts[::-1] if self.at_end else parts), allow_broadcast=True, out_dim=out_dim)
        if self.at_end and not self.spec.batch_independent:
            y = y.copy_masked(filler, dims=[out_dim])  # which windows let into the last frames
        return set_feature_dim(y, x.feature_dim)


class Postfix(Prefix, layer_class="postfix_in_time"):
    """A number, or the output of a layer, behind the last frame of each sequence. {…, axis} → {…, axis + repeat}"""

    postfix: Any = layer(0.0)
    at_end = True


class Pad(Layer, layer_class="pad"):
    """More entries at both ends of axes. {…, axes…} → {…, axes'…}

    Before version 21, those behind the end stand behind the longest sequence, so that a shorter one has its padding.
    """

    axes: tuple[Dim, ...] = axes()
    padding: Any = value(0, int, list, tuple)
    mode: str = value("constant", str)
    handle_dynamic_dims: Any = value(None)
    value: float = value(0.0, float)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The new dims."""
        setting = self.padding
        if isinstance(setting, int):
            setting = (setting, setting)
        if isinstance(setting[0], int):
            setting = [tuple(setting)] * len(self.axes)
        self.pairs = [tuple(pair) for pair in setting]
        if len(self.pairs) != len(self.axes):
            raise NetworkError("pad: there is another number of paddings than of axes", got=setting)
        self.new_dims: list[Dim] | None = None
        if all(dim.dimension is not None for dim in self.axes):
            self.new_dims = []
            for dim, (before, after) in zip(self.axes, self.pairs, strict=True):
                self.new_dims.append(self.pool.instead(dim, (dim.dimension or 0) + before + after, x))
        self.old_feature = x.feature_dim
        setting = self.handle_dynamic_dims
        self.at_own_end = holds("pad respects lengths", self.spec.version) if setting is None else bool(setting)
        self.at_own_end |= self.spec.batch_independent

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…, axes'…}"""
        y, out_dims = pad(
            x,
            axes=self.axes,
            padding=self.pairs,
            out_dims=self.new_dims,
            mode="replicate" if self.mode == "replication" else self.mode,
            value=cast_number(self.value, x),
            handle_dynamic_dims=self.at_own_end,
        )
        out_dims = list(out_dims)
        for i, (old, (before, after)) in enumerate(zip(self.axes, self.pairs, strict=True)):
            if not self.at_own_end and old.dimension is None:
                lengths = get_size_tensor(old, device=x.device) + (before + after)
                y, out_dims[i] = slice_(y, axis=out_dims[i], end=lengths, out_dim=before + old + after)
        self.made = dict(zip(self.axes, out_dims, strict=True))
        return y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or what became of it."""
        return self.made.get(self.old_feature, self.old_feature)  # type: ignore[arg-type]


class Repeat(Layer, layer_class="repeat"):
    """Each frame several times: a number, or one for each frame from a layer. {…, axis} → {…, axis'}"""

    axis: Dim = axis("T")
    repetitions: Any = layer(1)
    out_dim: Dim | None = value(None, Dim)

    def setup(self, x: Tensor, repetitions: Tensor | None = None) -> None:  # type: ignore[override]
        """The new axis."""
        fixed = repetitions is None
        self.frames = self.axis * self.repetitions if fixed else Dim(None, name=f"repeated:{self.name}", kind="spatial")

    def compute(self, x: Tensor, repetitions: Tensor | None = None) -> Tensor:
        """{…, axis} → {…, axis'}"""
        number = self.repetitions if repetitions is None else repetitions
        y = repeat(x, in_spatial_dim=self.axis, repeats=number, out_spatial_dim=self.frames)[0]
        return y.copy_masked(0, dims=[self.frames])
