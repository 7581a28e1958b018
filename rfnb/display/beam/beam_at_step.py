"""The beam at one step of a run: the tree up to there, and its hypotheses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from rfnb.display.beam.schema import BeamAt, BeamRow, BeamStep, NodeAt
from rfnb.display.beam.view import PRUNED, columns
from rfnb.display.markup.numbers import plain
from rfnb.errors import ViewError
from rfnb.printable import printable_name
from rfnb.search.explain.keep import reason_against
from rfnb.search.tree import Tree
from rfnb.search.tree_arrays import Node

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

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
