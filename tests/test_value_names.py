"""A value has one name: in runs, views, explain, checks, comparisons, captures, graphs and errors."""

from __future__ import annotations

import pytest

import rfnb as rf

time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
X = [[[1.0, 2.0, 3.0], [0.5, 0.0, 1.0]], [[1.0, 1.0, 1.0]]]


class Model(rf.Module):
    """Assigns to a local variable, to a state and to an attribute."""

    def __init__(self) -> None:
        self.linear = rf.Linear(feat, feat)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        loop = rf.Loop(axis=time, name="decoder", debug=True)
        loop.state.h = rf.zeros([rf.batch_dim, feat])
        with loop:
            frame = loop.unstack(x)
            energy = rf.tanh(loop.state.h + frame)
            loop.state.h = rf.log(energy - 2.0)
            self.last = rf.reduce_sum(loop.state.h, axis=feat)
            sums = loop.stack(self.last)
        self.loop = loop
        return sums


@pytest.fixture
def x() -> rf.Tensor:
    return rf.convert_to_tensor(X, dims=[rf.batch_dim, time, feat], name="x")


@pytest.fixture
def model(x: rf.Tensor) -> Model:
    model = Model()
    model(x)
    return model


def test_in_a_run_and_its_steps(model):
    run = model.loop.run
    assert {value.name for value in run[0].values()} >= {"frame", "energy", "h", "self.last"}
    assert run.stack("energy").name == "energy"
    assert run[0].after.h.dims


def test_an_attribute_and_a_state_of_one_name_are_two_values(x):
    class Holder:
        pass

    self = Holder()
    loop = rf.Loop(axis=time, name="both", debug=True)
    loop.state.h = rf.zeros([rf.batch_dim])
    loop.state.dec = rf.State(h=rf.zeros([rf.batch_dim]))
    with loop:
        frame = rf.reduce_sum(loop.unstack(x), axis=feat)
        loop.state.h = loop.state.h + 1.0
        loop.state.dec.h = loop.state.dec.h - 1.0
        self.h = frame * 100.0
        sums = loop.stack(loop.state.h + self.h)
    run = loop.run
    assert run[1].h.raw_tensor[0] == 2.0 and run.stack("h").raw_tensor[:, 0].tolist() == [1.0, 2.0]
    assert run[1].eval("h").raw_tensor[0] == 2.0
    assert run.stack("dec.h").raw_tensor[:, 0].tolist() == [-1.0, -2.0] and sums.dims


def test_in_the_panel(model):
    from rfnb.display.run.step import describe_step

    step = describe_step(model.loop.run, 0)
    shown = {row["name"] for row in (*step["states"], *(line["value"] for line in step["values"]))}
    assert shown >= {"h", "energy", "frame"} and not [name for name in shown if "state." in name]


def test_in_explain(model):
    rows = model.loop.explain().rows
    assert {state for row in rows for state in row.states} == {"h"}
    assert "needs h" in {row.why for row in rows}


def test_in_checks(x):
    report = rf.check.finite(Model(), x)
    assert "h" in str(report) and "loop.state.h is" not in str(report) and "of loop.state.h" not in str(report)


def test_in_comparisons(model, x):
    other = Model()
    other(x)
    fork = model.loop.run.fork(1, h=0.5)
    text = repr(rf.compare(model.loop.run, fork))
    assert "loop.state" not in text and "self.last: NaN in both runs" in text


def test_in_the_graph_of_a_model(x):
    graph = rf.model_graph(Model(), x)
    names = {value.name for value in graph.values}
    assert names >= {"energy", "self.last", "sums"} and not [name for name in names if name.startswith("loop.state")]


def test_in_captured_attention():
    key, enc = rf.Dim(2, name="key"), rf.Dim(4, name="enc")

    class Attention(rf.Module):
        def __call__(self, q: rf.Tensor, k: rf.Tensor) -> rf.Tensor:
            self.weights = rf.softmax(rf.dot(q, k, reduce=key), axis=enc)
            return rf.dot(self.weights, k, reduce=enc)

    with rf.capture() as seen:
        Attention()(rf.random_normal([time_of_queries, key]), rf.random_normal([enc, key]))
    assert [each.variable for each in seen] == ["weights"]


time_of_queries = rf.Dim(3, name="queries")


def test_of_a_tensor_made_from_data():
    class Holder:
        pass

    self = Holder()
    self.w = rf.convert_to_tensor([1.0, 2.0, 3.0], dims=[feat])
    assert self.w.name == "self.w" and repr(self.w).startswith("Tensor{'self.w'")


def test_in_errors(x):
    class Holder:
        pass

    self = Holder()
    self.w = rf.convert_to_tensor([1.0, 2.0, 3.0], dims=[feat])
    with pytest.raises(rf.errors.DimError, match=r"self\.w has no axis"):
        self.w.get_axis_from_description("T")
