"""One step of a run: its states, its values, its ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rfnb.core.graph.graph import Node, Value
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError
from rfnb.trace.run.names import evaluate

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.lengths import Size
    from rfnb.trace.run.run import Run

AGREES = "replay agrees"
"""`RunStep.check` where the replay gave the states of the run; other texts say how it differs."""


class StepValue(NamedTuple):
    """A value that the body computed: its name in the user's code, the op, the line."""

    name: str
    op: str
    line: int
    tensor: Tensor


class OpStep(NamedTuple):
    """An op that a step did: what it is called, where it stands, what it was given and what it made.

    line: of the loop's body; place, text: of the code that ran, which may be a module's. path: of that module.
    """

    node: Node
    name: str
    op: str
    line: int
    place: str
    text: str
    path: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def ops_of(computed: list[tuple[Value, Tensor]]) -> list[OpStep]:
    """The ops that computed these values, in order."""
    tensors = {value.number: tensor for value, tensor in computed}
    nodes = {id(value.node): value.node for value, _ in computed if value.node is not None}
    return [_op_step(node, tensors) for node in nodes.values()]


def _op_step(node: Node, tensors: dict[int, Tensor]) -> OpStep:
    inputs = tuple(tensors[number] for number in node.inputs if number in tensors)
    outputs = tuple(tensors[number] for number in node.outputs if number in tensors)
    place, text = (node.source.place(), node.source.text()) if node.source is not None else ("", "")
    name = outputs[0].name if outputs else node.op
    return OpStep(node, name, node.op, node.line or 0, place, text, node.path, inputs, outputs)


class Replayable(Protocol):
    """Gives the states of a run as they were, and computes the rest again.

    seed: of its random numbers. every: how many steps lie between two states that are kept.
    """

    seed: int
    every: int

    @property
    def flags(self) -> list[str]:
        """What is wrong with it, if anything."""

    @property
    def sequences(self) -> tuple[Dim | None, Size | None]:
        """What counts the sequences, and how many there are, with their tags."""

    @property
    def begun(self) -> Size:
        """How many steps each sequence began, also one at whose end it left. {} or {sequences}"""

    def ends(self) -> list[str] | None:
        """Of each sequence, or of all together, why it ended."""

    def explain(self) -> Any:
        """Where the ops of the body were done."""

    def storages(self) -> Mapping[Hashable, int]:
        """The memory that it keeps alive: by what tells one storage from another, its bytes."""

    def state_names(self) -> list[str]:
        """The states of the user."""

    def state(self, name: str, step: int) -> Any:
        """A state before `step`."""

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """What the body computed at `step`, and whether the replay agrees with the run."""

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """All that the step was given and computed, or of it those with these numbers; inside of modules too."""

    def name_of(self, value: Value) -> str:
        """What the user's line calls it."""

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps."""

    def fork(self, run: Run, step: int, seed: int | None, states: Mapping[str, Any]) -> Run:
        """The run that goes on from edited states before `step`."""

    def rerun(self, run: Run, fn: Callable[[], Any] | None) -> Run:
        """The run of the same call, made again with the code as it is now."""

    def gradients(self, run: Run, loss: Any) -> Any:
        """How the gradient of a loss goes back through the steps."""

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside of `step`."""


class States:
    """The states at one point of a run: `run[3].before.h`, `run[3].before.lstm.h` or `["lstm.h"]` for a nested one."""

    def __init__(self, replay: Replayable, step: int, prefix: str = ""):
        self._replay, self._step, self._prefix = replay, step, prefix

    def names(self) -> list[str]:
        """The names of all states here, nested ones with dots."""
        return [name.removeprefix(self._prefix) for name in self._replay.state_names() if name.startswith(self._prefix)]

    members = names

    def __getitem__(self, name: str | int) -> Any:
        name = str(name)  # of a list, the entries are called "0", "1", …
        if name in self.names():
            return self._replay.state(self._prefix + name, self._step)
        if any(known.startswith(f"{name}.") for known in self.names()):
            return States(self._replay, self._step, f"{self._prefix}{name}.")
        raise LoopError(f"there is no state {name!r}", expected=", ".join(self.names()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())


class RunStep:
    """One step of a run: the states before and after it, and every value of its body by name."""

    def __init__(self, run: Run, step: int):
        self.run, self.step = run, step
        self.before = States(run.replay, step)
        self.after = States(run.replay, step + 1)
        self._values: list[StepValue] | None = None
        self._check = ""

    def values(self) -> list[StepValue]:
        """What the body computed, in order; computed again when first asked for."""
        if self._values is None:
            self._values, self._check = self.run.replay.values(self.step)
        return self._values

    @property
    def check(self) -> str:
        """Whether the replay gave the states of the run: "replay agrees", "with today's weights", "replay differs"."""
        self.values()
        return self._check

    def __getitem__(self, name: str) -> Tensor:
        found = [value.tensor for value in self.values() if value.name == name]
        if not found:
            names = list(dict.fromkeys(value.name for value in self.values()))
            raise LoopError(f"{self.run.name}: the body has no value {name!r}", expected=", ".join(names))
        return found[-1]

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def ops(self) -> list[OpStep]:
        """What the step did, op by op, also inside of modules."""
        return ops_of(self.run.replay.computed(self.step))

    def loops(self) -> list[Run]:
        """The runs of the loops inside of this step, in order: made now, by doing the step again. They are not kept in
        `rf.runs`.
        """
        return self.run.replay.loops(self.step)

    def eval(self, expression: str) -> Any:
        """What an expression is at this step: `run[3].eval("rf.reduce_max(att, axis=enc_time) > 0.9")`.

        It may name values of the body, states as they are before the step, `before.h` and `after.h`, dims, and `step`;
        and call the ops of `rf`. It is read by rfnb, and can do nothing else. Raises ExpressionError.
        """
        return evaluate(expression, self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(value.name for value in self.values())]

    def __repr__(self) -> str:
        return f"step {self.step} of {self.run.name}: {', '.join(dict.fromkeys(v.name for v in self.values()))}"
