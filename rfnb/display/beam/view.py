"""The view of a beam search: the n-best list and the tree of one sequence, and what became of the reference.

The panel shows the beam after one step of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rfnb.display.beam.picture import image, to_figure as to_figure
from rfnb.display.beam.schema import (
    BeamAt,
    BeamHypothesis,
    BeamNode,
    BeamReference,
    BeamRow,
    BeamStep,
    BeamView,
    NodeAt,
)
from rfnb.display.kit.note import Notes
from rfnb.display.markup import style, svg
from rfnb.display.markup.elements import Table, chip, fold, note_html, note_text, quiet, table_html
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import plain, short
from rfnb.errors import ViewError
from rfnb.printable import printable_name
from rfnb.search.explain.keep import reason_against
from rfnb.search.explain.where import Where
from rfnb.search.found import Found
from rfnb.search.tree import Tree
from rfnb.search.tree_arrays import Node

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


STEPS = 60
"""Largest number of steps that are drawn."""
PRUNED = 4
"""Pruned candidates that are drawn of each step, if no number is given; fewer if there are many steps."""
NODES = 780
"""Largest number of nodes, up to which more pruned candidates than one are drawn of each step."""
OTHERS = 30
"""Largest number of other sequences that are named."""
VERDICTS = {
    "correct": style.PALETTE[2],
    "search error": style.PALETTE[1],
    "model error": style.PALETTE[0],
    "undecided": style.GREY,
}
"""The colours of verdicts; the others have that of a warning."""


def describe(
    search: Found | Tree | Where, batch: int | str = 0, reference: Any = None, pruned: int | None = None
) -> BeamView:
    """The search for one sequence as JSON.

    batch: the position or tag of the sequence. reference: what should have been found, as text, labels or numbers.
    pruned: how many of the pruned candidates are drawn of each step.
    """
    if isinstance(search, Found) and not len(search):
        return _empty(search)
    notes = Notes()
    tree = search.tree if isinstance(search, Where) else search.tree[batch] if isinstance(search, Found) else search
    where = search if isinstance(search, Where) else None if reference is None else tree.where(reference)
    names = [tree.name for tree in search.tree[:OTHERS]] if isinstance(search, Found) and len(search) > 1 else []
    steps = drawn_steps(tree, None if where is None or where.fall is None else where.fall.step)
    if pruned is None:
        pruned = max(1, min(PRUNED, NODES // max(len(steps), 1) - tree.beam))
    if len(steps) < tree.steps:
        notes.add(f"{len(steps)} of {tree.steps} steps are drawn")
    prompt: Any = {"prompt": printable_name(tree.text_of(tree.prompt))} if tree.prompt else {}
    return {
        "kind": "beam",
        "name": tree.name,
        "others": names,
        "summary": _summary(search, tree, where),
        "beam": tree.beam,
        "steps": tree.steps,
        "columns": columns(tree, where, steps, pruned),
        "hypotheses": [_hypothesis(hypothesis, where) for hypothesis in tree.hypotheses],
        "reference": None if where is None else _reference(where, pruned),
        "note": notes.text(),
        **prompt,
    }


def _empty(search: Found) -> BeamView:
    """The view of a batch without sequences."""
    return {
        "kind": "beam", "name": "search", "summary": search.text.splitlines(), "others": [],
        "beam": search.trace.labels.shape[2], "steps": 0, "columns": [], "hypotheses": [], "reference": None,
        "note": "there is no sequence",
    }  # fmt: skip


def _summary(search: Found | Tree | Where, tree: Tree, where: Where | None) -> list[str]:
    """The n-best lists in words, and what became of the reference."""
    lines = [] if isinstance(search, Where) else search.text.splitlines()
    lines += [] if where is None else where.text.splitlines()
    return [*lines, *([f"{printable_name(tree.name)}:"] if isinstance(search, Found) and len(search) > 1 else [])]


def drawn_steps(tree: Tree, fall: int | None) -> list[int]:
    """All steps; of many, the first and last ones, and those around the fall of a reference."""
    if tree.steps <= STEPS:
        return list(range(tree.steps))
    third, middle = STEPS // 3, tree.steps // 2 if fall is None else fall
    near = range(max(0, middle - third // 2), min(tree.steps, middle + third // 2))
    return sorted({*range(third), *near, *range(tree.steps - third, tree.steps)})


def columns(tree: Tree, where: Where | None, drawn: Sequence[int], pruned: int, before: int = -1) -> list[BeamStep]:
    """The beams after the drawn steps; `before` is the step drawn before them."""
    best = tree.best.places if tree.best is not None else ()
    places = {} if where is None else {node.step: node.place for node in where.nodes}
    steps: list[BeamStep] = []
    for previous, step in zip([before, *drawn], drawn, strict=False):
        nodes = [_node(node, node.place or 0, best[step : step + 1], places.get(step)) for node in tree.nodes(step)]
        candidates = _candidates(tree, where, step, pruned)
        nodes += [_node(node, tree.beam + i, (), None) for i, node in enumerate(candidates)]
        steps.append({"step": step, "nodes": nodes, "skipped": step - previous - 1})
    return steps


def _candidates(tree: Tree, where: Where | None, step: int, pruned: int) -> list[Node]:
    """The pruned candidates that are drawn of a step; where the reference falls out, the usual number."""
    falls = where is not None and where.fall is not None and where.fall.step == step
    return tree.pruned(step, max(pruned, PRUNED) if falls else pruned) if pruned else []


def _node(node: Node, row: int, best: Sequence[int], reference: int | None) -> BeamNode:
    lives = "copy" if node.ended else "lives" if node.survives else "dies"
    return {
        "row": row,
        "parent": node.parent,
        "joined": node.joined,
        "text": "·" if node.pruned and node.ended else node.text,
        "score": _rounded(node.compared),
        "state": "pruned" if node.pruned else lives,  # type: ignore[typeddict-item]
        "ends": node.ends,
        "best": node.place in best,
        "reference": reference is not None and node.place == reference,
    }


def _hypothesis(each: Any, where: Where | None) -> BeamHypothesis:
    return {
        "rank": each.rank,
        "place": each.place,
        "text": each.text,
        "score": _rounded(each.score),
        "parts": {name: _rounded(part) for name, part in each.parts.items()},
        "length": len(each.labels),
        "complete": each.complete,
        "reference": where is not None and where.found is not None and where.found.place == each.place,
    }


def _reference(where: Where, pruned: int) -> BeamReference:
    fall = where.fall
    row = None
    if fall is not None and fall.candidate is not None:
        candidates = _candidates(where.tree, where, fall.step, pruned)
        matches = (i for i, node in enumerate(candidates) if node == fall.candidate)
        row = next((where.tree.beam + i for i in matches), None)
    return {
        "text": where.reference.text,
        "verdict": where.verdict,
        "because": where.because,
        "fall": None if fall is None else {"step": fall.step, "row": row, "words": fall.words},
    }


def _rounded(score: float) -> float:
    return float(f"{score:.5g}") if math.isfinite(score) else -math.inf


# -- text


def to_text(view: BeamView) -> str:
    """The n-best lists, what became of the reference, and the tree."""
    return "\n".join([*view["summary"], *tree_lines(view), *note_text(view["note"], "")])


def to_repr(view: BeamView) -> str:
    """The n-best lists."""
    lines = view["summary"]
    return "\n".join(lines[:-1] if lines and lines[-1] == f"{printable_name(view['name'])}:" else lines)


def sizes(view: BeamView) -> str:
    """The number of steps, and the size of the beam."""
    steps = f"{view['steps']} step" + ("s" if view["steps"] != 1 else "")
    return f"{steps}, beam {view['beam']}"


LINES = 40
"""Largest number of lines of the tree as text."""
WIDTH = 100


def tree_lines(view: BeamView) -> list[str]:
    """The kept hypotheses as a tree: labels that continue without a branch share a line."""
    children: dict[tuple[int, int], list[tuple[int, BeamNode]]] = {}
    for at, column in enumerate(view["columns"]):
        for node in column["nodes"]:
            if node["state"] in ("lives", "dies"):
                parent = (at - 1, node["parent"]) if at and node["parent"] is not None else (-1, 0)
                children.setdefault(parent, []).append((at, node))
    lines: list[str] = []
    waiting = [(0, branch) for branch in reversed(children.get((-1, 0), []))]
    while waiting and len(lines) < LINES:
        depth, (at, node) = waiting.pop()
        labels = [_marked(node)]
        branches = children.get((at, node["row"]), [])
        while len(branches) == 1:
            at, node = branches[0]
            labels.append(_marked(node))
            branches = children.get((at, node["row"]), [])
        text = f"  {'  ' * depth}{' '.join(labels)}  {short(node['score'])}"
        lines.append(text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…")
        waiting += [(depth + 1, branch) for branch in reversed(branches)]
    tail = [f"  … {len(waiting)} more branches"] if waiting else []
    joins = ", ⋎ two merged" if _has_joins(view) else ""
    return [f"tree (▣ ends, * best, ‡ reference{joins}):", *lines, *tail] if lines else []


def _has_joins(view: BeamView) -> bool:
    return any(node["joined"] is not None for column in view["columns"] for node in column["nodes"])


def _marked(node: BeamNode) -> str:
    joins = "⋎" * (node["joined"] is not None)
    return printable_name(node["text"]) + joins + "▣" * node["ends"] + "*" * node["best"] + "‡" * node["reference"]


def to_table(view: BeamView) -> Table:
    """The n-best list, with a column for each scorer."""
    hypotheses = view["hypotheses"]
    parts = list(dict.fromkeys(name for entry in hypotheses for name in entry["parts"]))
    rows = [
        [entry["rank"], entry["score"], entry["text"], *(entry["parts"].get(name) for name in parts), _end(entry)]
        for entry in hypotheses
    ]
    return Table(["rank", "score", "text", *parts, "end"], rows)


def _end(each: BeamHypothesis) -> str:
    words = ["" if each["complete"] else "no end", "reference" if each["reference"] else ""]
    return ", ".join(filter(None, words))


# -- HTML


def to_svg(view: BeamView) -> str:
    """The picture of the tree."""
    if not view["columns"]:
        raise ViewError("beam: there is no step to draw", got=view["name"])
    return image(view)


def to_html(view: BeamView) -> Html:
    """The reference, the n-best list, and the picture of the tree."""
    return el(
        "div",
        head_html(view),
        fold("prompt", el("div", view["prompt"])) if "prompt" in view else None,
        _reference_html(view["reference"]),
        search_html(view),
        _others(view),
        text_html(to_text(view)),
        note_html(view["note"]),
        style=style.BOX,
    )


def head_html(view: BeamView) -> Html:
    """The name of the sequence, and the sizes of the tree."""
    return el("div", el("span", view["name"], style=style.NAME), quiet(f" · {sizes(view)}"), style=style.HEAD)


def search_html(view: BeamView) -> list[Html]:
    """The n-best list, and the picture of the tree."""
    if not view["columns"]:
        return _nbest(view)
    alt = f"beam of {view['name']}: {sizes(view)}; listed below"
    picture = el("img", src=svg.data_uri(image(view)), alt=alt, style="max-width:none;height:auto")
    return [
        *_nbest(view),
        el("div", picture, style="overflow-x:auto;max-width:100%"),
        el("div", quiet(LEGEND + _has_joins(view) * JOINS), style="font-size:12px"),
    ]


def text_html(text: str) -> Html:
    """The view as text, folded."""
    return fold("as text", el("pre", text, style=_PRE))


LEGEND = (
    "step by step from left to right · the bluer, the better in its step · thick: best · green frame: reference · "
    "▣ ends · “·” had ended before · ✂ fell out · grey: pruned"
)
JOINS = " · brown: joined, as the labels are the same"
_PRE = "font-family:monospace;font-size:12px;white-space:pre;margin:4px 0;background:none;overflow-x:auto"


def verdict_colour(verdict: str) -> str:
    """The colour of what is said of a reference."""
    return VERDICTS.get(verdict, style.WARN)


def _reference_html(reference: BeamReference | None) -> Html | None:
    if reference is None:
        return None
    word = chip(reference["verdict"], verdict_colour(reference["verdict"]))
    words = [reference["because"], *([reference["fall"]["words"]] if reference["fall"] else [])]
    return el(
        "div",
        el("div", word, "reference: ", el("b", reference["text"] or "(no labels)")),
        [el("div", quiet(line)) for line in words],
    )


def _nbest(view: BeamView) -> list[Html]:
    """The best hypotheses; the others are folded."""
    table = to_table(view)
    parts = [el("div", table_html(Table(table.columns, table.rows[:ROWS])), style="overflow-x:auto")]
    if len(table) > ROWS:
        tail = el("div", table_html(Table(table.columns, table.rows[ROWS:])), style="overflow-x:auto")
        parts.append(fold(f"{len(table) - ROWS} more hypotheses", tail))
    return parts


ROWS = 5
"""Number of hypotheses that are not folded."""


def _others(view: BeamView) -> Html | None:
    if not view["others"]:
        return None
    names = ", ".join(view["others"])
    return el("div", quiet(f'other sequences: rf.show(found, batch="…") for {names}'), style="font-size:12px")


LABELS = 120
"""Largest number of labels in the text of a hypothesis; the last ones."""
NEAR = 8
"""Number of the last columns with pruned candidates, for which a step may have to be computed again."""

_trees: WeakKeyDictionary[Any, dict[int, Tree]] = WeakKeyDictionary()
"""The trees of each run that were asked for, with all that they have computed."""


def tree_of(run: Run, sequence: int | None) -> Tree | None:
    """The tree of a sequence of a search, of the first one by default; None for other runs, and for several batch dims.

    The hypotheses of a search without a batch dim are those of all sequences.
    """
    if not run.replay.is_search or run.found is None:
        return None
    count = len(run.found)
    if not count or count not in (1, run.batch or 1):
        return None
    index = 0 if count == 1 else sequence or 0
    trees = _trees.setdefault(run, {})
    if index not in trees:
        trees[index] = run.found.tree[index]
    return trees[index]


def line(tree: Tree, at: NodeAt) -> list[int | None]:
    """The places of one hypothesis after all steps: those of its prefixes, its own, and those of what became of it.

    That is the best of the final hypotheses that extend it. If there is none, the best one after each step, and None
    when there is none left. Raises ViewError if there is no such hypothesis.
    """
    step, place = int(at["step"]), int(at["place"])
    if not (0 <= step < tree.steps and 0 <= place < tree.beam and tree.alive[step, place]):
        raise ViewError(f"{tree.name} has no hypothesis at place {place} after step {step}")
    places: list[int | None] = [None] * tree.steps
    final = next((hypothesis for hypothesis in tree.hypotheses if hypothesis.places[step] == place), None)
    if final is not None:
        places[:] = final.places
        return places
    for earlier in range(step, -1, -1):
        places[earlier], place = place, int(tree.parents[earlier, place])
    for later in range(step + 1, tree.steps):
        children = [node.place for node in tree.nodes(later) if node.parent == places[later - 1]]
        if not children:
            break
        places[later] = children[0]
    return places


def describe_beam(tree: Tree, step: int, hypothesis: NodeAt | None, seen: int) -> BeamAt:
    """The JSON of the beam at a step.

    hypothesis: the one that was chosen, at any step. seen: how many columns of the tree the front end has.
    """
    last = min(step, tree.steps - 1)
    since = max(0, min(seen, last))  # the last column always, as it may have come without pruned candidates
    places = None if hypothesis is None else line(tree, hypothesis)
    return {
        "sequence": tree.sequence,
        "name": printable_name(tree.name),
        "beam": tree.beam,
        "step": last,
        "steps": tree.steps,
        "since": since,
        "columns": columns_of(tree, since, last + 1, NEAR),
        "rows": [_row(tree, node) for node in tree.nodes(last)] if tree.steps else [],
        "hypothesis": hypothesis,
        "place": None if places is None else places[last],
        "lost": None if places is None or None not in places else places.index(None),
        "locked": reason_against(tree.trace),
    }


def columns_of(tree: Tree, start: int, stop: int, near: int) -> list[BeamStep]:
    """The columns of the tree from one step to another; the `near` last ones with pruned candidates."""
    middle = max(start, stop - near)
    steps = columns(tree, None, range(start, middle), 0, before=start - 1)
    steps += columns(tree, None, range(middle, stop), PRUNED, before=middle - 1)
    for node in (node for column in steps for node in column["nodes"]):
        node["text"] = printable_name(node["text"])
    return steps


def _row(tree: Tree, node: Node) -> BeamRow:
    step, place = node.step, node.place or 0
    labels, ended = tree.prefix(step, place), node.ended or node.ends
    visible = labels[:-1] if ended and labels and labels[-1] in tree.end_labels else labels
    return {
        "place": place,
        "rank": node.rank,
        "text": ("… " if len(visible) > LABELS else "") + printable_name(tree.text_of(visible[-LABELS:])),
        "score": plain(node.compared),
        "parts": {printable_name(name): plain(float(sums[step, place])) for name, sums in tree.part_sums.items()},
        "parent": None if node.parent is None else int(tree.ranks[step - 1, node.parent]),
        "ended": ended,
    }
