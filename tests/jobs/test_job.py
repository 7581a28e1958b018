"""The folder of a job: what a process writes there, and what another one reads, also from damaged files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import runpy
import signal
import time

import pytest

import rfnb as rf
from rfnb.errors import LaunchError
from rfnb.loop import run_body
from rfnb.trace.run import job as files
from rfnb.trace.run.stretches import Stretches
from tests.jobs.scripts import run_script


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of a job that this process belongs to, as rank 0."""
    monkeypatch.setenv("RFNB_JOB", str(tmp_path / "job"))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("sys.excepthook", lambda *error: None)
    files._prepared.cache_clear()
    yield tmp_path / "job"
    files._prepared.cache_clear()


def counted(limit, name="count"):
    loop = rf.Loop(max_seq_len=limit, name=name)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        loop.state.n = loop.state.n + 1


@pytest.fixture
def job(folder):
    attached = rf.attach(folder)
    yield attached
    attached.stop()


def test_curves_runs_probes_and_errors_are_read_from_the_folder(folder, job):
    assert job.processes == job.runs == job.probes == []
    probe = rf.probe(lambda: "a b", every=2, name="sample")
    progress = rf.progress(range(4), name="train")
    for step in progress:
        progress.report(loss=1.0 / (step + 1))
    probe.stop()
    with rf.recording("last"):
        counted(3)
        for _ in rf.steps(range(2), name="plain"):
            value = 1  # noqa: F841
    try:
        raise ValueError("no luck")
    except ValueError as error:
        files.write_error(error)
    [process] = job.processes
    assert (process.rank, process.ended, process.is_here) == (0, True, True)
    assert process.error["error"] == "ValueError: no luck"
    assert process.error["at"].endswith('raise ValueError("no luck")')
    [(_, view)] = job.progress(0)
    assert (view["steps"], view["curves"][0]["last"]) == (4, 0.25)
    assert {run.name: len(run) for run in job.runs} == {"count · rank 0": 3, "plain · rank 0": 2}
    assert job.runs[0][1].after.n.raw_tensor.item() == 2
    assert [(probe.name, len(probe)) for probe in job.probes] == [("sample", 2)]
    text = str(rf.show(job).text)
    for words in ("job 1 rank", "failed", "train: step 4", "ValueError: no luck", "count · rank 0", "sample"):
        assert words in text


def test_runs_come_into_the_list_and_old_ones_are_removed(folder, job):
    with rf.recording("last"):
        for limit in range(1, 8):
            counted(limit)
    assert len(list(folder.glob("rank-0/runs/*.rfrun"))) == rf.options.keep
    assert [len(run) for run in job.runs] == [4, 5, 6, 7]
    end = time.monotonic() + 30
    assert len({id(run) for _ in range(3) for run in job.runs}) == 4  # beside the thread that lists them
    while ("count · rank 0" not in rf.runs or len(rf.runs["count · rank 0"]) < 7) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(rf.runs["count · rank 0"]) == 7
    rf.runs.clear()


def test_runs_beyond_a_number_or_the_memory_stay_files(folder, job, monkeypatch):
    monkeypatch.setattr("rfnb.jobs.job.MOST_RUNS", 3)
    with rf.recording("last"):
        for number in range(1, 6):
            counted(number, f"count{number}")
    job.stop()
    for number, path in enumerate(sorted(folder.glob("rank-0/runs/*.rfrun"))):
        os.utime(path, (number, number))
    assert [len(run) for run in job.runs] == [3, 4, 5]
    assert [len(rf.load_run(path)) for path in job.older_runs] == [1, 2]
    assert "2 older runs in files: rf.load_run(job.older_runs[-1])" in str(rf.show(job).text)
    size = max(path.stat().st_size for path in folder.glob("rank-0/runs/*.rfrun"))
    monkeypatch.setattr(rf.options, "trace_budget", 2 * size)
    assert [len(run) for run in job.runs] == [4, 5]
    assert len(job.older_runs) == 3


def test_the_files_of_an_earlier_start_are_removed_first(folder, job):
    job.stop()
    with rf.recording("last"):
        counted(1)
        [first] = folder.glob("rank-0/runs/*.rfrun")
        earlier = [first.with_name(f"count-9{n:05d}.rfrun") for n in range(rf.options.keep)]
        for path in earlier:
            path.write_bytes(first.read_bytes())
            os.utime(path, (0, 0))
        counted(2)
    assert [len(run) for run in job.runs][-2:] == [1, 2]


