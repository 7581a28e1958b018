"""Branches in the body of a loop: each step computes the side that it takes, as a Python loop by hand does."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, LoopError
from tests.examples import examples

feat, other = rf.Dim(3, name="feat"), rf.Dim(2, name="other")


class Setting:
    """Inputs and weights."""

    def __init__(self, lengths: tuple[int, ...] = (4, 2, 3)):
        torch.manual_seed(1)
        self.time = rf.Dim(None, name="time")
        self.x = rf.convert_to_tensor([torch.randn(n, 3) for n in lengths], dims=[batch_dim, self.time, feat])
        rf.set_requires_gradient(self.x)
        self.w, self.u = rf.Linear(feat, feat), rf.Linear(feat, feat)
        self.h = rf.zeros([batch_dim, feat])

    def leaves(self) -> list[torch.Tensor]:
        return [self.x.raw_tensor, *(p.raw_tensor for m in (self.w, self.u) for p in m.parameters())]


Step = Callable[[Setting, rf.Tensor, rf.Tensor, rf.Tensor], rf.Tensor]


def both(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    return rf.cond(i % 2 == 0, lambda: rf.tanh(s.w(x) + h), lambda: s.u(h) - x)


def by_value(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    return rf.cond(rf.reduce_sum(h, axis=h.dims) > 0.0, lambda: h * 0.5, lambda: s.w(x) + 1.0)


def passed_on(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    return rf.cond(i > 1, lambda: h, lambda: x) + rf.cond(i > 2, lambda: s.h, lambda: h)


def turned(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    return rf.cond(i % 2 == 0, lambda: s.w(x), lambda: rf.tanh(h).copy_transpose([feat, batch_dim]))


def nested(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    def inner() -> rf.Tensor:
        a = s.w(h)
        return rf.cond(i == 3, lambda: a + x, lambda: rf.cond(i == 1, lambda: s.u(a), lambda: a * h))

    return rf.cond(i % 2 == 1, inner, lambda: rf.tanh(x))


def structure(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    got = rf.cond(
        i % 2 == 0,
        lambda: rf.State(a=x, rest=(h, 2.0, None, "kept")),
        lambda: rf.State(a=h, rest=(s.w(x), 1, None, "kept")),
    )
    assert got.rest[2:] == (None, "kept")
    return got.a * got.rest[1] + got.rest[0]


def a_loop_inside(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    def powers() -> rf.Tensor:
        loop = rf.Loop(max_seq_len=3, name="inner")
        loop.state.p = h
        with loop:
            loop.state.p = rf.tanh(s.u(loop.state.p) + x)
            every = loop.stack(loop.state.p)
        return loop.state.p + rf.reduce_sum(every, axis=loop.axis)

    return rf.cond(i % 2 == 0, powers, lambda: h * x)


def inside_a_loop(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    loop = rf.Loop(max_seq_len=3, name="inner")
    loop.state.p = h
    with loop:
        p = loop.state.p
        loop.state.p = rf.cond(loop.iter_idx > i, lambda: rf.tanh(s.w(p)), lambda: p + x)
    return loop.state.p


def while_inside(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    def grow() -> rf.Tensor:
        start = rf.reduce_sum(rf.abs(x), axis=x.dims) * 0.0 + 1.0
        return rf.while_loop(lambda n: n < 30.0, lambda n: n * 3.0, start) * x

    return rf.cond(i != 1, grow, lambda: h)


def padding_inside(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    return rf.cond(i % 2 == 0, lambda: h + rf.reduce_mean(s.x, axis=s.time), lambda: rf.reduce_max(s.x, axis=s.time))


STEPS = [
    both, by_value, passed_on, turned, nested, structure, a_loop_inside, inside_a_loop, while_inside, padding_inside
]  # fmt: skip


def by_hand(s: Setting, step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    h, rows = s.h, []
    lengths = torch.tensor(s.time.size.values.tolist())
    for t in range(s.time.size.max):
        frame = rf.convert_to_tensor(s.x.raw_tensor[:, t], dims=[batch_dim, feat])
        new = step(s, frame, h, rf.convert_to_tensor(t)).copy_transpose([batch_dim, feat])
        active = rf.convert_to_tensor(lengths > t, dims=[batch_dim])
        h = rf.where(active, new, h)
        rows.append(h.raw_tensor)
    return h.raw_tensor, torch.stack(rows)


def by_loop(s: Setting, step: Step, **options: Any) -> tuple[torch.Tensor, torch.Tensor, rf.Loop]:
    loop = rf.Loop(axis=s.time, **options)
    loop.state.h = s.h
    with loop:
        loop.state.h = step(s, loop.unstack(s.x), loop.state.h, loop.iter_idx)
        out = loop.stack(loop.state.h)
    return loop.state.h.raw_tensor, out.copy_transpose([s.time, batch_dim, feat]).raw_tensor, loop


def gradients(s: Setting, result: torch.Tensor) -> list[torch.Tensor | None]:
    if not result.requires_grad:
        return [None] * len(s.leaves())
    return list(torch.autograd.grad((result * torch.arange(3.0)).sum(), s.leaves(), allow_unused=True))


def same_gradients(some: list[torch.Tensor | None], others: list[torch.Tensor | None]) -> None:
    for a, b in zip(some, others, strict=True):
        if a is not None or b is not None:
            a, b = (torch.zeros_like(b if a is None else a) if x is None else x for x in (a, b))
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("lengths", [(4, 4), (4, 4, 4)], ids=str)
def test_branches_are_those_of_a_python_loop(step, lengths):
    s = Setting(lengths)
    final, _ = by_hand(s, step)
    expected = gradients(s, final)
    for options in ({}, {"optimize_move_layers_out": False}, {"debug": True}):
        found, _, loop = by_loop(s, step, **options)
        torch.testing.assert_close(found, final, rtol=1e-5, atol=1e-5)
        same_gradients(gradients(s, found), expected)
    assert all(loop.run[i].check == "replay agrees" for i in range(loop.run.steps))


@examples(25)
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3), number=st.integers(0, len(STEPS) - 1))
def test_of_any_lengths(lengths, number):
    step = STEPS[number]
    if step is by_value:
        step = both  # it looks at padding as well
    s = Setting(tuple(lengths))
    final, rows = by_hand(s, step) if max(lengths) else (s.h.raw_tensor, None)
    found, out, loop = by_loop(s, step, debug=True)
    torch.testing.assert_close(found, final, rtol=1e-5, atol=1e-5)
    for b, n in enumerate(lengths):
        if n:
            torch.testing.assert_close(out[:n, b], rows[:n, b], rtol=1e-5, atol=1e-5)
    if found.requires_grad and final.requires_grad:
        same_gradients(gradients(s, found), gradients(s, final))
    assert all(loop.run[i].check == "replay agrees" for i in range(loop.run.steps))


# -- only one side is done


def test_only_the_side_that_is_taken_is_computed():
    seen: list[str] = []

    def note(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda raw: (seen.append(name), raw + 1)[1]

    loop = rf.Loop(max_seq_len=4)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        n = loop.state.n
        loop.state.n = rf.cond(
            n % 2 == 0,
            lambda: rf.raw_call(note("even"), n, out_dims=[]),
            lambda: rf.raw_call(note("odd"), n, out_dims=[]),
        )
        seen.clear()  # of the trial
    assert seen == ["even", "odd", "even", "odd"]


def test_an_assertion_holds_for_its_side_only():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        n = loop.state.n

        def checked() -> rf.Tensor:
            rf.assert_(n > 0, "never at step 0")
            return n + 1

        loop.state.n = rf.cond(n == 0, lambda: n + 5, checked)
    assert loop.state.n.item() == 7
    assert loop.run[1].check == "replay agrees"


def test_a_failure_in_a_branch_is_told_with_step_and_line():
    loop = rf.Loop(max_seq_len=5, name="counting")
    loop.state.n = rf.convert_to_tensor(0)
    with pytest.raises(AssertionError, match="two") as caught, loop:
        n = loop.state.n

        def checked() -> rf.Tensor:
            rf.assert_(n < 2, "two is too much")
            return n + 1

        loop.state.n = rf.cond(n > 0, checked, lambda: n + 1)
    notes = "\n".join(caught.value.__notes__)
    assert "true_fn" in notes and "(assert)" in notes and "step 2 of counting" in notes
    assert loop.state.n.item() == 0


def test_an_error_in_a_side_not_taken_names_the_side():
    loop = rf.Loop(max_seq_len=2)
    loop.state.n = rf.convert_to_tensor(0)
    with pytest.raises(ZeroDivisionError) as caught, loop:
        n = loop.state.n
        loop.state.n = rf.cond(n == 0, lambda: n + 1, lambda: n * (1 // 0))
    assert any("false_fn" in note and "although the other side is taken" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("hoisted", [True, False])
def test_what_is_changed_in_place_is_changed_by_the_side_that_is_taken(hoisted):
    counter = rf.Parameter([], initial=0.0, trainable=False)
    loop = rf.Loop(max_seq_len=5, debug=True, optimize_move_layers_out=None if hoisted else False)
    loop.state.s = rf.zeros([])
    with loop:
        i = loop.iter_idx

        def count(by: float) -> rf.Tensor:
            counter.assign_add(rf.convert_to_tensor(by))
            return counter * 1.0

        counted = rf.cond(i % 2 == 1, lambda: count(1.0), lambda: count(10.0))
        loop.state.s = loop.state.s + counted
    assert counter.item() == 32.0
    assert loop.state.s.item() == 10.0 + 11.0 + 21.0 + 22.0 + 32.0
    looks = [[step.counted.item() for step in loop.run] for _ in range(2)]
    assert looks[0] == looks[1] and counter.item() == 32.0, "a replay changes nothing"


@pytest.mark.parametrize("hoisted", [True, False])
def test_a_branch_that_only_changes_something(hoisted):
    counter, seen = rf.Parameter([], initial=0.0, trainable=False), []
    loop = rf.Loop(max_seq_len=5, debug=True, optimize_move_layers_out=None if hoisted else False)
    loop.state.s = rf.zeros([])
    with loop:
        i = loop.iter_idx
        now = rf.cond(i % 2 == 1, lambda: counter.assign_add(1.0), lambda: None)
        assert counter.raw_tensor.item() == 0.0, "at step 0 it is not taken"
        rf.cond(i > 3, lambda: rf.raw_call(lambda raw: (seen.append(int(raw)), raw + 1)[1], i, out_dims=[]), lambda: i)
        seen.clear()
        loop.state.s = loop.state.s + counter * 1.0
    assert now is None and counter.item() == 2.0 and seen == [4]
    assert loop.state.s.item() == 0.0 + 1.0 + 1.0 + 2.0 + 2.0


def test_torch_changes_a_value_of_the_body_in_a_side():
    loop = rf.Loop(max_seq_len=4)
    loop.state.s = rf.zeros([])
    with loop:
        raw = (loop.state.s * 1.0).plain._raw
        rf.cond(loop.iter_idx % 2 == 1, lambda: raw.add_(10.0) is None, lambda: False)
        shown = repr(rf.convert_to_tensor(raw, dims=[]))
        loop.state.s = rf.convert_to_tensor(raw, dims=[]) + 1.0
    assert loop.state.s.item() == 1.0 + 11.0 + 1.0 + 11.0
    assert shown.endswith(" 0"), "at step 0 it is not taken"


class Normed(rf.Module):
    """Batch norm with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = rf.Parameter([feat], initial=0.0, trainable=False)
        self.variance = rf.Parameter([feat], initial=1.0, trainable=False)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return rf.batch_norm(
            x, in_dim=feat, running_mean=self.mean, running_variance=self.variance, gamma=None, beta=None
        )


