"""The entries of a checkpoint from any source: a file of one of several programs, a folder, or tensors by name.

A `StoredEntry` is what is known of each before its values are read; `CheckpointFile` shows a file, and reads values.
"""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open

from rfnb.checkpoint.bundle import Bundle, index_of
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean, first_of
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import CheckpointError
from rfnb.nn.bridge.mirror import VERSION

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

    @classmethod
    def of(cls, key: str, tensor: torch.Tensor, dims: tuple[str, ...] | None = None) -> StoredEntry:
        """The entry of a tensor."""
        return cls(key, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), dims)

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


# -- folders, and checkpoints in several files

_INDEX = ".index.json"
_NAMES = ("model.safetensors", f"model.safetensors{_INDEX}", "pytorch_model.bin", f"pytorch_model.bin{_INDEX}")


def checkpoint_in(path: Path) -> Path:
    """The checkpoint file or index in a folder, if there is one; otherwise the path itself."""
    files = (path / name for name in _NAMES if path.is_dir())
    return next((file for file in files if file.is_file()), path)


def shards(path: Path) -> dict[Path, list[str]] | None:
    """The files that an index lists, and the names of the entries in each; None if this is not an index."""
    if not path.name.endswith(_INDEX):
        return None
    table = json_in(path).get("weight_map")
    if not isinstance(table, dict) or not all(
        isinstance(file, str) and Path(file).name == file for file in table.values()
    ):
        expected = '"weight_map": {"name": "file", …}'
        raise CheckpointError(f"{public_function()}: {path} is not an index of a checkpoint", expected=expected)
    files: dict[Path, list[str]] = {}
    for name, file in table.items():
        files.setdefault(path.parent / file, []).append(name)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(f"{public_function()}: files of {path} are missing", got=first_of(missing, 3))
    return files


def config_of(path: Path) -> dict[str, object]:
    """The Hugging Face config beside a checkpoint; empty if there is none."""
    file = checkpoint_in(path).parent / "config.json"
    config = json_in(file) if file.is_file() else {}
    return config if "model_type" in config else {}


def beside(path: Path) -> str | None:
    """A hint that lists the checkpoints in the folder instead."""
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(file.name for file in folder.iterdir() if file.suffix in (".safetensors", ".pt"))[:5]
    return f"in that folder: {', '.join(names)}" if names else None


