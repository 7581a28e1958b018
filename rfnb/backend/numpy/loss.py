"""Losses on numpy arrays."""

from __future__ import annotations

import numpy as np

from rfnb.backend.numpy.math import Array
from rfnb.backend.numpy.reduce import NumpyReduce


class NumpyLoss:
    """The raw part of `backend.base.loss`."""

    @staticmethod
    def cross_entropy_raw(logits: Array, labels: Array) -> Array:
        """-log softmax(logits)[label], over the last axis."""
        log_probs = NumpyReduce.log_softmax_raw(logits, -1, None, False)
        return -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]
