"""Runs a function every few steps of a training, which goes on as if nothing had run, and keeps what it gave.

The shots are folders `step-000000200`; each is there completely or not at all.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import user_source, warn
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import RunCtx, entered
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guarded
from rfnb.errors import ParameterError, RunFileError
from rfnb.printable import error_message, error_text
from rfnb.trace.capture.capture import capture
from rfnb.trace.compare.compare import compare
from rfnb.trace.compare.comparison import Comparison
from rfnb.trace.pause import place_of
from rfnb.trace.probe.shot import Material, Shot, ShotFolder
from rfnb.trace.run.job import file_name, job_folder
from rfnb.trace.run.options import recording_mode
from rfnb.trace.run.random_numbers import OwnNumbers
from rfnb.trace.run.run import Run
from rfnb.trace.run.runs import runs
from rfnb.trace.run.session import redirecting_runs


@contextmanager
def beside_training(modules: Iterable[Any], step: int, numbers: OwnNumbers) -> Iterator[None]:
    """Evaluation mode inside the block. Gradients, statistics, random numbers and run context are those from before.

    Args:
        modules: of torch; those that are called inside are found even without being named here.
        step: of the training.
        numbers: the random numbers that are drawn inside.
    """
    from rfnb.backend.torch.module_state import evaluating

    with numbers, listening(None), entered(RunCtx(stage="forward_step", step=step)), evaluating(modules):
        yield


BUDGET = 256 * 2**20
"""Default limit for all shots of a probe, in bytes."""


MOST = 10**18
"""No count reaches this number."""


class Probe(Shown):
    """The shots of a function over a training: `probe[-1]` is the last one, `probe.at(400)` that of a training step.

    Each shot has `.step`, `.result`, `.attention` (as of `rf.capture`), `.runs`, and `.measures` of the training.
    `rf.probe` makes one that runs its function, `rf.load_probe` one that reads what another process writes.

    >>> probe = rf.probe(lambda: "a b", every=2)
    >>> for batch in rf.progress(range(6)):
    ...     pass
    >>> probe.steps, probe[-1].result, probe.at(4).step
    ([2, 4, 6], 'a b', 4)
    >>> probe.stop()
    """

    def __init__(
        self,
        folder: Path,
        fn: Callable[[], object] | None = None,
        *,
        every: int = 1,
        budget: int = BUDGET,
        loop: str | None = None,
        start: int = 0,
        name: str = "probe",
    ):
        self.fn, self.every, self.budget, self.loop, self.name = fn, every, budget, loop, name
        self.trained = start
        self.off: str | None = None
        self._folder = ShotFolder(folder)
        self._swept = False
        self._numbers = OwnNumbers()

    # -- while training

    def step(self, number: int | None = None, /, **measures: object) -> None:
        """Tells that a training step is done, in a loop without `rf.progress`; runs the function if it is due.

        >>> probe = rf.probe(lambda: None, every=100)
        >>> for number in range(1, 301):
        ...     probe.step(number, loss=1 / number)
        >>> probe.steps, probe.at(200).measures
        ([100, 200, 300], {'loss': 0.005})
        >>> probe.stop()

        Args:
            number: how many steps are done now; one more than before if it is not given.
            measures: numbers to keep beside, such as the loss.

        Raises ParameterError for a number that is not a count of steps.
        """
        step = self.trained + 1 if number is None else _count("step", number, 0)
        measures = {name: _measure(name, value) for name, value in measures.items()}
        is_new, self.trained = step != self.trained, step
        if is_new and step % self.every == 0:
            self.take(**measures)

    def after_step(self, measures: Callable[[], Mapping[str, float]]) -> None:
        """A step of `rf.progress` is done."""
        self.trained += 1
        if self.trained % self.every == 0 and not self.off:
            self.take(**measures())

    def take(self, **measures: object) -> Shot | None:
        """Runs the function now, and keeps what it gives as the shot of this training step, which is returned.

        Shots of later steps, of an earlier training in the same folder, are removed. If the function raises an error,
        this is warned of once, and the probe is off; None is returned then, and in all processes but the first.

        >>> probe = rf.probe(lambda: 7, every=100)
        >>> probe.take().result, probe.steps  # before the training
        (7, [0])
        >>> probe.stop()
        """
        from rfnb.backend.torch.module_state import is_sharded, modules_of, rank

        if self.off or self.fn is None:
            return None
        numbers = {name: _measure(name, value) for name, value in measures.items()}
        modules = modules_of(self.fn)
        is_first, sharded = rank() == 0, is_sharded(modules)
        if not is_first and not sharded:
            return None
        try:
            with beside_training(modules, self.trained, self._numbers):
                if sharded:  # a replay in one process would wait for the others
                    note = "only the result is kept of a model that is distributed over processes"
                    result = self.fn()
                    return self._kept(self._material(numbers, result, note=note)) if is_first else None
                loop_runs: list[Run] = []
                with redirecting_runs(loop_runs.append), capture() as captured:
                    result = self.fn()
                shot = self._kept(self._material(numbers, result, attention=captured, runs=loop_runs))
        except Exception as error:
            self.off = error_text(error)
            warn(f"the probe {self.name!r} is off after training step {self.trained}: {self.off}")
            return None
        for run in shot.runs if recording_mode() else ():
            runs.add(run)  # where the panel finds them
        return shot

    def _material(self, measures: Mapping[str, float], result: object, **parts: Any) -> Material:
        return Material(self.name, self.trained, self.every, measures, result, **parts)

    def _kept(self, material: Material) -> Shot:
        if not self._swept:
            self._folder.sweep()
            self._swept = True
        for step in self._folder.steps():
            if step > material.step:
                self._folder.remove(step)
        self._folder.write(material.step, lambda folder: material.write(folder, self.budget))
        self._folder.fit(self.budget)
        return self._folder.shot(material.step)

    def stop(self) -> None:
        """Runs the function no more. The shots stay."""
        followers.remove(self)
        self.fn = None

    # -- looking back

    @property
    def path(self) -> Path:
        """The folder of the shots; a temporary one if no path was given."""
        return self._folder.path

    @property
    def steps(self) -> list[int]:
        """The training steps of the shots."""
        return self._folder.steps()

    @property
    def unreadable(self) -> list[str]:
        """What was wrong with damaged shots when they were last read."""
        return list(self._folder.unreadable)

    @property
    def bytes(self) -> int:
        """The size of all shots on disk, at most the budget."""
        return self._folder.bytes

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Shot]:
        return iter(self._folder.shots())

    def __getitem__(self, number: int) -> Shot:
        """The shot with this number, not that of a training step: see `at`."""
        shots = self._folder.shots()
        if not hasattr(number, "__index__") or not -len(shots) <= index(number) < len(shots):
            raise ParameterError(
                f"probe: there is no shot {number!r}", expected=f"0 to {len(shots) - 1}" if shots else "no shots yet",
                hint=f"probe.at({number!r})" if number in self._folder else None,
            )  # fmt: skip
        return shots[number]

    def at(self, step: int) -> Shot:
        """The shot of a training step. Raises ParameterError if there is none."""
        if step not in self._folder:
            steps = self.steps
            near = min(steps, key=lambda other: abs(other - step), default=None) if hasattr(step, "__index__") else None
            raise ParameterError(
                f"probe: there is no shot of training step {step!r}",
                expected=", ".join(map(str, steps[-12:])) or "no shots yet",
                hint=None if near is None else f"the nearest one: probe.at({near})",
            )
        return self._folder.shot(index(step))

    def compare(self, a: int, b: int, /, *, loop: str | None = None, **how: Any) -> Comparison:
        """Compares the runs of two training steps by `rf.compare`: the first step and value at which they differ.

        >>> bias = rf.Parameter([], initial=0.0)
        >>> def decode():
        ...     loop = rf.Loop(max_seq_len=3, name="decode")
        ...     loop.state.score = rf.convert_to_tensor(1.0)
        ...     with loop:
        ...         loop.state.score = loop.state.score + bias
        >>> probe = rf.probe(decode, every=1)
        >>> for step in (1, 2):
        ...     probe.step()
        ...     bias.assign(float(step))
        >>> comparison = probe.compare(1, 2)
        >>> comparison.agree, comparison.first.name, comparison.first.step
        (False, 'score', 0)
        >>> probe.stop()

        Args:
            a, b: the training steps.
            loop: the name of the loop, if the function runs several.
            how: as for `rf.compare`.

        Raises ParameterError if there is no such step, LoopError if it has no such run.
        """
        return compare(self.at(a).run(loop), self.at(b).run(loop), **how)

    @guarded
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Copies the shots to a folder, for `rf.load_probe`, and returns its path; older shots there are replaced.

        >>> probe = rf.probe(lambda: 7, every=1)
        >>> probe.step(loss=0.5)
        >>> again = rf.load_probe(probe.save(folder / "probe"))
        >>> again[0].result, again[0].measures
        (7, {'loss': 0.5})
        >>> probe.stop()

        Raises RunFileError if there is something else, or it cannot be written.
        """
        path = Path(path)
        try:
            self._folder.copy_to(path)
        except (OSError, ValueError) as error:
            raise RunFileError(f"save: {path} cannot be written", got=error) from error
        return path


