"""Configs of the kinds that people published: read, reported, drawn, trained for a step, searched; and with damage."""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, strategies as st

import rfnb as rf
from rfnb.errors import RfError
from tests.examples import examples

ASR = 'extern_data = {"data": {"dim": 8}, "classes": {"dim": 7, "sparse": True}}\n'
FRAMES = ASR.replace('"sparse": True', '"sparse": True, "same_dim_tags_as": "data"')
TEXT = 'extern_data = {"data": {"dim": 9, "sparse": True}, "classes": {"dim": 7, "sparse": True}}\n'
LM = (
    'extern_data = {"delayed": {"dim": 7, "sparse": True}, '
    '"data": {"dim": 7, "sparse": True, "same_dim_tags_as": "delayed"}}\n'
)

ATTENTION = """
target = "classes"
network = {
"lstm0_fw": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "direction": 1, "from": ["data"]},
"lstm0_bw": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "direction": -1, "from": ["data"]},
"lstm0_pool": {"class": "pool", "mode": "max", "padding": "same", "pool_size": (2,), "from": ["lstm0_fw", "lstm0_bw"]},
"encoder": {"class": "copy", "from": ["lstm0_pool"]},
"enc_ctx": {"class": "linear", "activation": None, "with_bias": True, "from": ["encoder"], "n_out": 6},
"inv_fertility": {"class": "linear", "activation": "sigmoid", "with_bias": False, "from": ["encoder"], "n_out": 1},
"ctc": {"class": "softmax", "from": ["encoder"], "loss": "ctc", "target": target,
    "loss_opts": {"beam_width": 1, "ctc_opts": {"ignore_longer_outputs_than_inputs": True}}},
"output": {"class": "rec", "from": [], "target": target, "max_seq_len": "max_len_from('base:encoder')", "unit": {
    "output": {"class": "choice", "target": target, "beam_size": 3, "cheating": config.bool("cheating", False),
        "from": ["output_prob"], "initial_output": 0},
    "end": {"class": "compare", "from": ["output"], "value": 0},
    "target_embed": {"class": "linear", "activation": None, "with_bias": False, "from": ["output"], "n_out": 5,
        "initial_output": 0},
    "weight_feedback": {"class": "linear", "activation": None, "with_bias": False,
        "from": ["prev:accum_att_weights"], "n_out": 6},
    "s_transformed": {"class": "linear", "activation": None, "with_bias": False, "from": ["s"], "n_out": 6},
    "energy_in": {"class": "combine", "kind": "add", "from": ["base:enc_ctx", "weight_feedback", "s_transformed"],
        "n_out": 6},
    "energy_tanh": {"class": "activation", "activation": "tanh", "from": ["energy_in"]},
    "energy": {"class": "linear", "activation": None, "with_bias": False, "from": ["energy_tanh"], "n_out": 1},
    "att_weights": {"class": "softmax_over_spatial", "from": ["energy"]},
    "accum_att_weights": {"class": "eval", "from": ["prev:accum_att_weights", "att_weights", "base:inv_fertility"],
        "eval": "source(0) + source(1) * source(2) * 0.5", "out_type": {"dim": 1, "shape": (None, 1)}},
    "att": {"class": "generic_attention", "weights": "att_weights", "base": "base:encoder"},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["prev:target_embed", "prev:att"], "n_out": 6},
    "readout_in": {"class": "linear", "from": ["s", "prev:target_embed", "att"], "activation": None, "n_out": 8},
    "readout": {"class": "reduce_out", "mode": "max", "num_pieces": 2, "from": ["readout_in"]},
    "output_prob": {"class": "softmax", "from": ["readout"], "dropout": 0.3, "target": target, "loss": "ce",
        "loss_opts": {"label_smoothing": 0.1}}}},
"decision": {"class": "decide", "from": ["output"], "loss": "edit_distance", "target": target,
    "loss_opts": {}, "only_on_search": True},
}
"""

