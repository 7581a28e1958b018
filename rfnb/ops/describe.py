"""Methods of Tensor that describe the same numbers in another way; ops like all others, so that loops see them."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import method_of, op
from rfnb.core.tensor import Tensor

_transposed = Tensor.copy_transpose


@method_of(Tensor)
@op(frames="any")
def copy_transpose(self: Tensor, perm: Sequence[Dim]) -> Tensor:
    """The same tensor with its axes in the order `perm`."""
    return _transposed(self, perm)
