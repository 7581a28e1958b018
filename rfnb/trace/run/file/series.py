"""A state or a value over the steps of a run: collected step by step, written as one tensor, and read again.

Also the statistics of a tensor, without padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import EMPTY, Lengths
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import RunFileError
from rfnb.printable import terminal_text
from rfnb.trace.run.entries import frames, numbers
from rfnb.trace.run.file.fields import chosen, count, get
from rfnb.trace.run.file.store import Reader, Writer, stacked


class Statistics(NamedTuple):
    """The number of entries; minimum, mean, maximum and standard deviation of the finite ones; NaN and Inf counts."""

    entries: int
    min: float
    mean: float
    max: float
    std: float
    nan: int
    inf: int

    def words(self) -> str:
        """The statistics as text: "12 entries, -1 … 3, μ 0.2, σ 1.1, 2 NaN"."""
        parts = [f"{int(self.entries):,} entries"]
        parts += [f"{self.min:.4g} … {self.max:.4g}, μ {self.mean:.4g}, σ {self.std:.4g}"] if self.entries else []
        return ", ".join([*parts, *(f"{int(n):,} {name}" for n, name in ((self.nan, "NaN"), (self.inf, "Inf")) if n)])


TOGETHER = 2**12
"""Largest number of entries of tensors whose statistics are computed together."""

FETCHED, PART = 2**22, 2**16
"""Number of entries that are copied together, which bounds the memory, and that are looked at together, which fit into
the cache of a processor."""


def statistics(tensor: Tensor) -> Statistics:
    """Computes the statistics of a tensor without padding; complex numbers by their absolute values."""
    return reduce(_together, (_part(entries) for entries in _parts(tensor)), NOTHING)


def _parts(tensor: Tensor) -> Iterator[np.ndarray]:
    raw, real = tensor._raw, frames(tensor)
    backend = backend_of_raw(raw)
    if real.all():
        flat = backend.reshape_raw(raw, [math.prod(backend.get_shape_tuple_raw(raw))])
        arrays = map(backend.to_numpy_raw, (flat[i : i + FETCHED] for i in range(0, flat.shape[0], FETCHED)))
    else:
        entries = numbers(tensor)
        arrays = map(np.asarray, [entries[np.broadcast_to(real, entries.shape)]])
    for entries in arrays:
        yield from (entries[i : i + PART] for i in range(0, entries.size, PART))


def _part(entries: np.ndarray) -> Statistics:
    values = np.abs(entries) if entries.dtype.kind == "c" else entries.astype(np.float64)
    low, high = values.min(), values.max()
    if math.isfinite(low) and math.isfinite(high):  # else there is NaN or Inf, or both
        finite, nan = values, 0
    else:
        finite, nan = values[np.isfinite(values)], int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    if not finite.size:
        return Statistics(values.size, np.nan, np.nan, np.nan, np.nan, nan, inf)
    mean = finite.mean()
    away = finite - mean
    std = math.sqrt(np.square(away, out=away).mean())  # no dot product, whose threads would wait for each other
    return Statistics(values.size, float(finite.min()), float(mean), float(finite.max()), std, nan, inf)


def statistics_table(values: Sequence[Tensor | float]) -> np.ndarray:
    """The statistics of tensors of one dtype, a row each: of small ones with the same shape together; or of numbers."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not tensors:
        return _rows(np.array(values, np.float64)[:, None])
    head = tensors[0]
    entries = math.prod(head._raw.shape)
    is_small = len(tensors) > 1 and 0 < entries <= TOGETHER and not head.dtype.startswith("complex")
    if not is_small or any(tensor.lengths.ragged or tensor._raw.shape != head._raw.shape for tensor in tensors):
        return np.array([statistics(tensor) for tensor in tensors], np.float64)
    stack = stacked([tensor._raw for tensor in tensors])
    return _rows(backend_of_raw(stack).to_numpy_raw(stack).reshape(len(tensors), entries).astype(np.float64))


def _rows(values: np.ndarray) -> np.ndarray:
    """The statistics of each row."""
    finite, entries = np.isfinite(values).all(axis=1), values.shape[1]
    table = np.zeros((len(values), len(Statistics._fields)))
    for at in np.flatnonzero(~finite):
        table[at] = _part(values[at])
    values = values[finite]
    mean = values.mean(axis=1)
    std = np.sqrt(np.square(values - mean[:, None]).mean(axis=1))
    table[finite, :5] = np.stack([np.full(len(mean), entries), values.min(axis=1), mean, values.max(axis=1), std], 1)
    return table


NOTHING = Statistics(0, math.nan, math.nan, math.nan, math.nan, 0, 0)
"""The statistics of a tensor without entries."""


