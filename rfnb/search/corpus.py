"""The errors of a search over many sequences: `rf.search.report`, and `rf.search.tune`, the scales with the fewest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from rfnb.core.ground.text import count_of, cut, did_you_mean, number_of
from rfnb.core.tensor.op import guard_methods, guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.explain.position import VERDICTS, Where, content
from rfnb.search.explain.reference import Reference, forced_scores, references_of
from rfnb.search.explain.rerank import check_recorded
from rfnb.search.result import Found
from rfnb.search.text_result import TextResult, number, place_of
from rfnb.search.tree import Tree


def edit_distances(reference: Sequence[int], hypotheses: Sequence[Sequence[int]]) -> list[int]:
    """The least number of labels to insert, delete or replace, for each hypothesis.

    >>> edit_distances([1, 2, 3], [[1, 2, 3], [1, 3], [], [4, 1, 2, 2]])
    [0, 1, 3, 2]
    """
    sizes = np.array([len(hypothesis) for hypothesis in hypotheses], np.int64)
    width = int(sizes.max(initial=0))
    labels = np.full((len(sizes), width), -1, np.int64)
    for row, hypothesis in zip(labels, hypotheses, strict=True):
        row[: len(hypothesis)] = hypothesis
    columns = np.arange(width + 1)
    distances = np.tile(columns, (len(sizes), 1))
    for i, label in enumerate(reference, 1):
        deletions = np.full((len(sizes), 1), i)
        changed = np.minimum(distances[:, :-1] + (labels != label), distances[:, 1:] + 1)
        without = np.concatenate([deletions, changed], axis=1) - columns
        distances = np.minimum.accumulate(without, axis=1) + columns
    return np.take_along_axis(distances, sizes[:, None], axis=1)[:, 0].tolist()


def repetitions(labels: Sequence[int], n: int = 3) -> int:
    """How often `n` labels in a row occur again.

    >>> repetitions([1, 2, 3, 1, 2, 3]), repetitions([1, 1, 1, 1, 1]), repetitions([1, 2, 3])
    (1, 2, 0)
    """
    counts = Counter(zip(*(labels[i:] for i in range(n)), strict=False))
    return sum(counts.values()) - len(counts)


def trees_of(found: Found | Iterable[Found]) -> list[Tree]:
    """The trees of one or several searches, in order."""
    if not isinstance(found, Found | Iterable):
        raise SearchError("this is not the result of a search", got=type(found).__name__, expected="a Found")
    searches = [found] if isinstance(found, Found) else list(found)
    for item in searches:
        if not isinstance(item, Found):
            raise SearchError("this is not the result of a search", got=type(item).__name__, expected="a Found")
    return [tree for item in searches for tree in item.tree]


def for_each(trees: Sequence[Tree], values: object, what: str) -> list[object]:
    """What is given for each tree: a mapping by tag, a Tensor with the sequences as a dim, or one entry for each.

    Raises SearchError if a sequence has none.
    """
    if isinstance(values, Mapping):
        missing = [tree.name for tree in trees if tree.tag not in values]
        if missing:
            raise SearchError(
                f"a sequence has no {what}", got=", ".join(map(repr, missing[:8])), expected="one for each tag"
            )
        return [values[tree.tag] for tree in trees]
    entries = _entries(values, what)
    if len(entries) != len(trees):
        raise SearchError(
            f"{what}s and sequences differ in number",
            got=f"{len(entries)} {what}s",
            expected=f"{len(trees)}, or a mapping from tags",
        )
    return entries


def _entries(values: object, what: str) -> list[object]:
    if isinstance(values, Tensor):
        return _of_tensor(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SearchError(f"this is not a list of {what}s", got=type(values).__name__, expected="one for each sequence")
    entries = list(values)
    if entries and all(isinstance(entry, Tensor) and entry.dims for entry in entries):  # a batch for each search
        return [row for entry in entries for row in _of_tensor(entry)]
    return entries


def _of_tensor(x: Tensor) -> list[object]:
    """The entries of each sequence, without padding."""
    batch = next((dim for dim in x.dims if dim.is_batch_dim()), x.dims[0])
    axes = [dim for dim in x.dims if dim != batch]
    numbers = np.asarray(x.copy_transpose([batch, *axes]).tolist())
    if not axes:
        return numbers.tolist()
    if len(axes) > 1:
        raise SearchError("a Tensor of references has the dims of sequences and labels", got=x.dims)
    lengths = np.broadcast_to(x.size_of(axes[0]).over((batch,)), numbers.shape[:1])
    return [row[:length].tolist() for row, length in zip(numbers, lengths, strict=True)]


@dataclass(frozen=True, eq=False)
class ReportRow:
    """One sequence of a report.

    Args:
        where: where the reference is in the beam, and the verdict.
        reference: the reference that the output is nearest to, if there are several.
        output: the text of the best hypothesis; None if no hypothesis is left.
        errors: how many labels, or words, of the output are wrong. oracle_errors: of the hypothesis that is nearest to
            a reference; oracle_rank: its rank.
        length: how many labels, or words, the reference has.
        left: how many hypotheses were left. distinct: how many texts they have; white space does not count.
        repetitions: how often three labels, or words, in a row occur again in the output.
    """

    where: Where
    reference: Reference
    output: str | None
    errors: int
    oracle_errors: int
    oracle_rank: int | None
    length: int
    left: int
    distinct: int
    repetitions: int

    @property
    def name(self) -> str:
        """The name of the sequence."""
        return self.where.tree.name

    @property
    def verdict(self) -> str:
        """The class of the output: "correct", "search error", …"""
        return self.where.verdict

    @property
    def needed(self) -> int | None:
        """The size of the beam that would have kept the reference where it fell out, if it was recorded."""
        fall = self.where.fall
        return fall.rank if fall is not None and fall.candidate is not None else None

    def table_row(self) -> dict[str, object]:
        """The row as plain values."""
        fall = self.where.fall
        names = "name verdict output errors length oracle_errors oracle_rank left distinct repetitions".split()
        row = {name: getattr(self, name) for name in names}
        row["reference"] = self.reference.text
        row["fell out at"], row["beam needed"] = fall.step if fall else None, self.needed
        row["score"] = self.where.output.score if self.where.output else None
        return row | {"reference score": self.where.score}


def units_of(tree: Tree, references: Sequence[Reference], words: bool) -> tuple[list[Any], list[Any]]:
    """What errors are counted in, as numbers: the labels of references and hypotheses, or the words of their texts."""
    hypotheses = [content(item, tree) for item in tree.hypotheses]
    if not words:
        return [item.labels for item in references], hypotheses
    numbers: dict[str, int] = {}
    texts = [[item.text for item in references], list(map(tree.text_of, hypotheses))]
    rows = [[tuple(numbers.setdefault(word, len(numbers)) for word in text.split()) for text in row] for row in texts]
    return rows[0], rows[1]


def row_of(tree: Tree, reference: object, forced: Any, words: bool) -> ReportRow:
    """The row of a sequence. reference: its references; forced: their scores, or None."""
    references = references_of(reference, tree)
    reference_units, hypotheses = units_of(tree, references, words)
    by_reference = [edit_distances(item, hypotheses or [()]) for item in reference_units]
    nearest = min(range(len(references)), key=lambda i: by_reference[i][0])
    best = [min(distances) for distances in zip(*by_reference, strict=True)]
    oracle = min(range(len(best)), key=lambda i: best[i])
    return ReportRow(
        where=tree.where(reference, forced),
        reference=references[nearest],
        output=tree.best.text if tree.best else None,
        errors=best[0],
        oracle_errors=best[oracle],
        oracle_rank=oracle + 1 if hypotheses else None,
        length=len(reference_units[nearest]),
        left=len(hypotheses),
        distinct=len({" ".join(item.text.split()) for item in tree.hypotheses}),
        repetitions=repetitions(hypotheses[0]) if hypotheses else 0,
    )


SHOWN = 10
"""Wrong outputs that the text of a report shows."""


@dataclass(frozen=True, eq=False, repr=False)
class SearchReport(TextResult):
    """The errors of a search over many sequences. rows: one for each sequence. words: whether errors are counted in
    words."""

    rows: tuple[ReportRow, ...]
    words: bool = False

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.rows)

    def __iter__(self) -> Iterator[ReportRow]:
        return iter(self.rows)

    def __getitem__(self, which: int | str) -> ReportRow:
        """The row of a sequence, by position or name. Raises SearchError if there is none."""
        number = number_of(which, [*self._by_name], "report", SearchError) if isinstance(which, str) else which
        return self.rows[place_of("report", "sequence", number, len(self))]

    @cached_property
    def _by_name(self) -> dict[str, ReportRow]:
        return {row.name: row for row in self.rows}

    @property
    def classes(self) -> dict[str, int]:
        """How many sequences have each verdict, in the order of `VERDICTS`; those that occur."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}

    def of_class(self, verdict: str) -> list[ReportRow]:
        """The sequences with this verdict, such as "search error". Raises SearchError for an unknown verdict."""
        if verdict not in VERDICTS:
            hint = did_you_mean(verdict, VERDICTS)
            raise SearchError("report: unknown verdict", got=repr(verdict), expected=", ".join(VERDICTS), hint=hint)
        return [row for row in self.rows if row.verdict == verdict]

    @property
    def error_rate(self) -> float:
        """Wrong labels, or words, of the outputs, relative to those of the references."""
        return _share(sum(row.errors for row in self.rows), sum(row.length for row in self.rows))

    @property
    def oracle_error_rate(self) -> float:
        """Wrong labels, or words, of the hypothesis of each beam that is nearest to the reference, relative as in
        `error_rate`."""
        return _share(sum(row.oracle_errors for row in self.rows), sum(row.length for row in self.rows))

    @property
    def sequence_error_rate(self) -> float:
        """The share of outputs that are not the reference."""
        return _share(sum(row.errors > 0 for row in self.rows), len(self.rows))

    @property
    def oracle_sequence_error_rate(self) -> float:
        """The share of beams that do not have the reference."""
        return _share(sum(row.oracle_errors > 0 for row in self.rows), len(self.rows))

    @property
    def distinct(self) -> float:
        """Distinct texts, relative to the hypotheses that were left: 1 if no two of a beam have the same text."""
        return _share(sum(row.distinct for row in self.rows), sum(row.left for row in self.rows))

    @property
    def repeating(self) -> float:
        """The share of outputs in which three labels, or words, in a row occur again."""
        return _share(sum(row.repetitions > 0 for row in self.rows), len(self.rows))

    def summary(self) -> dict[str, object]:
        """The numbers of the report, without its rows."""
        return {"sequences": len(self), **{name: getattr(self, name) for name in RATES}, **self.classes}

    def table(self) -> list[dict[str, object]]:
        """A row for each sequence; `pandas.DataFrame` takes it."""
        return [row.table_row() for row in self.rows]

    @property
    def text(self) -> str:
        """The rates and classes, and the first wrong outputs."""
        rates = [f"{words} {100 * getattr(self, name):.4g} %" for name, words in rates_in(self.words).items()]
        lines = [f"{count_of(len(self), 'sequence')}: {', '.join(rates[:2])}", f"  {', '.join(rates[2:])}"]
        lines += [f"  {', '.join(f'{count:,} {verdict}' for verdict, count in self.classes.items())}"]
        wrong = [row for row in self.rows if row.verdict != "correct"]
        lines += [_line(row) for row in wrong[:SHOWN]]
        return "\n".join([*lines, *([f"  … {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else [])])


RATES = {
    "error_rate": "label errors",
    "sequence_error_rate": "wrong sequences",
    "oracle_error_rate": "best of the beam",
    "oracle_sequence_error_rate": "not in the beam",
    "distinct": "distinct texts",
    "repeating": "repeating",
}
"""The rates of a report, with the words for them."""


def rates_in(words: bool) -> dict[str, str]:
    """The words for the rates. words: whether errors are counted in words."""
    return RATES | ({"error_rate": "word errors"} if words else {})


def _line(row: ReportRow) -> str:
    output = "no hypothesis" if row.output is None else f'"{cut(row.output, 40)}"'
    fall = row.where.fall
    fell = "" if fall is None else f", fell out at step {fall.step}"
    beam = "" if row.needed is None else f", needs beam {row.needed}"
    words = f'{row.name}: {row.verdict}: {output}, not "{cut(row.reference.text, 40)}"{fell}{beam}'
    return f"  {printable_name(words)}"


def _share(part: float, whole: float) -> float:
    """A share; of nothing, it is 0, and any errors are as many as 1."""
    return part / max(whole, 1)


@dataclass(frozen=True, eq=False, repr=False)
class SearchReports(TextResult):
    """Reports on the same sequences with several settings. settings: the reports, by name."""

    settings: Mapping[str, SearchReport]

    def __getitem__(self, name: str) -> SearchReport:
        if name not in self.settings:
            settings = ", ".join(map(repr, self.settings))
            raise SearchError("report: there is no such setting", got=repr(name), expected=settings)
        return self.settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def table(self) -> list[dict[str, object]]:
        """A row for each setting: its rates and classes."""
        classes = [verdict for verdict in VERDICTS if any(verdict in item.classes for item in self.settings.values())]
        return [
            {"setting": name, "sequences": len(item)}
            | {rate: getattr(item, rate) for rate in RATES}
            | {verdict: item.classes.get(verdict, 0) for verdict in classes}
            for name, item in self.settings.items()
        ]

    def side_by_side(self) -> list[dict[str, object]]:
        """A row for each sequence: its reference, and the output and verdict with each setting."""
        rows: dict[str, dict[str, object]] = {}
        for setting, item in self.settings.items():
            for row in item.rows:
                entry = rows.setdefault(row.name, {"name": row.name, "reference": row.reference.text})
                entry |= {f"{setting}: output": row.output, f"{setting}: verdict": row.verdict}
        return list(rows.values())

    @property
    def text(self) -> str:
        """The table, with shares in percent."""
        table = self.table()
        heads = list(table[0]) if table else []
        cells = [[_cell(row[head], head in RATES) for head in heads] for row in table]
        rates = rates_in(any(item.words for item in self.settings.values()))
        lines = [[rates.get(head, head) for head in heads], *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _cell(value: Any, share: bool) -> str:
    return f"{100 * value:.4g} %" if share else printable_name(str(value))


@overload
def report(
    found: Mapping[str, Any], references: Any, forced: object = None, *, words: bool = False
) -> SearchReports: ...


@overload
def report(
    found: Found | Iterable[Found], references: object, forced: object = None, *, words: bool = False
) -> SearchReport: ...


@guarded
def report(
    found: object, references: object, forced: object = None, *, words: bool = False
) -> SearchReport | SearchReports:
    """The errors of a search: who is to blame for each, error rates, and how varied its beams are.

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> report = rf.search.report(loop.found, ["b"])
    >>> report.error_rate, report.oracle_error_rate, report.classes
    (1.0, 0.0, {'model error': 1})

    Args:
        found: what the search returned, or a list of it if there were several batches. A dict from names to either
            compares settings: `{"beam 1": greedy, "beam 12": wide}`.
        references: one for each sequence of all batches in order, or a dict from tags: text, labels or numbers, or
            several of them, as `tree.where` takes them; where labels are word pieces, also text as outputs are shown:
            "the cat". Or a Tensor {batch, labels}, or a list of them.
        forced: the final scores that the model gives to the references, in the same forms. They decide between search
            errors and model errors. Of a recorded search they are computed; otherwise, some verdicts are "undecided".
        words: whether errors are counted in words of the texts, which are between spaces, instead of labels.

    Raises SearchError if a sequence has no reference, or a reference has labels that the vocabulary does not have.
    """
    if isinstance(found, Mapping):
        return SearchReports({str(name): _report(search, references, forced, words) for name, search in found.items()})
    return _report(found, references, forced, words)


def _report(found: Any, references: object, forced: object, words: bool) -> SearchReport:
    trees = trees_of(found)
    entries = for_each(trees, references, "reference")
    if forced is None:
        by_tree = forced_scores(trees, list(map(references_of, entries, trees)))
        scores: list[object] = [[np.nan if item is None else item.score for item in group] for group in by_tree]
    else:
        scores = for_each(trees, forced, "score")
    rows = (row_of(*arguments, words) for arguments in zip(trees, entries, scores, strict=True))
    return SearchReport(tuple(rows), words)


guard_methods(SearchReport, "__getitem__", "of_class")
guard_methods(SearchReports, "__getitem__")


ROUNDS = 20
"""Most rounds over all scales."""

Intervals = Mapping[str, tuple[float, float]]
"""The lowest and the highest scale of each score."""


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(TextResult):
    """What `rf.search.tune` found.

    scales: the scale of each score that was tuned, for `found.rerank(tuned.scales)`. error_rate: with them. before:
    with the scales of the search. oracle: the least that any choice from the n-best lists gives. between: around each
    scale, the interval in which the errors stay the same if only this one changes.
    """

    scales: dict[str, float]
    error_rate: float
    before: float
    oracle: float
    between: dict[str, tuple[float, float]]

    @property
    def text(self) -> str:
        """The error rates and the scales."""
        rates = [f"{100 * rate:.4g} %" for rate in (self.before, self.error_rate, self.oracle)]
        lines = [f"errors {rates[0]} → {rates[1]}; at best {rates[2]} with these n-best lists"]
        for name, scale in self.scales.items():
            low, high = self.between[name]
            lines.append(f"  {printable_name(name)} {number(scale)}  (the same from {number(low)} to {number(high)})")
        return "\n".join(lines)


@guarded
def tune(
    found: Found | Iterable[Found],
    references: object,
    *,
    errors: Literal["labels", "words", "sequences"] = "labels",
    scales: Intervals | None = None,
    **more: tuple[float, float],
) -> Tuned:
    """Scales that give the fewest errors, found on n-best lists: `rf.search.tune(found, references, lm=(0.0, 1.0))`.

    One scale after the other is set to its best value, until none gets better. As a function of one scale, the score of
    each hypothesis is a straight line, so the best hypothesis changes at few points, which are known exactly. The
    middle of the widest interval with the fewest errors is taken (Och 2003, "Minimum Error Rate Training in Statistical
    Machine Translation"). Nothing is drawn by chance. With other scales a new search may keep other hypotheses: search
    again with the scales that were found, and tune once more.

    >>> from rfnb.search.trace import Trace
    >>> import numpy as np
    >>> parts = {"model": np.array([[[-1.0, -1.2]]]), "lm": np.array([[[-3.0, -1.0]]])}
    >>> trace = Trace(
    ...     labels=np.array([[[1, 2]]]), parents=np.zeros((1, 1, 2), int), scores=parts["model"],
    ...     ended=np.zeros((1, 1, 2), bool), final_scores=parts["model"][0], lengths=np.ones((1, 2), int),
    ...     complete=np.zeros((1, 2), bool), include_eos=False, steps=np.array([1]), parts=parts,
    ...     scales={"model": 1.0, "lm": 0.0}, framewise=True,
    ... )
    >>> tuned = rf.search.tune(rf.search.Found(trace), [[2]], lm=(0.0, 1.0))
    >>> tuned.before, tuned.error_rate, round(tuned.scales["lm"], 3)  # 0.1 and more is enough
    (1.0, 0.0, 0.55)

    Args:
        found: what the search returned, or a list of it if there were several batches.
        references: as for `rf.search.report`.
        errors: what is counted: wrong labels, wrong words, or wrong sequences.
        scales, more: the scores to tune by name, each with the lowest and the highest scale.

    Raises SearchError for a score that was not recorded, an empty interval, or a sequence without a reference.
    """
    if errors not in ("labels", "words", "sequences"):
        raise SearchError("tune: unknown `errors`", got=repr(errors), expected='"labels", "words" or "sequences"')
    trees = trees_of(found)
    intervals = {**(scales or {}), **more}
    if not intervals:
        raise SearchError("tune: no score is given", hint="rf.search.tune(found, references, lm=(0.0, 1.0))")
    for name, interval in intervals.items():
        _check(trees, name, interval)
    entries = for_each(trees, references, "reference")
    lists = [_list(tree, reference, errors, [*intervals]) for tree, reference in zip(trees, entries, strict=True)]
    recorded = {name: float(trees[0].own.scales.get(name, 1.0)) if trees else 1.0 for name in intervals}
    start = {name: float(np.clip(recorded[name], *interval)) for name, interval in intervals.items()}
    best = _descend(lists, intervals, start)
    length = max(sum(nbest.length for nbest in lists), 1)
    spans = {name: _span(lists, intervals, best, name) for name in intervals}
    return Tuned(
        scales=best,
        error_rate=_errors(lists, best) / length,
        before=_errors(lists, recorded) / length,
        oracle=sum(int(nbest.errors.min()) for nbest in lists) / length,
        between=spans,
    )


def _check(trees: Sequence[Tree], name: str, interval: Any) -> None:
    for tree in trees:
        check_recorded("tune", name, tree.trace)
        if tree.trace.scales.get(name, 1.0) != trees[0].trace.scales.get(name, 1.0):
            raise SearchError("tune: the searches have different scales", got=name, hint="found.rerank(…)")
    two = isinstance(interval, Sequence) and not isinstance(interval, str) and len(interval) == 2
    if not two or not all(isinstance(bound, int | float) and np.isfinite(bound) for bound in interval):
        raise SearchError(f"tune: {name} needs two numbers", got=interval, expected="(lowest, highest)")
    if interval[0] >= interval[1]:
        raise SearchError(f"tune: the interval of {name} is empty", got=interval, expected="(lowest, highest)")


@dataclass(frozen=True, eq=False)
class _List:
    """The n-best list of a sequence, by place in the beam. scores: the final scores with the scales of the search, of
    which `scales` are those that are tuned. slopes: by scorer, how they change with its scale. errors: of each. length:
    what they are relative to. A sequence without hypotheses has one without labels."""

    scores: np.ndarray
    scales: Mapping[str, float]
    slopes: Mapping[str, np.ndarray]
    errors: np.ndarray
    length: int

    def with_scales(self, scales: Mapping[str, float]) -> np.ndarray:
        """The final scores with other scales."""
        changes = [(scale - self.scales[name]) * self.slopes[name] for name, scale in scales.items()]
        scores: np.ndarray = self.scores + sum(changes, np.zeros(()))
        return scores


def _list(tree: Tree, reference: object, errors: str, names: Sequence[str]) -> _List:
    references = references_of(reference, tree)
    trace, hypotheses = tree.own, sorted(tree.hypotheses, key=lambda item: item.place)
    reference_units, by_rank = units_of(tree, references, errors == "words")
    units = [by_rank[tree.hypotheses.index(item)] for item in hypotheses] or [()]
    by_reference = np.array([edit_distances(item, units) for item in reference_units])
    nearest = int(by_reference[:, units.index(by_rank[0]) if by_rank else 0].argmin())
    wrong = by_reference.min(axis=0)
    places = [item.place for item in hypotheses] or [0]
    per = np.maximum([item.taken for item in hypotheses] or [1], 1) ** trace.length_normalization_exponent
    sums = {name: tree.part_sums[name][-1] if tree.steps else np.zeros(tree.beam) for name in names}
    return _List(
        scores=np.array([item.score for item in hypotheses] or [0.0]),
        scales={name: trace.scales.get(name, 1.0) for name in names},
        slopes={name: np.where(np.isfinite(part), part, 0.0)[places] / per for name, part in sums.items()},
        errors=(wrong > 0).astype(int) if errors == "sequences" else wrong,
        length=1 if errors == "sequences" else len(reference_units[nearest]),
    )


def _errors(lists: Sequence[_List], scales: Mapping[str, float]) -> int:
    """The errors of the best hypotheses; of equal ones, that with the lower place is the best."""
    return sum(int(nbest.errors[nbest.with_scales(scales).argmax()]) for nbest in lists)


def _descend(lists: Sequence[_List], intervals: Intervals, scales: dict[str, float]) -> dict[str, float]:
    """Sets one scale after the other to its best value, as long as this gives fewer errors."""
    least = _errors(lists, scales)
    for _ in range(ROUNDS):
        before = least
        for name in intervals:
            edges, errors = _errors_along(lists, intervals[name], scales, name)
            best = np.flatnonzero(errors == errors.min())
            widest = best[np.diff(edges)[best].argmax()]
            new = {**scales, name: float(edges[widest] + edges[widest + 1]) / 2}
            if (count := _errors(lists, new)) < least:
                scales, least = new, count
        if least == before:
            break
    return scales


def _span(lists: Sequence[_List], intervals: Intervals, scales: Mapping[str, float], name: str) -> tuple[float, float]:
    """The interval around a scale in which the errors stay the same."""
    edges, _ = _errors_along(lists, intervals[name], scales, name)
    at = int(np.clip(np.searchsorted(edges, scales[name]) - 1, 0, len(edges) - 2))
    return float(edges[at]), float(edges[at + 1])


def _errors_along(
    lists: Sequence[_List], interval: tuple[float, float], scales: Mapping[str, float], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """The errors as a function of one scale: the edges of the intervals in which they stay the same, [n + 1], and the
    errors in each, [n]."""
    low, high = map(float, interval)
    changes: dict[float, int] = {}
    at_low = 0
    for nbest in lists:
        offsets, slopes = nbest.with_scales({**scales, name: 0.0}), nbest.slopes[name]
        bends = _best_along(offsets, slopes, low, high)
        errors = [int(nbest.errors[k]) for _, k in bends]
        at_low += errors[0]
        for (at, _), before, after in zip(bends[1:], errors, errors[1:], strict=False):
            changes[at] = changes.get(at, 0) + after - before
    points = sorted(at for at, change in changes.items() if change)
    totals = at_low + np.cumsum([0, *(changes[at] for at in points)])
    return np.array([low, *points, high]), totals


def _best_along(offsets: np.ndarray, slopes: np.ndarray, low: float, high: float) -> list[tuple[float, int]]:
    """The upper edge of straight lines: from where on each is the highest, and its number; the first begins at `low`.

    >>> _best_along(np.array([0.0, -1.0, -3.0]), np.array([0.0, 1.0, 2.0]), 0.0, 5.0)
    [(0.0, 0), (1.0, 1), (2.0, 2)]
    """
    at, best = low, int(np.lexsort((np.arange(len(slopes)), -slopes, -(offsets + slopes * low)))[0])
    edge = [(at, best)]
    while (steeper := np.flatnonzero(slopes > slopes[best])).size:
        meets = np.maximum((offsets[best] - offsets[steeper]) / (slopes[steeper] - slopes[best]), at)
        k = np.lexsort((steeper, -slopes[steeper], meets))[0]
        at, best = float(meets[k]), int(steeper[k])
        if at >= high:
            break
        edge = [point for point in edge if point[0] < at] + [(at, best)]
    return edge
