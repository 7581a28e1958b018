"""Searches of net dicts, with numbers that the reference implementation computed: the same nets as loops.

Not here, as they need layers of net dicts: `regression` (a choice that takes its source as it is), `extra_search` (a
net that is built twice), and the models with attention or a language model. The transducer is in
`tests/search/test_frames.py`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb import batch_dim

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

FOLDER = Path(__file__).parents[1] / "golden" / "search"
CASES = sorted(file.stem for file in FOLDER.glob("*.json"))
DEAD = -1e29
ONE_MORE = 1  # where the lengths are given, the reference counts a frame after the end to the scores of a hypothesis
COMBINE = {
    "csc_scaled": lambda scores, base: 0.5 * scores + 2.0 * base,
    "csc_len_penalty": lambda s, base: base + s - 0.1 * rf.cast(rf.range_over_dim(s.feature_dim), "float32"),
}
OPTIONS = (
    "beam_size input_type prob_scale base_beam_score_scale length_normalization length_normalization_exponent "
    "keep_beams cheating source_beam_sizes search add_to_beam_scores"
).split()


class Net:
    """A net dict of few kinds of layers. `run` computes its loop by an `rf.Loop`."""

    def __init__(self, name):
        self.case = json.loads((FOLDER / f"{name}.json").read_text())
        with np.load(FOLDER / f"{name}.npz") as file:
            self.numbers = dict(file)
        self.dims = {}
        self.params = {(p["layer"], p["param"]): self.numbers[p["key"]] for p in self.case["params"]}
        self.rec = self.case["net_dict"]["output"]
        self.unit = self.rec["unit"]
        self.beam = rf.Dim(self.unit["output"]["beam_size"], name="beam")
        self.data, self.time = self.input("data", ONE_MORE if self.rec["from"] else 0)
        encoded = self.linear("enc", [self.data], "tanh")
        self.encoder = {"data": self.data, "enc": encoded, "pool": rf.reduce_mean(encoded, axis=self.time)}
        self.values, self.choices, self.newest = {}, {}, None

    def input(self, key, more=0):
        """An input and its time dim, {batch, time, features} or {batch, time}; of shorter sequences, `more` frames."""
        given = self.case["inputs"][key]
        time = rf.Dim(None, name=f"{key} time")
        array, lengths = self.numbers[given["key"]], self.numbers[given["size_keys"]["1"]] + more
        lengths = lengths.clip(max=array.shape[1])
        dense = array.ndim > 2
        feature = rf.Dim(array.shape[-1], name="features")
        x = rf.convert_to_tensor(
            array if dense else array.astype("int64"),
            dims=[batch_dim, time, *([feature] if dense else [])], lengths={time: lengths.tolist()},
            feature_dim=feature if dense else None,
        )  # fmt: skip
        return x, time

    def value(self, name):
        """The output of a layer in this step."""
        if name == "data:source":
            return self.loop.unstack(self.encoder["enc"])
        if name.startswith("base:"):
            return self.encoder[name[5:]]
        if name.startswith("prev:"):
            return self.loop.state[name[5:]]
        if name not in self.values:
            layer, _, part = name.partition("/out_")
            found = self.compute(layer, self.unit[layer]) if not part else self.value(layer)
            self.values[name] = self.choices[layer].labels[int(part)] if part else found
        return self.values[name]

    def sources(self, layer):
        given = layer["from"]
        values = [self.value(name) for name in ([given] if isinstance(given, str) else given)]
        return values if self.newest is None else [with_feature(self.newest.follow(x), x) for x in values]

    def compute(self, name, layer):
        kind = layer["class"]
        if kind in ("linear", "softmax"):
            activation = layer.get("activation", "softmax" if kind == "softmax" else None)
            return self.linear(f"output/{name}", self.sources(layer), activation)
        if kind == "rnn_cell":
            self.values["state of " + name] = state = self.lstm(name, self.sources(layer), self.loop.state[name])
            return state.h
        if kind == "copy":
            return self.sources(layer)[0]
        if kind == "combine":
            a, b = self.sources(layer)
            return a + b
        if kind == "compare":
            return self.sources(layer)[0] == layer["value"]
        if kind == "decide_keep_beam":
            return self.sources(layer)[0]
        if kind == "choice_get_src_beams":
            self.value(layer["from"])
            return self.choices[layer["from"]].parents
        if kind == "choice_get_beam_scores":
            self.value(layer["from"])
            return self.choices[layer["from"]].scores
        assert kind == "choice"
        self.choices[name] = self.newest = chosen = self.choose(layer)
        return chosen.labels if isinstance(layer["from"], str) else chosen.labels[0]

    def choose(self, layer):
        options = {name: layer[name] for name in OPTIONS if name in layer}
        sources = self.sources(layer)
        if "custom_score_combine" in layer:
            options["custom_score_combine"] = COMBINE[layer["custom_score_combine"]["__fn__"]]
        if layer.get("cheating") or layer.get("search") is False:
            options["target"] = self.loop.unstack(self.target)
        several = not isinstance(layer["from"], str)
        return self.loop.choice(sources if several else sources[0], beam=self.beam, **options)

    def linear(self, key, sources, activation):
        weight, bias = self.params[key, "W"], self.params.get((key, "b"))
        out = self.dim(key, weight.shape[1])
        if sources[0].sparse_dim is not None or sources[0].dtype == "int64":
            rows = rf.Dim(len(weight), name="rows")
            table = rf.convert_to_tensor(weight, dims=[rows, out])
            y = rf.gather(table, indices=rf.set_sparse_dim(sources[0], rows), axis=rows)
        else:
            x = rf.concat_features(*sources, allow_broadcast=True)
            y = rf.matmul(x, rf.convert_to_tensor(weight, dims=[x.feature_dim, out]), reduce=x.feature_dim)
        if bias is not None:
            y = y + rf.convert_to_tensor(bias, dims=[out])
        y.feature_dim = out
        if activation in ("softmax", "log_softmax"):
            y = getattr(rf, activation)(y, axis=out)
        elif activation is not None:
            y = rf.tanh(y)
        y.feature_dim = out
        return y

    def lstm(self, name, sources, state):
        """The gates of the kernel are input, new value, forget (with a bias of 1), output."""
        kernel, bias = (self.params[f"output/{name}", f"lstm_cell/{part}"] for part in ("kernel", "bias"))
        h = state.h.copy()
        h.feature_dim = out = h.dims[-1]
        x = rf.concat_features(*sources, h, allow_broadcast=True)
        gates = []
        for rows, shift in zip(np.split(kernel, 4, 1), np.split(bias, 4), strict=True):
            weight = rf.convert_to_tensor(rows.copy(), dims=[x.feature_dim, out])
            gates.append(rf.matmul(x, weight, reduce=x.feature_dim) + rf.convert_to_tensor(shift.copy(), dims=[out]))
        i, j, f, o = gates
        c = rf.sigmoid(f + 1.0) * state.c + rf.sigmoid(i) * rf.tanh(j)
        new = rf.State(h=rf.sigmoid(o) * rf.tanh(c), c=c)
        new.h.feature_dim = out
        return new

    def dim(self, key, size):
        return self.dims.setdefault(key, rf.Dim(size, name=key))

    def initial(self, name, layer):
        if layer["class"] in ("choice", "copy"):
            return rf.full(dims=[batch_dim, self.beam], fill_value=layer["initial_output"], dtype="int64")
        of = name if layer["class"] == "rnn_cell" else layer["from"][-1]
        zeros = rf.zeros([batch_dim, self.beam, self.dim(f"output/{of}", self.unit[of]["n_out"])])
        return rf.State(h=zeros, c=zeros) if layer["class"] == "rnn_cell" else zeros

    def run(self):
        """Runs the loop. The outputs of the net that are computed in it, by name."""
        used = json.dumps([layer["from"] for layer in self.unit.values()])
        states = [name for name, layer in self.unit.items() if layer["class"] == "rnn_cell" or f'"prev:{name}"' in used]
        axis = self.time if self.rec["from"] else None
        for layer in self.unit.values():
            if layer.get("cheating") or not layer.get("search", True):
                self.target, axis = self.input(layer["target"], ONE_MORE)
        self.lengths_are_given = axis is not None
        self.loop = loop = rf.Loop(max_seq_len=None if axis else self.rec["max_seq_len"], axis=axis, name="output")
        for name in states:
            loop.state[name] = self.initial(name, self.unit[name])
        outputs = {}
        with loop:
            names = [name.partition("/")[2] for name in self.case["outputs"] if name.startswith("output/")]
            for name in dict.fromkeys(["output", *names, *states]):
                value = self.value(name)
                if name in names or name == "output":
                    by_place = self.unit[name]["class"] == "decide_keep_beam"
                    outputs[name] = loop.stack(value, resolve=not by_place)
            for name in states:
                loop.state[name] = self.values.get(f"state of {name}", self.values[name])
            if not self.lengths_are_given:
                loop.end(self.value("end"), include_eos=self.rec.get("include_eos", False))
            if "acc" in states:
                self.last = loop.last(self.values["acc"])
        return outputs, loop


def with_feature(value, like):
    """The value, with the feature dim of the one that it was made from."""
    if value is not like and like.feature_dim is not None:
        value.feature_dim = like.feature_dim
    return value


def of_the_reference(scores, lengths, net):
    """Final scores as the reference has them: not by the length of each hypothesis, but by one for all."""
    options = net.unit["output"]
    if not options.get("length_normalization", True):
        return scores
    longest, with_end = lengths.max(), net.rec.get("include_eos", False)
    steps = longest if with_end or net.rec["from"] else min(longest + 1, net.rec["max_seq_len"])
    return scores * steps ** options.get("length_normalization_exponent", 1.0) / (longest + (not with_end))


@pytest.mark.parametrize("name", CASES)
def test_a_search_of_a_net_dict(name):
    net = Net(name)
    outputs, loop = net.run()
    stacked = {}
    for key, x in outputs.items():
        dims = [batch_dim, net.beam, loop.axis]
        stacked[key] = x.copy_transpose([*dims, *(dim for dim in x.dims if dim not in dims)]).numpy()
    scores = loop.found.scores.copy_transpose([batch_dim, net.beam]).numpy()
    lengths = loop.found.lengths.copy_transpose([batch_dim, net.beam]).numpy()
    alive = ~np.isneginf(scores)
    given_scores = of_the_reference(scores, lengths, net)
    best = scores.argmax(1)

    def rows(key, places):
        """The frames of hypotheses; `places`: those of the sequences in the beam."""
        expected, sizes = net.numbers[f"out/{key}"], net.numbers[f"size/{key}/1"]
        layer = net.case["net_dict"][key]["from"].partition("/")[2] or "output"
        return all(
            np.allclose(stacked[layer][i, place][: sizes[i]], expected[i][: sizes[i]], rtol=1e-4, atol=1e-5)
            for i, place in enumerate(places)
        )

    for key, out in net.case["outputs"].items():
        expected = net.numbers[out["key"]]
        kind = net.case["net_dict"][key.partition("/")[0]]["class"]
        if kind == "rec":
            sizes = net.numbers[f"size/{key}/2"]
            more = lengths - sizes
            assert (more[alive] >= 0).all() and (more[alive] <= (ONE_MORE if net.lengths_are_given else 0)).all()
            for place in np.argwhere(alive).tolist():
                n = sizes[*place]
                found = stacked[key.partition("/")[2] or key][*place][:n]
                assert np.allclose(found, expected[*place][:n], rtol=1e-4, atol=1e-5)
        elif kind in ("choice_get_beam_scores", "split_batch_beam"):
            assert ((expected > DEAD) == alive).all()
            assert np.allclose(given_scores[alive], expected[alive], rtol=1e-4, atol=1e-5)
        elif kind == "decide":
            by_length = net.case["net_dict"][key].get("length_normalization")
            assert rows(key, (scores / lengths).argmax(1) if by_length else best)
        elif kind == "reduce":
            assert (best == expected).all()
        else:
            assert kind == "rec_last_output"
            assert np.allclose(net.last.numpy(), expected, rtol=1e-4, atol=1e-5)
