"""What the end of a hypothesis is worth, in searches over frames and without an end label, against all sequences."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.alignments import labels_of, log_sum
from tests.search.score.test_ngram import log_prob, text_of
from tests.search.score.test_sum import Costly, Counting

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

LABELS = ["-", "▁a", "b", "▁"]
BLANK = 0
WORDS = ["a", "ab", "b"]
PLAIN = ["<s>", "</s>", *LABELS]


def arpa(path, names, seed, unknown=False):
    """A bigram model, as a file and as dicts."""
    random = np.random.RandomState(seed)
    names = [*names, *["<unk>"] * unknown]
    grams = {(name,): random.uniform(-2, -0.1) for name in names}
    for first, second in itertools.product(names, names):
        if first != "</s>" and second != "<s>" and random.rand() < 0.5:
            grams[first, second] = random.uniform(-2, -0.1)
    backoffs = {gram: random.uniform(-1, 0) for gram in grams if len(gram) == 1}
    path.write_text(text_of(grams, backoffs))
    return grams, backoffs


def of_words(grams, backoffs, words):
    """The score of a text and its end."""
    found, before = 0.0, "<s>"
    for word in [*words, "</s>"]:
        word = word if (word,) in grams else "<unk>"
        if (word,) not in grams:
            return -math.inf
        found += log_prob(grams, backoffs, (before,), word) * math.log(10)
        before = word
    return found


def occurrences(labels, phrase):
    return sum(tuple(labels[i : i + len(phrase)]) == phrase for i in range(len(labels)))


def scorers(folder, label, seed):
    """By name a scorer, and what it gives to a whole sequence of labels."""
    grams, backoffs = arpa(folder / "words.arpa", ["<s>", "</s>", *WORDS], seed, unknown=seed % 2 == 0)
    own, own_backoffs = arpa(folder / "labels.arpa", PLAIN, seed)
    table = np.random.RandomState(seed).randn(2, 11, len(LABELS)).astype("float32")
    phrases = {(1, 2): 0.5, (2, 2, 3): 1.0, (3,): -0.4}
    words = [(1,), (1, 2), (2, 2, 3), ()][seed % 3 :]
    texts = lambda labels: "".join(LABELS[i] for i in labels).replace("▁", " ").split()  # noqa: E731
    counting, costly = (kind(rows, label, True) for kind, rows in zip((Counting, Costly), table, strict=True))
    costly.final = lambda state: rf.where(state.n % 2 == 0, 0.0, -1.5)

    def counted(labels, scorer, final):
        whole = (0, *labels)
        found = sum(float(scorer.plain(whole[: i + 1])[label]) for i, label in enumerate(labels))
        n = 0
        for one in whole:
            n = (n * 3 + one + 1) % 11
        return found + final(n)

    word_score = lambda labels: of_words(grams, backoffs, texts(labels))  # noqa: E731
    return {
        "words": (rf.search.WordNGram(folder / "words.arpa", label), word_score),
        "ahead": (rf.search.WordNGram(folder / "words.arpa", label, lookahead=True), word_score),
        "labels": (
            rf.search.NGram(folder / "labels.arpa", label),
            lambda labels: of_words(own, own_backoffs, [LABELS[i] for i in labels]),
        ),
        "phrases": (
            rf.search.Phrases(phrases, label),
            lambda labels: sum(occurrences(labels, one) * boost * len(one) for one, boost in phrases.items()),
        ),
        "trie": (
            rf.search.trie(words, labels=label, end=None),
            lambda labels: 0.0 if tuple(labels) in words else -math.inf,
        ),
        "lengths": (
            rf.search.lengths(end=0, minimum=2),
            lambda labels: 0.0 if len(labels) >= 2 and 0 not in labels[:2] else -math.inf,
        ),
        "forced": (
            rf.search.forced([1, 2]),
            lambda labels: 0.0 if tuple(labels[:2]) == (1, 2) else -math.inf,
        ),
        "counting": (counting, lambda labels: counted(labels, counting, lambda n: -0.1 * n)),
        "costly": (costly, lambda labels: counted(labels, costly, lambda n: 0.0 if n % 2 == 0 else -1.5)),
    }


NAMES = ["words", "ahead", "labels", "phrases", "trie", "lengths", "forced", "counting", "costly"]
SIZES = {
    "lengths": st.lists(st.integers(0, 4), min_size=1, max_size=3), "seed": st.integers(0, 200),
    "name": st.sampled_from(NAMES), "scale": st.sampled_from([0.6, -0.4, 1.0]),
}  # fmt: skip


def frames_of(lengths, seed):
    random = np.random.RandomState(seed)
    rows = [np.log(random.dirichlet(np.ones(len(LABELS)), size=n)) for n in lengths]
    return [row.astype("float32").reshape(-1, len(LABELS)) for row in rows]


def is_ok(tree, expected):
    """Whether the hypotheses of a tree are all label sequences with a finite score, the best first."""
    expected = {labels: score for labels, score in expected.items() if score > -math.inf}
    got = tree.hypotheses
    assert {one.labels: one.score for one in got} == pytest.approx(expected, abs=1e-3)
    assert [one.score for one in got] == sorted((one.score for one in got), reverse=True)
    if not expected:
        assert tree.best is None


def weighed(scale, score):
    return -math.inf if score == -math.inf else scale * score


@examples(25)
@given(**SIZES, label_loop=st.booleans(), merge=st.sampled_from(["sum", "max"]))
def test_over_frames_a_beam_of_all_sequences(tmp_path_factory, lengths, seed, name, scale, label_loop, merge):
    label, time = rf.Dim(len(LABELS), name="label", vocab=LABELS), rf.Dim(None, name="time")
    scorer, truth = scorers(tmp_path_factory.mktemp("lm"), label, seed)[name]
    frames = frames_of(lengths, seed)
    x = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, label])
    if label_loop:
        given = {"spatial_dim": time, "axis": label, "blank": BLANK, "merge": merge}
        found = rf.search.ctc_beam(x, beam=130, scorers={name: (scorer, scale), "length": 0.1}, **given)
    else:
        loop, beam = rf.Loop(axis=time, name="search"), rf.Dim(130, name="beam")
        with loop:
            parts = {"model": loop.unstack(x), name: (scorer, scale), "length": 0.1}
            options = {"input_type": "log_prob", "blank": BLANK, "merge": merge, "partial_candidates": 99}
            loop.choice(parts, beam=beam, axis=label, **options)
        found = loop.found
    for tree, own in zip(found.tree, frames, strict=True):
        paths = {}
        for path in itertools.product(range(len(LABELS)), repeat=len(own)):
            score = float(sum(own[t, one] for t, one in enumerate(path)))
            paths.setdefault(labels_of(path, BLANK, label_loop), []).append(score)
        merged = {one: (log_sum if merge == "sum" else max)(scores) for one, scores in paths.items()}
        is_ok(tree, {one: s + weighed(scale, truth(one)) + 0.1 * len(one) for one, s in merged.items()})


def by_label(lengths, label, scorer, name, scale, seed, debug=False, beam_size=256):
    """A search in which each frame gets a label."""
    frames, time = frames_of(lengths, seed), rf.Dim(None, name="time")
    x = rf.convert_to_tensor(frames, dims=[rf.batch_dim, time, label])
    loop, beam = rf.Loop(axis=time, name="search", debug=debug), rf.Dim(beam_size, name="beam")
    with loop:
        scores = rf.expand_dim(loop.unstack(x), beam)
        parts = {"model": scores, name: (scorer, scale)}
        options = {"input_type": "log_prob", "length_normalization": False, "partial_candidates": 99}
        loop.choice(parts, beam=beam, axis=label, **options)
    return loop, frames


def expected_by_label(own, truth, scale):
    paths = itertools.product(range(len(LABELS)), repeat=len(own))
    return {path: float(sum(own[t, i] for t, i in enumerate(path))) + weighed(scale, truth(path)) for path in paths}


@examples(25)
@given(**SIZES)
def test_a_label_in_each_frame(tmp_path_factory, lengths, seed, name, scale):
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    scorer, truth = scorers(tmp_path_factory.mktemp("lm"), label, seed)[name]
    loop, frames = by_label(lengths, label, scorer, name, scale, seed)
    for tree, own in zip(loop.found.tree, frames, strict=True):
        is_ok(tree, expected_by_label(own, truth, scale))
        for one in tree.hypotheses if len(own) else ():
            assert one.parts[name] == pytest.approx(truth(one.labels), abs=1e-3)
            assert one.sum == pytest.approx(one.parts["model"] + scale * one.parts[name], abs=1e-3)


@examples(25)
@given(**SIZES, as_constraint=st.booleans())
def test_decode_without_an_end(tmp_path_factory, lengths, seed, name, scale, as_constraint):
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    scorer, truth = scorers(tmp_path_factory.mktemp("lm"), label, seed)[name]
    table = np.log(np.random.RandomState(seed).dirichlet(np.ones(len(LABELS)), size=4)).astype("float32")
    as_constraint = as_constraint and name != "costly"
    scale = 1.0 if as_constraint else scale
    more = {"constraints": [scorer]} if as_constraint else {"scorers": {name: (scorer, scale)}}
    found = rf.search.decode(
        lambda prev, state: (torch.tensor(table)[prev], state), batch=len(lengths), beam=256, start=0, end=None,
        limit=lengths, labels=label, input_type="log_prob", length_normalization_exponent=0.0, partial_candidates=99,
        **more,
    )  # fmt: skip
    for tree, length in zip(found.tree, lengths, strict=True):
        paths = itertools.product(range(len(LABELS)), repeat=length)
        model = lambda path: float(sum(table[a, b] for a, b in zip((0, *path), path, strict=False)))  # noqa: E731
        is_ok(tree, {path: model(path) + weighed(scale, truth(path)) for path in paths})
        for one in tree.hypotheses if length and not as_constraint else ():
            assert one.parts[name] == pytest.approx(truth(one.labels), abs=1e-3)


@examples(15)
@given(**SIZES, merge=st.sampled_from(["sum", "max", None]), beam=st.integers(1, 4), label_loop=st.booleans())
def test_each_sequence_is_the_same_alone(tmp_path_factory, lengths, seed, name, scale, merge, beam, label_loop):
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    scorer, _ = scorers(tmp_path_factory.mktemp("lm"), label, seed)[name]
    frames = frames_of(lengths, seed)

    def trees(own):
        time, places = rf.Dim(None, name="time"), rf.Dim(beam, name="beam")
        x, loop = rf.convert_to_tensor(own, dims=[rf.batch_dim, time, label]), rf.Loop(axis=time, name="search")
        with loop:
            parts, options = {"model": loop.unstack(x), name: (scorer, scale)}, {"merge": merge, "blank": BLANK}
            loop.choice(parts, beam=places, axis=label, input_type="log_prob", label_loop=label_loop, **options)
        return loop.found.tree

    for tree, own in zip(trees(frames), frames, strict=True):
        alone = trees([own])[0]
        assert [one.labels for one in alone.hypotheses] == [one.labels for one in tree.hypotheses]
        assert [one.score for one in alone.hypotheses] == pytest.approx([one.score for one in tree.hypotheses])
        for one in tree.hypotheses if len(own) else ():
            assert one.score == pytest.approx(tree.compared[-1, one.place], abs=1e-4)


@examples(15)
@given(seed=st.integers(0, 200), name=st.sampled_from(NAMES), scale=st.sampled_from([0.6, -0.4]), data=st.data())
def test_hypotheses_that_end_in_the_loop(tmp_path_factory, seed, name, scale, data):
    """Several labels in a frame: a hypothesis ends with the blank of its last frame, others at the limit of steps."""
    frames, most = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 2))
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    scorer, truth = scorers(tmp_path_factory.mktemp("lm"), label, seed)[name]
    own = frames_of([3], seed)[0]
    x = rf.convert_to_tensor(own[:3], dims=[rf.Dim(3, name="time"), label])
    beam, loop = rf.Dim(300, name="beam"), rf.Loop(max_seq_len=frames + most, name="search")
    loop.state.frame = rf.zeros([beam], dtype="int64")
    with loop:
        scores = rf.gather(x, indices=loop.state.frame, axis=x.dims[0], clip_to_valid=True)
        parts = {"model": scores, name: (scorer, scale)}
        options = {"input_type": "log_prob", "blank": BLANK, "merge": None, "partial_candidates": 99}
        chosen = loop.choice(parts, beam=beam, axis=label, **options)
        frame = chosen.follow(loop.state.frame)
        loop.state.frame = rf.where(chosen.labels != BLANK, frame, frame + 1)
        loop.end(loop.state.frame >= frames, include_eos=True)
    expected = []
    for path in itertools.product(range(len(LABELS)), repeat=frames + most):
        blanks = [i for i, one in enumerate(path) if one == BLANK]
        end = blanks[frames - 1] + 1 if len(blanks) >= frames else None
        if end is not None and any(path[end:]):
            continue  # it has ended: one path stands for all that go on
        path = path if end is None else path[:end]
        score = sum(own[min(path[:i].count(BLANK), 2), one] for i, one in enumerate(path))
        labels = tuple(one for one in path if one != BLANK)
        expected.append(float(score) + weighed(scale, truth(labels)))
    expected = sorted((score for score in expected if score > -math.inf), reverse=True)
    got = [one.score for one in loop.found.tree[0].hypotheses]
    assert got == pytest.approx(expected, abs=1e-3)


def test_a_recorded_search_knows_what_the_end_is_worth(tmp_path):
    """The scores that the model gives to references, forks, candidates that are kept, and files."""
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    scorer, truth = scorers(tmp_path, label, 3)["phrases"]
    loop, [own] = by_label([3], label, scorer, "phrases", 1.5, 3, debug=True, beam_size=2)
    tree, wanted = loop.found.tree[0], expected_by_label(own, truth, 1.5)
    for labels in [(2, 2, 3), (1, 2, 1), (3, 3, 3), (0, 1, 2)]:
        assert tree.where([*labels]).score == pytest.approx(wanted[labels], abs=1e-3)
    assert all(loop.run[step].check == "replay agrees" for step in range(3))
    pruned = tree.pruned(1)[0]
    for one in tree.keep(pruned).hypotheses:
        assert one.score == pytest.approx(wanted[one.labels], abs=1e-3)
    assert loop.run.fork(1).found.nbest(2) == loop.found.nbest(2)
    loaded = rf.search.load(loop.found.save(tmp_path / "x.rfbeam")).tree[0]
    assert [one.score for one in loaded.hypotheses] == [one.score for one in tree.hypotheses]
    again = loop.found.rerank(phrases=0.3).tree[0]
    other = expected_by_label(own, truth, 0.3)
    assert all(one.score == pytest.approx(other[one.labels], abs=1e-3) for one in again.hypotheses)


def test_an_end_by_a_label_is_in_the_forced_score():
    """A scorer of the user's own, of hypotheses that end by a label."""
    label, beam, before = rf.Dim(3, name="label"), rf.Dim(2, name="beam"), rf.Dim(3, name="before")
    table = np.random.RandomState(1).randn(3, 3).astype("float32")
    rows = np.random.RandomState(2).randn(11, 3).astype("float32")
    scorer = Counting(rows, label, True)
    loop = rf.Loop(max_seq_len=4, debug=True)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        scores = rf.gather(rf.convert_to_tensor(table, dims=[before, label]), indices=loop.state.prev, axis=before)
        parts, options = {"model": scores, "own": (scorer, 2.0)}, {"length_normalization": False}
        chosen = loop.choice(parts, beam=beam, axis=label, input_type="log_prob", **options)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 0, include_eos=False)
    for labels in [(1,), (2, 2), (1, 2, 1)]:
        whole = (0, *labels, 0)
        score = sum(table[a, b] for a, b in itertools.pairwise(whole))
        score += 2 * sum(scorer.plain(whole[:i])[whole[i]] for i in range(1, len(whole)))
        score += 2 * scorer.plain_final(whole[:-1])
        assert loop.found.tree[0].where([*labels]).score == pytest.approx(float(score), abs=1e-4)


