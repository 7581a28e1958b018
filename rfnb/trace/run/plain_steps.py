"""What a Run of plain Python code reads from: values that were kept, as nothing can be computed again."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


class PlainSteps:
    """The part of `Replayable` that is the same for all plain Python code: no ops, no search, no computing again."""

    seed, every = 0, 1
    is_isolated = True
    sequences: tuple[None, None] = (None, None)
    lineages: tuple[()] = ()
    is_search = False

    def in_order(self) -> AbstractContextManager[None]:
        """Nothing is computed again."""
        return nullcontext()

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """No ops were recorded."""
        return []

    def ends(self) -> list[str] | None:
        """Nothing is known but that the code ended."""
        return None

    def found(self, run: Run) -> None:
        """No search."""

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """No search."""
        return {}

    def name_of(self, value: Value) -> str:
        """The name of the variable."""
        return value.name

    def rerun(self, run: Run, fn: Any) -> NoReturn:
        """Raises LoopError."""
        what = f"rerun: {run.name} is plain Python code, of which only the steps were recorded, not its call"
        raise LoopError(what, hint="run.fork(0), or the code once more")

    def gradients(self, run: Run, loss: Any) -> NoReturn:
        """Raises LoopError."""
        what = f"gradients: {run.name} is plain Python code, whose steps cannot be computed again"
        raise LoopError(what, hint="rf.Loop")

    def explain(self) -> NoReturn:
        """Raises LoopError."""
        raise LoopError("explain: the steps are plain Python code, not those of an rf.Loop")
