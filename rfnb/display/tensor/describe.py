"""What is known of a tensor, as JSON: each part if it can be had, a note if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display.kit import options
from rfnb.display.kit.data import Data, read_as_called
from rfnb.display.kit.degrade import Notes
from rfnb.display.kit.dims import describe_axes, describe_dim
from rfnb.display.markup.numbers import amount
from rfnb.display.schema import DimView, TensorView
from rfnb.display.tensor.grad import describe_grad
from rfnb.display.tensor.labels import describe_labels, describe_unknown
from rfnb.display.tensor.moments import same
from rfnb.display.tensor.picture import describe_picture
from rfnb.display.tensor.select import select
from rfnb.display.tensor.sequences import describe_lengths, describe_sequences
from rfnb.display.tensor.stats import Measured, measure, tensor_stats
from rfnb.display.tensor.table import describe_values
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.tensor.tensor import Tensor


def describe(tensor: Tensor, batch: int | str | None = None, **positions: int | str) -> TensorView:
    """All of it, or one sequence by number or tag, and single positions of other dims."""
    try:
        data = read_as_called(tensor)
    except ViewError as error:
        return _bare(tensor, error.what)
    return describe_data(select(data, batch, **positions))


def describe_data(data: Data) -> TensorView:
    """What is known of the tensor, each part if it can be had."""
    notes = Notes(*data.notes)
    view = _frame(data)
    tags = _tags(data)
    view["tags"] = tags if tags is None or len(tags) <= options.TAGS else None
    view["grad"] = notes.attempt("gradient", lambda: describe_grad(data.source), None)
    view["lengths"] = notes.attempt("lengths", lambda: describe_lengths(data), [])
    found = None
    if _out_of_reach(data):
        notes.add(_out_of_reach(data))
    elif data.entries == 0:
        notes.add("empty")
    elif data.sparse is not None and data.sparse.vocab is not None:
        _add_labels(view, data, notes)
    else:
        found = notes.attempt("statistics", lambda: measure(data), None)
        _add_numbers(view, data, found, notes)
    view["sequences"] = notes.attempt("sequences", lambda: describe_sequences(data, found), None)
    view["note"] = notes.text()
    return view


def _frame(data: Data) -> TensorView:
    return {
        "kind": "tensor",
        "name": data.name,
        "cls": data.cls,
        "dtype": data.dtype,
        "device": data.device,
        "bytes": data.entries * _itemsize(data),
        "dims": describe_axes(data.axes, data.feature),
        "sparse": data.sparse.name if data.sparse is not None else None,
        "stats": None,
        "lengths": [],
        "sequences": None,
        "values": None,
        "labels": None,
        "label_ids": None,
        "label_counts": None,
        "unknown": None,
        "tags": None,
        "picture": None,
        "picture_alt": None,
        "grad": None,
        "note": None,
    }


def _out_of_reach(data: Data) -> str | None:
    """Why nothing can be said of the numbers."""
    if data.device == "meta":
        return "no numbers: on the meta device"
    layout = str(getattr(data.raw, "layout", "torch.strided"))
    return None if layout == "torch.strided" else f"no numbers: {layout.removeprefix('torch.')} layout"


def _add_labels(view: TensorView, data: Data, notes: Notes) -> None:
    view["unknown"] = notes.attempt("unknown ids", lambda: describe_unknown(data), None)
    found = notes.attempt("labels", lambda: describe_labels(data), None)
    if found is not None:
        view.update(found[0])  # type: ignore[typeddict-item]
        notes.add(found[1])


def _add_numbers(view: TensorView, data: Data, found: Measured | None, notes: Notes) -> None:
    if found is not None:
        view["stats"] = notes.attempt("statistics", lambda: tensor_stats(found), None)
    if data.sparse is not None:
        view["unknown"] = notes.attempt("unknown ids", lambda: describe_unknown(data), None)
    if data.entries <= options.TABLE_ENTRIES:
        view["values"] = notes.attempt("numbers", lambda: describe_values(data), None)
        return
    if data.entries > options.FINITE_ENTRIES:
        notes.add(f"no picture of {amount(data.entries)} entries")
        return
    if view["stats"] is not None and same(view["stats"]) and not view["stats"]["bad"]:
        return
    drawn = notes.attempt("picture", lambda: describe_picture(data, found=found), None)
    if drawn is not None:
        view["picture"], view["picture_alt"] = drawn


def _bare(tensor: Tensor, note: str) -> TensorView:
    """What can be said without numbers."""
    notes = Notes(note)

    def ask(name: str, otherwise: str) -> str:
        return str(notes.attempt(name, lambda: getattr(tensor, name), otherwise) or otherwise)

    dims: list[DimView] = notes.attempt("dims", lambda: [describe_dim(dim, tensor.lengths) for dim in tensor.dims], [])
    empty = Data(ask("name", "tensor"), ask("dtype", "?"), ask("device", "?"), None, ())
    return {**_frame(empty), "bytes": 0, "dims": dims, "note": notes.text()}


def _itemsize(data: Data) -> int:
    dtype = getattr(data.raw, "dtype", None)
    return int(getattr(dtype, "itemsize", 0))


def _tags(data: Data) -> list[str] | None:
    return next((list(axis.tags) for axis in data.axes if axis.tags is not None), None)
