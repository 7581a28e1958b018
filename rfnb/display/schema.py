"""The JSON that views, the panel and the inline stepper share. `rfnb/display/schema_ts.py` writes it as TypeScript.

Every view has a `kind`. A view holds only plain data: no tensor, no object, no HTML. `NaN` and infinities are
sent as the strings "nan", "inf", "-inf", because JSON has no word for them.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

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


class BadView(TypedDict):
    """Entries that are no numbers: how many of a kind, and where the first is."""

    word: Literal["NaN", "+Inf", "−Inf", "unknown"]
    count: int
    first: str | None  # "batch 3 ('banana'), time 7, feat 11"


class PaddingView(TypedDict):
    """What a mean that forgets the lengths would see: over all entries, padding included."""

    mean: Number
    std: Number
    bad: bool  # there are NaN or Inf in the padding


class TensorStats(StatsView):
    """With what only the view of a tensor tells."""

    bad: list[BadView]
    masked: int  # entries of −Inf that a mask put there: nothing is wrong with them
    zeros: float  # the share of zeros
    unique: int | None  # how many numbers differ, in integers; at least so many if they are a sample
    true: int | None  # how many are true, in bools
    entries: int  # of the whole tensor, padding included
    padding: PaddingView | None  # None: there is none, or it is zero


class SequenceRow(TypedDict):
    """One sequence of a tensor."""

    tag: str | None
    length: int | None
    mean: Number | None
    min: Number | None
    max: Number | None
    nan: int | None  # None: not counted, as only a sample was looked at
    inf: int | None


class LengthsView(TypedDict):
    """The lengths of one axis, in short."""

    axis: int
    median: float
    padding: float  # the share of the axis that is padding
    empty: int  # sequences of length 0
    histogram: list[int] | None


class LabelCount(TypedDict):
    """How often a label occurs."""

    label: str
    id: int
    count: int


class GradView(TypedDict):
    """Whether a gradient is asked for, and how large it is."""

    leaf: bool  # the gradient is kept here; else it only passes
    norm: Number | None  # None: there is none yet


class TensorView(TypedDict):
    """A tensor, or one sequence of it."""

    kind: Literal["tensor"]
    name: str
    cls: str  # "Tensor", or "numpy.ndarray" and the like
    dtype: str
    device: str
    bytes: int
    dims: list[DimView]
    sparse: str | None  # name of the dim that integer entries point into
    stats: TensorStats | None  # None for empty tensors and for labels
    lengths: list[LengthsView]
    sequences: list[SequenceRow] | None  # for at most 256 sequences
    values: list | None  # nested lists in the order of dims, for at most 400 entries; None for padding
    labels: list[list[str]] | None  # sparse with a vocab: the first 8 sequences, 24 tokens each
    label_ids: list[list[int]] | None  # their numbers
    label_counts: list[LabelCount] | None  # the 10 most frequent
    unknown: BadView | None  # ids that are outside of the sparse dim
    tags: list[str] | None  # of the sequences, in batch order
    picture: str | None  # data URI of a PNG
    picture_alt: str | None  # what the picture shows, in words
    grad: GradView | None
    note: str | None  # what was left out and why


class TreeNode(TypedDict):
    """A value in a nested structure, or a part of the structure."""

    name: str
    what: str  # "dict", "Tensor", "torch.Tensor", "int", …
    dims: list[DimView]
    dtype: str
    text: str  # statistics of a tensor, or the value
    flags: list[str]  # "3 NaN", …
    bytes: int  # of the tensors here and below
    tensors: int
    repeat: int  # so many children of the same structure, one after the other; 0: no such group
    children: list[TreeNode]


class TreeView(TypedDict):
    """A nested structure: dict, list, tuple, State, TensorDict."""

    kind: Literal["tree"]
    name: str
    root: TreeNode
    note: str | None


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
    """A parameter or buffer of a module."""

    path: str  # "encoder.layers.0.weight"
    dims: list[DimView]
    shape: list[int] | None  # of a plain tensor, which has no dims; None if there is none yet
    dtype: str
    device: str
    count: int
    bytes: int
    trainable: bool
    buffer: bool  # it is no parameter of the model proper
    shared: str | None  # where it is shown, and counted, first
    weight_decay: Number | None  # of its own; None: none of its own
    norm: Number | None  # None: not looked at
    mean: Number | None
    std: Number | None
    grad: Number | None  # the norm of the gradient; None: there is none


class ModuleNode(TypedDict):
    """A module and what is in it; or several in a row that are alike."""

    name: str  # "encoder", or "0–11"
    cls: str
    note: str  # "in:26 → out:128"
    settings: list[str]  # "activation=silu"; told where layers that are alike differ in them
    repeat: int  # how many there are
    params: list[list[int]]  # by name: the rows of each of them
    count: int  # parameters here and below; of all of them, but inside of a card those of one
    frozen: int  # how many of these are not trained
    differs: list[str]  # in what those that are alike are not
    shared: str | None  # where it is shown first
    children: list[ModuleNode]


class ModuleView(TypedDict):
    """The tree of a module, and its parameters in order."""

    kind: Literal["module"]
    root: ModuleNode
    rows: list[ParamRow]
    count: int
    frozen: int
    bytes: int
    dtype: str  # that of most
    device: str
    bad: list[str]  # "layers.3.weight: NaN"
    note: str | None


class AttentionHead(TypedDict):
    """How one head attends: see `display/attention/measures.py` for what the numbers mean."""

    layer: int
    head: int
    name: str  # of its layer: "encoder.layers.0.self_att"; "" if it has none
    entropy: Number  # 0: one column each, 1: all alike
    monotonicity: Number  # share of steps that do not go back
    coverage: Number  # 1: all columns alike
    diagonal: Number
    previous: Number | None  # for as many rows as columns: weight of the entry before, of itself, of the next
    itself: Number | None
    next: Number | None
    role: str  # "diagonal", "previous", "itself", "next", "first", "flat", "peaked" or ""
    top: list[str]  # the columns with most weight in all
    flags: list[str]  # "rows sum to 0.9 … 1, not to 1", "2 % of the weight is on padding"
    scale: Number  # the weight of the darkest colour of its picture


class AttentionShape(TypedDict):
    """What the view of attention and its scripts both need to know of the pictures."""

    kind: Literal["attention"]
    shape: list[int]  # true rows and columns
    padding: list[int]  # so many rows and columns of pixels behind them are padding, hatched
    pool: list[int]  # entries that are one cell of the large picture
    head_pool: list[int]  # entries that are one pixel of the small ones
    row_seconds: float | None  # from one row to the next
    col_seconds: float | None
    causal: bool
    heads: list[AttentionHead]  # in the order of the HTML
    chosen: list[int]  # layer and head of the large picture; -1: the mean of them
    path: list[int]  # in it the column of each row, by the best path that never goes back


class AttentionScripts(AttentionShape):
    """What scripts read beside the pictures of the HTML, which are `<img data-rfnb-head="layer,head">` in the overview,
    and an `<image data-rfnb-head=… data-rfnb-large>` in the SVG of the large one.

    One pixel is `head_pool` (of the large one: `pool`) rows by columns; its colour is an entry of `colours` (n of them,
    from pale to dark: weight = index / (n - 1) * scale of the head), or one of `special`, or half transparent: masked
    or padding. Labels are those of entries, not of pixels; None means that they are the numbers from 0.
    """

    row_name: str
    col_name: str
    rows: list[str] | None  # labels
    cols: list[str] | None
    colours: str  # "f4f1eccfdfd6…": six digits each
    special: dict[str, str]  # "nan", "inf", "-inf": six digits


class AttentionView(AttentionShape):
    """Weights of one sequence: rows attend to columns. One head of one layer, and an overview of all that there are."""

    name: str
    row_dim: DimView
    col_dim: DimView
    rows: list[str]  # labels of the rows of `weights`
    cols: list[str]
    weights: list[list[Number]]  # of the chosen head; of each block, if they are pooled: the largest
    tag: str | None
    picture: str  # data URI of a PNG: one pixel a cell of `weights`, and some padding
    pictures: list[str]  # of the heads, if there are several
    sort: str | None
    grid: bool  # whether there is a line of pictures for each layer
    row_labels: list[str] | None  # of all entries; None: their numbers
    col_labels: list[str] | None
    note: str | None


class SeenRow(TypedDict):
    """Attention that was seen while a model ran."""

    name: str
    dims: list[DimView]
    place: str
    bytes: int  # that are held for it


class SeenView(TypedDict):
    """What `rf.capture` saw: a list, and the weights of the largest group of them that have one size."""

    kind: Literal["attention_list"]
    rows: list[SeenRow]
    left_out: list[str]
    attention: AttentionView | None
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
    check: str  # "replay agrees", "with today's weights", …
    agrees: NotRequired[bool]  # whether the replay gave the states of the run; older kernels do not send it
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


class LossCurve(TypedDict):
    """A measure over the steps of training. Of many steps in a row: the last of them, lowest and highest value."""

    name: str
    steps: list[int]
    low: list[Number]
    high: list[Number]
    smooth: list[Number]  # the running mean
    last: Number | None
    peak: Literal["lowest", "highest"]  # which of them is told: the lowest, unless that is where it began
    peak_value: Number | None
    peak_at: int | None
    bad: int  # values that are not finite
    first_bad: int | None  # at which step


class ProgressView(TypedDict):
    """A training loop: how far it is, and what was reported."""

    kind: Literal["progress"]
    name: str
    steps: int
    total: int | None  # of an epoch
    epoch: int  # from 1
    stopped: bool  # before the batches ended
    curves: list[LossCurve]
    note: str | None


class GradientNorm(TypedDict):
    """Of a parameter, or of all in a module."""

    path: str
    depth: int
    cls: str  # of a module; "" for a parameter
    norm: Number | None  # None: it has no gradient
    weight: Number  # the norm of the values
    flag: str  # "NaN", "Inf", "no gradient", "zero", or ""


class GradientNormsView(TypedDict):
    """Norms of gradients, in the order of the model."""

    kind: Literal["gradient_norms"]
    cls: str
    total: Number
    rows: list[GradientNorm]
    shown: list[int]  # the rows that there is room for
    bad: list[str]  # "no gradient: out.bias"
    note: str | None


class Difference(TypedDict):
    """A value that is not the same in two runs: where it differs first."""

    name: str
    line: int | None
    step: int | None  # None: it is in one of the runs only
    text: str  # by how much


class FirstDifference(TypedDict):
    """The value of two runs that differs first."""

    name: str
    lines: list[int | None]  # in the first run, in the second
    step: int  # -1: before the first step
    dims: list[DimView]
    where: str  # the entry that differs most: "batch 'banana', feat 3"
    a: str
    b: str
    difference: Number | None  # None for labels
    relative: Number  # to the largest number of the value
    note: str | None  # "the lengths differ"
    pictures: list[MarkedPicture]


class ComparisonView(TypedDict):
    """Two runs of a loop: what differs, the first difference first."""

    kind: Literal["comparison"]
    run: int
    other: int
    agree: bool
    first: FirstDifference | None
    differences: list[Difference]
    notes: list[str]  # what else is not the same: numbers of steps, sequences
    text: str


class MarkedPicture(TypedDict):
    """A part of a value around a place, which is marked."""

    title: str
    text: str  # what is at the place
    axes: str  # what is down and across
    picture: str | None  # data URI of a PNG
    alt: str


class Finding(TypedDict):
    """An op that a check complains of."""

    op: str
    name: str  # what the user's line calls its result
    what: str  # "3 NaN", "0.5 together, 0.4 alone"
    at: str  # the entry, by dim; of a difference, the sequence as well
    place: str  # the user's line
    path: str  # of the module it is in
    loop: str | None
    step: int | None  # of that loop
    operands: list[str]
    came_from: str | None


class CheckView(TypedDict):
    """What `rf.check.finite` or `rf.check.batch_invariance` found."""

    kind: Literal["check"]
    name: Literal["finite", "batch invariance"]
    passed: bool
    text: str
    facts: list[list[str]]  # of the first finding: [label, words]
    dims: list[DimView]  # of its value
    pictures: list[MarkedPicture]
    findings: list[Finding]
    note: str | None


MovedPlace = Literal["once", "all steps", "each step", "after the loop"]


class MovedOp(TypedDict):
    """An op of a loop's body, and where it was done."""

    line: int | None  # of the body, 1-based, in the file or cell
    place: str | None  # of the expression, if it is in a function that the body calls
    op: str
    text: str  # the expression
    where: MovedPlace
    why: str
    states: list[str]  # those that it needs


