"""`rf.ExternData`: descriptions of data keys, and the Tensors of a batch."""

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DataNotFound, NetworkError, RfError
from rfnb.network.extern_data import KINDS


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
