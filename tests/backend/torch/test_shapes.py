"""Shapes and dtypes of ops without numbers are what torch gives, and torch's compiler is not loaded for them."""

import subprocess

import pytest
import torch
from torch.nn import functional

from rfnb.backend.torch.shapes import RULES, Shapes, shapes_only

X = torch.empty(2, 6, 8, device="meta")
N = torch.empty(2, 6, 8, device="meta", dtype=torch.int64)
B = torch.empty(6, 1, device="meta", dtype=torch.bool)
H = torch.empty(2, 6, 8, device="meta", dtype=torch.bfloat16)
S = torch.empty((), device="meta")
CALLS = {
    "cat": lambda: torch.cat([X, X[:, :2]], 1),
    "cat dtypes": lambda: torch.cat([N, X], -1),
    "stack": lambda: torch.stack([X, X], -1),
    "stack first": lambda: torch.stack([N, N]),
    "matmul": lambda: X @ X.transpose(1, 2),
    "mm": lambda: X[0] @ X[1].t(),
    "linear": lambda: functional.linear(X, X.new_empty(5, 8), X.new_empty(5)),
    "einsum": lambda: torch.einsum("bti,ij->btj", X, X.new_empty(8, 4)),
    "softmax": lambda: X.softmax(1),
    "softmax dtype": lambda: H.softmax(-1, dtype=torch.float32),
    "log_softmax": lambda: X.log_softmax(-1),
    "layer_norm": lambda: functional.layer_norm(X, [6, 8]),
    "add": lambda: X + N,
    "add number": lambda: N + 0.5,
    "add bfloat16": lambda: H + S,
    "divide": lambda: N / 2,
    "floor": lambda: torch.div(N, 2, rounding_mode="floor"),
    "compare": lambda: X > N,
    "exp of integers": lambda: torch.exp(N),
    "power": lambda: N**2,
    "where": lambda: torch.where(B, X, 0.0),
    "masked_fill": lambda: X.masked_fill(B, 0.0),
    "in place": lambda: X.clone().sigmoid_(),
    "clamp": lambda: N.clamp(max=3),
    "nan_to_num": lambda: X.nan_to_num(),
    "gelu": lambda: functional.gelu(X),
    "sum": lambda: N.sum(-1, keepdim=True),
    "sum of bool": lambda: B.sum(0),
    "sum of all": lambda: N.sum(),
    "any of all": lambda: B.any(),
    "all of all": lambda: X.all(),
    "log_sigmoid": lambda: functional.logsigmoid(X),
    "sum of two": lambda: X.sum((0, 2)),
    "mean": lambda: X.mean([1]),
    "amax": lambda: X.amax(-1),
    "amin of all": lambda: X.amin(()),
    "logsumexp": lambda: X.logsumexp(1),
    "argmax": lambda: X.argmax(1, keepdim=True),
    "argmax of all": lambda: X.argmax(),
    "any": lambda: B.any(0),
    "all": lambda: X.all(-1),
    "cumsum": lambda: X.cumsum(1),
    "cummin": lambda: X.cummin(1),
    "flip": lambda: X.flip(1),
    "roll": lambda: X.roll(1, 1),
    "tril": lambda: X.tril(),
    "sort": lambda: X.sort(stable=True),
    "gather": lambda: X.gather(1, N[:, :2]),
    "scatter": lambda: X.scatter(1, N, 1.0),
    "scatter_add": lambda: X.scatter_add(1, N, X),
    "embedding": lambda: functional.embedding(N, X[0]),
    "repeat": lambda: X.repeat(3, 1, 2, 1),
    "arange": lambda: torch.arange(5, device="meta"),
    "arange with steps": lambda: torch.arange(1, 8, 3, device="meta"),
    "arange of floats": lambda: torch.arange(1.0, 3.0, 0.5, device="meta"),
    "zeros_like": lambda: torch.zeros_like(X, dtype=torch.int32),
    "to the CPU": lambda: torch.zeros_like(X, device="cpu"),
    "empty_like": lambda: torch.empty_like(N),
    "ones_like": lambda: torch.ones_like(N),
    "full_like": lambda: torch.full_like(N, 2),
    "triu": lambda: X.triu(),
    "cummax": lambda: X.cummax(1),
    "scatter of a tensor": lambda: X.scatter(1, N, X),
    "scatter_reduce": lambda: X.scatter_reduce(1, N, X, "amax"),
    "safe softmax": lambda: torch._safe_softmax(X, -1),
    "argmin": lambda: X.argmin(-1),
    "arange from": lambda: torch.arange(2, 5, device="meta"),
    "random integers": lambda: torch.empty(3, device="meta").random_(0, 5),
    "bernoulli": lambda: torch.empty(3, device="meta").bernoulli_(0.5),
    "normal": lambda: torch.empty(3, device="meta").normal_(),
    "copy": lambda: X.clone().copy_(N),
    "conv1d": lambda: functional.conv1d(X, X.new_empty(3, 6, 2), X.new_empty(3), padding=1),
    "conv in groups": lambda: functional.conv1d(X, X.new_empty(4, 3, 2), groups=2, stride=2),
    "conv2d": lambda: functional.conv2d(X[:, None], X.new_empty(3, 1, 2, 3), stride=(2, 1), dilation=(1, 2)),
    "transposed": lambda: functional.conv_transpose1d(X, X.new_empty(6, 3, 2), stride=2, output_padding=1),
    "max_pool2d": lambda: functional.max_pool2d(X, (2, 3), (2, 1), padding=(1, 0)),
    "max_pool2d ceil": lambda: functional.max_pool2d(X, 4, ceil_mode=True),
    "avg_pool2d": lambda: functional.avg_pool2d(X, 2),
    "cross_entropy": lambda: functional.cross_entropy(X[0], N[0, :, 0], reduction="none"),
    "mean cross_entropy": lambda: functional.cross_entropy(X[0], N[0, :, 0]),
    "numbers": lambda: torch.ones(2) + torch.arange(2),
    "random": lambda: torch.empty(3, device="meta").uniform_(),
}
WRONG = {
    "cat": lambda: torch.cat([X, X[..., :2]], 1),
    "matmul": lambda: X @ X,
    "add": lambda: X + X[:, :, :3],
    "conv": lambda: functional.conv1d(X, X.new_empty(3, 5, 2)),
    "in place": lambda: X[:1].clone().add_(X),
}


