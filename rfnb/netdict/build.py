"""What a constructed net consists of: nodes for layers, data keys and values of loops; their templates and options.

Parameters of a network: by variable name, so that layers can share them; and as a dict by layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw, selected
from rfnb.core.ground.defaults import set_default_device_ctx
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError, ParameterError
from rfnb.netdict import options as _options
from rfnb.netdict.axes import NetworkDims, broadcast, unknown_size
from rfnb.netdict.extern_data import DataKey
from rfnb.netdict.layer import Layer, SteppingLayer, layer_by_class, nets_inside
from rfnb.netdict.layer_call import with_priorities
from rfnb.netdict.losses import LayerLoss
from rfnb.netdict.resolve import EXTRA, Scope, names_of_operands, names_of_sources, places_of
from rfnb.netdict.spec import COMMON, IGNORED, CommonOptions
from rfnb.netdict.versions import holds
from rfnb.ops.create import zeros

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder
    from rfnb.netdict.loops.net import RecNet


Kind = Literal["layer", "part", "data", "frame", "previous", "step"]


@dataclass(eq=False)
class NetNode:
    """A constructed layer, or another value, and where it takes its inputs from.

    Attributes:
        template: its value without numbers; of a value in a loop, that of one step.
        sources, inputs: paths of nodes; inputs by the names of options. loss_inputs: what the loss takes, so too.
        prepared: templates of what the layer gets from its sources, once somebody asked for its first state.
        kind: "part" is a further output of a layer. In a loop: "frame" is the frame of the step, "previous" the value
            of a layer in the step before, "step" the number of the step.
        of: the path of that layer, or of what the frame is of.
        loop: the recurrent net whose step has the value; None outside of loops.
        state: what the layer carries from step to step, as a template; None if it carries nothing. left: whether the
            layer has left its loop, so that it carries it along the frames.
        first: of a value of the step before in a net inside of a layer, what is given for the first step.
        guessed: whether the template is a guess, as the layer is not constructed yet.
    """

    path: str
    layer: Layer | None
    template: Tensor
    sources: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    loss: LayerLoss | None = None
    inv_norm_factor: str | None = None
    loss_inputs: dict[str, str] = field(default_factory=dict)
    kind: Kind = "layer"
    of: str = ""
    loop: RecNet | None = None
    state: State | None = None
    left: bool = False
    guessed: bool = False
    first: Any = None
    prepared: tuple[Tensor, ...] | None = None

    @property
    def changes_params(self) -> bool:
        """Whether the layer has other parameters in each call: with noise, for example."""
        return self.layer is not None and self.layer.spec.changes is not None

    @property
    def needs(self) -> tuple[str, ...]:
        """The paths of all values that its own is computed from, in the same step."""
        owner = (self.of,) if self.kind in ("part", "frame") and self.of else ()
        return (*self.sources, *self.inputs.values(), *owner)

    @property
    def needs_ever(self) -> tuple[str, ...]:
        """The paths of `needs`, and of what it needs of the step before."""
        return (*self.needs, self.of) if self.kind == "previous" else self.needs

    @property
    def loops(self) -> list[RecNet]:
        """The loops that it stands in, from the inside."""
        return [] if self.loop is None else self.loop.chain


def stepping(node: NetNode) -> SteppingLayer:
    """The layer of a node that has a state."""
    assert isinstance(node.layer, SteppingLayer)
    return node.layer


def prepared_of(node: NetNode, nodes: Mapping[str, NetNode]) -> tuple[Tensor, ...]:
    """Templates of what a layer with a state gets from its sources."""
    if node.prepared is None:
        with get_run_ctx().train_flag_ctx(False), on_meta():
            node.prepared = stepping(node).prepared(*(nodes[path].template for path in node.sources))
    return node.prepared


def run_node(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Computes the output of a layer outside of loops, and its further outputs."""
    layer, value = node.layer, values.__getitem__
    assert layer is not None
    inputs = dict(zip(node.inputs, map(value, node.inputs.values()), strict=True))
    values[node.path] = layer(*map(value, node.sources), **inputs)
    if layer.last.parts:
        take_parts(node, values)


