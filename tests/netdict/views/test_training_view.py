"""The page of what a config says of its training."""

from __future__ import annotations

import rfnb as rf


def training(word):
    values = {"optimizer": {"class": word("adam"), word("option"): word("value")}, "learning_rate": word("rate")}
    return rf.Config(word("net.config"), {**values, "gradient_clip": 1.0, "batch_size": 5000}).training()


def hostile_views(word):
    return {"net, training": rf.show(training(word))}


def test_each_topic_has_a_row():
    text = rf.show(training(str)).text
    for words in ("5000", "clip", "adam"):
        assert words in text
