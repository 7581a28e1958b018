"""Facts about modules, loops and branches, beyond what every node of a graph has."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A called module.

    path: "encoder.layers.0", "" for the model itself. count, trainable: the number of values in its parameters, and how
    many of them are trained, including modules inside. note: its options, "in:26 → out:128". call: the number of
    earlier calls.
    """

    cls: str
    path: str
    count: int = 0
    trainable: int = 0
    note: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class LoopState:
    """A state of a loop, by numbers of values: `initial` and `final` are outside the loop, `before` and `after` inside.

    `after` is None if the body never sets the state, `final` if it is never read. dim: set instead of values if the
    state is a growing axis.
    """

    name: str
    initial: int | None = None
    before: int | None = None
    after: int | None = None
    final: int | None = None
    dim: Dim | None = None


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop. axis, size: the Dim of its steps, and the number of steps of each sequence; None if not known.

    unstacked: pairs (value outside, its frame in the body). stacked, lasts: pairs (value in the body, value outside).
    end: the condition in the body that ends a sequence, if there is one.
    """

    name: str
    axis: Dim | None
    size: Size | None
    states: tuple[LoopState, ...] = ()
    unstacked: tuple[tuple[int, int], ...] = ()
    stacked: tuple[tuple[int, int], ...] = ()
    lasts: tuple[tuple[int, int], ...] = ()
    end: int | None = None
    include_eos: bool = True

    @property
    def steps(self) -> int | None:
        """The number of steps of the longest sequence; None if not known."""
        return None if self.size is None else self.size.max


@dataclass(frozen=True, slots=True)
class SideFacts:
    """A side of a branch.

    when: the value of the condition that selects it. taken: False if only the other side ran; the steps of a loop may
    run both.
    """

    when: bool
    taken: bool = True

    @property
    def name(self) -> str:
        """The argument of `rf.cond` that computes it."""
        return "true_fn" if self.when else "false_fn"


Facts = ModuleFacts | LoopFacts | SideFacts
"""The types of `Node.facts`."""
