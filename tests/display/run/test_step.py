"""A step of one hypothesis: its states and values, and those of its parent, are the entries along the beam."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.display.beam.view import tree_of
from rfnb.display.panel.paused import edited
from rfnb.display.run.step import choose, describe_step
from tests.examples import examples
from tests.search.test_choice import Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def recorded(batch=3, beam=4, limit=6, seed=0):
    return search(Net(5, batch, seed), batch, beam, limit, debug=True)[0].run


def numbers(view):
    return [view["stats"][name] for name in ("min", "max")]


def of(value, run, sequence, place):
    """The entries of a hypothesis of a sequence."""
    others = [dim for dim in value.dims if dim.name not in ("beam", rf.batch_dim.name)]
    beam = next(dim for dim in value.dims if dim.name == "beam")
    return value.copy_transpose([rf.batch_dim, beam, *others]).raw_tensor.numpy()[sequence, place]


@pytest.mark.slow
@examples(25)
@given(batch=st.integers(1, 3), beam=st.integers(1, 4), seed=st.integers(0, 999))
def test_values_are_those_of_the_hypothesis(batch, beam, seed):
    run = recorded(batch, beam, 4, seed)
    for sequence in range(batch):
        tree = tree_of(run, sequence)
        for step in range(tree.steps):
            for node in tree.nodes(step):
                at = {"step": step, "place": node.place}
                view = describe_step(run, step, sequence, hypothesis=at, seen=0)
                states = {row["name"]: row for row in view["states"]}
                values = {row["value"]["name"]: row["value"] for row in view["values"]}
                assert view["beam"]["place"] == node.place
                if node.ended:
                    assert values["logits"]["text"] == states["h"]["after"]["text"] == "ended"
                    continue
                parent = int(tree.parents[step, node.place])
                after, before = (of(each.h, run, sequence, place) for each, place in
                                 ((run[step].after, node.place), (run[step].before, parent)))  # fmt: skip
                logits = of(run[step].logits, run, sequence, parent)
                for shown, raw in ((states["h"]["after"], after), (states["h"]["before"], before),
                                   (values["logits"], logits)):  # fmt: skip
                    assert numbers(shown) == pytest.approx([raw.min(), raw.max()], rel=1e-3)
                assert states["h"]["change"] == pytest.approx(np.abs(after - before).max(), rel=1e-3)
                assert values["chosen.labels"]["text"] == node.text


def test_a_hypothesis_is_followed_to_other_steps():
    run = recorded()
    tree = tree_of(run, 1)
    best = tree.best
    for step, place in enumerate(best.places):
        view = describe_step(run, step, 1, hypothesis={"step": 2, "place": best.places[2]}, seen=9)
        assert view["beam"]["place"] == place
    dead = next(node for step in range(tree.steps - 1) for node in tree.nodes(step) if not node.survives)
    at = {"step": dead.step, "place": dead.place}
    views = [describe_step(run, step, 1, hypothesis=at, seen=9) for step in range(tree.steps)]
    lost = views[0]["beam"]["lost"]
    assert lost is not None and lost > dead.step
    dims = [{dim["name"] for dim in view["states"][1]["after"]["dims"]} for view in views]
    assert ["beam" in each for each in dims] == [step >= lost for step in range(tree.steps)]


def test_watches_and_edits_are_of_the_hypothesis():
    run = recorded()
    tree, at = tree_of(run, 1), {"step": 2, "place": 1}
    view = describe_step(run, 2, 1, hypothesis=at, watch=["after.h", "h", "logits * 2", "before.h"])
    parent = int(tree.parents[2, 1])
    after, logits, before = of(run[2].after.h, run, 1, 1), of(run[2].logits, run, 1, parent), run[2].before.h
    for row, raw in zip(view["watches"], (after, after, logits * 2, of(before, run, 1, parent)), strict=True):
        assert numbers(row["value"]) == pytest.approx([raw.min(), raw.max()], rel=1e-3)
    before = run[2].before.prev
    new = edited(before, "d", choose(run, 1, at).in_step(2))
    changed = np.argwhere(new.raw_tensor.numpy() != before.raw_tensor.numpy())
    assert of(new, run, 1, parent) == 3 and len(changed) <= 1


def test_a_run_from_a_file_shows_hypotheses_too(tmp_path):
    run = recorded()
    run.save(tmp_path / "search.rfrun")
    loaded = rf.load_run(tmp_path / "search.rfrun")
    at = {"step": 3, "place": 1}
    for step in (2, 3):
        ours, theirs = (describe_step(each, step, 1, hypothesis=at, seen=0) for each in (run, loaded))
        texts = [[row["after"]["text"] for row in view["states"]] for view in (ours, theirs)]
        assert texts[0] == texts[1]
        assert ours["beam"]["rows"] == theirs["beam"]["rows"] and theirs["beam"]["place"] is not None
