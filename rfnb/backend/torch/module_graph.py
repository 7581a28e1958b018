"""The graph of a call of a `torch.nn.Module`: hooks report modules, a mode the functions between."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial, wraps
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from rfnb.backend.torch.data import DTYPE_NAMES, unwrapped
from rfnb.backend.torch.module_state import keep_numbers, keep_state, on_meta, uncompiled
from rfnb.core.graph.call_recorder import CallRecorder, ModuleTable
from rfnb.core.graph.graph import Node, Value, name_graph
from rfnb.core.graph.meter import Meter
from rfnb.core.graph.model_graph import ModelGraph, argument_names, failure, owner, title
from rfnb.core.ground.nested import leaves, named_leaves
from rfnb.core.ground.source import PACKAGE, Source
from rfnb.core.tensor.listener import active_listener, loop_runs
from rfnb.core.tensor.tensor_dict import as_dicts

_LIBRARIES = (PACKAGE, str(Path(torch.__file__).parent) + os.sep)


def module_graph(
    model: Any,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    meta: bool,
    meter: Meter | None = None,
    kept: ExitStack | None = None,
) -> ModelGraph:
    """The result of `rf.model_graph` for a torch module, or a function of torch tensors."""
    graph, caller, its = ModelGraph(title(model), None), _here(), owner(model)  # type: ignore[arg-type]
    failed: tuple[BaseException, Node | None] | None = None
    with ExitStack() as stack:
        models = [part for part in (its, *leaves(as_dicts([args, kwargs]))) if isinstance(part, torch.nn.Module)]
        lazy = False
        for part in models:
            lazy |= keep_state(part, stack)
        if meta:
            args, kwargs = on_meta(models, (args, kwargs), stack)
        inputs = leaves(as_dicts([args, kwargs]))
        graph.meta = meta or any(leaf.is_meta for leaf in inputs if isinstance(leaf, torch.Tensor))
        for is_last in (False, True):
            recorder = _ModelRecorder(its, (stack, kept or stack), meter, meta=meta)
            try:
                graph.inputs = recorder.given(argument_names(model, args, kwargs))
                with recorder.observing():
                    result = recorder.meter.whole(lambda: model(*args, **kwargs))
            except Exception as error:
                failed = error, recorder.fail(error, None)
            if is_last or failed is not None or not (lazy or recorder.lazy):
                break
            recorder.meter.forget()  # the first call of a lazy module only gives it its parameters
        if failed is None:
            named = named_leaves(as_dicts(result))
            tensors = [(name or "output", leaf) for name, leaf in named if isinstance(leaf, torch.Tensor)]
            graph.outputs = tuple((name, recorder.number_of(leaf, "")) for name, leaf in tensors)
            recorder.meter.done(result)
    graph.graph, graph.count, graph.unused = recorder.graph, recorder.modules.count, recorder.modules.unused()
    if "OptimizedModule" in (type(its).__name__, *(node.op for node in recorder.graph.all_nodes())):
        graph.notes.append("compiled modules ran as they are written, without the compiler")
    name_graph(recorder.graph, caller)
    if failed is not None:
        graph.failure = failure(*failed, meta=graph.meta)
    return graph


@contextmanager
def recording_calls(models: Sequence[object], meter: Meter) -> Iterator[CallRecorder]:
    """Reports the calls of torch inside the block to the meter, without those that rfnb makes itself.

    The paths of `models` and of modules outside of them begin with their class. Code for `torch.compile` runs as it is
    written, so that its calls are seen. While the recorder is `quiet`, it reports none.
    """
    recorder = _ModelRecorder(None, None, meter, own=False)
    for model in models:
        if isinstance(model, torch.nn.Module) and not recorder.modules.knows(model):
            recorder.modules.add(model, type(model).__name__)
    with recorder.observing():
        yield recorder


class _ModelRecorder(CallRecorder):
    """Collects what hooks and the mode report.

    model: the module that is called; None for a function. kept: restore what the call changes, after it, and after all
    calls; None: nothing is restored. lazy: whether a module that the function called had no parameters yet. own:
    whether calls are recorded that rfnb makes itself, also in loops.
    """

    tensor_type = torch.Tensor

    def __init__(
        self,
        model: torch.nn.Module | None,
        kept: tuple[ExitStack, ExitStack] | None,
        meter: Meter | None,
        *,
        meta: bool = False,
        own: bool = True,
    ):
        root = None if isinstance(model, torch.jit.ScriptModule) else model  # what TorchScript runs is one node
        super().__init__(root, ModuleTable(_own, _counted, _named_modules), meter)
        if model is not None:
            self.modules.add(model)
        self._kept, self._meta, self.lazy, self.own = kept, meta, False, own
        self._listener = active_listener()
        self.quiet = False  # while it reads tensors itself
        self._thread = get_ident()
        self._open: list[tuple[object, Node | None, int, int]] = []

    def add_value(self, tensor: torch.Tensor) -> Value:
        """Adds a value with the shape of the tensor."""
        value = self.graph.add_value("", ())
        value.dtype = DTYPE_NAMES.get(tensor.dtype, "")
        value.shape = tuple(tensor.shape) if not tensor.is_nested else ()
        return value

    def here(self) -> Source | None:
        """The innermost line outside rfnb and torch."""
        return _here()

    @property
    def in_library(self) -> bool:  # type: ignore[override]
        """Whether torch itself has the class of the innermost open module."""
        return bool(self._open) and type(self._open[-1][0]).__module__.startswith("torch.")

    def ignores(self) -> bool:
        """Whether calls are not recorded now. While a loop is traced, another listener is active."""
        return self.quiet or not (self.own or (active_listener() is self._listener and not loop_runs()))

    def observing(self) -> ExitStack:
        """Observes calls inside. The modules' own hooks run before those of the recorder."""
        stack = ExitStack()
        stack.enter_context(uncompiled())
        stack.callback(register_module_forward_pre_hook(self._before).remove)
        hook = register_module_forward_hook(self._after, with_kwargs=True, always_call=True)
        stack.callback(hook.remove)
        stack.callback(vars(modules).get("_global_forward_hooks_with_kwargs", {}).pop, hook.id, None)  # torch keeps it
        for cls, name in _CALLS:
            _replace(cls, name, self._opaque(vars(cls)[name]), stack)
        stack.enter_context(_FunctionMode(self))
        return stack

    def _opaque(self, method: Any) -> object:
        """A method like this one, whose calls are recorded: functions of TorchScript and of autograd."""
        call = method.__func__ if isinstance(method, classmethod) else method

        @wraps(call)
        def recorded(fn: Any, *args: object, **kwargs: object) -> Any:
            if get_ident() != self._thread or self.ignores() or not (self.own or _is_from_outside()):
                return call(fn, *args, **kwargs)
            self.meter.pause()
            try:
                name = fn.__name__ if isinstance(fn, type) else fn.name
                return self.record(partial(call, fn), name, args, kwargs)
            finally:
                self.meter.resume()

        return classmethod(recorded) if isinstance(method, classmethod) else recorded

    def record(self, fn: Any, name: str, args: Any, kwargs: Any, *, writes: bool = False) -> Any:
        """Calls a function and adds a node for it. writes: whether it changes its first argument in place."""
        body, self.quiet = self.inside[-1][1], True
        node = self.begin(name, self.numbers(args, kwargs))
        changed = kwargs.get("out", args[0] if (writes or kwargs.get("inplace")) and args else None)
        for leaf in leaves(changed):
            self.changes(leaf)
        self.quiet = False
        with self.open(node):
            result = fn(*args, **kwargs)
        self.quiet = True
        for leaf in leaves(changed):
            self.forget(leaf)
        inputs = {key: value for key, value in kwargs.items() if key != "out"}
        self.made(node, result if changed is None else changed, (args, inputs))
        if not node.outputs:
            body.pop()  # it read a size or a number
        self.quiet = False
        return result

    def changes(self, raw: object) -> None:
        """Registers that a tensor will be changed in place; its former values are restored after the call."""
        if not isinstance(raw, torch.Tensor) or unwrapped(raw) is not raw:
            return
        self.meter.changes(raw)
        if self._kept is not None and self.graph.values[self.number_of(raw)].kind:
            keep_numbers(raw, self._kept[0])

    def _before(self, module: torch.nn.Module, args: object) -> None:
        if get_ident() != self._thread or self.ignores():
            return
        self.meter.pause()
        self.quiet = True
        if not self.modules.knows(module):  # a function calls it
            if self._kept is not None:
                stack, longer = self._kept
                self.lazy |= keep_state(module, longer, inside=True)
                keep_state(module, stack, inside=True)
                if self._meta:
                    on_meta([module], (), stack)
            elif len(self.inside) == 1:
                self.modules.add(module, type(module).__name__)
        depth = len(self.inside)
        node = self.begin_module(module, self.numbers(args))
        self._open.append((module, node, depth, len(self.graph.values)))
        self.quiet = False
        if node is not None and node.module is not None:
            self.inside.append((node.module.path, node.body))
            self.meter.enter(node)
        else:
            self.meter.resume()

    def _after(self, module: torch.nn.Module, args: object, *rest: object) -> None:
        """rest: keyword arguments and the result, or only None if the call failed."""
        if get_ident() != self._thread or self.ignores() or not any(opened is module for opened, *_ in self._open):
            return
        opened, node, depth, known = self._open.pop()
        self._end(node)
        self.quiet = True
        while opened is not module:
            opened, node, depth, known = self._open.pop()
        del self.inside[depth:]
        if len(rest) == 2 and node is not None:
            values = self.graph.values  # what the call put into its arguments, such as a cache, is none of its inputs
            node.inputs += tuple(n for n in self.numbers(rest[0]) if n < known or values[n].node is None)
            self.made(node, rest[1], (args, rest[0]))
        elif len(rest) == 1 and (error := sys.exc_info()[1]) is not None:
            self.fail(error, node)
        self.quiet = False
        self.meter.resume()

    def _end(self, node: Node | None) -> None:
        if node is None:
            self.meter.pause()
        else:
            self.meter.exit(node)


