"""What `import rfnb` gives, and what it does not bring along."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rfnb
from rfnb.public_names import FOLDERS, NAMES

ROOT = Path(__file__).parents[1]


def test_each_folder_has_the_names_that_its_public_file_gives():
    """And each such file is that of a folder of the table."""
    files = (file.relative_to(ROOT / "rfnb") for file in (ROOT / "rfnb").glob("**/public.py"))
    assert sorted(NAMES) == sorted(".".join(file.parts[:-1]) for file in files)
    for folder, names in NAMES.items():
        public = vars(importlib.import_module(f"rfnb.{folder}.public"))
        assert names == sorted(name for name in public if name[0] != "_"), folder


def test_each_public_name_has_one_folder():
    names = [name for listed in NAMES.values() for name in listed]
    assert len(names) == len(set(names)) == len(FOLDERS)


def test_completion_has_the_names_of_the_table():
    assert public_names() == sorted(FOLDERS)


def test_defaults_change_only_on_purpose(golden):
    """Of what is called: `tests/golden/public_defaults.txt`; `--update-golden` writes it."""
    found = {name: defaults(getattr(rfnb, name)) for name in public_names()}
    golden("public_defaults.txt", "".join(f"{name}: {given}\n" for name, given in found.items() if given))


def public_names() -> list[str]:
    """In order."""
    return sorted(name for name in dir(rfnb) if not name.startswith("_"))


def defaults(value: Any) -> str:
    """Of its parameters, functions and classes by their names."""
    try:
        parameters = inspect.signature(value).parameters.values() if callable(value) else ()
    except ValueError:  # Python does not know those of a dict
        parameters = ()
    given = {p.name: p.default for p in parameters if p.default is not p.empty}
    return ", ".join(f"{name}={getattr(default, '__name__', repr(default))}" for name, default in given.items())


FRONT_ENDS = {"IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz", "ipykernel"}
SLOW = {"torch._dynamo", "sympy"}
LATER = {"rfnb.core.graph", "rfnb.search", "rfnb.trace"}


@pytest.mark.slow
def test_import_brings_no_front_end_and_nothing_slow_and_neither_do_views():
    views = "rfnb.display.register, rfnb.display.panel.commands, rfnb.display.panel.stepper"
    code = f"import rfnb, {views}, sys; sys.exit(', '.join({FRONT_ENDS | SLOW} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=False, capture_output=True)
    assert done.stderr.decode() == "\n"


@pytest.fixture(scope="session")
def in_new_process(python: str) -> Callable[[str], str]:
    """What code prints."""

    def run(code: str) -> str:
        done = subprocess.run([python, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.slow
def test_a_public_name_imports_its_own_folder_and_what_that_needs(in_new_process):
    code = """
import sys
import rfnb as rf
def imported():
    modules = "nn.module.module trace.run.run loop.loop checkpoint.load display.show backend.torch.module_graph".split()
    return [name for name in modules if f"rfnb.{name}" in sys.modules]
print(imported())
for name in "Run Linear show load".split():
    getattr(rf, name)
    print(name, *imported())
"""
    assert in_new_process(code).splitlines() == [
        "[]",
        "Run trace.run.run",
        "Linear nn.module.module trace.run.run loop.loop",
        "show nn.module.module trace.run.run loop.loop display.show",
        "load nn.module.module trace.run.run loop.loop checkpoint.load display.show",
    ]


@pytest.mark.slow
def test_completion_and_unknown_names_import_nothing(in_new_process):
    code = """
import difflib, sys
import rfnb as rf
before = set(sys.modules)
assert {"Linear", "Loop", "save", "show"} <= set(dir(rf))
for name in "lienar mean beam_search _of_mine loop_".split():
    try:
        getattr(rf, name)
    except AttributeError as error:
        str(error)
print(set(sys.modules) - before)
"""
    assert in_new_process(code) == "set()"


@pytest.mark.slow
def test_names_that_are_imported_later_are_names_like_others(in_new_process):
    code = """
import gc, pickle
import rfnb as rf
from rfnb import Linear
assert gc.isenabled() and Linear is rf.Linear and pickle.loads(pickle.dumps(rf.GRU)) is rf.GRU
rf.load = "of the user"
assert "Loop" in dir(rf) and rf.load == "of the user"
names = {}
exec("from rfnb import *", names)
assert {"Linear", "relu", "show", "Loop"} <= set(names) and "nn" not in names
assert not hasattr(rf, "lienar") and not hasattr(rf, "_of_mine") and not hasattr(rf, "")
"""
    in_new_process(code)


@pytest.mark.slow
def test_a_name_may_be_asked_for_first_in_many_threads(in_new_process):
    code = """
import threading
import rfnb as rf
names = "Linear show Loop Run save Module model_graph progress load compare check ConformerEncoder".split() * 2
at_once, failed = threading.Barrier(len(names)), []
x = rf.ones([rf.Dim(2, name="feat")])
def ask(name):
    at_once.wait()
    try:
        getattr(rf, name), rf.reduce_sum(x, axis=x.dims[0])
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=ask, args=[name]) for name in names]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert not failed, failed
"""
    in_new_process(code)


@pytest.mark.slow
def test_a_name_may_be_asked_for_first_in_the_body_of_a_loop(in_new_process):
    code = """
import torch
import rfnb as rf
time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
loop = rf.Loop(axis=time)
loop.state.h = rf.zeros([feat])
with torch.device("meta"), torch.inference_mode():
    rf.show
with loop:
    rf.save
    loop.state.h = rf.relu(loop.state.h + 1)
    out = loop.stack(loop.state.h)
print(out.raw_tensor.tolist())
"""
    assert in_new_process(code) == "[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]"


def test_an_import_that_fails_leaves_the_garbage_collector_on(in_new_process):
    code = """
import gc, sys
sys.modules["numpy"] = None
try:
    import rfnb
except ImportError:
    print(gc.isenabled())
"""
    assert in_new_process(code) == "True"


def test_the_extension_has_the_version_of_the_package():
    package = json.loads((ROOT / "extension" / "package.json").read_text())
    assert package["version"] == rfnb.__version__


def test_the_version_stands_once_in_python():
    sets_it = re.compile(r"^__version__ = ", re.MULTILINE)
    files = [file for file in (ROOT / "rfnb").rglob("*.py") if sets_it.search(file.read_text(encoding="utf-8"))]
    assert files == [ROOT / "rfnb" / "__init__.py"]
