"""Every public name has an example that runs (as a doctest), and completion offers public names only."""

from __future__ import annotations

import doctest
import functools
import inspect
import operator
import re
import sys
import types

import pytest

import rfnb as rf

NAMESPACES = [
    name
    for name in "audio check distributed errors examples hooks init integrations nested page search when".split()
    if hasattr(rf, name)
]
MODELS = ["encoder", "decoder", *(f"encoder.{name}" for name in "conformer e_branchformer transformer".split())]
MODELS += ["decoder.transformer"]
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


def test_a_public_name_says_what_it_is_with_an_example():
    parts = {name: (value.__doc__ or "").partition(">>> ") for name, value in NAMES.items()}
    assert len(parts) > 600
    assert [name for name, (words, sign, _) in parts.items() if not (words.strip() and sign)] == []


def test_the_example_of_a_public_name_is_found_by_doctest():
    homes = {value.__module__ for value in NAMES.values()}
    found = {test.docstring for home in homes for test in doctest.DocTestFinder().find(sys.modules[home])}
    properties = functools.cached_property  # pytest looks into them, though doctest does not
    names = (name for name in NAMES if not isinstance(NAMES[name], properties) and name.split(".")[0] not in SAYS_IT)
    assert not [name for name in names if NAMES[name].__doc__ not in found]


def takes_tensors(value):
    """Whether a function, or the call of a module, has a parameter that is a Tensor."""
    call = getattr(value, "__call__", None) if inspect.isclass(value) else value  # noqa: B004, of its objects
    if not inspect.isroutine(call) or isinstance(call, functools.cached_property):
        return False
    annotations = (str(parameter.annotation) for parameter in inspect.signature(call).parameters.values())
    return any(re.search(r"\b(Tensor|Value)\b", annotation) for annotation in annotations)


def test_the_example_of_what_takes_tensors_has_dims():
    documents = {name: value.__doc__ for name, value in NAMES.items() if takes_tensors(value)}
    examples = {name: "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", text, re.M)) for name, text in documents.items()}
    assert len(examples) > 250
    assert [name for name, lines in examples.items() if not re.search(r"\bDim\(|\bdims=|_dim\b", lines)] == []


def test_completion_of_rf_has_public_names_only():
    names = [name for name in dir(rf) if not name.startswith("__")]
    assert not [name for name in names if name[0] == "_"]
    modules = {name for name in names if isinstance(getattr(rf, name), types.ModuleType)}
    assert modules == {*NAMESPACES, "encoder", "decoder"}
    assert {"Tensor", "Linear", "progress", "runs", "options"} <= set(names)


@pytest.mark.parametrize("space", [*NAMESPACES, *MODELS])
def test_completion_of_a_namespace_has_its_own_names_only(space):
    module = operator.attrgetter(space)(rf)
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("__"):
            continue
        assert name[0] != "_" and name in getattr(module, "__all__", [name])
        assert getattr(value, "__module__", None) or isinstance(value, types.ModuleType)
        assert (getattr(value, "__module__", None) or value.__name__).startswith("rfnb")
