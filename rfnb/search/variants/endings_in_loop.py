"""The options about ends, in the body of a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import ParameterError
from rfnb.loop.step import has_steps
from rfnb.search.variants.constraint import number_of
from rfnb.search.variants.endings import Endings, endings
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body
    from rfnb.search.options import ChoiceOptions


def endings_of(body: Body, options: ChoiceOptions, places: int, axis: Dim) -> Endings:
    """The options of a choice, as numbers. Raises ParameterError for those that do not fit together."""
    who = f"{body.loop.name}: choice"
    limit = most_steps(body) if options.early_stop else None
    end = None if options.end is None else number_of(options.end, axis)
    result = endings(who, options, places, end=end, limit=limit, gain=options.gain)
    conflicts = {"groups": options.groups != 1, "beam_size": options.beam_size not in (None, places)}
    conflicts |= {name: getattr(options, name) for name in ("keep_beams", "cheating")}
    conflicts["blank"] = options.blank is not None
    for name, value in conflicts.items():
        if value and (result.living or result.stops):
            raise ParameterError(f"{who}: `{name}` is not possible with `ended`, `patience` and `early_stop`")
    if result.sure and limit is None and (options.exponent or result.most_gain > 0):
        raise ParameterError(
            f"{who}: `early_stop` needs to know how many steps there may be", hint="rf.Loop(max_seq_len=…)"
        )
    return result


def most_steps(body: Body) -> Tensor | int | None:
    """The most steps of each sequence, as far as they are known where the choice is made."""
    limit, axis = body.loop.max_seq_len, body.loop.axis
    size = body.size or (axis.size if axis is not None and has_steps(axis) else None)
    if size is None:
        return None if isinstance(limit, Traced) else limit
    if not size.dims:
        return size.max
    with body.untraced():
        return tensor_of(body.backend.from_numpy_raw(size.values, None), align.sig(size.dims), EMPTY)