class _FunctionMode(TorchFunctionMode):
    """Observes each torch function, but not the calls inside it."""

    def __init__(self, seen: _ModelRecorder):
        super().__init__()
        self._seen = seen

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        recorder, kwargs = self._seen, kwargs or {}
        name, writes = _kind(func)
        if not name or recorder.ignores() or not (recorder.own or _is_from_outside()):
            return func(*args, **kwargs)
        recorder.meter.pause()
        try:
            return recorder.record(func, name, args, kwargs, writes=writes)
        finally:
            recorder.meter.resume()


def _replace(cls: type, name: str, method: object, stack: ExitStack) -> None:
    """Sets a method of a class until the stack ends."""
    stack.callback(setattr, cls, name, vars(cls)[name])
    setattr(cls, name, method)


_CALLS = ((torch.autograd.Function, "apply"), (torch.jit.ScriptFunction, "__call__"))
"""Calls that the mode for torch functions does not see."""


@lru_cache(4096)
def _kind(func: object) -> tuple[str, bool]:
    """The name of the function, "" if it only reads properties; and whether it writes into its first argument."""
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__", "__repr__", "__format__"):
        return "", False
    special = name.startswith("__")
    writes = (name.endswith("_") and not special) or name == "__setitem__" or name.startswith("__i")
    return name.strip("_") if special else name, writes and name not in ("__invert__", "__index__", "__int__")


