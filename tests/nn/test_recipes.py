"""Mixed precision, seeds and saved random numbers, with recurrent, transformer and conformer models and in loops."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

import rfnb as rf
from rfnb import batch_dim

TIME = rf.Dim(None, name="time")
FEAT, MODEL, LETTER = rf.Dim(6, name="feat"), rf.Dim(8, name="model"), rf.Dim(5, name="letter")
SAMPLES = [
    {"x": torch.randn(length, 6, generator=torch.Generator().manual_seed(length)).numpy()} for length in (5, 3, 7, 1, 4)
]
collate = rf.collate({"x": [batch_dim, TIME, FEAT]})


class Recurrent(rf.Module):
    def __init__(self):
        self.rnn = rf.LSTM(FEAT, MODEL)

    def __call__(self, x):
        return self.rnn(x, state=self.rnn.default_initial_state(batch_dims=[batch_dim]), spatial_dim=TIME)[0]


class Looped(rf.Module):
    """A loop with attention, dropout and an LSTM step by step."""

    def __init__(self):
        self.query, self.rnn = rf.Linear(MODEL, FEAT), rf.LSTM(2 * FEAT, MODEL)

    def __call__(self, x):
        loop = rf.Loop(axis=TIME)
        loop.state.rnn = self.rnn.default_initial_state(batch_dims=[batch_dim])
        with loop:
            weights = rf.softmax(rf.matmul(x, self.query(loop.state.rnn.h), reduce=FEAT), axis=TIME)
            context = rf.dropout(rf.matmul(weights, x, reduce=TIME), 0.2)
            frame, _ = rf.concat((loop.unstack(x), FEAT), (context, FEAT), out_dim=2 * FEAT)
            h, loop.state.rnn = self.rnn(frame, state=loop.state.rnn, spatial_dim=rf.single_step_dim)
            out = loop.stack(h)
        return out


class Transformer(rf.Module):
    def __init__(self):
        self.input, self.layer = rf.Linear(FEAT, MODEL), rf.TransformerEncoderLayer(MODEL, num_heads=2)

    def __call__(self, x):
        return self.layer(self.input(x), spatial_dim=TIME)


class Conformer(rf.Module):
    def __init__(self):
        self.input = rf.Linear(FEAT, MODEL)
        self.layer = rf.ConformerEncoderLayer(MODEL, num_heads=2, conv_kernel_size=3)

    def __call__(self, x):
        return self.layer(self.input(x), spatial_dim=TIME)


class Tagger(rf.Module):
    def __init__(self, encoder):
        self.encoder, self.out = encoder(), rf.Linear(MODEL, LETTER)

    def __call__(self, x):
        """The mean over all valid frames."""
        target = rf.reduce_argmax(rf.slice(x, axis=FEAT, end=5, out_dim=LETTER)[0], axis=LETTER)
        logits = self.out(self.encoder(x))
        losses = rf.cross_entropy(estimated=logits, estimated_type="logits", target=target, axis=LETTER)
        return rf.reduce_mean(losses, axis=[batch_dim, TIME])


MODELS = [Recurrent, Looped, Transformer, Conformer]


def made(encoder, seed=3):
    rf.set_random_seed(seed)
    return Tagger(encoder)


def gradients(model):
    return [parameter.grad for parameter in rf.torch_parameters(model)]


@pytest.mark.parametrize("encoder", MODELS)
def test_bfloat16_agrees_with_float32(encoder):
    model = made(encoder)
    rf.init_forward_step_run_ctx()
    exact = model(collate(SAMPLES)["x"])
    exact.backward()
    expected = torch.cat([grad.flatten() for grad in gradients(model)])
    for parameter in rf.torch_parameters(model):
        parameter.grad = None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(collate(SAMPLES)["x"])
        assert rf.matmul(rf.ones([FEAT]), rf.ones([FEAT]), reduce=FEAT).dtype == "bfloat16"
    loss.backward()
    assert float(loss) == pytest.approx(float(exact), rel=0.03)
    assert not [word for word in rf.gradient_norms(model).bad.values() if word != "zero"]
    assert {parameter.dtype for parameter in model.parameters() if parameter.trainable} == {"float32"}
    got = torch.cat([grad.flatten() for grad in gradients(model)])
    assert got.dtype == torch.float32
    assert float((got - expected).norm()) < 0.1 * float(expected.norm())


@pytest.mark.parametrize("encoder", MODELS)
def test_it_learns_in_bfloat16(encoder):
    model = made(encoder)
    optimizer = torch.optim.Adam(rf.torch_parameters(model), lr=0.03)
    losses = []
    for _ in range(12):
        rf.init_train_step_run_ctx()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(collate(SAMPLES)["x"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.7 * losses[0]


def train(model, steps, optimizer=None):
    """Through a DataLoader that shuffles; gives the losses."""
    loader = DataLoader(SAMPLES, batch_size=2, shuffle=True, collate_fn=collate)
    optimizer = optimizer or torch.optim.Adam(rf.torch_parameters(model), lr=0.01)
    losses = []
    while len(losses) < steps:
        for batch in loader:
            rf.init_train_step_run_ctx(step=len(losses))
            loss = model(batch["x"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize("encoder", MODELS)
def test_a_seed_reproduces_a_run_bit_for_bit(encoder):
    first, second, other = (train(made(encoder, seed), 21) for seed in (3, 3, 4))
    assert first == second != other


@pytest.mark.parametrize("encoder", [Looped, Conformer])
def test_saved_random_numbers_go_on(encoder, tmp_path):
    straight = train(made(encoder), 12)
    model = made(encoder)
    optimizer = torch.optim.Adam(rf.torch_parameters(model), lr=0.01)
    begun = train(model, 6, optimizer)
    rf.save(model, tmp_path / "a.safetensors", training={"optimizer": optimizer})
    again = made(encoder, seed=9)
    optimizer = torch.optim.Adam(rf.torch_parameters(again), lr=0.01)
    rf.load(tmp_path / "a.safetensors", again, training={"optimizer": optimizer})
    assert begun + train(again, 6, optimizer) == straight


def test_the_state_of_random_numbers_alone():
    rf.set_random_seed(5)
    state = rf.get_random_state()
    draws = [rf.dropout(rf.ones([rf.Dim(50)]), 0.5, on_forward=True).tolist() for _ in range(2)]
    rf.set_random_state(state)
    assert [rf.dropout(rf.ones([rf.Dim(50)]), 0.5, on_forward=True).tolist() for _ in range(2)] == draws


ATTENTION = {"key_dim_total": MODEL, "value_dim_total": MODEL, "num_heads": 2}
OPTIONS = {"num_layers": 1, "num_heads": 2, "dropout": 0.0}


def calls(labels, x):
    conformer = rf.ConformerEncoder(FEAT, MODEL, input_layer=None, pos_enc=rf.sinusoidal_positional_encoding, **OPTIONS)
    decoder = rf.TransformerDecoder(None, LETTER, MODEL, **OPTIONS)
    causal = rf.RelPosCausalSelfAttention(FEAT, MODEL, **ATTENTION)

    def begin():
        return decoder.default_initial_state(batch_dims=[batch_dim])

    def steps():
        loop = rf.Loop(axis=TIME)
        loop.state.decoder = begin()
        with loop:
            frame, state = loop.unstack(labels), loop.state.decoder
            y, loop.state.decoder = decoder(frame, state=state, spatial_dim=rf.single_step_dim)
            ys = loop.stack(y)
        return ys

    return {
        "conformer": (conformer, lambda: conformer(x(), in_spatial_dim=TIME)[0]),
        "decoder": (decoder, lambda: decoder(labels, state=begin(), spatial_dim=TIME)[0]),
        "steps": (decoder, steps),
        "causal": (causal, lambda: causal(x(), axis=TIME)[0]),
    }


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["conformer", "decoder", "steps", "causal"])
def test_a_model_whose_parameters_have_another_dtype(name, dtype):
    rf.set_random_seed(3)
    rf.init_forward_step_run_ctx()
    frames = collate(SAMPLES)["x"]
    labels = rf.reduce_argmax(rf.slice(frames, axis=FEAT, end=5, out_dim=LETTER)[0], axis=LETTER)
    model, call = calls(labels, lambda: rf.cast(frames, next(model.parameters()).dtype))[name]
    expected = call()
    model.to(dtype=dtype)
    y = call()
    assert y.dtype == dtype
    far = rf.reduce_max(rf.abs(rf.cast(y, "float32") - expected), axis=y.dims)
    assert float(far) < (1e-5 if dtype == "float64" else 0.1) * float(rf.reduce_max(rf.abs(expected), axis=y.dims))
