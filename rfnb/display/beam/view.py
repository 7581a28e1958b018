"""The view of a beam search: the n-best list and the tree of one sequence, and what became of the reference.

The panel shows the beam after one step of a loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.display.beam.picture import PRUNED, drawn, drawn_steps, image, legend_html, to_figure as to_figure
from rfnb.display.beam.schema import (
    BeamAt,
    BeamColumn,
    BeamHypothesis,
    BeamNode,
    BeamReference,
    BeamRow,
    BeamScripts,
    BeamStep,
    BeamView,
    NodeAt,
)
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style, svg
from rfnb.display.markup.html import Html, el, note_html, wide
from rfnb.display.markup.numbers import plain, short
from rfnb.errors import ViewError
from rfnb.printable import printable_name
from rfnb.search.corpus import for_each
from rfnb.search.explain.fork import reason_against
from rfnb.search.explain.position import Where
from rfnb.search.result import Found
from rfnb.search.trace import Hypothesis, Node
from rfnb.search.tree import Tree
from rfnb.trace.run.run import Run

NODES = 780
"""Largest number of nodes, up to which more pruned candidates than one are drawn of each step."""
LIVE = 4000
"""The same for scripts, and up to which they have all steps."""
OTHERS = 30
"""Largest number of other sequences that are named."""
VERDICTS = {
    "correct": style.PALETTE[2],
    "search error": style.PALETTE[1],
    "model error": style.PALETTE[0],
    "undecided": style.GREY,
}
"""The colours of verdicts; the others have that of a warning."""


@page.shows("beam", "rfnb.search.result.Found", "rfnb.search.tree.Tree")
def describe(
    search: Found | Tree | Where,
    batch: int | str = 0,
    reference: object = None,
    pruned: int | None = None,
    tokenizer: object = None,
) -> BeamView:
    """The search for one sequence as JSON.

    batch: the position or tag of the sequence. reference: what should have been found, as text, labels or numbers;
    or a dict of these by tag. pruned: how many of the pruned candidates are drawn of each step. tokenizer: for the
    labels of a search without a vocabulary; or an `rf.Vocab`.
    """
    if tokenizer is not None and not isinstance(search, Where):
        vocab = tokenizer if isinstance(tokenizer, Vocab) else Vocab(tokenizer)
        search = replace(search, trace=replace(search.trace, vocab=vocab))
    if isinstance(search, Found) and not len(search):
        return _empty(search)
    notes = page.Notes()
    tree = search.tree if isinstance(search, Where) else search.tree[batch] if isinstance(search, Found) else search
    if isinstance(reference, Mapping):
        [reference] = for_each([tree], reference, "reference")
    where = search if isinstance(search, Where) else None if reference is None else tree.where(reference)
    names = [tree.name for tree in search.tree[:OTHERS]] if isinstance(search, Found) and len(search) > 1 else []
    fall = None if where is None or where.fall is None else where.fall.step
    steps = drawn_steps(tree.steps, fall)
    if pruned is None:
        pruned = max(1, min(PRUNED, NODES // max(len(steps), 1) - tree.beam))
    if len(steps) < tree.steps:
        notes.add(f"{len(steps)} of {tree.steps} steps are drawn")
    every = drawn_steps(tree.steps, fall, max(len(steps), LIVE // (tree.beam + 1)))
    recorded = 0 if tree.own.pruned is None else tree.own.pruned.labels.shape[2]
    width = max(pruned, min(recorded, LIVE // max(len(every), 1) - tree.beam)) if pruned else 0
    counts = dict.fromkeys(every if recorded else steps, width if recorded else pruned)  # others are computed again
    if fall is not None and pruned:
        counts[fall] = max(width, PRUNED)
    view: BeamView = {
        "kind": "beam",
        "name": tree.name,
        "others": names,
        "summary": _summary(search, tree, where),
        "beam": tree.beam,
        "size": tree.trace.beam_text,
        "steps": tree.steps,
        "columns": _detailed(tree, columns(tree, where, every, counts)),
        "pruned": pruned,
        "parts": list(tree.own.parts) or [OWN],
        "hypotheses": [_hypothesis(hypothesis, where) for hypothesis in tree.hypotheses],
        "reference": None if where is None else _reference(where, counts),
        "note": notes.text(),
    }
    if tree.prompt:
        view["prompt"] = printable_name(tree.text_of(tree.prompt))
    if tree.own.living is not None:
        view["living"] = tree.own.living
    return view


OWN = "model"
"""The scorer of a search that has no other."""


def _empty(search: Found) -> BeamView:
    """The view of a batch without sequences."""
    return {
        "kind": "beam", "name": "search", "summary": search.text.splitlines(), "others": [],
        "beam": search.trace.labels.shape[2], "size": search.trace.beam_text, "steps": 0, "columns": [],
        "hypotheses": [], "reference": None,
        "note": "there is no sequence",
    }  # fmt: skip


def _summary(search: Found | Tree | Where, tree: Tree, where: Where | None) -> list[str]:
    """The n-best lists in words, and what became of the reference."""
    lines = [] if isinstance(search, Where) else search.text.splitlines()
    lines += [] if where is None else where.text.splitlines()
    return [*lines, *([f"{printable_name(tree.name)}:"] if isinstance(search, Found) and len(search) > 1 else [])]


def columns(
    tree: Tree, where: Where | None, steps: Sequence[int], pruned: Mapping[int, int], before: int = -1
) -> list[tuple[BeamStep, list[Node]]]:
    """The beams after some steps, each with its nodes; `before` is the step before them.

    pruned: how many of the pruned candidates, by step; none of other steps.
    """
    best = tree.best.places if tree.best is not None else ()
    places = {} if where is None else {node.step: node.place for node in where.nodes}
    pairs: list[tuple[BeamStep, list[Node]]] = []
    for previous, step in zip([before, *steps], steps, strict=False):
        skipped = step - previous - 1
        kept, candidates = tree.nodes(step), tree.pruned(step, pruned[step]) if pruned.get(step) else []
        nodes = [_node(node, node.place or 0, best[step : step + 1], places.get(step)) for node in kept]
        nodes += [_node(node, tree.beam + i, (), None) for i, node in enumerate(candidates)]
        for node in nodes if skipped else ():
            node["parent"], node["joined"] = _ancestor(tree, node["parent"], step - 1, previous), None
        pairs.append(({"step": step, "nodes": nodes, "skipped": skipped}, [*kept, *candidates]))
    return pairs


def _ancestor(tree: Tree, place: int | None, step: int, earlier: int) -> int | None:
    """The place of a hypothesis after an earlier step; None before the first."""
    for at in range(step, earlier, -1):
        place = None if place is None else int(tree.parents[at, place])
    return None if earlier < 0 else place


def _detailed(tree: Tree, pairs: list[tuple[BeamStep, list[Node]]]) -> list[BeamStep]:
    """The columns with ranks, parts of scores, and what each label adds to the text of its hypothesis."""
    names, prefixes, text_of = list(tree.own.parts), _last_labels(tree), cache(tree.text_of)
    for column, nodes in pairs:
        for node, source in zip(column["nodes"], nodes, strict=True):
            sum_before = 0.0 if source.parent is None else tree.scores[source.step - 1, source.parent]
            parts = [source.parts.get(name, math.nan) for name in names] or [source.score - sum_before]
            node["rank"] = source.rank
            node["parts"] = [plain(_rounded(part)) for part in ([0.0] * len(parts) if source.ended else parts)]
            prefix = () if source.parent is None else prefixes[source.step - 1, source.parent]
            adds_nothing = source.ended or source.label == tree.own.blank or source.label in tree.end_labels
            earlier, text = text_of(prefix) if prefix else "", text_of((*prefix, source.label))
            added = text.removeprefix(earlier) if text.startswith(earlier) else tree.text_of([source.label])
            node["adds"] = "" if adds_nothing else added
    return [column for column, _ in pairs]


CONTEXT = 3
"""So many labels before it decide how a label is joined to the text, as "▁the" and "c@@" are."""


def _last_labels(tree: Tree) -> dict[tuple[int, int], tuple[int, ...]]:
    """The last labels that count of each hypothesis, by step and place."""
    prefixes: dict[tuple[int, int], tuple[int, ...]] = {}
    for step, places in enumerate(tree.alive):
        for place in np.flatnonzero(places).tolist():
            prefix = prefixes[step - 1, int(tree.parents[step, place])] if step else ()
            label = int(tree.labels[step, place])
            counts = tree.counts[step, place] and label not in tree.end_labels
            prefixes[step, place] = (*prefix, label)[-CONTEXT:] if counts else prefix
    return prefixes


def _node(node: Node, row: int, best: Sequence[int], reference: int | None) -> BeamNode:
    lives: Literal["copy", "lives", "dies"] = "copy" if node.ended else "lives" if node.survives else "dies"
    return {
        "row": row,
        "parent": node.parent,
        "joined": node.joined,
        "text": "·" if node.pruned and node.ended else node.text,
        "score": _rounded(node.compared),
        "state": "pruned" if node.pruned else lives,
        "ends": node.ends,
        "best": node.place in best,
        "reference": reference is not None and node.place == reference,
    }


def _hypothesis(hypothesis: Hypothesis, where: Where | None) -> BeamHypothesis:
    return {
        "rank": hypothesis.rank,
        "place": hypothesis.place,
        "text": hypothesis.text,
        "score": _rounded(hypothesis.score),
        "parts": {name: _rounded(part) for name, part in hypothesis.parts.items()},
        "length": len(hypothesis.labels),
        "complete": hypothesis.complete,
        "reference": where is not None and where.found is not None and where.found.place == hypothesis.place,
    }


def _reference(where: Where, counts: Mapping[int, int]) -> BeamReference:
    fall = where.fall
    row = None
    if fall is not None and fall.candidate is not None and counts.get(fall.step):
        candidates = where.tree.pruned(fall.step, counts[fall.step])
        row = next((where.tree.beam + i for i, node in enumerate(candidates) if node == fall.candidate), None)
    return {
        "text": where.reference.text,
        "verdict": where.verdict,
        "because": where.because,
        "fall": None if fall is None else {"step": fall.step, "row": row, "words": fall.words},
    }


def _rounded(score: float) -> float:
    return float(f"{score:.5g}") if math.isfinite(score) else -math.inf


# -- text


def to_page(view: BeamView) -> page.Page:
    """The n-best lists, what became of the reference, and the tree: in words, or as a table and a picture."""
    summary, reference = view["summary"], view["reference"]
    text: list[page.Block] = [
        *map(page.Line, summary),
        *map(page.Line, tree_lines(view)),
        page.Note(view["note"], indent=0),
    ]
    html: list[page.Block] = [
        head(view),
        page.Fold("prompt", [page.Line(view["prompt"])]) if "prompt" in view else None,
        *([] if reference is None else _reference_lines(reference)),
        *search_blocks(view),
        _others(view),
        as_text(text),
        still_note(view),
    ]
    has_tree = bool(summary) and summary[-1] == f"{printable_name(view['name'])}:"
    n_best = [page.Line(line) for line in (summary[:-1] if has_tree else summary)]
    return page.Page("beam", view["name"], [page.Only("text", text), page.Only("html", html)], _table(view), n_best)


def sizes(view: BeamView) -> str:
    """The number of steps, and the size of the beam."""
    steps = f"{view['steps']} step" + ("s" if view["steps"] != 1 else "")
    return f"{steps}, {view['size']}"


LINES = 40
"""Largest number of lines of the tree as text."""
WIDTH = 100


def tree_lines(view: BeamView) -> list[str]:
    """The kept hypotheses as a tree: labels that continue without a branch share a line."""
    children: dict[tuple[int, int], list[tuple[int, BeamNode]]] = {}
    for at, column in enumerate(drawn(view)):
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
    nodes = [node for column in view["columns"] for node in column["nodes"]]
    joins = ", ⋎ two merged" if any(node["joined"] is not None for node in nodes) else ""
    return [f"tree (▣ ends, * best, ‡ reference{joins}):", *lines, *tail] if lines else []


def _marked(node: BeamNode) -> str:
    joins = "⋎" * (node["joined"] is not None)
    return printable_name(node["text"]) + joins + "▣" * node["ends"] + "*" * node["best"] + "‡" * node["reference"]


def _table(view: BeamView) -> page.Table:
    """The n-best list, with a column for each scorer that is not 0 everywhere, as a constraint is."""
    hypotheses = view["hypotheses"]
    parts = list(dict.fromkeys(name for entry in hypotheses for name, part in entry["parts"].items() if part))
    rows = [
        [entry["rank"], entry["score"], entry["text"], *(entry["parts"].get(name) for name in parts), _end(entry)]
        for entry in hypotheses
    ]
    return page.Table(["rank", "score", "text", *parts, "end"], rows)


def _end(hypothesis: BeamHypothesis) -> str:
    words = ["" if hypothesis["complete"] else "no end", "reference" if hypothesis["reference"] else ""]
    return ", ".join(filter(None, words))


# -- HTML


def to_svg(view: BeamView) -> str:
    """The picture of the tree."""
    if not view["columns"]:
        raise ViewError("beam: there is no step to draw", got=view["name"])
    return image(view)


def still_note(view: BeamView) -> page.Block:
    """What the picture leaves out; scripts have more."""
    return page.Figure(el("div", note_html(view["note"]), data_rfnb_still=True)) if view["note"] else None


def head(view: BeamView) -> page.Line:
    """The name of the sequence, and the sizes of the tree."""
    return page.head(view["name"], f" · {sizes(view)}")


def search_blocks(view: BeamView) -> list[page.Block]:
    """The n-best list, of which some are folded, and the picture of the tree."""
    table = _table(view)
    *names, _ = table.columns
    width = len(names) + any(row[-1] for row in table.rows)  # remarks on the end need no header, and no empty column
    table = page.Table([*names, ""][:width], [row[:width] for row in table.rows])
    blocks: list[page.Block] = [page.Table(table.columns, table.rows[:ROWS])]
    if len(table) > ROWS:
        tail = page.Table(table.columns, table.rows[ROWS:])
        blocks.append(page.Fold(f"{len(tail)} more hypothes{'is' if len(tail) == 1 else 'es'}", [tail]))
    if not view["columns"]:
        return blocks
    return [*blocks, page.Figure(lambda: _picture(view)), page.Figure(legend_html(view))]


def _picture(view: BeamView) -> Html:
    alt = f"beam of {view['name']}: {sizes(view)}; listed below"
    picture = el("img", src=svg.data_uri(image(view)), alt=alt, style="max-width:none;height:auto")
    return wide(picture, tabindex=0, data_rfnb_tree=True)


ROWS = 5
"""Number of hypotheses that are not folded."""


def as_text(blocks: Sequence[page.Block]) -> page.Fold:
    """The view as text, folded."""
    look = "font-family:monospace;font-size:12px;white-space:pre;margin:4px 0;background:none;overflow-x:auto"
    return page.Fold("as text", [page.Figure(el("pre", "\n".join(page.lines_of(blocks)), style=look, tabindex=0))])


STATES = ("lives", "dies", "copy", "pruned")


def to_scripts(view: BeamView) -> BeamScripts | None:
    """The tree in columns; None of a tree without steps."""
    if not view["columns"] or "parts" not in view:
        return None
    texts: dict[str, int] = {}
    reference = view["reference"]
    living: Any = {"living": view["living"]} if "living" in view else {}
    return {
        "kind": "beam",
        "name": view["name"],
        "beam": view["beam"],
        **living,
        "parts": view["parts"],
        "columns": [_column(column, texts) for column in view["columns"]],
        "texts": list(texts),
        "fall": None if reference is None else reference["fall"],
    }


def _column(column: BeamStep, texts: dict[str, int]) -> BeamColumn:
    nodes = column["nodes"]
    joined = [-1 if node["joined"] is None else node["joined"] for node in nodes]
    result: BeamColumn = {
        "step": column["step"],
        "skipped": column["skipped"],
        "rows": [node["row"] for node in nodes],
        "parents": [-1 if node["parent"] is None else node["parent"] for node in nodes],
        "labels": [texts.setdefault(node["text"], len(texts)) for node in nodes],
        "adds": [texts.setdefault(node["adds"], len(texts)) for node in nodes],
        "ranks": [node["rank"] for node in nodes],
        "scores": [plain(node["score"]) for node in nodes],
        "parts": [list(part) for part in zip(*(node["parts"] for node in nodes), strict=True)],
        "marks": [
            STATES.index(node["state"]) + 4 * node["ends"] + 8 * node["best"] + 16 * node["reference"] for node in nodes
        ],
    }
    return result | {"joined": joined} if max(joined, default=-1) >= 0 else result


def verdict_colour(verdict: str) -> str:
    """The colour of what is said of a reference."""
    return VERDICTS.get(verdict, style.WARN)


def _reference_lines(reference: BeamReference) -> list[page.Line]:
    word = page.chip(reference["verdict"], verdict_colour(reference["verdict"]))
    words = [reference["because"], *([reference["fall"]["words"]] if reference["fall"] else [])]
    return [
        page.Line(word, "reference: ", page.bold(reference["text"] or "(no labels)")),
        *(page.Line(page.quiet(line)) for line in words),
    ]


def _others(view: BeamView) -> page.Block:
    if not view["others"]:
        return None
    names = ", ".join(view["others"])
    return page.Line(page.quiet(f'other sequences: rf.show(found, batch="…") for {names}'), look="font-size:12px")


LABELS = 120
"""Largest number of labels in the text of a hypothesis; the last ones."""
NEAR = 8
"""Number of the last columns with pruned candidates, for which a step may have to be computed again."""

_trees: WeakKeyDictionary[Run, dict[int, Tree]] = WeakKeyDictionary()
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
    counts = dict.fromkeys(range(middle, stop), PRUNED)
    steps = [column for column, _ in columns(tree, None, range(start, stop), counts, before=start - 1)]
    for node in (node for column in steps for node in column["nodes"]):
        node["text"] = printable_name(node["text"])
    return steps


def _row(tree: Tree, node: Node) -> BeamRow:
    step, place = node.step, node.place or 0
    labels, is_end = tree.prefix(step, place), node.ended or node.ends
    visible = labels[:-1] if is_end and labels and labels[-1] in tree.end_labels else labels
    return {
        "place": place,
        "rank": node.rank,
        "text": ("… " if len(visible) > LABELS else "") + printable_name(tree.text_of(visible[-LABELS:])),
        "score": plain(node.compared),
        "parts": {printable_name(name): plain(float(sums[step, place])) for name, sums in tree.part_sums.items()},
        "parent": None if node.parent is None else int(tree.ranks[step - 1, node.parent]),
        "ended": is_end,
    }
