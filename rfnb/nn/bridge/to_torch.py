"""An rfnb module as a `torch.nn.Module`: the same parameters under the same names."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from rfnb.core.parameter import Parameter
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.errors import ParameterError
from rfnb.nn.bridge.boundary import Inputs, Outputs, raws_of
from rfnb.nn.bridge.symbolic import sizes_restored
from rfnb.nn.bridge.twin import Twin, is_inside, routed, running
from rfnb.nn.module import Module


def to_torch(
    module: Module | torch.nn.Module, *, in_dims: Any = None, out_dims: Any = None, aux_params_as_buffers: bool = True
) -> torch.nn.Module:
    """The module as a `torch.nn.Module`, for DDP, `torch.compile`, and all else that takes one.

    Its parameters are the same objects, its submodules and the names in its `state_dict` are the attributes of
    `module`; auxiliary parameters are buffers. `.train()` and `.eval()`, of it or of a part, set the train flag for
    the call, and hooks run for each part. `.rf_module` is `module`.

    >>> batch, time = rf.batch_dim, rf.Dim(None, name="time")
    >>> feat, hidden = rf.Dim(3, name="feat"), rf.Dim(2, name="hidden")
    >>> linear = rf.Linear(feat, hidden)
    >>> net = rf.to_torch(linear, in_dims=[[batch, time, feat]], out_dims=[batch, time, hidden])
    >>> y, lengths = net(torch.ones(2, 5, 3), torch.tensor([5, 3]))
    >>> y.shape, lengths.tolist(), list(net.state_dict())
    (torch.Size([2, 5, 2]), [5, 3], ['weight', 'bias'])
    >>> net.weight is linear.weight.raw_tensor, rf.from_torch(net) is linear
    (True, True)

    Args:
        module: of rfnb; one that `rf.from_torch` made gives back its torch module.
        in_dims: None: arguments go to the module as they are. Else the dims of each argument, by position or by name;
            a template (`rf.Tensor("labels", [batch, time], "int64", sparse_dim=vocab)`) tells more, and a Dim is given
            to the module as it is. The call then takes raw tensors and, behind them, the lengths of dims without a
            size, but for the first of an argument, in the order in which they appear; or `lengths={"time": …}`.
            Without lengths there is no padding.
        out_dims: None: raw tensors in the structure of the result, their axes as they come, and lengths for Dims. Else
            the dims of the result, or of each, in the order that the raw tensor is to have; lengths follow if there are
            dims without a size that are not the first: of one dim as they are, of several by name.
        aux_params_as_buffers: if False, they are parameters that are not trained.
    """
    if isinstance(module, torch.nn.Module):
        return module
    plain = inside_of(module)
    if plain is not None and in_dims is None and out_dims is None:
        return plain
    inputs = None if in_dims is None else Inputs(in_dims)
    outputs = None if out_dims is None else Outputs(out_dims)
    found = twin_of(module)
    if found is not None and found.is_like(inputs, outputs, aux_params_as_buffers):
        return found
    return TorchModule(module, inputs, outputs, aux_params_as_buffers)


def rf_module_to_pt_module(rf_module: Module, *, aux_params_as_buffers: bool = True) -> torch.nn.Module:
    """`rf.to_torch(rf_module)`

    >>> rf.rf_module_to_pt_module(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))).weight.shape
    torch.Size([3, 2])
    """
    return to_torch(rf_module, aux_params_as_buffers=aux_params_as_buffers)


def twin_of(module: Module) -> TorchModule | None:
    """The torch module of a module, if somebody holds one."""
    return None if module._twin is None else module._twin.get()


def inside_of(module: Module) -> torch.nn.Module | None:
    """The torch module in what `rf.from_torch` made."""
    found = vars(module).get("nn_module")
    return found if isinstance(found, torch.nn.Module) else None


class TorchModule(torch.nn.Module):
    """What `rf.to_torch` gives."""

    rf_module: Module

    def __init__(self, module: Module, inputs: Inputs | None, outputs: Outputs | None, aux_params_as_buffers: bool):
        super().__init__()
        self._inputs, self._outputs = inputs, outputs
        self._aux_as_buffers = aux_params_as_buffers
        self._seen: dict[str, torch.Tensor] = {}  # the raw parameters that the module had, as known here
        self._children: dict[str, torch.nn.Module] = {}
        self._belong_to(module)
        self._mirror()

    def _belong_to(self, module: Module) -> None:
        self.rf_module = module
        if twin_of(module) is None:
            module._twin = Twin(self)
        this: Any = weakref.ref(self)
        # Not decorators of the class: they import the compiler of torch, which takes as long as torch itself.
        self._in_graph = torch._dynamo.nonstrict_trace(lambda *args: this()._call_in_graph(*args))
        self._outside_of_graphs = torch.compiler.disable(
            lambda *args, **kwargs: this().forward(*args, **kwargs),
            reason="rfnb: only a model that was bridged with `in_dims` can be compiled",
        )

    def is_like(self, *options: Any) -> bool:
        """Whether it was made with these options."""
        return options == (self._inputs, self._outputs, self._aux_as_buffers)

    # -- the same parts as the module

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
                if not isinstance(known, TorchModule) or known.rf_module is not part:
                    child = inside_of(part)
                    if child is None:  # one that is there may be empty, or not tell its length
                        child = twin_of(part) or TorchModule(part, None, None, self._aux_as_buffers)
                    self._modules[name] = self._children[name] = child

    def _table(self, parameter: Parameter) -> dict[str, Any]:
        return self._buffers if parameter.auxiliary and self._aux_as_buffers else self._parameters

    def _own(self) -> Iterator[tuple[str, Parameter, dict[str, Any]]]:
        """Its own parameters, and the table where torch has them."""
        for name, part in vars(self.rf_module).items():
            if isinstance(part, Parameter):
                yield name, part, self._table(part)

    def _parts(self) -> Iterator[tuple[str, TorchModule]]:
        for path, module in self.named_modules(remove_duplicate=False):
            if isinstance(module, TorchModule):
                yield f"{path}." if path else "", module

    def pull(self) -> None:
        """What torch replaced (`.to(…)`, `load_state_dict(assign=True)`, `fully_shard`), the module has from now on."""
        for _, part in self._parts():
            for name, parameter, table in part._own():
                if name in table:
                    parameter._raw = part._seen[name] = table[name]

    def _apply(self, fn: Any, recurse: bool = True) -> TorchModule:
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
        for part in [part for _, part in self._parts()] if below else [self]:
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

    # -- the call

    def forward(self, *args: Any, lengths: Any = None, **kwargs: Any) -> Any:
        """The call of the module: from raw tensors and lengths if there are `in_dims`, and to raw tensors."""
        if torch.compiler.is_dynamo_compiling():
            if self._inputs is None:
                return self._outside_of_graphs(*args, lengths=lengths, **kwargs)
            raws: dict[str, Any] = dict(self.named_parameters(remove_duplicate=False))
            raws.update(self.named_buffers(remove_duplicate=False))
            flags = [module.training for module in self.modules()]  # read here, so that another one compiles again
            more = {} if lengths is None else {"lengths": lengths}
            return self._in_graph(raws, flags, args, kwargs, more)
        if is_inside(self):
            kwargs = kwargs if lengths is None else {**kwargs, "lengths": lengths}
            with self._bound(below=bool(self._forward_pre_hooks)):
                return self._run(args, kwargs)
        for _, part in self._parts():
            part._mirror()
        return self._call(args, kwargs, lengths, traced=torch.compiler.is_exporting())

    def _call(self, args: Any, kwargs: dict[str, Any], lengths: Any, *, traced: bool) -> Any:
        with ExitStack() as stack:
            stack.enter_context(self._bound(below=True))
            if traced:
                stack.enter_context(entered(get_run_ctx().again()))
                stack.enter_context(sizes_restored())
            if self._inputs is not None:
                args, kwargs = self._inputs.tensors(args, kwargs, lengths, traced=traced)
            elif lengths is not None:
                kwargs = {**kwargs, "lengths": lengths}
            result = self._run(args, kwargs)
            return raws_of(result) if self._outputs is None else self._outputs.raws(result)

    def _call_in_graph(self, raws: dict[str, Any], flags: Any, args: Any, kwargs: dict[str, Any], more: Any) -> Any:
        """The call while torch.compile traces it: with stand-ins for all tensors, of sizes that are symbols."""
        tables = [
            (f"{path}." if path else "", table, dict(table))
            for path, module in self.named_modules(remove_duplicate=False)
            for table in (module._parameters, module._buffers)
        ]
        try:
            for path, table, before in tables:
                table.update({name: raws[path + name] for name, raw in before.items() if raw is not None})
            return self._call(args, kwargs, more.get("lengths"), traced=True)
        finally:
            for _, table, before in tables:
                table.update(before)

    def call_inside(self, args: Any, kwargs: Any) -> Any:
        """The call as a part of a larger model, with all hooks: of Tensors, to Tensors."""
        with routed(self):
            return self(*args, **kwargs)

    def _run(self, args: Any, kwargs: Any) -> Any:
        """The module, told to train or not; a part, only if its flag is not that of its caller."""
        caller, ctx = running.get(), get_run_ctx()
        token = running.set(self)
        try:
            if self.training == (ctx.train_flag if caller is None else caller.training):
                return self.rf_module(*args, **kwargs)
            with ctx.train_flag_ctx(self.training):
                return self.rf_module(*args, **kwargs)
        finally:
            running.reset(token)

    # -- copies and looks

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_in_graph", "_outside_of_graphs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._belong_to(self.rf_module)

    def _get_name(self) -> str:
        return type(self.rf_module).__name__

    def extra_repr(self) -> str:
        """As the module says it."""
        return self.rf_module.extra_repr()
