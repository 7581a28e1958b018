"""Attention on torch tensors, and observing that of plain torch: in `torch.nn`, in kernels, as softmax and product.

It observes the calls below autograd, where observing does not change which kernels are chosen.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import TorchDispatchMode

from rfnb.backend.base.attention import RawAttention, RawStep
from rfnb.backend.torch.module_state import uncompiled
from rfnb.backend.torch.random import TorchRandom
from rfnb.core.ground.scope import paths_below, random_stream
from rfnb.errors import ViewError

See = Callable[[RawAttention], None]


class TorchAttention:
    """The raw part of `backend.base.attention`."""

    @staticmethod
    def attention_raw(
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
        causal: bool,
        scale: float,
        bias: torch.Tensor | None,
        dropout: float,
    ) -> torch.Tensor:
        """softmax(query · keysᵀ · scale + bias) · values, over the last two axes. mask: where a query sees a key."""
        if bias is not None:
            if causal:
                mask = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
            mask, causal = bias if mask is None else bias.masked_fill(~mask, -math.inf), False
        if dropout:
            stream = random_stream(str(query.device))
            if stream is not None or query.device.type == "cpu":
                return _in_steps(query, keys, values, mask, causal, scale, dropout, stream)
        return scaled_dot_product_attention(query, keys, values, mask, dropout, causal, scale=scale)

    @staticmethod
    def relative_shift_raw(scores: torch.Tensor, keys: int) -> torch.Tensor:
        """[…, i, j] → scores[…, i, j - i + queries - 1], for `keys` columns j."""
        queries, width = scores.shape[-2:]
        if queries == 0:
            return scores.new_empty((*scores.shape[:-1], keys))
        if queries == 1:
            return scores
        # rows with one column less, so that each row begins one entry earlier
        flat = scores.flatten(-2)[..., queries - 1 : queries - 1 + queries * (width - 1)]
        return flat.unflatten(-1, (queries, width - 1))[..., :keys]

    @staticmethod
    def turn_pairs_raw(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """Pairs (a, b) along the last axis: (a · cos - b · sin, a · sin + b · cos), in the dtype of `cosines`."""
        a, b = x.to(cosines.dtype).unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([a * cosines - b * sines, a * sines + b * cosines], -1)
        return turned.flatten(-2).to(x.dtype)

    @classmethod
    def watching_attention(cls, see: See, model: object) -> AbstractContextManager[list[str]]:
        """Inside, `see` is called with each attention that plain torch computes."""

        if model is not None and not isinstance(model, torch.nn.Module):
            return nullcontext([])
        return AttentionMode(see, model).watching()


def _in_steps(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
    stream: torch.Generator | None,
) -> torch.Tensor:
    """Attention in separate steps, for what the kernel does not support.

    The kernel takes no generator, and on a CPU, its dropout is slower than this.
    """
    energy = torch.matmul(query * scale, keys.transpose(-2, -1))
    if causal:
        mask = torch.ones(energy.shape[-2:], dtype=torch.bool, device=energy.device).tril()
    if mask is not None:
        energy = energy.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else energy + mask
    weights = torch.softmax(energy, -1)
    return torch.matmul(TorchRandom.dropout_raw(weights, dropout, weights.shape, stream), values)


_TORCH, _OWN = str(Path(torch.__file__).parent) + "/", str(Path(__file__).parents[2]) + "/"
SOFTMAX = frozenset({"_softmax", "_safe_softmax", "softmax", "special_softmax"})
SAME = frozenset(
    {"native_dropout", "dropout", "mul", "div", "add", "_to_copy", "to", "clone", "where", "masked_fill", "contiguous"}
)
"""Calls after which weights are still weights."""
PRODUCTS = frozenset({"bmm", "mm", "mv", "addmm", "baddbmm", "matmul"})
HEADS = ("num_heads", "n_heads", "n_head", "nhead", "heads", "num_attention_heads")
"""What modules call the number of their heads."""


@dataclass(frozen=True)
class _TensorMark:
    """A softmax, by its shape and place in its storage, or a tensor computed from it.

    size, step: of the axis of the softmax, its size and stride. weights: the softmax; None if it is the tensor itself.
    values: what the weights were multiplied with, where only the sum over the axis is missing. sums: the tensor is not
    a softmax yet: "exp" is to be divided by its own sum over an axis, "sum" is that sum.
    """

    storage: StorageWeakRef
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    size: int
    step: int
    weights: torch.Tensor | None
    values: torch.Tensor | None = None
    sums: str = ""

    def axis_of(self, raw: torch.Tensor) -> int | None:
        """The axis of the softmax in a view of the tensor, from the end."""
        axes = [-i for i in range(1, raw.dim() + 1) if (raw.shape[-i], raw.stride(-i)) == (self.size, self.step)]
        return axes[0] if axes else None


class AttentionMode(TorchDispatchMode):
    """Calls `see` with each attention, inside `model` if given."""

    def __init__(self, see: See, model: torch.nn.Module | None):
        super().__init__()
        self._see, self._model = see, model
        self._names = {} if model is None else paths_below(model)  # modules by id
        self._own = frozenset(self._names)
        self._inside: list[tuple[torch.nn.Module, str]] = []
        self._calls = 0  # of outermost modules
        self._steps = StepFinder()
        self._marks: dict[int, _TensorMark] = {}  # by storage
        self._unseen: Counter[str] = Counter()  # softmaxes that were not seen to weight values, by path of a module

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first call imports torch's compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        """Makes a call."""
        kwargs = kwargs or {}
        looks = self._model is None or self._inside
        if looks and not (types or _has_nested(args)) and func._can_decompose():  # in inference mode
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if looks and torch._C._current_graph_task_id() == -1:  # not in a backward pass
            with suppress(Exception):  # whatever the error is, the model must go on
                self._look(func.overloadpacket.__name__, func, args, kwargs, result)
        return result

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """Starts to observe; afterwards, the list has the modules whose attention was not seen."""
        unseen: list[str] = []
        handles = [
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        try:
            with uncompiled(), self:
                yield unseen
        finally:
            for handle in handles:
                handle.remove()
            unseen += [path for path, count in self._unseen.items() if count > 0]

    def _enter_module(self, module: torch.nn.Module, args: object) -> None:
        if self._inside or self._model is None or id(module) in self._own:
            if not self._inside and self._model is None:
                self._names = paths_below(module, type(module).__name__)
            outer = self._inside[-1][1] if self._inside else ""
            self._calls += not self._inside
            name = self._names.get(id(module), f"{outer}.{type(module).__name__}".lstrip("."))
            self._inside.append((module, name))

    def _leave_module(self, module: torch.nn.Module, args: object, result: object) -> None:
        if self._inside and self._inside[-1][0] is module:
            self._inside.pop()

    # -- kinds of calls

    def _look(self, name: str, func: object, args: Any, kwargs: Any, result: Any) -> None:
        if name in SOFTMAX or name == "logsumexp":
            around = (each for each in reversed(self._inside) if not isinstance(each[0], torch.nn.Softmax))
            module, path = next(around, (None, ""))
            self._unseen[path] += module is not None and _is_attention(module)
        if name in SOFTMAX:
            axis = args[1] if len(args) > 1 else kwargs["dim"]
            self._mark(result, result.dim() and axis % result.dim(), None)
        elif "scaled_dot_product" in name and "backward" not in name:
            self._kernel(_named(func, args, kwargs), _of_dot_product)
        elif name == "_native_multi_head_attention":
            self._kernel(_named(func, args, kwargs), _of_module)
        elif name == "_transformer_encoder_layer_fwd":
            self._kernel(_named(func, args, kwargs), _of_layer, ".self_attn")
        elif name == "exp":
            self._mark(result, 0, None, sums="exp")
        elif self._marks and name in PRODUCTS:
            operands = [x for x in args if isinstance(x, torch.Tensor)][-2:]
            self._product(operands)
            self._mix(operands, result, axes=((-1, -2), (-2, -1)))
        elif self._marks and name == "convolution" and args[0].stride() == result.stride():
            self._mix(args[:1], result, axes=((1, -1),))
        elif self._marks and name == "sum":
            self._sum(args, kwargs, result)
        elif self._marks and name == "slice":
            self._without_sink(args[0], result)
        elif self._marks and name in SAME:
            self._follow(name, args, result[0] if isinstance(result, tuple) else result)

    def _follow(self, name: str, args: Any, out: torch.Tensor) -> None:
        """Marks what is computed from weights: they are scaled, masked or copied, or multiplied with values."""
        for x in args:
            mark = self._mark_of(x)
            if mark is None or mark.values is not None or mark.sums == "sum":
                continue
            others = [other for other in args if isinstance(other, torch.Tensor) and other is not x]
            if name == "add" and any(other.numel() >= x.numel() for other in others):
                continue  # more than a bias
            if mark.sums:
                total = self._mark_of(others[0]) if name == "div" and others and x is args[0] else None
                if total is not None and total.weights is not None and self._mark_of(total.weights) is mark:
                    self._mark(out, total.size, None)
                continue
            axis = mark.axis_of(x)
            if axis is None:
                continue
            if out.shape == x.shape:
                self._mark(out, out.dim() + axis, _weights(x, mark))
            elif name == "mul" and others and out.numel() > x.numel() and mark.size == 1:  # one key: nothing to sum
                del self._marks[x.untyped_storage()._cdata]
                axis = next((-i for i in range(1, x.dim() + 1) if x.shape[-i] == others[0].shape[-i] == 1), axis)
                weights = _weights(x, mark) if len(mark.shape) > 2 else _with_batch(x, axis, others[0])
                self._weighted(weights, others[0].expand(out.shape).movedim(axis, -2))
            elif name == "mul" and others and out.numel() > x.numel():
                weights = _with_batch(x, axis, others[0])
                self._mark(out, out.dim() + axis, weights, values=others[0].expand(out.shape).movedim(axis, -2))

    def _without_sink(self, raw: torch.Tensor, part: torch.Tensor) -> None:
        """Marks weights without one of their columns, which took part in the softmax, but has no value."""
        mark = self._mark_of(raw)
        axis = None if mark is None or mark.sums or mark.values is not None else mark.axis_of(raw)
        if mark is None or axis is None or part.shape[axis] != mark.size - 1:
            return
        first = (part.storage_offset() - raw.storage_offset()) // mark.step
        weights = None if mark.weights is None else mark.weights.narrow(-1, first, mark.size - 1)
        self._mark(part, part.dim() + axis, weights)

    def _mark(
        self,
        raw: torch.Tensor,
        axis: int,
        weights: torch.Tensor | None,
        values: torch.Tensor | None = None,
        sums: str = "",
    ) -> None:
        storage = raw.untyped_storage()
        self._marks = {key: mark for key, mark in self._marks.items() if not mark.storage.expired()}
        size, step = (axis, 0) if sums == "sum" or not raw.dim() else (raw.shape[axis], raw.stride(axis))
        place = tuple(raw.shape), raw.stride(), int(raw.storage_offset())
        self._marks[storage._cdata] = _TensorMark(StorageWeakRef(storage), *place, size, step, weights, values, sums)

    def _mark_of(self, raw: object) -> _TensorMark | None:
        if not isinstance(raw, torch.Tensor):
            return None
        mark = self._marks.get(raw.untyped_storage()._cdata)
        return mark if mark is not None and not mark.storage.expired() else None

    def _sum(self, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        mark, dims = self._mark_of(args[0]), args[1] if len(args) > 1 else kwargs.get("dim")
        if mark is None or dims is None or len(dims) != 1:
            return
        axis = dims[0] % args[0].dim()
        if mark.sums == "exp":
            self._mark(result, axis, args[0].detach(), sums="sum")
        elif mark.values is not None and mark.weights is not None and mark.axis_of(args[0]) == axis - args[0].dim():
            del self._marks[args[0].untyped_storage()._cdata]
            self._weighted(mark.weights, mark.values)

    def _product(self, operands: list[torch.Tensor]) -> None:
        for raw, axis in zip(operands, (-1, max(-2, -operands[-1].dim())), strict=True):
            mark = self._mark_of(raw)
            if mark is None or mark.sums or mark.values is not None:
                continue
            if raw.shape[axis] == mark.size and raw.stride(axis) == mark.step:
                del self._marks[raw.untyped_storage()._cdata]
                weights = _weights(raw, mark)
                if weights.dim() < raw.dim():  # [batch, keys], as [batch, 1, keys]
                    weights = raw.detach().movedim(axis, -1)
                other = operands[1] if axis == -1 and raw is operands[0] else operands[0].transpose(-1, -2)
                self._weighted(weights, other)

    def _mix(self, operands: Sequence[torch.Tensor], result: torch.Tensor, axes: Sequence[tuple[int, int]]) -> None:
        """Marks a product with a square matrix that mixes the heads.

        axes: of each operand, the one that is summed over, and one that the result has too, with that of the softmax.
        """
        for raw, (summed, kept) in zip(operands, axes, strict=True):
            mark = self._mark_of(raw)
            if mark is None or mark.sums or mark.values is not None or raw.shape != result.shape:
                continue
            weights, stride = _weights(raw, mark), raw.stride(kept)
            if stride and mark.step % stride == 0 and _are_heads(raw, summed, weights):
                storage = result.untyped_storage()
                step = mark.step // stride * result.stride(kept)
                mark = replace(mark, storage=StorageWeakRef(storage), step=step, weights=weights)
                self._marks[storage._cdata] = mark

    def _weighted(self, weights: torch.Tensor, values: torch.Tensor) -> None:
        """Tells of weights [batch, heads, rows, columns], where the first three may be missing."""
        while weights.dim() > 4 and weights.shape[0] == 1:
            weights = weights[0]
        weights = weights[None] if weights.dim() == 1 else weights
        shape = tuple(weights.shape)
        heads = _heads_of(self._inside[-1][0] if self._inside else None)
        if heads > 1 and len(shape) == 3 and shape[0] % heads == 0:  # both in one axis
            shape = (shape[0] // heads, heads, *shape[1:])
        give = _kept(weights)
        path = self._tell(shape, lambda: give()[0].reshape(shape), weights.nbytes, sequences_of(values, shape))
        if path is not None:
            self._unseen[path] -= 1

    def _kernel(self, given: dict[str, Any], how: Callable[..., Any], behind: str = "") -> None:
        """Attention in a kernel. Queries and keys are kept instead of weights, unless the weights are smaller."""
        given.pop("dropout_p", None)
        values = given.pop("value", None)
        values = values if how is _of_dot_product else None
        tensors = {name: x for name, x in given.items() if isinstance(x, torch.Tensor) and name in KEPT}
        numbers = {name: x for name, x in given.items() if not isinstance(x, torch.Tensor)}
        names, shape = [*tensors], _unpacked(_shape(tensors, numbers), self._inside[-1][0] if self._inside else None)
        count = sum(x.nbytes for name, x in tensors.items() if name in ("query", "key", "src"))
        give = _kept(*tensors.values())

        def make() -> torch.Tensor:
            with torch.no_grad():
                return how(dict(zip(names, give(), strict=True)), numbers).reshape(shape)

        if values is not None and shape[-2] < shape[-1] and math.prod(shape) * values.element_size() < count:
            weights = make()
            self._tell(shape, lambda: weights, weights.nbytes, values, behind)
        else:
            self._tell(shape, make, count, values, behind)

    def _tell(
        self,
        shape: tuple[int, ...],
        make: Callable[[], torch.Tensor],
        count: int,
        values: torch.Tensor | None,
        behind: str = "",
    ) -> str | None:
        """Passes weights on. Returns the path of their module; None if they are rfnb's own, or of blocks."""
        is_own, place = _caller()
        if is_own or len(shape) not in (2, 3, 4):
            return None
        path = (self._inside[-1][1] if self._inside else "") + behind
        step = None
        if values is not None and values.dim() > 2 and shape[-1] > 0:
            step = self._steps.next((path, place), self._calls, shape[-2], values)
        self._see(RawAttention(path.lstrip("."), place, shape, make, count, step))
        return path


