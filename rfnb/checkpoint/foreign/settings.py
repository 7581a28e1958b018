"""Settings that are not weights but change the results of a model, of torch modules and in configs of Hugging Face."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from rfnb.errors import CheckpointError
from rfnb.nn.attention import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
from rfnb.nn.bridge.mirror import Mirror
from rfnb.nn.cells.simple import GRU
from rfnb.nn.module.module import Module


def adopted(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> dict[str, float]:
    """The eps of norms and the bases of rotary positions that differ in `source`, by name.

    pairs: from the names of parameters to those of the weights that they are made of. Raises CheckpointError if the
    angles of rotary positions do not follow from a base.
    """
    settings = {}
    bases = [_base(x, name) for name, x in source.named_buffers() if name.rpartition(".")[2] == "inv_freq"]
    for name, weight in pairs.items():
        path, part = name.rpartition(".")[0], _part(source, weight.rpartition(".")[0])
        eps = getattr(module.get_deep(path), "eps", None)
        new_eps = getattr(part, "eps", getattr(part, "variance_epsilon", None))
        if eps is not None and new_eps is not None and eps != new_eps:
            settings[f"{path}.eps".lstrip(".")] = float(new_eps)
        outer = path.rpartition(".")[0]
        ours = module.get_deep(outer)
        if isinstance(ours, RotaryPosSelfAttention | RotaryPosCausalSelfAttention) and bases and ours.base != bases[0]:
            settings[f"{outer}.base".lstrip(".")] = bases[0]
    return settings


def _base(angles: torch.Tensor, name: str) -> float:
    """The base of the angles of the first position, which are base to the power of 0, -1/count, -2/count, …"""
    angles, count = angles.detach().cpu().double(), len(angles)
    exact = float(angles[1]) ** -count if count > 1 else 10_000.0
    for base in (float(f"{exact:.4g}"), exact):
        if torch.allclose(angles, base ** (-torch.arange(count, dtype=torch.float64) / count), rtol=1e-4, atol=0):
            return base
    raise CheckpointError(f"import_weights: {name} has other angles", expected="angles that follow from a base")


def check_resets(module: Module, names: Collection[str]) -> None:
    """Raises CheckpointError if weights of torch's GRU, which resets after the product, are for one that resets before.

    names: the weights that were not used.
    """
    for path, part in module.named_modules():
        if isinstance(part, GRU) and not part.reset_after and f"{path}.weight_hh".lstrip(".") in names:
            raise CheckpointError(
                f"import_weights: {path or 'the GRU'} resets the state before the product, but torch's GRU after it",
                got="reset_after=False",
                expected="reset_after=True",
                hint="rf.GRU(…, reset_after=True)",
            )


def check(pairs: Mapping[str, str], module: Module, source: torch.nn.Module) -> None:
    """Raises CheckpointError if `source` computes something different from `module`."""
    for name, weight in pairs.items():
        _check_norms(_norm_first(module, name), source, weight)
        for title, ours, value in _compared(module, name, [part for _, part in _around(source, weight)][:2]):
            if ours is not None and value is not None and ours != value:
                raise CheckpointError(
                    f"import_weights: {name} has a different {title}", got=f"{value} in {weight}", expected=ours
                )


def _check_norms(here: bool | None, source: torch.nn.Module, weight: str) -> None:
    for path, part in _around(source, weight):
        norm_first = getattr(part, "norm_first", here)
        if here is not None and norm_first != here:
            raise CheckpointError(
                f"import_weights: {path or 'the layer'} has its norms {'before' if norm_first else 'after'} the parts",
                got=f"norm_first={norm_first}",
                expected=f"norm_first={here}",
            )


def _norm_first(module: Module, name: str) -> bool | None:
    """The `norm_first` of the innermost layer around a parameter; None if there is no such layer."""
    while name:
        name = name.rpartition(".")[0]
        value = getattr(module.get_deep(name), "norm_first", None)
        if value is not None:
            return bool(value)
    return None


def _around(source: torch.nn.Module, weight: str) -> Iterator[tuple[str, Any]]:
    """The modules around a weight with their names, innermost first."""
    path = weight
    while path:
        path = path.rpartition(".")[0]
        yield path, _part(source, path)


def _part(source: torch.nn.Module, path: str) -> Any:
    """The part of a torch module with that name; if it mirrors an rfnb module, that one."""
    part = source.get_submodule(path)
    return part.rf_module if isinstance(part, Mirror) else part


def _compared(
    module: Module, name: str, theirs: Sequence[object]
) -> Iterator[tuple[str, int | str | None, int | str | None]]:
    """Settings of the module around a weight: title, value here, value there; None where the value is unknown."""
    ours = module.get_deep(".".join(name.split(".")[:-2]))
    heads = getattr(ours, "num_heads", None)
    if heads is not None:
        configs = [getattr(owner, "config", None) for owner in theirs]
        numbers = _first(theirs, "num_heads"), _first(configs, "num_attention_heads")
        counts = (getattr(number, "dimension", number) for number in numbers)
        yield "number of heads", heads.dimension, next((n for n in counts if isinstance(n, int)), None)
    if hasattr(ours, "activation"):
        function = _first(theirs, "activation") or _first(theirs, "act_fn")
        yield "activation", function_name(ours.activation), function_name(function)


def _first(owners: Sequence[object], attribute: str) -> Any:
    return next((getattr(owner, attribute) for owner in owners if hasattr(owner, attribute)), None)


def function_name(function: object) -> str | None:
    """The name of an activation: "relu" for torch.nn.ReLU() and functions of that name; None if it has no name."""
    name = getattr(function, "__name__", type(function).__name__).lower().removesuffix("activation")
    return None if function is None or "lambda" in name else name


_AS_LLAMA = ("llama", "mistral")


def from_config(config: Mapping[str, Any], names: Iterable[str], module: Module) -> dict[str, float]:
    """The eps of norms and the bases of rotary positions that differ in the config, by the name of the attribute here.

    names: of the imported parameters. Raises CheckpointError if the model there computes something different.
    """
    settings: dict[str, float] = {}
    for path, ours in _owners(names, module).items():
        eps = config.get("rms_norm_eps", config.get("layer_norm_eps"))
        if eps is not None and getattr(ours, "eps", eps) != eps:
            settings[f"{path}.eps".lstrip(".")] = float(eps)
        if isinstance(ours, RotaryPosSelfAttention | RotaryPosCausalSelfAttention):
            _check("model", config.get("model_type"), _AS_LLAMA)
            base = _configured_base(config)
            if ours.base != base:
                settings[f"{path}.base".lstrip(".")] = base
        if hasattr(ours, "num_heads"):
            _check("number of heads", config.get("num_attention_heads"), (ours.num_heads.dimension,))
        if hasattr(ours, "activation"):
            _check("activation", config.get("hidden_act"), (function_name(ours.activation),))
    return settings


def _owners(names: Iterable[str], module: Module) -> dict[str, object]:
    """The modules that own the parameters, and the modules around these, by name."""
    paths = [name.rpartition(".")[0] for name in names]
    return {path: module.get_deep(path) for part in paths for path in (part, part.rpartition(".")[0])}


def _check(what: str, there: object, here: tuple[object, ...]) -> None:
    if there is not None and None not in here and there not in here:
        raise CheckpointError(
            f"import_weights: the config has a different {what}", got=there, expected=" or ".join(map(str, here))
        )


def _configured_base(config: Mapping[str, Any]) -> float:
    options = config.get("rope_parameters") or config.get("rope_scaling") or {}
    _check("kind of rotary positions", options.get("rope_type", options.get("type")), ("default",))
    return float(options.get("rope_theta", config.get("rope_theta", 10_000.0)))
