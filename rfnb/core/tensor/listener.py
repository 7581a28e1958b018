"""Observing ops: a `Listener` sees each call of an op, a module and `rf.cond` in its thread before it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.scope import calling, within

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.op import OpRow
    from rfnb.core.tensor.tensor import Tensor


class Listener:
    """Base class. Each method does what it is about and returns its result; a subclass overrides what it observes.

    outer: the listener that was active before, which sees the same calls; None if there is none to be passed on to.
    takes_kernels: whether kernels may compute several ops at once; attention is then reported by `attention`. Otherwise
    these are computed op by op, so that `call` sees each of them.
    """

    outer: Listener | None = None
    takes_kernels: bool = False

    def call(self, row: OpRow, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Computes an op."""
        return row.fn(*args, **kwargs) if self.outer is None else self.outer.call(row, args, kwargs)

    def call_module(
        self, module: object, forward: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Calls a module; ops inside have its name in their path."""
        if self.outer is not None:
            return self.outer.call_module(module, forward, args, kwargs)
        with calling(module):
            return forward(module, *args, **kwargs)

    def cond(self, pred: Tensor, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> Any:
        """Calls one of the two functions, chosen by a tensor without dims."""
        if self.outer is not None:
            return self.outer.cond(pred, true_fn, false_fn)
        return backend_of_raw(pred._raw).cond(pred, true_fn, false_fn)

    def new_parameter(self, dims: Sequence[Dim]) -> None:
        """Called when a trainable parameter is made."""
        if self.outer is not None:
            self.outer.new_parameter(dims)

    def attention(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        key_dim: Dim,
        axis: Dim,
        causal: Dim | None,
        scale: float,
        bias: Tensor | None,
        result: Tensor,
    ) -> None:
        """Called after a kernel has computed attention. Only a listener that `takes_kernels` gets this call."""


_listener: ContextVar[Listener | None] = ContextVar("rfnb_listener", default=None)
_listening: list[Listener | None] = []  # of all threads: the fast paths test only whether it is empty


def active_listener() -> Listener | None:
    """The listener of this thread."""
    return _listener.get() if _listening else None


def takes_kernels() -> bool:
    """Whether kernels may compute several ops at once: no listener of this thread wants to see each of them."""
    listener = active_listener()
    return listener is None or listener.takes_kernels


class listening:
    """Makes `listener` the active one of this thread inside the block; None: no listener is active there."""

    __slots__ = ("_given", "_token")

    def __init__(self, listener: Listener | None):
        self._given = listener

    def __enter__(self) -> None:
        self._token = _listener.set(self._given)
        _listening.append(self._given)

    def __exit__(self, *error: object) -> None:
        _listening.remove(self._given)
        _listener.reset(self._token)


_loop_runs: ContextVar[bool] = ContextVar("rfnb_loop_runs", default=False)


def loop_runs() -> bool:
    """Whether the steps of a loop are running now, with what is computed before and after them."""
    return _loop_runs.get()


def running_loop() -> AbstractContextManager[None]:
    """Inside the block, the steps of a loop are running: their values are observed by its run, not by a listener."""
    return within(_loop_runs, True)
