"""What net dicts cost beside the same by hand: python tests/bench/bench_net_dicts.py [rounds] [words…]

Milliseconds of CPU time, one thread, interleaved: the mean over four batches of unequal lengths, of each the least.
"train": forward, losses and backward. "construct": the seconds until a net of 1,084 layers is constructed. Where the
model by hand has the same parameters, the results are compared first.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import batch_dim

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import net_dict_models as models
from tests.bench.net_dict_models import SIZES, Batch, Case, batches, by_hand, cross_entropy, network, trained

# -- a Transformer


def transformer_net(n: int, depth: int = 6, heads: int = 4, beam: int = 4) -> dict[str, Any]:
    """A decoder (Vaswani et al. 2017) with norms before its blocks."""
    net: dict[str, Any] = {}
    unit: dict[str, Any] = {
        "embed": {"class": "linear", "from": "prev:output", "n_out": n, "with_bias": False},
        "in": {"class": "positional_encoding", "from": "embed", "add_to_input": True},
        "norm": {"class": "layer_norm", "from": f"{depth - 1}_out"},
        "output_prob": {"class": "softmax", "from": "norm", "target": "classes", "loss": "ce"},
        "output": {
            "class": "choice", "from": "output_prob", "target": "classes", "beam_size": beam, "initial_output": 0,
        },
        "end": {"class": "compare", "from": "output", "value": 0},
    }  # fmt: skip
    below = "in"
    for i in range(depth):
        for part in ("key", "value"):
            net[f"{i}_{part}0"] = {"class": "linear", "from": "data", "n_out": n}
            net[f"{i}_{part}"] = {
                "class": "split_dims",
                "from": f"{i}_{part}0",
                "axis": "F",
                "dims": (heads, n // heads),
            }
        block: dict[str, Any] = {
            "self_norm": {"class": "layer_norm", "from": below},
            "self_att": {
                "class": "self_attention", "from": f"{i}_self_norm", "num_heads": heads, "total_key_dim": n,
                "n_out": n, "attention_left_only": True,
            },
            "self_lin": {"class": "linear", "from": f"{i}_self_att", "n_out": n},
            "self_out": {"class": "combine", "kind": "add", "from": [below, f"{i}_self_lin"]},
            "norm": {"class": "layer_norm", "from": f"{i}_self_out"},
            "query0": {"class": "linear", "from": f"{i}_norm", "n_out": n},
            "query": {"class": "split_dims", "from": f"{i}_query0", "axis": "F", "dims": (heads, n // heads)},
            "energy": {
                "class": "dot", "from": [f"base:{i}_key", f"{i}_query"], "red1": "F", "red2": "F", "var1": "T",
                "var2": "auto", "add_var2_if_empty": False,
            },
            "weights": {"class": "softmax_over_spatial", "from": f"{i}_energy", "energy_factor": (n / heads) ** -0.5},
            "att0": {"class": "generic_attention", "weights": f"{i}_weights", "base": f"base:{i}_value"},
            "att": {"class": "merge_dims", "from": f"{i}_att0", "axes": "static"},
            "lin": {"class": "linear", "from": f"{i}_att", "n_out": n},
            "att_out": {"class": "combine", "kind": "add", "from": [f"{i}_self_out", f"{i}_lin"]},
            "ff_norm": {"class": "layer_norm", "from": f"{i}_att_out"},
            "ff1": {"class": "linear", "from": f"{i}_ff_norm", "n_out": 4 * n, "activation": "relu"},
            "ff2": {"class": "linear", "from": f"{i}_ff1", "n_out": n},
            "out": {"class": "combine", "kind": "add", "from": [f"{i}_att_out", f"{i}_ff2"]},
        }  # fmt: skip
        unit.update({f"{i}_{name}": layer for name, layer in block.items()})
        below = f"{i}_out"
    net["output"] = {"class": "rec", "unit": unit, "from": [], "target": "classes", "max_seq_len": 15}
    return net


def decoder_by_hand(net: rf.Network, n: int) -> rf.TransformerDecoder:
    """A decoder of rf of the same size."""
    model, labels = rf.Dim(n, name="model"), net.extern_data.get_data("classes").sparse_dim
    assert labels is not None
    encoder = net.extern_data.get_data("data").feature_dim
    no_dropout = {"dropout": 0.0, "att_dropout": 0.0}
    return rf.TransformerDecoder(encoder, labels, model, num_layers=6, num_heads=4, **no_dropout)


def transformer(size: str) -> Case:
    """Teacher forcing."""
    count, n = SIZES[size]
    net = network(transformer_net(n), n)
    decoder = decoder_by_hand(net, n)

    def loss(data: rf.Tensor, classes: rf.Tensor) -> rf.Tensor:
        steps = classes.dims[1]
        encoder = decoder.transform_encoder(data, axis=data.dims[1])
        before = rf.shift_right(classes, axis=steps, pad_value=0)
        state = decoder.default_initial_state(batch_dims=[batch_dim])
        logits, _ = decoder(before, spatial_dim=steps, state=state, encoder=encoder)
        return cross_entropy(logits, classes, decoder.vocab_dim)

    return batches(count, 40, 20, n), trained(net), by_hand(net, loss), False


def transformer_search(size: str, beam_size: int) -> Case:
    """A search of 15 labels."""
    count, n = SIZES[size]
    net = network(transformer_net(n), n, train=False)
    decoder = decoder_by_hand(net, n)

    def ours(batch: Batch) -> float:
        return float(net.search({"data": batch["data"]}, beam_size=beam_size).scores.raw_tensor.max())

    def hands(batch: Batch) -> float:
        data = net.extern_data.tensors(batch)["data"]
        beam = rf.Dim(beam_size, name="beam")
        with torch.no_grad():
            encoder = decoder.transform_encoder(data, axis=data.dims[1])
            loop = rf.Loop(max_seq_len=15)
            loop.state.model = decoder.default_initial_state(batch_dims=[batch_dim, beam])
            loop.state.before = rf.zeros([batch_dim, beam], dtype="int32", sparse_dim=decoder.vocab_dim)
            with loop:
                logits, loop.state.model = decoder(
                    loop.state.before, spatial_dim=rf.single_step_dim, state=loop.state.model, encoder=encoder
                )
                chosen = loop.choice(logits, beam=beam, axis=decoder.vocab_dim, input_type="logits")
                loop.state.before = rf.cast(chosen.labels, "int32")
                loop.end(chosen.labels == 0, include_eos=False)
                loop.stack(chosen.labels)
        return float(loop.found.scores.raw_tensor.max())

    return batches(count, 40, 20, n), ours, hands, False


# -- a large net


def large(depth: int = 1084) -> dict[str, Any]:
    """Blocks of linear layers, norms, dropout and residual sums: so many layers."""
    layers: dict[str, Any] = {"in": {"class": "linear", "from": "data", "n_out": 64}}
    below, kinds = "in", ("norm", "up", "drop", "down", "sum", "gate", "scaled")
    for i in range((depth - 2) // len(kinds)):
        name = {kind: f"{kind}{i}" for kind in kinds}
        layers |= {
            name["norm"]: {"class": "layer_norm", "from": below},
            name["up"]: {"class": "linear", "from": name["norm"], "n_out": 128, "activation": "relu"},
            name["drop"]: {"class": "dropout", "from": name["up"], "dropout": 0.1},
            name["down"]: {"class": "linear", "from": name["drop"], "n_out": 64},
            name["gate"]: {"class": "activation", "from": name["down"], "activation": "tanh"},
            name["scaled"]: {"class": "eval", "from": name["gate"], "eval": "source(0) * 0.5"},
            name["sum"]: {"class": "combine", "kind": "add", "from": [below, name["scaled"]]},
        }
        below = name["sum"]
    while len(layers) < depth - 1:
        layers[f"more{len(layers)}"] = {"class": "copy", "from": below}
        below = f"more{len(layers) - 1}"
    layers["output"] = {"class": "softmax", "from": below, "target": "classes", "loss": "ce"}
    return layers


def large_unit(depth: int = 1084) -> dict[str, Any]:
    """A large net in a loop: so many layers in a unit."""
    unit: dict[str, Any] = {"first": {"class": "linear", "from": ["data:source", "prev:output"], "n_out": 32}}
    below = "first"
    while len(unit) < depth - 2:
        name = f"layer{len(unit)}"
        unit[name] = {"class": "linear", "from": below, "n_out": 32, "activation": "tanh"}
        below = name
    unit["output"] = {"class": "linear", "from": below, "n_out": 32}
    return {"output": {"class": "rec", "unit": unit, "from": "data"}}


def constructed(layers: dict[str, Any]) -> float:
    """Seconds until the net is constructed."""
    start = time.process_time()
    network(layers)
    return time.process_time() - start


# -- all


def cases() -> dict[str, Callable[[], Case]]:
    """By name."""
    found: dict[str, Callable[[], Case]] = {}
    for size in SIZES:
        for make in (models.hybrid, models.attention, models.moved_lstm, models.moved_attention, transformer):
            found[f"{make.__name__} train {size}"] = partial(make, size)
        for unit, cls in {"gru": rf.GRU, "rnn": rf.BasicRNN, "basiclstm": rf.BasicLSTM}.items():
            found[f"{unit} train {size}"] = partial(models.cell, size, unit, cls)
        for beam in (4, 12):
            found[f"attention search {size} beam={beam}"] = partial(models.attention_search, size, beam)
        found[f"transformer search {size} beam=4"] = partial(transformer_search, size, 4)
    return found


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """Milliseconds of the net dict, and by hand."""
    given, *ways, same = case
    if same:
        for batch in given:
            ours, hands = (way(batch) for way in ways)
            np.testing.assert_allclose(ours, hands, rtol=1e-3)
    least = np.full([len(ways), len(given)], np.inf)
    gc.collect()
    for number in range(rounds):
        for place, batch in enumerate(given):
            for which in (0, 1) if number % 2 else (1, 0):
                start = time.process_time()
                ways[which](batch)
                least[which, place] = min(least[which, place], (time.process_time() - start) * 1e3)
        rf.runs.clear()
    ours, hands = least.mean(1)
    return float(ours), float(hands)


def main(rounds: int, words: Sequence[str]) -> None:
    """Prints a table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'ms':<36}{'net dict':>10}{'by hand':>10}{'ratio':>8}")
    for name, make in cases().items():
        if all(word in name for word in words):
            ours, hands = measure(make(), rounds)
            print(f"{name:<36}{ours:>10.2f}{hands:>10.2f}{ours / hands:>8.2f}", flush=True)
    for name, layers in {"construct": large(), "construct in a loop": large_unit()}.items():
        if all(word in name for word in words):
            print(f"{name:<36}{min(constructed(layers) for _ in range(2)):>10.2f} s", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given.pop(0)) if given and given[0].isdigit() else 15, given)
