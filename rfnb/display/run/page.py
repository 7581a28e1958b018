"""`run.save("x.html")`: a run as a standalone page that can be stepped with scripts and is complete without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rfnb.backend.base.tape import untaped
from rfnb.display.beam.schema import BeamStep
from rfnb.display.beam.view import columns_of, tree_of
from rfnb.display.kit.blocks import Notes, to_html
from rfnb.display.kit.page import LIMIT, asset_text, json_of, page
from rfnb.display.kit.view import write_atomically
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.run import view as history_view
from rfnb.display.run.schema import HistoryView, LineValue, StateRow, StepView
from rfnb.display.run.step import describe_step, spread
from rfnb.display.tensor.schema import ValueView
from rfnb.errors import ViewError
from rfnb.trace.run.find import steps_begun
from rfnb.trace.run.run import Run

LOOK = "#rfnb-stepper:empty{display:none}"


def save_page(run: Run, path: Path, limit: int | None = None) -> Path:
    """Writes the page. Its steps take at most `limit` bytes."""
    with untaped():
        still = history_view.describe(run)
        limit = LIMIT if limit is None else limit
        steps, note = chosen_steps(run, limit)
        trees = trees_of(run, steps, limit - sum(map(cost, steps)))
    return write_atomically(path, run_page(still, steps, note, trees))


def trees_of(run: Run, steps: Sequence[StepView], limit: int) -> dict[str, list[BeamStep]]:
    """The trees of the sequences of a search that the steps show, as far as they fit."""
    trees: dict[str, list[BeamStep]] = {}
    for sequence in sorted({beam["sequence"] for step in steps if (beam := step.get("beam"))}):
        tree = tree_of(run, sequence)
        columns = [] if tree is None else columns_of(tree, 0, tree.steps, tree.steps)
        limit -= len(json_of(columns).encode())
        if limit < 0:
            break
        trees[str(sequence)] = columns
    return trees


def chosen_steps(run: Run, limit: int) -> tuple[list[StepView], str | None]:
    """All steps with small pictures, else without, else as many as fit; plus those of each sequence, if all fit."""
    notes = Notes()
    total = steps_begun(run)

    def view(step: int, sequence: int | None = None) -> StepView | None:
        return notes.attempt(f"step {step}", lambda: describe_step(run, step, sequence, seen=step + 1), None)

    samples = [entry for step in spread(range(total), 3) if (entry := view(step)) is not None]
    largest = max((cost(plain(sample)) for sample in samples), default=1)
    fits = min(total, limit // largest)
    numbers = spread(range(total), fits) if fits > 1 else list(range(fits))
    steps = [entry for step in numbers if (entry := view(step)) is not None]
    if sum(map(cost, steps)) > limit:
        steps = [plain(step) for step in steps]
        notes.add("without pictures")
    while steps and sum(map(cost, steps)) > limit:
        steps = steps[::2] if len(steps) > 1 else []
    if len(steps) < total:
        notes.add(f"{len(steps)} of {total} steps are on this page; run.save(path, limit=…) keeps more")
        return steps, notes.text()
    return steps + _by_sequence(run, total, limit - sum(map(cost, steps))), notes.text()


def _by_sequence(run: Run, total: int, left: int) -> list[StepView]:
    """The steps of each single sequence, if there is room for all."""
    views: list[StepView] = []
    for sequence in range(run.batch or 0):
        for step in range(total):
            try:
                views.append(plain(describe_step(run, step, sequence, pictures=False, seen=step + 1)))
            except Exception:  # the page has the steps of all sequences together
                return []
            left -= cost(views[-1])
            if left < 0:
                return []
    return views


def plain(step: StepView) -> StepView:
    """A step without pictures."""

    def bare(value: ValueView) -> ValueView:
        return {**value, "picture": None}

    states: list[StateRow] = [{**x, "before": bare(x["before"]), "after": bare(x["after"])} for x in step["states"]]
    values: list[LineValue] = [{**row, "value": bare(row["value"])} for row in step["values"]]
    return {**step, "states": states, "values": values}


def cost(step: StepView) -> int:
    """Size of data in the page, in bytes."""
    return len(json_of(step).encode())


def run_page(
    still: HistoryView, steps: Sequence[StepView], note: str | None, trees: Mapping[str, list[BeamStep]]
) -> str:
    """The whole page."""
    run = still["run"]
    stepper = _stepper({"run": run, "steps": list(steps), "trees": trees}) if steps else []
    body = [
        el("div", id="rfnb-stepper") if stepper else None,
        el("p", note, style=style.QUIET) if note and stepper else None,
        el(
            "details",
            el("summary", "history", style=style.FOLD),
            to_html(history_view.to_page(still)),
            open=True,
            id="rfnb-history",
        ),
        stepper,
    ]
    return page(f"{run['name']} · {run['place']}", body, [Html(LOOK), asset_text("stepper.css")] if stepper else None)


def _stepper(recording: object) -> list[Html]:
    """The data and the script of the stepper; empty if the script is not built."""
    try:
        script = asset_text("page.js")
    except ViewError:
        return []
    return [el("script", json_of(recording), type="application/json", id="rfnb-recording"), el("script", script)]
