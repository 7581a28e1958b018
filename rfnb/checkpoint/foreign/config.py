"""The settings in a Hugging Face config that change the results of a model: compared, or taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rfnb.checkpoint.foreign.settings import function_name
from rfnb.errors import CheckpointError
from rfnb.nn.attention.rotary import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
from rfnb.nn.module.module import Module

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
            base = _base(config)
            if ours.base != base:
                settings[f"{path}.base".lstrip(".")] = base
        if hasattr(ours, "num_heads"):
            _check("number of heads", config.get("num_attention_heads"), (ours.num_heads.dimension,))
        if hasattr(ours, "activation"):
            _check("activation", config.get("hidden_act"), (function_name(ours.activation),))
    return settings


def _owners(names: Iterable[str], module: Module) -> dict[str, Any]:
    """The modules that own the parameters, and the modules around these, by name."""
    paths = [name.rpartition(".")[0] for name in names]
    return {path: module.get_deep(path) for part in paths for path in (part, part.rpartition(".")[0])}


def _check(what: str, there: Any, here: tuple[Any, ...]) -> None:
    if there is not None and None not in here and there not in here:
        raise CheckpointError(
            f"import_weights: the config has a different {what}", got=there, expected=" or ".join(map(str, here))
        )


def _base(config: Mapping[str, Any]) -> float:
    options = config.get("rope_parameters") or config.get("rope_scaling") or {}
    _check("kind of rotary positions", options.get("rope_type", options.get("type")), ("default",))
    return float(options.get("rope_theta", config.get("rope_theta", 10_000.0)))
