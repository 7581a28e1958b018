"""Tiny random models with `generate`, random calls of it, and what its own beam search had at each step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from transformers import GenerationMixin

from tests.outside import library_loops

LABELS = 40
MODELS = ("t5", "gpt2", "bart", "whisper")


@cache
def make_model(name: str) -> Any:
    """A model whose labels differ in their probability, as those of trained ones do."""
    model = getattr(library_loops, f"_{name}")()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(6.0 if name != "t5" else 2.0)
    return model


@dataclass
class Recorded:
    """What `_beam_search` had after each step: raw tensors."""

    running: list[Any] = field(default_factory=list)
    running_scores: list[Any] = field(default_factory=list)
    banked: list[Any] = field(default_factory=list)
    banked_scores: list[Any] = field(default_factory=list)
    finished: list[Any] = field(default_factory=list)


def record(monkeypatch: Any) -> Recorded:
    """Records the next beam search."""
    recorded = Recorded()
    running, finished = GenerationMixin._get_running_beams_for_next_iteration, GenerationMixin._update_finished_beams

    def get_running(self: Any, **arguments: Any) -> Any:
        sequences, scores, rows = running(self, **arguments)
        recorded.running.append(sequences.clone())
        recorded.running_scores.append(scores.clone())
        return sequences, scores, rows

    def update(self: Any, **arguments: Any) -> Any:
        sequences, scores, rows, ended = finished(self, **arguments)
        recorded.banked.append(sequences.clone())
        recorded.banked_scores.append(scores.clone())
        recorded.finished.append(ended.clone())
        return sequences, scores, rows, ended

    monkeypatch.setattr(GenerationMixin, "_get_running_beams_for_next_iteration", get_running)
    monkeypatch.setattr(GenerationMixin, "_update_finished_beams", update)
    return recorded


def random_inputs(name: str, chance: random.Random) -> dict[str, Any]:
    """Inputs of a model: ids, padded on the left for GPT-2, or features of speech."""
    batch = chance.choice([1, 2, 3])
    if name == "whisper":
        torch.manual_seed(chance.randrange(10**6))
        return {"input_features": torch.randn(batch, 8, 60)}
    length = chance.choice([1, 3, 5])
    ids = torch.tensor([[chance.randrange(3, LABELS) for _ in range(length)] for _ in range(batch)])
    mask = torch.ones_like(ids)
    for row in range(batch):
        padded = chance.choice([0, 0, length // 2])
        sides = slice(0, padded) if name == "gpt2" else slice(length - padded, length)
        mask[row, sides] = 0
        ids[row, sides] = 0 if name == "gpt2" else 1
    return {"input_ids": ids, "attention_mask": mask}


def random_options(name: str, chance: random.Random) -> dict[str, Any]:
    """Keywords of a search with beams."""
    beams = chance.choice([2, 3, 4, 5])
    ends = chance.sample(range(3, LABELS), chance.choice([1, 1, 2, 3, 6]))
    options: dict[str, Any] = {
        "num_beams": beams,
        "num_return_sequences": chance.choice([1, beams, chance.randint(1, beams)]),
        "length_penalty": chance.choice([-1.0, 0.0, 0.5, 1.0, 1.0, 2.0]),
        "early_stopping": chance.choice([False, True, "never"]),
        "eos_token_id": chance.choice([ends, ends[0]]),
        "pad_token_id": 0,
        "max_new_tokens": chance.choice([1, 2, 5, 9, 14]),
        "sequence_bias": {(end,): chance.choice([0.0, 2.0, 4.0]) for end in ends},
    }
    more = {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "bad_words_ids": [[7], [9, 5]],
        "min_new_tokens": min(2, options["max_new_tokens"]),
        "forced_bos_token_id": 11,
        "forced_eos_token_id": ends[0],
        "suppress_tokens": [0, 1],
        "renormalize_logits": True,
    }
    return options | {key: more[key] for key in chance.sample(list(more), chance.choice([0, 0, 1, 2]))}


def generate(model: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """The output of `generate` with scores; for speech that of any other model, without what Whisper adds."""
    function = GenerationMixin.generate if "input_features" in inputs else type(model).generate
    options = {"output_scores": True, "return_dict_in_generate": True, **options}
    return function(model, **inputs, **options)
