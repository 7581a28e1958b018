"""`rf.layer`: a function, or a module, as a class of layers that net dicts name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import new_class
from typing import Any, ClassVar, TypeVar

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError, ParameterError
from rfnb.netdict.layer import LAYERS, MODULES, Layer
from rfnb.netdict.options import REQUIRED, Option, axis, value
from rfnb.netdict.spec import COMMON
from rfnb.nn.module.module import Module

F = TypeVar("F", bound=Callable[..., Any])
DIMS = ("in_dim", "out_dim")
"""What the constructor of a module gets from the net, and not from options."""
FIELDS = ("from", "class", "spec", "last", "called")
"""Further names that no option has: those of a net dict, and the attributes of layers."""
PLAIN = (bool, int, float, str, list, tuple, dict)
"""Annotations that the values of options are checked by."""


@dataclass(eq=False)
class Called:
    """What a layer calls. It is not an rf.Module, so that the parameters belong to the layer alone.

    places: each parameter as a module, its attribute there, and the name that the layer has for it.
    """

    fn: Callable[..., object]
    places: list[tuple[Module, str, str]]


class OwnLayer(Layer):
    """A layer that calls a function, or a module, of the user.

    Attributes:
        defined: the function, or the class of the module.
        of_module: the parameters of its constructor. of_call: the options that a call gets.
    """

    defined: ClassVar[Callable[..., object]]
    of_module: ClassVar[tuple[str, ...]] = ()
    of_call: ClassVar[tuple[str, ...]] = ()

    def setup(self, *sources: Tensor, **inputs: Tensor) -> None:
        """Makes the module, whose parameters become those of the layer."""
        self.called = Called(type(self).defined, [])
        if not isinstance(self.called.fn, type):
            return
        module = self.called.fn = self.called.fn(**{name: self._given(name, sources) for name in self.of_module})
        names: dict[int, str] = {}
        for path, part in [*module.named_modules()]:
            for key, x in [*vars(part).items()]:
                if isinstance(x, Parameter) and id(x) not in names:
                    names[id(x)] = f"{path}.{key}".lstrip(".").replace(".", "/")
                    self._own(names[id(x)], x)
                if isinstance(x, Parameter):
                    self.called.places.append((part, key, names[id(x)]))

    def _given(self, name: str, sources: tuple[Tensor, ...]) -> object:
        """What the constructor of the module gets under a name."""
        if name not in DIMS:
            return getattr(self, name)
        dim: Dim | None = self.out_dim
        if name == "in_dim":
            dim = (sources[0].sparse_dim or sources[0].feature_dim) if sources else None
        if dim is None:
            expected = '"n_out": …' if name == "out_dim" else "a source with features"
            raise NetworkError(f"{self.layer_class} needs {name}", got="none", expected=expected)
        return dim

    def _own(self, name: str, x: Parameter) -> None:
        """Makes a parameter of the layer for one of the module."""
        if hasattr(Layer, name) or name in self.options:
            raise NetworkError(f"a parameter has a name that layers use: {name!r}", expected="another name")
        self.parameter(name, x.dims, x if x.initial is None else x.initial)
        parameter = vars(self)[name]
        if parameter.dtype != x.dtype:
            raise NetworkError(f"the parameter {name} has another type", got=x.dtype, expected=parameter.dtype)
        if isinstance(parameter, Parameter) and not x.trainable:
            parameter.trainable, parameter.auxiliary = False, x.auxiliary

    def compute(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """What the function or the module gives."""
        for part, key, name in self.called.places:
            vars(part)[key] = vars(self)[name]
        y = self.called.fn(*sources, **{name: getattr(self, name) for name in self.of_call})
        if not isinstance(y, Tensor):
            raise NetworkError(f"{self.layer_class} gives no Tensor", got=type(y).__name__, expected="one rf.Tensor")
        return y


@guarded
def layer(name: str) -> Callable[[F], F]:
    """Makes a function, or an `rf.Module`, known as a class of layers: in net dicts, reports and pictures.

    A function gets a Tensor for each source. Its parameters with a default, or after `*`, are options of the layer;
    one annotated as `rf.Dim` describes an axis. A function with one source gets several joined in their features.
    The constructor of a module gets options too, and under the names `in_dim` and `out_dim` the features of the source
    and those of `n_out`. What is decorated stays as it is; a cell that runs again replaces the class.

    Args:
        name: the "class" in net dicts, which no class of rfnb has.

    >>> @rf.layer("soft_clip")
    ... def soft_clip(x, *, limit: float = 1.0):
    ...     return rf.tanh(x / limit) * limit
    >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    >>> net.construct_from_dict({"output": {"class": "soft_clip", "limit": 2.0, "from": "data"}}).report()
    network: runs (1 layer constructed, 0 parameters)

    Raises ParameterError for a class of rfnb, and for an option that has another meaning in all layers.
    """

    def register(defined: F) -> F:
        target: Any = defined
        is_module = isinstance(target, type)
        if not callable(target) or isinstance(target, Module) or (is_module and not issubclass(target, Module)):
            fault, expected = f"rf.layer({name!r}): this cannot be a layer", "a function, or a class of rf.Module"
            raise ParameterError(fault, got=repr(target)[:60], expected=expected)
        has_options = is_module and target.__init__ is not object.__init__
        of_module = parameters_of(target.__init__)[1:] if has_options else []
        call = parameters_of(target.__call__)[1:] if is_module else parameters_of(target)
        sources = [p for p in call if is_source(p)]
        of_call = [p for p in call if p not in sources and p.kind is not p.VAR_KEYWORD]
        options = {p.name: option_of(p) for p in (*of_module, *of_call) if p.name not in DIMS}
        check_options(name, options)
        many = any(p.kind is p.VAR_POSITIONAL for p in sources)
        namespace = {
            **options,
            "__doc__": inspect.getdoc(target) or f"A layer of the class {name}.",
            "__module__": target.__module__,
            "defined": staticmethod(target),
            "of_module": tuple(p.name for p in of_module),
            "of_call": tuple(p.name for p in of_call),
            "compute": compute_of(sources),
        }
        traits = {"joins": len(sources) == 1 and not many, "sourceless": not sources}
        new_class(target.__name__, (OwnLayer,), {"layer_class": name, **traits}, lambda body: body.update(namespace))
        return defined

    if not isinstance(name, str):
        raise ParameterError("rf.layer: the name of the class is missing", got=name, expected='@rf.layer("my_layer")')
    if name in MODULES or not issubclass(LAYERS.get(name, OwnLayer), OwnLayer):
        raise ParameterError(f"rf.layer: rfnb has a layer class {name!r}", expected="another name")
    return register


def parameters_of(fn: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function, with the types that annotations name where these are known."""
    try:
        return [*inspect.signature(fn, eval_str=True).parameters.values()]
    except NameError:
        return [*inspect.signature(fn).parameters.values()]


