"""Which axis is which, and the same entries or the same description in other ways."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim

FEAT, OUT = Dim(4, name="feat", kind="feature"), Dim(2, name="out")


@pytest.fixture
def time():
    return Dim(None, name="time")


@pytest.fixture
def x(time):
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, time], lengths=[3, 1])
    raw = torch.arange(24.0).reshape(2, 3, 4)
    return Tensor("x", [batch_dim, time, FEAT], "float32", feature_dim=FEAT, raw_tensor=raw)


@pytest.fixture
def v():
    return Tensor("v", [FEAT], "float32", raw_tensor=torch.arange(4.0))


def test_axes_are_found_by_dim_name_or_role(x, time):
    for axis, place in {"B": 0, "batch": 0, "time": 1, "T": 1, "spatial": 1, "F": 2, "feat": 2, "dim:4": 2}.items():
        assert x.get_axis_from_description(axis) == place, axis
    assert (x.get_axis_from_description(time), x.get_axis_from_description(-1, allow_int=True)) == (1, 2)
    assert x.get_dim_tag_from_description("T") is time
    assert (x.has_axis("F"), x.has_axis(OUT), x.has_axis("out")) == (True, False, False)


@pytest.mark.parametrize(
    ("axis", "match"),
    [
        ("nope", "no axis 'nope'"),
        ("tiem", "(?s)no axis 'tiem'.*did you mean 'time'"),
        (1, "time, instead of its position"),
        (OUT, "no dim out"),
        (7, "no axis 7"),
    ],
)
def test_an_axis_that_is_not_there(x, axis, match):
    with pytest.raises(rf.errors.DimError, match=match):
        x.get_axis_from_description(axis)


def test_spatial_is_the_time_axis_where_one_is_needed(time):
    feat = Dim(4, name="feat")  # which the tensor does not know as its feature dim
    x = Tensor("x", [batch_dim, time, feat], "float32")
    assert (x.get_axis_from_description("spatial"), x.has_axis("spatial")) == (1, True)
    assert not Tensor("x", [OUT, feat], "float32").has_axis("spatial")


def test_a_name_that_two_dims_have():
    x = rf.zeros([Dim(2, name="time"), Dim(3, name="time")])
    with pytest.raises(rf.errors.DimError, match="more than one"):
        x.get_axis_from_description("time")


def test_roles(x, v, time):
    assert (x.batch_dim_axis, x.time_dim_axis, x.feature_dim_axis) == (0, 1, 2)
    assert (x.have_batch_axis(), x.have_time_axis(), x.have_feature_axis()) == (True, True, True)
    assert (x.get_batch_dim_tag(), x.get_time_dim_tag(), x.feature_dim_or_sparse_dim) == (batch_dim, time, FEAT)
    assert (v.batch_dim_axis, v.time_dim_axis, v.feature_dim_axis) == (None, None, None)
    with pytest.raises(rf.errors.DimError, match="no time dim"):
        v.get_time_dim_tag()
    assert x.remaining_dims(time) == [batch_dim, FEAT]
    assert x.remaining_dims() == list(x.dims)
    with pytest.raises(rf.errors.DimError, match="no dim out"):
        x.remaining_dims([OUT])
    assert (x.control_flow_ctx, x.version, x.vocab) == (None, 2, None)
    assert int(x.num_elements()) == 16
    assert v.num_elements() == 4


def test_roles_may_be_given_later(v):
    v.feature_dim = FEAT
    labels = rf.convert_to_tensor([1, 0], dims=[OUT])
    labels.sparse_dim = Dim(2, name="letter", vocab=["a", "b"])
    assert (v.feature_dim_axis, labels.vocab.labels) == (0, ("a", "b"))
    with pytest.raises(rf.errors.DimError, match="no dim out"):
        v.feature_dim = OUT
    v.feature_dim_axis = None
    assert v.feature_dim is None
    v.feature_dim_axis = -1
    assert v.feature_dim is FEAT
    with pytest.raises(rf.errors.DimError, match="no axis"):
        v.feature_dim_axis = 1


@pytest.mark.parametrize("hoisting", [True, False])
def test_roles_are_set_in_the_body_of_a_loop_too(hoisting):
    steps, letters, pair = Dim(3, name="steps"), Dim(4, name="letters"), Dim(2, name="pair")
    x = rf.convert_to_tensor([[0, 1], [2, 3], [0, 1]], dims=[steps, pair], sparse_dim=letters)
    loop = rf.Loop(axis=steps, name="roles", debug=True, optimize_move_layers_out=hoisting)
    loop.state.total = rf.zeros([pair], dtype="int64")
    with loop:
        frame = loop.unstack(x)
        same = frame
        assert frame.sparse_dim is letters
        frame.sparse_dim = None
        frame.feature_dim = pair
        assert same.sparse_dim is None and same.feature_dim_axis == 0
        loop.state.total = loop.state.total + frame
        labels = frame + 1
        labels.sparse_dim = letters
        out, last = loop.stack(labels), loop.last(frame)
    assert (out.sparse_dim, out.feature_dim, last.sparse_dim, last.feature_dim) == (letters, pair, None, pair)
    assert out.raw_tensor.tolist() == [[1, 2], [3, 4], [1, 2]] and loop.state.total.tolist() == [2, 5]
    assert rf.runs["roles"][1].labels.sparse_dim is letters and rf.runs["roles"][1].frame.sparse_dim is None


def test_roles_of_outer_values_are_not_set_in_a_branch(time):
    loop = rf.Loop(axis=Dim(2, name="steps"))
    loop.state.h = rf.zeros([FEAT])
    with pytest.raises(rf.errors.TraceError, match="set_sparse_dim"), loop:
        h = loop.state.h + 1

        def side():
            h.sparse_dim = OUT
            return h

        loop.state.h = rf.cond(rf.reduce_any(h > 3, axis=FEAT), side, lambda: h)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"dims": [FEAT], "shape": (None, 4)}, r"dims=\[…\]"),
        ({"placeholder": 1}, "raw_tensor"),
        ({"dims": [FEAT], "version": 1}, "version=2"),
        ({"dims": [FEAT], "colour": 1}, "expected  dims"),
        ({"dims": [4]}, "4 is not a Dim"),
    ],
)
def test_arguments_of_older_tensors_are_answered(arguments, hint):
    with pytest.raises(rf.errors.DimError, match=hint):
        Tensor("x", dtype="float32", **arguments)


def test_the_feature_dim_by_its_position():
    assert Tensor("x", [batch_dim, FEAT], "float32", feature_dim_axis=-1, version=2).feature_dim is FEAT


def test_templates_have_no_data(x, time):
    cases = {
        x.copy_template("y"): ([batch_dim, time, FEAT], FEAT),
        x.copy_template_new_dim_tags([batch_dim, OUT]): ([batch_dim, OUT], None),
        x.copy_template_new_dim_tags([time, batch_dim, OUT], keep_special_axes=True): ([time, batch_dim, OUT], OUT),
        x.copy_template_excluding_axis(time): ([batch_dim, FEAT], FEAT),
        x.copy_template_excluding_axis(-1): ([batch_dim, time], None),
        x.copy_template_adding_axis(OUT): ([OUT, batch_dim, time, FEAT], FEAT),
        x.copy_template_replace_dim_tag(FEAT, OUT): ([batch_dim, time, OUT], OUT),
    }
    for template, (dims, feature) in cases.items():
        assert (list(template.dims), template.feature_dim, template.dtype) == (dims, feature, "float32")
        assert template.raw_tensor is None
    assert (x.copy_template("y").name, x.copy_template(dtype="int64").dtype) == ("y", "int64")
    assert (x.copy("z").name, x.copy().raw_tensor is x.raw_tensor, x.copy() is x) == ("z", True, False)
    x.reset()
    assert (x.raw_tensor, x.dtype) == (None, "float32")


def test_axes_in_another_order(x, time):
    turned = x.copy_transpose([2, 0, 1])
    assert turned.dims == (FEAT, batch_dim, time)
    assert torch.equal(turned.raw_tensor, x.raw_tensor.permute(2, 0, 1))
    for perm in ([2, 0, 1], [batch_dim, time], ["time", "batch", "feat"]):
        with pytest.raises(rf.errors.DimError, match="copy_transpose"):
            x.copy_transpose(perm, allow_int=False)


def test_as_the_axes_of_another(x, v, time):
    wide = v.copy_compatible_to(x, unbroadcast=True)
    assert wide.dims == x.dims
    assert torch.equal(wide.raw_tensor, v.raw_tensor.expand(2, 3, 4))
    assert v.copy_compatible_to(x).raw_tensor.shape == (1, 1, 4)
    assert v.copy_compatible_to_dims_raw(x.dims).shape == (1, 1, 4)
    assert torch.equal(v.copy_compatible_to_dims_raw(x.dims, unbroadcast=True), wide.raw_tensor)
    assert x.copy_compatible_to_dims([FEAT, time, batch_dim]).raw_tensor.shape == (4, 3, 2)
    assert v.copy_compatible_to(x, except_axis=time, unbroadcast=True).dims == (batch_dim, FEAT)
    other = rf.zeros([OUT], feature_dim=OUT)
    assert other.copy_compatible_to(x, except_feature=True, unbroadcast=True).dims == (batch_dim, time, OUT)
    for call, match in {
        lambda: v.copy_compatible_to_dims_raw([batch_dim]): "unexpected dim feat",
        lambda: v.copy_compatible_to_dims([batch_dim, FEAT], add_dims=False): "has no batch",
        lambda: other.copy_compatible_to(x): "unexpected dim out",
        lambda: rf.set_sparse_dim(v, OUT).copy_compatible_to(x): "different labels",
    }.items():
        with pytest.raises(rf.errors.DimError, match=match):
            call()
    with pytest.raises(rf.errors.DtypeError):
        rf.cast(v, "int64").copy_compatible_to(x)


def test_as_the_axes_of_another_in_a_loop(x, v, time):
    with rf.Loop(axis=time) as loop:
        frame = loop.unstack(x)
        out = loop.stack((frame * 2.0).copy_compatible_to_dims([FEAT, batch_dim]) + 0.0)
    assert torch.equal(out.copy_transpose(x.dims).raw_tensor[0], x.raw_tensor[0] * 2)


def test_padding_of_an_axis_by_its_position(x, time):
    assert x.copy_masked(-1.0, dims=[1], allow_int=True).raw_tensor[1, 1:].unique().tolist() == [-1.0]
    assert torch.equal(x.copy_masked(-1.0, dims=[FEAT]).raw_tensor, x.raw_tensor)
    with pytest.raises(rf.errors.DimError, match="no axis 1"):
        x.copy_masked(0.0, dims=[1])


def test_dims_that_are_expected(x, time):
    assert x.verify_out_shape({FEAT, batch_dim, time}) is x
    with pytest.raises(rf.errors.DimError, match="unexpected dims"):
        x.verify_out_shape({FEAT, batch_dim})
    with pytest.raises(rf.errors.DimError, match="It has the same name but is a different Dim"):
        x.verify_out_shape([batch_dim, Dim(None, name="time"), FEAT])
    frames = rf.range_over_dim(time)
    assert frames.verify_out_shape([time, batch_dim], allow_missing_implicit_dims=True) is frames
    with pytest.raises(rf.errors.DimError):
        frames.verify_out_shape([time, batch_dim])


def test_parts_that_do_not_fit(x, time):
    x.sanity_check()
    x.runtime_sanity_checks()
    labels = rf.convert_to_tensor(torch.tensor([[0, 1, 1], [1, 9, 9]]), dims=[batch_dim, time], sparse_dim=OUT)
    labels.runtime_sanity_checks()  # 9 is padding
    labels.raw_tensor[0, 2] = 2
    labels.sanity_check()
    with pytest.raises(rf.errors.DimError, match="outside out"):
        labels.runtime_sanity_checks()
    x.raw_tensor.resize_(2, 2, 4)
    with pytest.raises(rf.errors.DimError, match="does not match the dims"):
        x.sanity_check()
    x.sanity_check(ignore_placeholder=True)
    with pytest.raises(rf.errors.DtypeError, match="must be integers"):
        Tensor("labels", [batch_dim], "float32", sparse_dim=OUT).sanity_check()
