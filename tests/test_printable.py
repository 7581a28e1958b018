"""Names reach a terminal as visible text of bounded length, wherever they come from."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import CheckpointError, DimError, LoopWarning
from rfnb.printable import LONGEST, LOOKALIKES, WIDEST, encodable, printable
from tests.display.hostile import (
    MAKERS,
    PAYLOADS,
    attentions,
    batch,
    dims,
    hostile,
    loops,
    modules,
    structures,
    tensors,
    written,
)

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal or an editor does something with, and halves of surrogate pairs."""
NAMES = {**PAYLOADS, "huge": "w" * 10**6, "huge, many lines": "w\n" * 10**6}


def test_a_plain_text_is_left_as_it_is():
    text = "time:2–5 {batch, Zeit, 時間}\n  got\tx"
    assert printable(text) is text


def test_signs_stand_for_what_is_invisible():
    assert printable("a\x1b]0;x\x07\x00\u202eb\ud800\x7f") == "a␛]0;x␇␀\ufffdb\ufffd␡"


def test_a_long_line_keeps_its_beginning_and_its_end():
    text = printable("begin" + "w" * 10**6 + "end\nanother line")
    first, second = text.splitlines()
    assert (len(first), second) == (WIDEST, "another line")
    assert first.startswith("beginw") and first.endswith("wend") and "…" in first


def test_many_lines_keep_the_first_and_the_last():
    text = printable("".join(f"line {i}\n" for i in range(10**5)))
    assert len(text) <= LONGEST
    assert text.startswith("line 0\n") and text.endswith("line 99999\n")


def loop_of(name: str) -> rf.Loop:
    x, time, letter = batch(hostile(name))
    loop = rf.Loop(axis=time, name="loop" + name)
    setattr(loop.state, "total" + name, rf.zeros([batch_dim, letter]))
    with loop:
        frame = loop.unstack(x)
        setattr(loop.state, "total" + name, getattr(loop.state, "total" + name) + frame)
        loop.stack(frame)
    return loop


def traced_repr(name: str) -> str:
    x, time, _ = batch(hostile(name))
    with rf.Loop(axis=time, name="loop" + name) as loop:
        frame = loop.unstack(x)
        loop.stack(frame)
    return repr(frame)


def step_repr(name: str) -> str:
    with rf.recording("last"):
        return repr(loop_of(name).run[1])


def state_repr(name: str) -> str:
    return repr(loop_of(name).state)


def dict_module_repr(name: str) -> str:
    made = rf.ModuleList({f"up{name}": rf.Linear(Dim(2, name="a" + name), Dim(3, name="b"))})
    return repr(made)


REPRS: dict[str, Callable[[str], str]] = {
    "dim": lambda name: repr(Dim(3, name=name)),
    "derived dim": lambda name: repr(2 * Dim(3, name="a" + name) + Dim([3, 1], name="b" + name)),
    "tensor": lambda name: repr(batch(hostile(name))[0]),
    "raw-less tensor": lambda name: repr(rf.Tensor("empty" + name, [batch_dim, Dim(2, name=name)], "float32")),
    "loop": lambda name: repr(loop_of(name)),
    "value of a body": traced_repr,
    "states": state_repr,
    "step": step_repr,
    "module": dict_module_repr,
    "vocab": lambda name: repr(rf.Vocab(["a" + name, "b" + name])),
    "condition": lambda name: repr(rf.when.not_finite("h" + name)),
}


@pytest.mark.parametrize("payload", NAMES)
@pytest.mark.parametrize("kind", REPRS)
def test_reprs(kind, payload):
    text = REPRS[kind](NAMES[payload])
    assert not OBEYED.search(text), ascii(text[:200])
    assert len(text) <= 5 * LONGEST


def dims_error(name: str) -> Exception:
    with pytest.raises(DimError) as caught:
        rf.ones([Dim(2, name="a" + name)]) + rf.ones([Dim(2, name="a" + name)])
    return caught.value


def attribute_error(name: str) -> Exception:
    model = rf.ModuleList()
    model.up = rf.Linear(Dim(2), Dim(3))
    with pytest.raises(AttributeError) as caught:
        getattr(model, "upp" + name)
    return caught.value


