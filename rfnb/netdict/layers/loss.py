"""Losses and distances as layers: loss, sparse_softmax_cross_entropy_with_logits, edit_distance.

edit_distance_table and optimal_completions are the edit distance to a target, label by label. Alignments of frames to
labels, in log space: fast_bw sums over all, forced_align takes the best one (Viterbi).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_padding
from rfnb.netdict.layer import Layer, SteppingLayer
from rfnb.netdict.losses import loss_by_name, on_frames_of
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.concat import concat
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.grad import gradient, set_requires_gradient, stop_gradient
from rfnb.ops.index import gather
from rfnb.ops.loss import cross_entropy, ctc_best_path, ctc_loss, edit_distance
from rfnb.ops.math import cast, combine_bc, compare_bc, equal, is_finite, log, maximum, minimum, where
from rfnb.ops.reduce import reduce_logsumexp, reduce_min, reduce_sum, softmax
from rfnb.ops.shape import expand_dim, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.slice import slice as slice_


class LossLayer(Layer, layer_class="loss"):
    """The loss, or the error, of each frame or sequence, as an output. {…, F}, {…} → {…}"""

    loss_: str = value(REQUIRED, str)
    loss_opts_: dict[str, object] | None = value(None, dict)
    target_: object = layer(REQUIRED)
    use_error: bool = value(False, bool)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """`target_` is a data key, unless it says that it is a layer."""
        target = str(described.get("target_", ""))
        is_prefixed = target.startswith(("layer:", "data:"))
        return {**described, "target_": target.removeprefix("layer:") if is_prefixed else f"data:{target}"}

    def compute(self, x: Tensor, target_: Tensor) -> Tensor:
        """{…, F}, {…} → {…}"""
        loss = loss_by_name(self.loss_, self.loss_opts_)
        target = on_frames_of(target_, x) if loss.by_frame else target_
        train = bool(get_run_ctx().train_flag)
        result = (loss.error if self.use_error else loss.value)(x, None, target, train=train)
        return required(result, f"the loss {self.loss_!r} has no {'error' if self.use_error else 'value'}")


class SparseCrossEntropy(Layer, layer_class="sparse_softmax_cross_entropy_with_logits", sourceless=True):
    """−log softmax(logits)[target]. {…, axis}, {…} → {…}"""

    logits: object = layer(REQUIRED)
    targets: object = layer(REQUIRED)
    axis: object = value("F")

    def setup(self, logits: Tensor, targets: Tensor) -> None:
        """The axis of the labels."""
        self.labels = self.pool.one(self.axis, logits)

    def compute(self, logits: Tensor, targets: Tensor) -> Tensor:
        """{…, axis}, {…} → {…}"""
        target = set_sparse_dim(on_frames_of(targets, logits), self.labels)
        return cross_entropy(estimated=logits, target=target, axis=self.labels, estimated_type="logits")


class EditDistance(Layer, layer_class="edit_distance", sourceless=True):
    """The fewest insertions, deletions and substitutions from `a` to `b` (Levenshtein 1966). {a}, {b} → {}"""

    a: object = layer(REQUIRED)
    b: object = layer(REQUIRED)

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """{…, a}, {…, b} → {…}"""
        got = f"{a.describe_dims()}, {b.describe_dims()}"
        first, second = (required(time_of(x), "edit_distance needs two sequences", got) for x in (a, b))
        a, b = (set_sparse_dim(cast(x, "int64"), None) for x in (a, b))
        return edit_distance(a, first, b, second)


FAR = 2**24
"""More than any distance."""


class _ToTarget(Layer):
    """A layer of a loop that takes all frames of the target in each step."""

    blank_idx: int | None = value(None, int)
    labels: object = layer()

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The target with all its frames is an input."""
        target = described.get("target")
        if not isinstance(target, str):
            raise NetworkError("the target is missing", expected='"target": "classes"')
        layer_or_data = target.removeprefix("layer:") if target.startswith("layer:") else f"base:data:{target}"
        return {**described, "labels": layer_or_data}

    def setup(self, x: Tensor, labels: Tensor) -> None:
        """The axis of the rows: one entry more than the target has."""
        fault, got = f"{self.layer_class}: the target is not a sequence of labels", labels.describe_dims()
        self.frames, self.labels_dim = required(time_of(labels), fault, got), required(labels.sparse_dim, fault, got)
        required(self.loop, f"{self.layer_class} is a layer of a loop", expected='in the "unit" of a rec layer')
        self.result_feature = self.row = 1 + self.frames


