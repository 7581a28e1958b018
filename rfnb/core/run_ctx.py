"""The context of a forward call: whether it trains, which step it is, and the losses and outputs that it marks."""

from __future__ import annotations

import functools
import operator
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground import backends
from rfnb.core.tensor.op import OPS, door, method_of
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.errors import DimError, DtypeError, OptionError, ParameterError, RfError


@dataclass
class Loss:
    """A loss that a model marked, and how it enters the total.

    Args:
        loss: {…}, for example one value for each sequence or frame.
        scale: the weight of this loss in the total.
        as_error: whether it is only reported, and does not enter the total.
        use_normalized_loss: whether the mean enters the total instead of the sum.
        use_flatten_frames: accepted for compatibility; the sum is the same either way, since padding never counts.
        custom_inv_norm_factor: the divisor of the mean, summed over its dims, instead of the number of valid entries.

    >>> time = rf.Dim(None, name="time")
    >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
    >>> loss = rf.Loss(frames, "ce", scale=0.5, use_normalized_loss=True)  # 99 is padding
    >>> loss.get_summed_loss().item(), loss.get_mean_loss().item(), loss.get_scaled_reduced_loss().item()
    (9.0, 3.0, 1.5)
    """

    loss: Tensor
    name: str
    scale: float = 1.0
    as_error: bool = False
    use_normalized_loss: bool = False
    use_flatten_frames: bool = True
    custom_inv_norm_factor: Tensor | None = None

    def get_summed_loss(self) -> Tensor:
        """The sum over all valid entries. → {}

        >>> time = rf.Dim(None, name="time")
        >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
        >>> rf.Loss(frames, "ce").get_summed_loss().item()  # 99 is padding
        9.0
        """
        return _all(self.loss, "sum")

    def get_mean_loss(self) -> Tensor:
        """The sum divided by the norm factor: the mean over all valid entries, unless there is a custom factor. → {}

        >>> time = rf.Dim(None, name="time")
        >>> frames = rf.convert_to_tensor([[1.0, 3.0], [5.0, 99.0]], dims=[rf.batch_dim, time], lengths=[2, 1])
        >>> by_sequence = rf.Loss(frames, "ce", custom_inv_norm_factor=rf.ones([rf.batch_dim]))
        >>> rf.Loss(frames, "ce").get_mean_loss().item(), by_sequence.get_mean_loss().item()  # 99 is padding
        (3.0, 4.5)
        """
        if self.custom_inv_norm_factor is None:
            return _all(self.loss, "mean")
        return operator.truediv(self.get_summed_loss(), _op("cast", self.get_inv_norm_factor(), self.loss.dtype))

    def get_inv_norm_factor(self) -> Tensor:
        """The divisor of the mean: the custom factor, or the number of valid entries. → {}

        >>> rf.Loss(rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")]), "ce").get_inv_norm_factor().item()
        5
        """
        if self.custom_inv_norm_factor is not None:
            return _all(self.custom_inv_norm_factor, "sum")
        return _all(_op("ones_like", _op("cast", self.loss, "int64")), "sum")

    def get_scaled_reduced_loss(self) -> Tensor:
        """The value that enters the total: the sum or mean, times the scale. → {}

        >>> frames = rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")])
        >>> rf.Loss(frames, "ce", scale=0.1).get_scaled_reduced_loss().item()
        0.5
        """
        loss = self.get_mean_loss() if self.use_normalized_loss else self.get_summed_loss()
        return loss if self.scale == 1 else operator.mul(loss, self.scale)


def _all(x: Tensor, mode: str) -> Tensor:
    return _op("reduce", x, mode=mode, axis=x.dims) if x.dims else x


def _op(name: str, *args: object, **kwargs: object) -> Tensor:
    result: Tensor = door(OPS[name], args, kwargs)
    return result


