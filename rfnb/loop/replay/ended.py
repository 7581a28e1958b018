"""When and why the sequences of a recorded loop ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.lengths import Size
from rfnb.loop.step import place_of

if TYPE_CHECKING:
    from rfnb.loop.replay.replay import Replay


def begun(replay: Replay) -> Size:
    """Number of steps that each sequence started: the largest among its hypotheses, as these change places.

    This includes the step at which `end` was true, even if it does not count (`include_eos=False`), and a step that
    failed.
    """
    size, plan = replay.size, replay.plan
    values = size.values
    if plan.ends and not plan.include_eos and values.shape == _ended(replay).shape:
        values = np.minimum(values + (_ended(replay) & (values < _limits(replay))), replay.steps)
    if replay.failed is not None and replay.failed.step == replay.steps:
        values = values + ((values == replay.steps) & (values < _limits(replay)))
    owner, _ = replay.sequences
    axes = tuple(i for i, dim in enumerate(size.dims) if dim is not owner)
    return Size([dim for dim in size.dims if dim is owner], values.max(axis=axes, initial=0))


def reasons(replay: Replay) -> list[str]:
    """Why each sequence ended, in words; a single reason if all end together."""
    return [_reason(replay, i, int(n)) for i, n in enumerate(_taken(replay).reshape(-1))]


def _taken(replay: Replay) -> np.ndarray:
    return _of_sequences(replay, replay.size.values, np.max)


def _of_sequences(replay: Replay, values: np.ndarray, over: Callable[..., Any]) -> np.ndarray:
    """Values that hypotheses have, such as how many steps each took, as values of their sequences."""
    owner, _ = replay.sequences
    axes = tuple(i for i, dim in enumerate(replay.size.dims) if dim is not owner)
    return np.asarray(over(values, axis=axes))


def _reason(replay: Replay, i: int, taken: int) -> str:
    plan, limit = replay.plan, int(_of(replay, _limits(replay), i))
    if plan.ends and _ended_by_end(replay, i, taken, limit):
        return f"ended at {taken - plan.include_eos}: end was true"
    if taken < limit:
        return f"failed at {taken}" if replay.failed is not None else f"stopped after {taken} steps"
    by_frames = plan.frames_size is not None and int(_of(replay, _over(replay, plan.frames_size), i)) <= limit
    return f"length {taken} reached" if by_frames else f"max steps ({taken})"


def _ended_by_end(replay: Replay, i: int, taken: int, limit: int) -> bool:
    """Whether `end` was true for sequence `i` at its last step. After its frames it may be true by chance."""
    if taken < limit:
        return bool(_of(replay, _ended(replay), i, np.all))
    if not (replay.plan.include_eos and taken and replay.keeps(taken)):
        return False
    return bool(_of(replay, _ended_of(replay, replay.states_before(taken)), i, np.all))


def _of(replay: Replay, values: np.ndarray, i: int, over: Callable[..., Any] = np.max) -> Any:
    return _of_sequences(replay, values, over).reshape(-1)[i]


def _ended(replay: Replay) -> np.ndarray:
    return _ended_of(replay, replay.final)


def _ended_of(replay: Replay, carried: Sequence[Any]) -> np.ndarray:
    """Which sequences, or hypotheses, had ended, according to these carried values."""
    place = place_of(replay.plan.carried, "ended")
    assert place is not None
    mask: np.ndarray = replay.backend.to_numpy_raw(carried[place])
    return mask


def _limits(replay: Replay) -> np.ndarray:
    """The largest number of steps that each sequence could take."""
    size = replay.plan.limit
    return np.full(replay.size.values.shape, replay.steps) if size is None else _over(replay, size)


def _over(replay: Replay, size: Size) -> np.ndarray:
    """A size broadcast to the dims of `replay.size`."""
    mask: np.ndarray = np.broadcast_to(size.over(replay.size.dims), replay.size.values.shape)
    return mask
