"""Users define ops of their own."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.tensor.op import OPS
from rfnb.errors import RfError


@pytest.fixture(autouse=True)
def _only_here():
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def define(**options):
    @rf.op(**options)
    def squeezed(x: rf.Tensor, cap: float = 1.0) -> rf.Tensor:
        out = x.copy_template()
        out.raw_tensor = torch.tanh(x.raw_tensor / cap) * cap
        return out

    return squeezed


@pytest.mark.parametrize("frames", [None, "any"])
def test_in_a_loop_it_does_what_torch_does_step_by_step(frames):
    squeezed, time, feat = define(frames=frames), rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    numbers = torch.sin(torch.arange(30.0)).reshape(2, 5, 3).requires_grad_()
    x = rf.convert_to_tensor(numbers, dims=[batch_dim, time, feat], lengths=[5, 3])
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, feat])
    with rf.recording("last"), loop:
        loop.state.h = squeezed(loop.state.h + squeezed(loop.unstack(x)), cap=2.0)
    expected = torch.zeros(2, 3)
    for step in range(5):
        new = torch.tanh((expected + torch.tanh(numbers[:, step])) / 2) * 2
        expected = torch.where(torch.tensor([5, 3])[:, None] > step, new, expected)
    torch.testing.assert_close(loop.state.h.raw_tensor, expected)
    assert [value.op for value in loop.run[1].values()].count("squeezed") == 2
    given, wanted = (torch.autograd.grad(h.sum(), numbers)[0] for h in (loop.state.h.raw_tensor, expected))
    torch.testing.assert_close(given, wanted)


def test_it_is_a_node_of_the_graph_of_a_call():
    graph = rf.model_graph(define(), rf.ones([rf.Dim(2, name="feat")]))
    assert "squeezed" in str(graph)


def test_it_may_be_defined_again_as_by_a_cell_that_runs_twice():
    define()
    assert define()(rf.zeros([rf.Dim(2, name="feat")])).tolist() == [0.0, 0.0]


def test_another_op_of_the_same_name_is_an_error():
    with pytest.raises(RfError, match="already an op called softmax") as caught:
        define(name="softmax")
    assert 'name="my_softmax"' in str(caught.value)


def test_parentheses_may_be_left_out():
    @rf.op
    def doubled_without_parentheses(x: rf.Tensor) -> rf.Tensor:
        return x + x

    assert doubled_without_parentheses(rf.ones([rf.Dim(2, name="feat")])).tolist() == [2.0, 2.0]


def test_its_function_may_have_parameters_of_all_kinds():
    offset = 100.0

    @rf.op
    def of_all_kinds(x: rf.Tensor, /, factor: float = 2.0, *more: rf.Tensor, power: float = 1.0, **options: float):
        assert isinstance(more, tuple) and isinstance(options, dict)
        return (x * factor) ** power + sum(more, rf.zeros(x.dims)) + offset * options.get("shift", 1.0)

    x = rf.convert_to_tensor([1.0, 2.0], dims=[rf.Dim(2, name="feat")])
    assert of_all_kinds(x).tolist() == [102.0, 104.0]
    assert of_all_kinds(x, 3.0, power=2.0).tolist() == [109.0, 136.0]
    assert of_all_kinds(x, 1.0, x, x, shift=0.0).tolist() == [3.0, 6.0]
    assert inspect.signature(of_all_kinds).parameters["power"].default == 1.0


def test_a_function_that_wraps_another_is_called_with_the_same_arguments():
    def plus(x: rf.Tensor, *, offset: float) -> rf.Tensor:
        return x + offset

    @rf.op
    @functools.wraps(plus)
    def wrapping(*args, **kwargs):
        return plus(*args, **kwargs) * 2.0

    assert wrapping(rf.ones([rf.Dim(2, name="feat")]), offset=1.0).tolist() == [4.0, 4.0]
