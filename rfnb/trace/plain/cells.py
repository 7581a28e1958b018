"""Cells of IPython whose plain loops are recorded: by `%%record_loops`, or all of them."""

from __future__ import annotations

import re
from typing import Any

from rfnb.core.ground.source import parsed
from rfnb.errors import ParameterError
from rfnb.printable import printable
from rfnb.trace.plain.iterations import last_iteration
from rfnb.trace.plain.record import record_loops
from rfnb.trace.plain.syntax import LOOPS, outside_of_functions
from rfnb.trace.run.options import options, recording_mode
from rfnb.trace.run.runs import runs
from rfnb.trace.run.session import store

MAGIC = re.compile(r"%%record_loops(?:[ \t]+(.*?))?\s*")


class Cells:
    """Records the loops of cells while they run.

    every: whether all cells are recorded from now on, or only those that say so.
    """

    def __init__(self) -> None:
        self.every = False
        self._recordings: list[record_loops] = []
        self._depth = 0  # of cells that run cells
        self._newest = 0  # the run before the cell
        self._hinted = False

    def follow(self, shell: Any) -> None:
        """Records cells of this shell, and gives it the magic; once."""
        if "record_loops" in shell.magics_manager.magics["cell"]:
            return
        shell.register_magic_function(self.record_rest, "line", "record_loops")
        shell.register_magic_function(_refuse, "cell", "record_loops")
        shell.input_transformer_manager.cleanup_transforms.insert(0, as_line_magic)
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)
        self._names = shell.user_ns

    def begin(self, info: Any) -> None:
        """A cell is about to run."""
        self._depth += 1
        if self._depth == 1:
            self._newest = max((run.serial for run in runs), default=0)
            if self.every and info.store_history:  # code that is not a cell is from tools
                every = record_loops()
                every.warns = False  # of cells without loops
                self._record(every)

    def end(self, result: Any) -> None:
        """A cell has ended."""
        self._depth = max(self._depth - 1, 0)
        if self._depth:
            return
        recorded = bool(self._recordings)
        while self._recordings:
            self._recordings.pop().__exit__(None, None, None)
        if not result.info.store_history:
            return
        new = [run for run in runs if run.serial > self._newest]
        error = getattr(result, "error_in_exec", None)
        if error is not None and not any(run.failed for run in new) and recording_mode():
            run = last_iteration(error, result.info.cell_id)
            if run is not None:
                store(run)
        elif options.record == "all" and not (new or recorded or self._hinted) and has_loop(result.info.raw_cell):
            self._hinted = True
            print(HINT)

    def record_rest(self, line: str) -> None:
        """Records the loops of plain Python in the rest of this cell: all of your code, or those of functions.

        As the first line of a cell, `%%record_loops` or `%%record_loops model.generate, module:function`.
        """
        functions = re.split(r"[,\s]+", line.partition("#")[0].strip())
        self._record(record_loops(*(self._function(text) for text in functions if text)))

    def _record(self, recording: record_loops) -> None:
        recording.__enter__()
        self._recordings.append(recording)

    def _function(self, text: str) -> Any:
        """What an argument of the magic stands for. Raises ParameterError."""
        if ":" in text:
            return text
        name, *attributes = text.split(".")
        try:
            value = self._names[name]
            for attribute in attributes:
                value = getattr(value, attribute)
        except (KeyError, AttributeError):
            raise ParameterError(
                f"%%record_loops: `{printable(text)}` is not defined",
                expected='functions or methods that the notebook has, or "module:function"',
                hint="without an argument, all loops of your code are recorded",
            ) from None
        return value


cells = Cells()
"""The cells of the shell that runs here."""

HINT = (
    'rf.recording("all") keeps the runs of rf.Loop. Plain Python loops are recorded by "for x in rf.steps(…):", '
    "or by %%record_loops in the first line of their cell."
)


def as_line_magic(lines: list[str]) -> list[str]:
    """Turns `%%record_loops` in the first line of a cell into a line magic, so that the cell runs as without it.

    >>> as_line_magic(["%%record_loops f\\n", "f(3)\\n"])
    ['%record_loops f\\n', 'f(3)\\n']
    """
    filled = [number for number, line in enumerate(lines) if line.strip()]
    magic = MAGIC.fullmatch(lines[filled[0]]) if filled else None
    if magic is None or (len(filled) > 1 and lines[filled[1]].startswith("%%")):
        return lines
    head = f"%record_loops {magic[1] or ''}".rstrip() + "\n"
    return [*lines[: filled[0]], head, *lines[filled[0] + 1 :]]


def _refuse(line: str, cell: str) -> None:
    """Records the loops of plain Python in this cell."""
    raise ParameterError(
        "%%record_loops: not a cell of Python",
        got=printable(cell.strip().partition("\n")[0]),
        expected="code of Python below it",
        hint="with rf.record_loops(): …",
    )


def has_loop(text: str) -> bool:
    """Whether a cell has a loop outside of its functions."""
    try:
        return any(isinstance(node, LOOPS) for node in outside_of_functions(parsed(text)))
    except (SyntaxError, ValueError):
        return False
