"""Runs all checks, continues after a failure, and lists the results at the end.

Usage: `python .ci/check.py [lint | arguments of pytest]`; `lint` runs no tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CI = os.environ.get("CI") == "true"


def main(arguments: list[str]) -> int:
    """The number of checks that failed."""
    results = check_style()
    if arguments != ["lint"]:
        results |= {"jlpm test": check_extension("test"), **check_python(arguments)}
    print()
    for name, result in results.items():
        print(f"  {name:<12} {result}")
    return sum(result.startswith("failed") for result in results.values())


def check(*command: str, cwd: Path = ROOT) -> str:
    """`ok` or `failed`, and how long it took."""
    print("\n$", *command, flush=True)
    start = time.monotonic()
    status = subprocess.run(command, cwd=cwd, check=False).returncode
    return f"{'failed' if status else 'ok'} ({time.monotonic() - start:.0f} s)"


def check_style() -> dict[str, str]:
    """Format, rules and types, in Python and TypeScript."""
    return {
        "ruff check": check("ruff", "check", "--output-format=concise", "."),
        "ruff format": check("ruff", "format", "--check", "."),
        "mypy": check("mypy"),
        "jlpm lint": check_extension("lint:check"),
    }


def check_python(arguments: list[str]) -> dict[str, str]:
    """The tests that the arguments select; without arguments all of them, those with a browser after the others."""
    if arguments:
        return {"pytest": check("pytest", *arguments)}
    on_all_cores = ["-n", "auto", "--maxprocesses", "8", "--dist", "loadfile"]
    return {
        "pytest": check("pytest", *on_all_cores, "-m", "not browser and not wheel"),
        "browser": check("pytest", "tests", "-n", "2", "--dist", "loadfile", "-m", "browser or wheel"),
    }


def check_extension(script: str) -> str:
    """A script of the extension's package.json; without Node it is skipped, which in CI is a failure."""
    if shutil.which("node") and (ROOT / "extension" / "node_modules").exists():
        return check("jlpm", script, cwd=ROOT / "extension")
    return "failed: Node is missing, and CI runs all checks" if CI else "skipped: Node is missing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
