"""Views as files: the suffix decides, and a file is replaced as a whole or not at all."""

from __future__ import annotations

import csv
import errno
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.kit.view import View
from rfnb.errors import ViewError
from tests.display.hostile import PAYLOADS, batch, hostile

TIME, FEAT = Dim(None, name="time"), Dim(300, name="feat")


def tensor() -> View:
    raw = torch.rand(2, 5, 300)
    return rf.show(rf.convert_to_tensor(raw, dims=[batch_dim, TIME, FEAT], lengths=[5, 3], tags=["kiwi", "fig"]))


def small() -> View:
    return rf.show(rf.convert_to_tensor([1.0, 2.0], dims=[Dim(2, name="two")]))


def attention() -> View:
    sides = [Dim(3, name="queries"), Dim(4, name="keys")]
    return rf.show_attention(rf.softmax(rf.random_uniform(sides), axis=sides[1]))


def graph() -> View:
    model = rf.Linear(Dim(4, name="in"), Dim(3, name="out"))
    return rf.show(model, rf.ones([Dim(2, name="n"), model.in_dim]))


def progress() -> View:
    bar = rf.progress([1, 2], name="run", plot=False)
    for i in bar:
        bar.report(loss=1.0 / i)
    return rf.show(bar)


PICTURES = {"attention": attention, "graph": graph, "progress": progress, "tensor": tensor}
FIGURES = ["attention", "progress"]


@pytest.mark.parametrize("kind", PICTURES)
def test_an_svg_is_a_picture(kind, tmp_path):
    path = PICTURES[kind]().save(tmp_path / "x.svg")
    assert ElementTree.fromstring(path.read_bytes()).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("kind", FIGURES)
def test_figures_are_pdf_and_png(kind, tmp_path):
    view = PICTURES[kind]()
    assert view.save(tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    assert view.save(tmp_path / "X.PNG").read_bytes().startswith(b"\x89PNG")


def test_json_is_the_data(tmp_path):
    view = tensor()
    assert json.loads(view.save(tmp_path / "x.json").read_text(encoding="utf-8")) == view.data


def test_text_is_what_a_terminal_shows(tmp_path):
    view = tensor()
    assert view.save(str(tmp_path / "x.txt")).read_text(encoding="utf-8") == view.text + "\n"


def test_csv_is_the_table(tmp_path):
    view = tensor()
    with view.save(tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    table = view.table()
    assert columns == list(table.columns)
    assert [row[0] for row in rows] == [str(row[0]) for row in table.rows]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_of_any_kind_can_be_written(payload, tmp_path):
    view = rf.show(batch(hostile(PAYLOADS[payload]))[0])
    for suffix in ("json", "txt", "csv"):
        assert view.save(tmp_path / f"x.{suffix}").read_bytes()


@pytest.mark.parametrize("name", ["x.pdf", "x.jpg", "x", "x.svg", ".svg"])
def test_another_suffix_is_refused_with_those_that_are_possible(name, tmp_path):
    with pytest.raises(ViewError, match="save: ") as caught:
        small().save(tmp_path / name)
    assert "html, json, txt, csv" in str(caught.value)
    assert "svg" not in caught.value.expected
    with pytest.raises(ViewError) as caught:
        attention().save(tmp_path / "x.jpg")
    assert caught.value.expected == "html, json, txt, csv, svg, pdf, png"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = small().save(tmp_path / "x.html")
    good = path.read_bytes()

    def half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(ViewError, match="cannot be written") as caught:
        tensor().save(path)
    assert "No space left" in str(caught.value) and "x.html is unchanged" in str(caught.value)
    assert path.read_bytes() == good and [file.name for file in tmp_path.iterdir()] == ["x.html"]


@pytest.mark.parametrize("name", ["no/x.html", "x" * 300 + ".html", "a\0b.html"])
def test_where_nothing_can_be_written(name, tmp_path):
    with pytest.raises(ViewError, match="cannot be written"):
        small().save(tmp_path / name)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x.html", tmp_path / "x.html"
    link.symlink_to(target)
    assert small().save(link) == link  # the target does not exist yet
    assert link.is_symlink() and target.read_text(encoding="utf-8").startswith("<!doctype")
    tensor().save(link)
    assert link.is_symlink() and "kiwi" in target.read_text(encoding="utf-8")


def test_what_was_captured_is_drawn_and_saved_as_its_attention(tmp_path):
    sides = [Dim(3, name="queries"), Dim(4, name="keys")]
    with rf.capture() as seen:
        weights = rf.softmax(rf.random_uniform(sides), axis=sides[1])
        rf.matmul(weights, rf.ones([sides[1]]), reduce=sides[1])
    view = rf.show(seen)
    assert view.svg is None and view.figure().axes
    assert "<svg" in view.save(tmp_path / "seen.svg").read_text()
