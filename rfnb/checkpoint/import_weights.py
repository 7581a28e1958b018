"""Imports weights that were trained with other libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rfnb.checkpoint.choice import Choice, Rename, chooser, renamed
from rfnb.checkpoint.entries import opened
from rfnb.checkpoint.folder import config_of
from rfnb.checkpoint.foreign import settings
from rfnb.checkpoint.foreign.config import from_config
from rfnb.checkpoint.foreign.convert import converted, unfold_lstms
from rfnb.checkpoint.foreign.tables.row import TableRow
from rfnb.checkpoint.load import assign
from rfnb.checkpoint.mapping import targets
from rfnb.checkpoint.report import LoadReport
from rfnb.checkpoint.stored import TRAINING
from rfnb.core.tensor.op import guarded
from rfnb.nn.module.module import Module


@guarded
def import_weights(
    source: torch.nn.Module | Mapping[str, Any] | str | os.PathLike[str],
    module: Module,
    *,
    table: Sequence[tuple[str, tuple[str, ...], str]] = (),
    strict: bool = True,
    rename: Rename | None = None,
    only: Choice | None = None,
    skip: Choice | None = None,
) -> LoadReport:
    """Sets the parameters of `module` to weights of torch or Hugging Face, which have different names and layouts.

    >>> feat, out, time = rf.Dim(3, name="feat"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> theirs, ours = torch.nn.LSTM(3, 4), rf.LSTM(feat, out)
    >>> print(rf.import_weights(theirs, ours))
    3 parameters loaded from LSTM
      converted  bias_ih, bias_hh → bias: sum
      renamed    weight_ih → ff_weight, weight_hh → rec_weight
    >>> x = torch.randn(5, 3)
    >>> state = ours.default_initial_state(batch_dims=[])
    >>> y, _ = ours(rf.convert_to_tensor(x, dims=[time, feat]), state=state, spatial_dim=time)
    >>> torch.allclose(y.raw_tensor, theirs(x)[0], atol=1e-6)
    True

    It knows torch's Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, BatchNorm, (transposed) convolutions, LSTM and
    LSTMCell, GRU and GRUCell (for `rf.GRU` with `reset_after`), MultiheadAttention (for `rf.SelfAttention`,
    `rf.CrossAttention` and their subclasses), Transformer layers, and Llama of Hugging Face for
    `rf.TransformerDecoder`. If modules have the same names in both models, a whole model is imported at once. The
    layers and directions of an LSTM are named "0.forward", "0.backward", "1.forward", …; with a single layer or a
    single direction, that part of the name is left out.

    Args:
        source: a torch module; a state dict, or a file with one; or a folder of Hugging Face, possibly with the weights
            in several files, whose `config.json` holds the other settings.
        table: rows `(target, sources, transform)`, which have precedence over the known ones.
        rename, only, skip, strict: as in `rf.load`.

    If `source` is a module or a folder, the eps of norms and the base of rotary positions are set to those of `source`,
    and the report lists them. Raises CheckpointError if something does not fit or is computed differently there; then
    `module` is left unchanged.
    """
    model = source if isinstance(source, torch.nn.Module) else None
    with opened(source.state_dict() if isinstance(source, torch.nn.Module) else source) as checkpoint:
        parameters = targets(module)
        targeted = [name for target in parameters for name in target.names]
        stored = [name for name in checkpoint.entries if not name.startswith(TRAINING)]
        names = renamed(unfold_lstms({name: name for name in stored}, keep=targeted), rename)
        entries = {new: checkpoint.entries[old] for new, old in names.items()}
        choice = chooser(only, skip, [*entries, *targeted])
        rows = [TableRow(*row) for row in table]
        weights = converted(checkpoint, entries, parameters, choice, importing=True, table=rows)
        settings.check_resets(module, list(filter(choice, weights.entries)))
        values = _other_settings(source, {name: names[weight] for name, weight in weights.pairs.items()}, module)
        report = assign(weights, module, parameters, choice, strict=strict)
    for name, value in values.items():
        module.set_deep(name, value)
    return replace(
        report,
        path=checkpoint.name if model is None else type(model).__name__,
        settings=tuple(f"{name} = {value:g}" for name, value in values.items()),
    )


def _other_settings(source: Any, pairs: Mapping[str, str], module: Module) -> dict[str, float]:
    """The settings besides weights that must be set. Raises CheckpointError if `source` computes differently."""
    if isinstance(source, torch.nn.Module):
        config: Any = getattr(source, "config", None)
        settings.check(pairs, module, source)
        if hasattr(config, "model_type") and hasattr(config, "to_dict"):
            from_config(config.to_dict(), pairs, module)
        return settings.adopted(pairs, module, source)
    return {} if isinstance(source, Mapping) else from_config(config_of(Path(source)), pairs, module)
