"""Views that users register, and the arguments of `rf.show` that a view takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps

from rfnb.display.kit.blocks import Page, note_page, to_html, to_text
from rfnb.display.kit.note import reason
from rfnb.errors import ViewError


def check_choice(describe: Callable[..., object], cls: str, choice: Mapping[str, object]) -> None:
    """Raises ViewError if `describe`, which shows objects of class `cls`, does not take such arguments of `rf.show`."""
    unknown = [name for name in choice if not takes(describe, name)]
    if unknown:
        options = list(inspect.signature(describe).parameters)[1:]
        raise ViewError(
            f"show: the view of a {cls} does not take {', '.join(map(repr, unknown))}",
            got=", ".join(f"{name}={choice[name]!r}" for name in unknown),
            expected=", ".join(options) or "nothing to choose",
        )


def takes(call: Callable[..., object], name: str) -> bool:
    """Whether a callable has a parameter of this name, or takes any; True if its signature is unknown."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def own_view(make: Callable[..., Page]) -> Callable[..., Page]:
    """A view made by a user's function: what it raises becomes a note."""

    @wraps(make)
    def described(shown: object, **choice: object) -> Page:
        try:
            page = make(shown, **choice)
            if not isinstance(page, Page):
                raise ViewError(f"the function gave an object of class {type(page).__name__}, not a Page")
            to_text(page), to_html(page)
        except Exception as error:
            return note_page(type(shown).__name__, f"no view: {reason(error)}")
        return page

    return described
