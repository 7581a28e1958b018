"""A search of `rf.search.decode` that is recorded: other candidates, kept ones, and the scores of references."""

import copy

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import SearchError
from tests.search.test_choice import Net
from tests.search.test_decoding import Cache, step_of
from tests.search.variants.test_constraints import search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

OPTIONS = {"start": 0, "end": "b", "limit": 6, "labels": list("abcde"), "record": True}


def decoded(net, beam=3, **options):
    step, state = step_of(net)
    return rf.search.decode(step, state, beam=beam, **OPTIONS | options)


def in_loop(net, beam=3, **options):
    loop = search(net, beam, 6, {}, debug=True, **options)
    return loop, loop.found


@pytest.mark.parametrize("options", [{}, {"groups": 3}, {"threshold": 2.0}])
def test_what_is_pruned_and_kept_is_that_of_a_recorded_loop(options):
    net = Net(5, 2, 4)
    found, (loop, other) = decoded(net, **options), in_loop(net, **options)
    assert loop.run is not None
    for i, (tree, same) in enumerate(zip(found.tree, other.tree, strict=True)):
        for step in range(tree.steps):
            ours, theirs = ({(x.label, x.parent): x.score for x in each.pruned(step, 12)} for each in (tree, same))
            assert ours == pytest.approx(theirs, abs=1e-4) and len(ours) > 1
        node = tree.pruned(1, 12)[-1]
        kept, expected = tree.keep(node), same.keep(node.step, node.label, node.parent)
        assert [x.labels for x in kept.hypotheses] == [x.labels for x in expected.hypotheses]
        assert [x.score for x in kept.hypotheses] == pytest.approx([x.score for x in expected.hypotheses], abs=1e-4)
        rest = rf.search.Tree(kept.trace, 1 - i).hypotheses
        assert [x.labels for x in rest] == [x.labels for x in found.tree[1 - i].hypotheses]
        by_best = tree.keep(1, node.label), same.keep(1, node.label)
        assert [x.labels for x in by_best[0].hypotheses] == [x.labels for x in by_best[1].hypotheses]


def test_ended_hypotheses_apart():
    net = Net(5, 2, 4)
    found = decoded(net, beam=2, ended="apart")
    other = in_loop(net, beam=4, ended="apart", living=2, end="b")[1]
    for tree, same in zip(found.tree, other.tree, strict=True):
        for label in ("b", "c"):
            node = next((x for x in same.pruned(1, 20) if x.text == label), None)
            if node is None:
                continue
            kept, expected = (each.keep(1, label, node.parent) for each in (tree, same))
            assert [x.labels for x in kept.hypotheses] == [x.labels for x in expected.hypotheses]


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_of_references_are_those_of_a_recorded_loop(beam):
    net = Net(5, 2, 4)
    found, (loop, other) = decoded(net, beam), in_loop(net, beam)
    assert loop.run is not None
    for reference in ("ac", "dea", "", "cccc"):
        for tree, same in zip(found.tree, other.tree, strict=True):
            one, two = tree.where(reference), same.where(reference)
            assert one.verdict == two.verdict != "undecided"
            assert one.score == pytest.approx(two.score, abs=1e-4)
    report = rf.search.report(found, ["ac", "dea"])
    assert report.classes == rf.search.report(other, ["ac", "dea"]).classes


def test_scorers_and_costly_ones_count():
    net = Net(5, 2, 4)
    scorers = {"model": 0.5, "length": 0.2, "presence": rf.search.presence_penalty(0.3)}
    found = decoded(net, 2, scorers=scorers)
    wide = decoded(net, 300, scorers=scorers)
    for tree, all_ in zip(found.tree, wide.tree, strict=True):
        scores = {x.labels: x.score for x in all_.hypotheses if x.complete}
        for labels in list(scores)[5:40:9]:
            assert tree.where(list(labels)).score == pytest.approx(scores[labels], abs=1e-4)


def test_states_that_are_changed_in_place():
    net = Net(5, 2, 4)
    step, state = step_of(net)
    plain = decoded(net)

    def in_place(prev, cache):
        scores, new = step(prev, {"h": cache.h, "x": cache.x})
        cache.h = new["h"]
        return scores, cache

    class Both(Cache):
        def __init__(self, h, x):
            self.h, self.x = h, x

        def reorder_cache(self, rows):
            self.h, self.x = self.h[rows], self.x[rows]

    options = OPTIONS | {"beam": 3, "batch": 2}
    with pytest.raises(SearchError, match=r"copy_state=copy\.deepcopy"):
        rf.search.decode(in_place, Both(state["h"], state["x"]), **options)
    found = rf.search.decode(in_place, Both(state["h"], state["x"]), **options, copy_state=copy.deepcopy)
    assert found.nbest(3) == plain.nbest(3)
    for tree, same in zip(found.tree, plain.tree, strict=True):
        kept, expected = tree.keep(tree.pruned(1)[0]), same.keep(same.pruned(1)[0])
        assert [x.labels for x in kept.hypotheses] == [x.labels for x in expected.hypotheses]


