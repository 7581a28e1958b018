"""Making, moving, reading and measuring torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch

from rfnb.backend.base.data import Magnitude
from rfnb.backend.base.tape import untaped
from rfnb.backend.torch.module_state import without_numbers
from rfnb.backend.torch.shapes import shapes_only
from rfnb.core.dims.lengths import symbolic_values
from rfnb.core.ground.source import public_function
from rfnb.errors import BackendError, DtypeError

if TYPE_CHECKING:
    from rfnb.core.tensor.parameter import Parameter
    from rfnb.core.tensor.tensor import Tensor


DTYPE_NAMES: dict[torch.dtype, str] = {
    dtype: str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}


_CPU = (None, "cpu", torch.device("cpu"))


@contextmanager
def outside() -> Iterator[None]:
    """Inside, lengths and masks are made outside of traced loops, grad mode, inference mode and autocast."""
    with untaped(), torch.no_grad():
        if not (torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu")):  # most often
            yield
            return
        with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
            yield


@cache
def dtype_of(name: str) -> torch.dtype:
    """torch.float32. Raises DtypeError for an unknown name."""
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if isinstance(dtype, torch.dtype):
        return dtype
    meant = str(getattr(name, "__name__", name)).removeprefix("torch.")
    hint = repr(meant) if meant != name and hasattr(torch, meant) else None
    raise DtypeError(
        f"{public_function()}: unknown dtype", got=repr(name), expected='"float32", "int64", "bool", …', hint=hint
    )


@cache
def device_of(name: str | torch.device) -> torch.device:
    """torch.device("cuda:0"); "gpu" is "cuda". Raises BackendError for an unknown device."""
    try:
        device = torch.device("cuda" if name == "gpu" else name)
        count = getattr(getattr(torch, device.type, None), "device_count", None)
        if count is None or (device.index or 0) < count():
            return device
    except (RuntimeError, TypeError):
        pass
    devices = [f"{kind}:{i}" for kind in ("cuda", "xpu", "mps") for i in range(getattr(torch, kind).device_count())]
    raise BackendError(
        f"{public_function()}: unknown device", got=repr(name), expected=" or ".join(map(repr, ["cpu", *devices]))
    )


def placed(device: str | torch.device | None) -> torch.device | None:
    """The torch device; None lets torch choose."""
    return None if device is None else device_of(device)


class TorchData:
    """Types, shapes, devices, and tensors from numbers."""

    @staticmethod
    def get_dtype_name_raw(raw_tensor: torch.Tensor) -> str:
        """ "float32" """
        return DTYPE_NAMES[raw_tensor.dtype]

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> torch.dtype:
        """torch.float32"""
        return dtype_of(dtype_name)

    without_numbers_raw = staticmethod(without_numbers)
    outside_modes = staticmethod(outside)
    shapes_only = staticmethod(shapes_only)

    @staticmethod
    def mixes_dtypes() -> bool:
        """Whether autocast is on, which casts the operands of kernels."""
        return any(map(torch.is_autocast_enabled, ("cpu", "cuda")))

    @staticmethod
    def get_ndim_raw(raw_tensor: torch.Tensor) -> int:
        """The number of axes."""
        return raw_tensor.dim()

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: torch.Tensor) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(raw_tensor.shape)

    @staticmethod
    def get_device_raw(raw_tensor: torch.Tensor) -> str:
        """ "cpu", "cuda:0" """
        return str(raw_tensor.device)

    device_key_raw = staticmethod(attrgetter("device"))

    @staticmethod
    def copy_to_device_raw(raw_tensor: torch.Tensor, device: str | None) -> torch.Tensor:
        """A copy on `device`; the tensor itself if it is there already, or if `device` is None."""
        return raw_tensor if device is None else raw_tensor.to(device_of(device))

    @staticmethod
    def from_numpy_raw(values: np.ndarray, device: str | torch.device | None = None) -> torch.Tensor:
        """A constant tensor of a numpy array, made outside of all modes."""
        if not isinstance(values, np.ndarray | np.generic):  # lengths that torch traces
            return values.tensor.to(device)
        values = np.array(values, order="C")  # a copy: it may be read-only
        if device in _CPU and not torch.is_inference_mode_enabled():
            return torch.from_numpy(values)  # no mode changes it, and no tape sees it
        with outside():
            raw = torch.from_numpy(values)
            return raw if device in _CPU else raw.to(device_of(device))

    @classmethod
    def numbers(cls, tensor: Tensor, largest: int) -> Any:
        """The numbers of a tensor, which decide on a size; on the meta device `largest` for each, or symbols if the
        lengths are symbols too."""
        raw = tensor._raw
        if not raw.is_meta:
            return cls.to_numpy_raw(raw)
        symbolic = any(size.traced for size in tensor.lengths.sizes.values())
        return symbolic_values(raw, largest) if symbolic else np.full(raw.shape, largest)

    @staticmethod
    def to_numpy_raw(raw_tensor: torch.Tensor) -> np.ndarray:
        """A copy on the CPU as numpy. Raises BackendError for a tensor without numbers."""
        if raw_tensor.is_meta:
            raise BackendError(
                f"{public_function()}: the numbers of a tensor on the meta device are needed, but it has none",
                got=f"a tensor of shape {tuple(raw_tensor.shape)}",
                expected="a tensor with numbers: lengths and masks of sequences, for example, are made on the CPU",
                hint='device="cpu"',
            )
        raw = raw_tensor.detach().cpu()
        try:
            return np.array((raw.float() if raw.dtype == torch.bfloat16 else raw).numpy())
        except RuntimeError:
            if not torch.compiler.is_exporting():
                raise
            raise BackendError(
                f"{public_function()}: the numbers of a tensor are needed, but torch traces the model",
                expected="sizes that follow from those of the arguments",
                hint="bounds that are int; compile only parts without it: rf.from_torch(torch.compile(part), …)",
            ) from None

    @staticmethod
    def array_raw(raw: torch.Tensor) -> object:
        """An array that shares the memory of a tensor on the CPU, of a dtype that numpy has; others as they are."""
        return raw.detach().numpy() if raw.device.type == "cpu" and raw.dtype is not torch.bfloat16 else raw

    @staticmethod
    def is_ready_raw(value: object) -> TypeGuard[torch.Tensor]:
        """Whether `convert_raw` would return this tensor itself."""
        is_plain = type(value) is torch.Tensor and value.layout is torch.strided and not value.is_nested
        return is_plain and not torch._C._len_torch_function_stack()

    @staticmethod
    def convert_raw(value: object, dtype: str | None, device: str | None) -> torch.Tensor:
        """Numbers, lists, numpy or torch tensors, in `dtype` if given; Python floats are float32."""
        if dtype is None and device is None and TorchData.is_ready_raw(value):
            return value
        if isinstance(value, np.ndarray | np.generic):
            value = torch.from_numpy(np.array(value, value.dtype.newbyteorder("=")))  # torch knows no other order
        raw = torch.as_tensor(value, dtype=None if dtype is None else dtype_of(dtype), device=placed(device))
        if raw.layout is not torch.strided or raw.is_nested:
            kind = "nested" if raw.is_nested else str(raw.layout)
            hint = "a list of its sequences, which are padded" if raw.is_nested else "raw.to_dense()"
            raise DtypeError(
                f"{public_function()}: a {kind} tensor is not dense", got=kind, expected="strided", hint=hint
            )
        return raw

    @staticmethod
    def full_raw(shape: Sequence[int], value: Any, dtype: str, device: str | None) -> torch.Tensor:
        """A tensor filled with one value."""
        return torch.full(list(shape), value, dtype=dtype_of(dtype), device=placed(device))

    @staticmethod
    def range_raw(size: int, dtype: str, device: str | None) -> torch.Tensor:
        """0, 1, … size-1"""
        return torch.arange(size, dtype=dtype_of(dtype), device=placed(device))

    @staticmethod
    def create_parameter_raw(tensor: Parameter, *, device: str | None = None) -> torch.nn.Parameter:
        """Zeros with the dims and dtype of `tensor`, trainable if the dtype is a float type."""
        shape = [dim.dimension or 0 for dim in tensor.dims]
        zeros = torch.zeros(shape, dtype=dtype_of(tensor.dtype), device=placed(device))
        return torch.nn.Parameter(zeros, requires_grad=zeros.dtype.is_floating_point)

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Sets whether gradients are collected."""
        param._raw.requires_grad_(trainable)

    @staticmethod
    def parameter_assign_raw(raw: torch.nn.Parameter, value: object, *, op: str = "assign") -> None:
        """Sets the values, or adds to them, in place."""
        with torch.no_grad():
            if not isinstance(value, torch.Tensor):
                value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
            raw.add_(value) if op == "add" else raw.copy_(value.expand_as(raw))

    @staticmethod
    def parameter_assign_at_raw(raw: torch.nn.Parameter, index: tuple[Any, ...], value: object, *, op: str) -> None:
        """Sets, or adds to, the values at `index`: positions for each axis, or, to assign, a slice."""
        with torch.no_grad():
            value = torch.as_tensor(value, dtype=raw.dtype, device=raw.device)
            if op == "add":
                raw.index_put_(index, value, accumulate=True)
            else:
                raw[index] = value

    @staticmethod
    def parameter_move_raw(raw: torch.nn.Parameter, device: str | None, dtype: str | None) -> None:
        """Moves the values, keeping the same parameter object."""
        with torch.no_grad():
            raw.data = raw.data.to(device=placed(device), dtype=None if dtype is None else dtype_of(dtype))
            if raw.grad is not None:
                raw.grad.data = raw.grad.data.to(device=placed(device), dtype=raw.dtype)


