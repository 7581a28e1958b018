"""Attention on torch tensors, and observing that of plain torch: in `torch.nn`, in kernels, as softmax and product.

It observes the calls below autograd, where observing does not change which kernels are chosen.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules import module as modules
from torch.utils._python_dispatch import TorchDispatchMode

from rfnb.backend.base.attention import RawAttention
from rfnb.backend.base.random import random_stream
from rfnb.backend.torch.module_state import uncompiled
from rfnb.backend.torch.random import TorchRandom
from rfnb.errors import ViewError


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
    def watching_attention(cls, see: Callable[[RawAttention], None], model: Any) -> AbstractContextManager[Any]:
        """Inside, `see` is called with each attention that plain torch computes."""

        if model is not None and not isinstance(model, torch.nn.Module):
            return nullcontext()
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


See = Callable[[RawAttention], None]

_TORCH, _OWN = str(Path(torch.__file__).parent) + "/", str(Path(__file__).parents[2]) + "/"
SOFTMAX = frozenset({"_softmax", "_safe_softmax", "softmax", "special_softmax"})
SAME = frozenset(
    {"native_dropout", "dropout", "mul", "div", "_to_copy", "to", "clone", "where", "masked_fill", "contiguous"}
)
"""Calls after which weights are still weights."""
PRODUCTS = frozenset({"bmm", "mm", "mv", "baddbmm", "matmul"})


@dataclass(frozen=True)
class _TensorMark:
    """A softmax over the last axis, by its shape and place in its storage, or a tensor computed from it."""

    storage: StorageWeakRef
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    weights: torch.Tensor | None


class AttentionMode(TorchDispatchMode):
    """Calls `see` with each attention, inside `model` if given."""

    def __init__(self, see: See, model: torch.nn.Module | None):
        super().__init__()
        self._see, self._model = see, model
        self._names = {} if model is None else _names_below(model, "")  # modules by id
        self._own = frozenset(self._names)
        self._inside: list[tuple[torch.nn.Module, str]] = []
        self._marks: dict[int, _TensorMark] = {}  # by storage

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise the first call imports torch's compiler, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Makes a call."""
        kwargs = kwargs or {}
        if func._can_decompose() and (self._inside or self._model is None):  # in inference mode
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if (self._model is None or self._inside) and torch._C._current_graph_task_id() == -1:  # not in a backward pass
            with suppress(Exception):  # whatever the error is, the model must go on
                self._look(func.overloadpacket.__name__, func, args, kwargs, result)
        return result

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Starts to observe."""
        handles = [
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        try:
            with uncompiled(), self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        if self._inside or self._model is None or id(module) in self._own:
            if not self._inside and self._model is None:
                self._names = _names_below(module, type(module).__name__)
            outer = self._inside[-1][1] if self._inside else ""
            name = self._names.get(id(module), f"{outer}.{type(module).__name__}".lstrip("."))
            self._inside.append((module, name))

    def _leave_module(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if self._inside and self._inside[-1][0] is module:
            self._inside.pop()

    # -- kinds of calls

    def _look(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if name in SOFTMAX:
            dim = args[1] if len(args) > 1 else kwargs["dim"]
            if dim in (-1, result.dim() - 1) and result.dim() > 1:
                self._mark(result, None)
        elif "scaled_dot_product" in name and "backward" not in name:
            self._kernel(_named(func, args, kwargs), _of_dot_product)
        elif name == "_native_multi_head_attention":
            self._kernel(_named(func, args, kwargs), _of_module)
        elif name == "_transformer_encoder_layer_fwd":
            self._kernel(_named(func, args, kwargs), _of_layer, ".self_attn")
        elif self._marks and name in PRODUCTS:
            self._product([x for x in args if isinstance(x, torch.Tensor)][-2:])
        elif self._marks and name in SAME:
            out = result[0] if isinstance(result, tuple) else result
            for x in args:
                mark = self._mark_of(x)
                if mark is not None and out.shape == x.shape:
                    self._mark(out, _weights(x, mark))

    def _mark(self, raw: torch.Tensor, weights: torch.Tensor | None) -> None:
        storage = raw.untyped_storage()
        self._marks = {key: mark for key, mark in self._marks.items() if not mark.storage.expired()}
        self._marks[storage._cdata] = _TensorMark(
            StorageWeakRef(storage), tuple(raw.shape), raw.stride(), int(raw.storage_offset()), weights
        )

    def _mark_of(self, raw: Any) -> _TensorMark | None:
        if not isinstance(raw, torch.Tensor):
            return None
        mark = self._marks.get(raw.untyped_storage()._cdata)
        return mark if mark is not None and not mark.storage.expired() else None

    def _product(self, operands: list[torch.Tensor]) -> None:
        for raw, axis in zip(operands, (-1, max(-2, -operands[-1].dim())), strict=True):
            mark = self._mark_of(raw)
            if mark and raw.shape[axis] == mark.shape[-1] and raw.stride(axis) == mark.stride[-1]:
                del self._marks[raw.untyped_storage()._cdata]
                self._weighted(_weights(raw, mark))

    def _weighted(self, weights: torch.Tensor) -> None:
        shape = tuple(weights.shape)
        heads = _heads_of(self._inside[-1][0] if self._inside else None)
        if heads and len(shape) == 3 and shape[0] % heads == 0:  # torch.nn has both in one axis
            shape = (shape[0] // heads, heads, *shape[1:])
        give = _kept(weights)
        self._tell(shape, lambda: give()[0].reshape(shape), weights.nbytes)

    def _kernel(self, given: dict[str, Any], how: Callable[..., Any], behind: str = "") -> None:
        """Attention in a kernel. Queries and keys are kept instead of weights."""
        for name in ("value", "dropout_p"):
            given.pop(name, None)
        tensors = {name: x for name, x in given.items() if isinstance(x, torch.Tensor) and name in KEPT}
        give = _kept(*tensors.values())
        numbers = {name: x for name, x in given.items() if not isinstance(x, torch.Tensor)}
        names, shape = [*tensors], _shape(tensors, numbers)
        count = sum(x.nbytes for name, x in tensors.items() if name in ("query", "key", "src"))

        def make() -> torch.Tensor:
            with torch.no_grad():
                return how(dict(zip(names, give(), strict=True)), numbers)

        self._tell(shape, make, count, behind)

    def _tell(self, shape: tuple[int, ...], make: Callable[[], torch.Tensor], count: int, behind: str = "") -> None:
        is_own, place = _caller()
        if not is_own and len(shape) in (2, 3, 4):
            path = (self._inside[-1][1] if self._inside else "") + behind
            self._see(RawAttention(path.lstrip("."), place, shape, make, count))


KEPT = frozenset("query key attn_mask attn_bias mask src qkv_weight qkv_bias norm_weight_1 norm_bias_1".split())
"""Names of the kernel arguments that the weights depend on."""


def _named(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | kwargs


def _weights(raw: torch.Tensor, mark: _TensorMark) -> torch.Tensor:
    """The result of the softmax, from a view of it."""
    if mark.weights is not None:
        return mark.weights
    return raw.detach().as_strided(mark.shape, mark.stride, mark.offset)


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


def _names_below(module: torch.nn.Module, root: str) -> dict[int, str]:
    return {id(m): ".".join(filter(None, (root, name))) for name, m in module.named_modules()}


def _heads_of(module: torch.nn.Module | None) -> int:
    return int(getattr(module, "num_heads", 0) or 0) if isinstance(module, torch.nn.MultiheadAttention) else 0


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


def _caller() -> tuple[bool, tuple[Any, int] | None]:
    """Whether rfnb itself makes this call, and the innermost place outside torch."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_TORCH) and file != __file__:
            return file.startswith(_OWN), (frame.f_code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return False, None
