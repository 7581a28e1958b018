"""The result of `rf.model_graph`: the graph of one call of a model, without tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rfnb.core.graph.call_recorder import is_module
from rfnb.core.graph.graph import CallGraph, ModuleFacts, Node, Value
from rfnb.core.graph.meter import NodeMeasures
from rfnb.core.ground.show import Shown, make_dot


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """The error that ended the call.

    node: the number of the node that failed; None if the error was raised between two nodes. error: the name of its
    class. text: its message and notes. place: "cell 4, line 2". line: the source text there. hint: the way out.
    """

    node: int | None
    error: str
    text: str
    place: str | None = None
    line: str | None = None
    hint: str | None = None


@dataclass(repr=False)
class ModelGraph(Shown):
    """The graph of one call of a model. Nodes and values are numbered throughout, including those in bodies.

    Args:
        name: the name of the model.
        inputs: the numbers of the input values, which are named after the arguments.
        outputs: the names and numbers of the output values.
        failure: the error that ended the call, if any.
        unused: the modules that were not called, without the modules inside them.
        count: the number of values in all parameters.
        meta: whether the call ran on torch's device "meta", without data.
        measured: what `show` has measured of the nodes.

    >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(4, name="out")
    >>> graph = rf.model_graph(rf.Linear(feat, out), rf.ones([feat]))
    >>> graph.name, graph.count, [node.op for _, node in graph.walk()]
    ('Linear', 16, ['linear'])
    """

    name: str
    graph: CallGraph
    inputs: tuple[int, ...] = ()
    outputs: tuple[tuple[str, int], ...] = ()
    failure: ModelFailure | None = None
    unused: tuple[ModuleFacts, ...] = ()
    count: int = 0
    meta: bool = False
    notes: list[str] = field(default_factory=list)
    measured: NodeMeasures | None = None

    @property
    def nodes(self) -> list[Node]:
        """The outermost nodes, in the order in which they ran; `walk` gives all."""
        return self.graph.nodes

    @property
    def values(self) -> list[Value]:
        """All values, by number."""
        return self.graph.values

    def to_dot(self, **choice: object) -> Any:
        """The graph as a `graphviz.Source`, folded like `rf.show(graph, **choice)`.

        Raises ViewError if the package graphviz is missing.
        """
        return make_dot(self, **choice)

    def form_of(self, node: Node) -> int:
        """The form of a module or loop: nodes with the same form run the same ops. 0 for other nodes."""
        return self.graph.forms.get(node.number, 0)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """All nodes with their depth, in the order in which they began."""
        open_ = [(0, node) for node in reversed(self.nodes)]
        while open_:
            depth, node = open_.pop()
            yield depth, node
            open_ += [(depth + 1, inner) for inner in reversed(node.body)]


def title(model: object) -> str:
    """The name of a model: the class of a module, or the name of a function."""
    return str(getattr(model, "__name__", type(model).__name__)).replace("<lambda>", "lambda")


def owner(model: object) -> Any:
    """The module that is called, or whose method is called; None for a function."""
    module = model if is_module(model) else getattr(model, "__self__", None)
    return module if is_module(module) else None


def argument_names(model: object, args: tuple[object, ...], kwargs: dict[str, object]) -> list[tuple[str, object]]:
    """The arguments of a call, each with the name of the model's parameter."""
    call = _function_of(model)
    try:
        bound = inspect.signature(call).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return [*((f"arg{i}", arg) for i, arg in enumerate(args)), *kwargs.items()]
    return [part for name, value in bound.arguments.items() for part in _spread(call, name, value)]


def _function_of(model: object) -> Any:
    """The function with the signature of a model: that of torch takes any arguments, and calls `forward`."""
    if inspect.isroutine(model) or isinstance(model, partial):
        return model
    return getattr(model, "forward", None) or type(model).__call__.__get__(model)


def keywords_of(model: object) -> tuple[list[str], bool]:
    """The keywords that the call of a model names, and whether it takes any others as well."""
    try:
        parameters = inspect.signature(_function_of(model)).parameters.values()
    except (TypeError, ValueError):  # a function of C, or of TorchScript
        return [], True
    names = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    return names, any(item.kind is item.VAR_KEYWORD for item in parameters)


def _spread(call: Any, name: str, value: Any) -> list[tuple[str, object]]:
    kind = inspect.signature(call).parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return [(f"{name}{i}", part) for i, part in enumerate(value)]
    return list(value.items()) if kind is inspect.Parameter.VAR_KEYWORD else [(name, value)]


def failure(error: BaseException, node: Node | None, *, meta: bool) -> ModelFailure:
    """Describes an error, which itself would keep alive the variables of all functions in its traceback."""
    notes = getattr(error, "__notes__", [])
    source = None if node is None else node.source
    error.__traceback__ = None  # it would keep the tensors of these functions alive
    return ModelFailure(
        None if node is None else node.number,
        type(error).__name__,
        "\n".join([str(error), *notes]),
        source.place() if source is not None else None,
        source.text() if source is not None else None,
        META_HINT if meta else None,
    )


META_HINT = (
    "tensors on meta have no values: leave out meta=True if the control flow depends on values, and use small inputs"
)
