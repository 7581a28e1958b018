"""Functions in two processes: results, output, curves, failures, interrupts, and a killed kernel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rfnb.jobs.launch import Launched
from rfnb.jobs.worker import Process
from tests.jobs.scripts import ROOT, run_script

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed"),
]

LAUNCH = """
import os, signal, time
import torch
from torch import distributed
import rfnb as rf

weights = torch.ones(3)

def train(end):
    rank = distributed.get_rank()
    progress = rf.progress(range(4), name="demo")
    for step in progress:
        progress.report(loss=weights.sum() / (step + 1))
    total = torch.tensor(rank + 1.0)
    distributed.all_reduce(total)
    print("hello from", rank)
    if rank == 1 and end == "error":
        raise ValueError("no luck")
    if rank == 1 and end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"total": total, "weights": weights}

if __name__ == "__main__":
    __import__("pathlib").Path("job/rank-7").mkdir(parents=True)
    __import__("pathlib").Path("job/rank-7/process.json").write_text("{}")
    print(rf.launch(train, "well", folder="job"))
    for end in ("error", "killed"):
        try:
            print(rf.launch(train, end=end))
        except rf.errors.LaunchError as error:
            print(error)
    print(rf.attach("job"))
    assert not list(__import__("pathlib").Path(__import__("tempfile").gettempdir()).glob("rfnb-launch-*"))
"""


def test_results_output_curves_and_failures_come_to_the_caller(python, tmp_path):
    (tmp_path / "temporary").mkdir()
    done = run_script(python, LAUNCH, tmp_path, TMPDIR=str(tmp_path / "temporary"), PYTHON_EXEC=python)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("hello from 0") == lines.count("[rank 1] hello from 1") == 3
    assert "{'total': tensor(3.), 'weights': tensor([1., 1., 1.])}" in lines
    assert lines.count("launch: 'train' failed in rank 1 of 2") == 2
    assert "  got       ValueError: no luck" in lines
    assert any(re.fullmatch(r' +train.py, line \d+, in train: raise ValueError\("no luck"\)', line) for line in lines)
    assert "  got       the process ended with SIGKILL (out of memory?)" in lines
    assert "demo: 100%" in done.stderr
    assert lines[-6].split() == ["job", "2", "ranks"]
    assert [line.split()[:2] for line in lines[-4:-2]] == [["0", "ended"], ["1", "ended"]]
    assert "lowest 0.75 at step 3" in lines[-1]


def test_a_result_that_cannot_come_back_is_told(tmp_path):
    process = Process(str(tmp_path / "train.py"))
    process._write(lambda: 1)
    launched = Launched.__new__(Launched)
    launched.name, launched.folder = "train", tmp_path
    with pytest.warns(UserWarning, match="the result of 'train' cannot come back: function: "):
        assert launched._loaded() is None


ENDLESS = """
import os, signal, time
import rfnb as rf

def copy():
    print("waits", os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background ignores
    rf.launch(copy)  # its script is no module of Python
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "killed kernel"])
def test_no_process_outlives_the_call(tmp_path, how):
    path = tmp_path / "user.py"
    path.write_text(ENDLESS)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as script:
        assert script.stdout is not None
        pids = [int(script.stdout.readline().split()[-1]) for _ in range(2)]
        script.send_signal(how)
        script.wait(60)
    end = time.monotonic() + 60
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
