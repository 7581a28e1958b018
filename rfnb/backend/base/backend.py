"""The contract of a backend: raw functions that each has to give, and ops on Tensors that all share."""

from __future__ import annotations

from rfnb.backend.base.concat import ConcatOps
from rfnb.backend.base.create import CreateOps
from rfnb.backend.base.grad import GradOps
from rfnb.backend.base.index import IndexOps
from rfnb.backend.base.loss import LossOps
from rfnb.backend.base.mask import MaskOps
from rfnb.backend.base.math import MathOps
from rfnb.backend.base.matmul import MatmulOps
from rfnb.backend.base.norm import NormOps
from rfnb.backend.base.rec import RecOps
from rfnb.backend.base.reduce import ReduceOps
from rfnb.backend.base.sequence import SequenceOps
from rfnb.backend.base.shape import ShapeOps
from rfnb.backend.base.slice import SliceOps
from rfnb.backend.base.softmax import SoftmaxOps
from rfnb.backend.base.top_k import TopKOps


class Backend(
    MathOps,
    CreateOps,
    MaskOps,
    IndexOps,
    TopKOps,
    ShapeOps,
    ConcatOps,
    SliceOps,
    SequenceOps,
    ReduceOps,
    SoftmaxOps,
    MatmulOps,
    NormOps,
    LossOps,
    RecOps,
    GradOps,
):
    """Computes on raw tensors of one kind. It has no state; all functions are static or class methods."""

    name: str | None = None
    RawTensorType: type
    is_tensorflow = False
    is_backend_raw_tensor_dim_tag_independent = True

    @staticmethod
    def executing_eagerly() -> bool:
        """Whether ops are done at once."""
        return True
