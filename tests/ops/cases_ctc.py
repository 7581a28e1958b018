"""Cases of connectionist temporal classification, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import VOCAB, Batch


def labels(b: Batch) -> rf.Tensor:
    """{batch, other} sparse in the classes, without blank."""
    return rf.set_sparse_dim(rf.minimum(b.index, 3), VOCAB)


def ctc(fn: Callable[..., Any], **options: Any) -> Callable[[Batch], Any]:
    def case(b: Batch) -> Any:
        found = fn(
            logits=b.logits,
            targets=labels(b),
            input_spatial_dim=b.time,
            targets_spatial_dim=b.other,
            blank_index=4,
            **options,
        )
        finite = rf.is_finite(found) if found.dtype.startswith("float") else None
        return found if finite is None else rf.where(finite, found, -1.0)

    return case


CASES: dict[str, Callable[[Batch], Any]] = {
    "ctc_loss": ctc(rf.ctc_loss),
    "ctc_loss normalized": ctc(rf.ctc_loss, logits_normalized=True),
    "ctc_loss max": ctc(rf.ctc_loss, max_approx=True),
    "ctc_loss no loop": ctc(rf.ctc_loss, label_loop=False),
    "ctc_best_path": ctc(rf.ctc_best_path),
    "ctc_greedy_decode": lambda b: rf.ctc_greedy_decode(
        b.logits, in_spatial_dim=b.time, blank_index=4, wb_target_dim=VOCAB
    )[0],
    "ctc_durations": lambda b: rf.ctc_durations_from_path(path=b.labels, path_spatial_dim=b.time, blank_index=4)[0],
    "ctc_blanks": lambda b: rf.ctc_no_label_loop_blank_durations_from_path(
        path=b.labels, path_spatial_dim=b.time, blank_index=4
    )[0],
}
STAY = {"ctc_greedy_decode", "ctc_durations", "ctc_blanks"}  # the size depends on the path
