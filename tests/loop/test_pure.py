"""Loops of pure functions: their Python code runs twice, and what comes out is what it would give in each call."""

from __future__ import annotations

import gc
import warnings
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import LoopWarning
from rfnb.loop.pure import kept_steps

FEAT, HIDDEN = rf.Dim(3, name="feat"), rf.Dim(4, name="hidden")
TIME, BEFORE = rf.Dim(None, name="time"), rf.Dim(4, name="before")


@pytest.fixture(autouse=True)
def nothing_kept():
    kept_steps.__init__()
    yield
    kept_steps.__init__()


def batch_of(lengths, seed=0):
    x = torch.randn(len(lengths), max(lengths), 3, generator=torch.Generator().manual_seed(seed))
    return rf.convert_to_tensor(x, dims=[batch_dim, TIME, FEAT], lengths=lengths)


class Cell(rf.Module):
    """An RNN whose calls are counted."""

    bias = 0.0

    def __init__(self):
        self.w, self.u = rf.Linear(FEAT, HIDDEN), rf.Parameter([HIDDEN, BEFORE])
        self.u.initial = rf.init.Normal(0.5)
        self.scale, self.calls = 0.5, np.zeros(1, int)

    def step(self, x, h):
        self.calls[0] += 1
        recurrent = rf.matmul(h, self.u * 1.5, reduce=HIDDEN)  # the same at every step
        h = rf.tanh(self.w(x) * self.scale + self.bias + rf.replace_dim_v2(recurrent, in_dim=BEFORE, out_dim=HIDDEN))
        return rf.relu(h), h


def scanned(body, x, h=None):
    h = rf.zeros([batch_dim, HIDDEN]) if h is None else h
    outputs, last, _ = rf.scan(spatial_dim=TIME, xs=x, initial=h, body=body)
    return outputs.copy_masked(0).copy_transpose([batch_dim, TIME, HIDDEN]).raw_tensor, last.raw_tensor


def functions(cell):
    """The same step, marked and not."""

    def step(x, h):
        return cell.step(x, h)

    def marked(x, h):
        return cell.step(x, h)

    return step, rf.pure(marked)


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_the_code_runs_twice_and_results_are_those_of_each_batch():
    cell = Cell()
    step, marked = functions(cell)
    for seed, lengths in enumerate([[5, 3], [5, 3], [7, 2], [4, 1]]):
        x = batch_of(lengths, seed)
        assert_same(scanned(marked, x), scanned(step, x))
    assert cell.calls[0] == 4 + 2
    for seed, lengths in enumerate([[6, 6], [6, 6], [3, 3], [4, 4, 4], [4, 4, 4], [2, 2, 2], [5, 5]]):
        x = batch_of(lengths, seed)
        assert_same(scanned(marked, x), scanned(step, x))
    assert cell.calls[0] == 4 + 2 + 7 + 4


def test_another_part_of_the_state_may_be_none_in_the_next_call():
    @rf.pure
    def step(x, state):
        if state.up is None:
            return x, rf.State(up=None, down=state.down - x)
        return x, rf.State(up=state.up + x, down=None)

    x = rf.convert_to_tensor([[1.0, 2.0], [3.0, 4.0]], dims=[batch_dim, TIME])
    for part, expected in [*[("down", [-3.0, -7.0])] * 3, ("up", [3.0, 7.0]), ("down", [-3.0, -7.0])]:
        initial = rf.State({"up": None, "down": None, part: rf.zeros([batch_dim])})
        last = rf.scan(spatial_dim=TIME, xs=x, initial=initial, body=step)[1]
        assert last[part].tolist() == expected


def test_gradients_are_the_same_and_training_changes_the_parameters():
    cell = Cell()
    step, marked = functions(cell)
    optimizer = torch.optim.SGD(rf.torch_parameters(cell), lr=0.5)
    for seed in range(4):
        x = batch_of([5, 5], seed)
        gradients = []
        for function in (marked, step):
            h = torch.randn(2, 4, requires_grad=True, generator=torch.Generator().manual_seed(seed))
            outputs, last = scanned(function, x, rf.convert_to_tensor(h, dims=[batch_dim, HIDDEN]))
            optimizer.zero_grad()
            (outputs.sum() + last.square().sum()).backward()
            gradients.append([h.grad, *(p.grad.clone() for p in rf.torch_parameters(cell) if p.grad is not None)])
        assert_same(*gradients)
        optimizer.step()
    assert cell.calls[0] == 4 + 2


