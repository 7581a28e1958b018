"""The lines of a net dict as the source of a loop: values of its steps have the names of layers, and their lines."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.build.node import NetNode
from rfnb.netdict.layer import Layer
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.resolve import inner_net
from rfnb.printable import printable
from rfnb.trace.record.listing import Listing
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.trace.record.record import Recorder

WIDTH = 110
"""Most characters of a line that is written for a layer."""


class NetLines:
    """The lines that describe the layers of a recurrent net: those of its config, or else the dict, written down.

    listing: the lines. numbers: that of each layer, by its name in the net.
    """

    def __init__(self, rec: RecNet):
        self.rec = rec
        self.numbers: dict[str, int] = {}
        self.listing = self._of_config() or self._written()
        self.listing.name(self.numbers)

    @contextmanager
    def naming(
        self, recorder: Recorder, node: NetNode | RecNet, step: MutableMapping[str, Tensor] | None = None
    ) -> Iterator[None]:
        """Ops inside the block belong to the line of a layer; its value in `step` then has its name."""
        previous = recorder.line
        recorder.line = self.listing.at(self.numbers.get(self._line_of(node), 0))
        try:
            yield
            if isinstance(node, NetNode) and step is not None and not (node.kind == "part" and "/state:" in node.path):
                self._name(recorder, node, step)
        finally:
            recorder.line = previous

    def _name(self, recorder: Recorder, node: NetNode, step: MutableMapping[str, Tensor]) -> None:
        """Names the value of a layer."""
        x = step.get(node.path)
        if isinstance(x, Traced) and x.recorder is recorder:
            op = node.kind if node.layer is None else node.layer.layer_class or ""
            step[node.path] = recorder.called(x, self.rec.name_of(node.path), op)

    def _line_of(self, node: NetNode | RecNet) -> str:
        """The name of the layer on whose line a value is shown."""
        name = self.rec.name_of(node.of if isinstance(node, NetNode) and node.kind == "previous" else node.path)
        while name not in self.numbers and "/" in name:
            name = name.rpartition("/")[0]
        return name

    def _of_config(self) -> Listing | None:
        """The lines of the config; None if it is not known, or has changed."""
        unit = self.rec.scope.layers
        file = getattr(unit, "file", None)
        numbers = dict(_located(unit))
        if file is None or not numbers:
            return None
        text = linecache.getlines(file)
        first, last = _around(text, [*numbers.values(), unit.line])  # type: ignore[attr-defined]
        if last > len(text):
            return None
        self.numbers = numbers
        return Listing(file, first, [line.rstrip("\n") for line in text[first - 1 : last]])

    def _written(self) -> Listing:
        """The net dict, with a line for each layer."""
        assert self.rec.scope.parent is not None
        options = {key: value for key, value in self.rec.scope.options_of_subnet().items() if key != "unit"}
        lines = [f'"{self.rec.scope.name}": {_shown(options)[:-1]}, "unit": {{']
        for name, text in _lines(self.rec.scope.layers, "", 1):
            if name:
                self.numbers[name] = len(lines) + 1
            lines.append(text)
        return Listing.of_text("net dict", [*lines, "}}"])


def _located(layers: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """The layers of a net with the lines where a config writes them, those inside of others too."""
    for name, described in layers.items():
        line = getattr(described, "line", None)
        if line is not None:
            yield f"{prefix}{name}", line
        if isinstance(inner := inner_net(described), Mapping):
            yield from _located(inner, f"{prefix}{name}/")


def _around(text: list[str], lines: list[Any]) -> tuple[int, int]:
    """The first and the last line of the smallest dict in a text that has all these lines, or of the lines alone."""
    first, last = min(line for line in lines if line), max(line for line in lines if line)
    try:
        dicts = [node for node in ast.walk(ast.parse("".join(text))) if isinstance(node, ast.Dict)]
    except (SyntaxError, ValueError, RecursionError):
        return first, last
    spans = [(node.lineno, node.end_lineno or node.lineno) for node in dicts]
    enclosing = [span for span in spans if span[0] <= first and last <= span[1]]
    end = max(end for start, end in [*spans, (last, last)] if start == last)
    return min(enclosing, key=lambda span: span[1] - span[0], default=(first, end))


def _lines(layers: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """For each layer its name and its line, indented; "" instead of the name for lines that close a net."""
    for name, described in layers.items():
        indent = "    " * depth
        inner = inner_net(described)
        if not isinstance(inner, Mapping):
            yield f"{prefix}{name}", f'{indent}"{name}": {_shown(described)},'
            continue
        key = "unit" if described["class"] == "rec" else "subnetwork"
        options = {option: value for option, value in described.items() if option != key}
        yield f"{prefix}{name}", f'{indent}"{name}": {_shown(options)[:-1]}, "{key}": {{'
        yield from _lines(inner, f"{prefix}{name}/", depth + 1)
        yield "", f"{indent}}}}},"


def _shown(described: Any) -> str:
    """The description of a layer as a config would write it, shortened."""
    text = printable(_text(described))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 2]}…}}"


def _text(given: Any) -> str:
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_text(value)}" for key, value in given.items()) + "}"
    if isinstance(given, str):
        return '"' + given.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(given, list | tuple):
        entries = ", ".join(map(_text, given))
        return f"[{entries}]" if isinstance(given, list) else f"({entries}{',' if len(given) == 1 else ''})"
    return repr(given)[:40]


def called(layer: Layer, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a layer as a call of it, for those who watch the calls of modules."""
    listener = active_listener()
    if listener is None:
        return partial(method, layer)
    return lambda *args, **kwargs: listener.call_module(layer, method, args, kwargs)
