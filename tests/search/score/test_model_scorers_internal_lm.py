"""The internal language model against the decoder with an encoder of zeros, or of means."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError, ParameterError

SIZES = {"time": None, "feat": 4, "label": 5, "before": 5}


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
@pytest.mark.parametrize("by", ["zero", "mean"])
def test_it_is_the_decoder_with_a_silent_encoder(by):
    random, lengths = np.random.RandomState(0), [3, 1]
    frames = random.randn(2, 3, 4).astype("float32")
    rows, out = random.randn(5, 4).astype("float32"), random.randn(4, 5).astype("float32")
    time, feat, label, before = (rf.Dim(n, name=name) for name, n in SIZES.items())
    encoded = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, feat], lengths=lengths)
    before_rows = rf.convert_to_tensor(rows, dims=[before, feat])
    weights = rf.convert_to_tensor(out, dims=[feat, label])

    def step(prev, state, encoded):
        """Attends by the sum of all labels so far."""
        state = state + rf.gather(before_rows, indices=rf.set_sparse_dim(prev, None), axis=before)
        energies = rf.softmax(rf.matmul(encoded["frames"], state, reduce=feat), axis=time)
        context = rf.matmul(energies, encoded["frames"], reduce=time) + state
        return rf.set_feature_dim(rf.matmul(context, weights, reduce=feat), label), state

    def plain(silent, labels):
        state = sum(rows[i] for i in labels)
        energies = np.exp(silent @ state)
        logits = (energies / energies.sum() @ silent + state) @ out
        return logits - np.log(np.exp(logits).sum())

    def initial_state(batch_dims):
        return rf.zeros([*batch_dims, feat])

    ilm = rf.search.InternalLM(step, {"frames": encoded}, axis=time, initial_state=initial_state, by=by)
    beam = rf.Dim(3, name="beam")
    loop = rf.Loop(max_seq_len=3)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=label)
    with loop:
        parts = {"model": rf.zeros([rf.batch_dim, label]), "ilm": (ilm, -0.5)}
        chosen = loop.choice(parts, beam=beam, axis=label, input_type="log_prob", start=2, length_normalization=False)
        loop.state.prev = chosen.labels
    for b, length in enumerate(lengths):
        silent = frames[b, :length] * 0 if by == "zero" else np.repeat(frames[b, :length].mean(0)[None], length, axis=0)
        for each in loop.found.tree[b].hypotheses:
            path = [2, *each.labels]
            expected = sum(plain(silent, path[: i + 1])[path[i + 1]] for i in range(3))
            assert each.parts["ilm"] == pytest.approx(expected, abs=1e-3)
            assert each.score == pytest.approx(-0.5 * expected, abs=1e-3)


def test_what_it_cannot_do_is_refused():
    time, feat = rf.Dim(2, name="time"), rf.Dim(3, name="feat")
    encoded = rf.zeros([time, feat])
    with pytest.raises(ParameterError, match="unknown `by`"):
        rf.search.InternalLM(lambda *_: None, encoded, axis=time, by="median")
    with pytest.raises(DimError, match="no feature dim"):
        rf.search.InternalLM(lambda prev, state, x: (rf.zeros([time]), state), encoded, axis=time).score(None, None)
