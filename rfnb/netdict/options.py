"""Options of layers: declared by the fields of a class, and read once, when a layer is constructed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rfnb.core.tensor.arguments import check_of, kind_in_words, leaves, mismatches
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError, ParameterError
from rfnb.netdict.axes import NetworkDims

REQUIRED = object()
"""The default of an option that must be given."""
LARGEST = 2**31 - 1
"""The largest whole number of an option, a seed apart."""


@dataclass(frozen=True)
class Option:
    """A declared option. kind: value, axis, axes, layer or layers. types: of a value; empty: any. part: of a layer."""

    kind: str
    default: Any
    types: tuple[object, ...] = ()
    part: str = ""


def value(default: object, *types: type) -> Any:
    """An option whose value is used as it is: a number, a name, a list. types: what it may be, beside the default."""
    return Option("value", default, types)


def axis(default: object = REQUIRED) -> Any:
    """An option that describes an axis of the source; the field is its Dim."""
    return Option("axis", default)


def axes(default: object = REQUIRED) -> Any:
    """An option that describes several axes; the field is a tuple of Dims."""
    return Option("axes", default)


def layer(default: object = None) -> Any:
    """An option that names a layer, whose output `compute` gets under the name of the option. Numbers stay numbers."""
    return Option("layer", default)


def layers(default: object = None, words: tuple[object, ...] = (), part: str = "") -> Any:
    """An option that holds names of layers, perhaps in a dict or list; `words` are not layers.

    The field has a `FromLayer` for each, and `compute` gets their outputs under the keys of these; of a layer that has
    a further output named `part`, this one.
    """
    return Option("layers", default, words, part)


@dataclass(frozen=True)
class FromLayer:
    """Stands in an option for the output of a layer, which `compute` gets as the input `key`."""

    key: str


def without_layers(given: object, words: tuple[object, ...], key: str, found: dict[str, str]) -> object:
    """What an option gives, with a `FromLayer` for each name of a layer; the names are added to `found`, by key."""
    if isinstance(given, dict):
        return {name: without_layers(entry, words, f"{key}_{name}", found) for name, entry in given.items()}
    if isinstance(given, list | tuple):
        return [without_layers(entry, words, f"{key}_{i}", found) for i, entry in enumerate(given)]
    if isinstance(given, str) and given not in words:
        found[key] = given
        return FromLayer(key)
    return given


def check_required(options: Mapping[str, Option], given: Mapping[str, object]) -> None:
    """Raises NetworkError if an option is missing that must be given."""
    for name, option in options.items():
        if option.default is REQUIRED and name not in given:
            raise NetworkError(f"the option {name} is missing", expected=f'"{name}": …')


def read(option: Option, name: str, given: object, axes: NetworkDims, source: Tensor | None, *, numbers: bool) -> Any:
    """The value of the field for what the net dict gives. Raises NetworkError, or DimError for an unknown axis.

    numbers: whether axes may be given by numbers.
    """
    if option.kind not in ("axis", "axes") or given is None:
        return checked(option, name, given)
    if source is None:
        raise NetworkError(f"{name}: the layer has no source", got=repr(given), expected='"from": …')
    return (axes.one if option.kind == "axis" else axes.find)(given, source, numbers=numbers)


def checked(option: Option, name: str, given: object) -> object:
    """The given value; None where the default means nothing. Raises NetworkError if it is of another kind."""
    types = option.types if option.kind == "value" else ()
    if name != "seed" and any(isinstance(leaf, int) and abs(leaf) > LARGEST for leaf in leaves(given)):
        raise NetworkError(f"{name} is too large", got=f"{given!r:.60}", expected=f"at most {LARGEST}")
    if given is None and types and not option.default:
        return option.default
    if given is option.default or not types:
        return given
    if all(mismatches(given, int if kind is bool else kind) for kind in types):
        fault, got = f"{name} has a value of another type", f"{type(given).__name__} {given!r:.60}"
        raise NetworkError(fault, got=got, expected=" or ".join(map(kind_in_words, types)))
    for check in filter(None, map(check_of, types)):
        try:
            check(name, name, given)
        except ParameterError as error:
            fault = error.what.removeprefix(f"{name}: ")
            raise NetworkError(fault, got=error.got, expected=error.expected, hint=error.hint) from None
    return bool(given) if types == (bool,) else given
