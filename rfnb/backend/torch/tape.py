"""Takes the tape of torch calls, by a mode that sees each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from rfnb.backend.base.tape import Tape, Var, taking
from rfnb.core.source import here
from rfnb.errors import TraceError

_READERS = {
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "__iter__",
    "is_nonzero", "equal", "allclose", "nonzero",
}  # fmt: skip


_RANDOM = {
    "rand",
    "randn",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli",
    "multinomial",
    "normal",
}


class _Mode(TorchFunctionMode):
    def __init__(self, tape: Tape):
        super().__init__()
        self.tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tape = self.tape
        if tape.paused:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _READERS and args and isinstance(tape.find(args[0]), Var):
            raise _read(name, tape)
        if name == "_set_grad_enabled" and not tape.ops:
            raise TraceError(
                "gradients are switched on or off in the body of a loop, which has no effect on its steps",
                hint="rf.stop_gradient(x); or torch.no_grad() around the whole loop",
            )
        writes = _writes(name, kwargs)
        if writes:
            target = kwargs.get("out", args[0] if args else None)
            if isinstance(target, torch.Tensor) and not isinstance(tape.find(target), Var):
                tape.keep(target, target.detach().clone())
        elif name in _RANDOM and kwargs.get("generator") is None:
            raise TraceError(
                f"torch.{name} in the body of a loop would draw the same numbers at every step",
                hint="rf.random_uniform, rf.random_normal, rf.random draw anew at every step, and can be replayed",
            )
        result = func(*args, **kwargs)
        tape.record(func, args, kwargs, result, writes=writes)
        return result


def _read(name: str, tape: Tape) -> TraceError:
    if not tape.ops:
        return TraceError(
            f"a value is read by `{name}` in the body of a loop, where it is another one at every step",
            hint="use an op instead, or rf.raw_call(fn, *tensors, out_dims=…) for a function that needs values",
        )
    where = here()
    place = f" ({where.place()})" if where else ""
    return TraceError(
        f"{tape.ops[0]}: the size of its result depends on numbers, but in the body{place} they differ at every step",
        hint="do it before the loop, or after it with what loop.stack gives; inside, rf.where keeps the size",
    )


def _writes(name: str, kwargs: dict[str, Any]) -> bool:
    """Whether a function changes its first argument, or `out`."""
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name == "__setitem__" or "out" in kwargs or (name.startswith("__i") and name != "__invert__")


class TorchTape:
    """What a loop needs of torch besides maths."""

    @staticmethod
    def new_tape() -> Tape:
        """An empty tape of torch calls."""
        return Tape(lambda raw: isinstance(raw, torch.Tensor), lambda found: isinstance(found, torch.Generator))

    @staticmethod
    @contextmanager
    def take(tape: Tape) -> Iterator[None]:
        """Torch calls inside are noted on `tape`; the values are those of a trial, without gradients."""
        with taking(tape), torch.no_grad(), _Mode(tape):
            yield

    @staticmethod
    def alias_raw(raw: torch.Tensor) -> torch.Tensor:
        """Another tensor object with the same data."""
        return raw.detach()

    @staticmethod
    def overwrite_raw(raw: torch.Tensor, values: torch.Tensor) -> None:
        """Puts other values into a tensor."""
        with torch.no_grad():
            raw.copy_(values)

    @staticmethod
    def identity_raw(raw: torch.Tensor) -> torch.Tensor:
        """Another tensor object with the same data, through which gradients flow."""
        return raw.view_as(raw)

    @staticmethod
    def frames_raw(raw: torch.Tensor, axis: int) -> tuple[torch.Tensor, ...]:
        """The frames along an axis."""
        return raw.unbind(axis)

    @staticmethod
    def needs_gradient_raw(raw: torch.Tensor) -> bool:
        """Whether gradients flow through it."""
        return raw.requires_grad

    @staticmethod
    def is_finite_raw(raw: torch.Tensor) -> bool:
        """Whether there is no NaN and no infinity."""
        return not raw.dtype.is_floating_point or bool(torch.isfinite(raw.detach().sum()))

    @staticmethod
    def same_raw(a: torch.Tensor, b: torch.Tensor) -> bool:
        """Bit for bit, where NaN equals NaN."""
        return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())

    @staticmethod
    def all_true_raw(raw: torch.Tensor) -> bool:
        """Whether every entry holds."""
        return bool(raw.all())

    @staticmethod
    def snapshot_raw(raw: torch.Tensor) -> torch.Tensor:
        """A copy that later changes do not reach."""
        return raw.detach().clone()

    @staticmethod
    def version_raw(raw: torch.Tensor) -> int:
        """Grows with each change in place."""
        return 0 if raw.is_inference() else raw._version

    @staticmethod
    def is_leaf_raw(raw: torch.Tensor) -> bool:
        """Whether it is a parameter rather than the result of something."""
        return raw.is_leaf and (raw.requires_grad or isinstance(raw, torch.nn.Parameter))

    @staticmethod
    def nbytes_raw(raw: torch.Tensor) -> int:
        """The memory of its entries, in bytes."""
        return raw.element_size() * raw.nelement()

    @staticmethod
    def get_modes() -> dict[str, Any]:
        """The settings that decide how numbers come out: by kind of device, whether there is autocast, and to what."""
        kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        return {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds}

    @staticmethod
    @contextmanager
    def modes(saved: dict[str, Any]) -> Iterator[None]:
        """As it was: the settings from `get_modes`, without gradients."""
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            for kind, (enabled, dtype) in saved.items():
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
            yield
