"""Pauses in plain Python: the variables of a training loop `for batch in rf.progress(loader):`, or of any code."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.nested import form_of, named_leaves
from rfnb.core.ground.source import Block, Source, parsed, user_frame
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.plain import plain_tensor
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.trace.pause.hold import Paused, Resume, can_hold, hold
from rfnb.trace.pause.pauses import pauses
from rfnb.trace.run.kept_steps import KeptSteps
from rfnb.trace.run.options import options
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import KEPT, StepText, StepValue

MOST = 64
"""Largest number of variables, and of parts of one variable, that a step shows."""


@dataclass(frozen=True)
class Scope:
    """Lines of the user's code, and the variables in them.

    lines: for each variable, the line that sets it last, or else the first one that reads it. set: those that are set.
    """

    source: Source
    block: Block
    lines: Mapping[str, int]
    set: Set[str]

    def variables(self, frame: FrameType) -> list[tuple[str, int, Any]]:
        """The numbers and tensors among the variables, each with its line.

        The parts of tuples, lists, dicts and dataclasses are named `x.0`, if the lines set them; a list that they only
        read may be all of the data.
        """
        found = []
        for name, line in self.lines.items():
            value = frame.f_locals.get(name, frame.f_globals.get(name))
            has_parts = form_of(type(value)) is not None and name in self.set
            parts = named_leaves(value, name) if has_parts else [(name, value)]
            found += [(part, line, leaf) for part, leaf in parts[:MOST] if _is_shown(leaf)]
        return found[:MOST]


def scope_of(frame: FrameType, kinds: tuple[type[ast.AST], ...]) -> Scope:
    """The innermost statement of these kinds around the line that runs now; without one, the whole cell or function."""
    source = Source(frame.f_code, frame.f_lasti)
    text = linecache.getlines(frame.f_code.co_filename)
    line, shift = frame.f_lineno, source.cell.skipped_lines if source.cell else 0
    try:
        tree: ast.AST = parsed("".join(text))
    except (SyntaxError, ValueError):
        tree = ast.Module([], [])
    around = [n for n in ast.walk(tree) if isinstance(n, kinds) and _first(n) <= line <= _last(n)]
    node = max(around, key=_first, default=tree)
    first, last = (1, len(text)) if node is tree else (_first(node), _last(node))
    lines: dict[str, int] = {}
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    assigned = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    for name in sorted(names, key=lambda n: n.lineno):
        if name.id not in lines or isinstance(name.ctx, ast.Store):
            lines[name.id] = name.lineno + shift
    block = Block(
        file=None if source.cell else source.file,
        cell_id=source.cell.cell_id if source.cell else None,
        cell_text=source.cell.text if source.cell else None,
        first_line=first + shift,
        lines=tuple(each.rstrip("\n") for each in text[first - 1 : last]),
    )
    return Scope(source, block, lines, assigned)


@dataclass
class VariableSteps(KeptSteps):
    """The variables after the last steps of plain Python code: they are kept, as nothing can be computed again.

    steps: how many steps were done. kept: the values of the last ones.
    """

    steps: int = 0
    kept: dict[int, list[StepValue]] = field(default_factory=dict)

    def add(self, step: int, values: list[StepValue]) -> None:
        """Adds a step, and forgets the oldest."""
        self.kept[step], self.steps = values, step + 1
        for old in sorted(self.kept)[: -options.keep]:
            del self.kept[old]

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The variables after a step, and whether it is one of those that are kept."""
        if step in self.kept:
            return self.kept[step], KEPT
        return [], f"only the last {len(self.kept)} steps are kept (rf.options.keep)"

    def texts(self, step: int) -> list[StepText]:
        """None: only tensors and numbers are kept."""
        return []

    def storages(self) -> dict[Any, int]:
        """The storages of the tensors."""
        raws = [value.tensor._raw for values in self.kept.values() for value in values]
        return dict(raw_registry.backend_of_raw(raw).storage_raw(raw) for raw in raws)

    @property
    def flags(self) -> list[str]:
        """Whether a variable is not finite now."""
        last = self.kept.get(self.steps - 1, [])
        bad = [v.name for v in last if not raw_registry.backend_of_raw(v.tensor._raw).is_finite_raw(v.tensor._raw)]
        return ["not finite"] if bad else []

    @property
    def begun(self) -> Size:
        """How many steps there were."""
        return Size([], self.steps)

    def state_names(self) -> list[str]:
        """Variables are values here, not states."""
        return []

    def loops(self, step: int) -> list[Run]:
        """The runs of loops inside a step are in the list of runs."""
        return []

    def state(self, name: str, step: int) -> NoReturn:
        """Raises LoopError."""
        raise LoopError(f"there is no state {name!r}: variables of Python code are values of a step")

    def stack(self, name: str, resolve: bool = True) -> NoReturn:
        """Raises LoopError: most steps are no longer there."""
        raise LoopError(f"{name!r} cannot be stacked: only the last steps of Python code are kept")


