"""Sequence models in a notebook: tensors that know their dims by name, loops that can be stepped forward and back.

The names of `rf` stand in the files `public.py` of the folders. Those of dims, tensors and ops are imported at once,
those of the other folders when one of them is first asked for.
"""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from rfnb.core.ground.gc_pause import not_searched as _not_searched

with _not_searched():
    import rfnb.nn.bridge.symbolic as _symbolic  # sizes where torch traces
    from rfnb.core.ground.source import follow_cells as _follow_cells
    from rfnb.core.ground.suggestions import no_name as _no_name
    from rfnb.display.register import register_views as _register_views
    from rfnb.ops.public import *

if _TYPE_CHECKING:
    from rfnb.checkpoint.public import *
    from rfnb.display.public import *
    from rfnb.loop.public import *
    from rfnb.nn.public import *
    from rfnb.trace.public import *

__version__ = "0.1.0"

_LATER = "nn trace loop checkpoint display".split()
_FOLDERS = {"backend", "core", "ops", *_LATER}

_register_views()
_follow_cells()


def _import_names(folder: str) -> None:
    """Its names are names of `rf` from now on; one that somebody set before stays."""
    with _not_searched():
        public = _importlib.import_module(f"rfnb.{folder}.public")
    for name, value in vars(public).items():
        if name[0] != "_":
            globals().setdefault(name, value)


if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name that is imported later; of one that there is not: what is meant."""
        if name == "__all__":  # of `from rfnb import *`
            return [each for each in __dir__() if each[0] != "_"]
        for folder in () if name.startswith("_") else _LATER:
            _import_names(folder)
            if name in globals():
                return globals()[name]
        raise _no_name(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    """What is offered for completion: no folders."""
    for folder in _LATER:
        _import_names(folder)
    return [name for name in globals() if name not in _FOLDERS and (name[0] != "_" or name[:2] == "__")]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]
