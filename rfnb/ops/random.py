"""Random tensors, noise on tensors, and labels drawn at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

import numpy as np

from rfnb.backend.base.create import PARAMETERS
from rfnb.backend.base.index import warn_once
from rfnb.backend.base.tape import current_tape
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.ground import backends
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import get_default_device, get_default_float_dtype, get_default_int_dtype
from rfnb.core.ground.source import line_of_user, user_source
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import OneOf, Probability
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError, ParameterError, TraceError
from rfnb.ops.index import search_sorted, top_k
from rfnb.ops.math import add, log, minimum, mul, neg
from rfnb.ops.reduce import reduce_argmax, reduce_sum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import cumsum

Number = float | Tensor
Seed = int | Sequence[int] | np.ndarray


_HANDLED_HERE = {"algorithm", "auto_update_state", "static"}
"""Options of `random` that backends do not get."""


@guarded
def random(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    distribution: Annotated[str, OneOf(*PARAMETERS)],
    mean: Number | None = None,
    stddev: Number | None = None,
    bound: Number | None = None,
    minval: Number | None = None,
    maxval: Number | None = None,
    seed: Seed | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Random numbers. No gradient flows to the parameters of a distribution. → {dims}

    They are drawn from the global generator (`rf.set_random_seed`), or, in a loop, from the stream of this op, unless
    one of `seed`, `explicit_state` and `static` says otherwise.

    >>> feat = rf.Dim(2, name="feat")
    >>> a, b = [rf.random([feat], distribution="normal", seed=[3, i]) for i in (0, 0)]
    >>> bool(rf.reduce_all(a == b, axis=feat))
    True

    Args:
        distribution: "uniform" in [minval, maxval), by default [0, 1); "normal" (mean, stddev); "truncated_normal", a
            normal distribution cut at minval and maxval, by default two stddev around the mean; "bernoulli", 1 with
            probability `mean`.
        mean, stddev, minval, maxval: numbers, or Tensors {…} with some of `dims`.
        bound: short for the range [-bound, bound) of "uniform".
        seed: seed of a new generator for this call, which so gives the same numbers at every call.
        algorithm: accepted for compatibility and ignored.
        explicit_state: a Tensor of integers that is used as the seed.
        auto_update_state: add 1 to `explicit_state`, a Parameter, after the draw.
        static: use no generator state; the default `seed` is then `rf.get_static_step_based_seed()`.
        out: a Tensor {dims} to write into, which is also the result.
    """
    options = {name: value for name, value in locals().items() if name not in _HANDLED_HERE}
    if static and seed is None and explicit_state is None:
        options["seed"] = get_static_step_based_seed()
    options["dtype"] = dtype or (get_default_int_dtype() if sparse_dim else get_default_float_dtype())
    options["device"] = device or get_default_device()
    result = _random(**options)
    if explicit_state is not None and auto_update_state:
        if not isinstance(explicit_state, Parameter):
            raise ParameterError(
                "random: `explicit_state` must be a Parameter to be updated",
                got=explicit_state.describe_dims(),
                hint="rf.Parameter(…)",
            )
        explicit_state.assign_add(1)
    return result


@op(random=True, name="random")
def _random(**options: object) -> Tensor:
    return backends.selected().random(**options)


