"""The Transformer encoder (Vaswani et al. 2017), with the norm before each part (Xiong et al. 2020)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.attention import SelfAttention
from rfnb.nn.container import Sequential
from rfnb.nn.embedding import Embedding
from rfnb.nn.feed_forward import Activation, FeedForward
from rfnb.nn.linear import Linear
from rfnb.nn.made import given, made
from rfnb.nn.module import Module
from rfnb.nn.norm import LayerNorm
from rfnb.ops.math import add, mul
from rfnb.ops.position import sinusoidal_positional_encoding
from rfnb.ops.random import dropout

__all__ = ["TransformerEncoder", "TransformerEncoderLayer"]


def __dir__() -> list[str]:
    """What is offered for completion: no imports."""
    return __all__


DEFAULT_DIM = Dim(512, name="model")
DEFAULT_DIM.made = None  # by no line of the user

Choice = type | dict[str, Any] | Module | Callable[..., Any]
"""What makes a part: a class, what `rf.build_dict` gives, a module that is copied, or a function."""


class TransformerEncoderLayer(Module):
    """Self-attention, then a feed-forward part. {…, spatial_dim, out_dim} → the same

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> layer = rf.TransformerEncoderLayer(model, num_heads=2)
    >>> layer(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True

    Args:
        ff: `rf.FeedForward` if not given; it is called with `ff_dim` and `ff_activation`, if these are given.
        self_att: `rf.SelfAttention` if not given; self_att_opts: more options for it.
        dropout: of what each part adds, and in `ff`. att_dropout: of the weights.
    """

    def __init__(
        self,
        out_dim: Dim = DEFAULT_DIM,
        *,
        ff: Choice | None = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        dropout: float = 0.1,
        num_heads: int | Dim = 8,
        self_att: Choice | None = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: float = 0.1,
        norm: Choice = LayerNorm,
    ):
        self.out_dim = out_dim
        self.dropout = dropout
        self.ff = made(ff or FeedForward, out_dim, dropout=dropout, **given(ff_dim=ff_dim, activation=ff_activation))
        self.ff_layer_norm = made(norm, out_dim)
        att_dims = {"proj_dim": out_dim, "key_dim_total": out_dim, "value_dim_total": out_dim}
        options = {**att_dims, "num_heads": num_heads, "att_dropout": att_dropout, **(self_att_opts or {})}
        self.self_att = made(self_att or SelfAttention, out_dim, **options)
        self.self_att_layer_norm = made(norm, out_dim)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → the same"""
        x = self.added(x, self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        return self.added(x, self.ff(self.ff_layer_norm(x)))

    def added(self, x: Tensor, part: Tensor) -> Tensor:
        """x + dropout(part)"""
        return add(x, dropout(part, self.dropout))


class TransformerEncoder(Module):
    """An embedding with positions, layers, and a norm at the end. {…, spatial_dim} → {…, spatial_dim, model_dim}

    >>> letters = rf.Dim(26, name="letter")
    >>> encoder = rf.TransformerEncoder(letters, rf.Dim(8, name="model"), num_layers=2, num_heads=2)
    >>> time = rf.Dim(3, name="time")
    >>> word = rf.convert_to_tensor([2, 0, 19], dims=[time], sparse_dim=letters)
    >>> encoder(word, spatial_dim=time).dims == (time, encoder.model_dim)
    True

    What is built of choices (`ff`, `norm`, …): a class, what `rf.build_dict` gives, or a module that is copied.

    Args:
        ff, ff_dim, ff_activation, norm: for the layers, see `rf.TransformerEncoderLayer`.
        pos_enc: called with `spatial_dim` and `feat_dim`, added to the embedding; None: there are no positions.
        layer: `rf.TransformerEncoderLayer` if not given; layer_opts: more options for it.
        embed_dim: of the embedding, if not `model_dim`: `input_embedding_proj` leads from one to the other.
        input_embedding: makes the embedding; None: the source has features already, which are taken as they are.
        input_embedding_scale: √model_dim if not given. input_dropout: `dropout` if not given.
    """

    def __init__(
        self,
        vocab_dim: Dim,
        model_dim: Dim | int = DEFAULT_DIM,
        *,
        num_layers: int,
        ff: Choice | None = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        pos_enc: Choice | None = sinusoidal_positional_encoding,
        dropout: float = 0.1,
        num_heads: int = 8,
        att_dropout: float = 0.1,
        norm: Choice = LayerNorm,
        layer: Choice | None = None,
        layer_opts: dict[str, Any] | None = None,
        embed_dim: Dim | None = None,
        input_embedding: Choice | None = Embedding,
        input_embedding_scale: float | None = None,
        input_dropout: float | None = None,
        sequential: Callable[..., Any] = Sequential,
    ):
        self.vocab_dim = vocab_dim
        self.model_dim = model_dim if isinstance(model_dim, Dim) else Dim(model_dim, name="model")
        self.out_dim = self.model_dim
        self.embed_dim = embed_dim
        first_dim = embed_dim or self.model_dim
        self.input_embedding = None if input_embedding is None else made(input_embedding, vocab_dim, first_dim)
        self.input_embedding_proj = Linear(embed_dim, self.model_dim, with_bias=False) if embed_dim else None
        self.pos_enc = positions(pos_enc, first_dim)
        self.input_embedding_scale = (
            self.model_dim.get_dim_value() ** 0.5 if input_embedding_scale is None else input_embedding_scale
        )
        self.input_dropout = dropout if input_dropout is None else input_dropout
        options = {
            **given(ff=ff, ff_dim=ff_dim, ff_activation=ff_activation),
            "dropout": dropout,
            "num_heads": num_heads,
            "att_dropout": att_dropout,
            "norm": norm,
            **(layer_opts or {}),
        }
        kind = layer or TransformerEncoderLayer
        self.layers = sequential(made(kind, self.model_dim, **options) for _ in range(num_layers))
        self.final_layer_norm = made(norm, self.model_dim)

    def __call__(
        self, source: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> Tensor:
        """{…, spatial_dim} → {…, spatial_dim, model_dim}. `collected_outputs` takes what each layer gives, by name."""
        x = source
        if self.input_embedding is not None:
            x = mul(self.input_embedding(source), self.input_embedding_scale)
        if self.pos_enc is not None:
            x = add(x, self.pos_enc(spatial_dim=spatial_dim))
        x = dropout(x, self.input_dropout)
        if self.input_embedding_proj is not None:
            x = self.input_embedding_proj(x)
        x = self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs)
        normed: Tensor = self.final_layer_norm(x)
        return normed


def positions(pos_enc: Choice | None, feat_dim: Dim) -> Callable[..., Tensor] | None:
    """What gives the encodings of positions in `feat_dim`, when called with `spatial_dim`."""
    if pos_enc is None:
        return None
    if isinstance(pos_enc, type | dict | Module):
        made_of: Callable[..., Tensor] = made(pos_enc, feat_dim)
        return made_of
    return functools.partial(pos_enc, feat_dim=feat_dim)
