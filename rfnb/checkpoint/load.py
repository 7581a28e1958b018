"""Loading the parameters of a module, and importing weights that were trained with other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from rfnb.checkpoint import training as training_state
from rfnb.checkpoint.entries import TRAINING, Checkpoint, Source, StoredEntry, config_of, opened
from rfnb.checkpoint.foreign import (
    Converted,
    TableRow,
    adopted,
    check_resets,
    check_settings,
    converted,
    from_config,
    unfold_lstms,
)
from rfnb.checkpoint.mapping import (
    Choice,
    Match,
    Rename,
    Sharing,
    Target,
    chooser,
    common_part,
    match,
    missing_prefix,
    order,
    renamed,
    sharing_of,
    targets,
)
from rfnb.checkpoint.report import LoadReport
from rfnb.core.ground.hook import ClassHook
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import first_of
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError
from rfnb.nn.module.module import Module

RESTORE: ClassHook[Callable[..., LoadReport | None]] = ClassHook("checkpoint.load.RESTORE", by="netdict.weights")
"""Loads a checkpoint whose names are not those of the module; None if they are."""


@guarded
def load(
    source: Source,
    module: Module,
    *,
    strict: bool = True,
    rename: Rename | None = None,
    only: Choice | None = None,
    skip: Choice | None = None,
    training: Mapping[str, object] | None = None,
    verify: bool = False,
    layout: Literal["rfnb", "torch"] | None = None,
    **options: object,
) -> LoadReport:
    """Sets the parameters of `module` to those in a file. Returns a report of what was loaded and what was not.

    >>> dims = rf.Dim(3, name="in"), rf.Dim(2, name="out")
    >>> trained, model = rf.Linear(*dims), rf.Linear(*dims)
    >>> rf.load(rf.save(trained, folder / "model.safetensors"), model).loaded
    ('weight', 'bias')

    Everything is compared first: if something does not fit, the module is left unchanged.
    Values are cast to the dtype of the parameters and moved to their device. Weights of torch are converted to the
    names and layouts of rfnb, as by `rf.import_weights`; the report lists them, and settings of a Hugging Face folder.

    Args:
        source: a file written by `rf.save`, any safetensors file, a folder of Hugging Face with one file or several, a
            state dict written by `torch.save` (which is read as data only), a checkpoint of TensorFlow (its prefix, one
            of its files, or its folder), an npz or HDF file, or a dict of tensors by name.
        strict: whether the file and the module must have the same parameters. Shapes must always match.
        rename: the names of entries in the module: `{"old prefix": "new prefix"}`, with None for entries to leave out;
            or a function from name to name.
        only: the prefix or prefixes of the parameters to load; or a function from name to bool.
        skip: the prefix or prefixes of the parameters to leave unchanged; or a function from name to bool.
        training: objects to restore that were saved beside the parameters: `{"optimizer": optimizer}`. The state of
            random numbers is restored too. Plain values are in the report.
        verify: whether the checksums of values are compared, which files of TensorFlow have. Those of their index are
            always compared.
        layout: how weights are stored, where their shapes do not say it: "rfnb", {in, out}, or "torch", {out, in}.
            None: what the source says: state dicts of torch, and safetensors files that `rf.save` did not write, are of
            torch. Of other sources, such as a dict of tensors, it must be known if all weights are square.
        options: of an `rf.Network`, for a checkpoint with the names of its variables: `params_prefix`, `ignore_params`,
            `var_name_mapping`, `forget_bias` and others (docs/checkpoints.md).

    Raises CheckpointError if the file cannot be read or does not fit, if nothing in it fits, if the layout of a weight
    is not known, or if no name has one of the prefixes in `rename`, `only` or `skip`.
    """
    if layout not in (None, "rfnb", "torch"):
        raise CheckpointError(f"{public_function()}: unknown `layout`", got=repr(layout), expected='"rfnb" or "torch"')
    with opened(source, verify=verify) as checkpoint:
        entries = {name: e for name, e in checkpoint.entries.items() if not name.startswith(TRAINING)}
        entries = renamed(entries, rename)
        for restore in RESTORE.of(type(module)):
            report = restore(checkpoint, entries, module, strict=strict, only=only, skip=skip, **options)
            if report is not None:
                return report
        if options:
            fault = f"{public_function()}: {next(iter(options))!r} is an option of an rf.Network"
            raise CheckpointError(fault, got=type(module).__name__, hint="rename=…, only=…, skip=…, strict=False")
        if checkpoint.separator == "/":
            entries = {name.replace("/", "."): entry for name, entry in entries.items()}
        parameters = targets(module)
        names = [*(name for target in parameters for name in target.names), *entries]
        choice = chooser(only, skip, names)
        weights = converted(checkpoint, entries, parameters, choice, layout=layout)
        values = _other_settings(source, weights.pairs, module) if weights.origins else {}
        report = assign(weights, module, parameters, choice, strict=strict, training=training)
    return _with_settings(report, values, module)


def _with_settings(report: LoadReport, values: Mapping[str, float], module: Module) -> LoadReport:
    """Gives the module settings besides weights, and the report their list."""
    for name, value in values.items():
        module.set_deep(name, value)
    return replace(report, settings=tuple(f"{name} = {value:g}" for name, value in values.items()))


def assign(
    weights: Converted,
    module: Module,
    wanted: list[Target],
    chosen: Callable[[str], bool],
    *,
    strict: bool,
    training: Mapping[str, object] | None = None,
) -> LoadReport:
    """Sets the parameters to the entries with their names, and reports. Raises CheckpointError if they do not fit."""
    checkpoint, entries = weights.checkpoint, weights.entries
    matched = match(wanted, entries, chosen)
    _check(matched, entries, module, checkpoint, strict=strict)
    values = [(target, _value(target, stored, checkpoint, module)) for target, stored in matched.fitting]
    saved = training_state.saved_in(checkpoint)
    called = {entry.key: target.name for target, stored in matched.fitting for entry in stored}
    if training is not None:
        training_state.restore(saved, training, module, called)
    for target, value in values:
        with torch.no_grad():
            target.parameter.raw_tensor.copy_(value)
    loaded = {name for target, _ in matched.fitting for name in target.names}
    origins = weights.origins
    keys = {name: entry.key for name, entry in entries.items() if name in loaded and name not in origins}
    return LoadReport(
        checkpoint.name,
        loaded=tuple(target.name for target, _ in matched.fitting),
        missing=tuple(matched.missing),
        unexpected=tuple(matched.unexpected),
        skipped=tuple(matched.skipped),
        renamed={
            **{name: key for name, key in keys.items() if key not in loaded},
            **{name: " + ".join(origin.sources) for name, origin in origins.items() if origin.sources != (name,)},
        },
        apart=tuple(checkpoint.apart),
        training=training_state.values(saved),
        origins=tuple(origin for origin in origins.values() if origin.conversion),
    )


@guarded
def load_checkpoint(module: Module, path: str | os.PathLike[str], *, strict: bool = True) -> LoadReport:
    """Calls `rf.load(path, module)`, under the name of RETURNN.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> rf.load_checkpoint(model, rf.save(model, folder / "model.safetensors")).complete
    True
    """
    return load(path, module, strict=strict)


@guarded
def load_config(path: str | os.PathLike[str]) -> Any:
    """The `config` that `rf.save` wrote, including dims, to build the model again.

    >>> config = {"hidden": rf.Dim(4, name="hidden"), "layers": 2}
    >>> model = rf.Linear(rf.Dim(3, name="in"), config["hidden"])
    >>> rf.load_config(rf.save(model, folder / "model.safetensors", config=config))["layers"]
    2

    Raises CheckpointError if the file has no config.
    """
    with opened(path) as checkpoint:
        if "config" not in checkpoint.metadata:
            raise CheckpointError(f"load_config: {checkpoint.name} has no config", hint="rf.save(…, config=…)")
        return training_state.read(checkpoint.metadata["config"], "the config").get("config")


def _check(
    matched: Match, entries: Mapping[str, StoredEntry], module: Module, checkpoint: Checkpoint, *, strict: bool
) -> None:
    """Raises CheckpointError if nothing fits, or if something that must fit does not."""
    name = type(module).__name__
    if complaints := matched.complaints(strict=strict):
        raise CheckpointError(
            f"{public_function()}: {checkpoint.name} does not fit {name}",
            got="\n".join(complaints),
            hint=_way_out(matched, module),
        )
    if not matched.fitting:
        raise CheckpointError(
            f"{public_function()}: nothing in {checkpoint.name} fits {name}",
            got=first_of([*entries], 3) or "no entry",
            expected=first_of([*matched.missing], 3) if matched.missing else "a choice that includes some parameters",
            hint=missing_prefix(entries, matched.missing, of_all=True)
            if matched.missing
            else '`only` and `skip` take prefixes of names, such as "encoder", or a function of a name',
        )


def _way_out(matched: Match, module: Module) -> str:
    lacking = [] if matched.unexpected else list(matched.missing)
    sharing = sharing_of(module, matched.misshaped or lacking)
    if sharing is not None and len(lacking) <= 1 and sharing.value is bool(matched.misshaped):
        return _as_saved(sharing)
    if not matched.misshaped:
        of_all = not matched.fitting
        return missing_prefix(matched.unexpected, matched.missing, of_all=of_all) or "strict=False loads what fits"
    parts = common_part(matched.misshaped)
    if len(parts) > 3 or not matched.fitting:
        return "make the module with dims of the same sizes"
    written = ", ".join(f'"{part}"' for part in parts)
    return f"skip={written} leaves it unchanged" if len(parts) == 1 else f"skip=[{written}] leaves them unchanged"


def _as_saved(sharing: Sharing) -> str:
    return f"{sharing.option}={not sharing.value}, if that is how the model was saved"


def _value(target: Target, stored: list[StoredEntry], checkpoint: Checkpoint, module: Module) -> torch.Tensor:
    """The new value of the parameter. Raises CheckpointError if two of its names have different values in the file."""
    by_key = {entry.key: entry for entry in stored}
    values = [_in_order(checkpoint.read(key), target, entry) for key, entry in by_key.items()]
    if not all(_equal(values[0], value) for value in values[1:]):
        sharing = sharing_of(module, target.names)
        raise CheckpointError(
            f"{public_function()}: {' and '.join(target.names)} are the same parameter in the module",
            got=f"different values in {checkpoint.name}",
            hint=f"rename={{{next(reversed(by_key))!r}: None}} leaves one of them out"
            if sharing is None
            else _as_saved(sharing),
        )
    return values[0]


def _in_order(value: torch.Tensor, target: Target, entry: StoredEntry) -> torch.Tensor:
    axes = order(target.parameter, entry)
    return value if axes is None else value.permute(axes)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both tensors are equal, where NaN is equal to itself, since the weights may have diverged."""
    return bool(((a == b) | ((a != a) & (b != b))).all())


@guarded
def import_weights(
    source: torch.nn.Module | Mapping[str, object] | str | os.PathLike[str],
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
        check_resets(module, list(filter(choice, weights.entries)))
        values = _other_settings(source, {name: names[weight] for name, weight in weights.pairs.items()}, module)
        report = assign(weights, module, parameters, choice, strict=strict)
    report = replace(report, path=checkpoint.name if model is None else type(model).__name__)
    return _with_settings(report, values, module)


def _other_settings(source: torch.nn.Module | Source, pairs: Mapping[str, str], module: Module) -> dict[str, float]:
    """The settings besides weights that must be set. Raises CheckpointError if `source` computes differently."""
    if isinstance(source, torch.nn.Module):
        config: Any = getattr(source, "config", None)
        check_settings(pairs, module, source)
        if hasattr(config, "model_type") and hasattr(config, "to_dict"):
            from_config(config.to_dict(), pairs, module)
        return adopted(pairs, module, source)
    return {} if isinstance(source, Mapping) else from_config(config_of(Path(source)), pairs, module)
