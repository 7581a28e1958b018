"""Trained weights of networks: `rf.load` by the names of variables, and what a config wants to be loaded.

Checkpoints are loaded by the names of variables, else by rules that say what a variable may be made from, with a report
of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.checkpoint.entries import Checkpoint, StoredEntry
from rfnb.checkpoint.load import RESTORE, load
from rfnb.checkpoint.mapping import Choice, chooser, missing_prefix
from rfnb.checkpoint.report import LoadReport, ValueOrigin
from rfnb.core.ground.source import public_function
from rfnb.core.ground.text import did_you_mean, nearest
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import CheckpointError
from rfnb.netdict.layer import Layer
from rfnb.netdict.network import Network
from rfnb.netdict.resolve import EXTRA


class VariableRow(NamedTuple):
    """A variable of the model, the variables of the file that it is made from, and how.

    together: variables that must be missing as well. added: what the cell of the file adds to the forget gate at run
    time; None if it is the same cell as in the model.
    """

    missing: str
    sources: tuple[str, ...]
    transform: str = "same"
    together: tuple[str, ...] = ()
    added: float | None = None


def _native_to_basic() -> Iterator[VariableRow]:
    for cell in ("rnn/lstm_cell", "rnn/basic_lstm_cell", "lstm_cell", "basic_lstm_cell"):
        yield VariableRow(f"/{cell}/kernel", ("/W", "/W_re"), "kernel of native weights", added=0.0)
        yield VariableRow(f"/{cell}/bias", ("/b",), "gates in the other order", added=0.0)


def _basic_to_native() -> Iterator[VariableRow]:
    names = ("rec/W", "rec/W_re", "rec/b")
    for cell in ("rec/rnn/lstm_cell", "rec/lstm_cell"):
        yield VariableRow("rec/W_re", (f"{cell}/kernel",), "recurrent rows of a kernel", names, 1.0)
        yield VariableRow("rec/W", (f"{cell}/kernel",), "input rows of a kernel", names, 1.0)
        yield VariableRow("rec/b", (f"{cell}/bias",), "gates in the other order", names, 1.0)


def _batch_norm() -> Iterator[VariableRow]:
    for part in ("beta", "gamma", "mean", "variance"):
        yield VariableRow(f"batch_norm/{part}", (f"batch_norm/*_{part}",), "the same values in another shape")
        yield VariableRow(f"batch_norm/v2_{part}", (f"batch_norm/*_{part}",), "the same values in another shape")
        yield VariableRow(f"batch_norm/v2_{part}", (f"batch_norm/{part}",), "the same values in another shape")


_RENAMED = {
    "lstm_cell/biases": "lstm_cell/bias",
    "lstm_cell/weights": "lstm_cell/kernel",
    "lstm_cell/bias": "rnn/lstm_cell/bias",
    "lstm_cell/kernel": "rnn/lstm_cell/weights",
    "rnn/lstm_cell/bias": "lstm_cell/bias",
    "rnn/lstm_cell/kernel": "lstm_cell/kernel",
    "cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/bias": "lstm_fused_cell/bias",
    "cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel": "lstm_fused_cell/kernel",
}
"""From the end of the name in the file to that in the model."""

_CUDNN = tuple(f"/cudnn/CudnnRNNParamsToCanonical:{i}" for i in range(16))


def _cudnn() -> Iterator[VariableRow]:
    """The canonical weights of cuDNN, also for native weights, as which a net dict with `cudnnlstm` runs here."""
    yield VariableRow("/lstm_block_wrapper/kernel", _CUDNN[:8], "kernel of cuDNN weights", added=0.0)
    yield VariableRow("/lstm_block_wrapper/bias", _CUDNN[8:], "bias of cuDNN biases", added=0.0)
    yield VariableRow("/W", _CUDNN[:4], "native weights of cuDNN weights", added=0.0)
    yield VariableRow("/W_re", _CUDNN[4:8], "native weights of cuDNN weights", added=0.0)
    yield VariableRow("/b", _CUDNN[8:], "native bias of cuDNN biases", added=0.0)


ROWS = [
    *_native_to_basic(),
    *_basic_to_native(),
    *_batch_norm(),
    *(VariableRow(model, (file,)) for file, model in _RENAMED.items()),
    *_cudnn(),
]


def made_from(missing: Iterable[str], obsolete: Iterable[str]) -> dict[str, VariableRow]:
    """For each missing name for which there is one, the first row that fits. obsolete: names that no variable has.

    >>> found = made_from(["lstm/rec/lstm_cell/kernel"], ["lstm/rec/W", "lstm/rec/W_re", "lstm/rec/b"])
    >>> found["lstm/rec/lstm_cell/kernel"].sources, found["lstm/rec/lstm_cell/kernel"].transform
    (('lstm/rec/W', 'lstm/rec/W_re'), 'kernel of native weights')
    """
    lacking = dict.fromkeys(missing)
    beside: dict[str, list[str]] = {}
    for name in obsolete:
        beside.setdefault(name.rpartition("/")[0], []).append(name)
    results: dict[str, VariableRow] = {}
    for name in lacking:
        for row in ROWS:
            if name.endswith(row.missing):
                prefix = name[: len(name) - len(row.missing)]
                sources = [_named(prefix, source, beside) for source in row.sources]
                if None not in sources and all(prefix + other_name in lacking for other_name in row.together):
                    results[name] = row._replace(sources=tuple(filter(None, sources)))
                    break
    return results


def _named(prefix: str, source: str, beside: Mapping[str, list[str]]) -> str | None:
    """The one name that a row means; None if there is none, or several. beside: names by what is before the last /."""
    names = beside.get((prefix + source).rpartition("/")[0], [])
    pattern = re.compile(re.escape(prefix) + "[^/]*".join(map(re.escape, source.split("*"))))
    named = [name for name in names if pattern.fullmatch(name)]
    return named[0] if len(named) == 1 else None


Parts = Sequence[torch.Tensor]


def other_gates(weight: torch.Tensor) -> torch.Tensor:
    """{…, 4n} with the first two of four blocks exchanged: j, i, f, o ↔ i, j, f, o.

    >>> other_gates(torch.arange(8.0)).tolist()
    [2.0, 3.0, 0.0, 1.0, 4.0, 5.0, 6.0, 7.0]
    """
    first, second, *tail = weight.chunk(4, dim=-1)
    return torch.cat([second, first, *tail], dim=-1)


def with_forget_bias(bias: torch.Tensor, added: float) -> torch.Tensor:
    """A bias {4n} with a number added to the forget gate, the third block in either order."""
    blocks = list(bias.chunk(4, dim=-1))
    blocks[2] = blocks[2] + added
    return torch.cat(blocks, dim=-1)


def _rows(kernel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A kernel {in + n, 4n} as the rows of the input and those of h."""
    n = kernel.shape[1] // 4
    return kernel[: len(kernel) - n], kernel[len(kernel) - n :]


