"""The page of the stages of a pretraining."""

from __future__ import annotations

import re
from base64 import b64decode
from urllib.parse import unquote

import rfnb as rf

EXTERN = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}


def stages(word):
    hidden, more = (word(name).replace("/", "") or name for name in ("hidden", "more"))
    output = {"class": "softmax", "loss": "ce", "target": "classes"}
    first = {hidden: {"class": "linear", "n_out": 3, "from": "data"}, "output": {**output, "from": hidden}}
    second = {
        hidden: {"class": "linear", "n_out": 5, "from": "data", "trainable": False},
        more: {"class": "linear", "n_out": 3, "from": hidden},
        "output": {**output, "from": more},
    }
    values = {"extern_data": EXTERN, "network": second, "pretrain": "default", "pretrain_construction_algo": None}
    values["pretrain_construction_algo"] = lambda idx, net_dict: [first, second, None][idx]
    return rf.Config(word("net.config"), values).stages()


def hostile_views(word):
    return {"net, stages": rf.show(stages(word))}


def test_each_stage_has_its_changes():
    text = rf.show(stages(str)).text
    assert "more" in text and "hidden" in text


def colours(picture):
    """The colours of dims in a picture, by their words."""
    head, data = picture.split(",", 1)
    svg = b64decode(data).decode() if "base64" in head else unquote(data)
    pills = re.findall(r'<rect[^>]*width="2.5"[^>]*fill="(#\w+)"[^>]*></rect><text[^>]*>([^<]+)', svg)
    return {word: colour for colour, word in pills}


def test_a_dim_has_one_colour_in_all_pictures():
    first, second = map(colours, re.findall(r'src="(data:[^"]+)"', rf.show(stages(str)).html))
    assert first and first.items() <= second.items()