KEPT = frozenset("query key attn_mask attn_bias mask src qkv_weight qkv_bias norm_weight_1 norm_bias_1".split())
"""Names of the kernel arguments that the weights depend on."""


def _has_nested(args: tuple[object, ...]) -> bool:
    """Whether one is a nested tensor, of which some calls have no decomposition that ends."""
    return any(isinstance(x, torch.Tensor) and x.is_nested for x in args)


def _are_heads(raw: torch.Tensor, axis: int, weights: torch.Tensor) -> bool:
    """Whether an axis that a product sums over counts the heads, and not the queries."""
    before, batch = [*weights.shape[:-2]], raw.shape[0] if raw.dim() > 2 and axis != -1 else 1
    if axis == -2 and batch == math.prod(before):  # each matrix of weights has a product of its own
        return False
    if batch in before:
        before.remove(batch)
    return raw.shape[axis] in before


def _named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def _weights(raw: torch.Tensor, mark: _TensorMark) -> torch.Tensor:
    """The result of the softmax, from a view of it."""
    if mark.weights is not None:
        return mark.weights
    weights = raw.detach().as_strided(mark.shape, mark.stride, mark.offset)
    axis = mark.axis_of(weights)
    return weights if axis is None else weights.movedim(axis, -1)


def _with_batch(weights: torch.Tensor, axis: int, values: torch.Tensor) -> torch.Tensor:
    """Weights that are multiplied entry by entry with values: [batch, rows, columns], which share the batch."""
    weights = weights.detach().movedim(axis, -1)
    sizes = [1] * (weights.dim() - values.dim()) + [*values.movedim(axis, -1).shape]
    lead = [n for n in weights.shape[:-1] if n > 1]
    shared = [n for n, other in zip(weights.shape[:-1], sizes, strict=False) if n > 1 and n == other]
    queries = lead[len(shared) :] if lead[: len(shared)] == shared else [1]
    return weights.reshape(*shared, math.prod(queries), weights.shape[-1])


