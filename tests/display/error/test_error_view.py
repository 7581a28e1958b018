"""The card of an error: the user's line, the operands with the odd one out, and the way out."""

from __future__ import annotations

import gc
import json
import pickle
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.tensor import op
from rfnb.core.tensor.op import OPS
from rfnb.display.error import view as error_view
from rfnb.display.error.failed_call import Argument, failed_call
from rfnb.display.error.view import Code, StripRow, describe_causes, describe_code, describe_frames, describe_strips
from rfnb.display.kit.view import View
from rfnb.errors import DimError, RfError
from tests.test_mistakes import MISTAKES, SAYS, data

NAMELESS = ("python_asks_for_a_value_in_a_loop",)
"""Mistakes in which no dim is wrong."""


def caught(mistake: Callable[[], Any]) -> Exception:
    try:
        mistake()
    except Exception as error:
        return error
    raise AssertionError("no mistake")


def card(mistake: Callable[[], Any]) -> View:
    return rf.show(caught(mistake))


def code_of(error: BaseException) -> Code:
    """The user's lines that a card shows."""
    source = error_view.place_of(error)
    assert source is not None
    return describe_code(source)


def strips(error: BaseException) -> tuple[list[StripRow], list[Any]]:
    """The operands that a card shows, and the origins of their dims."""
    call = failed_call(error)
    assert call is not None
    return describe_strips(call.arguments, getattr(error, "dims", ()))


def odd(error: BaseException) -> list[tuple[str, str]]:
    """Operand and dim of the cells that do not fit."""
    return [(row.name, cell.word) for row in strips(error)[0] for cell in row.cells if cell and cell.odd]


def row(error: BaseException, name: str) -> list[str]:
    found = next(row for row in strips(error)[0] if row.name == name)
    return [cell.word if cell else "" for cell in found.cells]


def title(error: BaseException) -> str:
    """The name of the call that failed."""
    call = failed_call(error)
    assert call is not None
    return call.title


# -- the commonest mistakes


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_has_a_card(mistake):
    error = caught(mistake)
    view = rf.show(error)
    code = code_of(error)
    assert code.function == mistake.__name__ and code.place.startswith("test_mistakes.py:")
    assert any(mark and mark[1] > mark[0] for mark in code.marks)
    assert "\n(no " not in view.text and title(error)
    assert not strips(error)[0] or (title(error) in view.text and title(error) in view.html)
    assert bool(odd(error)) == (mistake.__name__ not in NAMELESS) == ("≠ " in str(view.html))
    assert str(error.hint) in view.text and error.what in view.text  # type: ignore[attr-defined]
    assert all(fact in re.sub("[¹²]", "", view.text) for fact in re.findall(r"\w+:\d", str(error)))


def test_the_words_of_the_cards(golden):
    cards = [f"# {mistake.__name__.replace('_', ' ')}\n{card(mistake).text}" for mistake in MISTAKES]
    text = re.sub(r"\.py:\d+", ".py:‹line›", "\n\n\n".join(cards))
    text = re.sub(r"^(  [→ ]) +\d+  ", r"\1   n  ", text, flags=re.MULTILINE)
    golden("error_cards.txt", "\n".join(line for line in text.split("\n") if not line.startswith("called in ")) + "\n")


def test_the_operands_are_a_table():
    """Also in the JSON, where what does not fit is marked."""
    view = card(MISTAKES[1])
    rows = [
        {"operand": "a", "text": "longer", "type": "float32", "dims": "batch:2  ≠ time+1:4–6 Σ10  feat:4"},
        {"operand": "b", "text": "x", "type": "float32", "dims": "batch:2  ≠ time:3–5 Σ8  feat:4"},
    ]
    assert list(view.table()) == view.data["rows"] == rows
    assert {key: view.data[key] for key in ("kind", "name")} == {"kind": "error", "name": "DimError"}


@pytest.mark.parametrize("mistake", [mistake for mistake, _ in SAYS])
def test_any_error_has_a_card(mistake):
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    error = caught(lambda: mistake(data(time, feat)))
    view = rf.show(error)
    assert "\n(no " not in view.text and code_of(error).where in view.text
    assert json.loads(json.dumps(view.data)) == view.data
    assert "no view" not in view.html and str(getattr(error, "what", error)) in view.text


# -- which dim is the odd one


def test_what_was_mixed_up_stands_under_each_other():
    error = caught(MISTAKES[1])
    assert row(error, "a") == ["batch:2", "time+1:4–6 Σ10", "feat:4"]
    assert row(error, "b") == ["batch:2", "time:3–5 Σ8", "feat:4"]
    assert odd(error) == [("a", "time+1:4–6 Σ10"), ("b", "time:3–5 Σ8")]


