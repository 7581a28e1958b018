"""The numpy backend is the reference: each case of `tests/ops/cases_*.py` gives the same on torch and on numpy."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb.backend import numpy as numpy_math
from rfnb.backend.base.sizes import size_in
from rfnb.backend.torch import math as torch_math
from rfnb.core.dims import align
from rfnb.core.ground.nested import leaves
from rfnb.errors import BackendError, RfError
from tests.ops.batches import Batch, batch_of

FILES = sorted((Path(__file__).parents[1] / "ops").glob("cases_*.py"))
CASES = {name: case for file in FILES for name, case in importlib.import_module(f"tests.ops.{file.stem}").CASES.items()}
LACKS = {
    **dict.fromkeys(["lstm", "edit_distance", "ctc_loss", "ctc_best_path"], "a kernel over time"),
    **dict.fromkeys(["conv", "transposed_conv", "pool"], "a kernel over places"),
    **dict.fromkeys(["relative_scores", "relative_shift", "turn_pairs"], "what attention to positions is made of"),
    "stft": "a Fourier transform",
}
"""Ops that need a raw function which numpy does not give, and what that is."""
IN_NUMPY = {name: case for name, case in CASES.items() if name.split()[0] not in LACKS}
OTHER_DTYPE: dict[str, tuple[str, str]] = {}
"""Cases whose results have another type: in torch, in numpy."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-7}


def results(case, batch: Batch, backend: str) -> list[rf.Tensor]:
    """What a case gives, made of tensors of this backend alone."""
    rf.select_backend(backend)
    try:
        return [leaf for leaf in leaves(case(batch)) if isinstance(leaf, rf.Tensor)]
    finally:
        rf.select_backend("torch")


def in_numpy(batch: Batch) -> Batch:
    """The same inputs as numpy arrays."""
    return batch.map(lambda _, x: x.like(x.raw_tensor.numpy()))


def in_type(batch: Batch, dtype: str) -> Batch:
    """The same inputs, those of float64 in another type."""
    factor = 1000 if dtype.startswith("int") else 1  # no two alike, whose order would be open
    return batch.map(lambda _, x: rf.cast(x * factor, dtype) if x.dtype == "float64" else x)


def assert_agree(case, batch: Batch, dtypes: tuple[str, str] | None = None) -> None:
    """Same dims, lengths and types, same valid entries."""
    expected, found = results(case, batch, "torch"), results(case, in_numpy(batch), "numpy")
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert type(b.raw_tensor) is np.ndarray
        assert [dim.name for dim in a.dims] == [dim.name for dim in b.dims]
        assert (a.dtype, b.dtype) == (dtypes or (a.dtype, a.dtype))
        assert str(a.sparse_dim) == str(b.sparse_dim)
        assert str(a.feature_dim) == str(b.feature_dim)
        for dim, other in zip(a.dims, b.dims, strict=True):
            np.testing.assert_array_equal(a.size_of(dim).values, b.size_of(other).values)
        tolerance = TOLERANCE.get(a.dtype, 0)
        valid = np.broadcast_to(valid_frames(a), a.numpy().shape)
        assert a.numpy().shape == b.raw_tensor.shape
        np.testing.assert_allclose(b.raw_tensor[valid], a.numpy()[valid], rtol=tolerance, atol=tolerance)


def valid_frames(x: rf.Tensor) -> np.ndarray:
    """Where `x` has no padding."""
    valid = np.ones((1,) * len(x.dims), bool)
    for dim in x.dims:
        size = size_in(x, dim)
        inside = np.arange(size.max) < size.values[..., None]
        valid = valid & align.apply(align.move((*size.dims, dim), x.dims, trailing=False), inside)
    return valid


@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 4], [0, 3]], ids=str)
@pytest.mark.parametrize("name", IN_NUMPY)
def test_numpy_agrees_with_torch(name, lengths):
    assert_agree(CASES[name], batch_of(lengths), OTHER_DTYPE.get(name))


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "bool"])
@pytest.mark.parametrize("name", IN_NUMPY)
def test_they_agree_in_other_types(name, dtype):
    """As far as torch has the op for this type."""
    batch = in_type(batch_of([3, 0, 2]), dtype)
    try:
        results(CASES[name], batch, "torch")
    except (RfError, RuntimeError, TypeError):
        return
    assert_agree(CASES[name], batch, OTHER_DTYPE.get(name))


@pytest.mark.parametrize("name", sorted(set(CASES) - set(IN_NUMPY)))
def test_what_numpy_lacks_says_so(name):
    with pytest.raises(BackendError, match="the numpy backend does not support this"):
        results(CASES[name], in_numpy(batch_of([2, 3])), "numpy")


