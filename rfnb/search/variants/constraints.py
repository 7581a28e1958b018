"""Scores that say which labels a hypothesis may have next: 0 if it may, -∞ if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, ParameterError
from rfnb.ops.convert import convert_to_tensor, copy_to_device
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.index import gather, search_sorted
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
from rfnb.search.beam import among


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
    def score(self, label: Tensor, state: object) -> tuple[Tensor, Any]:
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
    def final(self, state: object) -> Tensor:
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


def is_label(which: int | str | Sequence[int | str], labels: Dim, device: str | None) -> Tensor:
    """Which of the labels it is, or one of several. {labels} bool"""
    choices = [which] if isinstance(which, int | str) else which
    return among(range_over_dim(labels, device=device), numbers_of(choices, labels))


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


def numbers_of(values: str | Sequence[int | str], labels: Dim) -> list[int]:
    """The numbers of the labels of a text, or of labels. Raises ParameterError for those that the dim does not have."""
    if isinstance(values, str):
        return [int(number) for number in _vocab_of(labels, values).encode(values)]
    return [number_of(label, labels) for label in values]


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


def as_list(values: object) -> Any:
    """An array or a tensor of torch as a list; other values as they are."""
    return values.tolist() if hasattr(values, "tolist") else values


def beside(value: object, label: Tensor) -> Any:
    """A value on the device of the labels."""
    return copy_to_device(value, label.device) if isinstance(value, Tensor) else value


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
def lengths(*, end: int | str | Sequence[int | str], minimum: Count = 0, maximum: Count | None = None) -> Constraint:
    """No end before a hypothesis has `minimum` labels, and only the end once it has `maximum`.

    >>> label = rf.Dim(3, name="label", vocab=["</s>", "a", "b"])
    >>> one_or_more = rf.search.lengths(end="</s>", minimum=1)
    >>> last = rf.zeros([], dtype="int64", sparse_dim=label)
    >>> scores, state = one_or_more.score(last, one_or_more.initial_state(batch_dims=[]))
    >>> scores.tolist(), one_or_more.score(last, state)[0].tolist()
    ([-inf, 0.0, 0.0], [0.0, 0.0, 0.0])

    Args:
        end: the label that ends a hypothesis, or several of them.
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

    own_prefix = prefix if isinstance(prefix, Tensor | str) else [*as_list(prefix)]

    def start(dims: Sequence[Dim]) -> State:
        return State(count=zeros(dims, dtype="int64"), open=zeros(dims, dtype="bool"))

    def allows(label: Tensor, state: State) -> tuple[Tensor, State]:
        labels = beside(prefix, label) if isinstance(prefix, Tensor) else padded("prefix", own_prefix, label)
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
        size = axis.get_dim_value() if axis.is_static() else get_size_tensor(axis, device=label.device)
        target = gather(labels, indices=count, axis=axis, clip_to_valid=True)
        free = logical_or(greater_equal(count, size), equal(target, ANY))
        comes = logical_and(greater_equal(range_over_dim(axis, device=label.device), count), not_equal(labels, ANY))
        open_ = reduce_any(comes, axis=axis).copy_transpose(label.dims)
        return logical_or(free, equal(target, every)), State(count=count + 1, open=open_)

    return Requirement(start, allows, lambda state: logical_not(state.open))


ANY = -1
"""In a prefix, any label."""


def padded(name: str, prefix: Any, label: Tensor) -> Tensor:
    """Labels as a Tensor {prefix}, or {batch, prefix} if there are some for each sequence. name: of the argument."""
    labels, batch, prefix = labels_of(label), label.dims[:-1], as_list(prefix)
    if isinstance(prefix, str) or (prefix and all(isinstance(entry, int) for entry in prefix)) or not batch:
        numbers = numbers_of(prefix, labels)
        axis = Dim(len(numbers), name=name)
        return convert_to_tensor(np.asarray(numbers, "int64"), dims=[axis], device=label.device)
    if len(batch) != 1 or len(prefix) != batch[0].get_dim_value() or any(isinstance(entry, int) for entry in prefix):
        raise ParameterError(
            f"constraint: `{name}` is neither the labels of all sequences nor a list with those of each",
            got=prefix,
            expected=f"one for each of {', '.join(dim.describe() for dim in batch)}",
            hint=f"{name}=[[2], [], [1, 2]], or a Tensor {{…, {name}}}",
        )
    rows = [numbers_of(as_list(entry), labels) for entry in prefix]
    padded_rows = np.full((len(rows), max(map(len, rows), default=0)), ANY)
    for place, row in zip(padded_rows, rows, strict=True):
        place[: len(row)] = row
    return convert_to_tensor(padded_rows, dims=[*batch, Dim(padded_rows.shape[1], name=name)], device=label.device)


