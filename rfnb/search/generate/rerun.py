"""The model of a search of `generate`, run again: what it gives to other labels, and the branches that it adds."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.tensor.tensor import RawTensor
from rfnb.errors import SearchError
from rfnb.search.generate.scores import KeptScores
from rfnb.search.generate.settings import DEFAULTS, Settings
from rfnb.search.trace import BY_STEP, Candidates, Trace, by_length
from rfnb.trace.capture.generate import GenerateWatch, Searches, replaced

if TYPE_CHECKING:
    from rfnb.search.trace import Sums
    from rfnb.search.tree import Node, Tree


@dataclass(frozen=True, eq=False)
class ModelRerun:
    """A call of `generate` that can be made for one of its sequences with other labels.

    Args:
        model: with `generate`.
        config: the configuration of the call, if one was given.
        keywords: all others, with the inputs.
        settings: of the search.
        batch: the number of sequences.
        prompts: their labels before the first step, a raw tensor. [batch, labels]
    """

    model: Any
    config: Any
    keywords: Mapping[str, Any]
    settings: Settings
    batch: int
    prompts: RawTensor

    def forced(self, sequences: Mapping[int, Sequence[Sequence[int]]]) -> dict[int, Sums]:
        """The sums of the scores of some labels, by sequence: what the search adds up, after all processors."""
        return {
            row: [[*accumulate(self.scores(row, tuple(labels)))] if labels else None for labels in group]
            for row, group in sequences.items()
        }

    def scores(self, row: int, labels: tuple[int, ...]) -> list[float]:
        """The score of each of some labels of a sequence, which follow its prompt."""
        scores: list[float] = []
        beams = self.settings.beams > 1

        def forced_pass(
            model: object, input_ids: RawTensor, *, logits_processor: Any, generation_config: object, **keywords: object
        ) -> RawTensor:
            for at, logits in enumerate(_logits_before(model, input_ids, keywords, labels)):
                logits = logits.float().log_softmax(-1) if beams else logits.float()
                logits = logits_processor(_followed(input_ids, labels[:at]), logits)[0]
                scores.append(float((logits if beams else logits.log_softmax(-1))[labels[at]]))
            return input_ids

        two = {"num_beams": 2 if beams else 1, "num_return_sequences": 1, "do_sample": False}  # logits processors ask
        self._generate(self._of_row(row) | two | {"custom_generate": forced_pass})
        return scores

    def keep(self, tree: Tree, step: int, label: int, parent: int | None) -> Trace:
        """The search with a branch for a candidate that was pruned: what `generate` gives after its labels."""
        if label in self.settings.ends:
            raise SearchError(
                f"keep: {tree.label(label)!r} ends the hypothesis, so nothing follows", hint="tree.where(…)"
            )
        if tree.own.limit is not None and step + 1 >= int(tree.own.limit[0]):
            raise SearchError(
                f"keep: no label may follow step {step}", got=f"a limit of {int(tree.own.limit[0])} labels"
            )
        if parent is None:
            beside = [node for node in tree.pruned(step) if node.label == label and not node.ended]
            likely = beside[0].parent if beside else max(tree.nodes(step - 1), key=_goes_on).place if step else 0
            parent = likely or 0
        if step and not _goes_on(tree.node(step - 1, parent))[0]:
            raise SearchError(f"keep: the hypothesis at place {parent} has ended before step {step}")
        if (tree.alive[step] & (tree.parents[step] == parent) & (tree.labels[step] == label)).any():
            raise SearchError(f"keep: {tree.label(label)!r} has a place at step {step}", hint=f"tree.pruned({step})")
        labels = (*(tree.prefix(step - 1, parent) if step else ()), label)
        score = sum(self.scores(tree.sequence, labels))
        watch = GenerateWatch(lambda model: model is self.model, search=True)
        with watch.watching():
            self._generate(self._after(tree.sequence, labels))
        branch = Searches(watch.searches)[0].trace
        return joined_at(tree.trace, tree.sequence, step, label, parent, score, branch)

    def _setting(self, name: str) -> Any:
        value = self.keywords.get(name, getattr(self.config, name, None))
        return getattr(self.model.generation_config, name, None) if value is None else value

    def _of_row(self, row: int) -> dict[str, Any]:
        """The keywords for one sequence."""
        batch, keywords = self.batch, dict(self.keywords)
        keywords |= {name: _row_of(value, row, batch) for name, value in keywords.items() if name not in DEFAULTS}
        processors = [entry for entry in keywords.get("logits_processor") or () if not isinstance(entry, KeptScores)]
        return keywords | {"logits_processor": processors}

    def _generate(self, keywords: dict[str, Any]) -> None:
        from transformers import GenerationMixin  # without what Whisper's own `generate` does before and after

        config = copy.deepcopy(self.model.generation_config if self.config is None else self.config)
        keywords = config.update(**keywords)
        config.max_length = config.max_length if config.max_new_tokens is None else None  # not both
        processors_of = self.model._get_logits_processor

        def processors(generation_config: Any, *args: Any, **others: Any) -> object:
            like = copy.copy(generation_config)
            like.do_sample = self.settings.sampled  # those of samples, also where labels are not drawn
            return processors_of(like, *args, **others)

        with replaced(self.model, {"_get_logits_processor": processors}):
            GenerationMixin.generate(self.model, generation_config=config, **keywords)

    def _after(self, row: int, labels: tuple[int, ...]) -> dict[str, Any]:
        """The keywords for one sequence that goes on after some labels."""
        keywords = self._of_row(row)
        prompt = self.prompts[row : row + 1]
        ids = _followed(prompt, labels)
        if self.model.config.is_encoder_decoder:
            keywords["decoder_input_ids"] = ids
        else:
            keywords.pop("inputs", None)
            keywords["input_ids"] = ids
            mask = keywords.get("attention_mask")
            if mask is not None:
                keywords["attention_mask"] = _joined(mask, mask.new_ones(1, len(labels)))
        for name in ("max_new_tokens", "min_new_tokens"):
            if (count := self._setting(name)) is not None:
                keywords[name] = count - len(labels) if name[1] == "a" else max(count - len(labels), 0)
        return keywords


AFTER = {
    "attention_mask": (0, 1, 0), "token_type_ids": (1, 0, 0), "mm_token_type_ids": (0, 0, 0), "position_ids": (1, 0, 1),
}  # fmt: skip
"""Inputs with an entry for each label of a prompt: the n-th one after it is last * factor + first + n * step."""


def _logits_before(model: Any, ids: Any, keywords: Mapping[str, Any], labels: Sequence[int]) -> Iterator[RawTensor]:
    """The logits from which each of some labels follows, raw tensors [rows, labels].

    One pass of the model gives all of them. Where that is impossible, each has its own: XLNet changes the labels so
    that the last one alone is right, and BERT may read those that follow.
    """
    side = "decoder_" if model.config.is_encoder_decoder else ""
    keywords = {name: value for name, value in keywords.items() if name not in ("cache", "past_key_values")}

    def inputs_of(count: int) -> tuple[dict[str, Any], bool]:
        """The inputs of the model with the first of the labels, and whether it reads them as they are."""
        input_ids, longer = _followed(ids, labels[:count]), keywords | {"use_cache": False}
        new_ids = input_ids[:, ids.shape[1] :]
        for name, (factor, first, step) in AFTER.items():
            if (value := keywords.get(side + name)) is not None:
                after = value[..., -1:] * factor + first + (new_ids[0] * 0 + step).cumsum(0)
                longer[side + name] = _joined(value, after)
        embeds = None if side else keywords.get("inputs_embeds")
        if embeds is not None:
            longer["inputs_embeds"] = _joined(embeds.mT, model.get_input_embeddings()(new_ids).mT).mT
        if "logits_to_keep" in keywords:
            longer["logits_to_keep"] = count + 1
        inputs = model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **longer)
        read_ids = inputs.get(f"{side}input_ids")
        return inputs, embeds is not None or (read_ids is not None and input_ids.tolist() == read_ids.tolist())

    inputs, at_once = inputs_of(len(labels) - 1)
    if at_once:
        logits = model(**inputs, return_dict=True).logits[:, -len(labels) :]
        at_once = logits.shape[1] == len(labels)  # some models give those of the last label only
        may_look_ahead = not side and not getattr(model.config, "is_decoder", True)  # BERT, and some that are causal
        if at_once and may_look_ahead:
            first = model(**inputs_of(0)[0], return_dict=True).logits[:, -1]
            at_once = bool(logits[:, 0].isclose(first, rtol=1e-4, atol=1e-4).all())
    for count in range(len(labels)):
        yield logits[:, count] if at_once else model(**inputs_of(count)[0], return_dict=True).logits[:, -1]


def _followed(ids: RawTensor, labels: Sequence[int]) -> RawTensor:
    """Rows of labels with others after each."""
    return _joined(ids, ids.new_tensor([labels] * len(ids)))


def _joined(raw: RawTensor, more: RawTensor) -> RawTensor:
    """A raw tensor with more entries on its last axis."""
    size = raw.shape[-1]
    joined = raw.new_empty(*raw.shape[:-1], size + more.shape[-1])
    joined[..., :size], joined[..., size:] = raw, more
    return joined


def _goes_on(node: Node) -> tuple[bool, float]:
    return not (node.ended or node.ends), node.compared


def _row_of(value: Any, row: int, batch: int) -> object:
    rows = hasattr(value, "shape") and len(value.shape) > 0 and value.shape[0] == batch
    return value[row : row + 1] if rows else value


def joined_at(trace: Trace, row: int, step: int, label: int, parent: int, score: float, branch: Trace) -> Trace:
    """The search with a branch for one sequence: a candidate of a step, and a search that goes on from it.

    The branch has places of its own, after those of the hypotheses that go on, and of those that have ended.

    Args:
        trace: the search.
        row: the position of the sequence.
        step, label, parent: where the branch begins. score: the sum of scores there.
        branch: the search after it, of one sequence.
    """
    first, count = step + 1, int(branch.steps[0])
    before = int(trace.steps[row])
    steps = max(len(trace.labels), first + count)
    going, more = _living(trace), _living(branch)
    beam, extra = trace.labels.shape[2], branch.labels.shape[2]
    places = np.where(np.arange(beam) < going, np.arange(beam), np.arange(beam) + more)
    extras = np.where(np.arange(extra) < more, np.arange(extra) + going, np.arange(extra) + beam)
    shape = steps, len(trace.steps), beam + extra
    arrays: dict[str, Any] = {}
    for name in BY_STEP:
        old, new = getattr(trace, name), getattr(branch, name)
        if old is None or new is None:
            continue
        array = np.full(shape, -np.inf if name == "scores" else 0, old.dtype)
        array[: len(old)][..., places] = places[old] if name == "parents" else old
        array[before:, row] = -np.inf if name == "scores" else 0
        values = extras[new[:count, 0]] if name == "parents" else new[:count, 0] + (score if name == "scores" else 0)
        array[first : first + count, row, extras] = values.astype(old.dtype) if old.dtype != bool else new[:count, 0]
        arrays[name] = array
    arrays["labels"][step, row, going], arrays["parents"][step, row, going] = label, places[parent]
    arrays["scores"][step, row, going] = score
    _copy(arrays, row, before, places, max(before, first + count))
    _copy(arrays, row, first + count, extras, max(before, first + count))
    lengths = np.where(np.isneginf(branch.final_scores[0]), 0, branch.lengths[0] + first)
    taken = np.maximum(lengths + branch.complete[0], 1)
    sums = branch.scores[count - 1, 0] + score
    divided = by_length(taken, trace.length_normalization_exponent, trace.length_normalization_offset)
    final = np.where(np.isneginf(branch.final_scores[0]), -np.inf, sums / divided)
    ends = {"final_scores": final, "lengths": lengths, "complete": branch.complete[0]}
    for name, values in ends.items():
        old = getattr(trace, name)
        array = np.full(shape[1:], -np.inf if name == "final_scores" else 0, old.dtype)
        array[:, places], array[row, extras] = old, values
        arrays[name] = array
    counts = trace.steps.copy()
    counts[row] = max(before, first + count)
    return replace(
        trace,
        **arrays,
        steps=counts,
        living=None if trace.living is None else going + more,
        pruned=_pruned(trace, branch, row, first, count, score, shape[:2], places, extras),
    )


def _living(trace: Trace) -> int:
    return int(trace.labels.shape[2]) if trace.living is None else trace.living


def _copy(arrays: dict[str, np.ndarray], row: int, since: int, places: np.ndarray, until: int) -> None:
    """Copies final hypotheses to later steps."""
    for at in range(since, until):
        arrays["scores"][at, row, places] = arrays["scores"][at - 1, row, places]
        arrays["parents"][at, row, places], arrays["ended"][at, row, places] = places, True


def _pruned(
    trace: Trace, branch: Trace, row: int, first: int, count: int, score: float, shape: Any, places: Any, others: Any
) -> Candidates | None:
    """The pruned candidates of both."""
    old, new = trace.pruned, branch.pruned
    if old is None or new is None:
        return None
    width, more = old.labels.shape[2], new.labels.shape[2]
    labels, parents = np.zeros((*shape, width + more), int), np.zeros((*shape, width + more), int)
    scores = np.full((*shape, width + more), -np.inf, old.scores.dtype)
    at = slice(len(trace.labels))
    labels[at, :, :width], parents[at, :, :width], scores[at, :, :width] = old.labels, places[old.parents], old.scores
    rows = slice(first, first + count)
    labels[rows, row, width:], parents[rows, row, width:] = new.labels[:count, 0], others[new.parents[:count, 0]]
    scores[rows, row, width:] = new.scores[:count, 0] + score
    order = np.argsort(-scores, axis=2, kind="stable")
    parts = [np.take_along_axis(part, order, axis=2) for part in (labels, parents, scores)]
    return Candidates(parts[0], parts[1], parts[2])
