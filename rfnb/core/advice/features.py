"""Hints for tensors without a feature dim, where one is needed."""

from __future__ import annotations

from typing import Any

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.advice.torch_equivalents import called


def features_hint(x: Any) -> str | None:
    """The code that gives `x` a feature dim; None if no dim of it can be one."""
    dim = likely_features(x)
    if dim is None:
        return None
    return (
        f"rf.set_feature_dim({called(x)}, {dim}); or feature_dim={dim} where it is made: rf.zeros(…, feature_dim={dim})"
    )


def likely_features(x: Any) -> str | None:
    """The user's name for the last dim of a fixed size, without batch and beam; None if there is none."""
    fixed = [dim for dim in x.dims if not (dim.dimension is None or dim.is_batch_dim() or is_beam(dim))]
    return called(fixed[-1]) if fixed else None
