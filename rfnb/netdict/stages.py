"""The stages of a training that changes its network: by an algorithm, by `get_network(epoch)`, or layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from rfnb.core.ground.show import Shown
from rfnb.core.ground.text import count_of
from rfnb.errors import ConfigError
from rfnb.netdict.build import NetNode, every_node
from rfnb.netdict.code.diff import layers_by_path, option_changes
from rfnb.netdict.config.read import Config
from rfnb.netdict.config.values import EpochValue, Unknown
from rfnb.netdict.network import Network, network_of
from rfnb.netdict.resolve import names_of_sources, reached, texts_in, values_in
from rfnb.netdict.weights import common_part

LAST = 10_000
"""The epoch after all stages, if a config does not say how many epochs there are."""
MOST = 1000
"""The most steps of a construction algorithm."""
MODES = (None, "subset", "ifpossible")


@dataclass(frozen=True, repr=False)
class Stage:
    """A network of a training, and the epochs that have it.

    Attributes:
        name: of the config. number: from 0. first, last: epochs; the last one of the final network is None.
        net_dict: the layers. settings: entries of the config that differ in this stage, from `#config`.
        copy_param_mode: how parameters are carried over from the stage before: None, "subset" or "ifpossible".
    """

    config: Config
    number: int
    first: int
    last: int | None
    net_dict: Mapping[str, object] = field(repr=False)
    settings: Mapping[str, object] = field(default_factory=dict)
    copy_param_mode: str | None = None

    @property
    def name(self) -> str:
        """The name of the config and the epochs."""
        return f"{Path(self.config.path).stem}, {self.epochs}"

    @property
    def epochs(self) -> str:
        """The epochs in words."""
        if self.last is None:
            return f"from epoch {self.first} on"
        return f"epoch {self.first}" if self.first == self.last else f"epochs {self.first} to {self.last}"

    def network(self, previous: Network | None = None, **options: Any) -> Network:
        """The network of this stage. options: those of `Network.from_config`.

        previous: that of the stage before, whose parameters are carried over by layer and name. Where a shape differs,
        "subset" takes the part that both have, gate by gate and source by source; otherwise the new values stay.
        """
        extern = None if previous is None else previous.extern_data  # the same batches fit
        net = network_of(self.config, self.net_dict, extern=extern, values=self.settings, **options)
        if previous is not None:
            carry_over(previous, net, subset=self.copy_param_mode == "subset")
        return net

    def __repr__(self) -> str:
        return f"Stage {self.number} of {self.name}: {count_of(len(self.net_dict), 'layer')}"

    def described(self) -> dict[str, Mapping[str, object]]:
        """The layers by path, also those inside of others."""
        return dict(layers_by_path(self.net_dict))


class Stages(Shown, Sequence[Stage]):
    """The stages of a config, one after the other: `config.stages()`."""

    def __init__(self, name: str, stages: Sequence[Stage]):
        self.name, self._stages = name, list(stages)

    def __getitem__(self, index: Any) -> Any:
        return Stages(self.name, self._stages[index]) if isinstance(index, slice) else self._stages[index]

    def __len__(self) -> int:
        return len(self._stages)

    def changes(self) -> list[StageChanges]:
        """What each stage adds, drops, widens, freezes and frees, compared with the one before."""
        first = [StageChanges({}, self._stages[0].described())] if self._stages else []
        return first + [StageChanges(a.described(), b.described()) for a, b in pairwise(self._stages)]


class StageChanges:
    """The differences of two nets by path of the layers: added, gone, resized, frozen, freed, changed."""

    def __init__(self, old: Mapping[str, Mapping[str, object]], new: Mapping[str, Mapping[str, object]]):
        self.added = [path for path in new if path not in old and not _is_inside(path, {*new} - {*old})]
        self.gone = [path for path in old if path not in new and not _is_inside(path, {*old} - {*new})]
        self.resized: dict[str, tuple[object, object]] = {}
        self.frozen, self.freed, self.changed = list[str](), list[str](), list[str]()
        for path in (path for path in new if path in old):
            a, b = old[path], new[path]
            options = {change.option for change in option_changes(path, a, b)}
            if "n_out" in options:
                self.resized[path] = a.get("n_out"), b.get("n_out")
            if "trainable" in options:
                (self.freed if b.get("trainable", True) else self.frozen).append(path)
            if options - {"n_out", "trainable"}:
                self.changed.append(path)


def _is_inside(path: str, others: set[str]) -> bool:
    """Whether a layer is inside of one of others, at any depth."""
    parts = path.split("/")
    return any("/".join(parts[:i]) in others for i in range(1, len(parts)))


def stages_of(config: Config) -> Stages:
    """The stages of a config; one, if its network is always the same.

    Raises ConfigError if a network cannot be computed.
    """
    nets = _by_epoch(config)
    stages: list[Stage] = []
    mode = _setting(config, "copy_param_mode")
    for epoch, net in nets:
        stage_mode = net.get("#copy_param_mode", mode)
        if stage_mode not in MODES:
            raise ConfigError(f"{Path(config.path).name}: unknown copy_param_mode", got=stage_mode, expected=MODES)
        settings = net.get("#config") or {}
        layers = config.of_epoch(net, epoch)
        if stages and repr((stages[-1].net_dict, stages[-1].settings)) == repr((layers, settings)):
            continue
        if stages:
            stages[-1] = replace(stages[-1], last=epoch - 1)
        stages.append(Stage(config, len(stages), epoch, None, layers, settings, stage_mode))
    return Stages(Path(config.path).stem, stages)


def _by_epoch(config: Config) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The net dict of each epoch, until it stays the same."""
    count = config.get("num_epochs")
    steps = _steps(config) if config.get("pretrain") else []
    if steps:
        epochs = [net for net, repetitions in steps for _ in range(repetitions)]
    elif "network" not in config:
        yield from ((epoch, config.raw_network(epoch)) for epoch in _epochs(count))
        return
    else:
        epochs = []
    final = config.raw_network(LAST)
    varies = any(isinstance(value, EpochValue) for value in values_in([final, *(net for net, _ in steps)]))
    last = max(len(epochs) + 1, *(_epochs(count) if varies else [1]))
    for epoch in range(1, last + 1):
        yield epoch, epochs[epoch - 1] if epoch <= len(epochs) else final


