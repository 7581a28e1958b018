"""Sequence models in a notebook: tensors that know their dims by name, loops that can be stepped forward and back.

The calls to begin with, by task:

look
  rf.show(x)                          a tensor, array, dict, module or run, with true lengths   docs/views.md
  rf.show(model, x)                   the graph of one call of a model, also of plain PyTorch   docs/views.md
  rf.show_attention(weights)          attention weights, with labels on both axes               docs/views.md
  rf.capture(model)                   the attention weights of every call inside a `with`       docs/views.md
  rf.show_dims(x, y)                  the dims of tensors, conflicts first                      docs/views.md
loop
  rf.Dim(None, name="time")           a dim; None: its lengths come with the data               docs/from_pytorch.md
  rf.convert_to_tensor(data, dims=…)  a tensor from lists or arrays, with lengths and tags      docs/from_pytorch.md
  rf.Linear(in_dim, out_dim)          a module; there are many more                             docs/models.md
  rf.Loop(axis=time)                  a loop whose body is written as the maths reads           docs/loops.md
step
  rf.runs["sum"]                      the recorded run of a loop                                docs/loops.md
  rf.stepper(run)                     the stepper below a cell; in JupyterLab the panel Loops   docs/loops.md
  rf.watch(x)                         prints a value of the body at each step                   docs/loops.md
  rf.when.over(5, "total")            a condition for run.find, such as NaN or a change         docs/loops.md
  rf.compare(run, other)              the first value in which two runs differ                  docs/loops.md
check
  rf.check.batch_invariance(f, x)     the first op whose result depends on padding              docs/errors.md
  rf.check.finite(f)                  the op and step that made the first NaN                   docs/errors.md
  rf.gradient_norms(model)            parameters without a gradient, or with NaN in it          docs/training.md
save
  rf.save(model, path)                a checkpoint; rf.load reads it                            docs/checkpoints.md
  rf.load_run(path)                   a run that run.save has written                           docs/loops.md
  rf.to_torch(model)                  a torch.nn.Module with the same parameters                docs/from_pytorch.md
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
    from rfnb.public_names import FOLDER_OF as _FOLDER_OF

if _TYPE_CHECKING:
    from rfnb.checkpoint.public import *
    from rfnb.display.public import *
    from rfnb.loop.public import *
    from rfnb.nn.public import *
    from rfnb.trace.public import *

__version__ = "0.1.0"

_FOLDERS = {"backend", "core", "ops", "public_names", *_FOLDER_OF.values()}

_register_views()
_follow_cells()


if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports the folder that has the name; the error for an unknown name suggests what to write instead."""
        if name == "__all__":  # of `from rfnb import *`
            return [each for each in __dir__() if each[0] != "_"]
        folder = _FOLDER_OF.get(name)
        if folder is None:
            raise _no_name(_sys.modules[__name__], name)
        with _not_searched():
            public = _importlib.import_module(f"rfnb.{folder}.public")
        for each, value in vars(public).items():
            if each[0] != "_":
                globals().setdefault(each, value)  # a name that the user has set stays
        return globals()[name]


def __dir__() -> list[str]:
    """The names that completion offers: no folders, and nothing is imported for it."""
    shown = [name for name in globals() if name not in _FOLDERS and (name[0] != "_" or name[:2] == "__")]
    return sorted({*shown, *_FOLDER_OF})


def _repr_mimebundle_(include: object = None, exclude: object = None) -> dict[str, str]:
    """What a notebook shows for `rf` as the result of a cell: the calls to begin with."""
    from rfnb.display import start

    return {"text/plain": __doc__, "text/html": start.to_html(__doc__)}


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]
