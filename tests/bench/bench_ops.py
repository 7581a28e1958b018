"""What an op on small tensors costs beside raw torch doing the same work: python tests/bench/bench_ops.py [names…]

CPU time, one thread, interleaved blocks, medians; the goal is 1.3× in the median, 2× at worst.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import rfnb as rf
from rfnb import batch_dim

ROUNDS, BLOCK = 41, 500
Row = tuple[Callable[[], Any], Callable[[], Any]]


def rows() -> dict[str, Row]:
    """By name: through rfnb, and the same work in raw torch."""
    time_, feat, out, other = (
        rf.Dim(None, name="time"),
        rf.Dim(4, name="feat"),
        rf.Dim(3, name="out"),
        rf.Dim(3, name="other"),
    )
    raw, raw2 = torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time_, feat], lengths=[5, 3])
    x2 = rf.convert_to_tensor(raw2, dims=[batch_dim, time_, feat])
    even = rf.Dim(5, name="even")
    static = rf.convert_to_tensor(raw, dims=[batch_dim, even, feat])
    v_raw, turned_raw = torch.randn(4), torch.randn(4, 2)
    v = rf.convert_to_tensor(v_raw, dims=[feat])
    turned = rf.convert_to_tensor(turned_raw, dims=[feat, batch_dim])
    w_raw, b_raw = torch.randn(4, 3), torch.randn(3)
    w, b = rf.convert_to_tensor(w_raw, dims=[feat, out]), rf.convert_to_tensor(b_raw, dims=[out])
    mask_raw = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    padding = ~mask_raw.unsqueeze(2)
    mask = time_.get_mask()
    weights_raw = torch.rand(2, 5)
    weights = rf.convert_to_tensor(weights_raw, dims=[batch_dim, time_])
    index_raw = torch.tensor([[0, 2, 4], [0, 1, 2]])
    index = rf.convert_to_tensor(index_raw, dims=[batch_dim, other], sparse_dim=time_)
    labels_raw = torch.tensor([[0, 2, 3, 1, 0], [0, 1, 2, 0, 0]])
    labels = rf.convert_to_tensor(labels_raw, dims=[batch_dim, even], sparse_dim=feat)
    linear, layer_norm, embedding = rf.Linear(feat, out), rf.LayerNorm(feat), rf.Embedding(feat, out)
    torch_linear, torch_norm = torch.nn.Linear(4, 3), torch.nn.LayerNorm(4)
    torch_embedding = torch.nn.Embedding(4, 3)
    halves = [rf.Dim(2, name="left"), rf.Dim(2, name="right")]
    where, softmax, total, gather = rf.where, rf.softmax, rf.reduce_sum, rf.gather
    inf = float("-inf")
    return {
        "add, same dims": (lambda: x + x2, lambda: raw + raw2),
        "add [B,T,F] + [F]": (lambda: x + v, lambda: raw + v_raw),
        "add [B,T,F] + [F,B]": (lambda: x + turned, lambda: raw + turned_raw.t().unsqueeze(1)),
        "x * 2.0": (lambda: x * 2.0, lambda: raw * 2.0),
        "tanh": (lambda: rf.tanh(x), lambda: torch.tanh(raw)),
        "compare <": (lambda: x < x2, lambda: raw < raw2),
        "where(mask, x, 0)": (lambda: where(mask, x, 0.0), lambda: torch.where(mask_raw.unsqueeze(2), raw, 0.0)),
        "matmul over feat": (lambda: rf.matmul(x, w, reduce=feat), lambda: torch.matmul(raw, w_raw)),
        "matmul over time, masked": (
            lambda: rf.matmul(x, weights, reduce=time_),
            lambda: torch.matmul(
                raw.masked_fill(padding, 0).mT, weights_raw.masked_fill(padding[..., 0], 0).unsqueeze(2)
            ).squeeze(2),
        ),
        "reduce_sum, static": (lambda: total(static, axis=even), lambda: raw.sum(1)),
        "reduce_sum, masked": (lambda: total(x, axis=time_), lambda: raw.masked_fill(padding, 0).sum(1)),
        "reduce_mean, masked": (
            lambda: rf.reduce_mean(x, axis=time_),
            lambda: raw.masked_fill(padding, 0).sum(1) / (~padding).sum(1).clamp(min=1),
        ),
        "softmax, static": (lambda: softmax(static, axis=even), lambda: torch.softmax(raw, 1)),
        "softmax, masked": (lambda: softmax(x, axis=time_), lambda: torch.softmax(raw.masked_fill(padding, inf), 1)),
        "gather, shared batch": (
            lambda: gather(x, indices=index, axis=time_),
            lambda: torch.gather(raw, 1, index_raw.unsqueeze(2).expand(-1, -1, 4)),
        ),
        "gather, one frame": (lambda: gather(x, indices=2, axis=time_), lambda: raw.select(1, 2)),
        "gather, rows": (lambda: gather(w, indices=labels, axis=feat), lambda: functional.embedding(labels_raw, w_raw)),
        "concat feat": (lambda: rf.concat((x, feat), (x2, feat)), lambda: torch.cat([raw, raw2], 2)),
        "split": (lambda: rf.split(x, axis=feat, out_dims=halves), lambda: torch.split(raw, [2, 2], 2)),
        "stack": (lambda: rf.stack([x, x2], out_dim=halves[0]), lambda: torch.stack([raw, raw2])),
        "slice": (lambda: rf.slice(x, axis=feat, start=1, end=3, out_dim=halves[0]), lambda: raw[:, :, 1:3]),
        "cross_entropy": (
            lambda: rf.cross_entropy(estimated=static, target=labels, axis=feat, estimated_type="logits"),
            lambda: functional.cross_entropy(raw.flatten(0, 1), labels_raw.flatten(), reduction="none").view(2, 5),
        ),
        "cast": (lambda: rf.cast(x, "float64"), lambda: raw.to(torch.float64)),
        "Linear, static": (lambda: linear(static), lambda: torch_linear(raw)),
        "Linear, padded": (lambda: linear(x), lambda: torch_linear(raw.masked_fill(padding, 0))),
        "LayerNorm, static": (lambda: layer_norm(static), lambda: torch_norm(raw)),
        "Embedding": (lambda: embedding(labels), lambda: torch_embedding(labels_raw)),
        "tanh(x @ w + b)": (
            lambda: rf.tanh(rf.matmul(static, w, reduce=feat) + b),
            lambda: torch.tanh(torch.matmul(raw, w_raw) + b_raw),
        ),
    }


def per_call(function: Callable[[], Any]) -> float:
    """Microseconds of CPU time."""
    start = time.process_time()
    for _ in range(BLOCK):
        function()
    return (time.process_time() - start) / BLOCK * 1e6


def measure(row: Row) -> tuple[float, float, float]:
    """Medians of both, and the median of their ratios; the blocks of both alternate."""
    for function in row:
        per_call(function)
    times = [tuple(per_call(function) for function in row) for _ in range(ROUNDS)]
    ours, torchs = zip(*times, strict=True)
    return statistics.median(ours), statistics.median(torchs), statistics.median(a / b for a, b in times)


def main(names: list[str]) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    gc.disable()
    table = {name: row for name, row in rows().items() if not names or any(part in name for part in names)}
    ratios = []
    print(f"{'µs per op, B=2 T=5 F=4':<26}{'rfnb':>8}{'torch':>8}{'ratio':>8}")
    for name, row in table.items():
        ours, torchs, ratio = measure(row)
        ratios.append(ratio)
        print(f"{name:<26}{ours:>8.2f}{torchs:>8.2f}{ratio:>8.2f}", flush=True)
    print(f"{'median':<26}{'':>16}{statistics.median(ratios):>8.2f}\n{'worst':<26}{'':>16}{max(ratios):>8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
