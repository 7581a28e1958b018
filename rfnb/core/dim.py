"""A Dim: an axis with a name and an identity. Two dims are the same if they are the same object."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core import dim_math
from rfnb.core.dim_math import Expr
from rfnb.core.lengths import EMPTY, Lengths, Size
from rfnb.core.source import Source, here
from rfnb.core.vocab import Vocab, vocab_of
from rfnb.errors import DimError, DimRebound, TraceError

if TYPE_CHECKING:
    from rfnb.core.tensor import Tensor

_serials = itertools.count()


class Dim:
    """An axis of tensors: `feat = Dim(40, name="feat")`, `time = Dim(None, name="time")`.

    Args:
        dimension: the size; None if it is known only with the data; or the lengths of the sequences
            (a Tensor {batch}, or numbers, for `batch_dim`).
        name: shown everywhere.
        vocab: what the entries of a tensor that is sparse in this dim are called: a list of labels,
            a file with a label per line, or an object with `decode`.
        kind: "batch", "spatial" or "feature", for views; guessed if not given.

    Dims can be added, multiplied and divided: `time + 1`, `4 * feat`, `time.ceildiv_right(2)`; the same
    expression of the same dims is the same Dim, so `time + 1 - 1` is `time`.
    """

    def __init__(
        self,
        dimension: int | Tensor | Sequence[int] | np.ndarray | None,
        *,
        name: str | None = None,
        vocab: Vocab | Sequence[str] | object | None = None,
        kind: str | None = None,
        description: str | None = None,
        capacity: int | None = None,
        dyn_size_ext: Tensor | None = None,
    ):
        self.serial = next(_serials)
        self.name: str = name or description or f"dim{self.serial}"
        self.kind = kind
        self.capacity = capacity
        self.vocab = vocab_of(vocab)
        self.expr: Expr | None = None
        self.made: Source | None = here()
        self.defined_by: str | None = None
        self.bound: Lengths | None = None
        self.changes_in: str | None = None  # the loop in which its size differs at every step
        self.dimension: int | None = None
        lengths = dyn_size_ext if dimension is None else dimension
        if isinstance(lengths, str):
            raise DimError("Dim: the size comes first", got=repr(lengths), hint=f'rf.Dim(None, name="{lengths}")')
        if isinstance(lengths, int | np.integer):
            self.dimension = self._checked_size(int(lengths))
        elif lengths is not None:
            self.bind(_size_from(lengths))

    def _checked_size(self, size: int) -> int:
        if size < 0:
            raise DimError(f"Dim: {self.name} cannot have a negative size", got=size, expected="0 or more")
        if self.vocab is not None and 0 < len(self.vocab) != size:
            raise DimError(
                f"Dim: the vocab of {self.name} has another size", got=f"{len(self.vocab)} labels", expected=size
            )
        return size

    def __copy__(self) -> Dim:
        return self

    def __deepcopy__(self, memo: object) -> Dim:
        return self  # identity is what a Dim is: the copy of a module has the same dims

    # -- what it is

    def is_static(self) -> bool:
        """Whether the size is a fixed number."""
        return self.dimension is not None

    def is_dynamic(self) -> bool:
        """Whether the size comes with the data."""
        return self.dimension is None

    def is_batch_dim(self) -> bool:
        """Whether this counts sequences."""
        return self.kind == "batch"

    @property
    def formula(self) -> str | None:
        """How it is made of other dims: "time+1"; None for a dim of its own."""
        return None if self.expr is None else self.expr.text()

    @cached_property
    def roots(self) -> dict[int, Dim]:
        """By serial: the dims whose size decides the size of this one."""
        if self.dimension is not None:
            return {}
        if self.expr is None:
            return {self.serial: self}
        return {serial: root for dim in self.expr.dims for serial, root in dim.roots.items()}

    @cached_property
    def static_size(self) -> Size:
        """The size of a static dim."""
        return Size((), self.dimension)

    # -- the current batch

    @property
    def lengths(self) -> Lengths:
        """The sizes that this dim was bound to last; EMPTY before."""
        for root in self.roots.values():
            if root.bound is not None:
                return root.bound
        return EMPTY

    @property
    def size(self) -> Size:
        """The size in the batch that is bound now."""
        size = current_lengths([self]).size(self)
        if size is None:
            raise DimError(
                f"{self.name} has no size yet",
                expected="a Dim whose size is known",
                hint=f"make a tensor with it first: rf.convert_to_tensor(raw, dims=[…, {self.name}, …], lengths=…)",
            )
        return size

    def bind(self, size: Size) -> Lengths:
        """Gives the dim its size for a new batch. Tensors that exist keep theirs."""
        context = current_lengths(size.dims)
        self.bound = context.bind({self: size})
        return self.bound

    def get_dim_value(self) -> int:
        """The size of the padded axis, for the batch bound now."""
        changes_in = next((root.changes_in for root in self.roots.values() if root.changes_in), None)
        if changes_in is not None:
            raise TraceError(
                f"{changes_in}: the size of {self.name} is asked for in the body, but differs at every step",
                hint="use an op: rf.reduce_mean, or a state that counts",
            )
        return self.size.max

    def is_defined(self) -> bool:
        """Whether the size is known now."""
        return current_lengths([self]).size(self) is not None

    # -- algebra

    def __add__(self, other: Dim | int) -> Dim:
        return dim_math.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Dim | int) -> Dim:
        return dim_math.add(self, other, sign=-1)

    def __rsub__(self, other: int) -> Dim:
        return dim_math.add(other, self, sign=-1)

    def __mul__(self, other: Dim | int) -> Dim:
        return dim_math.mul(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim | int) -> Dim:
        return dim_math.div(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return dim_math.div(other, self)

    def __mod__(self, other: Dim | int) -> Dim:
        return dim_math.mod(self, other)

    def ceildiv_right(self, other: Dim | int) -> Dim:
        """⌈self / other⌉"""
        return dim_math.div(self, other, rounding="ceildiv")

    def declare_same_as(self, other: Dim) -> None:
        """From now on this dim has the size of `other`. Only for a dim that has no size yet.

        Raises DimError if it has one.
        """
        if self.is_static() or self.expr is not None or self.bound is not None:
            raise DimError(f"declare_same_as: {self.name} is in use already", expected="a Dim without a size")
        self.__dict__.pop("roots", None)
        self.expr = dim_math.Expr("sum", (other,), (1, 0))
        self.dimension = other.dimension

    def define(self, size: Size, by: str) -> None:
        """Gives an output dim its size; for the op `by` only, which may do it again for a new batch."""
        if self.is_static() or self.expr is not None:
            known = current_lengths([self]).size(self)
            if known is not None and known.max != size.max:
                raise DimError(f"{by}: {self.name} has another size", got=size, expected=known)
            return
        if self.defined_by not in (None, by) or (self.defined_by is None and self.bound is not None):
            raise DimError(
                f"{by}: {self.name} is in use already",
                got=f"a dim defined by {self.defined_by or 'data'}",
                expected="a new Dim(None), or one that this op defined",
            )
        self.defined_by = by
        self.bind(size)

    def __repr__(self) -> str:
        return f"Dim{{{self.describe()}}}"

    def describe(self) -> str:
        """One word for messages: "time:5", "time:2–5", "feat:4", "time:?"."""
        return describe_dim(self, current_lengths([self]))


def check_dims(dims: Any, what: str) -> None:
    """Refuses what is no list of Dims."""
    if isinstance(dims, Dim):
        raise DimError(f"{what}: one Dim, where a list of them is expected", got=dims.name, expected=f"[{dims.name}]")
    for dim in dims:
        if not isinstance(dim, Dim):
            raise DimError(
                f"{what}: {dim!r} is no Dim",
                got=type(dim).__name__,
                expected="Dims, which say what the axes are",
                hint=f'rf.Dim({dim}, name="…")' if isinstance(dim, int) else f'{dim} = rf.Dim(None, name="{dim}")',
            )


def describe_dim(dim: Dim, lengths: Lengths) -> str:
    """One word for a dim under the lengths of a batch."""
    size = lengths.size(dim)
    if size is None:
        return f"{dim.name}:?"
    if size.ragged:
        return f"{dim.name}:{int(size.values.min())}–{size.max}"
    return f"{dim.name}:{size.max}"


def current_lengths(dims: Sequence[Dim]) -> Lengths:
    """The lengths that `dims` are bound to now, in one.

    Raises DimRebound if one of them was bound with another number of sequences than there are now.
    """
    joined, mixed = EMPTY, False
    for dim in dims:
        for serial, root in dim.roots.items():
            if root.bound is None or joined is root.bound:
                continue
            first, joined = joined, root.bound if joined is EMPTY else _with_size(joined, serial, root.bound)
            mixed = mixed or (first is not EMPTY and joined is not first)
    if mixed:
        _check_one_batch({serial: root for dim in dims for serial, root in dim.roots.items()}, joined)
    return joined


def _check_one_batch(roots: dict[int, Dim], lengths: Lengths) -> None:
    for serial, root in roots.items():
        size = lengths.sizes.get(serial)
        for axis, owner in enumerate(size.dims if size else ()):
            count = lengths.size(owner)
            if size and count and owner.serial in roots and count.max != size.values.shape[axis]:
                raise DimRebound(
                    f"{root.name} has the lengths of another batch than {owner.name}",
                    got=f"{size}{size.place()} for {count}{count.place()} entries of {owner.name}",
                    expected="dims of the same batch",
                    hint=f"give {root.name} its new lengths: rf.convert_to_tensor(…, lengths=…)",
                )


def bind_again(dims: Sequence[Dim], lengths: Lengths) -> None:
    """Back to an earlier batch: `dims` have the sizes that they have in `lengths`."""
    for dim in dims:
        for serial, root in dim.roots.items():
            if serial in lengths.sizes:
                root.bound = lengths


def _with_size(lengths: Lengths, serial: int, other: Lengths) -> Lengths:
    if lengths.sizes.get(serial) is other.sizes[serial]:
        return lengths
    sizes = {**other.sizes, **lengths.sizes, serial: other.sizes[serial]}
    return lengths.cached(("with", serial, other.serial), lambda: Lengths(sizes))


def _derived(expr: Expr) -> Dim:
    dim = Dim(None, name=expr.text())
    dim.expr = expr
    if all(part.dimension is not None for part in expr.dims):
        size = expr.evaluate(lambda part: part.static_size)
        dim.dimension = size.max if size is not None else None
    kinds = {part.kind for part in expr.dims}
    dim.kind = kinds.pop() if len(kinds) == 1 else None
    return dim


dim_math._new_dim.append(_derived)

batch_dim = Dim(None, name="batch", kind="batch")
"""The dim that counts the sequences of a batch."""

single_step_dim = Dim(1, name="single_step")
"""What to give as `spatial_dim` to do one step of a recurrent module."""

_to_size: list[Callable[[Any], Size | None]] = []  # set by core.tensor, which knows Tensors


def _size_from(lengths: Any) -> Size:
    for convert in _to_size:
        size = convert(lengths)
        if size is not None:
            return size
    values = np.asarray(lengths)
    if values.ndim:
        batch_dim.bind(Size([], len(values)))
    return Size([batch_dim] if values.ndim else [], values)
