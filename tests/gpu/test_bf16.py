"""Under autocast to bfloat16: loops and layers stay close to float32, padding has no effect, gradients are finite."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from tests.gpu.loops import LOOPS, batch, loss


def found(model, device, lengths, dtype):
    """The loss and the gradients of a batch; dtype: that of autocast, None without."""
    for raw in rf.torch_parameters(model):
        raw.grad = None
    x, time = batch(device, lengths)
    with torch.autocast(device.partition(":")[0], dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        value = loss(model, x, time)
    value.backward()
    return value.detach(), [raw.grad for raw in rf.torch_parameters(model) if raw.grad is not None]


@pytest.mark.parametrize("name", ["RNN", "LSTM", "decoder"])
def test_autocast_stays_close_to_single_precision(name, device, note):
    torch.manual_seed(0)
    model = LOOPS[name]()
    exact, exact_gradients = found(model, device, [7, 3, 5], None)
    value, gradients = found(model, device, [7, 3, 5], torch.bfloat16)
    note(f"{name}: loss {exact.item():.4f}, in bfloat16 {value.item():.4f}")
    torch.testing.assert_close(value.float(), exact, rtol=0.05, atol=0.05)
    for ours, reference in zip(gradients, exact_gradients, strict=True):
        assert ours.dtype == torch.float32
        assert ours.isfinite().all()
        assert (ours - reference).norm() <= 0.1 * reference.norm() + 0.05


@pytest.mark.parametrize("name", ["RNN", "LSTM", "decoder"])
def test_autocast_keeps_what_stands_in_padding_out(name, device):
    torch.manual_seed(0)
    model = LOOPS[name]()
    values = []
    for fill in (0.0, float("nan"), 1e30):
        x, time = batch(device, [7, 3, 5])
        raw = x.raw_tensor.detach().clone()
        raw[1, 3:], raw[2, 5:] = fill, fill
        x = rf.convert_to_tensor(raw.requires_grad_(), dims=x.dims, lengths=[7, 3, 5])
        with torch.autocast(device.partition(":")[0], dtype=torch.bfloat16):
            value = loss(model, x, time)
        value.backward()
        assert raw.grad.isfinite().all()
        values.append(value.detach())
    assert values[0] == values[1] == values[2]
