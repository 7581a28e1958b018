"""The file of a recorded search has what it found, and stacks values along its final hypotheses."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import RunFileError, SearchError
from rfnb.trace.run.file import save
from tests.examples import examples
from tests.search.test_search_steps import SIZES, recorded

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


@examples(15)
@given(**SIZES, limit=st.integers(0, 4))
def test_a_loaded_run_has_its_search(labels, batch, beam, exponent, seed, limit, tmp_path_factory):
    _, loop = recorded(labels, batch, beam, exponent, seed, limit)
    run = loop.run
    loaded = rf.load_run(run.save(tmp_path_factory.mktemp("runs") / "search.rfrun"))
    assert loaded.found.nbest(beam) == loop.found.nbest(beam)
    for tree, theirs in zip(loop.found.tree, loaded.found.tree, strict=True):
        np.testing.assert_array_equal(tree.scores, theirs.scores)
        assert all(theirs.pruned(step) == tree.pruned(step) for step in range(tree.steps))
        with pytest.raises(SearchError, match="read from a file"):
            theirs.keep(0, 0)
    if run.steps and run.size.max:
        for name in ("chosen.labels", "logits"):
            for resolve in (True, False):
                a, b = (each.stack(name, resolve=resolve) for each in (run, loaded))
                np.testing.assert_array_equal(a.numpy(), b.copy_transpose(a.dims).numpy())


def test_expressions_are_stacked_along_hypotheses():
    _, loop = recorded(5, 3, 4, 1.0, 1)
    labels = loop.run.stack("chosen.labels")
    for resolve in (True, False):
        expected = loop.run.stack("logits", resolve=resolve)
        found = loop.run.stack("logits + 0", resolve=resolve).copy_transpose(expected.dims)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    found = loop.run.stack("chosen.labels + 0").copy_transpose(labels.dims)
    assert loop.found.beam in found.dims
    np.testing.assert_array_equal(found.numpy(), labels.numpy())


@pytest.mark.parametrize("damage", ["place", "shape", "labels", "kind", "facts"])
def test_a_damaged_search_is_not_read(damage, tmp_path, monkeypatch):
    _, loop = recorded(5, 2, 3, 1.0, 1)
    real_places, real_found = save._lineage, save._found

    def places(each, file):
        array = each.places.copy()
        array[0] = {"place": 99}.get(damage, array[0])
        array = array[:, :, :2] if damage == "shape" else array.astype(float) if damage == "kind" else array
        return real_places(each._replace(places=array), file)

    def found(run, file):
        data = real_found(run, file)
        if damage == "labels":
            data["arrays"].pop("labels")
        return {"facts": 3, "arrays": {}} if damage == "facts" else data

    monkeypatch.setattr(save, "_lineage", places)
    monkeypatch.setattr(save, "_found", found)
    path = loop.run.save(tmp_path / "x.rfrun")
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.load_run(path)


def test_a_run_without_a_search_has_none(tmp_path):
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with loop:
        loop.state.n = loop.state.n * 2
    assert rf.load_run(loop.run.save(tmp_path / "x.rfrun")).found is None
