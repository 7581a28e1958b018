"""From a module to the `torch.nn.Module` that mirrors it, and which of those is running."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rfnb.nn.module.module import Module

if TYPE_CHECKING:
    from rfnb.nn.bridge.to_torch import TorchModule

running: ContextVar[TorchModule | None] = ContextVar("rfnb_running", default=None)
"""The torch module whose rfnb module is called now."""


class Twin:
    """The torch module of a module, as long as somebody holds it. It neither travels nor is copied."""

    __slots__ = ("__weakref__", "_ref")

    def __init__(self, wrapper: TorchModule | None = None):
        self._ref = None if wrapper is None else weakref.ref(wrapper)

    def get(self) -> TorchModule | None:
        """The torch module, if it is alive."""
        return None if self._ref is None else self._ref()

    def takes(self, module: Module) -> TorchModule | None:
        """Who is to make the call of `module`: its torch module, inside the call of another one, so that hooks run."""
        caller = running.get()
        return None if caller is None or caller.rf_module is module else self.get()

    def __reduce__(self) -> Any:
        return Twin, ()
