"""When a probe runs, what it keeps, and what happens if its function fails."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.errors import DtypeError, LoopError, LoopWarning, ParameterError, RunFileError
from rfnb.trace.probe.probe import followers
from rfnb.trace.probe.shot import FILE

BATCH = rf.Dim(2, name="batch", kind="batch")
TIME = rf.Dim(rf.convert_to_tensor([3, 2], dims=[BATCH]), name="time")
DEC, FEAT = rf.Dim(4, name="dec"), rf.Dim(5, name="feat")


@pytest.fixture(autouse=True)
def _no_probe_stays():
    yield
    followers._probes.clear()


def attending(weight):
    """A loop with attention, whose sharpness is `weight`."""
    keys = rf.random_normal([BATCH, TIME, FEAT])

    def decode():
        loop = rf.Loop(axis=DEC, name="decoder")
        loop.state.s = rf.ones([BATCH, FEAT])
        with loop:
            att = rf.dot_attention(loop.state.s * weight[0], keys, keys, key_dim=FEAT, axis=TIME)
            loop.state.s = loop.state.s + att
        return {"text": ["a b", "c"], "s": loop.state.s, "all": (1, 2.5, None, True, float("inf"))}

    return decode


def test_a_shot_has_what_the_function_gave_then():
    weight, expected = [0.0], {}
    decode = attending(weight)
    probe = rf.probe(decode, every=1)
    for step in (1, 2):
        weight[0] = float(step)
        probe.step(loss=1 / step)
        with rf.capture() as seen:
            expected[step] = decode()["s"].raw_tensor, seen[0].weights.raw_tensor
    again = rf.load_probe(probe.path)
    for step, (s, weights) in expected.items():
        shot = again.at(step)
        assert shot.result["s"].raw_tensor.equal(s) and shot.result["s"].dims == (BATCH, FEAT)
        assert shot.attention["att"].weights.raw_tensor.equal(weights)
        assert shot.result["text"] == ["a b", "c"] and shot.result["all"] == [1, 2.5, None, True, float("inf")]
        assert shot.run("decoder")[3].after.s.raw_tensor.equal(s)
        assert shot.measures == {"loss": 1 / step}
    assert again.compare(1, 1).agree and not again.compare(1, 2).agree
    assert again.compare(1, 2).first.name in ("mul", "s")


def test_results_of_all_kinds_come_back(tmp_path):
    given = {
        "torch": torch.arange(6).reshape(2, 3), "numpy": np.array([[0.5], [np.nan]]), "empty": [],
        "half": torch.ones(2).half(),
        "scalar": np.float32(0.25), "label": np.int64(3), "nested": {"a": [{"b": "ü\u202e<b>"}]}, "other": object,
        "none": torch.zeros(0, 3), "words": np.array(["a"]), "no": False,
        "held": SimpleNamespace(h=torch.ones(2), more=[SimpleNamespace(n=1)]),
    }  # fmt: skip
    probe = rf.probe(lambda: given, every=1, path=tmp_path)
    probe.step()
    found = rf.load_probe(tmp_path)[0].result
    assert found["torch"].equal(given["torch"]) and found["half"].dtype is torch.float16
    assert np.array_equal(found["numpy"], given["numpy"], equal_nan=True) and found["none"].shape == (0, 3)
    assert (found["scalar"], found["label"], found["empty"], found["no"]) == (0.25, 3, [], False)
    assert found["held"]["h"].equal(torch.ones(2)) and found["held"]["more"] == [{"n": 1}]
    assert found["nested"] == given["nested"] and "object" in found["other"] and "a" in found["words"]


def test_an_error_is_warned_of_once_and_the_training_goes_on():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    net.train()
    calls = []

    def fail():
        calls.append(net.training)
        torch.rand(3)
        random.random()
        raise ValueError("no such word")

    probe = rf.probe(fail, every=2)
    before = torch.get_rng_state(), random.getstate()
    with pytest.warns(
        LoopWarning, match="the probe 'fail' is off after training step 2: ValueError: no such word"
    ) as all_:
        for _ in rf.progress(range(8)):
            assert net.training and net[1].training and torch.is_grad_enabled()
    assert len(all_) == 1 and calls == [False] and probe.steps == []
    assert torch.get_rng_state().equal(before[0]) and random.getstate() == before[1]
    assert "off: ValueError" in rf.show(probe).text


def test_an_interrupt_ends_the_training_and_leaves_it_as_it_was():
    net = nn.Dropout()

    def stop():
        assert not net.training
        raise KeyboardInterrupt

    rf.probe(stop, every=1)
    with pytest.raises(KeyboardInterrupt):
        list(rf.progress(range(3)))
    assert net.training and torch.is_grad_enabled() and rf.get_run_ctx().stage == "init"


def test_all_shots_are_within_the_budget_and_spread_over_the_training():
    size = rf.Dim(1000, name="size")
    probe = rf.probe(lambda: rf.ones([size]), every=1, budget=50_000)
    for _ in range(40):
        probe.step()
        assert probe.bytes <= 50_000
    steps = probe.steps
    assert steps[0] == 1 and steps[-1] == 40 and 6 < len(steps) < 13
    assert max(np.diff(steps)) <= 10


@pytest.mark.parametrize(("budget", "runs", "attention"), [(200_000, 1, 1), (9_000, 0, 1), (2_000, 0, 0)])
def test_a_shot_larger_than_the_budget_leaves_something_out(budget, runs, attention):
    probe = rf.probe(attending([1.0]), every=1, budget=budget)
    probe.step()
    assert (len(probe[0].runs), len(probe[0].attention)) == (runs, attention) and probe.bytes <= max(budget, 2_000)
    assert (probe[0].note is None) == (runs == 1)
    if not runs:
        with pytest.raises(LoopError, match="has no run"):
            probe.compare(1, 1)


def test_runs_are_listed_as_those_of_one_loop_with_the_training_step():
    with rf.recording("all"):
        rf.runs.clear()
        probe = rf.probe(attending([1.0]), every=2)
        list(rf.progress(range(4)))
        assert [(run.name, run.place) for run in rf.runs] == [
            ("decoder · decode", "training step 4"), ("decoder · decode", "training step 2"),
        ]  # fmt: skip
        assert len({run.loop for run in rf.runs}) == 1
        assert rf.runs[0].storages is not None and probe.off is None
    rf.runs.clear()


def test_a_probe_made_again_at_its_line_replaces_the_former():
    calls = []
    for n in range(2):
        rf.probe(lambda n=n: calls.append(n), every=1)
    list(rf.progress(range(2)))
    assert calls == [1, 1]


def test_numbers_of_steps_are_those_of_the_user():
    probe = rf.probe(lambda: None, every=100, start=12_000)
    for number in (12_050, 12_100, 12_100, 12_150, 12_200):
        probe.step(number)
    assert probe.steps == [12_100, 12_200]
    with pytest.raises(ParameterError, match="whole number"):
        probe.step(-1)
    with pytest.raises(ParameterError, match=r"nearest one: probe.at\(12100\)"):
        probe.at(12_050)
    with pytest.raises(ParameterError, match="no shot 12100"):
        probe[12_100]


def test_a_later_training_in_the_same_folder_replaces_the_shots(tmp_path):
    for _ in range(2):
        probe = rf.probe(lambda: None, every=1, path=tmp_path)
        for _ in range(3):
            probe.step()
    assert probe.steps == [1, 2, 3]
    probe = rf.probe(lambda: None, every=1, path=tmp_path, start=1)
    probe.step()
    assert probe.steps == [1, 2]


def test_only_the_first_process_runs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    probe = rf.probe(lambda: pytest.fail("ran"), every=1, path=tmp_path)
    list(rf.progress(range(2)))
    assert probe.steps == [] and probe.off is None


def test_a_distributed_model_runs_in_all_and_only_the_result_is_kept(monkeypatch, tmp_path):
    class FSDPModule(nn.Linear): ...

    net, ranks = FSDPModule(2, 2), []
    decode = attending([1.0])
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        probe = rf.probe(
            lambda rank=rank: (ranks.append(rank), decode(), net(torch.ones(2)))[0], every=1, path=tmp_path
        )
        probe.step()
    assert ranks == ["0", "1"] and probe.steps == [1]
    assert probe[0].loops == [] and "distributed over processes" in probe[0].note


@pytest.mark.parametrize(
    "wrong", [{"fn": 3}, {"every": 0}, {"every": 1.5}, {"every": True}, {"start": -1}, {"budget": "1 GB"}]
)
def test_other_arguments_are_refused(wrong):
    with pytest.raises(ParameterError):
        rf.probe(**{"fn": print, **wrong})


def test_folders_that_are_none_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFileError):
        rf.probe(print, path=tmp_path / "file")
    with pytest.raises(RunFileError, match="does not exist"):
        rf.load_probe(tmp_path / "other")
    probe = rf.probe(lambda: None, every=1)
    probe.step()
    with pytest.raises(RunFileError, match="not a folder of a probe"):
        probe.save(tmp_path)
    assert (probe.path / "step-000000001" / FILE).exists()


def test_save_replaces_the_shots_there(tmp_path):
    first, second = rf.probe(lambda: 1, every=1), rf.probe(lambda: 2, every=2)
    for probe in (first, second):
        for _ in range(4):
            probe.step()
        probe.save(tmp_path / "probe")
    again = rf.load_probe(tmp_path / "probe")
    assert again.steps == [2, 4] and again[0].result == 2
    second.save(second.path)
    assert second.steps == [2, 4]


def test_a_run_knows_the_runs_of_its_loop_at_other_training_steps():
    def twice():
        for _ in range(probe.trained):
            loop = rf.Loop(max_seq_len=2, name="count")
            loop.state.n = rf.convert_to_tensor(probe.trained)
            with loop:
                loop.state.n = loop.state.n + 1

    probe = rf.probe(twice, every=1)
    for step in (1, 2, 3):
        probe.step(loss=step)
    last = probe[-1].runs
    assert [run.training.steps() for run in last] == [[1, 2, 3]] * 3
    assert last[1].training.run(2) is probe.at(2).runs[1]
    assert last[2].training.run(1) is probe.at(1).runs[0]  # there are fewer
    assert last[0].training.measures == {"loss": 3.0}
    loaded = rf.load_probe(probe.path)[0].run()
    assert loaded.training.run(3)[0].after.n.item() == 4


WRONG = [
    ({"path": 3}, DtypeError, "`path`"),
    ({"path": b"folder"}, DtypeError, "`path`"),
    ({"path": "a\0b"}, RunFileError, "cannot be made"),
    ({"fn": None}, ParameterError, "`fn` must be a function"),
    ({"loop": 3}, ParameterError, "`loop` must be a string"),
    ({"name": 3}, ParameterError, "`name` must be a string"),
    ({"every": 10**30}, ParameterError, "`every`"),
]


@pytest.mark.parametrize(("options", "error", "words"), WRONG, ids=lambda value: str(value)[:30])
def test_wrong_arguments_are_refused_and_nothing_follows_the_training(options, error, words):
    with pytest.raises(error, match=words):
        rf.probe(**{"fn": lambda: 7, **options})
    with pytest.raises(ParameterError, match="`fn`"):
        rf.probe(path=3)
    assert not followers._probes


def test_wrong_steps_measures_and_places_leave_the_probe_as_it_was():
    probe = rf.probe(lambda: 7, every=1)
    probe.step(np.int64(2), loss=np.float32(0.5))
    for measure in ("x", None, 1j, torch.ones(3)):
        with pytest.raises(ParameterError, match="the measure 'loss' is not a number"):
            probe.step(loss=measure)
        with pytest.raises(ParameterError, match="the measure 'loss' is not a number"):
            probe.take(loss=measure)
    with pytest.raises(ParameterError, match="`step` must be a whole number"):
        probe.step(10**30)
    assert (probe.off, probe.trained, probe.steps) == (None, 2, [2])
    assert probe.at(np.int64(2)).step == probe[np.int64(0)].step == 2
    for place in ("x", 1.5, None, slice(0, 1)):
        with pytest.raises(ParameterError, match="there is no shot"):
            probe[place]
        with pytest.raises(ParameterError, match="there is no shot of training step"):
            probe.at(place)
    with pytest.raises(DtypeError, match="`path`"):
        probe.save(3)


def test_a_function_whose_error_cannot_be_read_turns_the_probe_off():
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails():
        raise Unreadable

    probe = rf.probe(fails, every=1)
    with pytest.warns(LoopWarning, match="Unreadable"):
        probe.step()
    assert probe.off.startswith("Unreadable")


def test_results_without_numbers_to_keep_are_kept_as_text():
    odd = {
        "sparse": torch.eye(2).to_sparse(),
        "meta": torch.ones(2, device="meta"),
    }
    probe = rf.probe(lambda: odd, every=1)
    probe.step()
    assert probe.off is None
    assert {type(each) for each in probe[0].result.values()} == {str}
