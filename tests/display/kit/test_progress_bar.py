"""The bar of a loop."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tqdm.auto

from rfnb.display.kit.progress_bar import bar, new_bar


def test_short_loops_have_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    told = bar("sum", 3, clock=iter(range(100)).__next__)
    told(1)


def test_long_loops_have_one_and_it_goes_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    told = bar("decoder", 3, clock=iter([0.0, 1.0, 3.0, 4.0]).__next__)
    for done in (1, 2, 3):
        told(done)
    assert "decoder" in capsys.readouterr().err


def test_a_script_that_has_imported_a_kernel_has_the_bar_of_a_terminal():
    loop = "import ipykernel.zmqshell, rfnb as rf\nfor _ in rf.progress([1, 2, 3]): pass"
    script = subprocess.run([sys.executable, "-c", loop], capture_output=True, text=True, check=False)
    assert script.returncode == 0 and "3/3" in script.stderr


def test_without_tqdm_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    told = bar("decoder", 9, clock=iter([0.0, 5.0]).__next__)
    told(1)
    told(2)


def test_an_interrupt_while_a_bar_of_a_notebook_is_shown_removes_it(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ipywidgets")
    import IPython
    import IPython.display
    import tqdm.notebook

    outputs: list[object] = []

    class Handle:
        def display(self, container: object) -> None:
            outputs.append(container)
            raise KeyboardInterrupt

        def update(self, bundle: object, **options: object) -> None:
            outputs.append(bundle)

    monkeypatch.setattr(tqdm.auto, "tqdm", tqdm.notebook.tqdm)
    monkeypatch.setattr(IPython, "get_ipython", lambda: True)
    monkeypatch.setattr(IPython.display, "DisplayHandle", Handle)
    with pytest.raises(KeyboardInterrupt):
        new_bar("decoder", total=3, leave=False)
    assert len(outputs) == 2 and outputs[1] == {}
