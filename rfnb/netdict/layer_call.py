"""What happens in each call of a layer, whatever its class.

Parameters that differ for one call (with noise, with dropout, or the outputs of other layers), batch normalization of
the output, exact logarithms of probabilities, and errors that say at which layer and line of the config they arose.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import is_users, steps_of
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError, NetworkError, RfError
from rfnb.netdict.axes import renamed
from rfnb.netdict.options import REQUIRED, Option, value
from rfnb.netdict.versions import holds
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import rsqrt, safe_log as clipped_log
from rfnb.ops.norm import moments
from rfnb.ops.random import dropout, random_normal
from rfnb.ops.shape import merge_dims

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer


Renaming = list[tuple[Dim, Dim]]


@dataclass(eq=False)
class Changes:
    """What a layer does to its parameters in each call.

    Attributes:
        dropout: the share of entries that are 0 in training, of parameters with `min_ndim` axes or more. noise: the
            standard deviation of what is added in training (Graves 2011).
        given: by the names of parameters, the inputs of the layer that stand for them, and the dims that they get.
        shared: by name, the dims that parameters of another layer get here, where theirs are others.
        now: the parameters of the current call, by name. held: whether they stay for all steps of a loop.
    """

    dropout: float = 0.0
    min_ndim: int = 0
    noise: float = 0.0
    given: dict[str, tuple[str, Renaming]] = field(default_factory=dict)
    shared: dict[str, Renaming] = field(default_factory=dict)
    now: dict[str, Tensor] = field(default_factory=dict)
    held: bool = False

    def __bool__(self) -> bool:
        return bool(self.dropout or self.noise or self.given or self.shared)

    @property
    def of_values(self) -> bool:
        """Whether the parameters of a call have other values, and not only other dims."""
        return bool(self.dropout or self.noise or self.given)

    def of(self, name: str, parameter: Tensor) -> Tensor:
        """A parameter with the dims of this layer, and with dropout and noise, if this is training."""
        x = renamed(parameter, self.shared.get(name, ()))
        if not get_run_ctx().is_train_flag_enabled() or not getattr(parameter, "trainable", True):
            return x
        if self.dropout and len(x.dims) >= self.min_ndim:
            x = dropout(x, self.dropout, axis=list(x.dims))
        if self.noise:
            x = x + random_normal(x.dims, stddev=self.noise, dtype=x.dtype, device=x.device)
        return x


@contextmanager
def changed_parameters(layer: Layer, inputs: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Inside, the layer has the parameters of one call. Gives the inputs that are not parameters."""
    changes = layer.spec.changes
    assert changes is not None
    plain_inputs = {name: x for name, x in inputs.items() if all(name != key for key, _ in changes.given.values())}
    if changes.held:
        yield plain_inputs
        return
    parameters = {name: part for name, part in vars(layer).items() if isinstance(part, Parameter)}
    previous = {**parameters, **{name: vars(layer)[name] for name in changes.given}}
    changed = {name: changes.of(name, part) for name, part in parameters.items()}
    for name, (key, pairs) in changes.given.items():
        if key in inputs:
            changed[name] = changes.of(name, renamed(inputs[key], pairs))
    changes.now = {name: x for name, x in changed.items() if x is not parameters.get(name)}
    vars(layer).update(changes.now)
    try:
        yield plain_inputs
    finally:
        vars(layer).update(previous)
        changes.now = {}


@contextmanager
def held_parameters(layer: Layer) -> Iterator[None]:
    """Inside, all calls of the layer have the same noise and dropout: those of the steps of a loop."""
    changes = layer.spec.changes
    assert changes is not None
    with changed_parameters(layer, {}):
        changes.held = True
        try:
            yield
        finally:
            changes.held = False


def renaming(x: Tensor, dims: Sequence[Dim]) -> Renaming:
    """Which dims of a layer's output, in their declared order, become those of a parameter: first others, then these.

    Raises NetworkError if the sizes differ.
    """
    if [dim.dimension for dim in x.dims] != [dim.dimension for dim in dims]:
        expected = ", ".join(dim.describe() for dim in dims)
        raise NetworkError("a layer in place of a parameter has other dims", got=x.describe_dims(), expected=expected)
    between = [Dim(dim.dimension, name=dim.name) for dim in dims]
    return [*zip(x.dims, between, strict=True), *zip(between, with_priorities(dims), strict=True)]


def with_priorities(dims: Sequence[Dim]) -> list[Dim]:
    """The dims of a parameter: of equal ones, all but the last have a higher match priority."""
    return [dim_match_priority_when_needed(dim, *dims[i + 1 :]) for i, dim in enumerate(dims)]


def input_first(weight: Tensor, out: Dim, into: Dim, dim: Dim) -> Tensor:
    """A weight with equal dims of input and output, where that of the input has the higher priority, as ops want it.

    out, into: those of the weight now. dim: both of them, without a priority.
    """
    between = Dim(dim.dimension, name="out")
    return renamed(weight, [(out, between), (into, dim.copy(match_priority=1)), (between, dim)])


