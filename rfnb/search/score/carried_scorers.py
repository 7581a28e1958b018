"""What a choice carries for its scorers from step to step, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import arranged, leaves, map_leaves, named_leaves, same_structure
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, LoopError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.ops.math import logical_and, logical_not, not_equal, where
from rfnb.ops.shape import set_sparse_dim
from rfnb.search.score.scorer import ChangingScorer, PartialScorer, ScorePart, Scorer, scores_ends, state_after
from rfnb.search.score.sum import Scored, of_chosen, scaled
from rfnb.search.sources import over
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import Hypotheses


class CarriedState:
    """A state, possibly nested, which follows the hypotheses. before: its value before the step, for the newest
    hypotheses. waits: whether it stays as it is where a hypothesis gets a blank."""

    def __init__(self, body: Body, name: str, initial: Any, waits: bool = False):
        assert body.hypotheses is not None
        self.body, self.name, self.waits, self.hypotheses = body, name, waits, body.hypotheses
        self.initial = initial
        self.places = [None if leaf is None else self._carry(leaf) for leaf in leaves(initial)]
        befores = iter([None if place is None else body.carried[place].before for place in self.places])
        self.before = map_leaves(lambda _: self._followed(next(befores)), initial)

    def _carry(self, leaf: object) -> int:
        if not isinstance(leaf, Tensor) or isinstance(leaf, Traced):
            kind = "an axis that grows" if isinstance(leaf, Dim) else f"a {type(leaf).__name__}"
            kind = "a value of the loop around this one" if isinstance(leaf, Traced) else kind
            by_label = "search by label, in rf.search.decode or a loop, with rf.search.CTCPrefix(…) as a scorer"
            carry = f"carry the state yourself, loop.state.{self.name} = …, and give its scores: "
            raise LoopError(
                f"{self.body.loop.name}: the initial state of the scorer {self.name!r} has {kind}",
                got=leaf,
                expected="Tensors from outside of the loop",
                hint=by_label if self.waits else f'{carry}{{"{self.name}": ({self.name}_scores, scale)}}',
            )
        return self.body.carry("search", leaf, leaf.dtype, leaf._raw)

    def _followed(self, before: Traced | None) -> Tensor | None:
        return None if before is None else self.hypotheses.follow(before)

    @property
    def newest(self) -> Any:
        """Its value after the step so far, for the newest hypotheses."""
        values = iter([None if place is None else self._at(place) for place in self.places])
        return map_leaves(lambda _: next(values), self.initial)

    def _at(self, place: int) -> object:
        value, like = self.hypotheses.follow(self.hypotheses.carried[place]), self.body.carried[place].before
        return value if value.sparse_dim is like.sparse_dim else set_sparse_dim(value, like.sparse_dim)

    def take(self, new: object, emitted: Tensor | None = None) -> None:
        """Sets the value after the step. Raises LoopError or DimError if it does not fit the initial state.

        emitted: which hypotheses got a label, {…, beam}; others keep what they had.
        """
        new = arranged(new, self.initial)
        old = named_leaves(self.initial)
        if not same_structure(self.initial, new) or any(
            (a is None) != (b is None) for (_, a), b in zip(old, leaves(new), strict=True)
        ):
            raise LoopError(
                f"{self.body.loop.name}: the new state of the scorer {self.name!r} has a different structure",
                got=", ".join(name or "one value" for name, _ in named_leaves(new)),
                expected=", ".join(name or "one value" for name, _ in old),
            )
        for place, (name, was), value, before in zip(self.places, old, leaves(new), leaves(self.before), strict=True):
            if place is not None:
                after = value if emitted is None else where(emitted, self._follow(value), self._follow(before))
                self._take(place, name, was, after)

    def _follow(self, value: Tensor) -> Tensor:
        return self.hypotheses.follow(self.body.of_body(value, f"the state of the scorer {self.name!r}"))

    def _take(self, place: int, name: str, was: Tensor, value: Tensor) -> None:
        after = self.body.of_body(value, f"the state of the scorer {self.name!r}")
        if set(self._beam_as_state(after)) != set(was.dims):
            raise DimError(
                f"{self.body.loop.name}: the state {name or ''} of the scorer {self.name!r} changes its dims",
                got=after.describe_dims(),
                expected=was.describe_dims(),
            )
        self.hypotheses.carried[place] = after

    def _beam_as_state(self, value: Tensor) -> list[Dim]:
        beams = {choice.after for choice in self.hypotheses.choices}
        return [self.hypotheses.beam if dim in beams else dim for dim in value.dims]


@dataclass
class CarriedScorers:
    """The states of the scorers of a choice, as `ScorerStates` of `add_up`.

    Args:
        body: the body of the loop.
        axis: the dim of the labels.
        start: the label before the first one.
        blank: the label that stands for no label.
        label: what the choice carries of the last label of each hypothesis, once a scorer needs it.
        states: what it carries of each scorer, and its new state.
        finals: the scorers that also score the ends of hypotheses.
    """

    body: Body
    axis: Dim
    start: Any
    blank: int | None
    label: CarriedState | None = None
    states: list[tuple[CarriedState, object]] = field(default_factory=list)
    finals: list[Final] = field(default_factory=list)
    _begin: int = 0

    def of(self, part: ScorePart) -> tuple[Tensor, Any]:
        """The last label of each hypothesis, {…, beam}, and the state of a scorer."""
        self.label = self.label or _carried_label(self.body, self.axis, self.start)
        state = _state(self.body, part, each=self.blank is not None)
        self.states.append((state, None))
        self._begin = len(self.body.tape.calls)
        return self.label.before, state.before

    def take(self, part: ScorePart, new: object) -> None:
        """Takes the new state of a scorer, of the hypotheses before the step."""
        state, _ = self.states[-1]
        self.states[-1] = state, new
        if hasattr(part.value, "final"):
            assert self.label is not None
            of_step = _reads_more(self.body, self._begin, [self.label.before, *leaves(state.before)])
            self.finals.append(Final(part.name, part.value, state, new, self.label, of_step))

    def keep(self, scored: Scored, labels: Tensor, parents: Tensor, before: Dim) -> None:
        """Keeps the parts of the labels that were chosen, by name, and takes the new states."""
        hypotheses = self.body.hypotheses
        assert hypotheses is not None
        _keep_of_pruned(self.body, scored, before)
        for name, part in scored.parts.items():
            score = of_chosen(part, scored.axis, before, labels, parents)
            earlier = hypotheses.kept.get(f"part {name}")  # of an earlier choice in this step
            score = score if earlier is None else score + earlier
            hypotheses.kept[f"part {name}"] = self.body.of_body(score.copy_transpose(labels.dims), "choice")
        emitted = None if self.blank is None else not_equal(labels, self.blank)
        for state, new in self.states:
            state.take(new, emitted)
        if self.label is not None:
            self.label.take(labels, emitted)
        hypotheses.search.finals.extend(self.finals)
        hypotheses.search.scales.update(scored.scales)


def _keep_of_pruned(body: Body, scored: Scored, before: Dim) -> None:
    """Keeps the parts of the pruned candidates that are kept; replays ask for those of all."""
    hypotheses = body.hypotheses
    assert hypotheses is not None
    pruned = hypotheses.search.pruned
    for name, part in scored.parts.items():
        hypotheses.asked[f"part {name}"] = body.of_body(part, "choice")
        if pruned:
            labels, parents, scores = pruned
            score = of_chosen(part, scored.axis, before, labels, parents).copy_transpose(scores.dims)
            earlier = hypotheses.kept.get(f"pruned part {name}")
            score = score if earlier is None else score + earlier
            hypotheses.kept[f"pruned part {name}"] = body.of_body(score, "choice")


def _carried_label(body: Body, axis: Dim, start: object) -> CarriedState:
    """The last label that a choice gave each hypothesis. {…, beam}"""
    assert body.hypotheses is not None
    dims = body.hypotheses.dims
    like = body.carried[body.hypotheses.search.scores_place].before.plain
    with body.untraced():
        numbers = np.full([like.size_of(dim).max for dim in dims], _number_of(start, axis), "int64")
        raw = body.backend.from_numpy_raw(numbers, like.device)
        return CarriedState(body, "label", tensor_of(raw, align.sig(dims, axis), like.lengths))


def _number_of(start: object, axis: Dim) -> int:
    """The number of the first label."""
    size = axis.get_dim_value()
    if isinstance(start, str) and axis.vocab is not None:
        return axis.vocab.encode([start])[0]
    if not isinstance(start, int | np.integer) or not 0 <= start < size:
        raise ParameterError(
            "choice: `start` is not a label", got=start, expected=f"a label of {axis.name}, below {size}"
        )
    return int(start)


def _state(body: Body, part: ScorePart, each: bool) -> CarriedState:
    """The state of a scorer. each: all of its parts are made those of each hypothesis, as not all get a label."""
    assert body.hypotheses is not None and isinstance(part.value, Scorer | PartialScorer | ChangingScorer)
    dims = list(body.hypotheses.dims)

    def expanded(leaf: object) -> object:
        if not isinstance(leaf, Tensor) or leaf.dims_set.issuperset(dims):
            return leaf
        return over(leaf, [*dims, *(dim for dim in leaf.dims if dim not in dims)])

    with body.untraced():
        initial = part.value.initial_state(batch_dims=dims)
        initial = map_leaves(expanded, initial) if each else initial
        return CarriedState(body, part.name, initial, waits=each)


@dataclass
class Final:
    """The scorer of a part that also scores the ends of hypotheses.

    Args:
        name: that of the part.
        scorer: the scorer, which has `final`.
        state: what the choice carries of it. label: the last label of each hypothesis.
        new: its state after `score` was called in this step, for the labels before the choice. {…, beam before}
        of_step: whether its state depends on values of the step, so that it cannot be called for one more label.
    """

    name: str
    scorer: Any
    state: CarriedState
    new: object
    label: CarriedState
    of_step: bool

    def before_the_end(self) -> Tensor:
        """The score of an end by the label of this step. {…, beam before}"""
        return self.scorer.final(self.new)

    def after_all_labels(self) -> Tensor:
        """The score of an end after the labels so far, that of this step included. {…, newest beam}"""
        return self.scorer.final(state_after(self.scorer, self.label.newest, self.state.newest))

    def without_labels(self) -> Tensor:
        """The score of an end before the first label. {…, beam}"""
        return self.scorer.final(state_after(self.scorer, self.label.initial, self.state.initial))


def _reads_more(body: Body, since: int, variables: Sequence[Traced | None]) -> bool:
    """Whether the raw calls of the body from the position `since` on read values of this step other than those known,
    and their own."""
    tape = body.tape
    sources = {tape.find(x.plain._raw) for x in variables if x is not None}
    numbers = {var.number for var in sources if isinstance(var, Var)}
    for call in tape.calls[since:]:
        if not numbers.issuperset(call.read_vars):
            return True
        numbers.update(call.made)
    return False


def settle(body: Body, hypotheses: Hypotheses, ends: bool, empty: bool) -> None:
    """Keeps what the end of the search is worth to each hypothesis, should this step be the last one.

    ends: whether hypotheses end in the loop. empty: whether a sequence may have no steps.
    """
    search = hypotheses.search
    by_label = ends and search.rules.blank is None
    for final in search.finals:
        if by_label and scores_ends(final.scorer):
            continue
        if not by_label and final.of_step and search.rules.blank is not None:
            raise LoopError(
                f"{body.loop.name}: choice: {final.name!r} scores the end of a hypothesis by values of the step",
                got="a search with a blank, where the last label comes in any step",
                hint="a scorer whose state depends on labels only",
            )
        before = by_label or final.of_step
        score = final.before_the_end() if before else final.after_all_labels()
        score = hypotheses.follow(body.of_body(score, f"the final score of {final.name!r}"))
        hypotheses.kept[f"final {final.name}"] = body.of_body(over(score, hypotheses.scores.dims), "choice")
        if empty and not before:
            with body.untraced():
                initial = over(final.without_labels(), hypotheses.dims)
                search.at_start[final.name] = body.backend.to_numpy_raw(initial._raw)


def add_finals(hypotheses: Hypotheses, ends: Traced) -> None:
    """Adds to the hypotheses that end in this step what their end is worth. ends: {…, newest beam}"""
    search = hypotheses.search
    ending = logical_and(ends, logical_not(hypotheses.follow(search.ended)))
    total: Any = hypotheses.scores
    order = total.dims
    for name in [final.name for final in search.finals if f"final {final.name}" in hypotheses.kept]:
        added = where(ending, hypotheses.kept[f"final {name}"], 0.0)
        part: Any = hypotheses.kept.get(f"part {name}")
        if part is not None:
            hypotheses.kept[f"part {name}"] = (part + added).copy_transpose(order)
        total = total + scaled(added, search.scales[name])
    total = total.copy_transpose(order)
    hypotheses.scores = hypotheses.carried[search.scores_place] = hypotheses.kept["scores"] = total
