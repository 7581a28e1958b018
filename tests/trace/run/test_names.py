"""A name in a watch, a condition or a search is the value after the step; `before.h` is the one before."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.panel.paused import conditions_of
from rfnb.display.run.step import describe_step
from rfnb.errors import ExpressionError, ExpressionNameError, LoopNameError
from rfnb.trace.run.names import own_functions


@pytest.fixture(autouse=True)
def no_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


def halving():
    """A state, and a variable of the body that has its name, but another value."""
    loop = rf.Loop(max_seq_len=4, name="halving", debug=True)
    loop.state.h = rf.convert_to_tensor(1.0)
    loop.state.other = rf.convert_to_tensor(0.0)
    with loop:
        h = loop.state.h / 2.0
        twice = h * 2.0
        loop.state.h = h + 0.25
        h = h * 1.0
        loop.state.other = loop.state.other + twice
    return loop.run


def plain(steps=5):
    net = torch.nn.Linear(2, 2)
    h, scale, tokens = torch.ones(2, 3), 2.0, []
    for t in rf.steps(range(steps), name="plain"):
        x = torch.full((3,), float(t))
        h = h * 0.5 + x
        energy = x
        energy = energy * scale
        tokens.append(t)
        word = f"w{t}"
        if t > 1:
            late = {"both": [h, net(h[:, :2])], "t": t}
        loss = float(h.sum()) / scale
    return h, energy, word, late, loss


def table(run, step):
    """The values of the panel's table: of states after the step, and of lines."""
    view = describe_step(run, step)
    states = {row["name"]: row["after"]["text"] for row in view["states"]}
    return {line["value"]["name"]: line["value"]["text"] for line in view["values"]} | states


def watched(run, step, text):
    [row] = describe_step(run, step, watch=[text])["watches"]
    return row["value"] and row["value"]["text"]


def where(kind, **others):
    return {"kind": kind, "name": None, "line": None, "limit": None, "text": None, **others}


@pytest.mark.parametrize("name", ["h", "other", "twice"])
def test_the_watch_the_table_and_the_conditions_have_the_same_number(name):
    run = halving()
    for step in range(run.steps):
        value = run[step].eval(name).item()
        assert watched(run, step, name) == table(run, step)[name]
        assert run.stack(f"{name} + 0").raw_tensor[step] == value
        for limit in (value - 0.01, value + 0.01):
            found = run.find(rf.when.over(limit, name), start=step, stop=step + 1)
            assert (
                found == run.find(f"{name} > {limit}", start=step, stop=step + 1) == ([step] if limit < value else [])
            )
            for condition in (where("over", name=name, limit=limit), where("expression", text=f"{name} > {limit}")):
                assert any(test(run[step]) for test in conditions_of(condition, run, None)) is (limit < value)


def test_before_after_and_the_variable_of_the_body_have_names_of_their_own():
    at = halving()[1]
    assert at.eval("h").item() == at.eval("after.h").item() == 0.625
    assert at.eval("before.h").item() == 0.75
    assert at.eval("values.h").item() == at.eval("values['h']").item() == at.h.item() == 0.375
    assert at.eval("h - before.h").item() == -0.125


def test_at_a_marked_line_a_name_is_the_value_after_the_line():
    run = halving()
    line = next(value.line for value in run[0].values() if value.name == "h")
    [test] = conditions_of(where("over", line=line, limit=0.5), run, None)
    assert [step for step in range(run.steps) if test(run[step])] == []  # the variable of the body; the state is over
    [test] = conditions_of(where("over", line=line, limit=0.49), run, None)
    assert [step for step in range(run.steps) if test(run[step])] == [0]

    plain()
    run = rf.runs["plain"]
    first, second = (value.line for value in run[3].values() if value.name == "energy")
    for line, limit, expected in [(first, 2.5, [3, 4]), (second, 2.5, [2, 3, 4])]:
        [test] = conditions_of(where("over", line=line, limit=limit), run, None)
        assert [step for step in range(run.steps) if test(run[step])] == expected
    [test] = conditions_of(where("changes", line=first), run, None)
    assert [step for step in range(run.steps) if test(run[step])] == [1, 2, 3, 4]


