"""What is in padding, or comes back for it, gets into no result and no gradient."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.backend.base import mask
from tests.examples import examples

FEAT, OUT = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
LENGTHS = [4, 2]


@pytest.fixture(params=["by mask", "by rows"], autouse=True, scope="module")
def filling(request):
    """Large tensors are filled by rows, and maps of frames leave padding out: here small ones as well."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "by rows":
            patch.setattr(mask, "FEW", 0)
            patch.setattr(mask, "ROW", 0)
        yield request.param


def ragged(*dims, fill=0.0, seed=0):
    """{batch, time, …} with `fill` in padding."""
    time = rf.Dim(None, name="time")
    raw = torch.randn([2, 4, *[d.dimension for d in dims]], generator=torch.Generator().manual_seed(seed))
    raw[1, 2:] = fill
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, *dims], lengths=LENGTHS), time


def norm_loss(y, time):
    """It is 0 for a frame of padding, where its gradient is not finite."""
    y = y - rf.where(time.get_mask(), 0.0, rf.stop_gradient(y))
    rest = [dim for dim in y.dims if dim not in (batch_dim, time)]
    return rf.reduce_sum(rf.sqrt(rf.reduce_sum(rf.square(y), axis=rest)), axis=[batch_dim, time]).raw_tensor


def weight(*dims):
    parameter = rf.Parameter(list(dims))
    with torch.no_grad():
        parameter.raw_tensor.copy_(torch.linspace(0.5, 1.5, parameter.raw_tensor.numel()).reshape(parameter._raw.shape))
    return parameter


def linear(x, w):
    module = rf.Linear(FEAT, OUT, with_bias=False)
    module.weight = w
    return module(x)


CASES = {
    "linear": (linear, [FEAT, OUT]),
    "linear bias": (lambda x, w: linear(x, weight(FEAT, OUT)) + w, [OUT]),
    "matmul": (lambda x, w: rf.matmul(x, w, reduce=FEAT), [FEAT, OUT]),
    "matmul from the right": (lambda x, w: rf.matmul(w, x, reduce=FEAT), [FEAT, OUT]),
    "layer_norm": (lambda x, w: rf.layer_norm(x, w, None, in_dim=FEAT), [FEAT]),
    "layer_norm bias": (lambda x, w: rf.layer_norm(x, None, w, in_dim=FEAT), [FEAT]),
    **{kind: (getattr(rf, kind), [FEAT]) for kind in ("add", "sub", "mul", "true_divide", "squared_difference")},
    "where": (lambda x, w: rf.where(x > 0.0, x, w), [FEAT]),
    "clip_by_value": (lambda x, w: rf.clip_by_value(x, w, None), [FEAT]),
    "combine": (lambda x, w: rf.combine(w, "add", x), [FEAT]),
    "twice": (lambda x, w: x + w + w, [FEAT]),
}


@pytest.mark.parametrize("fill", [0.0, float("nan")])
@pytest.mark.parametrize("name", CASES)
def test_no_gradient_comes_back_from_padding(name, fill):
    fn, dims = CASES[name]
    x, time = ragged(FEAT, fill=fill)
    w = weight(*dims)
    for _ in range(2):  # planned, then quick
        [gradient] = torch.autograd.grad(norm_loss(fn(x, w), time), [w.raw_tensor])
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fill", [0.0, 1e-12, 100.0, 1e4])
@pytest.mark.parametrize(
    "op", [lambda x: x**-1.5, lambda x: x**-3.0, rf.rsqrt, rf.log, rf.reciprocal, rf.exp, lambda x: 1 / (x * x)]
)
def test_padding_stays_finite_if_it_is_squared(op, fill, dtype):
    x, _ = ragged(FEAT, fill=fill)
    raw = (x.raw_tensor.abs().clamp(max=5.0) if fill < 5 else x.raw_tensor.abs()).to(getattr(torch, dtype)) + 1e-30
    x = x.like(raw.requires_grad_())
    norm = rf.LayerNorm(FEAT)
    for parameter in norm.parameters():
        parameter.raw_tensor = parameter.raw_tensor.to(raw.dtype)
    y = norm(op(x))
    assert y.raw_tensor.isfinite().all()
    (grad,) = torch.autograd.grad(y.raw_tensor.square().sum(), [raw])
    assert grad[0].isfinite().all() and grad[1, :2].isfinite().all()


