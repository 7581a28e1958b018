"""The CTC prefix score against the sum over all paths, and against `rf.ctc_loss`."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError
from tests.examples import examples


def random_frames(seed, batch, time, classes, impossible=0.0):
    random = np.random.RandomState(seed)
    logits = random.randn(batch, time, classes).astype("float32") * 2
    logits[random.rand(*logits.shape) < impossible] = -np.inf
    logits[..., -1] = np.maximum(logits[..., -1], -1.0)
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def outputs(frames, blank):
    """The probability of each output, by the sum over all paths."""
    found = {}
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        labels = tuple(label for label, _ in itertools.groupby(path) if label != blank)
        found[labels] = found.get(labels, 0.0) + math.exp(sum(frames[t, label] for t, label in enumerate(path)))
    return found


def log(p):
    return math.log(p) if p > 0 else -math.inf


@examples(40)
@given(
    seed=st.integers(0, 1000), lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    texts=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=3),
    impossible=st.sampled_from([0.0, 0.4]), blank_first=st.booleans(),
)  # fmt: skip
def test_agrees_with_the_sum_over_all_paths(seed, lengths, texts, impossible, blank_first):
    """Labels 0 to 2, blank 3, end 4, which is not a class; or blank 0 and end 3, a class that is never used."""
    blank, end, alphabet = (0, 3, [1, 2, 3]) if blank_first else (3, 4, [0, 1, 2])
    alphabet = [label for label in alphabet if label != end]
    texts = [[alphabet[i % len(alphabet)] for i in text] for text in texts]
    frames = random_frames(seed, len(lengths), max(lengths), 4, impossible)
    time, classes = rf.Dim(None, name="time"), rf.Dim(4, name="class")
    beam, candidates = rf.Dim(len(texts), name="beam"), rf.Dim(4 if blank_first else 5, name="candidates")
    given = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, classes], lengths=lengths)
    ctc = rf.search.CTCPrefix(given, axis=time, classes=classes, blank=blank, end=end)
    state = ctc.initial_state(batch_dims=[rf.batch_dim, beam])
    labels = rf.expand_dims(rf.range_over_dim(candidates), [rf.batch_dim, beam])
    for step in range(4):
        column = [[0 if step == 0 else text[step - 1] for text in texts]] * len(lengths)
        state = ctc.advance(rf.convert_to_tensor(column, dims=[rf.batch_dim, beam]), state)
        scores = ctc.partial(labels, state).copy_transpose([rf.batch_dim, beam, candidates]).raw_tensor
        assert not scores.isnan().any()
        for b, length in enumerate(lengths):
            known = outputs(frames[b, :length], blank)
            for k, text in enumerate(texts):
                now = tuple(text[:step])
                before = sum(p for output, p in known.items() if output[:step] == now)
                for label in range(end + 1):
                    p = sum(p for output, p in known.items() if output[: step + 1] == (*now, label))
                    p = known.get(now, 0.0) if label == end else 0.0 if label == blank else p
                    expected = log(p) - log(before) if before else -math.inf
                    assert scores[b, k, label].item() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("time_size", [7, 33])
def test_scores_sum_to_the_ctc_loss(time_size):
    frames = random_frames(0, 2, time_size, 6)
    time, classes, word = rf.Dim(time_size, name="time"), rf.Dim(6, name="class"), rf.Dim(4, name="word")
    given = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, classes])
    texts = np.asarray([[1, 1, 2, 4], [3, 2, 3, 3]])
    targets = rf.convert_to_tensor(texts, dims=[rf.batch_dim, word], sparse_dim=classes)
    loss = rf.ctc_loss(
        logits=given, logits_normalized=True, targets=targets, input_spatial_dim=time, targets_spatial_dim=word,
        blank_index=5,
    )  # fmt: skip
    beam, one = rf.Dim(1, name="beam"), rf.Dim(1, name="candidates")
    ctc = rf.search.CTCPrefix(given, axis=time, classes=classes, blank=5, end=0)
    state, total = ctc.initial_state(batch_dims=[rf.batch_dim, beam]), np.zeros(2)
    last = np.zeros((2, 1), int)
    for step in range(5):
        state = ctc.advance(rf.convert_to_tensor(last, dims=[rf.batch_dim, beam]), state)
        last = texts[:, step : step + 1] if step < 4 else np.zeros((2, 1), int)
        labels = rf.convert_to_tensor(last[..., None], dims=[rf.batch_dim, beam, one])
        total += ctc.partial(labels, state).raw_tensor.numpy().reshape(2)
    assert total == pytest.approx(-loss.raw_tensor.numpy(), abs=1e-3)


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
@examples(15)
@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_a_search_with_a_ctc_model_alone_finds_its_best_outputs(seed, lengths):
    """With all prefixes in the beam, the scores of the search are those of all outputs."""
    frames = random_frames(seed, len(lengths), max(lengths), 3)
    time, classes = rf.Dim(None, name="time"), rf.Dim(3, name="class")
    given = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, classes], lengths=lengths)
    label, beam = rf.Dim(3, name="label"), rf.Dim(40, name="beam")  # two labels, and the end in place of the blank
    loop = rf.Loop(max_seq_len=max(lengths) + 1)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=label)
    with loop:
        ctc = rf.search.CTCPrefix(given, axis=time, classes=classes, blank=2, end=2)
        chosen = loop.choice({"ctc": ctc}, axis=label, beam=beam, length_normalization=False)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 2, include_eos=False)
    for b, length in enumerate(lengths):
        known = outputs(frames[b, :length], 2)
        for each in loop.found.tree[b].hypotheses[:20]:
            if each.complete:
                assert each.score == pytest.approx(log(known[tuple(each.labels)]), abs=1e-3)
        assert tuple(loop.found.tree[b].best.labels) == max(known, key=known.__getitem__)


def test_dims_that_do_not_fit_are_refused():
    time, classes = rf.Dim(2, name="time"), rf.Dim(3, name="class")
    frames = rf.zeros([time, classes])
    with pytest.raises(DimError, match="that of the classes"):
        rf.search.CTCPrefix(frames, axis=time, blank=0, end=None)
    with pytest.raises(DimError, match="`blank` is not a class"):
        rf.search.CTCPrefix(frames, axis=time, classes=classes, blank=3, end=None)
