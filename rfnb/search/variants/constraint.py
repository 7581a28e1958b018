"""Scores that say which labels a hypothesis may have next: 0 if it may, -∞ if not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, ParameterError
from rfnb.ops.convert import convert_to_tensor, copy_to_device
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import equal, where


@dataclass(frozen=True, eq=False)
class Constraint:
    """A scorer that allows some labels only; a hypothesis to which none is allowed dies.

    Args:
        start: the state of hypotheses without labels, from their dims.
        allows: which labels may follow, {…, beam, labels} bool, and the new state; from the last label of each
            hypothesis, which is the start label in the first step, and the state. The last dim of the labels,
            {…, beam}, is the beam.
    """

    only_falls: ClassVar[bool] = True  # scores are 0 or -∞
    scores_ends: ClassVar[bool] = True
    start: Callable[[Sequence[Dim]], Any]
    allows: Callable[[Tensor, Any], tuple[Tensor, Any]]

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Any:
        """The state of hypotheses without labels; the last of `batch_dims` is the beam."""
        return self.start(batch_dims)

    @broadcast_allowed()
    def score(self, label: Tensor, state: Any) -> tuple[Tensor, Any]:
        """0 for labels that are allowed, -∞ for others, and the new state. {…, beam} → {…, beam, labels}"""
        labels_of(label)
        allowed, state = self.allows(label, state)
        return where(allowed, 0.0, -np.inf), state


@dataclass(frozen=True, eq=False)
class Requirement(Constraint):
    """A constraint that whole hypotheses must meet, also those that no label ends.

    Args:
        may_end: which hypotheses may end, {…, beam} bool, from their state.
    """

    may_end: Callable[[Any], Tensor]

    @broadcast_allowed()
    def final(self, state: Any) -> Tensor:
        """0 for hypotheses that may end, -∞ for others. {…, beam}"""
        return where(self.may_end(state), 0.0, -np.inf)


def labels_of(label: Tensor) -> Dim:
    """The dim that labels are numbers of. Raises DimError if they do not say it."""
    if label.sparse_dim is None:
        raise DimError(
            "constraint: which labels are there?",
            got=label.describe_dims(),
            expected="labels with a sparse_dim",
            hint='loop.state.prev = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=labels)',
        )
    return label.sparse_dim


def is_label(which: int | str, labels: Dim, device: str | None) -> Tensor:
    """Which of the labels it is. {labels} bool"""
    return equal(range_over_dim(labels, device=device), number_of(which, labels))


def number_of(which: int | str, labels: Dim) -> int:
    """The number of a label. Raises ParameterError for one that the dim does not have."""
    if isinstance(which, str):
        return int(_vocab_of(labels, which).encode([which])[0])
    integral = isinstance(which, int | np.integer) and not isinstance(which, bool)
    if not integral or not 0 <= which < labels.get_dim_value():
        raise ParameterError(
            "constraint: there is no such label", got=which, expected=f"0 to {labels.get_dim_value() - 1}"
        )
    return int(which)


def numbers_of(given: str | Sequence[int | str], labels: Dim) -> list[int]:
    """The numbers of the labels of a text, or of labels. Raises ParameterError for those that the dim does not have."""
    if isinstance(given, str):
        return [int(number) for number in _vocab_of(labels, given).encode(given)]
    return [number_of(label, labels) for label in given]


def _vocab_of(labels: Dim, text: str) -> Vocab:
    if labels.vocab is None:
        raise ParameterError(
            f"constraint: {text!r} is a text, and {labels.name} has no vocabulary",
            hint=f"rf.Dim(…, name={labels.name!r}, vocab=[…]), or the numbers of labels",
        )
    return labels.vocab


def of_sequences(name: str, value: int | Sequence[int] | Tensor, label: Tensor) -> Tensor | int:
    """A number for all sequences, or one for each. label: {…, beam}, the last of whose dims is the beam"""
    if isinstance(value, Tensor | int):
        return beside(value, label)
    numbers, dims = np.asarray(as_list(value)), label.dims[:-1]
    sizes = tuple(dim.get_dim_value() for dim in dims)
    if numbers.shape != sizes or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ParameterError(
            f"constraint: `{name}` has a number for each sequence",
            got=value,
            expected=f"whole numbers of shape {sizes}",
        )
    return convert_to_tensor(numbers.astype("int64"), dims=dims, device=label.device)


def as_list(values: Any) -> Any:
    """An array or a tensor of torch as a list; other values as they are."""
    return values.tolist() if hasattr(values, "tolist") else values


def beside(value: Any, label: Tensor) -> Any:
    """A value on the device of the labels."""
    return copy_to_device(value, label.device) if isinstance(value, Tensor) else value
