"""Constructing a net: each layer after those it needs, its options read once, its template computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.run.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DataNotFound, LayerNotFound, NetworkConstructionDependencyLoopException, NetworkError, RfError
from rfnb.network import options as _options
from rfnb.network.axes import declared_order, matching
from rfnb.network.batch_norm import BatchNorm
from rfnb.network.extern_data import ExternData
from rfnb.network.layer import IGNORED, Layer, layer_by_class
from rfnb.network.losses import LayerLoss, loss_by_name
from rfnb.network.params import Variables, check_shape
from rfnb.network.resolve import Scope, names_of_sources
from rfnb.network.template import on_meta, template_of
from rfnb.network.versions import holds
from rfnb.nn.module.module import Module
from rfnb.ops.shape import set_feature_dim


@dataclass
class Node:
    """A constructed layer, or a data key, and where it takes its inputs from."""

    path: str
    layer: Layer | None
    template: Tensor
    sources: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    loss: LayerLoss | None = None
    inv_norm_factor: str | None = None


class Builder:
    """Constructs the layers of a net dict. nodes: those that are constructed, each after those it needs."""

    def __init__(self, root: Module, extern: ExternData, version: int, device: str | None):
        self.root, self.extern, self.version = root, extern, version
        self.axes = extern.axes
        self.nodes: dict[str, Node] = {}
        self.modules: dict[str, Layer] = {}
        self.variables = Variables(device)
        self.scope = Scope({})
        self._stack: list[str] = []
        self._aliases: dict[str, str] = {}

    # -- which layers

    def construct(self, net_dict: Mapping[str, Any], names: Iterable[str]) -> None:
        """Constructs these layers, all that they need, and the outputs and losses in subnetworks that are used."""
        self.scope.layers = {**self.scope.layers, **net_dict}
        for name, described in net_dict.items():
            key = described.get("register_as_extern_data") if isinstance(described, Mapping) else None
            if key is not None:
                self._aliases[key] = name
        for name in [*self._aliases.values(), *names]:
            self._in_order(self.scope, name)
        done: set[str] = set()
        while more := [scope for scope in self._subs(self.scope) if scope.path not in done]:
            for scope in more:
                done.add(scope.path)
                if f"{scope.path.rstrip('/')}" in self.nodes:
                    for name in ends_of(scope.layers):
                        self._in_order(scope, name)

    def _in_order(self, scope: Scope, name: str) -> None:
        """Constructs a layer, its sources first: a chain of sources may be longer than Python can nest calls."""
        todo = [(scope, name, False)]
        begun: dict[str, None] = {}  # in their order
        while todo:
            scope, name, ready = todo.pop()
            path = scope.path + name
            if ready:
                del begun[path]
                self.layer(scope, name)
            elif path in begun:
                raise in_circle(path, list(begun))
            elif path not in self.nodes:
                begun[path] = None
                todo.append((scope, name, True))
                todo.extend((*found, False) for found in reversed(self._sources_of(scope, name)))

    def _sources_of(self, scope: Scope, name: str) -> list[tuple[Scope, str]]:
        """The layers under `from`; of a subnetwork, its output. What does not exist is an error when it is needed."""
        described = scope.layers.get(name)
        if not isinstance(described, Mapping):
            return []
        if scope.is_subnet(name) and isinstance(described.get("subnetwork"), Mapping):
            return [(scope.sub(name), "output")] if "output" in described["subnetwork"] else []
        found = []
        for source in names_of_sources(described, None):
            try:
                where, reference = scope.find(source)
                while reference == "data" and where.parent is not None:
                    inner = names_of_sources(where.options_of_subnet(), None)
                    where, reference = where.parent.find(inner[0] if inner else "data")
            except NetworkError:
                continue
            head = reference if reference in where.layers else reference.partition("/")[0]
            if head in where.layers:
                found.append((where, head))
        return found

    def _subs(self, scope: Scope) -> list[Scope]:
        return [each for sub in scope.subs.values() for each in (sub, *self._subs(sub))]

    def find(self, scope: Scope, reference: str, needed_by: str = "") -> str:
        """The path of the layer or data that a reference means, which is constructed if it is not yet."""
        where, name = scope.find(reference, needed_by)
        if name in where.layers:
            return self.layer(where, name)
        head, _, part = name.partition("/")
        if head in where.layers:
            path = self.layer(where, head)
            if f"{path}/{part}" not in self.nodes:
                what = f"{needed_by}: the layer {path!r} has no part {part!r}"
                raise LayerNotFound(what, hint=f"its parts: {', '.join(self._parts(path)) or 'none'}")
            return f"{path}/{part}"
        return self.data(where, name.partition(":")[2], needed_by)

    def _parts(self, path: str) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self.nodes if name.startswith(f"{path}/")]

    def data(self, scope: Scope, key: str, needed_by: str = "") -> str:
        """The path of a data key; in a subnetwork, its sources are data too."""
        if scope.parent is not None:
            described = scope.options_of_subnet()
            sources = names_of_sources(described, "data" if not holds("from is required", self.version) else None)
            if not key and sources:
                if len(sources) == 1:
                    return self.find(scope.parent, sources[0], needed_by)
                return self._joined(scope, sources)
            if key.isdecimal() and int(key) < len(sources):
                return self.find(scope.parent, sources[int(key)], needed_by)
            return self.data(scope.parent, key, needed_by)
        key = key or self.extern.default_input
        if key in self._aliases:
            return self.layer(self.scope, self._aliases[key])
        path = f"data:{key}"
        if path not in self.nodes:
            if not self.extern.has_data(key):
                hint = did_you_mean(key, [*self.extern.data, *self._aliases])
                what = f"{needed_by}: there is no data key {key!r}" if needed_by else f"there is no data key {key!r}"
                raise DataNotFound(what, expected=", ".join(self.extern.data) or "none", hint=hint)
            self.nodes[path] = Node(path, None, template_of(self.extern.get_data(key)))
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
        if path in self.nodes:
            return path
        if path in self._stack:
            raise in_circle(path, self._stack)
        described = scope.layers[name]
        if not isinstance(described, Mapping) or "class" not in described:
            what = f"layer {path!r} is not described by a dict with a class"
            raise NetworkError(what, got=repr(described)[:60], expected='{"class": …}')
        self._stack.append(path)
        try:
            self._build(scope, path, described, scope)
        except RfError as error:
            if not getattr(error, "at_layer", None):
                line = getattr(described, "line", None)
                where = f"layer {path!r} ({described['class']})" + (f", line {line}" if line else "")
                error.what = f"{where}: {error.what}"
                error.at_layer = path  # type: ignore[attr-defined]
            raise
        finally:
            self._stack.pop()
        return path

    def module(self, scope: Scope) -> Module:
        """The module of a net: the network, or the layer of a subnetwork."""
        if scope.parent is None:
            return self.root
        path = scope.path.rstrip("/")
        if path not in self.modules:
            described = scope.options_of_subnet()
            self._attach(scope.parent, scope.name, layer_by_class(described["class"])(path, self.version))
        return self.modules[path]

    def _attach(self, scope: Scope, name: str, layer: Layer) -> None:
        owner = self.module(scope)
        attribute = name.replace(".", "_")
        while hasattr(type(owner), attribute) or attribute in vars(owner):
            attribute += "_"
        setattr(owner, attribute, layer)
        self.modules[scope.path + name] = layer

    def _build(self, scope: Scope, path: str, described: Mapping[str, Any], owner: Scope) -> None:
        cls = layer_by_class(described["class"])
        given = self._known_options(cls, described)
        default = None if cls.sourceless or holds("from is required", self.version) else "data"
        if "from" not in described and default is None and not cls.sourceless:
            raise NetworkError("the option from is missing", expected='"from": "data"', hint="version 0 takes data")
        if "subnetwork" in cls.options:
            inner = scope.sub(path[len(scope.path) :])
            sources = [self.layer(inner, "output")] if "output" in inner.layers else []
            if not sources:
                raise LayerNotFound("the subnetwork has no output", expected='a layer named "output"')
        else:
            sources = [self.find(scope, name, path) for name in names_of_sources(described, default)]
        inputs: dict[str, str] = {}
        for name, option in cls.options.items():
            if option.kind == "layer" and isinstance(given.get(name), str):
                inputs[name] = self.find(scope, given.pop(name), path)
            elif option.kind == "layers" and given.get(name) is not None:
                found: dict[str, str] = {}
                given[name] = _options.without_layers(given[name], option.types, name, found)
                inputs.update({key: self.find(scope, reference, path) for key, reference in found.items()})
        templates = [self.nodes[source].template for source in sources]
        layer = self.modules.get(path) or cls(path, self.version)
        self._join(layer, templates)
        with get_run_ctx().train_flag_ctx(False):
            with on_meta():
                prepared = layer.prepared(*templates)
            first = prepared[0] if prepared else None
            self._set_options(layer, cls, given, first, scope)
            node = Node(path, layer, None, tuple(sources), inputs)  # type: ignore[arg-type]
            self._set_target(node, scope, first, given)
            self._give_parameters(layer, scope, path, given)
            by_name = {name: self.nodes[source].template for name, source in inputs.items()}
            layer.setup(*prepared, **by_name)
            with on_meta(*layer.parameters(recurse="subnetwork" not in cls.options)):
                out = layer.compute(*prepared, **by_name)
                layer.feature_dim = layer.feature_of(out, prepared)
                out = set_feature_dim(out, layer.feature_dim)
                order = layer.order_of(declared_order(out, prepared), prepared)
                node.template = out.copy_transpose(order)
        if layer.batch_norm:
            layer.normalized = BatchNorm.of(layer, node.template, {} if layer.batch_norm is True else layer.batch_norm)
        layer._new_parameter = None
        for part, x in layer.parts.items():
            template = x.copy_transpose(declared_order(x, prepared))
            self.nodes[f"{path}/{part}"] = Node(f"{path}/{part}", None, template)
        layer.parts = {}
        for dim, name in layer.names_of_dims().items():
            self.axes.name(dim, name)
        if path not in self.modules:
            self._attach(owner, path[len(owner.path) :], layer)
        self.nodes[path] = node

    def _known_options(self, cls: type[Layer], described: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in described.items() if name not in ("class", "from")}
        for name in list(given):
            if str(name).startswith("#") or name in IGNORED:
                del given[name]
            elif name not in cls.options:
                expected = ", ".join(name for name in cls.options if name not in Layer.options) or "the common options"
                hint = did_you_mean(name, cls.options)
                raise NetworkError(f"unknown option {name!r}", expected=expected, hint=hint)
        return given

    def _join(self, layer: Layer, templates: list[Tensor]) -> None:
        pairs: list[tuple[tuple[Dim, Dim], ...]] = []
        for x in templates:
            found = matching(x, templates[0]) if pairs else ()
            if layer.joins:
                found = tuple((a, b) for a, b in found if a is not x.feature_dim and b is not templates[0].feature_dim)
            pairs.append(found)
        layer.renamed = tuple(pairs)
        if layer.joins and len(templates) > 1:
            sizes = [(x.sparse_dim or x.feature_dim or x.dims[-1]).dimension or 0 for x in templates]
            taken = [dim for x in templates for dim in x.dims if dim is not x.feature_dim]
            layer.joined_dim = self.axes.feature(sum(sizes), taken)

    def _set_options(
        self, layer: Layer, cls: type[Layer], given: Mapping[str, Any], source: Tensor | None, scope: Scope
    ) -> None:
        numbers = not holds("axes are no numbers", self.version)
        for name, option in cls.options.items():
            value = given.get(name, option.default)
            if option.kind == "layer" and name not in given:
                value = None if option.default is _options.REQUIRED else option.default
            setattr(layer, name, _options.read(option, name, value, self.axes, source, numbers=numbers))
        layer.pool = self.axes
        if layer.dropout and source is not None:
            shape = layer.dropout_noise_shape
            if shape is None:
                layer.dropped_dims = tuple(filter(None, [source.feature_dim]))
            elif isinstance(shape, Mapping):
                drawn = {dim for key, v in shape.items() if v in (None, -1) for dim in self.axes.find(key, source)}
                fixed = {dim for key, v in shape.items() if v == 1 for dim in self.axes.find(key, source)}
                layer.dropped_dims = tuple(dim for dim in source.dims if dim in drawn - fixed)

    def _set_target(self, node: Node, scope: Scope, source: Tensor | None, given: Mapping[str, Any]) -> None:
        layer = node.layer
        assert layer is not None
        if layer.loss is not None:
            opts = dict(layer.loss_opts or {})
            factor = opts.get("custom_inv_norm_factor")
            if isinstance(factor, str):
                node.inv_norm_factor = self.find(scope, factor, node.path)
            node.loss = loss_by_name(layer.loss, opts)
        target = layer.target
        if target is None and node.loss is not None and node.loss.needs_target:
            target = self.extern.default_target
        if isinstance(target, list | tuple):
            target = target[0] if target else None
        if target is not None:
            reference = target.removeprefix("layer:")
            known = target.startswith("layer:") or target in scope.layers
            node.target = self.find(scope, reference if known else f"data:{target}", node.path)
        taken = [] if source is None else [dim for dim in source.dims if dim is not source.feature_dim]
        if layer.out_dim is None and layer.n_out is not None:
            layer.out_dim = self.axes.feature(layer.n_out, taken)
        elif layer.out_dim is None and node.target is not None:
            of = self.nodes[node.target].template
            dim = of.sparse_dim or of.feature_dim
            more = 0 if node.loss is None else node.loss.more_labels
            if dim is not None and dim.dimension is not None:
                layer.out_dim = self.axes.feature(dim.dimension + more, taken) if more else dim

    # -- parameters

    def _give_parameters(self, layer: Layer, scope: Scope, path: str, given: Mapping[str, Any]) -> None:
        prefix = self._variable_scope(scope, path[len(scope.path) :], given.get("name_scope"))
        trainable = layer.trainable and self._trainable(scope)
        reused = given.get("reuse_params")

        def new(name: str, dims: Any, initial: Any) -> Parameter:
            shared = reused
            if isinstance(reused, Mapping):
                shared = reused.get("reuse_layer") if "map" not in reused else (reused["map"].get(name) or {})
                shared = shared.get("reuse_layer") if isinstance(shared, Mapping) else shared
            if shared:
                other = self.nodes[self.find(scope, shared, path)].layer
                found = {} if other is None else other.params
                if name not in found:
                    raise NetworkError(f"reuse_params: {shared!r} has no parameter {name!r}", expected=", ".join(found))
                check_shape(name, found[name], dims)
                return found[name]
            return self.variables.get(f"{prefix}{name}", dims, initial, trainable=trainable)

        layer._new_parameter = new

    def _variable_scope(self, scope: Scope, name: str, given: str | None) -> str:
        above = ""
        if scope.parent is not None:
            above = self._variable_scope(scope.parent, scope.name, scope.options_of_subnet().get("name_scope"))
        if given is None:
            return f"{above}{name}/"
        if given.startswith("/"):
            return f"{given[1:]}/" if given != "/" else ""
        return f"{above}{given}/" if given else above

    def _trainable(self, scope: Scope) -> bool:
        above = scope
        while above.parent is not None:
            if above.options_of_subnet().get("trainable") is False:
                return False
            above = above.parent
        return True


def in_circle(path: str, begun: list[str]) -> NetworkConstructionDependencyLoopException:
    """The error for a layer that is needed for its own construction."""
    circle = [*begun[begun.index(path) :], path]
    shown = circle if len(circle) < 12 else [*circle[:5], "…", *circle[-5:]]
    return NetworkConstructionDependencyLoopException(
        f"layer {path!r} needs itself: {' → '.join(shown)}",
        got=f"a circle of {len(circle) - 1} layers",
        hint='prev: in a recurrent subnetwork takes the last step: "from": "prev:…"',
    )


def ends_of(layers: Mapping[str, Any], *, search: bool = False, evaluate: bool = True) -> list[str]:
    """The layers that are constructed for their own sake, sorted: outputs, and those with a loss."""
    found = []
    for name, described in layers.items():
        if str(name).startswith("#"):
            continue
        if not isinstance(described, Mapping):
            described = {}
        if (described.get("only_on_search") and not search) or (described.get("only_on_eval") and not evaluate):
            continue
        is_end = name == "output" or name.endswith(":output") or described.get("is_output_layer")
        if is_end or described.get("loss"):
            found.append(name)
    return sorted(found)
