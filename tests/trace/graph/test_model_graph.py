"""The graph of a call says what the model did, and the call leaves no traces."""

import random
import sys
import weakref

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core.graph.graph import Node
from rfnb.errors import DimError

batch = rf.batch_dim


def sketch(nodes, depth=0):
    """`["att", ["matmul", "softmax"]]`: names of modules and loops, ops, and what is inside."""
    out = []
    for node in nodes:
        word = node.name or node.op
        out.append(f"({word})" if node.ghost else word)
        if node.kind in ("module", "loop", "cond", "side"):
            out.append(sketch(node.body))
    return out


def find(graph, name, op=None) -> Node:
    [found] = [node for _, node in graph.walk() if (node.name or node.op) == name and op in (None, node.op)]
    return found


def check(graph):
    """Numbers fit, values come from the node that says so, and what is read was there before."""
    order = [node for _, node in graph.walk()]
    assert [node.number for node in order] == list(range(len(order)))
    assert [value.number for value in graph.values] == list(range(len(graph.values)))
    for value in graph.values:
        assert (value.node is None) == (value.kind not in ("", "frame")), value
        assert value.node is None or value.node in order
        assert len(value.sizes) == len(value.dims)
    ready = {value.number for value in graph.values if value.kind}
    later = {n for node in order if node.loop for n in node.outputs}
    for node in reversed(order):
        ready |= set(node.outputs)
    for node in order:
        assert set(node.inputs) <= ready | later
    for node in order:
        if node.loop is not None:
            inside = {n for inner in _below(node) for n in inner.outputs}
            for state in node.loop.states:
                assert state.dim is not None or graph.values[state.before].kind == "state"
                assert state.after is None or state.after in inside or graph.values[state.after].kind
            for pair in (*node.loop.stacked, *node.loop.lasts):
                assert pair[1] in node.outputs and graph.values[pair[1]].node in (node, *order)


def _below(node):
    for inner in node.body:
        yield inner
        yield from _below(inner)


def holds_tensors(graph):
    """Whether a tensor can be reached from the graph by attributes."""
    seen, waiting = set(), [graph]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type(sys) | type) or callable(one):
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor | rf.Tensor | rf.Module | torch.nn.Module | BaseException):
            return type(one).__name__
        if isinstance(one, rf.Dim):
            continue
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += one
        else:
            waiting += vars(one).values() if hasattr(one, "__dict__") else []
            waiting += [getattr(one, name, None) for name in getattr(type(one), "__slots__", ())]
    return None


@pytest.fixture
def dims():
    return rf.Dim(4, name="feat"), rf.Dim(3, name="out"), rf.Dim(None, name="time")


@pytest.fixture
def x(dims):
    feat, _, time = dims
    return rf.convert_to_tensor(torch.randn(2, 5, 4), dims=[batch, time, feat], lengths=[5, 3], name="x")


class Residual(rf.Module):
    def __init__(self, dim):
        self.linear = rf.Linear(dim, dim)
        self.norm = rf.LayerNorm(dim)

    def __call__(self, x):
        return self.norm(x + rf.relu(self.linear(x)))


class Attention(rf.Module):
    def __init__(self, state, enc):
        self.query, self.enc = rf.Linear(state, enc), enc

    def __call__(self, s, encoder, axis):
        energy = rf.matmul(self.query(s), encoder, reduce=self.enc)
        weights = rf.softmax(energy, axis=axis)
        return rf.matmul(weights, encoder, reduce=axis)


class Decoder(rf.Module):
    def __init__(self, feat, out):
        self.encoder, self.att, self.up = rf.Linear(feat, feat), Attention(out, feat), rf.Linear(feat, out)
        self.idle = rf.Sequential(rf.Linear(feat, out), rf.relu)
        self.out = out

    def __call__(self, source, *, time, steps=3):
        encoder = self.encoder(source)
        loop = rf.Loop(max_seq_len=steps, name="decoder")
        loop.state.s = rf.zeros([batch, self.out])
        with loop:
            context = self.att(loop.state.s, encoder, time)
            loop.state.s = loop.state.s + self.up(context)
            outputs = loop.stack(loop.state.s)
        return {"outputs": outputs, "last": loop.state.s}


