"""The torch backend: the families in one class."""

from __future__ import annotations

import torch

from rfnb.backend.base.backend import Backend
from rfnb.backend.torch import plain  # noqa: F401, to be registered
from rfnb.backend.torch.attention import TorchAttention
from rfnb.backend.torch.conv import TorchConv, TorchSignal
from rfnb.backend.torch.data import TorchData, TorchMeasure
from rfnb.backend.torch.fuse import TorchFuse
from rfnb.backend.torch.grad import TorchGrad
from rfnb.backend.torch.index import TorchIndex, TorchScatter, TorchSort, TorchTopK
from rfnb.backend.torch.loss import TorchCtc, TorchLoss
from rfnb.backend.torch.mask import TorchMask
from rfnb.backend.torch.math import TorchMath
from rfnb.backend.torch.matmul import TorchMatmul
from rfnb.backend.torch.norm import TorchNorm
from rfnb.backend.torch.random import TorchRandom
from rfnb.backend.torch.rec import TorchRec
from rfnb.backend.torch.reduce import TorchReduce
from rfnb.backend.torch.shape import TorchShape
from rfnb.backend.torch.tape import TorchTape
from rfnb.core.ground.raw import register_backend_by_tensor_type, select


class TorchBackend(
    TorchMath,
    TorchData,
    TorchMask,
    TorchRandom,
    TorchIndex,
    TorchScatter,
    TorchTopK,
    TorchSort,
    TorchShape,
    TorchReduce,
    TorchMatmul,
    TorchConv,
    TorchSignal,
    TorchNorm,
    TorchAttention,
    TorchLoss,
    TorchCtc,
    TorchRec,
    TorchGrad,
    TorchTape,
    TorchFuse,
    TorchMeasure,
    Backend,
):
    """Computes with torch."""

    name = "torch"
    RawTensorType = torch.Tensor


register_backend_by_tensor_type(torch.Tensor, TorchBackend)
select(TorchBackend)
