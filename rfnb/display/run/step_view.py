"""The static view of one step of a run, `rf.show(run[3])`: the states before and after it, and the body with values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display.kit.blocks import Figure, Grid, Line, Page, Table, name, quiet
from rfnb.display.markup import style
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


def page(view: RunStepView) -> Page:
    """A line of facts, the states, and the body with the values of this step."""
    run, step, tags = view["run"], view["step"], view["run"]["tags"]
    sequence = step["sequence"]
    of = [] if sequence is None else [f"sequence {sequence}" + (f" ({tags[sequence]!r})" if tags else "")]
    rows = [
        [row["name"], row["before"]["text"], row["after"]["text"], row["change"], ", ".join(row["after"]["flags"])]
        for row in step["states"]
    ]
    table = Table(["state", "before", "after", "change", "flags"], rows)
    blocks = [
        Line(name(view["name"]), quiet(f" · {' · '.join([run['place'], *of, step['check']])}"), look=style.HEAD),
        Grid(rows, table.columns) if rows else None,
        Figure(body_html(run, step), ["", *body_text(run, step)]),
    ]
    return Page("run_step", view["name"], blocks, table)
