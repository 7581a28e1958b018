"""The CTC prefix score (Hori et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import CountFrom0
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import equal, is_neg_infinite, log_add_exp, where
from rfnb.ops.reduce import reduce_logsumexp, reduce_sum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import cumsum, shift_right
from rfnb.search.sources import over

NONE = -1
"""In place of the last label of a hypothesis that has none yet."""


class CTCPrefix:
    """The probability, by the frames of a CTC model, that their labels begin with those of the hypothesis; and for the
    end label, that there are no others. Scores are log p(with the next label) − log p(without it).

    "Advances in joint CTC-attention based end-to-end speech recognition" (Hori et al. 2017), algorithm 2; for the whole
    batch and beam at once, and without a loop over frames.

    >>> time, phone, beam = rf.Dim(2, name="time"), rf.Dim(3, name="phone"), rf.Dim(1, name="beam")
    >>> frames = rf.log(rf.convert_to_tensor([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], dims=[time, phone]))
    >>> ctc = rf.search.CTCPrefix(frames, axis=time, classes=phone, blank=2, end=0)
    >>> state = ctc.advance(None, ctc.initial_state(batch_dims=[beam]))
    >>> labels = rf.convert_to_tensor([[0, 1]], dims=[beam, rf.Dim(2, name="candidates")])
    >>> rf.exp(ctc.partial(labels, state)).raw_tensor.tolist()  # no label at all; a label 1, first or after a blank
    [[0.0, 0.375]]

    It costs much for each label and is asked for candidates only, as a `PartialScorer`.

    Args:
        log_probs: of the classes in each frame. {…, axis, classes}
        axis: the dim of the frames.
        classes: the dim of the classes; default: the feature dim. The labels of the search are classes by number.
        blank: the number of the blank.
        end: the label of the search that ends a hypothesis; the CTC model need not have it.
    """

    only_falls = True  # scores are log-probabilities
    scores_ends = True

    def __init__(self, log_probs: Tensor, *, axis: Dim, blank: CountFrom0, end: int | None, classes: Dim | None = None):
        dim = classes or log_probs.feature_dim
        if dim is None or not {dim, axis} <= set(log_probs.dims):
            raise DimError(
                "CTCPrefix: `log_probs` needs the dim of the frames and that of the classes",
                got=log_probs.describe_dims(),
                expected=f"{axis.name}, {'classes=…' if dim is None else dim.name}",
            )
        size = dim.get_dim_value()
        if not 0 <= blank < size:
            raise DimError("CTCPrefix: `blank` is not a class", got=blank, expected=f"a class of {dim.describe()}")
        self.log_probs, self.axis, self.classes, self.blank, self.end = log_probs, axis, dim, blank, end

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state without labels: all frames so far were blanks.

        labeled, blank: log-probabilities of the hypothesis in the frames before each one, the last of which is its last
        label, or a blank. {…, beam, axis}. whole: that of all frames; prefix: that of the frames beginning with it.
        """
        mark_beam(batch_dims[-1])
        blanks = gather(self.log_probs, indices=self.blank, axis=self.classes)
        blank = shift_right(cumsum(blanks, spatial_dim=self.axis), axis=self.axis, pad_value=0.0)
        dims = list(batch_dims)
        foreign = [dim for dim in blanks.dims if dim is not self.axis and dim not in dims]
        if foreign:
            raise DimError(
                "CTCPrefix: `log_probs` has a dim that the hypotheses lack", got=self.log_probs.describe_dims(),
                expected=", ".join(dim.describe() for dim in [*dims, self.axis, self.classes]),
                hint=f"in rf.search.decode: batch={foreign[0].name}, the dim of the sequences", dims=foreign,
            )  # fmt: skip
        blank, total = over(blank, [*dims, self.axis]), over(reduce_sum(blanks, axis=self.axis), dims)
        device = blanks.device
        return State(
            labeled=full(dims=[*dims, self.axis], fill_value=-np.inf, dtype=blanks.dtype, device=device),
            blank=blank,
            whole=total,
            prefix=full(dims=dims, fill_value=0.0, dtype=blanks.dtype, device=device),
            last=full(dims=dims, fill_value=NONE, dtype="int64", device=device),
            first=full(dims=[], fill_value=True, device=device),
        )

    def advance(self, label: Tensor | None, state: State) -> State:
        """The state after one more label. {…, beam}"""
        going = full(dims=[], fill_value=False, device=state.first.device)
        if label is None:
            return State(state | {"first": going})
        label = set_sparse_dim(label, None)
        frames, entering = self._frames(label), self._entering(label, state)
        labeled = self._over_time(frames, entering + frames)
        blanks = gather(self.log_probs, indices=self.blank, axis=self.classes)
        behind = shift_right(labeled, axis=self.axis, pad_value=-np.inf)
        blank = self._over_time(blanks, behind + blanks)
        lengths = get_size_tensor(self.axis, device=label.device)
        last = equal(range_over_dim(self.axis, device=label.device), lengths - 1)
        total = where(last, log_add_exp(labeled, blank), -np.inf)
        new = {
            "labeled": behind,
            "blank": shift_right(blank, axis=self.axis, pad_value=-np.inf),
            "whole": reduce_logsumexp(total, axis=self.axis),
            "prefix": reduce_logsumexp(entering + frames, axis=self.axis),
            "last": label,
        }
        return State({name: where(state.first, state[name], x) for name, x in new.items()} | {"first": going})

    def partial(self, labels: Tensor, state: State) -> Tensor:
        """Log-probabilities of candidates. {…, beam, candidates} → the same"""
        labels = set_sparse_dim(labels, None)
        prefix = reduce_logsumexp(self._entering(labels, state) + self._frames(labels), axis=self.axis)
        prefix = where(equal(labels, self.blank), -np.inf, prefix)
        if self.end is not None:
            prefix = where(equal(labels, self.end), state.whole, prefix)
        return where(is_neg_infinite(state.prefix), -np.inf, prefix - state.prefix)

    def final(self, state: State) -> Tensor:
        """The log-probability that no label follows, if no label said so. {…, beam}"""
        score = where(is_neg_infinite(state.prefix), -np.inf, state.whole - state.prefix)
        return score if self.end is None else where(equal(state.last, self.end), 0.0, score)

    def _frames(self, labels: Tensor) -> Tensor:
        """The log-probabilities of labels in each frame. {…} → {…, axis}"""
        if self.end is not None:
            labels = where(equal(labels, self.end), self.blank, labels)  # it may be no class
        return gather(self.log_probs, indices=labels, axis=self.classes)

    def _entering(self, labels: Tensor, state: State) -> Tensor:
        """The log-probability of the hypothesis in the frames before each one, if one of `labels` begins there: after
        the same label, there must be a blank. {…, beam, …} → {…, beam, …, axis}"""
        either = log_add_exp(state.labeled, state.blank)
        return where(equal(labels, state.last), state.blank, either, allow_broadcast_all_sources=True)

    def _over_time(self, staying: Tensor, entering: Tensor) -> Tensor:
        """x(t) = log(exp(x(t − 1) + staying(t)) + exp(entering(t))), for all frames in log₂(frames) rounds of sums over
        twice as many frames (Hillis and Steele 1986). {…, axis} → the same"""
        amount = 1
        while amount < self.axis.get_dim_value():
            earlier = shift_right(entering, axis=self.axis, pad_value=-np.inf, amount=amount)
            entering = log_add_exp(earlier + staying, entering)
            staying = staying + shift_right(staying, axis=self.axis, pad_value=0.0, amount=amount)
            amount *= 2
        return entering


guard_methods(CTCPrefix, "__init__")
