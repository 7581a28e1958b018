"""Loops and models on a GPU beside plain torch: python tests/bench/bench_gpu.py [cpu] [names…]

At most ten minutes; each row that fails says why, and the others follow. Without a GPU, or with "cpu", small sizes run
on the CPU, to see that the script works. Milliseconds between two synchronizations, the median of rounds in turn.

    torch      in plain torch, as one would write it
    rfnb       the same as an `rf.Loop`, or as a model
    ratio      rfnb / torch
    syncs      how often rfnb waits for the GPU in a forward pass
    bf16       rfnb under `torch.autocast(dtype=torch.bfloat16)`
    graph      rfnb, captured once as a CUDA graph and replayed: all steps of the forward pass, or all steps forward and
               backward. Before the replay whose results are compared with those without a graph, the weights change.
    recorded   rfnb, as `rf.recording("last")` records it. The states stay on the device, within the budget.

The last line is the view of a tensor: how long it takes, and how much of the tensor it copies from the device.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).parent))

import bench_loop
import bench_train_step

import rfnb as rf
from rfnb.backend.torch.grad import TorchGrad

Way = Callable[[], torch.Tensor]
LARGE = torch.cuda.is_available() and "cpu" not in sys.argv
DEVICE = "cuda" if LARGE else "cpu"
ROUNDS = 11 if LARGE else 3


def of_loop(make: Callable[..., Any], *sizes: int) -> tuple[Way, Way]:
    """A loop over sequences of equal lengths."""
    ways = make(*sizes, unequal=False).ways()
    return ways["torch"], ways["rfnb"]


def rows() -> dict[str, Callable[[], tuple[Way, Way]]]:
    """By name: in torch, and here."""
    steps, size = (100, 256) if LARGE else (9, 16)
    of = functools.partial
    return {
        "rnn": of(of_loop, bench_loop.Rnn, 16, steps, size),
        "lstm": of(of_loop, bench_loop.Lstm, 16, steps, size),
        "lstm, batch 128": of(of_loop, bench_loop.Lstm, 128, steps, 4 * size),
        "attention": of(of_loop, bench_loop.Decoder, 8, steps, steps // 2, size, 1000),
        "conformer": of(bench_train_step.conformer, "mid" if LARGE else "tiny", padded=True),
        "transformer": of(bench_train_step.transformer, "mid" if LARGE else "tiny", padded=True),
    }


@contextmanager
def on_device() -> Iterator[None]:
    """New tensors are on the device, those of torch and ours."""
    with torch.device(DEVICE), rf.set_default_device_ctx(DEVICE):
        yield


def wait() -> None:
    """Until the device has done all."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def milliseconds(ways: list[Callable[[], Any]]) -> list[float]:
    """The median of each; the first round does not count."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS + 1):
        for taken, way in zip(times, ways, strict=True):
            wait()
            start = time.perf_counter()
            way()
            wait()
            taken.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken[1:]) for taken in times]


def syncs(way: Way) -> str:
    """How often a forward pass waits for the GPU."""
    if DEVICE != "cuda":
        return "–"
    way()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            way()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return str(sum("synchroniz" in str(one.message) for one in told))


def captured(run: Callable[[], list[torch.Tensor]]) -> tuple[Callable[[], object], list[torch.Tensor]]:
    """A CUDA graph of a call, and the tensors that each replay computes anew. On the CPU, a call whose results are
    copied there."""
    if DEVICE != "cuda":
        results = [result.detach().clone() for result in run()]
        return lambda: [old.copy_(new.detach()) for old, new in zip(results, run(), strict=True)], results
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # what is made in the first calls belongs to no graph
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        results = [result.detach() for result in run()]
    return recorded.replay, results


def graph(run: Callable[[], list[torch.Tensor]], weights: list[torch.Tensor]) -> str:
    """Milliseconds of a replay. Raises AssertionError if it computes anything else than a call."""
    replay, results = captured(run)
    with torch.no_grad():
        for weight in weights:
            weight.mul_(0.9)
        for result in results:
            result.fill_(torch.nan)
    replay()
    torch.testing.assert_close(results, [result.detach() for result in run()], rtol=1e-3, atol=1e-4)
    return f"{milliseconds([replay])[0]:.2f}" if DEVICE == "cuda" else "equal"


def recorded(way: Way) -> str:
    """Milliseconds of a recorded forward pass. Raises AssertionError if its states are elsewhere, or too many."""
    rf.runs.clear()
    with rf.recording("last"):
        [taken] = milliseconds([way])
    runs = [*rf.runs]
    devices = {raw.device.type for run in runs for raw in run.replay.final if isinstance(raw, torch.Tensor)}
    assert devices <= {DEVICE}, devices
    assert sum(run.bytes for run in runs) <= rf.options.trace_budget
    rf.runs.clear()
    return f"{taken:.2f}" if runs else "–"


def lines(ways: tuple[Way, Way]) -> Iterator[str]:
    """Forward, and forward with backward."""
    theirs, ours = ways

    def trained(way: Way, bf16: bool = False) -> None:
        with torch.autocast(DEVICE, torch.bfloat16) if bf16 else nullcontext():
            value = way()
        value.float().sum().backward()

    weights = TorchGrad.gradient_leaves_raw([ours()])
    weights = [weight for weight in dict.fromkeys(weights) if weight.requires_grad]

    def gradients() -> list[torch.Tensor]:
        value = ours()
        found = torch.autograd.grad(value.float().sum(), weights, allow_unused=True)
        return [value, *(gradient for gradient in found if gradient is not None)]

    with torch.no_grad():
        plain, own = milliseconds([theirs, ours])
        with torch.autocast(DEVICE, torch.bfloat16):
            [half] = milliseconds([ours])
        more = f"{syncs(ours):>8}{half:>10.2f}{shown(graph, lambda: [ours()], weights):>10}{shown(recorded, ours):>10}"
        yield f"forward{plain:>19.2f}{own:>10.2f}{own / plain:>8.2f}{more}"
    plain, own, half = milliseconds([lambda: trained(theirs), lambda: trained(ours), lambda: trained(ours, bf16=True)])
    more = f"{'':>8}{half:>10.2f}{shown(graph, gradients, weights):>10}"
    yield f"forward + backward{plain:>8.2f}{own:>10.2f}{own / plain:>8.2f}{more}"


def shown(measure: Callable[..., str], *given: Any) -> str:
    """A number, or the error that was raised instead."""
    try:
        return measure(*given)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]:.60}"


class Copies(TorchDispatchMode):
    """Counts the bytes that are copied from the device to the CPU."""

    n_bytes = 0

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        """Makes a call."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == "_to_copy" and args[0].device.type != result.device.type == "cpu":
            self.n_bytes += result.nbytes
        return result


def view() -> str:
    """How long the view of a tensor takes, and what it copies."""
    x = torch.randn(32, 200, 512)

    def draw() -> str:
        return str(rf.show(x, dims=["batch", "time", "feat"], lengths=[200 - 3 * n for n in range(32)]).html)

    [taken] = milliseconds([draw])
    with Copies() as copies:
        draw()
    return f"{taken:.2f} ms, copies {copies.n_bytes / 2**20:.2f} of {x.nbytes / 2**20:.1f} MiB"


def main(names: list[str]) -> None:
    """Prints the table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU: small sizes on the CPU", torch.__version__)
    print(
        f"{'ms':<18}{'':<18}{'torch':>8}{'rfnb':>10}{'ratio':>8}{'syncs':>8}{'bf16':>10}{'graph':>10}{'recorded':>10}"
    )
    for name, make in rows().items():
        if names and not any(part in name for part in names):
            continue
        try:
            with on_device():
                for line in lines(make()):
                    print(f"{name:<18}{line}", flush=True)
        except Exception as error:
            print(f"{name:<18}{type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
    with on_device():
        print(f"{'a view':<18}{shown(view)}")


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name != "cpu"])