def test_a_module_is_a_node_with_its_path_and_parameters(dims, x):
    feat, out, _ = dims
    graph = rf.model_graph(rf.Sequential(rf.Linear(feat, out), rf.relu), x)
    check(graph)
    assert sketch(graph.nodes) == ["0", ["linear"], "1", ["relu"]]
    facts = graph.nodes[0].module
    assert (facts.cls, facts.path, facts.count, facts.trainable, facts.note) == (
        "Linear",
        "0",
        15,
        15,
        "feat:4 → out:3",
    )
    assert [(v.path, v.describe_dims()) for v in graph.values if v.kind == "parameter"] == [
        ("0.weight", "{feat:4, out:3}"),
        ("0.bias", "{out:3}"),
    ]
    first = graph.values[graph.inputs[0]]
    assert (first.name, first.kind, first.dtype) == ("inp", "input", "float32")
    assert first.describe_dims() == "{batch:2, time:3–5, feat:4}"
    assert graph.outputs == (("output", graph.nodes[1].outputs[0]),)
    assert [v.name for v in graph.values if v.node is not None] == ["", ""]  # not "graph", as the line above
    assert (graph.name, graph.count, graph.failure, graph.unused) == ("Sequential", 15, None, ())


def test_the_graph_holds_no_tensor(dims, x):
    feat, out, time = dims
    assert holds_tensors(rf.model_graph(Decoder(feat, out), x, time=time)) is None
    assert holds_tensors(rf.model_graph(torch.nn.Linear(3, 2), torch.ones(3))) is None
    assert holds_tensors(rf.model_graph(lambda a: a + 1 + rf.zeros([feat, out, out, time]), x)) is None


@pytest.mark.parametrize("plain", [False, True])
def test_a_failure_lets_go_of_the_tensors(plain, dims, x):
    seen = []

    def model(x):
        y = x * 2
        seen.append(weakref.ref(y))
        raise ValueError("no")

    graph = rf.model_graph(model, torch.ones(2) if plain else x)
    assert graph.failure is not None and seen[0]() is None


def test_values_are_called_as_lines_call_them(dims, x):
    feat, *_ = dims

    def model(given, other):
        total = given + other["b"][0]
        return rf.exp(total)

    graph = rf.model_graph(model, x, other={"b": [x]})
    assert [(v.name, v.kind) for v in graph.values] == [("given, other.b.0", "input"), ("total", ""), ("", "")]
    graph = rf.model_graph(model, x, other={"b": [rf.ones([feat])]})
    assert [graph.values[n].name for n in graph.inputs] == ["given", "other.b.0"]
    assert graph.name == "model"


def test_repeated_blocks_are_alike_and_others_are_not(dims, x):
    feat, *_ = dims

    class Other(Residual):
        def __call__(self, x):
            y = rf.relu(self.linear(x))
            return self.norm(y + y)

    Other.__name__ = "Residual"
    model = rf.Sequential(Residual(feat), Residual(feat), rf.Linear(feat, feat), Other(feat))
    graph = rf.model_graph(model, x)
    first, second, linear, other = graph.nodes
    assert graph.failure is None
    assert graph.form_of(first) == graph.form_of(second) != 0
    assert len(set(map(graph.form_of, (first, linear, other)))) == 3  # the same ops, otherwise wired


def test_blocks_with_their_own_dims_of_one_size_are_alike(dims, x):
    feat, *_ = dims
    blocks = [rf.Sequential(rf.Linear(feat, d := rf.Dim(n, name="ff")), rf.Linear(d, feat)) for n in (6, 6, 7)]
    graph = rf.model_graph(rf.Sequential(*blocks), x)
    first, second, wider = graph.nodes
    assert graph.form_of(first) == graph.form_of(second) != graph.form_of(wider)


def test_a_shared_module_has_one_path(dims, x):
    feat, *_ = dims

    class Twice(rf.Module):
        def __init__(self):
            self.inner = rf.Linear(feat, feat)
            self.box = rf.Sequential(self.inner)

        def __call__(self, x):
            return self.box(self.inner(x))

    graph = rf.model_graph(Twice(), x)
    check(graph)
    first, box = graph.nodes
    assert (first.module.path, first.module.call) == ("inner", 0)
    assert (box.body[0].module.path, box.body[0].module.call, box.body[0].name) == ("inner", 1, "inner")
    assert graph.count == 20
    assert len([v for v in graph.values if v.kind == "parameter"]) == 2


