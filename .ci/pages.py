"""Writes the notebooks, with their outputs, and the documentation as static pages that need no kernel and no network.

Usage: `python .ci/pages.py [notebooks]`; without arguments, all notebooks of `notebooks/`. The pages lie in
`dist/pages/`, which can be copied to any web server. Views are complete without scripts; with scripts they react to the
pointer, as in JupyterLab. A notebook that was saved with the outputs of all cells is shown with them. Others are
executed, and again only when the notebook, the files beside it or rfnb have changed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from step import CACHE, ROOT, Stamps, Timer, fingerprint, say

from rfnb.display.kit.page import MIME, STATIC

OUT = ROOT / "dist" / "pages"
KEPT = CACHE / "pages"
WIDGET = "application/vnd.jupyter.widget-view+json"
LONGEST_CELL = 15 * 60
"""Seconds."""
LINK = re.compile(r"""(\]\(|\b(?:src|srcset|href)=")([^()\s"]+)(?=[)"])""")
ENHANCE = """<script type="module">
import views from "{up}views.js";
for (const data of document.querySelectorAll("script.rfnb-scripts")) {{
  const el = data.previousElementSibling, values = {{ html: el.innerHTML, scripts: JSON.parse(data.textContent) }};
  views.render({{ el, model: {{ get: name => values[name] }} }});
}}
</script>
<link rel="stylesheet" href="{up}views.css">"""


def main(names: Sequence[str]) -> None:
    """All pages, and `index.html`, which lists them."""
    shutil.rmtree(OUT, ignore_errors=True)
    notebooks = [Path(name).resolve() for name in names] or sorted((ROOT / "notebooks").glob("*.ipynb"))
    for file in notebooks:
        write(file, with_outputs(file))
    texts = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
    for file in texts:
        write(file, notebook_of(file.read_text(encoding="utf-8")))
    write(ROOT / "index.md", notebook_of(index(notebooks, texts)))
    for script in filter(Path.is_file, (STATIC / name for name in ("views.js", "views.css"))):
        shutil.copy(script, OUT)
    print(f"\n  {OUT / 'index.html'}")


def with_outputs(file: Path) -> NotebookNode:
    """The notebook with the outputs that it was saved with, those of the last time, or new ones."""
    notebook = nbformat.read(file, as_version=4)
    if is_executed(notebook):
        say("pages", f"{file.name}: with the outputs that it has")
        return notebook
    kept = KEPT / file.name
    key = fingerprint(sources(file))
    stamps = Stamps(KEPT)
    if kept.exists() and stamps.fresh(file.stem, key):
        say("pages", f"{file.name}: unchanged")
        return nbformat.read(kept, as_version=4)
    timer = Timer("pages", file.name)
    notebook = executed(file)
    KEPT.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    stamps.mark(file.stem, key)
    timer.done()
    return notebook


def is_executed(notebook: NotebookNode) -> bool:
    """Whether all cells with code have been executed, each once and in order."""
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    return None not in counts and all(a < b for a, b in pairwise(counts))


def sources(file: Path) -> list[Path]:
    """What the outputs of a notebook depend on: itself, code and data beside it, and rfnb."""
    folders = [(file.parent, "*.py *.config"), (file.parent / "data", "*"), (ROOT / "rfnb", "*.py *.js *.css")]
    found = {each for folder, names in folders for name in names.split() for each in folder.rglob(name)}
    return [file, *(each for each in found if each.is_file() and "__pycache__" not in each.parts)]


def executed(file: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh kernel. Raises CellExecutionError."""
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(notebook, kernel_name="python3", timeout=LONGEST_CELL, store_widget_state=False)
    client.execute(cwd=str(file.parent))
    return notebook


def notebook_of(text: str) -> NotebookNode:
    """A page of the documentation as a notebook of one cell."""
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])


def index(notebooks: Sequence[Path], texts: Sequence[Path]) -> str:
    """Lists the notebooks with their first sentences, and the other pages."""
    lines = ["# rfnb", "", "## Notebooks", ""]
    for file in notebooks:
        title, *more = nbformat.read(file, as_version=4).cells[0].source.strip().split("\n\n")
        first = f": {re.split(r'(?<=[.:]) ', more[0])[0]}" if more else ""
        lines.append(f"* [{title.lstrip('# ')}]({file.relative_to(ROOT).as_posix()}){first}")
    lines += ["", "## Documentation", ""]
    for file in texts:
        title = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"* [{title}]({file.relative_to(ROOT).as_posix()})")
    return "\n".join(lines)


def write(file: Path, notebook: NotebookNode) -> None:
    """The page of a notebook, at the place that the notebook has in the repository, and the files that it links to."""
    path = file.relative_to(ROOT)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(lambda found: found[1] + relinked(found[2], file.parent), cell.source)
        for output in cell.get("outputs", ()):
            if "data" in output:
                output.data = still(output.data)
        if cell.cell_type == "code":  # a widget alone leaves nothing, as buttons beside a view do
            cell.outputs = [output for output in cell.outputs if output.get("data") != {}]
    title = notebook.cells[0].source.partition("\n")[0].lstrip("# ")
    html, _ = HTMLExporter().from_notebook_node(notebook, {"metadata": {"name": title}})
    head, end, body = html.partition("</head>")
    head = re.sub(r"<script\b.*?</script>", "", head, flags=re.DOTALL)  # from servers elsewhere, for formulas and such
    if file.suffix == ".md":  # anchors as in a rendered file of a repository
        body = re.sub(r'(<h\d[^>]* id=")([^"]*)', lambda found: found[1] + anchor(found[2]), body)
    head += '<link rel="icon" href="data:,">'  # or the browser asks the server for one
    if "rfnb-scripts" in body:
        head += ENHANCE.format(up="../" * (len(path.parts) - 1))
    page = (OUT / path).with_suffix(".html")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(head + end + body, encoding="utf-8")


def still(data: NotebookNode) -> NotebookNode:
    """An output without its widget. A view has the data of its scripts beside its HTML."""
    data = NotebookNode({kind: value for kind, value in data.items() if kind != WIDGET})
    if "text/html" in data and set(scripts := data.get(MIME, {})) > {"kind"}:
        text = json.dumps(scripts).replace("<", "\\u003c")
        html = f'<div class="rfnb-view">{data["text/html"]}</div>'
        data["text/html"] = f'{html}<script type="application/json" class="rfnb-scripts">{text}</script>'
    return data


def relinked(link: str, folder: Path) -> str:
    """A link to a notebook or a text as a link to its page. Another file that is linked to is copied."""
    path, sign, anchor = link.partition("#")
    target = (folder / unquote(path)).resolve()
    if not path or ":" in path or not target.is_relative_to(ROOT):
        return link
    if target.suffix in (".ipynb", ".md"):
        return f"{path.rpartition('.')[0]}.html{sign}{anchor}"
    if target.is_file():
        copy = OUT / target.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
    return link


def anchor(title: str) -> str:
    """The anchor of a heading in lower case, without punctuation."""
    return re.sub(r"[^\w-]", "", unquote(title).lower())


if __name__ == "__main__":
    main(sys.argv[1:])
