"""`rf.check.finite` for plain torch: which call made a NaN, which passed it on, and what is never a pass."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb import batch_dim
from rfnb.loop.check.finiteness import describe_operand

torch.manual_seed(0)
X = torch.randn(2, 5, 4)
PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])
time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")


def spoiled(x: torch.Tensor = X) -> torch.Tensor:
    x = x.clone()
    x[1, 2, 3] = nan
    return x


def scripted(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        energy = torch.log(self.out(x))
        return energy.mean()


@dataclass
class Output:
    loss: torch.Tensor


def test_the_call_its_module_and_its_line_are_named():
    report = rf.check.finite(nn.Sequential(nn.Identity(), Energy()), X)
    event = report.first.event
    assert not report
    assert (event.op, event.name, event.path, report.first.kind) == ("log", "energy", "Sequential.1", "NaN")
    assert "torch.log(self.out(x))" in repr(report)
    assert report.passed == 1


@pytest.mark.parametrize(
    "module",
    [nn.Linear(4, 4), nn.LSTM(4, 3, batch_first=True), nn.Conv1d(5, 2, 3), scripted(nn.Linear(4, 4))],
    ids=["linear", "lstm", "conv", "scripted"],
)
def test_nan_in_an_input_is_said(module):
    report = rf.check.finite(module, spoiled())
    assert not report and not report.made
    assert report.given[0].startswith("the input `input` {axis0:2, axis1:5, axis2:4} already has NaN, first used by")
    assert rf.check.finite(module, X)


def test_infinity_in_a_parameter_is_said():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight.data[0, 0] = inf
    assert "the parameter `Sequential.1.weight` {axis0:4, axis1:4} already has infinity" in repr(
        rf.check.finite(model, X)
    )
    linear = rf.Linear(feat, rf.Dim(2, name="out"))
    linear.weight.assign(torch.full((4, 2), nan))
    assert rf.check.finite(linear, rf.ones([feat])).given[0].startswith("the parameter `")


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda: (torch.log(X.relu()) * 0).mean(), "mul"),
        (lambda: (torch.log(X.relu()) * 0).mean().item(), "mul"),
        (lambda: torch.sqrt(X), "sqrt"),
        (lambda: Output(torch.sqrt(X)), "sqrt"),
        (lambda: {"a": [torch.sqrt(X), 1]}, "sqrt"),
        (lambda: torch.tensor([1.0, nan]) + 1, "tensor"),
        (lambda: X.to(torch.float64).sub(10).log_(), "log_"),
        (lambda: torch.add(X.abs(), -10).log().nan_to_num(), "log"),
        (lambda: torch.fft.rfft(torch.sqrt(X)), "sqrt"),
        (lambda: nn.functional.nll_loss(X[0] + torch.tensor([0, 0, 0, -inf]), torch.full((5,), 3)), "nll_loss"),
        (torch.no_grad()(lambda: torch.sqrt(X)), "sqrt"),
    ],
)  # fmt: skip
def test_what_made_it(fn, op):
    report = rf.check.finite(fn)
    assert not report
    assert report.first.event.op == op


def test_an_infinity_that_the_result_does_not_have():
    def bucket(x):  # as in T5's attention: the logarithm counts for large distances only
        return torch.where(x < 2, x, torch.log(x).clamp(0, 9))

    report = rf.check.finite(bucket, torch.tensor([0.0, 1.0, 5.0]))
    assert not report and report.first.event.op == "log" and report.result_is_finite
    assert report.facts()[-1] == ("result", "finite all the same") and "finite all the same" in repr(rf.show(report))
    root = torch.nn.Linear(1, 1)
    for fn, gradients in [
        (torch.log, False),
        (lambda x: [torch.log(x), None][1], False),  # there is no result
        (lambda x: (torch.log(x).clamp(0, 9), x.masked_fill(x > 0, -torch.inf)), False),  # a mask is not finite
        (lambda x: torch.sqrt(root(x[:1]) * 0), True),  # only its gradient is not
    ]:
        report = rf.check.finite(fn, torch.tensor([0.0, 1.0]), gradients=gradients)
        assert not report and "all the same" not in repr(report)


def test_came_from():
    report = rf.check.finite(lambda: torch.log(X.relu()) * 0 + 1)
    assert (report.first.came_from.event.op, report.first.came_from.kind) == ("log", "infinity")
    assert report.passed == 1


def test_changes_in_place():
    def assigned() -> torch.Tensor:
        y = X * 1
        y[0] = nan
        y += 1
        return y

    def of_a_view() -> torch.Tensor:
        y = X.abs()
        y[0].sub_(10).log_()
        return y * 2

    def of_a_view_at_0() -> torch.Tensor:
        y = X.abs()
        y[0].mul_(0).log_()
        return y

    report = rf.check.finite(assigned)
    assert report.first.operands == (f"y {{axis0:2, axis1:5, axis2:4}}: {X.min():.4g} … {X.max():.4g}",)
    assert (report.first.event.op, report.passed) == ("setitem", 1)
    report = rf.check.finite(of_a_view)
    assert (report.first.event.op, len(report.made), report.passed) == ("log_", 1, 1)
    report = rf.check.finite(lambda: of_a_view_at_0() * 0)
    assert (report.first.event.op, report.first.came_from.event.op) == ("mul", "log_")
    assert rf.check.finite(lambda: torch.empty(1000).fill_(1.0) + torch.zeros_like(X, dtype=torch.float64).mean())
    report = rf.check.finite(lambda: torch.add(X, nan, out=torch.full_like(X, nan)))
    assert [found.event.op for found in report.made] == ["full_like", "add"]


def test_memory_that_is_not_set_yet():
    def filled() -> torch.Tensor:
        x = torch.empty(3)
        x[0] = 1.0
        x[1:] = 2.0
        return x.new_empty(3).copy_(x)

    torch.use_deterministic_algorithms(True)  # torch.empty is NaN
    try:
        assert rf.check.finite(filled)
        assert "the result is {axis0:3} with NaN" in repr(rf.check.finite(lambda: torch.empty(3)))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_masks_are_meant(mode):
    encoder = getattr(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1), mode)()
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    assert rf.check.finite(encoder, X, src_key_padding_mask=PADDING)
    assert rf.check.finite(encoder, X, mask=causal, is_causal=True)
    assert rf.check.finite(attention, X, X, X, key_padding_mask=PADDING, gradients=True)
    assert rf.check.finite(lambda: torch.softmax(X @ X.mT + causal, -1) @ X)
    assert rf.check.finite(lambda: torch.softmax((X @ X.mT).masked_fill(PADDING[:, None], -inf) * 0.5, -1))
    report = rf.check.finite(attention, X, X, X, key_padding_mask=torch.ones_like(PADDING))
    assert (report.first.event.op, report.first.kind) == ("multi_head_attention_forward", "NaN")


def test_masks_of_rfnb_are_meant_also_when_they_are_passed_on():
    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat], lengths=[5, 3])
    mask = rf.convert_to_tensor(torch.tensor([0.0, -inf, 0, 0, 0]), dims=[time])

    def in_a_loop() -> rf.Tensor:
        loop = rf.Loop(axis=time)
        with loop:
            frame = loop.unstack(x)
            out = loop.stack(
                rf.softmax(rf.where(frame > rf.reduce_max(frame, axis=feat) - 0.1, frame, -inf), axis=feat)
            )
        return out

    assert rf.check.finite(lambda: rf.softmax(rf.where(x > -9.0, x, -inf) * 2.0, axis=time))
    assert rf.check.finite(lambda: rf.softmax(x + mask, axis=time))
    assert rf.check.finite(in_a_loop)
    assert not rf.check.finite(lambda: -(x + mask))


def test_nothing_checked_is_never_a_pass():
    for fn in (lambda: None, lambda: X, lambda: 1.0, lambda: nan, lambda: np.float64(1.0)):
        report = rf.check.finite(fn)
        assert not report
        assert repr(report).startswith("finite: nothing was checked")
    assert "the result is nan, made by no op that was followed" in repr(rf.check.finite(lambda: nan))
    assert not rf.check.finite(lambda: spoiled().numpy())
    assert rf.check.finite(torch.func.vmap(lambda row: row.sum()), X)
    assert not rf.check.finite(torch.func.vmap(lambda row: row.sqrt().sum()), X)
    assert rf.check.finite(lambda: torch.arange(3) + 1)


class Slope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * nan


def test_gradients():
    weight = nn.Parameter(torch.zeros(4))

    def in_place() -> torch.Tensor:
        root = (X * weight) ** 2
        root.sqrt_()
        return root.sum()

    assert rf.check.finite(nn.LSTM(4, 3), X, gradients=True)
    assert rf.check.finite(scripted(nn.Linear(4, 4)), X, gradients=True)
    calls = {"sqrt": lambda: torch.sqrt((X * weight) ** 2), "sqrt_": in_place, "Slope": lambda: Slope.apply(weight)}
    for op, fn in calls.items():
        report = rf.check.finite(fn, gradients=True)
        assert rf.check.finite(fn)
        assert report.first.gradient and report.first.event.op == op
        assert f"made by the gradient through {op}" in repr(report)
    assert weight.grad is None


@pytest.mark.parametrize("fn", [lambda: X * 2, torch.no_grad()(lambda: nn.Linear(4, 4)(X)), lambda: None])
def test_gradients_that_do_not_flow(fn):
    with pytest.raises(rf.errors.ParameterError, match="no gradients flow to the result"):
        rf.check.finite(fn, gradients=True)


class Root(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x)


def test_a_scripted_module_is_one_op():
    report = rf.check.finite(scripted(Root()), X)
    assert (report.first.event.op, report.results) == ("RecursiveScriptModule", 1)
    assert rf.check.finite(scripted(Root()), X.abs())


@pytest.mark.slow
def test_compiled_code_is_followed_as_it_is_written():
    for fn in (Root(), lambda x: torch.sqrt(x) + 1):
        assert rf.check.finite(torch.compile(fn, backend="eager"), X).first.event.op == "sqrt"


def test_a_module_that_is_called_twice_and_a_failing_one():
    linear = nn.Linear(4, 4)
    report = rf.check.finite(lambda: linear(linear(X).log()))
    assert (report.first.event.op, report.passed) == ("log", 1)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        rf.check.finite(linear, X[..., :2])
    assert rf.check.finite(linear, X)  # no hook is left
    assert not torch.overrides._get_current_function_mode_stack()


def test_both_libraries_in_one_call():
    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat], lengths=[5, 3])
    report = rf.check.finite(lambda: rf.tanh(rf.convert_to_tensor(torch.sqrt(x.raw_tensor), dims=x.dims)))
    assert (report.first.event.op, len(report.made)) == ("sqrt", 1)
    report = rf.check.finite(lambda: rf.sqrt(x).raw_tensor * 2)
    assert (report.first.event.op, len(report.made), report.passed) == ("sqrt", 1, 1)
    linear = rf.from_torch(nn.Linear(4, 4), in_dims=[..., feat], out_dims=[..., feat])
    assert rf.check.finite(linear, x, gradients=True)


def test_what_torch_makes_of_padding_does_not_count():
    x = rf.convert_to_tensor(X.abs() + 1, dims=[batch_dim, time, feat], lengths=[5, 3])
    frames = (~PADDING)[..., None]

    def call(low: float) -> rf.Tensor:
        return rf.raw_call(lambda raw: torch.log(raw * frames - low) * 2, x, out_dims=x.dims)

    assert rf.check.finite(call, 0.0)
    report = rf.check.finite(lambda: rf.tanh(call(1.5)))
    assert (report.first.event.op, len(report.made)) == ("log", 1)


def test_the_backend_of_numpy():
    rf.select_backend("numpy")
    try:
        x = rf.convert_to_tensor(np.array([1.0, 0.0]), dims=[rf.Dim(2, name="n")])
        assert rf.check.finite(rf.exp, x)
        assert rf.check.finite(lambda: rf.log(x) * 0.0).first.event.op == "mul"
    finally:
        rf.select_backend("torch")


@pytest.mark.parametrize(("values", "words"), [([0.0, 2.0], ", 1 zero"), ([0.0, 0.0], ", 2 zeros"), ([1.0, 2.0], "")])
def test_an_operand_is_described_with_its_number_of_zeros(values, words):
    x = rf.convert_to_tensor(values, dims=[rf.Dim(2, name="feat")], name="x")
    assert describe_operand(x) == f"x {{feat:2}}: {min(values):.4g} … {max(values):.4g}{words}"
