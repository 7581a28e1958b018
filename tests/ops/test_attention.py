"""Attention in one kernel, by its formula, and against torch."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.tensor.listener import Listener, listening
from rfnb.ops import attention

HEADS, KEY, VALUE = rf.Dim(2, name="heads"), rf.Dim(4, name="key"), rf.Dim(3, name="value")
GENERATOR = torch.Generator().manual_seed(3)


def sequences(lengths, *dims, fill=float("nan")):
    """{batch, time, …} with `fill` in padding, as a leaf."""
    time = rf.Dim(None, name="time")
    raw = torch.randn([len(lengths), max(lengths), *[dim.dimension for dim in dims]], generator=GENERATOR)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, *dims], lengths=lengths).copy_masked(fill)
    return x.like(x.raw_tensor.detach().clone().requires_grad_()), time


def both_ways(call):
    """The result by the kernel and by the formula."""
    with listening(Listener()):  # nothing is fused
        composed = call()
    return call(), composed


@pytest.mark.parametrize("lengths", [[3, 3], [4, 1], [2, 0]], ids=str)
@pytest.mark.parametrize("kind", ["cross", "causal", "causal, one dim", "one query", "scaled", "keys shared by heads"])
def test_the_kernel_and_the_formula_agree(kind, lengths):
    queries, time = sequences([n + 1 for n in lengths] if kind == "cross" else lengths, HEADS, KEY)
    keys, axis = sequences(lengths, HEADS, KEY)
    values, _ = sequences(lengths, HEADS, VALUE)
    values = rf.replace_dim_v2(values, in_dim=values.dims[1], out_dim=axis)
    options = {"scale": 2.0} if kind == "scaled" else {}
    if kind == "causal":
        options["causal_query_spatial_dim"] = time
    if kind == "causal, one dim":
        queries = rf.replace_dim_v2(queries, in_dim=time, out_dim=axis)
        options["causal_query_spatial_dim"] = axis
    if kind == "one query":
        queries, _ = sequences(lengths, HEADS, KEY, fill=1.0)
        queries = rf.reduce_sum(queries, axis=queries.dims[1])
    if kind == "keys shared by heads":
        keys, values = (rf.reduce_sum(x, axis=HEADS) for x in (keys, values))

    results = both_ways(lambda: rf.dot_attention(queries, keys, values, key_dim=KEY, axis=axis, **options))
    leaves = [x.raw_tensor for x in (queries, keys, values)]
    gradients = []
    for y in results:
        assert y.dims_set == results[0].dims_set
        total = rf.reduce_sum(rf.square(y), axis=y.dims)
        gradients.append(torch.autograd.grad(total.raw_tensor, leaves))
    first, second = (rf.reduce_sum(rf.square(y), axis=[d for d in y.dims if d not in (HEADS, VALUE)]) for y in results)
    torch.testing.assert_close(first.raw_tensor, second.copy_transpose(first.dims).raw_tensor)
    for a, b in zip(*gradients, strict=True):
        assert torch.isfinite(a).all() and torch.isfinite(b).all()
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_what_torch_gives_for_sequences_of_one_length():
    queries, time = sequences([3, 3], HEADS, KEY)
    keys, axis = sequences([5, 5], HEADS, KEY)
    values, _ = sequences([5, 5], HEADS, VALUE)
    values = rf.replace_dim_v2(values, in_dim=values.dims[1], out_dim=axis)
    expected = scaled_dot_product_attention(*[x.raw_tensor.transpose(1, 2) for x in (queries, keys, values)])
    for y in both_ways(lambda: rf.dot_attention(queries, keys, values, key_dim=KEY, axis=axis)):
        torch.testing.assert_close(y.copy_transpose([batch_dim, HEADS, time, VALUE]).raw_tensor, expected)


def test_the_kernel_is_used_where_it_can_be(monkeypatch):
    used = []
    backend = rf.backend.torch.backend.TorchBackend
    kernel = backend.attention_raw
    monkeypatch.setattr(backend, "attention_raw", staticmethod(lambda *args: used.append(args) or kernel(*args)))
    x, time = sequences([3, 1], KEY)

    def attend(**options):
        used.clear()
        rf.dot_attention(x, x, x, key_dim=KEY, axis=time, causal_query_spatial_dim=time, **options)
        return bool(used)

    assert attend() and attend(att_dropout=0.5)
    rf.init_train_step_run_ctx(train_flag=True)
    assert attend() and attend(att_dropout=0.5) and not attend(att_dropout=0.5, att_dropout_broadcast=True)
    rf.init_forward_step_run_ctx()
    with listening(Listener()):  # nothing is fused
        assert not attend()


@pytest.mark.parametrize("broadcast", [None, True, False])
def test_dropped_weights(broadcast):
    """Of 40 keys of equal weight, about half are left; for all queries the same, or for each others."""
    many, few = rf.Dim(40, name="many"), rf.Dim(5, name="few")
    eye = rf.convert_to_tensor(torch.eye(40), dims=[many, rf.Dim(40, name="value")])
    rf.init_train_step_run_ctx(train_flag=True)
    weights = rf.dot_attention(
        rf.zeros([few, KEY]), rf.zeros([many, KEY]), eye,
        key_dim=KEY, axis=many, att_dropout=0.5, att_dropout_broadcast=broadcast,
    )  # fmt: skip
    rf.init_forward_step_run_ctx()
    rows = weights.copy_transpose([few, eye.dims[1]]).raw_tensor
    assert set(rows.unique().mul(40).round().tolist()) == {0.0, 2.0}
    assert bool((rows == rows[0]).all()) == bool(broadcast)


def test_queries_share_dropped_keys_only_if_this_was_set():
    assert attention.attention_dropout_broadcast_default() is False
    for shared in (True, False):
        with rf.set_dropout_broadcast_ctx(shared):
            assert attention.attention_dropout_broadcast_default() is shared


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_in_one_kernel(causal):
    """The same seed, the same numbers; the mean over many draws is what there is without dropout; none from padding."""
    x, time = sequences([6, 3], KEY)
    batch = rf.Dim(2000, name="draw")
    many = rf.expand_dim(x.copy_masked(0.0), batch)
    plain = {"key_dim": KEY, "axis": time, "causal_query_spatial_dim": time} if causal else None

    def attend(source, dropout):
        if plain:
            return rf.dot_attention(source, source, source, att_dropout=dropout, **plain).copy_masked(0.0)
        return attention.attend(source, source, source, key_dim=KEY, axis=time, scale=0.3, att_dropout=dropout)

    rf.init_train_step_run_ctx(train_flag=True)
    rf.set_random_seed(1)
    first = attend(many, 0.3).copy_masked(0.0)
    rf.set_random_seed(1)
    again = attend(many, 0.3).copy_masked(0.0)
    rf.init_forward_step_run_ctx()
    assert torch.equal(first.raw_tensor, again.raw_tensor)
    mean = first.raw_tensor.mean(first.dims.index(batch))
    torch.testing.assert_close(mean, attend(x, 0.3).copy_masked(0.0).raw_tensor, atol=0.15, rtol=0.1)


def test_in_the_body_of_a_loop():
    x, time = sequences([4, 2], KEY, fill=0.0)
    keys, axis = sequences([3, 2], KEY)
    with rf.Loop(axis=time) as loop:
        y = loop.stack(rf.dot_attention(loop.unstack(x), keys, keys, key_dim=KEY, axis=axis))
    whole = rf.dot_attention(x, keys, keys, key_dim=KEY, axis=axis)
    torch.testing.assert_close(
        y.copy_transpose(whole.dims).copy_masked(0.0).raw_tensor, whole.copy_masked(0.0).raw_tensor
    )


def test_dims_that_do_not_fit():
    x, time = sequences([3, 1], KEY)
    y, other = sequences([3, 2], KEY)
    with pytest.raises(rf.errors.DimError, match="`keys` has no dim time"):
        rf.dot_attention(x, y, y, key_dim=KEY, axis=time)
    with pytest.raises(rf.errors.DimError, match="the same number of queries and keys"):
        rf.dot_attention(x, y, y, key_dim=KEY, axis=other, causal_query_spatial_dim=time)
    with pytest.raises(rf.errors.DimError, match="`query` has no dim heads"):
        rf.dot_attention(x, y, y, key_dim=KEY, axis=other, causal_query_spatial_dim=HEADS)


@pytest.mark.parametrize("dims", [[KEY], [HEADS, KEY]])
def test_a_query_over_the_axis_of_the_keys_sees_all_keys(dims):
    x, time = sequences([4, 1, 3], *dims)
    values = rf.random_normal([*x.dims[:-1], VALUE])
    keys, axis = rf.replace_dim(x, in_dim=time)
    others, _ = rf.replace_dim(values, in_dim=time, out_dim=axis)
    expected = rf.dot_attention(x, keys, others, key_dim=KEY, axis=axis).copy_masked(0.0)
    for y in both_ways(lambda: rf.dot_attention(x, x, values, key_dim=KEY, axis=time)):
        assert y.dims == expected.dims
        torch.testing.assert_close(y.copy_masked(0.0).raw_tensor, expected.raw_tensor)
