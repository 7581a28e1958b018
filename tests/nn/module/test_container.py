"""Lists of modules."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

DIMS = [rf.Dim(n, name=f"hidden{n}") for n in (3, 4, 5)]


@pytest.fixture
def layers():
    return [rf.Linear(DIMS[0], DIMS[1]), rf.relu, rf.Linear(DIMS[1], DIMS[2])]


@pytest.fixture
def x():
    return rf.random_normal([DIMS[0]], seed=1)


def test_sequential_does_one_after_the_other(layers, x):
    expected = layers[2](rf.relu(layers[0](x)))
    outputs = {}
    y = rf.Sequential(*layers)(x, collected_outputs=outputs)
    assert torch.equal(y.raw_tensor, expected.raw_tensor)
    assert list(outputs) == ["0", "1", "2"]
    assert torch.equal(rf.sequential(x, *layers).raw_tensor, expected.raw_tensor)


def test_names_are_numbers(layers):
    names = [name for name, _ in rf.Sequential(layers).named_parameters()]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_names_are_the_keys_of_a_dict(layers):
    named = rf.Sequential({"a": layers[0], "b": layers[1]})
    assert [name for name, _ in named.named_parameters()] == ["a.weight", "a.bias"]
    assert named["a"] is layers[0]


def test_list_access(layers):
    modules = rf.ModuleList(layers[0])
    modules.append(layers[1])
    modules.extend(layers[2:])
    assert len(modules) == 3
    assert list(modules)[::2] == [layers[0], layers[2]]
    assert modules[-1] is layers[2]
    assert isinstance(modules[1], rf.Functional)
    assert list(modules[1:]) == list(modules)[1:]
    modules[0] = layers[2]
    assert modules[0] is layers[2]


def test_a_module_twice_is_called_twice(x):
    double = rf.Functional(lambda x: x * 2)
    y = rf.Sequential(double, double)(x)
    assert torch.allclose(y.raw_tensor, x.raw_tensor * 4)
    assert len(list(rf.Sequential(double, double).children())) == 1


def test_what_is_behind_a_deleted_module_moves_up(layers):
    modules = rf.ModuleList(layers)
    del modules[0]
    assert [name for name, _ in modules.items()] == ["0", "1"]
    assert modules[1] is layers[2]
    del modules[:]
    assert len(modules) == 0
    named = rf.ModuleList({"a": layers[0], "b": layers[1]})
    del named[-2]
    assert [name for name, _ in named.items()] == ["b"]


def parameters():
    return [rf.Parameter([dim]) for dim in DIMS]


@pytest.mark.parametrize("how", [list, tuple, iter, lambda ps: rf.ParameterList(*ps), lambda ps: (p for p in ps)])
def test_a_list_of_parameters(how):
    ps = parameters()
    listed = rf.ParameterList(how(ps))
    assert list(listed) == ps
    assert [name for name, _ in listed.named_parameters()] == ["0", "1", "2"]
    assert isinstance(listed[:2], rf.ParameterList)
    assert listed[-1] is ps[2]


def test_a_list_of_parameters_changes_and_is_part_of_a_module():
    first, second, third = parameters()
    module = rf.Module()
    module.scales = rf.ParameterList(first)
    module.scales.append(second)
    module.scales.extend([third])
    module.scales[0] = third
    assert [name for name, _ in module.named_parameters()] == ["scales.0", "scales.1"]  # the third is there once
    assert [name for name, _ in rf.ParameterList({"a": first}).named_parameters()] == ["a"]
    with pytest.raises(rf.errors.ParameterError, match="not a Parameter"):
        module.scales.append(rf.zeros([]))
    assert len(module.scales) == 3
    assert len(rf.ParameterList()) == 0


def test_extending_by_itself_ends(layers):
    modules = rf.ModuleList(layers)
    modules.extend(modules)
    assert len(modules) == 6
