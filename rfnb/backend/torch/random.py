"""Random numbers on torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _uniform(out: torch.Tensor, generator: Any, minval: float = 0.0, maxval: float = 1.0, **_: Any) -> torch.Tensor:
    if out.dtype.is_floating_point:
        return out.uniform_(minval, maxval, generator=generator)
    return out.random_(int(minval), int(maxval), generator=generator)


def _normal(out: torch.Tensor, generator: Any, mean: float = 0.0, stddev: float = 1.0, **_: Any) -> torch.Tensor:
    return out.normal_(mean, stddev, generator=generator)


def _truncated_normal(
    out: torch.Tensor,
    generator: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    minval: float | None = None,
    maxval: float | None = None,
    **_: Any,
) -> torch.Tensor:
    low = mean - 2 * stddev if minval is None else minval
    high = mean + 2 * stddev if maxval is None else maxval
    return torch.nn.init.trunc_normal_(out, mean, stddev, low, high, generator=generator)


def _bernoulli(out: torch.Tensor, generator: Any, mean: float = 0.5, **_: Any) -> torch.Tensor:
    return out.bernoulli_(mean, generator=generator)


DISTRIBUTION: dict[str, Callable[..., torch.Tensor]] = {
    "uniform": _uniform,
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "bernoulli": _bernoulli,
}


class TorchRandom:
    """The raw part of `CreateOps.random`, and the state of the global generator."""

    @staticmethod
    def random_raw(
        shape: Sequence[int],
        dtype: str,
        device: str | None,
        distribution: str,
        generator: Any,
        seed: int | None,
        **parameters: Any,
    ) -> torch.Tensor:
        """A new tensor with numbers drawn from `generator`, or from one of its own if there is a `seed`."""
        out = torch.empty(list(shape), dtype=getattr(torch, dtype), device=device)
        if seed is not None:
            generator = torch.Generator(device=out.device).manual_seed(seed)
        given = {name: value for name, value in parameters.items() if value is not None}
        with torch.no_grad():
            return DISTRIBUTION[distribution](out, generator, **given)

    @staticmethod
    def dropout_raw(raw: torch.Tensor, drop_prob: float, shape: Sequence[int], generator: Any) -> torch.Tensor:
        """0 with probability `drop_prob`, else scaled up; `shape` has 1 where entries share their fate."""
        if drop_prob >= 1:
            return torch.zeros_like(raw)
        keep = torch.empty(list(shape), dtype=raw.dtype, device=raw.device).bernoulli_(
            1 - drop_prob, generator=generator
        )
        return raw * keep.div_(1 - drop_prob)

    @staticmethod
    def new_generator(device: str) -> torch.Generator:
        """A generator of its own, to be seeded."""
        return torch.Generator(device=device)

    @staticmethod
    def draw_seed() -> int:
        """One draw of the global generator."""
        return int(torch.randint(2**62, ()).item())

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Seeds the global generator."""
        torch.manual_seed(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """The state of the global generator."""
        return {"cpu": bytes(torch.get_rng_state().numpy())}

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Back to a state from `get_random_state`."""
        torch.set_rng_state(torch.frombuffer(bytearray(state["cpu"]), dtype=torch.uint8))
