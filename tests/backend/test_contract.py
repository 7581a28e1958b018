"""The contract of a backend: its members with the names of their parameters are frozen in `contract.json`.

A row is {name: parameters}; those behind "*" or a starred one are given by name. A backend may take more, which have
to be optional.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground import backends
from rfnb.errors import BackendError, DimError, DtypeError

CONTRACT = json.loads((Path(__file__).parent / "contract.json").read_text())
MEMBERS: dict[str, list[str]] = CONTRACT["members"]
BACKENDS = {backend.name: backend for backend in backends.BACKENDS.values()}
NOT_IN_NUMPY = {"set_random_seed", "get_random_state", "set_random_state"}  # it draws no random numbers


def fits(function: object, expected: list[str]) -> bool:
    """Whether it can be called with what the row says: those in order, then those by name."""
    parameters = inspect.signature(function).parameters
    before = [name for name in expected[: _first_by_name(expected)] if name != "*"]
    by_name = [name for name in expected[len(before) :] if name != "*"]
    in_order = [p for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
    shown = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in in_order]
    more = [p for name, p in parameters.items() if name not in expected and f"*{name}" not in expected]
    return (
        shown[: len(before)] == before
        and all(name in parameters for name in by_name)
        and all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in more)
    )


def _first_by_name(expected: list[str]) -> int:
    starred = [i for i, name in enumerate(expected) if name.startswith("*")]
    return starred[0] + 1 if starred else len(expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_has_the_members_of_the_contract(backend):
    missing = NOT_IN_NUMPY if backend == "numpy" else set()
    functions = {name: getattr(BACKENDS[backend], name) for name in MEMBERS}
    for name in missing:
        with pytest.raises(BackendError, match="numpy backend does not support this"):
            functions.pop(name)()
    assert len(functions) > 90
    wrong = {name: inspect.signature(f) for name, f in functions.items() if not fits(f, MEMBERS[name])}
    assert wrong == {}, {name: MEMBERS[name] for name in wrong}


def test_the_base_class_has_or_declares_them():
    declared = {key for family in rf.Backend.__mro__ for key in inspect.get_annotations(family)}
    names = [*CONTRACT["attributes"], *MEMBERS]
    assert [name for name in names if not hasattr(rf.Backend, name) and name not in declared] == []


@pytest.mark.parametrize("name", ["conv", "ctc_loss", "cast", "gradient"])
def test_an_op_made_of_a_method_has_its_parameters_and_text(name):
    function, method = getattr(rf, name), getattr(rf.Backend, name)
    assert inspect.signature(function) == inspect.signature(method)
    assert function.__doc__ == method.__doc__
    assert (function.__name__, function.__module__.split(".")[1]) == (name, "ops")


@pytest.mark.parametrize("name", CONTRACT["functions"])
def test_the_functions_that_find_backends_are_public(name):
    assert fits(getattr(rf, name), CONTRACT["functions"][name])


@pytest.mark.parametrize(
    ("function", "row", "expected"),
    [
        (lambda a, b=1: 0, ["a"], True),
        (lambda a, b: 0, ["a"], False),
        (lambda b, a: 0, ["a", "b"], False),
        (lambda a, *, b: 0, ["a", "*", "b"], True),
        (lambda a, b: 0, ["a", "*", "b"], True),
        (lambda a, *, b: 0, ["a", "b"], False),
        (lambda *a, b: 0, ["*a", "b"], True),
        (lambda a: 0, ["a", "*", "b"], False),
    ],
)
def test_what_fits_a_row(function, row, expected):
    assert fits(function, row) is expected


# -- the small members


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Each of them, selected for this test."""
    rf.select_backend(request.param)
    yield BACKENDS[request.param]
    rf.select_backend_torch()


def test_what_raw_tensors_are(backend):
    raw = backend.full_raw([2, 3], 7, "float32", None)
    assert isinstance(raw, backend.RawTensorType)
    assert backend.get_dtype_name_raw(raw) == "float32"
    assert raw.dtype == backend.as_dtype_raw("float32")
    assert backend.get_ndim_raw(raw) == 2
    assert backend.get_shape_raw(raw) == backend.get_shape_tuple_raw(raw) == backend.get_known_shape_raw(raw) == (2, 3)
    backend.set_known_shape_raw(raw, (None, 3))
    with pytest.raises(DimError, match="a different shape"):
        backend.set_known_shape_raw(raw, (3, 3))
    with pytest.raises(DimError, match="a different shape"):
        backend.set_known_shape_raw(raw, (2, 3, 1))
    dim = backend.get_new_dim_raw(raw, 1, name="new")
    assert (dim.name, dim.dimension) == ("new", 3)


