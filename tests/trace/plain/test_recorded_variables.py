"""The values of a step of plain Python by name: one look-up for attributes, expressions, searches and stacks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf


def run_of(steps=4):
    [run] = rf.runs
    assert run.steps == steps
    return run


@pytest.mark.parametrize("words", ["a", "a + 1", "a[:2]", "a[::-1]", "np.log(a + 1)"])
def test_arrays_of_numpy_in_expressions(words):
    for t in rf.steps(range(4)):
        a = np.arange(3.0) + t
    run, expected = run_of(), [eval(words, {"a": np.arange(3.0) + t, "np": np}) for t in range(4)]
    assert [run[t].eval(words).numpy().tolist() for t in range(4)] == [value.tolist() for value in expected]
    assert run.stack(words).numpy().tolist() == np.stack(expected).tolist() and a[0] == 3


def names_of_all_kinds():
    for t in rf.steps(range(4)):
        if t == 1:
            continue
        hyps = []
        for k in range(3):
            hyps.append((k, f"{t}"))
        words, d, kind, done, nothing = ["a", "b"], {t: t * 2, "w": [str(t)]}, "two" if t == 2 else "one", t > 2, None
        x, numbers = np.full(2, t), [t, t + 1]
    return hyps, words, d, kind, done, nothing, x, numbers


def as_code(value):
    return value.numpy().tolist() if isinstance(value, rf.Tensor) else value


def test_a_name_is_the_value_after_the_step():
    names_of_all_kinds()
    run = run_of()
    assert run[2].hyps == run[2].eval("hyps") == [(0, "2"), (1, "2"), (2, "2")]
    assert run[2].words == ["a", "b"] and run[2].d == {2: 4, "w": ["2"]} and run[2].kind == "two"
    assert run[2].nothing is None and run[3].done.item() is True and run[2].numbers.tolist() == [2, 3]
    for step in range(4):
        for name in ("hyps", "words", "d", "kind", "done", "nothing", "x", "numbers", "t"):
            carried = 0 if step == 1 and name != "t" else step  # a step that assigns nothing
            assert as_code(run[step][name]) == as_code(run[carried][name]), (step, name)
            assert as_code(run[step].eval(name)) == as_code(run[step][name]) == as_code(run[step].after[name])
            if step:
                assert as_code(run[step].before[name]) == as_code(run[step - 1][name])
            else:
                assert run[0].before[name] is None
    assert run.find(lambda at: at.kind == "two") == run.find("kind == 'two'") == [2]
    assert run.find("before.t is None") == [0] and run.find("before.t is not None") == [1, 2, 3]
    assert run.find("before.t < 2") == [1, 2]  # a step without a value before it is no hit


def test_a_name_without_a_value_says_so():
    for t in rf.steps(range(4)):
        if t > 1:
            late = t
    run = run_of()
    with pytest.raises(rf.errors.LoopNameError, match="'late' has no value yet after step 1"):
        run[1].late  # noqa: B018
    with pytest.raises(rf.errors.ExpressionNameError, match="`late` has no value yet after step 1"):
        run[1].eval("late")
    assert run[2].late.item() == late - 1 and run.find("late > 0") == [2, 3]


def test_a_saved_run_has_the_same_values(tmp_path):
    names_of_all_kinds()
    run = run_of()
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    for step in range(4):
        assert [row.name for row in again[step].texts()] == [row.name for row in run[step].texts()]
        for name in ("hyps", "words", "d", "kind", "done", "nothing", "x", "numbers", "t"):
            for words in (name, f"before.{name}"):
                if words == name or step:
                    assert as_code(again[step].eval(words)) == as_code(run[step].eval(words)), (step, words)
            assert as_code(again[step][name]) == as_code(run[step][name])
            assert as_code(again[step].before[name]) == as_code(run[step].before[name])
    for words in ("kind == 'two'", "before.t is None", "t > 1", "len(hyps) == 3", "hyps[0][1] == '2'"):
        assert again.find(words) == run.find(words)


def test_what_is_not_in_a_file_is_said(tmp_path):
    given = slice(3)
    for t in rf.steps(range(4)):
        odd, total = range(t), given.stop + t
    run = run_of()
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert again[2].total.item() == run[2].total.item() == total - 1 and odd
    for name in ("odd", "given"):
        with pytest.raises(rf.errors.LoopNameError, match=f"`{name}` is not in the file"):
            again[2][name]


def test_a_saved_run_says_what_was_no_longer_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**20)
    for t in rf.steps(range(20)):
        x = np.full(100_000, float(t))
        loss = x.mean()
    run = run_of(20)
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert again.find("loss < 5") == run.find("loss < 5") == [0, 1, 2, 3, 4] and loss == 19
    assert again[3].x == run[3].x == again[3].texts()[0].text and "μ 3, no longer kept" in run[3].x
    assert again.find(rf.when.over(3.5, "x")) == run.find(rf.when.over(3.5, "x")) == [*range(4, 20)]


def test_the_bytes_of_a_run_count_its_log():
    for t in rf.steps(range(2000)):
        a = t * 2  # noqa: F841
    assert 2000 * 3 * 24 < run_of(2000).bytes < 2000 * 700


def test_a_saved_run_is_searched_for_variables_that_are_no_states(tmp_path):
    for step in rf.steps(range(4), name="losses"):
        x = torch.tensor(float(step))
        loss = (x - 2).log()
    run = rf.runs["losses"]
    assert run.find(rf.when.not_finite("loss")) == [0, 1, 2] and loss == 0
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    for condition in (rf.when.not_finite("loss"), rf.when.over(0.5, "x"), rf.when.changes("x")):
        assert again.find(condition) == run.find(condition)
