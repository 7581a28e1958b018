"""A notebook in JupyterLab in a browser: run cells, wait, read outputs, ask the kernel, take a picture."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page

from tests.browser.panel import Stepper

ARTIFACTS = Path(__file__).parent / "artifacts"

READY = """async () => {
  const app = window.jupyterapp;
  await app.restored;
  while (!app.shell.currentWidget?.context) await new Promise(r => setTimeout(r, 50));
  const panel = app.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await panel.sessionContext.session.kernel.info;
}"""
"""Only the kernel's own answer says that it is there: "idle" shows before that, and a run command is lost then."""

RUN_CELL = """async index => {
  const { content } = window.jupyterapp.shell.currentWidget;
  content.activeCellIndex = index;
  await content.scrollToCell(content.widgets[index]);
  return await window.jupyterapp.commands.execute('notebook:run-cell');
}"""

EXECUTE = """async code => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const future = kernel.requestExecute({ code, store_history: false });
  let text = '';
  future.onIOPub = message => {
    if (message.header.msg_type === 'stream') text += message.content.text;
  };
  const reply = await future.done;
  if (reply.content.status !== 'ok') throw new Error(`${reply.content.ename}: ${reply.content.evalue}`);
  return text;
}"""

LEAVE = """() => {
  const { serverSettings, sessions } = window.jupyterapp?.serviceManager ?? {};
  for (const { id } of sessions?.running() ?? []) {
    const headers = { Authorization: `token ${serverSettings.token}` };
    void fetch(`${serverSettings.baseUrl}api/sessions/${id}`, { method: 'DELETE', keepalive: true, headers });
  }
}"""
"""`keepalive`: the request outlives the page."""

OUTPUTS = """index => {
  const panel = window.jupyterapp.shell.currentWidget;
  return panel.content.widgets[index].model.outputs.toJSON();
}"""


def until(file: Path, body: str = "sleep(0.02)") -> str:
    """Code of a cell that runs a line until the test makes this file."""
    return f"from pathlib import Path\nfrom time import sleep\nwhile not Path({str(file)!r}).exists():\n    {body}"


class NotebookPage:
    """The notebook that is open in the page. Cells are counted from 0, markdown cells included."""

    def __init__(self, page: Page):
        self.page = page

    def open(self, address: str) -> NotebookPage:
        """Goes there and waits until its kernel answers."""
        self.page.goto(address)
        self.page.wait_for_function("() => window.jupyterapp")
        self.page.evaluate(READY)
        return self

    def save(self) -> None:
        """To the disk, and with it that its outputs are trusted."""
        self.command("docmanager:save")

    def trusted(self, index: int) -> bool:
        """Whether the outputs of a cell may run scripts."""
        return self.page.evaluate("i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.trusted", index)

    def open_beside(self, path: str) -> NotebookPage:
        """Another notebook, in the same page; it becomes the active one."""
        self.command("docmanager:open", path=path)
        self.page.wait_for_function("path => window.jupyterapp.shell.currentWidget?.context?.path === path", arg=path)
        self.page.evaluate(READY)
        return self

    def activate(self, name: str) -> None:
        """Makes the notebook with this file name the active one."""
        self.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text=name).click()

    def restart_kernel(self) -> None:
        """Without asking; returns when the new one answers."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        self.page.evaluate(READY)

    def run_all(self) -> None:
        """Runs all cells; an error in one is an error here, and tells what the cell said."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        for index in range(self.cell_count()):
            self.raise_error_of(index)

    def run_cell(self, index: int) -> None:
        """Runs one cell and waits for its end."""
        self.page.evaluate(RUN_CELL, index)
        self.raise_error_of(index)

    def start_cell(self, index: int) -> None:
        """Runs one cell and does not wait."""
        self.page.evaluate(f"index => {{ ({RUN_CELL})(index); }}", index)

    def wait_for_idle(self) -> None:
        """Waits until no cell runs any more."""
        prompts = "[...document.querySelectorAll('.jp-InputPrompt')]"
        self.page.wait_for_function(f"() => !{prompts}.some(prompt => prompt.textContent.includes('*'))")

    def write(self, index: int, *texts: str) -> None:
        """Replaces what is in a cell, by one text after the other at once."""
        code = """([index, texts]) => {
          const { content } = window.jupyterapp.shell.currentWidget;
          texts.forEach(text => content.widgets[index].model.sharedModel.setSource(text));
        }"""
        self.page.evaluate(code, [index, texts])

    def raise_error_of(self, index: int) -> None:
        """If the cell ended in an error, that one."""
        for output in self.outputs(index):
            if output["output_type"] == "error":
                raise AssertionError(f"cell {index}: {output['ename']}: {output['evalue']}")

    def cell_count(self) -> int:
        """Of all kinds."""
        return self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")

    def index_of(self, cell_id: str) -> int:
        """Of the cell with this id."""
        code = "id => window.jupyterapp.shell.currentWidget.content.widgets.findIndex(cell => cell.model.id === id)"
        return self.page.evaluate(code, cell_id)

    def cell(self, index: int) -> Locator:
        """The cell on the page; it is scrolled into view, which gives it the focus; only what is near is drawn."""
        self.page.evaluate(
            """async index => {
              const { content } = window.jupyterapp.shell.currentWidget;
              await content.scrollToCell(content.widgets[index]);
            }""",
            index,
        )
        return self.page.locator(f'.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index="{index}"]')

    def stepper(self, index: int) -> Stepper:
        """The one in the output of a cell."""
        return Stepper(self.cell(index).locator(".rfnb-Inline"))

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The outputs in the notebook's own format; none for markdown."""
        is_code = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.type === 'code'"
        return self.page.evaluate(OUTPUTS, index) if self.page.evaluate(is_code, index) else []

    def text(self, index: int) -> str:
        """What a cell printed, and its plain-text result."""
        parts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in self.outputs(index)]
        return "".join("".join(part) for part in parts)

    def value(self, expression: str) -> Any:
        """A number, string or list that the kernel computes, for comparing with what the page shows."""
        return ast.literal_eval(self.page.evaluate(EXECUTE, f"print(repr({expression}))"))

    def execute(self, code: str) -> str:
        """What the code prints when the kernel runs it, outside of any cell."""
        return self.page.evaluate(EXECUTE, code)

    def command(self, name: str, **arguments: Any) -> Any:
        """A command of JupyterLab such as `kernelmenu:restart`; waits for its end."""
        code = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)"
        return self.page.evaluate(code, [name, arguments])

    def highlighted(self, index: int, selector: str, value: str = "") -> list[str]:
        """The text of the lines in a cell's editor that carry a mark, once one of them says `value`."""
        lines = self.cell(index).locator(f".cm-line{selector}")
        lines.filter(has_text=value).first.wait_for()
        return lines.all_inner_texts()

    def screenshot(self, name: str) -> Path:
        """A picture of the page in `tests/browser/artifacts/`."""
        ARTIFACTS.mkdir(exist_ok=True)
        file = ARTIFACTS / f"{name}.png"
        self.page.screenshot(path=file)
        return file

    def shutdown_kernels(self) -> None:
        """Ends them, and waits until they have ended."""
        self.page.evaluate("async () => { await window.jupyterapp?.serviceManager.sessions.shutdownAll(); }")

    def leave(self) -> None:
        """Ends the kernels, without waiting: the next test has a notebook, and so a kernel, of its own."""
        self.page.evaluate(LEAVE)


def made_of(cells: list[str]) -> nbformat.NotebookNode:
    """A notebook of code cells."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=kernel)
