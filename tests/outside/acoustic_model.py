"""A Conformer with CTC on inner layers, and an LSTM decoder with attention to the whole input."""

from __future__ import annotations

from collections.abc import Sequence

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend.decoder.transformer import FeedForwardGated
from returnn.frontend.encoder.base import ISeqDownsamplingEncoder
from returnn.frontend.encoder.conformer import (
    ConformerConvSubsample,
    ConformerEncoder,
    ConformerEncoderLayer,
    ConformerPositionwiseFeedForward,
)
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim
from returnn.util.basic import BehaviorVersion, NotSpecified

BehaviorVersion.set_min_behavior_version(21)


def make_extern_data() -> TensorDict:
    """Audio with a feature axis of 1, and labels; all lengths come with the batch."""
    time_dim = Dim(Tensor("time", [batch_dim], dtype="int32"))
    audio_dim = Dim(1, name="audio", kind=Dim.Types.Feature)
    out_spatial_dim = Dim(Tensor("out-spatial", [batch_dim], dtype="int32"))
    vocab = Vocabulary.create_vocab_from_labels(["<s>", "a", "b", "c", "d"], bos_label=0, eos_label="<s>")
    target_dim = Dim(vocab.num_labels, name="target", kind=Dim.Types.Feature, vocab=vocab)
    data = Tensor("data", [batch_dim, time_dim, audio_dim], dtype="float32", feature_dim=audio_dim)
    classes = Tensor("classes", [batch_dim, out_spatial_dim], dtype="int32", sparse_dim=target_dim)
    return TensorDict([data, classes])


def get_model(*, extern_data: TensorDict, ff=NotSpecified, **_kwargs) -> Model:
    """The model for these data."""
    target_dim = extern_data["classes"].sparse_dim
    vocab = target_dim.vocab
    return Model(
        target_dim,
        ff=ff,
        bos_idx=vocab.bos_label_id,
        eos_idx=vocab.eos_label_id,
        enc_aux_logits=(1,),
        num_enc_layers=2,
    )


