"""Registry of backends: which one handles a raw tensor, and which one makes new tensors.

Backends register here; core imports none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.ground.text import did_you_mean
from rfnb.errors import BackendError

BACKENDS: dict[type, Any] = {}
"""The registered backends, by type of raw tensor."""

_found: dict[type, Any] = {}  # also for subclasses, once looked up
_selected: list[Any] = []
_tables: list[dict[type, Any]] = [_found]


def register_backend_by_tensor_type(tensor_type: type, backend: object) -> None:
    """Registers `backend` for raw tensors of `tensor_type` and its subclasses; None removes the registration.

    >>> class Special(torch.Tensor): ...
    >>> rf.register_backend_by_tensor_type(Special, rf.get_backend_by_raw_tensor_type(torch.Tensor))
    >>> rf.get_backend_by_raw_tensor_type(Special).name
    'torch'
    >>> rf.register_backend_by_tensor_type(Special, None)
    """
    BACKENDS[tensor_type] = backend
    if backend is None:
        del BACKENDS[tensor_type]
    for table in _tables:
        table.clear()


def table_by_type() -> dict[type, Any]:
    """A new cache keyed by type of raw tensor. It is cleared whenever a backend is registered."""
    table: dict[type, Any] = {}
    _tables.append(table)
    return table


def select(backend: object) -> None:
    """Makes `backend` the one that makes new tensors."""
    _selected[:] = [backend]


def selected() -> Any:
    """The backend that makes new tensors."""
    if not _selected:
        raise BackendError("no backend is selected", hint='rf.select_backend("torch")')
    return _selected[0]


def select_backend(name: str) -> None:
    """Selects the backend that makes new tensors: "torch", "numpy", or one that was registered.

    Ops on existing tensors run in the backend of these tensors, whichever is selected.

    >>> rf.select_backend("numpy")
    >>> type(rf.zeros([rf.Dim(3, name="feat")]).raw_tensor).__name__
    'ndarray'
    >>> rf.select_backend("torch")
    """
    backends, name = {backend.name: backend for backend in BACKENDS.values()}, str(name)
    if name in backends:
        return select(backends[name])
    if name in _GRAPHS:
        raise BackendError(
            f"select_backend: {name!r} builds TensorFlow graphs, which rfnb does not support",
            got=name,
            expected=" or ".join(map(repr, backends)),
            hint='rf.select_backend("torch"), which runs the same ops eagerly',
        )
    raise BackendError(
        "select_backend: unknown backend",
        got=repr(name),
        expected=" or ".join(map(repr, backends)),
        hint=did_you_mean(name, backends, most=2, cutoff=0.4),
    )


_GRAPHS = ("tf", "tensorflow", "returnn_layers_tf")


def select_backend_torch() -> None:
    """Makes new tensors torch tensors.

    >>> rf.select_backend_torch()
    >>> rf.ones([rf.Dim(2, name="feat")]).raw_tensor
    tensor([1., 1.])
    """
    select_backend("torch")


def select_backend_numpy() -> None:
    """Makes new tensors numpy arrays.

    >>> rf.select_backend_numpy()
    >>> rf.ones([rf.Dim(2, name="feat")]).raw_tensor
    array([1., 1.], dtype=float32)
    >>> rf.select_backend_torch()
    """
    select_backend("numpy")


def select_backend_tf() -> None:
    """Raises BackendError: rfnb has no TensorFlow backend.

    >>> rf.select_backend_tf()
    Traceback (most recent call last):
    rfnb.errors.BackendError: select_backend: 'tf' builds TensorFlow graphs...
    """
    select_backend("tf")


def select_backend_returnn_layers_tf() -> None:
    """Raises BackendError: rfnb has no TensorFlow backend.

    >>> rf.select_backend_returnn_layers_tf()
    Traceback (most recent call last):
    rfnb.errors.BackendError: select_backend: 'returnn_layers_tf' builds TensorFlow graphs...
    """
    select_backend("returnn_layers_tf")


def get_selected_backend() -> str | None:
    """The name of the backend that makes new tensors; None if none is selected.

    >>> rf.get_selected_backend()
    'torch'
    """
    return _selected[0].name if _selected else None


def is_executing_eagerly() -> bool:
    """Whether the selected backend runs ops immediately.

    >>> rf.is_executing_eagerly()
    True
    """
    return bool(selected().executing_eagerly())


def get_raw_tensor_type() -> type:
    """The type of raw tensors that the selected backend makes.

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.get_raw_tensor_type() is torch.Tensor, isinstance(rf.ones([feat]).raw_tensor, rf.get_raw_tensor_type())
    (True, True)
    """
    return selected().RawTensorType


def is_backend_raw_tensor_dim_tag_independent() -> bool:
    """Whether raw tensors of the selected backend carry no Dims.

    >>> rf.is_backend_raw_tensor_dim_tag_independent()
    True
    """
    return bool(selected().is_backend_raw_tensor_dim_tag_independent)


def get_backend_by_tensor(tensor: Any, *, fallback: object = None) -> Any:
    """The backend of a Tensor; for one without data (a template), `fallback` if it is given.

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.get_backend_by_tensor(rf.ones([feat])).name
    'torch'
    >>> rf.get_backend_by_tensor(rf.Tensor("x", [feat], "float32"), fallback="no data")
    'no data'
    """
    try:
        return backend_of_raw(tensor._raw)
    except BackendError:
        if fallback is None:
            raise
        return fallback


def get_backend_by_raw_tensor_type(tensor_type: type) -> Any:
    """The backend registered for `tensor_type` or the nearest of its bases.

    >>> rf.get_backend_by_raw_tensor_type(torch.nn.Parameter).name, rf.get_backend_by_raw_tensor_type(np.ndarray).name
    ('torch', 'numpy')

    Raises BackendError if no backend is registered for it.
    """
    for base in tensor_type.__mro__:
        if base in BACKENDS:
            _found[tensor_type] = BACKENDS[base]
            return BACKENDS[base]
    raise BackendError(
        "there is no backend for this raw tensor",
        got=tensor_type.__name__,
        expected=" or ".join(t.__name__ for t in BACKENDS),
        hint="rf.register_backend_by_tensor_type(type, backend) adds raw tensors of your own type",
    )


def backend_of_data(value: object) -> Any:
    """The backend that makes a tensor from `value`: that of a raw tensor, or the selected one for all other data.

    Numpy arrays are data for any backend.
    """
    for base in type(value).__mro__:
        if base in BACKENDS and base is not np.ndarray:
            return BACKENDS[base]
    return selected()


def backend_of_raw(raw: object) -> Any:
    """The backend of a raw tensor."""
    backend = _found.get(type(raw))
    if backend is not None:
        return backend
    if hasattr(raw, "no_backend"):
        raise raw.no_backend()
    return get_backend_by_raw_tensor_type(type(raw))
