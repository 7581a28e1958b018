"""Tensors described as in configs. Dims, dtypes and feature dims are those that the reference gives."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, TensorDict, batch_dim

TIME, FEAT, WORD = Dim(None, name="time"), Dim(3, name="feat"), Dim(5, name="word")


def test_dims_under_their_older_name():
    x = Tensor(name="data", dim_tags=[batch_dim, TIME, FEAT], available_for_inference=True)
    assert x.dims == (batch_dim, TIME, FEAT) and x.feature_dim is FEAT and x.dtype == "float32"
    labels = Tensor(name="classes", dim_tags=[batch_dim, TIME], sparse_dim=WORD, time_dim_axis=1)
    assert labels.sparse_dim is WORD and labels.dtype == "int32" and labels.feature_dim_or_sparse_dim is WORD


@pytest.mark.parametrize(
    ("given", "dims", "feature", "labels", "dtype"),
    [
        ({"dim": 40}, ["batch", "time", 40], 40, None, "float32"),
        ({"shape": (None, 40)}, ["batch", "time", 40], 40, None, "float32"),
        ({"dim": 7, "shape": (7,)}, ["batch", 7], 7, None, "float32"),
        ({"dim": 40, "sparse": True}, ["batch", "time"], None, 40, "int32"),
        ({"dim": 5, "shape": (), "sparse": True, "dtype": "int64"}, ["batch"], None, 5, "int64"),
    ],
)
def test_sizes_instead_of_dims(given, dims, feature, labels, dtype):
    x = Tensor("data", **given)
    assert [dim.dimension or dim.name for dim in x.dims] == dims and x.dims[0] is batch_dim
    assert getattr(x.feature_dim, "dimension", None) == feature and x.dtype == dtype
    assert getattr(x.sparse_dim, "dimension", None) == labels


def test_a_batch_is_put_into_such_a_template():
    x = Tensor("data", dim=2)
    x.get_time_dim_tag().dyn_size_ext = rf.convert_to_tensor([2, 1], dims=[batch_dim])
    x.raw_tensor = torch.ones(2, 2, 2)
    assert rf.reduce_sum(x, axis=x.dims).item() == 6


def test_labels_have_names():
    assert Tensor("x", dim=2, sparse=True, vocab=["a", "b"]).vocab.decode(1) == "b"
    word = Dim(2, name="word")
    assert Tensor("x", dim_tags=[batch_dim], sparse_dim=word, vocab=["a", "b"]).vocab is word.vocab


def test_dims_twice_and_unknown_names_are_refused():
    for wrong in [{"dim_tags": [FEAT]}, {"dim": 4}, {"colour": 1}]:
        with pytest.raises(rf.errors.DimError, match="unknown argument"):
            Tensor("x", [batch_dim], **wrong)


def test_a_batch_described_by_dicts():
    batch = TensorDict()
    batch.update(
        {"data": {"dim_tags": [batch_dim, FEAT]}, "n": {"dims": [batch_dim], "dtype": "int32"}}, auto_convert=True
    )
    assert batch["data"].feature_dim is FEAT and batch["n"].dtype == "int32" and batch["data"].name == "data"
    with pytest.raises(rf.errors.DimError, match="not an"):
        TensorDict({"data": {"dims": [batch_dim]}})
