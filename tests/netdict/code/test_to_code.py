"""`rf.to_code`: what the text is like, what it leaves alone, and that names of strangers do nothing in it."""

import ast

import numpy as np
import pytest
import torch

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


def test_the_example_in_torch_runs_without_rfnb_and_agrees():
    net = rf.Network.from_config(rf.examples.path("blstm_hybrid.config"))
    code = rf.to_code(net, target="torch", check=True)
    for made in (
        "nn.LSTM(in_dim, out_dim, batch_first=True)",
        "nn.Linear(in_dim, out_dim)",
        "nn.Conv2d(in_dim, out_dim",
    ):
        assert made in code
    assert "rfnb" not in code and "pack_padded_sequence" in code


CONFORMER = {
    "conv": {"class": "conv", "from": "data", "filter_size": [3], "strides": 2, "padding": "same", "n_out": 8},
    "ln": {"class": "layer_norm", "from": "conv"},
    "rel": {"class": "relative_positional_encoding", "from": "ln", "n_out": 4},
    "att": {"class": "self_attention", "from": "ln", "num_heads": 2, "total_key_dim": 8, "n_out": 8,
            "attention_dropout": 0.1, "key_shift": "rel"},
    "res": {"class": "combine", "kind": "add", "from": ["att", "conv"]},
    "depthwise": {"class": "conv", "from": "res", "filter_size": [3], "padding": "same", "groups": 8,
                  "n_out": 8},
    "bn": {"class": "batch_norm", "from": "depthwise", "masked_time": True, "param_version": 1},
    "drop": {"class": "dropout", "from": "bn", "dropout": 0.2},
    "output": {"class": "softmax", "from": "drop", "loss": "ctc", "target": "classes"},
}  # fmt: skip


def test_a_conformer_in_torch_counts_its_true_lengths():
    net = network(CONFORMER)
    draw = np.random.default_rng(1)
    data = draw.normal(size=(3, 13, 5)).astype("float32"), [13, 9, 5]
    for labels in (3, 7):  # the shortest sequence has 3 frames after the convolution: 7 labels have no alignment
        batch = {"data": data, "classes": (draw.integers(0, 2, (3, labels)), [labels, 2, labels - 1])}
        code = check_code_of(net, batch, "torch")
    assert '{"output": lengths}' in code and "lengths = -(-data_lengths // 2)" in code
    for called in ("nn.LayerNorm(", "masked_moments(", "ctc_loss(", "masked_fill(~mask", "F.dropout(", "groups=8"):
        assert called in code


def test_a_difference_in_torch_is_an_error(monkeypatch):
    from rfnb.netdict.code.torch_module import TorchWriter

    text = TorchWriter.text
    monkeypatch.setattr(TorchWriter, "text", lambda self: text(self).replace("(1, 2, 0, 3)", "(0, 1, 2, 3)"))
    with pytest.raises(NetworkError, match="computes something else"):
        check_code_of(network(BLSTM), target="torch")


def test_wrong_lengths_of_an_output_in_torch_are_an_error(monkeypatch):
    from rfnb.netdict.code.torch_module import TorchWriter

    text = TorchWriter.text
    monkeypatch.setattr(TorchWriter, "text", lambda self: text(self).replace(": data_lengths}", ": data_lengths + 1}"))
    with pytest.raises(NetworkError, match=": lengths output"):
        check_code_of(network(BLSTM), target="torch")


def test_layers_named_like_methods_of_torch_modules_get_other_names():
    layers = {
        "train": {"class": "linear", "n_out": 2, "from": "data"},
        "float": {"class": "subnetwork", "from": "train", "subnetwork": {
            "T": {"class": "linear", "n_out": 2, "from": "data"}, "output": {"class": "copy", "from": "T"}}},
        "output": {"class": "linear", "n_out": 2, "from": "float", "is_output_layer": True},
    }  # fmt: skip
    assert "self.train_ = Linear(5, 2)" in check_code_of(network(layers), target="torch")


def test_a_cell_that_torch_has_not_is_a_loop_over_its_steps():
    layers = {
        "output": {"class": "rec", "unit": "rhn", "n_out": 4, "from": "data"},
        "last": {"class": "get_last_hidden_state", "from": "output", "n_out": 4, "is_output_layer": True},
    }
    code = check_code_of(network(layers), target="torch")
    assert "for t in range(x.shape[1]):" in code and "h = torch.where(mask[:, t, None], " in code
    assert code.count("frame_mask(lengths, x.shape[1])") == 1 and code.index("mask = ") < code.index("for t in ")