def test_without_gradients_after_training_too():
    cell = Cell()
    step, marked = functions(cell)
    for parameter in rf.torch_parameters(cell):
        parameter.requires_grad_(False)
    x = batch_of([4, 2])
    with torch.no_grad():
        for _ in range(4):
            assert_same(scanned(marked, x), scanned(step, x))
            for parameter in rf.torch_parameters(cell):
                parameter.add_(0.25)


def changed_number(cell, names):
    cell.scale = cell.scale + 0.25


def changed_parameter(cell, names):
    cell.w.weight.raw_tensor = torch.nn.Parameter(torch.randn_like(cell.w.weight.raw_tensor))


def changed_module(cell, names):
    cell.w = rf.Linear(FEAT, HIDDEN)


def changed_global(cell, names):
    names["FACTOR"] = names["FACTOR"] + 1.0


def changed_closure(cell, names):
    names["set_more"](rf.convert_to_tensor(torch.randn(4), dims=[HIDDEN]))


def unfrozen(cell, names):
    for parameter in rf.torch_parameters(cell):
        parameter.requires_grad_(not parameter.requires_grad)


FACTOR = 1.0


def changed_namespace(cell, names):
    SETTINGS.factor += 1.0


def changed_class(cell, names):
    Cell.bias += 1.0


SETTINGS = SimpleNamespace(factor=1.0)
CHANGES = [
    changed_namespace, changed_class, changed_number, changed_parameter, changed_module, changed_global,
    changed_closure, unfrozen,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_the_functions_refer_to_may_change(change):
    cell, more = Cell(), rf.zeros([HIDDEN])

    def set_more(value):
        nonlocal more
        more = value

    def step(x, h):
        y, h = cell.step(x, h)
        return y * FACTOR * SETTINGS.factor + more, h

    def marked(x, h):
        y, h = cell.step(x, h)
        return y * FACTOR * SETTINGS.factor + more, h

    rf.pure(marked)
    x = batch_of([4, 2])
    for _ in range(3):
        for _ in range(3):
            found, expected = scanned(marked, x), scanned(step, x)
            assert_same(found, expected)
            assert found[0].requires_grad == expected[0].requires_grad
        before = cell.calls[0]
        change(cell, {**globals(), "set_more": set_more} if change is changed_closure else globals())
    assert before < 18


def test_a_function_that_is_made_anew_is_kept():
    cell = Cell()

    def forward(x):
        @rf.pure
        def step(x, h):
            return cell.step(x, h)

        return scanned(step, x)

    first = forward(batch_of([4, 3]))
    for _ in range(3):
        assert_same(forward(batch_of([4, 3])), first)
    assert cell.calls[0] == 2


def random_numbers(x, h):
    return h, h + rf.random_uniform([HIDDEN])


def numbers_of_numpy(x, h):
    return h, h + float(np.random.rand())


def writes(x, h):
    COUNT.assign_add(1.0)
    return h, h + COUNT


COUNT = rf.Parameter([])


@pytest.mark.filterwarnings("ignore:random_numbers|numbers_of_numpy|scan")
@pytest.mark.parametrize("function", [random_numbers, numbers_of_numpy, writes], ids=lambda f: f.__name__)
def test_a_function_that_is_not_pure_runs_in_each_call(function):
    COUNT.initial = 0.0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = [scanned(rf.pure(function), batch_of([3, 3]))[1] for _ in range(4)]
    assert not any(a.equal(b) for i, a in enumerate(results) for b in results[:i])
    words = f"pure: {function.__name__} runs in each call of its loop, because it draws random numbers"
    assert sum(words in str(each.message) for each in told) == (function is not writes)  # which no loop can trace


def test_dropout_follows_the_train_flag():
    def step(x, h):
        return h, h + rf.reduce_sum(rf.dropout(x, 0.5), axis=FEAT)

    x, results = batch_of([3, 3]), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopWarning)
        for training in (False, False, False, True, True, True, False):
            rf.init_train_step_run_ctx(train_flag=training)
            results.append(scanned(rf.pure(step), x)[1])
    rf.init_train_step_run_ctx(train_flag=False)
    assert all(results[0].equal(results[i]) for i in (1, 2, 6))
    assert not any(results[i].equal(results[j]) for i, j in ((0, 3), (3, 4), (4, 5)))


def test_while_loops_keep_their_step():
    calls = np.zeros(1, int)
    limit = rf.convert_to_tensor(100)

    def double(state):
        calls[0] += 1
        return {"n": state["n"] * 2, "steps": state["steps"] + 1}

    def below(state):
        return state["n"] < limit

    for start, steps in ((3, 6), (4, 5), (1, 7), (99, 1), (100, 0)):
        initial = {"n": rf.convert_to_tensor(start), "steps": rf.convert_to_tensor(0)}
        final = rf.while_loop(rf.pure(below), rf.pure(double), initial)
        assert (final["n"].item(), final["steps"].item()) == (start * 2**steps, steps)
    assert calls[0] == 2


