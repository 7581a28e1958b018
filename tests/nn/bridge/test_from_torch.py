"""A `torch.nn.Module` as a module: dims at the border, the same numbers and parameters inside."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import DimError, DtypeError, LoopWarning, ParameterError, RfError

time, feat, hidden = Dim(None, name="time"), Dim(4, name="feat"), Dim(3, name="hidden")


def source():
    raw = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=[5, 3])


def plain():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5), torch.nn.Linear(3, 3))


def test_there_and_back():
    net = plain()
    module = rf.from_torch(net, [..., feat], [..., hidden])
    assert rf.to_torch(module) is net
    assert rf.from_torch(module) is module


def test_parameters_are_the_same_objects_under_the_same_names():
    net = torch.nn.Sequential(plain(), torch.nn.BatchNorm1d(3))
    module = rf.from_torch(net, [batch_dim, feat], [batch_dim, hidden])
    named = dict(module.named_parameters())
    assert set(named) == set(net.state_dict())
    for name, raw in net.state_dict(keep_vars=True).items():
        assert named[name].raw_tensor is raw
        assert named[name].auxiliary == (name not in dict(net.named_parameters()))
    assert len(rf.torch_parameters(module)) == len(list(net.parameters()))
    assert "TorchPart" in str(rf.show(module)) or "Linear" in str(rf.show(module))


def test_arguments_by_name_and_too_many():
    net = plain()[0]
    module, x = rf.from_torch(net, {"input": [..., feat]}, [..., hidden]), source()
    assert_close(module(input=x).raw_tensor, module(x).raw_tensor)
    for args in (), (x, x):
        with pytest.raises(ParameterError, match="arguments"):
            module(*args)


def test_without_lengths_there_are_none_to_tell():
    module = rf.from_torch(plain(), [batch_dim, feat], [batch_dim, hidden], lengths="lengths")
    with pytest.raises(DimError, match="no argument has a dim with lengths"):
        module(rf.convert_to_tensor(torch.ones(2, 4), dims=[batch_dim, feat]))


def test_buffers_that_torch_made_anew_are_taken():
    net = torch.nn.BatchNorm1d(4)
    module = rf.from_torch(net, [batch_dim, feat], [batch_dim, feat])
    net.double()
    module(rf.convert_to_tensor(torch.ones(2, 4, dtype=torch.float64), dims=[batch_dim, feat]))
    for name, raw in net.state_dict(keep_vars=True).items():
        assert module.get_deep(name).raw_tensor is raw


def test_what_torch_does_not_save_is_no_parameter():
    net = torch.nn.Linear(4, 3, bias=False)
    net.register_buffer("scratch", torch.ones(3), persistent=False)
    net.register_buffer("nothing", None)
    net.register_module("none", None)
    module = rf.from_torch(net, [..., feat], [..., hidden])
    assert [name for name, _ in module.named_parameters()] == list(net.state_dict()) == ["weight"]
    assert_close(module(source()).raw_tensor[0], net(source().raw_tensor[0]))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_order_of_dims_does_not_matter(order):
    x = source()
    net = plain().eval()
    y = rf.from_torch(net, [batch_dim, time, feat], [batch_dim, time, hidden])(
        x.copy_transpose([x.dims[axis] for axis in order])
    )
    assert_close(y.copy_transpose([batch_dim, time, hidden]).raw_tensor[1, :3], net(x.raw_tensor[1, :3]))
    assert y.size_of(time).values.tolist() == [5, 3]


def test_the_train_flag_decides():
    net = plain()
    module = rf.from_torch(net, [..., feat], [..., hidden])
    rf.init_train_step_run_ctx()
    module(source())
    assert net.training
    rf.init_forward_step_run_ctx()
    module(source())
    assert not net.training


def test_padding_is_filled():
    seen = []
    net = torch.nn.Identity()
    net.register_forward_hook(lambda part, args, out: seen.append(args[0].clone()))
    for padding in (7.0, None):
        rf.from_torch(net, [batch_dim, time, feat], [batch_dim, time, feat], padding=padding)(source())
    assert seen[0][1, 3:].eq(7).all()
    assert seen[1].equal(source().raw_tensor)


@pytest.mark.parametrize(("dtype", "filled"), [(torch.float64, True), (torch.bfloat16, True), (torch.int64, False)])
def test_padding_is_filled_in_numbers_that_are_not_whole(dtype, filled):
    raw = torch.ones(2, 5, 4, dtype=dtype)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=[5, 3])
    seen = []
    net = torch.nn.Identity()
    net.register_forward_hook(lambda part, args, out: seen.append(args[0]))
    rf.from_torch(net, [batch_dim, time, feat], [batch_dim, time, feat])(x)
    assert seen[0].dtype is dtype and seen[0][1, :3].eq(1).all() and seen[0][1, 3:].eq(0 if filled else 1).all()


def test_labels_outside_of_an_embedding_are_named():
    net = rf.from_torch(torch.nn.Embedding(9, 3), [batch_dim, time], [batch_dim, time, hidden])
    raw = torch.tensor([[1, 2, 8], [4, -100, -100]])

    def labels(lengths):
        return rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths)

    with pytest.raises(DimError, match=r"Embedding: labels in the padding of argument 0 .*\n.*-100 to 8, .* 8\n"):
        net(labels([3, 1]))
    assert net(labels([3, 1]).copy_masked(0)).raw_tensor.equal(net.nn_module(raw.clamp(min=0)))
    with pytest.raises(DimError, match=r"labels in frames of argument 0 .*\n.*-100 at batch 1, time 1\n"):
        net(labels([3, 2]))
    with pytest.raises(RfError, match="index out of range"):  # no reason to see
        net(labels([3, 1]) + 101)


def test_a_new_dim_has_the_size_of_each_batch():
    frame, out = Dim(None, name="frame"), Dim(None, name="out")
    module = rf.from_torch(torch.nn.Conv1d(4, 3, 2), [batch_dim, feat, frame], [batch_dim, hidden, out])
    for frames in (5, 7, 5):
        y = module(rf.convert_to_tensor(torch.ones(2, 4, frames), dims=[batch_dim, feat, frame]))
        assert y.size_of(out).max == frames - 1


def test_fewer_results_than_dims():
    class One(torch.nn.Module):
        def forward(self, x):
            return (x,)

    with pytest.raises(DimError, match=r"(?s)tuple of 1.*2 results"):
        rf.from_torch(One(), [..., feat], ([..., feat], [..., feat]))(source())


def test_a_tied_weight_is_one_parameter_with_the_first_name():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    net[1].weight = net[0].weight
    module = rf.from_torch(net, [..., feat], [..., feat])
    assert module.get_deep("1.weight") is module.get_deep("0.weight")
    assert [parameter.name for parameter in module.parameters()] == ["0.weight", "0.bias", "1.bias"]


def test_the_module_is_told_of_padding():
    torch.manual_seed(0)
    net = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    dims = [batch_dim, time, feat]
    y = rf.from_torch(net, dims, dims, padding_mask="src_key_padding_mask")(source())
    assert_close(y.raw_tensor[1:, :3], net(source().raw_tensor[1:, :3]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sequences", [2, 5])  # of 5 frames
def test_padding_and_lengths_of_a_time_major_module(sequences):
    torch.manual_seed(0)
    net, dims, lengths = torch.nn.TransformerEncoderLayer(4, 2, 8).eval(), [time, batch_dim, feat], [5, 3, 1, 2, 4]
    raw = torch.randn(5, sequences, 4)
    x = rf.convert_to_tensor(raw, dims=dims, lengths=lengths[:sequences])
    y = rf.from_torch(net, dims, dims, padding_mask="src_key_padding_mask")(x)
    for i, n in enumerate(lengths[:sequences]):
        assert_close(y.raw_tensor[:n, i], net(raw[:n, i]), atol=1e-5, rtol=1e-5)

    half = Dim(None, name="half")
    _, dim = rf.from_torch(HalvedTimeMajor(), dims, ([half, batch_dim, feat], half), lengths="lengths")(x)
    assert dim.size.dims == (batch_dim,) and dim.size.values.tolist() == [3, 2, 1, 1, 2][:sequences]


@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("frames", [5, 6])
def test_the_mask_is_of_the_argument_that_it_is_named_after(frames, by_name):
    torch.manual_seed(0)
    net, source_time = torch.nn.MultiheadAttention(4, 2, batch_first=True), Dim(None, name="source time")
    query, raw = torch.randn(2, 5, 4), torch.randn(2, frames, 4)
    dims = {
        name: [batch_dim, dim, feat]
        for name, dim in zip(("query", "key", "value"), (time, *[source_time] * 2), strict=True)
    }
    dims = dims if by_name else list(dims.values())
    attention = rf.from_torch(net, dims, ([batch_dim, time, feat],), padding_mask="key_padding_mask")
    x = rf.convert_to_tensor(query, dims=[batch_dim, time, feat], lengths=[3, 5])
    keys = rf.convert_to_tensor(raw, dims=[batch_dim, source_time, feat], lengths=[frames, 2])
    y = attention(x, keys, keys)[0].raw_tensor
    for i, (n, m) in enumerate([(3, frames), (5, 2)]):
        assert_close(y[i, :n], net(query[i, :n], raw[i, :m], raw[i, :m])[0], atol=1e-5, rtol=1e-5)


class HalvedTimeMajor(torch.nn.Module):
    """Every second frame, and the new lengths."""

    def forward(self, x, lengths):
        return x[::2], (lengths + 1) // 2


class Halved(torch.nn.Module):
    """Every second frame, and the new lengths."""

    def forward(self, x, lengths):
        return x[:, ::2], (lengths + 1) // 2


def test_lengths_go_in_and_come_back():
    half = Dim(None, name="half")
    module = rf.from_torch(Halved(), [batch_dim, time, feat], ([batch_dim, half, feat], half), lengths="lengths")
    y, dim = module(source())
    assert dim is half and y.size_of(half).values.tolist() == [3, 2]
    assert_close(rf.reduce_sum(y, axis=half).raw_tensor[1], source().raw_tensor[1, :3:2].sum(0))


def test_in_a_loop_it_is_called_at_every_step_and_gets_gradients():
    net = plain().eval()
    cell = rf.from_torch(net, [..., feat], [..., hidden])
    x = source()
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        loop.state.h = rf.tanh(loop.state.h + cell(loop.unstack(x)))
        out = loop.stack(loop.state.h)
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    got = [p.grad for p in net.parameters()]
    net.zero_grad()
    total = 0
    for i, length in enumerate([5, 3]):
        h = torch.zeros(3)
        for frame in x.raw_tensor[i, :length]:
            h = torch.tanh(h + net(frame))
            total = total + h.sum()
    total.backward()
    for a, p in zip(got, net.parameters(), strict=True):
        assert_close(a, p.grad)


def test_inside_of_a_bridged_model_it_is_itself():
    class Outer(rf.Module):
        def __init__(self):
            self.net = rf.from_torch(plain(), [..., feat], [..., hidden])

        def __call__(self, x):
            return self.net(x)

    net = rf.to_torch(Outer(), in_dims=[[batch_dim, time, feat]])
    assert net.net is net.rf_module.net.nn_module
    assert "net.0.weight" in net.state_dict()
    net.net.eval()
    assert net(torch.ones(1, 2, 4)).equal(net(torch.ones(1, 2, 4)))


def test_an_exported_program_is_answered_with_its_module():
    program = torch.export.export(torch.nn.Linear(4, 3), (torch.zeros(2, 4),))
    with pytest.raises(ParameterError, match=r"not a torch\.nn\.Module") as raised:
        rf.from_torch(program)
    assert raised.value.hint == "program.module()"


def test_what_does_not_fit_says_so():
    with pytest.raises(DimError, match="out_dims"):
        rf.from_torch(plain(), [..., feat], 3)
    with pytest.raises(ParameterError, match="are missing"):
        rf.from_torch(plain())
    with pytest.raises(ParameterError, match="arguments"):
        rf.from_torch(plain(), [..., feat], [..., hidden])()
    with pytest.raises(DimError):
        rf.from_torch(plain(), [..., feat], [..., feat])(source())
    with pytest.raises(DimError):
        rf.from_torch(plain(), ["feat"], [..., feat])


def test_an_older_tensor_keeps_its_lengths():
    net = rf.from_torch(torch.nn.LSTM(4, 3, batch_first=True), [batch_dim, time, feat], ([batch_dim, time, hidden],))
    older = source()
    expected = net(older)[0].raw_tensor
    rf.convert_to_tensor(torch.ones(2, 4, 4), dims=[batch_dim, time, feat], lengths=[4, 1])
    (found,) = net(older)
    assert found.size_of(time).values.tolist() == [5, 3]
    assert_close(found.raw_tensor, expected)


def test_results_that_are_not_as_said():
    x, lstm = source(), torch.nn.LSTM(4, 3, batch_first=True)
    with pytest.raises(DimError, match=r"(?s)do not match `out_dims`.*tuple of 2.*a tensor"):
        rf.from_torch(lstm, [batch_dim, time, feat], [batch_dim, time, hidden])(x)
    with pytest.raises(DimError, match="do not match `out_dims`"):
        rf.from_torch(torch.nn.Linear(4, 3), [..., feat], ([..., hidden],))(x)
    with pytest.raises(DtypeError, match=r"convert_to_tensor"):
        rf.from_torch(torch.nn.Linear(4, 3), [..., feat], [..., hidden])(x.raw_tensor)


def test_a_lazy_module_gets_its_parameters_with_the_first_call():
    net = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.ReLU(), torch.nn.LazyBatchNorm1d())
    with pytest.warns(UserWarning, match="have no shape before its first call"):
        module = rf.from_torch(net, [..., feat], [..., hidden])
    assert "LazyLinear" in rf.show(module).text
    x = rf.convert_to_tensor(torch.randn(5, 4), dims=[batch_dim, feat])
    with rf.get_run_ctx().train_flag_ctx(True):
        y = module(x)
    parameters = {name: p.raw_tensor for name, p in module.named_parameters() if not p.auxiliary}
    assert parameters.keys() == dict(net.named_parameters()).keys()
    assert all(parameters[name] is raw for name, raw in net.named_parameters())
    assert {name for name, p in module.named_parameters() if p.auxiliary} == {name for name, _ in net.named_buffers()}
    rf.reduce_sum(y, axis=y.dims).raw_tensor.backward()
    assert net[0].weight.grad is not None and not module.is_lazy


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # of torch 2.14
@pytest.mark.parametrize(
    "make",
    [
        lambda net, x: torch.jit.script(net),
        lambda net, x: torch.jit.trace(net, x),
        lambda net, x: torch.jit.freeze(torch.jit.script(net.eval())),
        lambda net, x: torch.export.export(net, (x,)).module(),
    ],
    ids=["script", "trace", "freeze", "export"],
)
def test_modules_that_torch_runs_by_itself(make):
    net, raw = Net(), torch.randn(2, 4)
    module = rf.from_torch(make(net, raw), [..., feat], [..., hidden])
    for train in (True, False):
        with rf.get_run_ctx().train_flag_ctx(train):
            y = module(rf.convert_to_tensor(raw, dims=[batch_dim, feat]))
            assert_close(y.raw_tensor, net(raw))


@dataclass
class Output:
    y: Any
    more: Any


def namespace(y, more):
    return SimpleNamespace(y=y, more=more)


@pytest.mark.parametrize("make", [Output, lambda *parts: UserDict(zip(("y", "more"), parts, strict=True)), namespace])
def test_results_with_attributes_and_entries(make):
    class Gives(Net):
        def forward(self, x):
            return make(self.linear(x), (x.mean(-1),))

    x = rf.convert_to_tensor(torch.randn(2, 4), dims=[batch_dim, feat])
    result = rf.from_torch(Gives(), [..., feat], {"y": [..., hidden], "more": ([...],)})(x)
    assert (result["y"].dims, result["more"][0].dims) == ((batch_dim, hidden), (batch_dim,))
    with pytest.raises(DimError, match="the result has no 'z'"):
        rf.from_torch(Gives(), [..., feat], {"z": [..., hidden]})(x)


class EverySecond(torch.nn.Module):
    """Half of the frames."""

    def forward(self, x):
        return x[:, ::2]


def test_fewer_frames_have_lengths_by_a_formula_or_there_is_a_warning():
    time, feat, half = rf.Dim(None, name="time"), rf.Dim(3, name="feat"), rf.Dim(None, name="half")
    x = rf.convert_to_tensor(torch.randn(2, 7, 3), dims=[batch_dim, time, feat], lengths=[7, 4])
    frames = time.ceildiv_right(2)
    y = rf.from_torch(EverySecond(), [batch_dim, time, feat], [batch_dim, frames, feat])(x)
    assert y.size_of(frames).values.tolist() == [4, 2]
    with pytest.warns(LoopWarning, match="all sequences have 4 frames of half, though their lengths differ in time"):
        rf.from_torch(EverySecond(), [batch_dim, time, feat], [batch_dim, half, feat])(x)
    with pytest.raises(DimError, match="another number of frames than time") as error:
        rf.from_torch(EverySecond(), [batch_dim, time, feat], [batch_dim, time, feat])(x)
    assert "time.ceildiv_right(2)" in error.value.hint


def test_a_new_dim_does_not_warn_where_no_lengths_differ(recwarn):
    time, feat, half = rf.Dim(None, name="time"), rf.Dim(3, name="feat"), rf.Dim(None, name="half")
    x = rf.convert_to_tensor(torch.randn(2, 7, 3), dims=[batch_dim, time, feat], lengths=[7, 7])
    y = rf.from_torch(EverySecond(), [batch_dim, time, feat], [batch_dim, half, feat])(x)
    assert half.get_dim_value() == 4 and y.dims[1] is half and not recwarn.list


def test_a_module_that_asks_for_a_mask_of_padding_is_warned_of_without():
    dims, net = [batch_dim, time, feat], torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    module, x = rf.from_torch(net, dims, dims), source()
    with pytest.warns(UserWarning, match=r'not know the lengths of time[^$]*, padding_mask="src_key_padding_mask"'):
        module(x)
    module(rf.convert_to_tensor(x.raw_tensor, dims=dims, lengths=[5, 5]))  # without padding
    y = rf.from_torch(net, dims, dims, padding_mask="src_key_padding_mask")(x)
    for row, length in enumerate([5, 3]):
        assert_close(y.raw_tensor[row, :length], net(x.raw_tensor[row : row + 1, :length])[0])


class Packed(torch.nn.LSTM):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:  # pyright: ignore
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(super().forward(packed)[0], batch_first=True)[0]


def test_an_lstm_in_both_directions_is_warned_of_unless_it_gets_lengths():
    options: Any = {"batch_first": True, "bidirectional": True}
    net, packed, out = torch.nn.LSTM(4, 3, **options), Packed(4, 3, **options), [batch_dim, time, Dim(6, name="out")]
    packed.load_state_dict(net.state_dict())
    with pytest.warns(UserWarning, match=r'LSTM does not know the lengths of time[^$]*, lengths="lengths"'):
        rf.from_torch(net, [batch_dim, time, feat], (out,))(source())
    y = rf.from_torch(packed, [batch_dim, time, feat], out, lengths="lengths")(source())
    for row, length in enumerate([5, 3]):
        assert_close(y.raw_tensor[row, :length], net(source().raw_tensor[row : row + 1, :length])[0][0])
