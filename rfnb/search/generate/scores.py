"""The best candidates of each step of `generate`: all that its search is made again from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rfnb.core.tensor.tensor import RawTensor


class Best(NamedTuple):
    """The best candidates of a step, the best first. [batch, candidates] each"""

    scores: np.ndarray
    parents: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False)
class StepScores:
    """The best candidates of each row in one step of `generate`; a row is one of the beams of one sequence.

    Args:
        labels: the best labels of each row, the best first. [rows, candidates] int32
        scores: their scores, after all processors: log-probabilities with beams, logits without. [rows, candidates]
        log_total: log of the sum of exp of all scores of each row, kept without beams. [rows]
        entropy: of the softmax of all scores of each row, in nats, kept without beams. [rows]
        parents: the row that each row of the next step extends; None if that is not known, as after the last step.
            [rows] int32
        taken: the label by which it extends that row. [rows] int32. taken_scores: the scores of those labels. [rows]
    """

    labels: np.ndarray
    scores: np.ndarray
    log_total: np.ndarray | None = None
    entropy: np.ndarray | None = None
    parents: np.ndarray | None = None
    taken: np.ndarray | None = None
    taken_scores: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in vars(self).values() if array is not None)

    @classmethod
    def of(cls, scores: RawTensor, most: int, *, distribution: bool = False) -> StepScores:
        """The best candidates of a raw tensor of scores, [rows, labels].

        most: how many of each row. distribution: whether `log_total` and `entropy` are kept.
        """
        best, labels = scores.topk(min(most, scores.shape[-1]), dim=-1)
        log_total = entropy = None
        if distribution:
            total = scores.logsumexp(-1, keepdim=True)
            logs = scores - total
            terms = (logs.exp() * logs).nan_to_num(0.0)
            log_total, entropy = _array(total[:, 0]), _array(-terms.sum(-1))
        return cls(_array(labels).astype(np.int32), _array(best), log_total, entropy)

    def score_of(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The scores of some labels in some rows; NaN for those that are not among the best candidates."""
        matches = self.labels[rows] == labels[:, None]
        scores = self.scores[rows, matches.argmax(axis=1)]
        return np.where(matches.any(axis=1), scores, np.float32(np.nan))


@dataclass
class KeptScores:
    """The last logits processor of one call of `generate`: keeps the best candidates and changes nothing.

    Whoever adds it, `rf.capture(model, search=True)` or the user, adds it after all other processors, one for each
    call. The result may then be anything that `generate` returns, also the sequences alone:

        kept = KeptScores.of(model.generation_config, num_beams=4)
        out = model.generate(ids, num_beams=4, logits_processor=[kept])
        found = rf.search.from_generate(out, tokenizer, model.generation_config, num_beams=4, kept=kept)

    With vocabulary 250,000, beam 5, batch 8 and 200 steps it holds 1.4 MB, where `output_scores=True` holds 8 GB.

    Args:
        beams: the number of beams.
        most: how many candidates of each row are kept.
        sampled: whether labels are sampled, so that others than the best may be taken; then the scores of one step are
            held until the next.
        steps: the candidates of each step so far. drawn: those that were sampled in each step, where beams are sampled
            and `rf.capture(model, search=True)` has told them; the best first.
        prompts: the labels of each row before the first step, a raw tensor. [rows, labels]
    """

    beams: int = 1
    most: int = 12
    sampled: bool = False
    steps: list[StepScores] = field(default_factory=list)
    prompts: RawTensor = None
    drawn: list[Best] = field(default_factory=list)
    _before: RawTensor = field(default=None, repr=False)
    _scores: RawTensor = field(default=None, repr=False)

    @classmethod
    def of(cls, generation_config: object, *, candidates: int = 8, **keywords: object) -> KeptScores:
        """For the settings of a call of `generate`: those of its configuration, and its keywords, which come first.

        candidates: how many pruned candidates of each step are kept for the tree.
        """
        names = ("num_beams", "eos_token_id", "do_sample", "num_return_sequences")
        config = {name: getattr(generation_config, name, None) for name in names}
        config |= {name: keywords[name] for name in config if keywords.get(name) is not None}
        beams = config["num_beams"] or 1
        ends = np.size(config["eos_token_id"]) if config["eos_token_id"] is not None else 0
        best_count = looked_at(beams, ends) if beams > 1 else config["num_return_sequences"] or 1
        return cls(beams, best_count + candidates, bool(config["do_sample"]))

    def __call__(self, input_ids: RawTensor, scores: RawTensor) -> RawTensor:
        """Keeps the candidates of a step. input_ids: the labels of each row, [rows, labels]; scores: [rows, labels]."""
        if self._before is None or input_ids.shape[1] != self._before.shape[1] + 1:
            self.drawn.clear()
            self.steps.clear()  # another call of `generate`, as Whisper makes for each part
            self.prompts = input_ids.clone()
        else:
            self._follow(input_ids)
        self.steps.append(StepScores.of(scores, self.most, distribution=self.beams == 1))
        self._before = input_ids
        self._scores = scores if self.sampled and self.beams == 1 else None
        return scores

    def draw(self, scores: RawTensor, rows: RawTensor, labels: RawTensor) -> None:
        """Keeps the candidates of a step from which beams are made, if those are sampled: raw tensors [batch, ones]"""
        if self.sampled:
            self.drawn.append(Best(_array(scores), _array(rows) % self.beams, _array(labels)))

    def finish(self, sequences: RawTensor) -> None:
        """Completes the last step by the result; with beams, its labels are not known, and nothing is to be done."""
        if self.beams == 1 and self.steps and self.steps[-1].taken is None:
            self._follow(sequences[:, : self.prompts.shape[1] + len(self.steps)])
            self._scores = None

    def _follow(self, rows: RawTensor) -> None:
        """Completes the last step, by the rows of the next one."""
        parents = _numbers(rows)
        if self.beams > 1:
            before, prefixes = (x.reshape(-1, self.beams, x.shape[-1]) for x in (self._before, rows[:, :-1]))
            matches = (prefixes[:, :, None] == before[:, None]).all(-1)
            parents = (matches.int().argmax(-1) + _numbers(before)[:, None] * self.beams).reshape(-1)
        taken, last = rows[:, -1], self.steps[-1]
        parents_array, taken_array = (_array(x).astype(np.int32) for x in (parents, taken))
        if self._scores is not None:
            taken_scores = _array(self._scores[parents, taken])
        else:
            taken_scores = last.score_of(parents_array, taken_array)
        self.steps[-1] = replace(last, parents=parents_array, taken=taken_array, taken_scores=taken_scores)


def looked_at(beams: int, ends: int) -> int:
    """How many candidates of each step `generate` looks at, for a number of labels that end hypotheses."""
    return max(2, 1 + ends) * beams


def _numbers(rows: RawTensor) -> RawTensor:
    """The numbers of the rows of a raw tensor, on its device."""
    return rows.new_ones(len(rows), dtype=rows.long().dtype).cumsum(0) - 1


def _array(raw: RawTensor) -> np.ndarray:
    array: np.ndarray = raw.detach().float().cpu().numpy() if raw.is_floating_point() else raw.cpu().numpy()
    return array
