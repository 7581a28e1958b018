"""What the sliders of a probe's view show: at each training step, the states of a loop after each of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rfnb.core.ground.text import count_of
from rfnb.display.kit.degrade import Notes
from rfnb.display.markup.numbers import size
from rfnb.display.run.sequence_choice import live_at, of_sequence
from rfnb.display.run.step import spread
from rfnb.display.run.view import chosen
from rfnb.display.tensor.value import one_entry, value_text
from rfnb.display.training.schema import ProbeScripts, ProbeSlide, ProbeView, ShotView, SlidLoop

if TYPE_CHECKING:
    from rfnb.trace.probe.shot import Shot
    from rfnb.trace.run.run import Run

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
    shots: Sequence[Shot], batch: int | str | None, notes: Notes
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
    recorded = range(run.replay.every - 1, run.steps, run.replay.every) or range(run.steps - 1, run.steps)
    at = spread(recorded, max(2, TEXTS // (len(small) * len(run.states))))
    name, troubles = newest.loops[0], Notes()

    def values(shot: Shot) -> list[list[str]]:
        run = shot.run(name)
        sequence = None if batch is None else chosen(run, batch)
        return [[_text(run, state, step, sequence) for state in run.states] for step in at if step < run.steps]

    none: list[list[str]] = []
    texts = {
        shot.step: troubles.attempt(f"states of training step {shot.step}", partial(values, shot), none)
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
    return {
        "step": shot["step"],
        "picture": "" if shot["step"] in cards else shot["picture"],
        "shape": shot["shape"],
        "words": shot["words"],
        "measures": shot["measures"],
        "values": shot["values"],
        "note": shot["note"],
    }