def take_parts(node: NetNode, values: MutableMapping[str, Tensor]) -> None:
    """Moves the further outputs of a layer to the values."""
    assert node.layer is not None
    values.update({f"{node.path}/{part}": x for part, x in node.layer.last.parts.items()})
    node.layer.last.parts = {}


def every_node(nodes: Mapping[str, NetNode]) -> dict[str, NetNode]:
    """The nodes by path, with those of nets inside of layers: units of masked_computation, sides of cond."""
    every = dict(nodes)
    for node in nodes.values():
        for net in nets_inside(node.layer):
            every.update(net.every_node())
    return every


def origin_of(nodes: Mapping[str, NetNode], path: str, dim: Dim) -> str:
    """The path of the layer that made a dim of a value, or of the data that has it."""
    visited: set[str] = set()
    while path not in visited:
        visited.add(path)
        node = nodes[path]
        frames = node.loop.sources if node.kind == "frame" and node.loop is not None else ()
        sources = [name for name in (node.of, *node.needs, *frames) if name in nodes]
        path = next((name for name in sources if dim in nodes[name].template.dims), path)
    return path


def value_of(path: str, nodes: Mapping[str, NetNode]) -> Tensor:
    """The output of a layer, computed from constants and parameters. Raises NetworkError if it needs anything else."""
    values: dict[str, Tensor] = {}
    todo = [path]
    while todo:
        at = todo[-1]
        node = nodes[at]
        if node.kind != "layer" or node.layer is None or node.loop is not None:
            got = f"{at!r}, which is known in a batch only"
            raise NetworkError(
                "a layer without data is needed here", got=got, expected='for example "class": "constant"'
            )
        missing = list(dict.fromkeys(need for need in (*node.sources, *node.inputs.values()) if need not in values))
        if missing:
            todo += missing
        else:
            run_node(nodes[todo.pop()], values)
    return values[path]


def variable_scope(scope: Scope, name: str, given: str | None) -> str:
    """What stands before the names of the variables of a layer: "encoder/lstm/".

    given: the option `name_scope`.
    """
    prefix = ""
    if scope.parent is not None:
        prefix = variable_scope(scope.parent, scope.name, scope.options_of_subnet().get("name_scope"))
        prefix += "rec/" if scope.recurrent else ""
    if given is None:
        return f"{prefix}{name}/"
    if given.startswith("/"):
        return f"{given[1:]}/" if given != "/" else ""
    return f"{prefix}{given}/" if given else prefix


def is_trainable(scope: Scope) -> bool:
    """Whether no layer around the net says that its parameters are not trained."""
    around = (net.options_of_subnet() for net in scope.chain if net.parent is not None)
    return all(described.get("trainable") is not False for described in around)


def _given(described: Mapping[str, object], option: str) -> bool:
    """Whether a net dict sets an option; what has no truth, such as an array, counts, and is an error later."""
    value = described.get(option)
    return bool(value) if isinstance(value, int | str | None) else True


def ends_of(layers: Mapping[str, object], *, search: bool = False, evaluate: bool = True) -> list[str]:
    """The layers that are constructed for their own sake, sorted: outputs, and those with a loss."""
    ends = []
    for name, described in layers.items():
        if str(name).startswith("#"):
            continue
        if not isinstance(described, Mapping):
            described = {}
        if (_given(described, "only_on_search") and not search) or (_given(described, "only_on_eval") and not evaluate):
            continue
        is_end = name == "output" or name.endswith(":output")
        if is_end or any(_given(described, option) for option in ("is_output_layer", "loss", "need_last")):
            ends.append(name)
    return sorted(ends)


def template_of(data: DataKey) -> Tensor:
    """The template of a data key, whose lengths are symbols."""
    give_symbols(data.dims)
    with on_meta():
        return zeros(data.dims, dtype=data.dtype, sparse_dim=data.sparse_dim, feature_dim=data.feature_dim)


def give_symbols(dims: Sequence[Dim]) -> None:
    """Gives dims sizes that come with the batch: reading one raises, so that no template depends on them."""
    owners = [dim for dim in dims if dim.is_batch_dim() or is_beam(dim)]
    for root in dict.fromkeys(root for dim in (*owners, *dims) for root in dim.roots.values()):
        if root.dimension is None:
            root.bind(unknown_size(root, () if root in owners else owners))


