"""Comparisons of loops of plain Python: what a run no longer has is told, and never agrees."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf


@pytest.fixture(autouse=True)
def without_runs():
    yield
    rf.runs.clear()


def losses(n, scale=1.0):
    h = torch.zeros(4)
    for i in range(n):
        h = h * 0.5 + i * scale
        loss = float(h.sum())
    return loss


def large(n, scale=1.0):
    h = torch.zeros(1000)
    for i in range(n):
        h = h * 0.5 + i * scale
    return h


def words(n, end="b"):
    word, rest = None, torch.zeros(1)
    for i in range(n):
        word = "a" if i < 2 else None if i < 3 else end
        rest = rest + i
    return word, rest


def recorded(loop, *args):
    with rf.record_loops(loop):
        loop(*args)
    return rf.runs[0]


@pytest.fixture
def short(monkeypatch):
    """Makes a run that has forgotten its oldest steps, and how many."""

    def make(*args):
        with monkeypatch.context() as patch:
            patch.setattr(rf.options, "trace_budget", 2**18)
            run = recorded(losses, *args)
        assert 1000 < run.replay.forgotten < 2990
        return run, run.replay.forgotten

    return make


def test_steps_that_a_run_has_forgotten_are_told_and_do_not_agree(short, tmp_path):
    run, count = short(3000)
    whole, other = recorded(losses, 3000), recorded(losses, 3000, 2.0)
    loaded = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert loaded.replay.kept_from == run.replay.kept_from and loaded.replay.forgotten == count
    told = f"{count:,} steps from 0 to {count - 1} were not compared: the {{}} no longer has them"
    for one, two, which in ((run, whole, "first"), (whole, loaded, "second")):
        compared = rf.compare(one, two)
        assert compared.notes == [told.format(which)] and not compared and compared.first is None
        assert "agree in the steps that were compared" in rf.show(compared).text
    assert rf.compare(run, loaded).notes == [told.replace("the {} no longer has", "both no longer have")]
    assert rf.compare(run, other).first.step == count and rf.compare(whole, other).first.step == 1
    assert rf.compare(whole, recorded(losses, 3000))


def test_values_of_which_only_statistics_are_left_do_not_agree(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(rf.options, "trace_budget", 2**16)
        run = recorded(large, 30)
    whole, other = recorded(large, 30), recorded(large, 30, 2.0)
    kept = run.replay.kept_from
    assert 5 < kept < 30 and run.replay.forgotten == 0
    for one, two in ((run, whole), (whole, run), (run, run)):
        compared = rf.compare(one, two)
        [value] = [value for value in compared.values if value.note]
        assert value.note == f"{kept} steps from 0 to {kept - 1} were not compared, as the value was not kept"
        assert value.name == "h" and compared.first is None and not compared
        assert "1 of 3 values cannot be compared, the others agree" in rf.show(compared).text
    assert rf.compare(run, other).first.step == kept and rf.compare(other, run).first.note


def test_texts_are_compared_and_other_kinds_differ():
    run, same, other = recorded(words, 6), recorded(words, 6), recorded(words, 6, "c")
    assert rf.compare(run, same)
    first = rf.compare(run, other).first
    assert (first.name, first.step, first.steps, first.a, first.b) == ("word", 3, 3, "'b'", "'c'")
    first = rf.compare(run, recorded(words, 6, 7)).first
    assert (first.name, first.step, first.a) == ("word", 3, "'b'")
