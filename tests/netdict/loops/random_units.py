"""Random recurrent nets of three to ten layers with values of the step before, and what they compute."""

import numpy as np
from hypothesis import strategies as st

import rfnb as rf

EXTERN = {
    "data": {"dim": 3},
    "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"},
    "other": {"dim": 2},
}
SIZE = 3
LINEAR = {"class": "linear", "activation": "tanh", "n_out": SIZE}
LEFT = {"num_heads": 1, "total_key_dim": 2, "n_out": SIZE, "attention_left_only": True}
CELLS = {
    "cell": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": SIZE},
    "started": {"class": "rnn_cell", "unit": "GRU", "n_out": SIZE, "initial_state": "base:first"},
    "gru": {"class": "rec", "unit": "gru", "n_out": SIZE, "initial_state": "var"},
    "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": SIZE},
}
SIZED = {
    **CELLS,
    "linear": LINEAR,
    "attention": {"class": "self_attention", **LEFT},
    "inner": {"class": "subnetwork", "subnetwork": {"output": {**LINEAR, "from": ["data", "prev:output"]}}},
    "softmax": {"class": "softmax", "target": "classes", "loss": "ce"},
}
"""Layers that say how many features they have: one is in each circle."""
TAKES_ONE = {
    "sum": {"class": "cumsum", "axis": rf.single_step_dim},
    "positions": {"class": "positional_encoding", "add_to_input": True},
    "constant": {"class": "eval", "eval": "source(0) * 2.0", "from": "base:first"},
    "eval": {"class": "eval", "eval": "tf.tanh(source(0)) * 0.5"},
    "activation": {"class": "activation", "activation": "sigmoid"},
    "relative": {
        "class": "subnetwork",
        "subnetwork": {
            "distance": {"class": "relative_positional_encoding", "n_out": 2, "clipping": 2, "from": "data"},
            "output": {"class": "self_attention", **LEFT, "key_shift": "distance", "from": "data"},
        },
    },
    "steps": {"class": "eval", "eval": "source(0) * 0.1 + tf.cast(source(1), 'float32') * 0.2"},
    "norm": {"class": "layer_norm"},
}
KINDS = sorted(
    {*SIZED, *TAKES_ONE, "copy", "add", "window", "so far", "masked", "over frames", "state", "label", "cond"}
)
UNITS = {
    **{name: {**SIZED[name], "from": "data"} for name in ("linear", "cell", "gru", "lstm", "attention")},
    "first": {**LINEAR, "from": "data", "initial_output": 0.5},
    "trained": {**LINEAR, "from": "data", "initial_output": "var"},
    "subnet": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "a": {**LINEAR, "from": ["data", "base:data:other"]},
            "b": {**CELLS["cell"], "from": "a"},
            "output": {**LINEAR, "from": ["b", "a", "prev:a"]},
        },
    },
    "inner loss": {
        "class": "subnetwork", "from": "data", "subnetwork": {
            "p": {"class": "softmax", "loss": "ce", "target": "classes", "initial_output": 0.0, "from": "data"},
            "a": {**CELLS["gru"], "from": "p"},
            "output": {"class": "copy", "from": "a"},
        },
    },
    "feedback": {
        "class": "subnetwork", "from": "data", "subnetwork": {"output": {**LINEAR, "from": ["data", "prev:output"]}},
    },
}  # fmt: skip


def so_far(n):
    """Attention to the frames so far."""
    hist, key = rf.SpatialDim("hist"), rf.FeatureDim("key", 2)
    linear = {"class": "linear", "activation": None, "with_bias": False, "from": "data"}
    return {
        "q": {**linear, "out_dim": key},
        "k": {**linear, "out_dim": key},
        "v": {**linear, "n_out": n},
        "ks": {"class": "cum_concat", "from": "k", "out_spatial_dim": hist},
        "vs": {"class": "cum_concat", "from": "v", "out_spatial_dim": hist},
        "energy": {"class": "dot", "from": ["q", "ks"], "reduce": key},
        "w": {"class": "softmax_over_spatial", "from": "energy", "axis": hist},
        "att": {"class": "dot", "from": ["w", "vs"], "reduce": hist},
        "output": {"class": "linear", "activation": None, "n_out": n, "from": "att"},
    }