BATCH_NORM: dict[str, Option] = {
    "momentum": value(None, float),
    "epsilon": value(1e-3, float),
    "use_sample": value(0.0, float),
    "force_sample": value(False, bool),
    "use_std": value(True, bool),
    "use_shift": value(True, bool),
    "gamma_init": value(1.0),
    "beta_init": value(0.0),
    "masked_time": value(None, bool),
    "param_version": value(None, int),
    **dict.fromkeys("update_sample_only_in_training delay_sample_update".split(), value(None)),
    **dict.fromkeys("update_sample_masked_time fused fused_bn".split(), value(None)),  # of no effect on the values
}
"""The options of batch normalization; None depends on the version."""


@dataclass
class BatchNormCall:
    """(x − mean) / √(variance + ε) · gamma + beta (Ioffe & Szegedy 2015), in training by statistics of the batch."""

    layer: Layer
    opts: dict[str, Any]
    in_dim: Dim
    names: dict[str, str]
    ones: tuple[Dim, ...]

    @classmethod
    def of(cls, layer: Layer, x: Tensor, given: dict[str, object]) -> BatchNormCall:
        """Makes the parameters of the layer. x: a template. Raises NetworkError for an unknown option."""
        unknown = [name for name in given if name not in BATCH_NORM]
        if unknown or x.feature_dim is None:
            fault = f"batch_norm: unknown option {unknown[0]!r}" if unknown else "batch_norm needs features"
            raise NetworkError(fault, got=x.describe_dims(), expected=", ".join(BATCH_NORM))
        opts = {name: option.default for name, option in BATCH_NORM.items()}
        opts |= {name: value for name, value in given.items() if value is not None}
        newer = holds("batch_norm is of version 2", layer.spec.version)
        if opts["masked_time"] is None and newer:
            raise NetworkError("batch_norm: masked_time is missing", expected='"masked_time": True')
        defaults = {"momentum": 0.1 if newer else 0.99, "masked_time": True, "param_version": 2 if newer else 0}
        defaults |= {"update_sample_only_in_training": newer, "delay_sample_update": newer}
        opts.update({name: value for name, value in defaults.items() if opts[name] is None})
        short = layer.name.rpartition("/")[2]
        prefix = (f"{short}_{short}_output_", "", "v2_")[opts["param_version"]]
        names = {part: f"batch_norm/{prefix}{part}" for part in ("mean", "variance", "beta", "gamma")}
        unit_dims = layer.pool.shape([1 for _ in x.dims[1:] if opts["param_version"] < 2], feature=False)
        dims = [*unit_dims, x.feature_dim]
        for part, initial in (("mean", 0.0), ("variance", 1.0)):
            layer.parameter(names[part], dims, initial).trainable = False
        for part, enabled in (("beta", opts["use_shift"]), ("gamma", opts["use_std"])):
            if enabled:
                layer.parameter(names[part], dims, opts[f"{part}_init"])
        return cls(layer, opts, x.feature_dim, names, tuple(unit_dims))

    def __call__(self, x: Tensor) -> Tensor:
        """{…, F} → the same"""
        params = self.layer.params
        parts = {part: self._features(params.get(name)) for part, name in self.names.items()}
        mean, variance = parts["mean"], parts["variance"]
        train, opts = get_run_ctx().is_train_flag_enabled(), self.opts
        updated = (train or not opts["update_sample_only_in_training"]) and not opts["delay_sample_update"]
        if train or opts["force_sample"] or updated:
            independent = self.layer.spec.batch_independent and not train
            over = [dim for dim in x.dims if dim is not self.in_dim and not (independent and dim.is_batch_dim())]
            stats = moments(x, over, use_mask=opts["masked_time"] or self.layer.spec.batch_independent)
            changes = [
                (stop_gradient(new) - old) * opts["momentum"] for new, old in zip(stats, (mean, variance), strict=True)
            ]
            if updated:
                mean, variance = mean + changes[0], variance + changes[1]
            if train or opts["force_sample"]:
                share = opts["use_sample"]
                mean, variance = (
                    a * (1.0 - share) + b * share if share else a for a, b in zip(stats, (mean, variance), strict=True)
                )
            for part, change in zip(("mean", "variance"), changes, strict=True) if train else ():
                params[self.names[part]].assign_add(change)
        y = (x - mean) * rsqrt(variance + self.opts["epsilon"])
        y = y * parts["gamma"] if parts["gamma"] is not None else y
        return y + parts["beta"] if parts["beta"] is not None else y

    def _features(self, x: Parameter | None) -> Tensor | None:
        """A parameter without its axes of size 1; None if the layer does not have it."""
        dims = [*self.ones, self.in_dim]
        return x if x is None or not self.ones else merge_dims(x, dims=dims, out_dim=self.in_dim)[0]


