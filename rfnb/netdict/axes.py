"""Axes of net dicts: one Dim for each size, all names of a Dim, axis descriptions, and the declared order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.axis_names import AxisOrder, is_marked_time, mark_time
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.dims.lengths import Size, symbolic_values
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.netdict.versions import holds
from rfnb.ops.concat import concat
from rfnb.ops.create import zeros
from rfnb.ops.shape import replace_dim, set_feature_dim, squeeze
from rfnb.ops.slice import slice as slice_


@guarded
def SpatialDim(name: str, dimension: int | None = None) -> Dim:
    """A new dim that counts positions; its size comes with the data if none is given.

    >>> rf.SpatialDim("time"), rf.SpatialDim("heads", 8)
    (Dim{time:?}, Dim{heads:8})
    """
    return Dim(dimension, name=name, kind="spatial")


@guarded
def FeatureDim(name: str, dimension: int | None = None) -> Dim:
    """A new dim that counts features.

    >>> rf.FeatureDim("key", 64).is_feature_dim()
    True
    """
    return Dim(dimension, name=name, kind="feature")


class NetworkDims:
    """The dims of a network: features of one size are one Dim, and a Dim has every name that layers gave it.

    >>> from rfnb.netdict.axes import NetworkDims
    >>> axes = NetworkDims()
    >>> five = axes.feature(5)
    >>> axes.feature(5) is five, axes.feature(5, taken=[five]) is five
    (True, False)
    """

    def __init__(self) -> None:
        self._features: dict[int, list[Dim]] = {}
        self._static: dict[int, list[Dim]] = {}
        self._times: dict[int, list[Dim]] = {}
        self._made: set[Dim] = set()
        self._names: dict[Dim, list[str]] = {}
        self._same: dict[Dim, Dim] = {}
        self.merged: dict[tuple[Dim | int, ...], Dim] = {}  # for axes that an expression merges, and cuts: the result
        self.made_of: dict[Dim, tuple[Any, ...]] = {}  # for dims that layers merged or cut: what undoes it

    def feature(self, size: int | Dim, taken: Iterable[Dim] = ()) -> Dim:
        """The dim of features of this size; a copy of it where an axis has it already. A Dim stays itself."""
        return self._nth(self._features, size, "feature", taken)

    def labels(self, dim: Dim) -> Dim:
        """Makes a dim with a vocab the first one of its size, so that scores of labels have it; returns the dim."""
        assert dim.dimension is not None
        self._features.setdefault(dim.dimension, []).insert(0, dim)
        self._made.add(dim)
        return dim

    def static(self, size: int | Dim, taken: Iterable[Dim] = ()) -> Dim:
        """The dim of another axis of this size, which is none of `taken`."""
        return self._nth(self._static, size, "static", taken)

    def time(self, size: int | Dim, taken: Iterable[Dim] = ()) -> Dim:
        """The dim of frames of this fixed size, which is none of `taken`."""
        return mark_time(self._nth(self._times, size, "time", taken))

    def axis(self, size: int | Dim, taken: Iterable[Dim] = (), *, feature: bool) -> Dim:
        """The dim of features, or of another axis, of this size."""
        return (self.feature if feature else self.static)(size, taken)

    def shape(self, sizes: Sequence[int | Dim], taken: Iterable[Dim] = (), *, feature: bool = True) -> list[Dim]:
        """Different dims of these sizes, none of `taken`. feature: whether the last one counts features."""
        dims: list[Dim] = []
        for i, size in enumerate(sizes, start=1):
            dims.append(self.axis(size, [*taken, *dims], feature=feature and i == len(sizes)))
        return dims

    def instead(self, old: Dim, size: int | Dim, x: Tensor, taken: Iterable[Dim] = ()) -> Dim:
        """The dim of this size in the place of another one of `x`: of features, of frames, or of anything else."""
        neighbours = [*(dim for dim in x.dims if dim is not old), *taken]
        if isinstance(size, int) and not self.made(old):
            size = Dim(size, name=old.name, kind=old.kind)
        time = self.time if is_marked_time(old) else self.static
        return (self.feature if old is x.feature_dim else time)(size, neighbours)

    def made(self, dim: Dim) -> bool:
        """Whether a dim was made for a number, or derived from such dims; the others are those of the user."""
        if dim.expr is not None:
            return all(map(self.made, dim.expr.dims))
        return dim in self._made or dim.dimension is None

    def matching(self, source: Tensor, first: Tensor, version: int) -> tuple[tuple[Dim, Dim], ...]:
        """Which static dims of a source become dims of the first one: those of one size that the other lacks.

        Since version 16, a dim of the user becomes no other. Feature axes do not match here if the sources are joined
        in them; the caller leaves them out.
        """
        strict = holds("a dim of the user is no other", version)
        pairs = []
        free = [dim for dim in first.dims if _static(dim) and dim not in source.sig.index]
        for dim in source.dims:
            if not _static(dim) or dim in first.sig.index:
                continue
            twins = [twin for twin in free if twin.dimension == dim.dimension]
            if strict:
                twins = [twin for twin in twins if self.made(twin) and self.made(dim)]
            preferred = [twin for twin in twins if (twin is first.feature_dim) == (dim is source.feature_dim)]
            if twins:
                match = (preferred or twins)[0]
                free.remove(match)
                pairs.append((dim, match))
        return tuple(pairs)

    def make_same(self, old: Dim, new: Dim) -> None:
        """Lets the dim `new` stand for another one wherever a net dict has that; it gets its names."""
        for name in self.names_of(old):
            self.name(new, name)
        if self.of(old) is not self.of(new):
            self._same[self.of(old)] = self.of(new)

    def of(self, dim: Dim) -> Dim:
        """The dim that stands for a dim of a net dict: itself, unless it was made the same as another one."""
        while dim in self._same:
            dim = self._same[dim]
        return dim

    def name(self, dim: Dim, name: str) -> Dim:
        """Gives a dim a further name; returns the dim."""
        names = self._names.setdefault(dim, [])
        if name not in names:
            names.append(name)
        return dim

    def names_of(self, dim: Dim) -> list[str]:
        """All names: its own, those that layers gave it, and those of the dims that it is derived from."""
        parts = [] if dim.expr is None else [part for part in dim.expr.dims if part is not dim]
        names = [dim.name, *self._names.get(dim, ()), *(name for part in parts for name in self.names_of(part))]
        return list(dict.fromkeys(names))

    def _nth(self, pool: dict[int, list[Dim]], size: int | Dim, name: str, taken: Iterable[Dim]) -> Dim:
        if isinstance(size, Dim):
            return self.of(size)
        dims, taken = pool.setdefault(size, []), set(taken)
        for dim in dims:
            if dim not in taken:
                return dim
        dims.append(Dim(size, name=name if not dims else f"{name}{len(dims) + 1}"))
        self._made.add(dims[-1])
        return dims[-1]

    def find(self, described: object, template: Tensor, *, numbers: bool = True) -> tuple[Dim, ...]:
        """The axes that a description means, in the declared order, which is the one of the template.

        described: a name, a Dim, a number if `numbers`, or several of these. Raises DimError if there is no such axis.
        """
        if isinstance(described, list | tuple | set):
            return tuple(dict.fromkeys(dim for part in described for dim in self.find(part, template, numbers=numbers)))
        if isinstance(described, Dim):
            described = self.of(described)
            template.axis(described)
            return (described,)
        dims = tuple(dim for dim in template.dims if not is_beam(dim))  # the beam is part of the batch
        if isinstance(described, int) and not isinstance(described, bool):
            if numbers and -len(dims) <= described < len(dims):
                return (dims[described],)
            raise DimError(
                f"{described} is not an axis" if numbers else "axes are not given by numbers since version 5",
                got=described,
                expected=f"a name such as T or F, for an axis of {show_dims(dims)}",
            )
        if not isinstance(described, str):
            raise DimError("not an axis", got=repr(described), expected="a name such as T, a Dim, or a list of these")
        order = AxisOrder(dims, template.feature_dim, self.names_of, static_time=False)
        axes = order.find(described)
        if not axes and described.lower() != "t?" and not described.lower().startswith(_GROUPS):
            hint = order.suggestion(described)
            raise DimError(f"there is no axis {described!r}", got=show_dims(template.dims), hint=hint)
        return tuple(dims[i] for i in axes)

    def one(self, described: object, template: Tensor, *, numbers: bool = True) -> Dim:
        """The only axis that a description means. Raises DimError if there is none, or more than one."""
        dims = self.find(described, template, numbers=numbers)
        if len(dims) != 1:
            fault = "more than one axis" if dims else "no axis"
            raise DimError(f"there is {fault} {described!r}", got=show_dims(template.dims), expected="one axis")
        return dims[0]


_GROUPS = ("except_batch", "except_time", "spatial", "static", "dyn", "*")
"""Descriptions that may mean no axis."""


def without(x: Tensor, *dims: Dim | None) -> list[Dim]:
    """The dims of a tensor, some left out."""
    return [dim for dim in x.dims if dim not in dims]


def with_last(order: Sequence[Dim], *last: Dim | None) -> list[Dim]:
    """An order of dims in which those of `last` that it has come last."""
    return [*(dim for dim in order if dim not in last), *(dim for dim in last if dim is not None and dim in order)]


def ragged(dims: Iterable[Dim]) -> list[Dim]:
    """The dims of frames in which sequences may differ in their lengths."""
    return [dim for dim in dims if dim.is_dynamic() and not dim.is_batch_dim()]


def time_of(template: Tensor) -> Dim | None:
    """The first dim of frames of a template."""
    axes = AxisOrder(template.dims, template.feature_dim, static_time=False).time()
    return template.dims[axes[0]] if axes else None


def declared_order(out: Tensor, sources: Sequence[Tensor]) -> list[Dim]:
    """The dims of a result in the declared order: that of the first source, new axes in the place of those replaced.

    The batch comes first, the feature axis last, where they are new.
    """
    order = list(sources[0].dims) if sources else [batch_dim]
    old_feature = sources[0].feature_dim if sources else None
    for source in sources[1:]:
        unplaced = [dim for dim in source.dims if dim not in order]
        ends = [dim for dim in unplaced if dim is source.feature_dim and not dim.is_spatial_dim()]
        place = len(order) - (old_feature is not None and order[-1] is old_feature)
        order[place:place] = [dim for dim in unplaced if dim not in ends]
        order += ends
    dropped = [dim for dim in order if dim not in out.sig.index]
    new = [dim for dim in out.dims if dim not in order]
    swapped: dict[Dim, Dim] = {}
    if out.feature_dim in new and old_feature in dropped:
        swapped[old_feature] = out.feature_dim
        dropped.remove(old_feature)
        new.remove(out.feature_dim)
    feature = new.pop() if new and new[-1] is out.feature_dim and len(new) > len(dropped) else None
    swapped.update(zip(dropped, new, strict=False))
    extra = new[len(dropped) :]
    placed = [swapped.get(dim, dim) for dim in order if dim in swapped or dim in out.sig.index]
    at = len(placed)
    if new and extra and dropped:
        at = placed.index(new[len(dropped) - 1]) + 1
    elif placed and placed[-1] is out.feature_dim:
        at -= 1
    placed[at:at] = extra
    return placed if feature is None else [*placed, feature]


def order_now(order: Sequence[Dim], x: Tensor) -> list[Dim]:
    """The declared order of a template for a value, whose hypotheses may be those after a choice.

    A value of all frames of a loop, not of one step, has the axis of the loop too; it comes first.
    """
    new = [dim for dim in x.dims if dim not in order]
    beam = next((dim for dim in new if is_beam(dim)), None)
    current = [beam if beam is not None and is_beam(dim) else dim for dim in order]
    return [*(dim for dim in new if dim is not beam), *(dim for dim in current if dim in x.sig.index)]


def _static(dim: Dim) -> bool:
    """Whether a dim has a fixed size, and does not count hypotheses."""
    return dim.dimension is not None and not is_beam(dim)


def broadcast(sources: Sequence[tuple[Sequence[Dim], Dim | None]]) -> list[list[Dim]]:
    """For each source the axes of size 1 that stand for an axis of another one: a feature axis for the features.

    sources: the dims of each, with the same ones for what matches, and its feature dim.

    >>> from rfnb.netdict.axes import broadcast
    >>> time, ten, one = rf.Dim(None, name="time"), rf.Dim(10, name="ten"), rf.Dim(1, name="one")
    >>> broadcast([([time, ten], ten), ([time, one], one), ([time], None)])
    [[], [Dim{one:1}], []]
    """
    return [
        [
            dim
            for dim in dims
            if dim.dimension == 1 and any(_stands_for(dim, dims, feature, *source) for source in sources)
        ]
        for dims, feature in sources
    ]


def _stands_for(
    dim: Dim, dims: Sequence[Dim], feature: Dim | None, others: Sequence[Dim], feature_there: Dim | None
) -> bool:
    """Whether an axis of size 1 of a source stands for one that only the other source has."""
    if dim in others:
        return False
    of_features = dim is feature
    return any(
        (candidate is feature_there) == of_features and candidate.dimension != 1 and not candidate.is_batch_dim()
        for candidate in others
        if candidate not in dims
    )


def renamed(x: Tensor, pairs: Sequence[tuple[Dim, Dim | None]]) -> Tensor:
    """The tensor with other dims in place of some of its own; None removes one of size 1."""
    feature = dict(pairs).get(x.feature_dim, x.feature_dim)  # type: ignore[arg-type]
    for old, new in pairs:
        x = squeeze(x, old) if new is None else replace_dim(x, in_dim=old, out_dim=new)[0]
    return set_feature_dim(x, feature) if pairs and feature in x.sig.index else x


def with_features(x: Tensor, dim: Dim | None) -> Tensor:
    """The tensor with this dim for its features, if it has some."""
    if x.feature_dim is None or x.feature_dim is dim or dim is None:
        return x
    return replace_dim(x, in_dim=x.feature_dim, out_dim=dim)[0]


NOTHING = Dim(0, name="none")
"""An axis without entries, always the same, so that what is joined with it has the same dim in each call."""


def with_padding(x: Tensor, dim: Dim) -> tuple[Tensor, Dim]:
    """The tensor with an axis in which padding counts as frames, and that axis. {…, dim} → {…, new}"""
    empty = zeros([NOTHING], dtype=x.dtype, device=x.device, sparse_dim=x.sparse_dim)
    return concat((x, dim), (empty, NOTHING), allow_broadcast=True, handle_dynamic_dims=False)


def unknown_size(dim: Dim, of: Sequence[Dim] = ()) -> Size:
    """A size that comes with the batch, for each entry of other dims; reading it raises."""
    return Size(of, symbolic_values(zeros(of, dtype="int64", device="meta")._raw, symbol(dim)))


def symbol(dim: Dim) -> int:
    """What stands for the size of a dim in the shapes of tensors without numbers: for each dim another large number."""
    return 1000 + dim.serial * 7919 % 1009


def with_dim(x: Tensor, old: Dim, new: Dim) -> Tensor:
    """The tensor with another axis in the place of one, and with its lengths; frames after them are cut off.

    Without numbers, all sizes fit. {…, old} → {…, new}. Raises DimError if there are fewer frames than that.
    """
    sizes = x.size_of(old)
    if None in (old.dimension, new.dimension) and new.is_defined() and not sizes.agrees(new.size):
        if x.device == "meta":
            dims = [new if dim is old else dim for dim in x.dims]
            return set_feature_dim(zeros(dims, dtype=x.dtype, device="meta", sparse_dim=x.sparse_dim), x.feature_dim)
        if sizes.max >= new.size.max:
            x, old = with_padding(x, old)
            x, old = slice_(x, axis=old, end=new.size.max)
    return replace_dim(x, in_dim=old, out_dim=new)[0]
