"""The Transformer decoder (Vaswani et al. 2017), with the norm before each part (Xiong et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.defaults import get_default_array_index_dtype
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State, check_state
from rfnb.errors import ParameterError
from rfnb.nn.attention import CausalSelfAttention, CrossAttention, attention_options
from rfnb.nn.layers.linear import Embedding, Linear, linear_with
from rfnb.nn.layers.norm import LayerNorm
from rfnb.nn.layers.transformer import (
    DEFAULT_DIM,
    Activation,
    FeedForward,
    FeedForwardGated as FeedForwardGated,
    Transformer,
    TransformerLayer,
)
from rfnb.nn.module.build import Choice, build_part, given_options
from rfnb.nn.module.container import Sequential
from rfnb.nn.module.module import Module, layer_numbers, one_of
from rfnb.ops.create import zeros
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.index import gather
from rfnb.ops.math import add, mul
from rfnb.ops.position import number_of_frames, sinusoidal_positional_encoding

__all__ = ["FeedForwardGated", "TransformerDecoder", "TransformerDecoderLayer"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, attention to an encoder, then a feed-forward part.

    {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

    >>> time, model = rf.Dim(5, name="time"), rf.Dim(8, name="model")
    >>> layer = rf.TransformerDecoderLayer(None, model, num_heads=2)
    >>> state = layer.default_initial_state(batch_dims=[])
    >>> x, state = layer(rf.zeros([time, model]), spatial_dim=time, state=state)
    >>> x.dims == (time, model), state.self_att.accum_axis
    (True, Dim{time:5})

    Args:
        encoder_dim: the feature dim of the encoder's output; None: there is no encoder.
        ff: by default `rf.FeedForward`; it gets `ff_dim` and `ff_activation`, if these are given.
        self_att: by default `rf.CausalSelfAttention`; self_att_opts: further options for it.
        cross_att: by default `rf.CrossAttention`.
        dropout: dropout of the result of each part, and in `ff`. att_dropout: dropout of the attention weights.
        norm_first: whether the norms come before the parts (Xiong et al. 2020), or after the residual sums, as in the
            original Transformer.
    """

    def __init__(
        self,
        encoder_dim: Dim | None,
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
        cross_att: Choice | None = None,
        norm: Choice = LayerNorm,
        norm_first: bool = True,
    ):
        self.encoder_dim = encoder_dim
        self.out_dim = out_dim
        self.dropout = dropout
        self.norm_first = norm_first
        ff_opts = given_options(dropout=dropout, ff_dim=ff_dim, activation=ff_activation)
        self.ff = build_part(ff or FeedForward, out_dim, **ff_opts)
        self.ff_layer_norm = build_part(norm, out_dim)
        att_opts = attention_options(out_dim, num_heads, att_dropout)
        self.self_att = build_part(self_att or CausalSelfAttention, out_dim, **(att_opts | (self_att_opts or {})))
        self.self_att_layer_norm = build_part(norm, out_dim)
        cross_att = cross_att or CrossAttention
        self.cross_att = build_part(cross_att, encoder_dim, out_dim, **att_opts) if encoder_dim else None
        self.cross_att_layer_norm = build_part(norm, out_dim) if encoder_dim else None

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The initial state of `self_att`, under that name."""
        return State(self_att=self.self_att.default_initial_state(batch_dims=batch_dims))

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """The keys and values of `cross_att` for the encoder's output {…, axis, encoder_dim}, as a State."""
        if self.cross_att is None:
            raise _no_encoder_dim(self)
        return State(cross_att=self.cross_att.transform_encoder(encoder, axis=axis))

    def __call__(
        self, x: Tensor, *, spatial_dim: Dim, state: State, encoder: State | None = None
    ) -> tuple[Tensor, State]:
        """The result and the new state. {…, spatial_dim, out_dim} → {…, spatial_dim, out_dim}

        encoder: the result of `transform_encoder`.
        """
        check_state(state, f"{type(self).__name__}: `state`", ["self_att"])
        norm = self.self_att_layer_norm
        context, att_state = self.self_att(self.part_input(x, norm), axis=spatial_dim, state=state.self_att)
        x = self.add_part(x, context, norm)
        if self.cross_att is not None and self.cross_att_layer_norm is not None:
            if encoder is None:
                raise ParameterError(
                    f"{type(self).__name__} has an encoder_dim, but is called without `encoder`",
                    expected="encoder=decoder.transform_encoder(encoder_output, axis=…)",
                )
            norm = self.cross_att_layer_norm
            x = self.add_part(x, self.cross_att(self.part_input(x, norm), encoder.cross_att), norm)
        norm = self.ff_layer_norm
        return self.add_part(x, self.ff(self.part_input(x, norm)), norm), State(self_att=att_state)


