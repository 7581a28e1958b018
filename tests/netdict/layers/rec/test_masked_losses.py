"""Losses and outputs of layers in the unit of masked_computation: in a loop, over a sequence, and by hand."""

import functools

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run
from tests.netdict.layers.rec.test_masked import EXTERN, batch, in_loop, over_sequence

LABELS = {"dim": 4, "sparse": True}
DATA = {**EXTERN, "classes": LABELS, "fewer": LABELS}
FORMS = {"in the loop": (in_loop, "output/m"), "over the sequence": (over_sequence, "m")}


def softmax(target, **options):
    return {"class": "softmax", "loss": "ce", "target": target, "initial_output": 0.0, "from": "data", **options}


def unit(target, *, subnet):
    if not subnet:
        return softmax(target)
    layers = {
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data"},
        "p": softmax(target, **{"from": "lstm", "loss_opts": {"use_normalized_loss": True}}),
        "size": {"class": "eval", "eval": "source(0) ** 2", "from": "data", "loss": "as_is", "loss_scale": 0.3},
        "output": {"class": "copy", "from": "lstm"},
    }
    return {"class": "subnetwork", "subnetwork": layers, "from": "data"}


def labelled(seed, lengths):
    """A batch with labels for all frames, and with labels for the frames that the mask takes."""
    data, random = batch(seed, lengths), np.random.default_rng(seed)
    fewer = [int((scores[:n] > 0).sum()) for scores, n in zip(data["score"][0], lengths, strict=True)]
    for name, sizes in {"classes": lengths, "fewer": fewer}.items():
        data[name] = (random.integers(0, 4, (len(sizes), max(sizes))), sizes)
    return data


@functools.cache
def nets(target, subnet):
    found = [run(form(unit(target, subnet=subnet)), DATA, labelled(0, [3]), train_flag=True)[0] for form, _ in
             FORMS.values()]  # fmt: skip
    first, second = (params_of(net) for net in found)
    for name, each in first.items():
        second[name].assign(each.numpy())
    return found


def params_of(net):
    return net.get_layer("output/m" if "output/m" in net.layers else "m").params


@pytest.mark.parametrize("subnet", [False, True], ids=["unit", "subnetwork"])
@pytest.mark.parametrize("target", ["classes", "fewer"])
@examples(8)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_losses_in_a_loop_are_those_over_the_sequence(target, subnet, lengths, seed):
    found = []
    for net in nets(target, subnet):
        net.forward(labelled(seed, lengths))
        losses, total, _ = net.get_losses_initialized(with_total=True)
        total.raw_tensor.backward()
        gradients = {name: each.raw_tensor.grad for name, each in params_of(net).items()}
        for each in params_of(net).values():
            each.raw_tensor.grad = None
        numbers = {name.removeprefix("output/"): (holder.get_loss_value().item(), holder.get_norm_factor().item())
                   for name, holder in losses.items()}  # fmt: skip
        found.append((numbers, total.item(), gradients))
    (numbers, total, gradients), (numbers_over, total_over, gradients_over) = found
    assert set(numbers) == set(numbers_over) == ({"m/p", "m/size"} if subnet else {"m"})
    for name, values in numbers.items():
        np.testing.assert_allclose(values, numbers_over[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(total, total_over, rtol=1e-4, atol=1e-5)
    for name, each in gradients.items():
        np.testing.assert_allclose(each, gradients_over[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("form", "name"), FORMS.values(), ids=FORMS)
def test_the_loss_is_that_of_the_frames_taken(form, name):
    data = labelled(4, [6, 3])
    net, _ = run(form(softmax("classes")), DATA, data, train_flag=True)
    losses, _, _ = net.get_losses_initialized()
    w, b = (params_of(net)[each].numpy() for each in "Wb")
    (x, lengths), (score, _), (labels, _) = data["data"], data["score"], data["classes"]
    expected, count = 0.0, 0
    for i, length in enumerate(lengths):
        for t in range(length):
            if score[i, t] > 0:
                logits = x[i, t] @ w + b
                expected, count = expected - logits[labels[i, t]] + np.log(np.exp(logits).sum()), count + 1
    np.testing.assert_allclose(losses[name].get_loss_value().item(), expected, rtol=1e-5)
    np.testing.assert_allclose(losses[name].get_norm_factor().item(), 1 / count, rtol=1e-5)


def test_losses_in_the_unit_are_marked_in_training():
    net = rf.Network(extern_data=rf.ExternData(DATA), train_flag=None)
    net.construct_from_dict(in_loop(unit("classes", subnet=True)))
    rf.init_train_step_run_ctx(train_flag=True)
    net.forward(labelled(1, [4, 2]))
    assert {"output/m/p", "output/m/size"} <= set(rf.get_run_ctx().losses)


def test_outputs_in_the_unit_leave_the_loop():
    layers = {
        "double": {"class": "eval", "eval": "source(0) * 2", "from": "data", "is_output_layer": True},
        "output": {"class": "copy", "from": "data"},
    }
    data = batch(1, [5, 2])
    _, out = run(in_loop({"class": "subnetwork", "subnetwork": layers, "from": "data"}), EXTERN, data)
    np.testing.assert_allclose(array(out["output/m/double"]), 2 * array(out["output"]), atol=1e-6)


def test_a_target_has_the_length_of_all_frames_or_of_those_taken():
    data = labelled(2, [5, 4])
    data["fewer"] = (np.zeros((2, 1), int), [1, 1])
    net, _ = run(in_loop(softmax("fewer")), DATA, data, train_flag=True)
    with pytest.raises(rf.errors.DimError, match="the target has another length"):
        net.get_losses_initialized(with_total=True)


def test_a_loss_in_two_masks_is_an_error():
    inner = {"class": "masked_computation", "mask": "base:mask", "from": "data", "unit": softmax("classes")}
    outer = {"class": "subnetwork", "subnetwork": {"output": inner}, "from": "data"}
    with pytest.raises(NetworkError, match="a layer with a loss is in a masked_computation that is in another one"):
        run(in_loop(outer), DATA, labelled(0, [2]))
