"""What is known of a node besides its op and its values: a dataclass for each kind of node that has more to say."""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A module. path: "encoder.layers.0", "" for the model itself. count, trainable: parameters, and how many of them
    are trained, here and below. note: its options, "in:26 → out:128". call: how often it was called before.
    """

    cls: str
    path: str
    count: int = 0
    trainable: int = 0
    note: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class LoopState:
    """What a loop carries, by numbers of values: `initial` and `final` are outside, `before` and `after` in the step.

    `after` is None if the body never sets it; `final` if nobody reads it. dim: an axis that grows; it is no value.
    """

    name: str
    initial: int | None = None
    before: int | None = None
    after: int | None = None
    final: int | None = None
    dim: Dim | None = None


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop. axis, size: the Dim of its steps, and how many each sequence takes; None if that is not known.

    unstacked: (what is outside, its frame in the body). stacked, lasts: (in the body, what comes out).
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
        """The most that a sequence takes."""
        return None if self.size is None else self.size.max


@dataclass(frozen=True, slots=True)
class SideFacts:
    """A side of a branch. when: the value of the condition that selects it. taken: False if the call took the other
    side only; steps of a loop may take both.
    """

    when: bool
    taken: bool = True

    @property
    def name(self) -> str:
        """The argument of `rf.cond` that computes it."""
        return "true_fn" if self.when else "false_fn"


Facts = ModuleFacts | LoopFacts | SideFacts
"""What `Node.facts` may be."""