TRANSFORMER = """
dim, heads = 8, 2
init = "variance_scaling_initializer(mode='fan_in', distribution='uniform', scale=1.0)"
def feed_forward(net, prefix, source):
    net[prefix + "_ln"] = {"class": "layer_norm", "from": [source]}
    net[prefix + "_1"] = {"class": "linear", "activation": "relu", "with_bias": True, "from": [prefix + "_ln"],
        "n_out": 2 * dim, "forward_weights_init": init}
    net[prefix + "_2"] = {"class": "linear", "activation": None, "with_bias": True, "from": [prefix + "_1"],
        "n_out": dim, "dropout": 0.1, "forward_weights_init": init}
    net[prefix + "_out"] = {"class": "combine", "kind": "add", "from": [source, prefix + "_2"], "n_out": dim}
    return prefix + "_out"
def self_att(net, prefix, source, left_only):
    net[prefix + "_ln"] = {"class": "layer_norm", "from": [source]}
    net[prefix + "_att"] = {"class": "self_attention", "num_heads": heads, "total_key_dim": dim, "n_out": dim,
        "from": [prefix + "_ln"], "attention_left_only": left_only, "attention_dropout": 0.1,
        "forward_weights_init": init}
    net[prefix + "_drop"] = {"class": "dropout", "dropout": 0.1, "from": [prefix + "_att"]}
    net[prefix + "_add"] = {"class": "combine", "kind": "add", "from": [source, prefix + "_drop"], "n_out": dim}
    return prefix + "_add"
network = {"emb": {"class": "linear", "activation": None, "with_bias": False, "from": ["data"], "n_out": dim},
    "emb_pos": {"class": "positional_encoding", "add_to_input": True, "from": ["emb"]}}
last = "emb_pos"
for i in range(2):
    last = feed_forward(network, "enc%i_ff" % i, self_att(network, "enc%i_self" % i, last, False))
network["encoder"] = {"class": "layer_norm", "from": [last]}
unit = {"output": {"class": "choice", "target": "classes", "beam_size": 2, "from": ["output_prob"],
            "initial_output": 0},
    "end": {"class": "compare", "from": ["output"], "value": 0},
    "emb0": {"class": "linear", "activation": None, "with_bias": False, "from": ["prev:output"], "n_out": dim},
    "emb": {"class": "positional_encoding", "add_to_input": True, "from": ["emb0"]}}
last = "emb"
for i in range(2):
    name = "dec%i" % i
    network[name + "_key0"] = {"class": "linear", "activation": None, "with_bias": False, "from": ["encoder"],
        "n_out": dim}
    network[name + "_key"] = {"class": "split_dims", "axis": "F", "dims": (heads, dim // heads),
        "from": [name + "_key0"]}
    network[name + "_value0"] = {"class": "linear", "activation": None, "with_bias": False, "from": ["encoder"],
        "n_out": dim}
    network[name + "_value"] = {"class": "split_dims", "axis": "F", "dims": (heads, dim // heads),
        "from": [name + "_value0"]}
    last = self_att(unit, name + "_self", last, True)
    unit[name + "_q_ln"] = {"class": "layer_norm", "from": [last]}
    unit[name + "_q0"] = {"class": "linear", "activation": None, "with_bias": False, "from": [name + "_q_ln"],
        "n_out": dim}
    unit[name + "_q"] = {"class": "split_dims", "axis": "F", "dims": (heads, dim // heads), "from": [name + "_q0"]}
    unit[name + "_energy"] = {"class": "dot", "red1": -1, "red2": -1, "var1": "T", "var2": "T?",
        "from": ["base:" + name + "_key", name + "_q"]}
    unit[name + "_weights"] = {"class": "softmax_over_spatial", "from": [name + "_energy"],
        "energy_factor": (dim // heads) ** -0.5}
    unit[name + "_att0"] = {"class": "generic_attention", "weights": name + "_weights",
        "base": "base:" + name + "_value"}
    unit[name + "_att"] = {"class": "merge_dims", "axes": "static", "from": [name + "_att0"]}
    unit[name + "_add"] = {"class": "combine", "kind": "add", "from": [last, name + "_att"], "n_out": dim}
    last = feed_forward(unit, name + "_ff", name + "_add")
unit["decoder"] = {"class": "layer_norm", "from": [last]}
unit["output_prob"] = {"class": "softmax", "from": ["decoder"], "target": "classes", "loss": "ce", "with_bias": True,
    "loss_opts": {"label_smoothing": 0.1}, "reuse_params": None}
network["output"] = {"class": "rec", "from": [], "target": "classes", "max_seq_len": "max_len_from('base:encoder') * 3",
    "unit": unit}
"""

