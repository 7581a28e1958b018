"""Limits of views: how much work and how many bytes they may cost."""

from __future__ import annotations

EXACT_ENTRIES = 4_000_000
"""Tensors with more entries than this are sampled, and the view says so."""

SAMPLE_ENTRIES = 1_000_000
"""Number of entries in such a sample."""

FINITE_ENTRIES = 64_000_000
"""Tensors up to this many entries are searched completely for NaN and Inf, by one sum per frame."""

HISTOGRAM_ENTRIES = 50_000
HISTOGRAM_BINS = 8

TABLE_ENTRIES = 400
"""Tensors up to this many entries are shown as a table of numbers, larger ones as a picture."""

PICTURE_CELLS = (96, 256)
"""Largest number of rows and of columns in a picture."""

PICTURE_PIXELS = 8_000
"""Largest number of pixels in a tensor's picture: wide pictures have fewer rows."""

BARS = 64
"""Up to this many sequences get a length bar each; more are shown as a histogram."""

LABEL_SEQUENCES = 8
LABEL_TOKENS = 24
LABEL_COUNTS = 10
TREE_NODES = 2000
"""Limits of nested structures: parts shown, parts with statistics, parts of one structure, and depth (see below)."""
TREE_STATS = 500
TREE_CHILDREN = 200
TREE_DEPTH = 12
TREE_ENTRIES = 16_000_000
"""Number of entries, over all tensors of a structure, that are read in full; later tensors are sampled."""
SKETCH_ENTRIES = 4096
"""Size of that sample, in entries."""

MODULE_ENTRIES = 16_000_000
"""Number of entries, over all parameters and gradients of a module, whose norms are computed."""
MODULE_LINES = 250
"""Lines in the tree of a module; its table lists everything."""
MODULE_DEPTH = 24

LENGTHS = 256
TAGS = 256
HISTORY_STEPS = 12
SPARK_STEPS = 64
ATTENTION_CELLS = 400
"""Largest number of rows and of columns in an attention picture."""

ATTENTION_LINES = 24
"""Largest number of rows and of heads in the text of an attention view."""

ATTENTION_HEADS = 1024
"""Largest number of heads that are drawn."""

ATTENTION_PIXELS = 2_400_000
"""Pixels in the pictures of all heads together, at half a byte each."""

ATTENTION_FINE = 300_000
"""Up to this many of those pixels, each takes a whole byte."""
