"""Writes traces of a net as a file: dims, a class for each kind of layer with parameters, and the net itself."""

from __future__ import annotations

import functools
import io
import linecache
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code.body import BodyWriter, Place, inputs_of, new_dim, prune, uses_of
from rfnb.netdict.code.names import (
    Names,
    assignment,
    attribute,
    class_name,
    folded,
    identifier,
    in_module,
    literal,
    remark,
    wrapped,
)
from rfnb.netdict.code.trace import Call, Trace, every_call
from rfnb.netdict.layer import Layer
from rfnb.netdict.network import Network
from rfnb.nn.init import Glorot

SAME_PADDING = '''def same_padding(frames, size, stride, dilation):
    """The zeros before and after the frames of the longest sequence."""
    span = ((frames + stride - 1) // stride - 1) * stride + (size - 1) * dilation + 1
    total = max(span - frames, 0) if frames else 0
    return total // 2, total - total // 2
'''
"""Stands in files that need it."""


@dataclass(eq=False)
class Part:
    """The calls of one layer with parameters, which become a call of a method of its module."""

    owner: str
    calls: list[Call]


@dataclass(eq=False)
class LayerClass:
    """The class of a layer.

    Attributes:
        layer: whose module it makes. path: of the module. dims: by id, the dims of the constructor and their names.
        init: the lines of the constructor. methods: names by their text, without the name.
        weights: the parameters of its cell by attribute, as ids.
    """

    CALL: ClassVar[str] = "__call__"
    layer: Layer
    path: str
    dims: dict[int, tuple[Dim, str]] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names({"rf", "self"}))
    init: list[str] = field(default_factory=list)
    methods: dict[str, str] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def attributes(self) -> dict[int, str]:
        """The names of the parameters by id."""
        return {id(x): name for name, x in reversed(vars(self.layer).items()) if isinstance(x, Parameter)}

    def dim(self, dim: Dim) -> str:
        """A dim in the constructor."""
        if id(dim) not in self.dims:
            name = ("in_dim", "out_dim", "dim")[min(len(self.dims), 2)]
            self.dims[id(dim)] = dim, self.names.new(name)
        return self.dims[id(dim)][1]

    def parameter(self, x: Parameter) -> str | None:
        """A parameter of the layer, as its methods read it."""
        name = self.attributes.get(id(x))
        return None if name is None else attribute("self", name)

    @staticmethod
    def new_parameter(x: Parameter, dim: Callable[[Dim], str]) -> str:
        """The call that makes a parameter. dim: how dims, or their sizes, are written."""
        options = "" if x.dtype == "float32" else f", dtype={literal(x.dtype)}"
        number = literal(x.initial) if isinstance(x.initial, int | float) and x.initial else None
        initial = "rf.init.Glorot()" if isinstance(x.initial, Glorot) else number
        options += f", initial={initial}" if initial else ""
        return f"rf.Parameter([{', '.join(map(dim, x.dims))}]{options}{'' if x.trainable else ', trainable=False'})"

    def method(self, text: str) -> str:
        """The name of the method with this text."""
        if text not in self.methods:
            further = f"{self.CALL.strip('_')}{len(self.methods) + 1}"
            self.methods[text] = further if self.methods else self.CALL
        return self.methods[text]

    def constructor(self, kept: list[str]) -> list[str]:
        """The lines of the constructor. kept: those for the dims that methods read."""
        return [*kept, *self.init]

    def text(self) -> str:
        """The class without its name."""
        methods = "\n".join(f"    def {name}{text}" for text, name in self.methods.items())
        attributes = [f"self.{name} = {name}" for _, name in self.dims.values() if f"self.{name}" in methods]
        head = "\n".join(f"        {line}" for line in self.constructor(attributes))
        arguments = ", ".join(["self", *(name for _, name in self.dims.values())])
        kind = remark(str(self.layer.layer_class))
        return f'    """A layer of the class {kind}."""\n\n    def __init__({arguments}):\n{head}\n\n{methods}'


