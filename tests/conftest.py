"""For all tests: golden files, seeds, what is missing on this machine, and the order."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest
import torch
from _pytest.doctest import DoctestModule

import rfnb as rf
from tests.examples import PROFILE, examples
from tests.forks import add_kernel, forking
from tests.skips import unknown

SLOW = [hypothesis.HealthCheck.too_slow]  # this machine may do other work beside the tests
SAME = PROFILE == "ci"  # the same examples each time: what lands is not held up by one that nobody has seen before
hypothesis.settings.register_profile("rfnb", examples(100), deadline=None, derandomize=SAME, suppress_health_check=SLOW)
hypothesis.settings.load_profile("rfnb")

# jsonschema makes a parser of internationalized addresses from it, which takes seconds; no notebook has such an address
sys.modules["rfc3987_syntax"] = None

for device in (torch.cuda, torch.xpu, torch.mtia):
    if not device.is_available():
        # torch keeps each seed for a device to come, with the whole stack of calls, which takes longer than many a test
        device.manual_seed_all = lambda seed: None

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """A switch that writes golden files anew, and a limit for `make quick`."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files, do not compare")
    parser.addoption("--seconds", type=float, default=math.inf, help="no test begins later than this")


STARTED = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what is too late, before its fixtures are made."""
    if time.monotonic() - STARTED > item.config.getoption("--seconds"):
        pytest.skip("the time is over")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, list[pytest.Collector]]:
    """No examples are looked for in the docstrings of tests."""
    collectors = yield
    is_test = file_path.name.startswith("test_")
    return [collector for collector in collectors if not (is_test and isinstance(collector, DoctestModule))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that no process waits for them at the end. Browser tests last: Playwright leaves an event
    loop running, which nbclient would trip over."""

    def rank(item: pytest.Item) -> tuple[bool, bool]:
        return item.get_closest_marker("browser") is not None, item.get_closest_marker("slow") is None

    items.sort(key=rank)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a skip that is not known fails the run."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None:
        return
    reports = [report for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in reports]
    if unknown_reasons := unknown(reasons):
        reporter.write_line(f"skips that tests/skips.py does not know: {sorted(set(unknown_reasons))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random numbers in each test, alone or among others."""
    torch.set_num_threads(1)  # small tensors: a second thread costs more than it does, above all beside other work
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="module")
def no_runs_of_others() -> None:
    """`rf.runs` has what the tests of this file recorded."""
    rf.runs.clear()


@pytest.fixture
def inference() -> None:
    """A forward step. Outside of any step, a gradient that passes through dropout warns that it is off."""
    rf.init_forward_step_run_ctx()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt in the test.

    A job that a shell starts in the background ignores interrupts, and Python swallows one that comes in a callback of
    the garbage collector; hypothesis has one.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    callbacks, gc.callbacks[:] = gc.callbacks[:], []
    yield
    gc.callbacks[:] = callbacks
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("dim.html", text)` compares with `tests/golden/dim.html`; `--update-golden` writes it."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no {file.name} yet: run with --update-golden and look at it"
        assert text == file.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program that does what `python` does in a new process, which begins with torch imported."""
    with forking(tmp_path_factory.mktemp("forks")) as program:
        yield program


@pytest.fixture(scope="module")
def forked_kernels(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels begin with torch imported."""
    folder = tmp_path_factory.mktemp("jupyter")
    add_kernel(folder, "python3", python)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        yield


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """`missing("no browser")` skips the test with this reason; in CI, where nothing may be missing, it fails."""

    def give_up(reason: str) -> NoReturn:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)

    return give_up