def _epochs(count: object) -> range:
    """The epochs of a training."""
    return range(1, (count if isinstance(count, int) and 0 < count <= LAST else 200) + 1)


def _setting(config: Config, name: str) -> Any:
    """An option of `pretrain`, which may be one of the config."""
    pretrain = config.get("pretrain")
    return pretrain.get(name) if isinstance(pretrain, Mapping) else config.get(f"pretrain_{name}")


def _steps(config: Config) -> list[tuple[Mapping[str, object], int]]:
    """The net dicts of pretraining, the last one that of the config, and how many epochs each has."""
    algorithm, net = _setting(config, "construction_algo") or "from_output", config.raw_network(LAST)
    if callable(algorithm) and not isinstance(algorithm, Unknown):
        nets: list[Mapping[str, object]] = []
        while (step := config.call(algorithm, idx=len(nets), net_dict=deepcopy(net))) is not None and len(nets) < MOST:
            if not isinstance(step, Mapping):
                raise ConfigError(f"{Path(config.path).name}: pretrain gives no network", got=type(step).__name__)
            nets.append(step)
        nets.append(net)
    elif algorithm in ("from_output", "from_input"):
        nets = layer_by_layer(net)
    elif algorithm == "no_network_modifications":
        nets = [net]
    else:
        expected = "a function of idx and net_dict, from_output, from_input or no_network_modifications"
        raise ConfigError(
            f"{Path(config.path).name}: unknown construction_algo", got=repr(algorithm), expected=expected
        )
    return [(step, _repetitions(config, step, i, is_final=i == len(nets) - 1)) for i, step in enumerate(nets)]


def _repetitions(config: Config, step: Mapping[str, object], index: int, *, is_final: bool) -> int:
    """How many epochs have a step."""
    setting = _setting(config, "repetitions")
    if "#repetition" in step:
        setting = step["#repetition"]
    elif isinstance(setting, Mapping):
        setting = setting.get(index, setting.get("final" if is_final else "default", setting.get("default", 1)))
    elif isinstance(setting, list | tuple):
        setting = setting[index] if index < len(setting) else 1
    return max(1, int(setting or 1))


def layer_by_layer(net: Mapping[str, Any]) -> list[Mapping[str, object]]:
    """A net dict with fewer layers below its output each time, the smallest first; the last one is the whole net."""
    nets, output = [net], net.get("output")
    while isinstance(output, Mapping):
        sources = [name for name in names_of_sources(output, "data") if name in net]
        below = sorted({name for source in sources for name in names_of_sources(net[source], "data") if name in net})
        if not below:
            break
        output = {**output, "from": below}
        smaller = {**net, "output": output}
        used = _used(smaller)
        layers = {name: layer for name, layer in smaller.items() if name in used or str(name).startswith("#")}
        if any(a in _used(net, b) for a, b in permutations(below, 2)):
            continue  # a shortcut around some of them
        nets.insert(0, layers)
    return nets


def _used(net: Mapping[str, object], name: str = "output") -> set[str]:
    """A layer, those that it names, and those that these name."""

    def named(layer: str) -> list[str]:
        names = [text.rpartition(":")[2].partition("/")[0] for text in texts_in(net[layer])]
        return [name for name in names if name in net]

    return reached([name] if name in net else [], named)


def carry_over(old: Network, new: Network, *, subset: bool) -> None:
    """Sets the parameters of a network to those of another one with the same layer and name.

    subset: whether the part that both have is copied where the shapes differ; otherwise such parameters stay.
    """
    before, after = every_node(old._nodes), every_node(new._nodes)
    for path, node in after.items():
        twin = before.get(path)
        if node.layer is None or twin is None or twin.layer is None:
            continue
        for name, parameter in node.layer.params.items():
            source = twin.layer.params.get(name)
            if source is None or len(source.dims) != len(parameter.dims):
                continue
            values, trained = (x.raw_tensor.detach() for x in (parameter, source))
            if values.shape == trained.shape:
                parameter.assign(trained)
            elif subset:
                pairs = zip(_blocks(new, node, values.shape), _blocks(old, twin, trained.shape), strict=True)
                parameter.assign(common_part(values, trained, list(pairs)))


def _blocks(net: Network, node: NetNode, shape: Sequence[int]) -> list[list[int]]:
    """The sizes of the parts of each axis of a parameter: gates of a cell, and features of several sources."""
    templates = [net.templates().get(path) for path in node.sources]
    sizes = [
        dim.dimension or 0 for x in templates if x is not None if (dim := x.sparse_dim or x.feature_dim) is not None
    ]
    feature = node.template.feature_dim
    width = 0 if feature is None or feature.dimension is None else feature.dimension
    blocks = []
    for axis, size in enumerate(shape):
        is_last = axis == len(shape) - 1
        if not is_last and size in (sum(sizes), sum(sizes) + width):
            blocks.append([*sizes, *([width] if size > sum(sizes) else [])])
        else:
            blocks.append([width] * (size // width) if width and size % width == 0 else [size])
    return blocks
