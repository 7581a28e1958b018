"""Copies of tensors that lie in memory as other tensors did: those that shared memory share it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rfnb.errors import BackendError

Raw = torch.Tensor | np.ndarray
Layout = tuple[int, tuple[int, ...]]
"""The address of the first entry, and how many bytes entries are apart on each axis."""
ALIGNMENT = 64
"""How many bytes of an address are kept: the last bits of a sum may depend on where the memory begins."""


def copies(parts: Sequence[tuple[Raw, Layout]]) -> list[Raw]:
    """Copies of tensors and arrays of numpy, each with the layout that it is given.

    Raises BackendError if two tensors that share memory differ in dtype or values.
    """
    results: dict[int, Raw] = {i: _copy(part) for i, (part, _) in enumerate(parts) if 0 in part.shape}
    for start, end, members in _blocks(parts):
        tensors = [part for i in members if isinstance(part := parts[i][0], torch.Tensor)]
        if len({part.dtype for part in tensors}) > 1:
            raise BackendError("variables of different dtypes share memory")
        sample = tensors[0] if tensors else parts[members[0]][0]
        shift = start % ALIGNMENT - start
        memory = torch.empty(end + shift, dtype=torch.uint8, device=_device(sample))
        view = _over(memory, sample, 0, [memory.numel() // sample.itemsize], [1]) if len(members) > 1 else None
        for i in members:
            part, (address, strides) = parts[i]
            results[i] = _part(memory, view, part, address + shift, strides)
            _write(results[i], part)
        if len(members) > 1 and not all(_same(results[i], parts[i][0]) for i in members):
            raise BackendError("variables share memory, and one of them was changed by the name of another one")
    return [results[i] for i in range(len(parts))]


def _blocks(parts: Sequence[tuple[Raw, Layout]]) -> Iterator[tuple[int, int, list[int]]]:
    """Where blocks of memory begin and end, of which no two overlap, and the tensors in each."""
    spans = []
    for number, (part, (address, strides)) in enumerate(parts):
        if 0 not in part.shape:
            reach = [(size - 1) * stride for size, stride in zip(part.shape, strides, strict=True)]
            low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
            spans.append((str(_device(part)), address + low, address + high + part.itemsize, number))
    spans.sort()
    while spans:
        device, start, end, number = spans.pop(0)
        members = [number]
        while spans and spans[0][0] == device and spans[0][1] < end:
            end = max(end, spans[0][2])
            members.append(spans.pop(0)[3])
        yield start, end, members


def _device(part: Raw) -> torch.device:
    return part.device if isinstance(part, torch.Tensor) else torch.device("cpu")


def _over(memory: torch.Tensor, like: Raw, start: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A tensor of its own, rather than a view, over a part of the memory."""
    if isinstance(like, np.ndarray):
        return None
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(memory.untyped_storage(), start, shape, strides)


def _part(memory: torch.Tensor, whole: torch.Tensor | None, like: Raw, start: int, strides: Sequence[int]) -> Raw:
    """The part of the memory with a layout; a view of the `whole`, if there is one, so that changes are counted."""
    if isinstance(like, np.ndarray):
        return np.ndarray(like.shape, like.dtype, memory.numpy(), start, tuple(strides))
    size = like.itemsize
    entries = [stride // size for stride in strides]
    if whole is None:
        return _over(memory, like, start // size, like.shape, entries)
    with torch.enable_grad():
        return whole.as_strided(like.shape, entries, start // size)


def _write(to: Raw, values: Raw) -> None:
    """Writes values, also along axes whose entries are the same."""
    if isinstance(to, np.ndarray):
        with np.errstate(all="ignore"):
            to[...] = values
        return
    assert isinstance(values, torch.Tensor)
    once = tuple(slice(None, 1) if stride == 0 else slice(None) for stride in to.stride())
    with torch.no_grad():
        to[once].copy_(values[once])


def _copy(part: Raw) -> Raw:
    return part.clone() if isinstance(part, torch.Tensor) else part.copy()


def _same(a: Raw, b: Raw) -> bool:
    if isinstance(a, np.ndarray):
        return a.tobytes() == b.tobytes()  # type: ignore[union-attr]
    assert isinstance(b, torch.Tensor)
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))
