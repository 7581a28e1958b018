"""Pruned candidates where places do not go to the best: by hand, kept or by replay, and forks that keep one of them."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import SearchError
from tests.examples import examples
from tests.search.alignments import prefix_search
from tests.search.test_choice import Net, search
from tests.search.test_frames import Transducer, search as search_frames
from tests.search.variants.test_candidates_of_labels import PHONES, TONES, searched

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

OPTIONS = {
    "apart": {"ended": "apart"},
    "patience": {"ended": "apart", "patience": 1.0, "living": 1},
    "groups": {"groups": 2, "diversity": 1.0},
    "threshold": {"threshold": 1.0},
    "own": {"keep_beams": True},
    "offset": {"length_normalization_offset": 5.0},
}
COUNT = 7


def by_hand(net, tree, step, options, exponent):
    """The candidates of a step, the best first, as (compared, labels, parent, score, copy)."""
    found, offset = [], options.get("length_normalization_offset", 0.0)
    if not step:
        groups = options.get("groups", 1)
        before = [((), place, 0.0, False) for place in range(0, tree.beam, tree.beam // groups)]
    else:
        before = [
            (tree.prefix(step - 1, place), place, float(tree.scores[step - 1, place]), done)
            for place, done in enumerate(tree.ended[step - 1] | tree.ends[step - 1])
            if tree.alive[step - 1, place]
        ]
    for labels, parent, score, done in before:
        h = np.zeros(4, "float32")
        for label in [0, *labels[:-1]] if labels else []:
            h, _ = net.step(h, label, tree.sequence)
        log_probs = [0.0] if done else net.step(h, labels[-1] if labels else 0, tree.sequence)[1].tolist()
        for label, log_prob in enumerate(log_probs):
            whole = labels if done else (*labels, label)
            total = score + log_prob
            by = ((offset + len(whole)) / (offset + 1)) ** exponent
            found.append((total / by, whole, parent, total, done))
    return sorted(found, key=lambda one: (-one[0], one[2]))


@pytest.mark.slow
@examples(60)
@given(
    name=st.sampled_from(sorted(OPTIONS)), labels=st.integers(2, 5), batch=st.integers(1, 3),
    size=st.sampled_from([2, 4]), exponent=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 1000),
    recorded=st.booleans(),
)  # fmt: skip
def test_they_are_the_best_of_those_without_a_place(name, labels, batch, size, exponent, seed, recorded):
    net, options = Net(labels, batch, seed), OPTIONS[name]
    length = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}
    how = {"debug": True} if recorded else {"candidates": COUNT}
    found = search(net, batch, size, 4, **options, **length)[0].found
    kept = search(net, batch, size, 4, **options, **length, **how)[0].found
    np.testing.assert_array_equal(found.trace.scores, kept.trace.scores)
    np.testing.assert_array_equal(found.trace.labels, kept.trace.labels)
    for tree in kept.tree:
        for step in range(tree.steps):
            stopped = (name == "patience") & (np.arange(size) < 1)  # the search stops for those that go on
            places = np.flatnonzero(tree.alive[step] | stopped)
            own = {(tree.prefix(step, place), int(tree.parents[step, place])) for place in places}
            left = [one for one in by_hand(net, tree, step, options, exponent) if one[1:3] not in own]
            got = tree.pruned(step, COUNT)
            expected = left[:COUNT]
            assert [node.compared for node in got] == pytest.approx([one[0] for one in expected], abs=1e-4)
            assert [node.score for node in got] == pytest.approx([one[3] for one in expected], abs=1e-4)
            for node in got:
                before = tree.prefix(step - 1, node.parent) if step else ()
                whole = before if node.ended else (*before, node.label)
                assert whole in {one[1] for one in left}


@examples(30)
@given(
    name=st.sampled_from(sorted(OPTIONS)), seed=st.integers(0, 1000), size=st.sampled_from([2, 4]), data=st.data()
)  # fmt: skip
def test_one_that_is_kept_takes_a_place_that_is_for_it(name, seed, size, data):
    loop, _ = search(Net(4, 2, seed), 2, size, 4, debug=True, **OPTIONS[name])
    tree = loop.found.tree[data.draw(st.integers(0, 1))]
    step = data.draw(st.integers(0, tree.steps - 1))
    pruned = [node for node in tree.pruned(step, 30) if not node.ended]
    if not pruned:
        return
    node = data.draw(st.sampled_from(pruned))
    kept = tree.keep(node)
    changed = (kept.parents[step] != tree.parents[step]) | (kept.labels[step] != tree.labels[step])
    places = np.flatnonzero(changed | (kept.scores[step] != tree.scores[step]))
    assert len(places) == 1
    place = int(places[0])
    parent = node.parent if step else place // (size // 2) * (size // 2) if name == "groups" else 0
    assert (kept.labels[step, place], kept.parents[step, place]) == (node.label, parent)
    assert kept.scores[step, place] == pytest.approx(node.score, abs=1e-5)
    living = {"apart": size // 2, "patience": 1}.get(name)
    if living is not None:
        assert (place < living) == (not node.ends)
    if name == "groups":
        assert place // (size // 2) == parent // (size // 2)
    assert all(each.check == "replay agrees" for each in kept.run)


@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_the_offset_of_the_length_counts_in_scores_of_references(exponent):
    given = {"length_normalization_exponent": exponent, "length_normalization_offset": 5.0}
    tree = search(Net(4, 1, 5), 1, 3, 4, debug=True, **given)[0].found.tree[0]
    assert tree.end_labels == {1}
    other = search(Net(4, 1, 5), 1, 100, 4, **given)[0].found.tree[0]
    own = {one.labels for one in tree.hypotheses}
    lost = [one for one in other.hypotheses if one.complete and one.labels not in own]
    assert len(lost) > 20
    for one in lost:
        assert tree.where(list(one.labels)).score == pytest.approx(one.score, abs=1e-5)


def test_a_reference_that_loses_its_place_by_a_threshold_had_a_score():
    tree = search(Net(5, 1, 3), 1, 4, 4, threshold=0.1)[0].found.tree[0]
    lost = [label for label in range(2, 5) if label not in tree.labels[0][tree.alive[0]]]
    assert lost and all(tree.where([label]).fall.reason == "not recorded" for label in lost)


@examples(25)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3), labels=st.integers(1, 3), beam=st.integers(1, 4),
    merge=st.sampled_from(["sum", "max"]), label_loop=st.booleans(), seed=st.integers(0, 1000),
)  # fmt: skip
def test_with_a_blank_they_are_those_of_a_prefix_search(lengths, labels, beam, merge, label_loop, seed):
    net = Transducer(lengths, labels, seed)
    options = {"merge": merge, "label_loop": label_loop}
    found = search_frames(net, beam, 0, **options, candidates=COUNT)[0].found
    assert found.nbest(beam) == search_frames(net, beam, 0, **options)[0].found.nbest(beam)
    for tree, length in zip(found.tree, lengths, strict=True):
        for step in range(length):
            wanted = prefix_search(
                net.alone(tree.sequence), step + 1, labels, beam, 0, merge, label_loop, last=beam + COUNT
            )
            got = [(tree.prefix(step, node.place), node.score) for node in tree.nodes(step)]
            for node in tree.pruned(step):
                before = tree.prefix(step - 1, node.parent) if step else ()
                got.append((before if node.label == 0 else (*before, node.label), node.score))
            assert [score for _, score in got] == pytest.approx([score for _, score in wanted], abs=1e-4)
            assert {labels for labels, _ in got} == {labels for labels, _ in wanted}


@examples(20)
@given(
    seed=st.integers(0, 1000), batch=st.integers(1, 3), beam=st.integers(1, 4), limit=st.integers(0, 3),
    how=st.sampled_from(["choices", "sources"]), count=st.integers(1, 5),
)  # fmt: skip
def test_of_several_choices_they_have_all_labels(seed, batch, beam, limit, how, count):
    found, _ = searched(seed, batch, beam, limit, how, candidates=count)
    wide, _ = searched(seed, batch, beam + count, min(limit, 1), how, between=beam + 1)
    for tree, other in zip(found.tree, wide.tree, strict=True):
        if tree.steps:  # the first step of a wider beam has the same candidates
            expected = [(node.text, node.score) for node in other.nodes(0)][beam:]
            got = [(node.text, node.score) for node in tree.pruned(0)]
            assert [text for text, _ in got] == [text for text, _ in expected]
            assert [score for _, score in got] == pytest.approx([score for _, score in expected], abs=1e-5)
        for step in range(tree.steps):
            own = {(tree.label(node.label), node.parent) for node in tree.nodes(step) if not node.ended}
            for node in tree.pruned(step):
                phone, tone = node.text.rsplit("/", 1)
                assert node.ended or (phone in PHONES and tone in TONES and (node.text, node.parent) not in own)
                assert node.compared <= min(kept.compared for kept in tree.nodes(step)) + 1e-5
    again = rf.search.Tree.from_json(json.loads(json.dumps(found.tree[0].to_json())))
    assert [node.text for node in again.pruned(0)] == [node.text for node in found.tree[0].pruned(0)]


def test_parts_of_two_choices_add_up_for_candidates_too():
    label, beam, before = rf.Dim(4, name="label"), rf.Dim(2, name="beam"), rf.Dim(4, name="before")
    random = np.random.RandomState(3)
    tables = [rf.convert_to_tensor(random.randn(4, 4).astype("float32"), dims=[before, label]) for _ in range(3)]
    loop = rf.Loop(max_seq_len=3)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        options = {"beam": beam, "axis": label, "input_type": "log_prob", "length_normalization": False}
        a, b, c = (rf.gather(table, indices=loop.state.prev, axis=before) for table in tables)
        first = loop.choice({"model": a, "once": b}, **options, beam_size=3)
        second = loop.choice({"model": (first.follow(c), 0.5)}, **options, candidates=4)
        loop.state.prev = second.labels
    tree = loop.found.tree[0]
    seen = 0
    for step in range(3):
        for node in [*tree.nodes(step), *tree.pruned(step)]:
            base = tree.scores[step - 1, node.parent] if step else 0.0
            seen += 1
            assert set(node.parts) == {"model", "once"}
            first_label, second_label = (int(part) for part in node.text.split("/"))
            prev = int(tree.label(tree.labels[step - 1, node.parent]).split("/")[1]) if step else 0
            a, b, c = (table.raw_tensor[prev].tolist() for table in tables)
            assert node.parts["once"] == pytest.approx(b[first_label], abs=1e-5)
            total = a[first_label] + b[first_label] + 0.5 * c[second_label]
            assert node.score - base == pytest.approx(total, abs=1e-4)
    assert seen > 12


def test_a_search_that_merges_says_why_none_is_kept():
    loop, _ = search_frames(Transducer([4], 3, 1), 2, 0, debug=True)
    with pytest.raises(SearchError, match="its hypotheses merge"):
        loop.found.tree[0].keep(1, 0, 0)


@pytest.mark.parametrize("how", [{"debug": True}, {"candidates": 8}])
@pytest.mark.parametrize("name", ["apart", "groups", "threshold"])
def test_their_parts_add_up(name, how):
    net, beam = Net(4, 2, 5), rf.Dim(4, name="beam")
    options = OPTIONS[name] | ({"end": 1} if name == "apart" else {})
    scales = {"model": 0.7, "lm": 0.4, "length": 0.1}
    loop = rf.Loop(max_seq_len=4, debug="debug" in how)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        parts = {"model": (rf.log_softmax(logits, axis=net.label), 0.7), "lm": (-logits * logits, 0.4), "length": 0.1}
        chosen = loop.choice(
            parts, beam=beam, axis=net.label, input_type="log_prob", length_normalization=False,
            candidates=how.get("candidates", 0), **options,
        )  # fmt: skip
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 1, include_eos=False)
    seen = 0
    for tree in loop.found.tree:
        for step in range(1, tree.steps):
            for node in tree.pruned(step):
                seen += not node.ended
                total = tree.scores[step - 1, node.parent] + sum(scales[part] * x for part, x in node.parts.items())
                assert set(node.parts) == set(scales) and node.score == pytest.approx(total, abs=1e-4)
    assert seen > 4
