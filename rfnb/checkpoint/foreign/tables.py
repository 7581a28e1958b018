"""Tables of weights: which parameter of rfnb is made of which weights elsewhere, by class of module."""

from __future__ import annotations

from typing import NamedTuple

from rfnb.nn.attention import CrossAttention, RotaryPosCausalSelfAttention, RotaryPosSelfAttention, SelfAttentionBase
from rfnb.nn.cells.simple import GRU
from rfnb.nn.decoder.transformer import TransformerDecoder, TransformerDecoderLayer
from rfnb.nn.encoder.transformer import TransformerEncoderLayer
from rfnb.nn.layers.conv import Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.norm import BatchNorm, GroupNorm, LayerNorm, RMSNorm
from rfnb.nn.layers.rec import LSTM
from rfnb.nn.layers.transformer import FeedForwardGated
from rfnb.nn.module.module import Module


class TableRow(NamedTuple):
    """One row of a table: `transform` makes the parameter `target` from the weights `sources`.

    Names are relative to a module; "{i}" in them stands for a number. Several rows with the same target are
    alternatives: the first whose sources all exist is used.
    """

    target: str
    sources: tuple[str, ...]
    transform: str = "same"


def below(prefix: str, source: str, rows: tuple[TableRow, ...]) -> tuple[TableRow, ...]:
    """The rows for a submodule that is named `prefix` in rfnb and `source` in the other library."""
    return tuple(
        TableRow(f"{prefix}.{row.target}", tuple(f"{source}.{name}" for name in row.sources), row.transform)
        for row in rows
    )


LINEAR = (
    TableRow("weight", ("weight",), "transposed"),
    TableRow("bias", ("bias",)),
)
NORM = (
    TableRow("scale", ("weight",)),
    TableRow("bias", ("bias",)),
)
BATCH_NORM = (
    TableRow("gamma", ("weight",)),
    TableRow("beta", ("bias",)),
    TableRow("running_mean", ("running_mean",)),
    TableRow("running_variance", ("running_var",)),
)
CONV = (
    TableRow("filter", ("weight",)),
    TableRow("bias", ("bias",)),
)
LSTM_CELL = (  # `unfold_lstms` gives the layers of an LSTM these names. torch has two biases, which are added
    TableRow("ff_weight", ("weight_ih",)),
    TableRow("rec_weight", ("weight_hh",)),
    TableRow("bias", ("bias_ih", "bias_hh"), "sum"),
)
GRU_CELL = (  # `unfold_lstms` gives the layers of a GRU these names. For `rf.GRU` with `reset_after`
    TableRow("ff_weight", ("weight_ih",), "transposed"),
    TableRow("rec_weight", ("weight_hh",), "gates"),
    TableRow("candidate_weight", ("weight_hh",), "candidate"),
    TableRow("bias", ("bias_ih", "bias_hh"), "bias of GRU"),
    TableRow("candidate_bias", ("bias_hh",), "candidate"),
)


def _three(names: str) -> tuple[str, ...]:
    return tuple(names.format(x) for x in "qkv")


