"""What a config says of the training, and what to write for it in Torch: `config.training()`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rfnb.core.ground.show import Shown
from rfnb.netdict.report.findings import training_keys

PARAMETERS = "rf.torch_parameters(net)"
OPTIMIZERS = {
    "adam": "Adam", "nadam": "NAdam", "adamw": "AdamW", "adadelta": "Adadelta", "adagrad": "Adagrad",
    "rmsprop": "RMSprop", "sgd": "SGD", "gradientdescent": "SGD", "momentum": "SGD", "radam": "RAdam",
}  # fmt: skip
"""By the names of configs, the optimizers of Torch."""
OPTIONS = {"epsilon": "eps", "weight_decay": "weight_decay", "momentum": "momentum"}
"""By the names of configs, options of optimizers."""


class TrainingRow(NamedTuple):
    """A topic, what the config says of it, and what to write."""

    topic: str
    given: str
    write: str


@dataclass(frozen=True, repr=False)
class Training(Shown):
    """What to write for the training of a config. name: of the config."""

    name: str
    rows: tuple[TrainingRow, ...]


def training_of(path: str, values: Mapping[str, object]) -> Training:
    """The rows, in the order in which a training needs them."""
    rows = [TrainingRow("optimizer", _given(values, _names_of_optimizer(values)), _optimizer(values))]
    for topic, pattern, write in RULES:
        names = [name for name in values if re.fullmatch(pattern, str(name)) and values[name] not in (None, False, 0)]
        if names:
            rows.append(TrainingRow(topic, _given(values, names), write(values, names)))
    covered = {name for row in rows for name in re.findall(r"(\w+) = ", row.given)}
    for group, words, instead in training_keys({name: value for name, value in values.items() if name not in covered}):
        if group in ("weights of other models", "data sets"):
            rows.append(TrainingRow(group, ", ".join(words), instead))
    return Training(Path(path).stem, tuple(rows))


def _names_of_optimizer(values: Mapping[str, object]) -> list[str]:
    names = ["optimizer", *OPTIMIZERS, "optimizer_epsilon", "adam_epsilon", "learning_rate"]
    return [name for name in names if values.get(name) not in (None, False)]


def _given(values: Mapping[str, object], names: list[str]) -> str:
    return ", ".join(f"{name} = {_short(values[name])}" for name in names)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _number(values: Mapping[str, object], default: object, *names: str) -> Any:
    """The first of these entries that is a number, or else the default."""
    entries = map(values.get, names)
    return next((x for x in entries if isinstance(x, int | float) and not isinstance(x, bool)), default)


def _optimizer(values: Mapping[str, object]) -> str:
    """The optimizer of Torch, with its options."""
    setting = values.get("optimizer")
    described = setting if isinstance(setting, Mapping) else {"class": setting} if isinstance(setting, str) else {}
    name = described.get("class") or next((name for name in OPTIMIZERS if values.get(name)), "sgd")
    cls = OPTIMIZERS.get(str(name).lower().removesuffix("optimizer"))
    if cls is None:
        return f"an optimizer like {name!r}: torch.optim has none of this name"
    options = [f"lr={_number(values, 1e-3, 'learning_rate')}"]
    options += [f"{OPTIONS[key]}={value}" for key, value in described.items() if key in OPTIONS]
    betas = [described.get(key, default) for key, default in (("beta1", 0.9), ("beta2", 0.999))]
    options += [f"betas=({betas[0]}, {betas[1]})"] if {"beta1", "beta2"} & {*described} else []
    epsilon = _number(values, None, "optimizer_epsilon", "adam_epsilon")
    options += [f"eps={epsilon}"] if epsilon is not None and "epsilon" not in described else []
    momentum = _number(values, None, "momentum")
    options += [f"momentum={momentum}"] if cls == "SGD" and momentum and "momentum" not in described else []
    return f"torch.optim.{cls}({PARAMETERS}, {', '.join(options)})"


Write = Callable[[Mapping[str, Any], list[str]], str]


def _always(text: str) -> Write:
    """The text with the values of the config in it: "{gradient_clip}"."""
    return lambda values, names: re.sub(r"\{(\w+)\}", lambda found: _short(values.get(found[1])), text)


def _rates(values: Mapping[str, object], names: list[str]) -> str:
    rates, rate = values["learning_rates"], _number(values, 1e-3, "learning_rate")
    if not isinstance(rates, list | tuple):
        return "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: …)"
    return (
        f"LambdaLR(optimizer, lambda epoch: (rates[epoch] if epoch < {len(rates)} else {rate}) / {rate}), rates = […]"
    )


def _newbob(values: Mapping[str, object], names: list[str]) -> str:
    factor = _number(values, 0.5, "newbob_learning_rate_decay", "learning_rate_control_decay")
    epochs = "newbob_multi_num_epochs", "learning_rate_control_min_num_epochs_per_new_lr"
    patience = _number(values, 1, *epochs)
    threshold = abs(_number(values, 0.01, "newbob_relative_error_threshold"))
    lowest = _number(values, 0, "min_learning_rate")
    call = f"factor={factor}, patience={patience - 1 if patience else 0}, threshold={threshold}, min_lr={lowest}"
    return f"ReduceLROnPlateau(optimizer, {call}); its step(dev_error) after each epoch"


def _batches(values: Mapping[str, object], names: list[str]) -> str:
    frames, seqs = values.get("batch_size"), _number(values, None, "max_seqs")
    size = next(iter(frames.values()), None) if isinstance(frames, Mapping) else frames
    options = [f"max_frames={size}"] if isinstance(size, int) and size else []
    options += [f"max_seqs={seqs}"] if seqs else []
    return f"rf.FrameBatches(data.lengths(), {', '.join(options)}) as the batch_sampler of a DataLoader"


def _stages(values: Mapping[str, object], names: list[str]) -> str:
    return "for stage in config.stages(): net = stage.network(previous=net), and a new optimizer"


RULES: tuple[tuple[str, str, Write], ...] = (
    ("schedule", "learning_rates", _rates),
    ("schedule", r"learning_rate_control\w*|newbob\w*|min_learning_rate|relative_error_\w+", _newbob),
    ("schedule", r"learning_rate_warmup\w*|dynamic_learning_rate", _always("LambdaLR(optimizer, lambda step: …)")),
    ("clipping", "gradient_clip", _always("torch.nn.utils.clip_grad_value_(parameters, {gradient_clip})")),
    ("clipping", "gradient_clip_global_norm",
     _always("torch.nn.utils.clip_grad_norm_(parameters, {gradient_clip_global_norm})")),
    ("clipping", "gradient_clip_norm",
     _always("for p in parameters: torch.nn.utils.clip_grad_norm_([p], {gradient_clip_norm})")),
    ("noise", "gradient_noise",
     _always("for p in parameters: p.grad += torch.randn_like(p) * {gradient_noise}, before optimizer.step()")),
    ("accumulation", "accum_grad_multiple_step",
     _always("optimizer.step() and zero_grad() after every {accum_grad_multiple_step} batches")),
    ("constraints", "decouple_constraints", _always("torch.optim.AdamW(…, weight_decay=…) for the L2 of layers")),
    ("batches", "batch_size|max_seqs", _batches),
    ("batches", "max_seq_length|min_seq_length", _always("torch.utils.data.Subset of the sequences of these lengths")),
    ("batches", "chunking", _always("cut sequences: frames, and how far apart the pieces begin, are {chunking}")),
    ("epochs", "num_epochs", _always("for epoch in range({num_epochs})")),
    ("pretraining", r"pretrain\w*|get_network", _stages),
)  # fmt: skip
"""The topic, the entries of the config, and what is written for them."""
