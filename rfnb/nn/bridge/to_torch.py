"""An rfnb module as a `torch.nn.Module`: the same parameters under the same names."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any

import torch

from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.op import guarded
from rfnb.nn.bridge.crossing import Crossing, crossing_to
from rfnb.nn.bridge.inputs import Inputs
from rfnb.nn.bridge.mirror import Mirror, mirror_of, running, wrapped_module
from rfnb.nn.bridge.outputs import Outputs, raws_of
from rfnb.nn.bridge.symbolic import sizes_restored
from rfnb.nn.module.module import Module, check_module


@guarded
def to_torch(
    module: Module | torch.nn.Module, *, in_dims: Any = None, out_dims: Any = None, aux_params_as_buffers: bool = True
) -> torch.nn.Module:
    """Wraps the module as a `torch.nn.Module`, for DDP, `torch.compile`, and anything else that takes one.

    Its parameters are the same objects. Its submodules, and the names in its `state_dict`, follow the attributes of
    `module`; auxiliary parameters are buffers. `.train()` and `.eval()`, of the whole or of a submodule, set the train
    flag of the call, and hooks of all submodules run. `.rf_module` is `module`.

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
        module: an rfnb module. For one made by `rf.from_torch`, the original torch module is returned.
        in_dims: the dims of each argument, by position or by name. A template such as
            `rf.Tensor("labels", [batch, time], "int64", sparse_dim=vocab)` can say more; a Dim is passed on to the
            module. The call then takes raw tensors, followed by the lengths of the dims without a size, except for the
            first dim of an argument, in order of appearance; or `lengths={"time": …}`. Without lengths there is no
            padding. None: arguments are passed to the module unchanged.
        out_dims: the dims of the result, or of each result, in the order of the axes of its raw tensor. Lengths follow
            if there are dims without a size other than the first: a tensor for one dim, a dict by name for several.
            None: raw tensors in the structure of the result, with the axes in their own order, and lengths for Dims.
        aux_params_as_buffers: if False, auxiliary parameters become parameters that are not trained.
    """
    if isinstance(module, torch.nn.Module):
        return module
    check_module(module, "to_torch")
    plain = wrapped_module(module)
    if plain is not None and in_dims is None and out_dims is None:
        return plain
    inputs = None if in_dims is None else Inputs(in_dims)
    outputs = None if out_dims is None else Outputs(out_dims)
    mirror = mirror_of(module)
    if mirror is not None and mirror.is_like(inputs, outputs, aux_params_as_buffers):
        return mirror
    return TorchModule(module, inputs, outputs, aux_params_as_buffers)


@guarded
def rf_module_to_pt_module(rf_module: Module, *, aux_params_as_buffers: bool = True) -> torch.nn.Module:
    """Calls `rf.to_torch(rf_module)`, under the name of RETURNN.

    >>> rf.rf_module_to_pt_module(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))).weight.shape
    torch.Size([3, 2])
    """
    return to_torch(rf_module, aux_params_as_buffers=aux_params_as_buffers)


class TorchModule(Mirror):
    """The torch module that `rf.to_torch` returns."""

    def __init__(self, module: Module, inputs: Inputs | None, outputs: Outputs | None, aux_params_as_buffers: bool):
        self._inputs, self._outputs = inputs, outputs
        super().__init__(module, aux_params_as_buffers)

    def _belong_to(self, module: Module) -> None:
        super()._belong_to(module)
        reference: Any = weakref.ref(self)
        # Not decorators of the class: they import the compiler of torch, which takes as long as torch itself.
        self._in_graph = torch._dynamo.nonstrict_trace(lambda *args: reference()._call_in_graph(*args))
        self._outside_of_graphs = torch.compiler.disable(
            lambda *args, **kwargs: reference().forward(*args, **kwargs),
            reason="rfnb: only a model that was wrapped with `in_dims` can be compiled",
        )

    def _new_part(self, module: Module) -> TorchModule:
        return TorchModule(module, None, None, self._aux_as_buffers)

    def is_like(self, *options: Any) -> bool:
        """Whether it was made with these options."""
        return options == (self._inputs, self._outputs, self._aux_as_buffers)

    # -- the call

    def forward(self, *args: Any, lengths: Any = None, **kwargs: Any) -> Any:
        """Calls the rfnb module, with raw tensors and lengths if there are `in_dims`, and returns raw tensors."""
        if torch.compiler.is_dynamo_compiling():
            if self._inputs is None:
                return self._outside_of_graphs(*args, lengths=lengths, **kwargs)
            raws: dict[str, Any] = dict(self.named_parameters(remove_duplicate=False))
            raws.update(self.named_buffers(remove_duplicate=False))
            flags = [module.training for module in self.modules()]  # read here, so that a change compiles again
            options = {} if lengths is None else {"lengths": lengths}
            return self._in_graph(raws, flags, args, kwargs, options)
        crossing = crossing_to(self)
        if crossing is not None and running.get() is not self:
            return self._call_across(crossing, args, {**kwargs, "lengths": lengths})
        for part in self._parts():
            part._mirror()
        return self._call(args, kwargs, lengths, traced=torch.compiler.is_exporting())

    def _call(self, args: Any, kwargs: dict[str, Any], lengths: Any, *, traced: bool) -> Any:
        with ExitStack() as stack:
            stack.enter_context(self._bound(below=True))
            inputs = None if self._inputs is None else self._inputs.given(args, kwargs, lengths)
            traced = traced or (inputs is not None and not inputs.has_numbers())
            if traced:
                stack.enter_context(entered(get_run_ctx().again()))
                stack.enter_context(sizes_restored())
            if self._inputs is not None and inputs is not None:
                args, kwargs = self._inputs.tensors(inputs, traced=traced)
            elif lengths is not None:
                kwargs = {**kwargs, "lengths": lengths}
            result = self._run(args, kwargs)
            return raws_of(result) if self._outputs is None else self._outputs.raws(result)

    def _call_in_graph(self, raws: dict[str, Any], flags: Any, args: Any, kwargs: dict[str, Any], more: Any) -> Any:
        """The call while torch.compile is tracing: all tensors are stand-ins with symbolic sizes."""
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
        """Calls the submodule inside a larger model, with all hooks: from Tensors to Tensors."""
        return Crossing(self, args, kwargs).call()

    def _call_across(self, crossing: Crossing, args: Any, kwargs: dict[str, Any]) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name in crossing.kwargs or value is not None}
        with self._bound(below=bool(self._forward_pre_hooks)):
            args, kwargs = crossing.tensors(args, kwargs)
            return crossing.raws(self._run(args, kwargs))

    def _run(self, args: Any, kwargs: Any) -> Any:
        """Calls the rfnb module; sets the train flag if it differs from that of the context or of the caller."""
        caller, ctx = running.get(), get_run_ctx()
        token = running.set(self)
        try:
            if self.training == (ctx.train_flag if caller is None else caller.training):
                return self.rf_module(*args, **kwargs)
            with ctx.train_flag_ctx(self.training):
                return self.rf_module(*args, **kwargs)
        finally:
            running.reset(token)

    # -- pickling

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_in_graph", "_outside_of_graphs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._belong_to(self.rf_module)
