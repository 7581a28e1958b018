"""Attention on raw tensors, and the events that report attention which other code computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.tensor.tensor import RawTensor


@dataclass(frozen=True)
class RawStep:
    """How a call of attention continues the last one at the same place in the code.

    call: number of the call of the outermost module that it is in. keys: "same" if its keys are those of the last call,
    "more" if some came after them, "slid" if some came after the last ones of them, "written" if some were written into
    the same tensor, "again" if all of them were computed again with some after them, else "new". parents: of each
    sequence of the batch, its place in the batch of the last call, where its keys say so. alike: whether several
    sequences of that batch have the same keys.
    """

    call: int
    keys: Literal["same", "more", "slid", "written", "again", "new"] = "new"
    parents: tuple[int, ...] | None = None
    alike: bool = False


@dataclass(frozen=True)
class RawAttention:
    """Attention that a function on raw tensors computed.

    path: path of the module. place: (code, instruction) of the user's line. shape: shape of the weights, [batch, heads,
    rows, columns], where the second, or the first two may be missing. make: computes the weights. bytes: memory kept
    for that. step: None if the keys were not seen.
    """

    path: str
    place: tuple[Any, int] | None
    shape: tuple[int, ...]
    make: Callable[[], Any]
    bytes: int
    step: RawStep | None = None


class AttentionOps:
    """Raw part: `attention_raw(query, keys, values, mask, causal, scale, bias, dropout)` on […, frames, features];
    `relative_shift_raw(scores, keys)` on […, queries, distances]; `turn_pairs_raw(x, cosines, sines)`.
    """

    attention_raw: Any = None
    relative_shift_raw: Callable[[RawTensor, int], RawTensor]
    turn_pairs_raw: Callable[[RawTensor, RawTensor, RawTensor], RawTensor]

    @classmethod
    def watching_attention(
        cls, see: Callable[[RawAttention], None], model: object
    ) -> AbstractContextManager[list[str]]:
        """Inside, `see` is called with each attention that other code than rfnb computes on raw tensors.

        model: the module to observe; None observes everything. The list has, after the block, the paths of modules for
        attention whose softmax was not seen to weight values.
        """
        return nullcontext([])
