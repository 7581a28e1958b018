"""Random tensors and dropout."""

from __future__ import annotations

import math
from types import FunctionType

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core.ground.scope import random_from
from rfnb.errors import DimError, DtypeError, ParameterError

rows, feat = rf.Dim(200, name="rows"), rf.Dim(50, name="feat")


@pytest.fixture
def training():
    rf.init_train_step_run_ctx(train_flag=True)
    yield
    rf.init_forward_step_run_ctx()


def test_only_in_training_or_if_asked_for():
    x = rf.ones([rows, feat])
    assert rf.dropout(x, 0.5) is x
    assert rf.dropout(x, 0.5, on_forward=True) is not x
    assert rf.dropout(x, 0.0, on_forward=True) is x


def dropped(x):
    return rf.dropout(rf.mul(x, 2.0), 0.5)


def dropped_in_a_loop(x):
    loop = rf.Loop(axis=rows)
    with loop:
        y = loop.stack(dropped(loop.unstack(x)))
    return y


def dropped_in_a_loop_of_a_loop(x):
    outer = rf.Loop(axis=feat)
    with outer:
        y = outer.stack(dropped_in_a_loop(outer.unstack(x)))
    return y


def normalized(x):
    return rf.BatchNorm(feat)(rf.mul(x, 2.0))


def attended(x):
    attention = rf.SelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2, att_dropout=0.1)
    return attention(x, axis=rows)


def dropped_states(x):
    cell = rf.LayerNormVariantsLSTM(feat, feat, dropout_h=0.1)
    return cell(x, spatial_dim=rows, state=cell.default_initial_state(batch_dims=[]))[0]


def trained():
    return rf.convert_to_tensor(torch.ones(200, 50, requires_grad=True), dims=[rows, feat])


@pytest.mark.parametrize(
    "function",
    [
        dropped,
        dropped_in_a_loop,
        dropped_in_a_loop_of_a_loop,
        dropped_states,
        normalized,
        attended,
        lambda x: dropped(dropped(x)),
    ],
)
def test_a_gradient_outside_of_any_step_warns_where_it_is_computed(function):
    with pytest.warns(UserWarning, match=r"(dropout|BatchNorm) ran as in inference") as caught:
        on_a_line_of_its_own(backward_of)(function)
    assert [warning.filename for warning in caught] == [__file__]


def on_a_line_of_its_own(function):
    """A copy, whose lines have not warned yet."""
    return FunctionType(function.__code__.replace(), function.__globals__)


def test_a_vectorized_jacobian_passes_through_what_is_watched():
    def one_and_a_half(raw):
        return rf.dropout(rf.mul(rf.convert_to_tensor(raw, dims=[feat]), 1.5), 0.5).raw_tensor

    with pytest.warns(UserWarning, match="dropout ran as in inference"):
        found = torch.autograd.functional.jacobian(one_and_a_half, torch.ones(50), vectorize=True)
    assert torch.equal(found, 1.5 * torch.eye(50))


def test_it_warns_once_for_a_line():
    with pytest.warns(UserWarning, match="dropout ran as in inference") as caught:
        for _ in range(3):
            dropped(trained()).raw_tensor.sum().backward()
    assert len(caught) == 1


def backward_of(function):
    function(trained()).raw_tensor.sum().backward()


def test_nothing_warns_where_it_is_said_what_this_is():
    with rf.get_run_ctx().train_flag_ctx(False):
        backward_of(dropped)
    net = rf.to_torch(Dropped())
    for mode in (net.eval, net.train):
        mode()(trained()).sum().backward()
    rf.init_forward_step_run_ctx()
    for function in (dropped, dropped_in_a_loop, normalized, attended):
        backward_of(function)
    rf.init_train_step_run_ctx()
    backward_of(dropped)


