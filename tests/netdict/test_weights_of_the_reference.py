"""Net dicts that the reference trained and saved by TensorFlow compute here what they computed there."""

from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf

FOLDER = Path(__file__).parents[1] / "golden/checkpoint/net_dict"
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
G2P = NOTEBOOKS / "data/g2p_attention"
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


@pytest.mark.slow
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


# -- an attention decoder, with the data that it is for


def g2p(weights=G2P / "network.004", moves=True, **options):
    config = rf.read_config(rf.examples.path("g2p_attention.config"))
    layers = dict(config.network())
    layers["output"] = {**layers["output"], "optimize_move_layers_out": moves}
    net = rf.Network(extern_data=rf.ExternData(config.extern_data()), **{"train_flag": None, **options})
    net.construct_from_dict(layers)
    report = rf.load(weights, net, verify=True)
    assert not report.missing and not report.unexpected
    return net


def batches_of(net, data, size=40):
    return [net.extern_data.collate([data[i] for i in range(at, at + size)]) for at in range(0, len(data), size)]


@pytest.fixture(scope="module")
def words():
    return rf.hdf(G2P / "words.hdf")


def p_of(net, batch):
    """The probabilities of phonemes after the true ones: [batch, step, phoneme]"""
    p = net(batch)["output/p"]
    [steps] = [dim for dim in p.dims if dim.is_dynamic() and not dim.is_batch_dim()]
    return p.copy_transpose([rf.batch_dim, steps, p.feature_dim]).numpy()


def check_g2p(net, data, atol=1e-5):
    """The outputs of the first words, and the loss of all of them."""
    expected, losses = np.load(G2P / "reference.npz"), []
    for batch, first in zip(batches_of(net, data), range(0, len(data), 40), strict=True):
        p = p_of(net, batch)
        for i in range(40):
            labels = data[first + i]["classes"]
            losses.append(-np.log(p[i, np.arange(len(labels)), labels]).sum())
            if first + i < len(expected["p"]):
                np.testing.assert_allclose(p[i, : len(labels)], expected["p"][first + i, : len(labels)], atol=atol)
    np.testing.assert_allclose(losses, expected["losses"], rtol=1e-3, atol=10 * atol)


@pytest.mark.parametrize("moves", [True, False])
def test_the_outputs_of_a_decoder(words, moves):
    assert sum(file.stat().st_size for file in [*G2P.glob("*"), rf.examples.path("g2p_attention.config")]) <= 400_000
    check_g2p(g2p(moves=moves), words)


def test_the_search_of_a_decoder(words):
    """All hypotheses in the beam and their scores, in the order of the reference; and what `decide` takes."""
    net, expected = g2p(), np.load(G2P / "reference.npz")
    rf.init_forward_step_run_ctx()
    found = [net.search(batch, beam_size=4) for batch in batches_of(net, words)]
    assert [line for each in found for line in each.nbest(4)] == expected["hypotheses"].tolist()
    scores = [[hypothesis.score for hypothesis in tree.hypotheses] for each in found for tree in each.tree]
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-4, atol=1e-5)


def test_decide_takes_the_best_hypothesis(words):
    net = g2p(search_flag=True, train_flag=False)
    batch = batches_of(net, words)[0]
    found = net(batch)["decision"]
    [steps] = [dim for dim in found.dims if dim.is_dynamic() and not dim.is_batch_dim()]
    labels, lengths = found.copy_transpose([rf.batch_dim, steps]).numpy(), found.size_of(steps).values
    phones = found.sparse_dim.vocab.labels
    texts = [" ".join(phones[label] for label in row[:n]) for row, n in zip(labels, lengths, strict=True)]
    assert texts == np.load(G2P / "reference.npz")["best"][:40].tolist()


def test_a_decoder_trains_on_and_is_saved(words, tmp_path):
    net = g2p()
    batch = batches_of(net, words)[0]
    before = p_of(net, batch)
    optimizer, losses = torch.optim.Adam(rf.torch_parameters(net), lr=1e-3), []
    rf.set_random_seed(1)
    for step in range(3):
        rf.init_train_step_run_ctx(step=step)
        net(batch)
        optimizer.zero_grad()
        net.get_objective().backward()
        optimizer.step()
        losses.append(net.get_total_loss().item())
    rf.init_forward_step_run_ctx()
    assert losses[2] < losses[0]
    rf.save(net, tmp_path / "g2p.safetensors")
    again = g2p(tmp_path / "g2p.safetensors")
    p = p_of(net, batch)
    np.testing.assert_array_equal(p, p_of(again, batches_of(again, words)[0]))
    assert np.abs(p - before).max() > 1e-3
