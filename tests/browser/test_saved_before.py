"""A page and a notebook that were saved before views got their present names open in the browser as they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_views import errors_of, walk_dims

pytestmark = pytest.mark.browser
SAVED = Path(__file__).parents[1] / "saved"
TENSOR = 0
TRUST = "() => window.jupyterapp.shell.currentWidget.content.widgets.forEach(cell => { cell.model.trusted = true; })"


def test_a_page_is_stepped(page: Page):
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.context.set_offline(True)
    page.goto((SAVED / "sum.html").as_uri())
    stepper = page.locator(".rfnb-Stepper")
    stepper.focus()
    page.keyboard.press("End")
    expect(stepper).to_contain_text("total")
    assert said == []


@pytest.mark.usefixtures("extension")
def test_a_notebook_shows_its_views_and_enhances_them_once_it_is_trusted(open_notebook):
    text = (SAVED / "views.ipynb").read_text(encoding="utf-8")
    notebook = open_notebook(files={"test.ipynb": text})
    expect(notebook.cell(0)).to_contain_text("phi")
    expect(notebook.cell(2)).to_contain_text("total")
    notebook.page.evaluate(TRUST)
    errors = errors_of(notebook.page)
    walk_dims(notebook.cell(TENSOR))
    notebook.screenshot("saved-before")
    assert errors == []