TRANSDUCER = """
def decoder(blank):
    def lstm(source):
        return {"class": "masked_computation", "mask": "prev:is_label", "from": source,
            "unit": {"class": "subnetwork", "from": "data", "subnetwork": {
                "emb": {"class": "linear", "n_out": 5, "activation": None, "from": "data"},
                "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 6, "from": "emb"},
                "output": {"class": "copy", "from": "lstm"}}}}
    return {
        "slow": lstm("prev:output"),
        "joint": {"class": "linear", "activation": "tanh", "n_out": 8, "from": ["data:source", "slow"]},
        "p": {"class": "softmax", "from": "joint", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "target": "classes", "from": "p", "beam_size": 3, "initial_output": 0,
            "length_normalization": False},
        "is_label": {"class": "compare", "from": "output", "value": blank, "kind": "not_equal",
            "initial_output": True},
    }
network = {
    "enc": {"class": "rec", "unit": "nativelstm2", "n_out": 6, "from": "data", "dropout": 0.1, "L2": 1e-4},
    "output": {"class": "rec", "from": "enc", "target": "classes", "unit": decoder(0)},
}
"""

CTC = """
import numpy
behavior_version = 12
network = {}
last = "data"
for i, (width, stride) in enumerate([(3, 1), (3, 2)]):
    network["conv%i" % i] = {"class": "conv", "from": last, "filter_size": (width,), "strides": (stride,),
        "padding": "same", "n_out": 6, "activation": "relu", "in_spatial_dims": ["T"]}
    network["bn%i" % i] = {"class": "batch_norm", "from": "conv%i" % i, "masked_time": True}
    last = "bn%i" % i
for i, rate in enumerate(numpy.linspace(0.1, 0.2, 2)):
    for direction, tag in [(1, "fwd"), (-1, "bwd")]:
        network["%s_%i" % (tag, i)] = {"class": "rec", "unit": "nativelstm2", "n_out": 5, "direction": direction,
            "from": last, "dropout": float(rate), "L2": 0.01}
    last = ["fwd_%i" % i, "bwd_%i" % i]
network["output"] = {"class": "softmax", "from": last, "loss": "ctc", "target": "classes"}
"""

OLD = """
network = {
"hidden1": {"class": "hidden", "activation": "relu", "n_out": 10, "from": ["data"], "dropout": 0.1, "L2": 0.001},
"hidden2": {"class": "forward", "activation": "sigmoid", "n_out": 10, "from": ["hidden1"], "dropout": 0.2},
"windowed": {"class": "window", "window_size": 3, "from": ["hidden2"]},
"flat": {"class": "merge_dims", "axes": "static", "from": ["windowed"]},
"hidden3": {"class": "hidden", "activation": "tanh", "n_out": 6, "from": ["flat", "hidden1"]},
"output": {"class": "softmax", "loss": "ce", "from": ["hidden3"], "loss_scale": 0.5}
}
"""

LANGUAGE_MODEL = """
network = {
"input": {"class": "linear", "activation": "identity", "n_out": 8, "from": ["data:delayed"], "with_bias": False,
    "forward_weights_init": "random_normal_initializer(mean=0.0, stddev=0.1)"},
}
for i in range(2):
    below = "input" if i == 0 else "block%i" % (i - 1)
    network["block%i" % i] = {"class": "subnetwork", "from": below, "subnetwork": {
        "ln": {"class": "layer_norm", "from": "data"},
        "att": {"class": "self_attention", "num_heads": 2, "total_key_dim": 8, "n_out": 8, "from": "ln",
            "attention_left_only": True},
        "lin": {"class": "linear", "activation": None, "n_out": 8, "from": "att"},
        "res": {"class": "combine", "kind": "add", "from": ["data", "lin"]},
        "gate": {"class": "linear", "activation": None, "n_out": 16, "from": "res"},
        "gated": {"class": "gating", "activation": None, "from": "gate"},
        "output": {"class": "combine", "kind": "add", "from": ["res", "gated"]}}}
network["output"] = {"class": "softmax", "from": ["block1"], "loss": "ce", "target": "data", "dropout": 0.1,
    "use_transposed_weights": True, "reuse_params": {"map": {"W": {"reuse_layer": "input"}, "b": None}}}
"""

