"""Checks of a model: whether padding changes its results, and which op made a NaN."""

from rfnb.loop.check.batch_invariance import batch_invariance as batch_invariance
from rfnb.loop.check.finite import finite as finite
