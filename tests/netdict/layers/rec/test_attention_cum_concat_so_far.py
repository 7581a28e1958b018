"""Frames so far that a mask takes: as the unit itself, in a search, and their gradients."""

import functools

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run, sequences
from tests.netdict.layers.rec.test_masked import EXTERN, MASK, UNITS, batch, both

HIST = rf.SpatialDim("hist")
FRAMES = {"class": "cum_concat", "from": "data", "out_spatial_dim": HIST}
DOUBLED = {
    "doubled": {"class": "eval", "eval": "source(0) * 2", "from": "data"},
    "output": {**FRAMES, "from": "doubled"},
}
FORMS = {"cum_concat": FRAMES, "subnetwork": {"class": "subnetwork", "from": "data", "subnetwork": DOUBLED}}


def attending(unit):
    """Dot attention of each frame to those that the mask has taken so far."""
    inside = {
        "mask": {**MASK, "from": "data:score"},
        "m": {"class": "masked_computation", "mask": "mask", "from": "data:source", "unit": unit},
        "energy": {"class": "dot", "from": ["data:source", "m"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": HIST},
        "output": {"class": "dot", "from": ["weights", "m"], "reduce": HIST},
    }
    return {"output": {"class": "rec", "from": "data", "unit": inside}}


@functools.cache
def net_of(form):
    return run(attending(FORMS[form]), EXTERN, batch(0, [2, 1]))[0]


@pytest.mark.parametrize("form", FORMS)
@examples(10)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_frames_that_leave_the_unit_are_those_taken(form, lengths, seed):
    data = batch(seed, lengths)
    found = array(net_of(form).forward(data)["output"])
    (x, _), (score, _) = data["data"], data["score"]
    for b, length in enumerate(lengths):
        taken = np.zeros((0, 3))
        for t in range(length):
            if score[b, t] > 0:
                taken = np.concatenate([taken, x[b, t : t + 1] * (1 if form == "cum_concat" else 2)])
            weights = np.exp(taken @ x[b, t])
            expected = weights / weights.sum() @ taken if len(taken) else np.zeros(3)
            np.testing.assert_allclose(found[b, t], expected, atol=1e-4)


def test_a_value_along_the_frames_cannot_stay():
    unit = {**FORMS["subnetwork"], "subnetwork": {**DOUBLED, "output": {**DOUBLED["doubled"], "from": "frames"}}}
    unit["subnetwork"]["frames"] = FRAMES
    with pytest.raises(NetworkError, match=r"output/m.*an axis that grows is needed after the step"):
        run(attending(unit), EXTERN, batch(0, [2]))


@pytest.mark.parametrize("unit", ["self_attention", "frames_so_far", "relative"])
def test_gradients_are_those_over_the_sequence(unit):
    loop, whole, theirs = both(unit)
    ours, data = loop.get_layer("output/m").params, batch(3, [6, 4, 1])
    for net in (loop, whole):
        (net.forward(data)["output"].copy_masked(0).raw_tensor ** 2).sum().backward()
    assert any(each.raw_tensor.grad.any() for each in ours.values())
    for name, each in ours.items():
        np.testing.assert_allclose(each.raw_tensor.grad, theirs[name].raw_tensor.grad, atol=1e-4)
        each.raw_tensor.grad = theirs[name].raw_tensor.grad = None


def transducer(unit):
    """Labels of which 0 is the blank; what is computed of the others only when there is a new one."""
    inside = {
        "embedding": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
        "mask": {"class": "compare", "kind": "not_equal", "value": 0, "from": "prev:output"},
        "m": {"class": "masked_computation", "mask": "mask", "from": "embedding", "unit": unit},
        "p": {"class": "softmax", "from": ["m", "data:source"], "target": "classes", "loss": "ce"},
        "output": {
            "class": "choice", "from": "p", "target": "classes", "beam_size": 4, "initial_output": 0,
            "length_normalization": False,
        },
    }  # fmt: skip
    extern = rf.ExternData({"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}})
    net = rf.Network({"behavior_version": 21}, extern, train_flag=None, batch_independent=True)
    rec = {"class": "rec", "from": "data", "unit": inside, "target": "classes"}
    return net.construct_from_dict({"output": rec})


@pytest.mark.parametrize("unit", ["self_attention", "frames_so_far", "relative"])
def test_hypotheses_of_a_search_have_the_scores_of_training(unit):
    net = transducer(UNITS[unit])
    random, lengths = np.random.default_rng(0), [6, 4, 1]
    for each in net.parameters():
        each.assign(random.normal(size=each.raw_tensor.shape, scale=1.5).astype("float32"))
    x, _ = sequences(1, lengths, 3)
    rf.init_forward_step_run_ctx()
    found = net.search({"data": (x, lengths)})
    scores = found.scores.copy_transpose([rf.batch_dim, found.beam]).numpy()
    for b, length in enumerate(lengths):
        alone = net.search({"data": (x[b : b + 1, :length], [length])})
        assert alone.nbest(4, text=False)[0] == found.nbest(4, text=False)[b]
        labels = np.array(found.nbest(4, text=False)[b])
        for hypothesis, score in zip(labels, scores[b], strict=True):
            rf.init_train_step_run_ctx(train_flag=True)
            net.forward({"data": (x[b : b + 1, :length], [length]), "classes": (hypothesis[None, :length], [length])})
            loss = net.get_losses_initialized()[0]["output/p"].get_loss_value().item()
            rf.init_forward_step_run_ctx()
            np.testing.assert_allclose(-loss, score, atol=1e-3)