DECODER = {
    "enc": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "data"},
    "output": {"class": "rec", "from": [], "target": "classes", "unit": {
        "output": {"class": "choice", "target": "classes", "beam_size": 4, "from": "prob", "initial_output": 0},
        "embed": {"class": "linear", "activation": None, "n_out": 4, "from": "output", "initial_output": 0},
        "a": {"class": "copy", "from": "prev:b"},
        "b": {"class": "combine", "kind": "add", "from": ["prev:a", "s"]},
        "s": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": ["prev:embed", "prev:att"]},
        "energy": {"class": "dot", "from": ["base:enc", "s"], "red1": "F", "red2": "F", "var1": "T", "var2": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
        "prob": {"class": "softmax", "from": ["s", "att", "a"], "dropout": 0.5, "target": "classes", "loss": "ce"},
    }},
}  # fmt: skip
"""The states a and b take each other's value: neither may be set before the other is read."""


def test_a_checkpoint_that_lacks_parameters_of_the_torch_code_is_an_error():
    net, code = network(BLSTM), {}
    exec(rf.to_code(net, target="torch"), code)
    parameters = {name: parameter.raw_tensor.detach() for name, parameter in net.named_parameters()}
    model = code["Net"]()
    code["load_checkpoint"](model, parameters)
    assert torch.equal(model.output.linear.weight, parameters["output.W"].T)
    other = {name: torch.zeros_like(value) for name, value in parameters.items() if name != "output.W"}
    for wrong, words in ((other, "output.linear.weight"), ({**parameters, "fw/rec/W": torch.ones(1)}, "fw/rec/W")):
        with pytest.raises(ValueError, match=f"does not fit: .*{words}"):
            code["load_checkpoint"](model, wrong)
    assert torch.equal(model.output.linear.bias, parameters["output.b"])  # nothing was changed


def test_an_attention_decoder_in_torch_is_a_loop_with_a_cell():
    code = rf.to_code(network(DECODER), target="torch", check=True)
    loop = code[code.index("for t in range(classes.shape[1]):") :]
    assert "nn.LSTMCell(8, 4)" in code.replace("in_dim, out_dim", "8, 4") and "self.output.s(" in loop
    assert "prev_b, prev_a = " in loop or "prev_a, prev_b = " in loop
    assert code.index("mask = frame_mask(") < code.index("for t in range(")


@pytest.mark.parametrize("include_eos, lengths", [(True, [3, 2]), (False, [2, 1])])
def test_a_loop_in_torch_that_ends_gives_the_lengths_of_its_outputs(include_eos, lengths):
    unit = {
        "i": {"class": "combine", "kind": "add", "from": ["prev:i", "base:sum"]},
        "end": {"class": "compare", "kind": "greater_equal", "from": "i", "value": 6.0},
        "output": {"class": "copy", "from": "i"},
    }
    layers = {
        "sum": {"class": "reduce", "mode": "sum", "axes": ["T", "F"], "from": "data"},
        "output": {"class": "rec", "from": [], "max_seq_len": 9, "include_eos": include_eos, "unit": unit},
    }
    x = np.zeros((2, 3, 1), "float32")
    x[:, 0, 0] = [2.0, 3.0]
    code = check_code_of(network(layers, {"data": {"dim": 1}}), {"data": (x, [3, 2])}, "torch")
    namespace = {}
    exec(code, namespace)
    outputs, _, found = namespace["Net"]()(torch.as_tensor(x), torch.tensor([3, 2]))
    assert found["output"].tolist() == lengths and outputs["output"].shape == (2, lengths[0])


def test_a_wrong_step_of_a_loop_in_torch_is_an_error(monkeypatch):
    from rfnb.netdict.code import torch_body

    monkeypatch.setattr(torch_body, "at_once", lambda updates: [f"{name} = {text}" for name, text in updates])
    with pytest.raises(NetworkError, match="computes something else"):
        check_code_of(network(DECODER), target="torch")


def test_the_net_and_the_random_numbers_stay_as_they_were():
    net = network({"bn": {"class": "batch_norm", "from": "data"}, "output": {"class": "copy", "from": "bn"}})
    before = {name: x.numpy().copy() for name, x in net.named_parameters()}
    state = rf.get_random_state()
    rf.to_code(net)
    assert rf.get_random_state() == state
    for name, x in net.named_parameters():
        np.testing.assert_array_equal(x.numpy(), before[name])


