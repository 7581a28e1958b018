"""The files of a checkpoint of TensorFlow: from its prefix, one of its files, or the folder that it is in."""

from __future__ import annotations

import re
from pathlib import Path

from rfnb.checkpoint.bundle.table import MAGIC
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError

_STATE = "checkpoint"
"""The text file in a folder that names its newest checkpoint."""
_LARGEST_STATE = 1_000_000
_CONVERT = (
    "where TensorFlow is installed: load it there, and save it with "
    "tf.compat.v1.train.Saver(write_version=tf.compat.v1.train.SaverDef.V2)"
)


def index_of(path: Path) -> Path | None:
    """The `.index` of the checkpoint that a path means; None if it means none of TensorFlow.

    path: the prefix `model/network.040`, a file of the checkpoint, or a folder with a file `checkpoint`.
    Raises CheckpointError for a checkpoint of version 1, or if files are missing.
    """
    if path.is_dir():
        return _newest(path) if (path / _STATE).is_file() else None
    name = re.sub(r"\.data-\d{5}-of-\d{5}$|\.index$|\.meta$", "", path.name)
    if path.name == _STATE and _is_state(path):
        return _newest(path.parent)
    index = path.with_name(f"{name}.index")
    if index.is_file():
        return index if name != path.name or not path.is_file() else None
    if name != path.name:
        raise CheckpointError(f"{public_function()}: {index} is missing", hint=_beside(path.parent))
    if _is_of_version_1(path):
        fault = f"{public_function()}: {path} is a checkpoint of TensorFlow's version 1"
        raise CheckpointError(fault, expected=f"version 2: {path.name}.index and {path.name}.data-…", hint=_CONVERT)
    return None


def _newest(folder: Path) -> Path:
    """The checkpoint that the file `checkpoint` names, in the same folder, wherever it was written."""
    state = folder / _STATE
    if state.stat().st_size > _LARGEST_STATE:
        raise CheckpointError(f"{public_function()}: {state} is not a list of checkpoints", got="more than a megabyte")
    text = state.read_text(encoding="utf-8", errors="replace")
    named = re.search(r'^\s*model_checkpoint_path\s*:\s*"((?:[^"\\]|\\.)*)"', text, re.MULTILINE)
    if named is None:
        expected = 'a line model_checkpoint_path: "…"'
        raise CheckpointError(
            f"{public_function()}: {state} names no checkpoint", got=repr(text[:80]), expected=expected
        )
    index = folder / f"{named[1].replace(chr(92), '').rpartition('/')[2]}.index"
    if not index.is_file():
        raise CheckpointError(
            f"{public_function()}: {index} is missing",
            expected=f"the checkpoint that {state} names",
            hint=_beside(folder),
        )
    return index


def _is_state(path: Path) -> bool:
    with path.open("rb") as file:
        return b"model_checkpoint_path" in file.read(1000)


def _is_of_version_1(path: Path) -> bool:
    parts = [path] if path.is_file() else sorted(path.parent.glob(f"{_literal(path.name)}-?????-of-?????"))
    for part in parts[:1]:
        with part.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - len(MAGIC), 0))
            return file.read() == MAGIC
    return False


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _beside(folder: Path) -> str | None:
    names = sorted(file.stem for file in folder.glob("*.index"))[:5] if folder.is_dir() else []
    return f"in that folder: {', '.join(names)}" if names else None