def _kept(*raws: torch.Tensor) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A function that returns the tensors without their graph, unless they were written into in the meantime."""
    plain = tuple(raw.detach() for raw in raws)
    versions = [(weakref.ref(raw), _version(raw)) for raw in raws]  # only these tensors count writes, not their aliases

    def give() -> tuple[torch.Tensor, ...]:
        if any((raw := alive()) is not None and _version(raw) != version for alive, version in versions):
            raise ViewError(
                "capture: the tensors that the weights are computed from were changed in place later",
                hint="read seen[…].weights before the weights of the model change",
            )
        return plain

    return give


def _version(raw: torch.Tensor) -> int:
    return 0 if raw.is_inference() or raw.is_nested else raw._version


def _heads_of(module: torch.nn.Module | None) -> int:
    counts = [getattr(module, name, None) for name in HEADS]
    return next((count for count in counts if isinstance(count, int)), 0)


def _is_attention(module: torch.nn.Module) -> bool:
    return (
        any(word in type(module).__name__.lower() for word in ("attention", "attend", "attn", "mha"))
        or _heads_of(module) > 1
    )


def _unpacked(shape: tuple[int, ...], module: torch.nn.Module | None) -> tuple[int, ...]:
    """The shape with all heads, where transformers packs those that share their keys into the queries of one step."""
    groups = getattr(module, "num_key_value_groups", 1)
    heads = getattr(getattr(module, "config", None), "num_attention_heads", 0)
    if groups > 1 and len(shape) == 4 and shape[2] == groups and shape[1] * groups == heads:
        return (shape[0], heads, 1, shape[3])
    return shape


def _shape(tensors: dict[str, torch.Tensor], numbers: dict[str, Any]) -> tuple[int, ...]:
    if "src" in tensors or "num_head" in numbers:
        query = tensors.get("src", tensors.get("query"))
        assert query is not None
        key = tensors.get("key", query)
        heads = numbers.get("num_head", numbers.get("num_heads"))
        rows, cols = (x.to_padded_tensor(0).shape[1] if x.is_nested else x.shape[1] for x in (query, key))
        return (query.size(0), int(heads or 1), rows, cols)
    query, key = tensors["query"], tensors["key"]
    return (*query.shape[:-1], key.shape[-2])


# -- recomputing weights


def _of_dot_product(tensors: dict[str, torch.Tensor], numbers: dict[str, Any]) -> torch.Tensor:
    query, keys = tensors["query"], tensors["key"]
    if query.dim() == 4 and keys.shape[-3] != query.shape[-3]:
        keys = keys.repeat_interleave(query.shape[-3] // keys.shape[-3], dim=-3)
    scale = numbers.get("scale")
    mask = tensors.get("attn_mask", tensors.get("attn_bias"))
    scores = query @ keys.transpose(-1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if numbers.get("is_causal"):
        scores = scores.masked_fill(
            ~torch.ones_like(scores[0, 0] if scores.dim() == 4 else scores[0]).tril().bool(), -math.inf
        )
    return _softmax(scores)


def _of_module(tensors: dict[str, torch.Tensor], numbers: dict[str, Any]) -> torch.Tensor:
    query, keys = tensors["query"], tensors["key"]
    heads, width = numbers["num_head"], numbers["embed_dim"]
    weights, bias = tensors["qkv_weight"], tensors["qkv_bias"]
    pad = None
    if query.is_nested:
        sizes = query._nested_tensor_size()[:, 0]
        query = keys = query.to_padded_tensor(0)
        pad = torch.arange(query.shape[1])[None, :] >= sizes[:, None]
    q, k = (
        torch.nn.functional.linear(x, weights[i * width : (i + 1) * width], bias[i * width : (i + 1) * width])
        .unflatten(-1, (heads, -1)).transpose(1, 2)
        for i, x in enumerate((query, keys))
    )  # fmt: skip
    scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
    mask = tensors.get("mask")
    if mask is not None:
        if mask.dim() == 2 and numbers.get("mask_type") == 1:
            mask = mask[:, None, None, :]
        scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if pad is not None:
        scores = scores.masked_fill(pad[:, None, None, :].to(scores.device), -math.inf)
    return _softmax(scores)


def _of_layer(tensors: dict[str, torch.Tensor], numbers: dict[str, Any]) -> torch.Tensor:
    src = tensors["src"]
    if numbers["norm_first"]:
        src = torch.nn.functional.layer_norm(
            src, (src.size(-1),), tensors["norm_weight_1"], tensors["norm_bias_1"], numbers["eps"]
        )
    inputs = {**tensors, "query": src, "key": src}
    return _of_module(inputs, {**numbers, "num_head": numbers["num_heads"]})


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over the last axis; 0 where all scores are masked."""
    return torch.softmax(scores, -1).masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)