@contextmanager
def on_meta(*parameters: Parameter) -> Iterator[None]:
    """Computes without numbers inside the block, with these parameters too; nobody who watches ops sees it."""
    raws = [parameter._raw for parameter in parameters]
    try:
        for parameter in parameters:
            parameter._raw = backend_of_raw(parameter._raw).without_numbers_raw(parameter._raw)
        with listening(None), set_default_device_ctx("meta"), selected().shapes_only():
            yield
    finally:
        for parameter, raw in zip(parameters, raws, strict=True):
            parameter._raw = raw


CHANGES = {"dropout": "param_dropout", "min_ndim": "param_dropout_min_ndim", "noise": "param_variational_noise"}
"""By field of `Changes`, the option for it, which the config may have too."""


def class_of(described: Mapping[str, object]) -> type[Layer]:
    """The class of a layer: `rec` with a net dict as its unit has one of its own."""
    name = described["class"]
    is_net = isinstance(name, str) and name == "rec" and isinstance(described.get("unit"), Mapping)
    return layer_by_class("rec:unit" if is_net else name)


def named_layers(scope: Scope, name: str) -> list[tuple[Scope, str]]:
    """The layers that the options of a layer name, beside its sources; none for a layer in a loop."""
    described = scope.layers.get(name)
    if not isinstance(described, Mapping) or "class" not in described or scope.in_loop is not None:
        return []
    try:
        cls = class_of(described)
        described = cls.rewritten(described)
    except Exception:  # which the construction of the layer raises too
        return []
    names: list[Any] = names_of_sources(described, None)
    if not cls.traits.recurrent:
        names += [name for _, name in layers_in_options(cls, described)]
    names += reused_layers(described.get("reuse_params"))
    target = described.get("target")
    if isinstance(target, str) and (target.startswith("layer:") or target in scope.layers):
        names.append(target.removeprefix("layer:"))
    sides = [side for option in cls.traits.units if isinstance(side := described.get(option), Mapping)]
    names += [layer.removeprefix("base:") for side in sides for layer in names_of_operands(side)]
    return places_of(scope, names)


