"""`rf.ExternData`: descriptions of data keys, and the Tensors of a batch."""

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DataNotFound, NetworkError, RfError
from rfnb.netdict.extern_data import KINDS


@pytest.mark.parametrize(
    ("described", "sizes", "dtype", "feature", "sparse"),
    [
        ({"dim": 5}, [None, None, 5], "float32", 5, None),
        ({"dim": 7, "sparse": True}, [None, None], "int32", None, 7),
        ({"dim": 7, "sparse": True, "shape": ()}, [None], "int32", None, 7),
        ({"dim": 4, "shape": (4,)}, [None, 4], "float32", 4, None),
        ({"dim": 4, "shape": (None, None, 4)}, [None, None, None, 4], "float32", 4, None),
        ({"dim": 3, "shape": (None, 6, 3), "dtype": "float64"}, [None, None, 6, 3], "float64", 3, None),
        ((7, 1), [None, None], "int32", None, 7),
        ([5, 2], [None, None, 5], "float32", 5, None),
        ((5, 3), [None, None, None, 5], "float32", 5, None),
        ({"dim": 5, "shape": (None, 5), "feature_dim_axis": None}, [None, None, 5], "float32", None, None),
    ],
)
def test_a_description(described, sizes, dtype, feature, sparse):
    data = rf.ExternData({"data": described}).get_data("data")
    assert data.dims[0] is batch_dim
    assert [dim.dimension for dim in data.dims] == sizes
    assert data.dtype == dtype
    assert (data.feature_dim and data.feature_dim.dimension) == feature
    assert (data.sparse_dim and data.sparse_dim.dimension) == sparse


def test_each_key_has_its_own_lengths_unless_it_says_otherwise():
    data = rf.ExternData(
        {"a": {"dim": 5}, "b": {"dim": 5}, "c": {"dim": 3, "sparse": True, "same_dim_tags_as": "a"}}
    ).data
    assert data["a"].dims[1] is data["c"].dims[1] is not data["b"].dims[1]
    assert data["a"].dims[2] is data["b"].dims[2]


def test_dims_that_are_given_stay_themselves():
    time, feature = rf.SpatialDim("time"), rf.FeatureDim("feature", 5)
    data = rf.ExternData({"data": {"dim_tags": [batch_dim, time, feature]}}).get_data("data")
    assert data.dims == (batch_dim, time, feature)
    assert data.feature_dim is feature


@pytest.mark.parametrize("described", [{"dime": 5}, 5, None, (1, 2, 3)])
def test_a_description_that_cannot_be_read_is_an_error(described):
    with pytest.raises(NetworkError):
        rf.ExternData({"data": described})


def test_an_unknown_key_suggests_one():
    with pytest.raises(DataNotFound, match="did you mean 'classes'"):
        rf.ExternData({"classes": {"dim": 3}}).get_data("clases")


def test_lengths_of_one_axis_of_several_and_of_none():
    extern = rf.ExternData({"data": {"dim": 2, "shape": (None, None, 2)}})
    array = np.zeros((2, 4, 3, 2))
    x = extern.tensors({"data": (array, {1: [4, 1], 2: [2, 3]})})["data"]
    assert [x.size_of(dim).values.tolist() for dim in x.dims[1:3]] == [[4, 1], [2, 3]]
    x = extern.tensors({"data": (array, [4, 2])})["data"]
    assert [x.size_of(dim).values.tolist() for dim in x.dims[1:3]] == [[4, 2], [3, 3]]
    x = extern.tensors({"data": array})["data"]
    assert [x.size_of(dim).max for dim in x.dims[1:3]] == [4, 3]


def test_an_example_fits():
    extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True, "same_dim_tags_as": "data"}})
    batch = extern.example(batch=4, frames=3)
    assert batch["data"].describe_dims() == "{batch:4, data:1–3, feature:2}"
    assert batch["classes"].size_of(batch["classes"].dims[1]).values.tolist() == [3, 2, 1, 1]


