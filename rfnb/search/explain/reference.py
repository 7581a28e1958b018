"""What became of labels or texts from outside: where they were, where they fell out, what the model gives to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, SearchError
from rfnb.printable import printable_name
from rfnb.search.text_result import number
from rfnb.search.trace import Node, by_length

if TYPE_CHECKING:
    from rfnb.search.tree import Tree


class Mark(NamedTuple):
    """How word pieces show where words begin or end.

    Args:
        ends: whether a piece has the mark at its end.
        of_word: the letters of a word, with a sign for its beginning or end.
        of_piece: those of a piece, likewise.
    """

    ends: bool
    of_word: Callable[[str], str]
    of_piece: Callable[[str], str]


MARKS = {
    "▁": Mark(False, lambda word: f"▁{word}", str),
    "Ġ": Mark(False, lambda word: f"Ġ{word}", str),
    "##": Mark(False, lambda word: f" {word}", lambda piece: piece[2:] if piece.startswith("##") else f" {piece}"),
    "@@": Mark(True, lambda word: f"{word} ", lambda piece: piece[:-2] if piece.endswith("@@") else f"{piece} "),
    "</w>": Mark(True, lambda word: f"{word}</w>", str),
}
"""The marks of word pieces, in the order in which a vocabulary is asked for them."""


class Pieces(NamedTuple):
    """The word pieces of a vocabulary. numbers: by their letters; longest: how many letters they have at most."""

    mark: Mark
    numbers: dict[str, int]
    longest: int


@lru_cache(maxsize=8)
def pieces_of(vocab: Vocab) -> Pieces | None:
    """The word pieces of a vocabulary; None if its labels are none."""
    labels = [label for label in vocab.labels if not (label.startswith("<") and label.endswith(">"))]
    marks = (mark for mark in MARKS if any(label.startswith(mark) or label.endswith(mark) for label in vocab.labels))
    mark = next(marks, None)
    if mark is None or all(len(label) == 1 for label in labels):
        return None
    special = {vocab.bos_id, vocab.eos_id, vocab.unk_id, vocab.blank_id, vocab.pad_id}
    numbers = {MARKS[mark].of_piece(x): i for i, x in reversed([*enumerate(vocab.labels)]) if i not in special}
    return Pieces(MARKS[mark], numbers, max(map(len, numbers), default=0))


def spelled(text: str, vocab: Vocab) -> tuple[int, ...] | None:
    """Word pieces that a vocabulary joins to a text, as few as there can be; None if there are none.

    A text may begin, or end, without the mark of a word.

    >>> spelled("the cat", rf.Vocab(["</s>", "▁the", "▁c", "a", "t", "at"]))
    (1, 2, 5)
    >>> spelled("the cat", rf.Vocab(["</s>", "the", "c@@", "at"])), spelled("the dog", rf.Vocab(["the", "c@@", "at"]))
    ((1, 2, 3), None)
    """
    pieces, words = pieces_of(vocab), text.split()
    if pieces is None:
        return None
    letters, sign = "".join(map(pieces.mark.of_word, words)), pieces.mark.of_word("")
    bare = letters.removesuffix(sign) if pieces.mark.ends else letters.removeprefix(sign)
    rows = (_fewest(candidate, pieces) for candidate in ((bare, letters) if sign == "Ġ" else (letters, bare)))
    return next((row for row in rows if row is not None and vocab.join(row).split() == words), None)


def _fewest(letters: str, pieces: Pieces) -> tuple[int, ...] | None:
    """The fewest pieces with these letters."""
    best: list[tuple[int, ...] | None] = [()]
    for end in range(1, len(letters) + 1):
        rows = []
        for begin in range(max(end - pieces.longest, 0), end):
            row, number = best[begin], pieces.numbers.get(letters[begin:end])
            if row is not None and number is not None:
                rows.append((*row, number))
        best.append(min(rows, key=len, default=None))
    return best[-1]


FORMS = 'text ("L AE F"), labels (["L", "AE", "F"]) or numbers ([4, 1, 3]); several as a set or as a list of lists'
"""The forms of a reference."""


@dataclass(frozen=True)
class Reference:
    """A sequence of labels that a search should have found, without an end label, and its text."""

    labels: tuple[int, ...]
    text: str


def references_of(reference: object, tree: Tree, ends: bool = False) -> list[Reference]:
    """All references for the sequence of a tree; they are read with the vocabulary of the search.

    A list of strings is one reference if all of them are labels, and several texts otherwise. A text may be as outputs
    are shown, where labels are word pieces. An end label at the end
    of a reference is left out, unless `ends`. Raises SearchError for anything else than references, or for unknown
    labels.
    """
    vocab = tree.own.vocab
    entries = _several(reference, vocab)
    if not entries:
        raise SearchError("reference: the sequence has no reference", expected=FORMS)
    references = []
    for entry in entries:
        pieces = _as_shown(entry, tree) if isinstance(entry, str) and vocab is not None else None
        labels = _numbers(entry, vocab) if pieces is None else pieces
        labels = labels if ends else _without_end(labels, tree)
        references.append(Reference(labels, tree.text_of(labels) if pieces is None else " ".join(entry.split())))
    return references


def _as_shown(text: str, tree: Tree) -> tuple[int, ...] | None:
    """The word pieces of a text as outputs are shown: those of the best hypothesis with this text, or the fewest; None
    if it is none, but labels."""
    vocab: Any = tree.own.vocab
    if pieces_of(vocab) is None:
        return None
    words = text.split()
    for hypothesis in tree.hypotheses:
        if hypothesis.text.split() == words:
            return hypothesis.labels
    try:
        labels = vocab.encode(text)
    except DimError:
        labels = None
    if labels is not None and vocab.join(labels).split() == words:
        return tuple(labels)
    pieces = spelled(text, vocab)
    if pieces is None and not any(word in vocab for word in words):
        rows = [spelled(word, vocab) or (vocab.unk_id,) for word in words]
        if any(None in row for row in rows):
            word = next(word for word, row in zip(words, rows, strict=True) if None in row)
            raise SearchError("reference: no labels of the search spell this word", got=repr(word), expected=FORMS)
        return tuple(label for row in rows for label in row)
    return pieces


def _several(reference: object, vocab: Vocab | None) -> list[Any]:
    if isinstance(reference, Set):
        return sorted(reference, key=repr)
    if isinstance(reference, list | tuple) and reference:
        if all(isinstance(entry, str) for entry in reference):
            return [reference] if vocab is None or all(entry in vocab for entry in reference) else list(reference)
        if not any(isinstance(entry, Integral) for entry in reference):
            return list(reference)
    return [reference]


def _numbers(value: Any, vocab: Vocab | None) -> tuple[int, ...]:
    value = getattr(value, "raw_tensor", value)
    value = value.tolist() if hasattr(value, "tolist") else value
    texts = isinstance(value, str) or (isinstance(value, Sequence) and all(isinstance(entry, str) for entry in value))
    if texts and len(value):
        return _encoded(value, vocab)
    if not isinstance(value, Sequence) or not all(isinstance(entry, Integral) for entry in value):
        raise SearchError("reference: this is not a reference", got=type(value).__name__, expected=FORMS)
    size = None if vocab is None else len(vocab)
    for label in value:
        if label < 0 or (size is not None and label >= size):
            expected = "0 or more" if size is None else f"0 to {size - 1}"
            raise SearchError("reference: no label has this number", got=label, expected=expected)
    return tuple(int(label) for label in value)


def _encoded(labels: Iterable[str], vocab: Vocab | None) -> tuple[int, ...]:
    if vocab is not None:
        try:
            return tuple(vocab.encode(labels))
        except DimError as error:
            raise SearchError(
                "reference: the vocabulary of the search does not have this label",
                got=error.got,
                expected=error.expected,
                hint=error.hint,
            ) from None
    words = labels.split() if isinstance(labels, str) else list(labels)
    if not all(word.isdecimal() for word in words):
        raise SearchError(
            "reference: the labels of the search have no vocabulary",
            got=repr(labels)[:60],
            expected="numbers: [4, 1, 3]",
        )
    return tuple(map(int, words))


def _without_end(labels: tuple[int, ...], tree: Tree) -> tuple[int, ...]:
    while labels and labels[-1] in tree.end_labels:
        labels = labels[:-1]
    return labels


def places_of_prefixes(tree: Tree, labels: Sequence[int]) -> Iterator[np.ndarray]:
    """By step, the places from which the labels can still come: [beam] bool.

    Those are hypotheses whose labels are the first of these; of hypotheses that have ended, and in the last step, those
    with exactly these labels.
    """
    targets = np.array([*labels, -1])  # after the labels, no label fits
    length, fits = np.zeros(tree.beam, int), np.ones(tree.beam, bool)
    for step in range(tree.steps):
        parents, counts = tree.parents[step], tree.counts[step]
        length, fits = length[parents], fits[parents]
        fits = fits & (~counts | (tree.labels[step] == targets[np.minimum(length, len(labels))]))
        length = length + counts
        over = tree.ended[step] | tree.ends[step] | (step == tree.steps - 1)
        yield tree.alive[step] & fits & (~over | (length == len(labels)))


def next_label(tree: Tree, labels: Sequence[int], step: int, places: np.ndarray | None) -> int | None:
    """The label that comes next for the longest of the prefixes at some places after the step before; blank if that has
    all labels."""
    counts = [len(tree.prefix(step - 1, int(place))) for place in np.flatnonzero(places)] if places is not None else [0]
    return labels[max(counts)] if max(counts) < len(labels) else tree.own.blank


DEEP = 256
"""Among so many pruned candidates a sequence of labels is looked for where it fell out, if its step can be replayed."""


@dataclass(frozen=True)
class Fall:
    """A step at which a sequence of labels did not get a place in the beam.

    Args:
        step: the step. label, text: the label that it needed there; None for the copy of a hypothesis that had ended.
        candidate: the candidate that was pruned, if it was recorded. Its rank is the size of the beam that would have
            kept it in this step.
        last: the last hypothesis that got a place; None if none did. last_text: the labels of it.
        margin: how much better that one was compared; None if this is not known.
        at_least: whether the margin and `rank` are only lower bounds, as the candidate ranks below the recorded ones.
        rank: of the candidate; None if this is not known.
        parts: how much better the last one was by each scorer, scaled, over all its labels.
        reason: "pruned"; "not recorded", if it was pruned and not recorded; "not allowed", if its score was −inf;
            "not sampled", as a worse one was; or "stopped", as the search stopped at this step.
    """

    step: int
    label: int | None
    text: str
    candidate: Node | None
    last: Node | None
    last_text: str
    margin: float | None
    at_least: bool
    rank: int | None
    parts: dict[str, float] = field(default_factory=dict)
    reason: str = "pruned"

    @property
    def part(self) -> str | None:
        """The scorer that contributed most to the margin."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else None

    @property
    def words(self) -> str:
        """The fall as a sentence."""
        subject = f'"{self.text}"' if self.label is not None else "the ended hypothesis"
        if self.reason == "not allowed":
            return f"fell out at step {self.step}: {subject} had the score −inf"
        if self.reason == "stopped":
            return f"fell out at step {self.step}: {subject} has no place, and the search stopped"
        if self.last is None:
            return f"fell out at step {self.step}: no hypothesis was left"
        if self.reason == "not sampled":
            return (
                f'fell out at step {self.step}: {subject} at rank {self.rank} was not sampled, "{self.last_text}" was'
            )
        sign = ">" if self.at_least else ""
        rank = "" if self.rank is None else f" at rank {sign}{self.rank}"
        tied = self.margin is not None and not self.margin and not sign
        margin = "" if self.margin is None else "with the score of" if tied else f"{sign}{number(self.margin)} below"
        by = "" if self.part is None else f", most by {self.part} ({number(self.parts[self.part])})"
        relation = margin or "below"
        return f'fell out at step {self.step}: {subject}{rank}, {relation} "{self.last_text}", the last of the beam{by}'