@guarded
def probe(
    fn: Callable[[], object] | None = None,
    *,
    every: int = 200,
    path: str | os.PathLike[str] | None = None,
    budget: int = BUDGET,
    loop: str | None = None,
    start: int = 0,
    name: str | None = None,
) -> Probe:
    """Runs `fn` every few steps of a training, and keeps its result, its attention and the runs of its loops.

        def decode():
            return model.decode(test_sentence)

        probe = rf.probe(decode, every=200)
        for batch in rf.progress(loader): ...
        probe                    # as the result of a cell: results and attention over the training
        probe.compare(200, 800)  # the first difference between two of them

    The training does not notice: `fn` runs in evaluation mode and without gradients, and afterwards random numbers,
    running statistics, gradients and the run context are those from before. This holds for the torch modules that `fn`
    refers to or calls. If `fn` raises an error, this is warned of once, and the training goes on without the probe.

    Every step of a loop over `rf.progress` counts, unless gradients are off in it, as in an evaluation, or another such
    loop runs inside of it. Other loops call `probe.step()`, or `probe.step(number, loss=loss)`, once in each step.

    Of several processes, only the first one runs `fn`. If the model is distributed over them (FSDP), all run it, and
    the first one keeps its result, but neither runs nor attention.

    >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> model = rf.Linear(feat, out)
    >>> probe = rf.probe(lambda: model(rf.ones([feat])), every=2)
    >>> for batch in rf.progress(range(4)):
    ...     model.bias.assign_add(1.0)  # stands for an optimizer
    >>> (probe.at(4).result - probe.at(2).result).raw_tensor.round().tolist()
    [2.0, 2.0]
    >>> probe.stop()

    Args:
        every: how many training steps are between two runs of `fn`.
        path: a folder that the shots are written to, each completely or not at all; `rf.load_probe(path)` reads it
            from any process meanwhile. A shot replaces those of the same and of later steps. None: a temporary folder.
        budget: the most bytes that all shots may use on disk. When they use more, the ones with the closest neighbours
            are removed.
        loop: the `name=` of the only `rf.progress` that counts.
        start: how many steps were trained before, for a training that goes on.
        name: what it is called; the name of `fn` if not given.

    A probe that is made at the same line of code replaces the former one. Raises ParameterError for other arguments,
    RunFileError if the folder cannot be made.
    """
    if not callable(fn):
        raise ParameterError("probe: `fn` must be a function", got=type(fn).__name__, hint="rf.probe(lambda: model(x))")
    every, start = _count("every", every, 1), _count("start", start, 0)
    budget = _count("budget", budget, 1)
    for parameter, value in (("loop", loop), ("name", name)):
        if not isinstance(value, str | None):
            raise ParameterError(f"probe: `{parameter}` must be a string", got=repr(value))
    called = name or str(getattr(fn, "__name__", type(fn).__name__))
    if path is None and (job := job_folder()) is not None:
        path = job / "probes" / file_name(called)
    if path is not None:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise RunFileError(f"probe: the folder {path} cannot be made", got=error) from error
    folder = Path(tempfile.mkdtemp(prefix="rfnb-probe-") if path is None else path)
    new_probe = Probe(folder, fn, every=every, budget=budget, loop=loop, start=start, name=called)
    if path is None:
        weakref.finalize(new_probe, _remove, folder, os.getpid())
    source = user_source()
    followers.add(source and place_of(source), new_probe)
    return new_probe


