"""The loops of a network in its picture: how many steps, what ends them, and which layers have left them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.network.layer import Layer
from rfnb.network.network import Network
from rfnb.network.rec.net import RecNet
from rfnb.network.report.outline import Entry


@dataclass
class LoopBox:
    """A loop: what is said of its steps, and where its layers are.

    places: by path, "before the loop", "after the loop", or "" in its steps. whole: by path, the dims of a layer that
    is computed for all frames together. runs: whether steps are left. sources: the paths of `data:source`.
    """

    words: list[str]
    places: dict[str, str]
    whole: dict[str, tuple[Dim, ...]]
    runs: bool
    sources: tuple[str, ...]

    def steps_of(self, path: str, entries: Mapping[str, Entry]) -> list[Entry]:
        """The layers of the loop with this path that are computed in its steps."""
        return [entry for key, entry in entries.items() if key.startswith(f"{path}/") and not self.places.get(key, "")]


def loops_of(net: Network) -> dict[str, LoopBox]:
    """The loops that were constructed, by path."""
    layers = net.layers
    nets = next((layer.spec.nets for layer in layers.values()), {})
    recs = {path: rec for path, rec in nets.items() if path in layers and (rec.inside or rec.before)}
    templates = net.templates() if recs else {}
    return {path: _loop(net, rec, templates) for path, rec in recs.items()}


def as_computed(
    entries: Mapping[str, Entry], layers: Mapping[str, Layer], loops: Mapping[str, LoopBox]
) -> dict[str, Entry]:
    """The layers with what they read.

    A choice that does not search reads its target, and no scores. A loop reads its sources for layers in its steps.
    """
    result = {}
    for path, entry in entries.items():
        layer = layers.get(path)
        if layer is not None and not layer.takes_sources:
            references = [reference for reference in entry.references if reference.option != "from"]
            references += [
                replace(reference, option="from")
                for reference in references
                if reference.option == "target" and layer.takes_target
            ]
            entry = replace(entry, references=references)
        if path in loops and not any(
            reference.path == f"{path}/data"
            for step in loops[path].steps_of(path, entries)
            for reference in step.references
        ):
            entry = replace(
                entry, references=[reference for reference in entry.references if reference.option != "from"]
            )
        result[path] = entry
    return result


def _loop(net: Network, rec: RecNet, templates: Mapping[str, Tensor]) -> LoopBox:
    rows = net.explain(rec.path).rows
    places = {f"{rec.path}/{row.name}": row.place if row.place != "each step" else "" for row in rows}
    runs = bool(rec.inside)
    stacked = {path: tuple(rec.stacked_dims(templates[path])) for path, place in places.items() if place}
    words = list(_words(rec)) if runs else ["no loop: all frames at once"]
    return LoopBox(words, places, stacked, runs, rec.sources)


def _words(rec: RecNet) -> Iterator[str]:
    layer = rec.layer
    if rec.known:
        yield f"a step for each frame of {rec.axis.name}"
    else:
        via = rec.inputs.get("max_seq_len_via")
        limit = f"as many steps as {via} says" if via else f"{layer.max_seq_len} steps"  # type: ignore[attr-defined]
        yield f"until {rec.name_of(rec.end or 'end')}, at most {limit}"
    if rec.beam is not None:
        yield f"beam {rec.beam.dimension}"
