"""The coverage penalty in a search against the formula, over all paths."""

import itertools
import math

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError

END, LABELS, FRAMES, LIMIT = 0, 3, 4, 3


def softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_the_end_of_a_hypothesis_adds_the_penalty_of_all_its_steps():
    random = np.random.RandomState(0)
    model = np.log(softmax(random.randn(LABELS, LABELS))).astype("float32")
    attention, lengths = softmax(random.randn(2, LABELS, FRAMES) * 3).astype("float32"), [4, 2]
    attention[1, :, 2:] = 0
    label, before, time = rf.Dim(LABELS, name="label"), rf.Dim(LABELS, name="before"), rf.Dim(None, name="time")
    table = rf.convert_to_tensor(model, dims=[before, label])
    rows = rf.convert_to_tensor(
        attention.transpose(0, 2, 1).copy(), dims=[rf.batch_dim, time, before], lengths={time: lengths}
    )
    beam = rf.Dim(LABELS**LIMIT, name="beam")
    loop = rf.Loop(max_seq_len=LIMIT)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64")
    with loop:
        weights = rf.gather(rows, indices=loop.state.prev, axis=before)
        scores = rf.gather(table, indices=loop.state.prev, axis=before)
        parts = {"model": scores, "coverage": (rf.search.Coverage(weights, axis=time), 0.3)}
        chosen = loop.choice(parts, beam=beam, axis=label, input_type="log_prob", length_normalization=False)
        loop.state.prev = rf.set_sparse_dim(chosen.labels, None)
        loop.end(chosen.labels == END, include_eos=True)
    for b, length in enumerate(lengths):
        expected = {}
        for path in itertools.product(range(LABELS), repeat=LIMIT):
            path = path[: path.index(END) + 1] if END in path else path
            pairs = list(zip((0, *path), path, strict=False))
            total = sum(attention[b, prev, :length] for prev, _ in pairs)
            penalty = sum(math.log(min(x, 1.0)) for x in total)
            expected[path] = (sum(model[pair] for pair in pairs) + 0.3 * penalty, penalty)
        found = {tuple(each.labels): each for each in loop.found.tree[b].hypotheses}
        assert set(found) == set(expected)
        for path, (score, penalty) in expected.items():
            assert found[path].score == pytest.approx(score, abs=1e-4)
            assert found[path].parts["coverage"] == pytest.approx(penalty, abs=1e-4)


def test_weights_without_the_frames_are_refused():
    with pytest.raises(DimError, match="lacks the dim of the frames"):
        rf.search.Coverage(rf.zeros([rf.Dim(3, name="feat")]), axis=rf.Dim(2, name="time"))