def test_an_embedding_gets_no_gradient_from_padding():
    time, table = rf.Dim(None, name="time"), weight(FEAT, OUT)
    labels = rf.convert_to_tensor(
        torch.tensor([[1, 2, 1], [2, 0, 0]]), dims=[batch_dim, time], lengths=[3, 1], sparse_dim=FEAT
    )
    picked = rf.gather(table, indices=labels, axis=FEAT)
    [gradient] = torch.autograd.grad(norm_loss(picked, time), [table.raw_tensor])
    assert torch.isfinite(gradient).all()


def test_an_lstm_gets_no_gradient_from_padding():
    x, time = ragged(FEAT)
    weights = weight(4 * OUT, FEAT), weight(4 * OUT, OUT)
    zeros = rf.zeros([batch_dim, OUT])
    y, _ = rf.lstm(
        x, state_h=zeros, state_c=zeros, ff_weight=weights[0], rec_weight=weights[1], bias=None,
        spatial_dim=time, in_dim=FEAT, out_dim=OUT,
    )  # fmt: skip
    for gradient in torch.autograd.grad(norm_loss(y, time), [w.raw_tensor for w in weights]):
        assert torch.isfinite(gradient).all()


def test_entries_that_are_left_out_of_a_batch():
    """Summing over the batch leaves out the padding of dims whose lengths depend on it."""
    for fill in (7.0, float("nan")):
        x, _ = ragged(fill=fill)
        raw = x.raw_tensor
        total, mean = rf.reduce_sum(x, axis=batch_dim), rf.reduce_mean(x, axis=batch_dim)
        torch.testing.assert_close(total.raw_tensor, torch.cat([raw[:, :2].sum(0), raw[0, 2:]]))
        torch.testing.assert_close(mean.raw_tensor, torch.cat([raw[:, :2].mean(0), raw[0, 2:]]))
        largest = rf.reduce_max(x, axis=batch_dim)
        torch.testing.assert_close(largest.raw_tensor, torch.cat([raw[:, :2].amax(0), raw[0, 2:]]))
        v = rf.convert_to_tensor(torch.ones(2), dims=[batch_dim])
        torch.testing.assert_close(rf.matmul(x, v, reduce=batch_dim).raw_tensor, total.raw_tensor)


def test_lengths_that_depend_on_a_static_dim():
    beam, time = rf.Dim(2, name="beam"), rf.Dim(None, name="time")
    sizes = rf.convert_to_tensor(torch.tensor([3, 1]), dims=[beam])
    raw = torch.tensor([[1.0, 2.0, 3.0], [4.0, float("nan"), float("nan")]])
    x = rf.convert_to_tensor(raw, dims=[beam, time], lengths={time: sizes})
    assert rf.reduce_sum(x, axis=beam).raw_tensor.tolist() == [5.0, 2.0, 3.0]


@pytest.mark.parametrize("index", [1, -1])
def test_one_sequence_has_its_own_length(index):
    x, time = ragged(FEAT, fill=float("nan"))
    one = rf.gather(x, indices=index, axis=batch_dim)
    assert one.size_of(time).values.tolist() == 2
    torch.testing.assert_close(one.raw_tensor, x.raw_tensor[1, :2])
    assert torch.isfinite(rf.reduce_sum(one, axis=[time, FEAT]).raw_tensor)
    assert x.size_of(time).values.tolist() == LENGTHS
    with pytest.raises(rf.errors.DimError):
        rf.gather(x, indices=2, axis=batch_dim)


def test_padding_takes_the_values_of_a_tensor():
    x, time = ragged(FEAT)
    v = rf.convert_to_tensor(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), dims=[batch_dim, FEAT])
    filled = x.copy_masked(v)
    assert filled.dims == x.dims
    torch.testing.assert_close(filled.raw_tensor[1, 2:], v.raw_tensor[1].expand(2, 3))
    torch.testing.assert_close(filled.raw_tensor[0], x.raw_tensor[0])
    loop = rf.Loop(axis=time)
    with loop:
        state = loop.unstack(x)
        out = loop.stack(state.copy_masked(0.0))
    torch.testing.assert_close(out.copy_transpose(x.dims).copy_masked(0.0).raw_tensor, x.copy_masked(0.0).raw_tensor)


