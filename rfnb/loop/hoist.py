"""Moves ops out of the steps: before them what depends on no state, behind them what only outputs depend on.

Ops on what is the same at every step are done once; others are done for all steps together, over a private Dim,
`frames`, which counts the steps and has no padding. What an op is allowed is said by its row (`frames="any"`). All
others stay in the steps, and so do those that cannot be done over `frames` after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rfnb.backend.base.tape import Var
from rfnb.core import align
from rfnb.core.accident import meant
from rfnb.core.dim import Dim
from rfnb.core.graph import Node
from rfnb.core.nested import leaves, map_leaves
from rfnb.core.op import listening
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.loop.sized import below, grows
from rfnb.trace.record import OpCall

if TYPE_CHECKING:
    from rfnb.loop.body import Body
    from rfnb.loop.close import Closed

Place = Literal["once", "frames", "steps", "behind"]
WHERE = {"once": "once", "frames": "all steps", "steps": "step", "behind": "behind"}
BUDGET = 2**31
"""Bytes that the results of one op may take for all steps together; what would take more stays in the steps."""


class Moved(NamedTuple):
    """An op of a body: where it was done, and why there."""

    node: Node
    place: Place
    why: str

    @property
    def where(self) -> str:
        """ "once", "all steps", "step" or "behind"."""
        return WHERE[self.place]

    @property
    def text(self) -> str:
        """The expression, as it is written."""
        return self.node.source.text() if self.node.source is not None else self.node.op


class Explanation:
    """Where the ops of a loop were done: before its steps, in them, or behind them."""

    def __init__(self, name: str, rows: Sequence[Moved] | None):
        self.name = name
        self.rows = list(rows or ())
        self._ran = rows is not None

    def __repr__(self) -> str:
        if not self._ran:
            return f"{self.name} has not run yet"
        once, together, each, behind = (sum(row.place == place for row in self.rows) for place in WHERE)
        head = (
            f"{self.name}: {once} op{'s' * (once != 1)} once, {together} for all steps together, {each} in each step, "
            f"{behind} behind the steps"
        )
        places = [row.node.source.place() if row.node.source is not None else "" for row in self.rows]
        width = max(map(len, places), default=0)
        lines = [
            f"  {row.where:<9}  {place:<{width}}  {row.node.op:<15} {row.text}{f'  # {row.why}' if row.why else ''}"
            for row, place in zip(self.rows, places, strict=True)
        ]
        return "\n".join([head, *lines])


class Hoist:
    """What of a body is done outside of its steps: `before()` them, and `behind(…)` them.

    step_outputs: what the steps have to give in place of the outputs.
    """

    def __init__(self, body: Body, closed: Closed):
        self.body, self.program, self.backend, self.tape = body, closed.program, body.backend, body.tape
        schedule = closed.schedule
        self.ops = body.recorder.op_calls
        self.wanted = {*schedule.new, *schedule.kept, *([schedule.ended] if schedule.ended else [])}
        self.outputs = schedule.outputs
        steps = 0 if body.size is None else min(body.size.max, schedule.max_steps)
        self.dim = _frames(steps) if steps else None
        self.reads = {id(c): self._vars([c.args, c.kwargs]) for c in self.ops}
        self.makes = {id(c): self._vars(c.result) for c in self.ops}
        self.done: dict[Var, Tensor] = {}  # computed outside of the steps, with the dim `frames` or without
        self.traced: dict[Var, Tensor] = {}  # what it was on the traced frame
        self.place: dict[Var, Place] = {}
        self.states: dict[Var, frozenset[str]] = {}  # what a value depends on
        self._place_inputs()
        self.places = [self._place_op(op_call) for op_call in self.ops]
        self._place_behind()
        self.step_outputs = self._step_outputs()

    # -- where each op may be done

    def _place_inputs(self) -> None:
        for name, var, state in zip(self.body.names, self.body.state_vars, self.body.before, strict=True):
            self.place[var], self.states[var] = "steps", frozenset([name])
            if isinstance(state, Tensor):
                self.traced[var] = state.plain
        for var, _, stacked in self.body.frames:
            self.place[var] = "steps"
            if stacked is not None and self.dim is not None:
                self.place[var], self.done[var] = "frames", stacked(self.dim)

    def _place_op(self, op_call: OpCall) -> Place:
        """By its row and its operands."""
        row, operands = op_call.row, {self.place.get(var, "steps") for var in self._read(op_call)}
        place: Place = "once"
        if row.random or row.effect or "steps" in operands or grows([op_call.result], self.body.recorder.grown):
            place = "steps"
        elif "frames" in operands:
            place = "frames" if row.frames == "any" else "steps"
        needs = frozenset().union(*(self.states.get(var, frozenset()) for var in self._read(op_call)))
        for tensor in _tensors(op_call.result):
            if (var := self._var(tensor)) is not None:
                self.place.setdefault(var, place)
                self.traced.setdefault(var, tensor)
                self.states.setdefault(var, needs)
        return place

    def _place_behind(self) -> None:
        """Those of the steps that nothing but outputs needs, nor an op that stays."""
        owners = {id(node): i for i, op_call in enumerate(self.ops) for node in below(op_call.node)}
        for_states = set(self.program.needed(list(self.wanted)))
        needed: set[Var] = set(self.wanted)
        for position, call in enumerate(self.program.calls):
            if position in for_states or call.effect or id(call.node) not in owners:
                needed |= {read for read in call.reads() if isinstance(read, Var)}
        busy = {owners[id(call.node)] for i, call in enumerate(self.program.calls)
                if id(call.node) in owners and (i in for_states or call.effect)}  # fmt: skip
        for i in range(len(self.ops) - 1, -1, -1):
            op_call = self.ops[i]
            if self.places[i] != "steps":
                continue
            row, made = op_call.row, self._made(op_call)
            moves = row.frames == "any" and not row.random and not row.effect and i not in busy
            if moves and made and not made & needed and not grows([op_call.args, op_call.result], self._grown):
                self.places[i] = "behind"
            else:
                needed |= self._read(op_call)

    @property
    def _grown(self) -> set[int]:
        return self.body.recorder.grown

    def _step_outputs(self) -> list[Var]:
        """Outputs that the steps compute, and what the ops behind them read."""
        made = {var for op_call in self._at("behind") for var in self._made(op_call)}
        read = {var for op_call in self._at("behind") for var in self._read(op_call)} - made
        found = [var for var in self.outputs if var not in made]
        carried = {var for var in read if self.place.get(var, "steps") == "steps"} - set(found)
        return found + sorted(var for var in carried if var.number not in self.program.constants)

    def _at(self, *places: Place) -> list[OpCall]:
        return [op_call for op_call, place in zip(self.ops, self.places, strict=True) if place in places]

    # -- before the steps

    def before(self) -> tuple[dict[Var, Any], dict[Var, Sequence[Any]]]:
        """Does what depends on no state. Raw values that the steps need: the same for all, and one for each."""
        with listening(None), meant():
            for op_call in self._live():
                self._run(op_call)
        constants: dict[Var, Any] = {}
        frames: dict[Var, Sequence[Any]] = {}
        given = {var for var, *_ in self.body.frames}
        moved = [c for c in self._at("once", "frames") if self._made(c) <= set(self.done)]
        for var in sorted((self._read_by_steps(moved) & set(self.done)) - given):
            made, dims = self.done[var], self.traced[var].dims
            if self.dim is not None and self.dim in made.sig.index:
                raw = self.backend.move_raw(made._raw, align.move(made.dims, [self.dim, *dims], trailing=False))
                frames[var] = self.backend.frames_raw(raw, 0)
            else:
                constants[var] = self.backend.move_raw(made._raw, align.move(made.dims, dims, trailing=False))
        return constants, frames

    def _live(self) -> list[OpCall]:
        """Those whose results are needed, in order."""
        needed = self._read_by_steps(self._at("once", "frames"))
        needed |= {var for op_call in self._at("behind") for var in self._read(op_call)}
        found = []
        for op_call in reversed(self._at("once", "frames")):
            made = self._made(op_call)
            if made & needed and not all(var.number in self.program.constants for var in made):
                found.append(op_call)
                needed |= self._read(op_call)
        return found[::-1]

    def _read_by_steps(self, moved: Sequence[OpCall]) -> set[Var]:
        """What calls that stay read, and what the steps give."""
        gone = {id(node) for op_call in moved for node in below(op_call.node)}
        wanted = [*self.wanted, *self.step_outputs]
        staying = [self.program.calls[i] for i in self.program.needed(wanted)]
        reads = [read for call in staying if id(call.node) not in gone for read in call.reads()]
        return {read for read in reads if isinstance(read, Var)} | set(wanted)

    def _run(self, op_call: OpCall) -> None:
        """Does an op for all steps. If that is not possible, it stays where it is, and what depends on it too."""
        known = all(var in self.done or var.number in self.program.constants for var in self._read(op_call))
        if not known or self._too_large(op_call):
            return
        try:
            result = self._again(op_call, self.done)
        except Exception:  # the steps do it then, and say what is wrong with it
            return
        self._keep(op_call, result)

    def _again(self, op_call: OpCall, values: dict[Var, Tensor]) -> Any:
        def value(leaf: Any) -> Any:
            var = self._var(leaf) if isinstance(leaf, Tensor) else None
            return leaf if var is None else values.get(var, leaf)

        return op_call.row.fn(*map_leaves(value, op_call.args), **map_leaves(value, op_call.kwargs))

    def _keep(self, op_call: OpCall, result: Any) -> None:
        for traced, made in zip(_tensors(op_call.result), _tensors(result), strict=True):
            var = self._var(traced)
            if var is not None and set(made.dims) - {self.dim} == set(traced.dims) and made.dtype == traced.dtype:
                self.done.setdefault(var, made)

    def _too_large(self, op_call: OpCall) -> bool:
        made = sum(self.backend.nbytes_raw(leaf._raw) for leaf in _tensors(op_call.result))
        return self.dim is not None and made * (self.dim.dimension or 0) > BUDGET

    # -- behind the steps

    def behind(self, stacked: Sequence[Any], steps: int) -> list[Any]:
        """The outputs, from what the steps gave as `step_outputs`: raw tensors [steps, …]."""
        given = dict(zip(self.step_outputs, stacked, strict=True))
        if len(given) == len(self.outputs) and not self._at("behind"):
            return [given[var] for var in self.outputs]
        self._shorten(steps)
        for var, raw in given.items():
            if var in self.traced and var not in self.done:
                like = self.traced[var]
                signature = align.sig([self._frames, *like.dims], like.sparse_dim, like.feature_dim)
                self.done[var] = tensor_of(raw, signature, like.lengths)
        needed = set(self.outputs)
        wanted = []
        for op_call in reversed(self._at("behind")):
            if self._made(op_call) & needed:
                wanted.append(op_call)
                needed |= self._read(op_call)
        with listening(None), meant():
            for op_call in reversed(wanted):
                self._run_behind(op_call, steps)
        return [given[var] if var in given else self._stacked(var, steps) for var in self.outputs]

    @property
    def _frames(self) -> Dim:
        assert self.dim is not None
        return self.dim

    def _shorten(self, steps: int) -> None:
        """A loop with an end may take fewer steps than there are frames."""
        old, self.dim = self.dim, _frames(steps)
        for var, made in self.done.items() if old not in (None, self.dim) else ():
            if old in made.sig.index:
                raw = self.backend.slice_raw(made._raw, made.axis(old), 0, steps, 1)
                dims = [self.dim if dim is old else dim for dim in made.dims]
                self.done[var] = tensor_of(raw, align.sig(dims, made.sparse_dim, made.feature_dim), made.lengths)

    def _run_behind(self, op_call: OpCall, steps: int) -> None:
        before = set(self.done)
        try:
            self._keep(op_call, self._again(op_call, self.done))
        except Exception:  # step by step it has its own words
            self._step_by_step(op_call, steps)
        if not self._made(op_call) <= set(self.done):
            for var in set(self.done) - before:
                del self.done[var]
            self._step_by_step(op_call, steps)

    def _step_by_step(self, op_call: OpCall, steps: int) -> None:
        rows = []
        for step in range(steps):
            values = {var: self._at_step(var, step) for var in self._read(op_call) if var in self.done}
            rows.append(_tensors(self._again(op_call, values)))
        for traced, column in zip(_tensors(op_call.result), zip(*rows, strict=True), strict=True):
            if (var := self._var(traced)) is not None:
                how = [align.move(made.dims, traced.dims, trailing=False) for made in column]
                raws = [self.backend.move_raw(made._raw, h) for made, h in zip(column, how, strict=True)]
                signature = align.sig([self._frames, *traced.dims], traced.sparse_dim, traced.feature_dim)
                self.done[var] = tensor_of(self.backend.stack_raw(raws), signature, column[0].lengths)

    def _at_step(self, var: Var, step: int) -> Tensor:
        made = self.done[var]
        if self._frames not in made.sig.index:
            return made
        raw = self.backend.select_raw(made._raw, made.axis(self._frames), step)
        return tensor_of(raw, align.without(made.sig, [self._frames]), made.lengths)

    def _stacked(self, var: Var, steps: int) -> Any:
        made, dims = self.done[var], self.traced[var].dims
        if self._frames in made.sig.index:
            return self.backend.move_raw(made._raw, align.move(made.dims, [self._frames, *dims], trailing=False))
        raw = self.backend.move_raw(made._raw, align.move(made.dims, dims, trailing=False))
        return self.backend.expand_raw(self.backend.expand_dims_raw(raw, 0), 0, steps)

    # -- what is told of it

    def explain(self) -> list[Moved]:
        """Where each op of the body's lines was done. To be asked for after `before`."""
        rows = []
        for op_call, place in zip(self.ops[: self.body.own_ops], self.places, strict=False):
            done = self._made(op_call) <= {*self.done, *map(Var, self.program.constants)}
            rows.append(Moved(op_call.node, *self._reason(op_call, place, done)))
        return rows

    def _reason(self, op_call: OpCall, place: Place, done: bool) -> tuple[Place, str]:
        row = op_call.row
        needs: frozenset[str] = frozenset().union(*(self.states.get(var, frozenset()) for var in self._read(op_call)))
        if place == "behind":
            return place, "only outputs need it"
        if place in ("once", "frames"):
            return (place, "") if done else ("steps", "it cannot be done for all steps together")
        if needs:
            return place, f"needs {', '.join(sorted(name.lstrip('#') for name in needs))}"
        if row.random or row.effect:
            return place, "draws random numbers" if row.random else "changes something"
        return (
            place,
            f"{row.name} is done frame by frame" if row.frames is None else "what it needs is done in the steps",
        )

    # -- Vars of tensors of the traced frame

    def _var(self, tensor: Tensor) -> Var | None:
        found = self.tape.find(tensor._raw)
        return found if isinstance(found, Var) else None

    def _vars(self, tree: Any) -> set[Var]:
        return {var for tensor in _tensors(tree) if (var := self._var(tensor)) is not None}

    def _read(self, op_call: OpCall) -> set[Var]:
        return self.reads[id(op_call)]

    def _made(self, op_call: OpCall) -> set[Var]:
        return self.makes[id(op_call)]


@lru_cache(maxsize=256)
def _frames(steps: int) -> Dim:
    """One for all loops with as many steps: what was planned for it holds again. It is in no tensor of the user."""
    return Dim(steps, name="frames")


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Tensor)]
