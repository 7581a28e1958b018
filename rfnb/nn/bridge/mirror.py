"""A `torch.nn.Module` with the parts of an rfnb module: the same parameters under the same names."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError
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


def twin_of(module: Module) -> Any:
    """The torch module of a module, if somebody holds one."""
    return None if module._twin is None else module._twin.get()


def inside_of(module: Module) -> torch.nn.Module | None:
    """The torch module in what `rf.from_torch` made."""
    found = vars(module).get("nn_module")
    return found if isinstance(found, torch.nn.Module) else None


class Mirror(torch.nn.Module):
    """Parameters, buffers and submodules of `rf_module`, whoever of both replaces them."""

    rf_module: Module

    def __init__(self, module: Module, aux_params_as_buffers: bool):
        super().__init__()
        self._aux_as_buffers = aux_params_as_buffers
        self._seen: dict[str, torch.Tensor] = {}  # the raw parameters that the module had, as known here
        self._children: dict[str, torch.nn.Module] = {}
        self._belong_to(module)
        self._mirror()

    def _belong_to(self, module: Module) -> None:
        this: Any = self
        self.rf_module = module
        if twin_of(module) is None:
            module._twin = Twin(this)

    def _new_part(self, module: Module) -> torch.nn.Module:
        """What mirrors a module below that nobody mirrors yet."""
        raise NotImplementedError

    def _mirror(self) -> None:
        """Takes parameters and modules that are new in the module, or were replaced there."""
        for name, part in list(vars(self.rf_module).items()):
            if isinstance(part, Parameter):
                if self._seen.get(name) is not part._raw:
                    table = self._table(part)
                    if table is self._buffers:  # torch takes a `torch.nn.Parameter` for none
                        part._raw = part._raw.detach()
                    table[name] = self._seen[name] = part._raw
            elif isinstance(part, Module):
                known = self._modules.get(name)
                if known is not self._children.get(name):
                    raise ParameterError(
                        f"to_torch: {name!r} was replaced in the torch module, which {self._get_name()} does not call",
                        got=type(known).__name__,
                        hint=f"net.rf_module.{name} = rf.from_torch(…): replace it there",
                    )
                if not isinstance(known, Mirror) or known.rf_module is not part:
                    child = inside_of(part)
                    if child is None:  # one that is there may be empty, or not tell its length
                        child = twin_of(part) or self._new_part(part)
                    self._modules[name] = self._children[name] = child

    def _table(self, parameter: Parameter) -> dict[str, Any]:
        return self._buffers if parameter.auxiliary and self._aux_as_buffers else self._parameters

    def _own(self) -> Iterator[tuple[str, Parameter, dict[str, Any]]]:
        """Its own parameters, and the table where torch has them."""
        for name, part in vars(self.rf_module).items():
            if isinstance(part, Parameter):
                yield name, part, self._table(part)

    def _parts(self) -> Iterator[Mirror]:
        return (module for module in self.modules() if isinstance(module, Mirror))

    def pull(self) -> None:
        """What torch replaced (`.to(…)`, `load_state_dict(assign=True)`, `fully_shard`), the module has from now on."""
        for part in self._parts():
            for name, parameter, table in part._own():
                if name in table:
                    parameter._raw = part._seen[name] = table[name]

    def _apply(self, fn: Any, recurse: bool = True) -> Mirror:
        super()._apply(fn, recurse)
        self.pull()
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As that of torch."""
        result = super().load_state_dict(*args, **kwargs)
        self.pull()
        return result

    @contextmanager
    def _bound(self, *, below: bool) -> Iterator[None]:
        """Inside, the module has the parameters that torch has now: sharded ones are whole during a call."""
        changed = []
        for part in self._parts() if below else [self]:
            for name, parameter, table in part._own():
                raw = table[name] if name in table else getattr(part, name)  # what `parametrizations` make
                if parameter._raw is not raw:
                    changed.append((parameter, parameter._raw))
                    parameter._raw = raw
        try:
            yield
        finally:
            for parameter, raw in reversed(changed):
                parameter._raw = raw

    def _get_name(self) -> str:
        return type(self.rf_module).__name__

    def extra_repr(self) -> str:
        """As the module says it."""
        return self.rf_module.extra_repr()
