"""Transducers: `loop.choice` with a blank and states that change only where a label was emitted."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.alignments import MERGES, all_sequences, labels_of, prefix_search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

STATE = 3


def log_softmax(scores):
    return scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())


class Transducer:
    """A frame, and a recurrent net over the labels: h' = tanh(A h + E[label]), scores = U h + frame."""

    def __init__(self, lengths, labels, seed=0):
        random = np.random.RandomState(seed)
        shapes = (STATE, STATE), (labels, STATE), (STATE, labels)
        self.a, self.e, self.u = (random.randn(*shape).astype("float32") for shape in shapes)
        self.frames = [random.randn(length, labels).astype("float32") for length in lengths]
        self.state, self.out, self.time = (
            rf.Dim(STATE, name="state"),
            rf.Dim(STATE, name="out"),
            rf.Dim(None, name="time"),
        )
        self.label = rf.Dim(labels, name="label")
        dims = (self.state, self.out), (self.label, self.out), (self.state, self.label)
        arrays = zip((self.a, self.e, self.u), dims, strict=True)
        self.tensors = [rf.convert_to_tensor(array, dims=own) for array, own in arrays]
        self.x = rf.convert_to_tensor(self.frames, dims=[rf.batch_dim, self.time, self.label])

    def alone(self, sequence):
        """The scores of one sequence in numpy: from a frame and the labels so far."""

        def scores(t, labels):
            h = np.zeros(STATE, "float32")
            for label in labels:
                h = np.tanh(h @ self.a + self.e[label])
            return log_softmax(h @ self.u + self.frames[sequence][t])

        return scores

    def after(self, h, label):
        """The state after a label."""
        a, e, _ = self.tensors
        h = rf.tanh(rf.matmul(h, a, reduce=self.state) + rf.gather(e, indices=label, axis=self.label))
        return rf.replace_dim_v2(h, in_dim=self.out, out_dim=self.state)

    def logits(self, h, frame):
        return rf.matmul(h, self.tensors[2], reduce=self.state) + frame


def search(net, size, blank, *, debug=False, **options):
    """One label or blank in each frame."""
    beam = rf.Dim(size, name="beam")
    loop = rf.Loop(axis=net.time, name="search", debug=debug)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.emitted = rf.zeros([rf.batch_dim, beam], dtype="bool")
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        frame = loop.unstack(net.x)
        h = rf.where(loop.state.emitted, net.after(loop.state.h, loop.state.prev), loop.state.h)
        loop.state.h = h
        chosen = loop.choice(
            net.logits(h, frame), beam=beam, axis=net.label, input_type="logits", blank=blank, **options
        )
        loop.state.prev = chosen.labels
        loop.state.emitted = chosen.labels != blank
        labels = loop.stack(chosen.labels)
    return loop, labels


def check(found, expected):
    for tree, wanted in zip(found.tree, expected, strict=True):
        assert [each.score for each in tree.hypotheses] == pytest.approx([score for _, score in wanted], abs=1e-4)
        assert {each.labels for each in tree.hypotheses} == {labels for labels, _ in wanted}


SIZES = {
    "lengths": st.lists(st.integers(0, 4), min_size=1, max_size=3),
    "labels": st.integers(1, 3),
    "blank": st.integers(0, 2),
    "merge": st.sampled_from(["sum", "max"]),
    "seed": st.integers(0, 1000),
}


@examples(25)
@given(**SIZES)
def test_a_beam_of_all_sequences_is_the_sum_over_all_alignments(lengths, labels, blank, merge, seed):
    blank, net = min(blank, labels - 1), Transducer(lengths, labels, seed)
    loop, _ = search(net, 40, blank, merge=merge)
    check(
        loop.found,
        [all_sequences(net.alone(b), length, labels, blank, merge) for b, length in enumerate(lengths)],
    )


