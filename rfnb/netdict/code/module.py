"""Writes traces of a net as a file: dims, a class for each kind of layer with parameters, and the net itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code.body import BodyWriter, Place, has_form, inputs_of, new_dim, prune, uses_of
from rfnb.netdict.code.comments import comments_of
from rfnb.netdict.code.names import Names, assignment, attribute, class_name, identifier, literal, remark, wrapped
from rfnb.netdict.code.trace import Call, Trace
from rfnb.netdict.layer import Layer
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
            wanted = ("in_dim", "out_dim", "dim")[min(len(self.dims), 2)]
            self.dims[id(dim)] = dim, self.names.new(wanted)
        return self.dims[id(dim)][1]

    def parameter(self, x: Parameter) -> str | None:
        """A parameter of the layer, as its methods read it."""
        name = self.attributes.get(id(x))
        return None if name is None else attribute("self", name)

    def method(self, text: str) -> str:
        """The name of the method with this text."""
        if text not in self.methods:
            self.methods[text] = "__call__" if not self.methods else f"call{len(self.methods) + 1}"
        return self.methods[text]

    def text(self) -> str:
        """The class without its name."""
        methods = "\n".join(f"    def {name}{text}" for text, name in self.methods.items())
        kept = [f"self.{name} = {name}" for _, name in self.dims.values() if f"self.{name}" in methods]
        arguments = ", ".join(["self", *(name for _, name in self.dims.values())])
        head = "\n".join(f"        {line}" for line in [*kept, *self.init])
        kind = remark(str(self.layer.layer_class))
        return f'    """A layer of the class {kind}."""\n\n    def __init__({arguments}):\n{head}\n\n{methods}'


class ModuleWriter:
    """Writes the file. net: of which the traces are: of training and evaluation, or of one of them."""

    def __init__(self, net: Any):
        self.net = net
        self.layers: dict[str, Layer] = {layer.name: layer for layer in net.modules() if isinstance(layer, Layer)}
        self.paths = {id(module): path for path, module in net.named_modules()}
        self.owners: dict[int, tuple[str, str]] = {}  # by id of a parameter, the first module and attribute that has it
        for path, module in net.named_modules():
            for name, part in vars(module).items():
                if isinstance(part, Parameter):
                    self.owners.setdefault(id(part), (path, name))
        self.top = Names({"rf", "Net", "same_padding", *(identifier(key) for key in net.extern_data.data)})
        self.dims: dict[Any, tuple[Dim, str]] = {}
        self.fresh: Counter[Any] = Counter()
        self.classes: dict[str, LayerClass] = {}
        self.bodies: list[tuple[list[str], list[str]]] = []
        self.trace: Trace = None  # type: ignore[assignment]
        self._text = ""
        self.told: set[str] = set()  # comments of the config that stand in the code

    # -- a trace

    def add(self, trace: Trace) -> None:
        """Writes the lines of a call."""
        self.trace, self.fresh, self.told = trace, Counter(), set()
        ends = {layer.name for layer in self.net.get_output_layers()}
        outputs = {path: x for path, x in trace.outputs.items() if path in ends}
        finals = [*outputs.values(), *trace.losses.values()]
        calls = prune(trace.calls, finals)
        names = Names(self.top.used - {identifier(key) for key in trace.inputs})
        place = Place(self.parameter, self.global_dim, names)
        writer = BodyWriter(place, uses_of(calls, finals), called_in(trace))
        writer.indent = " " * 8
        arguments = []
        for key, x in trace.inputs.items():
            arguments.append(names.new(identifier(key)))
            writer.know(x, arguments[-1])
            for dim in (*x.dims, x.sparse_dim, x.feature_dim):
                if isinstance(dim, Dim) and dim is not batch_dim:
                    writer.know(dim, self.global_dim(dim))
        names.used |= self.top.used
        self.write(writer, calls)
        writer.owner = ""
        results, losses = (
            "{" + ", ".join(f"{literal(path)}: {writer.value(x)}" for path, x in values.items()) + "}"
            for values in (outputs, trace.losses)
        )
        place.lines.append(f"        return {results}, {losses}")
        self.bodies.append((arguments, place.lines))

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

    def parameter(self, x: Parameter) -> str | None:
        """A parameter as a method of the net reads it."""
        if id(x) not in self.owners:
            return None
        path, name = self.owners[id(x)]
        return attribute(read(path), name)

    def write(self, writer: BodyWriter, calls: list[Call]) -> None:
        """Writes lines of the net, where those of a layer with parameters are a call of its module."""
        items = self.parts(calls)
        for item, following in zip(items, [*items[1:], None], strict=False):
            writer.owner = item.owner
            start, said = len(writer.place.lines), [] if isinstance(item, Part) else self.comments(item.owner)
            for comment in said:
                writer.line(comment)
            if isinstance(item, Part):
                self.write_part(writer, item)
            elif item.kind == "with":
                with writer.inside(item):
                    self.write(writer, item.body)
            else:
                writer.call(item, following if isinstance(following, Call) else None)
            if said and len(writer.place.lines) == start + len(said):
                del writer.place.lines[start:]  # the line of the layer is still to come
            else:
                self.told |= {*said}

    def comments(self, path: str) -> list[str]:
        """The comments of the config at a layer, as far as they do not stand above another one."""
        layer = self.layers.get(path)
        lines = comments_of(layer.spec.described) if layer is not None else []
        return [line for line in lines if line not in self.told]

    def parts(self, calls: list[Call]) -> list[Call | Part]:
        """Calls, where those of one layer that follow each other, and have a parameter, are together."""
        items: list[Call | Part] = []
        run: list[Call] = []
        for call in [*calls, None]:
            if run and (call is None or call.owner != run[0].owner or call.kind not in ("op", "cell")):
                items += self.grouped(run)
                run = []
            if call is not None and call.kind in ("op", "cell") and call.owner in self.layers:
                run.append(call)
            elif call is not None:
                items.append(call)
        return items

    def grouped(self, run: list[Call]) -> Sequence[Call | Part]:
        """The calls of one layer, as a part if there is a parameter of its own."""
        own = {id(x) for x in vars(self.layers[run[0].owner]).values() if isinstance(x, Parameter)}
        of_module = any(call.kind == "cell" or any(id(x) in own for x in inputs_of(call)) for call in run)
        return [Part(run[0].owner, run)] if of_module else run

    # -- a layer

    def class_of(self, path: str) -> LayerClass:
        """The class of a layer, with the parameters in its constructor."""
        if path not in self.classes:
            layer = self.layers[path]
            new = self.classes[path] = LayerClass(layer, self.paths[id(layer)])
            writer = BodyWriter(Place(new.parameter, new.dim, Names()), Counter(), {})
            for name, x in vars(layer).items():
                if isinstance(x, Parameter):
                    new.init.append(assignment("self", name, new_parameter(writer, x)))
        return self.classes[path]

    def write_part(self, writer: BodyWriter, part: Part) -> None:
        """Writes a call of the module of a layer, and the method that it calls."""
        of = self.class_of(part.owner)
        for call in part.calls:
            if call.kind == "cell" and not of.weights:
                of.weights = {name: id(weight) for name, weight in call.weights.items()}
                of.init += self.new_cell(of, call)
        produced: dict[int, Any] = {}
        inputs: dict[int, Any] = {}
        for call in part.calls:
            for x in inputs_of(call):
                own = of.parameter(x) is not None if isinstance(x, Parameter) else fixed(x)
                known = own and id(x) not in writer.local
                if id(x) not in produced and not known:
                    inputs[id(x)] = x
            given = {id(x): x for x in leaves(call.result) if isinstance(x, Tensor | Dim)}
            produced |= {key: x for key, x in given.items() if key not in inputs}
        within = uses_of(part.calls, ())
        outputs = {
            id(x): x
            for x in produced.values()
            if writer.uses[id(x)] > within[id(x)] and not (isinstance(x, Dim) and writer.derivable(x))
        }
        names = Names({"rf", "self"})
        place = Place(of.parameter, lambda dim: f"self.{of.dim(dim)}", names)
        body = BodyWriter(place, writer.uses, {})
        body.indent, body.owner, body.left = " " * 8, part.owner, within + Counter(list(outputs))
        arguments = []
        for x in inputs.values():
            arguments.append(names.new("axis") if isinstance(x, Dim) else body.new_temporary())
            body.know(x, arguments[-1])
            body.local |= {id(x)} & writer.local
        values = [writer.value(x) for x in inputs.values()]
        body.write(part.calls)
        body.write_return([body.value(x) for x in outputs.values()])
        method = of.method(f"({', '.join(['self', *arguments])}):\n" + "\n".join(place.lines) + "\n")
        called = read(of.path) if method == "__call__" else attribute(read(of.path), method)
        writer.release(within)
        targets = [writer.target(x) for x in outputs.values()]
        writer.line((f"{', '.join(targets)} = " if targets else "") + f"{called}({', '.join(values)})")

    def new_cell(self, of: LayerClass, call: Call) -> list[str]:
        """The lines that make a cell, whose weights are the parameters of the layer."""
        writer = BodyWriter(Place(of.parameter, of.dim, Names()), Counter(), {})
        cell = of.layer.cell  # type: ignore[attr-defined]
        options = "".join(f", {name}={writer.value(x)}" for name, x in cell.settings.items())
        made = f"rf.{type(cell.cell).__name__}({writer.value(cell.in_dim)}, {writer.value(cell.out_dim)}{options})"
        lines = [f"self.cell = {made}"]
        for name, weight in call.weights.items():
            owner, last = in_module("self.cell", name)
            own = of.parameter(weight) if isinstance(weight, Parameter) else None
            lines.append(assignment(owner, last, own or "None"))
        return lines

    # -- the file

    def text(self) -> str:
        """The file."""
        self._text = self._text or self._file()
        return self._text

    def _file(self) -> str:
        names = self.top
        texts: dict[str, str] = {}
        for of in self.classes.values():
            text = of.text()
            if text not in texts:
                texts[text] = names.new(class_name(str(of.layer.layer_class)))
        constructor = self.constructor(texts)
        dims = [f"{name} = {new_dim(dim)}" for dim, name in self.dims.values() if isinstance(name, str)]
        head = f'"""The net {remark(self.net.name)}, written by rf.to_code."""\n\nimport rfnb as rf\n\n'
        classes = [f"class {name}(rf.Module):\n{text}" for text, name in texts.items()]
        methods = [*self.methods()]
        if constructor:
            lines = "\n".join(f"        {line}" for line in constructor)
            methods.insert(0, f"    def __init__(self):\n{lines}\n")
        about = "The outputs and the losses of a batch, by layer."
        net = f'class Net(rf.Module):\n    """{about}"""\n\n' + "\n".join(methods)
        helper = [SAME_PADDING] if any("same_padding(" in text for text in (*classes, net)) else []
        text = head + "\n".join(dims) + "\n\n\n" + "\n\n".join([*helper, *classes, net])
        return "\n".join(row for line in text.split("\n") for row in wrapped(line))

    def methods(self) -> Iterator[str]:
        """The methods of the net."""
        (arguments, body), *others = self.bodies
        listed, given = ", ".join(["self", *arguments]), ", ".join(arguments)
        if not others or others == [self.bodies[0]]:
            yield f"    def __call__({listed}):\n" + "\n".join(body) + "\n"
            return
        used = Names(vars(self.net))
        names = [used.new("in_training"), used.new("in_evaluation")]
        yield (
            f"    def __call__({listed}):\n        if rf.get_run_ctx().train_flag:\n"
            f"            return self.{names[0]}({given})\n        return self.{names[1]}({given})\n"
        )
        for name, (_, body) in zip(names, self.bodies, strict=True):
            yield f"    def {name}({listed}):\n" + "\n".join(body) + "\n"

    def constructor(self, texts: dict[str, str]) -> list[str]:
        """The lines that make the modules."""
        lines: list[str] = []
        made = {of.path: of for of in self.classes.values()}
        writer = BodyWriter(Place(lambda x: None, self.global_dim, Names()), Counter(), {})
        for path, module in self.net.named_modules():
            of = made.get(path)
            if not path or (of is None and not any(True for _ in module.parameters())):
                continue
            owner, _, name = path.rpartition(".")
            given = "" if of is None else ", ".join(self.global_dim(dim) for dim, _ in of.dims.values())
            kind = "rf.Module" if of is None else texts[of.text()]
            said = [] if of is None else self.comments(of.layer.name)
            self.told |= {*said}
            lines += said
            lines.append(assignment(read(owner), name, f"{kind}({given})"))
            for name, x in vars(module).items():
                if not isinstance(x, Parameter):
                    continue
                if self.owners[id(x)] != (path, name):
                    lines.append(assignment(read(path), name, self.parameter(x) or ""))
                    for weight in () if of is None else (key for key, at in of.weights.items() if at == id(x)):
                        lines.append(assignment(*in_module(f"{read(path)}.cell", weight), self.parameter(x) or ""))
                elif of is None:
                    lines.append(assignment(read(path), name, new_parameter(writer, x)))
        return lines


def read(path: str) -> str:
    """A module as a method of the net reads it."""
    return in_module("self", f"{path}.")[0]


def in_module(owner: str, path: str) -> tuple[str, str]:
    """The module that has an attribute, "layers.0.weight" of `self` for example, and the last name."""
    *parts, last = path.split(".")
    for part in parts:
        owner = attribute(owner, part) if part else owner
    return owner, last


def fixed(x: Any) -> bool:
    """Whether a dim is known everywhere: it has a size, is computed of others, or is that of the batch."""
    return isinstance(x, Dim) and (
        x.dimension is not None or (x.expr is not None and has_form(x)) or x.is_batch_dim() or x.name == "single_step"
    )


def new_parameter(writer: BodyWriter, x: Parameter) -> str:
    """The call that makes a parameter."""
    more = "" if x.dtype == "float32" else f", dtype={literal(x.dtype)}"
    number = literal(x.initial) if isinstance(x.initial, int | float) and x.initial else None
    initial = "rf.init.Glorot()" if isinstance(x.initial, Glorot) else number
    more += f", initial={initial}" if initial else ""
    return f"rf.Parameter({writer.value(list(x.dims))}{more}{'' if x.trainable else ', trainable=False'})"


def called_in(trace: Trace) -> dict[int, str]:
    """The names of values, by id: those of layers."""
    named: Iterable[tuple[str, Tensor]] = [*trace.outputs.items(), *trace.named]
    return {id(x): path.rpartition("/")[2] for path, x in reversed(list(named))}
