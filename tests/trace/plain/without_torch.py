"""Runs tests of recorded loops where neither torch, numpy nor pytest is installed, and prints their problems as JSON.

A small tensor with a counter of changes stands for those of torch.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
SEEDS = 60


class Anything:
    """Has all attributes, and can be called: also as a decorator, which gives back the function."""

    def __getattr__(self, name: str) -> Anything:
        return self

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and isinstance(args[0], types.FunctionType) and not options else self


class Raises(contextlib.AbstractContextManager[None]):
    """The part of `pytest.raises` that is used."""

    def __init__(self, kind: type[BaseException], match: str = ""):
        self._kind, self._match = kind, match

    def __exit__(self, kind: Any, error: Any, place: Any) -> bool:
        assert kind is not None and issubclass(kind, self._kind) and re.search(self._match, str(error))
        return True


class Named(type):
    """A class that has a class by each name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kind = Named(name, (), {"__class_getitem__": classmethod(lambda cls, item: cls)})
        setattr(cls, name, kind)
        return kind


class Classes(types.ModuleType):
    """A module that has a class by each name."""

    def __getattr__(self, name: str) -> Any:
        setattr(self, name, getattr(Named(self.__name__, (), {}), name))
        return self.__dict__[name]


class Storage:
    """Numbers, and how often they were changed."""

    def __init__(self, numbers: list[float]):
        self.numbers, self.version = numbers, 0


class StandIn:
    """A tensor with one axis. Views share its memory, and count its changes."""

    def __init__(self, numbers: list[float], storage: Storage | None = None, places: range | None = None):
        self._storage = storage or Storage(list(numbers))
        self._places = range(len(self._storage.numbers)) if places is None else places

    @property
    def _version(self) -> int:
        return self._storage.version

    @property
    def nbytes(self) -> int:
        return 8 * len(self._places)

    def tolist(self) -> list[float]:
        return [self._storage.numbers[place] for place in self._places]

    def clone(self) -> StandIn:
        return StandIn(self.tolist())

    def view(self) -> StandIn:
        return StandIn([], self._storage, self._places)

    def __getitem__(self, places: slice) -> StandIn:
        return StandIn([], self._storage, self._places[places])

    def __setitem__(self, place: int, number: float) -> None:
        self._storage.numbers[self._places[place]] = number
        self._storage.version += 1

    def _write(self, numbers: list[float]) -> StandIn:
        for place, number in zip(self._places, numbers, strict=True):
            self._storage.numbers[place] = number
        self._storage.version += 1
        return self

    def add_(self, other: Any) -> StandIn:
        return self._write((self + other).tolist())

    def mul_(self, number: float) -> StandIn:
        return self._write([x * number for x in self.tolist()])

    __iadd__ = add_

    def __add__(self, other: Any) -> StandIn:
        others = other.tolist() if isinstance(other, StandIn) else [other] * len(self._places)
        return StandIn([x + y for x, y in zip(self.tolist(), others, strict=True)])

    def __eq__(self, other: object) -> Any:
        return isinstance(other, StandIn) and self.tolist() == other.tolist()

    __hash__ = object.__hash__


class Backend:
    """What the recorder asks of a kind of tensors."""

    name = "stand-in"
    unobserved = contextlib.nullcontext
    is_observed = staticmethod(int)
    version_raw = counted_version_raw = current_version_raw = staticmethod(lambda raw: raw._version)
    plain_version_raw = staticmethod(lambda raw: (raw._version, raw.nbytes, False) if type(raw) is StandIn else None)
    counts_changes_raw = is_readable_raw = is_on_host_raw = staticmethod(lambda raw: True)
    needs_gradient_raw = is_leaf_raw = keeps_more_raw = staticmethod(lambda raw: False)
    hides_changes = staticmethod(lambda *values: False)
    alias_raw = staticmethod(StandIn.view)
    snapshot_raw = staticmethod(StandIn.clone)
    same_raw = equal_raw = staticmethod(StandIn.__eq__)
    nbytes_raw = staticmethod(lambda raw: raw.nbytes)
    storage_raw = staticmethod(lambda raw: (id(raw._storage), raw.nbytes))
    layout_raw = staticmethod(lambda raw: (id(raw._storage) + 8 * raw._places.start, (8,)))
    get_modes = staticmethod(dict)

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"the recorder asks for {name}")