def test_collate_is_a_collate_fn_and_its_batch_fits_the_network():
    extern = rf.ExternData(
        {"data": {"dim": 2}, "align": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"}, "more": {"dim": 3}}
    )
    draw = np.random.default_rng(0)
    lengths = [4, 0, 2, 3]
    samples = [
        {"data": draw.normal(size=(n, 2)).astype("float32"), "align": draw.integers(0, 4, n), "seq_tag": f"s{n}"}
        for n in lengths
    ]
    loader = torch.utils.data.DataLoader(samples, batch_size=2, collate_fn=extern.collate)
    net = rf.Network(extern_data=extern)
    net.construct_from_dict({"output": {"class": "linear", "n_out": 3, "from": ["data", "data:align"]}})
    for first, batch in zip((0, 2), loader, strict=True):
        assert list(batch.data) == ["data", "align"]
        assert batch["data"].size_of(batch["data"].dims[1]).values.tolist() == lengths[first : first + 2]
        out = net(batch)["output"]
        for i in range(2):
            one = samples[first + i]
            alone = net.forward({key: (np.asarray(one[key])[None], [lengths[first + i]]) for key in ("data", "align")})
            n = lengths[first + i]
            np.testing.assert_allclose(
                out.copy_transpose(net.template("output").dims).raw_tensor[i, :n].detach(),
                alone["output"].copy_transpose(net.template("output").dims).raw_tensor[0, :n].detach(),
                atol=1e-6,
            )


def test_batches_of_two_networks_by_turns():
    """The dims of one know other lengths than the batch that the other one has just made."""
    nets = [rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}})) for _ in range(2)]
    for net in nets:
        net.construct_from_dict({"output": {"class": "copy", "from": "data"}})
    for i, lengths in enumerate([[4, 1], [3, 3, 2], [5]]):
        batch = nets[i % 2].extern_data.collate([{"data": np.ones((n, 2), "float32")} for n in lengths])
        assert nets[i % 2](batch)["output"].size_of(batch["data"].dims[1]).values.tolist() == lengths


def test_samples_that_do_not_fit_are_an_error():
    extern = rf.ExternData({"data": {"dim": 2}})
    with pytest.raises(rf.errors.DimError, match="data"):
        extern.collate([{"data": np.zeros((3, 5), "float32")}])
    with pytest.raises(rf.errors.NetworkError, match="no samples"):
        extern.collate([])


def test_a_batch_that_was_made_before_another_one():
    extern = rf.ExternData({"data": {"dim": 3}})
    net = rf.Network(extern_data=extern)
    net.construct_from_dict({"output": {"class": "rec", "unit": "lstm", "n_out": 2, "from": "data"}})
    first, second = extern.example(batch=4, frames=5), extern.example(batch=2, frames=7)
    expected = net(second)["output"].raw_tensor
    assert net(first)["output"].describe_dims() == "{data:2–5, batch:4, feature:2}"
    assert (net(second)["output"].raw_tensor == expected).all()


