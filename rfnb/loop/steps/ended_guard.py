"""Harmless arguments in sequences that `loop.end` has ended, for ops that are not defined everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, Tape, Var, untaped
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import tensor_of
from rfnb.ops.reduce import reduce_all

if TYPE_CHECKING:
    from rfnb.backend.base.math import Domain


class EndedGuard:
    """f(raw) → raw; f(raw, *masks) → raw with harmless numbers in sequences for which one of the masks is true.

    A body knows only when it ends whether there are masks: until then, and if there are none, this returns `raw`.

    signature: of the argument. finite: whether all its numbers are finite.
    """

    def __init__(self, signature: Sig, dtype: str, domain: Domain, *, finite: bool):
        self.signature, self._dtype, self._domain, self._finite = signature, dtype, domain, finite
        self._dims: Sequence[Dim] = ()  # of the masks
        self._moved: frozenset[Dim] = frozenset()

    def record(self, tape: Tape, raw: Any, result: Any, masks: Sequence[Any] = ()) -> Call:
        """Records the call of this function on the traced frame, whose result is `result`."""
        tape.record(self, (raw,), {}, result)
        call = tape.calls[-1]
        call.args = (*call.args, *masks)
        return call

    def complete(self, call: Call, masks: Sequence[Var], dims: Sequence[Dim], moved: Sequence[Dim]) -> None:
        """Makes the masks arguments of the recorded call, unless the argument lacks their sequences.

        dims: of the masks. moved: those of them whose entries change their places during the step.
        """
        if any(dim in self.signature.index and dim not in moved for dim in dims):
            self._dims, self._moved = tuple(dims), frozenset(moved)
            call.give(*masks)

    def __call__(self, raw: Any, *masks: Any) -> Any:
        """The argument in a step; raw tensors in and out."""
        if not masks:
            return raw
        backend = backend_of_raw(raw)
        ended = masks[0]
        for mask in masks[1:]:
            ended = backend.combine_raw(ended, "logical_or", mask)
        axes = [dim for dim in self._dims if dim not in self.signature.index or dim in self._moved]
        stay = [dim for dim in self._dims if dim not in axes]
        if axes:
            with untaped(), listening(None):
                of_all = reduce_all(tensor_of(ended, align.sig(self._dims), EMPTY), axis=axes)
                ended = of_all.copy_transpose(stay)._raw
        ended = align.apply(align.move(stay, self.signature.dims, trailing=False), ended)
        return backend.harmless_raw(raw, ended, self._domain, self._dtype, finite=self._finite)
