"""The context of the code that is running: the path of modules, what measures it, the source of random numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from rfnb.core.graph.meter import Meter


T = TypeVar("T")
_path: ContextVar[tuple[str, ...]] = ContextVar("rfnb_path", default=())
_calling: ContextVar[object] = ContextVar("rfnb_calling", default=None)
_describe: ContextVar[Callable[[Any], object] | None] = ContextVar("rfnb_describe", default=None)
_meter: ContextVar[Meter | None] = ContextVar("rfnb_meter", default=None)
_stream: ContextVar[Callable[[str], object] | None] = ContextVar("rfnb_stream", default=None)


class within(Generic[T]):
    """Sets the context variable inside the block, for this thread only."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T):
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *error: object) -> None:
        self._variable.reset(self._token)


def module_path() -> str:
    """The modules that are being called, outermost first: "decoder.att"."""
    return ".".join(_path.get())


def inside_module(name: str) -> AbstractContextManager[None]:
    """Adds `name` to the module path inside the block."""
    return within(_path, (*_path.get(), name))


class calling:
    """Inside the block, the module path ends with the name of a module that is being called.

    It is that of the attribute of the module around it, "layers.0", or the name that a layer of a net dict has. Without
    a module around it, it is its class.
    """

    __slots__ = ("_module", "_tokens")

    def __init__(self, module: Any):
        self._module = module

    def __enter__(self) -> None:
        module, caller = self._module, _calling.get()
        name = module.name_in_loop if hasattr(type(module), "name_in_loop") else None
        if name is not None:
            name = name.removeprefix(f"{getattr(caller, 'name_in_loop', None)}/")
        elif hasattr(caller, "name_of"):
            name = caller.name_of(module)
        self._tokens = _calling.set(module), _path.set((*_path.get(), name or type(module).__name__))

    def __exit__(self, *error: object) -> None:
        module, path = self._tokens
        _path.reset(path)
        _calling.reset(module)


def paths_below(model: Any, root: str = "") -> dict[int, str]:
    """The paths of the modules in a model, such as "encoder.layers.0", by id; `root` is the prefix."""
    return {id(module): ".".join(filter(None, (root, name))) for name, module in model.named_modules()}


def module_facts(module: object) -> Any:
    """The facts that `modules_described_by` gives for a module; None outside of such a block."""
    describe = _describe.get()
    return None if describe is None else describe(module)


def modules_described_by(describe: Callable[[Any], object]) -> AbstractContextManager[None]:
    """Inside the block, `module_facts(module)` is `describe(module)`."""
    return within(_describe, describe)


def current_meter() -> Meter | None:
    """What measures the call that is running; None if nothing does."""
    return _meter.get()


def metering(meter: Meter | None) -> AbstractContextManager[None]:
    """Makes `meter` measure the loops inside the block; None: nothing measures them."""
    return within(_meter, meter)


def random_stream(device: str) -> Any:
    """The generator that random ops draw from; None: the global one of the backend."""
    stream = _stream.get()
    return None if stream is None else stream(device)


def random_from(stream: Callable[[str], object] | None) -> AbstractContextManager[None]:
    """Makes random ops inside the block draw from `stream(device)`."""
    return within(_stream, stream)


@contextmanager
def not_searched() -> Iterator[None]:
    """Garbage collection is off inside the block: it would take longer than the imports themselves."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
