"""Net dicts with wrong values anywhere are refused by typed errors, which say what is wrong and where."""

import contextlib
import copy
import inspect
import itertools
import random
import sys

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkConstructionDependencyLoopException, NetworkError, RfError
from rfnb.netdict.layer import Layer, layer_by_class
from rfnb.netdict.resolve import class_name

COPY = {"class": "copy", "from": "data"}
FEATURES = rf.FeatureDim("features", 4)
EXTERN = {
    "data": {"dim_tags": [rf.batch_dim, rf.SpatialDim("time"), FEATURES]},
    "classes": {"dim": 3, "sparse": True},
    "audio": {"dim": 1, "shape": (None, 1)},
}


def unit(**layers):
    return {"class": "rec", "from": "data", "target": "classes", "max_seq_len": 3, "unit": layers}


STEP = {"class": "linear", "from": ["data:source", "prev:output"], "n_out": 2}
SEARCH = unit(
    p={"class": "softmax", "from": "prev:output", "target": "classes"},
    output={"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0},
    end={"class": "compare", "from": "output", "value": 0},
)
SEARCH["from"] = []
LAYERS = {
    "linear hidden forward softmax activation": {"n_out": 2, "activation": "tanh"},
    "copy dropout identity length layer_norm batch_norm": {},
    "swap_axes": {"axis1": "T", "axis2": "F"},
    "cast": {"dtype": "int32"},
    "conv": {"n_out": 2, "filter_size": (3,), "padding": "same"},
    "transposed_conv": {"n_out": 2, "filter_size": (3,), "strides": 2},
    "pool": {"pool_size": (2,), "padding": "same"},
    "constant": {"value": 1.0, "from": []},
    "variable": {"shape": (3,), "from": []},
    "combine": {"kind": "add", "from": ["data", "a"]},
    "eval": {"eval": "source(0) * 2"},
    "compare": {"value": 1.0, "kind": "greater"},
    "switch": {"condition": "c", "true_from": "data", "false_from": 0.0, "from": None},
    "dot": {"from": ["data", "a"], "red1": "F", "red2": "F", "var1": "T", "var2": "auto"},
    "norm": {"axes": "F"},
    "gating": {"activation": "tanh"},
    "range": {"limit": 3, "from": []},
    "range_in_axis seq_len_mask": {"axis": "T"},
    "range_from_length": {"from": "lens"},
    "rec": {"unit": "lstm", "n_out": 2},
    "rnn_cell": {"inside": True, "unit": "LSTMBlock", "n_out": 2},
    "get_last_hidden_state": {"from": "rec", "n_out": 2, "key": "c"},
    "choice": {"from": "p", "target": "classes", "inside": True, "beam_size": 2, "initial_output": 0},
    "decide": {"from": "search"},
    "generic_attention": {"weights": "w", "base": "data", "from": None},
    "dot_attention concat_attention": {"base": "data", "base_ctx": "data", "from": "last"},
    "cum_concat": {"axis": "T"},
    "positional_encoding relative_positional_encoding": {"n_out": 4},
    "masked_computation": {"mask": "c1", "unit": {"class": "copy", "from": "data"}, "from": "data"},
    "unmask": {"from": "masked", "mask": "c1"},
    "self_attention": {"n_out": 4, "num_heads": 2, "total_key_dim": 4},
    "rec:unit": {"class": "rec", "unit": {"output": STEP}},
    "rec_last_output": {"rec_layer": "loop", "sub_layer_name": "output"},
    "get_rec_accumulated": {"from": "loop", "sub_layer": "output"},
    "reduce": {"mode": "mean", "axes": "T"},
    "math_norm": {"axes": "F"},
    "reduce_out": {"num_pieces": 2},
    "cumsum": {"axis": "T"},
    "elemwise_prod weighted_sum": {"axes": "F"},
    "split_dims": {"axis": "F", "dims": (2, -1)},
    "merge_dims": {"axes": ["T", "F"]},
    "squeeze": {"axis": "F", "from": "data:audio"},
    "expand_dims": {"axis": "F"},
    "reinterpret_data": {"size_base": "a"},
    "reshape": {"in_dims": [FEATURES], "out_dims": [FEATURES]},
    "transpose": {"perm": {}},
    "tile": {"multiples": {"F": 2}},
    "slice": {"axis": "T", "slice_start": 1},
    "slice_nd": {"start": "starts", "size": 2},
    "gather": {"axis": "F", "position": 1},
    "gather_nd": {"position": "starts"},
    "shift_axis": {"axis": "T", "amount": 1},
    "resize": {"axis": "T", "factor": 2},
    "time_chunking": {"chunk_size": 3, "chunk_step": 2},
    "time_unchunking": {"from": "chunks", "chunking_layer": "chunks"},
    "loss": {"loss_": "ce", "target_": "classes", "from": "soft"},
    "sparse_softmax_cross_entropy_with_logits": {"logits": "soft", "targets": "data:classes", "from": None},
    "edit_distance": {"a": "data:classes", "b": "data:classes", "from": None},
    "flatten_batch": {"axis": "T"},
    "unflatten_batch": {"from": "flat"},
    "random": {"shape": (3,), "distribution": "normal", "from": []},
    "rand_int": {"shape": (3,), "maxval": 5, "from": []},
    "stft": {"frame_shift": 2, "frame_size": 4, "from": "data:audio"},
    "scaled_grad": {"scale": 0.5},
    "train_flag": {"from": []},
    "print": {"summarize": 0},
    "softmax_over_spatial": {"axis": "T"},
    "window": {"window_size": 3},
    "prefix_in_time": {"prefix": 0.0},
    "postfix_in_time": {"postfix": 0.0},
    "pad": {"axes": "T", "padding": (1, 1)},
    "repeat": {"repetitions": 2},
    "concat": {"from": [("data", "F"), ("a", "F")]},
    "split": {"num_splits": 2},
    "stack": {"from": ["data", "a"]},
    "top_k": {"k": 2},
    "subnetwork": {"subnetwork": {"output": COPY}},
    "cond": {"condition": "true", "true_layer": dict(COPY), "false_layer": dict(COPY), "from": None},
}
"""By classes: options with which a layer is right; "inside": in a loop."""
BY_CLASS = {name: {"class": name, "from": "data", **given} for names, given in LAYERS.items() for name in names.split()}
OTHERS = {
    "a": COPY,
    "soft": {"class": "softmax", "n_out": 3, "from": "data"},
    "c": {"class": "compare", "value": 0.0, "kind": "greater", "from": "data"},
    "c1": {"class": "compare", "value": -99.0, "kind": "greater", "from": "sum"},
    "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"},
    "w": {"class": "softmax_over_spatial", "axis": "T", "from": "sum"},
    "last": {"class": "reduce", "mode": "mean", "axes": "T", "from": "data"},
    "lens": {"class": "length", "axis": "T", "from": "data"},
    "starts": {"class": "eval", "eval": "source(0) * 0", "from": "lens"},
    "true": {"class": "constant", "value": True, "dtype": "bool"},
    "rec": {"class": "rec", "unit": "lstm", "n_out": 2, "from": "data"},
    "loop": {"class": "rec", "from": "data", "unit": {"output": STEP}},
    "search": SEARCH,
    "masked": {"class": "masked_computation", "mask": "c1", "unit": COPY, "from": "data"},
    "chunks": {"class": "time_chunking", "chunk_size": 3, "chunk_step": 2, "from": "data"},
    "flat": {"class": "flatten_batch", "axis": "T", "from": "data"},
}
WRONG = [None, 0, -1, "x", [], {}, object(), 1e10, 10**10, [[1], ["a"]], float("nan"), "no layer", np.zeros(2), {1: 2}]