def unwrapped(raw: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the numbers of one inside `torch.vmap` or `torch.func.grad`."""
    while torch._C._functorch.is_functorch_wrapped_tensor(raw):
        raw = torch._C._functorch.get_unwrapped(raw)
    return raw


class TorchMeasure:
    """The raw part of `MeasureOps` in `backend.base.data`."""

    @staticmethod
    def magnitude_raw(raw: torch.Tensor, mask: np.ndarray | None) -> Magnitude | None:
        """How large the entries are that `mask` selects; it is broadcast. None if they are not floats."""
        raw = unwrapped(raw)
        if (
            raw.layout is not torch.strided
            or raw.is_nested
            or raw.is_meta
            or not (raw.is_floating_point() or raw.is_complex())
        ):
            return None
        with torch.no_grad():
            x = raw.detach().abs() if raw.is_complex() else raw.detach()
            x = x.float() if x.dtype.itemsize < 4 else x
            counts = None if mask is None else torch.from_numpy(mask).to(x.device).expand(x.shape)
            finite = torch.isfinite(x) if counts is None else torch.isfinite(x) & counts
            size = torch.where(finite, x, 0).abs()
            largest = float(size.max()) if size.numel() else 0.0
            squares = float(((size / largest) ** 2).sum(dtype=torch.float64)) * largest**2 if largest else 0.0
            magnitude = Magnitude(squares, largest, int(finite.sum()))
            if magnitude.entries == (x.numel() if counts is None else int(counts.sum())):
                return magnitude
            kinds = torch.isnan(x), torch.isposinf(x), torch.isneginf(x)
            bad = [bool((kind if counts is None else kind & counts).any()) for kind in kinds]
            return magnitude._replace(nan=bad[0], infinite=bad[1], minus_infinite=bad[2])

    @staticmethod
    def watch_gradient_raw(raw: torch.Tensor, see: Callable[[torch.Tensor], None]) -> bool:
        """Calls `see` with the gradient of a computed tensor in the backward pass; False if it has none.

        A leaf outlives its losses, and would keep one more function after each.
        """
        if torch.compiler.is_compiling() or not raw.requires_grad or raw.is_leaf or unwrapped(raw) is not raw:
            return False
        raw.register_hook(see)
        return True

    @staticmethod
    def synchronize() -> str:
        """Waits for the GPU, if it is used; returns "cuda" then, else "cpu"."""
        if not torch.cuda.is_initialized():
            return "cpu"
        for device in range(torch.cuda.device_count()):
            if torch.cuda.memory_allocated(device):
                torch.cuda.synchronize(device)
        return "cuda" if torch.cuda.memory_allocated() else "cpu"
