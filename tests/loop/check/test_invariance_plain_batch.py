"""Which axes of plain tensors count sequences and frames."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.errors import DimError, DtypeError
from rfnb.loop.check.invariance import InBatch, with_dims

X = torch.arange(2 * 5 * 3.0).reshape(2, 5, 3)
PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])


def dims_of(fn, *args, lengths=None, **kwargs):
    given, found = with_dims(fn, args, kwargs, lengths)
    names = [[dim.name for dim in x.dims] for x in (*given[0], *given[1].values())]
    return names, found.tolist()


def call(x, mask=None, lengths=None): ...


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        ((X,), {"lengths": [5, 3]}, ["batch", "time", "axis2"]),
        ((X.transpose(0, 1),), {"lengths": [5, 3]}, ["time", "batch", "axis2"]),
        ((X.mT,), {"lengths": [5, 3]}, ["batch", "axis1", "time"]),
        ((X,), {"lengths": [4, 3]}, ["batch", "time", "axis2"]),
        ((X,), {"mask": PADDING}, ["batch", "time", "axis2"]),
        ((X,), {"mask": ~PADDING}, ["batch", "time", "axis2"]),
        ((X,), {"padding_mask": PADDING.float()}, ["batch", "time", "axis2"]),
        ((X,), {"attention_mask": (~PADDING).long()}, ["batch", "time", "axis2"]),
        ((X,), {"lengths": np.array([5.0, 3.0])}, ["batch", "time", "axis2"]),
        ((X[:, :2],), {"lengths": [2, 1]}, ["batch", "time", "axis2"]),
    ],
)
def test_dims(args, kwargs, names):
    found, _ = dims_of(lambda x, **_: x, *args, **kwargs)
    assert found[0] == names


def test_dims_of_masks():
    square = torch.ones(5, 5)
    names, lengths = dims_of(
        lambda *_, **__: 0, X, key_padding_mask=PADDING, attn_mask=square, bias=torch.ones(2, 4, 5, 5)
    )
    assert names == [
        ["batch", "time", "axis2"], ["batch", "time"], ["time", "time"], ["batch", "axis1", "time", "time"]
    ]  # fmt: skip
    assert lengths == [5, 3]


def test_the_module_says_which_axis_counts_sequences():
    x = torch.ones(2, 2, 3)
    assert dims_of(nn.LSTM(3, 4), x, lengths=[2, 1])[0] == [["time", "batch", "axis2"]]
    assert dims_of(nn.LSTM(3, 4, batch_first=True), x, lengths=[2, 1])[0] == [["batch", "time", "axis2"]]


def test_what_is_wrong_is_said():
    check = rf.check.batch_invariance
    with pytest.raises(DtypeError, match=r"the batch is not an rf.Tensor.*(?s:.)*lengths=\[…\], or a mask"):
        check(nn.Linear(3, 4), X)
    with pytest.raises(DtypeError, match=r"the batch is not an rf.Tensor"):
        check(lambda: 1)
    with pytest.raises(DimError, match="the lengths do not fit the batch"):
        check(nn.Linear(3, 4), X, lengths=[5, 3, 1])
    with pytest.raises(DimError, match="the lengths do not fit the batch"):
        check(nn.Linear(3, 4), X, lengths=[7, 3])
    for lengths in ("ab", [None, 1], [5, -1], [2.5, 1], [[5], [3, 1]], ["5", "3"]):
        with pytest.raises(DtypeError, match="`lengths` are not numbers of frames"):
            check(nn.Linear(3, 4), X, lengths=lengths)
        with pytest.raises(DtypeError, match="`lengths` are not numbers of frames"):
            check(lambda x, lengths: x, X, lengths=lengths)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(X, dims=[rf.batch_dim, time, rf.Dim(3, name="feat")], lengths=[5, 3])
    with pytest.raises(rf.errors.ParameterError, match="`lengths` are for plain tensors"):
        check(rf.relu, x, lengths=[5, 3])
    assert check(lambda x, lengths: x * float(lengths), x, lengths=2)
    with pytest.raises(DimError, match="the padding of mask is not at the end"):
        check(lambda x, mask: x, X, mask=torch.tensor([[1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]))


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("form", ["batch first", "frames first", "flat", "flat by frames", "joined", "packed", "heads"])
def test_the_part_of_a_sequence(form, index):
    lengths = np.array([2, 4, 3])
    values = np.random.default_rng(0).normal(size=(3, 4, 2))
    alone, steps = values[index : index + 1, : lengths[index]], values.transpose(1, 0, 2)
    packed = np.array([steps[t, i] for t in range(4) for i in (1, 2, 0) if t < lengths[i]])
    together, own = {
        "batch first": (values, alone),
        "frames first": (steps, alone.transpose(1, 0, 2)),
        "flat": (values.reshape(12, 2), alone[0]),
        "flat by frames": (steps.reshape(12, 2), alone[0]),
        "joined": (np.concatenate([x[:n] for x, n in zip(values, lengths, strict=True)]), alone[0]),
        "packed": (packed, alone[0]),
        "heads": (values.transpose(0, 2, 1).reshape(6, 4), alone[0].T),
    }[form]
    parts = list(InBatch(3, index, lengths).parts(together, own.shape, result=True))
    assert any(np.array_equal(part, own) for part in parts)
    assert all(part.shape == own.shape for part in parts)
