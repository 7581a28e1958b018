"""The output of `generate`, and whether settings fit it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rfnb.core.tensor.tensor import RawTensor
from rfnb.errors import SearchError
from rfnb.search.generate.beams import BestCandidates, FullScores, RepeatedSearch, Source, hypotheses, search
from rfnb.search.generate.scores import Best, KeptScores, StepScores, looked_at
from rfnb.search.generate.settings import WHAT, Settings, contradiction

CLOSE = 1e-4
"""The relative difference up to which two scores are equal."""


@dataclass(frozen=True, eq=False)
class Output:
    """What `generate` returned.

    Args:
        sequences: with their prompts. [rows, labels]
        scores: of each step; None if only the kept ones are known.
        kept: the best candidates of each step, if they were kept. drawn: those that were sampled, if that is known.
        compared: the final scores of searches with beams. [rows]
        paths: the row of each label of each sequence in the scores of its step; −1 after the end. [rows, steps]
        prompt: the number of labels of the prompts.
        beams: whether it is that of a search with beams.
    """

    sequences: np.ndarray
    scores: tuple[RawTensor, ...] | None
    kept: tuple[StepScores, ...] | None
    compared: np.ndarray | None
    paths: np.ndarray | None
    prompt: int
    beams: bool
    drawn: tuple[Best, ...] = ()

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return len(self.kept if self.kept is not None else self.scores or ())

    @property
    def rows(self) -> int:
        """The number of rows of the scores."""
        return len(self.kept[0].labels) if self.kept is not None else int(self.scores[0].shape[0]) if self.scores else 0

    def source(self, settings: Settings) -> Source:
        """The scores, for the steps of a search with beams."""
        if self.kept is not None:
            return BestCandidates(self.kept, self.drawn)
        assert self.scores is not None
        return FullScores(self.scores, looked_at(settings.beams, len(settings.ends)))


def read_output(out: Any, kept: KeptScores | None) -> Output:
    """The output as arrays. Raises SearchError if it is not one, or has no scores."""
    sequences = getattr(out, "sequences", out)
    if getattr(sequences, "ndim", None) != 2 or not hasattr(sequences, "cpu"):
        raise SearchError(
            f"{WHAT}: this is not the output of `generate`", got=type(out).__name__,
            hint="model.generate(…, output_scores=True, return_dict_in_generate=True)",
        )  # fmt: skip
    scores: Any = getattr(out, "scores", None)
    if kept is not None:
        kept.finish(sequences)
    elif not scores:
        raise SearchError(
            f"{WHAT}: the output has no scores", got="sequences alone" if sequences is out else type(out).__name__,
            hint="model.generate(…, output_scores=True, return_dict_in_generate=True)",
        )  # fmt: skip
    for step, raw in enumerate(() if kept is not None else scores):
        if bool(raw.isnan().any()):
            raise SearchError(
                f"{WHAT}: the scores of step {step} are not finite", got="NaN", hint="rf.check.finite(model)"
            )
    arrays = {name: _array(getattr(out, name, None)) for name in ("sequences_scores", "beam_indices")}
    paths = arrays["beam_indices"]
    beams = paths is not None or (kept is not None and kept.beams > 1)
    if kept is not None:
        prompt = kept.prompts.shape[1]
    else:
        prompt = sequences.shape[1] - (len(scores) if paths is None else paths.shape[1])
    return Output(
        sequences=_array(sequences),  # type: ignore[arg-type]
        scores=None if kept is not None else tuple(scores),
        kept=None if kept is None else tuple(kept.steps),
        compared=arrays["sequences_scores"],
        paths=paths,
        prompt=prompt,
        beams=beams,
        drawn=() if kept is None else tuple(kept.drawn),
    )


def _array(raw: RawTensor) -> np.ndarray | None:
    array: np.ndarray | None = None if raw is None else raw.detach().cpu().numpy()
    return array


def check_sizes(out: Output, settings: Settings) -> int:
    """The number of sequences. Raises SearchError for numbers of beams and results that the output does not have."""
    beams, rows, results = settings.beams, out.rows, len(out.sequences)
    if not out.beams and beams == 1:
        batch = results // (settings.returned or 1)
        if batch * (settings.returned or 1) != results:
            raise contradiction("num_return_sequences", settings.returned, f"a divisor of {results}")
        return batch
    if out.paths is not None and out.paths.max(initial=-1) >= rows:
        raise SearchError(
            f"{WHAT}: the output does not have the scores of all beams, as that of Whisper's own `generate`",
            got=f"scores of {rows} rows, and results from row {out.paths.max()}",
            hint="with rf.capture(model, search=True) as seen: … keeps them; seen.search",
        )
    batch = rows // beams
    fits = out.beams and batch > 0 and rows == batch * beams and not results % batch
    if fits and out.paths is not None:
        first, owners = out.paths[:, 0], np.arange(results) // (results // batch)
        fits = bool(((first < 0) | (first // beams == owners)).all())
    if not fits:
        sequences = results // (settings.returned or 1)
        divisible = out.beams and sequences and not rows % sequences
        raise contradiction("num_beams", beams, rows // sequences if divisible else None)
    if settings.returned not in (None, results // batch):
        raise contradiction("num_return_sequences", settings.returned, results // batch)
    return batch


def prompts_of(out: Output, pad: int | None, batch: int) -> tuple[tuple[int, ...], ...]:
    """The prompts of the sequences, without the padding on their left."""
    prompts = out.sequences[:: len(out.sequences) // batch, : out.prompt]
    first = [int(np.argmax([*(row != pad), True])) if pad is not None else 0 for row in prompts]
    return tuple(tuple(row[min(i, max(len(row) - 1, 0)) :].tolist()) for row, i in zip(prompts, first, strict=True))


def check_scores(out: Output, settings: Settings) -> None:
    """Raises SearchError if the length penalty or the end labels are not those of the returned hypotheses."""
    results: list[tuple[float, float, int]] = []
    limit = settings.limit(out.prompt) or out.steps
    for labels, rows, score in _returned(out, settings.beams):
        for at, label in enumerate(labels):
            last = at == len(labels) - 1
            if not last and label in settings.ends:
                raise contradiction("eos_token_id", settings.ends, why=f"as {label} is inside of a result")
            if last and len(labels) < limit and label not in settings.ends:
                raise contradiction("eos_token_id", settings.ends, why=f"as a result ends by {label}")
        if out.scores is not None and score is not None and score > -np.inf:
            total = sum(
                float(out.scores[step][row, label]) for step, (row, label) in enumerate(zip(rows, labels, strict=False))
            )
            results.append((total, score, len(labels)))
    if all(_close(total / length**settings.length_penalty, score) for total, score, length in results):
        return
    penalties = [math.log(total / score) / math.log(n) for total, score, n in results if n > 1 and total * score > 0]
    expected = penalties[0] if penalties and np.ptp(penalties) < 1e-3 else None
    raise contradiction("length_penalty", settings.length_penalty, expected and f"about {expected:.4g}")


def _returned(out: Output, beams: int) -> Iterator[tuple[list[int], list[int], float | None]]:
    """The labels of each result without its prompt, the rows of them, and its score.

    Those that `generate` filled places with begin elsewhere than in the first beam.
    """
    if out.paths is None:
        return
    for i, (sequence, rows) in enumerate(zip(out.sequences, out.paths, strict=True)):
        count = int((rows >= 0).sum())
        if count and not rows[0] % beams:
            labels = sequence[out.prompt : out.prompt + count].tolist()
            yield labels, rows[:count].tolist(), None if out.compared is None else float(out.compared[i])


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b), 1e-3)


def search_again(out: Output, settings: Settings, candidates: int) -> RepeatedSearch:
    """The search with beams that gives the output. Raises SearchError for settings that do not give it."""
    limit, steps = settings.limit(out.prompt), out.steps
    if limit is not None and steps > limit:
        raise limits(settings, out)
    never = settings.early_stopping == "never" and settings.length_penalty > 0
    if limit is None and never:
        raise SearchError(
            f'{WHAT}: `max_length` is not known, which early_stopping="never" needs', hint="max_new_tokens=…"
        )
    source = out.source(settings)
    stops: tuple[Any, ...] = (
        settings.early_stopping,
        *(stop for stop in (False, True, "never") if stop != settings.early_stopping),
    )
    fitting = []
    for stop in stops:
        for attempt in [None, steps] if limit is None else [limit]:
            searched = search(source, replace(settings, early_stopping=stop), attempt, candidates)
            if fits(out, searched) and stop == settings.early_stopping:
                return searched
            fitting += [stop] if fits(out, searched) else []
    if fitting:
        expected = fitting[0] if len(fitting) == 1 else " or ".join(map(repr, fitting))
        raise contradiction("early_stopping", settings.early_stopping, expected)
    if any(fits(out, search(source, settings, attempt, 0)) for attempt in (None, steps)):
        raise limits(settings, out)
    raise SearchError(
        f"{WHAT}: the settings do not give this output",
        got=", ".join(f"{name}={value!r}" for name, value in vars(settings).items()),
        hint="the configuration and all keywords that `generate` got",
    )


def limits(settings: Settings, out: Output) -> SearchError:
    """The error for a limit of labels that does not fit the number of steps."""
    if settings.most_new is not None:
        return contradiction("max_new_tokens", settings.most_new, f"{out.steps}")
    return contradiction("max_length", settings.most, f"{out.steps + out.prompt}")


def fits(out: Output, searched: RepeatedSearch) -> bool:
    """Whether a search gives the output."""
    if not searched.stopped or len(searched.steps) != out.steps:
        return False
    batch = len(searched.steps[-1].bank)
    results = [result for row in hypotheses(searched, len(out.sequences) // batch) for result in row]
    scores = np.array([result.score for result in results], np.float32)
    real = np.array([result.real for result in results])
    if out.compared is not None and not np.allclose(scores[real], out.compared[real], rtol=CLOSE, atol=CLOSE * 1e-3):
        return False
    generated = zip(out.sequences[:, out.prompt :].tolist(), results, strict=True)
    return all(not result.real or tuple(row[: len(result.labels)]) == result.labels for row, result in generated)
