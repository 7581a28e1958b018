"""Modules: what belongs to them, under which names, and what happens when they are called."""

from __future__ import annotations

import traceback

import pytest
import torch

import rfnb as rf
from rfnb.core.tensor.listener import Listener, listening
from rfnb.errors import ParameterError


class Counted(rf.Module):
    """A parameter, and a call that adds it."""

    def __init__(self, dim):
        self.dim = dim
        self.offset = rf.Parameter([dim])

    def __call__(self, x):
        return x + self.offset


class Pair(rf.Module):
    """Two modules."""

    def __init__(self, dim):
        self.first = Counted(dim)
        self.second = Counted(dim)

    def __call__(self, x):
        return self.second(self.first(x))


@pytest.fixture
def feat():
    return rf.Dim(3, name="feat")


@pytest.fixture
def x(feat):
    return rf.convert_to_tensor(torch.tensor([1.0, 2.0, 3.0]), dims=[feat])


def test_parameters_have_dotted_names(feat):
    names = dict(Pair(feat).named_parameters())
    assert list(names) == ["first.offset", "second.offset"]
    assert [p.name for p in names.values()] == ["first.offset", "second.offset"]


def test_a_parameter_keeps_the_longest_name_that_was_seen(feat):
    pair = Pair(feat)
    assert pair.first.offset.name == "offset"
    list(pair.parameters())
    list(pair.first.parameters())
    assert pair.first.offset.name == "first.offset"


def test_shared_parts_are_found_once(feat):
    pair = Pair(feat)
    pair.second = pair.first
    pair.again = pair.first.offset
    assert [name for name, _ in pair.named_modules()] == ["", "first"]
    assert [name for name, _ in pair.named_children()] == ["first"]
    assert len(list(pair.parameters())) == 1


def test_a_module_in_itself_is_no_endless_loop(feat):
    pair = Pair(feat)
    pair.first.parent = pair
    assert [name for name, _ in pair.named_modules()] == ["", "first", "second"]


def test_only_the_own_parameters_without_recurse(feat):
    pair = Pair(feat)
    assert list(pair.parameters(recurse=False)) == []
    assert [name for name, _ in pair.first.named_parameters(recurse=False)] == ["offset"]
    assert pair.has_parameters
    assert not rf.Functional(rf.relu).has_parameters


def test_modules_below_and_itself(feat):
    pair = Pair(feat)
    assert list(pair.modules()) == [pair, pair.first, pair.second]
    assert list(pair.modules(include_self=False)) == list(pair.children()) == [pair.first, pair.second]


def test_get_deep_and_set_deep(feat):
    pair = Pair(feat)
    assert pair.get_deep("first.offset") is pair.first.offset
    assert pair.get_deep("") is pair
    other = Counted(feat)
    pair.set_deep("first", other)
    pair.set_deep("second.extra", 3)
    assert (pair.first, pair.second.extra) == (other, 3)
    with pytest.raises(rf.errors.ParameterError, match="did you mean 'offset'"):
        pair.get_deep("first.ofset")


def test_apply_visits_children_first(feat):
    visited = []
    pair = Pair(feat)
    assert pair.apply(visited.append) is pair
    assert visited == [pair.first, pair.second, pair]


def test_apply_visits_what_is_shared_once_and_ends(feat):
    visited = []
    pair = Pair(feat)
    pair.second.shared, pair.first.parent = pair.first, pair
    pair.apply(visited.append)
    assert visited == [pair.first, pair.second, pair]


def test_names_in_lists_and_dicts_of_modules(feat):
    model = rf.Module()
    model.layers = rf.ModuleList(Pair(feat), Counted(feat))
    model.named = rf.ModuleList({"a": Counted(feat)})
    assert model.get_deep("layers.0.second.offset") is model.layers[0].second.offset
    assert model.get_deep("named.a") is model.named["a"]
    other = Counted(feat)
    model.set_deep("layers.0", other)
    assert model.layers[0] is other and len(model.layers) == 2
    assert list(dict(model.named_parameters())) == ["layers.0.offset", "layers.1.offset", "named.a.offset"]
    with pytest.raises(rf.errors.ParameterError, match=r"has no attribute 'layers.7'"):
        model.get_deep("layers.7")
    with pytest.raises(rf.errors.ParameterError, match=r"has no attribute 'lairs'"):
        model.set_deep("lairs.0", other)


def test_names_below_a_prefix_without_those_of_the_memo(feat):
    pair = Pair(feat)
    memo = {id(pair.first)}
    assert [name for name, _ in pair.named_modules(prefix="model", memo=memo)] == ["model", "model.second"]
    assert memo == {id(m) for m in (pair, pair.first, pair.second)}
    assert list(pair.named_modules(memo=memo)) == []
    assert [name for name, _ in pair.named_modules(prefix="m", recurse=False)] == ["m", "m.first", "m.second"]
    assert [name for name, _ in pair.named_modules(recurse=False, include_self=False)] == ["first", "second"]


