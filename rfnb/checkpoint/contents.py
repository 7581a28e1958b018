"""The contents of a checkpoint: names, shapes and dtypes at once, values when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType

import torch

from rfnb.checkpoint.entries import opened
from rfnb.checkpoint.stored import Checkpoint, StoredEntry
from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError


class CheckpointFile(Shown):
    """A checkpoint that is open: `file["encoder/W"]` is a value, `file.entries` has the shapes of all.

    A notebook shows it as a tree. `apart` are the entries of optimizers, steps, and values that are not numbers.
    It can be used in a `with` statement, which closes the file.
    """

    def __init__(self, checkpoint: Checkpoint, files: ExitStack):
        self._checkpoint, self._files = checkpoint, files

    @property
    def path(self) -> str:
        """The path; for a checkpoint of TensorFlow its prefix."""
        return self._checkpoint.name

    @property
    def kind(self) -> str:
        """What wrote it: "TensorFlow", "safetensors", "torch", "npz" or "HDF"."""
        return self._checkpoint.kind

    @property
    def separator(self) -> str:
        """What stands between the parts of a name."""
        return self._checkpoint.separator

    @property
    def entries(self) -> Mapping[str, StoredEntry]:
        """By name the shape and the dtype."""
        return self._checkpoint.entries

    @property
    def apart(self) -> Mapping[str, StoredEntry]:
        """By name the shape and the dtype of entries of optimizers, of steps, and of values that are not numbers."""
        return self._checkpoint.apart

    @guarded
    def __getitem__(self, name: str) -> torch.Tensor:
        entry = self.entries.get(name) or self.apart.get(name)
        if entry is None:
            hint = did_you_mean(name, [*self.entries, *self.apart], most=3)
            raise CheckpointError(f"{self.path} has no entry {name!r:.100}", hint=hint)
        return self._checkpoint.read(entry.key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries or name in self.apart

    def keys(self) -> list[str]:
        """The names, without those of `apart`. `dict(file)` reads all values."""
        return list(self.entries)

    def close(self) -> None:
        """Closes the file. Values that were read stay as they are."""
        self._files.close()

    def __enter__(self) -> CheckpointFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@guarded
def open_checkpoint(path: str | os.PathLike[str], *, verify: bool = False) -> CheckpointFile:
    """What is in a checkpoint: names, shapes, dtypes and sizes as a tree; `file[name]` is a value, a torch tensor.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> file = rf.open_checkpoint(rf.save(model, folder / "model.safetensors"))
    >>> file.entries["weight"].shape, file["bias"]
    ((3, 2), tensor([0., 0.]))
    >>> print(rf.show(file).text.partition(":")[2].strip())
    2 entries, 8 values, 32 B
      bias    2    float32
      weight  3×2  float32

    Args:
        path: a checkpoint of TensorFlow, by its prefix, one of its files, or its folder; a file of safetensors, torch,
            npz, or HDF. Files are read as data only.
        verify: whether the checksums of values are compared when they are read, which files of TensorFlow have.

    Raises CheckpointError if the file cannot be read.
    """
    files = ExitStack()
    with ExitStack() as failed:
        failed.push(files)
        checkpoint = files.enter_context(opened(path, verify=verify))
        failed.pop_all()
    return CheckpointFile(checkpoint, files)
