"""Batches of plain tensors: which of their axes count sequences and frames, and what results hold of one sequence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.model_graph import argument_names, owner
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.nested import map_leaves, named_leaves
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

# -- arguments


@dataclass(frozen=True)
class _Frames:
    """The lengths along axes of `size` frames. name: the argument that they are of."""

    dim: Dim
    size: int
    lengths: np.ndarray
    name: str = ""


def with_dims(
    fn: Callable[..., object], args: Sequence[object], kwargs: dict[str, Any], lengths: object
) -> tuple[list[Any], np.ndarray] | None:
    """The arguments of a function of plain tensors, as Tensors with dims for sequences and frames, and the lengths.

    None if no lengths are known. Raises DimError if they do not fit.
    """
    if lengths is not None and takes_lengths(fn):
        raw = lengths if _is_raw(lengths) else raw_registry.selected().from_numpy_raw(_checked(lengths), None)
        kwargs = kwargs | {"lengths": raw}
    names = [name for name, _ in argument_names(fn, tuple(args), {})]
    arguments = [*zip(names, args, strict=False), *kwargs.items()]
    named = [(name, leaf) for key, value in arguments for name, leaf in named_leaves(value, key) if _is_raw(leaf)]
    frames = _frames(named, lengths)
    if not frames:
        return None
    count, batch = len(frames[0].lengths), Dim(None, name="batch", kind="batch")
    batch.bind(Size((), count))
    for extent in frames:
        extent.dim.bind(Size((batch,), extent.lengths, capacity=extent.size))
    modules = [] if owner(fn) is None else owner(fn).modules()
    second = any(getattr(module, "batch_first", True) is False for module in modules)
    tensors = [_tensor(name, raw, batch, count, frames, second=second) for name, raw in named]
    if not any(batch in tensor.dims for tensor in tensors):
        raise DimError(
            "check.batch_invariance: no axis counts the sequences",
            got=", ".join(f"{name} {_shape(raw)}" for name, raw in named),
            expected=f"an axis of {count}, one entry for each of the lengths",
        )
    values = iter(tensors)
    return map_leaves(lambda leaf: next(values) if _is_raw(leaf) else leaf, [list(args), kwargs]), frames[0].lengths


def without_dims(arguments: object, names: dict[int, str]) -> Any:
    """The arguments as plain tensors again: copies in one piece, which the function may change.

    names: where the names of the copies are put, by id.
    """

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        raw = raw_registry.backend_of_raw(leaf._raw).copy_raw(leaf._raw)
        names[id(raw)] = leaf.name
        return raw

    return map_leaves(copied, arguments)


def with_other_numbers(x: Tensor, batch: Dim, index: int) -> Tensor:
    """An argument with other numbers in all sequences but one, if it has more axes than for the sequences and is not a
    mask."""
    backend = raw_registry.backend_of_raw(x._raw)
    if batch not in x.dims or len(x.dims) < 2 or x.dtype == "bool" or "mask" in x.name:
        return x
    values = backend.to_numpy_raw(x._raw)
    rows = np.moveaxis(values, x.axis(batch), 0)
    indices = [i for i in range(len(rows)) if i != index]
    rows[indices] = rows[indices] * 2 + 1 if values.dtype.kind in "fc" else rows.flat[0]
    changed = tensor_of(backend.convert_raw(values, x.dtype, x.device), x.sig, x.lengths)
    changed.name = x.name
    return changed


def takes_lengths(fn: Callable[..., object]) -> bool:
    """Whether a function or module has a parameter of the name `lengths`."""
    try:
        return "lengths" in inspect.signature(getattr(fn, "forward", fn)).parameters
    except (TypeError, ValueError):
        return False


def _checked(lengths: object) -> np.ndarray:
    """The lengths as integers. Raises DtypeError if they are not numbers of frames."""
    raw = lengths.raw_tensor if isinstance(lengths, Tensor) else lengths
    try:
        numbers = _numbers(raw).reshape(-1)
    except ValueError:  # lists of different lengths
        numbers = np.zeros(0, object)
    if numbers.dtype.kind not in "iuf" or (numbers < 0).any() or (numbers % 1 != 0).any():
        raise DtypeError(
            "check.batch_invariance: `lengths` are not numbers of frames",
            got=repr(lengths)[:80],
            expected="one for each sequence, such as lengths=[5, 3]",
        )
    return numbers.astype(np.int64)


def _is_raw(leaf: object) -> bool:
    return isinstance(leaf, tuple(raw_registry.BACKENDS))


def _shape(raw: RawTensor) -> tuple[int, ...]:
    return tuple(int(n) for n in raw_registry.backend_of_raw(raw).get_shape_tuple_raw(raw))


def _numbers(values: object) -> np.ndarray:
    return raw_registry.backend_of_raw(values).to_numpy_raw(values) if _is_raw(values) else np.asarray(values)


def _frames(named: Sequence[tuple[str, object]], lengths: object) -> list[_Frames]:
    """The lengths that are given, or that masks or an argument for lengths say."""
    masks = [(name, _numbers(raw)) for name, raw in named if _is_mask(name, _shape(raw))]
    if lengths is None and not masks:
        lengths = next((raw for name, raw in named if "len" in name and len(_shape(raw)) == 1), None)
    if lengths is None:
        return [_Frames(Dim(None, name="time"), mask.shape[1], _lengths_of(name, mask), name) for name, mask in masks]
    numbers = _checked(lengths)
    count, longest = len(numbers), int(numbers.max(initial=0))
    main = next((_shape(raw) for name, raw in named if count in _shape(raw)[:2] and len(_shape(raw)) > 1), ())
    sizes_after = [n for axis, n in enumerate(main) if axis != main.index(count)]
    sizes = [mask.shape[1] for _, mask in masks if len(mask) == count]
    sizes += [n for n in sizes_after if n == longest] + [n for n in sizes_after if n > longest]
    size = next(iter(sizes), None)
    if size is None:
        raise DimError(
            "check.batch_invariance: the lengths do not fit the batch",
            got=f"lengths {numbers.tolist()}, for {', '.join(f'{name} {_shape(raw)}' for name, raw in named)}",
            expected=f"an axis of {count}, one entry for each of the lengths, and one of at least {longest} frames",
        )
    return [_Frames(Dim(None, name="time"), size, numbers)]


def _is_mask(name: str, shape: tuple[int, ...]) -> bool:
    """Whether an argument says which frames of each sequence count; a square mask may be about pairs of frames."""
    return "mask" in name and len(shape) == 2 and ("pad" in name or "attention_mask" in name or shape[0] != shape[1])


def _lengths_of(name: str, mask: np.ndarray) -> np.ndarray:
    """The lengths that a mask says. Raises DimError if its frames do not stand at the beginning."""
    frames = mask != 0
    if not np.isfinite(mask).all():
        frames = np.isfinite(mask)
    elif "pad" in name or ("attention_mask" not in name and not frames[:, :1].all()):
        frames = ~frames
    lengths: np.ndarray = frames.sum(1)
    wrong = (frames != (np.arange(mask.shape[1]) < lengths[:, None])).any(1)
    if wrong.any():
        raise DimError(
            f"check.batch_invariance: the padding of {name} is not at the end",
            got=f"row {int(np.argmax(wrong))} of the mask",
            expected="the frames of each sequence first, then its padding",
            hint="lengths=[…], or a batch that is padded at the end",
        )
    return lengths


def _tensor(name: str, raw: RawTensor, batch: Dim, count: int, frames: list[_Frames], *, second: bool) -> Tensor:
    """A raw tensor with the dims of its axes. second: whether the second axis counts the sequences if both could."""
    shape = _shape(raw)
    dims: list[Dim] = [Dim(n, name=f"axis{i}") for i, n in enumerate(shape)]
    places = [i for i in (0, 1) if i < len(shape) and shape[i] == count]
    place = places[-1 if second and not _is_mask(name, shape) else 0] if places else None
    if place is not None:
        dims[place] = batch
    is_mask = any(word in name for word in ("mask", "bias"))
    for i, n in enumerate(shape):
        extents = [extent for extent in frames if extent.size == n]
        if i == place or not extents or (place is None and not is_mask):
            continue
        time = max(extents, key=lambda extent: extent.name.partition("_")[0] == name.partition("_")[0])
        if time.dim not in dims:
            dims[i] = time.dim
        elif is_mask:
            dims[i] = Dim(None, name=time.dim.name)
            dims[i].bind(Size((batch,), time.lengths, capacity=n))
    tensor = tensor_of(raw, align.sig(dims), current_lengths(dims))
    tensor.name = name
    return tensor


# -- results


@dataclass(frozen=True)
class InBatch:
    """A sequence in its batch: the number of sequences, its index, and the lengths of all."""

    count: int
    index: int
    lengths: np.ndarray

    def parts(self, together: np.ndarray, shape: tuple[int, ...], *, result: bool) -> Iterator[np.ndarray]:
        """The parts of an array of the whole batch that may be that of this sequence, of this shape.

        The most likely comes first. result: whether the array is a result of the function: its sequences are in order
        then, and padding is at the end. Inside, they may be sorted by their lengths, or positions may be relative.
        """
        if together.ndim != len(shape):
            return
        sizes = together.shape
        axes = sorted(range(len(shape)), key=lambda i: (sizes[i] != self.count or shape[i] != 1, i))
        for axis in axes:
            for part in self._along(together, axis, shape[axis], result=result):
                if all(n >= m for n, m in zip(part.shape, shape, strict=True)):
                    excess = [n - m for n, m in zip(part.shape, shape, strict=True)]
                    for start in product(*([0] if result or not n else [0, n // 2, n] for n in excess)):
                        yield part[tuple(slice(s, s + m) for s, m in zip(start, shape, strict=True))]

    def _along(self, together: np.ndarray, axis: int, size: int, *, result: bool) -> Iterator[np.ndarray]:
        """What an axis holds of this sequence, if it counts sequences, alone or together with something else."""
        total, ends = together.shape[axis], list(accumulate(self.lengths.tolist()))
        width = total // self.count
        order = np.argsort(-self.lengths, kind="stable").tolist()
        if total % self.count == 0 and size <= width:
            before, after = together.shape[:axis], together.shape[axis + 1 :]
            for index in dict.fromkeys([self.index] if result else [self.index, order.index(self.index)]):
                yield together.reshape(*before, self.count, width, *after).take(index, axis)
                if width > 1:
                    yield together.reshape(*before, width, self.count, *after).take(index, axis + 1)
        if total == ends[-1] and size == self.lengths[self.index]:
            yield together.take(range(ends[self.index] - size, ends[self.index]), axis)
            rows = [(step, index) for step in range(max(self.lengths)) for index in order if step < self.lengths[index]]
            yield together.take([i for i, row in enumerate(rows) if row[1] == self.index], axis)
