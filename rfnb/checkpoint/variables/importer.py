"""Layers with the option `custom_param_importer`, which take all variables of a file that are under their scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rfnb.checkpoint.variables.transforms import common_part
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError

Values = dict[str, tuple[torch.Tensor, str]]
"""By the names of a layer's parameters: the new value, and what was done."""


def imported(layer: Any, how: Any, values: Mapping[str, torch.Tensor]) -> Values:
    """The new values of a layer's parameters. values: of the file, by what is behind the scope of the layer.

    how: "reset" takes none, "ifpossible" those of the right shape, "subset" of each the part that both have, along
        every axis and for each gate; a function `f(layer=…, values_dict=…, session=None)` returns {name: array}, or
        sets them itself and returns None.
    """
    parameters = layer.params
    if callable(how):
        result = how(layer=layer, values_dict={name: value.numpy() for name, value in values.items()}, session=None)
        return {} if result is None else _checked(layer, result)
    if how == "reset":
        return {}
    matches = {name: (parameter, values[name]) for name, parameter in parameters.items() if name in values}
    if how == "ifpossible":
        return {name: (value, "") for name, (p, value) in matches.items() if tuple(value.shape) == _shape(p)}
    if how == "subset":
        return {name: _subset(layer, name, parameter, value) for name, (parameter, value) in matches.items()}
    expected = '"reset", "ifpossible", "subset", or a function'
    raise CheckpointError(f"layer {layer.name!r}: custom_param_importer {how!r:.60} is not known", expected=expected)


def _checked(layer: Any, given: Any) -> Values:
    parameters = layer.params
    result: Values = {}
    for name, value in given.items() if isinstance(given, Mapping) else [("", given)]:
        array = np.asarray(value)
        if name not in parameters or array.shape != _shape(parameters[name]) or array.dtype.kind not in "fiub":
            expected = ", ".join(f"{name} {_shape(parameter)}" for name, parameter in parameters.items())
            fault = f"layer {layer.name!r}: custom_param_importer returned something else than parameters"
            raise CheckpointError(fault, got=f"{name!r} {array.dtype} {array.shape}", expected=expected)
        result[name] = torch.from_numpy(array.copy()), "custom_param_importer"
    return result


def _subset(layer: Any, name: str, parameter: Parameter, old: torch.Tensor) -> tuple[torch.Tensor, str]:
    new = parameter.raw_tensor.detach()
    if new.ndim != old.ndim:
        return new, ""
    if new.shape == old.shape:
        return old, ""
    blocks = _blocks(layer, name, list(new.shape), list(old.shape))
    return common_part(new.cpu(), old, blocks), f"the common part of {tuple(old.shape)} and {tuple(new.shape)}"


def _blocks(layer: Any, name: str, new: Sequence[int], old: Sequence[int]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """For each axis the sizes of its blocks: gates, and in a kernel the rows of the input and of h."""
    blocks: list[tuple[Sequence[int], Sequence[int]]] = [((n,), (m,)) for n, m in zip(new, old, strict=True)]
    out_dim = layer.out_dim.dimension if layer.out_dim is not None else None
    recurrent = hasattr(layer, "unit") or hasattr(layer, "unit_opts")
    if not recurrent or not out_dim or not new or new[-1] % out_dim or old[-1] % (new[-1] // out_dim):
        return blocks
    gates = new[-1] // out_dim
    old_out = old[-1] // gates
    blocks[-1] = [out_dim] * gates, [old_out] * gates
    if name.endswith("kernel") and len(new) == 2 and min(new[0] - out_dim, old[0] - old_out) >= 0:
        blocks[0] = [new[0] - out_dim, out_dim], [old[0] - old_out, old_out]
    return blocks


def _shape(parameter: Parameter) -> tuple[int, ...]:
    return tuple(parameter.raw_tensor.shape)
