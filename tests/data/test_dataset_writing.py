"""What is written is read again; a file appears only when it is complete."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DataError

pytest.importorskip("h5py")


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=6))
def test_written_and_read_again(tmp_path_factory, lengths):
    path = tmp_path_factory.mktemp("hdf") / "x.hdf"
    random = np.random.default_rng(len(lengths))
    expected = [(random.standard_normal((n, 3)).astype("float32"), random.integers(0, 7, m)) for n, m in lengths]
    with rf.HdfWriter(path, dim=3, classes=7) as file:
        for i, (data, classes) in enumerate(expected):
            file.write(f"ü/{i}", data, classes=classes)
    found = rf.hdf(path)
    assert found.tags == [f"ü/{i}" for i in range(len(lengths))]
    for sequence, (data, classes) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sequence["data"], data)
        np.testing.assert_array_equal(sequence["classes"], classes)
    found.close()


def test_a_batch_is_written_without_padding(tmp_path):
    time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    raw = np.arange(24, dtype="float32").reshape(2, 4, 3)
    x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, time, feat], lengths=[2, 4])
    best = rf.reduce_argmax(x, axis=feat)
    with rf.HdfWriter(tmp_path / "x.hdf", dim=3, best=3) as file:
        file.write_batch(["a", "b"], x, best=best)
    data = rf.hdf(tmp_path / "x.hdf")
    assert data.lengths().tolist() == data.lengths("best").tolist() == [2, 4]
    np.testing.assert_array_equal(data["a"]["data"], raw[0, :2])
    assert data["b"]["best"].tolist() == [2, 2, 2, 2]
    with rf.HdfWriter(tmp_path / "y.hdf", dim=3) as file, pytest.raises(DataError, match="3 tags for 2 sequences"):
        file.write_batch(["a", "b", "c"], x)


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    with rf.HdfWriter(tmp_path / "x.hdf", dim=3, labels=["a", "b", "c"]) as file:
        file.write("a", [0, 2])
    before = (tmp_path / "x.hdf").read_bytes()
    assert rf.hdf(tmp_path / "x.hdf").streams["data"].labels == ("a", "b", "c")
    with pytest.raises(RuntimeError, match="stop"), rf.HdfWriter(tmp_path / "x.hdf", dim=3) as file:
        file.write("b", [1])
        raise RuntimeError("stop")
    assert (tmp_path / "x.hdf").read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(DataError, match="the file is not open"):
        file.write("c", [1])


@pytest.mark.parametrize(
    "data, streams, message",
    [
        (np.zeros((2, 4)), {"c": [0]}, r"shape \(2, 4\)"),
        (np.zeros((2, 3)), {}, "has other streams"),
        (np.zeros((2, 3)), {"c": [0], "d": [1]}, "has other streams"),
        (np.zeros((2, 3)), {"c": [5]}, "labels 5 to 5"),
        (np.zeros((2, 3)), {"c": [-1]}, "labels -1 to -1"),
        (np.zeros((2, 3)), {"c": [0.5]}, "as in those before"),
        (np.float32(1), {"c": [0]}, "shape"),
    ],
)
def test_sequences_that_do_not_fit_leave_the_file_as_it_is(data, streams, message, tmp_path):
    with rf.HdfWriter(tmp_path / "x.hdf", dim=3, c=5) as file:
        file.write("a", np.ones((2, 3)), c=[1])
        with pytest.raises(DataError, match=message):
            file.write("b", data, **streams)
        file.write("c", np.ones((1, 3)), c=[])
    assert rf.hdf(tmp_path / "x.hdf").tags == ["a", "c"]


def test_strings_of_numpy_are_no_data(tmp_path):
    with rf.HdfWriter(tmp_path / "x.hdf", dim=3) as file, pytest.raises(DataError):
        file.write("a", ["words"])
