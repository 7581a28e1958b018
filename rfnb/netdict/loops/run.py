"""Runs a recurrent net: its loop, whose states are the values of the step before and those of its layers.

The lines of the net dict are the source of the loop: values of its steps have the names of layers, and their lines.
"""

from __future__ import annotations

import ast
import linecache
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.source import Listing
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import RfError
from rfnb.loop.loop import Loop
from rfnb.netdict.axes import time_of
from rfnb.netdict.build import NetNode, prepared_of, stepping, take_parts
from rfnb.netdict.layer import ChoosingLayer, Layer, SteppingLayer
from rfnb.netdict.layer_call import ErrorsOf, held_parameters, named_after
from rfnb.netdict.loops.build import longest
from rfnb.netdict.loops.net import (
    RecNet,
    along,
    featured,
    filled,
    forget_penalties,
    give_back,
    like,
    mapped,
    of_losses,
    one_more,
    with_axis,
    with_frames,
)
from rfnb.netdict.loops.order import needs_of
from rfnb.netdict.loops.search import StepsOfSearch, result_of
from rfnb.netdict.resolve import NET_OPTIONS, inner_net
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import cast
from rfnb.ops.shape import set_feature_dim
from rfnb.ops.slice import shift_right
from rfnb.printable import printable
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.netdict.layer import Layer
    from rfnb.trace.record.record import Recorder

    Values = MutableMapping[str, Tensor]


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


def _located(layers: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, int]]:
    """The layers of a net with the lines where a config writes them, those inside of others too."""
    for name, described in layers.items():
        line = getattr(described, "line", None)
        if line is not None:
            yield f"{prefix}{name}", line
        if (inner := inner_net(described)) is not None:
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
        if inner is None:
            yield f"{prefix}{name}", f'{indent}"{name}": {_shown(described)},'
            continue
        key = NET_OPTIONS[described["class"]]
        options = {option: value for option, value in described.items() if option != key}
        yield f"{prefix}{name}", f'{indent}"{name}": {_shown(options)[:-1]}, "{key}": {{'
        yield from _lines(inner, f"{prefix}{name}/", depth + 1)
        yield "", f"{indent}}}}},"


def _shown(described: object) -> str:
    """The description of a layer as a config would write it, shortened."""
    text = printable(_text(described))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 2]}…}}"


def _text(given: object) -> str:
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_text(value)}" for key, value in given.items()) + "}"
    if isinstance(given, str):
        return '"' + given.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(given, list | tuple):
        entries = ", ".join(map(_text, given))
        return f"[{entries}]" if isinstance(given, list) else f"({entries}{',' if len(given) == 1 else ''})"
    return repr(given)[:40]


def called(layer: Layer, method: Callable[..., object]) -> Callable[..., Any]:
    """A method of a layer as a call of it, for those who watch the calls of modules."""
    listener = active_listener()
    if listener is None:
        return partial(method, layer)
    return lambda *args, **kwargs: listener.call_module(layer, method, args, kwargs)


@contextmanager
def steps_of(layers: Iterable[Layer | None]) -> Iterator[None]:
    """Around the steps of a loop: what layers compute before them, as it is the same in each one."""
    active = [layer for layer in layers if layer is not None]
    with ExitStack() as stack:
        for layer in active:
            if isinstance(layer, SteppingLayer):
                stack.callback(layer.end_steps)
            changes = layer.spec.changes
            if changes is not None and changes.given:  # values of a step, perhaps
                continue
            if changes is not None:
                stack.enter_context(held_parameters(layer))
            if isinstance(layer, SteppingLayer):
                layer.begin_steps()
        yield


