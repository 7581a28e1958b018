"""What every op promises: batched is one by one, the order of dims does not matter, nor what is in padding,
nor a further dim.

A case is a row of `CASES` in one of the files `cases_*.py`. They may also name, of their cases: `STAY`, whose op has no
`frames="any"`; `NEEDS_FRAMES`, which give padding for a sequence without frames; `PER_FRAME`, whose products with
padding that is NaN spoil the gradient of what all frames share.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.backend.torch.math import ACTIVATION, COMBINE, COMPARE
from rfnb.core.dims import align
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.op import OPS
from rfnb.core.tensor.tensor import tensor_of
from tests.examples import examples
from tests.ops.batches import FRAMES, WEIGHTS, Batch, batch_of, lengths_lists, one_of

MODULES = [
    importlib.import_module(f"tests.ops.{file.stem}") for file in sorted(Path(__file__).parent.glob("cases_*.py"))
]
CASES = {name: case for module in MODULES for name, case in module.CASES.items()}
STAY, NEEDS_FRAMES, PER_FRAME = (
    {name for module in MODULES for name in getattr(module, kind, ())} for kind in ("STAY", "NEEDS_FRAMES", "PER_FRAME")
)
SHARED = {*WEIGHTS, "v"}  # a product with padding that is NaN spoils the gradient of what all frames share
cases = pytest.mark.parametrize("name", CASES)


def results(name: str, batch: Batch) -> list[rf.Tensor]:
    return [leaf for leaf in leaves(CASES[name](batch)) if isinstance(leaf, rf.Tensor)]


def valid(x: rf.Tensor, i: int) -> np.ndarray:
    """Sequence `i` of `x`, without padding."""
    raw = x.raw_tensor.detach()
    for axis, dim in enumerate(x.dims):
        size = x.size_of(dim)
        length = size.values.reshape(-1)[min(i, size.values.size - 1)]
        raw = raw.narrow(axis, i, 1) if dim is batch_dim else raw.narrow(axis, 0, int(length))
    return raw.numpy()


def assert_close(a: np.ndarray, b: np.ndarray, what: str) -> None:
    np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-5, err_msg=what)


@cases
@examples(6)
@given(lengths=lengths_lists)
def test_batched_is_one_by_one(name, lengths):
    batch = batch_of(lengths)
    together = results(name, batch)
    for i, length in enumerate(lengths):
        if length == 0 and name in NEEDS_FRAMES:
            continue
        for a, b in zip(together, results(name, one_of(batch, i)), strict=True):
            assert_close(valid(a, i), valid(b, 0), f"{name}, sequence {i}")


@cases
def test_an_empty_batch_has_the_dims_of_any_other(name):
    for empty, other in zip(results(name, batch_of([])), results(name, batch_of([0])), strict=True):
        assert [dim.name for dim in empty.dims] == [dim.name for dim in other.dims]
        assert empty.raw_tensor.shape == tuple(empty.size_of(dim).max for dim in empty.dims)
        assert empty.dtype == other.dtype


@cases
@examples(3)
@given(lengths=lengths_lists.filter(any))
def test_the_order_of_dims_does_not_matter(name, lengths):
    batch = batch_of(lengths)
    turned = batch.map(lambda _, x: x.copy_transpose(x.dims[::-1]))
    for a, b in zip(results(name, batch), results(name, turned), strict=True):
        assert_same(a, in_dims_of(a, b), name, len(lengths))


def in_dims_of(a: rf.Tensor, b: rf.Tensor) -> rf.Tensor:
    """`b` with its axes in the order of `a`; new dims are told apart by their names."""
    named = {dim.name: dim for dim in b.dims}
    return b.copy_transpose([named[dim.name] for dim in a.dims])


def assert_same(a: rf.Tensor, b: rf.Tensor, what: str, count: int) -> None:
    for i in range(count if batch_dim in a.dims else 1):
        assert_close(valid(a, i), valid(b, i), what)


@cases
@pytest.mark.parametrize(("lengths", "number"), [([5, 3, 1], -77.0), ([0, 3], math.nan)], ids=str)
def test_padding_changes_no_value_and_no_gradient(name, lengths, number):
    if 0 in lengths and name in NEEDS_FRAMES:
        return
    batch = batch_of(lengths)
    clean, spoiled = with_padding(batch, 0.0, 0), with_padding(batch, number, -999)
    for a, b in zip(results(name, clean), results(name, spoiled), strict=True):
        assert_same(a, b, name, len(lengths))
    for (key, a), b in zip(gradients(name, clean).items(), gradients(name, spoiled).values(), strict=True):
        if a is None or (name in PER_FRAME and key in SHARED):
            continue
        wrapped = [clean.tensors[key].like(g) for g in (a, b)]
        assert_same(*wrapped, f"{name}, gradient of {key}", len(lengths))


def with_padding(batch: Batch, number: float, label: int) -> Batch:
    """The same inputs with this in the padding, as leaves that take gradients."""

    def spoil(_: str, x: rf.Tensor) -> rf.Tensor:
        floats = x.dtype.startswith("float")
        x = x.copy_masked(number if floats else label)
        leaf = x.like(x.raw_tensor.detach().clone().requires_grad_(floats))
        leaf.lengths = x.lengths if math.isfinite(number) else x.lengths.infinite()
        return leaf

    return batch.map(spoil)


def gradients(name: str, batch: Batch) -> dict[str, torch.Tensor | None]:
    """Of a sum of all valid results with different weights."""
    total = torch.zeros((), dtype=torch.float64)
    for result in results(name, batch):
        if not (result.dtype.startswith("float") and result.raw_tensor.requires_grad):
            continue
        positions = torch.arange(1, result.raw_tensor.numel() + 1).reshape(result.raw_tensor.shape)
        weighted = rf.where(rf.is_finite(result), result, 0.0) if "log_softmax" in name else result
        weighted = weighted * result.like((positions * 0.37).sin().to(result.raw_tensor.dtype))
        total = total + rf.reduce_sum(weighted, axis=result.dims).raw_tensor
    leaves_ = {key: x for key, x in batch.tensors.items() if x.raw_tensor.requires_grad}
    if not total.requires_grad:
        return dict.fromkeys(leaves_)
    found = torch.autograd.grad(total, [x.raw_tensor for x in leaves_.values()], allow_unused=True)
    return dict(zip(leaves_, found, strict=True))


@cases
@pytest.mark.parametrize("which", ["all", "inputs only"])
@examples(3)
@given(lengths=lengths_lists.filter(any), last=st.booleans())
def test_a_further_dim_changes_nothing(name, which, lengths, last):
    if name in STAY:
        return
    batch, others = batch_of(lengths), [batch_of(lengths, seed=seed) for seed in (1, 2, 3)]

    def framed(key: str, x: rf.Tensor) -> rf.Tensor:
        if which != "all" and key in WEIGHTS:
            return x
        raws = [other.tensors[key].raw_tensor for other in others]
        dims = (*x.dims, FRAMES) if last else (FRAMES, *x.dims)
        raw = torch.stack(raws, -1 if last else 0)
        return tensor_of(raw, align.sig(dims, x.sparse_dim, x.feature_dim), x.lengths)

    together = results(name, batch.map(framed))
    for number, other in enumerate(others):
        alone = batch.map(
            lambda key, x, o=other: x if which != "all" and key in WEIGHTS else x.like(o.tensors[key].raw_tensor)
        )
        for a, b in zip(together, results(name, alone), strict=True):
            if FRAMES in a.dims:
                a = rf.gather(a, indices=number, axis=FRAMES)
            assert_same(b, in_dims_of(b, a), name, len(lengths))


def test_every_op_that_may_move_is_tested():
    """Those of the same kind as a tested one are left out."""
    same_kind = {
        *ACTIVATION,
        *COMBINE,
        *COMPARE,
        *(f"reduce_{mode}" for mode in "sum mean max min all logsumexp argmax argmin".split()),
        *"combine compare ones_like full range_over_dim".split(),
    }
    tested = {name.split()[0] for name in CASES} | {"reduce"}
    movable = {name for name, row in OPS.items() if row.frames == "any" and row.fn.__module__.startswith("rfnb.ops")}
    assert movable <= tested | same_kind


@pytest.mark.parametrize(("kind", "op"), [("mul", "mul"), ("truediv", "true_divide"), ("squared_difference",) * 2])
def test_a_trained_factor_gets_no_gradient_from_padding(kind, op):
    """log(0) in padding is -inf, and 0 · inf would be NaN in the gradient of what has no frames of its own."""
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    scale = rf.Parameter([feat], initial=2.0)
    gradients = []
    for padding in (0.0, 1.0):
        raw = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [padding, padding]]])
        x = rf.log(rf.convert_to_tensor(raw, dims=[rf.batch_dim, time, feat], lengths=[2, 1]))
        loss = rf.reduce_sum(rf.combine(x, kind, scale), axis=[rf.batch_dim, time, feat])
        gradients += torch.autograd.grad(loss.raw_tensor, [scale.raw_tensor])
    assert torch.isfinite(gradients[0]).all()
    torch.testing.assert_close(*gradients)
    product = getattr(rf, op)(x, scale)  # the quick form makes the same choice
    assert torch.isfinite(
        torch.autograd.grad(rf.reduce_sum(product, axis=[rf.batch_dim, time, feat]).raw_tensor, [scale.raw_tensor])[0]
    ).all()
