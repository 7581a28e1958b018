"""Names of a config that are for its training: rfnb does not read them, since a training is the user's own loop."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

GROUPS = {
    "optimizer": (
        r"learning_rate|adam\w*|nadam|amsgrad|rmsprop|adadelta|momentum|nesterov|optimizer\w*|gradient_\w+|grad\w*_clip"
        r"|accum_grad_\w+|decouple_constraints\w*|weight_decay|tf_optimizer",
        "torch.optim.Adam(rf.torch_parameters(net), lr={learning_rate}), torch.nn.utils.clip_grad_norm_",
    ),
    "schedule": (
        r"learning_rates|learning_rate_\w+|newbob\w*|min_learning_rate|num_epochs|start_epoch|relative_error_\w+"
        r"|use_learning_rate_control_always",
        "torch.optim.lr_scheduler",
    ),
    "batches": (
        r"batch_size|max_seqs|m(ax|in)_seq_length|chunking|batching|max_pad_size|batch_pruning|pad\w*_batch\w*"
        r"|sort_dataset|seq_ordering|partition_epoch|cache_size|window|context_window",
        "torch.utils.data.DataLoader(…, collate_fn=net.extern_data.collate)",
    ),
    "data sets": (
        r"train|dev|eval|search_data|eval_datasets|train_dataset|forward_data",
        'a torch Dataset, such as rf.hdf("train.hdf")',
    ),
    "pretraining": (r"pretrain\w*|train_only\w*|epoch_split", "rf.Network.from_config(path, epoch=…) for each stage"),
    "weights of other models": (
        r"preload_from_files|import_model\w*|load|load_epoch|model_init\w*|initialize_from\w*",
        "rf.preload(net, config)",
    ),
    "checkpoints": (r"model|cleanup_old_models|save_interval|keep_\w*models|checkpoint\w*", "rf.save, rf.load"),
    "search": (r"search_\w+|forward_\w+|output_file|beam_\w+_for_search", "search_flag=True"),
    "devices and logs": (
        r"device|use_tensorflow|tf_\w+|log\w*|debug_\w+|use_horovod|horovod\w*|multiprocessing|update_on_device"
        r"|stop_on_\w+|task|calculate_exp_loss|store_\w+",
        "rfnb runs on Torch, in your process",
    ),
}
"""By what they are for: the pattern of the names, and what takes their place."""


def training_keys(values: Mapping[str, Any]) -> Iterator[tuple[str, list[str], str]]:
    """What names of a config are for, those names with short values, and what takes their place.

    >>> from rfnb.network.report.training_keys import training_keys
    >>> for group, names, instead in training_keys({"learning_rate": 0.001, "network": {}, "max_seqs": 40}):
    ...     print(group, names, instead.partition("(")[0])
    optimizer ['learning_rate = 0.001'] torch.optim.Adam
    batches ['max_seqs = 40'] torch.utils.data.DataLoader
    """
    names = [name for name in values if isinstance(name, str)]
    for group, (pattern, instead) in GROUPS.items():
        keys = [name for name in names if re.fullmatch(pattern, name)]
        if keys:
            names = [name for name in names if name not in keys]
            rate = values.get("learning_rate")
            instead = instead.replace("{learning_rate}", str(rate) if isinstance(rate, int | float) else "1e-3")
            yield group, [_word(name, values[name]) for name in keys], instead


def _word(name: str, value: Any) -> str:
    short = isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) < 24)
    return f"{name} = {value!r}" if short else name
