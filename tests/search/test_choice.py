"""`loop.choice` against a search over dicts, written out in Python."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

STATE = 4


class Net:
    """A small recurrent net: h' = tanh(A h + E[label] + x), scores = U h'. x is the sequence, {batch, state}."""

    def __init__(self, labels, batch, seed=0):
        random = np.random.RandomState(seed)
        shapes = (STATE, STATE), (labels, STATE), (STATE, labels), (batch, STATE)
        self.a, self.e, self.u, self.x = (random.randn(*shape).astype("float32") for shape in shapes)
        state, out = self.state, self.out = rf.Dim(STATE, name="state"), rf.Dim(STATE, name="state out")
        label = self.label = rf.Dim(labels, name="label", vocab=[chr(97 + i) for i in range(labels)])
        dims = (state, out), (label, out), (out, label), (rf.batch_dim, out)
        self.tensors = [
            rf.convert_to_tensor(x, dims=d) for x, d in zip((self.a, self.e, self.u, self.x), dims, strict=True)
        ]

    def step(self, h, label, sequence):
        """One step of one hypothesis, in numpy: the next h, and log-probabilities."""
        h = np.tanh(h @ self.a + self.e[label] + self.x[sequence])
        scores = h @ self.u
        return h, scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()

    def traced(self, h, label):
        """The same for all, as ops."""
        a, e, u, x = self.tensors
        h = rf.matmul(h, a, reduce=self.state) + rf.gather(e, indices=label, axis=self.label)
        h = rf.tanh(h + x)
        logits = rf.matmul(h, u, reduce=self.out)
        return rf.replace_dim_v2(h, in_dim=self.out, out_dim=self.state), logits


def search(net, batch, beam_size, limit, *, end=1, include_eos=False, **options):
    """A search in a loop; returns the loop and the stacked labels."""
    options |= {"end": end} if options.get("ended") == "apart" else {}
    beam = rf.Dim(beam_size, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search", debug=options.pop("debug", False))
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        chosen = loop.choice(logits, beam=beam, axis=net.label, input_type="logits", **options)
        loop.state.prev = chosen.labels
        if end is not None:
            loop.end(chosen.labels == end, include_eos=include_eos)
        labels = loop.stack(chosen.labels)
    return loop, labels


def truth(net, sequence, beam_size, limit, *, end=1, exponent=1.0):
    """The hypotheses of one sequence: (labels, score, ended), the best first. end: a label, or several."""
    ends = end if isinstance(end, tuple) else (end,)
    beam = [((), 0.0, False, np.zeros(STATE, "float32"))]
    for step in range(limit):
        found = []
        for labels, score, ended, h in beam:
            if ended:
                found.append((score * ((step + 1) / len(labels)) ** exponent, (labels, score, True, h)))
                continue
            new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
            for label, log_prob in enumerate(log_probs):
                total = score + log_prob
                found.append((total, ((*labels, label), total, label in ends, new)))
        beam = [hypothesis for _, hypothesis in sorted(found, key=lambda one: -one[0])[:beam_size]]
        if all(ended for _, _, ended, _ in beam):
            break
    return [(labels, score / max(len(labels), 1) ** exponent, ended) for labels, score, ended, _ in beam]


def hypotheses(loop, labels, batch):
    """What a loop found: for each sequence, (labels, score) of its hypotheses."""
    found = loop.found
    order = [rf.batch_dim, found.beam]
    texts = labels.copy_transpose([*order, loop.axis]).raw_tensor
    lengths, scores = (x.copy_transpose(order).raw_tensor for x in (found.lengths, found.scores))
    return [
        [
            (tuple(texts[b, k, : lengths[b, k]].tolist()), scores[b, k].item())
            for k in range(found.beam.get_dim_value())
            if math.isfinite(scores[b, k])
        ]
        for b in range(batch)
    ]


def check(net, batch, beam_size, limit, *, end=1, include_eos=False, exponent=1.0):
    options = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}
    loop, labels = search(net, batch, beam_size, limit, end=end, include_eos=include_eos, **options)
    for sequence, got in enumerate(hypotheses(loop, labels, batch)):
        expected = truth(net, sequence, beam_size, limit, end=end, exponent=exponent)
        assert len(got) == len(expected)
        for (text, score), (whole, total, ended) in zip(got, expected, strict=True):
            assert text == (whole[:-1] if ended and not include_eos else whole)
            assert score == pytest.approx(total, abs=1e-4)


@pytest.mark.slow
@examples(150)
@given(
    labels=st.integers(2, 6), batch=st.integers(1, 4), beam=st.integers(1, 7), limit=st.integers(0, 6),
    include_eos=st.booleans(), exponent=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 1000),
)  # fmt: skip
def test_agrees_with_a_search_over_dicts(labels, batch, beam, limit, include_eos, exponent, seed):
    check(Net(labels, batch, seed), batch, beam, limit, include_eos=include_eos, exponent=exponent)


def test_without_an_end_all_hypotheses_have_the_limit():
    check(Net(4, 2), 2, 3, 5, end=None, exponent=0.0)


def test_a_recorded_search_is_found_again_and_forked():
    net = Net(5, 3, 1)
    loop, labels = search(net, 3, 4, 6, debug=True)
    run, order = loop.run, [rf.batch_dim, loop.found.beam, loop.axis]
    assert rf.equal(run.stack("chosen.labels"), labels).copy_transpose(order).raw_tensor.all()
    by_place = run.stack("chosen.labels", resolve=False).copy_transpose(
        [loop.axis, rf.batch_dim, loop.run[0]["chosen.labels"].dims[-1]]
    )
    assert by_place.raw_tensor.tolist() == loop.found.trace.labels[: loop.axis.get_dim_value()].tolist()
    assert run.found.trace.scores.tolist() == loop.found.trace.scores.tolist()
    fork = run.fork(1, prev="b")
    assert fork.found.trace.labels[0].tolist() == loop.found.trace.labels[0].tolist()
    assert fork.found.trace.scores[1].tolist() != loop.found.trace.scores[1].tolist()
    assert all(run[step].check == "replay agrees" for step in range(run.steps))
