"""A list of tensors of one kind, which grows and becomes one tensor in the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rfnb.backend.base.require import require_same_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError


class TensorArray:
    """Tensors of the same dims, one after the other.

    >>> feat, steps = rf.Dim(2, name="feat"), rf.Dim(None, name="steps")
    >>> array = rf.TensorArray(rf.Tensor("x", [feat], "float32"))
    >>> for number in (1.0, 2.0, 3.0):
    ...     array = array.push_back(rf.full(dims=[feat], fill_value=number))
    >>> array.stack(axis=steps).raw_tensor.tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]

    In a `with rf.Loop()` it is not needed: `loop.stack` does this.

    Args:
        tensor_template: dims and dtype of each; `Tensor(name, dims, dtype)` without data will do.
    """

    def __init__(
        self,
        tensor_template: Tensor,
        *,
        _backend_tensor_array: list[Tensor] | None = None,
        _backend: Any = None,
        _enable_delayed_check: bool = False,
    ):
        self.tensor_template = tensor_template
        self._backend = _backend or raw_registry.selected()
        self._tensors = self._backend.tensor_array_create() if _backend_tensor_array is None else _backend_tensor_array

    def _with(self, tensors: list[Tensor]) -> TensorArray:
        return TensorArray(self.tensor_template, _backend_tensor_array=tensors, _backend=self._backend)

    def push_back(self, tensor: Tensor) -> TensorArray:
        """An array with `tensor` at the end; this one stays as it is. Raises DimError or DtypeError if it differs."""
        require_same_dims("push_back", tensor, self.tensor_template.dims, "tensor")
        if tensor.dtype != self.tensor_template.dtype:
            raise DtypeError("push_back: another dtype", got=tensor.dtype, expected=self.tensor_template.dtype)
        return self._with(self._backend.tensor_array_push_back(self._tensors, tensor))

    def stack(self, *, axis: Dim) -> Tensor:
        """All as one; a new `axis` gets its size, and one with lengths gets its frames. → {axis, …}"""
        stacked: Tensor = self._backend.tensor_array_stack(
            self._tensors, axis=axis, tensor_template=self.tensor_template
        )
        return stacked

    @classmethod
    def unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorArray:
        """The frames of `tensor` along `axis`. {…, axis}"""
        backend = raw_registry.backend_of_raw(tensor._raw)
        frames = backend.tensor_array_unstack(tensor, axis=axis)
        dims = [dim for dim in tensor.dims if dim is not axis]
        template = Tensor(tensor.name, dims, tensor.dtype, sparse_dim=tensor.sparse_dim)
        return cls(template, _backend_tensor_array=frames, _backend=backend)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        found: Tensor = self._backend.tensor_array_get_item(self._tensors, index)
        return found

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors)

    def __repr__(self) -> str:
        return f"TensorArray({len(self)} of {self.tensor_template.describe_dims()})"
