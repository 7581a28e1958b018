"""A value that is a row of weights at each step is shown for all steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.attention.view import shares
from rfnb.display.panel.commands import Dispatcher, describe_rows
from rfnb.errors import ViewError


@pytest.fixture
def ask():
    def request(run, command, **args):
        reply = Dispatcher(rf.runs).handle({"id": 1, "command": command, "args": {"run": run.serial, **args}})
        assert reply["status"] == "ok", reply["error"]
        return reply["data"]

    return request


def weights_of(rows):
    heads = rows["scripts"]["heads"]
    return np.stack([shares(x) * head["scale"] for x, head in zip(rows["pictures"], heads, strict=True)])


def test_a_loop_of_plain_torch_shows_its_attention_at_all_steps(ask):
    torch.manual_seed(0)
    keys, expected = torch.randn(6, 4), []
    with rf.recording("all"):
        for _t in rf.steps(range(5), name="decoder"):
            query = torch.randn(2, 4) * 3
            att = (query @ keys.T).softmax(-1)
            context = att @ keys
            expected.append(att.numpy())
    run = rf.runs["decoder"]
    rows = ask(run, "rows", name="att")
    assert rows["scripts"]["shape"] == [5, 6] and rows["name"] == "att"
    np.testing.assert_allclose(weights_of(rows), np.stack(expected, 1), atol=0.05)
    step = ask(run, "step", step=3)
    found = {entry["value"]["name"]: entry["value"].get("is_row", False) for entry in step["values"]}
    assert found["att"] and not found["context"] and not found["query"]
    assert context.shape == (2, 4)
    with pytest.raises(ViewError, match="not a row of weights"):
        describe_rows(run, "context", None)


def test_rows_that_grow_are_padded_and_steps_after_the_end_left_out(ask):
    with rf.recording("all"):
        for t in rf.steps(range(4), name="grows"):
            att = torch.full((t + 1,), 1 / (t + 1))
    assert att.shape == (4,)
    rows = ask(rf.runs["grows"], "rows", name="att")
    wanted = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    np.testing.assert_allclose(np.nan_to_num(weights_of(rows)[0]), wanted, atol=0.01)
    enc, dec = rf.Dim(None, name="enc"), rf.Dim(None, name="dec")
    keys = rf.convert_to_tensor([[1.0, 2.0, 0.0], [3.0]], dims=[rf.batch_dim, enc])
    labels = rf.convert_to_tensor([[1.0, 2.0], [1.0, 0.5, 4.0]], dims=[rf.batch_dim, dec])
    with rf.recording("all"):
        loop = rf.Loop(axis=dec, name="decoder")
        loop.state.c = rf.zeros([rf.batch_dim])
        with loop:
            att = rf.softmax(keys * loop.unstack(labels), axis=enc)
            loop.state.c = loop.state.c + rf.matmul(att, keys, reduce=enc)
    for sequence, scores in enumerate([np.outer([1, 2], [1, 2, 0]), np.zeros((3, 1))]):
        rows = ask(loop.run, "rows", name="att", sequence=sequence)
        expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        found = weights_of(rows)[0]
        np.testing.assert_allclose(found[:, : expected.shape[1]], expected, atol=0.01)
        assert len(found) == len(expected) and not found[:, expected.shape[1] :].any()