def layers_of(draw, name, kind, before, later):
    """The layers of this kind, the last of which has this name. before, later: layers with SIZE features."""
    one = draw(st.sampled_from(before))
    many = draw(st.lists(st.sampled_from([*before, *later]), min_size=1, max_size=3, unique=True))
    if kind in SIZED:
        first = (
            draw(st.sampled_from([None, None, 0.5, "ones", "var", "apply(0)", "base:first"]))
            if kind == "linear"
            else None
        )
        return {name: {**SIZED[kind], "from": many, **({} if first is None else {"initial_output": first})}}
    if kind in TAKES_ONE:
        return {name: {"from": [one, ":i"] if kind == "steps" else one, **TAKES_ONE[kind]}}
    if kind == "copy":
        return {name: {**LINEAR, "from": [f"{name}_joined"]}, f"{name}_joined": {"class": "copy", "from": many}}
    if kind == "add":
        two = draw(st.lists(st.sampled_from(before), min_size=2, max_size=2))
        return {name: {"class": "combine", "kind": "add", "from": two}}
    if kind == "window":
        sizes = {"window_size": 2, "window_left": 1, "window_right": 0, "axis": rf.single_step_dim}
        merged = {"class": "merge_dims", "axes": "static", "from": "win"}
        inner = {"win": {"class": "window", **sizes, "from": "data"}, "both": merged,
                 "output": {**LINEAR, "from": "both"}}  # fmt: skip
        return {name: {"class": "subnetwork", "from": one, "subnetwork": inner}}
    if kind == "so far":
        return {name: {"class": "subnetwork", "from": many, "subnetwork": so_far(SIZE), "n_out": SIZE}}
    if kind == "masked":
        return masked(draw, name, one, many)
    if kind == "over frames":
        return {
            f"{name}_e": {"class": "dot", "from": ["base:keys", one], "reduce": "F", "add_var2_if_empty": False},
            f"{name}_w": {"class": "softmax_over_spatial", "from": f"{name}_e"},
            f"{name}_a": {"class": "generic_attention", "weights": f"{name}_w", "base": "base:keys"},
            name: {**LINEAR, "from": f"{name}_a"},
        }
    if kind == "state":
        cell = {f"{name}_cell": {**CELLS["lstm"], "from": many}}
        source = draw(st.sampled_from([f"{name}_cell", f"prev:{name}_cell"]))
        return {**cell, name: {"class": "get_last_hidden_state", "from": source, "key": "c", "n_out": SIZE}}
    if kind == "cond":
        late = {"class": "compare", "kind": "greater", "value": 0, "from": ":i"}
        sides = {"true_layer": {"class": "copy", "from": one}, "false_layer": {**LINEAR, "from": one}}
        return {f"{name}_late": late, name: {"class": "cond", "condition": f"{name}_late", **sides}}
    assert kind == "label"
    choice = {"class": "choice", "from": one, "target": "classes", "beam_size": 2, "initial_output": 0}
    return {f"{name}_label": choice, name: {**LINEAR, "from": f"prev:{name}_label"}}


def masked(draw, name, one, many):
    """masked_computation, and what takes its output."""
    unit = UNITS[draw(st.sampled_from(sorted(UNITS)))]
    score = draw(st.sampled_from([one, *many]))
    outs = ["m", "um", "prev:m", *(["m/a", "prev:m/a"] if "subnetwork" in unit and "a" in unit["subnetwork"] else [])]
    out = draw(st.sampled_from(outs))
    if out.endswith("/a") and draw(st.booleans()):
        inner = {**unit["subnetwork"], "a": {**unit["subnetwork"]["a"], "is_output_layer": True}}
        unit = {**unit, "subnetwork": inner}
    bias = draw(st.sampled_from([0.0, 0.5, -0.5, 20.0, -20.0]))
    kind = draw(st.sampled_from(["score", "score", "score", "step", "label"]))
    label = {"class": "choice", "from": one, "target": "classes", "beam_size": 2, "initial_output": 0}
    mask = {
        "score": {
            f"{name}_sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": score},
            f"{name}_mask": {"class": "compare", "kind": "greater", "value": bias, "from": f"{name}_sum"},
        },
        "step": {f"{name}_mask": {"class": "compare", "kind": "not_equal", "value": 1, "from": ":i"}},
        "label": {
            f"{name}_label": label,
            f"{name}_mask": {"class": "compare", "kind": "not_equal", "value": 1, "from": f"prev:{name}_label",
                             "initial_output": draw(st.booleans())},
        },
    }[kind]  # fmt: skip
    if kind == "label" and draw(st.booleans()):
        many = [f"prev:{name}_label"]
        unit = {"class": "linear", "activation": None, "n_out": SIZE, "from": "data", "with_bias": False}
        out = "m" if "/" in out else out
    return {
        **mask,
        f"{name}_m": {"class": "masked_computation", "mask": f"{name}_mask", "from": many, "unit": unit},
        f"{name}_um": {"class": "unmask", "from": f"{name}_m", "mask": f"{name}_mask"},
        name: {**LINEAR, "from": f"prev:{name}_{out.removeprefix('prev:')}" if "prev:" in out else f"{name}_{out}"},
    }


