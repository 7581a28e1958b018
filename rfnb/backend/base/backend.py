"""The contract of a backend: raw functions that each backend must provide, and ops on Tensors that all share."""

from __future__ import annotations

from inspect import get_annotations

from rfnb.backend.base.attention import AttentionOps
from rfnb.backend.base.concat import ConcatOps
from rfnb.backend.base.control import ControlOps
from rfnb.backend.base.conv import ConvOps
from rfnb.backend.base.create import CreateOps
from rfnb.backend.base.ctc import CtcOps
from rfnb.backend.base.data import DataOps
from rfnb.backend.base.eager import EagerOps, lacking
from rfnb.backend.base.finite import FiniteOps
from rfnb.backend.base.fuse import FuseOps
from rfnb.backend.base.grad import GradOps
from rfnb.backend.base.index import IndexOps
from rfnb.backend.base.loss import LossOps
from rfnb.backend.base.mask import MaskOps
from rfnb.backend.base.masked import MaskedOps
from rfnb.backend.base.math import MathOps
from rfnb.backend.base.matmul import MatmulOps
from rfnb.backend.base.measure import MeasureOps
from rfnb.backend.base.norm import NormOps
from rfnb.backend.base.pad import PadOps
from rfnb.backend.base.parameter import ParameterOps
from rfnb.backend.base.pool import PoolOps
from rfnb.backend.base.random import RandomOps
from rfnb.backend.base.rec import RecOps
from rfnb.backend.base.reduce import ReduceOps
from rfnb.backend.base.repeat import RepeatOps
from rfnb.backend.base.scatter import ScatterOps
from rfnb.backend.base.sequence import SequenceOps
from rfnb.backend.base.shape import ShapeOps
from rfnb.backend.base.signal import SignalOps
from rfnb.backend.base.slice import SliceOps
from rfnb.backend.base.softmax import SoftmaxOps
from rfnb.backend.base.sort import SortOps
from rfnb.backend.base.split import SplitOps
from rfnb.backend.base.tape import TapeOps
from rfnb.backend.base.top_k import TopKOps
from rfnb.backend.base.window import WindowOps


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
    RepeatOps,
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
