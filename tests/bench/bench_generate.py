"""Beam search of a GPT-2 beside `generate` of Hugging Face: python tests/bench/bench_generate.py [rounds]

The same tiny random model with its cache, a batch of 8 prompts, 30 labels; both find the same hypotheses. CPU time, one
thread, no gradients; the least time of each way, which run in turn.

    generate   `model.generate(num_beams=…, early_stopping=True)`, ms
    model      the steps of the model alone, with their cache in order, ms
    decode     `rf.search.decode(…, ended="apart", patience=1.0)` with the model as its step, ms; against generate
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers

import rfnb as rf

BATCH, PROMPT, LABELS, END = 8, 6, 30, 2


class Case:
    """A model, prompts, and a beam."""

    def __init__(self, beam: int):
        torch.manual_seed(2)
        size = {"n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 64, "vocab_size": 40}
        config = transformers.GPT2Config(**size, bos_token_id=1, eos_token_id=END, pad_token_id=0)
        self.model: Any = transformers.GPT2LMHeadModel(config).eval()
        self.model.get_output_embeddings().weight.data.mul_(6.0)
        self.prompts, self.beam = torch.randint(3, 40, [BATCH, PROMPT]), beam

    def cache(self) -> Any:
        """The cache of the prompts, without their last labels."""
        cache = transformers.DynamicCache(config=self.model.config)
        self.model(self.prompts[:, :-1], past_key_values=cache, use_cache=True)
        return cache

    def step(self, prev: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """The scores of the next labels."""
        return self.model(prev[:, None], past_key_values=cache, use_cache=True).logits[:, -1], cache

    def generate(self) -> Any:
        """The search of Hugging Face."""
        return self.model.generate(
            self.prompts, attention_mask=torch.ones_like(self.prompts), num_beams=self.beam, do_sample=False,
            num_return_sequences=self.beam, max_new_tokens=LABELS, early_stopping=True, return_dict_in_generate=True,
            output_scores=True,
        )  # fmt: skip

    def decode(self) -> rf.search.Found:
        """The same search here."""
        return rf.search.decode(
            self.step, self.cache(), beam=self.beam, start=self.prompts[:, -1].tolist(), end=END, limit=LABELS,
            batch=BATCH, include_eos=True, ended="apart", patience=1.0,
        )  # fmt: skip

    def steps(self) -> None:
        """As many steps of the model."""
        cache, rows = self.cache(), torch.arange(BATCH).repeat_interleave(self.beam)
        for _ in range(LABELS):
            cache.reorder_cache(rows)
            rows = torch.arange(len(rows))
            self.step(rows % 40, cache)

    def check(self) -> None:
        """Both find the same."""
        expected, found = self.generate(), self.decode()
        labels = expected.sequences[:, PROMPT:].view(BATCH * self.beam, -1).tolist()
        hypotheses = [labels for nbest in found.nbest(self.beam, text=False) for labels in nbest]
        assert all(tuple(row[: len(own)]) == own for row, own in zip(labels, hypotheses, strict=True))
        scores = expected.sequences_scores.view(BATCH, self.beam)
        torch.testing.assert_close(found.scores.raw_tensor[:, : self.beam], scores, rtol=1e-4, atol=1e-5)


def least(ways: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The least milliseconds of each way."""
    times = [float("inf")] * len(ways)
    for _ in range(rounds):
        for number, way in enumerate(ways):
            start = time.process_time()
            way()
            times[number] = min(times[number], 1e3 * (time.process_time() - start))
    return times


def main(rounds: int) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore", FutureWarning)  # newer versions call the cache of a model by another name
    print(f"{'':<12}{'generate':>10}{'model':>10}{'decode':>10}{'ratio':>8}")
    for beam in (4, 12):
        case = Case(beam)
        case.check()
        generate, model, decode = least([case.generate, case.steps, case.decode], rounds)
        print(
            f"{f'beam={beam}':<12}{generate:>10.1f}{model:>10.1f}{decode:>10.1f}{decode / generate:>8.2f}", flush=True
        )


if __name__ == "__main__":
    with torch.no_grad():
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
