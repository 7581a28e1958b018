"""Whether a recurrent net runs a step that was traced in an earlier call, instead of its layers.

The step depends on tensors from outside, and on what Python reads besides: the layers with their options, the train
flag, default dtypes. Functions of the user may read anything: a net with one is traced in each call, unless they are
marked with `rf.pure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.default import get_default_array_index_dtype, get_default_device, get_default_float_dtype
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.build import NetNode, every_node
from rfnb.netdict.layer import Layer, LayerOfNets, SteppingLayer
from rfnb.nn.module.module import Module
from rfnb.ops.grad import makes_constants

if TYPE_CHECKING:
    from rfnb.netdict.loops.net import RecNet

CHANGING = {"last", "cell", "frames_of_losses"}
"""Attributes of layers that calls set, or that are looked into by themselves."""


def key_of(rec: RecNet) -> list[Any] | None:
    """What the step of a net depends on besides tensors; None if that is not known."""
    members = {item.path: item for item in rec.inside if isinstance(item, NetNode)}
    nodes = every_node(members).values()
    if len(members) < len(rec.inside) or any(node.loop not in (rec, None) for node in nodes):
        return None  # a loop in the loop
    layers = [node.layer for node in nodes if node.layer is not None]
    if any(layer.spec.changes is not None and layer.spec.changes.of_values for layer in layers):
        return None
    if rec.has_functions is None:
        described = [rec.scope.layers, rec.layer.spec.config]
        rec.has_functions = any(_is_function(leaf) for leaf in _described(described))
    if rec.has_functions:
        return None
    modes, ctx = raw_registry.selected().get_modes(), get_run_ctx()
    flags = [part for pair in ctx._train_flags.items() for part in pair]
    autocast = tuple(tuple(map(str, pair)) for pair in modes["autocast"].items())
    key: list[Any] = [
        len(flags), *flags, ctx.stage, len(ctx.losses), len(ctx.outputs.data), modes["gradients"], autocast,
        makes_constants.get(), get_default_float_dtype(), get_default_array_index_dtype(), get_default_device(),
        rec.layer, rec.own_axis,
    ]  # fmt: skip
    for layer in layers:
        if not _look(layer, key):
            return None
    return key


def _look(thing: Any, key: list[Any]) -> bool:
    """Adds what Python may read of a layer, a module or a cell. Returns whether that is all."""
    key.append(type(thing))
    inside = {id(net) for net in thing.nets_inside} if isinstance(thing, LayerOfNets) else ()
    for name, value in vars(thing).items():
        if name == "_forward_hooks" and value:
            return False
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            continue
        child = value.cell if name == "cell" else value
        if name not in CHANGING:
            key.append(value)
        if id(child) in inside:
            continue  # its layers are looked at as well
        if isinstance(child, Module) and (child.has_layers or not _look(child, key)):
            return False
    return True


def tensors_of(layers: list[Layer]) -> list[Tensor]:
    """What layers have computed before the steps, as it is the same in each one."""
    return [x for layer in layers if isinstance(layer, SteppingLayer) for x in layer.begun_tensors()]


def _described(given: Any) -> Iterator[Any]:
    """The leaves of a net dict."""
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, list | tuple):
        for part in given:
            yield from _described(part)
    else:
        yield given


def _is_function(leaf: Any) -> bool:
    """Whether it is a function of the user that may read anything: not one of a config, nor one marked as pure."""
    return (
        callable(leaf)
        and not isinstance(leaf, Dim | Tensor)
        and not any(getattr(leaf, mark, False) for mark in ("is_read", "is_pure"))
    )
