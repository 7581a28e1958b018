"""`rf.TensorArray`: a growing list of tensors with the same dims and dtype, to be stacked into one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rfnb.backend.base.require import require_same_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError


class TensorArray:
    """An immutable list of tensors with the same dims and dtype.

    >>> feat, steps = rf.Dim(2, name="feat"), rf.Dim(None, name="steps")
    >>> array = rf.TensorArray(rf.Tensor("x", [feat], "float32"))
    >>> for number in (1.0, 2.0, 3.0):
    ...     array = array.push_back(rf.full(dims=[feat], fill_value=number))
    >>> array.stack(axis=steps).raw_tensor.tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]

    In the body of an `rf.Loop`, use `loop.stack` instead.

    Args:
        tensor_template: gives the dims and dtype of each tensor; it needs no data, as in `Tensor(name, dims, dtype)`.
    """

    @guarded
    def __init__(
        self,
        tensor_template: Tensor,
        *,
        _backend_tensor_array: list[Tensor] | None = None,
        _backend: Any = None,
        _enable_delayed_check: bool = False,
    ):
        if not isinstance(tensor_template, Tensor):
            raise not_a_tensor("TensorArray: `tensor_template`", tensor_template)
        self.tensor_template = tensor_template
        self._backend = _backend or raw_registry.selected()
        self._tensors = self._backend.tensor_array_create() if _backend_tensor_array is None else _backend_tensor_array

    def _with(self, tensors: list[Tensor]) -> TensorArray:
        return TensorArray(self.tensor_template, _backend_tensor_array=tensors, _backend=self._backend)

    def push_back(self, tensor: Tensor) -> TensorArray:
        """A new array with `tensor` appended. Raises DimError or DtypeError if its dims or dtype differ."""
        require_same_dims("push_back", tensor, self.tensor_template.dims, "tensor")
        if tensor.dtype != self.tensor_template.dtype:
            raise DtypeError(
                "push_back: wrong dtype",
                got=tensor.dtype,
                expected=self.tensor_template.dtype,
            )
        return self._with(self._backend.tensor_array_push_back(self._tensors, tensor))

    def stack(self, *, axis: Dim) -> Tensor:
        """All tensors stacked along `axis`, which gets their number as its size if it has none. → {axis, …}

        If `axis` has lengths, tensors after the longest sequence are dropped; `rf.gather` of the result still finds
        them.
        """
        stacked: Tensor = self._backend.tensor_array_stack(
            self._tensors, axis=axis, tensor_template=self.tensor_template
        )
        return stacked

    @classmethod
    def unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorArray:
        """A TensorArray of the frames of `tensor` along `axis`. {…, axis}"""
        backend = raw_registry.backend_of_raw(tensor._raw)
        frames = backend.tensor_array_unstack(tensor, axis=axis)
        dims = [dim for dim in tensor.dims if dim is not axis]
        template = Tensor(tensor.name, dims, tensor.dtype, sparse_dim=tensor.sparse_dim)
        return cls(template, _backend_tensor_array=frames, _backend=backend)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        item: Tensor = self._backend.tensor_array_get_item(self._tensors, index)
        return item

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors)

    def __repr__(self) -> str:
        return f"TensorArray({len(self)} of {self.tensor_template.describe_dims()})"