@pytest.mark.parametrize("vocab", [["a", "b"], {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b"]}])
def test_labels_have_the_names_that_a_config_gives(vocab):
    extern = rf.ExternData({"data": {"dim": 2, "sparse": True, "vocab": vocab}})
    assert extern.get_data("data").sparse_dim.vocab.labels == ("a", "b")
    unnamed = rf.ExternData({"data": {"dim": 2, "sparse": True, "vocab": {"vocab_file": "labels.txt"}}})
    assert unnamed.get_data("data").sparse_dim.vocab is None
    with pytest.raises(rf.errors.RfError, match="3"):
        rf.ExternData({"data": {"dim": 3, "sparse": True, "vocab": vocab}})


@pytest.mark.parametrize("axis", ["T", "t", "time", "spatial:0", "dyn:0", "stag:extern_data:data", 1, -2])
def test_an_axis_may_be_a_dim_that_other_keys_have(axis):
    time = rf.Dim(None, name="my_time")
    extern = rf.ExternData({
        "data": {"dim": 5, "same_dim_tags_as": {axis: time}},
        "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": {"T": time}, "available_for_inference": True},
    })  # fmt: skip
    assert extern.get_data("data").dims[1] is extern.get_data("classes").dims[1] is time
    net = rf.Network(extern_data=extern)
    net.construct_from_dict({
        "words": {"class": "linear", "n_out": 5, "from": "data:classes"},
        "both": {"class": "combine", "kind": "add", "from": ["data", "words"]},
        "output": {"class": "reduce", "mode": "sum", "axis": "stag:my_time", "from": "both"},
        "loop": {"class": "rec", "from": [], "axis": time, "is_output_layer": True}
        | {"unit": {"output": {"class": "rec_unstack", "axis": time, "from": "base:both"}}},
    })  # fmt: skip
    batch = {"data": (np.ones((3, 6, 5), "float32"), [6, 4, 0]), "classes": (np.ones((3, 6), "int32"), [6, 4, 0])}
    outputs = net.forward(batch)
    assert set(outputs["both"].dims) == set(outputs["loop"].dims) == {batch_dim, time, outputs["both"].feature_dim}
    assert outputs["both"].size_of(time).values.tolist() == [6, 4, 0]


def test_several_axes_of_several_keys_are_the_same():
    time, speaker, feature = rf.SpatialDim("time"), rf.SpatialDim("speaker"), rf.FeatureDim("feature", 5)
    data = rf.ExternData({
        "data": {"shape": (None, None, 5), "dim": 5, "same_dim_tags_as": {"T": time, "dyn:1": speaker, "F": feature}},
        "speakers": {"dim": 5, "same_dim_tags_as": {"B": batch_dim, "T": speaker}},
        "like data": {"dim": 3, "sparse": True, "same_dim_tags_as": "data"},
    }).data  # fmt: skip
    assert data["data"].dims == (batch_dim, time, speaker, feature)
    assert data["data"].feature_dim is feature
    assert data["speakers"].dims[1] is speaker
    assert data["like data"].dims[1] is time


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_dims_are_the_same_in_a_chain(order):
    """All three keys have one time; the net dict may use each of the dims."""
    first, second, third = (rf.SpatialDim(name) for name in ("first", "second", "third"))
    keys = {
        "a": {"dim_tags": [batch_dim, first, rf.FeatureDim("a", 5)], "same_dim_tags_as": {"T": second}},
        "b": {"dim_tags": [batch_dim, second, rf.FeatureDim("b", 5)], "same_dim_tags_as": {"T": third}},
        "c": {"dim": 5, "same_dim_tags_as": {"T": first}},
    }
    extern = rf.ExternData({key: {**keys[key], "available_for_inference": True} for key in order}, default_input="a")
    assert len({data.dims[1] for data in extern.data.values()}) == 1
    for dim in (first, second, third):
        net = rf.Network(extern_data=extern)
        net.construct_from_dict({"output": {"class": "reduce", "mode": "sum", "axis": dim, "from": "data:b"}})
        assert net.template("output").describe_dims() == "{batch:?, b:5}"


def test_a_dim_without_a_size_may_be_that_of_the_features():
    feature = rf.FeatureDim("feature", None)
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 5, "same_dim_tags_as": {"F": feature}}}))
    net.construct_from_dict({"output": {"class": "reduce", "mode": "sum", "axis": feature, "from": "data"}})
    assert len(net.template("output").dims) == 2


@pytest.mark.parametrize(
    ("described", "same", "what"),
    [
        ({"dim": 5}, {"F": rf.FeatureDim("six", 6)}, "six:6"),
        ({"dim": 5}, {"T": rf.SpatialDim("six", 6)}, "six:6"),
        ({"dim": 5}, {"T": "data"}, "'data'"),
        ({"dim": 5}, {"stag:words": rf.SpatialDim("words")}, "stag:words"),
        ({"dim": 5}, {7: rf.SpatialDim("words")}, "7"),
        ({"dim": 5, "shape": (5,)}, {"T": rf.SpatialDim("words")}, "no axis 'T'"),
    ],
)
def test_what_cannot_be_the_same_is_an_error(described, same, what):
    with pytest.raises(NetworkError, match=what):
        rf.ExternData({"data": {**described, "same_dim_tags_as": same}})


