"""The Conformer: attention for distant frames, convolution for nearby ones (Gulati et al., Interspeech 2020).

Convolutions reduce the number of frames first.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim, as_dim
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.attention import RelPosSelfAttention, attention_options
from rfnb.nn.encoder.base import ISeqDownsamplingEncoder, ISeqFramewiseEncoder
from rfnb.nn.layers.conv import Conv1d, Conv2d
from rfnb.nn.layers.dropout import WithDropout
from rfnb.nn.layers.linear import Linear
from rfnb.nn.layers.norm import BatchNorm, LayerNorm
from rfnb.nn.layers.transformer import Activation, FeedForward, add_positions, build_pos_enc
from rfnb.nn.module.build import Choice, build_part, given_options
from rfnb.nn.module.container import ModuleList, Sequential
from rfnb.nn.module.module import Module, NotSpecified, layer_numbers
from rfnb.ops.conv import make_conv_out_spatial_dims, pool2d
from rfnb.ops.math import gating, relu, silu
from rfnb.ops.shape import merge_dims, split_dims

__all__ = [
    "ConformerConvBlock",
    "ConformerConvSubsample",
    "ConformerEncoder",
    "ConformerEncoderLayer",
    "ConformerPositionwiseFeedForward",
    "make_ff",
]
__dir__ = __all__.copy  # what is offered for completion: no imports

Pair = int | tuple[int, int]


class ConformerConvSubsample(ISeqDownsamplingEncoder):
    """The frontend of a Conformer: convolutions over time and features, which reduce both.

    {…, in_spatial_dim, in_dim} → {…, fewer frames, out_dim}. Features are treated as an axis to convolve over, because
    those of a log mel filterbank are ordered. Each convolution is followed by `activation` and maximum pooling.

    >>> time, feat = rf.Dim(7, name="time"), rf.Dim(8, name="feat")
    >>> frontend = rf.encoder.conformer.ConformerConvSubsample(
    ...     feat, out_dims=[4, 5], filter_sizes=[3, 3], pool_sizes=[(1, 2)], strides=[1, (3, 1)])
    >>> y, frames = frontend(rf.zeros([time, feat]), in_spatial_dim=time)
    >>> y.dims == (frames, frontend.out_dim), frames is time.ceildiv_right(3), frontend.out_dim.dimension
    (True, True, 20)

    Args:
        out_dims: the channels of each convolution. `out_dim` is the remaining features times the last channels.
        filter_sizes, strides: for each convolution a pair (time, features), or one number for both.
        pool_sizes: the same for pooling; there may be fewer than convolutions, or none.
        padding: the padding of the convolutions, "same" or "valid"; pooling always uses "same".
    """

    def __init__(
        self,
        in_dim: Dim,
        *,
        out_dims: Sequence[Dim | int],
        filter_sizes: Sequence[Pair],
        strides: Sequence[Pair] | None = None,
        pool_sizes: Sequence[Pair] | None = None,
        activation: Callable[[Tensor], Tensor] = relu,
        padding: str = "same",
    ):
        count = len(out_dims)
        steps = _pairs("strides", strides or [1] * count, count)
        pools = _pairs("pool_sizes", pool_sizes or [], None)[:count]
        self.in_dim = in_dim
        self.pool_sizes = [*pools, *[(1, 1)] * (count - len(pools))]
        self.activation = activation
        self.conv_layers = ModuleList()
        channels = self.one_channel = Dim(1, name="one-channel")
        for i, size in enumerate(_pairs("filter_sizes", filter_sizes, count)):
            out = as_dim(out_dims[i], f"channels{i}")
            self.conv_layers.append(Conv2d(channels, out, size, padding=padding, strides=steps[i]))
            channels = out
        self.out_dim = self._shorter(in_dim, 1) * channels
        self.downsample_factor = math.prod(time for time, _ in [*steps, *self.pool_sizes])

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """The result, and the dim of its frames. {…, in_spatial_dim, in_dim} → {…, new spatial dim, out_dim}"""
        source = split_dims(source, axis=self.in_dim, dims=[self.in_dim, self.one_channel])
        dims: Sequence[Dim] = [in_spatial_dim, self.in_dim]
        conv: Any
        for conv, size in zip(self.conv_layers, self.pool_sizes, strict=True):
            source, dims = conv(source, in_spatial_dims=dims)
            source = self.activation(source)
            if size != (1, 1):
                source, dims = pool2d(source, mode="max", pool_size=size, padding="same", in_spatial_dims=dims)
        source, _ = merge_dims(source, dims=[dims[1], conv.out_dim], out_dim=self.out_dim)
        return source, dims[0]

    def get_out_spatial_dim(self, in_spatial_dim: Dim) -> Dim:
        """The dim of the frames of the result.

        >>> frontend = rf.ConformerConvSubsample(rf.Dim(8), out_dims=[4], filter_sizes=[3], strides=[2])
        >>> frontend.get_out_spatial_dim(rf.Dim(7, name="time")).dimension
        4
        """
        return self._shorter(in_spatial_dim, 0)

    def _shorter(self, dim: Dim, axis: int) -> Dim:
        """The dim that results from the first (time) or second (features) axis."""
        conv: Any
        for conv, sizes in zip(self.conv_layers, self.pool_sizes, strict=True):
            filter_size, stride, size = conv.filter_size[axis], conv.strides[axis], sizes[axis]
            [dim] = make_conv_out_spatial_dims([dim], filter_size=filter_size, padding=conv.padding, strides=stride)
            [dim] = make_conv_out_spatial_dims([dim], filter_size=size, padding="same", strides=size)
        return dim


def _pairs(name: str, sizes: Sequence[Pair], count: int | None) -> list[tuple[int, int]]:
    """The sizes as pairs (time, features). Raises ParameterError if their number is not `count`."""
    if (not sizes and count == 0) or count not in (None, len(sizes)):
        raise ParameterError(
            f"ConformerConvSubsample: `{name}` does not have one entry for each convolution",
            got=list(sizes),
            expected=f"{count} entries, as in `out_dims`" if count else "at least one convolution",
        )
    return [(size, size) if isinstance(size, int) else tuple(size) for size in sizes]  # type: ignore[misc]


DEFAULT_OUT_DIM = Dim(512, name="conformer")
"""The dim of a Conformer for which none is given."""


class ConformerPositionwiseFeedForward(FeedForward):
    """`rf.FeedForward` with the activation of the Conformer. {…, out_dim} → {…, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> ff = rf.ConformerPositionwiseFeedForward(model, ff_dim=rf.Dim(32, name="ff"))
    >>> ff(rf.ones([time, model])).dims == (time, model)
    True
    """

    def __init__(
        self,
        out_dim: Dim,
        *,
        ff_dim: Dim | int | None = None,
        dropout: Probability = 0.1,
        activation: Activation = silu,
        with_bias: bool = True,
    ):
        super().__init__(out_dim, ff_dim=ff_dim, dropout=dropout, activation=activation, with_bias=with_bias)


@guarded
def make_ff(
    *,
    out_dim: Dim,
    ff: Choice | None = None,
    ff_dim: Dim | int | None = None,
    ff_activation: Activation | None = None,
    dropout: Probability = 0.1,
) -> Any:
    """A feed-forward part, such as those of the Conformer. {…, out_dim} → {…, out_dim}

    >>> model = rf.Dim(4, name="model")
    >>> rf.make_ff(out_dim=model, ff=rf.FeedForwardGated, ff_dim=6, ff_activation=rf.relu, dropout=0.0)(
    ...     rf.zeros([model])).dims == (model,)
    True

    Args:
        ff: a class, `rf.build_dict(…)`, a module, which is copied, or a function; by default
            `rf.ConformerPositionwiseFeedForward`.
        ff_dim, ff_activation: for the part; if they are not given, it uses its own defaults.
    """
    options = given_options(ff_dim=ff_dim, activation=ff_activation, dropout=dropout)
    return build_part(ConformerPositionwiseFeedForward if ff is None or ff is NotSpecified else ff, out_dim, **options)


class ConformerConvBlock(Module):
    """Convolution over time, separately for each feature. {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> block = rf.encoder.conformer.ConformerConvBlock(model, kernel_size=3, norm=rf.BatchNorm(model))
    >>> block(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True
    """

    def __init__(self, out_dim: Dim, *, kernel_size: int, norm: Callable[..., Tensor]):
        self.out_dim = out_dim
        self.positionwise_conv1 = Linear(out_dim, 2 * out_dim)
        self.depthwise_conv = Conv1d(out_dim, out_dim, kernel_size, padding="same", groups=out_dim.get_dim_value())
        self.positionwise_conv2 = Linear(out_dim, out_dim)
        self.norm = norm

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}"""
        x, _ = gating(self.positionwise_conv1(inp), axis=2 * self.out_dim, out_dim=self.out_dim)
        x, _ = self.depthwise_conv(x, in_spatial_dim=spatial_dim)
        over_time = _over_time(type(self.norm).__call__ if isinstance(self.norm, Module) else self.norm)
        x = self.norm(x, spatial_dim=spatial_dim) if over_time else self.norm(x)
        return self.positionwise_conv2(silu(x))


class ConformerEncoderLayer(WithDropout, ISeqFramewiseEncoder):
    """Feed-forward with weight ½, self-attention, convolution, feed-forward with weight ½: each added to its input.

    {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> layer = rf.ConformerEncoderLayer(model, num_heads=2)
    >>> layer(rf.zeros([time, model]), spatial_dim=time).dims == (time, model)
    True

    Parts (`ff`, `self_att`, `conv_norm`, `norm`) can be chosen: a class, `rf.build_dict(…)`, or a module, which is
    copied.

    Args:
        ff_dim: the inner dim of the feed-forward part; by default four times `out_dim`.
        ff_activation: by default `rf.silu`.
        dropout: dropout of the result of each part, and within the feed-forward part.
        conv_kernel_size: the number of frames that the convolution sees.
        conv_norm: the norm in the convolution; by default `rf.BatchNorm`, which ignores padding.
        conv_norm_opts, self_att_opts: further options of these parts.
        self_att: by default `rf.RelPosSelfAttention`.
        norm: the norm before each part and after the last one.
    """

    def __init__(
        self,
        out_dim: Dim = DEFAULT_OUT_DIM,
        *,
        ff: Choice = ConformerPositionwiseFeedForward,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        dropout: Probability = 0.1,
        conv_kernel_size: int = 32,
        conv_norm: Choice = BatchNorm,
        conv_norm_opts: dict[str, Any] | None = None,
        num_heads: int | Dim = 4,
        self_att: Choice | None = None,
        self_att_opts: dict[str, Any] | None = None,
        att_dropout: Probability = 0.1,
        norm: Choice = LayerNorm,
    ):
        self.out_dim = out_dim
        self.dropout = dropout
        ff_opts = given_options(out_dim=out_dim, dropout=dropout, ff_dim=ff_dim, activation=ff_activation)
        self.ffn1 = build_part(ff, **ff_opts)
        self.ffn1_layer_norm = build_part(norm, out_dim)
        self.self_att = build_part(
            self_att or RelPosSelfAttention,
            **{"in_dim": out_dim, **attention_options(out_dim, num_heads, att_dropout), **(self_att_opts or {})},
        )
        self.self_att_layer_norm = build_part(norm, out_dim)
        self.conv_block = ConformerConvBlock(
            out_dim, kernel_size=conv_kernel_size, norm=build_part(conv_norm, out_dim, **(conv_norm_opts or {}))
        )
        self.conv_layer_norm = build_part(norm, out_dim)
        self.ffn2 = build_part(ff, **ff_opts)
        self.ffn2_layer_norm = build_part(norm, out_dim)
        self.final_layer_norm = build_part(norm, out_dim)

    def __call__(self, inp: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}"""
        x = inp + 0.5 * self.dropped(self.ffn1(self.ffn1_layer_norm(inp)))
        x = x + self.dropped(self.self_att(self.self_att_layer_norm(x), axis=spatial_dim))
        x = x + self.dropped(self.conv_block(self.conv_layer_norm(x), spatial_dim=spatial_dim))
        x = x + 0.5 * self.dropped(self.ffn2(self.ffn2_layer_norm(x)))
        return self.final_layer_norm(x)


class ConformerEncoder(WithDropout, ISeqDownsamplingEncoder):
    """Conformer layers after a frontend that makes fewer frames. {…, in_spatial_dim, in_dim} → {…, frames, out_dim}

    >>> time, feat, model = rf.Dim(12, name="time"), rf.Dim(8, name="feat"), rf.Dim(16, name="model")
    >>> frontend = rf.ConformerConvSubsample(feat, out_dims=[4, 4], filter_sizes=[3, 3], strides=[2, (2, 1)])
    >>> encoder = rf.ConformerEncoder(feat, model, num_layers=2, input_layer=frontend)
    >>> y, frames = encoder(rf.zeros([time, feat]), in_spatial_dim=time)
    >>> y.dims == (frames, model), frames.dimension
    (True, 3)

    Args:
        out_dim: the dim of all layers; a number or a Dim.
        input_layer: the frontend, called as `(source, in_spatial_dim=…) -> (tensor, its spatial dim)`, with an
            attribute `out_dim`; None: there is no frontend.
        input_embedding_scale: the factor of the projected input; by default 1, or √out_dim with `pos_enc`.
        pos_enc: a positional encoding that is added, for example `rf.sinusoidal_positional_encoding`.
        input_dropout: dropout of the sum.
        encoder_layer: by default `rf.ConformerEncoderLayer`; or another class, `rf.build_dict(…)`, or a module, which
            is copied for each layer. Options that are not given here keep the defaults of the layer.
        encoder_layer_opts: further options of the layer.
        sequential: the container of the layers; by default `rf.Sequential`.
    """

    def __init__(
        self,
        in_dim: Dim,
        out_dim: Dim | int = DEFAULT_OUT_DIM,
        *,
        num_layers: int,
        input_layer: Module | dict[str, Any] | None,
        input_embedding_scale: float | None = None,
        pos_enc: Choice | None = None,
        input_dropout: Probability = 0.1,
        ff_dim: Dim | int | None = None,
        ff_activation: Activation | None = None,
        dropout: Probability = 0.1,
        conv_kernel_size: int | None = None,
        conv_norm: Choice | None = None,
        num_heads: int | Dim = 4,
        att_dropout: Probability = 0.1,
        encoder_layer: Choice | None = None,
        encoder_layer_opts: dict[str, Any] | None = None,
        sequential: Callable[..., Any] = Sequential,
    ):
        self.in_dim = in_dim
        self.out_dim = as_dim(out_dim, "conformer")
        self.input_layer = build_part(input_layer, in_dim) if isinstance(input_layer, dict) else input_layer
        frontend: Any = self.input_layer
        inner = in_dim if frontend is None else frontend.out_dim
        self.downsample_factor = getattr(frontend, "downsample_factor", 1)
        self.input_projection = Linear(inner, self.out_dim, with_bias=False)
        if input_embedding_scale is None:
            input_embedding_scale = 1.0 if pos_enc is None else math.sqrt(self.out_dim.get_dim_value())
        self.input_embedding_scale = input_embedding_scale
        self.pos_enc = build_pos_enc(pos_enc, self.out_dim)
        self.input_dropout = input_dropout
        self.dropout = dropout
        options = given_options(
            out_dim=self.out_dim,
            ff_dim=ff_dim,
            ff_activation=ff_activation,
            dropout=dropout,
            conv_kernel_size=conv_kernel_size,
            conv_norm=conv_norm,
            num_heads=num_heads,
            att_dropout=att_dropout,
        )
        options.update(encoder_layer_opts or {})
        layer = encoder_layer or ConformerEncoderLayer
        self.layers = sequential(build_part(layer, **options) for _ in layer_numbers(type(self), num_layers))

    def __call__(
        self, source: Tensor, *, in_spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, Dim]:
        """The result, and the dim of its frames. {…, in_spatial_dim, in_dim} → {…, frames, out_dim}

        collected_outputs: a dict that receives the output of each layer, under "0", "1", …
        """
        x, spatial_dim = source, in_spatial_dim
        if self.input_layer is not None:
            x, spatial_dim = self.input_layer(x, in_spatial_dim=spatial_dim)
        x = self.input_projection(x)
        if self.input_embedding_scale != 1.0:
            x = x * self.input_embedding_scale
        if self.pos_enc is not None:
            x = add_positions(self, x, self.pos_enc(spatial_dim=spatial_dim))
        x = self.dropped(x, self.input_dropout)
        return self.layers(x, spatial_dim=spatial_dim, collected_outputs=collected_outputs), spatial_dim


@functools.lru_cache(64)
def _over_time(norm: Callable[..., object]) -> bool:
    return "spatial_dim" in inspect.signature(norm).parameters
