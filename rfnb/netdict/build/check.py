"""What must hold for any net dict before its layers are constructed, and for the call of each layer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.layer import Layer

DEEPEST = 60
"""How deep nets may be nested."""
OPTIONS = ("unit", "subnetwork", "true_layer", "false_layer")
"""Options that hold a net, or a layer."""
LAYERS = 1_000_000
"""The most layers of a net, where a dict that stands at several places counts at each."""


def check_net(net_dict: Mapping[str, Any]) -> None:
    """Raises NetworkError if a name is not a string, or if nets are nested without end."""
    sizes: dict[int, tuple[int, int]] = {}  # by net: how deep nets are nested in it, and its layers
    open_nets: dict[int, str] = {}
    todo: list[tuple[str, Mapping[Any, Any], list[Any] | None]] = [("", net_dict, None)]
    while todo:
        path, net, inner_nets = todo.pop()
        if id(net) in sizes:
            continue
        if inner_nets is not None:
            del open_nets[id(net)]
            depth = 1 + max((sizes[id(inner)][0] for _, inner in inner_nets), default=0)
            layers = len(net) + sum(sizes[id(inner)][1] for _, inner in inner_nets)
            sizes[id(net)] = depth, layers
            if depth > DEEPEST:
                raise NetworkError("nets are nested too deeply", got=f"{depth} nets", expected=f"at most {DEEPEST}")
            if layers > LAYERS:
                raise NetworkError("the net has too many layers", got=layers, expected=f"at most {LAYERS}")
        elif id(net) in open_nets:
            where = f"{path.rstrip('/')!r} is {open_nets[id(net)].rstrip('/') or 'the whole net'!r} again"
            raise NetworkError("a net contains itself", got=where[:200], expected="nets that end somewhere")
        else:
            open_nets[id(net)] = path
            inner_nets = list(_nets_in(path, net))
            todo += [(path, net, inner_nets), *((inner_path, inner, None) for inner_path, inner in inner_nets)]


def _nets_in(path: str, net: Mapping[Any, Any]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """The nets, and the single layers, that layers have in their options; of a layer alone, those in its own."""
    single = "class" in net and not isinstance(net["class"], Mapping)
    for name, described in [("", net)] if single else net.items():
        if not isinstance(name, str):
            where = f"layer {path.rstrip('/')!r}: " if path else ""
            got = f"{type(name).__name__} {name!r:.60}"
            raise NetworkError(f"{where}the name of a layer is not a string", got=got, expected="a string")
        for option in OPTIONS if isinstance(described, Mapping) else ():
            if isinstance(described.get(option), Mapping):
                yield f"{path}{name}/", described[option]


def check_call(layer: Layer, sources: Sequence[Tensor], inputs: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raises NetworkError if a layer gets another number of sources than it takes, or if an option names no layer."""
    parameters = inspect.signature(layer.compute).parameters.values()
    kinds = {name: option.kind for name, option in layer.options.items()}
    for parameter in parameters:
        named = kinds.get(parameter.name) == "layer"
        if named and parameter.default is parameter.empty and parameter.name not in inputs:
            got = repr(given[parameter.name])[:60] if parameter.name in given else "nothing"
            raise NetworkError(f"{parameter.name} is not the name of a layer", got=got, expected="the name of a layer")
    placed = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in (*kinds, "target")]
    minimum = sum(p.default is p.empty for p in placed)
    maximum = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(placed)
    if len(sources) < minimum or (maximum is not None and len(sources) > maximum):
        number = f"{minimum}" if maximum == minimum else f"{minimum} to {maximum}" if maximum else f"{minimum} or more"
        expected = f"{number} source{'s' if number != '1' else ''}"
        raise NetworkError("from names too few or too many sources", got=len(sources), expected=expected)
