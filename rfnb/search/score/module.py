"""An rf module, such as a language model, as a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.reduce import log_softmax
from rfnb.ops.shape import set_sparse_dim


class ModuleScorer:
    """Scores labels by a module that has `default_initial_state(batch_dims=)`, and that gives the scores of the next
    labels over its feature dim, `module(label, state=…, spatial_dim=rf.single_step_dim) → (scores, state)`.

    Logits are normalized, {…, beam, labels}; log-probabilities stay as they are. `loop.choice` makes one of each module
    that it is given.
    """

    only_falls = True  # scores are log-probabilities

    def __init__(self, module: Any):
        self.module = module

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Any:
        """The initial state of the module."""
        return self.module.default_initial_state(batch_dims=batch_dims)

    def score(self, label: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Log-probabilities of the next labels. {…, beam} → {…, beam, labels}"""
        labels = getattr(self.module, "vocab_dim", None)
        if isinstance(labels, Dim) and label.sparse_dim is not labels:
            label = set_sparse_dim(label, labels)
        scores, state = self.module(label, state=state, spatial_dim=single_step_dim)
        if scores.feature_dim is None:
            raise DimError(
                "choice: the scores of a module have no feature dim",
                got=scores.describe_dims(),
                hint=f"rf.set_feature_dim(scores, {likely_features(scores) or 'labels'}) at the end of its __call__",
            )
        return log_softmax(scores, axis=scores.feature_dim), state
