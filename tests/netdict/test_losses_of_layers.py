"""Losses of a search against numbers of the reference; sampled losses and losses via layers against numpy."""

import json
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError
from rfnb.netdict.losses import loss_by_name

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "search_losses.json").read_text())
LABELS = 4


def search_net(loss, search=True):
    unit = {
        "emb": {"class": "linear", "activation": None, "with_bias": False, "n_out": 4, "from": "prev:output"},
        "p": {"class": "softmax", "from": ["data:source", "emb"], "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0}
        | {"length_normalization": False},
    }
    net_dict = {
        "output": {"class": "rec", "from": "data", "target": "classes", "unit": unit},
        "best": {"class": "copy", "from": "output", "target": "classes", **loss},
    }
    extern = rf.ExternData({"data": {"dim": 3}, "classes": {"dim": LABELS, "sparse": True}})
    net = rf.Network(extern_data=extern, train_flag=True, search_flag=search).construct_from_dict(net_dict)
    net.set_param_values_by_dict({"output/p": {"W": GOLDEN["W"], "b": GOLDEN["b"]}, "output/emb": {"W": GOLDEN["We"]}})
    return net


EDITS = {"loss": {"class": "edit_distance"}, "loss_kind": "error"}


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["options"]))
def test_losses_of_hypotheses_are_those_of_the_reference(case):
    """The sum over all hypotheses, its gradient, and the number that makes a mean of it."""
    options = case["options"]
    loss = {"loss": "search_score"}
    if options is not None:
        loss = {"loss": "expected_loss", "loss_opts": EDITS | options}
    net = search_net(loss)
    assert net.report()
    x, labels, lengths = (np.array(GOLDEN[key]) for key in ("x", "y", "L"))
    net({"data": (x.astype("float32"), lengths), "classes": (labels, lengths)})
    holders, total, _ = net.get_losses_initialized(with_total=True)
    total.backward()
    np.testing.assert_allclose(total.item(), case["loss"], rtol=1e-4)
    np.testing.assert_allclose(net.get_layer("output/p").params["b"].raw_tensor.grad, case["bias"], atol=2e-5)
    np.testing.assert_allclose(holders["best"].get_norm_factor().item(), 1 / 21, rtol=1e-6)


@pytest.mark.parametrize("name", ["search_score", "expected_loss"])
def test_a_loss_of_hypotheses_that_are_not_there_is_named(name):
    """Without a search; and a loss that has no value."""
    value = {"loss": {"class": "edit_distance"}, "loss_kind": "value"}
    options = {"loss_opts": value} if name == "expected_loss" else {}
    net = search_net({"loss": name, **options}, search=bool(options))
    x, labels, lengths = (np.array(GOLDEN[key]) for key in ("x", "y", "L"))
    net({"data": (x.astype("float32"), lengths), "classes": (labels, lengths)})
    with pytest.raises(NetworkError, match="has no value" if options else "needs the hypotheses of a search"):
        net.get_objective()
    if not options:
        assert "needs the hypotheses of a search" in net.report().of("stops")[0].what


SIZE, FEATURES = 7, 3
RANDOM = np.random.RandomState(1)
W, X = RANDOM.randn(SIZE, FEATURES).astype("float32"), RANDOM.randn(2, 4, FEATURES).astype("float32")
Y, LENGTHS = RANDOM.randint(0, SIZE, (2, 4)), [4, 3]
VALID = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)


def layer_loss(options, seed=0, **layer):
    rf.set_random_seed(seed)
    described = {"class": "linear", "activation": None, "from": "data", "target": "classes", **layer}
    described |= {"use_transposed_weights": True, "with_bias": False, "n_out": SIZE, "loss_opts": options}
    extern = {"data": {"dim": FEATURES}, "classes": {"dim": SIZE, "sparse": True}, "signal": {"dim": SIZE}}
    net = rf.Network(extern_data=rf.ExternData(extern), train_flag=True).construct_from_dict({"output": described})
    net.set_param_values_by_dict({"output": {"W": W}})
    signal = np.random.RandomState(5).dirichlet(np.ones(SIZE), size=(2, 4)).astype("float32")
    net({"data": (X, LENGTHS), "classes": (Y, LENGTHS), "signal": (signal, LENGTHS)})
    total = net.get_losses_initialized(with_total=True)[1]
    total.backward()
    return total.item(), net.get_layer("output").params["W"].raw_tensor.grad.numpy(), signal


LOGITS = X @ W.T
LOG_P = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))
CE = -np.take_along_axis(LOG_P, Y[..., None], -1)[..., 0][VALID].sum()


def test_a_sample_of_all_labels_is_the_cross_entropy():
    """As the reference has it, which gave 14.729401 for numbers of its own."""
    for options in ({"num_sampled": SIZE, "sampler": "uniform"}, {"use_full_softmax": True}):
        np.testing.assert_allclose(layer_loss(options, loss="sampling_loss")[0], CE, rtol=1e-4)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "fixed_unigram"])
