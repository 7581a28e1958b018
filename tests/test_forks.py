"""Processes of the tests: forks that live as long as the program which stands for them, or Python itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.forks import forking

WAITS = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"


def started(python, file):
    """A program that waits, once it has made the file."""
    program = subprocess.Popen([python, "-c", WAITS, file])
    wait(lambda: file.exists() or program.poll() is not None)
    assert program.poll() is None
    return program


def wait(is_so):
    """Until it is so; no test here takes a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_fork_ends_with_its_program_and_the_program_as_its_fork(tmp_path):
    others = psutil.Process().children()
    with forking(tmp_path) as python:
        [forker] = set(psutil.Process().children()) - {*others}
        one, two, three = (started(python, tmp_path / str(number)) for number in range(3))
        first, second, third = sorted(forker.children(), key=psutil.Process.create_time)
        one.kill()
        wait(lambda: not first.is_running())
        assert second.is_running() and two.poll() is None
        two.send_signal(signal.SIGTERM)  # ends the fork, and this one by its end
        assert two.wait(60) == -signal.SIGTERM and not second.is_running()
        third.kill()
        assert three.wait(60) == -signal.SIGKILL and one.wait(60) == -signal.SIGKILL
    wait(lambda: not forker.is_running())


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "1 / 0", "print(input() + 'ü', __name__)"])
def test_a_fork_reads_writes_and_ends_as_python_does(code, python):
    ends = [
        subprocess.run([command, "-c", code], input="ä", capture_output=True, encoding="utf-8", check=False)
        for command in (python, sys.executable)
    ]
    assert len({(end.returncode, end.stdout, end.stderr[-20:]) for end in ends}) == 1


def test_a_fork_has_the_arguments_folder_path_and_environment(python, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "module.py").write_text("import os, sys\nseen = sys.argv, os.getcwd(), os.environ['X']")
    (tmp_path / "script.py").write_text("import beside, module\nprint(module.seen, __name__, __file__)")
    (tmp_path / "beside.py").write_text("import sys; print(sys.argv, __name__)")
    monkeypatch.setenv("X", "y")
    for arguments in (
        [str(tmp_path / "script.py"), "a", "-b"],
        ["-c", "import module; print(module.seen, __name__)", "-c"],
        ["-m", "beside", "-c"],
    ):
        said = [
            subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
            for command in (python, sys.executable)
        ]
        assert said[0] == said[1]


def test_torch_is_imported_and_rfnb_and_ipython_are_not(python):
    code = "import sys; print({'torch', 'rfnb', 'IPython', 'ipykernel'} & set(sys.modules))"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout == "{'torch'}\n"


def test_where_nobody_forks_the_program_becomes_python(tmp_path):
    with forking(tmp_path) as python:
        pass
    program = started(python, tmp_path / "made")
    try:
        assert psutil.Process(program.pid).cmdline()[1] == "-c"
    finally:
        program.kill()
        program.wait()
