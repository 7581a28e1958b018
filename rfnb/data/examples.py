"""Files that examples read: configs of net dicts."""

from __future__ import annotations

from pathlib import Path

from rfnb.core.tensor.op import guarded
from rfnb.errors import DataError

__all__ = ["path"]
__dir__ = __all__.copy  # what is offered for completion: no imports

FOLDER = Path(__file__).parent / "configs"


@guarded
def path(name: str) -> Path:
    """The path of a file that examples read.

    Args:
        name: of the file: `blstm_hybrid.config`, a hybrid acoustic model, or `g2p_attention.config`, an attention model
            from letters to phonemes.

    Raises DataError for another name.

    >>> rf.examples.path("blstm_hybrid.config").name
    'blstm_hybrid.config'
    """
    names = sorted(file.name for file in FOLDER.iterdir())
    if name not in names:
        raise DataError(f"unknown example file {name!r}", expected=", ".join(names))
    return FOLDER / name
