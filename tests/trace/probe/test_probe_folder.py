"""Files of a probe: complete or absent, and never trusted."""

from __future__ import annotations

import json
import random
import shutil
import threading

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import rfnb as rf
from rfnb.errors import RunFileError
from rfnb.trace.probe import shot as shot_file
from rfnb.trace.probe.shot import FILE, KEY, ShotFolder


@pytest.fixture
def written(tmp_path):
    """A shot with a run, attention and a result."""
    time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")

    def decode():
        loop = rf.Loop(max_seq_len=2, name="loop")
        loop.state.n = rf.zeros([feat])
        with loop:
            loop.state.n = loop.state.n + 1
        x = rf.ones([time, feat])
        return {"att": rf.dot_attention(rf.ones([feat]), x, x, key_dim=feat, axis=time), "words": ["a", "b"]}

    probe = rf.probe(decode, every=1, path=tmp_path)
    probe.step(loss=1.0)
    probe.stop()
    return tmp_path


def test_nothing_half_written_is_seen(written, monkeypatch):
    seen = []
    write = shot_file.Material._write_file

    def looking(self, *args):
        seen.append((rf.load_probe(written).steps, [each.result for each in rf.load_probe(written)]))
        write(self, *args)
        seen.append((rf.load_probe(written).steps, [each.result for each in rf.load_probe(written)]))
        raise OSError("disk full")

    monkeypatch.setattr(shot_file.Material, "_write_file", looking)
    probe = rf.probe(lambda: 1, every=2, path=written, start=1)
    with pytest.warns(rf.errors.LoopWarning, match="disk full"):
        probe.step()
    assert [steps for steps, _ in seen] == [[1], [1]] and len(seen[0][1]) == 1
    assert sorted(each.name for each in written.iterdir()) == ["step-000000001"]
    probe.stop()


def test_a_reader_beside_a_writer_sees_only_complete_shots(tmp_path):
    probe = rf.probe(lambda: torch.full((2000,), float(probe.trained)), every=1, path=tmp_path, budget=100_000)
    loaded, wrong, done = rf.load_probe(tmp_path), [], threading.Event()

    def read():
        while not done.is_set():
            wrong.extend(shot.step for shot in loaded if not shot.result.eq(shot.step).all())
            wrong.extend(loaded.unreadable)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(60):
        probe.step()
    done.set()
    reader.join()
    probe.stop()
    assert not wrong and loaded.steps == probe.steps and loaded[-1].step == 60


def test_what_a_killed_process_left_is_not_read_and_removed(written):
    shutil.copytree(written / "step-000000001", written / ".step-000000002.0123abcd.unfinished")
    assert rf.load_probe(written).steps == [1]
    probe = rf.probe(lambda: 1, every=1, path=written, start=2)
    probe.step()
    probe.stop()
    assert sorted(each.name for each in written.iterdir()) == ["step-000000001", "step-000000003"]


def test_damaged_files_are_named_and_the_rest_is_read(written):
    for step in (2, 3):
        shutil.copytree(written / "step-000000001", written / f"step-{step:09d}")
    (written / "step-000000002" / FILE).write_bytes(b"\x10")
    (written / "notes.txt").write_text("x")
    loaded = rf.load_probe(written)
    assert [shot.step for shot in loaded] == [1]
    assert len(loaded.unreadable) == 2 and "step 2" in loaded.unreadable[0] and "1" in loaded.unreadable[1]
    assert "not readable: step 2" in rf.show(loaded).text
    with pytest.raises(RunFileError):
        loaded.at(2)


def damaged(data, path):
    """The JSON without one entry, or with another one in its place."""
    *way, last = path
    for each in way:
        data = data[each]
    for other in (None, -1, 10**30, "../x", [], {}, [[["a"]]], True):
        data[last] = other
        yield


def paths(data, way=()):
    """The way to each entry."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*way, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*way, key))


def test_any_other_json_is_refused_or_read_but_nothing_else(written):
    file = written / "step-000000001" / FILE
    with safe_open(file, "pt") as opened:
        tensors, text = {key: opened.get_tensor(key) for key in opened.keys()}, opened.metadata()[KEY]  # noqa: SIM118
    chosen = random.Random(1).sample(list(paths(json.loads(text))), 60)
    refused = 0
    for path in chosen:
        data = json.loads(text)
        for _ in damaged(data, path):
            save_file(tensors, file, {KEY: json.dumps(data)})
            try:
                ShotFolder(written).shot(1)
            except RunFileError:
                refused += 1
    assert refused > 200


def test_names_of_files_come_from_numbers_not_from_the_file(written):
    file = written / "step-000000001" / FILE
    with safe_open(file, "pt") as opened:
        tensors, data = {key: opened.get_tensor(key) for key in opened.keys()}, json.loads(opened.metadata()[KEY])  # noqa: SIM118
    data["runs"] = ["../../secret"]
    save_file(tensors, file, {KEY: json.dumps(data)})
    assert rf.load_probe(written)[0].runs[0].name.startswith("loop")


def test_closest_neighbours_go_first(tmp_path):
    folder = ShotFolder(tmp_path)
    for step in (1, 2, 3, 10, 20, 21, 30):
        folder.write(step, lambda path: (path / FILE).write_bytes(bytes(10)) and None)
    for budget, steps in ((60, [1, 3, 10, 20, 21, 30]), (45, [1, 10, 20, 30]), (20, [1, 30]), (10, [30]), (0, [30])):
        folder.fit(budget)
        assert folder.steps() == steps and np.all(np.diff(steps) > 0)
