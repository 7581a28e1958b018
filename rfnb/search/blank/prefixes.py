"""What a search over frames knows of the labels of its hypotheses, to tell which of them are the same."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.index import gather
from rfnb.ops.math import cast, compare_bc, is_neg_infinite, logical_and, logical_not, mod, where
from rfnb.ops.reduce import reduce_all, reduce_any, reduce_argmax
from rfnb.ops.shape import replace_dim, set_sparse_dim

PRIME = 2**31 - 1
"""Modulus of the hashes; a product of two numbers below it is an int64."""

FACTORS = (1_583_458_089, 784_588_716, 1_046_527_319, 348_183_511)
"""A factor for each of the independent hashes, which make a key of 124 bits."""

HASH = Dim(len(FACTORS), name="hash")


class Prefixes(NamedTuple):
    """The labels of each hypothesis so far, without blanks.

    last: the last label; any number if there is none. {…, beam} int64
    key: polynomial hashes of the labels. Sequences of up to n labels that differ have the same key with a probability
        of at most (n / 2³¹)⁴ (Carter, Wegman: Universal classes of hash functions, 1979). {…, beam, HASH} int64
    shorter: the key without the last label; -1 if there is none. {…, beam, HASH} int64
    """

    last: Tensor
    key: Tensor
    shorter: Tensor

    def after(self, labels: Tensor, parents: Tensor, stays: Tensor, beam: Dim) -> Prefixes:
        """The labels of new hypotheses. {…, beam} → {…, dim of `parents`}

        stays: the new hypotheses that get no label.
        """
        last, key, shorter = (gather(x, indices=parents, axis=beam) for x in self)
        number = cast(set_sparse_dim(labels, None), "int64")
        longer = mod(key * _factors(key) + (number + 1), PRIME)
        order = parents.dims
        return Prefixes(
            where(stays, last, number).copy_transpose(order),
            where(stays, key, longer).copy_transpose([*order, HASH]),
            where(stays, shorter, key).copy_transpose([*order, HASH]),
        )

    def shortened(self, scores: Tensor, beam: Dim) -> tuple[Tensor, Tensor]:
        """For each hypothesis the place of the one that has all its labels but the last one, and whether there is one.

        {…, beam}. Places whose score is -∞ have no hypothesis. No two hypotheses may have the same labels.
        """
        other = _other(beam)
        alive = logical_not(is_neg_infinite(scores))
        keys, others_alive = (replace_dim(x, in_dim=beam, out_dim=other)[0] for x in (self.key, alive))
        matches = reduce_all(compare_bc(self.shorter, "equal", keys), axis=HASH)
        matches = logical_and(logical_and(matches, alive), others_alive)
        return set_sparse_dim(reduce_argmax(cast(matches, "int32"), axis=other), None), reduce_any(matches, axis=other)


def none_yet(like: Tensor) -> dict[str, np.ndarray]:
    """The Prefixes of hypotheses without labels, in the order of its fields. like: {…, beam}"""
    shape = [like.size_of(dim).max for dim in like.dims]
    hashes = [*shape, len(FACTORS)]
    return {
        "last": np.zeros(shape, np.int64),
        "key": np.zeros(hashes, np.int64),
        "shorter": np.full(hashes, -1, np.int64),
    }


_others: weakref.WeakKeyDictionary[Dim, Dim] = weakref.WeakKeyDictionary()


def _other(beam: Dim) -> Dim:
    """A second dim of the same hypotheses. The same each time, so that plans are found again."""
    dim = _others.get(beam)
    if dim is None:
        dim = _others[beam] = Dim(beam.get_dim_value(), name="other hypotheses")
    return dim


def _factors(like: Tensor) -> Tensor:
    """{HASH} int64"""
    with untaped():
        raw = backend_of_raw(like._raw).from_numpy_raw(np.array(FACTORS, np.int64), like.device)
        return tensor_of(raw, align.sig([HASH]), EMPTY)