class ScopePauses:
    """Where plain Python code pauses, and the Run with the variables of its last steps.

    Args:
        name: what the code is called, as the name of a loop.
        kinds: the statements that it may be: see `scope_of`.
        ready: called before each pause.
    """

    def __init__(self, name: str, kinds: tuple[type[ast.AST], ...], ready: Callable[[], object] = lambda: None):
        self.name, self._kinds, self._ready = name, kinds, ready
        self._steps, self._axis = VariableSteps(), Dim(None, name="iterations")
        self._scope: Scope | None = None
        self._run: Run | None = None
        self._resume = Resume()
        self.is_off = False  # nobody can look

    def looks(self) -> bool:
        """Whether the next step has to be looked at."""
        if self.is_off or pauses.muted:
            return False
        return bool(pauses.asked or self._resume.until is not None or self._resume.tests or pauses.of(self.name))

    def after_step(self, step: int, frame: FrameType, why: str | None = None) -> None:
        """Pauses after a step if there is a reason, or for the reason `why`. Raises KeyboardInterrupt."""
        if self.is_off or pauses.muted or not (why or self.looks()):
            return
        self._scope = self._scope or scope_of(frame, self._kinds)
        with listening(None):
            self._steps.add(step, list(_values(self._scope.variables(frame))))
            run = self._run_until_now()
            reason = why or self._reason(run, step)
            if reason is not None:
                line = Source(frame.f_code, frame.f_lasti).line if why else None
                self._ready()
                resume = hold(Paused(run, step, reason, None, line))
                self._resume, self.is_off = resume or Resume(), resume is None

    def _run_until_now(self) -> Run:
        size = Size([], self._steps.steps)
        if self._run is None:
            assert self._scope is not None
            self._axis.bind(size)
            self._run = Run(
                name=self.name, place=self._scope.source.place(), source=self._scope.block, replay=self._steps,
                steps=self._steps.steps, axis=self._axis, size=size, graph=BodyGraph(),
            )  # fmt: skip
        else:
            self._run._take(self._steps, self._steps.steps, size)
        return self._run

    def _reason(self, run: Run, step: int) -> str | None:
        asked, until = pauses.answer(), self._resume.until
        if asked is not None:
            return asked
        if until is not None and step >= until:
            return self._resume.why
        at = run[step]
        for pause in pauses.of(self.name):
            if pause.holds(at):
                return pause.words
        met = any(condition.holds(at) for condition in self._resume.conditions)
        return self._resume.why if met else None


def pause_here() -> None:
    """Pauses at the line of the user's code that runs now, and shows its variables."""
    frame = user_frame()
    if frame is None:
        return
    waiting = _waiting.setdefault(frame.f_code, {})
    if frame.f_lineno not in waiting:
        name = frame.f_code.co_name
        waiting[frame.f_lineno] = ScopePauses("cell" if name == "<module>" else name, (ast.For, ast.While))
    here = waiting[frame.f_lineno]
    here.is_off = here.is_off and can_hold() != "yes"
    here.after_step(here._steps.steps, frame, f"rf.pause() in {Source(frame.f_code, frame.f_lasti).place()}")


_waiting: WeakKeyDictionary[Any, dict[int, ScopePauses]] = WeakKeyDictionary()
"""By code and line, the calls of `rf.pause()` outside of loops."""


def _values(variables: list[tuple[str, int, Any]]) -> Iterator[StepValue]:
    for name, line, value in variables:
        tensor = value if isinstance(value, Tensor) else plain_tensor(value)
        kept = tensor_of(_as_now(tensor._raw), tensor.sig, tensor.lengths)
        kept.name = name
        yield StepValue(name, type(value).__name__, line, kept)


def _as_now(raw: Any) -> Any:
    """The tensor without its graph; a number is copied, as code may add to it in place."""
    backend = raw_registry.backend_of_raw(raw)
    return backend.snapshot_raw(raw) if backend.get_shape_tuple_raw(raw) == () else backend.alias_raw(raw)


def _is_shown(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.raw_tensor is not None
    if isinstance(value, bool | int | float | np.generic | np.ndarray):
        return not isinstance(value, np.ndarray) or value.dtype.kind in "biufc"
    return isinstance(value, tuple(raw_registry.BACKENDS))


def _first(node: Any) -> int:
    return int(node.lineno)


def _last(node: Any) -> int:
    return int(node.end_lineno or node.lineno)
