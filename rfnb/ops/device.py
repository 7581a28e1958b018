"""Devices of tensors, and copies."""

from __future__ import annotations

from rfnb.core.ground.default import get_default_device
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor


@op(frames="any")
def copy_to_device(x: Tensor, device: str | None = None) -> Tensor:
    """The same values on `device`, such as "cpu" or "cuda"; by default on the default device. {…} → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> rf.copy_to_device(x, "cpu").device
    'cpu'
    """
    return backend_of_raw(x._raw).copy_to_device(x, device or get_default_device())


@op(frames="any")
def copy(tensor: Tensor) -> Tensor:
    """A copy of the values in new memory. {…} → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> y = rf.copy(x)
    >>> _ = x.raw_tensor.mul_(5)
    >>> x.raw_tensor.tolist(), y.raw_tensor.tolist()
    ([5.0, 5.0], [1.0, 1.0])
    """
    return backend_of_raw(tensor._raw).copy(tensor)