class RecRun:
    """One run of a recurrent net. values: those outside of the loop, by path; it adds those that leave the loop."""

    def __init__(self, rec: RecNet, values: Values, nodes: Mapping[str, NetNode]):
        self.rec, self.outside, self.nodes = rec, values, nodes
        layer = rec.layer
        sources = [values[path] for path in rec.sources]
        self.source = layer.prepared(*sources)[0] if sources else None
        if not rec.known:
            rec.axis.reset_raw()  # no longer the made-up lengths of the template
        if (frames := rec.follows) is not None:
            rec.axis.bind(frames.size)
        exact = rec.beam is None or not rec.known or layer.spec.batch_independent
        self.axis = rec.axis if exact else one_more(rec.axis)
        if rec.own_axis is not None:
            rec.own_axis.bind(self.axis.size)
            self.axis = rec.own_axis
        self.loop = Loop(
            axis=self.axis, max_seq_len=longest(rec, values), name=rec.path,
            optimize_move_layers_out=layer.optimize_move_layers_out,
        )  # fmt: skip
        self.loop.warns = False
        self.lines = rec.lines = rec.lines or NetLines(rec)
        self.loop.listing = self.lines.listing
        self.step: dict[str, Tensor] = {}
        self.whole: dict[str, Tensor] = {}  # values of all frames
        self.search = StepsOfSearch(self.loop, rec)

    def run(self) -> None:
        """Runs all steps."""
        rec = self.rec
        for node in rec.before:
            self._all(node.path)
        rec.choices = None
        if rec.inside:
            self._run_steps()
        for node in rec.after:
            self._all(node.path)
        for path in rec.accumulated:
            if path in self.whole:
                self.outside[path] = self._left(along(self.whole[path], rec.frames))
        for node in (*rec.before, *rec.after) if rec.own_axis is not None else ():
            for name, x in of_losses(node) if node.layer is not None else ():
                give_back(node, name, self._left(x))

    def _run_steps(self) -> None:
        """Runs the loop, for what has not left it."""
        rec, loop = self.rec, self.loop
        self.carried = [node for node in rec.inside if isinstance(node, NetNode) and self._is_carried(node)]
        for node in self.carried:
            loop.state[f"prev:{rec.name_of(node.of)}"] = self._initial(node.of, node.template)
        members = [item for item in rec.inside if isinstance(item, NetNode)]
        for node in members:
            if node.state is not None and not node.left:
                loop.state[rec.name_of(node.path)] = self._initial_state(node)
        frames = {node.path: self._frames(node) for node in members if node.kind == "frame"}
        self.cut = {path: self._on(self.axis, x, rec.frames) for path, x in {**self.whole, **frames}.items()}
        layers = [node.layer for node in members if (node.state is not None and not node.left) or node.changes_params]
        with steps_of(layers), self._named_later():
            self._finish(*self._trace(members))

    def _trace(self, own: list[NetNode]) -> tuple[dict[str, Tensor], dict[tuple[NetNode, str], Tensor]]:
        """Traces a step and runs all. Returns what leaves the loop, secondly for losses and constraints."""
        rec, loop = self.rec, self.loop
        outputs: dict[str, Tensor] = {}
        of_penalties: dict[tuple[NetNode, str], Tensor] = {}
        late = {node.path for node in rec.after}
        # Values of the step before first: a layer that carries a state replaces it.
        items = sorted(rec.inside, key=lambda node: isinstance(node, RecNet) or node.kind != "previous")
        with loop:
            for item in items:
                self._compute(item)
            for node in self.carried:
                with self.lines.naming(loop.recorder, node):
                    loop.state[f"prev:{rec.name_of(node.of)}"] = like(self._in_step(node.of), node.template)
            if rec.end is not None and rec.follows is None:
                loop.end(self.step[rec.end], include_eos=bool(rec.layer.include_eos))
            for path in rec.accumulated:
                if path in self.whole or path in late:
                    continue
                layer = self.nodes[path].layer
                by_place = layer is not None and layer.traits.by_place
                outputs[path] = loop.stack(self.step[path], name=rec.name_of(path), resolve=not by_place)
            for node in own:
                for name, x in of_losses(node) if node.layer is not None else ():
                    of_penalties[node, name] = loop.stack(
                        x, name=f"{rec.name_of(node.path)}: {name}", resolve=rec.follows is None
                    )
        for item in rec.inside:
            forget_penalties(item)
        return outputs, of_penalties

    def _finish(self, left: dict[str, Tensor], more: dict[tuple[NetNode, str], Tensor]) -> None:
        """Gives to the outside what has left the loop."""
        rec, loop = self.rec, self.loop
        rec.choices = result_of(rec, loop)
        for path, x in left.items():
            x = self._on(rec.frames, x, self.axis)
            self.whole[path] = x = featured(x, self.nodes[path].template.feature_dim)
            self.outside[path] = self._left(x)
        for (node, name), x in more.items():
            give_back(node, name, self._left(self._on(rec.frames, x, self.axis)))

    def _is_carried(self, node: NetNode) -> bool:
        """Whether a value of the step before is a state of its own, and not part of the state of its layer."""
        if node.kind != "previous":
            return False
        of = self.nodes[node.of]
        return of.layer is None or not of.layer.traits.state_has_output or of.state is None or of.left

    def _over_frames(self, node: NetNode) -> Tensor:
        """A value of all frames together, computed outside of the loop."""
        if node.kind == "frame":
            return self._frames(node)
        if node.kind == "step":
            return cast(range_over_dim(self.rec.frames), "int32")
        if node.kind == "previous":
            x, initial = along(self._all(node.of), self.rec.frames), self._before(node)
            y = shift_right(x, axis=self.rec.frames, pad_value=initial)
            return set_feature_dim(y, node.template.feature_dim)
        if node.kind == "part":
            self._all(node.of)
            return self.whole[node.path]
        assert node.layer is not None
        inputs = {name: self._all(path) for name, path in node.inputs.items()}
        sources = [self._all(path) for path in node.sources]
        if node.state is not None:
            sources = [along(x, self.rec.frames) for x in sources]
        with ErrorsOf(node.layer):
            y = node.layer(*sources, **inputs)
        take_parts(node, self.whole)
        return y

    def _all(self, path: str) -> Tensor:
        """The value of all frames, of a value in the loop; or the value outside of it."""
        if path not in self.whole and self.nodes[path].loop is self.rec:
            self.whole[path] = self._over_frames(self.nodes[path])
        return self.whole[path] if path in self.whole else self.outside[path]

    def _in_step(self, path: str) -> Tensor:
        """The value in this step."""
        if path not in self.step and path in self.cut:
            with self.lines.naming(self.loop.recorder, self.nodes[path], self.step):
                self.step[path] = self._frame(path)
        return self.step[path] if path in self.step else self.outside[path]

    def _compute(self, node: NetNode | RecNet) -> None:
        """Computes a value of this step."""
        step, loop = self.step, self.loop
        for path in needs_of(node, self.nodes):
            if path in self.cut:
                self._in_step(path)
        with self.lines.naming(loop.recorder, node, step):
            self._compute_item(node)

    def _compute_item(self, node: NetNode | RecNet) -> None:
        rec, step, loop = self.rec, self.step, self.loop
        if isinstance(node, RecNet):
            type(self)(node, ChainMap(step, self.outside), self.nodes).run()
        elif node.kind == "frame":
            step[node.path] = self._frame(node.path)
        elif node.kind == "step":
            step[node.path] = cast(loop.iter_idx, "int32")
        elif self._is_carried(node):
            step[node.path] = featured(loop.state[f"prev:{rec.name_of(node.of)}"], node.template.feature_dim)
        elif node.kind == "previous":
            step[node.path] = stepping(self.nodes[node.of]).output_of(loop.state[rec.name_of(node.of)])
        elif node.kind == "layer":
            values = ChainMap(step, self.outside)
            assert node.layer is not None
            with ErrorsOf(node.layer):
                self._compute_layer(node, node.layer, values)
            take_parts(node, values)

    @contextmanager
    def _named_later(self) -> Iterator[None]:
        """Errors of a step that runs, when all of it is traced, name the layer whose line they arose on."""
        try:
            yield
        except RfError as error:
            name = getattr(error.at, "layer", None)
            node = self.nodes.get(f"{self.rec.path}/{name}")
            if node is not None and node.layer is not None:
                named_after(node.layer, error)
            raise

    def _compute_layer(self, node: NetNode, layer: Layer, values: Values) -> None:
        """Computes a layer in this step: for the newest hypotheses, if there is a search."""
        sources = [self.search.newest(values[path]) for path in node.sources]
        inputs = {name: self.search.newest(values[path]) for name, path in node.inputs.items()}
        if node.state is not None:
            name = self.rec.name_of(node.path)
            state = mapped(lambda x, _: self.search.newest(x), self.loop.state[name], node.state)
            step = called(layer, type(stepping(node)).one_step)
            values[node.path], self.loop.state[name] = step(state, *sources, **inputs)
        elif isinstance(layer, ChoosingLayer) and self.rec.beam is not None:
            values[node.path] = called(layer, type(layer).choose_step)(self.search, *sources, **inputs)
        else:
            values[node.path] = layer(*sources, **inputs)

    def _frames(self, node: NetNode) -> Tensor:
        """All frames, of the source or of other data; the value itself if it has no frames."""
        x = self.outside[node.of] if node.of else self.source
        assert x is not None
        axis = self.rec.axis
        frames = None if axis in x.dims or not node.of else time_of(x)
        if frames is not None and frames not in node.template.dims:
            x = with_axis(x, frames, axis, node)
        return self._on(self.rec.frames, x, axis)

    def _on(self, new: Dim, x: Tensor, old: Dim) -> Tensor:
        """A value of all frames along another axis; the value itself if it has no frames."""
        return x if new is old or old not in x.dims else featured(with_frames(x, old, new), x.feature_dim)

    def _left(self, x: Tensor) -> Tensor:
        """A value of all frames as the outside has it: along the axis of the loop, unless it has that already."""
        return x if self.rec.axis in x.dims else self._on(self.rec.axis, x, self.rec.frames)

    def _frame(self, path: str) -> Tensor:
        """The frame of this step; the value itself if it has no frames."""
        x = self.cut[path]
        if self.axis not in x.dims:
            return x
        return featured(self.loop.unstack(x, axis=self.axis), x.feature_dim)

    def _initial(self, of: str, template: Tensor) -> Tensor:
        """The value of a layer before the first step."""
        initial = self.rec.initial[of]
        if isinstance(initial, Parameter):
            return like(initial, template)
        if isinstance(initial, str):
            if initial != "apply(0)":
                return like(self.outside[initial], template)
            node = self.nodes[of]
            assert node.layer is not None
            sources = [filled(self.nodes[path].template, 0) for path in node.sources]
            inputs = {name: filled(self.nodes[path].template, 0) for name, path in node.inputs.items()}
            last_call = replace(node.layer.last, parts={})
            value = like(node.layer(*sources, **inputs), template)
            node.layer.last = last_call
            return value
        return filled(template, initial)

    def _before(self, previous: NetNode) -> Tensor:
        """The value of a layer before the first step, which may be part of its state."""
        of = self.nodes[previous.of]
        if of.layer is None or not of.layer.traits.state_has_output or not of.left:
            return self._initial(previous.of, previous.template)
        return stepping(of).output_of(self._initial_state(of))

    def _initial_state(self, node: NetNode) -> State:
        """The state of a layer before the first step."""
        assert node.state is not None
        inputs = {name: self.outside.get(path) for name, path in node.inputs.items()}
        first = stepping(node).first_state(*prepared_of(node, self.nodes), **inputs)
        state: State = mapped(like, first, node.state, grown=False)
        return state
