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


@pytest.mark.parametrize("kind", [rf.ModuleList, rf.Sequential])
def test_a_slice_is_replaced_and_numbered_anew(kind):
    parts = [rf.Linear(DIMS[0], DIMS[0]) for _ in range(4)]
    modules = kind(parts)
    kept = modules[:]
    del modules[2:]
    assert len(modules) == 2
    modules[:] = kept
    assert [name for name, _ in modules.items()] == ["0", "1", "2", "3"] and list(modules) == parts
    assert [name for name, _ in modules.named_children()] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("at", "count"),
    [
        *[(slice(None), 5), (slice(None), 0), (slice(1, 2), 3), (slice(1, 3), 0), (slice(2, None), 1)],
        *[(slice(0, 0), 2), (slice(9, None), 1), (slice(None, None, 2), 2), (slice(None, None, -1), 4)],
    ],
    ids=str,
)
def test_a_slice_is_replaced_as_in_a_list(at, count):
    old, new = ([rf.Linear(DIMS[0], DIMS[0]) for _ in range(n)] for n in (4, count))
    modules, expected = rf.ModuleList(old), list(old)
    modules[at] = (part for part in new)
    expected[at] = new
    assert list(modules) == expected
    assert [name for name, _ in modules.items()] == [str(i) for i in range(len(expected))]


def test_names_from_a_dict_stay_where_a_slice_is_replaced(layers):
    named = rf.ModuleList({"a": layers[0], "b": layers[2], "c": layers[0]})
    named[:2] = [layers[2], layers[0]]
    assert [(name, part) for name, part in named.items()] == [("a", layers[2]), ("b", layers[0]), ("c", layers[0])]
    named[1:2] = []
    assert [name for name, _ in named.items()] == ["a", "c"]
    named[:1] = [layers[0], layers[2]]
    assert [name for name, _ in named.items()] == ["0", "1", "c"]


@pytest.mark.parametrize(
    ("at", "parts", "words"),
    [
        (slice(None, None, 2), [rf.relu], "different number"),
        (slice(None), [rf.relu, None], "not a module"),
        (slice(None), None, "not a list"),
        (slice(0, 1), rf.Linear(DIMS[0], DIMS[1]), r"(?s)not a list.*Linear.*\[module\]"),
    ],
    ids=["different number", "not a module", "None", "a module"],
)
def test_a_slice_that_cannot_be_replaced_stays_as_it_was(layers, at, parts, words):
    modules = rf.ModuleList(layers)
    before = modules.items()
    with pytest.raises(rf.errors.ParameterError, match=words):
        modules[at] = parts
    assert modules.items() == before


@pytest.mark.parametrize("wrong", [None, 3, torch.zeros(2)], ids=str)
def test_what_is_not_a_module_is_not_in_a_list_of_modules(wrong):
    for make in (
        lambda: rf.ModuleList([wrong]),
        lambda: rf.Sequential(rf.relu, wrong),
        lambda: rf.ModuleList().append(wrong),
        lambda: rf.Functional(wrong),
        lambda: rf.sequential(rf.zeros([]), wrong),
    ):
        with pytest.raises(rf.errors.ParameterError, match="not a module"):
            make()


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
    kept = module.scales[:]
    del module.scales[1:]
    module.scales[:] = kept
    assert [name for name, _ in module.scales.items()] == ["0", "1", "2"]
    with pytest.raises(rf.errors.ParameterError, match="not a Parameter"):
        module.scales[:1] = [rf.zeros([])]
    assert len(rf.ParameterList()) == 0


def test_extending_by_itself_ends(layers):
    modules = rf.ModuleList(layers)
    modules.extend(modules)
    assert len(modules) == 6


def test_a_layer_that_needs_more_arguments_says_so():
    class Two(rf.Module):
        def __call__(self, x, y):
            return x + y

    feat, time = rf.Dim(4, name="feat"), rf.Dim(3, name="time")
    x = rf.zeros([time, feat])
    with pytest.raises(TypeError, match=r"^LSTM\(\) needs `state`"):
        rf.Sequential(rf.LSTM(feat, feat))(x)
    with pytest.raises(TypeError, match=r"__call__\(\) missing 1 required positional argument: 'y'"):
        rf.Sequential(Two())(x)
