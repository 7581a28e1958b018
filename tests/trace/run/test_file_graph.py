"""The graph of a saved run: kinds of nodes are in the file; those of older files are found by their ops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb.trace.run.file.dims import DimReader
from rfnb.trace.run.file.load import read_graph

BEFORE_KINDS = Path(__file__).parents[1] / "saved" / "graph_every_kind.rfrun"
"""Saved by rfnb 0.1.0 before nodes had kinds: a run of `every_kind`."""


def every_kind():
    rf.set_random_seed(1)
    time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    x = rf.convert_to_tensor([[[1.0, 2, 3], [4, 5, 6]], [[7, 8, 9]]], dims=[rf.batch_dim, time, feat])
    linear = rf.Linear(feat, rf.Dim(2, name="out"))
    loop = rf.Loop(axis=time, debug=True)
    loop.state.total = rf.zeros([rf.batch_dim, linear.out_dim])
    with loop:
        frame = loop.unstack(x)
        mapped = linear(frame)
        inner = rf.Loop(max_seq_len=2)
        inner.state.power = mapped
        with inner:
            inner.state.power = inner.state.power * 0.5
        chosen = rf.cond(loop.iter_idx > 0, lambda: rf.tanh(mapped), lambda: mapped - 1.0)
        loop.state.total = loop.state.total + chosen + inner.state.power
    return loop.run


@pytest.fixture
def runs(tmp_path):
    """The run as it was recorded, saved and loaded now, and loaded from the file of before."""
    run = every_kind()
    return run, rf.load_run(run.save(tmp_path / "now.rfrun")), rf.load_run(BEFORE_KINDS)


def test_kinds_are_those_of_the_recorded_graph(runs):
    kinds = [[(node.op, node.kind) for node in run.graph.all_nodes()] for run in runs]
    assert kinds[0] == kinds[1] == kinds[2][: len(kinds[0])]
    assert {op for op, _ in kinds[2][len(kinds[0]) :]} <= {"where", "copy_transpose"}  # ops that the loop itself added
    inside = {"module": 1, "loop": 1, "cond": 1, "side": 2, "input": 2}
    assert Counter(kind for _, kind in kinds[0] if kind != "op") == inside


def test_a_file_of_before_shows_what_it_showed(runs):
    run, _, before = runs
    assert before.name == "loop" and before.steps == run.steps and before.states == run.states
    assert [[value[:2] for value in before[i].values()] for i in range(2)] == [
        [value[:2] for value in run[i].values()] for i in range(2)
    ]
    for i in range(2):
        torch.testing.assert_close(before[i].after["total"].raw_tensor, run[i].after["total"].raw_tensor)


def test_it_can_be_saved_again(runs, tmp_path):
    again = rf.load_run(runs[2].save(tmp_path / "again.rfrun"))
    assert [node.kind for node in again.graph.all_nodes()] == [node.kind for node in runs[2].graph.all_nodes()]


@pytest.mark.parametrize("kind", ["of a later version", "<script>"])
def test_an_unknown_kind_is_that_of_an_op(kind):
    node = {"number": 0, "op": "add", "kind": kind, "path": "", "inputs": [], "outputs": []}
    data = {"nodes": [{**node, "source": None, "at": None, "body": []}], "values": [], "body_values": 0, "places": []}
    dims = DimReader({"dims": [], "sizes": [], "lengths": []})
    assert [node.kind for node in read_graph(data, dims).nodes] == ["op"]