class RunCtx:
    """The context of a forward call: it holds the train flag, and collects the losses and outputs that modules mark.

    Args:
        stage: "train_step", "forward_step", or "init" if no step was begun.
        expected_outputs: templates by name; only these may be marked as outputs, with these dims and dtypes.

    >>> ctx = rf.init_train_step_run_ctx(step=7)
    >>> ctx.stage, ctx.step, ctx.train_flag, rf.get_run_ctx() is ctx
    ('train_step', 7, True, True)
    """

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
        self._default_flags: dict[object, bool] = {None: train_flag}
        self._train_flags = self._default_flags  # by function; None: all other functions

    def again(self) -> RunCtx:
        """A copy of this context in which nothing is marked yet.

        >>> ctx = rf.init_train_step_run_ctx(step=7)
        >>> ctx.mark_as_loss(rf.ones([]), "ce")
        >>> list(ctx.losses), list(ctx.again().losses), ctx.again().step
        (['ce'], [], 7)
        """
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), losses={}, outputs=TensorDict())
        return copy

    @property
    def train_flag(self) -> bool:
        """Whether this is training: dropout is applied, and running statistics are updated."""
        return self._train_flags[None]

    @property
    def is_undecided(self) -> bool:
        """Whether it is not training only because neither a step nor a block of `train_flag_ctx` was begun.

        >>> rf.init_forward_step_run_ctx().is_undecided
        False
        """
        return self.stage == "init" and self._train_flags is self._default_flags

    def is_train_flag_enabled(self, *, func: object = None) -> bool:
        """Whether this is training for one function: `train_flag`, unless a `train_flag_ctx` sets it for `func`.

        >>> ctx = rf.init_train_step_run_ctx()
        >>> with ctx.train_flag_ctx(False, func=rf.dropout):
        ...     ctx.is_train_flag_enabled(func=rf.dropout), ctx.is_train_flag_enabled()
        (False, True)
        """
        return self._train_flags.get(func, self._train_flags[None])

    @contextmanager
    def train_flag_ctx(self, train_flag: bool, *, func: object | Sequence[object] = None) -> Iterator[None]:
        """Changes the train flag inside the block: for all functions, or only for `func`, which is one or several.

        >>> ctx = rf.init_train_step_run_ctx()
        >>> with ctx.train_flag_ctx(False, func=rf.dropout):
        ...     ctx.is_train_flag_enabled(func=rf.dropout), ctx.train_flag
        (False, True)
        """
        functions = func if isinstance(func, list | tuple) else [func]
        before, self._train_flags = self._train_flags, {**self._train_flags, **dict.fromkeys(functions, train_flag)}
        try:
            yield
        finally:
            self._train_flags = before

    def mark_as_loss(
        self,
        loss: Tensor | object,
        name: str,
        *,
        dims: Sequence[Dim] | None = None,
        scale: float = 1.0,
        as_error: bool = False,
        use_normalized_loss: bool = False,
        use_flatten_frames: bool = True,
        custom_inv_norm_factor: Tensor | None = None,
    ) -> None:
        """Adds a loss, which enters `total_loss` unless it is `as_error`; see `rf.Loss`.

        dims: the dims of `loss`, if that is a raw tensor; otherwise its first axis is the batch, and the others get new
            dims.

        >>> ctx = rf.init_train_step_run_ctx()
        >>> ctx.mark_as_loss(rf.ones([rf.Dim(3, name="words")]), "ce", scale=0.1)
        >>> ctx.mark_as_loss(rf.ones([]), "wrong", as_error=True)
        >>> list(ctx.losses), round(ctx.total_loss().item(), 2)
        (['ce', 'wrong'], 0.3)
        """
        self._check_new(name, self.losses, "loss")
        loss = _tensor(loss, name, dims)
        self.losses[name] = Loss(
            loss, name, scale, as_error, use_normalized_loss, use_flatten_frames, custom_inv_norm_factor
        )

    def total_loss(self) -> Tensor | float:
        """The sum of the marked losses, each as it was marked; `.raw_tensor.backward()` gives the gradients. → {}

        >>> ctx = rf.init_train_step_run_ctx()
        >>> w = rf.Parameter([], initial=3.0)
        >>> (w * w).mark_as_loss("square")
        >>> ctx.total_loss().raw_tensor.backward()
        >>> w.raw_tensor.grad.item()
        6.0
        """
        parts = [loss.get_scaled_reduced_loss() for loss in self.losses.values() if not loss.as_error]
        return functools.reduce(operator.add, parts) if parts else 0.0

    def mark_as_output(self, tensor: Tensor | object, name: str, *, dims: Sequence[Dim] | None = None) -> None:
        """Keeps a tensor as an output, with its axes in the order of `dims` or of the expected output.

        These are also the dims of a raw tensor. Without them, its first axis is the batch, and the others get new dims.

        >>> ctx = rf.init_forward_step_run_ctx()
        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> ctx.mark_as_output(rf.ones([feat, time]), "logits", dims=[time, feat])
        >>> ctx.outputs["logits"].raw_tensor.shape
        torch.Size([5, 3])

        Raises DimError or DtypeError if it does not match the expected output.
        """
        self._check_new(name, self.outputs.data, "output")
        expected = self._expected(name)
        order = expected.dims if dims is None and expected is not None else dims
        tensor = _tensor(tensor, name, dims if isinstance(tensor, Tensor) else order)
        if expected is not None:
            tensor.verify_out_shape(expected.dims)
            if tensor.dtype != expected.dtype:
                raise DtypeError(
                    f"mark_as_output: {name!r} has the wrong dtype", got=tensor.dtype, expected=expected.dtype
                )
        self.outputs[name] = (tensor if order is None else tensor.copy_transpose(order)).with_name(name)

    def _expected(self, name: str) -> Tensor | None:
        """The template of an output; None if all outputs are allowed."""
        if self.expected_outputs is None:
            return None
        if name not in self.expected_outputs:
            raise DimError(
                f"mark_as_output: {name!r} is not an expected output",
                got=name,
                expected=", ".join(self.expected_outputs),
            )
        return self.expected_outputs.data[name]

    def mark_as_default_output(self, tensor: Tensor | object, *, shape: Sequence[Dim] | None = None) -> None:
        """Keeps a tensor as the output named "output".

        >>> ctx = rf.init_forward_step_run_ctx()
        >>> ctx.mark_as_default_output(rf.ones([rf.Dim(3, name="feat")]))
        >>> list(ctx.outputs)
        ['output']
        """
        self.mark_as_output(tensor, "output", dims=shape)

    def check_outputs_complete(self) -> None:
        """Raises DimError if an expected output was not marked.

        >>> out = rf.Dim(3, name="out")
        >>> expected = rf.TensorDict([rf.Tensor("logits", [out], "float32"), rf.Tensor("best", [], "int64")])
        >>> ctx = rf.init_forward_step_run_ctx(expected_outputs=expected)
        >>> rf.ones([out]).mark_as_output("logits")
        >>> ctx.check_outputs_complete()
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: the output 'best' was not marked
        ...
        """
        missing = [name for name in self.expected_outputs or () if name not in self.outputs]
        if missing:
            raise DimError(
                f"the output {missing[0]!r} was not marked",
                got=", ".join(self.outputs) or "none",
                expected=", ".join(self.expected_outputs or ()),
                hint=f"tensor.mark_as_output({missing[0]!r})",
            )

    def _check_new(self, name: str, known: Mapping[str, object], what: str) -> None:
        if not isinstance(name, str):
            raise ParameterError(f"mark_as_{what}: the name is not a string", got=type(name).__name__)
        if name in known and self.stage != "init":  # a cell may be run again without a new step
            raise RfError(
                f"mark_as_{what}: the {what} {name!r} already exists",
                got=", ".join(known),
                expected="a different name for each one in a step",
                hint="rf.init_train_step_run_ctx() or rf.init_forward_step_run_ctx() begins the next step",
            )


