"""What only a framework of graphs has something to do for: ops here are done at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class EagerOps:
    """No raw part of its own."""

    @staticmethod
    def executing_eagerly() -> bool:
        """Whether ops are done at once."""
        return True

    @staticmethod
    def name_scope_raw(name: str) -> AbstractContextManager[None]:
        """Nothing: raw tensors have no names."""
        return nullcontext()

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[Any]) -> AbstractContextManager[None]:
        """Nothing: what comes before is done before."""
        return nullcontext()

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: Any, dependencies: Sequence[Any]) -> Any:
        """Itself: what comes before is done before."""
        return raw_tensor

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> Any:
        """Raises BackendError: a tensor has data as soon as there is one."""
        raise BackendError(
            "create_placeholder: placeholders do not exist here, since ops run at once",
            got=tensor.describe_dims(),
            hint="rf.convert_to_tensor(data, dims=[…]); tensor.copy_template() for a description without data",
        )

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """Always: there is no graph."""
        return True

    @staticmethod
    def format_graph_output(raw_tensor: Any, *, max_depth: int | None = None) -> str | None:
        """None: there is no graph."""
        return None


def lacking(name: str) -> Callable[..., Any]:
    """Stands for a raw function that a backend has not."""

    op = "loops" if name == "new_tape" else name.removesuffix("_raw")

    def missing(cls: type[Backend], *_: Any, **__: Any) -> Any:
        raise BackendError(
            f"{op}: the {cls.name} backend does not support this",
            got=f"a {cls.RawTensorType.__name__}",
            expected=f"a backend with {name}",
            hint='rf.select_backend("torch") before the tensors are made',
        )

    return missing
