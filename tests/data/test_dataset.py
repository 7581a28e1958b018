"""Sequences of HDF files: those that the reference wrote, ours, and files that are not as they should be."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DataError

h5py = pytest.importorskip("h5py")
GOLDEN = Path(__file__).parents[1] / "golden/checkpoint/hdf"
LENGTHS = [4, 2, 3, 1, 5]


def test_a_file_of_the_reference():
    """Its writer wrote five sequences of a fixed seed: features, and two streams of labels with their own lengths."""
    data = rf.hdf(GOLDEN / "simple.hdf")
    random = np.random.RandomState(5)
    assert data.tags == [f"corpus/seq-{i}" for i in range(5)] and data.lengths().tolist() == LENGTHS
    assert data.lengths("classes").tolist() == [3, 1, 2, 1, 4]
    for i, length in enumerate(LENGTHS):
        sequence = data[i]
        np.testing.assert_array_equal(sequence["data"], random.randn(1, length, 3).astype("float32")[0])
        np.testing.assert_array_equal(sequence["classes"], random.randint(0, 6, (1, max(length - 1, 1)))[0])
        np.testing.assert_array_equal(sequence["align"], random.randint(0, 4, (1, length))[0])
        assert sequence["seq_tag"] == f"corpus/seq-{i}"
    sparse = {"sparse": True}
    assert data.extern_data() == {"data": {"dim": 3}, "align": {"dim": 4, **sparse}, "classes": {"dim": 6, **sparse}}
    assert set(data["corpus/seq-2"]) == {"seq_tag", "data", "classes", "align"}


def test_a_sparse_input_with_labels():
    data = rf.hdf(GOLDEN / "sparse.hdf")
    assert data.extern_data() == {"data": {"dim": 7, "sparse": True}} and data.streams["data"].labels == tuple(
        "abcdefg"
    )
    assert data[0]["data"].tolist() == [3, 5, 0, 0]


def test_several_files_and_some_streams():
    data = rf.hdf([GOLDEN / "simple.hdf", GOLDEN / "simple.hdf"], keys=["data", "align"])
    assert len(data) == 10 and data.lengths().tolist() == LENGTHS * 2
    np.testing.assert_array_equal(data[7]["data"], data[2]["data"])
    assert set(data[-1]) == {"seq_tag", "data", "align"} and len(list(data)) == 10
    with pytest.raises(IndexError):
        data[10]
    with pytest.raises(DataError, match="did you mean 'classes'"):
        rf.hdf(GOLDEN / "simple.hdf", keys=["class"])
    with pytest.raises(DataError, match="has other streams than"):
        rf.hdf([GOLDEN / "simple.hdf", GOLDEN / "sparse.hdf"])
    with pytest.raises(DataError, match=r"no sequence with this tag"):
        data["corpus/seq-9"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_of_a_net_dict(workers):
    data = rf.hdf(GOLDEN / "simple.hdf")
    extern = rf.ExternData(data.extern_data())
    batches = rf.FrameBatches(data.lengths(), max_frames=8, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_sampler=batches, collate_fn=list, num_workers=workers)
    seen = []
    for samples in loader:
        keys = {key: ([s[key] for s in samples], [len(s[key]) for s in samples]) for key in ("data", "classes")}
        longest = max(keys["data"][1])
        padded = np.stack([np.pad(x, ((0, longest - len(x)), (0, 0))) for x in keys["data"][0]])
        assert extern.tensors({"data": (padded, keys["data"][1])})["data"].dims[1].is_dynamic()
        seen += [s["seq_tag"] for s in samples]
    assert sorted(seen) == data.tags
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again[1]["data"], data[1]["data"])
    data.close()
    assert len(data[0]["data"]) == 4


def changed(path, **changes):
    """The file of the reference with other data sets."""
    with h5py.File(GOLDEN / "simple.hdf") as old, h5py.File(path, "w") as new:
        new.attrs.update(dict(old.attrs))
        for name in old:
            old.copy(name, new)
        for name, value in changes.items():
            del new[name]
            if value is not None:
                new[name] = value
    return path


LENGTH = np.array([[4, 4, 3], [2, 2, 1], [3, 3, 2], [1, 1, 1], [5, 5, 4]], "int32")


def other_lengths(i, column, n):
    lengths = LENGTH.copy()
    lengths[i, column] = n
    return lengths


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"inputs": None}, "an HDF file of another kind"),
        ({"seqTags": None}, "an HDF file of another kind"),
        ({"seqLengths": other_lengths(2, 0, 9)}, r"sequence 3 \('corpus/seq-3'\) does not fit into 'data'"),
        ({"seqLengths": other_lengths(4, 0, 4)}, r"lengths of 'data' do not add up\n.*14 frames after sequence 4"),
        ({"seqLengths": other_lengths(1, 2, -1)}, r"sequence 1 .* does not fit into 'classes'\n.*-1 frames"),
        ({"seqLengths": LENGTH[:4]}, "tags and lengths differ"),
        ({"seqLengths": LENGTH.astype("float32")}, "tags and lengths differ"),
        ({"seqLengths": np.zeros((5, 0), "int32")}, "tags and lengths differ"),
        ({"seqLengths": np.full((5, 3), 2**31 - 1, "int64") * 2**32}, "sequence 0"),
    ],
)
def test_bad_files_name_file_sequence_and_what_was_expected(changes, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        rf.hdf(changed(tmp_path / "bad.hdf", **changes))
    assert "bad.hdf" in str(caught.value) and caught.value.expected


def alignments(path, lengths, streams, sizes, **data):
    """A file without an input."""
    with h5py.File(path, "w") as file:
        file["seqLengths"] = np.array(lengths, "int32")
        file["seqTags"] = np.array([b"s0", b"s1"], dtype="S6")
        for name, array in {**{f"targets/data/{name}": x for name, x in streams.items()}, **data}.items():
            file[name] = array
        file.require_group("targets/size").attrs.update({name: [size, 1] for name, size in sizes.items()})
    return path


A, C = np.arange(5, dtype="int32"), np.arange(7, dtype="int32")


@pytest.mark.parametrize("lengths", [[2, 3], [[2], [3]]])
def test_targets_only(lengths, tmp_path):
    data = rf.hdf(alignments(tmp_path / "a.hdf", lengths, {"classes": A}, {"classes": 9}))
    assert [sequence["classes"].tolist() for sequence in data] == [[0, 1], [2, 3, 4]]
    assert data.lengths().tolist() == [2, 3] and set(data["s1"]) == {"seq_tag", "classes"}
    assert data.extern_data() == {"classes": {"dim": 9, "sparse": True}}
    assert list(rf.FrameBatches(data.lengths(), max_frames=9, shuffle=False)) == [[0, 1]]
    extern = rf.ExternData(data.extern_data())
    assert extern.tensors({"classes": (A[None, :3], [3])})["classes"].sparse_dim.dimension == 9


def test_labels_without_a_number_are_shown_without_one(tmp_path):
    path = alignments(tmp_path / "a.hdf", [[2], [3]], {"classes": A}, {"classes": 9})
    assert "classes: labels 9" in repr(rf.hdf(path))
    with h5py.File(path, "r+") as file:
        del file["targets/size"]
    assert repr(rf.hdf(path)) == "<HdfDataset: 2 sequences, classes: labels>"


def test_two_targets_have_a_length_each(tmp_path):
    sizes = {"align": 9, "classes": 9}
    data = rf.hdf(alignments(tmp_path / "a.hdf", [[2, 3], [3, 4]], {"align": A, "classes": C}, sizes))
    assert data[1]["align"].tolist() == [2, 3, 4] and data[1]["classes"].tolist() == [3, 4, 5, 6]
    for lengths in ([[0, 2, 3], [0, 3, 4]], [[2], [3]], [2, 3]):
        with pytest.raises(DataError, match="of another kind"):
            rf.hdf(alignments(tmp_path / "b.hdf", lengths, {"align": A, "classes": C}, sizes))


def test_a_name_with_a_size_and_without_data(tmp_path):
    frames = np.zeros((5, 3), "float32")
    for name, lengths in {"no lengths": [[2, 2], [3, 3]], "lengths": [[2, 3, 2], [3, 2, 3]]}.items():
        sizes = {"align": 4, "classes": 9}
        data = rf.hdf(alignments(tmp_path / name, lengths, {"classes": A}, sizes, inputs=frames))
        assert set(data.streams) == {"data", "classes"}
        assert [sequence["classes"].tolist() for sequence in data] == [[0, 1], [2, 3, 4]]
    data = rf.hdf(alignments(tmp_path / "targets", [[3, 2], [2, 3]], {"classes": A}, {"align": 4, "classes": 9}))
    assert data[0]["classes"].tolist() == [0, 1]


def test_names_end_at_nul(tmp_path):
    path = changed(tmp_path / "nul.hdf", seqTags=np.array([f"seq{i}\0\0rest".encode() for i in range(5)], dtype="S16"))
    assert rf.hdf(path).tags == [f"seq{i}" for i in range(5)]
    assert rf.hdf(path)["seq3"]["classes"].tolist() == rf.hdf(path)[3]["classes"].tolist()


def test_a_target_that_is_no_array(tmp_path):
    path = alignments(tmp_path / "a.hdf", [2, 3], {}, {})
    with pytest.raises(DataError, match="of another kind"):
        rf.hdf(path)
    with h5py.File(path, "a") as file:
        file.create_group("targets/data/classes")
    with pytest.raises(DataError, match="cannot be read"):
        rf.hdf(path)


def test_files_that_are_cut_short_or_of_another_kind(tmp_path):
    whole = (GOLDEN / "simple.hdf").read_bytes()
    for size in (0, 7, 100, 5000, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.hdf").write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"cut.hdf cannot be read"):
            list(rf.hdf(tmp_path / "cut.hdf"))
    (tmp_path / "text.hdf").write_text("words")
    for path, message in ((tmp_path / "text.hdf", "cannot be read"), (tmp_path / "none.hdf", "does not exist")):
        with pytest.raises(DataError, match=message):
            rf.hdf(path)
    with pytest.raises(DataError, match="there is no file"):
        rf.hdf([])


def test_without_h5py_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(DataError, match=r"pip install \"rfnb\[hdf\]\""):
        rf.hdf(GOLDEN / "simple.hdf")
    with pytest.raises(DataError, match=r"pip install"):
        rf.HdfWriter("x.hdf", dim=3)
    with pytest.raises(rf.errors.CheckpointError, match="pip install"):
        rf.open_checkpoint(GOLDEN / "simple.hdf")


def test_an_hdf_file_as_a_checkpoint_view():
    with rf.open_checkpoint(GOLDEN / "simple.hdf") as file:
        assert file["inputs"].shape == (15, 3) and "seqTags" in file.apart and "targets/data/classes" in file.entries