@dataclass(frozen=True)
class Life:
    """A sequence of labels in the beam.

    nodes: the node of its prefix at each step, the best one if there are several. fall: the step at which it lost its
    place; None if it kept one to the end of the search.
    """

    nodes: tuple[Node, ...]
    fall: Fall | None

    def table(self, tree: Tree) -> list[dict[str, Any]]:
        """A row for each step: rank and score of the prefix, how far it is below the best and above the last that was
        kept, and how many were."""
        rows = [_row(node, tree) for node in self.nodes]
        if self.fall is not None and self.fall.candidate is not None:
            rows.append(_row(self.fall.candidate, tree))
        return rows

    def lines(self, tree: Tree) -> list[str]:
        """The rows as text."""
        rows = [
            [f"step {row['step']}", _label(row), f"rank {row['rank']}", number(row["compared"]), _gap(row["gap"])]
            for row in self.table(tree)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _label(row: dict[str, object]) -> str:
    return "(ended)" if row["ended"] else printable_name(str(row["text"]))


def _gap(gap: float) -> str:
    return f"{number(gap)} below the best" if gap > 0 else "the best"


def _row(node: Node, tree: Tree) -> dict[str, object]:
    names = "step label text rank score compared parts pruned ended ends".split()
    row = {name: getattr(node, name) for name in names}
    scores = tree.compared[node.step, competing(tree, node.step, node.ended or node.ends)]
    lowest = float(scores.min()) if scores.size else None
    gap = float(np.max(tree.compared[node.step], initial=-np.inf)) - node.compared
    margins = {"kept": scores.size, "last": lowest, "margin": None if lowest is None else node.compared - lowest}
    return row | {"gap": gap} | margins


def competing(tree: Tree, step: int, done: bool) -> np.ndarray:
    """The places of a step for which a hypothesis competes; done: whether it has ended, as those that have ended may
    have places of their own. [beam] bool"""
    alive, living = tree.alive[step], tree.own.living
    return alive if living is None else alive & ((np.arange(tree.beam) >= living) == done)


def follow(tree: Tree, labels: Sequence[int]) -> Life:
    """The life of a sequence of labels that is to end after them."""
    nodes: list[Node] = []
    before = None
    by_frame = None if tree.own.blank is None else places_of_prefixes(tree, labels)
    for step in range(tree.steps):
        marks = _here(tree, labels, step, before) if by_frame is None else next(by_frame)
        if not marks.any():
            return Life(tuple(nodes), _fall(tree, labels, step, before))
        places = np.flatnonzero(marks)
        nodes.append(tree.node(step, int(places[np.argmin(tree.ranks[step, places])])))
        before = marks
    return Life(tuple(nodes), None)


def _here(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> np.ndarray:
    """The places of a step at which the prefix of the labels is. [beam] bool"""
    copies, ends = tree.ended[step], tree.ends[step]
    goes_on = tree.alive[step] if before is None else tree.alive[step] & before[tree.parents[step]]
    if step < len(labels):
        may_end = step == len(labels) - 1 and not tree.end_labels
        return goes_on & ~copies & (tree.labels[step] == labels[step]) & (~ends | may_end)
    return goes_on & (copies | ends if step == len(labels) else copies)


def _fall(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> Fall:
    label, text = _wanted(tree, labels, step, before)
    depth = None if tree.trace.replayed is None else DEEP
    pruned, beam = tree.pruned(step, depth), tree.nodes(step)
    candidate = next((item for item in pruned if _fits(item, label, before, tree.end_labels)), None)
    living = tree.own.living
    goes_on = competing(tree, step, False) if living is not None else ~(tree.ended | tree.ends)[step]
    going = [node for node in beam if goes_on[node.place]]
    at_limit = tree.own.limit is not None and step == int(tree.own.limit[0]) - 1
    if tree.own.stops and beam and not going and label is not None and not at_limit:
        return Fall(step, label, text, candidate, None, "", None, False, None, reason="stopped")
    rivals, places = beam, tree.beam
    if living is not None:  # those that have ended take no place from those that go on
        to_end = label is None or (at_limit and not going)
        rivals = [node for node in beam if node not in going] if to_end else going
        places = tree.beam - living if to_end else living
    last = rivals[-1] if rivals else None
    nearest = candidate or next(reversed(pruned), None)
    all_allowed = 0 < len(rivals) < places and not tree.own.stops
    all_known = all_allowed or len(pruned) < (depth or _recorded(tree))
    reason = "pruned" if candidate else "not allowed" if all_known else "not recorded"
    if candidate and last and tree.own.sampled and candidate.compared > last.compared:
        reason = "not sampled"
    nearest = None if reason == "not allowed" else nearest
    return Fall(
        step=step,
        label=label,
        text=text,
        candidate=candidate,
        last=last,
        last_text="" if last is None or last.place is None else tree.prefix_text(tree.prefix(step, last.place)),
        margin=None if last is None or nearest is None else last.compared - nearest.compared,
        at_least=nearest is not None and candidate is None,
        rank=nearest.rank if nearest else None,
        parts=_differences(tree, candidate, last),
        reason=reason,
    )


def _wanted(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> tuple[int | None, str]:
    """The label that a prefix needs at a step; None for a copy, or if the end label is not known."""
    if tree.own.blank is not None:
        label = next_label(tree, labels, step, before)
        return label, "" if label is None else tree.label(label)
    if step < len(labels):
        return labels[step], tree.label(labels[step])
    ended = before is not None and bool((before & (tree.ended | tree.ends)[step - 1]).any())
    if ended or not tree.end_labels:
        return None, ""
    label = min(tree.end_labels)
    return label, tree.label(label)


def _fits(candidate: Node, label: int | None, before: np.ndarray | None, ends: frozenset[int]) -> bool:
    goes_on = before is None or candidate.parent is None or bool(before[candidate.parent])
    same_label = candidate.label == label or (label in ends and candidate.label in ends)
    return goes_on and (candidate.ended if label is None else not candidate.ended and same_label)


def _recorded(tree: Tree) -> int:
    """How many pruned candidates were recorded of each step. If a step has fewer, all others had the score −inf."""
    return 0 if tree.own.pruned is None else tree.own.pruned.labels.shape[2]


def _differences(tree: Tree, candidate: Node | None, last: Node | None) -> dict[str, float]:
    """How much better the last hypothesis was than the candidate, by scorer, scaled."""
    if candidate is None or last is None:
        return {}
    lost, won = scaled_parts(tree, candidate), scaled_parts(tree, last)
    return {name: won[name] - lost[name] for name in won if name in lost}


def scaled_parts(tree: Tree, node: Node) -> dict[str, float]:
    """The score of a hypothesis by each scorer, scaled, over all its labels."""
    scores = {}
    for name, sums in tree.part_sums.items():
        prefix = float(sums[node.step - 1, node.parent]) if node.parent is not None else 0.0
        score = 0.0 if node.ended else node.parts.get(name, 0.0)
        scores[name] = (prefix + score) * tree.own.scales.get(name, 1.0)
    return scores


@dataclass(frozen=True)
class Forced:
    """What the model gives to a reference. score: the final score. sums: of the scores after each label."""

    score: float
    labels: tuple[int, ...] = ()
    sums: tuple[float, ...] = ()


Scores = list[Forced | None]
"""What the model gives to the references of a sequence; None where that is not known."""


def forced_scores(trees: Sequence[Tree], references: Sequence[Sequence[Reference]]) -> list[Scores]:
    """What the model gives to the references of each tree. Trees of one search are computed together.

    It is not known if the search was not recorded, if labels have blanks between them, if hypotheses do not end by
    a label that is known, if the reference has such a label inside, or if it needs more steps than are allowed.
    """
    scores: list[Scores] = [[None] * len(item) for item in references]
    searches = {id(tree.trace): tree.trace for tree in trees}
    for trace in searches.values():
        steps = trace.replayed or trace.model
        rows = [i for i, tree in enumerate(trees) if tree.trace is trace]
        full = {i: [_full(trees[i], item) for item in references[i]] for i in rows}
        if steps is None or not any(item for sequences in full.values() for item in sequences):
            continue
        sums = steps.forced({trees[i].sequence: [item or () for item in sequences] for i, sequences in full.items()})
        for i, sequences in full.items():
            exponent, offset = trace.length_normalization_exponent, trace.length_normalization_offset
            pairs = zip(sequences, sums[trees[i].sequence], strict=True)
            scores[i] = [
                None
                if after is None or labels is None
                else Forced(float(after[-1] / by_length(len(labels), exponent, offset)), labels, tuple(after))
                for labels, after in pairs
            ]
    return scores


def _full(tree: Tree, reference: Reference) -> tuple[int, ...] | None:
    """The labels of a reference with its end; None if its score cannot be computed, or need not be."""
    trace, labels = tree.own, reference.labels
    if trace.blank is not None or (tree.best is not None and tree.best.labels == labels):
        return None
    if trace.framewise:
        return labels if len(labels) == tree.steps else None
    ends = sorted(tree.end_labels) if trace.model is None else np.ravel(trace.end_label or ()).astype(int).tolist()
    if not (len(ends) == 1 or (ends and trace.model is not None)) or tree.end_labels & set(labels):
        return None
    limit = None if trace.limit is None else int(trace.limit[0])
    return (*labels, ends[0]) if limit is None or len(labels) < limit else None
