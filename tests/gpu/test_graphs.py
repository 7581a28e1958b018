"""All steps of a loop, forward and backward, are one CUDA graph. On the CPU, nothing is read that a capture refuses."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from tests.gpu.loops import LOOPS, batch, loss
from tests.gpu.test_syncs import counting


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "forward and backward"])
@pytest.mark.parametrize("name", [name for name in LOOPS if name != "search"])
def test_all_steps_of_a_loop_are_one_graph(name, gradients, device):
    torch.manual_seed(0)
    model, (x, time) = LOOPS[name](), batch(device, [8, 5, 8])
    weights = [raw for raw in rf.torch_parameters(model) if raw.requires_grad]

    def run() -> list[torch.Tensor]:
        with torch.set_grad_enabled(gradients):
            value = loss(model, x, time)
        return [value.detach(), *(torch.autograd.grad(value, weights) if gradients else ())]

    if not device.startswith("cuda"):
        run()  # afterwards lengths are where they are needed
        with counting(device) as found:
            run()
        assert found == [0]
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()
    with torch.no_grad():
        for weight in weights:
            weight.mul_(0.9)
    graph.replay()
    torch.testing.assert_close(results, run(), rtol=1e-4, atol=1e-5)
