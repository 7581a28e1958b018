"""A `torch.nn.Module` as an rfnb module: Tensors with Dims outside, the same parameters inside."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import EllipsisType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from rfnb.backend.base.index import first_outside, warn_once
from rfnb.backend.base.math import join
from rfnb.backend.base.sizes import bound
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.model_graph import keywords_of
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.ground.nested import form_of, named_parts
from rfnb.core.ground.source import user_source, warn
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, ParameterError
from rfnb.nn.bridge.mirror import running
from rfnb.nn.bridge.to_torch import TorchModule, batch_of, lengths_raw
from rfnb.nn.module.module import Module
from rfnb.ops.control import raw_call
from rfnb.ops.math import copy_masked


@guarded
def from_torch(
    nn_module: torch.nn.Module | Module,
    in_dims: object = None,
    out_dims: object = None,
    *,
    padding: float | None = 0.0,
    lengths: str | None = None,
    padding_mask: str | None = None,
    frame_mask: str | None = None,
) -> Module:
    """Wraps a `torch.nn.Module` as an rfnb module that takes and returns Tensors.

    Its parameters are the same objects under the same names; buffers are auxiliary parameters. Those of a lazy module
    come with its first call. The train flag of the run context sets `.train()` or `.eval()`. For a module made by
    `rf.to_torch`, it returns the original module.

    >>> feat, hidden = rf.Dim(3, name="feat"), rf.Dim(2, name="hidden")
    >>> net = rf.from_torch(torch.nn.Linear(3, 2), in_dims=[..., feat], out_dims=[..., hidden])
    >>> net(rf.zeros([rf.Dim(5, name="time"), feat])).dims[-1] is hidden
    True
    >>> [name for name, _ in net.named_parameters()]
    ['weight', 'bias']

    Args:
        in_dims: the dims of the argument, in the order of the module's axes; for several arguments a list of such
            lists, or a dict by name. A leading `...` stands for all other dims.
        out_dims: the dims of the results, in their structure: a list of dims, or a tuple, list or dict of such lists; a
            dict also for results with attributes, such as dataclasses. A Dim instead of a list means that the result is
            the lengths of that dim. `...` stands for the dims that it stood for in the first argument.
        padding: the value of padding in arguments of floats; None: it is left as it is. In labels it always is, since
            some modules need -100 there, and others a label: `labels.copy_masked(0)`.
        lengths: the name of the argument for the lengths of the sequences, [batch].
        padding_mask: the name of the argument for the mask of padding, [batch, time].
        frame_mask: the name of the argument for the mask of valid frames, [batch, time]. Of several arguments with
            lengths, each of the three is of the one whose name begins with the same word, as `memory` and
            `memory_key_padding_mask`, or of the first one.
    """
    if isinstance(nn_module, TorchModule):
        return nn_module.rf_module
    if isinstance(nn_module, Module):
        return nn_module
    if not isinstance(nn_module, torch.nn.Module):
        raise ParameterError(
            "from_torch: this is not a torch.nn.Module",
            got=type(nn_module).__name__,
            expected="a torch.nn.Module",
            hint="program.module()" if isinstance(nn_module, torch.export.ExportedProgram) else None,
        )
    if in_dims is None or out_dims is None:
        raise ParameterError(
            f"from_torch: the dims of {type(nn_module).__name__} are missing",
            expected="`in_dims` and `out_dims`",
            hint="rf.from_torch(net, in_dims=[batch_dim, time, feat], out_dims=[batch_dim, time, out])",
        )
    return TorchNet(nn_module, in_dims, out_dims, padding, lengths, padding_mask, frame_mask)


class TorchPart(Module):
    """A part of a `torch.nn.Module`, with the same parameters under the same names."""

    def __init__(self, nn_module: torch.nn.Module, known: dict[int, Parameter], path: str = ""):
        self.kind = type(nn_module).__name__
        self._take(nn_module, known, path)
        for name, part in nn_module._modules.items():
            if part is not None:
                vars(self)[name] = TorchPart(part, known, f"{path}{name}.")

    def _take(self, nn_module: torch.nn.Module, known: dict[int, Parameter], path: str) -> None:
        """Takes over the parameters and buffers of the torch module that have a shape, and are not there yet."""
        transient = nn_module._non_persistent_buffers_set
        buffers = {name: raw for name, raw in nn_module._buffers.items() if name not in transient}
        for table, is_buffer in ((nn_module._parameters, False), (buffers, True)):
            for name, raw in table.items():
                if raw is not None and not is_lazy(raw) and name not in vars(self):
                    trainable = None if is_buffer else raw.requires_grad
                    vars(self)[name] = _parameter(raw, known, path + name, trainable=trainable, auxiliary=is_buffer)

    def get_default_name(self) -> str:
        """The class name of the torch module, in lower case."""
        return self.kind.lower()

    def extra_repr(self) -> str:
        """The class name of the torch module."""
        return self.kind


class TorchNet(TorchPart):
    """The rfnb module that `rf.from_torch` returns."""

    nn_module: torch.nn.Module

    def __init__(
        self, nn_module: torch.nn.Module, in_dims: object, out_dims: object, padding: float | None, *names: str | None
    ):
        super().__init__(nn_module, {})
        vars(self)["nn_module"] = nn_module  # its parameters are those of this module
        self.is_lazy = _lacks_shapes(nn_module)
        if self.is_lazy:
            _warn_of_lazy(self.kind)
        self.in_dims = _named(in_dims)
        self.out_dims = _entries(out_dims)
        self.padding = padding
        self.lengths, self.padding_mask, self.frame_mask = names
        self.way_for_lengths = None if any(names) else _way_for_lengths(nn_module)

    def __call__(self, *args: Tensor, **kwargs: object) -> Any:
        """Calls the torch module with the raw tensors of the arguments, and returns Tensors with `out_dims`."""
        self._pull()
        names = list(self.in_dims)
        inputs = dict(zip(names, args, strict=False)) | {n: kwargs.pop(n) for n in names if n in kwargs}
        if len(args) > len(names) or len(inputs) < len(names):
            raise ParameterError(
                f"{self.kind}: wrong number of arguments", got=len(inputs), expected=", ".join(map(str, names))
            )
        for name in names:
            if not isinstance(inputs[name], Tensor):
                raise not_a_tensor(f"{self.kind}: argument {name!r}", inputs[name])
        source = inputs[names[0]]
        batch = [dim for dim in source.dims if dim not in self.in_dims[names[0]]]
        tensors = [_in_order(inputs[name], self.in_dims[name], batch, self.padding) for name in names]
        if self.way_for_lengths and not any("mask" in name or "causal" in name for name in kwargs):
            self._warn_of_padding(tensors)
        kwargs |= self._length_arguments(dict(zip(names, tensors, strict=True)))

        def call(*raws: object) -> Any:
            by_name = {name: raw for name, raw in zip(names, raws, strict=True) if isinstance(name, str)}
            by_position = [raw for name, raw in zip(names, raws, strict=True) if name not in by_name]
            try:
                return self.nn_module(*by_position, **by_name, **kwargs)
            except IndexError as failure:
                error = next(filter(None, map(self._label_error, names, tensors)), None)
                if error is None:
                    raise
                raise error from failure

        self._set_mode()
        if isinstance(self.out_dims, list):
            dims = _whole(self.out_dims, batch)
            whole = raw_call(lambda *raws: _check_structure(call(*raws), torch.Tensor, dims), *tensors, out_dims=dims)
            result = _sized(whole, tensors)
        else:
            result = _tensors(call(*[x.raw_tensor for x in tensors]), self.out_dims, batch, tensors)
        if self.is_lazy:
            self._pull()
        return result

    def _warn_of_padding(self, tensors: Sequence[Tensor]) -> None:
        """Warns, once for a line, of padding that the torch module takes for frames; those of labels may find it."""
        ragged = [dim for x in tensors for dim in x.sig.frames if x.size_of(dim).ragged]
        if ragged and not any(is_int_dtype(x.dtype) for x in tensors):
            fault = f"{self.kind} does not know the lengths of {ragged[0].name}, and takes padding for frames"
            warn_once("from_torch", lambda: DimError(f"from_torch: {fault}", hint=self.way_for_lengths))

    def _label_error(self, name: object, x: Tensor) -> DimError | None:
        """The error for labels that the torch module could not look up; None if there is nothing odd about them."""
        if type(x) is not Tensor or not is_int_dtype(x.dtype):
            return None
        backend = backend_of_raw(x._raw)
        place, hint = "in frames", "rf.where(labels >= 0, labels, 0), or `lengths` without these frames"
        got = first_outside(backend, x, 0, math.inf)
        if got is None:
            place, hint = "in the padding", "labels.copy_masked(0)"
            raws = x._raw, backend.fill_padding(x, 0)
            values, frames = (backend.known_numbers_raw(raw) for raw in raws)
            if values is None or frames is None or (frames.min() <= values.min() and values.max() <= frames.max()):
                return None
            got = f"{values.min()} to {values.max()}, and without padding up to {frames.max()}"
        return DimError(
            f"{self.kind}: labels {place} of argument {name!r} may be outside of its range",
            got=got,
            expected="labels from 0 on, in padding as well: a torch module does not know the lengths",
            hint=hint,
        )

    def _set_mode(self) -> None:
        """Calls `train()` or `eval()` if the train flag differs; inside a torch model, the flags of that count."""
        flag = get_run_ctx().train_flag
        if getattr(self.nn_module, "training", flag) != flag and running.get() is None:
            with suppress(NotImplementedError):  # an exported module stays as it was exported
                self.nn_module.train(flag)

    def _pull(self) -> None:
        """Takes over the torch module's current parameters; `nn_module.to(…)` may have made new buffers."""
        nn_parts = dict(self.nn_module.named_modules(remove_duplicate=False))
        for path, part in self.named_modules():
            if self.is_lazy and isinstance(part, TorchPart):
                part._take(nn_parts[path], {}, f"{path}." if path else "")
            for name, parameter in vars(part).items():
                if isinstance(parameter, Parameter):
                    parameter._raw = getattr(nn_parts[path], name)
        self.is_lazy = _lacks_shapes(self.nn_module)

    def _length_arguments(self, inputs: dict[Any, Tensor]) -> dict[str, object]:
        """The arguments of the torch module for lengths and masks, by name."""
        names = (self.lengths, self.padding_mask, self.frame_mask)
        if not any(names):
            return {}
        positions = dict(enumerate(keywords_of(self.nn_module)[0]))
        ragged = [
            (str(positions.get(name, name)).partition("_")[0], x, dim)
            for name, x in inputs.items()
            for dim in x.dims
            if dim.is_dynamic() and dim is not batch_of(x.dims)
        ]
        if not ragged:
            got = ", ".join(x.describe_dims() for x in inputs.values())
            raise DimError(f"{self.kind}: no argument has a dim with lengths", got=got)

        def values(name: str) -> tuple[torch.Tensor, ...]:
            word = name.partition("_")[0]
            _, source, time = next((part for part in ragged if part[0] == word), ragged[0])
            raw = lengths_raw(time, source.size_of(time), source).to(source.raw_tensor.device)
            frames = torch.arange(source.size_of(time).max, device=raw.device) < raw[:, None]
            return raw, ~frames, frames

        return {name: values(name)[kind] for kind, name in enumerate(names) if name}


