"""A Run: the recorded steps of one execution of a loop."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph
from rfnb.core.ground.hook import Hook
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Block
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.file.save import write
from rfnb.trace.run.find import Where, search, steps_begun
from rfnb.trace.run.stacked import stacked
from rfnb.trace.run.step import Replayable, RunStep
from rfnb.trace.run.variables import VariableSteps


class TrainingOfRun(Protocol):
    """Where in a training a run was made, and the runs of the same loop at other steps of that training.

    step: the training step. measures: what the training had reported.
    """

    step: int
    measures: Mapping[str, float]

    def steps(self) -> list[int]:
        """The training steps that have a run of the loop, in order."""

    def run(self, step: int) -> Run:
        """The run at a training step. Raises RfError if there is none."""


@dataclass
class OneStep:
    """The training step at which a run was made, if nothing is known about others."""

    step: int
    _run: Run = field(repr=False)
    measures: Mapping[str, float] = field(default_factory=dict)

    def steps(self) -> list[int]:
        """This step."""
        return [self.step]

    def run(self, step: int) -> Run:
        """The run at this step. Raises LoopError for others."""
        if step != self.step:
            raise LoopError(f"{self._run.name}: there is no run at training step {step}", expected=str(self.step))
        return self._run


_serials = itertools.count(1)


class Run(Shown):
    """The recording of one execution of a loop: `run[i].att` is the body's variable `att` at step i.

    `run[i].before.h` and `run[i].after.h` are states; `run.stack("att")` stacks a variable over all steps.

    Args:
        name, place, source: the name of the loop, and its place and text in the code.
        replay: returns the recorded states, and recomputes values.
        steps: how many steps were executed.
        axis, size: the Dim of the steps, and how many steps each sequence took.
        graph: the graph of the body.
        failed: the error that ended the run. `run[run.failed.step]` has the values computed before the error.
        parent, forked_at: for a fork, the run that it continues, and the first step that differs from that run.

    `edits` has the states edited while the loop was paused, by step; `training` the training step, if it is known.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
    >>> loop = rf.Loop(axis=time, debug=True)
    >>> loop.state.s = rf.zeros([rf.batch_dim], dtype="int64")
    >>> with loop:
    ...     frame = loop.unstack(x)
    ...     loop.state.s = loop.state.s + frame
    >>> run = loop.run
    >>> run.steps, run.lengths, run[1].frame.raw_tensor.tolist(), run[1].after.s.raw_tensor.tolist()
    (3, [3, 1], [2, 4], [3, 4])
    """

    def __init__(
        self,
        *,
        name: str,
        place: str,
        source: Block,
        replay: Replayable,
        steps: int,
        axis: Dim,
        size: Size,
        graph: BodyGraph,
        failed: Failure | None = None,
        parent: Run | None = None,
        forked_at: int | None = None,
    ):
        self.serial, self.name, self.place, self.source = next(_serials), name, place, source
        self.axis, self.graph, self.pinned, self.parent, self.forked_at = axis, graph, False, parent, forked_at
        self.edits: dict[int, list[str]] = {}
        self.training: TrainingOfRun | None = None
        self.states = replay.state_names()
        self._take(replay, steps, size, failed)

    def _take(self, replay: Replayable, steps: int, size: Size, failed: Failure | None = None) -> None:
        """Takes the steps that `replay` has now: for the run of a loop that was paused and went on."""
        for name in ("lengths", "flags", "_sequences", "begun", "ends", "found"):
            self.__dict__.pop(name, None)
        self.replay, self.steps, self.size, self.failed = replay, steps, size, failed
        self._in_use: WeakValueDictionary[int, RunStep] = WeakValueDictionary()  # these keep their values
        self.storages = replay.storages()
        self.bytes = sum(self.storages.values())

    @cached_property
    def lengths(self) -> list[int] | None:
        """How many steps each sequence took, in a search the longest of its hypotheses; None if no dim counts them.

        >>> loop = rf.Loop(max_seq_len=9, debug=True)
        >>> loop.state.n = rf.convert_to_tensor([1, 5], dims=[rf.batch_dim])
        >>> with loop:
        ...     loop.state.n = loop.state.n + 1
        ...     loop.end(loop.state.n > 5, include_eos=True)
        >>> loop.run.lengths
        [5, 1]
        """
        axes = tuple(i for i, dim in enumerate(self.size.dims) if dim is not self.sequence_dim)
        values = self.size.values.max(axis=axes, initial=0)
        return values.tolist() if values.ndim == 1 else None

    @cached_property
    def flags(self) -> list[str]:
        """Problems of the run: "failed: …", "not finite", "never ended", "edited at step …". Empty if there are none.

        >>> loop = rf.Loop(max_seq_len=2, debug=True)
        >>> loop.state.x = rf.convert_to_tensor(0.0)
        >>> with loop:
        ...     loop.state.x = rf.log(loop.state.x)
        >>> loop.run.flags
        ['not finite']
        """
        return [*self.replay.flags, *(f"edited at step {step}: {', '.join(self.edits[step])}" for step in self.edits)]

    @cached_property
    def _sequences(self) -> tuple[Dim | None, Size | None]:
        return self.replay.sequences

    @property
    def sequence_dim(self) -> Dim | None:
        """The dim of the sequences; None if no dim distinguishes them."""
        return self._sequences[0]

    @property
    def sequences(self) -> Size | None:
        """The size of `sequence_dim`, with the tags of the sequences; None without such a dim."""
        return self._sequences[1]

    @property
    def batch(self) -> int | None:
        """The number of sequences; None if no dim distinguishes them."""
        return None if self.sequences is None else self.sequences.max

    @property
    def tags(self) -> Sequence[str] | None:
        """The tags of the sequences, if the data has tags."""
        return None if self.sequences is None else self.sequences.tags

    @cached_property
    def begun(self) -> Size:
        """How many steps each sequence started; values of later steps belong to no sequence. {} or {batch}

        With `include_eos=False`, this includes the step whose `end` ended the sequence.

        >>> loop = rf.Loop(max_seq_len=9, debug=True)
        >>> loop.state.n = rf.convert_to_tensor([1, 5], dims=[rf.batch_dim])
        >>> with loop:
        ...     loop.end(loop.state.n > 5, include_eos=False)
        ...     loop.state.n = loop.state.n + 1
        >>> loop.run.lengths, loop.run.begun.values.tolist()
        ([5, 1], [6, 2])
        """
        return self.replay.begun

    @cached_property
    def ends(self) -> list[str] | None:
        """Why each sequence ended, or all of them together: "length 5 reached", "ended at 3: end was true".

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.n = rf.convert_to_tensor([1, 5], dims=[rf.batch_dim])
        >>> with loop:
        ...     loop.state.n = loop.state.n + 1
        ...     loop.end(loop.state.n > 5, include_eos=True)
        >>> loop.run.ends
        ['max steps (3)', 'ended at 0: end was true']
        """
        return self.replay.ends()

    @cached_property
    def loop(self) -> str:
        """A key that all runs of one loop share: the place and name of the loop.

        >>> loop = rf.Loop(max_seq_len=1, debug=True, name="count")
        >>> loop.state.n = rf.convert_to_tensor(0)
        >>> with loop:
        ...     loop.state.n = loop.state.n + 1
        >>> loop.run.loop.split(":")[-1]
        'count'
        """
        return f"{self.source.cell_id or self.source.file}:{self.source.first_line}:{self.name}"

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[RunStep]:
        return (self[step] for step in range(self.steps))

    def find(self, where: Where, *, start: int = 0, stop: int | None = None) -> list[int]:
        """The steps where `where` holds: a function of the step, `rf.when.…`, or an expression as for `run[i].eval`.

        Conditions of `rf.when` ignore padding and sequences that have ended. The step that failed is searched too, as
        far as it got. Raises LoopError if the result of `where` is not True, False or a Tensor {} bool.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1.0, -3.0, 2.0]], dims=[rf.batch_dim, time])
        >>> loop = rf.Loop(axis=time, debug=True)
        >>> loop.state.s = rf.zeros([rf.batch_dim])
        >>> with loop:
        ...     loop.state.s = loop.state.s + loop.unstack(x)
        >>> loop.run.find(rf.when.over(1.5, "s")), loop.run.find("rf.reduce_all(s < 0, axis=s.dims)")
        ([1], [1])
        """
        return list(search(self, where, range(*slice(start, stop).indices(steps_begun(self)))))

    def next(self, where: Where, after: int = -1) -> int | None:
        """The first step after `after` where `where` holds; None if there is none.

        >>> loop = rf.Loop(max_seq_len=5, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> loop.run.next("after.n > 3"), loop.run.next("after.n > 3", after=1), loop.run.next("after.n > 99")
        (1, 2, None)
        """
        return next(search(self, where, range(max(after, -1) + 1, steps_begun(self))), None)

    def previous(self, where: Where, before: int | None = None) -> int | None:
        """The last step before `before` where `where` holds; None if there is none.

        >>> loop = rf.Loop(max_seq_len=5, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> loop.run.previous(rf.when.changes("n")), loop.run.previous(rf.when.changes("n"), before=2)
        (4, 1)
        """
        end = steps_begun(self) if before is None else min(before, steps_begun(self))
        return next(search(self, where, reversed(range(end))), None)

    def __getitem__(self, step: int) -> RunStep:
        step = index(step)
        if self.failed is None or step != self.failed.step:
            if not -self.steps <= step < self.steps:
                end = steps_begun(self) - 1
                expected = f"0 … {end}" if end >= 0 else "none: the run has no steps"
                raise LoopError(f"{self.name}: there is no step {step}", expected=expected)
            step %= self.steps
        run_step = self._in_use.get(step)
        if run_step is None:
            run_step = self._in_use[step] = RunStep(self, step)
        return run_step

    @cached_property
    def found(self) -> Any:
        """What a search found, as `loop.found`: that of a fork is what it finds with its edits. None without a choice.

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> loop.run.found
        """
        return self.replay.found(self)

    def stack(self, name: str, *, resolve: bool = True) -> Tensor:
        """Stacks a variable of the body, or an expression as for `run[i].eval`, over all steps. → {axis, …}

        resolve: take a value of a search along the final hypotheses; if False, by places in the beam at each step.

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     double = loop.state.n * 2
        ...     loop.state.n = double + 1
        >>> loop.run.stack("double").raw_tensor.tolist(), loop.run.stack("double - 1").raw_tensor.tolist()
        ([2, 6, 14], [1, 5, 13])
        """
        return stacked(self, name, resolve)

    def name_axes(self, variable: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable of plain Python code at all steps, as `dims` of `rf.steps` does; None: no names.

        >>> letters = rf.Dim(3, name="letters", vocab=["a", "b", "c"])
        >>> for t in rf.steps(range(2), name="decoder"):
        ...     best = torch.tensor([0, 2])
        >>> run = rf.runs["decoder"]
        >>> run.name_axes("best", ["batch", letters])
        >>> run[0].best.dims[0].name, run[0].best.sparse_dim.name
        ('batch', 'letters')

        Args:
            variable: its name.
            axes: a name for each axis. A Dim in place of a name has lengths, which say what is padding; one more Dim,
                with a vocab, is what integers are labels of.

        Forks, and loops inside of the steps, have the same names.

        Raises LoopError if they fit none of the values, or if the axes have dims already, as in an `rf.Loop`.
        """
        if not isinstance(self.replay, VariableSteps):
            raise LoopError(f"name_axes: the axes of {self.name} have dims", hint="rf.Dim(…, name=…) names them")
        try:
            self.replay.name_axes(variable, axes)
        finally:
            self._in_use.clear()

    def fork(
        self,
        step: int,
        /,
        *,
        seed: int | None = None,
        sequence: int | str | None = None,
        hypothesis: int | None = None,
        **states: object,
    ) -> Run:
        """A new run that continues from the states before `step`, with edits: `run.fork(4, h=0.0, label="AH")`.

        A state can be set to a Tensor (with dims in any order; missing dims, such as the batch, are broadcast), a
        number, or the text of a label, or to a list with one of these for each sequence. A nested state is set with
        `**{"lstm.h": …}`. sequence: only this one is edited, given by number or tag. hypothesis: in a search, only the
        one at this place of the beam.

        >>> loop = rf.Loop(max_seq_len=4, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> fork = loop.run.fork(2, n=10)
        >>> fork[1].before.n.item(), fork[2].before.n.item(), fork[3].after.n.item()
        (2, 10, 40)

        The fork uses the parameters, frames and random numbers of this run (or those of `seed`), without gradients.
        Side effects are skipped: `rf.assert_`, prints, writes to anything outside the loop. Sequences that ended before
        `step` remain ended. The new run is added to `rf.runs`; this run does not change.

        Of a recorded loop of plain Python, any variable can be set, to a value of its kind. The lines of the loop run
        again, with the items and random numbers of this run and today's functions and modules; what they print is not
        shown, other effects happen again. `sequence` and `hypothesis` are for an `rf.Loop`.

        Raises LoopError for an unknown state or step, or a loop that reads what it writes, trains, or has variables
        that cannot be copied; DimError for wrong dims and unknown labels; DtypeError for values that the state cannot
        hold.
        """
        return self.replay.fork(self, step, seed, (sequence, hypothesis), states)

    def rerun(self, fn: Callable[[], object] | None = None) -> Run:
        """Repeats the call that contained the loop, with the current code, and returns the new run of the loop.

        fn: performs the call: `run.rerun(lambda: decode(x))`. Without it, the loop's function is looked up by name, so
        that edited cells and `importlib.reload` take effect, and is called with the same arguments. Parameters have
        their current values. The loop draws the same random numbers; other ops of the function draw from the seed of
        the run, so that all reruns agree. Side effects of the function (training, printing, writing) happen again.

        >>> def count(limit):
        ...     loop = rf.Loop(max_seq_len=limit, debug=True, name="count")
        ...     loop.state.n = rf.convert_to_tensor(0)
        ...     with loop:
        ...         loop.state.n = loop.state.n + 1
        ...     return loop.run
        >>> count(3).rerun(lambda: count(5)).steps
        5

        Raises LoopError if the function of the loop cannot be found, if its arguments were reassigned before the loop,
        or if the call does not run exactly one loop of this name. Errors of the function are passed on.
        """
        return self.replay.rerun(self, fn)

    def gradients(self, loss: object) -> Any:
        """The gradient norms of a loss at each step: `.norm["h"][i]` is ‖d loss / d h‖ for the value of the state `h`
        after step i; `.per_sequence["h"][i, b]` is the norm for one sequence. The result is shown as a table.

        loss: a Tensor that depends on results of the loop; if it has dims, its sum. Call this before its `backward()`,
        or after one with `retain_graph=True`. Or the name of a value of the body: its sum over all steps and entries,
        without padding.

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.h = rf.convert_to_tensor(1.0)
        >>> with loop:
        ...     loop.state.h = loop.state.h * 0.5
        >>> loop.run.gradients("h").norm["h"].tolist()
        [1.75, 1.5, 1.0]

        Raises LoopError if the loss does not depend on results of this run, or if its graph has been freed.
        """
        return self.replay.gradients(self, loss)

    def explain(self) -> Any:
        """Where each op of the body ran: before the steps, in each step, or after the loop; as `loop.explain()`.

        >>> loop = rf.Loop(max_seq_len=2, debug=True, name="doubling")
        >>> loop.state.x = rf.convert_to_tensor(1.0)
        >>> with loop:
        ...     loop.state.x = loop.state.x * 2
        >>> rf.show(loop.run.explain()).text.splitlines()[0]
        'doubling: 1 op in each step'

        Raises RunFileError for a run loaded from a file.
        """
        return self.replay.explain()

    def save(self, path: str | os.PathLike[str], limit: int | None = None) -> Path:
        """Saves the run to a file, and returns its path. The ending of the name chooses the format.

            run.save("x.rfrun")  # states, values, source, statistics: rf.load_run("x.rfrun") needs no model
            run.save("x.html")   # a page for stepping through the run in a browser, without rfnb

        An existing file is replaced only when the new one is complete. limit: how many bytes the values of the body may
        use, by default 64 MiB for ".rfrun"; beyond that, the largest are saved as statistics, which the file notes. By
        default 2 MB for ".html"; beyond that, the page has a selection of the steps.

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> path = loop.run.save(folder / "doubling.rfrun")
        >>> path.name, rf.load_run(path)[2].after.n.item()
        ('doubling.rfrun', 8)

        Raises RunFileError for any other ending, or if the file cannot be written.
        """
        return write(self, path, limit)

    def open(self) -> None:
        """Shows this run in the panel of JupyterLab.

        >>> loop = rf.Loop(max_seq_len=3, debug=True)
        >>> loop.state.n = rf.convert_to_tensor(1)
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        >>> loop.run.open()
        """
        open_in_panel(self)


open_in_panel: Hook[[Run], bool] = Hook(
    "trace.run.run.open_in_panel", by="display.panel.comm", otherwise=lambda run: False
)
"""Shows a run in the panel of JupyterLab; returns whether there is a panel."""
