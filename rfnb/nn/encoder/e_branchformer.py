"""The E-Branchformer: attention and convolution in parallel, then merged (Kim et al., SLT 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.nn.attention import RelPosSelfAttention, attention_options
from rfnb.nn.encoder.base import ISeqFramewiseEncoder
from rfnb.nn.encoder.conformer import DEFAULT_OUT_DIM, ConformerPositionwiseFeedForward
from rfnb.nn.layers.conv import Conv1d
from rfnb.nn.layers.dropout import WithDropout
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.norm import LayerNorm
from rfnb.nn.layers.transformer import Activation
from rfnb.nn.module.build import Choice, build_part, given_options
from rfnb.nn.module.module import Module
from rfnb.ops.concat import concat, split
from rfnb.ops.math import gelu, identity

__all__ = ["EBranchformerLayer", "FeedForwardConvGated", "Merge"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class EBranchformerLayer(WithDropout, ISeqFramewiseEncoder):
    """Feed-forward with weight ½, self-attention in parallel to convolution, feed-forward with weight ½.

    {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}. The result of each part is added to its input.

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> layer = rf.EBranchformerLayer(model, num_heads=2)
    >>> layer(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True

    Parts are chosen as in `rf.ConformerEncoderLayer`, which this layer replaces with
    `rf.ConformerEncoder(…, encoder_layer=rf.EBranchformerLayer)`.

    Args:
        cgmlp: the convolution branch; by default `FeedForwardConvGated`.
        cgmlp_ff_dim: the features of its convolution; by default three times `out_dim`.
        cgmlp_conv_kernel, merge_conv_kernel: the number of frames that the convolutions see, in that branch and in the
            merge of both branches.
    """

    def __init__(
        self,
        out_dim: Dim = DEFAULT_OUT_DIM,
        *,
        ff: Choice | None = None,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        dropout: Probability = 0.1,
        num_heads: int | Dim = 4,
        self_att: Choice | None = None,
        att_dropout: Probability = 0.1,
        cgmlp: Choice | None = None,
        cgmlp_ff_dim: Dim | int | None = None,
        cgmlp_conv_kernel: int = 31,
        merge_conv_kernel: int = 3,
        norm: Choice = LayerNorm,
    ):
        self.out_dim = out_dim
        self.dropout = dropout
        ff_opts = given_options(out_dim=out_dim, dropout=dropout, ff_dim=ff_dim, activation=ff_activation)
        self.ffn1, self.ffn2 = (build_part(ff or ConformerPositionwiseFeedForward, **ff_opts) for _ in range(2))
        self.ffn1_layer_norm, self.ffn2_layer_norm = build_part(norm, out_dim), build_part(norm, out_dim)
        att_opts = attention_options(out_dim, num_heads, att_dropout)
        self.self_att = build_part(self_att or RelPosSelfAttention, in_dim=out_dim, **att_opts)
        self.self_att_layer_norm = build_part(norm, out_dim)
        cgmlp_opts = given_options(out_dim=out_dim, ff_dim=cgmlp_ff_dim, kernel_size=cgmlp_conv_kernel, dropout=dropout)
        self.cgmlp = build_part(cgmlp or FeedForwardConvGated, **cgmlp_opts)
        self.cgmlp_layer_norm = build_part(norm, out_dim)
        self.merge = Merge(in_dim1=out_dim, in_dim2=out_dim, out_dim=out_dim, merge_conv_kernel=merge_conv_kernel)
        self.final_layer_norm = build_part(norm, out_dim)

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}"""
        x = inp + 0.5 * self.dropped(self.ffn1(self.ffn1_layer_norm(inp)))
        far = self.dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        near = self.dropped(self.cgmlp(self.cgmlp_layer_norm(x), spatial_dim=spatial_dim))
        x = x + self.dropped(self.merge(far, near, spatial_dim=spatial_dim))
        x = x + 0.5 * self.dropped(self.ffn2(self.ffn2_layer_norm(x)))
        return self.final_layer_norm(x)


class FeedForwardConvGated(WithDropout):
    """A feed-forward part that gates one half of its features by a convolution of the other (Sakuma et al. 2021).

    {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> cgmlp = rf.encoder.e_branchformer.FeedForwardConvGated(model, kernel_size=3)
    >>> cgmlp(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True

    Args:
        ff_dim: the dim of each half; by default three times `out_dim`.
        dropout: dropout of the gated half, in training.
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        kernel_size: int = 31,
        dropout: Probability = 0.1,
        activation: Callable[[Tensor], Tensor] = gelu,
        gate_activation: Callable[[Tensor], Tensor] = identity,
        with_bias: bool = True,
        norm: Choice = LayerNorm,
    ):
        ff_dim = 3 * out_dim if ff_dim is None else as_dim(ff_dim, "feed-forward")
        self.out_dim = out_dim
        self.ff_dim = ff_dim
        self.dropout = dropout
        self.activation = activation
        self.gate_activation = gate_activation
        self.linear_ff = Linear(out_dim, 2 * ff_dim, with_bias=with_bias)
        self.norm = build_part(norm, ff_dim)
        self.conv = _depthwise(ff_dim, kernel_size, with_bias=with_bias)
        self.linear_out = Linear(ff_dim, out_dim, with_bias=with_bias)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}"""
        hidden = self.activation(self.linear_ff(x))
        gate, values = split(hidden, axis=2 * self.ff_dim, out_dims=[self.ff_dim, self.ff_dim])
        gate, _ = self.conv(self.norm(gate), in_spatial_dim=spatial_dim)
        values = self.gate_activation(gate) * values
        return self.linear_out(self.dropped(values, dim=self.ff_dim))


class Merge(Module):
    """Merges two branches by a convolution over both and a projection. {…, in_dim1}, {…, in_dim2} → {…, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> merge = rf.encoder.e_branchformer.Merge(in_dim1=model, in_dim2=model, out_dim=model)
    >>> merge(rf.zeros([time, model]), rf.ones([time, model]), spatial_dim=time).dims == (time, model)
    True
    """

    def __init__(self, *, in_dim1: Dim, in_dim2: Dim, out_dim: Dim, merge_conv_kernel: int = 3):
        self.in_dim1 = in_dim1
        self.in_dim2 = in_dim2
        self.concat_in_dim = in_dim1 + in_dim2
        self.out_dim = out_dim
        self.depthwise_conv_fusion = _depthwise(self.concat_in_dim, merge_conv_kernel)
        self.merge_proj = Linear(self.concat_in_dim, out_dim)

    def __call__(self, x1: Tensor, x2: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, in_dim1}, {…, spatial_dim, in_dim2} → {…, spatial_dim, out_dim}"""
        joined, _ = concat((x1, self.in_dim1), (x2, self.in_dim2), out_dim=self.concat_in_dim)
        near, _ = self.depthwise_conv_fusion(joined, in_spatial_dim=spatial_dim)
        return self.merge_proj(joined + near)


def _depthwise(dim: Dim, kernel_size: int, **options: Any) -> Conv1d:
    return Conv1d(dim, dim, kernel_size, padding="same", groups=dim.get_dim_value(), **options)
