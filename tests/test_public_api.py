"""What `import rfnb` gives, and what it does not bring along."""

from __future__ import annotations

import importlib
import inspect
import json
import operator
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import rfnb
from rfnb import public_names as public_names_table

ROOT = Path(__file__).parents[1]


def test_public_names_change_only_on_purpose(golden):
    """The list is `tests/golden/public_names.txt`; `--update-golden` writes it."""
    golden("public_names.txt", "\n".join(public_names()) + "\n")


def test_defaults_change_only_on_purpose(golden):
    """Of what is called: `tests/golden/public_defaults.txt`; `--update-golden` writes it."""
    found = {name: defaults(getattr(rfnb, name)) for name in public_names()}
    golden("public_defaults.txt", "".join(f"{name}: {given}\n" for name, given in found.items() if given))


TABLE = """
NAMES: dict[str, str] = {{
{rows}
}}
"""
ROW = """    "{folder}": \"\"\"
{names}
    \"\"\","""


def test_the_table_of_names_agrees_with_the_folders(request):
    """The table is in `rfnb/public_names.py`; `--update-golden` writes it."""
    names = {folder: sorted(exported(folder)) for folder in "nn trace loop checkpoint display".split()}
    if request.config.getoption("--update-golden"):
        filled = {folder: textwrap.fill(" ".join(found), 112) for folder, found in names.items()}
        rows = [ROW.format(folder=folder, names=textwrap.indent(text, " " * 8)) for folder, text in filled.items()]
        file = ROOT / "rfnb" / "public_names.py"
        before, _, rest = file.read_text(encoding="utf-8").partition("\nNAMES: ")
        file.write_text(before + TABLE.format(rows="\n".join(rows)) + "\nFOLDER_OF" + rest.partition("\nFOLDER_OF")[2])
    else:
        assert {folder: found.split() for folder, found in public_names_table.NAMES.items()} == names


def exported(folder: str) -> list[str]:
    """The names that the `public.py` of a folder lists."""
    return [name for name in vars(importlib.import_module(f"rfnb.{folder}.public")) if name[0] != "_"]


def test_an_unknown_name_and_completion_import_nothing():
    code = """
import sys, rfnb as rf
before = set(sys.modules)
assert not hasattr(rf, "lienar") and not hasattr(rf, "beam_search") and "Linear" in dir(rf)
print({name for name in set(sys.modules) - before if name.startswith("rfnb")})
"""
    assert in_new_process(code) == "set()"


def test_a_name_imports_its_folder_only():
    code = "import sys, rfnb as rf; rf.save; print(*(f'rfnb.{name}.public' in sys.modules for name in ('nn', 'loop')))"
    assert in_new_process(code) == "False False"


def test_a_bare_rf_and_help_list_calls_that_exist_with_their_pages():
    calls = re.findall(r"^  rf\.([\w.]+)\S* .*  (docs/\w+\.md)$", rfnb.__doc__, re.MULTILINE)
    assert len(calls) == 20
    for name, page in calls:
        assert operator.attrgetter(name)(rfnb) is not None and (ROOT / page).exists()
    shown = rfnb._repr_mimebundle_()
    assert shown["text/plain"] == rfnb.__doc__ and shown["text/html"].count("<tr") == 20


@pytest.mark.parametrize("name", "beam_search generate visualize breakpoint plot cat no_grad DataLoader".split())
def test_names_of_other_libraries_are_answered_with_ours(name):
    with pytest.raises(AttributeError, match=f"rf.{name} → ") as caught:
        getattr(rfnb, name)
    for ours in re.findall(r"(?<!\w)rf\.([\w.]+)\(", str(caught.value)):
        assert operator.attrgetter(ours)(rfnb) is not None


def public_names() -> list[str]:
    """In order."""
    return sorted(name for name in dir(rfnb) if not name.startswith("_") and is_public(name))


def is_public(name: str) -> bool:
    """Not a folder of ours that an import left there, unless the list of names means it."""
    value = getattr(rfnb, name)
    return getattr(value, "__name__", None) != f"rfnb.{name}"


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


def test_import_brings_no_front_end_and_nothing_slow():
    code = f"import rfnb, sys; sys.exit(', '.join({FRONT_ENDS | SLOW} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=False, capture_output=True)
    assert done.stderr.decode() == "\n"


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_models_loops_checkpoints_and_views_are_imported_when_first_asked_for():
    folders = "nn.module trace loop.loop checkpoint.load display.show backend.torch.module_graph".split()
    ask = f"print([name for name in {folders} if f'rfnb.{{name}}' in sys.modules])"
    code = f"import sys, rfnb as rf; {ask}; rf.Linear; {ask}; from rfnb import *; {ask}"
    first, model, last = in_new_process(code).splitlines()
    assert first == "[]" and "nn.module" in model and "display.show" not in model
    assert all(name in last for name in folders[:-1])


def test_names_that_are_imported_later_are_names_like_others():
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


def test_a_name_may_be_asked_for_first_in_many_threads():
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


def test_a_name_may_be_asked_for_first_in_the_body_of_a_loop():
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


def test_an_import_that_fails_leaves_the_garbage_collector_on():
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