class Model(rf.Module):
    """Encoder, CTC outputs, decoder."""

    def __init__(
        self,
        target_dim: Dim,
        *,
        ff,
        bos_idx: int,
        eos_idx: int,
        num_enc_layers: int,
        enc_aux_logits: Sequence[int],
        enc_dim: Dim = Dim(name="enc", dimension=16),
        att_num_heads: Dim = Dim(name="att_num_heads", dimension=1),
    ):
        super().__init__()
        config = get_global_config(return_empty_if_none=True)
        self.mel_dim = Dim(name="logmel", dimension=20, kind=Dim.Types.Feature)
        self.encoder = ConformerEncoder(
            self.mel_dim,
            enc_dim,
            ff_dim=Dim(name="enc-ff", dimension=24),
            input_layer=ConformerConvSubsample(
                self.mel_dim,
                out_dims=[Dim(4, name="conv1"), Dim(6, name="conv2")],
                filter_sizes=[(3, 3), (3, 3)],
                pool_sizes=[(1, 2)],
                strides=[(1, 1), (2, 1)],
            ),
            encoder_layer=rf.build_dict(
                ConformerEncoderLayer,
                ff=rf.build_dict(ConformerPositionwiseFeedForward, activation=rf.build_dict(rf.relu_square)),
                conv_kernel_size=5,
                norm=rf.build_dict(rf.RMSNorm),
            ),
            encoder_layer_opts=dict(conv_norm_opts=dict(use_mask=True)),
            num_layers=num_enc_layers,
            num_heads=2,
            dropout=0.1,
            att_dropout=0.1,
        )
        assert isinstance(self.encoder, ISeqDownsamplingEncoder) and self.encoder.downsample_factor == 2
        if config.int("pretrain_num_layers", 1) < num_enc_layers:  # fewer layers at first
            kept = self.encoder.layers[: num_enc_layers + 1]
            del self.encoder.layers[1:]
            self.encoder.layers[:] = kept

        self.target_dim = target_dim
        self.wb_target_dim = target_dim + 1
        self.blank_idx = target_dim.dimension
        self.bos_idx, self.eos_idx = bos_idx, eos_idx
        self.enc_aux_logits = enc_aux_logits
        for i in enc_aux_logits:
            setattr(self, f"enc_aux_logits_{i}", rf.Linear(enc_dim, self.wb_target_dim))

        self.enc_ff = rf.make_ff(out_dim=enc_dim, ff=ff, ff_dim=24, ff_activation=NotSpecified, dropout=0.1)
        self.enc_gated_ff = FeedForwardGated(enc_dim, ff_dim=8)
        self.enc_norm = rf.make_norm(rf.LayerNorm, enc_dim)
        self.enc_key_dim = Dim(name="enc_key", dimension=12)
        self.att_num_heads = att_num_heads
        self.enc_ctx = rf.Linear(enc_dim, self.enc_key_dim)
        self.inv_fertility = rf.Linear(enc_dim, att_num_heads, with_bias=False)
        self.target_embed = rf.Embedding(target_dim, Dim(name="target_embed", dimension=10))
        self.s = rf.ZoneoutLSTM(
            self.target_embed.out_dim + att_num_heads * enc_dim,
            Dim(name="lstm", dimension=14),
            zoneout_factor_cell=0.15,
            zoneout_factor_output=0.05,
            use_zoneout_output=False,
        )
        self.weight_feedback = rf.Linear(att_num_heads, self.enc_key_dim, with_bias=False)
        self.s_transformed = rf.Linear(self.s.out_dim, self.enc_key_dim, with_bias=False)
        self.energy = rf.Linear(self.enc_key_dim, att_num_heads, with_bias=False)
        self.readout_in = rf.Linear(
            self.s.out_dim + self.target_embed.out_dim + att_num_heads * enc_dim, Dim(name="readout", dimension=12)
        )
        self.output_prob = rf.Linear(self.readout_in.out_dim // 2, target_dim)
        for p in self.parameters():
            p.weight_decay = config.float("weight_decay", 1e-6)

    def encode(
        self, source: Tensor, *, in_spatial_dim: Dim, collected_outputs: dict[str, Tensor] | None = None
    ) -> tuple[dict[str, Tensor], Dim]:
        """Audio {batch, time, 1} → what the decoder needs of it, and the dim of the encoder's frames."""
        source, in_spatial_dim = rf.audio.log_mel_filterbank_from_raw(
            source, in_spatial_dim=in_spatial_dim, out_dim=self.mel_dim, sampling_rate=1_600
        )
        assert source.feature_dim is self.mel_dim
        source = rf.audio.specaugment(
            source, spatial_dim=in_spatial_dim, feature_dim=self.mel_dim, max_consecutive_feature_dims=4
        )
        enc, enc_spatial_dim = self.encoder(source, in_spatial_dim=in_spatial_dim, collected_outputs=collected_outputs)
        enc = self.enc_norm(enc + self.enc_ff(enc) + self.enc_gated_ff(enc))
        enc_ctx = self.enc_ctx(enc)
        inv_fertility = rf.sigmoid(self.inv_fertility(enc))
        return dict(enc=enc, enc_ctx=enc_ctx, inv_fertility=inv_fertility), enc_spatial_dim

    def decoder_default_initial_state(self, *, batch_dims: Sequence[Dim], enc_spatial_dim: Dim) -> rf.State:
        """The state before the first label."""
        state = rf.State(
            s=self.s.default_initial_state(batch_dims=batch_dims),
            att=rf.zeros([*batch_dims, self.att_num_heads * self.encoder.out_dim]),
            accum_att_weights=rf.zeros([*batch_dims, enc_spatial_dim, self.att_num_heads]),
        )
        state.att.feature_dim_axis = len(state.att.dims) - 1
        return state

    def loop_step_output_templates(self, batch_dims: Sequence[Dim]) -> dict[str, Tensor]:
        """What `loop_step` gives, without data."""
        att_dim = self.att_num_heads * self.encoder.out_dim
        return {
            "s": Tensor(
                "s", dims=[*batch_dims, self.s.out_dim], dtype=rf.get_default_float_dtype(), feature_dim_axis=-1
            ),
            "att": Tensor("att", dims=[*batch_dims, att_dim], dtype=rf.get_default_float_dtype(), feature_dim_axis=-1),
        }

    def loop_step(
        self,
        *,
        enc: Tensor,
        enc_ctx: Tensor,
        inv_fertility: Tensor,
        enc_spatial_dim: Dim,
        input_embed: Tensor,
        state: rf.State,
    ) -> tuple[dict[str, Tensor], rf.State]:
        """One label."""
        state_ = rf.State()
        s, state_.s = self.s(rf.concat_features(input_embed, state.att), state=state.s, spatial_dim=single_step_dim)
        weight_feedback = self.weight_feedback(state.accum_att_weights)
        energy_in = enc_ctx + weight_feedback + self.s_transformed(s)
        energy = self.energy(rf.tanh(energy_in))
        att_weights = rf.softmax(energy, axis=enc_spatial_dim)
        state_.accum_att_weights = state.accum_att_weights + att_weights * inv_fertility * 0.5
        att0 = rf.dot(att_weights, enc, reduce=enc_spatial_dim, use_mask=False)
        att0.feature_dim = self.encoder.out_dim
        att, _ = rf.merge_dims(att0, dims=(self.att_num_heads, self.encoder.out_dim))
        state_.att = att
        return {"s": s, "att": att}, state_

    def decode_logits(self, *, s: Tensor, input_embed: Tensor, att: Tensor) -> Tensor:
        """The scores of the next label."""
        readout_in = self.readout_in(rf.concat_features(s, input_embed, att))
        readout = rf.reduce_out(readout_in, mode="max", num_pieces=2, out_dim=self.output_prob.in_dim)
        readout = rf.dropout(readout, drop_prob=0.3, axis=rf.dropout_broadcast_default() and readout.feature_dim)
        return self.output_prob(readout)


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs) -> None:
    """CTC on inner layers, and cross-entropy of the decoder."""
    data, targets = extern_data["data"], extern_data["classes"]
    data_spatial_dim = data.get_time_dim_tag()
    targets_spatial_dim = targets.get_time_dim_tag()

    collected_outputs = rf.CollectOutputsDict(allowed_key_patterns=[str(i) for i in model.enc_aux_logits])
    enc_args, enc_spatial_dim = model.encode(data, in_spatial_dim=data_spatial_dim, collected_outputs=collected_outputs)
    assert len(collected_outputs) == len(model.enc_aux_logits)
    for i in model.enc_aux_logits:
        linear = getattr(model, f"enc_aux_logits_{i}")
        aux_loss = rf.ctc_loss(
            logits=linear(collected_outputs[str(i)]),
            targets=targets,
            input_spatial_dim=enc_spatial_dim,
            targets_spatial_dim=targets_spatial_dim,
            blank_index=model.blank_idx,
        )
        aux_loss.mark_as_loss(
            f"ctc_{i}",
            scale=0.3,
            custom_inv_norm_factor=targets_spatial_dim.get_size_tensor(),
            use_normalized_loss=True,
        )

    targets_w_eos, (targets_w_eos_spatial_dim,) = rf.pad(
        targets, axes=[targets_spatial_dim], padding=[(0, 1)], value=model.eos_idx
    )
    batch_dims = targets.remaining_dims(targets_spatial_dim)
    input_embeddings = model.target_embed(targets_w_eos)
    input_embeddings = rf.shift_right(input_embeddings, axis=targets_w_eos_spatial_dim, pad_value=0.0)

    def _body(input_embed: Tensor, state: rf.State):
        new_state = rf.State()
        loop_out_, new_state.decoder = model.loop_step(
            **enc_args, enc_spatial_dim=enc_spatial_dim, input_embed=input_embed, state=state.decoder
        )
        return loop_out_, new_state

    loop_out, _, _ = rf.scan(
        spatial_dim=targets_w_eos_spatial_dim,
        xs=input_embeddings,
        ys=model.loop_step_output_templates(batch_dims=batch_dims),
        initial=rf.State(
            decoder=model.decoder_default_initial_state(batch_dims=batch_dims, enc_spatial_dim=enc_spatial_dim)
        ),
        body=_body,
    )
    logits = model.decode_logits(input_embed=input_embeddings, **loop_out)

    mask = rf.sequence_mask([*batch_dims, targets_w_eos_spatial_dim])
    logits_packed, pack_dim = rf.masked_select(logits, mask=mask, dims=[*batch_dims, targets_w_eos_spatial_dim])
    targets_packed, _ = rf.masked_select(
        targets_w_eos, mask=mask, dims=[*batch_dims, targets_w_eos_spatial_dim], out_dim=pack_dim
    )
    log_prob = rf.log_softmax(logits_packed, axis=model.target_dim)
    log_prob = rf.label_smoothed_log_prob_gradient(log_prob, 0.1, axis=model.target_dim)
    loss = rf.cross_entropy(
        target=targets_packed, estimated=log_prob, estimated_type="log-probs", axis=model.target_dim
    )
    loss.mark_as_loss("ce", scale=1.0, use_normalized_loss=True)
    frame_error = rf.reduce_argmax(logits_packed, axis=model.target_dim) != targets_packed
    frame_error.mark_as_loss(name="fer", as_error=True)


