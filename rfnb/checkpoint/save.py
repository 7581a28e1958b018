"""Saving the parameters of a module with safetensors."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from uuid import uuid4

from safetensors.torch import save_file

from rfnb.checkpoint.mapping import dims_of
from rfnb.errors import CheckpointError
from rfnb.nn.module import Module


def save_checkpoint(module: Module, path: str | os.PathLike[str]) -> Path:
    """Writes all parameters, by their dotted names, to a safetensors file. Gives its path.

        rf.save_checkpoint(model, "model.safetensors")

    A file that is there already is replaced only when the new one is complete.

    Raises CheckpointError if the module has no parameters.
    """
    path = Path(path)
    parameters = dict(module.named_parameters())
    if not parameters:
        raise CheckpointError(f"save_checkpoint: {type(module).__name__} has no parameters")
    tensors = {name: p.raw_tensor.detach().cpu().clone().contiguous() for name, p in parameters.items()}
    dims = json.dumps({name: dims_of(parameter) for name, parameter in parameters.items()})
    metadata = {"format": "pt", "rfnb_version": sys.modules["rfnb"].__version__, "dims": dims}
    unfinished = path.with_name(f".{path.name}.{uuid4().hex[:8]}.unfinished")
    try:
        save_file(tensors, unfinished, metadata)
        unfinished.chmod(0o666 & ~_umask())
        _to_disk(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _umask() -> int:
    """What new files do not allow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _to_disk(path: Path) -> None:
    """Waits until the content is on disk, so that a power cut does not leave an empty file under the final name."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
