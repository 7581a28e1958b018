"""Constructing a net: each layer after those it needs, its options read once, its template computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import (
    DataNotFound,
    DimError,
    LayerNotFound,
    NetworkConstructionDependencyLoopException,
    NetworkError,
    RfError,
)
from rfnb.netdict import options as _options
from rfnb.netdict.axes import declared_order, renamed
from rfnb.netdict.build import (
    OPTIONS,
    NetNode,
    NetworkVariables,
    check_call,
    check_shape,
    class_of,
    ends_of,
    is_trainable,
    join,
    known_options,
    layer_of_parameter,
    named_layers,
    on_meta,
    origin_of,
    outputs_as_parameters,
    set_options,
    stepping,
    template_of,
    value_of,
    variable_scope,
)
from rfnb.netdict.extern_data import ExternData
from rfnb.netdict.layer import Layer, LayerOfNets, Site
from rfnb.netdict.layer_call import (
    BatchNormCall,
    Changes,
    changed_parameters,
    errors_explained,
    name_layer,
    renaming,
    with_priorities,
)
from rfnb.netdict.loops.build import Loops
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.losses import loss_by_name
from rfnb.netdict.resolve import EXTRA, STEP, Scope, in_circle, names_of_sources, registered_in, sources_of
from rfnb.netdict.spec import LayerSpec
from rfnb.netdict.versions import holds
from rfnb.nn.module.module import Module
from rfnb.ops.shape import set_feature_dim

CALLS = 20
"""The most calls, one inside the other, for the construction of a layer."""
DEEPEST = 30_000
"""Never more: the stack of the interpreter has its own end."""

_lock = Lock()
_wanted: list[int] = []
_usual: list[int] = []


@contextmanager
def deep_calls(layers: int) -> Iterator[None]:
    """Lets Python functions nest as deeply inside the block as a chain of this many layers needs.

    Blocks in several threads may overlap: the last one that ends sets the limit of before the first one.
    """
    with _lock:
        if not _wanted:
            _usual[:] = [sys.getrecursionlimit()]
        limit = min(_usual[0] + CALLS * layers, DEEPEST)
        _wanted.append(limit)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), limit))
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(limit)
            if not _wanted:
                sys.setrecursionlimit(_usual[0])


def layers_in_loops(described: object, *, inside: bool = False) -> int:
    """How many layers of a net dict are constructed by nested calls: those of recurrent nets, and what is in them."""
    if not isinstance(described, Mapping):
        return 0
    count = 0
    for layer in described.values():
        if not isinstance(layer, Mapping):
            continue
        count += inside
        for key in OPTIONS:
            net = layer.get(key)
            if isinstance(net, Mapping):
                one_layer = isinstance(net.get("class"), str)
                count += layers_in_loops({key: net} if one_layer else net, inside=inside or key != "subnetwork")
    return count


class Builder:
    """Constructs the layers of a net dict. nodes: those that are constructed, each after those it needs."""

    def __init__(self, root: Module, extern: ExternData, version: int, device: str | None, *, search: bool = False):
        self.root, self.extern, self.version = root, extern, version
        self.config: Mapping[str, Any] = getattr(root, "config", {})
        self.batch_independent: bool = getattr(root, "batch_independent", False)
        self.axes = extern.axes
        self.nodes: dict[str, NetNode] = {}
        self.modules: dict[str, Layer] = {}
        self.variables = NetworkVariables(device)
        self.scope = Scope({}, searches=search)
        self.loops = Loops(self)
        self.masked_loop: RecNet | None = None  # in whose steps a mask decides what is computed
        self.stack: list[str] = []
        self.takes_logs = False  # with `safe_log` in some layer
        self.every_layer: list[Layer] | None = None  # with those inside of others; found when somebody asks
        self.registered: dict[str, str] = {}  # by data key, the layer that registers its output there

    # -- which layers

    def construct(self, net_dict: Mapping[str, object], names: Iterable[str]) -> None:
        """Constructs these layers, all that they need, and the outputs and losses in subnetworks that are used."""
        self._add(net_dict)
        self.registered |= registered_in(net_dict)
        for data in self.extern.data.values():  # dims that layers name have sizes, whatever is constructed first
            template_of(data)
        with deep_calls(layers_in_loops(self.scope.layers)):
            self._construct(names)

    def _add(self, net_dict: Mapping[str, object]) -> None:
        self.scope.layers, self.every_layer = {**self.scope.layers, **net_dict}, None
        self.takes_logs |= "safe_log" in repr(net_dict)

    def construct_one(self, net_dict: Mapping[str, object], name: str) -> str:
        """Constructs one layer, "a/b" of a subnetwork for example, and all that it needs. Returns its path."""
        self._add(net_dict)
        with deep_calls(layers_in_loops(self.scope.layers)):
            path = self.find(self.scope, name, "construct_layer")
            self.loops.order()
        return path

    def _construct(self, names: Iterable[str]) -> None:
        for name in [*self.registered.values(), *names]:
            if EXTRA.match(name):
                self.find(self.scope, name)
            else:
                self._in_order(self.scope, name)
        self._construct_ends()
        self.loops.order()

    def _construct_ends(self) -> None:
        constructed: set[str] = set()
        while pending := [scope for scope in self.scope.inside if scope.path not in constructed]:
            for scope in pending:
                constructed.add(scope.path)
                assert scope.parent is not None
                owner = scope.path.rstrip("/")
                if owner not in self.nodes and scope.root.main is None and scope.parent.in_loop is None:
                    self._in_order(scope.parent, scope.name)
                if owner in self.nodes:
                    for name in ends_of(scope.layers, search=scope.search):
                        self._in_order(scope, name)

    def _in_order(self, scope: Scope, name: str) -> None:
        """Constructs a layer after all that it needs: a chain of layers may be longer than Python can nest calls."""
        goal, todo = (scope, name), [(scope, name, False)]
        open_layers: dict[str, object] = {}  # in their order, with what the net dict has for them
        while todo:
            scope, name, ready = todo.pop()
            path = scope.path + name
            if ready:
                del open_layers[path]
                self.layer(scope, name)
            elif path in open_layers:
                circle = list(open_layers.values())[list(open_layers).index(path) :]
                if not any(isinstance(layer, Mapping) and layer.get("reuse_params") for layer in circle):
                    raise in_circle(path, list(open_layers))
                self.layer(*goal)
                return
            elif path not in self.nodes:
                open_layers[path] = scope.layers[name]
                todo.append((scope, name, True))
                needs = [*sources_of(scope, name), *named_layers(scope, name)]
                todo.extend((*reference, False) for reference in reversed(needs))

    def find(self, scope: Scope, reference: str, needed_by: str = "") -> str:
        """The path of the layer or data that a reference means, which is constructed if it is not yet.

        "frame:layer" is the frame of the step of a loop, of a sequence from outside.
        """
        if isinstance(reference, str) and reference.startswith("frame:"):
            return self.loops.frame_of(
                scope, self.find(scope, reference.removeprefix("frame:"), needed_by), of_any=True
            )
        where, name = scope.find(reference, needed_by)
        if name in where.layers:
            return self.layer(where, name)
        if name == STEP or name.startswith("prev:"):
            return self.loops.value(where, name)
        head, _, part = name.partition("/")
        if head in where.layers:
            path = self.layer(where, head)
            if f"{path}/{part}" not in self.nodes:
                fault = f"{needed_by}: the layer {path!r} has no part {part!r}"
                raise LayerNotFound(fault, hint=f"its parts: {', '.join(self._parts(path)) or 'none'}")
            return f"{path}/{part}"
        key = name.partition(":")[2]
        return self.loops.frame(where, key) if where.recurrent else self.data(where, key, needed_by)

    def previous(self, scope: Scope, reference: str, path: str, loop: RecNet | None, needed_by: str = "") -> str:
        """Makes a value of the step before known under a path. Returns the path of its layer."""
        self.stack.append("prev:")
        try:
            of = self.find(scope, reference, needed_by)
        finally:
            self.stack.pop()
        self.nodes[path] = NetNode(path, None, self.nodes[of].template, kind="previous", of=of, loop=loop)
        return of

    def seen(self, path: str, scope: Scope) -> Tensor:
        """The template of a value as a layer of a net gets it: that of one step, or that of a whole sequence."""
        return self.loops.seen(self.nodes[path], scope)

    def _parts(self, path: str) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self.nodes if name.startswith(f"{path}/")]

    def data(self, scope: Scope, key: str, needed_by: str = "") -> str:
        """The path of a data key; in a subnetwork, its sources are data too. In a loop it is the whole sequence."""
        if scope.recurrent:
            assert scope.parent is not None
            return self.data(scope.parent, key, needed_by)
        if scope.parent is not None:
            described = scope.options_of_subnet()
            sources = names_of_sources(described, "data" if not holds("from is required", self.version) else None)
            if not key and sources:
                if len(sources) == 1:
                    return self.find(scope.parent, sources[0], needed_by)
                return self._joined(scope, sources)
            if key.isdecimal() and int(key) < len(sources):
                return self.find(scope.parent, sources[int(key)], needed_by)
            return self.find(scope.parent, f"data:{key}", needed_by)
        key = key or self.extern.default_input
        if key in self.registered:
            return self.layer(self.scope, self.registered[key])
        path = f"data:{key}"
        if path not in self.nodes:
            if not self.extern.has_data(key):
                hint = did_you_mean(key, [*self.extern.data, *self.registered])
                fault = f"{needed_by}: there is no data key {key!r}" if needed_by else f"there is no data key {key!r}"
                raise DataNotFound(fault, expected=", ".join(self.extern.data) or "none", hint=hint)
            self.nodes[path] = NetNode(path, None, template_of(self.extern.get_data(key)))
        return path

    def _joined(self, scope: Scope, sources: list[str]) -> str:
        """The sources of a subnetwork as one layer inside of it, named "data"."""
        path = f"{scope.path}data"
        if path not in self.nodes:
            assert scope.parent is not None
            self._build(scope.parent, path, {"class": "copy", "from": sources}, scope)
        return path

    # -- one layer

    def layer(self, scope: Scope, name: str) -> str:
        """Constructs a layer, with all that it needs, unless it is there. Returns its path."""
        path = scope.path + name
        if path in self.nodes and not (self.nodes[path].guessed and path not in self.stack):
            return path
        if path in self.stack:
            if not self.loops.across_steps(path):
                raise in_circle(path, self.stack)
            return self.loops.guess(scope, name)
        described = scope.layers[name]
        if not isinstance(described, Mapping) or "class" not in described:
            fault = f"layer {path!r} is not described by a dict with a class"
            raise NetworkError(fault, got=repr(described)[:60], expected='{"class": …}')
        self.stack.append(path)
        try:
            options = class_of(described).options
            for _ in self.loops.attempts(scope, path):
                with errors_explained(described, options):
                    self._build(scope, path, described, scope)
        except RfError as error:
            if isinstance(error, DimError) and scope.in_loop is not None and error.hint is None:
                error.hint = "the source is one step of the loop, without frames; with all frames it is outside, base:…"
            name_layer(error, path, described)
            raise
        finally:
            self.stack.pop()
        return path

    def module(self, scope: Scope) -> Module:
        """The module of a net: the network, or the layer of a subnetwork."""
        if scope.parent is None:
            return self.root
        path = scope.path.rstrip("/")
        if path not in self.modules:
            described = scope.options_of_subnet()
            self._attach(scope.parent, scope.name, class_of(described)(self._spec(path, described)))
        return self.modules[path]

    def _spec(self, path: str, described: Mapping[str, object], loop: RecNet | None = None) -> LayerSpec:
        """What is decided before a layer has options. loop: the recurrent net that it stands in."""
        return LayerSpec(
            path, self.version, described=described, pool=self.axes, config=self.config, loop=loop,
            nets=self.loops.nets, batch_independent=self.batch_independent,
            by_mask=loop is not None and loop is self.masked_loop, keeps_log=self.takes_logs,
        )  # fmt: skip

    def _attach(self, scope: Scope, name: str, layer: Layer) -> None:
        owner = self.module(scope)
        attribute = name.replace(".", "_")
        while hasattr(type(owner), attribute) or attribute in vars(owner):
            attribute += "_"
        setattr(owner, attribute, layer)
        self.modules[scope.path + name] = layer

    def _build(self, scope: Scope, path: str, described: Mapping[str, object], owner: Scope) -> NetNode:
        """Constructs a layer, and attaches it to its owner."""
        cls, original = class_of(described), described
        described = cls.rewritten(described)
        values = known_options(cls, described)
        rec: RecNet | None = None
        if "subnetwork" in cls.options:
            inner = scope.sub(path[len(scope.path) :])
            sources = [self.layer(inner, "output")] if "output" in inner.layers else []
            if not sources:
                raise LayerNotFound("the subnetwork has no output", expected='a layer named "output"')
        elif cls.traits.recurrent:
            rec = self.loops.net(scope.sub(path[len(scope.path) :]))
            sources = [self.loops.output(rec)]
        else:
            sources = self.sources(cls, described, scope, path)
        inputs: dict[str, str] = {}
        for name, option in cls.options.items() if rec is None else ():
            if option.kind == "layer" and isinstance(values.get(name), str):
                inputs[name] = self.find(scope, values.pop(name), path)
            elif option.kind == "layers" and values.get(name) is not None:
                references: dict[str, str] = {}
                values[name] = _options.without_layers(values[name], option.types, name, references)
                for key, reference in references.items():
                    found = self.find(scope, reference, path)
                    part = f"{found}/{option.part}"
                    inputs[key] = part if part in self.nodes else found
        for name, reference in outputs_as_parameters(values.get("reuse_params")).items():
            inputs[f"parameter {name}"] = self.find(scope, reference, path)
        net: Any = None
        if issubclass(cls, LayerOfNets):
            net, inputs_inside = cls.net_inside(self, scope, path, original)
            inputs.update(inputs_inside)
        templates = [self.seen(source, scope) for source in sources]
        loop = None if scope.in_loop is None else self.loops.net(scope.in_loop)
        spec = self._spec(path, original, loop)
        layer = self.modules.get(path) or cls(spec)
        if net is not None:
            layer.inner = net
        if rec is None:
            layer.spec = spec
            join(layer, templates, self.axes)
        changes = layer.spec.changes or Changes()
        layer.decide(changes=changes)
        node = NetNode(path, layer, None, tuple(sources), inputs, loop=loop)  # type: ignore[arg-type]
        with get_run_ctx().train_flag_ctx(False):
            with on_meta():
                prepared = layer.prepared(*templates) if rec is None else tuple(templates)
            first = prepared[0] if prepared else None
            if rec is None:
                set_options(layer, values, self, first)
            self._set_target(node, scope, first)
            if layer.takes_target and node.target is not None:
                target = layer.spec.common.target
                targets = target if isinstance(target, list | tuple) else [target]
                for i, target in enumerate(targets):
                    path_of_target = node.target if not i else self._target(scope, target, path)
                    inputs[f"target{i or ''}"] = self.loops.frame_of(scope, path_of_target)
            if rec is None:
                check_call(layer, prepared, inputs, original)
            by_name = {name: self.seen(source, scope) for name, source in inputs.items()}
            layer.site = Site(
                self._new_parameter(layer, changes, scope, path, values, by_name),
                lambda option: value_of(inputs[option], self.nodes),
                lambda i, dim: origin_of(self.nodes, sources[i], dim),
            )
            layer.setup(*prepared, **{name: x for name, x in by_name.items() if not name.startswith("parameter ")})
            with on_meta(*layer.parameters(recurse="subnetwork" not in cls.options and not cls.traits.recurrent)):
                with changed_parameters(layer, by_name) as plain_inputs:
                    out = self._output(node, prepared, plain_inputs)
                feature = layer.feature_of(out, prepared)
                layer.decide(feature_dim=feature)
                out = set_feature_dim(out, feature)
                order = layer.order_of(declared_order(out, prepared), prepared)
                node.template = out.copy_transpose(order)
        common, normalized = layer.spec.common, None
        if common.batch_norm:
            options = {} if common.batch_norm is True else common.batch_norm
            normalized = BatchNormCall.of(layer, node.template, options)
        del layer.site
        if not layer.takes_sources:
            node.sources = ()
            layer.decide(renamed=())
        layer.decide(changes=changes if changes else None, normalized=normalized)
        for part, x in layer.last.parts.items():
            template = x.copy_transpose(declared_order(x, prepared))
            self.nodes[f"{path}/{part}"] = NetNode(f"{path}/{part}", None, template, kind="part", of=path, loop=loop)
        layer.last.parts = {}
        for dim, name in layer.names_of_dims().items():
            self.axes.name(dim, name)
        if path not in self.modules:
            self._attach(owner, path[len(owner.path) :], layer)
        self.nodes[path] = node
        return node

    def _output(self, node: NetNode, prepared: Sequence[Tensor], inputs: Mapping[str, Tensor]) -> Tensor:
        """What the layer computes from templates; and the template of its state, if it has one."""
        layer = node.layer
        assert layer is not None
        if not layer.stepwise:
            return layer.compute(*prepared, **inputs)
        first = stepping(node).first_state(*prepared, **inputs)
        out, node.state = stepping(node).step(first, *prepared, **inputs)
        return out

    def sources(self, cls: type[Layer], described: Mapping[str, object], scope: Scope, path: str) -> list[str]:
        """The paths of the sources of a layer; in a loop, those from the step before come last."""
        sourceless = cls.traits.sourceless
        default = None if sourceless or holds("from is required", self.version) else "data"
        if "from" not in described and default is None and not sourceless:
            raise NetworkError("the option from is missing", expected='"from": "data"', hint="version 0 takes data")
        names = names_of_sources(described, default)
        later = sorted(range(len(names)), key=lambda i: str(names[i]).rpartition("base:")[2].startswith("prev:"))
        paths = {i: self.find(scope, names[i], path) for i in later}
        return [paths[i] for i in range(len(names))]

    def _set_target(self, node: NetNode, scope: Scope, source: Tensor | None) -> None:
        layer = node.layer
        assert layer is not None
        common = layer.spec.common
        if common.loss is not None:
            opts = dict(common.loss_opts or {})
            factor = opts.get("custom_inv_norm_factor")
            if isinstance(factor, str):
                node.inv_norm_factor = self.find(scope, factor, node.path)
            node.loss = loss_by_name(common.loss, opts)
            names = {option: opts[option] for option in node.loss.layers if isinstance(opts.get(option), str)}
            node.loss_inputs = {option: self.find(scope, name, node.path) for option, name in names.items()}
        target = common.target
        if target is None and node.loss is not None and node.loss.needs_target:
            target = self.extern.default_target
        if isinstance(target, list | tuple):
            target = target[0] if target else None
        if target is not None:
            node.target = self._target(scope, target, node.path)
        used_dims = [] if source is None else [dim for dim in source.dims if dim is not source.feature_dim]
        if layer.out_dim is None and (size := common.n_out) is not None:
            keeps = layer.traits.keeps_features and bool(node.sources)
            feature = self.seen(node.sources[0], scope).feature_dim if keeps else None
            keeps = feature is not None and feature.dimension == size and not self.axes.made(feature)
            layer.out_dim = feature if keeps else self.axes.feature(size, used_dims)
        elif layer.out_dim is None and node.target is not None:
            of = self.nodes[node.target].template
            dim = of.sparse_dim or of.feature_dim
            layer.decide(target_dim=dim)
            extra = 0 if node.loss is None else node.loss.more_labels
            if dim is not None and dim.dimension is not None:
                layer.out_dim = self.axes.feature(dim.dimension + extra, used_dims) if extra else dim

    def _target(self, scope: Scope, target: str, needed_by: str) -> str:
        """The path of a target: a layer if there is one with this name, else a data key, with all frames."""
        reference = target.removeprefix("layer:")
        if target.startswith("layer:") or target in scope.layers:
            return self.find(scope, reference, needed_by)
        return self.data(self.scope, target.removeprefix("data:"), needed_by)

    # -- parameters

    def _new_parameter(
        self, layer: Layer, changes: Changes, scope: Scope, path: str, given: Mapping[str, Any],
        inputs: Mapping[str, Tensor],
    ) -> Callable[[str, Sequence[Dim], object], Tensor]:  # fmt: skip
        prefix = variable_scope(scope, path[len(scope.path) :], given.get("name_scope"))
        trainable = layer.spec.common.trainable and is_trainable(scope)
        reused = given.get("reuse_params")

        def new(name: str, dims: Sequence[Dim], initial: object) -> Tensor:
            if (key := f"parameter {name}") in inputs:
                changes.given[name] = key, (pairs := renaming(inputs[key], dims))
                with on_meta():
                    return renamed(inputs[key], pairs)
            if shared := layer_of_parameter(reused, name):
                try:
                    owner = self.nodes[self.find(scope, shared, path)].layer
                except NetworkConstructionDependencyLoopException:  # the owner, which needs this layer, takes it later
                    where, of = scope.find(shared, path)
                    owns = where.layers[of]
                    full_name = _variable(variable_scope(where, of, owns.get("name_scope")), class_of(owns), name)
                    trained = bool(owns.get("trainable", True)) and is_trainable(where)
                    return shared_here(self.variables.get(full_name, dims, initial, trainable=trained), name, dims)
                table = {} if owner is None else owner.params
                if name not in table:
                    raise NetworkError(f"reuse_params: {shared!r} has no parameter {name!r}", expected=", ".join(table))
                check_shape(name, table[name], dims)
                return shared_here(table[name], name, dims)
            parameter = self.variables.get(_variable(prefix, type(layer), name), dims, initial, trainable=trainable)
            # the steps of a loop name the dims themselves, and are kept from call to call
            return parameter if layer.loop is not None else shared_here(parameter, name, dims)

        def shared_here(parameter: Tensor, name: str, dims: Sequence[Dim]) -> Tensor:
            ordered = with_priorities(dims)
            if any(a != b for a, b in zip(parameter.dims, ordered, strict=True) if a not in dims):
                changes.shared[name] = renaming(parameter, dims)
            return parameter

        return new


def _variable(prefix: str, cls: type[Layer], name: str) -> str:
    """The name of a variable. prefix: what stands before those of the layer."""
    return prefix + ("" if name.startswith("batch_norm/") else cls.traits.cell_scope) + name
