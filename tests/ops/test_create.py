"""New tensors, and the types and places that they get."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

TWO, THREE = rf.Dim(2, name="two"), rf.Dim(3, name="three")
SCALAR = rf.convert_to_tensor(3)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "int64"), (1.0, "float32"), (True, "bool"), (1j, "complex64"), (np.int32(1), "int64"),
     (np.bool_(True), "bool"), (np.float64(1), "float32"), (SCALAR, "int64")],
)  # fmt: skip
def test_the_type_of_what_is_filled(value, dtype):
    for x in (
        rf.full(dims=[TWO], fill_value=value), rf.fill(dims=[TWO], fill_value=value), rf.constant(value, dims=[TWO])
    ):  # fmt: skip
        assert x.dtype == dtype and x.dims == (TWO,)
        assert x.raw_tensor.tolist() == [value.item() if hasattr(value, "item") else value] * 2
    assert rf.full(dims=[TWO], fill_value=value, dtype="complex64").dtype == "complex64"


def test_filled_with_a_tensor():
    column = rf.convert_to_tensor(torch.tensor([1.0, 2.0], requires_grad=True), dims=[TWO])
    x = rf.full(dims=[THREE, TWO], fill_value=column, feature_dim=TWO)
    assert x.raw_tensor.tolist() == [[1.0, 2.0]] * 3 and x.feature_dim is TWO
    x.raw_tensor.sum().backward()
    assert column.raw_tensor.grad.tolist() == [3.0, 3.0]
    assert rf.full(dims=[THREE], fill_value=SCALAR, dtype="float64").dtype == "float64"
    x.raw_tensor.detach()[0, 0] = 5  # memory of its own
    assert column.raw_tensor[0] == 1
    with pytest.raises(rf.errors.DimError):
        rf.full(dims=[THREE], fill_value=column)


def test_like_another():
    x = rf.convert_to_tensor(torch.ones(2, dtype=torch.int32), dims=[TWO], sparse_dim=THREE)
    for y, value in ((rf.zeros_like(x), 0), (rf.ones_like(x), 1)):
        assert (y.dims, y.dtype, y.sparse_dim) == (x.dims, x.dtype, THREE)
        assert y.raw_tensor.tolist() == [value] * 2
    assert rf.zeros([TWO], sparse_dim=THREE).dtype == rf.get_default_int_dtype()
    assert rf.ones([TWO], feature_dim=TWO).feature_dim is TWO


def test_only_whole_numbers_are_labels():
    x = rf.convert_to_tensor([2, 0], dims=[TWO], sparse_dim=THREE, feature_dim=TWO)
    for dtype, sparse_dim in (("int32", THREE), ("uint8", THREE), ("float32", None), ("bool", None)):
        y = rf.cast(x, dtype)
        assert (y.dtype, y.sparse_dim, y.feature_dim) == (dtype, sparse_dim, TWO)
    assert rf.range_over_dim(TWO).sparse_dim is TWO
    assert rf.range_over_dim(TWO, dtype="float32").sparse_dim is None


def test_the_default_float_type():
    assert rf.get_default_float_dtype() == "float32"
    with rf.set_default_float_dtype_ctx("bfloat16"):
        made = [rf.zeros([TWO]), rf.full(dims=[TWO], fill_value=1.0), rf.Parameter([TWO]), rf.convert_to_tensor(1.0)]
        assert {x.dtype for x in made} == {"bfloat16"}
    assert rf.get_default_float_dtype() == "float32"
    with pytest.raises(ZeroDivisionError), rf.set_default_float_dtype_ctx("float64"):
        1 / 0  # noqa: B018
    assert rf.get_default_float_dtype() == "float32"
    with pytest.raises(rf.errors.DtypeError, match="not a float type"):
        rf.set_default_float_dtype("int64")


def test_the_default_device():
    assert rf.get_default_device() is None
    with rf.set_default_device_ctx("meta"):
        assert {x.device for x in (rf.zeros([TWO]), rf.range_over_dim(TWO), rf.Parameter([TWO]))} == {"meta"}
        assert rf.zeros([TWO], device="cpu").device == "cpu"
    assert rf.get_default_device() is None and rf.zeros([TWO]).device == "cpu"


def test_indices_are_of_a_type_that_all_ops_take():
    assert rf.range_over_dim(TWO).dtype == rf.get_default_array_index_dtype() == "int64"


def test_the_lengths_of_the_batch_bound_now():
    time = rf.Dim(None, name="time")
    with pytest.raises(rf.errors.DimError, match="time has no size yet"):
        rf.zeros([time])
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, time], lengths=[3, 1])
    assert rf.reduce_sum(rf.ones([batch_dim, time]), axis=time).raw_tensor.tolist() == [3.0, 1.0]
