"""Parameters: tensors that modules own and training changes."""

from __future__ import annotations

import copy
import copyreg
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import EMPTY, too_large
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import get_default_device, get_default_float_dtype, is_float_dtype
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.op import op
from rfnb.core.tensor.template import NoData
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import ParameterError

_RAW: Any = vars(Tensor)["raw_tensor"]


class Parameter(Tensor):
    """A trainable tensor: `self.weight = rf.Parameter([in_dim, out_dim])`.

    Args:
        dims: the axes; each needs a fixed size.
        dtype: the type of the values; by default the default float type.
        trainable: whether an optimizer may change it; default: float and not auxiliary.
        auxiliary: whether it is stored in checkpoints without being a weight: running statistics, for example.
        non_critical_for_restore: whether a checkpoint may lack it.
        weight_decay: the weight decay of this parameter, for optimizers that read it; None: the optimizer's own.
        initial: a number, an array, a Tensor, or an initializer that is called with dims and dtype.
        raw_tensor: a tensor of the backend, which is used without a copy.

    >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> weight = rf.Parameter([feat, out], initial=0.5)
    >>> rf.matmul(rf.ones([feat]), weight, reduce=feat).raw_tensor.tolist(), weight.trainable
    ([1.5, 1.5], True)

    Raises ParameterError if a dim has no fixed size.
    """

    __slots__ = ("_initial", "_trainable", "auxiliary", "non_critical_for_restore", "weight_decay")

    def __init__(
        self,
        dims_or_tensor: Sequence[Dim] | Tensor | None = None,
        dtype: str | None = None,
        *,
        dims: Sequence[Dim] | None = None,
        sparse_dim: Dim | None = None,
        trainable: bool | None = None,
        auxiliary: bool = False,
        non_critical_for_restore: bool = False,
        weight_decay: float | None = 0.0,
        initial: object = None,
        raw_tensor: RawTensor = None,
        device: str | None = None,
    ):
        source = dims_or_tensor if isinstance(dims_or_tensor, Tensor) else None
        dims = tuple(source.dims if source is not None else dims_or_tensor or dims or ())
        check_dims(dims, "Parameter")
        loose = [dim for dim in dims if dim.dimension is None]
        if loose:
            raise ParameterError(
                "Parameter: all dims need a fixed size",
                got=", ".join(dim.name for dim in loose),
                expected="Dim(number, name=…)",
                hint=f"a parameter is the same for all batches: give {loose[0].name} a largest size, and select what a "
                "batch needs with rf.gather or rf.slice",
                dims=loose,
            )
        self._name = "parameter"
        if source is not None:
            sparse_dim = sparse_dim or source.sparse_dim
        self.sig = align.sig(dims, sparse_dim, source.feature_dim if source is not None else None)
        self.lengths = EMPTY
        self.auxiliary = auxiliary
        self.non_critical_for_restore = non_critical_for_restore
        self.weight_decay = weight_decay
        if raw_tensor is not None:
            _check(raw_tensor, dims, dtype)
        backend = backends.selected()
        dtype = dtype or (source.dtype if source is not None else get_default_float_dtype())
        self._raw = NoData(dtype) if raw_tensor is None else raw_tensor
        if raw_tensor is None:
            try:
                self._raw = backend.create_parameter_raw(self, device=device or get_default_device())
            except Exception as error:
                raise too_large("Parameter", dims, [dim.dimension or 0 for dim in dims], error) from None
        self._initial: object = None
        self.trainable = is_float_dtype(self.dtype) and not auxiliary if trainable is None else trainable
        listener = active_listener()
        if raw_tensor is None and listener is not None and self.trainable:
            listener.new_parameter(dims)
        if raw_tensor is None:
            self.initial = source if source is not None else 0.0 if initial is None else initial

    @property
    def trainable(self) -> bool:
        """Whether an optimizer may change it. `requires_grad_(False)` on the raw tensor sets this to False as well."""
        return bool(getattr(self._raw, "requires_grad", self._trainable))

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        if trainable and not is_float_dtype(self.dtype) and not self.dtype.startswith("complex"):
            raise ParameterError(
                "Parameter: only float and complex values can be trained", got=self.dtype, expected="float32"
            )
        self._trainable = trainable
        backends.backend_of_raw(self._raw).set_parameter_trainable(self, trainable)

    def _set_raw(self, raw: RawTensor) -> None:
        if self.trainable and not getattr(raw, "requires_grad", True):
            raise ParameterError(
                f"{self.name}: with this raw tensor, the parameter would not be trained any more",
                got=f"{type(raw).__module__}.{type(raw).__name__} of shape {tuple(raw.shape)}",
                expected="a torch.nn.Parameter",
                hint=f"{called(self)}.assign(…) sets the values",
            )
        _RAW.fset(self, raw)

    raw_tensor = property(_RAW.fget, _set_raw, doc=_RAW.__doc__)

    @property
    def initial(self) -> Any:
        """The number, Tensor or initializer that gave the first values. Setting it sets the values."""
        return self._initial

    @initial.setter
    def initial(self, value: object) -> None:
        self._initial = value
        if callable(value) and not isinstance(value, Tensor):
            value = value(self.dims, self.dtype)
        self.assign(0 if value is None else value)

    def assign(self, value: object) -> None:
        """Sets the values to a number, an array of this shape, or a Tensor with (some of) these dims in any order.

        >>> feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
        >>> weight = rf.Parameter([feat, out])
        >>> weight.assign(rf.convert_to_tensor([1.0, 2.0], dims=[out]))  # the same for each entry of feat
        >>> weight.raw_tensor.tolist()
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
        """
        parameter_assign(self, value, how="assign")

    def assign_add(self, value: object) -> None:
        """Adds a number, an array or a Tensor to the values.

        >>> bias = rf.Parameter([rf.Dim(2, name="out")], initial=1.0)
        >>> bias.assign_add([0.0, 0.5])
        >>> bias.raw_tensor.tolist()
        [1.0, 1.5]
        """
        parameter_assign(self, value, how="add")

    def assign_key(
        self,
        axis: Dim | Sequence[Dim | None] | None,
        key: object,
        key_dim: Dim | Sequence[Dim | None] | None,
        value: object,
        *,
        op: str = "assign",
    ) -> None:
        """Sets the values at `key` along `axis`, or adds to them (`op="add"`).

        Args:
            axis: the dim, or a list of dims; may be None for indices with `sparse_dim`.
            key: a number, a slice, a Tensor of indices, or a list of these with one entry for each axis.
            key_dim: the dim in `value` that a slice corresponds to.

        >>> word, feat = rf.Dim(3, name="word"), rf.Dim(2, name="feat")
        >>> table = rf.Parameter([word, feat])
        >>> table.assign_key(word, 1, None, [5.0, 6.0])
        >>> table.raw_tensor.tolist()
        [[0.0, 0.0], [5.0, 6.0], [0.0, 0.0]]
        """
        parameter_assign_key(self, key, value, how=op, axis=axis, key_dim=key_dim)

    def to(self, device: str | None = None, dtype: str | None = None) -> None:
        """Moves the values to a device, or casts them, in place.

        >>> bias = rf.Parameter([rf.Dim(2, name="out")])
        >>> bias.to(dtype="bfloat16")
        >>> bias.dtype
        'bfloat16'
        """
        backends.backend_of_raw(self._raw).parameter_move_to(self, device=device, dtype=dtype)

    def num_elements(self) -> int:
        """The number of its values.

        >>> rf.Parameter([rf.Dim(3, name="in"), rf.Dim(2, name="out")]).num_elements()
        6
        """
        return math.prod(dim.dimension or 0 for dim in self.dims)

    def __copy__(self) -> Parameter:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, object]) -> Parameter:
        mode = _copying.get()
        if mode == "share":
            return self
        reduced: Any = copyreg.dispatch_table[Parameter](self)  # set in `core.tensor.pickling`
        make, (cls, values) = reduced
        new: Parameter = make(cls, copy.deepcopy(values, memo))
        if mode == "initial":
            new.initial = new.initial
        return new