def _way_for_lengths(nn_module: torch.nn.Module) -> str | None:
    """What lets a torch module know which frames are padding, if it asks for that or is known to depend on them."""
    for name in keywords_of(nn_module)[0]:
        if name.endswith("padding_mask") or name == "attention_mask":
            kind = "padding_mask" if name.endswith("padding_mask") else "frame_mask"
            return f'rf.from_torch(net, …, {kind}="{name}")'
    if any(isinstance(part, torch.nn.RNNBase) and part.bidirectional for part in nn_module.modules()):
        return 'a module that calls pack_padded_sequence: rf.from_torch(net, …, lengths="lengths")'
    return None


def _warn_of_lazy(kind: str) -> None:
    text = f"from_torch: parameters of {kind} have no shape before its first call. Call it once with a batch "
    text += "before you make the optimizer or load weights."
    source = user_source()
    file, line = ("rfnb", 1) if source is None else (source.file, source.line)
    warnings.warn_explicit(text, UserWarning, file, line)


def _lacks_shapes(nn_module: torch.nn.Module) -> bool:
    return any(map(is_lazy, (*nn_module.parameters(), *nn_module.buffers())))


def _parameter(raw: torch.Tensor, known: dict[int, Parameter], path: str, **options: Any) -> Parameter:
    if id(raw) not in known:
        dims = [Dim(size, name=f"{path}.{axis}") for axis, size in enumerate(raw.shape)]
        known[id(raw)] = Parameter(dims, str(raw.dtype).removeprefix("torch."), raw_tensor=raw, **options)
        known[id(raw)].name = path
    return known[id(raw)]


