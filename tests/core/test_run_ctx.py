"""Losses and outputs that a model marks in a step."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, TensorDict, batch_dim
from rfnb.core.run_ctx import entered

RAW = torch.tensor([[1.0, 2.0, 4.0], [8.0, torch.nan, torch.nan]])


@pytest.fixture
def time():
    return Dim(None, name="time")


@pytest.fixture
def x(time):
    rf.init_train_step_run_ctx(step=7, epoch=2)
    rf.convert_to_tensor(RAW, dims=[batch_dim, time], lengths=[3, 1])
    x = rf.convert_to_tensor(RAW, dims=[batch_dim, time])
    rf.set_requires_gradient(x)
    return x


@pytest.fixture(autouse=True)
def afterwards():
    yield
    rf.init_forward_step_run_ctx()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 15.0),
        ({"scale": 2.0}, 30.0),
        ({"use_normalized_loss": True}, 15 / 4),
        ({"use_normalized_loss": True, "scale": 0.5}, 15 / 8),
        ({"use_flatten_frames": False}, 15.0),
        ({"custom_inv_norm_factor": "five"}, 15.0),
        ({"custom_inv_norm_factor": "five", "use_normalized_loss": True}, 3.0),
        ({"custom_inv_norm_factor": "lengths", "use_normalized_loss": True}, 15 / 4),
    ],
)
def test_only_valid_frames_enter_the_total(x, time, options, expected):
    factors = {"five": rf.convert_to_tensor(5), "lengths": time.get_size_tensor()}
    options = {name: factors.get(value, value) for name, value in options.items()}
    x.mark_as_loss("loss", **options)
    total = rf.get_run_ctx().total_loss()
    assert (total.dims, float(total)) == ((), expected)
    total.raw_tensor.backward()
    weights = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]) * expected / 15
    torch.testing.assert_close(x.raw_tensor.grad, weights)


def test_a_loss_knows_its_sum_and_mean(x):
    x.mark_as_loss("loss", use_flatten_frames=False)
    loss = rf.get_run_ctx().losses["loss"]
    assert isinstance(loss, rf.Loss) and not loss.use_flatten_frames
    assert (loss.loss, loss.name, loss.scale, loss.as_error) == (x, "loss", 1.0, False)
    assert [float(f()) for f in (loss.get_summed_loss, loss.get_mean_loss, loss.get_inv_norm_factor)] == [15, 3.75, 4]
    scalar = rf.Loss(rf.convert_to_tensor(3.0), "scalar")
    assert [float(f()) for f in (scalar.get_summed_loss, scalar.get_mean_loss, scalar.get_inv_norm_factor)] == [3, 3, 1]


def test_a_mean_is_of_the_type_of_the_loss(time):
    half = rf.cast(rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim]), "bfloat16")
    mean = rf.Loss(half, "loss", custom_inv_norm_factor=rf.ones([batch_dim])).get_mean_loss()
    assert (mean.dtype, float(mean)) == ("bfloat16", 1.5)


def test_another_context_for_the_same_step_has_nothing_marked(x):
    ctx = rf.get_run_ctx()
    x.mark_as_loss("a")
    x.mark_as_output("b")
    with ctx.train_flag_ctx(False, func=rf.dropout):
        other = ctx.again()
    assert (list(other.losses), list(other.outputs), list(ctx.losses), list(ctx.outputs)) == ([], [], ["a"], ["b"])
    assert (other.stage, other.step, other.epoch, other.train_flag) == ("train_step", 7, 2, True)
    assert not other.is_train_flag_enabled(func=rf.dropout)


def test_losses_are_added_but_for_measures(x):
    ctx = rf.get_run_ctx()
    assert ctx.total_loss() == 0.0
    x.mark_as_loss("a")
    (x * 2.0).mark_as_loss("b", scale=0.5)
    x.mark_as_loss("errors", as_error=True)
    ctx.mark_as_loss(torch.tensor([1.0, 2.0]), "raw", dims=[batch_dim])
    assert float(ctx.total_loss()) == 15 + 15 + 3
    assert list(ctx.losses) == ["a", "b", "errors", "raw"]


def test_a_name_is_there_once_in_a_step(x):
    x.mark_as_loss("loss")
    with pytest.raises(rf.errors.RfError, match="'loss' already"):
        x.mark_as_loss("loss")
    rf.init_train_step_run_ctx()
    x.mark_as_loss("loss")


def test_without_a_step_the_last_of_a_name_counts(x):
    with entered(None):
        x.mark_as_loss("loss")
        (x * 2.0).mark_as_loss("loss")
        assert float(rf.get_run_ctx().total_loss()) == 30


def test_dims_of_a_loss_are_checked(x, time):
    with pytest.raises(rf.errors.DimError, match="unexpected dims"):
        rf.get_run_ctx().mark_as_loss(x, "loss", dims=[time])
    assert not rf.get_run_ctx().losses


def test_flags_and_numbers_of_the_step(x):
    ctx = rf.get_run_ctx()
    assert (ctx.stage, ctx.train_flag, ctx.step, ctx.epoch, rf.get_run_ctx_step()) == ("train_step", True, 7, 2, 7)
    with ctx.train_flag_ctx(False, func=rf.dropout):
        assert (ctx.is_train_flag_enabled(func=rf.dropout), ctx.is_train_flag_enabled(func=None)) == (False, True)
        with ctx.train_flag_ctx(False):
            assert not ctx.train_flag
        assert ctx.train_flag
    assert ctx.is_train_flag_enabled(func=rf.dropout)


def test_a_flag_is_as_it_was_behind_an_error(x):
    ctx = rf.get_run_ctx()
    with pytest.raises(ValueError), ctx.train_flag_ctx(False):
        raise ValueError
    assert ctx.train_flag


@pytest.mark.parametrize("several", [list, tuple])
def test_a_flag_may_be_for_several_functions(several):
    ctx = rf.init_train_step_run_ctx()
    with ctx.train_flag_ctx(False, func=several([rf.dropout, rf.batch_norm])):
        assert [ctx.is_train_flag_enabled(func=f) for f in (rf.dropout, rf.batch_norm, rf.lstm)] == [False, False, True]
        with ctx.train_flag_ctx(True):
            assert not ctx.is_train_flag_enabled(func=rf.dropout)
    assert ctx.is_train_flag_enabled(func=rf.dropout)


def test_a_step_begun_in_a_cell_that_awaits_goes_on_in_the_next():
    async def cell():
        rf.init_train_step_run_ctx(step=3)
        await asyncio.sleep(0)

    asyncio.run(cell())
    assert (rf.get_run_ctx_step(), rf.get_run_ctx().train_flag) == (3, True)


def test_another_thread_has_a_context_of_its_own(x):
    with ThreadPoolExecutor() as pool:
        assert pool.submit(lambda: rf.get_run_ctx().stage).result() == "init"
        pool.submit(rf.init_forward_step_run_ctx).result()
    assert rf.get_run_ctx().stage == "train_step"


def test_a_block_with_a_context_leaves_the_one_around_it_as_it_was(x):
    before, other = rf.get_run_ctx(), rf.RunCtx(stage="forward_step")
    with pytest.raises(ValueError), entered(other):
        assert rf.get_run_ctx() is other
        rf.init_train_step_run_ctx(step=9)
        raise ValueError
    assert rf.get_run_ctx() is before


def test_outputs_have_the_axes_that_are_asked_for(x, time):
    ctx = rf.init_forward_step_run_ctx()
    x.mark_as_output("plain")
    x.mark_as_output("turned", shape=[time, batch_dim])
    x.mark_as_default_output(shape=[time, batch_dim])
    ctx.mark_as_output(torch.zeros(2), "raw", dims=[batch_dim])
    assert {name: ctx.outputs[name].dims for name in ctx.outputs} == {
        "plain": (batch_dim, time),
        "turned": (time, batch_dim),
        "output": (time, batch_dim),
        "raw": (batch_dim,),
    }
    assert ctx.outputs["plain"].name == "plain"
    with pytest.raises(rf.errors.DimError, match="unexpected dims"):
        x.mark_as_output("less", shape=[time])
    with pytest.raises(rf.errors.RfError, match="'plain' already"):
        x.mark_as_output("plain")


def test_expected_outputs(x, time):
    templates = [Tensor("probs", [time, batch_dim], "float32"), Tensor("other", [batch_dim], "int64")]
    ctx = rf.init_forward_step_run_ctx(expected_outputs=TensorDict(templates))
    x.mark_as_output("probs")
    assert ctx.outputs["probs"].dims == (time, batch_dim)
    with pytest.raises(rf.errors.DimError, match="'other' was not marked"):
        ctx.check_outputs_complete()
    with pytest.raises(rf.errors.DimError, match="'unknown' is not an expected output"):
        x.mark_as_output("unknown")
    with pytest.raises(rf.errors.DimError, match="unexpected dims"):
        x.mark_as_output("other")
    with pytest.raises(rf.errors.DtypeError, match="'other' has the wrong dtype"):
        rf.zeros([batch_dim]).mark_as_output("other")
    rf.zeros([batch_dim], dtype="int64").mark_as_output("other")
    ctx.check_outputs_complete()


def test_parameters_are_marked_as_well():
    ctx = rf.init_forward_step_run_ctx()
    rf.Parameter([Dim(3, name="feat")]).mark_as_default_output()
    assert list(ctx.outputs) == ["output"]


def test_raw_losses_have_the_batch_first():
    ctx, raw = rf.init_train_step_run_ctx(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    ctx.mark_as_loss(name="ce", loss=raw)
    ctx.mark_as_loss(torch.ones(3, 4), "frames", use_normalized_loss=True)
    ctx.mark_as_loss(torch.tensor(2.0), "scalar", scale=0.5)
    losses = ctx.losses
    assert float(losses["ce"].get_summed_loss()) == 6 and float(losses["ce"].get_mean_loss()) == 2
    assert losses["ce"].loss.dims == (batch_dim,) and losses["frames"].loss.dims[0] is batch_dim
    assert float(ctx.total_loss()) == 6 + 1 + 1
    ctx.total_loss().raw_tensor.backward()
    assert raw.grad.tolist() == [1, 1, 1]


def test_a_raw_loss_of_another_size_leaves_the_batch_as_it_is(x):
    size = batch_dim.get_dim_value()
    x.mark_as_loss("padded")
    rf.get_run_ctx().mark_as_loss(torch.ones(17), "packed")
    rf.get_run_ctx().mark_as_loss(np.ones(5, dtype="float32"), "numpy", as_error=True)
    assert float(rf.get_run_ctx().total_loss()) == 15 + 17
    assert batch_dim.get_dim_value() == size
    assert float(rf.get_run_ctx().losses["packed"].get_mean_loss()) == 1


def test_raw_outputs_have_the_batch_first(time):
    ctx = rf.init_forward_step_run_ctx()
    ctx.mark_as_output(torch.zeros(3, 2), name="lp")
    ctx.mark_as_default_output(torch.zeros(3))
    batch, classes = ctx.outputs["lp"].dims
    assert (batch, classes.dimension, ctx.outputs["output"].dims) == (batch_dim, 2, (batch_dim,))
    assert ctx.outputs["lp"].name == "lp" and ctx.outputs["lp"].size_of(batch_dim).max == 3


def test_raw_outputs_have_the_dims_that_are_expected(time):
    classes = Dim(2, name="classes")
    template = Tensor("lp", [batch_dim, classes], "float32")
    ctx = rf.init_forward_step_run_ctx(expected_outputs=TensorDict([template]))
    with pytest.raises(rf.errors.DimError, match="not an expected output"):
        ctx.mark_as_output(torch.zeros(3, 2), "other")
    with pytest.raises(rf.errors.DimError, match="does not fit classes"):
        ctx.mark_as_output(torch.zeros(3, 4), "lp")
    ctx.mark_as_output(torch.zeros(3, 2), "lp")
    assert ctx.outputs["lp"].dims == (batch_dim, classes)
