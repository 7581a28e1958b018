"""Gradients of torch tensors, and results that are recomputed in the backward pass instead of kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import get_device_states, set_device_states

from rfnb.backend.base.tape import current_tape
from rfnb.backend.torch.tape import TorchTape
from rfnb.errors import RfError


class Outside:
    """A tensor from outside, and its version when it was read."""

    def __init__(self, raw: torch.Tensor):
        self.raw = raw
        self.version = None if raw.is_inference() else raw._version

    def value(self) -> torch.Tensor:
        """The tensor. Raises RfError if it was changed since."""
        if self.version is not None and self.version != self.raw._version:
            raise RfError(
                "gradient_checkpoint_scope: a tensor was changed in place after it was read",
                got=f"shape {tuple(self.raw.shape)}",
                hint="take the gradient before the change",
            )
        return self.raw


class RepeatableCall:
    """A call that can be repeated. `reads` hold Recomputed and Outside in place of tensors.

    By the index of an output: `wanted`, how often autograd reads it in a backward pass; `left`, how often it still
    will; `values`, recomputed results that are not yet read.
    """

    def __init__(self, number: int, func: Callable[..., object], reads: object):
        self.number = number
        self.func = func
        self.reads = reads
        self.wanted: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.values: dict[int, torch.Tensor] = {}


class Recomputed:
    """An output of a call that is recomputed."""

    def __init__(self, call: RepeatableCall, index: int):
        self.call = call
        self.index = index


class CallRecording(TorchDispatchMode):
    """Records the calls that are deterministic and change nothing."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first call imports torch's compiler, which takes seconds

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.made: dict[
            int, tuple[StorageWeakRef, dict[object, Recomputed]]
        ] = {}  # by storage, which the reference keeps alive

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        """Makes a call."""
        reads = (args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        if func._schema.is_mutable:
            for raw in tree_leaves((reads, result)):
                if isinstance(raw, torch.Tensor):
                    self.made.pop(raw.untyped_storage()._cdata, None)
        elif torch.Tag.nondeterministic_seeded not in func.tags:
            self.note(func, reads, tree_leaves(result))
        return result

    def note(self, func: Callable[..., object], reads: object, results: list[object]) -> None:
        """Stores how `results` were computed."""
        call = RepeatableCall(
            self.calls, func, tree_map(lambda x: self.find(x) if isinstance(x, torch.Tensor) else x, reads)
        )
        self.calls += 1
        for index, raw in enumerate(results):
            if isinstance(raw, torch.Tensor):
                storage = raw.untyped_storage()
                _, views = self.made.setdefault(storage._cdata, (StorageWeakRef(storage), {}))
                views[_view(raw)] = Recomputed(call, index)

    def find(self, raw: torch.Tensor) -> Recomputed | Outside:
        """How a tensor was computed, if a call here did."""
        _, views = self.made.get(raw.untyped_storage()._cdata, (None, {}))
        return views.get(_view(raw)) or Outside(raw)

    def pack(self, raw: torch.Tensor) -> Recomputed | torch.Tensor:
        """The object that autograd keeps instead of a tensor."""
        source = self.find(raw)
        if isinstance(source, Outside):
            return raw
        for counts in (source.call.wanted, source.call.left):
            counts[source.index] = counts.get(source.index, 0) + 1
        return source


def _view(raw: torch.Tensor) -> object:
    return raw.storage_offset(), raw.shape, raw.stride(), raw.dtype


def unpack(kept: Recomputed | torch.Tensor) -> torch.Tensor:
    """The tensor of an object that autograd kept."""
    if isinstance(kept, torch.Tensor):
        return kept
    call, index = kept.call, kept.index
    if index not in call.values:
        _make_again(call)
    raw = call.values[index]
    call.left[index] -= 1
    if not call.left[index]:  # another backward pass may follow
        del call.values[index]
        call.left[index] = call.wanted[index]
    return raw


def _make_again(last: RepeatableCall) -> None:
    """Repeats a call and those that it depends on; keeps the results that autograd will read."""
    calls, new = {last}, [last]
    while new:
        for part in tree_leaves(new.pop().reads):
            if isinstance(part, Recomputed) and part.index not in part.call.values and part.call not in calls:
                calls.add(part.call)
                new.append(part.call)
    results: dict[RepeatableCall, list[object]] = {}

    def value(x: object) -> object:
        if isinstance(x, Recomputed):
            return results[x.call][x.index] if x.call in results else x.call.values[x.index]
        return x.value() if isinstance(x, Outside) else x

    with torch.no_grad():
        for call in sorted(calls, key=lambda call: call.number):
            args, kwargs = tree_map(value, call.reads)
            outputs = results[call] = tree_leaves(call.func(*args, **kwargs))
            call.values.update({index: outputs[index] for index in call.wanted})


@contextmanager
def gradient_checkpoint_scope() -> Iterator[None]:
    """Inside, autograd keeps how tensors were computed instead of the tensors; not while a loop body is traced."""
    if current_tape() is not None:
        yield
        return
    notes = CallRecording()
    with torch.autograd.graph.saved_tensors_hooks(notes.pack, unpack), notes:
        yield
    notes.made.clear()


class KeptNumber(NamedTuple):
    """Stands for one of the tensors that autograd keeps of a function, by their order."""

    number: int
    shape: torch.Size
    dtype: torch.dtype


class RecomputedFunction:
    """A function that runs again in the backward pass, when that reads a value that is not there.

    It does what torch.utils.checkpoint does without reentrance, but does not load torch's compiler.
    """

    def __init__(self, fn: Callable[..., object], args: Sequence[object]):
        self._fn, self._modes = fn, TorchTape.get_modes()
        self._args = [x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in args]
        self._versions = self._versions_now()
        self._random, self._devices = torch.get_rng_state(), get_device_states(*args)
        self._count = 0
        self._values: dict[int, torch.Tensor] = {}

    def _versions_now(self) -> list[int]:
        return [x._version for x in self._args if isinstance(x, torch.Tensor) and not x.is_inference()]

    def pack(self, raw: torch.Tensor) -> KeptNumber:
        """What autograd keeps of the first run."""
        self._count += 1
        return KeptNumber(self._count, raw.shape, raw.dtype)

    def unpack(self, kept: KeptNumber) -> torch.Tensor:
        """The tensor, which another backward pass computes again."""
        if kept.number not in self._values:
            self._run_again()
        raw = self._values.pop(kept.number, None)
        if raw is None or (raw.shape, raw.dtype) != kept[1:]:
            raise RfError(
                "recompute: the steps compute something else when they run again",
                got="no value" if raw is None else f"{raw.dtype} {tuple(raw.shape)}",
                expected=f"{kept.dtype} {tuple(kept.shape)}",
                hint="what the body reads must not change before backward()",
            )
        return raw

    def _run_again(self) -> None:
        if self._versions_now() != self._versions:
            raise RfError("recompute: a state was changed in place after it was read", hint="backward() before that")
        values: list[torch.Tensor] = []

        def note(raw: torch.Tensor) -> torch.Tensor:
            values.append(raw.detach())
            return values[-1]

        with torch.random.fork_rng(self._devices[0]), TorchTape.modes(self._modes, gradients=True):
            torch.set_rng_state(self._random)
            set_device_states(*self._devices)
            with torch.autograd.graph.saved_tensors_hooks(note, lambda raw: raw):
                self._fn(*self._args)
        self._values = dict(enumerate(values, start=1))


class ShiftedGradient(torch.autograd.Function):
    """The identity, whose gradient g becomes scale · g + shift.

    axis: the shift is multiplied by Σ |g| over it. clip: the result is at most as large as the largest |g| over it.
    """

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, *how: object) -> torch.Tensor:
        """Raw itself."""
        ctx.how = how
        return raw.view_as(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> object:
        """scale · gradient + shift, 0 in padding."""
        scale, shift, axis, clip, padding = ctx.how
        [gradient] = gradients
        if padding is not None:
            gradient = gradient.masked_fill(padding, 0)
        if axis is not None:
            shift = shift * gradient.abs().sum(axis, keepdim=True)
        limit = None if clip is None or not gradient.numel() else gradient.abs().amax(clip, keepdim=True)
        gradient = gradient * scale + shift
        gradient = gradient if limit is None else gradient.clamp(-limit, limit)
        gradient = gradient if padding is None else gradient.masked_fill(padding, 0)
        return gradient, *(None for _ in ctx.how)


def shift_gradient(
    raw: torch.Tensor, scale: object, shift: object, axis: int | None, clip: int | None, padding: object
) -> torch.Tensor:
    """A single raw call for recorders of raw calls."""
    if has_torch_function_unary(raw):
        return handle_torch_function(shift_gradient, (raw,), raw, scale, shift, axis, clip, padding)
    return ShiftedGradient.apply(raw, scale, shift, axis, clip, padding)


class ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, factor: object) -> torch.Tensor:
        """Raw itself."""
        ctx.factor = factor
        return raw.view_as(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> object:
        """factor · gradient"""
        return gradients[0] * ctx.factor, None


def scale_gradient(raw: torch.Tensor, factor: object) -> torch.Tensor:
    """A single raw call for recorders of raw calls."""
    if has_torch_function_unary(raw):
        return handle_torch_function(scale_gradient, (raw,), raw, factor)
    return ScaledGradient.apply(raw, factor)


class GradientProbe:
    """Reports the gradients that arrive at some tensors, without keeping them or their graph alive."""

    def __init__(self) -> None:
        self._anchor = torch.zeros((), requires_grad=True)
        self._found: dict[object, torch.Tensor] | None = None  # while gradients are computed

    def __call__(self, raw: torch.Tensor, key: object) -> torch.Tensor:
        """The same tensor, to be used from here on; its gradient is stored under `key`."""
        return ProbedGradient.apply(raw, self._anchor, self, key) if raw.requires_grad else raw

    def see(self, key: object, gradient: torch.Tensor) -> None:
        """Stores a gradient, in the backward pass."""
        if self._found is not None:
            self._found[key] = gradient.detach()

    def gradients(self, loss: torch.Tensor) -> dict[object, torch.Tensor]:
        """The gradients of the sum of `loss`, by key. The graph is kept. Raises RuntimeError if it was freed before."""
        by_key: dict[object, torch.Tensor] = {}
        self._found = by_key
        try:
            torch.autograd.grad(loss.sum(), [self._anchor], retain_graph=True, allow_unused=True)
        finally:
            self._found = None
        return by_key


class ProbedGradient(torch.autograd.Function):
    """The identity, which reports its gradient to a probe. The anchor makes it part of the backward pass."""

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, anchor: torch.Tensor, probe: GradientProbe, key: object) -> torch.Tensor:
        """The tensor itself, but not as a view for autograd, so that it may be changed in place."""
        ctx.told = probe, key
        return raw.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> object:
        """The unchanged gradient."""
        probe, key = ctx.told
        probe.see(key, gradients[0])
        return gradients[0], None, None, None


