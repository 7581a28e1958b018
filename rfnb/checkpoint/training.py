"""What goes on when a training does, beside the parameters: optimizers, schedules, counters, random numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from rfnb.checkpoint import plain
from rfnb.checkpoint.entries import TRAINING, Checkpoint
from rfnb.errors import CheckpointError
from rfnb.nn.module.module import Module
from rfnb.ops.random import get_random_state, set_random_state

_RANDOM = "random numbers"


def describe(training: Mapping[str, Any], module: Module) -> tuple[str, plain.Tensors]:
    """JSON with a part for each name, and the tensors in them."""
    tensors: plain.Tensors = {}
    parts = {name: _described(part, name, module) for name, part in training.items()}
    return plain.Writer(tensors).json({**parts, _RANDOM: {"value": get_random_state()}}, TRAINING), tensors


def saved_in(checkpoint: Checkpoint) -> dict[str, Any]:
    """The parts by name."""
    text = checkpoint.metadata.get("training")
    return {} if text is None else dict(plain.read(text, "the training", checkpoint.read))


def values(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Those that no object has to take."""
    return {name: part["value"] for name, part in saved.items() if "value" in part and name != _RANDOM}


def restore(saved: Mapping[str, Any], training: Mapping[str, Any], module: Module, called: Mapping[str, str]) -> None:
    """Sets the objects to what was saved of them, and random numbers to where they were.

    called: from the name of an entry to that of the parameter which it is for.

    Raises CheckpointError, with all objects as they were, if something does not fit.
    """
    if not saved:
        raise CheckpointError("load: the file has no training", hint="rf.save(…, training={…})")
    states = {name: _fitting(saved, name, owner, _names(owner, module), called) for name, owner in training.items()}
    changes = [(name, owner.load_state_dict, states[name], _now(owner)) for name, owner in training.items()]
    changes.append((_RANDOM, set_random_state, saved[_RANDOM]["value"], get_random_state()))
    with ExitStack() as undo:
        for name, change, after, before in changes:
            undo.callback(_try, change, before)
            try:
                change(after)
            except Exception as error:  # whatever the class of the object says
                raise CheckpointError(f"load: what was saved as {name!r} does not fit", got=error) from error
        undo.pop_all()


def _try(change: Callable[[Any], Any], value: Any) -> None:
    with suppress(Exception):  # the first error is the one to tell
        change(value)


def _described(part: Any, name: str, module: Module) -> dict[str, Any]:
    if name == _RANDOM:
        raise CheckpointError(f"save: {name!r} are always saved: another name, please")
    if isinstance(part, Module):
        raise CheckpointError(f"save: {name} is a module", hint=f"rf.save({name}, …): a file of its own")
    if not hasattr(part, "state_dict"):
        return {"value": part}
    return {"class": _class(part), "names": _names(part, module), "state": part.state_dict()}


def _fitting(saved: Mapping[str, Any], name: str, owner: Any, names: Any, called: Mapping[str, str]) -> Any:
    """The state for an object, which has to be of the same class, an optimizer of the same parameters."""
    part = saved.get(name)
    if part is None or "state" not in part or not hasattr(owner, "load_state_dict"):
        there = ", ".join(key for key, part in saved.items() if "state" in part) or "nothing that has a state"
        raise CheckpointError(f"load: {name!r} cannot be set", got=_class(owner), expected=f"of the file: {there}")
    if part["class"] != _class(owner):
        raise CheckpointError(f"load: {name!r} was another class", got=_class(owner), expected=part["class"])
    then = part["names"] and [[called.get(key, key) for key in group] for group in part["names"]]
    if then != names:
        raise CheckpointError(
            f"load: {name!r} trained other parameters, or in another order",
            got=_shown(names, then),
            expected=_shown(then, names),
        )
    return part["state"]


def _names(owner: Any, module: Module) -> Any:
    """What an optimizer trains, by group; it knows its parameters by number only."""
    if not hasattr(owner, "param_groups"):
        return None
    names = {id(parameter.raw_tensor): name for name, parameter in module.named_parameters()}
    return [[names.get(id(raw)) for raw in group["params"]] for group in owner.param_groups]


def _shown(names: Any, others: Any) -> str:
    """How many, and the first that is another one."""
    flat, rest = [[name for group in side or [] for name in group] for side in (names, others)]
    first = next((i for i, name in enumerate(flat) if rest[i : i + 1] != [name]), None)
    sizes = " + ".join(str(len(group)) for group in names or [])
    return f"{sizes or 'no'} parameters" + ("" if first is None else f"; number {first} is {flat[first]}")


def _now(owner: Any) -> Any:
    """The state to go back to. Optimizers take a new one and leave the old as it is: no copy."""
    state = owner.state_dict()
    return state if hasattr(owner, "param_groups") else copy.deepcopy(state)


def _class(owner: Any) -> str:
    return f"{type(owner).__module__}.{type(owner).__qualname__}"
