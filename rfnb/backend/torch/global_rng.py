"""Random functions of torch in the body of a loop: seeded anew at every step, or refused."""

from __future__ import annotations

from typing import Any

import torch

DRAWS = {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial",
    "normal", "poisson", "uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_",
    "geometric_",
}  # fmt: skip
"""Functions that take a generator."""
DROPS = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "feature_dropout",
    "dropout_", "alpha_dropout_", "feature_dropout_", "rrelu", "scaled_dot_product_attention",
}  # fmt: skip
"""Functions that may draw from the global generator."""


def drops(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this call of one of DROPS draws random numbers."""
    if name == "scaled_dot_product_attention":
        return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    place = 4 if name == "rrelu" else 2
    flag = args[place] if len(args) > place else name != "rrelu"
    return bool(kwargs.get("training", kwargs.get("train", flag)))


class Seeded:
    """f(…, seeded_by=generator) → fn(…), with the global generator in the state of `generator`, restored afterwards."""

    def __init__(self, fn: Any):
        self._fn = fn

    def __call__(self, *args: Any, seeded_by: torch.Generator, **kwargs: Any) -> Any:
        """The result of `fn`."""
        generator = _global(seeded_by.device)
        state = generator.get_state()
        generator.set_state(seeded_by.get_state())
        try:
            return self._fn(*args, **kwargs)
        finally:
            generator.set_state(state)


def global_generators() -> list[torch.Generator]:
    """The global generators: that of the CPU, and those of the GPUs once one is in use."""
    return [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]


def _global(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    generator: torch.Generator = torch.cuda.default_generators[device.index or 0]
    return generator
