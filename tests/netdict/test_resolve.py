"""Names in net dicts: which layer they mean, and what is said if there is none."""

import pytest

import rfnb as rf
from rfnb.errors import DataNotFound, LayerNotFound, NetworkConstructionDependencyLoopException, NetworkError
from rfnb.netdict.resolve import Scope, names_of_sources

COPY = {"class": "copy", "from": "data"}
NET = Scope(
    {
        "encoder": COPY,
        "split": {"class": "split"},
        "sub": {
            "class": "subnetwork",
            "subnetwork": {"x": COPY, "in": {"class": "subnetwork", "subnetwork": {"y": COPY}}},
        },
    }
)


@pytest.mark.parametrize(
    ("reference", "path", "name"),
    [
        ("encoder", "", "encoder"),
        ("data", "", "data"),
        ("data:classes", "", "data:classes"),
        ("sub/x", "sub/", "x"),
        ("sub/in/y", "sub/in/", "y"),
        ("split/0", "", "split/0"),
    ],
)
def test_a_reference_from_the_outermost_net(reference, path, name):
    scope, found = NET.find(reference)
    assert (scope.path, found) == (path, name)


@pytest.mark.parametrize(
    ("reference", "path", "name"),
    [
        ("base:x", "sub/", "x"),
        ("base:base:encoder", "", "encoder"),
        ("base:data", "sub/", "data"),
        ("y", "sub/in/", "y"),
    ],
)
def test_base_is_the_net_around(reference, path, name):
    scope, found = NET.sub("sub").sub("in").find(reference)
    assert (scope.path, found) == (path, name)


@pytest.mark.parametrize("reference", ["encodr", "base:encoder", "sub/z", "prev:encoder", "extra.search:nothing", ""])
def test_an_unknown_layer_is_an_error(reference):
    with pytest.raises(LayerNotFound) as caught:
        NET.find(reference, "output")
    assert "output" in str(caught.value)


def test_the_nearest_name_is_told():
    with pytest.raises(LayerNotFound, match="did you mean 'encoder'"):
        NET.find("encodr")


def test_a_reference_must_be_a_name():
    with pytest.raises(NetworkError, match="not a name"):
        NET.find(3)


@pytest.mark.parametrize(
    ("described", "names"),
    [({"from": "a"}, ["a"]), ({"from": ["a", "none", "b"]}, ["a", "b"]), ({"from": []}, []), ({}, ["data"])],
)
def test_sources(described, names):
    assert names_of_sources(described, "data") == names


def constructed(net_dict, **options):
    extern = rf.ExternData({"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}})
    return rf.Network(extern_data=extern, **options).construct_from_dict(net_dict)


def test_only_what_an_output_needs_is_constructed_each_after_its_sources():
    net = constructed(
        {
            "output": {"class": "copy", "from": "b"},
            "b": {"class": "linear", "n_out": 2, "from": "a"},
            "a": {"class": "copy", "from": "data"},
            "unused": {"class": "linear", "n_out": 2, "from": "a"},
        }
    )
    assert list(net.layers) == ["a", "b", "output"]
    with pytest.raises(LayerNotFound, match="is_output_layer"):
        net.get_layer("unused")


def test_layers_in_a_circle_are_listed():
    net = {
        "output": {"class": "copy", "from": "a"},
        "a": {"class": "copy", "from": "b"},
        "b": {"class": "copy", "from": "a"},
    }
    with pytest.raises(NetworkConstructionDependencyLoopException, match="a → b → a"):
        constructed(net)


def test_an_unknown_data_key_names_the_layer_and_the_nearest_key():
    with pytest.raises(DataNotFound, match=r"output[^\0]*did you mean 'classes'"):
        constructed({"output": {"class": "copy", "from": "data:clases"}})


def test_the_rest_of_a_subnet_is_constructed_after_a_part_that_is_used():
    inner = {"a": {"class": "copy", "from": "data"}, "output": {"class": "copy", "from": "a"}}
    sub = {"class": "subnetwork", "from": "data", "subnetwork": inner}
    net = {"sub": sub, "output": {"class": "copy", "from": "sub/a"}}
    assert [*constructed(net).layers][:2] == ["sub/a", "output"]
    assert {*constructed(net).layers} == {"sub/a", "sub/output", "sub", "output"}
    inner["output"]["from"] = "base:missing"
    with pytest.raises(LayerNotFound, match="missing"):
        constructed(net)


def test_a_net_without_an_end_is_an_error():
    with pytest.raises(NetworkError, match="no layer to construct"):
        constructed({"a": COPY})


def test_a_long_circle_is_an_error_too():
    net = {f"l{i}": {"class": "copy", "from": f"l{(i + 1) % 2000}"} for i in range(2000)}
    with pytest.raises(NetworkConstructionDependencyLoopException, match="circle of 2000 layers"):
        constructed(net | {"output": {"class": "copy", "from": "l7"}})


def test_a_circle_by_an_option_is_an_error():
    net = {
        "output": {"class": "switch", "condition": "c", "true_from": "a", "false_from": 0.0},
        "c": {"class": "compare", "value": 1, "from": "data"},
        "a": {"class": "gather", "axis": "T", "position": "output", "from": "data"},
    }
    with pytest.raises(NetworkConstructionDependencyLoopException, match="output → a → output"):
        constructed(net)