class EditDistanceTable(
    _ToTarget, SteppingLayer, layer_class="edit_distance_table", can_leave=False, state_has_output=True
):
    """The edit distances from the labels so far to each beginning of the target. {…} → {…, 1 + target}

    A row of the table of Wagner and Fischer (1974); a blank label leaves it as it is.
    """

    def first_state(self, x: Tensor, labels: Tensor | None = None) -> State:
        """No label yet: 0, 1, 2, …"""
        count = zeros(x.dims, dtype="int32")
        return State(row=combine_bc(count, "+", _range(self.row)), count=count)

    def step(self, state: State, x: Tensor, labels: Tensor) -> tuple[Tensor, State]:
        """{…} → {…, 1 + target}"""
        previous, count = state["row"], state["count"]
        label, places = _number(x), _range(self.frames)
        diagonal = gather(previous, indices=places, axis=self.row) + cast(
            compare_bc(_number(labels), "!=", label), "int32"
        )
        tail = minimum(gather(previous, indices=places + 1, axis=self.row) + 1, diagonal)
        head = Dim(1, name="first")
        row, _ = concat(
            (expand_dim(count + 1, head), head), (tail, self.frames), out_dim=self.row, allow_broadcast=True
        )
        # Entry j is also the entry i before it and j − i insertions.
        column = Dim(None, name="before")
        earlier, column = replace_dim(row, in_dim=self.row, out_dim=column)
        allowed = compare_bc(_range(column), "<=", _range(self.row))
        steps = where(allowed, earlier - _range(column), FAR, allow_broadcast_all_sources=True)
        row, count = reduce_min(steps, axis=column, use_mask=False) + _range(self.row), count + 1
        if self.blank_idx is not None:
            blank = equal(label, self.blank_idx)
            row = where(blank, previous, row)
            count = where(blank, state["count"], count)
        return row, State(row=row, count=count)

    def output_of(self, state: State) -> Tensor:
        """The row so far."""
        return set_feature_dim(state["row"], self.row)


class OptimalCompletions(_ToTarget, layer_class="optimal_completions"):
    """For each label that may come next, the smallest edit distance that is possible then. {…, row} → {…, labels}

    The source is the row of edit_distance_table before this step. https://arxiv.org/abs/1810.01398
    """

    def setup(self, x: Tensor, labels: Tensor) -> None:
        """The labels."""
        super().setup(x, labels)
        size = max(self.labels_dim.get_dim_value(), (self.blank_idx or 0) + 1)
        self.out_dim = self.labels_dim if size == self.labels_dim.dimension else self.pool.feature(size, x.dims)
        self.result_feature = self.out_dim
        if self.row not in x.dims:
            expected = '"from": "prev:table", an edit_distance_table with the same target'
            raise NetworkError("optimal_completions: the source is not a row", got=x.describe_dims(), expected=expected)

    def compute(self, x: Tensor, labels: Tensor) -> Tensor:
        """{…, row} → {…, labels}"""
        distance, label = reduce_min(x, axis=self.row), _range(self.out_dim)
        differs = cast(compare_bc(_number(labels), "!=", label), "int32")
        longer = reduce_min(gather(x, indices=_range(self.frames), axis=self.row) + differs, axis=self.frames)
        y = minimum(distance + 1, longer)
        if self.blank_idx is not None:
            y = where(equal(label, self.blank_idx), distance, y)
        return set_feature_dim(y, self.out_dim)


def _number(labels: Tensor) -> Tensor:
    """Labels as numbers, which can be compared with those of another vocabulary."""
    return cast(set_sparse_dim(labels, None), "int32")


def _range(dim: Dim) -> Tensor:
    return _number(range_over_dim(dim))


CTC, STAIRCASE = "ctc", "staircase"


class _Aligned(Layer):
    """What the two share: the scores of each frame, {…, time, classes}, and the labels, {…, labels}."""

    align_target: str = value(REQUIRED, str)
    input_type: str = value("log_prob", str)
    labels: object = layer(REQUIRED)

    def setup(self, x: Tensor, labels: Tensor) -> None:
        """The axes. Raises NetworkError if one is missing."""
        fault = f"{self.layer_class} aligns scores of all frames with a sequence of labels"
        got = f"{x.describe_dims()}, {labels.describe_dims()}"
        self.frames, self.classes = required(time_of(x), fault, got), required(x.feature_dim, fault, got)
        labels_dim = self.classes if self.align_target == STAIRCASE else labels.sparse_dim
        self.spoken, self.labels_dim = required(time_of(labels), fault, got), required(labels_dim, fault, got)
        if self.input_type not in ("prob", "log_prob"):
            fault = f"{self.layer_class}: unknown input_type"
            raise NetworkError(fault, got=self.input_type, expected="prob or log_prob")

    def scores(self, x: Tensor) -> Tensor:
        """The logarithms of the source. {…} → the same, without gradients"""
        return stop_gradient(log(maximum(x, 1e-30)) if self.input_type == "prob" else x)

    def spaces(self, labels: Tensor, blank_idx: int = -1, label_loop: bool = True, **_: object) -> dict[str, Any]:
        """What the ops of alignments take beside the scores."""
        return {
            "targets": set_sparse_dim(cast(set_sparse_dim(labels, None), "int64"), self.classes),
            "input_spatial_dim": self.frames,
            "targets_spatial_dim": self.spoken,
            "blank_index": blank_idx % self.classes.get_dim_value(),
            "label_loop": label_loop,
        }