def test_gradients_are_for_torch():
    x = in_numpy(batch_of([2, 3])).x
    for ask in (lambda: rf.gradient(x, x), lambda: rf.set_requires_gradient(x)):
        with pytest.raises(BackendError, match=r"(?s)numpy backend does not compute gradients.*torch"):
            ask()
    rf.select_backend("numpy")
    try:
        with rf.stop_gradient_scope():
            np.testing.assert_array_equal((x * 2).raw_tensor, x.raw_tensor * 2)
        with pytest.raises(BackendError, match="gradient_checkpoint_scope: the numpy backend does not support this"):
            rf.gradient_checkpoint_scope()
    finally:
        rf.select_backend("torch")


def test_loops_are_for_torch():
    batch = in_numpy(batch_of([2, 3]))
    rf.select_backend("numpy")
    try:
        with (
            pytest.raises(BackendError, match="the numpy backend does not support this"),
            rf.Loop(axis=batch.time) as loop,
        ):
            loop.stack(loop.unstack(batch.x))
    finally:
        rf.select_backend("torch")


def test_there_is_only_the_cpu():
    with pytest.raises(BackendError, match="on the CPU only"):
        rf.copy_to_device(in_numpy(batch_of([2])).x, "cuda")


BINARY = [kind for kind in torch_math.COMBINE if kind != "complex"]
COMPARE = list(torch_math.COMPARE)
UNARY = list(torch_math.ACTIVATION)
FLOAT_ONLY = "logaddexp gelu elu selu silu softplus softsign log_sigmoid".split()
NOT_OF_BOOL = "sub floordiv ceildiv mod pow squared_difference neg abs square sign relu round ceil floor".split()
DTYPES = ["bool", "int32", "int64", "float32", "float64"]


def numbers(dtype: str, seed: int, scalar: bool = False) -> rf.Tensor:
    """A few numbers, none of them 0 except in bool."""
    values = np.random.default_rng(seed).integers(1, 5, () if scalar else 6) * np.random.default_rng(seed + 9).choice(
        [-1, 1], () if scalar else 6
    )
    values = values > 0 if dtype == "bool" else values * (0.7 if dtype.startswith("float") else 1)
    return rf.convert_to_tensor(np.asarray(values, dtype), dims=[] if scalar else [SIX])


SIX = rf.Dim(6, name="six")


@pytest.mark.parametrize("name", [*BINARY, *COMPARE])
def test_types_of_two_operands(name):
    """Also with numbers of Python and tensors without axes, which count less."""
    for one in DTYPES:
        others = [*[(dtype, False) for dtype in DTYPES], *[(dtype, True) for dtype in DTYPES], 2, 1.5, True]
        for other in others:
            second = numbers(other[0], 1, other[1]) if isinstance(other, tuple) else other
            kinds = {one, other[0] if isinstance(other, tuple) else type(other).__name__}
            if (name in NOT_OF_BOOL and kinds == {"bool"}) or (name in FLOAT_ONLY and not any_float(kinds)):
                continue
            assert_same_numbers(lambda a, b: calculate(a, name, b), f"{one} {name} {other}", numbers(one, 0), second)


@pytest.mark.parametrize("name", UNARY)
def test_types_of_one_operand(name):
    for dtype in DTYPES:
        if (name in NOT_OF_BOOL and dtype == "bool") or (name in FLOAT_ONLY and not any_float({dtype})):
            continue
        assert_same_numbers(getattr(rf, name), f"{name} {dtype}", numbers(dtype, 0))


def calculate(a: rf.Tensor, kind: str, b: rf.Tensor | float) -> rf.Tensor:
    """`a` kind `b`, without what has no value: powers of negative numbers, division by 0."""
    if kind == "pow":
        a, b = (x * x if isinstance(x, rf.Tensor) and x.dtype != "bool" else x for x in (a, b))
    if kind in ("floordiv", "ceildiv", "mod"):
        b = rf.where(b == 0, 1, b) if isinstance(b, rf.Tensor) else b * 1
    return (rf.compare if kind in COMPARE else rf.combine)(a, kind, b)


def any_float(kinds: set[str]) -> bool:
    return any(kind.startswith("float") for kind in kinds)


def assert_same_numbers(op, what: str, *operands) -> None:
    expected = op(*operands)
    found = op(*[x.like(x.raw_tensor.numpy()) if isinstance(x, rf.Tensor) else x for x in operands])
    assert type(found.raw_tensor) is np.ndarray, what
    assert found.dtype == expected.dtype, what
    np.testing.assert_allclose(found.raw_tensor, expected.numpy(), rtol=1e-5, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("mode", "sum mean max min logsumexp any all argmax argmin".split())
def test_types_of_reductions(mode):
    for dtype in DTYPES:
        if (mode in ("mean", "logsumexp") and not any_float({dtype})) or (mode.startswith("arg") and dtype == "bool"):
            continue
        assert_same_numbers(lambda x: rf.reduce(x, mode=mode, axis=SIX), f"{mode} {dtype}", numbers(dtype, 0))


def test_both_have_the_same_elementwise_functions():
    for table in ("COMBINE", "COMPARE", "ACTIVATION"):
        assert set(vars(numpy_math)[table]) == set(vars(torch_math)[table]), table
