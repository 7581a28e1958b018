"""Callbacks for trainers of other libraries: progress with curves, gradient norms, and the probes that follow it.

>>> sorted(rf.integrations.__all__)
['LightningCallback', 'TransformersCallback']

The classes are made when first asked for, as their libraries are imported then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.source import warn
from rfnb.core.ground.text import count_of
from rfnb.display.training.gradient_norms import gradient_norms
from rfnb.display.training.progress import Progress
from rfnb.errors import ParameterError

__all__ = ["LightningCallback", "TransformersCallback"]
__dir__ = __all__.copy  # what is offered for completion: no imports

if TYPE_CHECKING:
    LightningCallback: Callable[..., Any]
    TransformersCallback: Callable[..., Any]


class FollowedTraining:
    """The progress of a training whose loop belongs to a trainer.

    Args:
        every: after how many steps of the optimizer gradient norms are reported; None: never.
        name: before the bar.
        progress: the `rf.Progress` of the training that runs, or ran.
    """

    def __init__(self, every: int | None = 10, name: str = "training"):
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise ParameterError(
                "integrations: `every` is not a number of steps", got=repr(every), expected="1 or more"
            )
        self.every, self.name = every, name
        self.progress: Progress[None] | None = None
        self._steps: Iterator[None] = iter(())
        self._ended = self._warned = False

    def begin(self, total: int | None) -> None:
        """The training begins, of so many steps."""
        self._ended = self._warned = False
        self.progress = Progress(self._until_the_end(), total=total, name=self.name)
        self._steps = self.progress.unrecorded()

    def _until_the_end(self) -> Iterator[None]:
        while not self._ended:
            yield None

    def before_step(self) -> None:
        """A step begins, and the one before is done."""
        next(self._steps, None)

    def before_optimizer(self, model: Any) -> None:
        """The gradients of a step are there."""
        if self.progress is None or self.every is None or self.progress.step % self.every:
            return
        norms = gradient_norms(model)
        self.progress.report(gradient_norm=norms.total)
        bad = {path: word for path, word in norms.bad.items() if word in ("NaN", "Inf")}
        if bad and not self._warned:
            self._warned = True
            first = "; ".join(f"{path}: {word}" for path, word in [*bad.items()][:3])
            parameters = count_of(len(bad), "parameter")
            warn(f"the gradients of {parameters} are not finite at step {self.progress.step}: {first}")

    def report(self, measures: Mapping[str, Any]) -> None:
        """Measures of the step; what is not a number is left out."""
        numbers = {name: value for name, value in measures.items() if isinstance(value, Real) or hasattr(value, "item")}
        if self.progress is not None and numbers:
            self.progress.report(**numbers)

    def end(self) -> None:
        """The training ends."""
        self._ended = True
        next(self._steps, None)


@cache
def _of_transformers() -> type:
    from transformers import TrainerCallback

    class TransformersCallback(TrainerCallback):
        """Follows a `Trainer` of Hugging Face: `Trainer(…, callbacks=[rf.integrations.TransformersCallback()])`.

        `.progress` has the history: what the trainer logs, and gradient norms after clipping every few steps, as in
        `FollowedTraining`. To pause, record its loop: `rf.record_loops(Trainer._inner_training_loop)`.
        """

        def __init__(self, every: int | None = 10, name: str = "training"):
            self._training = FollowedTraining(every, name)

        @property
        def progress(self) -> Progress[None] | None:
            return self._training.progress

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.is_world_process_zero:
                self._training.begin(state.max_steps)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
            self._training.before_optimizer(model)

        def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self._training.before_step()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            self._training.report({name: value for name, value in (logs or {}).items() if name != "epoch"})

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self._training.end()

    return TransformersCallback


@cache
def _of_lightning() -> type:
    name = "lightning.pytorch" if find_spec("lightning") else "pytorch_lightning"
    Callback: Any = import_module(name).Callback

    class LightningCallback(Callback):
        """Follows a `Trainer` of Lightning: `Trainer(callbacks=[rf.integrations.LightningCallback()])`.

        `.progress` has the history: what `self.log` logs, and gradient norms every few steps. Arguments are those of
        `FollowedTraining`.
        """

        def __init__(self, every: int | None = 10, name: str = "training"):
            self._training = FollowedTraining(every, name)
            self._done = -1  # steps of the optimizer when the newest one began

        @property
        def progress(self) -> Progress[None] | None:
            return self._training.progress

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.is_global_zero:
                steps = trainer.estimated_stepping_batches
                self._done = -1
                self._training.begin(int(steps) if math.isfinite(steps) else None)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            self._training.before_optimizer(pl_module)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            if trainer.global_step > self._done:  # other batches only add to the gradients
                self._done = trainer.global_step
                self._training.before_step()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._training.report(trainer.callback_metrics)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._training.end()

    return LightningCallback


def __getattr__(name: str) -> Any:
    """A callback, whose library is imported. Raises AttributeError for other names."""
    makers = {"TransformersCallback": _of_transformers, "LightningCallback": _of_lightning}
    if name not in makers:
        raise AttributeError(f"rf.integrations has no {name!r}: {', '.join(__all__)}", name=name)
    return makers[name]()
