"""Dims in views: one colour for each, everywhere."""

from __future__ import annotations

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.display.dims import page_of_dim
from rfnb.display.kit.blocks import to_html, to_repr, to_text
from rfnb.display.kit.data import _seen, palette_index
from rfnb.display.markup import style
from rfnb.display.tensor import view as tensor_view
from tests.display.standins import batch_dim, batch_of, numbers


def test_a_dim_keeps_its_colour_and_another_of_the_same_name_has_another():
    time, other = Dim(None, name="time"), Dim(None, name="time")
    views = [
        tensor_view.describe(batch_of(numbers(2, n), [batch_dim, d], [n, 1]))
        for d, n in ((time, 3), (other, 3), (time, 5))
    ]
    colours = [view["dims"][1]["colour"] for view in views]
    assert colours == [0, 1, 0]
    assert views[0]["dims"][0]["colour"] is None


def test_colours_are_bounded_in_number_and_memory():
    for serial in range(10_000):
        assert 0 <= palette_index(serial) < len(style.PALETTE)
    assert len(_seen) <= 4096


def test_kinds():
    time, feat, heads = Dim(None, name="time"), Dim(4, name="feat"), Dim(3, name="heads")
    x = batch_of(numbers(2, 5, 3, 4), [Dim(2, name="b"), time, heads, feat], [5, 3], feature_dim=feat)
    assert [d["kind"] for d in tensor_view.describe(x)["dims"]] == ["batch", "spatial", "other", "feature"]


def test_a_dim_of_its_own():
    time = Dim(None, name="time")
    assert to_repr(page_of_dim(time)) == "Dim{time:?}"
    assert "no size yet" in to_text(page_of_dim(time))
    time.bind(Size([batch_dim], [2, 5], tags=["a", "b"]))
    page = page_of_dim(time)
    assert to_repr(page) == "Dim{time:2–5 Σ7}"
    assert list(page.table) == [{"sequence": "a", "time": 2}, {"sequence": "b", "time": 5}]


def test_a_vocab_is_shown_in_part():
    letters = Dim(100, name="letters", vocab=[f"l{i}" for i in range(98)] + [" ", "<b>"])
    page = page_of_dim(letters)
    assert "  100 labels: l0 l1 " in to_text(page) and to_text(page).endswith("l39 …")
    small = Dim(2, name="small", vocab=[" ", "<b>"])
    assert "&lt;b&gt;" in to_html(page_of_dim(small))


def test_dims_made_by_rfnb_itself_tell_no_place():
    assert "made in" not in to_text(page_of_dim(batch_dim))
    assert "\n  made in test_dims_single.py:" in to_text(page_of_dim(Dim(3, name="x")))


def test_lengths_over_a_dim_that_the_tensor_does_not_have():
    time = Dim(None, name="time")
    x = batch_of(numbers(2, 5), [batch_dim, time], [5, 2])
    only = type(x)((time,), np.arange(5.0), x.lengths)
    view = tensor_view.describe(only)
    assert view["stats"]["count"] == 5
    assert view["dims"][0]["length_range"] == [2, 5, 7]


def test_a_dim_in_a_cell_is_its_view():
    dim = Dim(3, name="<b>")
    made = dim._repr_mimebundle_()
    assert "&lt;b&gt;:3" in made["text/html"] and made["text/plain"].startswith("Dim <b>:3")
    assert repr(dim) == "Dim{<b>:3}"
