"""The options of a layer, and what it does with several sources: read once, when it is constructed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict import options as _options
from rfnb.netdict.axes import NetworkDims, broadcast
from rfnb.netdict.layer import Layer, SteppingLayer, layer_by_class
from rfnb.netdict.params import reused_layers
from rfnb.netdict.resolve import Scope, names_of_operands, names_of_sources, places_of
from rfnb.netdict.spec import COMMON, IGNORED, CommonOptions
from rfnb.netdict.versions import holds

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder

CHANGES = {"dropout": "param_dropout", "min_ndim": "param_dropout_min_ndim", "noise": "param_variational_noise"}
"""By field of `Changes`, the option for it, which the config may have too."""


def class_of(described: Mapping[str, Any]) -> type[Layer]:
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
    names: dict[str, Any] = {f"from {layer}": layer for layer in names_of_sources(described, None)}
    for option, declared in cls.options.items() if not cls.traits.recurrent else ():
        if declared.kind in ("layer", "layers"):
            words = declared.types if declared.kind == "layers" else ()
            _options.without_layers(described.get(option), words, option, names)
    names |= {f"parameters {layer}": layer for layer in reused_layers(described.get("reuse_params"))}
    target = described.get("target")
    if isinstance(target, str) and (target.startswith("layer:") or target in scope.layers):
        names["target"] = target.removeprefix("layer:")
    sides = [described[option] for option in cls.traits.units if isinstance(described.get(option), Mapping)]
    names |= {f"inside {layer}": layer.removeprefix("base:") for side in sides for layer in names_of_operands(side)}
    return places_of(scope, names.values())


def known_options(cls: type[Layer], described: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a net dict gives. Raises NetworkError for one that is unknown, missing, or of another kind."""
    values = {name: value for name, value in described.items() if name not in ("class", "from")}
    for name in list(values):
        if str(name).startswith("#") or (name in IGNORED and name not in cls.options):
            del values[name]
        elif name not in cls.options:
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
    if layer.traits.broadcasts:
        pairs = [
            (*dims, *((dim, None) for dim in unit)) for dims, unit in zip(pairs, _ones(pairs, templates), strict=True)
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


def _ones(pairs: Sequence[Sequence[tuple[Dim, Dim | None]]], templates: Sequence[Tensor]) -> list[list[Dim]]:
    """The axes of size 1 that each source does without, as they stand for an axis of another one."""
    sources = []
    for matches, x in zip(pairs, templates, strict=True):
        new: dict[Any, Any] = dict(matches)
        sources.append(([new.get(dim, dim) for dim in x.dims], new.get(x.feature_dim, x.feature_dim)))
    return broadcast(sources)


def set_options(layer: Layer, given: Mapping[str, Any], builder: Builder, source: Tensor | None) -> None:
    """Sets what a net dict gives, with Dims for the axes of its source: fields of the layer, and the common options."""
    axes, numbers = builder.axes, not holds("axes are no numbers", builder.version)
    options: dict[str, Any] = {}
    for name, option in layer.options.items():
        value = given.get(name, option.default)
        if option.kind == "layer" and name not in given:
            value = None if option.default is _options.REQUIRED else option.default
        if name == "axis" and option.kind == "axis" and layer.loop is not None and isinstance(layer, SteppingLayer):
            value = layer.axis_in_loop(value, axes, source, numbers=numbers)
        options[name] = _options.read(option, name, value, axes, source, numbers=numbers)
        if option is not COMMON.get(name):
            setattr(layer, name, options[name])
    layer.out_dim = options["out_dim"]
    common = CommonOptions(**{name: options[name] for name in COMMON})
    layer.decide(common=common, dropped_dims=_dropped(common, axes, source))
    changes = layer.spec.changes
    for field, name in CHANGES.items() if changes is not None else ():
        setting = getattr(common, name)
        value = builder.config.get(name) if setting is None else setting
        if isinstance(value, int | float) and not isinstance(value, bool):
            setattr(changes, field, value)


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
