"""`rf.to_code`: what the text is like, what it leaves alone, and that names of strangers do nothing in it."""

import ast

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError
from tests.netdict.code.agreement import check_code_of

BLSTM = {
    "fw": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "data", "dropout": 0.1, "L2": 0.01},
    "bw": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "direction": -1, "from": "data", "L2": 0.01},
    "fw1": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": ["fw", "bw"]},
    "output": {"class": "softmax", "loss": "ce", "target": "classes", "from": "fw1"},
}
EXTERN = {"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}}


def network(layers, extern=EXTERN):
    return rf.Network(extern_data=rf.ExternData(extern), train_flag=None).construct_from_dict(layers)


def test_the_file_runs_in_a_process_of_its_own_and_agrees():
    code = rf.to_code(network(BLSTM), check=True)
    assert "self.fw1 = Rec" in code and "rf.dropout(x, 0.1" in code
    assert "in_training" not in code  # dropout does nothing in evaluation: one form for both


def test_a_difference_is_an_error_that_names_what_differs(monkeypatch):
    from rfnb.netdict.code.module import ModuleWriter

    text = ModuleWriter.text
    monkeypatch.setattr(ModuleWriter, "text", lambda self: text(self).replace("0.01 * sum", "0.02 * sum"))
    with pytest.raises(NetworkError, match="constraints"):
        check_code_of(network(BLSTM))


def test_the_net_and_the_random_numbers_stay_as_they_were():
    net = network({"bn": {"class": "batch_norm", "from": "data"}, "output": {"class": "copy", "from": "bn"}})
    before = {name: x.numpy().copy() for name, x in net.named_parameters()}
    state = rf.get_random_state()
    rf.to_code(net)
    assert rf.get_random_state() == state
    for name, x in net.named_parameters():
        np.testing.assert_array_equal(x.numpy(), before[name])


@pytest.mark.parametrize("name", ['x"""; import os', "a\nimport os", "class", "rf", "print", "é'\\", "0", "self"])
def test_names_of_strangers_are_names_in_the_code(name):
    layers = {
        name: {"class": "linear", "activation": "relu", "n_out": 2, "from": f"data:{name}"},
        "output": {"class": "linear", "n_out": 2, "from": name, "is_output_layer": True},
    }
    net = rf.Network(name=name, extern_data=rf.ExternData({name: {"dim": 3, "available_for_inference": True}}))
    code = check_code_of(net.construct_from_dict(layers))
    nodes = list(ast.walk(ast.parse(code)))
    imports = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert imports == ["rfnb"] and not any(isinstance(node, ast.ImportFrom | ast.Global) for node in nodes)


def test_ops_that_depend_on_the_size_of_the_batch_have_no_form():
    layers = {
        "output": {"class": "eval", "eval": "source(0) * tf.cast(tf.shape(source(0))[1], 'float32')", "from": "data"}
    }
    with pytest.raises(NetworkError, match="its ops depend on the size of the batch"):
        rf.to_code(network(layers))