def _caller() -> tuple[bool, tuple[object, int] | None]:
    """Whether rfnb itself makes this call, and the innermost place outside torch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_TORCH) and file != __file__:
            return file.startswith(_OWN), (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return False, None


# -- which sequence of the last step each row of a batch continues, told by the values of its keys


FEATURES = 8
"""So many features of the first head stand for the values of a position."""
NEAR = 1e-3
"""Values that are computed again differ by rounding only."""
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class _Call:
    """A call at a place: numbers for the values at each position [batch, keys], and how many queries came so far."""

    numbers: torch.Tensor
    sample: torch.Tensor
    position: int


class StepFinder:
    """Compares each call with the last one at its place. Of each place, the numbers of one call are kept."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Call] = {}

    def next(self, place: Hashable, call: int, rows: int, values: torch.Tensor) -> RawStep:
        """How a call with so many queries continues the last one. values: [batch, …, keys, features]"""
        sample = values.detach().flatten(1, -3)[:, 0] if values.dim() > 3 else values.detach()
        sample = sample[..., :FEATURES].contiguous()
        last, numbers = self._last.get(place), _numbers(sample)
        count = numbers.shape[1]
        same = last is not None and last.numbers.shape[1] == count
        step = RawStep(call) if last is None else _compare(last, numbers, sample, rows, call)
        before = 0 if last is None or step.keys == "new" else last.position
        self._last[place] = _Call(numbers, sample, before + rows if same or last is None else count)
        return step