def is_source(p: inspect.Parameter) -> bool:
    """Whether a parameter of a call takes a source."""
    placed = p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty and p.annotation is not Dim
    return placed or p.kind is p.VAR_POSITIONAL


def option_of(p: inspect.Parameter) -> Option:
    """The option for a parameter of a function or constructor."""
    default = REQUIRED if p.default is p.empty else p.default
    kinds = (kind for kind in PLAIN if kind is p.annotation)
    option: Option = axis(default) if p.annotation is Dim else value(default, *kinds)
    return option


def check_options(name: str, options: Mapping[str, Option]) -> None:
    """Raises ParameterError for the name of an option that all layers have, or that a layer is made of."""
    reserved = [option for option in options if option in COMMON or option in FIELDS or hasattr(Layer, option)]
    if reserved:
        fault = f"rf.layer({name!r}): all layers have an option or an attribute of this name"
        raise ParameterError(fault, got=", ".join(reserved), expected="another name for the parameter")


def compute_of(sources: Iterable[inspect.Parameter]) -> Callable[..., Tensor]:
    """The `compute` of a class, whose signature says how many sources a layer takes."""

    def compute(self: OwnLayer, *given: Tensor, **inputs: Tensor) -> Tensor:
        return OwnLayer.compute(self, *given, **inputs)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    placed = [inspect.Parameter("self", kind)]
    for i, p in enumerate(sources):
        placed.append(inspect.Parameter(f"source{i}", p.kind if p.kind is p.VAR_POSITIONAL else kind))
    compute.__signature__ = inspect.Signature(placed)  # type: ignore[attr-defined]
    return compute
