"""Training in several processes: what a model needs beside `torch.nn.parallel.DistributedDataParallel`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import distributed

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.reduce import reduce_sum

Batch = TypeVar("Batch")

__all__ = ["in_step", "mean"]
__dir__ = __all__.copy  # what is offered for completion: no imports


@guarded
def mean(losses: Tensor) -> Tensor:
    """This process's share of the mean over the valid frames of all processes. {…} → {}

    DDP averages the gradients of all processes, however many frames each has. With this loss, the average is the
    gradient of the mean over the frames of all processes, as if one process had the whole batch. Averaged over
    processes, the returned values are that mean. In a single process it is `rf.reduce_mean` over all dims.

    >>> time = rf.Dim(None, name="time")
    >>> losses = rf.convert_to_tensor([[1.0, 5.0], [3.0]], dims=[rf.batch_dim, time])
    >>> rf.distributed.mean(losses).raw_tensor.item()
    3.0

    All processes must call it equally often, those without data with an empty batch: see `rf.distributed.in_step`.
    """
    total = reduce_sum(losses, axis=losses.dims) if losses.dims else losses
    units = losses.like(torch.ones_like(losses.raw_tensor, dtype=torch.float32).detach())
    count = (reduce_sum(units, axis=units.dims) if units.dims else units).raw_tensor.detach().clone()
    if _several_processes():
        distributed.all_reduce(count)
        count /= distributed.get_world_size()
    count = torch.where(count > 0, count, 1).to(total.raw_tensor.dtype)
    return total.like(backend_of_raw(total.raw_tensor).combine_raw(total.raw_tensor, "truediv", count))


def in_step(batches: Iterable[Batch], *, empty: Batch) -> Iterator[Batch]:
    """Yields the batches, and then `empty` until all processes have reached the end of theirs.

    So all processes run the same number of steps. `empty` is a batch whose sequences have length 0. As padding never
    counts, such a step adds nothing to gradients or statistics, but takes part in communication between processes.

    >>> list(rf.distributed.in_step(["a", "b"], empty=""))
    ['a', 'b']
    """
    if not _several_processes():
        yield from batches
        return
    iterator = iter(batches)
    while True:
        batch = next(iterator, _end)
        remaining = torch.tensor(batch is not _end, dtype=torch.int64, device=_device())
        distributed.all_reduce(remaining)
        if not remaining:
            return
        yield empty if batch is _end else batch  # type: ignore[misc]


_end = object()


def _several_processes() -> bool:
    """Whether this is one of several processes."""
    return distributed.is_available() and distributed.is_initialized()


def _device() -> torch.device | str:
    """The device that tensors must have for the default process group."""
    if "gloo" in distributed.get_backend() or not torch.cuda.is_available():
        return "cpu"
    return torch.device("cuda", torch.cuda.current_device())
