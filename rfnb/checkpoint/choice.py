"""Which entries of a checkpoint are taken, and what they are called in the module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from rfnb.core.missing import did_you_mean
from rfnb.errors import CheckpointError

Rename = Mapping[str, str | None] | Callable[[str], str | None]
Choice = str | Sequence[str] | Callable[[str], bool]
T = TypeVar("T")


def renamed(entries: Mapping[str, T], rename: Rename | None) -> dict[str, T]:
    """The entries under their new names; those whose new name is None are left out.

    Raises CheckpointError if two get one name, or a prefix is that of no entry.
    """
    if rename is None:
        return dict(entries)
    new_name = rename if callable(rename) else _by_prefix(rename, entries)
    found: dict[str, T] = {}
    old_names: dict[str, str] = {}
    for old, entry in entries.items():
        name = new_name(old)
        if name is None:
            continue
        if name in found:
            raise CheckpointError(f"load: `rename` makes two entries {name!r}", got=f"{old_names[name]!r} and {old!r}")
        found[name], old_names[name] = entry, old
    return found


def chooser(only: Choice | None, skip: Choice | None) -> Callable[[str], bool]:
    """Whether a parameter with this name is to be loaded."""
    within, without = _among(only, default=True), _among(skip, default=False)
    return lambda name: within(name) and not without(name)


def missing_prefix(entries: Iterable[str], parameters: Iterable[str]) -> str | None:
    """The `rename` that would make names match which differ by what is before them."""
    there, here = list(entries)[:200], list(parameters)[:200]
    for longer, shorter, write in ((there, here, '{{"{}": ""}}'), (here, there, '{{"": "{}"}}')):
        found = next((a.removesuffix(f".{b}") for a in longer for b in shorter if a.endswith(f".{b}")), None)
        if found is not None:
            return f"rename={write.format(found)}"
    return None


def _by_prefix(table: Mapping[str, str | None], names: Iterable[str]) -> Callable[[str], str | None]:
    """Prefixes are whole parts of a dotted name; the longest that fits counts."""
    prefixes = {old.strip("."): None if new is None else new.strip(".") for old, new in table.items()}
    idle = [prefix for prefix in prefixes if not any(_below(prefix, name) for name in names)]
    if idle:
        hint = did_you_mean(idle[0], names, cutoff=0.5)
        raise CheckpointError(f"load: `rename`: no entry is called {idle[0]!r}", hint=hint)

    def new_name(name: str) -> str | None:
        old = max((prefix for prefix in prefixes if _below(prefix, name)), key=len, default=None)
        if old is None:
            return name
        new, rest = prefixes[old], name[len(old) :].strip(".")
        return None if new is None else ".".join(filter(None, [new, rest]))

    return new_name


def _among(choice: Choice | None, *, default: bool) -> Callable[[str], bool]:
    if choice is None:
        return lambda _: default
    if callable(choice):
        return choice
    prefixes = [prefix.strip(".") for prefix in ([choice] if isinstance(choice, str) else choice)]
    return lambda name: any(_below(prefix, name) for prefix in prefixes)


def _below(prefix: str, name: str) -> bool:
    return not prefix or name == prefix or name.startswith(f"{prefix}.")
