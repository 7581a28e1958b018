"""What is no weight, but changes what a module of torch gives: compared, or taken over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rfnb.errors import CheckpointError
from rfnb.nn.module import Module

_ROTARY_BASE = 10_000.0


def other_eps(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> dict[str, float]:
    """The `eps` of norms that have another one in `source`, by name.

    pairs: from the names of parameters to those of weights that they are made of.
    """
    found = {}
    for name, weight in pairs.items():
        path, theirs = name.rpartition(".")[0], source.get_submodule(weight.rpartition(".")[0])
        here = getattr(module.get_deep(path), "eps", None)
        there = getattr(theirs, "eps", getattr(theirs, "variance_epsilon", None))
        if here is not None and there is not None and here != there:
            found[f"{path}.eps".lstrip(".")] = float(there)
    return found


def check(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> None:
    """Raises CheckpointError if `source` computes in a way that `module` does not."""
    for name, weight in pairs.items():
        for path, theirs in _around(source, weight):
            if getattr(theirs, "norm_first", True) is False:
                raise CheckpointError(
                    f"import_weights: {path or 'the layer'} has its norms behind the parts",
                    got="norm_first=False",
                    expected="norm_first=True: the norm before each part, as here",
                )
        for what, here, there in _compared(module, name, [theirs for _, theirs in _around(source, weight)][:2]):
            if here is not None and there is not None and here != there:
                raise CheckpointError(
                    f"import_weights: {name} is for another {what}", got=f"{there} in {weight}", expected=here
                )
    for name, angles in source.named_buffers():
        if name.rpartition(".")[2] == "inv_freq" and not torch.allclose(angles.cpu().float(), _usual(len(angles))):
            raise CheckpointError(
                f"import_weights: {name} turns by other angles", expected=f"rotary positions with base {_ROTARY_BASE:g}"
            )


def _around(source: torch.nn.Module, weight: str) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that a weight is in, the innermost first."""
    path = weight
    while path:
        path = path.rpartition(".")[0]
        yield path, source.get_submodule(path)


def _compared(
    module: Module, name: str, theirs: Sequence[torch.nn.Module]
) -> Iterator[tuple[str, int | str | None, int | str | None]]:
    """What the module of a weight, or the one that this is in, does here and there; None where nothing is known."""
    ours = module.get_deep(".".join(name.split(".")[:-2]))
    heads = getattr(ours, "num_heads", None)
    if heads is not None:
        configs = [getattr(owner, "config", None) for owner in theirs]
        found = _first(theirs, "num_heads"), _first(configs, "num_attention_heads")
        yield "number of heads", heads.dimension, next((n for n in found if isinstance(n, int)), None)
    if hasattr(ours, "activation"):
        function = _first(theirs, "activation") or _first(theirs, "act_fn")
        yield "activation", _called(ours.activation), _called(function)


def _first(owners: Sequence[Any], attribute: str) -> Any:
    return next((getattr(owner, attribute) for owner in owners if hasattr(owner, attribute)), None)


def _called(function: Any) -> str | None:
    """ "relu" for torch.nn.ReLU() and functions of that name; None if it has none."""
    name = getattr(function, "__name__", type(function).__name__).lower().removesuffix("activation")
    return None if function is None or "lambda" in name else name


def _usual(count: int) -> torch.Tensor:
    return _ROTARY_BASE ** (-torch.arange(count) / max(count, 1))
