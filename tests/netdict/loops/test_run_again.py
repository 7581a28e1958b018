"""A net that has run before gives what a new net gives, bit by bit: no call leaves anything for the next one."""

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples

pytestmark = pytest.mark.usefixtures("inference")

N = 5
ATTENTION = {
    "embed": {"class": "linear", "from": "output", "n_out": N, "with_bias": False, "initial_output": 0},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["prev:embed", "prev:att"], "n_out": N, "dropout": 0.3},
    "query": {"class": "linear", "from": "s", "n_out": N, "with_bias": False},
    "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query"], "n_out": N},
    "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
    "energy": {"class": "linear", "from": "energy_tanh", "n_out": 1, "with_bias": False},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "p": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce", "dropout": 0.2},
    "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
}
DECODER = {
    "encoder": {"class": "linear", "from": "data", "n_out": N, "activation": "tanh"},
    "keys": {"class": "linear", "from": "encoder", "n_out": N, "with_bias": False},
    "output": {"class": "rec", "unit": ATTENTION, "from": [], "target": "classes", "max_seq_len": 6},
}
FEEDBACK = {
    "gru": {"class": "rnn_cell", "unit": "GRU", "n_out": N, "from": ["data:source", "prev:output"]},
    "step": {"class": "eval", "eval": "tf.cast(source(0), tf.float32)", "from": ":i"},
    "scaled": {"class": "eval", "eval": "source(0) * (source(1) + 1.0)", "from": ["gru", "step"]},
    "output": {"class": "linear", "from": ["scaled", "prev:output"], "n_out": 4, "activation": "tanh",
               "dropout": 0.4, "L2": 0.1, "loss": "mean_l1", "target": "frames"},
}  # fmt: skip
FEEDBACK_NET = {"output": {"class": "rec", "unit": FEEDBACK, "from": "data"}}
MASKED = {
    "s": {"class": "linear", "activation": "tanh", "n_out": N, "from": ["data:source", "prev:taken"]},
    "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "s"},
    "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "sum"},
    "m": {"class": "masked_computation", "mask": "mask", "from": "s", "unit": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "drop": {"class": "dropout", "dropout": 0.3, "from": "data"},
            "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": N, "from": "drop"},
            "gru": {"class": "rnn_cell", "unit": "GRU", "n_out": N, "from": "lstm"},
            "p": {"class": "linear", "n_out": 4, "from": "gru", "loss": "mean_l1", "target": "frames"},
            "output": {"class": "copy", "from": ["gru", "drop"]},
        },
    }},
    "taken": {"class": "unmask", "from": "m", "mask": "mask"},
    "output": {"class": "linear", "from": ["taken", "prev:output"], "n_out": 4, "activation": "tanh"},
}  # fmt: skip
MASKED_NET = {"output": {"class": "rec", "unit": MASKED, "from": "data"}}
EXTERN = {
    "data": {"dim": 3},
    "classes": {"dim": 4, "sparse": True},
    "frames": {"dim": 4, "same_dim_tags_as": "data"},
}


def built(layers=DECODER, **options):
    extern = {key: value for key, value in EXTERN.items() if key != "frames" or layers is not DECODER}
    net = rf.Network(extern_data=rf.ExternData(extern), **{"train_flag": None, "eval_flag": True, **options})
    net.construct_from_dict(layers)
    draw = np.random.default_rng(0)
    for parameter in net.get_params_list():
        parameter.assign(draw.normal(size=[dim.dimension for dim in parameter.dims]).astype("float32"))
    return net


def batch_of(lengths, targets=None, seed=0):
    draw = np.random.default_rng(seed)
    targets = lengths if targets is None else targets
    longest = max(lengths, default=0)
    return {
        "data": (draw.normal(size=(len(lengths), longest, 3)).astype("float32"), lengths),
        "classes": (draw.integers(1, 4, (len(targets), max(targets, default=0))).astype("int32"), targets),
        "frames": (draw.normal(size=(len(lengths), longest, 4)).astype("float32"), lengths),
    }


def called(net, batch, seed=1):
    """All outputs, the gradients of the loss, and the state of the generator."""
    torch.manual_seed(seed)
    batch = {key: value for key, value in batch.items() if net.extern_data.has_data(key)}
    values = {path: x for path, x in net(batch).items() if isinstance(x, rf.Tensor)}
    total = net.get_total_loss()
    for parameter in net.get_params_list():
        parameter.raw_tensor.grad = None
    if torch.is_grad_enabled():
        total.backward()
    grads = {p.name: p.raw_tensor.grad for p in net.get_params_list() if p.raw_tensor.grad is not None}
    return values, grads, torch.get_rng_state()


def assert_as_new(net, layers, batch, seed=1):
    """A call of the net gives what a new net with its parameters gives."""
    new = built(layers)
    for own, others in zip(new.get_params_list(), net.get_params_list(), strict=True):
        own.assign(others.raw_tensor.detach())
    (values, grads, state), (expected, expected_grads, expected_state) = (
        called(net, batch, seed),
        called(new, batch, seed),
    )
    assert values.keys() == expected.keys() and grads.keys() == expected_grads.keys()
    for path, x in values.items():
        y = expected[path]
        assert x.dtype == y.dtype and torch.equal(x.raw_tensor, y.raw_tensor), path
        assert [d.name for d in x.dims] == [d.name for d in y.dims], path
        assert all(x.size_of(a).agrees(y.size_of(b)) for a, b in zip(x.dims, y.dims, strict=True)), path
    for name, grad in grads.items():
        assert torch.equal(grad, expected_grads[name]), name
    assert torch.equal(state, expected_state)
    return values


LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=4)
NETS = {"attention": DECODER, "feedback": FEEDBACK_NET, "masked": MASKED_NET}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
@given(calls=st.lists(st.tuples(LENGTHS, st.booleans(), st.booleans()), min_size=2, max_size=6), data=st.data())
@examples(8)
def test_results_are_those_of_a_new_net(name, calls, data):
    """For lengths with 0 and 1, batch sizes, train flags, with and without gradients."""
    net = built(NETS[name])
    for seed, (lengths, train, gradients) in enumerate(calls):
        targets = data.draw(st.lists(st.integers(0, 4), min_size=len(lengths), max_size=len(lengths)))
        batch = batch_of(lengths, targets if name == "attention" else lengths, seed)
        with rf.get_run_ctx().train_flag_ctx(train), torch.set_grad_enabled(gradients):
            assert_as_new(net, NETS[name], batch, seed)


def test_the_explanation_and_errors_are_the_same():
    net = built(FEEDBACK_NET)
    called(net, batch_of([3, 4]))
    before = rf.show(net.explain("output")).text
    called(net, batch_of([4, 3]))
    assert rf.show(net.explain("output")).text == before
    with pytest.raises(DimError, match="lengths"):
        decoder = built()
        called(decoder, batch_of([3, 4]))
        called(decoder, {**batch_of([3, 4]), "data": batch_of([3, 4, 4])["data"]})


def test_parameters_are_read_again():
    """After a step of an optimizer, after an assignment, and after loading."""
    net = built()
    batch = batch_of([3, 4], [2, 4])
    first = called(net, batch)[0]
    optimizer = torch.optim.SGD([p.raw_tensor for p in net.get_params_list()], 0.5)
    for change in (
        optimizer.step,
        lambda: net.get_layer("output/query").params["W"].assign(np.ones((N, N), "float32")),
        lambda: rf.load({path: p.numpy() * 2 for path, p in net.named_parameters()}, net),
    ):
        change()
        second = assert_as_new(net, DECODER, batch)
        assert not torch.equal(first["output/p"].raw_tensor, second["output/p"].raw_tensor)
        first = second


def test_random_numbers_are_drawn_anew():
    net = built(train_flag=True)
    batch = batch_of([3, 4], [2, 4])
    draws = [called(net, batch, seed)[0]["output/p"].raw_tensor for seed in (1, 2, 1)]
    assert not torch.equal(draws[0], draws[1]) and torch.equal(draws[0], draws[2])


def test_in_autocast_and_inference_mode():
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_as_new(net, DECODER, batch)
    with torch.inference_mode():
        assert_as_new(net, DECODER, batch)
    assert_as_new(net, DECODER, batch)


def test_after_an_error_in_a_step():
    """The next call is as if there had been none."""
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    wrong = {**batch, "classes": (np.full((2, 4), 9, "int32"), [2, 4])}
    with pytest.raises(Exception, match=r".*"):
        called(net, wrong)
    assert_as_new(net, DECODER, batch)


@pytest.mark.parametrize("pure", [False, True])
def test_functions_of_the_user_run_in_each_call(pure):
    """They may read anything. A mark that they depend on their arguments alone changes nothing."""
    calls = []

    def doubled(source, **kwargs):
        calls.append(1)
        return source(0) * float(len(calls))

    unit = {
        "mine": {"class": "eval", "eval": rf.pure(doubled) if pure else doubled, "from": "data:source"},
        "output": {"class": "linear", "from": ["mine", "prev:output"], "n_out": 4},
    }
    net = built({"output": {"class": "rec", "unit": unit, "from": "data"}})
    count = len(calls)
    batch = {key: value for key, value in batch_of([2, 3]).items() if key == "data"}
    outs = [net(batch)["output"].raw_tensor for _ in range(3)]
    assert len(calls) == count + 3 and not torch.equal(outs[0], outs[1])


def test_what_cannot_be_marked_as_pure():
    with pytest.raises(ParameterError, match="cannot be marked"):
        rf.pure(len)


@pytest.mark.slow
def test_a_net_holds_no_tensor_of_its_batch():
    net = built()
    values, _, _ = called(net, batch_of([3, 4], [2, 4]))
    alive = [weakref.ref(values[path].raw_tensor) for path in ("encoder", "output/p")]
    del values
    net._values, net._holders = {}, None
    for layer in net.layers.values():
        layer.last.logits = None
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


@pytest.mark.slow
@given(calls=st.lists(LENGTHS, min_size=2, max_size=6))
@examples(8)
def test_a_search_finds_what_a_new_net_finds(calls):
    net = built()
    for seed, lengths in enumerate(calls):
        batch = {"data": batch_of(lengths, seed=seed)["data"]}
        found, expected = net.search(batch, beam_size=3), built().search(batch, beam_size=3)
        assert torch.equal(found.scores.raw_tensor, expected.scores.raw_tensor)
        assert found.nbest(3, text=False) == expected.nbest(3, text=False)
        for i in range(len(lengths)):
            assert found.tree[i].to_json() == expected.tree[i].to_json()