def test_running_statistics_are_those_of_the_steps_that_are_taken():
    s = Setting((4, 4))
    norm, by_itself = Normed(), Normed()
    loop = rf.Loop(axis=s.time, debug=True)
    loop.state.h = s.h
    rf.init_train_step_run_ctx(train_flag=True)
    try:
        with loop:
            x = loop.unstack(s.x)
            loop.state.h = loop.state.h + rf.cond(loop.iter_idx % 2 == 1, lambda: norm(x), lambda: x)
        for t in (1, 3):
            by_itself(rf.convert_to_tensor(s.x.raw_tensor[:, t].detach(), dims=[batch_dim, feat]))
    finally:
        rf.init_forward_step_run_ctx()
    for _ in range(2):
        for mine, expected in zip(norm.parameters(), by_itself.parameters(), strict=True):
            torch.testing.assert_close(mine.raw_tensor, expected.raw_tensor)
        for step in loop.run:
            step.values()


def test_only_gradients_of_the_sides_that_were_taken():
    s = Setting((2, 2))
    final = by_loop(s, lambda s, x, h, i: h + rf.cond(i >= 0, lambda: s.w(x), lambda: s.u(x)))[0]
    final.sum().backward()
    assert s.w.weight.raw_tensor.grad is not None and s.u.weight.raw_tensor.grad is None


