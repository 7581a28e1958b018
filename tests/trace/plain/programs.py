"""Random loops of plain Python, each as a text that is recorded and one that takes deep copies of its variables."""

from __future__ import annotations

import copy
import importlib.util
import random
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from rfnb.trace.plain.containers import attributes_in
from rfnb.trace.plain.log import Summary
from rfnb.trace.plain.values import MAY, Kept, Opaque, Parts

HEAD = """from dataclasses import dataclass

import numpy as np
import torch


class Stop(Exception):
    pass


@dataclass
class Record:
    h: object
    items: list


class Box:
    def __init__(self, h):
        self.h, self.n, self.items, self.table = h, 0, [], {}

    def step(self, x):
        self.h = self.h + x
        self.n += 1


def grow(items, x):
    items.append(x)


def touch(items, n):
    items[n % len(items)][0] = n


def program(w, snap):
    a, b, n, k = torch.ones(3), torch.arange(3.0), 1, 0
    items, table, array, word = [], {}, np.zeros(3), "x"
    nested, same = [[], []], a
    o, boxes = Box(b), [Box(a), Box(1)]
    tensors, deep = [torch.zeros(2), torch.ones(2)], {"x": {"y": [n]}, "t": torch.ones(2)}
    many, grid = [[i] for i in range(40)], {i: [i, [i]] for i in range(30)}
    arrays = [np.zeros(2) for _ in range(70)]
    record, big = Record(torch.zeros(2), []), np.zeros(9000)
    outputs, counts = [torch.ones(2) * i for i in range(20)], []
    with torch.inference_mode():
        quiet = torch.zeros(20000)
"""

SIMPLE = [
    "a = torch.tanh(a @ w + b)",
    "b = b + n",
    "a = b",
    "a += 1",
    "b.mul_(0.5)",
    "a[0] = n",
    "b = a[:2].sum() + b",
    "n = n + 1",
    "n, k = k + 1, n",
    "k = (n := n + 2) % 5",
    "items.append(n)",
    "grow(items, n)",
    "items = items + [k]",
    "items[:1] = []",
    "nested[n % 2].append(k)",
    "table[n % 3] = a",
    "table.clear()",
    "table = dict(table)",
    "array += n",
    "array = array + 1",
    "array[0] = k",
    'word = word + "y"',
    "same = a",
    "same.add_(1)",
    "a = a.clone()",
    "a, b = b, a",
    "[k, *_] = [n, k, k]",
    "k = sum(i for i in range(n % 4))",
    "items = [i + 1 for i in items]",
    "a = torch.where(a > 0, a, b); n = n + 1",
    "a = torch.stack(\n{pad}    [\n{pad}        a,\n{pad}        b,\n{pad}    ]\n{pad}).sum(0)",
    "pass",
    "assert n is not None",
    "del k; k = 3",
    "view = a.view(3); view.add_(0.5)",
    "row = array[:2]; row += 1",
    "a.data.add_(1)",
    "b.detach().mul_(2)",
    "shared = b.numpy(); shared += 1",
    "array = b.numpy()",
    "b = torch.from_numpy(np.ones(3, dtype=np.float32))",
    "with torch.inference_mode(): a = a + 1; a.add_(1)",
    "o.h = torch.tanh(o.h)",
    "o.h += 1",
    "o.h.mul_(0.5)",
    "o.n += k",
    "o.n, k = k, o.n",
    "o.step(a)",
    "[box.step(n) for box in boxes]",
    "o.items.append(n)",
    "grow(o.items, o.h)",
    "o.table[n % 3] = o.h",
    "other = o; other.h = a",
    "o = Box(a)",
    "boxes[n % 2].h = n",
    "boxes[0].h = boxes[0].h + n",
    "boxes[-1].n += n",
    "box = boxes[n % 2]; box.h = box.h * 2",
    "row = o.h.view(3)[:2]; row.add_(1)",
    "o.h.data.add_(1)",
    "tensors[n % 2].add_(1)",
    "tensors[0] += n",
    "tensors.append(torch.ones(2))",
    "tensors[-1].view(2)[:1].add_(k)",
    "tensors = [t + 1 for t in tensors]",
    "deep['x']['y'].append(n)",
    "deep['t'] = torch.full((2,), float(n))",
    "deep['t'].mul_(2)",
    "inside = deep['x']; inside['y'] = [k]",
    "record.h = torch.full((2,), float(k))",
    "record.h += 1",
    "record.items.append(k)",
    "record = Record(a, [n])",
    "part = a.view(3)[1:]; part.view(2).add_(1)",
    "touch(many, n)",
    "touch(many, n)",
    "k = k + many[n % 40][0]",
    "k = len(many)",
    "grow(many, [n])",
    "grow(many[n % 40], k)",
    "many[0] = [k]",
    "touch(grid, k)",
    "k = grid[1][0] + len(grid)",
    "grow(grid[3][1], n)",
    "touch(arrays, k)",
    "k = k + int(arrays[2].sum())",
    "arrays[n % 70] += 1",
    "row = arrays[1]; row[1] = k",
    "outputs.append(b)",
    "outputs.append(a + n)",
    "grow(outputs, torch.full((2,), float(n)))",
    "outputs += [a]",
    "outputs = [*outputs, b]",
    "outputs[n % 20] = b",
    "outputs[-1].add_(1)",
    "outputs.pop(); outputs.append(a * 2)",
    "counts.append(n); counts.append(k)",
    "grow(counts, n + 1000)",
    "counts[len(counts) // 2 :] = [n, k + 1000]",
    "big[n] = k",
    "alias = big; alias[0] += 1",
    "half = big[:4500]; half += 1",
    "big = big + 1",
    "with torch.inference_mode(): quiet.add_(1)",
    "with torch.inference_mode(): few = quiet[:10]; few.add_(n)",
]