def test_nothing_warns_where_no_gradient_passes_through_it():
    x = trained()
    dropped(x)
    dropped(rf.stop_gradient(x))
    rf.mul(x, 2.0).raw_tensor.sum().backward()
    rf.BatchNorm(feat, track_running_stats=False)(rf.mul(x, 2.0)).raw_tensor.sum().backward()  # as in training
    with torch.no_grad():
        dropped(x)
    leaf = torch.ones(200, 50, requires_grad=True)
    rf.dropout(rf.convert_to_tensor(leaf, dims=[rows, feat]), 0.5).raw_tensor.sum().backward()
    assert not leaf._backward_hooks


class Dropped(rf.Module):
    def __call__(self, x):
        return dropped(x)


def test_the_mean_stays(training):
    y = rf.dropout(rf.ones([rows, feat]), 0.25).raw_tensor
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert y.mean() == pytest.approx(1.0, abs=0.05)
    assert rf.dropout(rf.ones([rows]), 1.0).raw_tensor.sum() == 0


def test_along_an_axis_only(training):
    y = rf.dropout(rf.ones([rows, feat]), 0.5, axis=feat).raw_tensor
    assert (y == y[:1]).all() and 0 < y[0].sum() < 2 * 50
    with pytest.raises(DimError, match="no dim"):
        rf.dropout(rf.ones([rows]), 0.5, axis=feat)


def test_axis_false_means_all_dims(training):
    y = rf.dropout(rf.ones([rows, feat]), 0.5, axis=False).raw_tensor
    assert not (y == y[:1]).all()
    with pytest.raises(DimError, match="dropout: `axis`: True is not a Dim"):
        rf.dropout(rf.ones([rows]), 0.5, axis=True)


def test_the_usual_idiom_follows_the_switch(training):
    x = rf.ones([rows, feat], feature_dim=feat)

    def drop():
        return rf.dropout(x, 0.5, axis=rf.dropout_broadcast_default() and x.feature_dim).raw_tensor

    shared = drop()
    with rf.set_dropout_broadcast_ctx(False):
        own = drop()
    assert (shared == shared[:1]).all() and not (own == own[:1]).all()


def test_the_switch_of_shared_dropout():
    assert rf.dropout_broadcast_default() is True
    rf.set_dropout_broadcast(False)
    assert rf.dropout_broadcast_default() is False
    rf.set_dropout_broadcast(None)
    with pytest.raises(ZeroDivisionError), rf.set_dropout_broadcast_ctx(False):
        raise ZeroDivisionError
    assert rf.dropout_broadcast_default() is True
    with pytest.raises(DtypeError, match="set_dropout_broadcast"):
        rf.set_dropout_broadcast("yes")


def test_the_numbers_come_from_the_stream(training):
    def drop(seed):
        with random_from(lambda device: torch.Generator(device=device).manual_seed(seed)):
            return rf.dropout(rf.ones([rows, feat]), 0.5).raw_tensor

    assert torch.equal(drop(1), drop(1)) and not torch.equal(drop(1), drop(2))


many, few = rf.Dim(20_000, name="many"), rf.Dim(3, name="few")
CENTRE = rf.convert_to_tensor([-3.0, 0.0, 50.0], dims=[few])
WIDTH = rf.convert_to_tensor([0.1, 1.0, 10.0], dims=[few])
# distribution, parameters, mean, stddev, lowest and highest
NUMBERS, TENSORS = {"mean": 3.0, "stddev": 0.5}, {"mean": CENTRE, "stddev": WIDTH}
HALF = math.sqrt(2 / math.pi)  # the mean of a normal distribution above 0
DRAWN = {
    "uniform": ({}, 0.5, 12**-0.5, 0, 1),
    "uniform, limits": ({"minval": -1, "maxval": 3}, 1, 4 * 12**-0.5, -1, 3),
    "uniform, bound": ({"bound": 2.0}, 0, 4 * 12**-0.5, -2, 2),
    "uniform, tensors": ({"minval": CENTRE - WIDTH, "maxval": CENTRE + WIDTH}, CENTRE, WIDTH * 3**-0.5, -3.1, 60),
    "uniform, one tensor": ({"minval": CENTRE, "maxval": 50}, CENTRE * 0.5 + 25.0, None, -3, 50),
    "normal": ({}, 0, 1, -9, 9),
    "normal, numbers": (NUMBERS, 3, 0.5, -9, 9),
    "normal, tensors": (TENSORS, CENTRE, WIDTH, -9, 150),
    "truncated_normal": ({}, 0, 0.8796, -2, 2),
    "truncated_normal, limits": ({"minval": 0.0, "maxval": 9.0}, HALF, math.sqrt(1 - HALF**2), 0, 9),
    "truncated_normal, tensors": (TENSORS, CENTRE, WIDTH * 0.8796, CENTRE - WIDTH * 2.0, CENTRE + WIDTH * 2.0),
    "bernoulli": ({"mean": 0.25}, 0.25, math.sqrt(3) / 4, 0, 1),
    "bernoulli, tensors": ({"mean": rf.sigmoid(CENTRE)}, rf.sigmoid(CENTRE), None, 0, 1),
}