_made_of: dict[int, tuple[weakref.ref[Tensor], Callable[[Tensor], Tensor], Tensor]] = {}


def keep_log(y: Tensor, log: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Keeps `log(x)` as the logarithm of `y`, as long as `y` is there; returns `y`."""
    key = id(y)
    _made_of[key] = weakref.ref(y, lambda _: _made_of.pop(key, None)), log, x
    return y


def safe_log(x: Tensor, eps: float = 1e-20) -> Tensor:
    """log(max(x, eps)); of what a layer's softmax or sigmoid gave, the exact logarithm. {…} → the same

    >>> from rfnb.netdict.layer_call import keep_log, safe_log
    >>> two = rf.Dim(2, name="two")
    >>> x = rf.convert_to_tensor([0.0, 200.0], dims=[two])
    >>> p = keep_log(rf.softmax(x, axis=two), lambda x: rf.log_softmax(x, axis=two), x)
    >>> safe_log(p).raw_tensor.tolist(), safe_log(x * 0.0).raw_tensor.round().tolist()
    ([-200.0, 0.0], [-46.0, -46.0])
    """
    exact = exact_log(x)
    return clipped_log(x, eps=eps) if exact is None else exact


def exact_log(x: Tensor) -> Tensor | None:
    """The logarithm of what a layer's softmax or sigmoid gave; None for other values. {…} → the same"""
    origin = _made_of.get(id(x))
    return origin[1](origin[2]) if origin is not None and origin[0]() is x else None


@contextmanager
def errors_explained(given: Mapping[str, object], options: Mapping[str, Option]) -> Iterator[None]:
    """Inside the block, an error of Python or Torch becomes one about the options of a layer.

    Args:
        given: the options that the net dict gives.
        options: those of the class.
    """
    try:
        yield
    except Exception as error:
        explained = _about_options(error, given, options)
        if explained is error:
            raise
        raise explained from error


def _about_options(error: Exception, given: Mapping[str, object], options: Mapping[str, Option]) -> Exception:
    """The error that says which option does not fit, in place of an error of Python or Torch.

    Errors of the user's own code, which a layer may call, and those that Torch has a class for stay as they are.
    """
    if isinstance(error, RfError) and not isinstance(error, BackendError):
        return error
    of_user = any(is_users(at.code) for _, at in steps_of(error)[1:])
    if of_user or type(error).__module__.startswith("torch"):
        return error
    values = {name: value for name, value in given.items() if name != "class"}
    defaults = {name: options[name].default for name in values if name in options}
    examples = {name: value for name, value in defaults.items() if value is not REQUIRED}
    unlike = [name for name, value in examples.items() if value is not None and not _alike(values[name], value)]
    if len(unlike) == 1:
        [name] = unlike
        values, examples = {name: values[name]}, {name: examples[name]}
    reason = f"{error.hint or error.what}" if isinstance(error, BackendError) else f"{type(error).__name__}: {error}"
    first_line = reason.strip().partition("\n")[0].removeprefix("the computation failed with ")
    return NetworkError(
        f"{unlike[0]} does not fit" if len(unlike) == 1 else "its options do not fit together",
        got=_written(values),
        expected=f"for example {_written(examples)}" if examples else "others",
        hint=f"the computation failed with {first_line:.160}",
    )


def _alike(a: object, b: object) -> bool:
    """Whether two values are of one type; all numbers are."""
    return isinstance(a, int | float) if isinstance(b, int | float) else isinstance(a, type(b))


def _written(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {value!r:.60}" for name, value in options.items())


class ErrorsOf:
    """Inside the block, which computes a layer, errors are about its options, and say which layer it is."""

    def __init__(self, layer: Layer):
        self.layer = layer

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            explained = error_of(self.layer, error)
            if explained is not error:
                raise explained from error


def error_of(layer: Layer, error: Exception) -> Exception:
    """The error to raise for one that arose while a layer was computed, as inside of `ErrorsOf`."""
    explained = _about_options(error, layer.spec.described, layer.options)
    return named_after(layer, explained) if isinstance(explained, RfError) else explained


def name_layer(error: RfError, path: str, described: Mapping[str, object]) -> None:
    """Lets an error say at which layer it arose, and at which line of the config; the innermost one, if several."""
    if not getattr(error, "at_layer", None):
        _name(error, path, str(described["class"]), getattr(described, "line", None))


def named_after(layer: Layer, error: RfError) -> RfError:
    """The error, which says at which layer it arose, as by `name_layer`."""
    if not getattr(error, "at_layer", None):
        _name(error, layer.name, (layer.layer_class or "").partition(":")[0], layer.spec.line)
    return error


def _name(error: RfError, path: str, layer_class: str, line: int | None) -> None:
    where = f"layer {path!r} ({layer_class})" + (f", line {line}" if line else "")
    error.what = f"{where}: {error.what}"
    error.at_layer = path  # type: ignore[attr-defined]
