"""The view of a tensor: facts, lengths, bounds, hostile and broken input."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from rfnb.core.dim import Dim
from rfnb.core.lengths import EMPTY, Size
from rfnb.display.views import tensor
from rfnb.errors import ViewError
from tests.display.standins import Raw, batch_dim, batch_of, numbers

HOSTILE = "<script>alert(1)</script>"


def words_of(html: str) -> str:
    """What a reader of the page sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def example() -> Raw:
    raw = numbers(3, 5, 2)
    raw[1, 4, 1] = np.nan
    raw[0, 3:] = 1e9  # padding
    dims = [batch_dim, Dim(None, name="time"), Dim(2, name="feat")]
    return batch_of(raw, dims, [3, 5, 2], ["apple", "banana", HOSTILE])


def labelled(*rows: list[int], tags: list[str] | None = None) -> Raw:
    letters = Dim(4, name="letters", vocab=["a", " ", HOSTILE, "d"])
    width = max(len(row) for row in rows)
    raw = np.array([row + [0] * (width - len(row)) for row in rows])
    return batch_of(raw, [batch_dim, Dim(None, name="pos")], [len(r) for r in rows], tags, sparse_dim=letters)


def test_statistics_are_those_of_the_real_entries():
    x = example()
    real = np.concatenate([x.raw_tensor[b, :n].ravel() for b, n in enumerate([3, 5, 2])]).astype(np.float64)
    real = real[np.isfinite(real)]
    stats = tensor.describe(x)["stats"]
    assert stats["count"] == 20
    assert (stats["nan"], stats["inf"]) == (1, 0)
    assert stats["first_bad"] == "batch 1 ('banana'), time 4, feat 1"
    for key, value in {"min": real.min(), "max": real.max(), "mean": real.mean(), "std": real.std()}.items():
        assert stats[key] == pytest.approx(value, rel=1e-5), key
    assert sum(stats["histogram"]) == 19


@pytest.mark.parametrize("fill", [0.0, 1e30, np.nan, -np.inf])
def test_what_is_in_the_padding_changes_nothing(fill: float):
    x = example()
    before = tensor.describe(x)
    x.raw_tensor[0, 3:] = fill
    x.raw_tensor[2, 2:] = fill
    assert tensor.describe(x) == before


@pytest.mark.parametrize("fill", [0.0, 1e30, np.nan])
def test_what_is_in_the_padding_changes_no_picture(fill: float):
    raw = numbers(4, 30, 20)
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(20, name="feat")], [30, 2, 9, 0])
    before = tensor.describe(x)
    assert before["picture"] is not None
    raw[1, 2:], raw[3] = fill, fill
    assert tensor.describe(x) == before


def test_text_line():
    x = batch_of(np.arange(4.0, dtype=np.float32).reshape(2, 2), [batch_dim, Dim(None, name="time")], [2, 1])
    lines = tensor.to_text(tensor.describe(x)).splitlines()
    assert lines[0] == "x Tensor float32 {batch:2, time:1–2 Σ3}"
    assert lines[1].startswith("  μ 1  σ 0.816  [0 ")
    assert tensor.to_repr(tensor.describe(x)).splitlines()[0] == "Tensor{'x', [batch:2, time:1–2 Σ3], float32}"


@pytest.mark.parametrize(
    "make", [example, lambda: labelled([0, 2], [1]), lambda: Raw((), np.float32(3), EMPTY, "loss")]
)
def test_text_and_html_name_the_same_facts(make):
    view = tensor.describe(make())
    html = words_of(tensor.to_html(view)).replace(" ", "")
    for word in re.split(r"\s+", tensor.to_text(view)):
        assert word.strip("{},():") in html, word


def test_labels_are_shown_through_the_vocab_and_cut_at_the_true_length():
    view = tensor.describe(labelled([0, 3, 2], [1], [7], tags=["x", "y", "z"]))
    assert view["labels"] == [["a", "d", HOSTILE], [" "], ["⟨7?⟩"]]
    assert view["stats"] is None
    assert tensor.to_text(view).splitlines()[1:] == [f"  x: a d {HOSTILE}", "  y: ' '", "  z: ⟨7?⟩"]


def test_labels_are_bounded_and_say_so():
    view = tensor.describe(labelled(*[[0] * 30 for _ in range(12)]))
    assert [len(row) for row in view["labels"]] == [24] * 8
    assert view["note"] == "labels: the first 8 of 12 sequences, the first 24 tokens of each"


def test_labels_without_sequences_or_in_another_order():
    x = labelled([0, 3, 2], [1])
    turned = Raw(tuple(reversed(x.dims)), x.raw_tensor.T, x.lengths, sparse_dim=x.sparse_dim)
    assert tensor.describe(turned)["labels"] == tensor.describe(x)["labels"]
    assert tensor.describe(x, batch=1)["labels"] == [[" "]]


