"""Runs a function beside a training, which goes on as if nothing had run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from rfnb.core.run_ctx import RunCtx, entered
from rfnb.core.tensor.listener import listening
from rfnb.trace.run.random_numbers import OwnNumbers


@contextmanager
def beside_training(modules: Iterable[Any], step: int, numbers: OwnNumbers) -> Iterator[None]:
    """Evaluation mode inside the block. Gradients, statistics, random numbers and run context are those from before.

    Args:
        modules: of torch; those that are called inside are found even without being named here.
        step: of the training.
        numbers: the random numbers that are drawn inside.
    """
    from rfnb.backend.torch.module_state import evaluating

    with ExitStack() as stack:
        stack.enter_context(numbers)
        stack.enter_context(listening(None))
        stack.enter_context(entered(RunCtx(stage="forward_step", step=step)))
        stack.enter_context(evaluating(modules))
        yield
