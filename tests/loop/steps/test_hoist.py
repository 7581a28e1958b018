"""What is moved out of the steps gives the same values and gradients as in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.loop.steps import hoist
from tests.examples import examples

feat, out, key = rf.Dim(4, name="feat"), rf.Dim(3, name="out"), rf.Dim(5, name="key")
vocab, half, rest = rf.Dim(6, name="vocab"), rf.Dim(2, name="half"), rf.Dim(2, name="rest")
other_out, both_out = rf.Dim(3, name="other_out"), rf.Dim(6, name="both_out")


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
        self.counter = rf.Parameter([out], initial=1.0, trainable=False)

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


def results_of_a_loop_inside(s: Setting, loop: rf.Loop) -> Any:
    x = s.w(loop.unstack(s.x))
    inner = rf.Loop(max_seq_len=3, name="inner")
    inner.state.a = x
    with inner:
        inner.state.a = rf.tanh(inner.state.a + loop.state.h)
    loop.state.h = rf.tanh(loop.state.h + x)
    return loop.stack(rf.sin(inner.state.a)), loop.stack(s.logits(inner.state.a))


def ops_that_give_back_what_they_got(s: Setting, loop: rf.Loop) -> Any:
    noisy = rf.dropout(s.w(loop.unstack(s.x)) + loop.state.h, 0.5, on_forward=True)
    same = rf.cast(noisy, "float32")
    loop.state.h = loop.state.h + 0.1
    return loop.stack(same), loop.stack(rf.tanh(same)), loop.stack(rf.sin(rf.dropout(noisy, 0.0)))


def other_dims_for_the_same_data(s: Setting, loop: rf.Loop) -> Any:
    other, _ = rf.replace_dim(loop.state.h, in_dim=out, out_dim=other_out)
    frame, _ = rf.replace_dim(s.w(loop.unstack(s.x)), in_dim=out, out_dim=other_out)
    loop.state.h = loop.state.h + rf.reduce_sum(rf.sin(frame), axis=other_out)
    return loop.stack(rf.softmax(rf.sin(other), axis=other_out)), loop.stack(rf.reduce_sum(other, axis=other_out))


def other_roles_for_the_same_data(s: Setting, loop: rf.Loop) -> Any:
    best = rf.reduce_argmax(s.logits(loop.state.h + s.w(loop.unstack(s.x))), axis=vocab)
    as_out = rf.set_sparse_dim(best, out)
    loop.state.h = loop.state.h + 0.3
    again = rf.set_sparse_dim(as_out, vocab)
    return loop.stack(s.embedding(again)), loop.stack(again), loop.stack(as_out)


def values_of_the_last_step(s: Setting, loop: rf.Loop) -> Any:
    y = s.w(loop.unstack(s.x))
    before = loop.state.h
    loop.state.h = rf.tanh(before + y)
    return loop.stack(rf.sin(y + before)), loop.stack(s.scale), loop.stack(s.memory), loop.stack(rf.sin(before))


def written_in_the_body(s: Setting, loop: rf.Loop) -> Any:
    double = s.counter * 2.0
    frame = s.w(loop.unstack(s.x)) + s.counter
    s.counter.assign(rf.reduce_mean(rf.stop_gradient(loop.state.h), axis=batch_dim) + 1.0)
    loop.state.h = loop.state.h + frame
    added = rf.tanh(loop.state.h) + s.counter
    s.counter.assign_add(rf.stop_gradient(s.scale))
    return tuple(loop.stack(x) for x in (double, frame, added, s.counter * 3.0))


def written_in_torch(s: Setting, loop: rf.Loop) -> Any:
    before = s.counter * 2.0
    s.counter.raw_tensor.add_(1.0)
    raw = torch.zeros(3)
    mine = rf.convert_to_tensor(raw, dims=[out])
    zero = rf.cos(mine)
    raw.add_(2.0)
    loop.state.h = loop.state.h + s.w(loop.unstack(s.x)) + before
    return tuple(loop.stack(x) for x in (before, s.counter * 3.0, zero, rf.cos(mine)))


PROGRAMS = [
    attention, self_attention, dropout_twice, log_of_padding, table_times_scale, concat_with_an_invariant,
    argmax_of_logits, several_outputs_of_one_op, numbers_of_steps, same_output_twice, what_is_the_same_at_all_steps,
    of_the_state_before, raw_calls_between, losses_of_labels, masks_of_frames, outputs_only,
    products_without_common_dims, results_of_a_loop_inside, ops_that_give_back_what_they_got,
    other_dims_for_the_same_data, other_roles_for_the_same_data, values_of_the_last_step, written_in_the_body,
    written_in_torch,
]  # fmt: skip
Program = Callable[[Setting, rf.Loop], Any]


def run(program: Program, s: Setting, hoisted: bool) -> tuple[list[rf.Tensor], list[torch.Tensor | None]]:
    """Outputs and last state, and gradients of a sum of them."""
    torch.manual_seed(7)
    s.counter.assign(rf.ones([out]))
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


BUDGETS = {"for all steps": hoist.BUDGET, "too large": 0}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("lengths", [(4, 2, 3), (1,), (3, 0), (2, 2)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_hoisted_and_plain_agree(program, lengths, budget, monkeypatch):
    monkeypatch.setattr(hoist, "BUDGET", BUDGETS[budget])
    s = Setting(lengths)
    (plain, gradients), (moved, others) = run(program, s, False), run(program, s, True)
    for a, b in zip(plain, moved, strict=True):
        assert a.dims == b.dims
        assert (a.sparse_dim, a.feature_dim, a.dtype) == (b.sparse_dim, b.feature_dim, b.dtype)
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


def test_explain_shows_where_each_op_ran_and_why():
    rows = explained(attention)
    assert rows["s.k(s.memory)"] == ("once", "")
    assert rows["s.q(loop.state.h)"] == ("each step", "needs h")
    assert rows["s.w(loop.unstack(s.x))"] == ("all steps", "")
    assert rows["s.w(att)"] == ("each step", "needs h")
    assert rows["s.logits(s.norm(loop.state.h))"] == ("after the loop", "only outputs need it")
    assert {where for where, _ in explained(attention, optimize_move_layers_out=False).values()} == {"each step"}


def test_explain_says_why_an_op_without_a_state_stays():
    rows = explained(dropout_twice)
    assert rows["rf.dropout(s.w(loop.unstack(s.x)), 0.5, on_forward=True)"] == ("each step", "draws random numbers")
    why = explained(raw_calls_between)
    assert ("each step", "raw_call works on one frame at a time") in why.values()


def test_the_text_of_an_explanation(golden):
    s = Setting()
    loop = rf.Loop(axis=s.time, name="decoder")
    loop.state.h = s.h
    assert "has not run yet" in repr(loop.explain())
    with loop:
        attention(s, loop)
    text = repr(loop.explain())
    assert text.startswith("decoder: 1 op once, 1 for all steps together, ")
    rows = loop.explain().rows
    assert [row.text for row in rows if row.why == "needs h"]
    assert all(row.node.op in text for row in rows)


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
    monkeypatch.setattr(hoist, "BUDGET", 0)
    rows = explained(attention)
    assert rows["s.w(loop.unstack(s.x))"] == ("each step", "its results for all steps together are too large")
    assert rows["s.k(s.memory)"] == ("once", "")


def test_step_numbers_without_frames():
    for hoisted in (False, True):
        steps = rf.Dim(None, name="steps")
        loop = rf.Loop(max_seq_len=4, axis=steps, optimize_move_layers_out=hoisted)
        loop.state.n = rf.zeros([])
        with loop:
            loop.state.n = loop.state.n + 1.0
            number = rf.cast(loop.iter_idx, "float32")
            doubled, product = loop.stack(number * 2.0), loop.stack(loop.state.n * number)
        assert doubled.raw_tensor.tolist() == [0, 2, 4, 6]
        assert product.raw_tensor.tolist() == [0, 2, 6, 12]


def test_frames_that_no_step_takes_are_in_no_gradient():
    time, steps = rf.Dim(None, name="time"), rf.Dim(None, name="steps")
    x = rf.convert_to_tensor([[1.0, 2.0, 0.0]], dims=[batch_dim, time])
    weight = rf.Parameter([], initial=1.0)
    loop = rf.Loop(axis=steps, max_seq_len=9)
    loop.state.n = rf.zeros([batch_dim])
    scaled = x * weight
    with loop:
        logarithm = rf.log(loop.unstack(scaled, axis=time))  # -inf at the last
        loop.state.n = loop.state.n + 1.0
        loop.end(loop.state.n >= 2.0, include_eos=True)
        stacked = loop.stack(logarithm)
    stacked.raw_tensor.sum().backward()
    assert weight.raw_tensor.grad.item() == pytest.approx(2.0)


def test_outputs_are_no_views_of_what_is_outside():
    s = Setting((1, 1))
    kept, scale = s.x.raw_tensor.detach().clone(), s.scale.raw_tensor.detach().clone()
    with torch.no_grad():
        loop = rf.Loop(axis=s.time)
        loop.state.h = s.h
        with loop:
            frame = loop.unstack(s.x)
            loop.state.h = loop.state.h + s.w(frame)
            values = (frame, rf.stop_gradient(frame), s.scale, rf.stop_gradient(s.scale))
            outputs = [loop.stack(value) for value in values]
        for output in outputs:
            output.raw_tensor.zero_()
    assert torch.equal(s.x.raw_tensor, kept)
    assert torch.equal(s.scale.raw_tensor, scale)


@pytest.mark.parametrize("include_eos", [True, False])
@pytest.mark.parametrize("lengths", [(4, 2, 3), (1, 1)], ids=str)
def test_loops_with_an_end_agree(lengths, include_eos):
    found = []
    for hoisted in (False, True):
        s, steps = Setting(lengths), rf.Dim(None, name="steps")
        longest = rf.convert_to_tensor([3] * len(lengths), dims=[batch_dim])
        loop = rf.Loop(axis=steps, max_seq_len=longest, optimize_move_layers_out=hoisted)
        loop.state.h = s.h
        with loop:
            x = s.w(loop.unstack(s.x, axis=s.time))
            loop.state.h = rf.tanh(loop.state.h + x + s.scale)
            outputs = [loop.stack(s.logits(loop.state.h)), loop.stack(x)]
            loop.end(rf.reduce_sum(loop.state.h, axis=out) > 0.5, include_eos=include_eos)
        found.append([*outputs, loop.state.h])
    for a, b in zip(*found, strict=True):
        assert_same(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)


def test_an_axis_that_grows_stays_in_the_steps():
    found = []
    for hoisted in (False, True):
        s, grown = Setting((3, 3)), rf.Dim(0, name="grown")
        loop = rf.Loop(axis=s.time, optimize_move_layers_out=hoisted)
        loop.state.grown, loop.state.history = grown, rf.zeros([grown, batch_dim, out])
        with loop:
            x = s.w(loop.unstack(s.x))
            history, longer = rf.cum_concat_step(x, prev_accum=loop.state.history, axis=loop.state.grown)
            loop.state.history, loop.state.grown = history, longer
            numbers = rf.reduce_sum(rf.cast(rf.range_over_dim(longer), "float32"), axis=longer)
            outputs = loop.stack(rf.tanh(rf.reduce_sum(history, axis=longer))), loop.stack(numbers * 2.0)
        found.append([*outputs, loop.state.history])
    for a, b in zip(*found, strict=True):
        assert_same(a.raw_tensor, b.raw_tensor)
    assert found[1][1].raw_tensor.tolist() == [0, 2, 6]


@pytest.mark.parametrize("where", ["before", "behind"])
def test_an_op_that_cannot_be_done_for_all_steps_at_once_is_done_in_each(where):
    s = Setting((3, 3))
    steps = rf.Dim(3, name="frames_only")

    def fussy(raw_dims: int, x: rf.Tensor) -> rf.Tensor:
        assert len(x.dims) == raw_dims, "one frame at a time"
        return x.like(x.raw_tensor * 2)

    from rfnb.core.tensor.op import OPS, op

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


def test_an_error_after_the_steps_names_the_step():
    from rfnb.core.tensor.op import OPS, op

    calls = []

    @op(frames="any", name="failing_test_op")
    def failing(x: rf.Tensor) -> rf.Tensor:
        calls.append(x)
        if len(x.dims) == 3 or len(calls) > 3:  # that of the trial, that for all steps, that of step 0
            raise ValueError("boom")
        return x.like(x.raw_tensor * 2)

    s = Setting((3, 3))
    loop = rf.Loop(axis=s.time, name="failing")
    loop.state.h = before = s.h
    try:
        with pytest.raises(ValueError, match="boom") as caught, loop:
            loop.state.h = loop.state.h + 1.0
            loop.stack(failing(loop.state.h))
    finally:
        del OPS["failing_test_op"]
    assert caught.value.__notes__[0].startswith("in step 1 of failing, test_hoist.py:")
    assert loop.state.h is before


# -- random programs


def attended(s: Setting, a: rf.Tensor) -> rf.Tensor:
    """Attention over the input itself, or over the memory."""
    keys = s.w(s.memory)
    return rf.dot_attention(a, keys, keys, key_dim=out, axis=s.enc)


def matched(s: Setting, a: rf.Tensor, b: rf.Tensor) -> rf.Tensor:
    return a * rf.tanh(rf.matmul(a, b, reduce=out))


def picked(s: Setting, a: rf.Tensor, b: rf.Tensor) -> rf.Tensor:
    """An entry of `a` for each sequence and step."""
    return rf.gather(a, indices=rf.reduce_argmax(b, axis=out), axis=out) + b


def joined(s: Setting, a: rf.Tensor, b: rf.Tensor) -> rf.Tensor:
    both, _ = rf.concat((a, out), (b, out), out_dim=both_out)
    first, _ = rf.slice(both, axis=both_out, start=1, size=3, out_dim=out)
    return first


def best_two(s: Setting, a: rf.Tensor) -> rf.Tensor:
    values, indices, _ = rf.top_k(a, axis=out, k_dim=half)
    return a + rf.reduce_sum(values * rf.cast(indices, "float32"), axis=half)


def loss(s: Setting, a: rf.Tensor) -> rf.Tensor:
    best = rf.reduce_argmin(s.logits(a), axis=vocab)
    return a - 0.1 * rf.cross_entropy(estimated=s.logits(a), target=best, axis=vocab, estimated_type="logits")


def self_attended(s: Setting, a: rf.Tensor) -> rf.Tensor:
    """Over the axis of the loop itself."""
    frames = rf.cumsum(s.w(s.x), spatial_dim=s.time)
    weights = rf.softmax(rf.matmul(a, frames, reduce=out), axis=s.time)
    return rf.matmul(weights, frames, reduce=s.time)


OPS_OF_TWO = [
    lambda s, a, b: (a + b) * 0.5, lambda s, a, b: rf.tanh(a * b), lambda s, a, b: rf.maximum(a, b),
    lambda s, a, b: rf.where(a > b, a, b * 0.5), matched, picked, joined,
    lambda s, a, b: rf.where(rf.reduce_sum(a, axis=out) > 0.0, b, a),
]  # fmt: skip
OPS_OF_ONE = [
    lambda s, a: rf.tanh(a), lambda s, a: rf.sigmoid(a), lambda s, a: rf.softmax(a, axis=out),
    lambda s, a: rf.shift_right(a, axis=out, pad_value=0.0), lambda s, a: rf.cumsum(a, spatial_dim=out) * 0.5,
    lambda s, a: a - rf.reduce_mean(a, axis=out), lambda s, a: rf.tanh(s.u(a)),
    lambda s, a: rf.stop_gradient(a) * s.scale,
    attended, best_two, loss, self_attended, lambda s, a: rf.reverse_sequence(a, axis=out),
    lambda s, a: rf.replace_dim(rf.replace_dim(a, in_dim=out, out_dim=other_out)[0], in_dim=other_out, out_dim=out)[0],
]  # fmt: skip


@examples(40)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any),
    choices=st.lists(
        st.tuples(st.integers(0, len(OPS_OF_TWO + OPS_OF_ONE) - 1), st.integers(0, 99), st.integers(0, 99)),
        min_size=1,
        max_size=8,
    ),
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
                OPS_OF_TWO[which](s, first, second)
                if which < len(OPS_OF_TWO)
                else OPS_OF_ONE[which - len(OPS_OF_TWO)](s, first)
            )
        loop.state.h = rf.tanh(known[new_state % len(known)])
        return tuple(loop.stack(known[i % len(known)]) for i in outputs)

    (plain, gradients), (moved, others) = run(program, s, False), run(program, s, True)
    for a, b in zip(plain, moved, strict=True):
        assert_same(a.copy_masked(0).raw_tensor, b.copy_masked(0).raw_tensor)
    for a, b in zip(gradients, others, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("padding", [float("nan"), float("inf"), 0.0])
def test_padding_of_another_axis_gets_into_no_gradient_of_what_is_hoisted(padding):
    time, keys_time, feat = rf.Dim(None, name="time"), rf.Dim(None, name="keys_time"), rf.Dim(3, name="feat")
    weight = torch.ones(3, requires_grad=True)
    queries = rf.convert_to_tensor(torch.rand(2, 4, 3), dims=[batch_dim, time, feat], lengths=[4, 2])
    queries = queries * rf.convert_to_tensor(weight, dims=[feat])  # of each sequence, and takes a gradient
    raw = torch.rand(2, 5, 3) + 0.1
    raw[1, 2:] = padding
    keys = rf.convert_to_tensor(raw, dims=[batch_dim, keys_time, feat], lengths=[5, 2])
    loop = rf.Loop(axis=time)
    loop.state.n = rf.zeros([])
    with loop:
        energy = rf.reduce_sum(rf.sqrt(rf.abs(loop.unstack(queries) * keys)), axis=feat)  # ∞ · 0 behind a root of 0
        sums = loop.stack(rf.reduce_sum(energy, axis=keys_time))
        loop.state.n = loop.state.n + 1.0
    rf.reduce_sum(sums, axis=[batch_dim, time]).raw_tensor.backward()
    assert torch.isfinite(weight.grad).all()