def json_in(path: Path) -> dict[str, object]:
    """The dict in a JSON file. Raises CheckpointError if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{public_function()}: {path} cannot be read", got=error) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{public_function()}: {path} cannot be read", got=type(content).__name__, expected="a dict"
        )
    return content


# -- files of TensorFlow, npz and HDF

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
                form = np.lib.format
                head = form.read_magic(file) == (1, 0)
                shape, _, dtype = (form.read_array_header_1_0 if head else form.read_array_header_2_0)(file)
            _add(entries, apart, name, shape, dtype)

    def read(key: str) -> torch.Tensor:
        return _as_torch(opened[key], key, path)

    separator = "/" if any("/" in name for name in entries) else "."
    return Checkpoint(str(path), entries, read, kind="npz", apart=apart, separator=separator)


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

    def add(name: str, found: object) -> None:
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
    entries: dict[str, StoredEntry], apart: dict[str, StoredEntry], name: str, shape: Iterable[int], dtype: np.dtype
) -> None:
    numbers = dtype.kind in "fiubc" and dtype.itemsize <= 16 and dtype != np.longdouble
    (entries if numbers else apart)[name] = StoredEntry(name, tuple(map(int, shape)), dtype.name)


def _as_torch(array: object, key: str, path: Path) -> torch.Tensor:
    array = np.asarray(array)
    if array.dtype.kind not in "fiubc":
        raise CheckpointError(f"{public_function()}: {key} in {path} has no numbers", got=array.dtype)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


# -- any source

Source = str | os.PathLike[str] | Mapping[str, object]


@contextmanager
def opened(source: Source, *, verify: bool = False) -> Iterator[Checkpoint]:
    """Opens the checkpoint in a file, in a folder, or of tensors by name. Raises CheckpointError on failure.

    verify: whether the checksums of values are compared, where there are any.
    """
    if isinstance(source, Mapping):
        yield _of_tensors(source if isinstance(source, dict) else dict(source), "the state dict")
        return
    if not isinstance(source, str | os.PathLike):
        raise CheckpointError(
            f"{public_function()}: the first argument must be the checkpoint",
            got=type(source).__name__,
            expected="a path, or tensors by name",
            hint="rf.import_weights(model, module)"
            if isinstance(source, torch.nn.Module)
            else f"rf.{public_function()}(path, module)",
        )
    try:
        path = checkpoint_in(Path(source))
        index = index_of(path)
        exists = path.is_file()
    except OSError as error:  # a name that is too long
        raise CheckpointError(f"{public_function()}: {str(source)[:80]!r} does not exist", got=error) from error
    if index is not None:
        yield of_tensorflow(index, verify=verify)
        return
    if not exists:
        state = "is a folder without a checkpoint" if path.is_dir() else "does not exist"
        raise CheckpointError(f"{public_function()}: {path} {state}", hint=beside(path))
    with ExitStack() as files:
        parts = shards(path)
        yield _of_file(path, files) if parts is None else _of_shards(path, parts, files)


def _of_file(path: Path, files: ExitStack) -> Checkpoint:
    with _reading(path):
        with path.open("rb") as file:
            start = file.read(9)
        if start[:8] == HDF_MAGIC:
            return of_hdf(path, files)
        if is_npz(path):
            return of_npz(path, files)
        if _is_of_torch(start):
            return _of_tensors(torch.load(path, map_location="cpu", weights_only=True), str(path), "torch")
        return _of_safetensors(files.enter_context(safe_open(path, framework="pt")), path)


def _of_shards(path: Path, parts: Mapping[Path, Sequence[str]], files: ExitStack) -> Checkpoint:
    entries: dict[str, StoredEntry] = {}
    owners: dict[str, Checkpoint] = {}
    for file, names in parts.items():
        shard = _of_file(file, files)
        missing = [name for name in names if name not in shard.entries]
        if missing:
            raise CheckpointError(f"{public_function()}: {path} lists {missing[0]}, which is not in {file.name}")
        entries.update({name: shard.entries[name] for name in names})
        owners.update({shard.entries[name].key: shard for name in names})
    kind = next((owner.kind for owner in owners.values()), "safetensors")
    return Checkpoint(
        str(path),
        entries,
        lambda key: owners[key].read(key),
        kind=kind,
        layout=lambda entry: owners[entry.key].layout(entry),
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns errors in the block into a CheckpointError about the file."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # a broken pickle can raise any error
        raise CheckpointError(
            f"{public_function()}: {path} cannot be read",
            got=f"{path.stat().st_size} bytes: {str(error).partition(chr(10))[0].partition(' This file can')[0]}",
            expected="a complete safetensors file, or a state dict saved by torch.save",
            hint=_hint(path, error),
        ) from error


def _hint(path: Path, error: Exception) -> str | None:
    if path.suffix in (".config", ".py"):
        return f"a config of nets is read by rf.read_config({path.name!r}), its net is rf.Network.from_config(…)"
    is_pickle = isinstance(error, pickle.UnpicklingError)
    return "torch files are read as data only: torch.save(model.state_dict(), …) writes those" if is_pickle else None


def _of_safetensors(file: Any, path: Path) -> Checkpoint:
    metadata = file.metadata() or {}
    dims, tied = (table(metadata, name) for name in ("dims", "tied"))
    entries = {key: _stored(key, file.get_slice(key), dims.get(key)) for key in file.keys()}  # noqa: SIM118
    for name, key in tied.items():
        if isinstance(key, str) and key in entries:
            entries.setdefault(name, entries[key])

    def read(key: str) -> torch.Tensor:
        with _reading(path):
            tensor: torch.Tensor = file.get_tensor(key)
            return tensor

    layout: Layout | None = "rfnb" if VERSION in metadata else "torch" if metadata.get("format", "pt") == "pt" else None
    return Checkpoint(str(path), entries, read, metadata, "safetensors", layout=_layout_by_dims(lambda _: layout))


def table(metadata: Mapping[str, str], name: str) -> dict[str, object]:
    """One of the tables that `save` writes. Raises CheckpointError if it cannot be read."""
    try:
        content = json.loads(metadata.get(name, "{}"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{public_function()}: the table of {name} in the file cannot be read", got=metadata[name][:80]
        )
    return content


def _stored(key: str, entry: Any, dims: object) -> StoredEntry:
    shape = tuple(entry.get_shape())
    names = tuple(map(str, dims)) if isinstance(dims, list) and len(dims) == len(shape) else None
    dtype = entry.get_dtype()
    return StoredEntry(key, shape, _DTYPES.get(dtype, dtype), names)


def _of_tensors(tensors: object, name: str, kind: str = "tensors by name") -> Checkpoint:
    state = _flat(tensors, name)
    raw = {key: _raw(value) for key, value in state.items()}
    for key, value in raw.items():
        if value.is_meta or value.layout is not torch.strided:
            got = "no values, on the meta device" if value.is_meta else value.layout
            raise CheckpointError(f"{public_function()}: {key} in {name} is not a plain tensor", got=got)
    dims = {key: tuple(d.name for d in value.dims) for key, value in state.items() if isinstance(value, Tensor)}
    keys: dict[Hashable, str] = {}
    entries = {
        key: StoredEntry.of(keys.setdefault(_place(value) if value.numel() else key, key), value, dims.get(key))
        for key, value in raw.items()
    }
    layout = _layout_by_dims(_layout_by_module(state, tensors))
    return Checkpoint(name, entries, raw.__getitem__, kind=kind, layout=layout)


def _layout_by_dims(other: Callable[[str], Layout | None]) -> Callable[[StoredEntry], Layout | None]:
    """The layout of an entry with dims, which tell parts of torch from others; by `other` from its key without dims."""

    def layout(entry: StoredEntry) -> Layout | None:
        if entry.dims is None:
            return other(entry.key)
        path = entry.dims[0].removesuffix(".0") if entry.dims else ""
        inside_torch = entry.key.endswith(path) and entry.dims == tuple(f"{path}.{i}" for i in range(len(entry.dims)))
        return "torch" if inside_torch else "rfnb"

    return layout


def _layout_by_module(state: Mapping[str, object], file: object) -> Callable[[str], Layout | None]:
    """The layout of the module that an entry of a state dict belongs to, which torch keeps beside the tensors.

    file: the dict around the state dict, if there is one.
    """
    modules = getattr(state, "_metadata", None)
    if isinstance(file, dict) and "returnn_version" in file:
        return lambda _: "as it is"
    if not isinstance(modules, dict):
        return lambda _: None

    def layout(key: str) -> Layout:
        path = key.rpartition(".")[0]
        while path and path not in modules:
            path = path.rpartition(".")[0]
        facts = modules.get(path)
        return "rfnb" if isinstance(facts, dict) and VERSION in facts else "torch"

    return layout


def _place(tensor: torch.Tensor) -> object:
    """The memory of a tensor. Two names with the same memory, as tied parameters have in torch, are one entry."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _raw(value: object) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    return value.raw_tensor.detach() if isinstance(value, Tensor) else torch.tensor(np.asarray(value))