def test_tied_parameters_count_once(dims, x):
    feat, *_ = dims
    model = rf.Sequential(rf.Linear(feat, feat), rf.Linear(feat, feat))
    model[1].weight = model[0].weight
    graph = rf.model_graph(model, x)
    assert (graph.count, [node.module.count for node in graph.nodes]) == (24, [20, 20])


def test_modules_that_are_given_are_called_as_the_arguments(dims, x):
    feat, out, _ = dims

    def loss(model, heads, batch):
        return rf.TensorDict({"y": rf.reduce_mean(heads["a"](model[0](batch["x"])), axis=out)})

    model, heads, batch = rf.ModuleList([rf.Linear(feat, feat)] * 2), {"a": rf.Linear(feat, out)}, {"x": x}
    for meta in (False, True):
        graph = rf.model_graph(loss, model, heads, rf.TensorDict(batch), meta=meta)
        check(graph)
        assert sketch(graph.nodes) == ["model.0", ["linear"], "heads.a", ["linear"], "reduce_mean"]
        assert [graph.values[number].name for number in graph.inputs] == ["batch.x"]
        assert [name for name, _ in graph.outputs] == ["y"]
        assert graph.nodes[0].inputs[:1] == graph.inputs and graph.meta == meta
    assert model[0].weight.device == "cpu"


def test_a_method_of_a_module_has_its_paths(dims, x):
    feat, *_ = dims
    for model, given in ((Residual(feat), x), (torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.ones(2, 2))):
        whole = rf.model_graph(model, given)
        graph = rf.model_graph(model.__call__ if isinstance(model, rf.Module) else model.forward, given)
        assert (sketch(graph.nodes), graph.count) == (sketch(whole.nodes), whole.count)


def test_a_tensor_that_is_given_twice_has_both_names(x):
    for given in (x, torch.ones(2)):
        graph = rf.model_graph(lambda a, b: a + b, given, given)
        assert graph.inputs == (0,) and graph.values[0].name == "a, b"
        assert graph.nodes[0].inputs == (0, 0)


def test_modules_of_a_function_get_names(dims, x):
    feat, *_ = dims
    parts = [rf.Linear(feat, feat), rf.Linear(feat, feat), Residual(feat)]

    def model(x):
        for part in parts:
            x = part(x)
        return parts[0](x)

    graph = rf.model_graph(model, x)
    check(graph)
    assert [node.module.path for node in graph.nodes] == ["linear", "linear_2", "residual", "linear"]
    assert graph.nodes[2].body[0].module.path == "residual.linear"
    assert graph.count == 20 * 3 + 8


def test_a_loop_is_one_node(dims, x):
    feat, out, time = dims
    model = Decoder(feat, out)
    graph = rf.model_graph(model, x, time=time)
    check(graph)
    inside = ["att", ["query", ["linear"], "matmul", "softmax", "matmul"], "up", ["linear"], "add"]
    assert sketch(graph.nodes) == ["encoder", ["linear"], "zeros", "decoder", inside]
    loop = find(graph, "decoder")
    facts, name = loop.loop, lambda number: graph.values[number].name
    assert (loop.op, facts.steps, facts.axis.name, facts.end) == ("Loop", 3, "decoder:steps", None)
    [state] = facts.states
    assert (state.name, name(state.initial), name(state.before)) == ("s", "s", "s")
    assert graph.values[state.initial].node.op == "full"
    assert graph.values[state.after].node is find(graph, "add")
    assert graph.values[state.final].node is loop
    assert facts.stacked == ((state.after, graph.outputs[0][1]),)
    assert name(graph.outputs[0][1]) == "outputs"
    assert [label for label, _ in graph.outputs] == ["outputs", "last"]
    encoder = graph.nodes[0].outputs[0]
    assert encoder in loop.inputs and encoder in find(graph, "att").body[1].inputs
    assert find(graph, "query").module.path == "att.query"
    assert find(graph, "query").path == "att"
    assert [facts.path for facts in graph.unused] == ["idle"]


