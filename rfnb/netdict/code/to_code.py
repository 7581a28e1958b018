"""`rf.to_code`: a net as a file of rf modules, or of torch, checked against the net."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.nested import leaves
from rfnb.core.run_ctx import entered, get_run_ctx
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError, RfError
from rfnb.netdict.code import torch_run
from rfnb.netdict.code.module import ModuleWriter
from rfnb.netdict.code.torch_body import axes_of, frames_of
from rfnb.netdict.code.torch_module import TorchWriter
from rfnb.netdict.code.trace import Call, Trace, every_call, trace_of, unwritten, without_dropout
from rfnb.netdict.network import Network
from rfnb.netdict.report.rehearsal import results_kept
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.random import dropout, get_random_state, set_random_seed, set_random_state
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

    def plain(call: Call) -> tuple[object, ...]:
        options = [x for x in leaves((call.args, call.kwargs)) if not isinstance(x, Tensor | Dim)]
        return call.name, *([] if call.windows else map(repr, options))

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


SEED = 1
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def check_code(net: Network, writer: ModuleWriter, text: str, tensors: Mapping[str, Tensor]) -> None:
    """Raises NetworkError if the code, in a process of its own, gives other outputs, losses or gradients."""
    with TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "code.py").write_text(text, encoding="utf-8")
        modes = write_case(net, writer, tensors, where)
        if isinstance(writer, TorchWriter):  # -P: no file beside this one is a module there
            call = ["-P", torch_run.__file__]
        else:
            call = ["-c", "import sys; from rfnb.netdict.code.to_code import run; run(sys.argv[1])"]
        process = subprocess.run([sys.executable, *call, folder], capture_output=True, text=True, check=False)
        if process.returncode:
            raise NetworkError("to_code: the code of the net fails", got=process.stderr.strip()[-400:])
        compare(net, writer, tensors, modes, where)


def write_case(net: Network, writer: ModuleWriter, tensors: Mapping[str, Tensor], folder: Path) -> list[bool]:
    """Writes parameters and data to a folder. Returns the modes: of training, of evaluation, or both."""
    modes = [True, False] if net.train_flag is None else [net.train_flag]
    arrays = {f"parameter {name}": p.raw_tensor.detach().cpu().numpy() for name, p in net.named_parameters()}
    case: dict[str, Any] = {"modes": modes, "data": {}}
    if isinstance(writer, TorchWriter):
        for i, (key, dim) in enumerate(writer.arguments):
            x = tensors[key]
            x = x.copy_transpose(axes_of(x))
            arrays[f"argument {i}"] = x.raw_tensor.detach().cpu().numpy() if dim is None else x.size_of(dim).values
        names = [name for name, _ in net.named_parameters()]
        case |= {"parameters": names, "arguments": len(writer.arguments), "seed": SEED}
        case["dropout"] = not writer.dropout_in_loops
        tensors = {}
    for key, x in tensors.items():
        arrays[f"data {key}"] = x.raw_tensor.detach().cpu().numpy()
        about: dict[str, Any] = {"dims": [writer.global_dim(dim) for dim in x.dims], "lengths": {}}
        for name, dim in (("sparse_dim", x.sparse_dim), ("feature_dim", x.feature_dim)):
            about[name] = None if dim is None else writer.global_dim(dim)
        for dim in x.dims:
            if dim.dimension is None and not dim.is_batch_dim() and x.size_of(dim).dims:
                size = x.size_of(dim)
                arrays[f"lengths {key} {writer.global_dim(dim)}"] = size.values
                about["lengths"][writer.global_dim(dim)] = [writer.global_dim(of) for of in size.dims]
        case["data"][key] = about
    np.savez(folder / "case.npz", **arrays)
    (folder / "case.json").write_text(json.dumps(case))
    return modes


def run(folder: str) -> None:
    """Runs the file `code.py` of a folder on the data there, and writes what it gives."""
    where = Path(folder)
    namespace: dict[str, Any] = {"__name__": "code_of_net"}
    exec(compile((where / "code.py").read_text(encoding="utf-8"), "code.py", "exec"), namespace)  # written by to_code
    case, arrays = json.loads((where / "case.json").read_text()), np.load(where / "case.npz")
    net = namespace["Net"]()
    names = dict(net.named_parameters())
    unknown = [name for name in names if f"parameter {name}" not in arrays]
    if unknown:
        raise NetworkError("to_code: the code has other parameters than the net", got=", ".join(unknown))
    results: dict[str, np.ndarray] = {}
    for mode in case["modes"]:
        for name, parameter in names.items():
            parameter.assign(arrays[f"parameter {name}"])
        tensors = [_tensor(key, about, arrays, namespace) for key, about in case["data"].items()]
        set_random_seed(SEED)
        with get_run_ctx().train_flag_ctx(mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of loops without an end, which the net does not mention either
            outputs, losses = net(*tensors)
        results.update(results_of(mode, outputs, losses, names))
    np.savez(where / "results.npz", **results)  # type: ignore[arg-type]


def _tensor(key: str, about: Mapping[str, Any], arrays: Any, namespace: dict[str, Any]) -> Tensor:
    def dim(name: str | None) -> Dim | None:
        return None if name is None else batch_dim if name == "rf.batch_dim" else namespace[name]

    lengths: dict[Any, Any] = {
        dim(name): convert_to_tensor(arrays[f"lengths {key} {name}"], dims=[*map(dim, of)])  # type: ignore[list-item]
        for name, of in about["lengths"].items()
    }
    return convert_to_tensor(
        arrays[f"data {key}"],
        dims=[*map(dim, about["dims"])],  # type: ignore[list-item]
        sparse_dim=dim(about["sparse_dim"]),
        feature_dim=dim(about["feature_dim"]),
        lengths=lengths or None,
    )


def results_of(
    mode: bool, outputs: Mapping[str, Tensor], losses: Mapping[str, Tensor], parameters: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Outputs without padding, losses, and the gradients of their sum, which are then forgotten."""
    head = "training" if mode else "evaluation"
    results = {f"{head}: output {path}": unpadded(x) for path, x in outputs.items()}
    results |= {f"{head}: loss {path}": np.asarray(x.item()) for path, x in losses.items()}
    total: Any = sum(losses.values())
    if losses and total.raw_tensor.requires_grad:
        total.backward()
    for name, parameter in parameters.items():
        gradient = parameter.raw_tensor.grad
        if gradient is not None:
            results[f"{head}: gradient {name}"] = gradient.detach().cpu().numpy()
            parameter.raw_tensor.grad = None
    return results


