"""Torch modules as they are: lazy, scripted, compiled; with any arguments and results; and functions that call them."""

import functools
from collections import OrderedDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.parameter import UninitializedParameter

import rfnb as rf
from rfnb.errors import BackendError, ParameterError

nn = torch.nn
SHOWS = (None, "activation", "gradient", "memory")


@dataclass
class Record:
    x: Any
    y: Any = None
    name: str = "record"


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    y: Any = None


class Pair(NamedTuple):
    x: Any
    y: Any


class Attributes:
    def __init__(self, x, y):
        self.x, self.y, self.me = x, y, self


@dataclass
class Output(OrderedDict):
    """A dict and a dataclass at once, as the results of Hugging Face's models."""

    x: Any = None
    y: Any = None
    left_out: Any = None

    def __post_init__(self):
        for name in ("x", "y", "left_out"):
            if getattr(self, name) is not None:
                super().__setitem__(name, getattr(self, name))


KINDS = {
    "dataclass": Record,
    "frozen": Frozen,
    "named tuple": Pair,
    "namespace": lambda x, y: SimpleNamespace(x=x, y=y),
    "plain object": Attributes,
    "output": Output,
    "dict": lambda x, y: {"x": x, "y": y},
}


class Takes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, inputs):
        x = inputs["x"] if isinstance(inputs, dict) else inputs.x
        return self.linear(x)


class Gives(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.linear, self.make = nn.Linear(3, 2), make

    def forward(self, x):
        y = self.linear(x)
        return self.make(y, y * 2)


class Around(nn.Module):
    """Calls a module with such a result, so that it passes between two of them."""

    def __init__(self, make):
        super().__init__()
        self.first, self.second = Gives(make), Takes()
        self.second.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.first(x))


def ops(graph):
    return [node.op for _, node in graph.walk()]


def made(graph):
    """The ops that made the results."""
    return [graph.values[number].node and graph.values[number].node.op for _, number in graph.outputs]


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_and_results_of_any_kind_have_their_rows(kind):
    make, x = KINDS[kind], torch.randn(4, 3)
    graph = rf.model_graph(Gives(make), x)
    assert ([name for name, _ in graph.outputs], made(graph)) == (["x", "y"], ["linear", "mul"])
    for show in SHOWS:
        graph = rf.model_graph(Takes(), make(x, torch.ones(1)), show=show)
        assert [graph.values[number].name for number in graph.inputs] == ["inputs.x", "inputs.y"]
        assert graph.nodes[0].inputs[0] == graph.inputs[0] and graph.failure is None
        graph = rf.model_graph(Around(make), x, show=show)
        assert graph.nodes[1].inputs[0] == graph.nodes[0].outputs[0] and made(graph) == ["linear"]
    measured = rf.model_graph(Gives(make), x, show="gradient").measured
    assert measured is not None and measured.nodes[0].amount == pytest.approx(3)  # 1 of x, 2 of y


@pytest.mark.parametrize("kind", KINDS)
def test_structures_of_any_kind_go_to_the_meta_device(kind):
    given = KINDS[kind](torch.ones(4, 3), torch.ones(1))
    graph = rf.model_graph(Takes(), given, meta=True)
    assert graph.meta and graph.failure is None and graph.values[graph.outputs[0][1]].shape == (4, 2)
    x = given["x"] if isinstance(given, dict) else given.x
    assert x.device.type == "cpu"  # what the user holds stays as it is


def test_structures_of_tensors_of_rfnb():
    feat = rf.Dim(3, name="feat")

    class Net(rf.Module):
        def __call__(self, given):
            return Record(rf.relu(given.x), Attributes(given.x + 1, {"z": 3}))

    for make, meta in ((Record, False), (Attributes, False), (Frozen, True), (Attributes, True)):
        graph = rf.model_graph(Net(), make(rf.ones([feat]), None), meta=meta)
        assert [graph.values[number].name for number in graph.inputs] == ["given.x"]
        assert [name for name, _ in graph.outputs] == ["x", "y.x"] and graph.failure is None


# -- lazy modules


def lazy_net():
    return nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2))


@pytest.mark.parametrize("show", [*SHOWS, "time"])
@pytest.mark.parametrize("called", ["module", "lambda", "partial", "argument"])
def test_a_lazy_module_has_its_parameters_and_stays_lazy(called, show):
    net, x, state = lazy_net(), torch.randn(4, 3), torch.get_rng_state()
    call = {"module": net, "lambda": lambda x: net(x), "partial": functools.partial(net)}.get(called)
    inputs = (x,) if call else (net, x)
    graph = rf.model_graph(call or (lambda net, x: net(x)), *inputs, show=show)
    assert graph.failure is None and graph.count == 20 + 10 + 12
    assert "kaiming_uniform_" not in ops(graph)  # the call that gives them parameters does not count
    assert [node.module.count for _, node in graph.walk() if node.kind == "module"][-4:] == [20, 10, 0, 12]
    assert type(net[0]) is nn.LazyLinear and type(net[0].weight) is UninitializedParameter
    assert net[0].in_features == 0 and torch.equal(state, torch.get_rng_state())
    first = net(x)  # now it gets them, as if there had been no graph
    torch.set_rng_state(state)
    other = lazy_net()
    assert torch.equal(first, other(x)) and type(net[0]) is nn.Linear and net[0].weight.requires_grad
    assert not net[0]._forward_pre_hooks and torch.equal(net[1].running_mean, other[1].running_mean)


