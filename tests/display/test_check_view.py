"""The views of what `rf.check` found."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html import unescape

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.display.kit import data, window
from rfnb.display.markup import png

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _dims_without_places(monkeypatch):
    monkeypatch.setattr(data, "made_in", lambda dim: None)


@pytest.fixture
def x() -> rf.Tensor:
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    rows = [np.arange(2.0 * n).reshape(n, 2).astype("float32") - 1.5 for n in (3, 1)]
    return rf.convert_to_tensor(rows, dims=[batch_dim, time, feat], tags=["apple", HOSTILE])


def logarithm(x: rf.Tensor) -> rf.Tensor:
    energy = rf.log(rf.relu(x))
    return rf.tanh(energy * 0.0)


def leaking(x: rf.Tensor) -> rf.Tensor:
    return rf.reduce_mean(x, axis=x.dims[1], use_mask=False) + 1.0


def words(html: str) -> str:
    return "".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def pixels(uri: str) -> np.ndarray:
    """The palette entries of a picture, as far as they are told apart."""
    data = base64.b64decode(uri.partition(",")[2])
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    start = data.index(b"IDAT")
    size = int.from_bytes(data[start - 4 : start], "big")
    raw = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + size]), np.uint8)
    return raw.reshape(height, width + 1)[:, 1:]


def test_what_is_in_order_is_one_line(x):
    for report, said in [
        (rf.check.finite(rf.tanh, x), "finite: no NaN and no infinity in 1 result"),
        (rf.check.batch_invariance(rf.tanh, x), "batch invariance: 2 results agree with those of 2 single sequences"),
    ]:
        view = rf.show(report)
        assert (view.text, repr(report)) == (said, said)
        assert ">passed </span>" in view.html
        assert said in unescape(view.html)
        assert len(view.table()) == 0


def test_not_finite(x, golden):
    view = rf.show(rf.check.finite(logarithm, x))
    table = list(view.table())
    assert [found["op"] for found in table] == ["log", "mul"]
    assert "  NaN       made by mul: 4 entries of mul, first at batch 0 ('apple'), time 0, feat 0\n" in view.text
    [alt] = re.findall(r'alt="([^"]*)"', view.html)
    assert alt == "mul: batch 0–1 down, time 0–2 across, at feat 0; marked: nan"
    assert (table[1]["what"], table[1]["came from"][:16]) == ("4 NaN", "infinity of test")
    golden("check.txt", re.sub(r":\d+: ", ":1: ", view.text) + "\n")
    golden("check.json", re.sub(r":\d+: ", ":1: ", json.dumps(view.data, indent=1, ensure_ascii=False)) + "\n")


def test_text_and_html_tell_the_same(x):
    for report in (rf.check.finite(logarithm, x), rf.check.batch_invariance(leaking, x.copy_masked(5.0))):
        view = rf.show(report)
        html = words(view.html)
        for word in view.text.split():
            if fact := word.strip("{},"):
                assert fact in html, fact
        assert "<script" not in view.html
        assert json.dumps(view.data, allow_nan=False)


def test_a_difference_is_shown_in_the_batch_alone_and_between(x):
    def shifted(x: rf.Tensor) -> rf.Tensor:
        return x + rf.reduce_max(x, axis=[batch_dim, x.dims[1]])

    view = rf.show(rf.check.batch_invariance(shifted, x))
    alts = [alt.partition(": ") for alt in re.findall(r'alt="([^"]*)"', view.html)]
    assert [title for title, *_ in alts] == ["add in the batch", "alone", "|Δ| up to 4"]
    assert alts[0][2].startswith("feat 0–1 down, time 0–2 across; marked")
    [found] = view.table()
    assert found["at"].startswith(f"{HOSTILE!r} (sequence 1)")
    assert "an earlier op combines the sequences" in view.text


def test_without_sequences_only_the_frames_are_named(x):
    view = rf.show(rf.check.batch_invariance(leaking, x.copy_masked(5.0)))
    [axes] = set(re.findall(r'alt="[^:]*: ([^;]*);', view.html))
    assert axes == "feat 0–1 across"


def test_of_a_scalar_there_is_no_picture():
    view = rf.show(rf.check.finite(lambda: rf.log(rf.convert_to_tensor(0.0)) * 0.0))
    assert view.html and "<img" not in view.html


def test_gradients_and_what_came_from_outside(x):
    weight = rf.Parameter([x.dims[2]], initial=0.0)

    def loss() -> rf.Tensor:
        root = rf.sqrt(rf.square(x * weight))
        return rf.reduce_sum(root, axis=root.dims)

    view = rf.show(rf.check.finite(loss, gradients=True))
    assert next(iter(view.table()))["what"] == "gradient infinity"
    broken = x.like(x.raw_tensor * float("nan"))
    view = rf.show(rf.check.finite(rf.tanh, broken))
    assert ">passed<" not in view.html
    assert "given" in view.text


def test_many_findings_are_left_out():
    def fn() -> None:
        for _ in range(30):
            rf.log(rf.zeros([batch_dim]))

    x = rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim])
    assert x.dims
    view = rf.show(rf.check.finite(fn))
    assert len(view.table()) == 20
    assert "the first 20 of 30 findings" in view.text


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.data())
def test_the_place_is_in_the_window_and_marked(shape, data):
    at = [data.draw(st.integers(0, n - 1)) for n in shape]
    moves = [data.draw(st.booleans()) for _ in shape]
    rows = data.draw(st.sampled_from([None, *range(len(shape))]))
    array = np.zeros(shape)
    array[tuple(at)] = 1.0
    cut = window.around(shape, [f"d{i}" for i in range(len(shape))], at, rows, moves)
    part = cut.cut(array)
    assert part.shape[0] <= window.CELLS[0]
    assert part.shape[1] <= window.CELLS[1]
    assert part.sum() == 1.0  # the place, and nothing twice
    drawn = window.draw(part, np.ones(part.shape, bool), cut, "x", "1", 1.0, "sequential")
    found = pixels(drawn["picture"])
    row, col = np.argwhere(part)[0]
    cell = found.shape[1] // part.shape[1]
    corner = found[row * cell, col * cell]
    assert corner == found.max()  # the mark has the last colour
    assert (found == corner).sum() == 4 * cell - 4
    assert png.MARK == 255


def test_plain_torch():
    raw = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    view = rf.show(rf.check.finite(lambda: torch.log(raw) * 0))
    assert next(iter(view.table()))["op"] == "log"
    assert "  dims      {axis0:2, axis1:3, axis2:4}" in view.text
    assert 'alt="log: axis1 0–2 down, axis2 0–3 across, at axis0 0; marked' in view.html
    view = rf.show(rf.check.batch_invariance(lambda x: x.softmax(1), raw, lengths=[3, 1]))
    alts = [alt.partition(": ")[0][:20] for alt in re.findall(r'alt="([^"]*)"', view.html)]
    assert alts == ["softmax in the batch", "alone", "|Δ| up to 0.901"]
    assert "padding affects the result" in unescape(view.html)


def test_nothing_was_checked():
    view = rf.show(rf.check.finite(lambda: None))
    assert ">passed<" not in view.html
    assert "not checked" in view.html and "found" not in view.html