def test_a_line_of_a_branch_is_searched_where_it_ran():
    def loop():
        for t in rf.steps(range(4), name="branches"):
            if t == 1:
                x = torch.tensor(5.0)
        return x

    loop()
    run = rf.runs["branches"]
    [line] = [value.line for value in run[1].values() if value.name == "x"]
    [test] = conditions_of(where("over", line=line, limit=1), run, None)
    assert [step for step in range(4) if test(run[step])] == [1]
    assert run.find("x > 1") == run.find(rf.when.over(1, "x")) == [1, 2, 3]  # it keeps its value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t == 3", True),
        ("t % 2 == 1 and loss > 2", True),
        ("x[0]", 3.0),
        ("h.shape", (2, 3)),
        ("h.size(0)", 2),
        ("(h - before.h).abs().max()", 1.6875),
        ("tokens[-1] + len(tokens)", 7),
        ("before.tokens", [0, 1, 2]),
        ("word", "w3"),
        ("word == 'w3'", True),
        ("late['t'] + late.t", 6),
        ("late.both[0].sum() == h.sum()", True),
        ("torch.isnan(h).any()", False),
        ("not torch.isnan(h).any()", True),
        ("np.linalg.norm(x) > 5", True),
        ("scale", 2.0),
        ("h.topk(2).indices.shape", (2, 2)),
        ("rf.reduce_max(h, axis=axis1).sum() > h.max()", True),
        ("rf.reduce_max(rf.abs(x), axis=x.dims)", 3.0),
        ("rf.reduce_max(h - 1, axis=h.dims) == h.max() - 1", True),
        ("step", 3),
        ("None", None),
    ],
)
def test_variables_of_plain_python_are_what_code_has(text, expected):
    plain()
    found = rf.runs["plain"][3].eval(text)
    found = found.raw_tensor if isinstance(found, rf.Tensor) else found
    assert (found == expected) if not isinstance(found, torch.Tensor) else found.item() == pytest.approx(expected)


def test_a_condition_is_false_where_a_variable_has_no_value_yet():
    plain()
    run = rf.runs["plain"]
    assert run.find("late.t >= 0") == [2, 3, 4] and run.find("loss > before.loss") == [1, 2, 3, 4]
    assert run.find(rf.when.changes("word")) == [1, 2, 3, 4]
    [test] = conditions_of(where("expression", text="late.t > 2"), run, None)
    assert [step for step in range(5) if test(run[step])] == [3, 4]
    with pytest.raises(ExpressionNameError, match="no `latte`"):
        run.find("latte.t > 0")
    with pytest.raises(ExpressionNameError, match="no `late` before step 0"):
        run[0].eval("before.late")
    with pytest.raises(LoopNameError, match="'word' has no numbers"):
        run.find(rf.when.over(1, "word"))


def test_a_variable_may_have_the_name_of_a_module():
    for t in rf.steps(range(3), name="hidden"):
        F, np = torch.full((2,), float(t)), {"x": t}
    run = rf.runs["hidden"]
    assert run.find("F.norm() > 2") == [2] and run.find("np.x == 1") == [1]
    assert len(F) == len(np) + 1
    with pytest.raises(ExpressionError, match=r"`F.os` cannot be called"):
        run.find("F.os(1)")


def test_axes_with_names_are_dims_of_the_expression():
    for t in rf.steps(range(3), name="named", dims={"att": ["batch", "source"]}):
        att = torch.arange(8.0).reshape(2, 4) + t
    at = rf.runs["named"][1]
    assert [dim.name for dim in at.eval("att.max(dim=1).values").dims] == ["batch"]
    assert at.eval("rf.reduce_max(att, axis=source)").tolist() == [4.0, 8.0]
    assert att.shape == (2, 4)