def _compare(last: _Call, numbers: torch.Tensor, sample: torch.Tensor, rows: int, call: int) -> RawStep:
    count, before = numbers.shape[1], last.numbers.shape[1]

    def parents(ends: int, size: int) -> tuple[tuple[int, ...], bool] | None:
        """By the values at the first `size` positions, which were before position `ends` of the last call."""
        if not 0 < size <= ends <= before:
            return None
        return _parents(_sum(last.numbers[:, ends - size : ends]), _sum(numbers[:, :size]))

    if count == before and (found := parents(before, count)) is not None:
        return RawStep(call, "same", *found)
    if (found := parents(count - rows, count - rows)) is not None:
        return RawStep(call, "more", *found)
    if count == before and last.position < count and (found := parents(last.position, last.position)) is not None:
        return RawStep(call, "written", *found)
    if (found := parents(before, count - rows)) is not None:
        return RawStep(call, "slid", *found)
    if rows == count > before and _are_near(last.sample[:, -1], sample[:, before - 1]):
        return RawStep(call, "again")
    return RawStep(call)


def _parents(last: torch.Tensor, now: torch.Tensor) -> tuple[tuple[int, ...], bool] | None:
    """The place of each number in those of the last call, if all are there; and whether some are there twice."""
    places: dict[int, list[int]] = {}
    for place, number in enumerate(last.tolist()):
        places.setdefault(number, []).append(place)
    found = [places.get(number, []) for number in now.tolist()]
    if not all(found):
        return None
    parents = tuple(row if row in candidates else candidates[0] for row, candidates in enumerate(found))
    return parents, any(len(candidates) > 1 for candidates in found)


