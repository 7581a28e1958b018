"""Saving the parameters of a module with safetensors, also the average of several files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from rfnb.checkpoint import training as training_state
from rfnb.checkpoint.entries import TRAINING, Checkpoint, Source, opened
from rfnb.checkpoint.mapping import targets
from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError
from rfnb.nn.bridge.mirror import VERSION
from rfnb.nn.module.module import Module

_RESERVED = (TRAINING, "__metadata__")


@guarded
def save(
    module: Module,
    path: str | os.PathLike[str],
    *,
    config: object = None,
    training: Mapping[str, object] | None = None,
) -> Path:
    """Writes all parameters, by their dotted names, to a safetensors file. Returns its path.

    >>> in_dim, out_dim = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> model = rf.Linear(in_dim, out_dim)
    >>> path = rf.save(model, folder / "model.safetensors", config={"in_dim": in_dim, "out_dim": out_dim})
    >>> again = rf.Linear(**rf.load_config(path))
    >>> rf.load(path, again).loaded
    ('weight', 'bias')

    An existing file is replaced only when the new one is complete.

    Args:
        config: numbers, strings, dims, and lists and dicts of these, from which the module can be built again; see
            `rf.load_config`.
        training: the state of training: `{"optimizer": optimizer, "step": 1000}`. Objects with a `state_dict()` are
            saved by it, everything else as plain values. The state of random numbers is saved as well, so that training
            continues as if it had not been interrupted.

    Raises CheckpointError if the module has no parameters, if `config` or `training` contain anything but data, or if
    the file cannot be written.
    """
    parameters = targets(module)
    path = writable(path)
    if not parameters:
        raise CheckpointError(f"save: {type(module).__name__} has no parameters")
    if reserved := [target.name for target in parameters if target.name.startswith(_RESERVED)]:
        raise CheckpointError("save: the name of a parameter is reserved in files", got=reserved[0])
    raw = {target.name: target.parameter.raw_tensor for target in parameters}
    metadata = {
        "format": "pt",
        VERSION: sys.modules["rfnb"].__version__,
        "dims": json.dumps({target.name: [dim.name for dim in target.parameter.dims] for target in parameters}),
        "tied": json.dumps({name: target.name for target in parameters for name in target.names[1:]}),
    }
    if config is not None:
        metadata["config"] = training_state.Writer().json({"config": config})
    if training is not None:
        metadata["training"], tensors = training_state.describe(training, module)
        raw |= tensors
    return _written(path, raw, metadata)


def _written(path: Path, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str]) -> Path:
    try:
        with replacing(path) as unfinished:
            save_file(_apart(tensors), unfinished, metadata)
    except (OSError, SafetensorError, ValueError, KeyError, NotImplementedError) as error:
        raise unwritable(path, error, CheckpointError) from error
    return path


@guarded
def save_checkpoint(module: Module, path: str | os.PathLike[str]) -> Path:
    """Calls `rf.save(module, path)`, under the name of RETURNN.

    >>> rf.save_checkpoint(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), folder / "model.safetensors").name
    'model.safetensors'
    """
    return save(module, path)


def writable(to: str | os.PathLike[str]) -> Path:
    """The path to write to. Raises CheckpointError if no file can be written there."""
    try:
        path = Path(to)
        path.exists()
    except (OSError, TypeError, ValueError) as error:  # a name that is too long, or not a path
        raise CheckpointError(f"save: {str(to)[:80]!r} is not a path to write to", got=error) from error
    if path.is_dir():
        raise CheckpointError(f"save: {path} is a folder", hint=f'"{path / "model.safetensors"}"')
    if not path.parent.is_dir():
        raise CheckpointError(f"save: the folder {path.parent} does not exist", hint=f'os.makedirs("{path.parent}")')
    if path.suffix in (".pt", ".pth"):
        raise CheckpointError(
            f"save: the suffix of {path.name} is that of torch files",
            expected="model.safetensors",
            hint=f'torch.save(rf.to_torch(module).state_dict(), "{path.name}")',
        )
    return path


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors on the CPU, contiguous and in separate memory, as the format requires; copied only where needed."""
    copies: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in places:
            tensor = tensor.clone()
        places.add(tensor.untyped_storage().data_ptr())
        copies[name] = tensor
    return copies


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
    return _written(path, tensors, metadata or {"format": "pt"})


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
