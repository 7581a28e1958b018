"""`rf.to_code`: a net as a file of rf modules, checked against the net."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import leaves
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RfError
from rfnb.netdict.code.check import check_code
from rfnb.netdict.code.module import ModuleWriter
from rfnb.netdict.code.torch_module import TorchWriter
from rfnb.netdict.code.trace import Call, Trace, every_call, trace_of, unwritten, without_dropout
from rfnb.netdict.network import Network
from rfnb.netdict.report.rehearsal import results_kept
from rfnb.ops.random import get_random_state, set_random_state
from rfnb.trace.run.options import recording


@guarded
def to_code(net: Network, *, target: Target = "rf", batch: Batch | None = None, check: bool = False) -> str:
    """The file that computes what a net of layers computes: dims, and modules with the parameters of its checkpoints.

    The net is called on a batch, in training and in evaluation, and the ops of each layer are written down. They are
    the same for smaller batches, or it is an error. `Net()` of the file gives outputs and losses by layer.

    With `target="torch"`, the file needs no rfnb: modules of torch, called with tensors and the lengths of their
    sequences, and `load_checkpoint(net, parameters)`. Searches have no form there.

    Args:
        net: with all its layers. target: of which library the modules are. batch: data that fits; default: random data.
        check: whether to run the file in a process of its own, and to compare outputs, losses and gradients.

    >>> net = rf.Network(name="tiny", extern_data=rf.ExternData({"data": {"dim": 5}}))
    >>> _ = net.construct_from_dict({"output": {"class": "linear", "activation": "relu", "n_out": 3, "from": "data"}})
    >>> print(rf.to_code(net))
    \"\"\"The net tiny, written by rf.to_code.\"\"\"
    ...
        def __call__(self, data):
            output = self.output(data)
            return {"output": output}, {}
    <BLANKLINE>

    Raises NetworkError, which names the layer, for one that has no form as code, or whose code would compute something
    else.
    """
    writer = writer_of(net, batch, target)
    text = writer.text()
    if check:
        check_code(net, writer, text, data_of(net, batch))
    return text


Target = Annotated[str, OneOf("rf", "torch")]
Batch = Mapping[str, object]
"""By data key."""


def writer_of(net: Network, batch: Batch | None = None, target: str = "rf") -> ModuleWriter:
    """What writes a net. Raises Unwritten if other batches need another text."""
    kind, steps = (ModuleWriter, False) if target == "rf" else (TorchWriter, True)
    tensors = data_of(net, batch)
    modes = [True, False] if net.train_flag is None else [net.train_flag]
    with _untouched(net):
        traces = [trace_of(net, tensors, train=mode, steps=steps) for mode in modes]
        smaller = other_batch(net, tensors)
        try:
            smaller_traces = [trace_of(net, smaller, train=mode, steps=steps) for mode in modes]
        except RfError as error:
            raise unwritten("", "it cannot compute shorter sequences", got=error.what) from error
        net.extern_data.tensors(tensors)  # dims have their sizes again
    if len(traces) == 2 and (
        _written(kind(net), [without_dropout(traces[0])]).text() == _written(kind(net), traces[1:]).text()
    ):
        del traces[1], smaller_traces[1]
    writer, smaller_writer = _written(kind(net), traces), _written(kind(net), smaller_traces)
    if writer.text() != smaller_writer.text():
        layer = _first_difference(traces[0], smaller_traces[0])
        raise unwritten(layer, "its ops depend on the size of the batch")
    return writer


def _written(writer: ModuleWriter, traces: Sequence[Trace]) -> ModuleWriter:
    for trace in traces:
        writer.add(trace)
    return writer


def data_of(net: Network, batch: Batch | None) -> dict[str, Tensor]:
    """The data, with lengths that are numbers."""
    tensors = net.extern_data.tensors(net.extern_data.example() if batch is None else batch)
    return net.extern_data.tensors({key: as_data(x) for key, x in tensors.items()})


def as_data(x: Tensor, keep: Sequence[int] | None = None) -> tuple[np.ndarray, dict[int, np.ndarray] | None]:
    """The data as any net takes it: an array, and lengths by axis. keep: the sequences that stay; None: all."""
    batch = next((dim for dim in x.dims if dim.is_batch_dim()), None)
    array, lengths = x.raw_tensor.detach().cpu().numpy(), {}
    for axis, dim in enumerate(x.dims):
        if dim is batch and keep is not None:
            array = array.take(keep, axis)
        elif dim.dimension is None and dim is not batch:
            size = x.size_of(dim)
            values = size.values[keep] if size.dims == (batch,) and keep is not None else size.values
            array = array.take(range(int(values.max(initial=0))), axis)
            if values.ndim:
                lengths[axis] = values
    return array, lengths or None


def other_batch(net: Network, tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """The batch without its longest sequence; random data if that changes no size of an axis."""
    sizes = [(x, dim) for x in tensors.values() for dim in x.dims if dim.dimension is None and not dim.is_batch_dim()]
    if not sizes:
        return {key: as_data(x) for key, x in tensors.items()}
    longest = 0
    for x, dim in sizes:
        size = x.size_of(dim)
        if len(size.dims) == 1 and size.dims[0].is_batch_dim() and len(size.values) > 1:
            order = np.sort(size.values)
            if order[-1] > order[-2]:
                keep = [i for i in range(len(order)) if i != int(size.values.argmax())]
                return {key: as_data(x, keep) for key, x in tensors.items()}
        longest = max(longest, size.max)
    return {key: as_data(x) for key, x in net.extern_data.example(batch=2, frames=longest + 3).data.items()}


def _first_difference(a: Trace, b: Trace) -> str:
    """The layer of the first call that differs in more than its tensors and dims; "" if there is none."""

    def plain(call: Call) -> tuple[Any, ...]:
        found = [x for x in leaves((call.args, call.kwargs)) if not isinstance(x, Tensor | Dim)]
        return call.name, *([] if call.windows else map(repr, found))

    pairs = zip(every_call(a.calls), every_call(b.calls), strict=False)
    return next((call.owner for call, other in pairs if plain(call) != plain(other)), "")


@contextmanager
def _untouched(net: Network) -> Iterator[None]:
    """After the block, the net and the generators of random numbers are as before."""
    state, choices = get_random_state(), {rec: rec.choices for rec in net._builder.loops.nets.values()}
    fixed = [(p, p.raw_tensor.detach().clone()) for p in net.parameters() if not p.trainable]
    with entered(get_run_ctx().again()), results_kept(net._nodes), recording(False):
        try:
            yield
        finally:
            set_random_state(state)
            for parameter, values in fixed:
                if not bool((parameter.raw_tensor == values).all()):
                    parameter.assign(values)
            for rec, of in choices.items():
                rec.choices = of
