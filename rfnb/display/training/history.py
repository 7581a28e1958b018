"""Reported measures by step. Tensors are read later and in groups, because each read synchronizes with the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

from rfnb.backend.base.tape import untaped
from rfnb.core.run_ctx import Loss
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.markup.grid import Table
from rfnb.display.training.curve import BinnedCurve
from rfnb.errors import ViewError
from rfnb.ops.reduce import reduce_mean

UNREAD = 256
"""Largest number of unread values."""


class History:
    """Rows `{"step": 3, "loss": 0.2}`, and a curve for each measure."""

    def __init__(self) -> None:
        self.curves: dict[str, BinnedCurve] = {}
        self._rows: list[dict[str, Any]] = []
        self._unread: list[tuple[dict[str, Any], str]] = []

    def report(self, where: Mapping[str, int], measures: Mapping[str, Any]) -> None:
        """Reports measures at `{"step": 3}`. The last report of a measure at a step counts."""
        values = {name: _kept(name, value) for name, value in measures.items()}
        if not self._rows or any(self._rows[-1].get(name) != number for name, number in where.items()):
            self._rows.append(dict(where))
        row = self._rows[-1]
        self._unread += [(row, name) for name in values if name not in row]
        row.update(values)
        if len(self._unread) > UNREAD:
            self.read(before=row)

    def read(self, before: object = None) -> None:
        """Reads waiting tensors into the curves; an incomplete last row may stay."""
        ready = [(row, name) for row, name in self._unread if row is not before]
        for (row, name), value in zip(ready, _read([row[name] for row, name in ready]), strict=True):
            row[name] = value
            self.curves.setdefault(name, BinnedCurve()).add(row["step"], value)
        self._unread = [(row, name) for row, name in self._unread if row is before]

    def rows(self) -> list[dict[str, float]]:
        """All rows, as plain numbers."""
        values = iter(_read([value for row in self._rows for value in row.values()]))
        return [{name: next(values) for name in row} for row in self._rows]

    def table(self) -> Table:
        """A row for each step with a report."""
        rows = self.rows()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return Table(columns, [[row.get(name) for name in columns] for row in rows])


def _kept(name: str, value: Any) -> Any:
    """A number, or a tensor to be read later, without its autograd graph."""
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Loss):
        return replace(value, loss=_detached(value.loss))
    if isinstance(value, Tensor):
        return _detached(value)
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", None)
    if size != 1:
        got = type(value).__name__ if size is None else f"{type(value).__name__} of {size} numbers"
        raise ViewError(
            f"report: {name!r} is not one number", got=got, expected="a number, or a Tensor: its mean counts"
        )
    return value.detach().reshape(()) if hasattr(value, "detach") else float(value.reshape(()))


def _detached(value: Tensor) -> Tensor:
    raw = value.raw_tensor
    return value.like(raw.detach()) if hasattr(raw, "detach") else value


def _read(values: Iterable[Any]) -> list[Any]:
    """Values as numbers. Raw tensors of one device and dtype are read together."""
    with untaped():
        values = [_mean(value) if isinstance(value, Tensor | Loss) else value for value in values]
    groups: dict[Any, list[int]] = {}
    for i, value in enumerate(values):
        if hasattr(value, "detach"):
            groups.setdefault((value.device, value.dtype), []).append(i)
    for places in groups.values():
        import torch

        for i, number in zip(places, torch.stack([values[i] for i in places]).tolist(), strict=True):
            values[i] = number
    return [number if isinstance(number, int) else float(number) for number in values]


def _mean(value: Tensor | Loss) -> Any:
    """The mean over all valid entries, as a raw tensor."""
    if isinstance(value, Loss):
        return value.get_mean_loss().raw_tensor
    return (reduce_mean(value, axis=value.dims) if value.dims else value).raw_tensor
