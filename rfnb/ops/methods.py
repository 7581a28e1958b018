"""Methods of Tensor that are built from ops: other layouts of the same values, and methods of `torch.Tensor` that have
a unique meaning here too, such as `x.to("cuda")` and `x.detach()`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import method_of, op
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError, ParameterError
from rfnb.ops.convert import copy, copy_to_device
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import cast
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


TYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "byte": "uint8",
    "bool": "bool",
}
"""Dtypes by the name of the method: `x.long()` is `rf.cast(x, "int64")`."""


@method_of(Tensor)
def to(self: Tensor, *where: object, device: object = None, dtype: object = None, non_blocking: bool = False) -> Tensor:
    """The same values in another dtype or on another device: "cuda", "float16", torch.float16, or those of a tensor.

    >>> rf.ones([rf.Dim(2, name="feat")]).to(torch.float64).dtype
    'float64'
    """
    for target in where:
        if isinstance(target, Tensor):
            device, dtype = target.device, target.dtype
        elif _is_type(target):
            dtype = target
        else:
            device = target
    if device is not None and str(device) != self.device:
        self = copy_to_device(self, f"cuda:{device}" if isinstance(device, int) else str(device))
    name = self.dtype if dtype is None else str(dtype).removeprefix("torch.")
    return self if name == self.dtype else cast(self, name)


def _is_type(given: object) -> bool:
    if isinstance(given, str):
        return given.startswith(("float", "int", "uint", "bool", "bfloat", "complex"))
    if isinstance(given, bool):
        raise DtypeError(
            "to: the argument is neither a dtype nor a device", got=given, expected='"cuda", "float16", torch.float16'
        )
    return str(given).startswith("torch.")


@method_of(Tensor)
def cpu(self: Tensor) -> Tensor:
    """The same values on the CPU.

    >>> rf.ones([rf.Dim(3, name="feat")]).cpu().device
    'cpu'
    """
    return to(self, "cpu")


@method_of(Tensor)
def cuda(self: Tensor, device: object = "cuda") -> Tensor:
    """The same values on the GPU.

    >>> x = rf.ones([rf.Dim(3, name="feat")])
    >>> x = x.cuda() if torch.cuda.is_available() else x
    """
    return to(self, device=device)


@method_of(Tensor)
def detach(self: Tensor) -> Tensor:
    """The same values as a constant, without a gradient.

    >>> w = rf.Parameter([rf.Dim(2, name="feat")], initial=3.0)
    >>> (w * w.detach()).raw_tensor.sum().backward()
    >>> w.raw_tensor.grad.tolist()  # not 6: one factor is a constant
    [3.0, 3.0]
    """
    return stop_gradient(self)


@method_of(Tensor)
def clone(self: Tensor) -> Tensor:
    """A copy of the values in new memory.

    >>> x = rf.zeros([rf.Dim(2, name="feat")])
    >>> y = x.clone()
    >>> x.raw_tensor[0] = 5.0
    >>> x.raw_tensor.tolist(), y.raw_tensor.tolist()
    ([5.0, 0.0], [0.0, 0.0])
    """
    return copy(self)


@method_of(Tensor)
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """The tensor itself, with gradients recorded from now on, or not. For a parameter: whether it is trained.

    >>> linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> _ = linear.bias.requires_grad_(False)
    >>> [name for name, parameter in linear.named_parameters() if parameter.trainable]
    ['weight']
    """
    if not isinstance(requires_grad, bool):
        raise ParameterError("requires_grad_: not a bool", got=type(requires_grad).__name__, expected="True or False")
    if isinstance(self, Parameter):
        self.trainable = requires_grad
    else:
        self.requires_grad = requires_grad
    return self


def _caster(name: str, dtype: str) -> None:
    def method(self: Tensor) -> Tensor:
        return cast(self, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""The same values as {dtype}.

    >>> rf.ones([rf.Dim(3, name="feat")]).{name}().dtype
    '{dtype}'
    """
    setattr(Tensor, name, method)


for _name, _dtype in TYPES.items():
    _caster(_name, _dtype)

__test__ = {name: getattr(Tensor, name) for name in TYPES}  # so that doctest finds their examples
