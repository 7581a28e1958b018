"""Whole configs, as people wrote them: read, constructed, trained for some steps."""

import numpy as np
import pytest
import torch

import rfnb as rf

ATTENTION_ENCODER = """
import os
import tensorflow as tf
from TFUtil import where_bc
from Pretrain import WrapEpochValue

use_tensorflow = True
target = "classes"
EncKeyTotalDim, AttNumHeads, LstmDim, l2 = 8, 1, 12, 0.0001
extern_data = {"data": {"dim": 20}, "classes": {"dim": 9, "sparse": True}}

def random_mask(x, batch_axis, axis, min_num, max_num, max_dims):
    n_batch, size = tf.shape(x)[batch_axis], tf.shape(x)[axis]
    count = tf.random_uniform((n_batch,), minval=min_num, maxval=max_num + 1, dtype=tf.int32)
    _, begins = tf.nn.top_k(tf.random_uniform((n_batch, size)), tf.reduce_max(count))
    for i in range(1):
        inside = tf.expand_dims(tf.range(size), 0) - tf.expand_dims(begins[:, i], 1)
        inside = tf.logical_and(inside >= 0, inside < max_dims)
        x = where_bc(tf.reshape(inside, [tf.shape(x)[j] if j in (batch_axis, axis) else 1 for j in range(3)]), 0.0, x)
    return x

def transform(data, network, max_time_dim=20):
    x = data.placeholder
    step = network.global_train_step
    step1 = tf.where(tf.greater_equal(step, 1), 1, 0)
    def get_masked():
        y = random_mask(x, batch_axis=data.batch_dim_axis, axis=data.time_dim_axis, min_num=step1,
                        max_num=tf.maximum(tf.shape(x)[data.time_dim_axis] // 100, 2) * (1 + step1), max_dims=3)
        y = random_mask(y, batch_axis=data.batch_dim_axis, axis=data.feature_dim_axis, min_num=step1,
                        max_num=2 + step1, max_dims=data.dim // 5)
        return y
    return network.cond_on_train(get_masked, lambda: x)

network = {
"source": {"class": "eval",
    "eval": "self.network.get_config().typed_value('transform')(source(0, as_data=True), network=self.network)"},
"source0": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "source"},
"conv0": {"class": "conv", "from": "source0", "padding": "same", "filter_size": (3, 3), "n_out": 4,
    "activation": None, "with_bias": True},
"conv0p": {"class": "pool", "mode": "max", "padding": "same", "pool_size": (1, 2), "from": "conv0",
    "trainable": False, "use_channel_first": True},
"conv_merged": {"class": "merge_dims", "from": "conv0p", "axes": "static"},
"lstm0_fw": {"class": "rec", "unit": "nativelstm2", "n_out": LstmDim, "direction": 1, "from": "conv_merged",
    "dropout": 0.1, "L2": l2, "unit_opts": {"rec_weight_dropout": 0.1}},
"lstm0_bw": {"class": "rec", "unit": "nativelstm2", "n_out": LstmDim, "direction": -1, "from": "conv_merged",
    "dropout": WrapEpochValue(lambda epoch: 0.1 if epoch > 1 else 0.0), "L2": l2},
"lstm0_pool": {"class": "pool", "mode": "max", "padding": "same", "pool_size": (3,),
    "from": ["lstm0_fw", "lstm0_bw"], "trainable": False},
"encoder": {"class": "copy", "from": "lstm0_pool"},
"enc_ctx": {"class": "linear", "activation": None, "with_bias": True, "from": "encoder", "n_out": EncKeyTotalDim,
    "is_output_layer": True},
"inv_fertility": {"class": "linear", "activation": "sigmoid", "with_bias": False, "from": "encoder",
    "n_out": AttNumHeads, "is_output_layer": True},
"enc_value": {"class": "split_dims", "axis": "F", "dims": (AttNumHeads, -1), "from": "encoder",
    "is_output_layer": True},
"ctc": {"class": "softmax", "from": "encoder", "loss": "ctc", "target": target,
    "loss_opts": {"beam_width": 1, "ctc_opts": {"ignore_longer_outputs_than_inputs": True}}},
"#old": {"class": "nothing"},
"output": {"class": "copy", "from": "encoder"},
}
"""