def _is_dims(entry: object) -> bool:
    return isinstance(entry, list | tuple) and all(isinstance(dim, Dim | EllipsisType) for dim in entry)


def _named(in_dims: Any) -> dict[Any, list[Any]]:
    entries = in_dims if isinstance(in_dims, Mapping) else dict(enumerate([in_dims] if _is_dims(in_dims) else in_dims))
    for name, dims in entries.items():
        check_dims([dim for dim in dims if dim is not ...], f"from_torch: in_dims of {name!r}")
    return {name: list(dims) for name, dims in entries.items()}


def _entries(out_dims: Any) -> Any:
    """The structure of the results: a list for the dims of one result, a tuple or a dict for several."""
    if isinstance(out_dims, Dim):
        return out_dims
    if isinstance(out_dims, Mapping):
        return {name: _entries(entry) for name, entry in out_dims.items()}
    if _is_dims(out_dims):
        return list(out_dims)
    if not isinstance(out_dims, list | tuple):
        check_dims([out_dims], "from_torch: out_dims")
    return tuple(_entries(entry) for entry in out_dims)


def _whole(dims: Sequence[Dim | EllipsisType], rest: list[Dim]) -> list[Dim]:
    return [part for dim in dims for part in ([dim] if isinstance(dim, Dim) else rest)]


