"""The model of a search of `generate`, run again: what it gives to other labels, and how it goes on from them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rfnb.errors import SearchError
from rfnb.search.generate.join import joined_at
from rfnb.search.generate.scores import KeptScores
from rfnb.search.generate.settings import DEFAULTS, Settings
from rfnb.trace.capture.generate import GenerateWatch, KeptSearch, Searches, replaced

if TYPE_CHECKING:
    from rfnb.search.trace import Sums, Trace
    from rfnb.search.tree import Tree


class _Done(Exception):
    """All labels have their scores."""


@dataclass
class _Forced:
    """A last logits processor that takes given labels, and keeps their scores. total: whether the scores are not
    normalized, as those of searches without beams."""

    labels: tuple[int, ...]
    total: bool
    scores: list[float] = field(default_factory=list)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        label = self.labels[len(self.scores)]
        logs = scores.log_softmax(-1) if self.total else scores
        self.scores.append(float(logs[0, label]))
        if len(self.scores) == len(self.labels):
            raise _Done
        others = scores.new_full(scores.shape, -float("inf"))
        others[:, label] = 0.0
        return others


@dataclass(frozen=True, eq=False)
class ModelAgain:
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
    prompts: Any

    def forced(self, sequences: Mapping[int, Sequence[Sequence[int]]]) -> dict[int, Sums]:
        """The sums of the scores of some labels, by sequence: what the search adds up, after all processors."""
        return {
            row: [[*accumulate(self.scores(row, tuple(labels)))] if labels else None for labels in several]
            for row, several in sequences.items()
        }

    def scores(self, row: int, labels: tuple[int, ...]) -> list[float]:
        """The score of each of some labels of a sequence, which follow its prompt."""
        beams = self.settings.beams > 1
        forced = _Forced(labels, not beams)
        with contextlib.suppress(_Done):
            self._generate(
                self._of_row(row) | {"num_beams": 2 if beams else 1, "num_return_sequences": 1, "do_sample": False},
                forced,
            )
        if len(forced.scores) < len(labels):
            raise SearchError(f"`generate` ended after {len(forced.scores)} labels", expected=f"{len(labels)}")
        return forced.scores

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
        branch = Searches(self._generate(self._after(tree.sequence, labels)))[0].trace
        return joined_at(tree.trace, tree.sequence, step, label, parent, score, branch)

    def _setting(self, name: str) -> Any:
        value = self.keywords.get(name, getattr(self.config, name, None))
        return getattr(self.model.generation_config, name, None) if value is None else value

    def _of_row(self, row: int) -> dict[str, Any]:
        """The keywords for one sequence."""
        batch, keywords = self.batch, dict(self.keywords)
        keywords |= {name: _row_of(value, row, batch) for name, value in keywords.items() if name not in DEFAULTS}
        others = [each for each in keywords.get("logits_processor") or () if not isinstance(each, KeptScores)]
        return keywords | {"logits_processor": others}

    def _generate(self, keywords: dict[str, Any], last: Any = None) -> list[KeptSearch]:
        """What another call keeps of its search. last: a logits processor for the end of all."""
        from transformers import GenerationMixin  # without what Whisper's own `generate` does before and after

        config = copy.deepcopy(self.model.generation_config if self.config is None else self.config)
        keywords = config.update(**keywords)
        config.max_length = config.max_length if config.max_new_tokens is None else None  # not both
        processors_of = self.model._get_logits_processor

        def processors(generation_config: Any, *args: Any, **others: Any) -> Any:
            like = copy.copy(generation_config)
            like.do_sample = self.settings.sampled  # those of samples, also where labels are not drawn
            return processors_of(like, *args, **others)

        watch = GenerateWatch(lambda model: model is self.model, search=True, last=last)
        with replaced(self.model, {"_get_logits_processor": processors}), watch.watching():
            GenerationMixin.generate(self.model, generation_config=config, **keywords)
        return watch.searches

    def _after(self, row: int, labels: tuple[int, ...]) -> dict[str, Any]:
        """The keywords for one sequence that goes on after some labels."""
        keywords = self._of_row(row)
        prompt = self.prompts[row : row + 1]
        more = prompt.new_tensor([labels])
        ids = prompt.new_empty(1, prompt.shape[1] + len(labels))
        ids[:, : prompt.shape[1]], ids[:, prompt.shape[1] :] = prompt, more
        if self.model.config.is_encoder_decoder:
            keywords["decoder_input_ids"] = ids
        else:
            keywords.pop("inputs", None)
            keywords["input_ids"] = ids
            mask = keywords.get("attention_mask")
            if mask is not None:
                keywords["attention_mask"] = mask.new_ones(ids.shape)
                keywords["attention_mask"][:, : mask.shape[1]] = mask
        for name in ("max_new_tokens", "min_new_tokens"):
            if (count := self._setting(name)) is not None:
                keywords[name] = count - len(labels) if name[1] == "a" else max(count - len(labels), 0)
        return keywords


def _goes_on(node: Any) -> tuple[bool, float]:
    return not (node.ended or node.ends), node.compared


def _row_of(value: Any, row: int, batch: int) -> Any:
    rows = hasattr(value, "shape") and len(value.shape) > 0 and value.shape[0] == batch
    return value[row : row + 1] if rows else value
