"""Tests on the device RFNB_DEVICE, "cpu" by default. `make test-gpu` runs them on "cuda" and prints a page."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import rfnb as rf

DEVICE = os.environ.get("RFNB_DEVICE", "cpu")
PAGE = os.environ.get("RFNB_GPU_PAGE")  # the file that the page is written to
HERE = Path(__file__).parent
notes: list[str] = []
results: list[pytest.TestReport] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are marked."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("gpu")


def why_not(device: str) -> str | None:
    """Why tests cannot run on a device."""
    if not device.startswith("cuda") or torch.cuda.is_available():
        return None
    if torch.version.cuda is None and torch.version.hip is None:
        return f"no GPU: torch {torch.__version__} is a build for the CPU only"
    return "no GPU: torch.cuda.is_available() is False"


@pytest.fixture
def device() -> Iterator[str]:
    """The device of the test, on which new tensors and parameters are created."""
    reason = why_not(DEVICE)
    if reason:
        pytest.skip(f"{reason}. RFNB_DEVICE=cpu runs the same tests on the CPU.")
    with rf.set_default_device_ctx(DEVICE):
        yield DEVICE


@pytest.fixture
def note() -> Callable[[str], None]:
    """Puts a line on the page of results."""
    return notes.append


# -- the page


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the results for the page."""
    if report.when == "call" or report.outcome != "passed":
        results.append(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the page, if one is wanted."""
    if PAGE is None:
        return
    text = page()
    Path(PAGE).write_text(text, encoding="utf-8")
    terminalreporter.section("results to send")
    terminalreporter.write_line(text)
    terminalreporter.write_line(f"This page is in {PAGE}.")


def page() -> str:
    """What was run where, what failed, and the numbers that tests have noted."""
    mine = [report for report in results if "tests/gpu/" in report.nodeid]
    counts = {what: sum(each.outcome == what for each in mine) for what in ("passed", "failed", "skipped")}
    lines = [f"rfnb {rf.__version__}, commit {commit()}, on {DEVICE}", *machine(), ""]
    lines.append(", ".join(f"{count} {what}" for what, count in counts.items()))
    for report in mine:
        if report.outcome == "failed":
            lines += [
                "",
                f"failed: {report.nodeid.removeprefix('tests/gpu/')}",
                *report.longreprtext.splitlines()[-12:],
            ]
    skipped = {report.longrepr[2].removeprefix("Skipped: ") for report in mine if isinstance(report.longrepr, tuple)}
    return "\n".join([*lines, *(f"skipped: {reason}" for reason in sorted(skipped)), "", *notes])


def commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def machine() -> Iterator[str]:
    """The versions and the GPUs."""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    yield f"{versions}, CUDA {torch.version.cuda}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    for i in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(i)
        yield f"cuda:{i} {found.name}, {found.total_memory / 2**30:.0f} GiB, compute {found.major}.{found.minor}"
