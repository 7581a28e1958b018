"""A choice with a blank in the body of a loop: what is known of the labels so far is carried from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import ParameterError
from rfnb.search.blank.prefixes import HASH, Prefixes, none_yet
from rfnb.search.blank.step import FrameStep, frame_step
from rfnb.search.rules import ChoiceOptions

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.loop.body.body import Body
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.search.score.parts import ScorePart


class Blanks:
    """What a search with a blank carries: the labels of the hypotheses so far, and for CTC the two kinds of scores."""

    def __init__(self, body: Body, like: Tensor, initial: Any, options: ChoiceOptions):
        """like: {…, beam}. initial: the scores before the first step, a raw tensor."""
        assert options.blank is not None
        self.blank, self.merge = options.blank, options.merge
        self.places: dict[str, int] = {}  # of each carried value, by name
        for name, numbers in none_yet(like).items():
            dims = like.dims if numbers.ndim == len(like.dims) else (*like.dims, HASH)
            self._carry(body, name, numbers, tensor_of(like._raw, align.sig(dims), like.lengths))
        if options.label_loop:
            self.places["in_blank"] = body.carry("search", like, like.dtype, initial)
            self._carry(
                body, "in_label", np.full([like.size_of(dim).max for dim in like.dims], -np.inf, like.dtype), like
            )

    def _carry(self, body: Body, name: str, numbers: np.ndarray, like: Tensor) -> None:
        with body.untraced():
            raw = body.backend.from_numpy_raw(numbers, like.device)
            initial = tensor_of(raw, like.sig, like.lengths)
        self.places[name] = body.carry("search", initial, initial.dtype, raw)

    def step(self, body: Body, hypotheses: Hypotheses, scores: Tensor, base: Tensor, **more: Any) -> FrameStep:
        """The hypotheses after one more frame. more: the other arguments of `frame_step`."""
        more |= {name: self._value(body, hypotheses, place) for name, place in self.places.items()}
        prefixes = Prefixes(*(more.pop(name) for name in Prefixes._fields))
        result: FrameStep = frame_step(scores, base, prefixes=prefixes, blank=self.blank, merge=self.merge, **more)
        return result

    def take(self, body: Body, hypotheses: Hypotheses, found: FrameStep) -> None:
        """Carries what is known of the hypotheses after a frame."""
        values = found.prefixes._asdict() | {"in_blank": found.in_blank, "in_label": found.in_label}
        for name, place in self.places.items():
            hypotheses.carried[place] = body.of_body(values[name], "choice")

    def _value(self, body: Body, hypotheses: Hypotheses, place: int) -> Tensor:
        """A carried value of the newest hypotheses."""
        carried = hypotheses.carried.get(place)
        return hypotheses.follow(body.carried[place].before if carried is None else carried)


def check_blank(options: ChoiceOptions, axis: Dim) -> None:
    """Raises ParameterError for a blank that is no label, or options that a search with a blank does not have."""
    if options.blank is None:
        if options.label_loop:
            raise ParameterError("choice: `label_loop` needs the number of the blank", hint="choice(…, blank=0)")
        return
    if options.merge not in ("sum", "max", None):
        raise ParameterError("choice: unknown `merge`", got=options.merge, expected='"sum", "max" or None')
    if not 0 <= options.blank < axis.get_dim_value():
        expected = f"0 to {axis.get_dim_value() - 1}"
        raise ParameterError("choice: `blank` is not a label", got=options.blank, expected=expected)
    conflicts = {name: getattr(options, name) for name in ("custom_score_combine", "keep_beams", "cheating")}
    for name, value in conflicts.items():
        if value and options.by_frame:
            hint = "leave one of the two out; merge=None keeps alignments apart"
            raise ParameterError(f"choice: `{name}` cannot be used where hypotheses merge", got=value, hint=hint)


def check_parts(name: str, parts: Sequence[ScorePart], axis: Dim, options: ChoiceOptions) -> None:
    """Raises ParameterError for parts of scores that a search with a blank cannot have."""
    check_blank(options, axis)
    if not any(isinstance(part.value, Tensor) for part in parts):
        raise ParameterError(
            f"{name}: choice: with a blank, frames need scores too", got=", ".join(part.name for part in parts),
            hint='{"model": frame_scores, "lm": (lm, 0.4)}',
        )  # fmt: skip
