"""Bases that the encoder and the decoder of a Transformer share, for the layers and for the whole."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.layers.dropout import WithDropout
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.position import build_pos_enc
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.math import add

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

    def _at_positions(self, x: Tensor, **where: Any) -> Tensor:
        """Adds the positions and maps to the dim of the layers. {…, embed_dim} → {…, model_dim}"""
        if self.pos_enc is not None:
            x = add(x, self.pos_enc(**where))
        x = self.dropped(x, self.input_dropout, dim=self.embed_dim or self.model_dim)
        return x if self.input_embedding_proj is None else self.input_embedding_proj(x)
