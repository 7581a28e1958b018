"""Names of axes: strings such as "T", "except_batch" or "static:0", parsed in one place for all who take them.

| name | axes |
|---|---|
| `B` `batch` · `T` `time` · `F` `feature` | the dim of sequences, the dim of frames, the feature dim |
| `T?` | the dim of frames, or none |
| `spatial` | all but batch and feature |
| `dyn` `dynamic` · `static` | those with a size for each sequence; those of a fixed size; both without batch |
| `except_batch` · `except_time` · `spatial_except_time` · `*` | all but …; `except_time` is without batch, too |
| `s:0` `spatial:0` · `d:0` `dyn:0` · `static:-1` · `except_batch:1` | one of these, by its position among them |
| `dim:5` | the dim of this size |
| `stag:x` · `stag-single:0:x` | the dim with `x` in its name, a spatial one if there is any; one of several such dims |
| `tag:x` | the dim with `x` in its name |
| `bt` `btf` | joined letters |

Upper and lower case mean the same. Positions count in the order of the dims.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rfnb.core.dims.align import show_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.text import did_you_mean, nearest
from rfnb.errors import DimError

_times: weakref.WeakSet[Dim] = weakref.WeakSet()


def mark_time(dim: Dim) -> Dim:
    """Makes a dim the one that `T` means wherever it is, also if its size is fixed; returns the dim."""
    _times.add(dim)
    return dim


def is_marked_time(dim: Dim) -> bool:
    """Whether a dim, or one that it is derived from, was marked by `mark_time`."""
    parts = () if dim.expr is None else dim.expr.dims
    return dim in _times or any(part is not dim and is_marked_time(part) for part in parts)


def _own_name(dim: Dim) -> tuple[str, ...]:
    return (dim.name,)


@dataclass(frozen=True)
class AxisOrder:
    """The axes that names are looked up in: the dims in their order, and the one that counts features.

    names: all names of a dim, for `stag:`; by default its own name. static_time: whether a dim of kind "spatial" may be
    the time although its size is fixed and it is not marked.

    >>> time, feat = rf.Dim(None, name="time"), rf.Dim(5, name="feat")
    >>> order = AxisOrder((rf.batch_dim, time, feat), feat)
    >>> [order.find(name) for name in ("T", "static:0", "except_batch", "dim:5", "stag:tim", "bf")]
    [(1,), (2,), (1, 2), (2,), (1,), (0, 2)]
    """

    dims: Sequence[Dim]
    feature_dim: Dim | None = None
    names: Callable[[Dim], Sequence[str]] = _own_name
    static_time: bool = True

    def find(self, name: str) -> tuple[int, ...]:
        """The positions of all axes with this name, which may be none. Raises DimError if it is not a name of axes."""
        text = name.lower()
        kind, _, detail = text.partition(":")
        if text in _GROUPS:
            return tuple(_GROUPS[text](self))
        if kind in _NUMBERED and detail:
            return self._numbered(name, _NUMBERED[kind](self), detail)
        if kind == "dim" and detail:
            return tuple(i for i, dim in enumerate(self.dims) if str(dim.dimension) == detail)
        if kind == "tag" and detail:
            return tuple(self._named(detail, self.every()))
        if kind == "stag" and detail:
            return tuple(self._with_tag(detail))
        if kind == "stag-single" and ":" in detail:
            number, _, tag = detail.partition(":")
            return self._numbered(name, self._with_tag(tag), number)
        if text and set(text) <= set("btf"):
            return tuple(axis for letter in dict.fromkeys(text) for axis in self.find(letter))
        raise DimError(
            f"{name!r} is not a name of axes",
            got=show_dims(self.dims),
            expected=", ".join(_GROUPS) + ", spatial:0, dim:5, stag:name",
            hint=did_you_mean(kind, _GROUPS),
        )

    def one(self, name: str) -> int:
        """The position of the only axis with this name. Raises DimError if there is none, or more than one."""
        axes = self.find(name)
        if len(axes) != 1:
            count = "more than one axis" if axes else "no axis"
            hint = "give the Dim" if axes else self.suggestion(name)
            raise DimError(f"there is {count} {name!r}", got=show_dims(self.dims), hint=hint)
        return axes[0]

    def suggestion(self, name: str) -> str | None:
        """A hint for an error: the most similar name of a dim, with the same prefix. None if no name is similar."""
        prefix, colon, tag = name.rpartition(":")
        near = nearest(tag, [label for dim in self.dims for label in self.names(dim)])
        return f"did you mean {prefix + colon + near[0]!r}?" if near else None

    def _numbered(self, name: str, found: Sequence[int], number: str) -> tuple[int, ...]:
        if not re.fullmatch(r"-?[0-9]{1,9}", number):
            raise DimError(f"{name!r} is not a name of axes", got=number, expected="a position after the colon")
        position = int(number)
        return (found[position],) if -len(found) <= position < len(found) else ()

    def _with_tag(self, tag: str) -> list[int]:
        return self._named(tag, self.spatial()) or self._named(tag, self.every())

    def _named(self, tag: str, axes: Sequence[int]) -> list[int]:
        names = {i: [name.lower() for name in self.names(self.dims[i])] for i in axes}
        exact = [i for i in axes if tag in names[i]]
        return exact or [i for i in axes if any(tag in name for name in names[i])]

    # -- groups

    def batch(self) -> list[int]:
        """The dim that counts sequences."""
        return [i for i, dim in enumerate(self.dims) if dim.is_batch_dim()][:1]

    def feature(self) -> list[int]:
        """The dim that counts features."""
        return [i for i, dim in enumerate(self.dims) if dim is self.feature_dim][:1]

    def time(self) -> list[int]:
        """The first dim that counts frames: one that is marked, or else without a fixed size, or of kind "spatial"."""
        axes = [(i, dim) for i, dim in enumerate(self.dims) if dim is not self.feature_dim and not dim.is_batch_dim()]
        marked = [i for i, dim in axes if is_marked_time(dim)]
        dynamic = [i for i, dim in axes if dim.is_dynamic() and not dim.is_feature_dim()]
        static = [i for i, dim in axes if self.static_time and dim.is_spatial_dim()]
        return (marked or dynamic or static)[:1]

    def spatial(self) -> list[int]:
        """All but batch and feature."""
        return self._without(self.batch(), self.feature())

    def dynamic(self) -> list[int]:
        """The dims with a size for each sequence."""
        return [i for i in self._without(self.batch()) if self.dims[i].is_dynamic()]

    def static(self) -> list[int]:
        """The dims of a fixed size."""
        return [i for i in self._without(self.batch()) if not self.dims[i].is_dynamic()]

    def except_batch(self) -> list[int]:
        """All but batch."""
        return self._without(self.batch())

    def except_time(self) -> list[int]:
        """All but batch and time."""
        return self._without(self.batch(), self.time())

    def spatial_except_time(self) -> list[int]:
        """All but batch, time and feature."""
        return self._without(self.batch(), self.time(), self.feature())

    def every(self) -> list[int]:
        """All."""
        return self._without()

    def _without(self, *groups: Sequence[int]) -> list[int]:
        left_out = {axis for group in groups for axis in group}
        return [i for i in range(len(self.dims)) if i not in left_out]


_GROUPS: dict[str, Callable[[AxisOrder], list[int]]] = {
    **dict.fromkeys(("b", "batch"), AxisOrder.batch),
    **dict.fromkeys(("t", "time", "t?"), AxisOrder.time),
    **dict.fromkeys(("f", "feature"), AxisOrder.feature),
    "spatial": AxisOrder.spatial,
    **dict.fromkeys(("dyn", "dynamic"), AxisOrder.dynamic),
    "static": AxisOrder.static,
    "except_batch": AxisOrder.except_batch,
    "except_time": AxisOrder.except_time,
    "spatial_except_time": AxisOrder.spatial_except_time,
    "*": AxisOrder.every,
}
"""Names of axes as they are, by the method that finds them."""

_NUMBERED = {
    **{name: _GROUPS[name] for name in ("spatial", "dyn", "dynamic", "static", "except_batch")},
    "s": AxisOrder.spatial,
    "d": AxisOrder.dynamic,
}
"""What may be followed by a colon and a position."""
