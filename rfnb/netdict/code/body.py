"""Writes traced calls as lines of Python: names for values, expressions for dims, one call inside of another."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim, batch_dim, single_step_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.op import OPS
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.netdict.code.names import Names, assignment, attribute, identifier, in_module, literal
from rfnb.netdict.code.trace import Call, unwritten

OPERATORS = {
    "add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "truediv": ("/", 2), "floordiv": ("//", 2), "mod": ("%", 2),
    "pow": ("**", 4), "greater": (">", 0), "greater_equal": (">=", 0), "less": ("<", 0), "less_equal": ("<=", 0),
}  # fmt: skip
"""Ops that are written as operators, with how tightly these bind."""
METHODS = ("copy_masked", "copy_transpose", "get_mask", "get_size_tensor")
"""Ops that are written as methods of their first argument."""
ATOM = 9


class Text(str):
    """An expression of Python, and how tightly it binds: `ATOM` if something can follow it directly."""

    binds: int

    def __new__(cls, text: str, binds: int = ATOM) -> Text:
        """The expression."""
        new = super().__new__(cls, text)
        new.binds = binds
        return new


DIMS = {
    "ceildiv": ("{}.ceildiv_right({})", ATOM), "ceildiv_left": ("{}.ceildiv_left({})", ATOM),
    "floordiv_left": ("{}.div_left({})", ATOM), "copy": ("{}.copy(match_priority={})", ATOM),
    "floordiv": ("{} // {}", 2), "mod": ("{} % {}", 2),
}  # fmt: skip
"""How dims are computed of others, and how tightly it binds."""
TEMPORARY = ("x", "y", "z", "u", "v", "w", "a", "b", "c")
"""Names for values without one."""
LARGEST_CONSTANT = 256


@dataclass(eq=False)
class Place:
    """Where lines stand: what names mean there.

    Attributes:
        parameter: how a parameter is read here; None if it comes from outside. names: those in use.
        dim: how a dim without lengths is read. values: by id, what is written for a tensor or dim.
        lines: what is written.
    """

    parameter: Callable[[Parameter], str | None]
    dim: Callable[[Dim], str]
    names: Names
    values: dict[int, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    keep: list[object] = field(default_factory=list)


class BodyWriter:
    """Writes the lines of a function.

    Attributes:
        place: what names mean. uses: how often each value is used anywhere, by id; left: how often it is still.
        called: names of values by id. temporary: the names of other variables; free: those that nothing needs.
        of: the class of the layer whose method it is; None for the net. holders: by variable, the ids of its values.
    """

    PASSED: tuple[type, ...] = (Tensor, Dim)
    """What functions get and give."""
    SQUARES = "rf.reduce_sum(rf.square(weight), axis=weight.dims)"
    FORMS: Mapping[str, tuple[str, int]] = DIMS

    def __init__(self, place: Place, uses: Counter[int], called: Mapping[int, str]):
        self.place, self.uses, self.called = place, uses, called
        self.left = Counter(uses)
        self.indent = ""
        self.owner = ""
        self.of: Any = None
        self.holders: dict[str, set[int]] = {}
        self.loops: dict[int, str] = {}
        self.local: set[int] = set()  # by id, dims of a fixed size that only the calls give
        self.temporary: set[str] = set()
        self.free: list[str] = []

    def line(self, text: str) -> None:
        """Adds a line."""
        self.place.lines.append(f"{self.indent}{text}")

    @contextmanager
    def inside(self, call: Call) -> Iterator[None]:
        """Inside, lines are those of the body of a loop."""
        self.line(f"with {self.loops[id(call.loop)]}:")
        before, self.indent = self.indent, f"{self.indent}    "
        start = len(self.place.lines)
        yield
        if len(self.place.lines) == start:
            self.line("pass")
        self.indent = before

    def write_return(self, values: list[str]) -> None:
        """The last line; a variable that is set just before is not needed."""
        line = self.place.lines[-1] if self.place.lines else ""
        if len(values) == 1 and line.startswith(f"{self.indent}{values[0]} = "):
            self.place.lines[-1] = f"{self.indent}return {line.removeprefix(f'{self.indent}{values[0]} = ')}"
        else:
            self.line(f"return {', '.join(values)}")

    def release(self, used: Mapping[int, int]) -> None:
        """The values were used so often; a variable is free if it has no value that something needs."""
        for key, count in used.items():
            self.left[key] -= count
            name = self.place.values.get(key, "")
            if self.left[key] <= 0 and name in self.holders:
                self.holders[name].discard(key)
                if not self.holders[name] and name in self.temporary and name not in self.free:
                    self.free.append(name)

    def new_temporary(self) -> str:
        """A variable for a value without a name."""
        if self.free:
            return self.free.pop()
        name = next((name for name in TEMPORARY if name not in self.place.names.used), None) or "x"
        name = self.place.names.new(name)
        self.temporary.add(name)
        return name

    # -- values

    def atom(self, x: object) -> str:
        """An argument so that something can follow it directly."""
        return atom(self.value(x))

    def value(self, x: object) -> str:
        """An argument."""
        if isinstance(x, Dim):
            return self.dim(x)
        if isinstance(x, Tensor):
            return self.tensor(x)
        text = literal(x)
        if text is not None:
            return Text(text, 3 if text.startswith("-") else ATOM)
        if isinstance(x, list | tuple) and type(x) in (list, tuple):
            entries = ", ".join(map(self.value, x))
            return f"[{entries}]" if isinstance(x, list) else f"({entries}{',' * (len(x) == 1)})"
        if isinstance(x, State) and all(identifier(str(name)) == name for name in x):
            return f"rf.State({', '.join(f'{name}={self.value(part)}' for name, part in x.items())})"
        if isinstance(x, dict):
            entries = "{" + ", ".join(f"{self.value(key)}: {self.value(part)}" for key, part in x.items()) + "}"
            return f"rf.State({entries})" if isinstance(x, State) else entries
        raise unwritten(self.owner, "an argument is not a plain value", got=type(x).__name__)

    def tensor(self, x: Tensor) -> str:
        """A tensor: a variable, a parameter, or a small constant."""
        if id(x) in self.place.values:
            return self.place.values[id(x)]
        if isinstance(x, Parameter) and (text := self.place.parameter(x)) is not None:
            return text
        return self.constant(x)

    def numbers(self, x: Tensor, dims: Sequence[Dim]) -> str:
        """The numbers of a small tensor that no op gave. dims: the order of its axes."""
        raw = x._raw if type(x) is Tensor else None
        fixed = all(dim.dimension is not None for dim in dims)
        if raw is None or not fixed or getattr(raw, "requires_grad", True) or raw.numel() > LARGEST_CONSTANT:
            raise unwritten(self.owner, "a value is computed by something else than ops", got=x.describe_dims())
        return ascii(x.copy_transpose(dims).raw_tensor.tolist())

    def constant(self, x: Tensor) -> str:
        """A small tensor that no op gave."""
        numbers = self.numbers(x, x.dims)
        options = f", sparse_dim={self.value(x.sparse_dim)}" if x.sparse_dim is not None else ""
        options += f", feature_dim={self.value(x.feature_dim)}" if x.feature_dim is not None else ""
        return f"rf.convert_to_tensor({numbers}, dims={self.value(list(x.dims))}, dtype={x.dtype!a}{options})"

    def dim(self, dim: Dim) -> str:
        """A dim: one of the data, of a size, computed of others, or a new one."""
        if id(dim) in self.place.values:
            return self.place.values[id(dim)]
        if dim is batch_dim or dim is single_step_dim:
            return "rf.batch_dim" if dim is batch_dim else "rf.single_step_dim"
        if dim.expr is not None:
            return self.computed(dim, self.dim)
        if dim.dimension is not None:
            return self.place.dim(dim)
        name = self.place.names.new(identifier(dim.name, "axis"))
        self.line(f"{name} = {new_dim(dim)}")
        self.know(dim, name)
        return self.place.values[id(dim)]

    def computed(self, dim: Dim, part: Callable[[Dim], str]) -> str:
        """A dim that is computed of others. part: how one of these is written."""
        assert dim.expr is not None
        op, numbers = dim.expr.op, dim.expr.numbers
        parts = [part(x) for x in dim.expr.dims]
        if op == "sum":
            return sum_of(parts, numbers)
        if op == "product":
            return Text(" * ".join(text if binds(text) >= 2 else f"({text})" for text in parts), 2)
        operands = [*map(atom, parts), *map(str, numbers)]
        if op not in self.FORMS or len(operands) != 2:
            raise unwritten(self.owner, f"the dim {dim.name!r} is computed in a way that has no form", got=op)
        form, tightness = self.FORMS[op]
        return Text(form.format(*operands), tightness)

    def know(self, x: object, text: str) -> None:
        """From here on, the value is written like this."""
        self.place.values[id(x)] = text
        self.place.keep.append(x)
        if text.isidentifier():
            self.holders.setdefault(text, set()).add(id(x))

    def is_known(self, x: object) -> bool:
        """Whether this is a dim that all functions know: it has a size, is computed of others, or is the batch."""
        return isinstance(x, Dim) and id(x) not in self.local and (
            x.dimension is not None or (x.expr is not None and has_form(x))
            or x.is_batch_dim() or x.name == "single_step"
        )  # fmt: skip

    # -- calls

    def write(self, calls: list[Call]) -> None:
        """Writes calls, one after the other."""
        for i, call in enumerate(calls):
            self.owner = call.owner
            self.call(call, calls[i + 1] if i + 1 < len(calls) else None)

    def call(self, call: Call, following: Call | None) -> None:
        """Writes a call, as the method for its kind says."""
        getattr(self, f"write_{call.kind}")(call, following)

    def write_loop(self, call: Call, following: Call | None) -> None:
        """Writes the line that makes a loop."""
        name = self.loops[id(call.result)] = self.place.names.new("loop")
        self.assigned(call, f"rf.Loop({self.arguments(call)})", name)

    def write_with(self, call: Call, following: Call | None) -> None:
        """Writes the body of a loop."""
        with self.inside(call):
            self.write(call.body)

    def write_set(self, call: Call, following: Call | None) -> None:
        """Writes a line that sets a state."""
        self.assigned(call, self.value(call.args[0]), self.state(call))

    def write_get(self, call: Call, following: Call | None) -> None:
        """Writes a line that reads a state."""
        self.assign(call, self.state(call), None)

    def write_cell(self, call: Call, following: Call | None) -> None:
        """Writes a call of a cell, which gets the weights that are computed."""
        for name, weight in call.weights.items():
            if not isinstance(weight, Parameter):
                self.line(assignment(*in_module("self.cell", name), self.value(weight)))
        self.assign(call, f"self.cell({self.arguments(call)})", None)

    def write_l2(self, call: Call, following: Call | None) -> None:
        """Writes the L2 norm of weights."""
        weights, factor = call.args
        name = self.place.names.new("weights")
        self.line(f"{name} = {self.value(weights)}")
        self.assign(call, Text(f"{self.value(factor)} * sum({self.SQUARES} for weight in {name})", 2), None)

    def write_raw(self, call: Call, following: Call | None) -> None:
        """Writes a tensor with other dims for the same numbers."""
        x = call.result
        about = {"dims": list(x.dims), "sparse_dim": x.sparse_dim, "feature_dim": x.feature_dim}
        options = "".join(f", {name}={self.value(value)}" for name, value in about.items() if value is not None)
        self.assign(call, f"rf.convert_to_tensor({self.atom(call.args[0])}.raw_tensor{options})", None)

    def write_method(self, call: Call, following: Call | None) -> None:
        """Writes a call of a method of a loop, or of a choice."""
        text = f"{self.loops[id(call.loop)]}.{call.name}"
        text = text if call.name == "iter_idx" else f"{text}({self.arguments(call)})"
        if call.name != "choice":
            self.assign(call, text, None)
            return
        name = self.loops[id(call.result)] = self.place.names.new("choice")
        self.assigned(call, text, name)
        labels = call.result.labels
        path = f"{name}.labels" + ("[0]" if isinstance(labels, list | tuple) else "")
        labels = labels[0] if isinstance(labels, list | tuple) else labels
        for i, dim in enumerate(labels.dims):
            if is_beam(dim):  # of the hypotheses after the choice
                self.know(dim, f"{path}.dims[{i}]")
                self.local.add(id(dim))

    def write_attribute(self, call: Call, following: Call | None) -> None:
        """Writes a line that reads an attribute of a choice, or of a search."""
        self.assign(call, f"{self.loops[id(call.loop)]}.{call.name}", None)

    def write_op(self, call: Call, following: Call | None) -> None:
        """Writes an op, unless it gave back what it got."""
        if not gives_back(call):
            self.op(call, following)

    def assigned(self, call: Call, text: str, target: str) -> None:
        """Writes a line that sets something."""
        self.line(f"{target} = {text}")
        self.release(uses_of([call], ()))

    def state(self, call: Call) -> str:
        """A state of a loop."""
        name = identifier(call.name.removeprefix("prev:"), "state")
        return f"{self.loops[id(call.loop)]}.state.{'prev_' if call.name.startswith('prev:') else ''}{name.strip('_')}"

    def op(self, call: Call, following: Call | None) -> None:
        """Writes an op."""
        if call.name == "parameter_assign":
            parameter, value = call.args
            how = {"add": "assign_add"}.get(call.kwargs["how"], "assign")
            self.line(f"{self.value(parameter)}.{how}({self.value(value)})")
            self.release(uses_of([call], ()))
            return
        if call.name == "full" and call.kwargs.get("fill_value") == 0 and call.kwargs.get("dtype") == "float32":
            options = {name: x for name, x in call.kwargs.items() if name not in ("dims", "fill_value", "dtype")}
            zeros = replace(call, args=(list(call.kwargs["dims"]),), kwargs=options)
            self.assign(call, f"rf.zeros({self.arguments(zeros)})", following)
            return
        if call.name in OPERATORS and len(call.args) == 2 and not call.kwargs:
            sign, tightness = OPERATORS[call.name]
            self.assign(call, infix(f"{{}} {sign} {{}}", tightness, *map(self.value, call.args)), following)
        elif call.name == "neg":
            self.assign(call, Text(f"-{self.atom(call.args[0])}", 3), following)
        elif call.name in METHODS:
            self.assign(call, f"{self.atom(call.args[0])}.{call.name}({self.arguments(call, 1)})", following)
        elif hasattr(sys.modules["rfnb"], call.name):
            self.assign(call, f"rf.{call.name}({self.arguments(call)})", following)
        else:
            raise unwritten(call.owner, f"the op {call.name!r} is not a public function")

    def arguments(self, call: Call, start: int = 0) -> str:
        """The arguments of a call, without those that are the defaults."""
        defaults = {} if call.fn is None else defaults_of(call.fn)
        texts = [self.value(x) for x in call.args[start:]]
        for name, x in call.kwargs.items():
            if name in defaults and (
                x is defaults[name] or (literal(x) is not None and literal(x) == literal(defaults[name]))
            ):
                continue
            texts.append(f"{name}={self.padding(call) if name == 'padding' and call.windows else self.value(x)}")
        return ", ".join(texts)

    def padding(self, call: Call) -> str:
        """The padding "same", where it depends on the size of an axis."""
        parts = []
        spatial, margins = call.kwargs["in_spatial_dims"], call.kwargs["padding"]
        for dim, window, zeros in zip(spatial, call.windows, margins, strict=True):
            fixed = dim.dimension is not None or window[1] == 1
            sizes = f"{self.atom(dim)}.get_dim_value(), {', '.join(map(str, window))}"
            parts.append(self.value(zeros) if fixed else f"same_padding({sizes})")
        return f"[{', '.join(parts)}]"

    # -- results

    def assign(self, call: Call, text: str, following: Call | None) -> None:
        """Gives the result a name, or keeps it for the only call that uses it, which follows."""
        result = call.result
        self.release(uses_of([call], ()))
        if isinstance(result, Tensor) and self.fits_inside(call, text, following):
            self.know(result, text)
            return
        parts = result if isinstance(result, list | tuple) else [result]
        targets = [self.target(part) for part in parts]
        if all(target == "_" for target in targets):
            self.line(text)
            return
        comma = "," if isinstance(result, list | tuple) and len(targets) == 1 else ""
        self.line(f"{', '.join(targets)}{comma} = {text}")

    def target(self, part: object) -> str:
        """The variable for a part of a result; "_" if nobody uses it."""
        if isinstance(part, dict) and self.used(part):
            name = self.place.names.new("state")
            self.know_parts(part, name)
            return name
        if not isinstance(part, Tensor | Dim) or self.uses[id(part)] <= 0:
            return "_"
        if isinstance(part, Dim) and self.derivable(part):
            return "_"
        if isinstance(part, Dim):
            name = self.place.names.new(identifier(part.name, "axis"))
        elif id(part) in self.called:
            name = self.place.names.new(identifier(self.called[id(part)]))
        else:
            name = self.new_temporary()
        self.know(part, name)
        return name

    def know_parts(self, tree: Mapping[str, object], name: str) -> None:
        """The entries of a dict or a state, also of those in it, are written with its name."""
        for key, part in tree.items():
            text = attribute(name, key) if isinstance(tree, State) else f"{name}[{literal(key)}]"
            if isinstance(tree, State) and not attribute("", key).startswith("."):
                text = f"{name}[{literal(key)}]"
            if isinstance(part, Mapping):
                self.know_parts(part, text)
            elif isinstance(part, Tensor | Dim) and id(part) not in self.place.values:
                self.know(part, text)

    def used(self, tree: object) -> bool:
        """Whether somebody uses a leaf."""
        return any(self.uses.get(id(leaf)) for leaf in leaves(tree))

    def derivable(self, dim: Dim) -> bool:
        """Whether a dim can be written without a variable."""
        if id(dim) in self.place.values or dim is batch_dim or dim is single_step_dim:
            return True
        if dim.expr is not None:
            return has_form(dim) and all(map(self.derivable, dim.expr.dims))
        return dim.dimension is not None

    def fits_inside(self, call: Call, text: str, following: Call | None) -> bool:
        """Whether the result can stand inside of the next call, the only one that uses it."""
        x = call.result
        if following is None or following.owner != call.owner or self.uses.get(id(x)) != 1 or id(x) in self.called:
            return False
        if following.kind not in ("op", "set") or len(text) > 60 or text.count("(") > 2 or call.kind != "op":
            return False
        return sum(leaf is x for leaf in leaves((following.args, following.kwargs))) == 1


def defaults_of(fn: Callable[..., object]) -> dict[str, object]:
    """The defaults of the arguments of a function."""
    parameters = inspect.signature(fn).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def binds(text: str) -> int:
    """How tightly an expression binds."""
    return text.binds if isinstance(text, Text) else ATOM


def atom(text: str) -> str:
    """The expression so that something can follow it directly."""
    return text if binds(text) == ATOM else f"({text})"


def infix(form: str, tightness: int, a: str, b: str) -> Text:
    """An operator between two expressions."""
    left = a if binds(a) > tightness or (binds(a) == tightness and tightness in (1, 2)) else f"({a})"
    return Text(form.format(left, b if binds(b) > tightness else f"({b})"), tightness)


def gives_back(call: Call) -> bool:
    """Whether a call gave back what it got."""
    return isinstance(call.result, Tensor) and any(call.result is x for x in (*call.args, *call.kwargs.values()))


def sum_of(parts: Sequence[str], numbers: Sequence[int]) -> Text:
    """A sum of parts times numbers, plus the last number."""
    text = ""
    for part, number in zip(parts, numbers, strict=False):
        part = part if binds(part) > 2 or (abs(number) == 1 and binds(part) > 1) else f"({part})"
        term = part if abs(number) == 1 else f"{abs(number)} * {part}"
        text += (f" {'-' if number < 0 else '+'} " if text else "-" * (number < 0)) + term
    if end := numbers[-1]:
        text += f" {'-' if end < 0 else '+'} {abs(end)}"
    return Text(text, 1 if " + " in text or " - " in text else 2)


def new_dim(dim: Dim) -> str:
    """The line that makes a dim."""
    options = "" if dim.kind is None else f", kind={literal(dim.kind)}"
    return f"rf.Dim({dim.dimension}, name={literal(dim.name)}{options})"


def uses_of(calls: Iterable[Call], finals: Iterable[object]) -> Counter[int]:
    """How often each tensor and dim is used, by id."""
    uses: Counter[int] = Counter(id(x) for x in finals)
    for call in calls:
        uses.update(id(x) for x in inputs_of(call))
        uses.update(uses_of(call.body, ()))
    return uses


def prune(calls: Iterable[Call], finals: Iterable[object]) -> list[Call]:
    """The calls that something needs, for their results, for what else they do, or for the numbers that they draw."""
    needed = {id(x) for x in finals}

    def pruned(lines: Iterable[Call]) -> list[Call]:
        lines_needed = []
        for call in reversed(list(lines)):
            row = OPS.get(call.name) if call.kind == "op" else None
            acts = call.kind in ("loop", "with", "set", "cell") or call.name in ("end", "choice")
            acts = acts or (row is not None and (row.effect or row.random))
            if acts or any(id(x) in needed for x in leaves(call.result)):
                body = pruned(call.body)
                lines_needed.append(replace(call, body=body))
                needed.update(id(x) for x in inputs_of(call))
        return lines_needed[::-1]

    return pruned(calls)


def inputs_of(call: Call) -> Iterator[Any]:
    """The tensors and dims that a call takes, and those that its dims are computed of."""
    about = [*call.result.dims, call.result.sparse_dim, call.result.feature_dim] if call.kind == "raw" else []
    for leaf in leaves((call.args, call.kwargs, list(call.weights.values()), about)):
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, Dim):
            yield from dims_in(leaf)


def has_form(dim: Dim) -> bool:
    """Whether a dim that is computed of others can be written so; that of `min` is taken from a result."""
    return dim.expr is None or (dim.expr.op not in ("min", "max") and all(map(has_form, dim.expr.dims)))


def dims_in(dim: Dim) -> Iterator[Dim]:
    """A dim, and those that it is computed of."""
    yield dim
    for part in dim.expr.dims if dim.expr is not None else ():
        yield from dims_in(part)
