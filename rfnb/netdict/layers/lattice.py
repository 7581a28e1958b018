"""Alignments of frames to labels, in log space: fast_bw sums over all, forced_align takes the best one (Viterbi)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.grad import gradient, set_requires_gradient, stop_gradient
from rfnb.ops.loss import ctc_best_path, ctc_loss
from rfnb.ops.math import cast, is_finite, log, maximum, where
from rfnb.ops.reduce import reduce_logsumexp, reduce_sum, softmax
from rfnb.ops.shape import set_feature_dim, set_sparse_dim

CTC = "ctc"


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
        self.spoken, self.labels_dim = required(time_of(labels), fault, got), required(labels.sparse_dim, fault, got)
        if self.input_type not in ("prob", "log_prob"):
            fault = f"{self.layer_class}: unknown input_type"
            raise NetworkError(fault, got=self.input_type, expected="prob or log_prob")

    def scores(self, x: Tensor) -> Tensor:
        """The logarithms of the source. {…} → the same, without gradients"""
        return stop_gradient(log(maximum(x, 1e-30)) if self.input_type == "prob" else x)

    def spaces(self, labels: Tensor, blank: int, *, label_loop: bool) -> dict[str, Any]:
        """What the ops of alignments take beside the scores."""
        return {
            "targets": set_sparse_dim(cast(set_sparse_dim(labels, None), "int64"), self.classes),
            "input_spatial_dim": self.frames,
            "targets_spatial_dim": self.spoken,
            "blank_index": blank % self.classes.get_dim_value(),
            "label_loop": label_loop,
        }


class FastBaumWelch(_Aligned, layer_class="fast_bw", without_effect="sprint_opts staircase_seq_len_source"):
    """How probable each class is in each frame, given the labels: over all alignments (Baum et al. 1970).

    The alignments are those of CTC, with the last class as blank. {…, time, classes} → the same, without gradients
    """

    align_target_key: str | None = value(None, str)
    ctc_opts: dict[str, Any] | None = value(None, dict)
    tdp_scale: float = value(1.0, float)
    am_scale: float = value(1.0, float)
    min_prob: float = value(0.0, float)

    @classmethod
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, object]:
        """The labels are an input. Raises NetworkError if others than those of CTC are meant."""
        if (kind := described.get("align_target")) != CTC:
            fault = (
                "fast_bw: these alignments come from an external program" if kind == "sprint" else "fast_bw: unknown"
            )
            raise NetworkError(fault, got=f'"align_target": {kind!r:.40}', expected=f'"align_target": "{CTC}"')
        return {**described, "labels": f"data:{described.get('align_target_key') or 'classes'}"}

    def compute(self, x: Tensor, labels: Tensor) -> Tensor:
        """{…, time, classes}, {…, labels} → {…, time, classes}"""
        scores = self.scores(x)
        if x.device == "meta":
            return set_feature_dim(softmax(scores, axis=self.classes), self.classes)
        if self.min_prob:
            scores = maximum(scores, log(self.min_prob + scores * 0.0))
        options = {"blank_idx": -1, "label_loop": True, **(self.ctc_opts or {})}
        spaces = self.spaces(labels, options["blank_idx"], label_loop=options["label_loop"])
        import torch

        # The gradient of the loss with respect to logits is their softmax minus what is wanted here.
        with torch.inference_mode(False), torch.enable_grad():
            logits = scores * self.am_scale
            set_requires_gradient(logits)
            loss = ctc_loss(logits=logits, **spaces)
            grad = gradient(loss, logits)
        y = maximum(softmax(stop_gradient(logits), axis=self.classes) - stop_gradient(grad), 0.0)
        return set_feature_dim(where(is_finite(loss), y, 0.0).copy_transpose(x.dims).copy_masked(0), self.classes)


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
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, object]:
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
        normalizer = reduce_sum(reduce_logsumexp(scores, axis=self.classes), axis=self.frames)
        self.last.parts = {"scores": normalizer - ctc_loss(logits=scores, max_approx=True, **spaces)}
        return cast(set_sparse_dim(path, self.classes), "int32")
