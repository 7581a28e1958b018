"""Expressions mean what Python means by them, and reach nothing but what they are given."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import example, given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.expression.expression import Expression, Names, functions_of_ops
from rfnb.errors import DimError, ExpressionError, LoopError, RfError
from rfnb.trace.run.stacked import over_steps
from tests.examples import examples

NAMES = Names({"x": 3, "y": 0.5, "yes": True, "word": "abc", "parts": [1, (2, 5)], "none": None}, functions_of_ops())


def value(text, names=NAMES):
    return Expression(text).value(names)


@pytest.fixture(autouse=True)
def unrecorded():
    yield
    rf.runs.clear()


@pytest.mark.parametrize(
    "text",
    [
        "1 + 2 * 3 - x",
        "(x + 1) ** 2 / y",
        "x // 2, x % 2, -x, +y",
        "2 ** -1",
        "x > 2 and y < 1",
        "x > 5 or y",
        "not x",
        "not none",
        "none or x",
        "none and x",
        "1 < x < 4 < 2",
        "1 < x <= 3 == 3.0",
        "x != 3",
        "word == 'abc'",
        "word != 'abc'",
        "none == none",
        "parts[1][0] + parts[-2]",
        "[x, (y, 'a')]",
        "()",
        "yes + x",
        "  x  ",
        "(x\n + 1)",
        "'ä' == 'ä', x",
    ],
)
def test_as_in_python(text):
    found = value(text)
    expected = eval(text.strip(), {**NAMES.values})  # of the table above alone
    assert (found, type(found)) == (expected, type(expected))


ATTACKS = [
    "__import__('os')",
    "__builtins__",
    "open('/etc/passwd')",
    "x.__class__",
    "x.real",
    "word.upper()",
    "word.upper",
    "word.format",
    "'{0.__class__}'.format(x)",
    "'%s' % x",
    "word * 10",
    "[0] * 10 ** 9",
    "parts + parts",
    "parts.append",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: 1)()",
    "[i for i in parts]",
    "{i for i in parts}",
    "{1: 2}",
    "{1, 2}",
    "f'{x}'",
    "(y := 1)",
    "x if yes else y",
    "x; y",
    "x = 1",
    "import os",
    "await x",
    "yield x",
    "*parts",
    "parts[yes]",
    "parts['0']",
    "parts[9]",
    "x[0]",
    "x @ y",
    "x << 2",
    "x | y",
    "~x",
    "x is yes",
    "x in word",
    "x in 3",
    "b'x'",
    "1j",
    "...",
    "(-1) ** 0.5",
    "10 ** 10 ** 10",
    "2 ** 10000",
    "2.0 ** 10000",
    "1 / 0",
    "x.rf",
    "rf",
    "rf.abs",
    "rf.abs.__globals__",
    "rf.__class__",
    "rf.__dict__",
    "rf.os",
    "rf.load_run('a')",
    "rf.raw_call(x)",
    "rf.gradient(x, x)",
    "rf.random(x)",
    "rf.dropout(x, 0.5)",
    "rf.parameter_assign(x, x)",
    "rf.pad(x)",
    "rf.abs(*parts)",
    "rf.abs(**parts)",
    "rf.abs(rf)",
    "rf.abs(rf.abs)",
    "rf.abs(unknown)",
    "rf['abs'](x)",
    "rf.abs(x)(x)",
    "rf.reduce_max(word)",
    "not word",
    "word and x",
    "word < 'b'",
    "",
    "   ",
    "(",
    "x +",
    "\x00",
    "\ud800",
    "1" * 5000,
    "(" * 1500,
    "-" * 1999 + "1",
    "x" + ".a" * 900,
    "x" + "[0]" * 600,
    "[" * 150 + "]" * 150,
    "x" + "+x" * 900,
    "not " * 400 + "x",
]


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: text[:30].encode("unicode_escape").decode())
def test_what_is_refused(text):
    with pytest.raises(RfError):
        value(text)


class Escape(BaseException):
    """Nothing swallows it."""


def refuse(*args, **options):
    raise Escape(args)


DANGERS = {
    builtins: ("open", "exec", "eval", "input", "breakpoint"),
    os: ("system", "popen", "remove"),
    subprocess: ("Popen",),
}


PIECES = """
    x y parts word rf . ( ) [ ] , + * ** == < and not 'a' 0 1 99 1e9 __class__ __import__ open eval exec os abs
    reduce_max axis= lambda: __globals__ __builtins__ system for in format getattr { } : f' ' @ if