def test_a_parameter_that_is_shared_has_the_first_name(feat):
    pair = Pair(feat)
    pair.second.offset = pair.first.offset
    assert [name for name, _ in pair.named_parameters()] == ["first.offset"]
    assert pair.second.has_parameters


def test_own_parameters_may_be_set_and_deleted(feat):
    pair = Pair(feat)
    del pair.first
    pair.second.offset = None
    assert not pair.has_parameters and list(pair.children()) == [pair.second]


def test_to_keeps_the_parameter_objects(feat):
    pair = Pair(feat)
    pair.count = rf.Parameter([feat], dtype="int64")
    before = rf.torch_parameters(pair)
    assert pair.to(dtype="float64", device="cpu") is pair
    assert all(a is b for a, b in zip(before, rf.torch_parameters(pair), strict=True))
    assert [p.dtype for p in pair.parameters()] == ["int64", "float64", "float64"]


def test_a_module_called_twice_shares_its_parameters(feat, x):
    module = Counted(feat)
    y = module(module(x))
    rf.reduce_sum(y, axis=feat).raw_tensor.backward()
    assert module.offset.raw_tensor.grad.tolist() == [2.0, 2.0, 2.0]


def test_hooks_see_the_call_and_may_change_the_result(feat, x):
    module, seen = Counted(feat), []
    handle = module.register_forward_hook(lambda *call: seen.append(call))
    last = module.register_forward_hook(lambda module, args, kwargs, result: result * 2)
    first = module.register_forward_hook(lambda module, args, kwargs, result: result + 1, prepend=True)
    assert module(x).raw_tensor.tolist() == [4.0, 6.0, 8.0]
    [(owner, args, kwargs, result)] = seen
    assert (owner, args, kwargs) == (module, (x,), {})
    assert result.raw_tensor.tolist() == [2.0, 3.0, 4.0]
    for h in (handle, last, first, first):
        h.remove()
    assert module(x).raw_tensor.tolist() == [1.0, 2.0, 3.0]
    assert len(seen) == 1


def test_a_hook_for_a_while(feat, x):
    module, seen = Counted(feat), []
    with module.register_forward_hook(lambda *call: seen.append(call)):
        module(x)
    module(x)
    assert len(seen) == 1


class Calls(Listener):
    """Observes calls of modules, not of ops."""

    def __init__(self):
        self.modules = []

    def call_module(self, module, forward, args, kwargs):
        self.modules.append(module)
        return super().call_module(module, forward, args, kwargs)


def test_listeners_see_the_calls_of_modules(feat, x):
    pair, calls = Pair(feat), Calls()
    with listening(calls):
        pair(x)
    assert calls.modules == [pair, pair.first, pair.second]


class More(Counted):
    """Calls what it inherits."""

    def __call__(self, x):
        return super().__call__(x) * 2


def test_a_call_of_the_base_class_is_part_of_the_same_call(feat, x):
    module, calls, seen = More(feat), Calls(), []
    module.register_forward_hook(lambda *call: seen.append(call))
    with listening(calls):
        assert module(x).raw_tensor.tolist() == [2.0, 4.0, 6.0]
    assert calls.modules == [module]
    assert len(seen) == 1


def test_default_initial_state_is_that_of_the_children(feat):
    pair = Pair(feat)
    assert pair.default_initial_state(batch_dims=[]) is None
    pair.rnn = rf.LSTM(feat, rf.Dim(2, name="out"))
    state = pair.default_initial_state(batch_dims=[])
    assert list(state) == ["rnn"]
    assert state.rnn.h.dims == (pair.rnn.out_dim,)


def test_names(feat):
    pair = Pair(feat)
    assert rf.LayerNorm(feat).get_default_name() == "layer_norm"
    assert rf.LSTM(feat, feat).get_default_name() == "lstm"
    assert rf.Functional(rf.relu).get_default_name() == "relu"
    assert pair.name_of(pair.second) == "second"
    assert pair.name_of(Pair(feat)) is None


def test_a_module_without_call_says_so():
    with pytest.raises(NotImplementedError, match="Module has no __call__"):
        rf.Module()()


@pytest.mark.parametrize(
    ("name", "way"),
    {
        "train": "rf.init_train_step_run_ctx()",
        "eval": "rf.init_forward_step_run_ctx()",
        "state_dict": "rf.save(model, path)",
        "cuda": 'model.to(device="cuda")',
        "forward": "a call of the module",
    }.items(),
)
def test_a_method_of_torch_names_what_is_written_here(feat, name, way):
    module = Counted(feat)
    assert not hasattr(module, name)
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    shown = traceback.format_exception_only(error.value)[0]
    assert shown.startswith(f"AttributeError: 'Counted' object has no attribute '{name}' → {way}")