def _together(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of all entries of both (Chan, Golub, LeVeque 1979: Updating formulae for sample variances)."""
    n, m = (part.entries - part.nan - part.inf for part in (a, b))
    if n == 0 or m == 0:
        low, mean, high, std = (b if n == 0 else a)[1:5]
    else:
        low, high, away, share = min(a.min, b.min), max(a.max, b.max), b.mean - a.mean, m / (n + m)
        mean = a.mean + away * share
        std = math.sqrt((n * a.std**2 + m * b.std**2) / (n + m) + away**2 * share * (1 - share))
    return Statistics(a.entries + b.entries, low, mean, high, std, a.nan + b.nan, a.inf + b.inf)


PENDING, MANY = 2**18, 1024
"""Bytes and number of tensors whose statistics are computed together."""


@dataclass(eq=False)
class Series:
    """The values of one line of the body, at the steps in which it ran.

    steps: maps each step to its place in the lists. raws: tensors or numbers; of a file, also one
    tensor that has them all; None if they were too large to keep.
    """

    name: str
    op: str
    line: int
    sig: Sig
    dtype: str
    steps: dict[int, int] = field(default_factory=dict)
    lengths: list[Lengths] = field(default_factory=list)
    raws: list[RawTensor] | RawTensor | None = field(default_factory=list)
    bytes: int = 0
    _tables: list[np.ndarray] = field(default_factory=list)
    _pending: list[Tensor | float] = field(default_factory=list)  # without statistics yet
    _pending_bytes: int = 0

    @classmethod
    def like(cls, value: Tensor | float, name: str, op: str = "", line: int = 0) -> Series:
        """An empty series for values with the dims and dtype of this one."""
        return cls(name, op, line, *form_of(value))

    def add(self, step: int, tensor: Tensor | float) -> int:
        """Adds the value of a step; returns its size in bytes."""
        self.steps[step] = len(self.steps)
        self.lengths.append(tensor.lengths if isinstance(tensor, Tensor) else EMPTY)
        if not isinstance(tensor, Tensor):
            n_bytes = 1 if type(tensor) is bool else 8
            self._pending.append(tensor)
            if self.raws is not None:
                self.raws.append(tensor)
        elif isinstance(tensor, AbsentTensor):
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
        if isinstance(self.raws, list):
            return [tuple(raw.shape) for raw in self.raws]
        return [tuple(self.raws.shape[1:])] * len(self.raws)

    def tensor(self, step: int) -> Tensor:
        """The value at a step. Raises KeyError if there is none."""
        return self.at(self.steps[step])

    def at(self, at: int) -> Tensor:
        """The value at a place."""
        tensor = AbsentTensor(self, at) if self.raws is None else tensor_of(self.raws[at], self.sig, self.lengths[at])
        tensor.name = self.name
        return tensor

    # -- in the file

    def write(self, file: Writer, every_step: int) -> dict[str, object]:
        """The series as JSON; the tensors are added to the file."""
        lengths = [file.of(self.sig.dims, entry) for entry in self.lengths]
        is_whole = len(self.steps) == every_step and [*self.steps] == [*range(every_step)]
        return {
            "name": self.name,
            "op": self.op,
            "line": self.line,
            "dims": [file.dim(dim) for dim in self.sig.dims],
            "sparse": file.dim(self.sig.sparse_dim),
            "feature": file.dim(self.sig.feature_dim),
            "dtype": self.dtype,
            "steps": None if is_whole else [*self.steps],
            "lengths": lengths[:1] if len(set(lengths)) == 1 else lengths,
            "statistics": file.numbers(self.statistics),
            "bytes": self.bytes,
            "tensor": None if self.raws is None else file.add(self.raws),
        }

    @classmethod
    def read(cls, data: Mapping[str, object], file: Reader, every_step: int) -> Series:
        """Reads the series from JSON. Raises RunFileError if its parts do not fit together."""
        axes = [file.dim(number) for number in get(data, "dims", list)]
        sig = align.sig(axes, file.dim_or_none(data.get("sparse")), file.dim_or_none(data.get("feature")))
        steps = list(range(every_step)) if data.get("steps") is None else get(data, "steps", list[int])
        series = cls(get(data, "name", str), get(data, "op", str), count(data, "line"), sig, get(data, "dtype", str))
        numbers = file.numbers(get(data, "statistics", str), len(Statistics._fields))
        lengths = [chosen(file.lengths, number, "lengths") for number in get(data, "lengths", list)]
        series.steps = {step: at for at, step in enumerate(steps)}
        series._tables, series.bytes = [numbers], count(data, "bytes", 2**62)
        series.lengths = lengths * len(steps) if len(lengths) == 1 else lengths
        series.raws = None if data.get("tensor") is None else file.parts(get(data, "tensor", dict), series.dtype)
        counts = {len(steps), len(numbers), len(series.lengths), len(numbers if series.raws is None else series.raws)}
        if len(counts) > 1 or len(set(steps)) < len(steps) or len(set(axes)) < len(axes):
            raise RunFileError(f"the parts of {series.name} in the file do not fit together")
        for entry, shape in set(zip(series.lengths, series.shapes, strict=False)):
            file.check(axes, entry, shape)
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
    def _raw(self) -> RawTensor:
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