@examples(25)
@given(beam=st.integers(1, 6), **(SIZES | {"lengths": st.lists(st.integers(0, 7), min_size=1, max_size=3)}))
def test_agrees_with_a_prefix_search_over_dicts(lengths, labels, blank, merge, seed, beam):
    blank, net = min(blank, labels - 1), Transducer(lengths, labels, seed)
    loop, _ = search(net, beam, blank, merge=merge)
    check(
        loop.found,
        [prefix_search(net.alone(b), length, labels, beam, blank, merge) for b, length in enumerate(lengths)],
    )


def test_no_two_hypotheses_have_the_same_labels_and_merges_are_joins():
    net = Transducer([7, 5], 3, 1)
    found = search(net, 6, 0)[0].found
    merges = 0
    for tree in found.tree:
        for step in range(tree.steps):
            nodes = tree.nodes(step)
            prefixes = [tree.prefix(step, node.place) for node in nodes]
            assert len(set(prefixes)) == len(prefixes)
            for node, prefix in zip(nodes, prefixes, strict=True):
                if node.joined is None:
                    continue
                merges += 1
                parents = [tree.prefix(step - 1, place) for place in (node.parent, node.joined)]
                assert sorted(map(len, parents)) == [len(prefix) - 1, len(prefix)]
                assert all(prefix[: len(each)] == each for each in parents)
    assert merges > 10


def test_without_merges_each_alignment_is_a_hypothesis():
    net = Transducer([3, 1], 3, 2)
    found = search(net, 27, 0, merge=None)[0].found
    assert [len(tree.hypotheses) for tree in found.tree] == [27, 3] and found.trace.joined is None
    for b, length in enumerate([3, 1]):
        best = all_sequences(net.alone(b), length, 3, 0, "max")[0]
        assert (found.tree[b].best.labels, pytest.approx(found.tree[b].best.score, abs=1e-5)) == best


def test_all_hypotheses_of_a_batch_are_those_of_each_sequence_alone():
    lengths, net = [6, 0, 1, 4], Transducer([6, 0, 1, 4], 4, 3)
    together = search(net, 5, 0)[0].found
    for b in range(len(lengths)):
        one = Transducer([lengths[b]], 4, 3)
        one.x = rf.convert_to_tensor([net.frames[b]], dims=[rf.batch_dim, one.time, one.label])
        alone = search(one, 5, 0)[0].found
        for mine, theirs in zip(together.tree[b].hypotheses, alone.tree[0].hypotheses, strict=True):
            assert mine.labels == theirs.labels and mine.score == pytest.approx(theirs.score, abs=1e-5)


def test_a_recorded_search_is_found_again():
    net = Transducer([6, 4], 4, 4)
    loop, labels = search(net, 4, 0, debug=True)
    run = loop.run
    assert run.found.trace.scores.tolist() == loop.found.trace.scores.tolist()
    assert run.found.trace.joined.tolist() == loop.found.trace.joined.tolist()
    assert all(run[step].check == "replay agrees" for step in range(run.steps))
    stacked = run.stack("chosen.labels")
    order = [rf.batch_dim, loop.found.beam, loop.axis]
    assert rf.equal(stacked, labels).copy_transpose(order).raw_tensor.all()
    by_hypothesis = labels.copy_transpose(order).raw_tensor
    for b, tree in enumerate(loop.found.tree):
        for each in tree.hypotheses:
            frames = by_hypothesis[b, each.place, : tree.steps].tolist()
            assert labels_of(frames, 0, label_loop=False) == each.labels


