"""A call of a net runs the step that an earlier call has traced; all results are those of a traced step, bit by bit."""

import copy
import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from rfnb.loop.kept.kept_steps import KeptSteps
from tests.examples import examples

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


def kept(net):
    (rec,) = net._builder.loops.nets.values()
    return rec.kept_steps


def traced(net, *args):
    """The same as `called`, by tracing."""
    (rec,) = net._builder.loops.nets.values()
    before, rec.kept_steps = rec.kept_steps, KeptSteps()
    try:
        return called(net, *args)
    finally:
        rec.kept_steps = before


def assert_same(found, expected):
    values, grads, state = found
    other_values, other_grads, other_state = expected
    assert values.keys() == other_values.keys() and grads.keys() == other_grads.keys()
    for path, x in values.items():
        y = other_values[path]
        assert x.dims == y.dims and x.dtype == y.dtype, path
        assert [x.size_of(dim).agrees(y.size_of(dim)) for dim in x.dims] == [True] * len(x.dims), path
        assert torch.equal(x.raw_tensor, y.raw_tensor), path
    for name, grad in grads.items():
        assert torch.equal(grad, other_grads[name]), name
    assert torch.equal(state, other_state)


LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=4)
NETS = {"attention": DECODER, "feedback": FEEDBACK_NET, "masked": MASKED_NET}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
@given(calls=st.lists(st.tuples(LENGTHS, st.booleans(), st.booleans()), min_size=2, max_size=8), data=st.data())
@examples(12)
def test_results_are_those_of_a_traced_step(name, calls, data):
    """For lengths with 0 and 1, batch sizes, train flags, with and without gradients."""
    net = built(NETS[name])
    for seed, (lengths, train, gradients) in enumerate(calls):
        targets = data.draw(st.lists(st.integers(0, 4), min_size=len(lengths), max_size=len(lengths)))
        batch = batch_of(lengths, targets if name == "attention" else lengths, seed)
        with rf.get_run_ctx().train_flag_ctx(train), torch.set_grad_enabled(gradients):
            assert_same(called(net, batch, seed), traced(net, batch, seed))


@pytest.mark.parametrize("name", NETS)
def test_a_second_call_does_not_trace(name):
    """Also of batches with other sizes, if they lie between sizes that gave the same step."""
    net = built(NETS[name])
    for lengths in ([2, 3], [5, 9, 4, 7], [3, 4, 5], [8, 2], [9, 4, 4, 5], [6, 6, 7]):
        batch = batch_of(lengths)
        assert_same(called(net, batch), traced(net, batch))
    assert (kept(net).traced, kept(net).again) == (2, 4) and not kept(net).refused


def test_the_explanation_and_errors_are_the_same():
    net = built(FEEDBACK_NET)
    called(net, batch_of([3, 4]))
    before = rf.show(net.explain("output")).text
    called(net, batch_of([4, 3]))
    assert kept(net).again == 1 and rf.show(net.explain("output")).text == before
    with pytest.raises(DimError, match="lengths"):
        decoder = built()
        called(decoder, batch_of([3, 4]))
        called(decoder, {**batch_of([3, 4]), "data": batch_of([3, 4, 4])["data"]})


def test_parameters_are_read_again():
    """After a step of an optimizer, after an assignment, and after loading."""
    net = built()
    batch = batch_of([3, 4], [2, 4])
    first = called(net, batch)
    optimizer = torch.optim.SGD([p.raw_tensor for p in net.get_params_list()], 0.5)
    for change in (
        optimizer.step,
        lambda: net.get_layer("output/query").params["W"].assign(np.ones((N, N), "float32")),
    ):
        change()
        second = called(net, batch)
        assert_same(second, traced(net, batch))
        assert not torch.equal(first[0]["output/p"].raw_tensor, second[0]["output/p"].raw_tensor)
    rf.load({path: p.numpy() * 2 for path, p in net.named_parameters()}, net)
    assert_same(called(net, batch), traced(net, batch))
    assert (kept(net).traced, kept(net).again) == (1, 3)


def drop(layer, dropout):
    """Sets the option of a layer, if it is another one."""
    if dropout != layer.spec.common.dropout:
        layer.decide(common=replace(layer.spec.common, dropout=dropout))


def test_a_changed_option_of_a_layer_in_a_unit():
    """It is traced again."""
    net = built(MASKED_NET, train_flag=True)
    batch = batch_of([3, 4])
    for dropout, again in ((0.3, 0), (0.3, 1), (0.0, 1), (0.0, 2)):
        drop(net._nodes["output/m"].layer.inner.nodes["output/m/unit/drop"].layer, dropout)
        assert_same(called(net, batch), traced(net, batch))
        assert kept(net).again == again


def test_a_changed_option_of_a_layer_and_another_parameter_count():
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    drop(net.get_layer("output/p"), 0.1)
    layer = net.get_layer("output/query")
    layer.W = rf.Parameter(layer.W.dims)
    layer.W.assign(np.full((N, N), 0.3, "float32"))
    with rf.get_run_ctx().train_flag_ctx(True):
        assert_same(called(net, batch), traced(net, batch))
    assert kept(net).again == 0


def test_random_numbers_are_drawn_anew():
    net = built(train_flag=True)
    batch = batch_of([3, 4], [2, 4])
    draws = [called(net, batch, seed)[0]["output/p"].raw_tensor for seed in (1, 2, 1)]
    assert kept(net).again == 2
    assert not torch.equal(draws[0], draws[1]) and torch.equal(draws[0], draws[2])


