"""`torch.compile` of functions and modules that take and return Tensors: the idioms that docs/distributed.md promises.

Bridged models, one graph for all lengths, are in `tests/nn/bridge/test_to_torch_graphs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

import rfnb as rf
from rfnb import batch_dim

ROWS, FRAMES, FEAT, OUT = (rf.Dim(n, name=name) for n, name in [(2, "rows"), (5, "frames"), (4, "feat"), (3, "out")])
TIME = rf.Dim(None, name="time")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about what it does not compile


class Model(rf.Module):
    def __init__(self) -> None:
        self.linear, self.norm = rf.Linear(FEAT, OUT), rf.LayerNorm(OUT)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return self.norm(rf.relu(self.linear(x)))


@pytest.fixture(autouse=True)
def _no_graphs() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def fixed(seed: int = 0) -> rf.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return rf.convert_to_tensor(torch.randn(2, 5, 4, generator=generator), dims=[ROWS, FRAMES, FEAT])


def padded(lengths: list[int]) -> rf.Tensor:
    raw = torch.randn(len(lengths), max(lengths), 4)
    return rf.convert_to_tensor(raw, dims=[batch_dim, TIME, FEAT], lengths=lengths)


def same(found: rf.Tensor, expected: rf.Tensor) -> None:
    assert found.dims == expected.dims
    assert_close(found.raw_tensor, expected.raw_tensor)


def arithmetic(x: rf.Tensor) -> rf.Tensor:
    y = rf.where(x > 0.0, rf.tanh(x * 2.0 + 1.0), x)
    return rf.reduce_mean(rf.softmax(y, axis=FRAMES), axis=[ROWS, FEAT])


def shapes(x: rf.Tensor) -> rf.Tensor:
    left, right = rf.split(x, axis=FEAT, out_dims=[OUT, rf.Dim(1, name="rest")])
    both, _ = rf.concat((right, right.dims[-1]), (left, OUT), out_dim=FEAT)
    return rf.gather(both, indices=1, axis=FRAMES)


@pytest.mark.parametrize("fn", [arithmetic, Model()], ids=["function", "module"])
def test_one_graph_of_tensors_with_fixed_sizes(fn: Any) -> None:
    fn(fixed())  # the first call makes plans, which torch cannot trace
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(fn, fullgraph=True, backend=counter)
    for seed in range(3):
        same(compiled(fixed(seed)), fn(fixed(seed)))
    assert counter.frame_count == 1


def test_other_batch_sizes_are_compiled_twice() -> None:
    model = Model()
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for rows in (2, 3, 5, 4, 2, 9, 8):
        x = rf.convert_to_tensor(torch.randn(rows, 5, 4), dims=[batch_dim, FRAMES, FEAT])
        expected = model(x)  # first, so that the plans for these dims are made
        same(compiled(x), expected)
    assert counter.frame_count <= 2  # with the size as it is, then for any size


@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy:DeprecationWarning")  # of torch on Python 3.12
@pytest.mark.parametrize("fn", [arithmetic, shapes, Model()], ids=["function", "shapes", "module"])
def test_the_first_call_of_its_ops_may_be_compiled(fn: Any) -> None:
    compiled = torch.compile(fn, backend="eager")
    same(compiled(fixed()), fn(fixed()))
    same(compiled(fixed(1)), fn(fixed(1)))


def test_raw_tensors_in_and_out() -> None:
    model = Model()

    def fn(raw: torch.Tensor) -> torch.Tensor:
        x = rf.convert_to_tensor(raw, dims=[ROWS, FRAMES, FEAT])
        return rf.reduce_sum(model(x), axis=FRAMES).raw_tensor

    compiled = torch.compile(fn, backend="eager")
    for _ in range(3):
        raw = torch.randn(2, 5, 4)
        assert_close(compiled(raw), fn(raw))


@pytest.mark.slow
def test_batches_of_other_lengths_are_right_and_stop_being_compiled() -> None:
    """Masks depend on the lengths, so a graph fits one batch: torch compiles some, and then runs what is left."""
    model = Model()

    def fn(x: rf.Tensor) -> rf.Tensor:
        return rf.reduce_mean(rf.softmax(model(x), axis=TIME) * 2.0, axis=TIME)

    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(fn, backend=counter)
    generator = torch.Generator().manual_seed(0)
    counts = []
    for _ in range(24):
        rows = int(torch.randint(1, 5, (), generator=generator))
        x = padded(torch.randint(1, 9, (rows,), generator=generator).tolist())
        same(compiled(x), fn(x))
        counts.append(counter.frame_count)
    assert counts[-1] <= 60
    assert counts[-1] - counts[15] <= 4


@pytest.mark.slow
def test_a_training_step() -> None:
    model, other = Model(), Model()
    pairs = list(zip(model.parameters(), other.parameters(), strict=True))
    for mine, theirs in pairs:
        theirs.raw_tensor = torch.nn.Parameter(mine.raw_tensor.detach().clone())
    model(fixed())
    steps = [
        (net, torch.optim.SGD([parameter.raw_tensor for parameter in owner.parameters()], 0.1))
        for net, owner in ((torch.compile(model, fullgraph=True, backend="aot_eager"), model), (other, other))
    ]
    for seed in range(3):
        for net, optimizer in steps:
            optimizer.zero_grad()
            rf.reduce_sum(rf.square(net(fixed(seed))), axis=[ROWS, FRAMES, OUT]).raw_tensor.backward()
            optimizer.step()
    for mine, theirs in pairs:
        assert_close(mine.raw_tensor, theirs.raw_tensor)


def test_what_changes_between_calls_is_seen() -> None:
    model, x = Model(), fixed()
    model(x)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    same(compiled(x), model(x))
    with torch.no_grad():
        model.linear.weight.raw_tensor.mul_(2.0)
    same(compiled(x), model(x))
    model.linear.weight.raw_tensor = torch.nn.Parameter(torch.randn(4, 3))
    same(compiled(x), model(x))
    model.norm.eps = 0.5
    same(compiled(x), model(x))
    with torch.no_grad():
        assert not compiled(x).raw_tensor.requires_grad
    assert compiled(x).raw_tensor.requires_grad


def test_dropout_follows_the_train_flag_and_differs_in_each_call() -> None:
    x = fixed()

    def fn(x: rf.Tensor) -> rf.Tensor:
        return rf.dropout(x, 0.5)

    compiled = torch.compile(fn, backend="eager")
    for train in (False, True, False):
        rf.init_train_step_run_ctx(train_flag=train)
        first, second = (compiled(x).raw_tensor for _ in range(2))
        assert torch.equal(first, x.raw_tensor) is not train
        assert torch.equal(first, second) is not train
    rf.init_train_step_run_ctx(train_flag=True)


@pytest.mark.slow
def test_loops_and_recurrent_layers_run_as_they_do_without() -> None:
    lstm, x = rf.LSTM(FEAT, OUT), fixed()

    def layer(x: rf.Tensor) -> rf.Tensor:
        return lstm(x, state=lstm.default_initial_state(batch_dims=[ROWS]), spatial_dim=FRAMES)[0]

    def written(x: rf.Tensor) -> rf.Tensor:
        loop = rf.Loop(axis=FRAMES)
        loop.state.h = rf.zeros([ROWS, FEAT])
        with loop:
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
            states = loop.stack(loop.state.h)
        return states

    for fn in (layer, written):
        torch._dynamo.reset()
        same(torch.compile(fn, backend="eager")(x), fn(x))


def test_a_mistake_gives_the_same_error() -> None:
    compiled = torch.compile(lambda x: rf.reduce_sum(x, axis=OUT), backend="eager")
    with pytest.raises(rf.errors.DimError, match="`source` has no dim out"):
        compiled(fixed())
