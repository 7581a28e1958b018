"""The beam at a step: the tree up to there, its hypotheses, and the line of one of them."""

import json
import re

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.display.beam.view import describe_beam, line, tree_of
from rfnb.display.panel.commands import Dispatcher
from rfnb.display.run.step import describe_step
from rfnb.errors import ViewError
from tests.examples import examples
from tests.search.test_choice import Net, search
from tests.search.test_decoding import step_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def recorded(labels=5, batch=3, beam=4, limit=6, seed=0, **options):
    return search(Net(labels, batch, seed), batch, beam, limit, debug=True, **options)[0].run


def by_hand(tree, step, place):
    """The labels of a hypothesis with all copies, by its parents."""
    found = []
    for at in range(step, -1, -1):
        found.append((int(tree.labels[at, place]), bool(tree.ended[at, place])))
        place = int(tree.parents[at, place])
    return found[::-1]


@examples(40)
@given(
    labels=st.integers(2, 5), batch=st.integers(1, 3), beam=st.integers(1, 4), limit=st.integers(1, 5),
    seed=st.integers(0, 999),
)  # fmt: skip
def test_the_rows_are_the_hypotheses_of_the_step(labels, batch, beam, limit, seed):
    run = recorded(labels, batch, beam, limit, seed)
    for sequence in range(batch):
        tree = tree_of(run, sequence)
        for step in range(run.steps):
            view = describe_beam(tree, step, None, 0)
            last = view["step"]
            assert [row["rank"] for row in view["rows"]] == list(range(1, len(view["rows"]) + 1))
            for row in view["rows"]:
                labels_so_far = by_hand(tree, last, row["place"])
                counted = [label for label, copied in labels_so_far if not copied]
                ended = any(copied for _, copied in labels_so_far) or counted[-1] == 1
                assert row["ended"] == ended
                assert row["text"] == tree.text_of(counted[:-1] if ended else counted)
                before = None if not last else tree.ranks[last - 1, tree.parents[last, row["place"]]]
                assert row["parent"] == before
            json.dumps(view, allow_nan=False)


def test_it_says_why_no_candidate_can_be_kept(tmp_path):
    run = recorded()
    assert describe_beam(tree_of(run, 1), 1, None, 0)["locked"] is None
    loaded = rf.load_run(run.save(tmp_path / "search.rfrun"))
    tree = tree_of(loaded, 1)
    locked = describe_beam(tree, 1, None, 0)["locked"]
    with pytest.raises(rf.errors.SearchError, match=re.escape(locked)):
        tree.keep(1, 2)


def test_only_columns_that_are_not_there_yet_are_sent():
    tree = tree_of(recorded(), 1)
    first, third = describe_beam(tree, 0, None, 0), describe_beam(tree, 2, None, 1)
    assert [column["step"] for column in first["columns"] + third["columns"]] == [0, 1, 2]
    assert first["columns"] + third["columns"] == describe_beam(tree, 2, None, 0)["columns"]
    back = describe_beam(tree, 1, None, 3)
    assert (back["since"], [column["step"] for column in back["columns"]]) == (1, [1])
    short = tree_of(recorded(), 0)  # this sequence is shorter than the run
    assert describe_beam(short, 5, None, 9)["step"] == short.steps - 1


@examples(40)
@given(labels=st.integers(2, 5), beam=st.integers(1, 4), limit=st.integers(1, 6), seed=st.integers(0, 999))
def test_a_line_has_the_prefixes_of_a_hypothesis_and_what_became_of_it(labels, beam, limit, seed):
    tree = tree_of(recorded(labels, 1, beam, limit, seed), 0)
    for step in range(tree.steps):
        for node in tree.nodes(step):
            places = line(tree, {"step": step, "place": node.place})
            assert places[step] == node.place
            for later in range(1, tree.steps):
                if places[later] is not None:
                    assert places[later - 1] == tree.parents[later, places[later]]
            lost = places.index(None) if None in places else tree.steps
            assert lost > step and all(place is None for place in places[lost:])
            if lost < tree.steps:
                assert all(other.parent != places[lost - 1] for other in tree.nodes(lost))
            through = [each for each in tree.hypotheses if each.places[step] == node.place]
            assert places == list(through[0].places) if through else lost < tree.steps or not node.survives


def test_hypotheses_that_do_not_exist_are_errors():
    tree = tree_of(recorded(), 0)
    for step, place in ((0, 9), (9, 0), (-1, 0), (0, -1)):
        with pytest.raises(ViewError, match="no hypothesis"):
            line(tree, {"step": step, "place": place})


