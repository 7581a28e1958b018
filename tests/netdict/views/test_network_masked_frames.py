"""Which frames masked_computation takes, on the card of the layer."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf


def masked_net(time=None, *, loop):
    extern = {"score": {"dim_tags": [rf.batch_dim, time or rf.SpatialDim("time")]}}
    net = {
        "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "data:score"},
        "m": {"class": "masked_computation", "mask": "mask", "from": "data:score",
              "unit": {"class": "cumsum", "from": "data"}},
    }  # fmt: skip
    if loop:
        unit = {**net, "output": {"class": "copy", "from": "m"}}
        net = {"output": {"class": "rec", "from": "data:score", "unit": unit}}
    else:
        net["output"] = {"class": "copy", "from": "m"}
    return rf.Network({"behavior_version": 21}, rf.ExternData(extern), name="net").construct_from_dict(net)


def scores(*sequences):
    values = np.full((len(sequences), max(map(len, sequences))), 9.0, "float32")
    for row, frames in zip(values, sequences, strict=True):
        row[: len(frames)] = frames
    return {"score": (values, [len(frames) for frames in sequences])}


def hostile_views(word):
    time = rf.SpatialDim(word("time"))
    found = {}
    for name, loop in {"network, frames taken": False, "network, frames taken in a loop": True}.items():
        net = masked_net(time, loop=loop)
        x = rf.convert_to_tensor([[1.0, -1.0], [1.0]], dims=[rf.batch_dim, time], tags=[word("tag"), word("other")])
        net(rf.TensorDict({"score": x}))
        found[name] = rf.show(net)
        found[f"{name}, a layer"] = rf.show(net, layer="output/m" if loop else "m")
    return found


@pytest.mark.parametrize("loop", [False, True], ids=["over the sequence", "in a loop"])
def test_a_strip_for_each_sequence(loop):
    net = masked_net(loop=loop)
    path = "output/m" if loop else "m"
    assert rf.show(net, layer=path).data["cards"][0]["taken"] is None
    net(scores([1, -1, 2], [-1, 1], [-1], []))
    view = rf.show(net, layer=path)
    [card] = view.data["cards"]
    assert [row["cells"] for row in card["taken"]["rows"]] == [[1, 0, 1], [0, 1], [0], []]
    lines = [line.strip() for line in view.text.splitlines()]
    assert lines[-4:] == ["batch 0  █·█  3 → 2", "batch 1  ·█   2 → 1", "batch 2  ·    1 → 0", "batch 3       0 → 0"]
    assert "3 → 2" in rf.show(net).html


def test_cells_of_long_sequences_are_several_frames():
    net = masked_net(loop=False)
    net(scores([1, 1, 1, -1] * 100, [1]))
    taken = rf.show(net, layer="m").data["cards"][0]["taken"]
    assert (taken["width"], taken["rows"][0]["cells"][:2]) == (100, [0.75, 0.75])
    assert (taken["rows"][0]["taken"], taken["rows"][1]["cells"]) == (300, [1])


def test_many_sequences_are_counted():
    net = masked_net(loop=False)
    net(scores(*[[1.0]] * 100))
    taken = rf.show(net, layer="m").data["cards"][0]["taken"]
    assert len(taken["rows"]) + taken["more"] == 100 and taken["more"]
    assert f"{taken['more']} sequences more" in rf.show(net, layer="m").text
