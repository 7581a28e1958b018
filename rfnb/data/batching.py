"""Batches of sequences of similar length, with a limit on their frames: a batch sampler for torch's DataLoader."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rfnb.errors import DataError


class FrameBatches:
    """Numbers of sequences in batches of at most `max_frames` frames, padding included: a `batch_sampler`.

    >>> batches = rf.FrameBatches([3, 9, 4, 8, 2], max_frames=12, shuffle=False)
    >>> list(batches), len(batches)
    ([[4, 0, 2], [3], [1]], 3)
    >>> loader = torch.utils.data.DataLoader(range(5), batch_sampler=batches, collate_fn=list)
    >>> next(iter(loader))
    [4, 0, 2]

    The sequences are shuffled and cut into buckets; those of a bucket are sorted by length and cut into batches, which
    are shuffled again. `set_epoch(n)` gives another order; the same epoch is always the same. A sequence that is longer
    than `max_frames` is a batch of its own. With torch.distributed, each process gets its share of the batches, all
    processes as many: some of the first are repeated at the end.

    Args:
        lengths: of all sequences: `rf.hdf(…).lengths()`.
        max_seqs: the largest number of sequences in a batch.
        shuffle: without it, there is one bucket, and batches are in the order of their lengths.
        bucket: the number of sequences that are sorted together.
        seed: of the order.
        rank, world_size: of this process, and the number of processes; by default those of torch.distributed.

    Raises DataError if a limit is below 1, or a length below 0.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        *,
        max_frames: int,
        max_seqs: int | None = None,
        shuffle: bool = True,
        bucket: int = 1000,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ):
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1 or (self.lengths.size and (self.lengths.dtype.kind not in "iu" or min(lengths) < 0)):
            got = f"{self.lengths.dtype} {self.lengths.shape}"
            raise DataError(
                "FrameBatches: `lengths` are not the lengths of sequences", got=got, expected="whole numbers"
            )
        for name, limit in (("max_frames", max_frames), ("max_seqs", max_seqs), ("bucket", bucket)):
            if limit is not None and limit < 1:
                raise DataError(f"FrameBatches: `{name}` is below 1", got=limit)
        ours = _process() if rank is None or world_size is None else (rank, world_size)
        self.rank, self.world_size = (
            given if given is not None else own for given, own in zip((rank, world_size), ours, strict=True)
        )
        if not 0 <= self.rank < self.world_size:
            got = f"rank={self.rank}, world_size={self.world_size}"
            raise DataError("FrameBatches: this process is none of them", got=got, expected="0 ≤ rank < world_size")
        self.max_frames, self.max_seqs, self.shuffle, self.bucket = max_frames, max_seqs, shuffle, bucket
        self.seed, self.epoch = seed, 0
        self._made: tuple[int, list[list[int]]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter([list(batch) for batch in self._batches()])

    def __len__(self) -> int:
        return len(self._batches())

    def _batches(self) -> list[list[int]]:
        """The batches of this process."""
        if self._made is None or self._made[0] != self.epoch:
            batches = self._of_all()
            batches += [batches[i % len(batches)] for i in range(-len(batches) % self.world_size)]
            self._made = self.epoch, batches[self.rank :: self.world_size]
        return self._made[1]

    def _of_all(self) -> list[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        number = len(self.lengths)
        order = random.permutation(number) if self.shuffle else np.arange(number)
        size = self.bucket if self.shuffle else max(number, 1)
        batches: list[list[int]] = []
        for start in range(0, number, size):
            part = order[start : start + size]
            batches += self._cut(part[np.argsort(self.lengths[part], kind="stable")].tolist())
        return [batches[i] for i in random.permutation(len(batches))] if self.shuffle else batches

    def _cut(self, numbers: list[int]) -> list[list[int]]:
        """Batches of sequences that are sorted by length."""
        batches: list[list[int]] = []
        for number in numbers:
            size = len(batches[-1]) + 1 if batches else 1
            full = size * int(self.lengths[number]) > self.max_frames or size > (self.max_seqs or size)
            if not batches or full:
                batches.append([])
            batches[-1].append(number)
        return batches


def _process() -> tuple[int, int]:
    """The rank of this process, and the number of processes."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
