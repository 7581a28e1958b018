"""The outputs of a call of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LayerNotFound


class NetworkOutputs(Mapping[str, Tensor]):
    """The outputs of a call by the paths of the layers: "encoder", "subnet/layer"; and "data:key"."""

    def __init__(self, values: dict[str, Tensor]):
        self._values = values

    def __getitem__(self, path: str) -> Tensor:
        if path not in self._values:
            hint = did_you_mean(path, self._values) or "a layer is constructed if an output or a loss needs it"
            raise LayerNotFound(f"there is no output of a layer {path!r}", expected=", ".join(self._values), hint=hint)
        return self._values[path]

    def __contains__(self, path: object) -> bool:
        return path in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
