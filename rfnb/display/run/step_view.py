"""The static view of one step of a run, `rf.show(run[3])`: the states before and after it, and the body with values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, quiet, table_html
from rfnb.display.markup.html import Html, el
from rfnb.display.run.schema import RunStepView
from rfnb.display.run.step import describe_step
from rfnb.display.run.view import body_html, body_text, chosen, describe_run

if TYPE_CHECKING:
    from rfnb.trace.run.step import RunStep


def describe(at: RunStep, batch: int | str | None = None) -> RunStepView:
    """The JSON of the step; of one sequence, by number or tag, if `batch` is given."""
    run = at.run
    sequence = None if batch is None else chosen(run, batch)
    return {
        "kind": "run_step",
        "name": f"step {at.step} of {run.name}",
        "run": describe_run(run),
        "step": describe_step(run, at.step, sequence),
    }


def to_text(view: RunStepView) -> str:
    """A line of facts, the states, and the body with the values of this step."""
    states = to_table(view).lines() if view["step"]["states"] else []
    body = body_text(view["run"], view["step"])
    return "\n".join([" · ".join(_facts(view)), *(f"  {line}" for line in states), "", *body])


def to_html(view: RunStepView) -> Html:
    """A header, the table of states, and the body, as HTML."""
    name, *details = _facts(view)
    return el(
        "div",
        el("div", el("span", name, style=style.NAME), quiet(" · " + " · ".join(details)), style=style.HEAD),
        table_html(to_table(view)) if view["step"]["states"] else None,
        body_html(view["run"], view["step"]),
        style=style.BOX,
    )


def to_table(view: RunStepView) -> Table:
    """A row for each state."""
    rows = [
        [row["name"], row["before"]["text"], row["after"]["text"], row["change"], ", ".join(row["after"]["flags"])]
        for row in view["step"]["states"]
    ]
    return Table(["state", "before", "after", "change", "flags"], rows)


def _facts(view: RunStepView) -> list[str]:
    run, sequence = view["run"], view["step"]["sequence"]
    tags = run["tags"]
    of = [] if sequence is None else [f"sequence {sequence}" + (f" ({tags[sequence]!r})" if tags else "")]
    return [view["name"], run["place"], *of, view["step"]["check"]]
