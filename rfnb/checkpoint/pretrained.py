"""Folders with a model: its class and options as `config.json`, its weights as `model.safetensors`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rfnb.checkpoint import training as training_state
from rfnb.checkpoint.entries import json_in
from rfnb.checkpoint.load import load, load_config
from rfnb.checkpoint.save import save
from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.tensor.op import guarded
from rfnb.errors import CheckpointError, ParameterError
from rfnb.nn.module.build import build_dict, class_of_name
from rfnb.nn.module.module import Module, options_of

_WEIGHTS, _CONFIG, _CLASS = "model.safetensors", "config.json", "$class"


@guarded
def save_pretrained(module: Module, folder: str | os.PathLike[str], *, config: Mapping[str, Any] | None = None) -> Path:
    """Writes a model to a folder, so that `rf.load_pretrained` makes it again. Returns the folder.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"), with_bias=False)
    >>> path = rf.save_pretrained(model, folder / "model")
    >>> sorted(file.name for file in path.iterdir())
    ['config.json', 'model.safetensors']
    >>> rf.load_pretrained(path).weight.raw_tensor.equal(model.weight.raw_tensor)
    True

    The folder is made if it does not exist. Each file in it is replaced only when the new one is complete.

    config: the arguments of the class by name; by default those that the model was made with, if they are plain data,
    dims, modules' classes and functions of rfnb.

    Raises CheckpointError if they are not, or if a file cannot be written.
    """
    options = options_of(module) if config is None and isinstance(module, Module) else config
    name = type(module).__name__
    if not isinstance(options, Mapping):
        raise CheckpointError(
            f"save_pretrained: the arguments that {name} was made with are not all plain data",
            expected="numbers, strings, dims, classes and functions; lists and dicts of these",
            hint=f"rf.save_pretrained(model, folder, config={{…}}), so that {name}(**config) makes the model",
        )
    described = {"class": build_dict(type(module))["class"], **_named(options)}
    path = _folder(folder)
    save(module, path / _WEIGHTS, config=described)
    text = json.dumps(
        {"class": described["class"], "rfnb": sys.modules["rfnb"].__version__, "config": _text(described)}, indent=2
    )
    try:
        with replacing(path / _CONFIG) as unfinished:
            unfinished.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(path / _CONFIG, error, CheckpointError) from error
    return path


@guarded
def load_pretrained(folder: str | os.PathLike[str]) -> Module:
    """The model that `rf.save_pretrained` wrote to a folder.

    >>> out = rf.Dim(2, name="out")
    >>> rf.load_pretrained(rf.save_pretrained(rf.LayerNorm(out, eps=0.5), folder / "norm")).eps
    0.5

    Nothing is imported, and no code of the folder runs: its files are data. The class is found if it is one of rfnb, or
    if the module of Python that defines it is imported already.

    Raises CheckpointError if the class is not imported, if the files are of two saves, or if they cannot be read.
    """
    path = Path(folder)
    written = json_in(path / _CONFIG)
    name = written.get("class")
    if not isinstance(name, str) or "rfnb" not in written:
        raise CheckpointError(
            f"load_pretrained: {path / _CONFIG} was not written by rf.save_pretrained",
            got=f"a model of {written['model_type']!r}" if "model_type" in written else "no class of rfnb",
            hint="rf.load(folder, model) loads the weights alone",
        )
    config = load_config(path / _WEIGHTS)
    if not isinstance(config, dict) or _text(config) != written.get("config"):
        raise CheckpointError(
            f"load_pretrained: {_CONFIG} and {_WEIGHTS} in {path} are of two saves, or one of them was changed",
            hint="rf.save_pretrained(model, folder) writes both",
        )
    model = _class(name, Module)(**{key: _found(value) for key, value in config.items() if key != "class"})
    load(path / _WEIGHTS, model)
    return model


def _text(config: Mapping[str, object]) -> object:
    """The config as JSON holds it."""
    return json.loads(training_state.Writer().json({"config": dict(config)}))


def _named(value: object) -> Any:
    """The options with names in place of classes and functions."""
    if isinstance(value, Mapping):
        return {key: _named(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_named(part) for part in value])
    if not callable(value) or isinstance(value, Module):
        return value
    try:
        return {_CLASS: build_dict(value)["class"]}
    except ParameterError as error:
        raise CheckpointError(
            "save_pretrained: an option is a class or a function that cannot be found by a name",
            got=getattr(value, "__qualname__", type(value).__name__),
            expected="a subclass of rf.Module, or a function with `-> Tensor`",
        ) from error


def _found(value: object) -> object:
    """The options with the classes and functions of these names, which must be imported already."""
    if isinstance(value, dict):
        return _class(value[_CLASS]) if list(value) == [_CLASS] else {key: _found(part) for key, part in value.items()}
    return type(value)([_found(part) for part in value]) if isinstance(value, list | tuple) else value


def _class(name: str, kind: type | None = None) -> Any:
    try:
        value = class_of_name(str(name))
    except ParameterError as error:
        package = str(name).rpartition(".")[0]
        raise CheckpointError(
            f"load_pretrained: the class {name} is not imported",
            expected="one of rfnb, or one that this process has imported: no file imports anything",
            hint=f"import {package}" if package and package != "__main__" else None,
        ) from error
    if kind is not None and not (isinstance(value, type) and issubclass(value, kind)):
        raise CheckpointError(f"load_pretrained: {name} is not a model", expected="a subclass of rf.Module")
    return value


def _folder(folder: str | os.PathLike[str]) -> Path:
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"save_pretrained: {str(folder)[:80]!r} is not a folder to write to", got=error
        ) from error
    return path
