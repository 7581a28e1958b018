"""A Parameter: a Tensor that a module owns and training changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.core import align, raw as raw_registry
from rfnb.core.dim import Dim, check_dims
from rfnb.core.lengths import EMPTY
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.errors import ParameterError


class Parameter(Tensor):
    """A trainable tensor: `self.weight = rf.Parameter([in_dim, out_dim])`.

    Args:
        dims: all static.
        dtype: "float32" if not given.
        trainable: whether an optimizer may change it; default: float and not auxiliary.
        auxiliary: part of the checkpoint, but not of the model proper: running statistics, for example.
        initial: a number, a Tensor, or an initializer that is called with dims and dtype.

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
        initial: Any = None,
        raw_tensor: Any = None,
        device: str | None = None,
    ):
        source = dims_or_tensor if isinstance(dims_or_tensor, Tensor) else None
        dims = tuple(source.dims if source is not None else dims_or_tensor or dims or ())
        check_dims(dims, "Parameter")
        loose = [dim.name for dim in dims if dim.dimension is None]
        if loose:
            raise ParameterError("Parameter: all dims need a fixed size", got=", ".join(loose), expected="Dim(number)")
        self._name = "parameter"
        self.sig = align.sig(dims, sparse_dim)
        self.lengths = EMPTY
        self.auxiliary = auxiliary
        self.non_critical_for_restore = non_critical_for_restore
        self.weight_decay = weight_decay
        backend = raw_registry.selected()
        dtype = dtype or (source.dtype if source is not None else "float32")
        shape = [dim.dimension for dim in dims]
        self._raw = backend.create_parameter_raw(shape, dtype, device=device) if raw_tensor is None else raw_tensor
        self._trainable = trainable
        self._initial: Any = None
        self.trainable = self._trainable_by_default() if trainable is None else trainable
        if raw_tensor is None:
            self.initial = source if source is not None else 0.0 if initial is None else initial

    def _trainable_by_default(self) -> bool:
        return self.dtype.startswith(("float", "bfloat")) and not self.auxiliary

    @property
    def trainable(self) -> bool:
        """Whether it takes part in training."""
        return bool(self._trainable)

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self._trainable = trainable
        raw_registry.backend_of_raw(self._raw).set_parameter_trainable(self, trainable)

    @property
    def initial(self) -> Any:
        """What it was set to when it was made: a number, a Tensor or an initializer. Setting it sets the values."""
        return self._initial

    @initial.setter
    def initial(self, value: Any) -> None:
        self._initial = value
        if callable(value) and not isinstance(value, Tensor):
            value = value(self.dims, self.dtype)
        self.assign(value)

    def assign(self, value: Any) -> None:
        """Sets the values: a number, or a Tensor with these dims in any order."""
        parameter_assign(self, value, how="assign")

    def assign_add(self, value: Any) -> None:
        """Adds to the values."""
        parameter_assign(self, value, how="add")

    def num_elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(dim.dimension or 0 for dim in self.dims)


@op(effect=True)
def parameter_assign(param: Parameter, value: Any, *, how: str) -> None:
    """Sets the values ("assign"), or adds to them ("add")."""
    if isinstance(value, Tensor):
        extra = [dim for dim in value.dims if dim not in param.sig.index]
        if extra:
            raise ParameterError(
                f"assign: {param.name} has no dim {extra[0].name}",
                got=value.describe_dims(),
                expected=param.describe_dims(),
            )
        value = value.copy_compatible_to_dims_raw(param.dims)
    raw_registry.backend_of_raw(param._raw).parameter_assign_raw(param._raw, value, op=how)
