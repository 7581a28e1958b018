"""Dims are identities; expressions of them are canonical; sizes come from the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.dims.lengths import Size


def test_equal_size_never_makes_dims_equal():
    assert Dim(4, name="a") != Dim(4, name="a")


def test_the_same_expression_is_the_same_dim():
    time, feat, heads = Dim(None, name="time"), Dim(6, name="feat"), Dim(2, name="heads")
    assert time + 1 - 1 is time
    assert 1 + time is time + 1
    assert 2 * feat // 2 is feat
    assert (time + 1) + (time + 1) is 2 * time + 2
    assert heads * feat is heads * feat
    assert heads * feat is not feat * heads, "two layouts"
    assert heads + feat is not feat + heads
    assert heads + feat - feat is heads
    assert (heads * feat) // heads is feat
    assert 3 * heads * feat // heads is 3 * feat
    assert feat // feat is heads // heads
    assert time.ceildiv_right(2).ceildiv_right(3) is time.ceildiv_right(6)
    assert time - time + feat is feat


def test_products_divide_products():
    t, s = Dim(None, name="t"), Dim(None, name="s")
    assert (t * s * s) // (t * s) is s
    assert (t * s) // (t * s) is t // t


def test_numbers_of_numpy_are_numbers():
    time = Dim(None, name="time")
    assert time + np.int64(1) is time + 1
    assert time - np.int32(1) is time - 1
    assert time * np.int64(2) is 2 * time
    assert time // np.int64(2) is time // 2
    assert time % np.int64(2) is time % 2


def test_a_number_by_a_dim():
    assert (10 // Dim(3)).dimension == 3
    assert (10 // Dim(None, name="time")).name == "⌊10/time⌋"


@pytest.mark.parametrize("divide", [lambda t: t // 0, lambda t: t % 0, lambda t: t.ceildiv_right(0)])
def test_division_by_zero(divide):
    with pytest.raises(rf.errors.DimError, match="by 0"):
        divide(Dim(None, name="time"))


def test_static_expressions_have_their_size_at_once():
    feat = Dim(7, name="feat")
    sizes = [(feat + 1).dimension, (3 * feat).dimension, (feat // 2).dimension, feat.ceildiv_right(2).dimension]
    assert sizes == [8, 21, 3, 4]
    assert (feat % 4).dimension == 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda t: t + 1, "time+1"),
        (lambda t: t - 2, "time-2"),
        (lambda t: 2 * t + 1, "2*time+1"),
        (lambda t: (t + 2).ceildiv_right(3), "⌈(time+2)/3⌉"),
        (lambda t: t // 2, "⌊time/2⌋"),
        (lambda t: -t, "-time"),
        (lambda t: t % 3, "time%3"),
        (lambda t: (t + 1).ceildiv_left(Dim(2, name="heads")), "⌈heads\\(time+1)⌉"),
        (lambda t: t.copy(match_priority=1), "time(1)"),
    ],
)
def test_expressions_read_like_maths(make, text):
    dim = make(Dim(None, name="time"))
    assert (dim.name, dim.formula) == (text, text)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(0, 4), st.integers(1, 4))
def test_derived_lengths_are_computed_from_the_batch(lengths, more, by):
    time = Dim(None, name="time")
    rf.convert_to_tensor(np.zeros((len(lengths), max(lengths))), dims=[batch_dim, time], lengths=lengths)
    derived = (time + more).ceildiv_right(by)
    assert derived.size.values.tolist() == [-(-(n + more) // by) for n in lengths]
    assert derived.get_dim_value() == max(-(-(n + more) // by) for n in lengths)


def test_a_derived_length_is_never_negative():
    time = Dim(None, name="time")
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, time], lengths=[0, 3])
    assert (time - 1).size.values.tolist() == [0, 2]


def test_a_new_batch_leaves_tensors_as_they_were():
    time = Dim(None, name="time")
    first = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    second = rf.convert_to_tensor(torch.ones(3, 2), dims=[batch_dim, time], lengths=[1, 2, 2])
    assert rf.reduce_sum(first, axis=time).raw_tensor.tolist() == [3.0, 1.0]
    assert rf.reduce_sum(second, axis=time).raw_tensor.tolist() == [1.0, 2.0, 2.0]
    assert first.size_of(time + 1).values.tolist() == [4, 2]


def test_two_batches_do_not_mix():
    time = Dim(None, name="time")
    first = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    second = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 2])
    with pytest.raises(rf.errors.DimRebound, match=r"test_dim.py:\d+.* and .*test_dim.py:\d+"):
        first + second
    same = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    assert (first + same).raw_tensor.sum().item() == 12.0


def test_batches_of_another_size_do_not_broadcast():
    one = rf.convert_to_tensor(torch.ones(1), dims=[batch_dim])
    four = rf.convert_to_tensor(torch.ones(4), dims=[batch_dim])
    with pytest.raises(rf.errors.DimRebound):
        one + four


def test_a_result_outlives_the_lengths_that_it_no_longer_has():
    time = Dim(None, name="time")
    kept = rf.reduce_sum(rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1]), axis=time)
    other = rf.convert_to_tensor(torch.ones(2, 5), dims=[batch_dim, time], lengths=[5, 2])
    assert rf.reduce_sum(other + kept, axis=time).raw_tensor.tolist() == [20.0, 4.0]


def test_a_vocab_needs_the_size_of_its_dim():
    assert Dim(2, name="v", vocab=["a", "b"]).vocab.decode(1) == "b"
    with pytest.raises(rf.errors.DimError, match="vocab"):
        Dim(3, name="v", vocab=["a", "b"])


def test_a_vocab_from_a_file_and_from_a_tokenizer(tmp_path):
    (tmp_path / "labels").write_text("x\ny\n")
    assert Dim(2, vocab=str(tmp_path / "labels")).vocab.labels == ("x", "y")

    class Tokenizer:
        vocab_size = 3

        def decode(self, ids):
            return f"<{ids[0]}>"

    assert Dim(3, vocab=Tokenizer()).vocab.decode(2) == "<2>"


def bound(lengths, name="time"):
    time = Dim(None, name=name)
    rf.convert_to_tensor(np.zeros((len(lengths), max(lengths))), dims=[batch_dim, time], lengths=lengths)
    return time


def test_left_and_right_are_the_ends_of_sums_and_products():
    a, b = Dim(6, name="a"), Dim(3, name="b")
    assert (a * b).div_right(b) is a
    assert (a * b).div_left(a) is b
    assert (a * b).div_left(b) is not (a * b).div_right(b)
    assert (2 * a * b).div_left(a) is 2 * b
    assert (a * b * a).div_right(b * a) is a
    assert (a + b).sub_right(b) is a
    assert (a + b).sub_left(a) is b
    assert ((a + b).sub_left(b).name, (a + b).sub_right(a).name) == ("-b+a+b", "a+b-a")
    assert (a + b + a).sub_right(b + a) is a
    assert (1 + a).sub_left(1) is a.sub_right(1) + 1 is a
    assert (2 * a).div_left(2) is a / 1 is a
    assert a.ceildiv_left(b) is not a.ceildiv_right(b)
    assert a.ceildiv_left(4) is a.ceildiv_right(4), "a number has no layout"
    sizes = [(a * b).div_left(b), a.sub_left(b), a.ceildiv_left(Dim(4)), a / 3]
    assert [dim.dimension for dim in sizes] == [6, 3, 2, 2]
    with pytest.raises(rf.errors.DimError, match="not divisible by"):
        a / 4


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_sizes_of_expressions_are_computed_for_each_sequence(lengths, others):
    time, heads = bound(lengths), Dim(max(others), name="heads")
    cases = {
        time.div_left(heads): lambda n, h: n // max(h, 1),
        time.ceildiv_left(heads): lambda n, h: -(-n // max(h, 1)),
        time.sub_left(heads): lambda n, h: max(n - h, 0),
        heads + time: lambda n, h: h + n,
        heads * time: lambda n, h: h * n,
        time % heads: lambda n, h: n % max(h, 1),
        10 - time: lambda n, h: max(10 - n, 0),
    }
    for dim, expected in cases.items():
        assert dim.size.values.tolist() == [expected(n, heads.dimension) for n in lengths], dim


def test_dims_of_one_size_stay_two_dims():
    time, other = bound([3, 1]), Dim(None, name="other")
    other.declare_same_as(time)
    assert other.size.agrees(time.size)
    assert other is not time
    assert other + 1 is time + 1, "but the same expression"
    with pytest.raises(rf.errors.DimError, match="in use"):
        time.declare_same_as(Dim(3))


def test_the_one_without_a_size_gets_it():
    time, other = bound([3, 1]), Dim(None, name="other")
    time.declare_same_as(other)
    assert other.size.values.tolist() == [3, 1]
    time.declare_same_as(other)
    other.declare_same_as(time)


def test_sizes_may_come_later_and_in_a_chain():
    a, b, c = (Dim(None, name=name) for name in "abc")
    more = a + 1
    a.declare_same_as(b)
    b.declare_same_as(c + 1)
    assert not a.is_dim_known()
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, c], lengths=[3, 1])
    assert a.size.values.tolist() == [4, 2]
    assert more.size.values.tolist() == [5, 3]
    c.bind(Size([batch_dim], [1, 2]))
    assert a.size.values.tolist() == [2, 3]


def test_a_dim_that_follows_from_one_without_a_size():
    time, x = bound([3, 1]), Dim(None, name="x")
    (x + 1).declare_same_as(time)
    assert x.size.values.tolist() == [2, 0]
    with pytest.raises(rf.errors.DimError):
        (free := Dim(None, name="free")).declare_same_as(free + 1)


def test_a_fixed_size_gets_everywhere():
    a = Dim(None, name="a")
    more, template = 2 * a, rf.Tensor("x", [a], "float32")
    a.declare_same_as(Dim(5, name="five"))
    assert (a.dimension, more.dimension) == (5, 10)
    assert not template.sig.frames
    assert rf.zeros([a, more]).raw_tensor.shape == (5, 10)


@pytest.mark.parametrize("reset", ["reset_eager", "reset_raw", "reset_batch_ctx", "reset_batch_and_raw"])
def test_a_reset_forgets_the_batch_but_not_for_tensors(reset):
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    getattr(time, reset)()
    assert (time.is_dim_known(), time.dyn_size_ext, (time + 1).is_dim_known()) == (False, None, False)
    assert rf.reduce_sum(x, axis=time).raw_tensor.tolist() == [3.0, 1.0]


def test_a_copy_is_the_dim_or_another_of_its_size():
    time = bound([3, 1])
    assert time.copy() is time.copy(same_as_self=True) is time
    other = time.copy(same_as_self=False, description="other")
    assert (other is time, other.name, other.size.values.tolist()) == (False, "other", [3, 1])
    first = time.copy(match_priority=1)
    assert first is time.copy(match_priority=1) is not time
    assert (first.match_priority, first.base, first.copy(match_priority=0)) == (1, time, time)
    assert first.size.values.tolist() == [3, 1]
    mine = Dim(None, name="mine")
    mine.copy_from(Dim(2, name="v", vocab=["a", "b"], kind="feature"))
    assert (mine.dimension, mine.vocab.labels, mine.kind) == (2, ("a", "b"), "feature")


def test_what_users_ask_a_dim():
    time, feat = bound([3, 1]), Dim(4, name="feat", kind=Dim.Types.Feature)
    assert (time.get_dim_value(), feat.get_dim_value(), feat.get_dim_value_tensor()) == (3, 4, 4)
    assert (int(time.get_dim_value_tensor()), int(feat.get_size_tensor())) == (3, 4)
    assert time.dyn_size.tolist() == time.dyn_size_ext.raw_tensor.tolist() == [3, 1]
    assert time.get_dyn_size_ext_for_device("cpu").dims == (batch_dim,)
    assert (feat.dyn_size, feat.dyn_size_ext) == (None, None)
    assert (time.need_masking(), batch_dim.need_masking(), feat.need_masking()) == (True, False, False)
    assert (feat.is_feature_dim(), feat.is_spatial_dim(), batch_dim.is_batch_dim()) == (True, False, True)
    assert Dim(8, name="padded", capacity=16, bounded_by=feat).bounded_by is feat
    mask = time.get_mask(dim_order=[time, batch_dim])
    assert mask.raw_tensor.tolist() == [[True, True], [True, False], [True, False]]
    with pytest.raises(rf.errors.DimError, match="copy\\(match_priority=1\\)"):
        Dim(4, match_priority=1)


def test_lengths_may_be_set():
    time = Dim(None, name="time")
    rf.zeros([Dim(1)])
    for values in ([2, 1], [1, 3, 2]):
        time.dyn_size_ext = rf.convert_to_tensor(values, dims=[Dim(len(values), name="sequences")])
        assert time.size.values.tolist() == values
    time.dyn_size_ext = None
    assert not time.is_dim_known()
    with pytest.raises(rf.errors.DimError, match="does not depend on data"):
        Dim(3).dyn_size_ext = rf.convert_to_tensor(3)


def test_lengths_of_any_dims():
    batch, beam, feat = Dim(2, name="batch"), Dim(3, name="beam"), Dim(2, name="feat")
    values = np.array([[3, 0, 2], [1, 3, 3]])
    inner = Dim(rf.convert_to_tensor(values, dims=[batch, beam]), name="inner")
    scalar = Dim(rf.convert_to_tensor(2), name="scalar")
    raw = torch.randn(2, 3, 3, 2)
    mask = torch.tensor(np.arange(3) < values[..., None])
    x = rf.convert_to_tensor(raw.where(mask[..., None], torch.nan), dims=[batch, beam, inner, feat])
    weights = rf.convert_to_tensor(torch.ones(3, 2), dims=[inner, feat])
    assert torch.equal(inner.get_mask().raw_tensor, mask)
    expected = raw.where(mask[..., None], 0.0)
    torch.testing.assert_close(rf.reduce_sum(x, axis=inner).raw_tensor, expected.sum(2))
    torch.testing.assert_close(rf.reduce_sum(x, axis=[inner, beam]).raw_tensor, expected.sum((1, 2)))
    product = rf.matmul(x, weights, reduce=inner).copy_transpose([batch, beam, feat])
    torch.testing.assert_close(product.raw_tensor, expected.sum(2))
    torch.testing.assert_close(rf.matmul(x, x, reduce=[inner, beam]).raw_tensor, expected.square().sum((1, 2)))
    assert (rf.zeros([scalar]).raw_tensor.shape, scalar.need_masking()) == ((2,), False)


def test_an_output_dim_belongs_to_the_op_that_defined_it():
    time, out = Dim(None, name="time"), Dim(None, name="out")
    for lengths in ([3, 1], [2, 2]):
        x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=lengths)
        rf.concat((x, time), (x, time), out_dim=out)
        assert np.broadcast_to(out.size.values, 2).tolist() == [2 * n for n in lengths]
    with pytest.raises(rf.errors.DimError, match="in use"):
        rf.slice(x, axis=time, start=0, size=1, out_dim=out)


@pytest.mark.parametrize("n", [1, 7, 8, 12])
def test_python_rounds_up_by_negated_division(n):
    expected = math.ceil(n / 3)
    for dim in (rf.Dim(n, name="static"), rf.Dim([n, 1], name="time"), 2 * rf.Dim([n, 1], name="half") + 1):
        size = dim.get_dim_value()
        rounded = [-(-dim // 3), -(dim // -3), dim.ceildiv_right(3)]
        assert [each.get_dim_value() for each in rounded] == [math.ceil(size / 3)] * 3, dim
    parts = rf.Dim(3, name="parts")
    dim = rf.Dim(n, name="static")
    assert (-(-dim // parts)).get_dim_value() == (-(-dim).div_left(parts)).get_dim_value() == expected
    assert -(-dim // 3) is dim.ceildiv_right(3) and -(-dim).ceildiv_right(3) is dim // 3
    assert ((20 - dim) // 3).get_dim_value() == (20 - n) // 3


@pytest.mark.parametrize("use", [int, float, range, math.sqrt, lambda dim: dim**-0.5, lambda dim: [1][dim]])
def test_a_dim_is_not_a_number_and_says_how_to_get_its_size(use):
    feat = Dim(4, name="feat")
    with pytest.raises(rf.errors.DimError, match=r"feat:4 is an axis, not a number\n.*feat.get_dim_value\(\)"):
        use(feat)
