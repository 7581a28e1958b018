"""What a training step of whole models costs beside the same in plain torch: python tests/bench/bench_train_step.py

Milliseconds of CPU time, one thread, interleaved blocks, medians. "step": forward and backward; no dropout.
python tests/bench/bench_train_step.py conformer mid: the rows that have these words in their name.
"""

from __future__ import annotations

import functools
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

import rfnb as rf
from rfnb import batch_dim

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.nn.encoder import plain_conformer, plain_transformer

Ways = tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]
"""Torch's and ours: a tensor, or its sum."""

SIZES = {"tiny": (4, 20, 10, 32, 2), "mid": (8, 80, 40, 256, 2), "deep": (16, 400, 100, 144, 12)}
"""Batch, time, labels, features, layers."""
VALUES = {"tiny": 16, "mid": 80, "deep": 80}
ROUNDS = {"tiny": 200, "mid": 25, "deep": 3}


def conformer(size: str, padded: bool) -> Ways:
    """Without a frontend; all sequences equally long, or with masks."""
    batch, frames, _, features, layers = SIZES[size]
    lengths = torch.linspace(frames // 2, frames, batch).long() if padded else torch.full([batch], frames)
    inputs = VALUES[size]
    time, feat, model = rf.Dim(None, name="time"), rf.Dim(inputs, name="feat"), rf.Dim(features, name="model")
    no_dropout = dict.fromkeys(["input_dropout", "dropout", "att_dropout"], 0.0)
    encoder = rf.ConformerEncoder(
        feat, model, num_layers=layers, input_layer=None, conv_kernel_size=31, num_heads=4, **no_dropout
    )
    raw = torch.randn(batch, frames, inputs)
    weights = plain_conformer.weights_of(encoder)
    valid = torch.arange(frames) < lengths[:, None]
    target = torch.randn(batch, frames, features) * valid.unsqueeze(-1)
    named = rf.convert_to_tensor(target, dims=[batch_dim, time, model], lengths=lengths.tolist())

    def ours() -> torch.Tensor:
        x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths.tolist())
        y, _ = encoder(x, in_spatial_dim=time)
        return rf.reduce_sum(y * named, axis=y.dims).raw_tensor

    def torchs() -> torch.Tensor:
        y = plain_conformer.encoder(weights, raw, lengths, layers=layers, heads=4, train=True)
        return (y * target).sum()

    return torchs, ours


def transformer(size: str, padded: bool) -> Ways:
    """A decoder with attention to an encoder; its loss. 35,648 or 2,363,392 parameters, with 12 layers 4,158,432."""
    batch, letters, labels, features, layers = SIZES[size]
    vocab = {"tiny": 25, "mid": 500, "deep": 500}[size]
    letters_of, labels_of = (
        torch.linspace(n // 2, n, batch).long() if padded else torch.full([batch], n) for n in (letters, labels)
    )
    word, phones = rf.Dim(None, name="word"), rf.Dim(None, name="phones")
    enc, model, phone = (rf.Dim(n, name=name) for n, name in [(features, "enc"), (features, "model"), (vocab, "phone")])
    decoder = rf.TransformerDecoder(
        enc, phone, model, num_layers=layers, num_heads=4, dropout=0.0, att_dropout=0.0, share_embedding=False
    )
    weights = plain_transformer.weights_of(decoder)
    raw, raw_encoder = torch.randint(0, vocab, [batch, labels]), torch.randn(batch, letters, features)
    valid = torch.arange(labels) < labels_of[:, None]
    mask = (torch.arange(letters) < letters_of[:, None])[:, None, None] if padded else None
    positions = plain_transformer.sines(labels, features)

    def ours() -> torch.Tensor:
        x = rf.convert_to_tensor(raw, dims=[batch_dim, phones], sparse_dim=phone, lengths=labels_of.tolist())
        encoded = rf.convert_to_tensor(raw_encoder, dims=[batch_dim, word, enc], lengths=letters_of.tolist())
        encoder = decoder.transform_encoder(encoded, axis=word)
        state = decoder.default_initial_state(batch_dims=[batch_dim])
        logits, _ = decoder(x, spatial_dim=phones, state=state, encoder=encoder)
        loss = rf.cross_entropy(target=x, estimated=logits, estimated_type="logits", axis=phone)
        return rf.reduce_sum(loss, axis=loss.dims).raw_tensor

    def torchs() -> torch.Tensor:
        logits = plain_transformer.decoder(weights, raw, raw_encoder, mask, positions, layers=layers, heads=4)
        target = raw.masked_fill(~valid, -1) if padded else raw
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-1, reduction="sum")

    return torchs, ours


def cases() -> dict[str, Callable[[], Ways]]:
    """By name."""
    return {
        f"{make.__name__}, {size}{', padded' if padded else ''}": functools.partial(make, size, padded)
        for make in (transformer, conformer)
        for size in SIZES
        for padded in (False, True)
    }


def measure(ways: Ways, gradients: bool, rounds: int) -> list[float]:
    """Milliseconds of each."""
    times: list[list[float]] = [[] for _ in ways]
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for taken, way in zip(times, ways, strict=True):
            start = time.process_time()
            if gradients:
                way().backward()
            else:
                with torch.no_grad():
                    way()
            taken.append((time.process_time() - start) * 1e3)
    gc.enable()
    return [statistics.median(taken) for taken in times]


def main(words: Sequence[str]) -> None:
    """Prints a table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rf.init_train_step_run_ctx(train_flag=True)
    print(f"{'ms':<32}{'torch':>10}{'rfnb':>10}")
    for name, make in cases().items():
        if not all(word in name for word in words):
            continue
        ways = make()
        expected, found = (way().detach() for way in ways)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        for gradients in (False, True):
            ours = measure(ways, gradients, next(rounds for size, rounds in ROUNDS.items() if size in name))
            row = f"{name + (', step' if gradients else ', forward'):<32}"
            print(f"{row}{ours[0]:>10.2f}{ours[1]:>10.2f}  ×{ours[1] / ours[0]:.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