def test_a_lazy_module_on_meta_and_one_that_fails():
    net = lazy_net()
    graph = rf.model_graph(net, torch.randn(4, 3), meta=True)
    assert graph.failure is None and graph.count == 42 and graph.values[graph.outputs[0][1]].shape == (4, 2)
    assert type(net[0].weight) is UninitializedParameter and net[0].weight.device.type == "cpu"
    graph = rf.model_graph(nn.Sequential(nn.LazyLinear(2), nn.Linear(3, 3), nn.LazyLinear(2)), torch.randn(4, 3))
    assert graph.failure is not None and graph.failure.error == "RuntimeError"


# -- modules that torch runs by itself


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)))


def script():
    return torch.jit.script(Scripted())


def trace():
    return torch.jit.trace(Scripted().eval(), torch.randn(4, 3))


def frozen():
    return torch.jit.freeze(torch.jit.script(Scripted().eval()))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.parametrize("make", [script, trace, frozen])
def test_a_module_of_torchscript_is_one_node(make):
    x, module = torch.randn(4, 3, requires_grad=True), make()
    before = {name: raw.clone() for name, raw in module.state_dict().items()}
    around = nn.Sequential(nn.Linear(3, 3), module)
    for show in SHOWS:
        whole, inside = rf.model_graph(module, x, show=show), rf.model_graph(around, x, show=show)
        count = 0 if make is frozen else 18
        assert [(node.kind, node.body, node.module.count) for node in whole.nodes] == [("module", [], count)]
        assert whole.nodes[0].inputs == whole.inputs and whole.nodes[0].outputs == (whole.outputs[0][1],)
        assert inside.count == 12 + count and (inside.nodes[1].body, inside.unused, whole.unused) == ([], (), ())
    assert all(torch.equal(raw, before[name]) for name, raw in module.state_dict().items())  # running statistics


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_functions_of_torchscript_and_of_autograd_are_nodes():
    @torch.jit.script
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Negated(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return -x

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    x = torch.randn(4, 3, requires_grad=True)
    for show in SHOWS:
        graph = rf.model_graph(lambda x: torch.relu(Negated.apply(double(x))), x, show=show)
        assert [node.op for node in graph.nodes] == ["double", "Negated", "relu"]
        assert all(a.outputs == b.inputs for a, b in zip(graph.nodes, graph.nodes[1:], strict=False))
    assert graph.nodes[0].inputs == graph.inputs and not graph.nodes[0].body
    assert "apply" not in vars(Negated) and torch.autograd.Function.apply.__module__ == "torch.autograd.function"


def test_a_compiled_module_is_seen_as_it_is_written():
    """The recorder itself must not be compiled: that took seconds, and failed at the second call."""
    x, module = torch.randn(4, 3), torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend=_refuses)
    for _ in range(2):
        graph = rf.model_graph(nn.Sequential(nn.Linear(3, 3), module), x)
        assert graph.failure is None
        assert ops(graph) == ["Linear", "linear", "OptimizedModule", "Sequential", "Linear", "linear", "ReLU", "relu"]
        assert "compiled modules ran as they are written" in rf.show(graph).text
    with rf.capture(module):
        module(x)


def _refuses(graph, inputs):
    raise AssertionError("compiled while the recorder looks on")


# -- functions


@pytest.mark.parametrize("meta", [False, True])
def test_functions_without_arguments(meta):
    linear, x = nn.Linear(3, 2), torch.ones(4, 3)

    class Holder:
        def __call__(self):
            return linear(torch.ones(4, 3))

    for call in (lambda: linear(torch.ones(4, 3)), Holder(), functools.partial(linear, x)):
        if meta and isinstance(call, functools.partial):
            continue  # its tensor is not an argument
        graph = rf.model_graph(call, meta=meta)
        assert ops(graph)[-2:] == ["Linear", "linear"] and made(graph) == ["linear"] and graph.count == 8
    assert linear.weight.device.type == "cpu"
    feat = rf.Dim(3, name="feat")
    assert ops(rf.model_graph(lambda: rf.relu(rf.ones([feat])))) == ["full", "relu"]
    assert "the result is a raw tensor" in rf.show(lambda x: rf.relu(x).raw_tensor, rf.ones([feat])).text
    assert rf.model_graph(lambda: linear(x), show="gradient").measured.nodes[0].amount == 1


