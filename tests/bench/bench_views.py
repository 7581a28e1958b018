"""What views cost, beside other tools on the same objects: python tests/bench/bench_views.py [names…]

CPU time of one thread, with that of child processes such as `dot`; medians of interleaved rounds. Sizes are of the
HTML that a notebook keeps; `all` is the whole bundle of rfnb: text, HTML, and what scripts read.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import Dim, batch_dim

ROUNDS, SECONDS = 9, 20.0
"""So many rounds, unless one tool alone takes longer than that."""

PACKAGES = {"lovely_tensors": "lovely-tensors"}
"""Where pip has another name than Python."""

Tool = Callable[[], Any]
"""Makes what a notebook shows: a string, or a bundle by MIME type."""


def bundle(make: Callable[[], Any]) -> Tool:
    """Of rfnb: all that a notebook would keep."""
    return lambda: make()._repr_mimebundle_()


def tensor() -> dict[str, Tool]:
    """A batch of sequences with lengths."""
    raw = torch.randn(32, 200, 512)
    lengths = [200, *torch.randint(60, 200, (31,)).tolist()]
    dims = [batch_dim, Dim(None, name="time"), Dim(512, name="feat")]
    x = rf.convert_to_tensor(raw, dims=dims, lengths=lengths, name="x")
    return {
        "rfnb": bundle(lambda: x),
        "treescope": treescope(raw),
        "treescope, NumPy": treescope(raw.numpy()),
        "lovely_tensors": lovely(raw),
        "lovely_tensors, plot": lovely_plot(raw),
        "xarray": xarray(raw.numpy()),
    }


def module() -> dict[str, Tool]:
    """100 parameters, of 50 layers that are all different."""
    dims = [Dim(16 + i, name=f"feat{i}") for i in range(51)]
    ours = rf.Sequential(*(rf.Linear(a, b) for a, b in itertools.pairwise(dims)))
    theirs = torch.nn.Sequential(*(torch.nn.Linear(16 + i, 17 + i) for i in range(50)))
    return {
        "rfnb": bundle(lambda: ours),
        "rfnb, of torch.nn": bundle(lambda: rf.show(theirs)),
        "treescope": treescope(theirs),
    }


def structure() -> dict[str, Tool]:
    """A dict of 100 tensors."""
    raw = {f"layer{i}.weight": torch.randn(64, 64 + i) for i in range(100)}
    arrays = {name: x.numpy() for name, x in raw.items()}
    return {
        "rfnb": bundle(lambda: rf.show(raw)),
        "treescope": treescope(raw),
        "treescope, NumPy": treescope(arrays),
        "xarray": xarray_all(arrays),
    }


def graph() -> dict[str, Tool]:
    """1,000 modules: traced, laid out, drawn; folded where the tool can."""

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear, self.act = torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.act(self.linear(self.norm(x)))

    model, x = torch.nn.Sequential(*(Block() for _ in range(250))), torch.randn(4, 16)

    def drawn(**choice: Any) -> Tool:
        draw = tool("torchview").draw_graph
        return lambda: draw(model, x, **choice).visual_graph.pipe(format="svg").decode()

    return {
        "rfnb": bundle(lambda: rf.show(model, x)),
        "torchview": lambda: drawn(expand_nested=True),
        "torchview, depth 1": lambda: drawn(depth=1),
    }


def attention(size: int) -> dict[str, Tool]:
    """12 layers × 12 heads."""
    raw = torch.softmax(torch.randn(12, 12, size, size), -1)
    dims = [Dim(12, name="layer"), Dim(12, name="head"), Dim(size, name="rows"), Dim(size, name="cols")]
    weights = rf.convert_to_tensor(raw, dims=dims, name="weights")
    layers, words = [raw[i : i + 1].flatten(0, 1)[None] for i in range(12)], [f"w{i}" for i in range(size)]

    def viewed(name: str) -> Tool:
        view = getattr(tool("bertviz"), name)
        return lambda: view(layers, words, html_action="return").data

    return {
        "rfnb": bundle(lambda: rf.show_attention(weights)),
        "bertviz, heads": lambda: viewed("head_view"),
        "bertviz, model": lambda: viewed("model_view"),
    }


OBJECTS: dict[str, Callable[[], dict[str, Tool]]] = {
    "tensor [32,200,512], lengths": tensor,
    "module of 100 parameters": module,
    "dict of 100 tensors": structure,
    "graph of 1,000 modules": graph,
    "attention 12×12×64": lambda: attention(64),
    "attention 12×12×256": lambda: attention(256),
}


class NotInstalled(Exception):
    """A tool that is not there."""


def tool(name: str) -> Any:
    """The package. Raises NotInstalled if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise NotInstalled(f"not installed: pip install {PACKAGES.get(name, name)}") from None