""".split()


@examples(200)
@given(st.one_of(st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join), st.text(max_size=40)))
@example("open('a')")
@example("rf.abs(x)")
def test_hostile_strings_reach_nothing(text):
    modules = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for owner, names in DANGERS.items():
            for name in names:
                patch.setattr(owner, name, refuse)
        try:
            found = value(text)
        except RfError:
            found = None
    assert _is_plain(found)
    assert set(sys.modules) == modules


def _is_plain(found):
    if isinstance(found, list | tuple):
        return all(map(_is_plain, found))
    return found is None or isinstance(found, bool | int | float | str | rf.Tensor | rf.Dim)


def expressions():
    """Well-formed ones, of numbers."""
    leaf = st.one_of(st.integers(-9, 9).map(str), st.sampled_from(["x", "y", "0.25", "True"]))

    def more(inner):
        binary = st.tuples(inner, st.sampled_from(["+", "-", "*", "<", "<=", "==", "!=", "and", "or"]), inner)
        return st.one_of(
            binary.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda t: f"(-{t})"),
            inner.map(lambda t: f"(not {t})"),
        )

    return st.recursive(leaf, more, max_leaves=12)


@examples(100)
@given(expressions())
def test_numbers_agree_with_python(text):
    assert value(text) == eval(text, {"x": 3, "y": 0.5})


def test_and_and_or_stop_early():
    assert value("x > 5 and 1 / 0") is False
    assert value("x > 1 or 1 / 0") is True


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 + xx", "no `xx`, at column 5"),
        ("1 + xx", "did you mean x?"),
        ("rf.redcue_max(x)", "did you mean reduce_max?"),
        ("'ää' == xx", "at column 9"),
        ("2 * word", "a str cannot be used in a calculation, at column 1"),
        ("x +* y", "not an expression, at column 4"),
        ("x if yes else y", "`if`; use rf.where"),
        ("1" * 5000, "too long"),
    ],
)
def test_errors_say_where_and_what_instead(text, words):
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert words in str(caught.value)


def test_only_strings_are_expressions():
    with pytest.raises(ExpressionError, match="a string"):
        Expression(3)


def test_functions_only_compute():
    functions = functions_of_ops()
    assert {"reduce_max", "softmax", "matmul", "gather", "where", "one_hot", "range_over_dim"} <= set(functions)
    refused = {
        "pool",
        "conv",
        "transposed_conv",
        "pad",
        "raw_call",
        "assert",
        "random",
        "dropout",
        "parameter_assign",
        "gradient",
        "batch_norm",
        "load_run",
    }
    assert not refused & set(functions)
    assert not any(name.startswith("_") for name in functions)


# -- at a step of a run


def run():
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    phone = rf.Dim(None, name="phone", vocab=["sil", "AH", "B"])
    x = rf.convert_to_tensor([[[1.0, 2.0], [3.0, 5.0]], [[4.0, 0.0]]], dims=[batch_dim, time, feat])
    loop = rf.Loop(axis=time, name="sum", debug=True)
    loop.state.h = rf.zeros([batch_dim, feat])
    loop.state.lstm = rf.State(c=rf.zeros([batch_dim]), layers=[rf.ones([batch_dim])])
    loop.state.label = rf.zeros([batch_dim], dtype="int32", sparse_dim=phone)
    with loop:
        x_t = loop.unstack(x)
        h = loop.state.h + x_t
        best = rf.reduce_max(h, axis=feat)
        loop.state.h = h
        loop.state.lstm = rf.State(c=loop.state.lstm.c + best, layers=[loop.state.lstm.layers[0] * 2.0])
        new = rf.cast(best > 3.0, "int32")
        loop.state.label = rf.maximum(loop.state.label, rf.set_sparse_dim(new, phone))
    return loop.run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x_t", [[3.0, 5.0], [4.0, 0.0]]),
        ("h", [[4.0, 7.0], [4.0, 0.0]]),  # a state: after the step, like `rf.when` and the table
        ("values.h", [[4.0, 7.0], [8.0, 0.0]]),  # the variable of the body, also of the sequence that has ended
        ("before.h", [[1.0, 2.0], [4.0, 0.0]]),
        ("after.h", [[4.0, 7.0], [4.0, 0.0]]),
        ("lstm.c", [9.0, 4.0]),
        ("before.lstm.c", [2.0, 4.0]),
        ("before['lstm.c'] + 1", [3.0, 5.0]),
        ("after.lstm.layers[0]", [4.0, 2.0]),
        ("after.lstm.layers['0']", [4.0, 2.0]),
        ("rf.reduce_max(values.h, axis=feat) - best", [0.0, 0.0]),
        ("rf.reduce_sum(h, axis=[batch, feat])", 15.0),
        ("rf.gather(h, indices=1, axis=feat)", [7.0, 0.0]),
        ("h > 5 and x_t > 1", [[False, True], [False, False]]),
        ("h > 5 or step == 1", [[True, True], [True, True]]),
        ("not h > 5", [[True, False], [True, True]]),
        ("0 < h < 5", [[True, False], [True, False]]),
        ("after.label == 'AH'", [True, True]),
        ("'sil' != after.label", [True, True]),
        ("step", 1),
        ("h.dtype == 'float32' and step == 1", True),
        ("h.dims[1].dimension + 1", 3),
        ("rf.reduce_mean(h, axis=h.dims[1])", [5.5, 2.0]),
        ("2 ** rf.where(h > 5, 1.0, 0.0)", [[1.0, 2.0], [1.0, 1.0]]),
        ("-h * 2 + 1 // 1", [[-7.0, -13.0], [-7.0, 1.0]]),
        ("rf.range_over_dim(phone)", [0, 1, 2]),
    ],
)
def test_at_a_step(text, expected):
    found = run()[1].eval(text)
    assert (found.tolist() if isinstance(found, rf.Tensor) else found) == expected


def test_a_loop_variable_stands_before_what_a_step_has():
    loop = rf.Loop(max_seq_len=1, debug=True)
    loop.state.x = rf.ones([])
    with loop:
        before = loop.state.x + 1.0
        loop.state.x = before
    assert loop.run[0].eval("before").item() == 2.0
    assert loop.run[0].eval("after.x").item() == 2.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x_tt", "did you mean x_t?"),
        ("before.hh", "did you mean h?"),
        ("before.names", "no `names`"),
        ("before._replay", "no `_replay`"),
        ("before.__class__", "no `__class__`"),
        ("h.raw_tensor", "no `raw_tensor`"),
        ("h._raw", "no `_raw`"),
        ("h.__class__", "no `__class__`"),
        ("h.dims[0].lengths", "no `lengths`"),
        ("h[9]", "out of range"),
        ("h.backward()", "only computes"),
        ("h == 'AH'", "no names"),
        ("h if h else h", "rf.where"),
        ("rf.reduce_max(h)", "axis"),
        ("h + 'a'", "cannot be used in a calculation"),
        ("lstm + 1", "cannot be used in a calculation"),
    ],
)
def test_what_is_not_there(text, words):
    with pytest.raises(ExpressionError) as caught:
        run()[1].eval(text)
    assert words in str(caught.value)


def test_errors_of_ops_come_through():
    with pytest.raises(DimError, match="time"):
        run()[1].eval("rf.reduce_max(h, axis=time)")
    with pytest.raises(DimError, match="AHH"):
        run()[1].eval("after.label == 'AHH'")


def test_two_dims_of_one_name():
    a, b = rf.Dim(2, name="feat"), rf.Dim(3, name="feat")
    loop = rf.Loop(max_seq_len=1, debug=True)
    loop.state.x, loop.state.y = rf.ones([a]), rf.ones([b])
    with loop:
        loop.state.x, loop.state.y = loop.state.x + 1.0, loop.state.y + 1.0
    with pytest.raises(ExpressionError, match="2 dims are named 'feat'"):
        loop.run[0].eval("rf.reduce_sum(x, axis=feat)")
    assert loop.run[0].eval("rf.reduce_sum(before.y, axis=before.y.dims[0])").item() == 3.0


def test_looking_changes_nothing():
    """Neither the random numbers of the session, nor what a body is being traced into, nor the run."""
    recorded = run()
    state = torch.get_rng_state()
    recorded[1].eval("rf.reduce_max(h, axis=feat) * 2")
    assert torch.equal(torch.get_rng_state(), state)
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.x = rf.ones([])
    with loop:
        looked = recorded[1].eval("rf.reduce_sum(h, axis=[batch, feat])")
        loop.state.x = loop.state.x + 1.0
    assert type(looked) is rf.Tensor
    assert [op.op for op in loop.run[0].ops()] == ["add"]
    assert recorded[1].check == "replay agrees"


# -- over all steps


def test_stack():
    recorded = run()
    assert recorded.stack("best").dims == (recorded.axis, batch_dim)
    doubled = recorded.stack("2 * best")
    assert doubled.dims == (recorded.axis, batch_dim)
    assert doubled.copy_masked(0).copy_transpose([batch_dim, recorded.axis]).tolist() == [[4.0, 14.0], [8.0, 0.0]]
    assert recorded.stack("step * 10").tolist() == [0, 10]
    assert recorded.stack("rf.reduce_any(h > 5, axis=[batch, feat])").tolist() == [False, True]
    assert recorded.stack("2 * best").name == "2 * best"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("bestt", LoopError, "best"),
        ("bestt + 1", ExpressionError, "did you mean best"),
        ("'a' + ", ExpressionError, "not an expression"),
        ("(1, 2)", LoopError, "neither a Tensor nor a number"),
        ("rf.range_over_dim(time)", LoopError, "cannot be stacked"),
    ],
)
def test_what_cannot_be_stacked(text, error, words):
    with pytest.raises(error, match=words):
        run().stack(text)


def test_nothing_to_stack():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.zeros(2, 0), dims=[batch_dim, time], lengths=[0, 0])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    with pytest.raises(LoopError, match="cannot be computed without a step"):
        loop.run.stack("s + 1")


def test_of_a_name_given_twice_the_last():
    loop = rf.Loop(max_seq_len=1, debug=True)
    loop.state.x = rf.ones([])
    with loop:
        y = loop.state.x + 1.0
        y = y + 1.0
        loop.state.x = y
    assert loop.run[0].eval("y").item() == loop.run[0].y.item() == 3.0


def test_steps_are_joined_in_the_order_of_the_first():
    rows, columns, axis = rf.Dim(2, name="rows"), rf.Dim(3, name="columns"), rf.Dim(2, name="axis")
    x = rf.convert_to_tensor([[1, 2, 3], [4, 5, 6]], dims=[rows, columns])
    joined = over_steps([x, x.copy_transpose([columns, rows])], axis, axis.static_size)
    assert joined.dims == (axis, rows, columns)
    assert joined.raw_tensor[0].tolist() == joined.raw_tensor[1].tolist()


def test_names_with_a_dot():
    names = Names({"chosen.labels": 4, "y": 1}, {})
    assert Expression("chosen.labels * 2 + y").value(names) == 9
    with pytest.raises(ExpressionError, match="no `chosen`"):
        Expression("chosen.scores").value(names)
