"""Restores random generators, running statistics and parameters after a call that was made only for its graph."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import numpy as np

from rfnb.core.graph.call_recorder import is_module
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.default import set_default_device_ctx
from rfnb.core.ground.nested import leaves
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.ground.tracers import drop_numbers, keep_state
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import copied_with


class Unchanged(ExitStack):
    """A block after which random generators and kept parameters have their previous state."""

    def __enter__(self) -> Unchanged:
        backend = raw_registry.selected()
        self.callback(backend.set_random_state, backend.get_random_state())
        self.callback(random.setstate, random.getstate())
        self.callback(np.random.set_state, np.random.get_state())
        self._kept: set[int] = set()
        super().__enter__()
        return self

    def keep(self, parameter: Parameter) -> None:
        """Restores a parameter at the end of the block; to be called before it is changed in place."""
        backend, raw = backend_of_raw(parameter._raw), parameter._raw
        if id(parameter) not in self._kept:
            self._kept.add(id(parameter))
            self.callback(backend.overwrite_raw, raw, backend.snapshot_raw(raw))

    def keep_held(self, models: Iterable[Any]) -> None:
        """Restores the state of foreign modules that these models contain, such as those of torch."""
        for part in _held_by(models):
            for keep in keep_state.of(type(part)):
                keep(part, self)

    def without_numbers(self, models: Iterable[Any], given: Any) -> Any:
        """Returns the given structure with tensors on the device "meta". Until the end of the block, the tensors of
        modules among `models` are there too.
        """
        self.enter_context(set_default_device_ctx("meta"))
        for tensor in _tensors_of(models):
            self.callback(setattr, tensor, "_raw", tensor._raw)
            tensor._raw = backend_of_raw(tensor._raw).without_numbers_raw(tensor._raw)
        for part in _held_by(models):
            for drop in drop_numbers.of(type(part)):
                drop(part, self)
        return copied_with(_without_numbers, given)


def _without_numbers(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    twin = leaf.like(backend_of_raw(leaf._raw).without_numbers_raw(leaf._raw))
    return twin.with_name(leaf.name)


def _tensors_of(models: Iterable[Any]) -> Iterator[Tensor]:
    """All tensors that are attributes of these modules or of modules inside them, such as parameters."""
    ids: set[int] = set()
    for leaf in _held_by(models):
        if isinstance(leaf, Tensor) and leaf.raw_tensor is not None and id(leaf) not in ids:
            ids.add(id(leaf))
            yield leaf


def _held_by(models: Iterable[Any]) -> Iterator[Any]:
    """What is in the attributes of these modules and of modules inside them."""
    for module in chain.from_iterable(model.modules() for model in models if is_module(model)):
        yield from leaves(dict(vars(module)))
