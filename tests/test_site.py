"""The site has README, docs and docstrings, no link that leads nowhere, and no request to another host."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from rfnb.public_names import FOLDERS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site with the page of one notebook."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        spec = importlib.util.spec_from_file_location("build_site", ROOT / ".ci" / "build_site.py")
        assert spec is not None and spec.loader is not None
        build_site = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build_site)
        patch.setattr(build_site, "STAGE", folder / "stage")
        patch.setattr(build_site.pages, "OUT", folder / "pages")
        notebook = folder / "pages" / "notebooks" / "09_speech.html"
        notebook.parent.mkdir(parents=True)
        notebook.write_text("<p>The outputs.</p>")
        assert build_site.build([notebook], folder / "site") == 0
        for name in ("pages", "step"):
            sys.modules.pop(name, None)
    return folder / "site"


@pytest.mark.slow
def test_each_public_name_has_a_section(site):
    index = (site / "api" / "index.html").read_text(encoding="utf-8")
    names = {name for name in FOLDERS if f">rf.{name}<" not in index and f">rf.{name}." not in index}
    assert names == {"encoder", "decoder"}  # whose classes have sections of their own


@pytest.mark.slow
def test_no_page_loads_anything_from_another_host(site):
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    loads = re.compile(
        r"""(?:<(?:script|img|source|iframe)\b[^>]*?(?:src|srcset)=|<link\b[^>]*?href=|url\()["']?(https?:)?//"""
    )
    assert len(pages) > 40
    assert [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_the_front_page_is_the_readme_with_its_pictures(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "Any loop, stepped forward and back" in page and "beam_search.html" in page
    pictures = re.findall(r'(?:src|srcset)="(pictures/[^"]+)"', page)
    assert len(pictures) > 10 and all((site / picture).is_file() for picture in pictures)
