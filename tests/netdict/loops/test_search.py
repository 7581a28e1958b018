"""`net.search`: the same parameters, all flags as before; a beam of all paths is an exhaustive search."""

import itertools

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import LayerNotFound, NetworkError

WORDS = ["</s>", "a", "b"]
LABELS, STEPS = 3, 3
UNIT = {
    "emb": {"class": "linear", "n_out": 4, "activation": None, "from": "output", "initial_output": "var"},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 5, "from": ["prev:emb", "base:pool"]},
    "p": {"class": "softmax", "from": ["s", "prev:emb"], "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0,
               "length_normalization": False},
    "end": {"class": "compare", "from": "output", "value": 0},
}  # fmt: skip
NET = {
    "pool": {"class": "reduce", "mode": "mean", "axis": "T", "from": "data"},
    "output": {
        "class": "rec",
        "unit": UNIT,
        "from": [],
        "target": "classes",
        "max_seq_len": STEPS,
        "include_eos": True,
    },
}  # fmt: skip
X = np.random.default_rng(1).normal(size=(2, 4, 2)).astype("float32") * 3
BATCH = {"data": (X, [4, 2]), "classes": (np.ones((2, 2), "int32"), [2, 1])}


def built(net_dict=NET, train_flag=None):
    extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": LABELS, "sparse": True, "vocab": WORDS}})
    net = rf.Network(extern_data=extern, train_flag=train_flag).construct_from_dict(net_dict)
    draw = np.random.default_rng(0)
    for parameter in net.get_params_list():
        parameter.assign(draw.normal(size=[dim.dimension for dim in parameter.dims]).astype("float32"))
    return net


def paths():
    """All label sequences that end, or are as long as the limit."""
    for length in range(1, STEPS + 1):
        for labels in itertools.product(range(LABELS), repeat=length):
            if 0 not in labels[:-1] and (labels[-1] == 0 or length == STEPS):
                yield labels


def score(net, labels, i):
    """The log probability of a label sequence, by forcing it."""
    given = {"data": (X[i : i + 1, : [4, 2][i]], [[4, 2][i]]), "classes": (np.array([labels]), [len(labels)])}
    probs = net.forward(given)["output/p"]
    steps = probs.dims[0]
    array = probs.copy_transpose([steps, rf.batch_dim, probs.feature_dim]).raw_tensor.detach().numpy()[:, 0]
    return sum(np.log(array[t, label]) for t, label in enumerate(labels))


def test_a_beam_of_all_paths_is_an_exhaustive_search():
    net = built()
    found = net.search(BATCH, beam_size=27)
    forced = built(train_flag=False)
    for i in range(2):
        expected = sorted(((score(forced, labels, i), labels) for labels in paths()), reverse=True)
        texts = ["".join(WORDS[label] for label in labels if label) for _, labels in expected]
        assert found.nbest(len(expected), text=True)[i][0] == texts[0]
        scores = found.scores.copy_transpose([rf.batch_dim, found.beam]).numpy()[i]
        np.testing.assert_allclose(scores[: len(expected)], [each for each, _ in expected], rtol=1e-4, atol=1e-5)
        assert (scores[len(expected) :] < -1e29).all()


def test_flags_parameters_and_results_stay():
    net = built()
    rf.init_train_step_run_ctx()
    net(BATCH)
    losses, before = net.get_losses_initialized()[0], net.get_param_values_dict()
    rf.init_forward_step_run_ctx()
    found = net.search(BATCH, beam_size=3)
    assert found.beam.dimension == 3 and net.search(BATCH).beam.dimension == 2
    assert net.get_losses_initialized()[0] is losses and not net.search_flag and net.train_flag is None
    after = net.get_param_values_dict()
    assert {path: list(values) for path, values in before.items()} == {path: list(v) for path, v in after.items()}
    # parameters are shared: when they change, the search changes
    net.get_layer("output/p").params["b"].assign(np.array([9.0, 0.0, 0.0], "float32"))
    assert net.search(BATCH, beam_size=3).nbest(1) == [[""], [""]]


def test_an_additional_net_searches():
    decided = {"class": "decide", "from": "extra.search:output", "is_output_layer": True}
    net = built({**NET, "best": decided}, train_flag=False)
    out = net.forward(BATCH)
    assert "classes" in out["output"].describe_dims() and "beam" not in out["best"].describe_dims()
    best = net.search(BATCH).nbest(1)
    steps = next(dim for dim in out["best"].dims if not dim.is_batch_dim())
    labels = out["best"].copy_masked(0).copy_transpose([rf.batch_dim, steps]).numpy()
    assert [["".join(WORDS[label] for label in row if label)] for row in labels] == best


