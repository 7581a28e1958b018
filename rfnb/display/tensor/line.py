"""A tensor in one line, as `rf.watch` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.backend.base.tape import untaped
from rfnb.display.markup.numbers import short

if TYPE_CHECKING:
    import numpy as np

    from rfnb.core.tensor.tensor import Tensor


def line(name: str, x: Tensor, live: np.ndarray | None = None) -> str:
    """`att {batch, enc_time} float32  0.12 -0.31 … (3×16)  min -2  max 1.5  nan`"""
    from rfnb.display.tensor.value import describe_value  # with numpy and all: not before somebody looks

    with untaped():
        view = describe_value(name, x, sequences=None, sequence=None, pictures=False, live=live)
    stats = view["stats"]
    span = f"  min {short(stats['min'])}  max {short(stats['max'])}" if stats and "…" in view["text"] else ""
    flags = "".join(f"  {flag}" for flag in view["flags"])
    return f"{name} {{{', '.join(dim.name for dim in x.dims)}}} {x.dtype}  {view['text']}{span}{flags}"
