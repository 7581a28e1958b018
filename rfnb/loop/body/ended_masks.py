"""Masks of the sequences that have ended, as inputs of a step, each in the shape in which a value needs it.

They are prepared for all steps together, from the lengths, which are known on the CPU.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import current_tape
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.body.traced_step import FrameInput
from rfnb.loop.steps.ended_frames import ended
from rfnb.loop.steps.frames import has_steps

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.body import Body


class EndedMasks:
    """The masks of a body. They are for sequences that end by their length, not for those that `loop.end` ends.

    limit: the largest number of steps of each sequence, known when the body is closed.
    """

    def __init__(self, body: Body):
        self._body_ref = weakref.ref(body)  # the body holds this, and a cycle would keep tensors alive
        self.limit: Size | None = None
        self._made: dict[Any, Tensor] = {}

    @property
    def _body(self) -> Body:
        body = self._body_ref()
        assert body is not None
        return body

    def __call__(self, backend: type[Backend], signature: Sig, device: Any) -> Any:
        """The raw mask for tensors with this signature on the traced frame; None if no such sequence can have ended."""
        tape = current_tape()
        size = self._size()
        if tape is not self._body.tape or tape.paused or size is None or not size.ragged:
            return None
        if not size.dims or not set(size.dims) <= signature.index.keys():
            return None
        key = (*[size.dims.index(dim) if dim in size.dims else None for dim in signature.dims], device)
        found = self._made.get(key)
        if found is None:
            how = align.move(size.dims, signature.dims, trailing=False)
            found = self._made[key] = self._input(backend, size, how, device)
        return found._raw

    def _size(self) -> Size | None:
        """The lengths of the sequences, as far as the body knows them yet."""
        axis = self._body.loop.axis
        if self.limit is not None:
            return self.limit
        return self._body.size or (axis.size if axis is not None and has_steps(axis) else None)

    def _input(self, backend: type[Backend], size: Size, how: align.Move, device: Any) -> Tensor:
        body = self._body
        with body.untraced():
            frame = tensor_of(backend.from_numpy_raw(ended(size, how, 1)[0], device), align.sig(()), EMPTY)
        body.input("", frame)
        body.frames.append(FrameInput(body.var(frame), partial(self._frames, backend, how, device), None))
        return frame

    def _frames(self, backend: type[Backend], how: align.Move, device: Any) -> Any:
        assert self.limit is not None
        return backend.frames_raw(backend.from_numpy_raw(ended(self.limit, how, self.limit.max), device), 0)
