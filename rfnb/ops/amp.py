"""The dtype to compute in where full precision is not needed.

>>> x = rf.ones([rf.Dim(2)])
>>> with rf.set_amp_policy_ctx(rf.AmpPolicy("bfloat16")):
...     rf.amp_cast_compute(x).dtype
'bfloat16'

The policy affects only code that calls `amp_cast_compute` and `amp_cast_float32`. `torch.autocast` decides for each
kernel instead, and works with all ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rfnb.core.ground.default import is_float_dtype
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError
from rfnb.ops.math import cast

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
