"""`torch.export` with a batch and a time of any size: the program gives what the model gives, for unequal lengths."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim

time, feat, hidden, vocab = Dim(None, name="time"), Dim(8, name="feat"), Dim(6, name="hidden"), Dim(11, name="vocab")
ATTENTION = {"proj_dim": feat, "key_dim_total": Dim(8, name="key"), "value_dim_total": feat, "num_heads": 2}
FRAMES = [batch_dim, time, feat]


class Model(rf.Module):
    """Calls a function with a module and its argument."""

    def __init__(self, call, module=None):
        self.call, self.module = call, module

    def __call__(self, x):
        return self.call(self.module, x)


def attend(layer, x):
    return layer(x, axis=time, state=layer.default_initial_state(batch_dims=[batch_dim]))[0]


def decode(decoder, x):
    labels = rf.reduce_argmax(x, axis=feat)
    labels.sparse_dim = vocab
    state = decoder.default_initial_state(batch_dims=[batch_dim])
    return decoder(labels, state=state, spatial_dim=time, encoder=decoder.transform_encoder(x, axis=time))[0]


def recur(layer, x):
    y, state = layer(x, state=layer.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
    return y.copy_transpose([batch_dim, time, hidden]), *state.values()


def attend_to_past(layer, x):
    """A loop with attention to all frames, whose query is the state before."""
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        frame = loop.unstack(x, axis=time)
        scores = rf.dot(layer(loop.state.h), x, reduce=feat)
        context = rf.dot(rf.softmax(scores, axis=time), x, reduce=time)
        loop.state.h = rf.tanh(rf.matmul(frame + context, layer.weight, reduce=feat))
        h = loop.stack(loop.state.h)
    return h.copy_transpose([batch_dim, time, hidden]), loop.state.h


def until_positive(last, x):
    """A loop over frames that ends by a condition; `last`: also the frames so far."""
    loop = rf.Loop(axis=time)
    loop.state.sum = rf.zeros([batch_dim, feat])
    loop.state.count = rf.zeros([batch_dim])
    with loop:
        loop.state.sum = loop.state.sum + loop.unstack(x, axis=time)
        loop.state.count = loop.state.count + 1
        loop.end(rf.reduce_sum(loop.state.sum, axis=feat) > 0, include_eos=True)
        sums = loop.stack(loop.state.sum) if last else None
    return sums if last else ((loop.state.sum * loop.state.count).copy_transpose([feat, batch_dim]))


def without_frames(_, x):
    loop = rf.Loop(max_seq_len=5)
    loop.state.sum = rf.reduce_sum(x, axis=time)
    with loop:
        loop.state.sum = loop.state.sum * 2
        loop.end(rf.reduce_max(loop.state.sum, axis=feat) > 9, include_eos=True)
    return loop.state.sum


def concat(_, x):
    return rf.concat((x, time), rf.slice(x * 2, axis=time, start=1))


def op(function, **options):
    """A function of a module without parameters: the first result of an op, and its lengths."""

    def call(_, x):
        y = function(x, **options)
        return (y[0], *y[1]) if isinstance(y, tuple) and isinstance(y[1], list | tuple) else y

    return call


MODELS = {
    "causal attention": lambda: Model(attend, rf.CausalSelfAttention(feat, **ATTENTION)),
    "causal attention by relative position": lambda: Model(attend, rf.RelPosCausalSelfAttention(feat, **ATTENTION)),
    "decoder": lambda: Model(
        decode, rf.TransformerDecoder(feat, vocab, model_dim=feat, num_layers=2, num_heads=2, ff_dim=hidden)
    ),
    "LSTM": lambda: Model(recur, rf.LSTM(feat, hidden)),
    "GRU": lambda: Model(recur, rf.GRU(feat, hidden)),
    "loop": lambda: Model(attend_to_past, rf.Linear(hidden, feat)),
    "loop with an end": lambda: Model(until_positive),
    "max": lambda: Model(op(rf.pool1d, mode="max", pool_size=2, padding="same", in_spatial_dim=time)),
    "max with strides": lambda: Model(op(rf.pool1d, mode="max", pool_size=3, strides=2, in_spatial_dim=time)),
    "max of images": lambda: Model(
        op(rf.pool2d, mode="max", pool_size=2, padding="same", in_spatial_dims=[time, feat])
    ),
    "mean": lambda: Model(op(rf.pool1d, mode="avg", pool_size=3, strides=2, padding="same", in_spatial_dim=time)),
    "pad": lambda: Model(op(rf.pad, axes=[time], padding=[(2, 1)], value=0.5)),
    "pad by reflection": lambda: Model(op(rf.pad, axes=[time], padding=[(2, 1)], mode="reflect")),
    "pad by less than 0": lambda: Model(op(rf.pad, axes=[time], padding=[(-1, -1)])),
    "concat": lambda: Model(concat),
    "reverse_sequence": lambda: Model(op(rf.reverse_sequence, axis=time)),
    "shift_left": lambda: Model(op(rf.shift_left, axis=time, pad_value=0.5)),
    "shift_left by most frames": lambda: Model(op(rf.shift_left, axis=time, pad_value=0.5, amount=6)),
    "shift_right": lambda: Model(op(rf.shift_right, axis=time, pad_value=0.5)),
    "slice": lambda: Model(op(rf.slice, axis=time, start=1, end=3)),
    "slice to the end": lambda: Model(op(rf.slice, axis=time, start=1, step=2)),
    "slice from the end": lambda: Model(op(rf.slice, axis=time, start=-3, end=-1)),
    "slice backwards": lambda: Model(op(rf.slice, axis=time, step=-1)),
    "slice of a size": lambda: Model(op(rf.slice, axis=time, start=1, size=2)),
}
SLOW = {"LSTM", "GRU", "decoder", "causal attention by relative position"}
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]


def batches():
    draw = torch.Generator().manual_seed(1)
    for lengths in [[7, 4, 5], [6, 3], [4, 9, 3, 6], [5, 8]]:
        yield torch.randn(len(lengths), max(lengths), 8, generator=draw), torch.tensor(lengths)


def without_padding(outputs, lengths):
    """The results, with 0 in padding, where the program may have other numbers."""
    y, *more = outputs if isinstance(outputs, tuple | list) else (outputs,)
    if more and not more[0].dtype.is_floating_point and more[0].ndim:
        lengths = more[0]
    elif y.shape[1] != lengths.max():
        return outputs
    return y * (torch.arange(y.shape[1]) < lengths[:, None])[..., None], *more


def agree(program, net, batches):
    for x, lengths in batches:
        program_results, results = program(x, lengths), net(x, lengths)
        expected = without_padding(results, lengths)
        assert_close(without_padding(program_results, lengths), expected, atol=1e-5, rtol=1e-5)


def exported(net, *, strict=False):
    auto = torch.export.Dim.DYNAMIC
    sizes = (({0: auto, 1: auto}, {0: auto}),)
    return torch.export.export(net, next(batches()), dynamic_shapes=sizes, strict=strict)


def bridged(make):
    torch.manual_seed(0)
    return rf.to_torch(make(), in_dims=[FRAMES]).eval()


@pytest.mark.parametrize("name", NAMES)
def test_the_program_serves_batches_of_other_sizes(name):
    net = bridged(MODELS[name])
    agree(exported(net).module(), net, batches())


@pytest.mark.parametrize(
    "name", ["shift_left", *(pytest.param(name, marks=pytest.mark.slow) for name in ("GRU", "decoder"))]
)
def test_strict_export_gives_the_same_program(name):
    net = bridged(MODELS[name])
    agree(exported(net, strict=True).module(), net, batches())


@pytest.mark.parametrize(
    ("call", "words"),
    [(until_positive, "stacks what ends by a condition"), (without_frames, "ends by a condition, without")],
)
def test_a_loop_whose_number_of_steps_is_computed_says_so(call, words):
    net = bridged(lambda: Model(call, rf.Linear(feat, hidden)))
    with pytest.raises(rf.errors.LoopError, match=words):
        exported(net)


@pytest.mark.parametrize("bound", ["start", "end", "size"])
def test_bounds_that_are_tensors_say_that_their_numbers_are_needed(bound):
    class Sliced(rf.Module):
        def __call__(self, x, at):
            return rf.slice(x, axis=time, **{bound: at})[0]

    net = rf.to_torch(Sliced(), in_dims=[[rf.batch_dim, time, feat], [rf.batch_dim]]).eval()
    arguments = torch.rand(2, 6, feat.dimension), torch.tensor([3, 2]), torch.tensor([6, 4])
    assert net(*arguments).shape == (2, 3, feat.dimension)
    auto = torch.export.Dim.DYNAMIC
    with pytest.raises(rf.errors.BackendError, match="slice: the numbers of a tensor are needed"):
        torch.export.export(net, arguments, dynamic_shapes=(({0: auto, 1: auto}, {0: auto}, {0: auto}),))


def test_no_number_of_the_first_batch_stays_in_the_program():
    """Only sizes of 0 and 1 are special to torch: batches of one sequence, or of one or two frames, may not fit."""
    shortest = torch.ones(2, 3, 8), torch.tensor([3, 1])
    for name in ("pad", "reverse_sequence", "shift_left", "concat"):
        net = bridged(MODELS[name])
        agree(exported(net).module(), net, [shortest])