def reaching(raw: torch.Tensor, sources: Sequence[torch.Tensor]) -> torch.Tensor:
    """The same values, with a gradient of 0 with respect to all sources."""
    if not raw.is_floating_point():
        return raw
    return raw + sum(source.reshape(-1)[:0].sum().to(raw) for source in sources)


class TorchGrad:
    """The raw part of `backend.base.grad`."""

    stop_gradient_raw = staticmethod(torch.Tensor.detach)
    reaching_raw = staticmethod(reaching)
    scaled_gradient_raw = staticmethod(scale_gradient)
    shifted_gradient_raw = staticmethod(shift_gradient)
    gradient_checkpoint_scope = staticmethod(gradient_checkpoint_scope)
    copy_raw = staticmethod(torch.clone)
    new_probe = GradientProbe

    @staticmethod
    def recomputed_raw(fn: Callable[..., object], args: Sequence[object]) -> object:
        """`fn(*args)`, whose values are computed again in the backward pass."""
        again = RecomputedFunction(fn, args)
        with torch.autograd.graph.saved_tensors_hooks(again.pack, again.unpack):
            return fn(*args)

    @staticmethod
    def pull_back_raw(
        ys: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None], xs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        """The gradients with respect to `xs`, from those with respect to `ys`; None without a gradient."""
        outputs = [(y, g) for y, g in zip(ys, gradients, strict=True) if g is not None and _followed(y)]
        inputs = [x for x in xs if _followed(x)]
        if not outputs or not inputs:
            return [None for _ in xs]
        grads = torch.autograd.grad([y for y, _ in outputs], inputs, [g for _, g in outputs], allow_unused=True)
        remaining = iter(grads)
        return [next(remaining) if _followed(x) else None for x in xs]

    @staticmethod
    def follow_gradients_raw(ys: Sequence[torch.Tensor], xs: Sequence[torch.Tensor]) -> None:
        """Runs the backward pass from the sum of `ys` to `xs` for its hooks; gradients are not accumulated.

        The real and the imaginary parts of complex numbers are added up.
        """
        sums = [(torch.view_as_real(y) if y.is_complex() else y).sum() for y in ys]
        torch.autograd.grad(sums, list(xs), allow_unused=True, retain_graph=True)

    @staticmethod
    def gradient_leaves_raw(ys: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The leaves, such as parameters, that gradients of `ys` reach."""
        nodes, visited = [y.grad_fn for y in ys], set[object]()
        leaves = [y for y in ys if y.grad_fn is None]
        while nodes:
            node = nodes.pop()
            if node is None or node in visited:
                continue
            visited.add(node)
            variable = getattr(node, "variable", None)
            leaves += [] if variable is None else [variable]
            nodes += [parent for parent, _ in node.next_functions]
        return leaves

    @staticmethod
    def set_requires_gradient_raw(raw: torch.Tensor) -> None:
        """Sets in place whether a leaf requires a gradient."""
        raw.requires_grad_(True)

    @staticmethod
    def no_gradients() -> AbstractContextManager[object]:
        """Makes constants of what is computed inside. The trial of a loop body has no gradients anyway."""
        return torch.no_grad() if current_tape() is None else nullcontext()

    @staticmethod
    def gradient_raw(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The gradient of the sum of y with respect to x; zeros if y does not depend on x."""
        if not y.requires_grad:
            return torch.zeros_like(x)
        [gradient] = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True, allow_unused=True)
        return torch.zeros_like(x) if gradient is None else gradient


def _followed(raw: object) -> bool:
    return isinstance(raw, torch.Tensor) and raw.requires_grad
