"""Less precise types: the policy, and all of torch.autocast, with padding."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

FEAT, OUT = rf.Dim(8, name="feat"), rf.Dim(5, name="out")
BRAIN = rf.AmpPolicy("bfloat16")


def test_the_policy_counts_inside_the_block():
    assert rf.get_amp_policy() is None
    with rf.set_amp_policy_ctx(BRAIN):
        assert rf.get_amp_policy() is BRAIN
        with rf.set_amp_policy_ctx(None):
            assert rf.get_amp_policy() is None
        assert rf.get_amp_policy() is BRAIN
    rf.set_amp_policy(BRAIN)
    assert rf.get_amp_policy() is BRAIN
    rf.set_amp_policy(None)
    with pytest.raises(rf.errors.DtypeError, match="AmpPolicy"):
        rf.set_amp_policy("bfloat16")
    with pytest.raises(rf.errors.DtypeError, match="must be a float type"):
        rf.AmpPolicy("int8")


def test_casts_of_the_policy():
    single, double, whole = (rf.ones([FEAT], dtype=dtype) for dtype in ("float32", "float64", "int64"))
    half = rf.ones([FEAT], dtype="bfloat16")
    assert rf.amp_cast_compute(single) is single and rf.amp_cast_float32(half, None) == (half, None)
    with rf.set_amp_policy_ctx(BRAIN):
        cast = rf.amp_cast_compute(single, whole, None, double)
        assert [x if x is None else x.dtype for x in cast] == ["bfloat16", "int64", None, "bfloat16"]
        assert rf.amp_cast_float32(half).dtype == "float32"
        assert [x.dtype for x in rf.amp_cast_float32(half, whole)] == ["float32", "int64"]


def batch(fill=0.0):
    time = rf.Dim(None, name="time")
    raw = torch.randn([3, 5, 8], generator=torch.Generator().manual_seed(2))
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=[5, 2, 0]).copy_masked(fill)
    return x.like(x.raw_tensor.detach().clone().requires_grad_()), time


def weight(*dims):
    generator = torch.Generator().manual_seed(4)
    parameter = rf.Parameter(list(dims))
    parameter.assign(rf.convert_to_tensor(torch.randn([d.dimension for d in dims], generator=generator), dims=dims))
    return parameter


def labels(x):
    return rf.set_sparse_dim(rf.reduce_argmax(x, axis=FEAT) % 5, OUT)


CASES = {
    "matmul": lambda x, w, time: rf.matmul(x, w, reduce=FEAT),
    "matmul over time": lambda x, w, time: rf.matmul(x, rf.replace_dim(x, in_dim=FEAT)[0], reduce=time),
    "linear": lambda x, w, time: rf.linear(x, w, rf.cast(weight(OUT), w.dtype), in_dim=FEAT, out_dim=OUT),
    "softmax": lambda x, w, time: rf.softmax(rf.matmul(x, w, reduce=FEAT), axis=OUT),
    "softmax over time": lambda x, w, time: rf.softmax(rf.matmul(x, w, reduce=FEAT), axis=time),
    "log_softmax": lambda x, w, time: rf.log_softmax(rf.matmul(x, w, reduce=FEAT), axis=OUT),
    "layer_norm": lambda x, w, time: rf.layer_norm(rf.matmul(x, w, reduce=FEAT), weight(OUT), weight(OUT), in_dim=OUT),
    "rms_norm": lambda x, w, time: rf.rms_norm(rf.matmul(x, w, reduce=FEAT), weight(OUT), in_dim=OUT),
    "normalize": lambda x, w, time: rf.normalize(x, axis=[batch_dim, time]),
    "cross_entropy": lambda x, w, time: rf.cross_entropy(
        estimated=rf.matmul(x, w, reduce=FEAT), target=labels(x), axis=OUT, estimated_type="logits"
    ),
    "attention": lambda x, w, time: rf.dot_attention(
        x, x, x, key_dim=FEAT, axis=time, causal_query_spatial_dim=time
    ),
    **{
        f"reduce_{mode}": lambda x, w, time, mode=mode: rf.reduce(rf.matmul(x, w, reduce=FEAT), mode=mode, axis=time)
        for mode in ("sum", "mean", "max", "logsumexp")
    },
}  # fmt: skip


def run(case, *, fill=0.0, dtype=None, autocast=False):
    """The valid results and the gradients of all inputs, in float32."""
    x, time = batch(fill)
    w = weight(FEAT, OUT)
    given = (x, w) if dtype is None else (rf.cast(x, dtype), rf.cast(w, dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        y = CASES[case](*given, time)
    y = rf.cast(y, "float32")
    y = rf.where(rf.is_finite(y), y, 0.0).copy_masked(0.0)
    loss = rf.reduce_sum(y * y.like(torch.sin(torch.arange(y.raw_tensor.numel())).view_as(y.raw_tensor)), axis=y.dims)
    gradients = torch.autograd.grad(loss.raw_tensor, [x.raw_tensor, w.raw_tensor], allow_unused=True)
    return [y.raw_tensor.detach(), *(g for g in gradients if g is not None)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("how", [{"autocast": True}, {"dtype": "bfloat16"}], ids=["autocast", "bfloat16"])
def test_results_are_those_of_full_precision_to_rounding(case, how):
    exact = run(case)
    for fill in (0.0, float("nan")):
        for a, b in zip(run(case, fill=fill, **how), exact, strict=True):
            assert torch.isfinite(a).all()
            torch.testing.assert_close(a, b, rtol=0.1, atol=0.1 * float(b.abs().max()))


def test_long_sums_are_exact_in_a_short_type():
    """They are made in float32 inside."""
    many = rf.Dim(4096, name="many")
    ones = rf.ones([many], dtype="bfloat16")
    assert rf.reduce_sum(ones, axis=many).raw_tensor.item() == 4096
    time = rf.Dim(None, name="time")
    ragged = rf.convert_to_tensor(torch.ones(2, 4096), dims=[batch_dim, time], lengths=[4096, 2048])
    ragged = rf.cast(ragged, "bfloat16")
    assert rf.reduce_sum(ragged, axis=time).raw_tensor.tolist() == [4096, 2048]
    assert rf.reduce_mean(ragged, axis=time).raw_tensor.tolist() == [1, 1]
    assert rf.softmax(ragged, axis=time).raw_tensor[1].sum(dtype=torch.float32).item() == 1
