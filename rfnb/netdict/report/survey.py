"""Looks at a net past its faults: a layer with one becomes a grey box, and those behind it are constructed."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.dims.dim import batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, LayerNotFound, NetworkError, RfError
from rfnb.netdict.build import NetNode, ends_of, on_meta
from rfnb.netdict.builder import Builder
from rfnb.netdict.report.outline import OutlineEntry
from rfnb.netdict.resolve import Scope, names_of_sources, size_told
from rfnb.nn.module.module import Module
from rfnb.ops.create import zeros
from rfnb.ops.shape import set_feature_dim


def further_faults(
    builder: Builder, net: Mapping[str, object], entries: Mapping[str, OutlineEntry], first: Mapping[str, Exception]
) -> dict[str, Exception]:
    """The faults of layers behind others, by path, as far as they do not follow from the dims of grey boxes.

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
    found: dict[str, Exception] = {}
    for path, fault in surveyor.faults.items():
        known = path in first or any(fault.args == other.args for other in first.values())
        if path in entries and not known and not (_behind(path, surveyor.boxes, entries) and _of_dims(fault)):
            found[path] = fault
    return found


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
    visited, todo = {path}, [path]
    while todo:
        entry = entries.get(todo.pop())
        references = () if entry is None else entry.references
        for need in {reference.path for reference in references} | set(() if entry is None else entry.needs):
            if need in boxes and need != path:
                return True
            if need is not None and need not in visited:
                visited.add(need)
                todo.append(need)
    return False


def _of_dims(error: Exception) -> bool:
    """Whether a fault may come from dims that were only guessed."""
    if not isinstance(error, NetworkError) or isinstance(error, DimError | LayerNotFound):
        return True
    caused = error.__cause__ is not None and not isinstance(error.__cause__, RfError)
    return caused or "{" in str(error.got or "")
