"""The names of variables, and which layers of a net dict are constructed for their own sake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rfnb.errors import RfError
from rfnb.network.resolve import Scope

if TYPE_CHECKING:
    from rfnb.network.layer import Layer


def name_layer(error: RfError, path: str, described: Mapping[str, Any]) -> None:
    """Lets an error say at which layer it arose, and at which line of the config; the innermost one, if several."""
    if not getattr(error, "at_layer", None):
        _name(error, path, described["class"], getattr(described, "line", None))


def named_after(layer: Layer, error: RfError) -> RfError:
    """The error, which says at which layer it arose, as by `name_layer`."""
    if not getattr(error, "at_layer", None):
        _name(error, layer.name, (layer.layer_class or "").partition(":")[0], layer.line)
    return error


def _name(error: RfError, path: str, layer_class: str, line: int | None) -> None:
    where = f"layer {path!r} ({layer_class})" + (f", line {line}" if line else "")
    error.what = f"{where}: {error.what}"
    error.at_layer = path  # type: ignore[attr-defined]


def variable_scope(scope: Scope, name: str, given: str | None) -> str:
    """What stands before the names of the variables of a layer: "encoder/lstm/".

    given: the option `name_scope`.
    """
    above = ""
    if scope.parent is not None:
        above = variable_scope(scope.parent, scope.name, scope.options_of_subnet().get("name_scope"))
        above += "rec/" if scope.recurrent else ""
    if given is None:
        return f"{above}{name}/"
    if given.startswith("/"):
        return f"{given[1:]}/" if given != "/" else ""
    return f"{above}{given}/" if given else above


def is_trainable(scope: Scope) -> bool:
    """Whether no layer around the net says that its parameters are not trained."""
    above = scope
    while above.parent is not None:
        if above.options_of_subnet().get("trainable") is False:
            return False
        above = above.parent
    return True


def ends_of(layers: Mapping[str, Any], *, search: bool = False, evaluate: bool = True) -> list[str]:
    """The layers that are constructed for their own sake, sorted: outputs, and those with a loss."""
    found = []
    for name, described in layers.items():
        if str(name).startswith("#"):
            continue
        if not isinstance(described, Mapping):
            described = {}
        if (described.get("only_on_search") and not search) or (described.get("only_on_eval") and not evaluate):
            continue
        is_end = name == "output" or name.endswith(":output") or described.get("is_output_layer")
        if is_end or described.get("loss") or described.get("need_last"):
            found.append(name)
    return sorted(found)
