"""Entries at indices, and labels as vectors."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.default import get_default_float_dtype
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.argument_kinds import Probability
from rfnb.core.tensor.op import method_of, op
from rfnb.core.tensor.op_call import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.convert import tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import Value, compare_bc, where


@op(frames="any")
def gather(
    source: Tensor, *, indices: Tensor | int | str, axis: Dim | None = None, clip_to_valid: bool = False
) -> Tensor:
    """Entries of `source` at `indices` along `axis`. {…, axis}, {…} → {… of both}

    Shared dims are batch dims. A negative int counts from the end of each sequence. A str is a label of
    the vocab of `axis`, or the tag of a sequence.

    After the last frame of a sequence, but not of the longest one, an index gives what stands in the padding: use
    `clip_to_valid`, or mask such results.

    >>> time, feat = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    >>> rf.gather(rf.zeros([time, feat]), indices=2, axis=time).dims == (feat,)
    True

    Args:
        axis: the dim that is indexed; by default the `sparse_dim` of `indices`.
        clip_to_valid: indices before the first or after the last frame of a sequence are clipped to that frame.
    """
    if axis is None:
        axis = indices.sparse_dim if isinstance(indices, Tensor) else None
        if axis is None:
            raise DimError(
                "gather: `axis` is missing, and the indices do not imply it",
                got=_told(indices),
                hint="gather(…, axis=dim)",
            )
    return backend_of_raw(source._raw).gather(source, indices, axis, clip_to_valid)


def _told(indices: Tensor | int | str) -> str:
    return f"{indices.describe_dims()} without sparse_dim" if isinstance(indices, Tensor) else str(indices)


@op(frames="any")
def one_hot(source: Tensor) -> Tensor:
    """1 at the label, 0 elsewhere. {…} sparse → {…, sparse_dim} float

    Raises DimError if a label of a valid frame is outside the sparse dim.

    >>> word = rf.Dim(3, name="word")
    >>> rf.one_hot(rf.convert_to_tensor(1, sparse_dim=word)).raw_tensor.tolist()
    [0.0, 1.0, 0.0]
    """
    return backend_of_raw(source._raw).one_hot(source, dtype=get_default_float_dtype())


@guarded
def sparse_to_dense(
    labels: Tensor | int,
    *,
    label_value: Value,
    other_value: Value,
    axis: Dim | None = None,
) -> Tensor:
    """`label_value` at the label, `other_value` elsewhere. {…} sparse → {…, axis}

    axis: the dim of the classes; by default the `sparse_dim` of `labels`.

    >>> word = rf.Dim(3, name="word")
    >>> rf.sparse_to_dense(1, axis=word, label_value=5, other_value=-1).raw_tensor.tolist()
    [-1, 5, -1]
    """
    labels = tensor(labels)
    axis = labels.sparse_dim if axis is None else axis
    if axis is None:
        raise DimError("sparse_to_dense: `labels` is not sparse", got=labels.describe_dims(), hint="axis=dim")
    is_label = compare_bc(labels, "equal", range_over_dim(axis, device=labels.device))
    return where(is_label, label_value, other_value, allow_broadcast_all_sources=True)


@guarded
def smooth_one_hot(source: Tensor, *, label_prob: Probability) -> Tensor:
    """`label_prob` at the label; the other labels share the rest. {…} sparse → {…, sparse_dim} float

    https://arxiv.org/abs/1512.00567, section 7.

    >>> word = rf.Dim(3, name="word")
    >>> label = rf.convert_to_tensor(1, sparse_dim=word)
    >>> rf.smooth_one_hot(label, label_prob=0.5).raw_tensor.tolist()
    [0.25, 0.5, 0.25]
    """
    if source.sparse_dim is None:
        raise DimError("smooth_one_hot: `source` is not sparse", got=source.describe_dims())
    count = source.sparse_dim.size.max - 1
    return sparse_to_dense(source, label_value=label_prob, other_value=(1.0 - label_prob) / max(count, 1))


@method_of(Tensor)
def labels(self: Tensor) -> Any:
    """The vocab labels of the entries, as nested lists in the order of the axes, without padding.

    >>> time, letter = rf.Dim(None, name="time"), rf.Dim(4, name="letter", vocab=list("acht"))
    >>> rf.convert_to_tensor(["cat", "a"], dims=[rf.batch_dim, time], sparse_dim=letter).labels()
    [['c', 'a', 't'], ['a']]
    """
    vocab = self.sparse_dim.vocab if self.sparse_dim is not None else None
    if vocab is None:
        raise DimError(
            "labels: the sparse dim has no vocab", got=self.describe_dims(), hint="rf.Dim(n, vocab=[…]) as sparse_dim"
        )
    sizes = {dim: self.size_of(dim) for dim in self.dims}

    def is_frame(at: dict[Dim, int]) -> bool:
        sized = [(dim, size) for dim, size in sizes.items() if dim in at and all(owner in at for owner in size.dims)]
        return all(at[dim] < size.values[tuple(at[owner] for owner in size.dims)] for dim, size in sized)

    def read(values: Any, at: dict[Dim, int]) -> Any:
        if len(at) == len(self.dims):
            return vocab.decode(int(values))
        dim = self.dims[len(at)]
        return [read(row, {**at, dim: i}) for i, row in enumerate(values) if is_frame({**at, dim: i})]

    return read(self.numpy(), {})
