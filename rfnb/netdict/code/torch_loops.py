"""Loops over frames in plain torch: a `for` over positions, states as variables, frames of results in lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code.body import ATOM, uses_of
from rfnb.netdict.code.names import identifier
from rfnb.netdict.code.torch_body import TorchBody, axes_of, position
from rfnb.netdict.code.trace import Call, Unwritten, unwritten


@dataclass(eq=False)
class For:
    """A loop.

    Attributes:
        axis: that it steps along. most: the number of steps, if a step decides whether it is the last one.
        lengths, ended: then the variables with the lengths so far, and with which sequences have ended.
        states: by name and part, the variable, and its axes and type. stacks: by id of a result, the list of frames.
        kept: the states that are read after the loop.
        step: the variable of the position. start: the line of the loop; indent: its place. before: the variables there.
        grown: the axes of states that are longer after each step, as the first value has them.
        inner: those for lengths that only a step knows. updates: the states, and what they are set to.
    """

    axis: Dim
    most: object = None
    lengths: str = ""
    ended: str = ""
    states: dict[tuple[str, str], tuple[str, Tensor]] = field(default_factory=dict)
    stacks: dict[int, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    step: str = ""
    start: int = 0
    indent: str = ""
    before: dict[str, Tensor] = field(default_factory=dict)
    grown: dict[tuple[str, str], Dim] = field(default_factory=dict)
    inner: set[str] = field(default_factory=set)
    updates: list[tuple[str, str]] = field(default_factory=list)

    def axes_of_state(self, call: Call, x: Tensor, first: Tensor) -> list[Dim]:
        """The axes of a value of a state in the order of the first one, where some axes may have grown."""
        now = {id(self.grown[call.name, path]): dim for path, dim in parts_of((call.args or (call.result,))[0], Dim)}
        return [x.dims[position(x.dims, now.get(id(dim), dim))] for dim in axes_of(first)]


class TorchLoops(TorchBody):
    """Writes loops over frames."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.fors: dict[int, For] = {}
        self.open: list[For] = []

    def call(self, call: Call, following: Call | None) -> None:
        """Writes a call."""
        if call.kind == "loop":
            if call.kwargs["axis"] is None:
                raise unwritten(call.owner, "a loop without an axis")
            self.fors[id(call.result)] = For(call.kwargs["axis"], call.kwargs["max_seq_len"])
        elif call.kind == "with":
            with self.inside(call):
                self.write(call.body)
        elif call.kind == "set":
            self.set_state(call)
        elif call.kind == "get":
            self.get_state(call)
        elif call.kind == "raw":
            self.same_frames(call, following)
        elif call.kind in ("method", "attribute"):
            getattr(self, f"loop_{call.name}")(call, following)
        else:
            super().call(call, following)

    # -- the loop

    @contextmanager
    def inside(self, call: Call) -> Iterator[None]:
        """Inside, lines are those of the body of a loop."""
        of = self.fors[id(call.loop)]
        if any(line.name == "choice" for line in call.body):
            raise unwritten(call.owner, "a search has no form in plain torch", hint='rf.to_code(net, target="rf")')
        of.kept, ends = call.kwargs["kept"], [line for line in call.body if line.name == "end"]
        if ends and (not isinstance(of.most, int) or of.kept):
            raise unwritten(call.owner, "a loop with an end has no fixed limit, or its states are read after it")
        held = Counter(dict.fromkeys(self.place.values, 1))  # each step needs what is there before
        self.left.update(held)
        for line in call.body:
            if line.kind == "method" and line.name == "stack":
                name = identifier(line.kwargs.get("name") or line.owner.rpartition("/")[2], "frames")
                plural = name if name[-1] == "s" else identifier(f"{name}s")  # "is" and "as" are not names
                of.stacks[id(line.result)] = self.place.names.new(plural)
                self.line(f"{of.stacks[id(line.result)]} = []")
        if ends:
            of.lengths, of.ended = map(self.place.names.new, ("lengths", "ended"))
            for name, dtype in ((of.lengths, "int64"), (of.ended, "bool")):
                self.line(f"{name} = torch.zeros({self.size(batch_dim)}, dtype=torch.{dtype}{self.device()})")
        size = str(of.most) if ends else self.size(of.axis)
        of.step, of.start, of.indent = self.place.names.new("t"), len(self.place.lines), self.indent
        of.before = dict(self.current)
        self.line(f"for {of.step} in range({size}):")
        self.indent += "    "
        self.open.append(of)
        yield
        for text in at_once(of.updates):
            self.line(text)
        of.updates = []
        if ends:
            self.line(f"if {of.ended}.all():")
            self.line("    break")
        self.open.pop()
        self.indent = of.indent
        self.release(held)
        self.current = {name: x for name, x in self.current.items() if name in of.before}
        for names in (self.masks, self.of_dims):
            for key in [key for key, name in names.items() if name in of.inner]:
                del names[key]
        for line in call.body:
            if id(line.result) in of.stacks and self.uses[id(line.result)] > 0:
                place = position(axes_of(line.result), of.axis)
                cut = f"[{':, ' * place}: {of.lengths}.max()]" if ends and not ends[0].kwargs["include_eos"] else ""
                self.line(f"{self.target(line.result)} = torch.stack({of.stacks[id(line.result)]}, {place}){cut}")
        if ends:
            self.give_lengths(of.axis, of.lengths)

    def shared(self, name: str, text: Callable[[], str]) -> str:
        """A variable that is computed before all loops, if it can be."""
        if not self.open:
            return super().shared(name, text)
        outer, place = self.open[0], self.place
        now = self.open, self.current, self.indent, place.lines
        self.open, self.current, self.indent, place.lines = [], outer.before, outer.indent, []
        try:
            variable, lines = super().shared(name, text), place.lines
        except Unwritten:
            variable, lines = "", []
        finally:
            self.open, self.current, self.indent, place.lines = now
        if not variable:
            variable = super().shared(name, text)
            self.open[-1].inner.add(variable)
            return variable
        place.lines[outer.start : outer.start] = lines
        for of in self.open:
            of.start += len(lines)
        return variable

    def same_frames(self, call: Call, following: Call | None) -> None:
        """The same frames along another axis."""
        x, result = call.args[0], call.result
        for old, new in zip(x.dims, result.dims, strict=True):
            if new.dimension is None and self.root(new) is not self.root(old) and new.expr is None:
                self.frames.same[id(new)] = old
        places = [x.dims[result.dims.index(dim)] for dim in axes_of(result)]
        text, binds = self.moved_bound(x, places)
        self.assign(call, text, binds, following)

    def loop_unstack(self, call: Call, following: Call | None) -> None:
        """The frame of this step."""
        x, of = call.args[0], self.fors[id(call.loop)]
        axis = call.kwargs.get("axis") or of.axis
        place = position(axes_of(x), axis)
        other_axes = [dim for dim in axes_of(x) if dim is not axis]
        text = self.permuted(f"{self.atom(x)}[{':, ' * place}{of.step}]", other_axes, axes_of(call.result))
        self.assign(call, text, ATOM, following)

    def loop_stack(self, call: Call, following: Call | None) -> None:
        """Adds a frame to a result."""
        of = self.fors[id(call.loop)]
        order = [dim for dim in axes_of(call.result) if dim is not of.axis]
        self.line(f"{of.stacks[id(call.result)]}.append({self.moved(call.args[0], order)})")
        self.release(uses_of([call], ()))

    def loop_end(self, call: Call, following: Call | None) -> None:
        """Ends sequences."""
        of, end = self.fors[id(call.loop)], call.args[0]
        if axes_of(end) != (batch_dim,):
            raise unwritten(call.owner, "the end of a loop is not one of each sequence", got=end.describe_dims())
        lines = [f"{of.lengths} = {of.lengths} + ~{of.ended}", f"{of.ended} = {of.ended} | {self.atom(end)}"]
        for line in lines if call.kwargs["include_eos"] else reversed(lines):
            self.line(line)
        self.release(uses_of([call], ()))

    def loop_iter_idx(self, call: Call, following: Call | None) -> None:
        """The position."""
        self.assign(call, f"torch.tensor({self.fors[id(call.loop)].step}{self.device()})", ATOM, following)

    # -- states

    def set_state(self, call: Call) -> None:
        """Sets a state, before the steps or at the end of one."""
        of = self.fors[id(call.loop)]
        updates: list[tuple[str, str]] = []
        for part, x in parts_of(call.args[0], Tensor):
            if (call.name, part) not in of.states:
                name = identifier(call.name.replace("prev:", "prev_") + f"_{part}" * bool(part), "state")
                of.states[call.name, part] = self.place.names.new(name), x
                updates.append((of.states[call.name, part][0], self.value(x)))
                of.grown.update({(call.name, path): dim for path, dim in parts_of(call.args[0], Dim)})
                continue
            name, first = of.states[call.name, part]
            text = self.moved(x, of.axes_of_state(call, x, first))
            text = text if x.dtype == first.dtype else f"{self.atom(x)}.to(torch.{first.dtype})"
            if call.name in of.kept and (mask := self.valid(of, first)):
                text = f"torch.where({mask}, {text}, {name})"
            updates.append((name, text))
        if self.open and self.open[-1] is of:
            of.updates += updates
            return
        self.release(uses_of([call], ()))
        for name, text in updates:
            self.line(f"{name} = {text}")

    def get_state(self, call: Call) -> None:
        """Reads a state."""
        of = self.fors[id(call.loop)]
        for part, x in parts_of(call.result, Tensor):
            name, first = of.states[call.name, part]
            self.know(x, self.permuted(name, of.axes_of_state(call, x, first), axes_of(x)))
            if self.place.values[id(x)][0] != name:
                self.current.pop(name, None)

    def valid(self, of: For, x: Tensor) -> str | None:
        """Which sequences have not ended, with the axes of a state; None if all have the same length."""
        frames = self.with_dim(of.axis)
        mask = None if frames is None else self.mask_of(frames, of.axis)
        if mask is None:
            return None
        if axes_of(x)[:1] != (batch_dim,):
            raise unwritten(self.owner, "a state without an axis of sequences is read after its loop")
        return f"{mask}[:, {of.step}{', None' * (len(x.dims) - 1)}]"


def at_once(updates: list[tuple[str, str]]) -> list[str]:
    """The lines that set variables, each to what it is before all of them."""
    updates = [(name, text) for name, text in updates if name != text]
    clash = any(re.search(rf"\b{name}\b", text) for i, (name, _) in enumerate(updates) for _, text in updates[i + 1 :])
    if not clash:
        return [f"{name} = {text}" for name, text in updates]
    return [f"{', '.join(name for name, _ in updates)} = {', '.join(text for _, text in updates)}"]


def parts_of(tree: Any, kind: type, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors or dims of a state, with what stands after its name."""
    if isinstance(tree, Mapping):
        for key, x in tree.items():
            yield from parts_of(x, kind, f"{path}_{key}" if path else str(key))
    elif isinstance(tree, kind):
        yield path, tree
