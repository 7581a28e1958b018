"""A search of a batch finds what it finds for each sequence alone; the order of dims does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

STATE, LABELS = 3, 4
END = 1
state, new, label = rf.Dim(STATE, name="state"), rf.Dim(STATE, name="new"), rf.Dim(LABELS, name="label")
ORDERS = ("batch first", "beam first", "mixed")


def ordered(tensor, order):
    """The same tensor with its dims in another order."""
    if order == "batch first":
        return tensor
    return tensor.copy_transpose(tensor.dims[::-1] if order == "beam first" else (*tensor.dims[1:], tensor.dims[0]))


def weights(seed):
    random = np.random.RandomState(seed)
    shapes = [(state, new), (label, new), (new, label)]
    return [rf.convert_to_tensor(random.randn(*(d.dimension for d in dims)), dims=dims) for dims in shapes]


def search(seed, x, limit=None, *, beam_size=3, order="batch first", by_frame=False, end=True, debug=False, **options):
    """x: what each sequence starts with, {batch, new}; or, by frame, {batch, time, new}. Returns loop and results."""
    a, e, u = weights(seed)
    batch = [dim for dim in x.dims if dim.is_batch_dim()]
    beam = rf.Dim(beam_size, name="beam")
    time = next((dim for dim in x.dims if dim.name == "time"), None)
    loop = rf.Loop(max_seq_len=limit, axis=time, debug=debug, name="search")
    prev = rf.zeros([*batch, beam], dtype="int64", sparse_dim=label)
    loop.state.prev = ordered(prev, order)
    loop.state.h = ordered(rf.zeros([*batch, beam, state], dtype="float64"), order)
    with loop:
        x_t = loop.unstack(x) if by_frame else x
        h = rf.matmul(loop.state.h, a, reduce=state) + rf.gather(e, indices=loop.state.prev) + x_t
        loop.state.h = rf.replace_dim_v2(rf.tanh(h), in_dim=new, out_dim=state)
        logits = ordered(rf.matmul(rf.tanh(h) * 2.0, u, reduce=new), order)
        chosen = loop.choice(logits, beam=beam, axis=label, input_type="logits", **options)
        loop.state.prev = chosen.labels
        if end:
            loop.end(chosen.labels == END, include_eos=False)
        labels = loop.stack(chosen.labels)
        last = loop.last(loop.state.h)
    return loop, labels, last


def results(loop, labels, last, number=None):
    """For each hypothesis of a sequence: its labels, score, and state at its last label; without dead ones."""
    found, at = loop.found, (slice(None) if number is None else number)
    batch = [] if number is None else [rf.batch_dim]

    def of(tensor, dims):
        return tensor.copy_transpose([*batch, *dims]).raw_tensor.detach().numpy()[at]

    beam = found.beam
    scores, lengths = of(found.scores, [beam]), of(found.lengths, [beam])
    texts, h = of(labels, [beam, loop.axis]), of(last, [beam, state])
    there = np.isfinite(scores)
    return (
        [tuple(text[:length].tolist()) for text, length in zip(texts[there], lengths[there], strict=True)],
        scores[there],
        h[there],
    )


def agree(some, other, *, exact=False):
    assert some[0] == other[0]
    compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    for a, b in zip(some[1:], other[1:], strict=True):
        compare(a, b, **({} if exact else {"rtol": 1e-9, "atol": 1e-12}))


MODELS = {
    "seed": st.integers(0, 10**4),
    "beam_size": st.integers(1, 5),
    "exponent": st.sampled_from([0.0, 1.0]),
    "end": st.booleans(),
    "order": st.sampled_from(ORDERS),
}


@examples(15)
@given(limits=st.lists(st.sampled_from([0, 1, 2, 5]), min_size=1, max_size=4), **MODELS)
def test_a_batch_with_limits_agrees_with_each_sequence_alone(limits, seed, beam_size, exponent, end, order):
    options = {"beam_size": beam_size, "length_normalization_exponent": exponent, "end": end}
    numbers = np.random.RandomState(seed + 1).randn(len(limits), STATE)
    limit = rf.convert_to_tensor(np.array(limits), dims=[rf.batch_dim])
    x = rf.convert_to_tensor(numbers, dims=[rf.batch_dim, new])
    loop, labels, last = search(seed, x, limit, order=order, **options)
    found = loop.found
    for number, longest in enumerate(limits):
        alone, *own = search(seed, rf.convert_to_tensor(numbers[number], dims=[new]), longest, **options)
        agree(results(loop, labels, last, number), results(alone, *own))
        tree, other = found.tree[number], alone.found.tree[0]
        assert [one.labels for one in tree.hypotheses] == [one.labels for one in other.hypotheses]
        assert [one.complete for one in tree.hypotheses] == [one.complete for one in other.hypotheses]
        assert tree.steps == other.steps


@examples(15)
@given(lengths=st.lists(st.sampled_from([0, 1, 2, 4]), min_size=1, max_size=4), limited=st.booleans(), **MODELS)
def test_a_search_over_frames_agrees_with_each_sequence_alone(lengths, limited, seed, beam_size, exponent, end, order):
    options = {"beam_size": beam_size, "length_normalization_exponent": exponent, "end": end, "by_frame": True}
    numbers = np.random.RandomState(seed + 1).randn(len(lengths), max(lengths), STATE)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(numbers, dims=[rf.batch_dim, time, new], lengths=lengths)
    limits = [min(length, 3) if limited else length for length in lengths]
    limit = rf.convert_to_tensor(np.array(limits), dims=[rf.batch_dim]) if limited else None
    loop, labels, last = search(seed, x, limit, order=order, **options)
    for number, length in enumerate(lengths):
        frames = rf.Dim(None, name="time")
        one = rf.convert_to_tensor(numbers[number, :length], dims=[frames, new])
        alone, *own = search(seed, one, limits[number] if limited else None, **options)
        agree(results(loop, labels, last, number), results(alone, *own))
        assert loop.found.tree[number].steps == alone.found.tree[0].steps


@pytest.mark.parametrize("order", ORDERS[1:])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_order_of_dims_does_not_matter(order, exponent):
    x = rf.convert_to_tensor(np.random.RandomState(3).randn(3, STATE), dims=[rf.batch_dim, new])
    given = {"length_normalization_exponent": exponent, "beam_size": 4}
    loop, labels, last = search(5, x, 6, **given)
    other, *others = search(5, x, 6, order=order, **given)
    for number in range(3):
        agree(results(loop, labels, last, number), results(other, *others, number))


@examples(8)
@given(limits=st.lists(st.sampled_from([0, 1, 4]), min_size=1, max_size=3), step=st.integers(0, 3), **MODELS)
def test_a_replay_and_a_fork_are_the_same_to_the_bit(limits, step, seed, beam_size, exponent, end, order):
    limit = rf.convert_to_tensor(np.array(limits), dims=[rf.batch_dim])
    x = rf.convert_to_tensor(np.random.RandomState(seed).randn(len(limits), STATE), dims=[rf.batch_dim, new])
    options = {"beam_size": beam_size, "length_normalization_exponent": exponent, "end": end, "order": order}
    loop, labels, last = search(seed, x, limit, debug=True, **options)
    plain, *others = search(seed, x, limit, **options)
    for number in range(len(limits)):
        agree(results(loop, labels, last, number), results(plain, *others, number), exact=True)
    run = loop.run
    assert all(run[i].check == "replay agrees" for i in range(run.steps))
    same_found(run.found, loop.found)
    if run.steps:
        assert rf.equal(run.stack("chosen.labels"), labels).copy_transpose(labels.dims).raw_tensor.all()
        same_found(run.fork(min(step, run.steps - 1)).found, loop.found)


def same_found(a, b):
    for name in ("labels", "parents", "scores", "ended", "final_scores", "lengths", "complete", "steps"):
        np.testing.assert_array_equal(getattr(a.trace, name), getattr(b.trace, name))