def test_where_none_may_end_the_search_says_so(tmp_path):
    label = rf.Dim(len(LABELS), name="label", vocab=LABELS)
    trie = rf.search.trie([[1, 2, 3]], labels=label, end=None)
    loop, _ = by_label([2, 3, 0], label, trie, "words", 1.0, 3)
    found = loop.found
    assert found.nbest() == [[], ["ab"], []]
    assert found.flags == ["no hypothesis may end where the search ended: sequence 2, sequence 0"]
    tree = found.tree[0]
    assert tree.best is None and tree.died_at == 1 and "none may end" in repr(tree)
    assert [node.text for node in tree.nodes(1)] == ["b"] and not tree.nodes(1)[0].survives
    assert tree.where([1, 2]).verdict == "no hypothesis"
    assert "may not end" in repr(tree.why([1, 2]))
    assert found.lengths.raw_tensor[0].tolist() == [0] * 256
    one = rf.search.trie([[1, 2], [1, 3]], labels=label, end=None)
    several, _ = by_label([2], label, one, "words", 1.0, 3)
    assert len(several.found.nbest()[0]) == 2
    prefix = rf.search.trie([[1, 2], [2]], labels=label, end=None)
    tree = by_label([2], label, prefix, "words", 1.0, 3, beam_size=2)[0].found.tree[0]
    assert tree.where([2]).verdict in ("over the limit", "model error")


