"""Runs a traced step for all steps of its loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, Var, opaque, untaped
from rfnb.core.graph.graph import Node, all_nodes
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.listener import listening, running_loop
from rfnb.core.tensor.op import OpRow
from rfnb.loop.body.draw import loop_record
from rfnb.loop.body.warnings import judge, warn_of_end
from rfnb.loop.ends import at_the_end
from rfnb.loop.replay.paused import LoopPauses
from rfnb.loop.replay.recorded import plan_of
from rfnb.loop.replay.replay import Replay, probed
from rfnb.loop.settle import Results, settle, steps_of
from rfnb.loop.step import TracedStep
from rfnb.loop.steps.execute import Bindings, Outcome, current_inspection, execute, inspecting
from rfnb.loop.steps.explain import ExplanationData, OpPlacement, note_step
from rfnb.loop.steps.hoist import DeferredGradients, Hoist
from rfnb.loop.zero_steps import reaching
from rfnb.trace.record.traced import Traced
from rfnb.trace.run import session
from rfnb.trace.run.failure import Failure, failure

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop


class BodyRun:
    """The phases from the traced step to its results: judge, hoist, run, settle, record.

    failed: the node of the error that a step raised.
    """

    def __init__(self, loop: Loop, step: TracedStep):
        self.loop, self.step = loop, step
        self.failed: Node | None = None

    def run(self) -> None:
        """Runs all steps and settles the results. An error in a step is raised with its step and line."""
        loop, step = self.loop, self.step
        try:
            judge(step)
            with running_loop():
                results = self._run_outside() if step.outer is None else self._run_inside()
            size = settle(loop, step, results)
            session.draw(partial(loop_record, loop, step, size=size))
        except BaseException:
            self._restore()
            raise
        step.recorder.forget()

    def _restore(self) -> None:
        """Restores the loop, and all outside values that its steps have changed."""
        session.draw(partial(loop_record, self.loop, self.step, error=True, failed=self.failed))
        with untaped():
            self.step.tape.restore(self.step.backend.overwrite_raw)
        self.loop.state._values = self.step.originals
        self.step.recorder.forget()

    # -- a loop that is not nested

    def _frames(self, read: frozenset[Any] | None = None) -> list[Sequence[Any]]:
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
        stacked_frames: dict[Var, Any] = {}
        if hoist is not None:
            constants, stacked_frames = hoist.before(record=record)
            program.supply(constants, list(stacked_frames))
        outputs = schedule.outputs if hoist is None else tuple(hoist.step_outputs)
        search_vars = () if step.search is None else step.search.vars
        states = (schedule.new[place] for place in step.unfrozen)
        schedule = replace(schedule, outputs=(*outputs, *search_vars, *states))
        program.join(step.backend, step.tape.values, [*schedule.new, *schedule.kept, *schedule.outputs])
        deferred = DeferredGradients(program, schedule, step.backend, stacked_frames, step.tape.values)
        if hoist is not None:
            deferred.defer()
        results = [*deferred.schedule.new, *deferred.schedule.kept, *deferred.schedule.outputs]
        frames = [*self._frames(None if record else deferred.program.reads(results)), *deferred.frames()]
        loop._explanation_data = _explanation_data(step, hoist)
        progress, waits = session.progress(step.name, schedule.max_steps), record and not session.is_drawing()
        seed = int(step.seed or 0)
        own_frames = frames[: len(program.inputs) - len(schedule.states)]
        recorded = Bindings(own_frames, program.externals, seed, call=step.call)
        pauses = LoopPauses(step, lambda: plan_of(step, _explanation_data(step, hoist)), recorded)
        outcome = execute(
            deferred, Bindings(frames, deferred.program.externals, seed), _initial(step),
            record=record, progress=progress, pause=pauses if waits else None, measured=step.recorder.measured,
        )  # fmt: skip
        deferred.collect(outcome)
        _take_ends(step, outcome)
        _take_choices(step, outcome)
        for watcher in step.watchers:
            watcher.finish(failed=outcome.error is not None)
        if progress is not None:
            progress(schedule.max_steps)  # complete, even if the loop ended early
        try:
            final, stacked = self._results(outcome, hoist)
        except BaseException as error:
            outcome.failure = outcome.failure or _failure_after(error, hoist, step, outcome)
            self.failed = self.failed or (hoist.failed[1] if hoist is not None and hoist.failed is not None else None)
            raise
        finally:
            if record:
                loop.run = pauses.completed(outcome, [] if step.hypotheses is None else step.hypotheses.steps)
                if pauses.has_paused or session.should_store(loop.debug):
                    session.store(loop.run)
        warn_of_end(step, outcome)
        return Results(*probed(loop.run, final, stacked), run=loop.run) if record else Results(final, stacked)

    def _results(self, outcome: Outcome, hoist: Hoist | None) -> tuple[Sequence[Any], Sequence[Any]]:
        """The final carried values and the outputs. Ops that only outputs depend on run here, after the steps."""
        step = self.step
        if outcome.error is not None:
            raise self._located(outcome)
        if hoist is not None and outcome.steps:
            outputs = [step.backend.stack_raw(rows) for rows in outcome.outputs]
            moves = step.reordered or step.hypotheses is not None
            limit = step.limit if moves else steps_of(step, outcome.states)
            stacked = hoist.after(outputs, outcome.steps, limit)
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

    # -- a nested loop

    def _run_inside(self) -> Results:
        """Records the loop as one call on the tape of the loop around it."""
        step, frames = self.step, self._frames()
        structure = [_initial(step), frames, step.program.externals, [step.seed]]
        plan = plan_of(step, None) if step.recorder.recorded else None

        def run(*flat: Any) -> list[Any]:
            values = iter(flat)
            initial, all_frames, externals, [seed] = map_leaves(lambda leaf: next(values), structure)
            inspection = current_inspection()
            runs = None if inspection is None or plan is None else inspection.runs
            bindings = Bindings(all_frames, externals, int(seed))
            with listening(None), inspecting(None):
                outcome = execute(step, bindings, initial, record=runs is not None)
            for watcher in step.watchers:
                watcher.finish(failed=outcome.error is not None)
            error = None if outcome.error is None else self._located(outcome)
            if runs is not None and plan is not None:
                runs.append(Replay(plan, outcome, bindings).run())
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


def _initial(step: TracedStep) -> list[Any]:
    return [carry.initial for carry in step.carried]


def _stacked(step: TracedStep, taken: Sequence[list[Any]]) -> list[Any]:
    """Stacks each output over all steps; without steps, an empty tensor of its shape."""
    backend = step.backend

    def stack(values: list[Any], traced: Traced) -> Any:
        if values:
            return backend.stack_raw(values)
        shape = backend.get_shape_tuple_raw(traced.plain._raw)
        return backend.full_raw([0, *shape], 0, traced.dtype, traced.device)

    return [stack(values, traced) for values, (traced, _) in zip(taken, step.outputs, strict=True)]


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
    none, why = frozenset[Any](), "optimize_move_layers_out=False"
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