def facts(result):
    results = [result] if isinstance(result, torch.Tensor) else result
    return [(x.shape, x.dtype, x.device) for x in results]


@pytest.mark.parametrize("name", CALLS)
def test_shape_and_dtype_are_those_of_torch(name):
    expected = facts(CALLS[name]())
    with shapes_only():
        assert facts(CALLS[name]()) == expected


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_those_of_torch(name):
    with pytest.raises(Exception) as of_torch:
        WRONG[name]()
    with shapes_only(), pytest.raises(type(of_torch.value)) as ours:
        WRONG[name]()
    assert str(ours.value) == str(of_torch.value)


def test_the_calls_use_all_rules():
    used = set()

    class Looking(Shapes):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            used.add(op)
            return super().__torch_dispatch__(op, types, args, kwargs)

    for call in CALLS.values():
        with Looking():
            call()
    assert [str(op) for op in RULES if op not in used] == []


def test_results_have_no_gradient_functions_so_that_they_can_be_copied():
    weight = torch.nn.Parameter(torch.empty(8, 4, device="meta"))
    with shapes_only():
        assert (X @ weight).grad_fn is None


NETS = """
import sys
import rfnb as rf

def lstm(d, source):
    return {"class": "rec", "unit": "nativelstm2", "n_out": 4, "direction": d, "from": source, "dropout": 0.1}

def linear(source, n=4, act=None):
    return {"class": "linear", "activation": act, "n_out": n, "from": source}

blstm = {
    "f": lstm(1, "data"), "b": lstm(-1, "data"),
    "pool": {"class": "pool", "mode": "max", "padding": "same", "pool_size": (2,), "from": ["f", "b"]},
    "ctc": {"class": "softmax", "loss": "ctc", "target": "classes", "n_out": 6, "from": "pool"},
}
attention = {
    **blstm, "enc": {"class": "copy", "from": "pool"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": "max_len_from('base:enc')", "unit": {
        "emb": {**linear("prev:output", 3), "initial_output": 0},
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 8, "from": ["emb", "prev:att"]},
        "e": {"class": "dot", "red1": "F", "red2": "F", "var1": "T", "var2": "T?", "from": ["base:enc", "s"]},
        "w": {"class": "softmax_over_spatial", "from": "e"},
        "att": {"class": "generic_attention", "weights": "w", "base": "base:enc"},
        "p": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce", "dropout": 0.3},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0}}},
}
conformer = {
    "split": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "data"},
    "conv": {"class": "conv", "n_out": 3, "filter_size": (3, 3), "padding": "same", "strides": (2, 1), "from": "split"},
    "merged": {"class": "merge_dims", "axes": "static", "from": "conv"},
    "in": linear("merged", 4), "norm": {"class": "layer_norm", "from": "in"},
    "ff": linear("norm", 8, "swish"), "ff2": linear("ff"),
    "half": {"class": "eval", "eval": "source(0) + 0.5 * source(1)", "from": ["in", "ff2"]},
    "att": {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "from": "half",
            "attention_left_only": False, "key_shift": "pos"},
    "pos": {"class": "relative_positional_encoding", "n_out": 2, "clipping": 4, "from": "half"},
    "point": linear("att", 8), "glu": {"class": "gating", "activation": None, "from": "point"},
    "depth": {"class": "conv", "n_out": 4, "filter_size": (3,), "padding": "same", "groups": 4, "from": "glu"},
    "bn": {"class": "batch_norm", "from": "depth"}, "act": {"class": "activation", "activation": "swish", "from": "bn"},
    "sum": {"class": "combine", "kind": "add", "from": ["half", "act"]},
    "up": {"class": "resize", "axis": "T", "factor": 2, "kind": "nn", "from": "sum"},
    "output": {"class": "softmax", "loss": "ctc", "target": "classes", "n_out": 6, "from": "up"},
}
for net in (blstm, attention, conformer):
    for search in (False, True):
        extern = rf.ExternData({"data": {"dim": 8}, "classes": {"dim": 5, "sparse": True}})
        rf.Network(extern_data=extern, search_flag=search).construct_from_dict(net).report()
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_the_first_nets_of_a_process_do_not_load_a_compiler(python):
    made = subprocess.run([python, "-c", NETS], capture_output=True, text=True)
    assert made.stdout.strip() == "[]", made.stderr
