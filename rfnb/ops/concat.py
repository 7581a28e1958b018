"""Joining tensors along a dim, and splitting them."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.advice.torch_equivalents import features_hint
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError


@op(frames="any")
def concat(
    *sources: tuple[Tensor, Dim],
    allow_broadcast: bool = False,
    out_dim: Dim | None = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Dim]:
    """The tensors one after the other, and the new dim. {…, a}, {…, b} → {…, a+b}

    The frames of each sequence follow directly; padding stays at the end.

    >>> left, right = rf.Dim(2, name="left"), rf.Dim(3, name="right")
    >>> both, dim = rf.concat((rf.zeros([left]), left), (rf.ones([right]), right))
    >>> dim is left + right
    True

    Args:
        allow_broadcast: whether a source may lack dims of another source.
        handle_dynamic_dims: if False, padding stays between the sources and counts as frames.
    """
    if not sources:
        raise DimError("concat: there is nothing to join", expected="(tensor, dim), …")
    if not isinstance(sources[0], tuple) or not isinstance(first := sources[0][0], Tensor):
        got = type(sources[0]).__name__
        raise DimError(
            "concat: each source needs the dim to join along",
            got=got,
            expected="pairs",
            hint="rf.concat((x, time), (y, time))",
        )
    return backend_of_raw(first._raw).concat_to(sources, allow_broadcast, out_dim, handle_dynamic_dims is not False)


@guarded
def concat_features(*sources: Tensor, allow_broadcast: bool = False) -> Tensor:
    """The features of all sources, one after the other. {…, f1}, {…, f2} → {…, f1+f2}

    >>> a, b = (rf.Dim(n, name=name) for n, name in [(1, "a"), (2, "b")])
    >>> rf.concat_features(rf.zeros([a], feature_dim=a), rf.ones([b], feature_dim=b)).raw_tensor.tolist()
    [0.0, 1.0, 1.0]
    """
    pairs = []
    for i, source in enumerate(sources):
        feature = source.sig.feature_dim
        if feature is None:
            raise DimError(
                f"concat_features: sources[{i}] has no feature dim",
                got=source.describe_dims(),
                hint=features_hint(source),
            )
        pairs.append((source, feature))
    return concat(*pairs, allow_broadcast=allow_broadcast)[0]


@op(frames="any")
def stack(sources: Sequence[Tensor], *, out_dim: Dim | None = None) -> tuple[Tensor, Dim]:
    """The tensors stacked along a new dim, and that dim. {…}, {…} → {out_dim, …}

    >>> feat = rf.Dim(3, name="feat")
    >>> pair, both = rf.stack([rf.zeros([feat]), rf.ones([feat])])
    >>> pair.raw_tensor.tolist(), pair.dims == (both, feat)
    ([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], True)
    """
    if not sources:
        raise DimError("stack: there is nothing to join", expected="a list of Tensors")
    out_dim = Dim(len(sources), name="stack") if out_dim is None else out_dim
    return backend_of_raw(sources[0]._raw).stack(sources, out_dim), out_dim


@op(frames="any")
def unstack(source: Tensor, *, axis: Dim) -> list[Tensor]:
    """The entries along `axis`. {…, axis} → a list of {…}

    >>> time = rf.Dim(2, name="time")
    >>> [frame.raw_tensor.item() for frame in rf.unstack(rf.range_over_dim(time), axis=time)]
    [0, 1]

    Raises DimError if some of them are padding; use `loop.unstack` there, which respects the end of each sequence.
    """
    return backend_of_raw(source._raw).unstack(source, axis=axis)


@op(frames="any")
def split(source: Tensor, *, axis: Dim, out_dims: Sequence[Dim | int]) -> tuple[Tensor, ...]:
    """Pieces of `source`, with the sizes of `out_dims`. {…, axis} → {…, out_dims[0]}, {…, out_dims[1]}, …

    >>> left, right = rf.Dim(2, name="left"), rf.Dim(3, name="right")
    >>> pieces = rf.split(rf.range_over_dim(left + right), axis=left + right, out_dims=[left, right])
    >>> [piece.raw_tensor.tolist() for piece in pieces]
    [[0, 1], [2, 3, 4]]

    Each sequence is cut by its own lengths: `split` is the inverse of `concat`. One of `out_dims` may be a new
    Dim(None), which gets the remaining size; an int is a new Dim of that size.
    """
    dims = []
    for i, n in enumerate(out_dims):
        dims.append(Dim(n, name=f"{axis.name}_{i}") if isinstance(n, int) else n)
    return backend_of_raw(source._raw).split(source, axis=axis, out_dims=dims)


@op(frames="any")
def cum_concat_step(
    source: Tensor, *, prev_accum: Tensor, axis: Dim, out_spatial_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """`prev_accum` with `source` as one more frame at the end, and the new dim. {…}, {…, axis} → {…, axis+1}

    >>> time = rf.Dim(2, name="time")
    >>> longer, dim = rf.cum_concat_step(rf.convert_to_tensor(7), prev_accum=rf.range_over_dim(time), axis=time)
    >>> longer.raw_tensor.tolist(), dim is time + 1
    ([0, 1, 7], True)
    """
    out_dim = axis + 1 if out_spatial_dim is None else out_spatial_dim
    return backend_of_raw(source._raw).cum_concat_step(
        source, prev_accum=prev_accum, axis=axis, out_spatial_dim=out_dim
    ), out_dim
