"""Loading the parameters of a module from safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from rfnb.checkpoint.mapping import Stored, match
from rfnb.checkpoint.report import LoadReport
from rfnb.errors import CheckpointError
from rfnb.nn.module import Module


def load_checkpoint(module: Module, path: str | os.PathLike[str], *, strict: bool = True) -> LoadReport:
    """Sets the parameters to those in a safetensors file. Gives what was loaded.

    Names and shapes are compared first; if something does not fit, the module stays as it was.

    Args:
        strict: every parameter has to be in the file, and the other way round; a wrong shape never fits.

    Raises CheckpointError if the file cannot be read, or does not fit.
    """
    path = Path(path)
    parameters = dict(module.named_parameters())
    with _opened(path) as file:
        matched = match(parameters, _entries(file))
        if complaints := matched.complaints(strict=strict):
            raise CheckpointError(
                f"load_checkpoint: {path.name} does not fit {type(module).__name__}",
                got=("\n" + " " * 12).join(complaints),
                hint=None if matched.misshaped else "strict=False loads what fits",
            )
        tensors = {name: file.get_tensor(name) for name in matched.fitting}
    for name, parameter in matched.fitting.items():
        with torch.no_grad():
            parameter.raw_tensor.copy_(tensors[name])
    return LoadReport(str(path), tuple(matched.fitting), tuple(matched.missing), tuple(matched.unexpected))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise CheckpointError(f"load_checkpoint: there is no file {path}", hint=_beside(path))
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"load_checkpoint: {path} cannot be read",
            got=f"{path.stat().st_size} bytes: {error}",
            expected="a complete safetensors file",
        ) from error


def _entries(file: Any) -> dict[str, Stored]:
    dims = json.loads((file.metadata() or {}).get("dims", "{}"))
    return {name: _stored(file.get_slice(name), dims.get(name)) for name in file.keys()}  # noqa: SIM118


def _stored(entry: Any, dims: str | None) -> Stored:
    return Stored(tuple(entry.get_shape()), _DTYPES.get(entry.get_dtype(), entry.get_dtype()), dims)


_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in {"I": "int", "U": "uint", "C": "complex"}.items()
    for bits in (8, 16, 32, 64)
}


def _beside(path: Path) -> str | None:
    """What is there instead."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    found = sorted(file.name for file in path.parent.glob("*.safetensors"))[:5]
    return f"in that folder: {', '.join(found)}" if found else None
