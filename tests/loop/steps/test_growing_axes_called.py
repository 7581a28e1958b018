"""A growing axis that an op calls by a dim from outside of the loop."""

import numpy as np

import rfnb as rf


def test_a_growing_axis_may_be_called_by_a_dim_from_outside():
    time, feat, hist = rf.Dim(None, name="time"), rf.Dim(2, name="feat"), rf.Dim(None, name="hist")
    x = rf.convert_to_tensor(np.arange(6.0).reshape(3, 2), dims=[time, feat])
    for _ in range(2):  # the second time, the dim has the size of the last step
        loop = rf.Loop(axis=time)
        loop.state.so_far = rf.Dim(0, name="so far")
        loop.state.frames = rf.zeros([loop.state.so_far, feat], dtype="float64")
        with loop:
            frames, so_far = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.frames, axis=loop.state.so_far)
            loop.state.frames, loop.state.so_far = frames, so_far
            called, _ = rf.replace_dim(frames, in_dim=so_far, out_dim=hist)
            out = loop.stack(rf.reduce_sum(called, axis=hist))
        assert out.raw_tensor.tolist() == [[0, 1], [2, 4], [6, 9]]
