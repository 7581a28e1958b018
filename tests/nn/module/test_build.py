"""Modules from dicts: what may be named, and what not."""

from __future__ import annotations

import functools
import json
import sys
from types import ModuleType

import pytest
import torch

import rfnb as rf

INP, OUT = rf.Dim(3, name="in"), rf.Dim(2, name="out")
HERE = __name__


class Linear(rf.Module):
    """Not that of rf."""


class _Hidden(rf.Module):
    """Not for others."""


class Mine(rf.Module):
    """A module of the user."""

    class Inner(rf.Module):
        """One in its namespace."""

    def __init__(self, dim, *, scale=1.0):
        self.dim = dim
        self.scale = scale


def clipped(x: rf.Tensor, limit: float = 1.0) -> rf.Tensor:
    """An activation of the user."""
    return rf.clip_by_value(x, -limit, limit)


def untold(x):
    """Does not say what it gives."""
    return x


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rf.Linear", rf.Linear),
        ("rfnb.Linear", rf.Linear),
        ("Linear", rf.Linear),
        ("returnn.frontend.Linear", rf.Linear),
        ("returnn.frontend.linear.Linear", rf.Linear),
        ("rf.linear.Linear", rf.Linear),
    ],
)
def test_names_of_the_public_namespace(name, expected):
    made = rf.build_from_dict({"class": name, "with_bias": False}, INP, OUT)
    assert type(made) is expected and made.bias is None and made.weight.dims == (INP, OUT)


def test_namespaces_below():
    made = rf.build_from_dict({"class": "returnn.frontend.init.Normal", "stddev": 2.0})
    assert isinstance(made, rf.init.Normal) and made.stddev == 2.0
    assert rf.build_dict(rf.init.Glorot) == {"class": "rfnb.nn.init.Glorot"}
    assert isinstance(rf.build_from_dict(rf.build_dict(rf.init.Glorot)), rf.init.Glorot)


ARGS = {rf.Linear: [INP, OUT], rf.Conv1d: [INP, OUT], rf.BatchNorm: [INP], Mine: [INP]}


@pytest.mark.parametrize("cls", [*ARGS, rf.Sequential, Linear, Mine.Inner, rf.init.He])
def test_there_and_back(cls):
    described = json.loads(json.dumps(rf.build_dict(cls)))
    options = {"padding": "same", "filter_size": 3} if cls is rf.Conv1d else {}
    assert type(rf.build_from_dict(described, *ARGS.get(cls, []), **options)) is cls


def test_a_module_of_the_user():
    described = rf.build_dict(Mine, scale=2.0)
    assert described == {"class": f"{HERE}.Mine", "scale": 2.0}
    assert rf.build_from_dict(described, INP).scale == 2.0
    assert described == {"class": f"{HERE}.Mine", "scale": 2.0}
    assert rf.build_from_dict({"class": Mine}, INP).dim is INP


def test_functions_are_not_called():
    assert rf.build_from_dict(rf.build_dict(rf.relu)) is rf.relu
    found = rf.build_from_dict(rf.build_dict(clipped, limit=0.5))
    assert isinstance(found, functools.partial)
    assert found(rf.convert_to_tensor(3.0)).item() == 0.5
    assert rf.build_from_dict({"class": clipped}, rf.convert_to_tensor(3.0))().item() == 1.0
    layers = rf.Sequential(rf.build_from_dict({"class": "rf.gelu"}))
    assert torch.isfinite(layers(rf.ones([INP])).raw_tensor).all()


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "builtins.exec",
        "subprocess.Popen",
        "pickle.loads",
        "torch.load",
        "torch.nn.Linear",
        "rf.os.system",
        "rf.save_checkpoint",
        "rfnb._sys.exit",
        "rf.Module.__subclasses__",
        "rf.__loader__",
        "rfnb.nn.module.build.sys.exit",
        "rfnb.nn.module.build.functools.partial",
        "this.Module",
        "secret_of_the_test.Module",
        f"{HERE}.untold",
        f"{HERE}._Hidden",
        f"{HERE}.torch.nn.Linear",
        "rf",
        "rf.",
        "",
        ".",
        "rf.batch_dim",
        "rf.Tensor",
        "rf.TensorDict",
    ],
)
def test_what_is_not_meant_is_neither_imported_nor_called(name, monkeypatch):
    asked = []

    def compute(attribute):
        asked.append(attribute)
        raise AttributeError(attribute)

    secret = ModuleType("secret_of_the_test")
    secret.__dict__["__getattr__"] = compute
    monkeypatch.setitem(sys.modules, "secret_of_the_test", secret)
    assert dir(rf) and rf.save_checkpoint  # imports what rfnb imports when its names are asked for
    before = set(sys.modules)
    with pytest.raises(rf.errors.ParameterError, match=r"cannot be found|cannot be built"):
        rf.build_from_dict({"class": name}, "true")
    assert set(sys.modules) == before and "Module" not in asked


@pytest.mark.parametrize(
    ("d", "message"),
    [
        ({}, "a dict with a 'class'"),
        ("rf.Linear", "a dict with a 'class'"),
        (["class"], "a dict with a 'class'"),
        ({"class": 3}, "cannot be built"),
        ({"class": "rf.Lineer"}, "did you mean 'rf.Linear'"),
        ({"class": "my_models.Encoderish"}, "import my_models first"),
        ({"class": "rf.Linear", "with_bias": True}, "'with_bias' is given twice"),
    ],
)
def test_what_is_wrong_is_told(d, message):
    with pytest.raises(rf.errors.ParameterError, match=message):
        rf.build_from_dict(d, INP, OUT, with_bias=False)


def test_only_what_is_not_there_is_to_be_imported():
    with pytest.raises(rf.errors.ParameterError) as error:
        rf.build_from_dict({"class": f"{HERE}.Encoderish"})
    assert "hint" not in str(error.value)


def test_a_module_is_found_despite_another_thing_of_its_name(monkeypatch):
    package, module = ModuleType("package_of_the_test"), ModuleType("package_of_the_test.models")
    package.models, module.Mine = print, Mine
    for made in package, module:
        monkeypatch.setitem(sys.modules, made.__name__, made)
    assert type(rf.build_from_dict({"class": "package_of_the_test.models.Mine"}, INP)) is Mine


@pytest.mark.parametrize("what", ["rf.Linear", 3, torch.nn.ReLU, untold, len, rf.Linear(INP, OUT)])
def test_no_dict_for_what_could_not_be_built(what):
    with pytest.raises(rf.errors.ParameterError, match="build_dict"):
        rf.build_dict(what)
