"""Batches with a bar and curves, and the norms of gradients."""

from __future__ import annotations

import itertools
import json
import math
import re
import weakref
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.training import progress as progress_file
from rfnb.display.training.history import MOST, UNREAD, BinnedCurve
from rfnb.errors import RfError, ViewError

BATCH, TIME = rf.Dim(2, name="batch"), rf.Dim(None, name="time")
FEAT, OUT = rf.Dim(3, name="feat"), rf.Dim(2, name="out")


def ragged(*rows):
    return rf.convert_to_tensor([list(row) for row in rows], dims=[rf.batch_dim, TIME])


class Shown:
    """Stands in for a notebook's display."""

    def __init__(self, monkeypatch):
        import IPython.display

        self.bundles = []
        monkeypatch.setattr(progress_file, "in_notebook", lambda: True)
        self.displays, self.interrupts = 0, False
        monkeypatch.setattr(IPython.display, "DisplayHandle", lambda: self)
        monkeypatch.setattr(IPython.display, "display", lambda bar, **options: self.bundles.append(bar) or self)

    def display(self, bundle, **options):
        self.bundles.append(bundle)
        self.displays += 1
        if self.interrupts:
            raise KeyboardInterrupt

    def update(self, bundle, **options):
        self.bundles.append(bundle)


@pytest.fixture
def shown(monkeypatch):
    return Shown(monkeypatch)


def test_an_interrupt_while_the_plot_is_shown_makes_no_second_plot(shown):
    shown.interrupts = True
    progress = rf.progress(range(3))
    with pytest.raises(KeyboardInterrupt):
        for _ in progress:
            progress.report(loss=1.0)
    assert (shown.displays, len(shown.bundles)) == (1, 2) and progress.stopped


def test_what_is_reported_is_the_history():
    progress = rf.progress(["a", "b"])
    for batch, loss in zip(progress, (ragged([1.0, 2.0], [6.0]), torch.tensor([4.0])), strict=True):
        progress.report(loss=loss, letter=ord(batch))
        progress.report(letter=0)
    assert progress.history == [
        {"epoch": 1, "step": 0, "loss": 3.0, "letter": 0.0},
        {"epoch": 1, "step": 1, "loss": 4.0, "letter": 0.0},
    ]
    assert [*progress.table()] == progress.history
    assert {name: len(curve.bins) for name, curve in progress.curves.items()} == {"loss": 2, "letter": 2}


def test_few_tensors_wait_to_be_read():
    progress = rf.progress(range(3 * UNREAD), plot=False)
    for _ in progress:
        progress.report(loss=torch.zeros(()))  # not the last of this step
        progress.report(loss=torch.ones(()), other=torch.ones(()))
        assert len(progress._history._unread) <= UNREAD + 1
    assert isinstance(progress._history._rows[0]["loss"], float)
    for curve in progress.curves.values():
        assert (curve.lowest[1], curve.last) == (1.0, (3 * UNREAD - 1, 1.0))


def test_marked_losses_are_reported_once_each():
    rf.init_train_step_run_ctx()
    rf.convert_to_tensor(9.0).mark_as_loss("old")
    progress = rf.progress(range(3))
    for i in progress:
        if i != 1:
            rf.init_train_step_run_ctx()
            ragged([1.0 + i, 3.0], [5.0]).mark_as_loss("ce", scale=0.5)
            rf.convert_to_tensor(7.0).mark_as_loss("error", as_error=True)
        if i == 2:
            progress.report(error=0)
    assert progress.history == [
        {"epoch": 1, "step": 0, "ce": 3.0, "error": 7.0},
        {"epoch": 1, "step": 2, "error": 0.0, "ce": pytest.approx(11 / 3)},
    ]


def test_losses_of_a_context_that_goes_on():
    progress = rf.progress(range(2))
    for i in progress:
        rf.convert_to_tensor(float(i)).mark_as_loss("ce")
    assert [row["ce"] for row in progress.history] == [0.0, 1.0]


def test_before_the_loop_it_is_the_first_step():
    progress = rf.progress(range(1))
    progress.report(start=1.0)
    assert progress.history == [{"epoch": 0, "step": 0, "start": 1.0}]


def test_what_is_reported_counts_more_than_what_is_marked_in_its_step():
    for i in (progress := rf.progress(range(2))):
        rf.init_train_step_run_ctx()
        rf.convert_to_tensor(float(i)).mark_as_loss("ce")
        if i == 0:
            progress.report(ce=5.0)
    assert [row["ce"] for row in progress.history] == [5.0, 1.0]


