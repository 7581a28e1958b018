"""Attention of one sequence, with labels on both sides."""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import wave
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

import rfnb as rf
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.display.attention import view as attention_view
from rfnb.display.attention.view import best_path, shares
from rfnb.display.kit import options
from rfnb.display.show import show_attention
from rfnb.errors import ViewError
from tests.display.printed import to_html, to_text
from tests.display.standins import Raw, batch_dim

HOSTILE = "<script>alert(1)</script>"
dec, enc = Dim(None, name="dec"), Dim(None, name="enc")
letters = Dim(4, name="letters", vocab=["a", "b", HOSTILE, "$d"])
LENGTHS = EMPTY.bind(
    {batch_dim: Size([], 2, tags=["x", "y"]), dec: Size([batch_dim], [2, 3]), enc: Size([batch_dim], [4, 1])}
)


def weights(*dims: Dim) -> Raw:
    raw = np.random.default_rng(0).random((2, 3, 4)).astype(np.float32)
    order = [(batch_dim, dec, enc).index(d) for d in dims or (batch_dim, dec, enc)]
    return Raw(tuple(dims) or (batch_dim, dec, enc), raw.transpose(order), LENGTHS, "att")


def words() -> Raw:
    return Raw((batch_dim, enc), np.array([[0, 1, 2, 3], [1, 0, 0, 0]]), LENGTHS, "words", sparse_dim=letters)


def test_true_lengths_and_labels():
    view = attention_view.describe(weights(), rows=dec, cols=words(), batch="x")
    assert np.shape(view["weights"]) == (2, 4)
    assert view["cols"] == ["a", "b", HOSTILE, "$d"]
    assert view["rows"] == ["0", "1"]
    assert view["tag"] == "x"
    short = attention_view.describe(weights(), cols=words(), batch=1)
    assert np.shape(short["weights"]) == (3, 1)
    assert short["cols"] == ["b"]


def test_scale_and_picture_are_brighter_on_dark_pages_alike():
    html = show_attention(np.eye(3)).html
    images = [base64.b64decode(data).decode() for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)', html)]
    rule = "@media (prefers-color-scheme:dark){image{filter:invert(1) hue-rotate(180deg)}}"
    assert len(images) == 2 and all(image.count(rule) == image.count("<image") == 1 for image in images)
    assert 'alt=" to "' in html and "image/png" not in html


def test_any_order_of_the_axes_gives_the_same():
    first = attention_view.describe(weights(), rows=dec, cols=enc, batch=0)
    assert (
        attention_view.describe(weights(enc, batch_dim, dec), rows=dec, cols=enc, batch=0)["weights"]
        == first["weights"]
    )
    turned = attention_view.describe(weights(), rows=enc, cols=dec, batch=0)
    assert np.transpose(turned["weights"]).tolist() == first["weights"]


def test_labels_given_as_words():
    view = attention_view.describe(weights(), rows=["</s>", "K"], batch="x")
    assert view["rows"] == ["</s>", "K"]
    assert attention_view.describe(weights(), rows=["</s>"], batch="x")["note"] == "1 labels for 2 entries"


def test_other_axes_are_heads():
    heads = Dim(5, name="heads")
    raw = np.random.default_rng(0).random((3, 5, 4))
    tensor = Raw((dec, heads, enc), raw, EMPTY, "att")
    view = attention_view.describe(tensor, rows=dec, cols=enc, head=3)
    assert np.allclose(view["weights"], raw[:, 3], atol=1e-5)
    assert [head["head"] for head in attention_view.describe(tensor)["heads"]] == [*range(5)]
    mean = attention_view.describe(tensor, rows=dec, cols=enc, head="mean")
    assert mean["note"] == "mean over 5 heads"
    assert np.allclose(mean["weights"], raw.mean(axis=1), atol=1e-5)


