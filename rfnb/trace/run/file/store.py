"""Files of JSON and tensors: of runs, searches and shots of probes. They are read as untrusted data.

The tensors of one series are stacked, or concatenated if their shapes differ.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.ground.hook import Hook
from rfnb.core.tensor.tensor import RawTensor
from rfnb.errors import RunFileError
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import count, get, reading

Content = TypeVar("Content")

write_found: Hook[[Any], tuple[object, dict[str, np.ndarray]]] = Hook(
    "trace.run.file.store.write_found", by="search.register"
)
"""What a search found, as JSON and arrays."""

read_found: Hook[[Any, dict[str, np.ndarray]], object] = Hook("trace.run.file.store.read_found", by="search.register")
"""What a search found, from JSON and arrays, which are untrusted."""


def versions() -> dict[str, str]:
    """The versions of rfnb, torch and Python."""
    modules = {name: str(getattr(sys.modules.get(name), "__version__", "0")) for name in ("rfnb", "torch")}
    return {**modules, "python": platform.python_version()}


def saved(path: Path, write: Callable[[Path], object]) -> Path:
    """The path of a file that `write` has written. Raises RunFileError if it cannot."""
    if not path.parent.is_dir():
        raise RunFileError(f"save: the folder {path.parent} does not exist", hint=f'os.makedirs("{path.parent}")')
    from safetensors import SafetensorError

    try:
        write(path)
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error, RunFileError) from error
    return path


def loaded(path: str | os.PathLike[str], caller: str, expected: str, read: Callable[[Path], Content]) -> Content:
    """What `read` reads from a file. Raises RunFileError if the file does not exist, or is damaged."""
    path = Path(path)
    if not os.path.isfile(path):  # noqa: PTH113, no OSError for names that no file can have
        state = "is a folder" if os.path.isdir(path) else "does not exist"  # noqa: PTH112
        raise RunFileError(f"{caller}: {path} {state}", hint=_beside(path))
    with reading(f"{caller}: {path} cannot be read", expected):
        return read(path)


def _beside(path: Path) -> str | None:
    """A hint with the files of the same kind in the same folder."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    names = sorted(file.name for file in path.parent.glob(f"*{path.suffix or '.rf*'}"))[:5]
    return f"in that folder: {', '.join(names)}" if names else None


class TensorWriter:
    """Collects the tensors of a file under keys, and writes the file."""

    def __init__(self) -> None:
        self.tensors: dict[str, RawTensor] = {}

    def add(self, raws: Sequence[RawTensor]) -> dict[str, object]:
        """Adds tensors of one dtype, or numbers; returns the key and shapes to find them by."""
        import torch

        if not raws:
            return {"key": self._keep(torch.zeros(0)), "shape": [], "count": 0}
        if isinstance(raws[0], bool | int | float):
            return {"key": self.array(np.array(raws)), "shape": [], "count": len(raws)}
        if len({raw.shape for raw in raws}) == 1:
            return {"key": self._keep(_as_real(stacked(raws))), "shape": list(raws[0].shape), "count": len(raws)}
        joined = torch.cat([_as_real(_on_host(raw)).reshape(-1) for raw in raws])
        return {"key": self._keep(joined), "shapes": [list(raw.shape) for raw in raws]}

    def numbers(self, rows: np.ndarray) -> str:
        """Adds a table of numbers; returns its key."""
        return self.array(rows.astype(np.float64))

    def array(self, array: np.ndarray, key: str | None = None) -> str:
        """Adds a numpy array; returns its key."""
        import torch

        return self._keep(torch.from_numpy(np.ascontiguousarray(array)), key)

    def _keep(self, joined: RawTensor, key: str | None = None) -> str:
        key = str(len(self.tensors)) if key is None else key
        self.tensors[key] = joined.contiguous()
        return key

    def write(self, path: Path, key: str, data: dict[str, object]) -> None:
        """Writes the file, with the JSON under this key of its metadata."""
        from safetensors.torch import save_file

        with replacing(path) as unfinished:
            save_file(self.tensors, unfinished, {key: json.dumps(data)})


