"""What ops make on the way is on the device of their operands: no case of `test_promises.py` needs another one.

The operands are on torch's "meta" device, which every machine has, and which holds no numbers.
"""

from __future__ import annotations

import pytest

import rfnb as rf
from tests.ops.batches import batch_of
from tests.ops.test_promises import CASES, results

ON_THE_HOST = {"get_size_tensor", "last_frame_position_of_dim", "count_entries", "fraction_of_entries"}  # lengths are
READERS = {"ctc_loss", "ctc_loss normalized", "ctc_greedy_decode", "ctc_durations", "ctc_blanks", "masked_select",
           "masked_scatter selected", "copy_to_device", "slice from tensor", "slice to tensor", "slice by tensor",
           "repeat"}  # fmt: skip
"""They, or the kernel, look at numbers."""


@pytest.mark.parametrize("name", sorted(set(CASES) - READERS))
def test_results_are_on_the_device_of_the_operands(name):
    batch = batch_of([5, 3, 1]).map(lambda _, x: rf.copy_to_device(x, "meta"))
    with rf.set_default_device_ctx("meta"):
        found = results(name, batch)
    assert {x.device for x in found} == {"cpu" if name in ON_THE_HOST else "meta"}


def test_gradients_too():
    feat = rf.Dim(3, name="feat")
    x = rf.copy_to_device(rf.ones([feat]), "meta")
    x.requires_grad = True
    y = rf.label_smoothed_log_prob_gradient(x, 0.1, axis=feat, exclude_labels=[0])
    assert rf.gradient(y, x).device == "meta"


def test_specaugment_by_the_length_of_each_sequence():
    batch = batch_of([300, 200])
    x = rf.copy_to_device(batch.x, "meta")
    options = {"only_on_train": False, "global_train_step_dependent": False, "num_masks_per_seq": True}
    assert rf.audio.specaugment(x, spatial_dim=batch.time, feature_dim=x.dims[-1], **options).device == "meta"
