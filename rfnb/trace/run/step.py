"""One step of a run: its states, its values, its ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rfnb.core.expression.expression import Members
from rfnb.core.graph.graph import Node, Value
from rfnb.core.ground.show import Shown
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopNameError
from rfnb.printable import encodable, printable_name
from rfnb.trace.run.names import AtLine, StepNames, evaluate
from rfnb.trace.run.variables import Growing, LostValue, NoValue, VariableSteps, is_variable, variable_at

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.lengths import Size
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage

AGREES = "replay agrees"
"""`RunStep.check` when the replay reproduced the states of the run; any other text says how it differs."""

KEPT = "as it was"
"""`RunStep.check` of a step that is kept as it was, and not replayed."""


class StepValue(NamedTuple):
    """A value that the body computed, with its name in the user's code, its op and its line.

    is_loop: whether a loop inside the body gave it.
    """

    name: str
    op: str
    line: int
    tensor: Tensor
    is_loop: bool = False


class StepText(NamedTuple):
    """A value that is neither a tensor nor a number: its name, kind and line, and what it was, in words."""

    name: str
    kind: str
    line: int
    text: str


class GrownRows(NamedTuple):
    """What a step has as values of a list that grows, after a line.

    rows: what reads those of one part, which are the same at all steps; they are one row if all parts are numbers.
    """

    name: str
    kind: str
    line: int
    growing: Growing
    rows: Callable[[int], list[StepValue | StepText]]


Row = StepValue | StepText | GrownRows


def is_lost(text: object) -> bool:
    """Whether a text of a step stands for a value that was not kept; texts that are values themselves have quotes."""
    words = text if isinstance(text, str) else ""
    return words.startswith(("changed later", "may have changed")) or words.endswith(("no longer kept", "not kept"))


class StepLines(NamedTuple):
    """About the lines of a step of plain Python code: where code did not run, and where loops inside of it begin."""

    skipped: Sequence[int] = ()
    loops: Sequence[int] = ()


class OpStep(NamedTuple):
    """An op that a step ran, with its place in the code, its inputs and its outputs.

    name: of the result in the user's code. line: the line of the loop's body. place, text: the code that ran, which may
    be in a module; path: the path of that module.
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
    """The ops that computed these values, in execution order."""
    tensors = {value.number: tensor for value, tensor in computed}
    nodes = {id(value.node): value.node for value, _ in computed if value.node is not None}
    return [_op_step(node, tensors) for node in nodes.values()]


def _op_step(node: Node, tensors: dict[int, Tensor]) -> OpStep:
    inputs = tuple(tensors[number] for number in node.inputs if number in tensors)
    outputs = tuple(tensors[number] for number in node.outputs if number in tensors)
    place, text = (node.source.place(), node.source.text()) if node.source is not None else ("", "")
    name = outputs[0].name if outputs else node.op
    return OpStep(node, name, node.op, node.line or 0, place, text, node.path, inputs, outputs)


Only = tuple[int | str | None, int | None]
"""The sequence and the hypothesis that an edit is for; None for all."""


