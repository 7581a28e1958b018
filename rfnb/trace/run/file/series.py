"""A state or a value over the steps of a run: collected step by step, written as one tensor, and read again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import EMPTY, Lengths
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import RunFileError
from rfnb.printable import terminal_text
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import chosen, count, get, list_of
from rfnb.trace.run.file.raws import RawReader, RawWriter
from rfnb.trace.run.file.statistics import Statistics, statistics_table

PENDING, MANY = 2**18, 1024
"""Bytes and number of tensors whose statistics are computed together."""


@dataclass(eq=False)
class Series:
    """The values of one line of the body, at the steps in which it ran.

    steps: maps each step to its place in the lists. raws: None if the values were too large to keep.
    """

    name: str
    op: str
    line: int
    sig: Sig
    dtype: str
    steps: dict[int, int] = field(default_factory=dict)
    lengths: list[Lengths] = field(default_factory=list)
    raws: Any = field(default_factory=list)  # also numbers; of a file, also one tensor that has them all
    bytes: int = 0
    _tables: list[np.ndarray] = field(default_factory=list)
    _pending: list[Any] = field(default_factory=list)  # without statistics yet
    _pending_bytes: int = 0

    @classmethod
    def like(cls, value: Tensor | float, name: str, op: str = "", line: int = 0) -> Series:
        """An empty series for values with the dims and dtype of this one."""
        return cls(name, op, line, *form_of(value))

    def add(self, step: int, tensor: Tensor | float) -> int:
        """Adds the value of a step; returns its size in bytes."""
        self.steps[step] = len(self.steps)
        if not isinstance(tensor, Tensor):
            self.lengths.append(EMPTY)
            self._pending.append(tensor)
            if self.raws is not None:
                self.raws.append(tensor)
            n_bytes = 1 if type(tensor) is bool else 8
            self.bytes += n_bytes
            return n_bytes
        self.lengths.append(tensor.lengths)
        if isinstance(tensor, AbsentTensor):
            self._look()
            self._tables.append(np.array([tensor.statistics]))
            self.raws, n_bytes = None, tensor.bytes
        else:
            backend = backend_of_raw(tensor._raw)
            n_bytes = backend.nbytes_raw(tensor._raw)
            if self.raws is not None:
                needs_gradient = backend.needs_gradient_raw(tensor._raw)
                self.raws.append(backend.alias_raw(tensor._raw) if needs_gradient else tensor._raw)
            self._pending.append(tensor)
            self._pending_bytes += n_bytes
            if self._pending_bytes > PENDING or len(self._pending) == MANY:
                self._look()
        self.bytes += n_bytes
        return n_bytes

    @property
    def statistics(self) -> np.ndarray:
        """A row of `Statistics` for each step."""
        self._look()
        if len(self._tables) > 1:
            self._tables = [np.concatenate(self._tables)]
        return self._tables[0]

    def _look(self) -> None:
        """Computes the statistics that are pending."""
        if self._pending:
            self._tables.append(statistics_table(self._pending))
            self._pending, self._pending_bytes = [], 0

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each tensor that is there."""
        if self.raws is None:
            return []
        is_list = isinstance(self.raws, list)
        return [tuple(raw.shape) for raw in self.raws] if is_list else [tuple(self.raws.shape[1:])] * len(self.raws)

    def tensor(self, step: int) -> Tensor:
        """The value at a step. Raises KeyError if there is none."""
        return self.at(self.steps[step])

    def at(self, at: int) -> Tensor:
        """The value at a place."""
        tensor = AbsentTensor(self, at) if self.raws is None else tensor_of(self.raws[at], self.sig, self.lengths[at])
        tensor.name = self.name
        return tensor

    # -- in the file

    def write(self, dims: DimWriter, raws: RawWriter, every_step: int) -> dict[str, Any]:
        """The series as JSON; the tensors are added to `raws`."""
        lengths = [dims.of(self.sig.dims, entry) for entry in self.lengths]
        is_whole = len(self.steps) == every_step and [*self.steps] == [*range(every_step)]
        return {
            "name": self.name,
            "op": self.op,
            "line": self.line,
            "dims": [dims.dim(dim) for dim in self.sig.dims],
            "sparse": dims.dim(self.sig.sparse_dim),
            "feature": dims.dim(self.sig.feature_dim),
            "dtype": self.dtype,
            "steps": None if is_whole else [*self.steps],
            "lengths": lengths[:1] if len(set(lengths)) == 1 else lengths,
            "statistics": raws.numbers(self.statistics),
            "bytes": self.bytes,
            "tensor": None if self.raws is None else raws.add(self.raws),
        }

    @classmethod
    def read(cls, data: Any, dims: DimReader, raws: RawReader, every_step: int) -> Series:
        """Reads the series from JSON. Raises RunFileError if its parts do not fit together."""
        axes = [dims.dim(number) for number in get(data, "dims", list)]
        sig = align.sig(axes, dims.dim_or_none(data.get("sparse")), dims.dim_or_none(data.get("feature")))
        steps = list(range(every_step)) if data.get("steps") is None else list_of(data, "steps", int)
        series = cls(get(data, "name", str), get(data, "op", str), count(data, "line"), sig, get(data, "dtype", str))
        numbers = raws.numbers(get(data, "statistics", str), len(Statistics._fields))
        lengths = [chosen(dims.lengths, number, "lengths") for number in get(data, "lengths", list)]
        series.steps = {step: at for at, step in enumerate(steps)}
        series._tables, series.bytes = [numbers], count(data, "bytes", 2**62)
        series.lengths = lengths * len(steps) if len(lengths) == 1 else lengths
        series.raws = None if data.get("tensor") is None else raws.parts(data["tensor"], series.dtype)
        counts = {len(steps), len(numbers), len(series.lengths), len(numbers if series.raws is None else series.raws)}
        if len(counts) > 1 or len(set(steps)) < len(steps) or len(set(axes)) < len(axes):
            raise RunFileError(f"the parts of {series.name} in the file do not fit together")
        for entry, shape in set(zip(series.lengths, series.shapes, strict=False)):
            dims.check(axes, entry, shape)
        return series


def form_of(value: Tensor | float) -> tuple[Sig, str]:
    """The dims and the dtype of a tensor or number."""
    if isinstance(value, Tensor):
        return value.sig, value.dtype
    return align.EMPTY_SIG, _DTYPES[type(value)]


_DTYPES: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}


class AbsentTensor(Tensor):
    """A tensor whose numbers are not in the file; its dims, dtype and statistics are known."""

    __slots__ = ("bytes", "dtype_name", "statistics")

    def __init__(self, series: Series, at: int):
        self.sig, self.lengths = series.sig, series.lengths[at]
        self.dtype_name, self.statistics = series.dtype, Statistics(*series.statistics[at].tolist())
        self.bytes = series.bytes // max(len(series.steps), 1)

    @property
    def _raw(self) -> Any:
        raise RunFileError(
            f"{self.name} is not in the file; only statistics are: {self.statistics.words()}",
            hint="run.save(path, limit=…) keeps more; or loaded.rerun(fn) computes it again",
        )

    @property
    def dtype(self) -> str:
        """The dtype of the value in the run."""
        return self.dtype_name

    def __repr__(self) -> str:
        tensor = f"Tensor{{{self.name!r}, {self.describe_dims()}, {self.dtype}}}"
        return terminal_text(f"{tensor} not in the file: {self.statistics.words()}")