class TensorReader:
    """The JSON and the tensors of a file, which is read completely and can then be deleted.

    Args:
        path: the file.
        key: of the JSON in the metadata.
        lack: what is said about a file without it.
        newest: the newest format that can be read.
    """

    def __init__(self, path: Path, key: str, lack: str, newest: int):
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            self.tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        if key not in metadata:
            raise RunFileError(lack)
        self.data: Any = json.loads(metadata[key])
        self.format: int = check_format(self.data, newest)

    def tensor(self, key: object) -> RawTensor:
        """The tensor with this key. Raises RunFileError if it is missing."""
        if not isinstance(key, str) or key not in self.tensors:
            raise RunFileError("the file refers to a missing tensor", got=repr(key)[:40])
        return self.tensors[key]

    def array(self, key: object) -> np.ndarray:
        """The numpy array with this key."""
        array: np.ndarray = self.tensor(key).numpy()
        return array

    def numbers(self, key: object, columns: int) -> np.ndarray:
        """Reads a table of numbers with so many columns."""
        table = self.array(key)
        if table.dtype != np.float64 or table.ndim != 2 or (len(table) and table.shape[1] != columns):
            raise RunFileError("a table of numbers in the file has the wrong dtype or shape")
        return table

    def parts(self, where: Mapping[str, object], dtype: str) -> Sequence[RawTensor]:
        """The tensors given to `add`, in the stored one. Raises RunFileError if the dtype or shapes do not fit."""
        import torch

        joined = self.tensor(get(where, "key", str))
        if dtype.startswith("complex"):
            joined = torch.view_as_complex(joined if "shapes" not in where else joined.reshape(-1, 2))
        if str(joined.dtype) != f"torch.{dtype}":
            raise RunFileError("a tensor in the file has the wrong dtype", got=joined.dtype, expected=dtype)
        if "shapes" not in where:
            shape = get(where, "shape", list[int])
            if list(joined.shape) != [count(where, "count"), *shape]:
                raise RunFileError("a tensor in the file has the wrong shape", got=list(joined.shape), expected=shape)
            return joined
        shapes = get(where, "shapes", list)
        sizes = [_entries(shape) for shape in shapes]
        if sum(sizes) != joined.numel():
            raise RunFileError(
                "tensors in the file have the wrong number of entries", got=joined.numel(), expected=sum(sizes)
            )
        return [part.reshape(shape) for part, shape in zip(joined.reshape(-1).split(sizes), shapes, strict=True)]


class Writer(TensorWriter, DimWriter):
    """Collects the tensors and the dims of a file."""

    def __init__(self) -> None:
        TensorWriter.__init__(self)
        DimWriter.__init__(self)

    def write(self, path: Path, key: str, data: dict[str, object]) -> None:
        """Writes the file, also with the tables of dims."""
        super().write(path, key, {**data, **self.json()})


class Reader(TensorReader, DimReader):
    """The JSON, the tensors and the dims of a file."""

    def __init__(self, path: Path, key: str, lack: str, newest: int):
        TensorReader.__init__(self, path, key, lack, newest)
        DimReader.__init__(self, self.data)


def check_format(data: object, newest: int, subject: str = "the file") -> int:
    """The number of the format. Raises RunFileError for that of another version of rfnb."""
    form = data.get("format") if isinstance(data, dict) else None
    if type(form) is not int or not 1 <= form <= newest:
        expected = "format 1" if newest == 1 else f"format 1 to {newest}"
        raise RunFileError(
            f"{subject} was written by another version of rfnb", got=f"format {form!r}"[:40], expected=expected
        )
    return form


def stacked(raws: Sequence[RawTensor]) -> RawTensor:
    """Tensors of one shape as one tensor on the host, with a first axis for them."""
    import torch

    if any(raw.requires_grad or not raw.is_cpu for raw in raws):
        raws = [_on_host(raw) for raw in raws]
    return torch.stack(list(raws)).resolve_conj().resolve_neg()


def memory_of(raw: RawTensor) -> tuple[object, ...]:
    """Where the numbers of a tensor are, and how they are read: the same for the same numbers, while it exists."""
    form = raw.dtype, raw.shape, raw.stride(), raw.is_conj(), raw.is_neg()
    return raw.device, raw.data_ptr(), *form


def _on_host(raw: RawTensor) -> RawTensor:
    return raw.detach().cpu().resolve_conj().resolve_neg()


def _as_real(raw: RawTensor) -> RawTensor:
    import torch

    return torch.view_as_real(raw) if raw.is_complex() else raw


def _entries(shape: object) -> int:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise RunFileError("a shape in the file is not valid")
    return math.prod(shape)
