"""Saving the parameters of a module with safetensors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from rfnb.checkpoint import plain, training as training_state
from rfnb.checkpoint.entries import TRAINING
from rfnb.checkpoint.mapping import targets
from rfnb.core.ground.atomic import replacing
from rfnb.errors import CheckpointError
from rfnb.nn.module.module import Module

_RESERVED = (TRAINING, "__metadata__")


def save(
    module: Module,
    path: str | os.PathLike[str],
    *,
    config: Any = None,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Writes all parameters, by their dotted names, to a safetensors file. Gives its path.

    >>> in_dim, out_dim = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> model = rf.Linear(in_dim, out_dim)
    >>> path = rf.save(model, folder / "model.safetensors", config={"in_dim": in_dim, "out_dim": out_dim})
    >>> again = rf.Linear(**rf.load_config(path))
    >>> rf.load(path, again).loaded
    ('weight', 'bias')

    A file that is there already is replaced only when the new one is complete.

    Args:
        config: numbers, strings, dims, and lists and dicts of them, for `rf.load_config`: what the module is made of.
        training: what goes on when training does: `{"optimizer": optimizer, "step": 1000}`. What has a `state_dict()`
            is saved by it, all else as plain values; and the random numbers, so that training goes on as if it had
            never ended.

    Raises CheckpointError if the module has no parameters, `config` or `training` hold more than data, or the file
    cannot be written.
    """
    found = targets(module)
    path = _writable(path)
    if not found:
        raise CheckpointError(f"save: {type(module).__name__} has no parameters")
    if reserved := [target.name for target in found if target.name.startswith(_RESERVED)]:
        raise CheckpointError("save: a parameter cannot be called so in a file", got=reserved[0])
    raw = {target.name: target.parameter.raw_tensor for target in found}
    metadata = {
        "format": "pt",
        "rfnb_version": sys.modules["rfnb"].__version__,
        "dims": json.dumps({target.name: [dim.name for dim in target.parameter.dims] for target in found}),
        "tied": json.dumps({name: target.name for target in found for name in target.names[1:]}),
    }
    if config is not None:
        metadata["config"] = plain.Writer().json({"config": config})
    if training is not None:
        metadata["training"], tensors = training_state.describe(training, module)
        raw |= tensors
    try:
        with replacing(path) as unfinished:
            save_file(_apart(raw), unfinished, metadata)
    except (OSError, SafetensorError, ValueError, KeyError, NotImplementedError) as error:
        raise CheckpointError(f"save: {path} cannot be written", got=error, hint=_as_it_was(path)) from error
    return path


def save_checkpoint(module: Module, path: str | os.PathLike[str]) -> Path:
    """`rf.save(module, path)`

    >>> rf.save_checkpoint(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), folder / "model.safetensors").name
    'model.safetensors'
    """
    return save(module, path)


def _writable(to: str | os.PathLike[str]) -> Path:
    try:
        path = Path(to)
        path.exists()
    except (OSError, TypeError, ValueError) as error:  # a name that is too long, or none
        raise CheckpointError(f"save: {str(to)[:80]!r} is no path to write to", got=error) from error
    if path.is_dir():
        raise CheckpointError(f"save: {path} is a folder", hint=f'"{path / "model.safetensors"}"')
    if not path.parent.is_dir():
        raise CheckpointError(f"save: there is no folder {path.parent}")
    if path.suffix in (".pt", ".pth"):
        raise CheckpointError(
            f"save: {path.name} would be taken for a file of torch",
            expected="model.safetensors",
            hint=f'torch.save(rf.to_torch(module).state_dict(), "{path.name}")',
        )
    return path


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """On the CPU and contiguous, each with a memory of its own, as the format wants it; copied where needed only."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in seen:
            tensor = tensor.clone()
        seen.add(tensor.untyped_storage().data_ptr())
        found[name] = tensor
    return found


def _as_it_was(path: Path) -> str | None:
    return f"{path.name} is as it was" if path.exists() else None
