"""Inputs of all kinds, which the cases of `cases_*.py` are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import rfnb as rf
from rfnb import batch_dim

FEAT, OUT, VOCAB, HALF, FEAT2, ONE = (
    rf.Dim(n, name=name) for n, name in [(4, "feat"), (3, "out"), (5, "vocab"), (2, "half"), (4, "feat2"), (1, "one")]
)
FRAMES = rf.Dim(3, name="frames")
WEIGHTS = {"w": [FEAT, OUT], "bias": [OUT], "gates": [4 * OUT, FEAT], "rec": [4 * OUT, OUT], "gate_bias": [4 * OUT],
           "scale": [FEAT], "table": [VOCAB, OUT], "kernel": [OUT, FEAT, HALF], "depth": [FEAT, FEAT // 4, OUT],
           "wide": [FEAT, OUT, VOCAB]}  # fmt: skip
lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@dataclass
class Batch:
    """Inputs of all kinds, with the same lengths."""

    time: rf.Dim
    other: rf.Dim
    tensors: dict[str, rf.Tensor]

    def __getattr__(self, name: str) -> rf.Tensor:
        return self.tensors[name]

    def map(self, fn: Callable[[str, rf.Tensor], rf.Tensor]) -> Batch:
        return replace(self, tensors={name: fn(name, x) for name, x in self.tensors.items()})


def batch_of(lengths: list[int], seed: int = 0) -> Batch:
    """{batch, time, feat} and friends; `other` has the lengths in another order, and a frame more."""
    generator = np.random.default_rng(seed)
    time, other = rf.Dim(None, name="time"), rf.Dim(None, name="other")
    longer = [n + 1 for n in reversed(lengths)]
    frames, most, more = np.maximum(lengths, 1), max(lengths, default=0), max(longer, default=0)
    raws: dict[str, Any] = {
        "x": ([batch_dim, time, FEAT], generator.normal(size=(len(lengths), most, 4))),
        "y": ([batch_dim, time, FEAT], generator.normal(size=(len(lengths), most, 4))),
        "z": ([batch_dim, other, FEAT], generator.normal(size=(len(lengths), more, 4))),
        "v": ([batch_dim, FEAT], generator.normal(size=(len(lengths), 4))),
        "h": ([batch_dim, OUT], generator.normal(size=(len(lengths), 3))),
        "logits": ([batch_dim, time, VOCAB], generator.normal(size=(len(lengths), most, 5))),
        "labels": ([batch_dim, time], generator.integers(0, 5, size=(len(lengths), most))),
        "index": ([batch_dim, other], generator.integers(0, frames[:, None], size=(len(lengths), more))),
        "at": ([batch_dim], generator.integers(0, frames)),
        **{name: (dims, generator.normal(size=[d.dimension for d in dims])) for name, dims in WEIGHTS.items()},
    }  # fmt: skip
    rf.convert_to_tensor(np.zeros((len(lengths), most)), dims=[batch_dim, time], lengths=lengths)
    rf.convert_to_tensor(np.zeros((len(lengths), more)), dims=[batch_dim, other], lengths=longer)
    sparse = {"labels": VOCAB, "index": time, "at": time}
    tensors = {
        name: rf.convert_to_tensor(
            raw.astype("int64" if name in sparse else "float64"), dims=dims, sparse_dim=sparse.get(name)
        )
        for name, (dims, raw) in raws.items()
    }
    return Batch(time, other, tensors)


def one_of(batch: Batch, i: int) -> Batch:
    """Sequence `i` alone, without padding, under dims of its own."""
    time, other = rf.Dim(None, name="time"), rf.Dim(None, name="other")
    own = {batch.time: time, batch.other: other}

    def take(name: str, x: rf.Tensor) -> rf.Tensor:
        raw = x.raw_tensor
        for axis, dim in enumerate(x.dims):
            size = x.size_of(dim)
            raw = (
                raw.narrow(axis, i, 1)
                if dim is batch_dim
                else raw.narrow(axis, 0, int(size.values[i]))
                if size.dims
                else raw
            )
        sparse = own.get(x.sparse_dim, x.sparse_dim)
        return rf.convert_to_tensor(raw, dims=[own.get(d, d) for d in x.dims], sparse_dim=sparse)

    for dim, name in ((time, "x"), (other, "z")):
        n = int(batch.tensors[name].size_of(batch.time if dim is time else batch.other).values[i])
        rf.convert_to_tensor(np.zeros((1, n)), dims=[batch_dim, dim], lengths=[n])
    return replace(batch.map(take), time=time, other=other)
