"""Runs the code of a net in a process of its own, and compares what it gives with what the net gives."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.code import torch_run
from rfnb.netdict.code.module import ModuleWriter
from rfnb.netdict.code.torch_body import axes_of, frames_of
from rfnb.netdict.code.torch_module import TorchWriter
from rfnb.netdict.code.trace import unwritten
from rfnb.netdict.network import Network
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.random import dropout, set_random_seed

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
            call = ["-c", "import sys; from rfnb.netdict.code.check import run; run(sys.argv[1])"]
        done = subprocess.run([sys.executable, *call, folder], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NetworkError("to_code: the code of the net fails", got=done.stderr.strip()[-400:])
        compare(net, writer, tensors, modes, where)


def write_case(net: Network, writer: ModuleWriter, tensors: Mapping[str, Tensor], folder: Path) -> list[bool]:
    """Writes parameters and data to a folder. Returns the modes: of training, of evaluation, or both."""
    modes = [True, False] if net.train_flag is None else [net.train_flag]
    arrays = {f"parameter {name}": p.raw_tensor.detach().cpu().numpy() for name, p in net.named_parameters()}
    data: dict[str, Any] = {}
    if isinstance(writer, TorchWriter):
        for i, (key, dim) in enumerate(writer.arguments):
            x = tensors[key]
            x = x.copy_transpose(axes_of(x))
            arrays[f"argument {i}"] = x.raw_tensor.detach().cpu().numpy() if dim is None else x.size_of(dim).values
        names = [name for name, _ in net.named_parameters()]
        case = {"parameters": names, "arguments": len(writer.arguments), "modes": modes, "seed": SEED}
        case["dropout"] = not writer.dropout_in_loops
        np.savez(folder / "case.npz", **arrays)
        (folder / "case.json").write_text(json.dumps(case))
        return modes
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
        data[key] = about
    np.savez(folder / "case.npz", **arrays)
    (folder / "case.json").write_text(json.dumps({"data": data, "modes": modes}))
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
        given = [_tensor(key, about, arrays, namespace) for key, about in case["data"].items()]
        set_random_seed(SEED)
        with get_run_ctx().train_flag_ctx(mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of loops without an end, which the net does not mention either
            outputs, losses = net(*given)
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
        found = dict(file)
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
                if frames is not None and lengths in found:
                    expected[lengths] = x.size_of(frames).values
                if key in found and found[key].shape == tuple(y.raw_tensor.shape):
                    raw = backend_of_raw(y._raw).from_numpy_raw(found[key], "cpu")
                    found[key] = unpadded(y.like(raw).copy_transpose(x.dims))
            for parameter, numbers in fixed.items():
                parameter.assign(numbers)
    finally:
        net.train_flag = flag
        for parameter, gradient in saved:
            parameter.raw_tensor.grad = gradient
    for difference in differences(expected, found):
        raise difference


def differences(expected: Mapping[str, np.ndarray], found: Any) -> Iterator[NetworkError]:
    """An error for each array that differs."""
    for name, array in expected.items():
        path = name.partition(": ")[2].partition(" ")[2]
        if name not in found:
            if "gradient" not in name or np.any(array):
                yield unwritten(path, f"the code does not give its {name}")
            continue
        other = found[name]
        if array.shape != other.shape or not np.allclose(other, array, equal_nan=True, **TOLERANCE):
            yield unwritten(path, "the code computes something else", got=f"{name}: {other.ravel()[:3]}",
                            expected=str(array.ravel()[:3]))  # fmt: skip