TRANSLATION = """
dropout = config.float("dropout", 0.1)
network = {
"source_embed": {"class": "linear", "activation": None, "with_bias": False, "n_out": 6, "from": "data"},
"fw": {"class": "rec", "unit": "standardlstm", "unit_opts": {"forget_bias": 0.0}, "n_out": 5, "from": "source_embed"},
"bw": {"class": "rec", "unit": "standardlstm", "n_out": 5, "direction": -1, "from": "source_embed"},
"encoder": {"class": "copy", "from": ["fw", "bw"]},
"enc_ctx": {"class": "linear", "activation": None, "with_bias": True, "from": "encoder", "n_out": 8},
"enc_state": {"class": "get_last_hidden_state", "from": ["fw", "bw"], "key": "c", "n_out": 10},
"init": {"class": "linear", "activation": "tanh", "from": "enc_state", "n_out": 7},
"output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 12, "unit": {
    "output": {"class": "choice", "target": "classes", "beam_size": 4, "from": "prob", "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
    "embed": {"class": "linear", "activation": None, "with_bias": False, "from": "output", "n_out": 6,
        "initial_output": 0},
    "s": {"class": "rnn_cell", "unit": "gru", "from": ["prev:embed", "prev:att"], "n_out": 7,
        "initial_state": "base:init"},
    "query": {"class": "linear", "activation": None, "with_bias": False, "from": "s", "n_out": 8},
    "energy": {"class": "linear", "activation": "tanh", "from": "sum", "n_out": 1},
    "sum": {"class": "combine", "kind": "add", "from": ["base:enc_ctx", "query"]},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "readout": {"class": "linear", "activation": "relu", "from": ["s", "prev:embed", "att"], "n_out": 9},
    "prob": {"class": "softmax", "from": "readout", "dropout": dropout, "target": "classes", "loss": "ce"}}},
"decide": {"class": "decide", "from": "output", "only_on_search": True, "loss": "bleu" if False else "edit_distance",
    "target": "classes"},
}
"""

CLOSURES = """
from functools import partial
class Builder:
    def __init__(self, net):
        self.net, self.count = net, 0
    def add(self, cls, source, **options):
        self.count += 1
        name = "{}_{}".format(cls, self.count)
        self.net[name] = dict(options, **{"class": cls, "from": source})
        return name
def residual(builder, activation):
    def wrap(source):
        inner = builder.add("linear", source, n_out=8, activation=activation, L2=0.01)
        return builder.add("combine", [source, inner], kind="add")
    return wrap
def warped(source, **kwargs):
    import tensorflow as tf
    x = source(0)
    return x * tf.cast(tf.shape(x)[-1], tf.float32) ** -0.5
def get_network(epoch, **kwargs):
    net = {}
    b = Builder(net)
    last = b.add("linear", "data", n_out=8, activation="relu")
    for make in [partial(residual, b)] * min(epoch, 3):
        last = make("tanh")(last)
    net["scaled"] = {"class": "eval", "from": last, "eval": warped}
    net["output"] = {"class": "softmax", "from": "scaled", "loss": "ce", "target": "classes"}
    return net
"""

FRONT_END = """
extern_data = {"data": {"shape": (None, 1), "dim": 1}, "classes": {"dim": 7, "sparse": True}}
network = {
"stft": {"class": "stft", "frame_shift": 4, "frame_size": 16, "fft_size": 16, "from": "data"},
"abs": {"class": "activation", "from": "stft", "activation": "abs"},
"mel": {"class": "mel_filterbank", "from": "abs", "fft_size": 16, "nr_of_filters": 3, "n_out": 3},
"log": {"class": "activation", "from": "mel", "activation": "safe_log", "opts": {"eps": 1e-10}},
"dct": {"class": "eval", "from": "log", "eval": "source(0) - tf.reduce_mean(source(0), axis=-1, keepdims=True)"},
"image": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "dct"},
"conv": {"class": "conv", "from": "image", "filter_size": (3, 3), "padding": "same", "n_out": 3, "activation": "swish",
    "with_bias": True},
"pool": {"class": "pool", "from": "conv", "pool_size": (1, 2), "mode": "max", "padding": "same"},
"flat": {"class": "merge_dims", "axes": "except_time", "from": "pool"},
"lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 5, "from": "flat"},
"pooled": {"class": "reduce", "mode": "mean", "axes": "T", "from": "lstm"},
"frames": {"class": "prefix_in_time", "from": "lstm", "prefix": 0.0},
"output": {"class": "softmax", "from": "lstm", "loss": "ctc", "target": "classes"},
}
"""

CONFIGS = {
    "attention": ASR + ATTENTION,
    "transformer": TEXT + TRANSFORMER,
    "transducer": FRAMES + TRANSDUCER,
    "ctc": ASR + CTC,
    "old": FRAMES + OLD,
    "language model": LM + LANGUAGE_MODEL,
    "translation": TEXT + TRANSLATION,
    "closures": FRAMES + CLOSURES,
    "front end": FRONT_END,
}
SEARCHED = ("attention", "transformer", "transducer", "translation")


