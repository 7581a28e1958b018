"""Facts about each parameter of a module of rfnb or torch, with bounded work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from rfnb.core.ground.text import count_of, cut
from rfnb.core.tensor.parameter import Parameter
from rfnb.display.kit import options
from rfnb.display.kit.degrade import Notes
from rfnb.display.kit.dims import describe_dim
from rfnb.display.markup.numbers import plain
from rfnb.display.markup.schema import Number
from rfnb.display.module.schema import ParamRow
from rfnb.nn.module.module import Module


def children_of(module: Any) -> list[tuple[str, Any]]:
    """The direct submodules; one that occurs twice is listed twice."""
    if isinstance(module, Module):
        return [(name, part) for name, part in vars(module).items() if isinstance(part, Module)]
    return [(name, part) for name, part in module._modules.items() if part is not None]


def parameters_of(module: Any) -> Iterator[tuple[str, Any, bool]]:
    """The parameters of the module itself, and whether each is a buffer."""
    if isinstance(module, Module):
        for name, part in vars(module).items():
            if isinstance(part, Parameter):
                yield name, part, part.auxiliary
        return
    for buffers, table in ((False, module._parameters), (True, module._buffers)):
        for name, part in table.items():
            if part is not None:
                yield name, part, buffers


Moments = tuple[Number | None, Number | None, Number | None]
"""Norm, mean and standard deviation."""


class ModuleRows:
    """Collects rows of parameters, and notes on what was left out."""

    def __init__(self) -> None:
        self.rows: list[ParamRow] = []
        self.notes = Notes()
        self._paths: dict[int, str] = {}  # of those that are there, by id
        self._left = options.MODULE_ENTRIES
        self._skipped = 0

    def add(self, path: str, parameter: Any, *, buffer: bool) -> int:
        """Adds a parameter; returns its number."""
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
        values = self._moments(path, raw, count) if small else (None, None, None)
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
            "weight_decay": getattr(parameter, "weight_decay", None) or None,
            "norm": values[0],
            "mean": values[1],
            "std": values[2],
            "grad": self._moments(f"gradient of {path}", grad, count)[0] if small and grad is not None else None,
        }

    def _moments(self, what: str, raw: Any, count: int) -> Moments:
        if count > self._left:
            self._skipped += 1
            return None, None, None
        self._left -= count
        unknown: Moments = (None, None, None)
        return self.notes.attempt(f"norm of {what}", lambda: moments(raw), unknown)

    def note(self) -> str | None:
        """Notes on what was left out, in one line."""
        if self._skipped:
            self.notes.add(f"no norms of {count_of(self._skipped, 'large tensor')}")
            self._skipped = 0
        return self.notes.text()


def moments(raw: Any) -> Moments:
    """Norm, mean and standard deviation, computed on the device of the numbers; None for integers."""
    if not hasattr(raw, "detach"):
        array = np.asarray(raw)
        if array.dtype.kind != "f":
            return None, None, None
        norm, mean = (float(x) for x in (np.linalg.norm(array.astype(np.float64)), array.mean()))
        return _moments(norm, mean, array.size)
    if not raw.is_floating_point():
        return None, None, None
    raw = raw.detach()
    raw = raw.float() if raw.element_size() < 4 else raw
    return _moments(float(raw.norm()), float(raw.mean()), raw.numel())


def _moments(norm: float, mean: float, count: int) -> Moments:
    """Norm, mean and standard deviation, the last from the first two."""
    spread = math.sqrt(max(norm**2 / count - mean**2, 0.0)) if count and math.isfinite(norm) else math.nan
    return plain(norm), plain(mean), plain(spread)


def _has_no_shape(raw: Any) -> bool:
    """Whether a parameter belongs to a lazy module that was not called yet."""
    return hasattr(raw, "materialize") or not hasattr(raw, "shape")


WORDS = str | int | float | bool | None


def settings_of(module: Any) -> list[str]:
    """ "activation=silu", "heads=4": short attributes that are neither modules nor tensors."""
    return [
        f"{name}={word}"
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and (word := _word(value)) is not None
    ]


def _word(value: Any) -> str | None:
    if isinstance(value, WORDS):
        return cut(str(value), 40)
    return getattr(value, "__name__", None) if callable(value) else None
