"""Pauses of a running loop: evaluates the conditions after its steps, and holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor.listener import listening
from rfnb.loop.replay.fork import apply_edits, edits_of, sizes
from rfnb.loop.replay.replay import Replay, completed
from rfnb.loop.steps.execute import Bindings, Outcome, StateHistory
from rfnb.trace.pause.hold import Paused, Resume, hold
from rfnb.trace.pause.pauses import pauses

if TYPE_CHECKING:
    from rfnb.loop.step import Step, TracedStep
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import Only


class LoopPauses:
    """Where one execution of a loop pauses. Its Run has the steps so far, and is that of the loop when it has ended.

    Args:
        step: the traced step of the loop.
        plan, bindings: of the recorded run. The plan is made when it is needed.
    """

    def __init__(self, step: TracedStep, plan: Callable[[], Step], bindings: Bindings):
        self.name, self.lines = step.name, step.pauses
        self.run: Run | None = None  # from the first step on that had to be looked at
        self.has_paused = False
        self._plan, self._bindings = plan, bindings
        self._resume = Resume()
        self._off = False

    def each_step(self) -> bool:
        """Whether each step has to be looked at."""
        if self._off or pauses.muted:
            return False
        resume = self._resume
        return bool(self.lines or resume.until is not None or resume.tests or pauses.of(self.name))

    def after_steps(self, outcome: Outcome) -> None:
        """Holds the loop if there is a reason. Raises KeyboardInterrupt if the user stops the cell."""
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

    def _until_now(self, outcome: Outcome) -> Run:
        """The run with the steps that are done."""
        if self.run is None:
            self._replay = Replay(self._plan(), outcome, self._bindings)
            self._replay.goes_on = True
            self.run = self._replay.run()
        elif self.run.steps != outcome.steps:
            self._replay.advance(outcome)
            self.run._take(self._replay, outcome.steps, self._replay.size)
        return self.run

    def _edit(self, outcome: Outcome, states: Mapping[str, Any], only: Only) -> None:
        """Replaces entries of states for the next step. The new ones are constants to gradients."""
        run, step = self._until_now(outcome), outcome.steps
        edits = edits_of(self._replay, run, step, only, states)
        new = apply_edits(self._replay, step, outcome.states, edits)
        outcome.states = tuple(new)
        outcome.kept = StateHistory(self._replay.backend, new)
        self._replay = self._replay.continued(step, outcome, self._replay.bindings, edits)
        run.edits[step] = list(dict.fromkeys([*run.edits.get(step, []), *states]))
        run._take(self._replay, step, self._replay.size)

    def completed(self, outcome: Outcome, search_steps: Sequence[Any]) -> Run:
        """The run with all steps, after the loop."""
        if self.run is None:
            return completed(Replay(self._plan(), outcome, self._bindings), search_steps).run()
        self._replay.goes_on = False
        self._replay.advance(outcome)
        self.run._take(completed(self._replay, search_steps), outcome.steps, self._replay.size, self._replay.failed)
        return self.run
