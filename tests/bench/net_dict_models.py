"""Net dicts, and the same models by hand, for bench_net_dicts: a hybrid model, attention, layers that leave loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import batch_dim

Batch = dict[str, Any]
Way = Callable[[Batch], Any]
Case = tuple[list[Batch], Way, Way, bool]
"""Batches, the net dict, the same by hand, whether both have the same parameters."""
INPUTS, LABELS = 40, 100
SIZES = {"small": (4, 32), "large": (16, 256)}
"""Sequences in a batch, and features."""


def batches(count: int, frames: int, labels: int | None, dim: int = INPUTS, number: int = 4) -> list[Batch]:
    """Random batches whose sequences differ in length. labels: of the longest sequence; None: as many as frames."""
    draw = np.random.default_rng(0)
    made = []
    for i in range(number):
        longest = frames - i
        lengths = np.linspace(longest // 2, longest, count).astype("int32")
        of_labels = lengths if labels is None else np.linspace(labels // 2, labels - i % 2, count).astype("int32")
        made.append(
            {
                "data": (torch.tensor(draw.normal(size=(count, longest, dim)), dtype=torch.float32), lengths),
                "classes": (
                    torch.tensor(draw.integers(1, LABELS, (count, of_labels.max())), dtype=torch.int32),
                    of_labels,
                ),
            }
        )
    return made


def network(layers: dict[str, Any], dim: int = INPUTS, *, same: bool = False, train: bool = True) -> rf.Network:
    """A network. same: whether there is a label for each frame."""
    classes: dict[str, Any] = {"dim": LABELS, "sparse": True}
    if same:
        classes["same_dim_tags_as"] = "data"
    extern = rf.ExternData({"data": {"dim": dim}, "classes": classes})
    return rf.Network(extern_data=extern, train_flag=train).construct_from_dict(layers)


def trained(net: rf.Network) -> Way:
    """A training step of a network, without the optimizer."""

    def step(batch: Batch) -> float:
        net(batch)
        loss = net.get_total_loss()
        loss.backward()
        return float(loss.item())

    return step


def by_hand(net: rf.Network, loss: Callable[..., rf.Tensor]) -> Way:
    """The same with a function of the tensors of a batch."""

    def step(batch: Batch) -> float:
        value = loss(**net.extern_data.tensors(batch))
        value.backward()
        return float(value.item())

    return step


def gives(net: rf.Network, path: str) -> Way:
    """A training step whose loss is the sum of a layer."""

    def step(batch: Batch) -> float:
        y = net(batch)[path]
        value = rf.reduce_sum(y, axis=y.dims)
        value.backward()
        return float(value.item())

    return step


def linear(net: rf.Network, path: str) -> Callable[[rf.Tensor], rf.Tensor]:
    """x·W + b with the parameters of a layer."""
    params = net.get_layer(path).params
    in_dim, out_dim = params["W"].dims
    return lambda x: rf.linear(x, params["W"], params.get("b"), in_dim=in_dim, out_dim=out_dim)


def cross_entropy(logits: rf.Tensor, target: rf.Tensor, axis: rf.Dim) -> rf.Tensor:
    """The sum over the frames."""
    loss = rf.cross_entropy(target=target, estimated=logits, estimated_type="logits", axis=axis)
    return rf.reduce_sum(loss, axis=loss.dims)


# -- a hybrid model


def hybrid(size: str) -> Case:
    """A convolution over time and frequency, two BLSTM layers, a softmax."""
    count, n = SIZES[size]
    layers: dict[str, Any] = {
        "conv": {
            "class": "conv", "from": "data", "filter_size": (3, 3), "n_out": 8, "padding": "same",
            "input_add_feature_dim": True, "with_bias": True, "activation": "relu",
        },
        "pool": {"class": "pool", "from": "conv", "pool_size": (1, 2), "mode": "max"},
        "merged": {"class": "merge_dims", "from": "pool", "axes": "static"},
        "output": {"class": "softmax", "from": ["fw1", "bw1"], "target": "classes", "loss": "ce"},
    }  # fmt: skip
    sources: Any = "merged"
    for i in range(2):
        for name, direction in (("fw", 1), ("bw", -1)):
            lstm = {"class": "rec", "unit": "nativelstm2", "n_out": n, "direction": direction, "from": sources}
            layers[f"{name}{i}"] = lstm
        sources = [f"fw{i}", f"bw{i}"]
    net = network(layers, same=True)
    conv, output = net.get_layer("conv"), linear(net, "output")
    width, height, one, channels = conv.params["W"].dims
    freq, merged = rf.Dim(INPUTS, name="freq"), net.get_layer("fw0").params["W"].dims[0]
    halves = rf.Dim(INPUTS // 2, name="halves")
    lstms = {name: lstm_of(net, name) for name in ("fw0", "bw0", "fw1", "bw1")}

    def loss(data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        _, frames, feature = data.dims
        x = rf.expand_dim(rf.replace_dim(data, in_dim=feature, out_dim=freq)[0], one)
        y, _ = rf.conv(
            x, in_dim=one, out_dim=channels, in_spatial_dims=[frames, freq], out_spatial_dims=[frames, freq],
            filter=conv.params["W"], filter_size=[width, height], padding="same", bias=conv.params["bias"],
            use_mask=False,
        )  # fmt: skip
        y, _ = rf.pool(
            rf.relu(y), mode="max", pool_size=(1, 2), padding="valid", strides=(1, 2),
            in_spatial_dims=[frames, freq], out_spatial_dims=[frames, halves], use_mask=False,
        )  # fmt: skip
        y, _ = rf.merge_dims(y, dims=[halves, channels], out_dim=merged)
        for i in range(2):
            parts = []
            for name in (f"fw{i}", f"bw{i}"):
                lstm, backward = lstms[name], name.startswith("bw")
                x = rf.reverse_sequence(y, axis=frames) if backward else y
                state = lstm.default_initial_state(batch_dims=[batch_dim])
                z, _ = lstm(x, state=state, spatial_dim=frames)
                parts.append(rf.reverse_sequence(z, axis=frames) if backward else z)
            both = net.get_layer("output").params["W"].dims[0]
            y, _ = rf.concat(*((part, part.feature_dim or part.dims[-1]) for part in parts), out_dim=both)
        logits = output(y)
        return cross_entropy(logits, classes, logits.feature_dim or logits.dims[-1])

    return batches(count, 100 if size == "large" else 30, None), trained(net), by_hand(net, loss), True


def lstm_of(net: rf.Network, path: str) -> rf.VanillaLSTM:
    """The LSTM of a layer, with its parameters."""
    params = net.get_layer(path).params
    in_dim, out_dim = params["W"].dims[0], params["W_re"].dims[0]
    lstm = rf.VanillaLSTM(in_dim, out_dim)
    lstm.ff_weight, lstm.rec_weight, lstm.bias = params["W"], params["W_re"], params["b"]
    return lstm


# -- attention


def attention_net(n: int, beam: int) -> dict[str, Any]:
    """A decoder with MLP attention (Bahdanau et al. 2015)."""
    unit: dict[str, Any] = {
        "embed": {"class": "linear", "from": "output", "n_out": n, "with_bias": False, "initial_output": 0},
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["prev:embed", "prev:att"], "n_out": n},
        "query": {"class": "linear", "from": "s", "n_out": n, "with_bias": False},
        "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query"], "n_out": n},
        "energy_tanh": {"class": "activation", "activation": "tanh", "from": "energy_in"},
        "energy": {"class": "linear", "from": "energy_tanh", "n_out": 1, "with_bias": False},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
        "readout": {"class": "linear", "from": ["s", "prev:embed", "att"], "n_out": n, "activation": "relu"},
        "output_prob": {"class": "softmax", "from": "readout", "target": "classes", "loss": "ce"},
        "output": {
            "class": "choice", "from": "output_prob", "target": "classes", "beam_size": beam, "initial_output": 0,
        },
        "end": {"class": "compare", "from": "output", "value": 0},
    }  # fmt: skip
    return {
        "encoder": {"class": "linear", "from": "data", "n_out": n, "activation": "tanh"},
        "keys": {"class": "linear", "from": "encoder", "n_out": n, "with_bias": False},
        "output": {"class": "rec", "unit": unit, "from": [], "target": "classes", "max_seq_len": 30},
    }


class AttentionByHand:
    """The same decoder in a Loop, with the parameters of the network."""

    def __init__(self, net: rf.Network):
        self.layers = {
            path: linear(net, path)
            for path in ("encoder", "keys", *(f"output/{x}" for x in "embed query energy readout output_prob".split()))
        }
        kernel, bias = (net.get_layer("output/s").params[f"lstm_cell/{name}"] for name in ("kernel", "bias"))
        n = net.get_layer("keys").params["W"].dims[1]
        self.hidden, self.memory = n, n
        self.embedded = rf.Dim(n.dimension, name="embedded")
        self.context = rf.Dim(n.dimension, name="context")
        self.inputs = self.embedded + self.context
        self.lstm = rf.BasicLSTM(self.inputs, self.hidden, forget_bias=1.0)
        rows = 2 * n.get_dim_value()
        with torch.no_grad():
            self.lstm.ff_weight.raw_tensor.copy_(kernel.raw_tensor[:rows].t())
            self.lstm.rec_weight.raw_tensor.copy_(kernel.raw_tensor[rows:].t())
            self.lstm.bias.raw_tensor.copy_(bias.raw_tensor)
        readout = net.get_layer("output/readout").params["W"]
        self.readout_in = readout.dims[0]
        self.labels = net.get_layer("output/output_prob").params["W"].dims[1]
        self.one = net.get_layer("output/energy").params["W"].dims[1]

    def embed(self, labels: rf.Tensor) -> rf.Tensor:
        """{…} → {…, embedded}"""
        labels = rf.set_sparse_dim(labels, self.labels)
        return rf.replace_dim(self.layers["output/embed"](labels), in_dim=self.hidden, out_dim=self.embedded)[0]

    def step(self, embed: rf.Tensor, state: Any, context: rf.Tensor, given: Any) -> tuple[rf.Tensor, Any, rf.Tensor]:
        """The logits, and the next state."""
        encoded, keys, frames = given
        x, _ = rf.concat((embed, self.embedded), (context, self.context), out_dim=self.inputs)
        s, state = self.lstm(x, state=state, spatial_dim=rf.single_step_dim)
        energy = self.layers["output/energy"](rf.tanh(keys + self.layers["output/query"](s)))
        weights = rf.softmax(rf.squeeze(energy, self.one), axis=frames)
        context = rf.matmul(weights, encoded, reduce=frames)
        context = rf.replace_dim(context, in_dim=self.memory, out_dim=self.context)[0]
        joined, _ = rf.concat(
            (s, self.hidden), (embed, self.embedded), (context, self.context), out_dim=self.readout_in
        )
        return self.layers["output/output_prob"](rf.relu(self.layers["output/readout"](joined))), state, context

    def given(self, data: rf.Tensor) -> Any:
        """What the steps read."""
        encoded = rf.tanh(self.layers["encoder"](data))
        return encoded, self.layers["keys"](encoded), data.dims[1]

    def loss(self, data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        """Of the targets."""
        given, steps = self.given(data), classes.dims[1]
        before = rf.shift_right(self.embed(classes), axis=steps, pad_value=0.0)
        loop = rf.Loop(axis=steps)
        loop.state.lstm = self.lstm.default_initial_state(batch_dims=[batch_dim])
        loop.state.context = rf.zeros([batch_dim, self.context])
        with loop:
            logits, loop.state.lstm, loop.state.context = self.step(
                loop.unstack(before), loop.state.lstm, loop.state.context, given
            )
            all_logits = loop.stack(logits)
        return cross_entropy(all_logits, classes, self.labels)

    def search(self, data: rf.Tensor, beam_size: int) -> rf.search.Found:
        """With a beam."""
        given, beam = self.given(data), rf.Dim(beam_size, name="beam")
        loop = rf.Loop(max_seq_len=30)
        loop.state.lstm = self.lstm.default_initial_state(batch_dims=[batch_dim, beam])
        loop.state.context = rf.zeros([batch_dim, beam, self.context])
        loop.state.embed = rf.zeros([batch_dim, beam, self.embedded])
        with loop:
            logits, loop.state.lstm, loop.state.context = self.step(
                loop.state.embed, loop.state.lstm, loop.state.context, given
            )
            chosen = loop.choice(logits, beam=beam, axis=self.labels, input_type="logits", length_normalization=True)
            loop.state.embed = self.embed(chosen.labels)
            loop.end(chosen.labels == 0, include_eos=False)
            loop.stack(chosen.labels)
        return loop.found


def attention(size: str) -> Case:
    """Teacher forcing."""
    count, n = SIZES[size]
    net = network(attention_net(n, 4))
    return batches(count, 40, 20), trained(net), by_hand(net, AttentionByHand(net).loss), True


def attention_search(size: str, beam: int) -> Case:
    """A search of up to 30 labels."""
    count, n = SIZES[size]
    net = network(attention_net(n, beam), train=False)
    with torch.no_grad():
        net.get_layer("output/output_prob").params["W"].raw_tensor.mul_(3)
    hand = AttentionByHand(net)

    def ours(batch: Batch) -> float:
        return float(net.search({"data": batch["data"]}, beam_size=beam).scores.raw_tensor.max())

    def hands(batch: Batch) -> float:
        with torch.no_grad():
            return float(hand.search(net.extern_data.tensors(batch)["data"], beam).scores.raw_tensor.max())

    return batches(count, 40, 20), ours, hands, False


# -- layers that leave the loop


def moved_lstm(size: str) -> Case:
    """An LSTM in a unit, against the module over the sequence."""
    count, n = SIZES[size]
    unit = {"output": {"class": "rec", "unit": "nativelstm2", "from": "data:source", "n_out": n}}
    net = network({"output": {"class": "rec", "unit": unit, "from": "data"}})
    lstm = lstm_of(net, "output/output")

    def total(data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        state = lstm.default_initial_state(batch_dims=[batch_dim])
        y, _ = lstm(data, state=state, spatial_dim=data.dims[1])
        return rf.reduce_sum(y, axis=y.dims)

    return batches(count, 60, None), gives(net, "output"), by_hand(net, total), True


def cell(size: str, unit: str, cls: type[rf.RecCell]) -> Case:
    """A cell over the sequence, whose kernels are joined in the layer, against the module."""
    count, n = SIZES[size]
    net = network({"output": {"class": "rec", "unit": unit, "from": "data", "n_out": n}})
    module = cls(net.extern_data.get_data("data").dims[-1], rf.Dim(n, name="out"))

    def total(data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        y, _ = module(data, state=module.default_initial_state(batch_dims=[batch_dim]), spatial_dim=data.dims[1])
        return rf.reduce_sum(y, axis=y.dims)

    return batches(count, 60, None), gives(net, "output"), by_hand(net, total), False


def moved_attention(size: str) -> Case:
    """Self-attention in a unit, against the module over the sequence."""
    count, n = SIZES[size]
    attend = {
        "class": "self_attention", "num_heads": 4, "total_key_dim": n, "n_out": n, "attention_left_only": True,
        "from": "data:source",
    }  # fmt: skip
    unit = {"output": attend}
    net = network({"output": {"class": "rec", "unit": unit, "from": "data"}})
    weight = net.get_layer("output/output").params["QKV"]
    total_keys, values = rf.Dim(n, name="keys"), rf.Dim(n, name="values")
    module = rf.CausalSelfAttention(
        weight.dims[0], None, key_dim_total=total_keys, value_dim_total=values, num_heads=4, with_bias=False,
        att_dropout=0.0,
    )  # fmt: skip
    with torch.no_grad():
        module.qkv.weight.raw_tensor.copy_(weight.copy_transpose(weight.dims).raw_tensor)

    def total(data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        y, _ = module(data, axis=data.dims[1])
        return rf.reduce_sum(y, axis=y.dims)

    return batches(count, 60, None), gives(net, "output"), by_hand(net, total), True
