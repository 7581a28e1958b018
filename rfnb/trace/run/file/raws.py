"""Writes and reads the tensors of a file; those of one series are stacked, or concatenated if their shapes differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.errors import RunFileError
from rfnb.trace.run.file.fields import count, get, list_of


class RawWriter:
    """Collects the tensors of a file under keys, and writes the file."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}

    def add(self, raws: Sequence[Any]) -> dict[str, Any]:
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

    def array(self, array: np.ndarray) -> str:
        """Adds a numpy array; returns its key."""
        import torch

        return self._keep(torch.from_numpy(np.ascontiguousarray(array)))

    def _keep(self, joined: Any) -> str:
        key = str(len(self.tensors))
        self.tensors[key] = joined.contiguous()
        return key

    def write(self, path: Path, metadata: dict[str, str]) -> None:
        """Writes the file."""
        from safetensors.torch import save_file

        save_file(self.tensors, path, metadata)


class RawReader:
    """The tensors and metadata of a file, which is read completely and can then be deleted."""

    def __init__(self, path: Path):
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            self.metadata: dict[str, str] = file.metadata() or {}
            self.tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118

    def tensor(self, key: object) -> Any:
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

    def parts(self, where: Any, dtype: str) -> Sequence[Any]:
        """The tensors given to `add`, in the stored one. Raises RunFileError if the dtype or shapes do not fit."""
        import torch

        joined = self.tensor(get(where, "key", str))
        if dtype.startswith("complex"):
            joined = torch.view_as_complex(joined if "shapes" not in where else joined.reshape(-1, 2))
        if str(joined.dtype) != f"torch.{dtype}":
            raise RunFileError("a tensor in the file has the wrong dtype", got=joined.dtype, expected=dtype)
        if "shapes" not in where:
            shape = list_of(where, "shape", int)
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


def stacked(raws: Sequence[Any]) -> Any:
    """Tensors of one shape as one tensor on the host, with a first axis for them."""
    import torch

    if any(raw.requires_grad or not raw.is_cpu for raw in raws):
        raws = [_on_host(raw) for raw in raws]
    return torch.stack(list(raws)).resolve_conj().resolve_neg()


def memory_of(raw: Any) -> tuple[Any, ...]:
    """Where the numbers of a tensor are, and how they are read: the same for the same numbers, while it exists."""
    form = raw.dtype, raw.shape, raw.stride(), raw.is_conj(), raw.is_neg()
    return raw.device, raw.data_ptr(), *form


def _on_host(raw: Any) -> Any:
    return raw.detach().cpu().resolve_conj().resolve_neg()


def _as_real(raw: Any) -> Any:
    import torch

    return torch.view_as_real(raw) if raw.is_complex() else raw


def _entries(shape: object) -> int:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise RunFileError("a shape in the file is not valid")
    return math.prod(shape)
