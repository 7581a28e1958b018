"""What every op promises: batched is one by one, the order of dims does not matter, nor what is in padding,
nor a further dim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core import align
from rfnb.core.nested import leaves
from rfnb.core.op import OPS
from rfnb.core.tensor import tensor_of
from rfnb.ops.linear import linear
from rfnb.ops.norm import layer_norm

FEAT, OUT, VOCAB, HALF = (rf.Dim(n, name=name) for n, name in [(4, "feat"), (3, "out"), (5, "vocab"), (2, "half")])
FRAMES = rf.Dim(3, name="frames")
WEIGHTS = {"w": [FEAT, OUT], "bias": [OUT], "gates": [4 * OUT, FEAT], "rec": [4 * OUT, OUT], "gate_bias": [4 * OUT],
           "scale": [FEAT], "table": [VOCAB, OUT]}  # fmt: skip
lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@dataclass
class Batch:
    """Inputs of all kinds, with the same lengths."""

    time: rf.Dim
    other: rf.Dim
    tensors: dict[str, rf.Tensor]

    def __getattr__(self, name: str) -> rf.Tensor:
        return self.tensors[name]

    def map(self, fn: Callable[[str, rf.Tensor], rf.Tensor]) -> Batch:
        return replace(self, tensors={name: fn(name, x) for name, x in self.tensors.items()})


def batch_of(lengths: list[int], seed: int = 0) -> Batch:
    """{batch, time, feat} and friends; `other` has the lengths in another order, and a frame more."""
    generator = np.random.default_rng(seed)
    time, other = rf.Dim(None, name="time"), rf.Dim(None, name="other")
    longer = [n + 1 for n in reversed(lengths)]
    frames = np.maximum(lengths, 1)
    raws: dict[str, Any] = {
        "x": ([batch_dim, time, FEAT], generator.normal(size=(len(lengths), max(lengths), 4))),
        "y": ([batch_dim, time, FEAT], generator.normal(size=(len(lengths), max(lengths), 4))),
        "z": ([batch_dim, other, FEAT], generator.normal(size=(len(lengths), max(longer), 4))),
        "v": ([batch_dim, FEAT], generator.normal(size=(len(lengths), 4))),
        "h": ([batch_dim, OUT], generator.normal(size=(len(lengths), 3))),
        "logits": ([batch_dim, time, VOCAB], generator.normal(size=(len(lengths), max(lengths), 5))),
        "labels": ([batch_dim, time], generator.integers(0, 5, size=(len(lengths), max(lengths)))),
        "index": ([batch_dim, other], generator.integers(0, frames[:, None], size=(len(lengths), max(longer)))),
        "at": ([batch_dim], generator.integers(0, frames)),
        **{name: (dims, generator.normal(size=[d.dimension for d in dims])) for name, dims in WEIGHTS.items()},
    }  # fmt: skip
    rf.convert_to_tensor(np.zeros((len(lengths), max(lengths))), dims=[batch_dim, time], lengths=lengths)
    rf.convert_to_tensor(np.zeros((len(lengths), max(longer))), dims=[batch_dim, other], lengths=longer)
    sparse = {"labels": VOCAB, "index": time, "at": time}
    tensors = {
        name: rf.convert_to_tensor(
            raw.astype("int64" if name in sparse else "float64"), dims=dims, sparse_dim=sparse.get(name)
        )
        for name, (dims, raw) in raws.items()
    }
    return Batch(time, other, tensors)


def one_of(batch: Batch, i: int) -> Batch:
    """Sequence `i` alone, without padding, under dims of its own."""
    time, other = rf.Dim(None, name="time"), rf.Dim(None, name="other")
    own = {batch.time: time, batch.other: other}

    def take(name: str, x: rf.Tensor) -> rf.Tensor:
        raw = x.raw_tensor
        for axis, dim in enumerate(x.dims):
            size = x.size_of(dim)
            raw = (
                raw.narrow(axis, i, 1)
                if dim is batch_dim
                else raw.narrow(axis, 0, int(size.values[i]))
                if size.dims
                else raw
            )
        sparse = own.get(x.sparse_dim, x.sparse_dim)
        return rf.convert_to_tensor(raw, dims=[own.get(d, d) for d in x.dims], sparse_dim=sparse)

    for dim, name in ((time, "x"), (other, "z")):
        n = int(batch.tensors[name].size_of(batch.time if dim is time else batch.other).values[i])
        rf.convert_to_tensor(np.zeros((1, n)), dims=[batch_dim, dim], lengths=[n])
    return replace(batch.map(take), time=time, other=other)


def lstm(b: Batch, **options: Any) -> Any:
    given = {"state_h": b.h, "state_c": b.h, "ff_weight": b.gates, "rec_weight": b.rec, "bias": b.gate_bias}
    return rf.lstm(b.x, **{**given, **options}, spatial_dim=b.time, in_dim=FEAT, out_dim=OUT)


CASES: dict[str, Callable[[Batch], Any]] = {
    "add": lambda b: b.x + b.v,
    "sub": lambda b: b.v - b.x,
    "mul": lambda b: b.x * b.y,
    "truediv": lambda b: b.x / (b.y * b.y + 1.0),
    "maximum": lambda b: rf.maximum(b.x, b.v),
    "less": lambda b: rf.less(b.x, b.y),
    "equal": lambda b: b.labels == 2,
    "tanh": lambda b: rf.tanh(b.x),
    "where": lambda b: rf.where(b.x > 0.0, b.y, b.v),
    "where number": lambda b: rf.where(b.x > 0.0, b.y, 0.0),
    "cast": lambda b: rf.cast(b.x, "float32"),
    "clip_by_value": lambda b: rf.clip_by_value(b.x, -0.5, 0.5),
    "zeros_like": lambda b: rf.zeros_like(b.x),
    **{
        f"reduce_{mode} {dims}": lambda b, mode=mode, dims=dims: rf.reduce(
            b.x, mode=mode, axis=[b.time, FEAT] if dims == "time, feat" else b.time if dims == "time" else FEAT
        )
        for mode in ("sum", "mean", "logsumexp")
        for dims in ("time", "feat", "time, feat")
    },
    "reduce_any": lambda b: rf.reduce_any(b.x > 1.0, axis=b.time),
    "softmax time": lambda b: rf.softmax(b.x, axis=b.time),
    "softmax feat": lambda b: rf.softmax(b.x, axis=FEAT),
    "log_softmax feat": lambda b: rf.log_softmax(b.x, axis=FEAT),
    "log_softmax time": lambda b: rf.log_softmax(b.x, axis=b.time),
    "matmul feat": lambda b: rf.matmul(b.x, b.w, reduce=FEAT),
    "matmul shared": lambda b: rf.matmul(b.x, b.v, reduce=FEAT),
    "matmul time": lambda b: rf.matmul(b.x, b.y, reduce=b.time),
    "matmul time to vocab": lambda b: rf.matmul(b.x, b.logits, reduce=b.time),
    "matmul two": lambda b: rf.matmul(b.x, b.y, reduce=[b.time, FEAT]),
    "linear": lambda b: linear(b.x, b.w, b.bias, in_dim=FEAT, out_dim=OUT),
    "linear without bias": lambda b: linear(b.x, b.w, None, in_dim=FEAT, out_dim=OUT),
    "layer_norm": lambda b: layer_norm(b.x, b.scale, b.scale, in_dim=FEAT),
    "gather": lambda b: rf.gather(b.x, indices=b.index, axis=b.time, clip_to_valid=True),
    "gather one": lambda b: rf.gather(b.x, indices=b.at, axis=b.time, clip_to_valid=True),
    "gather last": lambda b: rf.gather(b.x, indices=-1, axis=b.time, clip_to_valid=True),
    "gather rows": lambda b: rf.gather(b.table, indices=b.labels, axis=VOCAB),
    "one_hot": lambda b: rf.one_hot(b.labels),
    "scatter": lambda b: rf.scatter(b.x, indices=b.labels, indices_dim=b.time),
    "scatter max": lambda b: rf.scatter(b.x, indices=b.labels, indices_dim=b.time, mode="max", fill_value=-7.0),
    "top_k feat": lambda b: rf.top_k(b.x, axis=FEAT, k_dim=HALF)[:2],
    "top_k two": lambda b: rf.top_k(rf.combine_bc(b.v, "add", b.w), axis=[FEAT, OUT], k=2)[:2],
    "concat time": lambda b: rf.concat((b.x, b.time), (b.z, b.other))[0],
    "concat three": lambda b: rf.concat((b.x, b.time), (b.z, b.other), (b.y, b.time))[0],
    "concat feat": lambda b: rf.concat((b.x, FEAT), (b.logits, VOCAB))[0],
    "stack": lambda b: rf.stack([b.x, b.y])[0],
    "unstack": lambda b: rf.unstack(b.x, axis=FEAT),
    "split": lambda b: rf.split(b.x, axis=FEAT, out_dims=[HALF, rf.Dim(2, name="rest")]),
    "cum_concat_step": lambda b: rf.cum_concat_step(b.v, prev_accum=b.x, axis=b.time)[0],
    "slice start": lambda b: rf.slice(b.x, axis=b.time, start=2)[0],
    "slice end": lambda b: rf.slice(b.x, axis=b.time, end=-1)[0],
    "slice first": lambda b: rf.slice(b.x, axis=b.time, start=1, end=3)[0],
    "slice last": lambda b: rf.slice(b.x, axis=b.time, start=-2)[0],
    "slice middle": lambda b: rf.slice(b.x, axis=b.time, start=-3, end=-1)[0],
    "slice step": lambda b: rf.slice(b.x, axis=b.time, start=1, step=2)[0],
    "slice back": lambda b: rf.slice(b.x, axis=b.time, step=-2)[0],
    "slice feat": lambda b: rf.slice(b.x, axis=FEAT, start=1, size=2)[0],
    "slice from tensor": lambda b: rf.slice(b.x, axis=b.time, start=b.at)[0],
    "slice to tensor": lambda b: rf.slice(b.x, axis=b.time, end=b.at)[0],
    "pad": lambda b: rf.pad(b.x, axes=[b.time], padding=[(1, 2)], value=3.0)[0],
    "pad tensor": lambda b: rf.pad(b.x, axes=[b.time], padding=[(2, 1)], value=b.v)[0],
    "pad replicate": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 1)], mode="replicate")[0],
    "pad reflect": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="reflect")[0],
    "pad circular": lambda b: rf.pad(b.z, axes=[b.other], padding=[(2, 3)], mode="circular")[0],
    "shift_right": lambda b: rf.shift_right(b.x, axis=b.time, pad_value=9.0, amount=2),
    "shift_left": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=9.0),
    "shift_left tensor": lambda b: rf.shift_left(b.x, axis=b.time, pad_value=b.v, amount=2),
    "reverse_sequence": lambda b: rf.reverse_sequence(b.x, axis=b.time),
    "cumsum": lambda b: rf.cumsum(b.x, spatial_dim=b.time),
    "expand_dim": lambda b: rf.expand_dim(b.x, OUT),
    "squeeze": lambda b: rf.squeeze(rf.slice(b.x, axis=FEAT, size=one, out_dim=one)[0], one),
    "replace_dim_v2": lambda b: rf.replace_dim_v2(b.x, in_dim=FEAT, out_dim=FEAT2),
    "copy_masked": lambda b: b.x.copy_masked(0.5),
    "copy_masked tensor": lambda b: b.x.copy_masked(b.v),
    "set_sparse_dim": lambda b: rf.set_sparse_dim(b.labels, None),
    "merge_dims": lambda b: rf.merge_dims(b.x, dims=[b.time, FEAT])[0],
    "merge_dims static": lambda b: rf.merge_dims(rf.expand_dim(b.x, OUT), dims=[OUT, FEAT])[0],
    "split_dims": lambda b: rf.split_dims(b.x, axis=FEAT, dims=[HALF, rf.Dim(None, name="rest")]),
    "split_dims time": lambda b: rf.split_dims(b.x, axis=b.time, dims=[rf.Dim(None, name="chunks"), HALF]),
    "cross_entropy": lambda b: rf.cross_entropy(
        estimated=b.logits, target=b.labels, axis=VOCAB, estimated_type="logits"
    ),
    "cross_entropy dense": lambda b: rf.cross_entropy(
        estimated=b.logits, target=rf.softmax(b.logits * 2.0, axis=VOCAB), axis=VOCAB, estimated_type="logits"
    ),
    "cross_entropy probs": lambda b: rf.cross_entropy(
        estimated=rf.softmax(b.logits, axis=VOCAB), target=b.labels, axis=VOCAB, estimated_type="probs"
    ),
    "stop_gradient": lambda b: rf.stop_gradient(b.x),
    "scaled_gradient": lambda b: rf.scaled_gradient(b.x, 2.0),
    "copy_transpose": lambda b: b.x.copy_transpose([FEAT, batch_dim, b.time]) if len(b.x.dims) == 3 else b.x,
    "copy": lambda b: rf.copy(b.x),
    "copy_to_device": lambda b: rf.copy_to_device(b.x, "cpu"),
    "edit_distance": lambda b: rf.edit_distance(
        b.labels, b.time, rf.gather(b.labels, indices=b.index, axis=b.time, clip_to_valid=True), b.other
    ),
    "lstm": lambda b: lstm(b),
    "lstm one": lambda b: rf.lstm(
        b.v, state_h=b.h, state_c=b.h, ff_weight=b.gates, rec_weight=b.rec, bias=b.gate_bias,
        spatial_dim=rf.single_step_dim, in_dim=FEAT, out_dim=OUT,
    ),
}  # fmt: skip
one, FEAT2 = rf.Dim(1, name="one"), rf.Dim(4, name="feat2")
STAY = {"lstm", "edit_distance", "lstm one", "slice from tensor", "slice to tensor"}  # no row says frames="any"
NEEDS_FRAMES = {"gather one", "gather last", "gather"}  # on a sequence without frames, what they give is padding
SHARED = {*WEIGHTS, "v"}  # a product with padding that is NaN spoils the gradient of what all frames share
PER_FRAME = {"matmul shared"}
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
@settings(max_examples=6, deadline=None)
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
@settings(max_examples=3, deadline=None)
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
@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 4], [0, 3]], ids=str)
def test_padding_changes_no_value_and_no_gradient(name, lengths):
    if 0 in lengths and name in NEEDS_FRAMES:
        return
    batch = batch_of(lengths)
    clean, spoiled = with_padding(batch, 0.0, 0), with_padding(batch, float("nan"), -999)
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
        return x.like(x.raw_tensor.detach().clone().requires_grad_(floats))

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
@settings(max_examples=3, deadline=None)
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
        *"abs neg exp expm1 log log1p sqrt rsqrt square reciprocal sin cos ceil floor round sign sigmoid log_sigmoid "
        "relu elu selu silu gelu softplus softsign logical_not is_finite is_infinite is_neg_infinite floordiv mod pow "
        "logical_and "
        "logical_or squared_difference logaddexp minimum not_equal less_equal greater greater_equal combine compare "
        "reduce_sum reduce_mean reduce_max reduce_min reduce_all reduce_logsumexp reduce_argmax reduce_argmin "
        "ones_like full range_over_dim".split()
    }
    tested = {name.split()[0] for name in CASES} | {"reduce"}
    movable = {name for name, row in OPS.items() if row.frames == "any" and row.fn.__module__.startswith("rfnb.ops")}
    assert movable <= tested | same_kind


@pytest.mark.parametrize("op", ["mul", "truediv", "squared_difference"])
def test_a_trained_factor_gets_no_gradient_from_padding(op):
    """log(0) in padding is -inf, and 0 · inf would be NaN in the gradient of what has no frames of its own."""
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    scale = rf.Parameter([feat], initial=2.0)
    gradients = []
    for padding in (0.0, 1.0):
        raw = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [padding, padding]]])
        x = rf.log(rf.convert_to_tensor(raw, dims=[rf.batch_dim, time, feat], lengths=[2, 1]))
        loss = rf.reduce_sum(rf.combine(x, op, scale), axis=[rf.batch_dim, time, feat])
        gradients += torch.autograd.grad(loss.raw_tensor, [scale.raw_tensor])
    assert torch.isfinite(gradients[0]).all()
    torch.testing.assert_close(*gradients)
    product = getattr(rf, op)(x, scale)  # the quick form makes the same choice
    assert torch.isfinite(
        torch.autograd.grad(rf.reduce_sum(product, axis=[rf.batch_dim, time, feat]).raw_tensor, [scale.raw_tensor])[0]
    ).all()
