"""A Transformer language model, and two ways to continue a prefix: sampling, and beam search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import returnn.frontend as rf
import torch
from returnn.frontend.decoder.transformer import TransformerDecoder
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


class Labels:
    """A vocabulary that is not of the frontend: it has `labels`, and the number of a special one."""

    def __init__(self, labels: Sequence[str], *, eos_label: str):
        self.labels = list(labels)
        self.eos_label_id = self.labels.index(eos_label)

    @property
    def num_labels(self) -> int:
        """How many there are."""
        return len(self.labels)


def make_extern_data() -> TensorDict:
    """Labels, with lengths that come with the batch."""
    vocab = Labels([*"abcdefg", "END"], eos_label="END")
    target_dim = Dim(name="vocab", dimension=vocab.num_labels, kind=Dim.Types.Feature)
    target_dim.vocab = vocab
    time_dim = Dim(Tensor("time", [batch_dim], dtype="int32"))
    return TensorDict([Tensor("data", [batch_dim, time_dim], dtype="int32", sparse_dim=target_dim)])


def get_model(*, extern_data: TensorDict, **opts) -> TransformerDecoder:
    """A decoder without an encoder; its embedding is also the output layer."""
    target_dim = extern_data["data"].sparse_dim
    model = TransformerDecoder(
        encoder_dim=None,
        vocab_dim=target_dim,
        model_dim=Dim(name="model", dimension=16),
        num_layers=3,
        num_heads=2,
        norm=rf.build_dict(rf.RMSNorm),
        ff=rf.build_dict(rf.decoder.transformer.FeedForwardGated),
        dropout=0.1,
        decoder_layer_opts=dict(self_att=rf.build_dict(rf.RotaryPosCausalSelfAttention, with_bias=False)),
        pos_enc=None,
        **opts,
    )
    for name, param in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            param.weight_decay = 0.0
        else:
            param.weight_decay = 0.01
    return model


def train_step(*, model: TransformerDecoder, extern_data: TensorDict, **_kwargs) -> None:
    """Cross-entropy and perplexity, given as plain tensors of torch."""
    targets = extern_data["data"]
    spatial_dim = targets.get_time_dim_tag()
    eos_idx = model.vocab_dim.vocab.eos_label_id
    batch_dims = targets.remaining_dims(spatial_dim)
    input_labels, (w_eos_dim,) = rf.pad(targets, axes=[spatial_dim], padding=[(1, 0)], value=eos_idx)
    targets_w_eos, _ = rf.pad(targets, axes=[spatial_dim], padding=[(0, 1)], value=eos_idx, out_dims=[w_eos_dim])
    logits, _ = model(input_labels, spatial_dim=w_eos_dim, state=model.default_initial_state(batch_dims=batch_dims))
    log_prob = rf.label_smoothing(rf.one_hot(targets_w_eos), 0.1, axis=model.vocab_dim) * rf.log_softmax(
        logits, axis=model.vocab_dim
    )
    loss = -rf.reduce_sum(log_prob, axis=model.vocab_dim)
    seq_loss = rf.reduce_sum(loss, axis=w_eos_dim)
    rf.get_run_ctx().mark_as_loss(name="ce", loss=seq_loss.copy_compatible_to_dims_raw([batch_dim]))
    rf.get_run_ctx().mark_as_loss(name="sqr", loss=torch.square(logits.raw_tensor).mean(dim=(1, 2)), as_error=True)

    packed, pack_dim = rf.pack_padded(logits, dims=[*batch_dims, w_eos_dim], enforce_sorted=False)
    packed_targets, _ = rf.pack_padded(
        targets_w_eos, dims=[*batch_dims, w_eos_dim], enforce_sorted=False, out_dim=pack_dim
    )
    error = rf.reduce_argmax(packed, axis=model.vocab_dim) != packed_targets
    error.mark_as_loss(name="fer", as_error=True)


def forward_step(*, model: TransformerDecoder, extern_data: TensorDict, **_kwargs) -> None:
    """Scores of all labels, as outputs."""
    targets = extern_data["data"]
    spatial_dim = targets.get_time_dim_tag()
    state = model.default_initial_state(batch_dims=targets.remaining_dims(spatial_dim))
    logits, _ = model(targets, spatial_dim=spatial_dim, state=state)
    log_prob = rf.log_softmax(logits, axis=model.vocab_dim)
    scores = rf.reduce_max(log_prob, axis=model.vocab_dim)
    rf.get_run_ctx().mark_as_output(scores, name="scores", dims=[batch_dim, spatial_dim])
    rf.get_run_ctx().mark_as_output(torch.zeros(int(batch_dim.get_dim_value()), 2), name="none")


def start(model: TransformerDecoder, prefix: Tensor, spatial_dim: Dim) -> tuple[rf.State, Tensor]:
    """The state after a prefix, and the scores of the next label {batch, vocab}."""
    state = model.default_initial_state(batch_dims=prefix.remaining_dims(spatial_dim))
    logits, state = model(prefix, spatial_dim=spatial_dim, state=state, output_only_last_frame=True)
    return state, rf.log_softmax(logits, axis=model.vocab_dim)


def sample(*, model: TransformerDecoder, prefix: Tensor, spatial_dim: Dim, num: int) -> tuple[Tensor, Dim]:
    """Continuations of `num` labels, drawn among those that together have most of the probability."""
    state, log_prob = start(model, prefix, spatial_dim)
    drawn = []
    for _ in range(num):
        keep = rf.top_p_mask(rf.exp(log_prob), p=0.9, axis=model.vocab_dim)
        log_prob = rf.where(keep, log_prob, float("-inf"))
        label = rf.random_choice_with_replacement(
            log_prob.remaining_dims(model.vocab_dim),
            probs=rf.softmax(log_prob, axis=model.vocab_dim),
            axis=model.vocab_dim,
        )
        drawn.append(label)
        logits, state = model(label, spatial_dim=single_step_dim, state=state)
        log_prob = rf.log_softmax(logits, axis=model.vocab_dim)
    return rf.stack(drawn, out_dim=Dim(num, name="continuation"))


def beam_search(
    *, model: TransformerDecoder, prefix: Tensor, spatial_dim: Dim, beam_size: int, max_seq_len: int
) -> tuple[Tensor, Tensor, Dim, Dim]:
    """The most likely continuations: labels {beam, batch, out_spatial} with the final label, scores {beam, batch}."""
    neg_inf = float("-inf")
    target_dim = model.vocab_dim
    eos_idx = target_dim.vocab.eos_label_id
    batch_dims = prefix.remaining_dims(spatial_dim)
    state, label_log_prob = start(model, prefix, spatial_dim)

    beam_dim = Dim(1, name="initial-beam")
    ended = rf.constant(False, dims=[beam_dim, *batch_dims])
    out_seq_len = rf.constant(0, dims=[beam_dim, *batch_dims], dtype="int32")
    seq_log_prob = rf.constant(0.0, dims=[beam_dim, *batch_dims])
    end_only = rf.where(rf.range_over_dim(target_dim) == eos_idx, 0.0, neg_inf)
    history: list[tuple[Tensor, Tensor]] = []
    for i in range(max_seq_len):
        label_log_prob = rf.where(ended, end_only, label_log_prob, allow_broadcast_all_sources=True)
        seq_log_prob = seq_log_prob + label_log_prob
        k_dim = Dim(min(beam_size, math.prod(d.get_dim_value() for d in (beam_dim, target_dim))), name=f"beam{i}")
        seq_log_prob, (backrefs, target), beam_dim = rf.top_k(
            seq_log_prob, k_dim=k_dim, axis=[beam_dim, target_dim], sorted=True
        )
        backrefs, target = rf.cast(backrefs, "int32"), rf.cast(target, "int32")
        history.append((backrefs, target))
        ended = rf.gather(ended, indices=backrefs)
        out_seq_len = rf.gather(out_seq_len, indices=backrefs) + rf.where(ended, 0, 1)
        ended = ended | (target == eos_idx)
        if i == 0:  # the state has no beam yet
            state = rf.nested.gather_nested(_with_beam(state, batch_dims, backrefs), indices=backrefs)
        else:
            state = rf.nested.gather_nested(state, indices=backrefs)
        if rf.reduce_all(ended, axis=ended.dims).raw_tensor.item():
            break
        logits, state = model(target, spatial_dim=single_step_dim, state=state)
        label_log_prob = rf.log_softmax(logits, axis=target_dim)

    labels = TensorArray(Tensor("label", dims=target.dims, dtype=target.dtype, sparse_dim=target_dim))
    reversed_labels = []
    indices = rf.range_over_dim(beam_dim)
    for backrefs, target in reversed(history):
        reversed_labels.append(rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    for label in reversed(reversed_labels):
        labels = labels.push_back(label)
    out_spatial_dim = Dim(out_seq_len, name="out-spatial")
    return labels.stack(axis=out_spatial_dim), seq_log_prob, out_spatial_dim, beam_dim


def _with_beam(state: rf.State, batch_dims: Sequence[Dim], backrefs: Tensor) -> rf.State:
    """Adds the first beam, of one hypothesis, to all tensors that have the batch."""
    beam_dim = backrefs.sparse_dim

    def expand(value):
        if isinstance(value, Tensor) and set(batch_dims) <= set(value.dims):
            return rf.expand_dim(value, beam_dim)
        if isinstance(value, dict):
            return type(value)({key: expand(each) for key, each in value.items()})
        return value

    return expand(state)
