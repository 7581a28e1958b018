"""Losses that need more than an output and a target: other layers, the scores of a search, random labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import with_features
from rfnb.netdict.layer import Layer
from rfnb.netdict.losses import LayerLoss, feature, log_of, loss_by_name, on_frames_of
from rfnb.netdict.resolve import required
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.grad import stop_gradient
from rfnb.ops.index import gather, top_k
from rfnb.ops.math import (
    cast,
    compare_bc,
    exp,
    expm1,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    softplus,
    where,
)
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_logsumexp, reduce_mean, reduce_min, reduce_sum
from rfnb.ops.shape import set_sparse_dim

if TYPE_CHECKING:
    from rfnb.netdict.loops.net import RecNet

NEVER = -1e30
"""The logit of a label that was not drawn."""


class SampledLoss(LayerLoss, loss="sampling_loss"):
    """−log p(target) among the target and `num_sampled` random labels (Jean et al. 2015); not only in training.

    With `nce_loss`, the target is distinguished from the random labels (Gutmann and Hyvärinen 2010).
    """

    own: ClassVar[dict[str, object]] = {
        "num_sampled": 128,
        "num_splits": 1,
        "sampler": "log_uniform",
        "nce_loss": False,
        "use_full_softmax": False,
        "remove_accidental_hits": None,
        "sampler_args": None,
        "nce_log_norm_term": 0.0,
    }

    def value(self, output: Tensor, logits: Tensor | None, target: Tensor, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        axis, nce = feature(output), self.opts["nce_loss"]
        logits = output if logits is None else logits
        labels = cast(set_sparse_dim(target, None), "int32")
        every = cast(set_sparse_dim(range_over_dim(axis, device=output.device), None), "int32")
        is_target = compare_bc(every, "equal", labels)
        if self.opts["use_full_softmax"]:
            sampled = compare_bc(every, "greater_equal", 0)
        else:
            sampled, log_count = self._drawn(axis, output.device)
            logits = logits - log_count
        at_target = gather(logits, indices=set_sparse_dim(target, axis), axis=axis)
        hits = self.opts["remove_accidental_hits"]
        negatives = logical_and(sampled, logical_not(is_target)) if (not nce if hits is None else hits) else sampled
        if not nce:
            among = where(logical_or(negatives, is_target), logits, NEVER)
            return reduce_logsumexp(among, axis=axis) - at_target
        shift = self.opts["nce_log_norm_term"]
        noise = reduce_sum(where(negatives, softplus(logits - shift), 0.0), axis=axis)
        return softplus(shift - at_target) + noise

    def _drawn(self, axis: Dim, device: str | None) -> tuple[Tensor, Tensor]:
        """Which labels are drawn, different ones, and the logarithm of how often each is expected. → {axis}, {axis}

        A label comes when a clock rings that is as fast as it is probable; the first ones are drawn. All that come
        until then, again too, are attempts.
        """
        count = self.opts["num_sampled"]
        if not 0 < count <= axis.get_dim_value():
            raise NetworkError("sampling_loss: num_sampled are different labels", got=count, expected=f"1 to {axis}")
        p = convert_to_tensor(self._probabilities(axis.get_dim_value()), dims=[axis], device=device)
        clocks = -log(maximum(random_uniform([axis], device=device), 1e-30)) / p
        first, _, drawn_dim = top_k(-clocks, axis=axis, k_dim=Dim(count, name="drawn"))
        end = -reduce_min(first, axis=drawn_dim)
        sampled = compare_bc(clocks, "less_equal", end)
        attempts = count + reduce_sum(where(sampled, p * (end - clocks), 0.0), axis=axis)
        return sampled, log(-expm1(attempts * log1p(-p)))

    def _probabilities(self, size: int) -> np.ndarray:
        """How probable each label is in an attempt."""
        sampler, args = self.opts["sampler"], self.opts["sampler_args"] or {}
        if sampler == "log_uniform":
            weights = np.log1p(1.0 / np.arange(1, size + 1))
        elif sampler == "uniform":
            weights = np.ones(size)
        elif sampler == "fixed_unigram" and len(args.get("unigrams", ())) == size:
            weights = np.asarray(args["unigrams"], "float64") ** args.get("distortion", 1.0)
        else:
            expected = (
                'log_uniform, uniform, or fixed_unigram with "sampler_args": {"unigrams": a number for each label}'
            )
            raise NetworkError("sampling_loss: the sampler is not known here", got=sampler, expected=expected)
        return (weights / weights.sum()).astype("float32")


class ViaLayer(LayerLoss, loss="via_layer"):
    """The gradient is what another layer gives; or −Σ p·log q for the probabilities p of another layer.

    error_signal_layer: the gradient with respect to the output. align_layer: the probabilities, such as those of a
    `fast_bw`; no gradient goes there. loss_wrt_to_act_in: whether the gradient is that of the logits of a softmax.
    """

    needs_target = has_error = False
    layers = ("error_signal_layer", "align_layer")
    own: ClassVar[dict[str, object]] = {"error_signal_layer": None, "align_layer": None, "loss_wrt_to_act_in": False}

    def value(self, output: Tensor, logits: Tensor | None, target: object, *, train: bool) -> Tensor:
        """The loss of each frame or sequence."""
        axis, direct = feature(output), bool(self.opts["loss_wrt_to_act_in"])
        signals = [with_features(stop_gradient(self.inputs[name]), axis) for name in self.layers if name in self.inputs]
        if len(signals) != 1:
            expected = '"loss_opts": {"align_layer": "…"}, or error_signal_layer'
            raise NetworkError("via_layer takes one of two layers", got=f"{len(signals)} layers", expected=expected)
        if "error_signal_layer" in self.inputs:
            return reduce_sum((logits if direct and logits is not None else output) * signals[0], axis=axis)
        return -reduce_sum(signals[0] * log_of(output, logits), axis=axis)


class SearchScore(LayerLoss, loss="search_score"):
    """The negative scores of all hypotheses of the search that the output comes from. By hypothesis."""

    needs_target = has_error = by_frame = False

    def value(self, output: Tensor, logits: Tensor | None, target: object, *, train: bool) -> Tensor:
        """The loss of each hypothesis. → {batch, beam}"""
        return -scores_of_search(self.layer, output)[0]


class ExpectedLoss(LayerLoss, loss="expected_loss"):
    """Another loss or error, expected under the probabilities of the hypotheses of a search (Prabhavalkar et al. 2018).

    The average over the beam is subtracted; with `loss_correction_grad_only` only in the gradient.
    """

    has_error = by_frame = False
    own: ClassVar[dict[str, object]] = {
        "loss": None,
        "loss_kind": None,
        "norm_scores": True,
        "norm_scores_stop_gradient": True,
        "divide_beam_size": True,
        "subtract_average_loss": True,
        "loss_correction_grad_only": False,
    }

    def value(self, output: Tensor, logits: Tensor | None, target: object, *, train: bool) -> Tensor:
        """The loss of each hypothesis, whose sum is the expected one. → {batch, beam}"""
        opts = self.opts
        scores, beam = scores_of_search(self.layer, output)
        losses = self._losses(output, logits, target, train=train)
        if opts["norm_scores"]:
            total = reduce_logsumexp(scores, axis=beam)
            scores = scores - (stop_gradient(total) if opts["norm_scores_stop_gradient"] else total)
        weights = exp(scores)
        value = weights * losses
        if opts["subtract_average_loss"]:
            corrected = weights * (losses - reduce_mean(losses, axis=beam))
            shift = stop_gradient(value - corrected) if opts["loss_correction_grad_only"] else 0.0
            value = corrected + shift
        return value * (1.0 / beam.get_dim_value()) if opts["divide_beam_size"] else value

    def _losses(self, output: Tensor, logits: Tensor | None, target: Any, *, train: bool) -> Tensor:
        """The loss or error of each hypothesis, in all of its frames. → {batch, beam}"""
        described, kind = self.opts["loss"], self.opts["loss_kind"]
        if not isinstance(described, Mapping) or "class" not in described or kind not in ("value", "error"):
            expected = '"loss": {"class": "edit_distance"}, "loss_kind": "error", or "value"'
            raise NetworkError("expected_loss needs a loss", got=f"{described!r:.60}, {kind!r}", expected=expected)
        loss = loss_by_name(described["class"], {key: entry for key, entry in described.items() if key != "class"})
        loss.layer, loss.inputs = self.layer, self.inputs
        target = on_frames_of(target, output) if loss.by_frame else target
        given = (loss.value if kind == "value" else loss.error)(output, logits, target, train=train)
        x = required(given, f"expected_loss: the loss {described['class']!r} has no {kind}")
        frames = [dim for dim in x.dims if not (dim.is_batch_dim() or is_beam(dim))]
        return reduce_sum(x, axis=frames) if frames else x


class FastBaumWelch(LayerLoss, loss="fast_bw"):
    """Raises NetworkError: its automata come from an external program."""

    needs_target = False
    own: ClassVar[dict[str, object]] = {"sprint_opts": None, "tdp_scale": 1.0}

    def __init__(self, **given: object):
        raise NetworkError(
            "the loss fast_bw takes its automata from an external program, sprint",
            hint='a layer fast_bw with "align_target": "ctc", and the loss via_layer with it as the align_layer',
        )


def search_of(layer: Layer, x: Tensor) -> RecNet | None:
    """The recurrent net whose search a value is of: that with a beam of its dims."""
    return next((rec for rec in layer.spec.nets.values() if rec.beam is not None and rec.beam in x.dims), None)


def scores_of_search(layer: Layer, output: Tensor) -> tuple[Tensor, Dim]:
    """The scores of the hypotheses of the search that an output comes from, and the beam. → {batch, beam}

    Raises NetworkError if it comes from no search.
    """
    search = search_of(layer, output)
    if search is None or search.beam is None:
        fault = f"the loss {layer.spec.common.loss} needs the hypotheses of a search"
        raise NetworkError(fault, got=output.describe_dims(), hint="rf.Network(…, train_flag=True, search_flag=True)")
    if search.choices is None:  # a template
        return zeros([dim for dim in output.dims if dim.is_batch_dim() or dim is search.beam]), search.beam
    return search.choices.beam_scores, search.beam
