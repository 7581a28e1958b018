"""The modules that models import, each with the names of rfnb that it gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

from rfnb.as_returnn import config, outside_frontend
from rfnb.errors import ReturnnError
from rfnb.module_paths import PATHS, FrontendModule, NamesOnly, register

PACKAGE = "returnn"

FRONTEND = """
    _backend amp array_ audio audio.mel audio.specaugment backend build_from_dict cond const container control_flow_ctx
    conv device dims dropout dtype gradient graph hooks init label_smoothing linear loop loss masked math_ matmul nested
    normalization parameter parametrizations parametrize piecewise_linear rand rec reduce signal static_traceable
    stepwise_scheduler types
""".split()
"""Modules below `returnn.frontend`, besides those that `rf` has as well. Each gives all names of `rf`."""

OTHERS = {
    "returnn": "",
    "returnn.datasets": "",
    "returnn.datasets.util": "",
    "returnn.datasets.util.vocabulary": "Vocabulary=Vocab",
    "returnn.tensor": "Dim Tensor TensorDict batch_dim single_step_dim",
    "returnn.tensor.dim": "Dim batch_dim single_step_dim",
    "returnn.tensor.tensor": "Tensor",
    "returnn.tensor.tensor_dict": "TensorDict",
    "returnn.torch": "",
    "returnn.torch.frontend": "",
    "returnn.torch.frontend.bridge": "rf_module_to_pt_module",
    "returnn.torch.util": "",
    "returnn.torch.util.gradient_checkpoint": "gradient_checkpoint_scope",
    "returnn.util": "",
    "returnn.util.collect_outputs_dict": "CollectOutputsDict",
}
"""The other modules, and the names of `rf` that they give; "Vocabulary=Vocab" is called `Vocab` in `rf`."""

OUTSIDE_FRONTEND = {
    "returnn.forward_iface": "ForwardCallbackIface",
    "returnn.log": "log",
    "returnn.util.basic": "BehaviorVersion NotSpecified get_login_username prod",
    "returnn.util.math": "PiecewiseLinear ceil_div",
}
"""Modules that give names of `outside_frontend`."""

INSIDE_FRONTEND = {
    "": "RawTensorTypes",
    "_backend": "RawTensorTypes global_backend",
    "array_": "RawTensorTypes global_backend",
    "attention": "_apply_rope",
    "build_from_dict": "_get_cls",
    "const": "RawTensorTypes global_backend",
    "decoder.transformer": "ceil_div",
    "dims": "global_backend",
    "gradient": "global_backend",
    "loop": "global_backend",
    "tensor_array": "global_backend",
    "types": "RawTensorTypes",
}
"""Modules below `returnn.frontend` that give names of `outside_frontend` as well."""


def install() -> None:
    """Registers the modules. Raises ReturnnError if the package is imported already."""
    there = sys.modules.get(PACKAGE)
    if isinstance(there, NamesOnly):
        return
    if there is not None:
        raise ReturnnError(
            "rfnb.as_returnn: the package `returnn` is already imported",
            got=getattr(there, "__file__", None) or there,
            expected="a process that has not imported it: its tensors are of other classes",
            hint="import rfnb.as_returnn first, before the model's files",
        )
    register(_modules())
    sys.meta_path.insert(0, _NothingElse())


def _modules() -> Iterator[NamesOnly]:
    for name, listed in OTHERS.items():
        pairs = (entry.partition("=") for entry in listed.split())
        yield NamesOnly(name, {there: here or there for there, _, here in pairs})
    for name, listed in OUTSIDE_FRONTEND.items():
        yield NamesOnly(name, {entry: entry for entry in listed.split()}, outside_frontend.__name__)
    yield NamesOnly(f"{PACKAGE}.config", {name: name for name in config.__all__}, config.__name__)
    for path in ("", *PATHS, *FRONTEND):
        module = FrontendModule(f"{PACKAGE}.frontend", path)
        vars(module).update({name: getattr(outside_frontend, name) for name in INSIDE_FRONTEND.get(path, "").split()})
        yield module


class _NothingElse(MetaPathFinder):
    """Answers imports of what is not registered: of modules, and of names, for which Python asks here last."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """None for other packages. Raises ReturnnError, which suggests a similar name."""
        if name.partition(".")[0] != PACKAGE:
            return None
        parent, _, last = name.rpartition(".")
        try:
            raise ReturnnError(f"{name}: cannot be imported", got=getattr(sys.modules[parent], last))
        except AttributeError as missing:
            raise ReturnnError(str(missing)) from None