def unpadded(x: Tensor) -> np.ndarray:
    """The numbers of a tensor, with 0 in the padding."""
    masked = x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x
    array: np.ndarray = masked.raw_tensor.detach().cpu().numpy()
    return array


def compare(net: Network, writer: ModuleWriter, tensors: Mapping[str, Tensor], modes: list[bool], folder: Path) -> None:
    """Raises NetworkError for the first difference, which it names."""
    with np.load(folder / "results.npz") as file:
        results = dict(file)
    expected: dict[str, np.ndarray] = {}
    fixed = {p: p.raw_tensor.detach().clone() for p in net.parameters() if not p.trainable}
    saved = [(p, p.raw_tensor.grad) for p in net.parameters()]
    flag = net.train_flag
    try:
        for mode in modes:
            for parameter in net.parameters():
                parameter.raw_tensor.grad = None
            set_random_seed(SEED)
            net.train_flag = mode
            drops = mode and not (isinstance(writer, TorchWriter) and writer.dropout_in_loops)
            with get_run_ctx().train_flag_ctx(drops, func=dropout):
                values = net.forward(tensors)
            holders, _, constraints = net.get_losses_initialized(with_total=True)
            values_of_losses = ((name, holder.get_loss_value_for_objective()) for name, holder in holders.items())
            losses = {name: x for name, x in values_of_losses if x is not None}
            if isinstance(constraints, Tensor):
                losses["constraints"] = constraints
            outputs = {layer.name: values[layer.name] for layer in net.get_output_layers()}
            expected.update(results_of(mode, outputs, losses, dict(net.named_parameters())))
            for path, x in outputs.items() if isinstance(writer, TorchWriter) else ():  # padding there is anything
                head, y, frames = "training" if mode else "evaluation", x.copy_transpose(axes_of(x)), frames_of(x)
                key, lengths = f"{head}: output {path}", f"{head}: lengths {path}"
                if frames is not None and lengths in results:
                    expected[lengths] = x.size_of(frames).values
                if key in results and results[key].shape == tuple(y.raw_tensor.shape):
                    raw = backend_of_raw(y._raw).from_numpy_raw(results[key], "cpu")
                    results[key] = unpadded(y.like(raw).copy_transpose(x.dims))
            for parameter, numbers in fixed.items():
                parameter.assign(numbers)
    finally:
        net.train_flag = flag
        for parameter, gradient in saved:
            parameter.raw_tensor.grad = gradient
    for difference in differences(expected, results):
        raise difference


def differences(expected: Mapping[str, np.ndarray], found: Any) -> Iterator[NetworkError]:
    """An error for each array that differs."""
    for name, array in expected.items():
        path = name.partition(": ")[2].partition(" ")[2]
        if name not in found:
            if "gradient" not in name or np.any(array):
                yield unwritten(path, f"the code does not give its {name}")
            continue
        result = found[name]
        if array.shape != result.shape or not np.allclose(result, array, equal_nan=True, **TOLERANCE):
            yield unwritten(path, "the code computes something else", got=f"{name}: {result.ravel()[:3]}",
                            expected=str(array.ravel()[:3]))  # fmt: skip