def test_a_process_with_the_number_of_an_earlier_one_is_another(folder, job):
    assert files.job_folder() == folder / "rank-0"
    facts = json.loads((folder / "rank-0" / "process.json").read_text())
    assert not job.processes[0].ended and job.processes[0].may_run
    (folder / "rank-0" / "process.json").write_text(json.dumps({**facts, "began": "1"}))
    assert job.processes[0].ended and not job.processes[0].may_run


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "progress"}', json.dumps({"kind": 3}), "[" * 10**5])
def test_damaged_files_are_named_and_nothing_is_lost(folder, job, content):
    counted(1)
    rank = folder / "rank-0"
    for _ in rf.progress(range(2), name="train"):
        pass
    (rank / "progress-99999.json").write_text(content)
    (rank / "process.json").write_text(content)
    (rank / "runs").mkdir(exist_ok=True)
    (rank / "runs" / "broken-000001.rfrun").write_text(content)
    (folder / "rank-x").mkdir()
    [process] = job.processes
    assert process.step == "train: step 2"
    assert job.runs == []
    text = str(rf.show(job).text)
    assert "progress-99999.json" in text and "broken-000001.rfrun" in text


KILLED = """
import os, signal, torch
import rfnb as rf
from rfnb.trace.run import stretches
stretches.CREDIT = 1e9  # each step is written, however slow the machine is
rf.options.record = "last"
seen = []
weight = torch.zeros(2)
for n in rf.progress(range(100), name="train"):
    for part in range(2):
        loss = torch.tensor(float(10 * n + part))
    seen.append(n)
    weight.add_(1.0)
    if n == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 5, 90])
def test_a_killed_process_loses_the_step_that_it_is_in(python, tmp_path, last):
    done = run_script(python, KILLED.replace("{last}", str(last)), tmp_path, RFNB_JOB=str(tmp_path / "job"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    job = rf.attach(tmp_path / "job")
    job.stop()
    steps = []
    for run in job.runs:
        first, end = map(int, re.fullmatch(r"train, steps (\d+) … (\d+) · rank 0", run.name).groups())
        assert len(run) == end - first + 1
        for number, n in enumerate(range(first, end + 1)):
            assert (run[number].n.item(), run[number].loss.item()) == (n, 10 * n + 1)
            assert run[number].eval("len(before.seen)") == n
        steps += range(first, end + 1)
    assert steps == [*range(max(0, last - 64), last)][-len(steps) :] and len(steps) >= min(last, 48)


EACH_STEP = """
from types import SimpleNamespace
from rfnb.loop import run_body
run_body.AT_FIRST = 1e9  # each step is written, however slow the machine is,
run_body.Pace = lambda *times: SimpleNamespace(steps=1, next=lambda: None)  # and however fast
"""
KILLED_LOOP = """
import os, signal, torch
import rfnb as rf
rf.set_random_seed(1)
time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
x = rf.convert_to_tensor(torch.arange(300.0).reshape(2, 50, 3), dims=[rf.batch_dim, time, feat], lengths=[50, 3])
size = rf.convert_to_tensor([50.0, 3.0], dims=[rf.batch_dim])

def count(n):
    if n.max() == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    return n + 1

loop = rf.Loop({limits}, name="long", debug=True)
loop.state.n = rf.zeros([rf.batch_dim])
loop.state.total = rf.zeros([rf.batch_dim])
with loop:
    loop.state.n = rf.raw_call(count, loop.state.n, out_dims=[rf.batch_dim])
    value = rf.reduce_sum({frame} + rf.random_uniform([feat]), axis=feat) + rf.cast(loop.iter_idx, "float32")
    loop.state.total = loop.state.total + value
    {end}
