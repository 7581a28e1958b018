"""What `import rfnb` gives, and what it does not bring along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import rfnb

ROOT = Path(__file__).parents[1]


def test_public_names_change_only_on_purpose(golden):
    """The list is `tests/golden/public_names.txt`; `--update-golden` writes it."""
    names = sorted(name for name in vars(rfnb) if not name.startswith("_") and is_public(name))
    golden("public_names.txt", "\n".join(names) + "\n")


def is_public(name: str) -> bool:
    """Not a folder of ours that an import left there, unless the list of names means it."""
    value = getattr(rfnb, name)
    return getattr(value, "__name__", None) != f"rfnb.{name}"


FRONT_ENDS = {"IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz", "ipykernel"}
SLOW = {"torch._dynamo", "sympy"}


def test_import_brings_no_front_end_and_nothing_slow():
    code = f"import rfnb, sys; sys.exit(', '.join({FRONT_ENDS | SLOW} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=False, capture_output=True)
    assert done.stderr.decode() == "\n"


def test_the_extension_has_the_version_of_the_package():
    package = json.loads((ROOT / "extension" / "package.json").read_text())
    assert package["version"] == rfnb.__version__


def test_the_version_stands_once_in_python():
    sets_it = re.compile(r"^__version__ = ", re.MULTILINE)
    files = [file for file in (ROOT / "rfnb").rglob("*.py") if sets_it.search(file.read_text(encoding="utf-8"))]
    assert files == [ROOT / "rfnb" / "__init__.py"]
