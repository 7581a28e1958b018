"""Callbacks for trainers of other libraries, in real trainings where these are installed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from IPython.core.events import EventManager

import rfnb as rf
from rfnb.errors import ParameterError
from rfnb.trace.pause import Resume


class Model(torch.nn.Module):
    """One that gives its loss, as those of Hugging Face do."""

    def __init__(self, last=None):
        super().__init__()
        self.linear, self.calls, self.last = torch.nn.Linear(2, 1), 0, last

    def forward(self, x):
        self.calls += 1
        loss = self.linear(x).square().mean()
        return {"loss": loss * float("nan") if self.calls == self.last else loss}


@pytest.fixture(autouse=True)
def no_runs():
    yield
    rf.runs.clear()


DATA = [{"x": torch.ones(2) * n} for n in range(24)]


def trained(folder, callback, model, **options):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    arguments = transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=2, num_train_epochs=2, logging_steps=3, report_to=[], use_cpu=True,
        disable_tqdm=True, save_strategy="no", **options,
    )  # fmt: skip
    trainer = transformers.Trainer(model, arguments, train_dataset=DATA, callbacks=[callback])
    trainer.train()
    return trainer


def test_a_trainer_of_transformers_has_curves_and_probes(tmp_path):
    pytest.importorskip("transformers"), pytest.importorskip("accelerate")  # before a probe that others would step
    callback, model = rf.integrations.TransformersCallback(every=4), Model()
    probe = rf.probe(lambda: model.calls, every=5)
    trainer = trained(tmp_path, callback, model)
    probe.stop()
    progress = callback.progress
    assert (progress.step, len(progress), progress.stopped) == (23, 24, False)
    losses = {row["step"]: row["loss"] for row in progress.history if "loss" in row}
    assert losses == {row["step"] - 1: row["loss"] for row in trainer.state.log_history if "loss" in row}
    assert [row["step"] for row in progress.history if "clipped_gradient_norm" in row] == [0, 4, 8, 12, 16, 20]
    assert probe.steps == [5, 10, 15, 20]
    assert [shot.result for shot in probe] == [5, 10, 15, 20]


def test_gradients_that_are_not_finite_are_told_once(tmp_path):
    pytest.importorskip("transformers")
    words = "gradients of 2 parameters are not finite at step 4: linear.weight: NaN"
    with pytest.warns(UserWarning, match=words) as told:
        trained(tmp_path, rf.integrations.TransformersCallback(every=1), Model(last=5), max_grad_norm=0.0)
    assert len([each for each in told if "not finite" in str(each.message)]) == 1


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning")


def trained_by_lightning(lightning, folder, callback, last=None):

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def training_step(self, batch, index):
            loss = self.linear(batch["x"]).square().mean()
            self.log("loss", loss)
            if last == "raises" and index == 3:
                raise ValueError
            return loss * float("nan") if last == index else loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[callback], logger=False, default_root_dir=folder,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, accumulate_grad_batches=2,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(DATA, batch_size=4))


OF_LIGHTNING = pytest.mark.filterwarnings("ignore::FutureWarning")  # about torch


@OF_LIGHTNING
def test_a_trainer_of_lightning_has_curves(lightning, tmp_path):
    callback = rf.integrations.LightningCallback(every=2)
    trained_by_lightning(lightning, tmp_path, callback)
    progress = callback.progress
    assert (progress.step, len(progress), progress.stopped) == (5, 6, False)
    assert {row["step"] for row in progress.history if "loss" in row} == set(range(6))
    assert {row["step"] for row in progress.history if "gradient_norm" in row} == {0, 2, 4}


@OF_LIGHTNING
def test_a_trainer_of_lightning_pauses_before_the_step_of_the_optimizer(lightning, tmp_path, monkeypatch):
    callback, held = rf.integrations.LightningCallback(every=None), []

    def hold(paused):
        step = paused.run[paused.step]
        held.append((paused.step, step.batch["x"].shape, step.loss.item(), sorted(step.gradients)))
        return Resume()

    monkeypatch.setattr("rfnb.trace.plain.pause.hold", hold)
    pause = rf.pause_when(rf.when.not_finite("loss"))
    try:
        trained_by_lightning(lightning, tmp_path, callback, last=3)
    finally:
        pause.remove()
    step, shape, loss, names = held[0]
    assert (step, shape, names) == (1, (4, 2), ["linear.bias", "linear.weight"])
    assert math.isnan(loss)


@OF_LIGHTNING
def test_the_bar_of_a_trainer_of_lightning_ends_with_an_error(lightning, tmp_path):
    callback = rf.integrations.LightningCallback()
    with pytest.raises(ValueError):
        trained_by_lightning(lightning, tmp_path, callback, last="raises")
    assert (callback.progress.running, callback.progress.stopped, callback.progress.step) == (False, True, 1)


def test_a_trainer_pauses_before_the_step_of_the_optimizer(tmp_path, monkeypatch):
    callback, model, held = rf.integrations.TransformersCallback(every=None), Model(last=5), []

    def hold(paused):
        step = paused.run[paused.step]
        weight = model.linear.weight
        held.append((paused.step, step.batch, step.loss.item(), step.gradients, weight.isfinite().all().item()))
        return Resume()

    monkeypatch.setattr("rfnb.trace.plain.pause.hold", hold)
    pause = rf.pause_when(rf.when.not_finite("loss"))
    try:
        trained(tmp_path, callback, model)
    finally:
        pause.remove()
    assert rf.runs["training"].steps == 24
    [(step, batch, loss, gradients, is_before)] = held[:1]
    assert (step, list(batch), batch["x"].shape, is_before) == (4, ["x"], (2, 2), True)
    assert math.isnan(loss) and gradients["linear.weight"].isnan().all()
    assert not model.linear.weight.isfinite().all()  # after it
    assert not model._forward_hooks
    assert callback.progress.step == 23


def test_without_a_condition_nothing_is_recorded(tmp_path):
    callback = rf.integrations.TransformersCallback()
    with rf.recording("last"):
        trained(tmp_path, callback, Model())
    assert "training" not in rf.runs and callback._training.batch is None


class Interrupted(Model):
    """One that is interrupted at its last call."""

    def forward(self, x):
        loss = super().forward(x)
        if self.calls == self.last:
            raise KeyboardInterrupt
        return loss


@pytest.mark.parametrize("by", ["the cell", "the next training"])
def test_the_bar_of_an_interrupted_training_stays_where_it_is(tmp_path, monkeypatch, by):
    shell = SimpleNamespace(events=EventManager(None, ["post_run_cell"])) if by == "the cell" else None
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    callback = rf.integrations.TransformersCallback()
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callback, Interrupted(last=5))
    first = callback.progress
    if shell is None:
        trained(tmp_path, callback, Model())
        assert not callback.progress.stopped
    else:
        assert first.running
        shell.events.trigger("post_run_cell", None)
        assert shell.events.callbacks["post_run_cell"] == []
    assert (first.running, first.stopped, first.step) == (False, True, 4)


@pytest.mark.parametrize("every", [0, True, 1.5])
def test_wrong_arguments_are_named(every):
    pytest.importorskip("transformers")
    with pytest.raises(ParameterError, match="`every` is not a number of steps"):
        rf.integrations.TransformersCallback(every=every)


def test_completion_has_the_callbacks():
    assert dir(rf.integrations) == ["LightningCallback", "TransformersCallback"]
