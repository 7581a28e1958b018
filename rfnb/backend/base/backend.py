"""The contract of a backend: raw functions that each backend must provide, and ops on Tensors that all share.

An op that the contract does not name stands in `ops` alone, unless it shares parts with one here.
"""

from __future__ import annotations

from inspect import get_annotations

from rfnb.backend.base.attention import AttentionOps
from rfnb.backend.base.concat import ConcatOps, SplitOps
from rfnb.backend.base.control import ControlOps, EagerOps, lacking
from rfnb.backend.base.conv import ConvOps, PoolOps, SignalOps, WindowOps
from rfnb.backend.base.create import CreateOps, RandomOps
from rfnb.backend.base.data import DataOps, MeasureOps
from rfnb.backend.base.grad import GradOps
from rfnb.backend.base.index import IndexOps, ScatterOps, SortOps, TopKOps
from rfnb.backend.base.loss import CtcOps, LossOps
from rfnb.backend.base.mask import FiniteOps, MaskedOps, MaskOps
from rfnb.backend.base.math import MathOps
from rfnb.backend.base.matmul import MatmulOps
from rfnb.backend.base.norm import NormOps
from rfnb.backend.base.parameter import ParameterOps
from rfnb.backend.base.rec import RecOps
from rfnb.backend.base.reduce import ReduceOps, SoftmaxOps
from rfnb.backend.base.shape import ShapeOps
from rfnb.backend.base.slice import PadOps, SequenceOps, SliceOps
from rfnb.backend.base.tape import FuseOps, TapeOps


class Backend(
    DataOps,
    MathOps,
    CreateOps,
    ParameterOps,
    RandomOps,
    MaskOps,
    FiniteOps,
    IndexOps,
    ScatterOps,
    MaskedOps,
    TopKOps,
    SortOps,
    ShapeOps,
    ConcatOps,
    SplitOps,
    SliceOps,
    PadOps,
    SequenceOps,
    WindowOps,
    ReduceOps,
    SoftmaxOps,
    MatmulOps,
    ConvOps,
    PoolOps,
    SignalOps,
    NormOps,
    AttentionOps,
    LossOps,
    CtcOps,
    RecOps,
    GradOps,
    ControlOps,
    TapeOps,
    FuseOps,
    MeasureOps,
    EagerOps,
):
    """Computes on raw tensors of one kind. It has no state; all functions are static or class methods.

    A backend provides the raw functions that the families declare. A missing one raises a BackendError when called.

    >>> backend = rf.get_backend_by_raw_tensor_type(torch.Tensor)
    >>> issubclass(backend, rf.Backend), backend.name
    (True, 'torch')
    """

    name: str | None = None
    RawTensorType: type
    is_tensorflow = False
    is_backend_raw_tensor_dim_tag_independent = True

    def __init_subclass__(cls) -> None:
        for family in cls.__mro__:
            for name, kind in get_annotations(family).items():
                if kind.startswith("Callable") and not hasattr(cls, name):
                    setattr(cls, name, classmethod(lacking(name)))
