"""Checkpoints of other programs: those of TensorFlow, and arrays in npz and HDF files."""

from __future__ import annotations

import zipfile
from collections.abc import Container, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rfnb.checkpoint.bundle.reader import Bundle
from rfnb.checkpoint.stored import Checkpoint, StoredEntry
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError

_ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
"""Behind the names of checkpoints that `tf.train.Checkpoint` wrote."""
_STEPS = {"global_step", "beta1_power", "beta2_power", "learning_rate", "save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH"}
HDF_MAGIC = b"\x89HDF\r\n\x1a\n"


def of_tensorflow(index: Path, *, verify: bool = False) -> Checkpoint:
    """The checkpoint of an index. verify: whether the checksums of values are compared as well."""
    bundle = Bundle(index)
    keys = {key.removesuffix(_ATTRIBUTE): key for key in bundle.tensors}
    entries: dict[str, StoredEntry] = {}
    apart: dict[str, StoredEntry] = {}
    for name, key in keys.items():
        dtype = bundle.dtype(key)
        listed = isinstance(dtype, str) or of_an_optimizer(name, keys)
        group = apart if listed else entries
        group[name] = StoredEntry(key, bundle.tensors[key].shape, str(dtype).removeprefix("torch."))
    path = str(index.with_suffix(""))
    return Checkpoint(
        path,
        entries,
        lambda key: bundle.read(key, verify=verify),
        kind="TensorFlow",
        apart=apart,
        separator="/",
        layout=lambda _: "as it is",
    )


def of_an_optimizer(name: str, names: Container[str]) -> bool:
    """Whether a variable belongs to an optimizer: a slot, whose name begins with that of a variable, or a step.

    >>> names = {"output/W", "optimize/output/W/Adam_1", "global_step", "output/W_re"}
    >>> sorted(name for name in names if of_an_optimizer(name, names))
    ['global_step', 'optimize/output/W/Adam_1']
    """
    parts = name.split("/")
    if parts[-1] in _STEPS or "/.OPTIMIZER_SLOT/" in name:
        return True
    return any("/".join(parts[i:-1]) in names for i in range(len(parts) - 1))


def of_npz(path: Path, files: ExitStack) -> Checkpoint:
    """The arrays of a file that `numpy.savez` wrote; only their headers are read at first."""
    opened = files.enter_context(np.load(path, allow_pickle=False))
    entries: dict[str, StoredEntry] = {}
    apart: dict[str, StoredEntry] = {}
    with zipfile.ZipFile(path) as members:
        for member in members.namelist():
            name = member.removesuffix(".npy")
            with members.open(member) as file:
                version = np.lib.format.read_magic(file)
                read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else _header_2
                shape, _, dtype = read_header(file)
            _add(entries, apart, name, shape, dtype)

    def read(key: str) -> torch.Tensor:
        return _as_torch(opened[key], key, path)

    return Checkpoint(str(path), entries, read, kind="npz", apart=apart, separator=_separator(entries))


def _header_2(file: Any) -> Any:
    return np.lib.format.read_array_header_2_0(file)


def of_hdf(path: Path, files: ExitStack) -> Checkpoint:
    """The data sets of an HDF file, whose values are read when asked for."""
    try:
        import h5py
    except ImportError as error:
        fault = f"{public_function()}: {path} is an HDF file"
        raise CheckpointError(fault, expected="the package h5py", hint="pip install h5py") from error
    opened = files.enter_context(h5py.File(path, "r"))
    entries: dict[str, StoredEntry] = {}
    apart: dict[str, StoredEntry] = {}

    def add(name: str, found: Any) -> None:
        if isinstance(found, h5py.Dataset):
            _add(entries, apart, name, found.shape or (), found.dtype)

    opened.visititems(add)

    def read(key: str) -> torch.Tensor:
        return _as_torch(opened[key][()], key, path)

    return Checkpoint(str(path), entries, read, kind="HDF", apart=apart, separator="/")


def is_npz(path: Path) -> bool:
    """Whether a file is a zip file of arrays."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as members:
        names = members.namelist()
    return bool(names) and all(name.endswith(".npy") for name in names)


def _add(
    entries: dict[str, StoredEntry], apart: dict[str, StoredEntry], name: str, shape: Any, dtype: np.dtype[Any]
) -> None:
    numbers = dtype.kind in "fiubc" and dtype.itemsize <= 16 and dtype != np.longdouble
    (entries if numbers else apart)[name] = StoredEntry(name, tuple(map(int, shape)), dtype.name)


def _as_torch(array: Any, key: str, path: Path) -> torch.Tensor:
    array = np.asarray(array)
    if array.dtype.kind not in "fiubc":
        raise CheckpointError(f"{public_function()}: {key} in {path} has no numbers", got=array.dtype)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _separator(names: Mapping[str, object]) -> str:
    return "/" if any("/" in name for name in names) else "."
