"""`net.search`: the same net once more, with the same parameters, whose choices search."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.text import did_you_mean
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.network.rec.length import choices
from rfnb.network.rec.net import RecNet
from rfnb.network.resolve import EXTRA, inner_net

if TYPE_CHECKING:
    from rfnb.network.network import Network


def searching(net: Network, beam_size: int | None) -> Network:
    """A network of the same net dict and the same parameters that searches. beam_size: of the last choices."""
    if isinstance(beam_size, bool) or not (beam_size is None or (isinstance(beam_size, int) and beam_size > 0)):
        raise NetworkError("search: beam_size is a number of hypotheses", got=repr(beam_size), expected="1 or more")
    searcher = type(net)(net.config, net.extern_data, train_flag=False, search_flag=True, name=net.name,
                     batch_independent=net.batch_independent)  # fmt: skip
    searcher._builder.variables = net._builder.variables
    searcher._stands_for = weakref.ref(net)
    layers = net._builder.scope.layers
    return searcher.construct_from_dict(layers if beam_size is None else with_beam_size(layers, beam_size))


def with_beam_size(layers: Mapping[str, Any], beam_size: int) -> Mapping[str, Any]:
    """A net dict whose choices have this beam size, at any depth. It keeps the lines of the config."""
    changed: Any = copy(layers)
    for name, described in layers.items():
        inner = inner_net(described)
        if isinstance(inner, Mapping):
            key = "unit" if described["class"] == "rec" else "subnetwork"
            described = _with(described, key, with_beam_size(inner, beam_size))
        elif name in choices({name: described}):
            described = _with(described, "beam_size", beam_size)
        changed[name] = described
    return changed


def _with(described: Mapping[str, Any], key: str, given: Any) -> Any:
    """A copy of the description of a layer, which keeps its line in the config."""
    copied: Any = copy(described)
    copied[key] = given
    return copied


def searched_net(net: Network, layer: str | None) -> RecNet:
    """The recurrent net whose search is asked for. Raises LayerNotFound if there is none, or no layer is named."""
    nets = net._builder.loops.nets
    searches = {path: rec for path, rec in nets.items() if rec.beam is not None and (layer or not EXTRA.match(path))}
    if layer is not None and layer not in searches:
        hint = did_you_mean(layer, searches)
        fault = f"search: there is no search in a layer {layer!r}"
        raise LayerNotFound(fault, expected=", ".join(searches) or "none", hint=hint)
    if not searches:
        raise LayerNotFound(
            "search: there is no layer of the class choice in a loop", got=f"loops: {', '.join(nets) or 'none'}",
            expected='"unit": {"output": {"class": "choice", …}, …}',
        )  # fmt: skip
    if layer is None and len(searches) > 1:
        raise LayerNotFound(
            "search: there are several searches", got=", ".join(searches),
            hint=f'net.search(batch, layer="{next(iter(searches))}")',
        )  # fmt: skip
    return searches[layer if layer is not None else next(iter(searches))]
