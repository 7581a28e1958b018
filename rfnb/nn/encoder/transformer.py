"""The Transformer encoder (Vaswani et al. 2017), with the norm before each part (Xiong et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.attention import SelfAttention, attention_options
from rfnb.nn.encoder.base import ISeqFramewiseEncoder
from rfnb.nn.layers.linear import Embedding
from rfnb.nn.layers.norm import LayerNorm
from rfnb.nn.layers.transformer import DEFAULT_DIM, Activation, FeedForward, Transformer, TransformerLayer
from rfnb.nn.module.build import Choice, build_part, given_options
from rfnb.nn.module.container import Sequential
from rfnb.nn.module.module import layer_numbers
from rfnb.ops.math import mul
from rfnb.ops.position import sinusoidal_positional_encoding

__all__ = ["TransformerEncoder", "TransformerEncoderLayer"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class TransformerEncoderLayer(TransformerLayer, ISeqFramewiseEncoder):
    """Self-attention, then a feed-forward part. {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> layer = rf.TransformerEncoderLayer(model, num_heads=2)
    >>> layer(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True

    Args:
        ff: by default `rf.FeedForward`; it gets `ff_dim` and `ff_activation`, if these are given.
        self_att: by default `rf.SelfAttention`; self_att_opts: further options for it.
        dropout: dropout of the result of each part, and in `ff`. att_dropout: dropout of the attention weights.
        norm_first: whether the norms come before the parts (Xiong et al. 2020), or after the residual sums, as in the
            original Transformer.
    """

    def __init__(
        self,
        out_dim: Dim = DEFAULT_DIM,
        *,
        ff: Choice | None = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        dropout: Probability = 0.1,
        num_heads: int | Dim = 8,
        self_att: Choice | None = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: Probability = 0.1,
        norm: Choice = LayerNorm,
        norm_first: bool = True,
    ):
        self.out_dim = out_dim
        self.dropout = dropout
        self.norm_first = norm_first
        ff_opts = given_options(dropout=dropout, ff_dim=ff_dim, activation=ff_activation)
        self.ff = build_part(ff or FeedForward, out_dim, **ff_opts)
        self.ff_layer_norm = build_part(norm, out_dim)
        att_opts = attention_options(out_dim, num_heads, att_dropout) | (self_att_opts or {})
        self.self_att = build_part(self_att or SelfAttention, out_dim, **att_opts)
        self.self_att_layer_norm = build_part(norm, out_dim)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}"""
        norm = self.self_att_layer_norm
        x = self.add_part(x, self.self_att(self.part_input(x, norm), axis=spatial_dim), norm)
        return self.add_part(x, self.ff(self.part_input(x, self.ff_layer_norm)), self.ff_layer_norm)


class TransformerEncoder(Transformer, ISeqFramewiseEncoder):
    """An embedding with positions, layers, and a norm at the end. {…, spatial_dim} → {…, spatial_dim, model_dim}

    >>> letters = rf.Dim(26, name="letter")
    >>> encoder = rf.TransformerEncoder(letters, rf.Dim(8, name="model"), num_layers=2, num_heads=2)
    >>> time = rf.Dim(3, name="time")
    >>> word = rf.convert_to_tensor([2, 0, 19], dims=[time], sparse_dim=letters)
    >>> encoder(word, spatial_dim=time).dims == (time, encoder.model_dim)
    True

    Parts (`ff`, `norm`, …) can be chosen: a class, `rf.build_dict(…)`, or a module, which is copied.

    Args:
        ff, ff_dim, ff_activation, norm: options of the layers, see `rf.TransformerEncoderLayer`.
        pos_enc: called with `spatial_dim` and `feat_dim`; the result is added to the embedding. None: no positions.
        layer: by default `rf.TransformerEncoderLayer`; layer_opts: further options for it.
        embed_dim: the dim of the embedding, if not `model_dim`; `input_embedding_proj` then maps it to `model_dim`.
        input_embedding: makes the embedding; None: the source already consists of features, which are used unchanged.
        input_embedding_scale: by default √model_dim. input_dropout: by default `dropout`.
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
        dropout: Probability = 0.1,
        num_heads: int = 8,
        att_dropout: Probability = 0.1,
        norm: Choice = LayerNorm,
        layer: Choice | None = None,
        layer_opts: dict[str, Any] | None = None,
        embed_dim: Dim | None = None,
        input_embedding: Choice | None = Embedding,
        input_embedding_scale: float | None = None,
        input_dropout: Probability | None = None,
        sequential: Callable[..., Any] = Sequential,
    ):
        self._set_input(vocab_dim, model_dim, embed_dim, input_embedding, input_embedding_scale, pos_enc)
        self.out_dim = self.model_dim
        self.input_dropout = dropout if input_dropout is None else input_dropout
        options = given_options(
            ff=ff,
            ff_dim=ff_dim,
            ff_activation=ff_activation,
            dropout=dropout,
            num_heads=num_heads,
            att_dropout=att_dropout,
            norm=norm,
        )
        options.update(layer_opts or {})
        kind = layer or TransformerEncoderLayer
        self.layers = sequential(
            build_part(kind, self.model_dim, **options) for _ in layer_numbers(type(self), num_layers)
        )
        self.final_layer_norm = build_part(norm, self.model_dim)

    def __call__(
        self, source: Tensor, *, spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> Tensor:
        """{…, spatial_dim} → {…, spatial_dim, model_dim}. `collected_outputs` receives each layer's output, by name."""
        x = source
        if self.input_embedding is not None:
            x = mul(self.input_embedding(source), self.input_embedding_scale)
        x = self._at_positions(x, spatial_dim=spatial_dim)
        x = self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs)
        normed: Tensor = self.final_layer_norm(x)
        return normed
