"""Constructs recurrent nets: the values of a step, as templates, and what a layer had in the step before.

The axis is given by data where its length is known; else it is a new one that ends by a condition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any

from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.expression.expression import Expression, Names
from rfnb.core.ground.nested import leaves
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.build import (
    NetNode,
    give_symbols,
    is_trainable,
    join,
    known_options,
    on_meta,
    set_options,
    variable_scope,
)
from rfnb.netdict.layer_call import ErrorsOf, named_after
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.order import circle_through, ends_of_steps, put_in_order
from rfnb.netdict.resolve import (
    STEP,
    Scope,
    first_target,
    names_of_operands,
    names_of_sources,
    required,
    size_in,
    size_told,
)
from rfnb.ops.create import zeros
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, maximum, minimum
from rfnb.ops.shape import expand_dim, set_feature_dim, set_sparse_dim

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder

ROUNDS = 3
"""How often the layers of a circle through `prev:` are constructed until their dims agree."""
KEEPING = "activation combine copy dropout eval linear softmax_over_spatial switch".split()
"""Classes whose output has all axes of their sources, the features apart."""
NUMBERS: dict[object, float] = {None: 0.0, "zeros": 0.0, "ones": 1.0}
"""Initial outputs by name."""


class Loops:
    """The recurrent nets of a network, and how their layers refer to each other."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self.nets: dict[str, RecNet] = {}
        self._guesses: dict[str, Tensor] = {}
        self._used: set[str] = set()
        self._stacked: dict[tuple[str, RecNet | None], tuple[Tensor, Tensor]] = {}

    # -- nets

    def net(self, scope: Scope) -> RecNet:
        """The recurrent net of a scope, with its sources and its axis."""
        path, builder = scope.path.rstrip("/"), self.builder
        if path in self.nets:
            return self.nets[path]
        assert scope.parent is not None
        described = scope.options_of_subnet()
        layer: Any = builder.module(scope)
        outer = None if scope.parent.in_loop is None else self.net(scope.parent.in_loop)
        rec = RecNet(path, scope, layer, outer)
        rec.sources = tuple(builder.sources(type(layer), described, scope.parent, path))
        templates = [builder.seen(source, scope.parent) for source in rec.sources]
        join(layer, templates, builder.axes)
        layer.decide(loop=outer)
        with get_run_ctx().train_flag_ctx(False), on_meta():
            prepared = layer.prepared(*templates)
        rec.source = prepared[0] if prepared else None
        options = known_options(type(layer), described)
        via = options.pop("max_seq_len_via", None)
        set_options(layer, options, builder, rec.source)
        if via is not None:
            layer.max_seq_len_via = via
            rec.inputs["max_seq_len_via"] = builder.find(scope.parent, via, path)
        choice_layers = choices(scope.layers)
        if scope.search and choice_layers:
            choice = choice_layers.get("output") or list(choice_layers.values())[-1]
            rec.beam = Dim(int(choice.get("beam_size") or 1), name="beam")
            mark_beam(rec.beam)
        set_axis(builder, rec)
        optimize = builder.config.get("optimize_move_layers_out", True)
        rec.moves = optimize if layer.optimize_move_layers_out is None else layer.optimize_move_layers_out
        for reference in lengths_asked(layer.max_seq_len) if not rec.known else ():
            rec.inputs[f"max_len_from {reference}"] = builder.find(scope, reference, path)
        self.nets[path] = rec
        return rec

    def output(self, rec: RecNet) -> str:
        """The path of the output of a recurrent net, which is constructed with the end of its sequences."""
        if "output" not in rec.scope.layers:
            raise LayerNotFound(f"{rec.path}: the unit has no output", expected='a layer named "output"')
        return self.builder.layer(rec.scope, "output")

    def _find_end(self, rec: RecNet) -> None:
        rec.end = self.builder.layer(rec.scope, "end")
        end = self.builder.nodes[rec.end]
        if (got := end.template.dtype) != "bool" and end.layer is not None:
            error = NetworkError("the end of sequences is not bool", got=got, expected='"class": "compare"')
            raise named_after(end.layer, error)

    # -- values of a step

    def value(self, scope: Scope, name: str) -> str:
        """The path of `:i`, or of `prev:layer`, in a recurrent net."""
        rec, builder = self.net(scope), self.builder
        path = f"{rec.path}/{name}"
        if name == STEP:
            if path not in builder.nodes:
                with on_meta():
                    builder.nodes[path] = NetNode(path, None, zeros([], dtype="int32"), kind="step", loop=rec)
            return path
        rec.previous[builder.previous(scope, name.removeprefix("prev:"), path, rec, rec.path)] = None
        return path

    def frame(self, scope: Scope, key: str) -> str:
        """The path of `data:source`, or of another data key, in a recurrent net: its frame in each step."""
        rec, builder = self.net(scope), self.builder
        if key not in ("", "source"):
            assert scope.parent is not None
            return self.frame_of(scope, builder.find(scope.parent, f"data:{key}", rec.path))
        path = f"{rec.path}/data:source"
        if rec.source is None:
            raise LayerNotFound(f"{rec.path}: data:source, but the rec layer has no source", expected='"from": "…"')
        if path not in builder.nodes:
            builder.nodes[path] = NetNode(path, None, _one_frame(rec.source, rec.axis), kind="frame", loop=rec)
        return path

    def frame_of(self, scope: Scope, path: str, *, of_any: bool = False) -> str:
        """The path of the frame of a value from outside, if it has the axis of the loop; else the same path.

        The frames of data, such as a target, become those of the loop; their lengths are compared when they are known.
        """
        if scope.in_loop is None:
            return path
        rec, builder = self.net(scope.in_loop), self.builder
        node = builder.nodes[path]
        if node.loop in rec and node.loop is not None:
            return path
        frames = rec.axis if rec.axis in (x := builder.seen(path, scope)).dims else None
        if frames is None and (path.startswith("data:") or of_any):
            frames = time_of(x)
        if frames is None:
            return path
        prefix = "" if path.startswith("data:") else "frame:"  # a layer of the loop may have the same name
        name = f"{rec.path}/{prefix}{path}"
        if name not in builder.nodes:
            builder.nodes[name] = NetNode(name, None, _one_frame(x, frames), kind="frame", of=path, loop=rec)
        return name

    def seen(self, node: NetNode, scope: Scope) -> Tensor:
        """The template of a value as a net sees it; outside of its loop it has the axis of the loop."""
        viewer = None if scope.in_loop is None else self.net(scope.in_loop)
        of, cached = self._stacked.get((node.path, viewer), (None, None))
        if cached is not None and of is node.template:
            return cached
        x = node.template
        for loop in node.loops:
            if viewer in loop:
                break
            loop.accumulated[node.path] = None
            x = self.stacked(x, loop)
        self._stacked[node.path, viewer] = node.template, x
        return x

    def stacked(self, x: Tensor, rec: RecNet) -> Tensor:
        """The template of the values of all steps."""
        axis = rec.axis
        if axis in x.dims:
            size, axis = axis.size, rec.make_own_axis()
            axis.bind(size)
        with on_meta():
            y = set_feature_dim(expand_dim(x, axis), x.feature_dim)
        return y.copy_transpose(rec.stacked_dims(x))

    # -- circles through the step before

    def across_steps(self, path: str) -> bool:
        """Whether a layer that is being constructed is needed for the value of another one in the step before."""
        stack = self.builder.stack
        return any(name.startswith("prev:") for name in stack[stack.index(path) :])

    def guess(self, scope: Scope, name: str) -> str:
        """The path of a layer that is being constructed, with a template that is right in most nets."""
        path = scope.path + name
        self._used.add(path)
        if path not in self._guesses:
            self._guesses[path] = self._guessed(scope, name)
        loop = None if scope.in_loop is None else self.net(scope.in_loop)
        nodes = self.builder.nodes
        nodes[path] = NetNode(path, None, self._guesses[path], loop=loop, guessed=True)
        target = scope.layers[name].get("target")
        for i, key in enumerate(target if isinstance(target, list | tuple) else ()):
            labels = self._labels({"target": key})
            with on_meta():
                part = set_sparse_dim(self._guesses[path], labels)
            nodes[f"{path}/out_{i}"] = NetNode(
                f"{path}/out_{i}", None, part, kind="part", of=path, loop=loop, guessed=True
            )
        return path

    def _guessed(self, scope: Scope, name: str, guesses: dict[str, Tensor | None] | None = None) -> Tensor:
        """A template by what is known of the layer: its initial output, its sources, the number of its outputs.

        guesses: those of the layers on the way, each of which is looked at once; None for those that have begun.
        """
        guesses, path = {} if guesses is None else guesses, scope.path + name
        guesses[path] = x = self._guessed_now(scope, name, path, guesses)
        return x

    def _guessed_now(self, scope: Scope, name: str, path: str, guesses: dict[str, Tensor | None]) -> Tensor:
        builder, described, guesses[path] = self.builder, scope.layers[name], None
        initial = described.get("initial_output")
        if isinstance(initial, str) and initial not in (*NUMBERS, "var", "apply(0)"):
            return builder.seen(builder.find(scope, initial, path), scope)
        inner = described.get("subnetwork")
        if isinstance(inner, Mapping) and "output" in inner:
            return self._guessed(scope.sub(name), "output", guesses)
        labels = self._labels(described)
        if described["class"] == "choice":
            beam = self.net(scope.in_loop).beam if scope.in_loop is not None else None
            with on_meta():
                return zeros([batch_dim, *([] if beam is None else [beam])], dtype="int32", sparse_dim=labels)
        operands = [self._known(scope, source, guesses) for source in names_of_operands(described)]
        templates = [x for x in operands if x is not None]
        batch = [dim for x in templates for dim in x.dims if dim.is_batch_dim() or dim.name == "beam"]
        if (loop := scope.in_loop) is not None and (source := self.net(loop).source) is not None:
            batch += [dim for dim in source.dims if dim.is_batch_dim()]
        if described["class"] in KEEPING:
            batch += [dim for x in templates for dim in x.dims if dim is not x.feature_dim]
        dims = list(dict.fromkeys(batch))  # others may be reduced: rather too few of them than too many
        size = size_told(described)
        feature: Dim | None
        if size is not None:
            feature = builder.axes.feature(size, dims)
        elif labels is not None and described["class"] == "softmax":
            feature = labels
        else:
            feature = next((x.feature_dim for x in templates if x.feature_dim not in (None, *dims)), None)
        out_type = described.get("out_type")
        dtype = out_type.get("dtype") if isinstance(out_type, Mapping) else None
        with on_meta():
            return set_feature_dim(zeros([*dims, *([feature] if feature is not None else [])], dtype=dtype), feature)

    def _labels(self, described: Mapping[str, object]) -> Dim | None:
        """The labels of the target of a layer."""
        target = first_target(described.get("target"))
        if not isinstance(target, str):
            return None
        registered = self.builder.nodes.get(self.builder.registered.get(target, ""))
        if registered is not None:
            return registered.template.sparse_dim or registered.template.feature_dim
        if not self.builder.extern.has_data(target):
            return None
        data = self.builder.extern.get_data(target)
        return data.sparse_dim or data.feature_dim

    def _known(self, scope: Scope, source: str, guesses: dict[str, Tensor | None]) -> Tensor | None:
        """The template of a source as far as it is known; None for one that is itself only guessed from this layer."""
        where, name = scope.find(source)
        path = where.path + name
        node = self.builder.nodes.get(path)
        if node is not None:
            return self.builder.seen(path, scope)
        if name.startswith("prev:"):
            return self._known(scope, source.replace("prev:", "", 1), guesses)
        if path in guesses:
            return guesses[path]
        if name in where.layers:
            return self._guessed(where, name, guesses)
        head, _, part = name.partition("/")
        if part and head in where.layers:
            return self._guessed_part(where, where.layers[head], part)
        if where.recurrent and name == STEP:
            return self.builder.nodes[self.value(where, STEP)].template
        if where.recurrent:
            return self.builder.nodes[self.frame(where, name.partition(":")[2])].template
        if where.parent is None:
            return None
        outer = [self._known(where.parent, ref, guesses) for ref in names_of_sources(where.options_of_subnet(), None)]
        return next((x for x in outer if x is not None), None)

    def _guessed_part(self, scope: Scope, described: object, part: str) -> Tensor | None:
        """The template of a layer in the unit of a masked_computation, by the number of features that it tells."""
        unit = described.get("unit") if isinstance(described, Mapping) else None
        net = unit.get("subnetwork") if isinstance(unit, Mapping) else None
        size = size_in(net, part) if isinstance(net, Mapping) else None
        if size is None or scope.in_loop is None:
            return None
        beam = self.net(scope.in_loop).beam
        feature = self.builder.axes.feature(size)
        with on_meta():
            return set_feature_dim(zeros([batch_dim, *([] if beam is None else [beam]), feature]), feature)

    def attempts(self, scope: Scope, path: str) -> Iterator[None]:
        """Rounds of constructing a layer: another one if its template is not what others took it for."""
        builder = self.builder
        if scope.in_loop is None:
            yield
            return
        templates = []
        for _ in range(ROUNDS):
            nodes, variables = len(builder.nodes), len(builder.variables.found)
            self._used.discard(path)
            yield
            if path not in self._used or _same(self._guesses[path], builder.nodes[path].template):
                return
            self._guesses[path] = template = builder.nodes[path].template
            templates.append(template.describe_dims())
            circle = " ← ".join(name.removeprefix(scope.path) for name in circle_through(path, builder.nodes))
            self._forget(path, list(builder.nodes)[nodes:], list(builder.variables.found)[variables:])
        raise NetworkError(
            f"its dims do not settle: each step has others than the step before, by {circle}",
            got="; then ".join(templates), expected="the same dims in each step", hint='"n_out": … of a layer there',
        )  # fmt: skip

    def _forget(self, path: str, nodes: list[str], variables: list[str]) -> None:
        """Undoes what was constructed with a wrong template: the layers of the loop, and their parameters."""
        builder = self.builder
        scope = self.nets[next(name for name in self.nets if path.startswith(f"{name}/"))].path
        names = [name for name in nodes if name.startswith(f"{scope}/")] + ([path] if path not in nodes else [])
        dropped = set()
        for name in names:
            builder.nodes.pop(name, None)
            layer = builder.modules.pop(name, None)
            if layer is not None:
                dropped |= {id(parameter) for parameter in layer.params.values()}
                for owner in [builder.root, *builder.modules.values()]:
                    for attribute in [key for key, child in vars(owner).items() if child is layer]:
                        delattr(owner, attribute)
            self.nets.pop(name, None)
        for rec in self.nets.values():
            for table in (rec.previous, rec.accumulated):
                for name in names:
                    table.pop(name, None)
        for name in variables:
            if id(builder.variables.found[name]) in dropped:
                del builder.variables.found[name]

    # -- when all is constructed

    def order(self) -> None:
        """Finds the initial values, and what is computed before, in and after each loop."""
        ordered: set[str] = set()
        while pending := [rec for path, rec in self.nets.items() if path not in ordered]:
            for rec in pending:
                ordered.add(rec.path)
                if not rec.known:
                    self._find_end(rec)
                if rec.beam is not None:
                    layers = [node.layer for node in self.builder.nodes.values() if node.loop is rec and _chooses(node)]
                    rec.last_choice = layers[-1]
                for of in list(rec.previous):
                    layer = self.builder.nodes[of].layer
                    with nullcontext() if layer is None else ErrorsOf(layer):
                        rec.initial[of] = self._initial(rec, of)
                if rec.beam is not None:
                    self._carry_hypotheses(rec)
        for node in self.builder.nodes.values():
            for loop in node.loops:
                if loop.path in self.nets:  # not a loop around masked_computation
                    loop.accumulated.update(dict.fromkeys(ends_of_steps(node, loop, self.builder.nodes)))
        for rec in self.nets.values():
            put_in_order(rec, self.builder.nodes)
            for path in rec.accumulated:  # now, as the lengths of a batch are others
                if all(path in loop.accumulated for loop in rec.chain):
                    self.seen(self.builder.nodes[path], self.builder.scope)

    def _carry_hypotheses(self, rec: RecNet) -> None:
        """Makes the labels of a step the state of the next one, if nothing else of it is a state of each hypothesis."""
        nodes, choice = self.builder.nodes, rec.last_choice
        states = [nodes[of].template for of in rec.previous]
        states += [
            x for node in nodes.values() if node.loop is rec for x in leaves(node.state) if isinstance(x, Tensor)
        ]
        if choice is not None and not any(rec.beam in x.dims for x in states):
            self.value(rec.scope, f"prev:{rec.name_of(choice.name)}")
            rec.initial[choice.name] = 0

    def _initial(self, rec: RecNet, of: str) -> Any:
        """The initial value of a layer: a number, a Parameter, the path of a layer, or "apply(0)"."""
        builder, node = self.builder, self.builder.nodes[of]
        scope, name = rec.scope.find(rec.name_of(of))
        described = scope.layers[name.partition("/")[0]] if name not in scope.layers else scope.layers[name]
        initial = described.get("initial_output")
        if initial is None and node.template.sparse_dim is not None:
            got = f"{node.template.describe_dims()}, labels of {show_dims([node.template.sparse_dim])}"
            expected = '"initial_output": 0, the label before the first one'
            raise NetworkError("prev: of labels has no value in the first step", got=got, expected=expected)
        if isinstance(initial, int | float):
            return initial
        if not isinstance(initial, str | None):
            fault, expected = "initial_output has a value of another type", "a number, a word, or the name of a layer"
            raise NetworkError(fault, got=repr(initial)[:60], expected=expected)
        if initial == "apply(0)":
            return initial
        if initial is None or initial in NUMBERS:
            return NUMBERS[initial]
        if initial != "var":
            return builder.find(scope, initial, of)
        feature, inner = node.template.feature_dim, rec.name_of(of)
        assert feature is not None
        called = f"{inner}/init_{inner.rpartition('/')[2]}_var"
        prefix = variable_scope(rec.scope, inner, described.get("name_scope"))
        variable = f"{prefix}init_{inner.rpartition('/')[2]}_var"
        parameter = builder.variables.get(variable, [feature], 0.0, trainable=is_trainable(rec.scope))
        rec.layer.own_parameter(called, parameter)
        return parameter