_PROJ = (
    *below("proj", "out_proj", LINEAR),
    *below("proj", "o_proj", LINEAR),
    *below("proj", "wo", LINEAR),
)
_FUSED = (
    TableRow("qkv.weight", ("in_proj_weight",), "heads"),
    TableRow("qkv.weight", _three("{}_proj_weight"), "heads"),
    TableRow("qkv.bias", ("in_proj_bias",), "heads"),
    TableRow("qkv.weight", _three("w{}.weight"), "heads"),
    TableRow("qkv.weight", ("qkv.weight",), "in one"),
    TableRow("qkv.bias", ("qkv.bias",), "in one"),
)
SELF_ATTENTION = (
    *_FUSED,
    TableRow("qkv.weight", _three("{}_proj.weight"), "heads"),
    TableRow("qkv.bias", _three("{}_proj.bias"), "heads"),
    *_PROJ,
)
ROTARY_SELF_ATTENTION = (
    *_FUSED,
    TableRow("qkv.weight", _three("{}_proj.weight"), "heads, halves"),
    TableRow("qkv.bias", _three("{}_proj.bias"), "heads, halves"),
    *_PROJ,
)
CROSS_ATTENTION = (
    TableRow("q.weight", ("in_proj_weight",), "queries"),
    TableRow("q.weight", ("q_proj_weight",), "transposed"),
    TableRow("q.bias", ("in_proj_bias",), "queries"),
    TableRow("kv.weight", ("in_proj_weight",), "keys and values"),
    TableRow("kv.weight", ("k_proj_weight", "v_proj_weight"), "heads"),
    TableRow("kv.bias", ("in_proj_bias",), "keys and values"),
    *below("q", "q_proj", LINEAR),
    TableRow("kv.weight", ("k_proj.weight", "v_proj.weight"), "heads"),
    TableRow("kv.bias", ("k_proj.bias", "v_proj.bias"), "heads"),
    TableRow("kv.weight", ("kv.weight",), "in one"),
    TableRow("kv.bias", ("kv.bias",), "in one"),
    *_PROJ,
)
FEED_FORWARD_GATED = (
    TableRow("linear_ff.weight", ("gate_proj.weight", "up_proj.weight"), "joined"),
    TableRow("linear_ff.weight", ("w1.weight", "w3.weight"), "joined"),
    *below("linear_out", "down_proj", LINEAR),
    *below("linear_out", "w2", LINEAR),
)
TRANSFORMER_ENCODER_LAYER = (
    *below("self_att", "self_attn", SELF_ATTENTION),
    *below("self_att_layer_norm", "norm1", NORM),
    *below("ff.linear_ff", "linear1", LINEAR),
    *below("ff.linear_out", "linear2", LINEAR),
    *below("ff_layer_norm", "norm2", NORM),
)
TRANSFORMER_DECODER_LAYER = (
    *below("self_att", "self_attn", SELF_ATTENTION),
    *below("self_att_layer_norm", "norm1", NORM),
    *below("cross_att", "multihead_attn", CROSS_ATTENTION),
    *below("cross_att_layer_norm", "norm2", NORM),
    *below("ff.linear_ff", "linear1", LINEAR),
    *below("ff.linear_out", "linear2", LINEAR),
    *below("ff_layer_norm", "norm3", NORM),
)
LLAMA = (
    TableRow("input_embedding.weight", ("model.embed_tokens.weight",)),
    *below("layers.{i}.self_att", "model.layers.{i}.self_attn", ROTARY_SELF_ATTENTION),
    *below("layers.{i}.self_att_layer_norm", "model.layers.{i}.input_layernorm", NORM),
    *below("layers.{i}.ff", "model.layers.{i}.mlp", FEED_FORWARD_GATED),
    *below("layers.{i}.ff_layer_norm", "model.layers.{i}.post_attention_layernorm", NORM),
    *below("final_layer_norm", "model.norm", NORM),
    TableRow("logits.weight", ("lm_head.weight",), "transposed"),
    TableRow(
        "logits.weight", ("model.embed_tokens.weight",), "transposed"
    ),  # tied there, but a separate parameter here
)
LLAMA_OF_META = (
    TableRow("input_embedding.weight", ("tok_embeddings.weight",)),
    *below("layers.{i}.self_att", "layers.{i}.attention", ROTARY_SELF_ATTENTION),
    *below("layers.{i}.self_att_layer_norm", "layers.{i}.attention_norm", NORM),
    *below("layers.{i}.ff", "layers.{i}.feed_forward", FEED_FORWARD_GATED),
    *below("layers.{i}.ff_layer_norm", "layers.{i}.ffn_norm", NORM),
    *below("final_layer_norm", "norm", NORM),
    TableRow("logits.weight", ("output.weight",), "transposed"),
)


TABLES: dict[type[Module], tuple[TableRow, ...]] = {
    Linear: LINEAR,
    LayerNorm: NORM,
    RMSNorm: NORM,
    GroupNorm: NORM,
    BatchNorm: BATCH_NORM,
    **dict.fromkeys(
        (Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d),
        CONV,
    ),
    LSTM: LSTM_CELL,
    GRU: GRU_CELL,
    SelfAttentionBase: SELF_ATTENTION,
    RotaryPosSelfAttention: ROTARY_SELF_ATTENTION,
    RotaryPosCausalSelfAttention: ROTARY_SELF_ATTENTION,
    CrossAttention: CROSS_ATTENTION,
    FeedForwardGated: FEED_FORWARD_GATED,
    TransformerEncoderLayer: TRANSFORMER_ENCODER_LAYER,
    TransformerDecoderLayer: TRANSFORMER_DECODER_LAYER,
    TransformerDecoder: (*LLAMA, *LLAMA_OF_META),
}
"""The table for a class and for its subclasses, unless these have their own."""


def rows_for(module: Module) -> tuple[TableRow, ...]:
    """The table of the nearest class that has one; none for a GRU with reset before the product, which torch lacks."""
    if isinstance(module, GRU) and not module.reset_after:
        return ()
    return next((TABLES[cls] for cls in type(module).__mro__ if cls in TABLES), ())
