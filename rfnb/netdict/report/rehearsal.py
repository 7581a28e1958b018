"""Looks at a network past its faults: constructs the layers that can be constructed, and runs them without numbers.

A layer with a fault becomes a grey box, and those that need it are constructed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rfnb.core.dims.dim import batch_dim
from rfnb.core.dims.lengths import Size
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, LayerNotFound, NetworkError, RfError
from rfnb.netdict.build import NetNode, ends_of, every_node, on_meta, run_node
from rfnb.netdict.builder import Builder
from rfnb.netdict.inner_net import InnerScope
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.order import outside_needs
from rfnb.netdict.loops.run import RecRun
from rfnb.netdict.loss_holder import LossHolder
from rfnb.netdict.losses import LayerLoss
from rfnb.netdict.report.outline import OutlineEntry
from rfnb.netdict.resolve import Scope, names_of_sources, reached, size_told
from rfnb.nn.bridge.symbolic import sizes_restored
from rfnb.nn.module.module import Module
from rfnb.ops.create import zeros
from rfnb.ops.shape import set_feature_dim
from rfnb.trace.run.options import recording

FRAMES = [23, 22, 21]
"""The lengths of sequences with which a network is run without numbers."""


def rehearse(
    net: Any, nodes: Mapping[str, NetNode], order: Sequence[NetNode | RecNet], *, train: bool, losses: bool
) -> Iterator[tuple[str, str, Exception]]:
    """What fails: the path of the layer, "layer" or "loss", and the error. Layers that need a failed one are left out.

    train: whether this is training. losses: whether they are computed too.
    """
    templates = {path: node.template for path, node in nodes.items() if path.startswith("data:")}
    with (
        sizes_restored(),
        entered(get_run_ctx().again()),
        results_kept(nodes),
        get_run_ctx().train_flag_ctx(train),
        recording(False),
    ):
        values = {path: example_of(template) for path, template in templates.items()}
        for item in order:
            members = [part for part in item.inside if isinstance(part, NetNode)] if isinstance(item, RecNet) else []
            from_outside = [name for part in members for name in part.needs if name in nodes and not nodes[name].loop]
            if any(name not in values for name in (*outside_needs(item), *from_outside)):
                continue
            try:
                if isinstance(item, RecNet):
                    with on_meta(*net.parameters()):
                        RecRun(item, values, nodes).run()
                elif item.layer is not None:
                    with on_meta(*item.layer.parameters()):
                        run_node(item, values)
            except Exception as error:
                if not looks_at_numbers(error):
                    yield getattr(error, "at_layer", item.path), "layer", error
        for path, node in nodes.items():
            if losses and node.loss is not None and path in values:
                try:
                    _loss(node, values)
                except Exception as error:
                    if not looks_at_numbers(error):
                        yield path, "loss", error


@contextmanager
def results_kept(nodes: Mapping[str, NetNode]) -> Iterator[None]:
    """After the block, layers have again what a call before it left in them, and losses take: logits, for example."""
    layers = [node.layer for node in every_node(nodes).values() if node.layer is not None]
    changing = "last", "cell", "frames_of_losses"
    saved = [(layer, {name: x for name, x in vars(layer).items() if name in changing}) for layer in layers]
    try:
        for layer in layers:
            layer.last = replace(layer.last)
        yield
    finally:
        for layer, results in saved:
            vars(layer).update(results)


def example_of(template: Tensor) -> Tensor:
    """Data without numbers, in sequences of known lengths."""
    dims = template.dims
    batch = [dim for dim in dims if dim.is_batch_dim()]
    for root in dict.fromkeys(root for dim in dims for root in dim.roots.values() if root.dimension is None):
        root.bind(Size((), len(FRAMES)) if root in batch else Size(batch, FRAMES if batch else FRAMES[0]))
    with on_meta():
        return zeros(dims, dtype=template.dtype, sparse_dim=template.sparse_dim, feature_dim=template.feature_dim)


def looks_at_numbers(error: Exception) -> bool:
    """Whether an op failed because it looks at numbers, which are only there with a batch: those of an end, say."""
    kinds = RuntimeError | NotImplementedError | RfError
    return any(isinstance(cause, kinds) and " meta " in str(cause) for cause in (error, error.__cause__))


def _loss(node: NetNode, values: Mapping[str, Tensor]) -> None:
    """Computes the loss of a layer."""
    output, loss, layer = values[node.path], node.loss, node.layer
    assert isinstance(loss, LayerLoss) and layer is not None
    target = None if node.target is None or not loss.needs_target else values.get(node.target)
    if target is None and loss.needs_target:
        return
    factor = None if node.inv_norm_factor is None else values.get(node.inv_norm_factor)
    with on_meta(*layer.parameters()):
        inputs = {option: values[path] for option, path in node.loss_inputs.items() if path in values}
        holder = LossHolder(node.path, layer, loss, output, target, custom_inv_norm_factor=factor, inputs=inputs)
        holder.get_loss_value_for_objective()
        holder.get_error_value()


def construct_what_can(
    builder: Builder, net_dict: Mapping[str, object], entries: Mapping[str, OutlineEntry]
) -> dict[str, Exception]:
    """Constructs each used layer whose sources are there. The errors of the others, by path.

    A layer that needs one with an error has none of its own.
    """
    failures: dict[str, Exception] = {}
    try:
        builder.construct(net_dict, ())
    except Exception as error:
        failures[getattr(error, "at_layer", "")] = error
    missing = set(failures)
    for path, entry in entries.items():
        scope = _scope(builder.scope, entry.scope)
        if not entry.used or scope is None or path in missing:
            continue
        if not missing.isdisjoint(entry.needs):
            missing.add(path)
            continue
        try:
            builder.layer(scope, entry.name)
        except Exception as error:
            missing.add(path)
            failures.setdefault(getattr(error, "at_layer", path), error)
    ends = [path for path, entry in entries.items() if entry.used and not entry.scope.path]
    _leave_out(builder, [path for path in builder.loops.nets if path not in builder.nodes])
    try:
        builder.construct({}, [] if missing else ends)
    except Exception as error:
        failures.setdefault(getattr(error, "at_layer", ""), error)
        _leave_out(builder, list(builder.loops.nets))
    return failures


def _leave_out(builder: Builder, loops: list[str]) -> None:
    """Removes loops that are not complete, and all that needs a value of theirs."""
    nodes, nets = builder.nodes, builder.loops.nets
    dropped = {net for path in loops if path in nets for net in nets.values() if nets[path] in net.chain}
    for path in [path for path, node in nodes.items() if node.loop in dropped]:
        del nodes[path]
    for net in dropped:
        nets.pop(net.path, None)
        nodes.pop(net.path, None)
    while orphans := [path for path, node in nodes.items() if any(need not in nodes for need in node.needs)]:
        for path in orphans:
            del nodes[path]


def _scope(root: Scope, wanted: Scope) -> Scope | None:
    """The same net in the builder; None in recurrent nets and units, whose layers are constructed together."""
    if wanted.in_loop is not None or isinstance(wanted, InnerScope):
        return None
    if wanted.parent is None:
        return root
    parent = _scope(root, wanted.parent)
    return None if parent is None else parent.sub(wanted.name)


def further_faults(
    builder: Builder, net: Mapping[str, object], entries: Mapping[str, OutlineEntry], first: Mapping[str, Exception]
) -> dict[str, Exception]:
    """The faults of layers that need others, by path, as far as they do not follow from the dims of grey boxes.

    Args:
        builder: of the net, which stays as it is. first: the faults that are known.
    """
    surveyor = Surveyor(builder)
    ends = ends_of(net, search=builder.scope.search, evaluate=True)
    try:
        surveyor.construct(net, ends)
    except Exception as error:  # such as one of the order of a loop with grey boxes
        if isinstance(error, RfError):
            surveyor.faults.setdefault(getattr(error, "at_layer", ""), error)
    faults: dict[str, Exception] = {}
    for path, fault in surveyor.faults.items():
        is_known = path in first or any(fault.args == other.args for other in first.values())
        if path in entries and not is_known and not (_behind(path, surveyor.boxes, entries) and _of_dims(fault)):
            faults[path] = fault
    return faults


class Surveyor(Builder):
    """Constructs a net like that of another builder, with grey boxes for layers that cannot be constructed.

    boxes: their paths. faults: by path, why; that of a layer may be inside of its unit.
    """

    def __init__(self, like: Builder):
        super().__init__(Module(), like.extern, like.version, "meta", search=like.scope.search)
        self.config, self.batch_independent = like.config, like.batch_independent
        self.faults: dict[str, Exception] = {}
        self.boxes: set[str] = set()

    def layer(self, scope: Scope, name: str) -> str:
        """Constructs a layer, or a grey box. Returns its path."""
        path = scope.path + name
        try:
            return super().layer(scope, name)
        except Exception as error:
            if path in self.stack:
                raise
            self.faults.setdefault(getattr(error, "at_layer", path), error)
            self.boxes.add(path)
            loop = None if scope.in_loop is None else self.loops.nets.get(scope.in_loop.path.rstrip("/"))
            self.nodes[path] = NetNode(path, None, self._guess(scope, name), loop=loop)
            return path

    def _in_order(self, scope: Scope, name: str) -> None:
        try:
            super()._in_order(scope, name)
        except RfError as error:
            self.faults.setdefault(getattr(error, "at_layer", scope.path + name), error)

    def _guess(self, scope: Scope, name: str) -> Tensor:
        """The dims that readers need: those of the first source, with the features that the options tell."""
        described = scope.layers.get(name)
        described = described if isinstance(described, Mapping) else {}
        template = None
        for source in names_of_sources(described, None):
            try:
                template = self.seen(self.find(scope, source, scope.path + name), scope)
                break
            except RfError:
                continue
        feature = labels = None
        dims = [batch_dim]
        if template is not None:
            feature, labels = template.feature_dim, template.sparse_dim
            dims = [dim for dim in template.dims if dim is not feature]
        size = size_told(described)
        if size is not None:
            feature, labels = self.axes.feature(size, dims), None
        elif described.get("class") == "softmax" and isinstance(described.get("target"), str):
            key = described["target"]
            if self.extern.has_data(key):
                feature, labels = self.extern.get_data(key).sparse_dim, None
        with on_meta():
            dims = [*dims, *([] if feature is None or feature in dims else [feature])]
            dtype = "int32" if labels is not None else "float32"
            return set_feature_dim(zeros(dims, dtype=dtype, sparse_dim=labels), feature)


def _behind(path: str, boxes: set[str], entries: Mapping[str, OutlineEntry]) -> bool:
    """Whether a layer is computed from a grey box."""

    def needs(name: str) -> list[str]:
        entry = entries.get(name)
        paths = [] if entry is None else [*entry.needs, *(reference.path for reference in entry.references)]
        return [need for need in paths if need is not None]

    return not boxes.isdisjoint(reached([path], needs) - {path})


def _of_dims(error: Exception) -> bool:
    """Whether a fault may come from dims that were only guessed."""
    if not isinstance(error, NetworkError) or isinstance(error, DimError | LayerNotFound):
        return True
    caused = error.__cause__ is not None and not isinstance(error.__cause__, RfError)
    return caused or "{" in str(error.got or "")
