"""Builds the site, `dist/site`: README, docs, notebooks with their outputs, and a reference from the docstrings.

Usage: `python .ci/build_site.py [notebooks]`; without arguments, all notebooks. The site can be searched, loads
nothing from other hosts, and is built by Sphinx, which fails for a link that leads nowhere.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pages
from step import CACHE, ROOT

import rfnb as rf
from rfnb.public_names import NAMES

STAGE = CACHE / "site"
OUT = ROOT / "dist" / "site"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)|\b(src|srcset)=\"([^\"]+)\"")
RENAMED = {
    ROOT / "README.md": "index.md",
    ROOT / "CHANGELOG.md": "CHANGELOG.md",
    ROOT / "THIRD_PARTY.md": "THIRD_PARTY.md",
    ROOT / "docs" / "search.md": "beam_search.md",  # Sphinx has a page of its own called search
}
"""Where in the site pages are that have another place in the repository."""

CONTENTS = {
    "Guides": "install front_ends from_pytorch from_returnn loops debugging beam_search search_recipes "
    "search_reference views models training distributed performance net_dicts checkpoints errors g2p".split(),
    "Stories": [
        "stories/README",
        *(f"stories/{name}" for name in "shape batch nan beam attention checkpoint loop".split()),
    ],
    "Project": "roadmap SECURITY contributing architecture glossary CHANGELOG THIRD_PARTY".split(),
}
"""The pages by part of the site, in their order."""
TITLES = {
    "ops": "Dims, tensors and ops",
    "loop": "Loops",
    "trace": "Runs, recordings and checks",
    "search": "Search",
    "nn": "Modules",
    "display": "Views",
    "jobs": "Several processes",
    "checkpoint": "Checkpoints",
    "data": "Data",
    "netdict": "Net dicts",
    "netdict.code": "Net dicts as code",
}
"""By folder that has public names, the title of its page of the reference, in their order."""


def main(names: Sequence[str]) -> int:
    """The exit status of Sphinx."""
    pages.main(names)
    return build(sorted((pages.OUT / "notebooks").glob("*.html")))


def build(notebooks: Sequence[Path], out: Path = OUT) -> int:
    """Builds the site with these pages of notebooks."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGE, ignore=shutil.ignore_patterns("conf.py"))
    (STAGE / "search.md").unlink()
    for source, name in RENAMED.items():
        shutil.copy(source, STAGE / name)
    sources = {STAGE / name: source for source, name in RENAMED.items()}
    for page in STAGE.rglob("*.md"):
        source = sources.get(page, ROOT / "docs" / page.relative_to(STAGE))
        page.write_text(relinked(page.read_text(encoding="utf-8"), source, page), encoding="utf-8")
    if notebooks:
        copy_notebooks(notebooks)
    write_reference()
    write_contents(bool(notebooks))
    shutil.rmtree(out, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", ROOT / "docs", STAGE, out]
    status = subprocess.run(sphinx, check=False).returncode
    for file in STAGE.rglob("*"):
        if file.is_file() and file.suffix != ".md":  # pictures, and the pages of notebooks
            copy = out / file.relative_to(STAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    return status


def write_contents(has_notebooks: bool) -> None:
    """The order of the pages, at the end of the front page."""
    parts = dict(CONTENTS)
    parts["Reference"] = ["api/index", *(f"api/{folder}" for folder in TITLES)]
    if has_notebooks:
        parts["Guides"] = ["notebooks", *parts["Guides"]]
    with (STAGE / "index.md").open("a", encoding="utf-8") as file:
        for caption, names in parts.items():
            file.write("\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""]))


def relinked(text: str, source: Path, page: Path) -> str:
    """The text of a page, with links as they are in the site. A link to what is not in it becomes its words."""

    def place(link: str) -> str | None:
        path, sign, anchor = link.partition("#")
        if not path or re.match(r"\w+:", link):
            return link
        target = (source.parent / path).resolve()
        inside = ROOT / "docs"
        if target in RENAMED:
            staged = STAGE / RENAMED[target]
        elif target.is_relative_to(inside):
            staged = STAGE / target.relative_to(inside)
        else:
            staged = STAGE / target.relative_to(ROOT)
        up = "../" * len(page.parent.relative_to(STAGE).parts)
        return f"{up}{staged.relative_to(STAGE).as_posix()}{sign}{anchor}" if staged.is_file() else None

    def replaced(found: re.Match[str]) -> str:
        if found[3]:
            return f'{found[3]}="{place(found[4])}"'
        link = place(found[2])
        return f"[{found[1]}]({link})" if link else found[1]

    return LINK.sub(replaced, text)


def copy_notebooks(files: Sequence[Path]) -> None:
    """The pages of notebooks, and a page that lists them."""
    shutil.copytree(pages.OUT / "notebooks", STAGE / "notebooks", dirs_exist_ok=True)
    for script in pages.OUT.glob("views.*"):
        shutil.copy(script, STAGE)
    lines = ["# Notebooks", ""]
    for file in files:
        page = STAGE / "notebooks" / file.name
        text = page.read_text(encoding="utf-8")
        page.write_text(
            text.replace('href="../docs/', 'href="../').replace('src="../docs/', 'src="../'), encoding="utf-8"
        )
        source = (ROOT / "notebooks" / file.name).with_suffix(".ipynb")
        title, *more = nbformat.read(source, as_version=4).cells[0].source.strip().split("\n\n")
        first = relinked(more[0], source, STAGE / "notebooks.md") if more else ""
        lines.append(f'* <a href="notebooks/{file.name}">{title.lstrip("# ")}</a>: {first}')
    (STAGE / "notebooks.md").write_text("\n".join(lines), encoding="utf-8")


def write_reference() -> None:
    """A page for each folder that has public names, and one that lists all names."""
    (STAGE / "api").mkdir()
    index = ["# Reference", "", "All names of `rf`, by topic.", ""]
    listed = {folder: list(names) for folder, names in NAMES.items()}
    listed["search"] = []
    for name in [name for name in listed["ops"] if name == "search"]:
        listed["ops"].remove(name)
    for folder, title in TITLES.items():
        names = (
            [("search", rf.search)] if folder == "search" else [(name, getattr(rf, name)) for name in listed[folder]]
        )
        names = [(name, value) for name, value in names if (name == "search") == (folder == "search")]
        entries = [entry for name, value in names for entry in entries_of(f"rf.{name}", value)]
        text = [f"# {title}", "", *(line for name, value in entries for line in section(name, value))]
        (STAGE / "api" / f"{folder}.md").write_text("\n".join(text), encoding="utf-8")
        links = " · ".join(f"[`{name}`]({folder}.md#{anchor(name)})" for name, _ in entries)
        index += [f"## [{title}]({folder}.md)", "", links, ""]
    (STAGE / "api" / "index.md").write_text("\n".join(index), encoding="utf-8")


def entries_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A public name with its value; of a namespace, its names."""
    if not isinstance(value, types.ModuleType):
        yield name, value
        return
    for own in dir(value):
        if own[0] != "_" and not isinstance(getattr(value, own), types.ModuleType):
            yield f"{name}.{own}", getattr(value, own)


def anchor(name: str) -> str:
    """The anchor of the section of a name."""
    return name.lower().replace(".", "")


def section(name: str, value: Any) -> list[str]:
    """The section of a name: its signature, its docstring, and those of its methods."""
    lines = [f"## {name}", ""]
    if callable(value):
        lines += ["```python", f"{name}{signature_of(value)}", "```", ""]
    lines += rendered(inspect.getdoc(value) if callable(value) else None)
    if inspect.isclass(value):
        for key, member in vars(value).items():
            document = inspect.getdoc(member) if key[0] != "_" and not inspect.isclass(member) else None
            if document and (callable(member) or isinstance(member, property | classmethod | staticmethod)):
                shown = signature_of(getattr(value, key)) if not isinstance(member, property) else ""
                lines += [
                    f"### {key}",
                    "",
                    *(["```python", f"{key}{shown}", "```", ""] if shown else []),
                ]
                lines += rendered(document)
    return lines


def signature_of(value: Any) -> str:
    """The parameters with their defaults, without annotations."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    bare = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return re.sub(
        r"<[^<>]*>", "...", str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    )


def rendered(document: str | None) -> list[str]:
    """A docstring as Markdown: examples as code, arguments as a list."""
    lines: list[str] = []
    in_code = False
    for line in (document or "").splitlines():
        if line.lstrip().startswith(">>>") and not in_code:
            lines += ["", "```pycon"]
            in_code = True
        if in_code and not line.strip():
            lines.append("```")
            in_code = False
        if in_code:
            lines.append(line.strip() if line.lstrip().startswith((">>>", "...")) else line)
            continue
        text = "".join(
            part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(re.split(r"(`[^`]*`)", line))
        )
        argument = re.match(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)", text)
        if argument:
            lines.append(f"* `{argument[1]}`: {argument[2]}")
        elif re.fullmatch(r"(Args|Returns|Raises|Yields):", text):
            lines += ["", f"**{text}**", ""]
        else:
            lines.append(
                text if text.startswith(("        ", "*")) and not text.startswith("         ") else text.strip()
            )
    return [*lines, *(["```"] if in_code else []), ""]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
