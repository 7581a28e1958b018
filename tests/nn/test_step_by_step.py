"""Recurrent and causal modules give the same step by step as over the whole sequence.

A row for each of them in MODULES: how it is made, and how it is called if not as `module(x, state=…, spatial_dim=…)`.
Cells have their rows in `tests/nn/cells/test_cells.py`; here are more kinds of input for some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim, single_step_dim
from tests.examples import examples
from tests.nn.cells.test_cells import CELLS

pytestmark = pytest.mark.usefixtures("inference")

IN, OUT, WORDS = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="words")
LENGTHS = [5, 0, 1, 3]


def recurrent(module, x, state, dim):
    return module(x, state=state, spatial_dim=dim)


def causal(module, x, state, dim):
    return module(x, axis=dim, state=state)


def attention(kind, **options):
    """A row of an attention that is causal."""
    dims = {"key_dim_total": rf.Dim(4, name="key"), "value_dim_total": rf.Dim(6, name="value"), "num_heads": 2}
    return Row(lambda: kind(OUT, OUT, **dims, **options), call=causal, in_dim=OUT, grows=True)


def decoder(**options):
    """A row of a language model."""
    logits = rf.Dim(5, name="logits")
    make = lambda: rf.TransformerDecoder(None, WORDS, 4, num_layers=2, num_heads=2, **options)  # noqa: E731

    def call(module, x, state, dim):
        y, state = module(x, spatial_dim=dim, state=state)
        return rf.replace_dim_v2(y, in_dim=WORDS, out_dim=logits), state

    return Row(make, call=call, in_dim=WORDS, out=logits, sparse=True, grows=True)


@dataclass
class Row:
    """call(module, x, state, dim) → output {…, out}, new state. grows: the state holds all frames up to now."""

    make: Callable[[], rf.Module]
    call: Callable = recurrent
    in_dim: rf.Dim = IN
    out: rf.Dim = OUT
    sparse: bool = False
    grows: bool = False


MODULES = {
    **{name: Row(partial(make, IN, OUT)) for name, make in CELLS.items()},
    "LSTM": Row(lambda: rf.LSTM(IN, OUT)),
    "LSTM of labels": Row(lambda: rf.LSTM(WORDS, OUT), in_dim=WORDS, sparse=True),
    "LSTM into its own dim": Row(lambda: rf.LSTM(OUT, OUT), in_dim=OUT),
    "VanillaLSTM of labels": Row(lambda: rf.VanillaLSTM(WORDS, OUT), in_dim=WORDS, sparse=True),
    "VanillaLSTM into its own dim": Row(lambda: rf.VanillaLSTM(OUT, OUT), in_dim=OUT),
    "VanillaLSTM of gates": Row(lambda: rf.VanillaLSTM(4 * OUT, OUT, input_projection=False), in_dim=4 * OUT),
    "ZoneoutLSTM, other order": Row(lambda: rf.ZoneoutLSTM(IN, OUT, forget_bias=0.5, parts_order="ogif")),
    "ZoneoutLSTM, order of the kernel": Row(lambda: rf.ZoneoutLSTM(IN, OUT, forget_bias=0.5, parts_order="ifjo")),
    "ZoneoutLSTM, other output": Row(
        lambda: rf.ZoneoutLSTM(IN, OUT, zoneout_factor_output=0.2, use_zoneout_output=False)
    ),
    "GRU of labels": Row(lambda: rf.GRU(WORDS, OUT), in_dim=WORDS, sparse=True),
    "GRU into its own dim": Row(lambda: rf.GRU(OUT, OUT), in_dim=OUT),
    "BasicRNN into its own dim": Row(lambda: rf.BasicRNN(OUT, OUT), in_dim=OUT),
    "RHN of twice its dim": Row(lambda: rf.RHN(2 * OUT, OUT, depth=2), in_dim=2 * OUT),
    "LayerNormVariantsLSTM per gate": Row(
        lambda: rf.LayerNormVariantsLSTM(IN, OUT, global_norm=False, per_gate_norm=True, hidden_norm=True)
    ),
    "CausalSelfAttention": attention(rf.CausalSelfAttention),
    "RelPosCausalSelfAttention": attention(rf.RelPosCausalSelfAttention),
    "RelPosCausalSelfAttention, learned": attention(
        rf.RelPosCausalSelfAttention,
        learnable_pos_emb=True,
        learnable_pos_emb_clipping=2,
        separate_pos_emb_per_head=False,
    ),
    "RotaryPosCausalSelfAttention": attention(rf.RotaryPosCausalSelfAttention),
    "TransformerDecoder": decoder(),
    "TransformerDecoder as Llama": decoder(
        pos_enc=None,
        norm=rf.RMSNorm,
        ff=rf.FeedForwardGated,
        ff_dim=6,
        layer_opts={"self_att": rf.RotaryPosCausalSelfAttention},
    ),
}

every_module = pytest.mark.parametrize("row", MODULES.values(), ids=MODULES)


def test_every_module_that_has_a_state_is_in_the_table():
    classes = [cls for cls in vars(rf).values() if isinstance(cls, type) and issubclass(cls, rf.Module)]
    own = {cls for cls in classes if cls.default_initial_state is not rf.Module.default_initial_state}
    assert own - {rf.RecCell, rf.TransformerDecoderLayer} == {type(row.make()) for row in MODULES.values()}


@pytest.fixture(autouse=True)
def in_float64():
    with rf.set_default_float_dtype_ctx("float64"):
        yield


def made(row):
    """The module, with all parameters at random."""
    torch.manual_seed(1)
    module = row.make()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter.raw_tensor, std=0.5)
    return module


def sequences(row, lengths=LENGTHS):
    """A batch, and its time."""
    time, shape = rf.Dim(None, name="time"), (len(lengths), max(lengths, default=0))
    torch.manual_seed(2)
    if row.sparse:
        raw = torch.randint(row.in_dim.dimension, shape)
        return rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=row.in_dim, lengths=lengths), time
    raw = torch.randn(*shape, row.in_dim.dimension, dtype=torch.float64)
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, row.in_dim], lengths=lengths), time


def whole(row, module, x, time):
    batch = [dim for dim in x.dims if dim not in (time, row.in_dim)]
    return row.call(module, x, module.default_initial_state(batch_dims=batch), time)


def in_a_loop(row, module, x, time):
    batch = [dim for dim in x.dims if dim not in (time, row.in_dim)]
    loop = rf.Loop(axis=time)
    loop.state.module = module.default_initial_state(batch_dims=batch)
    with loop:
        y, loop.state.module = row.call(module, loop.unstack(x), loop.state.module, single_step_dim)
        y = loop.stack(y)
    return y, loop.state.module


def alone(row, raw):
    """One sequence without a batch."""
    time = rf.Dim(raw.shape[0], name="alone")
    if row.sparse:
        return rf.convert_to_tensor(raw, dims=[time], sparse_dim=row.in_dim), time
    return rf.convert_to_tensor(raw, dims=[time, row.in_dim]), time


def frames(y, time, row):
    """[batch, time, out], 0 behind the ends"""
    return y.copy_masked(0.0).copy_transpose([batch_dim, time, row.out]).raw_tensor


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def assert_same_states(row, found, expected):
    assert list(found) == list(expected)
    for name in found:
        dims = [batch_dim, row.out]
        assert_same(found[name].copy_transpose(dims).raw_tensor, expected[name].copy_transpose(dims).raw_tensor)


def gradients(module, y, time):
    total = rf.reduce_sum(rf.square(y), axis=y.dims)
    return torch.autograd.grad(total.raw_tensor, rf.torch_parameters(module))


@every_module
def test_in_a_loop(row):
    module, (x, time) = made(row), sequences(row)
    expected, state = whole(row, module, x, time)
    found, state_at_end = in_a_loop(row, module, x, time)
    assert_same(frames(found, time, row), frames(expected, time, row))
    if not row.grows:
        assert_same_states(row, state_at_end, state)
    for a, b in zip(gradients(module, found, time), gradients(module, expected, time), strict=True):
        assert_same(a, b)


@every_module
def test_in_a_loop_of_python(row):
    module, (x, time) = made(row), sequences(row)
    expected = frames(whole(row, module, x, time)[0], time, row)
    state = module.default_initial_state(batch_dims=[batch_dim])
    for t in range(max(LENGTHS)):
        frame = rf.gather(x, indices=t, axis=time, clip_to_valid=True)
        y, state = row.call(module, frame, state, single_step_dim)
        going_on = [b for b, length in enumerate(LENGTHS) if length > t]
        assert_same(y.copy_transpose([batch_dim, row.out]).raw_tensor[going_on], expected[going_on, t])


@every_module
@examples(4)
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_each_sequence_alone(row, lengths):
    module, (x, time) = made(row), sequences(row, lengths)
    y, state = whole(row, module, x, time)
    y = frames(y, time, row)
    for b, length in enumerate(lengths):
        single, own = alone(row, x.raw_tensor[b, :length])
        y_alone, state_alone = whole(row, module, single, own)
        assert_same(y_alone.copy_transpose([own, row.out]).raw_tensor, y[b, :length])
        if not row.grows:
            for name in state:
                assert_same(
                    state_alone[name].raw_tensor, state[name].copy_transpose([batch_dim, row.out]).raw_tensor[b]
                )


@every_module
def test_in_any_order_of_dims(row):
    module, (x, time) = made(row), sequences(row)
    expected, found = (whole(row, module, source, time) for source in (x, x.copy_transpose(x.dims[::-1])))
    assert_same(frames(found[0], time, row), frames(expected[0], time, row))


@every_module
def test_with_a_further_batch_dim(row):
    module, (x, time), pair = made(row), sequences(row), rf.Dim(2, name="pair")
    expected = frames(whole(row, module, x, time)[0], time, row)
    y, _ = whole(row, module, rf.expand_dim(x, pair), time)
    for i in range(2):
        assert_same(frames(rf.gather(y, indices=i, axis=pair), time, row), expected)


@every_module
def test_a_state_goes_on(row):
    module, (x, _) = made(row), sequences(row)
    y, _ = whole(row, module, *alone(row, x.raw_tensor[0]))
    first, state = whole(row, module, *alone(row, x.raw_tensor[0, :2]))
    rest, time = alone(row, x.raw_tensor[0, 2:])
    second, _ = row.call(module, rest, state, time)
    parts = [part.copy_transpose([time, row.out]).raw_tensor for part, time in ((first, first.dims[0]), (second, time))]
    assert_same(torch.cat(parts), y.raw_tensor)


@every_module
def test_a_state_without_the_batch_is_that_of_all(row):
    if row.grows:
        pytest.skip("its state has the frames of each sequence")
    module, (x, time) = made(row), sequences(row)
    expected, _ = whole(row, module, x, time)
    found, _ = row.call(module, x, module.default_initial_state(batch_dims=[]), time)
    assert_same(frames(found, time, row), frames(expected, time, row))


@every_module
def test_padding_changes_nothing(row):
    if row.sparse:
        return
    module, (x, time) = made(row), sequences(row)
    y, _ = whole(row, module, x, time)
    clean = frames(y, time, row), gradients(module, y, time)
    raw = x.raw_tensor.clone()
    for b, length in enumerate(LENGTHS):
        raw[b, length:] = 100.0 if row.grows else torch.nan
    dirty = rf.convert_to_tensor(raw, dims=x.dims, lengths=LENGTHS)
    y, _ = whole(row, module, dirty, time)
    assert_same((frames(y, time, row), gradients(module, y, time)), clean)
