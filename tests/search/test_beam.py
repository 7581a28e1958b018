"""`beam_step` against a loop over all candidates."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples


def step_of_one(scores, base, ended, counts, out_size, step, exponent):
    """One sequence: (label, parent, score, count) of each place, from all candidates in order."""
    candidates = []
    for parent, (hypothesis, past, count) in enumerate(zip(base, ended, counts, strict=True)):
        for label, score in enumerate(scores[parent]):
            if past:
                total = hypothesis * np.float32((step + 1) / count) ** np.float32(exponent) if label == 0 else -math.inf
            else:
                total = hypothesis + score
            candidates.append((-total, parent, label))
    found = []
    for total, parent, label in sorted(candidates)[:out_size]:
        kept = ended[parent] and total != math.inf
        found.append((label, parent, base[parent] if kept else -total, counts[parent] if kept else step + 1))
    return found


def a_step(random, batch, size, labels, step):
    """Scores with equal ones, hypotheses of which some are dead or have ended, and their counts."""
    scores = random.choice(np.float32([-0.5, -1, -2, -4]), [batch, size, labels])
    base = random.choice(np.float32([-1, -2, -3, -math.inf]), [batch, size])
    ended = random.rand(batch, size) < 0.4
    counts = np.where(ended, random.randint(1, step + 1, [batch, size]), step).astype("float32")
    return scores, base, ended, counts


def of(found, order):
    return [part.copy_transpose(order).raw_tensor.numpy() for part in found]


@examples(200)
@given(
    batch=st.integers(0, 3), size=st.integers(1, 4), labels=st.integers(1, 5), out=st.integers(1, 6),
    step=st.integers(1, 5), exponent=st.sampled_from([0.5, 1.0, 2.0]), seed=st.integers(0, 1000), data=st.data(),
)  # fmt: skip
def test_is_that_of_a_loop_over_candidates_in_any_order_of_dims(batch, size, labels, out, step, exponent, seed, data):
    out = min(out, size * labels)
    arrays = a_step(np.random.RandomState(seed), batch, size, labels, step)
    word, beam, label = rf.Dim(batch, name="word"), rf.Dim(size, name="beam"), rf.Dim(labels, name="label")
    after = rf.Dim(out, name="beam")
    given = []
    for array, dims in zip(arrays, [(word, beam, label), *[(word, beam)] * 3], strict=True):
        order = data.draw(st.permutations(dims))
        given.append(rf.convert_to_tensor(array, dims=dims).copy_transpose(order))
    scores, base, ended, counts = given
    options = {"axis": label, "beam": beam, "out_beam": after, "ended": ended, "counts": counts, "step": step}
    found = rf.search.beam_step(scores, base, exponent=exponent, **options)
    combined = rf.search.beam_step(scores, base, exponent=exponent, combine=lambda new, old: old + new, **options)
    for got in (found, combined):
        parts = of(got, [word, after])
        for i in range(batch):
            expected = step_of_one(*(array[i] for array in arrays), out, step, exponent)
            for part, column in zip(parts, zip(*expected, strict=True), strict=True):
                np.testing.assert_allclose(part[i], column, rtol=1e-5)


def test_scores_may_be_the_same_for_all_hypotheses_or_sequences():
    word, beam, label = rf.Dim(2, name="word"), rf.Dim(3, name="beam"), rf.Dim(4, name="label")
    after = rf.Dim(3, name="after")
    scores = rf.convert_to_tensor([-1.0, -3.0, -2.0, -4.0], dims=[label])
    base = rf.convert_to_tensor([[0.0, -0.5, -9.0], [-1.0, -2.0, -1.5]], dims=[word, beam])
    ended = rf.convert_to_tensor([False, True, False], dims=[beam])
    dims = {"axis": label, "beam": beam, "out_beam": after, "ended": ended, "counts": rf.ones([word]), "step": 1}
    whole = rf.expand_dims(scores, [word, beam]), base
    for combine in (None, lambda new, old: new + old):
        found = rf.search.beam_step(scores, base, combine=combine, **dims)
        again = rf.search.beam_step(*whole, combine=combine, **dims)
        for part, other in zip(of(found, [word, after]), of(again, [word, after]), strict=True):
            np.testing.assert_array_equal(part, other)


GOLD = rf.convert_to_tensor([1, 2], dims=[rf.batch_dim])


@pytest.mark.parametrize(
    "options",
    [{}, {"gold": GOLD}, {"gold": GOLD, "gold_once": True}, {"keep_beams": True}, {"groups": 3}, {"threshold": 0.5}],
    ids=lambda options: " ".join(options) or "none",
)
def test_a_batch_is_as_each_sequence_alone(options):
    beam, label, after = rf.Dim(3, name="beam"), rf.Dim(4, name="label"), rf.Dim(3, name="after")
    arrays = a_step(np.random.RandomState(2), 2, 3, 4, 3)
    dims = [[rf.batch_dim, beam, label], *[[rf.batch_dim, beam]] * 3]
    given = [rf.convert_to_tensor(array, dims=own) for array, own in zip(arrays, dims, strict=True)]

    def step(scores, base, ended, counts, **options):
        dims = {"axis": label, "beam": beam, "out_beam": after, "step": 3}
        return rf.search.beam_step(scores, base, ended=ended, counts=counts, **dims, **options)

    def of_one(x, i):
        batched = isinstance(x, rf.Tensor) and rf.batch_dim in x.dims
        return rf.gather(x, indices=i, axis=rf.batch_dim) if batched else x

    whole = step(*given, **options)
    for i in range(2):
        one = step(*(of_one(x, i) for x in given), **{name: of_one(x, i) for name, x in options.items()})
        for part, alone in zip(whole, one, strict=True):
            assert of_one(part, i).tolist() == alone.tolist()


def test_dims_that_do_not_fit_are_named():
    beam, label, other = rf.Dim(3, name="beam"), rf.Dim(4, name="label"), rf.Dim(2, name="other")
    base, dims = rf.zeros([beam]), {"axis": label, "beam": beam, "out_beam": rf.Dim(3, name="after")}
    with pytest.raises(rf.errors.DimError, match="other"):
        rf.search.beam_step(rf.zeros([other, beam, label]), base, **dims)
    with pytest.raises(rf.errors.DimError, match="label"):
        rf.search.beam_step(rf.zeros([beam, other]), base, **dims)
