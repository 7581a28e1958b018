"""Elementwise ops on torch tensors, and products."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import functional

from rfnb.backend.torch.data import dtype_of
from rfnb.errors import DtypeError


def _sub(a: Any, b: Any) -> torch.Tensor:
    """a - b, also with bool operands, which count as 0 and 1 next to numbers."""
    try:
        return torch.sub(a, b)
    except RuntimeError:
        kind = torch.result_type(a, b)
        if kind is torch.bool:
            raise DtypeError("sub: booleans cannot be subtracted", got="bool and bool", hint="a != b") from None
        return torch.sub(*[x.to(kind) if isinstance(x, torch.Tensor) else x for x in (a, b)])


def _floordiv(a: Any, b: Any) -> torch.Tensor:
    """⌊a / b⌋, with a gradient, which is 0."""
    return torch.div(a, b, rounding_mode="floor")


def _ceildiv(a: Any, b: Any) -> torch.Tensor:
    """⌈a / b⌉, with a gradient, which is 0."""
    if torch.result_type(a, b) is torch.uint8:  # which has no -b
        return torch.div(a, b, rounding_mode="floor") + torch.remainder(a, b).bool()
    return -torch.div(a, -b, rounding_mode="floor")


def _logaddexp(a: object, b: object) -> torch.Tensor:
    """log(exp(a) + exp(b)), also for integers."""
    return torch.logaddexp(*_floats(*_tensors(a, b)))


def _complex(a: object, b: object) -> torch.Tensor:
    """a + ib, in the higher precision of the two, at least single."""
    a, b = _tensors(a, b)
    kind = torch.float64 if torch.result_type(a, b) is torch.float64 else torch.float32
    return torch.complex(a.to(kind), b.to(kind))


COMBINE: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": _sub,
    "mul": torch.mul,
    "truediv": torch.true_divide,
    "floordiv": _floordiv,
    "ceildiv": _ceildiv,
    "mod": torch.remainder,
    "pow": torch.pow,
    "maximum": lambda a, b: torch.maximum(*_tensors(a, b)),
    "minimum": lambda a, b: torch.minimum(*_tensors(a, b)),
    "logical_and": lambda a, b: torch.logical_and(*_tensors(a, b)),
    "logical_or": lambda a, b: torch.logical_or(*_tensors(a, b)),
    "squared_difference": lambda a, b: torch.square(_sub(a, b)),
    "logaddexp": _logaddexp,
    "complex": _complex,
}
COMPARE: dict[str, Callable[..., torch.Tensor]] = {
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
}
ACTIVATION: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "ceil": torch.ceil,
    "floor": torch.floor,
    "round": torch.round,
    "sign": torch.sign,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log_sigmoid": functional.logsigmoid,
    "relu": torch.relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "logical_not": torch.logical_not,
    "is_finite": torch.isfinite,
    "is_infinite": torch.isinf,
    "is_neg_infinite": torch.isneginf,
}


def _tensors(a: Any, b: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Both operands as tensors, for functions that do not accept numbers."""
    if not isinstance(a, torch.Tensor):
        a = torch.as_tensor(a, dtype=torch.result_type(b, a), device=b.device)
    elif not isinstance(b, torch.Tensor):
        b = torch.as_tensor(b, dtype=torch.result_type(a, b), device=a.device)
    return a, b


def _floats(*raws: torch.Tensor) -> list[torch.Tensor]:
    kind = functools.reduce(torch.promote_types, [raw.dtype for raw in raws])
    return list(raws) if kind.is_floating_point else [raw.to(torch.get_default_dtype()) for raw in raws]


