"""A net dict that the reference trained and saved by TensorFlow computes here what it computed there."""

from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf

FOLDER = Path(__file__).parents[2] / "golden/checkpoint/net_dict"
BATCH_NORM = {
    "masked_time": True,
    "update_sample_only_in_training": True,
    "delay_sample_update": True,
    "momentum": 0.1,
}
NET = {
    "front": {"class": "linear", "activation": "tanh", "n_out": 6, "from": "data"},
    "fw": {"class": "rec", "unit": "nativelstm2", "n_out": 5, "from": "front"},
    "bw": {"class": "rec", "unit": "standardlstm", "n_out": 5, "from": "front", "direction": -1},
    "norm": {"class": "batch_norm", "from": ["fw", "bw"], **BATCH_NORM},
    "sub": {
        "class": "subnetwork",
        "from": "norm",
        "subnetwork": {
            "a": {"class": "linear", "n_out": 6, "from": "data", "activation": "relu"},
            "output": {"class": "layer_norm", "from": "a"},
        },
    },
    "output": {"class": "softmax", "loss": "ce", "target": "classes", "from": "sub"},
}
EXTERN = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}


def network(layers=NET, version=1, **flags):
    net = rf.Network({"behavior_version": version}, rf.ExternData(EXTERN), **{"eval_flag": True, **flags})
    return net.construct_from_dict(layers)


def check(net):
    """Outputs in valid frames, and the loss."""
    expected = np.load(FOLDER / "expected.npz")
    lengths = expected["lengths"]
    out = net.forward({"data": (expected["x"], lengths), "classes": (expected["y"], lengths)})["output"]
    out = out.copy_transpose([rf.batch_dim, *(dim for dim in out.dims if not dim.is_batch_dim())])
    for found, want, length in zip(out.raw_tensor.detach().numpy(), expected["output"], lengths, strict=True):
        np.testing.assert_allclose(found[:length], want[:length], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.get_total_loss().item(), expected["loss"], rtol=1e-4)


def test_outputs_and_loss_then_training_and_saving(tmp_path):
    net = network()
    report = rf.load(FOLDER / "network.005", net, verify=True)
    assert not report.missing and not report.unexpected and not report.notes
    assert not any(origin.conversion for origin in report.origins) and "global_step" in report.apart
    check(net)
    rf.save(net, tmp_path / "model.safetensors")
    again = network()
    assert rf.load(tmp_path / "model.safetensors", again).complete
    check(again)
    train(network(train_flag=None))


def train(net):
    rf.load(FOLDER / "network.005", net)
    expected = np.load(FOLDER / "expected.npz")
    batch = {key: (expected[name], expected["lengths"]) for key, name in (("data", "x"), ("classes", "y"))}
    optimizer, losses = torch.optim.Adam(rf.torch_parameters(net), lr=0.01), []
    for step in range(3):
        rf.init_train_step_run_ctx(step=step)
        net(batch)
        optimizer.zero_grad()
        net.get_objective().backward()
        optimizer.step()
        losses.append(net.get_total_loss().item())
    rf.init_forward_step_run_ctx()
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize(
    "changes, version",
    [
        ({"fw": {"unit": "standardlstm", "unit_opts": {"forget_bias": 0.0}}}, 1),
        ({"fw": {"unit": "basiclstm"}, "bw": {"unit": "nativelstm2"}}, 1),
        ({"norm": {"param_version": 2}}, 1),
        ({"norm": {"param_version": 1}}, 1),
        ({"norm": {}}, 12),
    ],
)
def test_other_cells_and_versions_compute_the_same(changes, version):
    layers = {name: {**options, **changes.get(name, {})} for name, options in NET.items()}
    net = network(layers, version)
    report = rf.load(FOLDER / "network.005", net, forget_bias="convert")
    assert any(origin.conversion for origin in report.origins) and not report.unexpected
    check(net)
