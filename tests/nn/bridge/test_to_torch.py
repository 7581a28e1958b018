"""A module as a `torch.nn.Module`: the same parameters, names and numbers, and all that torch does with modules."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections import namedtuple
from functools import partial

import pytest
import torch
import torch.nn.utils.prune
from torch.nn import utils
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import DimError, ParameterError, RfError

pytestmark = pytest.mark.usefixtures("inference")

time, feat, hidden = Dim(None, name="time"), Dim(4, name="feat"), Dim(3, name="hidden")
vocab = Dim(5, name="vocab")
X, LENGTHS = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([5, 3])


class Net(rf.Module):
    """Linear, batch norm, dropout, linear with the first weight again."""

    def __init__(self):
        self.inner = rf.Linear(feat, hidden)
        self.norm = rf.BatchNorm(hidden)
        self.layers = rf.ModuleList([rf.Linear(hidden, feat), rf.Linear(hidden, feat)])
        self.layers[1].weight = self.layers[0].weight

    def __call__(self, x):
        y = rf.dropout(rf.tanh(self.norm(self.inner(x))), 0.5, axis=hidden)
        return self.layers[0](y) + self.layers[1](rf.tanh(y)) + x


def bridged(**options):
    torch.manual_seed(0)
    return rf.to_torch(Net(), in_dims=[[batch_dim, time, feat]], **options)


def test_names_are_attribute_paths_and_parameters_the_same_objects():
    net = bridged()
    module = net.rf_module
    assert set(net.state_dict()) == {
        "inner.weight", "inner.bias", "norm.gamma", "norm.beta", "norm.running_mean", "norm.running_variance",
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
    }  # fmt: skip
    for name, raw in [*net.named_parameters(), *net.named_buffers()]:
        assert module.get_deep(name).raw_tensor is raw
    assert [name for name, _ in net.named_buffers()] == ["norm.running_mean", "norm.running_variance"]
    assert net.layers.get_submodule("0").weight is net.layers.get_submodule("1").weight
    assert len(list(net.parameters())) == len(rf.torch_parameters(module))
    assert "BatchNorm(" in repr(net)


def test_auxiliary_parameters_need_not_be_buffers():
    net = bridged(aux_params_as_buffers=False)
    assert not list(net.buffers())
    assert not dict(net.named_parameters())["norm.running_mean"].requires_grad


def test_there_and_back():
    module = Net()
    net = rf.to_torch(module)
    assert rf.to_torch(module) is net
    assert rf.to_torch(net) is net
    assert rf.from_torch(net) is module
    assert rf.from_torch(module) is module
    bordered = rf.to_torch(module, in_dims=[[batch_dim, time, feat]])
    assert bordered is not net and bordered.inner is net.inner
    again = rf.to_torch(module, in_dims=[[batch_dim, time, feat]])
    assert again.is_like(bordered._inputs, None, True)


def test_the_numbers_are_those_of_the_module():
    net = bridged().eval()
    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat], lengths=LENGTHS)
    assert_close(net(X, LENGTHS), net.rf_module(x).raw_tensor)
    assert_close(net(X, lengths=LENGTHS), net(X, lengths={"time": [5, 3]}))
    one = net(X[1:, :3])
    assert_close(net(X, LENGTHS)[1:, :3], one)


def test_train_and_eval_are_the_train_flag_of_each_part():
    net = bridged()
    mean = net.rf_module.norm.running_mean
    x = X.clone()
    assert net.eval()(x, LENGTHS).equal(net(x, LENGTHS))
    before = mean.raw_tensor.clone()
    net.train()(x, LENGTHS)
    assert not mean.raw_tensor.equal(before)
    before = mean.raw_tensor.clone()
    net.norm.eval()
    net(x, LENGTHS)
    assert mean.raw_tensor.equal(before)
    rf.init_forward_step_run_ctx()
    net.train()(x, LENGTHS)
    assert not rf.get_run_ctx().train_flag


def test_a_flag_that_the_module_sets_itself_counts():
    class Teacher(rf.Module):
        def __init__(self):
            self.norm = rf.BatchNorm(feat)

        def __call__(self, x):
            with rf.get_run_ctx().train_flag_ctx(False):
                return self.norm(x)

    net = rf.to_torch(Teacher(), in_dims=[[batch_dim, time, feat]]).train()
    net(X, LENGTHS)
    assert net.rf_module.norm.running_mean.raw_tensor.eq(0).all()


def test_statistics_are_seen_by_both_sides():
    net = bridged()
    net(X, LENGTHS)
    buffer = dict(net.named_buffers())["norm.running_mean"]
    assert buffer is net.rf_module.norm.running_mean.raw_tensor and buffer.ne(0).any()
    buffer.fill_(3)
    assert net.rf_module.norm.running_mean.raw_tensor.eq(3).all()


def test_state_dicts_go_round():
    net, other = bridged(), rf.to_torch(Net(), in_dims=[[batch_dim, time, feat]])
    net(X, LENGTHS)
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    assert_close(other.eval()(X, LENGTHS), net.eval()(X, LENGTHS))
    third = rf.to_torch(Net())
    third.load_state_dict(net.state_dict(), assign=True)
    assert third.rf_module.inner.weight.raw_tensor is third.inner.weight


@pytest.mark.parametrize("move", [lambda net: net.double(), lambda net: net.to(torch.float64)])
def test_what_torch_moves_has_moved_here(move):
    net = move(bridged().eval())
    assert {p.dtype for p in net.rf_module.parameters()} == {"float64"}
    assert net(X.double(), LENGTHS).dtype == torch.float64
    for name, raw in net.state_dict(keep_vars=True).items():
        assert net.rf_module.get_deep(name).raw_tensor is raw


def test_what_moves_here_has_moved_in_torch():
    net = bridged().eval()
    net.rf_module.to(dtype="float64")
    assert {raw.dtype for raw in net.state_dict().values()} == {torch.float64}


def test_what_the_module_replaces_later_is_taken():
    net = bridged().eval()
    net.rf_module.inner.bias = rf.Parameter([hidden], initial=1.0)
    net.rf_module.layers.append(rf.Linear(feat, feat))
    net(X, LENGTHS)
    assert net.inner.bias is net.rf_module.inner.bias.raw_tensor
    assert "layers.2.weight" in net.state_dict()


@pytest.mark.parametrize("way", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_stands_on_its_own(way):
    net = bridged().eval()
    other = way(net)
    assert other.rf_module is not net.rf_module
    assert other.inner.weight is other.rf_module.inner.weight.raw_tensor is not net.inner.weight
    assert other.get_submodule("layers.0").weight is other.get_submodule("layers.1").weight
    assert rf.to_torch(other.rf_module.inner) is other.inner
    assert_close(other(X, LENGTHS), net(X, LENGTHS))
    with torch.no_grad():
        other.inner.weight.zero_()
    assert net.rf_module.inner.weight.raw_tensor.ne(0).any()


def test_a_module_can_be_copied_while_it_is_bridged():
    net = bridged()
    other = copy.deepcopy(net.rf_module)
    assert rf.to_torch(other) is not net
    assert pickle.loads(pickle.dumps(net.rf_module)).inner.weight.dims == net.rf_module.inner.weight.dims


def test_hooks_run_for_each_part_and_may_replace_what_it_gives():
    net = bridged().eval()
    seen = []
    net.inner.register_forward_pre_hook(lambda part, args: seen.append(args[0].shape))
    handle = net.get_submodule("layers.0").register_forward_hook(lambda part, args, out: out * 0)
    changed = net(X, LENGTHS)
    handle.remove()
    assert seen == [(2, 5, 4)]
    assert not torch.equal(changed, net(X, LENGTHS))
    assert net.rf_module.inner(rf.zeros([feat])).dims == (hidden,) and len(seen) == 2  # not outside of the bridge


def test_functional_calls_take_other_parameters_and_leave_these():
    net = bridged().eval()
    doubled = {name: raw.detach() * 2 for name, raw in net.named_parameters()}
    result = torch.func.functional_call(net, doubled, (X[:1], LENGTHS[:1]))
    assert net.rf_module.inner.weight.raw_tensor is net.inner.weight
    other = copy.deepcopy(net)
    other.load_state_dict(doubled, strict=False)
    assert_close(result, other(X[:1], LENGTHS[:1]).detach())


def test_gradients_are_those_of_the_module():
    net = bridged().eval()
    net(X, LENGTHS).square().sum().backward()
    got = {name: raw.grad for name, raw in net.named_parameters()}
    net.zero_grad()
    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat], lengths=LENGTHS)
    net.rf_module(x).raw_tensor.square().sum().backward()
    for name, raw in net.named_parameters():
        assert_close(got[name], raw.grad, msg=name)


def test_without_in_dims_arguments_go_as_they_are():
    class Loss(rf.Module):
        def __init__(self):
            self.inner = rf.Linear(feat, hidden)

        def __call__(self, batch, *, scale=1.0):
            y = self.inner(batch["x"]) * scale
            return rf.State(loss=rf.reduce_mean(y, axis=y.dims), parts=(y, time, "text"))

    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat], lengths=LENGTHS)
    result = rf.to_torch(Loss())(rf.TensorDict({"x": x}), scale=2.0)
    assert type(result) is dict and result["loss"].shape == ()
    y, lengths, text = result["parts"]
    assert y.shape == (2, 5, 3) and lengths.tolist() == [5, 3] and text == "text"


class Pair(rf.Module):
    """Two sequences of different lengths, labels, and a dim."""

    def __init__(self):
        self.embedding = rf.Embedding(vocab, feat)

    def __call__(self, x, labels, axis):
        words = Dim(None, name="words") if labels is None else labels.dims[1]
        y = self.embedding(labels)
        return {"x": x + rf.reduce_mean(y, axis=words), "y": y}


words = Dim(None, name="words")
labels = rf.Tensor("labels", [batch_dim, words], "int64", sparse_dim=vocab)


@pytest.mark.parametrize("by_name", [True, False])
def test_several_sequences(by_name):
    dims = {"x": [batch_dim, time, feat], "labels": labels, "axis": time}
    out = {"x": [batch_dim, time, feat], "y": [words, batch_dim, feat]}
    net = rf.to_torch(Pair(), in_dims=dims if by_name else list(dims.values()), out_dims=out)
    numbers = torch.tensor([[1, 2, 0], [4, 3, 2]])
    result, lengths = net(X, numbers, LENGTHS, torch.tensor([2, 3]))
    assert result["y"].shape == (3, 2, 4)
    assert {name: n.tolist() for name, n in lengths.items()} == {"time": [5, 3], "words": [2, 3]}
    again, _ = net(X, numbers, lengths={"words": [2, 3], time: LENGTHS})
    assert_close(again["x"], result["x"])
    if by_name:
        assert_close(net(labels=numbers, x=X, lengths={"words": [2, 3], time: LENGTHS})[0]["x"], result["x"])


class Sum(rf.Module):
    """One, and what is given."""

    def __init__(self):
        self.one = rf.Parameter([feat], initial=1.0)

    def __call__(self, x=None, y=None):
        total = self.one + 0.0
        for part in (x, y):
            total = total if part is None else rf.combine_bc(total, "add", part)
        return total


DIMS = [batch_dim, time, feat]
Found = namedtuple("Found", ["loss", "parts"])


def test_arguments_may_be_named_or_missing():
    net = rf.to_torch(Sum(), in_dims={"x": DIMS, "y": DIMS}, out_dims=[batch_dim, time, feat])
    both, lengths = net(X, 2 * X)
    assert_close((both, lengths), (3 * X + 1, torch.tensor([5, 5])))
    assert_close(net(2 * X, x=X)[0], both)
    assert_close(net(None, y=X)[0], X + 1)
    assert_close(net(X, None, LENGTHS)[1], LENGTHS)
    assert_close(rf.to_torch(Sum(), in_dims=[])(), torch.ones(4))
    named, _ = rf.to_torch(Sum(), in_dims=[DIMS], out_dims={"total": DIMS})(X)
    assert_close(named, {"total": X + 1})


def test_a_named_tuple_stays_one():
    found = rf.to_torch(rf.Functional(lambda x: Found(x, [x, time])), in_dims=[DIMS])(X, LENGTHS)
    assert type(found) is Found and found.loss.equal(X)
    assert_close(found.parts, [X, LENGTHS])


def test_a_template_tells_the_feature_dim():
    seen = []
    template = rf.Tensor("x", DIMS, "float32", feature_dim=time)
    rf.to_torch(rf.Functional(lambda x: seen.append(x.feature_dim) or x), in_dims=[template])(X)
    assert seen == [time]


def test_a_dim_has_one_size_in_all_arguments():
    net = rf.to_torch(Sum(), in_dims=[DIMS, DIMS])
    with pytest.raises(RfError):
        net(X, X[:, :4])
    assert_close(net(X[:, :4], X[:, :4]), 2 * X[:, :4] + 1)


def test_a_dim_that_follows_from_another_needs_no_lengths():
    class Shifted(rf.Module):
        def __call__(self, x, y):
            return x + rf.reduce_mean(y, axis=time + 1)

    net, y = rf.to_torch(Shifted(), in_dims=[DIMS, [batch_dim, time + 1, feat]]), torch.randn(2, 6, 4)
    means = torch.stack([y[0, :6].mean(0), y[1, :4].mean(0)])[:, None]
    assert_close(net(X, y, LENGTHS)[0], (X + means)[0])
    assert_close(net(X, y, LENGTHS)[1, :3], (X + means)[1, :3])


def test_another_border_is_another_torch_module():
    module = Sum()
    net = rf.to_torch(module, in_dims=[DIMS], out_dims=DIMS)
    assert rf.to_torch(module, in_dims=[DIMS], out_dims=DIMS) is net
    for options in (
        {"in_dims": [[time, batch_dim, feat]], "out_dims": DIMS},
        {"in_dims": [DIMS]},
        {"in_dims": [DIMS], "out_dims": DIMS[::-1]},
        {"in_dims": [DIMS], "out_dims": [DIMS]},
    ):
        assert rf.to_torch(module, **options) is not net


def test_wrong_calls_say_what_is_expected():
    net = bridged()
    with pytest.raises(ParameterError, match="missing"):
        net()
    with pytest.raises(ParameterError, match="too many"):
        net(X, LENGTHS, LENGTHS)
    with pytest.raises(ParameterError, match="not a dim of an argument"):
        net(X, lengths={"tim": LENGTHS})
    with pytest.raises(RfError):
        net(X[..., :2], LENGTHS)
    with pytest.raises(DimError):
        rf.to_torch(Net(), in_dims=[["time"]])
    with pytest.raises(DimError, match="out_dims"):
        rf.to_torch(Net(), in_dims=[batch_dim, time, feat], out_dims=[[batch_dim, feat], [batch_dim, feat]])(X)
    assert net.rf_module._mirror_ref.get() is net


def test_nobody_keeps_what_nobody_needs():
    module = Net()
    net = rf.to_torch(module)
    del net
    assert module._mirror_ref.get() is None
    gc.collect()
    assert rf.to_torch(module).rf_module is module


@pytest.mark.parametrize(
    ("change", "names", "undo"),
    [
        (utils.parametrizations.weight_norm, {"original0", "original1"}, utils.parametrize.remove_parametrizations),
        (partial(utils.prune.l1_unstructured, amount=0.5), {"weight_orig"}, utils.prune.remove),
    ],
    ids=["weight_norm", "prune"],
)
def test_what_torch_puts_in_the_place_of_a_weight_is_used(change, names, undo, tmp_path):
    net = bridged().eval()
    change(net.inner, "weight")
    layer = torch.nn.functional.linear
    expected = layer(X, net.inner.weight.T, net.inner.bias)
    seen = []
    net.inner.register_forward_hook(lambda module, args, result: seen.append(result))
    net(X).sum().backward()
    assert_close(seen[0], expected)
    trained = {name.rpartition(".")[2]: raw.grad for name, raw in net.inner.named_parameters()}
    assert names <= set(trained) and all(grad is not None for grad in trained.values())
    module = net.rf_module
    x = rf.convert_to_tensor(X, dims=[batch_dim, time, feat])
    for use, *args in [(module.inner, x), (rf.save, module, tmp_path / "x.safetensors"), (rf.torch_parameters, module)]:
        with pytest.raises(ParameterError, match="Linear: torch computes its weight"):
            use(*args)
    undo(net.inner, "weight")
    assert_close(module.inner(x).raw_tensor, seen[0])
    assert rf.torch_parameters(module)


@pytest.mark.parametrize("other", [torch.nn.Linear(4, 3), None])
def test_a_part_that_was_replaced_on_the_side_of_torch_is_refused(other):
    net = bridged()
    net(X)
    net.inner = other
    with pytest.raises(ParameterError, match=r"(?s)'inner' was replaced.*net.rf_module.inner = "):
        net(X)


def test_frozen_on_either_side_is_frozen_on_both():
    net = bridged()
    net.inner.requires_grad_(False)
    module = net.rf_module
    assert not module.inner.weight.trainable and module.norm.gamma.trainable
    assert len(rf.torch_parameters(module)) == len(list(net.parameters())) - 2
    assert not copy.deepcopy(net).inner.weight.requires_grad
    assert not copy.deepcopy(module).inner.weight.trainable
    module.inner.weight.trainable = True
    assert net.inner.weight.requires_grad


@pytest.mark.parametrize("cell", [rf.LSTM, rf.GRU])
@pytest.mark.parametrize("last", [True, False])
def test_a_batch_without_frames_has_gradients_of_all_parameters(cell, last):
    class Recurrent(rf.Module):
        def __init__(self):
            self.inner, self.cell = rf.Linear(feat, hidden), cell(hidden, hidden)

        def __call__(self, x):
            state = self.cell.default_initial_state(batch_dims=[batch_dim])
            y, state = self.cell(self.inner(x), state=state, spatial_dim=time)
            return rf.reduce_sum(state.h, axis=state.h.dims) if last else rf.reduce_sum(y, axis=y.dims)

    net = rf.to_torch(Recurrent(), in_dims=[[batch_dim, time, feat]])
    net(torch.ones(2, 1, 4), torch.zeros(2, dtype=torch.int64)).backward()
    assert all(raw.grad is not None and raw.grad.eq(0).all() for raw in net.parameters())


def test_the_dims_may_be_of_different_batches_when_a_model_is_bridged():
    time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(4, name="feat"), rf.Dim(3, name="hidden")
    model = rf.Linear(feat, hidden)
    rf.convert_to_tensor(torch.ones(4, 9, 4), dims=[batch_dim, time, feat], lengths=[4, 9, 3, 6])
    rf.convert_to_tensor(torch.ones(2, 4), dims=[batch_dim, feat])  # time still has the lengths of four sequences
    net = rf.to_torch(model, in_dims=[[batch_dim, time, feat]], out_dims=[batch_dim, time, hidden])
    x = torch.randn(2, 5, 4)
    found = net(x, torch.tensor([5, 3]))
    found = found[0] if isinstance(found, tuple) else found
    expected = x @ model.weight.raw_tensor + model.bias.raw_tensor
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1, :3], expected[1, :3])


@pytest.mark.parametrize("sequences", [2, 5])  # of 5 frames
@pytest.mark.parametrize("compiled", [False, True])
def test_lengths_where_the_batch_is_the_second_axis(sequences, compiled):
    raw, lengths = torch.randn(5, sequences, 4), torch.tensor([5, 3, 1, 2, 4])[:sequences]
    linear = rf.Linear(feat, hidden)
    dims = {"in_dims": [[time, batch_dim, feat]], "out_dims": ([batch_dim, hidden], [time, batch_dim, hidden])}
    net = rf.to_torch(Mean(linear), **dims)
    call = torch.compile(net, backend="eager") if compiled else net
    for given in ({"lengths": {"time": lengths}}, {"lengths": lengths}):
        mean, frames, again = call(raw, **given)
        assert again.tolist() == lengths.tolist() and frames.shape == (5, sequences, 3)
        for i, n in enumerate(lengths):
            assert_close(mean[i], rf.to_torch(linear, in_dims=[[time, feat]])(raw[:n, i]).mean(0))
    assert net(raw)[2].tolist() == [5] * sequences


class Mean(rf.Module):
    """The mean over time of a linear transformation, and the transformation itself."""

    def __init__(self, linear):
        self.linear = linear

    def __call__(self, x):
        y = self.linear(x)
        return rf.reduce_mean(y, axis=time), y


class Outer(torch.nn.Module):
    """A module of torch with one of rfnb as an attribute, perhaps inside of a list."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        inner = getattr(self.inner, "rf_module", self.inner)
        return inner[0](x) if isinstance(inner, rf.ModuleList) else inner(x)


def test_an_attribute_that_torch_does_not_reach_is_warned_of_once():
    x = rf.ones([feat])
    for outer in (Outer(rf.Linear(feat, hidden)), Outer(rf.ModuleList([rf.Linear(feat, hidden)]))):
        with pytest.warns(UserWarning, match=r"Outer.inner is an rf.Module, .*self.inner = rf.to_torch\(…\)") as caught:
            outer(x)
        assert [warning.filename for warning in caught] == [__file__]
        outer(x)  # not again
    mirrored = Outer(rf.to_torch(rf.Linear(feat, hidden)))
    assert mirrored(x).dims == (hidden,) and len(list(mirrored.parameters())) == 2
    Outer(rf.Sequential(rf.relu))(x)  # without parameters


def test_an_attribute_whose_parameters_torch_has_is_not_warned_of():
    outer = Outer(rf.Linear(feat, hidden))
    outer.others = torch.nn.ParameterList(rf.torch_parameters(outer.inner))
    assert outer(rf.ones([feat])).dims == (hidden,)