def test_text_names_the_strongest_columns():
    text = to_text(attention_view.describe(weights(), rows=dec, cols=words(), batch="x"))
    assert text.splitlines()[0] == "att of 'x': {dec:2} attends to {enc:4}"
    html = unescape(to_html(attention_view.describe(weights(), rows=dec, cols=words(), batch="x")))
    for line in text.splitlines()[1:]:
        assert line.split(maxsplit=1)[1] in html


def test_hostile_labels_show_as_text():
    html = to_html(attention_view.describe(weights(), cols=words(), rows=[HOSTILE, '"'], batch=0))
    assert "<script" not in html


def test_what_has_no_two_sides():
    with pytest.raises(ViewError, match="two axes"):
        show_attention(words(), batch=0)
    with pytest.raises(ViewError, match="no dim"):
        show_attention(weights(), rows=Dim(None, name="other"))
    with pytest.raises(ViewError, match="tag"):
        show_attention(weights(), batch="z")


@pytest.mark.parametrize("size", [(0, 3), (1, 1), (300, 20), (500, 3)])
def test_every_size_and_bad_numbers(size):
    raw = np.ones(size)
    raw[:1] = np.nan
    view = show_attention(Raw((Dim(size[0], name="q"), Dim(size[1], name="k")), raw, EMPTY, "att"))
    assert view.html
    assert "no view" not in view.text + view.html
    assert len(view.html) < 100_000


# -- figures


def test_a_figure_for_papers():
    figure = show_attention(weights(), cols=words(), rows=dec, batch="x").figure()
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", HOSTILE, r"\$d"]
    figure.canvas.draw()


def test_a_figure_of_all_heads_and_no_global_state(tmp_path):
    import matplotlib.pyplot as plt

    raw = softmax(np.random.default_rng(0).standard_normal((3, 4, 9, 9)))
    figure = show_attention(raw, dims=["layer", "head", "q", "k"]).figure()
    assert len(figure.axes) == 12
    drawn = np.asarray(figure.axes[5].images[0].get_array())
    assert np.allclose(drawn, raw[1, 1] / raw[1, 1].max(), atol=0.003)
    assert plt.get_fignums() == []
    figure.savefig(tmp_path / "x.svg")


# -- arrays


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


FIVE = softmax(np.random.default_rng(0).standard_normal((3, 2, 4, 5, 6)))


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize(
    ("given", "choice", "expected"),
    [
        (FIVE[0, 0, 0], {}, FIVE[0, 0, 0]),
        (FIVE[0, 0], {"head": 2}, FIVE[0, 0, 2]),
        (FIVE[0], {"batch": 1, "head": 2}, FIVE[0, 1, 2]),
        (FIVE, {"layer": 1, "batch": 1, "head": -1}, FIVE[1, 1, 3]),
        (FIVE, {"layer": "mean", "head": "mean"}, FIVE[:, 0].mean((0, 1))),
        (FIVE[0, :, 0], {"dims": ["batch", "query", "key"], "batch": 1}, FIVE[0, 1, 0]),
        (FIVE[:, 0, 0], {"dims": ["layers", "to", "from"], "layer": 2}, FIVE[2, 0, 0]),
        (FIVE[0, 0, 0].T, {"dims": ["key", "query"]}, FIVE[0, 0, 0].T),
        (FIVE[0].transpose(2, 0, 3, 1), {"dims": ["q", "batch", "k", "heads"], "batch": 1, "head": 3}, FIVE[0, 1, 3]),
    ],
)
def test_axes_of_arrays(make, given, choice, expected):
    view = attention_view.describe(make(given.copy()), **choice)
    assert np.allclose(view["weights"], expected, atol=1e-5)
    assert len(view["heads"]) == 1


