"""Initial values by the names that net dicts use."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError
from rfnb.netdict.layers.activations import initial_values


def drawn(given, rows=60, columns=50):
    parameter = rf.Parameter([rf.Dim(rows, name="in"), rf.Dim(columns, name="out")], initial=initial_values(given))
    return parameter.raw_tensor.detach().numpy()


@pytest.mark.parametrize(("rows", "columns"), [(60, 50), (50, 60)])
def test_orthogonal(rows, columns):
    w = drawn("orthogonal", rows, columns)
    product = w.T @ w if rows > columns else w @ w.T
    np.testing.assert_allclose(product, np.eye(50), atol=1e-5)


def test_identity():
    np.testing.assert_array_equal(drawn("identity"), np.eye(60, 50))


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        ("random_uniform_initializer(minval=-0.3, maxval=0.3)", 0.3 / np.sqrt(3)),
        ("random_normal_initializer(mean=0.0, stddev=0.2)", 0.2),
        ({"class": "RandomNormal", "stddev": 0.2}, 0.2),
        ("glorot_uniform", np.sqrt(2 / 110)),
        ("xavier", np.sqrt(2 / 110)),
        ("variance_scaling_initializer(mode='fan_in', distribution='uniform', scale=0.78)", np.sqrt(0.78 / 60)),
        ({"class": "VarianceScaling", "mode": "fan_in", "distribution": "uniform", "scale": 0.78}, np.sqrt(0.78 / 60)),
    ],
)
def test_the_spread_of_random_values(given, spread):
    w = drawn(given)
    assert abs(w.std() - spread) < spread * 0.1
    assert abs(w.mean()) < spread * 0.1


@pytest.mark.parametrize(("given", "number"), [(0.5, 0.5), ("zeros", 0), ("ones", 1), (None, 0)])
def test_numbers(given, number):
    assert (drawn(given) == number).all()


def test_the_mean_of_a_normal_distribution():
    assert abs(drawn("random_normal_initializer(mean=2.0, stddev=0.1)").mean() - 2) < 0.05


@pytest.mark.parametrize("given", ["nothing", "random_normal_initializer(stddev=open('x'))", [1], {"class": "x"}])
def test_what_is_not_known_is_an_error(given):
    with pytest.raises(NetworkError):
        initial_values(given)
