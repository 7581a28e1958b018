"""Runs all checks, continues after a failure, and lists the results at the end.

Usage: `python .ci/check.py [lint | arguments of pytest]`; `lint` runs no tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CI = os.environ.get("CI") == "true"
STYLE = {
    "ruff check": ("ruff", "check", "--output-format=concise", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy",),
    "ledger": (sys.executable, ".ci/ledger.py"),
    "jlpm lint": ("jlpm", "lint:check"),
}
"""Format, rules and types, in Python and TypeScript, and the size of each room."""


def main(arguments: list[str]) -> int:
    """The number of checks that failed."""
    only_lint = arguments == ["lint"]
    results = check_together(STYLE) if only_lint else check_all(arguments)
    print()
    for name, result in results.items():
        print(f"  {name:<12} {result}")
    return sum(result.startswith("failed") for result in results.values())


def check(*command: str) -> str:
    """`ok` or `failed`, and how long it took."""
    print("\n$", *command, flush=True)
    start = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return f"{'failed' if status else 'ok'} ({time.monotonic() - start:.0f} s)"


def check_together(commands: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Two at a time, as most of them use one core; each prints what it says when it has ended."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(commands, pool.map(check_quietly, commands.values()), strict=True))


def check_quietly(command: tuple[str, ...]) -> str:
    """`ok` or `failed`, and how long it took. Without Node, scripts of the extension are skipped: in CI a failure."""
    extension = ROOT / "extension"
    if command[0] == "jlpm" and not (shutil.which("node") and (extension / "node_modules").exists()):
        return "failed: Node is missing, and CI runs all checks" if CI else "skipped: Node is missing"
    start, folder = time.monotonic(), extension if command[0] == "jlpm" else ROOT
    done = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    print("\n$", " ".join(command), f"\n{text}", flush=True)
    return f"{'failed' if done.returncode else 'ok'} ({time.monotonic() - start:.0f} s)"


def check_all(arguments: list[str]) -> dict[str, str]:
    """Style, types and sizes, and the tests that the arguments select, or all: those with a browser after the others.

    Browser tests wait as well: three at a time keep two cores busy, and programs beside them would keep them waiting
    for too long. A worker has one page for all of its tests, so that they need not stay with those of their file, and
    none waits at the end.
    """
    style = check_together(STYLE | {"jlpm test": ("jlpm", "test")})
    if arguments:
        return style | {"pytest": check("pytest", *arguments)}
    by_file = ["--dist", "loadfile", "--no-loadscope-reorder", "--durations", "20"]
    with_browser = ["tests/browser", "tests/test_wheel.py", "-n", "3", "--dist", "worksteal", "--durations", "20"]
    python = check_tests("not browser and not wheel", "-n", "auto", "--maxprocesses", "8", *by_file)
    return style | {"pytest": python, "browser": check_tests("browser or wheel", *with_browser)}


def check_tests(marks: str, *options: str) -> str:
    """As `check`; what failed runs once more, one test after the other: a busy machine keeps programs waiting."""
    command = "pytest", "-m", marks
    first = check(*command, *options)
    if not first.startswith("failed"):
        return first
    again = check(*command, "--last-failed", "--last-failed-no-failures", "none")
    return f"{again}, the second time; the first time {first}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
