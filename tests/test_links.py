"""No relative link and no picture in the README, the pages of docs/ and the notebooks is dead."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
FILES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/**/*.md"), *ROOT.glob("notebooks/*.ipynb")]
)
LINK = re.compile(r"""\]\(([^()\s]+)\)|(?:src|srcset|href)="([^"\s]+)\"""")
LARGEST_PICTURE = 110_000
"""Bytes of a picture that a page shows."""


def text_of(file: Path) -> str:
    """The prose of a page or a notebook, without blocks and spans of code."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def links_of(file: Path) -> list[str]:
    """The relative links and pictures of a page."""
    found = [first or second for first, second in LINK.findall(text_of(file))]
    return [link for link in found if not re.match(r"\w+:", link)]


@cache
def anchors_of(file: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub writes them; of a notebook, as JupyterLab writes them."""
    titles = re.findall(r"^#+ +(.*?) *$", without_code_blocks(file), re.MULTILINE)
    if file.suffix == ".ipynb":
        return {title.replace(" ", "-") for title in titles}
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def without_code_blocks(file: Path) -> str:
    """The text with its headings as they are."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        return text_of(file)
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


CASES = [(file, link) for file in FILES for link in links_of(file)]


def fault_of(file: Path, link: str) -> str:
    """Why the link leads nowhere, or nothing."""
    path, _, anchor = unquote(link).partition("#")
    target = (file.parent / path).resolve() if path else file
    if not target.is_relative_to(ROOT):
        return "leaves the repository"
    if not target.exists():
        return "leads to no file"
    has_headings = anchor and target.suffix in (".md", ".ipynb")
    return "leads to no heading" if has_headings and anchor not in anchors_of(target) else ""


def test_a_link_leads_to_a_file_and_a_heading():
    faults = {(file.name, link): fault_of(file, link) for file, link in CASES}
    assert {place: fault for place, fault in faults.items() if fault} == {}


def test_links_are_found():
    assert len(CASES) > 60
    assert {"docs/stepper.png", "docs/install.md", "LICENSE"} <= {
        link for file, link in CASES if file.name == "README.md"
    }


def test_pictures_of_the_readme_are_small():
    pictures = {link for link in links_of(ROOT / "README.md") if link.endswith((".png", ".webp"))}
    assert len(pictures) > 10
    assert all((ROOT / picture).stat().st_size <= LARGEST_PICTURE for picture in pictures)