HYBRID = """
#!crnn/rnn.py
num_inputs = 20
num_outputs = {"classes": [9, 1]}
network = {}
def add(name, size, source):
    for direction, tag in ((1, "fwd"), (-1, "bwd")):
        network["%s_%s" % (tag, name)] = {"class": "rec", "unit": "lstmp", "n_out": size, "direction": direction,
            "dropout": 0.1, "L2": 0.01, "from": source}
    return ["fwd_%s" % name, "bwd_%s" % name]
last = add(1, 8, ["data"])
last = add(2, 8, last)
network["mid"] = {"class": "linear", "activation": "tanh", "n_out": 6, "from": last,
    "forward_weights_init": "variance_scaling_initializer(mode='fan_in', distribution='uniform', scale=0.78)"}
network["skip"] = {"class": "combine", "kind": "eval", "eval": "source(0) + 0.1 * tf.nn.relu(source(1))",
    "from": ["mid", "mid"], "activation": "tanh"}
network["output"] = {"class": "softmax", "loss": "ce", "loss_opts": {"focal_loss_factor": 2.0}, "dropout": 0.1,
    "from": "skip"}
"""

RESNET = """
extern_data = {"data": {"dim": 20}, "classes": {"dim": 9, "sparse": True, "same_dim_tags_as": "data"}}
network = {"in": {"class": "split_dims", "axis": "F", "dims": (20, 1), "from": "data"},
    "c0": {"class": "conv", "from": "in", "filter_size": (3, 3), "n_out": 4, "padding": "same", "with_bias": False}}
last = "c0"
for i in range(2):
    name = "block%i" % i
    network[name] = {"class": "subnetwork", "from": last, "subnetwork": {
        "bn": {"class": "batch_norm", "from": "data", "masked_time": False, "fused_bn": True, "momentum": 0.1},
        "act": {"class": "activation", "activation": "relu", "from": "bn"},
        "conv": {"class": "conv", "from": "act", "filter_size": (3, 3), "n_out": 4, "padding": "same"},
        "output": {"class": "combine", "kind": "add", "from": ["conv", "data"]}}}
    last = name
network["flat"] = {"class": "merge_dims", "axes": ["dim:20", "F"], "from": last}
network["wide"] = {"class": "window", "window_size": 3, "from": "flat"}
network["frames"] = {"class": "merge_dims", "axes": "static", "from": "wide"}
network["gate"] = {"class": "linear", "n_out": 12, "activation": None, "from": "frames"}
network["gated"] = {"class": "gating", "activation": "identity", "from": "gate"}
network["output"] = {"class": "softmax", "loss": "ce", "loss_opts": {"label_smoothing": 0.1}, "from": "gated"}
"""

CONFIGS = {"attention encoder": ATTENTION_ENCODER, "hybrid": HYBRID, "resnet": RESNET}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_read_and_trained(name, tmp_path):
    rf.set_random_seed(1)
    path = tmp_path / "train.config"
    path.write_text(CONFIGS[name])
    net = rf.Network.from_config(path)
    draw = np.random.default_rng(0)
    lengths = [30, 21, 12]
    frames = [8, 5, 3] if name == "attention encoder" else lengths
    batch = {
        "data": (draw.normal(size=(3, 30, 20)).astype("float32"), lengths),
        "classes": (draw.integers(0, 9, (3, max(frames))), frames),
    }
    parameters = [each.raw_tensor for each in net.get_trainable_params()]
    optimizer = torch.optim.Adam(parameters, 0.01)
    values = []
    for step in range(25):
        rf.init_train_step_run_ctx(step=step, train_flag=True)
        net(batch)
        optimizer.zero_grad()
        loss = net.get_objective()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    assert np.isfinite(values).all()
    assert np.mean(values[-5:]) < 0.9 * np.mean(values[:5])
    assert all(parameter.grad is not None for parameter in parameters) or name == "attention encoder"
