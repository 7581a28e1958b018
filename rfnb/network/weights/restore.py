"""`rf.load` for a network, if the checkpoint has the names of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.checkpoint.entries import Checkpoint, StoredEntry
from rfnb.checkpoint.load import RESTORE
from rfnb.checkpoint.mapping import Choice
from rfnb.checkpoint.report import LoadReport
from rfnb.checkpoint.variables import Import, Model, Restored, RestoreOptions
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import CheckpointError
from rfnb.network.network import Network
from rfnb.network.weights.access import options_of, scope_of


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
