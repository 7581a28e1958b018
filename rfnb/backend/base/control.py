"""Control flow of backends. They compute eagerly, so Python's own suffices, and functions of graph mode do nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from rfnb.backend.base.index import Stacked
from rfnb.backend.base.math import join
from rfnb.backend.base.require import require_same_dims
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import BackendError, DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


S = TypeVar("S")
Array = list[Tensor]


class ControlOps:
    """No raw part of its own."""

    TensorArrayType = Array

    @staticmethod
    def cond(pred: Tensor, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> Any:
        """The result of `true_fn` if `pred` {} is true, else that of `false_fn`. The other function is not called."""
        return true_fn() if bool(pred) else false_fn()

    @staticmethod
    def while_loop(cond: Callable[[S], bool | Tensor], body: Callable[[S], S], initial: S) -> S:
        """body(body(… initial)), repeated while `cond` is true."""
        state = initial
        while bool(cond(state)):
            state = body(state)
        return state

    @staticmethod
    def get_tensor_dependencies(x: Tensor) -> Sequence[Tensor]:
        """Raises BackendError: what is computed at once has no graph."""
        raise _no_graph("get_tensor_dependencies", x)

    @staticmethod
    def get_tensor_consumers(x: Tensor) -> Sequence[Tensor]:
        """Raises BackendError: what is computed at once has no graph."""
        raise _no_graph("get_tensor_consumers", x)

    @classmethod
    def tensor_array_create(cls: type[Backend]) -> Array:
        """An empty tensor array."""
        return []

    @classmethod
    def tensor_array_unstack(cls: type[Backend], tensor: Tensor, *, axis: Dim) -> Array:
        """The frames along `axis`. {…, axis} → [{…}, …]"""
        signature = align.without(tensor.sig, [axis])
        return [tensor_of(raw, signature, tensor.lengths) for raw in cls.unstack_raw(tensor._raw, tensor.axis(axis))]

    @classmethod
    def tensor_array_stack(cls: type[Backend], tensor_array: Array, *, axis: Dim, tensor_template: Tensor) -> Tensor:
        """All tensors stacked along `axis`, which comes first. [{…}, …] → {axis, …}

        If each sequence has a length, frames after the longest one are dropped; only `gather` can reach them.
        """
        size, entries = axis.size if axis.is_defined() else None, tensor_array
        if size is not None and size.dims:
            tensor_array = tensor_array[: size.max]
        if size is not None and size.max != len(tensor_array):
            raise DimError(
                f"stack: {axis.name} has a different size", got=f"{len(tensor_array)} tensors", expected=size
            )
        if size is None:
            axis.define(Size((), len(tensor_array)), "stack")
        dims = tensor_template.dims
        for x in tensor_array:
            require_same_dims("stack", x, dims, "tensor")
        lengths = join(*(tensor_array or [tensor_template]))
        if tensor_array:
            raw = cls.stack_raw([cls.move_raw(x._raw, align.move(x.dims, dims)) for x in tensor_array], 0)
        else:
            shape = [extent.max if (extent := lengths.size(dim)) else 0 for dim in dims]
            raw = cls.full_raw([0, *shape], 0, tensor_template.dtype, None)
        out = align.sig([axis, *dims], tensor_template.sparse_dim, tensor_template.feature_dim)
        lengths = lengths.join(axis.lengths, tensor_template.sig, out)
        if len(entries) > len(tensor_array):
            every = Dim(len(entries), name=axis.name)
            stacked = cls.tensor_array_stack(entries, axis=every, tensor_template=tensor_template)
            lengths = lengths.bind({})  # no other tensor has these, except results computed from this one
            lengths.keep(("stacked", axis.serial), Stacked(raw, stacked, every))
        return tensor_of(raw, out, lengths)

    @classmethod
    def tensor_array_push_back(cls: type[Backend], tensor_array: Array, value: Tensor) -> Array:
        """The array with one more tensor at the end; the given array does not change."""
        return [*tensor_array, value]

    @classmethod
    def tensor_array_get_item(cls: type[Backend], tensor_array: Array, index: int | Tensor) -> Tensor:
        """The tensor at a position. Raises DimError if there is none."""
        at = int(index)
        if not -len(tensor_array) <= at < len(tensor_array):
            raise DimError(f"the array has no tensor {at}", got=f"{len(tensor_array)} tensors")
        return tensor_array[at]


def _no_graph(what: str, x: Tensor) -> BackendError:
    return BackendError(
        f"{what}: ops run at once here, so no graph records them",
        got=f"{x.name} {x.describe_dims()}",
        expected="a value of a loop body",
        hint="inside `with rf.Loop(…)`, where a graph is recorded",
    )


class EagerOps:
    """Functions that only matter in graph mode. There is no raw part."""

    @staticmethod
    def executing_eagerly() -> bool:
        """Whether ops run at once: True."""
        return True

    @staticmethod
    def name_scope_raw(name: str) -> AbstractContextManager[None]:
        """A context that does nothing, since raw tensors have no names."""
        return nullcontext()

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[object]) -> AbstractContextManager[None]:
        """A context that does nothing, since ops run in order."""
        return nullcontext()

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: RawTensor, dependencies: Sequence[object]) -> RawTensor:
        """The tensor itself, since ops run in order."""
        return raw_tensor

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> RawTensor:
        """Raises BackendError, since eager tensors always have data."""
        raise BackendError(
            "create_placeholder: placeholders do not exist here, since ops run at once",
            got=tensor.describe_dims(),
            hint="rf.convert_to_tensor(data, dims=[…]); tensor.copy_template() for a description without data",
        )

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """True, since there is no graph."""
        return True

    @staticmethod
    def format_graph_output(raw_tensor: RawTensor, *, max_depth: int | None = None) -> str | None:
        """None, since there is no graph."""
        return None


def lacking(name: str) -> Callable[..., object]:
    """A function that raises a BackendError, in place of a raw function that the backend lacks."""

    op = "loops" if name == "new_tape" else name.removesuffix("_raw")

    def missing(cls: type[Backend], *_: object, **__: object) -> object:
        raise BackendError(
            f"{op}: the {cls.name} backend does not support this",
            got=f"a {cls.RawTensorType.__name__}",
            expected=f"a backend with {name}",
            hint='rf.select_backend("torch") before the tensors are made',
        )

    return missing
