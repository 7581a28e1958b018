"""Runs a function beside a training, which goes on as if nothing had run."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from rfnb.core.ground import raw as raw_registry
from rfnb.core.run.run_ctx import RunCtx, entered
from rfnb.core.tensor.listener import listening
from rfnb.trace.pause.hold import undisturbed


@contextmanager
def beside_training(modules: Iterable[Any], step: int) -> Iterator[None]:
    """Evaluation mode inside the block. Random numbers, gradients, statistics and run context are those from before.

    modules: of torch; those that are called inside are found even without being named here.
    """
    from rfnb.backend.torch.evaluation import evaluating

    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        stack.enter_context(undisturbed(raw_registry.selected()))
        stack.enter_context(listening(None))
        stack.enter_context(entered(RunCtx(stage="forward_step", step=step)))
        stack.enter_context(evaluating(modules))
        yield
