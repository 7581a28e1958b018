"""Tensors, modules and random states on the device: what is computed there is what the CPU computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from tests.gpu.loops import LOOPS, batch, loss
from tests.ops.batches import batch_of
from tests.ops.test_promises import CASES, results, valid

LENGTHS = [4, 0, 3]


def kind(device: str) -> str:
    return device.partition(":")[0]


def test_a_tensor_moves_there_and_back(device):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[batch_dim, time], device="cpu")
    there = rf.copy_to_device(x, device)
    assert there.device.startswith(kind(device))
    assert x.to(device).device == there.device
    assert (there * 2.0).device == there.device
    assert rf.reduce_sum(there, axis=time).numpy().tolist() == [3.0, 3.0]
    back = rf.copy_to_device(there, "cpu")
    assert back.device == "cpu"
    assert back.raw_tensor.equal(x.raw_tensor)
    assert time.get_size_tensor().device == "cpu"  # lengths stay where Python reads them
    assert time.get_mask().device == there.device


def test_new_tensors_are_made_on_the_default_device(device):
    feat = rf.Dim(3, name="feat")
    made = [
        rf.zeros([feat]),
        rf.range_over_dim(feat),
        rf.random_uniform([feat]),
        rf.Parameter([feat]),
        rf.Linear(feat, feat).weight,
    ]
    assert {x.device.partition(":")[0] for x in made} == {kind(device)}


def test_a_module_moves_with_its_gradients(device):
    with rf.set_default_device_ctx("cpu"):
        model = LOOPS["LSTM"]()
    model.to(device=device)
    assert {raw.device.type for raw in rf.torch_parameters(model)} == {kind(device)}
    loss(model, *batch(device, [5, 2])).backward()
    assert all(raw.grad is not None and raw.grad.device == raw.device for raw in rf.torch_parameters(model))


@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_there_what_it_gives_on_the_cpu(name, device):
    with rf.set_default_device_ctx("cpu"):
        here = batch_of(LENGTHS)
        expected = results(name, here)
    found = results(name, here.map(lambda _, x: rf.copy_to_device(x, device)))
    for ours, reference in zip(found, expected, strict=True):
        assert ours.device.startswith(kind(device))
        ours = rf.copy_to_device(ours, "cpu")
        for i, length in enumerate(LENGTHS):
            if length:
                a, b = valid(ours, i), valid(reference, i)
                np.testing.assert_allclose(a.astype("complex128"), b.astype("complex128"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_gives_there_what_it_gives_on_the_cpu(name, device):
    found = []
    for place in ("cpu", device):
        torch.manual_seed(3)
        with rf.set_default_device_ctx("cpu"):
            model = LOOPS[name]()
        model.to(device=place)
        with rf.set_default_device_ctx(place), rf.recording("last"):
            value = loss(model, *batch(place, [5, 2, 4]))
            value.backward()
        found.append([value.detach(), *(raw.grad for raw in rf.torch_parameters(model) if raw.grad is not None)])
    for ours, reference in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours.cpu(), reference, rtol=1e-3, atol=1e-4)


def test_a_recorded_run_is_replayed_there(device):
    x, time = batch(device, [5, 2])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([batch_dim, x.dims[2]])
    with loop:
        y = rf.dropout(loop.unstack(x), 0.5, on_forward=True)
        loop.state.s = loop.state.s + y
    assert [loop.run[i].check for i in range(5)] == ["replay agrees"] * 5
    assert loop.run[1].y.device.startswith(kind(device))
    assert rf.show(loop.run).text


def test_random_states_are_stored_and_restored(device):
    feat = rf.Dim(5, name="feat")
    state = rf.get_random_state()
    first = rf.random_normal([feat]).numpy()
    rf.set_random_state(state)
    assert (rf.random_normal([feat]).numpy() == first).all()