@pytest.mark.parametrize(("value", "dtype"), [(1.5, "float32"), (2, "int64"), (True, "bool")])
def test_fill_raw(backend, value, dtype):
    raw = backend.fill_raw((2, 1), value)
    assert backend.get_dtype_name_raw(raw) == dtype
    np.testing.assert_array_equal(backend.to_numpy_raw(raw), [[value], [value]])


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0], []])
def test_sequence_mask_raw(backend, lengths):
    assert backend.have_sequence_mask_raw()
    raw = backend.from_numpy_raw(np.array(lengths, np.int64))
    mask = backend.to_numpy_raw(backend.sequence_mask_raw(raw))
    longest = max(lengths, default=0)
    np.testing.assert_array_equal(mask, [[i < n for i in range(longest)] for n in lengths] or np.zeros((0, 0), bool))
    np.testing.assert_array_equal(backend.to_numpy_raw(backend.sequence_mask_raw(raw, batch_major=False)), mask.T)


def test_what_only_graphs_need(backend):
    raw = backend.fill_raw((2,), 1.0)
    assert rf.is_executing_eagerly()
    assert rf.get_raw_tensor_type() is backend.RawTensorType
    assert rf.is_backend_raw_tensor_dim_tag_independent()
    with backend.name_scope_raw("name"), backend.control_dependencies_raw([raw]):
        assert backend.identity_with_control_dependencies_raw(raw, [raw]) is raw
    x = rf.Tensor("x", [rf.Dim(2, name="feat")], raw_tensor=raw)
    assert backend.is_valid_in_current_graph(x)
    assert backend.format_graph_output(raw, max_depth=2) is None
    with pytest.raises(BackendError, match="placeholders do not exist"):
        backend.create_placeholder_raw(x.copy_template())
    assert backend.get_device(x) == "cpu"
    assert backend.get_device(x.copy_template()) is None


def test_convert_to_tensor_of_a_backend(backend):
    feat, labels = rf.Dim(2, name="feat"), rf.Dim(5, name="labels")
    x = backend.convert_to_tensor([1, 4], dims=[feat], dtype="int32", sparse_dim=labels, name="x")
    assert (x.dims, x.dtype, x.sparse_dim, x.name) == ((feat,), "int32", labels, "x")
    assert isinstance(x.raw_tensor, backend.RawTensorType)
    assert backend.convert_to_tensor(x, dims=[feat], dtype="int32") is x
    with pytest.raises(DimError, match="does not fit feat"):
        backend.convert_to_tensor([1, 2, 3], dims=[feat], dtype="int32")


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.5), (None, 0), (0.25, None)])
def test_clip_by_value_of_a_backend(backend, low, high):
    feat = rf.Dim(4, name="feat")
    x = rf.convert_to_tensor(np.array([-2.0, -0.5, 0.25, 3.0]), dims=[feat])
    clipped = backend.clip_by_value(x, low, high)
    np.testing.assert_array_equal(clipped.numpy(), np.clip(x.numpy(), low, high))
    bound = rf.convert_to_tensor(0.5)
    np.testing.assert_array_equal(backend.clip_by_value(x, bound, None).numpy(), np.maximum(x.numpy(), 0.5))


def test_runtime_sanity_checks(backend):
    time, labels = rf.Dim(None, name="time"), rf.Dim(3, name="labels")
    raw = np.array([[0, 2, 1], [1, 99, 99]])
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=labels, lengths=[3, 1])
    backend.runtime_sanity_checks(x)
    with pytest.raises(DimError, match="outside labels"):
        backend.runtime_sanity_checks(x.like(backend.from_numpy_raw(raw + 1)))
    with pytest.raises(DimError, match="a different shape"):
        backend.runtime_sanity_checks(x.like(backend.from_numpy_raw(raw[:, :2])))
    with pytest.raises(DtypeError, match="must be integers"):
        backend.runtime_sanity_checks(x.like(backend.from_numpy_raw(raw * 1.0)))


def test_parameters(backend):
    feat = rf.Dim(3, name="feat")
    parameter = rf.Parameter([feat], dtype="float64", initial=2.0)
    assert isinstance(parameter.raw_tensor, backend.RawTensorType)
    parameter.assign_add(rf.range_over_dim(feat, dtype="float64"))
    np.testing.assert_array_equal(parameter.numpy(), [2, 3, 4])
    assert parameter.dtype == "float64"
    assert parameter.trainable


def test_a_parameter_of_torch_is_one_for_torch():
    assert isinstance(rf.Parameter([rf.Dim(3, name="feat")]).raw_tensor, torch.nn.Parameter)