def test_a_list_has_one_for_each_layer():
    view = attention_view.describe([layer.copy() for layer in FIVE], batch=1, layer=2, head=1)
    assert np.allclose(view["weights"], FIVE[2, 1, 1], atol=1e-5)
    assert view["tag"] == "batch 1"
    every = attention_view.describe([torch.tensor(layer) for layer in FIVE], batch=1)
    assert [(head["layer"], head["head"]) for head in every["heads"]] == [(i, j) for i in range(3) for j in range(4)]
    assert every["grid"]
    mine = [Raw((batch_dim, Dim(3, name=f"q{i}"), Dim(4, name=f"k{i}")), weights().raw_tensor) for i in range(2)]
    assert attention_view.describe(mine, batch=1)["shape"] == [3, 4]


@pytest.mark.parametrize(
    ("given", "choice", "message"),
    [
        (np.ones(3), {}, "two to five axes"),
        (np.ones((1,) * 6), {}, "two to five axes"),
        ([], {}, "no weights"),
        ([np.ones((2, 2)), np.ones((2, 3))], {"layer": "mean"}, "different sizes have no mean"),
        ([np.ones((2, 2)), np.ones((2, 3))], {"layer": 2}, "no such layer"),
        (np.ones((2, 2)), {"batch": 1}, "no batch"),
        (np.ones((2, 2, 2)), {"dims": ["q", "k"]}, "name each axis"),
        (np.ones((2, 2, 2)), {"dims": ["a", "q", "k"]}, "which two axes"),
        (np.ones((2, 2)), {"dims": ["q", "q"]}, "which two axes"),
        (np.ones((2, 2, 2)), {"head": 2}, "no such head"),
        (np.ones((2, 2, 2)), {"head": "last"}, "no such head"),
        (np.ones((2, 2)), {"layer": 1}, "no such layer"),
        (FIVE, {"batch": 2}, "sequence"),
        (FIVE, {"lengths": [7, 7]}, "lengths"),
        (FIVE, {"lengths": [1]}, None),
        (FIVE, {"lengths": [1], "batch": 1}, "lengths"),
        (FIVE, {"sort": "beauty"}, "sort"),
        (FIVE, {"seconds": 0}, "seconds"),
        (FIVE, {"seconds": "10 ms"}, "seconds"),
        (FIVE, {"cols": [["a"] * 6], "batch": 1}, "no labels"),
        (np.array([["a"]]), {}, "real numbers"),
        (None, {}, "None"),
        ((None, None), {}, "None"),
        ([[0.5, 0.5], [1.0]], {}, "different sizes"),
        (torch.ones(2, 2, device="meta"), {}, "meta"),
        (torch.eye(2).to_sparse(), {}, "sparse"),
        (np.ones((2, 2)), {"rows": 2}, "rows and cols must be labels"),
        (weights(), {"rows": enc, "cols": enc}, "same axis"),
    ],
)
def test_what_does_not_fit_is_a_typed_error(given, choice, message):
    if message is None:
        show_attention(given, **choice)
        return
    with pytest.raises(ViewError, match=message):
        show_attention(given, **choice)


def test_a_model_without_numbers_is_a_typed_error():
    with torch.device("meta"):
        layer, x = torch.nn.TransformerEncoderLayer(8, nhead=2, batch_first=True), torch.ones(2, 3, 8)
    with rf.capture(layer, attention=True) as seen:
        layer(x)
    sides = [Dim(size, name="side") for size in (2, 3)]
    for source in (seen, rf.convert_to_tensor(torch.ones(2, 3, device="meta"), dims=sides)):
        with pytest.raises(ViewError, match="meta") as error:
            show_attention(source)
        assert error.value.hint and "3" in str(error.value.got)


