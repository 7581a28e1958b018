"""Runs a traced step for all steps of its loop: pauses it, gives the results their final values, warns of mistakes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import Call, Var, opaque, untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node, all_nodes
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.source import PerPlace, frame_of
from rfnb.core.tensor.listener import listening, running_loop
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import LoopError, LoopWarning
from rfnb.loop.body.body import judged, loop_record
from rfnb.loop.body.hypotheses import first_nan
from rfnb.loop.ends import at_the_end, steps_taken
from rfnb.loop.program import with_attributes
from rfnb.loop.replay.fork import apply_edits, edits_of, sizes
from rfnb.loop.replay.replay import Replay, completed, probed, recorded_step
from rfnb.loop.step import (
    Bindings,
    Carried,
    Outcome,
    Pace,
    StateHistory,
    StepNumber,
    TracedStep,
    current_inspection,
    execute,
    inspecting,
    place_of,
)
from rfnb.loop.steps.explain import ExplanationData, OpPlacement, note_step
from rfnb.loop.steps.hoist import DeferredGradients, Hoist
from rfnb.printable import terminal_text
from rfnb.trace.pause import Paused, Resume, hold, pauses
from rfnb.trace.record.traced import Traced
from rfnb.trace.run import session
from rfnb.trace.run.failure import Failure, failure
from rfnb.trace.run.job import JOB
from rfnb.trace.run.stretches import Stretches

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.loop.loop import Loop
    from rfnb.loop.step import Step
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import Only


class BodyRun:
    """The phases from the traced step to its results: judge, hoist, run, settle, record.

    failed: the node of the error that a step raised. forgets: whether the step is of no use afterwards.
    """

    def __init__(self, loop: Loop, step: TracedStep, forgets: bool = True):
        self.loop, self.step, self._forgets = loop, step, forgets
        self.failed: Node | None = None

    def run(self) -> None:
        """Runs all steps and settles the results. An error in a step is raised with its step and line."""
        loop, step = self.loop, self.step
        try:
            judge(step)
            with running_loop():
                run = self._run_inside if step.outer is not None else self._run_outside
                results = run() if isinstance(step.limit.max, int) else self._run_traced()
            size = settle(loop, step, results)
            session.draw(partial(loop_record, loop, step, size=size))
        except BaseException:
            self._restore()
            raise
        if self._forgets:
            step.recorder.forget()

    def _restore(self) -> None:
        """Restores the loop, and all outside values that its steps have changed."""
        session.draw(partial(loop_record, self.loop, self.step, error=True, failed=self.failed))
        with untaped():
            self.step.tape.restore(self.step.backend.overwrite_raw)
        self.loop.state._values = self.step.originals
        if self._forgets:
            self.step.recorder.forget()

    # -- a loop that is not nested

    def _frames(self, read: frozenset[RawTensor] | None = None) -> list[Sequence[RawTensor]]:
        """The frames of all steps; if `read` is given, only of the Vars in it."""
        backend, limit = self.step.backend, self.step.limit
        with listening(None):
            return [
                frame.kind.frames(backend, frame.source, limit) if read is None or frame.var in read else ()
                for frame in self.step.frames
            ]

    def _run_outside(self) -> Results:
        loop, step = self.loop, self.step
        record, program, schedule = step.recorder.recorded, step.program, step.schedule
        hoist = None if loop.optimize_move_layers_out is False else Hoist(step)
        stacked_frames: dict[Var, object] = {}
        if hoist is not None:
            constants, stacked_frames = hoist.before(record=record)
            program.supply(constants, list(stacked_frames))
        outputs = schedule.outputs if hoist is None else tuple(hoist.step_outputs)
        search_vars = () if step.search is None else step.search.vars
        states = (schedule.new[place] for place in step.unfrozen)
        schedule = with_attributes(schedule, outputs=(*outputs, *search_vars, *states))
        program.join(step.backend, step.tape.values, [*schedule.new, *schedule.kept, *schedule.outputs])
        deferred = DeferredGradients(step, schedule, stacked_frames)
        if hoist is not None:
            deferred.defer()
        results = [*deferred.schedule.new, *deferred.schedule.kept, *deferred.schedule.outputs]
        frames = [*self._frames(None if record else deferred.program.reads(results)), *deferred.frames()]
        loop._explanation_data = _explanation_data(step, hoist)
        progress, waits = session.progress(step.name, step.limit.max), record and not session.is_drawing()
        seed = int(step.seed or 0)
        call, loop._call = loop._call, None
        pauses, written, stores = None, None, record and session.should_store(loop.debug)
        if record:
            own_frames = frames[: len(program.inputs) - len(schedule.states)]
            bindings = Bindings(own_frames, program.externals, seed, step.limit, step.frames_size, call=call)
            in_files = JOB in os.environ and waits and stores and step.hypotheses is None
            written = Stretches(AT_FIRST) if in_files else None
            pauses = LoopPauses(step, lambda: recorded_step(step, _explanation_data(step, hoist)), bindings, written)
        outcome = execute(
            deferred, Bindings(frames, deferred.program.externals, seed, step.limit, step.frames_size), _initial(step),
            record=record, progress=progress, pause=pauses if waits else None, measured=step.recorder.measured,
            recompute=loop.recompute,
        )  # fmt: skip
        deferred.collect(outcome)
        _take_ends(step, outcome)
        _take_choices(step, outcome)
        for watcher in step.watchers:
            watcher.finish(failed=outcome.error is not None)
        if progress is not None:
            progress(step.limit.max)  # complete, even if the loop ended early
        try:
            final, stacked = self._results(outcome, hoist)
        except BaseException as error:
            outcome.failure = outcome.failure or _failure_after(error, hoist, step, outcome)
            self.failed = self.failed or (hoist.failed[1] if hoist is not None and hoist.failed is not None else None)
            raise
        finally:
            if pauses is not None:
                loop.run = pauses.completed(outcome, [] if step.hypotheses is None else step.hypotheses.steps)
                if pauses.has_paused or stores:
                    session.store(loop.run, wanted=pauses.has_paused or session.is_wanted(loop.debug))
                if written is not None:
                    written.end()
        warn_of_end(step, outcome)
        return Results(*probed(loop.run, final, stacked), run=loop.run) if record else Results(final, stacked)

    def _results(self, outcome: Outcome, hoist: Hoist | None) -> tuple[Sequence[object], Sequence[object]]:
        """The final carried values and the outputs. Ops that only outputs depend on run here, after the steps."""
        step = self.step
        if outcome.error is not None:
            raise self._located(outcome)
        if hoist is not None and outcome.steps:
            outputs = [step.backend.stack_raw(rows) for rows in outcome.outputs]
            moves = step.reordered or step.hypotheses is not None
            taken = partial(steps_taken, step, step.limit, outcome.states)
            stacked = hoist.after(outputs, outcome.steps, (lambda: step.limit) if moves else taken)
        else:
            stacked = _stacked(step, outcome.outputs if outcome.steps else [[] for _ in step.outputs])
        if not outcome.steps:
            outcome.states, stacked = tuple(reaching(step, outcome.states)), reaching(step, stacked)
        return outcome.states, stacked

    def _located(self, outcome: Outcome) -> BaseException:
        """The error of a step, with its step and line added as a note."""
        error, position = outcome.error, outcome.failed_call
        assert error is not None
        self.failed = None if position is None else self.step.program.calls[position].node
        note_step(error, outcome.steps, self.step.name, self.failed)
        outcome.failure = failure(error, outcome.steps, self.failed, position)
        outcome.error = None  # its traceback refers to the outcome: avoids a reference cycle
        return error

    def _run_traced(self) -> Results:
        """Runs all steps as one call of a graph that torch traces, because their number is not known yet."""
        step, backend, limit = self.step, self.step.backend, self.step.limit
        program, schedule = step.program, step.schedule
        counted = step.ends and (step.outputs or step.unfrozen)  # else all steps run, and ended sequences keep states
        cause = "stacks what ends by a condition" if counted else "is a search" if step.hypotheses is not None else None
        cause = "is inside of another loop" if step.outer is not None else cause
        cause = "draws random numbers" if program.stream_devices else cause
        if cause is not None or step.gives_size:
            raise LoopError(
                f"to_torch: the model is traced, but has a loop that {cause or 'has no frames'}",
                expected="a loop over frames, as one call of torch's scan; with `loop.end`, one that only has states",
                hint="compile only parts without it: rf.from_torch(torch.compile(rf.to_torch(part, in_dims=…)), …, "
                'lengths="lengths")',
            )
        frames = [frame.kind.all_frames(backend, frame.source, limit, limit.max) for frame in step.frames]
        frames.append(StepNumber().all_frames(backend, None, limit, limit.max))  # torch needs one
        program = program.copy()
        raws = iter(backend.apart_raw([*program.externals, *program.constants.values()]))
        externals = [next(raws) for _ in program.externals]
        program.constants = dict(zip(program.constants, raws, strict=True))
        targets = [*schedule.kept, *schedule.outputs]
        compiled = program.compile(targets, lambda *_: None, externals, effects=False, once=False)
        count = len(step.carried)

        def one_step(
            states: Sequence[RawTensor], values: Sequence[RawTensor]
        ) -> tuple[list[RawTensor], list[RawTensor]]:
            results = compiled.run(0, *states, *values[:-1])
            return list(results[:count]), list(results[count:])

        return Results(*backend.scan_raw(one_step, _initial(step), frames))

    # -- a nested loop

    def _run_inside(self) -> Results:
        """Records the loop as one call on the tape of the loop around it."""
        step, frames, recompute = self.step, self._frames(), self.loop.recompute
        structure = [_initial(step), frames, step.program.externals, [step.seed]]
        recorded = recorded_step(step, None) if step.recorder.recorded else None

        def run(*flat: RawTensor) -> list[RawTensor]:
            values = iter(flat)
            initial, all_frames, externals, [seed] = map_leaves(lambda leaf: next(values), structure)
            inspection = current_inspection()
            runs = None if inspection is None or recorded is None else inspection.runs
            bindings = Bindings(all_frames, externals, int(seed), step.limit, step.frames_size)
            with listening(None), inspecting(None):
                outcome = execute(step, bindings, initial, record=runs is not None, recompute=recompute)
            for watcher in step.watchers:
                watcher.finish(failed=outcome.error is not None)
            error = None if outcome.error is None else self._located(outcome)
            if runs is not None and recorded is not None:
                runs.append(Replay(recorded, outcome, bindings).run())
            if error is not None:
                raise error
            return [*outcome.states, *_stacked(step, outcome.outputs)]

        results = opaque(run, *leaves(structure))
        assert step.outer is not None
        count = len(step.carried)
        return Results(results[:count], results[count:], len(step.outer.tape.calls) - 1)


def _take_ends(step: TracedStep, outcome: Outcome) -> None:
    """Gives the states that were not frozen their values from the steps in which their sequences end."""
    count = len(outcome.outputs) - len(step.unfrozen)
    after_each = outcome.outputs[count:]
    del outcome.outputs[count:]
    if outcome.error is None and outcome.steps:
        ends = {
            place: at_the_end(step.backend, step.carried[place], step.limit, states)
            for place, states in zip(step.unfrozen, after_each, strict=True)
        }
        outcome.states = tuple(ends.get(place, state) for place, state in enumerate(outcome.states))


def _take_choices(step: TracedStep, outcome: Outcome) -> None:
    """Gives a search what was kept of the steps."""
    if step.hypotheses is None or step.search is None:
        return
    count = len(outcome.outputs) - len(step.search.vars)
    choices = outcome.outputs[count:]
    del outcome.outputs[count:]
    if outcome.error is None and outcome.steps:
        step.hypotheses.take(choices)


def _initial(step: TracedStep) -> list[RawTensor]:
    return [carry.initial for carry in step.carried]


def _stacked(step: TracedStep, columns: Sequence[list[RawTensor]]) -> list[RawTensor]:
    """Stacks each output over all steps; without steps, an empty tensor of its shape."""
    backend = step.backend

    def stack(values: list[RawTensor], traced: Traced) -> RawTensor:
        if values:
            return backend.stack_raw(values)
        shape = backend.get_shape_tuple_raw(traced.plain._raw)
        return backend.full_raw([0, *shape], 0, traced.dtype, traced.device)

    return [stack(values, traced) for values, (traced, _) in zip(columns, step.outputs, strict=True)]


def _failure_after(error: BaseException, hoist: Hoist | None, step: TracedStep, outcome: Outcome) -> Failure:
    """The failure of an op that runs after the steps."""
    if hoist is None or hoist.failed is None:
        return failure(error, max(outcome.steps - 1, 0), None, None)
    number, node = hoist.failed
    nodes = set(map(id, all_nodes([node])))
    position = next((i for i, call in enumerate(step.program.calls) if id(call.node) in nodes), None)
    return failure(error, number, node, position)


# -- where the ops ran


def _explanation_data(step: TracedStep, hoist: Hoist | None) -> ExplanationData:
    placements = [*_loops_inside(step.program.calls), *(_in_steps(step) if hoist is None else hoist.placements())]
    states = [state for state in step.carried if state.kind == "state"]
    names = [state.name for state in states]
    return ExplanationData(placements, step.recorder.graph, [state.var for state in states], names, step.source)


def _in_steps(step: TracedStep) -> list[OpPlacement]:
    none, why = frozenset[Var](), "optimize_move_layers_out=False"
    return [OpPlacement(c.node, c.row, none, none, "steps", why) for c in step.recorder.op_calls[: step.own_ops]]


def _loops_inside(calls: Sequence[Call]) -> list[OpPlacement]:
    loops = [call for call in calls if call.node is not None and call.node.kind == "loop"]
    return [
        OpPlacement(
            call.node, _LOOP, frozenset(map(Var, call.read_vars)),
            frozenset(Var(number) for number in call.made), "steps", "a nested loop",
        )
        for call in loops
    ]  # fmt: skip


_LOOP = OpRow("Loop", BodyRun)
"""Stands for the row of a nested loop, which is a call without one."""


# -- the results


class Results(NamedTuple):
    """The results of all steps, as raw tensors.

    final: the carried values after the last step. stacked: the outputs, [steps, …]. position: for a nested loop, the
    position of its call on the tape of the loop around it. run: the recorded run, if there is one.
    """

    final: Sequence[RawTensor]
    stacked: Sequence[RawTensor]
    position: int = 0
    run: Run | None = None


def settle(loop: Loop, step: TracedStep, results: Results) -> Size:
    """Gives states and outputs their final values, and returns the number of steps of each sequence."""
    final = [_final(carry, raw) for carry, raw in zip(step.carried, results.final, strict=True)]
    size = _steps_taken(loop, step, final)
    outputs = [
        _output(
            step, pair, (raw if step.hypotheses is None else step.hypotheses.resolved(raw, *pair))[: size.max], size
        )
        for pair, raw in zip(step.outputs, results.stacked, strict=True)
    ]
    for place in step.last_places:
        _refuse_empty(step, step.carried[place], size)
    if step.tape.gradient_watchers:
        _watch_gradients(step, (*final, *outputs))
    loop.found = None if step.hypotheses is None else _found(step, step.hypotheses, final, size, results.run)
    final = _with_final_dims(step, final, size)
    if step.outer is not None:
        final, outputs = _in_outer_body(step, step.outer, final, outputs, results.position)
    for result, (_, pending) in zip(outputs, step.outputs, strict=True):
        pending.settle(result)
    for place, (_, pending) in zip(step.last_places, step.lasts, strict=True):
        pending.settle(final[place])
    by_name = {carry.name: value for carry, value in zip(step.carried, final, strict=True) if carry.kind == "state"}
    loop.state._replace([by_name[name] for name, _ in loop.state._leaves()])
    return size


def _watch_gradients(step: TracedStep, results: Sequence[object]) -> None:
    """Lets the functions of ops in the body see gradients of the results: its frame has none."""
    if step.outer is not None:
        step.outer.tape.gradient_watchers.update(step.tape.gradient_watchers)
        return
    for result, see in product(results, step.tape.gradient_watchers.values()):
        if isinstance(result, Tensor):
            step.backend.watch_gradient_raw(result._raw, see)


def _final(carried: Carried, raw: RawTensor) -> Any:
    old = carried.before
    return raw if isinstance(old, Dim) else tensor_of(raw, old.sig, old.lengths)


def _output(step: TracedStep, pair: tuple[Traced, Tensor], raw: RawTensor, size: Size) -> Tensor:
    traced, pending = pair
    lengths = traced.lengths
    if (extent := lengths.size(step.axis)) is None or not extent.agrees(size):
        lengths = lengths.bind({step.axis: size})
    return tensor_of(raw, pending.sig, lengths)


def _found(step: TracedStep, hypotheses: Hypotheses, final: Sequence[Any], size: Size, run: Run | None) -> object:
    """The result of a search."""
    place = place_of(step.carried, "ended")
    ended, nan_finder = None if place is None else final[place]._raw, None
    if step.recorder.recorded and run is not None and isinstance(run.replay, Replay):
        nan_finder = partial(first_nan, run.replay)
    return hypotheses.searched(ended, size, step.include_eos, step.limit, nan_finder, run)


def _in_outer_body(
    step: TracedStep, outer: Any, final: list[object], outputs: list[Tensor], position: int
) -> tuple[list[Any], list[Tensor]]:
    """Final values and outputs as values of the outer body, except those that the loop itself carries."""
    names = {place: carry.name for place, carry in enumerate(step.carried) if carry.kind == "state"}
    for place, (_, pending) in zip(step.last_places, step.lasts, strict=True):
        names[place] = names[place] if step.carried[place].kind == "state" else pending.name
    places = [place for place in names if isinstance(final[place], Tensor)]
    named = [(names[place], final[place]) for place in places]
    named += [(pending.name, output) for output, (_, pending) in zip(outputs, step.outputs, strict=True)]
    results = outer.inner_loop(step.recorder, named, position)
    values = dict(zip(places, results, strict=False))
    return [values.get(place, value) for place, value in enumerate(final)], results[len(places) :]


def _with_final_dims(step: TracedStep, values: list[Any], steps: Size) -> list[Any]:
    """The final values, with each grown dim replaced by a Dim of its final size."""
    grown = {
        carry.before: _grown(carry.before, carry.initial, size, steps)
        for carry, size in zip(step.carried, values, strict=True)
        if isinstance(carry.before, Dim)
    }

    def with_dims(old: Any, value: Any) -> object:
        if isinstance(old, Dim):
            return grown[old]
        dims = [grown.get(dim, dim) for dim in old.dims]
        sizes = {dim: dim.size for old_dim, dim in grown.items() if old_dim in old.dims and dim.dimension is None}
        lengths = value.lengths.bind(sizes) if sizes else value.lengths
        return tensor_of(value._raw, align.sig(dims, old.sparse_dim, old.sig.feature_dim), lengths)

    return [
        with_dims(carry.before, value) if grown and carry.kind == "state" else value
        for carry, value in zip(step.carried, values, strict=True)
    ]


def _grown(old: Dim, start: int, size: int, steps: Size) -> Dim:
    """The grown axis after the loop. If it grew by one at each step, each sequence has as many entries as steps."""
    if steps.ragged and size - start == steps.max:
        dim = Dim(None, name=old.name)
        dim.bind(Size(steps.dims, start + steps.values))
        return dim
    return Dim(size, name=old.name)


def _steps_taken(loop: Loop, step: TracedStep, final: list[object]) -> Size:
    """The number of steps of each sequence. Also sets the size of the axis, unless it is an axis of the data."""
    if step.ends and (step.outer is not None or not isinstance(step.limit.max, int)):
        return step.limit  # nothing is stacked
    size = steps_taken(step, step.limit, [value._raw if isinstance(value, Tensor) else value for value in final])
    loop.axis = step.axis
    if step.gives_size:
        step.axis.define(size, by=f"loop {step.name}", by_loop=True)
    return size


def _refuse_empty(step: TracedStep, carried: Carried, size: Size) -> None:
    in_search = step.hypotheses is not None and step.hypotheses.has(carried.before)
    if carried.starts_empty and not in_search and size.values.size and size.values.min() == 0:
        raise LoopError(
            f"{step.name}: last: a sequence without steps has no last value",
            got=f"lengths {size}",
            hint="make it a state: a sequence without steps then gives its initial value",
        )


def reaching(step: TracedStep, results: Sequence[RawTensor]) -> list[object]:
    """The results, connected so that a gradient of 0 reaches all tensors that the steps would have read.

    All parameters then have a gradient, which distributed training waits for in every process.
    """
    backend = step.backend
    raws = [*step.tape.externals, *(source._raw for source, _ in step.unstacked)]
    sources = [raw for raw in raws if backend.needs_gradient_raw(raw)]
    if not sources:
        return list(results)
    return [raw if isinstance(raw, int | None) else backend.reaching_raw(raw, sources) for raw in results]


# -- pauses

AT_FIRST = -0.025
"""The seconds that files of the steps may take at first: a loop that is over within half a second has none."""


class LoopPauses:
    """Where one execution of a loop pauses. Its Run has the steps so far, and is that of the loop when it has ended.

    Args:
        step: the traced step of the loop.
        recorded, bindings: of the run. The recorded step is made when it is needed.
        written: the files of the newest steps, in a job.
    """

    def __init__(
        self, step: TracedStep, recorded: Callable[[], Step], bindings: Bindings, written: Stretches | None = None
    ):
        self._written, self._pace = written, Pace(0.005, 0.02)
        self.name, self.lines = step.name, step.pauses
        self.run: Run | None = None  # from the first step on that had to be looked at
        self.has_paused = False
        self._recorded, self._bindings = recorded, bindings
        self._resume = Resume()
        self._off = False

    def most_steps(self) -> int:
        """After how many steps the loop has to be looked at."""
        resume, looks = self._resume, not (self._off or pauses.muted)
        if looks and (self.lines or resume.until is not None or resume.tests or pauses.of(self.name)):
            return 1
        return 0 if self._written is None else self._pace.steps

    def after_steps(self, outcome: Outcome) -> None:
        """Holds the loop if there is a reason. Raises KeyboardInterrupt if the user stops the cell."""
        if self._written is not None:
            with listening(None):
                self._written.after_step(outcome.steps, partial(self._run_from, outcome))
            self._pace.next()
        if self._off or pauses.muted:
            return
        why = self._reason(outcome)
        if why is None:
            return
        run, step = self._until_now(outcome), outcome.steps - 1
        line = self.lines[0].line if self.lines else None
        paused = Paused(run, step, why, partial(self._edit, outcome), line, sizes(self._replay))
        with listening(None):
            resume = hold(paused)
        self.has_paused = self.has_paused or resume is not None
        self._resume, self._off = resume or Resume(), resume is None

    def _reason(self, outcome: Outcome) -> str | None:
        answer, step = pauses.answer(), outcome.steps - 1
        if answer is not None:
            return answer
        until = self._resume.until
        if until is not None and step >= until:
            return self._resume.why
        if self.lines:
            return f"rf.pause() in {self.lines[0].place()}"
        waiting = pauses.of(self.name)
        if not waiting and not self._resume.tests:
            return None
        with listening(None):
            at = self._until_now(outcome)[step]
            for pause in waiting:
                if pause.holds(at):
                    return pause.words
            if any(condition.holds(at) for condition in self._resume.conditions):
                return self._resume.why
        return None

    def _run_from(self, outcome: Outcome, step: int) -> Run:
        """A run of the steps from one on."""
        self._until_now(outcome)
        return self._replay.since(step).run()

    def _until_now(self, outcome: Outcome) -> Run:
        """The run with the steps that are done."""
        if self.run is None:
            self._replay = Replay(self._recorded(), outcome, self._bindings)
            self._replay.goes_on = True
            self.run = self._replay.run()
        elif self.run.steps != outcome.steps:
            self._replay.advance(outcome)
            self.run._take(self._replay, outcome.steps, self._replay.size)
        return self.run

    def _edit(self, outcome: Outcome, states: Mapping[str, object], only: Only) -> None:
        """Replaces entries of states for the next step. The new ones are constants to gradients."""
        run, step = self._until_now(outcome), outcome.steps
        edits = edits_of(self._replay, run, step, only, states)
        new = apply_edits(self._replay, step, outcome.states, edits)
        outcome.states = tuple(new)
        outcome.kept = StateHistory(self._replay.backend, new)
        self._replay = self._replay.continued(step, outcome, self._replay.bindings, edits)
        run.edits[step] = list(dict.fromkeys([*run.edits.get(step, []), *states]))
        run._take(self._replay, step, self._replay.size)

    def completed(self, outcome: Outcome, search_steps: Sequence[object]) -> Run:
        """The run with all steps, after the loop."""
        if self.run is None:
            return completed(Replay(self._recorded(), outcome, self._bindings), search_steps).run()
        self._replay.goes_on = False
        self._replay.advance(outcome)
        self.run._take(completed(self._replay, search_steps), outcome.steps, self._replay.size, self._replay.failed)
        return self.run


# -- warnings of a loop that runs, but probably does not compute what was intended


class Notice(NamedTuple):
    """A warning. about: the key under which it is shown only once per loop."""

    about: str
    text: str


def judge(step: TracedStep) -> None:
    """Warns of probable mistakes, once for each body in the source and its set of states."""
    if step.reads is None:
        return
    judged(step.source).add(step.states)
    for notice in (*_of_generators(step), *_of_states(step, step.reads), *_of_variables(step)):
        warn(step, notice)


def _of_states(step: TracedStep, reads: frozenset[int]) -> Iterator[Notice]:
    """Warnings about states that the body never sets or never reads."""
    for name in step.states:
        parts = [c for c in step.carried if c.kind == "state" and (c.name == name or c.name.startswith(f"{name}."))]
        if not parts or any(isinstance(part.before, Dim) for part in parts):
            continue
        unchanged = all(step.assigned[part.name] is part.before for part in parts)
        if unchanged and name not in step.set_states:
            yield Notice(f"unset {name}", _unset(name))
        elif not any(part.before.value.number in reads for part in parts):
            yield Notice(f"unread {name}", _unread(name))


def _of_variables(step: TracedStep) -> Iterator[Notice]:
    """Warnings about variables that the body reads and sets as if they were states."""
    for name, old, new in step.renewed:
        reads = step.program.reads([new])
        if old in reads and not reads.isdisjoint({*step.schedule.states, *step.schedule.frames}):
            yield Notice(f"variable {name}", _renewed(name))


def _of_generators(step: TracedStep) -> Iterator[Notice]:
    """Warnings about random numbers from generators that the loop does not control."""
    for name in step.generators:
        yield Notice(
            f"generator {name}",
            f"the body seeds {name} or draws from it; Python runs the body once, so every step gets the same numbers\n"
            "  hint      rf.random_uniform([]) and similar ops draw anew at every step; rf.cond and rf.where choose",
        )


def _unset(name: str) -> str:
    return (
        f"the state {name!r} is never set in the body, so it stays as it was before the loop\n"
        f"  hint      loop.state.{name} = …  # in the body; a constant does not need to be a state"
    )


def _renewed(name: str) -> str:
    return (
        f"each step reads the variable {name!r} as it was before the loop, not what the step before has set\n"
        f"  hint      loop.state.{name} = {name} before the loop, and loop.state.{name} in the body; or another name "
        "for the new value"
    )


def _unread(name: str) -> str:
    return (
        f"the state {name!r} is never read: the body does not use its value from the previous step\n"
        f"  hint      use loop.state.{name} before you set it; for the final value alone, loop.last(…)"
    )


def warn_of_end(step: TracedStep, outcome: Outcome) -> None:
    """Warns if the condition of `end` was true for no sequence, unless an axis says how many frames there are."""
    place = place_of(step.carried, "ended")
    if place is None or step.frames_size is not None or not outcome.steps or outcome.steps < step.limit.max:
        return
    ended = step.backend.to_numpy_raw(outcome.states[place])
    if ended.size and not ended.any():
        text = (
            f"the condition of loop.end is never true: no sequence ended within max_seq_len={step.limit.max} steps\n"
            "  hint      rf.watch(…) around the condition shows it step by step; or give a larger max_seq_len"
        )
        warn(step, Notice("end", text))


def warn(step: TracedStep, notice: Notice) -> None:
    """Warns at the line of the `with`, once for each loop in the source, however often it runs."""
    source = step.source
    if source is None or not step.warns or notice.about in _warned[source]:
        return
    _warned[source].add(notice.about)
    frame = frame_of(source.code)
    registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else {}
    text = terminal_text(f"{step.name} ({source.place()}): {notice.text}")
    warnings.warn_explicit(text, LoopWarning, source.file, source.span.line, registry=registry)


_warned: PerPlace[set[str]] = PerPlace(lambda source: set())
"""The keys of the warnings already shown, by the line of the `with`."""
