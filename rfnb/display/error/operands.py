"""Arguments of a call as rows of dims: equal dims are in one column, and dims that do not fit are marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.error.failed_call import Argument, are_dims, shape_of
from rfnb.display.kit.dims import namesakes


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
        return OperandRow(argument, "Dim" if isinstance(value, Dim) else "dims", [_unbound(dim) for dim in dims])
    kind = f"{type(value).__module__}.".removeprefix("builtins.") + type(value).__name__
    return OperandRow(argument, kind, [OperandCell(None, None, None, int(size)) for size in shape_of(value)])


def _unbound(dim: Dim) -> OperandCell:
    """A cell for a dim under its current lengths."""
    return OperandCell(dim, dim.lengths.size(dim), dim.lengths)


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


def _mark(columns: Sequence[Column], rows: Sequence[OperandRow], known: Sequence[Dim]) -> None:
    """Marks dims known not to fit; if there are none, dims that differ in length or look like another one."""
    for column in columns:
        _mark_lengths(column)
    cells = [cell for row in rows for cell in row.cells]
    odd = {dim: dim.name for dim in known}
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
