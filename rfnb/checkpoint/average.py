"""The average of several checkpoints of one training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from rfnb.checkpoint.entries import Checkpoint, Source, opened
from rfnb.checkpoint.save import writable
from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError


@guarded
def average_checkpoints(sources: Sequence[Source], path: str | os.PathLike[str]) -> Path:
    """Writes a checkpoint whose parameters are the averages of those in several, as of the last epochs of a training.

    >>> feat = rf.Dim(2, name="feat")
    >>> for number in range(3):
    ...     model = rf.Linear(feat, feat)
    ...     model.bias.assign(float(number))
    ...     _ = rf.save(model, folder / f"epoch-{number}.safetensors")
    >>> epochs = [folder / f"epoch-{number}.safetensors" for number in range(3)]
    >>> mean = rf.average_checkpoints(epochs, folder / "mean.safetensors")
    >>> _ = rf.load(mean, model)
    >>> model.bias.raw_tensor.tolist()
    [1.0, 1.0]

    Sums are made in float64, and the average has the dtype of the last checkpoint. Values that are not floating-point,
    such as counters, and all else in the file, such as its config, are those of the last one. The states of optimizers
    are left out, as they belong to no average.

    Args:
        sources: files, folders or state dicts, as for `rf.load`, with the same names and shapes.
        path: of the safetensors file to write.

    Raises CheckpointError if they do not have the same entries, or the file cannot be written.
    """
    if isinstance(sources, str | os.PathLike) or not isinstance(sources, Sequence) or not sources:
        raise CheckpointError(
            "average_checkpoints: `sources` is not a list of checkpoints",
            got=f"{sources!r:.80}",
            hint="[path, path, …]",
        )
    path = writable(path)
    with ExitStack() as stack:
        checkpoints = [stack.enter_context(opened(source)) for source in sources]
        for other in checkpoints[:-1]:
            _check(other, checkpoints[-1])
        last = checkpoints[-1]
        keys = {entry.key: name for name, entry in last.entries.items()}
        tensors = {key: _average([(c, c.entries[name].key) for c in checkpoints]) for key, name in keys.items()}
        metadata = {name: text for name, text in last.metadata.items() if name != "training"}
    try:
        with replacing(path) as unfinished:
            save_file(tensors, unfinished, metadata or {"format": "pt"})
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error, CheckpointError) from error
    return path


def _check(other: Checkpoint, last: Checkpoint) -> None:
    for name in [*last.entries, *other.entries]:
        shapes = [c.entries[name].shape if name in c.entries else "nothing" for c in (other, last)]
        if shapes[0] != shapes[1]:
            raise CheckpointError(
                f"average_checkpoints: {name!r} is not the same in all checkpoints",
                got=f"{shapes[0]} in {other.name}", expected=f"{shapes[1]}, as in {last.name}",
            )  # fmt: skip


def _average(places: Sequence[tuple[Checkpoint, str]]) -> torch.Tensor:
    """The average of an entry, given by its key in each checkpoint; the last value, if it is not floating-point."""
    checkpoint, key = places[-1]
    last = checkpoint.read(key).cpu().contiguous()
    if not (last.is_floating_point() or last.is_complex()):
        return last.clone()
    total = last.to(torch.promote_types(last.dtype, torch.float64))
    for checkpoint, key in places[:-1]:
        total = total + checkpoint.read(key).cpu()
    return (total / len(places)).to(last.dtype)
