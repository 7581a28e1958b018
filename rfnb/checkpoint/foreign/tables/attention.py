"""Attention and the layers of a Transformer, in torch, Llama of Hugging Face, and Llama of Meta.

The others store queries, keys and values of all heads as three blocks; rfnb stores them head by head. For rotary
positions, Hugging Face rotates pairs of feature i and i + half; rfnb and Meta rotate pairs of adjacent features.
"""

from __future__ import annotations

from rfnb.checkpoint.foreign.tables.layers import LINEAR, NORM
from rfnb.checkpoint.foreign.tables.row import TableRow, below


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
