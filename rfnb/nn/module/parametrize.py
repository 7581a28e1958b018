"""Parametrizations: parameters that are replaced by a function of them, such as weight dropout or weight noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import Probability
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.loop.body.body import once
from rfnb.nn.module.module import Module, check_module
from rfnb.ops.math import add
from rfnb.ops.random import dropout, random_normal

M = TypeVar("M", bound=Module)
_TABLE = "_parametrizations"


@guarded
def register_parametrization(
    module: M, param_name: str, parametrization: Callable[..., Tensor], *, keep_existing_param: bool = True
) -> M:
    """Makes `module.weight` the value of `parametrization(weight)`. Returns `module`.

    `module.parameters()` still has the original Parameter under its name, so that one is trained and saved. In a loop
    the value is computed once, and all steps see the same value.

    Args:
        param_name: for example "weight".
        keep_existing_param: if False, the parametrization is a Module with its own parameters, which replaces the
            Parameter and is called without arguments.

    >>> linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> _ = rf.register_parametrization(linear, "weight", lambda weight: weight * 0.0)
    >>> linear.weight.raw_tensor.abs().sum().item(), [name for name, _ in linear.named_parameters()]
    (0.0, ['weight', 'bias'])

    Raises ParameterError if there is no such parameter, or if it already has a parametrization.
    """
    check_module(module, "register_parametrization")
    if not callable(parametrization):
        label = "register_parametrization: `parametrization` is not a function"
        raise ParameterError(label, got=f"{parametrization!r:.40}", expected="a function of the parameter, or a Module")
    table = vars(module).get(_TABLE, {})
    param = vars(module).get(param_name)
    label = f"register_parametrization: {type(module).__name__}.{param_name}"
    if param_name in table:
        raise ParameterError(f"{label} already has a parametrization", hint="rf.remove_parametrization removes it")
    if not isinstance(param, Parameter):
        raise ParameterError(
            f"{label} is not a Parameter",
            got=type(param).__name__,
            expected=" or ".join(name for name, _ in module.named_parameters(recurse=False)) or None,
        )
    trained = isinstance(parametrization, Module) and parametrization.has_parameters
    if trained is keep_existing_param:
        raise ParameterError(
            f"{label}: the parametrization has {'its own' if trained else 'no'} parameters",
            expected=f"a {'function' if trained else 'Module'} with{'out' if trained else ''} parameters, "
            f"for keep_existing_param={keep_existing_param}",
        )
    vars(module)[_TABLE] = {**table, param_name: (parametrization, param)}
    if not keep_existing_param:
        vars(module)[param_name] = parametrization
    _become(module, [*table, param_name])
    return module


def remove_parametrization(module: M, param_name: str) -> M:
    """Makes `module.weight` the Parameter again. Returns `module`.

    >>> linear = rf.weight_noise(rf.Linear(rf.Dim(3), rf.Dim(2)), "weight", std=0.1)
    >>> rf.is_parametrized(rf.remove_parametrization(linear, "weight"))
    False

    Raises ParameterError if the parameter has no parametrization.
    """
    check_module(module, "remove_parametrization")
    table = dict(vars(module).get(_TABLE, {}))
    if param_name not in table:
        raise ParameterError(
            f"remove_parametrization: {type(module).__name__}.{param_name} has no parametrization",
            got=", ".join(table) or "none",
        )
    _, param = table.pop(param_name)
    vars(module)[_TABLE] = table
    if not isinstance(vars(module)[param_name], Parameter):
        vars(module)[param_name] = param
    _become(module, list(table))
    return module


@guarded
def is_parametrized(module: Module, param_name: str | None = None) -> bool:
    """Whether a parameter of the module has a parametrization: the one named `param_name`, or any.

    >>> linear = rf.weight_dropout(rf.Linear(rf.Dim(3), rf.Dim(2)), "weight", drop_prob=0.1)
    >>> rf.is_parametrized(linear), rf.is_parametrized(linear, "bias")
    (True, False)
    """
    check_module(module, "is_parametrized")
    table = vars(module).get(_TABLE, {})
    return bool(table) if param_name is None else param_name in table


@dataclass(eq=False)
class WeightDropout:
    """In training, sets each entry of a parameter to 0 with probability `drop_prob` and scales up the others.

    >>> weight = rf.Parameter([rf.Dim(3, name="feat")])
    >>> rf.WeightDropout(0.5)(weight) is weight  # not in training
    True
    """

    drop_prob: float

    def __call__(self, param: Tensor) -> Tensor:
        """{…} → {…}"""
        if not get_run_ctx().is_train_flag_enabled(func=WeightDropout.__call__):
            return param
        return dropout(param, self.drop_prob, on_forward=True)


@dataclass(eq=False)
class WeightNoise:
    """In training, adds normally distributed noise to a parameter (Graves 2011).

    >>> weight = rf.Parameter([rf.Dim(3, name="feat")])
    >>> rf.WeightNoise(0.1)(weight) is weight  # not in training
    True
    """

    std: float

    def __call__(self, param: Tensor) -> Tensor:
        """{…} → {…}"""
        if not get_run_ctx().is_train_flag_enabled(func=WeightNoise.__call__):
            return param
        return add(param, random_normal(param.dims, dtype=param.dtype, device=param.device, stddev=self.std))


@guarded
def weight_dropout(module: M, param_name: str, *, drop_prob: Probability) -> M:
    """Adds dropout to a weight, in training: `rf.weight_dropout(lstm, "rec_weight", drop_prob=0.3)`. Returns `module`.

    >>> linear = rf.weight_dropout(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), "weight", drop_prob=1.0)
    >>> _ = rf.init_train_step_run_ctx()
    >>> linear.weight.raw_tensor.abs().sum().item()
    0.0
    """
    return register_parametrization(module, param_name, WeightDropout(drop_prob))


@guarded
def weight_noise(module: M, param_name: str, *, std: float) -> M:
    """Adds noise to a weight, in training: `rf.weight_noise(linear, "weight", std=0.01)`. Returns `module`.

    >>> linear = rf.weight_noise(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), "bias", std=1.0)
    >>> _ = rf.init_train_step_run_ctx()
    >>> bool((linear.bias.raw_tensor == 0).any())
    False
    """
    return register_parametrization(module, param_name, WeightNoise(std))


class _Parametrized:
    """The descriptor that computes `module.weight`."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, module: Module | None, owner: type) -> Any:
        if module is None:
            return self
        attributes = vars(module)
        parametrization, _ = attributes[_TABLE][self.name]
        originals = (attributes[self.name],) if isinstance(attributes[self.name], Parameter) else ()
        value, _ = once((id(module), self.name), lambda: (parametrization(*originals), module))
        return value

    def __set__(self, module: Module, value: object) -> None:
        attributes = vars(module)
        if isinstance(value, Parameter):
            attributes[self.name] = value
        elif isinstance(attributes[self.name], Parameter):
            attributes[self.name].assign(value)
        else:
            raise ParameterError(
                f"{type(module).__name__}.{self.name} is computed by {type(attributes[self.name]).__name__}",
                hint="set the parameters of that module, or call rf.remove_parametrization first",
            )


