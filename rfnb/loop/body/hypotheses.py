"""The hypotheses of a search in the body of a loop: each choice makes new ones, which extend those before it.

`Beams` says which of them extend which, over all steps.

The hypotheses after a choice have a beam Dim of their own, so that a value from before the choice cannot be taken for
one from after it. At the end of a step, all that it carries follows its hypothesis, and has the first beam again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.advice.similar_dims import check_one_beam, mark_beam, mark_extended
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError
from rfnb.loop.ends import frozen_by_length
from rfnb.loop.step import frames_dim
from rfnb.ops.index import gather
from rfnb.ops.math import is_neg_infinite, where
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.backend.base.tape import Var
    from rfnb.core.graph.graph import Node
    from rfnb.loop.body.body import Body
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


@dataclass(frozen=True)
class Beams:
    """The beams in one step. dims: of the scores, the last of which is the beam that the states have. after: the dim of
    the hypotheses after each choice."""

    dims: tuple[Dim, ...]
    after: tuple[Dim, ...]

    def of(self, dims: Sequence[Dim]) -> Dim | None:
        """The beam among some dims."""
        return next((dim for dim in dims if dim is self.dims[-1] or dim in self.after), None)

    def final(self, dims: Sequence[Dim]) -> list[Dim]:
        """The dims of a value by final hypothesis."""
        return [self.dims[-1] if dim in self.after else dim for dim in dims]

    def places(self, beam: Dim, parents: Sequence[np.ndarray]) -> np.ndarray:
        """The place of each final hypothesis in a beam at each step. [steps, …, beam]

        parents: for each choice, which of the hypotheses before it each one after it extends, [steps, …, beam].
        """
        steps, shape = len(parents[0]), parents[-1].shape[1:]
        rows = np.arange(math.prod(shape[:-1]))[:, None]
        flat = [(parent.reshape(steps, -1), rows * parent.shape[-1]) for parent in parents]
        place = np.broadcast_to(np.arange(shape[-1]), (len(rows), shape[-1]))
        places = np.empty((steps, *place.shape), parents[0].dtype)
        for step in range(steps - 1, -1, -1):
            for after, (parent, offset) in zip(reversed(self.after), reversed(flat), strict=True):
                if after is beam:
                    places[step] = place
                place = parent[step].take(offset + place)
            if beam is self.dims[-1]:
                places[step] = place
        return places.reshape(steps, *shape)

    def along(self, parents: Sequence[np.ndarray], at: tuple[int, ...], place: int) -> dict[Dim, int]:
        """The position of one hypothesis along each beam of a step; along that of the states, which of its parent.

        parents: as for `places`. at: the step, and the position in the batch. place: in the beam after the step.
        """
        entries: dict[Dim, int] = {}
        for after, parent in zip(reversed(self.after), reversed(parents), strict=True):
            entries[after] = place
            place = int(parent[(*at, place)])
        return {**entries, self.dims[-1]: place}

    def resolved(
        self, backend: type[Backend], raw: RawTensor, like: Tensor, parents: Sequence[np.ndarray]
    ) -> RawTensor:
        """Stacked values in the order of the final hypotheses, instead of their places at each step.

        raw: [steps, …] with the dims of `like`, perhaps without the last steps of `parents`.
        """
        beam = self.of(like.dims)
        if beam is None or not parents:
            return raw
        steps = backend.get_shape_tuple_raw(raw)[0]
        frames, batch = frames_dim(steps), self.dims[:-1]
        places = backend.from_numpy_raw(self.places(beam, parents)[:steps], like.device)
        indices = tensor_of(places, align.sig([frames, *batch, self.dims[-1]]), EMPTY)
        rows = gather(tensor_of(raw, align.sig([frames, *like.dims]), EMPTY), indices=indices, axis=beam)
        return rows.copy_transpose([frames, *self.final(like.dims)])._raw


FirstNan = Callable[[int, Sequence[int], int], str | None]
"""Finds the op that made the first NaN of a hypothesis: by a step, its sequence along each dim, and its place."""


class Searched(NamedTuple):
    """What a search leaves behind. kept: the values that it keeps of each step, raw tensors [steps, …]. ended: which of
    the final hypotheses have ended; None if nothing ends them. size: how many labels of each count. limit: the
    most steps of each sequence, if that is known. first_nan: set if the steps are recorded. run: the recorded run."""

    kept: dict[str, RawTensor]
    ended: RawTensor
    size: Size
    include_eos: bool
    limit: Size | None
    first_nan: FirstNan | None = None
    run: Run | None = None


class Asked(NamedTuple):
    """A value of a step that is not kept: only replays of the step compute it. var: of the raw tensor."""

    var: Var
    sig: align.Sig
    lengths: Lengths


class SearchPlan(NamedTuple):
    """What a search keeps of each step. parents: those of each choice. kept: other values. found: makes the result.
    asked: what only replays compute."""

    beams: Beams
    parents: tuple[Var, ...]
    kept: dict[str, Var]
    found: Callable[[Searched], object]
    asked: dict[str, Asked]

    @property
    def vars(self) -> tuple[Var, ...]:
        """The Vars of all that is kept."""
        return (*self.parents, *self.kept.values())


def first_nan(replay: Replay, step: int, at: Sequence[int], place: int) -> str | None:
    """The op that made the first NaN of a hypothesis, with its step and line; None if no value of the body is NaN.

    Args:
        step: the step after which the score of the hypothesis is NaN.
        at: its sequence, along each dim of the batch. place: its place in the beam.
    """
    for number, position in enumerate(_path(replay, step, at, place)):
        for value, tensor in replay.computed(number):
            if value.node is not None and _has_nan(replay, tensor, position):
                return f"{_described(value.node, tensor.name)}, in step {number}"
    return None


def _path(replay: Replay, step: int, at: Sequence[int], place: int) -> list[dict[Dim, int]]:
    """Where a hypothesis is at each step up to `step`: its position along each dim of a batch, and in each beam."""
    search, path = replay.step.search, list[dict[Dim, int]]()
    assert search is not None
    beams = search.beams
    for number in range(step, -1, -1):
        positions = beams.along(replay.parents, (number, *at), place)
        path.append(dict(zip(beams.dims, at, strict=False)) | positions)
        place = positions[beams.dims[-1]]
    return path[::-1]


def _has_nan(replay: Replay, tensor: Tensor, position: dict[Dim, int]) -> bool:
    """Whether an entry of a hypothesis is NaN, other than padding."""
    if not tensor.dtype.startswith(("float", "bfloat", "complex")):
        return False
    values, mask = replay.backend.to_numpy_raw(tensor._raw), replay.backend.mask_for(tensor, tensor.dims)
    if mask is not None:
        values = np.where(np.broadcast_to(replay.backend.to_numpy_raw(mask), values.shape), values, 0)
    return bool(np.isnan(values[tuple(position.get(dim, slice(None)) for dim in tensor.dims)]).any())


def _described(node: Node, name: str) -> str:
    place = "" if node.source is None else f" at {node.source.place()}: `{node.source.text()}`"
    subject = f"the {node.kind} {name}" if node.kind in ("input", "state") else node.op
    return f"{subject}{place}"


_after: weakref.WeakKeyDictionary[Dim, dict[int, Dim]] = weakref.WeakKeyDictionary()


class BeamChoice(NamedTuple):
    """One choice. parents: which of the hypotheses `before` each one `after` extends, {…, after}. rows: the same as
    positions in the merged axes […, before]."""

    before: Dim
    after: Dim
    parents: Traced
    rows: Traced


class Hypotheses:
    """The choices of a body, and what follows from them for values of the body.

    beam: the dim of the hypotheses before the first choice, which the states have. dims: those of the scores.
    found: makes the result of the search.
    """

    def __init__(self, body: Body, beam: Dim, dims: Sequence[Dim], found: Callable[[Searched], object]):
        self.beam, self.dims = beam, tuple(dims)
        self.choices: list[BeamChoice] = []
        self.carried: dict[int, Traced] = {}  # the new values of what the search carries, by position
        self.scores: Traced  # of the newest hypotheses
        self.search: Any = None  # what the search knows of its steps
        self.at_ends: Callable[[Hypotheses, Traced], None] | None = None  # what the search adds where hypotheses end
        self.at_close: Callable[[Hypotheses, bool, bool], None] | None = None  # the same where the whole search ends
        self.found = found
        self.kept: dict[str, Traced] = {}  # the values that are kept of each step
        self.asked: dict[str, Traced] = {}  # those that replays compute of a step
        self.plan: SearchPlan | None = None  # set when the body is closed
        self.steps: list[RawTensor] = []  # what was kept of all steps, after the loop; in the order of `plan.vars`
        self._parents: list[np.ndarray] = []  # of each choice
        self._stacked: dict[str, RawTensor] = {}
        self._by_place: list[Tensor] = []  # stacked values that are not resolved
        self._at_the_end: dict[int, Traced] = {}  # by id of a value of the body: see `at_the_end`
        self._body = weakref.ref(body)  # the body holds this, and a cycle would keep tensors alive
        self._backend, self._recorder = body.backend, body.recorder
        self._recorder.check = check_one_beam
        mark_beam(beam)

    @property
    def newest(self) -> Dim:
        """The dim of the hypotheses after the last choice so far."""
        return self.choices[-1].after if self.choices else self.beam

    def dim_after(self, size: int) -> Dim:
        """A dim for the hypotheses after the next choice. The same each time, so that plans are found again."""
        sizes = _after.setdefault(self.newest, {})
        after = sizes.get(size)
        if after is None:
            after = sizes[size] = Dim(size, name=self.beam.name)
            mark_beam(after)
            mark_extended(self.newest, after)
        return after

    def has(self, value: object) -> bool:
        """Whether a value has one of the beams."""
        beams = {self.beam, *(choice.after for choice in self.choices)}
        return isinstance(value, Tensor) and not beams.isdisjoint(value.dims)

    def follow(self, value: Traced) -> Traced:
        """The value of the parents of the newest hypotheses."""
        for choice in self.choices:
            if choice.before in value.dims_set:
                value = self._of_parents(value, choice)
        return value

    def at_the_end(self, value: Any) -> Any:
        """The value in the order of the hypotheses after this step, over the beam of the states."""
        if not self.has(value):
            return value
        if id(value) not in self._at_the_end:
            self._at_the_end[id(value)] = self._in_final_order(value)
        return self._at_the_end[id(value)]

    def _in_final_order(self, value: Traced) -> Traced:
        value = self.follow(value)
        dims = [self.beam if dim is self.newest else dim for dim in value.dims]
        plain = value.plain
        renamed = align.sig(
            dims, plain.sparse_dim, self.beam if plain.feature_dim is self.newest else plain.feature_dim
        )
        return self._recorder._wrap(tensor_of(plain._raw, renamed, plain.lengths))

    def end(
        self, condition: Traced, before: Sequence[Traced], active: Traced | None, include_eos: bool
    ) -> tuple[Traced, Traced, Traced]:
        """Ends the hypotheses of the condition, and places of the beam without a hypothesis.

        before: which hypotheses had ended before this step, and their lengths. active: the sequences that take it.

        Returns, for the hypotheses after the step, which have ended, how many steps count, and whether this one does.
        """
        if self.at_ends is not None:
            self.at_ends(self, self.follow(condition))
        condition = self.at_the_end(condition)
        if not condition.dims_set <= set(self.dims):
            raise DimError(
                f"{self._recorder.name}: end needs one bool for each hypothesis",
                got=condition.describe_dims(),
                expected=", ".join(dim.name for dim in self.dims),
            )
        had, count, scores = map(self.at_the_end, (*before, self.scores))
        over, count, scores, ends = map(self._placed, (had, count, scores, condition))
        ends = self._backend.activation_raw(scores, "is_neg_infinite") | ends
        takes_step = None if active is None else self._placed(active)
        if takes_step is not None:  # after the limit of a sequence, nothing ends any more
            ends = ends & takes_step
        over_next = over | ends
        over = over if include_eos else over_next
        live = ~over if takes_step is None else self._backend.compare_raw(takes_step, "greater", over)
        wrapped = (tensor_of(raw, align.sig(self.dims), had.lengths) for raw in (over_next, count + live, live, ends))
        now, lengths, goes_on, self.kept["ends"] = map(self._recorder._wrap, wrapped)
        return now, lengths, goes_on

    def _placed(self, value: Traced) -> RawTensor:
        """The raw value with the axes of the scores, of size 1 for what it does not have."""
        if value.dims == self.dims[:-1]:
            return self._backend.expand_dims_raw(value.plain._raw, -1)  # quicker than an index with None
        return align.apply(align.move(value.dims, self.dims, trailing=False), value.plain._raw)

    def frozen(self, value: Traced, before: Traced, active: Tensor | None) -> Any:
        """A carried value, but the one that its parent had for hypotheses that have ended."""
        before = self.at_the_end(before)
        if active is None:
            body = self._body()
            assert body is not None
            return frozen_by_length(body, value, before)
        return where(active, value, before).copy_transpose(before.dims)

    def _of_parents(self, value: Traced, choice: BeamChoice) -> Any:
        """Entries along the beam of the parents; where the layout allows it, as rows of the merged leading axes."""
        leading = [choice.before if dim is choice.after else dim for dim in choice.parents.dims]
        plain, count = value.plain, len(leading)
        if list(plain.dims[:count]) != leading or plain.dims.index(choice.before) != count - 1:
            return gather(value, indices=choice.parents, axis=choice.before)
        if len(plain.dims) == count:
            raw = self._backend.gather_raw(plain._raw, choice.parents.plain._raw, count - 1, 1, False)
        else:
            raw = self._backend.merge_axes_raw(plain._raw, 0, count) if count > 1 else plain._raw
            raw = self._backend.index_raw(raw, choice.rows.plain._raw, 0)
        dims = [*choice.parents.dims, *plain.dims[count:]]
        feature = choice.after if plain.feature_dim is choice.before else plain.feature_dim
        return self._recorder._wrap(tensor_of(raw, align.sig(dims, plain.sparse_dim, feature), plain.lengths))

    # -- after the loop

    @property
    def beams(self) -> Beams:
        """The beams of a step, for all steps."""
        return Beams(self.dims, tuple(choice.after for choice in self.choices))

    def keep(self) -> None:
        """Finds the Vars of what is kept of each step; called when the body is closed."""
        body = self._body()
        assert body is not None
        if self.newest.dimension != self.beam.dimension:
            raise DimError(
                f"{self._recorder.name}: the last choice of a step has another number of hypotheses than the states",
                got=f"beam_size={self.newest.dimension}",
                expected=f"beam_size={self.beam.dimension}, the size of {self.beam.name}",
                hint=f"leave out beam_size, or: {self.beam.name} = rf.Dim({self.newest.dimension}, …)",
            )
        parents = tuple(body.var(choice.parents.plain) for choice in self.choices)
        variables = {name: body.var(traced.plain) for name, traced in self.kept.items()}
        self._at_the_end.clear()
        questions = {name: Asked(body.var(x.plain), x.plain.sig, x.plain.lengths) for name, x in self.asked.items()}
        self.plan = SearchPlan(self.beams, parents, variables, self.found, questions)

    def take(self, outputs: Sequence[Sequence[object]]) -> None:
        """Takes what was kept of the steps, in the order of `plan.vars`."""
        stacked = self.steps = [self._backend.stack_raw(values) for values in outputs]
        count = len(self.choices)
        self._parents = [self._backend.to_numpy_raw(raw) for raw in stacked[:count]]
        self._stacked = dict(zip(self.kept, stacked[count:], strict=True))

    def searched(
        self, ended: object, size: Size, include_eos: bool, limit: Size, first_nan: FirstNan | None, run: Run | None
    ) -> Any:
        """The result of the search."""
        return self.found(Searched(self._stacked, ended, size, include_eos, limit, first_nan, run))

    def stacked(self, traced: Traced, pending: Tensor, resolve: bool) -> list[Dim]:
        """The dims of the values of all steps, without their axis."""
        if resolve:
            return self.beams.final(traced.dims)
        self._by_place.append(pending)
        return [self.beam if dim is self.newest else dim for dim in traced.dims]

    def of_final(self, x: Tensor, live: np.ndarray | None, step: int) -> tuple[Tensor, np.ndarray | None]:
        """A value of a step, and which of its entries count, by final hypothesis; places without one do not count."""
        beam = self.beams.of(x.dims)
        if beam is None or not self._parents:
            return x, live
        count = self._backend.get_shape_tuple_raw(x._raw)
        live = np.broadcast_to(True if live is None else live, count)
        places = self._backend.from_numpy_raw(self.beams.places(beam, self._parents)[step], x.device)
        indices, dims = tensor_of(places, align.sig(self.dims), EMPTY), self.beams.final(x.dims)
        mask = tensor_of(self._backend.from_numpy_raw(live.copy(), x.device), align.sig(x.dims), x.lengths)
        values, counts = (gather(tensor, indices=indices, axis=beam).copy_transpose(dims) for tensor in (x, mask))
        dead = tensor_of(self._stacked["scores"][-1], align.sig(self.dims), EMPTY)
        counts = where(is_neg_infinite(dead), False, counts).copy_transpose(dims)
        return values, self._backend.to_numpy_raw(counts._raw)

    def resolved(self, raw: object, traced: Traced, pending: Tensor) -> RawTensor:
        """A stacked output in the order of the final hypotheses instead of their places at each step."""
        if any(pending is value for value in self._by_place):
            return raw
        return self.beams.resolved(self._backend, raw, traced.plain, self._parents)