@pytest.mark.parametrize("op", [rf.reduce_sum, rf.reduce_mean, rf.reduce_max, rf.softmax, rf.log_softmax])
def test_frames_of_whom(op):
    """Over the lengths of sequences, a tensor that has no sequences has no answer."""
    time = rf.Dim(None, name="time")
    rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0]], dims=[rf.batch_dim, time])
    positions = rf.cast(rf.range_over_dim(time), "float32")
    with pytest.raises(rf.errors.DimError, match="depend on batch, which the tensor lacks") as caught:
        op(positions, axis=time)
    assert "rf.expand_dim(positions, batch_dim)" in caught.value.hint
    assert op(positions, axis=time, use_mask=False).raw_tensor.isfinite().all()
    assert op(rf.expand_dim(positions, rf.batch_dim), axis=time) is not None
    rf.convert_to_tensor([[1.0, 2.0], [4.0, 5.0]], dims=[rf.batch_dim, time])
    op(rf.cast(rf.range_over_dim(time), "float32"), axis=time)  # all are of one length


MODEL = rf.Dim(2, name="model")


def layers():
    """What has weights and takes frames, from feat to model or to feat, by name."""
    conv = rf.Conv1d(FEAT, MODEL, 3, padding="same")
    bias = weight(FEAT)
    return {
        "linear": ((into := rf.Linear(FEAT, MODEL)), lambda x, time: into(x)),
        "layer_norm": ((norm := rf.LayerNorm(FEAT)), lambda x, time: norm(x)),
        "rms_norm": ((rms := rf.RMSNorm(FEAT)), lambda x, time: rms(x)),
        "conv": (conv, lambda x, time: conv(x, in_spatial_dim=time)[0]),
        "bias": (bias, lambda x, time: x * bias + bias),
        "two": (into, lambda x, time: into(rf.sqrt(rf.square(norm(x))) + bias)),
    }


LAYERS = layers()


def weights_of(part):
    return [part.raw_tensor] if isinstance(part, rf.Parameter) else [p.raw_tensor for p in part.parameters()]


def filled(x, value=0):
    return rf.get_backend_by_tensor(x).fill_padding(x, value)


def hidden():
    """{batch, time, four}, with padding that is known to be 0."""
    x, time = ragged(FEAT, fill=7.0)
    four = rf.Dim(4, name="four")
    return rf.Linear(FEAT, four)(rf.LayerNorm(FEAT)(x)).copy_masked(0.0), time, four


def test_empty_padding_is_not_filled_again():
    h, time, _ = hidden()
    for x in (h, rf.softmax(h, axis=time)):
        assert not x.raw_tensor[1, 2:].any()
        assert filled(x) is x.raw_tensor
        assert filled(x, 1)[1, 2:].eq(1).all()


def put(x, value):
    with torch.no_grad():
        x.raw_tensor[1, 2:] = value


def put_into_another(x, value):
    x.raw_tensor = x.raw_tensor.masked_fill(torch.arange(4)[:, None] >= torch.tensor(LENGTHS)[:, None, None], value)


def put_into_the_other_part(x, value):
    """Which is a view of the same storage."""
    put(rf.split(x, axis=x.dims[-1], out_dims=[x.dims[-1]])[0], value)


@pytest.mark.parametrize("change", [put, put_into_another, put_into_the_other_part])
def test_padding_that_was_empty_and_is_changed(change):
    h, time, four = hidden()
    change(h, float("nan"))
    layer = rf.Linear(four, OUT, with_bias=False)
    rf.reduce_sum(rf.reduce_sum(layer(h), axis=[batch_dim, time]), axis=OUT).raw_tensor.backward()
    assert layer.weight.raw_tensor.grad.isfinite().all()


