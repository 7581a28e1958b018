"""A chain of layers in a loop, longer than Python nests calls by default; the limit is then as before."""

import sys
from itertools import pairwise

import numpy as np

import rfnb as rf
from rfnb.netdict.builder import DEEPEST, deep_calls, layers_in_loops

LAYERS = 400


def test_a_long_chain_in_a_loop():
    unit = {"first": {"class": "combine", "kind": "add", "from": ["data:source", "prev:output"]}}
    names = ["first", *(f"layer{i}" for i in range(LAYERS)), "output"]
    for below, name in pairwise(names):
        unit[name] = {"class": "eval", "eval": "source(0) * 1.0", "from": below}
    before = sys.getrecursionlimit()
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    net.construct_from_dict({"output": {"class": "rec", "unit": unit, "from": "data"}})
    assert sys.getrecursionlimit() == before
    x = np.random.default_rng(0).normal(size=(2, 3, 2)).astype("float32")
    out = net.forward({"data": (x, [3, 2])})["output"]
    found = out.copy_transpose([rf.batch_dim, *(dim for dim in out.dims if dim is not rf.batch_dim)])
    np.testing.assert_allclose(found.raw_tensor.numpy()[0], np.cumsum(x, 1)[0], rtol=1e-5)


def test_blocks_of_threads_may_overlap():
    """The limit is as before when the last one has ended, in whatever order."""
    before = sys.getrecursionlimit()
    first, second = deep_calls(100), deep_calls(1000)
    first.__enter__()
    second.__enter__()
    assert sys.getrecursionlimit() == before + 20 * 1000
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before + 20 * 1000
    with deep_calls(10**9):
        assert sys.getrecursionlimit() == DEEPEST
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before


def test_only_layers_in_loops_count():
    layer = {"class": "copy", "from": "data"}
    inner = {"class": "subnetwork", "subnetwork": {"a": layer, "output": layer}}
    cond = {"class": "cond", "true_layer": inner, "false_layer": layer}
    unit = {"a": layer, "b": inner, "output": layer}
    assert layers_in_loops({"a": layer, "b": inner, "rec": {"class": "rec", "unit": "lstm"}}) == 0
    assert layers_in_loops({"rec": {"class": "rec", "unit": unit}}) == 5
    assert layers_in_loops({"masked": {"class": "masked_computation", "unit": inner}, "cond": cond}) == 3 + 4


def test_residual_connections_in_a_loop_are_looked_at_once():
    """What the step before gives is guessed before the layers are constructed: by layers, not by paths of them."""
    unit = {"first": {"class": "combine", "kind": "add", "from": ["data:source", "prev:output"]}}
    names = ["first", *(f"layer{i}" for i in range(60)), "output"]
    for below, name in pairwise(names):
        unit[name] = {"class": "combine", "kind": "maximum", "from": [below, below]}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    net.construct_from_dict({"output": {"class": "rec", "unit": unit, "from": "data"}})
    x = np.random.default_rng(0).normal(size=(1, 3, 2)).astype("float32")
    out = net.forward({"data": (x, [3])})["output"]
    np.testing.assert_allclose(out.raw_tensor.numpy().reshape(3, 2), np.cumsum(x[0], 0), rtol=1e-5)
