"""What `rf.model_graph` returns: the graph of one call of a model, which holds no tensor."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.graph.facts import ModuleFacts
from rfnb.core.graph.graph import CallGraph, Node, Value
from rfnb.core.ground.show import Shown, make_dot


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """What ended the call. node: the number of the node that failed; None if it was between two ops.

    error: the name of its class. text: all that it says. place: "cell 4, line 2". hint: what to do about it.
    """

    node: int | None
    error: str
    text: str
    place: str | None = None
    line: str | None = None
    hint: str | None = None


@dataclass(repr=False)
class ModelGraph(Shown):
    """What one call of a model did. Values and nodes have numbers of their own, the same in all bodies.

    name: of the model. inputs: numbers of values, which are called as the arguments are. outputs: their names and
    numbers. unused: modules that were not called, without those inside of them. meta: whether there were no numbers.

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

    @property
    def nodes(self) -> list[Node]:
        """The outermost ones, in the order they ran; all of them by `walk`."""
        return self.graph.nodes

    @property
    def values(self) -> list[Value]:
        """All of them, by number."""
        return self.graph.values

    def to_dot(self, **choice: Any) -> Any:
        """A `graphviz.Source` of it, folded as `rf.show(graph, **choice)` folds it.

        Raises ViewError if the package graphviz is missing.
        """
        return make_dot(self, **choice)

    def form_of(self, node: Node) -> int:
        """What a module or loop does: nodes of one form do the same with other parameters. 0 for other nodes."""
        return self.graph.forms.get(node.number, 0)

    def walk(self) -> Iterator[tuple[int, Node]]:
        """All nodes with their depth, in the order they began."""
        open_ = [(0, node) for node in reversed(self.nodes)]
        while open_:
            depth, node = open_.pop()
            yield depth, node
            open_ += [(depth + 1, inner) for inner in reversed(node.body)]


def title(model: Any) -> str:
    """The class of a module, the name of a function."""
    return str(getattr(model, "__name__", type(model).__name__)).replace("<lambda>", "lambda")


def owner(model: Any) -> Any:
    """The module that is called, or of which a method is called; None for a function."""
    found = model if hasattr(model, "named_modules") else getattr(model, "__self__", None)
    return found if hasattr(found, "named_modules") else None


def argument_names(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """What is given to a model, under the names that it has for it."""
    call = model if inspect.isroutine(model) else getattr(model, "forward", None) or type(model).__call__.__get__(model)
    try:
        bound = inspect.signature(call).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return [*((f"arg{i}", arg) for i, arg in enumerate(args)), *kwargs.items()]
    return [part for name, value in bound.arguments.items() for part in _spread(call, name, value)]


def _spread(call: Any, name: str, value: Any) -> list[tuple[str, Any]]:
    kind = inspect.signature(call).parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return [(f"{name}{i}", part) for i, part in enumerate(value)]
    return list(value.items()) if kind is inspect.Parameter.VAR_KEYWORD else [(name, value)]


def failure(error: BaseException, node: Node | None, *, meta: bool) -> ModelFailure:
    """An error in words; the error itself would keep the variables of all functions on its way."""
    notes = getattr(error, "__notes__", [])
    source = None if node is None else node.source
    error.__traceback__ = None  # which holds the tensors of all functions on its way
    return ModelFailure(
        None if node is None else node.number,
        type(error).__name__,
        "\n".join([str(error), *notes]),
        source.place() if source is not None else None,
        source.text() if source is not None else None,
        META_HINT if meta else None,
    )


META_HINT = "there are no numbers on meta: leave out meta=True where the way on depends on them, and give small inputs"
