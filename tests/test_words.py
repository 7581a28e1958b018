"""What users read is plain English: odd phrases that once were frequent stay away."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "rfnb").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SCRIPTS = sorted([*(ROOT / "extension" / "src").rglob("*.ts"), *(ROOT / "extension" / "src").rglob("*.tsx")])

ODD = {
    "is no X": r"(?<!there )(?<!There )\b(is|are) no (?!longer\b|more\b|different\b|other\b|one\b)\w+",
    "a person who does it": r"\b(somebody|whoever|nobody)\b",
    "tells, told": r"\b(tells?|told)\b",
    "behind, in time": r"\bbehind (the (end|loop|steps|block|last)|it|them|its end)\b",
    "so many": r"\b(so|as) many\b(?! as\b)",
    "to be had": r"\bto be had\b",
    "by way of": r"\bby way of\b",
    "in the end": r"\bin the end\b",
    "of now": r"\bof now\b",
    "that there is not": r"\bthat there (is|are) not\b|\bthere is no .{1,40} that\b",
}
EMPTY = re.compile(
    r"^(Likewise|Those|Of|As|The same(?=[.,:]| as | for | of | in | with )|Another one|One more|One less)\b"
)
"""How a docstring begins that says something only below the one above it."""


def odd_in(text: str) -> list[str]:
    """The odd phrases of a text, each with the words around it."""
    found = [(name, match) for name, odd in ODD.items() for match in re.finditer(odd, text)]
    return [f"{name}: …{text[max(0, match.start() - 40) : match.end() + 40]}…" for name, match in found]


def texts_of(node: ast.AST) -> Iterator[str]:
    """The strings of an expression, with a sign for what is filled in."""
    for part in ast.walk(node):
        if isinstance(part, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "‹x›" for v in part.values)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What errors and warnings say: the strings in calls of classes of that name, and in `warn(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name.endswith(("Error", "Warning", "Rebound", "Exception")) or name in ("warn", "equivalent_error"):
                yield from ((node.lineno, text) for text in texts_of(node))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts below modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_errors_and_warnings_are_plain(file):
    assert not [f"line {line}: {odd}" for line, text in messages(parse(file)) for odd in odd_in(text)]


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_docstrings_say_something_on_their_own(file):
    assert not [f"line {line}: {text[:60]}" for line, text in docstrings(parse(file)) if EMPTY.match(text.lstrip())]


@pytest.mark.parametrize("file", PAGES, ids=name_of)
def test_pages_are_plain(file):
    prose = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.S)
    assert not odd_in(prose)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=name_of)
def test_notebooks_are_plain(file):
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    assert not [odd for cell in cells if cell["cell_type"] == "markdown" for odd in odd_in("".join(cell["source"]))]


@pytest.mark.parametrize("file", SCRIPTS, ids=name_of)
def test_labels_of_the_front_end_are_plain(file):
    labels = re.findall(r"trans\._[_n]\(\s*(['\"`])(.*?)\1", file.read_text(encoding="utf-8"), flags=re.S)
    assert not [odd for _, label in labels for odd in odd_in(label)]


@pytest.mark.parametrize(
    "text", ["`x` is no Tensor", "there are so many steps", "behind the loop", "somebody listens", "the loop tells"]
)
def test_odd_phrases_are_seen(text):
    assert odd_in(text)


@pytest.mark.parametrize(
    "text", ["`x` is not a Tensor", "it is no longer there", "after the loop", "as many as before"]
)
def test_plain_phrases_are_not(text):
    assert not odd_in(text)