def test_a_state_that_the_caller_changes_later_and_tensors_of_rfnb():
    label, feat, before = rf.Dim(4, name="label"), rf.Dim(3, name="feat"), rf.Dim(4, name="before")
    table = rf.convert_to_tensor(np.random.RandomState(1).randn(4, 4), dims=[before, label])
    state = rf.State(h=rf.ones([rf.Dim(2, name="rows"), feat]))

    def step(prev, state):
        scores = rf.gather(table, indices=rf.set_sparse_dim(prev, before), axis=before)
        return scores * rf.reduce_mean(state.h, axis=feat), state

    found = rf.search.decode(step, state, beam=2, start=0, end=3, limit=4, labels=label, record=True)
    pruned = [node.score for node in found.tree[0].pruned(2)]
    state.h.raw_tensor.zero_()
    assert [node.score for node in found.tree[0].pruned(2, 9)][: len(pruned)] == pytest.approx(pruned)


def test_a_search_that_is_another_one_when_it_runs_again():
    net = Net(5, 2, 4)
    step, state = step_of(net)
    noise = torch.zeros(5)
    found = rf.search.decode(lambda p, s: (step(p, s)[0] + noise, step(p, s)[1]), state, beam=3, **OPTIONS)
    noise[2] = 9.0
    with pytest.raises(SearchError, match="not the same"):
        found.tree[0].keep(2, "c")


def test_a_recorded_search_is_a_run_with_its_tree_and_its_values(tmp_path):
    found = decoded(Net(5, 2, 4), tags=["x", "y"])
    run = found.run
    assert run is rf.runs["decode_steps"] and run.found is found and run.tags == ["x", "y"]
    assert run.steps == max(tree.steps for tree in found.tree)
    rows = run[2].rows.raw_tensor.reshape(2, 3) - torch.tensor([[0], [3]])
    assert rows.tolist() == found.trace.parents[2].tolist()
    assert run[2].prev.labels() == [found.tree[0].label(label) for label in found.trace.labels[2].reshape(-1)]
    scores = run[3].scores.raw_tensor.log_softmax(-1)
    for sequence, tree in enumerate(found.tree[:1]):
        for node in tree.nodes(3):
            before = tree.node(2, node.parent)
            if not (node.ended or before.ends or before.ended):
                gain = scores[3 * sequence + node.parent, node.label]
                assert node.score - before.score == pytest.approx(float(gain), abs=1e-5)
    read = rf.load_run(run.save(tmp_path / "decode.rfrun"))
    assert read.found.nbest(3) == found.nbest(3) and read.tags == ["x", "y"]


def test_a_kept_candidate_has_a_run_of_its_own_and_is_kept_in_others():
    found = decoded(Net(5, 2, 4))
    tree = found.tree[0]
    node = tree.pruned(1, 12)[-1]
    kept = tree.keep(node)
    assert kept.run.parent is found.run and kept.run.forked_at == 1
    again = kept.keep(kept.pruned(3)[0])
    assert again.run.parent is kept.run and again.run.found.tree[0].prefix(1, 2) == kept.prefix(1, 2)
    assert kept.prefix(1, 2)[-1] == node.label


def test_a_fork_goes_on_from_edited_values():
    net = Net(5, 2, 4)
    step, state = step_of(net)
    joined = torch.cat([state["h"], state["x"]], -1)

    def one(prev, both):
        scores, new = step(prev, dict(zip("hx", both.split(state["h"].shape[1], -1), strict=True)))
        return scores, torch.cat([new["h"], new["x"]], -1)

    run = rf.search.decode(one, joined, beam=3, **OPTIONS).run
    same, other = run.fork(2), run.fork(2, state=torch.zeros(6, joined.shape[1]))
    assert not rf.compare(run, same).differing
    expected = one(run[1].prev.raw_tensor, torch.zeros(6, joined.shape[1]))[0]
    torch.testing.assert_close(other[2].scores.raw_tensor, expected)
    assert run[2].scores.raw_tensor.ne(expected).any()  # the run itself is as it was
