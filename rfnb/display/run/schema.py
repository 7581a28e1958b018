"""The JSON of runs: their list, their facts, their steps, ops and gradients."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.beam.schema import BeamAt, BeamView
from rfnb.display.kit.data import DimView
from rfnb.display.markup.numbers import Number
from rfnb.display.tensor.schema import ValueView


class Origin(TypedDict):
    """The origin of a fork; None for other runs."""

    parent: int | None
    forked_at: int | None  # its first step of its own


class RunItem(Origin):
    """A row of the list of runs."""

    run: int
    loop: str  # the same for all runs of one loop
    name: str
    place: str
    steps: int
    batch: int | None
    flags: list[str]
    pinned: bool
    is_plain: NotRequired[bool]  # whether the steps are plain Python code, which has no ops
    is_last_only: NotRequired[bool]  # whether it is the last iteration of a loop that was not recorded and raised


class RunsView(TypedDict):
    """The list of runs, newest first."""

    kind: Literal["runs"]
    runs: list[RunItem]


class FailureView(TypedDict):
    """The failure that ended a run."""

    step: int
    line: int | None  # 1-based, in the file or cell
    error: str


class TrainingView(TypedDict):
    """Where in a training the run of a probe was made."""

    step: int
    steps: list[int]  # at which the probe has runs
    measures: dict[str, Number]


class RunView(Origin):
    """Facts about a run that are the same for all steps."""

    kind: Literal["run_facts"]
    run: int
    loop: str
    name: str
    place: str
    file: str | None  # of a .py file; None in a notebook cell
    cell_id: str | None
    cell_text: str | None  # the text of the cell as it ran
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]  # source lines of the `with loop:` block, the `with` line included
    steps: int
    axis: str
    lengths: list[int] | None  # per sequence
    tags: list[str] | None
    states: list[str]
    flags: list[str]
    bytes: int  # what the recording holds
    failure: FailureView | None
    is_search: NotRequired[bool]  # whether steps have a beam; older kernels do not send it
    training: NotRequired[TrainingView | None]  # of a probe
    is_plain: NotRequired[bool]  # whether the steps are plain Python code, which has no ops
    raised_in: NotRequired[str]  # of a loop that was not recorded and raised, the id of the cell, or ""
    kept_from: NotRequired[int]  # the first step that has all of its values, if others only have statistics
    also: NotRequired[list[OtherFunction]]  # functions with loops that ran, and were not recorded


class OtherFunction(TypedDict):
    """A function with loops that were not recorded."""

    place: str  # "module:function"
    added: bool  # whether they will be from now on


class StateRow(TypedDict):
    """A state of the loop at one step."""

    name: str
    before: ValueView
    after: ValueView
    change: Number | None  # largest absolute difference, over valid entries
    spark: list[Number]  # mean absolute value after each kept step, at most 64 of them
    flags: list[str]


class LineValue(TypedDict):
    """The value that an op in a line of the body computed."""

    line: int  # 1-based, in the file or cell
    op: str
    is_loop: NotRequired[bool]  # whether a loop inside of the loop gave it; older kernels do not send it
    value: ValueView


class WatchRow(TypedDict):
    """A watched expression at one step: its value, or why it has none."""

    text: str
    value: ValueView | None
    error: str | None


class StepView(TypedDict):
    """One step of a run, computed again by replay."""

    kind: Literal["step"]
    run: int
    step: int
    sequence: int | None
    states: list[StateRow]
    values: list[LineValue]
    ended: list[bool] | None  # per sequence: whether this step is after its end
    check: str  # "replay agrees", "with today's weights", …
    agrees: NotRequired[bool]  # whether the replay gave the states of the run; older kernels do not send it
    watches: list[WatchRow]
    ops: OpsView | None  # if they were asked for
    beam: NotRequired[BeamAt | None]  # of a search, if it was asked for
    lines: NotRequired[LinesView]  # of plain Python code
    locked: NotRequired[dict[str, str]]  # states that no fork can edit before the step, with the reasons, for a panel


class LinesView(TypedDict):
    """About the lines of a step of plain Python code, 1-based in the file or cell."""

    skipped: list[int]  # where code did not run
    loops: list[int]  # where loops inside of the step begin


class OpRow(TypedDict):
    """An op of a step, also inside of modules."""

    number: int
    op: str
    name: str
    path: str  # of the module it is in, "" for the body itself
    line: int | None  # of the body, 1-based, in the file or cell
    dims: list[DimView]  # of its first result
    dtype: str
    is_loop: bool  # a loop inside of the loop


class OpsView(TypedDict):
    """All ops of a step, in order, with the values of one of them; or why there are none."""

    rows: list[OpRow]
    op: OpView | None
    error: str | None


class OpView(TypedDict):
    """Arguments and result of one op."""

    number: int
    inputs: list[ValueView]
    outputs: list[ValueView]


class Curve(TypedDict):
    """The norm of the gradient by one state, after each step."""

    state: str
    norms: list[Number]


class GradientsView(TypedDict):
    """Norms of the gradient of a loss, step by step."""

    kind: Literal["gradients"]
    run: int
    loss: str
    curves: list[Curve]
    note: str | None


class SequenceEnd(TypedDict):
    """The number of steps of a sequence, and why it ended."""

    sequence: int
    tag: str | None
    steps: int
    end: str | None  # "length 5 reached", "ended at 3: end was true", "max steps (20)", "failed at 2"


class StateStrip(TypedDict):
    """A picture of a state over all steps."""

    state: str
    picture: str  # data URI of a PNG: steps across
    alt: str


class ExplanationView(TypedDict):
    """Where the ops of the body were done."""

    headline: str
    picture: str  # all of it, as HTML


class HistoryView(TypedDict):
    """The static view of a run: selected steps with their states."""

    kind: Literal["run"]
    run: RunView
    sequence: int | None  # the chosen one
    start: list[ValueView]  # the states before the first step
    steps: list[StepView]
    reasons: list[str]  # of each of the steps, why it is shown; "" if only as one of many
    sequences: list[SequenceEnd]
    strips: list[StateStrip]
    explanation: ExplanationView | None
    beam: NotRequired[BeamView | None]  # of a search, for the chosen sequence or the first one
    note: str | None