class TransformerDecoder(Transformer):
    """An embedding with positions, layers, a norm, and logits of the next label. {…, spatial_dim} → {…, vocab_dim}

    >>> phones, enc, model = rf.Dim(40, name="phone"), rf.Dim(4, name="enc"), rf.Dim(8, name="model")
    >>> decoder = rf.TransformerDecoder(enc, phones, model, num_layers=2, num_heads=2)
    >>> letters, time = rf.Dim(5, name="letters"), rf.Dim(3, name="time")
    >>> encoder = decoder.transform_encoder(rf.zeros([letters, enc]), axis=letters)
    >>> state = decoder.default_initial_state(batch_dims=[])
    >>> labels = rf.convert_to_tensor([1, 7, 3], dims=[time], sparse_dim=phones)
    >>> logits, state = decoder(labels, spatial_dim=time, state=state, encoder=encoder)
    >>> logits.dims == (time, phones), state.pos.item()
    (True, 3)

    For a single step, as in the body of a loop: `spatial_dim=rf.single_step_dim`, and a source without that dim.

    With `encoder_dim=None` it is a language model. The Llama architecture (Touvron et al. 2023) also needs
    `pos_enc=None, norm=rf.RMSNorm, ff=rf.FeedForwardGated, layer_opts={"self_att":
    rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False}}`.

    Parts (`ff`, `norm`, …) can be chosen: a class, `rf.build_dict(…)`, or a module, which is copied.

    Args:
        encoder_dim: the feature dim of the encoder's output; None: there is no encoder.
        ff, ff_dim, ff_activation, norm: options of the layers, see `rf.TransformerDecoderLayer`.
        pos_enc: called with `spatial_dim`, `feat_dim` and `offset`; the result is added to the embedding. None: no
            positions.
        layer: by default `rf.TransformerDecoderLayer`; layer_opts: further options for it.
        embed_dim: the dim of the embedding, if not `model_dim`; `input_embedding_proj` then maps it to `model_dim`.
        share_embedding: whether embedding and logits share one weight; by default they do if the embedding has
            `model_dim` and the logits have no bias.
        input_embedding: whether there is an embedding; otherwise the source already consists of features.
        input_embedding_scale: by default √model_dim, or 1 if there is neither an embedding nor `pos_enc`.
        input_dropout: by default `dropout`.
        decoder_layer, decoder_layer_opts: older names of `layer` and `layer_opts`.
    """

    _shared_by: ClassVar = {"logits.weight": "share_embedding"}

    def __init__(
        self,
        encoder_dim: Dim | None,
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
        share_embedding: bool | None = None,
        input_embedding: bool = True,
        input_embedding_scale: float | None = None,
        input_dropout: Probability | None = None,
        logits_with_bias: bool = False,
        sequential: Callable[..., Any] = Sequential,
        decoder_layer: Choice | None = None,
        decoder_layer_opts: dict[str, Any] | None = None,
    ):
        layer = one_of("TransformerDecoder", layer=layer, decoder_layer=decoder_layer)
        layer_opts = one_of("TransformerDecoder", layer_opts=layer_opts, decoder_layer_opts=decoder_layer_opts)
        self.encoder_dim = encoder_dim
        embedding = Embedding if input_embedding else None
        self._set_input(vocab_dim, model_dim, embed_dim, embedding, input_embedding_scale, pos_enc)
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
        kind = layer or TransformerDecoderLayer
        self.layers = sequential(
            build_part(kind, encoder_dim, self.model_dim, **options) for _ in layer_numbers(type(self), num_layers)
        )
        self.final_layer_norm = build_part(norm, self.model_dim)
        self.logits = self._logits(share_embedding, logits_with_bias)

    def _logits(self, share_embedding: bool | None, with_bias: bool) -> Linear:
        embedding: Embedding | None = self.input_embedding
        can_share = embedding is not None and embedding.out_dim is self.model_dim and not with_bias
        if share_embedding and not can_share:
            raise ParameterError(
                "TransformerDecoder: with these options the logits cannot share the weight of the embedding",
                got=f"embed_dim={self.embed_dim}, input_embedding={embedding is not None}, "
                f"logits_with_bias={with_bias}",
                expected="an input embedding in model_dim and logits without bias, or share_embedding=False",
            )
        if embedding is not None and can_share and share_embedding is not False:
            return linear_with(embedding.weight, self.model_dim, self.vocab_dim)
        return Linear(self.model_dim, self.vocab_dim, with_bias=with_bias)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state before the first label: that of each layer, by its name, and `pos` {}, the number of labels."""
        states = {name: layer.default_initial_state(batch_dims=batch_dims) for name, layer in self.layers.items()}
        return State(**states, pos=zeros([], dtype=get_default_array_index_dtype()))

    def transform_encoder(self, encoder: Tensor, *, axis: Dim) -> State:
        """The keys and values of all layers for the encoder's output {…, axis, encoder_dim}, once for all steps."""
        if self.encoder_dim is None:
            raise _no_encoder_dim(self)
        return State({name: layer.transform_encoder(encoder, axis=axis) for name, layer in self.layers.items()})

    def __call__(
        self,
        source: Tensor,
        *,
        spatial_dim: Dim,
        state: State,
        encoder: State | None = None,
        collected_outputs: dict[str, Tensor] | None = None,
        output_only_last_frame: bool = False,
    ) -> tuple[Tensor, State]:
        """Logits of the label after each label, and the new state. {…, spatial_dim} → {…, spatial_dim, vocab_dim}

        Args:
            source: labels, sparse in `vocab_dim`; or features, if there is no input embedding.
            encoder: the result of `transform_encoder`.
            collected_outputs: a dict that receives the output of each layer, by its name.
            output_only_last_frame: gives the logits of the last frame of each sequence only. → {…, vocab_dim}
        """
        check_state(state, f"{type(self).__name__}: `state`", [*(name for name, _ in self.layers.items()), "pos"])
        x = source if self.input_embedding is None else self.input_embedding(source)
        x = mul(x, self.input_embedding_scale)
        x = self._at_positions(x, spatial_dim=spatial_dim, offset=state.pos)
        new_state = State()
        for name, layer in self.layers.items():
            x, new_state[name] = layer(x, spatial_dim=spatial_dim, state=state[name], encoder=encoder and encoder[name])
            if collected_outputs is not None:
                collected_outputs[name] = x
        new_state.pos = add(state.pos, number_of_frames(spatial_dim))
        if output_only_last_frame and spatial_dim is not single_step_dim:
            x = gather(x, indices=last_frame_position_of_dim(spatial_dim, device=x.device), axis=spatial_dim)
        return self.logits(self.final_layer_norm(x)), new_state


def _no_encoder_dim(module: Module) -> ParameterError:
    return ParameterError(
        f"{type(module).__name__} has no attention to an encoder",
        got="encoder_dim=None",
        expected="the feature dim of the encoder's output",
    )