def _are_near(last: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether each row is one of the last call, but for rounding."""
    difference = (now[:, None].float() - last[None].float()).abs().amax(-1)
    return bool((difference.amin(1) <= NEAR * (1 + last.float().abs().amax())).all())


def _numbers(sample: torch.Tensor) -> torch.Tensor:
    """A whole number for the values at each position, by their bits: the same for copies. [batch, keys]"""
    bits = sample.view(BITS[sample.element_size()]).long()
    return (bits * _factors_on(bits, bits.shape[2])).sum(-1)


def _sum(numbers: torch.Tensor) -> torch.Tensor:
    """A whole number for the values at these positions, in this order. [batch]"""
    return (numbers * _factors_on(numbers, FEATURES + numbers.shape[1])[FEATURES:]).sum(-1)


def _factors_on(numbers: torch.Tensor, count: int) -> torch.Tensor:
    return torch.from_numpy(_factors(1 << count.bit_length())[:count]).to(numbers.device)


@cache
def _factors(count: int) -> np.ndarray:
    """Odd numbers; of more, the first ones are the same."""
    return np.random.default_rng(0).integers(2**62, size=count, dtype=np.int64) | 1


def sequences_of(values: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """Values [batch · heads, keys, features] as [batch, heads, keys, features], for weights of a shape."""
    if values.shape[-2] != shape[-1]:
        return None
    if values.dim() == 2:
        return values[None]
    batch = shape[0] if len(shape) > 2 else 1
    return values.reshape(batch, -1, *values.shape[-2:]) if values[..., 0, 0].numel() % max(1, batch) == 0 else None
