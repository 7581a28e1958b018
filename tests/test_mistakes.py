"""The commonest mistakes, and what rfnb says: short, in the words of the user, with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import RfError

MOST_LINES = 12


def data(time: rf.Dim, feat: rf.Dim) -> rf.Tensor:
    return rf.convert_to_tensor(np.ones((2, 5, 4), "float32"), dims=[batch_dim, time, feat], lengths=[5, 3])


def the_loss_gets_a_second_time_axis() -> Any:
    time, vocab = rf.Dim(None, name="time"), rf.Dim(4, name="vocab")
    labels = rf.convert_to_tensor(np.zeros((2, 4), "int64"), dims=[batch_dim, time], sparse_dim=vocab, lengths=[4, 2])
    logits = rf.pad(rf.one_hot(labels), axes=[time], padding=[(0, 1)])[0]
    return rf.cross_entropy(estimated=logits, target=labels, axis=vocab, estimated_type="logits")


def tensors_of_other_lengths_meet() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    x = data(time, feat)
    longer, _ = rf.pad(x, axes=[time], padding=[(0, 1)])
    return longer - x


def the_line_of_a_dim_is_run_again() -> Any:
    feat = rf.Dim(4, name="feat")
    first, second = [data(rf.Dim(None, name="time"), feat) for _ in range(2)]
    return first + second


def a_reduction_over_a_dim_that_is_not_there() -> Any:
    time, feat, other = rf.Dim(None, name="time"), rf.Dim(4, name="feat"), rf.Dim(4, name="hidden")
    return rf.reduce_sum(data(time, feat), axis=other)


def the_data_has_the_axes_in_another_order() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    return rf.convert_to_tensor(np.ones((2, 4, 5)), dims=[batch_dim, time, feat])


def a_new_batch_comes_without_lengths() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    data(time, feat)
    return rf.convert_to_tensor(np.ones((2, 7, 4)), dims=[batch_dim, time, feat])


def tensors_of_two_batches_meet() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    old = data(time, feat)
    new = rf.convert_to_tensor(np.ones((2, 6, 4), "float32"), dims=[batch_dim, time, feat], lengths=[6, 2])
    return old + new


def a_dim_has_no_size_yet() -> Any:
    return rf.zeros([rf.Dim(None, name="time")])


def a_product_over_dims_that_only_look_alike() -> Any:
    feat, same = rf.Dim(4, name="feat"), rf.Dim(4, name="feat")
    out = rf.Dim(3, name="out")
    return rf.matmul(data(rf.Dim(None, name="time"), feat), rf.zeros([same, out]), reduce=feat)


def a_state_gets_another_dim() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    x = data(time, feat)
    loop = rf.Loop(axis=time, name="sum")
    loop.state.total = rf.zeros([feat])
    with loop:
        loop.state.total = loop.state.total + loop.unstack(x)


def python_asks_for_a_value_in_a_loop() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    x = data(time, feat)
    loop = rf.Loop(axis=time, name="sum")
    with loop:
        frame = loop.unstack(x)
        if rf.reduce_sum(frame, axis=frame.dims) > 0:
            loop.stack(frame)


def a_parameter_over_frames() -> Any:
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    data(time, feat)
    return rf.Parameter([time, feat])


MISTAKES: list[Callable[[], Any]] = [
    the_loss_gets_a_second_time_axis,
    tensors_of_other_lengths_meet,
    the_line_of_a_dim_is_run_again,
    a_reduction_over_a_dim_that_is_not_there,
    the_data_has_the_axes_in_another_order,
    a_new_batch_comes_without_lengths,
    tensors_of_two_batches_meet,
    a_dim_has_no_size_yet,
    a_product_over_dims_that_only_look_alike,
    a_state_gets_another_dim,
    python_asks_for_a_value_in_a_loop,
    a_parameter_over_frames,
]


def said(mistake: Callable[[], Any]) -> str:
    """The text of the error, without the numbers of lines, which move."""
    with pytest.raises(RfError) as caught:
        mistake()
    notes = getattr(caught.value, "__notes__", [])
    return re.sub(r"\.py:\d+", ".py:‹line›", "\n".join([f"{type(caught.value).__name__}: {caught.value}", *notes]))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_explained_in_a_few_lines(mistake):
    text = said(mistake)
    assert len(text.splitlines()) <= MOST_LINES
    assert "hint" in text


def test_the_words_have_not_changed(golden):
    golden("mistakes.txt", "\n\n".join(f"# {m.__name__.replace('_', ' ')}\n{said(m)}" for m in MISTAKES) + "\n")
