"""Cases of losses, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import VOCAB, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "cross_entropy": lambda b: rf.cross_entropy(
        estimated=b.logits, target=b.labels, axis=VOCAB, estimated_type="logits"
    ),
    "cross_entropy dense": lambda b: rf.cross_entropy(
        estimated=b.logits, target=rf.softmax(b.logits * 2.0, axis=VOCAB), axis=VOCAB, estimated_type="logits"
    ),
    "cross_entropy probs": lambda b: rf.cross_entropy(
        estimated=rf.softmax(b.logits, axis=VOCAB), target=b.labels, axis=VOCAB, estimated_type="probs"
    ),
    "cross_entropy dense probs": lambda b: rf.cross_entropy(
        estimated=rf.softmax(b.logits, axis=VOCAB),
        target=rf.label_smoothing(b.labels, 0.1),
        axis=VOCAB,
        estimated_type="probs",
    ),
    "label_smoothing": lambda b: rf.label_smoothing(b.labels, 0.1),
    "label_smoothed_log_prob_gradient": lambda b: rf.label_smoothed_log_prob_gradient(
        rf.log_softmax(b.logits, axis=VOCAB), 0.1, axis=VOCAB, exclude_labels=[4]
    ),
    "edit_distance": lambda b: rf.edit_distance(
        b.labels, b.time, rf.gather(b.labels, indices=b.index, axis=b.time, clip_to_valid=True), b.other
    ),
}
