"""Callbacks for trainers of other libraries: progress with curves, gradient norms, and the probes that follow it.

>>> sorted(rf.integrations.__all__)
['LightningCallback', 'TransformersCallback']

The libraries are imported when a callback is made.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from numbers import Real
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.source import ipython_shell, warn
from rfnb.core.ground.text import count_of
from rfnb.display.training.gradient_norms import gradient_norms
from rfnb.display.training.progress import Progress
from rfnb.errors import ParameterError
from rfnb.trace.plain.record import record_loop
from rfnb.trace.run.session import should_store, waits_for

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.hooks import RemovableHandle

Outputs = Mapping[str, object] | Sequence[object]

__all__ = ["LightningCallback", "TransformersCallback"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class _Steps:
    """The steps of a trainer, as a loop that is recorded, because a condition may hold it.

    pausing: is called before a pause. values: the batch, loss and gradients of the next step; None: there is none.
    """

    def __init__(self, name: str, pausing: Callable[[], object]):
        self._name, self._pausing = name, pausing
        self.values: tuple[object, object, Mapping[str, object]] | None = None
        self._loop = _loop(self)

    def __iter__(self) -> Iterator[tuple[object, object, Mapping[str, object]]]:
        record_loop(sys._getframe(1), self._name, caller="progress", stores=should_store(None), pausing=self._pausing)
        return iter(lambda: self.values, None)

    def take(self, values: tuple[object, object, Mapping[str, object]] | None) -> None:
        """The next step, or the end without one."""
        self.values = values
        next(self._loop, None)


def _loop(steps: _Steps) -> Iterator[None]:
    for batch, loss, gradients in steps:  # noqa: B007, they are looked at
        yield


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
        self._steps: Generator[None] | None = None
        self._held: _Steps | None = None  # with conditions
        self.batch: object = None  # the newest one
        self.loss: object = None
        self._ended = self._warned = False

    def begin(self, total: int | None) -> None:
        """The training begins, of so many steps. One that was interrupted has ended."""
        self.interrupt()
        self._ended = self._warned = False
        if (events := cell_events()) is not None and current_thread() is main_thread():
            events.register("post_run_cell", self.interrupt)
        self.progress = Progress(self._until_the_end(), total=total, name=self.name)
        self._steps = self.progress.unrecorded()

    def _until_the_end(self) -> Iterator[None]:
        while not self._ended:
            yield None

    def before_step(self) -> None:
        """A step begins, and the one before is done."""
        if self._steps is not None:
            next(self._steps, None)
            if self._held is None and self.progress is not None and waits_for(self.name):
                self._held = _Steps(self.name, self.progress._draw_now)

    @property
    def takes_values(self) -> bool:
        """Whether batches and losses are of use, as a condition may look at them."""
        return self._held is not None

    def before_optimizer(self, model: nn.Module, measure: str = "gradient_norm") -> None:
        """The gradients of a step are there; a condition may hold it. measure: the name of their norm."""
        self._report_norm(model, measure)
        if self._held is not None:
            gradients = {name: p.grad.detach() for name, p in model.named_parameters() if p.grad is not None}
            self._held.take((self.batch, self.loss, gradients))
        self.batch = self.loss = None

    def _report_norm(self, model: object, measure: str) -> None:
        if self.progress is None or self.every is None or self.progress.step % self.every:
            return
        norms = gradient_norms(model)
        self.progress.report(**{measure: norms.total})
        bad = {path: word for path, word in norms.bad.items() if word in ("NaN", "Inf")}
        if bad and not self._warned:
            self._warned = True
            examples = "; ".join(f"{path}: {word}" for path, word in [*bad.items()][:3])
            parameters = count_of(len(bad), "parameter")
            warn(f"the gradients of {parameters} are not finite at step {self.progress.step}: {examples}")

    def report(self, measures: Mapping[str, object]) -> None:
        """Measures of the step; what is not a number is left out."""
        numbers = {name: value for name, value in measures.items() if isinstance(value, Real) or hasattr(value, "item")}
        if self.progress is not None and numbers:
            self.progress.report(**numbers)

    def end(self) -> None:
        """The training ends."""
        self._ended = True
        self.before_step()
        self.interrupt()

    def interrupt(self, *cell: object) -> None:
        """The training ends where it is, by an error or an interrupt: its bar stays there."""
        steps, self._steps = self._steps, None
        self.batch = self.loss = None
        if self._held is not None:
            self._held.take(None)
            self._held = None
        if steps is not None:
            steps.close()
            if (events := cell_events()) is not None:
                with suppress(ValueError):  # of a training in another thread
                    events.unregister("post_run_cell", self.interrupt)


def cell_events() -> Any:
    """The events of the notebook, in which a cell may end while the trainer says nothing; None elsewhere."""
    shell = ipython_shell()
    return None if shell is None else shell.events


@cache
def _of_transformers() -> type:
    from transformers import TrainerCallback

    class OfTransformers(TrainerCallback):
        """What `TransformersCallback` gives."""

        def __init__(self, training: FollowedTraining):
            self._training = training
            self._hook: RemovableHandle | None = None  # on the model

        @property
        def progress(self) -> Progress[None] | None:
            return self._training.progress

        def on_train_begin(self, args: object, state: Any, control: object, model: Any = None, **_: object) -> None:
            if state.is_world_process_zero:
                self._training.begin(state.max_steps)
                self._hook = model.register_forward_hook(self._after_forward, with_kwargs=True)

        def _after_forward(self, model: nn.Module, args: object, kwargs: object, outputs: Outputs) -> None:
            if self._training.takes_values and model.training:
                self._training.batch = kwargs or args
                loss: object = outputs.get("loss") if isinstance(outputs, Mapping) else outputs[0]
                self._training.loss = loss.detach() if hasattr(loss, "detach") else None

        def on_pre_optimizer_step(
            self, args: object, state: object, control: object, model: Any = None, **others: object
        ) -> None:
            self._training.before_optimizer(model, "clipped_gradient_norm")

        def on_step_begin(self, args: object, state: object, control: object, **others: object) -> None:
            self._training.before_step()

        def on_log(self, args: object, state: object, control: object, logs: Any = None, **others: object) -> None:
            self._training.report({name: value for name, value in (logs or {}).items() if name != "epoch"})

        def on_train_end(self, args: object, state: object, control: object, **others: object) -> None:
            if self._hook is not None:
                self._hook.remove()
            self._training.end()

    return OfTransformers


@cache
def _of_lightning() -> type:
    name = "lightning.pytorch" if find_spec("lightning") else "pytorch_lightning"
    Callback: Any = import_module(name).Callback

    class OfLightning(Callback):
        """What `LightningCallback` gives."""

        def __init__(self, training: FollowedTraining):
            self._training = training
            self._done = -1  # steps of the optimizer when the newest one began

        @property
        def progress(self) -> Progress[None] | None:
            return self._training.progress

        def on_train_start(self, trainer: Any, pl_module: object) -> None:
            if trainer.is_global_zero:
                steps = trainer.estimated_stepping_batches
                self._done = -1
                self._training.begin(int(steps) if math.isfinite(steps) else None)

        def on_before_optimizer_step(self, trainer: object, pl_module: nn.Module, optimizer: object) -> None:
            self._training.before_optimizer(pl_module)

        def on_train_batch_start(self, trainer: Any, pl_module: object, batch: object, batch_idx: int) -> None:
            if trainer.global_step > self._done:  # other batches only add to the gradients
                self._done = trainer.global_step
                self._training.before_step()
            if self._training.takes_values:
                self._training.batch = batch

        def on_before_backward(self, trainer: object, pl_module: object, loss: torch.Tensor) -> None:
            if self._training.takes_values:
                self._training.loss = loss.detach()

        def on_train_batch_end(
            self, trainer: Any, pl_module: object, outputs: object, batch: object, batch_idx: int
        ) -> None:
            self._training.report(trainer.callback_metrics)

        def on_train_end(self, trainer: object, pl_module: object) -> None:
            self._training.end()

        def on_exception(self, trainer: object, pl_module: object, exception: BaseException) -> None:
            self._training.interrupt()

    return OfLightning


def TransformersCallback(every: int | None = 10, name: str = "training") -> Any:
    """A callback that follows a `Trainer` of Hugging Face, and has its history as `.progress`.

    >>> callback = rf.integrations.TransformersCallback(every=5)  # for Trainer(…, callbacks=[callback])
    >>> callback.progress is None  # before the training
    True

    What the trainer logs has curves, among them `grad_norm`; `clipped_gradient_norm` is the norm that is left after
    clipping. Probes follow the steps. A condition of `rf.pause_when` can hold the training before a step of the
    optimizer, with `batch`, `loss` and `gradients` (by parameter).

    Args:
        every: after how many steps of the optimizer the norm of all gradients is reported; NaN and Inf are warned of
            once; None: never.
        name: before the bar.

    Raises ParameterError for another `every`, ImportError without transformers.
    """
    return _of_transformers()(FollowedTraining(every, name))


def LightningCallback(every: int | None = 10, name: str = "training") -> Any:
    """A callback that follows a `Trainer` of Lightning, and has its history as `.progress`.

    >>> callback = rf.integrations.LightningCallback(every=5)  # doctest: +SKIP
    >>> lightning.Trainer(callbacks=[callback]).fit(module, loader)  # doctest: +SKIP

    What `self.log` logs has curves, probes follow the steps of the optimizer, and it pauses as with
    `TransformersCallback`.

    Args:
        every, name: as for `TransformersCallback`.

    Raises ParameterError for another `every`, ImportError without Lightning.
    """
    return _of_lightning()(FollowedTraining(every, name))
