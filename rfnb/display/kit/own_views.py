"""Views that users register, and the arguments of `rf.show` that a view takes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from types import SimpleNamespace
from typing import Any

from rfnb.display.kit import note
from rfnb.display.kit.note import reason
from rfnb.display.markup.html import Html, el
from rfnb.errors import ViewError


def check_choice(describe: Callable[..., Any], cls: str, choice: Mapping[str, Any]) -> None:
    """Raises ViewError if `describe`, which shows objects of class `cls`, does not take such arguments of `rf.show`."""
    unknown = [name for name in choice if not takes(describe, name)]
    if unknown:
        options = list(inspect.signature(describe).parameters)[1:]
        raise ViewError(
            f"show: the view of a {cls} does not take {', '.join(map(repr, unknown))}",
            got=", ".join(f"{name}={choice[name]!r}" for name in unknown),
            expected=", ".join(options) or "nothing to choose",
        )


def takes(call: Callable[..., Any], name: str) -> bool:
    """Whether a callable has a parameter of this name, or takes any; True if its signature is unknown."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def own_view(
    kind: str,
    describe: Callable[..., Mapping[str, Any]],
    to_text: Callable[[Any], str],
    to_html: Callable[[Any], str] | None,
) -> SimpleNamespace:
    """A view made of a user's functions: what they raise becomes a note, and HTML is only what `el` made."""

    @wraps(describe)
    def described(shown: Any, **choice: Any) -> dict[str, Any]:
        try:
            return {**check_json(describe(shown, **choice)), "kind": kind}
        except Exception as error:
            return dict(note.describe(type(shown).__name__, f"no view: {reason(error)}"))

    def html(view: Any) -> Html:
        markup = (to_html or to_text)(view)
        return markup if isinstance(markup, Html) else el("pre", str(markup))

    return SimpleNamespace(describe=described, to_text=to_text, to_html=html)


def check_json(data: Any) -> dict[str, Any]:
    """What the `describe` of a registered view gave. Raises ViewError if it is not a dict of plain JSON."""
    if not isinstance(data, dict):
        raise ViewError(f"`describe` gave {_class(data)}, not a dict")
    if bad := _not_json(data, ""):
        raise ViewError(
            f"`describe` gave {bad}, which is not JSON",
            expected="dicts with strings as keys, lists, strings, finite numbers, True, False, None",
        )
    return data


def _not_json(data: Any, place: str) -> str | None:
    """The first part of the data that is not JSON, with its place, such as "a Tensor at ['rows'][2]"."""
    if isinstance(data, dict):
        if odd := [key for key in data if not isinstance(key, str)]:
            return f"the key {odd[0]!r}{_at(place)}"
        entries = [(value, f"{place}[{key!r}]") for key, value in data.items()]
    elif isinstance(data, list | tuple):
        entries = [(value, f"{place}[{i}]") for i, value in enumerate(data)]
    elif data is None or isinstance(data, str | bool | int) or (isinstance(data, float) and math.isfinite(data)):
        return None
    else:
        return (repr(data) if isinstance(data, float) else _class(data)) + _at(place)
    return next((bad for value, where in entries if (bad := _not_json(value, where))), None)


def _class(data: Any) -> str:
    return f"an object of class {type(data).__name__}"


def _at(place: str) -> str:
    return f" at {place}" if place else ""
