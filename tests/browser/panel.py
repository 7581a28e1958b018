"""The stepper as it is on the page: in the panel "Loops", or in the output of a cell."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page

NUMBER = re.compile(r"[-−]?\d+(?:\.\d+)?(?:e[-−]?\d+)?")


class Stepper:
    """One stepper; `root` is where it is on the page."""

    def __init__(self, root: Locator):
        self.root = root

    def step(self, button: str) -> None:
        """Clicks "first", "previous", "next" or "last"."""
        self.root.locator(f"[data-step={button}]").click()

    def at(self, step: int) -> Stepper:
        """Waits until this step is shown."""
        self.root.locator(".rfnb-Stepper[aria-busy=false]:not([data-gone=true])").wait_for()
        self.root.locator(".rfnb-Transport-step", has_text=re.compile(rf"^{step}$")).wait_for()
        return self

    def go(self, button: str, step: int) -> Stepper:
        """Clicks, and waits until this step is shown."""
        self.step(button)
        return self.at(step)

    def sequence(self, tag: str) -> None:
        """Chooses a sequence."""
        self.root.locator(".rfnb-Sequences-tag", has_text=tag).click()
        self.root.locator("[aria-pressed=true] .rfnb-Sequences-tag", has_text=tag).wait_for()

    def state(self, name: str, moment: str) -> str:
        """A state, "before" or "after" the step."""
        return self.root.locator(f'[data-state="{name}"] .rfnb-State-{moment} .rfnb-Value-text').inner_text()

    def stats(self, name: str) -> list[float]:
        """Minimum, mean and maximum of a state after the step."""
        return numbers(self.root.locator(f'[data-state="{name}"] .rfnb-Stats').inner_text())

    def value(self, name: str) -> str:
        """What is beside the line of the body that computes `name`."""
        named = self.root.page.locator(".rfnb-Value-name", has_text=re.compile(rf"^{name}$"))
        return (
            self.root.locator(".rfnb-Line-values .rfnb-Value")
            .filter(has=named)
            .locator("> .rfnb-Value-text")
            .inner_text()
        )

    def find(self, kind: str, name: str | None = None) -> Stepper:
        """Searches for steps, and waits until all are looked at."""
        self.root.locator(".rfnb-Find-kind").select_option(kind)
        if name is not None:
            self.root.locator(".rfnb-Find-name").select_option(name)
        return self.searched()

    def searched(self) -> Stepper:
        """Waits until all steps are looked at."""
        self.root.locator(".rfnb-Find-progress", has_text=re.compile(r"^\d+ match(es)?$")).wait_for()
        return self

    def hits(self) -> list[int]:
        """The steps that are marked on the slider."""
        marks = self.root.locator("[data-hit-step]")
        return sorted(int(step) for step in marks.evaluate_all("all => all.map(mark => mark.dataset.hitStep)"))

    def hit(self, direction: str, step: int) -> Stepper:
        """Goes on to the "next" hit, or back to the "previous" one, and waits until it is shown."""
        self.root.locator(f"[data-hit={direction}]").click()
        return self.at(step)

    def watch(self, expression: str) -> Locator:
        """Adds an expression; what is shown of it."""
        field = self.root.locator(".rfnb-Watches-add")
        field.fill(expression)
        field.press("Enter")
        row = self.root.locator(f'[data-watch="{expression}"]')
        row.locator(".rfnb-Watch-value, .rfnb-Watch-error").wait_for()
        return row

    def edit(self, state: str, text: str) -> None:
        """Edits a state before this step, which runs on from there."""
        self.root.locator(f'[data-state="{state}"] .rfnb-State-edit').click()
        field = self.root.locator(".rfnb-Edit input")
        field.fill(text)
        field.press("Enter")

    def ops(self) -> list[str]:
        """The ops of the line that is looked at."""
        return self.root.locator("[aria-current=step] .rfnb-Op-name").all_inner_texts()

    def look(self, code: str) -> None:
        """Clicks the line of the body that contains this."""
        self.root.locator(".rfnb-Line", has_text=code).click()

    def on_line(self, code: str) -> None:
        """Waits until this line of the body is marked."""
        line = re.compile(rf"^\s*{re.escape(code)}\s*$")
        self.root.locator(".rfnb-Line[aria-current=step] .rfnb-Line-code", has_text=line).wait_for()

    def lines(self) -> list[str]:
        """The text of the body."""
        return self.root.locator(".rfnb-Line-code").all_inner_texts()


class Panel(Stepper):
    """The side panel."""

    def __init__(self, page: Page):
        super().__init__(page.locator(".rfnb-Loops"))
        self.page = page

    def open(self) -> Panel:
        """Shows it."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('rfnb-lab:open-panel')")
        self.root.wait_for()
        return self

    def close(self) -> None:
        """Hides it."""
        self.page.locator(".jp-SideBar .lm-TabBar-tab[data-id=rfnb-loops]").click()
        self.root.wait_for(state="hidden")

    def choose(self, loop: str) -> Panel:
        """Opens the newest run of the loop with this name, and waits for its first step."""
        newest = self.group(loop).locator(".rfnb-Run-open").first
        newest.dispatch_event("click")  # at no place on the screen: the list may grow in between
        self.root.locator(".rfnb-Stepper-name", has_text=loop).wait_for()
        self.at(0)
        return self

    def group(self, loop: str) -> Locator:
        """The runs of a loop, in the list."""
        return self.root.get_by_role("group", name=re.compile(rf"^{re.escape(loop)} ·"))


def numbers(text: str) -> list[float]:
    """All numbers in a text, before it says how many there are in all.

    >>> numbers("0.996 −3e−4 … (13)")
    [0.996, -0.0003]
    """
    return [float(n.replace("−", "-")) for n in NUMBER.findall(text.partition("…")[0])]
