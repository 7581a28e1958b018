"""What the optimizers of torch take."""

from __future__ import annotations

import torch

from rfnb.nn.module.module import Module


def torch_parameters(module: Module) -> list[torch.nn.Parameter]:
    """The torch parameters that training changes: the very objects, which `module.to(…)` keeps.

    >>> model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> optimizer = torch.optim.Adam(rf.torch_parameters(model))

    A training step is plain torch:

        loss = model_loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    return [parameter.raw_tensor for parameter in module.parameters() if parameter.trainable]
