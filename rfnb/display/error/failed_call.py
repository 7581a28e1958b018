"""The call that raised an error: the function of rfnb that the user's line called, and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import Step, innermost_call, is_own, locals_of, op_name, steps_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.error.argument_source import written
from rfnb.nn.module.module import Module

MOST = 8
"""Largest number of arguments shown."""


class Argument(NamedTuple):
    """An argument. name: the parameter. text: its expression in the user's line; "" if unknown."""

    name: str
    text: str
    value: Any


class FailedCall(NamedTuple):
    """A call. name: the function, or the class of the module that was called.

    path, module: the innermost module entered: "encoder.layers.0", "Linear"; "" if there is none.
    """

    name: str
    path: str
    module: str
    arguments: list[Argument]

    @property
    def title(self) -> str:
        """ "reduce_sum", "layers.0: Linear"; "Sequential → layers.0: Linear" if it called that one itself."""
        if not self.path:
            return self.name
        entered = f"{self.path}: {self.module}"
        return entered if self.module == self.name else f"{self.name} → {entered}"


def failed_call(error: BaseException) -> FailedCall | None:
    """The call of rfnb on the user's innermost line; None if that line raised the error itself."""
    steps, at = steps_of(error), innermost_call(error)
    inner = steps if at is None else steps[at + 1 :]
    first = next((number for number, (_, source) in enumerate(inner) if _has_arguments(source.code)), None)
    if first is None:
        return None
    inner = inner[first:]
    frame = inner[0][0]
    name, values = _called(frame)
    words = {} if at is None else written(steps[at], [name for name, _ in values])
    arguments = [
        Argument(name, words.get(name, ""), value) for name, value in values if _is_shown(value, words.get(name))
    ]
    if not any(map(_has_dims, (argument.value for argument in arguments))):
        arguments += _deeper(inner[1:])
    modules = _modules(steps)
    module = ""
    if modules and _modules(inner):
        arguments += _parameters(modules[-1])
        module = type(modules[-1]).__name__
    return FailedCall(name, _path(modules) if module else "", module, _once(arguments)[:MOST])


def _has_arguments(code: CodeType) -> bool:
    """Whether this is a function of rfnb with its own arguments; `first_call` only forwards those of an op."""
    return is_own(code) and code.co_name != "first_call"


def _called(frame: FrameType) -> tuple[str, list[tuple[str, Any]]]:
    """The name of a function, and its arguments in order."""
    variables = locals_of(frame)
    owner, forward = variables.get("self"), variables.get("forward")
    name = frame.f_code.co_name.strip("_")
    if name == "raising":  # a method of torch, called on a tensor; defined in `core.tensor.tensor_protocols`
        return variables["name"], [("self", variables["x"])]
    if name == "torch_function":  # a function of torch, called on a tensor
        arguments = [(f"args[{number}]", value) for number, value in enumerate(variables["args"])]
        return f"torch.{variables['func'].__name__}", [*arguments, *(variables["kwargs"] or {}).items()]
    if isinstance(owner, Module) and forward is not None:
        bound = inspect.signature(forward).bind_partial(owner, *variables["args"], **variables["kwargs"])
        return type(owner).__name__, list(_spread(list(bound.arguments.items())[1:]))
    arguments = _parameters_of(frame, variables)
    if isinstance(owner, Tensor) and name != "init":
        arguments.insert(0, ("self", owner))
    titles = {"init": type(owner).__name__, "exit": "the end of the block"}
    return op_name(frame) or titles.get(name, name), list(_spread(arguments))


def _parameters_of(frame: FrameType, held: dict[str, Any]) -> list[tuple[str, Any]]:
    code = frame.f_code
    in_order, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    star = code.co_varnames[by_name : by_name + 1] if code.co_flags & inspect.CO_VARARGS else ()
    names = (*code.co_varnames[:in_order], *star, *code.co_varnames[in_order:by_name])
    return [(name, held[name]) for name in names if name in held and name != "self"]


def _spread(arguments: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Splits lists of tensors, and of pairs of tensor and dim, into one argument for each entry."""
    for name, value in arguments:
        parts = value if isinstance(value, list | tuple) else ()
        if not any(isinstance(part, Tensor) or _first_is_tensor(part) for part in parts):
            yield name, value
            continue
        for number, part in enumerate(parts):
            yield f"{name}[{number}]", part[0] if _first_is_tensor(part) else part


def _first_is_tensor(part: Any) -> bool:
    return isinstance(part, tuple | list) and bool(part) and isinstance(part[0], Tensor)


def _has_dims(value: Any) -> bool:
    return isinstance(value, Tensor | Dim) or are_dims(value)


def are_dims(value: Any) -> bool:
    """Whether a value is a list of Dims."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(part, Dim) for part in value)


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array; () for other values."""
    shape = getattr(value, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def _is_shown(value: Any, text: str | None) -> bool:
    """Whether an argument gets a line: it has dims or a shape, or the user wrote it."""
    if _has_dims(value):
        return True
    return text is not None and (bool(shape_of(value)) or isinstance(value, str | int | float | list | tuple))


def _deeper(steps: list[Step]) -> list[Argument]:
    """Arguments of the innermost function with tensors, for calls that have none, as at the end of a loop."""
    for frame, source in reversed(steps):
        if is_own(source.code):
            pairs = list(_spread(_parameters_of(frame, locals_of(frame))))
            arguments = [
                Argument(name, "", value) for name, value in pairs if isinstance(value, Tensor) or are_dims(value)
            ]
            if any(isinstance(argument.value, Tensor) for argument in arguments):
                return arguments
    return []


# -- modules
def _modules(steps: list[Step]) -> list[Module]:
    """The calls of modules that were active, from the outermost."""
    modules: list[Module] = []
    for frame, source in steps:
        owner = locals_of(frame).get("self") if source.code.co_name in ("call", "__call__") else None
        if isinstance(owner, Module) and not any(owner is module for module in modules):
            modules.append(owner)
    return modules


def _path(modules: list[Module]) -> str:
    return "" if len(modules) < 2 else modules[0].name_of(modules[-1]) or ""


def _parameters(module: Module) -> list[Argument]:
    return [Argument(f"self.{name}", "", value) for name, value in module.named_parameters(recurse=False)]


def _once(arguments: list[Argument]) -> list[Argument]:
    """The arguments without repeated ones that the user did not write."""
    unique: list[Argument] = []
    for argument in arguments:
        if argument.text or not any(_same(argument.value, earlier.value) for earlier in unique):
            unique.append(argument)
    return unique


def _same(a: Any, b: Any) -> bool:
    return a is b or (are_dims(a) and are_dims(b) and tuple(a) == tuple(b))
