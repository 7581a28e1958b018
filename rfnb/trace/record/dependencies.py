"""Dependencies and consumers of values in a loop body that is being traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.record.traced import Traced


@guarded
def get_tensor_dependencies(x: Tensor) -> list[Tensor]:
    """The inputs of the op that computed `x`, in the loop body that is being traced.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = a + h
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.get_tensor_dependencies(b)]
    >>> names
    ['a', 'h']

    Raises BackendError for tensors outside of loop bodies: they are computed at once, and nothing is recorded.
    """
    if not isinstance(x, Traced):
        return list(backend_of_raw(x._raw).get_tensor_dependencies(x))
    node = x.value.node
    return [] if node is None else _values(x, node.inputs)


@guarded
def get_tensor_consumers(x: Tensor) -> list[Tensor]:
    """The results of ops that have used `x` so far, in the loop body that is being traced.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = a + h
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.get_tensor_consumers(h)]
    >>> names
    ['a', 'b']

    Raises BackendError for tensors outside of loop bodies: they are computed at once, and nothing is recorded.
    """
    if not isinstance(x, Traced):
        return list(backend_of_raw(x._raw).get_tensor_consumers(x))
    numbers = [n for node in x.recorder.graph.consumers(x.value.number) for n in node.outputs]
    return _values(x, numbers)


def walk_tensor_consumers(
    seed: Tensor,
    *,
    filter_outputs: Callable[[Tensor], bool] | None = None,
    ending_condition: Callable[[Tensor], bool] | None = None,
) -> Iterator[Tensor]:
    """All values that depend on `seed`, each once, in breadth-first order.

    >>> feat = rf.Dim(2, name="feat")
    >>> loop = rf.Loop(max_seq_len=2)
    >>> loop.state.h = rf.zeros([feat])
    >>> with loop:
    ...     h = loop.state.h
    ...     a = rf.tanh(h)
    ...     b = 2 * a
    ...     loop.state.h = b
    ...     names = [x.name for x in rf.walk_tensor_consumers(h)]
    >>> names
    ['a', 'b']

    Args:
        filter_outputs: values for which this is false are skipped, together with what depends on them only.
        ending_condition: the walk ends after a value for which this is true.
    """
    ids, waiting = {id(seed)}, [seed]
    while waiting:
        for consumer in get_tensor_consumers(waiting.pop(0)):
            if id(consumer) in ids or (filter_outputs is not None and not filter_outputs(consumer)):
                continue
            ids.add(id(consumer))
            waiting.append(consumer)
            yield consumer
            if ending_condition is not None and ending_condition(consumer):
                return


def _values(x: Traced, numbers: list[int] | tuple[int, ...]) -> list[Tensor]:
    by_number: dict[int, Tensor] = {traced.value.number: traced for traced in x.recorder.traced()}
    return [by_number[number] for number in dict.fromkeys(numbers)]
