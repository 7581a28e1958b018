"""Losses of layers, by name: the value and the error for each frame or sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.netdict.axes import time_of, with_dim, with_features
from rfnb.netdict.resolve import entry_of
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.grad import stop_gradient, stop_gradient_scope
from rfnb.ops.index import gather
from rfnb.ops.loss import ctc_greedy_decode, ctc_loss, edit_distance
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import (
    abs as abs_,
    cast,
    exp,
    is_finite,
    log,
    log1p,
    maximum,
    minimum,
    not_equal,
    relu,
    square,
    where,
)
from rfnb.ops.reduce import Reduction, log_softmax, reduce_argmax, reduce_logsumexp, reduce_mean, reduce_sum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import slice as slice_
from rfnb.search.frames import ctc_beam

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer

LOSSES: dict[str, type[LayerLoss]] = {}
"""The losses, by the names that net dicts use."""


class LayerLoss:
    """Base of the losses of layers. opts: the options of `loss_opts`, with the defaults.

    layer: whose loss it is. inputs: the outputs of the layers that the options in `layers` name, by option.

    Raises NetworkError for an unknown option.
    """

    layer: Layer
    inputs: Mapping[str, Tensor] = MappingProxyType({})
    layers: ClassVar[tuple[str, ...]] = ()
    needs_target: ClassVar[bool] = True
    has_error: ClassVar[bool] = True
    by_frame: ClassVar[bool] = True  # whether the target has the length of the output
    more_labels: ClassVar[int] = 0  # how many outputs there are beside the labels of the target
    own: ClassVar[dict[str, object]] = {}
    without_effect: ClassVar[str] = ""  # further options, which change nothing here
    shared: ClassVar[dict[str, object]] = {
        "scale": 1.0,
        "use_flatten_frames": True,
        "use_normalized_loss": False,
        "custom_norm_factor": None,
        "custom_inv_norm_factor": None,
        "base_network": None,
    }

    def __init_subclass__(cls, *, loss: str) -> None:
        LOSSES[loss] = cls

    def __init__(self, **given: object):
        options = {**self.shared, **self.own, **dict.fromkeys(self.without_effect.split())}
        for name in given:
            entry_of(options, name, f"loss_opts: unknown option {name!r}")
        self.opts: dict[str, Any] = {**options, **given}

    def value(self, output: Tensor, logits: Tensor | None, target: Any, *, train: bool) -> Tensor | None:
        """The loss of each frame, or of each sequence."""
        raise NotImplementedError

    def error(self, output: Tensor, logits: Tensor | None, target: Any, *, train: bool) -> Tensor | None:
        """The error of each frame or sequence: by default, whether another output is the largest. It may be None."""
        if not self.has_error:
            return None
        axis = feature(output)
        labels = target if target.sparse_dim is not None else reduce_argmax(with_features(target, axis), axis=axis)
        best, correct = (_plain(x) for x in (reduce_argmax(output, axis=axis), labels))
        return cast(not_equal(best, correct), "float32")


def loss_by_name(name: str, options: dict[str, object] | None) -> LayerLoss:
    """The loss with this name. Raises NetworkError if there is none."""
    if name not in LOSSES:
        import_module("rfnb.netdict.losses_of_layers")
    return entry_of(LOSSES, name, f"there is no loss {name!r}")(**(options or {}))


class CrossEntropy(LayerLoss, loss="ce"):
    """−log p(target). With label smoothing the target has the probability 1 − s, the others share s; not only in
    training, as in the reference.
    """

    own: ClassVar[dict[str, object]] = {
        "label_smoothing": 0.0,
        "label_smoothing_gaussian": False,
        "focal_loss_factor": 0.0,
    }
    without_effect = "safe_log_opts debug_dump use_fused fake_upper_bound"

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        axis, smoothing = feature(output), self.opts["label_smoothing"]
        log_p = log_of(output, logits)
        if target.sparse_dim is None:
            return -reduce_sum(with_features(target, axis) * log_p, axis=axis)
        labels = set_sparse_dim(target, axis)
        log_p_target = gather(log_p, indices=labels, axis=axis)
        value = self._smoothed(log_p, log_p_target, labels, axis, smoothing, logits) if smoothing else -log_p_target
        if self.opts["focal_loss_factor"]:  # of the target's own probability, with label smoothing too
            value = value * (1.0 - exp(log_p_target)) ** self.opts["focal_loss_factor"]
        return value

    def _smoothed(
        self, log_p: Tensor, taken: Tensor, labels: Tensor, axis: Dim, smoothing: float, logits: Tensor | None
    ) -> Tensor:
        count, high = axis.get_dim_value(), 1.0 - smoothing
        low = smoothing / (count - 1)
        constant = -(high * math.log(high) + (count - 1) * low * math.log(low + 1e-20))
        if self.opts["label_smoothing_gaussian"]:
            distance = cast(range_over_dim(axis, device=log_p.device), "float32") - cast(
                set_sparse_dim(labels, None), "float32"
            )
            density = exp(square(distance) * (-0.5 / high**2)) * (1.0 / (high * math.sqrt(2 * math.pi)))
            value = -reduce_sum(density * log_p, axis=axis)
            if logits is not None:  # the reference takes the gradient as if the densities summed to 1
                surrogate = reduce_logsumexp(logits, axis=axis) - reduce_sum(density * logits, axis=axis)
                value = stop_gradient(value - surrogate) + surrogate
            return value - constant
        return -((high - low) * taken + low * reduce_sum(log_p, axis=axis)) - constant


class BinaryCrossEntropy(LayerLoss, loss="bin_ce"):
    """The mean over the features of the cross entropy of sigmoid(output)."""

    own: ClassVar[dict[str, object]] = {"pos_weight": None}

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        axis = feature(output)
        weight = 1.0 if self.opts["pos_weight"] is None else self.opts["pos_weight"]
        targets = with_features(cast(target, output.dtype), axis)
        softplus = log1p(exp(-abs_(output))) + relu(-output)  # of −output
        loss = (1.0 - targets) * output + (1.0 + (weight - 1.0) * targets) * softplus
        return reduce_mean(loss, axis=axis)

    def error(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The error of each frame or sequence."""
        axis = feature(output)
        wrong = not_equal(output > 0.0, with_features(target, axis) > 0.5)
        return reduce_mean(cast(wrong, output.dtype), axis=axis)