def test_other_runs_have_no_tree():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with loop:
        loop.state.n = loop.state.n * 2
    assert tree_of(loop.run, None) is None


def asked(run, command, **args):
    runs = [run]
    answers = Dispatcher(Runs(runs))
    return answers.handle({"id": 1, "command": command, "args": {"run": run.serial, **args}})


class Runs(list):
    """A list of runs."""

    def by_serial(self, serial):
        """The run."""
        return next(run for run in self if run.serial == serial)


def test_the_panel_is_told_of_the_beam_only_if_it_asks():
    run = recorded()
    assert asked(run, "run")["data"]["is_search"] is True
    assert asked(run, "step", step=1, sequence=1)["data"]["beam"] is None
    view = asked(run, "step", step=1, sequence=1, seen=0)["data"]["beam"]
    assert (view["sequence"], len(view["columns"])) == (1, 2)
    wrong = asked(run, "step", step=1, sequence=1, hypothesis={"step": 0, "place": 77}, seen=0)
    assert wrong["status"] == "error" and "place 77" in wrong["error"]


def test_searches_for_steps_of_a_tree():
    run = recorded(seed=3)
    for kind, text in (("best changes", None), ("falls out", "d d d")):
        where = {"kind": kind, "name": None, "line": None, "limit": None, "text": text}
        expected = rf.when.best_changes(batch=0) if text is None else rf.when.falls_out(text, batch=0)
        hits, start = [], 0
        while start is not None:  # a search answers in parts
            part = asked(run, "find", where=[where], start=start, stop=run.steps)["data"]
            hits, start = hits + part["hits"], part["next"]
        assert hits == run.find(expected)


def test_a_recorded_search_of_decode_is_stepped_through_as_that_of_a_loop():
    step, state = step_of(Net(5, 3, 0))
    options = {"beam": 4, "start": 0, "end": 1, "limit": 6, "labels": list("abcde"), "record": True}
    run, loop = rf.search.decode(step, state, **options).run, recorded()
    ours, theirs = (
        asked(each, "step", step=3, sequence=1, hypothesis={"step": 3, "place": 2}, seen=0)["data"]
        for each in (run, loop)
    )
    texts = [[row["text"].replace(" ", "") for row in view["beam"]["rows"]] for view in (ours, theirs)]
    assert texts[0] == texts[1] and ours["beam"]["place"] == 2 and ours["beam"]["locked"] is None
    names = [row["value"]["name"] for row in ours["values"]]
    assert names == ["scores", "state.h", "state.x", "prev", "rows", "state.h", "state.x"]
    made = asked(run, "keep", step=2, candidate=1, sequence=1)["data"]
    assert (made["parent"], made["forked_at"], made["is_search"]) == (run.serial, 2, True)


def test_a_pruned_candidate_is_kept_in_a_fork():
    run = recorded()
    node = tree_of(run, 1).pruned(2, 4)[1]
    made = asked(run, "keep", step=2, candidate=1, sequence=1)["data"]
    assert (made["parent"], made["forked_at"], made["is_search"]) == (run.serial, 2, True)
    fork = next(each for each in rf.runs if each.serial == made["run"])
    last = tree_of(fork, 1).node(2, 3)
    assert (last.text, last.parent) == (node.text, node.parent)
    assert "no pruned candidate" in asked(run, "keep", step=2, candidate=99, sequence=1)["error"]


def test_hypotheses_of_a_search_without_a_batch_are_no_sequences():
    letter, before, beam = (
        rf.Dim(3, name="letter", vocab=["a", "b", "."]),
        rf.Dim(3, name="before"),
        rf.Dim(2, name="beam"),
    )
    table = rf.convert_to_tensor([[0.3, 0.3, 0.4], [0.2, 0.3, 0.5], [0.4, 0.6, 0.0]], dims=[before, letter])
    loop = rf.Loop(max_seq_len=10, debug=True)
    loop.state.prev = rf.full(dims=[beam], fill_value=2, sparse_dim=letter)
    with loop:
        probs = rf.gather(table, indices=loop.state.prev, axis=before)
        chosen = loop.choice(probs, beam=beam, axis=letter, length_normalization=False)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 2, include_eos=False)
    run = loop.run
    assert (run.batch, run.lengths, run.sequence_dim) == (None, None, None)
    facts, step = rf.show(run).data["run"], describe_step(run, 1, seen=0)
    assert (facts["lengths"], step["ended"], step["beam"]["beam"]) == (None, None, 2)
