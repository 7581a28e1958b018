"""Results of functions as JSON and tensors: text, numbers, tensors, and dicts and lists of them; others as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from rfnb.core.ground.nested import named_parts
from rfnb.core.ground.raw import BACKENDS
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RunFileError
from rfnb.printable import visible
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import get, of_type
from rfnb.trace.run.file.raws import RawReader, RawWriter
from rfnb.trace.run.file.series import Series

LONGEST = 100_000
"""Longest text, in characters."""
DEEPEST = 20


def write_result(value: Any, dims: DimWriter, raws: RawWriter, depth: int = 0) -> dict[str, Any]:
    """The result as JSON `{"kind": content}`; tensors are added to `raws`."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return {"value": value}
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, str):
        return {"text": value[:LONGEST]}
    if isinstance(value, Tensor) and value.raw_tensor is not None:
        series = Series.like(value, value.name or "")
        series.add(0, value)
        return {"tensor": series.write(dims, raws, 1)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": raws.array(value)}
    if isinstance(value, tuple(BACKENDS)) and not (
        isinstance(value, np.ndarray) or getattr(value, "is_quantized", False)
    ):
        raw: Any = value
        with suppress(Exception):  # of sparse, nested and quantized tensors, and those without data, the text is kept
            return {"raw": raws.add([raw]), "dtype": str(raw.dtype).removeprefix("torch.")}
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif not isinstance(value, list | tuple):  # a namespace, or an object of a class of attrs
        value = dict(named_parts(value) or ()) or value
    if isinstance(value, dict) and depth < DEEPEST:
        return {
            "dict": [[str(key)[:LONGEST], write_result(part, dims, raws, depth + 1)] for key, part in value.items()]
        }
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return {"list": [write_result(part, dims, raws, depth + 1) for part in value]}
    return {"text": visible(repr(value))[:LONGEST]}


def read_result(data: Any, dims: DimReader, raws: RawReader) -> Any:
    """The result; tuples are lists. Raises RunFileError for anything that `write_result` does not write."""
    kind = next(iter(of_type(data, dict, "result")), None)
    if kind not in READERS:
        raise RunFileError("the file has a result of an unknown kind", got=repr(kind)[:40])
    return READERS[kind](data, dims, raws)


def _number(data: Any, *_: Any) -> float:
    word = get(data, "number", str)
    if word not in ("nan", "inf", "-inf"):
        raise RunFileError("the file has a number that is none", got=word[:40])
    return float(word)


def _text(value: Any) -> str:
    """A text as it is; views escape it."""
    if not isinstance(value, str):
        raise RunFileError("a text in the file is none", got=type(value).__name__)
    return value


def _dict(data: Any, dims: DimReader, raws: RawReader) -> dict[str, Any]:
    return {_text(key): read_result(part, dims, raws) for key, part in get(data, "dict", list)}


READERS: dict[str, Callable[[Any, DimReader, RawReader], Any]] = {
    "value": lambda data, dims, raws: (
        data["value"] is True
        or (data["value"] is not False and of_type(data["value"], (int, float, type(None)), "value"))
    ),
    "number": _number,
    "text": lambda data, dims, raws: _text(data["text"]),
    "tensor": lambda data, dims, raws: Series.read(data["tensor"], dims, raws, 1).tensor(0),
    "array": lambda data, dims, raws: raws.array(data["array"]),
    "raw": lambda data, dims, raws: raws.parts(data["raw"], get(data, "dtype", str))[0],
    "dict": _dict,
    "list": lambda data, dims, raws: [read_result(part, dims, raws) for part in get(data, "list", list)],
}
"""By kind, what reads it."""
