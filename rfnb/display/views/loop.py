"""The static picture of a run: some of its steps, the states after each, the body with its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display import options, style
from rfnb.display.attempt import Notes
from rfnb.display.data import index_of
from rfnb.display.html import Html, el, join
from rfnb.display.numbers import bars, count_of, short, size
from rfnb.display.schema import FailureView, HistoryView, RunView, StateRow, StepView
from rfnb.display.views.body import body_html, body_text
from rfnb.display.views.runs import describe_origin
from rfnb.display.views.step import describe_step, spread
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.trace.run import Run


def describe(run: Run, batch: int | str | None = None) -> HistoryView:
    """At most a dozen steps; of one sequence, by number or tag, if `batch` is given."""
    sequence = None if batch is None else chosen(run, batch)
    steps = run.steps if sequence is None or run.lengths is None else min(run.steps, int(run.lengths[sequence]))
    shown = spread(range(steps), options.HISTORY_STEPS)
    notes = Notes()
    if len(shown) < steps:
        notes.add(f"{len(shown)} of {steps} steps; all of them in the panel, or by run[i]")
    if sequence is None and run.steps < steps_begun(run):
        shown = [*shown, steps]
    views = [_attempt(notes, run, i, sequence) for i in shown]
    return {
        "kind": "history",
        "run": describe_run(run),
        "steps": [view for view in views if view is not None],
        "note": notes.text(),
    }


def _attempt(notes: Notes, run: Run, i: int, sequence: int | None) -> StepView | None:
    return notes.attempt(f"step {i}", lambda: describe_step(run, i, sequence, pictures=False), None)


def describe_run(run: Run) -> RunView:
    """What does not change while one steps; touches no tensor."""
    source = run.source
    return {
        "kind": "run",
        "run": run.serial,
        "loop": run.loop,
        "name": run.name,
        "place": run.place,
        "file": source.file,
        "cell_id": source.cell_id,
        "cell_text": source.cell_text,
        "first_line": source.first_line,
        "body": list(source.lines),
        "steps": run.steps,
        "axis": run.axis.name,
        "lengths": None if run.lengths is None else [int(n) for n in run.lengths],
        "tags": None if run.tags is None else list(run.tags),
        "states": list(run.states),
        "flags": list(run.flags),
        "bytes": int(run.bytes),
        **describe_origin(run),
        "failure": _failure(run),
    }


def steps_begun(run: Run) -> int:
    """Those that were done, and one that failed."""
    return run.steps + (run.failed is not None and run.failed.step == run.steps)


def _failure(run: Run) -> FailureView | None:
    failed = run.failed
    return None if failed is None else {"step": failed.step, "line": failed.line, "error": failed.error}


def chosen(run: Run, batch: int | str) -> int:
    """The number of a sequence of a run. Raises ViewError if there is none."""
    count = run.batch
    if not count:
        raise ViewError("show: this run does not tell sequences apart", got=f"batch={batch!r}")
    return index_of(batch, count, run.tags)


def to_text(view: HistoryView) -> str:
    """A line a step, with the states after it; then the body with the values of the last step shown."""
    lines = [" · ".join([*facts(view), *view["run"]["flags"]])]
    lines += [f"  {line}" for line in failure_lines(view["run"])]
    lines += _table(view)
    lines += ["  " + "  ".join([name, course, *odd]) for name, course, odd in courses(view)]
    if view["steps"]:
        lines += ["", f"  {at_step(view['run'], view['steps'][-1])}", *body_text(view["run"], view["steps"][-1])]
    if view["note"]:
        lines.append(f"  ({view['note']})")
    return "\n".join(lines)


def to_repr(view: HistoryView) -> str:
    """One line."""
    return "Run{" + " · ".join([*facts(view), *view["run"]["flags"]]) + "}"


def to_html(view: HistoryView) -> Html:
    """The same, with the body of every step shown folded away."""
    return el(
        "div",
        _head(view),
        [el("div", line, style=_ERROR) for line in failure_lines(view["run"])],
        _states(view),
        _bodies(view),
        el("div", f"({view['note']})", style=style.QUIET) if view["note"] else None,
        style=style.BOX,
    )


def facts(view: HistoryView) -> list[str]:
    """Name, place, steps, sequences, what the recording holds."""
    run = view["run"]
    words = [run["name"], run["place"], f"{count_of(run['steps'], 'step')} over {run['axis']}"]
    if run["lengths"] is not None:
        lengths = run["lengths"]
        span = "–".join(str(n) for n in sorted({min(lengths, default=0), max(lengths, default=0)}))
        words.append(f"{count_of(len(lengths), 'sequence')} of {span}")
    which = view["steps"][0]["sequence"] if view["steps"] else None
    if which is not None:
        words.append(f"sequence {which}" + (f" ({run['tags'][which]!r})" if run["tags"] else ""))
    if run["parent"] is not None:
        words.insert(1, f"fork of {run['parent']} at step {run['forked_at']}")
    return [*words, size(run["bytes"])]


_ERROR = f"{style.NUMBERS};color:{style.ALARM};white-space:pre-wrap"


def failure_lines(run: RunView) -> list[str]:
    """`failed in step 2, line 14: ValueError: no`, and what else the error says."""
    failure = run["failure"]
    if failure is None:
        return []
    place = "" if failure["line"] is None else f", line {failure['line']}"
    first, *rest = failure["error"].splitlines()
    return [f"failed in step {failure['step']}{place}: {first}", *rest]


def at_step(run: RunView, step: StepView) -> str:
    """`at step 3`"""
    return f"at step {step['step']}" + (", which failed" if step["step"] >= run["steps"] else "")


def done_steps(view: HistoryView) -> list[StepView]:
    """Those that came to their end."""
    return [step for step in view["steps"] if step["step"] < view["run"]["steps"]]


def courses(view: HistoryView) -> list[tuple[str, str, list[str]]]:
    """Of each state: its name, how large it is step by step, and what is odd about it."""
    rows = view["steps"][-1]["states"] if view["steps"] else []
    return [(row["name"], bars(row["spark"]), row["flags"]) for row in rows]


def after(row: StateRow) -> str:
    """The state after the step, what is odd about it, and how far it moved."""
    moved = "" if row["change"] in (None, 0) else f"  Δ {short(row['change'])}"
    text = row["after"]["text"]
    odd = "".join(f"  {flag}" for flag in row["after"]["flags"] if flag not in ("constant", *text.split()))
    return text + odd + moved


def _table(view: HistoryView) -> list[str]:
    if not view["steps"]:
        return []
    head = ["step", *(row["name"] for row in view["steps"][0]["states"])]
    start = ["start", *(row["before"]["text"] for row in view["steps"][0]["states"])]
    rows = [[str(step["step"]), *(after(row) for row in step["states"])] for step in done_steps(view)]
    grid = [head, start, *rows] if view["steps"][0]["step"] == 0 else [head, *rows]
    widths = [max(len(row[i]) for row in grid) for i in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid
    ]


def _head(view: HistoryView) -> Html:
    name, *rest = facts(view)
    return el(
        "div",
        el("span", name, style=style.NAME),
        el("span", " · " + " · ".join(rest) + " ", style=style.QUIET),
        [el("span", flag, style=style.chip(style.ALARM) + ";white-space:nowrap") for flag in view["run"]["flags"]],
        style=style.HEAD,
    )


def _states(view: HistoryView) -> Html | None:
    if not view["steps"]:
        return None
    first = view["steps"][0]
    head = [
        el(
            "th",
            el("b", name),
            el("span", f" {course} ", style="font-weight:normal;opacity:0.65"),
            [el("span", flag, style=style.chip(style.WARN) + ";font-weight:normal") for flag in odd],
            style=style.LEFT_CELL,
        )
        for name, course, odd in courses(view)
    ]
    rows = [el("tr", el("th", "step", style=style.LABEL_CELL), head, style=style.PLAIN_ROW)]
    if first["step"] == 0:
        rows.append(_row("start", [row["before"]["text"] for row in first["states"]]))
    rows += [_row(str(step["step"]), [after(row) for row in step["states"]]) for step in done_steps(view)]
    return el("table", rows, style=style.TABLE)


def _row(label: str, cells: list[str]) -> Html:
    return el(
        "tr",
        el("td", label, style=style.LABEL_CELL),
        [el("td", cell, style=style.LEFT_CELL) for cell in cells],
        style=style.PLAIN_ROW,
    )


def _bodies(view: HistoryView) -> Html | None:
    """The body with its values at each step shown, folded away."""
    if not view["steps"]:
        return None
    return el(
        "details",
        el("summary", "the body, step by step", style=style.FOLD),
        [
            join(el("div", at_step(view["run"], step), style=style.QUIET), body_html(view["run"], step))
            for step in view["steps"]
        ],
    )
