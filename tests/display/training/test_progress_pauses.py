"""A training loop over `rf.progress` is recorded and pauses, as other loops of plain Python."""

from __future__ import annotations

import sys

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopWarning
from rfnb.trace.pause import Resume
from tests.trace.holding import no_pauses as no_pauses, user


@pytest.fixture(autouse=True)
def no_runs(no_pauses):
    yield
    rf.runs.clear()


def train(bad: int | None, steps: int = 6, pause_at: int | None = None):
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batches = [(torch.randn(4, 3) * (float("nan") if i == bad else 1), torch.randn(4, 1)) for i in range(steps)]
    losses = []
    for i, (x, y) in enumerate(rf.progress(batches, plot=False)):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if i == pause_at:
            rf.pause()
    return losses


def test_a_condition_sees_the_variables_of_the_code_that_runs_the_loop():
    found = []

    def look(paused):
        at = paused.run[paused.step]
        names = {value.name for value in at.values()}
        found.append((paused.step, paused.run.name, at.i.item(), at.x.raw_tensor.isnan().all().item(), names))
        line = next(value.line for value in at.values() if value.name == "loss")
        assert "mean()" in paused.run.source.lines[line - paused.run.source.first_line]
        return Resume(mute=True)

    rf.pause_when(rf.when.not_finite("loss"))
    with user(look) as seen:
        train(bad=3)
    assert seen == [(3, "loss is not finite")]
    assert found == [(3, "training", 3, True, {"i", "x", "y", "loss"})]


def test_all_steps_are_kept_and_the_loop_goes_on_step_by_step():
    kept = []

    def look(paused):
        kept.append([step for step in range(paused.step + 1) if paused.run[step].values()])
        rf.pauses.clear()
        return Resume(until=paused.step + 1)

    rf.pause_when("loss >= 0", loop="training")
    with user(look) as seen:
        train(bad=None)
    assert [step for step, _ in seen] == list(range(6))
    assert kept[-1] == [0, 1, 2, 3, 4, 5]
    assert kept[0] == [0]


def test_training_is_the_same_with_and_without_pauses():
    undisturbed = train(bad=None)
    rf.pause_when("loss > 0.5")
    with user():
        assert train(bad=None, pause_at=2) == undisturbed


def test_without_a_panel_the_variables_are_written():
    rf.pause_when(rf.when.not_finite("loss"))
    with pytest.warns(LoopWarning, match="training was not paused after step 2"):
        train(bad=2)
    [path] = rf.options.pause_folder.glob("*.rfrun")
    assert rf.load_run(path)[2].loss.raw_tensor.isnan()


def test_searches_look_at_all_steps():
    found = []

    def look(paused):
        run = paused.run
        found.append((run.find(rf.when.not_finite("loss")), run.next(rf.when.changes("loss")), run.find("i >= 0")))
        return Resume(mute=True)

    rf.pause_when(rf.when.not_finite("loss"))
    with user(look):
        train(bad=5)
    assert found == [([5], 1, [0, 1, 2, 3, 4, 5])]


def test_the_progress_of_a_paused_training_is_shown(capsys):
    shown = []

    def look(paused):
        shown.append(capsys.readouterr().err)
        return Resume(mute=True)

    rf.pause_when(rf.when.not_finite("loss"))
    with user(look):
        train(bad=3)
    assert "3/6" in shown[0] and "6/6" not in shown[0]


def test_in_a_script_nothing_is_recorded():
    tracing = []
    for _ in rf.progress(range(3), plot=False):
        tracing.append(sys.gettrace())
    assert tracing == [None] * 3 and len(rf.runs) == 0


def test_where_loops_are_recorded_each_epoch_is_a_run():
    undisturbed = train(bad=None)
    with rf.recording("last"):
        assert train(bad=None) == undisturbed
        progress = rf.progress(range(3), name="epochs", plot=False)
        for _epoch in range(2):
            for n in progress:
                double = 2 * n
    assert rf.runs["training"].steps == 6
    assert [[at.double.item() for at in run] for run in rf.runs if run.name == "epochs"] == [[0, 2, double]] * 2


def test_a_loop_in_a_condition_of_another_name_is_not_recorded():
    rf.pause_when("n > 1", loop="other")
    for _n in rf.progress(range(3), plot=False):
        assert sys.gettrace() is None
    assert len(rf.runs) == 0


def test_a_progress_that_is_no_loop_of_the_user_is_an_iterable_as_ever():
    rf.pause_when("n > 1")
    with rf.recording("last"):
        assert [*rf.progress(range(3), plot=False)] == [0, 1, 2]
        batches = iter(rf.progress("ab", plot=False))
        assert next(batches) == "a"
    assert sys.gettrace() is None


def test_a_loop_that_is_recorded_anyway_has_the_name_of_its_progress():
    rf.pause_when("n > 1", loop="tuning")
    with rf.record_loops():
        for i, n in enumerate(rf.progress(range(3), name="fine-tuning", plot=False)):
            double = i + n
    assert [run.name for run in rf.runs] == ["fine-tuning"] and rf.runs[-1][2].double.item() == double
    assert rf.pauses.ran == {"fine-tuning"}
