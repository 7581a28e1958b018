"""A card for each layer: what it was given, what that became, its parameters by their names in checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import cut
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import Axis
from rfnb.display.kit.dims import UNKNOWN, describe_axis
from rfnb.display.kit.schema import DimView
from rfnb.display.network.fold import Status
from rfnb.display.network.masked_frames import describe_taken
from rfnb.display.network.schema import LayerCard, LayerOption, LayerParam
from rfnb.network.layer import Layer
from rfnb.network.report.outline import Entry

WORDS = 120
"""The most characters of an option."""


def cards_of(
    entries: Mapping[str, Entry],
    layers: Mapping[str, Layer],
    templates: Mapping[str, Tensor],
    status: Mapping[str, Status],
    variables: Mapping[str, Parameter],
    masks: Mapping[str, tuple[Tensor, Dim]],
) -> list[LayerCard]:
    """The cards; layers that differ in names, lines and sources only share one.

    variables: the parameters by their names in checkpoints. masks: of the frames that layers take.
    """
    cards: dict[Any, LayerCard] = {}
    names = {id(parameter): name for name, parameter in variables.items()}
    for path, entry in entries.items():
        card = _card(entry, layers.get(path), templates.get(path), status[path], names)
        params = tuple((param["name"].removeprefix(path), param["count"]) for param in card["params"])
        options = tuple((option["name"], option["given"]) for option in card["options"])
        dims = tuple(dim["serial"] for dim in card["dims"])
        key = card["cls"], card["status"], card["reason"], options, params, dims
        if key in cards:
            cards[key]["alike"].append(path)
        else:
            cards[key] = card
            card["taken"] = describe_taken(*masks[path]) if path in masks else None
    return list(cards.values())


def _card(
    entry: Entry, layer: Layer | None, template: Tensor | None, status: Status, names: Mapping[int, str]
) -> LayerCard:
    state, reason = status
    return {
        "path": entry.path,
        "alike": [],
        "cls": entry.cls,
        "line": entry.line,
        "status": state,
        "reason": reason,
        "dims": [] if template is None else [_dim(dim) for dim in template.dims],
        "dtype": "" if template is None else template.dtype,
        "sources": [reference.written for reference in entry.references if reference.option == "from"],
        "options": list(_options(entry, layer)),
        "params": [] if layer is None else [_param(name, x, entry, names) for name, x in layer.params.items()],
        "taken": None,
    }


def _dim(dim: Dim) -> DimView:
    size = UNKNOWN if dim.dimension is None else dim.dimension
    kind = dim.kind if dim.kind in ("batch", "spatial", "feature") else "other"
    return describe_axis(Axis(dim, size), kind) | {"made": None}  # type: ignore[arg-type]


def _options(entry: Entry, layer: Layer | None) -> Iterator[LayerOption]:
    for name, value in entry.described.items():
        if name in ("class", "from", "subnetwork") or (name == "unit" and isinstance(value, Mapping)):
            continue
        became = "" if layer is None else _became(getattr(layer, "out_dim" if name == "n_out" else str(name), None))
        refers = next((x.path for x in entry.references if x.option == name and x.path != x.written), None)
        yield {"name": str(name), "given": cut(repr(value), WORDS), "became": became or refers or ""}


def _became(value: Any) -> str:
    """The dims that an option means."""
    if isinstance(value, Dim):
        return f"{value.name}:{'?' if value.dimension is None else value.dimension}"
    if isinstance(value, tuple) and value and all(isinstance(dim, Dim) for dim in value):
        return ", ".join(map(_became, value))
    return ""


def _param(name: str, parameter: Parameter, entry: Entry, names: Mapping[int, str]) -> LayerParam:
    return {
        "name": names.get(id(parameter), f"{entry.path}/{name}"),
        "dims": [_dim(dim) for dim in parameter.dims],
        "count": parameter.num_elements(),
        "trained": bool(parameter.trainable),
    }
