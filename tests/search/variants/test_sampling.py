"""Truncated distributions and samples, against numpy and by counting."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.test_choice import Net

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def expected(scores, temperature, top_k, top_p):
    """The probabilities of one row of scores, label by label."""
    found = np.exp((scores - scores.max()) / temperature)
    order = np.argsort(-scores, kind="stable")
    for limit in ("k", "p"):
        found = found / found.sum()
        kept, total = [], 0.0
        for label in order:
            done = (limit == "k" and top_k and len(kept) >= top_k) or (limit == "p" and top_p and total >= top_p)
            if not done:
                kept.append(label)
                total += found[label]
        found = np.where(np.isin(np.arange(len(found)), kept), found, 0.0)
    return found / found.sum()


@examples(100)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 6)), temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.none() | st.integers(1, 8), top_p=st.sampled_from([None, 0.2, 0.55, 0.9, 1.0]), seed=st.integers(0, 1000),
    banned=st.booleans(),
)  # fmt: skip
def test_truncated_agrees_with_numpy(shape, temperature, top_k, top_p, seed, banned):
    scores = np.random.RandomState(seed).randn(*shape).astype("float32") * 2
    if banned:
        scores[:, 1:][:, ::2] = -np.inf
    batch, label = rf.Dim(shape[0], name="batch"), rf.Dim(shape[1], name="label")
    given = rf.convert_to_tensor(scores, dims=[batch, label])
    found = rf.search.truncated(given, axis=label, temperature=temperature, top_k=top_k, top_p=top_p)
    got = np.exp(found.copy_transpose([batch, label]).raw_tensor.numpy())
    for row, of_row in zip(got, scores, strict=True):
        np.testing.assert_allclose(row, expected(of_row, temperature, top_k, top_p), atol=1e-5)


def test_where_nothing_is_allowed_nothing_is_drawn():
    batch, label = rf.Dim(2, name="batch"), rf.Dim(3, name="label")
    scores = rf.convert_to_tensor([[-np.inf] * 3, [0.0, -1.0, -2.0]], dims=[batch, label])
    for function in (rf.search.truncated, rf.search.sampled):
        found = function(scores, axis=label, top_k=2, top_p=0.9).copy_transpose([batch, label]).raw_tensor
        assert found[0].tolist() == [-np.inf] * 3 and found[1].isfinite().any() and not found.isnan().any()


def test_labels_are_drawn_as_often_as_their_probability_says():
    rf.set_random_seed(7)
    batch, label = rf.Dim(20000, name="batch"), rf.Dim(4, name="label")
    scores = np.log(np.array([0.1, 0.4, 0.2, 0.3], "float32"))
    given = rf.expand_dim(rf.convert_to_tensor(scores, dims=[label]), batch)
    found = rf.search.sampled(given, axis=label, temperature=0.5, top_k=3).copy_transpose([batch, label]).raw_tensor
    drawn = found.isfinite()
    assert (drawn.sum(1) == 1).all()
    assert found[drawn].numpy() == pytest.approx(given.raw_tensor[drawn].numpy())  # the score is that of the model
    share, exact = drawn.float().mean(0).numpy(), expected(scores, 0.5, 3, None)
    assert share == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(20000)) and share[0] == 0


def test_samples_of_a_loop_have_the_scores_of_the_model():
    rf.set_random_seed(3)
    net, limit = Net(4, 2, 1), 5
    samples, beam = rf.Dim(6, name="samples"), rf.Dim(1, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search", debug=True)
    loop.state.prev = rf.zeros([rf.batch_dim, samples, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, samples, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        log_probs = rf.log_softmax(logits, axis=net.label)
        scores = rf.search.sampled(log_probs, axis=net.label, top_p=0.95)
        chosen = loop.choice(scores, beam=beam, axis=net.label, input_type="log_prob", length_normalization=False)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 1, include_eos=False)
        labels = loop.stack(chosen.labels)
    run = loop.run
    assert [run[step].check for step in range(run.steps)] == ["replay agrees"] * run.steps
    order = [rf.batch_dim, samples, beam]
    texts = labels.copy_transpose([*order, loop.axis]).raw_tensor[:, :, 0]
    lengths, found = (x.copy_transpose(order).raw_tensor[:, :, 0] for x in (loop.found.lengths, loop.found.scores))
    drawn = set()
    for sequence in range(2):
        for sample in range(6):
            text = texts[sequence, sample, : lengths[sequence, sample]].tolist()
            drawn.add((sequence, *text))
            h, score, last = np.zeros(len(net.a), "float32"), 0.0, 0
            for label in (*text, 1)[:limit]:
                h, log_probs = net.step(h, last, sequence)
                score, last = score + log_probs[label], label
            assert found[sequence, sample].item() == pytest.approx(score, abs=1e-4)
    assert len(drawn) > 6


@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 0}, {"top_p": 0.0}, {"temperature": -1.0}])
def test_numbers_out_of_range(options):
    label = rf.Dim(3, name="label")
    with pytest.raises(ParameterError, match="is too small"):
        rf.search.sampled(rf.zeros([label]), axis=label, **options)
