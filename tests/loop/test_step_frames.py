"""The frames that a loop steps through."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim


@pytest.mark.parametrize("lengths", [[3, 0], [3, 1], [0, 0]])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.uint8, torch.float16, torch.complex64])
@pytest.mark.parametrize("hoisting", [False, True])
def test_frames_keep_their_dtype(dtype, lengths, hoisting):
    time = rf.Dim(None, name="time")
    raw = torch.ones(2, max(lengths), dtype=dtype)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths)
    loop = rf.Loop(axis=time, optimize_move_layers_out=hoisting)
    with loop:
        frame = loop.unstack(x)
        out = loop.stack(frame)
    assert frame.dtype == out.dtype == x.dtype
    assert out.copy_transpose([batch_dim, time]).copy_masked(0).raw_tensor.equal(x.copy_masked(0).raw_tensor)
