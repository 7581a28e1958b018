"""The commonest mistakes, and what rfnb says: short, in the words of the user, with the way out."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground import text as messages
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
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "no error of ours before it"
    notes = getattr(caught.value, "__notes__", [])
    return re.sub(r"\.py:\d+", ".py:‹line›", "\n".join([f"{type(caught.value).__name__}: {caught.value}", *notes]))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_explained_in_a_few_lines(mistake):
    text = said(mistake)
    assert len(text.splitlines()) <= MOST_LINES
    assert "hint" in text


def test_the_words_have_not_changed(golden):
    golden("mistakes.txt", "\n\n".join(f"# {m.__name__.replace('_', ' ')}\n{said(m)}" for m in MISTAKES) + "\n")


time, feat, out, width = (rf.Dim(n, name=s) for s, n in {"time": None, "feat": 4, "out": 3, "width": 3}.items())
CONV = {"in_dim": feat, "out_dim": out, "padding": "same"}
LABELS = np.array([[0, 7], [1, 2]])


def filtered(x: rf.Tensor, *, spatial: Any = (time,), size: Any = (width,)) -> Any:
    return rf.conv(x, **CONV, in_spatial_dims=spatial, filter=rf.zeros([width, feat, out]), filter_size=size)


def lengths_of_1_and_less(x: rf.Tensor) -> Any:
    return rf.convert_to_tensor(np.ones((2, 5)), dims=[batch_dim, rf.Dim(None, name="t")], lengths=[1.0, 0.6])


def a_class_that_there_is_not(x: rf.Tensor) -> Any:
    target = rf.convert_to_tensor(torch.from_numpy(LABELS), dims=[batch_dim, width_2], sparse_dim=out)
    return rf.cross_entropy(
        estimated=rf.zeros([batch_dim, width_2, out]), target=target, axis=out, estimated_type="logits"
    )


def loops_with_numpy(x: rf.Tensor) -> Any:
    rf.select_backend("numpy")
    try:
        with rf.Loop(axis=feat) as loop:
            loop.unstack(rf.zeros([feat]))
    finally:
        rf.select_backend("torch")


def a_state_of_the_outer_loop_set_in_the_inner_one(x: rf.Tensor) -> Any:
    outer, inner = rf.Loop(axis=time, name="outer"), rf.Loop(axis=feat, name="inner")
    outer.state.s = rf.zeros([batch_dim])
    with outer:
        frame = outer.unstack(x)
        with inner:
            outer.state.s = outer.state.s + inner.unstack(frame)


RAW = torch.ones(2, 4)
width_2 = rf.Dim(2, name="width")
SAYS: list[tuple[Callable[[rf.Tensor], Any], str]] = [
    (lambda x: rf.Linear(4, 3), 'Linear: 4 is not a Dim.*rf.Dim\\(4, name="…"\\)'),
    (lambda x: rf.LayerNorm(4), "LayerNorm: 4 is not a Dim"),
    (lambda x: rf.Embedding(10, 4), "Embedding: 10 is not a Dim"),
    (lambda x: rf.softmax(x, axis="feat"), "softmax: 'feat' is not a Dim → axis=feat"),
    (lambda x: rf.reduce_sum(x, axis="time"), "reduce_sum: 'time' is not a Dim → axis=time"),
    (lambda x: rf.reduce_sum(x, axis=None), "reduce_sum: None is not a Dim"),
    (lambda x: rf.top_k(x, axis="feat", k=2), "top_k: 'feat' is not a Dim → axis=feat"),
    (lambda x: rf.matmul(x, x, reduce="feat"), "matmul: 'feat' is not a Dim → reduce=feat"),
    (lambda x: rf.layer_norm(x, None, None, in_dim="feat"), "layer_norm: 'feat' is not a Dim → in_dim=feat"),
    (lambda x: rf.dropout(x, 0.5, axis=1, on_forward=True), "dropout: 1 is not a Dim"),
    (lambda x: rf.group_norm(x, None, None, in_dim=feat, num_groups=3), "group_norm.*feat:4 in groups:3"),
    (lambda x: filtered(x, size=[3]), "conv: 3 is not a Dim"),
    (lambda x: filtered(x, spatial=time), r"conv: one Dim.*\[time\]"),
    (lambda x: filtered(rf.cast(x, "float64")), "conv: the dtypes differ.*`source` float64, `filter` float32"),
    (lambda x: rf.Linear(feat, out)(rf.cast(x, "float64")), r"linear: the dtypes differ.*rf.cast\(source, 'float32'\)"),
    (lambda x: rf.matmul(x, rf.zeros([feat, out], dtype="float64"), reduce=feat), "matmul: the dtypes differ"),
    (lambda x: rf.cast(x, torch.float64), "unknown dtype.*torch.float64.*hint *'float64'"),
    (lambda x: rf.zeros([feat], dtype=np.float32), "unknown dtype.*hint *'float32'"),
    (lambda x: rf.zeros([feat], dtype="flaot32"), "unknown dtype.*'flaot32'"),
    (lambda x: rf.set_default_float_dtype(torch.float64), "not a float type"),
    (lambda x: rf.Dim(2.5, name="half"), "half must be an integer"),
    (lengths_of_1_and_less, r"lengths must be integers.*\[1.0, 0.6\]"),
    (a_class_that_there_is_not, r"cross_entropy: (\d+) is not a label of out.*got *\1 at batch \d.*0 to 2"),
    (lambda x: rf.slice(x, axis="time", start=1), r"^slice: 'time' is not a Dim → axis=time, for x {batch"),
    (lambda x: rf.slice(x, axis="speech"), "slice: `axis`: 'speech' is not a Dim.*one of batch_dim, time"),
    (lambda x: rf.concat((x, "time"), (x, time)), r"^concat: 'time' is not a Dim → \(x, time\)"),
    (lambda x: rf.expand_dim(x, 3), 'expand_dim: `dim`: 3 is not a Dim.*rf.Dim\\(3, name="…"\\)'),
    (lambda x: rf.stft(x, in_spatial_dim="time", frame_step=1, frame_length=2), "→ in_spatial_dim=time"),
    (lambda x: rf.pad(x, axes=["time"], padding=[(1, 1)]), r"pad: 'time' is not a Dim → axes=\[time\]"),
    (lambda x: rf.pad(x, axes=time, padding=[(1, 1)]), r"pad: `axes`: one Dim.*\[time\]"),
    (
        lambda x: rf.Linear(feat, out)(RAW),
        r"Linear: `source` is no.*torch.Tensor of shape \(2, 4\).*_tensor\(RAW, dims",
    ),
    (lambda x: rf.softmax([1, 2], axis=feat), r"softmax: .* is not an rf.Tensor.*got *list \[1, 2\]"),
    (
        lambda x: rf.relu(RAW.numpy()),
        r"relu: an operand is not an rf.Tensor.*numpy.ndarray of shape \(2, 4\).*_tensor\(",
    ),
    (lambda x: x + RAW, r"add: an operand is not an rf.Tensor.*_tensor\(RAW, dims"),
    (lambda x: rf.where(x > 0, x, "no"), "where: .* is not an rf.Tensor.*got *str 'no'"),
    (lambda x: rf.relu(rf.slice(x, axis=time, size=width)), r"relu: .*\(x {.*, width\).*y, width = "),
    (
        lambda x: rf.reduce_sum(filtered(x), axis=out),
        "reduce_sum: `source` is not an rf.Tensor.*conv.* return a tensor and its new dim",
    ),
    (lambda x: rf.stack([x, [1]]), r"stack: `sources` is not an rf.Tensor.*list \[1\]"),
    (lambda x: rf.slice(x, axis=x, start=1), "slice: `axis`: x is not a Dim"),
    (lambda x: rf.pad(x, axes=[np.ones(2)], padding=[(1, 1)]), "pad: `axes`: .* is not a Dim.*got *ndarray"),
    (lambda x: rf.zeros([3]), "^zeros: 3 is not a Dim"),
    (lambda x: rf.cast(x, dtype="flaot32"), "^cast: unknown dtype"),
    (lambda x: rf.Parameter([feat], dtype="flaot32"), "^Parameter: unknown dtype"),
    (lambda x: rf.zeros([feat], device="cudda"), "zeros: unknown device.*'cudda'.*'cpu'"),
    (lambda x: rf.convert_to_tensor(1.0, device="cuda:99"), "convert_to_tensor: unknown device.*'cuda:99'"),
    (lambda x: rf.copy_to_device(x, "cudda"), "copy_to_device: unknown device"),
    (lambda x: rf.Linear(feat, out).to(device="cudda"), "to: unknown device"),
    (lambda x: rf.check.finite(x), r"check.finite: x is not a function.*rf.check.finite\(lambda: …\)"),
    (
        lambda x: rf.convert_to_tensor(LABELS, dims=[batch_dim, width_2], sparse_dim=out),
        "convert_to_tensor: 7 is not a label of out.*7 at batch 0, width 1.*0 to 2",
    ),
    (
        lambda x: rf.convert_to_tensor([[-1]], dims=[batch_dim, rf.Dim(1)], sparse_dim=out),
        r"-1 is not a label of out.*hint *padding may have any value.*rf.where\(labels < 0, 0, loss\)",
    ),
    (lambda x: rf.convert_to_tensor([1.0, 2.0], dims=[width_2], sparse_dim=out), "labels must be integers.*float32"),
    (
        lambda x: rf.convert_to_tensor([[1], [2]], dims=[batch_dim, rf.Dim(None, name="t")], tags=["a", "a"]),
        "a tag occurs twice.*'a'",
    ),
    (
        lambda x: rf.masked_scatter(rf.zeros([width_2]), mask=rf.ones([feat]) > 0, dims=[feat], in_dim=width_2),
        "masked_scatter: `mask` is true at more places than `source`.*`mask` {feat:4}, `source` {width:2}",
    ),
    (
        lambda x: rf.split_dims(x, axis=feat, dims=[out, width_2]),
        "split_dims: feat:4 does not fit into {out:3, width:2}",
    ),
    (lambda x: rf.reshape(x, [feat], [out, width_2]), "reshape: feat:4 does not fit into {out:3, width:2}"),
    (
        lambda x: rf.random_choice_without_replacement(log_probs=x, axis=feat, num_samples_dim=rf.Dim(9, name="n")),
        "random_choice_without_replacement: `num_samples_dim` is larger than the number of entries",
    ),
    (loops_with_numpy, "loops: the numpy backend does not support this"),
    (a_state_of_the_outer_loop_set_in_the_inner_one, "`s` is a value of step 0.*hint *take it out of inner.*after"),
    (lambda x: rf.edit_distance(x, time, x, time), "edit_distance: labels must be integers"),
    (lambda x: rf.audio.specaugment(x, spatial_dim=out, feature_dim=feat, only_on_train=False), "has no dim out"),
    (
        lambda x: rf.ctc_durations_from_path(path=x, path_spatial_dim=out, blank_index=0),
        "ctc_durations_from_path: `path` has no dim out",
    ),
]


class Forward(rf.Module):
    def forward(self, x: rf.Tensor) -> rf.Tensor:
        return x


class Broken(rf.Module):
    @property
    def size(self) -> int:
        return self.not_there


NEAR: list[tuple[Callable[[], Any], str]] = [
    (lambda: rf.mean, r"rf.mean → rf.reduce_mean\("),
    (lambda: rf.cat, r"rf.cat → rf.concat\("),
    (lambda: rf.beam_search, r"rf.beam_search → a loop with loop.choice"),
    (lambda: rf.nn.ReLU, r"rf.nn.ReLU → rf.relu"),
    (lambda: rf.nn.Lienar, r"rf.nn has no 'Lienar'.*rf.Linear"),
    (lambda: rf.log_sofmax, "'rfnb' has no attribute 'log_sofmax': did you mean 'log_softmax'"),
    (lambda: rf.qqq, "'rfnb' has no attribute 'qqq'$"),
    (lambda: rf.atan2, r"attribute 'atan2' → rf\.raw_call\(torch\.atan2, x, out_dims=\[…\]\)"),
    (lambda: rf.argsort, r"did you mean 'sort'\? → rf\.raw_call\(torch\.argsort, x"),
    (lambda: rf.hardtanh, r"rf\.raw_call\(torch\.nn\.functional\.hardtanh, x"),
    (lambda: rf.get_rng_state, r"attribute 'get_rng_state'(: did you mean [^→]*)?$"),
    (lambda: rf.ones([]).detatch(), "no attribute 'detatch': did you mean 'detach'"),
    (lambda: rf.Linear(feat, out).wieght, "'Linear' .*'wieght': did you mean 'weight'"),
    (lambda: Broken().size, "'not_there'"),
]


@pytest.mark.parametrize(("name", "words"), NEAR, ids=lambda part: part if isinstance(part, str) else "")
def test_a_misspelt_name_is_answered_with_near_ones(name, words):
    with pytest.raises(AttributeError, match=words) as caught:
        name()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_what_is_said_instead_exists():
    ours, said = set(dir(rf)), "\n".join(messages.INSTEAD.values())
    functions, pages = (set(re.findall(part, said)) for part in (r"rf\.(\w+)", r"docs/\w+\.md"))
    assert len(functions) > 50 and pages
    assert ours.intersection(messages.INSTEAD) == functions - ours == set()
    assert [page for page in pages if not (Path(__file__).parents[1] / page).exists()] == []


def test_tools_that_probe_for_names_find_none():
    assert not any(hasattr(rf, name) for name in ("__wrapped__", "_ipython_display_", "mean", "__path_entries__"))
    assert not hasattr(rf, "breakpoint") and not hasattr(rf.nn, "__wrapped__") and getattr(rf, "plot", 1) == 1
    assert "mean" not in dir(rf) and pickle.loads(pickle.dumps(rf.Linear)) is rf.Linear
    with pytest.raises(ImportError):
        exec("from rfnb import mean")
    module = copy.deepcopy(rf.Linear(feat, out))
    assert not hasattr(module, "_foo") and hasattr(module, "weight")


def test_forward_is_called_call():
    with pytest.raises(NotImplementedError, match="Forward has no __call__: rename its `forward`"):
        Forward()(rf.ones([]))


@pytest.mark.parametrize(("mistake", "words"), SAYS, ids=lambda part: part if isinstance(part, str) else "")
def test_the_words_are_those_of_the_call(mistake, words):
    with pytest.raises(RfError, match=f"(?s){words}") as caught:
        mistake(data(time, feat))
    assert len(str(caught.value).splitlines()) <= MOST_LINES
