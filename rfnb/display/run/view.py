"""The static view of a run: some of its steps, the states after each, and the body with its values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from textwrap import dedent

from rfnb.core.ground.text import count_of, cut, first_of
from rfnb.display.beam import view as beam_view
from rfnb.display.beam.schema import BeamScripts, BeamView
from rfnb.display.beam.view import tree_of
from rfnb.display.kit import blocks as page
from rfnb.display.loop import describe as describe_explanation, headline
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el
from rfnb.display.markup.numbers import plain, size
from rfnb.display.run import states
from rfnb.display.run.list_view import LAST_ONLY, describe_origin
from rfnb.display.run.schema import (
    ExplanationView,
    FailureView,
    HistoryView,
    OtherFunction,
    RunView,
    SequenceEnd,
    StepView,
    TrainingView,
)
from rfnb.display.run.step import describe_step, of_sequence, spark_steps
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.value import describe_value
from rfnb.display.tensor.view import index_of
from rfnb.errors import ViewError
from rfnb.trace.plain.record import is_added
from rfnb.trace.run.find import steps_begun
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import RunStep
from rfnb.trace.run.variables import VariableSteps


def body_text(run: RunView, step: StepView) -> list[str]:
    """The source, and after each line the values it computed."""
    texts = beside(step)
    failure = run["failure"]
    if failure is not None and failure["line"] is not None and failure["step"] == step["step"]:
        texts[failure["line"]] = "✗ " + failure["error"].partition("\n")[0]
    body = dedent("\n".join(run["body"])).split("\n") if run["body"] else []
    width = min(80, max((len(line) for line in body), default=0))
    numbered = enumerate(body, run["first_line"])
    lines = [f"  {n:>4}  {text:<{width}}  {texts.pop(n, '')}".rstrip() for n, text in numbered]
    return lines + [f"  {n:>4}  {words}" for n, words in sorted(texts.items())]


def body_html(run: RunView, step: StepView) -> Html:
    """The source with values as HTML."""
    look = f"{style.NUMBERS};line-height:1.4;margin:0 0 8px 0;padding:0;background:none;overflow-x:auto;white-space:pre"
    return el("pre", "\n".join(body_text(run, step)), style=look)


def beside(step: StepView) -> dict[int, str]:
    """`name = value` for the values of each line; unnamed values are left out where there are named ones."""
    named: dict[int, bool] = defaultdict(bool)
    for row in step["values"]:
        named[row["line"]] |= row["value"]["name"] != row["op"]
    lines: dict[int, list[str]] = defaultdict(list)
    for row in step["values"]:
        if named[row["line"]] and row["value"]["name"] == row["op"]:
            continue
        text = row["value"]["text"]
        odd = "".join(f"  {flag}" for flag in row["value"]["flags"] if flag not in ("constant", *text.split()))
        lines[row["line"]].append(f"{row['value']['name']} = {text}{odd}")
    return {line: "  ".join(words) for line, words in lines.items()}


SHOWN = 32
"""Largest number of sequences with a row."""
NAME = 40
"""Largest number of characters of a tag beside its bar."""
WIDTH = 16
PIXELS = 160


def describe_sequences(run: Run, sequence: int | None) -> list[SequenceEnd]:
    """All sequences, or the chosen one; none if the run has no sequence dim."""
    lengths, ends = run.lengths or [], run.ends
    rows: list[SequenceEnd] = [
        {
            "sequence": i,
            "tag": None if run.tags is None else run.tags[i],
            "steps": int(n),
            "end": None if ends is None else ends[i],
        }
        for i, n in enumerate(lengths)
    ]
    return rows if sequence is None else rows[sequence : sequence + 1]


def sequences_blocks(rows: list[SequenceEnd]) -> list[page.Block]:
    """A row for each sequence, or a line for all if they end alike."""
    if not rows:
        return []
    if len(rows) == 1 or len({(row["steps"], row["end"]) for row in rows}) == 1:
        ending = rows[0]["end"] or count_of(rows[0]["steps"], "step")
        who = _name(rows[0]) if len(rows) == 1 else f"all {len(rows)} sequences"
        return [page.Line(page.quiet(f"{who}: {ending}"), indent=2)]
    top = max(row["steps"] for row in rows) or 1
    cells: list[list[page.Words]] = [
        [cut(_name(row), NAME), _bar(row["steps"] / top), row["end"] or row["steps"]] for row in rows[:SHOWN]
    ]
    tail = page.Line(page.quiet(f"… {len(rows) - SHOWN} more"), indent=2) if len(rows) > SHOWN else None
    bars = f"{style.LEFT_CELL};vertical-align:middle;width:{PIXELS}px"
    looks = [style.LABEL_CELL, bars, f"{style.LEFT_CELL};white-space:nowrap"]
    return [page.Grid(cells, looks=looks), tail]


def _bar(share: float) -> page.Span:
    look = f"background-color:{style.tint(style.GREY, 0.5)};height:9px;width:{round(PIXELS * share)}px"
    return page.Span(el("div", style=look), text=f"{'█' * round(WIDTH * share):<{WIDTH}}")


def _name(row: SequenceEnd) -> str:
    return f"sequence {row['sequence']}" if row["tag"] is None else repr(row["tag"])


OTHERS = 4
"""Largest number of functions that are named whose loops were not recorded."""


@page.shows("run", "rfnb.trace.run.run.Run")
def describe(run: Run, batch: int | str | None = None) -> HistoryView:
    """The JSON of a run with at most a dozen steps; of one sequence, by number or tag, if `batch` is given."""
    sequence = None if batch is None else chosen(run, batch)
    steps = steps_begun(run) if sequence is None else _steps_of(run, sequence)
    notes = page.Notes()
    samples = [
        notes.attempt(f"picture of {name}", partial(states.follow, run, name, sequence, min(steps, run.steps)), None)
        for name in run.states
    ]
    histories = [history for history in samples if history is not None]
    reasons = states.chosen_steps(run, sequence, steps, histories)
    if len(reasons) < steps:
        notes.add(f"{len(reasons)} of {steps} steps shown; the panel and run[i] have all of them")
    views = _steps(notes, run, reasons, sequence)
    return {
        "kind": "run",
        "run": describe_run(run),
        "sequence": sequence,
        "start": [_start(run, name, sequence) for name in run.states],
        "steps": list(views.values()),
        "reasons": [reasons[i] for i in views],
        "sequences": describe_sequences(run, sequence),
        "strips": [states.describe_strip(history) for history in histories],
        "explanation": _explanation(run),
        "beam": notes.attempt("beam", partial(_beam, run, sequence), None),
        "note": notes.text(),
    }


def _steps_of(run: Run, sequence: int) -> int:
    """Number of steps that a sequence began."""
    counts = run.begun
    return min(steps_begun(run), int(counts.values[sequence] if counts.dims else counts.max))


def _start(run: Run, name: str, sequence: int | None) -> ValueView:
    """The JSON of a state before the first step."""
    value = run.replay.state(name, 0)
    return describe_value(name, value, at=of_sequence(run, sequence), pictures=False)


def _explanation(run: Run) -> ExplanationView | None:
    """The explanation of the loop, if there is one."""
    try:
        explanation = run.explain()
    except Exception:  # of a run from a file
        return None
    if not explanation.ran:
        return None
    return {"headline": headline(explanation), "picture": page.to_html(describe_explanation(explanation))}


def _beam(run: Run, sequence: int | None) -> BeamView | None:
    """The tree of a search, of the chosen sequence or the first one."""
    tree = tree_of(run, sequence)
    return None if tree is None else beam_view.describe(tree)


def _steps(notes: page.Notes, run: Run, shown: Iterable[int], sequence: int | None) -> dict[int, StepView]:
    """The steps that can be computed; a note for the others, once per reason."""
    views: dict[int, StepView] = {}
    missing: dict[str, list[int]] = {}
    for i in shown:
        try:
            views[i] = describe_step(run, i, sequence, pictures=False)
        except Exception as error:
            missing.setdefault(page.reason(error), []).append(i)
    if sequence is not None:
        steps_of_sparks, end = spark_steps(run), _steps_of(run, sequence)
        for row in (row for view in views.values() for row in view["states"]):
            row["spark"] = [n for step, n in zip(steps_of_sparks, row["spark"], strict=False) if step < end]
    for why, steps in missing.items():
        notes.add(f"no step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}: {why}")
    return views


def describe_run(run: Run) -> RunView:
    """Facts that are the same for all steps; reads no tensor."""
    source = run.source
    view: RunView = {
        "kind": "run_facts",
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
        "is_search": run.replay.is_search,
        "training": _training(run),
    }
    if isinstance(run.replay, VariableSteps):
        view["is_plain"] = True
        if run.replay.raised_in is not None:
            view["raised_in"] = run.replay.raised_in
        if run.replay.kept_from:
            view["kept_from"] = run.replay.kept_from
    if also := describe_others(run):
        view["also"] = also
    return view


def describe_others(run: Run) -> list[OtherFunction]:
    """Other functions with loops that ran while the loop was recorded."""
    also = run.replay.also if isinstance(run.replay, VariableSteps) else ()
    return [{"place": place, "added": is_added(place)} for place in also]


def _training(run: Run) -> TrainingView | None:
    at = run.training
    if at is None:
        return None
    return {
        "step": at.step,
        "steps": at.steps(),
        "measures": {name: plain(value) for name, value in at.measures.items()},
    }


def _failure(run: Run) -> FailureView | None:
    failed = run.failed
    return None if failed is None else {"step": failed.step, "line": failed.line, "error": failed.error}


def chosen(run: Run, batch: int | str) -> int:
    """The number of a sequence of a run. Raises ViewError if it does not exist."""
    count = run.batch
    if not count:
        raise ViewError("show: this run has no sequence dim", got=f"batch={batch!r}")
    return index_of(batch, count, run.tags)


def to_page(view: HistoryView) -> page.Page:
    """Sequences, steps and states; then the body with the values of the last step, or folded those of all steps."""
    run, steps, (heading, *details) = view["run"], view["steps"], facts(view)
    flags = [page.Span([flag, " "], style.chip(style.ALARM), f" · {flag}") for flag in run["flags"]]
    beam = beam_view.to_page(tree).blocks if (tree := view.get("beam")) else []
    blocks: list[page.Block] = [
        page.Line(page.name(heading), page.quiet(" · ", " · ".join(details), page.web(" ")), flags, look=style.HEAD),
        *(page.Line(line, look=_ERROR, indent=2) for line in failure_lines(run)),
        *sequences_blocks(view["sequences"]),
        *(page.Line(line, indent=2) for line in no_steps(view)),
        *states.steps_blocks(view),
        states.states_grid(view),
        page.Only("html", beam),
        *(page.Line(page.quiet(line), indent=2) for line in others_lines(run)),
        *_explained(view["explanation"]),
        page.Only("text", [page.Line(""), page.Group(beam, indent=2)]) if beam else None,
        *_bodies(run, steps),
        page.Note(view["note"]),
    ]
    in_short = page.Line("Run{" + " · ".join([heading, *details, *run["flags"]]) + "}")
    return page.Page("run", run["name"], blocks, states.to_table(view), [in_short])


def _explained(explanation: ExplanationView | None) -> list[page.Block]:
    """The explanation of the loop, folded."""
    if explanation is None:
        return []
    headline, picture = explanation["headline"], page.Figure(Html(explanation["picture"]))
    return [page.Only("text", [page.Line(headline, indent=2)]), page.Only("html", [page.Fold(headline, [picture])])]


def _bodies(run: RunView, steps: Sequence[StepView]) -> list[page.Block]:
    """The body with its values at each shown step, folded; a terminal shows the last one."""
    if not steps:
        return []
    last_step: list[page.Block] = [
        page.Line(""),
        page.Line(at_step(run, steps[-1]), indent=2),
        page.Figure(None, body_text(run, steps[-1])),
    ]
    bodies = [
        block
        for step in steps
        for block in (page.Line(page.quiet(at_step(run, step))), page.Figure(body_html(run, step)))
    ]
    return [page.Only("text", last_step), page.Only("html", [page.Fold("the body, step by step", bodies)])]


def to_scripts(view: HistoryView) -> BeamScripts | None:
    """The tree of a search, which is what scripts enhance."""
    return beam_view.to_scripts(beam) if (beam := view.get("beam")) else None


def facts(view: HistoryView) -> list[str]:
    """Name, place, number of steps and sequences, and size of the recording."""
    run = view["run"]
    steps = LAST_ONLY if "raised_in" in run else f"{count_of(run['steps'], 'step')} over {run['axis']}"
    words = [run["name"], run["place"], steps]
    if run["lengths"] is not None:
        lengths = run["lengths"]
        span = "–".join(str(n) for n in sorted({min(lengths, default=0), max(lengths, default=0)}))
        words.append(f"{count_of(len(lengths), 'sequence')} of {span}")
    if view["sequence"] is not None:
        words.append(_chosen_name(view))
    if run["parent"] is not None:
        words.insert(1, f"fork of {run['parent']} at step {run['forked_at']}")
    at = run.get("training")
    if at is not None and (word := f"training step {at['step']}") not in words:
        words.insert(1, word)
    return [*words, size(run["bytes"])]


def no_steps(view: HistoryView) -> list[str]:
    """A sentence for a run or sequence without steps."""
    if view["steps"] or view["note"]:
        return []
    who = "the loop" if view["sequence"] is None else _chosen_name(view)
    return [f"{who} has no steps: the states are the initial ones"]


def _chosen_name(view: HistoryView) -> str:
    return _name_of(view["sequence"] or 0, view["run"]["tags"])


def _name_of(sequence: int, tags: list[str] | None) -> str:
    return f"sequence {sequence}" + (f" ({tags[sequence]!r})" if tags else "")


_ERROR = f"{style.NUMBERS};{style.MARKED};white-space:pre-wrap;overflow-wrap:anywhere"


def failure_lines(run: RunView) -> list[str]:
    """`failed in step 2, line 14: ValueError: no`, and the other lines of the error."""
    failure = run["failure"]
    if failure is None:
        return []
    place = "" if failure["line"] is None else f", line {failure['line']}"
    first, *details = failure["error"].splitlines()
    if "raised_in" in run:
        return [f"raised in line {failure['line']}: {first}", *details, "The values are those of the traceback."]
    return [f"failed in step {failure['step']}{place}: {first}", *details]


def others_lines(run: RunView) -> list[str]:
    """`not recorded: loops in module:function, …`, if other functions with loops ran."""
    places = [function["place"] for function in run.get("also", []) if not function["added"]]
    return [f"not recorded: loops in {first_of(places, OTHERS)}"] if places else []


def at_step(run: RunView, step: StepView) -> str:
    """`at step 3`"""
    return f"at step {step['step']}" + (", which failed" if step["step"] >= run["steps"] else "")


@page.shows("run_step", "rfnb.trace.run.step.RunStep")
def page_of_step(at: RunStep, batch: int | str | None = None) -> page.Page:
    """One step, `rf.show(run[3])`: its states, and the body with its values; of one sequence if `batch` is given."""
    sequence = None if batch is None else chosen(at.run, batch)
    run, step = bounded_in(describe_run(at.run)), bounded_in(describe_step(at.run, at.step, sequence))
    of = [] if sequence is None else [_name_of(sequence, run["tags"])]
    rows = [
        [row["name"], row["before"]["text"], row["after"]["text"], row["change"], ", ".join(row["after"]["flags"])]
        for row in step["states"]
    ]
    table, words = page.Table(["state", "before", "after", "change", "flags"], rows), f"step {at.step} of {run['name']}"
    blocks = [
        page.Line(
            page.name(words), page.quiet(f" · {' · '.join([run['place'], *of, step['check']])}"), look=style.HEAD
        ),
        page.Grid(rows, table.columns, states.looks_of(rows)) if rows else None,
        page.Figure(body_html(run, step), ["", *body_text(run, step)]),
    ]
    return page.Page("run_step", words, blocks, table)
