"""Runs all checks, goes on after a failure, and says at the end what failed. Arguments go to pytest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CI = os.environ.get("CI") == "true"


def main(pytest_arguments: list[str]) -> int:
    """The number of checks that failed."""
    results = {
        "ruff check": check("ruff", "check", "--output-format=concise", "."),
        "ruff format": check("ruff", "format", "--check", "."),
        "jlpm test": check_extension(),
        **check_python(pytest_arguments),
    }
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


def check_python(arguments: list[str]) -> dict[str, str]:
    """What pytest is asked for; or all: on all cores, but for what drives a browser or builds a wheel."""
    if arguments:
        return {"pytest": check("pytest", *arguments)}
    on_all_cores = ["-n", "auto", "--maxprocesses", "8", "--dist", "loadfile"]
    return {
        "pytest": check("pytest", *on_all_cores, "-m", "not browser and not wheel"),
        "browser": check("pytest", "tests", "-m", "browser or wheel"),
    }


def check_extension() -> str:
    """The extension's own tests; without Node they are skipped, in CI that is a failure."""
    if shutil.which("node") and (ROOT / "extension" / "node_modules").exists():
        return check("jlpm", "test", cwd=ROOT / "extension")
    return "failed: no Node, and CI has to run all" if CI else "skipped: no Node to run them with"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
