"""Where the time of a loop goes: its steps run again, each call timed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from rfnb.core.graph.meter import Sample
from rfnb.core.ground.scope import metering
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guarded
from rfnb.errors import LoopError, ParameterError
from rfnb.loop.replay.replay import Replay
from rfnb.loop.step import execute, replaying
from rfnb.loop.steps.explain import Explanation, OpTime, Profile
from rfnb.trace.graph.meters import TimeMeter, call_cost

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


@guarded
def profile(run: Run, *, calls: int = 5) -> Explanation:
    """Where the time of a recorded loop goes: `run.explain()` with the time of each op, which its view shows by line.

    The steps run again from what was recorded, `calls` times, without gradients and effects, each raw call timed; what
    the timing takes is taken off. The ops outside of the steps were timed once, when the loop ran.

    >>> time = rf.Dim(50, name="time")
    >>> x = rf.ones([time])
    >>> loop = rf.Loop(axis=time, name="adding", debug=True)
    >>> loop.state.s = rf.zeros([])
    >>> with loop:
    ...     loop.state.s = loop.state.s + rf.exp(loop.unstack(x))
    >>> found = rf.profile(loop.run)
    >>> found.profile.steps, [(row.node.op, row.time.calls) for row in found.rows]
    (50, [('exp', 1), ('add', 50)])

    Args:
        run: the run of a loop: `loop.run` or `rf.runs["decoder"]`.
        calls: how often all steps run; the times are medians.

    Raises LoopError for a run from a file, whose steps cannot run again, and ParameterError if `calls` is not positive.
    """
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise ParameterError("profile: `calls` must be positive", got=repr(calls), expected="1, 2, 3, …")
    replay = getattr(run, "replay", None)
    if not isinstance(replay, Replay):
        raise LoopError(
            "profile: only the steps of a run of this session can run again",
            got=f"a run from a file: {run.name}" if hasattr(run, "name") else type(run).__name__,
            expected="loop.run, or an entry of rf.runs",
        )
    cost = call_cost()
    meters = [TimeMeter(call=cost) for _ in range(calls + 1)]
    seconds = [_run(replay, meter) for meter in meters][1:]
    plain = median([_run(replay, None) for _ in range(calls)])
    data = replay.step.explanation_data
    timed = _times(meters[1:])
    steps = replay.steps - replay.start
    result = Profile(
        steps, calls, median(s - m.lost for s, m in zip(seconds, meters[1:], strict=True)),
        median(m.lost for m in meters[1:]), plain, meters[0].device, timed,
    )  # fmt: skip
    return Explanation(replay.step.name, data, result)


def _run(replay: Replay, meter: TimeMeter | None) -> float:
    """Runs all steps of the recording; returns the seconds."""
    wait = replay.backend.synchronize
    with metering(meter), replaying(), listening(None), replay.backend.modes(replay.modes, gradients=False):
        states = replay.states_before(replay.start)
        wait()
        began = perf_counter()
        execute(replay.step, replay.bindings, states, record=False, start=replay.start)
        wait()
        return perf_counter() - began


def _times(meters: Sequence[TimeMeter]) -> dict[int, OpTime]:
    """The time of each node of the body, by its id; of an op, with the calls that it consists of."""
    times: dict[int, OpTime] = {}
    for key in meters[0].samples:
        samples: list[Sample] = [meter.samples[key] for meter in meters if key in meter.samples]
        times[key] = OpTime(median(sample.amount for sample in samples), max(sample.calls for sample in samples))
    return times
