"""Sequence models in a notebook: tensors that know their dims by name, loops that can be stepped forward and back.

The calls to begin with, by task, each with the page that explains it:

look
    rf.show(x)                               a tensor, array, nested structure, dim, module or run  docs/views.md
    rf.show(model, x)                        the graph of this call, folded by module               docs/views.md
    rf.show_attention(weights)               attention weights: layers × heads × rows × columns     docs/views.md
    rf.capture(model, attention=True)        the attention weights, while the model is called       docs/views.md
    rf.show_dims()                           the dims of your variables, conflicts first            docs/views.md
step
    rf.steps(range(9), name="decoder")       a plain loop: each iteration is a step of a run        docs/loops.md
    rf.record_loops()                        all plain loops of your code inside of a with block    docs/loops.md
    rf.pause_when(rf.when.not_finite("h"))   holds a running cell at the first such step            docs/debugging.md
    rf.runs["name"]                          the newest recorded run of a loop                      docs/loops.md
    rf.stepper(run)                          steps through it below the cell, forward and back      docs/install.md
    run.find(rf.when.over(5, "h"))           the steps at which |h| is above 5                      docs/loops.md
    run.fork(3, h=0.0)                       continues from step 3 with another state               docs/loops.md
    rf.compare(run, fork)                    the first value that differs between two runs          docs/loops.md
search
    rf.search.decode(step, state, beam=4)    a beam search of your model, with all that was tried   docs/search.md
    rf.search.from_generate(out, tokenizer)  the search of Hugging Face's generate                  docs/search.md
    found.tree[0].where("a dog barks")       where a reference was lost, by search or by model      docs/search.md
loop
    rf.convert_to_tensor(data, dims=[…])     a Tensor with named dims, from lists or an array       docs/from_pytorch.md
    rf.Loop(axis=time)                       a loop over sequences, written as one step             docs/loops.md
    rf.cond(condition, yes, no)              one of two branches, chosen at each step               docs/loops.md
    loop.explain()                           which ops run once, for all steps, or in each step     docs/loops.md
check
    rf.check.batch_invariance(model, x)      whether padding changes the result of a sequence       docs/errors.md
    rf.check.finite(model, x)                the op and step that made the first NaN or Inf         docs/errors.md
train
    rf.progress(batches)                     a progress bar and live curves                         docs/training.md
    rf.probe(decode, every=200)              what the model does, again and again while it learns   docs/debugging.md
    rf.gradient_norms(model)                 gradients by parameter: NaN, Inf, zero or missing      docs/training.md
    rf.launch(train, 3, num_processes=2)     a function of the notebook, in several processes       docs/distributed.md
save
    rf.save(model, "model.safetensors")      dims, parameters and config of a model                 docs/checkpoints.md
    rf.load("model.safetensors", model)      puts them into a model, and reports what matched       docs/checkpoints.md
    run.save("run.html")                     a page to step through; "run.rfrun" for rf.load_run    docs/loops.md
net
    rf.Network.from_config(path)             a net dict of RETURNN, to draw, check and train        docs/net_dicts.md
    rf.examples.path("blstm_hybrid.config")  the files of the examples                              docs/net_dicts.md
"""

# The public names are listed in the files `public.py` of the folders. Those of dims, tensors and ops are imported at
# once, those of the other folders when one of them is first asked for: `public_names` says which folder has which.

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from rfnb.core.ground.scope import not_searched as _not_searched

with _not_searched():
    import rfnb.nn.bridge.symbolic as _symbolic  # sizes where torch traces
    from rfnb.core.ground.source import follow_cells as _follow_cells
    from rfnb.core.ground.text import no_name as _no_name
    from rfnb.display.register import connect_notebook as _connect_notebook
    from rfnb.module_paths import PATHS as _PATHS, register_paths as _register_paths
    from rfnb.ops.public import *
    from rfnb.public_names import FOLDERS as _FOLDERS

if _TYPE_CHECKING:
    from rfnb.checkpoint.public import *
    from rfnb.data.public import *
    from rfnb.display.public import *
    from rfnb.jobs.public import *
    from rfnb.loop.public import *
    from rfnb.netdict.code.public import *
    from rfnb.netdict.public import *
    from rfnb.nn.public import *
    from rfnb.trace.public import *

__version__ = "0.1.0"

_connect_notebook()
_follow_cells()
_register_paths()


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
        if name in _PATHS:  # a module that has no file
            return _sys.modules[f"rfnb.{name}"]
        raise _no_name(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    """The names offered for completion: all public names, and those that the user has set; no folders."""
    own = [name for name in globals() if f"rfnb.{name}" not in _sys.modules and (name[0] != "_" or name[:2] == "__")]
    return list(dict.fromkeys([*_FOLDERS, *own]))


def _repr_mimebundle_(include: object = None, exclude: object = None) -> dict[str, object]:
    """What a bare `rf` shows as the result of a cell: the calls of the docstring above."""
    from rfnb.display.kit.view import View
    from rfnb.display.overview import describe

    return View(describe(__doc__ or ""))._repr_mimebundle_()


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]