class ExplanationView(TypedDict):
    """Where the ops of a loop were done: before its steps, in them, or after them."""

    kind: Literal["loop_explanation"]
    name: str
    place: str | None
    ran: bool
    first_line: int  # of `body`, 1-based, in the file or cell
    body: list[str]
    ops: list[MovedOp]


class SequenceEnd(TypedDict):
    """How many steps a sequence took, and why it ended."""

    sequence: int
    tag: str | None
    steps: int
    end: str | None  # "length 5 reached", "ended at 3: end was true", "max steps (20)", "failed at 2"


class StateStrip(TypedDict):
    """A state over all steps."""

    state: str
    picture: str  # data URI of a PNG: steps across
    alt: str


class HistoryView(TypedDict):
    """The static picture of a run: chosen steps of each state."""

    kind: Literal["run"]
    run: RunView
    sequence: int | None  # the chosen one
    start: list[ValueView]  # the states before the first step
    steps: list[StepView]
    reasons: list[str]  # of each of the steps, why it is shown; "" if only as one of many
    sequences: list[SequenceEnd]
    strips: list[StateStrip]
    explanation: ExplanationView | None  # where the ops of the body were done
    note: str | None


class StripCell(TypedDict):
    """A dim of an operand; or a number, of an array without dims."""

    dim: DimView | None
    word: str  # "time:3–5 Σ8", "time [5, 3]"
    odd: bool  # it does not fit