@guarded
def random_uniform(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    minval: Number = 0,
    maxval: Number = 1,
    seed: Seed | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Uniformly distributed numbers in [minval, maxval); integers with an integer `dtype`. → {dims}

    >>> x = rf.random_uniform([rf.Dim(1000)], minval=2, maxval=5, dtype="int32")
    >>> sorted(set(x.raw_tensor.tolist()))
    [2, 3, 4]
    """
    return random(distribution="uniform", **locals())


@guarded
def random_normal(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    seed: Seed | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Normally distributed numbers. → {dims}

    >>> rf.random_normal([rf.Dim(1000)], mean=100.0).raw_tensor.mean().round().item()
    100.0
    """
    return random(distribution="normal", **locals())


@guarded
def random_truncated_normal(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    mean: Number = 0.0,
    stddev: Number = 1.0,
    minval: Number | None = None,
    maxval: Number | None = None,
    seed: Seed | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Normally distributed numbers, cut at minval and maxval, by default two stddev around the mean. → {dims}

    >>> rf.random_truncated_normal([rf.Dim(1000)]).raw_tensor.abs().max().item() <= 2
    True
    """
    return random(distribution="truncated_normal", **locals())


def set_random_seed(seed: int) -> None:
    """Seeds the global generators of all devices.

    >>> draws = []
    >>> for _ in range(2):
    ...     rf.set_random_seed(3)
    ...     draws.append(rf.random_normal([]).item())
    >>> draws[0] == draws[1]
    True
    """
    if (tape := current_tape()) is not None and not tape.paused:
        raise TraceError(
            "set_random_seed is called in the body of a loop, which runs only once",
            hint="call it before the loop: each step draws different numbers, and the same seed gives the same numbers",
        )
    backends.selected().set_random_seed(seed)


def get_random_state() -> dict[str, bytes]:
    """The states of the global generators, by device.

    >>> feat = rf.Dim(4, name="feat")
    >>> state = rf.get_random_state()
    >>> x = rf.random_normal([feat])
    >>> rf.set_random_state(state)
    >>> rf.reduce_all(rf.random_normal([feat]) == x, axis=feat).item()
    True
    """
    return backends.selected().get_random_state()


def set_random_state(state: dict[str, bytes]) -> None:
    """Restores a state from `get_random_state`. States of missing devices are skipped.

    >>> feat = rf.Dim(4, name="feat")
    >>> state, draws = rf.get_random_state(), []
    >>> for _ in range(2):
    ...     rf.set_random_state(state)
    ...     draws.append(rf.random_uniform([feat]).raw_tensor.tolist())
    >>> draws[0] == draws[1]
    True
    """
    backends.selected().set_random_state(state)


_static_seeds: np.random.Generator | None = None  # made on first use: numpy imports `random` lazily


def reset_step_random_state() -> None:
    """Restarts the seeds of `get_static_step_based_seed`. To be called at the start of a step.

    >>> rf.reset_step_random_state()
    >>> first = rf.get_static_step_based_seed()
    >>> rf.reset_step_random_state()
    >>> rf.get_static_step_based_seed() == first
    True
    """
    global _static_seeds
    _static_seeds = np.random.default_rng(0)


def get_static_step_based_seed(*, size: int | Sequence[int] | None = None) -> int | np.ndarray:
    """The next seed for `rf.random(…, static=True)`; each step gets the same sequence of seeds.

    size: the shape of an array of seeds; by default a single int.

    >>> rf.reset_step_random_state()
    >>> seeds = rf.get_static_step_based_seed(), rf.get_static_step_based_seed()
    >>> rf.reset_step_random_state()
    >>> seeds == (rf.get_static_step_based_seed(), rf.get_static_step_based_seed()), seeds[0] == seeds[1]
    (True, False)
    """
    if _static_seeds is None:
        reset_step_random_state()
    seeds = _static_seeds.integers(2**31, size=size)  # type: ignore[union-attr]
    return int(seeds) if size is None else seeds


_dropout_broadcast: bool | None = None


def dropout_broadcast_default() -> bool:
    """Whether modules share dropout over all dims but the features.

    >>> rf.dropout_broadcast_default()
    True

    Your own modules follow it with `rf.dropout(x, 0.1, axis=rf.dropout_broadcast_default() and x.feature_dim)`.
    """
    return _dropout_broadcast is not False


def attention_dropout_broadcast_default() -> bool:
    """Whether attention shares the dropout of its weights over all dims but the keys: only if this was set."""
    return _dropout_broadcast is True


def set_dropout_broadcast(shared: bool | None) -> None:
    """Sets whether modules share dropout: the same features of all frames and sequences, the same keys of all queries.

    None, the default: features are shared, which takes less time and memory, and the keys of attention are not. An
    option of a module, such as `att_dropout_broadcast`, has precedence. Raises DtypeError for anything else.

    >>> rf.set_dropout_broadcast(False)
    >>> rf.dropout_broadcast_default()
    False
    >>> rf.set_dropout_broadcast(None)

    To change it temporarily, use `rf.set_dropout_broadcast_ctx`.
    """
    global _dropout_broadcast
    if not isinstance(shared, bool | None):
        raise DtypeError(
            "set_dropout_broadcast: `shared` is not a bool", got=repr(shared), expected="True, False or None"
        )
    _dropout_broadcast = shared


@contextmanager
def set_dropout_broadcast_ctx(shared: bool | None) -> Iterator[None]:
    """Sets whether modules share dropout inside the block, as `rf.set_dropout_broadcast` does.

    >>> with rf.set_dropout_broadcast_ctx(False):
    ...     inside = rf.dropout_broadcast_default()
    >>> inside, rf.dropout_broadcast_default()
    (False, True)
    """
    previous = _dropout_broadcast
    set_dropout_broadcast(shared)
    try:
        yield
    finally:
        set_dropout_broadcast(previous)


Axis = Dim | Sequence[Dim] | Literal[False] | None


@guarded
def dropout(source: Tensor, drop_prob: Probability, *, axis: Axis = None, on_forward: bool = False) -> Tensor:
    """In training, sets each entry to 0 with probability `drop_prob`, and scales up the others. {…} → the same

    >>> x = rf.dropout(rf.ones([rf.Dim(1000)]), 0.5, on_forward=True)
    >>> sorted(set(x.raw_tensor.tolist()))
    [0.0, 2.0]

    Args:
        axis: dims along which entries are dropped independently; by default, or if False, all dims.
        on_forward: also drop outside of training.
    """
    if drop_prob == 0 or not (on_forward or in_training(source, func=dropout)):
        return source
    return _dropout(source, drop_prob, axis=axis)


def in_training(x: Tensor, *, func: Callable[..., object]) -> bool:
    """Whether this is training for `func`, which leaves `x` as it is otherwise.

    Warns when a loss is differentiated through `x`, if it is not training because no step was begun.
    """
    ctx = get_run_ctx()
    if ctx.is_train_flag_enabled(func=func):
        return True
    if ctx.is_undecided:
        _watch(x, func.__qualname__.removesuffix(".__call__"))
    return False


def _watch(x: Tensor, name: str) -> None:
    line, tape = None, current_tape()

    def warn(gradient: object) -> None:
        warn_once("training", error, line_of_user() or line)

    def error() -> ParameterError:
        return ParameterError(
            f"{name} ran as in inference where this loss was computed",
            got="no step was begun, which counts as not training",
            expected="rf.init_train_step_run_ctx() before the model is called",
            hint="rf.init_forward_step_run_ctx() says that this is inference",
        )

    if tape is not None:
        tape.gradient_watchers[name] = warn
    elif backend_of_raw(x._raw).watch_gradient_raw(x._raw, warn):
        line = user_source()


@op(random=True, name="dropout")
def _dropout(source: Tensor, drop_prob: float, *, axis: Axis) -> Tensor:
    dims = source.dims if axis is None or axis is False else as_dims(axis)
    check_dims(dims, "dropout")
    return backend_of_raw(source._raw).dropout(source, drop_prob, dims)


@guarded
def random_choice_with_replacement(dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
    """A label for each position of `dims`, drawn independently with the probabilities `probs`.

    {…, axis} → {dims} sparse in axis

    The probabilities need not sum to 1. Where they sum to 0 or NaN, the label is arbitrary.

    >>> word, draws = rf.Dim(3, name="word"), rf.Dim(4, name="draws")
    >>> probs = rf.convert_to_tensor([0.0, 1.0, 0.0], dims=[word])
    >>> rf.random_choice_with_replacement([draws], probs=probs, axis=word).raw_tensor.tolist()
    [1, 1, 1, 1]
    """
    missing = [dim for dim in probs.dims if dim is not axis and dim not in dims]
    if missing:
        raise DimError(
            f"random_choice_with_replacement: `dims` lacks {missing[0].name}, which `probs` has",
            got=align.show_dims(dims),
            expected=probs.describe_dims(),
        )
    total = cumsum(probs, spatial_dim=axis)
    point = random_uniform(dims, dtype=probs.dtype, device=probs.device)
    threshold = mul(point, reduce_sum(probs, axis=axis))
    index = search_sorted(total, threshold, axis=axis, side="right", out_dtype="int64")
    final = reduce_argmax(total, axis=axis)  # with a probability above 0
    return set_sparse_dim(minimum(index, final).copy_transpose(dims), axis)


@guarded
def random_choice_without_replacement(
    *, log_probs: Tensor, axis: Dim | Sequence[Dim], num_samples_dim: Dim, noise_scale: float | Tensor = 1.0
) -> Tensor | list[Tensor]:
    """Distinct labels, drawn with their probabilities.

    {…, axis} → {…, num_samples_dim} sparse in axis

    The Gumbel-top-k trick, https://arxiv.org/abs/1903.06059. The labels come in the order in which they were drawn.

    >>> word, draws = rf.Dim(3, name="word"), rf.Dim(2, name="draws")
    >>> log_probs = rf.log(rf.convert_to_tensor([0.5, 0.0, 0.5], dims=[word]))
    >>> sorted(rf.random_choice_without_replacement(
    ...     log_probs=log_probs, axis=word, num_samples_dim=draws).raw_tensor.tolist())
    [0, 2]

    Args:
        axis: for a list of dims, the result is a list of labels, one for each dim.
        noise_scale: with 0, the most probable labels are taken.
    """
    noise = random_uniform(log_probs.dims, minval=1e-30, dtype=log_probs.dtype, device=log_probs.device)
    gumbel = neg(log(neg(log(noise))))
    entries = math.prod(log_probs.size_of(dim).max for dim in ([axis] if isinstance(axis, Dim) else axis))
    if num_samples_dim.get_dim_value() > entries:
        raise DimError(
            "random_choice_without_replacement: `num_samples_dim` is larger than the number of entries",
            got=num_samples_dim.get_dim_value(),
            expected=f"at most {entries}",
        )
    return top_k(add(log_probs, mul(gumbel, noise_scale)), axis=axis, k_dim=num_samples_dim)[1]
