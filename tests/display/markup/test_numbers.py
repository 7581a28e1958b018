"""Short forms of numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from rfnb.display.markup.numbers import bars, plain, real, short, size


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0"), (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-2.5, "-2.5"), (0.12345, "0.123"), (123.456, "123"),
        (99999.5, "100000"), (1e6, "1e6"), (1.5e-7, "1.5e-7"), ("nan", "nan"), ("-inf", "-inf"), (float("nan"), "nan"),
        (True, "true"), (10**12, "1000000000000"), (0.9999, "1"),
    ],
)  # fmt: skip
def test_short(number: object, words: str):
    assert short(number) == words


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_short_is_a_number_close_to_the_number(number: float):
    assert math.isclose(float(short(number)), number, rel_tol=6e-3, abs_tol=1e-300)
    assert len(short(number)) <= 10


@given(st.floats())
def test_plain_and_real_are_inverse(number: float):
    assert real(plain(number)) == number or math.isnan(number)


def test_bars_are_as_long_as_the_values_and_never_fail():
    assert bars([]) == ""
    assert bars([0, 0]) == "▁▁"
    assert bars([1, "nan", 2, "inf"]) == "▄×█×"


def test_size():
    assert [size(n) for n in (0, 1023, 1024, 10**12)] == ["0 B", "1023 B", "1 kB", "931 GB"]
