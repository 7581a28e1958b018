"""Records the tape of torch calls, with a mode that observes each of them, and copies of the tensors that they see.

Copies lie in memory as the tensors did: those that shared memory share it again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from operator import attrgetter
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from rfnb.backend.base.tape import Stream, Tape, Var, current_tape, taking, untaped
from rfnb.backend.torch.data import unwrapped
from rfnb.backend.torch.random import DRAWS, DROPS, Seeded, drops
from rfnb.core.ground.source import Source, is_users
from rfnb.errors import BackendError, LoopError, TraceError

Raw = torch.Tensor | np.ndarray
Layout = tuple[int, tuple[int, ...]]
"""The address of the first entry, and how many bytes entries are apart on each axis."""
ALIGNMENT = 64
"""How many bytes of an address are kept: the last bits of a sum may depend on where the memory begins."""


def copies(parts: Sequence[tuple[Raw, Layout]]) -> list[Raw]:
    """Copies of tensors and arrays of numpy, each with the layout that it is given.

    Raises BackendError if two tensors that share memory differ in dtype or values.
    """
    results: dict[int, Raw] = {i: _copy(part) for i, (part, _) in enumerate(parts) if 0 in part.shape}
    for start, end, members in _blocks(parts):
        tensors = [part for i in members if isinstance(part := parts[i][0], torch.Tensor)]
        if len({part.dtype for part in tensors}) > 1:
            raise BackendError("variables of different dtypes share memory")
        sample = tensors[0] if tensors else parts[members[0]][0]
        shift = start % ALIGNMENT - start
        memory = torch.empty(end + shift, dtype=torch.uint8, device=_device(sample))
        view = _over(memory, sample, 0, [memory.numel() // sample.itemsize], [1]) if len(members) > 1 else None
        for i in members:
            part, (address, strides) = parts[i]
            results[i] = _part(memory, view, part, address + shift, strides)
            _write(results[i], part)
        if len(members) > 1 and not all(_same(results[i], parts[i][0]) for i in members):
            raise BackendError("variables share memory, and one of them was changed by the name of another one")
    return [results[i] for i in range(len(parts))]


def _blocks(parts: Sequence[tuple[Raw, Layout]]) -> Iterator[tuple[int, int, list[int]]]:
    """Where blocks of memory begin and end, of which no two overlap, and the tensors in each."""
    spans = []
    for number, (part, (address, strides)) in enumerate(parts):
        if 0 not in part.shape:
            reach = [(size - 1) * stride for size, stride in zip(part.shape, strides, strict=True)]
            low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
            spans.append((str(_device(part)), address + low, address + high + part.itemsize, number))
    spans.sort()
    while spans:
        device, start, end, number = spans.pop(0)
        members = [number]
        while spans and spans[0][0] == device and spans[0][1] < end:
            end = max(end, spans[0][2])
            members.append(spans.pop(0)[3])
        yield start, end, members


def _device(part: Raw) -> torch.device:
    return part.device if isinstance(part, torch.Tensor) else torch.device("cpu")


def _over(memory: torch.Tensor, like: Raw, start: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """A tensor of its own, rather than a view, over a part of the memory."""
    if isinstance(like, np.ndarray):
        return None
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    return empty.set_(memory.untyped_storage(), start, shape, strides)


def _part(memory: torch.Tensor, whole: torch.Tensor | None, like: Raw, start: int, strides: Sequence[int]) -> Raw:
    """The part of the memory with a layout; a view of the `whole`, if there is one, so that changes are counted."""
    if isinstance(like, np.ndarray):
        return np.ndarray(like.shape, like.dtype, memory.numpy(), start, tuple(strides))
    size = like.itemsize
    entries = [stride // size for stride in strides]
    if whole is None:
        return _over(memory, like, start // size, like.shape, entries)
    with torch.enable_grad():
        return whole.as_strided(like.shape, entries, start // size)


def _write(to: Raw, values: Raw) -> None:
    """Writes values, also along axes whose entries are the same."""
    if isinstance(to, np.ndarray):
        with np.errstate(all="ignore"):
            to[...] = values
        return
    assert isinstance(values, torch.Tensor)
    once = tuple(slice(None, 1) if stride == 0 else slice(None) for stride in to.stride())
    with torch.no_grad():
        to[once].copy_(values[once])


def _copy(part: Raw) -> Raw:
    return part.clone() if isinstance(part, torch.Tensor) else part.copy()


def _same(a: Raw, b: Raw) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


_READERS = {
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__iter__",
    "is_nonzero", "equal", "allclose", "nonzero",
}  # fmt: skip


LARGE = 2**14
"""Size in bytes from which on a comparison in numpy is faster."""

_DESCRIBE = {"device", "dtype", "is_leaf", "layout", "ndim", "requires_grad", "shape"}
_DESCRIBING = {
    "dim", "element_size", "is_complex", "is_contiguous", "is_floating_point", "nelement", "numel", "size", "stride",
}  # fmt: skip
"""Properties of a tensor, and methods, that give no tensor and read none of its numbers."""


@cache
def _kinds() -> list[str]:
    """The kinds of available devices."""
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class _TapeMode(TorchFunctionMode):
    """Records torch calls inside on `tape`. The values are those of a trial, without gradients."""

    def __init__(self, tape: Tape):
        super().__init__()
        self.tape = tape
        self.inference = torch.is_inference_mode_enabled()

    def __enter__(self) -> None:
        tape, entry, outer = self.tape, _autocast(), current_tape()
        self._had_gradients, self._contexts = torch.is_grad_enabled(), (untaped(), taking(tape))
        tape.gradients = self._had_gradients if outer is None else outer.gradients
        tape.settings = lambda: None if (context := _autocast()) == entry else partial(_Under, context)
        for context in self._contexts:
            context.__enter__()
        torch.set_grad_enabled(False)
        super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_grad_enabled(self._had_gradients)
        for context in reversed(self._contexts):
            context.__exit__(*error)

    def __torch_function__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        tape = self.tape
        if tape.paused:
            return func(*args, **kwargs)
        kind = _KINDS.get(func)
        if kind is None:
            if len(_KINDS) > 4096:
                _KINDS.clear()
            kind = _KINDS[func] = _Kind(func)
        if kind.describes:
            return func(*args, **kwargs)
        if kind.plain and not kwargs and tape.ops:
            result = func(*args)
            tape.record(func, args, {}, result)
            return result
        name = kind.name
        if kind.reads and args and isinstance(tape.find(args[0]), Var):
            raise _read(name, tape)
        is_switch = name == "_set_grad_enabled" and not _of_compiler()
        if not tape.ops and (is_switch or torch.is_inference_mode_enabled() is not self.inference):
            raise _of_module() or TraceError(
                "switching gradients on or off in the body of a loop has no effect on its steps",
                hint="rf.stop_gradient(x); or torch.no_grad() around the whole loop",
            )
        writes = kind.writes or "out" in kwargs or bool(kwargs.get("inplace"))
        if writes:
            target = kwargs.get("out", args[0] if args else None)
            if isinstance(target, torch.Tensor) and target.requires_grad and target.is_leaf and tape.gradients:
                raise _written()
            if isinstance(target, torch.Tensor) and (tape.trial or not isinstance(tape.find(target), Var)):
                tape.keep(target, target.detach().clone())
        if kind.random and not isinstance(tape.find(kwargs.get("generator")), Stream):
            raise _drawn(name)
        if kind.gradient:
            raise TraceError(
                f"torch: `{name}` is called in the body of a loop, which is traced without gradients",
                hint="compute it after the loop, from the result of the loop; or rf.raw_call(torch.func.grad(fn), …)",
            )
        if kind.drops and tape.new_stream is not None and drops(name, args, kwargs):
            func = Seeded(func)
            kwargs = {**kwargs, "seeded_by": tape.new_stream(str(args[0].device))}
        result = func(*args, **kwargs)
        tape.record(func, args, kwargs, result, writes=writes)
        return result


def _of_compiler() -> bool:
    """Whether torch.compile, which sees the functions that a body calls, keeps its own setting of gradients."""
    frame: FrameType | None = sys._getframe(2).f_back
    while frame is not None and (module := str(frame.f_globals.get("__name__"))).startswith("torch."):
        if module.startswith("torch._dynamo"):
            return True
        frame = frame.f_back
    return False


def _written() -> LoopError:
    return _of_module() or TraceError(
        f"a trainable tensor is changed in the body of a loop{_place()}", hint="change it before the loop, or after it"
    )


def _of_module() -> LoopError | None:
    """The error for a module of torch that is being made; None if torch is not setting the values of one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "torch.nn.init":
        frame = frame.f_back
    return frame and LoopError(
        f"a module of torch is made in the body of a loop{_place()}", hint="make it before the loop"
    )