def _cudnn_kernel(parts: Parts) -> torch.Tensor:
    """Four weights {n, in} and four {n, n}, of i, f, j, o → {in + n, 4n}"""
    return other_gates(torch.cat([_cudnn_native(parts[:4]), _cudnn_native(parts[4:])]))


def _cudnn_bias(parts: Parts) -> torch.Tensor:
    """Four biases {n} of the input and four of h → {4n}"""
    i, f, j, o = (a + b for a, b in zip(parts[:4], parts[4:], strict=True))
    return torch.cat([i, j, f, o])


def _cudnn_native(parts: Parts) -> torch.Tensor:
    """Four weights {n, in} of i, f, j, o → {in, 4n}"""
    i, f, j, o = (w.T for w in parts)
    return torch.cat([j, i, f, o], dim=1)


TRANSFORMS: dict[str, Callable[[Parts], torch.Tensor]] = {
    "same": lambda parts: parts[0],
    "gates in the other order": lambda parts: other_gates(parts[0]),
    "kernel of native weights": lambda parts: other_gates(torch.cat(list(parts))),
    "input rows of a kernel": lambda parts: other_gates(_rows(parts[0])[0]),
    "recurrent rows of a kernel": lambda parts: other_gates(_rows(parts[0])[1]),
    "the same values in another shape": lambda parts: parts[0].reshape(-1),
    "kernel of cuDNN weights": _cudnn_kernel,
    "bias of cuDNN biases": _cudnn_bias,
    "native weights of cuDNN weights": _cudnn_native,
    "native bias of cuDNN biases": lambda parts: other_gates(_cudnn_bias(parts)),
}
"""Functions of the variables of the file."""


