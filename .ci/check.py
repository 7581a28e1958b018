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
JLPM_TEST = {"jlpm test": ("jlpm", "test")}
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder", "--durations", "20")
TESTS = {
    "pytest": ("-m", "not browser and not wheel"),
    "browser": (
        *("-m", "browser or wheel", "tests/browser", "tests/test_wheel.py"),
        *("-o", "cache_dir=.pytest_cache/browser"),  # where the failed ones are listed: the others run meanwhile
    ),
}
MODESTLY = ("nice", "-n", "5")
"""Before a command: with a third of the claim to the cores that others have."""


def main(arguments: list[str]) -> int:
    """The number of checks that failed."""
    if arguments == ["lint"]:
        results = check_together(STYLE)
    elif arguments:
        results = check_together(STYLE | JLPM_TEST) | {"pytest": check("pytest", *arguments)}
    else:
        results = check_all()
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


def check_all() -> dict[str, str]:
    """All checks. Browser tests mostly wait: the others are done meanwhile, and give way to them.

    What failed runs once more, one test after the other, when all else has ended: a busy machine keeps programs
    waiting.
    """
    with ThreadPoolExecutor(1) as pool:
        browser = pool.submit(check_quietly, ("pytest", *TESTS["browser"], "-n", "3", *BY_FILE))
        results = check_together(STYLE | JLPM_TEST)
        workers = ("-n", "auto", "--maxprocesses", "8")
        results["pytest"] = check(*MODESTLY, "pytest", *TESTS["pytest"], *workers, *BY_FILE)
        results["browser"] = browser.result()
    for name, selection in TESTS.items():
        if results[name].startswith("failed"):
            again = check("pytest", *selection, "--last-failed", "--last-failed-no-failures", "none")
            results[name] = f"{again}, the second time; the first time {results[name]}"
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
