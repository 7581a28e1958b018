"""Intermediate results that are recomputed in the backward pass instead of kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from rfnb.backend.base.tape import current_tape
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

    def __init__(self, number: int, func: Any, reads: Any):
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

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.made: dict[
            int, tuple[StorageWeakRef, dict[Any, Recomputed]]
        ] = {}  # by storage, which the reference keeps alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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

    def note(self, func: Any, reads: Any, results: list[Any]) -> None:
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


def _view(raw: torch.Tensor) -> Any:
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
    results: dict[RepeatableCall, list[Any]] = {}

    def value(x: Any) -> Any:
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
