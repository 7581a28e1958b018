"""The names of variables, and which layers of a net dict are constructed for their own sake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.netdict.resolve import Scope


def variable_scope(scope: Scope, name: str, given: str | None) -> str:
    """What stands before the names of the variables of a layer: "encoder/lstm/".

    given: the option `name_scope`.
    """
    prefix = ""
    if scope.parent is not None:
        prefix = variable_scope(scope.parent, scope.name, scope.options_of_subnet().get("name_scope"))
        prefix += "rec/" if scope.recurrent else ""
    if given is None:
        return f"{prefix}{name}/"
    if given.startswith("/"):
        return f"{given[1:]}/" if given != "/" else ""
    return f"{prefix}{given}/" if given else prefix


def is_trainable(scope: Scope) -> bool:
    """Whether no layer around the net says that its parameters are not trained."""
    outer = scope
    while outer.parent is not None:
        if outer.options_of_subnet().get("trainable") is False:
            return False
        outer = outer.parent
    return True


def _given(described: Mapping[str, Any], option: str) -> bool:
    """Whether a net dict sets an option; what has no truth, such as an array, counts, and is an error later."""
    value = described.get(option)
    return bool(value) if isinstance(value, int | str | None) else True


def ends_of(layers: Mapping[str, Any], *, search: bool = False, evaluate: bool = True) -> list[str]:
    """The layers that are constructed for their own sake, sorted: outputs, and those with a loss."""
    ends = []
    for name, described in layers.items():
        if str(name).startswith("#"):
            continue
        if not isinstance(described, Mapping):
            described = {}
        if (_given(described, "only_on_search") and not search) or (_given(described, "only_on_eval") and not evaluate):
            continue
        is_end = name == "output" or name.endswith(":output")
        if is_end or any(_given(described, option) for option in ("is_output_layer", "loss", "need_last")):
            ends.append(name)
    return sorted(ends)
