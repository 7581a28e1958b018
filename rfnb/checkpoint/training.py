"""The state of training beside the parameters: optimizers, schedules, counters, random numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from rfnb.checkpoint import plain_values
from rfnb.checkpoint.stored import TRAINING, Checkpoint
from rfnb.core.ground.source import public_function
from rfnb.errors import CheckpointError
from rfnb.nn.module.module import Module
from rfnb.ops.random import get_random_state, set_random_state

_RANDOM = "random numbers"


def describe(training: Mapping[str, Any], module: Module) -> tuple[str, plain_values.Tensors]:
    """The state of training as JSON with a part for each name, and the tensors in it."""
    tensors: plain_values.Tensors = {}
    parts = {name: _described(part, name, module) for name, part in training.items()}
    return plain_values.Writer(tensors).json({**parts, _RANDOM: {"value": get_random_state()}}, TRAINING), tensors


def saved_in(checkpoint: Checkpoint) -> dict[str, Any]:
    """The saved parts by name; empty if the checkpoint has none."""
    text = checkpoint.metadata.get("training")
    return {} if text is None else dict(plain_values.read(text, "the training", checkpoint.read))


def values(saved: Mapping[str, Any]) -> dict[str, Any]:
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


def _try(change: Callable[[Any], Any], value: Any) -> None:
    with suppress(Exception):  # the first error is the one to report
        change(value)


def _described(part: Any, name: str, module: Module) -> dict[str, Any]:
    if name == _RANDOM:
        raise CheckpointError(f"save: the name {name!r} is reserved", hint="random numbers are always saved")
    if isinstance(part, Module):
        raise CheckpointError(f"save: {name} is a module", hint=f"save it in a separate file: rf.save({name}, …)")
    if not hasattr(part, "state_dict"):
        return {"value": part}
    return {"class": _class(part), "names": _names(part, module), "state": part.state_dict()}


def _fitting(saved: Mapping[str, Any], name: str, owner: Any, names: Any, called: Mapping[str, str]) -> Any:
    """The saved state for an object, which must have the same class, and as an optimizer the same parameters."""
    part = saved.get(name)
    if part is None or "state" not in part or not hasattr(owner, "load_state_dict"):
        states = ", ".join(key for key, part in saved.items() if "state" in part) or "none"
        raise CheckpointError(
            f"{public_function()}: {name!r} cannot be set", got=_class(owner), expected=f"states in the file: {states}"
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


def _names(owner: Any, module: Module) -> Any:
    """The names of the parameters that an optimizer trains, by group; its state refers to them by number only."""
    if not hasattr(owner, "param_groups"):
        return None
    names = {id(parameter.raw_tensor): name for name, parameter in module.named_parameters()}
    return [[names.get(id(raw)) for raw in group["params"]] for group in owner.param_groups]


def _shown(names: Any, others: Any) -> str:
    """The number of parameters, and the first one that differs."""
    flat, expected = [[name for group in side or [] for name in group] for side in (names, others)]
    place = next((i for i, name in enumerate(flat) if expected[i : i + 1] != [name]), None)
    sizes = " + ".join(str(len(group)) for group in names or [])
    return f"{sizes or 'no'} parameters" + ("" if place is None else f"; number {place} is {flat[place]}")


def _now(owner: Any) -> Any:
    """The current state, to be restored after an error. Optimizers do not change it in place, so they need no copy."""
    state = owner.state_dict()
    return state if hasattr(owner, "param_groups") else copy.deepcopy(state)


def _class(owner: Any) -> str:
    return f"{type(owner).__module__}.{type(owner).__qualname__}"
