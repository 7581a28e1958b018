"""`rf.search.report`: the errors of a search over many sequences, with one setting or several side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

from rfnb.core.ground.text import count_of, cut, did_you_mean, number_of
from rfnb.core.tensor.op import guard_methods, guarded
from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.corpus.pairs import for_each, trees_of
from rfnb.search.corpus.row import Row, row_of
from rfnb.search.explain.forced import forced_scores
from rfnb.search.explain.reference import references_of
from rfnb.search.explain.where import VERDICTS
from rfnb.search.found import Found
from rfnb.search.words import InWords, place_of

SHOWN = 10
"""Wrong outputs that the text of a report shows."""


@dataclass(frozen=True, eq=False, repr=False)
class SearchReport(InWords):
    """The errors of a search over many sequences. rows: one for each sequence."""

    rows: tuple[Row, ...]

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, which: int | str) -> Row:
        """The row of a sequence, by position or name. Raises SearchError if there is none."""
        number = number_of(which, [*self._by_name], "report", SearchError) if isinstance(which, str) else which
        return self.rows[place_of("report", "sequence", number, len(self))]

    @cached_property
    def _by_name(self) -> dict[str, Row]:
        return {row.name: row for row in self.rows}

    @property
    def classes(self) -> dict[str, int]:
        """How many sequences have each verdict, in the order of `VERDICTS`; those that occur."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}

    def of_class(self, verdict: str) -> list[Row]:
        """The sequences with this verdict, such as "search error". Raises SearchError for an unknown verdict."""
        if verdict not in VERDICTS:
            hint = did_you_mean(verdict, VERDICTS)
            raise SearchError("report: unknown verdict", got=repr(verdict), expected=", ".join(VERDICTS), hint=hint)
        return [row for row in self.rows if row.verdict == verdict]

    @property
    def error_rate(self) -> float:
        """Wrong labels of the outputs, relative to the labels of the references."""
        return _share(sum(row.errors for row in self.rows), sum(row.length for row in self.rows))

    @property
    def oracle_error_rate(self) -> float:
        """Wrong labels of the hypothesis of each beam that is nearest to the reference, relative as in `error_rate`."""
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
        """The share of outputs in which three labels in a row occur again."""
        return _share(sum(row.repetitions > 0 for row in self.rows), len(self.rows))

    def summary(self) -> dict[str, Any]:
        """The numbers of the report, without its rows."""
        return {"sequences": len(self), **{name: getattr(self, name) for name in RATES}, **self.classes}

    def table(self) -> list[dict[str, Any]]:
        """A row for each sequence; `pandas.DataFrame` takes it."""
        return [row.table_row() for row in self.rows]

    @property
    def text(self) -> str:
        """The rates and classes, and the first wrong outputs."""
        rates = [f"{words} {100 * getattr(self, name):.4g} %" for name, words in RATES.items()]
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


def _line(row: Row) -> str:
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
class SearchReports(InWords):
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

    def table(self) -> list[dict[str, Any]]:
        """A row for each setting: its rates and classes."""
        classes = [verdict for verdict in VERDICTS if any(verdict in item.classes for item in self.settings.values())]
        return [
            {"setting": name, "sequences": len(item)}
            | {rate: getattr(item, rate) for rate in RATES}
            | {verdict: item.classes.get(verdict, 0) for verdict in classes}
            for name, item in self.settings.items()
        ]

    def side_by_side(self) -> list[dict[str, Any]]:
        """A row for each sequence: its reference, and the output and verdict with each setting."""
        rows: dict[str, dict[str, Any]] = {}
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
        lines = [[RATES.get(head, head) for head in heads], *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _cell(value: Any, share: bool) -> str:
    return f"{100 * value:.4g} %" if share else printable_name(str(value))


@overload
def report(found: Mapping[str, Any], references: Any, forced: Any = None) -> SearchReports: ...


@overload
def report(found: Found | Iterable[Found], references: Any, forced: Any = None) -> SearchReport: ...


@guarded
def report(found: Any, references: Any, forced: Any = None) -> SearchReport | SearchReports:
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
            several of them, as `tree.where` takes them. Or a Tensor {batch, labels}, or a list of them.
        forced: the final scores that the model gives to the references, in the same forms. They decide between search
            errors and model errors. Of a recorded search they are computed; otherwise, some verdicts are "undecided".

    Raises SearchError if a sequence has no reference, or a reference has labels that the vocabulary does not have.
    """
    if isinstance(found, Mapping):
        return SearchReports({str(name): _report(search, references, forced) for name, search in found.items()})
    return _report(found, references, forced)


def _report(found: Any, references: Any, forced: Any) -> SearchReport:
    trees = trees_of(found)
    entries = for_each(trees, references, "reference")
    if forced is None:
        scores = forced_scores(trees, list(map(references_of, entries, trees)))
    else:
        scores = for_each(trees, forced, "score")
    return SearchReport(tuple(map(row_of, trees, entries, scores)))


guard_methods(SearchReport, "__getitem__", "of_class")
guard_methods(SearchReports, "__getitem__")
