"""Training in several processes: what a model needs beside `torch.nn.parallel.DistributedDataParallel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import distributed

from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, ParameterError
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
        batch: Any = next(iterator, _end)
        remaining = torch.tensor(batch is not _end, dtype=torch.int64, device=_device())
        distributed.all_reduce(remaining)
        if not remaining:
            return
        yield empty if batch is _end else batch


class ParameterAverage:
    """Parameters that are averaged over all processes every few steps of their optimizer: see `average_parameters`."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        every: int,
        buffers: Sequence[torch.Tensor],
        scaler: torch.amp.GradScaler | None,
    ):
        self.every, self.step = every, 0
        self._optimizer, self._buffers, self._scaler = optimizer, buffers, scaler
        if scaler is None:
            self._hook = optimizer.register_step_post_hook(lambda *_: self._after_step())
        else:
            scaler.step = self._counted(scaler.step)  # type: ignore[method-assign]

    def _counted(self, step: Callable[..., object]) -> Callable[..., Any]:
        """The method `step` of the scaler, with each call counted: also one that takes no step of the optimizer."""

        def counted(optimizer: torch.optim.Optimizer, *args: object, **kwargs: object) -> Any:
            result = step(optimizer, *args, **kwargs)
            if optimizer is self._optimizer and self._scaler is not None:
                self._after_step()
            return result

        return counted

    def _after_step(self) -> None:
        self.step += 1
        if self.step % self.every == 0 and _several_processes():
            self._average(self.step)

    def now(self) -> None:
        """Averages them now; all processes must call it. For the end of an epoch, before the model is saved."""
        if _several_processes():
            self._average(0)

    @torch.no_grad()
    def _average(self, step: int) -> None:
        """step: at which all processes have to be. Raises LoopError in all of them if they are not."""
        steps = torch.tensor([step, -step], device=_device())
        distributed.all_reduce(steps, distributed.ReduceOp.MAX)
        last, first = steps[0].item(), -steps[1].item()
        if first != last:
            raise LoopError(
                "average_parameters: the processes do not average at the same step",
                got=" and ".join("`now()`" if number == 0 else f"step {number}" for number in (first, last)),
                expected="the same number of steps in all processes",
                hint="scaler=… if a GradScaler skips steps; rf.distributed.in_step(batches, empty=…) for other batches",
            )
        parameters = [parameter for group in self._optimizer.param_groups for parameter in group["params"]]
        for value in [*parameters, *self._buffers]:
            exact = value.detach().to(torch.promote_types(value.dtype, torch.float32))  # sums of float16 overflow
            distributed.all_reduce(exact)
            value.copy_(exact / distributed.get_world_size())

    def remove(self) -> None:
        """Averages no more."""
        if self._scaler is None:
            self._hook.remove()
        self._scaler = None


@guarded
def average_parameters(
    optimizer: torch.optim.Optimizer,
    *,
    every: int = 100,
    model: torch.nn.Module | None = None,
    scaler: torch.amp.GradScaler | None = None,
) -> ParameterAverage:
    """Averages parameters over all processes after every few steps, in place of gradients in each step.

    Each process trains its own copy in between, so that they wait for each other `every` steps only. Local SGD, as in
    "Don't Use Large Mini-Batches, Use Local SGD" (Lin et al., 2020).

    >>> feat = rf.Dim(3, name="feat")
    >>> model = rf.Linear(feat, feat)
    >>> optimizer = torch.optim.SGD(rf.torch_parameters(model), lr=0.1)
    >>> average = rf.average_parameters(optimizer, every=50)
    >>> for _ in range(100):
    ...     optimizer.step()
    >>> average.step
    100
    >>> average.now()  # at the end, before the model is saved

    All processes must take the same number of steps (`rf.distributed.in_step`). In a single process nothing is changed.

    Args:
        optimizer: the parameters are those of all its groups. Its own state, such as momenta, stays with each process.
        every: the number of steps between two averages.
        model: of torch, such as `rf.to_torch(model)`; its floating-point buffers, such as the statistics of batch norm,
            are averaged too.
        scaler: the GradScaler that takes the steps. It skips one where gradients overflow, perhaps in one process only,
            so that its calls are counted instead of the steps.

    Raises ParameterError for other arguments.
    """
    for name, value, fits, expected in (
        ("optimizer", optimizer, isinstance(optimizer, torch.optim.Optimizer), "an optimizer of torch"),
        ("every", every, isinstance(every, int) and not isinstance(every, bool) and every > 0, "a number of steps"),
        ("model", model, isinstance(model, torch.nn.Module | None), "a module of torch, or None"),
        ("scaler", scaler, isinstance(scaler, torch.amp.GradScaler | None), "a torch.amp.GradScaler, or None"),
    ):
        if not fits:
            raise ParameterError(
                f"average_parameters: `{name}` is of the wrong kind", got=f"{type(value).__name__} {value!r:.40}",
                expected=expected, hint="rf.to_torch(model)" if name == "model" else None,
            )  # fmt: skip
    buffers = [] if model is None else [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    return ParameterAverage(optimizer, every, buffers, scaler)


_end = object()


def _several_processes() -> bool:
    """Whether this is one of several processes."""
    return distributed.is_available() and distributed.is_initialized()


def _device() -> torch.device | str:
    """The device that tensors must have for the default process group."""
    if "gloo" in distributed.get_backend() or not torch.cuda.is_available():
        return "cpu"
    return torch.device("cuda", torch.cuda.current_device())
