"""A name that there is not: what is near to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def nearest(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Those of `known` that are written most alike.

    >>> nearest("encodr", ["decoder", "encoder", "step"])
    ['encoder']
    """
    return difflib.get_close_matches(str(name), list(known), most, cutoff)


def did_you_mean(
    name: object, known: Iterable[str], written: str = "{!r}", *, most: int = 1, cutoff: float = 0.6
) -> str | None:
    """The hint of an error about a name that there is not; None if none of `known` is near. written: how they are.

    >>> did_you_mean("encodr", ["decoder", "encoder", "step"], "model.{}")
    'did you mean model.encoder?'
    """
    near = nearest(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(written.format, near))}?" if near else None


class Missing(AttributeError):
    """Looks for near names only when it is shown: tools ask for many names, and expect not to find them."""

    def __init__(self, what: str, name: str, owner: object):
        super().__init__(what, name=name)
        self.owner = owner

    def __str__(self) -> str:
        known = [name for name in dir(self.owner) if not name.startswith("_")]
        hint = did_you_mean(self.name, known, most=2, cutoff=0.7)
        return f"{self.args[0]}: {hint}" if hint else self.args[0]

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


def no_name(module: object, name: str) -> AttributeError:
    """The error for `rf.name`."""
    if name in INSTEAD:
        return AttributeError(f"rf.{name} → {INSTEAD[name]}", name=name)
    return Missing(f"module 'rfnb' has no attribute {name!r}", name, module)


INSTEAD = {
    **{name: f"rf.reduce_{name}(x, axis=…)" for name in "sum mean max min all any logsumexp argmax argmin".split()},
    "amax": "rf.reduce_max(x, axis=…)",
    "amin": "rf.reduce_min(x, axis=…)",
    **dict.fromkeys(["cat", "concatenate"], "rf.concat((x, dim_of_x), (y, dim_of_y)), which gives (tensor, dim)"),
    **dict.fromkeys("transpose permute swapaxes".split(), "not needed: ops find axes by dims; x.copy_transpose(dims)"),
    **dict.fromkeys("view flatten unflatten".split(), "rf.merge_dims, rf.split_dims or rf.reshape, with Dims"),
    "unsqueeze": "rf.expand_dim(x, dim), if at all: ops broadcast by dims",
    **dict.fromkeys(["expand", "tile"], "not needed: ops broadcast by dims; rf.expand_dims(x, dims=[…])"),
    **dict.fromkeys("mm bmm einsum".split(), "rf.matmul(a, b, reduce=…)"),
    **dict.fromkeys("tensor as_tensor from_numpy asarray".split(), "rf.convert_to_tensor(data, dims=[…])"),
    **dict.fromkeys(["clamp", "clip"], "rf.clip_by_value(x, low, high)"),
    "masked_fill": "rf.where(mask, value, x)",
    **dict.fromkeys("index_select take take_along_dim".split(), "rf.gather(x, indices=…, axis=…)"),
    "arange": "rf.range_over_dim(dim)",
    "linspace": "rf.linspace_over_dim(dim, start, end)",
    "topk": "rf.top_k(x, axis=…, k=…)",
    "flip": "rf.reverse_sequence(x, axis=…)",
    "detach": "rf.stop_gradient(x)",
    "no_grad": "rf.stop_gradient(x), or torch.no_grad()",
    "chunk": "rf.split(x, axis=…, out_dims=[…])",
    "randn": "rf.random_normal(dims)",
    "rand": "rf.random_uniform(dims)",
    "manual_seed": "rf.set_random_seed(seed)",
    **{name: f'words: dtype="{name}"' for name in "float16 float32 float64 bfloat16 int32 int64 uint8".split()},
}
"""Names in torch and numpy, and what to write here."""