def reduced(described, array, lengths, axis="T"):
    net = rf.Network(extern_data=rf.ExternData({"data": described}))
    net.construct_from_dict({"output": {"class": "reduce", "mode": "sum", "axis": axis, "from": "data"}})
    out = net.forward({"data": (array, lengths)})["output"]
    return out.copy_transpose(net.template("output").dims).raw_tensor.detach().numpy()


def test_time_is_the_axis_that_the_description_says():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(3, 4, 6, 2)).astype("float32")
    first = reduced({"shape": (4, 6, 2), "dim": 2, "time_dim_axis": 1}, x, None)
    np.testing.assert_allclose(first, x.sum(1), rtol=1e-5)
    second = reduced({"shape": (4, 6, 2), "dim": 2, "time_dim_axis": 2}, x, None)
    np.testing.assert_allclose(second, x.sum(2), rtol=1e-5)
    dynamic = reduced({"shape": (None, None, 2), "dim": 2, "time_dim_axis": 2}, x, {1: [4, 4, 4], 2: [6, 2, 1]})
    np.testing.assert_allclose(dynamic[1], x[1, :, :2].sum(1), rtol=1e-5)


def test_the_batch_may_be_another_axis_or_none():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(6, 3, 2)).astype("float32")
    described = {"shape": (None, 2), "dim": 2, "batch_dim_axis": 1, "time_dim_axis": 0}
    for array in (x, torch.tensor(x)):
        np.testing.assert_allclose(reduced(described, array, [6, 2, 1])[1], x[:2, 1].sum(0), rtol=1e-5)
    tags = [rf.SpatialDim("time"), batch_dim, rf.FeatureDim("feature", 2)]
    np.testing.assert_allclose(reduced({"dim_tags": tags}, x, {0: [6, 2, 1]})[1], x[:2, 1].sum(0), rtol=1e-5)
    without = {"shape": (None, 2), "dim": 2, "batch_dim_axis": None}
    np.testing.assert_allclose(reduced(without, x[:, 0], None), x[:, 0].sum(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("kinds", "feature"),
    [
        ([("spatial", None), ("spatial", 5)], 1),
        ([("spatial", 4), ("spatial", None)], 0),
        ([("feature", 4), ("spatial", 5)], 1),
        ([("spatial", None), ("feature", 4), ("feature", 5)], 2),
        ([("spatial", None)], None),
    ],
)
def test_the_features_are_the_last_axis_of_a_fixed_size(kinds, feature):
    dims = [rf.Dim(size, name=f"dim{i}", kind=kind) for i, (kind, size) in enumerate(kinds)]
    data = rf.ExternData({"data": {"dim_tags": [batch_dim, *dims]}}).get_data("data")
    assert data.feature_dim is (None if feature is None else dims[feature])


WRONG = [0, -5, "x", [], object(), 1e10, 10**10, [[1], ["a"]], float("nan"), np.zeros(2), "float33", {1: 2}, (None, -5)]


@pytest.mark.parametrize("option", KINDS)
def test_a_wrong_value_of_any_option_gives_a_typed_error_or_none(option):
    for value in WRONG:
        for described in ({"dim": 5}, {"dim": 5, "sparse": True}, {"shape": (None, 3), "dim": 3}):
            try:
                rf.ExternData({"data": {**described, option: value}}).example(batch=2, frames=3)
            except RfError as error:
                assert error.what


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"data": {"dim": 3, "dtype": -5}}, r"(?s)extern_data 'data': dtype has a value .*int -5.*expected +a string"),
        ({"data": {"dim": 3, "dtype": "float33"}}, r"(?s)unknown `dtype`.*float33.*did you mean"),
        ({"data": {"dim": -3}}, r"(?s)`dim` is not a positive number.*got +-3"),
        ({"data": {"dim": 3, "feature_dim_axis": 7}}, r"(?s)feature_dim_axis is not an axis.*got +7.*expected +0 to 2"),
        ({3: {"dim": 3}}, r"(?s)a key is not a string.*got +3"),
    ],
)
def test_a_wrong_description_is_named(data, words):
    extern = rf.ExternData({"other": {"dim": 2}})
    with pytest.raises(NetworkError, match=words):
        extern.register_data_from_dict({"first": {"dim": 3}, **data})
    assert list(extern) == ["other"]