def net_with(layer):
    """A net with a layer, which may stand in a loop."""
    layer = copy.copy(layer)
    if not layer.pop("inside", False):
        return {**OTHERS, "output": layer}
    inner = {"p": {"class": "softmax", "from": "prev:output", "target": "classes"}, "l": layer, "output": COPY}
    inner["output"] = {"class": "copy", "from": "l", "initial_output": 0}
    if class_name(layer) == "choice":
        inner = {"p": {**inner["p"], "from": "prev:output"}, "output": layer}
    return {**OTHERS, "output": unit(**inner)}


def run(layer):
    """Constructs a net and computes a batch of it, with the losses."""
    extern = rf.ExternData(EXTERN)
    net = rf.Network({}, extern, eval_flag=True)
    net.construct_from_dict(net_with(layer))
    net.forward(extern.example(batch=2, frames=4))
    net.get_losses_initialized(with_total=True)


@pytest.mark.parametrize("name", BY_CLASS)
def test_the_layers_that_wrong_values_are_put_into_run(name):
    run(BY_CLASS[name])


def wrong_layers(name):
    """Layers of a class with a wrong value for one option: each of its own options, and some that all have."""
    draw = random.Random(name)
    cls = layer_by_class(name)
    own = [option for option in cls.options if option not in Layer.options]
    for option in [*own, "from", "class", *draw.sample(sorted(Layer.options), 3)]:
        for value in draw.sample(WRONG, 2):
            yield {**BY_CLASS[name], option: value}


@pytest.mark.parametrize("name", BY_CLASS)
def test_a_wrong_option_gives_a_typed_error_or_none(name):
    for layer in wrong_layers(name):
        try:
            run(layer)
        except RfError as error:
            assert "output" in error.what or "no layer to construct" in error.what, error


def construct(net, **more):
    return rf.Network({}, rf.ExternData(EXTERN), **more).construct_from_dict(net)


def nested(depth, layer=COPY):
    for _ in range(depth):
        layer = {"class": "subnetwork", "from": "data", "subnetwork": {"output": layer}}
    return {"output": layer}


