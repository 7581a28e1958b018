"""Which backend: by name, by tensor, by type of raw tensor; and a backend of one's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.backend.numpy import NumpyBackend
from rfnb.backend.torch.backend import TorchBackend
from rfnb.core.ground.backends import BACKENDS
from rfnb.errors import BackendError

FEAT = rf.Dim(3, name="feat")


@pytest.fixture(autouse=True)
def as_before():
    """Registered and selected backends are afterwards what they were."""
    registered = dict(BACKENDS)
    yield
    for kind in [kind for kind in BACKENDS if kind not in registered]:
        rf.register_backend_by_tensor_type(kind, None)
    rf.select_backend_torch()
    assert registered == BACKENDS


@pytest.mark.parametrize(
    ("name", "raw_type"), [("torch", torch.Tensor), ("numpy", np.ndarray), ("torch", torch.nn.Parameter)]
)
def test_select_backend(name, raw_type):
    rf.select_backend(name)
    assert rf.get_selected_backend() == name
    assert issubclass(raw_type, rf.get_raw_tensor_type())
    assert rf.get_backend_by_raw_tensor_type(raw_type).name == name
    made = [rf.zeros([FEAT]), rf.convert_to_tensor(np.zeros(3), dims=[FEAT]), rf.convert_to_tensor(2.0)]
    assert {rf.get_backend_by_tensor(x).name for x in [*made, rf.Parameter([FEAT])]} == {name}


def test_shortcuts_to_select():
    rf.select_backend_numpy()
    assert rf.get_selected_backend() == "numpy"
    rf.select_backend_torch()
    assert rf.get_selected_backend() == "torch"


@pytest.mark.parametrize("name", ["tf", "returnn_layers_tf", "tensorflow"])
def test_backends_of_graphs_say_what_to_use(name):
    with pytest.raises(BackendError, match=r"(?s)TensorFlow.*rf.select_backend\(\"torch\"\)"):
        rf.select_backend(name)
    assert rf.get_selected_backend() == "torch"


@pytest.mark.parametrize("select", [rf.select_backend_tf, rf.select_backend_returnn_layers_tf])
def test_functions_that_select_them_too(select):
    with pytest.raises(BackendError, match="TensorFlow"):
        select()


@pytest.mark.parametrize(("name", "hint"), [("pytorch", "'torch'"), ("nupmy", "'numpy'"), ("jax", None)])
def test_an_unknown_name_gets_the_nearest(name, hint):
    with pytest.raises(BackendError, match="unknown backend") as caught:
        rf.select_backend(name)
    assert caught.value.hint == (hint and f"did you mean {hint}?")
    assert "'torch'" in caught.value.expected


def test_a_tensor_stays_with_its_backend():
    x = rf.convert_to_tensor(np.ones(3), dims=[FEAT])
    rf.select_backend("numpy")
    assert isinstance((x + x).raw_tensor, torch.Tensor)
    assert isinstance(rf.reduce_sum(x, axis=FEAT).raw_tensor, torch.Tensor)
    assert isinstance(rf.convert_to_tensor(torch.ones(3), dims=[FEAT]).raw_tensor, torch.Tensor)
    y = rf.convert_to_tensor(np.ones(3), dims=[FEAT])
    rf.select_backend("torch")
    assert isinstance((y + y).raw_tensor, np.ndarray)
    assert isinstance(rf.reduce_sum(y, axis=FEAT).raw_tensor, np.ndarray)
    assert rf.get_backend_by_tensor(y) is NumpyBackend


def test_tensors_of_two_backends_do_not_mix():
    x = rf.convert_to_tensor(np.ones(3), dims=[FEAT])
    y = x.like(x.numpy())
    with pytest.raises(BackendError, match=r"(?s)different backends are mixed.*convert_to_tensor"):
        y + x


def test_data_is_copied():
    for name in ("torch", "numpy"):
        rf.select_backend(name)
        data = np.ones(3)
        x = rf.convert_to_tensor(data, dims=[FEAT])
        data[0] = 7
        np.testing.assert_array_equal(x.numpy(), [1, 1, 1])


def test_lengths_are_made_for_each_backend():
    time = rf.Dim(None, name="time")
    for name in ("torch", "numpy", "torch"):
        rf.select_backend(name)
        if name == "torch":
            rf.convert_to_tensor(np.zeros((2, 3)), dims=[rf.batch_dim, time], lengths=[3, 1])
        kind = rf.get_raw_tensor_type()
        assert isinstance(time.get_size_tensor().raw_tensor, kind)
        assert isinstance(rf.sequence_mask(time).raw_tensor, kind)


def test_subclasses_are_found_by_their_base():
    class Mine(torch.Tensor):
        pass

    raw = torch.ones(3).as_subclass(Mine)
    assert rf.get_backend_by_raw_tensor_type(Mine) is TorchBackend
    assert rf.get_backend_by_tensor(rf.Tensor("x", [FEAT], raw_tensor=raw)) is TorchBackend
    assert rf.get_backend_by_raw_tensor_type(np.memmap) is NumpyBackend
    rf.register_backend_by_tensor_type(Mine, NumpyBackend)
    assert rf.get_backend_by_raw_tensor_type(Mine) is NumpyBackend


@pytest.mark.parametrize("raw", [[1, 2, 3], "abc", 3])
def test_an_unknown_raw_tensor_names_what_is_registered(raw):
    with pytest.raises(BackendError, match="no backend for this raw tensor") as caught:
        rf.Tensor("x", [FEAT], raw_tensor=raw)
    assert caught.value.got == type(raw).__name__
    assert {"Tensor", "ndarray"} <= set(caught.value.expected.split(" or "))


def test_a_template_has_no_backend():
    template = rf.Tensor("x", [FEAT], "float32")
    assert rf.get_backend_by_tensor(template, fallback=TorchBackend) is TorchBackend
    with pytest.raises(BackendError):
        rf.get_backend_by_tensor(template)


# -- a backend of one's own


class Marked:
    """An array that tells that it went through a backend of its own."""

    def __init__(self, array: np.ndarray):
        self.array = array


class MarkedBackend(rf.Backend):
    name = "marked"
    RawTensorType = Marked

    @staticmethod
    def get_shape_tuple_raw(raw_tensor):
        return raw_tensor.array.shape

    @staticmethod
    def combine_raw(a, kind, b):
        return Marked(NumpyBackend.combine_raw(*[getattr(x, "array", x) for x in (a, kind, b)]))

    @staticmethod
    def activation_raw(raw_tensor, func):
        return Marked(NumpyBackend.activation_raw(raw_tensor.array, func))


def marked() -> rf.Tensor:
    rf.register_backend_by_tensor_type(Marked, MarkedBackend)
    return rf.Tensor("x", [FEAT], raw_tensor=Marked(np.array([1.0, 2.0, 3.0])))


def test_ops_go_to_a_registered_backend():
    x = marked()
    for _ in range(2):  # the second time by the quick form
        np.testing.assert_array_equal((x + x).raw_tensor.array, [2, 4, 6])
        np.testing.assert_array_equal(rf.neg(x).raw_tensor.array, [-1, -2, -3])
    rf.select_backend("marked")
    assert rf.get_selected_backend() == "marked"


def test_what_a_backend_lacks_is_an_error_with_a_way_out():
    with pytest.raises(
        BackendError, match=r"(?s)softmax: the marked backend does not support this.*softmax_raw.*torch"
    ):
        rf.softmax(marked(), axis=FEAT)


def test_a_type_may_change_its_backend():
    class Other(MarkedBackend):
        @staticmethod
        def combine_raw(a, kind, b):
            return Marked(np.zeros(3))

    x = marked()
    np.testing.assert_array_equal((x + x).raw_tensor.array, [2, 4, 6])
    rf.register_backend_by_tensor_type(Marked, Other)
    np.testing.assert_array_equal((x + x).raw_tensor.array, [0, 0, 0])
    rf.register_backend_by_tensor_type(Marked, None)
    with pytest.raises(BackendError, match="no backend for this raw tensor"):
        x + x
