"""An rfnb module as a `torch.nn.Module`: the same parameters under the same names.

Arguments are converted from raw tensors and lengths to Tensors, and results back; calls of submodules pass through
torch, so that its hooks run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as globally

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground.nested import form_of, leaves, map_pairs
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.template import NoData
from rfnb.core.tensor.tensor import Tensor, tensor_of, tensors_in
from rfnb.core.tensor.tensor_dict import State, TensorDict, as_dicts
from rfnb.errors import BackendError, DimError, ParameterError
from rfnb.nn.bridge.mirror import Mirror, mirror_of, running, wrapped_module
from rfnb.nn.bridge.symbolic import SymbolicValues, sizes_restored, symbolic_size
from rfnb.nn.module.module import Module, check_module
from rfnb.ops.convert import convert_to_tensor
from rfnb.trace.record.traced import Traced


class RawArguments(NamedTuple):
    """The raw arguments of a call by position or name, the lengths of their dims, and all other arguments."""

    raws: dict[Any, Any]
    lengths: dict[Dim, object]
    more: dict[str, object]

    def has_numbers(self) -> bool:
        """Whether lengths can be read as numbers, which they cannot inside `torch.vmap`."""
        try:
            for values in self.lengths.values():
                if isinstance(values, torch.Tensor):
                    values.tolist()
        except RuntimeError:
            return False
        return True


class Inputs:
    """The dims of the arguments, by position or name: for each a list of dims, a template, or a Dim to pass on."""

    def __init__(self, in_dims: Any):
        by_name = isinstance(in_dims, Mapping)
        if not by_name and not isinstance(in_dims, list | tuple):
            check_dims(in_dims, "in_dims")
        if not by_name and in_dims and all(isinstance(entry, Dim) for entry in in_dims):
            in_dims = [in_dims]  # there is only one argument
        entries = dict(in_dims.items() if by_name else enumerate(in_dims))
        self.by_name = by_name
        self.entries: dict[Any, Any] = {name: _template(entry, name) for name, entry in entries.items()}
        self.raws = [name for name, entry in self.entries.items() if isinstance(entry, Tensor)]
        self.ragged = _ragged([entry.dims for entry in self.entries.values() if isinstance(entry, Tensor)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inputs) and _described(self.entries) == _described(other.entries)

    __hash__ = None  # type: ignore[assignment]

    def given(self, args: Sequence[object], kwargs: dict[str, object], lengths: object) -> RawArguments:
        """Sorts the arguments of a call. Raises ParameterError if there are too few or too many."""
        positional = [name for name in self.raws if name not in kwargs]
        raws = dict(zip(positional, args, strict=False)) | {n: kwargs[n] for n in self.raws if n in kwargs}
        missing = [name for name in self.raws if name not in raws]
        if missing:
            raise ParameterError(
                f"to_torch: the argument {missing[0]!r} is missing", got=f"{len(args)} tensors", expected=self._call()
            )
        dim_lengths = self._lengths(args[len(positional) :], lengths)
        return RawArguments(raws, dim_lengths, {name: value for name, value in kwargs.items() if name not in raws})

    def tensors(self, given: RawArguments, *, traced: bool) -> tuple[list[object], dict[str, object]]:
        """The arguments of the rfnb module. traced: whether lengths must not be read as numbers."""
        values = {n: entry if isinstance(entry, Dim) else given.raws[n] for n, entry in self.entries.items()}
        bind = _traced if traced else _bound
        if not traced:
            self._new_batch(values, given.lengths)
        for name in self.raws:
            if values[name] is not None:
                values[name] = bind(str(name), self.entries[name], values[name], given.lengths)
        return ([], values | given.more) if self.by_name else (list(values.values()), given.more)

    def _new_batch(self, raws: dict[Any, Any], lengths: dict[Dim, object]) -> None:
        """Binds dims without lengths to their size in the first argument with that dim, and forgets the last batch."""
        bound: set[Dim] = set()
        for name in self.raws:
            dims = self.entries[name].dims if raws[name] is not None else ()
            for dim, size in zip(dims, getattr(raws[name], "shape", ()), strict=False):
                if dim in bound or dim.is_static() or dim.expr is not None:
                    continue
                bound.add(dim)
                dim.reset_raw()
                if dim not in lengths:
                    dim.bind(Size([], size))

    def _lengths(self, trailing: Sequence[object], named: object) -> dict[Dim, object]:
        if named is not None and not isinstance(named, Mapping):
            trailing, named = [*trailing, named], None
        if len(trailing) > len(self.ragged):
            raise ParameterError("to_torch: too many arguments", got=f"{len(trailing)} lengths", expected=self._call())
        by_dim = dict(zip(self.ragged, trailing, strict=False))
        for name, values in (named or {}).items():
            dim = next((dim for dim in self.ragged if name in (dim, dim.name)), None)
            if dim is None:
                raise ParameterError(
                    f"to_torch: lengths are given for {name!r}, which is not a dim of an argument",
                    got=name,
                    expected=", ".join(dim.name for dim in self.ragged) or "no lengths",
                )
            by_dim[dim] = values
        return {dim: values for dim, values in by_dim.items() if values is not None}

    def _call(self) -> str:
        """The signature of the call, for messages."""
        names = [str(name) if self.by_name else f"argument{name}" for name in self.raws]
        return f"({', '.join([*names, *(f'lengths of {dim.name}' for dim in self.ragged)])})"


def _template(entry: Any, name: object) -> Tensor | Dim:
    if isinstance(entry, Tensor | Dim):
        return entry
    check_dims(entry, f"to_torch: in_dims of argument {name!r}")
    template = tensor_of(NoData("float32"), align.sig(entry), EMPTY)  # whatever batch the dims are bound to now
    template.name = str(name)
    return template


def _described(entries: Mapping[object, Tensor | Dim]) -> dict[object, object]:
    return {name: entry if isinstance(entry, Dim) else entry.sig for name, entry in entries.items()}


def _ragged(arguments: Sequence[Sequence[Dim]]) -> list[Dim]:
    """The dims that take lengths, in order of appearance: dynamic dims that count the sequences of no argument."""
    batches = {batch_of(dims) for dims in arguments if dims}
    dims = [dim for dims in arguments for dim in dims if dim not in batches]
    return [dim for dim in dict.fromkeys(dims) if dim.is_dynamic() and dim.expr is None]


def batch_of(dims: Sequence[Dim]) -> Dim:
    """The dim that counts the sequences: a batch dim, wherever it stands; without one, the first dim."""
    return next((dim for dim in dims if dim.is_batch_dim()), dims[0])


def _bound(name: str, template: Tensor, raw: object, lengths: dict[Dim, Any]) -> Tensor:
    sizes = {dim: lengths[dim] for dim in template.dims if dim in lengths}
    return convert_to_tensor(
        raw,
        dims=template.dims,
        sparse_dim=template.sparse_dim,
        feature_dim=template.feature_dim,
        lengths=sizes,
        name=name,
    )


def _traced(name: str, template: Tensor, raw: Any, lengths: dict[Dim, Any]) -> Tensor:
    """A Tensor while torch is tracing: no length is read as a number, and padding is not trimmed."""
    for axis, dim in enumerate(template.dims):
        if dim.is_dynamic() and dim.expr is None:
            dim.bind(symbolic_size(batch_of(template.dims), lengths.get(dim), raw.shape[axis]))
    return tensor_of(raw, template.sig, current_lengths(template.dims)).with_name(name)


class Outputs:
    """The dims of the results, in the order that their raw tensors shall have."""

    def __init__(self, out_dims: Any):
        if not isinstance(out_dims, Mapping | list | tuple):
            check_dims(out_dims, "out_dims")
        self.single = not isinstance(out_dims, Mapping) and all(isinstance(entry, Dim) for entry in out_dims)
        entries = {"": out_dims} if self.single else out_dims
        self.entries = dict(entries.items() if isinstance(entries, Mapping) else enumerate(entries))
        for name, dims in self.entries.items():
            check_dims(dims, f"out_dims {name!r}" if name != "" else "out_dims")
        self.entries = {name: tuple(dims) for name, dims in self.entries.items()}
        self.by_name = isinstance(out_dims, Mapping)
        ragged = [dim for dims in self.entries.values() for dim in dims if dim is not batch_of(dims)]
        self.ragged = [dim for dim in dict.fromkeys(ragged) if dim.is_dynamic()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outputs) and (self.single, self.entries) == (other.single, other.entries)

    __hash__ = None  # type: ignore[assignment]

    def raws(self, result: object) -> object:
        """The raw tensors with these dims, followed by lengths."""
        tensors = self._tensors(as_dicts(result))
        raws = {name: tensors[name].copy_transpose(dims).raw_tensor for name, dims in self.entries.items()}
        values = raws if self.by_name else next(iter(raws.values())) if self.single else tuple(raws.values())
        if not self.ragged:
            return values
        lengths = {dim.name: self._lengths(dim, tensors) for dim in self.ragged}
        lengths_only = next(iter(lengths.values())) if len(lengths) == 1 else lengths
        return (values, lengths_only) if self.by_name or self.single else (*values, lengths_only)

    def _tensors(self, result: object) -> dict[object, Tensor]:
        if self.by_name and isinstance(result, dict):
            tensors = {name: value for name, value in result.items() if isinstance(value, Tensor)}
        else:
            tensors = dict(zip(self.entries, tensors_in(result), strict=False))
        missing = [name for name in self.entries if name not in tensors]
        if missing:
            raise DimError(
                f"to_torch: `out_dims` describe {len(self.entries)} results",
                got=", ".join(map(str, tensors)) or "no Tensor",
                expected=", ".join(map(str, self.entries)),
            )
        return tensors

    def _lengths(self, dim: Dim, tensors: dict[object, Tensor]) -> torch.Tensor:
        owner = next(tensors[name] for name, dims in self.entries.items() if dim in dims)
        return lengths_raw(dim, owner.size_of(dim), owner)


def _raw_of(leaf: object) -> object:
    if isinstance(leaf, TensorDict):
        return {name: x.raw_tensor for name, x in leaf.data.items()}
    if isinstance(leaf, Dim):
        return lengths_raw(leaf, leaf.size)
    return leaf.raw_tensor if isinstance(leaf, Tensor) else leaf


def with_leaves(fn: Callable[[object], object], tree: object) -> object:
    """The structure with `fn(leaf)` for each leaf, and a plain dict, which torch knows, for each State."""
    if isinstance(tree, State):
        tree = dict(tree)
    form = form_of(type(tree))
    return fn(tree) if form is None else form.like(tree, [with_leaves(fn, part) for part in form.parts(tree)])


def lengths_raw(dim: Dim, size: Size, of: Tensor | None = None) -> torch.Tensor:
    """The lengths as a torch tensor; without padding, the size repeated for each sequence of `of`."""
    values = size.values
    raw = values.raw if isinstance(values, SymbolicValues) else torch.tensor(values)
    if isinstance(raw, torch.Tensor) and (raw.ndim or of is None):
        return raw
    batch = dim if of is None else batch_of(of.dims)
    shape = () if of is None or dim is batch else of.raw_tensor.shape[of.axis(batch)]
    return torch.ones(shape, dtype=torch.int64) * raw


class Crossing:
    """One call of a submodule: its arguments and its result, as Tensors and as raw tensors."""

    def __init__(self, part: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]):
        self.part, self.args, self.kwargs = part, args, kwargs
        self.result: object = None
        self.seen = _has_hooks(part)

    def call(self) -> object:
        """The result of the submodule, called through torch."""
        token = _now.set(self)
        try:
            if not self.seen:
                return self.part(*self.args, **self.kwargs)
            self._check_loop()
            result = self.part(*to_raws(self.args), **to_raws(self.kwargs))
            return from_raws(self.result, result)
        finally:
            _now.reset(token)

    def _check_loop(self) -> None:
        """Raises BackendError for hooks that cannot run in a loop, whose body is traced once and runs without torch."""
        if not any(isinstance(leaf, Traced) for leaf in leaves([self.args, self.kwargs])):
            return
        if hasattr(self.part, "unshard"):
            wrapper, hint = "fully_shard", "apply it to the module that has the loop, or to the whole model"
        elif self.part._backward_pre_hooks or self.part._backward_hooks:
            wrapper, hint = "a hook on gradients", "hook the module that has the loop, or use run.gradients(loss)"
        else:
            return
        name = type(self.part.rf_module).__name__
        raise BackendError(f"to_torch: {wrapper} cannot be used on {name}, which is called at each step", hint=hint)

    def tensors(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments of the module, made from those that the hooks returned."""
        if not self.seen:
            return args, kwargs
        if len(args) != len(self.args) or kwargs.keys() != self.kwargs.keys():
            got, expected = len(args) + len(kwargs), len(self.args) + len(self.kwargs)
            raise DimError("to_torch: a hook changed the number of arguments", got=got, expected=expected)
        positional = tuple(from_raws(*pair) for pair in zip(self.args, args, strict=True))
        return positional, {name: from_raws(value, kwargs[name]) for name, value in self.kwargs.items()}

    def raws(self, result: object) -> object:
        """The result as the hooks see it."""
        self.result = result
        return to_raws(result) if self.seen else result