def test_a_functional_call_leaves_the_weights_as_they_are():
    net, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.randn(4, 3)
    before = dict(net.named_parameters()) | dict(net.named_buffers())
    values = {name: raw.clone() for name, raw in before.items()}
    other = {name: torch.zeros_like(raw) for name, raw in before.items() if raw.is_floating_point()}
    assert rf.model_graph(lambda x: torch.func.functional_call(net, other, (x,)), x).failure is None
    assert rf.model_graph(torch.func.vmap(net[0]), x, show="activation").measured.nodes[0].amount > 0
    gradient = torch.func.grad(lambda weight: torch.func.functional_call(net[0], {"weight": weight}, (x,)).sum())
    for show in (None, "activation", "memory"):
        assert rf.model_graph(lambda: gradient(net[0].weight), show=show).failure is None
    after = dict(net.named_parameters()) | dict(net.named_buffers())
    assert all(after[name] is raw and torch.equal(raw, values[name]) for name, raw in before.items())


def test_modules_in_a_checkpoint_are_seen():
    net, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(4, 3, requires_grad=True)

    def call(x, reentrant):
        return torch.utils.checkpoint.checkpoint(net, x, use_reentrant=reentrant)

    for reentrant in (False, True):
        graph = rf.model_graph(call, x, reentrant)
        assert ops(graph)[-5:] == ["Sequential", "Linear", "linear", "ReLU", "relu"] and graph.failure is None
    with pytest.raises(BackendError, match="backward pass of this call fails"):
        rf.model_graph(call, x, True, show="gradient")  # torch computes no gradients of chosen tensors through it


def test_classes_among_the_arguments_are_not_modules():
    graph = rf.model_graph(lambda x, activation: activation()(x), torch.ones(2), nn.ReLU)
    assert ops(graph) == ["ReLU", "relu"]
    assert rf.model_graph(nn.Linear, torch.ones(2)).failure.error == "TypeError"


def test_a_module_of_torch_in_one_of_rfnb_goes_to_meta_too():
    feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    net = nn.Linear(3, 2)
    module = rf.Sequential(rf.Linear(feat, feat), rf.from_torch(net, [..., feat], [..., out]))
    before = {name: parameter.raw_tensor for name, parameter in module.named_parameters()}
    graph = rf.model_graph(module, rf.ones([rf.Dim(5, name="time"), feat]), meta=True)
    assert (
        graph.failure is None and graph.meta and graph.values[graph.outputs[0][1]].describe_dims() == "{time:5, out:2}"
    )
    assert all(parameter.raw_tensor is before[name] for name, parameter in module.named_parameters())
    assert net.weight.device.type == "cpu" and net.weight is before["1.weight"]


# -- measures


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_results_of_all_kinds_of_numbers_are_measured():
    linear, x = nn.Linear(3, 3), torch.randn(4, 3)
    complex_graph = rf.model_graph(lambda x: torch.view_as_complex(linear(x)[:, :2].contiguous()), x, show="gradient")
    assert complex_graph.failure is None and complex_graph.measured.nodes[0].amount > 0
    for call in (
        lambda x: torch.sparse.mm(x.to_sparse(), linear.weight),
        lambda x: (linear(x), x.to_sparse_csr().values()),
        lambda x: linear(torch.nested.nested_tensor([x[:1], x], layout=torch.jagged)),
        lambda x: (linear(x) > 0, "text", None),
    ):
        for show in ("activation", "memory"):
            assert rf.model_graph(call, x, show=show).failure is None


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda y: Record("text"), "the result holds no tensor: Record"),
        (lambda y: (y > 0).int(), "no tensor of the result depends on a trained parameter"),
        (lambda y: y.detach(), "no tensor of the result depends on a trained parameter"),
    ],
)
def test_the_reason_why_there_are_no_gradients_is_true(call, reason):
    linear, x = nn.Linear(3, 3), torch.randn(4, 3)
    with pytest.raises(ParameterError, match=reason):
        rf.model_graph(lambda x: call(linear(x)), x, show="gradient")
    with pytest.raises(ParameterError, match="gradients are switched off"), torch.no_grad():
        rf.model_graph(linear, x, show="gradient")
    with pytest.raises(ParameterError, match="the loss holds no tensor: float"):
        rf.model_graph(linear, x, show="gradient", loss=lambda y: np.float64(y.sum().item()).item())


class Cached(nn.Module):
    """Keeps what it has read in `cache`, as attention with keys and values of earlier steps does."""

    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(4, 4)

    def forward(self, x, cache, scale=None):
        cache["keys"] = torch.cat([*cache.values(), self.keys(x)])
        return cache["keys"] * scale


class Caller(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Cached()

    def forward(self, x, cache):
        return self.inner(x, cache=cache, scale=torch.ones(4))


@pytest.mark.parametrize("frames", [0, 3])
def test_what_a_call_puts_into_a_cache_is_none_of_its_inputs(frames):
    cache = {"keys": torch.zeros(frames, 4)} if frames else {}
    view = rf.show(Caller(), torch.ones(2, 4), cache, depth=0).data
    root = view["bodies"][view["root"]]
    (inner,) = [node["id"] for node in root["nodes"] if node["kind"] == "module"]
    sources = {edge["source"] for edge in root["edges"] if edge["target"] == inner}
    expected = ["x", "cache.keys", "ones"] if frames else ["x", "ones"]
    assert [node["name"] for node in root["nodes"] if node["id"] in sources] == expected
    assert {node["name"] for node in root["nodes"] if node["kind"] == "input"} == {*expected} - {"ones"}