_copying: ContextVar[str] = ContextVar("rfnb_parameter_copy", default="copy")


@contextmanager
def set_parameter_copy_behavior_ctx(mode: str) -> Iterator[None]:
    """Sets what `copy.deepcopy` of a module does with its parameters inside the block.

    mode: "copy", the default: new parameters with the same values; "share": the same parameters; "initial": new
        parameters, initialized again by `initial`, so that random values are drawn anew.

    >>> import copy
    >>> layer = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> with rf.set_parameter_copy_behavior_ctx("share"):
    ...     twin = copy.deepcopy(layer)
    >>> twin.weight is layer.weight
    True

    Raises ParameterError for another mode.
    """
    if mode not in ("copy", "share", "initial"):
        raise ParameterError(
            "set_parameter_copy_behavior_ctx: unknown `mode`", got=repr(mode), expected="'copy', 'share', 'initial'"
        )
    token = _copying.set(mode)
    try:
        yield
    finally:
        _copying.reset(token)


def _check(raw: RawTensor, dims: Sequence[Dim], dtype: str | None) -> None:
    backend = backends.backend_of_raw(raw)
    shape, expected = backend.get_shape_tuple_raw(raw), tuple(dim.dimension for dim in dims)
    if shape != expected:
        raise ParameterError(
            "Parameter: the shape of `raw_tensor` does not match the dims", got=shape, expected=align.show_dims(dims)
        )
    if dtype is not None and backend.get_dtype_name_raw(raw) != dtype:
        raise ParameterError(
            "Parameter: `raw_tensor` has the wrong dtype", got=backend.get_dtype_name_raw(raw), expected=dtype
        )


@op(effect=True)
def parameter_assign(param: Parameter, value: object, *, how: str) -> None:
    """Sets the values of a parameter (`how="assign"`), or adds to them (`how="add"`)."""
    backends.backend_of_raw(param._raw).parameter_assign(param, value, op=how)


@op(effect=True)
def parameter_assign_key(
    param: Parameter, key: object, value: object, *, how: str, axis: object, key_dim: object
) -> None:
    """Sets the values of a parameter at `key` along `axis`, or adds to them."""
    backend = backends.backend_of_raw(param._raw)
    backend.parameter_assign_key(param, key, value, op=how, axis=axis, key_dim=key_dim)
