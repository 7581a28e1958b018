"""A net inside of a layer, which is computed by that layer: its nodes, its state, and what it takes from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.netdict.build import (
    NetNode,
    every_node,
    is_trainable,
    on_meta,
    prepared_of,
    run_node,
    stepping,
    take_parts,
    variable_scope,
)
from rfnb.netdict.builder import Builder
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.loops.build import NUMBERS
from rfnb.netdict.loops.net import RecNet, filled, grown_in, mapped
from rfnb.netdict.loops.order import order_of
from rfnb.netdict.loops.run import RecRun
from rfnb.netdict.resolve import Scope, texts_in
from rfnb.nn.module.module import Module
from rfnb.ops.index import gather
from rfnb.ops.math import where
from rfnb.ops.shape import expand_dim, set_feature_dim, set_sparse_dim

UNIT = "unit"
"""The option that describes the only layer of an inner net, unless it is another one. If that is a subnetwork, its
layers are in it."""
TARGET = "target:"
"""Stands before the path of data that are the target of a loss in a unit, with all frames."""

Take = Callable[[Tensor], Tensor]


@dataclass(eq=False)
class InnerScope(Scope):
    """The scope of a unit: what it does not have is looked for in the net around it."""

    described: Mapping[str, Any] = field(default_factory=dict)

    def options_of_subnet(self) -> Mapping[str, Any]:
        """The options of the layer around it."""
        return self.described

    def find(self, reference: str, needed_by: str = "") -> tuple[Scope, str]:
        """The net and the name there; as in any net, or else that in the net around it."""
        try:
            return super().find(reference, needed_by)
        except LayerNotFound:
            assert self.parent is not None
            return self.parent.find(reference, needed_by)


class InnerNet(Module):
    """The layers of a unit, as parts of the layer that computes them.

    Attributes:
        inputs: the paths of the values from outside, by names of inputs. output: the node of the result. first: its
            output before the first frame: a number, "apply(0)", the name of an input, or a Parameter. grows: whether
            it has an axis that grows from step to step. kept: the layers
            whose outputs others take, by their names outside: each path, and what is given for the first frame.
    """

    has_layers = True

    def __init__(self, builder: InnerBuilder):
        self.path: str = builder.scope.path
        self.inputs = {key: path for path, key in builder.inputs.items()}
        self.order = order_of(builder.nodes, builder.loop)
        self.option = builder.option
        self.output = builder.nodes[f"{self.path}{self.option}"]
        self.first: Any = None
        self.axis: Dim | None = None
        self.frames: Dim | None = None
        self.grows = False
        self.kept: dict[str, tuple[str, Any]] = {}
        self.layers = builder.root
        self._nodes = [builder.nodes]  # in a list: nodes are not modules

    @property
    def nodes(self) -> dict[str, NetNode]:
        """All nodes by path."""
        return self._nodes[0]

    @property
    def params(self) -> dict[str, Parameter]:
        """All parameters; those of the layers of a subnetwork with the names of the layers before theirs."""
        params = {}
        for path, node in self.nodes.items():
            infix = "rec/" if node.layer is not None and node.layer.layer_class in ("rec", "rnn_cell") else ""
            prefix = self.called(path) + "/" + infix if self.called(path) else ""
            params.update({f"{prefix}{name}": x for name, x in (node.layer.params if node.layer else {}).items()})
        return params

    def called(self, path: str) -> str:
        """How a layer of the unit is called outside of it; "" is the unit itself."""
        return path.removeprefix(self.path).removeprefix(self.option).removeprefix("/")

    @property
    def ends(self) -> dict[str, NetNode]:
        """The layers with a loss, by their names outside."""
        return {self.called(path): node for path, node in self.nodes.items() if node.loss is not None}

    @property
    def carrying(self) -> dict[str, NetNode]:
        """The nodes that have a state, and values of the step before, by names of states."""
        nodes = {path: node for path, node in self.nodes.items() if node.state is not None or node.kind == "previous"}
        return {path.removeprefix(self.path): node for path, node in nodes.items()}

    def run(self, given: Mapping[str, Tensor], state: State | None = None) -> tuple[dict[str, Tensor], State]:
        """The values of all nodes, by path, for the values from outside; and the state after this step."""
        values = {path: given[key] for key, path in self.inputs.items()}
        new = State()
        for node in self.order:
            if isinstance(node, RecNet):
                RecRun(node, values, self.nodes).run()
            elif node.kind == "previous":
                assert state is not None
                values[node.path] = state[node.path.removeprefix(self.path)]
            elif node.layer is not None and node.state is not None:
                assert state is not None
                name = node.path.removeprefix(self.path)
                sources = [values[path] for path in node.sources]
                inputs = {key: values[path] for key, path in node.inputs.items()}
                values[node.path], new[name] = stepping(node).one_step(state[name], *sources, **inputs)
                take_parts(node, values)
            elif node.layer is not None:
                run_node(node, values)
        for name, node in self.carrying.items():
            if node.kind == "previous":
                new[name] = values[node.of]
        new.update({name: values[path] for name, (path, _) in self.kept.items()})
        return values, new

    def every_node(self) -> dict[str, NetNode]:
        """The nodes of the layers of the unit by path, and those of units of theirs."""
        return {path: node for path, node in every_node(self.nodes).items() if path.startswith(self.path)}

    def resolved(self, node: NetNode) -> NetNode:
        """The layer whose output it is; that of a subnetwork is the output of one of its layers."""
        while node.layer is not None and node.layer.layer_class == "subnetwork":
            node = self.nodes[node.sources[0]]
        return node

    def grown_output(self, state: State) -> Tensor:
        """The output along an axis that grows, which belongs to the state after a step."""
        node = self.resolved(self.output)
        return stepping(node).output_of(state[node.path.removeprefix(self.path)])

    def parts_of(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of the layers in the unit and further outputs, by the names that they have outside."""
        return {self.called(path): values[path] for path in self.nodes if path in values and self.called(path)}

    def parts_of_state(self, state: State) -> dict[str, Tensor]:
        """The outputs of layers in the unit that belong to a state."""
        outputs = {name: state[name] for name in self.kept}
        for name, node in self.carrying.items():
            parts = {} if node.layer is None else stepping(node).parts_of(state[name])
            outputs.update({self.called(f"{node.path}/{part}"): x for part, x in parts.items()})
        return outputs

    def first_state(self, given: Mapping[str, Tensor | None]) -> State:
        """The state before the first step. given: the values from outside, as far as they are known before the loop."""
        state = State()
        for name, node in self.carrying.items():
            if node.kind == "previous":
                state[name] = self.first_output(given, self.nodes[node.of], node.first)
            else:
                state[name] = self._first_state_of(node, given)
        for name, (path, initial) in self.kept.items():
            state[name] = self.first_output(given, self.nodes[path], initial)
        return state

    def _first_state_of(self, node: NetNode, given: Mapping[str, Tensor | None]) -> State:
        keys = {path: key for key, path in self.inputs.items()}
        values = {option: given.get(keys.get(path, "")) for option, path in node.inputs.items()}
        return stepping(node).first_state(*prepared_of(node, self.nodes), **values)

    def first_output(
        self, given: Mapping[str, Tensor | None], node: NetNode | None = None, first: object = None
    ) -> Tensor:
        """The output of the unit, or of one of its layers, before the first frame. first: what is given for it."""
        if node is None:
            node, first = self.output, self.first
        node = self.resolved(node)
        template, layer = node.template, node.layer
        dims = [dim for dim in template.dims if dim is not self.frames]
        x = given.get(first) if isinstance(first, str) else first
        is_state = isinstance(layer, SteppingLayer) and type(layer).output_of is not SteppingLayer.output_of
        if first is None and is_state:
            x = stepping(node).output_of(self._first_state_of(node, given))
            x = x if set(x.dims) == set(dims) else 0.0
        elif isinstance(first, str) and first == "apply(0)":
            inputs = {key: filled(self.nodes[path].template, 0) for key, path in self.inputs.items()}
            x = self.run(inputs, self.first_state(given))[0][node.path]
            x = x if self.frames is None else gather(x, indices=0, axis=self.frames)
        elif isinstance(first, str) and first not in NUMBERS and x is None:
            raise NetworkError("initial_output: the layer has no value before the loop", got=self.inputs[first])
        if not isinstance(x, Tensor):
            x = filled(template, NUMBERS.get(first, first), dims)
        for dim in dims:
            x = x if dim in x.dims else expand_dim(x, dim)
        return set_feature_dim(x, template.feature_dim)


