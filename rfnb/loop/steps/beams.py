"""The beams of a search: which of the hypotheses after a choice extend which before it, over all steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.loop.step import frames_dim
from rfnb.ops.index import gather

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.backend.base.tape import Var
    from rfnb.core.graph.graph import Node
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
                place = parent[step][offset + place]
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

    def resolved(self, backend: type[Backend], raw: RawTensor, like: Tensor, parents: Sequence[np.ndarray]) -> Any:
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

    kept: dict[str, Any]
    ended: Any
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
    found: Callable[[Searched], Any]
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
    for number, where in enumerate(_path(replay, step, at, place)):
        for value, tensor in replay.computed(number):
            if value.node is not None and _has_nan(replay, tensor, where):
                return f"{_described(value.node, tensor.name)}, in step {number}"
    return None


def _path(replay: Replay, step: int, at: Sequence[int], place: int) -> list[dict[Dim, int]]:
    """Where a hypothesis is at each step up to `step`: its position along each dim of a batch, and in each beam."""
    search, path = replay.step.search, list[dict[Dim, int]]()
    assert search is not None
    beams = search.beams
    for number in range(step, -1, -1):
        where = dict(zip(beams.dims, at, strict=False))
        for after, parents in zip(reversed(beams.after), reversed(replay.parents), strict=True):
            where[after] = place
            place = int(parents[number][(*at, place)])
        where[beams.dims[-1]] = place
        path.append(where)
    return path[::-1]


def _has_nan(replay: Replay, tensor: Tensor, where: dict[Dim, int]) -> bool:
    """Whether an entry of a hypothesis is NaN, other than padding."""
    if not tensor.dtype.startswith(("float", "bfloat", "complex")):
        return False
    values, mask = replay.backend.to_numpy_raw(tensor._raw), replay.backend.mask_for(tensor, tensor.dims)
    if mask is not None:
        values = np.where(np.broadcast_to(replay.backend.to_numpy_raw(mask), values.shape), values, 0)
    return bool(np.isnan(values[tuple(where.get(dim, slice(None)) for dim in tensor.dims)]).any())


def _described(node: Node, name: str) -> str:
    place = "" if node.source is None else f" at {node.source.place()}: `{node.source.text()}`"
    subject = f"the {node.kind} {name}" if node.kind in ("input", "state") else node.op
    return f"{subject}{place}"
