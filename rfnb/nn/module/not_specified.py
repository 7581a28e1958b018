"""The default of arguments for which None is a value."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class NotSpecified:
    """A default argument that says "not given". All modules of rfnb then use their own default.

    >>> def make(model: rf.Dim, ff_dim=rf.NotSpecified):
    ...     return rf.ConformerEncoderLayer(model, ff_dim=ff_dim, num_heads=2)
    >>> model = rf.Dim(8, name="model")
    >>> make(model).ffn1.linear_ff.out_dim.dimension, make(model, ff_dim=3).ffn1.linear_ff.out_dim.dimension
    (32, 3)
    """


def specified(init: Callable[..., None]) -> Callable[..., None]:
    """`init`, called without the named arguments that are `NotSpecified`."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # messages find a constructor by this name
        init(self, *args, **{name: value for name, value in kwargs.items() if value is not NotSpecified})

    return __init__
