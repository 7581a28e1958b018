"""Branches, assertions, functions of raw tensors, and the dtype to compute in where less precision is enough."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.tape import opaque
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import SHAPES, Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import is_float_dtype
from rfnb.core.ground.scope import within
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError
from rfnb.ops.math import cast
from rfnb.printable import terminal_text

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


T = TypeVar("T")


OutDims = Sequence[Dim] | Sequence[Sequence[Dim]]


@op()
def raw_call(fn: Callable[..., object], *tensors: Tensor, out_dims: OutDims) -> Any:
    """fn(*raw tensors) as one op. → {out_dims}, or a tuple of Tensors

    In a loop, `fn` is called at every step, and once before on step 0 to find out its result. It may read values and
    print, but must not modify its arguments.

    >>> beam = rf.Dim(3, name="beam")
    >>> rf.raw_call(lambda x: x.argsort(-1), rf.range_over_dim(beam), out_dims=[beam]).raw_tensor.tolist()
    [0, 1, 2]

    out_dims: the dims of the result; or a list of dims for each result of a function that gives several.

    >>> x = rf.convert_to_tensor([3.0, 1.0, 2.0], dims=[beam])
    >>> values, order = rf.raw_call(lambda x: x.sort(-1), x, out_dims=[[beam], [beam]])
    >>> values.raw_tensor.tolist(), order.raw_tensor.tolist()
    ([1.0, 2.0, 3.0], [1, 2, 0])
    """
    backend = backends.backend_of_raw(tensors[0]._raw) if tensors else backends.selected()
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise DimError(f"raw_call: argument {position} is not an rf.Tensor", got=type(tensor).__name__)
    is_list = any(isinstance(part, list | tuple) for part in out_dims)
    dims: list[Any] = list(out_dims) if is_list else [out_dims]
    result = opaque(_Fresh(fn, backend, len(dims) if is_list else None), *[tensor._raw for tensor in tensors])
    outputs = [
        _under(raw, dims_out, join(*tensors) if tensors else current_lengths(dims_out))
        for raw, dims_out in zip(result if is_list else [result], dims, strict=True)
    ]
    return tuple(outputs) if is_list else outputs[0]


def _under(raw: RawTensor, dims: Sequence[Dim], lengths: Lengths) -> Tensor:
    """A result of a function of raw tensors as a Tensor {dims}."""
    shape = tuple(raw.shape)
    if len(shape) != len(dims) or any(d.dimension not in (None, n) for d, n in zip(dims, shape, strict=True)):
        raise DimError("raw_call: the result of `fn` has different axes", got=shape, expected=align.show_dims(dims))
    result = tensor_of(raw, align.sig(dims), lengths)
    result._raw = backends.backend_of_raw(raw).finite_padding(result)
    return result


@guarded
def cond(pred: Tensor | bool, true_fn: Callable[[], T], false_fn: Callable[[], T]) -> T:
    """The result of `true_fn` if `pred` {} is true, else that of `false_fn`. The other function is not called.

    >>> feat = rf.Dim(3, name="feat")
    >>> x = rf.convert_to_tensor([1.0, 2.0, 6.0], dims=[feat])
    >>> largest = rf.reduce_max(x, axis=feat)
    >>> rf.cond(largest > 5, lambda: x / largest, lambda: x).raw_tensor.tolist()
    [0.166..., 0.333..., 1.0]

    To choose entry by entry, use `rf.where`.

    In a loop body, where `pred` differs at every step, each step computes only the chosen side. Both are tried out on
    step 0: their results must have the same structure, dims (in any order) and dtype.

    >>> loop = rf.Loop(max_seq_len=3)
    >>> loop.state.n = rf.convert_to_tensor(6)
    >>> with loop:
    ...     n = loop.state.n
    ...     loop.state.n = rf.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
    ...     path = loop.stack(loop.state.n)
    >>> path.raw_tensor.tolist()
    [3, 10, 5]

    Raises DimError if `pred` has dims; DimError, DtypeError or LoopError if the sides differ in a loop.
    """
    for name, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(fn):
            raise DtypeError(
                f"cond: `{name}` is not a function",
                got=type(fn).__name__ if not isinstance(fn, Tensor) else f"the Tensor {called(fn)}",
                expected="a function that computes the value: only the chosen side is computed",
                hint=f"lambda: {called(fn)}; or rf.where(pred, a, b), which chooses between values",
            )
    if not isinstance(pred, Tensor):
        if not isinstance(pred, bool | int | np.bool_):
            raise DtypeError("cond: `pred` is not a condition", got=called(pred), expected="a Tensor {}, or a bool")
        return true_fn() if pred else false_fn()
    if pred.dims:
        raise DimError(
            "cond: `pred` has dims",
            got=pred.describe_dims(),
            expected="a scalar, which decides for all entries",
            hint="rf.where(pred, a, b) chooses entry by entry; or rf.reduce_any(pred, axis=…)",
        )
    listener = active_listener()
    choose = backends.backend_of_raw(pred._raw).cond if listener is None else listener.cond
    result: T = choose(pred, true_fn, false_fn)
    return result


@guarded
def assert_(condition: Tensor | bool, message: str, *, stop: bool = True) -> None:
    """Raises AssertionError with `message` unless `condition` is true everywhere; padding does not count.

    stop: if False, only warn. In a loop body, the condition is checked at every step.

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[2, 3], [4]], dims=[rf.batch_dim, time])
    >>> rf.assert_(x > 1, "more than one is needed")
    >>> rf.assert_(x > 2, "more than two are needed")
    Traceback (most recent call last):
    AssertionError: more than two are needed
    """
    if isinstance(condition, Tensor):
        _assert(condition, message, stop)
    elif not condition:
        _complain(message, stop)


@op(effect=True, name="assert")
def _assert(condition: Tensor, message: str, stop: bool) -> None:
    backend = backends.backend_of_raw(condition._raw)
    holds = backend.reduce(condition, mode="all", axis=condition.dims)

    def check(raw: RawTensor) -> None:
        if not backend.all_true_raw(raw):
            _complain(message, stop)

    opaque(check, holds._raw, gives=False)


def _complain(message: str, stop: bool) -> None:
    if stop:
        raise AssertionError(message)
    warnings.warn(terminal_text(message), stacklevel=4)


_flow: ContextVar[object] = ContextVar("rfnb_control_flow", default=None)


def get_current_control_flow_ctx() -> Any:
    """The context set by `control_flow_ctx`; None outside. rfnb computes eagerly and never sets one itself.

    >>> print(rf.get_current_control_flow_ctx())
    None
    """
    return _flow.get()


@contextmanager
def control_flow_ctx(ctx: object = None) -> Iterator[Any]:
    """Makes `ctx` the current control flow context inside the block.

    >>> with rf.control_flow_ctx("branch"):
    ...     rf.get_current_control_flow_ctx()
    'branch'
    """
    with within(_flow, ctx):
        yield ctx


def is_static_traceable() -> bool:
    """Whether code must not branch on values, as for a CUDA graph.

    rfnb's own ops never branch on values, except those whose result has a size that depends on values. Dims without a
    fixed size or a capacity have no size then.

    >>> rf.is_static_traceable()
    False
    """
    return bool(SHAPES["fixed"])


def set_static_traceable(flag: bool) -> None:
    """Sets whether code must not branch on values.

    >>> rf.set_static_traceable(True)
    >>> rf.is_static_traceable()
    True
    >>> rf.set_static_traceable(False)
    """
    SHAPES["generation"] += flag and not SHAPES["fixed"]
    SHAPES["fixed"] = flag


@contextmanager
def set_static_traceable_ctx(flag: bool = True) -> Iterator[None]:
    """Sets whether code must not branch on values, inside the block.

    >>> with rf.set_static_traceable_ctx():
    ...     inside = rf.is_static_traceable()
    >>> inside, rf.is_static_traceable()
    (True, False)
    """
    previous = is_static_traceable()
    set_static_traceable(flag)
    try:
        yield
    finally:
        SHAPES["fixed"] = previous


def static_traceable_generation() -> int:
    """How often `set_static_traceable` was switched on. Values cached in one generation are invalid in the next.

    >>> before = rf.static_traceable_generation()
    >>> with rf.set_static_traceable_ctx():
    ...     rf.static_traceable_generation() - before
    1
    """
    return SHAPES["generation"]


class _Fresh:
    """Calls a function at each step of a loop, and checks that the shapes of its results stay the same.

    A result that is one of the arguments is copied: a tape would take it for the same value."""

    def __init__(self, fn: Callable[..., object], backend: type[Backend], count: int | None):
        self._fn, self._backend, self._count = fn, backend, count
        self._shapes: list[tuple[int, ...]] | None = None

    def __call__(self, *raws: RawTensor) -> Any:
        result = self._fn(*raws)
        parts = self._checked(result)
        shapes = [tuple(part.shape) for part in parts]
        if self._shapes not in (None, shapes):
            raise DimError(
                "raw_call: the shape of the result of `fn` changes between steps", got=shapes, expected=self._shapes
            )
        self._shapes = shapes
        fresh = tuple(self._backend.identity_raw(x) if any(x is raw for raw in raws) else x for x in parts)
        return fresh[0] if self._count is None else fresh

    def _checked(self, result: object) -> tuple[Any, ...]:
        """The results as a tuple. Raises DtypeError if they are not raw tensors, as many as `out_dims` says."""
        parts = tuple(result) if isinstance(result, list | tuple) else (result,)
        single = self._count is None and not isinstance(result, list | tuple)
        if not (single or len(parts) == self._count) or not all(hasattr(part, "shape") for part in parts):
            raise DtypeError(
                "raw_call: the result of `fn` is not what `out_dims` describes",
                got=f"{type(result).__name__} of {', '.join(type(part).__name__ for part in parts) or 'nothing'}",
                expected="a raw tensor" if self._count is None else f"{self._count} raw tensors",
                hint=None if single else "out_dims=[[…], […]], a list of dims for each result",
            )
        return parts


COMPUTE_DTYPES = ("bfloat16", "float16", "float32", "float64")


@dataclass(frozen=True)
class AmpPolicy:
    """compute_dtype: the dtype of large products: "bfloat16" or "float16".

    >>> rf.AmpPolicy("bfloat16")
    AmpPolicy(compute_dtype='bfloat16')
    """

    compute_dtype: str

    def __post_init__(self) -> None:
        if self.compute_dtype not in COMPUTE_DTYPES:
            raise DtypeError(
                "AmpPolicy: `compute_dtype` must be a float type to compute in",
                got=repr(self.compute_dtype),
                expected=" or ".join(map(repr, COMPUTE_DTYPES)),
            )


_policy: AmpPolicy | None = None


def get_amp_policy() -> AmpPolicy | None:
    """The current policy. None: all tensors keep their dtype.

    >>> print(rf.get_amp_policy())
    None
    >>> with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
    ...     rf.get_amp_policy()
    AmpPolicy(compute_dtype='bfloat16')
    """
    return _policy


def set_amp_policy(policy: AmpPolicy | None) -> None:
    """Sets the current policy.

    >>> rf.set_amp_policy(rf.AmpPolicy("bfloat16"))
    >>> rf.amp_cast_compute(rf.ones([rf.Dim(2, name="feat")])).dtype
    'bfloat16'
    >>> rf.set_amp_policy(None)

    To set it inside a block only, use `rf.set_amp_policy_ctx`. Raises DtypeError if `policy` is not an AmpPolicy.
    """
    global _policy
    if policy is not None and not isinstance(policy, AmpPolicy):
        raise DtypeError(
            "set_amp_policy: `policy` is not an rf.AmpPolicy", got=repr(policy), hint=f"rf.AmpPolicy({policy!r})"
        )
    _policy = policy


@contextmanager
def set_amp_policy_ctx(policy: AmpPolicy | None) -> Iterator[None]:
    """Sets the current policy inside the block.

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
    ...     inside = rf.amp_cast_compute(x)
    >>> inside.dtype, rf.amp_cast_compute(x).dtype
    ('bfloat16', 'float32')
    """
    previous = _policy
    set_amp_policy(policy)
    try:
        yield
    finally:
        set_amp_policy(previous)


@guarded
def amp_cast_compute(*tensors: Tensor | None) -> Any:
    """`tensors` with floats cast to the dtype of the policy; integers and None stay. One tensor, or a tuple of several.

    {…}, … → the same

    >>> feat = rf.Dim(2, name="feat")
    >>> with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
    ...     x, positions, bias = rf.amp_cast_compute(rf.ones([feat]), rf.range_over_dim(feat), None)
    >>> x.dtype, positions.dtype, bias
    ('bfloat16', 'int64', None)
    """
    return _cast_all(tensors, None if _policy is None else _policy.compute_dtype)


@guarded
def amp_cast_float32(*tensors: Tensor | None) -> Any:
    """If a policy is set, `tensors` with floats cast to float32, for sums and exponents. One tensor, or a tuple.

    {…}, … → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")], dtype="bfloat16")
    >>> with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
    ...     inside = rf.amp_cast_float32(x)
    >>> inside.dtype, rf.amp_cast_float32(x).dtype
    ('float32', 'bfloat16')
    """
    return _cast_all(tensors, None if _policy is None else "float32")


def _cast_all(tensors: tuple[Tensor | None, ...], dtype: str | None) -> object:
    cast_ones = tuple(
        x if x is None or dtype is None or not is_float_dtype(x.dtype) else cast(x, dtype) for x in tensors
    )
    return cast_ones[0] if len(cast_ones) == 1 else cast_ones
