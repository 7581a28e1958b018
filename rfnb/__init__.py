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
    from rfnb.public_names import FOLDERS as _FOLDERS

if _TYPE_CHECKING:
    from rfnb.checkpoint.public import *
    from rfnb.display.public import *
    from rfnb.loop.public import *
    from rfnb.nn.public import *
    from rfnb.trace.public import *

__version__ = "0.1.0"

_register_views()
_follow_cells()


def _import_names(folder: str) -> None:
    """Makes the public names of a folder names of `rf`; one that the user has set before is kept."""
    with _not_searched():
        public = _importlib.import_module(f"rfnb.{folder}.public")
    for name, value in vars(public).items():
        if name[0] != "_":
            globals().setdefault(name, value)


if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name that is imported when first asked for. Raises AttributeError, which names ours, for others."""
        if name == "__all__":  # of `from rfnb import *`
            return [each for each in __dir__() if each[0] != "_"]
        if name in _FOLDERS:
            _import_names(_FOLDERS[name])
        if name in globals():
            return globals()[name]
        raise _no_name(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    """The names offered for completion: all public names, and those that the user has set; no folders."""
    own = [name for name in globals() if f"rfnb.{name}" not in _sys.modules and (name[0] != "_" or name[:2] == "__")]
    return list(dict.fromkeys([*_FOLDERS, *own]))


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]
