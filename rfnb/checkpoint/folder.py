"""Checkpoints in a folder, as in Hugging Face: one file, or several files with an index, and a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError

_INDEX = ".index.json"
_NAMES = ("model.safetensors", f"model.safetensors{_INDEX}", "pytorch_model.bin", f"pytorch_model.bin{_INDEX}")


def checkpoint_in(path: Path) -> Path:
    """The checkpoint file or index in a folder, if there is one; otherwise the path itself."""
    files = (path / name for name in _NAMES if path.is_dir())
    return next((file for file in files if file.is_file()), path)


def shards(path: Path) -> dict[Path, list[str]] | None:
    """The files that an index lists, and the names of the entries in each; None if this is not an index."""
    if not path.name.endswith(_INDEX):
        return None
    table = _json(path).get("weight_map")
    if not isinstance(table, dict) or not all(
        isinstance(file, str) and Path(file).name == file for file in table.values()
    ):
        expected = '"weight_map": {"name": "file", …}'
        raise CheckpointError(f"{public_function()}: {path} is not an index of a checkpoint", expected=expected)
    files: dict[Path, list[str]] = {}
    for name, file in table.items():
        files.setdefault(path.parent / file, []).append(name)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        tail = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise CheckpointError(f"{public_function()}: files of {path} are missing", got=", ".join(missing[:3]) + tail)
    return files


def config_of(path: Path) -> dict[str, Any]:
    """The Hugging Face config beside a checkpoint; empty if there is none."""
    file = checkpoint_in(path).parent / "config.json"
    config = _json(file) if file.is_file() else {}
    return config if "model_type" in config else {}


def beside(path: Path) -> str | None:
    """A hint that lists the checkpoints in the folder instead."""
    folder = path if path.is_dir() else path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(file.name for file in folder.iterdir() if file.suffix in (".safetensors", ".pt"))[:5]
    return f"in that folder: {', '.join(names)}" if names else None


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{public_function()}: {path} cannot be read", got=error) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{public_function()}: {path} cannot be read", got=type(content).__name__, expected="a dict"
        )
    return content
