"""Methods of Tensor that change the layout of the same values. They are built from ops, so that loops record them."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.argument_errors import not_a_tensor
from rfnb.core.tensor.op import method_of, op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError
from rfnb.ops.shape import expand_dim

_transposed = Tensor.copy_transpose


@method_of(Tensor)
@op(frames="any")
def copy_transpose(self: Tensor, perm: Sequence[Dim | int], *, allow_int: bool = True) -> Tensor:
    """The same tensor with its axes in the order `perm`: dims, or positions if `allow_int`.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> x = rf.ones([time, feat])
    >>> x.copy_transpose([feat, time]).raw_tensor.shape, x.copy_transpose([1, 0]).raw_tensor.shape
    (torch.Size([3, 5]), torch.Size([3, 5]))
    """
    return _transposed(self, perm, allow_int=allow_int)


@method_of(Tensor)
def copy_compatible_to_dims(
    self: Tensor, dims: Sequence[Dim], *, add_dims: bool = True, unbroadcast: bool = False
) -> Tensor:
    """The same entries with axes in the order `dims`.

    A missing dim becomes a dim of size 1, or, with `unbroadcast`, the dim itself, with the entries repeated. Without
    `add_dims`, it is an error.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> rf.ones([feat]).copy_compatible_to_dims([time, feat]).describe_dims()
    '{time_broadcast:1, feat:3}'
    >>> rf.ones([feat]).copy_compatible_to_dims([time, feat], unbroadcast=True).describe_dims()
    '{time:5, feat:3}'
    """
    self.check_place(dims, add_dims=add_dims)
    order = []
    for dim in dims:
        place = dim if unbroadcast or dim in self.dims else Dim(1, name=f"{dim.name}_broadcast", kind=dim.kind)
        self = self if place in self.dims else expand_dim(self, place)
        order.append(place)
    return self.copy_transpose(order)


@method_of(Tensor)
def copy_compatible_to(
    self: Tensor,
    data: Tensor,
    add_dims: bool = True,
    unbroadcast: bool = False,
    except_feature: bool = False,
    except_axis: Dim | int | None = None,
    check_sparse: bool = True,
    check_dtype: bool = True,
) -> Tensor:
    """The same entries with axes in the order of `data`; see `copy_compatible_to_dims`.

    Args:
        except_feature: the feature dims may differ.
        except_axis: an axis of `data` that may be missing.
        check_sparse, check_dtype: raise an error if `data` has a different sparse dim or dtype.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> bias, x = rf.ones([feat]), rf.zeros([feat, time])
    >>> bias.copy_compatible_to(x).raw_tensor.shape
    torch.Size([3, 1])
    """
    if not isinstance(data, Tensor):
        raise not_a_tensor("copy_compatible_to: `data`", data)
    if check_dtype and self.dtype != data.dtype:
        raise DtypeError(f"{self.name} has a different dtype than {data.name}", got=self.dtype, expected=data.dtype)
    if check_sparse and self.sparse_dim is not data.sparse_dim:
        got, expected = (x.sparse_dim and x.sparse_dim.describe() for x in (self, data))
        raise DimError(f"{self.name} has different labels than {data.name}", got=got, expected=expected)
    dims = list(data.dims)
    if except_axis is not None:
        del dims[data.get_axis_from_description(except_axis, allow_int=True)]
    if except_feature and data.feature_dim in dims:
        at = dims.index(data.feature_dim)
        dims[at : at + 1] = [] if self.feature_dim is None else [self.feature_dim]
    return copy_compatible_to_dims(self, dims, add_dims=add_dims, unbroadcast=unbroadcast)
