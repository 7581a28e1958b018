"""Checks of a Tensor against its description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.core.advice.broadcast_errors import nearest
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.dim import check_dims
from rfnb.core.ground import raw as _raw_registry
from rfnb.core.ground.dtype import is_int_dtype
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import Tensor


class Checks:
    """The methods of Tensor that raise an error if its dims, dtype or labels are not as described."""

    __slots__ = ()

    def verify_out_shape(
        self: Tensor, out_shape: Sequence[Dim] | set[Dim], allow_missing_implicit_dims: bool = False
    ) -> Tensor:
        """Returns this tensor if its dims are `out_shape`, in any order. Raises DimError if not.

        allow_missing_implicit_dims: `out_shape` may also contain dims that only the lengths of this tensor have.

        >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
        >>> x = rf.ones([time, feat])
        >>> x.verify_out_shape({feat, time}) is x
        True
        >>> x.verify_out_shape({time})
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: tensor has unexpected dims
        ...
        """
        check_dims(out_shape, "verify_out_shape")
        expected = set(out_shape)
        if allow_missing_implicit_dims:
            sizes = [self.lengths.size(dim) for dim in self.dims]
            expected -= {dim for size in sizes if size for dim in size.dims} - self.dims_set
        if expected != self.dims_set:
            odd = [dim for dim in self.dims if dim not in expected]
            raise DimError(
                f"{self.name} has unexpected dims",
                got=show_dims(self.dims),
                expected=show_dims(tuple(out_shape)),
                hint=nearest(odd[0], tuple(expected)) if odd else None,
            )
        return self

    def sanity_check(self: Tensor, ignore_placeholder: bool = False, assume_complete: bool = True) -> None:
        """Raises DimError or DtypeError if the feature dim, the labels or the shape of the raw tensor are inconsistent.

        ignore_placeholder: whether to skip the check of the raw tensor.

        >>> word = rf.Dim(3, name="word")
        >>> rf.Tensor("words", [rf.batch_dim], "int64", sparse_dim=word).sanity_check()
        >>> rf.Tensor("words", [rf.batch_dim], "float32", sparse_dim=word).sanity_check()
        Traceback (most recent call last):
            ...
        rfnb.errors.DtypeError: words: labels must be integers
        ...
        """
        if self.feature_dim is not None:
            self.axis(self.feature_dim)
        if self.sparse_dim is not None and not is_int_dtype(self.dtype):
            raise DtypeError(f"{self.name}: labels must be integers", got=self.dtype, expected="int32 or int64")
        if self.raw_tensor is not None and not ignore_placeholder:
            shape = _raw_registry.backend_of_raw(self._raw).get_shape_tuple_raw(self._raw)
            expected = tuple(self.size_of(dim).max for dim in self.dims)
            if tuple(shape) != expected:
                raise DimError(
                    f"{self.name}: the shape of the raw tensor does not match the dims", got=shape, expected=expected
                )

    def runtime_sanity_checks(self: Tensor) -> None:
        """Does what `sanity_check` does, and raises DimError if a label in a valid frame is outside the sparse dim.

        >>> word = rf.Dim(3, name="word")
        >>> words = rf.Tensor("words", [rf.batch_dim], sparse_dim=word, raw_tensor=torch.tensor([0, 3]))
        >>> words.runtime_sanity_checks()
        Traceback (most recent call last):
            ...
        rfnb.errors.DimError: words: a label is outside word
        ...
        """
        self.sanity_check()
        _raw_registry.backend_of_raw(self._raw).runtime_sanity_checks(self)
