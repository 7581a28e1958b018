"""A batch: tensors by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rfnb.core.dim import bind_again
from rfnb.core.show import Shown
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError


class TensorDict(Shown):
    """Tensors by name: what a data loader gives, and what a model is fed with."""

    def __init__(self, data: Mapping[str, Tensor] | None = None):
        self.data: dict[str, Tensor] = dict(data or {})

    def __getitem__(self, name: str) -> Tensor:
        """A tensor. Its dims have the lengths of this batch from now on, whichever batch came last."""
        try:
            tensor = self.data[name]
        except KeyError:
            raise DimError(f"the batch has no {name!r}", expected=", ".join(self.data)) from None
        bind_again(tensor.dims, tensor.lengths)
        return tensor

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        self.data[name] = tensor

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def tags(self) -> list[str] | None:
        """The names of the sequences, in batch order, if they have any."""
        return next((tags for x in self.data.values() if (tags := sequence_tags(x)) is not None), None)

    def reset_content(self) -> None:
        """Forgets the tensors."""
        self.data.clear()

    def __repr__(self) -> str:
        rows = "".join(f"\n  {name}: {tensor!r}" for name, tensor in self.data.items())
        return f"TensorDict({len(self)} tensors){rows}"


def sequence_tags(tensor: Tensor) -> list[str] | None:
    """The names of the sequences of a tensor."""
    for dim in tensor.dims:
        size: Any = tensor.lengths.size(dim)
        if size is not None and size.tags is not None:
            return list(size.tags)
    return None
