"""Matches the parameters of a module with the entries of a checkpoint, by the choices of `rf.load`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from posixpath import commonpath
from typing import NamedTuple, TypeVar

from rfnb.checkpoint.entries import StoredEntry
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean, nearest
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError
from rfnb.nn.bridge.mirror import take_over
from rfnb.nn.module.module import Module

Rename = Mapping[str, str | None] | Callable[[str], str | None]
Choice = str | Sequence[str] | Callable[[str], bool]
T = TypeVar("T")


def renamed(entries: Mapping[str, T], rename: Rename | None) -> dict[str, T]:
    """The entries under their new names, without those whose new name is None.

    Raises CheckpointError if two entries get the same name, or if no entry has one of the prefixes.
    """
    if rename is None:
        return dict(entries)
    if not callable(rename) and not _is_table(rename):
        way = '{"old prefix": "new prefix"}, None for entries to leave out, or a function from name to name'
        raise CheckpointError(f"{public_function()}: `rename` is not a table of names", got=repr(rename), expected=way)
    new_name = rename if callable(rename) else _by_prefix(rename, entries)
    result: dict[str, T] = {}
    old_names: dict[str, str] = {}
    for old, entry in entries.items():
        name = new_name(old)
        if name is None:
            continue
        if name in result:
            got = f"{old_names[name]!r} and {old!r}"
            raise CheckpointError(f"{public_function()}: `rename` gives two entries the name {name!r}", got=got)
        result[name], old_names[name] = entry, old
    return result


def chooser(only: Choice | None, skip: Choice | None, names: Collection[str]) -> Callable[[str], bool]:
    """A function that says whether the parameter with a name is to be loaded. names: all existing names.

    Raises CheckpointError if a choice is not valid, or if no name has one of the prefixes.
    """
    within, without = _among("only", only, names, default=True), _among("skip", skip, names, default=False)
    return lambda name: within(name) and not without(name)


def missing_prefix(entries: Iterable[str], parameters: Iterable[str], *, of_all: bool = False) -> str | None:
    """The `rename` that would make the names match, if they differ only by a prefix. of_all: no names match so far."""
    stored, ours = list(entries)[:200], list(parameters)[:200]
    if prefix := _before(stored, ours):
        return f'rename={{"{prefix}": ""}}'
    prefix = _before(ours, stored)
    if prefix is None:
        return None
    parts = [""] if of_all else dict.fromkeys(name.partition(".")[0] for name in stored if f"{prefix}.{name}" in ours)
    table = {part: f"{prefix}.{part}".rstrip(".") for part in parts}
    written = [f'"{old}": "{new}"' for old, new in table.items()]
    return f"rename={{{', '.join(written)}}}"


def _before(longer: Iterable[str], shorter: Iterable[str]) -> str | None:
    """The prefix by which one of the longer names differs from one of the shorter names."""
    return next((a.removesuffix(f".{b}") for a in longer for b in shorter if a.endswith(f".{b}")), None)


def common_part(names: Iterable[str]) -> list[str]:
    """The longest common prefix of all names; the first parts of the names if there is none."""
    prefix = commonpath([name.replace(".", "/") for name in names]).replace("/", ".")
    return [prefix] if prefix else list(dict.fromkeys(name.partition(".")[0] for name in names))


def _by_prefix(table: Mapping[str, str | None], names: Iterable[str]) -> Callable[[str], str | None]:
    """A function from old to new names. Prefixes are whole parts of a name; the longest match is used."""
    prefixes = {old.strip("./"): None if new is None else new.strip("./") for old, new in table.items()}
    idle = [prefix for prefix in prefixes if not any(_below(prefix, name) for name in names)]
    if idle:
        hint = did_you_mean(idle[0], names, cutoff=0.5)
        raise CheckpointError(f"{public_function()}: `rename`: no entry is named {idle[0]!r}", hint=hint)

    def new_name(name: str) -> str | None:
        old = max((prefix for prefix in prefixes if _below(prefix, name)), key=len, default=None)
        if old is None:
            return name
        new, suffix = prefixes[old], name[len(old) :]
        if not new or not suffix:
            return None if new is None else new or suffix.lstrip("./")
        return f"{new}{'' if suffix[0] in './' else '/' if '/' in name and '.' not in name else '.'}{suffix}"

    return new_name


def _is_table(rename: object) -> bool:
    """Whether `rename` is a mapping from names to names or None."""
    names = [(old, "" if new is None else new) for old, new in rename.items()] if isinstance(rename, Mapping) else [()]
    return all(pair and all(isinstance(name, str) for name in pair) for pair in names)


def _among(argument: str, choice: Choice | None, names: Collection[str], *, default: bool) -> Callable[[str], bool]:
    if choice is None:
        return lambda _: default
    if callable(choice):
        return choice
    prefixes = _prefixes(argument, choice)
    idle = [prefix for prefix in prefixes if not any(_below(prefix, name) for name in names)]
    if idle and names:
        raise CheckpointError(
            f"{public_function()}: `{argument}`: no parameter or entry is named {idle[0]!r}",
            got=_first_parts(names),
            expected=_CHOICE,
            hint=did_you_mean(idle[0], names, cutoff=0.5),
        )
    return lambda name: any(_below(prefix, name) for prefix in prefixes)


def _prefixes(argument: str, choice: object) -> list[str]:
    names = [choice] if isinstance(choice, str) else list(choice) if isinstance(choice, Iterable) else [choice]
    prefixes = [prefix.strip("./") for prefix in names if isinstance(prefix, str)]
    if len(prefixes) < len(names):
        raise CheckpointError(f"{public_function()}: `{argument}` must be names", got=repr(choice), expected=_CHOICE)
    return prefixes


_CHOICE = 'a prefix of names, such as "encoder" for everything in it, several prefixes, or a function of a name'


def _first_parts(names: Iterable[str]) -> str:
    """The first parts of the names, without repetition, at most six of them."""
    parts = list(dict.fromkeys(name.partition(".")[0] for name in names))
    return ", ".join(parts[:6]) + (" …" if len(parts) > 6 else "")


def _below(prefix: str, name: str) -> bool:
    return not prefix or name == prefix or name.startswith((f"{prefix}.", f"{prefix}/"))


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
    take_over(module)
    whole: Owners = (("", module),)
    owned = {id(parameter): ({name: whole}, parameter) for name, parameter in module.named_parameters()}
    for name, parameter, owners in _every_name(whole):
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
