"""A `torch.nn.Module` that mirrors an rfnb module: the same parameters under the same names, and in optimizers."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError
from rfnb.nn.layers.linear import Embedding, Linear
from rfnb.nn.module.module import Module, check_module

if TYPE_CHECKING:
    from rfnb.nn.bridge.to_torch import TorchModule


VERSION = "rfnb_version"
"""Marks the state dicts of mirrors, and the files of rfnb: their weights have the layout of rfnb."""
running: ContextVar[TorchModule | None] = ContextVar("rfnb_running", default=None)
"""The torch module whose rfnb module is being called."""


class MirrorRef:
    """A weak reference from a module to the torch module that mirrors it. It is neither pickled nor copied."""

    __slots__ = ("__weakref__", "_ref")

    def __init__(self, wrapper: TorchModule | None = None):
        self._ref = None if wrapper is None else weakref.ref(wrapper)

    def get(self) -> TorchModule | None:
        """The torch module; None if it no longer exists."""
        return None if self._ref is None else self._ref()

    def calling(self, module: Module) -> TorchModule | None:
        """The torch module that should call `module`, so that its hooks run; None outside of a torch module's call.

        There, `module` takes over what torch replaced. Raises ParameterError for a parameter that torch computes.
        """
        caller, mirror = running.get(), self.get()
        if caller is None and mirror is not None:
            mirror.take_over()
        return None if caller is None or caller.rf_module is module else mirror

    def __reduce__(self) -> tuple[object, ...]:
        return MirrorRef, ()


class FirstCall:
    """Stands for the reference of a module that has no mirror and was not called yet."""

    def get(self) -> None:
        """There is no mirror."""

    def calling(self, module: Module) -> None:
        """Warns if a module of torch calls its attribute `module`, whose parameters torch does not find there."""
        if torch.compiler.is_compiling():
            return
        module._mirror_ref = None
        owner = sys._getframe(2).f_locals.get("self")
        if isinstance(owner, torch.nn.Module) and not isinstance(owner, Mirror):
            _warn_of_hidden(owner, module)


Module._mirror_ref = FirstCall()


def _warn_of_hidden(owner: torch.nn.Module, module: Module) -> None:
    names = [name for name, part in vars(owner).items() if isinstance(part, Module) and module in part.modules()]
    known = {id(raw) for raw in (*owner.parameters(), *owner.buffers())}
    if names and not all(id(parameter._raw) in known for parameter in module.parameters()):
        kind, name = type(owner).__name__, names[0]
        warnings.warn(
            f"{kind}.{name} is an rf.Module, which parameters(), state_dict() and to() of {kind} do not reach. Write "
            f"self.{name} = rf.to_torch(…), and self.{name}.rf_module(…) to call it with Tensors.",
            stacklevel=4,
        )


def mirror_of(module: Module) -> TorchModule | None:
    """The torch module that mirrors `module`; None if there is none."""
    return None if module._mirror_ref is None else module._mirror_ref.get()


def take_over(module: Module) -> None:
    """Gives all modules in `module` the parameters that torch replaced; see `Mirror.take_over`."""
    for part in module.modules():
        if (mirror := mirror_of(part)) is not None:
            mirror.take_over()


def wrapped_module(module: Module) -> torch.nn.Module | None:
    """The torch module inside a module made by `rf.from_torch`; None for other modules."""
    part = vars(module).get("nn_module")
    return part if isinstance(part, torch.nn.Module) else None


class Mirror(torch.nn.Module):
    """Base of torch modules with the parameters, buffers and submodules of `rf_module`, kept the same on both sides."""

    rf_module: Module

    def __init__(self, module: Module, aux_params_as_buffers: bool):
        super().__init__()
        self._aux_as_buffers = aux_params_as_buffers
        self._seen: dict[str, torch.Tensor] = {}  # the raw parameters of the module when last compared
        self._children: dict[str, torch.nn.Module] = {}
        self._belong_to(module)
        self._mirror()

    def _belong_to(self, module: Module) -> None:
        mirror: Any = self
        self.rf_module = module
        if mirror_of(module) is None:
            module._mirror_ref = MirrorRef(mirror)

    def _new_part(self, module: Module) -> torch.nn.Module:
        """A mirror of a submodule that has none yet."""
        raise NotImplementedError

    def _mirror(self) -> None:
        """Takes over parameters and submodules that are new in the rfnb module, or were replaced there."""
        for name, part in list(vars(self.rf_module).items()):
            if isinstance(part, Parameter):
                if self._seen.get(name) is not part._raw:
                    table = self._table(part)
                    if table is self._buffers:  # torch does not accept a `torch.nn.Parameter` as a buffer
                        part._raw = part._raw.detach()
                    table[name] = self._seen[name] = part._raw
            elif isinstance(part, Module):
                mirror = self._modules.get(name)
                if mirror is not self._children.get(name):
                    raise ParameterError(
                        f"to_torch: {name!r} was replaced in the torch module, but {self._get_name()} does not call it",
                        got=type(mirror).__name__,
                        hint=f"replace it in the rfnb module: net.rf_module.{name} = rf.from_torch(…)",
                    )
                if not isinstance(mirror, Mirror) or mirror.rf_module is not part:
                    child = wrapped_module(part)
                    if child is None:  # not `or`: an existing one may be empty, or have no length
                        child = mirror_of(part) or self._new_part(part)
                    self._modules[name] = self._children[name] = child

    def _table(self, parameter: Parameter) -> dict[str, Any]:
        return self._buffers if parameter.auxiliary and self._aux_as_buffers else self._parameters

    def _own_parameters(self) -> Iterator[tuple[str, Parameter, dict[str, Any]]]:
        """The module's own parameters, each with the table in which torch keeps it."""
        for name, part in vars(self.rf_module).items():
            if isinstance(part, Parameter):
                yield name, part, self._table(part)

    def _parts(self) -> Iterator[Mirror]:
        return (module for module in self.modules() if isinstance(module, Mirror))

    def pull(self) -> None:
        """Takes over parameters that torch replaced: `.to(…)`, `load_state_dict(assign=True)`, `fully_shard`."""
        for part in self._parts():
            for name, parameter, table in part._own_parameters():
                if name in table:
                    parameter._raw = part._seen[name] = table[name]

    def take_over(self) -> None:
        """Takes over the module's own parameters that torch replaced.

        Raises ParameterError for one that torch computes in calls of this torch module, from others that it trains.
        """
        parameters = self._parameters
        for name, raw in self._seen.items():
            if parameters.get(name) is raw:
                continue
            new = parameters.get(name, self._buffers.get(name))
            if new is None:
                raise ParameterError(
                    f"{self._get_name()}: torch computes its {name}, but only for calls of the torch module",
                    got=", ".join(path for path, _ in (*self.named_parameters(), *self.named_buffers())),
                    expected=f"the parameter {name!r}",
                    hint="net(…), net.parameters() and net.state_dict() of net = rf.to_torch(model); it is a parameter "
                    "again after torch.nn.utils.parametrize.remove_parametrizations or torch.nn.utils.prune.remove",
                )
            if type(new) is torch.nn.Parameter and new is not raw:
                self.pull()
                return

    def _apply(self, fn: object, recurse: bool = True) -> Mirror:
        super()._apply(fn, recurse)
        self.pull()
        return self

    def _save_to_state_dict(self, destination: object, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None:
            metadata[prefix[:-1]][VERSION] = sys.modules["rfnb"].__version__

    def load_state_dict(self, state_dict: Mapping[str, object], *args: Any, **kwargs: Any) -> object:
        """Loads a state dict, as in torch, and takes over the new parameters."""
        linears = [part.rf_module for part in self._parts() if isinstance(part.rf_module, Linear)]
        modules = getattr(state_dict, "_metadata", None) or {}
        unmarked = modules and not any(VERSION in facts for facts in modules.values())
        square = all(len({dim.dimension for dim in linear.weight.dims}) == 1 for linear in linears)
        if unmarked and linears and square:
            warnings.warn(_OF_TORCH, stacklevel=2)
        result = super().load_state_dict(state_dict, *args, **kwargs)
        self.pull()
        return result

    @contextmanager
    def _bound(self, *, below: bool) -> Iterator[None]:
        """Gives the module torch's current parameters inside the block: sharded ones are complete during a call."""
        changed = []
        for part in self._parts() if below else [self]:
            for name, parameter, table in part._own_parameters():
                raw = table[name] if name in table else getattr(part, name)  # computed by torch's parametrizations
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
        """The `extra_repr` of the rfnb module."""
        return self.rf_module.extra_repr()


_OF_TORCH = (
    "load_state_dict: this may be the state dict of torch modules, whose Linear has a weight {out, in}. It is loaded "
    "as {in, out}. rf.load(state_dict, module) turns weights of torch."
)


@guarded
def torch_parameters(module: Module) -> list[torch.nn.Parameter]:
    """The torch parameters that training changes, as the same objects that `module.to(…)` keeps.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> optimizer = torch.optim.Adam(rf.torch_parameters(model))

    A training step is plain torch:

        loss = model_loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    check_module(module, "torch_parameters")
    take_over(module)
    return [parameter.raw_tensor for parameter in module.parameters() if parameter.trainable]


@guarded
def param_groups(module: Module, *, weight_decay: float) -> list[dict[str, object]]:
    """Parameter groups for an optimizer, in which matrices decay, but biases and scales do not.

    A parameter decays by `Parameter.weight_decay` if that is set; otherwise by `weight_decay` if it has two or more
    dims and is not an embedding. All others, such as those of norms, do not decay:
    `torch.optim.AdamW(rf.param_groups(model, weight_decay=0.01))`.

    >>> feat, out = rf.Dim(2, name="feat"), rf.Dim(3, name="out")
    >>> model = rf.Sequential(rf.Linear(feat, out), rf.LayerNorm(out))
    >>> groups = rf.param_groups(model, weight_decay=0.01)
    >>> [(group["weight_decay"], len(group["params"])) for group in groups]
    [(0.01, 1), (0.0, 3)]
    """
    check_module(module, "param_groups")
    take_over(module)
    groups: dict[float, list[torch.nn.Parameter]] = {}
    ids: set[int] = set()
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            if parameter.trainable and id(parameter) not in ids:
                ids.add(id(parameter))
                groups.setdefault(_decay(parameter, owner, weight_decay), []).append(parameter.raw_tensor)
    return [{"params": raws, "weight_decay": decay} for decay, raws in groups.items()]


def _decay(parameter: Parameter, owner: Module, usual: float) -> float:
    if parameter.weight_decay:
        return parameter.weight_decay
    return 0.0 if len(parameter.dims) < 2 or isinstance(owner, Embedding) else usual
