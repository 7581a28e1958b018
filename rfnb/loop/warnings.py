"""Warnings about loops that run, but hardly do what was meant."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.source import PerPlace, in_code
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopWarning
from rfnb.loop.body import ENDED, Body, has_steps
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.execute import Outcome


class Doubt(NamedTuple):
    """`about` is the same for each time that the loop gives reason for it."""

    about: str
    text: str


def of_body(body: Body) -> list[Doubt]:
    """To be asked for before the loop adds ops of its own. Once for each loop that is written, and its states."""
    states = tuple(body.loop.state)
    if states in body.judged:
        return []
    found = [*_of_chance(body), *_of_states(body)]
    body.judged.add(states)
    return found


def _of_states(body: Body) -> list[Doubt]:
    """States that no line sets, or none reads."""
    state, doubts = body.loop.state, list[Doubt]()
    before = dict(zip(body.names, body.before, strict=True))
    read: set[int] | None = None
    for name, value in state._values.items():
        olds = [old for key, old in before.items() if key == name or key.startswith(f"{name}.")]
        if not olds or any(isinstance(old, Dim) for old in olds):
            continue
        news = [new for new in leaves(value) if new is not None]
        same = all(old is new for old, new in zip(olds, news, strict=False))
        read = _read(body) if read is None else read
        if same and name not in state._assigned:
            doubts.append(Doubt(f"unset {name}", _unset(name)))
        elif not any(old.value.number in read for old in olds):
            doubts.append(Doubt(f"unread {name}", _unread(name)))
    return doubts


def _of_chance(body: Body) -> list[Doubt]:
    """Random numbers that are not the loop's."""
    with body.aside():
        used = body.chance.used()
    return [
        Doubt(
            f"chance {name}",
            f"the body seeds {name}, or draws from it; it is run once, so this is the same at every step\n"
            "  hint      rf.random_uniform([]) and the like draw anew at every step; rf.cond and rf.where choose",
        )
        for name in used
    ]


def _unset(name: str) -> str:
    return (
        f"the state {name!r} is never set in the body, so it stays as it was before the loop\n"
        f"  hint      loop.state.{name} = …  # in the body; what is the same at every step need be no state"
    )


def _unread(name: str) -> str:
    return (
        f"the state {name!r} forgets: nothing in the body reads the value of the step before\n"
        f"  hint      use loop.state.{name} before you set it; for the value at the end alone, loop.last(…)"
    )


def _read(body: Body) -> set[int]:
    """The values that something in the body reads; a module reads all that it is given."""
    graph, tape = body.recorder.graph, body.tape
    found = {number for node in graph.all_nodes() for number in node.inputs}
    called = {read for call in tape.calls for read in call.reads()}
    found |= {x.value.number for x in body.recorder.traced() if tape.find(x.plain._raw) in called}
    found |= {x.value.number for x, _ in [*body.outputs, *body.lasts]}
    if body.condition is not None:
        found.add(body.condition.value.number)
    return found | {x.value.number for _, x in body.loop.state._leaves() if isinstance(x, Traced)}


def of_end(body: Body, outcome: Outcome, limit: Size) -> Iterator[Doubt]:
    """An `end` that is true for no sequence; where an axis says how many frames there are, that is no wonder."""
    axis = body.loop.axis
    by_axis = body.size is not None or (axis is not None and has_steps(axis))
    if body.condition is None or by_axis or not outcome.steps or outcome.steps < limit.max:
        return
    ended = body.backend.to_numpy_raw(outcome.states[body.names.index(ENDED)])
    if ended.size and not ended.any():
        yield Doubt(
            "end",
            f"what loop.end was given is never true: no sequence has ended within max_seq_len={limit.max} steps\n"
            "  hint      rf.watch(…) around the condition shows it step by step; or a larger max_seq_len",
        )


def not_ended(ended: np.ndarray, condition: Tensor) -> str | None:
    """ "never ended" if that is true of all sequences, "never ended: sequences 1, 3 of 5" if it is of some."""
    if ended.all():
        return None
    if not ended.any() or ended.ndim != 1:
        return "never ended" if not ended.any() else f"never ended: {int((~ended).sum())} of {ended.size}"
    numbers, size = np.flatnonzero(~ended), condition.lengths.size(condition.dims[0])
    tags = size.tags if size is not None else None
    named = [f"{n} {tags[n]!r}" if tags is not None else str(n) for n in numbers[:4]]
    which = f"sequence{'s' * (len(numbers) > 1)} {', '.join(named)}{', …' * (len(numbers) > 4)}"
    return f"never ended: {which} of {ended.size}"


def warn(body: Body, doubt: Doubt) -> None:
    """Points at the line of the `with`. Once for each loop that is written, however often it runs."""
    if body.source is None or doubt.about in _said[body.source]:
        return
    _said[body.source].add(doubt.about)
    frame = in_code(body.source.code)
    registry = frame.f_globals.setdefault("__warningregistry__", {}) if frame is not None else {}
    text = f"{body.loop.name} ({body.source.place()}): {doubt.text}"
    warnings.warn_explicit(text, LoopWarning, body.source.file, body.source.span.line, registry=registry)


_said: PerPlace[set[str]] = PerPlace(lambda source: set())
"""By the line of a `with`: what the doubts that were told are about."""
