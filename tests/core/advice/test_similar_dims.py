"""Dims that look alike, whose broadcasting is refused, and those that never do."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.advice.similar_dims import look_alike, mark_beam, mark_replaced

FEAT = Dim(512, name="feat")
TIME = Dim(None, name="time")


def line(size: int | None) -> Dim:
    """A dim with a name of its own, always made by the same line."""
    return Dim(size)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (FEAT, Dim(40, name="feat")),
        (TIME, Dim(7, name="time")),
        (FEAT, Dim(512, name="hidden")),
        (FEAT, 4 * FEAT),
        (FEAT, FEAT // 2),
        (2 * FEAT, 4 * FEAT),
        (TIME, TIME + 1),
        (TIME - 1, TIME + 1),
        (TIME, TIME.ceildiv_right(4)),
        (Dim(5, name="history") + TIME, TIME),
        (line(None), line(None)),
        (batch_dim, Dim(3, name="batch")),
    ],
)
def test_dims_that_look_alike(a, b):
    assert look_alike(a, b) and look_alike(b, a)


LONG = Dim([3, 1], name="long")
HEADS, KEYS = Dim(8, name="heads"), Dim(256, name="keys")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (FEAT, Dim(40, name="mels")),
        (FEAT, TIME),
        (TIME, Dim(None, name="words")),
        (LONG, Dim([3, 1], name="spelled")),  # lengths differ from batch to batch
        (LONG, Dim(3, name="mels")),
        (Dim(1, name="feat"), FEAT),
        (Dim(1, name="one"), Dim(1, name="other")),
        (line(3), line(4)),
        (Dim(2, name="items", kind=Dim.Types.Batch), Dim(2, name="pair")),
        (HEADS, KEYS // HEADS),  # divided by it, which makes it no part of the result
        (HEADS * FEAT, HEADS * KEYS),
    ],
)
def test_dims_that_do_not_look_alike(a, b):
    assert not look_alike(a, b) and not look_alike(b, a)


def test_a_dim_and_its_replacement_are_meant_to_be_two():
    time, keys = Dim(5, name="time"), Dim(5, name="time")
    assert look_alike(time, keys)
    mark_replaced(time, keys)
    assert not look_alike(time, keys) and not look_alike(keys + 1, time)
    others = Dim(5, name="time")
    mark_replaced(keys, others)
    assert not look_alike(time, others)


def test_the_next_position_is_no_replacement():
    time = Dim(None, name="time")
    mark_replaced(time + 1, time)
    assert look_alike(time + 1, time)


def test_a_beam_looks_like_no_other_dim():
    beam = Dim(12, name="beam")
    assert look_alike(beam, Dim(12, name="phone"))
    mark_beam(beam)
    assert not look_alike(beam, Dim(12, name="phone")) and not look_alike(Dim(8, name="beam"), beam)


def test_what_was_replaced_is_not_kept_alive():
    kept = Dim(None, name="frames")
    serials = []
    for _ in range(5):
        gone = Dim(5, name="time")
        mark_replaced(gone, kept)
        serials.append(gone.serial)
    del gone
    gc.collect()
    assert not set(serials) & set(rf.core.dims.dim.DIMS)


# -- what ops say of dims


def test_replace_dim_top_k_and_gather_make_dims_apart():
    x = rf.convert_to_tensor(np.ones((2, 5), "float32"), dims=[batch_dim, time := Dim(5, name="time")])
    keys, key_time = rf.replace_dim(x, in_dim=time)
    assert (x - keys).dims == (batch_dim, time, key_time)
    best, _, beam = rf.top_k(x, axis=time, k=2, k_dim=Dim(2, name="beam"))
    assert (best + rf.zeros([batch_dim, vocab := Dim(2, name="vocab")])).dims == (batch_dim, beam, vocab)
