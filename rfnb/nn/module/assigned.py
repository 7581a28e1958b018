"""What is assigned to an attribute of a module, but would not belong to it: errors and a warning."""

from __future__ import annotations

import warnings
from typing import Any

from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import ParameterError
from rfnb.printable import encodable, printable_name


def check_assigned(owner: object, name: str, value: Any) -> None:
    """Raises ParameterError for a module or parameter of torch, which would be neither trained nor saved."""
    import torch

    if not isinstance(value, torch.nn.Module | torch.nn.Parameter):
        return
    path = f"{type(owner).__name__}.{name}"
    if isinstance(value, torch.nn.Module):
        raise ParameterError(
            f"{path} is a module of torch: its parameters would be neither trained nor saved",
            got=f"{type(value).__module__}.{type(value).__qualname__}",
            expected="an rf.Module",
            hint=f"{name}.rf_module"
            if hasattr(value, "rf_module")
            else f"rf.from_torch({name}, in_dims=[…], out_dims=[…]), with the dims of its arguments and results",
        )
    exists = isinstance(vars(owner).get(name), Parameter)
    raise ParameterError(
        f"{path} is a parameter of torch: it would be neither trained nor saved",
        got=f"torch.nn.Parameter of shape {tuple(value.shape)}",
        expected="an rf.Parameter",
        hint=f"{path}.assign({name}) sets its values" if exists else f"rf.Parameter([…], raw_tensor={name}), with Dims",
    )


def warn_of_plain(owner: object, name: str, value: object) -> None:
    """Warns of a plain list, tuple or dict of modules or parameters, which do not belong to the module."""
    warnings.warn(
        encodable(
            f"{type(owner).__name__}.{printable_name(name)} is a plain {type(value).__name__}: its parameters are "
            "neither trained nor saved with the module. Use rf.ModuleList."
        ),
        stacklevel=3,
    )
