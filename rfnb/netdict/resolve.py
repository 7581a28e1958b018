"""References in net dicts: which layer, of which net, or which data a string means. No tensors here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rfnb.core.ground.text import did_you_mean
from rfnb.errors import LayerNotFound, NetworkConstructionDependencyLoopException, NetworkError

EXTRA = re.compile(r"extra(\.[A-Za-z0-9_.()]+)?:")
STEP = ":i"
"""The number of the step, in a recurrent subnetwork."""
Value = TypeVar("Value")


def required(value: Value | None, fault: str, got: object = None, expected: str | None = None) -> Value:
    """The value. Raises NetworkError if it is None."""
    if value is None:
        raise NetworkError(fault, got=got, expected=expected)
    return value


def entry_of(table: Mapping[str, Value], name: str, fault: str, kind: type[NetworkError] = NetworkError) -> Value:
    """The entry with this name. Raises an error of this kind, with the names that there are, for another one."""
    if name not in table:
        raise kind(fault, expected=", ".join(table) or "none", hint=did_you_mean(name, table))
    return table[name]


def class_name(described: object) -> str:
    """The name of the class of a layer; "" if it has none, or none that is a string."""
    name = described.get("class") if isinstance(described, Mapping) else None
    return name if isinstance(name, str) else ""


NET_OPTIONS = {"rec": "unit", "subnetwork": "subnetwork"}
"""By class, the option that has the net dict inside of a layer."""


def inner_net(described: object) -> Mapping[str, Any] | None:
    """The net dict inside of a layer, whose layers are "name/layer" outside; None if it has none."""
    net = described.get(NET_OPTIONS.get(class_name(described))) if isinstance(described, Mapping) else None
    return net if isinstance(net, Mapping) else None


def layers_inside(described: Mapping[str, object]) -> list[object]:
    """The layers that make the result of a layer, each described in its options, or named there."""
    options = {"masked_computation": ("unit",), "cond": ("true_layer", "false_layer")}.get(class_name(described))
    return [described[option] for option in options or () if option in described]


def size_told(described: object) -> Any:
    """The number of features that a layer says it has, or that a layer inside of it says; None if it is not told.

    >>> from rfnb.netdict.resolve import size_told
    >>> size_told({"class": "masked_computation", "unit": {"class": "linear", "n_out": 3}})
    3
    """
    if not isinstance(described, Mapping):
        return None
    size = described.get("n_out") or described.get("out_dim") or (described.get("out_type") or {}).get("dim")
    inner = described.get("subnetwork")
    if isinstance(inner, Mapping):
        return size or size_in(inner, "output")
    return size or next(
        (inner_size for layer in layers_inside(described) if (inner_size := size_told(layer)) is not None), None
    )


def size_in(net: Mapping[str, object], name: object, above: tuple[object, ...] = ()) -> Any:
    """The number of features that a layer of a net says it has, or that those say which it copies; None if not told."""
    described = net.get(name) if isinstance(name, str) and name not in above else None
    size = size_told(described)
    if size is not None or not isinstance(described, Mapping) or class_name(described) != "copy":
        return size
    sizes = [size_in(net, source, (*above, name)) for source in names_of_sources(described, None)]
    return sum(sizes) if sizes and all(isinstance(size, int) for size in sizes) else None


@dataclass(eq=False)
class Scope:
    """A net dict, at its place: the whole one, or that of a subnetwork, which may be recurrent.

    >>> from rfnb.netdict.resolve import Scope
    >>> net = Scope({"sub": {"class": "subnetwork", "subnetwork": {"a": {"class": "copy"}}}, "b": {"class": "copy"}})
    >>> inside = net.sub("sub")
    >>> [where.path + name for where, name in (net.find("sub/a"), inside.find("a"), inside.find("base:b"))]
    ['sub/a', 'sub/a', 'b']
    """

    layers: Mapping[str, Any]
    path: str = ""
    parent: Scope | None = None
    name: str = ""
    subs: dict[str, Scope] = field(default_factory=dict)
    searches: bool = False
    main: Scope | None = None
    extras: dict[str, Scope] = field(default_factory=dict)

    @property
    def chain(self) -> list[Scope]:
        """This net and those around it, from the inside."""
        return [self] if self.parent is None else [self, *self.parent.chain]

    @property
    def root(self) -> Scope:
        """The whole net, or the additional one."""
        return self.chain[-1]

    @property
    def inside(self) -> list[Scope]:
        """The nets inside of this one that were asked for, and those of additional nets."""
        subs = [sub for net in (self, *self.extras.values()) for sub in net.subs.values()]
        return [net for sub in subs for net in (sub, *sub.inside)]

    @property
    def search(self) -> bool:
        """Whether choices search; in an additional net, whether its prefix says so."""
        return self.root.searches

    def extra(self, prefix: str) -> Scope:
        """The additional net "extra.name:", which has some layers of the whole net again."""
        if self.main is not None:
            return self.main.extra(prefix)
        if prefix not in self.extras:
            layers = {name[len(prefix) :]: layer for name, layer in self.layers.items() if str(name).startswith(prefix)}
            self.extras[prefix] = Scope(layers, prefix, searches=".search" in prefix, main=self)
        return self.extras[prefix]

    def sub(self, name: str) -> Scope:
        """The net inside of the subnetwork with this name."""
        if name not in self.subs:
            inner = inner_net(self.layers[name])
            if inner is None:
                fault = f"{self.path}{name}: the option subnetwork is not a net dict"
                got = type(self.layers[name].get("subnetwork")).__name__
                raise NetworkError(fault, got=got, expected='"subnetwork": {…}')
            self.subs[name] = Scope(inner, f"{self.path}{name}/", self, name)
        return self.subs[name]

    def is_subnet(self, name: str) -> bool:
        """Whether the layer with this name is a subnetwork."""
        described = self.layers.get(name)
        return class_name(described) == "subnetwork" or inner_net(described) is not None

    @property
    def recurrent(self) -> bool:
        """Whether this is the net of a recurrent layer: its layers are one step of a loop."""
        return self.parent is not None and self.options_of_subnet()["class"] == "rec"

    @property
    def in_loop(self) -> Scope | None:
        """The innermost recurrent net that this is, or that it is inside of."""
        return next((net for net in self.chain if net.recurrent), None)

    def options_of_subnet(self) -> Mapping[str, Any]:
        """The options of the layer whose net this is."""
        assert self.parent is not None
        options: Mapping[str, Any] = self.parent.layers[self.name]
        return options

    def find(self, reference: str, needed_by: str = "") -> tuple[Scope, str]:
        """The net and the name there that a reference means; a name there may be "data", "data:key" or "layer/part".

        Raises LayerNotFound, with the most similar name.
        """
        if not isinstance(reference, str):
            fault = f"{needed_by or 'a layer'} refers to something that is not a name"
            raise NetworkError(fault, got=repr(reference)[:60], expected="the name of a layer")
        if reference.startswith("base:"):
            if self.parent is None:
                raise self._missing(reference, needed_by, "base: is the net around a subnetwork; here is none")
            return self.parent.find(reference[len("base:") :], needed_by)
        if match := EXTRA.match(reference):
            return self.root.extra(match.group())._again(reference[match.end() :], needed_by)
        if reference in self.layers:
            return self, reference
        if reference.startswith("prev:") or reference == STEP:
            return self._of_loop(reference, needed_by)
        head, _, tail = reference.partition("/")
        if tail and head in self.layers:
            if not self.is_subnet(head):
                return self, reference
            path = f"output/{tail}" if tail.startswith("state:") else tail  # the state of a net is that of its output
            return self.sub(head).find(path, needed_by)
        if reference == "data" or reference.startswith("data:"):
            return self, reference
        if self.main is not None:
            return self.main.find(reference, needed_by)
        raise self._missing(reference, needed_by, did_you_mean(reference, [*self.layers, "data"]))

    def _again(self, reference: str, needed_by: str) -> tuple[Scope, str]:
        """In an additional net: a layer of the whole net, which it then has too."""
        assert self.main is not None
        head = reference if reference in self.main.layers else reference.partition("/")[0]
        if head in self.main.layers:
            self.layers = {head: self.main.layers[head], **self.layers}
        return self.find(reference, needed_by)

    def _of_loop(self, reference: str, needed_by: str) -> tuple[Scope, str]:
        """The recurrent net, and "prev:layer" with the path of the layer in it, or ":i"."""
        loop = self.in_loop
        if loop is None:
            hint = '"unit": {…} of a rec layer has steps'
            raise self._missing(reference, needed_by, f"{reference.partition(':')[0]}: is for recurrent nets: {hint}")
        if reference == STEP:
            return loop, STEP
        where, name = self.find(reference.removeprefix("prev:"), needed_by)
        return loop, f"prev:{(where.path + name).removeprefix(loop.path)}"

    def _missing(self, reference: str, needed_by: str, hint: str | None) -> LayerNotFound:
        where = f"the net {self.path.rstrip('/')}" if self.path else "the net"
        names = list(self.layers)
        listed = ", ".join(names[:10]) + (f", … ({len(names)})" if len(names) > 10 else "")
        fault = f"{where} has no layer {reference!r}"
        return LayerNotFound(f"{needed_by}: {fault}" if needed_by else fault, got=reference, expected=listed, hint=hint)


def registered_in(net_dict: Mapping[str, object]) -> dict[str, str]:
    """By data key, the layer that registers its output there."""
    layers = {name: described for name, described in net_dict.items() if isinstance(described, Mapping)}
    keys = {name: described.get("register_as_extern_data") for name, described in layers.items()}
    return {key: name for name, key in keys.items() if isinstance(key, str)}


def first_target(target: object) -> Any:
    """The target that a layer names, or the first one if it names several."""
    return target[0] if isinstance(target, list | tuple) and target else target


def names_of_sources(described: Mapping[str, Any], default: str | None) -> list[str]:
    """The names under `from`, without "none"."""
    sources = described.get("from", default)
    listed = [] if sources is None else list(sources) if isinstance(sources, list | tuple) else [sources]
    return [name for name in listed if not (isinstance(name, str) and name == "none")]


def names_of_operands(described: Mapping[str, object]) -> list[str]:
    """The names of what a layer is computed from: the base of attention, sources, and what the sides of a `cond` have;
    those of the step before last. What is not a name is left out: it is an error when the layer is constructed."""
    sides = layers_inside(described) if class_name(described) == "cond" else []
    of_sides = [name for side in sides if isinstance(side, Mapping) for name in names_of_operands(side)]
    names = [described.get("base"), *names_of_sources(described, None), *sides, *of_sides]
    return sorted([name for name in names if isinstance(name, str)], key=lambda name: "prev:" in name)


def sources_of(scope: Scope, name: str) -> list[tuple[Scope, str]]:
    """The layers under `from`; of a subnetwork, its output."""
    described = scope.layers.get(name)
    if not isinstance(described, Mapping) or scope.recurrent:
        return []
    if class_name(described) == "subnetwork":
        inner = described.get("subnetwork")
        return [(scope.sub(name), "output")] if isinstance(inner, Mapping) and "output" in inner else []
    return places_of(scope, names_of_sources(described, None))


def places_of(scope: Scope, names: Iterable[Any]) -> list[tuple[Scope, str]]:
    """The layers that names mean, with their nets. What does not exist is an error when it is needed."""
    places = []
    for name in names:
        try:
            where, reference = scope.find(name)
            while reference == "data" and where.parent is not None:
                inner = names_of_sources(where.options_of_subnet(), None)
                where, reference = where.parent.find(inner[0] if inner else "data")
        except NetworkError:
            continue
        head = reference if reference in where.layers else reference.partition("/")[0]
        if head in where.layers:
            places.append((where, head))
    return places


def in_circle(path: str, begun: list[str]) -> NetworkConstructionDependencyLoopException:
    """The error for a layer that is needed for its own construction."""
    circle = [*begun[begun.index(path) :], path]
    steps = circle if len(circle) < 12 else [*circle[:5], "…", *circle[-5:]]
    return NetworkConstructionDependencyLoopException(
        f"layer {path!r} needs itself: {' → '.join(steps)}",
        got=f"a circle of {len(circle) - 1} layers",
        hint='prev: in a recurrent subnetwork takes the last step: "from": "prev:…"',
    )


def reached(start: Iterable[Value], neighbours: Callable[[Value], Iterable[Value]]) -> set[Value]:
    """The start, and all that can be reached from it through neighbours.

    >>> from rfnb.netdict.resolve import reached
    >>> sorted(reached([6], lambda n: [n // 2]))
    [0, 1, 3, 6]
    """
    visited = set(start)
    todo = [*visited]
    while todo:
        new = {neighbour for neighbour in neighbours(todo.pop()) if neighbour not in visited}
        visited |= new
        todo += new
    return visited


def values_in(described: object) -> Iterator[object]:
    """All values in a net dict, whatever they are nested in."""
    if isinstance(described, Mapping | list | tuple):
        for entry in described.values() if isinstance(described, Mapping) else described:
            yield from values_in(entry)
    else:
        yield described


def texts_in(described: object) -> Iterator[str]:
    """All texts in a net dict, such as names of layers."""
    return (value for value in values_in(described) if isinstance(value, str))