def model_recog(
    *, model: Model, data: Tensor, data_spatial_dim: Dim, beam_size: int = 4, length_normalization_exponent: float = 1.0
) -> tuple[Tensor, Tensor, Dim, Dim]:
    """Beam search, one label after the other: labels {beam, batch, out_spatial}, scores, dims."""
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    enc_args, enc_spatial_dim = model.encode(data, in_spatial_dim=data_spatial_dim)
    max_seq_len = enc_spatial_dim.get_size_tensor()

    beam_dim = Dim(1, name="initial-beam")
    batch_dims_ = [beam_dim, *batch_dims]
    decoder_state = model.decoder_default_initial_state(batch_dims=batch_dims_, enc_spatial_dim=enc_spatial_dim)
    target = rf.constant(model.bos_idx, dims=batch_dims_, sparse_dim=model.target_dim)
    ended = rf.constant(False, dims=batch_dims_)
    out_seq_len = rf.constant(0, dims=batch_dims_)
    seq_log_prob = rf.constant(0.0, dims=batch_dims_)

    i = 0
    seq_targets, seq_backrefs = [], []
    while True:
        if i == 0:
            input_embed = rf.zeros([*batch_dims_, model.target_embed.out_dim], feature_dim=model.target_embed.out_dim)
        else:
            input_embed = model.target_embed(target)
        step_out, decoder_state = model.loop_step(
            **enc_args, enc_spatial_dim=enc_spatial_dim, input_embed=input_embed, state=decoder_state
        )
        label_log_prob = rf.log_softmax(model.decode_logits(input_embed=input_embed, **step_out), axis=model.target_dim)
        label_log_prob = rf.where(
            ended,
            rf.sparse_to_dense(model.eos_idx, axis=model.target_dim, label_value=0.0, other_value=-1.0e30),
            label_log_prob,
        )
        seq_log_prob = seq_log_prob + label_log_prob
        seq_log_prob, (backrefs, target), beam_dim = rf.top_k(
            seq_log_prob, k_dim=Dim(beam_size, name=f"dec-step{i}-beam"), axis=[beam_dim, model.target_dim]
        )
        seq_targets.append(target)
        seq_backrefs.append(backrefs)
        decoder_state = rf.nested.gather_nested(decoder_state, indices=backrefs)
        ended = rf.gather(ended, indices=backrefs)
        out_seq_len = rf.gather(out_seq_len, indices=backrefs)
        i += 1

        ended = rf.logical_or(ended, target == model.eos_idx)
        ended = rf.logical_or(ended, rf.copy_to_device(i >= max_seq_len))
        if bool(rf.reduce_all(ended, axis=ended.dims).raw_tensor):
            break
        out_seq_len = out_seq_len + rf.where(ended, 0, 1)
        if i > 1 and length_normalization_exponent != 0:
            seq_log_prob *= rf.where(ended, (i / (i - 1)) ** length_normalization_exponent, 1.0)

    if i > 0 and length_normalization_exponent != 0:
        seq_log_prob *= (1 / i) ** length_normalization_exponent

    seq_targets_ = []
    indices = rf.range_over_dim(beam_dim)
    for backrefs, target in zip(seq_backrefs[::-1], seq_targets[::-1], strict=True):
        seq_targets_.insert(0, rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    seq_targets__ = TensorArray(seq_targets_[0])
    for target in seq_targets_:
        seq_targets__ = seq_targets__.push_back(target)
    out_spatial_dim = Dim(out_seq_len, name="out-spatial")
    return seq_targets__.stack(axis=out_spatial_dim), seq_log_prob, out_spatial_dim, beam_dim
