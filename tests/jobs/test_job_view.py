"""The page of a job whose files are from others."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import rfnb as rf
from rfnb.jobs.job import Job

CURVE = {"steps": [0, 1], "low": [1.0, 2.0], "high": [1.0, 3.0], "smooth": [1.0, 2.5], "last": 2.0, "peak": "lowest"}
CURVE |= {"peak_value": 1.0, "peak_at": 0, "bad": 1, "first_bad": 1}


def job(word):
    folder = Path(tempfile.mkdtemp(prefix="rfnb-test-"))
    rank = folder / "rank-0"
    rank.mkdir()
    progress = {"kind": "progress", "name": word("train"), "steps": 2, "total": 2, "epoch": 1, "stopped": False}
    progress |= {"curves": [{"name": word("loss"), **CURVE}], "note": word("note")}
    error = {"error": word("ValueError: wrong"), "at": word("train.py"), "traceback": word("line"), "time": 1.0}
    files = {
        "process.json": {"pid": 1, "host": word("host"), "began": word("")},
        "error.json": error,
        "progress-1.json": progress,
    }
    for name, content in files.items():
        (rank / name).write_text(json.dumps(content))
    return Job(folder)


def hostile_views(word):
    return {"job": rf.show(job(word))}


def test_the_page_has_the_processes_their_errors_and_curves():
    text = rf.show(job(str)).text
    for words in ("job 1 rank", "failed", "host · 1", "ValueError: wrong", "train: step 2", "loss", "note"):
        assert words in text