def test_recorded_and_nested_loops_run_the_code():
    cell = Cell()
    _, marked = functions(cell)
    x = batch_of([4, 3])
    expected = scanned(marked, x)
    scanned(marked, x)
    with rf.recording("last"):
        assert_same(scanned(marked, x), expected)
    assert rf.runs["scan"].steps == 4
    rf.runs.clear()
    loop = rf.Loop(max_seq_len=2)
    loop.state.h = rf.zeros([batch_dim, HIDDEN])
    with loop:
        _, loop.state.h, _ = rf.scan(spatial_dim=TIME, xs=x, initial=loop.state.h, body=marked)
    torch.testing.assert_close(loop.state.h.raw_tensor, scanned(marked, x, rf.convert_to_tensor(
        expected[1], dims=[batch_dim, HIDDEN]))[1])  # fmt: skip


def test_an_error_in_a_step_is_that_of_its_line_and_changes_nothing():
    table = rf.convert_to_tensor(torch.arange(5.0), dims=[rf.Dim(5, name="table")])

    @rf.pure
    def step(x, total):
        return total, total + rf.gather(table, indices=x, axis=table.dims[0], clip_to_valid=False)

    def total(numbers):
        x = rf.convert_to_tensor(numbers, dims=[batch_dim, TIME], lengths=[len(numbers[0])])
        return rf.scan(spatial_dim=TIME, xs=x, initial=rf.zeros([batch_dim]), body=step)[1].raw_tensor.tolist()

    assert [total([[1, 2, 3]]) for _ in range(3)] == [[6.0]] * 3
    with pytest.raises(IndexError) as error:
        total([[1, 9, 3]])
    assert any(note.startswith("in step 1 of scan, test_pure.py:") for note in error.value.__notes__)
    assert total([[1, 2, 4]]) == [7.0]


def test_no_tensor_of_a_batch_is_kept():
    cell = Cell()
    _, marked = functions(cell)
    for _ in range(2):
        x, h = batch_of([40, 3]), rf.ones([batch_dim, HIDDEN])
        outputs, last = scanned(marked, x, h)
        alive = [weakref.ref(raw) for raw in (x.raw_tensor, h.raw_tensor, outputs, last)]
    [kept] = kept_steps._steps.values()
    raws = [raw for raw in kept.step.tape.values if raw is not None]
    assert max(raw.untyped_storage().nbytes() for raw in raws) < x.raw_tensor.nbytes  # only of one frame
    del x, h, outputs, last
    gc.collect()
    assert [reference() for reference in alive] == [None] * 4


@pytest.mark.parametrize("made", [lambda step: partial(step), lambda step: step.__get__(3)], ids=["partial", "method"])
def test_callables_of_other_kinds_run_as_they_are(made):
    cell = Cell()
    step, _ = functions(cell)
    body = made(lambda *given: step(*given[-2:]))
    if isinstance(body, partial):
        rf.pure(body)
    x = batch_of([4, 3])
    for _ in range(3):
        assert_same(scanned(body, x), scanned(step, x))


def test_few_steps_are_kept():
    for number in range(40):
        dim = rf.Dim(number + 1, name="dim")

        @rf.pure
        def step(x, h):
            return h, h + 1.0

        for _ in range(2):
            rf.scan(spatial_dim=TIME, xs=batch_of([2, 2]), initial=rf.zeros([dim]), body=step)
    assert len(kept_steps._steps) == len(kept_steps._before) == 16


def test_a_module_can_be_marked():
    class Body(Cell):
        def __call__(self, x, h):
            return self.step(x, h)

    body = rf.pure(Body())
    x = batch_of([4, 3])
    first = scanned(body, x)
    for _ in range(3):
        assert_same(scanned(body, x), first)
    assert body.calls[0] == 2


def test_two_modules_of_one_class_have_steps_of_their_own():
    class Body(Cell):
        def __call__(self, x, h):
            return self.step(x, h)

    modules, x = [rf.pure(Body()) for _ in range(2)], batch_of([4, 3])
    for _ in range(4):
        found = [scanned(body, x) for body in modules]
        for outputs, body in zip(found, modules, strict=True):
            assert_same(outputs, scanned(lambda x, h, body=body: body(x, h), x))
    assert not found[0][1].equal(found[1][1])
    assert [body.calls[0] for body in modules] == [2 + 4] * 2