def test_the_gradient_of_a_sample_is_on_average_about_that_of_all_labels(sampler):
    args = {"unigrams": list(range(1, SIZE + 1))}
    options = {"num_sampled": 5, "sampler": sampler, "sampler_args": args}
    found = [layer_loss(options, seed, loss="sampling_loss")[1] for seed in range(40)]
    expected = layer_loss({}, loss="ce", activation="softmax")[1]
    assert np.std(found, 0).max() > 0.01  # it draws
    mean = np.mean(found, 0)
    assert np.sum(mean * expected) / np.linalg.norm(mean) / np.linalg.norm(expected) > 0.95


def test_labels_count_by_how_often_they_are_expected():
    """Though all labels are drawn, the loss is not the cross entropy."""
    options = {"num_sampled": SIZE, "sampler": "log_uniform"}
    found = np.mean([layer_loss(options, seed, loss="sampling_loss")[0] for seed in range(20)])
    assert 0.005 < abs(found / CE - 1) < 0.06
    axis, draws = rf.Dim(SIZE, name="labels"), []
    loss = loss_by_name("sampling_loss", {"num_sampled": 4})
    for seed in range(300):
        rf.set_random_seed(seed)
        drawn, log_count = loss._drawn(axis, "cpu")
        draws.append([drawn.numpy(), np.exp(log_count.numpy())])
    taken, expected = np.mean(draws, 0)
    np.testing.assert_allclose(taken, expected, atol=0.07)
    assert np.all(np.diff(expected) < 0)


def test_noise_contrastive_estimation_tells_the_target_from_noise():
    """All labels are drawn: the logistic loss of each, with the logarithm of how often it is expected."""
    options = {"num_sampled": SIZE, "sampler": "uniform", "nce_loss": True}
    low, high = (layer_loss({**options, "nce_log_norm_term": shift}, loss="sampling_loss")[0] for shift in (0.0, 2.0))
    softplus = np.log1p(np.exp(LOGITS)).sum(-1) + np.log1p(
        np.exp(-np.take_along_axis(LOGITS, Y[..., None], -1)[..., 0])
    )
    assert softplus[VALID].sum() * 0.98 < low < softplus[VALID].sum() * 1.1  # each is expected nearly once
    assert high < low
    with pytest.raises(NetworkError, match="different labels"):
        layer_loss({"num_sampled": SIZE + 1}, loss="sampling_loss")
    with pytest.raises(NetworkError, match="sampler is not known"):
        layer_loss({"num_sampled": 3, "sampler": "learned_unigram"}, loss="sampling_loss")


def test_the_gradient_via_an_alignment_is_the_difference_from_it():
    options = {"align_layer": "data:signal", "loss_wrt_to_act_in": "softmax"}
    loss, grad, signal = layer_loss(options, loss="via_layer", activation="softmax")
    np.testing.assert_allclose(loss, -(signal * LOG_P)[VALID].sum(), rtol=1e-4)
    difference = (np.exp(LOG_P) - signal)[VALID]
    np.testing.assert_allclose(grad, difference.T @ X[VALID], atol=1e-4)


@pytest.mark.parametrize("of_logits", [True, False])
def test_the_gradient_via_an_error_signal_is_that_signal(of_logits):
    options = {"error_signal_layer": "data:signal", "loss_wrt_to_act_in": of_logits}
    _, grad, signal = layer_loss(options, loss="via_layer", activation="softmax" if of_logits else None)
    np.testing.assert_allclose(grad, signal[VALID].T @ X[VALID], atol=1e-4)


def test_a_loss_via_layers_needs_one_of_them():
    with pytest.raises(NetworkError, match="takes one of two layers"):
        layer_loss({}, loss="via_layer")
    with pytest.raises(NetworkError, match="external program") as caught:
        layer_loss({"sprint_opts": {}}, loss="fast_bw")
    assert "via_layer" in caught.value.hint


def test_full_sum_training_by_fast_bw_is_that_of_ctc():
    """The loss via the layer fast_bw has the gradient of the loss ctc."""
    gradients = []
    for loss in ({"loss": "ctc"}, {}):
        net_dict = {"output": {"class": "softmax", "n_out": SIZE + 1, "from": "data", "target": "classes", **loss}}
        if not loss:
            net_dict["scores"] = {"class": "activation", "activation": "log", "from": "output"}
            net_dict["align"] = {"class": "fast_bw", "align_target": "ctc", "from": "scores"}
            via = {"loss_opts": {"align_layer": "align", "loss_wrt_to_act_in": "softmax"}, "loss": "via_layer"}
            net_dict["train"] = {"class": "copy", "from": "output", **via}
        extern = rf.ExternData({"data": {"dim": FEATURES}, "classes": {"dim": SIZE, "sparse": True}})
        net = rf.Network(extern_data=extern, train_flag=True).construct_from_dict(net_dict)
        assert net.report()
        net.set_param_values_by_dict({"output": {"W": np.ones((FEATURES, SIZE + 1)) * np.arange(SIZE + 1) / 9}})
        net({"data": (X, LENGTHS), "classes": (Y[:, :2], [2, 1])})
        net.get_objective().backward()
        gradients.append(net.get_layer("output").params["W"].raw_tensor.grad.numpy())
    np.testing.assert_allclose(*gradients, atol=1e-5)
