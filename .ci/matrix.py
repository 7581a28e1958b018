"""Runs a small set of tests with other versions of Python and of the libraries, each in an environment of its own.

Usage: `python .ci/matrix.py [PYTHON:PACKAGE=VERSION,… …]`, such as `3.12:torch=2.8.0,numpy=1.26.4`; without arguments
all of COMBINATIONS. A Python is found on PATH or among those of pyenv. Environments stay in `.cache/matrix`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from step import CACHE, ROOT

COMBINATIONS = [
    "3.11:torch=2.8.0,numpy=1.26.0,jupyterlab=4.4.0,ipykernel=7.0.0",
    "3.11:torch=2.8.0,numpy=1.26.0,jupyterlab=4.4.0,ipykernel=6.29.5",
    "3.12:torch=2.10.0,numpy=2.0.0",
    "3.13:torch=2.11.0",
    "3.13:",
    "3.14:",
]
"""The oldest of each, an older kernel, and the newest with each Python."""
TESTS = ["tests/core/tensor", "tests/nn/bridge", "tests/loop/test_loop.py", "tests/loop/test_functional.py"]
TESTS += ["tests/search/test_beam.py", "tests/trace/plain/test_record.py", "tests/display/test_show.py"]
PACKAGES = ["jupyterlab", "ipykernel", "h5py", "pytest", "pytest-xdist", "hypothesis", "nbclient", "nbformat"]
VERSIONS = "from importlib.metadata import version; import sys; print(*map(version, sys.argv[1:]), sep=' | ')"
COLUMNS = ["torch", "numpy", "jupyterlab", "ipykernel"]


def main(combinations: list[str]) -> int:
    """The number of combinations that failed."""
    rows = [(combination, *try_combination(combination)) for combination in combinations]
    print("\n| Python | " + " | ".join(COLUMNS) + " | result |\n|" + "---|" * (len(COLUMNS) + 2))
    for combination, versions, result in rows:
        print(f"| {combination.split(':')[0]} | {versions} | {result} |")
    return sum(result.startswith(("failed", "not installed")) for _, _, result in rows)


def try_combination(combination: str) -> tuple[str, str]:
    """The versions that were installed, as cells of a table, and how the tests ended."""
    python, _, pins = combination.partition(":")
    wanted = {name: f"{name}=={number}" for name, _, number in (pin.partition("=") for pin in pins.split(",") if pin)}
    asked = " | ".join(wanted.get(name, "newest").removeprefix(f"{name}==") for name in COLUMNS)
    interpreter = find_python(python)
    if interpreter is None:
        return asked, "not tried: no such Python here"
    folder = CACHE / "matrix" / re.sub(r"[^\w.]+", "-", combination)
    log = folder.with_name(f"{folder.name}.log")
    folder.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    inside = folder / "bin" / "python"
    if not inside.exists():
        run(log, interpreter, "-m", "venv", folder)
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    if run(log, inside, "-m", "pip", "install", *needed, *PACKAGES, *wanted.values()):
        return asked, f"not installed: {log.relative_to(ROOT)}"
    versions = subprocess.check_output([inside, "-c", VERSIONS, *COLUMNS], text=True).strip()
    status = run(log, inside, "-m", "pytest", "-q", "-n", "2", "-m", "not slow and not browser and not wheel", *TESTS)
    return versions, "failed: " * bool(status) + log.read_text().splitlines()[-1]


def find_python(version: str) -> str | Path | None:
    """The program of a version such as `3.12`."""
    pyenv = Path.home() / ".pyenv" / "versions"
    of_pyenv = [folder / "bin" / "python" for folder in sorted(pyenv.glob(f"{version}.*"))]
    return of_pyenv[-1] if of_pyenv else shutil.which(f"python{version}")


def run(log: Path, *command: str | Path) -> int:
    """The status with which the command ends; its output goes to the log."""
    with log.open("a") as output:
        return subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or COMBINATIONS))