class Replayable(Protocol):
    """What a Run reads from: it returns the recorded states, and recomputes or loads all other values.

    seed: of the random numbers. every: how many steps lie between two stored states.
    """

    seed: int
    every: int

    @property
    def is_isolated(self) -> bool:
        """Whether another thread may compute steps while the program runs."""

    @property
    def flags(self) -> list[str]:
        """Problems of the run, such as "not finite"; empty if there are none."""

    @property
    def sequences(self) -> tuple[Dim | None, Size | None]:
        """The dim of the sequences, and its size with the tags; both None without such a dim."""

    @property
    def begun(self) -> Size:
        """How many steps each sequence started, including a step at which it ended. {} or {sequences}"""

    def ends(self) -> list[str] | None:
        """Why each sequence ended; one text if all sequences ended together."""

    def explain(self) -> object:
        """Where the ops of the body ran: before the steps, in each step, or after the loop."""

    def storages(self) -> Mapping[Hashable, int]:
        """The storages that the run keeps alive: the size of each in bytes, by storage key."""

    def state_names(self) -> list[str]:
        """The names of the user's states."""

    def state(self, name: str, step: int) -> Any:
        """The value of a state before `step`."""

    def in_order(self) -> AbstractContextManager[None]:
        """For a look at the values of all steps in order, which then computes each step once."""

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The values that the body computed at `step`, and whether the replay agrees with the run."""

    def texts(self, step: int) -> list[StepText]:
        """The values of a step that are neither tensors nor numbers, in words; empty but for plain Python code."""

    def lines(self, step: int) -> StepLines | None:
        """Which lines of a step ran; None but for plain Python code."""

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """All inputs and computed values of a step, also inside modules; `only` restricts them to these numbers."""

    def name_of(self, value: Value) -> str:
        """The name of a value in the user's code."""

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A value of the body, stacked over all steps; `resolve`: that of a search by final hypothesis."""

    @property
    def lineages(self) -> Sequence[Lineage]:
        """Where the final hypotheses of a search are at each step; empty for other loops."""

    def found(self, run: Run) -> object:
        """What a search found; None for other loops."""

    @property
    def is_search(self) -> bool:
        """Whether the steps choose hypotheses."""

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """The position of a hypothesis, at a place after a step, along each beam of the values of that step."""

    def fork(self, run: Run, step: int, seed: int | None, only: Only, states: Mapping[str, object]) -> Run:
        """A new run that continues from edited states before `step`. only: the sequence and hypothesis to edit."""

    def locked_states(self, run: Run, step: int) -> Mapping[str, str]:
        """The states that a fork cannot edit before `step`, with the reasons: all of them where no fork is possible."""

    def rerun(self, run: Run, fn: Callable[[], object] | None) -> Run:
        """A new run of the same call, executed with the current code."""

    def gradients(self, run: Run, loss: object) -> object:
        """The gradient norms of a loss at each step."""

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside `step`."""


class States(Members):
    """The states at one point of a run: `run[3].before.h`; nested: `run[3].before.lstm.h` or `["lstm.h"]`."""

    def __init__(self, replay: Replayable, step: int, prefix: str = ""):
        self._replay, self._step, self._prefix = replay, step, prefix

    def members(self) -> list[str]:
        """The names of all states, with dots in the names of nested states."""
        return [name.removeprefix(self._prefix) for name in self._replay.state_names() if name.startswith(self._prefix)]

    names = members

    def __getitem__(self, name: str | int) -> Any:
        name = str(name)  # the entries of a list are named "0", "1", …
        is_part = any(path.startswith(f"{name}.") for path in self.names())
        if is_variable(self._replay, self._prefix + name) and (name in self.names() or not is_part):
            try:
                return self._replay.shown(self._prefix + name, self._step)
            except KeyError:
                return None
            except NoValue as error:
                raise LoopNameError(error.what) from None
        if name in self.names():
            return self._replay.state(self._prefix + name, self._step)
        if is_part:
            return States(self._replay, self._step, f"{self._prefix}{name}.")
        raise LoopNameError(f"there is no state {name!r}", expected=", ".join(self.names()))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())


