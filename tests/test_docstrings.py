"""Every public name has an example that runs (as a doctest), and completion offers public names only."""

from __future__ import annotations

import inspect
import types

import pytest

import rfnb as rf

NAMESPACES = [name for name in "audio check distributed errors hooks init nested when".split() if hasattr(rf, name)]
CLASSES = "Tensor Dim TensorDict Parameter Module State Loop Run RunCtx Loss Vocab".split()
SAYS_IT = {"errors"}
"""Namespaces whose names need no example."""


def public_names():
    """By dotted name: functions and classes, also in namespaces, and methods of the main classes."""
    for name in dir(rf):
        value = getattr(rf, name)
        if name[0] != "_" and (inspect.isclass(value) or inspect.isroutine(value)):
            yield name, value
    for space in NAMESPACES:
        for name in dir(getattr(rf, space)):
            value = getattr(getattr(rf, space), name)
            if space not in SAYS_IT and name[0] != "_" and callable(value):
                yield f"{space}.{name}", value
    for owner in CLASSES:
        for name, value in vars(getattr(rf, owner)).items():
            if name[0] != "_" and inspect.isroutine(value):
                yield f"{owner}.{name}", getattr(getattr(rf, owner), name)


NAMES = dict(public_names())


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_says_what_it_is_with_an_example(name):
    words, sign, _ = (NAMES[name].__doc__ or "").partition(">>> ")
    assert words.strip() and sign


def test_completion_of_rf_has_public_names_only():
    names = [name for name in dir(rf) if not name.startswith("__")]
    assert not [name for name in names if name[0] == "_"]
    modules = {name for name in names if isinstance(getattr(rf, name), types.ModuleType)}
    assert modules == {*NAMESPACES, "encoder", "decoder"}
    assert {"Tensor", "Linear", "progress", "runs", "options"} <= set(names)


@pytest.mark.parametrize("space", [*NAMESPACES, "encoder", "decoder"])
def test_completion_of_a_namespace_has_its_own_names_only(space):
    module = getattr(rf, space)
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("__"):
            continue
        assert name[0] != "_"
        assert getattr(value, "__module__", None) or isinstance(value, types.ModuleType)
        assert (getattr(value, "__module__", None) or value.__name__).startswith("rfnb")
