"""Checks of a model: whether padding changes its results, and which op made a NaN."""

from rfnb.loop.check.finiteness import finite as finite
from rfnb.loop.check.invariance import batch_invariance as batch_invariance