class RunStep(Shown):
    """One step of a run: the states before and after it, and every value of its body by name."""

    def __init__(self, run: Run, step: int):
        self.run, self.step = run, step
        self.before = States(run.replay, step)
        self.after = States(run.replay, step + 1)
        self._values: list[StepValue] | None = None
        self._check = ""

    def values(self) -> list[StepValue]:
        """The values that the body computed, in order. They are recomputed on first use."""
        if self._values is None:
            self._values, self._check = self.run.replay.values(self.step)
        return self._values

    @property
    def check(self) -> str:
        """Whether the replay reproduced the run: "replay agrees", "with today's weights" or "replay differs"."""
        self.values()
        return self._check

    def texts(self) -> list[StepText]:
        """The values of plain Python code that are neither tensors nor numbers, in words."""
        return self.run.replay.texts(self.step)

    def __getitem__(self, name: str) -> Any:
        if is_variable(self.run.replay, name):
            try:
                return self.run.replay.shown(name, self.step, after=True)
            except KeyError:
                words = f"{self.run.name}: {name!r} has no value yet after step {self.step}"
                raise LoopNameError(words, expected=", ".join(self._assigned())) from None
            except NoValue as error:  # such as of a file that does not have it
                raise LoopNameError(f"{self.run.name}: {error.what}") from None
        values: list[Tensor | str] = [value.tensor for value in self.values() if value.name == name]
        values = values or [value.text for value in self.texts() if value.name == name]
        if not values:
            names = self._assigned()
            if not (names or self.run.states) and self.check != KEPT:
                raise LoopNameError(f"{self.run.name}: there are no values of step {self.step}", got=self.check)
            hint = f"the state is `.after.{name}` or `.before.{name}` of the step" if name in self.run.states else None
            raise LoopNameError(
                f"{self.run.name}: the body has no value {name!r}", expected=", ".join(names), hint=hint
            )
        return values[-1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def _variables(self) -> Mapping[str, object]:
        """The names that an expression can use."""
        return StepNames(self)

    def _latest(self, name: str | None) -> list[Any]:
        """The state with this name after the step, with nested ones, or else the value; all if `name` is None. The
        LostValue in place of what is no longer kept.
        """
        if isinstance(name, AtLine):
            return [value.tensor for value in self.values() if (value.line, value.name) == (name.line, name)]
        replay = self.run.replay
        has_states = self.step < self.run.steps or isinstance(replay, VariableSteps)  # not after a step that failed
        names = self.before.names() if has_states else []
        states = [state for state in names if name is None or f"{state}.".startswith(f"{name}.")]
        if name is None:
            values: list[object] = [value.tensor for value in self.values()]
            values += replay.lost(self.step) if isinstance(replay, VariableSteps) else []
        elif is_variable(replay, name) and (name in states or not states):
            try:
                value = variable_at(replay, name, self.step + 1)
            except LostValue as error:
                value = error
            except NoValue:
                value = None
            return self._with_numbers([] if value is None else [value], name)
        elif states:
            values = []
        else:
            values = [self[name]]
        return self._with_numbers(values + [self.after[state] for state in states], name)

    def _with_numbers(self, values: list[object], name: str | None) -> list[object]:
        if any(isinstance(value, str) for value in values):
            raise LoopNameError(f"{self.run.name}: {name!r} has no numbers in step {self.step}")
        return values

    def ops(self) -> list[OpStep]:
        """The ops that the step ran, in order, also inside modules."""
        return ops_of(self.run.replay.computed(self.step))

    def lines(self) -> StepLines | None:
        """Which lines ran; None but for plain Python code."""
        return self.run.replay.lines(self.step)

    def loops(self) -> list[Run]:
        """The runs of the loops inside this step, in order. The step is executed again for them, and they are not added
        to `rf.runs`.
        """
        return self.run.replay.loops(self.step)

    def eval(self, expression: str) -> Any:
        """Evaluates an expression at this step: `run[3].eval("rf.reduce_max(att, axis=enc_time) > 0.9")`.

        A name is the value after the step: of a state, or else of a variable of the body; `before.h` is the value
        before it. The expression can also use `step`, dims, the ops of `rf`, indexing, and the methods and functions of
        torch and numpy that only compute: `att.max(-1).values[0] > 0.9`; and functions that you defined in the
        notebook. `values.h` is a variable of the body where a state has its name; in a net dict,
        `values["att/weights"]` and `before["prev:s"]` are values of layers. The expression is not executed as Python
        code, so it cannot do anything else. Raises ExpressionError.
        """
        return evaluate(expression, self)

    def _assigned(self) -> list[str]:
        rows: list[StepValue | StepText] = [*self.values(), *self.texts()]
        return list(dict.fromkeys(row.name for row in rows))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._assigned()]

    def __repr__(self) -> str:
        names = dict.fromkeys(printable_name(value.name) for value in self.values())
        return encodable(f"step {self.step} of {printable_name(self.run.name)}: {', '.join(names)}")
