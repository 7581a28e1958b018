"""The arguments of a Tensor as the configs of models write them: `dim_tags`, or `dim`, `shape` and `sparse`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.vocab.vocab import vocab_of
from rfnb.errors import DimError


class Axes(NamedTuple):
    """What the arguments say about the axes of a Tensor."""

    dims: Sequence[Dim] | None
    sparse_dim: Dim | None
    feature_dim: Dim | None


def read(name: str, axes: Axes, given: dict[str, Any]) -> Axes:
    """Returns the axes that `given` describes. Raises DimError for an argument that does not exist.

    `dim_tags` are the dims. `dim` is the number of features, or of labels if the entries are `sparse`. `shape` has the
    axes behind the batch, with None for time; by default these are time and, for what is not sparse, the features.
    `vocab` names the labels. The last static axis is the one of the features, unless the entries are labels.
    """
    unknown = given.keys() - KNOWN - IGNORED
    if unknown or (axes.dims is not None and not given.keys().isdisjoint(AXES)):
        raise unknown_argument(name, {key: given[key] for key in given if not unknown or key in unknown})
    dims, sparse_dim, feature_dim = axes
    if given.get("sparse") and sparse_dim is None:
        sparse_dim = Dim(given.get("dim"), name=f"{name}-labels", vocab=given.get("vocab"))
    if "dim_tags" in given:
        dims = tuple(given["dim_tags"])
    elif not given.keys().isdisjoint(AXES):
        inner = (None,) if sparse_dim is not None else (None, given.get("dim"))
        dims = (batch_dim, *[_axis(name, size) for size in given.get("shape", inner)])
    if sparse_dim is not None and given.get("vocab") is not None and sparse_dim.vocab is None:
        sparse_dim.vocab = vocab_of(given["vocab"])
    if feature_dim is None and sparse_dim is None and not given.keys().isdisjoint(AXES):
        feature_dim = next((dim for dim in reversed(dims or ()) if dim.dimension is not None), None)
    return Axes(dims, sparse_dim, feature_dim)


def _axis(name: str, size: int | None) -> Dim:
    if size is None:
        return Dim(None, name="time", kind=Dim.Types.Spatial)
    return Dim(size, name=f"{name}-feature", kind=Dim.Types.Feature)


def unknown_argument(name: str, unknown: dict[str, Any]) -> DimError:
    """The error for arguments that a Tensor does not have."""
    return DimError(
        f"Tensor {name!r}: unknown argument",
        got=", ".join(f"{key}={value!r:.40}" for key, value in unknown.items()),
        expected="dims, dtype, sparse_dim, feature_dim, feature_dim_axis, raw_tensor",
        hint=INSTEAD.get(next(iter(unknown))),
    )


AXES = {"dim_tags", "dim", "shape", "sparse"}
KNOWN = {*AXES, "vocab"}
IGNORED = {"available_for_inference", "time_dim_axis"}
"""Arguments that have no effect: which data an engine loads, and which axis `get_time_dim_tag` finds anyway."""
INSTEAD = {
    "shape": "dims=[…], a Dim for each axis",
    "dim_tags": "dims=[…]",
    "batch_dim_axis": "dims=[…] with rf.batch_dim in its place",
    "size_placeholder": "dims=[…], where the time dim holds the lengths",
    "placeholder": "raw_tensor=…",
    "sparse": "sparse_dim=Dim(…)",
    "dim": "sparse_dim=Dim(…) for labels, or the last of dims=[…]",
    "auto_create_placeholders": "rf.zeros, or data",
    "version": "version=2",
}
"""Arguments that a Tensor does not have, and what to write."""