def test_dims_of_one_name_are_told_apart():
    feat, same, out = rf.Dim(4, name="feat"), rf.Dim(4, name="feat"), rf.Dim(3, name="out")
    x, w = rf.zeros([batch_dim_of(2), feat]), rf.zeros([same, out])
    error = caught(lambda: rf.matmul(x, w, reduce=feat))
    assert row(error, "a") == ["batch:2", "feat¹:4", ""]
    assert row(error, "b") == ["", "feat²:4", "out:3"]
    assert row(error, "reduce") == ["", "feat¹:4", ""]
    assert odd(error) == [("a", "feat¹:4"), ("b", "feat²:4"), ("reduce", "feat¹:4")]
    assert [origin.name for origin in strips(error)[1] if origin.odd] == ["feat¹", "feat²"]


def batch_dim_of(size: int) -> rf.Dim:
    rf.convert_to_tensor(np.zeros(size), dims=[batch_dim])
    return batch_dim


def test_dims_that_one_operand_lacks_are_not_odd_beside_two_that_are_alike():
    x, bias = data(rf.Dim(None, name="time"), rf.Dim(4, name="feat")), rf.ones([rf.Dim(4, name="feat")])
    assert odd(caught(lambda: x + bias)) == [("a", "feat¹:4"), ("b", "feat²:4")]
    assert "time" not in str(caught(lambda: x + bias).made)


def test_other_lengths_are_told_one_by_one():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    old, new = data(time, feat), rf.convert_to_tensor(np.ones((2, 5)), dims=[batch_dim, time], lengths=[3, 5])
    error = caught(lambda: old * new)
    assert odd(error) == [("a", "time [5, 3]"), ("b", "time [3, 5]")]
    assert len([origin for origin in strips(error)[1] if origin.odd]) == 2, "bound in two places"


def test_a_shape_stands_above_its_dims():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    error = caught(lambda: rf.convert_to_tensor(np.ones((2, 4, 5)), dims=[batch_dim, time, feat]))
    assert (row(error, "value"), row(error, "dims")) == (["2", "4", "5"], ["batch:2", "time:?", "feat:4"])
    assert odd(error) == [("value", "5"), ("dims", "feat:4")]


def test_what_the_line_says_of_each_operand():
    time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(4, name="feat"), rf.Dim(3, name="hidden")
    x = data(time, feat)
    batch = {"x": x}

    def texts(mistake: Callable[[], Any]) -> dict[str, str]:
        return {row["operand"]: row["text"] for row in card(mistake).data["rows"]}

    assert texts(lambda: batch["x"] + data(rf.Dim(None, name="time"), feat)) == {
        "a": "batch['x']",
        "b": "data(rf.Dim(None, name='time'), feat)",
    }
    several = texts(
        lambda: (
            x + data(rf.Dim(None, name="time"), feat)  # a line of its own
        )
    )
    assert several == {"a": "x", "b": "data(rf.Dim(None, name='time'), feat)"}
    assert texts(lambda: rf.reduce_sum(x, axis=hidden)) == {"source": "x", "axis": "hidden"}
    assert texts(lambda: rf.concat((x, time), (x, hidden))) == {"sources[0]": "x", "sources[1]": "x"}
    assert texts(lambda: rf.gather(x, indices=0, axis=hidden)) == {"source": "x", "indices": "0", "axis": "hidden"}
    assert texts(lambda: rf.Linear(hidden, feat)(x))["source"] == "x"
    assert texts(lambda: x.copy_transpose([time, hidden, batch_dim])) == {
        "self": "x",
        "perm": "[time, hidden, batch_dim]",
    }


def test_the_first_call_of_an_op_is_told_as_any_other():
    """Its code is written then."""
    time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(4, name="feat"), rf.Dim(3, name="hidden")
    x = data(time, feat)
    row = OPS["gather"]
    gather = op.call_of(row.fn, row)
    for _ in range(2):
        rows = card(lambda: gather(x, indices=0, axis=hidden)).table()
        assert [row["operand"] for row in rows] == ["source", "indices", "axis"]


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcd"), unique=True), st.booleans())
def test_any_two_operands(first, second, fresh):
    """Each row has all of its dims once; the same Dim stands in one column; one name is in one column."""
    dims = {name: rf.Dim(size, name=name) for size, name in enumerate("abcd")}
    others = {name: rf.Dim(size, name=name) for size, name in enumerate("abcd")} if fresh else dims
    x, y = rf.zeros([dims[n] for n in first]), rf.zeros([others[n] for n in second])
    error = DimError("no", dims=[dims["a"]])
    rows, _ = _strips([("x", x), ("y", y)], error.dims)
    for held, described in zip((x, y), rows, strict=True):
        serials = [cell.dim["serial"] for cell in described.cells if cell and cell.dim]
        assert sorted(serials) == sorted(dim.serial for dim in held.dims)
    columns = [[cell for cell in column if cell] for column in zip(*(row.cells for row in rows), strict=True)]
    names = [[cell.dim["name"] for cell in column if cell.dim] for column in columns]
    assert all(len(set(alike)) == 1 for alike in names)
    assert [[cell.odd for cell in column] for column in columns] == [[name == "a" for name in alike] for alike in names]
    assert all(sum(name in alike for alike in names) <= 1 for name in "abcd")