def raw_of(value):
    return value.raw_tensor if isinstance(value, rf.Tensor) else torch.tensor(float(value))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_distributions(name, dtype):
    parameters, mean, stddev, low, high = DRAWN[name]
    x = rf.random([many, few], distribution=name.split(",")[0], dtype=dtype, seed=1, **parameters)
    assert x.dtype == dtype and x.dims == (many, few)
    raw = x.raw_tensor.double()
    tolerance = 0.05 if dtype == "bfloat16" else 0.03
    assert torch.allclose(raw.mean(0), raw_of(mean).double().expand(3), rtol=tolerance, atol=tolerance)
    if stddev is not None:
        assert torch.allclose(raw.std(0), raw_of(stddev).double().expand(3), rtol=0.2 if dtype == "bfloat16" else 0.03)
    slack = 0.02 * raw_of(high).abs() if dtype == "bfloat16" else 1e-5
    assert (raw >= raw_of(low) - slack).all() and (raw <= raw_of(high) + slack).all()


@pytest.mark.parametrize("limits", [{"maxval": 3}, {"minval": -2, "maxval": rf.convert_to_tensor(1)},
                                    {"maxval": rf.convert_to_tensor([3, 3, 3], dims=[few])}])  # fmt: skip
def test_whole_numbers(limits):
    x = rf.random_uniform([many, few], dtype="int32", **limits)
    low = limits.get("minval", 0)
    assert x.dtype == "int32" and x.raw_tensor.unique().tolist() == [low, low + 1, low + 2]
    words = rf.random_uniform([many], minval=0, maxval=3, sparse_dim=few)
    assert words.sparse_dim is few and words.dtype == "int64"


def test_no_gradient_to_parameters():
    mean = rf.zeros([few])
    rf.set_requires_gradient(mean)
    assert not rf.random_normal([many, few], mean=mean).raw_tensor.requires_grad


def draw(**how):
    return rf.random_normal([few], **how).raw_tensor.tolist()


def test_seeds():
    rf.set_random_seed(3)
    first, state, second = draw(), rf.get_random_state(), draw()
    rf.set_random_state(state)
    assert draw() == second != first
    rf.set_random_seed(3)
    assert draw() == first
    before = rf.get_random_state()
    assert draw(seed=5) == draw(seed=5) != draw(seed=6)
    assert draw(seed=[5, 1]) == draw(seed=np.array([5, 1])) != draw(seed=[1, 5])
    assert rf.get_random_state() == before  # they draw from generators of their own


def test_states_of_other_machines_are_left_out():
    rf.set_random_state({**rf.get_random_state(), "cuda:99": b"\0" * 16})


def test_static_draws_are_the_same_in_every_step():
    steps = []
    for _ in range(2):
        rf.reset_step_random_state()
        seed, seeds = rf.get_static_step_based_seed(), rf.get_static_step_based_seed(size=2)
        assert isinstance(seed, int) and seeds.shape == (2,)
        steps.append([seed, *seeds, *draw(static=True), *draw(static=True)])
        draw()
    assert steps[0] == steps[1] and steps[0][3:6] != steps[0][6:]
    assert draw(static=True, seed=5) == draw(seed=5)


