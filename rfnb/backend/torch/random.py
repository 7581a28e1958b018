"""Random numbers on torch; random functions of torch in the body of a loop: seeded anew at every step, or refused."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from rfnb.backend.base.create import one_seed
from rfnb.backend.torch.data import dtype_of, placed

Parameter = torch.Tensor | float


def _uniform(
    out: torch.Tensor, generator: torch.Generator | None, minval: Parameter = 0, maxval: Parameter = 1
) -> None:
    integers = not out.dtype.is_floating_point
    if not isinstance(minval, torch.Tensor) and not isinstance(maxval, torch.Tensor):
        if integers:
            out.random_(int(minval), int(maxval), generator=generator)
        else:
            out.uniform_(minval, maxval, generator=generator)
        return
    sample = torch.empty_like(out, dtype=torch.float64 if integers else None).uniform_(generator=generator)
    sample = sample * (maxval - minval) + minval
    out.copy_(torch.minimum(sample.floor(), torch.as_tensor(maxval) - 1) if integers else sample)


def _normal(
    out: torch.Tensor, generator: torch.Generator | None, mean: Parameter = 0.0, stddev: Parameter = 1.0
) -> None:
    if isinstance(mean, torch.Tensor) or isinstance(stddev, torch.Tensor):
        out.copy_(out.normal_(generator=generator) * stddev + mean)
    else:
        out.normal_(mean, stddev, generator=generator)


def _truncated_normal(
    out: torch.Tensor,
    generator: torch.Generator | None,
    mean: object = 0.0,
    stddev: object = 1.0,
    minval: object = None,
    maxval: object = None,
) -> None:
    """Drawn by the inverse of the distribution function, from uniform numbers between its values at the limits."""
    sample = torch.empty_like(out, dtype=torch.promote_types(out.dtype, torch.float32))

    def number(x: object) -> torch.Tensor:
        return torch.as_tensor(x, dtype=sample.dtype, device=sample.device)

    mean, stddev = number(mean), number(stddev)
    low = mean - 2 * stddev if minval is None else number(minval)
    high = mean + 2 * stddev if maxval is None else number(maxval)
    begin, end = (torch.erf((limit - mean) / (stddev * math.sqrt(2))) for limit in (low, high))
    sample = sample.uniform_(generator=generator) * (end - begin) + begin
    sample = torch.erfinv(sample) * math.sqrt(2) * stddev + mean
    out.copy_(torch.minimum(torch.maximum(sample, low), high))


def _bernoulli(out: torch.Tensor, generator: torch.Generator | None, mean: Parameter = 0.5) -> None:
    if isinstance(mean, torch.Tensor):
        mean = mean.expand(out.shape).to(torch.promote_types(mean.dtype, torch.float32))
    out.bernoulli_(mean, generator=generator)


DISTRIBUTION: dict[str, Callable[..., None]] = {
    "uniform": _uniform,
    "normal": _normal,
    "truncated_normal": _truncated_normal,
    "bernoulli": _bernoulli,
}


def draw_(
    out: torch.Tensor, distribution: str, generator: torch.Generator | None, seed: Any, parameters: Mapping[str, object]
) -> object:
    """Fills `out` with numbers from `generator`, or from a new one if a seed is given."""
    if has_torch_function_unary(out):  # a single raw call for recorders of raw calls, seeded anew each time
        return handle_torch_function(draw_, (out,), out, distribution, generator, seed, parameters)
    if isinstance(seed, torch.Tensor):
        seed = one_seed(seed.reshape(-1).tolist())
    if seed is not None:
        generator = TorchRandom.new_generator(str(out.device)).manual_seed(seed)
    with torch.no_grad():
        DISTRIBUTION[distribution](out, generator, **parameters)
    return out


class TorchRandom:
    """The raw part of `backend.base.create`, and the state of the global generators."""

    draw_raw = staticmethod(draw_)

    @staticmethod
    def empty_raw(shape: Sequence[int], dtype: str, device: str | None) -> torch.Tensor:
        """A new uninitialized tensor."""
        return torch.empty(list(shape), dtype=dtype_of(dtype), device=placed(device))

    @staticmethod
    def dropout_raw(
        raw: torch.Tensor, drop_prob: float, shape: Sequence[int], generator: torch.Generator | None
    ) -> torch.Tensor:
        """Entries set to 0 with probability `drop_prob`, else scaled up; `shape` has 1 along shared axes."""
        if drop_prob >= 1:
            return torch.zeros_like(raw)
        keep = torch.empty(list(shape), dtype=raw.dtype, device=raw.device).bernoulli_(
            1 - drop_prob, generator=generator
        )
        return raw * keep.div_(1 - drop_prob)

    @staticmethod
    def new_generator(device: str) -> torch.Generator:
        """A new generator, to be seeded. On the device "meta", any generator will do."""
        return torch.Generator(device="cpu" if device == "meta" else device)

    @staticmethod
    def draw_seed() -> int:
        """A seed drawn from the global generator."""
        return int(torch.randint(2**62, ()).item())

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Seeds the global generator."""
        torch.manual_seed(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """The states of the global generators, by device: "cpu", "cuda:0", …"""
        states = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            states |= {f"cuda:{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
        # read from memory, since torch.func forbids .numpy()
        return {device: ctypes.string_at(state.data_ptr(), state.numel()) for device, state in states.items()}

    @staticmethod
    def set_random_state(state: Mapping[str, bytes]) -> None:
        """Back to a state from `get_random_state`; missing devices are skipped."""
        for device, values in state.items():
            raw = torch.frombuffer(bytearray(values), dtype=torch.uint8)
            if device == "cpu":
                torch.set_rng_state(raw)
            elif torch.device(device).index < torch.cuda.device_count():
                torch.cuda.set_rng_state(raw, device)


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


def drops(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether this call of one of DROPS draws random numbers."""
    if name == "scaled_dot_product_attention":
        return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    place = 4 if name == "rrelu" else 2
    flag = args[place] if len(args) > place else name != "rrelu"
    return bool(kwargs.get("training", kwargs.get("train", flag)))


class Seeded:
    """f(…, seeded_by=generator) → fn(…), with the global generator in the state of `generator`, restored afterwards."""

    def __init__(self, fn: Callable[..., object]):
        self._fn = fn

    def __call__(self, *args: object, seeded_by: torch.Generator, **kwargs: object) -> object:
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
