"""A sum of parts in `loop.choice` against a search over dicts, written out in Python."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, LoopError, ParameterError
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

END, COUNT = 1, 11


class Counting:
    """Scores by a number that depends on all labels so far: a row of a table, {count, labels}."""

    def __init__(self, table, label, with_final=False):
        self.table, self.label, self.count = table, label, rf.Dim(COUNT, name="count")
        self.rows = rf.convert_to_tensor(table, dims=[self.count, label])
        if with_final:
            self.final = lambda state: rf.cast(state.n, "float32") * -0.1

    def initial_state(self, *, batch_dims):
        return rf.State(n=rf.zeros(batch_dims, dtype="int64"), unused=None)

    def next(self, label, state):
        return rf.State(n=(state.n * 3 + rf.set_sparse_dim(label, None) + 1) % COUNT, unused=None)

    def score(self, label, state):
        state = self.next(label, state)
        return rf.gather(self.rows, indices=state.n, axis=self.count), state

    # the same in Python

    def plain(self, prefix):
        return self.table[number(prefix)]

    def plain_final(self, prefix):
        return -0.1 * number(prefix) if hasattr(self, "final") else 0.0


def number(prefix):
    found = 0
    for label in prefix:
        found = (found * 3 + label + 1) % COUNT
    return found


class Costly(Counting):
    """The same scores, for candidates only."""

    score = None

    def advance(self, label, state):
        return self.next(label, state)

    def partial(self, labels, state):
        rows = rf.gather(self.rows, indices=state.n, axis=self.count)
        return rf.gather(rows, indices=labels, axis=self.label)


del Costly.score


def truth(model, scorers, scales, beam_size, limit, exponent, candidates=None, start=0):
    """The final hypotheses of one sequence, (labels, score, parts), the best first. model: [labels before, labels]."""
    beam = [((), 0.0, dict.fromkeys(scales, 0.0), False)]
    for step in range(limit):
        found = []
        for labels, score, parts, ended in beam:
            if ended:
                found.append((score * ((step + 1) / len(labels)) ** exponent, (labels, score, parts, True)))
                continue
            whole = (start, *labels)
            own = {"model": model[whole[-1]]} | {name: s.plain(whole) for name, s in scorers.items()}
            own["length"] = np.ones(model.shape[1])
            cheap = sum(scales[n] * own[n] for n in scales if not isinstance(scorers.get(n), Costly))
            kept = sorted(range(len(cheap)), key=lambda i: -cheap[i])[:candidates]
            for label in kept:
                now = {name: parts[name] + own[name][label] for name in scales}
                total = sum(scales[n] * now[n] for n in scales)
                found.append((total, ((*labels, label), total, now, label == END)))
        kept = [each for _, each in sorted(found, key=lambda one: -one[0])[:beam_size]]
        over = step == limit - 1 or all(ended for *_, ended in kept)
        beam = []
        for labels, score, parts, ended in kept:
            if (ended and len(labels) == step + 1) or (over and not ended):
                more = {n: s.plain_final((start, *labels[:-1])) for n, s in scorers.items()}
                parts = {n: parts[n] + more.get(n, 0.0) for n in parts}
                score = sum(scales[n] * parts[n] for n in parts)
            beam.append((labels, score, parts, ended))
    return [(labels, score / max(len(labels), 1) ** exponent, parts) for labels, score, parts, _ in beam]


def search(table, scorers, scales, beam_size, limit, exponent=0.0, debug=False, **options):
    label, before = rf.Dim(table.shape[2], name="label"), rf.Dim(table.shape[1], name="before")
    for scorer in scorers.values():
        scorer.__init__(scorer.table, label, hasattr(scorer, "final"))
    scores = rf.convert_to_tensor(table, dims=[rf.batch_dim, before, label])
    beam = rf.Dim(beam_size, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search", debug=debug)
    loop.state.prev = rf.full(dims=[rf.batch_dim, beam], fill_value=options.get("start", 0), dtype="int64")
    with loop:
        parts = {"model": (rf.gather(scores, indices=loop.state.prev, axis=before), scales["model"])}
        parts |= {name: (scorer, scales[name]) for name, scorer in scorers.items()} | {"length": scales["length"]}
        chosen = loop.choice(
            parts, beam=beam, axis=label, input_type="log_prob", length_normalization=exponent != 0,
            length_normalization_exponent=exponent or 1.0, **options,
        )  # fmt: skip
        loop.state.prev = rf.set_sparse_dim(chosen.labels, None)
        loop.end(chosen.labels == END, include_eos=True)
        loop.stack(chosen.labels)
    return loop


@examples(40)
@given(
    labels=st.integers(3, 6), batch=st.integers(1, 3), beam=st.integers(1, 5), limit=st.integers(0, 5),
    exponent=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 1000), candidates=st.integers(1, 6),
    finals=st.booleans(), start=st.sampled_from([0, 2]),
)  # fmt: skip
def test_agrees_with_a_search_over_dicts(labels, batch, beam, limit, exponent, seed, candidates, finals, start):
    random = np.random.RandomState(seed)
    table = random.randn(batch, labels, labels).astype("float32")
    cheap = Counting(random.randn(COUNT, labels).astype("float32"), rf.Dim(labels, name="label"), finals)
    costly = Costly(random.randn(COUNT, labels).astype("float32"), rf.Dim(labels, name="label"))
    scorers, scales = {"lm": cheap, "slow": costly}, {"model": 1.0, "lm": -0.3, "slow": 0.5, "length": 0.1}
    loop = search(table, scorers, scales, beam, limit, exponent, partial_candidates=candidates, start=start)
    found = loop.found
    assert not limit or found.trace.scales == pytest.approx(scales)
    for sequence in range(batch):
        expected = truth(table[sequence], scorers, scales, beam, limit, exponent, candidates, start)
        got = found.tree[sequence].hypotheses
        expected = sorted((each for each in expected if math.isfinite(each[1])), key=lambda one: -one[1])
        assert [tuple(each.labels) for each in got] == [tuple(each[0]) for each in expected]
        for each, (_, score, parts) in zip(got, expected, strict=True):
            assert each.score == pytest.approx(score, abs=1e-4)
            assert each.parts == (pytest.approx(parts, abs=1e-4) if limit else {})


@examples(30)
@given(batch=st.integers(1, 3), beam=st.integers(1, 4), seed=st.integers(0, 1000), finals=st.booleans())
def test_parts_sum_to_the_score_of_each_step(batch, beam, seed, finals):
    random = np.random.RandomState(seed)
    table, rows = random.randn(batch, 4, 4).astype("float32"), random.randn(COUNT, 4).astype("float32")
    scorers = {"lm": Counting(rows, rf.Dim(4, name="label"), finals)}
    options = {"prob_scale": 0.7, "random_sample_scale": 0.2}
    trace = search(table, scorers, {"model": 0.8, "lm": 0.4, "length": 0.1}, beam, 5, **options).found.trace
    assert set(trace.parts) == {"model", "lm", "length", "noise"}
    before = np.zeros_like(trace.scores[0])
    for step, scores in enumerate(trace.scores):
        own = sum(trace.scales[name] * part[step] for name, part in trace.parts.items())
        real = scores > -np.inf
        expected = np.take_along_axis(before, trace.parents[step], axis=1) + own
        assert np.allclose(scores[real], expected[real], atol=1e-4)
        before = scores


def test_rerank_gives_the_scores_of_a_search_with_those_scales():
    random = np.random.RandomState(0)
    table, rows = random.randn(2, 4, 4).astype("float32"), random.randn(COUNT, 4).astype("float32")
    scorers, scales = {"lm": Counting(rows, rf.Dim(4, name="label"), True)}, {"model": 1.0, "lm": 0.1, "length": 0.1}
    all_paths = 4**3
    found = search(table, scorers, scales, all_paths, 3).found
    other = search(table, scorers, scales | {"lm": 0.9}, all_paths, 3).found
    for reranked, whole in zip(found.rerank(lm=0.9).tree, other.tree, strict=True):
        assert [each.labels for each in reranked.hypotheses] == [each.labels for each in whole.hypotheses]
        scores = [each.score for each in whole.hypotheses]
        assert [each.score for each in reranked.hypotheses] == pytest.approx(scores, abs=1e-4)


def test_a_scorer_with_scale_0_is_not_called():
    class Refusing:
        def initial_state(self, *, batch_dims):
            raise AssertionError("called")

        score = initial_state

    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=2)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        parts = {"model": rf.ones([beam, label]), "lm": (Refusing(), 0.0)}
        loop.state.prev = loop.choice(parts, beam=beam, input_type="logits").labels
    assert set(loop.found.trace.parts) == {"model"}


def test_a_recorded_search_with_scorers_is_replayed_and_forked():
    random = np.random.RandomState(1)
    table, rows = random.randn(2, 4, 4).astype("float32"), random.randn(COUNT, 4).astype("float32")
    scorers = {"lm": Counting(rows, rf.Dim(4, name="label"), True)}
    loop = search(table, scorers, {"model": 1.0, "lm": 0.4, "length": 0.1}, 3, 4, debug=True)
    run = loop.run
    assert all(run[step].check == "replay agrees" for step in range(run.steps))
    assert run.found.trace.parts["lm"].tolist() == loop.found.trace.parts["lm"].tolist()
    fork = run.fork(1, prev=2)
    assert fork.found.trace.parts["lm"][0].tolist() == loop.found.trace.parts["lm"][0].tolist()


def test_a_module_is_a_scorer():
    label, beam = rf.Dim(5, name="label"), rf.Dim(3, name="beam")

    class LM(rf.Module):
        def __init__(self):
            super().__init__()
            self.embed = rf.Embedding(label, rf.Dim(4, name="embed"))
            self.lstm = rf.LSTM(self.embed.out_dim, rf.Dim(6, name="lstm"))
            self.out = rf.Linear(self.lstm.out_dim, label)

        def default_initial_state(self, *, batch_dims):
            return self.lstm.default_initial_state(batch_dims=batch_dims)

        def __call__(self, labels, *, state, spatial_dim):
            x, state = self.lstm(self.embed(labels), state=state, spatial_dim=spatial_dim)
            return self.out(x), state

    lm, scores = LM(), rf.random_normal([rf.batch_dim, label])

    def found(by_hand):
        loop = rf.Loop(max_seq_len=4)
        loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=label)
        loop.state.lm = lm.default_initial_state(batch_dims=[rf.batch_dim, beam])
        with loop:
            part = lm
            if by_hand:
                part, loop.state.lm = lm(loop.state.prev, state=loop.state.lm, spatial_dim=rf.single_step_dim)
            parts = {"model": scores, "lm": (part, 0.4)}
            loop.state.prev = loop.choice(parts, beam=beam, input_type="logits").labels
        return loop.found

    rf.convert_to_tensor(np.zeros((COUNT, 2)), dims=[rf.batch_dim, rf.Dim(2, name="two")])  # a batch of 3
    scores = rf.random_normal([rf.batch_dim, label])
    with torch.no_grad():
        one, two = found(by_hand=False).trace, found(by_hand=True).trace
    assert one.labels.tolist() == two.labels.tolist()
    assert np.allclose(one.parts["lm"], two.parts["lm"], atol=1e-5) and (one.parts["lm"] < 0).all()


class Broken(Counting):
    def __init__(self, label, **overrides):
        super().__init__(np.zeros((COUNT, 3), "float32"), label)
        self.__dict__ |= overrides


def refused(value, error, match):
    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    value = value(label) if callable(value) else value
    loop = rf.Loop(max_seq_len=2)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with pytest.raises(error, match=match), loop:
        loop.state.prev = loop.choice({"model": rf.ones([beam, label]), "lm": value}, beam=beam).labels
    assert "lm" not in loop.state and loop.found is None


def test_what_is_no_scorer_is_refused():
    refused(0.1, ParameterError, "neither a Tensor nor a scorer")
    refused(("lm", 0.1), ParameterError, "neither a Tensor nor a scorer")
    refused(
        lambda label: (Counting(np.zeros((COUNT, 3), "float32"), label), "0.1"), ParameterError, "not a finite number"
    )
    for scale in ("0.1", math.nan):
        scorer = Counting(np.zeros((COUNT, 3), "float32"), rf.Dim(3, name="label"))
        refused((scorer, scale), ParameterError, "not a finite number")


def test_a_scorer_of_other_labels_is_refused():
    refused(lambda _: Counting(np.zeros((COUNT, 4), "float32"), rf.Dim(4, name="words")), DimError, "the scorer 'lm'")


def test_states_that_do_not_fit_are_refused():
    refused(lambda d: Broken(d, next=lambda label, state: rf.State(n=state.n)), LoopError, "different structure")
    refused(
        lambda d: Broken(d, score=lambda label, s: (rf.ones([d]), rf.State(n=rf.zeros([d]), unused=None))),
        DimError,
        "changes its dims",
    )
    grown = rf.Dim(0, name="grown")
    refused(lambda d: Broken(d, initial_state=lambda batch_dims: rf.State(n=grown)), LoopError, "an axis that grows")


def test_start_must_be_a_label():
    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=2)
    with pytest.raises(ParameterError, match="`start` is not a label"), loop:
        scorer = Counting(np.zeros((COUNT, 3), "float32"), label)
        loop.choice({"model": rf.ones([label]), "lm": scorer}, beam=beam, start=3)


def test_where_parts_do_not_add_up_only_the_score_is_kept():
    random = np.random.RandomState(2)
    table, rows = random.randn(2, 4, 4).astype("float32"), random.randn(COUNT, 4).astype("float32")
    scorers, scales = {"lm": Counting(rows, rf.Dim(4, name="label"), True)}, {"model": 1.0, "lm": 0.4, "length": 0.1}
    plain = search(table, scorers, scales, 3, 4).found.trace
    trace = search(table, scorers, scales, 3, 4, custom_score_combine=lambda scores, base: base + scores).found.trace
    assert plain.parts and not trace.parts
    assert np.allclose(trace.final_scores, plain.final_scores, atol=1e-5)


def test_with_a_blank_there_are_scores_of_frames_and_ends_by_labels_only():
    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    scorer = Counting(np.zeros((COUNT, 3), "float32"), label)
    with pytest.raises(ParameterError, match="frames need scores"), rf.Loop(max_seq_len=2) as loop:
        loop.choice({"lm": scorer}, beam=beam, axis=label, blank=0)
    frame = rf.Dim(2, name="frame")
    with pytest.raises(LoopError, match="by values of the step"), rf.Loop(max_seq_len=2) as loop:
        weights = rf.ones([beam, frame]) * rf.cast(loop.iter_idx, "float32")
        parts = {"model": rf.ones([label]), "coverage": rf.search.Coverage(weights, axis=frame)}
        loop.choice(parts, beam=beam, blank=0)
