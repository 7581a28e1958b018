"""The card of an error: the user's line, the call with its operands, and a hint."""

from __future__ import annotations

import re

from rfnb.core.ground.source import Source, innermost_call, steps_of
from rfnb.display.error.code import code_html, code_text, describe_code
from rfnb.display.error.failed_call import failed_call
from rfnb.display.error.schema import DimOrigin, ErrorView, FrameView, StripRow
from rfnb.display.error.strips import describe_strips, origins_html, origins_text, strips_html, strips_text
from rfnb.display.error.traceback import cause_html, cause_text, describe_causes, describe_frames, frames_html
from rfnb.display.kit.degrade import Notes
from rfnb.display.kit.dims import dim_word
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import fold, note_html, note_text, quiet
from rfnb.errors import fact_lines
from rfnb.printable import printable_name

WORDS = 4000
"""Longest fact, in characters."""


def describe(error: BaseException) -> ErrorView:
    """An error as JSON, without tensors and frames. Parts that cannot be computed are left out."""
    notes = Notes()
    call = notes.attempt("call", lambda: failed_call(error), None)
    place = notes.attempt("place", lambda: _place(error), None)
    odd = getattr(error, "dims", ())
    empty: tuple[list[StripRow], list[DimOrigin]] = [], []
    strips = notes.attempt("operands", lambda: describe_strips(call.arguments, odd) if call else empty, empty)
    view: ErrorView = {
        "kind": "error",
        "name": type(error).__name__,
        "what": str(getattr(error, "what", error))[:WORDS],
        "facts": _facts(error),
        "notes": [str(note) for note in getattr(error, "__notes__", [])],
        "code": notes.attempt("line", lambda: None if place is None else describe_code(place), None),
        "call": call.title if call else None,
        "rows": strips[0],
        "origins": strips[1],
        "frames": notes.attempt("traceback", lambda: describe_frames(error), []),
        "causes": notes.attempt("cause", lambda: list(describe_causes(error)), []),
        "note": None,
    }
    view["note"] = notes.text()
    return view


def _facts(error: BaseException) -> list[list[str]]:
    facts = [(name, getattr(error, name, None)) for name in ("got", "expected", "made", "hint")]
    return [[name, str(fact)[:WORDS]] for name, fact in facts if fact is not None]


# -- the user's line


def _place(error: BaseException) -> Source | None:
    at = getattr(error, "at", None)
    if isinstance(at, Source):
        return at
    number = innermost_call(error)
    return None if number is None else steps_of(error)[number][1]


# -- facts


def _other_facts(view: ErrorView) -> list[list[str]]:
    """The facts that strips and origins do not already show."""
    return [
        [name, fact]
        for name, fact in view["facts"]
        if not (name == "made" and view["origins"]) and not (name == "got" and _is_shown(fact, view))
    ]


def _is_shown(fact: str, view: ErrorView) -> bool:
    """Whether a fact only repeats dims of the strips: "`a` {batch:2, time:3–5} and `b` {feat:4}"."""
    dims = [cell["dim"] for row in view["rows"] for cell in row["cells"] if cell and cell["dim"]]
    words = [printable_name(dim_word(dim)) for dim in dims]
    named = [dim for group in re.findall(r"{(.*?)}", fact) for dim in group.split(", ") if dim]
    return bool(named) and all(any(word.startswith(dim) for word in words) for dim in named)


def _callers(view: ErrorView) -> list[FrameView]:
    """The user's lines that called the one shown."""
    place = view["code"]["place"] if view["code"] else None
    users = [frame for frame in view["frames"] if frame["whose"] == "user"]
    return users[:-1] if users and users[-1]["place"] == place else users


# -- text


def to_text(view: ErrorView) -> str:
    """The message, the line, the operands and the hint; then the callers."""
    parts = [
        [f"{view['name']}: {view['what']}"],
        code_text(view["code"]) if view["code"] else [],
        [str(view["call"]), *(f"  {line}" for line in strips_text(view["rows"]))] if view["rows"] else [],
        [f"  {line}" for line in origins_text([origin for origin in view["origins"] if origin["odd"]])],
        fact_lines(_other_facts(view)),
        view["notes"],
        [f"called in {frame['place']}: {frame['text']}".removesuffix(": ") for frame in _callers(view)],
        [cause_text(cause) for cause in view["causes"]],
        note_text(view["note"], ""),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


# -- HTML


def to_html(view: ErrorView) -> Html:
    """The card as HTML; traceback and causes are folded."""
    odd = [origin for origin in view["origins"] if origin["odd"]]
    regular = [origin for origin in view["origins"] if not origin["odd"]]
    look = f"{style.BOX};border-left:4px solid {style.ALARM};padding:2px 0 2px 12px"
    return el(
        "div",
        el("div", el("b", view["name"], style=f"color:{style.ALARM}"), " ", view["what"], style="margin-bottom:4px"),
        code_html(view["code"]) if view["code"] else None,
        _operands_html(view) if view["rows"] else None,
        origins_html(odd) if odd else None,
        _facts_html(_other_facts(view)),
        [quiet(note, tag="div") for note in view["notes"]],
        fold("where the other dims come from", origins_html(regular)) if regular else None,
        fold("traceback", frames_html(view["frames"])) if view["frames"] else None,
        [fold(cause_text(cause).splitlines()[0], cause_html(cause)) for cause in view["causes"]],
        note_html(view["note"]),
        style=look,
    )


def _operands_html(view: ErrorView) -> Html:
    return el("div", el("div", view["call"], style=style.NAME), strips_html(view["rows"]), style="margin-top:6px")


def _facts_html(facts: list[list[str]]) -> Html | None:
    if not facts:
        return None
    rows = [
        el(
            "tr",
            el("td", name, style=f"{style.LABEL_CELL};vertical-align:top"),
            el("td", el("b", fact) if name == "hint" else fact, style=_FACT),
            style=style.PLAIN_ROW,
        )
        for name, fact in facts
    ]
    return el("table", rows, style=f"{style.TABLE};font-family:sans-serif;font-size:13px")


_FACT = "padding:1px 0;text-align:left;border:none;background:none;white-space:pre-wrap;overflow-wrap:anywhere"
