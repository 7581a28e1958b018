"""The torch backend: the families in one class."""

from __future__ import annotations

import torch

from rfnb.backend.base.backend import Backend
from rfnb.backend.torch.data import TorchData
from rfnb.backend.torch.math import TorchMath
from rfnb.backend.torch.matmul import TorchMatmul
from rfnb.backend.torch.random import TorchRandom
from rfnb.backend.torch.reduce import TorchReduce
from rfnb.backend.torch.tape import TorchTape
from rfnb.core.raw import register_backend_by_tensor_type, select


class TorchBackend(TorchMath, TorchData, TorchRandom, TorchReduce, TorchMatmul, TorchTape, Backend):
    """Computes with torch."""

    name = "torch"
    RawTensorType = torch.Tensor


register_backend_by_tensor_type(torch.Tensor, TorchBackend)
select(TorchBackend)
