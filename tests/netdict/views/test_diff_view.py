"""The page of what differs between two nets, or between their values."""

from __future__ import annotations

import rfnb as rf


def layers(word, size, extra=None):
    hidden = word("hidden").replace("/", "") or "hidden"
    net = {
        hidden: {"class": "linear", "n_out": size, "from": "data", "activation": "relu"},
        "output": {"class": "softmax", "from": hidden, "loss": "ce", "target": "classes"},
    }
    return net if extra is None else {**net, extra.replace("/", "") or "extra": {"class": "copy", "from": hidden}}


def hostile_views(word):
    diff = rf.diff(layers(word, 3), layers(word, 4, word("more")))
    values = rf.diff({"a": {"class": word("class"), word("option"): word("old")}}, {"a": {"class": word("other")}})
    return {"net, diff": rf.show(diff), "net, diff of options": rf.show(values)}


def test_each_change_has_a_line():
    text = rf.show(rf.diff(layers(str, 3), layers(str, 4, "more"))).text
    for words in ("more", "hidden", "n_out"):
        assert words in text
    assert "more" not in rf.show(rf.diff(layers(str, 3), layers(str, 4))).text
