"""What a forward call is for: training or not, which step, and what it gave back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict


@dataclass
class Loss:
    """A loss that a model marked, and how it enters the total."""

    tensor: Tensor
    name: str
    scale: float = 1.0
    as_error: bool = False
    custom_inv_norm_factor: Tensor | None = None


class RunCtx:
    """The context of a forward call; modules ask it whether they train."""

    def __init__(
        self,
        *,
        stage: str,
        train_flag: bool = False,
        step: int = 0,
        epoch: int = 1,
        expected_outputs: TensorDict | None = None,
    ):
        self.stage = stage
        self.step = step
        self.epoch = epoch
        self.expected_outputs = expected_outputs
        self.losses: dict[str, Loss] = {}
        self.outputs = TensorDict()
        self._train_flag = train_flag

    @property
    def train_flag(self) -> bool:
        """Whether this is training: dropout is on, statistics are updated."""
        return self._train_flag

    def is_train_flag_enabled(self, *, func: object = None) -> bool:
        """Likewise, for one function."""
        return self._train_flag

    @contextmanager
    def train_flag_ctx(self, train_flag: bool, *, func: object = None) -> Iterator[None]:
        """Another train flag inside the block."""
        before, self._train_flag = self._train_flag, train_flag
        try:
            yield
        finally:
            self._train_flag = before

    def mark_as_loss(
        self,
        loss: Tensor,
        name: str,
        *,
        scale: float = 1.0,
        as_error: bool = False,
        custom_inv_norm_factor: Tensor | None = None,
    ) -> None:
        """Adds a loss; `total_loss` sums those that are no mere error measures."""
        self.losses[name] = Loss(loss, name, scale, as_error, custom_inv_norm_factor)

    def mark_as_output(self, tensor: Tensor, name: str, *, dims: tuple[Dim, ...] | None = None) -> None:
        """Keeps a tensor as an output of the model."""
        self.outputs[name] = tensor.copy_transpose(dims) if dims is not None else tensor


_current: ContextVar[RunCtx | None] = ContextVar("rfnb_run_ctx", default=None)


def get_run_ctx() -> RunCtx:
    """The current context; one for forward calls without training if none was begun."""
    ctx = _current.get()
    if ctx is None:
        ctx = RunCtx(stage="init")
        _current.set(ctx)
    return ctx


def init_train_step_run_ctx(*, train_flag: bool = True, step: int = 0, epoch: int = 1) -> RunCtx:
    """Begins a training step."""
    ctx = RunCtx(stage="train_step", train_flag=train_flag, step=step, epoch=epoch)
    _current.set(ctx)
    return ctx


def init_forward_step_run_ctx(*, expected_outputs: TensorDict | None = None, step: int = 0, epoch: int = 1) -> RunCtx:
    """Begins a forward step, without training."""
    ctx = RunCtx(stage="forward_step", step=step, epoch=epoch, expected_outputs=expected_outputs)
    _current.set(ctx)
    return ctx


def get_run_ctx_step() -> int:
    """The number of the training step."""
    return get_run_ctx().step
