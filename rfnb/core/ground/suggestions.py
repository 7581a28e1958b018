"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.errors import DimError, RfError


def nearest(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names among `known` with the most similar spelling.

    >>> nearest("encodr", ["decoder", "encoder", "step"])
    ['encoder']
    """
    return difflib.get_close_matches(str(name), list(known), most, cutoff)


def did_you_mean(
    name: object, known: Iterable[str], written: str = "{!r}", *, most: int = 1, cutoff: float = 0.6
) -> str | None:
    """A hint for an error about an unknown name; None if no name in `known` is similar.

    written: the format in which a suggested name is shown.

    >>> did_you_mean("encodr", ["decoder", "encoder", "step"], "model.{}")
    'did you mean model.encoder?'
    """
    near = nearest(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(written.format, near))}?" if near else None


def number_of(
    tag: str, tags: Sequence[str] | None, what: str, error: type[RfError] = DimError, hint: str | None = None
) -> int:
    """The number of the sequence with this tag. Raises `error`, which suggests similar tags, if there is none."""
    if not tags:
        raise error(
            f"{what}: no sequence with this tag",
            got=repr(tag),
            expected="a number, as the batch has no tags",
            hint=hint or "rf.convert_to_tensor(…, tags=[…]), or rf.collate(…, tag=…)",
        )
    if tag not in tags:
        known = ", ".join(map(repr, tags[:8])) + (f", … ({len(tags)})" if len(tags) > 8 else "")
        hint = did_you_mean(tag, tags, most=3)
        raise error(f"{what}: no sequence with this tag", got=repr(tag), expected=known, hint=hint)
    return list(tags).index(tag)


class Missing(AttributeError):
    """An AttributeError that searches for similar names only when it is shown.

    Tools probe for many attributes that do not exist, and discard these errors.
    """

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
    """The error for `rf.name`, if there is no such name."""
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
    **{name: f'a string: dtype="{name}"' for name in "float16 float32 float64 bfloat16 int32 int64 uint8".split()},
}
"""What to write instead of names from torch and numpy."""
