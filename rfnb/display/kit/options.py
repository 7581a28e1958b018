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

PICTURE_PIXELS = 8_000
"""Of a tensor's picture: fewer rows where there are many columns."""

BARS = 64
"""Up to so many sequences have a bar each for their length; more are told by a histogram."""

LABEL_SEQUENCES = 8
LABEL_TOKENS = 24
LABEL_COUNTS = 10
TREE_NODES = 2000
"""Of nested structures: parts that are shown, those among them whose numbers are looked at, parts of one, and depth."""
TREE_STATS = 500
TREE_CHILDREN = 200
TREE_DEPTH = 12
TREE_ENTRIES = 16_000_000
"""So many entries, all tensors together, are looked at one by one; of the tensors after them a sample."""
SKETCH_ENTRIES = 4096
"""How large that sample is."""

MODULE_ENTRIES = 16_000_000
"""Of parameters and gradients whose norms are computed, all together."""
MODULE_LINES = 250
"""Parameters and modules that the tree of a module shows; the table has all."""
MODULE_DEPTH = 24

LENGTHS = 256
TAGS = 256
HISTORY_STEPS = 12
SPARK_STEPS = 64
ATTENTION_CELLS = 400
"""Rows and columns of an attention picture, at most."""

ATTENTION_LINES = 24
"""Rows and heads that are told as text, at most."""

ATTENTION_HEADS = 1024
"""How many heads are drawn, at most."""

ATTENTION_PIXELS = 2_400_000
"""Of the pictures of all heads together: at half a byte each."""

ATTENTION_FINE = 300_000
"""Up to here a pixel of them is a byte."""
