"""`rf.diff`: what two nets of layers do not have in common, and what follows: dims, parameters, the receptive field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.show import Shown
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError, RfError
from rfnb.netdict.axes import time_of
from rfnb.netdict.build import NetNode
from rfnb.netdict.config.read import Config
from rfnb.netdict.config.values import Frame, Function, Unknown
from rfnb.netdict.extern_data import ExternData
from rfnb.netdict.network import Network
from rfnb.netdict.resolve import inner_net

NETS = ("unit", "subnetwork")
MISSING = "–"
ALIKE = 0.6


@dataclass(frozen=True)
class OptionChange:
    """An option of a layer with other values in two nets; `MISSING` where it is not given.

    layer: the path in the second net. Of functions of a config, also those that an `eval` or another function names,
        `before` and `after` are the first lines that differ.
    """

    layer: str
    option: str
    before: object
    after: object


@dataclass(frozen=True)
class Consequence:
    """What follows from the changes. layer: the path in the second net; "" for the whole net.

    what: "dims", "parameters" or "receptive field".
    """

    layer: str
    what: str
    before: str
    after: str


@dataclass(eq=False, repr=False)
class NetDiff(Shown):
    """The result of `rf.diff`. It is true if there is a difference.

    Attributes:
        names: of the two nets. added: paths in the second net. gone: paths in the first one.
        renamed: new paths by old ones. changes: of options. consequences: in dims, parameters, the receptive field.
        layers: all paths, those of the second net and in between those that are gone. notes: what is not known.
    """

    names: tuple[str, str]
    added: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    changes: list[OptionChange] = field(default_factory=list)
    consequences: list[Consequence] = field(default_factory=list)
    layers: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.gone or self.renamed or self.changes or self.consequences)

    @property
    def changed(self) -> list[str]:
        """The paths of layers with other options, in the second net."""
        return list(dict.fromkeys(change.layer for change in self.changes))


@guarded
def diff(a: object, b: object) -> NetDiff:
    """What two nets do not have in common: layers added, gone and renamed, options, and what follows from them.

    Of configs and networks, also dims, numbers of parameters, and the receptive field; of net dicts alone, these are
    not known.

    Args:
        a, b: net dicts, configs, networks, or stages of a config.

    >>> a = {"ff": {"class": "linear", "n_out": 5, "from": "data"}, "output": {"class": "softmax", "from": "ff"}}
    >>> b = {"ff1": {"class": "linear", "n_out": 7, "from": "data"}, "output": {"class": "softmax", "from": "ff1"}}
    >>> difference = rf.diff(a, b)
    >>> difference.renamed, [(change.layer, change.option, change.after) for change in difference.changes]
    ({'ff': 'ff1'}, [('ff1', 'n_out', 7)])
    """
    sides = [_Side.of(x, name) for x, name in ((a, "a"), (b, "b"))]
    first, second = sides
    result = NetDiff((first.name, second.name))
    result.renamed = _renamed(first.layers, second.layers)
    after = {path: result.renamed.get(path, path) for path in first.layers}
    result.gone = [path for path in first.layers if after[path] not in second.layers]
    result.added = [path for path in second.layers if path not in set(after.values())]
    before = {new: old for old, new in after.items() if new in second.layers}
    for new, old in ((new, before[new]) for new in second.layers if new in before):
        described = _with_names(first.layers[old], old, result.renamed)
        result.changes += option_changes(new, described, second.layers[new], (first.functions, second.functions))
    result.layers = _merged(first.layers, second.layers, after)
    result.notes = [f"{side.name}: {side.note}" for side in sides if side.note]
    if all(side.net is not None for side in sides):
        result.consequences = list(_consequences(first, second, before))
    return result


@dataclass(eq=False)
class _Side:
    """One of the two nets.

    Attributes:
        layers: their options by path, without nets inside. functions: the values of its config.
        net: if it can be constructed.
    """

    name: str
    layers: dict[str, dict[str, object]]
    net: Network | None = None
    note: str = ""
    functions: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object, name: str) -> _Side:
        """Raises NetworkError for what is not a net."""
        if isinstance(given, Network):
            layers = dict(layers_by_path(given._builder.scope.layers))
            return cls(given.name, layers, given, functions=given.config)
        if isinstance(given, Config):
            net, note = _constructed(given)
            layers = dict(layers_by_path(given.network()))
            return cls(given.path.rpartition("/")[2], layers, net, note, given.values)
        net_dict = given if isinstance(given, Mapping) else getattr(given, "net_dict", None)
        if not isinstance(net_dict, Mapping):
            fault = f"diff: `{name}` is not a net"
            raise NetworkError(fault, got=type(given).__name__, expected="a net dict, a config or a network")
        return cls(str(getattr(given, "name", name)), dict(layers_by_path(net_dict)))


def _constructed(config: Config) -> tuple[Network | None, str]:
    try:
        net = Network(config=dict(config.values), extern_data=ExternData(config.extern_data()))
        return net.construct_from_dict(config.network(), strict=False), ""
    except RfError as error:
        return None, f"dims and parameters are not known: {error.what}"


def layers_by_path(layers: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
    """The layers by path, those inside of others after them, each without the net inside."""
    for name, described in layers.items():
        if not isinstance(described, Mapping) or str(name).startswith("#"):
            continue
        inner = inner_net(described)
        options = {key: x for key, x in described.items() if inner is None or key not in NETS}
        yield f"{prefix}{name}", options
        if inner is not None:
            yield from layers_by_path(inner, f"{prefix}{name}/")


def _renamed(a: Mapping[str, dict[str, object]], b: Mapping[str, dict[str, object]]) -> dict[str, str]:
    """New names by old ones: of layers of one class with equal options, else with similar names and options."""
    renamed: dict[str, str] = {}
    exact = True
    while True:
        new = [path for path in b if path not in a and path not in renamed.values()]
        old = [path for path in a if path not in b and path not in renamed]
        best: tuple[float, str, str] = (0.0, "", "")
        for path in old:
            described = _with_names(a[path], path, renamed)
            for other in new:
                score = _likeness(path, other, described, b[other], exact=exact)
                if score > best[0] and score >= ALIKE:
                    best = score, path, other
        if best[1]:
            renamed[best[1]] = best[2]
            exact = True
        elif exact:
            exact = False
        else:
            return renamed


def _likeness(path: str, other: str, a: Mapping[str, object], b: Mapping[str, object], *, exact: bool) -> float:
    """1 and more for equal options; less for a part of them, of layers with similar names, or 0 if exact."""
    if a.get("class") != b.get("class") or path.rpartition("/")[0] != other.rpartition("/")[0]:
        return 0.0
    options = {*a, *b} - {"class"}
    equal = sum(_equal(a.get(option), b.get(option)) for option in options)
    share = equal / len(options) if options else 1.0
    if exact and share < 1.0:
        return 0.0
    names = _likeness_of_names(path, other)
    return 1.0 + names if share == 1.0 else share * 0.5 + names * 0.5 if names >= ALIKE else 0.0


@lru_cache(2**16)
def _likeness_of_names(path: str, other: str) -> float:
    return SequenceMatcher(None, path, other).ratio()


def _with_names(described: Mapping[str, object], path: str, renamed: Mapping[str, str]) -> dict[str, object]:
    """The options of a layer, with the new names of other layers."""
    prefix = path[: path.rfind("/") + 1]
    names = {
        old.removeprefix(prefix): new.removeprefix(prefix) for old, new in renamed.items() if old.startswith(prefix)
    }
    names |= {f"base:{old}": f"base:{new}" for old, new in renamed.items() if "/" not in old}

    def changed(x: object) -> object:
        if isinstance(x, str):
            head = "prev:" if x.startswith("prev:") else ""
            name = x.removeprefix(head)
            return head + names.get(name, name)
        if isinstance(x, list | tuple):
            return [changed(part) for part in x]
        return {key: changed(part) for key, part in x.items()} if isinstance(x, Mapping) else x

    return {option: changed(x) if option != "class" else x for option, x in described.items()}


def _equal(a: object, b: object) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b) and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, Dim) and isinstance(b, Dim):
        return a is b or (a.name, a.dimension) == (b.name, b.dimension)
    if isinstance(a, Function) and isinstance(b, Function):  # the config makes them anew each time that it is read
        return lines_of(a) == lines_of(b)
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return repr(a) == repr(b)
    try:
        return (type(a) is type(b) and bool(a == b or (a != a and b != b))) or (isinstance(a, int | float) and a == b)
    except Exception:  # of a value of the user
        return repr(a) == repr(b)


def lines_of(function: Function, written: set[str] | None = None) -> list[str]:
    """The lines of a function, without comments, and of functions and plain values of the config that it names."""
    written = {function.name} if written is None else written
    lines = ast.unparse(function.node).split("\n")
    for name in dict.fromkeys(node.id for node in ast.walk(function.node) if isinstance(node, ast.Name)):
        frame: Frame | None = function.frame
        while frame is not None and name not in frame.names:
            frame = frame.parent
        value = None if frame is None or name in written else frame.names[name]
        written.add(name)
        if isinstance(value, Function):
            lines += lines_of(value, written)
        elif isinstance(value, bool | int | float | str | tuple | list):
            lines.append(f"{name} = {value!r}")
    return lines


def option_changes(
    path: str,
    a: Mapping[str, object],
    b: Mapping[str, object],
    values: tuple[Mapping[str, object], Mapping[str, object]] = ({}, {}),
) -> list[OptionChange]:
    """The options of a layer that differ. values: of the two configs, which may have functions that options name."""
    changes = []
    for option in dict.fromkeys([*a, *b]):
        x, y = a.get(option, MISSING), b.get(option, MISSING)
        functions: list[tuple[object, ...]] = [(x, y)]
        if isinstance(x, str) and x == y and "(" in x:  # an expression
            functions = [tuple(side.get(name) for side in values) for name in dict.fromkeys(re.findall(r"\w+", x))]
        elif not (isinstance(x, Function) and isinstance(y, Function)):
            functions = []
            if not (option in a and option in b and _equal(x, y)):
                changes.append(OptionChange(path, option, x, y))
        for before, after in functions:
            if isinstance(before, Function) and isinstance(after, Function):
                lines = zip_longest(lines_of(before), lines_of(after), fillvalue="")
                differing = [OptionChange(path, option, old.strip(), new.strip()) for old, new in lines if old != new]
                changes += differing[:1]
    return changes


def _merged(a: Mapping[str, object], b: Mapping[str, object], after: Mapping[str, str]) -> list[str]:
    """The layers of the second net, and each one that is gone after the one before it."""
    order, place = list(b), 0
    for path in a:
        if after[path] in b:
            place = order.index(after[path]) + 1
        else:
            order.insert(place, path)
            place += 1
    return order


# -- what follows


def _consequences(first: _Side, second: _Side, before: Mapping[str, str]) -> Iterator[Consequence]:
    """Other dims of layers, other numbers of parameters, and another receptive field of the outputs."""
    a, b = first.net, second.net
    assert a is not None and b is not None
    templates, others = a.templates(), b.templates()
    layers, new_layers = a.every_layer(), b.every_layer()
    for new, old in before.items():
        if old in templates and new in others and _dims(templates[old]) != _dims(others[new]):
            yield Consequence(new, "dims", _dims(templates[old]), _dims(others[new]))
        counts = [
            sum(parameter.num_elements() for parameter in side[path].params.values()) if path in side else 0
            for side, path in ((layers, old), (new_layers, new))
        ]
        if counts[0] != counts[1]:
            yield Consequence(new, "parameters", f"{counts[0]:,}", f"{counts[1]:,}")
    total = [net.get_num_params() for net in (a, b)]
    if total[0] != total[1]:
        yield Consequence("", "parameters", f"{total[0]:,}", f"{total[1]:,}")
    for layer in b.get_output_layers():
        origin = before.get(layer.name)
        if origin is not None and origin in a.layers:
            fields: list[ReceptiveField] = [receptive_field(a, origin), receptive_field(b, layer.name)]
            if fields[0] != fields[1]:
                yield Consequence(layer.name, "receptive field", str(fields[0]), str(fields[1]))


def _dims(x: Tensor) -> str:
    """The dims with their sizes; those of data without."""
    names = [str(dim.dimension) if dim.dimension is not None else dim.name for dim in x.dims]
    labels = f" of {x.sparse_dim.dimension} labels" if x.sparse_dim is not None else ""
    return f"{{{', '.join(names)}}}{labels}"


ALL = frozenset(
    "rec rnn_cell self_attention generic_attention dot_attention concat_attention gauss_window_attention twod_lstm "
    "cumsum reduce masked_computation relative_positional_encoding softmax_over_spatial".split()
)
"""Classes that may take all frames."""


@dataclass(frozen=True)
class ReceptiveField:
    """frames: so many frames of the data, or None for all. step: from one frame to the next, in frames of the data.

    >>> from rfnb.netdict.code.diff import ReceptiveField
    >>> print(ReceptiveField(7, 2.0)), print(ReceptiveField(None, 1.0))
    7 frames, one for 2 frames
    all frames, one for 1 frame
    (None, None)
    """

    frames: int | None = 1
    step: float = 1.0

    def __str__(self) -> str:
        frames = "all frames" if self.frames is None else f"{self.frames} frame{'s' * (self.frames != 1)}"
        return f"{frames}, one for {self.step:g} frame{'s' * (self.step != 1)}"


def receptive_field(net: Network, path: str) -> ReceptiveField:
    """That of a layer. Raises LayerNotFound."""
    net.get_layer(path)
    fields: dict[str, ReceptiveField] = {}
    for name, node in net._nodes.items():
        sources = [fields[need] for need in node.needs if need in fields]
        frames = [field.frames for field in sources]
        counts = [count for count in frames if count is not None]
        widest = None if None in frames else max(counts, default=1)
        fields[name] = _through(node, ReceptiveField(widest, max((field.step for field in sources), default=1.0)), net)
    return fields[path]


def _through(node: NetNode, field: ReceptiveField, net: Network) -> ReceptiveField:
    """The field of a layer, from that of its source."""
    layer: Any = node.layer
    kind = (layer.layer_class or "").partition(":")[0] if layer is not None else ""
    if kind == "reduce" or kind == "softmax_over_spatial":
        source = net._nodes[node.sources[0]].template if node.sources else None
        frames = None if source is None else time_of(source)
        over = frames is not None and (frames not in node.template.dims or kind == "softmax_over_spatial")
        return ReceptiveField(None, field.step) if over else field
    if kind in ALL or (layer is not None and layer.traits.recurrent):
        return ReceptiveField(None, field.step)
    size, dilation, stride = 1, 1, 1.0
    if kind in ("conv", "pool"):  # the time is the first axis of windows
        size, dilation, stride = layer.sizes[0], layer.dilations[0], layer.steps[0]
    elif kind == "transposed_conv":
        stride = 1 / layer.steps[0]
    elif kind == "window":
        size, stride = layer.new_dim.get_dim_value(), layer.stride
    elif kind == "resize":
        stride = 1 / layer.factor
    if field.frames is None:
        return ReceptiveField(None, field.step * stride)
    return ReceptiveField(field.frames + round((size - 1) * dilation * field.step), field.step * stride)