class StripRow(TypedDict):
    """An operand: its dims stand under the same dims of the others, with None where it has no such dim."""

    name: str  # of the parameter
    text: str  # what the user's line says
    type: str  # "float32", "Dim", "numpy.ndarray"
    cells: list[StripCell | None]


class DimOrigin(TypedDict):
    """Where a dim comes from."""

    dim: DimView
    name: str  # "time¹" if another dim has the same name
    where: str  # "ceil(time/2), made in cell 3, line 1"
    text: str | None  # the expression that made it
    odd: bool


class CodeView(TypedDict):
    """Some lines of the user's code, and the expression that is meant."""

    place: str
    function: str | None  # None outside of functions
    first_line: int  # 1-based, in the file or cell
    lines: list[str]
    marks: list[list[int]]  # per line: [start, end] of the expression in it, or []


class FrameView(TypedDict):
    """A step of a traceback."""

    place: str
    function: str
    text: str
    whose: Literal["user", "rfnb", "other"]


class CauseView(TypedDict):
    """An error that came before, and how they are related."""

    error: str  # "KeyError: 'x'"
    relation: Literal["caused by", "while handling"]
    frames: list[FrameView]


class ErrorView(TypedDict):
    """An error: the user's line, the call in it, and what does not fit."""

    kind: Literal["error"]
    name: str  # of the class
    what: str
    facts: list[list[str]]  # [["expected", "..."], ["hint", "..."]]
    notes: list[str]
    code: CodeView | None
    call: str | None  # the function of rfnb: "reduce_sum", "layers.0: Linear"
    rows: list[StripRow]
    origins: list[DimOrigin]
    frames: list[FrameView]
    causes: list[CauseView]
    note: str | None  # what could not be told