def several_per_frame(net, size, blank, most, merge, *, of_each_frame=False):
    """Each hypothesis has a frame of its own, which only blank advances; `most` labels in all, or in each frame."""
    beam = rf.Dim(size, name="beam")
    lengths = net.time.get_size_tensor()
    loop = rf.Loop(max_seq_len=lengths * (most + 1) if of_each_frame else lengths + most, name="search")
    for name in ("prev", "frame", "count"):
        loop.state[name] = rf.zeros([rf.batch_dim, beam], dtype="int64")
    loop.state.emitted = rf.zeros([rf.batch_dim, beam], dtype="bool")
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    is_blank = rf.range_over_dim(net.label) == blank
    with loop:
        h = rf.where(loop.state.emitted, net.after(loop.state.h, loop.state.prev), loop.state.h)
        loop.state.h = h
        frame = rf.gather(net.x, indices=loop.state.frame, axis=net.time, clip_to_valid=True)
        scores = rf.log_softmax(net.logits(h, frame), axis=net.label)
        scores = rf.where(rf.logical_or(loop.state.count < most, is_blank), scores, -math.inf)
        chosen = loop.choice(scores, beam=beam, axis=net.label, input_type="log_prob", blank=blank, merge=merge)
        labels = rf.set_sparse_dim(chosen.labels, None)
        emitted = labels != blank
        count, frame = chosen.follow(loop.state.count), chosen.follow(loop.state.frame)
        loop.state.prev, loop.state.emitted = labels, emitted
        loop.state.count = rf.where(emitted, count + 1, 0 if of_each_frame else count)
        loop.state.frame = rf.where(emitted, frame, frame + 1)
        loop.end(loop.state.frame >= lengths, include_eos=True)
    return loop.found


def lattice(model, frames, labels, blank, most, of_each_frame=False):
    """The scores of all alignments with at most `most` labels, by their labels."""
    others = [label for label in range(labels) if label != blank]
    parts = [part for n in range(most + 1) for part in itertools.product(others, repeat=n)]
    found = {}
    for path in itertools.product(parts, repeat=frames):
        labels_so_far, score = (), 0.0
        for t, part in enumerate(path):
            for label in (*part, blank):
                score += float(model(t, labels_so_far)[label])
                labels_so_far += (label,) if label != blank else ()
        if of_each_frame or len(labels_so_far) <= most:
            found.setdefault(labels_so_far, []).append(score)
    return found


@pytest.mark.parametrize(("lengths", "blank", "most"), [([1], 0, 0), ([2, 1], 1, 2), ([3], 2, 2), ([1, 2], 0, 3)])
@pytest.mark.parametrize("merge", ["sum", "max"])
def test_several_labels_in_a_frame(lengths, blank, most, merge):
    net = Transducer(lengths, 3, most)
    found = several_per_frame(net, 70, blank, most, merge)
    expected = [
        sorted(((one, MERGES[merge](scores)) for one, scores in alone.items()), key=lambda one: -one[1])
        for alone in (lattice(net.alone(b), length, 3, blank, most) for b, length in enumerate(lengths))
    ]
    assert all(each.complete for tree in found.tree for each in tree.hypotheses)
    check(found, expected)


def test_a_limit_of_labels_in_each_frame():
    net = Transducer([2, 3], 3, 5)
    found = several_per_frame(net, 200, 0, 1, None, of_each_frame=True)
    for b, length in enumerate([2, 3]):
        scores = sorted(itertools.chain(*lattice(net.alone(b), length, 3, 0, 1, True).values()), reverse=True)
        assert [each.score for each in found.tree[b].hypotheses] == pytest.approx(scores, abs=1e-4)