HEAD = """
from contextlib import nullcontext


class Stop(Exception):
    pass


class Box:
    def __init__(self, h):
        self.h, self.n = h, 0

    def step(self, x):
        self.h = self.h + x
        self.n += 1


def grow(items, x):
    items.append(x)


def program(w, snap):
    a, b, n, k = w + 0, w + 1, 1, 0
    items, table, word, same = [], {}, "x", a
    nested, o = [[], []], Box(b)
    boxes = [o, Box(1)]
"""
LINES = """a = a + b
b = b + n
a += 1
b.mul_(0.5)
a[0] = n
n = n + 1
n, k = k + 1, n
k = (n := n + 2) % 5
items.append(n)
grow(items, a)
items = [*items, k]
items[:1] = []
nested[n % 2].append(k)
table[n % 3] = a
table.clear()
same = a
same.add_(1)
a = a.clone()
a, b = b, a
k = sum(i for i in range(n % 4))
items = [i for i in items if i is not a]
pass
del k; k = 3
view = a.view(); view.add_(0.5)
row = b[:2]; row += 1
o.h = o.h + 1
o.h.mul_(0.5)
o.n += k
o.step(n)
[box.step(n) for box in boxes]
word = word + "y"
k = max(n, k)"""


def prepare() -> None:
    """Makes stand-ins for what is not installed, and `rfnb` a package of which parts can be imported."""
    torch = Classes("torch")
    torch.__dict__["no_grad"] = contextlib.nullcontext
    examples = types.ModuleType("tests.examples")
    examples.__dict__["FACTOR"] = 1.0
    package = types.ModuleType("rfnb")
    package.__path__ = [str(ROOT / "rfnb")]
    pytest: Any = Anything()
    pytest.raises = Raises
    pytest.mark = Anything()
    pytest.mark.skipif = lambda condition, reason: lambda test: test.__dict__.update(skipped=condition) or test
    numpy = Classes("numpy")
    numpy.random.get_state = lambda legacy: {}
    stand_ins = {"numpy": numpy, "torch": torch, "tests.examples": examples, "pytest": pytest}
    generators = types.ModuleType("rfnb.backend.torch.random")
    generators.__dict__["global_generators"] = list
    sys.modules |= {**stand_ins, "rfnb": package, generators.__name__: generators}
    from rfnb.core.ground import backends
    from rfnb.trace.plain import generators as others

    others._look = others.torch_memory = lambda: None  # there is no memory of their generators
    backends.register_backend_by_tensor_type(StandIn, Backend())
    backends.select(backends.get_backend_by_raw_tensor_type(StandIn))


def random_program(seed: int, folder: Path) -> None:
    """A random program with stand-ins is recorded as deep copies say."""
    from rfnb.trace.plain.recorder import FrameRecorder
    from tests.trace.plain import programs, test_recorder as cases

    failures: list[Exception] = []
    FrameRecorder._give_up = lambda recorder, error: failures.append(error)  # type: ignore[method-assign]
    programs.HEAD, programs.SIMPLE[:] = HEAD, LINES.splitlines()
    writer = programs.Writer(seed)
    writer.random = random.Random(seed)
    plain, snapped = programs.programs(seed, folder)
    snapshots = programs.Snapshots()
    expected = cases.outcome(snapped, StandIn([0.0, 1.0, 2.0]), snapshots)
    result, loops = cases.record_of(plain, StandIn([0.0, 1.0, 2.0]))
    for error in failures:
        raise error
    assert bool(loops) == bool(snapshots.begun)
    assert cases.equal(result, expected), (result, expected)
    cases.compare(loops, snapshots)


def corpus(name: str, newer: Any) -> None:
    """A program of the corpus is recorded as it runs."""
    from rfnb.trace.plain import events, recorder as recording
    from tests.trace.plain.loop_cases import difference

    recording.make_events = lambda chosen, begin, warn: events.make_events(chosen, begin, warn, newer)  # type: ignore
    problem = difference(name)
    assert problem is None, problem


def main() -> None:
    """Runs all, and prints a line of JSON."""
    prepare()
    from rfnb.trace.plain.events import Monitoring, Tracing
    from tests.trace.plain import test_events
    from tests.trace.plain.loop_cases import PROGRAMS

    runs: dict[str, Callable[[], Any]] = {}
    for name, test in vars(test_events).items():
        names = test.__code__.co_varnames[: test.__code__.co_argcount] if name.startswith("test_") else None
        if names == ("kind",):
            runs |= {f"{name}, {kind.__name__}": partial(test, kind) for kind in (Monitoring, Tracing)}
        elif names == () and not getattr(test, "skipped", False):
            runs[name] = test
    for name in PROGRAMS:
        runs[f"{name}, by sys.monitoring"] = partial(corpus, name, Monitoring)
        runs[f"{name}, by sys.settrace"] = partial(corpus, name, None)
    folder = Path(tempfile.mkdtemp())
    for seed in range(SEEDS):
        runs[f"program {seed}"] = partial(random_program, seed, folder)
    problems = {}
    for name, run in runs.items():
        try:
            run()
        except BaseException:
            problems[name] = traceback.format_exc()[-1500:]
    print(json.dumps({"version": sys.version[:4], "ran": len(runs), "problems": problems}))
