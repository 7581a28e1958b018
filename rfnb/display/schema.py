"""The JSON that views, the panel and the inline stepper share. `extension/src/schema.ts` is generated from this file.

Every view has a `kind`. A view holds only plain data: no tensor, no object, no HTML. `NaN` and infinities are
sent as the strings "nan", "inf", "-inf", because JSON has no word for them.
"""

from __future__ import annotations

from typing import Literal, TypedDict

PROTOCOL = 3
"""Raised when a message changes in a way that an older panel or kernel would misread."""

Number = float | int | Literal["nan", "inf", "-inf"]


class DimView(TypedDict):
    """One axis: its name, its size (the longest, where sizes differ), and its true lengths."""

    name: str
    serial: int
    size: int
    kind: Literal["batch", "spatial", "feature", "other"]
    lengths: list[int] | None  # per sequence, for at most 256 sequences
    length_range: list[int] | None  # [shortest, longest, sum], for dynamic dims
    colour: int | None  # 0..9, the same for the same Dim everywhere; None for batch and feature
    formula: str | None  # of a derived dim: "time+1"
    made: str | None  # "cell 4, line 2" or "model.py:31"


class StatsView(TypedDict):
    """Over the valid entries only; over a sample of them if `sampled` is not None."""

    count: int
    min: Number
    mean: Number
    max: Number
    std: Number
    nan: int
    inf: int
    first_bad: str | None  # where the first NaN or Inf is: "batch 3 ('banana'), time 7, feat 11"
    sampled: int | None
    histogram: list[int] | None  # entries in 8 equal steps from min to max; None if all are equal


class TensorView(TypedDict):
    """A tensor, or one sequence of it."""

    kind: Literal["tensor"]
    name: str
    dtype: str
    device: str
    bytes: int
    dims: list[DimView]
    sparse: str | None  # name of the dim that integer entries point into
    stats: StatsView | None  # None for empty tensors and for labels
    values: list | None  # nested lists in the order of dims, for at most 400 entries; None for padding
    labels: list[list[str]] | None  # sparse with a vocab: the first 8 sequences, 24 tokens each
    tags: list[str] | None  # of the sequences, in batch order
    picture: str | None  # data URI of a PNG
    picture_alt: str | None  # what the picture shows, in words
    note: str | None  # what was left out and why


class DimPage(TypedDict):
    """A dim on its own, with what its entries are called."""

    kind: Literal["dim"]
    dim: DimView
    tags: list[str] | None
    vocab: list[str] | None  # the first 40 labels
    vocab_size: int | None
    note: str | None  # why there is no size, then `dim.size` is 0


class NoteView(TypedDict):
    """What is left of a view that could not be made."""

    kind: Literal["note"]
    name: str
    note: str


class ParamRow(TypedDict):
    """A parameter of a module."""

    name: str
    dims: list[DimView]
    dtype: str
    count: int
    trainable: bool


class ModuleNode(TypedDict):
    """A module and what is in it."""

    name: str
    cls: str
    note: str  # "in:26 → out:128"
    params: list[ParamRow]
    count: int  # parameters here and below
    children: list[ModuleNode]


class ModuleView(TypedDict):
    """The tree of a module."""

    kind: Literal["module"]
    root: ModuleNode
    count: int
    bytes: int


class AttentionView(TypedDict):
    """Weights of one sequence: rows attend to columns."""

    kind: Literal["attention"]
    name: str
    row_dim: DimView
    col_dim: DimView
    rows: list[str]
    cols: list[str]
    weights: list[list[Number]]
    tag: str | None
    picture: str  # data URI of a PNG: one pixel a cell
    note: str | None


class Origin(TypedDict):
    """Of a fork, where it comes from."""

    parent: int | None
    forked_at: int | None  # its first step of its own


class RunItem(Origin):
    """A line of the list of runs."""

    run: int
    loop: str  # the same for all runs of one loop
    name: str
    place: str
    steps: int
    batch: int | None
    flags: list[str]
    pinned: bool


class RunsView(TypedDict):
    """The list of runs, newest first."""

    kind: Literal["runs"]
    runs: list[RunItem]