def test_layers_of_other_sizes_and_heads_or_without_weights_are_shown():
    numbers = np.random.default_rng(0)
    sizes = [(2, 4, 6), (3, 2, 3), (1, 4, 6)]
    first, second, third = (numbers.dirichlet(np.ones(cols), (heads, rows)) for heads, rows, cols in sizes)
    view = show_attention([first, None, second, third], cols="abcdef")
    heads = view.data["heads"]
    assert [(head["layer"], head["head"]) for head in heads] == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2), (3, 0)]
    assert [head["shape"] for head in heads] == [[4, 6]] * 2 + [[2, 3]] * 3 + [[4, 6]]
    for picture, matrix, head in zip(view.data["pictures"], [*first, *second, *third], heads, strict=True):
        np.testing.assert_allclose(shares(picture) * head["scale"], matrix, atol=head["scale"] / 20)
    assert "without weights: layer 1" in view.data["note"] and "3 layers × 2 heads" in view.text
    assert heads[2]["top"][0] in {"0", "1", "2"} and heads[5]["top"][0] in set("abcdef")  # labels of their own size
    only = show_attention([first, None, second, third], layer=2, head=2).data
    assert (only["shape"], only["chosen"]) == ([2, 3], [2, 2])
    np.testing.assert_allclose(only["weights"], second[2], atol=1e-5)
    by_entropy = show_attention([first, second], sort="entropy").data
    assert by_entropy["shape"] == by_entropy["heads"][0]["shape"]


def test_labels_of_each_sequence():
    view = attention_view.describe(FIVE[0], cols=[list("abcdef"), list("ghijkl")], batch=1, head=0)
    assert view["cols"] == list("ghijkl")
    assert attention_view.describe(FIVE[0], cols="banana", head=0)["cols"] == list("banana")
    assert attention_view.describe(FIVE[0], cols=torch.arange(6), head=0)["cols"] == list("012345")


# -- lengths, and what is wrong


def test_padding_is_cut_hatched_and_has_no_weight():
    raw = np.zeros((2, 8, 40), np.float32)
    raw[0, :5, :20] = softmax(np.random.default_rng(0).standard_normal((5, 20)))
    view = attention_view.describe(raw, dims=["batch", "q", "k"], lengths=([5, 8], [20, 40]))
    assert (view["shape"], view["padding"]) == ([5, 20], [1, 2])
    assert view["heads"][0]["flags"] == []
    assert shares(view["picture"]).shape == (6, 22)
    assert np.isnan(shares(view["picture"])[5]).all()
    assert np.isnan(shares(view["picture"])[:, 20:]).all()
    raw[0, :5, 30] = 0.25
    raw[0, :5, :20] *= 0.75
    leaking = show_attention(raw, dims=["batch", "q", "k"], lengths=([5, 8], [20, 40]))
    assert leaking.data["heads"][0]["flags"] == ["25 % of the weight is on padding"]
    assert "25 % of the weight is on padding" in leaking.text
    assert "25 % of the weight is on padding" in leaking.html


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (lambda w: w.__setitem__((1, 2), np.nan), "1 not finite: the first is nan at row 1, column 2"),
        (lambda w: w.__setitem__((slice(2), 0), np.inf), "2 not finite: the first is inf at row 0, column 0"),
        (lambda w: w.__setitem__(1, w[1] / 2), "rows sum to 0.5 … 1, not to 1"),
        (lambda w: w.__setitem__((0, slice(2)), [-1, 2]), "negative weights"),
        (lambda w: w.__imul__(0.995), None),
    ],
)
def test_what_is_wrong_is_said(change, flag):
    raw = np.full((3, 4), 0.25, np.float32)
    if flag == "negative weights":
        raw[0] = [0, 0, 0, 0]
    change(raw)
    view = show_attention(raw)
    assert view.data["heads"][0]["flags"] == ([flag] if flag else [])
    assert flag is None or flag in view.text
    assert "no view" not in view.text + view.html


def test_the_masked_half_is_quiet():
    raw = softmax(np.where(np.tril(np.ones((5, 5))) > 0, np.random.default_rng(0).standard_normal((2, 5, 5)), -np.inf))
    view = attention_view.describe(raw)
    assert view["causal"]
    for picture in [view["picture"], *view["pictures"]]:
        assert np.isnan(shares(picture)[np.triu_indices(5, 1)]).all()
        assert not np.isnan(shares(picture)[np.tril_indices(5)]).any()
    raw[0, 0, 1] = 0.1
    assert not attention_view.describe(raw)["causal"]


