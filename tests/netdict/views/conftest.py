"""Colours are given out anew in each test, as in those of the other views."""

from tests.display.conftest import _colours_from_the_start  # noqa: F401