class Writer:
    """Writes a random function; each loop has at most a few iterations."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.loops = 0
        self.lines: list[str] = []

    def line(self, depth: int, text: str) -> None:
        pad = "    " * depth
        self.lines.append(pad + text.replace("{pad}", pad))

    def block(self, depth: int, loops: int, in_loop: bool) -> None:
        """A few statements."""
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, loops, in_loop)

    def statement(self, depth: int, loops: int, in_loop: bool) -> None:
        kind = self.random.random()
        if depth > 5 or kind < 0.62:
            self.line(depth, self.random.choice(SIMPLE))
        elif kind < 0.8 and loops < 3:
            self.loop(depth, loops)
        elif kind < 0.88:
            self.line(depth, f"if n % {self.random.randint(2, 3)}:")
            self.block(depth + 1, loops, in_loop)
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1, loops, in_loop)
        elif kind < 0.94:
            self.line(depth, "try:")
            self.block(depth + 1, loops, in_loop)
            self.line(depth + 1, f"if n % {self.random.randint(2, 4)} == 0:")
            self.line(depth + 2, 'raise Stop("no")')
            if self.random.random() < 0.3:
                self.line(depth, "except Stop as error: n = n + 1; b = a + n")
            else:
                self.line(depth, "except Stop as error:")
                self.block(depth + 1, loops, in_loop)
            if self.random.random() < 0.3:
                self.line(depth, "finally:")
                self.block(depth + 1, loops, False)
        elif self.random.random() < 0.3:
            self.line(depth, f"match n % {self.random.randint(2, 4)}:")
            self.line(depth + 1, "case 0: k = n; a.add_(1)")
            self.line(depth + 1, "case k if k == 1: b = b + k")
            self.line(depth + 1, "case _:")
            self.block(depth + 2, loops, False)
        elif in_loop:
            self.line(depth, f"if n % {self.random.randint(2, 5)} == 1:")
            self.line(depth + 1, self.random.choice(["break", "continue"]))
        else:
            self.line(depth, "with torch.no_grad():")
            self.block(depth + 1, loops, False)

    def loop(self, depth: int, loops: int) -> None:
        number, steps = self.loops, self.random.randint(0, 4)
        self.loops += 1
        t = f"t{number}"
        header = self.random.choice(
            [
                f"for {t} in range({steps}):",
                f"for {t}, _ in zip(\n{{pad}}    range({steps}),\n{{pad}}    [1, 2, 3, 4, 5],\n{{pad}}):",
                "while True:",
                f"while {t} < {steps}:",
                f"while ({t} := {t} + 1) <= {steps}:",
            ]
        )
        counted = header.startswith("while")
        if counted:
            self.line(depth, f"{t} = 0")
        self.line(depth, header)
        self.line(depth + 1, f"snap({number}, dict(locals()))")
        if header == "while True:":
            self.line(depth + 1, f"{t} += 1")
            self.line(depth + 1, f"if {t} > {steps}:")
            self.line(depth + 2, "break")
        elif counted and ":=" not in header:
            self.line(depth + 1, f"{t} = {t} + 1")
        self.block(depth + 1, loops + 1, True)
        if self.random.random() < 0.2:
            self.line(depth, "else:")
            self.block(depth + 1, loops, False)

    def text(self) -> str:
        self.loop(1, 0)
        self.block(1, 0, False)
        self.line(1, "return a, b, n, k, items, table, array, word")
        return HEAD + "\n".join(self.lines) + "\n"


def module(text: str, file: Path) -> ModuleType:
    """A text as a module of its own."""
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def programs(seed: int, folder: Path) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The function that is recorded, without calls of `snap`, and the one with them."""
    text = Writer(seed).text()
    plain = "\n".join(line for line in text.split("\n") if not line.strip().startswith("snap("))
    return module(plain, folder / f"plain{seed}.py").program, module(text, folder / f"snapped{seed}.py").program


