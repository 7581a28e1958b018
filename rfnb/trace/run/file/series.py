"""A state or a value over the steps of a run: collected step by step, written as one tensor, and read again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import RunFileError
from rfnb.printable import terminal_text
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import chosen, count, get, list_of
from rfnb.trace.run.file.raws import RawReader, RawWriter
from rfnb.trace.run.file.statistics import Statistics, statistics

if TYPE_CHECKING:
    from rfnb.core.dims.lengths import Lengths


@dataclass
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
    statistics: list[Statistics] = field(default_factory=list)
    raws: list[Any] | None = field(default_factory=list)
    bytes: int = 0

    @classmethod
    def like(cls, tensor: Tensor, name: str, op: str = "", line: int = 0) -> Series:
        """An empty series with the dims and dtype of `tensor`."""
        return cls(name, op, line, tensor.sig, tensor.dtype)

    def add(self, step: int, tensor: Tensor) -> int:
        """Adds the value of a step; returns its size in bytes."""
        self.steps[step] = len(self.steps)
        self.lengths.append(tensor.lengths)
        if isinstance(tensor, AbsentTensor):
            self.statistics.append(tensor.statistics)
            self.raws, n_bytes = None, tensor.bytes
        else:
            self.statistics.append(statistics(tensor))
            backend = backend_of_raw(tensor._raw)
            n_bytes = backend.nbytes_raw(tensor._raw)
            if self.raws is not None:
                self.raws.append(backend.alias_raw(tensor._raw))
        self.bytes += n_bytes
        return n_bytes

    def tensor(self, step: int) -> Tensor:
        """The value at a step. Raises KeyError if there is none."""
        at = self.steps[step]
        tensor = AbsentTensor(self, at) if self.raws is None else tensor_of(self.raws[at], self.sig, self.lengths[at])
        tensor.name = self.name
        return tensor

    # -- in the file

    def write(self, dims: DimWriter, raws: RawWriter, every_step: int) -> dict[str, Any]:
        """The series as JSON; the tensors are added to `raws`."""
        lengths = [dims.of(self.sig.dims, each) for each in self.lengths]
        return {
            "name": self.name,
            "op": self.op,
            "line": self.line,
            "dims": [dims.dim(dim) for dim in self.sig.dims],
            "sparse": dims.dim(self.sig.sparse_dim),
            "feature": dims.dim(self.sig.feature_dim),
            "dtype": self.dtype,
            "steps": None if [*self.steps] == [*range(every_step)] else [*self.steps],
            "lengths": lengths[:1] if len(set(lengths)) == 1 else lengths,
            "statistics": raws.numbers(self.statistics),
            "bytes": self.bytes,
            "tensor": None if self.raws is None else raws.add(self.raws),
        }

    @classmethod
    def read(cls, data: Any, dims: DimReader, raws: RawReader, every_step: int) -> Series:
        """Reads the series from JSON. Raises RunFileError if its parts do not fit together."""
        own = [dims.dim(number) for number in get(data, "dims", list)]
        sig = align.sig(own, dims.dim_or_none(data.get("sparse")), dims.dim_or_none(data.get("feature")))
        steps = list(range(every_step)) if data.get("steps") is None else list_of(data, "steps", int)
        series = cls(get(data, "name", str), get(data, "op", str), count(data, "line"), sig, get(data, "dtype", str))
        numbers = raws.numbers(get(data, "statistics", str), Statistics)
        lengths = [chosen(dims.lengths, number, "lengths") for number in get(data, "lengths", list)]
        series.steps = {step: at for at, step in enumerate(steps)}
        series.statistics, series.bytes = numbers, count(data, "bytes", 2**62)
        series.lengths = lengths * len(steps) if len(lengths) == 1 else lengths
        series.raws = None if data.get("tensor") is None else raws.parts(data["tensor"], series.dtype)
        known = {len(steps), len(numbers), len(series.lengths), len(numbers if series.raws is None else series.raws)}
        if len(known) > 1 or len(set(steps)) < len(steps) or len(set(own)) < len(own):
            raise RunFileError(f"the parts of {series.name} in the file do not fit together")
        for raw, each in zip(series.raws or (), series.lengths, strict=False):
            dims.check(own, each, backend_of_raw(raw).get_shape_tuple_raw(raw))
        return series


class AbsentTensor(Tensor):
    """A tensor whose numbers are not in the file; its dims, dtype and statistics are known."""

    __slots__ = ("bytes", "dtype_name", "statistics")

    def __init__(self, series: Series, at: int):
        self.sig, self.lengths = series.sig, series.lengths[at]
        self.dtype_name, self.statistics = series.dtype, series.statistics[at]
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
