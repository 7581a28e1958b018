"""What the encoder and the decoder of a Transformer, and the layers of both, have in common."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.position import positions
from rfnb.nn.module.build import Choice, build_part
from rfnb.nn.module.module import Module
from rfnb.ops.math import add
from rfnb.ops.random import dropout

DEFAULT_DIM = Dim(512, name="model")
DEFAULT_DIM.made = None  # by no line of the user


class TransformerLayer(Module):
    """Base: parts that are added to what comes in, with a norm before each of them, or behind."""

    dropout: float
    norm_first: bool

    def into(self, x: Tensor, norm: Module) -> Tensor:
        """What a part is given: norm(x), or x if the norms are behind."""
        found: Tensor = norm(x) if self.norm_first else x
        return found

    def added(self, x: Tensor, part: Tensor, norm: Module) -> Tensor:
        """x + dropout(part), or the norm of that if the norms are behind."""
        x = add(x, dropout(part, self.dropout))
        found: Tensor = x if self.norm_first else norm(x)
        return found


class Transformer(Module):
    """Base: an embedding, positions, and where both have another dim, a map to that of the layers."""

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
        self.pos_enc = positions(pos_enc, dim)
        self.input_embedding_scale = self.model_dim.get_dim_value() ** 0.5 if scale is None else scale

    def _at_positions(self, x: Tensor, **where: Any) -> Tensor:
        """x with its positions. {…, embed_dim} → {…, model_dim}"""
        if self.pos_enc is not None:
            x = add(x, self.pos_enc(**where))
        x = dropout(x, self.input_dropout)
        return x if self.input_embedding_proj is None else self.input_embedding_proj(x)
