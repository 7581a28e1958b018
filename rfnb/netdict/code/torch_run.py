"""Runs the torch code of a net, written by rf.to_code, on the data of a folder. Needs nothing of rfnb."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


def run(folder: str) -> None:
    """Runs the file `code.py` of a folder on the data there, and writes what it gives."""
    where = Path(folder)
    code: dict[str, Any] = {"__name__": "code_of_net"}
    exec(compile((where / "code.py").read_text(encoding="utf-8"), "code.py", "exec"), code)  # written by to_code
    case, arrays = json.loads((where / "case.json").read_text()), np.load(where / "case.npz")
    parameters = {name: arrays[f"parameter {name}"] for name in case["parameters"]}
    arguments = [torch.as_tensor(arrays[f"argument {i}"]) for i in range(case["arguments"])]
    results: dict[str, np.ndarray] = {}
    dropout = torch.nn.functional.dropout
    if not case["dropout"]:  # in loops, the net draws other numbers
        torch.nn.functional.dropout = lambda x, *_: x
    for mode in case["modes"]:
        net = code["Net"]().train(mode)
        code["load_checkpoint"](net, parameters)
        torch.manual_seed(case["seed"])
        outputs, losses, lengths = net(*arguments)
        head = "training" if mode else "evaluation"
        results |= {f"{head}: output {path}": x.detach().numpy() for path, x in outputs.items()}
        results |= {f"{head}: lengths {path}": x.numpy() for path, x in lengths.items()}
        results |= {f"{head}: loss {path}": x.detach().numpy() for path, x in losses.items()}
        total = sum(losses.values())
        if losses and total.requires_grad:
            total.backward()
        parameters_of_net = dict(net.named_parameters(remove_duplicate=False))
        for name, array in parameters.items():
            places = torch.arange(array.size).reshape(array.shape)
            place, order = code["converted"](name, places)
            gradient = parameters_of_net[place].grad
            if gradient is not None:
                values = np.empty(array.size, array.dtype)
                values[order.flatten().numpy()] = gradient.flatten().numpy()
                results[f"{head}: gradient {name}"] = values.reshape(array.shape)
    torch.nn.functional.dropout = dropout
    np.savez(where / "results.npz", **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    run(sys.argv[1])
    assert "rfnb" not in sys.modules