def test_losses_from_before_the_loop_are_not_of_it():
    rf.init_train_step_run_ctx()
    rf.ones([]).mark_as_loss("before")
    for _ in (progress := rf.progress(range(1))):
        rf.ones([]).mark_as_loss("inside")
    assert progress.history == [{"epoch": 1, "step": 0, "inside": 1.0}]


@pytest.mark.parametrize("plot", ["loss", ["loss", "nothing"]])
def test_the_measures_that_are_drawn(plot):
    for i in (progress := rf.progress(range(2), plot=plot)):
        progress.report(loss=i, other=i)
    assert list(progress.curves) == ["loss"]


def test_no_graph_is_kept():
    weight = torch.ones(3, requires_grad=True)
    progress = rf.progress(range(1))
    for _ in progress:
        raw = weight * 3
        alive = weakref.ref(raw)
        loss = rf.convert_to_tensor(raw, dims=[FEAT])
        progress.report(loss=loss, marked=rf.Loss(loss, "marked"), one=raw[0])
        del loss
        del raw
        assert alive() is None
    assert progress.history == [{"epoch": 1, "step": 0, "loss": 3.0, "marked": 3.0, "one": 3.0}]


def test_epochs_go_on():
    progress = rf.progress(range(2), name="toy")
    for _ in range(2):
        for _ in progress:
            progress.report(loss=1.0)
        progress.report(dev=2.0)
    assert [(row["epoch"], row["step"], row.get("dev")) for row in progress.history] == [
        (1, 0, None), (1, 1, 2.0), (2, 2, None), (2, 3, 2.0),
    ]  # fmt: skip
    assert repr(progress).startswith("toy  4 steps, epoch 2\n  loss  1")
    assert [row["dev"] for row in progress.table()] == [None, 2.0, None, 2.0]


@pytest.mark.parametrize("what", [1, True, np.float32(1.0), np.ones((1, 1)), torch.ones(1, 1), Fraction(1)])
def test_whatever_is_one_number_is_a_float(what):
    for _ in (progress := rf.progress(range(1))):
        progress.report(loss=what)
    assert repr(progress.history[0]["loss"]) == "1.0"


@pytest.mark.parametrize("what", [torch.ones(2), "words", None, [1.0, 2.0]])
def test_more_than_one_number_is_refused(what):
    progress = rf.progress(range(1))
    for _ in progress:
        with pytest.raises(ViewError, match="report: 'loss' is not one number"):
            progress.report(loss=what)
    assert progress.history == []


def test_an_interrupt_keeps_what_there_is(shown):
    progress = rf.progress(range(9))
    with pytest.raises(KeyboardInterrupt):
        for i in progress:
            progress.report(loss=i)
            if i == 4:
                raise KeyboardInterrupt
    assert len(progress.history) == 5
    assert progress.step == 4
    assert "5 of 9 steps, stopped" in shown.bundles[-1]["text/html"]
    assert "5 of 9 steps, stopped" in repr(progress)


@pytest.mark.parametrize(("cost", "drawings"), [(0.0, 14), (0.01, 4)])
def test_the_plot_is_updated_in_place_after_a_pause(shown, monkeypatch, cost, drawings):
    """Five seconds: one every 0.4 seconds, or every two seconds if one takes 0.01; and one at the end."""
    progress = rf.progress(range(500), plot=["loss"])
    spent = itertools.count(0, cost).__next__
    clock = SimpleNamespace(monotonic=lambda: 100 + progress.step / 100, thread_time=spent)
    monkeypatch.setattr(progress_file, "time", clock)
    for i in progress:
        progress.report(loss=1 / (i + 1), other=i)
    assert len(shown.bundles) == drawings
    assert "data:image/svg+xml" in shown.bundles[-1]["text/html"]
    assert "other" not in shown.bundles[-1]["text/plain"]
    progress.report(loss=5.0)
    assert len(shown.bundles) == drawings + 1


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_many_processes_one_shows(shown, monkeypatch, capsys, rank):
    monkeypatch.setenv("RANK", rank)
    progress = rf.progress(range(2))
    for i in progress:
        progress.report(loss=i)
    assert bool(shown.bundles) == bool(capsys.readouterr().err) == (rank == "0")
    assert len(progress.history) == 2


def test_what_cannot_be_drawn_stops_no_training(shown, monkeypatch):
    monkeypatch.setattr(progress_file.DisplayPlace, "show", lambda self, bundle: 1 / 0)
    progress = rf.progress(range(2))
    for i in progress:
        progress.report(loss=i)
    assert "not drawn: ZeroDivisionError" in repr(progress)


