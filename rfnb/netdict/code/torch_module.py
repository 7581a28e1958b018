"""Writes traces of a net as a file of plain torch: nn.Modules, and what loads a checkpoint into them."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code import torch_helpers
from rfnb.netdict.code.body import Place, inputs_of, prune, uses_of
from rfnb.netdict.code.module import LayerClass, ModuleWriter, Part, called_in, in_module, read
from rfnb.netdict.code.names import Names, assignment, attribute, class_name, identifier, literal, remark, wrapped
from rfnb.netdict.code.torch_body import Frames, Layout, axes_of
from rfnb.netdict.code.torch_ops import TorchOps
from rfnb.netdict.code.trace import Call, Trace, unwritten
from rfnb.nn.init import Glorot

HEAD = """from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

"""
FUNCTIONS = {
    node.name: str(ast.get_source_segment(inspect.getsource(torch_helpers), node))
    for node in ast.parse(inspect.getsource(torch_helpers)).body
    if isinstance(node, ast.FunctionDef)
}
"""Functions that stand in files that call them."""

RESERVED = {"torch", "F", "nn", "Any", "Tensor", "self", *FUNCTIONS}


@dataclass(eq=False)
class TorchClass(LayerClass):
    """The class of a layer.

    Attributes:
        alone: the ids of parameters that one call uses, which modules of torch may have.
        modules: the modules of torch by attribute: the call that makes each, and which parameters it has.
        more: further lines of the constructor.
    """

    alone: frozenset[int] = frozenset()
    modules: dict[str, tuple[str, Layout]] = field(default_factory=dict)
    more: dict[str, None] = field(default_factory=dict)

    def may_have(self, parameters: Iterable[Any]) -> bool:
        """Whether a module of torch may have these parameters: those of this layer, which nothing else uses."""
        return all(id(x) in self.alone and id(x) in self.attributes for x in parameters)

    def module(self, name: str, made: str, layout: Layout) -> str:
        """The module of torch with these parameters, as a method reads it."""
        for attr, (_, other) in self.modules.items():
            if list(other) == list(layout):
                return attribute("self", attr)
        taken = {*vars(self.layer), *self.modules}
        attr = next(n for n in (name, *(f"{name}{i}" for i in range(2, 99))) if n not in taken)
        self.modules[attr] = made, layout
        return attribute("self", attr)

    def no_second_bias(self, module: str, forget_bias: float) -> None:
        """An LSTM has one bias, as in the checkpoint; the second one is the constant of its forget gate."""
        self.more[f"{module}.bias_hh_l0.requires_grad_(False).zero_()"] = None
        if forget_bias:
            size = f"{module}.hidden_size"
            self.more[f"{module}.bias_hh_l0[{size} : 2 * {size}] = {literal(forget_bias)}"] = None

    def size(self, dim: Dim) -> str:
        """The size of a dim in the constructor."""
        body = TorchOps(Place(self.parameter, self.dim, Names()), Counter(), {}, Frames())
        body.of = self
        return body.size(dim)

    def module_of(self, x: Any) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None] | None:
        """Where a module of torch has a parameter: its path in the layer, the order of axes and of gates."""
        for attr, (_, layout) in self.modules.items():
            if id(x) in layout:
                name, axes, gates = layout[id(x)]
                return f"{attr}.{name}", axes, gates if gates is None or gates != tuple(sorted(gates)) else None
        return None

    def text(self) -> str:
        """The class without its name."""
        if not self.init:
            for name, x in vars(self.layer).items():
                if isinstance(x, Parameter) and self.module_of(x) is None:
                    self.init.append(assignment("self", name, torch_parameter([*map(self.size, x.dims)], x)))
            self.init += [assignment("self", attr, made) for attr, (made, _) in self.modules.items()]
        methods = "\n".join(f"    def {name}{text}" for text, name in self.methods.items())
        kept = [f"self.{name} = {name}" for _, name in self.dims.values() if f"self.{name}" in methods]
        arguments = ", ".join(["self", *(name for _, name in self.dims.values())])
        lines = ["super().__init__()", *kept, *self.init]
        lines += ["with torch.no_grad():", *(f"    {line}" for line in self.more)] if self.more else []
        head = "\n".join(f"        {line}" for line in lines)
        kind = remark(str(self.layer.layer_class))
        return f'    """A layer of the class {kind}."""\n\n    def __init__({arguments}):\n{head}\n\n{methods}'

    def method(self, text: str) -> str:
        """The name of the method with this text."""
        if text not in self.methods:
            self.methods[text] = "forward" if not self.methods else f"forward{len(self.methods) + 1}"
        return self.methods[text]


class TorchWriter(ModuleWriter):
    """Writes the file. net: of which the traces are: of training and evaluation, or of one of them."""

    def __init__(self, net: Any):
        super().__init__(net)
        self.top = Names({*RESERVED, "Net", "LAYOUT"})
        self.made: dict[str, TorchClass] = {}
        self.frames = Frames()
        self.alone: frozenset[int] = frozenset()
        self.arguments: list[tuple[str, Dim | None]] = []

    def body(self, place: Place, uses: Counter[int], called: dict[int, str]) -> TorchOps:
        """What writes lines."""
        return TorchOps(place, uses, called, self.frames)

    # -- a trace

    def add(self, trace: Trace) -> None:
        """Writes the lines of a call."""
        self.trace, self.frames, self.told = trace, Frames(), set()
        ends = {layer.name for layer in self.net.get_output_layers()}
        outputs = {path: x for path, x in trace.outputs.items() if path in ends}
        finals = [*outputs.values(), *trace.losses.values()]
        calls = with_cross_entropy(prune(without_zero_states(trace.calls), finals), finals)
        uses = Counter(id(x) for call in calls if call.kind != "l2" for x in inputs_of(call))
        owned = Counter(id(x) for m in self.net.modules() for x in vars(m).values() if isinstance(x, Parameter))
        alone = frozenset(key for key, count in owned.items() if count == 1 and uses[key] <= 1)
        self.alone = alone if not self.bodies else self.alone & alone
        names = Names(self.top.used)
        place = Place(self.parameter, self.global_dim, names)
        writer = self.body(place, uses_of(calls, finals), called_in(trace))
        writer.indent = " " * 8
        arguments = []
        self.arguments = []
        for key, x in trace.inputs.items():
            name = names.new(identifier(key))
            arguments.append(name)
            self.arguments.append((key, None))
            writer.know(x, name)
            for dim in x.dims:
                ragged = dim.dimension is None and not dim.is_batch_dim() and x.size_of(dim).dims
                if ragged and id(writer.root(dim)) not in writer.of_dims:
                    arguments.append(names.new(f"{name}_lengths"))
                    self.arguments.append((key, dim))
                    writer.give_lengths(dim, arguments[-1])
        self.write(writer, calls)
        writer.owner = ""
        results, losses = (
            "{" + ", ".join(f"{literal(path)}: {writer.value(x)}" for path, x in values.items()) + "}"
            for values in (outputs, trace.losses)
        )
        place.lines.append(f"        return {results}, {losses}")
        self.bodies.append((arguments, place.lines))

    def global_dim(self, dim: Dim) -> str:
        """The size of a dim."""
        if dim.dimension is None:
            raise unwritten("", f"the dim {dim.name!r} has no size")
        return str(dim.dimension)

    def parameter(self, x: Parameter) -> str | None:
        """A parameter as a method of the net reads it."""
        if id(x) not in self.owners:
            return None
        path, name = self.owners[id(x)]
        owner, of = read(torch_path(path)), next((of for of in self.made.values() if of.path == path), None)
        module = None if of is None else of.module_of(x)
        return attribute(owner, name) if module is None else f"{owner}.{module[0]}"

    # -- a layer

    def torch_class(self, path: str) -> TorchClass:
        """The class of a layer."""
        if path not in self.made:
            layer = self.layers[path]
            self.made[path] = TorchClass(layer, self.paths[id(layer)], names=Names(RESERVED))
        self.made[path].alone = self.alone
        return self.made[path]

    def write_part(self, writer: Any, part: Part) -> None:
        """Writes a call of the module of a layer, and the method that it calls."""
        of = self.torch_class(part.owner)
        produced: dict[int, Any] = {}
        inputs: dict[int, Any] = {}
        for call in part.calls:
            for x in inputs_of(call):
                own = isinstance(x, Dim) or (isinstance(x, Parameter) and of.parameter(x) is not None)
                if id(x) not in produced and not own:
                    inputs[id(x)] = x
            given = {id(x): x for x in leaves(call.result) if isinstance(x, Tensor)}
            produced |= {key: x for key, x in given.items() if key not in inputs}
        within = uses_of(part.calls, ())
        outputs = {id(x): x for x in produced.values() if writer.uses[id(x)] > within[id(x)]}
        names = Names(RESERVED)
        body = self.body(Place(of.parameter, lambda dim: f"self.{of.dim(dim)}", names), writer.uses, {})
        body.of, body.asked = of, {}
        body.indent, body.owner, body.left = " " * 8, part.owner, within + Counter(list(outputs))
        arguments = []
        for x in inputs.values():
            arguments.append(body.new_temporary())
            body.know(x, arguments[-1])
        values = [writer.value(x) for x in inputs.values()]
        body.write(part.calls)
        body.write_return([body.value(x) for x in outputs.values()])
        tensors = [*produced.values(), *inputs.values()]
        for (what, _), (dim, name) in body.asked.items():
            arguments.append(name)
            holder = next((x for x in tensors if any(body.root(own) is dim for own in x.dims)), None)
            if what == "size":
                values.append(writer.size(dim))
            else:
                lengths = writer.of_dims.get(id(writer.root(dim)))
                if lengths is None and holder is not None:
                    own = next(own for own in holder.dims if body.root(own) is dim)
                    lengths = writer.lengths(holder, own)
                if lengths is None:
                    raise unwritten(part.owner, f"the lengths of {dim.name!r} are not given as a tensor")
                values.append(lengths)
        method = of.method(f"({', '.join(['self', *arguments])}):\n" + "\n".join(body.place.lines) + "\n")
        called = read(torch_path(of.path)) if method == "forward" else attribute(read(torch_path(of.path)), method)
        writer.release(within)
        targets = [writer.target(x) for x in outputs.values()]
        writer.line((f"{', '.join(targets)} = " if targets else "") + f"{called}({', '.join(values)})")

    # -- the file

    def _file(self) -> str:
        names = self.top
        texts: dict[str, str] = {}
        for of in self.made.values():
            text = of.text()
            if text not in texts:
                texts[text] = names.new(class_name(str(of.layer.layer_class)))
        constructor = ["super().__init__()", *self.constructor(texts)]
        head = f'"""The net {remark(self.net.name)} in torch, written by rf.to_code."""\n\n{HEAD}\n'
        classes = [f"class {name}(nn.Module):\n{text}" for text, name in texts.items()]
        lines = "\n".join(f"        {line}" for line in constructor)
        methods = [f"    def __init__(self):\n{lines}\n", *self.methods()]
        about = f"The outputs and the losses of a batch, by layer.\n\n{self.arguments_told()}    "
        net = f'class Net(nn.Module):\n    """{about}"""\n\n' + "\n".join(methods)
        code = "\n\n".join([*classes, net])
        functions = [FUNCTIONS["load_checkpoint"], FUNCTIONS["converted"]]
        helpers: list[str] = []
        for name, text in reversed(FUNCTIONS.items()):
            if text not in functions and any(f"{name}(" in other for other in (code, *helpers)):
                helpers.insert(0, f"{text}\n")
        layout = "LAYOUT = {" + "".join(f"\n    {key!a}: {value!a}," for key, value in self.layout().items()) + "\n}\n"
        about = (
            '"""Parameters of a checkpoint that have another name or layout here: the name, the axes, the gates."""\n'
        )
        text = head + "\n\n".join([*helpers, code, f"{layout}{about}", *(f"{text}\n" for text in functions)])
        return "\n".join(row for line in text.split("\n") for row in wrapped(line))

    def arguments_told(self) -> str:
        """What the net is called with, a line for each tensor."""
        lines = []
        for name, (key, dim) in zip(self.bodies[0][0], self.arguments, strict=True):
            x = self.trace.inputs[key]
            axes = ["batch" if d is batch_dim else str(d.dimension or remark(d.name)) for d in axes_of(x)]
            told = f"{x.dtype} [{', '.join(axes)}]" if dim is None else f"the lengths of {remark(dim.name)} [batch]"
            lines.append(f"    {name}: {told}\n")
        return "".join(lines)

    def methods(self) -> Iterator[str]:
        """The methods of the net."""
        (arguments, body), *others = self.bodies
        listed, given = ", ".join(["self", *arguments]), ", ".join(arguments)
        if not others or others == [self.bodies[0]]:
            yield f"    def forward({listed}):\n" + "\n".join(body) + "\n"
            return
        yield (
            f"    def forward({listed}):\n        if self.training:\n"
            f"            return self.in_training({given})\n        return self.in_evaluation({given})\n"
        )
        for name, (_, body) in zip(("in_training", "in_evaluation"), self.bodies, strict=True):
            yield f"    def {name}({listed}):\n" + "\n".join(body) + "\n"

    def constructor(self, texts: dict[str, str]) -> list[str]:
        """The lines that make the modules."""
        lines: list[str] = []
        made = {of.path: of for of in self.made.values()}
        for path, module in self.net.named_modules():
            of = made.get(path)
            if not path or (of is None and not any(True for _ in module.parameters())):
                continue
            owner, name = in_module("self", torch_path(path))
            said = [] if of is None else self.comments(of.layer.name)
            self.told |= {*said}
            lines += said
            given = "" if of is None else ", ".join(str(dim.dimension) for dim, _ in of.dims.values())
            lines.append(assignment(owner, name, f"{'nn.Module' if of is None else texts[of.text()]}({given})"))
            for name, x in vars(module).items():
                if not isinstance(x, Parameter):
                    continue
                if self.owners[id(x)] != (path, name):
                    lines.append(assignment(read(torch_path(path)), name, self.parameter(x) or ""))
                elif of is None:
                    lines.append(
                        assignment(read(torch_path(path)), name, torch_parameter([str(d.dimension) for d in x.dims], x))
                    )
        return lines

    def layout(self) -> dict[str, tuple[Any, ...]]:
        """By name, the parameters of a checkpoint that have another name or layout here."""
        made = {of.path: of for of in self.made.values()}
        result = {}
        for path, module in self.net.named_modules():
            for name, x in vars(module).items():
                if isinstance(x, Parameter):
                    found = made[path].module_of(x) if path in made else None
                    where, axes, gates = found or (name, None, None)
                    key, where = (
                        ".".join(filter(None, (of, n))) for of, n in ((path, name), (torch_path(path), where))
                    )
                    if (where, axes, gates) != (key, None, None):
                        result[key] = where, axes, gates
        return result


def without_zero_states(calls: list[Call]) -> list[Call]:
    """The calls, where cells that begin with zeros have no state."""
    zeros = {id(call.result) for call in calls if call.name == "full" and call.kwargs["fill_value"] == 0}
    return [
        replace(call, kwargs={**call.kwargs, "state": None})
        if call.kind == "cell" and all(id(x) in zeros for x in leaves(call.kwargs["state"]))
        else call
        for call in calls
    ]


def with_cross_entropy(calls: list[Call], finals: list[Any]) -> list[Call]:
    """The calls, where log softmax, the score of the label, and the sign before it are one."""
    uses, made = uses_of(calls, finals), {id(call.result): call for call in calls}
    gone: set[int] = set()
    lines: dict[int, Call] = {}
    for call in calls:
        chosen = made.get(id(call.args[0])) if call.name == "neg" else None
        scores = made.get(id(chosen.args[0])) if chosen is not None and chosen.name == "gather" else None
        if chosen is None or scores is None or scores.name != "log_softmax":
            continue
        x, axis, labels = scores.args[0], scores.kwargs["axis"], chosen.kwargs["indices"]
        if not isinstance(labels, Tensor) or chosen.kwargs.get("clip_to_valid"):
            continue
        once = uses[id(scores.result)] == uses[id(chosen.result)] == 1 and {*x.dims} == {*labels.dims, axis}
        if once and chosen.kwargs.get("axis", labels.sparse_dim) is axis:
            gone |= {id(scores), id(chosen)}
            lines[id(call)] = Call(call.owner, "op", "cross_entropy", None, (x, labels, axis), {}, call.result)
    return [lines.get(id(call), call) for call in calls if id(call) not in gone]


def torch_path(path: str) -> str:
    """The path of a module, where no part is the name of a method of nn.Module."""
    return ".".join(f"{part}_" if hasattr(nn.Module, part) or part == "training" else part for part in path.split("."))


def torch_parameter(sizes: list[str], x: Parameter) -> str:
    """The call that makes a parameter."""
    shape = ", ".join(sizes)
    more = "" if x.dtype == "float32" else f", dtype=torch.{x.dtype}"
    if isinstance(x.initial, Glorot) and len(sizes) > 1:
        values = f"nn.init.xavier_uniform_(torch.empty({shape}{more}))"
    elif isinstance(x.initial, int | float) and x.initial:
        values = (
            f"torch.full(({shape},), {literal(float(x.initial))}{more})"
            if sizes
            else f"torch.tensor({literal(float(x.initial))})"
        )
    else:
        values = f"torch.zeros({shape or '()'}{more})"
    return f"nn.Parameter({values}{'' if x.trainable else ', requires_grad=False'})"