@examples(20)
@given(seed=st.integers(0, 500), limits=st.lists(st.integers(0, 5), min_size=2, max_size=3), beam=st.integers(1, 4))
def test_sequences_that_are_cut_off_at_their_own_limit(seed, limits, beam):
    """Ends that are worth something change the order of a beam after the last step of a short sequence."""
    random, label, before = np.random.RandomState(seed), rf.Dim(4, name="label"), rf.Dim(4, name="before")
    table = random.randn(len(limits), 4, 4).astype("float32")
    rows = random.randn(11, 4).astype("float32")

    def trees(which):
        scores = rf.convert_to_tensor(table[which], dims=[rf.batch_dim, before, label])
        most = rf.convert_to_tensor(np.asarray(limits)[which], dims=[rf.batch_dim])
        places, loop = rf.Dim(beam, name="beam"), rf.Loop(max_seq_len=most, name="search")
        loop.state.prev = rf.zeros([rf.batch_dim, places], dtype="int64", sparse_dim=label)
        scorer = Counting(rows, label)
        scorer.final = lambda state: rf.where(state.n % 2 == 0, 2.0, -2.0)
        with loop:
            parts = {"model": rf.gather(scores, indices=loop.state.prev, axis=before), "own": (scorer, 0.5)}
            options = {"input_type": "log_prob", "length_normalization": False}
            chosen = loop.choice(parts, beam=places, axis=label, **options)
            loop.state.prev = chosen.labels
            loop.end(chosen.labels == 0, include_eos=True)
        return loop.found.tree

    for i, tree in enumerate(trees(list(range(len(limits))))):
        alone = trees([i])[0]
        assert [one.labels for one in tree.hypotheses] == [one.labels for one in alone.hypotheses]
        if tree.steps:
            assert [one.parts for one in tree.hypotheses] == [pytest.approx(one.parts) for one in alone.hypotheses]
        for one in tree.hypotheses if tree.steps else ():
            assert one.score == pytest.approx(one.parts["model"] + 0.5 * one.parts["own"], abs=1e-4)
            assert one.score == pytest.approx(tree.scores[-1, one.place], abs=1e-4)
