"""The parts of a score: `{"model": scores, "lm": (scorer, 0.4), "length": 0.1}`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.search.score.module import ModuleScorer
from rfnb.search.score.scorer import PartialScorer, Scorer, scores_ends


@dataclass(frozen=True)
class ScorePart:
    """One part. value: a Tensor of scores, a Scorer, a PartialScorer, or None for the number of labels."""

    name: str
    value: Tensor | Scorer | PartialScorer | None
    scale: float


def read_parts(given: Mapping[str, Any]) -> list[ScorePart]:
    """The parts whose scale is not 0. Raises ParameterError for what is none, and if none scores the labels."""
    parts = parts_of(given)
    if all(part.value is None for part in parts):
        raise ParameterError(
            "choice: no part scores the labels", got=given, hint='loop.choice({"model": scores, "lm": (lm, 0.4)}, …)'
        )
    return parts


def parts_of(given: Mapping[str, Any]) -> list[ScorePart]:
    """The parts whose scale is not 0. Raises ParameterError for what is none."""
    parts = [_part(name, value) for name, value in given.items()]
    return [part for part in parts if part.scale]


def _part(name: Any, given: Any) -> ScorePart:
    if not isinstance(name, str) or not name:
        raise ParameterError("choice: the name of a part is not a string", got=name, expected='{"model": scores, …}')
    if name == "length" and isinstance(given, Real):
        return ScorePart(name, None, _scale(name, given))
    value, scale = given if isinstance(given, tuple) and len(given) == 2 else (given, 1.0)
    return ScorePart(name, _value(name, value), _scale(name, scale))


def _scale(name: str, scale: Any) -> float:
    if isinstance(scale, bool) or not isinstance(scale, Real) or not math.isfinite(scale):
        raise ParameterError(f"choice: the scale of {name!r} is not a finite number", got=scale)
    return float(scale)


def _value(name: str, value: Any) -> Tensor | Scorer | PartialScorer:
    if isinstance(value, Tensor | Scorer | PartialScorer):
        return value
    if isinstance(value, Callable) and hasattr(value, "default_initial_state"):  # type: ignore[arg-type]
        return ModuleScorer(value)
    raise ParameterError(
        f"choice: {name!r} is neither a Tensor nor a scorer",
        got=value if isinstance(value, Real) else type(value).__name__,
        expected="a Tensor, a scorer with initial_state and score, or a module with default_initial_state",
        hint=f'"{name}": (scorer, {value}), a scorer and its scale; only "length" is a number' * isinstance(value, Real)
        or None,
    )


def label_dim_of(tensors: list[Tensor]) -> Dim | None:
    """The feature dim of the first Tensor that has one."""
    return next((x.feature_dim for x in tensors if x.feature_dim is not None), None)


def most_gain(parts: list[ScorePart], known: float | None, given: float | None) -> float | None:
    """The most that a label may add to the sum of the parts; None if that is not known.

    known: what it is for log-probabilities, None if their sums are not the scores. given: by the user.
    """
    if given is not None or known is None:
        return given
    total = 0.0
    for part in parts:
        if part.value is None:
            total += max(part.scale, 0.0)
        elif part.scale < 0 or not (isinstance(part.value, Tensor) or getattr(part.value, "only_falls", False)):
            return None
    return total


def refuse_finals(what: str, parts: list[ScorePart]) -> None:
    """Raises ParameterError for scorers by which the end of a hypothesis changes its score."""
    for part in parts:
        if hasattr(part.value, "final") and not scores_ends(part.value):
            raise ParameterError(
                f"{what}: with {part.name!r}, the end of a hypothesis changes its score, so none is certain before",
                hint="leave out early_stop",
            )
