"""Which backend a raw tensor belongs to. Backends register here; core imports none of them."""

from __future__ import annotations

from typing import Any

from rfnb.errors import BackendError

BACKENDS: dict[type, Any] = {}
"""By type of raw tensor; subclasses are found through their bases and then kept here as well."""

_selected: list[Any] = []


def register_backend_by_tensor_type(tensor_type: type, backend: Any) -> None:
    """Raw tensors of `tensor_type` are handled by `backend` from now on."""
    BACKENDS[tensor_type] = backend


def select(backend: Any) -> None:
    """`backend` makes the tensors that are not made from other tensors."""
    _selected[:] = [backend]


def selected() -> Any:
    """The backend that makes new tensors."""
    if not _selected:
        raise BackendError("no backend is selected", hint='rf.select_backend("torch")')
    return _selected[0]


def backend_of_raw(raw: Any) -> Any:
    """The backend of a raw tensor."""
    backend = BACKENDS.get(type(raw))
    return backend if backend is not None else backend_of_type(type(raw))


def backend_of_type(raw_type: type) -> Any:
    """The backend registered for `raw_type` or the nearest of its bases."""
    for base in raw_type.__mro__:
        if base in BACKENDS:
            BACKENDS[raw_type] = BACKENDS[base]
            return BACKENDS[base]
    raise BackendError(
        "there is no backend for this raw tensor",
        got=raw_type.__name__,
        expected=" or ".join(t.__name__ for t in BACKENDS),
    )