@guarded
def trie(words: Iterable[str | Sequence[int | str]], *, labels: Dim, end: int | str | None) -> Constraint:
    """Hypotheses that are one of `words`.

    >>> label = rf.Dim(4, name="label", vocab=["</s>", "a", "b", "c"])
    >>> words = rf.search.trie(["ab", "acc", "ac"], labels=label, end="</s>")
    >>> state = words.initial_state(batch_dims=[])
    >>> for last in [0, 1, 3]:  # the start, and "ac"
    ...     scores, state = words.score(rf.convert_to_tensor(last, sparse_dim=label), state)
    >>> scores.tolist()
    [0.0, -inf, -inf, 0.0]

    Args:
        words: each a text, or a sequence of labels.
        labels: the dim of the labels. end: the label that ends a hypothesis, which follows each word; None if nothing
            ends them, so that hypotheses die if another label follows their word.

    Where no label ends hypotheses, as in a search over frames, only whole words are left at the end. A hypothesis that
    reaches the limit of steps without its end label may be the beginning of a word.


    Memory is that of the different beginnings of the words. Raises ParameterError for a label that does not exist.
    """
    ending = [] if end is None else [number_of(end, labels)]
    targets, finals = _edges((numbers_of(word, labels) for word in words), ending, labels.get_dim_value())
    moves, node = Moves(targets, labels), Dim(len(finals), name="nodes of the trie")
    words_end = convert_to_tensor(finals, dims=[node])

    def allows(label: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        before = beside(before, label)
        child = where(equal(before, START), ROOT, moves.to(before, label, DEAD))
        every = range_over_dim(labels_of(label), device=label.device)
        return not_equal(moves.to(child, every, DEAD), DEAD), child

    def may_end(state: Tensor) -> Tensor:
        return gather(beside(words_end, state), indices=state, axis=node)

    return Requirement(partial(zeros, dtype="int64"), allows, may_end)


START, ROOT, DEAD = range(3)
"""The first nodes: before the start label, after it, and where no word leads to."""


def _edges(words: Iterable[Sequence[int]], after: Sequence[int], labels: int) -> tuple[dict[int, int], np.ndarray]:
    """The edges of the trie of words and what follows them, as for `Moves`, and for each node whether it is a whole
    word."""
    targets: dict[int, int] = {}
    finals: set[int] = set()
    for word in words:
        node = ROOT
        for number, label in enumerate([*word, *after]):
            finals.update([node] if number == len(word) else [])
            node = targets.setdefault(node * labels + label, DEAD + 1 + len(targets))
        finals.add(node)
    return targets, np.isin(np.arange(DEAD + 1 + len(targets)), [*finals])


class Moves:
    """Where labels lead from the nodes of an automaton.

    Args:
        targets: by node · number of labels + label, the node that it leads to.
        labels: the dim of the labels.
    """

    def __init__(self, targets: Mapping[int, int], labels: Dim, device: str | None = None):
        keys, nodes = (np.fromiter(x, "int64", len(targets)) for x in (targets.keys(), targets.values()))
        order, beyond = np.argsort(keys), np.iinfo("int64").max  # so that each key has a place in the table
        table = np.append(keys[order], beyond), np.append(nodes[order], 0)
        self._count, self._move = labels.get_dim_value(), Dim(len(table[0]), name="move")
        self._keys, self._targets = (convert_to_tensor(x, dims=[self._move], device=device) for x in table)

    def to(self, node: Tensor, label: Tensor, otherwise: Tensor | int) -> Tensor:
        """The node after one more label; `otherwise` where it leads nowhere. {…}"""
        keys = node * self._count + cast(set_sparse_dim(label, None), "int64")
        table, targets = (
            x if x.device == keys.device else copy_to_device(x, keys.device) for x in (self._keys, self._targets)
        )
        place = search_sorted(table, keys, axis=self._move, out_dtype="int64")
        exists = equal(gather(table, indices=place, axis=self._move), keys)
        return where(exists, gather(targets, indices=place, axis=self._move), otherwise)