def treescope(shown: Any) -> Tool:
    """With its automatic pictures of arrays."""

    def prepared() -> Tool:
        package = tool("treescope")
        visualizer = package.ArrayAutovisualizer()

        def render() -> str:
            with package.active_autovisualizer.set_scoped(visualizer):
                return package.render_to_html(shown)

        return render

    return prepared


def lovely(shown: torch.Tensor) -> Tool:
    """Its line."""

    def prepared() -> Tool:
        package = tool("lovely_tensors")
        return lambda: str(package.lovely(shown))

    return prepared


def lovely_plot(shown: torch.Tensor) -> Tool:
    """Its distribution as a picture."""

    def prepared() -> Tool:
        package = tool("lovely_tensors")
        return lambda: package.plot(shown)._repr_svg_()

    return prepared


def xarray(shown: np.ndarray) -> Tool:
    """An array with names for its axes."""

    def prepared() -> Tool:
        array = tool("xarray").DataArray(shown, dims=["batch", "time", "feat"], name="x")
        return lambda: array._repr_html_()

    return prepared


def xarray_all(shown: dict[str, np.ndarray]) -> Tool:
    """All of them as a data set."""

    def prepared() -> Tool:
        arrays = {name: ((f"{name}.0", f"{name}.1"), array) for name, array in shown.items()}
        made = tool("xarray").Dataset(arrays)
        return lambda: made._repr_html_()

    return prepared


def cpu() -> float:
    """Seconds that this process and its ended children computed."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(tools: dict[str, Tool]) -> dict[str, str]:
    """A line for each tool; the rounds of all of them alternate."""
    ready, lines, times, made = {}, {}, {name: [] for name in tools}, {}
    for name, make in tools.items():
        try:
            ready[name] = make if name.startswith("rfnb") else make()
            made[name] = ready[name]()
        except NotInstalled as error:
            lines[name] = str(error)
        except Exception as error:
            lines[name] = f"fails: {type(error).__name__}: {str(error).splitlines()[0][:70]}"
    for _ in range(ROUNDS):
        for name in made:
            if sum(times[name]) < SECONDS:
                start = cpu()
                ready[name]()
                times[name].append(cpu() - start)
    for name, shown in made.items():
        lines[name] = f"{statistics.median(times[name]) * 1e3:>10,.1f}{sizes(shown)}"
    return {name: lines[name] for name in tools}


def sizes(shown: Any) -> str:
    """In kB: of the HTML, and of the whole bundle if it has more."""
    if isinstance(shown, str):
        return f"{len(shown.encode()) / 1e3:>12,.1f}"
    whole = sum(len((part if isinstance(part, str) else json.dumps(part)).encode()) for part in shown.values())
    return f"{len(shown['text/html'].encode()) / 1e3:>12,.1f}{whole / 1e3:>12,.1f}"


def main(names: list[str]) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    gc.disable()
    print(f"{'one thread':<32}{'CPU ms':>10}{'kB HTML':>12}{'kB all':>12}")
    for title, make in OBJECTS.items():
        if not names or any(part in title for part in names):
            print(title)
            for name, line in measure(make()).items():
                print(f"  {name.replace('_', '-'):<30}{line}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
