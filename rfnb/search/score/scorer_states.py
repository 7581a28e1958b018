"""What a choice carries for its scorers from step to step: their states, and the last label of each hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import arranged, leaves, map_leaves, named_leaves, same_structure
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, LoopError, ParameterError
from rfnb.loop.body.body import Body
from rfnb.ops.math import where
from rfnb.ops.shape import set_sparse_dim
from rfnb.trace.record.traced import Traced


class CarriedState:
    """A state, possibly nested, which follows the hypotheses. before: its value before the step, for the newest
    hypotheses."""

    def __init__(self, body: Body, name: str, initial: Any):
        assert body.hypotheses is not None
        self.body, self.name, self.hypotheses = body, name, body.hypotheses
        self.initial = initial
        self.places = [None if leaf is None else self._carry(leaf) for leaf in leaves(initial)]
        befores = iter([None if place is None else body.carried[place].before for place in self.places])
        self.before = map_leaves(lambda _: self._followed(next(befores)), initial)

    def _carry(self, leaf: Any) -> int:
        if not isinstance(leaf, Tensor) or isinstance(leaf, Traced):
            kind = "an axis that grows" if isinstance(leaf, Dim) else f"a {type(leaf).__name__}"
            kind = "a value of the loop around this one" if isinstance(leaf, Traced) else kind
            raise LoopError(
                f"{self.body.loop.name}: the initial state of the scorer {self.name!r} has {kind}",
                got=leaf,
                expected="Tensors from outside of the loop",
                hint=f"carry the state yourself, loop.state.{self.name} = …, and give its scores: "
                f'{{"{self.name}": ({self.name}_scores, scale)}}',
            )
        return self.body.carry("search", leaf, leaf.dtype, leaf._raw)

    def _followed(self, before: Traced | None) -> Any:
        return None if before is None else self.hypotheses.follow(before)

    @property
    def newest(self) -> Any:
        """Its value after the step so far, for the newest hypotheses."""
        values = iter([None if place is None else self._at(place) for place in self.places])
        return map_leaves(lambda _: next(values), self.initial)

    def _at(self, place: int) -> Any:
        value, like = self.hypotheses.follow(self.hypotheses.carried[place]), self.body.carried[place].before
        return value if value.sparse_dim is like.sparse_dim else set_sparse_dim(value, like.sparse_dim)

    def take(self, new: Any, emitted: Tensor | None = None) -> None:
        """Sets the value after the step. Raises LoopError or DimError if it does not fit the initial state.

        emitted: which hypotheses got a label, {…, beam}; others keep what they had.
        """
        new = arranged(new, self.initial)
        old = named_leaves(self.initial)
        if not same_structure(self.initial, new) or any(
            (a is None) != (b is None) for (_, a), b in zip(old, leaves(new), strict=True)
        ):
            raise LoopError(
                f"{self.body.loop.name}: the new state of the scorer {self.name!r} has a different structure",
                got=", ".join(name or "one value" for name, _ in named_leaves(new)),
                expected=", ".join(name or "one value" for name, _ in old),
            )
        for place, (name, was), value, before in zip(self.places, old, leaves(new), leaves(self.before), strict=True):
            if place is not None:
                after = value if emitted is None else where(emitted, self._follow(value), self._follow(before))
                self._take(place, name, was, after)

    def _follow(self, value: Any) -> Any:
        return self.hypotheses.follow(self.body.of_body(value, f"the state of the scorer {self.name!r}"))

    def _take(self, place: int, name: str, was: Tensor, value: Any) -> None:
        after = self.body.of_body(value, f"the state of the scorer {self.name!r}")
        if set(self._beam_as_state(after)) != set(was.dims):
            raise DimError(
                f"{self.body.loop.name}: the state {name or ''} of the scorer {self.name!r} changes its dims",
                got=after.describe_dims(),
                expected=was.describe_dims(),
            )
        self.hypotheses.carried[place] = after

    def _beam_as_state(self, value: Tensor) -> list[Dim]:
        beams = {choice.after for choice in self.hypotheses.choices}
        return [self.hypotheses.beam if dim in beams else dim for dim in value.dims]


def carried_label(body: Body, axis: Dim, start: Any) -> CarriedState:
    """The last label that a choice gave each hypothesis. {…, beam}"""
    assert body.hypotheses is not None
    dims = body.hypotheses.dims
    like = body.carried[body.hypotheses.search.scores_place].before.plain
    with body.untraced():
        numbers = np.full([like.size_of(dim).max for dim in dims], _number_of(start, axis), "int64")
        raw = body.backend.from_numpy_raw(numbers, like.device)
        return CarriedState(body, "label", tensor_of(raw, align.sig(dims, axis), like.lengths))


def _number_of(start: Any, axis: Dim) -> int:
    """The number of the first label."""
    size = axis.get_dim_value()
    if isinstance(start, str) and axis.vocab is not None:
        return axis.vocab.encode([start])[0]
    if not isinstance(start, int | np.integer) or not 0 <= start < size:
        raise ParameterError(
            "choice: `start` is not a label", got=start, expected=f"a label of {axis.name}, below {size}"
        )
    return int(start)