def _tensor(value: object, name: str, dims: Sequence[Dim] | None) -> Tensor:
    if not isinstance(value, Tensor):
        return _of_batch(value, name) if dims is None else Tensor(name, dims, raw_tensor=value)
    if dims is not None:
        value.verify_out_shape(dims)
    return value


def _of_batch(raw: RawTensor, name: str) -> Tensor:
    """A raw tensor without dims: its first axis is the batch, and each other one gets a new Dim. Binds no dim."""
    shape = backends.backend_of_raw(raw).get_shape_tuple_raw(raw)
    dims = [batch_dim, *(Dim(size, name=f"{name}.{axis}") for axis, size in enumerate(shape[1:], 1))][: len(shape)]
    lengths = current_lengths([batch_dim])
    bound, size = lengths.size(batch_dim), Size([], shape[0] if shape else 1)
    if bound is None or not bound.agrees(size):
        lengths = EMPTY.bind({batch_dim: size})
    return tensor_of(raw, align.sig(dims), lengths).with_name(name)


@method_of(Tensor)
def mark_as_loss(
    self: Tensor,
    name: str,
    *,
    scale: float = 1.0,
    as_error: bool = False,
    use_normalized_loss: bool = False,
    use_flatten_frames: bool = True,
    custom_inv_norm_factor: Tensor | None = None,
) -> None:
    """Marks this tensor as a loss of the current step; see `rf.Loss`.

    >>> ctx = rf.init_train_step_run_ctx()
    >>> rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")]).mark_as_loss("ce", use_normalized_loss=True)
    >>> ctx.total_loss().item()  # the mean over five frames: padding does not count
    1.0
    """
    options = locals()
    get_run_ctx().mark_as_loss(options.pop("self"), **options)


@method_of(Tensor)
def mark_as_output(self: Tensor, name: str, *, shape: Sequence[Dim] | None = None) -> None:
    """Marks this tensor as an output of the current step. shape: the order of its axes.

    >>> ctx = rf.init_forward_step_run_ctx()
    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> rf.ones([feat, time]).mark_as_output("logits", shape=[time, feat])
    >>> ctx.outputs["logits"].dims == (time, feat)
    True
    """
    get_run_ctx().mark_as_output(self, name, dims=shape)


