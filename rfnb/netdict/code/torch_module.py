"""Writes traces of a net as a file of plain torch: nn.Modules, and what loads a checkpoint into them."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import nn

from rfnb.core.dims.dim import Dim, batch_dim, single_step_dim
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code import torch_helpers
from rfnb.netdict.code.body import Place, inputs_of, prune, uses_of
from rfnb.netdict.code.module import LayerClass, ModuleWriter, Part
from rfnb.netdict.code.names import Names, assignment, attribute, identifier, literal, remark
from rfnb.netdict.code.torch_body import Frames, Layout, axes_of, frames_of
from rfnb.netdict.code.torch_ops import TorchOps
from rfnb.netdict.code.trace import Call, Trace, Unwritten, every_call, unwritten
from rfnb.netdict.network import Network
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

RESERVED = frozenset({"torch", "F", "nn", "Any", "Tensor", "self", *FUNCTIONS})


@dataclass(eq=False)
class TorchClass(LayerClass):
    """The class of a layer.

    Attributes:
        alone: the ids of parameters that one call uses, which modules of torch may have.
        modules: the modules of torch by attribute: the call that makes each, and which parameters it has.
        more: further lines of the constructor.
    """

    CALL: ClassVar[str] = "forward"
    alone: frozenset[int] = frozenset()
    modules: dict[str, tuple[str, Layout]] = field(default_factory=dict)
    more: dict[str, None] = field(default_factory=dict)

    def may_have(self, parameters: Iterable[object]) -> bool:
        """Whether a module of torch may have these parameters: those of this layer, which nothing else uses."""
        return all(id(x) in self.alone and id(x) in self.attributes for x in parameters)

    def module(self, name: str, made: str, layout: Layout) -> str:
        """The module of torch with these parameters, as a method reads it."""
        for attr, (_, other_layout) in self.modules.items():
            if list(other_layout) == list(layout):
                if other_layout != layout:
                    raise unwritten(self.layer.name, "its cell runs over frames, and in steps too")
                return attribute("self", attr)
        names = {*vars(self.layer), *self.modules}
        attr = next(n for n in (name, *(f"{name}{i}" for i in range(2, 99))) if n not in names)
        self.modules[attr] = made, layout
        return attribute("self", attr)

    def no_second_bias(self, bias: str, module: str, forget_bias: float) -> None:
        """An LSTM has one bias, as in the checkpoint; the second one is the constant of its forget gate."""
        self.more[f"{bias}.requires_grad_(False).zero_()"] = None
        if forget_bias:
            size = f"{module}.hidden_size"
            self.more[f"{bias}[{size} : 2 * {size}] = {literal(forget_bias)}"] = None

    def size(self, dim: Dim) -> str:
        """The size of a dim in the constructor."""
        body = TorchOps(Place(self.parameter, self.dim, Names()), Counter(), {}, Frames())
        body.of = self
        return body.dim(dim)

    def module_of(self, x: object) -> tuple[str, tuple[int, ...] | None, tuple[int, ...] | None] | None:
        """Where a module of torch has a parameter: its path in the layer, the order of axes and of gates."""
        for attr, (_, layout) in self.modules.items():
            if id(x) in layout:
                name, axes, gates = layout[id(x)]
                return f"{attr}.{name}", axes, gates if gates is None or gates != tuple(sorted(gates)) else None
        return None

    @staticmethod
    def new_parameter(x: Parameter, dim: Callable[[Dim], str]) -> str:
        """The call that makes a parameter. dim: how the size of one is written."""
        shape = ", ".join(map(dim, x.dims))
        dtype = "" if x.dtype == "float32" else f", dtype=torch.{x.dtype}"
        if isinstance(x.initial, Glorot) and len(x.dims) > 1:
            values = f"nn.init.xavier_uniform_(torch.empty({shape}{dtype}))"
        elif isinstance(x.initial, int | float) and x.initial:
            number = literal(float(x.initial))
            values = f"torch.full(({shape},), {number}{dtype})" if shape else f"torch.tensor({number})"
        else:
            values = f"torch.zeros({shape or '()'}{dtype})"
        return f"nn.Parameter({values}{'' if x.trainable else ', requires_grad=False'})"

    def text(self) -> str:
        """The class without its name."""
        if not self.init:
            for name, x in vars(self.layer).items():
                if isinstance(x, Parameter) and self.module_of(x) is None:
                    self.init.append(assignment("self", name, self.new_parameter(x, self.size)))
            self.init += [assignment("self", attr, constructor) for attr, (constructor, _) in self.modules.items()]
        return super().text()

    def constructor(self, kept: list[str]) -> list[str]:
        """The lines of the constructor. kept: those for the dims that methods read."""
        lines = ["super().__init__()", *kept, *self.init]
        return [*lines, "with torch.no_grad():", *(f"    {line}" for line in self.more)] if self.more else lines


class TorchWriter(ModuleWriter):
    """Writes the file of modules of torch. net: of which the traces are: of training and evaluation, or of one of them.

    Attributes:
        frames: what dims of frames mean in the trace. alone: the ids of parameters that one call uses.
        arguments: of the net: the key of a tensor, and the dim if it is the lengths of one.
        dropout_in_loops: whether a loop has dropout, which draws other numbers in torch.
    """

    LAYER_CLASS = TorchClass
    BASE, IS_TRAINING, ABOUT = "nn.Module", "self.training", "The outputs, the losses, and the lengths of the outputs"
    RESERVED = RESERVED

    def __init__(self, net: Network):
        super().__init__(net)
        self.keys, self.top = set(), Names({*RESERVED, "Net", "LAYOUT"})
        self.frames = Frames()
        self.alone: frozenset[int] = frozenset()
        self.arguments: list[tuple[str, Dim | None]] = []
        self.dropout_in_loops = False

    @property
    def made(self) -> dict[str, TorchClass]:
        """The classes of layers by the path of their module."""
        return {of.path: of for of in self.classes.values() if isinstance(of, TorchClass)}

    def body(self, place: Place, uses: Counter[int], called: Mapping[int, str]) -> TorchOps:
        """What writes the lines of a method."""
        return TorchOps(place, uses, called, self.frames)

    # -- a trace

    def calls(self, trace: Trace, finals: list[Tensor]) -> list[Call]:
        """The calls that the code has."""
        calls = without_zero_states(trace.calls)
        calls = prune(with_steps(calls, self.used_once(calls, 2)), finals)
        used_once = self.used_once(calls, 1)
        self.frames, self.alone = Frames(), used_once & self.alone if self.bodies else used_once
        steps = [call.name for loop in every_call(calls) if loop.kind == "with" for call in loop.body]
        self.dropout_in_loops |= "dropout" in steps
        return with_cross_entropy(arranged(calls), finals)

    def used_once(self, calls: list[Call], count: int) -> frozenset[int]:
        """The parameters that one module has, and that calls use at most so often."""
        uses = Counter(id(x) for call in every_call(calls) if call.kind != "l2" for x in inputs_of(call))
        owned = Counter(id(x) for m in self.net.modules() for x in vars(m).values() if isinstance(x, Parameter))
        return frozenset(key for key, number in owned.items() if number == 1 and uses[key] <= count)

    def arguments_of(self, writer: TorchOps, inputs: Mapping[str, Tensor]) -> list[str]:
        """The arguments of the net: tensors, and the lengths of their sequences."""
        arguments = []
        self.arguments = []
        for key, x in inputs.items():
            name = writer.place.names.new(identifier(key))
            arguments.append(name)
            self.arguments.append((key, None))
            writer.know(x, name)
            for dim in x.dims:
                ragged = dim.dimension is None and not dim.is_batch_dim() and x.size_of(dim).dims
                if ragged and id(writer.root(dim)) not in writer.of_dims:
                    arguments.append(writer.place.names.new(f"{name}_lengths"))
                    self.arguments.append((key, dim))
                    writer.give_lengths(dim, arguments[-1])
        return arguments

    def more_results(self, writer: TorchOps, outputs: Mapping[str, Tensor]) -> list[dict[str, str]]:
        """The lengths of outputs, where they are known."""
        lengths: dict[str, str] = {}
        for path, x in outputs.items():
            dim = frames_of(x)
            with suppress(Unwritten):
                lengths |= {} if dim is None else {path: writer.lengths(x, dim) or ""}
        return [lengths]

    def global_dim(self, dim: Dim) -> str:
        """The size of a dim."""
        if dim.dimension is None:
            raise unwritten("", f"the dim {dim.name!r} has no size")
        return str(dim.dimension)

    def path(self, path: str) -> str:
        """The path in the code of a module: no part is the name of a method of nn.Module."""
        parts = path.split(".")
        return ".".join(f"{part}_" if hasattr(nn.Module, part) or part == "training" else part for part in parts)

    def parameter(self, x: Parameter) -> str | None:
        """A parameter as a method of the net reads it."""
        path, _ = self.owners.get(id(x), ("", ""))
        module = self.made[path].module_of(x) if path in self.made else None
        return super().parameter(x) if module is None else f"{self.read(path)}.{module[0]}"

    # -- a layer

    def runs(self, calls: list[Call]) -> Iterator[tuple[Call, bool]]:
        """The calls, and whether each can be part of the method of a layer: also loops with that layer alone."""
        mixed = {id(call.loop) for call in calls if call.kind == "with" and
                 {line.owner for line in every_call([call])} != {call.owner}}  # fmt: skip
        for call in calls:
            loop = call.result if call.kind == "loop" else call.loop
            yield call, call.kind in ("op", "cell") or (loop is not None and id(loop) not in mixed)

    def class_of(self, part: Part) -> TorchClass:
        """The class of a layer."""
        layer = self.layers[part.owner]
        of = self.classes.setdefault(part.owner, TorchClass(layer, self.paths[id(layer)], names=Names(RESERVED)))
        assert isinstance(of, TorchClass)
        of.alone = self.alone
        return of

    def asked(self, writer: TorchOps, body: TorchOps, tensors: Sequence[object]) -> Iterator[tuple[str, str]]:
        """The sizes and lengths of dims that a method needs: its arguments, and their values."""
        axes = [(x, own) for x in tensors if isinstance(x, Tensor) for own in x.dims]
        for (need, _), (dim, name) in body.asked.items():
            if need == "size":
                yield name, writer.dim(dim)
                continue
            lengths = writer.of_dims.get(id(writer.root(dim)))
            holder = next(((x, own) for x, own in axes if body.root(own) is dim), None)
            if lengths is None and holder is not None:
                lengths = writer.lengths(*holder)
            if lengths is None:
                raise unwritten(body.owner, f"the lengths of {dim.name!r} are not given as a tensor")
            yield name, lengths

    # -- the file

    def file_with(self, classes: list[str]) -> str:
        """The file with these classes."""
        head = f'"""The net {remark(self.net.name)} in torch, written by rf.to_code."""\n\n{HEAD}\n'
        functions = [FUNCTIONS["load_checkpoint"], FUNCTIONS["converted"]]
        helpers: list[str] = []
        for name, text in reversed(FUNCTIONS.items()):
            if text not in functions and any(f"{name}(" in other for other in (*classes, *helpers)):
                helpers.insert(0, f"{text}\n")
        layout = "LAYOUT = {" + "".join(f"\n    {key!a}: {value!a}," for key, value in self.layout().items()) + "\n}\n"
        about = (
            '"""Parameters of a checkpoint that have another name or layout here: the name, the axes, the gates."""\n'
        )
        return head + "\n\n".join([*helpers, *classes, f"{layout}{about}", *(f"{text}\n" for text in functions)])

    def about_arguments(self) -> str:
        """What the net is called with, a line for each tensor."""
        lines = []
        for name, (key, dim) in zip(self.bodies[0][0], self.arguments, strict=True):
            x = self.trace.inputs[key]
            axes = ["batch" if d is batch_dim else str(d.dimension or remark(d.name)) for d in axes_of(x)]
            about = f"{x.dtype} [{', '.join(axes)}]" if dim is None else f"the lengths of {remark(dim.name)} [batch]"
            lines.append(f"    {name}: {about}\n")
        return f"\n\n{''.join(lines)}    "

    def constructor(self, texts: dict[str, str]) -> list[str]:
        """The lines that make the modules."""
        return ["super().__init__()", *super().constructor(texts)]

    def layout(self) -> dict[str, tuple[Any, ...]]:
        """By name, the parameters of a checkpoint that have another name or layout here."""
        result = {}
        for path, module in self.net.named_modules():
            for name, x in vars(module).items():
                if isinstance(x, Parameter):
                    place = self.made[path].module_of(x) if path in self.made else None
                    where, axes, gates = place or (name, None, None)
                    key, where = (".".join(filter(None, (of, n))) for of, n in ((path, name), (self.path(path), where)))
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


def with_steps(calls: list[Call], alone: frozenset[int]) -> list[Call]:
    """The calls, where cells that torch lacks are written as what they do. alone: weights that one cell alone uses."""
    lines: list[Call] = []
    for call in calls:
        if call.kind != "cell":
            lines.append(replace(call, body=with_steps(call.body, alone)))
        elif fits_torch(call, alone):
            lines.append(replace(call, body=[]))
        else:
            lines += with_steps(call.body, alone)
    return lines


def fits_torch(call: Call, alone: frozenset[int]) -> bool:
    """Whether a module of torch computes what a cell does."""
    weights = {name: call.weights.get(name) for name in ("ff_weight", "rec_weight", "bias")}
    ids = [id(x) for x in weights.values() if x is not None]
    if call.name not in ("VanillaLSTM", "BasicLSTM") or weights["ff_weight"] is None or not alone.issuperset(ids):
        return False
    if weights["bias"] is None and call.name == "BasicLSTM":  # the constant of its forget gate has no place
        return False
    [x], axis = call.args, call.kwargs["spatial_dim"]
    return len(x.dims) + (x.sparse_dim is not None) == (2 if axis is single_step_dim else 3)


def arranged(calls: list[Call]) -> list[Call]:
    """The calls, where the states of loops are set at the end of a step; each loop knows the states read after it."""
    lines = []
    for i, call in enumerate(calls):
        if call.kind == "with":
            read_later = {other.name for other in calls[i:] if other.kind == "get" and other.loop is call.loop}
            body = sorted(arranged(call.body), key=lambda line: line.kind == "set" and line.loop is call.loop)
            call = replace(call, body=body, kwargs={"kept": read_later})
        lines.append(call)
    return lines


def with_cross_entropy(calls: list[Call], finals: list[Tensor]) -> list[Call]:
    """The calls, where log softmax, the score of the label, and the sign before it are one."""
    uses, call_of = uses_of(calls, finals), {id(call.result): call for call in calls}
    absorbed: set[int] = set()
    lines: dict[int, Call] = {}
    for call in calls:
        score = call_of.get(id(call.args[0])) if call.name == "neg" else None
        scores = call_of.get(id(score.args[0])) if score is not None and score.name == "gather" else None
        if score is None or scores is None or scores.name != "log_softmax":
            continue
        x, axis, labels = scores.args[0], scores.kwargs["axis"], score.kwargs["indices"]
        if not isinstance(labels, Tensor) or score.kwargs.get("clip_to_valid"):
            continue
        once = uses[id(scores.result)] == uses[id(score.result)] == 1 and {*x.dims} == {*labels.dims, axis}
        if once and score.kwargs.get("axis", labels.sparse_dim) is axis:
            absorbed |= {id(scores), id(score)}
            arguments = {"estimated": x, "target": labels, "axis": axis, "estimated_type": "logits"}
            lines[id(call)] = Call(call.owner, "op", "cross_entropy", kwargs=arguments, result=call.result)
    return [lines.get(id(call), call) for call in calls if id(call) not in absorbed]