def _flat(tensors: object, name: str) -> dict[str, object]:
    """The state dict, which many programs store under a key beside other values."""
    for state in (tensors, *(tensors.get(key) for key in _PLACES if isinstance(tensors, dict))):
        if isinstance(state, dict) and all(_is_entry(key, value) for key, value in state.items()):
            return state
    keys = ", ".join(map(repr, list(tensors)[:8])) if isinstance(tensors, dict) else None
    raise CheckpointError(
        f"{public_function()}: {name} contains no state dict",
        got=type(tensors).__name__ if keys is None else f"a dict with {keys}",
        expected=f"tensors by name, possibly under the key {', '.join(map(repr, _PLACES))}",
        hint="rf.load(loaded['…'], module) loads from the dict itself",
    )


_PLACES = ("model", "state_dict", "model_state_dict")


def _is_entry(key: object, value: object) -> bool:
    return isinstance(key, str) and (isinstance(value, torch.Tensor | Tensor | np.ndarray | np.generic))


def _is_of_torch(start: bytes) -> bool:
    """Whether a file was saved by torch, by its first bytes: a zip file, or a plain pickle as in older versions.

    A safetensors file begins with a length of 8 bytes, followed by JSON.
    """
    return start[:2] in (b"PK", b"\x80\x02") and start[8:] != b"{"


_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in {"I": "int", "U": "uint", "C": "complex"}.items()
    for bits in (8, 16, 32, 64)
}


# -- a file that users open


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

    def __exit__(self, *error: object) -> None:
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
