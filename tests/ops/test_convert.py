"""What ops make on the way is on the device of their operands: no case of `test_promises.py` needs another one.

The operands are on torch's "meta" device, which every machine has, and which holds no numbers.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import BackendError
from tests.ops.batches import batch_of
from tests.ops.test_promises import CASES, results

ON_THE_HOST = {"get_size_tensor", "last_frame_position_of_dim", "count_entries", "fraction_of_entries"}  # lengths are
READERS = {"ctc_greedy_decode", "ctc_durations", "ctc_blanks", "copy_to_device"}
"""They, or the kernel, look at numbers."""
META = torch.tensor([3, 2], device="meta")


@pytest.mark.parametrize("name", sorted(set(CASES) - READERS))
def test_results_are_on_the_device_of_the_operands(name):
    batch = batch_of([5, 3, 1]).map(lambda _, x: rf.copy_to_device(x, "meta"))
    with rf.set_default_device_ctx("meta"):
        found = results(name, batch)
    assert {x.device for x in found} == {"cpu" if name in ON_THE_HOST else "meta"}


def test_lengths_have_numbers_whatever_the_default_device_is():
    time = rf.Dim(None, name="time")
    with rf.set_default_device_ctx("meta"):
        assert rf.Dim([3, 2]).size.values.tolist() == rf.Dim(torch.tensor([3, 2])).size.values.tolist() == [3, 2]
        assert rf.Dim(rf.convert_to_tensor([3, 2], dims=[rf.batch_dim])).size.values.tolist() == [3, 2]
        for lengths in ([3, 2], torch.tensor([3, 2]), np.array([3, 2])):
            raw = torch.zeros(2, 3, device="meta")
            x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, time], lengths=lengths)
            assert (x.device, time.size.values.tolist()) == ("meta", [3, 2])
        assert time.get_size_tensor().raw_tensor.tolist() == [3, 2]
        assert rf.Dim(time.get_size_tensor() + 1).size.values.tolist() == [4, 3]
        assert (rf.zeros([rf.batch_dim, time]) + x).device == "meta"
        assert rf.reduce_mean(x, axis=time).device == "meta"


@pytest.mark.parametrize(
    "call",
    [
        lambda time: rf.Dim(torch.tensor([3, 2], device="meta")),
        lambda time: rf.Dim(rf.range_over_dim(time) + 1),
        lambda time: rf.convert_to_tensor(torch.zeros(2, 3), dims=[rf.batch_dim, rf.Dim(None)], lengths=META),
        lambda time: rf.zeros([time]).numpy(),
    ],
    ids=["raw lengths", "computed lengths", "lengths of data", "numpy"],
)
def test_where_numbers_are_needed_the_error_says_that_there_are_none(call):
    time = rf.Dim([3, 2], name="time")
    with rf.set_default_device_ctx("meta"), pytest.raises(BackendError, match="on the meta device") as caught:
        call(time)
    assert 'device="cpu"' in str(caught.value)


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


def test_a_size_that_depends_on_numbers_is_the_largest_on_meta():
    time, word, feat = rf.Dim(None, name="time"), rf.Dim(None, name="word"), rf.Dim(4, name="feat")
    dims = [rf.batch_dim, time, feat]
    x = rf.convert_to_tensor(np.zeros((3, 5, 4)), dims=dims, lengths={time: [5, 3, 2]}, device="meta")
    mask = rf.zeros([rf.batch_dim, time], dtype="bool", device="meta")
    assert rf.masked_select(x, mask=mask, dims=[rf.batch_dim, time])[0].raw_tensor.shape == (10, 4)  # without padding
    assert rf.masked_select(x, mask=mask, dims=[time])[1].get_size_tensor().raw_tensor.tolist() == [5, 3, 2]
    counts = rf.zeros([rf.batch_dim, time], dtype="int64", device="meta")
    assert rf.repeat(x, in_spatial_dim=time, repeats=counts)[1].get_size_tensor().raw_tensor.tolist() == [5, 3, 2]
    k = rf.ones([rf.batch_dim], dtype="int64", device="meta")
    assert rf.top_k(x, axis=feat, k=k)[2].get_size_tensor().raw_tensor.tolist() == [4, 4, 4]
    words = rf.convert_to_tensor([[0, 1], [2], [1]], dims=[rf.batch_dim, word], sparse_dim=rf.Dim(3), device="meta")
    spaces = {"input_spatial_dim": time, "targets_spatial_dim": word, "blank_index": 3}
    loss = rf.ctc_loss(logits=x, targets=words, **spaces)
    assert loss.dims == (rf.batch_dim,) and loss.device == "meta"
    assert rf.ctc_best_path(logits=x, targets=words, **spaces).dims_set == {rf.batch_dim, time}


def feed(raw, **options):
    """Data as it comes in again and again: the second time, its shape is known."""
    time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    dims = [rf.batch_dim, time, feat]
    rf.convert_to_tensor(torch.zeros(2, 4, 3), dims=dims, lengths=[4, 2])
    for _ in range(2):
        x = rf.convert_to_tensor(raw, dims=dims, **options)
    return x, time


def test_padding_of_data_with_a_known_shape_is_made_finite():
    raw = torch.zeros(2, 4, 3)
    raw[1, 2:] = float("nan")
    x, _ = feed(raw)
    assert torch.isfinite(x.raw_tensor).all() and not torch.isfinite(raw).all()
    raw[0, 0] = float("inf")
    x, _ = feed(raw)
    assert torch.isinf(x.raw_tensor).sum() == 3  # those of frames stay


def test_data_with_a_known_shape_has_the_lengths_of_now():
    x, time = feed(torch.ones(2, 4, 3))
    assert x.raw_tensor is not None and x.size_of(time).values.tolist() == [4, 2]
    rf.convert_to_tensor(torch.zeros(2, 4, 3), dims=x.dims, lengths=[1, 4])
    again = rf.convert_to_tensor(torch.ones(2, 4, 3), dims=x.dims)
    assert again.size_of(time).values.tolist() == [1, 4]
    assert x.size_of(time).values.tolist() == [4, 2]
    with pytest.raises(rf.errors.DimError, match="does not fit time"):
        rf.convert_to_tensor(torch.ones(2, 3, 3), dims=x.dims)


def test_a_known_shape_follows_the_device_and_the_kind_of_labels():
    two, four = rf.Dim(2, name="two"), rf.Dim(4, name="four")
    for _ in range(2):
        labels = rf.convert_to_tensor(torch.tensor([0, 3]), dims=[two], sparse_dim=four)
        with torch.device("meta"):
            assert rf.convert_to_tensor(torch.zeros(2), dims=[two]).device == "meta"
        assert rf.convert_to_tensor(torch.zeros(2), dims=[two]).device == "cpu"
        with pytest.raises(rf.errors.DtypeError, match="labels must be integers"):
            rf.convert_to_tensor(torch.zeros(2), dims=[two], sparse_dim=four)
        with pytest.raises(rf.errors.DtypeError, match="not dense"):
            rf.convert_to_tensor(torch.zeros(2).to_sparse(), dims=[two])
    assert labels.sparse_dim is four


def test_lengths_given_as_a_list_must_be_whole():
    time = rf.Dim(None, name="time")
    for odd in ([2.0, 1.0], [True, 2.5]):
        with pytest.raises(rf.errors.DimError, match="lengths must be integers"):
            rf.convert_to_tensor(torch.zeros(2, 2), dims=[rf.batch_dim, time], lengths=odd)
    x = rf.convert_to_tensor(torch.zeros(0, 2), dims=[rf.batch_dim, time], lengths=[])
    assert x.raw_tensor.shape == (0, 0)


def test_inputs_with_as_many_sequences_share_their_number_but_not_tags():
    words, frames = rf.Dim(None, name="words"), rf.Dim(None, name="frames")

    def number(dim, tags=None, count=2):
        x = rf.convert_to_tensor(torch.zeros(count, 4), dims=[rf.batch_dim, dim], lengths=[4] * count, tags=tags)
        return x.size_of(rf.batch_dim)

    size = number(words)
    assert number(frames) is size and rf.zeros([rf.batch_dim, words, frames]).raw_tensor.shape == (2, 4, 4)
    assert rf.batch_dim.bound is not None and rf.batch_dim.bound.sizes == {rf.batch_dim.serial: size}
    assert number(words, tags=["fig", "pea"]).tags == ["fig", "pea"]
    assert number(words).tags is None and number(words, count=3).max == 3


def test_data_of_another_size_is_refused_also_if_the_batch_changed():
    time = rf.Dim(None, name="time")
    rf.convert_to_tensor(torch.zeros(2, 4), dims=[rf.batch_dim, time], lengths=[4, 2])
    rf.convert_to_tensor(torch.zeros(3), dims=[rf.batch_dim])
    with pytest.raises(rf.errors.DimError, match="does not fit time"):
        rf.convert_to_tensor(torch.zeros(3, 5), dims=[rf.batch_dim, time])


def test_a_derived_dim_follows_its_root_also_if_it_was_given_lengths():
    time = rf.Dim(None, name="time")
    for lengths in ([3, 1], [2, 1]):
        rf.convert_to_tensor(torch.zeros(2, max(lengths)), dims=[rf.batch_dim, time], lengths=lengths)
        longer = [n + 1 for n in lengths]
        raw, dims = torch.zeros(2, max(longer)), [rf.batch_dim, time + 1]
        x = rf.convert_to_tensor(raw, dims=dims, lengths={time + 1: longer})
        assert x.size_of(time + 1).values.tolist() == longer
    rf.convert_to_tensor(torch.zeros(2, 3), dims=[rf.batch_dim, time], lengths=[3, 1])
    with pytest.raises(rf.errors.DimError, match=r"does not fit time\+1"):
        rf.convert_to_tensor(raw, dims=dims)


def test_lengths_are_those_of_the_sequences_wherever_the_batch_dim_is():
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    raw = torch.arange(18.0).view(3, 3, 2)  # as many frames as sequences, so that the sizes do not tell them apart
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        dims = [(rf.batch_dim, time, feat)[axis] for axis in order]
        x = rf.convert_to_tensor(raw.permute(order), dims=dims, lengths=[3, 1, 2], tags=["kiwi", "fig", "pea"])
        sums = rf.reduce_sum(x, axis=time).copy_transpose([rf.batch_dim, feat])
        expected = torch.stack([row[:n].sum(0) for row, n in zip(raw, [3, 1, 2], strict=True)])
        assert torch.equal(sums.raw_tensor, expected) and rf.show(x, batch="pea").data is not None, dims


def test_a_list_of_frames_is_even():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dims=[time, rf.batch_dim], lengths=[3, 1])
    assert rf.reduce_sum(x, axis=time).tolist() == [9.0, 2.0]
    with pytest.raises(rf.errors.DimError, match="lists of one axis"):
        rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[time, rf.batch_dim])


@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_packed_sequence_is_not_taken_for_a_list_of_its_parts(is_sorted):
    packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], enforce_sorted=is_sorted)
    time = rf.Dim(None, name="time")
    with pytest.raises(rf.errors.DtypeError, match=r"packed sequence is not a list.*\n.*\n.*unpack_sequence"):
        rf.convert_to_tensor(packed, dims=[rf.batch_dim, time])
    x = rf.convert_to_tensor(torch.nn.utils.rnn.unpack_sequence(packed), dims=[rf.batch_dim, time])
    assert x.tolist() == [[1, 2, 3], [4, 0, 0]] and x.size_of(time).values.tolist() == [3, 1]


def test_what_a_masked_array_masks_is_not_taken_for_numbers():
    time = rf.Dim(3, name="time")
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    with pytest.raises(rf.errors.DtypeError, match=r"1 masked entries\n.*filled"):
        rf.convert_to_tensor(masked, dims=[time])
    assert rf.convert_to_tensor(np.ma.masked_array([1.0, 2.0, 3.0]), dims=[time]).tolist() == [1.0, 2.0, 3.0]
    for sequences in ([np.ones(2), masked], [masked, masked]):
        with pytest.raises(rf.errors.DtypeError, match="masked array"):
            rf.convert_to_tensor(sequences, dims=[rf.batch_dim, rf.Dim(None, name="frames")])


@pytest.mark.parametrize("dtype", [">i2", ">f4", ">i8"])
def test_numpy_arrays_of_any_byte_order(dtype):
    time, values = rf.Dim(None, name="time"), np.arange(6).reshape(2, 3).astype(dtype)
    x = rf.convert_to_tensor(values, dims=[rf.batch_dim, time], lengths=np.array([3, 2], ">i4"))
    assert x.tolist() == values.tolist() and x.size_of(time).values.tolist() == [3, 2]
