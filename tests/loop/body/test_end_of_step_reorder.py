"""`loop.reorder` in a batch: what a search finds for a sequence does not depend on the sequences beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

HIDDEN, LABEL = rf.Dim(4, name="hidden"), rf.Dim(5, name="label")
ENDS = ["axis", "max_seq_len", "end", "end of hypotheses"]


@dataclass
class Search:
    """A search over the rows of a batch, and what it found."""

    loop: rf.Loop
    time: rf.Dim
    beam: rf.Dim
    labels: rf.Tensor
    parents: rf.Tensor


def search(rows: list[np.ndarray], ends: str, *, include_eos: bool = True) -> Search:
    """Hypotheses of labels, each with a vector and its text so far."""
    time, beam = rf.Dim(None, name="time"), rf.Dim(3, name="beam")
    x = rf.convert_to_tensor([torch.tensor(row) for row in rows], dims=[batch_dim, time, LABEL])
    table, out = (
        rf.convert_to_tensor(torch.tensor(np.random.RandomState(seed).randn(*shape).astype("float32")), dims=dims)
        for seed, shape, dims in ((1, (5, 4), [LABEL, HIDDEN]), (2, (4, 5), [HIDDEN, LABEL]))
    )
    lengths = time.get_size_tensor()
    if ends == "axis":
        loop = rf.Loop(axis=time, debug=True)
    elif ends == "max_seq_len":
        loop = rf.Loop(axis=rf.Dim(None, name="steps"), max_seq_len=lengths, debug=True)
    else:
        loop = rf.Loop(axis=rf.Dim(None, name="steps"), max_seq_len=12, debug=True)
    start = rf.where(rf.set_sparse_dim(rf.range_over_dim(beam), None) == 0, 0.0, -1e9)
    loop.state.score = rf.expand_dim(start, batch_dim)
    loop.state.h = rf.zeros([batch_dim, beam, HIDDEN])
    loop.state.label = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=LABEL)
    loop.state.steps = rf.zeros([batch_dim], dtype="int64")
    loop.state.history = rf.Dim(0, name="history")
    loop.state.text = rf.zeros([batch_dim, beam, loop.state.history], dtype="int64", sparse_dim=LABEL)
    mean = rf.reduce_mean(x, axis=time)
    with loop:
        frame = loop.unstack(x) if ends == "axis" else mean * rf.cast(loop.state.steps + 1, "float32")
        loop.state.h = rf.tanh(rf.gather(table, indices=loop.state.label) + 0.5 * loop.state.h)
        total = loop.state.score + rf.log_softmax(rf.matmul(loop.state.h, out, reduce=HIDDEN) + frame, axis=LABEL)
        score, (parent, label), _ = rf.top_k(total, axis=[beam, LABEL], k_dim=beam)
        loop.reorder(parent, beam)
        loop.state.label, loop.state.score = label, score
        history = loop.state.history
        loop.state.text, loop.state.history = rf.cum_concat_step(label, prev_accum=loop.state.text, axis=history)
        loop.state.steps = loop.state.steps + 1
        if ends == "end":
            loop.end(loop.state.steps >= lengths, include_eos=include_eos)
        elif ends == "end of hypotheses":
            loop.end(label == 0, include_eos=include_eos)
        labels, parents = loop.stack(label), loop.stack(parent)
    return Search(loop, time, beam, labels, parents)


def first(x: rf.Tensor, *dims: rf.Dim) -> np.ndarray:
    """The values with these dims first, as far as the tensor has them."""
    there = [dim for dim in dims if dim in x.dims_set]
    return x.copy_transpose([*there, *(dim for dim in x.dims if dim not in there)]).raw_tensor.numpy()


def raw(x: rf.Tensor, found: Search, row: int) -> np.ndarray:
    """The entries of a sequence: [beam, …]."""
    return first(x, batch_dim, found.beam)[row]


def what_is_found(found: Search, row: int, steps: int) -> dict[str, np.ndarray]:
    """The final states of a sequence, what is stacked of its first `steps` steps, and what replay shows of these."""
    state, loop = found.loop.state, found.loop
    results = {name: raw(getattr(state, name), found, row) for name in ("score", "h", "label", "steps")}
    results["text"] = raw(state.text, found, row)[:, :steps]
    stacked = {"labels": found.labels, "parents": found.parents}
    for name, x in stacked.items():
        lengths = x.lengths.size(loop.axis).over([batch_dim, found.beam])[row]
        frames = first(x, loop.axis, batch_dim, found.beam)[:, row]
        results[name] = np.where(np.arange(len(frames))[:, None] < lengths, frames, -1)[: lengths.max()]
        results[f"lengths of {name}"] = lengths
    for step in range(steps):
        for name in ("score", "h", "label", "steps", "text"):
            results[f"{name} after step {step}"] = raw(loop.run[step].after[name], found, row)
    last = loop.run[loop.run.steps - 1].after
    return results | {f"last {name} of replay": raw(last[name], found, row) for name in ("score", "h", "label")}


def random_rows(seed: int) -> list[np.ndarray]:
    random = np.random.RandomState(seed)
    return [random.randn(random.randint(1, 7), 5).astype("float32") * 2 for _ in range(random.randint(2, 5))]


@pytest.mark.filterwarnings("ignore:(?s).*no sequence ended")  # all hypotheses that ended were dropped
@pytest.mark.parametrize("include_eos", [True, False])
@pytest.mark.parametrize("seed", range(50))
def test_a_search_finds_the_same_in_a_batch_as_alone(seed, include_eos):
    ends, rows = ENDS[seed % len(ENDS)], random_rows(seed)
    batch = search(rows, ends, include_eos=include_eos)
    for i, row in enumerate(rows):
        alone = search([row], ends, include_eos=include_eos)
        steps = alone.loop.run.steps
        expected = what_is_found(alone, 0, steps)
        for name, ours in what_is_found(batch, i, steps).items():
            np.testing.assert_allclose(ours, expected[name], rtol=1e-5, atol=1e-5, err_msg=f"{name} of sequence {i}")
