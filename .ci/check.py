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
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder", "--durations", "20")
PYTEST = ("pytest", "-m", "not browser and not wheel", "-n", "auto", "--maxprocesses", "8", *BY_FILE)
BROWSER = ("pytest", "-m", "browser or wheel", "tests/browser", "tests/test_wheel.py", "-n", "3", *BY_FILE)
BROWSER += ("-o", "cache_dir=.pytest_cache/browser")  # both write which tests failed


def main(arguments: list[str]) -> int:
    """The number of checks that failed."""
    only_lint = arguments == ["lint"]
    results = check_together(STYLE if only_lint else STYLE | {"jlpm test": ("jlpm", "test")})
    results |= {} if only_lint else check_python(arguments)
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


def check_python(arguments: list[str]) -> dict[str, str]:
    """The tests that the arguments select; without arguments all of them.

    Browser tests mostly wait: the others run beside them, at a lower priority. What failed runs once more when all the
    others have ended, as a busy machine keeps programs waiting.
    """
    if arguments:
        return {"pytest": check("pytest", *arguments)}
    with ThreadPoolExecutor(1) as pool:
        browser = pool.submit(check_quietly, BROWSER)
        results = {"pytest": check("nice", *PYTEST), "browser": browser.result()}
    for name, command in {"pytest": PYTEST, "browser": BROWSER}.items():
        if results[name].startswith("failed"):
            again = check(*command, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")
            results[name] = f"{again}, the second time; the first time {results[name]}"
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
