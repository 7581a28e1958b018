"""Measures of the nodes of a call: what a meter is told by recorders, and times, bytes or activations as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import Node

Show = Literal["time", "memory", "activation", "gradient"]
"""What can be measured."""
SUMMED = ("time", "memory")
"""What adds up; of the others, a node with others inside has the largest number."""
Bad = Literal["", "NaN", "infinity"]
"""What is wrong with a result."""


@dataclass(frozen=True, slots=True)
class NodeMeasure:
    """What was measured of a node, with all that is inside it.

    amount: seconds, bytes, or the root mean square of activations or gradients, per call of the model. calls: how often
    it ran in a call of the model. most: the largest absolute value. bad: "NaN" or "infinity", if the node has one.
    place: where the loop around it computed it: "once", "frames" (for all steps together), "steps" or "after".
    saved: the seconds that the place has saved in comparison with computing the node in each step.
    """

    amount: float
    calls: float = 1.0
    most: float = 0.0
    bad: Bad = ""
    place: str = ""
    saved: float | None = None


@dataclass(frozen=True, slots=True)
class NodeMeasures:
    """The measures of the nodes of a call.

    calls: over how many calls of the model. nodes: by number of the node; nodes that did not run, or whose results are
    not floats, are missing. total: of a whole call. overhead: seconds per call that the measuring itself took; they are
    taken off all times. plain: seconds of a call that is not measured. device: where the times are from. first_bad: the
    number of the node that made the first NaN or infinity. loss: what the gradients are those of.
    """

    show: Show
    calls: int
    nodes: dict[int, NodeMeasure] = field(default_factory=dict)
    total: float = 0.0
    overhead: float = 0.0
    plain: float | None = None
    device: str = "cpu"
    first_bad: int | None = None
    loss: str = ""
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Sample:
    """What was measured of one node in one call of the model.

    amount: seconds, bytes, or the sum of squares of `count` entries. calls: how often the node ran. most: the largest
    absolute value. bad: "NaN" or "infinity". place: where a loop computed it. alone: for a node that a loop computed
    outside of its steps, the seconds that it takes in one step. steps: how many steps there were.
    """

    amount: float = 0.0
    calls: int = 0
    count: float = 0.0
    most: float = 0.0
    bad: Bad = ""
    place: str = ""
    alone: float | None = None
    steps: int = 0


@dataclass
class MeasuredLoop:
    """The facts about a loop that a meter receives.

    began: when it began. traced: gives the values of its body. size: how many steps each sequence takes; the largest
    possible until the loop has ended. frames: the dim of what is computed for all steps together.
    """

    began: float
    traced: Callable[[], Sequence[Any]]
    size: Size | None = None
    frames: Dim | None = None

    @property
    def steps(self) -> int:
        """The number of steps."""
        return 0 if self.size is None else self.size.max


class Meter:
    """Measures nothing. Subclasses measure the nodes of a call.

    A recorder calls `pause` when its own work begins and `resume` when that ends, `enter` and `exit` around the work of
    a node, and `made` with its arguments and results. samples: by id of the node; `nodes` keeps these alive.
    records: whether loops are recorded, for `loop_ran`. times: whether the calls of the steps of loops are timed.
    watches: whether the results in the steps of loops are watched, for their gradients. total: the seconds of the whole
    call; lost: those that the recorder and the measuring itself took besides.
    """

    records = times = watches = False
    total = lost = 0.0

    def __init__(self) -> None:
        self.samples: dict[int, Sample] = {}
        self.nodes: dict[int, Node] = {}
        self.first_bad: Node | None = None
        self.programs: dict[int, tuple[Any, Any]] = {}  # of loops, by id: as they are, and measured

    def sample(self, node: Node) -> Sample:
        """The sample of a node."""
        self.nodes[id(node)] = node
        return self.samples.setdefault(id(node), Sample())

    def forget(self) -> None:
        """Drops what was measured so far."""
        self.samples.clear()
        self.nodes.clear()
        self.first_bad = None

    def pause(self) -> None:
        """The work of the recorder begins."""

    def resume(self) -> None:
        """The work of the recorder ends."""

    def enter(self, node: Node) -> None:
        """The work of a node begins."""

    def exit(self, node: Node) -> None:
        """The work of a node ends."""

    def changes(self, raw: object) -> None:
        """Called with a raw tensor before a node changes it in place."""

    def made(self, node: Node, given: object, results: Iterable[object]) -> None:
        """Called with the arguments of a node, and its results as a flat sequence."""

    def now(self) -> float:
        """The time in seconds, without that of the measuring itself."""
        return 0.0

    def stopped(self) -> float:
        """When `pause` was called, as by `now`."""
        return 0.0

    def since(self) -> float:
        """The seconds since the last node ended, or the one that is running began."""
        return 0.0

    def whole(self, call: Callable[[], object]) -> Any:
        """Calls the model."""
        return call()

    def done(self, result: object) -> None:
        """The call of the model has ended with this result."""

    # -- loops

    def timed(self, fn: Callable[..., object], node: Node) -> Callable[..., Any]:
        """The function of a raw call in the steps of a loop, measured."""
        return fn

    def watched(self, fn: Callable[..., object], seen: Mapping[int, object], run: MeasuredLoop) -> Callable[..., Any]:
        """The function of a raw call in the steps of a loop, whose results are watched.

        seen: by position of the result, what is known of it. run: what is known of the loop.
        """
        return fn

    def hoisted(
        self, node: Node, place: str, fn: Callable[[], object], alone: Callable[[], object], run: MeasuredLoop
    ) -> object:
        """Calls `fn`, which computes an op outside of the steps. alone: computes it for one step."""
        return fn()

    def loop_ran(self, run: Any) -> None:
        """Called with the run of a loop, if the meter `records`."""

    def moved(self, copies: Mapping[int, Node]) -> None:
        """From now on, the samples of nodes in the bodies of loops are those of their copies in the graph."""
        for key, sample in list(self.samples.items()):
            copy = copies.get(key)
            if copy is None:
                continue
            del self.samples[key], self.nodes[key]
            its = self.sample(copy)
            its.amount, its.count = its.amount + sample.amount, its.count + sample.count
            its.calls, its.most = max(its.calls, sample.calls), max(its.most, sample.most)
            its.bad = its.bad or sample.bad
            its.place, its.steps = its.place or sample.place, max(its.steps, sample.steps)
            its.alone = sample.alone if its.alone is None else its.alone + (sample.alone or 0.0)
        bad = self.first_bad
        self.first_bad = bad and copies.get(id(bad), bad)


NO_METER = Meter()
