"""Makes docs/pictures/*.webp, light and dark: `python -m tests.browser.make_readme_pictures`.

They show views of the README's own examples, of the gallery notebook, of the stories, and of the pages on errors and
training.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import rfnb as rf
from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import ROOT

FOLDER = ROOT / "docs" / "pictures"
QUALITY = 60
Names = dict[str, Any]


def blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def run(code: str, names: Names, file: str) -> Any:
    """Runs the code under this file name; returns the value of its last line if that is an expression."""
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    tree = ast.parse(code)
    result = tree.body.pop().value if isinstance(tree.body[-1], ast.Expr) else ast.parse("None", mode="eval").body
    exec(compile(tree, file, "exec"), names)
    return eval(compile(ast.Expression(result), file, "eval"), names)


def gallery(*ids: str) -> list[Any]:
    """The results of these cells of the gallery; cells that show an error are left out."""
    names: Names = {}
    cells = json.loads((ROOT / "notebooks" / "03_views.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code" and not cell["metadata"].get("tags")]
    results = {cell["id"]: run("".join(cell["source"]), names, cell["id"]) for cell in code}
    return [results[cell_id] for cell_id in ids]


def trained() -> Any:
    """The trained model of `notebooks/g2p.py`."""
    sys.path.insert(0, str(ROOT / "notebooks"))
    import g2p

    return g2p.load(ROOT / "notebooks" / "data" / "g2p_large.safetensors")[0]


def beam() -> Any:
    """A search for the phonemes of a word that greedy search misses."""
    return rf.show(trained().search(["islet"], beam_size=4), reference="AY L IH T")


def attention() -> Any:
    """A trained model looks at the letters of a word."""
    model = trained()
    with rf.capture(model) as seen:
        phones = model.pronounce(["hummingbird"])["hummingbird"]
    steps, batch, letters, beam = (weights := seen["decoder.attention"].weights).dims
    array = weights.copy_transpose([batch, beam, steps, letters]).raw_tensor[0, 0]
    return rf.show_attention(array, rows=phones, cols="hummingbird")


def comparison() -> Any:
    """The README's run of a loop and its fork."""
    shown: list[Any] = []
    *_, travel, _, _ = blocks("README.md")
    run(travel.rpartition("run.save(")[0], {"display": shown.append}, "travel.py")
    return shown[0]


STORIES = {
    "batch": (1, "rf.check.batch_invariance(model, x, lengths)", 600),
    "beam": (2, 'rf.show(beam, reference="the dog barks loudly")', 440),
    "attention": (2, 'rf.show_attention(run.stack("att"), cols=letters)', 300),
    "loop": (2, "loop.explain()", 700),
    "nan": (1, 'rf.runs["training"][34]', 800),
    "shape": (1, "error_of(2)", 700),
    "shape-dims": (2, "rf.show_dims(labels, inputs, logits)", 640),
    "checkpoint": (1, "error_of(2)", 640),
    "checkpoint-report": (3, "report", 480),
}
"""By picture: after how many blocks of the story, the view of which expression, and its width."""


def story(name: str) -> Any:
    """The view of a story."""
    count, expression, _ = STORIES[name]
    page = name.partition("-")[0]
    codes = blocks(f"docs/stories/{page}.md")

    def error_of(number: int) -> Exception:
        """The error that this block catches."""
        before, _, tried = codes[number - 1].partition("try:\n")
        run(before, names, f"{name}, cell 1")
        return raised(dedent(tried.partition("except ")[0]), names, f"{name}, cell {number}")

    names: Names = {"error_of": error_of}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, code in enumerate(codes[:count], 1):
            run(code, names, f"{page} {number}")
        return run(expression, names, "shown")


def raised(code: str, names: Names, file: str) -> Exception:
    """The error of rfnb that the code raises."""
    try:
        run(code, names, file)
    except rf.errors.RfError as caught:
        return caught
    raise AssertionError(f"{file} raised no error")


def error() -> Any:
    """The first mistake of docs/errors.md."""
    names: Names = {}
    setup, mistake, *_ = blocks("docs/errors.md")
    run(setup, names, "setup.py")
    return raised(mistake, names, "model.py")


def training() -> Any:
    """The model of docs/training.md, trained for longer."""
    names: Names = {}
    setup, loop, *_ = blocks("docs/training.md")
    run(setup, names, "setup.py")
    run(loop.partition("\nassert")[0].replace("range(3)", "range(30)"), names, "train.py")
    return names["progress"]


def net_dict() -> Any:
    """The network of the notebook's config, with its dims and its loss."""
    return rf.show(rf.Network.from_config(rf.examples.path("blstm_hybrid.config"), device="meta"))


def save(browser: Browser, name: str, shown: Any, width: int, height: int) -> None:
    """Saves pictures of one view, light and dark, at most this high."""
    with tempfile.TemporaryDirectory() as folder:
        view = shown if hasattr(shown, "save") and hasattr(shown, "html") else rf.show(shown)
        file = view.save(Path(folder) / "view.html")
        for theme in ("light", "dark"):
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=2
            )
            page.goto(file.as_uri())
            page.wait_for_timeout(500)
            tall = page.locator("body").bounding_box()
            assert tall is not None
            clip = {"x": 0, "y": 0, "width": width, "height": min(tall["height"] + 2 * tall["y"], height)}
            picture = Image.open(io.BytesIO(page.screenshot(clip=clip)))
            picture.save(FOLDER / f"{name}-{theme}.webp", quality=QUALITY)
            page.close()


def main() -> None:
    """Needs Chromium."""
    FOLDER.mkdir(exist_ok=True)
    os.chdir(ROOT / "notebooks")
    rf.options.record = "last"
    compared = comparison()
    graph, array, model = gallery("graph-torch", "numpy", "graph")
    views = {
        "beam": (beam(), 440, 368),
        "graph": (graph, 440, 500),
        "attention": (attention(), 440, 600),
        "array": (array, 440, 500),
        "compare": (compared, 480, 400),
        "model": (model, 720, 760),
        "error": (error(), 720, 400),
        "training": (training(), 480, 222),
        "net": (net_dict(), 640, 760),
        **{f"story-{name}": (story(name), width, 420) for name, (_, _, width) in STORIES.items()},
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        for name, (view, width, height) in views.items():
            save(browser, name, view, width, height)
        browser.close()


if __name__ == "__main__":
    main()
