"""Checks of a Trace that was read: its arrays must fit together, so that nothing that reads it later can fail."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.errors import RunFileError
from rfnb.search.trace import Candidates, Trace
from rfnb.trace.run.file.fields import MOST

FROM_FILE = "it was read from a file"
"""Why the steps of such a search cannot be computed again."""


def checked(trace: Trace) -> Trace:
    """The trace. Raises RunFileError if shapes or dtypes do not fit, or a number refers to a missing place."""
    if trace.labels.ndim != 3 or max(trace.labels.shape) > MOST:
        raise RunFileError("the labels in the file have the wrong shape", got=trace.labels.shape)
    steps, batch, beam = trace.labels.shape
    by_step, by_place = (steps, batch, beam), (batch, beam)
    _fits("labels", trace.labels, by_step, "i")
    _fits("parents", trace.parents, by_step, "i", beam)
    _fits("scores", trace.scores, by_step, "f")
    _fits("ended", trace.ended, by_step, "b")
    _fits("final_scores", trace.final_scores, by_place, "f")
    _fits("lengths", trace.lengths, by_place, "i", steps + 1)
    _fits("complete", trace.complete, by_place, "b")
    _fits("steps", trace.steps, (batch,), "i", steps + 1)
    _fits("ends", trace.ends, by_step, "b")
    _fits("limit", trace.limit, (batch,), "i")
    _fits("joined", None if trace.joined is None else trace.joined + 1, by_step, "i", beam + 1)
    _parts(trace.parts, by_step)
    if trace.pruned is not None:
        _candidates(trace.pruned, by_step)
    if trace.tags is not None and len(trace.tags) != batch:
        raise RunFileError(
            "the file does not have a tag for each sequence", got=len(trace.tags), expected=f"{batch} tags"
        )
    offset = trace.length_normalization_offset
    if not np.isfinite([trace.length_normalization_exponent, offset, *trace.scales.values()]).all() or offset < 0:
        raise RunFileError("a scale in the file is not a finite number")
    if trace.living is not None and not 1 <= trace.living <= beam:
        raise RunFileError("the number of places of a beam is out of range", got=trace.living, expected=f"1 to {beam}")
    return trace


def _candidates(pruned: Candidates, shape: tuple[int, int, int]) -> None:
    steps, batch, beam = shape
    shape = (steps, batch, pruned.labels.shape[-1] if pruned.labels.ndim else 0)
    _fits("labels of pruned candidates", pruned.labels, shape, "i")
    _fits("parents of pruned candidates", pruned.parents, shape, "i", beam)
    _fits("scores of pruned candidates", pruned.scores, shape, "f")
    _parts(pruned.parts, shape)


def _parts(parts: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
    for part in parts.values():
        _fits("scores of a scorer", part, shape, "f")


def _fits(name: str, array: np.ndarray | None, shape: tuple[int, ...], kind: str, below: int | None = None) -> None:
    """Raises RunFileError for another shape or kind, or, with `below`, a number outside of 0 … below − 1."""
    if array is None:
        return
    if array.shape != shape or array.dtype.kind != kind or max(shape) > MOST:
        raise RunFileError(f"{name} in the file: wrong shape or dtype", got=array.shape, expected=shape)
    if below is not None and array.size and not 0 <= int(array.min()) <= int(array.max()) < below:
        raise RunFileError(f"{name} in the file: a number is out of range", expected=f"0 to {below - 1}")


SPECIAL = {"bos_label": "bos_id", "eos_label": "eos_id", "unknown_label": "unk_id"}
"""The labels with a role that are kept beside the texts, by argument and attribute of a Vocab."""


def roles_of(vocab: Vocab) -> dict[str, int]:
    """The labels of a vocabulary that have a role."""
    labels = {name: getattr(vocab, attribute) for name, attribute in SPECIAL.items()}
    return {name: label for name, label in labels.items() if label is not None and 0 <= label < len(vocab)}


def vocab_with(labels: list[str], roles: Mapping[str, int]) -> Vocab:
    """The vocabulary of these labels, with roles as `roles_of` gives them."""
    if not set(roles) <= set(SPECIAL) or not all(type(n) is int and 0 <= n < len(labels) for n in roles.values()):
        raise RunFileError("the labels with a role in the file are not valid")
    return Vocab.create_vocab_from_labels(labels, **dict(roles))  # type: ignore[arg-type]
