"""What each dim is bound to now, in this thread; merged into one `Lengths` for several dims."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rfnb.core.dims.align import show_dims
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.errors import DimError, DimRebound

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


class GivenBy(NamedTuple):
    """What gave a dim its lengths.

    op: the one that defined the dim, and may define it again; None for data. loop: whether this is a loop, which gave
    the number of its steps.
    """

    op: str | None = None
    loop: bool = False


DATA = GivenBy()


class Bindable:
    """Base class of Dim: the current binding.

    Threads that compute at the same time share dims, as those of a server do that share a model, but not batches. A
    thread that has not bound the dim sees the binding of the main thread. If the main thread has not bound it either,
    the latest binding counts: another thread may prepare the batches. Coroutines belong to their thread, as a cell
    with `await` does.
    """

    _bound: Lengths | None = None
    _given = DATA
    _bound_in_main = False
    is_bound_again = False
    """Whether it had the lengths of another batch before."""
    _of_thread: threading.local | None = None  # `bound` and `given` of threads other than the main one

    @property
    def bound(self) -> Lengths | None:
        """The lengths of the current batch; None if the dim is not bound."""
        local = self._of_thread
        return self._bound if local is None else getattr(local, "bound", self._bound)

    @bound.setter
    def bound(self, lengths: Lengths | None) -> None:
        self.bind_to(lengths, self.given)

    @property
    def given(self) -> GivenBy:
        """What gave the lengths."""
        local = self._of_thread
        return self._given if local is None else getattr(local, "given", self._given)

    def bind_to(self, lengths: Lengths | None, given: GivenBy) -> None:
        """Binds the dim in this thread."""
        self.is_bound_again = self.is_bound_again or self._bound not in (None, lengths)
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main:
            local = self.__dict__.setdefault("_of_thread", threading.local())  # atomic
            local.bound, local.given = lengths, given
        if in_main or not self._bound_in_main:
            self._bound, self._given = lengths, given
            self._bound_in_main = in_main


def current_lengths(dims: Sequence[Dim]) -> Lengths:
    """The lengths that `dims` are currently bound to, merged into one.

    Raises DimRebound if one of them was bound for a different number of sequences than the current batch has.
    """
    joined, mixed = EMPTY, False
    for dim in dims:
        for root in () if dim.dimension is not None else (dim,) if dim.expr is None else dim.roots.values():
            bound = root._bound if root._of_thread is None else root.bound  # the property costs a third of this call
            if (bound is None and (bound := root.assumed) is None) or joined is bound:
                continue
            old, joined = joined, bound if joined is EMPTY else _with_size(joined, root.serial, bound)
            mixed = mixed or (old is not EMPTY and joined is not old and joined is not bound)
    if mixed:
        _check_one_batch({serial: root for dim in dims for serial, root in dim.roots.items()}, joined)
    return joined


def _with_size(lengths: Lengths, serial: int, other: Lengths) -> Lengths:
    if lengths.sizes.get(serial) is other.sizes[serial]:
        return lengths
    if lengths.sizes.items() <= other.sizes.items():
        return other

    def make() -> Lengths:
        sizes = {**other.sizes, **lengths.sizes, serial: other.sizes[serial]}
        return other if sizes == other.sizes else Lengths(sizes)

    return lengths.cached(("with", serial, other.serial), make)


def _check_one_batch(roots: dict[int, Dim], lengths: Lengths) -> None:
    for serial, root in roots.items():
        size = lengths.sizes.get(serial)
        for axis, owner in enumerate(size.dims if size else ()):
            count = lengths.size(owner)
            if size and count and owner.serial in roots and count.max != size.values.shape[axis]:
                raise DimRebound(
                    f"{root.name} has the lengths of a different batch than {owner.name}",
                    got=f"{size}{size.place()} for {count}{count.place()} entries of {owner.name}",
                    expected="dims of the same batch",
                    hint=f"give {root.name} its new lengths: rf.convert_to_tensor(…, lengths=…)",
                    dims=[root],
                )


def bind_again(dims: Sequence[Dim], lengths: Lengths) -> None:
    """Binds `dims` again to an earlier batch, with the sizes that they have in `lengths`."""
    for dim in dims:
        for serial, root in dim.roots.items():
            if serial in lengths.sizes:
                root.bound = lengths


def bind_shape(name: str, dims: Sequence[Dim], shape: Sequence[int], *, refill: bool = False) -> Lengths:
    """The lengths of a tensor that is made from a raw tensor of this `shape`; binds dims that have no size yet.

    The result lacks dims that have a template of their lengths, but no lengths yet.

    refill: the data of another batch may come before its lengths: the result also lacks such dims if they do not fit.

    Raises DimError if the shape does not fit the dims.
    """
    if len(dims) != len(shape):
        raise DimError(
            f"{name}: the raw tensor has {len(shape)} axes, but {len(dims)} dims were given",
            got=f"shape {tuple(shape)}",
            expected=show_dims(dims),
        )
    unbound: dict[Dim, Size] = {}  # bound once all are known to fit
    waiting: list[Dim] = []
    for dim, length in zip(dims, shape, strict=True):
        if dim.dimension == length:
            continue
        lengths = (dim.bound if dim.dimension is dim.expr is None else None) or current_lengths([dim])
        size = (lengths.bind(unbound) if unbound else lengths).size(dim)
        if size is not None and size.assumed and dim.template is not None:
            size = None  # the tensor waits for its lengths
        if size is not None and size.max == length and (not size.dims or _fits(size, dims, shape)):
            continue
        if dim.template is not None and (size is None or refill):
            waiting.append(dim)
            continue
        if (
            dim.is_static()
            or dim.expr is not None
            or dim.capacity not in (None, length)
            or (size is not None and size.dims)
        ):
            raise DimError(
                f"{name}: the raw tensor does not fit {dim.name}",
                got=f"{length} in shape {tuple(shape)}",
                expected=f"{dim.name}:{'?' if size is None else size}",
                hint=_fitting(dims, shape) or (None if dim.is_static() else _NEW_BATCH),
                dims=[dim],
            )
        unbound[dim] = Size([], length)
    for dim, new_size in unbound.items():
        dim.bind(new_size)
    return current_lengths([dim for dim in dims if dim not in waiting] if waiting else dims)


_NEW_BATCH = "for a new batch, pass its lengths: rf.convert_to_tensor(…, lengths=…)"


def _fits(size: Size, dims: Sequence[Dim], shape: Sequence[int]) -> bool:
    counts = zip(size.dims, size.values.shape, strict=True)
    return not [dim for dim, count in counts if dim in dims and shape[dims.index(dim)] != count]


def _fitting(dims: Sequence[Dim], shape: Sequence[int]) -> str | None:
    """A hint that shows an order of the dims in which they fit; None if there is no such order."""
    sizes = [size.max if (size := current_lengths([dim]).size(dim)) is not None else None for dim in dims]
    for order in itertools.permutations(range(len(dims))) if len(dims) <= 5 else ():
        if all(sizes[i] in (None, length) for i, length in zip(order, shape, strict=True)):
            return f"they fit in another order: dims=[{', '.join(dims[i].name for i in order)}]"
    return None