class DimRow(TypedDict):
    """A dim of a table of dims."""

    dim: DimView
    name: str  # "time¹" if another one in the table has the same name
    known: bool  # whether it has a size now
    role: str  # "dynamic batch", "static feature"
    text: str | None  # the expression that made it
    tensors: list[str]  # the names of the first few
    tensor_count: int
    parameters: list[str]
    parameter_count: int
    modules: list[str]
    module_count: int
    same_as: list[str]  # those that were declared to have the same size
    conflicts: list[str]
    notes: list[str]  # quieter: "has the size of hidden in w"


class DimTableView(TypedDict):
    """Dims and who has them, conflicts first."""

    kind: Literal["dims"]
    name: str
    rows: list[DimRow]
    note: str | None


class GraphValue(TypedDict):
    """What a node of a graph gives."""

    value: int
    name: str
    dims: list[int]  # positions in the `dims` of the view
    shape: list[int] | None  # of a plain tensor, which has no dims
    changed: bool  # no input of the node has the same dims


class GraphNode(TypedDict):
    """A box of a graph: a module, an op, a loop, a side of a branch; or a place where values come in or go out."""

    id: str
    kind: Literal["module", "op", "loop", "cond", "side", "section", "input", "output", "frame", "state"]
    name: str
    cls: str  # of a module; the op
    path: str  # "encoder.layers.0"
    outputs: list[GraphValue]
    params: int
    times: int  # so many alike, one after the other, are this one box
    options: str  # of a module: "in:26 → out:128"
    notes: list[str]  # "200 steps, 87–200 by sequence"
    status: Literal["done", "failed", "ghost"]
    body: str | None


class GraphEdge(TypedDict):
    """Between two nodes of a body. `back`: into the next step of a loop."""

    source: str
    target: str
    value: int  # -1: none
    back: bool


class GraphBody(TypedDict):
    """What is inside a node, or the whole."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphFailure(TypedDict):
    """What ended the call."""

    node: str | None
    path: str
    error: str
    text: str
    place: str | None
    hint: str | None


class GraphView(TypedDict):
    """The graph of one call of a model."""

    kind: Literal["graph"]
    name: str
    dims: list[DimView]
    bodies: dict[str, GraphBody]
    root: str
    open: list[str]  # ids of nodes that are drawn with their body
    params: int
    failure: GraphFailure | None
    note: str | None


class LoadedNames(TypedDict):
    """Names of parameters that are missing, unexpected, skipped or renamed."""

    what: str
    names: list[str]


class LoadedView(TypedDict):
    """What became of the entries of a checkpoint."""

    kind: Literal["load_report"]
    path: str
    loaded: list[str]
    groups: list[LoadedNames]


class Hello(TypedDict):
    """What the kernel says of itself when it is greeted."""

    protocol: int
    version: str
    session: str  # of the kernel process


class Message(TypedDict):
    """Front end to kernel, on the command comm."""

    id: int
    command: str  # a row of `COMMANDS` in rfnb/display/panel/commands.py
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
