"""Checks of a model: does padding get into results, and which op made a NaN."""

from rfnb.loop.batch_invariance import batch_invariance as batch_invariance
from rfnb.loop.finite import finite as finite