@st.composite
def units(draw, least=2, most=9, kinds=tuple(KINDS)):
    """A unit: each layer takes those before it, all layers of the step before, and the source."""
    names = [f"l{i}" for i in range(draw(st.integers(least, most)))]
    chosen = [draw(st.sampled_from(kinds)) for _ in names]
    sized = [name for name, kind in zip(names, chosen, strict=True) if kind != "softmax"]
    unit = {}
    for i, (name, kind) in enumerate(zip(names, chosen, strict=True)):
        before = ["data:source", "data:source", "base:first", *(each for each in names[:i] if each in sized)]
        unit.update(layers_of(draw, name, kind, before, [f"prev:{each}" for each in sized]))
    last = draw(st.lists(st.sampled_from(["data:source", "base:first", *names]), min_size=1, max_size=3, unique=True))
    unit["output"] = {**LINEAR, "n_out": 2, "from": draw(st.sampled_from([last, [*last, "prev:output"]]))}
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        unit[name] = {**unit[name], "is_output_layer": True}
    return unit


def data(lengths, seed):
    """A batch."""
    draw, longest, count = np.random.default_rng(seed), max(lengths, default=0), len(lengths)
    return {
        "data": (draw.normal(size=(count, longest, 3)).astype("float32"), lengths),
        "classes": (draw.integers(0, 4, (count, longest)).astype("int32"), lengths),
        "other": (draw.normal(size=(count, longest, 2)).astype("float32"), lengths),
    }


def network(unit, *, moved, seed=0, **options):
    """The net, with random parameters."""
    net = rf.Network({"behavior_version": 21}, rf.ExternData(EXTERN), train_flag=True, **options)
    net.construct_from_dict({
        "keys": {"class": "linear", "activation": "tanh", "n_out": SIZE, "from": "data:other"},
        "first": {"class": "reduce", "mode": "mean", "axes": "T", "from": "keys"},
        "output": {"class": "rec", "unit": unit, "from": "data", "optimize_move_layers_out": moved},
    })  # fmt: skip
    draw = np.random.default_rng(seed)
    for each in sorted(net.get_params_list(), key=lambda each: each.name):
        each.assign(draw.normal(size=[dim.dimension for dim in each.dims]).astype("float32") * 0.5)
    return net


def results(net, batch):
    """The outputs by name, with 0 behind the ends of sequences; the total loss; the gradients by parameter."""
    net(batch)
    paths = [path for path, layer in net.layers.items() if layer.spec.common.is_output_layer or path == "output"]
    outputs = {path: net._values[path] for path in paths}
    _, total, _ = net.get_losses_initialized(with_total=True)
    for x in outputs.values():
        if x.raw_tensor.is_floating_point():
            frames = next((dim for dim in x.dims if dim.dimension is None and not dim.is_batch_dim()), None)
            weights = 1.0 if frames is None else rf.cast(rf.range_over_dim(frames), "float32") * 0.3 + 1.0
            total = total + rf.reduce_sum(x * weights, axis=x.dims)
    parameters = {each.name: each.raw_tensor for each in net.get_params_list()}
    if isinstance(total, rf.Tensor) and total.raw_tensor.requires_grad:
        total.raw_tensor.backward()
    gradients = {name: np.zeros(p.shape) if p.grad is None else p.grad.numpy() for name, p in parameters.items()}
    return (
        {path: array(x) for path, x in outputs.items()},
        float(total.item() if isinstance(total, rf.Tensor) else total),
        gradients,
    )


def array(x):
    """Batch, time, features."""
    dims = sorted(x.dims, key=lambda dim: (not dim.is_batch_dim(), dim is x.feature_dim))
    masked = x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x
    return masked.copy_transpose(dims).raw_tensor.detach().numpy()


def assert_moved_is_unmoved(unit, lengths, seed=0):
    """Outputs, losses and gradients, with and without moving layers out of the loop. Returns the net that moves."""
    batch = data(lengths, seed)
    nets = [network(unit, moved=moved, seed=seed) for moved in (True, False)]
    (outs, total, grads), (outs_in, total_in, grads_in) = (results(net, batch) for net in nets)
    assert "output" in outs and outs.keys() == outs_in.keys() and grads.keys() == grads_in.keys()
    for name, x in outs.items():
        np.testing.assert_allclose(x, outs_in[name], rtol=1e-3, atol=2e-5, err_msg=name)
    assert abs(total - total_in) <= 1e-3 + 1e-3 * abs(total_in)
    scale = max((abs(each).max(initial=0) for each in grads_in.values()), default=0)
    for name, gradient in grads.items():
        np.testing.assert_allclose(gradient, grads_in[name], rtol=2e-3, atol=1e-4 * max(1, scale), err_msg=name)
    return nets[0]


def assert_batched_is_single(unit, lengths, *, moved, seed=0):
    """Each sequence of a batch is computed as if it was alone."""
    batch = data(lengths, seed)
    net = network(unit, moved=moved, seed=seed, batch_independent=True)
    together = results(net, batch)[0]
    for i, n in enumerate(lengths):
        alone = results(net, {key: (values[i : i + 1, :n], [n]) for key, (values, _) in batch.items()})[0]
        for name, x in alone.items():
            np.testing.assert_allclose(together[name][i : i + 1, :n], x, rtol=1e-3, atol=2e-5, err_msg=name)