def test_numbers_that_are_names_have_no_mean():
    x = Raw((Dim(3, name="n"),), np.array([1, 5, 2]), EMPTY, sparse_dim=Dim(9, name="ids"))
    assert "μ" not in tensor.to_text(tensor.describe(x))
    assert "[1 " in tensor.to_text(tensor.describe(x))


@pytest.mark.parametrize("batch", [1, -2, "banana"])
def test_one_sequence(batch):
    x = example()
    view = tensor.describe(x, batch=batch)
    assert [(d["name"], d["size"]) for d in view["dims"]] == [("time", 5), ("feat", 2)]
    assert view["values"][0] == pytest.approx(x.raw_tensor[1, 0].tolist())
    short = tensor.describe(x, batch=2)
    assert [d["size"] for d in short["dims"]] == [2, 2]


@pytest.mark.parametrize("batch", [3, -4, "cherry"])
def test_a_sequence_that_is_not_there(batch):
    with pytest.raises(ViewError, match="show: no s"):
        tensor.describe(example(), batch=batch)


def test_hostile_labels_show_as_text():
    dims = [Dim(2, name=HOSTILE), Dim(None, name='"><img src=x onerror=alert(1)>')]
    x = batch_of(numbers(2, 2), dims, [2, 1], [HOSTILE, "'"], name=HOSTILE)
    html = tensor.to_html(tensor.describe(x))
    assert "<script" not in html
    assert "<img src=x" not in html
    assert HOSTILE in unescape(html)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float64", "complex64"])
def test_every_dtype(dtype: str):
    x = batch_of((numbers(2, 300) > 0).astype(dtype), [batch_dim, Dim(None, name="time")], [300, 0])
    view = tensor.describe(x)
    assert view["note"] == ("complex: absolute values" if dtype == "complex64" else None)
    assert view["stats"]["count"] == 300
    assert tensor.to_html(view)


def test_torch_tensors_of_every_kind():
    time = Dim(None, name="time")
    raw = torch.from_numpy(numbers(2, 300)).requires_grad_()
    truth = tensor.describe(batch_of(raw.detach().numpy(), [batch_dim, time], [300, 7]))
    assert tensor.describe(batch_of(raw, [batch_dim, time], [300, 7])) == truth
    for dtype in (torch.bfloat16, torch.float16, torch.int32, torch.bool, torch.float64):
        view = tensor.describe(batch_of(raw.detach().to(dtype), [batch_dim, time], [300, 7]))
        assert view["note"] is None
        assert view["stats"]["count"] == 307


@pytest.mark.parametrize("mean", [0.0, 3.0, 1000.0])
def test_the_spread_is_right_far_from_zero_too(mean: float):
    raw = torch.from_numpy(numbers(4, 500)) + mean
    stats = tensor.describe(Raw((Dim(4, name="a"), Dim(500, name="b")), raw))["stats"]
    assert stats["std"] == pytest.approx(raw.double().std(correction=0).item(), rel=1e-3)


def test_large_tensors_are_sampled_and_say_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rfnb.display.options.EXACT_ENTRIES", 1000)
    monkeypatch.setattr("rfnb.display.options.SAMPLE_ENTRIES", 500)
    raw = np.ones((20, 40, 5), np.float32)
    raw[:, 0, 0] = np.inf
    view = tensor.describe(
        batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(5, name="feat")], [40] * 10 + [7] * 10)
    )
    assert view["stats"]["sampled"] == view["stats"]["count"] <= 500
    assert view["stats"]["first_bad"] == "batch 0, time 0, feat 0"
    assert f"of a sample of {view['stats']['sampled']} entries" in tensor.to_text(view)


def test_one_nan_in_a_tensor_too_large_to_count_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rfnb.display.options.EXACT_ENTRIES", 1000)
    monkeypatch.setattr("rfnb.display.options.SAMPLE_ENTRIES", 500)
    raw = np.ones((20, 40, 5), np.float32)
    raw[3, 7, 1] = np.nan
    raw[3, 39, 1] = np.nan  # padding
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(5, name="feat")], [40] * 3 + [10] * 17)
    stats = tensor.describe(x)["stats"]
    assert (stats["nan"], stats["first_bad"]) == (1, "batch 3, time 7, feat 1")