class FastBaumWelch(_Aligned, layer_class="fast_bw", without_effect="sprint_opts staircase_seq_len_source"):
    """How probable each class is in each frame: over all alignments (Baum et al. 1970).

    The alignments are those of CTC with the labels, with the last class as blank. Or, with the target "staircase", each
    frame has a class above that of the frame before, among as many as there are frames of `staircase_seq_len_source`.
    {…, time, classes} → the same, without gradients
    """

    align_target_key: str | None = value(None, str)
    ctc_opts: dict[str, Any] | None = value(None, dict)
    tdp_scale: float = value(1.0, float)
    am_scale: float = value(1.0, float)
    min_prob: float = value(0.0, float)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The labels, or what has the number of classes, are an input. Raises NetworkError for other alignments."""
        kind, labels = described.get("align_target"), described.get("staircase_seq_len_source")
        if kind == CTC:
            labels = f"data:{described.get('align_target_key') or 'classes'}"
        elif kind != STAIRCASE:
            fault = "fast_bw: " + ("these alignments come from an external program" if kind == "sprint" else "unknown")
            raise NetworkError(fault, got=f'"align_target": {kind!r:.40}', expected=f"{CTC} or {STAIRCASE}")
        return {**described, "labels": required(labels, "fast_bw: staircase_seq_len_source is missing")}

    def compute(self, x: Tensor, labels: Tensor) -> Tensor:
        """{…, time, classes}, {…, labels} → {…, time, classes}"""
        scores = self.scores(x)
        if x.device == "meta":
            return set_feature_dim(softmax(scores, axis=self.classes), self.classes)
        if self.min_prob:
            scores = maximum(scores, log(self.min_prob + scores * 0.0))
        import torch

        with torch.inference_mode(False), torch.enable_grad():
            scores = scores * self.am_scale
            set_requires_gradient(scores)
            if self.align_target == STAIRCASE:
                total = self._staircase(scores)
            else:
                total = _total(scores, self.classes, **self.spaces(labels, **(self.ctc_opts or {})))
            y = gradient(total, scores)
        return set_feature_dim(where(is_finite(total), y, 0.0).copy_transpose(x.dims).copy_masked(0), self.classes)

    def _staircase(self, scores: Tensor) -> Tensor:
        """CTC in which time and classes have changed places: each class takes the next frame, or none. {…} → {…}"""
        none = Dim(1, name="no frame")
        logits, frames = with_padding(scores, self.frames)
        logits, classes = concat((zeros([none]), none), (logits, frames), allow_broadcast=True)
        logits, _ = slice_(logits, axis=self.classes, start=0, size=self.spoken)
        targets = set_sparse_dim(range_over_dim(self.frames) + 1, classes)
        spaces: dict[str, Any] = {"input_spatial_dim": self.spoken, "targets_spatial_dim": self.frames}
        return _total(logits, classes, targets=targets, blank_index=0, label_loop=False, **spaces)


def _total(scores: Tensor, classes: Dim, *, input_spatial_dim: Dim, **spaces: Any) -> Tensor:
    """The logarithm of the sum over all alignments of CTC, of scores that need not be normalized."""
    normalizer = reduce_sum(reduce_logsumexp(scores, axis=classes), axis=input_spatial_dim)
    return normalizer - ctc_loss(logits=scores, input_spatial_dim=input_spatial_dim, **spaces)


class ForcedAlign(_Aligned, layer_class="forced_align"):
    """The best alignment of the labels: a label or blank for each frame. {…, time, classes} → {…, time}, sparse

    Its part "scores" has the score of each sequence, −∞ where the labels do not fit. With the topology "rna", each
    label takes one frame (Sak et al. 2017).
    """

    topology: str = value(REQUIRED, str)
    blank_idx: int = value(-1, int)
    blank_included: bool = value(False, bool)
    result_feature = None  # these are labels

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The labels, a layer or data, are an input."""
        return {**described, "labels": described.get("align_target")}

    def setup(self, x: Tensor, labels: Tensor) -> None:
        """Checks that the classes are the labels and the blank."""
        super().setup(x, labels)
        size, count = self.classes.get_dim_value(), self.labels_dim.get_dim_value()
        last = self.blank_idx in (-1, size - 1)
        if count != size - (not self.blank_included) or not (last or self.blank_included):
            got = f"{count} labels, {size} classes, blank_idx {self.blank_idx}, blank_included {self.blank_included}"
            raise NetworkError("forced_align: the classes are not the labels and the blank", got=got)
        if self.topology not in (CTC, "rna"):
            raise NetworkError("forced_align: unknown topology", got=self.topology, expected="ctc or rna")

    def compute(self, x: Tensor, labels: Tensor) -> Tensor:
        """{…, time, classes}, {…, labels} → {…, time}"""
        scores = self.scores(x)
        spaces = self.spaces(labels, self.blank_idx, label_loop=self.topology == CTC)
        path = ctc_best_path(logits=scores, **spaces)
        self.last.parts = {"scores": _total(scores, self.classes, max_approx=True, **spaces)}
        return cast(set_sparse_dim(path, self.classes), "int32")
