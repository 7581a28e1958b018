"""Parameters of a network: by variable name, so that layers can share them; and as a dict by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError
from rfnb.netdict.layer import Layer
from rfnb.netdict.layer_call import with_priorities
from rfnb.netdict.resolve import EXTRA


class NetworkVariables:
    """The parameters by variable name: two layers with the same name scope share them."""

    def __init__(self, device: str | None = None) -> None:
        self.device = device
        self.found: dict[str, Parameter] = {}

    def get(self, name: str, dims: Sequence[Dim], initial: object, *, trainable: bool) -> Parameter:
        """The parameter with this variable name, made if there is none. Raises ParameterError if its shape differs."""
        dims = with_priorities(dims)
        if name not in self.found:
            self.found[name] = Parameter(dims, initial=initial, trainable=trainable, device=self.device)
        check_shape(name, self.found[name], dims)
        return self.found[name]


def outputs_as_parameters(reused: object) -> dict[str, str]:
    """By the names of parameters, the layers whose outputs stand for them, as `reuse_params` says.

    >>> from rfnb.netdict.params import outputs_as_parameters
    >>> outputs_as_parameters({"map": {"W": {"layer_output": "embedding"}, "b": None}})
    {'W': 'embedding'}
    """
    entries = reused.get("map") if isinstance(reused, Mapping) else None
    layers = {name: entry.get("layer_output") for name, entry in (entries or {}).items() if isinstance(entry, Mapping)}
    return {name: reference for name, reference in layers.items() if reference is not None}


def reused_layers(reused: object) -> list[str]:
    """All layers that `reuse_params` names."""
    if not isinstance(reused, Mapping):
        return [reused] if isinstance(reused, str) else []
    entries = [reused, *(entry for entry in reused.get("map", {}).values() if isinstance(entry, Mapping))]
    named = [entry.get(key) for entry in entries for key in ("reuse_layer", "layer_output")]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def layer_of_parameter(reused: Any, name: str) -> str | None:
    """The layer whose parameter of this name a layer uses, as its `reuse_params` says; None: it has its own.

    reused: the name of a layer, or {"reuse_layer": name}, or {"map": {parameter: {"reuse_layer": name} or None}}.
    """
    if not isinstance(reused, Mapping):
        return reused
    entry = reused.get("map", {}).get(name) if "map" in reused else reused
    return entry.get("reuse_layer") if isinstance(entry, Mapping) else entry


def check_shape(name: str, parameter: Parameter, dims: Sequence[Dim]) -> None:
    """Raises ParameterError if a shared parameter does not have the sizes that a layer needs."""
    got, expected = ([dim.dimension for dim in axes] for axes in (parameter.dims, dims))
    if got != expected:
        raise ParameterError(f"{name} is shared, but has another shape", got=got, expected=expected)


def set_values(
    layers: Mapping[str, Layer],
    values: Mapping[str, Mapping[str, Any]],
    *,
    variables: Mapping[str, Parameter],
    ignore_non_existing: bool = False,
    ignore_wrong_shape: bool = False,
) -> None:
    """Sets parameters by layer and name. Raises ParameterError, which lists all that does not fit; then none is set.

    variables: by variable name. A layer with a net has the parameters in it too, by the ends of these: "s/rec/W_re".
    """
    wrong, assignments = [], []
    for path, arrays in values.items():
        path = path.replace("prev:", "")  # the layer whose output of the step before some name of it means
        if path not in layers and arrays and all(f"{path}/{name}" in variables for name in arrays):
            parameters = {name: variables[f"{path}/{name}"] for name in arrays}  # of a layer inside of a unit
        elif path in layers:
            parameters = {**_params_inside(layers, path, variables, arrays), **layers[path].params}
        else:
            if not ignore_non_existing:
                wrong.append(f"there is no layer {path!r}; {did_you_mean(path, layers) or ''}".rstrip("; "))
            continue
        for name, array in arrays.items():
            if name not in parameters:
                near = did_you_mean(name, parameters) or f"it has {', '.join(parameters) or 'none'}"
                wrong.append(f"{path} has no parameter {name!r}; {near}")
                continue
            shape, expected = tuple(np.shape(array)), tuple(dim.dimension for dim in parameters[name].dims)
            if shape == expected:
                assignments.append((parameters[name], array))
            elif not ignore_wrong_shape:
                wrong.append(f"{path}/{name} has the shape {expected}, not {shape}")
    if wrong:
        fault = (
            f"set_param_values_by_dict: {len(wrong)} {'parameter does' if len(wrong) == 1 else 'parameters do'} not fit"
        )
        raise ParameterError(fault, got="\n".join(wrong[:20]), hint="nothing was set")
    for parameter, array in assignments:
        parameter.assign(np.asarray(array).astype(parameter.dtype))


def _params_inside(
    layers: Mapping[str, Layer], path: str, variables: Mapping[str, Parameter], names: Iterable[str]
) -> dict[str, Parameter]:
    """The parameters of layers inside of a layer that these names mean, which are ends of their variable names."""
    short_names = [name for name in names if "/" in name and name not in layers[path].params]
    if not short_names:
        return {}
    ids = {id(x) for key, layer in layers.items() if key.startswith(f"{path}/") for x in layer.params.values()}
    full_names = sorted((name for name, x in variables.items() if id(x) in ids), key=len)
    ends = {key: next((name for name in full_names if name.endswith(f"/{key}")), None) for key in short_names}
    return {key: variables[name] for key, name in ends.items() if name is not None}


def values_of(layers: Mapping[str, Layer]) -> dict[str, dict[str, np.ndarray]]:
    """The values of all parameters, by layer and name; a shared one once, with additional nets last."""
    ids: set[int] = set()
    values: dict[str, dict[str, np.ndarray]] = {}
    for path, layer in sorted(layers.items(), key=lambda item: EXTRA.match(item[0]) is not None):
        for name, parameter in layer.params.items():
            if id(parameter) not in ids:
                ids.add(id(parameter))
                values.setdefault(path, {})[name] = parameter.numpy().copy()
    return values
