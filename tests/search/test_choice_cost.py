"""What a step of a search costs: the calls of torch, and the memory that it keeps."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

import rfnb as rf
from tests.loop.test_loop_memory import Probe

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

BEAM, LABELS = 3, 1024


class Calls(TorchFunctionMode):
    """Counts the calls of torch functions."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def search(steps, *, choice=True, labels=8, look=lambda x: x):
    """A search for two sequences that never end early; without the choice, the same steps."""
    label, beam = rf.Dim(labels, name="label"), rf.Dim(BEAM, name="beam")
    before = rf.Dim(labels, name="before")
    table = rf.convert_to_tensor(torch.randn(labels, labels), dims=[before, label])
    limit = rf.convert_to_tensor([steps, steps - 1], dims=[rf.batch_dim])
    loop = rf.Loop(max_seq_len=limit)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=before)
    loop.state.h = rf.zeros([rf.batch_dim, beam, label])
    with torch.no_grad(), loop:
        scores = look(loop.state.h + rf.gather(table, indices=loop.state.prev, axis=before))
        loop.state.h = scores * 0.5
        if choice:
            chosen = loop.choice(scores, beam=beam, axis=label, input_type="logits")
            loop.state.prev = rf.set_sparse_dim(chosen.labels, before)
            loop.end(chosen.labels == labels, include_eos=False)
    return loop


def calls_per_step(**options):
    """How many more calls a longer loop makes, per step."""
    counts = []
    for steps in (5, 15):
        with Calls() as calls:
            search(steps, **options)
        counts.append(calls.count)
    return (counts[1] - counts[0]) / 10


def test_a_step_of_a_search_makes_few_calls():
    assert calls_per_step() - calls_per_step(choice=False) <= 47


@pytest.mark.slow
def test_no_scores_of_all_labels_are_kept():
    probe = Probe()
    search(24, labels=LABELS, look=probe)
    assert probe.per_step < BEAM * LABELS * 4 / 20