class FailureView(TypedDict):
    """Where a run broke off."""

    step: int
    line: int | None  # 1-based, in the file or cell
    error: str


class RunView(Origin):
    """What does not change while one steps through a run."""

    kind: Literal["run"]
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


class ValueView(TypedDict):
    """A value at one step, of one sequence if one was chosen."""

    name: str
    text: str  # one line: "0.12 −0.31 … (16)", or labels
    dims: list[DimView]
    dtype: str
    stats: StatsView | None
    picture: str | None
    flags: list[str]  # "nan", "inf", "never changes", "constant", "with today's weights"


class StateRow(TypedDict):
    """A state of the loop at one step."""

    name: str
    before: ValueView
    after: ValueView
    change: Number | None  # largest absolute difference, over valid entries
    spark: list[Number]  # mean absolute value after each kept step, at most 64 of them
    flags: list[str]


class LineValue(TypedDict):
    """What an op in a line of the body gave."""

    line: int  # 1-based, in the file or cell
    op: str
    value: ValueView


class WatchRow(TypedDict):
    """An expression of the user at one step: its value, or why it has none."""

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
    ended: list[bool] | None  # per sequence: whether this step is behind its end
    check: str  # "replay agrees", "with today's weights", ...
    watches: list[WatchRow]
    ops: OpsView | None  # if they were asked for


class Where(TypedDict):
    """What is searched for: of one value, of those that a line computes, or of any."""

    kind: Literal["not finite", "over", "changes", "repeats", "ends", "expression"]
    name: str | None
    line: int | None
    limit: float | None  # of "over"
    text: str | None  # of "expression"


class FoundView(TypedDict):
    """A part of a search: the steps that were found, and the step to go on from."""

    hits: list[int]
    next: int | None  # None: all that was asked for is searched


class OpRow(TypedDict):
    """An op that a step did, also inside of modules."""

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
    """What one op took and gave."""

    number: int
    inputs: list[ValueView]
    outputs: list[ValueView]


class Curve(TypedDict):
    """Of one state: the norm of the gradient by the value that each step gave it."""

    state: str
    norms: list[Number]


class GradientsView(TypedDict):
    """How the gradient of a loss goes back through the steps."""

    kind: Literal["gradients"]
    run: int
    loss: str
    curves: list[Curve]
    note: str | None


class Difference(TypedDict):
    """A value that is not the same in two runs: where it differs first."""

    name: str
    line: int | None
    step: int | None  # None: it is in one of the runs only
    text: str  # by how much


class ComparisonView(TypedDict):
    """Two runs of a loop: what differs, the first difference first."""

    kind: Literal["comparison"]
    run: int
    other: int
    agree: bool
    differences: list[Difference]
    notes: list[str]  # what else is not the same: numbers of steps, sequences
    text: str


class MovedOp(TypedDict):
    """An op of a loop's body, and where it was done."""

    line: int | None  # of the body, 1-based, in the file or cell
    place: str | None  # of the expression, if it is in a function that the body calls
    op: str
    text: str  # the expression
    where: Literal["once", "all steps", "step", "behind"]
    why: str
    states: list[str]  # those that it needs


class ExplanationView(TypedDict):
    """Where the ops of a loop were done: before its steps, in them, or behind them."""

    kind: Literal["explanation"]
    name: str
    place: str | None
    ran: bool
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]
    ops: list[MovedOp]


class HistoryView(TypedDict):
    """The static picture of a run: chosen steps of each state."""

    kind: Literal["history"]
    run: RunView
    steps: list[StepView]
    note: str | None


class Message(TypedDict):
    """Front end to kernel, on the command comm."""

    id: int
    command: Literal[
        "hello", "runs", "run", "step", "value", "pin", "forget",
        "find", "fork", "rerun", "loops", "gradients", "compare",
    ]  # fmt: skip
    args: dict[str, object]


class Reply(TypedDict):
    """Kernel to front end. `queued`: the answer comes as an event with the same id; `busy`: after the running cell."""

    id: int
    status: Literal["ok", "error", "queued", "busy"]
    data: object
    error: str | None


class Event(TypedDict):
    """Kernel to front end, on the event comm."""

    event: Literal["runs", "reply", "open"]
    data: object