def native_lstm(x, c, h, weights, recurrent, bias):
    """One step, in the order cell input, input gate, forget gate, output gate."""
    z, i, f, o = np.split(x @ weights + h @ recurrent + bias, 4, axis=-1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    c = f * c + i * np.tanh(z)
    return c, o * np.tanh(c)


@pytest.mark.parametrize("size", [1, 4])
def test_a_recorded_transducer_whose_label_lstm_skips_blanks(size):
    """Values of another implementation, without merges; it makes one step more where the batch has another frame."""
    data = np.load(Path(__file__).parents[1] / "golden" / "transducer_search.npz")
    lengths, inputs = data["in_size/data"], data["in/data"]
    encoder = [data[f"encoder/{name}"] for name in ("W", "W_re", "b")]
    c = h = np.zeros((len(lengths), 5), "float32")
    encoded = []
    for t in range(inputs.shape[1]):
        c, h = native_lstm(inputs[:, t], c, h, *encoder)
        encoded.append(h)
    time, feat, cell, label, gates = (
        rf.Dim(None, name="time"), rf.Dim(5, name="feat"), rf.Dim(4, name="cell"), rf.Dim(6, name="label"),
        rf.Dim(16, name="gates"),
    )  # fmt: skip
    embed, readout = rf.Dim(4, name="embed"), rf.Dim(6, name="readout")
    most = max(lengths)
    zero = np.zeros((1, 5), "float32")
    frames = [np.concatenate([np.stack(encoded, 1)[b, :n], zero])[:most] for b, n in enumerate(lengths)]
    x = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, feat], feature_dim=feat)
    w = {
        name: rf.convert_to_tensor(data[name], dims=dims)
        for name, dims in {
            "output/emb/W": [label, embed], "output/lm_masked/W": [embed, gates],
            "output/lm_masked/W_re": [cell, gates], "output/lm_masked/b": [gates],
            "output/readout/b": [readout], "output/output_prob/W": [readout, label], "output/output_prob/b": [label],
        }.items()
    }  # fmt: skip
    of_frame = rf.convert_to_tensor(data["output/readout/W"][:5], dims=[feat, readout])
    of_labels = rf.convert_to_tensor(data["output/readout/W"][5:], dims=[cell, readout])
    beam = rf.Dim(size, name="beam")
    loop = rf.Loop(axis=time)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=label)
    loop.state.emitted = rf.ones([rf.batch_dim, beam], dtype="bool")
    loop.state.c = loop.state.h = rf.zeros([rf.batch_dim, beam, cell])
    with loop:
        frame = loop.unstack(x)
        z = rf.matmul(rf.gather(w["output/emb/W"], indices=loop.state.prev), w["output/lm_masked/W"], reduce=embed)
        z = z + rf.matmul(loop.state.h, w["output/lm_masked/W_re"], reduce=cell) + w["output/lm_masked/b"]
        j, i, f, o = (rf.replace_dim_v2(p, in_dim=p.feature_dim, out_dim=cell) for p in rf.split(
            rf.set_feature_dim(z, gates), axis=gates, out_dims=[rf.Dim(4, name=f"gate {n}") for n in range(4)]
        ))  # fmt: skip
        c = rf.sigmoid(f) * loop.state.c + rf.sigmoid(i) * rf.tanh(j)
        h = rf.where(loop.state.emitted, rf.sigmoid(o) * rf.tanh(c), loop.state.h)
        loop.state.c, loop.state.h = rf.where(loop.state.emitted, c, loop.state.c), h
        joint = rf.matmul(h, of_labels, reduce=cell) + rf.matmul(frame, of_frame, reduce=feat)
        hidden = rf.tanh(joint + w["output/readout/b"])
        logits = rf.matmul(hidden, w["output/output_prob/W"], reduce=readout) + w["output/output_prob/b"]
        chosen = loop.choice(logits, beam=beam, axis=label, input_type="logits", blank=0, merge=None)
        loop.state.prev, loop.state.emitted = chosen.labels, chosen.labels != 0
        labels = loop.stack(chosen.labels)
    order = [rf.batch_dim, loop.found.beam]
    scores = loop.found.scores.copy_transpose(order).raw_tensor
    np.testing.assert_allclose(scores, data[f"beam{size}/beam_scores/output"], rtol=1e-4, atol=1e-5)
    got = labels.copy_transpose([*order, time]).raw_tensor.numpy()
    for b, length in enumerate(lengths):
        assert got[b, :, :length].tolist() == data[f"beam{size}/out/output"][b, :, :length].tolist()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blank": 7}, "`blank`"),
        ({"blank": 0, "merge": "mean"}, "`merge`"),
        ({"blank": 0, "keep_beams": True}, "`keep_beams`"),
        ({"blank": None, "label_loop": True}, "`label_loop`"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ParameterError, match=words):
        search(Transducer([2], 3), 2, **options)