def _in_order(x: Tensor, dims: Sequence[Dim | EllipsisType], rest: list[Dim], padding: float | None) -> Tensor:
    x = x.copy_transpose(_whole(dims, rest))
    if padding is None or not x.dtype.startswith(("float", "bfloat")):
        return x
    return copy_masked(x, padding)


def _sized(x: Tensor, given: Sequence[Tensor]) -> Tensor:
    """The Tensor, whose new dims get their sizes. given: the arguments."""
    if type(x) is Tensor:
        for dim, size in zip(x.dims, x.raw_tensor.shape, strict=True):
            old = x.lengths.size(dim)
            if old is not None and old.max == size:
                continue
            if old is not None and dim.expr is None and any(dim in source.sig.index for source in given):
                raise DimError(
                    f"from_torch: the result has another number of frames than {dim.name}",
                    got=f"{size} in shape {tuple(x.raw_tensor.shape)}",
                    expected=old,
                    hint=f"another dim in `out_dims`, such as {dim.name}.ceildiv_right(2)",
                )
            _warn_of_lengths(dim, size, x, given)
            x.lengths = bound(x.lengths, dim, Size([], size), "from_torch")
    return x


def _warn_of_lengths(dim: Dim, size: int, x: Tensor, given: Sequence[Tensor]) -> None:
    """Warns of a new dim without lengths, in place of one whose lengths differ."""
    replaced = (d for source in given for d in source.dims if d not in x.sig.index and source.size_of(d).ragged)
    time = next(replaced, None)
    if time is not None and dim.expr is None:
        warn(
            f"from_torch: all sequences have {size} frames of {dim.name}, though their lengths differ in {time.name}: "
            f"in `out_dims`, {time.name}.ceildiv_right(2) stands for half of the frames; or a Dim with lengths"
        )


def _check_structure(result: Any, kind: Any, out_dims: Any) -> object:
    if not isinstance(result, kind) or (kind is not torch.Tensor and len(result) < len(out_dims)):
        size = f" of {len(result)}" if isinstance(result, list | tuple) else ""
        raise DimError(
            "from_torch: the results do not match `out_dims`",
            got=type(result).__name__ + size,
            expected="a tensor" if kind is torch.Tensor else f"{len(out_dims)} results",
            hint="out_dims=([batch_dim, time, out], …): dims for each result, in their structure",
        )
    return result


def _part(result: object, name: object, out_dims: dict[Any, Any]) -> Any:
    """A part of the result by name: an entry of a mapping, else an attribute."""
    if isinstance(result, Mapping) and name in result:
        return result[name]
    if isinstance(name, str) and not isinstance(result, Mapping) and hasattr(result, name):
        return getattr(result, name)
    parts = named_parts(result)
    raise DimError(
        f"from_torch: the result has no {name!r}, which `out_dims` describe",
        got=f"{type(result).__name__} of {', '.join(str(part) for part, _ in parts)}"
        if parts
        else type(result).__name__,
        expected=", ".join(map(str, out_dims)),
    )


def _tensors(result: Any, out_dims: Any, rest: list[Dim], given: list[Tensor]) -> Any:
    if isinstance(out_dims, dict):
        named = {name: _part(result, name, out_dims) for name in out_dims}
        return {name: _tensors(named[name], entry, rest, given) for name, entry in out_dims.items()}
    if isinstance(out_dims, tuple):
        form = form_of(type(result))
        result = result if form is None else tuple(form.parts(result))
        _check_structure(result, tuple | list, out_dims)
        pairs = list(zip(result, out_dims, strict=False))
        for raw, entry in pairs:
            if isinstance(entry, Dim):
                entry.define(Size([batch_of(given[0].dims)], raw.detach().cpu().numpy()), "from_torch")
        return tuple(_tensors(raw, entry, rest, given) for raw, entry in pairs)
    if isinstance(out_dims, Dim):
        return out_dims
    dims = _whole(out_dims, rest)
    joined = join(*given)
    new = [dim for dim in dims if dim.is_dynamic() and dim.is_defined() and joined.size(dim) is None]
    lengths = joined.bind({dim: dim.size for dim in new})
    return _sized(tensor_of(result, align.sig(dims), lengths), given)
