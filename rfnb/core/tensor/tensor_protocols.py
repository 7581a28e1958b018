"""Protocols of Python, numpy and torch on a Tensor. What is ambiguous raises an error that shows the rfnb call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.advice.torch_equivalents import (
    METHODS,
    PROPERTIES,
    axis,
    called,
    equivalent_error,
    one_line,
    picked,
    product,
    typed,
    way_of,
)
from rfnb.core.dims import align
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.text import INSTEAD, Missing
from rfnb.errors import BackendError, DtypeError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import RawTensor, Tensor


class TensorProtocols:
    """The methods of Tensor for scalars and gradients, and for calls that raise an error with their rfnb equivalent.

    Methods that return new tensors are in `ops.methods`.
    """

    __slots__ = ()

    # -- scalars and arrays

    def _scalar(self: Tensor, what: str, way: str = "rf.reduce_sum") -> RawTensor:
        raw = self._raw  # a value of a loop body says here that its numbers cannot be read
        if self.dims:
            raise equivalent_error(
                what.format(called(self)), f"{way}({called(self)}, axis={axis(self, None)}) first", self
            )
        return raw

    def __bool__(self: Tensor) -> bool:
        return bool(self._scalar("bool({})", "rf.reduce_all or rf.reduce_any").item())

    def __int__(self: Tensor) -> int:
        return int(self._scalar("int({})").item())

    def __float__(self: Tensor) -> float:
        return float(self._scalar("float({})").item())

    def __format__(self: Tensor, spec: str) -> str:
        return format(self._scalar("format({})", "rf.reduce_mean").item(), spec) if spec else str(self)

    def __index__(self: Tensor) -> int:
        if not is_int_dtype(self.dtype):
            raise DtypeError(f"{called(self)} as an index", got=self.dtype, expected="an integer")
        return int(self._scalar("{} as an index", "rf.gather").item())

    def item(self: Tensor) -> Any:
        """The value of a scalar as a Python number."""
        return self._scalar("{}.item()").item()

    def numpy(self: Tensor) -> np.ndarray:
        """A copy of the values as a numpy array, with axes in the order of `dims`."""
        return backends.backend_of_raw(self._raw).to_numpy_raw(self._raw)

    def tolist(self: Tensor) -> Any:
        """The values as nested lists, with axes in the order of `dims`. Padding is included."""
        return self.numpy().tolist()

    def __array__(self: Tensor, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    __array_ufunc__ = None  # numpy leaves operators to Tensor, which knows dims

    # -- gradients

    def backward(self: Tensor, gradient: RawTensor = None, *, retain_graph: bool | None = None, **options: Any) -> None:
        """Computes gradients, and adds them to the `grad` of each trained tensor that this scalar depends on.

        gradient: the gradient of this tensor, with its dims; without it, the tensor must be a scalar.
        options: passed on to `torch.Tensor.backward`.
        """
        if self.dims and gradient is None:
            way = f"rf.reduce_mean({called(self)}, axis={axis(self, None)}).backward()"
            raise equivalent_error(f"{called(self)}.backward()", way, self)
        if not getattr(self._raw, "requires_grad", False):
            raise BackendError(
                f"{called(self)}.backward(): it depends on no trained tensor",
                got=f"{called(self)} {self.describe_dims()}, a constant",
                expected="a tensor computed from parameters, without torch.no_grad() or x.detach()",
            )
        raw_gradient = gradient.copy_compatible_to_dims_raw(self.dims) if hasattr(gradient, "dims") else gradient
        if raw_gradient is not None and tuple(getattr(raw_gradient, "shape", "?")) != tuple(self._raw.shape):
            raise DtypeError(
                f"{called(self)}.backward: `gradient` is not a Tensor with its dims",
                got=type(gradient).__name__,
                expected=f"a Tensor {self.describe_dims()}",
            )
        if options.get("inputs") is not None:
            options["inputs"] = [getattr(x, "raw_tensor", x) for x in options["inputs"]]
        self._raw.backward(raw_gradient, retain_graph=retain_graph, **options)

    @property
    def requires_grad(self: Tensor) -> bool:
        """Whether gradients are computed for it."""
        return bool(getattr(self._raw, "requires_grad", False))

    @requires_grad.setter
    def requires_grad(self: Tensor, value: bool) -> None:
        self._raw.requires_grad = value

    @property
    def grad(self: Tensor) -> Tensor | None:
        """The gradient after `loss.backward()`, with the dims of this tensor; None if there is none.

        Functions of torch get the raw one, so that they take `model.parameters()`: torch.nn.utils.clip_grad_norm_.
        """
        raw = getattr(self._raw, "grad", None)
        if sys._getframe(1).f_globals.get("__name__") == "torch.nn.utils.clip_grad":
            return raw
        return None if raw is None else self.like(raw, align.sig(self.dims, None, self.feature_dim))

    @grad.setter
    def grad(self: Tensor, value: Tensor | None) -> None:
        self._raw.grad = None if value is None else value.copy_compatible_to_dims_raw(self.dims)

    def retain_grad(self: Tensor) -> None:
        """Makes `loss.backward()` set the `grad` of this tensor although it is not a parameter."""
        self._raw.retain_grad()

    # -- operations that need a dim

    def __len__(self: Tensor) -> int:
        number = f"float({called(self)}) for its number: a scalar has no length"
        raise equivalent_error(
            f"len({called(self)})", f"{called(self.dims[0])}.get_dim_value()" if self.dims else number, self
        )

    def __iter__(self: Tensor) -> Iterator[Any]:
        over = axis(self, 0)
        way = f"loop.unstack({called(self)}) in a rf.Loop(axis={over}), or rf.unstack({called(self)}, axis={over})"
        raise equivalent_error(f"for … in {called(self)}", _raw_for_torch(self) or way, self)

    def __contains__(self: Tensor, value: object) -> bool:
        way = f"rf.reduce_any({called(self)} == {called(value)}, axis={axis(self, None)})"
        raise equivalent_error(f"{called(value)} in {called(self)}", way, self)

    def __getitem__(self: Tensor, key: object) -> Tensor:
        raise equivalent_error(f"{called(self)}[{_key(key)}]", picked(self, key), self)

    def __setitem__(self: Tensor, key: object, value: object) -> None:
        dim = axis(self, 0)
        way = f"{called(self)} = rf.where(rf.range_over_dim({dim}) == …, {called(value)}, {called(self)})"
        raise equivalent_error(f"{called(self)}[{_key(key)}] = …", way, self)

    def __matmul__(self: Tensor, other: object) -> Tensor:
        raise equivalent_error(f"{called(self)} @ {called(other)}", product(self, other), self)

    def __rmatmul__(self: Tensor, other: object) -> Tensor:
        raise equivalent_error(f"{called(other)} @ {called(self)}", f"rf.matmul(…, {called(self)}, reduce=…)", self)

    def __getattr__(self: Tensor, name: str) -> Any:
        if name in METHODS or (name.endswith("_") and name.rstrip("_") in METHODS):
            return _raising_method(self, name)
        way = _raw_for_torch(self) or (PROPERTIES[name](self) if name in PROPERTIES else INSTEAD.get(name))
        if way:
            raise AttributeError(one_line(f"{called(self)}.{name}", way, self), name=name, obj=self)
        if name == "__qualname__":  # torch puts it into errors about arguments that are not torch tensors
            return f"{type(self).__name__}: torch takes rf.torch_parameters(model), or x.raw_tensor"
        raise Missing(f"an rf.Tensor has no attribute {name!r}", name, type(self))

    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: Sequence[object] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        name = getattr(func, "__name__", "?")
        operand = args[0][0] if args and isinstance(args[0], list | tuple) and args[0] else args[0] if args else None
        module = getattr(func, "__module__", None)
        if not isinstance(operand, TensorProtocols):
            of_raw = module in (None, "torch._tensor")  # a method of a raw tensor
            if of_raw and _is_operator(name, args, kwargs):
                return NotImplemented  # then Python tries the right operand
            operand = next(x for x in leaves([args, kwargs]) if isinstance(x, TensorProtocols))
            if of_raw:
                raise _given_to_raw(operand, name, args, kwargs or {})
        x = operand
        in_nn = str(module).endswith(("nn.functional", "_nn"))
        where = "torch.nn.functional" if in_nn else "torch.nn.init" if module == "torch.nn.init" else "torch"
        way = way_of(x, name, args[1:], kwargs or {}) if args and args[0] is x else None
        if args and isinstance(args[0], list | tuple):
            way = METHODS[name](*args, **(kwargs or {})) if name in ("cat", "concat", "concatenate", "stack") else None
        raw = f"{where}.{name}({called(x)}.raw_tensor, …), or rf.raw_call, which says the dims of the result"
        way = way or INSTEAD.get(name) or raw
        raise equivalent_error(f"{where}.{name}({called(args[0] if args else x)}{_more(args, kwargs)})", way, x)


def _is_operator(name: str, args: Sequence[RawTensor], kwargs: object) -> bool:
    """Whether the call may be an operator between a raw tensor and a Tensor. In place, the raw one must be a scalar."""
    if len(args) != 2 or kwargs or name in ("__getitem__", "__setitem__", "__contains__"):
        return False
    in_place = name.endswith("_") and not name.endswith("__")
    return (name.rstrip("_") in _OPERATORS and not (in_place and args[0].dim())) or name.startswith("__")


_OPERATORS = set("add sub mul div floor_divide remainder pow matmul eq ne lt le gt ge bitwise_and bitwise_or".split())


def _given_to_raw(x: Any, name: str, args: Sequence[object], kwargs: dict[str, object]) -> Exception:
    """The error for a Tensor passed to a method of a raw tensor: `raw.copy_(x)`, `raw[0] = x`."""
    raw, *arguments = args
    if name in ("__getitem__", "__setitem__"):
        call = f"{called(raw)}[{_key(arguments[0])}]" + (f" = {called(arguments[1])}" if len(arguments) > 1 else "")
    else:
        call = typed(raw, name, arguments, kwargs)
    return equivalent_error(
        call, f"{called(x)}.raw_tensor" if x.dims else f"float({called(x)}), or {called(x)}.raw_tensor", x
    )


def _raw_for_torch(x: object) -> str | None:
    """The way out where a function of torch was given `x` and now calls a method of it; None for calls of users."""
    caller = str(sys._getframe(2).f_globals.get("__name__"))
    return f"{caller} takes {called(x)}.raw_tensor" if caller.startswith("torch.") else None


def _raising_method(x: object, name: str) -> object:
    """The value of `x.mean`: a function that raises the error, since the equivalent depends on the arguments."""

    def raising(*args: object, **kwargs: object) -> object:
        try:
            way = _raw_for_torch(x) or way_of(x, name, args, kwargs) or "…"
        except TypeError:  # arguments that torch does not accept either
            way = METHODS[name.rstrip("_") if name not in METHODS else name](x)
        raise equivalent_error(typed(x, name, args, kwargs), way, x)

    return raising


def _key(key: object) -> str:
    """The key as the user wrote it between the brackets."""
    if isinstance(key, tuple):
        return ", ".join(map(_key, key))
    if not isinstance(key, slice):
        return "..." if key is Ellipsis else called(key)
    ends = [("" if end is None else called(end)) for end in (key.start, key.stop)]
    return ":".join(ends if key.step is None else [*ends, called(key.step)])


def _more(args: Sequence[object], kwargs: dict[str, object] | None) -> str:
    dim = (kwargs or {}).get("dim")
    return f", dim={called(dim)}" if dim is not None else ", …" if len(args) > 1 else ""