@pytest.fixture
def path(request, tmp_path):
    """The file of a config."""
    path = tmp_path / "returnn.config"
    path.write_text(CONFIGS[request.param])
    return path


def example(net):
    """Random data, with frames enough for the labels of CTC."""
    rf.set_random_seed(2)
    draw, batch = np.random.default_rng(1), {}
    has_ctc = any(layer.spec.common.loss == "ctc" for layer in net.layers.values())
    frames = net.extern_data.get_data("data").dims[1]
    for key, data in net.extern_data.data.items():
        longest = 30 if has_ctc and data.dims[1] is frames else 4
        shape = [2, longest, *(dim.dimension for dim in data.dims[2:])]
        array = draw.integers(0, data.sparse_dim.dimension, shape) if data.sparse_dim else draw.normal(size=shape)
        batch[key] = (array.astype(data.dtype), [longest, longest - 2])
    return batch


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, indirect=True)
def test_it_is_read_reported_drawn_and_trained(path):
    net = rf.Network.from_config(path)
    assert net.report(), [found.what for found in net.report().of("stops")]
    assert "output" in rf.show(net).html
    parameters = rf.torch_parameters(net)
    optimizer = torch.optim.Adam(parameters, 0.01)
    batch, values = example(net), []
    for step in range(4):
        rf.init_train_step_run_ctx(step=step)
        net(batch)
        optimizer.zero_grad()
        net.get_objective().backward()
        optimizer.step()
        values.append(net.get_total_loss().item())
    assert np.isfinite(values).all() and values[-1] < values[0]
    alone = rf.Network.from_config(path, batch_independent=True)
    assert not [x for x in alone.report().of("differs") if "depend on the batch" in x.what]


@pytest.mark.parametrize("path", SEARCHED, indirect=True)
def test_it_searches(path):
    net = rf.Network.from_config(path)
    rf.init_forward_step_run_ctx()
    found = net.search(example(net))
    assert len(found.nbest(1)) == 2


def damaged(net_dict, draw):
    """A net dict with one change: an option less, another value, a name of a layer that is not there."""
    changed = {name: dict(layer) for name, layer in net_dict.items()}
    where, inner = changed, draw(st.booleans())
    name = draw(st.sampled_from(sorted(changed)))
    for key in ("unit", "subnetwork"):
        if inner and isinstance(changed[name].get(key), dict):
            where = changed[name][key] = {each: dict(layer) for each, layer in changed[name][key].items()}
            name = draw(st.sampled_from(sorted(where)))
            break
    layer = where[name]
    option = draw(st.sampled_from(sorted(layer)))
    kind = draw(st.sampled_from(["without", "number", "text", "list", "none", "other layer"]))
    if kind == "without":
        del layer[option]
    else:
        others = sorted(where)
        layer[option] = {
            "number": draw(st.integers(-2, 40)), "text": draw(st.sampled_from(["T", "F", "relu", "x", "max", ""])),
            "list": draw(st.lists(st.integers(0, 5), max_size=3)), "none": None,
            "other layer": draw(st.sampled_from(others)),
        }[kind]  # fmt: skip
    return changed, f"{name}.{option}: {layer.get(option, 'gone')!r}"


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, indirect=True)
@examples(12, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_nothing_fails_that_the_report_does_not_list(path, data):
    """Where a damaged net has a report without "stops", a batch passes, in training with its losses.

    Sources with other numbers of features broadcast, from layer to layer: a net that would fill the memory is not run.
    """
    config = rf.read_config(path)
    net_dict, what = damaged(config.network(None), data.draw)
    net = rf.Network(config.values, rf.ExternData(config.extern_data()), train_flag=None)
    net.construct_from_dict(net_dict, strict=False)
    report = net.report()
    rf.show(net)
    entries = [math.prod(dim.dimension or 4 for dim in x.dims) for x in net.templates().values()]
    if not report or max(entries, default=0) > 100_000:
        return
    rf.init_train_step_run_ctx()
    try:
        net(example(net))
        total = net.get_objective()
    except RfError as error:
        known_with_data = ("length", "frames", "is not an index")  # sizes and labels, which no report can know
        assert any(words in str(error) for words in known_with_data), f"{what}: {error}"
        return
    assert total == 0 or np.isfinite(total.item()) or "ctc" in str(net_dict), what
