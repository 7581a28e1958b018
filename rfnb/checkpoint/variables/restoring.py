"""Loads parameters that have the names of variables: by name, else by rules, with a report of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.checkpoint.choice import Choice, chooser, missing_prefix
from rfnb.checkpoint.report import LoadReport, ValueOrigin
from rfnb.checkpoint.stored import Checkpoint, StoredEntry
from rfnb.checkpoint.variables.conversion import Made, made_from
from rfnb.checkpoint.variables.importer import imported
from rfnb.checkpoint.variables.transforms import TRANSFORMS, with_forget_bias
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import nearest
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError

_SHOWN = 12


@dataclass
class RestoreOptions:
    """How the variables of a network are loaded, beside what `rf.load` takes for any module.

    params_prefix: what all names in the model begin with, and those in the file do not.
    load_if_prefix: only variables whose name contains it are loaded; the names in the file are without it.
    ignore_missing: variables that are not in the file keep their values.
    ignore_params, ignore_params_prefixes: names, or the beginnings of names, of variables that are not loaded.
    var_name_mapping: from the name in the model to that in the file, before any rule.
    custom_missing_load_func: `f(name=…, shape=…, reader=…)` for what is still missing, an array or None.
    forget_bias: "convert" adds to the bias what the cell of the file adds at run time and that of the model does not.
    """

    params_prefix: str = ""
    load_if_prefix: str = ""
    ignore_missing: bool = False
    ignore_params: Collection[str] = ()
    ignore_params_prefixes: Iterable[str] = ()
    var_name_mapping: Mapping[str, str] = field(default_factory=dict)
    custom_missing_load_func: Callable[..., Any] | None = None
    forget_bias: str | None = None

    def __post_init__(self) -> None:
        if self.forget_bias not in (None, "convert"):
            raise CheckpointError(f"{public_function()}: `forget_bias`", got=self.forget_bias, expected='"convert"')

    def name_in_file(self, name: str) -> str | None:
        """The name that a variable has in the file; None if it is not to be loaded."""
        if not name.startswith(self.params_prefix):
            fault = f"{public_function()}: the name of a variable does not begin with `params_prefix`"
            raise CheckpointError(fault, got=name, expected=f"{self.params_prefix}…")
        short = name.removeprefix(self.params_prefix)
        if self.load_if_prefix not in short:
            return None
        short = short.replace(self.load_if_prefix, "", 1) if self.load_if_prefix else short
        if {name, short} & set(self.ignore_params):
            return None
        return None if {name, short} & _beginning(name, short, self.ignore_params_prefixes) else short


def _beginning(name: str, short: str, prefixes: Iterable[str]) -> set[str]:
    return {form for form in (name, short) if form.startswith(tuple(prefixes))}


class Import(NamedTuple):
    """A layer that imports its parameters itself: its scope in the model, and its option."""

    layer: Any
    scope: str
    how: Any


@dataclass(frozen=True)
class Model:
    """What is loaded into: parameters by the names of variables, layers that import theirs, and for a bias of an LSTM
    what its cell adds to the forget gate at run time."""

    variables: Mapping[str, Parameter]
    imports: Sequence[Import]
    added: Callable[[str], float]


class Restored:
    """One load: what comes from where, then the values, then the assignment."""

    def __init__(
        self,
        model: Model,
        checkpoint: Checkpoint,
        entries: Mapping[str, StoredEntry],
        options: RestoreOptions,
        strict: bool,
    ):
        self.model, self.checkpoint, self.options = model, checkpoint, options
        self.variables = model.variables
        self.entries = {**entries, **{name.replace(".", "/"): e for name, e in entries.items() if "/" not in name}}
        self.given = entries
        self.strict = strict and not options.ignore_missing
        self.values: dict[str, torch.Tensor] = {}
        self.origins: dict[str, ValueOrigin] = {}
        self.notes: list[str] = []
        self.used: set[str] = set()

    def load(self, only: Choice | None, skip: Choice | None) -> LoadReport:
        """Sets the variables, and reports."""
        choice = chooser(only, skip, [*self.variables, *self.given])
        names = {name: self.options.name_in_file(name) for name in self.variables}
        keys = {name: key for name, key in names.items() if key is not None and choice(name)}
        if not keys:
            text = f"{public_function()}: there is no variable to load"
            raise CheckpointError(text, got=", ".join(list(self.variables)[:3]), expected="a choice that includes some")
        for variable in self._import():
            keys.pop(variable, None)
        missing = self._find(keys)
        self._check(missing, keys)
        return self._assign(names, keys, missing)

    # -- what comes from where

    def _find(self, wanted: Mapping[str, str]) -> list[str]:
        """Takes what is there by name, then what a rule makes. Returns the names that are still missing."""
        mapping = self.options.var_name_mapping
        by_key = {key: name for name, key in wanted.items()}
        missing = []
        for name, key in wanted.items():
            source = mapping.get(key, mapping.get(name, key))
            if source in self.entries:
                self._take(name, [source])
            else:
                missing.append(key)
        obsolete = [name for name in self.entries if name not in by_key and name not in self.used]
        rows = made_from(missing, obsolete)
        for key, row in rows.items():
            self._take(by_key[key], row.sources, row)
        lacking = [by_key[key] for key in missing if key not in rows]
        return [name for name in lacking if not self._ask(name, wanted[name])]

    def _take(self, name: str, sources: Iterable[str], made: Made | None = None) -> None:
        """Reads the value of a variable: a view of the file, unless it is converted."""
        sources = tuple(sources)
        parts = [self.checkpoint.read(self.entries[source].key) for source in sources]
        self.used.update(sources)
        value, conversion = parts[0], ""
        parameter = self.variables[name]
        if made is not None:
            conversion = made.row.transform if made.row.transform != "same" else "another name"
            try:
                value = TRANSFORMS[made.row.transform](parts)
            except (RuntimeError, ValueError, IndexError) as error:
                got = ", ".join(f"{source} {tuple(x.shape)}" for source, x in zip(sources, parts, strict=True))
                raise CheckpointError(f"{public_function()}: {name}: {made.row.transform}", got=got) from error
            if made.row.transform.startswith("the same values") and value.numel() == parameter.raw_tensor.numel():
                value = value.reshape(parameter.raw_tensor.shape)
            value, conversion = self._forget_bias(name, made, value, conversion)
        self.values[name] = value
        self.origins[name] = ValueOrigin(name, tuple(self.entries[source].key for source in sources), conversion)

    def _forget_bias(self, name: str, made: Made, value: torch.Tensor, conversion: str) -> tuple[torch.Tensor, str]:
        """Notes, or mends, a difference of what the cells of file and model add to the forget gate."""
        if made.row.added is None or not name.endswith(("/b", "/bias")):
            return value, conversion
        added = 0.0 if name.endswith("/b") else self.model.added(name)
        change = made.row.added - added
        if change and self.options.forget_bias == "convert":
            return with_forget_bias(value, change), f"{conversion}, forget bias {change:+g}"
        if change:
            note = f"forget bias: file {made.row.added:+g} at run time, this cell {added:+g}"
            self.notes.append(f'{name}: {note}; forget_bias="convert" adds {change:+g} to the bias')
        return value, conversion

    def _ask(self, name: str, there: str) -> bool:
        """Asks the function of the options for a value. Returns whether it has one."""
        if self.options.custom_missing_load_func is None:
            return False
        shape = tuple(self.variables[name].raw_tensor.shape)
        value = self.options.custom_missing_load_func(name=there, shape=shape, reader=VariableReader(self))
        if value is None:
            return False
        self.values[name] = torch.from_numpy(np.array(value))
        self.origins[name] = ValueOrigin(name, (), "custom_missing_load_func")
        return True

    def _import(self) -> set[str]:
        """Layers that import their parameters themselves. Returns the names of their variables."""
        names = {id(parameter): name for name, parameter in self.variables.items()}
        imports: set[str] = set()
        for layer, scope, how in self.model.imports:
            prefix = scope.removeprefix(self.options.params_prefix).replace(self.options.load_if_prefix, "", 1)
            entries = {name.removeprefix(prefix): e for name, e in self.given.items() if name.startswith(prefix)}
            values = {name: self.checkpoint.read(e.key) for name, e in entries.items()} if how != "reset" else {}
            self.used.update(prefix + name for name in entries)
            imports |= {names[id(parameter)] for parameter in layer.params.values()}
            for name, (value, conversion) in imported(layer, how, values).items():
                full = names[id(layer.params[name])]
                self.values[full] = value
                sources = (entries[name].key,) if name in entries else ()
                self.origins[full] = ValueOrigin(full, sources, conversion)
        return imports

    # -- what does not fit

    def _check(self, missing: list[str], wanted: Mapping[str, str]) -> None:
        """Raises CheckpointError with everything that does not fit."""
        lines = []
        for name, value in self.values.items():
            raw = self.variables[name].raw_tensor
            if tuple(value.shape) != tuple(raw.shape) or value.is_floating_point() != raw.is_floating_point():
                sources = ", ".join(self.origins[name].sources) or "custom_missing_load_func"
                text = f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')} from {sources}"
                lines.append(f"{name}: {tuple(raw.shape)} {str(raw.dtype).removeprefix('torch.')} in the net, {text}")
        misshaped = bool(lines)
        obsolete = self._obsolete()
        if self.strict or not self.values:
            for name in missing:
                near = "".join(f" (is it {match}?)" for match in nearest(wanted[name], obsolete, cutoff=0.5))
                lines.append(f"missing {name} {tuple(self.variables[name].raw_tensor.shape)}{near}")
        if not lines and (self.values or not wanted):
            return
        fault = f"{self.checkpoint.name} does not fit the network"
        if not self.values:
            fault = f"nothing in {self.checkpoint.name} fits the network"
        tail = [f"… and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        hint = "make the net with the same sizes, or skip=…" if misshaped else self._rename(obsolete, missing, wanted)
        raise CheckpointError(f"{public_function()}: {fault}", got="\n".join([*lines[:_SHOWN], *tail]), hint=hint)

    def _rename(self, obsolete: list[str], missing: list[str], wanted: Mapping[str, str]) -> str:
        dotted = [[name.replace("/", ".") for name in names] for names in (obsolete, (wanted[n] for n in missing))]
        hint = missing_prefix(*dotted, of_all=not self.values)
        if hint is not None and not any("." in name for name in [*obsolete, *missing]):
            hint = hint.replace(".", "/")
        return hint or "ignore_missing=True leaves what is missing as it is; var_name_mapping={name here: name there}"

    def _obsolete(self) -> list[str]:
        keys = {self.entries[name].key for name in self.used if name in self.entries}
        return [name for name, entry in self.given.items() if entry.key not in keys]

    # -- the values

    def _assign(self, names: Mapping[str, str | None], wanted: Mapping[str, str], missing: list[str]) -> LoadReport:
        origins = []
        with torch.no_grad():
            for name, value in self.values.items():
                raw = self.variables[name].raw_tensor
                norm = _norm(raw)
                raw.copy_(value)
                origins.append(self.origins[name]._replace(before=norm, after=_norm(raw)))
        obsolete = self._obsolete()
        return LoadReport(
            self.checkpoint.name,
            loaded=tuple(self.values),
            missing=tuple(missing),
            unexpected=tuple(obsolete),
            skipped=tuple(name for name in names if name not in self.values and name not in missing),
            renamed={o.name: o.sources[0] for o in origins if not o.conversion and o.sources not in ((o.name,), ())},
            apart=tuple(self.checkpoint.apart),
            origins=tuple(origins),
            notes=tuple(self.notes),
        )


class VariableReader:
    """What a function for missing variables gets of the file: `reader.get_tensor(name)`, `reader.has_tensor(name)`."""

    def __init__(self, restored: Restored):
        self._restored = restored

    def has_tensor(self, name: str) -> bool:
        """Whether the file has a variable of this name."""
        return name in self._restored.entries

    def get_tensor(self, name: str) -> np.ndarray:
        """Its value. Raises CheckpointError if there is none."""
        if not self.has_tensor(name):
            raise CheckpointError(f"{self._restored.checkpoint.name} has no variable {name!r:.100}")
        self._restored.used.add(name)
        value: np.ndarray = self._restored.checkpoint.read(self._restored.entries[name].key).numpy()
        return value

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shapes of all variables."""
        return {name: list(entry.shape) for name, entry in self._restored.given.items()}


def _norm(x: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(x.float())) if x.numel() else 0.0
