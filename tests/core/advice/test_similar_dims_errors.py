"""Dims that meet by accident are told apart, with the cells to run again."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.core.ground import source
from rfnb.core.ground.source import NotebookCell
from rfnb.errors import DimError

feat = rf.Dim(4, name="feat")


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch):
    """Runs texts as cells of a notebook do, in one namespace."""
    space = {"rf": rf, "np": np, "feat": feat, "__name__": "__main__"}
    monkeypatch.setattr(source, "CELLS", known := {})
    monkeypatch.setattr("rfnb.core.advice.similar_dims.CELLS", known)
    count = 0

    def run(text: str) -> None:
        nonlocal count
        count += 1
        file = f"<cell {hash(text)}>"
        known[file] = NotebookCell(count, None, text)
        exec(compile(text, file, "exec"), space)

    return run


DIM = 'time = rf.Dim(None, name="time")'
DATA = "x = rf.convert_to_tensor(np.ones((5, 4)), dims=[time, feat])"


def test_a_line_that_was_run_twice_is_named_with_the_cells_to_run_again(cells):
    for text in (DIM, DATA, DIM, DATA.replace("x =", "y =")):
        cells(text)
    with pytest.raises(DimError) as caught:
        cells("x + y")
    assert caught.value.hint == "time was made twice, by cell 3, line 1. x still has the first one: run cell 2 again"
    with pytest.raises(DimError) as caught:
        cells("rf.reduce_sum(x, axis=time)")
    assert "run cell 2 again" in str(caught.value)


def test_modules_that_hold_the_older_dim_are_named_too(cells):
    vocab = 'vocab = rf.Dim(4, name="vocab")'
    model = "model = rf.Linear(feat, vocab)"
    for text in (vocab, model, "h = rf.zeros([feat])", vocab, "target = rf.zeros([vocab])"):
        cells(text)
    with pytest.raises(DimError, match="cell 2 again") as caught:
        cells("model(h) - target")
    assert "model" in caught.value.hint


def test_after_the_older_tensors_are_gone_there_is_nothing_to_run(cells):
    for text in (DIM, DATA, "z = [x]", DIM, DATA):
        cells(text)
    with pytest.raises(DimError, match="remake everything that was made before the second time"):
        cells("z.pop() + x")


@pytest.mark.parametrize(
    ("other", "hint"),
    [
        (lambda time: rf.Dim(None, name="time"), "two dims called time"),
        (lambda time: time + 1, "derived from the same frames"),
        (lambda time: rf.Dim(5, name="steps"), "have the same size: rf.replace_dim"),
        (lambda time: rf.Dim(7, name="steps"), "if this is intended: rf.combine_bc"),
    ],
)
def test_the_likely_fix_depends_on_the_two_dims(other, hint, monkeypatch):
    monkeypatch.setattr(rf.options, "accidents", "all")
    time = rf.Dim(5, name="time")
    x = rf.zeros([time, feat])
    if "same frames" in hint:
        time = rf.Dim(None, name="time")
        x = rf.convert_to_tensor(np.zeros((5, 4), "float32"), dims=[time, feat])
    second = other(time)
    n = 6 if "same frames" in hint else 5 if second.dimension is None else second.dimension
    y = rf.convert_to_tensor(np.zeros((n, 4), "float32"), dims=[second, feat])
    with pytest.raises(DimError) as caught:
        x + y
    assert hint in caught.value.hint
    assert "test_similar_dims_errors.py" in caught.value.made
    assert (rf.combine_bc(x, "add", y)).dims_set == {time, second, feat}


def test_dims_that_rfnb_made_have_no_line(monkeypatch):
    monkeypatch.setattr(rf.options, "accidents", "all")
    time = rf.Dim(3, name="time")
    with pytest.raises(DimError) as caught:
        rf.range_over_dim(time) + rf.convert_to_tensor([1, 2], dims=[rf.batch_dim])
    assert caught.value.made.startswith("time: test_similar_dims_errors.py") and "batch" not in caught.value.made


# -- what is refused

TIME = rf.Dim(3, name="time")


def outer(a: rf.Dim, b: rf.Dim) -> rf.Tensor:
    """A sum of two tensors, each with a dim of its own."""
    return rf.zeros([a, feat]) + rf.ones([feat, b])


@pytest.mark.parametrize(
    ("mode", "other", "refused"),
    [
        ("alike", rf.Dim(3, name="mels"), True),
        ("alike", rf.Dim(5, name="mels"), False),
        ("all", rf.Dim(5, name="mels"), True),
        ("off", rf.Dim(3, name="time"), False),
    ],
)
def test_the_option_says_what_is_refused(mode, other, refused, monkeypatch):
    monkeypatch.setattr(rf.options, "accidents", mode)
    if refused:
        with pytest.raises(DimError, match="no operand has all dims"):
            outer(TIME, other)
    else:
        assert outer(TIME, other).dims == (TIME, feat, other)


def test_plans_of_another_option_are_forgotten(monkeypatch):
    other = rf.Dim(5, name="mels")
    outer(TIME, other)
    monkeypatch.setattr(rf.options, "accidents", "all")
    with pytest.raises(DimError):
        outer(TIME, other)
    monkeypatch.setattr(rf.options, "accidents", "off")
    twin = rf.Dim(3, name="time")
    outer(TIME, twin)
    monkeypatch.setattr(rf.options, "accidents", "alike")
    with pytest.raises(DimError):
        outer(TIME, twin)


def test_dims_that_become_different_on_purpose_are_judged_again():
    time, keys = rf.Dim(3, name="time"), rf.Dim(3, name="keys")
    with pytest.raises(DimError, match="same size"):
        outer(time, keys)
    rf.replace_dim(rf.zeros([time]), in_dim=time, out_dim=keys)
    assert outer(time, keys).dims == (time, feat, keys)


def test_a_plan_that_was_allowed_is_not_used_by_other_calls():
    time, twin = rf.Dim(3, name="time"), rf.Dim(3, name="time")
    a, b = rf.zeros([time]), rf.zeros([twin])
    assert rf.combine_bc(a, "add", b).dims == (time, twin)
    for _ in range(2):
        with pytest.raises(DimError):
            a + b


def test_dims_that_do_not_look_alike_are_refused_on_request():
    a, b = rf.zeros([TIME]), rf.zeros([feat])
    assert (a + b).dims == (TIME, feat)
    for _ in range(2):
        with pytest.raises(DimError, match="combine_bc"):
            rf.combine(a, "add", b, allow_broadcast_all_sources=False)


def test_only_dims_that_an_operand_lacks_are_compared():
    pair = rf.Dim(3, name="pair")
    assert (rf.zeros([TIME, pair]) + rf.zeros([pair])).dims == (TIME, pair)
    assert (rf.zeros([TIME, pair]) + rf.zeros([pair, feat])).dims == (TIME, pair, feat)


def test_a_value_of_option_accidents():
    with pytest.raises(rf.errors.OptionError, match="alike"):
        rf.options.accidents = "alkie"
