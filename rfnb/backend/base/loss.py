"""Losses and error measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.core.advice.broadcast_errors import nearest
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.dtype import has_fractions
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

LOG_PROBS: dict[str, Callable[[Any, Tensor, Dim], Tensor]] = {
    "logits": lambda backend, x, axis: backend.log_softmax(x, axis=axis),
    "log-probs": lambda backend, x, axis: x,
    "probs": lambda backend, x, axis: backend.safe_log(x),
}


class LossOps:
    """Raw part: `cross_entropy_raw(logits, labels)`, `edit_distance_raw`."""

    cross_entropy_raw: Callable[[Any, Any], Any]
    edit_distance_raw: Callable[[Any, Any, Any, Any], Any]

    @classmethod
    def cross_entropy(
        cls: type[Backend], *, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str
    ) -> Tensor:
        """-Σ target · log estimated over `axis`. {…, axis}, {…} sparse or {…, axis} → {…}"""
        plan = (
            estimated.sig.plans.get(("cross_entropy", axis, target.sig.serial)) if estimated_type == "logits" else None
        )
        if plan is not None:
            return _sparse(cls, estimated, target, plan)
        axis_of("cross_entropy", estimated, axis, "estimated")
        log_probs = LOG_PROBS[estimated_type]
        _check_frames(estimated, target, axis)
        if axis in target.sig.index and target.sparse_dim is None:
            return _dense(cls, target, log_probs(cls, estimated, axis), axis)
        if target.sparse_dim is not axis:
            raise _other_labels(estimated, target, axis)
        batch = [dim for dim in estimated.dims if dim is not axis]
        if estimated_type == "logits" and axis.dimension is not None and set(batch) == set(target.dims):
            plan = align.move(estimated.dims, [*batch, axis]), align.move(target.dims, batch), align.sig(batch)
            estimated.sig.keep(("cross_entropy", axis, target.sig.serial), plan)
            return _sparse(cls, estimated, target, plan)
        picked = cls.gather(log_probs(cls, estimated, axis), indices=target, axis=axis)
        return picked.like(cls.activation_raw(picked._raw, "neg"), align.sig(picked.dims))

    @classmethod
    def softmax_cross_entropy_with_logits(cls: type[Backend], *, logits: Tensor, targets: Tensor, axis: Dim) -> Tensor:
        """Cross entropy of softmax(logits). {…, axis}, {…} sparse or {…, axis} → {…}"""
        return cls.cross_entropy(estimated=logits, target=targets, axis=axis, estimated_type="logits")

    @classmethod
    def edit_distance(cls: type[Backend], a: Tensor, a_dim: Dim, b: Tensor, b_dim: Dim, *, dtype: str) -> Tensor:
        """The fewest insertions, deletions and substitutions from `a` to `b`. {…, a_dim}, {…, b_dim} → {…}"""
        axis_of("edit_distance", a, a_dim, "a")
        axis_of("edit_distance", b, b_dim, "b")
        for x in (a, b):
            if has_fractions(x.dtype):
                raise DtypeError("edit_distance: labels must be integers", got=x.dtype, expected="int64, int32, …")
        batch = [d for d in a.dims if d is not a_dim] + [d for d in b.dims if d is not b_dim and d not in a.sig.index]
        lengths = a.lengths.join(b.lengths, a.sig, b.sig)
        distance = cls.edit_distance_raw(
            align.apply(align.move(a.dims, [*batch, a_dim], trailing=False), a._raw),
            _lengths(cls, a, a_dim, batch, lengths),
            align.apply(align.move(b.dims, [*batch, b_dim], trailing=False), b._raw),
            _lengths(cls, b, b_dim, batch, lengths),
        )
        return tensor_of(cls.cast_raw(distance, dtype), align.sig(batch), lengths)


def _check_frames(estimated: Tensor, target: Tensor, axis: Dim) -> None:
    """Raises DimError if each side has a dim that the other lacks, which would compare all pairs."""
    odd = [dim for dim in target.dims if dim not in estimated.sig.index]
    lacking = [dim for dim in estimated.dims if dim is not axis and dim not in target.sig.index]
    if odd and lacking:
        raise DimError(
            "cross_entropy: `estimated` and `target` each have a dim that the other lacks",
            got=f"estimated {estimated.describe_dims()}, target {target.describe_dims()}",
            expected="one target for each entry of `estimated`",
            hint=nearest(odd[0], lacking)
            or f"bring one side to the frames of the other (rf.slice, rf.pad, rf.replace_dim); "
            f"if all pairs are intended: rf.expand_dim(target, {lacking[0].name})",
            dims=[*odd, *lacking],
        )


def _other_labels(estimated: Tensor, target: Tensor, axis: Dim) -> DimError:
    labels = target.sparse_dim
    hint = f"rf.set_sparse_dim(target, {axis.name}), if this is intended"
    if labels is not None and labels in estimated.sig.index:
        hint = f"axis={labels.name}"
    return DimError(
        "cross_entropy: the labels of `target` are not the classes of `estimated`",
        got=f"labels of {labels.describe()}" if labels else target.describe_dims(),
        expected=f"labels of {axis.describe()}, or probabilities with this dim",
        hint=hint,
    )


def _dense(backend: type[Backend], target: Tensor, log_probs: Tensor, axis: Dim) -> Tensor:
    """-Σ target · log_probs, where 0 · -∞ is 0."""
    unwanted = target.like(backend.compare_raw(target._raw, "equal", 0))
    out = backend.combine(unwanted, "logical_and", backend.activation(log_probs, "is_neg_infinite"))
    weighted = backend.combine(target, "mul", backend.where(out, 0.0, log_probs))
    total = backend.reduce(weighted, mode="sum", axis=axis)
    return total.like(backend.activation_raw(total._raw, "neg"), align.sig(total.dims))


def _sparse(
    backend: type[Backend], logits: Tensor, target: Tensor, plan: tuple[align.Move, align.Move, align.Sig]
) -> Tensor:
    logits_there, labels_there, out = plan
    lengths = logits.lengths.join(target.lengths, logits.sig, target.sig)
    labels = backend.move_raw(backend.fill_padding(target, 0), labels_there)
    raw = backend.cross_entropy_raw(backend.move_raw(logits._raw, logits_there), labels)
    return tensor_of(raw, out, lengths)


def _lengths(backend: type[Backend], x: Tensor, dim: Dim, rest: Sequence[Dim], lengths: Lengths) -> Any:
    """The raw lengths of `dim`, shaped to broadcast against `rest`."""
    return backend.from_numpy_raw(lengths[dim].over(rest), backend.device_key_raw(x._raw))
