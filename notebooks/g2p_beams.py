"""Beams of several sizes for the model of `g2p.py`: error rates, and whether search or model is to blame.

    python notebooks/g2p_beams.py notebooks/data/g2p_large.safetensors
    python notebooks/g2p_beams.py g2p.safetensors --part dev --beams 1 2 8

Search errors are the wrong answers to which the model gives a lower score than to the pronunciation in the dictionary:
the search has missed the better one. For model errors, it is the other way round.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import g2p
import g2p_data
import rfnb as rf

BEAMS = (1, 4, 12)
References = dict[str, list[g2p_data.Phones]]
Searches = dict[str, list[rf.search.Found]]
"""What was found with each beam, in batches of words."""


def searches(model: g2p.Model, words: Sequence[str], beams: Sequence[int] = BEAMS) -> Searches:
    """Searches for the phones of all words, with each of these beams."""
    parts = list(g2p.pieces(sorted(words, key=len)))
    return {f"beam {size}": [model.search(part, size) for part in parts] for size in beams}


def report(model: g2p.Model, found: Searches, references: References) -> rf.search.SearchReports:
    """The errors with each beam, each word against all of its pronunciations."""
    return rf.search.report(found, references, reference_scores(model, references))


def reference_scores(model: g2p.Model, references: References) -> dict[str, list[float]]:
    """The score that the model gives to each pronunciation of each word."""
    pairs = [(word, phones) for word, several in references.items() for phones in several]
    pairs.sort(key=lambda pair: len(pair[1]))
    scores: dict[tuple[str, str], float] = {}
    for part in g2p.pieces(pairs):
        names = [(word, " ".join(phones)) for word, phones in part]
        scores |= zip(names, model.scores_of(part), strict=True)
    return {word: [scores[word, " ".join(phones)] for phones in several] for word, several in references.items()}


def table(found: Searches, references: References, reports: rf.search.SearchReports) -> str:
    """A line for each beam: error rates in percent, and how many of the wrong words are errors of the search."""
    lines = ["beam       PER     WER    wrong   search errors   model errors   other"]
    for name, batches in found.items():
        answers = {word: phones for each in batches for word, phones in g2p.best_of(each).items()}
        per, wer = g2p_data.error_rates(answers, references)
        classes = reports[name].classes
        search, model = classes.get("search error", 0), classes.get("model error", 0)
        wrong = len(answers) - classes.get("correct", 0)
        lines.append(f"{name:<8}{per:6.2f}{wer:8.2f}{wrong:9,}{search:16,}{model:15,}{wrong - search - model:8,}")
    return "\n".join(lines)


def main() -> None:
    """Loads a model, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="the weights")
    parser.add_argument("--part", choices=("dev", "test"), default="test", help="the words")
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS, help="sizes of beams")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, _ = g2p.load(options.file)
    references = g2p_data.load()[options.part]
    found = searches(model, list(references), options.beams)
    print(table(found, references, report(model, found, references)))


if __name__ == "__main__":
    main()
