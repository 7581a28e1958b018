"""Attention in a search: what is drawn in the place of heads are hypotheses."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.core.advice.similar_dims import mark_beam
from rfnb.errors import ViewError


def weights(*, heads=False, word="beam"):
    beam, dec, enc = rf.Dim(3, name=word), rf.Dim(4, name="dec"), rf.Dim(5, name="enc")
    mark_beam(beam)
    dims = [beam, *([rf.Dim(2, name="heads")] if heads else []), dec, enc]
    values = np.random.default_rng(0).random([dim.dimension for dim in dims]).astype("float32")
    return rf.convert_to_tensor(values / values.sum(-1, keepdims=True), dims=dims)


def hostile_views(word):
    return {"attention of hypotheses": rf.show_attention(weights(word=word("beam")))}


def test_they_are_called_hypotheses():
    view = rf.show_attention(weights())
    assert "· 3 hypotheses" in view.text and "hypothesis 0" in view.html and "all hypotheses" in view.html
    assert "head" not in view.text and view.table().columns[1] == "hypothesis"
    assert view.scripts["unit"] == view.data["unit"] == "hypothesis"
    assert "mean over 3 hypotheses" in rf.show_attention(weights(), head="mean").text
    with pytest.raises(ViewError, match="no such hypothesis"):
        rf.show_attention(weights(), head=7)


def test_beside_heads_they_take_the_place_of_layers():
    view = rf.show_attention(weights(heads=True))
    assert {head["name"] for head in view.data["heads"]} == {"hypothesis 0", "hypothesis 1", "hypothesis 2"}
    assert "unit" not in view.data and "unit" not in view.scripts


def test_attention_of_a_searched_net_is_by_hypothesis():
    unit = {
        "energy": {"class": "dot", "from": ["base:data", "embedding"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:data"},
        "p": {"class": "softmax", "from": "att", "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "embedding": {"class": "linear", "activation": None, "n_out": 4, "from": "prev:output"},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    extern = rf.ExternData({"data": {"dim": 4}, "classes": {"dim": 5, "sparse": True}})
    net = rf.Network({"behavior_version": 21}, extern)
    net.construct_from_dict({"output": {"class": "rec", "from": [], "unit": unit, "target": "classes",
                                        "max_seq_len": 5}})  # fmt: skip
    rf.init_forward_step_run_ctx()
    with rf.capture() as seen:
        net.search(extern.example(batch=2))
    views = [rf.show_attention(seen[name].weights, batch=0) for name in seen.names()]
    assert views and all("3 hypotheses" in view.text and view.data["unit"] == "hypothesis" for view in views)