@examples(60)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    order=st.sampled_from(list(itertools.permutations(range(3)))),
    fill=st.sampled_from([0.0, 7.0, float("nan"), float("inf")]),
    name=st.sampled_from(list(LAYERS)),
)
def test_a_batch_has_the_values_and_gradients_of_its_sequences(lengths, order, fill, name):
    part, layer = LAYERS[name]
    generator = torch.Generator().manual_seed(sum(lengths))
    sequences = [torch.randn([n, 3], generator=generator, requires_grad=True) for n in lengths]
    weights = weights_of(part)

    def gradients(total):
        return torch.autograd.grad(total, [*sequences, *weights], allow_unused=True)

    longest = max(lengths)
    padded = torch.stack([torch.cat([x, x.new_full([longest - len(x), 3], fill)]) for x in sequences])
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(padded, dims=[batch_dim, time, FEAT], lengths=lengths)
    found = layer(x.copy_transpose([x.dims[axis] for axis in order]), time)
    last = next(dim for dim in found.dims if dim not in (batch_dim, time))
    found = found.copy_transpose([batch_dim, time, last]).raw_tensor
    expected = []
    for x in sequences:
        alone = rf.Dim(len(x), name="time")
        expected.append(layer(rf.convert_to_tensor(x, dims=[alone, FEAT]), alone).raw_tensor)
    frames = [y[:n] for y, n in zip(found, lengths, strict=True)]
    torch.testing.assert_close(frames, expected)
    for one, other in zip(*(gradients(sum(y.square().sum() for y in ys)) for ys in (frames, expected)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("op", ["log", "exp", "reciprocal", "rsqrt", "division", "power"])
def test_frames_count_where_another_dim_has_none(op):
    """A sequence of which nothing is selected has its frames all the same."""
    ops = {
        "division": lambda x: 1.0 / x,
        "power": lambda x: x**0.3,
        **{name: getattr(rf, name) for name in ("log", "exp", "reciprocal", "rsqrt")},
    }
    time = rf.Dim(None, name="time")
    numbers = [[1e-18, 2.0, 50.0], [1e-18, 50.0]]
    x = rf.convert_to_tensor(numbers, dims=[batch_dim, time])
    mask = rf.convert_to_tensor([[True, False, True], [False, False]], dims=[batch_dim, time])
    y, some = rf.masked_select(x, mask=mask, dims=[time])
    y = ops[op](rf.masked_scatter(y, x, mask=mask, dims=[time], in_dim=some)).raw_tensor
    for row, expected in zip(y, numbers, strict=True):
        alone = ops[op](rf.convert_to_tensor(expected, dims=[rf.Dim(len(expected), name="frames")])).raw_tensor
        torch.testing.assert_close(row[: len(expected)], alone)


def test_a_quotient_over_nothing_has_no_gradient():
    """The other sequences of a batch train, though one has frames, but no keys."""
    time, keys = rf.Dim(None, name="time"), rf.Dim(None, name="keys")
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[2, 3])
    energy = rf.convert_to_tensor(torch.ones(2, 2), dims=[batch_dim, keys], lengths=[2, 0])
    weight = rf.Parameter([], initial=1.0)
    scores = rf.exp(rf.combine_bc(x, "mul", energy) * weight)
    shares = scores / rf.reduce_sum(scores, axis=keys)
    loss = rf.reduce_sum(shares * energy, axis=[batch_dim, time, keys])
    assert loss.raw_tensor.item() == 2.0
    [gradient] = torch.autograd.grad(loss.raw_tensor, [weight.raw_tensor])
    assert gradient.item() == 0.0


WITHOUT_OWNER = {
    "shift_left": lambda x, time, _: rf.shift_left(x, axis=time, pad_value=9.0),
    "reverse_sequence": lambda x, time, _: rf.reverse_sequence(x, axis=time),
    "slice": lambda x, time, _: rf.slice(x, axis=time, start=-2)[0],
    "slice backwards": lambda x, time, _: rf.slice(x, axis=time, step=-1)[0],
    "pad": lambda x, time, _: rf.pad(x, axes=[time], padding=(1, 1), value=9.0)[0],
    "pad reflect": lambda x, time, _: rf.pad(x, axes=[time], padding=(1, 0), mode="reflect")[0],
    "concat": lambda x, time, _: rf.concat((x, time), (x + 10.0, time))[0],
    "sort": lambda x, time, _: rf.sort(-x, axis=time)[0],
    "search_sorted": lambda x, time, _: rf.search_sorted(x, 2.5, axis=time),
    "top_k": lambda x, time, _: rf.top_k(x, axis=time, k=2)[0],
    "gather": lambda x, time, _: rf.gather(x, indices=-1, axis=time),
    "repeat": lambda x, time, _: rf.repeat(x, in_spatial_dim=time, repeats=rf.cast(x, "int64"))[0],
    "split_dims": lambda x, time, _: rf.split_dims(x, axis=time, dims=[rf.Dim(None, name="chunks"), OUT]),
    "replace_dim": lambda x, time, longer: rf.replace_dim_v2(x, in_dim=time, out_dim=longer),
    "masked_select": lambda x, time, _: rf.masked_select(x, mask=x > 0.5, dims=[time])[0],
    "pool": lambda x, time, _: rf.pool1d(x, mode="avg", pool_size=3, padding="same", strides=1, in_spatial_dim=time)[0],
    "matmul": lambda x, time, _: rf.matmul(x, x, reduce=time),
    "attention": lambda x, time, _: rf.dot_attention(
        *[rf.expand_dim(x, FEAT)] * 3, key_dim=FEAT, axis=time
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_OWNER)
def test_without_the_batch_the_end_of_each_sequence_is_unknown(name):
    """Positions {time} end where the longest sequence ends; with the batch among the dims, they end in each."""
    time, longer = rf.Dim(None, name="time"), rf.Dim(None, name="longer")
    rf.convert_to_tensor(torch.zeros(2, 4), dims=[batch_dim, time], lengths=[4, 2])
    rf.convert_to_tensor(torch.zeros(2, 5), dims=[batch_dim, longer], lengths=[3, 5])
    positions = rf.range_over_dim(time, dtype="float32")
    with pytest.raises(rf.errors.DimError, match="the lengths of time depend on batch") as error:
        WITHOUT_OWNER[name](positions, time, longer)
    assert re.match(r"rf\.expand_dim\(\w+, batch", error.value.hint)
    together = WITHOUT_OWNER[name](rf.expand_dim(positions, batch_dim), time, longer)
    rf.convert_to_tensor(torch.zeros(1, 2), dims=[batch_dim, time], lengths=[2])
    rf.convert_to_tensor(torch.zeros(1, 5), dims=[batch_dim, longer], lengths=[5])
    alone = WITHOUT_OWNER[name](rf.range_over_dim(time, dtype="float32"), time, longer)
    second = rf.gather(together, indices=1, axis=batch_dim).raw_tensor
    torch.testing.assert_close(second[tuple(slice(0, n) for n in alone.raw_tensor.shape)], alone.raw_tensor)


def test_lengths_over_a_dim_that_is_gone_are_those_of_the_batch():
    """A single sequence is reduced like one of several."""
    time, words = rf.Dim(3, name="time"), rf.Dim(None, name="words")
    for lengths in ([[1, 3, 2]], [[1, 3, 2], [1, 1, 2]]):
        counts = rf.convert_to_tensor(torch.tensor(lengths), dims=[batch_dim, time])
        words = rf.Dim(counts, name="words")
        x = rf.convert_to_tensor(torch.ones(len(lengths), 3, 3), dims=[batch_dim, time, words])
        total = rf.reduce_sum(rf.reduce_sum(x, axis=time), axis=words)
        assert total.raw_tensor.tolist() == [float(sum(row)) for row in lengths]


@pytest.mark.parametrize("op", ["lstm", "edit_distance"])
def test_padding_that_differs_between_frames_is_refused(op):
    pair, words = rf.Dim(2, name="pair"), rf.Dim(None, name="words")
    counts = rf.convert_to_tensor([[1, 2], [3, 1]], dims=[batch_dim, pair])
    words = rf.Dim(counts, name="words")
    x = rf.convert_to_tensor(torch.ones(2, 2, 3, 3), dims=[batch_dim, pair, words, FEAT])
    labels = rf.cast(rf.reduce_sum(x, axis=FEAT), "int64")
    lstm, other = rf.LSTM(FEAT, OUT), rf.Dim(2, name="other")
    with pytest.raises(rf.errors.DimError, match=f"{op}: the lengths of words depend on {{pair:2}}"):
        if op == "lstm":
            lstm(x, state=lstm.default_initial_state(batch_dims=[batch_dim, words]), spatial_dim=pair)
        else:
            rf.edit_distance(labels, pair, rf.range_over_dim(other), other)
