"""Norms of gradients by parameter, by module, and of the whole model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError


class GradientNorms(Shown):
    """The result of `rf.gradient_norms`.

    Args:
        model: whose they are.
        parameters: by path, of what is trained; None where there is no gradient.
        weights: by path, the norms of the values.
        empty: by path, why a parameter has no values: "no shape yet" or "on meta".
    """

    def __init__(
        self,
        model: Any,
        parameters: Mapping[str, float | None],
        weights: Mapping[str, float],
        empty: Mapping[str, str] | None = None,
    ):
        self.model, self.parameters, self.weights = model, dict(parameters), dict(weights)
        self.empty = dict(empty or {})

    @property
    def total(self) -> float:
        """The norm of all gradients together, which `torch.nn.utils.clip_grad_norm_` compares with its limit."""
        return joined(self.parameters.values())

    @property
    def modules(self) -> dict[str, float]:
        """Norms by path of module, over all parameters in and below it."""
        return {path: self.below(path, self.parameters) for path, _ in self.model.named_modules()}

    @property
    def bad(self) -> dict[str, str]:
        """Anomalies by path: "NaN", "Inf", "no gradient", "zero", "no shape yet", "on meta"."""
        words = {path: self.empty.get(path) or verdict(norm) for path, norm in self.parameters.items()}
        return {path: word for path, word in words.items() if word}

    def below(self, module: str, norms: Mapping[str, float | None]) -> float:
        """The norms of parameters below the path of a module."""
        return joined(norm for path, norm in norms.items() if not module or path.startswith(f"{module}."))


def joined(norms: Any) -> float:
    """The joint norm of parts with these norms."""
    return math.sqrt(sum(norm * norm for norm in norms if norm is not None))


def verdict(norm: float | None) -> str:
    """The anomaly of a norm; "" if there is none.

    >>> [verdict(norm) for norm in (None, 0.0, float("nan"), float("inf"), 0.1)]
    ['no gradient', 'zero', 'NaN', 'Inf', '']
    """
    if norm is None:
        return "no gradient"
    return "NaN" if math.isnan(norm) else "Inf" if math.isinf(norm) else "" if norm else "zero"


def gradient_norms(model: Any) -> GradientNorms:
    """The gradient norms of a module of rfnb or torch."""
    if not hasattr(model, "named_parameters"):
        raise ParameterError(
            "gradient_norms: `model` is not a module", got=type(model).__name__, expected="a module of rfnb or torch"
        )
    from torch.nn.parameter import is_lazy

    trained = {path: raw for path, raw in _raws(model) if raw.requires_grad}
    empty = {p: "no shape yet" if is_lazy(x) else "on meta" for p, x in trained.items() if is_lazy(x) or x.is_meta}
    raws = {path: raw for path, raw in trained.items() if path not in empty}
    grads = {path: raw.grad for path, raw in raws.items() if raw.grad is not None}
    values = _norms([*grads.values(), *raws.values()])
    norms = dict(zip(grads, values, strict=False))
    weights = dict(zip(raws, values[len(grads) :], strict=True))
    return GradientNorms(model, {path: norms.get(path) for path in trained}, weights, empty)


def _raws(model: Any) -> Any:
    for path, parameter in model.named_parameters():
        yield path, parameter.raw_tensor if isinstance(parameter, Parameter) else parameter


def _norms(raws: list[Any]) -> list[float]:
    """Norms of tensors, read from the device in one transfer."""
    import torch

    with torch.no_grad():
        norms = [raw.detach().norm(dtype=torch.float32 if raw.element_size() < 4 else None) for raw in raws]
        if len({(norm.device, norm.dtype) for norm in norms}) > 1:
            return [float(norm) for norm in norms]
        return torch.stack(norms).tolist() if norms else []
