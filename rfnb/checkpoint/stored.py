"""What is known of a checkpoint from any source before its values are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch

Layout = Literal["rfnb", "torch", "as it is"]
"""Which axis of a weight is which: {in, out} in rfnb, {out, in} in torch; or the same as in the module."""

TRAINING = "training:"
"""Prefix of entries that belong to optimizers and the like. No parameter has it, since attributes have no colon."""


@dataclass(frozen=True)
class StoredEntry:
    """An entry of a checkpoint, whose values have not been read yet."""

    key: str  # the name in the file, which renaming does not change
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...] | None = None  # the names of the dims when it was saved

    def __str__(self) -> str:
        if self.dims is None:
            return f"shape {self.shape}"
        return f"{{{', '.join(f'{name}:{size}' for name, size in zip(self.dims, self.shape, strict=True))}}}"


@dataclass(frozen=True)
class Checkpoint:
    """The entries of a checkpoint by name, and a function that reads them."""

    name: str
    entries: Mapping[str, StoredEntry]
    read: Callable[[str], torch.Tensor]  # by key
    metadata: Mapping[str, str] = field(default_factory=dict)
    kind: str = "tensors by name"
    apart: Mapping[str, StoredEntry] = field(default_factory=dict)  # of optimizers, steps, and what is not read
    separator: str = "."  # between the parts of a name
    layout: Callable[[StoredEntry], Layout | None] = lambda _: None  # None: not known
