"""Names for the axes of a recorded loop of plain Python, given after it ran."""

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError, ParameterError


@pytest.fixture
def run():
    def loop():
        h = torch.zeros(3, 4)
        for t in rf.steps(range(4), name="named"):
            att = torch.softmax(torch.arange(15.0).reshape(3, 5) * t, -1)
            h = h + t
            best = att.argmax(-1)
            for u in range(2):
                inner = att * u
        return h, best, inner

    with rf.recording("last"):
        loop()
    return rf.runs["named"]


def names(value):
    return [dim.name for dim in value.dims]


def test_all_steps_have_the_names_and_lose_them_again(run):
    assert names(run[1].att) == ["axis0", "axis1"]
    run.name_axes("att", ["batch", "source"])
    assert [names(step.att) for step in run] == [["batch", "source"]] * 4
    assert names(run.stack("att")) == ["iterations", "batch", "source"]
    assert run[2].eval("rf.reduce_sum(att, axis=source)").raw_tensor.tolist() == pytest.approx([1, 1, 1])
    run.name_axes("att", None)
    assert names(run[1].att) == ["axis0", "axis1"] and run[1].eval("att.shape") == (3, 5)


def test_forks_and_inner_loops_have_the_same_names(run):
    run.name_axes("h", ["batch", "unit"])
    fork = run.fork(2, h=5.0)
    fork.name_axes("inner", ["batch", "source"])
    [loop] = run[1].loops()
    assert names(loop[0].inner) == ["batch", "source"] and names(fork[2].h) == ["batch", "unit"]
    assert rf.compare(run, fork).first.name == "h"


def test_a_dim_has_lengths_and_labels_and_names_mean_it_too(run):
    batch, letter = rf.Dim(3, name="batch"), rf.Dim(5, name="letter", vocab=list("abcde"))
    source = rf.Dim(rf.convert_to_tensor([5, 3, 2], dims=[batch]), name="source")
    run.name_axes("att", [batch, source])
    run.name_axes("best", ["batch", letter])
    [loop] = run[1].loops()
    loop.name_axes("inner", ["batch", "source"])
    assert run[1].att.lengths.size(source).values.tolist() == [5, 3, 2]
    assert loop[0].inner.dims == (batch, source) and run[1].best.sparse_dim is letter
    run.name_axes("att", ["batch", "source"])
    assert run[1].att.dims == (batch, source)  # a name means the Dim as long as a variable has it
    run.name_axes("att", None)
    run.name_axes("inner", None)
    run.name_axes("att", ["batch", "source"])
    assert run[1].att.dims[1].dimension == 5


@pytest.mark.parametrize(
    ("variable", "axes", "words"),
    [
        ("att", ["batch"], "the number of its axes is 2"),
        ("att", ["batch", "source", "x"], "the number of its axes is 2"),
        ("att", ["x", "x"], "two axes have the same name"),
        ("att", [rf.Dim(4, name="four"), "source"], "axis 0 does not have the size of four"),
        ("h", ["batch", "unit", rf.Dim(1, name="one", vocab=["a"])], "its numbers are not all labels of one"),
        ("nothing", ["batch"], "it is not a tensor in any step of the run"),
        ("att", "ab", "does not name the axes"),
    ],
)
def test_names_that_do_not_fit_change_nothing(run, tmp_path, variable, axes, words):
    run.name_axes("att", ["batch", "source"])
    for one in (run, rf.load_run(run.save(tmp_path / "named.rfrun"))):
        with pytest.raises((LoopError, ParameterError), match=words):
            one.name_axes(variable, axes)
        assert names(one[3].att) == ["batch", "source"] and one[3].h.sparse_dim is None


def test_a_file_has_the_names_and_they_can_be_given_to_it(run, tmp_path):
    run.name_axes("att", ["batch", "source"])
    loaded = rf.load_run(run.save(tmp_path / "named.rfrun"))
    assert names(loaded[1].att) == ["batch", "source"] and names(loaded[1].h) == ["axis0", "axis1"]
    loaded.name_axes("h", ["batch", "unit"])
    assert names(loaded[0].h) == names(loaded[3].before.h) == names(loaded[3].h) == ["batch", "unit"]
    again = rf.load_run(loaded.save(tmp_path / "again.rfrun"))
    assert names(again[2].h) == ["batch", "unit"]
    loaded.name_axes("att", None)
    assert loaded[1].eval("att.shape") == (3, 5)


def test_runs_are_compared_if_only_one_has_names(run, tmp_path):
    other = rf.load_run(run.save(tmp_path / "named.rfrun"))
    run.name_axes("att", ["batch", "source"])
    assert rf.compare(run, other) and rf.compare(run.fork(2, h=5.0), other).first.name == "h"


def test_inputs_that_no_step_assigns_get_names(tmp_path):
    x, xs = torch.ones(3), [1.0, 2.0]
    with rf.recording("last"):
        for t in rf.steps(range(2), name="inputs"):
            y = x * t + len(xs)
    run = rf.runs["inputs"]
    for one in (run, rf.load_run(run.save(tmp_path / "inputs.rfrun"))):
        one.name_axes("x", ["unit"])
        one.name_axes("xs", ["pair"])
        assert names(one[1].before.x) == names(one[1].x) == ["unit"] and names(one[1].xs) == ["pair"]
        with pytest.raises(LoopError, match="the number of its axes is 1"):
            one.name_axes("x", ["a", "b"])
    assert y.shape == (3,)


def test_a_loop_with_dims_needs_no_names():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with loop:
        loop.state.n = loop.state.n * 2
    with pytest.raises(LoopError, match="the axes of loop have dims"):
        loop.run.name_axes("n", [])
