"""Beam search with a model of any library: a function that makes one step with raw tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab
from rfnb.errors import ParameterError, SearchError
from rfnb.search.checks.given import batch_of, numbers_of
from rfnb.search.found import Found
from rfnb.search.outside.hypotheses import DecodedHypotheses
from rfnb.search.outside.tensors import WithTensors
from rfnb.search.rules import ChoiceOptions, Ended, check_count, places_for, rules_of
from rfnb.search.score.outside import Scorers
from rfnb.search.score.parts import refuse_finals
from rfnb.search.sources import InputType
from rfnb.search.variants.constraint import Constraint
from rfnb.search.variants.outside import Change, Variant

Step = Callable[[Any, Any], tuple[Any, Any]]


@guarded
def decode(
    step: Step,
    state: Any = None,
    *,
    beam: int = 4,
    start: int | str | Sequence[int],
    end: int | str | None,
    limit: int | Sequence[int],
    labels: Any = None,
    batch: int | None = None,
    tags: Sequence[str] | None = None,
    input_type: InputType = "logits",
    length_normalization_exponent: float = 1.0,
    length_normalization_offset: float = 0.0,
    include_eos: bool = False,
    candidates: int = 8,
    scorers: Mapping[str, Any] | None = None,
    partial_candidates: int | None = None,
    constraints: Sequence[Constraint] = (),
    change: Change | None = None,
    groups: int = 1,
    diversity: float = 0.5,
    threshold: float | None = None,
    ended: Ended = "compete",
    patience: float | None = None,
    early_stop: int = 0,
    most_gain: float | None = None,
    **others: Any,
) -> Found:
    """Beam search with `step(prev, state) → (scores, state)`, where all tensors are those of torch, or Tensors.

    With N = batch · beam, the hypotheses of the first sequence first: `prev` has the last labels, [N] int64; the scores
    of the next ones are [N, labels].

    >>> following = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.5, 2.0], [3.0, 0.0, 0.0]])
    >>> found = rf.search.decode(
    ...     lambda prev, state: (following[prev], state),
    ...     batch=1, beam=2, start=0, end="</s>", limit=9, labels=["</s>", "a", "b"],
    ... )
    >>> found.nbest(2)
    [['ab', 'b']]

    Args:
        step: makes one step for all hypotheses. Use `torch.no_grad()` around the call.
        state: tensors with the batch as first axis, or nested lists, tuples, dicts and dataclasses of them; they
            are repeated for the beam, and follow their hypotheses. Arrays of numpy stay arrays. Or an object with
            `reorder_cache(index)`, as the caches of Hugging Face have it, which is called for both. Leave out what is
            the same for all hypotheses of a sequence. If there are Tensors {batch, …} in it, the step gets `prev` and
            those as Tensors {batch, beam, …}, and returns such.
        beam: the number of hypotheses.
        start: the first label, or one for each sequence. end: the label that ends a hypothesis; None if there is none.
        limit: the most labels of a hypothesis, or one limit for each sequence.
        labels: a list, an `rf.Vocab` or a tokenizer, for texts; or the dim of the labels, that of the scorers.
        batch: the number of sequences, if no tensor of the state shows it. tags: their names.
        input_type: what the scores are: "logits" (or log-probabilities), "log_prob" (as they are), "prob".
        length_normalization_exponent: hypotheses are compared by score / length ** exponent; 0: by their scores. With
            length_normalization_offset, by score / ((offset + length) / (offset + 1)) ** exponent (Wu et al. 2016).
        include_eos: whether the end label counts as a label of the hypothesis.
        candidates: how many of the candidates that found no place are kept of each step, for the tree.
        scorers: parts that are added to the scores of `step`, as for `loop.choice`: {"lm": (lm, 0.4), "length": 0.1};
            "model" may have a scale. partial_candidates: see there.
        constraints: such as `rf.search.no_repeat(3)`, in any order.
        change: a function (scores, labels) → scores of the log-probabilities, Tensors {batch, beam, labels}, such as
            `lambda scores, labels: rf.search.sampled(scores, axis=labels, top_p=0.9)`.
        groups, diversity, threshold: as of `rf.search.beam_step`.
        ended: "apart": ended hypotheses have places of their own, beside those of the `beam` hypotheses that go on.
            patience, early_stop, most_gain: when a search stops, as of `loop.choice`.

    Raises SearchError if what `step` returns does not fit, ParameterError for numbers out of range.
    """
    for name in others:
        raise ParameterError("decode: there is no such option", got=name, hint=OTHER_NAMES.get(name))
    for name, count, least in (("beam", beam, 1), ("candidates", candidates, 0), ("batch", batch or 0, 0)):
        check_count("decode", name, count, least)
    if partial_candidates is not None:
        check_count("decode", "partial_candidates", partial_candidates, 1)
    options = ChoiceOptions(
        length_normalization_exponent=length_normalization_exponent,
        length_normalization_offset=length_normalization_offset, groups=groups, diversity=diversity,
        threshold=threshold, ended=ended, living=beam if ended == "apart" else None, patience=patience,
        early_stop=early_stop, most_gain=most_gain,
    )  # fmt: skip
    options.check("decode")
    label_dim = labels if isinstance(labels, Dim) else None
    labels = labels if label_dim is None else label_dim.vocab
    vocab = None if labels is None else labels if isinstance(labels, Vocab) else Vocab(labels)
    if any(isinstance(leaf, Tensor) for leaf in leaves(state)):
        step = with_tensors = WithTensors(step, state, beam, label_dim)
        state, tags = with_tensors.state, tags or with_tensors.tags
    sequences = batch_of(state, start, limit, tags) if batch is None else batch
    if tags is not None and len(tags) != sequences:
        raise ParameterError("decode: `tags` has a name for each sequence", got=len(tags), expected=sequences)
    parts = None if scorers is None else Scorers(scorers, partial_candidates or 2 * beam)
    if parts is not None and early_stop:
        refuse_finals("decode", parts.parts)
    gain = None if change is not None else 0.0 if parts is None else parts.gain
    number = None if end is None else int(numbers_of("end", end, 1, vocab)[0])
    places = places_for(beam, options)
    rules = rules_of("decode", options, places, end=number, gain=gain)
    search = DecodedHypotheses(
        sequences, places, candidates, rules, input_type, include_eos, Variant(constraints, change), vocab, parts,
        first=numbers_of("start", start, sequences, vocab), limits=numbers_of("limit", limit, sequences, None),
    )  # fmt: skip
    search.labels = label_dim or search.labels
    prev = search.last[:, :beam].reshape(-1)
    device = next((str(leaf.device) for leaf in leaves(state) if hasattr(leaf, "device")), None)
    state = map_leaves(_Rows(np.repeat(np.arange(sequences), beam), sequences).of, state)
    while not search.done:
        raw, state = search.pair(step(search.backend.from_numpy_raw(prev, device), state))
        prev, rows = search.extend(raw)
        state = map_leaves(_Rows(rows, len(rows)).of, state)
    return search.found(vocab, tags)


OTHER_NAMES = {
    "length_penalty": "length_normalization_exponent=…; 0 compares scores that are not normalized",
    "num_beams": "beam=4",
    "beam_size": "beam=4",
    "max_length": "limit=50, which does not count `start`",
    "max_new_tokens": "limit=50",
    "bos_token_id": "start=1",
    "eos_token_id": "end=2",
}
"""Options of other libraries, and ours."""


class _Rows:
    """Rows of the first axis of the parts of a state, which has `count` entries."""

    def __init__(self, rows: np.ndarray, count: int):
        self.rows, self.count, self.backend = rows, count, raw_registry.selected()
        self.on: dict[Any, Any] = {}  # by device

    def of(self, leaf: Any) -> Any:
        """The rows of a part."""
        if leaf is None or isinstance(leaf, bool | int | float | str):
            return leaf
        reorder = getattr(leaf, "reorder_cache", None)
        if reorder is not None:
            moved = reorder(self.backend.from_numpy_raw(self.rows, None))
            return leaf if moved is None else moved
        shape = getattr(leaf, "shape", ())
        if isinstance(leaf, np.ndarray) and shape[:1] == (self.count,):
            return leaf[self.rows]
        if not shape or shape[0] != self.count:
            raise SearchError(
                "decode: the first axis of each part of the state counts the hypotheses",
                got=tuple(shape) or type(leaf).__name__,
                expected=f"({self.count}, …), or an object with reorder_cache(index)",
                hint="leave out what is the same for all hypotheses: lambda prev, state: model(prev, state, encoded)",
            )
        rows = self.on.get(leaf.device)
        if rows is None:
            rows = self.on[leaf.device] = self.backend.from_numpy_raw(self.rows, str(leaf.device))
        return self.backend.index_raw(leaf, rows, 0)
