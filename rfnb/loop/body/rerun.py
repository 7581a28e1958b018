"""The same call again: with the code as it is now, on the same inputs, with the same seed."""

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
from rfnb.core.run.run_ctx import RunCtx, entered, get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.run.rerun import run_again

if TYPE_CHECKING:
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


@dataclass(frozen=True)
class EnclosingCall:
    """The call of the user's function that a loop ran in.

    module, code: which function; `lasti` is the place of its `with`. given: its arguments as they were when the loop
    began; tensors without their graph. dims: what Dims among them were bound to. ctx: what the call was for.
    """

    module: str
    code: CodeType
    lasti: int
    given: Mapping[str, Any]
    dims: tuple[tuple[Dim, Lengths], ...]
    ctx: RunCtx

    @property
    def raws(self) -> list[Any]:
        """What the tensors among the arguments hold."""
        found = [leaf for leaf in leaves(list(self.given.values())) if type(leaf) is Tensor]
        return [tensor._raw for tensor in found if tensor.raw_tensor is not None]


def called() -> EnclosingCall | None:
    """The call of the user's innermost function, that runs now."""
    frame = user_frame()
    if frame is None:
        return None
    code, parameters = frame.f_code, _parameters(frame.f_code)
    names = locals_of(frame) if parameters else {}
    given = {name: map_leaves(_kept, names[name]) for name in parameters if name in names}
    dims = tuple((leaf, current_lengths([leaf])) for leaf in leaves(list(given.values())) if isinstance(leaf, Dim))
    return EnclosingCall(frame.f_globals.get("__name__", ""), code, frame.f_lasti, given, dims, get_run_ctx().again())


def _parameters(code: CodeType) -> tuple[str, ...]:
    """The names of all parameters of a function, those with stars last; none of a module or a class."""
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]


def _kept(leaf: Any) -> Any:
    if type(leaf) is not Tensor or leaf.raw_tensor is None:
        return leaf
    backend = backend_of_raw(leaf._raw)
    keeps_graph = backend.needs_gradient_raw(leaf._raw) and not backend.is_leaf_raw(leaf._raw)
    return leaf.like(backend.alias_raw(leaf._raw)).with_name(leaf.name) if keeps_graph else leaf


def rerun(replay: Replay, run: Run, fn: Callable[[], Any] | None) -> Run:
    """The run of the loop of the same name, in the same call with the code as it is now."""
    if replay.origin is not None:
        raise LoopError(f"{run.name}: a fork is no call of its own", hint="run.parent.rerun()")
    call = replay.plan.call
    again = fn or _again(run, call)

    def as_then() -> None:
        with _as_then(replay, call):
            again()

    return run_again(run, as_then)


def _again(run: Run, call: EnclosingCall | None) -> Callable[[], Any]:
    """The function as it is now, with the arguments as they were."""
    if call is None or not call.module or call.code.co_qualname.startswith("<"):
        raise LoopError(
            f"{run.name}: the loop ran in no function that could be called again",
            got=run.place,
            hint="put it into a function; or run.rerun(lambda: …), which runs it",
        )
    name, code = call.code.co_qualname, call.code
    found = _found(call.module, name)
    if found is None:
        raise LoopError(
            f"{run.name}: there is no {name} in {call.module} now, where the loop ran",
            hint="run.rerun(lambda: …), which calls it",
        )
    if lost := _set_anew(code, call.lasti):
        raise LoopError(
            f"{run.name}: {name} sets its argument `{lost[0]}` before the loop, so what it was given is not known",
            hint=f"another name for what is made of `{lost[0]}`; or run.rerun(lambda: {name.split('.')[-1]}(…))",
        )
    args, kwargs = _arguments(code, call.given)
    return partial(found, *args, **kwargs)


def _arguments(code: CodeType, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    names = iter(_parameters(code))
    args = [given[name] for name in islice(names, code.co_argcount)]
    kwargs = {name: given[name] for name in islice(names, code.co_kwonlyargcount)}
    args += given[next(names)] if code.co_flags & inspect.CO_VARARGS else ()
    kwargs |= given[next(names)] if code.co_flags & inspect.CO_VARKEYWORDS else {}
    return args, kwargs


def _found(module: str, qualname: str) -> Callable[..., Any] | None:
    """What is called so now; of a class, the plain function, which takes all arguments."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = inspect.getattr_static(found, name, None)
    if isinstance(found, property):
        found = found.fget
    found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    return found if callable(found) else None


def _set_anew(code: CodeType, lasti: int) -> list[str]:
    """Parameters that the function may have set before the instruction at `lasti`."""
    steps = list(dis.get_instructions(code))
    parameters = set(_parameters(code))
    repeated = any("JUMP_BACKWARD" in step.opname and step.argval <= lasti < step.offset for step in steps)
    stores = [
        step for step in steps if step.opname.startswith(("STORE_", "DELETE_")) and (repeated or step.offset < lasti)
    ]
    names = [name for step in stores for name in (step.argval if isinstance(step.argval, tuple) else [step.argval])]
    return [name for name in names if name in parameters]


# -- as it was then


@contextmanager
def _as_then(replay: Replay, call: EnclosingCall | None) -> Iterator[None]:
    """The modes and lengths of the run; afterwards all is as before."""
    with ExitStack() as stack:
        stack.enter_context(replay.backend.modes(replay.modes))
        if call is not None:
            stack.enter_context(entered(call.ctx.again()))
            stack.enter_context(_bound(call))
        yield


@contextmanager
def _bound(call: EnclosingCall) -> Iterator[None]:
    """Dims have the sizes of the batch of that call."""
    tensors = [leaf for leaf in leaves(list(call.given.values())) if isinstance(leaf, Tensor)]
    then = [*((dim, x.lengths) for x in tensors for dim in x.dims), *call.dims]
    before = {root: root.bound for dim, _ in then for root in dim.roots.values()}
    for dim, lengths in then:
        bind_again([dim], lengths)
    try:
        yield
    finally:
        for root, bound in before.items():
            root.bound = bound
