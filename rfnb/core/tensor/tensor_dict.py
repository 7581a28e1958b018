"""Tensors by name: the state of a recurrent module, and batches."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from functools import lru_cache
from numbers import Number
from types import ModuleType
from typing import Any

from rfnb.core.dims.binding import bind_again
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground import backends
from rfnb.core.ground.nested import form_of, leaves, named_parts
from rfnb.core.ground.show import Shown
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import DimError, ParameterError


class State(Shown, dict[str, Any]):
    """A dict whose entries are attributes as well: `state.h`, `state["h"]`.

    >>> State(h=1, c=2).h
    1
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the state has no {name!r}, but {sorted(self)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


START = "start with state=module.default_initial_state(batch_dims=[…])"
"""How a state begins, for messages."""


def check_state(state: object, what: str, parts: Iterable[str] = (), *, start: str = START) -> None:
    """Raises ParameterError if `state` is not a State, or lacks one of `parts`.

    what: the argument, for the message: "LSTM: `state`". start: how to begin.
    """
    if not isinstance(state, State):
        raise ParameterError(f"{what} is not an rf.State", got=type(state).__name__, expected="an rf.State", hint=start)
    for part in parts:
        if state.get(part) is None:
            raise state_of_another(state, what, f"it has no {part!r}", parts, start=start)


def state_of_another(state: State, what: str, why: str, parts: Iterable[str], *, start: str = START) -> ParameterError:
    """The error for a state that does not belong to a module. what: the argument. why: how that is seen."""
    got = f"{type(state).__name__} with {', '.join(map(str, state)) or 'nothing'}"
    return ParameterError(
        f"{what} is not a state of this module: {why}", got=got, expected=", ".join(parts), hint=start
    )


class TensorDict(Shown):
    """Tensors by name: a batch as a data loader returns it and a model receives it.

    >>> feat = rf.Dim(2, name="feat")
    >>> batch = rf.TensorDict({"x": rf.ones([feat])})
    >>> batch.update([rf.Tensor("y", [feat], "int64")])
    >>> list(batch), list(batch.as_raw_tensor_dict())
    (['x', 'y'], ['x'])

    Args:
        data: a dict of tensors, or a list of them, each stored under its own name.
    """

    def __init__(self, data: Mapping[str, Tensor] | Sequence[Tensor] | TensorDict | None = None):
        self.data: dict[str, Tensor] = {}
        self.update(data or {})

    def update(self, data: Mapping[str, object] | Sequence[Tensor] | TensorDict, *, auto_convert: bool = False) -> None:
        """Adds tensors. A new one replaces one of the same name.

        auto_convert: whether dicts become templates, with their items as arguments of `rf.Tensor`.

        >>> feat = rf.Dim(2, name="feat")
        >>> batch = rf.TensorDict({"x": rf.zeros([feat])})
        >>> batch.update({"x": rf.ones([feat]), "y": rf.ones([])})
        >>> list(batch), batch["x"].raw_tensor.tolist()
        (['x', 'y'], [1.0, 1.0])
        """
        if isinstance(data, TensorDict):
            data = data.data
        for name, tensor in data.items() if isinstance(data, Mapping) else [(x.name, x) for x in data]:
            if auto_convert and isinstance(tensor, Mapping):
                tensor = Tensor(name, **tensor)
            if not isinstance(tensor, Tensor):
                raise DimError(
                    f"TensorDict: {name!r} is not an rf.Tensor",
                    got=type(tensor).__name__,
                    expected="an rf.Tensor, which has dims",
                    hint="rf.convert_to_tensor(raw, dims=[…])",
                )
            self.data[name] = tensor

    def __getitem__(self, name: str) -> Tensor:
        """Returns a tensor, and binds its dims to the lengths of this batch, even if a newer batch exists."""
        try:
            tensor = self.data[name]
        except KeyError:
            raise DimError(f"the batch has no {name!r}", expected=", ".join(self.data)) from None
        bind_again(tensor.dims, tensor.lengths)
        return tensor

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        self.data[name] = tensor

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def all_dims(self) -> list[Dim]:
        """All dims of the tensors, each once.

        >>> time, feat = rf.Dim([5, 2], name="time"), rf.Dim(3, name="feat")
        >>> batch = rf.TensorDict({"x": rf.ones([rf.batch_dim, time, feat]), "y": rf.ones([rf.batch_dim])})
        >>> batch.all_dims()
        [Dim{batch:2}, Dim{time:2–5}, Dim{feat:3}]
        """
        return list(dict.fromkeys(dim for tensor in self.data.values() for dim in tensor.dims))

    @property
    def tags(self) -> list[str] | None:
        """The names of the sequences, in batch order, if they have any."""
        sizes = (x.lengths.size(dim) for x in self.data.values() for dim in x.dims)
        return next((list(size.tags) for size in sizes if size is not None and size.tags is not None), None)

    def copy_template(self) -> TensorDict:
        """A TensorDict of templates: the same names, dims and dtypes, without data.

        >>> batch = rf.TensorDict({"x": rf.ones([rf.Dim(2, name="feat")])})
        >>> template = batch.copy_template()
        >>> template["x"].raw_tensor is None, template["x"].describe_dims()
        (True, '{feat:2}')
        """
        return TensorDict({name: tensor.copy_template() for name, tensor in self.data.items()})

    def reset_content(self) -> None:
        """Drops the data and the sizes of the dims; names, dims and dtypes stay. Other tensors are not changed.

        >>> time = rf.Dim(None, name="time")
        >>> batch = rf.TensorDict({"x": rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])})
        >>> batch.reset_content()
        >>> batch.data["x"].raw_tensor is None, time
        (True, Dim{time:?})
        """
        self.data = self.copy_template().data
        for dim in self.all_dims():
            dim.reset_raw(include_parents=True)

    # -- for code that works with raw tensors

    def as_raw_tensor_dict(self) -> dict[str, Any]:
        """The raw tensors by name, and the lengths of their axes: "x:size1" holds the lengths of axis 1 of "x".

        >>> time = rf.Dim(None, name="time")
        >>> batch = rf.TensorDict({"x": rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])})
        >>> {name: raw.tolist() for name, raw in batch.as_raw_tensor_dict().items()}
        {'x': [[1, 2], [3, 0]], 'x:size0': 2, 'x:size1': [2, 1]}
        """
        raws: dict[str, RawTensor] = {}
        for name, tensor in self.data.items():
            if tensor.raw_tensor is None:
                continue
            raws[name] = tensor.raw_tensor
            backend = backends.backend_of_raw(tensor.raw_tensor)
            for axis, dim in enumerate(tensor.dims):
                if dim.is_dynamic():
                    raws[f"{name}:size{axis}"] = backend.from_numpy_raw(tensor.size_of(dim).values, None)
        return raws

    def assign_from_raw_tensor_dict_(self, raws: Mapping[str, RawTensor]) -> None:
        """Sets data and lengths from a dict like the one that `as_raw_tensor_dict` returns.

        Lengths given for an axis of one tensor apply to its dim in all tensors.

        >>> time = rf.Dim(None, name="time")
        >>> batch = rf.TensorDict([rf.Tensor("x", [rf.batch_dim, time], "int64")])
        >>> batch.assign_from_raw_tensor_dict_({"x": torch.tensor([[1, 2], [3, 0]]), "x:size1": torch.tensor([2, 1])})
        >>> batch["x"].describe_dims()
        '{batch:2, time:1–2}'
        """
        for name, tensor in self.data.items():
            for axis, dim in enumerate(tensor.dims):
                sizes = raws.get(f"{name}:size{axis}")
                if sizes is not None and dim.is_dynamic() and dim.expr is None:
                    self._bind(name, tensor, dim, sizes)
        for name, tensor in self.data.items():
            if name in raws:
                tensor.raw_tensor = raws[name]

    def _bind(self, name: str, tensor: Tensor, dim: Dim, given: object) -> None:
        values = backends.backend_of_raw(given).to_numpy_raw(given)
        size = tensor.lengths.size(dim) or dim.template
        owners = size.dims if size is not None and size.dims else tensor.dims[: values.ndim]
        if values.ndim != len(owners):
            raise DimError(
                f"the lengths of {dim.name} in {name!r} have the wrong number of axes",
                got=values.shape,
                expected=owners,
            )
        dim.bind(Size(owners, values))


def as_dicts(tree: object, *, seen: dict[int, object] | None = None, depth: int = 0) -> Any:
    """All that a structure holds, as plain dicts and lists, without binding dims: also what is in TensorDicts, other
    mappings, sets and queues, and in the attributes of objects, each of which counts once.
    """
    seen = {} if seen is None else seen
    parts = _named_parts(tree) if depth < 50 else None
    if parts is None:
        return tree
    if id(tree) in seen:
        return None
    seen[id(tree)] = tree
    named = [(name, as_dicts(part, seen=seen, depth=depth + 1)) for name, part in parts]
    if form_of(type(tree)) is not None:  # the same list may be in two places, but not in itself
        del seen[id(tree)]
    if isinstance(tree, list | tuple):
        values = [part for _, part in named]
        return tree._make(values) if hasattr(tree, "_make") else tuple(values) if isinstance(tree, tuple) else values
    return dict(named)


def copied_with(fn: Callable[[Any], object], tree: object) -> object:
    """A copy of a structure, and of all objects in it, with the results of `fn` for its leaves."""
    return copy.deepcopy(tree, {id(leaf): fn(leaf) for leaf in leaves(as_dicts(tree))})


def _named_parts(tree: object) -> Iterable[tuple[object, object]] | None:
    """The parts of an object with their names; None for a leaf."""
    if isinstance(tree, TensorDict):
        return tree.data.items()
    parts = named_parts(tree)
    if parts is not None or not _has_parts(type(tree)):
        return parts
    if isinstance(tree, Mapping):
        return tree.items()
    if isinstance(tree, Set | deque):
        return enumerate(tree)
    slots = [(name, getattr(tree, name)) for name in _slots(type(tree)) if hasattr(tree, name)]
    return [*getattr(tree, "__dict__", {}).items(), *slots] or None


def _is_taken_apart(cls: type) -> bool:
    without = (Tensor, Dim, str, bytes, bytearray, Number, Enum, type, ModuleType, *backends.BACKENDS)
    if issubclass(cls, without) or hasattr(cls, "named_modules") or cls.__module__.startswith("rfnb."):
        return False
    return not any("__call__" in vars(base) for base in cls.__mro__)


_has_parts: Callable[[type], bool] = lru_cache(1024)(_is_taken_apart)
"""Whether objects of a class are taken apart: not numbers, texts, tensors, modules, functions or rfnb's own."""


def _slots(cls: type) -> list[str]:
    slots = [vars(base).get("__slots__", ()) for base in cls.__mro__]
    names = [name for slot in slots for name in ([slot] if isinstance(slot, str) else slot)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]
