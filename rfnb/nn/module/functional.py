"""Functions as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.errors import ParameterError
from rfnb.nn.module.module import Module


class Functional(Module):
    """A function as a module, for example as an entry of a list of modules.

    attribs: attributes to set; parameters and modules among them belong to the module.

    >>> twice = rf.Functional(lambda x: 2 * x)
    >>> twice(rf.ones([rf.Dim(3, name="feat")])).raw_tensor.tolist()
    [2.0, 2.0, 2.0]

    Raises ParameterError if `func` cannot be called.
    """

    def __init__(self, func: Callable[..., Any], *, attribs: dict[str, Any] | None = None):
        check_callable(func, type(self).__name__)
        self.func = func
        for name, value in (attribs or {}).items():
            setattr(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.func(*args, **kwargs)

    def get_default_name(self) -> str:
        """The name of the function."""
        return getattr(self.func, "__name__", type(self.func).__name__).replace("<lambda>", "lambda")


def check_callable(part: Any, what: str) -> None:
    """Raises ParameterError if `part` is neither a module nor a function. what: how the message begins."""
    if not callable(part):
        raise ParameterError(
            f"{what}: this is not a module", got=f"{part!r:.40}", expected="an rf.Module or a function of a Tensor"
        )
