"""Graph-mode functions of the backend contract. They do nothing, since all backends here are eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class EagerOps:
    """Functions that only matter in graph mode. There is no raw part."""

    @staticmethod
    def executing_eagerly() -> bool:
        """Whether ops run at once: True."""
        return True

    @staticmethod
    def name_scope_raw(name: str) -> AbstractContextManager[None]:
        """A context that does nothing, since raw tensors have no names."""
        return nullcontext()

    @staticmethod
    def control_dependencies_raw(dependencies: Sequence[Any]) -> AbstractContextManager[None]:
        """A context that does nothing, since ops run in order."""
        return nullcontext()

    @staticmethod
    def identity_with_control_dependencies_raw(raw_tensor: Any, dependencies: Sequence[Any]) -> Any:
        """The tensor itself, since ops run in order."""
        return raw_tensor

    @staticmethod
    def create_placeholder_raw(tensor: Tensor) -> Any:
        """Raises BackendError, since eager tensors always have data."""
        raise BackendError(
            "create_placeholder: placeholders do not exist here, since ops run at once",
            got=tensor.describe_dims(),
            hint="rf.convert_to_tensor(data, dims=[…]); tensor.copy_template() for a description without data",
        )

    @staticmethod
    def is_valid_in_current_graph(tensor: Tensor) -> bool:
        """True, since there is no graph."""
        return True

    @staticmethod
    def format_graph_output(raw_tensor: Any, *, max_depth: int | None = None) -> str | None:
        """None, since there is no graph."""
        return None


def lacking(name: str) -> Callable[..., Any]:
    """A function that raises a BackendError, in place of a raw function that the backend lacks."""

    op = "loops" if name == "new_tape" else name.removesuffix("_raw")

    def missing(cls: type[Backend], *_: Any, **__: Any) -> Any:
        raise BackendError(
            f"{op}: the {cls.name} backend does not support this",
            got=f"a {cls.RawTensorType.__name__}",
            expected=f"a backend with {name}",
            hint='rf.select_backend("torch") before the tensors are made',
        )

    return missing