def layers_in_options(cls: type[Layer], described: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Pairs of an option and the layer that it names."""
    for option, declared in cls.options.items():
        value, names = described.get(option), dict[str, str]()
        if declared.kind == "layers" or (declared.kind == "layer" and isinstance(value, str)):
            _options.without_layers(value, declared.types, option, names)
            yield from ((option, name) for name in names.values())


def known_options(cls: type[Layer], described: Mapping[str, object]) -> dict[str, Any]:
    """The options that a net dict gives. Raises NetworkError for one that is unknown, missing, or of another kind."""
    values = {}
    for name, value in described.items():
        if name in cls.options:
            values[name] = value
        elif name not in ("class", "from", *IGNORED) and not str(name).startswith("#"):
            expected = ", ".join(name for name in cls.options if name not in COMMON) or "the common options"
            hint = did_you_mean(name, cls.options)
            raise NetworkError(f"unknown option {name!r}", expected=expected, hint=hint)
    _options.check_required(cls.options, values)
    for name, value in values.items():  # nets inside of the layer read some of them before it does
        _options.checked(cls.options[name], name, value)
    return values


def join(layer: Layer, templates: Sequence[Tensor], axes: NetworkDims) -> None:
    """Finds which dims of the sources are those of the first one, and the dim of all features together."""
    pairs: list[tuple[tuple[Dim, Dim | None], ...]] = []
    for x in templates:
        matches = tuple(layer.matching(axes, x, templates[0])) if pairs else ()
        if layer.traits.joins:
            matches = tuple((a, b) for a, b in matches if a is not x.feature_dim and b is not templates[0].feature_dim)
        pairs.append(matches)
    if layer.traits.joins or layer.traits.broadcasts:
        sources = _matched(pairs, templates)
        layer.check_broadcast(sources)
        if layer.traits.broadcasts:
            pairs = [
                (*dims, *((dim, None) for dim in unit)) for dims, unit in zip(pairs, broadcast(sources), strict=True)
            ]
    layer.decide(renamed=tuple(pairs))
    if layer.traits.joins and len(templates) > 1:
        if any(not x.dims for x in templates):
            fault = "the sources are joined in their features, and one has no axis"
            got = ", ".join(x.describe_dims() for x in templates)
            raise NetworkError(fault, got=got, expected='"n_out" of the layers of a circle')
        sizes = [(x.sparse_dim or x.feature_dim or x.dims[-1]).dimension or 0 for x in templates]
        used_dims = [dim for x in templates for dim in x.dims if dim is not x.feature_dim]
        layer.decide(joined_dim=axes.feature(sum(sizes), used_dims))


def _matched(
    pairs: Sequence[Sequence[tuple[Dim, Dim | None]]], templates: Sequence[Tensor]
) -> list[tuple[list[Dim], Dim | None]]:
    """The dims of each source, with those of the first one for what matches, and its feature dim."""
    sources = []
    for matches, x in zip(pairs, templates, strict=True):
        new: dict[Any, Any] = dict(matches)
        sources.append(([new.get(dim, dim) for dim in x.dims], new.get(x.feature_dim, x.feature_dim)))
    return sources


def set_options(layer: Layer, given: Mapping[str, object], builder: Builder, source: Tensor | None) -> None:
    """Sets what a net dict gives, with Dims for the axes of its source: fields of the layer, and the common options."""
    axes, numbers = builder.axes, not holds("axes are no numbers", builder.version)
    options: dict[str, Any] = {}
    for name, option in layer.options.items():
        value = given.get(name, option.default)
        if option.kind == "layer" and name not in given:
            value = None if option.default is _options.REQUIRED else option.default
        if name == "axis" and option.kind == "axis" and isinstance(layer, SteppingLayer):
            value = layer.axis_in_loop(value, axes, source, numbers=numbers)
        options[name] = _options.read(option, name, value, axes, source, numbers=numbers)
        if option is not COMMON.get(name):
            setattr(layer, name, options[name])
    layer.out_dim = options["out_dim"]
    common = CommonOptions(**{name: options[name] for name in COMMON})
    layer.decide(common=common, dropped_dims=_dropped(common, axes, source))
    changes = layer.spec.changes
    for change, name in CHANGES.items() if changes is not None else ():
        setting = getattr(common, name)
        value = builder.config.get(name) if setting is None else setting
        if isinstance(value, int | float) and not isinstance(value, bool):
            setattr(changes, change, value)


def _dropped(common: CommonOptions, axes: NetworkDims, source: Tensor | None) -> tuple[Dim, ...]:
    """The dims along which dropout draws numbers."""
    shape = common.dropout_noise_shape
    if not common.dropout or source is None:
        return ()
    if common.dropout_axis is not None:
        return axes.find(common.dropout_axis, source)
    if shape is None:
        return tuple(filter(None, [source.feature_dim]))
    if not isinstance(shape, Mapping):
        return ()
    random_dims = {dim for key, v in shape.items() if v in (None, -1) for dim in axes.find(key, source)}
    fixed = {dim for key, v in shape.items() if v == 1 for dim in axes.find(key, source)}
    return tuple(dim for dim in source.dims if dim in random_dims - fixed)


DEEPEST = 60
"""How deep nets may be nested."""
OPTIONS = ("unit", "subnetwork", "true_layer", "false_layer")
"""Options that hold a net, or a layer."""
LAYERS = 1_000_000
"""The most layers of a net, where a dict that stands at several places counts at each."""


def check_net(net_dict: Mapping[str, object]) -> None:
    """Raises NetworkError if a name is not a string, or if nets are nested without end."""
    sizes: dict[int, tuple[int, int]] = {}  # by net: how deep nets are nested in it, and its layers
    open_nets: dict[int, str] = {}
    todo: list[tuple[str, Mapping[Any, object], list[Any] | None]] = [("", net_dict, None)]
    while todo:
        path, net, inner_nets = todo.pop()
        if id(net) in sizes:
            continue
        if inner_nets is not None:
            del open_nets[id(net)]
            depth = 1 + max((sizes[id(inner)][0] for _, inner in inner_nets), default=0)
            layers = len(net) + sum(sizes[id(inner)][1] for _, inner in inner_nets)
            sizes[id(net)] = depth, layers
            if depth > DEEPEST:
                raise NetworkError("nets are nested too deeply", got=f"{depth} nets", expected=f"at most {DEEPEST}")
            if layers > LAYERS:
                raise NetworkError("the net has too many layers", got=layers, expected=f"at most {LAYERS}")
        elif id(net) in open_nets:
            where = f"{path.rstrip('/')!r} is {open_nets[id(net)].rstrip('/') or 'the whole net'!r} again"
            raise NetworkError("a net contains itself", got=where[:200], expected="nets that end somewhere")
        else:
            open_nets[id(net)] = path
            inner_nets = list(_nets_in(path, net))
            todo += [(path, net, inner_nets), *((inner_path, inner, None) for inner_path, inner in inner_nets)]


def _nets_in(path: str, net: Mapping[Any, object]) -> Iterator[tuple[str, Mapping[object, object]]]:
    """The nets, and the single layers, that layers have in their options; of a layer alone, those in its own."""
    single = "class" in net and not isinstance(net["class"], Mapping)
    for name, described in [("", net)] if single else net.items():
        if not isinstance(name, str):
            where = f"layer {path.rstrip('/')!r}: " if path else ""
            got = f"{type(name).__name__} {name!r:.60}"
            raise NetworkError(f"{where}the name of a layer is not a string", got=got, expected="a string")
        options = described if isinstance(described, Mapping) else {}
        inner_nets = [options[option] for option in OPTIONS if isinstance(options.get(option), Mapping)]
        yield from ((f"{path}{name}/", inner) for inner in inner_nets)


def check_call(layer: Layer, sources: Sequence[Tensor], inputs: Mapping[str, str], given: Mapping[str, object]) -> None:
    """Raises NetworkError if a layer gets another number of sources than it takes, or if an option names no layer."""
    parameters = inspect.signature(layer.compute).parameters.values()
    kinds = {name: option.kind for name, option in layer.options.items()}
    for parameter in parameters:
        named = kinds.get(parameter.name) == "layer"
        if named and parameter.default is parameter.empty and parameter.name not in inputs:
            got = repr(given[parameter.name])[:60] if parameter.name in given else "nothing"
            raise NetworkError(f"{parameter.name} is not the name of a layer", got=got, expected="the name of a layer")
    placed = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in (*kinds, "target")]
    minimum = sum(p.default is p.empty for p in placed)
    maximum = None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(placed)
    if len(sources) < minimum or (maximum is not None and len(sources) > maximum):
        number = f"{minimum}" if maximum == minimum else f"{minimum} to {maximum}" if maximum else f"{minimum} or more"
        expected = f"{number} source{'s' if number != '1' else ''}"
        raise NetworkError("from names too few or too many sources", got=len(sources), expected=expected)


class NetworkVariables:
    """The parameters by variable name: two layers with the same name scope share them."""

    def __init__(self, device: str | None = None) -> None:
        self.device = device
        self.found: dict[str, Parameter] = {}

    def get(self, name: str, dims: Sequence[Dim], initial: object, *, trainable: bool) -> Parameter:
        """The parameter with this variable name, made if there is none. Raises ParameterError if its shape differs."""
        dims = with_priorities(dims)
        if name not in self.found:
            self.found[name] = Parameter(dims, initial=initial, trainable=trainable, device=self.device)
        check_shape(name, self.found[name], dims)
        return self.found[name]


def outputs_as_parameters(reused: object) -> dict[str, str]:
    """By the names of parameters, the layers whose outputs stand for them, as `reuse_params` says.

    >>> from rfnb.netdict.build import outputs_as_parameters
    >>> outputs_as_parameters({"map": {"W": {"layer_output": "embedding"}, "b": None}})
    {'W': 'embedding'}
    """
    entries = reused.get("map") if isinstance(reused, Mapping) else None
    layers = {name: entry.get("layer_output") for name, entry in (entries or {}).items() if isinstance(entry, Mapping)}
    return {name: reference for name, reference in layers.items() if reference is not None}


def reused_layers(reused: object) -> list[str]:
    """All layers that `reuse_params` names."""
    if not isinstance(reused, Mapping):
        return [reused] if isinstance(reused, str) else []
    entries = [reused, *(entry for entry in reused.get("map", {}).values() if isinstance(entry, Mapping))]
    named = [entry.get(key) for entry in entries for key in ("reuse_layer", "layer_output")]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def layer_of_parameter(reused: Any, name: str) -> str | None:
    """The layer whose parameter of this name a layer uses, as its `reuse_params` says; None: it has its own.

    reused: the name of a layer, or {"reuse_layer": name}, or {"map": {parameter: {"reuse_layer": name} or None}}.
    """
    if not isinstance(reused, Mapping):
        return reused
    entry = reused.get("map", {}).get(name) if "map" in reused else reused
    return entry.get("reuse_layer") if isinstance(entry, Mapping) else entry


def check_shape(name: str, parameter: Parameter, dims: Sequence[Dim]) -> None:
    """Raises ParameterError if a shared parameter does not have the sizes that a layer needs."""
    got, expected = ([dim.dimension for dim in axes] for axes in (parameter.dims, dims))
    if got != expected:
        raise ParameterError(f"{name} is shared, but has another shape", got=got, expected=expected)


def set_values(
    layers: Mapping[str, Layer],
    values: Mapping[str, Mapping[str, Any]],
    *,
    variables: Mapping[str, Parameter],
    ignore_non_existing: bool = False,
    ignore_wrong_shape: bool = False,
) -> None:
    """Sets parameters by layer and name. Raises ParameterError, which lists all that does not fit; then none is set.

    variables: by variable name. A layer with a net has the parameters in it too, by the ends of these: "s/rec/W_re".
    """
    wrong, assignments = [], []
    for path, arrays in values.items():
        path = path.replace("prev:", "")  # the layer whose output of the step before some name of it means
        if path not in layers and arrays and all(f"{path}/{name}" in variables for name in arrays):
            parameters = {name: variables[f"{path}/{name}"] for name in arrays}  # of a layer inside of a unit
        elif path in layers:
            parameters = {**_params_inside(layers, path, variables, arrays), **layers[path].params}
        else:
            if not ignore_non_existing:
                wrong.append(f"there is no layer {path!r}; {did_you_mean(path, layers) or ''}".rstrip("; "))
            continue
        for name, array in arrays.items():
            if name not in parameters:
                near = did_you_mean(name, parameters) or f"it has {', '.join(parameters) or 'none'}"
                wrong.append(f"{path} has no parameter {name!r}; {near}")
                continue
            shape, expected = tuple(np.shape(array)), tuple(dim.dimension for dim in parameters[name].dims)
            if shape == expected:
                assignments.append((parameters[name], array))
            elif not ignore_wrong_shape:
                wrong.append(f"{path}/{name} has the shape {expected}, not {shape}")
    if wrong:
        fault = (
            f"set_param_values_by_dict: {len(wrong)} {'parameter does' if len(wrong) == 1 else 'parameters do'} not fit"
        )
        raise ParameterError(fault, got="\n".join(wrong[:20]), hint="nothing was set")
    for parameter, array in assignments:
        parameter.assign(np.asarray(array).astype(parameter.dtype))


def _params_inside(
    layers: Mapping[str, Layer], path: str, variables: Mapping[str, Parameter], names: Iterable[str]
) -> dict[str, Parameter]:
    """The parameters of layers inside of a layer that these names mean, which are ends of their variable names."""
    short_names = [name for name in names if "/" in name and name not in layers[path].params]
    if not short_names:
        return {}
    ids = {id(x) for key, layer in layers.items() if key.startswith(f"{path}/") for x in layer.params.values()}
    full_names = sorted((name for name, x in variables.items() if id(x) in ids), key=len)
    ends = {key: next((name for name in full_names if name.endswith(f"/{key}")), None) for key in short_names}
    return {key: variables[name] for key, name in ends.items() if name is not None}


def values_of(layers: Mapping[str, Layer]) -> dict[str, dict[str, np.ndarray]]:
    """The values of all parameters, by layer and name; a shared one once, with additional nets last."""
    ids: set[int] = set()
    values: dict[str, dict[str, np.ndarray]] = {}
    for path, layer in sorted(layers.items(), key=lambda item: EXTRA.match(item[0]) is not None):
        for name, parameter in layer.params.items():
            if id(parameter) not in ids:
                ids.add(id(parameter))
                values.setdefault(path, {})[name] = parameter.numpy().copy()
    return values