def _place() -> str:
    """The line of the user's code that runs now, also of a module of torch that it makes."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    return "" if frame is None else f" ({Source(frame.f_code, frame.f_lasti).place()})"


def _drawn(name: str) -> LoopError:
    return _of_module() or TraceError(
        f"torch.{name} in the body of a loop would draw the same numbers at every step",
        hint="rf.random_uniform, rf.random_normal, rf.random draw new numbers at every step and can be replayed; "
        "parameters are made before the loop",
    )


def _read(name: str, tape: Tape) -> TraceError:
    if not tape.ops:
        return TraceError(
            f"`{name}` reads a value in the body of a loop, where it is different at every step",
            hint="use an op instead, or rf.raw_call(fn, *tensors, out_dims=…) for a function that needs values",
        )
    return TraceError(
        f"{tape.ops[0]}: the size of the result depends on values, which differ at every step of the body{_place()}",
        hint="do this before the loop, or after it with the result of loop.stack; rf.where keeps the size",
    )


class _Kind:
    """Properties of a torch function, by its name."""

    def __init__(self, func: Any):
        name = self.name = getattr(func, "__name__", "")
        is_property = name == "__get__" and getattr(func.__self__, "__name__", "") in _DESCRIBE
        self.describes = is_property or name in _DESCRIBING
        self.reads, self.random, self.drops = name in _READERS, name in DRAWS, name in DROPS
        self.gradient = func in (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
        in_place = name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
        self.writes = in_place or name == "__setitem__" or (name.startswith("__i") and name != "__invert__")
        self.plain = not (self.reads or self.random or self.drops or self.gradient or self.writes)  # without arguments


_KINDS: dict[object, _Kind] = {}


_Autocast = tuple[tuple[str, bool, torch.dtype], ...]
_OFF: _Autocast = (("cpu", False, torch.bfloat16), ("cuda", False, torch.float16))


def _autocast(is_on: Callable[[str], bool] = torch.is_autocast_enabled) -> _Autocast | None:
    """The current autocast settings; None if it is off."""
    if not (is_on("cpu") or is_on("cuda")):
        return None
    return tuple((kind, is_on(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda"))


class _Under:
    """A function that runs under the autocast settings of its call in the body."""

    def __init__(self, modes: _Autocast | None, fn: Callable[..., object]):
        self._modes, self._fn = modes or _OFF, fn

    def __call__(self, *args: object, **kwargs: object) -> Any:
        with ExitStack() as stack:
            for kind, enabled, dtype in self._modes:
                if enabled or torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
            return self._fn(*args, **kwargs)


def scan_raw(step: Callable[[Any, Any], tuple[Any, Any]], states: Sequence[Any], frames: Sequence[Any]) -> Any:
    """The states after all steps, and the outputs of each; in a graph that torch traces, as one call.

    frames: tensors [steps, …]. step: from states and frames of one step to the next states and outputs.
    """
    from torch._higher_order_ops.scan import scan

    def one_step(states: list[Any], frames: list[object]) -> tuple[list[object], list[object]]:
        states, outputs = step(states, frames)
        return [_own(raw) for raw in states], [_own(raw) for raw in outputs]  # no two may share memory

    if not torch.compiler.is_compiling():
        rows = []
        for values in zip(*[raw.unbind(0) for raw in frames], strict=True):
            states, outputs = step(states, values)
            rows.append(outputs)
        return states, [torch.stack(column) for column in zip(*rows, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of what it does itself
        return scan(one_step, [_own(state) for state in states], list(frames), dim=0)


def _own(raw: torch.Tensor) -> torch.Tensor:
    return raw.clone(memory_format=torch.contiguous_format)


def _is_compiling() -> bool:
    """Whether torch.compile looks at the functions that are called now."""
    callback = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", None)  # since torch 2.6
    return callback is None or callback() not in (None, False)


@cache
def _disabled(dynamo: Any) -> Callable[[Callable[[], object]], object]:
    """A function that calls another one, out of the reach of torch.compile."""
    wrapper: Callable[[Callable[[], object]], object] = dynamo.disable(lambda run: run())
    return wrapper


_ODD = ("__tensor_flatten__", "fake_mode")
_TYPES = (value for value in vars(torch).values() if isinstance(value, torch.dtype))
_ODD_TYPES = frozenset(value for value in _TYPES if str(value).startswith(("torch.float8", "torch.float4", "torch.q")))
_STRIDED, _Tensor = torch.strided, torch.Tensor
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def _is_odd(raw: torch.Tensor) -> bool:
    """Whether it is not a dense tensor of numbers: quick, as it is asked for each value of a recorded loop."""
    if raw.layout is not _STRIDED or raw.is_meta or raw.is_nested or raw.dtype in _ODD_TYPES or _is_wrapped(raw):
        return True
    return type(raw) is not torch.Tensor and any(hasattr(raw, name) for name in _ODD)


class TorchTape:
    """The functions of torch that a loop needs to record a tape and replay it."""

    @staticmethod
    def new_tape() -> Tape:
        """An empty tape of torch calls."""
        return Tape(torch.Tensor, torch.Generator)

    take = _TapeMode

    @staticmethod
    def uncompiled(run: Callable[[], object]) -> object:
        """The result of `run`, of which torch.compile compiles nothing: loops share generated code."""
        dynamo = sys.modules.get("torch._dynamo")  # loaded if anything is compiled
        return run() if dynamo is None or not _is_compiling() else _disabled(dynamo)(run)

    @staticmethod
    def unobserved() -> AbstractContextManager[object]:
        """A context whose calls no mode and no subclass of a tensor sees."""
        functions: AbstractContextManager[object] = torch._C.DisableTorchFunction()
        if not torch._C._len_torch_dispatch_stack():
            return functions
        stack = ExitStack()
        stack.enter_context(functions)
        stack.enter_context(_disable_current_modes())
        return stack

    is_observed = staticmethod(torch._C._len_torch_function_stack)
    """How many modes see functions and attributes of all tensors, if that is not switched off."""

    @staticmethod
    def alias_raw(raw: torch.Tensor) -> torch.Tensor:
        """Another tensor object with the same data."""
        return raw.detach()

    @staticmethod
    def overwrite_raw(raw: torch.Tensor, values: torch.Tensor) -> None:
        """Overwrites the values of a tensor."""
        with torch.no_grad():
            raw.copy_(values)

    @staticmethod
    def identity_raw(raw: torch.Tensor) -> torch.Tensor:
        """Another tensor object with the same data, through which gradients flow."""
        return raw.view_as(raw)

    scan_raw = staticmethod(scan_raw)

    @staticmethod
    def apart_raw(raws: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors, with a copy of those that share memory with one before them, which `scan` refuses."""
        storages = [raw.untyped_storage()._cdata for raw in raws]
        return [_own(raw) if storages[i] in storages[:i] else raw for i, raw in enumerate(raws)]

    needs_gradient_raw = staticmethod(attrgetter("requires_grad"))
    """Whether gradients flow through it."""

    @staticmethod
    def is_finite_raw(raw: torch.Tensor) -> bool:
        """Whether there is no NaN and no infinity."""
        return not (raw.is_floating_point() or raw.is_complex()) or bool(torch.isfinite(raw.detach().sum()))

    @staticmethod
    def is_readable_raw(raw: torch.Tensor) -> bool:
        """Whether it is a dense tensor whose numbers can be read."""
        return not _is_odd(raw)

    @staticmethod
    def counted_version_raw(raw: torch.Tensor) -> int | None:
        """The version of a dense tensor without gradients that counts changes in place; None for others."""
        return None if raw.requires_grad or raw.is_inference() or _is_odd(raw) else raw._version

    @staticmethod
    def plain_version_raw(value: object) -> tuple[int, int, bool] | None:
        """The version of a tensor that can be kept by reference, its bytes, and whether it has an autograd graph; None
        for others, which need a closer look, such as small parts of large tensors, and for all other values.
        """
        if type(value) is not _Tensor or value.layout is not _STRIDED or value.is_meta or value.is_nested:
            return None
        if value.dtype in _ODD_TYPES or _is_wrapped(value) or (value._is_view() and TorchTape.keeps_more_raw(value)):
            return None
        has_graph = value.requires_grad
        if has_graph and value.is_leaf:
            return None
        try:
            return value._version, value.nbytes, has_graph
        except RuntimeError:  # of inference mode
            return None

    current_version_raw = staticmethod(attrgetter("_version"))
    """The version of a tensor that has a `counted_version_raw`."""

    @staticmethod
    def same_raw(a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether two tensors are bitwise equal, where NaN equals NaN."""
        if a.shape != b.shape:
            return False
        if a.dtype == b.dtype and torch.equal(a, b):  # which needs no memory
            return True
        return bool(((a == b) | ((a != a) & (b != b))).all())

    @staticmethod
    def all_true_raw(raw: torch.Tensor) -> bool:
        """Whether all entries are true."""
        if torch.compiler.is_exporting():
            raise LoopError(
                "to_torch: the model is traced, but has a loop that ends by a condition, without frames",
                expected="a loop over the frames of the arguments, whose number bounds the steps",
                hint="rf.Loop(axis=time)",
            )
        return bool(raw.all())

    @staticmethod
    def snapshot_raw(raw: torch.Tensor) -> torch.Tensor:
        """A copy that later changes do not reach."""
        return raw.detach().clone()

    @staticmethod
    def layout_raw(raw: torch.Tensor) -> tuple[int, tuple[int, ...]]:
        """The address of the first entry, and how many bytes entries are apart on each axis."""
        size = raw.element_size()
        return raw.data_ptr(), tuple(stride * size for stride in raw.stride())

    copies_raw = staticmethod(copies)

    @staticmethod
    def version_raw(raw: torch.Tensor) -> int:
        """A counter of changes in place."""
        return 0 if raw.is_inference() else raw._version

    @staticmethod
    def counts_changes_raw(raw: torch.Tensor) -> bool:
        """Whether `version_raw` counts changes in place: not for tensors of inference mode."""
        return not raw.is_inference()

    @staticmethod
    def hides_changes(value: Any) -> bool:
        """Whether an object writes tensors so that `version_raw` does not count it: a fused optimizer."""
        is_optimizer = issubclass(type(value), torch.optim.Optimizer)
        return is_optimizer and any(group.get("fused") for group in value.param_groups)

    @staticmethod
    def is_leaf_raw(raw: torch.Tensor) -> bool:
        """Whether it is a parameter rather than the result of something."""
        return raw.is_leaf and (raw.requires_grad or isinstance(raw, torch.nn.Parameter))

    @staticmethod
    def nbytes_raw(raw: torch.Tensor) -> int:
        """The memory of the entries, in bytes."""
        return raw.element_size() * raw.nelement()

    @staticmethod
    def equal_raw(a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether two tensors are equal in all entries."""
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.nbytes < LARGE or a.nbytes % 8 or not (a.is_cpu and a.is_contiguous() and b.is_contiguous()):
            return torch.equal(a, b)
        words, other_words = (raw.detach().view(-1).view(torch.uint8).numpy().view("int64") for raw in (a, b))
        return bool((words == other_words).all())  # several times faster

    @staticmethod
    def sample_raw(raw: torch.Tensor) -> torch.Tensor:
        """A copy of a few hundred entries, to detect changes that `version_raw` misses: those by fused optimizers,
        and writes to `.data`."""
        flat = raw.detach().reshape(-1)
        return flat[:: max(flat.numel() // 256, 1)].clone()

    @staticmethod
    def keeps_more_raw(raw: torch.Tensor) -> bool:
        """Whether it is a small part of a large tensor, which it keeps alive."""
        return raw._is_view() and raw.untyped_storage().nbytes() > 2 * raw.nbytes + LARGE

    is_on_host_raw = staticmethod(attrgetter("is_cpu"))
    """Whether it is in the memory of the CPU."""

    @staticmethod
    def spare_memory_raw(raw: torch.Tensor) -> int:
        """The bytes that are free on its accelerator, also those that torch has reserved; many where nobody knows."""
        if not raw.is_cuda:
            return 2**40
        reserved = torch.cuda.memory_reserved(raw.device) - torch.cuda.memory_allocated(raw.device)
        return torch.cuda.mem_get_info(raw.device)[0] + reserved

    @staticmethod
    def storage_raw(raw: torch.Tensor) -> tuple[object, int]:
        """The storage that the tensor keeps alive, of which it may use a part: its key, and its bytes."""
        raw = unwrapped(raw)
        if raw.layout is torch.sparse_coo:
            return id(raw), raw._indices().nbytes + raw._values().nbytes
        try:
            storage = raw.untyped_storage()
            return (storage.data_ptr(), raw.device.index), storage.nbytes()
        except (NotImplementedError, RuntimeError):  # other layouts have none
            return id(raw), raw.numel() * raw.element_size()

    @staticmethod
    def get_modes() -> dict[str, Any]:
        """The settings that affect results: whether gradients are recorded, and the autocast dtype of each kind of
        device, if autocast is on.
        """
        autocast = {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _kinds()}
        return {"gradients": torch.is_grad_enabled(), "autocast": autocast}

    @staticmethod
    @contextmanager
    def modes(saved: dict[str, Any], *, gradients: bool | None = None) -> Iterator[None]:
        """Restores the settings of `get_modes` inside; `gradients` overrides whether gradients are recorded."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(saved["gradients"] if gradients is None else gradients))
            for kind, (enabled, dtype) in saved["autocast"].items():
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
            yield
