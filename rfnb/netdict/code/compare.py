"""`rf.compare` of two nets of layers: both compute a batch, and the first layer whose values differ is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rfnb.core.ground.show import Shown
from rfnb.netdict.axes import order_now
from rfnb.netdict.code.diff import diff
from rfnb.netdict.code.to_code import as_data, unpadded
from rfnb.netdict.network import Network
from rfnb.ops.random import get_random_state, set_random_state
from rfnb.trace.compare.compare import distance

RTOL, ATOL = 1e-4, 1e-5


@dataclass(frozen=True)
class LayerDifference:
    """A layer with other values in two nets.

    layer: the path in the first net. other: in the second one. what: how they differ, in words.
    largest: the largest difference of numbers; None if there are other dims.
    """

    layer: str
    other: str
    what: str
    largest: float | None = None


@dataclass(eq=False, repr=False)
class NetComparison(Shown):
    """The result of `rf.compare(net_a, net_b, batch)`. It is true if all layers that both nets have agree.

    Attributes:
        names: of the nets. differences: the layers with other values, in the order in which they are computed.
        agree: the paths of the layers that agree. not_numbers: those of them that have NaN in both nets.
        only_a, only_b: layers that only one of them has.
    """

    names: tuple[str, str]
    differences: list[LayerDifference] = field(default_factory=list)
    agree: list[str] = field(default_factory=list)
    not_numbers: list[str] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def first(self) -> LayerDifference | None:
        """The first layer that differs."""
        return self.differences[0] if self.differences else None


def compare_nets(a: Network, b: Network, batch: Mapping[str, object] | None = None) -> NetComparison:
    """Compares the values of all layers for a batch, by default of random data; both draw the same random numbers."""
    if not isinstance(b, Network):
        raise TypeError(f"compare: a network is compared with a network, not with {type(b).__name__}")
    arrays = a.extern_data.example() if batch is None else batch
    plain = {key: as_data(x) for key, x in a.extern_data.tensors(arrays).items()}
    state = get_random_state()
    values = []
    for net in (a, b):
        set_random_state(state)
        outputs = net({key: x for key, x in plain.items() if net.extern_data.has_data(key)})
        values.append({
            path: unpadded(outputs[path].copy_transpose(order_now(net.template(path).dims, outputs[path])))
            for path in net.layers if path in outputs
        })  # fmt: skip
    renamed = diff(a, b).renamed
    result = NetComparison((a.name, b.name))
    for path, array in values[0].items():
        other = renamed.get(path, path)
        if other not in values[1]:
            result.only_a.append(path)
            continue
        words, largest = _difference(array, values[1][other])
        if words:
            result.differences.append(LayerDifference(path, other, words, largest))
        else:
            result.agree.append(path)
            result.not_numbers += [path] if np.isnan(array).any() else []
    compared = {renamed.get(path, path) for path in values[0]}
    result.only_b = [path for path in values[1] if path not in compared]
    return result


def _difference(a: np.ndarray, b: np.ndarray) -> tuple[str, float | None]:
    """In words; "" if they agree."""
    if a.shape != b.shape:
        return f"{list(a.shape)} and {list(b.shape)}", None
    if a.dtype.kind not in "fc" or b.dtype.kind not in "fc":
        wrong = int((a != b).sum())
        return (f"{wrong} of {a.size} entries differ", float(wrong)) if wrong else ("", None)
    if np.allclose(a, b, rtol=RTOL, atol=ATOL, equal_nan=True):
        return "", None
    far = np.where(np.isnan(a) & np.isnan(b), 0.0, distance(a, b))
    largest, where = float(far.max()), np.unravel_index(int(far.argmax()), a.shape)
    return f"by {largest:.3g} at {list(map(int, where))}: {a[where]:.4g} and {b[where]:.4g}", largest