def test_without_a_length():
    progress = rf.progress(iter([1.0, 2.0]))
    for x in progress:
        progress.report(loss=x)
    assert repr(progress).startswith("2 steps\n")
    assert len(rf.progress(iter([]), total=7)) == 7


def test_numbers_that_are_not_finite_are_told():
    progress = rf.progress(range(4))
    for value in progress:
        progress.report(loss=math.nan if value % 2 else 1.0)
    assert "! not finite at step 1 and 1 more" in repr(progress)
    json.dumps(rf.show(progress).data, allow_nan=False)
    assert "not finite at step 1" in rf.show(progress).html


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0], [math.nan], [1e-9, 1e9], [-1.0, 3.0], range(10_000), []])
def test_any_values_are_drawn(values):
    progress = rf.progress(values)
    for value in progress:
        progress.report(loss=value)
    view = rf.show(progress)
    assert "no view" not in view.text and "no view" not in view.html
    assert len(view.html) < 40_000
    assert len(progress.history) == len(values)
    for curve in view.data["curves"]:
        assert not curve["steps"] or str(progress_file.plot(curve, "#000000")).startswith("<svg")


def test_the_figure():
    progress = rf.progress(range(30))
    for i in progress:
        progress.report(loss=1 / (i + 1), **{"a $ b": i})
    figure = progress.figure()
    assert [axes.get_title() for axes in figure.axes] == ["loss", r"a \$ b"]
    assert figure._repr_png_().startswith(b"\x89PNG")  # a notebook shows it, without pyplot


def test_of_few_values_there_is_no_running_mean():
    """A measure of each epoch beside one of each step."""
    progress = rf.progress(range(100))
    for epoch in range(2):
        for i in progress:
            progress.report(loss=i)
        progress.report(dev_loss=1.0 - epoch / 2)
    loss, dev = rf.show(progress).data["curves"]
    assert dev["smooth"] == [1.0, 0.5] and loss["smooth"][-1] < 99


def test_one_value_is_a_dot():
    progress = rf.progress(range(60))
    for i in progress:
        if i == 59:
            progress.report(loss=3.1)
    (curve,) = rf.show(progress).data["curves"]
    picture = str(progress_file.plot(curve, "#000000"))
    (dot,) = set(re.findall(r'd="M(\S+)L\1"', picture))
    (tick,) = re.findall(r'<text x="(\S+)"[^>]*>59<', picture)
    assert dot.partition(",")[0] == tick  # the step is below it
    assert not re.search(">(58|60)<", picture)


@pytest.mark.parametrize("plotted", [True, False])
def test_the_bar_of_a_notebook_leaves_no_widget(shown, monkeypatch, plotted):
    monkeypatch.setattr("tqdm.auto.tqdm", pytest.importorskip("tqdm.notebook").tqdm)
    monkeypatch.setattr("IPython.get_ipython", object)  # a kernel
    for i in (progress := rf.progress(range(3), plot=plotted)):
        progress.report(loss=i)
    widget, *_, last = shown.bundles
    assert hasattr(widget, "children")
    assert last == {} if plotted else "3/3" in last["text/plain"]


def test_a_long_curve_keeps_its_extremes():
    curve = BinnedCurve()
    for step in range(5000):
        curve.add(step, {333: 9.0, 777: -9.0}.get(step % 2000, step % 7))
    assert len(curve.bins) < MOST
    *whole, last = curve.bins
    assert len({part.count for part in whole}) == 1 and sum(part.count for part in curve.bins) == 5000
    assert [part.step + 1 for part in whole] == [(i + 1) * whole[0].count for i in range(len(whole))]
    assert last.step == 4999
    assert curve.lowest == (777, -9.0) and min(part.low for part in curve.bins) == -9.0
    assert curve.highest == (333, 9.0) and max(part.high for part in curve.bins) == 9.0
    assert curve.smoothed(500)[-1] == pytest.approx(3.0, abs=0.3)


def test_a_running_mean_of_a_long_curve_is_that_over_its_steps():
    curve = BinnedCurve()
    for step in range(4000):
        curve.add(step, float(step >= 2000))
    means = {part.step: mean for part, mean in zip(curve.bins, curve.smoothed(500), strict=True)}
    near = min(means, key=lambda step: abs(step - 2500))
    assert means[near] == pytest.approx(1 - math.exp(-2 * (near - 2000) / 500), abs=0.02)


# -- norms of gradients


@pytest.fixture
def model():
    model = rf.Sequential(rf.Linear(FEAT, OUT), rf.Linear(OUT, OUT), rf.Linear(OUT, OUT))
    x = rf.convert_to_tensor(torch.randn(2, 3), dims=[BATCH, FEAT])
    rf.reduce_sum(rf.square(model[1](model[0](x))), axis=[BATCH, OUT]).backward()
    return model


