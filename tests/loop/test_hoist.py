"""What is moved out of the steps gives the same values and gradients as in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.loop import hoist

feat, out, key = rf.Dim(4, name="feat"), rf.Dim(3, name="out"), rf.Dim(5, name="key")
vocab, half, rest = rf.Dim(6, name="vocab"), rf.Dim(2, name="half"), rf.Dim(2, name="rest")


class Setting:
    """Inputs and weights, the same for both ways of a program."""

    def __init__(self, lengths: tuple[int, ...] = (4, 2, 3)):
        torch.manual_seed(1)
        self.time, self.enc = rf.Dim(None, name="time"), rf.Dim(None, name="enc")
        n = len(lengths)
        rows = [torch.randn(k, 4) for k in lengths]
        self.x = rf.convert_to_tensor(rows, dims=[batch_dim, self.time, feat])
        self.memory = rf.convert_to_tensor(
            torch.randn(n, 6, 4), dims=[batch_dim, self.enc, feat], lengths=[6, 4, 5, 6][:n]
        )
        self.labels = rf.convert_to_tensor(
            torch.randint(0, 6, (n, max(lengths))), dims=[batch_dim, self.time], sparse_dim=vocab
        )
        for tensor in (self.x, self.memory):
            rf.set_requires_gradient(tensor)
        self.w, self.u = rf.Linear(feat, out), rf.Linear(out, out)
        self.k, self.q = rf.Linear(feat, key), rf.Linear(out, key)
        self.embedding = rf.Embedding(vocab, out)
        self.norm, self.logits = rf.LayerNorm(out), rf.Linear(out, vocab)
        self.scale = rf.Parameter([out], initial=0.5)

    def trained(self) -> list[torch.Tensor]:
        modules = (self.w, self.u, self.k, self.q, self.embedding, self.norm, self.logits)
        found = [parameter.raw_tensor for module in modules for parameter in module.parameters()]
        return [self.x.raw_tensor, self.memory.raw_tensor, self.scale.raw_tensor, *found]

    @property
    def h(self) -> rf.Tensor:
        return rf.zeros([batch_dim, out])


def attention(s: Setting, loop: rf.Loop) -> Any:
    energy = rf.tanh(s.k(s.memory) + s.q(loop.state.h))
    weights = rf.softmax(rf.reduce_sum(energy, axis=key), axis=s.enc)
    att = rf.matmul(weights, s.memory, reduce=s.enc)
    loop.state.h = rf.tanh(s.w(loop.unstack(s.x)) + s.w(att) + s.u(loop.state.h))
    return loop.stack(weights), loop.stack(s.logits(s.norm(loop.state.h)))


def self_attention(s: Setting, loop: rf.Loop) -> Any:
    query = loop.unstack(s.x)
    weights = rf.softmax(rf.matmul(query, s.x, reduce=feat), axis=s.time)  # over the axis of the loop itself
    loop.state.h = rf.tanh(s.w(rf.matmul(weights, s.x, reduce=s.time)) + loop.state.h)
    return loop.stack(rf.reduce_max(weights, axis=s.time)), loop.stack(loop.state.h)


def dropout_twice(s: Setting, loop: rf.Loop) -> Any:
    first = rf.dropout(s.w(loop.unstack(s.x)), 0.5, on_forward=True)
    loop.state.h = rf.tanh(first + loop.state.h)
    return loop.stack(rf.dropout(loop.state.h, 0.5, on_forward=True)), loop.stack(first)


def log_of_padding(s: Setting, loop: rf.Loop) -> Any:
    positive = rf.log(rf.square(loop.unstack(s.x)) + 1e-3)
    loop.state.h = loop.state.h + s.w(positive)
    return loop.stack(rf.log(rf.square(loop.state.h) + 1e-3)), loop.stack(positive)


def table_times_scale(s: Setting, loop: rf.Loop) -> Any:
    table = s.embedding.weight * s.scale
    loop.state.h = rf.tanh(rf.gather(table, indices=loop.unstack(s.labels), axis=vocab) + loop.state.h)
    return loop.stack(loop.state.h)


def concat_with_an_invariant(s: Setting, loop: rf.Loop) -> Any:
    mean = rf.reduce_mean(s.memory, axis=s.enc)
    both, _ = rf.concat((loop.unstack(s.x), feat), (mean, feat))
    loop.state.h = loop.state.h + rf.reduce_sum(both, axis=both.dims[-1])
    return loop.stack(both), loop.stack(loop.state.h)


def argmax_of_logits(s: Setting, loop: rf.Loop) -> Any:
    loop.state.h = rf.tanh(s.w(loop.unstack(s.x)) + loop.state.h)
    best = rf.reduce_argmax(s.logits(loop.state.h), axis=vocab)
    return loop.stack(best), loop.stack(s.embedding(best))


def several_outputs_of_one_op(s: Setting, loop: rf.Loop) -> Any:
    values, indices, _ = rf.top_k(loop.unstack(s.x), axis=feat, k_dim=half)
    left, right = rf.split(loop.unstack(s.x), axis=feat, out_dims=[half, rest])
    loop.state.h = loop.state.h + rf.reduce_sum(values + left, axis=half)
    return loop.stack(indices), loop.stack(right), loop.stack(loop.state.h)


def numbers_of_steps(s: Setting, loop: rf.Loop) -> Any:
    even = rf.cast(loop.iter_idx % 2, "float32")
    loop.state.h = loop.state.h * even + s.w(loop.unstack(s.x))
    return loop.stack(even), loop.stack(loop.state.h)


def same_output_twice(s: Setting, loop: rf.Loop) -> Any:
    y = s.w(loop.unstack(s.x))
    loop.state.h = loop.state.h + y
    return loop.stack(y), loop.stack(y), loop.stack(loop.state.h), loop.stack(s.norm(loop.state.h))


def what_is_the_same_at_all_steps(s: Setting, loop: rf.Loop) -> Any:
    loop.state.h = loop.state.h + s.w(loop.unstack(s.x))
    return loop.stack(rf.reduce_mean(s.memory, axis=s.enc)), loop.stack(rf.zeros([out]))


def of_the_state_before(s: Setting, loop: rf.Loop) -> Any:
    before = loop.state.h
    loop.state.h = rf.tanh(s.u(before) + s.w(loop.unstack(s.x)))
    return loop.stack(s.logits(before)), loop.stack(loop.state.h - before)


def raw_calls_between(s: Setting, loop: rf.Loop) -> Any:
    y = s.w(loop.unstack(s.x))
    doubled = rf.raw_call(lambda raw: raw * 2, y, out_dims=list(y.dims))
    loop.state.h = rf.tanh(doubled + loop.state.h)
    halved = rf.raw_call(lambda raw: raw / 2, rf.tanh(loop.state.h), out_dims=list(y.dims))
    return loop.stack(halved * 3.0)


def losses_of_labels(s: Setting, loop: rf.Loop) -> Any:
    loop.state.h = rf.tanh(s.w(loop.unstack(s.x)) + loop.state.h)
    logits = s.logits(loop.state.h)
    ce = rf.cross_entropy(estimated=logits, target=loop.unstack(s.labels), axis=vocab, estimated_type="logits")
    return loop.stack(ce)


def masks_of_frames(s: Setting, loop: rf.Loop) -> Any:
    frame = loop.unstack(s.x)
    loud = rf.reduce_sum(frame, axis=feat) > 0.0
    loop.state.h = rf.where(loud, loop.state.h + s.w(frame), loop.state.h)
    return loop.stack(rf.where(loud, s.norm(loop.state.h), 0.0)), loop.stack(loud)


def outputs_only(s: Setting, loop: rf.Loop) -> Any:
    loop.state.h = loop.state.h
    return loop.stack(rf.tanh(s.w(loop.unstack(s.x))))


def products_without_common_dims(s: Setting, loop: rf.Loop) -> Any:
    outer = rf.combine_bc(rf.reduce_sum(loop.unstack(s.x), axis=batch_dim), "mul", s.scale)
    loop.state.h = loop.state.h + rf.reduce_sum(outer, axis=feat)
    return loop.stack(outer), loop.stack(loop.state.h)


PROGRAMS = [
    attention, self_attention, dropout_twice, log_of_padding, table_times_scale, concat_with_an_invariant,
    argmax_of_logits, several_outputs_of_one_op, numbers_of_steps, same_output_twice, what_is_the_same_at_all_steps,
    of_the_state_before, raw_calls_between, losses_of_labels, masks_of_frames, outputs_only,
    products_without_common_dims,
]  # fmt: skip
Program = Callable[[Setting, rf.Loop], Any]


def run(program: Program, s: Setting, hoisted: bool) -> tuple[list[rf.Tensor], list[torch.Tensor | None]]:
    """Outputs and last state, and gradients of a sum of them."""
    torch.manual_seed(7)
    loop = rf.Loop(axis=s.time, optimize_move_layers_out=hoisted)
    loop.state.h = s.h
    with loop:
        results = program(s, loop)
    tensors = [*(results if isinstance(results, tuple) else (results,)), loop.state.h]
    total = s.scale.raw_tensor.sum() * 0.0
    for number, tensor in enumerate(tensors):
        if tensor.dtype == "float32":
            weighted = tensor.copy_masked(0.0) * (number + 1.0)
            total = total + rf.reduce_sum(rf.sin(weighted), axis=weighted.dims, use_mask=False).raw_tensor
    return tensors, list(torch.autograd.grad(total, s.trained(), allow_unused=True))


def assert_same(a: torch.Tensor | None, b: torch.Tensor | None) -> None:
    a, b = (torch.zeros(()) if raw is None else raw.double() for raw in (a, b))
    torch.testing.assert_close(a, b.expand_as(a) if b.ndim == 0 else b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [(4, 2, 3), (1,), (3, 0), (2, 2)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_hoisted_and_plain_agree(program, lengths):
    s = Setting(lengths)
    (plain, gradients), (moved, others) = run(program, s, False), run(program, s, True)
    for a, b in zip(plain, moved, strict=True):
        assert a.dims == b.dims
        assert a.sparse_dim is b.sparse_dim
        assert_same(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)
    for a, b in zip(gradients, others, strict=True):
        assert_same(a, b)


def explained(program: Program, **options: Any) -> dict[str, tuple[str, str]]:
    """By the text of an op: where it was done, and why."""
    s = Setting()
    loop = rf.Loop(axis=s.time, name="explained", **options)
    loop.state.h = s.h
    with loop:
        program(s, loop)
    return {row.text: (row.where, row.why) for row in loop.explain().rows}


def test_explain_tells_where_each_op_was_done_and_which_state_keeps_it_inside():
    rows = explained(attention)
    assert rows["s.k(s.memory)"] == ("once", "")
    assert rows["s.q(loop.state.h)"] == ("step", "needs h")
    assert rows["s.w(loop.unstack(s.x))"] == ("all steps", "")
    assert rows["s.w(att)"] == ("step", "needs h")
    assert rows["s.logits(s.norm(loop.state.h))"] == ("behind", "only outputs need it")
    assert {where for where, _ in explained(attention, optimize_move_layers_out=False).values()} == {"step"}


def test_explain_says_why_an_op_without_a_state_stays():
    rows = explained(dropout_twice)
    assert rows["rf.dropout(s.w(loop.unstack(s.x)), 0.5, on_forward=True)"] == ("step", "draws random numbers")
    why = explained(raw_calls_between)
    assert ("step", "raw_call is done frame by frame") in why.values()


def test_the_text_of_an_explanation(golden):
    s = Setting()
    loop = rf.Loop(axis=s.time, name="decoder")
    loop.state.h = s.h
    assert "has not run yet" in repr(loop.explain())
    with loop:
        attention(s, loop)
    text = repr(loop.explain())
    assert text.startswith("decoder: 1 op once, 1 for all steps together, ")
    assert len(text.splitlines()) == 1 + len(loop.explain().rows)


def test_a_replay_shows_what_was_computed():
    s = Setting()
    with rf.recording("last"):
        loop = rf.Loop(axis=s.time, name="hoisted")
        loop.state.h = s.h
        with loop:
            frame = loop.unstack(s.x)
            projected = s.w(frame)
            loop.state.h = rf.tanh(projected + s.u(loop.state.h))
            logits = s.logits(loop.state.h)
            scores = loop.stack(logits)
    run_ = rf.runs["hoisted"]
    for step in range(4):
        assert run_[step].check == "replay agrees"
        expected = rf.gather(s.w(s.x), indices=step, axis=s.time).raw_tensor
        if step < 2:  # all sequences are that long
            assert_same(run_[step].projected.copy_transpose([batch_dim, out]).raw_tensor, expected)
        assert_same(
            run_[step].logits.copy_transpose([batch_dim, vocab]).raw_tensor[0],
            rf.gather(scores, indices=step, axis=s.time).copy_transpose([batch_dim, vocab]).raw_tensor[0],
        )
    assert not [x for x in run_.replay.program.constants.values() if x.requires_grad]


def test_what_takes_too_much_memory_stays_in_the_steps(monkeypatch):
    s = Setting()
    expected, _ = run(attention, s, True)
    monkeypatch.setattr(hoist, "BUDGET", 0)
    found, _ = run(attention, s, True)
    for a, b in zip(expected, found, strict=True):
        assert_same(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)


@pytest.mark.parametrize("where", ["before", "behind"])
def test_an_op_that_cannot_be_done_for_all_steps_at_once_is_done_in_each(where):
    s = Setting((3, 3))
    steps = rf.Dim(3, name="frames_only")

    def fussy(raw_dims: int, x: rf.Tensor) -> rf.Tensor:
        assert len(x.dims) == raw_dims, "one frame at a time"
        return x.like(x.raw_tensor * 2)

    from rfnb.core.op import OPS, op

    @op(frames="any", name="fussy_test_op")
    def fussy_op(x: rf.Tensor) -> rf.Tensor:
        return fussy(2, x)

    try:
        loop = rf.Loop(axis=s.time)
        loop.state.h = s.h
        with loop:
            frame = s.w(loop.unstack(s.x))
            if where == "before":
                frame = fussy_op(frame)
            loop.state.h = loop.state.h + frame
            result = fussy_op(loop.state.h) if where == "behind" else loop.state.h
            stacked = loop.stack(result)
    finally:
        del OPS["fussy_test_op"]
    assert steps.dimension == stacked.size_of(s.time).max
    total = rf.cumsum(s.w(s.x), spatial_dim=s.time) * 2.0
    assert_same(stacked.copy_transpose(total.dims).raw_tensor, total.raw_tensor)


def test_a_loop_that_ends_early_stacks_only_its_steps():
    s = Setting((4, 4))
    for moved in (False, True):
        steps = rf.Dim(None, name="steps")
        loop = rf.Loop(axis=steps, max_seq_len=50, optimize_move_layers_out=moved)
        loop.state.n = rf.zeros([batch_dim])
        with loop:
            frame = loop.unstack(s.x, axis=s.time)
            loop.state.n = loop.state.n + 1.0
            scores = s.logits(s.w(frame) * loop.state.n)
            loop.end(loop.state.n >= 2.0, include_eos=True)
            out_ = loop.stack(scores)
        assert steps.size.max == 2
        expected = s.logits(s.w(s.x) * rf.cast(rf.range_over_dim(s.time) + 1, "float32"))
        got = out_.copy_transpose([batch_dim, steps, vocab]).raw_tensor
        assert_same(got, expected.copy_transpose([batch_dim, s.time, vocab]).raw_tensor[:, :2])


def test_errors_name_the_step_as_before():
    s = Setting((3, 3))
    loop = rf.Loop(axis=s.time, name="failing")
    loop.state.h = s.h
    with pytest.raises(ZeroDivisionError) as caught, loop:
        y = rf.raw_call(
            lambda raw: 1 / 0 if raw.shape[0] == 99 else raw, s.w(loop.unstack(s.x)), out_dims=[batch_dim, out]
        )
        z = rf.raw_call(crash_at_one(), loop.iter_idx, y, out_dims=[batch_dim, out])
        loop.state.h = loop.state.h + z
    assert "step 1 of failing" in caught.value.__notes__[0]


def crash_at_one() -> Callable[..., Any]:
    def crash(index: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        if int(index) == 1:
            raise ZeroDivisionError
        return raw + 0

    return crash


# -- random programs

OPS_OF_TWO = [lambda a, b: a + b, lambda a, b: a * b, rf.maximum, lambda a, b: rf.where(a > b, a, b * 0.5)]
OPS_OF_ONE = [
    rf.tanh, rf.sigmoid, lambda a: rf.softmax(a, axis=out), lambda a: rf.shift_right(a, axis=out, pad_value=0.0),
    lambda a: rf.cumsum(a, spatial_dim=out), lambda a: a - rf.reduce_mean(a, axis=out),
]  # fmt: skip


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    choices=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=8),
    outputs=st.lists(st.integers(0, 99), min_size=1, max_size=3),
    new_state=st.integers(0, 99),
)
def test_random_programs(lengths, choices, outputs, new_state):
    s = Setting(tuple(lengths))

    def program(s: Setting, loop: rf.Loop) -> Any:
        known = [loop.state.h, s.w(loop.unstack(s.x)), s.scale + s.h, s.u(loop.state.h)]
        for which, a, b in choices:
            first, second = known[a % len(known)], known[b % len(known)]
            known.append(
                OPS_OF_TWO[which](first, second)
                if which < len(OPS_OF_TWO)
                else OPS_OF_ONE[which - len(OPS_OF_TWO)](first)
            )
        loop.state.h = rf.tanh(known[new_state % len(known)])
        return tuple(loop.stack(known[i % len(known)]) for i in outputs)

    (plain, gradients), (moved, others) = run(program, s, False), run(program, s, True)
    for a, b in zip(plain, moved, strict=True):
        assert_same(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)
    for a, b in zip(gradients, others, strict=True):
        assert_same(a, b)
