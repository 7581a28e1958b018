"""Connectionist temporal classification: losses over all alignments, and the best alignment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.core.advice.features import likely_features
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Problem(NamedTuple):
    """Operands of an alignment, in the layout of kernels: [time, batch, class], [batch], [batch, label], [batch]."""

    raws: tuple[Any, Any, Any, Any]
    log_probs: Tensor
    classes: Dim
    rest: list[Dim]  # the dims of the sequences, which are merged to `batch`
    shape: list[int]  # sizes of `rest`
    lengths: Lengths


class CtcOps:
    """Raw part: `ctc_loss_raw(log_probs, frames, targets, labels, blank, max_approx, label_loop)`,
    `ctc_best_path_raw(log_probs, frames, targets, labels, blank, label_loop)`.
    """

    ctc_loss_raw: Callable[..., Any]
    ctc_best_path_raw: Callable[..., Any]

    @classmethod
    def ctc_loss(
        cls: type[Backend],
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        max_approx: bool = False,
        label_loop: bool = True,
    ) -> Tensor:
        """-log Σ p(alignment). {…, input_spatial_dim, class}, {…, targets_spatial_dim} → {…}"""
        problem = _problem(cls, "ctc_loss", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index)
        raw = cls.ctc_loss_raw(*problem.raws, blank_index, max_approx, label_loop)
        loss = tensor_of(cls.reshape_raw(raw, problem.shape), align.sig(problem.rest), problem.lengths)
        if not logits_normalized:
            return loss
        # in each frame, log_softmax(logits) differs from the logits by this number
        sums = cls.reduce(problem.log_probs, mode="logsumexp", axis=problem.classes)
        total = cls.reduce(sums, mode="sum", axis=input_spatial_dim)
        normalized = cls.combine(loss, "sub", total)
        return cls.where(cls.activation(loss, "is_infinite"), loss, normalized)

    @classmethod
    def ctc_best_path(
        cls: type[Backend],
        *,
        logits: Tensor,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        label_loop: bool = True,
    ) -> Tensor:
        """The most probable alignment, sparse in the classes.

        {…, input_spatial_dim, class}, {…, targets_spatial_dim} → {…, input_spatial_dim}
        """
        problem = _problem(cls, "ctc_best_path", logits, targets, input_spatial_dim, targets_spatial_dim, blank_index)
        raw = cls.ctc_best_path_raw(*problem.raws, blank_index, label_loop)
        time = cls.get_shape_tuple_raw(raw)[0]
        dims = [input_spatial_dim, *problem.rest]
        raw = cls.cast_raw(cls.reshape_raw(raw, [time, *problem.shape]), targets.dtype)
        path = tensor_of(raw, align.sig(dims, problem.classes), problem.lengths)
        order = [dim for dim in logits.dims if dim in dims]
        return path.copy_transpose([*order, *(dim for dim in dims if dim not in order)])


def _problem(
    backend: type[Backend], op: str, logits: Tensor, targets: Tensor, input_dim: Dim, targets_dim: Dim, blank: int
) -> Problem:
    axis_of(op, logits, input_dim, "logits")
    axis_of(op, targets, targets_dim, "targets")
    classes = class_dim(op, logits, input_dim, targets.sparse_dim, blank)
    if input_dim in targets.sig.index or classes in targets.sig.index:
        raise DimError(
            f"{op}: `targets` must be labels, one dim with lengths",
            got=targets.describe_dims(),
            expected=f"{{…, {targets_dim.name}}}",
        )
    batch = [dim for dim in logits.dims if dim is not input_dim and dim is not classes]
    batch += [dim for dim in targets.dims if dim is not targets_dim and dim not in batch]
    lengths = logits.lengths.join(targets.lengths, logits.sig, targets.sig)
    scores = logits.like(backend.fill_padding(logits, 0))
    if scores.dtype not in ("float32", "float64"):
        scores = backend.cast(scores, "float32")
    shape = _shape(backend, batch, logits, targets)
    log_probs = backend.log_softmax(scores, axis=classes)
    labels = backend.cast(targets.like(backend.fill_padding(targets, 0)), "int64")
    raws = (
        _merged(backend, log_probs, [input_dim, *batch, classes], 1, shape),
        _counts(backend, logits, input_dim, batch, shape, lengths),
        _merged(backend, labels, [*batch, targets_dim], 0, shape),
        _counts(backend, targets, targets_dim, batch, shape, lengths),
    )
    return Problem(raws, scores, classes, batch, shape, lengths)


def class_dim(op: str, logits: Tensor, spatial_dim: Dim, labels: Dim | None, blank: int) -> Dim:
    """The dim of the classes: that of the labels, the feature dim, or the only fixed one besides the frames.

    Raises DimError if `blank` is not one of its entries, or is a label.
    """
    named = [dim for dim in (labels, logits.feature_dim) if dim in logits.sig.index]
    fixed = [dim for dim in logits.dims if dim.dimension is not None and dim is not spatial_dim]
    classes = named[0] if named else fixed[-1] if len(fixed) == 1 else None
    if classes is None:
        dim = likely_features(logits) or "…"
        raise DimError(
            f"{op}: it is not clear which dim of `logits` holds the classes",
            got=logits.describe_dims(),
            hint=f"rf.set_feature_dim({called(logits)}, {dim}); or labels that are sparse in it",
        )
    if not 0 <= blank < classes.size.max:
        raise DimError(f"{op}: the blank label is not a class", got=blank, expected=f"an entry of {classes.describe()}")
    if labels is not None and labels is not classes and not labels.size.max <= blank:
        raise DimError(
            f"{op}: labels and classes have different dims, and the blank label is one of the labels",
            got=f"labels of {labels.describe()}, classes of {classes.describe()}, blank {blank}",
            expected="blank after all labels, or labels with the dim of the classes as `sparse_dim`",
            hint=f"rf.set_sparse_dim(…, {classes.name}), if the labels are indices of {classes.name}",
        )
    return classes


def _shape(backend: type[Backend], rest: list[Dim], *tensors: Tensor) -> list[int]:
    sizes = {dim: n for x in tensors for dim, n in zip(x.dims, backend.get_shape_tuple_raw(x._raw), strict=True)}
    return [sizes[dim] for dim in rest]


def _merged(backend: type[Backend], x: Tensor, order: list[Dim], start: int, shape: list[int]) -> Any:
    """The raw tensor in the order of dims, with those of `shape`, which begin at `start`, as one axis."""
    raw = backend.move_raw(x._raw, align.move(x.dims, order, trailing=False))
    sizes = list(backend.get_shape_tuple_raw(raw))
    end = start + len(shape)
    raw = backend.broadcast_raw(raw, [*sizes[:start], *shape, *sizes[end:]])
    return backend.reshape_raw(raw, [*sizes[:start], int(np.prod(shape)), *sizes[end:]])


def _counts(backend: type[Backend], x: Tensor, dim: Dim, rest: list[Dim], shape: list[int], lengths: Lengths) -> Any:
    """How many entries of `dim` each sequence has. [batch]"""
    values = np.broadcast_to(lengths[dim].over(rest), shape).reshape(-1)
    return backend.from_numpy_raw(values, backend.device_key_raw(x._raw))