def test_norms_are_those_of_torch(model):
    norms = rf.gradient_norms(model)
    assert norms.total == pytest.approx(float(torch.nn.utils.clip_grad_norm_(rf.torch_parameters(model), 1e9)))
    assert norms.parameters["0.weight"] == pytest.approx(float(model[0].weight.raw_tensor.grad.norm()))
    assert norms.modules[""] == norms.total
    assert norms.modules["0"] == pytest.approx(math.hypot(norms.parameters["0.weight"], norms.parameters["0.bias"]))
    assert norms.bad == {"2.weight": "no gradient", "2.bias": "no gradient"}


def test_what_is_odd_is_flagged(model):
    grads = [parameter.raw_tensor for parameter in model.parameters()]
    grads[0].grad[0, 0] = math.nan
    grads[1].grad[0] = math.inf
    grads[2].grad.zero_()
    model[2].weight.trainable = False
    norms = rf.gradient_norms(model)
    assert norms.bad == {"0.weight": "NaN", "0.bias": "Inf", "1.weight": "zero", "2.bias": "no gradient"}
    view = rf.show(norms)
    for word in ("NaN", "Inf", "zero", "no gradient"):
        assert f"! {word}" in view.text and word in view.html
    json.dumps(view.data, allow_nan=False)
    assert {row["name"] for row in view.table()} >= {"0", "0.weight", "2.bias"}


def test_of_a_module_of_torch_and_of_one_without_gradients():
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2))
    assert set(rf.gradient_norms(plain).bad.values()) == {"no gradient"}
    plain(torch.ones(1, 2)).sum().backward()
    assert rf.gradient_norms(plain).total > 0
    assert rf.gradient_norms(rf.Sequential()).total == 0
    assert "no view" not in rf.show(rf.gradient_norms(rf.Sequential())).html


def test_a_large_model_has_room_for_what_is_odd():
    wide = rf.ModuleList(rf.Sequential(rf.Linear(FEAT, OUT), rf.Linear(OUT, OUT)) for _ in range(40))
    for parameter in wide.parameters():
        parameter.raw_tensor.grad = torch.ones_like(parameter.raw_tensor)
    wide[30][1].bias.raw_tensor.grad = None
    norms = rf.gradient_norms(wide)
    assert norms.modules["3"] == norms.modules["39"]  # which is not below "3"
    view = rf.show(norms)
    assert len(view.text.splitlines()) < 70
    assert "no gradient: 30.1.bias" in view.text
    assert len(view.table()) == 40 * 7


def test_low_precision_does_not_overflow():
    layer = rf.Linear(FEAT, OUT).to(dtype="float16")
    layer.weight.raw_tensor.grad = torch.full((3, 2), 6e4, dtype=torch.float16)
    assert rf.gradient_norms(layer).parameters["weight"] == pytest.approx(6e4 * math.sqrt(6), rel=1e-2)


# -- groups


def test_groups_of_weight_decay():
    model = rf.Sequential(rf.Embedding(FEAT, OUT), rf.Linear(OUT, OUT), rf.LayerNorm(OUT), rf.Linear(OUT, OUT))
    model[3].weight.weight_decay = 0.5
    model[3].bias.trainable = False
    shared = rf.Sequential(model, model[1])
    groups = {group["weight_decay"]: group["params"] for group in rf.param_groups(shared, weight_decay=0.1)}
    assert [raw is model[1].weight.raw_tensor for raw in groups[0.1]] == [True]
    assert [raw is model[3].weight.raw_tensor for raw in groups[0.5]] == [True]
    assert len(groups[0.0]) == 4
    torch.optim.AdamW(rf.param_groups(model, weight_decay=0.1)).step()


def test_a_name_does_nothing_to_the_terminal(capsys):
    """It may come from a file, like that of a loss."""
    progress = rf.progress([1], name="\x1b[31mred\nline\ud800", plot=False)
    for _ in progress:
        progress.report(**{"\x1b]8;;x\x07": 1.0})
    shown = capsys.readouterr().err
    assert "␛[31mred line" in shown and "\x1b]8" not in shown and "\x1b[31m" not in shown
    shown.encode()


@pytest.mark.parametrize(
    ("batches", "options"),
    [(3, {}), (range(3), {"name": 3}), (range(3), {"total": "x"}), (range(3), {"total": -1}), ([], {"smooth": "x"})],
)
def test_wrong_arguments_are_named_before_the_first_batch(batches, options):
    with pytest.raises(RfError, match=f"progress: `{next(iter(options), 'batches')}`"):
        rf.progress(batches, **options)