def test_it_is_small_for_a_tensor_of_common_size():
    lens = np.linspace(60, 200, 32).astype(int)
    dims = [batch_dim, Dim(None, name="time"), Dim(512, name="feat")]
    x = batch_of(numbers(32, 200, 512), dims, lens, [f"utterance-{i:03}" for i in range(32)])
    view = tensor.describe(x)
    assert len(tensor.to_html(view)) < 20_000
    assert len(tensor.to_text(view)) < 400


@pytest.mark.parametrize(
    "broken",
    [
        Raw((batch_dim,), numbers(2, 3)),
        Raw((batch_dim,), numbers(0)),
        Raw((batch_dim, Dim(3, name="feat")), numbers(2, 4)),
        Raw((Dim(2, name="n"),), np.array(["a", "b"])),
        Raw((Dim(2, name="n"),), np.array([object(), None])),
        Raw(tuple(Dim(1, name=f"d{i}") for i in range(12)), np.zeros((1,) * 12)),
        Raw((Dim(600, name="n"),), np.full(600, np.nan)),
        Raw((Dim(3, name="n"),), np.array([3e38, -3e38, 3e38], np.float32)),
        Raw((), np.array(True)),
    ],
    ids=lambda x: str(x.raw_tensor.shape),
)
def test_a_broken_tensor_gives_a_smaller_view_and_never_an_exception(broken: Raw):
    view = tensor.describe(broken)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert "Tensor" in tensor.to_text(view)
    assert tensor.to_html(view)


def test_no_numbers_at_all():
    class Pending:
        name, dtype, dims, lengths, sparse_dim = "h", "float32", (batch_dim, Dim(4, name="feat")), EMPTY, None

        @property
        def raw_tensor(self):
            raise RuntimeError("inside a loop body there is no raw tensor\nmore")

    view = tensor.describe(Pending())
    assert view["note"].startswith("no numbers: inside a loop body")
    assert "feat:4" in tensor.to_text(view)
    assert "more" not in tensor.to_text(view)


def test_sequences_that_are_columns_are_named():
    x = batch_of(numbers(3, 4), [batch_dim, Dim(4, name="time")], [4, 4, 4], ["apple", HOSTILE, "pear"])
    turned = Raw((x.dims[1], batch_dim), x.raw_tensor.T, x.lengths, "x")
    view = tensor.describe(turned)
    first = tensor.to_text(view).splitlines()[2].split()
    assert first == ["apple", f"{HOSTILE[:11]}…", "pear"]
    assert " ".join(first) in words_of(str(tensor.to_html(view)))


def test_an_empty_sequence_has_a_row():
    x = batch_of(numbers(2, 3), [batch_dim, Dim(None, name="time")], [3, 0], ["three", "none"])
    assert tensor.to_text(tensor.describe(x)).splitlines()[-1].split() == ["none", "·", "·", "·"]


shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


@settings(deadline=None, max_examples=120)
@given(st.data(), arrays.arrays(np.float32, shapes))
def test_any_shape_and_any_lengths(data: st.DataObject, raw: np.ndarray):
    dims = tuple(Dim(None, name=f"d{i}") for i in range(raw.ndim))
    sizes = {}
    if raw.ndim >= 2:
        lens = data.draw(st.lists(st.integers(0, raw.shape[1]), min_size=raw.shape[0], max_size=raw.shape[0]))
        sizes = {dims[1]: Size([dims[0]], lens)}
    x = Raw(dims, raw, EMPTY.bind(sizes))
    view = tensor.describe(x)
    json.dumps(view, allow_nan=False)
    assert tensor.to_text(view)
    assert tensor.to_html(view)
    inside = np.ones(raw.shape, bool)
    if sizes:
        frames = np.arange(raw.shape[1])[None, :] < np.array(lens).reshape(-1, 1)
        inside = np.broadcast_to(frames.reshape(frames.shape + (1,) * (raw.ndim - 2)), raw.shape)
    real = raw[inside].astype(np.float64)
    if view["stats"] is None:
        assert real.size == 0
        return
    assert view["stats"]["count"] == real.size
    assert view["stats"]["nan"] == np.isnan(real).sum()
    assert view["stats"]["inf"] == np.isinf(real).sum()
    real = real[np.isfinite(real)]
    if real.size:
        assert view["stats"]["min"] == real.min()
        assert view["stats"]["max"] == real.max()
        assert view["stats"]["mean"] == pytest.approx(real.mean(), rel=1e-3, abs=1e-4 * max(1, np.abs(real).max()))


def test_golden(golden):
    view = tensor.describe(example())
    for dim in view["dims"]:
        dim["serial"], dim["made"] = 0, None
    golden("tensor.json", json.dumps(view, indent=1, ensure_ascii=False) + "\n")
    golden("tensor.txt", tensor.to_text(view) + "\n")
    golden("tensor.html", tensor.to_html(view) + "\n")
