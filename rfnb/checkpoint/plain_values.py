"""Nested plain values as JSON, including dims, tensors and bytes, and back: data only, no code."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError, RunFileError
from rfnb.trace.run.file.dims import DimReader, DimWriter

Tensors = dict[str, torch.Tensor]


class Writer:
    """Writes values as JSON, and collects the tensors among them by name, and the dims in a table.

    tensors: the dict that receives the tensors; None if tensors are not allowed.
    """

    def __init__(self, tensors: Tensors | None = None):
        self.tensors = tensors
        self.dims = DimWriter()

    def json(self, values: Mapping[str, Any], prefix: str = "") -> str:
        """The values as JSON. prefix: put before their names, in messages and in the names of tensors.

        Raises CheckpointError if there is anything but plain data.
        """
        try:
            plain = {name: self._plain(value, f"{prefix}{name}") for name, value in values.items()}
            return json.dumps({"values": plain, **self.dims.json()})
        except RecursionError:
            raise CheckpointError(f"save: {', '.join(values)}: nested too deeply, or a value contains itself") from None

    def _plain(self, value: Any, name: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, dict):
            return self._dict(value, name)
        if isinstance(value, list | tuple):
            items = [self._plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple": items}
        if isinstance(value, Dim):
            return {"$dim": self.dims.dim(value)}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, np.generic):
            return self._plain(value.item(), name)
        if self.tensors is not None and isinstance(value, torch.Tensor | np.ndarray):
            self.tensors[name] = torch.as_tensor(value)
            return {"$tensor" if isinstance(value, torch.Tensor) else "$array": name}
        raise CheckpointError(
            f"save: {name} is not plain data",
            got=f"{type(value).__module__}.{type(value).__qualname__}",
            expected=f"numbers, strings, dims{'' if self.tensors is None else ', tensors'}; lists and dicts of these",
            hint="rf.build_dict(cls, …) describes a module or a function" if callable(value) else None,
        )

    def _dict(self, value: Mapping[Any, Any], name: str) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self._plain(item, f"{name}.{key}") for key, item in value.items()}
        pairs = value.items()
        return {"$dict": [[self._plain(key, f"a key of {name}"), self._plain(v, f"{name}.{key}")] for key, v in pairs]}


def read(text: str, name: str, tensor: Callable[[str], torch.Tensor] | None = None) -> dict[str, Any]:
    """The values that were written to `text`. Raises CheckpointError if it cannot be read.

    name: what the text is, for the message. tensor: a function that returns a collected tensor by its name.
    """
    try:
        data = json.loads(text)
        dims = DimReader(data)
        return {key: _value(value, dims, tensor) for key, value in data["values"].items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, RunFileError) as error:
        raise CheckpointError(f"{public_function()}: {name} in the file cannot be read", got=error) from error


def _value(data: Any, dims: DimReader, tensor: Callable[[str], torch.Tensor] | None) -> Any:
    def all_of(items: Iterable[Any]) -> list[Any]:
        return [_value(item, dims, tensor) for item in items]

    if isinstance(data, list):
        return all_of(data)
    if not isinstance(data, dict):
        return data
    kind: str
    content: Any
    kind, content = next(iter(data.items()), ("", None))
    if kind == "$tuple":
        return tuple(all_of(content))
    if kind == "$dict":
        return {_value(key, dims, tensor): _value(item, dims, tensor) for key, item in content}
    if kind == "$dim":
        return dims.dim(content)
    if kind == "$bytes":
        return base64.b64decode(content, validate=True)
    if kind in ("$tensor", "$array") and tensor is not None:
        return tensor(content) if kind == "$tensor" else tensor(content).numpy()
    if kind.startswith("$"):
        raise ValueError(f"unknown kind of value: {kind}")
    return {key: _value(item, dims, tensor) for key, item in data.items()}