def test_a_state_of_ones_own():
    state = rf.Parameter([few], "int64", initial=1)
    assert draw(explicit_state=state) == draw(explicit_state=state) == draw(seed=[1, 1, 1])
    first = draw(explicit_state=state, auto_update_state=True)
    second = draw(explicit_state=state, auto_update_state=True)
    assert first != second and state.raw_tensor.tolist() == [3, 3, 3]
    state.assign(1)
    assert draw(explicit_state=state, algorithm="philox") == first
    with pytest.raises(ParameterError, match="must be a Parameter"):
        draw(explicit_state=rf.zeros([], dtype="int64"), auto_update_state=True)


def test_into_a_tensor_that_is_there():
    there = rf.zeros([feat, few], dtype="float64")
    mean = rf.range_over_dim(few, dtype="float64") * 100.0
    assert rf.random_normal([few, feat], mean=mean, out=there) is there
    assert there.raw_tensor.mean(0).tolist() == pytest.approx([0, 100, 200], abs=1)
    with pytest.raises(DimError, match="`out` has different dims"):
        rf.random_normal([few], out=there)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"distribution": "normal", "minval": 0}, "`minval` has no meaning"),
        ({"distribution": "uniform", "dtype": "int32"}, "need a `maxval`"),
        ({"distribution": "normal", "mean": rf.zeros([feat])}, "unexpected dim feat"),
    ],
)
def test_errors(how, says):
    with pytest.raises(DimError, match=says):
        rf.random([few], **how)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"distribution": "gauss"}, "unknown `distribution`"),
        ({"distribution": "uniform", "minval": 2.0, "maxval": 1.0}, "no numbers between"),
        ({"distribution": "uniform", "minval": 3, "maxval": 3, "dtype": "int32"}, "no numbers between"),
        ({"distribution": "truncated_normal", "minval": 1.0, "maxval": -1.0}, "no numbers between"),
        ({"distribution": "normal", "stddev": -1.0}, "`stddev` is not valid"),
        ({"distribution": "normal", "mean": float("nan")}, "`mean` is not valid"),
        ({"distribution": "bernoulli", "mean": 1.5}, "`mean` is not a probability"),
    ],
)
def test_bad_ranges(how, says):
    with pytest.raises(ParameterError, match=says):
        rf.random([few], **how)


@pytest.mark.parametrize("drop_prob", [-0.1, 1.5, float("nan")])
def test_dropout_takes_a_probability(drop_prob):
    for drop in (lambda x: rf.dropout(x, drop_prob), lambda x: rf.Dropout(drop_prob)(x)):
        with pytest.raises(ParameterError, match="`drop_prob` is not a probability"):
            drop(rf.zeros([few]))


def test_in_a_loop():
    """Each op draws from its own stream; a seed begins anew at every step; a state of one's own moves on."""
    time = rf.Dim(4, name="time")
    state = rf.Parameter([], "int64", initial=0)
    zeros = rf.zeros([time])
    rf.set_random_seed(1)
    with rf.Loop(axis=time) as loop:
        x = loop.unstack(zeros)
        a, b = loop.stack(rf.random_normal([few]) + x), loop.stack(rf.random_normal([few], mean=x))
        seeded = loop.stack(rf.random_normal([few], seed=3) + x)
        static = loop.stack(rf.random_uniform([few], static=True) + x)
        own = loop.stack(rf.random_normal([few], explicit_state=state, auto_update_state=True) + x)
    raws = [y.copy_transpose([time, few]).raw_tensor for y in (a, b, own)]
    assert torch.cat(raws).unique(dim=0).shape == (12, 3)
    for same in (seeded, static):
        assert torch.equal(*torch.broadcast_tensors(same.raw_tensor, same.copy_transpose([time, few]).raw_tensor[:1]))
    assert raws[2].tolist() == [draw(seed=[i]) for i in range(4)] and state.raw_tensor.item() == 4
