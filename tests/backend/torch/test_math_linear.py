"""Large linear maps on CPUs where oneDNN is faster than MKL: the same values and gradients, and where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb.backend.torch import math
from rfnb.backend.torch.math import linear

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@pytest.fixture(autouse=True)
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a CPU of AMD, for matrices of a test."""
    monkeypatch.setattr(math, "_prefers_onednn", lambda: True)
    monkeypatch.setattr(math, "LARGE", 1)
    yield


def calls_of_onednn(function: Callable[[], object]) -> int:
    """How often oneDNN computes a linear map in `function`."""
    with torch.profiler.profile() as profile:
        function()
    return sum(event.count for event in profile.key_averages() if event.key == "mkldnn::_linear_pointwise")


LAYOUTS: dict[str, Callable[[int, int], torch.Tensor]] = {
    "rows": lambda rows, columns: torch.randn(rows, columns),
    "turned": lambda rows, columns: torch.randn(columns, rows).t(),
    "every second column": lambda rows, columns: torch.randn(rows, 2 * columns)[:, ::2],
    "columns of more": lambda rows, columns: torch.randn(rows, columns + 3)[:, 3:],
    "one row": lambda rows, columns: torch.randn(1, columns).expand(rows, columns),
    "one column": lambda rows, columns: torch.randn(rows, 1).expand(rows, columns),
}


@pytest.mark.parametrize("sizes", [(17, 20, 33), (40, 1, 30), (1, 40, 30), (30, 40, 1)])
@pytest.mark.parametrize("of_weight", LAYOUTS)
@pytest.mark.parametrize("of_x", LAYOUTS)
def test_values_of_large_linear_maps_are_those_of_torch(of_x: str, of_weight: str, sizes: tuple[int, int, int]) -> None:
    rows, size, out = sizes
    x, weight, bias = LAYOUTS[of_x](rows, size), LAYOUTS[of_weight](out, size), torch.randn(out)
    torch.testing.assert_close(linear(x, weight, bias), functional.linear(x, weight, bias))


@pytest.mark.parametrize("shape", [(20, 18), (1, 20, 18), (3, 7, 18), (2, 3, 5, 18)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_gradients_of_large_linear_maps_are_those_of_torch(shape: tuple[int, ...], has_bias: bool) -> None:
    leaves = [torch.randn(shape), torch.randn(24, 18), *([torch.randn(24)] if has_bias else [])]
    found = []
    for function in (linear, functional.linear):
        x, weight, *bias = [leaf.clone().requires_grad_() for leaf in leaves]
        y = function(x, weight, bias[0] if bias else None)
        first = torch.autograd.grad(y.square().sum(), [x, weight, *bias], create_graph=True)
        second = torch.autograd.grad(torch.stack([gradient.square().sum() for gradient in first]).sum(), [x, weight])
        found.append([y, *first, *second])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-2)


def test_a_module_and_its_gradients_use_onednn() -> None:
    feat, out, time = rf.Dim(20, name="feat"), rf.Dim(30, name="out"), rf.Dim(40, name="time")
    module, x = rf.Linear(feat, out), rf.random_normal([time, feat])
    x.raw_tensor.requires_grad_()
    assert calls_of_onednn(lambda: module(x).raw_tensor.sum().backward()) == 3


class Watching(TorchDispatchMode):
    """Changes nothing."""

    def __torch_dispatch__(self, function: Callable[..., object], types: object, args=(), kwargs=None) -> object:
        return function(*args, **(kwargs or {}))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # of jvp
def test_onednn_is_not_used_where_torch_looks_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(20, 18), torch.randn(24, 18)

    def call() -> torch.Tensor:
        return linear(x, weight, None)

    assert calls_of_onednn(call) == 1
    with Watching():
        assert calls_of_onednn(call) == 0
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mkldnn, "enabled", False)
        assert calls_of_onednn(call) == 0
    with torch.autocast("cpu"):
        assert calls_of_onednn(call) == 0 and call().dtype is torch.bfloat16
    assert calls_of_onednn(lambda: linear(x.double(), weight.double(), None)) == 0
    torch.testing.assert_close(torch.vmap(lambda row: linear(row, weight, None))(x), call())
    tangent = torch.func.jvp(lambda x: linear(x, weight, None), (x,), (x,))[1]
    torch.testing.assert_close(tangent, call())


@pytest.mark.parametrize("recorded", [True, False])
def test_loops_move_large_linear_maps_out_of_their_steps(recorded: bool) -> None:
    feat, time, batch = rf.Dim(20, name="feat"), rf.Dim(9, name="time"), rf.Dim(16, name="batch")
    w, u, x = rf.Linear(feat, feat), rf.Linear(feat, feat), rf.random_normal([time, batch, feat])
    loops = {}
    for moves in (True, False):
        loop = loops[moves] = rf.Loop(axis=time, optimize_move_layers_out=moves, debug=recorded)
        loop.state.h = rf.zeros([batch, feat])
        with loop:
            projected = w(loop.unstack(x))
            loop.state.h = rf.tanh(projected + u(loop.state.h))
            stacked = loop.stack(loop.state.h)
        if recorded:
            run = loop.run
            assert run is not None
            assert all((run[step].h.raw_tensor == stacked.raw_tensor[step]).all() for step in range(9))
            run[5].projected  # noqa: B018 - is computed again
    moved, kept = (loop.state.h.raw_tensor for loop in loops.values())
    torch.testing.assert_close(moved, kept, rtol=1e-4, atol=1e-5)
