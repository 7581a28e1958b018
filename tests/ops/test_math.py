"""Elementwise maths: types, values against numpy, broadcasting, gradients at the edges."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.backend.base.math import COMBINE_KINDS, COMPARE_KINDS

THREE, FOUR = rf.Dim(3, name="three"), rf.Dim(4, name="four")
TWO = rf.Dim(2, name="two")
TRUTH = rf.convert_to_tensor(torch.tensor([True, False]), dims=[TWO])
WHOLE = rf.convert_to_tensor(torch.tensor([3, 4]), dims=[TWO])


@pytest.mark.parametrize(
    ("result", "dtype", "values"),
    [
        (TRUTH + 1, "int64", [2, 1]),
        (1 - TRUTH, "int64", [0, 1]),
        (TRUTH - 1, "int64", [0, -1]),
        (1.5 - TRUTH, "float32", [0.5, 1.5]),
        (WHOLE - TRUTH, "int64", [2, 4]),
        (WHOLE + 1.5, "float32", [4.5, 5.5]),
        (WHOLE + np.float64(1.5), "float32", [4.5, 5.5]),
        (WHOLE + np.int64(1), "int64", [4, 5]),
    ],
)
def test_numbers_beside_tensors(result, dtype, values):
    assert (result.dtype, result.raw_tensor.tolist()) == (dtype, values)


def halves(*values, dtype=None):
    raw = torch.tensor(values) if dtype is None else torch.tensor(values, dtype=dtype)
    return rf.convert_to_tensor(raw, dims=[TWO])


BOOL, INT, FLOAT, HALF = TRUTH, halves(7, -7), halves(7.0, -7.0), halves(7.0, -7.0, dtype=torch.bfloat16)
TYPES = {  # of bool & bool, int & int, int & float, float & bfloat16, int & 2, int & 2.5, bfloat16 & 2.5
    "add": "bool int64 float32 float32 int64 float32 bfloat16",
    "sub": "- int64 float32 float32 int64 float32 bfloat16",
    "mul": "bool int64 float32 float32 int64 float32 bfloat16",
    "truediv": "float32 float32 float32 float32 float32 float32 bfloat16",
    "floordiv": "- int64 float32 float32 int64 float32 bfloat16",
    "ceildiv": "- int64 float32 float32 int64 float32 bfloat16",
    "mod": "- int64 float32 float32 int64 float32 bfloat16",
    "pow": "- int64 float32 float32 int64 float32 bfloat16",
    "maximum": "bool int64 float32 float32 int64 float32 bfloat16",
    "minimum": "bool int64 float32 float32 int64 float32 bfloat16",
    "logical_and": "bool bool bool bool bool bool bool",
    "logical_or": "bool bool bool bool bool bool bool",
    "squared_difference": "- int64 float32 float32 int64 float32 bfloat16",
    "logaddexp": "float32 float32 float32 float32 float32 float32 bfloat16",
    "complex": "complex64 complex64 complex64 complex64 complex64 complex64 complex64",
}
PAIRS = [(BOOL, BOOL), (INT, WHOLE), (INT, FLOAT), (FLOAT, HALF), (INT, 2), (INT, 2.5), (HALF, 2.5)]


@pytest.mark.parametrize("kind", COMBINE_KINDS)
def test_the_type_of_a_combination(kind):
    for (a, b), dtype in zip(PAIRS, TYPES[kind].split(), strict=True):
        if dtype != "-":
            assert rf.combine(a, kind, b).dtype == dtype, (kind, a.dtype, b)
    for compare in COMPARE_KINDS:
        assert all(rf.compare(a, compare, b).dtype == "bool" for a, b in PAIRS)


NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
         "ceildiv": lambda a, b: -np.floor_divide(-a, b), "mod": np.mod, "pow": np.power, "maximum": np.maximum,
         "minimum": np.minimum, "logical_and": np.logical_and, "logical_or": np.logical_or, "logaddexp": np.logaddexp,
         "squared_difference": lambda a, b: (a - b) ** 2, "complex": lambda a, b: a + 1j * b, "equal": np.equal,
         "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
         "greater_equal": np.greater_equal}  # fmt: skip


@pytest.mark.parametrize("kind", NUMPY)
def test_kinds_agree_with_numpy(kind):
    function = rf.compare if kind in COMPARE_KINDS else rf.combine
    a = np.array([7, -7, 8, 6, 2, 0])
    four = rf.Dim(6, name="six")
    for dtype in ("int64", "float64"):
        for b in (np.array([2, 2, 3, 6, 1, 5]), 2):
            b = b.astype(dtype) if isinstance(b, np.ndarray) else b
            left = rf.convert_to_tensor(a.astype(dtype), dims=[four])
            right = rf.convert_to_tensor(b, dims=[four]) if isinstance(b, np.ndarray) else b
            np.testing.assert_allclose(function(left, kind, right).numpy(), NUMPY[kind](a.astype(dtype), b), rtol=1e-6)


@pytest.mark.parametrize("quick", [rf.maximum, rf.minimum, rf.logical_and, rf.log_add_exp])
def test_a_fraction_beside_whole_numbers_stays_one(quick):
    x = halves(1, 3)
    kind = {"maximum": "maximum", "minimum": "minimum", "log_add_exp": "logaddexp"}.get(quick.__name__, "logical_and")
    for _ in range(2):  # planned, then quick
        torch.testing.assert_close(quick(x, 2.5).raw_tensor, rf.combine(rf.cast(x, "float32"), kind, 2.5).raw_tensor)


def test_operators_also_from_the_right():
    x = halves(7, -7)
    assert (x // 2).raw_tensor.tolist() == [3, -4]
    assert (x % 4).raw_tensor.tolist() == [3, 1]
    assert (50 // x).raw_tensor.tolist() == [7, -8]
    assert (50 % x).raw_tensor.tolist() == [1, -6]
    assert (2.0**x).raw_tensor.tolist() == [2.0**7, 2.0**-7]
    assert (1 / x).dtype == "float32"
    assert (TRUTH & False).raw_tensor.tolist() == [False, False]
    assert (False | TRUTH).raw_tensor.tolist() == [True, False]
    assert (~TRUTH).raw_tensor.tolist() == [False, True]


@pytest.mark.parametrize("op", [rf.floor_divide, rf.ceil_divide, rf.mod])
def test_a_division_by_0_in_padding_is_none(op):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.tensor([[1, 2], [5, 0]]), dims=[rf.batch_dim, time], lengths=[2, 1])
    assert op(x * 10, x).raw_tensor[0].tolist() == op(halves(10, 20), halves(1, 2)).raw_tensor.tolist()
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        op(x * 10, rf.zeros_like(x))


@pytest.mark.parametrize("like", [torch.asarray, np.asarray])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_quotient_is_rounded_up_in_small_integers_too(dtype, like):
    raw = np.array([7, 8, 100], dtype)
    x = rf.convert_to_tensor(torch.from_numpy(raw), dims=[THREE])
    x = x.like(like(raw))
    for quotient in (rf.ceil_divide(x, 2), rf.ceil_divide(x, x.like(like(np.array([2, 2, 2], dtype))))):
        assert quotient.dtype == dtype and quotient.raw_tensor.tolist() == [4, 4, 50]


def test_a_kind_of_the_other_family_is_told():
    with pytest.raises(rf.errors.RfError, match="combine: unknown `kind`") as error:
        rf.combine_bc(rf.ones([TWO]), "equal", 1.0)
    assert 'rf.compare(a, "equal", b)' in error.value.hint
    with pytest.raises(rf.errors.RfError, match="compare: unknown `kind`") as error:
        rf.compare(rf.ones([TWO]), "add", 1.0)
    assert 'rf.combine(a, "add", b)' in error.value.hint


def test_the_order_of_the_dims_of_a_result():
    x, y = rf.ones([TWO, THREE]), rf.ones([THREE])
    assert rf.combine(x, "add", y, dim_order=[THREE, TWO]).dims == (THREE, TWO)
    assert rf.combine(x, "add", y, dim_order=[THREE]).dims == (THREE, TWO)
    assert rf.compare(x, "less", y, dim_order=[FOUR, THREE, TWO]).dims == (THREE, TWO)
    assert rf.combine_bc(rf.ones([TWO]), "add", y, dim_order=[THREE]).dims == (THREE, TWO)
    assert rf.combine(rf.ones([TWO]), "add", y, dim_order=[THREE, TWO]).dims == (THREE, TWO)
    assert rf.combine(rf.ones([TWO]), "add", y, dim_order=[THREE]).dims == (THREE, TWO)


BEAM, VOCAB = rf.Dim(5, name="beam"), rf.Dim(4, name="vocab")
LOGICAL = {"logical_and": operator.and_, "logical_or": operator.or_}
BROADCASTING = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "equal": operator.eq,
    "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "maximum": rf.maximum, "minimum": rf.minimum,
    "squared_difference": rf.squared_difference, "logaddexp": rf.log_add_exp, **LOGICAL,
}  # fmt: skip
"""Operators and functions, by the kind of `rf.combine` or `rf.compare`."""


@pytest.mark.parametrize("kind", BROADCASTING)
def test_each_operand_may_lack_dims_of_the_other(kind):
    a = rf.random_uniform([BEAM, TWO], minval=1.0, maxval=2.0)
    b = rf.random_uniform([TWO, VOCAB], minval=1.0, maxval=2.0)
    if kind in LOGICAL:
        a, b = a > 1.5, b > 1.5
    result = BROADCASTING[kind](a, b)
    together = rf.compare if kind in COMPARE_KINDS else rf.combine
    again, explicit = together(a, kind, b), together(a, kind, b, allow_broadcast_all_sources=True)
    assert result.dims == again.dims == explicit.dims == (BEAM, TWO, VOCAB)
    assert BROADCASTING[kind](a, b).raw_tensor.equal(result.raw_tensor)  # with the plan of the first call
    expanded = rf.expand_dim(a, VOCAB).copy_transpose([BEAM, TWO, VOCAB])
    assert result.raw_tensor.equal(BROADCASTING[kind](expanded, b).raw_tensor)
    assert again.raw_tensor.equal(result.raw_tensor) and explicit.raw_tensor.equal(result.raw_tensor)


def test_the_dims_of_the_first_operand_come_first():
    assert (rf.ones([TWO]) + rf.ones([THREE, VOCAB])).dims == (TWO, THREE, VOCAB)
    assert (rf.ones([THREE]) + rf.ones([TWO, THREE])).dims == (TWO, THREE)  # the second one has all
    assert (rf.ones([TWO]) * rf.ones([rf.Dim(1, name="two")])).dims[0] == TWO


def test_frames_are_compared_with_lengths():
    time = rf.Dim([3, 1], name="time")
    valid = rf.range_over_dim(time) < time.get_size_tensor()
    assert valid.dims == (time, rf.batch_dim)
    assert valid.raw_tensor.tolist() == [[True, True], [True, False], [True, False]]


def test_the_sum_of_labels_of_different_dims_is_no_label():
    words, phones = rf.Dim(9, name="words"), rf.Dim(7, name="phones")
    a, b = (rf.set_sparse_dim(rf.range_over_dim(THREE), dim) for dim in (words, phones))
    assert (a + b).sparse_dim is None
    assert (a + a).sparse_dim is words
    assert (a + 1).sparse_dim is (a + rf.set_sparse_dim(b, None)).sparse_dim is words


@pytest.mark.parametrize("op", [
    lambda **how: rf.where(rf.ones([TWO]) > 0, rf.ones([THREE]), 0.0, **how),
    lambda **how: rf.clip_by_value(rf.ones([TWO]), rf.ones([THREE]), 3.0, **how),
    lambda **how: rf.lerp(rf.ones([TWO]), rf.ones([THREE]), 0.5, **how),
])  # fmt: skip
def test_dims_that_no_operand_has_all_of(op):
    with pytest.raises(rf.errors.DimError, match=r"(?s)no operand has all dims.*allow_broadcast_all_sources"):
        op()
    assert op(allow_broadcast_all_sources=True).dims_set == {TWO, THREE}


@pytest.mark.parametrize(("x", "low", "high", "values", "dtype"), [
    ([-2.0, 5.0], -1.0, 1.0, [-1.0, 1.0], "float32"),
    ([-2.0, 5.0], None, 1.0, [-2.0, 1.0], "float32"),
    ([-2.0, 5.0], None, None, [-2.0, 5.0], "float32"),
    ([-2, 5], -1, 1, [-1, 1], "int64"),
    ([-2, 5], -1.5, None, [-1.5, 5.0], "float32"),
    ([-2.0, 5.0], halves(1.0, 6.0), 3.0, [1.0, 3.0], "float32"),
    ([-2, 5], halves(1.5, 6.5), None, [1.5, 6.5], "float32"),
])  # fmt: skip
def test_clip_by_value(x, low, high, values, dtype):
    clipped = rf.clip_by_value(halves(*x), low, high)
    assert (clipped.raw_tensor.tolist(), clipped.dtype) == (values, dtype)


def test_the_gradient_of_a_clipped_value_is_1_at_the_bounds():
    x = halves(0.0, 2.0)
    x.raw_tensor.requires_grad_()
    rf.clip_by_value(x, 0.0, 1.0).raw_tensor.sum().backward()
    assert x.raw_tensor.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_the_log_of_0_is_finite_with_a_finite_gradient(dtype):
    x = halves(0, 1, dtype=getattr(torch, dtype))
    if dtype != "int64":
        x.raw_tensor.requires_grad_()
    y = rf.safe_log(x)
    assert torch.isfinite(y.raw_tensor).all() and y.raw_tensor[1] == 0
    if dtype != "int64":
        y.raw_tensor.sum().backward()
        assert torch.isfinite(x.raw_tensor.grad).all()
    tiny = rf.Parameter([TWO], dtype="float32", initial=2.0**-126)
    rf.safe_log(tiny).raw_tensor.sum().backward()
    assert torch.isfinite(tiny.raw_tensor.grad).all()


def test_conditions_that_may_be_python_ones():
    a, b = halves(True, True), halves(True, False)
    for x, y in [(True, True), (True, False), (False, True), (False, False)]:
        assert rf.opt_logical_and(x, y) is (x and y)
        assert rf.opt_logical_or(x, y) is (x or y)
    assert rf.opt_logical_and(True, b) is b and rf.opt_logical_and(b, True) is b
    assert rf.opt_logical_or(False, b) is b and rf.opt_logical_or(b, False) is b
    assert rf.opt_logical_and(b, False) is False and rf.opt_logical_or(True, b) is True
    assert rf.opt_logical_and(a, b).raw_tensor.tolist() == [True, False]
    assert rf.opt_logical_or(b, b).raw_tensor.tolist() == [True, False]


def test_halves_that_gate():
    x = rf.convert_to_tensor([1.0, 2.0, 3.0, -4.0], dims=[FOUR], feature_dim=FOUR)
    y, half = rf.gating(x)
    torch.testing.assert_close(y.raw_tensor, torch.tensor([1.0, 2.0]) * torch.sigmoid(torch.tensor([3.0, -4.0])))
    assert half is FOUR // 2 and y.feature_dim is half
    assert rf.gating(x, gate_func=rf.relu, act_func=rf.neg, out_dim=TWO)[0].raw_tensor.tolist() == [-3.0, 0.0]
    with pytest.raises(rf.errors.DimError, match="two halves"):
        rf.gating(rf.ones([THREE]), axis=THREE)
    with pytest.raises(rf.errors.DimError, match="two halves"):
        rf.gating(rf.ones([TWO]))


def test_complex_there_and_back():
    z = rf.make_complex(halves(1.0, 2.0), halves(3, -4))
    assert z.raw_tensor.tolist() == [1 + 3j, 2 - 4j]
    pairs, dim = rf.complex_as_real(z)
    assert pairs.dims == (TWO, dim) and dim is rf.complex_as_real(z)[1]
    for x in (pairs, pairs.copy_transpose([dim, TWO])):
        assert rf.real_as_complex(x, pair_dim=dim).raw_tensor.tolist() == z.raw_tensor.tolist()
    assert rf.make_complex(halves(1.0, 2.0, dtype=torch.float64), 1).dtype == "complex128"
    with pytest.raises(rf.errors.DtypeError, match="is not complex"):
        rf.complex_as_real(pairs)
    with pytest.raises(rf.errors.DtypeError, match="`real` is complex already"):
        rf.make_complex(z, z)
    with pytest.raises(rf.errors.DimError, match="dim of real and imaginary part"):
        rf.real_as_complex(rf.ones([THREE]), pair_dim=THREE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("sign", "add sub mul truediv pow eq".split())
def test_complex_numbers_beside_tensors(sign, dtype):
    raw, combine = torch.tensor([2, 3], dtype=getattr(torch, dtype)), getattr(operator, sign)
    for data in (raw, raw.numpy()):
        x = rf.convert_to_tensor(data, dims=[TWO])
        for y, expected in ((combine(x, 0.1j), combine(raw, 0.1j)), (combine(1j, x), combine(1j, raw))):
            assert y.dtype == str(expected.dtype).removeprefix("torch.")
            np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6 if dtype != "float64" else 1e-14)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_numbers_that_a_small_type_does_not_hold(dtype):
    raw = torch.tensor([4, 100], dtype=getattr(torch, dtype))
    for data in (raw, raw.numpy()):
        x = rf.convert_to_tensor(data, dims=[TWO])
        assert (-1 / x).tolist() == [-0.25, pytest.approx(-0.01)] and (70000 / x).tolist() == [17500, 700]


def test_kinds_that_there_are_not():
    with pytest.raises(rf.errors.RfError, match="did you mean 'truediv'"):
        rf.combine(FLOAT, "trudiv", FLOAT)
    with pytest.raises(rf.errors.RfError, match="did you mean 'less_equal'"):
        rf.compare(FLOAT, "lessequal", FLOAT)
    with pytest.raises(rf.errors.DtypeError, match="booleans cannot be subtracted"):
        TRUTH - TRUTH


def test_in_the_body_of_a_loop():
    time = rf.Dim(4, name="time")
    x = rf.convert_to_tensor(torch.tensor([[1.0, 5.0, -2.0, 3.0]] * 2), dims=[TWO, time])

    def body(x):
        clipped = rf.clip_by_value(x, halves(0.0, 1.0), 2.5)
        return rf.lerp(clipped, rf.ceil_divide(x, 2), 0.25) + rf.safe_log(rf.relu(x)) + rf.abs(rf.make_complex(x, 1.0))

    with rf.Loop(axis=time) as loop:
        y = loop.stack(body(loop.unstack(x)))
    torch.testing.assert_close(y.copy_transpose([TWO, time]).raw_tensor, body(x).raw_tensor)


def test_lengths_of_two_batches_do_not_mix_in_a_choice():
    time = rf.Dim(None, name="time")
    old = rf.convert_to_tensor(torch.ones(2, 3), dims=[rf.batch_dim, time], lengths=[3, 1])
    new = rf.convert_to_tensor(torch.ones(2, 3), dims=[rf.batch_dim, time], lengths=[2, 3])
    for call in (lambda: rf.where(old > 0, old, new), lambda: rf.clip_by_value(old, 0.0, new)):
        with pytest.raises(rf.errors.DimRebound, match="time has different lengths"):
            call()


@pytest.mark.parametrize(
    ("sign", "kind"), [("-", "sub"), ("//", "floordiv"), (">=", "greater_equal"), ("!=", "not_equal")]
)
def test_signs_are_kinds(sign, kind):
    feat = rf.Dim(3, name="feat")
    a, b = rf.range_over_dim(feat), rf.ones([feat], dtype="int64")
    op = rf.combine if sign in "-//" else rf.compare
    assert op(a, sign, b).raw_tensor.equal(op(a, kind, b).raw_tensor)


@pytest.mark.parametrize("other", ["number", "labels", "turned"])
def test_a_comparison_of_labels_is_no_label(other):
    time, feat, vocab = rf.Dim(2, name="time"), rf.Dim(3, name="feat"), rf.Dim(9, name="vocab")
    labels = rf.convert_to_tensor(np.arange(6).reshape(2, 3), dims=[time, feat], sparse_dim=vocab)
    second = {"number": 4, "labels": labels, "turned": labels.copy_transpose([feat, time])}[other]
    for _ in range(3):  # the first goes the slow way, and those behind it the quick one
        found = labels == second
        assert (found.dtype, found.sparse_dim, found.dims) == ("bool", None, (time, feat))
        assert (labels + 1).sparse_dim is vocab


@pytest.mark.parametrize("written", ["a", "b"])
def test_padding_written_in_place_stays_out_of_the_other_gradient(written):
    """Both operands have frames that the other one lacks. The second product uses the plan of the first."""
    spoken, spelled = rf.Dim(None, name="spoken"), rf.Dim(None, name="spelled")
    raws = {"a": torch.ones(2, 3), "b": torch.ones(2, 4)}
    a = rf.convert_to_tensor(raws["a"], dims=[rf.batch_dim, spoken], lengths=[3, 1])
    b = rf.convert_to_tensor(raws["b"], dims=[rf.batch_dim, spelled], lengths=[4, 2])
    for _ in range(2):
        kept = {"a": b, "b": a}[written]
        raw = kept.raw_tensor.detach().clone().requires_grad_()
        other = kept.copy_template()
        other.raw_tensor = raw
        changed = {"a": a, "b": b}[written]
        changed.raw_tensor[1, 2:] = float("nan")
        product = (changed * other) if written == "a" else (other * changed)
        rf.reduce_sum(product, axis=product.dims).raw_tensor.backward()
        assert raw.grad.isfinite().all()
