"""The axis of a recurrent net: given by data where its length is known, else a new one that ends by a condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.expression.expression import Expression, Names
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.build import made_up, without_numbers
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, maximum, minimum

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder
    from rfnb.netdict.loops.net import RecNet


def set_axis(builder: Builder, rec: RecNet) -> None:
    """Finds the axis of the loop: `axis`, that of the source, of `size_target`, or of the target; or makes a new one.

    Raises NetworkError if the loop has no end.
    """
    layer: Any = rec.layer
    unit, common = rec.scope.layers, rec.layer.spec.common
    frames = None if rec.source is None else time_of(rec.source)
    cheats = any(described.get("cheating") for described in choices(unit).values()) or layer.cheating
    rec.known = True
    own = isinstance(layer.axis, Dim) and "end" in unit and not _is_there(builder, layer.axis)
    if layer.axis is not None and not own:
        rec.axis = layer.axis if isinstance(layer.axis, Dim) else builder.axes.one(layer.axis, _source_of(rec))
        return
    if frames is not None and "end" not in unit and not own:
        rec.axis = frames
        return
    key: Any = common.size_target or (common.target if not rec.beam or cheats or follows_target(unit) else None)
    key = key[0] if isinstance(key, list | tuple) and key else key
    target_frames = None if key is None else _time_of_target(builder, rec, key)
    if target_frames is not None and not own:
        rec.axis = target_frames
        return
    if "end" not in unit:
        raise NetworkError(
            "the loop has no length", expected='a source with frames, "size_target": "classes", or a layer "end"'
        )
    if layer.max_seq_len is None and layer.max_seq_len_via is None:
        raise NetworkError("the loop may have no end", expected='"max_seq_len": 100')
    rec.known = False
    rec.spoken = None if not isinstance(common.target, str) or own else _time_of_target(builder, rec, common.target)
    rec.axis = layer.axis if own else Dim(None, name=rec.scope.name, kind="spatial")
    builder.axes.name(rec.axis, f"dyn-time:{rec.path}")
    give_made_up_lengths(rec)


def _is_there(builder: Builder, axis: Dim) -> bool:
    """Whether data, or a value outside of loops, has an axis; otherwise a loop may make it its own."""
    data = (dim for key in builder.extern.data.values() for dim in key.dims)
    values = (dim for node in builder.nodes.values() if node.loop is None for dim in node.template.dims)
    return any(dim is axis or axis in dim.roots.values() for dim in (*data, *values))


def give_made_up_lengths(rec: RecNet) -> None:
    """Gives a new axis the lengths of templates, those of hypotheses in a search."""
    dims, lengths = [batch_dim, rec.axis], np.array(made_up(rec.axis))
    sizes = [len(lengths), max(lengths)]
    if rec.beam is not None:
        count = rec.beam.get_dim_value()
        dims.insert(1, rec.beam)
        sizes.insert(1, count)
        by_beam = convert_to_tensor(np.tile(lengths[:, None], (1, count)), dims=[batch_dim, rec.beam])
        without_numbers(convert_to_tensor(np.zeros(sizes), dims=dims, lengths={rec.axis: by_beam}))
        return
    without_numbers(convert_to_tensor(np.zeros(sizes), dims=dims, lengths={rec.axis: lengths.tolist()}))


def choices(unit: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The layers of a net that choose labels."""
    layers = {name: layer for name, layer in unit.items() if isinstance(layer, Mapping)}
    return {name: layer for name, layer in layers.items() if layer.get("class") == "choice"}


def follows_target(unit: Mapping[str, Any]) -> bool:
    """Whether a choice takes the target although there is a search."""
    return any(layer.get("search") is False for layer in choices(unit).values())


def _source_of(rec: RecNet) -> Tensor:
    if rec.source is None:
        raise NetworkError("axis is described by a name, but the rec layer has no source", expected='"axis": a Dim')
    return rec.source


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
    layer: Any = rec.layer
    if rec.known or rec.follows is not None:
        return None
    if "max_seq_len_via" in rec.inputs:
        return max(0, int(values[rec.inputs["max_seq_len_via"]].item()))
    if not isinstance(layer.max_seq_len, str):
        return max(0, int(layer.max_seq_len))

    def max_len_from(reference: str) -> int | Tensor:
        x = values[rec.inputs[f"max_len_from {reference}"]]
        frames = time_of(x)
        if frames is None:
            raise NetworkError(f"max_len_from: {reference!r} has no frames", got=x.describe_dims())
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


def _value(text: str, max_len_from: Callable[[str], Any]) -> Any:
    functions: dict[str, Callable[..., Any]] = {
        "max_len_from": max_len_from,
        "min": lambda *given: reduce(_of_two(min, minimum), given),
        "max": lambda *given: reduce(_of_two(max, maximum), given),
        "int": lambda given: cast(given, "int32") if isinstance(given, Tensor) else int(given),
    }
    written = re.sub(r"(?<![\w.])(max_len_from|min|max|int)(?=\()", r"rf.\1", text)
    return Expression(written).value(Names({}, functions))


def _of_two(of_numbers: Callable[..., object], of_tensors: Callable[..., object]) -> Callable[[Any, Any], object]:
    return lambda a, b: (of_tensors if isinstance(a, Tensor) or isinstance(b, Tensor) else of_numbers)(a, b)
