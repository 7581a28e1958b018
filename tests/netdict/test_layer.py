"""Layers of net dicts: what their construction decides."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import rfnb as rf
from rfnb.netdict.layer import Layer
from rfnb.nn.module.module import Module
from tests.bench.net_dict_models import attention_net


def test_no_batch_changes_what_was_decided():
    extern = rf.ExternData({"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True}})
    for train in (False, True):
        net = rf.Network(extern_data=extern, train_flag=train).construct_from_dict(attention_net(4, 2))
        specs = {path: layer.spec for path, layer in net.every_layer().items()}
        for frames in (5, 3):
            net(extern.example(frames=frames))
        assert all(layer.spec is specs[path] for path, layer in net.every_layer().items())


def test_a_spec_is_frozen_and_holds_no_tensor_of_a_batch():
    extern = rf.ExternData({"data": {"dim": 3}})
    net = rf.Network(extern_data=extern).construct_from_dict(
        {"output": {"class": "linear", "n_out": 2, "activation": "tanh", "batch_norm": True, "from": "data"}}
    )
    net({"data": (np.ones((2, 4, 3), "float32"), [4, 2])})
    spec = net.get_layer("output").spec
    with pytest.raises(FrozenInstanceError):
        spec.feature_dim = None
    assert not [name for name, value in vars(spec).items() if isinstance(value, rf.Tensor)]


def test_a_layer_is_no_notice_board():
    """Of the names of a layer, few are those of all classes."""
    extern = rf.ExternData({"data": {"dim": 3}})
    net = rf.Network(extern_data=extern).construct_from_dict({"output": {"class": "copy", "from": "data"}})
    names = {*vars(Layer), *vars(net.get_layer("output"))} - {*vars(Module), "__qualname__"}
    assert len(names) <= 40