# -- what is measured


def head_of(raw: np.ndarray) -> dict:
    return attention_view.describe(np.asarray(raw, np.float32))["heads"][0]


FLAT_CAUSAL = np.tril(np.ones((6, 6))) / np.arange(1, 7)[:, None]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (np.eye(6), {"entropy": 0, "monotonicity": 1, "coverage": 1, "diagonal": 1, "itself": 1, "role": "itself"}),
        (np.eye(6)[::-1], {"entropy": 0, "monotonicity": 0, "coverage": 1, "itself": 0}),
        (np.eye(6, k=-1) + np.eye(6)[:1].T @ np.eye(6)[:1], {"previous": 1, "next": None, "role": "previous"}),
        (np.full((4, 8), 1 / 8), {"entropy": 1, "coverage": 1, "role": "flat", "previous": None}),
        (FLAT_CAUSAL, {"entropy": 1, "next": None}),
        (np.eye(6, k=1) + np.eye(6)[-1:].T @ np.eye(6)[-1:], {"next": 1, "previous": 0, "role": "next"}),
        (np.eye(6)[[0] * 6], {"entropy": 0, "monotonicity": 1, "coverage": 1 / 6, "role": "first"}),
        (np.eye(8)[[0, 4, 7]], {"monotonicity": 1, "coverage": 3 / 8, "role": "diagonal"}),
        (np.eye(8)[[0, 6, 2, 1, 7]], {"monotonicity": 0.5, "role": "peaked"}),
        ([[0.5, 0.5, 0, 0]], {"entropy": 0.5, "monotonicity": 1}),
    ],
)
def test_measures(raw, expected):
    found = head_of(raw)
    for name, value in expected.items():
        assert found[name] == (value if value is None or isinstance(value, str) else pytest.approx(value, abs=2e-4)), (
            name
        )


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.floats(0.01, 1)))
def test_the_best_path_is_the_best(raw):
    rows, cols = raw.shape
    ways = [way for way in itertools.product(range(cols), repeat=rows) if list(way) == sorted(way)]
    best = max(np.log(raw[range(rows), way]).sum() for way in ways)
    path = best_path(raw)
    assert path == sorted(path)
    assert np.log(raw[range(rows), path]).sum() == pytest.approx(best)


@given(
    shape=st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)),
    lengths=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    seed=st.integers(0, 9),
)
def test_any_size_is_shown(shape, lengths, seed):
    raw = np.random.default_rng(seed).random(shape).astype(np.float32)
    true = [min(n, size) for n, size in zip(lengths, shape[1:], strict=True)]
    view = show_attention(raw, lengths=([true[0]], [true[1]]))
    assert view.data["shape"] == true
    assert "no view" not in view.text + view.html
    view.table()
    assert json.loads(json.dumps(view.scripts, allow_nan=False))["shape"] == true


# -- order, seconds, pictures


def test_sorted_heads():
    raw = np.stack([np.full((4, 4), 0.25), np.eye(4), np.eye(4)[::-1]]).astype(np.float32)
    for sort, order in (("entropy", [1, 2, 0]), ("monotonicity", [0, 1, 2]), ("diagonal", [1, 0, 2])):
        view = attention_view.describe(raw, sort=sort)
        assert [head["head"] for head in view["heads"]] == order, sort
        assert view["chosen"] == [0, order[0]]
        assert np.allclose(view["weights"], raw[order[0]])
        drawn = [shares(picture) for picture in view["pictures"]]
        tops = [0.5, 1, 1]  # even weights are not dark
        assert [head["scale"] for head in view["heads"]] == [tops[head] for head in order]
        assert all(np.allclose(drawn[i], raw[head] / tops[head], atol=0.003) for i, head in enumerate(order))
    raw[1, 0, 0] = np.nan
    assert [head["head"] for head in attention_view.describe(raw, sort="entropy")["heads"]] == [2, 0, 1]


