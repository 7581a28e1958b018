"""States that advance only where a mask holds, as the prediction network of a transducer does at labels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from tests.examples import examples

feat = rf.Dim(3, name="feat")
WAYS = {"moved": {}, "in steps": {"optimize_move_layers_out": False}, "recorded": {"debug": True}}


class Setting:
    """Frames, where the state advances, and weights."""

    def __init__(self, mask=((1, 0, 0, 1), (0, 1, 1, 0), (0, 0, 0, 0))):
        torch.manual_seed(2)
        n, steps = len(mask), len(mask[0])
        self.time = rf.Dim(steps, name="time")
        self.x = rf.convert_to_tensor(torch.randn(n, steps, 3), dims=[batch_dim, self.time, feat])
        self.mask = rf.convert_to_tensor(torch.tensor(mask, dtype=torch.bool), dims=[batch_dim, self.time])
        rf.set_requires_gradient(self.x)
        self.w, self.u = rf.Linear(feat, feat), rf.Linear(feat, feat)
        self.initial = rf.State(h=rf.zeros([batch_dim, feat]), c=(rf.zeros([batch_dim], dtype="int64"), None))

    def leaves(self):
        return [self.x.raw_tensor, *(p.raw_tensor for m in (self.w, self.u) for p in m.parameters())]


def cell(s, x, old):
    h = rf.tanh(s.w(x) + s.u(old.h))
    return rf.State(h=h, c=(old.c[0] + 1, None))


def nested(s, x, mask, old):
    return rf.nested.where_nested(cell(s, x, old), old, condition=mask)


def by_leaf(s, x, mask, old):
    new = cell(s, x, old)
    return rf.State(h=rf.where(mask, new.h, old.h), c=(rf.where(mask, new.c[0], old.c[0]), None))


def by_loop(s, step, **options):
    loop = rf.Loop(axis=s.time, **options)
    loop.state.s = s.initial
    with loop:
        loop.state.s = step(s, loop.unstack(s.x), loop.unstack(s.mask), loop.state.s)
        out = loop.stack(loop.state.s.h)
    return loop, out.copy_transpose([s.time, batch_dim, feat]).raw_tensor


def by_hand(s):
    h, count, rows = (
        torch.zeros(s.x.raw_tensor.shape[0], 3),
        torch.zeros(s.x.raw_tensor.shape[0], dtype=torch.int64),
        [],
    )
    for t in range(s.time.dimension):
        mask = s.mask.raw_tensor[:, t]
        lines = []
        for b, advances in enumerate(mask.tolist()):  # nothing is computed where it does not advance
            x = s.x.raw_tensor[b, t]
            new = torch.tanh(linear(s.w, x) + linear(s.u, h[b]))
            lines.append(new if advances else h[b])
        h, count = torch.stack(lines), count + mask
        rows.append(h)
    return h, count, torch.stack(rows)


def linear(module, x):
    return x @ module.weight.raw_tensor + module.bias.raw_tensor


@pytest.mark.parametrize("step", [nested, by_leaf], ids=lambda step: step.__name__)
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_where_the_mask_holds(step, options):
    s = Setting()
    h, count, rows = by_hand(s)
    loop, out = by_loop(s, step, **options)
    torch.testing.assert_close(loop.state.s.h.raw_tensor, h)
    torch.testing.assert_close(out, rows)
    assert torch.equal(loop.state.s.c[0].raw_tensor, count) and loop.state.s.c[1] is None
    expected = torch.autograd.grad(h.square().sum(), s.leaves())
    for mine, theirs in zip(
        torch.autograd.grad(loop.state.s.h.raw_tensor.square().sum(), s.leaves()), expected, strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)
    if loop.run is not None:
        assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4


@examples(20)
@given(
    mask=st.integers(1, 3).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=3)
    )
)
def test_what_does_not_advance_is_as_it_was_bit_for_bit(mask):
    s = Setting(mask)
    _, out = by_loop(s, nested)
    for t, row in enumerate(out):
        before = out[t - 1] if t else torch.zeros_like(row)
        still = ~s.mask.raw_tensor[:, t]
        assert torch.equal(row[still], before[still])
    s.x.raw_tensor.grad = None
    if out.requires_grad:
        out.sum().backward()
        assert not s.x.raw_tensor.grad[~s.mask.raw_tensor].any()


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_nan_that_is_not_taken_stays_out(options):
    """In values at once; in gradients if the argument is made harmless before, as in all of autograd."""
    s = Setting()
    loop = rf.Loop(axis=s.time, **options)
    loop.state.h = rf.ones([batch_dim, feat])
    with loop:
        x, mask, h = loop.unstack(s.x), loop.unstack(s.mask), loop.state.h
        root = rf.where(mask, rf.square(x), 1.0)  # elsewhere 0, whose square root is infinitely steep
        new = rf.sqrt(rf.where(mask, root, 1.0)) / rf.where(mask, h, 1.0)
        bad = new + rf.log(rf.where(mask, 1.0, -1.0))  # NaN where the mask does not hold
        loop.state.h = rf.where(mask, bad, h)
    assert torch.isfinite(loop.state.h.raw_tensor).all()
    for gradient in torch.autograd.grad(loop.state.h.raw_tensor.sum(), [s.x.raw_tensor]):
        assert torch.isfinite(gradient).all() and not gradient[~s.mask.raw_tensor].any()


def test_a_mask_inside_of_a_branch():
    s = Setting()

    def step(s, x, mask, old):
        anybody = rf.reduce_any(mask, axis=batch_dim)
        return rf.cond(anybody, lambda: nested(s, x, mask, old), lambda: old)

    loop, out = by_loop(s, step, debug=True)
    h, _, rows = by_hand(s)
    torch.testing.assert_close(loop.state.s.h.raw_tensor, h)
    torch.testing.assert_close(out, rows)
    assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4