@method_of(Tensor)
def mark_as_default_output(self: Tensor, *, shape: Sequence[Dim] | None = None) -> None:
    """Marks this tensor as the output named "output" of the current step. shape: the order of its axes.

    >>> ctx = rf.init_forward_step_run_ctx()
    >>> rf.ones([rf.Dim(3, name="feat")]).mark_as_default_output()
    >>> list(ctx.outputs)
    ['output']
    """
    get_run_ctx().mark_as_default_output(self, shape=shape)


class _Current(threading.local):
    """The current context of each thread, as with torch's modes.

    It is not a ContextVar, because what a cell with `await` sets in one is lost when the cell ends.
    """

    ctx: RunCtx | None = None


_current = _Current()


def get_run_ctx() -> RunCtx:
    """The current context of this thread; if no step was begun, a context without training.

    >>> _ = rf.init_forward_step_run_ctx()
    >>> rf.get_run_ctx().stage, rf.get_run_ctx().train_flag
    ('forward_step', False)
    """
    ctx = _current.ctx
    if ctx is None:
        ctx = _current.ctx = RunCtx(stage="init")
    return ctx


@contextmanager
def entered(ctx: RunCtx | None) -> Iterator[None]:
    """Makes `ctx` the current context inside the block; None: no step was begun."""
    before, _current.ctx = _current.ctx, ctx
    try:
        yield
    finally:
        _current.ctx = before


def init_train_step_run_ctx(*, train_flag: bool = True, step: int = 0, epoch: int = 1) -> RunCtx:
    """Begins a training step and returns its context.

    >>> ctx = rf.init_train_step_run_ctx(step=3)
    >>> rf.ones([rf.Dim(2, name="feat")]).mark_as_loss("ones", scale=0.5)
    >>> float(ctx.total_loss()), rf.get_run_ctx_step()
    (1.0, 3)
    """
    ctx = _current.ctx = RunCtx(stage="train_step", train_flag=train_flag, step=step, epoch=epoch)
    return ctx


def init_forward_step_run_ctx(*, expected_outputs: TensorDict | None = None, step: int = 0, epoch: int = 1) -> RunCtx:
    """Begins a forward step, without training, and returns its context.

    >>> ctx = rf.init_forward_step_run_ctx()
    >>> rf.ones([rf.Dim(2, name="feat")]).mark_as_output("ones")
    >>> list(ctx.outputs)
    ['ones']
    """
    ctx = _current.ctx = RunCtx(stage="forward_step", step=step, epoch=epoch, expected_outputs=expected_outputs)
    return ctx


def get_run_ctx_step() -> int:
    """The number of the training step.

    >>> ctx = rf.init_train_step_run_ctx(step=3)
    >>> rf.get_run_ctx_step()
    3
    """
    return get_run_ctx().step


NEWEST = 1000
"""A number above those of all versions that a model may ask for."""

EARLIER = {
    19: "attention shared the dropout of its weights: att_dropout_broadcast=True",
    20: "rf.TransformerDecoder had share_embedding=False, input_embedding_scale=1.0 and input_dropout=0.0",
    23: "convolution took the values of the padding as they were, not as 0",
    24: "convolution with padding='same' and strides began its windows elsewhere",
    29: "a Conformer's batch norm counted padding: conv_norm_opts={'use_mask': False}",
}
"""What modules did before each version."""


class BehaviorVersion:
    """The version of the behavior, which is always the newest: there is only one.

    >>> rf.BehaviorVersion.set_min_behavior_version(21)
    >>> rf.BehaviorVersion.get() >= 21
    True
    """

    @classmethod
    def get(cls) -> int:
        """A number above those of all versions."""
        return NEWEST

    @classmethod
    def set(cls, version: int) -> None:
        """Changes nothing, and warns of what modules did in this version but do not do here.

        Raises OptionError if it is not a number.
        """
        if not isinstance(version, int):
            raise OptionError("BehaviorVersion.set: not a version", got=repr(version), expected="a whole number")
        earlier = [text for since, text in EARLIER.items() if version < since]
        if earlier:
            text = "\n".join(f"  {line}" for line in earlier)
            warnings.warn(
                f"BehaviorVersion: all models have the newest behavior. In version {version}:\n{text}", stacklevel=2
            )

    @classmethod
    def set_min_behavior_version(cls, min_behavior_version: int) -> None:
        """Accepts any version, and changes nothing."""

    @classmethod
    def is_set(cls) -> bool:
        """True."""
        return True

    @classmethod
    def require(cls, condition: bool, message: str, version: int) -> None:
        """Raises OptionError with this message if the condition, which holds from `version` on, is not fulfilled."""
        if not condition:
            raise OptionError(f"BehaviorVersion: {message}", expected=f"what is required since version {version}")