def _here() -> Source | None:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def _is_from_outside() -> bool:
    """Whether the running torch function was called outside of rfnb, or by a torch module."""
    frame: Any = sys._getframe(2)
    in_module = False
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES[1]):
        in_module = in_module or frame.f_code is torch.nn.Module._call_impl.__code__
        frame = frame.f_back
    return in_module or frame is None or not frame.f_code.co_filename.startswith(PACKAGE)


def _own(module: torch.nn.Module) -> Iterable[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module."""
    if isinstance(module, torch.jit.ScriptModule):  # with those of the modules in it
        return (*module.named_parameters(), *module.named_buffers())
    return ((n, raw) for n, raw in (*module._parameters.items(), *module._buffers.items()) if raw is not None)


def _counted(raw: torch.Tensor) -> tuple[int, bool]:
    return (raw.numel(), raw.requires_grad) if isinstance(raw, torch.nn.Parameter) and not is_lazy(raw) else (0, False)


def _named_modules(root: torch.nn.Module, prefix: str) -> list[tuple[str, torch.nn.Module]]:
    """All modules with their paths, without those that only TorchScript calls."""
    named = list(root.named_modules(prefix=prefix))
    ids = {id(part) for _, module in named if isinstance(module, torch.jit.ScriptModule) for part in _below(module)}
    return [(path, module) for path, module in named if id(module) not in ids]


def _below(module: torch.nn.Module) -> list[torch.nn.Module]:
    return [part for part in module.modules() if part is not module]
