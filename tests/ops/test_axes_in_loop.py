"""What changes axes does in the body of a loop what it does with each frame."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

feat, half, three = rf.Dim(4, name="feat"), rf.Dim(2, name="half"), rf.Dim(3, name="three")
LENGTHS = [5, 3, 1]
BODIES = {
    "concat": lambda x: rf.concat((x, feat), (2 * x, feat))[0],
    "cumsum": lambda x: rf.cumsum(x, spatial_dim=feat),
    "merge_dims": lambda x: rf.merge_dims(rf.expand_dim(x, half), dims=[half, feat])[0],
    "pad": lambda x: rf.pad(x, axes=[feat], padding=[(1, 2)], value=2.0)[0],
    "pad reflect": lambda x: rf.pad(x, axes=[feat], padding=[(1, 2)], mode="reflect")[0],
    "repeat": lambda x: rf.repeat(x, in_spatial_dim=feat, repeats=2)[0],
    "replace_dim": lambda x: rf.replace_dim_v2(x, in_dim=feat, out_dim=three),
    "reshape": lambda x: rf.reshape(x, [feat], [half, rf.Dim(None, name="rest")]),
    "reverse": lambda x: rf.reverse_sequence(x, axis=feat),
    "shift": lambda x: rf.shift_left(x, axis=feat, pad_value=1.0),
    "slice": lambda x: rf.slice(x, axis=feat, start=1, step=2)[0],
    "slice from tensor": lambda x: rf.slice(x, axis=feat, start=rf.reduce_argmax(x, axis=feat), size=2)[0],
    "split": lambda x: rf.split(x, axis=feat, out_dims=[1, 3])[1],
    "split_dims": lambda x: rf.split_dims(x, axis=feat, dims=[half, rf.Dim(None, name="rest")]),
    "unstack and stack": lambda x: rf.stack(rf.unstack(x, axis=feat))[0],
    "window": lambda x: rf.window(x, spatial_dim=feat, window_dim=three)[0],
}


@pytest.mark.parametrize("with_state", [False, True], ids=["alone", "behind a state"])
@pytest.mark.parametrize("name", BODIES)
def test_each_frame(name, with_state):
    time, raw = rf.Dim(None, name="time"), torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1))
    xs = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=LENGTHS)
    loop = rf.Loop(axis=time)
    if with_state:
        loop.state.mean = rf.zeros([batch_dim, feat])
    with loop:
        x = loop.unstack(xs)
        if with_state:
            x = loop.state.mean = 0.5 * (loop.state.mean + x)
        ys = loop.stack(BODIES[name](x))
    mean = torch.zeros(3, 4)
    for t in range(5):
        mean = 0.5 * (mean + raw[:, t])
        frame = rf.convert_to_tensor(mean if with_state else raw[:, t], dims=[batch_dim, feat])
        expected, y = BODIES[name](frame), rf.gather(ys, indices=t, axis=time)
        named = {dim.name: dim for dim in y.dims}
        y = y.copy_transpose([named[dim.name] for dim in expected.dims])
        i = expected.dims.index(batch_dim)
        count = sum(t < length for length in LENGTHS)
        torch.testing.assert_close(y.raw_tensor.narrow(i, 0, count), expected.raw_tensor.narrow(i, 0, count))