class TorchMath:
    """The raw part of `backend.base.math` and `matmul`."""

    @staticmethod
    def combine_raw(a: torch.Tensor, kind: str, b: torch.Tensor) -> torch.Tensor:
        """a kind b"""
        return COMBINE[kind](a, b)

    @staticmethod
    def compare_raw(a: torch.Tensor, kind: str, b: torch.Tensor) -> torch.Tensor:
        """a kind b"""
        return COMPARE[kind](a, b)

    @staticmethod
    def activation_raw(raw_tensor: torch.Tensor, func: str) -> torch.Tensor:
        """func(raw_tensor)"""
        return ACTIVATION[func](raw_tensor)

    combine_function = staticmethod(COMBINE.__getitem__)
    compare_function = staticmethod(COMPARE.__getitem__)
    activation_function = staticmethod(ACTIVATION.__getitem__)
    where_raw = staticmethod(torch.where)

    @staticmethod
    def cast_raw(raw_tensor: torch.Tensor, dtype: str) -> torch.Tensor:
        """The same values in another dtype."""
        return raw_tensor.to(dtype_of(dtype))

    @staticmethod
    def complex_as_real_raw(raw_tensor: torch.Tensor) -> torch.Tensor:
        """The real and the imaginary part along a new last axis."""
        return torch.view_as_real(raw_tensor.resolve_conj())

    @staticmethod
    def clip_raw(raw_tensor: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
        """The values limited to the range from low to high: tensors, numbers or None."""
        if low is None and high is None:
            return raw_tensor
        if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
            low, high = (None if bound is None else _tensors(raw_tensor, bound)[1] for bound in (low, high))
        return torch.clamp(raw_tensor, low, high)

    @staticmethod
    def matmul_raw(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Σ over the last axis of `a` and the second last of `b`, the same with gradients as without.

        For rows that are not contiguous, torch chooses a kernel that depends on whether gradients are recorded, so a
        replay would differ in the last bits.
        """
        if a.is_contiguous() or not b.ndim == 2 < a.ndim:
            return torch.matmul(a, b)
        return torch.mm(a.flatten(0, -2), b).unflatten(0, a.shape[:-1])

    @staticmethod
    def einsum_raw(
        a: torch.Tensor, axes_a: Sequence[int], b: torch.Tensor, axes_b: Sequence[int], axes_out: Sequence[int]
    ) -> torch.Tensor:
        """Σ over the axes that are not in `axes_out`."""
        return torch.einsum(a, list(axes_a), b, list(axes_b), list(axes_out))

    @staticmethod
    def linear_raw(raw: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transpose: bool) -> torch.Tensor:
        """raw · weight + bias over the last axis; `transpose` if the weight is [in, out]."""
        return functional.linear(raw, weight.t() if transpose else weight, bias)

    @staticmethod
    def linear_of_rows_raw(
        raw: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        transpose: bool,
        rows: torch.Tensor,
        places: torch.Tensor,
        axes: int,
    ) -> torch.Tensor:
        """`linear_raw` of all `rows` but the last; then, for each row of the result, its place in these, on a CPU.

        The last of `rows` stands for all padding, which becomes 0 and gets no gradient.
        """
        if not _takes_rows(raw, weight):
            return TorchMath.linear_raw(raw, weight, bias, transpose)
        weight = weight.t() if transpose else weight
        result = _LinearOfRows.apply(raw.flatten(0, axes - 1), weight, bias, rows, places)
        return result.unflatten(0, raw.shape[:axes])


def _takes_rows(raw: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether `_LinearOfRows` can compute it, and is known to be faster."""
    plain = raw.is_cpu and type(raw) is torch.Tensor and type(weight) in (torch.Tensor, torch.nn.Parameter)
    transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    return plain and not (transformed or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())


class _LinearOfRows(torch.autograd.Function):
    """It keeps no more than `linear`: the rows are taken from its argument again for the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        raw: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        rows: torch.Tensor,
        places: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(raw, weight, rows, places)
        values = functional.linear(raw.index_select(0, rows), weight, bias)
        values[-1] = 0
        return values.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        raw, weight, rows, places = ctx.saved_tensors
        of_raw, of_weight, of_bias = ctx.needs_input_grad[:3]
        gradient = gradient.index_select(0, rows)
        gradient[-1] = 0
        for_bias = gradient.sum(0) if of_bias else None
        for_weight = gradient.t() @ raw.index_select(0, rows) if of_weight else None
        gradient = gradient @ weight if of_raw else None  # frees the other
        return None if gradient is None else gradient.index_select(0, places), for_weight, for_bias, None, None