SELF = {"class": "subnetwork", "from": "data", "subnetwork": {}}
SELF["subnetwork"]["output"] = SELF
TWICE = COPY
for _ in range(40):
    TWICE = {"class": "subnetwork", "from": "data", "subnetwork": {"a": TWICE, "output": TWICE}}


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (nested(500), "nested too deeply"),
        ({"output": SELF}, "contains itself"),
        ({"output": TWICE}, "too many layers"),
        ({3: COPY, "output": COPY}, "the name of a layer is not a string"),
        ({"output": {"class": "rec", "from": "data", "unit": {None: COPY}}}, "layer 'output': the name of a layer"),
    ],
)
def test_a_net_of_another_structure_is_refused(net, words):
    with pytest.raises(NetworkError, match=words):
        construct(net)


def test_nets_may_be_nested_as_deep_as_anybody_writes_them():
    assert construct(nested(55)).template("output").feature_dim is FEATURES


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"class": "linear", "n_out": 3, "from": []}, r"(?s)too few or too many sources.*got +0.*expected +1 source"),
        ({"class": "linear", "n_out": 3, "from": None}, r"(?s)too few or too many sources.*expected +1 source"),
        ({"class": "dot", "red1": "F", "red2": "F", "from": "data"}, r"(?s)too few.*got +1.*expected +2 sources"),
        ({"class": "generic_attention", "base": "data"}, "weights is not the name of a layer"),
        ({**BY_CLASS["cond"], "condition": {"class": "constant"}}, "condition is not the name of a layer"),
        ({**BY_CLASS["self_attention"], "num_heads": 0}, r"(?s)`num_heads` is not a positive number.*got +0"),
        ({**BY_CLASS["cond"], "name_scope": 3}, r"(?s)name_scope has a value .*got +int 3.*expected +a string"),
        ({"class": "cast", "dtype": "float33", "from": "data"}, r"(?s)unknown dtype.*float33"),
        ({"class": "softmax", "loss": "ce", "target": 3, "from": "data"}, r"(?s)target has a value.*int 3.*a string"),
        ({**BY_CLASS["pad"], "padding": (0, 10**10)}, r"(?s)padding is too large.*at most"),
        ({**BY_CLASS["linear"], "dropout": float("nan")}, "`dropout` is not a probability"),
        ({**BY_CLASS["weighted_sum"], "size": {}}, r"(?s)size is not one number for each axis.*got +\{\}"),
        ({**BY_CLASS["prefix_in_time"], "prefix": object()}, r"(?s)prefix does not fit.*for example prefix: 0.0"),
    ],
)
def test_the_error_names_layer_option_value_and_way(layer, words):
    with pytest.raises(RfError, match=words) as caught:
        run(layer)
    assert caught.value.what.startswith(f"layer 'output' ({layer['class']}): ")


def test_trainable_may_be_a_number():
    net = construct({"output": {"class": "linear", "n_out": 2, "trainable": 0, "from": "data"}})
    assert not net.get_layer("output").params["W"].trainable


LINEAR = {"class": "linear", "n_out": 4, "from": "data"}
CHAINS = {
    "from": lambda last: {"class": "copy", "from": last},
    "pairs of from": lambda last: {"class": "concat", "from": [(last, "T")]},
    "reuse_params": lambda last: {**LINEAR, "reuse_params": last},
    "size_base": lambda last: {"class": "reinterpret_data", "from": "data", "size_base": last},
    "target": lambda last: {**LINEAR, "target": f"layer:{last}"},
    "true_from": lambda last: {**BY_CLASS["switch"], "true_from": last},
    "sides": lambda last: {**BY_CLASS["cond"], "true_layer": {"class": "copy", "from": last}, "false_layer": last},
    "a net": lambda last: {"class": "subnetwork", "from": last, "subnetwork": {"output": COPY}},
}


@pytest.mark.parametrize("option", CHAINS)
def test_a_chain_of_layers_may_be_longer_than_calls_can_be_nested(option):
    names = ["first", *(f"l{i}" for i in range(90)), "output"]
    net = {name: CHAINS[option](last) for last, name in itertools.pairwise(names)}
    with deepest(400):
        found = construct({"c": OTHERS["c"], "true": OTHERS["true"], **net, "first": LINEAR})
    assert found.template("output").feature_dim.dimension == 4


def test_a_layer_may_have_the_parameters_of_one_that_needs_it():
    """The layers of the circle share them; a real circle, through sources, is an error still."""
    net = construct({"a": {**LINEAR, "reuse_params": "output"}, "output": {**LINEAR, "from": "a"}})
    assert net.get_layer("a").params["W"] is net.get_layer("output").params["W"]
    assert list(net.variables()) == ["output/W", "output/b"]
    with pytest.raises(NetworkConstructionDependencyLoopException, match="output → a → output"):
        construct({"a": {**LINEAR, "from": "output", "reuse_params": "output"}, "output": {**LINEAR, "from": "a"}})


@contextlib.contextmanager
def deepest(calls):
    """At most this many more calls, one inside the other."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_an_error_of_a_users_function_stays_as_it_is():
    def activation(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        construct({"output": {**LINEAR, "activation": activation}})


def test_what_a_wrong_net_leaves_is_what_was_there():
    net = construct({"output": LINEAR})
    with pytest.raises(NetworkError):
        net.construct_from_dict({"more": {**LINEAR, "is_output_layer": True, "n_out": 0}, 3: COPY})
    assert list(net.layers) == ["output"]