def common_part(
    new: torch.Tensor, old: torch.Tensor, blocks: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> torch.Tensor:
    """`new` with what both have taken from `old`, along every axis, block by block.

    blocks: for each axis the sizes of its blocks in `new` and in `old`, as many in both.

    >>> common_part(torch.zeros(6), torch.arange(1.0, 5), [((3, 3), (2, 2))]).tolist()
    [1.0, 2.0, 0.0, 3.0, 4.0, 0.0]
    """
    result = new.clone()
    places = [_common(*sizes) for sizes in blocks]
    if places:
        into, out_of = (torch.meshgrid(*(torch.tensor(axis[i]) for axis in places), indexing="ij") for i in range(2))
        result[into] = old[out_of].to(result)
    else:
        result.copy_(old)
    return result


def _common(new: Sequence[int], old: Sequence[int]) -> tuple[list[int], list[int]]:
    """The indices along an axis of what blocks of these sizes have in common."""
    into: list[int] = []
    out_of: list[int] = []
    start, old_start = 0, 0
    for size, old_size in zip(new, old, strict=False):
        shared = range(min(size, old_size))
        into += [start + i for i in shared]
        out_of += [old_start + i for i in shared]
        start, old_start = start + size, old_start + old_size
    return into, out_of


Values = dict[str, tuple[torch.Tensor, str]]
"""By the names of a layer's parameters: the new value, and what was done."""


def imported(layer: Layer, how: object, values: Mapping[str, torch.Tensor]) -> Values:
    """The new values of a layer's parameters. values: of the file, by what follows the scope of the layer.

    how: "reset" takes none, "ifpossible" those of the right shape, "subset" of each the part that both have, along
        every axis and for each gate; a function `f(layer=…, values_dict=…, session=None)` returns {name: array}, or
        sets them itself and returns None.
    """
    parameters = layer.params
    if callable(how):
        result = how(layer=layer, values_dict={name: value.numpy() for name, value in values.items()}, session=None)
        return {} if result is None else _checked(layer, result)
    if how == "reset":
        return {}
    matches = {name: (parameter, values[name]) for name, parameter in parameters.items() if name in values}
    if how == "ifpossible":
        return {name: (value, "") for name, (p, value) in matches.items() if tuple(value.shape) == _shape(p)}
    if how == "subset":
        return {name: _subset(layer, name, parameter, value) for name, (parameter, value) in matches.items()}
    expected = '"reset", "ifpossible", "subset", or a function'
    raise CheckpointError(f"layer {layer.name!r}: custom_param_importer {how!r:.60} is not known", expected=expected)


def _checked(layer: Layer, given: object) -> Values:
    parameters = layer.params
    result: Values = {}
    for name, value in given.items() if isinstance(given, Mapping) else [("", given)]:
        array = np.asarray(value)
        if name not in parameters or array.shape != _shape(parameters[name]) or array.dtype.kind not in "fiub":
            expected = ", ".join(f"{name} {_shape(parameter)}" for name, parameter in parameters.items())
            fault = f"layer {layer.name!r}: custom_param_importer returned something else than parameters"
            raise CheckpointError(fault, got=f"{name!r} {array.dtype} {array.shape}", expected=expected)
        result[name] = torch.from_numpy(array.copy()), "custom_param_importer"
    return result


def _subset(layer: Layer, name: str, parameter: Parameter, old: torch.Tensor) -> tuple[torch.Tensor, str]:
    new = parameter.raw_tensor.detach()
    if new.ndim != old.ndim:
        return new, ""
    if new.shape == old.shape:
        return old, ""
    blocks = _blocks(layer, name, list(new.shape), list(old.shape))
    return common_part(new.cpu(), old, blocks), f"the common part of {tuple(old.shape)} and {tuple(new.shape)}"


def _blocks(
    layer: Layer, name: str, new: Sequence[int], old: Sequence[int]
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """For each axis the sizes of its blocks: gates, and in a kernel the rows of the input and of h."""
    blocks: list[tuple[Sequence[int], Sequence[int]]] = [((n,), (m,)) for n, m in zip(new, old, strict=True)]
    out_dim = layer.out_dim.dimension if layer.out_dim is not None else None
    recurrent = hasattr(layer, "unit") or hasattr(layer, "unit_opts")
    if not recurrent or not out_dim or not new or new[-1] % out_dim or old[-1] % (new[-1] // out_dim):
        return blocks
    gates = new[-1] // out_dim
    old_out = old[-1] // gates
    blocks[-1] = [out_dim] * gates, [old_out] * gates
    if name.endswith("kernel") and len(new) == 2 and min(new[0] - out_dim, old[0] - old_out) >= 0:
        blocks[0] = [new[0] - out_dim, out_dim], [old[0] - old_out, old_out]
    return blocks


def _shape(parameter: Parameter) -> tuple[int, ...]:
    return tuple(parameter.raw_tensor.shape)


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
    custom_missing_load_func: Callable[..., object] | None = None
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
        beginnings = tuple(self.ignore_params_prefixes)
        ignored = any(form in self.ignore_params or form.startswith(beginnings) for form in (name, short))
        return None if ignored else short


class Restored:
    """One load: what comes from where, then the values, then the assignment."""

    def __init__(
        self,
        net: Network,
        checkpoint: Checkpoint,
        entries: Mapping[str, StoredEntry],
        options: RestoreOptions,
        strict: bool,
    ):
        self.net, self.checkpoint, self.options = net, checkpoint, options
        self.variables = net.variables()
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
        return self._assign(names, missing)

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

    def _take(self, name: str, sources: Iterable[str], row: VariableRow | None = None) -> None:
        """Reads the value of a variable: a view of the file, unless it is converted."""
        sources = tuple(sources)
        parts = [self.checkpoint.read(self.entries[source].key) for source in sources]
        self.used.update(sources)
        value, conversion = parts[0], ""
        parameter = self.variables[name]
        if row is not None:
            conversion = row.transform if row.transform != "same" else "another name"
            try:
                value = TRANSFORMS[row.transform](parts)
            except (RuntimeError, ValueError, IndexError) as error:
                got = ", ".join(f"{source} {tuple(x.shape)}" for source, x in zip(sources, parts, strict=True))
                raise CheckpointError(f"{public_function()}: {name}: {row.transform}", got=got) from error
            if row.transform.startswith("the same values") and value.numel() == parameter.raw_tensor.numel():
                value = value.reshape(parameter.raw_tensor.shape)
            value, conversion = self._forget_bias(name, row, value, conversion)
        self.values[name] = value
        self.origins[name] = ValueOrigin(name, tuple(self.entries[source].key for source in sources), conversion)

    def _forget_bias(
        self, name: str, row: VariableRow, value: torch.Tensor, conversion: str
    ) -> tuple[torch.Tensor, str]:
        """Notes, or mends, a difference of what the cells of file and model add to the forget gate."""
        if row.added is None or not name.endswith(("/b", "/bias")):
            return value, conversion
        added = 0.0 if name.endswith("/b") else self._added(name)
        change = row.added - added
        if change and self.options.forget_bias == "convert":
            return with_forget_bias(value, change), f"{conversion}, forget bias {change:+g}"
        if change:
            note = f"forget bias: file {row.added:+g} at run time, this cell {added:+g}"
            self.notes.append(f'{name}: {note}; forget_bias="convert" adds {change:+g} to the bias')
        return value, conversion

    def _added(self, name: str) -> float:
        """What the cell with a bias adds to its forget gate at run time: 1, unless the net dict says otherwise."""
        bias = self.variables[name]
        owners = (layer for layer in self.net.layers.values() if any(x is bias for x in layer.params.values()))
        opts = next((options_of(layer).get("unit_opts") for layer in owners), None)
        return float((opts or {}).get("forget_bias", 1.0))

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
        for layer in self.net.layers.values():
            how, scope = options_of(layer).get("custom_param_importer"), scope_of(layer, names)
            if how is None or scope is None:
                continue
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

    def _assign(self, names: Mapping[str, str | None], missing: list[str]) -> LoadReport:
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


OPTIONS = {
    "filename": None,
    "prefix": "",
    "init_for_train": False,
    "ignore_missing": False,
    "ignore_params": (),
    "ignore_params_prefixes": (),
    "var_name_mapping": None,
    "custom_missing_load_func": None,
}
"""The options of an entry of `preload_from_files`, with their defaults."""


@guarded
def preload(net: Network, config: Mapping[str, Any], *, train: bool = False, epoch: int = 1) -> dict[str, LoadReport]:
    """Loads what a config wants to be loaded, beside the checkpoint of the model. Returns a report by file.

    >>> net_dict = {"output": {"class": "linear", "n_out": 2, "from": "data"}}
    >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}})).construct_from_dict(net_dict)
    >>> path = folder / "trained.npz"
    >>> np.savez(path, **{"output/W": np.ones((3, 2)), "output/b": np.zeros(2)})
    >>> rf.preload(net, {"preload_from_files": {"model": {"filename": str(path)}}})[str(path)].loaded
    ('output/W', 'output/b')

    Args:
        config: a config, or a dict of its options: `import_model_train_epoch1`, a checkpoint for the first epoch of
            training; `preload_from_files`, by any name a dict with `filename`, `prefix` of the variables that are
            loaded (the file has them without it), `init_for_train` and `ignore_missing`. The option `load_on_init` of
            subnetworks is read from the net dict.
        train: whether the network is trained, from scratch. Then only entries with `init_for_train` are loaded, without
            it only the others.
        epoch: `import_model_train_epoch1` and `init_for_train` are for epoch 1.

    Raises CheckpointError if an option is unknown, or a file does not fit.
    """
    reports: dict[str, LoadReport] = {}
    at_start = train and epoch == 1
    start = config.get("import_model_train_epoch1")
    if start and at_start:
        reports[start] = load(start, net, strict=False)
    for path, layer in net.layers.items():
        source = options_of(layer).get("load_on_init")
        if source:
            entry = {"filename": source} if isinstance(source, str) else dict(source)
            reports[entry.get("filename", path)] = _of_subnetwork(net, path, entry)
    for key, entry in (config.get("preload_from_files") or {}).items():
        opts = _with_defaults(f"preload_from_files: {key}", entry)
        always = opts["init_for_train"] == "always"
        if always or (at_start if opts["init_for_train"] else not train):
            reports[opts["filename"]] = _load(net, opts, load_if_prefix=opts["prefix"])
    return reports


def _load(net: Network, opts: Mapping[str, Any], **more: Any) -> LoadReport:
    names = "ignore_missing", "ignore_params", "ignore_params_prefixes", "var_name_mapping", "custom_missing_load_func"
    return load(opts["filename"], net, **{name: opts[name] for name in names}, **more)


def _of_subnetwork(net: Network, path: str, entry: Mapping[str, object]) -> LoadReport:
    """Loads the variables under the scope of a subnetwork, whose names in the file are without it."""
    opts = _with_defaults(f"layer {path!r}: load_on_init", {k: v for k, v in entry.items() if k != "params_prefix"})
    prefix = entry.get("params_prefix")
    scope = f"{path}/" if prefix is None else prefix
    return _load(net, opts, rename=lambda name: f"{scope}{name}", only=lambda name: name.startswith(scope))


def _with_defaults(what: str, entry: object) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("filename"), str):
        raise CheckpointError(f"{what}: no file", got=repr(entry)[:80], expected='{"filename": "…"}')
    _check_names(what, entry, OPTIONS)
    return {**OPTIONS, **entry}


def _check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises CheckpointError for the name of an option that is not known."""
    for name in names:
        if name not in known:
            fault, hint = f"{what}: unknown option {name!r}", did_you_mean(name, known)
            raise CheckpointError(fault, expected=", ".join(known), hint=hint)


@RESTORE.register(Network)
def restore(
    checkpoint: Checkpoint,
    entries: Mapping[str, StoredEntry],
    net: Network,
    *,
    strict: bool = True,
    only: Choice | None = None,
    skip: Choice | None = None,
    **options: Any,
) -> LoadReport | None:
    """Loads the variables of a network. None if the names of the file are those of its modules, as `rf.save` writes.

    entries: those of the checkpoint, by their new names. Raises CheckpointError, and changes nothing, if something is
    missing or has another shape.
    """
    names, variables = {name for name, _ in net.named_parameters()}, net.variables()
    by_module = sum(name in names for name in entries)
    if checkpoint.kind != "TensorFlow" and by_module and by_module >= sum(name in variables for name in entries):
        return None
    _check_names(public_function(), options, RestoreOptions.__dataclass_fields__)
    values = {name: value for name, value in options.items() if value is not None}
    return Restored(net, checkpoint, entries, RestoreOptions(**values), strict).load(only, skip)


def scope_of(layer: Layer, names: Mapping[int, str]) -> str | None:
    """What stands before the names of a layer's variables; None if it has none. names: by the id of parameters."""
    for name, parameter in layer.params.items():
        variable = names.get(id(parameter), "")
        if variable.endswith(name):
            return variable.removesuffix(name)
    return None


def options_of(layer: Layer) -> Mapping[str, Any]:
    """What the net dict says of a layer; empty for one of an additional net, which has it again."""
    return {} if EXTRA.match(layer.name) else layer.spec.described