def test_where_columns_are():
    """A namesake keeps the place of the upper row; dims of one size are apart, unless one of them does not fit."""
    a, b, c, other = (rf.Dim(4, name=name) for name in "abcc")
    rows, _ = _strips([("x", rf.zeros([a, b, c])), ("y", rf.zeros([a, other]))], [])
    assert [cell and cell.word for cell in rows[0].cells] == ["a:4", "b:4", "c¹:4"]
    assert [cell and cell.word for cell in rows[1].cells] == ["a:4", None, "c²:4"]
    rows, _ = _strips([("x", rf.zeros([a])), ("y", rf.zeros([b]))], [])
    assert [cell and cell.odd for cell in rows[0].cells] == [False, None]
    rows, _ = _strips([("x", rf.zeros([a])), ("axis", b)], [])
    assert [cell and cell.odd for row in rows for cell in row.cells] == [False, True], "asked for, and not there"


def _strips(operands: list[tuple[str, Any]], dims: Any) -> tuple[list[StripRow], list[Any]]:
    return describe_strips([Argument(name, name, value) for name, value in operands], dims)


# -- where it was


class Outer(rf.Module):
    """A model whose second layer gets what it cannot take."""

    def __init__(self, feat: rf.Dim):
        self.layers = rf.Sequential(rf.Linear(feat, feat), rf.Linear(rf.Dim(4, name="feat"), feat))

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        """The layers."""
        return self.layers(x)


def test_in_a_module_its_path_and_parameters_are_told():
    feat = rf.Dim(4, name="feat")
    model = Outer(feat)
    error = caught(lambda: model(rf.zeros([feat])))
    assert title(error) == "Sequential → layers.1: Linear"
    assert code_of(error).function == "__call__"
    assert odd(error) == [("inp", "feat¹:4"), ("self.weight", "feat²:4")], "not its other dims of this name"
    assert "called in test_error_view.py" in rf.show(error).text
    layer = rf.Linear(feat, feat)
    assert title(caught(lambda: layer(rf.zeros([rf.Dim(2)])))) == "Linear"


def test_a_state_is_told_by_the_line_that_sets_it():
    """Not by the end of the loop, where it is found out."""
    code = code_of(caught(MISTAKES[9]))
    line = next(line for line, mark in zip(code.lines, code.marks, strict=True) if mark)
    assert line.strip() == "loop.state.total = loop.state.total + loop.unstack(x)"


def test_an_error_in_a_later_step_is_told_by_its_line():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    x, calls = data(time, feat), [0]

    def fail(raw: Any) -> Any:
        calls[0] += 1
        if calls[0] > 3:
            raise DimError("not this one")
        return raw

    def run() -> None:
        loop = rf.Loop(axis=time, name="sum")
        loop.state.s = rf.zeros([batch_dim, feat])
        with loop:
            frame = loop.unstack(x)
            loop.state.s = rf.raw_call(fail, loop.state.s + frame, out_dims=[batch_dim, feat])

    error = caught(run)
    code = code_of(error)
    line = next(line for line, mark in zip(code.lines, code.marks, strict=True) if mark)
    assert "rf.raw_call(fail" in line and "in step" in rf.show(error).text


def test_several_lines_are_marked_without_their_indentation():
    def mistake() -> Any:
        return rf.reduce_sum(
            rf.zeros([]),
            axis=rf.Dim(3, name="ä"),
        )

    code = code_of(caught(mistake))
    marked = [line[slice(*mark)] for line, mark in zip(code.lines, code.marks, strict=True) if mark]
    assert marked == ["rf.reduce_sum(", "rf.zeros([]),", 'axis=rf.Dim(3, name="ä"),', ")"]