def test_frames_ends_and_lasts_of_a_loop(dims, x):
    feat, _, time = dims

    def model(x):
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, feat])
        loop.state.pair = rf.State(a=rf.zeros([batch]), b=None)
        with loop:
            frame = loop.unstack(x)
            number = loop.iter_idx
            loop.state.h = loop.state.h * 0.5 + frame
            loop.state.pair.a = rf.cast(number, "float32") + loop.state.pair.a
            energy = rf.reduce_sum(loop.state.h, axis=feat)
            loop.end(energy > 100, include_eos=True)
            last = loop.last(energy)
        return last, loop.state.h

    graph = rf.model_graph(model, x)
    check(graph)
    facts = find(graph, "loop").loop
    assert [state.name for state in facts.states] == ["h", "pair.a"]
    [(source, frame)] = facts.unstacked
    assert source == graph.inputs[0] and find(graph, "unstack").inputs == (source,)
    assert (graph.values[frame].kind, graph.values[frame].name) == ("frame", "frame")
    assert graph.values[facts.end].node.op == "greater"
    [(inside, outside)] = facts.lasts
    assert graph.values[inside].name == "energy" and outside == graph.outputs[0][1]
    assert facts.size.values.tolist() == [5, 3]
    assert "where" not in str(sketch(graph.nodes))  # what the loop does to freeze ended sequences is no op of the model


def test_a_loop_in_a_loop(dims, x):
    feat, _, time = dims

    class Model(rf.Module):
        def __init__(self):
            self.deep = rf.Linear(feat, feat)

        def __call__(self, x):
            outer = rf.Loop(max_seq_len=2, name="outer")
            outer.state.h = rf.zeros([batch, feat])
            with outer:
                doubled = outer.state.h * 2
                inner = rf.Loop(axis=time, name="inner")
                inner.state.s = outer.state.h
                with inner:
                    inner.state.s = self.deep(inner.state.s + doubled) + inner.unstack(x)
                outer.state.h = inner.state.s + 1
            return outer.state.h

    graph = rf.model_graph(Model(), x)
    check(graph)
    assert sketch(graph.nodes) == [
        "zeros",
        "outer",
        ["mul", "inner", ["add", "deep", ["linear"], "unstack", "add"], "add"],
    ]
    outer, inner = find(graph, "outer"), find(graph, "inner")
    [state] = inner.loop.states
    assert state.initial == outer.loop.states[0].before
    assert graph.values[state.final].node is inner
    assert state.final in outer.body[-1].inputs
    assert outer.body[0].outputs[0] in inner.inputs
    assert inner.loop.unstacked[0][0] == graph.inputs[0]
    assert find(graph, "deep").module.path == "deep"


@pytest.mark.parametrize("side", [True, False])
def test_a_branch_shows_the_side_that_was_not_taken(side, x):
    def model(x):
        y = rf.cond(rf.reduce_any(x == x, axis=x.dims) == side, lambda: rf.exp(x), lambda: rf.log(x))
        return y + 1

    graph = rf.model_graph(model, x)
    check(graph)
    branch = ["true_fn", ["exp"], "(false_fn)", []] if side else ["(true_fn)", [], "false_fn", ["log"]]
    assert sketch(graph.nodes)[-3:] == ["cond", branch, "add"]


def test_a_branch_in_a_loop_has_both_sides(dims, x):
    feat, *_ = dims
    linear = rf.Linear(feat, feat)

    def model(x):
        loop = rf.Loop(max_seq_len=2)
        loop.state.h = x
        with loop:
            even = loop.iter_idx % 2 == 0
            loop.state.h = rf.cond(even, lambda: linear(loop.state.h), lambda: loop.state.h + x)
        return loop.state.h

    graph = rf.model_graph(model, x)
    check(graph)
    body = sketch(find(graph, "loop").body)
    assert body[-2:] == ["cond", ["true_fn", ["linear", ["linear"]], "false_fn", ["add"]]]
    state = find(graph, "loop").loop.states[0]
    assert set(find(graph, "cond").inputs) >= {state.before}
    assert find(graph, "add").inputs == (state.before, graph.inputs[0])
    for side, made in (("true_fn", "linear"), ("false_fn", "add")):
        assert find(graph, side).outputs == find(graph, made, made).outputs