@pytest.mark.parametrize("target", ["rf", "torch"])
@pytest.mark.parametrize("name", ['x"""; import os', "a\nimport os", "class", "rf", "print", "é'\\", "0", "self"])
def test_names_of_strangers_are_names_in_the_code(name, target):
    layers = {
        name: {"class": "linear", "activation": "relu", "n_out": 2, "from": f"data:{name}"},
        "output": {"class": "linear", "n_out": 2, "from": name, "is_output_layer": True},
    }
    net = rf.Network(name=name, extern_data=rf.ExternData({name: {"dim": 3, "available_for_inference": True}}))
    code = check_code_of(net.construct_from_dict(layers), target=target)
    nodes = list(ast.walk(ast.parse(code)))
    imports = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert imports == {"rf": ["rfnb"], "torch": ["torch", "torch.nn.functional"]}[target]
    modules = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert modules == {"rf": [], "torch": ["typing", "torch"]}[target]
    assert not any(isinstance(node, ast.Global) for node in nodes)


def stack(source):
    rec = {"class": "rec", "unit": "nativelstm2", "n_out": 4}
    part = {"f": {**rec, "from": "data"}, "b": {**rec, "direction": -1, "from": "data"}}
    return {
        "class": "subnetwork",
        "from": source,
        "subnetwork": {**part, "output": {"class": "copy", "from": ["f", "b"]}},
    }


@pytest.mark.parametrize("target", ["rf", "torch"])
@pytest.mark.parametrize(
    "more", [{}, {"block": {"class": "linear", "n_out": 8, "from": "l1"}}], ids=["", "named block"]
)
def test_blocks_that_follow_each_other_are_a_loop(target, more):
    layers = {"l1": stack("data"), **more, "l2": stack("block" if more else "l1"), "l3": stack("l2"), "l4": stack("l3")}
    softmax = {"class": "softmax", "loss": "ce", "target": "classes", "from": "l4"}
    code = check_code_of(network({**layers, "output": softmax}), target=target)
    first = "" if more else "self.l1, "
    assert f" = [{first}self.l2, self.l3, self.l4]" in code and "self.l3 = " in code
    assert code.count(".f(") == (1 if first else 2)


def test_a_block_whose_value_is_used_later_is_not_in_a_loop():
    layers = {"l1": stack("data"), "l2": stack("l1"), "l3": stack("l2")}
    sum_of = {"class": "combine", "kind": "add", "from": ["l1", "l3"], "is_output_layer": True}
    code = check_code_of(network({**layers, "output": sum_of}), target="torch")
    assert "self.l1.f(" in code and " = [self.l2, self.l3]" in code


COMMENTED = """
extern_data = {"data": {"dim": 5}}
# of nobody

network = {
    # Logarithms, "as ever" (
    # of energies)
    "log": {"class": "activation", "activation": "exp", "from": "data"},  # exp(log
    "output": {"class": "linear", "activation": None, "n_out": 3, "from": "log"},  # %s
}
"""


@pytest.mark.parametrize("target", ["rf", "torch"])
def test_comments_of_the_config_stand_above_the_lines_of_their_layers(target, tmp_path):
    path = tmp_path / "net.config"
    path.write_text(COMMENTED % ("f(" + "a, " * 60 + "import os)\x0cimport os"), encoding="utf-8")
    code = check_code_of(rf.Network.from_config(path), target=target)
    lines = [line.strip() for line in code.split("\n")]
    at = next(i for i, line in enumerate(lines) if line.startswith("log = "))
    assert lines[at - 3 : at] == ['# Logarithms, "as ever" (', "# of energies)", "# exp(log"]
    at = next(i for i, line in enumerate(lines) if line.startswith("self.output = "))
    assert lines[at - 1].startswith("# f(a, a,") and "nobody" not in code
    assert code.count("import os") == 0 and len(code.splitlines()) == code.count("\n")


def test_ops_that_depend_on_the_size_of_the_batch_have_no_form():
    layers = {
        "output": {"class": "eval", "eval": "source(0) * tf.cast(tf.shape(source(0))[1], 'float32')", "from": "data"}
    }
    with pytest.raises(NetworkError, match="its ops depend on the size of the batch"):
        rf.to_code(network(layers))