def test_time_in_seconds():
    time = Dim(None, name="time")
    sub = time.ceildiv_right(2).ceildiv_right(2)
    tensor = Raw((dec, sub), softmax(np.random.default_rng(0).standard_normal((3, 8))), EMPTY, "att")
    for hop in (0.01, 100):
        view = attention_view.describe(tensor, seconds=hop)
        assert (view["row_seconds"], view["col_seconds"]) == (None, 0.04)
        assert view["cols"][:3] == ["0", "0.04", "0.08"]
        assert view["rows"] == ["0", "1", "2"]
    further = Raw((dec, (sub + 2).ceildiv_right(3)), tensor.raw_tensor, EMPTY, "att")
    assert attention_view.describe(further, seconds=0.01)["col_seconds"] == 0.12
    both = attention_view.describe(tensor, seconds=(0.5, None))
    assert (both["row_seconds"], both["col_seconds"]) == (0.5, None)
    keys = Dim(None, name="keys")
    square = Raw((sub, keys), softmax(np.random.default_rng(0).standard_normal((8, 8))), EMPTY, "att")
    view = attention_view.describe(square, seconds=0.01)
    assert (view["row_seconds"], view["col_seconds"]) == (0.04, 0.04)


def test_a_large_one_is_pooled_and_says_so():
    raw = np.zeros((3, 1000), np.float32)
    raw[[0, 1, 2], [0, 501, 999]] = 1
    view = attention_view.describe(raw, cols=[f"c{i}" for i in range(1000)])
    assert view["pool"] == [1, 3]
    assert view["note"] == "drawn at 3×334: a cell is the largest weight of 1×3"
    assert [row.index(1) for row in view["weights"]] == [0, 167, 333]
    assert view["cols"][167] == "c501"
    assert view["heads"][0]["top"] == ["c0", "c501", "c999"]


def test_scripts_read_weights_from_the_pictures():
    raw = softmax(np.random.default_rng(0).standard_normal((2, 3, 7, 5)))
    view = show_attention(raw, dims=["layer", "head", "q", "k"], cols=list("abcde"))
    scripts = view.scripts
    assert len(scripts["colours"]) == 6 * 250
    assert (scripts["rows"], scripts["cols"]) == (None, list("abcde"))
    found = re.findall(r'<img src="([^"]*)"[^>]*data-rfnb-head="(\d+),(\d+)"', view.html)
    assert len(found) == 6
    for (picture, layer, head), told in zip(found, scripts["heads"], strict=True):
        assert (told["layer"], told["head"]) == (int(layer), int(head))
        assert np.allclose(shares(picture) * told["scale"], raw[int(layer), int(head)], atol=0.003)
    _scale, inside = re.findall(r'src="data:image/svg.xml;base64,([^"]*)"', view.html)
    svg = base64.b64decode(inside).decode()
    assert 'data-rfnb-head="0,0"' in svg
    assert "data-rfnb-large" in svg
    ElementTree.fromstring(svg)


@pytest.mark.parametrize("sharp", [1, 8])
@pytest.mark.parametrize(("size", "most"), [(64, 600_000), (256, 2_000_000)])
def test_bytes_of_an_overview(size, sharp, most):
    raw = softmax(np.random.default_rng(0).standard_normal((12, 12, size, size)).astype(np.float32) * sharp)
    view = show_attention(raw, dims=["layer", "head", "q", "k"])
    assert sum(len(part.encode()) for part in (view.html, json.dumps(view.scripts))) <= most
    note = "the small pictures are drawn at 128×128; rf.show_attention(…, layer=11, head=11) shows one exactly"
    assert view.data["note"] == (note if size == 256 else None)


