"""`rf.read_config`: the values of a config file."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rfnb.core.ground.text import count_of, did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.errors import ConfigError
from rfnb.netdict.config.interpreter import Interpreter, Leave
from rfnb.netdict.config.limits import Limits
from rfnb.netdict.config.modules import ConfigModule, ConfigOptions
from rfnb.netdict.config.values import EpochValue, Function, Located, Unknown
from rfnb.netdict.extern_data import data_of_size
from rfnb.printable import encodable

if TYPE_CHECKING:
    from rfnb.netdict.report.training import Training
    from rfnb.netdict.stages import Stages

LARGEST = 10_000_000
"""The most bytes of a config."""
DEEPEST = 60
"""How deep the dicts and lists of a network may be nested."""


class Config:
    """The values of a config, by name: `config["network"]`, `config.get("beam_size", 12)`.

    Attributes: path: the file. values: all names that it defines.

    >>> config = rf.Config("net.config", {"network": {"output": {"class": "copy"}}, "batch_size": 20})
    >>> config["batch_size"], config.get("beam_size", 12), "network" in config
    (20, 12, True)
    """

    def __init__(self, path: str, values: dict[str, Any], interpreter: Interpreter | None = None):
        self.path, self.values = path, values
        self._interpreter = interpreter

    def __getitem__(self, name: str) -> Any:
        if name not in self.values:
            raise ConfigError(f"{Path(self.path).name}: there is no {name}", hint=did_you_mean(name, self.values))
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, default: object = None) -> Any:
        """A value, or the default."""
        return self.values.get(name, default)

    def network(self, epoch: int | None = None) -> Mapping[str, Any]:
        """The net dict: `network`, or what `get_network(epoch)` gives. Layers whose name begins with # are not in it.

        epoch: of the training, from 1; default: the last one. Raises ConfigError if the config has no network.
        """
        last_epoch = self.values.get("num_epochs")
        epoch = epoch if epoch is not None else last_epoch if isinstance(last_epoch, int) else 10_000
        return self.of_epoch(self.raw_network(epoch), epoch)

    def raw_network(self, epoch: int) -> dict[str, Any]:
        """The net dict as the config has it, with comments and values of the epoch."""
        net = self.values.get("network")
        function = self.values.get("get_network")
        if net is None and callable(function) and not isinstance(function, Unknown):
            net = self.call(function, epoch=epoch)
        if not isinstance(net, dict):
            raise ConfigError(
                f"{Path(self.path).name}: the config has no network",
                got=net,
                expected="network = {…}",
                hint="rf.read_config(path, execute=True) runs a file that you trust, with what it imports"
                if isinstance(net, Unknown)
                else None,
            )
        checked(self._interpreter, self.path, lambda: Limits().weigh(net))
        return net

    def stages(self) -> Stages:
        """The networks of a training that changes its network, with their epochs; often one.

        They come from `pretrain` (a construction algorithm, or layer by layer), from `get_network(epoch)`, and from
        values of the epoch. `stages[1].network(previous=net)` is the second one, with the parameters of the first.

        >>> layers = {f"l{i}": {"class": "linear", "n_out": 2, "from": f"l{i - 1}" if i else "data"} for i in range(2)}
        >>> net = {**layers, "output": {"class": "softmax", "n_out": 2, "from": "l1"}}
        >>> stages = rf.Config("net.config", {"network": net, "pretrain": "default"}).stages()
        >>> [(list(stage.net_dict), stage.epochs) for stage in stages]
        [(['l0', 'output'], 'epoch 1'), (['l0', 'l1', 'output'], 'from epoch 2 on')]
        """
        stages: Stages = import_module("rfnb.netdict.stages").stages_of(self)
        return stages

    def training(self) -> Training:
        """What the config says of the training, and what to write for it in Torch.

        >>> rf.Config("net.config", {"adam": True, "learning_rate": 0.001}).training().rows[0].write
        'torch.optim.Adam(rf.torch_parameters(net), lr=0.001)'
        """
        training: Training = import_module("rfnb.netdict.report.training").training_of(self.path, self.values)
        return training

    @property
    def notes(self) -> dict[int, str]:
        """By line: what depends on the machine of the config, such as the files there, and how it was taken."""
        return {} if self._interpreter is None else self._interpreter.notes()

    def extern_data(self) -> dict[str, Any]:
        """The data descriptions: `extern_data`, or those of `num_inputs` and `num_outputs`."""
        described = self.values.get("extern_data")
        if isinstance(described, dict):
            return dict(described)
        data_keys: dict[str, Any] = {}
        outputs = self.values.get("num_outputs")
        inputs = self.values.get("num_inputs")
        if isinstance(outputs, int):
            outputs = {"classes": [outputs, 1]}
        if isinstance(outputs, dict):
            data_keys = {key: data_of(value) for key, value in outputs.items()}
        if isinstance(inputs, int) and "data" not in data_keys:
            window = self.values.get("window", 1)
            data_keys = {"data": {"dim": inputs * (window if isinstance(window, int) else 1)}, **data_keys}
        for key, description in data_keys.items():
            description.setdefault("available_for_inference", key == "data")
        return data_keys

    def call(self, function: Any, **kwargs: object) -> Any:
        """What a function of the config gives. Of the arguments it gets those that it takes."""
        if self._interpreter is None:
            return function(**kwargs)
        self._interpreter.limits.renew()
        with_those = {name: value for name, value in kwargs.items() if _takes(function, name)}
        return checked(self._interpreter, self.path, lambda: function(**with_those))

    def of_epoch(self, value: object, epoch: int, depth: int = 0) -> Any:
        """A net dict, or a value in it, with what depends on the epoch computed, and without comments."""
        if depth > DEEPEST:
            raise ConfigError(f"{Path(self.path).name}: the network is nested too deeply")
        if isinstance(value, EpochValue):
            return self.call(value.function, epoch=epoch)
        if isinstance(value, dict):
            entries = {
                key: self.of_epoch(entry, epoch, depth + 1)
                for key, entry in value.items()
                if not (isinstance(key, str) and key.startswith("#"))
            }
            return Located(entries, getattr(value, "line", None), getattr(value, "file", None) or self.path)
        if isinstance(value, list | tuple):
            return type(value)([self.of_epoch(entry, epoch, depth + 1) for entry in value])
        return value

    def __repr__(self) -> str:
        network = self.values.get("network")
        layers = f", network of {count_of(len(network), 'layer')}" if isinstance(network, dict) else ""
        return encodable(f"Config {Path(self.path).name}: {count_of(len(self.values), 'value')}{layers}")


def _takes(function: object, name: str) -> bool:
    return not isinstance(function, Function) or name in function.parameters or function.node.args.kwarg is not None


def data_of(value: Any) -> dict[str, object]:
    """A data description of `num_outputs`: a dict, or the size and the number of axes."""
    if isinstance(value, dict):
        return dict(value)
    size, axes = (value, 1) if isinstance(value, int) else (value[0], value[1] if len(value) > 1 else 1)
    return data_of_size(size, axes)


@guarded
def read_config(path: str | Path, *, options: dict[str, object] | None = None, execute: bool = False) -> Config:
    """Reads a config file, written in Python or JSON, without running it.

    An interpreter of the syntax tree computes the values: with branches, loops, functions and plain classes; `math`,
    `copy` and some of numpy. Python files beside it that it imports are read too. What other modules give is opaque:
    it has a name, and nothing else. A config cannot open other files, start processes, or take more than a few seconds.

    What only the machine of the config knows, such as whether a file exists, is unknown. An assertion about it is
    skipped; a condition is taken for false, or for true if the config fails otherwise. `config.notes` lists them.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "net.config"
    >>> _ = path.write_text("n = 3\\nnetwork = {f'l{i}': {'class': 'linear', 'n_out': 2**i} for i in range(n)}")
    >>> config = rf.read_config(path)
    >>> list(config.network()), config["network"]["l2"]["n_out"]
    (['l0', 'l1', 'l2'], 4)

    Args:
        path: the file. options: values that the config gets when it asks `config.int("…")` and the like.
        execute: run the file as Python instead. Only for files that you would run as a program: it can do anything.

    Raises ConfigError, with the line, if the file cannot be read.
    """
    file = Path(path)
    text = _text_of(file)
    plain = COMMENT.sub(lambda found: found[1] or "", text)
    if plain.lstrip().startswith("{"):
        return Config(str(file), _json(file, plain))
    if execute:
        return Config(str(file), _executed(file, text, options or {}))
    interpreter = Interpreter(str(file), options or {}, lambda neighbour: _tree(neighbour, _text_of(neighbour)))
    checked(interpreter, str(file), lambda: interpreter.run(_tree(file, text)))
    names = interpreter.globals.names.items()
    values = {name: value for name, value in names if not isinstance(value, ConfigModule | ConfigOptions)}
    return Config(str(file), values, interpreter)


def _text_of(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise ConfigError(f"{file.name}: the file has more than {LARGEST} bytes", got=file.stat().st_size)
        return file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise ConfigError(f"read_config: {file} cannot be opened", got=error.strerror) from None


def checked(interpreter: Interpreter | None, path: str, run: Callable[[], object]) -> object:
    """What `run` gives. Errors in it become a ConfigError with the line."""
    name = Path(path).name
    if interpreter is None:
        return run()
    try:
        return interpreter.attempt(run)
    except ConfigError as error:
        if not error.what.startswith(f"{name}:"):
            error.what = f"{name}:{interpreter.line}: {error.what}"
        raise
    except Leave as leave:
        raise ConfigError(f"{name}:{interpreter.line}: {leave.how} outside of a loop or function") from None
    except RecursionError:
        raise ConfigError(f"{name}:{interpreter.line}: the config is nested too deeply") from None
    except MemoryError:
        raise ConfigError(f"{name}:{interpreter.line}: the config needs too much memory") from None
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{name}:{interpreter.line}: the config fails", got=words[:200]) from None


def _tree(file: Path, text: str) -> ast.Module:
    """The syntax tree. Of Python 2, tabs are 8 spaces wide, print statements are left out, others are rewritten."""
    for source in (text, _of_python_2(text)):
        try:
            return ast.parse(source, str(file))
        except SyntaxError as error:
            failed = error
        except (RecursionError, MemoryError, ValueError):
            raise ConfigError(f"{file.name}: the config is nested too deeply, or is not text") from None
    line = (failed.text or "").strip()[:80]
    raise ConfigError(f"{file.name}:{failed.lineno}: this is not Python", got=line) from None


PYTHON_2 = {
    r"^([ \t]*|[ \t]*(?:if|elif|else|for|while|try|with)\b.*:[ \t]+)print\b(?![ \t]*\()(?:.*\\\n)*.*$": r"\1pass",
    r"^([ \t]*except[ \t]+[\w.(), \t]+),[ \t]*(\w+)[ \t]*:": r"\1 as \2:",
    r"^([ \t]*raise[ \t]+[\w.]+)[ \t]*,[ \t]*(.+)$": r"\1(\2)",
}
"""Statements of Python 2, and how Python writes them."""


def _of_python_2(text: str) -> str:
    text = text.expandtabs(8)
    for pattern, instead in PYTHON_2.items():
        text = re.sub(pattern, instead, text, flags=re.M)
    return text


COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?:#|//).*$', re.M)


def _json(file: Path, text: str) -> dict[str, object]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ConfigError(f"{file.name}:{line}: this is not JSON", got=str(error)[:100]) from None
    if not isinstance(config, dict):
        raise ConfigError(f"{file.name}: a config is a table of names", got=type(config).__name__)
    return config


def _executed(file: Path, text: str, options: dict[str, object]) -> dict[str, object]:
    values: dict[str, Any] = {"__file__": str(file), "__name__": "__config__"}
    values["config"] = SimpleNamespace(**ConfigOptions(values, options).methods)
    exec(compile(text, str(file), "exec"), values)
    return {name: value for name, value in values.items() if not name.startswith("__")}
