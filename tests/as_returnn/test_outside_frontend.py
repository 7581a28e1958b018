"""Helpers besides the frontend. The values of the curve are those of the reference."""

from __future__ import annotations

import sys

import pytest

import rfnb as rf
from rfnb.as_returnn import outside_frontend
from rfnb.as_returnn.outside_frontend import ForwardCallbackIface, PiecewiseLinear, ceil_div, log, prod


def test_a_curve_of_numbers():
    curve = PiecewiseLinear({10: 3.0, 0: 1.0, 20: 2.0})
    assert [curve(x) for x in (-5, 0, 5, 10, 15, 99)] == [1.0, 1.0, 2.0, 3.0, 2.5, 2.0]
    assert PiecewiseLinear({4: 7})(1) == PiecewiseLinear({4: 7})(4) == 7


def test_the_argument_of_a_curve_may_have_a_name():
    curve = PiecewiseLinear({0: 1.0, 10: 3.0}, kw_name="step", ignore_other_kwargs=True)
    assert curve(step=5, epoch=2) == 2.0
    for wrong in [{"epoch": 2}, {}]:
        with pytest.raises(TypeError, match="step=…"):
            curve(**wrong)
    with pytest.raises(TypeError, match="one number"):
        PiecewiseLinear({0: 1.0})(1, epoch=2)
    with pytest.raises(rf.errors.ParameterError, match="no points"):
        PiecewiseLinear({})


def test_the_log_and_small_functions(capsys):
    feat = rf.Dim(3, name="feat")
    assert (ceil_div(5, 2), ceil_div(4, 2), prod([2, 3]), prod([])) == (3, 2, 6, 1)
    assert prod([2, feat]) == 2 * feat
    print("epoch 1", file=log.v3)
    assert capsys.readouterr().out == "epoch 1\n" and log.v5 is sys.stdout


def test_the_interface_of_a_forward_pass():
    class Lengths(ForwardCallbackIface):
        def init(self, *, model):
            self.found = {}

        def process_seq(self, *, seq_tag, outputs):
            self.found[seq_tag] = outputs["labels"].dims[0].get_dim_value()

    callback = Lengths()
    callback.init(model=None)
    callback.process_seq(seq_tag="a", outputs=rf.TensorDict({"labels": rf.zeros([rf.Dim(3, name="time")])}))
    callback.finish()
    assert callback.found == {"a": 3}


def test_the_name_of_the_user_is_a_text_even_if_there_is_none(monkeypatch):
    assert outside_frontend.get_login_username()

    def unknown():
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert outside_frontend.get_login_username().isdigit()


def test_the_global_backend_is_the_one_that_is_selected():
    rf.select_backend("numpy")
    names = [outside_frontend.global_backend.name]
    rf.select_backend("torch")
    assert [*names, outside_frontend.global_backend.name] == ["numpy", "torch"]


def test_a_class_is_found_by_its_name():
    assert outside_frontend._get_cls("returnn.frontend.Linear") is rf.Linear
    assert outside_frontend._get_cls("rf.relu") is rf.relu
    with pytest.raises(rf.errors.ParameterError, match="cannot be found"):
        outside_frontend._get_cls("rf.Nothing")


def test_rotary_positions_turn_pairs_of_neighbours():
    time, feat = rf.Dim(3, name="time"), rf.Dim(4, name="feat")
    x = rf.convert_to_tensor([[0.0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]], dims=[time, feat])
    angles = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat)
    turned = outside_frontend._apply_rope(x, angles, feat)
    rows = [0, 1, 2, 3, -3.250821, 11.594487, 9.998900, 11.001000, -22.116407, 7.474259, 17.996201, 19.003599]
    assert turned.dims == (time, feat)
    assert turned.raw_tensor.flatten().tolist() == pytest.approx(rows, abs=1e-4)
