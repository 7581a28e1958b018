"""Trained weights of networks: `rf.load` by the names of variables, and what a config wants to be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.checkpoint.entries import Checkpoint, StoredEntry
from rfnb.checkpoint.load import RESTORE, load
from rfnb.checkpoint.mapping import Choice
from rfnb.checkpoint.report import LoadReport
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError
from rfnb.netdict.layer import Layer
from rfnb.netdict.network import Network
from rfnb.netdict.variables import Import, Model, Restored, RestoreOptions

OPTIONS = {
    "filename": None,
    "prefix": "",
    "init_for_train": False,
    "ignore_missing": False,
    "ignore_params": (),
    "ignore_params_prefixes": (),
    "var_name_mapping": None,
    "custom_missing_load_func": None,
}
"""The options of an entry of `preload_from_files`, with their defaults."""


@guarded
def preload(net: Network, config: Mapping[str, Any], *, train: bool = False, epoch: int = 1) -> dict[str, LoadReport]:
    """Loads what a config wants to be loaded, beside the checkpoint of the model. Returns a report by file.

    >>> net_dict = {"output": {"class": "linear", "n_out": 2, "from": "data"}}
    >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}})).construct_from_dict(net_dict)
    >>> path = folder / "trained.npz"
    >>> np.savez(path, **{"output/W": np.ones((3, 2)), "output/b": np.zeros(2)})
    >>> rf.preload(net, {"preload_from_files": {"model": {"filename": str(path)}}})[str(path)].loaded
    ('output/W', 'output/b')

    Args:
        config: a config, or a dict of its options: `import_model_train_epoch1`, a checkpoint for the first epoch of
            training; `preload_from_files`, by any name a dict with `filename`, `prefix` of the variables that are
            loaded (the file has them without it), `init_for_train` and `ignore_missing`. The option `load_on_init` of
            subnetworks is read from the net dict.
        train: whether the network is trained, from scratch. Then only entries with `init_for_train` are loaded, without
            it only the others.
        epoch: `import_model_train_epoch1` and `init_for_train` are for epoch 1.

    Raises CheckpointError if an option is unknown, or a file does not fit.
    """
    reports: dict[str, LoadReport] = {}
    at_start = train and epoch == 1
    start = config.get("import_model_train_epoch1")
    if start and at_start:
        reports[start] = load(start, net, strict=False)
    for path in net.layers:
        source = options_of(net, path).get("load_on_init")
        if source:
            entry = {"filename": source} if isinstance(source, str) else dict(source)
            reports[entry.get("filename", path)] = _of_subnetwork(net, path, entry)
    for key, entry in (config.get("preload_from_files") or {}).items():
        opts = _checked(f"preload_from_files: {key}", entry)
        always = opts["init_for_train"] == "always"
        if always or (at_start if opts["init_for_train"] else not train):
            reports[opts["filename"]] = _load(net, opts, load_if_prefix=opts["prefix"])
    return reports


def _load(net: Network, opts: Mapping[str, Any], **more: Any) -> LoadReport:
    names = "ignore_missing", "ignore_params", "ignore_params_prefixes", "var_name_mapping", "custom_missing_load_func"
    return load(opts["filename"], net, **{name: opts[name] for name in names}, **more)


def _of_subnetwork(net: Network, path: str, entry: Mapping[str, Any]) -> LoadReport:
    """Loads the variables under the scope of a subnetwork, whose names in the file are without it."""
    opts = _checked(f"layer {path!r}: load_on_init", {k: v for k, v in entry.items() if k != "params_prefix"})
    prefix = entry.get("params_prefix")
    scope = f"{path}/" if prefix is None else prefix
    return _load(net, opts, rename=lambda name: f"{scope}{name}", only=lambda name: name.startswith(scope))


def _checked(what: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("filename"), str):
        raise CheckpointError(f"{what}: no file", got=repr(entry)[:80], expected='{"filename": "…"}')
    for name in entry:
        if name not in OPTIONS:
            expected = ", ".join(OPTIONS)
            raise CheckpointError(
                f"{what}: unknown option {name!r}", expected=expected, hint=did_you_mean(name, OPTIONS)
            )
    return {**OPTIONS, **entry}


@RESTORE.register(Network)
def restore(
    checkpoint: Checkpoint,
    entries: Mapping[str, StoredEntry],
    net: Network,
    *,
    strict: bool = True,
    only: Choice | None = None,
    skip: Choice | None = None,
    **options: Any,
) -> LoadReport | None:
    """Loads the variables of a network. None if the names of the file are those of its modules, as `rf.save` writes.

    entries: those of the checkpoint, by their new names. Raises CheckpointError, and changes nothing, if something is
    missing or has another shape.
    """
    model = model_of(net)
    names = {name for name, _ in net.named_parameters()}
    by_module = sum(name in names for name in entries)
    if checkpoint.kind != "TensorFlow" and by_module and by_module >= sum(name in model.variables for name in entries):
        return None
    keys = RestoreOptions.__dataclass_fields__
    for name in options:
        if name not in keys:
            hint = did_you_mean(name, keys)
            raise CheckpointError(f"{public_function()}: unknown option {name!r}", expected=", ".join(keys), hint=hint)
    values = {name: value for name, value in options.items() if value is not None}
    return Restored(model, checkpoint, entries, RestoreOptions(**values), strict).load(only, skip)


def model_of(net: Network) -> Model:
    """The variables of a network, and what its net dict says about loading them."""
    variables = net.variables()
    names = {id(parameter): name for name, parameter in variables.items()}
    owners: dict[str, str] = {}
    imports = []
    for path, layer in net.layers.items():
        for parameter in layer.params.values():
            owners.setdefault(names.get(id(parameter), ""), path)
        how, scope = options_of(net, path).get("custom_param_importer"), scope_of(layer, names)
        if how is not None and scope is not None:
            imports.append(Import(layer, scope, how))

    def added(name: str) -> float:
        """A cell with a kernel adds 1 unless the net dict says otherwise."""
        opts = options_of(net, owners[name]).get("unit_opts") if name in owners else None
        return float((opts or {}).get("forget_bias", 1.0))

    return Model(variables, imports, added)


def scope_of(layer: Layer, names: Mapping[int, str]) -> str | None:
    """What stands before the names of a layer's variables; None if it has none. names: by the id of parameters."""
    for name, parameter in layer.params.items():
        variable = names.get(id(parameter), "")
        if variable.endswith(name):
            return variable.removesuffix(name)
    return None


def options_of(net: Network, path: str) -> Mapping[str, Any]:
    """What the net dict says of a layer; empty for a layer that is not in it."""
    layers: Any = net._builder.scope.layers
    described: Any = {}
    for name in path.split("/"):
        described = layers.get(name) if isinstance(layers, Mapping) else None
        if not isinstance(described, Mapping):
            return {}
        layers = described.get("subnetwork") or described.get("unit")
    return described
