"""A training that is saved and loaded goes on as if it had never ended, bit for bit."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import rfnb as rf
from rfnb.errors import CheckpointError

IN, OUT, BATCH = rf.Dim(3, name="in"), rf.Dim(2, name="out"), rf.Dim(8, name="samples")
optim, sched = torch.optim, torch.optim.lr_scheduler

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW amsgrad": lambda p: optim.AdamW(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Rprop": lambda p: optim.Rprop(p),
    "LBFGS": lambda p: optim.LBFGS(p, lr=0.1, max_iter=3),
    "groups": lambda p: optim.Adam([{"params": p[:1], "lr": 0.3}, {"params": p[1:]}], lr=0.1),
    "lr is a tensor": lambda p: optim.Adam(p, lr=torch.tensor(0.1)),
}
SCHEDULES = {
    "StepLR": lambda o: sched.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: sched.MultiStepLR(o, [3, 5]),
    "ExponentialLR": lambda o: sched.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: sched.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: sched.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: sched.OneCycleLR(o, 0.2, total_steps=20),
    "CyclicLR": lambda o: sched.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
    "LinearLR": lambda o: sched.LinearLR(o, total_iters=6),
    "PolynomialLR": lambda o: sched.PolynomialLR(o, 8),
    "LambdaLR": lambda o: sched.LambdaLR(o, lambda step: 1 / (1 + step)),
    "SequentialLR": lambda o: sched.SequentialLR(o, [sched.ConstantLR(o, 0.1), sched.StepLR(o, 2)], [3]),
}


class Training:
    """A model with dropout, its optimizer, and how the rate goes."""

    def __init__(self, optimizer="Adam", schedule="StepLR"):
        self.model = rf.Sequential(rf.Linear(IN, OUT), rf.Linear(OUT, OUT))
        self.optimizer = OPTIMIZERS[optimizer](rf.torch_parameters(self.model))
        self.schedule = SCHEDULES[schedule](self.optimizer)

    def steps(self, count):
        for _ in range(count):
            x = rf.random_normal([BATCH, IN])

            def loss(x=x):
                self.optimizer.zero_grad()
                y = rf.dropout(self.model(x), 0.3, axis=OUT, on_forward=True)
                loss = rf.reduce_mean(y * y, axis=[BATCH, OUT]).raw_tensor
                loss.backward()
                return loss

            self.optimizer.step(loss)
            self.schedule.step()
        return [p.raw_tensor.detach().clone() for p in self.model.parameters()]

    def parts(self):
        return {"optimizer": self.optimizer, "schedule": self.schedule}


def state(owner):
    return copy.deepcopy(owner.state_dict())


def goes_on(tmp_path, *names):
    rf.set_random_seed(1)
    training = Training(*names)
    training.steps(4)
    path = rf.save(training.model, tmp_path / "x.safetensors", training={**training.parts(), "step": 4})
    wanted = training.steps(4)

    rf.set_random_seed(2)
    other = Training(*names)
    other.steps(1)
    report = rf.load(path, other.model, training=other.parts())
    assert report.training == {"step": 4}
    found = other.steps(4)
    return all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True)), training, other


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_go_on(tmp_path, optimizer):
    same, *_ = goes_on(tmp_path, optimizer)
    assert same


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_go_on(tmp_path, schedule):
    same, training, other = goes_on(tmp_path, "momentum", schedule)
    assert same
    assert training.schedule.get_last_lr() == other.schedule.get_last_lr()


@pytest.fixture
def saved(tmp_path):
    training = Training()
    training.steps(2)
    plain = {
        "step": 4,
        "order": torch.tensor([2, 0, 1]),
        "counts": np.arange(3),
        "best": {"loss": 0.5, "at": (1, 2)},
        "nothing": None,
    }
    return rf.save(training.model, tmp_path / "x.safetensors", training={**training.parts(), **plain})


def test_plain_values_are_in_the_report(saved):
    found = rf.load(saved, Training().model).training
    assert found.keys() == {"step", "order", "counts", "best", "nothing"}
    assert isinstance(found["order"], torch.Tensor) and found["order"].tolist() == [2, 0, 1]
    assert isinstance(found["counts"], np.ndarray) and found["counts"].tolist() == [0, 1, 2]
    assert found["best"] == {"loss": 0.5, "at": (1, 2)}


def test_without_training_nothing_but_the_module_changes(saved):
    other = Training()
    before = rf.get_random_state()
    report = rf.load(saved, other.model)
    assert rf.get_random_state() == before
    assert report.complete


def test_entries_of_the_training_are_no_parameters(saved):
    from safetensors.torch import load_file

    names = [name for name in load_file(saved) if not name.startswith("training:")]
    assert sorted(names) == sorted(name for name, _ in Training().model.named_parameters())


def smaller():
    other = Training()
    other.optimizer = OPTIMIZERS["Adam"](rf.torch_parameters(other.model)[:-1])
    other.schedule = SCHEDULES["StepLR"](other.optimizer)
    return other, {"optimizer": other.optimizer}


def turned():
    other = Training()
    other.optimizer = OPTIMIZERS["Adam"](rf.torch_parameters(other.model)[::-1])
    other.schedule = SCHEDULES["StepLR"](other.optimizer)
    return other, {"optimizer": other.optimizer}


def other_class():
    other = Training("SGD")
    return other, {"optimizer": other.optimizer}


def unknown():
    other = Training()
    return other, {"optimiser": other.optimizer}


def plain():
    other = Training()
    return other, {"step": 3}


def no_value():
    other = Training()
    return other, {"step": other.optimizer}


def no_owner():
    return Training(), {"schedule": object()}


def broken():
    other = Training()

    def load_state_dict(_):
        raise KeyError("T_max")

    other.schedule.load_state_dict = load_state_dict
    return other, other.parts()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (smaller, r"(?s)saved for different parameters.*3 parameters\n.*4 parameters; number 3 is 1\.bias"),
        (turned, r"(?s)in a different order.*number 0 is 1\.bias.*number 0 is 0\.weight"),
        (other_class, r"(?s)saved from a different class.*SGD.*Adam"),
        (unknown, r"(?s)'optimiser' cannot be set.*optimizer, schedule"),
        (plain, r"(?s)'step' cannot be set.*rf.load\(…\).training\['step'\] is its value"),
        (no_value, r"'step' cannot be set"),
        (no_owner, r"'schedule' cannot be set"),
        (broken, r"(?s)'schedule' does not fit.*T_max"),
    ],
)
def test_what_does_not_fit_changes_nothing(saved, make, words):
    other, parts = make()
    other.steps(1)
    before = [p.raw_tensor.clone() for p in other.model.parameters()], repr(state(other.optimizer))
    random = rf.get_random_state()
    with pytest.raises(CheckpointError, match=words):
        rf.load(saved, other.model, training=parts)
    after = [p.raw_tensor for p in other.model.parameters()], repr(state(other.optimizer))
    assert all(torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert before[1] == after[1]
    assert rf.get_random_state() == random


class Counter:
    """Takes seven, and says then that it cannot."""

    def __init__(self, count):
        self.count = count

    def state_dict(self):
        return vars(self)

    def load_state_dict(self, state):
        vars(self).update(state)
        if self.count == 7:
            raise ValueError("not seven")


def test_what_was_half_set_is_as_it_was(tmp_path):
    model, counter = Training().model, Counter(3)
    path = rf.save(model, tmp_path / "x.safetensors", training={"counter": Counter(7)})
    with pytest.raises(CheckpointError, match="not seven"):
        rf.load(path, model, training={"counter": counter})
    assert counter.count == 3


def test_renamed_parameters_are_known_to_the_optimizer(saved):
    other = rf.Module()
    other.model = Training().model
    optimizer = OPTIMIZERS["Adam"](rf.torch_parameters(other))
    assert rf.load(saved, other, rename={"": "model"}, training={"optimizer": optimizer}).complete
    assert optimizer.state_dict()["state"][0]["step"] == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts.pop("random numbers"),
        lambda parts: parts.update(step=3),
        lambda parts: parts["optimizer"].pop("state"),
        lambda parts: parts["optimizer"].update(names=5),
        lambda parts: parts["optimizer"].update(names=[[["weight"]]]),
    ],
)
def test_a_damaged_state_of_training_is_refused(saved, tmp_path, change):
    with safe_open(saved, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    training = json.loads(metadata["training"])
    change(training["values"])
    path = tmp_path / "damaged.safetensors"
    save_file(tensors, path, {**metadata, "training": json.dumps(training)})
    with pytest.raises(CheckpointError, match="the training in the file cannot be read"):
        rf.load(path, Training().model)


def test_a_file_without_training(tmp_path):
    training = Training()
    path = rf.save(training.model, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="no training"):
        rf.load(path, training.model, training=training.parts())


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"x": object()}, r"training:x\.value is not plain data"),
        ({"x": rf.Linear(IN, OUT)}, "x is a module"),
        ({"random numbers": 3}, "always saved"),
    ],
)
def test_what_cannot_be_saved(tmp_path, part, words):
    with pytest.raises(CheckpointError, match=words):
        rf.save(Training().model, tmp_path / "x.safetensors", training=part)
    assert not list(tmp_path.iterdir())