@pytest.mark.parametrize("side", [True, False])
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_side_of_a_branch_may_give_what_was_there(in_loop, side, x):
    def choose(h):
        return rf.cond(rf.reduce_any(h == h, axis=h.dims) == side, lambda: h, lambda: rf.exp(h))

    def model(x):
        loop = rf.Loop(max_seq_len=2)
        loop.state.h = x
        with loop:
            loop.state.h = choose(loop.state.h)
        return loop.state.h

    graph = rf.model_graph(model if in_loop else choose, x)
    check(graph)
    given = find(graph, "loop").loop.states[0].before if in_loop else graph.inputs[0]
    sides = find(graph, "true_fn"), find(graph, "false_fn")
    plain = [(node.inputs, node.outputs) for node in sides if not node.ghost and not node.body]
    assert plain == [((given,), (given,))][: in_loop or side]


class Broken(rf.Module):
    """Fails where it is told to."""

    def __init__(self, feat, where):
        self.first, self.last, self.where = rf.Linear(feat, feat), rf.Linear(feat, feat), where
        self.inner = Inner(feat, where)
        self.feat = feat

    def __call__(self, x):
        x = self.first(x)
        if self.where == "top":
            rf.matmul(x, x, reduce=rf.Dim(9, name="other"))
        if self.where == "python":
            raise ValueError("no")
        x = self.inner(x)
        loop = rf.Loop(max_seq_len=3, name="steps")
        loop.state.h = x
        with loop:
            h = rf.exp(loop.state.h)
            if self.where == "body":
                rf.matmul(h, h, reduce=rf.Dim(9, name="other"))
            if self.where == "module in body":
                h = self.inner(h, "module")
            if self.where == "step":
                rf.assert_(loop.iter_idx < 2, "too late")
            if self.where == "inner loop":
                deep = rf.Loop(max_seq_len=2, name="deep")
                deep.state.s = h
                with deep:
                    s = rf.tanh(deep.state.s)
                    deep.state.s = rf.matmul(s, s, reduce=rf.Dim(9, name="other"))
            if self.where == "state":
                h = rf.reduce_sum(h, axis=self.feat)
            loop.state.h = h
        return self.last(loop.state.h)


class Inner(rf.Module):
    def __init__(self, feat, where):
        self.linear, self.where = rf.Linear(feat, feat), where

    def __call__(self, x, where=""):
        x = self.linear(x)
        if "module" in (self.where, where):
            return rf.gather(x, indices=x, axis=rf.Dim(9, name="other"))
        return x


FAILURES = {  # by where: the node, its error, what is there before, what is never reached
    "top": ("matmul", "DimError", ["first", ["linear"], "matmul"], ["last", "inner"]),
    "python": (None, "ValueError", ["first", ["linear"]], ["last", "inner"]),
    "module": ("gather", "DimError", ["first", ["linear"], "inner", ["linear", ["linear"], "gather"]], ["last"]),
    "body": ("matmul", "DimError", ["steps", ["exp", "matmul"]], ["last"]),
    "module in body": ("gather", "DimError", ["steps", ["exp", "inner", ["linear", ["linear"], "gather"]]], ["last"]),
    "step": ("assert", "AssertionError", None, ["last"]),
    "inner loop": ("matmul", "DimError", ["steps", ["exp", "deep", ["tanh", "matmul"]]], ["last"]),
    "state": ("steps", "DimError", ["steps", ["exp", "reduce_sum"]], ["last"]),
}


@pytest.mark.parametrize("where", FAILURES)
def test_a_failure_keeps_what_was_done(where, dims, x):
    feat, *_ = dims
    node, error, before, unused = FAILURES[where]
    graph = rf.model_graph(Broken(feat, where), x)
    order = [each for _, each in graph.walk()]
    assert graph.failure.error == error
    at = None if graph.failure.node is None else order[graph.failure.node]
    assert (None if at is None else at.name or at.op) == node
    assert at is None or not at.outputs
    assert before is None or sketch(graph.nodes)[-len(before) :] == before
    assert [facts.path for facts in graph.unused] == unused
    assert graph.outputs == ()
    assert at is None or graph.failure.place.startswith("test_model_graph.py:")
    if where == "step":
        assert "too late" in graph.failure.text and "in step 2 of steps" in graph.failure.text
    check(graph)


