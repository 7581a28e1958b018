"""Parameters that differ for one call of a layer: with noise, with dropout, or the outputs of other layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.ops.dims import dim_match_priority_when_needed
from rfnb.ops.random import dropout, random_normal
from rfnb.ops.shape import replace_dim

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer

Renaming = list[tuple[Dim, Dim]]


@dataclass(eq=False)
class Changes:
    """What a layer does to its parameters in each call.

    Attributes:
        dropout: the share of entries that are 0 in training, of parameters with `min_ndim` axes or more. noise: the
            standard deviation of what is added in training (Graves 2011).
        given: by the names of parameters, the inputs of the layer that stand for them, and the dims that they get.
        shared: by name, the dims that parameters of another layer get here, where theirs are others.
        now: the parameters of the current call, by name. held: whether they stay for all steps of a loop.
    """

    dropout: float = 0.0
    min_ndim: int = 0
    noise: float = 0.0
    given: dict[str, tuple[str, Renaming]] = field(default_factory=dict)
    shared: dict[str, Renaming] = field(default_factory=dict)
    now: dict[str, Tensor] = field(default_factory=dict)
    held: bool = False

    def __bool__(self) -> bool:
        return bool(self.dropout or self.noise or self.given or self.shared)

    @property
    def of_values(self) -> bool:
        """Whether the parameters of a call have other values, and not only other dims."""
        return bool(self.dropout or self.noise or self.given)

    def of(self, name: str, parameter: Tensor) -> Tensor:
        """A parameter with the dims of this layer, and with dropout and noise, if this is training."""
        x = renamed(parameter, self.shared.get(name))
        if not get_run_ctx().is_train_flag_enabled() or not getattr(parameter, "trainable", True):
            return x
        if self.dropout and len(x.dims) >= self.min_ndim:
            x = dropout(x, self.dropout, axis=list(x.dims))
        if self.noise:
            x = x + random_normal(x.dims, stddev=self.noise, dtype=x.dtype, device=x.device)
        return x


@contextmanager
def changed_parameters(layer: Layer, inputs: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Inside, the layer has the parameters of one call. Gives the inputs that are not parameters."""
    changes = layer.spec.changes
    assert changes is not None
    plain_inputs = {name: x for name, x in inputs.items() if all(name != key for key, _ in changes.given.values())}
    if changes.held:
        yield plain_inputs
        return
    parameters = {name: part for name, part in vars(layer).items() if isinstance(part, Parameter)}
    previous = {**parameters, **{name: vars(layer)[name] for name in changes.given}}
    changed = {name: changes.of(name, part) for name, part in parameters.items()}
    for name, (key, pairs) in changes.given.items():
        if key in inputs:
            changed[name] = changes.of(name, renamed(inputs[key], pairs))
    changes.now = {name: x for name, x in changed.items() if x is not parameters.get(name)}
    vars(layer).update(changes.now)
    try:
        yield plain_inputs
    finally:
        vars(layer).update(previous)
        changes.now = {}


@contextmanager
def held_parameters(layer: Layer) -> Iterator[None]:
    """Inside, all calls of the layer have the same noise and dropout: those of the steps of a loop."""
    changes = layer.spec.changes
    assert changes is not None
    with changed_parameters(layer, {}):
        changes.held = True
        try:
            yield
        finally:
            changes.held = False


def renaming(x: Tensor, dims: Sequence[Dim]) -> Renaming:
    """Which dims of a layer's output, in their declared order, become those of a parameter: first others, then these.

    Raises NetworkError if the sizes differ.
    """
    if [dim.dimension for dim in x.dims] != [dim.dimension for dim in dims]:
        expected = ", ".join(dim.describe() for dim in dims)
        raise NetworkError(
            "a layer in the place of a parameter has other dims", got=x.describe_dims(), expected=expected
        )
    between = [Dim(dim.dimension, name=dim.name) for dim in dims]
    return [*zip(x.dims, between, strict=True), *zip(between, with_priorities(dims), strict=True)]


def with_priorities(dims: Sequence[Dim]) -> list[Dim]:
    """The dims of a parameter: of equal ones, all but the last have a higher match priority."""
    return [dim_match_priority_when_needed(dim, *dims[i + 1 :]) for i, dim in enumerate(dims)]


def input_first(weight: Tensor, out: Dim, into: Dim, dim: Dim) -> Tensor:
    """A weight with equal dims of input and output, where that of the input has the higher priority, as ops want it.

    out, into: those of the weight now. dim: both of them, without a priority.
    """
    between = Dim(dim.dimension, name="out")
    return renamed(weight, [(out, between), (into, dim.copy(match_priority=1)), (between, dim)])


def renamed(x: Tensor, pairs: Any) -> Tensor:
    """The tensor with other dims, by pairs of an old and a new one."""
    for old, new in pairs or ():
        x = replace_dim(x, in_dim=old, out_dim=new)[0]
    return x
