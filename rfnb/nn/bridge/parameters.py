"""Parameters for the optimizers of torch."""

from __future__ import annotations

from typing import Any

import torch

from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.nn.layers.embedding import Embedding
from rfnb.nn.module.module import Module, check_module


@guarded
def torch_parameters(module: Module) -> list[torch.nn.Parameter]:
    """The torch parameters that training changes, as the same objects that `module.to(…)` keeps.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> optimizer = torch.optim.Adam(rf.torch_parameters(model))

    A training step is plain torch:

        loss = model_loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    check_module(module, "torch_parameters")
    return [parameter.raw_tensor for parameter in module.parameters() if parameter.trainable]


@guarded
def param_groups(module: Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer, in which matrices decay, but biases and scales do not.

    A parameter decays by `Parameter.weight_decay` if that is set; otherwise by `weight_decay` if it has two or more
    dims and is not an embedding. All others, such as those of norms, do not decay:
    `torch.optim.AdamW(rf.param_groups(model, weight_decay=0.01))`.

    >>> feat, out = rf.Dim(2, name="feat"), rf.Dim(3, name="out")
    >>> model = rf.Sequential(rf.Linear(feat, out), rf.LayerNorm(out))
    >>> groups = rf.param_groups(model, weight_decay=0.01)
    >>> [(group["weight_decay"], len(group["params"])) for group in groups]
    [(0.01, 1), (0.0, 3)]
    """
    check_module(module, "param_groups")
    groups: dict[float, list[Any]] = {}
    ids: set[int] = set()
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            if parameter.trainable and id(parameter) not in ids:
                ids.add(id(parameter))
                groups.setdefault(_decay(parameter, owner, weight_decay), []).append(parameter.raw_tensor)
    return [{"params": raws, "weight_decay": decay} for decay, raws in groups.items()]


def _decay(parameter: Parameter, owner: Module, usual: float) -> float:
    if parameter.weight_decay:
        return parameter.weight_decay
    return 0.0 if len(parameter.dims) < 2 or isinstance(owner, Embedding) else usual
