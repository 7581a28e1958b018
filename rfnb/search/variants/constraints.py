"""Constraints on the labels of a hypothesis: which, how many, which first, and none in a row twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, ParameterError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.index import gather, scatter
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import (
    cast,
    equal,
    greater,
    greater_equal,
    less,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    where,
)
from rfnb.ops.reduce import reduce_any
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import shift_left, shift_right
from rfnb.search.rules import check_count
from rfnb.search.variants.constraint import (
    Constraint,
    Requirement,
    as_list,
    beside,
    is_label,
    labels_of,
    number_of,
    numbers_of,
    of_sequences,
)

Count = int | Sequence[int] | Tensor
"""A number for all sequences, or one for each."""
Prefix = str | Sequence[int | str]
"""Labels as a text, or as a list."""


@guarded
def allowed(which: Tensor | Sequence[int | str]) -> Constraint:
    """Only some labels, the same at each step.

    >>> label = rf.Dim(3, name="label", vocab=["</s>", "a", "b"])
    >>> only = rf.search.allowed(["</s>", "b"])
    >>> scores, _ = only.score(rf.zeros([], dtype="int64", sparse_dim=label), only.initial_state(batch_dims=[]))
    >>> scores.tolist()
    [0.0, -inf, 0.0]

    Args:
        which: the labels, as texts or numbers; or a mask {…, labels} bool, which may differ between sequences.

    Raises DimError if a mask lacks the labels, ParameterError for a label that does not exist.
    """

    items = which if isinstance(which, Tensor) else [*as_list(which)]

    def allows(label: Tensor, state: None) -> tuple[Tensor, None]:
        labels = labels_of(label)
        if not isinstance(which, Tensor):
            mask = np.zeros(labels.get_dim_value(), bool)
            mask[[number_of(item, labels) for item in items]] = True
            return convert_to_tensor(mask, dims=[labels], device=label.device), state
        if labels not in which.dims_set or which.dtype != "bool":
            raise DimError(
                "allowed: the mask does not say which labels are allowed",
                got=f"{which.describe_dims()} {which.dtype}",
                expected=f"bool with {labels.describe()}",
            )
        return beside(which, label), state

    return Constraint(lambda _: None, allows)


@guarded
def lengths(*, end: int | str, minimum: Count = 0, maximum: Count | None = None) -> Constraint:
    """No end before a hypothesis has `minimum` labels, and only the end once it has `maximum`.

    >>> label = rf.Dim(3, name="label", vocab=["</s>", "a", "b"])
    >>> one_or_more = rf.search.lengths(end="</s>", minimum=1)
    >>> last = rf.zeros([], dtype="int64", sparse_dim=label)
    >>> scores, state = one_or_more.score(last, one_or_more.initial_state(batch_dims=[]))
    >>> scores.tolist(), one_or_more.score(last, state)[0].tolist()
    ([-inf, 0.0, 0.0], [0.0, 0.0, 0.0])

    Args:
        end: the label that ends a hypothesis.
        minimum, maximum: how many labels a hypothesis has, without the end label; for all sequences, or a list or a
            Tensor {…} with a number for each.

    Raises ParameterError if `minimum` is larger than `maximum` for all sequences. Where it is so for one of them, its
    hypotheses die. In a search over frames, those with too few labels die at the end.
    """
    if isinstance(minimum, int) and isinstance(maximum, int) and not 0 <= minimum <= maximum:
        raise ParameterError("lengths: no length is allowed", got=f"minimum={minimum}, maximum={maximum}")

    def allows(label: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        ends, count = is_label(end, labels_of(label), label.device), beside(count, label)
        mask = logical_or(greater_equal(count, of_sequences("minimum", minimum, label)), logical_not(ends))
        if maximum is not None:
            mask = logical_and(mask, logical_or(less(count, of_sequences("maximum", maximum, label)), ends))
        return mask, count + 1

    def may_end(count: Tensor) -> Tensor:  # the start label was counted too
        return greater(count, of_sequences("minimum", minimum, count))

    return Requirement(partial(zeros, dtype="int64"), allows, may_end)


@guarded
def forced(prefix: Tensor | Prefix | Sequence[Prefix]) -> Constraint:
    """Hypotheses that begin with `prefix`; after it, they are free.

    In a search over frames, those that end before it die. The labels of the prefix get the scores of the model, so that
    hypotheses compare with those of a free search.

    >>> label = rf.Dim(3, name="label")
    >>> begin = rf.search.forced([2])
    >>> last = rf.zeros([], dtype="int64", sparse_dim=label)
    >>> scores, state = begin.score(last, begin.initial_state(batch_dims=[]))
    >>> scores.tolist(), begin.score(last, state)[0].tolist()
    ([-inf, -inf, 0.0], [0.0, 0.0, 0.0])

    Args:
        prefix: a text, or numbers of labels, for all sequences; or a list with one of these for each sequence, in the
            order of the batch. Or a Tensor {…, prefix}, whose length may differ between sequences, and in which -1 is
            any label.

    Raises DimError if a Tensor has not one dim besides those of the hypotheses, ParameterError for labels that do not
    exist or if there is not one prefix for each sequence.
    """

    own_prefix: Any = prefix if isinstance(prefix, Tensor | str) else [*as_list(prefix)]

    def start(dims: Sequence[Dim]) -> State:
        return State(count=zeros(dims, dtype="int64"), open=zeros(dims, dtype="bool"))

    def allows(label: Tensor, state: State) -> tuple[Tensor, State]:
        labels = beside(prefix, label) if isinstance(prefix, Tensor) else _padded(own_prefix, label)
        axes = [dim for dim in labels.dims if dim not in label.dims_set]
        if len(axes) != 1:
            raise DimError(
                "forced: which dim counts the labels of the prefix?",
                got=labels.describe_dims(),
                expected=f"one dim that the labels {label.describe_dims()} lack",
            )
        axis, count = axes[0], beside(state.count, label)
        every = range_over_dim(labels_of(label), dtype=labels.dtype, device=label.device)
        if not axis.size.max:
            return greater_equal(every, 0), State(count=count + 1, open=beside(state.open, label))
        size: Any = axis.get_dim_value() if axis.is_static() else get_size_tensor(axis, device=label.device)
        target = gather(labels, indices=count, axis=axis, clip_to_valid=True)
        free = logical_or(greater_equal(count, size), equal(target, ANY))
        comes = logical_and(greater_equal(range_over_dim(axis, device=label.device), count), not_equal(labels, ANY))
        open_ = reduce_any(comes, axis=axis).copy_transpose(label.dims)
        return logical_or(free, equal(target, every)), State(count=count + 1, open=open_)

    return Requirement(start, allows, lambda state: logical_not(state.open))


@guarded
def no_repeat(n: int, *, within: int = 256) -> Constraint:
    """No `n` labels in a row occur twice in a hypothesis, as in https://arxiv.org/abs/1705.04304.

    The start label does not count as one of them.

    >>> label = rf.Dim(3, name="label", vocab=["</s>", "a", "b"])
    >>> once = rf.search.no_repeat(2)
    >>> state = once.initial_state(batch_dims=[])
    >>> for last in [0, 1, 2, 1]:  # the start, and "aba"
    ...     scores, state = once.score(rf.convert_to_tensor(last, sparse_dim=label), state)
    >>> scores.tolist()
    [0.0, 0.0, -inf]

    Args:
        within: how many of the last labels are compared.

    Raises ParameterError if `n` is less than 1, or more than `within`.
    """
    check_count("no_repeat", "n", n, 0)
    check_count("no_repeat", "within", within, 1)
    if not 1 <= n <= within:
        raise ParameterError("no_repeat: `n` is out of range", got=n, expected=f"1 to within={within}")
    last = Dim(within, name="last labels")
    none = -1

    def start(dims: Sequence[Dim]) -> State:
        return State(labels=full(dims=[*dims, last], fill_value=none, dtype="int64"), started=zeros(dims, dtype="bool"))

    def allows(label: Tensor, state: State) -> tuple[Tensor, State]:
        new = where(beside(state.started, label), cast(set_sparse_dim(label, None), "int64"), none)
        labels = shift_left(beside(state.labels, label), axis=last, pad_value=new)
        repeats = greater_equal(labels, 0)
        for back in range(1, n):
            earlier = gather(labels, indices=within - back, axis=last)
            matches = equal(shift_right(labels, axis=last, pad_value=none, amount=back), earlier)
            repeats = logical_and(repeats, logical_and(matches, greater_equal(earlier, 0)))
        places = where(greater_equal(labels, 0), labels, 0)
        blocked = scatter(cast(repeats, "int32"), indices=places, indices_dim=last, out_dim=labels_of(label))
        return equal(blocked, 0), State(labels=labels, started=logical_or(state.started, True))

    return Constraint(start, allows)


ANY = -1
"""In a prefix, any label."""


def _padded(prefix: Prefix | Sequence[Prefix], label: Tensor) -> Tensor:
    """Labels as a Tensor {prefix}, or {batch, prefix} if there are some for each sequence."""
    labels, batch, prefix = labels_of(label), label.dims[:-1], as_list(prefix)
    if isinstance(prefix, str) or (prefix and all(isinstance(entry, int) for entry in prefix)) or not batch:
        numbers = numbers_of(prefix, labels)  # type: ignore[arg-type]
        axis = Dim(len(numbers), name="prefix")
        return convert_to_tensor(np.asarray(numbers, "int64"), dims=[axis], device=label.device)
    if len(batch) != 1 or len(prefix) != batch[0].get_dim_value() or any(isinstance(entry, int) for entry in prefix):
        raise ParameterError(
            "forced: `prefix` is neither the labels of all sequences nor a list with those of each",
            got=prefix,
            expected=f"one for each of {', '.join(dim.describe() for dim in batch)}",
            hint="forced([[2], [], [1, 2]]), or a Tensor {…, prefix}",
        )
    rows = [numbers_of(as_list(entry), labels) for entry in prefix]
    padded = np.full((len(rows), max(map(len, rows), default=0)), ANY)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = row
    return convert_to_tensor(padded, dims=[*batch, Dim(padded.shape[1], name="prefix")], device=label.device)
