"""With `batch_independent`, each sequence has the values that the network computes for it alone, and without it where
the report does not say otherwise."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.netdict.layers.ragged import LENGTHS, parts_of


def one(cls, **options):
    return {"output": {"class": cls, "from": "data", **options}}


def on_two_axes(cls, **options):
    return {
        "image": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "data"},
        "output": {"class": cls, "from": "image", **options},
    }


def added(cls, **options):
    """To all frames, what a layer makes of all frames."""
    return {
        "of all": {"class": cls, "from": "data", **options},
        "output": {"class": "combine", "kind": "add", "from": ["data", "of all"]},
    }


FEWER = examples(8, suppress_health_check=list(HealthCheck))
SAME = {"padding": "same"}
NETS = {
    "conv": one("conv", filter_size=(3,), n_out=2, with_bias=True, **SAME),
    "conv, wide": one("conv", filter_size=(4,), n_out=2, **SAME),
    "conv, strided": one("conv", filter_size=(4,), n_out=2, strides=3, **SAME),
    "conv, dilated": one("conv", filter_size=(3,), n_out=2, dilation_rate=2, **SAME),
    "conv, valid": one("conv", filter_size=(3,), n_out=2, strides=2, padding="valid"),
    "conv, two axes": on_two_axes("conv", filter_size=(3, 3), n_out=2, strides=(2, 2), **SAME),
    "max": one("pool", pool_size=(3,), mode="max", **SAME),
    "max, strided": one("pool", pool_size=(3,), mode="max", strides=2, **SAME),
    "mean": one("pool", pool_size=(2,), mode="avg", **SAME),
    "mean, strided": one("pool", pool_size=(4,), mode="avg", strides=2, **SAME),
    "mean, two axes": on_two_axes("pool", pool_size=(3, 2), mode="avg", strides=(2, 2), **SAME),
    "max, valid": one("pool", pool_size=(2,), mode="max"),
    "window": one("window", window_size=3),
    "window to the right": one("window", window_size=3, window_left=0, window_right=2),
    "window, strided": one("window", window_size=4, stride=2),
    "norm": one("norm", axes="T"),
    "sum from the end": one("cumsum", reverse=True),
    "sum": one("cumsum"),
    "linear": one("resize", axis="T", factor=3, kind="linear"),
    "cubic": one("resize", axis="T", factor=2, kind="cubic"),
    "tile": one("tile", multiples={"T": 2}),
    "weighted": one("weighted_sum", axes="T", size=3, padding="same"),
    "weighted, valid": one("weighted_sum", axes="T", size=2),
    "nearest": one("resize", axis="T", factor=2),
    **{
        f"shift by {amount}, pad {pad}, sizes {sizes}": one(
            "shift_axis", axis="T", amount=amount, pad=pad, adjust_size_info=sizes
        )
        for amount in (1, -2)
        for pad in (True, False)
        for sizes in (True, False)
    },
    "reversed": one("slice", axis="T", slice_step=-1),
    "pad": one("pad", axes="T", padding=(1, 2)),
    "pad, repeated": one("pad", axes="T", padding=(1, 1), mode="replicate"),
    "concat": {"output": {"class": "concat", "from": [("data", "T"), ("data", "T")]}},
    "split": one("split_dims", axis="T", dims=(-1, 3), pad_to_multiples=True, pad_value=0.5),
    "prefix": one("prefix_in_time", prefix=2.0, repeat=2),
    "postfix": one("postfix_in_time", postfix=2.0),
    "transposed": one("transposed_conv", filter_size=(3,), strides=2, n_out=2),
    "backwards": one("rec", unit="nativelstm2", n_out=2, direction=-1),
    "attention": one("self_attention", num_heads=1, total_key_dim=2, n_out=2),
    "maximum": added("reduce", mode="max", axes="T"),
    "maximum without mask": added("reduce", mode="max", axes="T", use_time_mask=False),
    "products": {
        "of all": {"class": "dot", "red1": "T", "red2": "T", "var1": "F", "var2": "F", "use_mask": False}
        | {"from": ["data", "data"]},
        "sum": {"class": "reduce", "mode": "sum", "axes": "static", "from": "of all"},
        "output": {"class": "combine", "kind": "add", "from": ["data", "sum"]},
    },
    "expression": one("eval", eval="source(0) - tf.reduce_sum(source(0), axis=1, keepdims=True)"),
    "expression by frame": one("eval", eval="source(0) - tf.reduce_sum(source(0), axis=-1, keepdims=True)"),
    "in a subnetwork": one("subnetwork", subnetwork=one("conv", filter_size=(3,), n_out=2, strides=2, **SAME)),
    "in masked_computation": {
        "mask": {"class": "eval", "eval": "tf.reduce_sum(source(0), axis=-1) > 0.", "from": "data"}
        | {"out_type": {"dtype": "bool", "shape": (None,)}},
        "masked": {"class": "masked_computation", "mask": "mask", "from": "data"}
        | {"unit": {"class": "conv", "from": "data", "filter_size": (3,), "n_out": 2, "strides": 2, **SAME}},
        "output": {"class": "copy", "from": "masked"},
    },
    "one after the other": {
        "image": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "data"},
        "conv": {"class": "conv", "from": "image", "filter_size": (3, 3), "n_out": 2, "activation": "relu", **SAME},
        "pool": {"class": "pool", "from": "conv", "pool_size": (2, 2), "mode": "max", **SAME},
        "flat": {"class": "merge_dims", "axes": "static", "from": "pool"},
        "normed": {"class": "layer_norm", "from": "flat"},
        "output": {"class": "rec", "unit": "nativelstm2", "n_out": 2, "direction": -1, "from": "normed"},
    },
}


def made(net_dict, values=None, **options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}), **options).construct_from_dict(net_dict)
    if values is not None:
        net.set_param_values_by_dict(values)
    return net


def noise(lengths):
    """Frames that are random behind the end of a sequence, too."""
    return np.random.default_rng(len(lengths)).normal(size=(len(lengths), max(lengths), 3)).astype("float32")


@pytest.mark.parametrize("name", NETS)
@FEWER
@given(LENGTHS)
def test_each_sequence_is_as_alone(name, lengths):
    net, x = made(NETS[name], batch_independent=True), noise(lengths)
    alone = made(NETS[name], net.get_param_values_dict())
    together = parts_of(net, net.forward({"data": (x, lengths)})["output"])
    for found, row, length in zip(together, x, lengths, strict=True):
        expected = parts_of(alone, alone.forward({"data": (row[None, :length], [length])})["output"])[0]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", NETS)
def test_the_report_names_what_depends_on_the_batch(name):
    net, lengths, same = made(NETS[name]), [7, 2, 3, 4], True
    for x in (noise(lengths), -noise(lengths)):
        together = parts_of(net, net.forward({"data": (x, lengths)})["output"])
        for found, row, length in zip(together, x, lengths, strict=True):
            expected = parts_of(net, net.forward({"data": (row[None, :length], [length])})["output"])[0]
            same &= found.shape == expected.shape and np.allclose(found, expected, atol=1e-5)
    depends = [found for found in net.report().of("differs") if "depend on the batch" in found.what]
    assert bool(depends) == (not same), [found.what for found in depends]
    report = made(NETS[name], batch_independent=True).report()
    assert not any("depend on the batch" in found.what for found in report.of("differs"))


def test_gradients_and_losses_are_those_of_single_sequences():
    net_dict = {
        **NETS["one after the other"],
        "p": {"class": "softmax", "n_out": 4, "from": "output", "loss": "ce", "target": "labels"},
    }
    extern = {"data": {"dim": 3}, "labels": {"dim": 4, "sparse": True}}
    lengths, frames = [6, 1, 4], [3, 1, 2]
    x, labels = noise(lengths), np.random.default_rng(1).integers(0, 4, (3, 3))

    def run(net, rows):
        longest = max(lengths[i] for i in rows), max(frames[i] for i in rows)
        net.forward({
            "data": (x[rows, : longest[0]], [lengths[i] for i in rows]),
            "labels": (labels[rows, : longest[1]], [frames[i] for i in rows]),
        })  # fmt: skip
        total = net.get_losses_initialized(with_total=True)[1]
        total.backward()
        return total.item()

    nets = [
        rf.Network(extern_data=rf.ExternData(extern), eval_flag=True, batch_independent=independent)
        for independent in (True, False)
    ]
    nets = [net.construct_from_dict(net_dict) for net in nets]
    nets[1].set_param_values_by_dict(nets[0].get_param_values_dict())
    assert run(nets[0], [0, 1, 2]) == pytest.approx(sum(run(nets[1], [i]) for i in range(3)), rel=1e-4)
    for a, b in zip(nets[0].get_params_list(), nets[1].get_params_list(), strict=True):
        np.testing.assert_allclose(a.raw_tensor.grad, b.raw_tensor.grad, rtol=1e-3, atol=1e-5)


def test_batch_norm_leaves_out_the_padding():
    """In training, its statistics are those of the frames of the batch."""
    net = made(one("batch_norm", masked_time=False), batch_independent=True, train_flag=True)
    x, lengths = noise([5, 2]), [5, 2]
    found = np.concatenate(parts_of(net, net.forward({"data": (x, lengths)})["output"]))
    frames = np.concatenate([x[0], x[1, :2]])
    expected = (frames - frames.mean(0)) / np.sqrt(frames.var(0) + 1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-5)


ATTENTION = {
    "s": {"class": "rnn_cell", "unit": "standardlstm", "n_out": 5, "from": ["prev:emb", "att"]},
    "emb": {"class": "linear", "n_out": 4, "from": "output", "activation": None, "initial_output": 0},
    "query": {"class": "linear", "n_out": 5, "from": "prev:s", "activation": None},
    "sum": {"class": "combine", "kind": "add", "from": ["base:keys", "query"]},
    "energy": {"class": "linear", "n_out": 1, "from": "sum", "activation": "tanh"},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "by head": {"class": "generic_attention", "base": "base:keys", "weights": "weights"},
    "att": {"class": "merge_dims", "axes": "except_batch", "from": "by head"},
    "p": {"class": "softmax", "from": "s", "target": "classes"},
}
END = {"end": {"class": "compare", "from": "output", "value": 0}}
FRAMEWISE = {
    "p": {"class": "softmax", "from": ["data:source", "prev:emb"], "target": "classes"},
    "emb": {"class": "linear", "n_out": 4, "from": "output", "activation": None, "initial_output": 0},
}
LIMITS = ("max_len_from('base:keys')", "int(min(max_len_from('base:keys') * 1.5, 6))", 4)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [*LIMITS, None])
@FEWER
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.sampled_from([1.0, 0.5, 0.0, None]), st.integers(0, 99))
def test_a_search_of_each_sequence_is_as_alone(limit, lengths, exponent, seed):
    normalized = {"length_normalization": exponent is not None}
    if exponent is not None:
        normalized["length_normalization_exponent"] = exponent
    choice = {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0, **normalized}
    unit = {**(FRAMEWISE if limit is None else {**ATTENTION, **END}), "output": choice}
    more = {"from": "keys"} if limit is None else {"from": [], "target": "classes", "max_seq_len": limit}
    net_dict = {
        "keys": {"class": "rec", "unit": "nativelstm2", "n_out": 5, "from": "data"},
        "output": {"class": "rec", "unit": unit, **more},
    }
    draw = np.random.default_rng(seed)

    def searching(**options):
        extern = rf.ExternData({"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}})
        return rf.Network(extern_data=extern, search_flag=True, **options).construct_from_dict(net_dict)

    net, alone = searching(batch_independent=True), searching()
    values = net.get_param_values_dict()
    values = {path: {name: draw.normal(size=x.shape) for name, x in each.items()} for path, each in values.items()}
    x = draw.normal(size=(len(lengths), max(lengths), 3)).astype("float32")
    for each in (net, alone):
        each.set_param_values_by_dict(values)

    def found(each, x, lengths):
        each.forward({"data": (x, lengths)})
        choices = each.get_layer("output").get_search_choices()
        scores = choices.beam_scores.copy_transpose([rf.batch_dim, choices.beam_dim]).raw_tensor.detach().numpy()
        return scores, choices.found.nbest(3, text=False)

    found(net, x[:, :1], [1] * len(lengths))  # a step that was traced for one batch serves another
    scores, labels = found(net, x, lengths)
    for i, length in enumerate(lengths):
        expected, texts = found(alone, x[i : i + 1, :length], [length])
        np.testing.assert_allclose(scores[i], expected[0], rtol=1e-4, atol=1e-4)
        assert labels[i] == texts[0]
