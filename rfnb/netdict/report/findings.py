"""`net.report()`: what stops a network and what to write there, what it ignores, what differs; the worst first."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RfError
from rfnb.netdict.axes import ragged
from rfnb.netdict.build import NetNode, every_node
from rfnb.netdict.config.values import Function, Unknown
from rfnb.netdict.extern_data import ExternData
from rfnb.netdict.layer import LAYERS, Layer
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.losses import LOSSES
from rfnb.netdict.options import REQUIRED, checked
from rfnb.netdict.report.outline import OutlineEntry, class_known
from rfnb.netdict.report.rehearsal import rehearse
from rfnb.netdict.resolve import reached
from rfnb.netdict.spec import IGNORED

if TYPE_CHECKING:
    from rfnb.netdict.network import Network

NO_EFFECT = {"rec": "max_seq_len back_prop optimize_move_layers_out unroll cheating include_eos"}
"""By class, options that a layer takes but that change nothing here."""


def ignored_options(described: Mapping[str, object]) -> Iterator[str]:
    """The options of a layer that change nothing."""
    cls = described.get("class")
    inner = isinstance(described.get("unit"), Mapping)
    none = () if inner else NO_EFFECT.get(cls if isinstance(cls, str) else "", "").split()
    options = LAYERS[cls].options if isinstance(cls, str) and cls in LAYERS else ()
    effective = ("custom_param_importer", *options)  # the former by rf.load
    yield from (name for name in described if (name in IGNORED and name not in effective) or name in none)
    opts, loss = described.get("loss_opts"), described.get("loss")
    if not isinstance(opts, Mapping) or not isinstance(loss, str) or loss not in LOSSES:
        return
    yield from (f"loss_opts[{name!r}]" for name in opts if name in LOSSES[loss].without_effect.split())
    ctc_opts = opts.get("ctc_opts") if loss == "ctc" else None
    for name in ctc_opts if isinstance(ctc_opts, Mapping) else ():
        if name != "ignore_longer_outputs_than_inputs":
            yield f"loss_opts['ctc_opts'][{name!r}]"


def differences(node: NetNode, template: Tensor | None, *, evaluates: bool, inside: bool) -> Iterator[tuple[str, str]]:
    """What differs, and what to do, for a constructed layer.

    template: of its first source. evaluates: losses too. inside: whether it is in the unit of another layer.
    """
    layer = node.layer
    assert layer is not None
    if template is not None and ragged(template.dims) and not layer.spec.batch_independent:
        for text in _of_the_batch(layer):
            way = "rf.Network(…, batch_independent=True)"
            yield f"{text}: values near the end of a shorter sequence depend on the batch", way
    if getattr(layer, "unheeded", False):
        text = "set_axes: the axis of frames stays the first one that has lengths"
        yield text, 'name the other axis in the layers after it: "axis": "stag:…", or "switch_axes"'
    common = layer.spec.common
    if (common.darc1 or common.spatial_smoothing) and layer.loop is not None and (layer.loop.outer or inside):
        yield "darc1 and spatial_smoothing have no effect in a unit or a second loop inside of a loop", ""
    unit = getattr(layer, "unit", None)
    native = layer.layer_class == "rec" and isinstance(unit, str) and "native" in unit.lower()
    if native and "forget_bias" in (getattr(layer, "unit_opts", None) or {}):
        text = f"forget_bias has no effect on {unit}"
        yield text, "the reference ignores it too: add it to the second-to-last quarter of b where a cell needs it"
    if common.loss == "ctc" and evaluates and not (common.loss_opts or {}).get("beam_width"):
        text = "the error of ctc is that of greedy decoding; the reference searches with beam_width 100 in evaluation"
        yield text, '"loss_opts": {"beam_width": 100}, which is slower'
    yield from _of_batch_norm(layer)


def _of_batch_norm(layer: Layer) -> Iterator[tuple[str, str]]:
    setting = layer.spec.common.batch_norm
    options = setting if isinstance(setting, Mapping) else vars(layer)
    if layer.spec.version >= 12 or not (layer.layer_class == "batch_norm" or setting):
        return
    if options.get("momentum") is None:
        text = "batch_norm without momentum changes its statistics by 0.99 of the new ones (behavior version < 12)"
        yield text, '"momentum": 0.1'
    if not options.get("update_sample_only_in_training") and not options.get("delay_sample_update"):
        text = "batch_norm counts statistics of the batch in evaluation too (behavior version < 12)"
        yield text, '"update_sample_only_in_training": True, "delay_sample_update": True'


def _is_same(layer: Any) -> bool:
    return str(layer.padding).lower() == "same"


def _takes_later_frames(layer: Any) -> bool:
    adjusts = layer.adjust_size_info
    return not (adjusts if layer.amount < 0 else layer.pad and not adjusts)


SLIDES = lambda x: x.same and {*x.sizes, *x.steps} != {1}, 'padding "same" reads frames after the end'
WINDOW, BEHIND = "the window reads frames after the end", "begins behind the longest sequence of the one before"
UNMASKED = "use_time_mask False counts frames after the end"
READS_PADDING: dict[str, tuple[Callable[[Any], object], str]] = {
    "conv": SLIDES,
    "pool": SLIDES,
    "window": (_is_same, WINDOW),
    "weighted_sum": (lambda x: x.windows and _is_same(x) and ragged(x.axes), WINDOW),
    "cumsum": (lambda x: x.reverse and x.axis is not None, "the sum from the end begins with frames after it"),
    "resize": (lambda x: x.kind in ("linear", "cubic"), "{0.kind} interpolation reads frames after the end"),
    "shift_axis": (lambda x: ragged([x.axis]) and _takes_later_frames(x), "the shift takes frames from after the end"),
    "slice": (
        lambda x: ragged([x.axis]) and (x.slice_step or 1) < 0 and x.slice_start is x.slice_end is None,
        "in reverse order, frames after the end come first",
    ),
    "norm": (lambda x: ragged(x.over), "the mean over time counts frames after the end"),
    "pad": (
        lambda x: ragged(x.axes) and not x.at_own_end,
        "frames are added behind the longest sequence (behavior version < 21)",
    ),
    "tile": (lambda x: ragged(old for old, *_ in x.times), f"each copy {BEHIND}"),
    "concat": (lambda x: ragged(x.over), f"each part {BEHIND}"),
    "reduce": (lambda x: x.use_time_mask is False and ragged(x.over), UNMASKED),
    "softmax_over_spatial": (lambda x: x.use_time_mask is False and ragged([x.over]), UNMASKED),
    "dot": (lambda x: not x.use_mask and ragged(x.reduced), "use_mask False counts frames after the end"),
}
"""By class, whether a layer lets frames after the end of a sequence into valid ones, and how."""


def _of_the_batch(layer: Layer) -> Iterator[str]:
    """What lets frames after the end of a sequence into valid ones."""
    cls, attributes = layer.layer_class or "", vars(layer)
    reads, text = READS_PADDING.get(cls, (lambda _: False, ""))
    if reads(layer):
        yield text.format(layer)
    elif "computation" in attributes and attributes["computation"].padding.counted:
        yield "the expression counts frames after the end"
    masked = attributes.get("masked_time") if cls == "batch_norm" else None
    setting = layer.spec.common.batch_norm
    if isinstance(setting, Mapping):
        masked = setting.get("masked_time")
    if masked is False:
        yield "batch_norm with masked_time False counts frames after the end"


Level = Literal["stops", "search", "ignored", "differs", "training"]
LEVELS: tuple[Level, ...] = ("stops", "search", "ignored", "differs", "training")
"""The worst first."""
WORDS = 160
"""The most characters of a way out."""


@dataclass(frozen=True)
class NetworkFinding:
    """Something that a user of a network should know.

    level: "stops": no batch passes; "search": training runs, a search does not; "ignored": an option without effect;
    "differs": other values than expected; "training": entries of the config that are up to the user's training loop.
    layers: paths of the layers that it is about. lines: where these are in the config. way: what to do.
    behind: how many other layers need these. stub: functions to fill in, for `functions={…}` of `from_config`.
    """

    level: Level
    what: str
    layers: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    way: str = ""
    behind: int = 0
    stub: str = ""


@dataclass(frozen=True, repr=False)
class NetworkReport(Shown):
    """The result of `net.report()`. It is true if the network runs.

    findings: the worst first. layers: how many are constructed. params: how many numbers their parameters have.
    """

    name: str
    findings: tuple[NetworkFinding, ...]
    layers: int = 0
    params: int = 0

    def __bool__(self) -> bool:
        return not self.of("stops")

    def of(self, level: Level) -> list[NetworkFinding]:
        """The findings of a level: "stops", "search", "ignored", "differs" or "training"."""
        return [finding for finding in self.findings if finding.level == level]


def report_of(net: Network, nodes: Mapping[str, NetNode], order: Sequence[NetNode | RecNet]) -> NetworkReport:
    """The report of a network, given its nodes and the order in which they are computed.

    >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    >>> _ = net.construct_from_dict({"output": {"class": "cpoy", "from": "data"}}, strict=False)
    >>> net.report().findings[0].what
    "there is no layer class 'cpoy'"
    """
    entries, every = net.outline(), every_node(nodes)
    stops = [with_stub(finding, net, entries, every) for finding in _stops(net, nodes, order, entries)]
    faults = [] if stops else [*net.search_faults()]
    searches = [_stop(path, entries.get(path), fault, "in a search: ", "search") for path, fault in faults]
    findings = [*stops, *searches, *_ignored(entries), *_differs(net, nodes, every, entries)]
    findings += [NetworkFinding("ignored", note, lines=(line,)) for line, note in net.notes.items()]
    for group, names, way in training_keys(net.config):
        findings.append(NetworkFinding("training", f"{group}: {', '.join(names)}", way=way))
    merged = sorted(_merged(findings), key=lambda finding: LEVELS.index(finding.level))
    merged = [replace(x, behind=_behind(x.layers, entries)) if x.level == "stops" else x for x in merged]
    count = sum(node.layer is not None for node in every.values())
    return NetworkReport(net.name, tuple(merged), count, net.get_num_params())


def _merged(findings: list[NetworkFinding]) -> Iterator[NetworkFinding]:
    """Findings with the same words as one, of several layers."""
    groups: dict[tuple[str, str], list[NetworkFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.level, finding.what), []).append(finding)
    for group in groups.values():
        paths = dict.fromkeys(path for finding in group for path in finding.layers)
        lines = dict.fromkeys(line for finding in group for line in finding.lines)
        stub = "\n".join(dict.fromkeys(finding.stub for finding in group if finding.stub))
        yield replace(group[0], layers=tuple(paths), lines=tuple(lines), stub=stub)


def _behind(paths: Sequence[str], entries: Mapping[str, OutlineEntry]) -> int:
    """How many layers need one of these, directly or not."""
    readers: dict[str, list[str]] = {}
    for entry in entries.values():
        for need in entry.needs if entry.used else ():
            readers.setdefault(need, []).append(entry.path)
    return len(reached(paths, lambda path: readers.get(path, ()))) - len(paths)


# -- what stops


def _stops(
    net: Network, nodes: Mapping[str, NetNode], order: Sequence[NetNode | RecNet], entries: Mapping[str, OutlineEntry]
) -> Iterator[NetworkFinding]:
    if not any(entry.used for entry in entries.values()):
        yield NetworkFinding("stops", "there is no layer to construct", way='a layer "output", or one with a loss')
    for path, error in net.failures.items():
        stop = _stop(path, entries.get(path), error)
        yield stop
        for fault, way in unsupported(entries[path]) if path in entries else ():
            if fault.startswith("unknown option") and fault != stop.what:
                yield _finding("stops", fault, entries[path], way)
    every = every_node(nodes)
    for path, entry in entries.items():
        if entry.used and path not in every and path not in net.failures:
            for fault, way in (*unsupported(entry), *_no_data(entry, net.extern_data)):
                fault, way = known_limit(entry, fault) or (fault, way)
                yield _finding("stops", fault, entry, way)
    modes = [True, False] if net.train_flag is None else [net.train_flag]
    for train in modes:
        for path, part, error in rehearse(net, nodes, order, train=train, losses=net.eval_flag or train):
            yield _stop(path, entries.get(path), error, "" if part == "layer" else "the loss: ")


def _finding(level: Level, what: str, entry: OutlineEntry, way: str = "") -> NetworkFinding:
    return NetworkFinding(level, what, (entry.path,), () if entry.line is None else (entry.line,), way)


def _stop(
    path: str, entry: OutlineEntry | None, error: Exception, part: str = "", level: Level = "stops"
) -> NetworkFinding:
    fault, way = reason(error)
    if entry is None:
        return NetworkFinding(level, part + fault, (path,) if path else (), (), way)
    for name, value in entry.described.items():
        if isinstance(value, Unknown) and repr(value)[:40] in f"{fault} {error}":
            fault, way = _imported(name, value)
    fault, way = known_limit(entry, fault) or (fault, way)
    return _finding(level, part + fault, entry, way)


def with_stub(
    finding: NetworkFinding, net: Network, entries: Mapping[str, OutlineEntry], nodes: Mapping[str, NetNode]
) -> NetworkFinding:
    """The finding, with the functions to fill in if a function of the config stops its layers."""
    stubs: dict[str, str] = {}
    for entry in (entries[path] for path in finding.layers if path in entries):
        sources = [nodes[path].template for path in entry.sources if path in nodes]
        for name, function in functions_of(entry, net.config):
            stubs.setdefault(name, stub(name, function, entry, sources[0] if sources else None))
    if not stubs or not re.search(
        "not known|not a function|cannot be computed|gives no tensor|typed_value", finding.what
    ):
        return finding
    names = ", ".join(f'"{name}": {name}' for name in stubs)
    return replace(finding, way=f"from_config(…, functions={{{names}}})", stub="\n".join(stubs.values()))


def reason(error: Exception) -> tuple[str, str]:
    """Why a layer stops, without its name, and the way out."""
    if not isinstance(error, RfError):
        return f"{type(error).__name__}: {error}".partition("\n")[0][:200], ""
    path = getattr(error, "at_layer", None)
    start = "" if path is None else rf"layer {re.escape(repr(path))} \(.*?\)(, line \d+)?: "
    fault = re.sub(f"^{start}", "", error.what, count=1) if start else error.what
    fault = fault.removeprefix(f"{path}: ")
    got = "" if error.got is None else str(error.got).partition("\n")[0]
    if got and len(got) < 80 and got not in fault:
        fault = f"{fault} ({got})"
    way = str(error.hint or error.expected or "").partition("\n")[0][:WORDS]
    return fault, "" if way.startswith("known: ") else way


def _imported(name: str, value: Unknown) -> tuple[str, str]:
    """What is said about an option whose value comes from another module."""
    fault = f"{name} is what the config imports, and not known: {value!r:.60}"
    return fault, "write the value into the config; rf.read_config(path, execute=True) runs a file that you trust"


def unsupported(entry: OutlineEntry) -> Iterator[tuple[str, str]]:
    """What is wrong with a layer that was not constructed, as far as its options alone tell."""
    try:
        cls = class_known(entry.described)
    except RfError as error:
        yield reason(error)
        return
    for name, value in entry.described.items():
        if isinstance(value, Unknown):
            yield _imported(name, value)
        elif name not in ("class", "from") and name not in IGNORED and name not in cls.options:
            yield f"unknown option {name!r}", did_you_mean(name, cls.options) or ""
        elif name in cls.options and cls.options[name].kind == "value" and not isinstance(value, Function):
            try:
                checked(cls.options[name], name, value)
            except RfError as error:
                yield reason(error)
    for name, option in cls.options.items():
        if option.default is REQUIRED and option.kind == "value" and name not in entry.described:
            yield f"the option {name} is missing", f'"{name}": …'
    for reference in entry.references:
        if reference.path is None:
            yield f"{reference.option}: there is no layer {reference.written!r}", ""


def _no_data(entry: OutlineEntry, extern: ExternData) -> Iterator[tuple[str, str]]:
    """Data keys that a layer reads and that do not exist."""
    for path in dict.fromkeys(reference.path for reference in entry.references):
        key = "" if path is None else path.removeprefix("data:")
        if path != key and key and not extern.has_data(key):
            yield f"there is no data key {key!r}", did_you_mean(key, extern.data) or ""


# -- what differs


def _ignored(entries: Mapping[str, OutlineEntry]) -> Iterator[NetworkFinding]:
    for entry in entries.values():
        if entry.used:
            for name in ignored_options(entry.described):
                yield _finding("ignored", f"{entry.cls}: {name} has no effect", entry)


def _differs(
    net: Network, outside: Mapping[str, NetNode], nodes: Mapping[str, NetNode], entries: Mapping[str, OutlineEntry]
) -> Iterator[NetworkFinding]:
    for path, node in nodes.items():
        if node.layer is not None and path in entries:
            source = nodes[node.sources[0]].template if node.sources else None
            for text, way in differences(node, source, evaluates=net.eval_flag, inside=path not in outside):
                yield _finding("differs", text, entries[path], way)


GROUPS = {
    "optimizer": (
        r"learning_rate|adam\w*|nadam|amsgrad|rmsprop|adadelta|momentum|nesterov|optimizer\w*|gradient_\w+|grad\w*_clip"
        r"|accum_grad_\w+|decouple_constraints\w*|weight_decay|tf_optimizer",
        "torch.optim.Adam(rf.torch_parameters(net), lr={learning_rate}), torch.nn.utils.clip_grad_norm_",
    ),
    "schedule": (
        r"learning_rates|learning_rate_\w+|newbob\w*|min_learning_rate|num_epochs|start_epoch|relative_error_\w+"
        r"|use_learning_rate_control_always",
        "torch.optim.lr_scheduler",
    ),
    "batches": (
        r"batch_size|max_seqs|m(ax|in)_seq_length|chunking|batching|max_pad_size|batch_pruning|pad\w*_batch\w*"
        r"|sort_dataset|seq_ordering|partition_epoch|cache_size|window|context_window",
        "torch.utils.data.DataLoader(…, collate_fn=net.extern_data.collate)",
    ),
    "data sets": (
        r"train|dev|eval|search_data|eval_datasets|train_dataset|forward_data",
        'a torch Dataset, such as rf.hdf("train.hdf")',
    ),
    "pretraining": (r"pretrain\w*|train_only\w*|epoch_split", "rf.read_config(path).stages()"),
    "weights of other models": (
        r"preload_from_files|import_model\w*|load|load_epoch|model_init\w*|initialize_from\w*",
        "rf.preload(net, config)",
    ),
    "checkpoints": (r"model|cleanup_old_models|save_interval|keep_\w*models|checkpoint\w*", "rf.save, rf.load"),
    "search": (r"search_\w+|forward_\w+|output_file|beam_\w+_for_search", "search_flag=True"),
    "devices and logs": (
        r"device|use_tensorflow|tf_\w+|log(_\w+)?|debug_\w+|use_horovod|horovod\w*|multiprocessing|update_on_device"
        r"|stop_on_\w+|task|calculate_exp_loss|store_\w+",
        "rfnb runs on Torch, in your process",
    ),
}
"""By what they are for: the pattern of the names, and what takes their place."""


def training_keys(values: Mapping[str, object]) -> Iterator[tuple[str, list[str], str]]:
    """What names of a config are for, those names with short values, and what takes their place.

    >>> from rfnb.netdict.report.findings import training_keys
    >>> for group, names, instead in training_keys({"learning_rate": 0.001, "network": {}, "max_seqs": 40}):
    ...     print(group, names, instead.partition("(")[0])
    optimizer ['learning_rate = 0.001'] torch.optim.Adam
    batches ['max_seqs = 40'] torch.utils.data.DataLoader
    """
    names = [name for name in values if isinstance(name, str)]
    for group, (pattern, instead) in GROUPS.items():
        keys = [name for name in names if re.fullmatch(pattern, name)]
        if keys:
            names = [name for name in names if name not in keys]
            rate = values.get("learning_rate")
            instead = instead.replace("{learning_rate}", str(rate) if isinstance(rate, int | float) else "1e-3")
            yield group, [_word(name, values[name]) for name in keys], instead


def _word(name: str, value: object) -> str:
    short = isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) < 24)
    return f"{name} = {value!r}" if short else name


OF_GRADIENTS = frozenset("gradient synthetic_gradient synthetic_gradients tikhonov_regularization".split())
"""Classes whose output is their source, and which only change gradients or add to the loss."""


def known_limit(entry: OutlineEntry, fault: str) -> tuple[str, str] | None:
    """What is said in place of a fault that no layer of rfnb will mend, and the way out; None for others."""
    for option, value in entry.described.items():
        if isinstance(value, str) and value.startswith("keep_over_epoch") and value in fault:
            way = f'"{option}": a layer of a data key, which your loop gives; get_last_hidden_state gives the next one'
            return f"{option} is kept from epoch to epoch", way
    kind = entry.cls
    if kind in OF_GRADIENTS:
        return f"{kind} has an effect on gradients alone", '"class": "copy" has the same output, and plain gradients'
    needs_program = "sprint" in repr(dict(entry.described)).lower()
    if needs_program and re.match(r"there is no (loss|layer class)|unknown option|the class", fault):
        return "an external program (sprint) computes it", '"ce" with an alignment, "ctc", or a loss of your own'
    if "placeholder" in fault:
        return "a placeholder of a TensorFlow session has no value", "a number, or a data key in its place"
    if re.search(r"tensorflow\S*\.gradients", fault):
        return "tf.gradients works on a graph of TensorFlow", "your own loop: torch.autograd.grad(loss, x)"
    if "get_variable" in fault or "tensorflow.Variable" in fault:
        return "a function makes variables of TensorFlow", '"class": "variable", and the layer as a further source'
    return None


def functions_of(entry: OutlineEntry, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The functions that an `eval` of a layer names, and that `functions={…}` may stand for, by name."""
    function = entry.described.get("eval")
    if isinstance(function, Function | Unknown):
        yield function.name.removesuffix("()").rpartition(".")[2], function
    elif isinstance(function, str):
        for name in re.findall(r"typed_value\(\s*['\"](\w+)['\"]", function):
            yield name, values.get(name)


def stub(name: str, given: object, entry: OutlineEntry, source: Tensor | None) -> str:
    """A function to fill in, in place of one of the config."""
    parameters = ["source"]
    if isinstance(given, Function):
        signature = given.node.args
        defaults = [*[None] * (len(signature.args) - len(signature.defaults)), *signature.defaults]
        pairs = [
            *zip(signature.args, defaults, strict=True),
            *zip(signature.kwonlyargs, signature.kw_defaults, strict=True),
        ]
        parameters = [f"{arg.arg}={'None' if default is None else ast.unparse(default)}" for arg, default in pairs]
    names = [parameter.partition("=")[0] for parameter in parameters]
    first = next((name for name in names if name not in ("self", "network")), "source")
    if names and names[0] == first:
        parameters[0] = first
    template = "a Tensor" if source is None else "{" + ", ".join(dim.name for dim in source.dims) + "}"
    value = f"{first}(0)" if first == "source" else first
    where = f"layer {entry.path!r}" + (f", line {entry.line}" if entry.line else "")
    return f"def {name}({', '.join(parameters)}, **options):  # {where}\n    return {value}  # {template}\n"
