"""What a network ignores of its net dict, and where its values are not those that a user may expect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.netdict.build.node import NetNode
from rfnb.netdict.layer import LAYERS, Layer
from rfnb.netdict.spec import IGNORED

NO_EFFECT = {
    "rec": "max_seq_len back_prop optimize_move_layers_out unroll cheating include_eos",
}
"""By class, options that a layer takes but that change nothing here."""
NO_EFFECT_OF_LOSS = {
    "ce": "safe_log_opts debug_dump use_fused fake_upper_bound",
    "ctc": "use_native target_collapse_repeated",
}
"""By loss, options that change nothing here."""


def ignored_options(described: Mapping[str, Any]) -> Iterator[str]:
    """The options of a layer that change nothing."""
    cls = described.get("class")
    inner = isinstance(described.get("unit"), Mapping)
    none = () if inner else NO_EFFECT.get(cls if isinstance(cls, str) else "", "").split()
    options = LAYERS[cls].options if isinstance(cls, str) and cls in LAYERS else ()
    effective = ("custom_param_importer", *options)  # the former by rf.load
    yield from (name for name in described if (name in IGNORED and name not in effective) or name in none)
    opts = described.get("loss_opts")
    loss = described.get("loss")
    for name in opts if isinstance(opts, Mapping) else ():
        if isinstance(loss, str) and name in NO_EFFECT_OF_LOSS.get(loss, "").split():
            yield f"loss_opts[{name!r}]"
    ctc_opts = opts.get("ctc_opts") if isinstance(opts, Mapping) and loss == "ctc" else None
    for name in ctc_opts if isinstance(ctc_opts, Mapping) else ():
        if name != "ignore_longer_outputs_than_inputs":
            yield f"loss_opts['ctc_opts'][{name!r}]"


def differences(node: NetNode, template: Any, *, evaluates: bool, inside: bool) -> Iterator[tuple[str, str]]:
    """What differs, and what to do, for a constructed layer.

    template: of its first source. evaluates: losses too. inside: whether it is in the unit of another layer.
    """
    layer = node.layer
    assert layer is not None
    frames = template is not None and any(dim.is_dynamic() and not dim.is_batch_dim() for dim in template.dims)
    if frames and not layer.spec.batch_independent:
        for text in _of_the_batch(layer):
            way = "rf.Network(…, batch_independent=True)"
            yield f"{text}: values near the end of a shorter sequence depend on the batch", way
    if getattr(layer, "unheeded", False):
        text = "set_axes: the axis of frames stays the first one that has lengths"
        yield text, 'name the other axis in the layers after it: "axis": "stag:…", or "switch_axes"'
    common = layer.spec.common
    if (common.darc1 or common.spatial_smoothing) and layer.loop is not None and (layer.loop.outer or inside):
        yield "darc1 and spatial_smoothing have no effect in a unit or a second loop inside of a loop", ""
    if layer.layer_class == "rec" and isinstance(layer.unit, str):  # type: ignore[attr-defined]
        options = layer.unit_opts or {}  # type: ignore[attr-defined]
        if "native" in layer.unit.lower() and "forget_bias" in options:  # type: ignore[attr-defined]
            text = f"forget_bias has no effect on {layer.unit}"  # type: ignore[attr-defined]
            yield text, "the reference ignores it too: add it to the second-to-last quarter of b where a cell needs it"
    if common.loss == "ctc" and evaluates and not (common.loss_opts or {}).get("beam_width"):
        text = "the error of ctc is that of greedy decoding; the reference searches with beam_width 100 in evaluation"
        yield text, '"loss_opts": {"beam_width": 100}, which is slower'
    yield from _of_batch_norm(layer)


def _of_batch_norm(layer: Layer) -> Iterator[tuple[str, str]]:
    given = layer.spec.common.batch_norm
    options = given if isinstance(given, Mapping) else vars(layer)
    if layer.spec.version >= 12 or not (layer.layer_class == "batch_norm" or given):
        return
    if options.get("momentum") is None:
        text = "batch_norm without momentum changes its statistics by 0.99 of the new ones (behavior version < 12)"
        yield text, '"momentum": 0.1'
    if not options.get("update_sample_only_in_training") and not options.get("delay_sample_update"):
        text = "batch_norm counts statistics of the batch in evaluation too (behavior version < 12)"
        yield text, '"update_sample_only_in_training": True, "delay_sample_update": True'


def _ragged(dims: Iterable[Dim]) -> bool:
    """Whether sequences may differ in the length of one of the dims."""
    return any(dim.is_dynamic() and not dim.is_batch_dim() for dim in dims)


def _of_the_batch(layer: Layer) -> Iterator[str]:
    """What lets frames after the end of a sequence into valid ones."""
    options: dict[str, Any] = vars(layer)
    cls = layer.layer_class
    if cls in ("conv", "pool"):
        sizes = options.get("filter_size") if cls == "conv" else options.get("pool_size")
        sizes = sizes if isinstance(sizes, list | tuple) else [sizes]
        steps = options.get("strides") or (sizes if cls == "pool" else 1)
        steps = steps if isinstance(steps, list | tuple) else [steps]
        wide = any(size not in (None, 1) for size in sizes) or any(step not in (None, 1) for step in steps)
        if wide and str(options.get("padding")).lower() == "same":
            yield 'padding "same" reads frames after the end'
    elif cls == "window" and str(options.get("padding", "same")).lower() == "same":
        yield "the window reads frames after the end"
    elif cls == "weighted_sum" and options["windows"] and str(options["padding"]).lower() == "same":
        if _ragged(options["axes"]):
            yield "the window reads frames after the end"
    elif cls == "cumsum" and options.get("reverse") and options.get("axis") is not None:
        yield "the sum from the end begins with frames after it"
    elif cls == "resize" and options.get("kind") in ("linear", "cubic"):
        yield f"{options['kind']} interpolation reads frames after the end"
    elif cls == "shift_axis" and _ragged([options["axis"]]):
        adjusts = options["adjust_size_info"]
        if not (adjusts if options["amount"] < 0 else options["pad"] and not adjusts):
            yield "the shift takes frames from after the end"
    elif cls == "slice" and _ragged([options["axis"]]) and (options["slice_step"] or 1) < 0:
        if options["slice_start"] is options["slice_end"] is None:
            yield "in reverse order, frames after the end come first"
    elif cls == "norm" and _ragged(options["axes"]):
        yield "the mean over time counts frames after the end"
    elif cls == "pad" and _ragged(options["axes"]) and not options["at_own_end"]:
        yield "frames are added behind the longest sequence (behavior version < 21)"
    elif cls == "tile" and _ragged(old for old, *_ in options["times"]):
        yield "each copy begins behind the longest sequence of the one before"
    elif cls == "concat" and _ragged(options["over"]):
        yield "each part begins behind the longest sequence of the one before"
    elif (cls == "reduce" and options["use_time_mask"] is False and _ragged(options["over"])) or (
        cls == "softmax_over_spatial" and options["use_time_mask"] is False and _ragged([options["over"]])
    ):
        yield "use_time_mask False counts frames after the end"
    elif cls == "dot" and not options["use_mask"] and _ragged(options["reduced"]):
        yield "use_mask False counts frames after the end"
    elif "computation" in options and options["computation"].padding.counted:
        yield "the expression counts frames after the end"
    masked = options.get("masked_time") if cls == "batch_norm" else None
    given = layer.spec.common.batch_norm
    if isinstance(given, Mapping):
        masked = given.get("masked_time")
    if masked is False:
        yield "batch_norm with masked_time False counts frames after the end"
