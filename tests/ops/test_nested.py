"""Structures of tensors and dims: picked, selected, put back, chosen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, TraceError

feat = rf.Dim(3, name="feat")


class Pair(NamedTuple):
    """A state with names."""

    h: rf.Tensor
    others: list


def history(beam, lengths, seed=0):
    """A state with a history of each hypothesis: {beam, hist, feat}, its Dim, and what all share."""
    hist = rf.Dim(None, name="hist")
    raw = np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), 3))
    x = rf.convert_to_tensor(raw, dims=[beam, hist, feat], lengths={hist: rf.convert_to_tensor(lengths, dims=[beam])})
    h = rf.convert_to_tensor(np.arange(3 * len(lengths)).reshape(-1, 3), dims=[beam, feat], dtype="int64")
    return rf.State(x=x, hist=hist, pair=Pair(h, [rf.range_over_dim(feat), (h,)]), none=None)


def rows(state):
    """The frames of each hypothesis."""
    x = state.x
    lengths = x.size_of(state.hist).values.tolist()
    return [x.raw_tensor[i, :n] for i, n in enumerate(lengths)]


def assert_rows(state, expected):
    found = rows(state)
    assert [len(row) for row in found] == [len(row) for row in expected]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert state.hist in state.x.dims and state.hist.size.values.tolist() == [len(row) for row in expected]


def test_gather_takes_each_history_with_its_length():
    beam, best = rf.Dim(3, name="beam"), rf.Dim(4, name="best")
    state = history(beam, [1, 4, 2])
    table: dict = {}
    parents = rf.convert_to_tensor([2, 0, 0, 2], dims=[best], sparse_dim=beam)
    new = rf.nested.gather_nested(state, indices=parents, dim_map=table)
    assert_rows(new, [rows(state)[i] for i in (2, 0, 0, 2)])
    assert new.hist is table[state.hist] is not state.hist and new.x.dims == (best, new.hist, feat)
    assert new.pair.h.raw_tensor[:, 0].tolist() == [6, 0, 0, 6] and new.pair.others[1][0].dims == (best, feat)
    assert new.pair.others[0] is state.pair.others[0] and new.none is None
    assert state.hist.size.values.tolist() == [1, 4, 2]


def test_a_dim_alone_is_mapped_too():
    beam = rf.Dim(3, name="beam")
    state = history(beam, [1, 4, 2])
    new = rf.nested.gather_nested(
        [state.hist, feat], indices=rf.convert_to_tensor([1], dims=[rf.Dim(1)], sparse_dim=beam)
    )
    assert new[0].size.values.tolist() == [4] and new[1] is feat


def test_selected_and_put_back():
    beam = rf.Dim(3, name="beam")
    state = history(beam, [1, 4, 2])
    mask = rf.convert_to_tensor([True, False, True], dims=[beam])
    part, active, table = rf.nested.masked_select_nested(state, mask=mask, dims=[beam])
    assert active.get_dim_value() == 2 and part.x.dims == (active, part.hist, feat)
    assert_rows(part, [rows(state)[0], rows(state)[2]])
    doubled = rf.State({**part, "x": part.x * 2.0})
    back_map: dict = {}
    back = rf.nested.masked_scatter_nested(
        doubled,
        state,
        mask=mask,
        mask_cpu=mask,
        dims=[beam],
        in_dim=active,
        masked_select_dim_map=table,
        masked_scatter_dim_map=back_map,
    )
    assert_rows(back, [row * (1 if i == 1 else 2) for i, row in enumerate(rows(state))])
    assert back.hist is state.hist is back_map[part.hist]
    assert torch.equal(back.pair.h.copy_transpose([beam, feat]).raw_tensor, state.pair.h.raw_tensor)


def test_what_was_put_back_may_have_grown():
    beam = rf.Dim(3, name="beam")
    state, longer = history(beam, [1, 2, 2]), history(beam, [4, 4, 4], seed=1)
    mask = rf.convert_to_tensor([False, True, False], dims=[beam])
    part, active, table = rf.nested.masked_select_nested(longer, mask=mask, dims=[beam])
    back = rf.nested.masked_scatter_nested(
        part, state, mask=mask, mask_cpu=mask, dims=[beam], in_dim=active, masked_select_dim_map=table
    )
    assert_rows(back, [rows(state)[0], rows(longer)[1], rows(state)[2]])


@pytest.mark.parametrize("lengths", [[1, 4, 2], [3, 3, 3], [0, 0, 0]], ids=str)
@pytest.mark.parametrize("others", [[2, 1, 5], [0, 0, 0], [1, 4, 2]], ids=str)
@pytest.mark.parametrize("mask", [[True, False, True], [True] * 3, [False] * 3], ids=str)
def test_where_chooses_histories_of_any_length(lengths, others, mask):
    beam = rf.Dim(3, name="beam")
    a, b = history(beam, lengths), history(beam, others, seed=1)
    table: dict = {}
    y = rf.nested.where_nested(a, b, condition=rf.convert_to_tensor(mask, dims=[beam]))
    expected = [rows(a if m else b)[i] for i, m in enumerate(mask)]
    if y.x.dims[0] is not beam:
        y = rf.State({**y, "x": y.x.copy_transpose([beam, y.hist, feat])})
    assert_rows(y, expected)
    assert rf.nested.mask_nested(a, mask=rf.convert_to_tensor(mask, dims=[beam]), mask_value=b, dim_map=table).hist
    assert table[a.hist].size.values.tolist() == [len(row) for row in expected]


def test_one_value_for_all():
    beam = rf.Dim(3, name="beam")
    state = history(beam, [1, 4, 2])
    mask = rf.convert_to_tensor([True, False, True], dims=[beam])
    for value, expected in ((7, 7), (None, 0), (rf.convert_to_tensor(-1), -1)):
        y = rf.nested.mask_nested(state, mask=mask, mask_value=value)
        assert y.pair.h.raw_tensor[:, 1].tolist() == [1, expected, 7] and y.hist is state.hist
        assert y.x.dtype == state.x.dtype and y.pair.h.dtype == "int64"


def test_what_does_not_fit_is_told():
    beam = rf.Dim(3, name="beam")
    a, b = history(beam, [1, 1, 2]), history(beam, [1, 4, 2])
    mask = rf.convert_to_tensor([True, False, True], dims=[beam])
    with pytest.raises(DimError, match="hist would get longer"):
        rf.nested.mask_nested(a, mask=mask, mask_value=b, allow_dim_extension=False)
    with pytest.raises(DimError, match="two structures differ"):
        rf.nested.where_nested(a, {"x": a.x}, condition=mask)
    with pytest.raises(DimError, match="need a `sparse_dim`"):
        rf.nested.gather_nested(a, indices=rf.convert_to_tensor([0], dims=[rf.Dim(1)]))


def test_in_a_loop():
    beam, time = rf.Dim(2, name="beam"), rf.Dim(3, name="time")
    xs = rf.convert_to_tensor(np.arange(12.0).reshape(3, 2, 2), dims=[time, beam, rf.Dim(2, name="out")])
    with rf.Loop(axis=time) as loop:
        x = loop.unstack(xs)
        parents = rf.convert_to_tensor([1, 0], dims=[beam], sparse_dim=beam)
        new = rf.nested.gather_nested({"x": x}, indices=parents)
        y = rf.nested.where_nested(new, {"x": x}, condition=rf.reduce_max(x, axis=x.dims) > 4.0)
        out = loop.stack(y["x"])
    assert torch.equal(out.raw_tensor, torch.stack([xs.raw_tensor[0], *xs.raw_tensor[1:].flip(1)]))
    state = history(beam, [1, 2])
    with pytest.raises(TraceError), rf.Loop(axis=time) as loop:
        x = loop.unstack(xs)
        rf.nested.gather_nested(state, indices=rf.top_k(rf.reduce_sum(x, axis=x.dims[1]), axis=beam, k=1)[1])


def test_a_history_grows_only_in_hypotheses_that_emit():
    batch, beam = rf.Dim(2, name="sequences"), rf.Dim(2, name="beam")
    hist = rf.Dim(rf.convert_to_tensor([[0, 0], [0, 0]], dims=[batch, beam]), name="hist")
    state = rf.State(words=rf.zeros([batch, beam, hist]), hist=hist)
    for emits in ([[False, False], [True, True]], [[False, False], [False, False]]):
        best = rf.Dim(2, name="best")
        parents = rf.convert_to_tensor([[0, 1], [0, 1]], dims=[batch, best], sparse_dim=beam)
        state = rf.nested.gather_nested(state, indices=parents)
        words, more = rf.cum_concat_step(rf.ones([batch, best]), prev_accum=state.words, axis=state.hist)
        mask = rf.convert_to_tensor(emits, dims=[batch, best])
        state = rf.nested.mask_nested(rf.State(words=words, hist=more), mask=mask, mask_value=state)
        beam = best
        assert state.hist.size.values.tolist() == [[0, 0], [1, 1]]
        assert rf.reduce_sum(state.words, axis=state.hist).raw_tensor.tolist() == [[0, 0], [1, 1]]
