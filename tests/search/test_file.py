"""A file of a search is read as untrusted data, and gives the same search."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import rfnb as rf
from rfnb.errors import RunFileError
from rfnb.search.file import KEY
from rfnb.search.result import Found
from tests.search.dict_search import random_model, traced

SCALES = {"model": 1.0, "lm": 0.4}
WORDS = ["</s>", "L", "AE", "\ud800\x1b<script>"]


def search(beam=3, limit=4, batch=2, **options):
    models = [random_model(i, 4, ("model", "lm")) for i in range(batch)]
    return Found(traced(models, beam, limit, SCALES, **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("search")


@given(
    beam=st.integers(1, 5),
    limit=st.integers(0, 5),
    batch=st.integers(0, 3),
    candidates=st.sampled_from([None, 0, 3]),
    vocab=st.sampled_from([None, WORDS]),
    ends=st.booleans(),
)
def test_a_search_is_the_same_again(folder, beam, limit, batch, candidates, vocab, ends):
    tags = [f"{i}\u202e" for i in range(batch)]
    found = search(beam, limit, batch, candidates=candidates, vocab=vocab, ends=ends, tags=tags)
    again = rf.search.load(found.save(folder / "x.rfbeam"))
    assert repr(again) == repr(found) and len(again) == batch
    for mine, theirs in zip(found.tree, again.tree, strict=True):
        assert mine.table() == theirs.table() and mine.hypotheses == theirs.hypotheses
        assert mine.where([1, 2]).because == theirs.where([1, 2]).because
    np.testing.assert_array_equal(again.scores, found.scores)


def test_blank_and_joins_are_kept(tmp_path):
    time, axis = rf.Dim(None, name="time"), rf.Dim(3, name="axis", vocab=["a", "-", "b"])
    arrays = [np.random.RandomState(n).randn(n, 3).astype("float32") for n in (7, 0, 4)]
    log_probs = rf.log_softmax(rf.convert_to_tensor(arrays, dims=[rf.batch_dim, time, axis]), axis=axis)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=1, beam=4)
    again = rf.search.load(found.save(tmp_path / "x.rfbeam"))
    assert again.nbest() == found.nbest()
    for mine, theirs in zip(found.tree, again.tree, strict=True):
        assert mine.table() == theirs.table() and mine.hypotheses == theirs.hypotheses
    assert any(row["joined"] is not None for row in again.tree[0].table())


def test_padding_may_contain_anything(tmp_path):
    found = search(batch=2)
    found.trace.parents[:, :, :][np.arange(len(found.trace.parents))[:, None] >= found.trace.steps] = -7
    found.save(tmp_path / "x.rfbeam")
    assert rf.search.load(tmp_path / "x.rfbeam").nbest() == found.nbest()


def test_an_existing_file_stays_if_writing_fails(tmp_path, monkeypatch):
    path = search().save(tmp_path / "x.rfbeam")
    before = path.read_bytes()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *args: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(RunFileError, match="disk full"):
        search(batch=1).save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["x.npz", "x", "no/such/x.rfbeam"])
def test_a_path_that_cannot_be_written(tmp_path, name):
    with pytest.raises(RunFileError, match="save"):
        search().save(tmp_path / name)


def rewritten(path, change, facts=None):
    with safe_open(path, framework="np") as file:
        data = json.loads(file.metadata()[KEY])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(arrays, data)
    save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, path, {KEY: facts or json.dumps(data)})


HOSTILE = {
    "another version": lambda a, d: d.update(format=2),
    "no format": lambda a, d: d.pop("format"),
    "a missing array": lambda a, d: a.pop("parents"),
    "a parent outside of the beam": lambda a, d: a["parents"].fill(3),
    "a negative parent": lambda a, d: a["parents"].fill(-1),
    "floats as labels": lambda a, d: a.update(labels=a["labels"].astype("float32")),
    "labels without an axis": lambda a, d: a.update(labels=a["labels"][0]),
    "another shape": lambda a, d: a.update(scores=a["scores"][:, :1]),
    "an empty array that seems huge": lambda a, d: a.update(labels=np.zeros((0, 0, 2**40), "int8")),
    "too many steps": lambda a, d: a["steps"].fill(99),
    "too long": lambda a, d: a["lengths"].fill(99),
    "too few tags": lambda a, d: d.update(tags=["a"]),
    "tags that are not strings": lambda a, d: d.update(tags=[1, 2]),
    "a label that is not a string": lambda a, d: d.update(labels=[None]),
    "a role of a missing label": lambda a, d: d.update(roles={"eos_label": 50}),
    "an unknown role": lambda a, d: d.update(roles={"__class__": 0}),
    "scales that are not numbers": lambda a, d: d.update(scales={"lm": "x"}),
    "a scale that is infinite": lambda a, d: d.update(scales={"lm": float("inf")}),
    "a part without an array": lambda a, d: d.update(parts=["model", "lm", "more"]),
    "pruned candidates of another shape": lambda a, d: a.update({"pruned labels": a["pruned labels"][:1]}),
    "a pruned parent outside of the beam": lambda a, d: a["pruned parents"].fill(9),
    "a list": lambda a, d: d.clear(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path, name):
    path = search(candidates=2, vocab=WORDS, tags=["a", "b"]).save(tmp_path / "x.rfbeam")
    rewritten(path, HOSTILE[name])
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.search.load(path)


@pytest.mark.parametrize("content", [b"", b"no search", b"\x80\x04N.", b"PK\x03\x04" + b"\0" * 50, b"\xff" * 100])
def test_another_file_is_refused(tmp_path, content):
    path = tmp_path / "x.rfbeam"
    path.write_bytes(content)
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.search.load(path)


def test_each_shortened_file_is_refused(tmp_path):
    path = search().save(tmp_path / "x.rfbeam")
    content = path.read_bytes()
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(RunFileError):
            rf.search.load(path)


def test_metadata_that_is_not_a_search(tmp_path):
    path = search().save(tmp_path / "x.rfbeam")
    for facts in ("[]", "{", "null", "[" * 10_000):
        rewritten(path, lambda a, d: None, facts)
        with pytest.raises(RunFileError, match="cannot be read"):
            rf.search.load(path)
        search().save(path)
    save_file({"x": np.zeros(2)}, path)
    with pytest.raises(RunFileError, match="arrays, but not a search"):
        rf.search.load(path)


def test_a_missing_file_names_its_neighbours(tmp_path):
    search().save(tmp_path / "g2p.rfbeam")
    with pytest.raises(RunFileError, match="does not exist") as caught:
        rf.search.load(tmp_path / "g3p.rfbeam")
    assert "g2p.rfbeam" in str(caught.value)
