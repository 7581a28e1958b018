"""What the rows of the table of loops are made of: a batch, the same for a loop and for Python loops by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim

feat, hidden, hidden_out = Dim(3, name="feat"), Dim(4, name="hidden"), Dim(4, name="hidden_out")
key, vocab, tags = Dim(5, name="key"), Dim(6, name="vocab"), Dim(4, name="tags")

Results = dict[str, Any]
"""By name, a loop's Tensors; of one sequence, torch tensors, or lists of them: the frames of the loop's axis."""


class Data:
    """Raw numbers of a batch, and the parameters that rows ask for. `data["w"]` is one; gradients are of all."""

    def __init__(self, lengths: Sequence[int], dtype: str):
        self.lengths, self.dtype = list(lengths), dtype
        self.memory_lengths = [1 + (3 * i + 2) % 4 for i in range(len(lengths))]
        self.leaves: dict[str, torch.Tensor] = {}
        self.modules: dict[str, rf.Module] = {}
        count, longest = len(lengths), max(lengths, default=0)
        self.x = self.leaf("x", count, longest, 3)
        self.memory = self.leaf("memory", count, max(self.memory_lengths, default=1), 3)
        self.h0 = self.leaf("h0", count, 4)
        self.labels = torch.randint(0, 6, (count, longest), generator=_generator("labels"))
        self.memory_labels = torch.randint(0, 6, self.memory.shape[:2], generator=_generator("memory labels"))

    def leaf(self, name: str, *shape: int) -> torch.Tensor:
        """Random numbers that gradients are wanted of."""
        if name not in self.leaves:
            raw = torch.randn(shape, generator=_generator(name), dtype=torch.float64) * 0.7
            self.leaves[name] = raw.to(getattr(torch, self.dtype)).requires_grad_()
        return self.leaves[name]

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.leaves[name]

    def zeros(self, *shape: int) -> torch.Tensor:
        """Of the dtype of all."""
        return torch.zeros(shape, dtype=getattr(torch, self.dtype))

    def frames(self, i: int) -> torch.Tensor:
        """The sequence `i` of x, without padding."""
        return self.x[i, : self.lengths[i]]

    def labels_of(self, i: int) -> list[int]:
        """Its labels."""
        found: list[int] = self.labels[i, : self.lengths[i]].tolist()
        return found

    def memory_of(self, i: int) -> torch.Tensor:
        """What it attends to."""
        return self.memory[i, : self.memory_lengths[i]]

    def trained(self) -> list[torch.Tensor]:
        """All that gradients are wanted of."""
        return [*self.leaves.values(), *(raw for m in self.modules.values() for raw in rf.torch_parameters(m))]


class Batch:
    """Some of its sequences as Tensors, and how loops are to be run.

    There is NaN in the padding of `x`; `whole` is the same with numbers there, for ops on all frames in each step.
    """

    def __init__(self, data: Data, rows: Sequence[int] | None = None, **options: Any):
        self.data, self.options, self.loops = data, options, list[rf.Loop]()
        self.over: Dim | None = None  # the axis of the results, if no Loop tells
        self.rows = list(range(len(data.lengths))) if rows is None else list(rows)
        lengths = [data.lengths[i] for i in self.rows]
        memory_lengths = [data.memory_lengths[i] for i in self.rows]
        self.time, self.enc = Dim(None, name="time"), Dim(None, name="enc")
        self.x = self._cut(data.x, [self.time, feat], lengths)
        self.whole = rf.convert_to_tensor(
            data.x[self.rows, : max(lengths, default=0)], dims=self.x.dims, lengths=lengths
        )
        self.memory = self._cut(data.memory, [self.enc, feat], memory_lengths)
        self.labels = self._cut(data.labels, [self.time], lengths, vocab)
        self.memory_labels = self._cut(data.memory_labels, [self.enc], memory_lengths, vocab)
        self.h0 = rf.convert_to_tensor(data.h0[self.rows], dims=[batch_dim, hidden])
        self.limits = rf.convert_to_tensor(torch.tensor(lengths, dtype=torch.int64), dims=[batch_dim])

    def _cut(self, raw: torch.Tensor, dims: list[Dim], lengths: list[int], sparse_dim: Dim | None = None) -> Tensor:
        raw = raw[self.rows, : max(lengths, default=0)]
        tensor = rf.convert_to_tensor(raw, dims=[batch_dim, *dims], lengths=lengths, sparse_dim=sparse_dim)
        if len(set(lengths)) > 1 and sparse_dim is None:
            tensor = rf.where(rf.sequence_mask(dims[0]), tensor, float("nan"))
        return tensor

    def parameter(self, name: str, *dims: Dim) -> Tensor:
        """Random numbers {*dims}."""
        raw = self.data.leaf(name, *(dim.dimension or 0 for dim in dims))
        return rf.convert_to_tensor(raw, dims=dims)

    def module(self, name: str, make: Callable[[], Any]) -> Any:
        """A module, the same one each time."""
        return self.data.modules.setdefault(name, make())

    def zeros(self, *dims: Dim, **options: Any) -> Tensor:
        """{batch, *dims}"""
        return rf.zeros([batch_dim, *dims], **{"dtype": self.data.dtype, **options})

    @property
    def axis(self) -> Dim | None:
        """That of the frames of the results."""
        return self.loops[0].axis if self.loops else self.over

    def loop(self, **options: Any) -> rf.Loop:
        """Over the frames, if nothing else is said."""
        if "axis" not in options and "max_seq_len" not in options:
            options["axis"] = self.time
        self.loops.append(rf.Loop(**options, **self.options))
        return self.loops[-1]


class Row:
    """A loop, and what it does in plain Python on raw tensors.

    random: it draws numbers, which the hand takes from what the loop stacked. alone: a sequence of its own gives what
    it gives within a batch. named: what is stacked is a variable of the same name in the body.
    tolerance: relative; None: that of the dtype. at_least: how long the sequences have to be.
    """

    random, alone, named = False, True, True
    dtypes: tuple[str, ...] = ("float64", "float32")
    tolerance: float | None = None
    at_least = 0

    def loop(self, b: Batch) -> Results:
        """With rfnb."""
        raise NotImplementedError

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        """Sequence `i` by hand. ours: what the loop gave, for random numbers."""
        raise NotImplementedError


def recur(h: Tensor, weight: Tensor) -> Tensor:
    """h U, with the dims of h. weight {hidden, hidden_out}"""
    return rf.replace_dim(rf.matmul(h, weight, reduce=hidden), in_dim=hidden_out, out_dim=hidden)[0]


def pieces(results: Results, i: int, axis: Dim | None) -> Results:
    """What the results are for the sequence `i`: frames of `axis` as a list, all axes without padding."""
    return {name: _piece(tensor, i, axis) for name, tensor in results.items()}


def _piece(tensor: Tensor, i: int, axis: Dim | None) -> Any:
    dims = list(tensor.dims)
    raw = tensor.raw_tensor
    for dim in tensor.dims:
        if dim is batch_dim:
            continue
        size = tensor.size_of(dim)
        length = int(size.values[i]) if size.dims == (batch_dim,) else size.max
        raw = raw.narrow(dims.index(dim), 0, length)
    if batch_dim in dims:
        raw = raw.select(dims.index(batch_dim), i)
        dims.remove(batch_dim)
    return list(raw.unbind(dims.index(axis))) if axis in dims else raw


def _generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))
