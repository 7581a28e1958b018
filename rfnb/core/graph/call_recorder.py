"""Recording the call of a model as a `CallGraph`, without keeping its tensors alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rfnb.core.graph.facts import Facts
from rfnb.core.graph.graph import CallGraph, Node, NodeKind, Value, ValueKind
from rfnb.core.graph.meter import NO_METER, Meter
from rfnb.core.graph.module_table import ModuleTable, is_module
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.ground.source import Source
from rfnb.core.tensor.tensor_dict import as_dicts


class CallRecorder:
    """Builds a `CallGraph`. Base class: subclasses observe the call and report what happens.

    inside: the bodies that are open, outermost first, each with the path of its module. meter: measures the nodes.
    quiet: while true, calls are not recorded. in_library: whether the innermost open module is not the user's.
    """

    tensor_type: type
    quiet: bool = False
    in_library: bool = False

    def __init__(self, model: Any, modules: ModuleTable, meter: Meter | None = None):
        self.meter = meter or NO_METER
        self.graph = CallGraph()
        self.modules = modules
        self.inside: list[tuple[str, list[Node]]] = [("", self.graph.nodes)]
        self.model: Any = model  # None once it was called
        self._failed: tuple[BaseException, Node | None] | None = None
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id

    # -- values

    def add_value(self, tensor: Any) -> Value:
        """A new value that describes a tensor, to be read when the tensor no longer exists."""
        raise NotImplementedError

    def here(self) -> Source | None:
        """The place in the user's code that is running."""
        raise NotImplementedError

    def number_of(self, tensor: Any, kind: ValueKind = "constant", name: str = "") -> int:
        """The number of the value that a tensor is; a new value if the tensor was not seen before."""
        entry = self._known.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            return entry[1]
        value = self.add_value(tensor)
        self._known[id(tensor)] = weakref.ref(tensor), value.number
        value.kind, value.name = kind, name
        path = self.modules.parameters.get(id(tensor))
        if path is not None:
            value.kind, value.path = "parameter", path
            self.modules.used.add(id(tensor))
        return value.number

    def given(self, arguments: Iterable[tuple[str, Any]]) -> tuple[int, ...]:
        """The input values, named after the arguments. Modules among the arguments are added under these names."""
        names: dict[int, list[str]] = {}
        for argument, value in arguments:
            for name, leaf in named_leaves(as_dicts(value), argument):
                if isinstance(leaf, self.tensor_type):
                    names.setdefault(self.number_of(leaf, "input"), []).append(name)
                elif is_module(leaf):
                    self.modules.add(leaf, name)
        for number, its_names in names.items():
            self.graph.values[number].name = ", ".join(its_names)
        return tuple(names)

    def forget(self, tensor: Any) -> None:
        """Makes a tensor that was changed in place a new value from now on."""
        self._known.pop(id(tensor), None)

    def numbers(self, *structures: Any) -> tuple[int, ...]:
        """The numbers of the values in nested structures."""
        kind = self.tensor_type
        return tuple([self.number_of(leaf) for leaf in leaves(as_dicts(structures)) if isinstance(leaf, kind)])

    def made(self, node: Node, result: Any, given: Any = ()) -> None:
        """Sets the outputs of a node to the tensors of a result. Those that are new are marked as made by the node.

        given: the arguments of the call.
        """
        results = leaves(as_dicts(result))
        self.meter.made(node, given, results)
        start, outputs = len(self.graph.values), list[int]()
        for leaf in results:
            if isinstance(leaf, self.tensor_type):
                number = self.number_of(leaf, "")
                if number >= start:
                    value = self.graph.values[number]
                    value.node, value.output, value.kind = node, len(outputs), ""  # even if it is a changed parameter
                outputs.append(number)
        node.outputs = tuple(outputs)

    # -- nodes

    def begin(self, op: str, inputs: tuple[int, ...], kind: NodeKind = "op", facts: Facts | None = None) -> Node:
        """Adds a node to the innermost open body."""
        path, body = self.inside[-1]
        source = self.here()
        node = Node(0, op, inputs, (), path, source, source, kind=kind, facts=facts)
        body.append(node)
        return node

    def begin_module(self, module: Any, inputs: tuple[int, ...]) -> Node | None:
        """Adds a node for the call of a module. Returns None for the model itself, which is the whole graph."""
        path = self.inside[-1][0]
        facts = self.modules.call(module, path)
        if module is self.model:
            self.model = None
            return None
        node = self.begin(facts.cls, inputs, "module", facts)
        node.name = below(facts.path, path)
        return node

    @contextmanager
    def open(self, node: Node) -> Iterator[None]:
        """Opens the body of `node`: nodes added inside the block belong to it."""
        depth = len(self.inside)
        self.inside.append((self.inside[-1][0] if node.module is None else node.module.path, node.body))
        self.meter.enter(node)
        try:
            yield
        except BaseException as error:
            self.fail(error, node)
            raise
        finally:
            self.meter.exit(node)
            del self.inside[depth:]

    def fail(self, error: BaseException, node: Node | None) -> Node | None:
        """Returns the node that raised an error. node: the node that it is passing through."""
        if self._failed is None or self._failed[0] is not error:
            self._failed = error, node
        return self._failed[1]


def below(path: str, top: str) -> str:
    """The path of a module, relative to the module at `top`."""
    return path.removeprefix(f"{top}.") if top else path
