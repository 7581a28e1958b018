"""Pruned candidates of any rank, and a fork that keeps one of them, are those of a search over dicts."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import LoopError, ParameterError, SearchError
from tests.examples import examples
from tests.search.test_choice import STATE, Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

SIZES = {
    "labels": st.integers(2, 5),
    "batch": st.integers(1, 3),
    "beam": st.integers(1, 5),
    "exponent": st.sampled_from([0.0, 1.0]),
    "seed": st.integers(0, 1000),
}


def recorded(labels, batch, beam, exponent, seed, limit=4, **options):
    net = Net(labels, batch, seed)
    length = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}
    loop, _ = search(net, batch, beam, limit, debug=True, **length, **options)
    return net, loop


def by_hand(net, sequence, beam, limit, exponent, keep=None):
    """Each step's candidates, the best first, as (labels, parent, sum, whether it had ended); the beam is the first.

    keep: (step, label, parent) of the candidate that gets the last place of its step.
    """
    hypotheses, steps = [((), 0.0, False, np.zeros(STATE, "float32"))], []
    for step in range(limit):
        found = []
        for place, (labels, score, ended, h) in enumerate(hypotheses):
            if ended:
                found.append((score * ((step + 1) / len(labels)) ** exponent, (labels, place, score, True, h)))
                continue
            new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
            for label, log_prob in enumerate(log_probs):
                found.append((score + log_prob, ((*labels, label), place, score + log_prob, False, new)))
        ordered = [each for _, each in sorted(found, key=lambda one: -one[0])]
        steps.append([(labels, place, score, ended) for labels, place, score, ended, _ in ordered])
        kept = ordered[:beam]
        if keep is not None and keep[0] == step:
            chosen = next(each for each in ordered if (each[0][-1], each[1]) == keep[1:])
            kept = [*kept[: beam - 1], chosen]
        hypotheses = [(labels, score, labels[-1] == 1, h) for labels, _, score, _, h in kept]
        if all(ended for _, _, ended, _ in hypotheses):
            break
    return steps, hypotheses


@examples(40)
@given(**SIZES, most=st.sampled_from([None, 1, 3, 30]))
def test_pruned_candidates_of_any_rank(labels, batch, beam, exponent, seed, most):
    net, loop = recorded(labels, batch, beam, exponent, seed)
    for tree in loop.found.tree:
        steps, _ = by_hand(net, tree.sequence, beam, 4, exponent)
        for step in range(tree.steps):
            expected = steps[step][beam:][: 8 if most is None else most]
            got = tree.pruned(step, most)
            assert [node.score for node in got] == pytest.approx([score for _, _, score, _ in expected], abs=1e-4)
            assert [node.rank for node in got] == [beam + 1 + i for i in range(len(got))]
            for node in got:
                before = tree.prefix(step - 1, node.parent) if step else ()
                assert node.ended or ((*before, node.label), False) in {(one[0], one[3]) for one in steps[step][beam:]}


@examples(60)
@given(**SIZES, data=st.data())
def test_a_kept_candidate_goes_on_as_a_search_in_which_it_was_kept(labels, batch, beam, exponent, seed, data):
    net, loop = recorded(labels, batch, beam, exponent, seed)
    tree = loop.found.tree[data.draw(st.integers(0, batch - 1))]
    step = data.draw(st.integers(0, tree.steps - 1))
    pruned = [node for node in tree.pruned(step, 30) if not node.ended]
    if not pruned or not tree.alive[step, -1]:
        return
    node = data.draw(st.sampled_from(pruned))
    kept = tree.keep(node) if data.draw(st.booleans()) else tree.keep(step, node.text, node.parent)
    _, expected = by_hand(net, tree.sequence, beam, 4, exponent, (step, node.label, node.parent or 0))
    left = [kept.prefix(kept.steps - 1, place) for place in np.flatnonzero(kept.alive[-1])]
    assert left == [labels for labels, *_ in expected]
    assert kept.scores[-1][kept.alive[-1]] == pytest.approx([score for _, score, *_ in expected], abs=1e-4)
    place = tree.beam - 1
    assert (kept.labels[step, place], kept.parents[step, place]) == (node.label, node.parent or 0)
    assert kept.scores[step, place] == pytest.approx(node.score, abs=1e-5)
    assert kept.run.parent is loop.run and kept.run.forked_at == step
    for other in loop.found.tree:  # the others go on as before
        if other.sequence != tree.sequence:
            assert kept.run.found.nbest(9)[other.sequence] == loop.found.nbest(9)[other.sequence]
    assert all(each.check == "replay agrees" for each in kept.run)
    steps = rf.compare(tree, kept)
    assert steps.step == step and steps.only_b[0].text == kept.prefix_text(kept.prefix(step, place))


def test_by_default_the_parent_is_the_one_with_the_best_score():
    _, loop = recorded(5, 1, 3, 0.0, 3)
    tree = loop.found.tree[0]
    node = tree.pruned(1)[0]
    kept = tree.keep(1, node.label)
    assert kept.parents[1, -1] == node.parent and kept.scores[1, -1] == pytest.approx(node.score)
    again = kept.keep(kept.pruned(2)[0])
    assert again.run.parent is kept.run and again.parents[1, -1] == node.parent


def test_what_cannot_be_kept():
    _, loop = recorded(5, 2, 3, 0.0, 1)
    tree = loop.found.tree[0]
    kept = tree.nodes(1)[0]
    ended = next(node for step in range(tree.steps - 1) for node in tree.nodes(step) if node.ends)
    for wrong, words in [
        ((99, 0), "no such step"),
        ((1, None), "`label` is one label"),
        ((1, "a b"), "`label` is one label"),
        ((1, 77), "no label has this number"),
        ((1, "q"), "does not have this label"),
        ((1, kept.label, kept.parent), "has a place at step 1"),
        ((1, 0, 9), "no hypothesis is at step 0, place 9"),
        ((0, 0, 2), "extend that at place 0"),
        ((ended.step + 1, "c", ended.place), "has ended"),
    ]:
        with pytest.raises(SearchError, match=words):
            tree.keep(*wrong)
    assert next(iter(rf.runs)) is loop.run  # no fork was made


def test_without_a_recorded_run_the_error_says_why():
    net = Net(5, 1, 3)
    found = search(net, 1, 3, 4)[0].found
    with pytest.raises(SearchError, match="was not recorded") as caught:
        found.tree[0].keep(1, "a", 0)
    assert "debug=True" in str(caught.value) and found.tree[0].pruned(1, 9) == []
    for ask in (lambda: found.run, lambda: found.tree[0].run):
        with pytest.raises(SearchError, match="has no run"):
            ask()
    loop = search(net, 1, 3, 4, debug=True)[0]
    with pytest.raises(SearchError, match="other scales"):
        loop.found.rerank(length_normalization_exponent=0.5).tree[0].keep(1, "a", 0)
    found = loop.found
    assert found.run is loop.run
    rf.runs.forget(loop.run.serial)
    loop.run = None
    del loop
    with pytest.raises(SearchError, match="no longer kept"):
        found.tree[0].keep(1, "a", 0)


def test_a_loop_that_reads_what_it_writes_is_not_forked():
    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    count = rf.zeros([])
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        count.raw_tensor.add_(1.0)
        scores = rf.convert_to_tensor([-1.0, -2.0, -3.0], dims=[label]) * count
        loop.state.prev = loop.choice(rf.expand_dim(scores, beam), beam=beam, axis=label, input_type="log_prob").labels
    with pytest.raises((SearchError, LoopError), match="changes something that it reads"):
        loop.found.tree[0].keep(1, 2, 0)


def test_scores_by_scorer_of_candidates():
    net = Net(4, 2, 5)
    beam = rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        scores = rf.log_softmax(logits, axis=net.label)
        chosen = loop.choice(scores * 2.0, beam=beam, axis=net.label, input_type="log_prob", length_normalization=False)
        chosen._hypotheses.asked["part model"] = scores
        loop.state.prev = chosen.labels
    tree = loop.found.tree[1]
    for step in range(3):
        for node in tree.pruned(step):
            before = tree.scores[step - 1, node.parent] if step else 0.0
            assert node.parts["model"] * 2.0 == pytest.approx(node.score - before, abs=1e-5)


@examples(30)
@given(**SIZES, count=st.sampled_from([1, 3, 40]))
def test_kept_candidates_are_those_of_a_replay(labels, batch, beam, exponent, seed, count):
    _, loop = recorded(labels, batch, beam, exponent, seed)
    _, other = recorded(labels, batch, beam, exponent, seed, candidates=count)
    np.testing.assert_array_equal(loop.found.trace.labels, other.found.trace.labels)
    np.testing.assert_array_equal(loop.found.trace.scores, other.found.trace.scores)
    for tree, theirs in zip(loop.found.tree, other.found.tree, strict=True):
        for step in range(tree.steps):
            assert theirs.pruned(step) == tree.pruned(step, count)


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_candidates_that_cannot_be_kept(count):
    with pytest.raises(ParameterError, match="pruned candidates to keep"):
        search(Net(4, 2), 2, 2, 3, candidates=count)


def test_a_recorded_search_draws_and_is_saved_with_its_candidates(tmp_path):
    _, loop = recorded(5, 2, 2, 1.0, 4)
    tree = loop.found.tree[1]
    assert loop.found.trace.pruned is None
    for other in (rf.search.load(loop.found.save(tmp_path / "x.rfbeam")).tree[1], tree.from_json(tree.to_json())):
        for step in range(tree.steps):
            assert [node.label for node in other.pruned(step)] == [node.label for node in tree.pruned(step)] != []
        with pytest.raises(SearchError, match="read from a file"):
            other.keep(1, "a", 0)
    doubts = loop.found.rerank(length_normalization_exponent=0.0).doubts
    assert doubts is not None


def table_search(beam, dims=(), *, several=False, debug=True, **options):
    """A search with a table of scores, over any dims."""
    label, before, width = rf.Dim(4, name="label"), rf.Dim(4, name="before"), rf.Dim(beam, name="beam")
    values = np.random.RandomState(beam).randn(*[dim.get_dim_value() for dim in dims], 4, 4).astype("float32")
    table = rf.convert_to_tensor(values, dims=[*dims, before, label])
    loop = rf.Loop(max_seq_len=3, debug=debug)
    loop.state.prev = rf.zeros([*dims, width], dtype="int64", sparse_dim=label)
    with loop:
        prev = loop.state.prev
        for _ in range(1 + several):
            scores = rf.gather(table, indices=rf.set_sparse_dim(prev, before), axis=before)
            prev = loop.choice(scores, beam=width, axis=label, input_type="logits", **options).labels
        loop.state.prev = prev
    return loop


SEVERAL = (rf.Dim(2, name="outer"), rf.Dim(3, name="inner"))
OPTIONS = [
    {},
    {"random_sample_scale": 1.0},
    {"base_beam_score_scale": 0.5, "length_normalization": False},
    {"custom_score_combine": lambda scores, base: scores * 2 + base},
    {"prob_scale": 0.3},
]


@pytest.mark.parametrize("dims", [(), SEVERAL], ids=["none", "two"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options), "plain"))
def test_any_dims_and_options(dims, options):
    loop = table_search(2, dims, **options)
    for tree in loop.found.tree:
        node = tree.pruned(1)[1]
        kept = tree.keep(node)
        assert (kept.labels[1, 1], kept.parents[1, 1]) == (node.label, node.parent)
        assert kept.scores[1, 1] == pytest.approx(node.score, abs=1e-5)
        assert kept.scores[1, 0] == tree.scores[1, 0] and kept.pruned(1)[0].score == tree.scores[1, 1]
        wanted = {tree.sequence: [tree.prefix(2, one.place) for one in tree.hypotheses]}
        sums = [
            None
            if "random_sample_scale" in options
            else pytest.approx([tree.scores[step, place] for step, place in enumerate(one.places)])
            for one in tree.hypotheses
        ]
        assert tree.trace.again.forced(wanted)[tree.sequence] == sums


def test_searches_in_which_hypotheses_merge_are_not_computed_again():
    tree = table_search(2, blank=0).found.tree[0]
    assert tree.pruned(1, 3) == [] and tree.where([1, 1, 1, 1]).verdict == "over the limit"
    with pytest.raises(SearchError, match="its hypotheses merge"):
        tree.keep(1, 0, 0)
    apart = table_search(2, blank=0, merge=None).found.tree[0]
    node = apart.pruned(1)[0]
    assert apart.keep(node).scores[1, 1] == pytest.approx(node.score)
    assert apart.where([3, 3]).score is None or apart.where([3, 3]).found is not None


def test_steps_with_several_choices_are_not_computed_again():
    tree = table_search(2, several=True).found.tree[0]
    assert tree.pruned(1, 3) == []
    with pytest.raises(SearchError, match="its steps have several choices"):
        tree.keep(1, 0, 0)


def test_a_run_of_which_the_weights_have_changed():
    weight = rf.Parameter([], initial=1.0)
    label, beam = rf.Dim(4, name="label"), rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        scores = rf.cast(rf.range_over_dim(label), "float32") * -weight
        loop.state.prev = loop.choice(rf.expand_dim(scores, beam), beam=beam, axis=label, input_type="log_prob").labels
    tree = loop.found.tree[0]
    before = tree.pruned(1)
    weight.raw_tensor.data.mul_(3.0)
    assert tree.pruned(1, 8) == before  # the run has its own copy of small weights
    assert tree.keep(before[0]).scores[1, -1] == pytest.approx(before[0].score)