def test_code_whose_text_is_gone():
    """As below `%%time`, and in `exec`."""
    x = data(rf.Dim(None, name="time"), rf.Dim(4, name="feat"))
    error = caught(lambda: exec("a = 1\nrf.reduce_sum(x, axis=rf.Dim(3, name='q'))", {"rf": rf, "x": x}))
    text = rf.show(error).text
    assert code_of(error).place == "<string>:2" and code_of(error).lines == []
    assert "\n(no " not in text and title(error) == "reduce_sum"
    called = [line for line in text.splitlines() if line.startswith("called in")]
    assert called and not any(line.endswith(": ") for line in called)


@pytest.mark.parametrize(
    "mistake, call, texts",
    [
        (lambda x, w: np.sum(x), "sum", ["x"]),
        (lambda x, w: x[0], "getitem", ["x"]),
        (lambda x, w: x.sum(3), "sum", ["x"]),
        (lambda x, w: torch.matmul(x, w), "torch.matmul", ["x", "w"]),
        (lambda x, w: torch.relu(input=x), "torch.relu", ["x"]),
    ],
    ids=["numpy", "index", "method", "torch", "torch by name"],
)
def test_habits_name_what_they_were_given(mistake, call, texts):
    x, w = data(rf.Dim(None, name="time"), rf.Dim(4, name="feat")), rf.ones([rf.Dim(4, name="feat")])
    error = caught(lambda: mistake(x, w))
    assert title(error) == call
    assert [row.text or row.name for row in strips(error)[0]] == texts


def test_columns_count_characters():
    def mistake() -> Any:
        return "äöü", rf.zeros([3])  # type: ignore[list-item]

    code = code_of(caught(mistake))
    assert [line[slice(*mark)] for line, mark in zip(code.lines, code.marks, strict=True) if mark] == ["rf.zeros([3])"]


def test_errors_before_it():
    def chained() -> None:
        try:
            {}["key"]
        except KeyError as error:
            raise DimError("no") from error

    def handling() -> None:
        try:
            {}["key"]
        except KeyError:
            raise DimError("no")  # noqa: B904

    def hidden() -> None:
        try:
            {}["key"]
        except KeyError:
            raise DimError("no") from None

    assert [cause.relation for cause in describe_causes(caught(chained))] == ["caused by"]
    assert [cause.relation for cause in describe_causes(caught(handling))] == ["while handling"]
    assert "while handling test_error_view.py" in card(handling).text
    assert not list(describe_causes(caught(hidden)))
    assert "caused by test_error_view.py" in card(chained).text and "KeyError" in card(chained).html


def test_a_deep_traceback_is_cut():
    def deep(n: int) -> Any:
        return deep(n - 1) if n else rf.zeros([3])  # type: ignore[list-item]

    error = caught(lambda: deep(300))
    assert len(describe_frames(error)) < 50 and len(rf.show(error).html) < 40_000
    assert any("more" in frame.text for frame in describe_frames(error))


def test_errors_without_all_that():
    assert rf.show(DimError("never raised")).text == "DimError: never raised"
    assert "ZeroDivisionError: division by zero" in card(lambda: 1 / 0).text
    code = compile("rf.zeros([3])", "<gone>", "eval")
    shown = code_of(caught(lambda: eval(code)))
    assert shown.lines == [] and shown.place == "<gone>:1"


# -- what it must not do


def test_a_card_holds_no_tensor():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")

    def mistake() -> tuple[View, weakref.ref[Any]]:
        x = data(time, feat)
        try:
            rf.reduce_sum(x, axis=rf.Dim(3))
        except DimError as error:
            return rf.show(error), weakref.ref(x)
        raise AssertionError

    view, x = mistake()
    gc.collect()
    assert x() is None and view.text


HOSTILE = "<img src=x onerror=alert(1)>\"'</td>"


def test_words_are_escaped():
    feat = rf.Dim(4, name=HOSTILE)
    texts = [card(lambda: rf.reduce_sum(rf.zeros([feat]), axis=rf.Dim(3, name=HOSTILE))).html]
    texts.append(rf.show(DimError(HOSTILE, got=HOSTILE, hint=HOSTILE)).html)
    error = caught(lambda: exec(compile(f"rf.zeros([3], dtype={HOSTILE!r})", HOSTILE, "exec"), {"rf": rf}))
    error.add_note(HOSTILE)
    texts.append(rf.show(error).html)
    assert all("<img" not in text and "onerror" in text for text in texts)


def test_a_broken_part_is_left_out(monkeypatch):
    monkeypatch.setattr(error_view, "failed_call", lambda error: 1 / 0)
    view = card(MISTAKES[0])
    assert "\n\n(no call: ZeroDivisionError: division by zero)" in view.text and "test_mistakes.py:" in view.text


def test_errors_travel_without_dims_and_places():
    error = caught(MISTAKES[9])
    assert isinstance(error, RfError) and error.dims and error.at
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and (again.dims, again.at) == ((), None)
