"""Types of the functions in a training config."""

from __future__ import annotations

from typing import Any, Protocol

from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.nn.module.module import Module


class GetModelFunc(Protocol):
    """A function that makes the model: `get_model(epoch=…, step=…)`. It must accept further keyword arguments.

    >>> def get_model(*, epoch: int, step: int, **_: object) -> rf.Module:
    ...     return rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> make: rf.GetModelFunc = get_model
    """

    def __call__(self, *, epoch: int, step: int, **kwargs: Any) -> Module:
        """Returns the model for this epoch and step."""


class StepFunc(Protocol):
    """A training step or forward step: `train_step(model=…, extern_data=…)` marks losses or outputs.

    >>> def train_step(*, model: rf.Module, extern_data: rf.TensorDict, **_: object) -> None:
    ...     model(extern_data["data"]).mark_as_loss("loss")
    >>> step: rf.StepFunc = train_step
    """

    def __call__(self, *, model: Module, extern_data: TensorDict, **kwargs: Any) -> None:
        """Marks losses or outputs in the current run context."""