def _chooses(node: NetNode) -> bool:
    """Whether a layer chooses labels in a search."""
    return (
        node.layer is not None and node.layer.layer_class == "choice" and getattr(node.layer, "search", 0) is not False
    )


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two templates have the same dims, dtype, labels and features."""
    return (set(a.dims), a.dtype, a.sparse_dim, a.feature_dim) == (set(b.dims), b.dtype, b.sparse_dim, b.feature_dim)


def _one_frame(x: Tensor, axis: Dim) -> Tensor:
    """The template of a frame; the same template if it has no frames."""
    if axis not in x.dims:
        return x
    with on_meta():
        y = gather(x, indices=0, axis=axis)
    order = [dim for dim in x.dims if dim is not axis]
    return set_feature_dim(y.copy_transpose(order), x.feature_dim)


def set_axis(builder: Builder, rec: RecNet) -> None:
    """Finds the axis of the loop: `axis`, that of the source, of `size_target`, or of the target; or makes a new one.

    Raises NetworkError if the loop has no end.
    """
    layer, unit, common = rec.layer, rec.scope.layers, rec.layer.spec.common
    is_new = isinstance(layer.axis, Dim) and "end" in unit and not _is_there(builder, layer.axis)
    axis = None if is_new else _known_axis(builder, rec)
    rec.known = axis is not None
    if axis is not None:
        rec.axis = axis
        return
    if "end" not in unit:
        raise NetworkError(
            "the loop has no length", expected='a source with frames, "size_target": "classes", or a layer "end"'
        )
    if layer.max_seq_len is None and layer.max_seq_len_via is None:
        raise NetworkError("the loop may have no end", expected='"max_seq_len": 100')
    rec.spoken = None if not isinstance(common.target, str) or is_new else _time_of_target(builder, rec, common.target)
    rec.axis = layer.axis if isinstance(layer.axis, Dim) else Dim(None, name=rec.scope.name, kind="spatial")
    builder.axes.name(rec.axis, f"dyn-time:{rec.path}")
    give_symbols([batch_dim, *([] if rec.beam is None else [rec.beam]), rec.axis])


def _known_axis(builder: Builder, rec: RecNet) -> Dim | None:
    """The axis of a loop that data give, with its lengths; None if there is none."""
    layer, common, choosing = rec.layer, rec.layer.spec.common, choices(rec.scope.layers).values()
    if isinstance(layer.axis, Dim):
        return layer.axis
    if layer.axis is not None:
        fault = "axis is described by a name, but the rec layer has no source"
        return builder.axes.one(layer.axis, required(rec.source, fault, expected='"axis": a Dim'))
    frames = None if rec.source is None else time_of(rec.source)
    if frames is not None and "end" not in rec.scope.layers:
        return frames
    takes_target = any(described.get("cheating") or described.get("search") is False for described in choosing)
    takes_target |= not rec.beam or bool(layer.cheating)
    key = first_target(common.size_target or (common.target if takes_target else None))
    return None if key is None else _time_of_target(builder, rec, key)


def _is_there(builder: Builder, axis: Dim) -> bool:
    """Whether data, or a value outside of loops, has an axis; otherwise a loop may make it its own."""
    data = (dim for key in builder.extern.data.values() for dim in key.dims)
    values = (dim for node in builder.nodes.values() if node.loop is None for dim in node.template.dims)
    return any(dim is axis or axis in dim.roots.values() for dim in (*data, *values))


def choices(unit: Mapping[str, object]) -> dict[str, Mapping[str, Any]]:
    """The layers of a net that choose labels."""
    layers = {name: layer for name, layer in unit.items() if isinstance(layer, Mapping)}
    return {name: layer for name, layer in layers.items() if layer.get("class") == "choice"}


def _time_of_target(builder: Builder, rec: RecNet, key: str) -> Dim | None:
    name = key.removeprefix("layer:")
    assert rec.scope.parent is not None
    if key.startswith("layer:") or name in rec.scope.parent.layers:
        path = builder.find(rec.scope.parent, name, rec.path)
    elif name in rec.scope.layers or not builder.extern.has_data(name):
        return None
    else:
        path = builder.data(builder.scope, name, rec.path)
    return time_of(builder.nodes[path].template)


def longest(rec: RecNet, values: Mapping[str, Tensor]) -> int | Tensor | None:
    """The limit of steps, the same for all sequences unless `batch_independent`; None if the lengths are known.

    max_seq_len: a number, or an expression with `max_len_from("base:layer")`, the length of the longest sequence.
    """
    layer = rec.layer
    if rec.known or rec.follows is not None:
        return None
    if "max_seq_len_via" in rec.inputs:
        return max(0, int(values[rec.inputs["max_seq_len_via"]].item()))
    if not isinstance(layer.max_seq_len, str):
        return max(0, int(layer.max_seq_len or 0))

    def max_len_from(reference: str) -> int | Tensor:
        x = values[rec.inputs[f"max_len_from {reference}"]]
        frames = required(time_of(x), f"max_len_from: {reference!r} has no frames", x.describe_dims())
        if layer.spec.batch_independent and x.size_of(frames).dims:
            return get_size_tensor(frames)
        return int(x.size_of(frames).max)

    limit = _value(layer.max_seq_len, max_len_from)
    return cast(maximum(limit, 0), "int32") if isinstance(limit, Tensor) else max(0, int(limit))


def lengths_asked(text: object) -> list[str]:
    """The layers that an expression for the limit names in `max_len_from`."""
    references: list[str] = []

    def note(reference: str) -> int:
        references.append(reference)
        return 1

    if isinstance(text, str):
        _value(text, note)
    return references


def _value(text: str, max_len_from: Callable[[str], object]) -> Any:
    functions: dict[str, Callable[..., object]] = {
        "max_len_from": max_len_from,
        "min": lambda *given: reduce(_of_two(min, minimum), given),
        "max": lambda *given: reduce(_of_two(max, maximum), given),
        "int": lambda given: cast(given, "int32") if isinstance(given, Tensor) else int(given),
    }
    written = re.sub(r"(?<![\w.])(max_len_from|min|max|int)(?=\()", r"rf.\1", text)
    return Expression(written).value(Names({}, functions))


def _of_two(of_numbers: Callable[..., object], of_tensors: Callable[..., object]) -> Callable[[object, object], object]:
    return lambda a, b: (of_tensors if isinstance(a, Tensor) or isinstance(b, Tensor) else of_numbers)(a, b)
