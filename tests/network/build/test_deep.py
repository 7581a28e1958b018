"""A chain of layers in a loop, longer than Python nests calls by default; the limit is then as before."""

import sys
from itertools import pairwise

import numpy as np

import rfnb as rf

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