def test_errors():
    net = built()
    with pytest.raises(LayerNotFound, match="did you mean 'output'"):
        net.search(BATCH, layer="outptu")
    for bad in (0, True, "4"):
        with pytest.raises(NetworkError, match="beam_size"):
            net.search(BATCH, beam_size=bad)
    plain = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    plain.construct_from_dict({"output": {"class": "copy", "from": "data"}})
    with pytest.raises(LayerNotFound, match="no layer of the class choice"):
        plain.search({"data": BATCH["data"]})


@pytest.mark.parametrize("front", [
    {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 2, "with_bias": True, "from": "data"},
    {"class": "transposed_conv", "filter_size": (3,), "strides": (2,), "n_out": 2, "activation": None, "from": "data"},
    {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 2, "from": "data"},
    {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data"},
], ids=lambda front: front["class"])  # fmt: skip
def test_a_search_shares_what_is_before_the_loop(front):
    layers = {**NET, "front": front, "pool": {**NET["pool"], "from": "front"}}
    net = built(layers)
    rf.init_forward_step_run_ctx()
    found = net.search(BATCH, beam_size=30)
    (best, *_), _ = found.nbest(1, text=False)  # of the longest sequence, whose values do not depend on the batch
    assert score(net, best, 0) == pytest.approx(max(score(net, path, 0) for path in paths()), abs=1e-4)


def test_layers_with_one_name_scope_share_filters():
    conv = {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 2, "name_scope": "both"}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    net.construct_from_dict({"a": {**conv, "from": "data"}, "output": {**conv, "from": "a"}})
    assert len(net.get_params_list()) == 1
    out = net.forward({"data": (X, [4, 2])})
    twice = net.forward({"data": (out["a"].copy_masked(0).raw_tensor.detach().numpy(), [4, 2])})["a"]
    np.testing.assert_allclose(out["output"].raw_tensor.detach()[0], twice.raw_tensor.detach()[0], rtol=1e-5)


def test_a_choice_takes_the_exact_logarithm_of_a_softmax():
    """Also of probabilities that are too small for a number of 32 bits."""
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    rec = {"class": "rec", "unit": unit, "from": [], "target": "classes", "max_seq_len": 1}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}}))
    params = net.construct_from_dict({"output": rec}).get_layer("output/p").params
    params["W"].assign(np.zeros((3, 3), "float32"))
    params["b"].assign(np.array([0.0, 200.0, 100.0], "float32"))
    found = net.search({"data": (np.zeros((1, 2, 2), "float32"), [2])})
    assert found.scores.numpy().round().tolist() == [[0.0, -100.0, -200.0]]


def test_in_a_training_a_search_beside_the_net_is_as_long_as_its_target():
    """Its losses are those of all hypotheses of each step, as in the reference: 3 × 12 labels of 5, for 12 of them."""
    unit = {
        "emb": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
        "p": {"class": "softmax", "from": "emb", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    rec = {"class": "rec", "unit": unit, "from": [], "target": "classes", "max_seq_len": "max_len_from('base:data')"}
    best = {"class": "decide", "from": "extra.search:output", "loss": "edit_distance", "target": "classes"}
    extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 5, "sparse": True}})
    net = rf.Network(extern_data=extern, train_flag=None).construct_from_dict({"output": rec, "best": best})
    assert net.report()
    for parameter in net.parameters():
        parameter.assign(np.zeros([dim.dimension for dim in parameter.dims], "float32"))
    labels = np.array([[1, 2, 3, 4, 1], [1, 2, 3, 4, 0], [1, 2, 3, 0, 0]])
    batch = {"data": (np.ones((3, 4, 2), "float32"), [4, 4, 3]), "classes": (labels, [5, 4, 3])}
    rf.init_train_step_run_ctx(step=0)
    hypotheses = net(batch)["best"]
    assert hypotheses.size_of(hypotheses.dims[hypotheses.dims.index(rf.batch_dim) - 1]).values.tolist() == [5, 4, 3]
    losses, total, _ = net.get_losses_initialized(with_total=True)
    assert losses["output/p"].get_loss_value().item() == pytest.approx(12 * np.log(5), rel=1e-5)
    assert losses["extra.search:output/p"].get_loss_value().item() == pytest.approx(36 * np.log(5), rel=1e-5)
    total.backward()
    rf.init_forward_step_run_ctx()
    assert net(batch)["best"].num_elements() < 12  # ended by the label 0