OBJECTS = ("o", "other", "box", "boxes")
"""Variables whose attributes are compared, in place of the objects."""


class Snapshots:
    """Deep copies of the variables at the beginning of each iteration, by loop, in the order in which loops end."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, dict[str, Any]]] = []

    def __call__(self, loop: int, names: dict[str, Any]) -> None:
        kept = {k: v for k, v in names.items() if k not in ("snap", "w", "error", "_", *OBJECTS)}
        boxes = {"o": names["o"], "boxes[0]": names["boxes"][0], "boxes[-1]": names["boxes"][-1]}
        kept |= {f"{box}.{k}": v for box, owner in boxes.items() for k, v in vars(owner).items()}
        kept |= {f"box.{k}": v for k, v in vars(names["box"]).items()} if "box" in names else {}
        self.begun.append((loop, copy.deepcopy({k: v for k, v in kept.items() if not isinstance(v, Exception)})))


def equal(a: Any, b: Any) -> bool:
    """Whether two values are the same, bit for bit; NaN equals NaN."""
    if isinstance(a, torch.Tensor | np.ndarray):
        if type(a) is not type(b) or a.shape != b.shape:
            return False
        x, y = (np.asarray(v.detach() if isinstance(v, torch.Tensor) else v) for v in (a, b))
        return x.dtype == y.dtype and x.tobytes() == y.tobytes()
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if is_dataclass(a):
        return is_dataclass(b) and equal(dict(attributes_in(a)), dict(attributes_in(b)))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(map(equal, a.values(), b.values()))
    return type(a) is type(b) and bool(a == b)


LOST = object()


def restored(value: Any) -> Any:
    """A kept value as an object of Python; LOST where it is marked."""
    if not isinstance(value, Kept | Parts | Summary | Opaque):
        return value
    if isinstance(value, Kept):
        if value.changed() or value.note == MAY:
            return LOST
        return restored(value.value) if isinstance(value.value, Parts | Opaque | Summary) else value.value
    if not isinstance(value, Parts):
        return LOST
    items = [restored(item) for item in value.items]
    if any(item is LOST for item in items):
        return LOST
    if is_dataclass(value.kind) and not issubclass(value.kind, dict):
        again = object.__new__(value.kind)
        for name, item in zip(value.keys or (), items, strict=True):
            object.__setattr__(again, name, item)
        return again
    if issubclass(value.kind, dict):
        return dict(zip(value.keys or (), items, strict=True))
    return value.kind(*items) if value.keys else value.kind(items)


def of_entry(entry: Any) -> Any:
    """The value of an entry as an object of Python."""
    return restored(entry.value if entry.version is None else Kept.of_raw(entry.value, entry.version))