def _become(module: Module, names: list[str]) -> None:
    """Makes the module an object of a subclass, with the same class name, in which these parameters are computed."""
    base = _base(module)
    if not names:
        module.__class__ = base
        del vars(module)[_TABLE]
        return
    members = {name: _Parametrized(name) for name in names}
    inherited = {"__doc__": base.__doc__, "__module__": base.__module__, "__qualname__": base.__qualname__}
    overrides = {"_parametrized_names": names, "__reduce_ex__": _reduce, "extra_repr": _extra_repr}
    make: Any = type(base)
    module.__class__ = make(base.__name__, (base,), {**inherited, **overrides, **members})


def _base(module: Module) -> type[Module]:
    return next(cls for cls in type(module).__mro__ if "_parametrized_names" not in vars(cls))


def _extra_repr(module: Module) -> str:
    parts = [f"{name}: {_title(value)}" for name, (value, _) in vars(module)[_TABLE].items()]
    return ", ".join(filter(None, [_base(module).extra_repr(module), *parts]))


def _title(parametrization: object) -> str:
    if isinstance(parametrization, WeightDropout | WeightNoise):
        return repr(parametrization)
    return getattr(parametrization, "__name__", type(parametrization).__name__)


def _reduce(module: Module, _protocol: object) -> object:
    """Pickles a module of a generated class, which pickle could not find by its name."""
    return _again, (_base(module), list(vars(type(module))["_parametrized_names"])), vars(module)


def _again(base: type[Module], names: list[str]) -> Module:
    module = base.__new__(base)
    _become(module, names)
    return module
