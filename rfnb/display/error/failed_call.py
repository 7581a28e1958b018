"""The call that raised an error: the function of rfnb that the user's line called, and its arguments as rows of dims.

Equal dims are in one column, and dims that do not fit are marked.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple, TypeGuard

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.ground.source import Step, innermost_call, is_own, locals_of, op_name, steps_of
from rfnb.core.ground.text import cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.data import namesakes
from rfnb.nn.module.module import Module


def written(step: Step, names: Sequence[str]) -> dict[str, str]:
    """The expressions in the user's line, by parameter."""
    frame, source = step
    node = source.syntax()
    if isinstance(node, ast.Await):
        node = node.value
    parts: dict[str, ast.AST]
    if isinstance(node, ast.Call):
        parts = _call_parts(node, list(names), frame)
    elif isinstance(node, ast.Subscript | ast.Attribute):
        parts = {"self": node.value}
    else:
        parts = dict(zip(names, _sides(node), strict=False)) if list(names) == ["a", "b"] else {}
    return {name: _short(part) for name, part in parts.items()}


def _sides(node: ast.AST | None) -> Sequence[ast.AST]:
    """The operands of an operator."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    return (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()


def _call_parts(node: ast.Call, names: list[str], frame: FrameType) -> dict[str, ast.AST]:
    parts: dict[str, ast.AST] = {word.arg: word.value for word in node.keywords if word.arg is not None}
    arguments = list(node.args)
    if names and names[0] == "self" and not _is_of_module(node.func, frame):
        arguments.insert(0, node.func.value if isinstance(node.func, ast.Attribute) else node.func)
    if not any(isinstance(part, ast.Starred) for part in arguments):
        parts |= {name: _tensor_of(part) if "[" in name else part for name, part in zip(names, arguments, strict=False)}
    for name, part in list(parts.items()):
        if isinstance(part, ast.List | ast.Tuple):
            parts |= {f"{name}[{i}]": _tensor_of(entry) for i, entry in enumerate(part.elts)}
    return parts


def _is_of_module(function: ast.expr, frame: FrameType) -> bool:
    """Whether a function of a module, like `np.sum`, calls a method of its first argument."""
    owner = function.value if isinstance(function, ast.Attribute) else None
    scope = {**frame.f_globals, **locals_of(frame)}
    return isinstance(owner, ast.Name) and isinstance(scope.get(owner.id), ModuleType)


def _tensor_of(entry: ast.AST) -> ast.AST:
    """The tensor of a pair of tensor and dim."""
    return entry.elts[0] if isinstance(entry, ast.Tuple) and entry.elts else entry


def _short(part: ast.AST) -> str:
    return cut(ast.unparse(part), 40)


MOST = 8
"""Largest number of arguments shown."""


class Argument(NamedTuple):
    """An argument. name: the parameter. text: its expression in the user's line; "" if unknown."""

    name: str
    text: str
    value: object


class FailedCall(NamedTuple):
    """A call. name: the function, or the class of the module that was called.

    path, module: the innermost module entered: "encoder.layers.0", "Linear"; "" if there is none.
    """

    name: str
    path: str
    module: str
    arguments: list[Argument]

    @property
    def title(self) -> str:
        """ "reduce_sum", "layers.0: Linear"; "Sequential → layers.0: Linear" if it called that one itself."""
        if not self.path:
            return self.name
        entered = f"{self.path}: {self.module}"
        return entered if self.module == self.name else f"{self.name} → {entered}"