# -- random numbers


def noisy(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    a = rf.random_uniform(x.dims)
    b = rf.cond(i % 2 == 0, lambda: x + rf.random_normal(x.dims), lambda: rf.dropout(h, 0.5, on_forward=True))
    return a + b * rf.random_uniform(x.dims)


def noisy_loop(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
    def walk() -> rf.Tensor:
        loop = rf.Loop(max_seq_len=3)
        loop.state.p = h
        with loop:
            loop.state.p = loop.state.p + rf.random_uniform(x.dims)
        return loop.state.p

    return rf.cond(i % 2 == 0, walk, lambda: x + rf.random_uniform(x.dims))


@pytest.mark.parametrize("step", [noisy, noisy_loop], ids=lambda step: step.__name__)
def test_random_numbers_are_the_same_in_all_ways_to_run(step):
    s, results = Setting((4, 3)), []
    for options in ({}, {"optimize_move_layers_out": False}, {"debug": True}):
        rf.set_random_seed(5)
        _, out, loop = by_loop(s, step, **options)
        results.append(out)
    frames = [out * (torch.arange(4)[:, None] < torch.tensor([4, 3]))[..., None] for out in results]
    assert torch.equal(frames[0], frames[1]) and torch.equal(frames[0], frames[2])
    assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4
    assert len({row.sum().item() for row in out}) == 4
    rf.set_random_seed(6)
    assert not torch.equal(by_loop(s, step)[1], results[0])


def test_scheduled_sampling():
    s = Setting((4, 4))
    rf.set_random_seed(3)
    loop = rf.Loop(axis=s.time)
    loop.state.h = s.h
    with loop:
        given = rf.random_uniform([]) < 0.5
        x = rf.cond(given, lambda: loop.unstack(s.x), lambda: loop.state.h)
        loop.state.h = rf.tanh(s.w(x))
        took = loop.stack(given)
    h = torch.zeros(2, 3)
    assert set(took.raw_tensor.tolist()) == {True, False}
    for t, data in enumerate(took.raw_tensor.tolist()):
        x = s.x.raw_tensor[:, t] if data else h
        h = torch.tanh(x @ s.w.weight.raw_tensor + s.w.bias.raw_tensor)
    torch.testing.assert_close(loop.state.h.raw_tensor, h)


# -- in other loops


def test_in_while_loop_and_scan():
    steps = rf.while_loop(
        lambda s: s["n"] != 1,
        lambda s: {"n": rf.cond(s["n"] % 2 == 0, lambda: s["n"] // 2, lambda: 3 * s["n"] + 1), "k": s["k"] + 1},
        {"n": rf.convert_to_tensor(27), "k": rf.convert_to_tensor(0)},
    )
    assert steps["k"].item() == 111
    time = rf.Dim(5, name="time")
    out, last, _ = rf.scan(
        spatial_dim=time,
        xs=rf.range_over_dim(time),
        initial=rf.convert_to_tensor(0),
        body=lambda x, s: (s, rf.cond(x > 2, lambda: s + x, lambda: s - 1)),
    )
    assert out.raw_tensor.tolist() == [0, -1, -2, -3, 0] and last.item() == 4


def test_a_condition_of_the_loop_around():
    outer = rf.Loop(max_seq_len=4)
    outer.state.s = rf.convert_to_tensor(0)
    with outer:
        even = outer.iter_idx % 2 == 0
        inner = rf.Loop(max_seq_len=3)
        inner.state.s = outer.state.s
        with inner:
            s = inner.state.s
            inner.state.s = rf.cond(even, lambda: s + 1, lambda: s * 2)
        outer.state.s = inner.state.s
    assert outer.state.s.item() == ((0 + 3) * 8 + 3) * 8


def test_an_end_by_a_branch():
    loop = rf.Loop(max_seq_len=9)
    loop.state.n = rf.convert_to_tensor([1, 5], dims=[batch_dim])
    with loop:
        n = loop.state.n
        loop.end(rf.cond(loop.iter_idx > 3, lambda: n > 0, lambda: n > 7), include_eos=True)
        loop.state.n = n + 1
    assert loop.state.n.raw_tensor.tolist() == [6, 9]


# -- what is refused


def run(fn: Callable[[rf.Loop, rf.Tensor], Any]) -> rf.Loop:
    loop = rf.Loop(max_seq_len=3)
    loop.state.h = rf.zeros([feat])
    with loop:
        loop.state.h = fn(loop, loop.state.h)
    return loop


def leak(now: rf.Tensor, h: rf.Tensor) -> rf.Tensor:
    found = []
    rf.cond(now, lambda: found.append(h * 2.0), lambda: None)
    return found[0]


def between_sides(now: rf.Tensor, h: rf.Tensor) -> rf.Tensor:
    found = []
    return rf.cond(now, lambda: (found.append(h * 2.0), h)[1], lambda: found[0])


def set_in_a_side(loop: rf.Loop, h: rf.Tensor) -> None:
    loop.state.h = h + 1.0


def label(dim: rf.Dim) -> rf.Tensor:
    return rf.reduce_max(rf.range_over_dim(dim), axis=dim)


REFUSED = {
    "dims": (lambda now, h: rf.cond(now, lambda: h, lambda: rf.reduce_sum(h, axis=feat)), DimError, "different dims"),
    "other dim": (lambda now, h: rf.cond(now, lambda: h, lambda: rf.zeros([other])), DimError, "different dims"),
    "dtype": (lambda now, h: rf.cond(now, lambda: h, lambda: rf.cast(h, "int64")), DtypeError, "different dtype"),
    "path": (lambda now, h: rf.cond(now, lambda: {"a": h}, lambda: {"a": 1.0})["a"], DimError, "cond: a "),
    "structure": (lambda now, h: rf.cond(now, lambda: {"a": h}, lambda: {"b": h}), LoopError, "structure"),
    "None": (lambda now, h: rf.cond(now, lambda: h, lambda: None), LoopError, "None from false_fn"),
    "names": (lambda now, h: rf.cond(now, lambda: "a", lambda: "b"), LoopError, "'b' from false_fn"),
    "labels": (lambda now, h: rf.cond(now, lambda: label(feat), lambda: label(other)), DimError, "different dims"),
    "pred": (lambda now, h: rf.cond(h > 0.0, lambda: h, lambda: h), DimError, "`pred` has dims"),
    "leak": (leak, LoopError, "one side of a `cond`"),
    "between sides": (between_sides, LoopError, "one side of a `cond`"),
}
IN_A_SIDE = {
    "state": (set_in_a_side, "the state 'h' is set in one side"),
    "stack": (lambda loop, h: loop.stack(h), "stack in one side"),
    "end": (lambda loop, h: loop.end(loop.iter_idx > 1, include_eos=True), "end in one side"),
    "last": (lambda loop, h: loop.last(h), "last in one side"),
    "reorder": (lambda loop, h: loop.reorder(rf.range_over_dim(feat), feat), "reorder in one side"),
    "unstack": (lambda loop, h: loop.unstack(h * 1.0, axis=feat), "unstack of a value that the body computes"),
}


@pytest.mark.parametrize("name", IN_A_SIDE)
@pytest.mark.parametrize("taken", [True, False])
def test_what_counts_for_the_whole_step_is_refused_in_a_side(name, taken):
    fn, words = IN_A_SIDE[name]
    with pytest.raises(LoopError, match=words):
        run(lambda loop, h: rf.cond((loop.iter_idx == 0) == taken, lambda: (fn(loop, h), h)[1], lambda: h))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    fn, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        run(lambda loop, h: fn(loop.iter_idx > 0, h))


def test_an_axis_that_grows():
    def grow(with_history: bool) -> rf.Loop:
        history = rf.Dim(0, name="history")
        loop = rf.Loop(max_seq_len=4)
        loop.state.history, loop.state.h = history, rf.zeros([history])
        loop.state.s = rf.convert_to_tensor(1.0)
        with loop:
            s, h = loop.state.s, loop.state.h
            total = (lambda: rf.reduce_sum(h, axis=h.dims)) if with_history else (lambda: s * 2.0)
            loop.state.s = rf.cond(loop.iter_idx > 1, total, lambda: s + 1.0)
            loop.state.h, loop.state.history = rf.cum_concat_step(loop.state.s, prev_accum=h, axis=loop.state.history)
        return loop

    assert grow(with_history=False).state.h.raw_tensor.tolist() == [2.0, 3.0, 6.0, 12.0]
    with pytest.raises(LoopError, match="a branch of `cond` works on an axis that grows"):
        grow(with_history=True)


def test_the_body_goes_on_when_an_error_of_a_branch_is_caught():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        n = loop.state.n
        with pytest.raises(DtypeError):
            rf.cond(n > 0, lambda: n + 1, lambda: n * 0.5)
        loop.state.n = n + 1
    assert loop.state.n.item() == 3 and loop.run[2].check == "replay agrees"


# -- what is shown of it


@pytest.mark.parametrize("taken", [True, False])
def test_at_step_0_the_body_shows_the_side_that_is_taken(taken):
    loop = rf.Loop(max_seq_len=1)
    loop.state.n = rf.convert_to_tensor(5)
    with loop:
        n = loop.state.n
        loop.state.n = rf.cond((n == 5) == taken, lambda: n * 10, lambda: n * 100)
        shown = repr(loop.state.n)
    assert f" {loop.state.n.item()}\n" in shown and loop.state.n.item() == (50 if taken else 500)


def test_a_state_read_in_a_side_is_no_value_of_the_body():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:

        def side() -> rf.Tensor:
            inside = loop.state.n
            return inside + 1

        result = rf.cond(loop.iter_idx > 0, side, lambda: loop.state.n)
        loop.state.n = result
    assert [value.name for value in loop.run[1].values()] == ["iter_idx", "greater", "result"]


def test_a_branch_is_a_node_with_two_bodies():
    s = Setting((3, 3))
    _, _, loop = by_loop(s, both, debug=True)
    (node,) = [node for node in loop.run.graph.all_nodes() if node.kind == "cond"]
    assert [(side.kind, side.op) for side in node.body] == [("side", "true_fn"), ("side", "false_fn")]
    assert {"tanh"} <= {inner.op for inner in node.body[0].body} and node.inputs and len(node.outputs) == 1
    assert "cond" in repr(loop.explain())


def test_the_ops_of_a_step_are_those_of_the_side_that_it_takes():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.n = rf.convert_to_tensor(5)
    with loop:
        n = loop.state.n
        inner = lambda: rf.cond(loop.iter_idx > 1, lambda: n * 100, lambda: n - 1)  # noqa: E731
        loop.state.n = rf.cond(loop.iter_idx > 0, inner, lambda: n + 20)
    done = [[op for op in loop.run[i].ops() if op.op in ("mul", "sub", "add")] for i in range(3)]
    ops = [{op.op: op.outputs[0].item() for op in each} for each in done]
    assert ops == [{"add": 25}, {"sub": 24}, {"mul": 2400}]
    assert [loop.run[i].check for i in range(3)] == ["replay agrees"] * 3


def test_nothing_is_kept_of_a_branch():
    s = Setting((3, 3))
    alive = []

    def step(s: Setting, x: rf.Tensor, h: rf.Tensor, i: rf.Tensor) -> rf.Tensor:
        def side() -> rf.Tensor:
            y = rf.tanh(x)
            alive.append(weakref.ref(y.plain._raw))
            return y + h

        return rf.cond(i > 0, side, lambda: h)

    by_loop(s, step)
    gc.collect()
    assert [ref() for ref in alive] == [None]


def test_a_branch_outside_of_loops_is_a_choice_of_python():
    assert rf.cond(rf.convert_to_tensor(1) > 2, lambda: 1 / 0, lambda: "no") == "no"
