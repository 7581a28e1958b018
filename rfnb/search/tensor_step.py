"""A step with Tensors, as a step with raw tensors whose first axis counts the hypotheses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

Step = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Shared:
    """A Tensor of the state that is the same for all hypotheses of all sequences, such as a position."""

    tensor: Tensor


class TensorStep:
    """A step for raw tensors, made of one that gets and gives Tensors {batch, beam, …}.

    Args:
        step: the step. state: the first state, whose Tensors have the batch. beam: the number of hypotheses of each
            sequence. labels: the dim of the labels; by default that dim of the scores which is neither batch nor beam.
            batch: the dim of the sequences; by default `batch_dim`, or the first one of a Tensor.
    """

    def __init__(self, step: Step, state: object, beam: int, labels: Dim | None, batch: Dim | None):
        tensors = [leaf for leaf in leaves(state) if isinstance(leaf, Tensor)]
        self.step, self.labels, self.beam = step, labels, Dim(beam, name="beam")
        owner = next((dim for x in tensors for dim in x.dims if dim == (batch or batch_dim)), None)
        tensor = next((x for x in tensors if x.dims if owner is None or owner in x.dims_set), None)
        if tensor is None or (batch is not None and owner is None):
            raise _lacks(batch or batch_dim, tensors[0])
        self.batch = owner or tensor.dims[0]
        self.tags = tensor.size_of(self.batch).tags
        mark_beam(self.beam)
        self._like: list[Any] = []  # each Tensor of the state, of raw ones None
        self.state = self._flat(state, [self.batch])

    def __call__(self, prev: Any, state: object) -> Any:
        """Scores [N, labels], and the state with N as first axis."""
        places = [self.batch, self.beam]
        count = prev.shape[0] // self.beam.get_dim_value()
        label = tensor_of(prev.reshape(count, -1), align.sig(places, self.labels), current_lengths([self.batch]))
        likes = iter(self._like)
        result = self.step(label, map_leaves(lambda leaf: self._full(leaf, next(likes), count), state))
        if not isinstance(result, tuple) or len(result) != 2:
            return result
        scores, state = result
        if isinstance(scores, Tensor):
            labels = self.labels if self.labels in scores.dims_set else None
            labels = labels or next((dim for dim in reversed(scores.dims) if dim not in places), None)
            order = [*places, *([] if labels is None else [labels])]
            scores = scores.copy_transpose(order)._raw.reshape(prev.shape[0], -1)
        return scores, self._flat(state, places)

    def _flat(self, state: object, places: list[Dim]) -> object:
        """The state with raw tensors, the hypotheses as rows."""
        self._like = [leaf if isinstance(leaf, Tensor) else None for leaf in leaves(state)]
        return map_leaves(lambda leaf: self._rows(leaf, places) if isinstance(leaf, Tensor) else leaf, state)

    def _rows(self, x: Tensor, places: list[Dim]) -> Any:
        if not x.dims_set.intersection([self.batch, self.beam]):
            return Shared(x)
        lacking = next((dim for dim in places if dim not in x.dims_set), None)
        if lacking is not None:
            raise _lacks(lacking, x)
        raw = x.copy_transpose([*places, *self._rest(x)])._raw
        return raw.reshape(-1, *raw.shape[len(places) :]) if len(places) > 1 else raw

    def _full(self, raw: RawTensor, like: Tensor | None, count: int) -> Any:
        """A Tensor of a raw one whose rows are the hypotheses. {batch, beam, …}"""
        if like is None or isinstance(raw, Shared):
            return raw.tensor if isinstance(raw, Shared) else raw
        signature = align.sig([self.batch, self.beam, *self._rest(like)], like.sparse_dim, like.feature_dim)
        return tensor_of(raw.reshape(count, raw.shape[0] // max(count, 1), *raw.shape[1:]), signature, like.lengths)

    def _rest(self, x: Tensor) -> list[Dim]:
        return [dim for dim in x.dims if dim is not self.batch and dim is not self.beam]


def _lacks(dim: Dim, x: Tensor) -> DimError:
    return DimError(
        f"decode: a Tensor of the state lacks the dim {dim.name}",
        got=x.describe_dims(),
        expected="a value for each hypothesis",
        hint="leave out what is the same for all hypotheses: lambda prev, state: model(prev, state, encoded)",
    )
