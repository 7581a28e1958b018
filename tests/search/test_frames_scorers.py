"""Scorers of searches over frames: they score labels, not blanks and repetitions, and their states wait for labels."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import LoopError
from tests.examples import examples
from tests.search.alignments import labels_of, log_sum, prefix_search
from tests.search.score.test_sum import Costly, Counting

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

SCALES = {"lm": 0.6, "costly": 0.3, "length": 0.2}


class Problem:
    def __init__(self, lengths, labels, seed, blank):
        random = np.random.RandomState(seed)
        self.frames = [np.log(random.dirichlet(np.ones(labels), size=n).astype("float32")) for n in lengths]
        self.frames = [frame.reshape(-1, labels) for frame in self.frames]
        self.blank, self.labels = blank, labels
        self.time, self.label = rf.Dim(None, name="time"), rf.Dim(labels, name="label")
        tables = np.log(random.dirichlet(np.ones(labels), size=(2, 11))).astype("float32")
        self.scorers = {"lm": Counting(tables[0], self.label), "costly": Costly(tables[1], self.label)}

    def search(self, size, only=None, **options):
        """A search of all sequences, or of one."""
        frames = self.frames if only is None else [self.frames[only]]
        x = rf.convert_to_tensor(frames, dims=[rf.batch_dim, self.time, self.label])
        beam = rf.Dim(size, name="beam")
        loop = rf.Loop(axis=self.time, name="search")
        with loop:
            parts = {"model": loop.unstack(x), "length": SCALES["length"]}
            parts |= {name: (scorer, SCALES[name]) for name, scorer in self.scorers.items()}
            loop.choice(
                parts,
                beam=beam,
                axis=self.label,
                input_type="log_prob",
                blank=self.blank,
                partial_candidates=99,
                **options,
            )
        return loop.found

    def lm(self, prefix):
        """What one more label adds, for each label."""
        whole = (0, *prefix)
        own = sum(SCALES[name] * scorer.plain(whole) for name, scorer in self.scorers.items())
        return own + SCALES["length"]

    def of(self, labels):
        """What the scorers add to a sequence of labels."""
        return sum(float(self.lm(labels[:i])[label]) for i, label in enumerate(labels))


SIZES = {
    "lengths": st.lists(st.integers(1, 4), min_size=1, max_size=3), "labels": st.integers(2, 3),
    "blank": st.integers(0, 2), "seed": st.integers(0, 1000), "label_loop": st.booleans(),
}  # fmt: skip


@examples(40)
@given(**SIZES, merge=st.sampled_from(["sum", "max"]))
def test_a_beam_of_all_sequences_sums_over_alignments_and_scorers(lengths, labels, blank, seed, label_loop, merge):
    problem = Problem(lengths, labels, seed, min(blank, labels - 1))
    found = problem.search(45, merge=merge, label_loop=label_loop)
    for tree, frames in zip(found.tree, problem.frames, strict=True):
        expected = {}
        for path in itertools.product(range(labels), repeat=len(frames)):
            score = float(sum(frames[t, label] for t, label in enumerate(path)))
            expected.setdefault(labels_of(path, problem.blank, label_loop), []).append(score)
        expected = {
            one: (log_sum if merge == "sum" else max)(scores) + problem.of(one) for one, scores in expected.items()
        }
        got = {one.labels: one.score for one in tree.hypotheses}
        assert got == pytest.approx(expected, abs=1e-4)


@examples(40)
@given(**SIZES, beam=st.integers(1, 5), merge=st.sampled_from(["sum", "max"]))
def test_a_narrow_beam_agrees_with_a_prefix_search_over_dicts(lengths, labels, blank, seed, label_loop, beam, merge):
    problem = Problem(lengths, labels, seed, min(blank, labels - 1))
    found = problem.search(beam, merge=merge, label_loop=label_loop)
    for tree, frames in zip(found.tree, problem.frames, strict=True):
        given = len(frames), labels, beam, problem.blank, merge, label_loop, problem.lm
        expected = prefix_search(lambda t, _, frames=frames: frames[t], *given)
        assert [one.score for one in tree.hypotheses] == pytest.approx([score for _, score in expected], abs=1e-4)
        assert {one.labels for one in tree.hypotheses} == {labels for labels, _ in expected}


@examples(30)
@given(**SIZES)
def test_without_merges_alignments_have_the_scores_of_their_labels(lengths, labels, blank, seed, label_loop):
    problem = Problem(lengths, labels, seed, min(blank, labels - 1))
    found = problem.search(81, merge=None, label_loop=label_loop)
    for tree, frames in zip(found.tree, problem.frames, strict=True):
        expected = []
        for path in itertools.product(range(labels), repeat=len(frames)):
            score = float(sum(frames[t, label] for t, label in enumerate(path)))
            expected.append(score + problem.of(labels_of(path, problem.blank, label_loop)))
        assert [one.score for one in tree.hypotheses] == pytest.approx(sorted(expected, reverse=True), abs=1e-4)
        for one in tree.hypotheses if not label_loop else ():
            assert one.sum == pytest.approx(
                one.parts["model"] + sum(s * one.parts[n] for n, s in SCALES.items()), abs=1e-4
            )
            assert one.parts["length"] == len(one.labels)


@examples(20)
@given(**SIZES, beam=st.integers(1, 4), merge=st.sampled_from(["sum", "max", None]))
def test_each_sequence_is_the_same_alone(lengths, labels, blank, seed, label_loop, beam, merge):
    problem = Problem(lengths, labels, seed, min(blank, labels - 1))
    whole = problem.search(beam, merge=merge, label_loop=label_loop)
    for i, tree in enumerate(whole.tree):
        alone = problem.search(beam, only=i, merge=merge, label_loop=label_loop).tree[0]
        assert [one.labels for one in alone.hypotheses] == [one.labels for one in tree.hypotheses]
        assert [one.score for one in alone.hypotheses] == pytest.approx(
            [one.score for one in tree.hypotheses], abs=1e-5
        )


def test_a_constraint_sees_labels_and_allows_blanks():
    problem = Problem([4, 3], 3, 5, 0)
    problem.scorers = {}
    x = rf.convert_to_tensor(problem.frames, dims=[rf.batch_dim, problem.time, problem.label])
    beam, loop = rf.Dim(30, name="beam"), rf.Loop(axis=problem.time, name="search")
    with loop:
        parts = {"model": loop.unstack(x), "once": rf.search.no_repeat(1)}
        loop.choice(parts, beam=beam, axis=problem.label, input_type="log_prob", blank=0, label_loop=True)
    for tree in loop.found.tree:
        texts = {one.labels for one in tree.hypotheses}
        assert texts == {(), (1,), (2,), (1, 2), (2, 1)}


def test_a_model_whose_state_grows_is_a_step_beside_ctc_and_not_a_scorer():
    problem = Problem([4, 3], 3, 5, 0)
    label = problem.label
    x = rf.convert_to_tensor(problem.frames, dims=[rf.batch_dim, problem.time, label])
    lm = rf.TransformerDecoder(None, label, rf.Dim(8, name="model"), num_layers=1, num_heads=2)
    with pytest.raises(LoopError, match=r"an axis that grows[^…]*search by label, in rf.search.decode[^…]*CTCPrefix"):
        rf.search.ctc_beam(x, spatial_dim=problem.time, axis=label, blank=0, scorers={"lm": lm})

    def step(prev, state):
        return lm(rf.set_sparse_dim(prev, label), spatial_dim=rf.single_step_dim, state=state)

    ctc = rf.search.CTCPrefix(x, axis=problem.time, classes=label, blank=0, end=0)
    state, options = lm.default_initial_state(batch_dims=[rf.batch_dim]), {"start": 0, "end": 0, "limit": 5}
    found = rf.search.decode(step, state, beam=3, labels=label, scorers={"model": 0.4, "ctc": ctc}, **options)
    assert [tree.best.parts.keys() for tree in found.tree] == [{"model", "ctc"}] * 2
