"""The view of a probe: a card for each training step with attention and result, and the measures as curves.

Scripts add two sliders, from `to_scripts`: the training step, and the step of the loop, with the states after each of
its steps. They put them above the element `data-rfnb-shots`, and take the picture of a training step that has a card
from its `<img data-rfnb-shot="step">`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypedDict

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.display.attention import drawing, view as attention_view
from rfnb.display.attention.schema import AttentionView
from rfnb.display.kit import blocks as page
from rfnb.display.kit.view import View, view_of
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, note_html, quiet as quiet_html
from rfnb.display.markup.numbers import Number, plain, real, short, size
from rfnb.display.run.step import kept_steps, live_at, of_sequence, spread
from rfnb.display.run.view import chosen
from rfnb.display.tensor.arrays import data_of, is_array
from rfnb.display.tensor.value import one_entry, value_text
from rfnb.display.tensor.view import describe_data
from rfnb.display.training.history import BinnedCurve
from rfnb.display.training.progress import LossCurve, describe_curve, picture
from rfnb.errors import ViewError
from rfnb.trace.probe.probe import Probe
from rfnb.trace.probe.shot import Shot
from rfnb.trace.run.run import Run


class SlidLoop(TypedDict):
    """The loop whose steps are the second slider of a probe."""

    name: str
    states: list[str]  # their names
    steps: list[int]  # those that the slider has


class ProbeSlide(TypedDict):
    """What the sliders of a probe show of one training step."""

    step: int
    picture: str  # of the attention: data URI of a PNG; "" without, or if the step has a card, whose picture it is
    shape: list[int]  # rows and columns of it
    words: str  # the result
    measures: dict[str, Number]
    values: list[list[str]]  # after each of the loop's steps that the sliders have, each state
    note: str | None


class ShotView(ProbeSlide):
    """What a probe has of one training step."""

    runs: list[str]  # names of the loops


class ProbeScripts(TypedDict):
    """What scripts read of a probe: they add the sliders, training step and step of the loop."""

    loop: SlidLoop | None
    slides: list[ProbeSlide]


class ProbeView(TypedDict):
    """A function that ran again and again during a training."""

    kind: Literal["probe"]
    name: str
    every: int
    bytes: int
    off: str | None  # the error that ended it
    shots: list[ShotView]
    shown: list[int]  # places in `shots` of those with a card
    slides: list[int]  # and of those that the slider has
    loop: SlidLoop | None
    attention: str  # "att: dec_time × enc_time of 'kiwi', mean of 4 heads, darkest: 0.93"; "" without
    others: list[str]  # names of other attention
    curves: list[LossCurve]
    note: str | None


SLIDES = 48
"""Largest number of training steps of the slider."""
TEXTS = 2000
"""Largest number of values in a view, of all states at all steps."""
BYTES = 64 * 2**20
"""Largest size of the shots whose runs are read for it."""


def slides(count: int, shown: Sequence[int]) -> list[int]:
    """The places of the shots that the slider has: those with a card, and others spread over the training."""
    return sorted({*shown, *spread(range(count), max(2, SLIDES - len(shown)))})


def states_of(
    shots: Sequence[Shot], batch: int | str | None, notes: page.Notes
) -> tuple[SlidLoop | None, dict[int, list[list[str]]]]:
    """The first loop of the newest shot and, by training step, the values of its states after each of its steps.

    batch: the sequence; None for all.
    """
    small = _small(shots)
    newest = next((shot for shot in small if shot.loops), None)
    run = None if newest is None else notes.attempt("states", newest.run, None)
    if newest is None or run is None or not run.steps or not run.states:
        return None, {}
    if len(small) < len(shots):
        notes.add(f"states of the last {count_of(len(small), 'training step')}: all runs have over {size(BYTES)}")
    at = spread(kept_steps(run, run.steps), max(2, TEXTS // (len(small) * len(run.states))))
    name, troubles = newest.loops[0], page.Notes()

    def values(shot: Shot) -> list[list[str]]:
        run = shot.run(name)
        sequence = None if batch is None else chosen(run, batch)
        return [[_text(run, state, step, sequence) for state in run.states] for step in at if step < run.steps]

    texts = {
        shot.step: troubles.attempt(f"states of training step {shot.step}", partial(values, shot), list[list[str]]())
        for shot in small
        if name in shot.loops
    }
    notes.add(next(iter(troubles.lines), None))
    return {"name": name, "states": list(run.states), "steps": at}, texts


def _small(shots: Sequence[Shot]) -> list[Shot]:
    """The newest shots, as far as their files are small enough to be read, newest first."""
    newest, room = [], BYTES
    for shot in reversed(shots):
        room -= shot.bytes
        if room < 0:
            break
        newest.append(shot)
    return newest


def _text(run: Run, name: str, step: int, sequence: int | None) -> str:
    value = run.replay.state(name, step + 1)
    return value_text(one_entry(value, of_sequence(run, sequence), live_at(run, value, step)))


def to_scripts(view: ProbeView) -> ProbeScripts | None:
    """What the sliders show; None if there is only one training step, or nothing to slide through."""
    if len(view["slides"]) < 2:
        return None
    cards = {view["shots"][i]["step"] for i in view["shown"]}
    return {"loop": view["loop"], "slides": [_slide(view["shots"][i], cards) for i in view["slides"]]}


def _slide(shot: ShotView, cards: set[int]) -> ProbeSlide:
    slide: Any = {key: value for key, value in shot.items() if key != "runs"}
    return slide | {"picture": "" if shot["step"] in cards else shot["picture"]}


CARDS = 12
"""Largest number of cards, if no steps are asked for."""
CURVES = 4
WIDE, HIGH = 150, 190
"""Largest picture on a card, in pixels."""
LINES, LETTERS = 6, 300
"""Largest result on a card."""


@page.shows("probe", "rfnb.trace.probe.probe.Probe")
def describe(
    probe: Probe,
    *,
    steps: Sequence[int] | None = None,
    attention: str | None = None,
    batch: int | str | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
) -> ProbeView:
    """The JSON of the shots; new ones are read.

    steps: the training steps that get a card. attention: its name. batch: the sequence. head: the mean of all if not
    given. Raises ViewError if there is no such step or attention.
    """
    shots, notes = list(probe), page.Notes()
    for words in probe.unreadable:
        notes.add(f"not readable: {words}")
    left_out = shots[-1].attention.left_out if shots else []
    notes.add(f"attention left out: {', '.join(dict.fromkeys(left_out))}" if left_out else None)
    visible = _shown([shot.step for shot in shots], steps, notes)
    counts = Counter(name for shot in shots for name in dict.fromkeys(shot.attention.names()))
    name = _chosen(counts, attention)
    places = slides(len(shots), visible)
    slid = [shots[i] for i in places]
    views = {} if name is None else _pictures(slid, name, notes, batch, layer, head)
    loop, values = states_of(slid, batch, notes)
    top = max((real(view["heads"][0]["scale"]) for view in views.values() if view["heads"]), default=0.0)
    return {
        "kind": "probe",
        "name": shots[-1].name if shots and probe.fn is None else probe.name,
        "every": shots[-1].every if shots and probe.fn is None else probe.every,
        "bytes": probe.bytes,
        "off": probe.off,
        "shots": [_shot(shot, views.get(shot.step), top, values.get(shot.step, [])) for shot in shots],
        "shown": visible,
        "slides": places,
        "loop": loop,
        "attention": _attention_words(name, views, top),
        "others": [key for key in counts if key != name],
        "curves": _curves(shots),
        "note": notes.text(),
    }


def _shown(every: list[int], steps: Sequence[int] | None, notes: page.Notes) -> list[int]:
    if steps is not None:
        missing = [step for step in steps if step not in every]
        if missing:
            choices = ", ".join(map(str, every[-CARDS:])) or "no shots yet"
            raise ViewError("show: the probe has no such training step", got=missing[0], expected=choices)
        return [every.index(step) for step in steps]
    if len(every) <= CARDS:
        return list(range(len(every)))
    notes.add(f"{CARDS} of {len(every)} shots: rf.show(probe, steps=[{every[0]}, {every[-1]}]) shows others")
    return spread(range(len(every)), CARDS)


def _chosen(counts: Counter[str], name: str | None) -> str | None:
    if name is None:
        return counts.most_common(1)[0][0] if counts else None
    if name not in counts:
        names = ", ".join(counts) or "none was captured"
        raise ViewError("show: the probe has no such attention", got=repr(name), expected=names)
    return name


def _pictures(
    shots: list[Shot],
    name: str,
    notes: page.Notes,
    batch: int | str | None,
    layer: int | str | None,
    head: int | str | None,
) -> dict[int, AttentionView]:
    """By training step, the attention with this name."""
    views = {}
    for shot in shots:
        if name in shot.attention.names():
            weights = shot.attention[name]
            choice = "mean" if head is None and weights.shape[2] > 1 else head
            views[shot.step] = attention_view.describe(weights, batch=batch, layer=layer, head=choice)
    notes.add(next((view["note"] for view in views.values() if view["note"]), None))
    return views


def _attention_words(name: str | None, views: dict[int, AttentionView], top: float) -> str:
    if not views:
        return ""
    view = list(views.values())[-1]
    tag = "" if view["tag"] is None else f" of {view['tag']!r}"
    return f"{name}: {view['row_dim']['name']} × {view['col_dim']['name']}{tag}, darkest: {short(plain(top))}"


def _shot(shot: Shot, view: AttentionView | None, top: float, values: list[list[str]]) -> ShotView:
    sprite = ""
    if view is not None and view["picture"]:
        matrix = np.array([[real(value) for value in row] for row in view["weights"]], np.float32)
        frame = view["pool"], view["causal"], view["padding"]
        sprite = drawing.sprite(matrix, top, *frame)  # all on one scale
    return {
        "step": shot.step,
        "picture": sprite,
        "shape": [] if view is None else [n + pad for n, pad in zip(view["shape"], view["padding"], strict=True)],
        "words": _words(shot.result),
        "measures": {name: plain(value) for name, value in shot.measures.items()},
        "runs": list(shot.loops),
        "values": values,
        "note": shot.note,
    }


def _words(result: object, between: str = "\n") -> str:
    """The result as text: of tensors, the first lines of their views. A list of labels within it is one line."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    if isinstance(result, bool | int | float):
        return str(short(plain(result)) if isinstance(result, float) else result)
    if isinstance(result, list):
        labels = all(isinstance(part, str | int) for part in result)
        return (between if labels else "\n").join(_words(part, " ") for part in result)
    if isinstance(result, dict):
        return "\n".join(f"{name}: {_words(part, ' ')}" for name, part in result.items())
    view = View(describe_data(data_of(result))) if is_array(result) else view_of(result)
    return "\n".join(view.text.splitlines()[:3])


