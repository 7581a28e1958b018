"""Recording the call of a model as a `CallGraph`, without keeping its tensors alive, and its modules as a table."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rfnb.core.graph.graph import CallGraph, Facts, ModuleFacts, Node, NodeKind, Value, ValueKind
from rfnb.core.graph.meter import NO_METER, Meter
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.ground.source import Source
from rfnb.core.ground.text import cut
from rfnb.core.tensor.tensor_dict import as_dicts

Own = Callable[[Any], Iterable[tuple[str, Any]]]
"""A function that returns a module's own parameters with their names."""
Counted = Callable[[Any], tuple[int, bool]]
"""A function that returns the number of values in a parameter, and whether it is trained."""
NamedModules = Callable[[Any, str], Iterable[tuple[str, Any]]]
"""A function that returns a module and those in it with their paths, below a prefix."""


class ModuleTable:
    """The path and facts of each module, and which modules were called."""

    def __init__(self, own: Own, counted: Counted, named_modules: NamedModules | None = None):
        self._own, self._counted = own, counted
        self._named_modules = named_modules or (lambda root, prefix: root.named_modules(prefix=prefix))
        self._facts: dict[int, ModuleFacts] = {}
        self._calls: dict[int, int] = {}
        self._alive: list[object] = []  # so that no id is reused
        self.parameters: dict[int, str] = {}  # paths, by id
        self.used: set[int] = set()  # ids of parameters that were read
        self.count = 0

    def add(self, root: object, prefix: str = "") -> None:
        """Adds a module and all modules inside it."""
        named = self._named_modules(root, prefix)
        new = [(path, module) for path, module in named if id(module) not in self._facts]
        counts: dict[str, list[int]] = {path: [0, 0] for path, _ in new}
        counted: set[tuple[str, int]] = set()
        for path, module in new:
            for name, parameter in self._own(module):
                self._alive.append(parameter)
                self.parameters.setdefault(id(parameter), f"{path}.{name}" if path else name)
                number, is_trained = self._counted(parameter)
                for parent in _with_parents(path, prefix):
                    if parent in counts and (parent, id(parameter)) not in counted:
                        counted.add((parent, id(parameter)))
                        counts[parent][0] += number
                        counts[parent][1] += number * is_trained
        for path, module in new:
            self._alive.append(module)
            count, trained = counts[path]
            self._facts[id(module)] = ModuleFacts(type(module).__name__, path, count, trained, note_of(module))
        self.count += counts[prefix][0] if prefix in counts else 0

    def knows(self, module: object) -> bool:
        """Whether a module was added."""
        return id(module) in self._facts

    def call(self, module: object, inside: str = "") -> ModuleFacts:
        """Counts a call of a module and returns its facts. A new module is added below `inside`."""
        if id(module) not in self._facts:
            self.add(module, self._free_name(module, inside))
        calls = self._calls[id(module)] = self._calls.get(id(module), -1) + 1
        return replace(self._facts[id(module)], call=calls) if calls else self._facts[id(module)]

    def _free_name(self, module: object, inside: str) -> str:
        paths = {facts.path for facts in self._facts.values()}
        stem = f"{inside}.{default_name(module)}".lstrip(".")
        return next(name for n in range(len(paths) + 1) if (name := f"{stem}_{n + 1}" if n else stem) not in paths)

    def unused(self) -> tuple[ModuleFacts, ...]:
        """The modules that were neither called nor had a parameter read, without the modules inside them."""
        alive: set[str] = set()
        for number in self._calls:
            alive.update(_with_parents(self._facts[number].path))
        for number in self.used & set(self.parameters):
            alive.update(_with_parents(self.parameters[number].rpartition(".")[0]))
        idle = {facts.path: facts for facts in self._facts.values() if facts.path not in alive}
        return tuple(f for path, f in idle.items() if path and not any(up in idle for up in _parents(path)))


def is_module(thing: object) -> bool:
    """Whether an object is a module of rfnb or torch, not a class of modules."""
    return hasattr(thing, "named_modules") and not isinstance(thing, type)


def default_name(module: object) -> str:
    """The name of a module that no attribute names: "layer_norm" for LayerNorm."""
    if hasattr(module, "get_default_name"):
        return str(module.get_default_name())
    return type(module).__name__.lower()


def note_of(module: Any) -> str:
    """The options of a module in one line; "" if it has no `extra_repr`."""
    try:
        words = " ".join(str(module.extra_repr()).split())
    except Exception:
        return ""
    return cut(words, 120)


def _parents(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path


def _with_parents(path: str, top: str = "") -> Iterator[str]:
    """The path itself and all paths above it, up to `top`."""
    yield path
    for parent in _parents(path):
        if len(parent) >= len(top):
            yield parent


class CallRecorder:
    """Builds a `CallGraph`. Base class: subclasses observe the call and report what happens.

    inside: the bodies that are open, outermost first, each with the path of its module. meter: measures the nodes.
    quiet: while true, calls are not recorded. in_library: whether the innermost open module is not the user's.
    """

    tensor_type: type
    quiet: bool = False
    in_library: bool = False

    def __init__(self, model: object, modules: ModuleTable, meter: Meter | None = None):
        self.meter = meter or NO_METER
        self.graph = CallGraph()
        self.modules = modules
        self.inside: list[tuple[str, list[Node]]] = [("", self.graph.nodes)]
        self.model: object = model  # None once it was called
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

    def given(self, arguments: Iterable[tuple[str, object]]) -> tuple[int, ...]:
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

    def forget(self, tensor: object) -> None:
        """Makes a tensor that was changed in place a new value from now on."""
        self._known.pop(id(tensor), None)

    def numbers(self, *structures: object) -> tuple[int, ...]:
        """The numbers of the values in nested structures."""
        kind = self.tensor_type
        return tuple([self.number_of(leaf) for leaf in leaves(as_dicts(structures)) if isinstance(leaf, kind)])

    def made(self, node: Node, result: object, given: object = ()) -> None:
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

    def begin_module(self, module: object, inputs: tuple[int, ...]) -> Node | None:
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
