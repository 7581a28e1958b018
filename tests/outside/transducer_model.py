"""A transducer: an LSTM encoder, an LSTM over the labels without blanks, and their sum for each pair of positions."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy
import returnn.frontend as rf
import torch
from returnn.frontend.encoder.base import ISeqDownsamplingEncoder
from returnn.frontend.tensor_array import TensorArray
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim


def make_extern_data() -> TensorDict:
    """Features and labels."""
    time_dim = Dim(Tensor("time", [batch_dim], dtype="int32"))
    feat_dim = Dim(6, name="feat", kind=Dim.Types.Feature)
    out_spatial_dim = Dim(Tensor("out-spatial", [batch_dim], dtype="int32"))
    target_dim = Dim(4, name="target", kind=Dim.Types.Feature)
    return TensorDict(
        {
            "data": Tensor("data", [batch_dim, time_dim, feat_dim], dtype="float32", feature_dim=feat_dim),
            "classes": Tensor("classes", [batch_dim, out_spatial_dim], dtype="int32", sparse_dim=target_dim),
        }
    )


def get_model(*, extern_data: TensorDict, **_kwargs) -> Model:
    """The model for these data."""
    return Model(in_dim=extern_data["data"].feature_dim, target_dim=extern_data["classes"].sparse_dim)


class Encoder(ISeqDownsamplingEncoder):
    """LSTMs, each followed by the maximum of neighbouring frames."""

    def __init__(self, in_dim: Dim, out_dim: Dim, *, time_reduction: Sequence[int]):
        super().__init__()
        self.out_dim = out_dim
        self.time_reduction = time_reduction
        self.downsample_factor = functools.reduce(lambda a, b: a * b, time_reduction, 1)
        layers, dim = [], in_dim
        for _ in time_reduction:
            layers.append(rf.LSTM(dim, out_dim))
            dim = out_dim
        self.layers = rf.ModuleList(layers)

    def __call__(self, source: Tensor, *, in_spatial_dim: Dim) -> tuple[Tensor, Dim]:
        """Each layer forward in time."""
        spatial_dim = in_spatial_dim
        for layer, red in zip(self.layers, self.time_reduction, strict=True):
            batch_dims = source.remaining_dims((spatial_dim, source.feature_dim))
            state = layer.default_initial_state(batch_dims=batch_dims)
            source, _ = layer(source, state=state, spatial_dim=spatial_dim)
            source, spatial_dim = rf.pool1d(
                source, mode="max", padding="same", pool_size=red, in_spatial_dim=spatial_dim
            )
            source = rf.dropout(source, 0.1, axis=rf.dropout_broadcast_default() and source.feature_dim)
        return source, spatial_dim


class Predictor(rf.Module):
    """Label context."""

    def __init__(self, target_dim: Dim, out_dim: Dim):
        super().__init__()
        self.target_dim = target_dim
        self.out_dim = out_dim
        self.embed = rf.Embedding(target_dim, Dim(5, name="embed"))
        self.lstm = rf.LSTM(self.embed.out_dim, out_dim)

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """Before the first label, of which there is an output already."""
        return rf.State(lstm=self.lstm.default_initial_state(batch_dims=batch_dims))

    def __call__(self, embedded: Tensor, *, spatial_dim: Dim, state: rf.State) -> tuple[Tensor, rf.State]:
        """{…, spatial_dim, embed} → {…, spatial_dim, out_dim}"""
        out, lstm = self.lstm(embedded, spatial_dim=spatial_dim, state=state.lstm)
        return out, rf.State(lstm=lstm)


class Model(rf.Module):
    """Encoder, predictor, joint network."""

    def __init__(self, in_dim: Dim, target_dim: Dim):
        super().__init__()
        self.target_dim = target_dim
        self.wb_target_dim = target_dim + 1
        self.blank_idx = target_dim.dimension
        self.joint_dim = Dim(9, name="joint")
        self.encoder = Encoder(in_dim, Dim(8, name="enc"), time_reduction=(2, 1))
        self.predictor = Predictor(target_dim, Dim(7, name="pred"))
        self.enc_proj = rf.Linear(self.encoder.out_dim, self.joint_dim)
        self.pred_proj = rf.Linear(self.predictor.out_dim, self.joint_dim, with_bias=False)
        self.out = rf.Linear(self.joint_dim, self.wb_target_dim)
        rf.weight_noise(self.out, "weight", std=0.01)

    def joint(self, enc: Tensor, pred: Tensor) -> Tensor:
        """Log-probabilities for all dims of both."""
        return rf.log_softmax(self.out(rf.tanh(enc + pred)), axis=self.wb_target_dim)


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs) -> None:
    """The sum over all alignments."""
    data, targets = extern_data["data"], extern_data["classes"]
    in_spatial_dim, targets_spatial_dim = data.get_time_dim_tag(), targets.get_time_dim_tag()
    batch_dims = targets.remaining_dims(targets_spatial_dim)
    enc, enc_spatial_dim = model.encoder(data, in_spatial_dim=in_spatial_dim)

    embedded, (w_start_dim,) = rf.pad(
        model.predictor.embed(targets), axes=[targets_spatial_dim], padding=[(1, 0)], value=0.0
    )
    state = model.predictor.default_initial_state(batch_dims=batch_dims)
    pred, _ = model.predictor(embedded, spatial_dim=w_start_dim, state=state)
    log_probs = model.joint(model.enc_proj(enc), model.pred_proj(pred))
    assert log_probs.dims_set == {*batch_dims, enc_spatial_dim, w_start_dim, model.wb_target_dim}

    loss = full_sum(
        log_probs.copy_compatible_to_dims_raw([*batch_dims, enc_spatial_dim, w_start_dim, model.wb_target_dim]),
        targets.copy_compatible_to_dims_raw([*batch_dims, targets_spatial_dim]).long(),
        enc_spatial_dim.get_size_tensor().raw_tensor.tolist(),
        targets_spatial_dim.get_size_tensor().raw_tensor.tolist(),
        blank=model.blank_idx,
    )
    rf.get_run_ctx().mark_as_loss(name="full_sum", loss=loss)

    # how often the encoder alone, with an empty history, is right to say blank
    is_blank = rf.reduce_argmax(model.out(model.enc_proj(enc)), axis=model.wb_target_dim) == model.blank_idx
    rf.cast(is_blank, "float32").mark_as_loss(name="blank", as_error=True)
    mean_len = rf.reduce_mean(rf.cast(enc_spatial_dim.get_size_tensor(), "float32"), axis=batch_dims)
    mean_len.mark_as_loss(name="len", as_error=True)


def full_sum(log_probs: torch.Tensor, targets: torch.Tensor, frames: list[int], labels: list[int], *, blank: int):
    """−log of the sum over all paths through {batch, time, labels + 1, vocab}, by plain torch. {batch}"""
    losses = []
    for scores, seq, num_frames, num_labels in zip(log_probs, targets, frames, labels, strict=True):
        blanks = scores[:num_frames, : num_labels + 1, blank]
        emits = scores[:num_frames, :num_labels].gather(-1, seq[None, :num_labels, None].expand(num_frames, -1, 1))
        emits = emits[..., 0]
        column = [torch.zeros(())]
        for u in range(num_labels):
            column.append(column[-1] + emits[0, u])
        for t in range(1, num_frames):
            before, column = column, []
            for u in range(num_labels + 1):
                stays = before[u] + blanks[t - 1, u]
                column.append(stays if u == 0 else torch.logaddexp(stays, column[-1] + emits[t, u - 1]))
        losses.append(-(column[-1] + blanks[-1, -1]))
    return torch.stack(losses)


def model_recog(
    *, model: Model, data: Tensor, data_spatial_dim: Dim, beam_size: int
) -> tuple[Tensor, Tensor, Dim, Dim]:
    """Beam search with at most one label in a frame. → labels and blanks {beam, batch, frames}, scores, dims."""
    neg_inf = float("-inf")
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    enc, enc_spatial_dim = model.encoder(data, in_spatial_dim=data_spatial_dim)
    enc = rf.where(enc_spatial_dim.get_mask(), model.enc_proj(enc), 0.0)
    enc_ta = TensorArray.unstack(enc, axis=enc_spatial_dim)
    enc_lens = rf.copy_to_device(enc_spatial_dim.get_size_tensor())

    beam_dim = Dim(1, name="initial-beam")
    batch_dims_ = [*batch_dims, beam_dim]
    seq_log_prob = rf.constant(0.0, dims=batch_dims_)
    pred, pred_state = _predict(
        model,
        rf.zeros([*batch_dims_, model.predictor.embed.out_dim], feature_dim=model.predictor.embed.out_dim),
        model.predictor.default_initial_state(batch_dims=batch_dims_),
    )
    steps = []
    for t in range(int(enc_spatial_dim.get_dim_value())):
        log_prob = model.joint(enc_ta[t], pred)
        blank_only = rf.sparse_to_dense(model.blank_idx, axis=model.wb_target_dim, label_value=0.0, other_value=neg_inf)
        log_prob = rf.where(rf.convert_to_tensor(t) < enc_lens, log_prob, blank_only)
        seq_log_prob = seq_log_prob + log_prob
        seq_log_prob, (backrefs, target), beam_dim = rf.top_k(
            seq_log_prob,
            k_dim=Dim(min(beam_size, beam_dim.dimension * model.wb_target_dim.dimension), name=f"step{t}-beam"),
            axis=[beam_dim, model.wb_target_dim],
        )
        steps.append((backrefs, target))
        pred, pred_state = rf.nested.gather_nested((pred, pred_state), indices=backrefs)

        got_new_label = target != model.blank_idx
        got_new_label_cpu = rf.copy_to_device(got_new_label, "cpu")
        if got_new_label_cpu.raw_tensor.sum().item() > 0:
            (label, state_), packed_dim, packed_map = rf.nested.masked_select_nested(
                (target, pred_state), mask=got_new_label, mask_cpu=got_new_label_cpu, dims=[*batch_dims, beam_dim]
            )
            assert packed_dim.get_dim_value() > 0
            label = rf.set_sparse_dim(label, model.target_dim)
            new = _predict(model, model.predictor.embed(label), state_)
            pred, pred_state = rf.nested.masked_scatter_nested(
                new,
                (pred, pred_state),
                mask=got_new_label,
                mask_cpu=got_new_label_cpu,
                dims=[*batch_dims, beam_dim],
                in_dim=packed_dim,
                masked_select_dim_map=packed_map,
            )

    path = []
    indices = rf.range_over_dim(beam_dim)
    for backrefs, target in reversed(steps):
        path.append(rf.gather(target, indices=indices))
        indices = rf.gather(backrefs, indices=indices)
    out = TensorArray(path[-1])
    for target in reversed(path):
        out = out.push_back(target)
    return out.stack(axis=enc_spatial_dim), seq_log_prob, enc_spatial_dim, beam_dim


def _predict(model: Model, embedded: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
    out, state = model.predictor(embedded, spatial_dim=single_step_dim, state=state)
    return model.pred_proj(out), state


def model_recog_greedy(*, model: Model, data: Tensor, data_spatial_dim: Dim) -> tuple[Tensor, Dim]:
    """The best label of each frame, as a loop; blanks are removed afterwards. → labels {batch, out_spatial}"""
    batch_dims = data.remaining_dims((data_spatial_dim, data.feature_dim))
    enc, enc_spatial_dim = model.encoder(data, in_spatial_dim=data_spatial_dim)
    start = rf.zeros([*batch_dims, model.predictor.embed.out_dim], feature_dim=model.predictor.embed.out_dim)
    pred, state = _predict(model, start, model.predictor.default_initial_state(batch_dims=batch_dims))

    def _body(enc_frame: Tensor, before: rf.State):
        target = rf.reduce_argmax(model.joint(enc_frame, before.pred), axis=model.wb_target_dim)
        is_label = target != model.blank_idx
        label = rf.where(is_label, target, 0)
        label = rf.set_sparse_dim(label, model.target_dim)
        pred_, state_ = _predict(model, model.predictor.embed(label), before.state)
        after = rf.State(pred=pred_, state=state_)
        return target, rf.nested.where_nested(after, before, condition=is_label)

    targets, _, _ = rf.scan(
        spatial_dim=enc_spatial_dim, xs=model.enc_proj(enc), initial=rf.State(pred=pred, state=state), body=_body
    )
    labels, out_spatial_dim = rf.masked_select(
        targets, mask=targets != model.blank_idx, dims=[enc_spatial_dim], out_dim=Dim(None, name="out-spatial")
    )
    return labels, out_spatial_dim


def count_paths(num_frames: int, num_labels: int) -> int:
    """Of the lattice above, in which the last step is a blank."""
    counts = numpy.ones(num_labels + 1, dtype=int)
    for _ in range(num_frames - 1):
        counts = numpy.cumsum(counts)
    return int(counts[-1])
