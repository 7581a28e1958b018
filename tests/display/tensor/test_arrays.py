"""Plain arrays: names for axes, lengths, what does not fit; nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.display.tensor import arrays
from rfnb.errors import ViewError
from tests.display.standins import numbers

NAMES = ["batch", "time", "feat"]


def shape_of(view) -> list[tuple[str, int, str]]:
    return [(dim["name"], dim["size"], dim["kind"]) for dim in view.data["dims"]]


def test_names_become_dims_with_their_kind():
    view = rf.show(numbers(3, 5, 2), dims=NAMES)
    assert shape_of(view) == [("batch", 3, "batch"), ("time", 5, "spatial"), ("feat", 2, "feature")]
    assert rf.show(numbers(3, 5, 2)).text.startswith("array numpy.ndarray float32 {axis0:3, axis1:5, axis2:2}")


def test_the_same_name_has_the_same_colour():
    first, second = rf.show(numbers(4, 5), dims=["q", "k"]), rf.show(numbers(5, 9), dims=["k", "v"])
    assert first.data["dims"][1]["colour"] == second.data["dims"][0]["colour"]


@pytest.mark.parametrize(
    "lengths",
    [[3, 5, 0], (3, 5, 0), np.array([3, 5, 0], np.int32), torch.tensor([3, 5, 0]), {"time": [3, 5, 0]}],
    ids=lambda lengths: type(lengths).__name__,
)
@pytest.mark.parametrize("dims", [NAMES, None])
def test_lengths_are_those_of_the_first_axis_that_moves(lengths, dims):
    if isinstance(lengths, dict) and dims is None:
        lengths = {"axis1": lengths["time"]}
    raw = numbers(3, 5, 2)
    view = rf.show(raw, dims=dims, lengths=lengths)
    assert view.data["dims"][1]["lengths"] == [3, 5, 0]
    assert view.data["stats"]["count"] == 16
    assert view.data["stats"]["mean"] == pytest.approx(np.concatenate([raw[0, :3], raw[1]]).mean())


def test_lengths_where_time_comes_first():
    raw = numbers(5, 3)
    view = rf.show(raw, dims=["time", "batch"], lengths=[5, 1, 2])
    assert view.data["stats"]["mean"] == pytest.approx(np.concatenate([raw[:, 0], raw[:1, 1], raw[:2, 2]]).mean())


def test_lengths_of_two_axes():
    view = rf.show(np.ones((2, 3, 4)), dims=["batch", "q", "k"], lengths={"q": [3, 1], "k": [2, 4]})
    assert view.data["stats"]["count"] == 3 * 2 + 1 * 4


def test_a_dim_is_an_axis_too():
    layer = rf.Dim(4, name="layer")
    view = rf.show(numbers(2, 4), dims=["batch", layer])
    assert view.data["dims"][1]["serial"] == layer.serial
    with pytest.raises(ViewError, match="does not fit layer"):
        rf.show(numbers(2, 5), dims=["batch", layer])


WRONG = {
    "too few names": ((numbers(2, 3),), {"dims": ["batch"]}, r"got +1 dim for shape \(2, 3\)"),
    "one string": ((numbers(2, 3),), {"dims": "batch time"}, r"dims=\['batch', 'time'\]"),
    "no name": ((numbers(2),), {"dims": [3]}, "not the name of a dim"),
    "no names": ((numbers(2),), {"dims": 3}, "not the name of a dim"),
    "wrong count": ((numbers(2, 3),), {"dims": ["batch", "time"], "lengths": [1, 2, 3]}, "do not fit"),
    "too long": ((numbers(2, 3),), {"dims": ["batch", "time"], "lengths": [1, 4]}, "a length of time"),
    "negative": ((numbers(2, 3),), {"lengths": [1, -1]}, "a length of axis1"),
    "relative": ((numbers(2, 3),), {"lengths": [1.0, 0.5]}, r"relative lengths\? \(lengths \* 3\)"),
    "another name": ((numbers(2, 3),), {"dims": ["batch", "time"], "lengths": {"tine": [1, 1]}}, "did you mean time"),
    "of the sequences": ((numbers(2, 3),), {"dims": ["batch", "time"], "lengths": {"batch": [2, 3]}}, "counts the seq"),
    "two of a name": ((numbers(3, 3),), {"dims": ["time"] * 2, "lengths": {"time": [2, 3, 3]}}, "a name for each"),
    "no axis": ((numbers(2, 3),), {"lengths": {2: [1, 1]}}, "there is no such dim"),
    "lengths in lists": ((numbers(2, 3),), {"lengths": [1, [2]]}, "lengths of axis1 must be whole numbers"),
    "a mask": ((numbers(2, 3),), {"lengths": np.ones((2, 3), bool)}, r"a mask\? mask.sum\(-1\)"),
    "whole but float": ((numbers(2, 3),), {"lengths": np.array([2.0, 3.0])}, r"lengths.astype\(int\)"),
    "no array": (({"a": 1},), {"dims": ["a"]}, "a dict is not an array"),
    "a word": ((numbers(2, 3),), {"lenghts": [1, 3]}, "did you mean lengths"),
    "no sequences": ((numbers(2, 3),), {"batch": 1}, r'dims=\["batch", …\]'),
    "nothing moves": (
        (numbers(2, 3),),
        {"dims": ["batch", "feat"], "lengths": [1, 1]},
        "no axis can have these lengths",
    ),
    "objects": ((np.array([object()]),), {}, "of type object, not numbers"),
    "strings": ((np.array(["a"]),), {"dims": ["batch"]}, r"rf.show\(array.tolist\(\)\)"),
    "ragged": (([[1.0], [2.0, 3.0]],), {"dims": ["batch", "time"]}, "the lists differ in length"),
    "nested": ((torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),), {}, "unbind"),
    "a tensor": ((rf.zeros([rf.Dim(2, name="a")]),), {"dims": ["b"]}, "its own dims and lengths"),
    "a position": ((numbers(2, 3),), {"dims": ["batch", "time"], "tine": 2}, "did you mean time"),
    "a tag": ((numbers(2, 3),), {"dims": ["batch", "time"], "batch": "kiwi"}, "as the batch has no tags"),
    "a second tensor": ((numbers(2), numbers(2)), {}, "one thing at a time"),
}


@pytest.mark.parametrize("args, choice, said", WRONG.values(), ids=WRONG)
def test_what_does_not_fit_says_the_way_out(args, choice, said):
    with pytest.raises(ViewError, match=said):
        rf.show(*args, **choice)


@pytest.mark.parametrize("batch, text", [(1, "array of batch 1"), (-1, "array of batch 1")])
def test_one_sequence_of_an_array(batch, text):
    view = rf.show(numbers(2, 3), dims=["batch", "time"], lengths=[3, 2], batch=batch)
    assert view.text.startswith(f"{text} numpy.ndarray float32 {{time:2}}")
    assert rf.show(numbers(2, 3), axis1=2).data["dims"][0]["name"] == "axis0"


@pytest.mark.parametrize("one", [1, np.int8(1), np.array(1), torch.tensor(1), rf.convert_to_tensor(1)], ids=repr)
def test_a_number_of_any_kind_chooses_a_sequence(one):
    text = rf.show(numbers(2, 3), dims=["batch", "time"], batch=one, time=one).text
    assert text == f"array of batch 1, time 1 numpy.ndarray float32 {{}}\n  {numbers(2, 3)[1, 1]:.3f}"
    with pytest.raises(ViewError, match="no such sequence"):
        rf.show(numbers(2, 3), dims=["batch", "time"], batch=1.0)


@pytest.mark.filterwarnings("ignore:.*prototype stage")
def test_a_nested_tensor_of_the_old_layout():
    with pytest.raises(ViewError, match="unbind"):
        rf.show(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))


def test_a_masked_array_says_that_its_mask_is_not_looked_at():
    view = rf.show(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]))
    assert view.data["stats"]["count"] == 3 and "masked entries count too" in view.text


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.int8, torch.complex64])
def test_torch_of_every_dtype(dtype):
    view = rf.show((torch.ones(2, 300) * 2).to(dtype).requires_grad_(dtype.is_floating_point), dims=["batch", "time"])
    assert view.data["stats"]["count"] == 600
    assert view.data["cls"] == "torch.Tensor"
    assert view.data["dtype"] == str(dtype).removeprefix("torch.")
    assert view.data["note"] == ("complex: absolute values" if dtype.is_complex else None)


@pytest.mark.parametrize("raw", [numbers(40, 30), torch.zeros(40, 30)], ids=["numpy", "torch"])
def test_nothing_is_copied(raw):
    data = arrays.data_of(raw, ["batch", "time"])
    own = raw if isinstance(raw, np.ndarray) else raw.numpy()
    assert np.shares_memory(np.asarray(data.raw), own)


def test_nested_lists_of_numbers_are_arrays_and_others_are_trees():
    assert rf.show([[1, 2], [3, 4]]).data["kind"] == "tensor"
    assert rf.show([1.5]).data["cls"] == "list"
    for other in ([], [[1], [2, 3]], ["a", 1], [True, None], (numbers(2), 3)):
        assert rf.show(other).data["kind"] == "tree", other


def test_no_numbers_are_looked_at_where_there_are_none():
    meta = rf.show(torch.zeros(10**6, 10**6, device="meta"), dims=["in", "out"])
    assert meta.text.splitlines() == [
        "array torch.Tensor float32 {in:1000000, out:1000000} meta 3725 GB",
        "  (no numbers: on the meta device)",
    ]
    sparse = rf.show(torch.eye(300).to_sparse())
    assert "(no numbers: sparse_coo layout)" in sparse.text


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_any_shape_and_any_lengths(shape, data):
    raw = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    lengths = None
    if len(shape) >= 2:
        lengths = data.draw(st.lists(st.integers(0, shape[1]), min_size=shape[0], max_size=shape[0]))
    view = rf.show(raw, lengths=lengths)
    assert view.text
    assert "no view" not in view.html
    rows = [] if lengths is None else [raw[b, :n].ravel() for b, n in enumerate(lengths)]
    real = raw.ravel() if lengths is None else np.concatenate([*rows, np.zeros(0, np.float32)])
    stats = view.data["stats"]
    assert (0 if stats is None else stats["count"]) == real.size
    if real.size:
        assert (stats["min"], stats["max"]) == (real.min(), real.max())
        assert stats["mean"] == pytest.approx(real.astype(float).mean(), rel=1e-5)