class MeanSquaredError(LayerLoss, loss="mse"):
    """The mean over the features of the squared difference."""

    measure = staticmethod(square)
    reduced: ClassVar[Reduction] = staticmethod(reduce_mean)

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        axis = feature(output)
        return self.reduced(self.measure(output - with_features(target, axis)), axis=axis)


class AbsoluteError(MeanSquaredError, loss="l1"):
    """The sum over the features of the absolute difference."""

    measure, reduced = staticmethod(abs_), staticmethod(reduce_sum)


class MeanAbsoluteError(AbsoluteError, loss="mean_l1"):
    """The mean over the features of the absolute difference."""

    reduced = staticmethod(reduce_mean)


class AsIs(LayerLoss, loss="as_is"):
    """The output itself."""

    needs_target = False
    own: ClassVar[dict[str, object]] = {"as_error": False}

    def value(self, output: Tensor, logits: Tensor | None, target: object, *, train: bool) -> Tensor | None:
        """The loss of each frame or sequence."""
        return None if self.opts["as_error"] else output

    def error(self, output: Tensor, logits: Tensor | None, target: object, *, train: bool) -> Tensor | None:
        """The error of each frame or sequence."""
        return output if self.opts["as_error"] else None


class Ctc(LayerLoss, loss="ctc"):
    """Connectionist temporal classification (Graves et al. 2006); the last output is the blank. By sequence."""

    by_frame = False
    more_labels = 1
    own: ClassVar[dict[str, object]] = {
        "auto_clip_target_len": False,
        "output_in_log_space": False,
        "beam_width": None,
        "ctc_opts": None,
        "use_viterbi": False,
    }
    without_effect = "use_native target_collapse_repeated"

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        logits, frames, labels = self._parts(output, logits, target)
        if self.opts["auto_clip_target_len"]:
            limit = minimum(get_size_tensor(labels), get_size_tensor(frames))
            target, labels = slice_(target, axis=labels, end=limit)
        loss = ctc_loss(
            logits=logits,
            targets=set_sparse_dim(target, feature(output)),
            input_spatial_dim=frames,
            targets_spatial_dim=labels,
            blank_index=feature(output).get_dim_value() - 1,
            max_approx=self.opts["use_viterbi"],
        )
        if (self.opts["ctc_opts"] or {}).get("ignore_longer_outputs_than_inputs"):
            loss = where(is_finite(loss), loss, 0.0)  # targets that are too long have an infinite loss
        return loss

    def error(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The error of each frame or sequence."""
        logits, frames, labels = self._parts(output, logits, target)
        axis = feature(output)
        blank = axis.get_dim_value() - 1
        if (self.opts["beam_width"] or 1) > 1 and not train and logits.device != "meta":  # 1 is greedy, also there
            decoded, dim = self._searched(log_softmax(logits, axis=axis), frames, axis)
        else:
            decoded, dim = ctc_greedy_decode(logits, in_spatial_dim=frames, blank_index=blank)[:2]
        a, b = _plain(decoded), _plain(target)
        return cast(edit_distance(a, dim, b, labels), "float32")

    def _searched(self, log_probs: Tensor, frames: Dim, axis: Dim) -> tuple[Tensor, Dim]:
        """The best label sequences of a beam search, and their dim. {…, frames, axis} → {…, labels}"""
        with stop_gradient_scope():
            search = ctc_beam(
                log_probs, spatial_dim=frames, axis=axis, blank=axis.get_dim_value() - 1, beam=self.opts["beam_width"]
            )
        best = [sequences[0] if sequences else () for sequences in search.nbest(1, text=False)]
        assert isinstance(search.scores, Tensor)
        labels, batch = Dim(None, name="labels", kind="spatial"), search.scores.dims[:-1]
        sizes = [log_probs.size_of(dim).max for dim in batch]
        array = np.zeros((len(best), max([len(sequence) for sequence in best], default=0)), "int32")
        for row, sequence in zip(array, best, strict=True):
            row[: len(sequence)] = sequence
        count = np.array([len(sequence) for sequence in best], "int32").reshape(sizes)
        lengths = {labels: convert_to_tensor(count, dims=batch)} if batch else None
        array = array.reshape([*sizes, array.shape[-1]])
        x = convert_to_tensor(array, dims=[*batch, labels], lengths=lengths, device=log_probs.device)
        return x, labels

    def _parts(self, output: Tensor, logits: Tensor | None, target: Tensor) -> tuple[Tensor, Dim, Dim]:
        frames, labels = time_of(output), time_of(target)
        if frames is None or labels is None:
            raise DimError("ctc: the output or the target has no time axis", got=output.describe_dims())
        if logits is None:
            logits = output if self.opts["output_in_log_space"] else log(maximum(output, 1e-20))
        return logits, frames, labels


class EditDistanceLoss(LayerLoss, loss="edit_distance"):
    """No value; the error is the edit distance of each sequence (Levenshtein 1966)."""

    by_frame = False

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> None:
        """None: it has no gradient."""

    def error(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The error of each sequence."""
        frames, labels = time_of(output), time_of(target)
        if frames is None or labels is None or output.sparse_dim is None:
            fault = "edit_distance: the output and the target must be sequences of labels"
            raise DimError(fault, got=output.describe_dims())
        return cast(edit_distance(_plain(output), frames, _plain(target), labels), "float32")


def _plain(labels: Tensor) -> Tensor:
    return set_sparse_dim(cast(labels, "int64"), None)


def feature(output: Tensor) -> Dim:
    """The feature dim of an output. Raises DimError if there is none."""
    if output.feature_dim is None:
        raise DimError("the loss needs an output with features", got=output.describe_dims())
    return output.feature_dim


def log_of(output: Tensor, logits: Tensor | None) -> Tensor:
    """The logarithm of an output, from what went into its softmax if that is known."""
    return log(maximum(output, 1e-20)) if logits is None else log_softmax(logits, axis=feature(output))


def on_frames_of(target: Tensor, output: Tensor) -> Tensor:
    """The target on the time axis of the output. Raises DimError if a sequence has another length there."""
    frames, target_frames = time_of(output), time_of(target)
    if frames is None or target_frames is None or target_frames is frames or target_frames in output.sig.index:
        return target
    if output.device == "meta":
        return with_dim(target, target_frames, frames)
    expected, got = output.size_of(frames).values.ravel(), target.size_of(target_frames).values.ravel()
    if len(expected) != len(got) or (expected != got).any():
        wrong = next((i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), 0)
        raise DimError(
            f"the target has another length than the output in sequence {wrong}",
            got=f"a target of {int(got[wrong])} frames, an output of {int(expected[wrong])}",
            expected="equal lengths, frame by frame",
        )
    return with_dim(target, target_frames, frames)
