"""Chunks of sequences as sequences of their own: time_chunking, time_unchunking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dims import dim_math
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import scatter
from rfnb.ops.mask import pack_padded, pad_packed, sequence_mask
from rfnb.ops.math import where
from rfnb.ops.shape import expand_dim, set_sparse_dim
from rfnb.ops.slice import slice as slice_


class TimeChunking(Layer, layer_class="time_chunking"):
    """Pieces of `chunk_size` frames, `chunk_step` apart, as sequences. {batch, time} → {chunks, time'}

    The last chunk of a sequence is the first one that reaches its end; it may be shorter.
    """

    chunk_size: int = value(REQUIRED, Positive)
    chunk_step: int = value(REQUIRED, Positive)
    axis: Any = value("T")

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The chunks of a sequence, the frames of a chunk, and all chunks of a batch."""
        self.frames = self.pool.one(self.axis, x)
        self.batch = next((dim for dim in x.dims if dim.is_batch_dim()), None)
        if self.batch is None or self.chunk_size < 1 or self.chunk_step < 1:
            fault = "time_chunking needs a batch, and positive numbers of frames"
            raise NetworkError(fault, got=f"{x.describe_dims()}, {self.chunk_size}, {self.chunk_step}")
        behind = dim_math.extreme("max", [self.frames - self.chunk_size, 0])
        self.number = behind.ceildiv_right(self.chunk_step) + 1
        self.inside = Dim(None, name=f"{self.name}:chunking", kind="spatial")
        self.chunks = Dim(None, name="chunks", kind="batch")
        self.pool.made_of[self.chunks] = (self.batch, self.number)
        self.pool.made_of[self.inside] = (self.frames,)

    def compute(self, x: Tensor) -> Tensor:
        """{batch, time} → {chunks, time'}"""
        assert self.batch is not None
        start = range_over_dim(self.number, device=x.device) * self.chunk_step
        end = start + self.chunk_size
        if self.number.dimension is None:  # no frames in the chunks that a sequence does not have
            end = where(sequence_mask(self.number, device=x.device), end, 0, allow_broadcast_all_sources=True)
        places = expand_dim(range_over_dim(self.frames, device=x.device), self.batch)
        y, places = (
            pack_padded(
                slice_(source, axis=self.frames, start=start, end=end, out_dim=self.inside)[0],
                dims=[self.batch, self.number],
                out_dim=self.chunks,
            )[0]
            for source in (x, places)
        )
        self.last.parts = {"places": places}
        return y

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The chunks in the place of the batch, their frames in that of the frames."""
        assert self.batch is not None
        replaced = {self.batch: self.chunks, self.frames: self.inside}
        return [replaced.get(dim, dim) for dim in sources[0].dims]


class TimeUnchunking(Layer, layer_class="time_unchunking"):
    """The chunks put together again; frames that are in several are averaged. {chunks, time'} → {batch, time}"""

    chunking_layer: Any = layer(REQUIRED)

    places: Any = layer(REQUIRED)

    @classmethod
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """The places of the frames are a part of the chunking layer."""
        return {**described, "places": f"{described.get('chunking_layer')}/places"}

    def setup(self, x: Tensor, chunking_layer: Tensor, places: Tensor) -> None:  # type: ignore[override]
        """The dims of the chunks, and those of the whole sequences."""
        origins = self.pool.made_of
        self.chunks, self.inside = (
            next((dim for dim in chunking_layer.dims if dim in origins and dim.is_batch_dim() == batch), None)
            for batch in (True, False)
        )
        if self.chunks not in x.sig.index or self.inside not in x.sig.index:
            fault = "time_unchunking: the source does not have the chunks of the chunking_layer"
            raise NetworkError(fault, got=x.describe_dims(), expected=chunking_layer.describe_dims())
        assert self.chunks is not None
        assert self.inside is not None
        self.batch, self.number = origins[self.chunks]
        (self.frames,) = origins[self.inside]

    def compute(self, x: Tensor, chunking_layer: Tensor, places: Tensor) -> Tensor:
        """{chunks, time'} → {batch, time}"""
        assert self.chunks is not None
        assert self.inside is not None
        y = pad_packed(x, in_dim=self.chunks, dims=[self.batch, self.number])
        places = pad_packed(places, in_dim=self.chunks, dims=[self.batch, self.number])
        over = [self.number, self.inside]
        return scatter(
            y, indices=set_sparse_dim(places, self.frames), indices_dim=over, mode="mean", out_dim=self.frames
        )

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The batch in the place of the chunks, the frames in that of their frames."""
        assert self.chunks is not None
        assert self.inside is not None
        replaced: dict[Dim, Dim] = {self.chunks: self.batch, self.inside: self.frames}
        return [replaced.get(dim, dim) for dim in sources[0].dims]
