"""What is to be said of each parameter of a module, of rfnb's or of torch's, with bounded work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.core.parameter import Parameter
from rfnb.core.words import count_of
from rfnb.display import options
from rfnb.display.attempt import Notes
from rfnb.display.dims.dims import describe_dim
from rfnb.display.numbers import plain
from rfnb.display.schema import Number, ParamRow
from rfnb.nn.module import Module


def children_of(module: Any) -> list[tuple[str, Any]]:
    """The modules right below; one that occurs twice is here twice."""
    if isinstance(module, Module):
        return [(name, part) for name, part in vars(module).items() if isinstance(part, Module)]
    return [(name, part) for name, part in module._modules.items() if part is not None]


def parameters_of(module: Any) -> Iterator[tuple[str, Any, bool]]:
    """Its own parameters, and whether each is rather a buffer."""
    if isinstance(module, Module):
        for name, part in vars(module).items():
            if isinstance(part, Parameter):
                yield name, part, part.auxiliary
        return
    for buffers, table in ((False, module._parameters), (True, module._buffers)):
        for name, part in table.items():
            if part is not None:
                yield name, part, buffers


class Rows:
    """Collects the rows. `notes` says what was left out."""

    def __init__(self) -> None:
        self.rows: list[ParamRow] = []
        self.notes = Notes()
        self._paths: dict[int, str] = {}  # of those that are there, by id
        self._left = options.MODULE_ENTRIES
        self._skipped = 0

    def add(self, path: str, parameter: Any, *, buffer: bool) -> int:
        """One more; its number."""
        shared = self._paths.setdefault(id(parameter), path)
        self.rows.append(self._row(path, parameter, buffer, None if shared == path else shared))
        return len(self.rows) - 1

    def _row(self, path: str, parameter: Any, buffer: bool, shared: str | None) -> ParamRow:
        of_rfnb = isinstance(parameter, Parameter)
        raw = parameter.raw_tensor if of_rfnb else parameter
        shape = [] if _has_no_shape(raw) else [int(n) for n in raw.shape]
        count = 0 if _has_no_shape(raw) else math.prod(shape)
        small = not _has_no_shape(raw) and not getattr(raw, "is_meta", False) and shared is None
        grad = getattr(raw, "grad", None) if getattr(raw, "is_leaf", False) else None
        return {
            "path": path,
            "dims": [describe_dim(dim, parameter.lengths) for dim in parameter.dims] if of_rfnb else [],
            "shape": None if of_rfnb or _has_no_shape(raw) else shape,
            "dtype": str(parameter.dtype).removeprefix("torch."),
            "device": str(getattr(raw, "device", "cpu")),
            "count": count,
            "bytes": int(getattr(raw, "nbytes", 0)) if count else 0,
            "trainable": bool(parameter.trainable if of_rfnb else parameter.requires_grad),
            "buffer": buffer,
            "shared": shared,
            "norm": self._norm(path, raw, count) if small else None,
            "grad": self._norm(f"gradient of {path}", grad, count) if small and grad is not None else None,
        }

    def _norm(self, what: str, raw: Any, count: int) -> Number | None:
        if count > self._left:
            self._skipped += 1
            return None
        self._left -= count
        return self.notes.attempt(f"norm of {what}", lambda: norm(raw), None)

    def note(self) -> str | None:
        """What was left out, in one line."""
        if self._skipped:
            self.notes.add(f"no norms of {count_of(self._skipped, 'large tensor')}")
            self._skipped = 0
        return self.notes.text()


def norm(raw: Any) -> Number | None:
    """The square root of the sum of squares, computed where the numbers are. None for labels and the like."""
    if not hasattr(raw, "detach"):
        array = np.asarray(raw)
        return _number(np.linalg.norm(array.astype(np.float64))) if array.dtype.kind == "f" else None
    if not raw.is_floating_point():
        return None
    raw = raw.detach()
    return _number((raw.float() if raw.element_size() < 4 else raw).norm())


def _number(value: Any) -> Number:
    return plain(float(value))  # type: ignore[return-value]


def _has_no_shape(raw: Any) -> bool:
    """Of a lazy module, before its first call."""
    return hasattr(raw, "materialize") or not hasattr(raw, "shape")