class InnerBuilder(Builder):
    """Constructs the net inside of a layer. inputs: names of inputs by the paths of values outside."""

    def __init__(
        self, outer: Builder, scope: Scope, path: str, described: Mapping[str, object], take: Take, option: str = UNIT
    ):
        super().__init__(Module(), outer.extern, outer.version, outer.variables.device)
        self.axes, self.variables, self.stack = outer.axes, outer.variables, outer.stack
        self.config, self.batch_independent = outer.config, outer.batch_independent
        self.loops.nets = dict(outer.loops.nets)
        self.outer, self.take, self.inputs = outer, take, {}  # type: ignore[var-annotated]
        self.around = scope
        self.loop = None if scope.in_loop is None else outer.loops.net(scope.in_loop)
        self.masked_loop = outer.masked_loop
        name, unit = path[len(scope.path) :], described.get(option)
        if not isinstance(unit, Mapping) or "class" not in unit:
            raise NetworkError(
                f"the {option} is not a layer", got=repr(unit)[:60], expected=f'"{option}": {{"class": …}}'
            )
        unit = copy(unit)  # with its line
        unit.setdefault("name_scope", "")  # type: ignore[attr-defined]
        self.option = option
        self.scope = InnerScope({option: unit}, f"{path}/", scope, name, described=described)

    def net_of_one_call(self) -> InnerNet:
        """Constructs the unit, with all that it needs, where nothing goes from one call to the next."""
        self._construct_unit(ends=False)
        return InnerNet(self)

    def _construct_unit(self, *, ends: bool) -> None:
        self.layer(self.scope, self.option)
        if ends:
            self._construct_ends()
        outer_nets = self.outer.loops.nets
        self.loops.nets = {path: rec for path, rec in self.loops.nets.items() if path not in outer_nets}
        self.loops.order()

    def net(self, axis: Dim | None, frames: Dim | None) -> InnerNet:
        """Constructs the unit, with all that it needs. axis, frames: that outside and that of the unit, if any."""
        self._construct_unit(ends=True)
        for node in [node for node in self.nodes.values() if node.kind == "previous" and node.loop is self.loop]:
            self._check_kept(node)
            node.first = self.first(node.of)
        initial = self.first(f"{self.scope.path}{self.option}")
        net = InnerNet(self)
        net.first, net.axis, net.frames = initial, axis, frames
        output = net.resolved(net.output)
        net.grows = self._growing(output)
        if net.grows and getattr(output.layer, "so_far", None) is None:
            self._check_kept(output)
        texts, unit_path = set(texts_in(self.around.root.layers)), self.scope.path[len(self.around.path) :]
        for path, node in self.nodes.items():
            name = net.called(path)
            if node.layer is None or not name:
                continue
            if node.layer.spec.common.is_output_layer or any(text.endswith(f"{unit_path}{name}") for text in texts):
                self._check_kept(node)
                net.kept[name] = (path, self.first(path))
        return net

    def _growing(self, node: NetNode) -> bool:
        """Whether the output of a layer in a loop has an axis that grows from step to step."""
        if self.masked_loop is None or self.masked_loop is not self.loop:
            return False
        grown = {dim for member in self.nodes.values() if member.state is not None for dim in grown_in(member.state)}
        layers = [member.layer for member in self.nodes.values() if isinstance(member.layer, SteppingLayer)]
        grown.update(layer.so_far for layer in layers if layer.so_far is not None)
        return not grown.isdisjoint(node.template.dims)

    def _check_kept(self, node: NetNode) -> None:
        """Raises NetworkError if a value with an axis that grows would have to stay where the mask is false."""
        if self._growing(node):
            raise NetworkError(
                "in masked_computation in a loop, a value with an axis that grows is needed after the step",
                got=f"{node.path}: {node.template.describe_dims()}",
                expected="cum_concat as the unit, or as the output of its subnetwork; or values without this axis",
            )  # fmt: skip

    def first(self, path: str) -> Any:
        """What is given for the output of a layer before the first frame."""
        scope, name = self.scope.find(path.removeprefix(self.scope.path))
        value = scope.layers[name].get("initial_output")
        while value is None and scope.is_subnet(name) and scope.layers[name]["class"] == "subnetwork":
            scope, name = scope.sub(name), "output"
            value = scope.layers[name].get("initial_output")
        template = self.nodes[scope.path + name].template
        if value is None and template.sparse_dim is not None and self.nodes[scope.path + name].state is None:
            if self.masked_loop is None:  # all frames together: there is no step before the first one
                return 0
            raise NetworkError(
                "labels have no value before the first frame", got=template.describe_dims(),
                expected='"initial_output": 0, in the unit',
            )  # fmt: skip
        if value == "var":
            unit_path, feature = scope.path[len(self.around.path) :].rstrip("/"), template.feature_dim
            assert feature is not None
            variable = f"{variable_scope(scope, name, scope.layers[name].get('name_scope'))}init_{unit_path}_var"
            parameter = self.variables.get(variable, [feature], 0.0, trainable=is_trainable(scope))
            setattr(self.root, f"init_{name}_var", parameter)
            return parameter
        if isinstance(value, str) and value not in (*NUMBERS, "apply(0)"):
            return self.inputs[self.find(scope, value, path)]
        return value

    def find(self, scope: Scope, reference: str, needed_by: str = "") -> str:
        """The path of a layer or data; what is outside of the unit becomes an input of it."""
        frame = "frame:" if isinstance(reference, str) and reference.startswith("frame:") else ""
        where, name = scope.find(reference.removeprefix(frame) if frame else reference, needed_by)
        if self.scope in where.chain:
            return super().find(scope, reference, needed_by)
        previous = f"prev:{self.scope.path.removeprefix(where.path)}"
        if name.startswith(previous):
            name = name.removeprefix(previous)
            path = f"{self.scope.path}prev:{name}"
            self.previous(self.scope, name, path, self.loop)
            return path
        path = self.outer.find(where, frame + name, needed_by)
        if path not in self.nodes:
            with on_meta():
                template = self.take(self.outer.seen(path, self.around))
            self.nodes[path] = NetNode(path, None, template, loop=self.loop)
            self.inputs[path] = f"outside{len(self.inputs)}"
        return path

    def _target(self, scope: Scope, target: str, needed_by: str) -> str:
        """The path of a target. Data for a loss are taken outside of the unit, with all frames."""
        described = scope.layers.get(needed_by.removeprefix(scope.path), {})
        if not described.get("loss") or target.startswith("layer:") or target in scope.layers:
            return super()._target(scope, target, needed_by)
        path = self.outer.data(self.outer.scope, target.removeprefix("data:"), needed_by)
        self.nodes[f"{TARGET}{path}"] = self.outer.nodes[path]
        return f"{TARGET}{path}"

    def module(self, scope: Scope) -> Module:
        """The module of a net; that of the unit belongs to the outer layer."""
        return self.root if scope is self.scope else super().module(scope)


def chosen(mask: Tensor, new: Any, old: Any) -> Any:
    """A state, or a tensor, with the new values where the mask is true; along axes that grow, all that is new.

    Frames along such an axis are counted, so that one that the mask leaves out is replaced by the next one.
    """

    def one(new: Tensor, old: Tensor) -> Tensor:
        x = where(mask, new, old, allow_broadcast_all_sources=True)
        return set_feature_dim(set_sparse_dim(x, new.sparse_dim), new.feature_dim)

    return mapped(one, new, old, grown=False)
