"""Writes run files and, as `facts.json`, what they show: `python -m tests.trace.make_saved format1`.

The files of a format stay as they were written by a version of rfnb that wrote this format; later versions read them.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rfnb as rf
from rfnb.trace.run.run import Run

FOLDER = Path(__file__).parent / "saved"


def with_end() -> Run:
    """Labels until the end of each sequence; a state that no sequence has."""
    vocab = rf.Dim(4, name="vocab", vocab=["a", "b", "c", "<eos>"])
    time = rf.Dim(None, name="time")
    loop = rf.Loop(max_seq_len=6, axis=time, name="spell", debug=True)
    loop.state.label = rf.convert_to_tensor([0, 2], dims=[rf.batch_dim], sparse_dim=vocab)
    loop.state.count = rf.zeros([], dtype="int64")
    with loop:
        nearest = rf.one_hot(loop.state.label) * 2.0
        label = rf.minimum(rf.cast(loop.state.label, "int64") + 1, 3)
        loop.state.label = rf.set_sparse_dim(label, vocab)
        loop.state.count = loop.state.count + 1
        scores = loop.stack(nearest)
        loop.end(loop.state.label == 3, include_eos=True)
    assert scores.dims
    return loop.run


def with_last() -> Run:
    """The last of a value that is not a state, and of a state as it was before the step."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0]], dims=[rf.batch_dim, time], tags=["kiwi", "plum"])
    loop = rf.Loop(axis=time, name="lasts", debug=True)
    loop.state.h = rf.zeros([rf.batch_dim])
    with loop:
        x_t = loop.unstack(x)
        before = loop.state.h
        tenfold = x_t * 10.0
        loop.state.h = before + x_t
        loop.last(tenfold)
        loop.last(before)
    return loop.run


def with_inner() -> Run:
    """A loop in a loop: it has an `end`, states, and something that `last` and `stack` give."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0]], dims=[rf.batch_dim, time])
    outer = rf.Loop(axis=time, name="outer", debug=True)
    outer.state.s = rf.zeros([rf.batch_dim])
    steps = rf.Dim(3, name="steps")
    with outer:
        x_t = outer.unstack(x)
        inner = rf.Loop(max_seq_len=4, name="inner")
        inner.state.k = x_t
        with inner:
            doubled = inner.state.k * 2.0
            inner.state.k = doubled
            final = inner.last(doubled + 1.0)
            inner.end(doubled > 9.0, include_eos=True)
        three = rf.Loop(axis=steps, max_seq_len=3, name="three")
        three.state.k = x_t
        with three:
            three.state.k = three.state.k + 1.0
            each = three.stack(three.state.k)
        total = rf.reduce_sum(each, axis=steps)
        outer.state.s = outer.state.s + final + inner.state.k + total
    return outer.run


def failed() -> Run:
    """A run that ended with an error in step 2."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, -3.0, 4.0]], dims=[rf.batch_dim, time])
    loop = rf.Loop(axis=time, name="roots", debug=True)
    loop.state.s = rf.zeros([rf.batch_dim])
    try:
        with loop:
            x_t = loop.unstack(x)
            rf.assert_(rf.reduce_all(x_t > 0, axis=rf.batch_dim), "negative")
            root = rf.sqrt(x_t)
            loop.state.s = loop.state.s + root
    except Exception as error:
        assert "negative" in str(error)
    return loop.run


def forked() -> Run:
    """A fork, with the run that it goes on from."""
    return with_end().fork(1, label=[0, 0])


def _numbers(rate: float) -> None:
    total, flag, h, pair, last = 0, False, torch.zeros(2), [1, 2], None
    for i in range(5):
        h = h * rate + i
        total = total + (i if i < 2 else 0.5)
        flag = i % 2 == 0
        pair = [i, i + 1] if i < 3 else (0.5, float(i))
        last = {"i": i, "word": "ab"[i % 2], "none": None} if i else None
        buffer = torch.zeros(2)
        buffer += i
        hidden = (h, buffer)
        total, flag, pair, last, hidden = total, flag, pair, last, hidden


def _texts(ends: str) -> None:
    words, rest, outputs = [], [], []
    for i in range(5):
        word = ends[i % 2]
        words.append(word)
        rest.append((word, i))
        outputs.append(torch.full((2,), float(i)))


def plain(loop: Callable[..., Any], value: Any) -> Run:
    """The run of a loop of plain Python."""
    with rf.record_loops(loop):
        loop(value)
    return rf.runs[0]


MAKERS: dict[str, Callable[[], Run]] = {
    "end": with_end,
    "last": with_last,
    "inner": with_inner,
    "failed": failed,
    "fork": forked,
}


PLAIN: dict[str, Callable[[], Run]] = {"numbers": lambda: plain(_numbers, 0.5), "texts": lambda: plain(_texts, "ab")}
"""Loops of plain Python, which older formats write in another way."""


def variables(run: Run) -> dict[str, Any]:
    """What a run of plain Python has after each step, as plain data."""
    names = run.replay.variable_names()
    return {
        "variables": {name: [_tried(lambda step=step, name=name: step[name]) for step in run] for name in names},
        "texts": [step.texts() for step in run],
        "before": {name: [_plain(step.before[name]) for step in run] for name in run.states},
    }


def _tried(read: Callable[[], Any]) -> Any:
    try:
        value = read()
    except rf.errors.LoopNameError as error:
        return error.what
    return _plain(value) if isinstance(value, rf.Tensor) else str(value)


def facts(run: Run) -> dict[str, Any]:
    """What a loaded run shows, as plain data."""
    steps = range(run.steps + (run.failed is not None))
    return {
        "name": run.name,
        "steps": run.steps,
        "lengths": run.lengths,
        "begun": run.begun.values.tolist(),
        "ends": run.ends,
        "flags": run.flags,
        "failed": None if run.failed is None else run.failed._asdict(),
        "tags": None if run.tags is None else list(run.tags),
        "states": {
            name: [_plain(run.replay.state(name, step)) for step in range(run.steps + 1)] for name in run.states
        },
        "values": [[[v.name, v.op, v.line, _plain(v.tensor)] for v in run[step].values()] for step in steps],
        "ops": [[[op.name, op.op, op.text, len(op.inputs)] for op in run[step].ops()] for step in steps],
        "checks": [run[step].check for step in steps],
        "parent": None if run.parent is None else facts(run.parent),
        **(variables(run) if run.graph.values == [] else {}),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, rf.Tensor):
        return [value.describe_dims(), value.dtype, value.raw_tensor.tolist()]
    return value


if __name__ == "__main__":
    folder = FOLDER / sys.argv[1]
    folder.mkdir(parents=True)
    warnings.simplefilter("ignore")
    for name, make in (MAKERS | PLAIN).items():
        torch.manual_seed(0)
        make().save(folder / f"{name}.rfrun")
    shown = {name: facts(rf.load_run(folder / f"{name}.rfrun")) for name in MAKERS | PLAIN}
    (folder / "facts.json").write_text(json.dumps(shown, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
