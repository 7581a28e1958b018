"""What the config of a model of Hugging Face says beside its weights: compared, or taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rfnb.checkpoint.foreign.settings import called
from rfnb.errors import CheckpointError
from rfnb.nn.attention.rotary import RotaryPosCausalSelfAttention, RotaryPosSelfAttention
from rfnb.nn.module.module import Module

_AS_LLAMA = ("llama", "mistral")


def from_config(config: Mapping[str, Any], names: Iterable[str], module: Module) -> dict[str, float]:
    """The eps of norms, and the base of rotary positions, that are other ones there, by name of the attribute here.

    names: of the parameters that are imported. Raises CheckpointError if the model computes in a way that this does
    not.
    """
    found: dict[str, float] = {}
    for path, ours in _owners(names, module).items():
        eps = config.get("rms_norm_eps", config.get("layer_norm_eps"))
        if eps is not None and getattr(ours, "eps", eps) != eps:
            found[f"{path}.eps".lstrip(".")] = float(eps)
        if isinstance(ours, RotaryPosSelfAttention | RotaryPosCausalSelfAttention):
            _check("model", config.get("model_type"), _AS_LLAMA)
            base = _base(config)
            if ours.base != base:
                found[f"{path}.base".lstrip(".")] = base
        if hasattr(ours, "num_heads"):
            _check("number of heads", config.get("num_attention_heads"), (ours.num_heads.dimension,))
        if hasattr(ours, "activation"):
            _check("activation", config.get("hidden_act"), (called(ours.activation),))
    return found


def _owners(names: Iterable[str], module: Module) -> dict[str, Any]:
    """The modules of parameters, and those that these are in."""
    paths = [name.rpartition(".")[0] for name in names]
    return {path: module.get_deep(path) for part in paths for path in (part, part.rpartition(".")[0])}


def _check(what: str, there: Any, here: tuple[Any, ...]) -> None:
    if there is not None and None not in here and there not in here:
        raise CheckpointError(
            f"import_weights: the config is of another {what}", got=there, expected=" or ".join(map(str, here))
        )


def _base(config: Mapping[str, Any]) -> float:
    options = config.get("rope_parameters") or config.get("rope_scaling") or {}
    _check("kind of rotary positions", options.get("rope_type", options.get("type")), ("default",))
    return float(options.get("rope_theta", config.get("rope_theta", 10_000.0)))