_now: ContextVar[Crossing | None] = ContextVar("rfnb_crossing", default=None)


def crossing_to(part: torch.nn.Module) -> Crossing | None:
    """The current call of `part`, if it comes from inside a larger model; otherwise None."""
    crossing = _now.get()
    return crossing if crossing is not None and crossing.part is part else None


def to_raws(tree: object) -> Any:
    """The structure with raw tensors for Tensors. Traced tensors stay as they are."""
    return with_leaves(lambda leaf: leaf._raw if type(leaf) is Tensor else leaf, tree)


def from_raws(own: object, raws: object) -> object:
    """`own` itself if hooks left `to_raws(own)` unchanged; otherwise the structure with the Tensors of `raws`."""
    if form_of(type(own)) is None:
        return _tensor(own, raws)
    old, new = leaves(to_raws(own)), leaves(raws)
    if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)):
        return own
    return map_pairs(_tensor, own, raws)


def _tensor(own: object, raw: object) -> object:
    if type(own) is not Tensor or not isinstance(raw, torch.Tensor):
        return raw
    if raw is own._raw:
        return own
    if raw.shape != own._raw.shape:
        raise DimError("to_torch: a hook changed the shape", got=tuple(raw.shape), expected=own.describe_dims())
    return own.like(raw)


def _has_hooks(part: torch.nn.Module) -> bool:
    hooks = part._forward_pre_hooks or part._forward_hooks or part._backward_pre_hooks or part._backward_hooks
    of_all = globally._global_backward_pre_hooks or globally._global_backward_hooks
    return bool(hooks or of_all or globally._has_any_global_hook())