def _curves(shots: list[Shot]) -> list[LossCurve]:
    curves: dict[str, BinnedCurve] = {}
    for shot in shots:
        for name, value in shot.measures.items():
            curves.setdefault(name, BinnedCurve()).add(shot.step, value)
    return [describe_curve(name, curve, 1.0) for name, curve in curves.items()]


# -- words


def _head(view: ProbeView) -> str:
    """ "5 shots, training steps 200 … 1000, every 200, 1.2 MB" """
    shots = view["shots"]
    if not shots:
        return "no shots yet"
    steps = f"training steps {shots[0]['step']} … {shots[-1]['step']}" if shots[1:] else f"step {shots[0]['step']}"
    return f"{count_of(len(shots), 'shot')}, {steps}, every {view['every']}, {size(view['bytes'])}"


def _cut(words: str) -> str:
    lines = words.splitlines()
    start = "\n".join(lines[:LINES])
    return start if len(start) <= LETTERS and len(lines) <= LINES else f"{start[:LETTERS].rstrip()} …"


def _measures(shot: ShotView) -> str:
    return ", ".join(f"{name} {short(value)}" for name, value in shot["measures"].items())


def to_page(view: ProbeView) -> page.Page:
    """Curves, then as many cards in a row as fit; in a terminal, a line for each shot that is shown."""
    shots, head, attention = [view["shots"][i] for i in view["shown"]], _head(view), view["attention"]
    off = view["off"]
    lines = [[f"step {shot['step']}", _measures(shot), _cut(shot["words"]).replace("\n", " / ")] for shot in shots]
    curves = [picture(curve, number) for number, curve in enumerate(view["curves"][:CURVES])]
    tail = f"; others: {', '.join(view['others'])}" if view["others"] else ""
    words = page.Span(page.quiet(f"attention {attention}{tail}"), text=f"  attention {attention}")
    cards = el("div", [_card(shot) for shot in shots], **{"data-rfnb-shots": ""})
    names = list(dict.fromkeys(name for shot in view["shots"] for name in shot["measures"]))
    rows = [
        [shot["step"], *(shot["measures"].get(name) for name in names), shot["words"], ", ".join(shot["runs"])]
        for shot in view["shots"]
    ]
    blocks: list[page.Block] = [
        page.head(view["name"], page.Span(f"  {head}", text=f": {head}")),
        page.Line(page.chip(f"off: {off}", style.ALARM, f"  ! off: {off}")) if off else None,
        page.Figure(el("div", curves) if curves else None),
        page.Only("text", [page.Grid(lines)]) if lines else None,
        page.Line(words) if attention else None,
        page.Figure(cards),
        page.Note(view["note"]),
    ]
    return page.Page("probe", view["name"], blocks, page.Table(["step", *names, "result", "loops"], rows))


def _card(shot: ShotView) -> Html:
    measures = _measures(shot)
    return el(
        "div",
        el("div", el("b", f"step {shot['step']}"), quiet_html(f" {measures}") if measures else None),
        _image(shot) if shot["picture"] else None,
        el("div", _cut(shot["words"]), style=WORDS) if shot["words"] else None,
        note_html(shot["note"]),
        style=f"display:inline-block;vertical-align:top;width:{WIDE}px;margin:4px 12px 8px 0;overflow-wrap:anywhere",
    )


WORDS = f"{style.NUMBERS};white-space:pre-wrap;overflow-wrap:anywhere;margin-top:2px"


def _image(shot: ShotView) -> Html:
    rows, cols = (max(n, 1) for n in shot["shape"])
    wide, high = (WIDE, WIDE * rows / cols) if WIDE * rows <= HIGH * cols else (HIGH * cols / rows, HIGH)
    look = f"width:{max(round(wide), 16)}px;height:{max(round(high), 16)}px;image-rendering:pixelated;{style.BORDER}"
    return el("img", src=shot["picture"], alt=f"attention at step {shot['step']}", style=f"{look};max-width:100%",
              **{"data-rfnb-shot": str(shot["step"])})  # fmt: skip