def file_error(name: str) -> Exception:
    """A file whose entries have strange names and dims."""
    model = rf.Linear(Dim(2, name="a"), Dim(3, name="b"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        writable = name.encode("utf-8", "replace").decode()
        save_file({"weight" + writable: torch.zeros(5, 5), "bias": torch.zeros(7)}, path)
        with pytest.raises(CheckpointError) as caught:
            rf.load(path, model)
    return caught.value


ERRORS = {"dims": dims_error, "attribute": attribute_error, "file": file_error}


@pytest.mark.parametrize("payload", NAMES)
@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind, payload):
    error = ERRORS[kind](NAMES[payload])
    for text in (str(error), repr(error) if isinstance(error, rf.errors.RfError) else ""):
        assert not OBEYED.search(text), ascii(text[:200])
        assert len(text) <= 5 * LONGEST


UNUSED = """
def run_loop(rf, x, time, name):
    loop = rf.Loop(axis=time, name="loop" + name)
    loop.state.never = rf.zeros([])
    with loop:
        rf.watch(loop.unstack(x), name="value" + name)
"""
"""A loop with a state that is never set."""


@pytest.mark.parametrize("payload", NAMES)
def test_warnings(payload, capsys):
    name = NAMES[payload]
    x, time, letter = batch(hostile(name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        written(UNUSED, hostile(payload))["run_loop"](rf, x, time, name)
        setattr(rf.ModuleList(), "parts" + name, [rf.Linear(letter, letter)])
    assert [warning.category for warning in caught][-2:] == [LoopWarning, UserWarning]
    for text in (*(str(warning.message) for warning in caught), *capsys.readouterr()):
        assert not OBEYED.search(text), ascii(text[:200])
        assert len(text) <= 5 * LONGEST


@pytest.mark.parametrize("payload", ["huge", "huge, many lines"])
@pytest.mark.parametrize("make", [tensors, structures, dims, modules, loops, attentions])
def test_views_of_huge_names_stay_small(make, payload):
    for name, view in make(hostile(NAMES[payload])).items():
        assert len(view.html) < 2 * 10**6 and len(view.text) < 10**6, name


ENCODINGS = ["ascii", "cp1252", "latin-1", "cp932"]
ODD_NAME = "größe→時間…\u2581\U0001f600"


def output(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")


@contextmanager
def writing(encoding):
    """The standard output, and that for errors, have an encoding that lacks most characters."""
    out, err = output(encoding), output(encoding)
    with redirect_stdout(out), redirect_stderr(err):
        yield
    out.flush(), err.flush()


def test_similar_characters_stand_for_those_that_cannot_be_written(monkeypatch):
    text = "a → b × c… é² ö \u2583 時 ␛ 2–5 ⟨3?⟩ ∞"
    wanted = {
        "utf-8": text,
        "ascii": "a -> b x c... e2 o : ? ^[ 2-5 <3?> inf",
        "cp1252": "a -> b × c… é² ö : ? ^[ 2–5 <3?> inf",
        "latin-1": "a -> b × c... é² ö : ? ^[ 2-5 <3?> inf",
    }
    for encoding, expected in wanted.items():
        monkeypatch.setattr(sys, "stdout", output(encoding))
        assert encodable(text) == expected
    for other in (None, io.StringIO(), output("utf-16")):
        monkeypatch.setattr(sys, "stdout", other)
        assert encodable(text) is text


def test_characters_of_views_have_similar_ones():
    files = [file.read_text(encoding="utf-8") for file in Path(rf.__file__).parent.rglob("*.py")]
    ours = {sign for sign in "".join(files) if not sign.isascii() and not sign.isalpha()}
    assert all(sign.isascii() for word in LOOKALIKES.values() for sign in word)
    assert set("…→·×‖–−▁≠←▣✂█⋯⟨⟩≤∞≥↻≈‡▒✗") <= LOOKALIKES.keys() & ours


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_reprs_and_errors_can_be_written(encoding):
    for make in REPRS.values():
        with writing(encoding):
            print(make(ODD_NAME))
    for make in ERRORS.values():
        error = make(ODD_NAME)
        with writing(encoding):
            print(error)
            print(error, file=sys.stderr)
            print([error] if isinstance(error, rf.errors.RfError) else "")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_views_can_be_written(make, encoding, tmp_path):
    for view in make(hostile(ODD_NAME)).values():
        with writing(encoding):
            print(view, view.text)
            if view.has("to_table"):
                print(view.table())
            view.save(tmp_path / "view.txt")
        assert (tmp_path / "view.txt").read_text(encoding="utf-8") == view.text + "\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_progress_and_warnings_can_be_written(encoding):
    x, time, letter = batch(hostile(ODD_NAME))
    with writing(encoding), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in (progress := rf.progress([1, 2], name=ODD_NAME, plot=False)):
            progress.report(**{ODD_NAME: 1.0})
        print(progress)
        written(UNUSED, hostile(ODD_NAME))["run_loop"](rf, x, time, ODD_NAME)
        setattr(rf.ModuleList(), ODD_NAME, [rf.Linear(letter, letter)])
        print(x.describe_dims(), loop_of(ODD_NAME).explain(), rf.runs)
        for warning in caught:
            print(warning.message, file=sys.stderr)
    assert len(caught) >= 2


SCRIPT = """
import rfnb as rf
x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, rf.Dim(None, name="größe→")])
print(x, rf.show(x), x.describe_dims(), f"{rf.Vocab(['時'])}")
print(rf.show(rf.Linear(rf.Dim(2, name="ä→"), rf.Dim(3, name="b"))))
x + rf.ones([rf.Dim(3, name="größe→")])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_script_whose_output_is_not_utf8(environment, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    names = ("PYTHONIOENCODING", "PYTHONUTF8", "LANG", "LC_ALL")
    others = {name: value for name, value in os.environ.items() if name not in names}
    others["PYTHONPATH"] = str(Path(rf.__file__).parents[1])
    run = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, env={**others, **environment})
    assert b"UnicodeEncodeError" not in run.stderr and b"DimError" in run.stderr, run.stderr.decode(errors="replace")
    assert b"->" in run.stdout and b"->" in run.stderr
