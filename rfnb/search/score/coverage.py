"""The coverage penalty (Wu et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.create import full, zeros
from rfnb.ops.math import log, maximum, minimum
from rfnb.ops.reduce import reduce_sum


class Coverage:
    """Σ log(min(attention, 1)) over all frames, where `attention` is what a frame got in all steps; it is added at the
    end of a hypothesis. Outputs that leave out a part of the input have a low score.

    "Google's neural machine translation system" (Wu et al. 2016), equation 14, whose β is the scale. It is made in the
    body of the loop, of the attention weights of the step:
    `{"model": logits, "coverage": (rf.search.Coverage(weights, axis=time), 0.2)}`.

    >>> time, beam = rf.Dim(2, name="time"), rf.Dim(1, name="beam")
    >>> weights = rf.convert_to_tensor([[0.75, 0.25]], dims=[beam, time])
    >>> coverage = rf.search.Coverage(weights, axis=time)
    >>> _, state = coverage.score(None, coverage.initial_state(batch_dims=[beam]))
    >>> _, state = coverage.score(None, state)  # 1.5 and 0.5
    >>> rf.exp(coverage.final(state)).raw_tensor.tolist()
    [0.5]

    Args:
        weights: of the frames in this step. {…, beam, axis}
        axis: the dim of the frames.
        least: what a frame got at least, so that its logarithm is finite.
    """

    def __init__(self, weights: Tensor, *, axis: Dim, least: float = 1e-6):
        if axis not in weights.dims:
            raise DimError("Coverage: `weights` lacks the dim of the frames", got=weights.dims, expected=axis.name)
        self.weights, self.axis, self.least = weights, axis, least

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Tensor:
        """No frame got anything. {…, beam, axis}"""
        return zeros([*batch_dims, self.axis], dtype=self.weights.dtype, device=self.weights.device)

    def score(self, label: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        """0 for all labels, and what each frame got so far."""
        return full(dims=[], fill_value=0.0, device=state.device), state + self.weights

    def final(self, state: Tensor) -> Tensor:
        """The penalty. {…, beam, axis} → {…, beam}"""
        return reduce_sum(log(minimum(maximum(state, self.least), 1.0)), axis=self.axis)


guard_methods(Coverage, "__init__")
