"""What a net dict says, without constructing it: each layer at its place, what it refers to, and what nothing needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rfnb.errors import RfError
from rfnb.netdict.build import layers_in_options, reused_layers
from rfnb.netdict.builder import class_of
from rfnb.netdict.extern_data import ExternData
from rfnb.netdict.inner_net import UNIT, InnerScope
from rfnb.netdict.layer import Layer, layer_by_class
from rfnb.netdict.resolve import EXTRA, Scope, first_target, inner_net, names_of_sources, registered_in
from rfnb.netdict.versions import holds

PLAIN = frozenset("class from target loss activation unit kind mode eval name_scope loss_opts".split())
"""Options of unknown classes whose value is not a layer."""


@dataclass(frozen=True)
class LayerReference:
    """What an option of a layer refers to.

    path: of the layer, "data:key", or "net/data" for the sources of the net around; None if there is no such thing.
    back: whether it is the value of the last step.
    """

    option: str
    written: str
    path: str | None
    back: bool = False


@dataclass(eq=False)
class OutlineEntry:
    """A layer of a net dict.

    ends: of a net inside, the paths of its outputs and losses; None if there is none. around: the layer whose net it
    is in.
    """

    path: str
    name: str
    scope: Scope
    described: Mapping[str, Any]
    references: list[LayerReference] = field(default_factory=list)
    ends: list[str] | None = None
    around: OutlineEntry | None = None
    used: bool = False

    @property
    def cls(self) -> str:
        """The class of the layer in the net dict."""
        return str(self.described.get("class", "?"))

    @property
    def line(self) -> int | None:
        """The line of the config, if the dict was read from one."""
        return getattr(self.described, "line", None)

    @property
    def needs(self) -> list[str]:
        """The paths of what it is computed from: the net inside as well, but not values of the last step."""
        paths = [reference.path for reference in self.references if reference.path is not None and not reference.back]
        if self.around is not None and f"{self.around.path}/data" in paths:
            paths += self.around.sources
        return [*paths, *(self.ends or ())]

    @property
    def sources(self) -> list[str]:
        """The paths of its sources, and of those of the layer around if these are its own."""
        paths = [source.path for source in self.references if source.option == "from" and source.path is not None]
        outer = self.around
        return paths if outer is None or f"{outer.path}/data" not in paths else [*paths, *outer.sources]


def outline(
    net_dict: Mapping[str, object],
    ends: Iterable[str],
    extern: ExternData,
    *,
    version: int = 0,
) -> dict[str, OutlineEntry]:
    """The layers by path: first those that the `ends` need, each after what it needs; then the unused ones.

    >>> from rfnb.netdict.report.outline import outline
    >>> net = {"a": {"class": "copy", "from": "data"}, "b": {"class": "copy", "from": "prev:a"}}
    >>> found = outline(net, ["b"], rf.ExternData())
    >>> [(entry.path, entry.used, entry.references[0].path, entry.references[0].back) for entry in found.values()]
    [('b', True, 'a', True), ('a', True, 'data:data', False)]
    """
    return _Outliner(net_dict, version, extern.default_input, extern.default_target).ordered(list(ends))


class _Outliner:
    def __init__(self, net_dict: Mapping[str, object], version: int, default_input: str, default_target: str):
        self.from_is_required = holds("from is required", version)
        self.default_input, self.default_target = default_input, default_target
        self.scopes: dict[str, Scope] = {}
        self.aliases = registered_in(net_dict)
        self.entries: dict[str, OutlineEntry] = {}
        root = Scope(net_dict)
        todo = [root]
        while todo:
            todo += self._collect(todo.pop())
        for entry in self.entries.values():
            entry.references = list(self._references(entry))
        self.back: list[str] = []

    def _collect(self, scope: Scope) -> Iterator[Scope]:
        for name, value in scope.layers.items():
            described = value if isinstance(value, Mapping) else {}
            if not isinstance(name, str) or name.startswith("#"):
                continue
            outer = self.entries.get(scope.path.rstrip("/"))
            entry = self.entries[scope.path + name] = OutlineEntry(
                scope.path + name, name, scope, described, around=outer
            )
            inner = inner_net(described)
            if inner is not None:
                sub = self.scopes[entry.path] = scope.sub(name)
                entry.ends = [sub.path + end for end in _inner_ends(inner)]
                yield sub
            elif units := _units(described):
                sub = self.scopes[entry.path] = InnerScope(units, f"{entry.path}/", scope, name, described=described)
                entry.ends = [sub.path + end for end in units]
                yield sub

    def ordered(self, ends: list[str]) -> dict[str, OutlineEntry]:
        """The entries in the order in which they are needed."""
        order: dict[str, OutlineEntry] = {}
        for path in [*self.aliases.values(), *ends]:
            self._visit(path, order)
        while self.back:
            self._visit(self.back.pop(0), order)
        for entry in order.values():
            entry.used = True
        for path in self.entries:
            self._visit(path, order)
        return order

    def _visit(self, path: str, done: dict[str, OutlineEntry]) -> None:
        visited: set[str] = set()
        todo = [(path, False)]
        while todo:
            path, ready = todo.pop()
            if path not in self.entries or path in done:
                continue
            if ready:
                done[path] = self.entries[path]
            elif path not in visited:
                visited.add(path)
                entry = self.entries[path]
                todo.append((path, True))
                todo.extend((need, False) for need in reversed(entry.needs))
                self.back += [need.path for need in entry.references if need.back and need.path is not None]

    # -- references

    def _references(self, entry: OutlineEntry) -> Iterator[LayerReference]:
        described, scope = entry.described, entry.scope
        try:
            cls = class_known(described)
        except RfError:
            cls = None
        default = None if self.from_is_required or cls is None or cls.traits.sourceless else "data"
        for name in names_of_sources(described, default):
            yield self._reference(scope, "from", name)
        for option, name in _named(cls, described, lambda name: self._resolved(scope, name)[0] in self.entries):
            yield self._reference(scope, option, name)
        if isinstance(described.get("masked_from"), str):
            yield self._reference(scope, "from", described["masked_from"])
        for name in reused_layers(described.get("reuse_params")):
            yield self._reference(scope, "reuse_params", name)
        target = first_target(described.get("target"))
        if target is None and described.get("loss") not in (None, "as_is"):
            target = self.default_target
        if isinstance(target, str):
            reference = target.removeprefix("layer:")
            of_layer = target.startswith("layer:") or target in scope.layers
            yield self._reference(scope, "target", reference if of_layer else f"data:{target}")

    def _is_source(self, scope: Scope, name: str) -> bool:
        """Whether a name in a unit means a source of the layer around it."""
        described = self.entries[scope.path.rstrip("/")].described
        return (name == "data" or name.startswith("data:")) and ("from" in described or "masked_from" in described)

    def _reference(self, scope: Scope, option: str, written: object) -> LayerReference:
        path, back = self._resolved(scope, str(written))
        return LayerReference(option, str(written), path, back)

    def _resolved(self, scope: Scope, name: str, back: bool = False) -> tuple[str | None, bool]:
        while True:
            if name in scope.layers:
                return scope.path + name, back
            if name.startswith("prev:"):
                name, back = name[len("prev:") :], True
            elif name.startswith("base:") and scope.parent is not None:
                name, scope = name[len("base:") :], scope.parent
            elif match := EXTRA.match(name):
                name = name[match.end() :]
            elif isinstance(scope, InnerScope) and scope.parent is not None and not self._is_source(scope, name):
                scope = scope.parent
            else:
                break
        head, _, tail = name.partition("/")
        if tail and head in scope.layers:
            sub = self.scopes.get(scope.path + head)
            if isinstance(sub, InnerScope):  # the layers of a unit have names without it
                sub = self.scopes.get(f"{sub.path}{UNIT}")
            return (scope.path + head, back) if sub is None else self._resolved(sub, tail, back)
        if name != "data" and not name.startswith("data:"):
            return None, back
        key = name[len("data:") :]
        if scope.parent is not None and (key in ("", "source") or key.isdecimal()):
            return f"{scope.path}data", back
        return self.aliases.get(key or self.default_input, f"data:{key or self.default_input}"), back


def _units(described: Mapping[str, object]) -> dict[str, object]:
    """The layers that a layer computes itself, by the options that describe them."""
    try:
        options = class_known(described).traits.units
    except RfError:
        return {}
    return {option: described[option] for option in options if isinstance(described.get(option), Mapping)}


def class_known(described: Mapping[str, object]) -> type[Layer]:
    """The class of a layer. Raises NetworkError if there is none."""
    return class_of(described) if isinstance(described.get("class"), str) else layer_by_class(described.get("class"))


def _inner_ends(inner: Mapping[str, object]) -> list[str]:
    """The layers of an inner net that are computed for their own sake."""
    ends = ["output"] if "output" in inner else []
    for name, described in inner.items():
        if not isinstance(described, Mapping) or name == "output" or str(name).startswith("#"):
            continue
        if name == "end" or described.get("loss") or described.get("is_output_layer"):
            ends.append(name)
    return ends


def _named(
    known: type[Layer] | None, described: Mapping[str, object], is_layer: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Pairs of an option and the layer that it names. Of unknown classes, each option that names a layer."""
    if known is None:
        for option, value in described.items():
            for name in value if isinstance(value, list | tuple) else [value]:
                if option not in PLAIN and isinstance(name, str) and is_layer(name):
                    yield option, name
        return
    yield from layers_in_options(known, described)
