"""The state of training beside the parameters: optimizers, schedules, counters, random numbers.

It is written as JSON, with dims, tensors and bytes inside of nested plain values: data only, no code.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch

from rfnb.checkpoint.entries import TRAINING, Checkpoint
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError, RunFileError
from rfnb.nn.module.module import Module
from rfnb.ops.random import get_random_state, set_random_state
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import conform

Tensors = dict[str, torch.Tensor]
Groups = Sequence[Sequence[str | None]] | None
"""The names of parameters, by group of an optimizer."""


class Writer:
    """Writes values as JSON, and collects the tensors among them by name, and the dims in a table.

    tensors: the dict that receives the tensors; None if tensors are not allowed.
    """

    def __init__(self, tensors: Tensors | None = None):
        self.tensors = tensors
        self.dims = DimWriter()

    def json(self, values: Mapping[str, object], prefix: str = "") -> str:
        """The values as JSON. prefix: put before their names, in messages and in the names of tensors.

        Raises CheckpointError if there is anything but plain data.
        """
        try:
            plain = {name: self._plain(value, f"{prefix}{name}") for name, value in values.items()}
            return json.dumps({"values": plain, **self.dims.json()})
        except RecursionError:
            raise CheckpointError(f"save: {', '.join(values)}: nested too deeply, or a value contains itself") from None

    def _plain(self, value: object, name: str) -> object:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, dict):
            return self._dict(value, name)
        if isinstance(value, list | tuple):
            items = [self._plain(item, f"{name}[{i}]") for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple": items}
        if isinstance(value, Dim):
            return {"$dim": self.dims.dim(value)}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, np.generic):
            return self._plain(value.item(), name)
        if self.tensors is not None and isinstance(value, torch.Tensor | np.ndarray):
            self.tensors[name] = torch.as_tensor(value)
            return {"$tensor" if isinstance(value, torch.Tensor) else "$array": name}
        raise CheckpointError(
            f"save: {name} is not plain data",
            got=f"{type(value).__module__}.{type(value).__qualname__}",
            expected=f"numbers, strings, dims{'' if self.tensors is None else ', tensors'}; lists and dicts of these",
            hint="rf.build_dict(cls, …) describes a module or a function" if callable(value) else None,
        )

    def _dict(self, value: Mapping[object, object], name: str) -> object:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self._plain(item, f"{name}.{key}") for key, item in value.items()}
        pairs = value.items()
        return {"$dict": [[self._plain(key, f"a key of {name}"), self._plain(v, f"{name}.{key}")] for key, v in pairs]}


def read(text: str, name: str, tensor: Callable[[str], torch.Tensor] | None = None) -> dict[str, Any]:
    """The values that were written to `text`. Raises CheckpointError if it cannot be read.

    name: what the text is, for the message. tensor: a function that returns a collected tensor by its name.
    """
    try:
        data = json.loads(text)
        dims = DimReader(data)
        return {key: _value(value, dims, tensor) for key, value in data["values"].items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, RunFileError) as error:
        raise CheckpointError(f"{public_function()}: {name} in the file cannot be read", got=error) from error


def _value(data: object, dims: DimReader, tensor: Callable[[str], torch.Tensor] | None) -> object:
    def all_of(items: Iterable[object]) -> list[object]:
        return [_value(item, dims, tensor) for item in items]

    if isinstance(data, list):
        return all_of(data)
    if not isinstance(data, dict):
        return data
    content: Any
    kind, content = next(iter(data.items()), ("", None))
    if kind == "$tuple":
        return tuple(all_of(content))
    if kind == "$dict":
        return {_value(key, dims, tensor): _value(item, dims, tensor) for key, item in content}
    if kind == "$dim":
        return dims.dim(content)
    if kind == "$bytes":
        return base64.b64decode(content, validate=True)
    if kind in ("$tensor", "$array") and tensor is not None:
        return tensor(content) if kind == "$tensor" else tensor(content).numpy()
    if kind.startswith("$"):
        raise ValueError(f"unknown kind of value: {kind}")
    return {key: _value(item, dims, tensor) for key, item in data.items()}


_RANDOM = "random numbers"


def describe(training: Mapping[str, object], module: Module) -> tuple[str, Tensors]:
    """The state of training as JSON with a part for each name, and the tensors in it."""
    tensors: Tensors = {}
    parts = {name: _described(part, name, module) for name, part in training.items()}
    return Writer(tensors).json({**parts, _RANDOM: {"value": get_random_state()}}, TRAINING), tensors


def saved_in(checkpoint: Checkpoint) -> dict[str, object]:
    """The saved parts by name; empty if the checkpoint has none. Raises CheckpointError if they cannot be read."""
    text = checkpoint.metadata.get("training")
    if text is None:
        return {}
    saved = read(text, "the training", checkpoint.read)
    if damaged := [name for name, part in ({_RANDOM: None} | saved).items() if not _is_part(part)]:
        raise CheckpointError(f"{public_function()}: the training in the file cannot be read", got=damaged[0])
    return saved


def _is_part(part: object) -> bool:
    """Whether this is what `describe` makes of an object: a value, or a state with the names of parameters."""
    with suppress(RunFileError):
        if isinstance(part, dict) and "state" in part:
            conform(part, {"class": str, "names": list[list[str | None]] | None}, "training")
            return True
    return isinstance(part, dict) and "value" in part


def values(saved: Mapping[str, Any]) -> dict[str, object]:
    """The parts that are plain values, not states of objects."""
    return {name: part["value"] for name, part in saved.items() if "value" in part and name != _RANDOM}


def restore(saved: Mapping[str, Any], training: Mapping[str, Any], module: Module, called: Mapping[str, str]) -> None:
    """Restores the saved states of the objects in `training`, and the state of random numbers.

    called: from the name of an entry in the file to that of its parameter in the module.

    Raises CheckpointError if something does not fit; then all objects are left unchanged.
    """
    if not saved:
        raise CheckpointError(
            f"{public_function()}: the file has no training state", hint="rf.save(…, training={…}) saves it"
        )
    states = {name: _fitting(saved, name, owner, _names(owner, module), called) for name, owner in training.items()}
    changes = [(name, owner.load_state_dict, states[name], _now(owner)) for name, owner in training.items()]
    changes.append((_RANDOM, set_random_state, saved[_RANDOM]["value"], get_random_state()))
    with ExitStack() as undo:
        for name, change, new, old in changes:
            undo.callback(_try, change, old)
            try:
                change(new)
            except Exception as error:  # the class of the object may raise any error
                raise CheckpointError(
                    f"{public_function()}: what was saved as {name!r} does not fit", got=error
                ) from error
        undo.pop_all()


def _try(change: Callable[[Any], object], value: object) -> None:
    with suppress(Exception):  # the first error is the one to report
        change(value)


def _described(part: object, name: str, module: Module) -> dict[str, object]:
    if name == _RANDOM:
        raise CheckpointError(f"save: the name {name!r} is reserved", hint="random numbers are always saved")
    if isinstance(part, Module):
        raise CheckpointError(f"save: {name} is a module", hint=f"save it in a separate file: rf.save({name}, …)")
    if not hasattr(part, "state_dict"):
        return {"value": part}
    return {"class": _class(part), "names": _names(part, module), "state": part.state_dict()}


def _fitting(saved: Mapping[str, Any], name: str, owner: object, names: Groups, called: Mapping[str, str]) -> object:
    """The saved state for an object, which must have the same class, and as an optimizer the same parameters."""
    part = saved.get(name)
    if part is None or "state" not in part or not hasattr(owner, "load_state_dict"):
        states = ", ".join(key for key, part in saved.items() if "state" in part) or "none"
        raise CheckpointError(
            f"{public_function()}: {name!r} cannot be set",
            got=_class(owner),
            expected=f"states in the file: {states}",
            hint=f"rf.load(…).training[{name!r}] is its value" if part and "value" in part else None,
        )
    if part["class"] != _class(owner):
        raise CheckpointError(
            f"{public_function()}: {name!r} was saved from a different class", got=_class(owner), expected=part["class"]
        )
    stored = part["names"] and [[called.get(key, key) for key in group] for group in part["names"]]
    if stored != names:
        raise CheckpointError(
            f"{public_function()}: {name!r} was saved for different parameters, or in a different order",
            got=_shown(names, stored),
            expected=_shown(stored, names),
        )
    return part["state"]


def _names(owner: object, module: Module) -> Groups:
    """The names of the parameters that an optimizer trains, by group; its state refers to them by number only."""
    if not hasattr(owner, "param_groups"):
        return None
    names = {id(parameter.raw_tensor): name for name, parameter in module.named_parameters()}
    return [[names.get(id(raw)) for raw in group["params"]] for group in owner.param_groups]


def _shown(names: Groups, others: Groups) -> str:
    """The number of parameters, and the first one that differs."""
    flat, expected = [[name for group in side or [] for name in group] for side in (names, others)]
    place = next((i for i, name in enumerate(flat) if expected[i : i + 1] != [name]), None)
    sizes = " + ".join(str(len(group)) for group in names or [])
    return f"{sizes or 'no'} parameters" + ("" if place is None else f"; number {place} is {flat[place]}")


def _now(owner: Any) -> object:
    """The current state, to be restored after an error. Optimizers do not change it in place, so they need no copy."""
    state = owner.state_dict()
    return state if hasattr(owner, "param_groups") else copy.deepcopy(state)


def _class(owner: object) -> str:
    return f"{type(owner).__module__}.{type(owner).__qualname__}"