def test_values_that_were_not_kept_are_not_made_up():
    def loop():
        x = torch.zeros(3)
        for t in rf.steps(range(3), name="changed"):
            y = x
            x.data += t
        return y

    loop()
    net = torch.nn.Linear(1, 1)
    for t in rf.steps(range(1), name="object"):
        module, n, both = net, t, {"net": net, "x": torch.ones(2), "deep": [net, t], 7: (t, "a")}
    with pytest.raises(ExpressionNameError, match="only its type was kept: Linear"):
        rf.runs["object"][0].eval("module.weight")
    assert (module, n, len(both)) == (net, 0, 4)
    at = rf.runs["object"][0]
    assert at.eval("both.x.sum() + len(both) + both['deep'][1]").item() == 6.0 and at.eval("both[7]") == (0, "a")
    for text in ("both.net", "both.deep[0]", "both['net'].weight"):
        with pytest.raises(ExpressionNameError, match="only its type was kept: Linear"):
            at.eval(text)
    assert "only its type was kept" in watched(at.run, 0, "both")


# -- functions of the user


@pytest.fixture
def mine(monkeypatch):
    """A function of the notebook."""

    def define(source):
        monkeypatch.setattr(sys.modules["__main__"], "torch", torch, raising=False)
        names = dict(vars(sys.modules["__main__"]))
        exec(source, names)
        for name, value in names.items():
            if getattr(value, "__module__", None) == "__main__" and name not in vars(sys.modules["__main__"]):
                monkeypatch.setattr(sys.modules["__main__"], name, value, raising=False)

    return define


def test_a_function_of_the_notebook_is_called_by_name(mine):
    mine(
        "def entropy(p):\n    assert type(p) is torch.Tensor\n    p.clamp_(min=1e-9)\n    return -(p * p.log()).sum(-1)"
    )
    plain()
    run = rf.runs["plain"]
    before = [run[step].h.raw_tensor.clone() for step in range(5)]
    found = run.find("entropy(h.softmax(-1)).max() > 0.5")
    expected = [torch.distributions.Categorical(logits=h).entropy().max() > 0.5 for h in before]
    assert found == [step for step, holds in enumerate(expected) if holds]
    run[2].eval("entropy(h)")  # it writes into its argument, which is a copy
    assert all(torch.equal(run[step].h.raw_tensor, h) for step, h in enumerate(before))
    assert rf.compare(run, run).agree


def test_functions_of_the_user_draw_numbers_of_their_own(mine):
    mine("def noise(x):\n    return x + torch.rand(3)")
    plain()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    rf.runs["plain"][1].eval("noise(x)")
    assert torch.equal(torch.get_rng_state(), before[0]) and np.random.get_state()[1].tolist() == before[1]


def test_only_functions_that_were_defined_in_the_notebook_are_there(mine, monkeypatch):
    mine("class Model:\n    def __call__(self, x): raise SystemExit\nmodel = Model()")
    monkeypatch.setattr(sys.modules["__main__"], "imported", pytest.importorskip("shutil").rmtree, raising=False)
    for name in ("imported", "Model", "model", "open", "exec", "print", "__build_class__"):
        assert name not in own_functions
        with pytest.raises(ExpressionError, match="there is no function"):
            rf.pause_when(f"{name}('x')")
    assert len(rf.pauses) == 0


def test_the_panel_calls_functions_of_the_user_too(mine):
    mine("def double(x):\n    return 2 * x")
    plain()
    assert watched(rf.runs["plain"], 3, "double(x)") == "6 6 6"
    assert watched(rf.runs["plain"], 3, "x.topk(1)") == "(values 3; indices 0)"
    assert (
        watched(rf.runs["plain"], 3, "h.shape") == "(2, 3)" and watched(rf.runs["plain"], 3, "tokens") == "[0, 1, 2, 3]"
    )
