"""Scripts made of a function: what goes along, in which order, and what is refused before the start."""

from __future__ import annotations

import pytest

from tests.jobs.scripts import run_script

MAKE = """
import sys, threading
from dataclasses import dataclass, field as entry
import xml.dom.minidom
import torch.nn.functional as F
import rfnb as rf
from rfnb.jobs.script import Script
from rfnb.errors import LaunchError

SIZE, NAMES = 4, ["a", "b"]
feat = rf.Dim(SIZE, name="feat")
table = rf.ones([feat])


def decorated(function):
    function.marked = True
    return function


class Base:
    size = SIZE


class Model(Base):
    def __init__(self, dim=feat):
        self.dim = dim


@dataclass
class Config:
    rate: float = 0.5
    names: list = entry(default_factory=lambda: list(NAMES))


double = lambda x: x * 2
model = Model()
again = Config()


@decorated
def train(config, *, steps=SIZE):
    total = double(F.relu(table.raw_tensor)).sum()
    xml.dom.minidom.Document()
    return steps, config.names, model.dim is table.dims[0], helper(3), total.item(), again.rate


def helper(n):
    return n and helper(n - 1)


if __name__ == "__main__":
    path = Script(train, ((Config(),), {"steps": 7})).write(__import__("pathlib").Path("."))
    print(train(Config(), steps=7))
"""


def test_a_script_has_what_the_function_uses_and_gives_the_same(python, tmp_path):
    done = run_script(python, MAKE, tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "train.py").read_text()
    for unused in ("threading", "LaunchError", "Script"):
        assert unused not in text
    call = "    args, named = process._later['arguments']\n    print(train(*args, **named))"
    again = run_script(python, text.replace("    process.run(train)", call), tmp_path)
    assert again.stdout == done.stdout, again.stderr


REFUSED = """
import threading, types
from pathlib import Path
import rfnb as rf
lock = threading.Lock()
module = types.ModuleType("made_here")
def locked(): return lock
def other(): return module.x
def outer():
    value = 1
    def inner(): return value
    return inner
inner = outer()
made = {}
exec("def unknown(): return 1", made)
unknown = made["unknown"]
def circle_of(value=None): return value
class Node:
    def __call__(self): pass
node = Node()
def uses(x=node): return Node
Node.again = staticmethod(uses)
if __name__ == "__main__":
    for function, given in [(locked, ()), (other, ()), (inner, ()), (unknown, ()), (len, ()), (Node(), ()),
                            (circle_of, (lock,)), (circle_of, (1, 2)), (7, ())]:
        try:
            rf.launch(function, *given)
        except rf.errors.LaunchError as error:
            print(str(error).splitlines()[0])
    Path("circle_of.py").write_text("print('mine')")
    try:
        rf.launch(circle_of, folder=".")
    except rf.errors.LaunchError as error:
        print(str(error).splitlines()[0], Path("circle_of.py").read_text())
    for count in (0, True, 1.5):
        try:
            rf.launch(circle_of, num_processes=count)
        except rf.errors.ParameterError as error:
            print(str(error).splitlines()[0])
"""


@pytest.mark.parametrize(("name", "file"), [("copy", "run_copy.py"), ("train", "train.py")])
def test_no_script_has_the_name_of_a_module(python, tmp_path, name, file):
    code = f"import rfnb as rf\ndef {name}(): pass\nfrom rfnb.jobs.script import Script\n"
    code += f"print(Script({name}, ((), {{}})).write(__import__('pathlib').Path('.').absolute()).name)"
    done = run_script(python, code, tmp_path)
    assert done.stdout == f"{file}\n", done.stderr
    again = run_script(python, code, tmp_path)  # beside the first script
    assert again.stdout == f"{file}\n", again.stderr


def test_what_cannot_go_along_is_named_before_the_start(python, tmp_path):
    done = run_script(python, REFUSED, tmp_path)
    assert done.stdout.splitlines() == [
        "launch: `locked` uses 'lock', which cannot go to other processes",
        "launch: `other` uses the module 'module', which other processes cannot import",
        "launch: 'inner' uses variables of the function around it",
        "launch: the function 'unknown' cannot go to other processes, as its definition was not found",
        "launch: `function` cannot be called by name in other processes",
        "launch: `function` cannot be called by name in other processes",
        "launch: argument 1 cannot go to other processes",
        "launch: 'circle_of' cannot be called with these arguments",
        "launch: `function` cannot be called by name in other processes",
        "launch: 'circle_of.py' in the folder is not a script of rf.launch, which would replace it print('mine')",
        *["launch: `num_processes` is not a number of processes"] * 3,
    ], done.stderr
