"""`run.rerun()`: repeats the call that a loop ran in, with current code but the same inputs and seed."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.binding import bind_again, current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.source import locals_of, user_frame
from rfnb.core.run_ctx import RunCtx, entered, get_run_ctx
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.errors import LoopError
from rfnb.trace.run.rerun import run_again

if TYPE_CHECKING:
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


@dataclass(frozen=True)
class EnclosingCall:
    """The call of the user's function that a loop ran in.

    module, code: the function; `lasti` is the position of the `with` in its bytecode. given: its arguments when the
    loop began; tensors are detached. dims: sizes of the Dims among them. ctx: the run context of the call.
    """

    module: str
    code: CodeType
    lasti: int
    given: Mapping[str, Any]
    dims: tuple[tuple[Dim, Lengths], ...]
    ctx: RunCtx

    @property
    def raws(self) -> list[Any]:
        """The raw tensors of the arguments."""
        tensors = [leaf for leaf in leaves(list(self.given.values())) if type(leaf) is Tensor]
        return [x._raw for x in tensors if x.raw_tensor is not None]


def current_call() -> EnclosingCall | None:
    """The current call of the user's innermost function."""
    frame = user_frame()
    if frame is None:
        return None
    code, parameters = frame.f_code, _parameters(frame.f_code)
    names = locals_of(frame) if parameters else {}
    values = {name: map_leaves(_without_graph, names[name]) for name in parameters if name in names}
    dims = tuple((leaf, current_lengths([leaf])) for leaf in leaves(list(values.values())) if isinstance(leaf, Dim))
    return EnclosingCall(frame.f_globals.get("__name__", ""), code, frame.f_lasti, values, dims, get_run_ctx().again())


def _parameters(code: CodeType) -> tuple[str, ...]:
    """The names of all parameters of a function, starred ones last; empty for a module or a class."""
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]


def _without_graph(leaf: Any) -> Any:
    if type(leaf) is not Tensor or leaf.raw_tensor is None:
        return leaf
    backend = backend_of_raw(leaf._raw)
    keeps_graph = backend.needs_gradient_raw(leaf._raw) and not backend.is_leaf_raw(leaf._raw)
    return leaf.like(backend.alias_raw(leaf._raw)).with_name(leaf.name) if keeps_graph else leaf


def rerun(replay: Replay, run: Run, fn: Callable[[], Any] | None) -> Run:
    """Repeats the call with current code, and returns the run of the loop of the same name."""
    if replay.origin is not None:
        raise LoopError(f"{run.name}: a fork cannot be run again", hint="run.parent.rerun()")
    call = replay.bindings.call
    function = fn or _current_function(run, call)

    def repeat() -> None:
        with _as_in_run(replay, call):
            function()

    return run_again(run, repeat)


def _current_function(run: Run, call: EnclosingCall | None) -> Callable[[], Any]:
    """The current version of the function, bound to the original arguments."""
    if call is None or not call.module or call.code.co_qualname.startswith("<"):
        raise LoopError(
            f"{run.name}: the loop did not run in a function that can be called again",
            got=run.place,
            hint="put the loop into a function; or pass one that runs it, run.rerun(lambda: …)",
        )
    name, code = call.code.co_qualname, call.code
    function = _function_named(call.module, name)
    if function is None:
        raise LoopError(
            f"{run.name}: {call.module} no longer has {name}, in which the loop ran",
            hint="pass a function that runs the loop: run.rerun(lambda: …)",
        )
    if lost := _overwritten_parameters(code, call.lasti):
        raise LoopError(
            f"{run.name}: {name} sets its argument `{lost[0]}` before the loop, so its original value is not known",
            hint=f"give the new value of `{lost[0]}` another name; or run.rerun(lambda: {name.split('.')[-1]}(…))",
        )
    args, kwargs = _arguments(code, call.given)
    return partial(function, *args, **kwargs)


def _arguments(code: CodeType, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    names = iter(_parameters(code))
    args = [given[name] for name in islice(names, code.co_argcount)]
    kwargs = {name: given[name] for name in islice(names, code.co_kwonlyargcount)}
    args += given[next(names)] if code.co_flags & inspect.CO_VARARGS else ()
    kwargs |= given[next(names)] if code.co_flags & inspect.CO_VARKEYWORDS else {}
    return args, kwargs


def _function_named(module: str, qualname: str) -> Callable[..., Any] | None:
    """The function that has this name now; for methods, the plain function that takes all arguments."""
    value: Any = sys.modules.get(module)
    for name in qualname.split("."):
        value = inspect.getattr_static(value, name, None)
    if isinstance(value, property):
        value = value.fget
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return value if callable(value) else None


def _overwritten_parameters(code: CodeType, lasti: int) -> list[str]:
    """Parameters that the function may have set before the instruction at `lasti`."""
    steps = list(dis.get_instructions(code))
    parameters = set(_parameters(code))
    repeated = any("JUMP_BACKWARD" in step.opname and step.argval <= lasti < step.offset for step in steps)
    stores = [
        step for step in steps if step.opname.startswith(("STORE_", "DELETE_")) and (repeated or step.offset < lasti)
    ]
    names = [name for step in stores for name in (step.argval if isinstance(step.argval, tuple) else [step.argval])]
    return [name for name in names if name in parameters]


# -- the modes and sizes of the run


@contextmanager
def _as_in_run(replay: Replay, call: EnclosingCall | None) -> Iterator[None]:
    """Restores the modes, run context and lengths of the run inside the block."""
    with ExitStack() as stack:
        stack.enter_context(replay.backend.modes(replay.modes))
        if call is not None:
            stack.enter_context(entered(call.ctx.again()))
            stack.enter_context(_sizes_bound(call))
        yield


@contextmanager
def _sizes_bound(call: EnclosingCall) -> Iterator[None]:
    """Binds Dims to the sizes of that call's batch inside the block."""
    tensors = tensors_in(list(call.given.values()))
    bindings = [*((dim, x.lengths) for x in tensors for dim in x.dims), *call.dims]
    before = {root: root.bound for dim, _ in bindings for root in dim.roots.values()}
    for dim, lengths in bindings:
        bind_again([dim], lengths)
    try:
        yield
    finally:
        for root, bound in before.items():
            root.bound = bound