def test_too_many_heads_are_left_out(monkeypatch):
    monkeypatch.setattr(options, "ATTENTION_HEADS", 6)
    view = attention_view.describe(np.full((4, 3, 2, 2), 0.5), dims=["layer", "head", "q", "k"])
    assert len(view["heads"]) == 6
    assert view["note"] == "the first 2 of 4 layers, 3 of 3 heads"
    monkeypatch.setattr(options, "FINITE_ENTRIES", 100)
    view = attention_view.describe(np.full((50, 10), 0.1))
    assert view["shape"] == [10, 10]
    assert view["note"] == "the first 10 of 50 rows"


def test_table_of_heads():
    table = show_attention(FIVE, batch=1, sort="entropy").table()
    assert list(table.columns)[:5] == ["layer", "head", "entropy", "monotonicity", "coverage"]
    assert len(table) == 12
    assert "flags" not in table.columns
    bad = FIVE.copy()
    bad[1, 0, 2] *= 2
    assert [row["flags"] for row in show_attention(bad).table() if row["flags"]] == ["rows sum to 2 … 2, not to 1"]


def test_golden(golden):
    i, j = np.mgrid[:4, :6]
    raw = np.stack([softmax(-((i * 5 / 3 - j) ** 2)), np.eye(6)[[0, 0, 0, 5]]]).astype(np.float32)
    view = show_attention(raw, rows=["B", "AH", "N", "</s>"], cols="banana", lengths=([3], [5]))
    for dim in (view.data["row_dim"], view.data["col_dim"]):
        dim["serial"] = 0
    for ending, text in (("txt", view.text), ("json", json.dumps(view.data, indent=1))):
        golden(f"attention.{ending}", text + "\n")


SOUND = np.sin(np.arange(4000) * 2 * np.pi * 1000 / 8000)
"""Half a second of 1,000 Hz."""


@pytest.mark.parametrize(
    "samples", [SOUND, SOUND.astype("float32"), np.rint(SOUND * 32767).astype("int16"), torch.tensor(SOUND)]
)
def test_a_sound_is_played_and_its_spectrum_stands_above_the_columns(samples):
    shown = show_attention(np.full((3, 4), 0.25), audio=(samples, 8000))
    [address] = re.findall(r'<audio controls src="data:audio/wav;base64,([^"]+)"', shown.html)
    with wave.open(io.BytesIO(base64.b64decode(address))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (8000, 1, 4000)
        played = np.frombuffer(file.readframes(4000), "<i2") / 32767
    np.testing.assert_allclose(played, SOUND, atol=1e-4)
    large = re.findall(r'data:image/svg.xml;base64,([^"]+)', shown.html)[-1]
    [picture] = re.findall(r'href="([^"]+)"[^>]*data-rfnb-spectrum', base64.b64decode(large).decode())
    loudness = shares(picture)  # from 4,000 Hz at the top to 0
    assert abs(loudness[:, 5].argmax() / len(loudness) - 0.75) < 0.05 and loudness[:, 5].min() == 0
    assert "0.5 s of sound" in shown.text and "audio" not in show_attention(np.full((3, 4), 0.25)).html


@pytest.mark.parametrize(
    "audio", [SOUND, (SOUND, 0), (np.stack([SOUND, SOUND]), 8000), ([np.nan], 8000), ([], 8000), (["a"], 8000), 3, "x"]
)
def test_what_is_not_a_sound_is_refused(audio):
    with pytest.raises(ViewError, match="`audio` is not a sound"):
        show_attention(np.full((3, 4), 0.25), audio=audio)


def test_what_the_first_axis_was_taken_for_is_said():
    four = torch.full((3, 2, 4, 4), 0.25)
    assert 'dims=["layer", "head", "row", "col"]' in show_attention(four).text
    for said in ({"batch": 0}, {"dims": ["layer", "head", "row", "col"]}):
        assert "first axis" not in show_attention(four, **said).text
    assert "first axis" not in show_attention(four[:1]).text
    assert "first axis" not in show_attention([four, four]).text
