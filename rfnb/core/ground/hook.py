"""Hooks: functions which a lower rank calls and a higher one registers, so that no import points up.

>>> greeting: Hook[[str], str] = Hook("core.ground.hook.greeting", by="display.register")
>>> greeting.register(lambda name: f"hello {name}")("you"), greeting("me")
('hello you', 'hello me')

`HOOKS` lists all that were declared: what is called where, and which module registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from rfnb.core.graph.call_recorder import CallRecorder
    from rfnb.core.graph.meter import Meter
    from rfnb.core.graph.model_graph import ModelGraph


P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

HOOKS: list[Hook[Any, Any] | ClassHook[Any]] = []
"""All hooks, in the order they were declared."""


class Hook(Generic[P, R]):
    """One function. name: where the hook is declared. by: the module that registers the function.

    Until then `otherwise` is called; without one, the first call imports that module.
    """

    __slots__ = ("by", "fn", "name")

    def __init__(self, name: str, *, by: str, otherwise: Callable[P, R] | None = None):
        self.name, self.by, self.fn = name, by, otherwise
        HOOKS.append(self)

    def register(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Sets the function; returns it, so that this is a decorator."""
        self.fn = fn
        return fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function that is registered. Raises LookupError if its module has not registered one."""
        if self.fn is None:
            import_module(f"rfnb.{self.by}")
        if self.fn is None:
            raise LookupError(f"{self.name} is not registered by rfnb.{self.by}")
        return self.fn(*args, **kwargs)


class ClassHook(Generic[F]):
    """A function for each of several classes, which also serves their subclasses."""

    __slots__ = ("by", "fns", "name")

    def __init__(self, name: str, *, by: str):
        self.name, self.by = name, by
        self.fns: dict[type, F] = {}
        HOOKS.append(self)

    def register(self, *classes: type) -> Callable[[F], F]:
        """Sets the function for instances of these classes."""

        def decorate(fn: F) -> F:
            self.fns.update(dict.fromkeys(classes, fn))
            return fn

        return decorate

    def of(self, cls: type) -> Iterator[F]:
        """The functions for a class and its bases, the most specific first."""
        return (self.fns[base] for base in cls.__mro__ if base in self.fns)


class TraceCall(Protocol):
    """A function that traces a call of a model."""

    def __call__(
        self,
        model: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        meta: bool,
        meter: Meter | None = None,
        kept: ExitStack | None = None,
    ) -> ModelGraph:
        """Calls the model once and returns the graph of the call.

        Args:
            meta: on the meta device, without numbers.
            meter: measures the nodes.
            kept: restores, when it closes, the modules that the call finds, for calls that are not traced.
        """


trace_call: ClassHook[TraceCall] = ClassHook("core.ground.hook.trace_call", by="backend.torch.backend")
"""Traces a call; registered by the class of a model, or of one of its arguments."""

keep_state: ClassHook[Callable[[Any, ExitStack], None]] = ClassHook(
    "core.ground.hook.keep_state", by="backend.torch.backend"
)
"""Restores the state of modules when the stack closes; registered by the class of modules that a model may hold."""

record_calls: Hook[[Sequence[Any], Meter], AbstractContextManager[CallRecorder | None]] = Hook(
    "core.ground.hook.record_calls", by="backend.torch.backend", otherwise=lambda models, meter: nullcontext()
)
"""Records the calls of plain torch inside the block, apart from those that rfnb makes itself, and reports them to the
meter. models: modules whose paths begin with their class."""

drop_numbers: ClassHook[Callable[[Any, ExitStack], None]] = ClassHook(
    "core.ground.hook.drop_numbers", by="backend.torch.backend"
)
"""Puts modules on the device "meta" until the stack closes; registered like `keep_state`."""
