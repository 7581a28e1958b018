"""Layers that change the frames of an axis: windows, prefixes, padding, repeats, shifts, resizing, chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from rfnb.core.dims import dim_math
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Count, Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import with_padding
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.layers.create import cast_number
from rfnb.netdict.layers.shape import batch_of, with_dims, with_lengths
from rfnb.netdict.options import REQUIRED, axes, axis, layer, value
from rfnb.netdict.versions import holds
from rfnb.ops.concat import concat
from rfnb.ops.conv import window
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.index import gather, scatter
from rfnb.ops.mask import get_size_tensor, masked_select, pack_padded, pad_packed, sequence_mask
from rfnb.ops.math import abs as abs_, cast, compare_bc, equal, logical_and, logical_or, maximum, minimum, mod, where
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.slice import pad, repeat, shift_left, slice as slice_


class WindowLayer(SteppingLayer, layer_class="window"):
    """The frames around each frame, along a new axis. {…, axis} → {…, axis', window}"""

    window_size: int | Dim = value(1, int, Dim)
    window_dim: Dim | None = value(None, Dim)
    window_left: int | None = value(None, Count)
    window_right: int | None = value(None, Count)
    axis: Dim = axis("T")
    padding: str = value("same", str)
    stride: int = value(1, Positive)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self, x: Tensor) -> None:
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
            x, spatial_dim=self.axis, window_dim=self.new_dim, window_left=frames_before,
            window_right=self.window_right, padding=self.padding.lower(), stride=self.stride,
            use_mask=self.spec.batch_independent,
        )  # fmt: skip
        if self.out_spatial_dim is not None:
            y, self.frames = replace_dim(y, in_dim=self.frames, out_dim=self.out_spatial_dim)
        return y

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The new axis stands after the frames, since version 18 before them."""
        if self.stepwise:
            return order
        dims = [dim for dim in order if dim is not self.new_dim]
        first = holds("window puts its axis first", self.spec.version)
        dims.insert(dims.index(self.frames) + (not first), self.new_dim)
        return dims

    def names_of_dims(self) -> dict[Dim, str]:
        """name:window."""
        return {self.new_dim: f"{self.name}:window"}


class Prefix(Layer, layer_class="prefix_in_time", without_effect="size_base"):
    """A number, or the output of a layer, before the first frame. {…, axis} → {…, axis + repeat}"""

    axis: Dim = axis("T")
    prefix: object = layer(0.0)
    repeat: int = value(1, Count)
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
    """A number, or the output of a layer, after the last frame of each sequence. {…, axis} → {…, axis + repeat}"""

    postfix: object = layer(0.0)
    at_end = True


class Pad(Layer, layer_class="pad"):
    """More entries at both ends of axes. {…, axes…} → {…, axes'…}

    Before version 21, those after the end stand after the longest sequence, so that a shorter one has its padding.
    """

    axes: tuple[Dim, ...] = axes()
    padding: Any = value(0, int, list, tuple)
    mode: str = value("constant", str)
    handle_dynamic_dims: object = value(None)
    out_dims: Sequence[Dim] | Dim | None = value(None, list, tuple, Dim)
    value: float = value(0.0, float)

    def setup(self, x: Tensor) -> None:
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
            sizes = [dim.get_dim_value() + sum(pair) for dim, pair in zip(self.axes, self.pairs, strict=True)]
            self.new_dims = [self.pool.instead(dim, size, x) for dim, size in zip(self.axes, sizes, strict=True)]
        self.old_feature = x.feature_dim
        setting = self.handle_dynamic_dims
        self.at_own_end = holds("pad respects lengths", self.spec.version) if setting is None else bool(setting)
        self.at_own_end |= self.spec.batch_independent

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → {…, axes'…}"""
        mode = "replicate" if self.mode == "replication" else self.mode
        y, [*out_dims] = pad(
            x, axes=self.axes, padding=self.pairs, out_dims=self.new_dims, mode=mode, value=cast_number(self.value, x),
            handle_dynamic_dims=self.at_own_end,
        )  # fmt: skip
        for i, (old, (before, after)) in enumerate(zip(self.axes, self.pairs, strict=True)):
            if not self.at_own_end and old.dimension is None:
                lengths = get_size_tensor(old, device=x.device) + (before + after)
                y, out_dims[i] = slice_(y, axis=out_dims[i], end=lengths, out_dim=before + old + after)
        own_dims = [self.out_dims] if isinstance(self.out_dims, Dim) else self.out_dims or ()
        for i, dim in enumerate(own_dims):
            y, out_dims[i] = replace_dim(y, in_dim=out_dims[i], out_dim=dim)
        self.made = dict(zip(self.axes, out_dims, strict=True))
        return y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or what became of it."""
        return self.made.get(self.old_feature, self.old_feature)  # type: ignore[arg-type]


class Repeat(Layer, layer_class="repeat"):
    """Each frame several times: a number, or one for each frame from a layer. {…, axis} → {…, axis'}"""

    axis: Dim = axis("T")
    repetitions: Any = layer(1)
    out_dim: Dim = value(None, Dim)

    def setup(self, x: Tensor, repetitions: Tensor | None = None) -> None:
        """The new axis."""
        fixed = repetitions is None
        self.frames = self.axis * self.repetitions if fixed else Dim(None, name=f"repeated:{self.name}", kind="spatial")

    def compute(self, x: Tensor, repetitions: Tensor | None = None) -> Tensor:
        """{…, axis} → {…, axis'}"""
        number = self.repetitions if repetitions is None else repetitions
        y = repeat(x, in_spatial_dim=self.axis, repeats=number, out_spatial_dim=self.frames)[0]
        return y.copy_masked(0, dims=[self.frames])


class TimeChunking(Layer, layer_class="time_chunking"):
    """Pieces of `chunk_size` frames, `chunk_step` apart, as sequences. {batch, time} → {chunks, time'}

    Each sequence has as many chunks as the longest one, whose last chunk is the first one that reaches its end; chunks
    at the end of a sequence are shorter, and those after it have no frames. With `batch_independent` there are none.
    """

    chunk_size: int = value(REQUIRED, Positive)
    chunk_step: int = value(REQUIRED, Positive)
    axis: object = value("T")

    def setup(self, x: Tensor) -> None:
        """The chunks of a sequence, the frames of a chunk, and all chunks of a batch."""
        self.frames = self.pool.one(self.axis, x)
        self.batch = batch_of(x)
        behind = dim_math.extreme("max", [self.frames - self.chunk_size, 0])
        self.number = self.own_number = behind.ceildiv_right(self.chunk_step) + 1
        if self.frames.dimension is None and not self.spec.batch_independent:
            self.number = Dim(None, name=f"{self.name}:chunks", kind="spatial")
        self.inside = Dim(None, name=f"{self.name}:chunking", kind="spatial")
        self.chunks = Dim(None, name="chunks", kind="batch")
        self.pool.made_of[self.chunks] = (self.batch, self.number)
        self.pool.made_of[self.inside] = (self.frames,)
        self.result_order = with_dims(x, {self.batch: (self.chunks,), self.frames: (self.inside,)})

    def compute(self, x: Tensor) -> Tensor:
        """{batch, time} → {chunks, time'}"""
        start = range_over_dim(self.own_number, device=x.device) * self.chunk_step
        if self.number is not self.own_number:
            start, number = with_padding(start, self.own_number)
            start = replace_dim(start, in_dim=number, out_dim=self.number)[0]
        end = start + self.chunk_size
        if self.number is self.own_number and self.number.dimension is None:  # none in chunks of others
            end = where(sequence_mask(self.number, device=x.device), end, 0, allow_broadcast_all_sources=True)
        places = expand_dim(range_over_dim(self.frames, device=x.device), self.batch)
        piece = Dim(None, name=self.inside.name)  # of each sequence; `inside` has the lengths of all chunks
        y, places = (
            pack_padded(
                slice_(source, axis=self.frames, start=start, end=end, out_dim=piece)[0],
                dims=[self.batch, self.number],
                out_dim=self.chunks,
            )[0]
            for source in (x, places)
        )
        y, places = (replace_dim(z, in_dim=piece, out_dim=self.inside)[0] for z in (y, places))
        self.last.parts = {"places": places}
        return y


class TimeUnchunking(Layer, layer_class="time_unchunking"):
    """The chunks put together again; frames that are in several are averaged. {chunks, time'} → {batch, time}"""

    chunking_layer: object = layer(REQUIRED)

    places: object = layer(REQUIRED)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The places of the frames are a part of the chunking layer."""
        return {**described, "places": f"{described.get('chunking_layer')}/places"}

    def setup(self, x: Tensor, chunking_layer: Tensor, places: Tensor) -> None:
        """The dims of the chunks, and those of the whole sequences."""
        origins = self.pool.made_of
        dims = {dim.is_batch_dim(): dim for dim in reversed(chunking_layer.dims) if dim in origins}
        if len(dims) < 2 or not {*dims.values()} <= {*x.dims}:
            fault = "time_unchunking: the source does not have the chunks of the chunking_layer"
            raise NetworkError(fault, got=x.describe_dims(), expected=chunking_layer.describe_dims())
        self.chunks, self.inside = dims[True], dims[False]
        (self.batch, self.number), (self.frames,) = origins[self.chunks], origins[self.inside]
        self.result_order = with_dims(x, {self.chunks: (self.batch,), self.inside: (self.frames,)})

    def compute(self, x: Tensor, chunking_layer: Tensor, places: Tensor) -> Tensor:
        """{chunks, time'} → {batch, time}"""
        y = pad_packed(x, in_dim=self.chunks, dims=[self.batch, self.number])
        places = pad_packed(places, in_dim=self.chunks, dims=[self.batch, self.number])
        indices, over = set_sparse_dim(places, self.frames), [self.number, self.inside]
        return scatter(y, indices=indices, indices_dim=over, mode="mean", out_dim=self.frames)


class ShiftAxis(Layer, layer_class="shift_axis"):
    """Each frame `amount` places later, or earlier if it is negative. {…, axis} → the same, or {…, axis'}

    The padding after the end of a sequence moves into its last frames. Without `pad` there are fewer frames: a
    sequence is cut to the new size of the axis, and to nothing else.
    """

    axis: Dim = axis()
    amount: int = value(1, int)
    pad: bool = value(True, bool)
    pad_value: float = value(0.0, float)
    adjust_size_info: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:
        """The new dim, whose lengths depend on the size of the axis in each batch."""
        self.cut = Dim(None, name=f"{self.name}_shift_axis", kind="spatial")
        if self.axis.dimension is not None:
            self.cut = self.pool.instead(self.axis, max(self.axis.dimension - abs(self.amount), 0), x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis'}"""
        places = range_over_dim(self.axis, device=x.device) - self.amount
        end = end_of(self, x, self.axis)
        final = x.size_of(self.axis).max - 1
        if self.pad:
            moved = gather(x, indices=minimum(maximum(places, 0), max(final, 0)), axis=self.axis)
            valid = logical_and(compare_bc(places, "greater_equal", 0), compare_bc(places, "less", end))
            moved = where(valid, moved, cast_number(self.pad_value, x))
            return self._adjusted(moved) if self.adjust_size_info else moved
        shift = max(-self.amount, 0)
        moved = gather(x, indices=minimum(places + self.amount + shift, max(final, 0)), axis=self.axis)
        if self.axis.dimension is not None:
            return slice_(moved, axis=self.axis, end=max(final + 1 - abs(self.amount), 0), out_dim=self.cut)[0]
        lengths = get_size_tensor(self.axis, device=x.device)
        if self.adjust_size_info and self.amount < 0:
            lengths = maximum(lengths + self.amount, 0)
        lengths = minimum(lengths, maximum(end - abs(self.amount), 0))
        return with_lengths(*with_padding(moved, self.axis), lengths, self.cut)

    def _adjusted(self, x: Tensor) -> Tensor:
        """With lengths that are `amount` larger, within the size of the axis."""
        if self.axis.dimension is not None:
            return x
        lengths = get_size_tensor(self.axis, device=x.device) + self.amount
        lengths = minimum(maximum(lengths, 0), end_of(self, x, self.axis))
        return with_lengths(*with_padding(x, self.axis), lengths, self.cut)


class Resize(Layer, layer_class="resize"):
    """`factor` frames for each frame. {…, axis} → {…, axis · factor}

    Kind "nn" repeats it, "linear" goes on to the next frame in equal steps, "cubic" along a curve through four frames
    (Keys 1981, with the slope −3/4), "fill" puts `fill_value` after it. Of the frames between, each is left out with
    the probability `fill_dropout`, also outside of training, and in all sequences the same ones.
    """

    axis: Dim = axis()
    factor: int = value(1, Positive)
    kind: str = value("nn", str)
    fill_value: object = value(None)
    fill_dropout: float | None = value(None, float)
    out_dim: Dim = value(None, Dim)

    def setup(self, x: Tensor) -> None:
        """Whether the kind is known."""
        if self.kind not in ("nn", "linear", "cubic", "fill"):
            raise NetworkError("resize: there is no such kind", got=self.kind, expected="nn, linear, cubic, fill")
        size = self.axis.dimension
        if self.fill_dropout:
            if size is not None:
                fault = "resize: fill_dropout needs an axis whose size the batch gives"
                raise NetworkError(fault, got=str(self.axis), expected='"axis": "T"')
            self.left = self.out_dim or Dim(None, name=f"{self.name}_resize", kind="spatial")
            self.out_dim = None  # type: ignore[assignment]
        if self.out_dim is None and size is not None:
            self.out_dim = self.pool.instead(self.axis, size * self.factor, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis · factor}"""
        y, frames = self._repeated(x)
        part = mod(range_over_dim(frames, device=x.device), self.factor)
        y = self._filled(x, y, part)
        return self._dropped(y, frames) if self.fill_dropout else y

    def _filled(self, x: Tensor, y: Tensor, part: Tensor) -> Tensor:
        """The repeated frames with those between replaced. part: how many places after its frame each one is."""
        if self.kind == "nn":
            return y
        if self.kind == "fill":
            return where(equal(part, 0), y, cast_number(self.fill_value or 0, x))
        place = cast(part, x.dtype) * (1.0 / self.factor)
        if self.kind == "linear":
            return y + (self._repeated(self._moved(x, 1))[0] - y) * place
        return reduce(add, (self._repeated(self._moved(x, by))[0] * _cubic(place - by) for by in (-1, 0, 1, 2)))

    def _dropped(self, x: Tensor, frames: Dim) -> Tensor:
        """Without some of the frames between: as short as that makes each sequence."""
        lengths = get_size_tensor(frames, device=x.device)
        x, padded = with_padding(x, frames)
        places = range_over_dim(padded, device=x.device)
        mask = compare_bc(random_uniform([padded], device=x.device), "greater_equal", self.fill_dropout or 0.0)
        mask = logical_or(equal(mod(places, self.factor), 0), mask)
        lengths = reduce_sum(cast(logical_and(mask, compare_bc(places, "less", lengths)), "int32"), axis=padded)
        x, selected = masked_select(x, mask=mask, dims=[padded])
        return with_lengths(x, selected, lengths, self.left)

    def _moved(self, x: Tensor, by: int) -> Tensor:
        """Each frame replaced by one before or after it, or by the first or last one."""
        end = maximum(end_of(self, x, self.axis) - 1, 0)
        places = minimum(maximum(range_over_dim(self.axis, device=x.device) + by, 0), end)
        return gather(x, indices=places, axis=self.axis)

    def _repeated(self, x: Tensor) -> tuple[Tensor, Dim]:
        y, frames = repeat(x, in_spatial_dim=self.axis, repeats=self.factor)
        return (y, frames) if self.out_dim is None else replace_dim(y, in_dim=frames, out_dim=self.out_dim)


def _cubic(distance: Tensor) -> Tensor:
    """The weight of a frame at this distance, in frames (Keys 1981, equation 15 with a = −3/4)."""
    d, a = abs_(distance), -0.75
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    return where(d <= 1.0, near, where(d < 2.0, far, 0.0))


def end_of(layer: Layer, x: Tensor, axis: Dim) -> Tensor:
    """Where the frames end: after the longest sequence, or with `batch_independent` each one for itself. → {batch?}"""
    if layer.spec.batch_independent and axis.dimension is None:
        return get_size_tensor(axis, device=x.device)
    return full(dims=[], fill_value=x.size_of(axis).max, dtype="int32", device=x.device)