def failed_call(error: BaseException) -> FailedCall | None:
    """The call of rfnb on the user's innermost line; None if that line raised the error itself."""
    steps, at = steps_of(error), innermost_call(error)
    inner = steps if at is None else steps[at + 1 :]
    first = next((number for number, (_, source) in enumerate(inner) if _has_arguments(source.code)), None)
    if first is None:
        return None
    inner = inner[first:]
    frame = inner[0][0]
    name, values = _called(frame)
    words = {} if at is None else written(steps[at], [name for name, _ in values])
    arguments = [
        Argument(name, words.get(name, ""), value) for name, value in values if _is_shown(value, words.get(name))
    ]
    if not any(map(_has_dims, (argument.value for argument in arguments))):
        arguments += _deeper(inner[1:])
    modules = _modules(steps)
    path = module = ""
    if modules and _modules(inner):
        parameters = modules[-1].named_parameters(recurse=False)
        arguments += [Argument(f"self.{name}", "", value) for name, value in parameters]
        path = (modules[0].name_of(modules[-1]) or "") if len(modules) > 1 else ""
        module = type(modules[-1]).__name__
    return FailedCall(name, path, module, _once(arguments)[:MOST])


def _has_arguments(code: CodeType) -> bool:
    """Whether this is a function of rfnb with its own arguments; `first_call` only forwards those of an op."""
    return is_own(code) and code.co_name != "first_call"


def _called(frame: FrameType) -> tuple[str, list[tuple[str, object]]]:
    """The name of a function, and its arguments in order."""
    variables = locals_of(frame)
    owner, forward = variables.get("self"), variables.get("forward")
    name = frame.f_code.co_name.strip("_")
    if name == "raising":  # a method of torch, called on a tensor; defined in `core.tensor.tensor_protocols`
        return variables["name"], [("self", variables["x"])]
    if name == "torch_function":  # a function of torch, called on a tensor
        arguments = [(f"args[{number}]", value) for number, value in enumerate(variables["args"])]
        return f"torch.{variables['func'].__name__}", [*arguments, *(variables["kwargs"] or {}).items()]
    if isinstance(owner, Module) and forward is not None:
        bound = inspect.signature(forward).bind_partial(owner, *variables["args"], **variables["kwargs"])
        return type(owner).__name__, list(_spread(list(bound.arguments.items())[1:]))
    arguments = _parameters_of(frame, variables)
    if isinstance(owner, Tensor) and name != "init":
        arguments.insert(0, ("self", owner))
    titles = {"init": type(owner).__name__, "exit": "the end of the block"}
    return op_name(frame) or titles.get(name, name), list(_spread(arguments))


def _parameters_of(frame: FrameType, variables: dict[str, object]) -> list[tuple[str, object]]:
    code = frame.f_code
    in_order, by_name = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    star = code.co_varnames[by_name : by_name + 1] if code.co_flags & inspect.CO_VARARGS else ()
    names = (*code.co_varnames[:in_order], *star, *code.co_varnames[in_order:by_name])
    return [(name, variables[name]) for name in names if name in variables and name != "self"]


