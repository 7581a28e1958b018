"""The choices of `rf.load`: which entries of a checkpoint are loaded, and their names in the module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from posixpath import commonpath
from typing import Any, TypeVar

from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import CheckpointError

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


def _prefixes(argument: str, choice: Any) -> list[str]:
    names = [choice] if isinstance(choice, str) else list(choice) if isinstance(choice, Iterable) else [choice]
    if not all(isinstance(prefix, str) for prefix in names):
        raise CheckpointError(f"{public_function()}: `{argument}` must be names", got=repr(choice), expected=_CHOICE)
    return [prefix.strip("./") for prefix in names]


_CHOICE = 'a prefix of names, such as "encoder" for everything in it, several prefixes, or a function of a name'


def _first_parts(names: Iterable[str]) -> str:
    """The first parts of the names, without repetition, at most six of them."""
    parts = list(dict.fromkeys(name.partition(".")[0] for name in names))
    return ", ".join(parts[:6]) + (" …" if len(parts) > 6 else "")


def _below(prefix: str, name: str) -> bool:
    return not prefix or name == prefix or name.startswith((f"{prefix}.", f"{prefix}/"))
