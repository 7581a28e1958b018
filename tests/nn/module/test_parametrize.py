"""Functions of parameters in their place."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim
INP, OUT = rf.Dim(30, name="in"), rf.Dim(20, name="out")


@pytest.fixture
def linear():
    return rf.Linear(INP, OUT)


@pytest.fixture
def train():
    return rf.init_train_step_run_ctx()


def twice(weight):
    return weight * 2.0


class Scaled(rf.Module):
    """A direction and a length."""

    def __init__(self):
        self.direction = rf.Parameter([INP, OUT], initial=rf.init.Normal(1.0))
        self.length = rf.Parameter([], initial=3.0)

    def __call__(self):
        return self.direction * self.length


def test_a_parametrized_parameter_keeps_its_name(linear):
    param, x = linear.weight, rf.random_normal([INP])
    before = linear(x).raw_tensor
    assert rf.register_parametrization(linear, "weight", twice) is linear
    assert dict(linear.named_parameters())["weight"] is param
    assert list(dict(linear.named_parameters())) == ["weight", "bias"]
    torch.testing.assert_close(linear(x).raw_tensor, before * 2)
    linear(x).raw_tensor.sum().backward()
    torch.testing.assert_close(param.raw_tensor.grad, x.raw_tensor[:, None].expand(30, 20) * 2)
    assert rf.torch_parameters(linear)[0] is param.raw_tensor
    assert isinstance(linear, rf.Linear) and type(linear).__name__ == type(linear).__qualname__ == "Linear"
    assert linear.get_default_name() == "linear" and linear.__doc__ == rf.Linear.__doc__


def test_it_can_be_taken_away(linear):
    param = linear.weight
    rf.register_parametrization(linear, "weight", twice)
    rf.register_parametrization(linear, "bias", lambda bias: bias + 1.0)
    assert rf.is_parametrized(linear) and rf.is_parametrized(linear, "bias")
    assert torch.equal(linear.weight.raw_tensor, 2 * param.raw_tensor)
    assert rf.remove_parametrization(linear, "weight").weight is param
    assert rf.is_parametrized(linear, "bias") and not rf.is_parametrized(linear, "weight")
    assert (linear.bias.raw_tensor == 1).all()
    assert type(rf.remove_parametrization(linear, "bias")) is rf.Linear
    assert not rf.is_parametrized(linear) and list(vars(linear)) == list(vars(rf.Linear(INP, OUT)))


def test_a_module_without_parameters_is_a_function_of_the_parameter(linear):
    param = linear.weight
    rf.register_parametrization(linear, "weight", rf.Functional(twice))
    assert torch.equal(linear.weight.raw_tensor, 2 * param.raw_tensor)


def test_it_is_not_taken_away_from_a_module_that_shares_its_parameters(linear):
    rf.register_parametrization(linear, "weight", twice)
    other = rf.remove_parametrization(copy.copy(linear), "weight")
    assert torch.equal(linear.weight.raw_tensor, 2 * other.weight.raw_tensor)


def test_other_modules_of_the_class_are_as_they_were(linear):
    rf.register_parametrization(linear, "weight", twice)
    assert isinstance(rf.Linear(INP, OUT).weight, rf.Parameter)


def test_a_module_with_parameters_takes_the_place(linear):
    scaled, param = Scaled(), linear.weight
    rf.register_parametrization(linear, "weight", scaled, keep_existing_param=False)
    assert list(dict(linear.named_parameters())) == ["bias", "weight.direction", "weight.length"]
    assert [name for name, _ in linear.named_modules()] == ["", "weight"]
    torch.testing.assert_close(linear.weight.raw_tensor, scaled.direction.raw_tensor * 3)
    with pytest.raises(rf.errors.ParameterError, match="is computed by Scaled"):
        linear.weight = 1.0
    assert rf.remove_parametrization(linear, "weight").weight is param
    assert list(dict(linear.named_parameters())) == ["weight", "bias"]


def test_what_is_assigned_goes_into_the_parameter(linear):
    rf.register_parametrization(linear, "weight", twice)
    linear.weight = 4.0
    assert (linear.weight.raw_tensor == 8).all()
    new = linear.weight = rf.Parameter([INP, OUT], initial=1.0)
    assert (linear.weight.raw_tensor == 2).all()
    assert dict(linear.named_parameters())["weight"] is new and new.name == "weight"
    assert rf.remove_parametrization(linear, "weight").weight is new


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: rf.weight_noise(rf.weight_noise(m, "weight", std=0.1), "weight", std=0.1), "has a parametrization"),
        (lambda m: rf.weight_noise(m, "foo", std=0.1), "is not a Parameter"),
        (lambda m: rf.weight_noise(m, "in_dim", std=0.1), "is not a Parameter"),
        (lambda m: rf.remove_parametrization(m, "weight"), "has no parametrization"),
        (lambda m: rf.register_parametrization(m, "weight", Scaled()), "has its own parameters"),
        (
            lambda m: rf.register_parametrization(m, "weight", twice, keep_existing_param=False),
            "has no parameters",
        ),
    ],
)
def test_what_cannot_be_is_told(linear, change, message):
    with pytest.raises(rf.errors.ParameterError, match=message):
        change(linear)
    assert list(dict(linear.named_parameters())) == ["weight", "bias"]


def test_weight_dropout_in_training_only(linear):
    param = linear.weight
    rf.weight_dropout(linear, "weight", drop_prob=0.25)
    assert linear.weight is param
    ctx = rf.init_train_step_run_ctx()
    factor = linear.weight.raw_tensor / param.raw_tensor
    kept = factor != 0
    torch.testing.assert_close(factor[kept], torch.full_like(factor[kept], 4 / 3))
    assert 0.65 < kept.float().mean() < 0.85
    assert (linear.weight.raw_tensor != linear.weight.raw_tensor).any()  # another draw
    for func in None, rf.WeightDropout.__call__:
        with ctx.train_flag_ctx(False, func=func):
            assert linear.weight is param


def test_weight_noise_in_training_only(linear):
    param = linear.weight
    rf.weight_noise(linear, "weight", std=0.5)
    assert linear.weight is param
    ctx = rf.init_train_step_run_ctx()
    noise = linear.weight.raw_tensor - param.raw_tensor
    assert noise.std().item() == pytest.approx(0.5, rel=0.1) and abs(noise.mean().item()) < 0.1
    with ctx.train_flag_ctx(False, func=rf.WeightNoise.__call__):
        assert linear.weight is param


@pytest.mark.usefixtures("train")
def test_noise_is_of_the_type_of_the_parameter(linear):
    assert rf.weight_noise(linear, "weight", std=0.5).to(dtype="bfloat16").weight.dtype == "bfloat16"


def test_each_parameter_has_a_value_of_its_own_in_a_loop():
    time, names = rf.Dim(2, name="time"), ["ff_weight", "bias"]
    cells = [rf.BasicRNN(INP, OUT) for _ in range(2)]
    for value, (cell, name) in enumerate(itertools.product(cells, names)):
        rf.register_parametrization(cell, name, lambda param, value=value: param * 0.0 + value)
    loop, xs = rf.Loop(axis=time), rf.zeros([time])
    with loop:
        loop.unstack(xs)
        found = [loop.stack(getattr(cell, name)) for cell in cells for name in names]
    assert [values.raw_tensor.unique().tolist() for values in found] == [[0], [1], [2], [3]]


def decoder(lstm, xs, time):
    loop = rf.Loop(axis=time)
    loop.state.lstm = lstm.default_initial_state(batch_dims=[BATCH])
    with loop:
        y, loop.state.lstm = lstm(loop.unstack(xs), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
        out = loop.stack(y)
        weight = loop.stack(lstm.rec_weight)
    return out, weight


@pytest.mark.parametrize("option", [{"drop_prob": 0.5}, {"std": 0.5}])
def test_a_weight_has_one_value_in_all_steps_of_a_loop(train, option):
    inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(6, name="time")
    lstm = rf.LSTM(inp, out)
    param = lstm.rec_weight
    (rf.weight_dropout if "drop_prob" in option else rf.weight_noise)(lstm, "rec_weight", **option)
    xs = rf.convert_to_tensor(torch.randn(2, 6, 3), dims=[BATCH, time, inp])
    found, weight = decoder(lstm, xs, time)
    weights = weight.copy_transpose([time, *param.dims]).raw_tensor
    assert (weights == weights[0]).all() and (weights[0] != param.raw_tensor).any()
    _, other = decoder(lstm, xs, time)
    assert (other.copy_transpose([time, *param.dims]).raw_tensor[0] != weights[0]).any()

    plain = rf.LSTM(inp, out)  # the same with this weight over the whole sequence
    for name, p in lstm.named_parameters():
        plain.get_deep(name).assign(p)
    plain.rec_weight.assign(rf.convert_to_tensor(weights[0].detach(), dims=param.dims))
    expected, _ = plain(xs, state=plain.default_initial_state(batch_dims=[BATCH]), spatial_dim=time)
    torch.testing.assert_close(
        found.copy_transpose(expected.dims).raw_tensor, expected.raw_tensor, atol=1e-5, rtol=1e-4
    )
    loss, same = (rf.reduce_sum(rf.square(y), axis=y.dims) for y in (found, expected))
    [grad] = torch.autograd.grad(loss.raw_tensor, [param.raw_tensor])
    [theirs] = torch.autograd.grad(same.raw_tensor, [plain.rec_weight.raw_tensor])
    factor = weights[0].detach() / param.raw_tensor.detach() if "drop_prob" in option else 1.0
    torch.testing.assert_close(grad, theirs * factor, atol=1e-4, rtol=1e-4)


def test_a_loop_in_a_loop_sees_the_value_of_the_outer_one(train, linear):
    outer_time, inner_time = rf.Dim(3, name="outer"), rf.Dim(2, name="inner")
    rf.weight_noise(linear, "bias", std=1.0)
    zeros = rf.zeros([outer_time, inner_time])
    outer = rf.Loop(axis=outer_time)
    with outer:
        row = outer.unstack(zeros)
        inner = rf.Loop(axis=inner_time)
        with inner:
            x = inner.unstack(row)
            ys = inner.stack(linear.bias + x)
        out, alone = outer.stack(ys), outer.stack(linear.bias + 0.0)
    values = out.copy_transpose([outer_time, inner_time, OUT]).raw_tensor
    assert (values == values[0, 0]).all()
    assert (alone.copy_transpose([outer_time, OUT]).raw_tensor == values[0, 0]).all()
    linear.bias.raw_tensor.sum().backward()


def test_copies_have_parametrizations_of_their_own(linear):
    rf.weight_dropout(linear, "weight", drop_prob=1.0)
    for other in copy.deepcopy(linear), pickle.loads(pickle.dumps(linear)):
        assert isinstance(other, rf.Linear) and rf.is_parametrized(other, "weight")
        other.weight.assign(3.0)
        assert (linear.weight.raw_tensor != 3).any()
        rf.remove_parametrization(other, "weight")
        assert rf.is_parametrized(linear)
        rf.init_train_step_run_ctx()
        assert (linear.weight.raw_tensor == 0).all() and (other.weight.raw_tensor == 3).all()
        rf.init_forward_step_run_ctx()


def test_a_checkpoint_has_the_parameter(linear, train, tmp_path):
    rf.weight_dropout(linear, "weight", drop_prob=1.0)
    plain = rf.Linear(INP, OUT)
    rf.load_checkpoint(plain, rf.save_checkpoint(linear, tmp_path / "model.safetensors"))
    assert torch.equal(plain.weight.raw_tensor, dict(linear.named_parameters())["weight"].raw_tensor)
    rf.load_checkpoint(linear, tmp_path / "model.safetensors")


def test_views_show_the_module_and_its_parameters(linear, train):
    rf.weight_noise(linear, "weight", std=0.1)
    assert "Linear" in repr(linear) and "weight" in repr(linear)
    assert linear.extra_repr() == "in:30 → out:20, weight: WeightNoise(std=0.1)"
    assert "WeightNoise(std=0.1)" in repr(rf.Sequential(linear))
    text = repr(rf.show(linear, rf.zeros([INP])))
    assert "Linear" in text and "random_normal" not in text.split("\n")[0]


@pytest.mark.parametrize(
    ("made", "title"), [(twice, "twice"), (rf.WeightDropout(0.1), "WeightDropout(drop_prob=0.1)"), (Scaled(), "Scaled")]
)
def test_views_call_a_parametrization_by_its_name(linear, made, title):
    rf.register_parametrization(linear, "weight", made, keep_existing_param=not isinstance(made, Scaled))
    assert linear.extra_repr() == f"in:30 → out:20, weight: {title}"


def test_modules_are_moved_with_them(linear):
    rf.register_parametrization(linear, "weight", twice)
    assert linear.to(dtype="float64").weight.dtype == "float64"


def test_training_with_weight_noise_changes_the_parameter(linear, train):
    rf.weight_noise(linear, "weight", std=0.01)
    param = dict(linear.named_parameters())["weight"].raw_tensor
    before = param.detach().clone()
    optimizer = torch.optim.SGD(rf.torch_parameters(linear), lr=0.1)
    rf.reduce_sum(rf.square(linear(rf.ones([INP]))), axis=OUT).raw_tensor.backward()
    optimizer.step()
    assert (param != before).all()


def test_weight_dropout_may_be_on_alone():
    """Its own train flag decides, not that of dropout or of the whole step."""
    linear = rf.weight_dropout(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), "weight", drop_prob=1.0)
    ctx = rf.init_forward_step_run_ctx()
    with ctx.train_flag_ctx(True, func=rf.WeightDropout.__call__):
        assert not linear.weight.raw_tensor.any()
    assert linear.weight.raw_tensor.any()