def _spread(arguments: Sequence[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """Splits lists of tensors, and of pairs of tensor and dim, into one argument for each entry."""
    for name, value in arguments:
        parts = value if isinstance(value, list | tuple) else ()
        if not any(isinstance(part, Tensor) or _first_is_tensor(part) for part in parts):
            yield name, value
            continue
        for number, part in enumerate(parts):
            yield f"{name}[{number}]", part[0] if _first_is_tensor(part) else part


def _first_is_tensor(part: object) -> bool:
    return isinstance(part, tuple | list) and bool(part) and isinstance(part[0], Tensor)


def _has_dims(value: object) -> bool:
    return isinstance(value, Tensor | Dim) or are_dims(value)


def are_dims(value: object) -> TypeGuard[Sequence[Dim]]:
    """Whether a value is a list of Dims."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(part, Dim) for part in value)


def shape_of(value: object) -> tuple[int, ...]:
    """The shape of an array; () for other values."""
    shape = getattr(value, "shape", ())
    return shape if isinstance(shape, tuple) else ()


def _is_shown(value: object, text: str | None) -> bool:
    """Whether an argument gets a line: it has dims or a shape, or the user wrote it."""
    if _has_dims(value):
        return True
    return text is not None and (bool(shape_of(value)) or isinstance(value, str | int | float | list | tuple))


def _deeper(steps: list[Step]) -> list[Argument]:
    """Arguments of the innermost function with tensors, for calls that have none, as at the end of a loop."""
    for frame, source in reversed(steps):
        if is_own(source.code):
            pairs = list(_spread(_parameters_of(frame, locals_of(frame))))
            arguments = [
                Argument(name, "", value) for name, value in pairs if isinstance(value, Tensor) or are_dims(value)
            ]
            if any(isinstance(argument.value, Tensor) for argument in arguments):
                return arguments
    return []


# -- modules
def _modules(steps: list[Step]) -> list[Module]:
    """The calls of modules that were active, from the outermost."""
    modules: list[Module] = []
    for frame, source in steps:
        owner = locals_of(frame).get("self") if source.code.co_name in ("call", "__call__") else None
        if isinstance(owner, Module) and not any(owner is module for module in modules):
            modules.append(owner)
    return modules


def _once(arguments: list[Argument]) -> list[Argument]:
    """The arguments without repeated ones that the user did not write."""
    unique: list[Argument] = []
    for argument in arguments:
        if argument.text or not any(_same(argument.value, earlier.value) for earlier in unique):
            unique.append(argument)
    return unique


def _same(a: object, b: object) -> bool:
    return a is b or (are_dims(a) and are_dims(b) and tuple(a) == tuple(b))


@dataclass
class OperandCell:
    """A dim in a row, or the size of an array's axis, which has no dim."""

    dim: Dim | None
    size: Size | None
    lengths: Lengths | None
    number: int = 0
    odd: bool = False
    spelled: bool = False  # its lengths are told one by one


@dataclass
class OperandRow:
    """An argument and its dims."""

    argument: Argument
    type: str
    cells: list[OperandCell] = field(default_factory=list)


Column = dict[int, OperandCell]
"""The columns of the rows, by row number."""


def aligned(arguments: Sequence[Argument], odd: Sequence[object] = ()) -> tuple[list[OperandRow], list[Column]]:
    """A row for each argument, and the columns of their dims. odd: dims known not to fit."""
    rows = [_row(argument) for argument in arguments]
    columns = _columns(rows)
    _mark(columns, rows, [dim for dim in odd if isinstance(dim, Dim)])
    return rows, _closer(columns)


def _row(argument: Argument) -> OperandRow:
    value = argument.value
    if isinstance(value, Tensor):
        return OperandRow(
            argument, str(value.dtype), [OperandCell(dim, value.lengths.size(dim), value.lengths) for dim in value.dims]
        )
    if isinstance(value, Dim) or are_dims(value):
        dims = [value] if isinstance(value, Dim) else list(value)
        cells = [OperandCell(dim, dim.lengths.size(dim), dim.lengths) for dim in dims]
        return OperandRow(argument, "Dim" if isinstance(value, Dim) else "dims", cells)
    kind = f"{type(value).__module__}.".removeprefix("builtins.") + type(value).__name__
    return OperandRow(argument, kind, [OperandCell(None, None, None, int(size)) for size in shape_of(value)])


# -- which stands under which


def _columns(rows: Sequence[OperandRow]) -> list[Column]:
    columns: list[Column] = []
    for number, row in enumerate(rows):
        behind = -1
        for cell in row.cells:
            at = next((i for i, column in enumerate(columns) if number not in column and _fits(cell, column)), None)
            if at is None:
                at = behind + 1 if behind >= 0 else len(columns)
                columns.insert(at, {})
            columns[at][number] = cell
            behind = at
    _place_numbers(columns, rows)
    return [column for column in columns if column]


def _fits(cell: OperandCell, column: Column) -> bool:
    return cell.dim is not None and any(peer.dim is cell.dim for peer in column.values())


def _place_numbers(columns: list[Column], rows: Sequence[OperandRow]) -> None:
    """Aligns the shape of an array with the list of dims given for it."""
    anchor = next((i for i, row in enumerate(rows) if row.type == "dims"), None)
    for number, row in enumerate(rows):
        if row.cells and row.cells[0].dim is None and anchor is not None and len(rows[anchor].cells) == len(row.cells):
            for column in columns:
                column.pop(number, None)
            for cell, dim in zip(row.cells, rows[anchor].cells, strict=True):
                next(column for column in columns if column.get(anchor) is dim)[number] = cell


def _closer(columns: list[Column]) -> list[Column]:
    """Joins two columns if no row has both and their dims are alike, so that confused dims are below each other."""
    for alike in (_namesakes, _related):
        for a, b in combinations(range(len(columns)), 2):
            col_a, col_b = columns[a], columns[b]
            if col_a and col_b and not set(col_a) & set(col_b) and alike(_first(col_a), _first(col_b)):
                target, source = (a, b) if min(col_a) < min(col_b) else (b, a)  # in the order of the upper row
                columns[target], columns[source] = col_a | col_b, {}
    return [column for column in columns if column]


def _first(column: Column) -> OperandCell:
    return next(iter(column.values()))


def _namesakes(a: OperandCell, b: OperandCell) -> bool:
    return a.dim is not None and b.dim is not None and a.dim.name == b.dim.name


def _related(a: OperandCell, b: OperandCell) -> bool:
    """Whether two dims are alike, by frames or size, and one of them does not fit."""
    if a.dim is None or b.dim is None or not (a.odd or b.odd):
        return False
    return bool(set(a.dim.roots) & set(b.dim.roots)) or _agree(a.size, b.size)


# -- which do not fit


def _mark(columns: Sequence[Column], rows: Sequence[OperandRow], unfit: Sequence[Dim]) -> None:
    """Marks dims known not to fit; if there are none, dims that differ in length or look like another one."""
    for column in columns:
        _mark_lengths(column)
    cells = [cell for row in rows for cell in row.cells]
    odd = {dim: dim.name for dim in unfit}
    if not odd and not any(cell.odd for cell in cells):
        serials = _lacking(rows) or namesakes(dims_in(cells))
        odd = {cell.dim: cell.dim.name for cell in cells if cell.dim is not None and cell.dim.serial in serials}
    for row in rows:
        meant = [cell for cell in row.cells if cell.dim in odd]
        if not meant and not row.argument.name.startswith("self."):  # what has the name in the place of the dim
            meant = [cell for cell in row.cells if cell.dim is not None and cell.dim.name in odd.values()]
        for cell in meant:
            cell.odd = True


def _mark_lengths(column: Column) -> None:
    """Marks a Dim with two lengths, and a size that differs from its dim."""
    cells = list(column.values())
    for a, b in pairwise(cells):
        if a.dim is b.dim and not _agree(a.size, b.size):
            for cell in cells:
                cell.odd = cell.spelled = True
    sizes = {cell.size.max for cell in cells if cell.size is not None}
    if any(cell.dim is None for cell in cells) and sizes:
        for cell in cells:
            cell.odd = cell.odd or (cell.dim is None and cell.number not in sizes)
        for cell in cells:
            cell.odd = cell.odd or any(peer.odd for peer in cells)


def _agree(a: Size | None, b: Size | None) -> bool:
    return a is b or (a is not None and b is not None and a.agrees(b))


def _lacking(rows: Sequence[OperandRow]) -> set[int]:
    """Marks dims that were passed as arguments but are in no tensor."""
    had = {cell.dim for row in rows if isinstance(row.argument.value, Tensor) for cell in row.cells}
    dims = [cell.dim for row in rows if row.type == "Dim" for cell in row.cells]
    return {dim.serial for dim in dims if dim is not None and dim not in had} if had else set()


def dims_in(cells: Iterable[OperandCell]) -> list[Dim]:
    """The dims of the cells."""
    return [cell.dim for cell in cells if cell.dim is not None]