@guarded
def to_torch(
    module: Module | torch.nn.Module,
    *,
    in_dims: object = None,
    out_dims: object = None,
    aux_params_as_buffers: bool = True,
) -> torch.nn.Module:
    """Wraps the module as a `torch.nn.Module`, for DDP, `torch.compile`, and anything else that takes one.

    Its parameters are the same objects. Its submodules, and the names in its `state_dict`, follow the attributes of
    `module`; auxiliary parameters are buffers. `.train()` and `.eval()`, of the whole or of a submodule, set the train
    flag of the call, and hooks of all submodules run. `.rf_module` is `module`. While torch computes a parameter, as by
    `torch.nn.utils.parametrizations`, only the torch module can be called.

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
            module. The call then takes raw tensors, followed by the lengths of the dims without a size, except for
            batch dims and the first dim of an argument without one, in order of appearance; or
            `lengths={"time": …}`. Without lengths there is no padding. None: arguments are passed to the module
            unchanged.
        out_dims: the dims of the result, or of each result, in the order of the axes of its raw tensor. Lengths follow
            if there are such dims in it: a tensor for one dim, a dict by name for several.
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


_OF_TORCH = ("_in_graph", "_in_strict_export", "_outside_of_graphs")
"""Attributes that are made again, not pickled."""


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
        self._in_strict_export = torch._dynamo.allow_in_graph(lambda *args: reference()._call_in_graph(*args))
        self._outside_of_graphs = torch.compiler.disable(
            lambda *args, **kwargs: reference().forward(*args, **kwargs),
            reason="rfnb: only a model that was wrapped with `in_dims` can be compiled",
        )

    def _new_part(self, module: Module) -> TorchModule:
        return TorchModule(module, None, None, self._aux_as_buffers)

    def is_like(self, *options: object) -> bool:
        """Whether it was made with these options."""
        return options == (self._inputs, self._outputs, self._aux_as_buffers)

    # -- the call

    def forward(self, *args: object, lengths: object = None, **kwargs: object) -> object:
        """Calls the rfnb module, with raw tensors and lengths if there are `in_dims`, and returns raw tensors."""
        if torch.compiler.is_dynamo_compiling():
            if self._inputs is None:
                return self._outside_of_graphs(*args, lengths=lengths, **kwargs)
            raws: dict[str, torch.Tensor] = dict(self.named_parameters(remove_duplicate=False))
            raws.update(self.named_buffers(remove_duplicate=False))
            flags = [module.training for module in self.modules()]  # read here, so that a change compiles again
            options = {} if lengths is None else {"lengths": lengths}
            call = self._in_strict_export if torch.compiler.is_exporting() else self._in_graph
            return call(raws, flags, args, kwargs, options)
        crossing = crossing_to(self)
        if crossing is not None and running.get() is not self:
            return self._call_across(crossing, args, {**kwargs, "lengths": lengths})
        for part in self._parts():
            part._mirror()
        return self._call(args, kwargs, lengths, traced=torch.compiler.is_exporting())

    def _call(self, args: Sequence[object], kwargs: dict[str, object], lengths: object, *, traced: bool) -> object:
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
            return with_leaves(_raw_of, result) if self._outputs is None else self._outputs.raws(result)

    def _call_in_graph(
        self,
        raws: dict[str, torch.Tensor],
        flags: object,
        args: Sequence[object],
        kwargs: dict[str, object],
        more: dict[str, object],
    ) -> object:
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

    def call_inside(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Calls the submodule inside a larger model, with all hooks: from Tensors to Tensors."""
        return Crossing(self, args, kwargs).call()

    def _call_across(self, crossing: Crossing, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        kwargs = {name: value for name, value in kwargs.items() if name in crossing.kwargs or value is not None}
        with self._bound(below=bool(self._forward_pre_hooks)):
            args, kwargs = crossing.tensors(args, kwargs)
            return crossing.raws(self._run(args, kwargs))

    def _run(self, args: Sequence[object], kwargs: dict[str, object]) -> object:
        """Calls the rfnb module; sets the train flag if it differs from that of the context or of the caller."""
        caller, ctx = running.get(), get_run_ctx()
        token = running.set(self)
        try:
            if not ctx.is_undecided and self.training == (ctx.train_flag if caller is None else caller.training):
                return self.rf_module(*args, **kwargs)
            with ctx.train_flag_ctx(self.training):
                return self.rf_module(*args, **kwargs)
        finally:
            running.reset(token)

    # -- pickling

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in _OF_TORCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._belong_to(self.rf_module)
