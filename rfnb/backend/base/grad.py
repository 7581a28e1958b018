"""Gradients, and ops that change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.tape import current_tape
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import RfError, TraceError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class GradOps:
    """Raw part: `stop_gradient_raw`, `scaled_gradient_raw`,
    `shifted_gradient_raw(raw, scale, shift, axis, clip, padding)`, `gradient_raw(y, x)`, `gradient_leaves_raw(ys)`,
    `set_requires_gradient_raw`, `needs_gradient_raw`, `follow_gradients_raw`,
    `pull_back_raw(ys, gradients, xs)`, `reaching_raw(raw, sources)`, `new_probe()`,
    `recomputed_raw(fn, args)`; and the contexts `no_gradients` and `gradient_checkpoint_scope`.
    """

    stop_gradient_raw: Callable[[RawTensor], RawTensor]
    reaching_raw: Callable[[RawTensor, Sequence[RawTensor]], RawTensor]
    scaled_gradient_raw: Callable[[RawTensor, RawTensor], RawTensor]
    shifted_gradient_raw: Callable[..., RawTensor]
    gradient_raw: Callable[[RawTensor, RawTensor], RawTensor]
    needs_gradient_raw: Callable[[RawTensor], bool]
    set_requires_gradient_raw: Callable[[RawTensor], None]
    no_gradients: Callable[[], object]
    gradient_checkpoint_scope: Callable[[], object]
    gradient_leaves_raw: Callable[[Sequence[RawTensor]], list[RawTensor]]
    follow_gradients_raw: Callable[[Sequence[RawTensor], Sequence[RawTensor]], None]
    pull_back_raw: Callable[[Sequence[RawTensor], Sequence[RawTensor], Sequence[RawTensor]], list[RawTensor]]
    new_probe: Callable[[], Any]
    recomputed_raw: Callable[[Callable[..., RawTensor], Sequence[RawTensor]], RawTensor]

    @classmethod
    def stop_gradient(cls: type[Backend], tensor: Tensor) -> Tensor:
        """The same values as a constant, without a gradient."""
        return tensor.like(cls.stop_gradient_raw(tensor._raw))

    @classmethod
    def scaled_gradient(cls: type[Backend], tensor: Tensor, scale: float | Tensor) -> Tensor:
        """The same values, with the gradient multiplied by `scale`."""
        factor = scale.copy_compatible_to_dims_raw(tensor.dims) if isinstance(scale, Tensor) else scale
        return tensor.like(cls.scaled_gradient_raw(tensor._raw, factor))

    @classmethod
    def scaled_gradient_ext(
        cls: type[Backend],
        x: Tensor,
        *,
        scale: float | Tensor = 1.0,
        shift: float | Tensor | None = None,
        scale_shift_by_sum_over_axis: Dim | None = None,
        clip_max_axis: Dim | None = None,
    ) -> Tensor:
        """The same values; the gradient g becomes scale · g + shift, perhaps with Σ |g| over an axis, and a limit."""
        if shift is None and clip_max_axis is None:
            return cls.scaled_gradient(x, scale)
        over = scale_shift_by_sum_over_axis, clip_max_axis
        axis, clip = (None if dim is None else axis_of("scaled_gradient_ext", x, dim) for dim in over)
        factors = scale, 0.0 if shift is None else shift
        by = [v.copy_compatible_to_dims_raw(x.dims) if isinstance(v, Tensor) else v for v in factors]
        return x.like(cls.shifted_gradient_raw(x._raw, *by, axis, clip, cls.padding_for(x, x.sig.dims)))

    @classmethod
    def gradient(cls: type[Backend], y: Tensor, x: Tensor) -> Tensor:
        """The gradient of the sum of the valid entries of `y` with respect to `x`. → the dims of x

        >>> x = rf.convert_to_tensor([3.0, 4.0], dims=[rf.Dim(2, name="feat")])
        >>> rf.set_requires_gradient(x)
        >>> rf.gradient(x * x, x).raw_tensor.tolist()
        [6.0, 8.0]
        """
        if (tape := current_tape()) is not None and not tape.paused:
            raise TraceError(
                "gradient: the body of a loop is traced without gradients",
                hint="compute it after the loop, from the result of the loop; or rf.raw_call(torch.func.grad(fn), …)",
            )
        if not cls.needs_gradient_raw(x._raw):
            raise RfError(
                "gradient: y was computed without recording gradients for `x`",
                got=f"{x.name} {x.describe_dims()}",
                hint="call rf.set_requires_gradient(x) before y is computed; x must not be a constant",
            )
        return x.like(cls.gradient_raw(cls.fill_padding(y, 0), x._raw))

    @classmethod
    def set_requires_gradient(cls: type[Backend], tensor: Tensor) -> None:
        """Records gradients with respect to the tensor from now on."""
        cls.set_requires_gradient_raw(tensor._raw)

    @classmethod
    def copy(cls: type[Backend], tensor: Tensor) -> Tensor:
        """A copy of the values in new memory. {…} → the same

        >>> x = rf.ones([rf.Dim(2, name="feat")])
        >>> y = rf.copy(x)
        >>> _ = x.raw_tensor.mul_(5)
        >>> x.raw_tensor.tolist(), y.raw_tensor.tolist()
        ([5.0, 5.0], [1.0, 1.0])
        """
        return tensor.like(cls.copy_raw(tensor._raw))

    @classmethod
    def copy_to_device(cls: type[Backend], x: Tensor, device: str | None) -> Tensor:
        """The same values on `device`."""
        raw = cls.copy_to_device_raw(x._raw, device)
        return x if raw is x._raw else x.like(raw)
