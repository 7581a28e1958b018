"""Writes traced calls as lines of plain torch: axes by position, lengths as tensors, kernels of `torch.nn`.

A loop over frames is a `for` over positions, with states as variables and frames of results in lists.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code.body import OPERATORS, BodyWriter, Place, Text, atom, infix, uses_of
from rfnb.netdict.code.names import identifier
from rfnb.netdict.code.trace import Call, Unwritten, unwritten
from rfnb.ops.math import SIGNS

UNARY = {
    **{name: f"torch.{name}({{}})" for name in (
        "exp", "log", "tanh", "sigmoid", "relu", "rsqrt", "sqrt", "abs", "square", "sin", "cos", "log1p", "expm1",
        "sign", "floor", "ceil", "round", "erf", "tan", "atan", "logical_not", "reciprocal",
    )},
    **{name: f"F.{name}({{}})" for name in ("silu", "elu", "selu", "softplus", "softsign")},
    "log_sigmoid": "F.logsigmoid({})", "gelu": "F.gelu({})", "is_finite": "torch.isfinite({})",
    "zeros_like": "torch.zeros_like({})", "ones_like": "torch.ones_like({})", "stop_gradient": "{}.detach()",
    "neg": "-{}",
}  # fmt: skip
"""Ops of one tensor."""
SAME = ("set_sparse_dim", "set_feature_dim", "identity")
"""Ops that change no entry."""
BINARY = {
    **{name: f"{{}} {sign} {{}}" for name, (sign, _) in OPERATORS.items()},
    "equal": "{} == {}", "not_equal": "{} != {}", "logical_and": "{} & {}", "logical_or": "{} | {}",
    "maximum": "torch.maximum({}, {})", "minimum": "torch.minimum({}, {})", "logaddexp": "torch.logaddexp({}, {})",
    "squared_difference": "({} - {}) ** 2", "true_divide": "{} / {}",
}  # fmt: skip
"""Ops of two operands."""
BINDS = {name: binds for name, (_, binds) in OPERATORS.items()} | {"squared_difference": 4, "true_divide": 2}
FILL = {"sum": "0", "mean": "0", "max": 'float("-inf")', "min": 'float("inf")', "logsumexp": 'float("-inf")',
        "any": "False", "all": "True", "argmax": 'float("-inf")', "argmin": 'float("inf")'}  # fmt: skip
"""What stands in padding in a reduction."""
SIZES = {
    "ceildiv": ("-(-{} // {})", 3), "ceildiv_left": ("-(-{} // {})", 3),
    "floordiv": ("{} // {}", 2), "floordiv_left": ("{} // {}", 2), "mod": ("{} % {}", 2),
}  # fmt: skip
"""How sizes and lengths are computed, and how tightly it binds."""
REDUCE = {"max": "amax", "min": "amin"}


Axes = Dim | Sequence[Dim]
Layout = dict[int, tuple[str, tuple[int, ...] | None, tuple[int, ...] | None]]
"""By the id of a parameter, the name in a module of torch, the order of axes, and that of the gates of an LSTM."""


@dataclass
class Frames:
    """What dims of frames mean in a trace.

    Attributes:
        same: by id, the dim whose lengths another dim has. given: the ids of dims that have lengths of their own.
    """

    same: dict[int, Dim] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)


class TorchBody(BodyWriter):
    """Writes the lines of a method of an nn.Module.

    Attributes:
        frames: what dims of frames mean.
        asked: what a method needs of dims, "lengths" or "size", by (need, id): the dim and the argument. The net knows
            all. current: the newest tensor of each variable. of_dims: by id, lengths of dims.
    """

    PASSED = (Tensor,)
    SQUARES = "weight.square().sum()"
    FORMS = SIZES

    def __init__(self, place: Place, uses: Counter[int], called: Mapping[int, str], frames: Frames):
        super().__init__(place, uses, called)
        self.frames = frames
        self.asked: dict[tuple[str, int], tuple[Dim, str]] = {}
        self.current: dict[str, Tensor] = {}
        self.of_dims: dict[int, str] = {}
        self.masks: dict[int, str] = {}  # by id of a dim, the variable with its mask
        self.zero: set[tuple[int, int]] = set()  # by ids, tensors that are 0 in the padding of dims

    def know(self, x: object, text: str) -> None:
        """From here on, the value is written like this."""
        super().know(x, text)
        if isinstance(x, Tensor) and text.isidentifier():
            self.current[text] = x

    def is_known(self, x: object) -> bool:
        """Whether this is a dim: each method asks for the sizes and lengths that it needs."""
        return isinstance(x, Dim)

    # -- dims

    def root(self, dim: Dim) -> Dim:
        """The dim with the same lengths."""
        same = self.frames.same
        while id(dim) in same or (dim.expr is not None and dim.expr.op == "copy"):
            dim = same[id(dim)] if id(dim) in same else dim.expr.dims[0]  # type: ignore[union-attr]
        return dim

    def dim(self, dim: Dim) -> str:
        """The size of a dim."""
        if dim.dimension is not None and (dim.expr is None or self.of is None):
            return self.place.dim(dim)
        if dim.dimension is not None:
            return self.computed(dim, self.dim)
        dim = self.root(dim)
        for name, x in self.current.items():
            for axis, own in enumerate(axes_of(x)):
                if self.root(own) is dim:
                    return f"{name}.shape[{axis}]"
        if self.of is not None:
            return self.ask("size", dim)
        if dim.expr is not None:
            return self.computed(dim, self.dim)
        raise unwritten(self.owner, f"no tensor has the dim {dim.name!r}, whose size it needs")

    def ask(self, need: str, dim: Dim) -> str:
        """The argument of a method with the lengths or the size of a dim."""
        if (need, id(dim)) not in self.asked:
            self.asked[need, id(dim)] = dim, self.place.names.new(need)
        return self.asked[need, id(dim)][1]

    def lengths(self, x: Tensor, dim: Dim) -> str | None:
        """The lengths of a dim of a tensor; None if all sequences are as long."""
        if dim.dimension is not None or dim.is_batch_dim() or not x.size_of(dim).dims:
            return None
        if x.size_of(dim).dims != (batch_dim,):
            raise unwritten(self.owner, f"the lengths of {dim.name!r} depend on more than the sequence")
        dim = self.root(dim)
        if id(dim) in self.of_dims:
            return self.of_dims[id(dim)]
        if self.of is not None:
            return self.ask("lengths", dim)
        if dim.expr is None:
            raise unwritten(self.owner, f"the lengths of {dim.name!r} are not given as a tensor")
        name = self.shared("lengths", lambda: self.computed(dim, lambda part: self.lengths(x, part) or self.dim(part)))
        self.give_lengths(dim, name)
        return name

    def shared(self, name: str, text: Callable[[], str]) -> str:
        """A new variable for something that many lines need."""
        value = text()
        variable = self.place.names.new(name)
        self.line(f"{variable} = {value}")
        return variable

    def give_lengths(self, dim: Dim, text: str) -> None:
        """From here on, the lengths of a dim are written like this."""
        self.of_dims[id(self.root(dim))] = text
        self.frames.given.add(id(self.root(dim)))

    def computed(self, dim: Dim, part: Callable[[Dim], str]) -> str:
        """A size or lengths computed of those of other dims."""
        assert dim.expr is not None
        return part(dim.expr.dims[0]) if dim.expr.op == "copy" else super().computed(dim, part)

    # -- values

    def constant(self, x: Tensor) -> str:
        """A small tensor that no op gave."""
        return f"torch.tensor({self.numbers(x, axes_of(x))}, dtype=torch.{x.dtype}{self.device()})"

    def device(self) -> str:
        """The argument `device` of a call that makes a tensor."""
        name = next(iter(self.current), "next(self.parameters())")
        return f", device={name}.device"

    def permuted(self, text: str, dims: Sequence[Dim], order: Sequence[Dim]) -> str:
        """A tensor with dims, in another order. text: binds tightly."""
        axes = [position(dims, dim) for dim in order]
        if axes == [*range(len(axes))]:
            return text
        swapped = [i for i, axis in enumerate(axes) if i != axis]
        if len(swapped) == 2:
            return f"{text}.transpose({swapped[0]}, {swapped[1]})"
        return f"{text}.permute({', '.join(map(str, axes))})"

    def moved(self, x: Tensor, order: Sequence[Dim], text: str | None = None) -> str:
        """A tensor with its axes in another order. text: how it is written, if not as usual."""
        text = self.value(x) if text is None else text
        moved = self.permuted(atom(text), axes_of(x), order)
        return text if moved == atom(text) else moved

    def may_have(self, *parameters: object) -> bool:
        """Whether a module of torch may have these parameters: those of this layer, which nothing else uses."""
        return self.of is not None and self.of.may_have([x for x in parameters if x is not None])

    def with_dim(self, dim: Dim) -> Tensor | None:
        """A tensor that has a dim."""
        return next((x for x in self.current.values() if position(x.dims, dim, None) is not None), None)

    def aligned(self, x: object, dims: Sequence[Dim], *, full: bool = False, text: str | None = None) -> str:
        """An operand whose axes follow dims of the result; axes that it lacks have the size 1.

        full: also those before its first axis. text: how it is written, if not as usual.
        """
        text = self.value(x) if text is None else text
        if not isinstance(x, Tensor):
            return text
        shared_dims = [dim for dim in dims if position(axes_of(x), dim, None) is not None]
        if len(shared_dims) != len(x.dims):
            raise unwritten(self.owner, "an operand has a dim that the result has not", got=x.describe_dims())
        if not shared_dims and not full:
            return text
        moved = self.permuted(atom(text), axes_of(x), shared_dims)
        first = 0 if full else next(i for i, dim in enumerate(dims) if dim in shared_dims)
        written = indexed(moved, [":" if dim in shared_dims else "None" for dim in dims[first:]])
        return text if written == atom(text) else written

    def filled(self, x: Tensor, dims: Sequence[Dim], value: str) -> str:
        """A tensor with a value in the padding of dims."""
        text = self.value(x)
        for dim in dims:
            mask = None if value == "0" and (id(x), id(self.root(dim))) in self.zero else self.mask(x, dim)
            if mask:
                text = f"{atom(text)}.masked_fill(~{mask}, {value})"
        return text

    def mask_of(self, x: Tensor, dim: Dim) -> str | None:
        """The variable with the mask of a dim of a tensor, [batch, frames]; None if nothing is padding."""
        lengths, root = self.lengths(x, dim), id(self.root(dim))
        if lengths is not None and root not in self.masks:
            self.masks[root] = self.shared("mask", lambda: f"frame_mask({lengths}, {self.dim(dim)})")
        return None if lengths is None else self.masks[root]

    def mask(self, x: Tensor, dim: Dim) -> str | None:
        """Which frames along a dim of a tensor are not padding; None if all are."""
        text = self.mask_of(x, dim)
        if text is None:
            return None
        batch, axis = position(axes_of(x), batch_dim, None), position(axes_of(x), dim)
        if batch is None:
            raise unwritten(self.owner, "a tensor has frames of each sequence, but no axis of sequences")
        return indexed(text, [":" if i in (batch, axis) else "None" for i in range(len(x.dims))])

    # -- calls

    def op(self, call: Call, following: Call | None) -> None:
        """Writes an op."""
        name, call = call.name, normalized(call)
        if name in UNARY:
            form, [x, *_] = UNARY[name], call.args
            if not isinstance(x, Tensor):
                raise unwritten(call.owner, f"{name} of a number")
            text = form.format(self.value(x) if "({})" in form else self.atom(x))
            self.assign(call, Text(text, 3) if name == "neg" else text, following)
        elif name in SAME:
            self.alias(call, call.args[0], following)
        elif name in ("combine", "compare"):
            a, kind, b = call.args
            self.binary(call, SIGNS.get(kind, kind), a, b, following)
        elif name in BINARY and len(call.args) == 2:
            self.binary(call, name, *call.args, following)
        elif name.startswith("reduce_") and name != "reduce_out":
            self.assign(call, self.reduction(call, name.removeprefix("reduce_")), following)
        else:
            write = getattr(self, f"op_{name}", None)
            if write is None:
                raise unwritten(call.owner, f"the op {name!r} has no form in torch")
            named = arguments_of(call)
            written = write(call, **{key: named[key] for key in inspect.signature(write).parameters if key in named})
            if written is not None:
                self.assign(call, written, following)

    def assign(self, call: Call, text: str, following: Call | None) -> None:
        """Gives the result a name: the tensors of it."""
        tensors = [x for x in leaves(call.result) if isinstance(x, Tensor)]
        result = tensors[0] if not isinstance(call.result, list) and len(tensors) == 1 else call.result
        if isinstance(call.result, tuple) and len(tensors) > 1:
            result = tensors
        super().assign(replace(call, result=result), text, following)

    def alias(self, call: Call, x: Any, following: Call | None) -> None:
        """Writes a call whose result is its argument."""
        result = call.result
        order = [x.dims[position(result.dims, dim)] for dim in axes_of(result)]
        text = self.moved(x, order)
        self.zero |= {(id(result), dim) for of, dim in self.zero if of == id(x)}
        if text.isidentifier() and id(result) not in self.called:
            self.know(result, text)
            self.release(uses_of([call], ()))
        else:
            self.assign(call, text, following)

    def binary(self, call: Call, kind: str, a: object, b: object, following: Call | None) -> None:
        """Writes an op of two operands."""
        dims = axes_of(call.result)
        if kind not in BINARY:
            raise unwritten(call.owner, f"the op {kind!r} has no form in torch")
        form, x, y = BINARY[kind], self.aligned(a, dims), self.aligned(b, dims)
        if "(" in form and form.startswith("torch."):
            if not isinstance(a, Tensor) or not isinstance(b, Tensor):
                number, tensor = (x, y) if not isinstance(a, Tensor) else (y, x)
                bound = {"maximum": "min", "minimum": "max"}.get(kind)
                if bound is None:
                    raise unwritten(call.owner, f"{kind} of a number")
                self.assign(call, f"{atom(tensor)}.clamp({bound}={number})", following)
                return
            self.assign(call, form.format(x, y), following)
            return
        self.assign(call, infix(form, BINDS.get(kind, 0), x, y), following)

    def reduction(self, call: Call, mode: str) -> str:
        """A reduction over the valid frames."""
        x, dims = call.args[0], dims_of(call.kwargs["axis"])
        axes = [position(axes_of(x), dim) for dim in dims]
        if call.kwargs.get("distributed") or mode not in FILL:
            raise unwritten(call.owner, f"the reduction {call.name!r} has no form in torch")
        if not axes:
            return self.value(x)
        masked_dims = dims if call.kwargs["use_mask"] else []
        fill = FILL[mode]
        if "int" in x.dtype and "float" in fill:
            fill = f"torch.iinfo(torch.{x.dtype}).{'max' if 'inf' in fill and '-' not in fill else 'min'}"
        text = atom(self.filled(x, masked_dims, fill))
        listed = ", ".join(map(str, axes)) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        masked = [dim for dim in masked_dims if self.lengths(x, dim) is not None]
        listed = "" if len(axes) == len(x.dims) and mode in ("sum", "mean") else listed
        if mode in ("argmax", "argmin", "any", "all") and len(axes) != 1:
            raise unwritten(call.owner, f"{call.name} over several axes")
        if mode == "mean" and masked:
            return Text(f"{text}.sum({listed}) / {self.count(x, dims, axes_of(call.result))}", 2)
        return f"{text}.{REDUCE.get(mode, mode)}({listed})"

    def count(self, x: Tensor, dims: Sequence[Dim], left: Sequence[Dim]) -> str:
        """The number of valid entries along dims, at least 1."""
        factors, lengths = [], None
        for dim in dims:
            own_lengths = self.lengths(x, dim)
            if own_lengths is not None and lengths is None:
                lengths = own_lengths
            elif own_lengths is not None:
                raise unwritten(self.owner, "a mean over two axes of different lengths")
            elif not (dim.is_batch_dim() and any(self.lengths(x, other) for other in dims)):
                factors.append(self.dim(dim))
        assert lengths is not None
        text = f"{lengths}.sum()" if any(dim.is_batch_dim() for dim in dims) else f"{lengths}.clamp(min=1)"
        if batch_dim in left:
            text = indexed(text, [":" if dim.is_batch_dim() else "None" for dim in left[[*left].index(batch_dim) :]])
        return f"({' * '.join([text, *factors])})" if factors else text


def axes_of(x: Tensor) -> tuple[Dim, ...]:
    """The axes of a tensor here: that of the sequences first, that of the features last; parameters as they are."""
    if isinstance(x, Parameter):
        return x.dims
    return tuple(sorted(x.dims, key=lambda dim: (dim is not batch_dim, dim is x.feature_dim)))


def frames_of(x: Tensor) -> Dim | None:
    """The first axis of frames whose number differs by sequence."""
    return next((dim for dim in axes_of(x) if dim.dimension is None and x.size_of(dim).dims == (batch_dim,)), None)


def position(dims: Sequence[Dim], dim: Dim, default: object = Unwritten) -> Any:
    """The axis of a dim."""
    places = [i for i, own in enumerate(dims) if own is dim]
    if not places and dim in dims:
        places = [[*dims].index(dim)]
    if places or default is not Unwritten:
        return places[0] if places else default
    raise unwritten("", f"a tensor has no dim {dim.name!r}")


def last(axis: int, x: Tensor) -> int:
    """An axis as a number, -1 for the last."""
    return -1 if axis == len(x.dims) - 1 else axis


def indexed(text: str, places: Sequence[str]) -> str:
    """A tensor with new axes of size 1: its axes are ":" in the places, the new ones "None"."""
    end = max((i for i, place in enumerate(places, 1) if place == "None"), default=0)
    return f"{text}[{', '.join(places[:end])}]" if end else text


def normalized(call: Call) -> Call:
    """The call with all arguments of its function, and with names only for those that have no position."""
    if call.fn is None:
        return call
    bound = inspect.signature(call.fn).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return replace(call, args=bound.args, kwargs=bound.kwargs)


def arguments_of(call: Call) -> dict[str, Any]:
    """All arguments of a call by name; the owner of a method is `x`."""
    if call.fn is None:
        return call.kwargs
    bound = inspect.signature(call.fn).bind(*call.args, **call.kwargs)
    return {"x" if name == "self" else name: value for name, value in bound.arguments.items()}


def dims_of(axis: Axes) -> list[Dim]:
    """One or several dims as a list."""
    return [axis] if isinstance(axis, Dim) else [*axis]


def one_or_all(numbers: Sequence[object]) -> str:
    """Numbers for all axes: one, if they are the same."""
    return str(numbers[0]) if len({*map(str, numbers)}) == 1 else f"({', '.join(map(str, numbers))})"


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
        grown = {id(self.grown[call.name, path]): dim for path, dim in parts_of((call.args or (call.result,))[0], Dim)}
        return [x.dims[position(x.dims, grown.get(id(dim), dim))] for dim in axes_of(first)]


class TorchLoops(TorchBody):
    """Writes loops over frames."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.fors: dict[int, For] = {}
        self.open: list[For] = []

    def write_loop(self, call: Call, following: Call | None) -> None:
        """Begins a loop."""
        if call.kwargs["axis"] is None:
            raise unwritten(call.owner, "a loop without an axis")
        self.fors[id(call.result)] = For(call.kwargs["axis"], call.kwargs["max_seq_len"])

    def write_method(self, call: Call, following: Call | None) -> None:
        """Writes a call of a method of a loop."""
        getattr(self, f"loop_{call.name}")(call, following)

    write_attribute = write_method

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
        uses = Counter(dict.fromkeys(self.place.values, 1))  # each step needs what is there before
        self.left.update(uses)
        for line in call.body:
            if line.kind == "method" and line.name == "stack":
                name = identifier(line.kwargs.get("name") or line.owner.rpartition("/")[2], "frames")
                plural = name if name[-1] == "s" else identifier(f"{name}s")  # "is" and "as" are not names
                of.stacks[id(line.result)] = self.place.names.new(plural)
                self.line(f"{of.stacks[id(line.result)]} = []")
        if ends:
            of.lengths, of.ended = map(self.place.names.new, ("lengths", "ended"))
            for name, dtype in ((of.lengths, "int64"), (of.ended, "bool")):
                self.line(f"{name} = torch.zeros({self.dim(batch_dim)}, dtype=torch.{dtype}{self.device()})")
        size = str(of.most) if ends else self.dim(of.axis)
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
        self.release(uses)
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
        place_of_line = self.open, self.current, self.indent, place.lines
        self.open, self.current, self.indent, place.lines = [], outer.before, outer.indent, []
        try:
            variable, lines = super().shared(name, text), place.lines
        except Unwritten:
            variable, lines = "", []
        finally:
            self.open, self.current, self.indent, place.lines = place_of_line
        if not variable:
            variable = super().shared(name, text)
            self.open[-1].inner.add(variable)
            return variable
        place.lines[outer.start : outer.start] = lines
        for of in self.open:
            of.start += len(lines)
        return variable

    def write_raw(self, call: Call, following: Call | None) -> None:
        """The same frames along another axis."""
        x, result = call.args[0], call.result
        for old, new in zip(x.dims, result.dims, strict=True):
            if new.dimension is None and self.root(new) is not self.root(old) and new.expr is None:
                self.frames.same[id(new)] = old
        places = [x.dims[result.dims.index(dim)] for dim in axes_of(result)]
        self.assign(call, self.moved(x, places), following)

    def loop_unstack(self, call: Call, following: Call | None) -> None:
        """The frame of this step."""
        x, of = call.args[0], self.fors[id(call.loop)]
        axis = call.kwargs.get("axis") or of.axis
        place = position(axes_of(x), axis)
        other_axes = [dim for dim in axes_of(x) if dim is not axis]
        text = self.permuted(f"{self.atom(x)}[{':, ' * place}{of.step}]", other_axes, axes_of(call.result))
        self.assign(call, text, following)

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
        self.assign(call, f"torch.tensor({self.fors[id(call.loop)].step}{self.device()})", following)

    # -- states

    def write_set(self, call: Call, following: Call | None) -> None:
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
            name, initial = of.states[call.name, part]
            text = self.moved(x, of.axes_of_state(call, x, initial))
            text = text if x.dtype == initial.dtype else f"{self.atom(x)}.to(torch.{initial.dtype})"
            if call.name in of.kept and (mask := self.valid(of, initial)):
                text = f"torch.where({mask}, {text}, {name})"
            updates.append((name, text))
        if self.open and self.open[-1] is of:
            of.updates += updates
            return
        self.release(uses_of([call], ()))
        for name, text in updates:
            self.line(f"{name} = {text}")

    def write_get(self, call: Call, following: Call | None) -> None:
        """Reads a state."""
        of = self.fors[id(call.loop)]
        for part, x in parts_of(call.result, Tensor):
            name, initial = of.states[call.name, part]
            self.know(x, self.permuted(name, of.axes_of_state(call, x, initial), axes_of(x)))
            if self.place.values[id(x)] != name:
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
