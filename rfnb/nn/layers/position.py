"""Learned encodings of relative positions, and the choice of a positional encoding."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.index import gather
from rfnb.ops.math import add, clip_by_value, combine_bc
from rfnb.ops.position import Offset, frame_numbers, relative_positions
from rfnb.ops.shape import set_sparse_dim


class LearnedRelativePositionalEncoding(Module):
    """A learned vector for each distance of a key to a query (Shaw et al. 2018).

    clipping: all distances from this one on share a vector. causal: whether no key comes after its query, so that
    vectors for one side suffice. The vectors begin with 0.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(4, name="feat")
    >>> encoding = rf.LearnedRelativePositionalEncoding(feat, clipping=3)
    >>> vectors, distances = encoding(query_spatial_dim=time, key_value_spatial_dim=time)
    >>> vectors.dims == (distances, feat), distances, encoding.pos_emb.dims[0].dimension
    (True, Dim{2*time-1:9}, 7)
    """

    def __init__(self, feat_dim: Dim, *, clipping: int = 16, dtype: str | None = None, causal: bool = False):
        self.feat_dim = feat_dim
        self.clipping = clipping
        self.causal = causal
        self.clipped_spatial_dim = Dim(clipping + 1 if causal else 2 * clipping + 1, name="learned-rel-pos")
        self.pos_emb = Parameter([self.clipped_spatial_dim, feat_dim], dtype)

    def __call__(
        self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: Offset = 0
    ) -> tuple[Tensor, Dim]:
        """The vectors, beginning with the distance of the first key to the last query, and the dim of the distances.

        → {query + key_value - 1, feat_dim}. `query_offset`: the position of the first query relative to the first key.
        """
        distances, out_dim = relative_positions(
            query_spatial_dim=query_spatial_dim,
            key_value_spatial_dim=key_value_spatial_dim,
            query_offset=query_offset,
            device=self.pos_emb.device,
        )
        return self._of(distances), out_dim

    def full_matrix(self, *, query_spatial_dim: Dim, key_value_spatial_dim: Dim, query_offset: Offset = 0) -> Tensor:
        """The vector of each query and key. → {query, key_value, feat_dim}"""
        queries = add(frame_numbers(query_spatial_dim), query_offset)
        return self._of(combine_bc(frame_numbers(key_value_spatial_dim), "sub", queries))

    def _of(self, distances: Tensor) -> Tensor:
        clipped = clip_by_value(distances, -self.clipping, 0 if self.causal else self.clipping)
        indices = set_sparse_dim(add(clipped, self.clipping), self.clipped_spatial_dim)
        return gather(self.pos_emb, indices=indices, axis=self.clipped_spatial_dim)


def build_pos_enc(choice: Choice | None, feat_dim: Dim) -> Callable[..., Tensor] | None:
    """A function from `spatial_dim` to the positional encoding in `feat_dim`; None if there are no positions."""
    if choice is None:
        return None
    if isinstance(choice, type | dict | Module):
        encoding: Callable[..., Tensor] = build_part(choice, feat_dim)
        return encoding
    return functools.partial(choice, feat_dim=feat_dim)
