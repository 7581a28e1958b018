"""Kernels of the tests: forks that live as long as the program which stands for them, or kernels that start alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from tests.browser.lab_server import KERNEL_FORKS, forking

pytestmark = pytest.mark.browser


@contextmanager
def started(socket, folder):
    """The program that JupyterLab would start, once its kernel has said where it listens."""
    folder.mkdir(exist_ok=True)
    program = subprocess.Popen([sys.executable, "-IS", KERNEL_FORKS, socket, folder / "kernel.json"], cwd=folder)
    try:
        wait(lambda: (folder / "kernel.json").exists() or program.poll() is not None)
        assert program.poll() is None
        yield program
    finally:
        program.kill()
        program.wait()


def wait(is_so):
    """Until it is so; no test here takes a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_fork_ends_with_its_program_and_the_program_with_its_fork(tmp_path):
    with forking(tmp_path) as socket:
        wait(socket.exists)
        [forker] = [child for child in psutil.Process().children() if str(socket) in child.cmdline()]
        with started(socket, tmp_path / "one") as one, started(socket, tmp_path / "two") as two:
            first, second = sorted(forker.children(), key=psutil.Process.create_time)
            one.send_signal(signal.SIGINT)  # a kernel that does nothing lives on
            one.kill()
            wait(lambda: not first.is_running())
            assert second.is_running() and two.poll() is None
            two.send_signal(signal.SIGTERM)  # ends the kernel, and this one by its end
            assert two.wait(60) == 0 and not second.is_running()
    wait(lambda: not forker.is_running())


def test_where_nobody_forks_the_program_becomes_a_kernel(tmp_path):
    with started(tmp_path / "nobody", tmp_path) as program:
        assert "ipykernel_launcher" in psutil.Process(program.pid).cmdline()
