"""The tables by class of module. In modules without a table, parameters have the names of the weights."""

from __future__ import annotations

from rfnb.checkpoint.foreign.tables import attention, layers
from rfnb.checkpoint.foreign.tables.row import TableRow
from rfnb.nn.attention.base import CrossAttention, SelfAttentionBase
from rfnb.nn.attention.rotary import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
from rfnb.nn.cells.simple import GRU
from rfnb.nn.decoder.transformer import TransformerDecoder, TransformerDecoderLayer
from rfnb.nn.encoder.transformer import TransformerEncoderLayer
from rfnb.nn.layers.batch_norm import BatchNorm
from rfnb.nn.layers.conv import Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d
from rfnb.nn.layers.feed_forward import FeedForwardGated
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.norm import GroupNorm, LayerNorm, RMSNorm
from rfnb.nn.layers.rec import LSTM
from rfnb.nn.module.module import Module

TABLES: dict[type[Module], tuple[TableRow, ...]] = {
    Linear: layers.LINEAR,
    LayerNorm: layers.NORM,
    RMSNorm: layers.NORM,
    GroupNorm: layers.NORM,
    BatchNorm: layers.BATCH_NORM,
    **dict.fromkeys(
        (Conv1d, Conv2d, Conv3d, TransposedConv1d, TransposedConv2d, TransposedConv3d),
        layers.CONV,
    ),
    LSTM: layers.LSTM,
    GRU: layers.GRU,
    SelfAttentionBase: attention.SELF_ATTENTION,
    RotaryPosSelfAttention: attention.ROTARY_SELF_ATTENTION,
    RotaryPosCausalSelfAttention: attention.ROTARY_SELF_ATTENTION,
    CrossAttention: attention.CROSS_ATTENTION,
    FeedForwardGated: attention.FEED_FORWARD_GATED,
    TransformerEncoderLayer: attention.TRANSFORMER_ENCODER_LAYER,
    TransformerDecoderLayer: attention.TRANSFORMER_DECODER_LAYER,
    TransformerDecoder: (*attention.LLAMA, *attention.LLAMA_OF_META),
}
"""The table for a class and for its subclasses, unless these have their own."""


def rows_for(module: Module) -> tuple[TableRow, ...]:
    """The table of the nearest class that has one; none for a GRU with reset before the product, which torch lacks."""
    if isinstance(module, GRU) and not module.reset_after:
        return ()
    return next((TABLES[cls] for cls in type(module).__mro__ if cls in TABLES), ())
