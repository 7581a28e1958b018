"""Chunks of sequences, against loops over each sequence."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, outputs


def chunks_of(rows, lengths, size, step):
    """The chunks of each sequence: as many as the longest one has up to the first that reaches its end."""
    count = 1 + max(0, -((size - max(lengths)) // step))
    return [[row[:n][i * step : i * step + size] for i in range(count)] for row, n in zip(rows, lengths, strict=True)]


@pytest.mark.slow
@FEW
@given(lengths=LENGTHS, size=st.integers(1, 9), step=st.integers(1, 5))
def test_chunks_are_sequences_and_become_the_sequences_again(lengths, size, step):
    step = min(step, size)
    x = drawn(lengths)
    net = {"chunks": {"class": "time_chunking", "chunk_size": size, "chunk_step": step, "from": "data"}}
    net["output"] = {"class": "time_unchunking", "chunking_layer": "chunks", "from": "chunks"}
    found = outputs(net, x, lengths, "chunks")
    expected = [chunk for chunks in chunks_of(x, lengths, size, step) for chunk in chunks]
    assert [len(chunk) for chunk in found] == [len(chunk) for chunk in expected]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, row, n in zip(outputs(net, x, lengths), x, lengths, strict=True):
        np.testing.assert_allclose(a, row[:n], atol=1e-6)


@FEW
@given(lengths=LENGTHS, size=st.integers(1, 6), step=st.integers(1, 4))
def test_frames_in_several_chunks_are_averaged(lengths, size, step):
    step = min(step, size)
    x = drawn(lengths)
    net = {
        "chunks": {"class": "time_chunking", "chunk_size": size, "chunk_step": step, "from": "data"},
        "mean": {"class": "reduce", "mode": "mean", "axes": "T", "from": "chunks"},
        "all": {"class": "combine", "kind": "sub", "from": ["chunks", "mean"]},
        "output": {"class": "time_unchunking", "chunking_layer": "chunks", "from": "all"},
    }
    for found, chunks, n in zip(outputs(net, x, lengths), chunks_of(x, lengths, size, step), lengths, strict=True):
        total, count = np.zeros((n, 3)), np.zeros((n, 1))
        for i, chunk in enumerate(chunks):
            place = slice(min(i * step, n), i * step + len(chunk))
            total[place] += chunk - chunk.mean(0) if len(chunk) else 0
            count[place] += 1
        np.testing.assert_allclose(found, total / np.maximum(count, 1), atol=1e-5)
