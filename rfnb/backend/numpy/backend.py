"""The numpy backend: the families in one class."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.backend.numpy.data import NumpyData
from rfnb.backend.numpy.index import NumpyIndex
from rfnb.backend.numpy.loss import NumpyLoss
from rfnb.backend.numpy.math import Array, NumpyMath
from rfnb.backend.numpy.matmul import NumpyMatmul
from rfnb.backend.numpy.reduce import NumpyReduce
from rfnb.backend.numpy.shape import NumpyShape
from rfnb.backend.numpy.sort import NumpySort
from rfnb.core.ground.raw import register_backend_by_tensor_type
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError


class NumpyBackend(
    NumpyMath, NumpyData, NumpyIndex, NumpySort, NumpyShape, NumpyReduce, NumpyMatmul, NumpyLoss, Backend
):
    """Computes with numpy, on the CPU. There are no gradients: every tensor is a constant."""

    name = "numpy"
    RawTensorType = np.ndarray

    stop_gradient_raw = staticmethod(Array.view)
    scaled_gradient_raw = staticmethod(lambda raw, factor: raw.view())
    shifted_gradient_raw = staticmethod(lambda raw, *how: raw.view())
    needs_gradient_raw = staticmethod(lambda raw: False)
    version_raw = current_version_raw = staticmethod(lambda raw: 0)
    plain_version_raw = staticmethod(lambda raw: None)
    unobserved = staticmethod(nullcontext)
    is_observed = staticmethod(int)
    is_finite_raw = staticmethod(lambda raw: raw.dtype.kind not in "fc" or bool(np.isfinite(raw).all()))
    is_readable_raw = staticmethod(lambda raw: raw.dtype.kind in "biufc")

    @staticmethod
    def no_gradients() -> AbstractContextManager[None]:
        """A context that does nothing, since numpy has no gradients."""
        return nullcontext()

    @classmethod
    def gradient(cls, y: Tensor, x: Tensor) -> NoReturn:
        """Raises BackendError."""
        raise BackendError("gradient: the numpy backend does not compute gradients", hint=WAY_OUT)

    @classmethod
    def set_requires_gradient(cls, tensor: Tensor) -> NoReturn:
        """Raises BackendError."""
        raise BackendError("set_requires_gradient: the numpy backend does not compute gradients", hint=WAY_OUT)


WAY_OUT = 'use torch: rf.select_backend("torch") before the tensors are made'

register_backend_by_tensor_type(np.ndarray, NumpyBackend)
