"""Tensors of the caller's own batch in the scorers and constraints of `rf.search.decode`."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError
from tests.examples import examples
from tests.search.score.test_ctc_prefix import random_frames

PHONE = rf.Dim(5, name="phone", vocab=["-", "a", "b", "c", "</s>"])
END = 4


def tensors(seed, lengths, rows):
    """What scorers and constraints of some sequences need. rows: their dim."""
    random = np.random.default_rng(seed)
    count, time, prefix = len(lengths), rf.Dim(None, name="time"), rf.Dim(None, name="prefix")
    masks = random.random((count, 5)) < 0.8
    masks[:, 1:] |= ~masks[:, 1:].any(axis=1, keepdims=True)
    arrays = {
        "frames": (random_frames(seed, count, max(lengths), 5), [time, PHONE], lengths),
        "mask": (masks, [PHONE], None),
        "prefix": (random.integers(1, 4, (count, 2)), [prefix], random.integers(0, 3, count).tolist()),
        "minimum": (random.integers(0, 4, count), [], None),
    }
    return arrays, {
        name: rf.convert_to_tensor(array, dims=[rows, *dims], lengths=lengths)
        for name, (array, dims, lengths) in arrays.items()
    }


def alone(arrays, i):
    """The same of one sequence."""
    return {
        name: rf.convert_to_tensor(
            array[i : i + 1], dims=[batch_dim, *dims], lengths=None if lengths is None else lengths[i : i + 1]
        )
        for name, (array, dims, lengths) in arrays.items()
    }


def decoded(given, table, **options):
    """Joint decoding by CTC and by the scores of a table, with constraints."""
    mask, frames = given["mask"], given["frames"]
    allowed = [rf.search.allowed(mask), rf.search.lengths(end="</s>", minimum=given["minimum"], maximum=6)]
    time = frames.dims[1]
    ctc = rf.search.CTCPrefix(frames, axis=time, classes=PHONE, blank=0, end=END)
    return rf.search.decode(
        lambda prev, rows: (table[rows, prev], rows), torch.arange(len(table)), beam=3, start=END, end=END, limit=7,
        labels=PHONE, scorers={"model": 0.6, "ctc": (ctc, 0.4)}, partial_candidates=3,
        constraints=[*allowed, rf.search.forced(given["prefix"])], **options,
    )  # fmt: skip


@examples(20)
@given(seed=st.integers(0, 1000), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3), own=st.booleans())
def test_one_call_for_a_batch_is_a_call_for_each_sequence(seed, lengths, own):
    rows = rf.Dim(len(lengths), name="utterances") if own else batch_dim
    arrays, given = tensors(seed, lengths, rows)
    table = torch.tensor(np.random.default_rng(seed).normal(size=(len(lengths), 5, 5)), dtype=torch.float32)
    found = decoded(given, table, **({"batch": rows} if own else {}))
    assert found.scores.dims == (rows, found.beam)
    for i, tree in enumerate(found.tree):
        expected = decoded(alone(arrays, i), table[i : i + 1]).tree[0].hypotheses
        assert [one.labels for one in tree.hypotheses] == [one.labels for one in expected]
        assert [one.score for one in tree.hypotheses] == pytest.approx([one.score for one in expected], abs=1e-4)
        assert [one.parts for one in tree.hypotheses] == [pytest.approx(one.parts, abs=1e-4) for one in expected]


def test_the_dim_of_the_sequences_brings_their_tags():
    masks = rf.convert_to_tensor(np.eye(5, dtype=bool)[[1, 2]], dims=[batch_dim, PHONE], tags=["laugh", "love"])
    found = rf.search.decode(
        lambda prev, state: (torch.zeros(len(prev), 5), state), batch=batch_dim, beam=1, start=0, end=None, limit=2,
        labels=PHONE, constraints=[rf.search.allowed(masks)],
    )  # fmt: skip
    assert found.tree["laugh"].best.text == "aa" and found.tree["love"].best.text == "bb"


@pytest.mark.parametrize("kind", ["constraint", "ctc"])
def test_tensors_of_another_dim_name_the_way_out(kind):
    rows, time = rf.Dim(2, name="rows"), rf.Dim(3, name="time")
    options = {"constraints": [rf.search.allowed(rf.ones([rows, PHONE], dtype="bool"))]}
    if kind == "ctc":
        frames = rf.zeros([rows, time, PHONE])
        options = {"scorers": {"ctc": rf.search.CTCPrefix(frames, axis=time, classes=PHONE, blank=0, end=END)}}
    with pytest.raises(DimError, match=r"rows:2(.|\n)*batch="):
        rf.search.decode(
            lambda prev, state: (torch.zeros(len(prev), 5), state), batch=2, start=0, end=END, limit=2, labels=PHONE,
            **options,
        )  # fmt: skip