"""
LOOPS = {
    "frames": {"limits": "axis=time", "frame": "loop.unstack(x)", "end": ""},
    "end": {
        "limits": "max_seq_len=90",
        "frame": "loop.state.n",
        "end": "loop.end(loop.state.n >= size, include_eos=True)",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("last", [2, 40])
def test_a_killed_loop_loses_the_step_that_it_is_in(python, tmp_path, monkeypatch, last, kind):
    code, steps = KILLED_LOOP, []
    for name, text in LOOPS[kind].items():
        code = code.replace(f"{{{name}}}", text)
    done = run_script(python, EACH_STEP + code.replace("{last}", str(last)), tmp_path, RFNB_JOB=str(tmp_path / "job"))
    assert done.returncode == -signal.SIGKILL, done.stderr
    monkeypatch.delenv("RFNB_JOB")
    (tmp_path / "whole.py").write_text(code.replace("{last}", "-1"), encoding="utf-8")
    whole = runpy.run_path(str(tmp_path / "whole.py"))["loop"].run
    job = rf.attach(tmp_path / "job")
    job.stop()
    for run in job.runs:
        first, end = map(int, re.fullmatch(r"long, steps (\d+) … (\d+) · rank 0", run.name).groups())
        steps += range(first, end + 1)
        assert len(run) == end - first + 1 and not run.flags
        assert run.lengths == [len(run), min(max(3 - first, 0), len(run))]
        for number, step in enumerate(range(first, end + 1)):
            for name in ("n", "total", "value"):
                assert getattr(run[number], name).raw_tensor.equal(getattr(whole[step], name).raw_tensor)
    assert steps == [*range(last)]


def test_a_recorded_loop_that_ends_leaves_one_file(folder, monkeypatch):
    written, write = [], Stretches._write
    monkeypatch.setattr(run_body, "AT_FIRST", 1e9)
    monkeypatch.setattr(Stretches, "_write", lambda *args: written.append(args) or write(*args))
    with rf.recording("last"):
        counted(40)
    assert written and len([*folder.glob("rank-0/runs/*.rfrun")]) == 1


def test_a_loop_that_ends_leaves_one_file(folder):
    with rf.recording("last"):
        for _ in rf.steps(range(20), name="plain"):
            value = 1  # noqa: F841
    assert len([*folder.glob("rank-0/runs/*.rfrun")]) == 1
    with contextlib.suppress(ValueError), rf.recording("last"):
        for step in rf.steps(range(20), name="failing"):
            if step == 3:
                raise ValueError
    assert sorted(path.name.split("-")[0] for path in folder.glob("rank-0/runs/*.rfrun")) == ["failing", "plain"]


def test_a_full_disk_does_not_end_the_training(folder, capsys):
    counted(1)
    (folder / "rank-0").mkdir(parents=True, exist_ok=True)
    files.job_folder()
    for path in (folder / "rank-0").iterdir():
        path.unlink()
    (folder / "rank-0").rmdir()
    assert len(list(rf.progress(range(3)))) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_strange_files_neither_end_nor_stop_the_page(folder, job):
    rank = folder / "rank-0"
    rank.mkdir(parents=True)
    (folder / "rank-1").write_text("")
    (rank / "gone.json").symlink_to("/nowhere")
    (rank / "progress-1.json").symlink_to("/dev/zero")
    (rank / "progress-2.json").symlink_to("/nowhere")
    os.mkfifo(rank / "error.json")
    for pid in (2**70, -1, 0):
        (rank / "process.json").write_text(json.dumps({"pid": pid, "host": platform.node(), "began": ""}))
        [process] = job.processes
        assert process.ended == (pid == 2**70)
        assert 0 <= process.quiet_for < 60
    text = str(rf.show(job).text)
    assert "progress-1.json is not a file" in text and "error.json is not a file" in text


def test_a_folder_that_cannot_be_made_does_not_end_the_training(folder, capsys):
    folder.write_text("a file")
    assert len(list(rf.progress(range(3)))) == 3
    files.write_error(ValueError("no luck"))
    assert f"{folder} cannot be written" in capsys.readouterr().err


def test_the_rank_is_that_of_torchrun_else_that_of_slurm(folder, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert files.rank() == 0
    monkeypatch.delenv("RANK")
    assert files.job_folder() == folder / "rank-3"


def train():
    """Nothing."""


def test_a_folder_whose_job_still_runs_is_not_launched_in(folder):
    files.job_folder()
    (folder / "result.pt").write_text("kept")
    words = (
        rf"a job still runs in the folder(.|\n)*rank 0: process {os.getpid()} on (.|\n)*`kill {os.getpid()}` ends it"
    )
    with pytest.raises(LaunchError, match=words):
        rf.launch(train, folder=folder)
    assert (folder / "rank-0" / "process.json").exists()
    assert [path.name for path in folder.glob("*.p*")] == ["result.pt"]


def test_a_file_is_not_a_job(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match="not a folder"):
        rf.attach(tmp_path / "file")
