"""Parts of Transformer-like models: positions, feed-forward parts, and bases that encoder and decoder share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.layers.dropout import WithDropout
from rfnb.nn.layers.linear import Linear
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.concat import split
from rfnb.ops.index import gather
from rfnb.ops.math import add, cast, clip_by_value, combine_bc, identity, relu, silu
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


def add_positions(model: Module, x: Tensor, positions: Tensor) -> Tensor:
    """x + positions, which get the dtype of the parameters, so that a model in bfloat16 computes in it."""
    modules = (module for _, module in model.named_modules())
    parameters = (p for module in modules for p in vars(module).values() if isinstance(p, Parameter))
    return add(x, cast(positions, next(parameters).dtype))


Activation = Callable[[Tensor], Tensor] | dict[str, Any] | Module
"""An activation: a function, a module, which is copied, or the result of `rf.build_dict`."""


class FeedForward(WithDropout):
    """Two linear maps with an activation in between (Vaswani et al. 2017). {…, out_dim} → {…, out_dim}

    >>> model = rf.Dim(4, name="model")
    >>> feed_forward = rf.FeedForward(model)
    >>> feed_forward.linear_ff.out_dim is 4 * model, feed_forward(rf.zeros([model])).dims == (model,)
    (True, True)

    Args:
        ff_dim: the dim between the two maps; by default four times `out_dim`.
        dropout: dropout of the result of the activation, in training.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: Probability = 0.1,
        activation: Activation = relu,
        with_bias: bool = True,
    ):
        ff_dim = 4 * out_dim if ff_dim is None else as_dim(ff_dim, "feed-forward")
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.activation = build_part(activation)
        self.linear_ff = Linear(out_dim, ff_dim, with_bias=with_bias)
        self.linear_out = Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{…, out_dim} → {…, out_dim}"""
        hidden = self.activation(self.linear_ff(inp))
        return self.linear_out(self.dropped(hidden, dim=self.ff_dim))


class FeedForwardGated(WithDropout):
    """`rf.FeedForward` in which one half gates the other (Shazeer 2020). {…, out_dim} → {…, out_dim}

    The first half of `linear_ff` goes through `activation`, the second through `gate_activation`. The defaults are
    those of Llama.

    >>> model = rf.Dim(4, name="model")
    >>> feed_forward = rf.FeedForwardGated(model, ff_dim=6)
    >>> feed_forward.linear_ff.out_dim.dimension, feed_forward(rf.zeros([model])).dims == (model,)
    (12, True)

    ff_dim: the dim of each half; by default 8/3 of `out_dim`, rounded up to a multiple of 256.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: Probability = 0.1,
        activation: Activation = silu,
        gate_activation: Activation = identity,
        with_bias: bool = False,
    ):
        ff_dim = -(out_dim.get_dim_value() * 8 // 3 // -256) * 256 if ff_dim is None else ff_dim
        ff_dim = as_dim(ff_dim, "feed-forward")
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.activation = build_part(activation)
        self.gate_activation = build_part(gate_activation)
        self.linear_ff = Linear(out_dim, 2 * ff_dim, with_bias=with_bias)
        self.linear_out = Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, inp: Tensor) -> Tensor:
        """{…, out_dim} → {…, out_dim}"""
        halves = split(self.linear_ff(inp), axis=2 * self.ff_dim, out_dims=[self.ff_dim, self.ff_dim])
        hidden = self.activation(halves[0]) * self.gate_activation(halves[1])
        return self.linear_out(self.dropped(hidden, dim=self.ff_dim))


DEFAULT_DIM = Dim(512, name="model")
"""The dim of a Transformer for which none is given."""
DEFAULT_DIM.made = None  # not created by user code


class TransformerLayer(WithDropout):
    """Base of layers whose parts are added to their input, with a norm before each part or after each sum."""

    norm_first: bool

    def part_input(self, x: Tensor, norm: Module) -> Tensor:
        """The input of a part: norm(x), or x if the norms come after the sums."""
        result: Tensor = norm(x) if self.norm_first else x
        return result

    def add_part(self, x: Tensor, part: Tensor, norm: Module) -> Tensor:
        """x + dropout(part), or the norm of that if the norms come after the sums."""
        x = add(x, self.dropped(part))
        result: Tensor = x if self.norm_first else norm(x)
        return result


class Transformer(WithDropout):
    """Base with an embedding, positions and, if these have another dim, a map to the dim of the layers."""

    input_dropout: float

    def _set_input(
        self,
        vocab_dim: Dim,
        model_dim: Dim | int,
        embed_dim: Dim | None,
        embedding: Choice | None,
        scale: float | None,
        pos_enc: Choice | None,
    ) -> None:
        self.vocab_dim = vocab_dim
        self.model_dim = as_dim(model_dim, "model")
        self.embed_dim = embed_dim
        dim = embed_dim or self.model_dim
        self.input_embedding = None if embedding is None else build_part(embedding, vocab_dim, dim)
        self.input_embedding_proj = Linear(embed_dim, self.model_dim, with_bias=False) if embed_dim else None
        self.pos_enc = build_pos_enc(pos_enc, dim)
        plain = embedding is None and pos_enc is None
        usual = 1.0 if plain else self.model_dim.get_dim_value() ** 0.5
        self.input_embedding_scale = usual if scale is None else scale

    def _at_positions(self, x: Tensor, **where: object) -> Tensor:
        """Adds the positions and maps to the dim of the layers. {…, embed_dim} → {…, model_dim}"""
        if self.pos_enc is not None:
            x = add_positions(self, x, self.pos_enc(**where))
        x = self.dropped(x, self.input_dropout, dim=self.embed_dim or self.model_dim)
        return x if self.input_embedding_proj is None else self.input_embedding_proj(x)
