"""Attention of one sequence, with labels on both sides."""

from __future__ import annotations

from html import unescape

import numpy as np
import pytest

from rfnb.core.dim import Dim
from rfnb.core.lengths import EMPTY, Size
from rfnb.display.show import show_attention
from rfnb.display.views import attention
from rfnb.errors import ViewError
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
    view = attention.describe(weights(), rows=dec, cols=words(), batch="x")
    assert np.shape(view["weights"]) == (2, 4)
    assert view["cols"] == ["a", "b", HOSTILE, "$d"]
    assert view["rows"] == ["0", "1"]
    assert view["tag"] == "x"
    short = attention.describe(weights(), cols=words(), batch=1)
    assert np.shape(short["weights"]) == (3, 1)
    assert short["cols"] == ["b"]


def test_any_order_of_the_axes_gives_the_same():
    first = attention.describe(weights(), rows=dec, cols=enc, batch=0)
    assert attention.describe(weights(enc, batch_dim, dec), rows=dec, cols=enc, batch=0)["weights"] == first["weights"]
    turned = attention.describe(weights(), rows=enc, cols=dec, batch=0)
    assert np.transpose(turned["weights"]).tolist() == first["weights"]


def test_labels_given_as_words():
    view = attention.describe(weights(), rows=["</s>", "K"], batch="x")
    assert view["rows"] == ["</s>", "K"]
    assert attention.describe(weights(), rows=["</s>"], batch="x")["note"] == "1 labels for 2 entries"


def test_the_mean_over_heads_says_so():
    heads = Dim(5, name="heads")
    raw = np.random.default_rng(0).random((3, 5, 4))
    view = attention.describe(Raw((dec, heads, enc), raw, EMPTY, "att"), rows=dec, cols=enc)
    assert view["note"] == "mean over heads"
    assert np.allclose(view["weights"], raw.mean(axis=1), atol=1e-5)


def test_text_names_the_strongest_columns():
    text = attention.to_text(attention.describe(weights(), rows=dec, cols=words(), batch="x"))
    assert text.splitlines()[0] == "att of 'x': {dec:2} attends to {enc:4}"
    html = unescape(attention.to_html(attention.describe(weights(), rows=dec, cols=words(), batch="x")))
    for line in text.splitlines()[1:]:
        assert line.split(maxsplit=1)[1] in html


def test_hostile_labels_show_as_text():
    html = attention.to_html(attention.describe(weights(), cols=words(), rows=[HOSTILE, '"'], batch=0))
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


def test_a_figure_for_papers():
    figure = show_attention(weights(), cols=words(), rows=dec, batch="x").figure()
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", HOSTILE, r"\$d"]
    figure.canvas.draw()