class ModuleWriter:
    """Writes the file. net: of which the traces are: of training and evaluation, or of one of them.

    In what they write, modules of rf are the default; `TorchWriter` says what differs for those of torch.
    """

    LAYER_CLASS: type[LayerClass] = LayerClass
    BASE, IS_TRAINING, ABOUT = "rf.Module", "rf.get_run_ctx().train_flag", "The outputs and the losses"
    RESERVED = frozenset({"rf", "self"})
    """Names that no variable has."""

    def __init__(self, net: Network):
        self.net = net
        self.layers: dict[str, Layer] = {layer.name: layer for layer in net.modules() if isinstance(layer, Layer)}
        self.paths = {id(module): path for path, module in net.named_modules()}
        self.owners: dict[int, tuple[str, str]] = {}  # by id of a parameter, the first module and attribute that has it
        for path, module in net.named_modules():
            for name, part in vars(module).items():
                if isinstance(part, Parameter):
                    self.owners.setdefault(id(part), (path, name))
        self.keys = {identifier(key) for key in net.extern_data.data}
        self.top = Names({"rf", "Net", "same_padding", *self.keys})
        self.dims: dict[Any, tuple[Dim, str]] = {}
        self.fresh: Counter[Any] = Counter()
        self.classes: dict[str, LayerClass] = {}
        self.bodies: list[tuple[list[str], list[str]]] = []
        self.trace: Trace = None  # type: ignore[assignment]
        self._text = ""
        self.told: set[str] = set()  # comments of the config that stand in the code

    def body(self, place: Place, uses: Counter[int], called: Mapping[int, str]) -> BodyWriter:
        """What writes the lines of a method."""
        return BodyWriter(place, uses, called)

    # -- a trace

    def add(self, trace: Trace) -> None:
        """Writes the lines of a call."""
        self.trace, self.fresh, self.told = trace, Counter(), set()
        ends = {layer.name for layer in self.net.get_output_layers()}
        outputs = {path: x for path, x in trace.outputs.items() if path in ends}
        finals = [*outputs.values(), *trace.losses.values()]
        calls = self.calls(trace, finals)
        place = Place(self.parameter, self.global_dim, Names(self.top.used - self.keys))
        writer = self.body(place, uses_of(calls, finals), called_in(trace))
        writer.indent = " " * 8
        arguments = self.arguments_of(writer, trace.inputs)
        place.names.used |= self.top.used
        self.write(writer, calls)
        writer.owner = ""
        results = [{path: writer.value(x) for path, x in values.items()} for values in (outputs, trace.losses)]
        results += self.more_results(writer, outputs)
        texts = ("{" + ", ".join(f"{literal(path)}: {text}" for path, text in of.items()) + "}" for of in results)
        place.lines.append(f"        return {', '.join(texts)}")
        self.bodies.append((arguments, folded(place.lines, " " * 8)))

    def more_results(self, writer: Any, outputs: Mapping[str, Tensor]) -> list[dict[str, str]]:
        """What else the net gives."""
        return []

    def calls(self, trace: Trace, finals: list[Tensor]) -> list[Call]:
        """The calls that the code has."""
        return prune(trace.calls, finals)

    def arguments_of(self, writer: Any, inputs: Mapping[str, Tensor]) -> list[str]:
        """The arguments of the net."""
        arguments = []
        for key, x in inputs.items():
            arguments.append(writer.place.names.new(identifier(key)))
            writer.know(x, arguments[-1])
            for dim in (*x.dims, x.sparse_dim, x.feature_dim):
                if isinstance(dim, Dim) and dim is not batch_dim:
                    writer.know(dim, self.global_dim(dim))
        return arguments

    def global_dim(self, dim: Dim) -> str:
        """A dim of the file; one that each call makes anew is one of the file too."""
        if dim.expr is not None or dim is batch_dim:
            writer = BodyWriter(Place(self.parameter, self.global_dim, Names()), Counter(), {})
            return writer.value(dim)
        key: Any = id(dim)
        if dim.serial > self.trace.serial:
            about = dim.dimension, dim.name, dim.kind
            if ("nth", key) not in self.dims:
                self.fresh[about] += 1
                self.dims["nth", key] = dim, (*about, self.fresh[about])  # type: ignore[assignment]
            key = self.dims["nth", key][1]
        if key not in self.dims:
            name = identifier(dim.name, "dim")
            if dim.dimension is not None and self.net.extern_data.axes.made(dim):
                name = f"dim{dim.dimension}"
            elif name in self.top.used:
                name = f"{name}_{'time' if dim.dimension is None else 'dim'}"
            self.dims[key] = dim, self.top.new(name)
        return self.dims[key][1]

    def path(self, path: str) -> str:
        """The path in the code of a module."""
        return path

    def read(self, path: str) -> str:
        """A module as a method of the net reads it."""
        return in_module("self", f"{self.path(path)}.")[0]

    def parameter(self, x: Parameter) -> str | None:
        """A parameter as a method of the net reads it."""
        if id(x) not in self.owners:
            return None
        path, name = self.owners[id(x)]
        return attribute(self.read(path), name)

    def write(self, writer: BodyWriter, calls: list[Call]) -> None:
        """Writes lines of the net, where those of a layer with parameters are a call of its module."""
        items = self.parts(calls)
        for item, following in zip(items, [*items[1:], None], strict=False):
            writer.owner = item.owner
            start, remarks = len(writer.place.lines), [] if isinstance(item, Part) else self.comments(item.owner)
            for comment in remarks:
                writer.line(comment)
            if isinstance(item, Part):
                self.write_part(writer, item)
            elif item.kind == "with":
                with writer.inside(item):
                    self.write(writer, item.body)
            else:
                writer.call(item, following if isinstance(following, Call) else None)
            if remarks and len(writer.place.lines) == start + len(remarks):
                del writer.place.lines[start:]  # the line of the layer is still to come
            else:
                self.told |= {*remarks}

    def comments(self, path: str) -> list[str]:
        """The comments of the config at a layer, as far as they do not stand above another one."""
        layer = self.layers.get(path)
        lines = comments_of(layer.spec.described) if layer is not None else []
        return [line for line in lines if line not in self.told]

    def parts(self, calls: list[Call]) -> list[Call | Part]:
        """Calls, where those of one layer that follow each other, and have a parameter, are together."""
        items: list[Call | Part] = []
        run: list[Call] = []
        for call, fits in self.runs(calls):
            if run and (call.owner != run[0].owner or not fits):
                items += self.grouped(run)
                run = []
            if fits and call.owner in self.layers:
                run.append(call)
            else:
                items.append(call)
        return [*items, *(self.grouped(run) if run else ())]

    def runs(self, calls: list[Call]) -> Iterator[tuple[Call, bool]]:
        """The calls, and whether each can be part of the method of a layer."""
        for call in calls:
            yield call, call.kind in ("op", "cell")

    def grouped(self, run: list[Call]) -> Sequence[Call | Part]:
        """The calls of one layer, as a part if there is a parameter of its own."""
        params = {id(x) for x in vars(self.layers[run[0].owner]).values() if isinstance(x, Parameter)}
        of_module = any(
            call.kind == "cell" or any(id(x) in params for x in inputs_of(call)) for call in every_call(run)
        )
        return [Part(run[0].owner, run)] if of_module else run

    # -- a layer

    def class_of(self, part: Part) -> LayerClass:
        """The class of a layer, with the parameters in its constructor, and the cell."""
        if part.owner not in self.classes:
            layer = self.layers[part.owner]
            new = self.classes[part.owner] = LayerClass(layer, self.paths[id(layer)])
            writer = BodyWriter(Place(new.parameter, new.dim, Names()), Counter(), {})
            for name, x in vars(layer).items():
                if isinstance(x, Parameter):
                    new.init.append(assignment("self", name, new.new_parameter(x, writer.value)))
        of = self.classes[part.owner]
        for call in part.calls:
            if call.kind == "cell" and not of.weights:
                of.weights = {name: id(weight) for name, weight in call.weights.items()}
                of.init += self.new_cell(of, call)
        return of

    def write_part(self, writer: BodyWriter, part: Part) -> None:
        """Writes a call of the module of a layer, and the method that it calls."""
        of = self.class_of(part)
        produced: dict[int, object] = {}
        inputs: dict[int, Any] = {}
        for call in every_call(part.calls):
            for x in inputs_of(call):
                is_own = of.parameter(x) is not None if isinstance(x, Parameter) else writer.is_known(x)
                if id(x) not in produced and not is_own:
                    inputs[id(x)] = x
            produced |= {id(x): x for x in leaves(call.result) if isinstance(x, writer.PASSED) and id(x) not in inputs}
        within = uses_of(part.calls, ())
        outputs = {
            id(x): x
            for x in produced.values()
            if writer.uses[id(x)] > within[id(x)] and not (isinstance(x, Dim) and writer.derivable(x))
        }
        place = Place(of.parameter, lambda dim: f"self.{of.dim(dim)}", Names(self.RESERVED))
        body = self.body(place, writer.uses, {})
        body.indent, body.owner, body.left, body.of = " " * 8, part.owner, within + Counter(list(outputs)), of
        arguments = []
        for x in inputs.values():
            arguments.append(place.names.new("axis") if isinstance(x, Dim) else body.new_temporary())
            body.know(x, arguments[-1])
            body.local |= {id(x)} & writer.local
        values = [writer.value(x) for x in inputs.values()]
        body.write(part.calls)
        body.write_return([body.value(x) for x in outputs.values()])
        for name, value in self.asked(writer, body, [*produced.values(), *inputs.values()]):
            arguments.append(name)
            values.append(value)
        method = of.method(f"({', '.join(['self', *arguments])}):\n" + "\n".join(place.lines) + "\n")
        module = self.read(of.path)
        writer.release(within)
        targets = [writer.target(x) for x in outputs.values()]
        called = f"{module if method == of.CALL else attribute(module, method)}({', '.join(values)})"
        writer.line((f"{', '.join(targets)} = " if targets else "") + called)

    def asked(self, writer: Any, body: Any, tensors: Sequence[object]) -> Iterator[tuple[str, str]]:
        """Further arguments of a method, and their values. tensors: that the method has."""
        yield from ()

    def new_cell(self, of: LayerClass, call: Call) -> list[str]:
        """The lines that make a cell, whose weights are the parameters of the layer."""
        writer = BodyWriter(Place(of.parameter, of.dim, Names()), Counter(), {})
        cell = of.layer.cell  # type: ignore[attr-defined]
        options = "".join(f", {name}={writer.value(x)}" for name, x in cell.settings.items())
        text = f"rf.{type(cell.cell).__name__}({writer.value(cell.in_dim)}, {writer.value(cell.out_dim)}{options})"
        lines = [f"self.cell = {text}"]
        for name, weight in call.weights.items():
            owner, last = in_module("self.cell", name)
            read = of.parameter(weight) if isinstance(weight, Parameter) else None
            lines.append(assignment(owner, last, read or "None"))
        return lines

    # -- the file

    def text(self) -> str:
        """The file."""
        self._text = self._text or self._file()
        return self._text

    def _file(self) -> str:
        texts: dict[str, str] = {}
        for of in self.classes.values():
            text = of.text()
            if text not in texts:
                texts[text] = self.top.new(class_name(str(of.layer.layer_class)))
        constructor = self.constructor(texts)
        classes = [f"class {name}({self.BASE}):\n{text}" for text, name in texts.items()]
        methods = [*self.methods()]
        if constructor:
            lines = "\n".join(f"        {line}" for line in constructor)
            methods.insert(0, f"    def __init__(self):\n{lines}\n")
        about = f"{self.ABOUT} of a batch, by layer.{self.about_arguments()}"
        net = f'class Net({self.BASE}):\n    """{about}"""\n\n' + "\n".join(methods)
        return "\n".join(row for line in self.file_with([*classes, net]).split("\n") for row in wrapped(line))

    def about_arguments(self) -> str:
        """What is said of the arguments of the net."""
        return ""

    def file_with(self, classes: list[str]) -> str:
        """The file with these classes."""
        dims = [f"{name} = {new_dim(dim)}" for dim, name in self.dims.values() if isinstance(name, str)]
        head = f'"""The net {remark(self.net.name)}, written by rf.to_code."""\n\nimport rfnb as rf\n\n'
        helper = [SAME_PADDING] if any("same_padding(" in text for text in classes) else []
        return head + "\n".join(dims) + "\n\n\n" + "\n\n".join([*helper, *classes])

    def methods(self) -> Iterator[str]:
        """The methods of the net."""
        (arguments, body), *further = self.bodies
        listed, passed, call = ", ".join(["self", *arguments]), ", ".join(arguments), self.LAYER_CLASS.CALL
        if not further or further == [self.bodies[0]]:
            yield f"    def {call}({listed}):\n" + "\n".join(body) + "\n"
            return
        names_of_net = Names(vars(self.net))
        names = [names_of_net.new("in_training"), names_of_net.new("in_evaluation")]
        yield (
            f"    def {call}({listed}):\n        if {self.IS_TRAINING}:\n"
            f"            return self.{names[0]}({passed})\n        return self.{names[1]}({passed})\n"
        )
        for name, (_, body) in zip(names, self.bodies, strict=True):
            yield f"    def {name}({listed}):\n" + "\n".join(body) + "\n"

    def constructor(self, texts: dict[str, str]) -> list[str]:
        """The lines that make the modules."""
        lines: list[str] = []
        classes = {of.path: of for of in self.classes.values()}
        dim = self.body(Place(lambda x: None, self.global_dim, Names()), Counter(), {}).value
        for path, module in self.net.named_modules():
            of = classes.get(path)
            if not path or (of is None and not any(True for _ in module.parameters())):
                continue
            comments = [] if of is None else self.comments(of.layer.name)
            self.told |= {*comments}
            lines += comments
            sizes = "" if of is None else ", ".join(self.global_dim(dim) for dim, _ in of.dims.values())
            owner, name = in_module("self", self.path(path))
            lines.append(assignment(owner, name, f"{self.BASE if of is None else texts[of.text()]}({sizes})"))
            for name, x in vars(module).items():
                if not isinstance(x, Parameter):
                    continue
                if self.owners[id(x)] != (path, name):
                    lines.append(assignment(self.read(path), name, self.parameter(x) or ""))
                    for weight in () if of is None else (key for key, at in of.weights.items() if at == id(x)):
                        lines.append(assignment(*in_module(f"{self.read(path)}.cell", weight), self.parameter(x) or ""))
                elif of is None:
                    lines.append(assignment(self.read(path), name, self.LAYER_CLASS.new_parameter(x, dim)))
        return lines


