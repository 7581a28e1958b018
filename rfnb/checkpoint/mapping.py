"""Matches the parameters of a module with the entries of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rfnb.checkpoint.stored import StoredEntry
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import nearest
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError
from rfnb.nn.module.module import Module

_SHOWN = 12  # maximum number of complaints in a message


Owners = tuple[tuple[str, Module], ...]
"""The modules around a parameter with the names that they have in the whole, outermost first."""


class Target(NamedTuple):
    """A parameter with all its names: the first is that of `named_parameters`, the others are of tied parameters.

    owners: by name.
    """

    names: tuple[str, ...]
    parameter: Parameter
    owners: Mapping[str, Owners]

    @property
    def name(self) -> str:
        """The first name."""
        return self.names[0]


@dataclass(frozen=True)
class Match:
    """Which parameters and entries fit, and which do not, by name."""

    fitting: list[tuple[Target, list[StoredEntry]]]
    missing: dict[str, Parameter]
    unexpected: dict[str, StoredEntry]
    misshaped: dict[str, tuple[Parameter, StoredEntry]]
    skipped: list[str]

    def complaints(self, *, strict: bool) -> list[str]:
        """One line for each problem that prevents loading the checkpoint."""
        lines = [f"{name}: {_compared(p, entry)}" for name, (p, entry) in self.misshaped.items()]
        if strict:
            lines += [
                f"missing {name} {described(p)}{_near(name, self.unexpected)}" for name, p in self.missing.items()
            ]
            lines += [
                f"unexpected {name} {entry}{_near(name, self.missing)}" for name, entry in self.unexpected.items()
            ]
        return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"… and {len(lines) - _SHOWN} more"]


def targets(module: Module) -> list[Target]:
    """All parameters, each with all its names. Raises CheckpointError if `module` is not an rf.Module."""
    if not isinstance(module, Module):
        raise CheckpointError(
            f"{public_function()}: `module` is not an rf.Module",
            got=f"{type(module).__module__}.{type(module).__qualname__}",
            hint=_instead(module, public_function()),
        )
    owned: dict[int, tuple[dict[str, Owners], Parameter]] = {}
    for name, parameter in module.named_parameters():
        owned[id(parameter)] = {name: (("", module),)}, parameter
    for name, parameter, owners in _every_name((("", module),)):
        if id(parameter) in owned:
            owned[id(parameter)][0][name] = owners
    return [Target(tuple(names), parameter, names) for names, parameter in owned.values()]


def _instead(given: object, called: str) -> str:
    """What to write if something else was given where `called` expects a module."""
    if hasattr(given, "rf_module"):
        return "net.rf_module"
    if hasattr(given, "state_dict"):
        return "torch.save(net.state_dict(), path)" if called == "save" else "net.load_state_dict(torch.load(path))"
    return "rf.save(module, path)" if called == "save" else f"rf.{called}(path, module)"


def match(targets: list[Target], entries: Mapping[str, StoredEntry], chosen: Callable[[str], bool]) -> Match:
    """Compares names and shapes. A tied parameter may be stored under any of its names."""
    selection = [target for target in targets if any(map(chosen, target.names))]
    pairs = [(target, [entries[name] for name in target.names if name in entries]) for target in selection]
    named = [(name, target.parameter) for target in selection for name in target.names if name in entries]
    wrong = {name: (parameter, entries[name]) for name, parameter in named if not fits(parameter, entries[name])}
    keys = {entry.key for _, stored in pairs for entry in stored}
    return Match(
        fitting=[(target, stored) for target, stored in pairs if stored and wrong.keys().isdisjoint(target.names)],
        missing={t.name: t.parameter for t, stored in pairs if not stored and not t.parameter.non_critical_for_restore},
        unexpected={name: entry for name, entry in entries.items() if entry.key not in keys and chosen(name)},
        misshaped=wrong,
        skipped=[target.name for target in targets if target not in selection],
    )


class Sharing(NamedTuple):
    """The option of a module that says whether a parameter is shared with another, and its present value."""

    option: str
    value: bool


def sharing_of(module: Module, names: Iterable[str]) -> Sharing | None:
    """The option for the first of these parameters for which there is one."""
    options = {
        f"{path}.{name}".lstrip("."): option
        for path, part in module.named_modules()
        for name, option in part._shared_by.items()
    }
    name = next((name for name in names if name in options), None)
    return None if name is None else Sharing(options[name], name not in dict(module.named_parameters()))


def described(parameter: Parameter) -> str:
    """The dims of a parameter, for messages: "{in:3, out:4}"."""
    return f"{{{', '.join(f'{dim.name}:{dim.dimension}' for dim in parameter.dims)}}}"


def order(parameter: Parameter, entry: StoredEntry) -> list[int] | None:
    """The permutation that brings an entry with the same dims into the order of the parameter; None if not needed."""
    names = [dim.name for dim in parameter.dims]
    if entry.dims is None or sorted(entry.dims) != sorted(names) or len(set(names)) < len(names):
        return None
    return [entry.dims.index(name) for name in names]


def _every_name(owners: Owners) -> Iterator[tuple[str, Parameter, Owners]]:
    path, module = owners[-1]
    for name, value in list(vars(module).items()):
        full_name = f"{path}.{name}" if path else name
        if isinstance(value, Parameter):
            yield full_name, value, owners
        elif isinstance(value, Module) and all(value is not owner for _, owner in owners):
            yield from _every_name((*owners, (full_name, value)))


def fits(parameter: Parameter, entry: StoredEntry) -> bool:
    """Whether the entry has the shape of the parameter and values of the same kind."""
    axes = order(parameter, entry) or range(len(entry.shape))
    shape = tuple(dim.dimension for dim in parameter.dims)
    return shape == tuple(entry.shape[axis] for axis in axes) and _kind(parameter.dtype) == _kind(entry.dtype)


def _compared(parameter: Parameter, entry: StoredEntry) -> str:
    kinds = ("", "") if _kind(parameter.dtype) == _kind(entry.dtype) else (f" {parameter.dtype}", f" {entry.dtype}")
    return f"{described(parameter)}{kinds[0]} in the module, {entry}{kinds[1]} in the file"


def _kind(dtype: str) -> str:
    """The kind of a dtype: floats of any size are of one kind, and so are integers."""
    return next((kind for kind in ("float", "uint", "int", "complex") if kind in dtype), dtype)


def _near(name: str, others: Mapping[str, object]) -> str:
    return "".join(f" (is it {near}?)" for near in nearest(name, others, cutoff=0.5))
