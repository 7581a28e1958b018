"""Random numbers and gradients that a body asks of torch, numpy and Python: right, refused, or warned of."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopWarning, TraceError

feat = rf.Dim(6, name="feat")


def values(raw):
    return rf.convert_to_tensor(raw, dims=[feat])


def run(fn, **options):
    loop = rf.Loop(max_seq_len=4, **options)
    loop.state.h = rf.ones([feat])
    with loop:
        h = loop.state.h
        made = fn(h)
        loop.state.h = h + made
        out = loop.stack(made)
    return loop, out.raw_tensor


DROPOUTS = {
    "dropout": lambda h: values(torch.nn.functional.dropout(torch.ones(6), 0.5)),
    "module": lambda h: values(torch.nn.AlphaDropout(0.5)(torch.ones(6))),
    "torch.dropout": lambda h: values(torch.dropout(torch.ones(6), 0.5, True)),
    "in place": lambda h: values(torch.nn.functional.dropout(torch.ones(6), 0.5, inplace=True)),
    "rrelu": lambda h: values(torch.nn.functional.rrelu(-torch.ones(6), training=True)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_of_torch_draws_anew_at_every_step(name):
    results = []
    for options in ({}, {"optimize_move_layers_out": False}, {"debug": True}):
        torch.manual_seed(4)
        loop, out = run(DROPOUTS[name], **options)
        results.append(out)
        after = torch.rand(3)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    assert len({tuple(row.tolist()) for row in out}) > 1
    assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4
    torch.manual_seed(4)
    run(lambda h: rf.random_uniform([feat]))  # one draw of the global generator, as for rfnb's own random ops
    assert torch.equal(torch.rand(3), after)


@pytest.mark.parametrize(
    "fn",
    [
        lambda: torch.nn.functional.dropout(torch.ones(6), 0.5, training=False),
        lambda: torch.nn.functional.rrelu(-torch.ones(6)),
        lambda: torch.nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 1, 6))[0, 0],
    ],
)
def test_what_draws_nothing_is_not_touched(fn):
    torch.manual_seed(4)
    before = torch.get_rng_state()
    _, out = run(lambda h: values(fn()))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(out[0], out[3])


REFUSED = {
    "rand": lambda: torch.rand(6),
    "own generator": lambda: torch.rand(6, generator=torch.Generator()),
    "in place": lambda: torch.empty(6).uniform_(),
    "normal_": lambda: torch.empty(6).normal_(),
    "backward": lambda: torch.ones(6, requires_grad=True).sum().backward() or torch.ones(6),
    "autograd.grad": lambda: torch.autograd.grad((w := torch.ones(6, requires_grad=True)).sum(), w)[0],
    "no_grad": lambda: nothing(torch.no_grad()),
    "inference_mode": lambda: nothing(torch.inference_mode()),
    "set_random_seed": lambda: rf.set_random_seed(3) or torch.ones(6),
}


def nothing(context):
    with context:
        return torch.ones(6) * 1.0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    with pytest.raises(TraceError, match="in the body of a loop"):
        run(lambda h: values(REFUSED[name]()))
    run(lambda h: h)  # nothing is left behind


def test_a_gradient_in_the_body_says_where_to_take_it():
    w = rf.Parameter([feat], initial=1.0)
    with pytest.raises(TraceError, match="traced without gradients") as caught:
        run(lambda h: rf.gradient(rf.reduce_sum(h * w, axis=feat), w))
    assert "after the loop" in str(caught.value) and "rf.raw_call(torch.func.grad(fn), …)" in str(caught.value)
    _, out = run(lambda h: rf.raw_call(torch.func.grad(lambda x: (x**2).sum()), h, out_dims=[feat]))
    assert out[:, 0].tolist() == [2.0, 6.0, 18.0, 54.0]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: random.random(), "Python's `random`"),
        (lambda: float(np.random.rand()), "`numpy.random`"),
        (lambda: torch.manual_seed(random.Random().getrandbits(40)) and 1.0, "own generator"),
    ],
)
def test_numbers_that_are_the_same_at_every_step_are_warned_of(draw, words):
    def body(times):
        for _ in range(times):
            loop = rf.Loop(max_seq_len=2)
            loop.state.s = rf.zeros([])
            with loop:
                loop.state.s = loop.state.s + draw() + rf.random_uniform([]) * 0.0

    source = compile("body(times)", f"<{words}>", "exec")
    with pytest.warns(LoopWarning, match=words) as caught:
        exec(source, {"body": fresh(body), "times": 2})
    assert len(caught) == 1 and "rf.random_uniform" in str(caught[0].message)


def fresh(fn):
    """The function with code of its own, which no loop has seen."""
    code = fn.__code__.replace(co_name=f"body{random.Random().getrandbits(60)}")
    return type(fn)(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def test_the_loops_own_random_numbers_are_not_warned_of(recwarn):
    for _ in range(2):
        run(lambda h: rf.random_uniform([feat]) + rf.dropout(h, 0.5, on_forward=True))
    outer = rf.Loop(max_seq_len=2)
    outer.state.s = rf.zeros([])
    with outer:
        inner = rf.Loop(max_seq_len=2)
        inner.state.s = outer.state.s
        with inner:
            inner.state.s = inner.state.s + rf.random_uniform([])
        outer.state.s = inner.state.s
    assert not [w for w in recwarn if issubclass(w.category, LoopWarning)]
