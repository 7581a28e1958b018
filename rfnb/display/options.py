"""How much work and how many bytes a view may cost."""

from __future__ import annotations

EXACT_ENTRIES = 4_000_000
"""Tensors with more entries than this are looked at in part, and the view says so."""

SAMPLE_ENTRIES = 1_000_000
"""How many entries are looked at then."""

FINITE_ENTRIES = 64_000_000
"""Up to here every entry is still asked whether it is NaN or Inf, by one sum a frame."""

HISTOGRAM_ENTRIES = 50_000
HISTOGRAM_BINS = 8

TABLE_ENTRIES = 400
"""Tensors up to this many entries are shown as a table of numbers, larger ones as a picture."""

PICTURE_CELLS = (96, 256)
"""Rows and columns of a picture, at most."""

LABEL_SEQUENCES = 8
LABEL_TOKENS = 24
LENGTHS = 256
TAGS = 256
HISTORY_STEPS = 12
SPARK_STEPS = 64
ATTENTION_CELLS = 400
"""Rows and columns of an attention picture, at most."""