def test_other_dtypes_trace():
    net = built()
    called(net, batch_of([3, 4], [2, 4]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        batch = batch_of([3, 4], [2, 4])
        assert_same(called(net, batch), traced(net, batch))
    assert kept(net).again == 0


def test_who_looks_at_a_step_sees_it():
    """A recorded call is traced, and so is one that somebody observes."""
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    rf.runs.clear()
    with rf.recording("last"):
        called(net, batch)
    run = rf.runs[-1]
    assert run[1]["att"] is not None and kept(net).again == 0
    with rf.capture(net):
        called(net, batch)
    assert kept(net).again == 0
    called(net, batch)
    assert kept(net).again == 1
    rf.runs.clear()


def test_inference_mode_and_copies():
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    with torch.inference_mode():
        for _ in range(2):
            assert_same(called(net, batch), traced(net, batch))
    assert_same(called(net, batch), traced(net, batch))
    assert kept(net)._entries and not copy.deepcopy(kept(net))._entries


def test_after_an_error_in_a_step():
    """The next call is as if there had been none."""
    net = built()
    batch = batch_of([3, 4], [2, 4])
    called(net, batch)
    wrong = {**batch, "classes": (np.full((2, 4), 9, "int32"), [2, 4])}
    with pytest.raises(Exception, match=r".*"):
        called(net, wrong)
    assert_same(called(net, batch), traced(net, batch))


def test_functions_of_the_user_run_in_each_call():
    """They may read anything."""
    calls = []

    def doubled(source, **kwargs):
        calls.append(1)
        return source(0) * float(len(calls))

    unit = {
        "mine": {"class": "eval", "eval": doubled, "from": "data:source"},
        "output": {"class": "linear", "from": ["mine", "prev:output"], "n_out": 4},
    }
    net = built({"output": {"class": "rec", "unit": unit, "from": "data"}})
    count = len(calls)
    batch = {key: value for key, value in batch_of([2, 3]).items() if key == "data"}
    outs = [net(batch)["output"].raw_tensor for _ in range(3)]
    assert len(calls) == count + 3 and not torch.equal(outs[0], outs[1])


@pytest.mark.parametrize("given", ["in the net dict", "by name"])
def test_functions_marked_as_pure_run_once(given, tmp_path):
    calls = []

    @rf.pure
    def doubled(source, **kwargs):
        calls.append(1)
        return source(0) * 2.0

    unit = {
        "mine": {"class": "eval", "eval": doubled, "from": "data:source"},
        "output": {"class": "linear", "from": ["mine", "prev:output"], "n_out": 4},
    }
    if given == "in the net dict":
        net = built({"output": {"class": "rec", "unit": unit, "from": "data"}})
    else:
        text = "def twice(source, **kwargs):\n  return unknown_here(source)\n"
        text += "unit = {'mine': {'class': 'eval', 'eval': twice, 'from': 'data:source'},\n"
        text += "  'output': {'class': 'linear', 'from': ['mine', 'prev:output'], 'n_out': 4}}\n"
        text += "network = {'output': {'class': 'rec', 'unit': unit, 'from': 'data'}}\n"
        text += "extern_data = {'data': {'dim': 3}}\n"
        (tmp_path / "net.config").write_text(text)
        net = rf.Network.from_config(tmp_path / "net.config", functions={"twice": doubled})
    batch = {key: value for key, value in batch_of([2, 3]).items() if key == "data"}
    outs = [net(batch)["output"].raw_tensor for _ in range(2)]
    count = len(calls)
    outs += [net(batch)["output"].raw_tensor for _ in range(2)]
    assert len(calls) == count and torch.equal(outs[0], outs[3])


def test_what_cannot_be_marked_as_pure():
    with pytest.raises(ParameterError, match="cannot be marked"):
        rf.pure(len)


@pytest.mark.slow
def test_a_kept_step_holds_no_tensor_of_its_batch():
    net = built()
    values, _, _ = called(net, batch_of([3, 4], [2, 4]))
    alive = [weakref.ref(values[path].raw_tensor) for path in ("encoder", "output/p")]
    del values
    net._values, net._holders = {}, None
    for layer in net.layers.values():
        layer.last.logits = None
    gc.collect()
    assert [each() for each in alive] == [None, None]


@pytest.mark.slow
@given(calls=st.lists(LENGTHS, min_size=2, max_size=6))
@examples(12)
def test_a_search_finds_the_same(calls):
    net = built()
    for seed, lengths in enumerate(calls):
        batch = {"data": batch_of(lengths, seed=seed)["data"]}
        found = net.search(batch, beam_size=3)
        (rec,) = net._searches[3]._builder.loops.nets.values()
        before, rec.kept_steps = rec.kept_steps, KeptSteps()
        expected = net.search(batch, beam_size=3)
        rec.kept_steps = before
        assert torch.equal(found.scores.raw_tensor, expected.scores.raw_tensor)
        assert found.nbest(3, text=False) == expected.nbest(3, text=False)
        for i, length in enumerate(lengths):
            assert found.tree[i].to_json() == expected.tree[i].to_json(), length


def test_a_second_search_does_not_trace():
    net = built()
    for lengths in ([2, 3], [5, 9, 4, 7], [3, 4, 5], [8, 2]):
        net.search({"data": batch_of(lengths)["data"]}, beam_size=3)
    (rec,) = net._searches[3]._builder.loops.nets.values()
    assert (rec.kept_steps.traced, rec.kept_steps.again) == (2, 2) and not rec.kept_steps.refused
