"""The README's examples run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import rfnb as rf

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLE, CHECKS, TRAVEL, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_sums_up():
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    sums, axis = names["sums"], names["sums"].dims.index(names["time"])
    assert sums.raw_tensor.select(axis, 0).tolist() == [3.0, 2.0, 1.0]
    assert sums.raw_tensor.select(axis, 2)[0].item() == 8.0


def test_the_checks_find_what_they_are_shown_for():
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    *definition, padding, finite, explain = CHECKS.strip().splitlines()
    exec("\n".join(definition), names)
    assert eval(padding, names).first.event.op == "reduce_mean"
    assert eval(finite, names).first.event.op == "mul"
    assert "in each step" in repr(eval(explain, names))


def test_the_run_of_the_example_is_searched_forked_and_saved(tmp_path, monkeypatch):
    names: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)
    with rf.recording("last"):
        exec(EXAMPLE, names)
    run, find, fork, compare, save = TRAVEL.strip().splitlines()
    exec(run, names)
    assert eval(find, names) == [1, 2, 3]
    exec(fork, names)
    assert eval(compare, names).first.step == 0
    exec(save, names)
    assert rf.load_run("sum.rfrun").steps == 4
