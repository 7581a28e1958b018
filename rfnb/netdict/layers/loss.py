"""Losses and distances as layers: loss, sparse_softmax_cross_entropy_with_logits, edit_distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer
from rfnb.netdict.losses import loss_by_name, on_frames_of
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.ops.loss import cross_entropy, edit_distance
from rfnb.ops.math import cast
from rfnb.ops.shape import set_sparse_dim


class LossLayer(Layer, layer_class="loss"):
    """The loss, or the error, of each frame or sequence, as an output. {…, F}, {…} → {…}"""

    loss_: str = value(REQUIRED, str)
    loss_opts_: dict[str, Any] | None = value(None, dict)
    target_: Any = layer(REQUIRED)
    use_error: bool = value(False, bool)

    @classmethod
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """`target_` is a data key, unless it says that it is a layer."""
        target = str(described.get("target_", ""))
        is_prefixed = target.startswith(("layer:", "data:"))
        return {**described, "target_": target.removeprefix("layer:") if is_prefixed else f"data:{target}"}

    def compute(self, x: Tensor, target_: Tensor) -> Tensor:
        """{…, F}, {…} → {…}"""
        loss = loss_by_name(self.loss_, self.loss_opts_)
        target = on_frames_of(target_, x) if loss.by_frame else target_
        train = bool(get_run_ctx().train_flag)
        result = (loss.error if self.use_error else loss.value)(x, None, target, train=train)
        if result is None:
            raise NetworkError(f"the loss {self.loss_!r} has no {'error' if self.use_error else 'value'}")
        return result


class SparseCrossEntropy(Layer, layer_class="sparse_softmax_cross_entropy_with_logits", sourceless=True):
    """−log softmax(logits)[target]. {…, axis}, {…} → {…}"""

    logits: Any = layer(REQUIRED)
    targets: Any = layer(REQUIRED)
    axis: Any = value("F")

    def setup(self, logits: Tensor, targets: Tensor) -> None:  # type: ignore[override]
        """The axis of the labels."""
        self.labels = self.pool.one(self.axis, logits)

    def compute(self, logits: Tensor, targets: Tensor) -> Tensor:
        """{…, axis}, {…} → {…}"""
        target = set_sparse_dim(on_frames_of(targets, logits), self.labels)
        return cross_entropy(estimated=logits, target=target, axis=self.labels, estimated_type="logits")


class EditDistance(Layer, layer_class="edit_distance", sourceless=True):
    """The fewest insertions, deletions and substitutions from `a` to `b` (Levenshtein 1966). {a}, {b} → {}"""

    a: Any = layer(REQUIRED)
    b: Any = layer(REQUIRED)

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """{…, a}, {…, b} → {…}"""
        first, second = time_of(a), time_of(b)
        if first is None or second is None:
            raise NetworkError("edit_distance needs two sequences", got=f"{a.describe_dims()}, {b.describe_dims()}")
        a, b = (set_sparse_dim(cast(x, "int64"), None) for x in (a, b))
        return edit_distance(a, first, b, second)
