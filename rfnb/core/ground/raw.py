"""Which backend a raw tensor belongs to, and which makes new ones. Backends register here; core imports none."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import BackendError

BACKENDS: dict[type, Any] = {}
"""By type of raw tensor, as they were registered."""

_found: dict[type, Any] = {}  # subclasses as well, once they were seen
_selected: list[Any] = []
_tables: list[dict[type, Any]] = [_found]


def register_backend_by_tensor_type(tensor_type: type, backend: Any) -> None:
    """Raw tensors of `tensor_type`, and of its subclasses, are handled by `backend` from now on; None: by none.

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
    """An empty table of what belongs to a type of raw tensors. It is emptied when a backend is registered."""
    table: dict[type, Any] = {}
    _tables.append(table)
    return table


def select(backend: Any) -> None:
    """`backend` makes the tensors that are not made from other tensors."""
    _selected[:] = [backend]


def selected() -> Any:
    """The backend that makes new tensors."""
    if not _selected:
        raise BackendError("no backend is selected", hint='rf.select_backend("torch")')
    return _selected[0]


def select_backend(name: str) -> None:
    """New tensors are made by the backend `name`: "torch", "numpy", or one that was registered.

    Ops on tensors that exist are done by the backend of these tensors, whatever is selected.

    >>> rf.select_backend("numpy")
    >>> type(rf.zeros([rf.Dim(3, name="feat")]).raw_tensor).__name__
    'ndarray'
    >>> rf.select_backend("torch")
    """
    known = {backend.name: backend for backend in BACKENDS.values()}
    if name in known:
        return select(known[name])
    if name in _GRAPHS:
        raise BackendError(
            f"select_backend: {name!r} builds graphs of TensorFlow, and there is no such backend here",
            got=name,
            expected=" or ".join(map(repr, known)),
            hint='rf.select_backend("torch"), which does the same ops at once',
        )
    raise BackendError(
        "select_backend: there is no such backend",
        got=repr(name),
        expected=" or ".join(map(repr, known)),
        hint=did_you_mean(name, known, most=2, cutoff=0.4),
    )


_GRAPHS = ("tf", "tensorflow", "returnn_layers_tf")


def select_backend_torch() -> None:
    """New tensors are torch tensors.

    >>> rf.select_backend_torch()
    >>> rf.ones([rf.Dim(2, name="feat")]).raw_tensor
    tensor([1., 1.])
    """
    select_backend("torch")


def select_backend_numpy() -> None:
    """New tensors are numpy arrays.

    >>> rf.select_backend_numpy()
    >>> rf.ones([rf.Dim(2, name="feat")]).raw_tensor
    array([1., 1.], dtype=float32)
    >>> rf.select_backend_torch()
    """
    select_backend("numpy")


def select_backend_tf() -> None:
    """Raises BackendError: there is no backend of TensorFlow.

    >>> rf.select_backend_tf()
    Traceback (most recent call last):
    rfnb.errors.BackendError: select_backend: 'tf' builds graphs of TensorFlow...
    """
    select_backend("tf")


def select_backend_returnn_layers_tf() -> None:
    """Raises BackendError: there is no backend of TensorFlow.

    >>> rf.select_backend_returnn_layers_tf()
    Traceback (most recent call last):
    rfnb.errors.BackendError: select_backend: 'returnn_layers_tf' builds graphs of TensorFlow...
    """
    select_backend("returnn_layers_tf")


def get_selected_backend() -> str | None:
    """The name of the backend that makes new tensors; None if there is none.

    >>> rf.get_selected_backend()
    'torch'
    """
    return _selected[0].name if _selected else None


def is_executing_eagerly() -> bool:
    """Whether the selected backend does ops at once.

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
    """Whether raw tensors of the selected backend know nothing of Dims.

    >>> rf.is_backend_raw_tensor_dim_tag_independent()
    True
    """
    return bool(selected().is_backend_raw_tensor_dim_tag_independent)


def get_backend_by_tensor(tensor: Any, *, fallback: Any = None) -> Any:
    """The backend of a Tensor; `fallback`, if given, where there is none: for a template, which has no data.

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

    Raises BackendError if there is none.
    """
    for base in tensor_type.__mro__:
        if base in BACKENDS:
            _found[tensor_type] = BACKENDS[base]
            return BACKENDS[base]
    raise BackendError(
        "there is no backend for this raw tensor",
        got=tensor_type.__name__,
        expected=" or ".join(t.__name__ for t in BACKENDS),
        hint="rf.register_backend_by_tensor_type(type, backend) for raw tensors of your own",
    )


def backend_of_data(value: Any) -> Any:
    """What makes a tensor of `value`: its own backend if it is a raw tensor, but numpy arrays are data for any."""
    registered = next((base for base in type(value).__mro__ if base in BACKENDS), np.ndarray)
    return selected() if registered is np.ndarray else BACKENDS[registered]


def backend_of_raw(raw: Any) -> Any:
    """The backend of a raw tensor."""
    backend = _found.get(type(raw))
    return backend if backend is not None else get_backend_by_raw_tensor_type(type(raw))