def test_a_device_without_its_name_is_an_error_that_can_be_copied(feat):
    with pytest.raises(rf.errors.ParameterError) as error:
        Counted(feat).to("cpu")
    assert error.value.hint == "to(device='cpu')"


def test_a_call_without_what_it_needs_says_what_that_is(feat, x):
    lstm = rf.LSTM(feat, feat)
    state = r"`state`: that of the last call, or default_initial_state\(batch_dims=\[…\]\)"
    for options, words in (({}, f"{state}; `spatial_dim`: the dim of the frames"), ({"spatial_dim": feat}, state)):
        with pytest.raises(TypeError, match=rf"^LSTM\(\) needs {words}$"):
            lstm(x, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'spatial'"):
        lstm(x, spatial=feat)


def test_repr_is_short_and_names_the_parts(feat):
    assert "first" in repr(Pair(feat))


def test_modules_in_a_plain_list_are_warned_of():
    class Stack(rf.Module):
        def __init__(self):
            self.layers = [rf.Linear(rf.Dim(2, name="a"), rf.Dim(3, name="b"))]

    with pytest.warns(UserWarning, match="ModuleList"):
        Stack()


def test_a_module_of_torch_as_an_attribute_names_the_bridge(feat):
    module = rf.Module()
    with pytest.raises(ParameterError, match=r"(?s)Module\.net is a module of torch.*rf\.from_torch\(net, in_dims"):
        module.net = torch.nn.Linear(3, 3)
    assert "net" not in vars(module)
    module.net = rf.from_torch(torch.nn.Linear(3, 3), in_dims=[..., feat], out_dims=[..., feat])
    assert [name for name, _ in module.named_parameters()] == ["net.weight", "net.bias"]
    with pytest.raises(ParameterError, match=r"(?s)is a module of torch.*other\.rf_module"):
        module.other = rf.to_torch(Counted(feat))
    with pytest.raises(ParameterError, match=r"(?s)is a module of torch.*rf\.from_torch"):
        rf.ModuleList(torch.nn.Linear(3, 3), rf.relu)


def test_a_parameter_of_torch_as_an_attribute_names_ours(feat):
    module, raw = Counted(feat), torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ParameterError, match=r"(?s)Counted\.scale is a parameter of torch.*rf\.Parameter\(\[…\], raw"):
        module.scale = raw
    module.scale = rf.Parameter([feat], raw_tensor=raw)
    assert module.scale.raw_tensor is raw


@pytest.mark.parametrize("kind", ["Tensor", "torch.nn.Parameter", "torch.Tensor", "number"])
def test_a_value_in_the_place_of_a_parameter_says_how_to_set_it(feat, kind):
    module = Counted(feat)
    raw, offset = torch.ones(3), module.offset
    values = {"Tensor": rf.ones([feat]), "torch.nn.Parameter": torch.nn.Parameter(raw), "torch.Tensor": raw}
    value = values.get(kind, 1.0)
    with pytest.raises(ParameterError, match=r"(?s)Counted\.offset is a parameter.*Counted\.offset\.assign\(…\)"):
        module.offset = value
    assert module.offset is offset
    module.offset.assign(value)
    assert offset.raw_tensor.tolist() == [1.0, 1.0, 1.0] and "offset" in dict(module.named_parameters())
    module.offset = None  # as in torch
    assert "offset" not in dict(module.named_parameters())


def test_a_plain_tensor_of_torch_may_be_an_attribute():
    module = rf.Module()
    module.table = torch.ones(3)
    assert not list(module.parameters()) and module.table.sum() == 3


def test_arguments_of_a_module_without_init_are_an_error():
    class Empty(rf.Module):
        pass

    for make in (lambda: Empty(3), lambda: Empty(size=3)):
        with pytest.raises(TypeError, match=r"Empty\(\) takes no arguments"):
            make()


@pytest.mark.parametrize("wrong", [None, torch.nn.Linear(2, 3), "model"], ids=["None", "torch", "str"])
@pytest.mark.parametrize(
    "call",
    [
        rf.torch_parameters,
        lambda module: rf.param_groups(module, weight_decay=0.1),
        lambda module: rf.weight_dropout(module, "weight", drop_prob=0.1),
        lambda module: rf.remove_parametrization(module, "weight"),
        rf.is_parametrized,
        lambda module: rf.to_torch(None if isinstance(module, torch.nn.Module) else module),
        lambda module: rf.from_torch(None if isinstance(module, torch.nn.Module) else module, [...], [...]),
    ],
)
def test_functions_of_modules_say_what_is_not_a_module(call, wrong):
    with pytest.raises(ParameterError, match=r"this is not (an rf\.Module|a torch\.nn\.Module)"):
        call(wrong)


def test_a_hook_or_parametrization_that_is_not_a_function(feat):
    module = Counted(feat)
    with pytest.raises(ParameterError, match="hook must be a function"):
        module.register_forward_hook(None)
    with pytest.raises(ParameterError, match="not a function"):
        rf.register_parametrization(module, "offset", None)
