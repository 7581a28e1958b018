"""What a dim is bound to: the lengths of the current batch, and what gave them. Each thread binds for itself."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rfnb.core.dims.lengths import Lengths


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
    _of_thread: threading.local | None = None  # `bound` and `given` of threads other than the main one

    @property
    def bound(self) -> Lengths | None:
        """The lengths of the current batch; None if the dim is not bound."""
        own = self._of_thread
        return self._bound if own is None else getattr(own, "bound", self._bound)

    @bound.setter
    def bound(self, lengths: Lengths | None) -> None:
        self.bind_to(lengths, self.given)

    @property
    def given(self) -> GivenBy:
        """What gave the lengths."""
        own = self._of_thread
        return self._given if own is None else getattr(own, "given", self._given)

    def bind_to(self, lengths: Lengths | None, given: GivenBy) -> None:
        """Binds the dim in this thread."""
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main:
            own = self.__dict__.setdefault("_of_thread", threading.local())  # atomic
            own.bound, own.given = lengths, given
        if in_main or not self._bound_in_main:
            self._bound, self._given = lengths, given
            self._bound_in_main = in_main