def test_nothing_is_raised_for_other_arguments(dims):
    feat, out, _ = dims
    graph = rf.model_graph(rf.Linear(feat, out))
    assert graph.failure.error == "TypeError" and graph.nodes == []


def test_an_error_that_the_model_catches_is_none(x):
    def model(x):
        try:
            x = rf.gather(x, indices=x, axis=rf.Dim(9, name="other"))
        except DimError:
            x = rf.exp(x)
        raise ValueError("later")

    graph = rf.model_graph(model, x)
    assert (graph.failure.error, graph.failure.node) == ("ValueError", None)


def test_the_call_leaves_no_traces(dims, x):
    feat, *_ = dims

    class Model(rf.Module):
        def __init__(self):
            self.mean = rf.Parameter([feat], auxiliary=True)

        def __call__(self, x):
            random.random()
            np.random.rand()
            self.mean.assign_add(1.0)
            self.mean.assign_add(1.0)
            loop = rf.Loop(max_seq_len=2, debug=True)
            loop.state.h = rf.dropout(x, 0.5) - self.mean
            with loop:
                loop.state.h = rf.dropout(loop.state.h, 0.5)
            return loop.state.h

    model = Model()
    numbers = {name: p.raw_tensor.clone() for name, p in model.named_parameters()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    runs = len(rf.runs)
    with rf.get_run_ctx().train_flag_ctx(True):
        graph = rf.model_graph(model, x)
    assert graph.failure is None
    assert torch.equal(states[0], torch.get_rng_state())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    assert all(torch.equal(numbers[name], p.raw_tensor) for name, p in model.named_parameters())
    assert len(rf.runs) == runs


def test_without_numbers_a_huge_model_takes_no_memory_and_comes_back(dims):
    wide, batch = rf.Dim(2**15, name="wide"), rf.Dim(2**10, name="many")
    with rf.set_default_device_ctx("meta"):
        model = rf.Sequential(rf.Linear(wide, wide), rf.relu)
        x = rf.zeros([batch, wide])
    by_itself = rf.model_graph(model, x)
    assert (by_itself.count, by_itself.meta) == (2**30 + 2**15, True)
    graph = rf.model_graph(model, x, meta=True)
    assert graph.failure is None and graph.meta
    assert graph.values[graph.outputs[0][1]].describe_dims() == "{many:1024, wide:32768}"


@pytest.mark.parametrize("where", ["nowhere", "top", "step"])
def test_parameters_have_their_numbers_again_after_meta(where, dims, x):
    feat, *_ = dims
    model = Broken(feat, where)
    before = {name: p.raw_tensor for name, p in model.named_parameters()}
    graph = rf.model_graph(model, x, meta=True)
    assert (graph.failure is None) == (where == "nowhere")
    assert all(p.raw_tensor is before[name] and p.device == "cpu" for name, p in model.named_parameters())
    assert where == "nowhere" or "meta=True" in graph.failure.hint
    assert rf.zeros([feat]).device == "cpu" and x.device == "cpu"


def test_without_numbers_a_loop_and_both_sides_of_a_branch_are_seen(dims, x):
    feat, out, time = dims
    real = rf.model_graph(Decoder(feat, out), x, time=time)
    graph = rf.model_graph(Decoder(feat, out), x, time=time, meta=True)
    assert graph.failure is None
    assert sketch(graph.nodes) == sketch(real.nodes)
    assert [v.describe_dims() for v in graph.values] == [v.describe_dims() for v in real.values]
    check(graph)
    pred = rf.convert_to_tensor(True)
    graph = rf.model_graph(lambda p: rf.cond(p, lambda: rf.exp(x), lambda: rf.log(x)), pred, meta=True)
    assert sketch(graph.nodes) == ["cond", ["true_fn", ["exp"], "false_fn", ["log"]]]


def test_without_numbers_a_loop_in_a_loop_and_chance_in_it_are_seen(dims, x):
    def model(x):
        outer = rf.Loop(max_seq_len=2)
        outer.state.h = x
        with outer:
            inner = rf.Loop(max_seq_len=3)
            inner.state.s = outer.state.h
            with inner:
                inner.state.s = rf.dropout(inner.state.s, 0.5) + rf.random_normal(x.dims)
            outer.state.h = inner.state.s
        return outer.state.h

    real, graph = rf.model_graph(model, x), rf.model_graph(model, x, meta=True)
    assert graph.failure is None and sketch(graph.nodes) == sketch(real.nodes)


def test_a_module_of_torch_in_one_of_rfnb_is_named_and_stays_as_it_was(dims, x):
    feat, *_ = dims

    class Model(rf.Module):
        def __init__(self):
            self.nets = [torch.nn.BatchNorm1d(4)]

        def __call__(self, x):
            return rf.raw_call(self.nets[0], x, out_dims=x.dims)

    model, x = Model(), rf.random_normal([rf.Dim(3, name="row"), feat])
    before = model.nets[0].running_mean.clone()
    graph = rf.model_graph(model, x)
    assert graph.failure is None and sketch(graph.nodes) == ["BatchNorm1d"]
    assert torch.equal(before, model.nets[0].running_mean) and model.nets[0].num_batches_tracked == 0


def test_what_needs_numbers_fails_without_them(dims, x):
    def model(x):
        loop = rf.Loop(max_seq_len=5)
        loop.state.h = x
        with loop:
            loop.state.h = loop.state.h + 1
            loop.end(rf.reduce_any(loop.state.h > 3, axis=[d for d in x.dims if d is not batch]), include_eos=True)
        return loop.state.h

    graph = rf.model_graph(model, x, meta=True)
    assert graph.failure is not None and "tensors on meta have no values" in graph.failure.hint
    assert rf.model_graph(model, x).failure is None


# -- plain torch


class Net(torch.nn.Module):
    """LSTM, attention, running statistics, a container that is called twice, and a module that is not called."""

    def __init__(self, where=""):
        super().__init__()
        nn = torch.nn
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.att = nn.MultiheadAttention(6, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(6)
        self.box = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
        self.idle = nn.Linear(2, 2)
        self.where = where

    def forward(self, x, options=None):
        h, _ = self.lstm(x)
        a, w = self.att(h, h, value=h)
        y = self.norm((a + h).transpose(1, 2)).transpose(1, 2)
        y[:, 0] = 0
        y = self.box(self.box(torch.nn.functional.dropout(y, 0.1)))
        if self.where:
            y = y @ torch.ones(7, 7)
        return {"y": y, "w": [w]}


def test_a_module_of_torch():
    model, x = Net(), torch.randn(2, 3, 4)
    graph = rf.model_graph(model, x, {"unused": torch.ones(1)})
    assert graph.failure is None
    words = ["transpose", "norm", ["add_", "batch_norm"], "transpose", "setitem", "dropout"]
    boxes = ["box", ["0", ["linear"], "1", ["relu"]]] * 2
    attention = ["transpose", "multi_head_attention_forward", "transpose"]
    assert sketch(graph.nodes) == ["lstm", ["zeros", "zeros", "lstm"], "att", attention, "add", *words, *boxes]
    assert [graph.values[n].name for n in graph.inputs] == ["x", "options.unused"]
    assert [(name, graph.values[n].describe_dims()) for name, n in graph.outputs] == [
        ("y", "[2, 3, 6]"),
        ("w.0", "[2, 3, 3]"),
    ]
    assert find(graph, "att").inputs == (find(graph, "lstm", "LSTM").outputs[0],) * 3  # one of them is given by name
    first, second = (node for node in graph.nodes if node.name == "box")
    assert (first.module.path, first.module.call, second.module.call) == ("box", 0, 1)
    assert (graph.form_of(first), first.body[0].module.path) == (graph.form_of(second), "box.0")
    assert first.outputs[0] in second.inputs
    assert first.body[0].module.note == "in_features=6, out_features=6, bias=True"
    assert [facts.path for facts in graph.unused] == ["idle"]
    assert graph.count == sum(p.numel() for p in model.parameters())
    names = {v.path for v in graph.values if v.kind == "parameter"}
    assert names == {n for n, _ in (*model.named_parameters(), *model.named_buffers()) if not n.startswith("idle")}
    [changed] = [node for node in graph.nodes if node.op == "setitem"]
    assert changed.inputs != changed.outputs and changed.outputs == find(graph, "dropout").inputs
    check(graph)


@pytest.mark.parametrize("meta", [False, True])
@pytest.mark.parametrize("where", ["", "end"])
def test_torch_is_as_before(meta, where):
    model, x = Net(where), torch.randn(2, 3, 4)
    before = {name: (raw, raw.clone()) for name, raw in model.state_dict(keep_vars=True).items()}
    flat, hooks, state = list(model.lstm._flat_weights), _hooks(), torch.get_rng_state()
    graph = rf.model_graph(model, x, meta=meta)
    assert (graph.failure is None) == (not where) and graph.meta == meta
    now = model.state_dict(keep_vars=True)
    assert all(now[name] is raw and torch.equal(raw, copy) for name, (raw, copy) in before.items())
    assert all(a is b for a, b in zip(flat, model.lstm._flat_weights, strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert _hooks() == hooks == [0, 0]
    assert where or model(x)["y"].device.type == "cpu"


class Counting(torch.nn.Module):
    """Changes all that it can reach."""

    def __init__(self):
        super().__init__()
        self.norm, self.weight = torch.nn.BatchNorm1d(4), torch.nn.Parameter(torch.ones(4))
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        with torch.no_grad():
            self.weight.mul_(0.5)
            self.weight.clamp_(0.0, 0.4)
        self.calls += 1
        return self.norm(x.relu_() * self.weight)


HOLDERS = {
    "module": lambda model: (model, ()),
    "closure": lambda model: (lambda x: model(x), ()),
    "argument": lambda model: (lambda x, model: model(x), (model,)),
    "method": lambda model: (model.forward, ()),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("held", HOLDERS)
def test_what_torch_changes_in_place_is_put_back(held, train, fails):
    net, x = Counting().train(train), torch.randn(3, 5 if fails else 4)
    called, more = HOLDERS[held](net)
    before = {name: raw.clone() for name, raw in [*net.state_dict().items(), ("x", x)]}
    graph = rf.model_graph(called, x, *more)
    assert (graph.failure is not None) == fails
    after = {**net.state_dict(), "x": x}
    assert all(torch.equal(after[name], raw) for name, raw in before.items())


def _hooks():
    from torch.nn.modules import module

    return [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)]


def test_a_failure_of_torch_is_where_it_happened():
    graph = rf.model_graph(Net("end"), torch.randn(2, 3, 4))
    order = [node for _, node in graph.walk()]
    assert order[graph.failure.node].op == "matmul"
    assert graph.failure.line == "y @ torch.ones(7, 7)"
    assert graph.failure.place.startswith("test_model_graph.py:")
    inside = rf.model_graph(Net(), torch.randn(2, 3, 9))
    at = [node for _, node in inside.walk()][inside.failure.node]
    assert at.module.path == "lstm" and [f.path for f in inside.unused] == ["att", "norm", "box", "idle"]


def test_the_fast_path_of_torch_shows_what_is_inside():
    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 3).eval()
    with torch.no_grad():
        graph = rf.model_graph(model, torch.randn(2, 3, 8))
    layers = [node for _, node in graph.walk() if node.op == "TransformerEncoderLayer"]
    assert [node.module.path for node in layers] == ["layers.0", "layers.1", "layers.2"]
    assert len({graph.form_of(node) for node in layers}) == 1
    assert any(node.op == "MultiheadAttention" for node in layers[0].body)


def test_a_function_of_torch_tensors():
    linear = torch.nn.Linear(2, 2)
    graph = rf.model_graph(lambda a: linear(a) + torch.rand(2), torch.ones(2, 2))
    assert sketch(graph.nodes) == ["linear", ["linear"], "rand", "add"]
    assert graph.nodes[0].module.path == "linear"


def test_hooks_of_others_stay_and_are_seen():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    handle = model[0].register_forward_hook(lambda module, args, result: result * 2)
    graph = rf.model_graph(model, torch.ones(2, 2))
    assert graph.failure is None and len(model[0]._forward_hooks) == 1
    assert torch.equal(model(torch.ones(2, 2)), 2 * torch.nn.Linear.forward(model[0], torch.ones(2, 2)))
    handle.remove()


def test_no_hook_is_left():
    """torch.compile warns of hooks that see all modules."""
    rf.model_graph(torch.nn.Linear(4, 3), torch.zeros(2, 4))
    assert not torch.nn.modules.module._has_any_global_hook()
