"""Errors say at which layer they arose, and at which line of the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.source import is_users, steps_of
from rfnb.errors import BackendError, NetworkError, RfError
from rfnb.netdict.options import REQUIRED, Option

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer


@contextmanager
def errors_explained(given: Mapping[str, Any], options: Mapping[str, Option]) -> Iterator[None]:
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


def _about_options(error: Exception, given: Mapping[str, Any], options: Mapping[str, Option]) -> Exception:
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


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are of one type; all numbers are."""
    return isinstance(a, int | float) if isinstance(b, int | float) else isinstance(a, type(b))


def _written(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value!r:.60}" for name, value in options.items())


@contextmanager
def errors_of(layer: Layer) -> Iterator[None]:
    """Inside the block, which computes a layer, errors are about its options, and say which layer it is."""
    try:
        yield
    except Exception as error:
        explained = error_of(layer, error)
        if explained is error:
            raise
        raise explained from error


def error_of(layer: Layer, error: Exception) -> Exception:
    """The error to raise for one that arose while a layer was computed, as inside of `errors_of`."""
    explained = _about_options(error, layer.spec.described, layer.options)
    return named_after(layer, explained) if isinstance(explained, RfError) else explained


def name_layer(error: RfError, path: str, described: Mapping[str, Any]) -> None:
    """Lets an error say at which layer it arose, and at which line of the config; the innermost one, if several."""
    if not getattr(error, "at_layer", None):
        _name(error, path, described["class"], getattr(described, "line", None))


def named_after(layer: Layer, error: RfError) -> RfError:
    """The error, which says at which layer it arose, as by `name_layer`."""
    if not getattr(error, "at_layer", None):
        _name(error, layer.name, (layer.layer_class or "").partition(":")[0], layer.spec.line)
    return error


def _name(error: RfError, path: str, layer_class: str, line: int | None) -> None:
    where = f"layer {path!r} ({layer_class})" + (f", line {line}" if line else "")
    error.what = f"{where}: {error.what}"
    error.at_layer = path  # type: ignore[attr-defined]