@guarded
def load_probe(path: str | os.PathLike[str]) -> Probe:
    """The shots in the folder of a probe, `rf.probe(fn, path=…)` or `probe.save(path)`, which may still be growing.

    Every look reads the new ones: `rf.show(probe)`, `len(probe)`, `probe[-1]`.

    >>> probe = rf.probe(lambda: 7, every=1, path=folder / "probe")
    >>> loaded = rf.load_probe(folder / "probe")
    >>> probe.step()
    >>> loaded.steps, loaded[0].result
    ([1], 7)
    >>> probe.stop()

    Raises RunFileError if the folder does not exist.
    """
    path = Path(path)
    if not os.path.isdir(path):  # noqa: PTH112, no OSError for names that no folder can have
        near = [folder.name for folder in path.parent.iterdir() if folder.is_dir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, near) or "the folder exists after the first shot"
        raise RunFileError(f"load_probe: the folder {path} does not exist", hint=hint)
    return Probe(path)


def _remove(folder: Path, process: int) -> None:
    """Removes a temporary folder, but not in a forked process, such as a worker of a DataLoader."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _count(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= index(value) < MOST:
        raise ParameterError(f"probe: `{name}` must be a whole number", got=repr(value), expected=f"at least {least}")
    return index(value)


def _measure(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"probe: the measure {name!r} is not a number", got=f"{type(value).__name__}: {error_message(error)}"
        ) from error


class Followers:
    """The probes, one for each place in the code, and the number of training steps so far.

    count: says to an outer loop that a step of an inner one has been counted, so that a loop over epochs is none of
    training steps.
    """

    def __init__(self) -> None:
        self.count = 0
        self._probes: dict[Hashable, Probe] = {}

    def add(self, key: Hashable, probe: Probe) -> None:
        """Follows from now on; replaces the probe with the same key."""
        self._probes[key] = probe

    def remove(self, probe: Probe) -> None:
        """Follows no more."""
        self._probes = {key: follower for key, follower in self._probes.items() if follower is not probe}

    def after_step(self, before: int, name: str | None, measures: Callable[[], Mapping[str, float]]) -> None:
        """A step of an `rf.progress` called `name` is done; `before` is the count when it began.

        It is not a training step if an inner loop has counted since, or gradients are off.
        """
        if self.count != before or not _gradients():
            return
        self.count += 1
        for probe in list(self._probes.values()):
            if probe.loop in (None, name):
                probe.after_step(measures)


def _gradients() -> bool:
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


followers = Followers()
