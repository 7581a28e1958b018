"""The JSON of beam searches."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.markup.numbers import Number


class BeamNode(TypedDict):
    """A hypothesis after a step, or a candidate that was pruned there."""

    row: int  # the place in the beam; of a pruned candidate, its position below the beam
    parent: int | None  # the place, in the beam before, that it extends
    joined: int | None  # that of a second hypothesis which became this one
    text: str  # of its label
    score: float  # as it was compared
    state: Literal["lives", "dies", "pruned", "copy"]  # copy: of a hypothesis that had ended
    ends: bool
    best: bool  # on the path of the best hypothesis
    reference: bool  # a prefix of the reference
    rank: NotRequired[int]  # among the candidates of the step, 1: the best
    parts: NotRequired[list[Number]]  # the score of its label by each scorer, not scaled
    adds: NotRequired[str]  # what its label adds to the text of the hypothesis


class BeamStep(TypedDict):
    """The beam after a step."""

    step: int
    nodes: list[BeamNode]
    skipped: int  # how many steps before this one are not drawn


class BeamHypothesis(TypedDict):
    """A hypothesis that was left at the end."""

    rank: int
    place: int
    text: str
    score: float
    parts: dict[str, float]
    length: int
    complete: bool
    reference: bool


class BeamFall(TypedDict):
    """Where the reference fell out of the beam."""

    step: int
    row: int | None  # of the candidate, if it is drawn
    words: str


class BeamReference(TypedDict):
    """What is known of the reference."""

    text: str
    verdict: str
    because: str
    fall: BeamFall | None


class NodeAt(TypedDict):
    """A hypothesis, by its place in the beam after a step."""

    step: int
    place: int


class BeamRow(TypedDict):
    """A hypothesis after a step."""

    place: int
    rank: int  # 1: the best
    text: str  # of its labels so far
    score: Number  # as it was compared
    parts: dict[str, Number]  # the sum of its scores by each scorer, not scaled
    parent: int | None  # the rank that its parent had
    ended: bool


class BeamAt(TypedDict):
    """The beam at a step of a run, for one sequence."""

    sequence: int
    name: str  # of the sequence
    beam: int
    step: int  # that of the last column: the search of a sequence may end before the loop
    steps: int  # of the search of this sequence
    since: int  # the step of the first of the columns that are sent
    columns: list[BeamStep]  # of the tree, up to this step
    rows: list[BeamRow]  # the best first
    hypothesis: NodeAt | None  # the chosen one, at the step where it was chosen
    place: int | None  # where it is after this step
    lost: int | None  # the step at which nothing extended it any more
    locked: NotRequired[str | None]  # why no pruned candidate can be kept; older kernels do not send it


class BeamView(TypedDict):
    """The search for one sequence."""

    kind: Literal["beam"]
    name: str
    summary: list[str]  # in words
    others: list[str]  # the names of the sequences of the search, if this is one of several
    beam: int  # places
    living: NotRequired[int]  # how many of them, the first ones, are for hypotheses that go on; not there if all are
    size: str  # in words
    steps: int
    columns: list[BeamStep]  # more of them, and more pruned candidates, than the picture draws
    pruned: NotRequired[int]  # how many pruned candidates of each step the picture draws
    parts: NotRequired[list[str]]  # the names of the scorers
    hypotheses: list[BeamHypothesis]
    reference: BeamReference | None
    prompt: NotRequired[str]  # the labels before the first step, where a search goes on from some
    note: str | None


class BeamColumn(TypedDict):
    """The nodes of a step, the best first, then the pruned candidates; an entry of each list belongs to a node."""

    step: int
    skipped: int  # how many steps before this one are left out
    rows: list[int]  # places in the beam; of pruned candidates, positions below it
    parents: list[int]  # rows of the column before; -1: none
    joined: NotRequired[list[int]]  # rows of second parents; not there if there are none
    labels: list[int]  # in `texts`
    adds: list[int]  # in `texts`: what the labels add to the text of the hypothesis
    ranks: list[int]
    scores: list[Number]
    parts: list[list[Number]]  # for each of the scorers
    marks: list[int]  # position of the state in "lives", "dies", "copy", "pruned"; + 4 ends, + 8 best, + 16 reference


class BeamScripts(TypedDict):
    """What scripts read of a tree; the picture in the HTML is `<div data-rfnb-tree><img></div>`."""

    kind: Literal["beam"]
    name: str
    beam: int
    living: NotRequired[int]  # how many of its places are for hypotheses that go on; not there if all are
    parts: list[str]  # the names of the scorers
    texts: list[str]
    columns: list[BeamColumn]
    fall: BeamFall | None
