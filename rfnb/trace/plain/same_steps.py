"""Whether the steps of a fork without edits are those of the loop that it continues: if not, something that no line of
the loop shows has changed since, such as a variable of a module that a function counts with."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.log import Entry, Summary
from rfnb.trace.plain.values import MAY, Kept, Opaque, Parts, tensors_in

CLOCKS = frozenset(
    "time perf_counter monotonic process_time time_ns now today uuid4 urandom id empty empty_like".split()
)
"""Names of functions whose results differ from call to call, and of memory that is not set."""


class StepDifference(NamedTuple):
    """The first value that differs: of a variable, or None if other lines ran, or if there is an error."""

    step: int
    line: int
    name: str | None
    error: str | None = None

    def __str__(self) -> str:
        what = self.error or ("other lines run" if self.name is None else f"`{self.name}` differs")
        return f"step {self.step} does not come back as it was: {what} at line {self.line}"


def difference(loop: Iterations, own: Iterations, at: int, whole: bool) -> StepDifference | None:
    """The first difference between the iterations of a loop from one on, and those of its fork; None if there is none.

    whole: the fork has run to its end. Values that are not kept, and variables that only one of them follows, are not
    compared.
    """
    end = len(loop.starts)
    if loop.forked_at is not None and at < loop.forked_at:  # it is a fork itself, with edits
        end, whole = loop.forked_at, False
    failed = own.failed
    if failed is not None and at + failed.step < end and (loop.failed is None or loop.failed.step != at + failed.step):
        return StepDifference(at + failed.step, failed.line or own.text.first, None, failed.error.partition("\n")[0])
    count, compared = min(len(own.starts), end - at), dict[tuple[int, int], int]()
    for step in range(count):
        before = _by_place(loop, at + step)
        for (name, line), entries in _by_place(own, step).items():
            if not all(
                is_equal(a.kept, b.kept, compared) for a, b in zip(before.get((name, line), ()), entries, strict=False)
            ):
                return StepDifference(at + step, line, name)
        if step < count - 1 and _statements(loop, at + step) != _statements(own, step):
            return StepDifference(at + step, own.text.first, None)
    if whole and len(own.starts) != end - at:
        return StepDifference(at + count, own.text.first, None)
    return None


def _by_place(loop: Iterations, step: int) -> dict[tuple[str, int], list[Entry]]:
    """What an iteration assigned, by variable and line."""
    places: dict[tuple[str, int], list[Entry]] = {}
    for entry in loop.entries(step):
        places.setdefault((entry.name, entry.line), []).append(entry)
    return places


def _statements(loop: Iterations, step: int) -> list[int]:
    return loop.log.statements[loop.ran[step] : loop.ran[step + 1]]


def has_other_devices(loop: Iterations, step: int) -> bool:
    """Whether tensors are not in the memory of the CPU, on which alone the same numbers come back bit for bit."""
    parts = [part for entry in loop.before(step).values() for part in tensors_in(entry.kept)]
    return any(part.backend is not None and part.backend.get_device_raw(part.raw) != "cpu" for part in parts)


def is_equal(a: Any, b: Any, compared: dict[tuple[int, int], int]) -> bool:
    """Whether two values are the same bit for bit, as far as both are kept.

    compared: by the `id` of two containers, or of what values of lists that grow share, how many first parts are the
    same.
    """
    if isinstance(a, Kept) and isinstance(b, Kept):
        if a.note == MAY or b.note == MAY or a.changed() or b.changed():
            return True
        if a.backend is not None and a.backend is b.backend:
            same_dtype = a.backend.get_dtype_name_raw(a.raw) == a.backend.get_dtype_name_raw(b.raw)
            return same_dtype and bool(a.backend.same_raw(a.raw, b.raw))
        return is_equal(a.value, b.value, compared)
    a, b = (value.value if isinstance(value, Kept) else value for value in (a, b))
    if any(isinstance(value, Opaque | Summary) for value in (a, b)):
        return True
    if isinstance(a, Parts) and isinstance(b, Parts):
        if a.kind is not b.kind or a.length != b.length:
            return False
        key = id(a.growth or a), id(b.growth or b)
        at = compared.get(key, 0)
        items = zip(a.items[at:], b.items[at:], strict=True)
        same = issubclass(a.kind, set | frozenset) or all(is_equal(x, y, compared) for x, y in items)
        compared[key] = max(at, a.length) if same else at
        return same
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and (a.dtype.hasobject or a.tobytes() == b.tobytes())
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return isinstance(a, type) or bool(a == b) or bool(a != a)
