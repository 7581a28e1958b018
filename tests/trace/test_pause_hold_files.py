"""Where nobody can look, runs go to files."""

from __future__ import annotations

import warnings

import pytest

import rfnb as rf
from rfnb.errors import LoopError, LoopWarning
from rfnb.trace import pause as hold
from tests.trace.holding import no_pauses as no_pauses
from tests.trace.test_pause import run


def written() -> list[str]:
    return sorted(path.name for path in rf.options.pause_folder.glob("*"))


def test_a_run_is_written_once_and_can_be_loaded():
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning, match=r"no panel is connected; its run is in a file: rf.load_run") as told:
        run(4)
    assert (len(told), written()) == (1, ["counting-step0.rfrun"])
    loaded = rf.load_run(rf.options.pause_folder / written()[0])
    assert (loaded.steps, loaded[0].after.n.item()) == (1, 2)


def test_names_have_the_training_step_and_the_rank(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    rf.init_train_step_run_ctx(step=8123)
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning):
        run(name="../a b")
    assert written() == ["_a_b-rank3-step8123.rfrun"]
    rf.init_forward_step_run_ctx()
    moved = (rf.options.pause_folder / written()[0]).rename(rf.options.pause_folder / "renamed.rfrun")
    loaded = rf.load_run(moved)
    assert loaded.training.step == 8123 and loaded.training.run(8123) is loaded
    rf.pauses.clear()
    assert "training step 8123" in repr(loaded) and "training step" not in repr(run())
    again = rf.load_run(loaded.save(rf.options.pause_folder / "again.rfrun"))
    assert again.training.steps() == [8123]
    with pytest.raises(LoopError, match="no run at training step 3"):
        again.training.run(3)


def test_a_process_writes_five_files_at_most():
    rf.pause_when("after.n > 1")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(8):
            run()
    assert len(written()) == len(told) == 5
    assert "no more are written" in str(told[-1].message) and "no more" not in str(told[-2].message)


def test_the_file_that_reaches_the_limit_of_bytes_is_told_to_be_the_last(monkeypatch):
    rf.pause_when("after.n > 1")
    monkeypatch.setattr(hold, "MOST_BYTES", 1)
    with pytest.warns(LoopWarning, match="no more are written") as told:
        run()
        run()
    assert len(written()) == len(told) == 1


def test_large_states_are_written_as_statistics(monkeypatch):
    feat = rf.Dim(1000, name="feat")
    monkeypatch.setattr(hold, "MOST_BYTES", 10 * 6000)  # for each file 6000 bytes of values and 6000 of states
    loop = rf.Loop(max_seq_len=2, name="large")
    loop.state.h, loop.state.n = rf.ones([feat]), rf.convert_to_tensor(0.0)
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning, match="rf.load_run"), loop:
        loop.state.h = loop.state.h * float("inf")
        loop.state.n = loop.state.n + 1
    file = next(rf.options.pause_folder.iterdir())
    assert file.stat().st_size < 12_000
    loaded = rf.load_run(file)
    assert "only statistics of h (0.0 MiB)" in loaded.replay.note
    assert loaded[1].after.h.statistics.inf == 1000 and loaded[1].after.n.item() == 2.0


def test_a_folder_that_cannot_be_written_is_told_and_the_loop_goes_on(tmp_path):
    rf.options.pause_folder = tmp_path / "file" / "folder"
    (tmp_path / "file").write_text("")
    rf.pause_when("after.n > 1")
    with pytest.warns(LoopWarning, match="could not be written"):
        assert run().steps == 3