def called_in(trace: Trace) -> dict[int, str]:
    """The names of values, by id: those of layers."""
    named: Iterable[tuple[str, Tensor]] = [*trace.outputs.items(), *trace.named]
    return {id(x): path.rpartition("/")[2] for path, x in reversed(list(named))}


LONGEST = 100


def comments_of(described: Mapping[str, object]) -> list[str]:
    """The comments directly above the line of a layer and at its end; none if its config was not read from a file."""
    file, line = getattr(described, "file", None), getattr(described, "line", None)
    if file is None or line is None:
        return []
    comments = comments_in("".join(linecache.getlines(file)))
    line_above = line - 1
    while comments.get(line_above, ("", False))[1]:
        line_above -= 1
    return [comments[number][0] for number in range(line_above + 1, line + 1) if number in comments]


@functools.lru_cache(8)
def comments_in(text: str) -> dict[int, tuple[str, bool]]:
    """The comments of a file by line, and whether nothing else stands there. Each is one line of printable text."""
    comments = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                words = "".join(c if c.isprintable() else "?" for c in token.string.lstrip("#! "))
                if words:
                    comments[token.start[0]] = f"# {words[:LONGEST]}", not token.line[: token.start[1]].strip()
    except (tokenize.TokenError, SyntaxError):
        return {}
    return comments
