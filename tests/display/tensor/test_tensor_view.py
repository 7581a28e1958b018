"""The view of a tensor: facts, lengths, bounds, hostile and broken input."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

import rfnb as rf
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.display.kit import options
from rfnb.display.markup import style
from rfnb.display.tensor import view as tensor_view
from rfnb.errors import ViewError
from tests.display.markup.test_png import pixels
from tests.display.printed import to_html, to_repr, to_table, to_text
from tests.display.standins import Raw, batch_dim, batch_of, numbers
from tests.examples import examples

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
    stats = tensor_view.describe(x)["stats"]
    assert stats["count"] == 20
    assert (stats["nan"], stats["inf"]) == (1, 0)
    assert stats["first_bad"] == "batch 1 ('banana'), time 4, feat 1"
    for key, value in {"min": real.min(), "max": real.max(), "mean": real.mean(), "std": real.std()}.items():
        assert stats[key] == pytest.approx(value, rel=1e-5), key
    assert sum(stats["histogram"]) == 19


def without_padding(view: dict) -> dict:
    """All but what is said of the padding itself."""
    return {**view, "stats": {**view["stats"], "padding": None}}


@pytest.mark.parametrize("fill", [0.0, 1e30, np.nan, -np.inf])
def test_what_is_in_the_padding_changes_nothing(fill: float):
    x = example()
    before = without_padding(tensor_view.describe(x))
    x.raw_tensor[0, 3:] = fill
    x.raw_tensor[2, 2:] = fill
    assert without_padding(tensor_view.describe(x)) == before


@pytest.mark.parametrize("fill", [0.0, 1e30, np.nan])
def test_what_is_in_the_padding_changes_no_picture(fill: float):
    raw = numbers(4, 30, 20)
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(20, name="feat")], [30, 2, 9, 0])
    before = without_padding(tensor_view.describe(x))
    assert before["picture"] is not None
    raw[1, 2:], raw[3] = fill, fill
    assert without_padding(tensor_view.describe(x)) == before


def test_text_line():
    x = batch_of(np.arange(4.0, dtype=np.float32).reshape(2, 2), [batch_dim, Dim(None, name="time")], [2, 1])
    lines = to_text(tensor_view.describe(x)).splitlines()
    assert lines[0] == "x Tensor float32 {batch:2, time:1–2 Σ3}"
    assert lines[1].startswith("  μ 1  σ 0.816  [0 ")
    assert to_repr(tensor_view.describe(x)).splitlines()[0] == "Tensor{'x', [batch:2, time:1–2 Σ3], float32}"


@pytest.mark.parametrize(
    "make", [example, lambda: labelled([0, 2], [1]), lambda: Raw((), np.float32(3), EMPTY, "loss")]
)
def test_text_and_html_name_the_same_facts(make):
    view = tensor_view.describe(make())
    html = words_of(to_html(view)).replace(" ", "")
    for word in re.split(r"\s+", to_text(view)):
        assert word.strip("{},():") in html, word


def test_labels_are_shown_through_the_vocab_and_cut_at_the_true_length():
    view = tensor_view.describe(labelled([0, 3, 2], [1], [7], tags=["x", "y", "z"]))
    assert view["labels"] == [["a", "d", HOSTILE], [" "], ["⟨7?⟩"]]
    assert view["stats"] is None
    assert to_text(view).splitlines()[1:] == [
        "  1 unknown at batch 2 ('z'), pos 0: 7",
        f"  x: a d {HOSTILE}",
        "  y: ' '",
        "  z: ⟨7?⟩",
    ]


def test_labels_are_bounded_and_say_so():
    view = tensor_view.describe(labelled(*[[0] * 30 for _ in range(12)]))
    assert [len(row) for row in view["labels"]] == [24] * 8
    assert view["note"] == "labels: the first 8 of 12 sequences, the first 24 tokens of each"


def test_labels_without_sequences_or_in_another_order():
    x = labelled([0, 3, 2], [1])
    turned = Raw(tuple(reversed(x.dims)), x.raw_tensor.T, x.lengths, sparse_dim=x.sparse_dim)
    assert tensor_view.describe(turned)["labels"] == tensor_view.describe(x)["labels"]
    assert tensor_view.describe(x, batch=1)["labels"] == [[" "]]


def test_numbers_that_are_names_have_no_mean():
    x = Raw((Dim(3, name="n"),), np.array([1, 5, 2]), EMPTY, sparse_dim=Dim(9, name="ids"))
    assert "μ" not in to_text(tensor_view.describe(x))
    assert "[1 " in to_text(tensor_view.describe(x))


@pytest.mark.parametrize("batch", [1, -2, "banana"])
def test_one_sequence(batch):
    x = example()
    view = tensor_view.describe(x, batch=batch)
    assert [(d["name"], d["size"]) for d in view["dims"]] == [("time", 5), ("feat", 2)]
    assert view["values"][0] == pytest.approx(x.raw_tensor[1, 0].tolist())
    short = tensor_view.describe(x, batch=2)
    assert [d["size"] for d in short["dims"]] == [2, 2]


@pytest.mark.parametrize("batch", [3, -4, "cherry"])
def test_a_sequence_that_is_not_there(batch):
    with pytest.raises(ViewError, match="show: no s"):
        tensor_view.describe(example(), batch=batch)


def test_hostile_labels_show_as_text():
    dims = [Dim(2, name=HOSTILE), Dim(None, name='"><img src=x onerror=alert(1)>')]
    x = batch_of(numbers(2, 2), dims, [2, 1], [HOSTILE, "'"], name=HOSTILE)
    html = to_html(tensor_view.describe(x))
    assert "<script" not in html
    assert "<img src=x" not in html
    assert HOSTILE in unescape(html)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float64", "complex64"])
def test_every_dtype(dtype: str):
    x = batch_of((numbers(2, 300) > 0).astype(dtype), [batch_dim, Dim(None, name="time")], [300, 0])
    view = tensor_view.describe(x)
    assert view["note"] == ("complex: absolute values" if dtype == "complex64" else None)
    assert view["stats"]["count"] == 300
    assert to_html(view)


def test_torch_tensors_of_every_kind():
    time = Dim(None, name="time")
    raw = torch.from_numpy(numbers(2, 300)).requires_grad_()
    truth = tensor_view.describe(batch_of(raw.detach().numpy(), [batch_dim, time], [300, 7]))
    with_grad = tensor_view.describe(batch_of(raw, [batch_dim, time], [300, 7]))
    assert with_grad.pop("grad") == {"leaf": True, "norm": None}
    assert truth.pop("grad") is None
    assert with_grad == truth
    for dtype in (torch.bfloat16, torch.float16, torch.int32, torch.bool, torch.float64):
        view = tensor_view.describe(batch_of(raw.detach().to(dtype), [batch_dim, time], [300, 7]))
        assert view["note"] is None
        assert view["stats"]["count"] == 307


@pytest.mark.parametrize("mean", [0.0, 3.0, 1000.0])
def test_the_spread_is_right_far_from_zero_too(mean: float):
    raw = torch.from_numpy(numbers(4, 500)) + mean
    stats = tensor_view.describe(Raw((Dim(4, name="a"), Dim(500, name="b")), raw))["stats"]
    assert stats["std"] == pytest.approx(raw.double().std(correction=0).item(), rel=1e-3)


def test_large_tensors_are_sampled_and_say_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rfnb.display.kit.options.EXACT_ENTRIES", 1000)
    monkeypatch.setattr("rfnb.display.kit.options.SAMPLE_ENTRIES", 500)
    raw = np.ones((20, 40, 5), np.float32)
    raw[:, 0, 0] = np.inf
    view = tensor_view.describe(
        batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(5, name="feat")], [40] * 10 + [7] * 10)
    )
    assert view["stats"]["sampled"] == view["stats"]["count"] <= 500
    assert view["stats"]["first_bad"] == "batch 0, time 0, feat 0"
    assert f"sampled {view['stats']['sampled']} of 4,000" in to_text(view)


def test_one_nan_in_a_tensor_too_large_to_count_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rfnb.display.kit.options.EXACT_ENTRIES", 1000)
    monkeypatch.setattr("rfnb.display.kit.options.SAMPLE_ENTRIES", 500)
    raw = np.ones((20, 40, 5), np.float32)
    raw[3, 7, 1] = np.nan
    raw[3, 39, 1] = np.nan  # padding
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(5, name="feat")], [40] * 3 + [10] * 17)
    stats = tensor_view.describe(x)["stats"]
    assert (stats["nan"], stats["first_bad"]) == (1, "batch 3, time 7, feat 1")


def test_it_is_small_for_a_tensor_of_common_size():
    lens = np.linspace(60, 200, 32).astype(int)
    dims = [batch_dim, Dim(None, name="time"), Dim(512, name="feat")]
    x = batch_of(numbers(32, 200, 512), dims, lens, [f"utterance-{i:03}" for i in range(32)])
    view = tensor_view.describe(x)
    assert len(to_html(view)) < 20_000
    assert len(to_text(view)) < 400


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
    view = tensor_view.describe(broken)
    assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert "Tensor" in to_text(view)
    assert to_html(view)


def test_no_numbers_at_all():
    class Pending:
        name, dtype, dims, lengths, sparse_dim = "h", "float32", (batch_dim, Dim(4, name="feat")), EMPTY, None

        @property
        def raw_tensor(self):
            raise RuntimeError("inside a loop body there is no raw tensor\nmore")

    view = tensor_view.describe(Pending())
    assert view["note"].startswith("no numbers: inside a loop body")
    assert "feat:4" in to_text(view)
    assert "more" not in to_text(view)


def test_sequences_that_are_columns_are_named():
    x = batch_of(numbers(3, 4), [batch_dim, Dim(4, name="time")], [4, 4, 4], ["apple", HOSTILE, "pear"])
    turned = Raw((x.dims[1], batch_dim), x.raw_tensor.T, x.lengths, "x")
    view = tensor_view.describe(turned)
    first = to_text(view).splitlines()[2].split()
    assert first == ["apple", f"{HOSTILE[:11]}…", "pear"]
    assert " ".join(first) in words_of(str(to_html(view)))


def test_an_empty_sequence_has_a_row():
    x = batch_of(numbers(2, 3), [batch_dim, Dim(None, name="time")], [3, 0], ["three", "none"])
    assert to_text(tensor_view.describe(x)).splitlines()[-1].split() == ["none", "·", "·", "·"]


shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)


@examples(120)
@given(st.data(), arrays.arrays(np.float32, shapes))
def test_any_shape_and_any_lengths(data: st.DataObject, raw: np.ndarray):
    dims = tuple(Dim(None, name=f"d{i}") for i in range(raw.ndim))
    sizes = {}
    if raw.ndim >= 2:
        lens = data.draw(st.lists(st.integers(0, raw.shape[1]), min_size=raw.shape[0], max_size=raw.shape[0]))
        sizes = {dims[1]: Size([dims[0]], lens)}
    x = Raw(dims, raw, EMPTY.bind(sizes))
    view = tensor_view.describe(x)
    json.dumps(view, allow_nan=False)
    assert to_text(view)
    assert to_html(view)
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
    assert view["stats"]["inf"] + view["stats"]["masked"] == np.isinf(real).sum()
    real = real[np.isfinite(real)]
    if real.size:
        assert view["stats"]["min"] == real.min()
        assert view["stats"]["max"] == real.max()
        assert view["stats"]["mean"] == pytest.approx(real.mean(), rel=1e-3, abs=1e-4 * max(1, np.abs(real).max()))


def padded(fill: float, lens: tuple[int, ...] = (8, 2, 0, 5), seed: int = 0) -> Raw:
    raw = numbers(4, 8, 20, seed=seed)
    for b, n in enumerate(lens):
        raw[b, n:] = fill
    return batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(20, name="feat")], lens)


def test_a_position_counts_only_where_it_is_not_padding():
    raw = padded(7.0)
    view = tensor_view.describe(raw, time=4)
    assert (view["stats"]["count"], view["stats"]["max"]) == (40, raw.raw_tensor[[0, 3], 4].max())
    assert view["values"][1] == view["values"][2] == [None] * 20
    assert view["note"] == "time 4 is padding in 2 of the sequences"
    assert [row["max"] is None for row in view["sequences"]] == [False, True, True, False]
    assert "no statistics" not in to_text(tensor_view.describe(raw, time=7)), "in one only"


def test_with_nan_in_the_padding_there_are_no_numbers_with_it():
    x = padded(5.0)
    x.raw_tensor[1, 5, 3] = np.nan
    text = to_text(tensor_view.describe(x))
    assert "NaN or Inf in the padding" in text and "with it" not in text


def test_padding_that_leaks_is_said_with_the_numbers_it_would_give():
    x = padded(5.0)
    padding = tensor_view.describe(x)["stats"]["padding"]
    assert padding["mean"] == pytest.approx(x.raw_tensor.mean(), rel=1e-5)
    assert padding["std"] == pytest.approx(x.raw_tensor.std(), rel=1e-5)
    assert "]  with padding μ 2.67, σ 2.56" in to_text(tensor_view.describe(x))
    assert "padding ≠ 0" not in to_html(tensor_view.describe(x))  # ops of rfnb leave it out


def test_padding_of_an_array_has_a_badge_that_is_explained_on_hover():
    array = padded(5.0).raw_tensor
    view = rf.show(array, dims=["batch", "time", "feat"], lengths=[8, 3, 0, 4])
    assert "padding ≠ 0: with it μ 2.67, σ 2.56" in view.text
    assert re.search(r'title="Code that does not know the lengths [^"]+"[^>]*>padding ≠ 0', view.html)


@pytest.mark.parametrize(
    "fill, said", [(0.0, False), (0.01, True), (np.nan, "NaN or Inf in the padding"), (-np.inf, False)]
)
def test_padding_is_told_only_where_it_matters(fill, said):
    words = to_text(tensor_view.describe(padded(fill)))
    assert ("padding" in words) is bool(said)
    assert isinstance(said, bool) or said in words
    same = np.random.default_rng(1).standard_normal((4, 8, 20)).astype(np.float32)
    x = batch_of(same, [batch_dim, Dim(None, name="time"), Dim(20, name="feat")], [8, 7, 8, 7])
    assert "padding" not in to_text(tensor_view.describe(x))


def test_what_is_not_finite_is_counted_by_kind_and_located():
    raw = numbers(4, 8, 20)
    raw[1, 2, 3], raw[3, 0, 5:7], raw[0, 7, 19] = np.nan, np.inf, -np.inf
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(20, name="feat")], [8, 8, 8, 8], list("abcd"))
    view = tensor_view.describe(x)
    assert {(bad["word"], bad["count"], bad["first"]) for bad in view["stats"]["bad"]} == {
        ("NaN", 1, "batch 1 ('b'), time 2, feat 3"),
        ("+Inf", 2, "batch 3 ('d'), time 0, feat 5"),
        ("−Inf", 1, "batch 0 ('a'), time 7, feat 19"),
    }
    assert view["stats"]["first_bad"] == "batch 0 ('a'), time 7, feat 19"
    assert [(row["nan"], row["inf"]) for row in view["sequences"]] == [(0, 1), (1, 0), (0, 0), (0, 2)]


CAUSAL = np.triu(np.ones((6, 6), bool), 1)
ENDS = np.arange(6) >= np.array([6, 2, 4])[:, None]
MASKS = {
    "causal": (np.broadcast_to(CAUSAL, (3, 2, 6, 6)), True),
    "causal, one matrix": (CAUSAL, True),
    "causal, the other way": (CAUSAL.T, True),
    "causal, more columns than rows": (np.triu(np.ones((4, 6), bool), 3), True),
    "causal and of limited reach": (CAUSAL | np.tril(np.ones((6, 6), bool), -3), True),
    "behind the ends": (np.broadcast_to(ENDS[:, None, None], (3, 2, 6, 6)), True),
    "both": (CAUSAL | ENDS[:, None, None], True),
    "one of them": (np.broadcast_to(CAUSAL & (np.arange(6) == 5), (3, 6, 6)), False),
    "causal but for one": (CAUSAL & ~np.eye(6, k=4, dtype=bool), False),
    "causal and one more": (CAUSAL | (np.arange(36).reshape(6, 6) == 24), False),
    "the same feature in all frames": (np.broadcast_to(np.arange(6) == 5, (3, 5, 6)), False),
    "whole frames": (np.broadcast_to((np.arange(5) > 2)[:, None], (3, 5, 6)), False),
    "a row": (np.eye(1, 6, dtype=bool), False),
    "a small one by chance": (np.triu(np.ones((2, 2), bool), 1), False),
    "all": (np.ones((3, 6, 6), bool), False),
}


@pytest.mark.parametrize("mask, expected", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_minus_inf_where_a_mask_puts_it_is_no_alarm(mask, expected, kind):
    raw = np.where(mask, -np.inf, numbers(*mask.shape)).astype(np.float32)
    dims = tuple(Dim(size, name=f"d{i}") for i, size in enumerate(mask.shape))
    x = Raw(dims, torch.from_numpy(raw) if kind == "torch" else raw)
    stats = tensor_view.describe(x)["stats"]
    count = int(mask.sum())
    assert (stats["masked"], stats["inf"]) == ((count, 0) if expected else (0, count))
    assert (f"{count:,} −Inf, masked" in to_text(tensor_view.describe(x))) is expected


def test_what_is_masked_is_not_counted_among_what_is_wrong_with_a_sequence():
    raw = np.where(CAUSAL, -np.inf, numbers(3, 6, 6))
    raw[1, 5, 2] = np.inf
    x = Raw((batch_dim, Dim(6, name="q"), Dim(6, name="k")), raw)
    view = tensor_view.describe(x)
    assert (view["stats"]["masked"], view["stats"]["inf"]) == (45, 1)
    assert [row["inf"] for row in view["sequences"]] == [0, 1, 0]


def test_minus_inf_at_labels_that_are_not_allowed_is_no_alarm():
    words = Dim(30, name="words", vocab=[f"w{i}" for i in range(30)])
    raw = numbers(4, 9, 30)
    raw[:, :, [0, 7]] = -np.inf
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), words], [9, 3, 2, 0])
    assert tensor_view.describe(x)["stats"]["masked"] == 14 * 2
    raw[1, 1, 3] = -np.inf
    assert tensor_view.describe(x)["stats"]["inf"] == 14 * 2 + 1
    raw[...] = -np.inf
    assert tensor_view.describe(x)["stats"]["masked"] == 0


def test_a_masked_tensor_that_is_only_sampled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rfnb.display.kit.options.EXACT_ENTRIES", 1000)
    monkeypatch.setattr("rfnb.display.kit.options.SAMPLE_ENTRIES", 500)
    raw = np.where(np.triu(np.ones((40, 40), bool), 1), -np.inf, 1.0)
    stats = tensor_view.describe(Raw((Dim(40, name="q"), Dim(40, name="k")), raw))["stats"]
    assert stats["masked"] > 0
    assert stats["bad"] == []


def test_zeros_integers_and_bools_have_their_own_words():
    raw = np.maximum(numbers(40, 50), 0)
    dims = (Dim(40, name="a"), Dim(50, name="b"))
    share = (raw == 0).mean()
    assert f"{share:.0%} zeros".replace("%", " %") in to_text(tensor_view.describe(Raw(dims, raw)))
    whole = to_text(tensor_view.describe(Raw(dims, np.arange(2000).reshape(40, 50) % 7)))
    assert whole.endswith("6]  7 distinct")
    true = to_text(tensor_view.describe(Raw(dims, raw > 0)))
    assert true.splitlines()[1:] == [f"  true {(raw > 0).mean():.0%} ({(raw > 0).sum():,} of 2,000)".replace("%", " %")]


def test_how_many_are_true_in_each_sequence():
    raw = np.arange(10)[None, :] < np.array([[2], [5], [0]])
    x = batch_of(raw, [batch_dim, Dim(None, name="time")], [4, 10, 0], ["a", "b", "c"])
    assert "by sequence: a: 50 %, b: 50 %" in words_of(to_html(tensor_view.describe(x)))


def test_a_row_for_each_sequence():
    x = padded(9.0)
    x.raw_tensor[1, 1, 1] = np.nan
    table = to_table(tensor_view.describe(x))
    assert table.columns == ["sequence", "length", "mean", "min", "max", "NaN", "Inf"]
    for b, row in enumerate(table):
        real = x.raw_tensor[b, : [8, 2, 0, 5][b]]
        assert (row["sequence"], row["length"], row["NaN"], row["Inf"]) == (b, len(real), int(b == 1), 0)
        expected = (None, None) if b == 2 else (np.nanmin(real), np.nanmax(real))
        assert (row["min"], row["max"]) == expected
        assert row["mean"] == (None if b == 2 else pytest.approx(np.nanmean(real), rel=1e-4))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_sequences_are_found_on_any_axis_with_and_without_lengths(order):
    for lens in ([8, 2, 1, 5], None):
        raw, dims = numbers(4, 8, 20), [batch_dim, Dim(None, name="time"), Dim(20, name="feat")]
        x = batch_of(raw, dims, lens)
        turned = Raw(tuple(dims[i] for i in order), raw.transpose(order), x.lengths)
        for row, one, n in zip(to_table(tensor_view.describe(turned)), raw, lens or [8] * 4, strict=True):
            assert row["mean"] == pytest.approx(one[:n].mean(), rel=1e-4, abs=1e-6)


def test_a_tensor_without_sequences_is_one_row():
    [row] = to_table(tensor_view.describe(Raw((Dim(3, name="n"),), np.array([1.0, 2.0, 6.0]))))
    assert row == {"name": "x", "mean": 3.0, "min": 1.0, "max": 6.0, "NaN": 0, "Inf": 0}


def test_lengths_have_a_bar_each_or_a_histogram():
    few = tensor_view.describe(padded(0.0))
    html = str(to_html(few))
    assert few["lengths"] == [
        {"axis": 1, "median": 3.5, "padding": pytest.approx(1 - 15 / 32), "empty": 1, "histogram": None}
    ]
    assert "time: lengths 0–8, median 3.5, padding 53 %" in words_of(html)
    assert [int(n) for n in re.findall(r"width:(\d+)px", html)] == [160, 40, 0, 100]
    assert "time: 1 sequence of length 0" in to_text(few)
    alike = tensor_view.describe(batch_of(numbers(2, 3), [batch_dim, Dim(None, name="time")], [3, 3]))
    assert "time: all of length 3, padding 0 %" in words_of(to_html(alike))
    lens = [i % 90 + 1 for i in range(300)]
    many = tensor_view.describe(batch_of(numbers(300, 90), [batch_dim, Dim(None, name="time")], lens))
    assert sum(many["lengths"][0]["histogram"]) == 300
    assert "[1 " in words_of(to_html(many))
    assert "width:" not in str(to_html(many)).replace("max-width:", "")


def test_labels_are_counted_and_unknown_ones_located():
    view = tensor_view.describe(labelled([0, 0, 3], [9], [-1, 0], tags=["x", "y", "z"]))
    assert [(c["label"], c["count"]) for c in view["label_counts"]] == [("a", 3), ("⟨-1?⟩", 1), ("d", 1), ("⟨9?⟩", 1)]
    assert view["unknown"] == {"word": "unknown", "count": 2, "first": "batch 1 ('y'), pos 0: 9"}
    html = str(to_html(view))
    assert re.search(r'title="9" style="[^"]*#d6278f[^"]*">⟨9\?⟩', html)
    assert 'title="3"' in html
    assert tensor_view.describe(labelled([0, 1], [1]))["unknown"] is None


def many_labels(size: int, raw: np.ndarray, lengths: list[int]) -> Raw:
    labels = Dim(size, name="bpe", vocab=[f"w{i}" for i in range(size)])
    return batch_of(raw, [batch_dim, Dim(None, name="pos")], lengths, sparse_dim=labels)


def test_of_many_labels_each_is_counted_and_each_unknown_one_found():
    raw = np.random.default_rng(0).integers(0, 30, (500, 300))
    lengths = [*np.random.default_rng(1).integers(0, 300, 499).tolist(), 300]
    for b, n in enumerate(lengths):
        raw[b, n:] = -100
    raw[499, 7] = raw[499, 9] = 1000
    found = tensor_view.describe(many_labels(1000, raw, lengths))
    ids, counts = np.unique(np.concatenate([row[:n] for row, n in zip(raw, lengths, strict=True)]), return_counts=True)
    wanted = sorted(zip(-counts, ids, strict=True))[:10]
    assert [(-count["count"], count["id"]) for count in found["label_counts"]] == wanted
    assert found["unknown"] == {"word": "unknown", "count": 2, "first": "batch 499, pos 7: 1000"}


def test_of_too_many_labels_a_sample_is_counted_and_that_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "SAMPLE_ENTRIES", 1000)
    raw = np.zeros((4, 1000), np.int64)
    raw[2, 7] = 5
    found = tensor_view.describe(many_labels(5, raw, [1000] * 4))
    assert found["label_counts"] == [{"label": "w0", "id": 0, "count": 800}]
    assert found["note"] == "labels: the first 24 tokens of each, counted in 800 of 4,000"
    assert found["unknown"]["count"] == 1


def test_a_value_of_a_body_is_shown_as_it_is_at_step_0():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor([[3.0, 1.0], [4.0]], dims=[rf.batch_dim, time], name="x")
    loop = rf.Loop(axis=time, name="sum")
    loop.state.total = rf.zeros([rf.batch_dim])
    with loop:
        x_t = loop.unstack(x)
        loop.state.total = loop.state.total + x_t
        shown, said, inside = rf.show(x_t), repr(x_t), rf.show({"x_t": x_t})
        bundle = x_t._repr_mimebundle_()
    assert shown.data["values"] == [3, 4] and shown.text.startswith("x_t Tensor float32 {batch:2}")
    assert "(step 0 of sum)" in shown.text and "(step 0 of sum)" in said and "Tensor{'x_t', [batch:2]" in said
    assert "(step 0 of sum)" in bundle["text/html"]
    assert inside.text.splitlines()[1] == "  x_t {batch:2} float32  3 4  (step 0 of sum)"


def test_a_label_that_looks_unknown_is_not_red():
    odd = Dim(2, name="odd", vocab=["⟨0?⟩", "b"])
    x = Raw((Dim(2, name="n"),), np.array([0, 1]), EMPTY, sparse_dim=odd)
    assert "#d6278f" not in to_html(tensor_view.describe(x))


def test_ids_without_labels_are_checked_too():
    x = Raw((Dim(3, name="n"),), np.array([1, 12, 2]), EMPTY, sparse_dim=Dim(9, name="ids"))
    assert "1 unknown at n 1: 12" in to_text(tensor_view.describe(x))


def test_gradients():
    def grad_of(raw: torch.Tensor) -> str:
        return to_text(tensor_view.describe(Raw((Dim(3, name="n"),), raw))).splitlines()[0].partition("} ")[2]

    leaf = torch.ones(3, requires_grad=True)
    assert grad_of(leaf) == "no grad yet"
    (leaf * torch.tensor([3.0, 4.0, 0.0])).sum().backward()
    assert grad_of(leaf) == "‖grad‖ 5"
    leaf.grad[0] = float("nan")
    assert grad_of(leaf) == "‖grad‖ nan"
    assert grad_of(leaf * 2) == grad_of(torch.ones(3)) == ""


@pytest.mark.parametrize("first", [0, 1])
def test_zeros_at_every_second_feature_are_half_of_all(first):
    raw = np.random.default_rng(0).standard_normal((32, 200, 64)).astype(np.float32)
    raw[..., first::2] = 0
    view = rf.show(raw)
    assert view.data["stats"]["zeros"] == pytest.approx(0.5, abs=0.02)
    assert "  ≈ " in view.text and "≈" not in rf.show(raw[:3]).text


def test_a_sample_does_not_say_that_all_are_zero():
    raw = np.zeros((1000, 1000), np.float32)
    raw[0, 1] = 1
    assert ">99 % zeros" in rf.show(raw).text


def test_numbers_that_are_masked_are_pale_and_others_have_their_colour():
    masked = np.where(np.triu(np.ones((3, 3), bool), 1), -np.inf, 1.0)
    dims = (Dim(3, name="q"), Dim(3, name="k"))
    assert "106,60,210" not in to_html(tensor_view.describe(Raw(dims, masked)))
    assert to_html(tensor_view.describe(Raw(dims, masked))).count(f"{style.CELL};{style.QUIET}") == 3
    wrong = np.array([[1, -np.inf, np.inf], [np.nan, 0, 0], [0, 0, 0]])
    html = to_html(tensor_view.describe(Raw(dims, wrong)))
    for colour in ("106,60,210", "255,140,0", "214,39,143"):
        assert html.count(f"rgba({colour},0.45)") == 1


def test_a_picture_of_frames_shows_what_is_largest_of_either_sign():
    dims = [batch_dim, Dim(None, name="time"), Dim(20, name="feat")]
    raw = numbers(4, 30, 20)
    pictures = {
        tensor_view.describe(batch_of(kind(sign * raw), dims, [30, 2, 9, 0]))["picture"]
        for sign in (1, -1)
        for kind in (np.asarray, torch.from_numpy)
    }
    assert len(pictures) == 1


def test_a_mask_is_no_alarm_in_the_picture_either():
    raw = np.where(np.triu(np.ones((30, 30), bool), 1), -np.inf, numbers(2, 3, 30, 30)).astype(np.float32)
    zero = np.where(np.isinf(raw), 0, raw)
    dims = (batch_dim, Dim(3, name="heads"), Dim(30, name="q"), Dim(30, name="k"))
    assert tensor_view.describe(Raw(dims, raw))["picture"] == tensor_view.describe(Raw(dims, zero))["picture"]


def test_a_picture_of_noise_is_small():
    view = tensor_view.describe(Raw((Dim(700, name="in"), Dim(900, name="out")), numbers(700, 900)))
    assert len(to_html(view)) < 20_000


def test_only_a_sample_and_one_number_a_frame_leave_the_device(monkeypatch: pytest.MonkeyPatch):
    moved: list[int] = []

    def cpu(raw: torch.Tensor) -> torch.Tensor:
        moved.append(raw.numel())
        return raw

    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    raw = torch.from_numpy(numbers(8, 100, 500))
    x = batch_of(raw, [batch_dim, Dim(None, name="time"), Dim(500, name="feat")], [100, 50, 1, 0, 3, 99, 100, 2])
    assert tensor_view.describe(x)["note"] is None
    assert max(moved) <= 50_000
    assert sum(moved) < raw.numel() / 4


def test_no_picture_of_one_and_the_same_number():
    assert tensor_view.describe(Raw((Dim(30, name="a"), Dim(40, name="b")), np.ones((30, 40))))["picture"] is None


def test_pills_are_found_by_scripts():
    x = example()
    html = str(to_html(tensor_view.describe(x)))
    for dim in x.dims:
        assert f'class="rfnb-dim" data-rfnb-dim="{dim.serial}"' in html


def test_golden(golden):
    view = tensor_view.describe(example())
    for dim in view["dims"]:
        dim["serial"], dim["made"] = 0, None
    golden("tensor.json", json.dumps(view, indent=1, ensure_ascii=False) + "\n")
    golden("tensor.txt", to_text(view) + "\n")


def test_a_picture_of_truth_values_is_their_share():
    time, feat = Dim(300, name="time"), Dim(8, name="feat")
    raw = np.zeros((2, 300, 8), bool)
    raw[0, :, :2] = raw[1] = True  # a quarter, and all
    view = rf.show(rf.convert_to_tensor(raw, dims=[rf.batch_dim, time, feat]))
    drawn = pixels(view.data["picture"])
    assert "share of true over feat" in view.data["picture_alt"]
    assert drawn[0, 0, :3].mean() > drawn[-1, 0, :3].mean() + 50  # dark is more


def test_a_tensor_without_a_name_is_called_like_its_variable():
    feat = Dim(3, name="feat")
    doubled = rf.convert_to_tensor(np.ones(3), dims=[feat]) * 2.0
    assert rf.show(doubled).data["name"] == "doubled" and repr(doubled).startswith("Tensor{'doubled'")
    assert (lambda inner: rf.show(inner).data["name"])(doubled) == "inner"
    assert rf.show(doubled * 2.0).data["name"] == "tensor"
    assert rf.show(rf.convert_to_tensor(np.ones(3), dims=[feat], name="said")).data["name"] == "said"


def test_the_capacity_of_a_dim_is_no_fault_of_its_tensor():
    time = rf.Dim(rf.convert_to_tensor([3, 2], dims=[batch_dim]), name="time", capacity=5)
    assert "but the raw tensor has" not in repr(rf.zeros([batch_dim, time]))
