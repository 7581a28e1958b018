"""What users of torch type by habit: each row of docs/from_pytorch.md works, or is answered with what it says."""

from __future__ import annotations

import contextlib
import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core.advice import torch_equivalents
from rfnb.errors import BackendError, DimError, DtypeError, TraceError

PAGE = (Path(__file__).parents[3] / "docs" / "from_pytorch.md").read_text(encoding="utf-8").partition("## Modules")[0]
ROWS = re.findall(r"^\| `(.*?)` \| (.*) \|$", PAGE, re.MULTILINE)
SETUP = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def names():
    found = {"__name__": "page", "np": np, "copy": copy, "pickle": pickle}
    exec(SETUP, found)
    found["loss"].backward(retain_graph=True)
    return found


def run(code, names):
    try:
        return eval(code, names)
    except SyntaxError:
        exec(code, names)


def same(a, b):
    if isinstance(a, rf.Tensor):
        return a.dims == b.dims and a.dtype == b.dtype and torch.equal(a.raw_tensor, b.raw_tensor)
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def test_the_page_has_rows():
    assert len(ROWS) > 60


@pytest.mark.parametrize(("code", "answer"), ROWS, ids=[code for code, _ in ROWS])
def test_a_row_of_the_page(names, code, answer):
    names = dict(names)
    if answer.startswith("works"):
        result = run(code, names)
        assert ":" not in answer or same(result, eval(answer.partition("`")[2].rstrip("`"), names))
        return
    with pytest.raises((DimError, AttributeError, TypeError)) as caught:
        run(code, names)
    said = str(caught.value)
    assert "\n" not in said or "convert_to_tensor" in answer
    for word in re.findall(r"`(.*?)`", answer):
        assert word in said
        with contextlib.suppress(SyntaxError, NameError):  # parts of code, and what the user has to fill in
            eval(word, names)


def test_what_is_said_exists():
    x = rf.ones([rf.Dim(2, name="time"), rf.Dim(3, name="feat")])
    tables = (torch_equivalents.METHODS, torch_equivalents.PROPERTIES)
    said = {name: answer(x) for table in tables for name, answer in table.items()}
    functions = {(name, function) for name, text in said.items() for function in re.findall(r"rf\.(\w+)", text)}
    assert len(functions) > 100
    assert [(name, function) for name, function in sorted(functions) if not hasattr(rf, function)] == []


def test_variables_are_called_as_in_the_code():
    frames, features = rf.Dim(5, name="time"), rf.Dim(3, name="feat")
    scores = rf.ones([frames, features])
    with pytest.raises(
        DimError, match=r"scores.sum\(0\) → rf.reduce_sum\(scores, axis=frames\), for scores {time:5, f"
    ):
        scores.sum(0)
    with pytest.raises(DimError, match=r"rf.relu\(scores\)"):
        torch.nn.functional.relu(scores)
    with pytest.raises(DimError, match=r"x.sum\(0\) → rf.reduce_sum\(x, axis=frames\)"):
        (scores + 1).sum(0)


def test_indexing_says_each_axis():
    a, b, c = (rf.Dim(n, name=name) for n, name in ((2, "a"), (3, "b"), (4, "c")))
    x = rf.convert_to_tensor(torch.randn(2, 3, 4), dims=[a, b, c])
    for key in ((0, slice(1, None), 2), (slice(None), slice(0, 2)), (Ellipsis, 1), (1, Ellipsis), (0, 1, 2)):
        with pytest.raises(DimError) as caught:
            x[key]
        way = re.search(r"→ (.*), for x", str(caught.value))[1]
        assert torch.equal(eval(way).raw_tensor, x.raw_tensor[key])


def test_backward_of_no_scalar_and_of_a_constant():
    x = rf.convert_to_tensor(torch.ones(3, requires_grad=True), dims=[rf.Dim(3, name="feat")])
    with pytest.raises(DimError, match="backward"):
        (x * x).backward()
    (x * x).backward(rf.ones_like(x))
    assert x.grad.dims == x.dims
    assert x.grad.raw_tensor.tolist() == [2.0, 2.0, 2.0]
    x.grad = None
    assert x.raw_tensor.grad is None
    with pytest.raises(BackendError, match="it depends on no trained tensor"):
        rf.reduce_sum(x.detach(), axis=x.dims).backward()


def test_the_gradient_of_a_value_in_between():
    x = rf.convert_to_tensor(torch.tensor(2.0, requires_grad=True), dims=[])
    y = x * x
    y.retain_grad()
    (y * 3.0).backward()
    assert (float(y.grad), float(x.grad)) == (3.0, 12.0)


def test_a_parameter_that_is_no_longer_trained():
    layer = rf.Linear(rf.Dim(2, name="a"), rf.Dim(2, name="b"))
    layer.weight.requires_grad_(False)
    assert not layer.weight.trainable
    assert len(rf.torch_parameters(layer)) == 1


@pytest.mark.parametrize(
    ("where", "dtype"),
    [("float16", "float16"), (torch.int32, "int32"), ("cpu", "float32"), (torch.device("cpu"), "float32")],
)
def test_to(where, dtype):
    assert rf.ones([]).to(where).dtype == dtype
    assert rf.ones([]).to(rf.ones([]).to(where)).dtype == dtype
    assert rf.ones([]).to(device="cpu", dtype=dtype).dtype == dtype


def test_types():
    x = rf.ones([])
    got = [getattr(x, name)().dtype for name in "float double half bfloat16 long int short byte bool".split()]
    assert got == "float32 float64 float16 bfloat16 int64 int32 int16 uint8 bool".split()


def test_an_index_is_a_whole_number():
    assert ["a", "b"][rf.convert_to_tensor(1)] == "b"
    with pytest.raises(DtypeError, match="an integer"):
        ["a", "b"][rf.convert_to_tensor(1.0)]


def test_in_a_loop_habits_are_ops_or_refused():
    time = rf.Dim(4, name="time")
    x = rf.convert_to_tensor(torch.arange(4.0), dims=[time])
    with rf.Loop(axis=time) as loop:
        y = loop.stack(loop.unstack(x).detach().double())
    assert y.raw_tensor.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert y.dtype == "float64"
    for habit in (lambda v: v.item(), lambda v: v.numpy(), float, np.asarray, lambda v: v.backward()):
        with pytest.raises(TraceError), rf.Loop(axis=time) as loop:
            habit(loop.unstack(x))
    with pytest.raises(DimError, match=r"rf.tanh\("), rf.Loop(axis=time) as loop:
        torch.tanh(loop.unstack(x))


def test_what_is_not_known_has_no_attribute():
    x = rf.ones([])
    assert not any(hasattr(x, name) for name in ("shape", "T", "foo", "__len_hint__", "_repr_svg_"))


def test_arguments_that_torch_does_not_know_either():
    x = rf.ones([rf.Dim(3, name="feat")])
    with pytest.raises(DimError, match=r"x.topk\(1, 2, 3, 4, foo=5\) → rf.top_k\(x, axis=…, k=1\)"):
        x.topk(1, 2, 3, 4, foo=5)
    with pytest.raises(DimError, match=r"x.clamp\(foo=5\) → rf.clip_by_value\(x, None, None\)"):
        x.clamp(foo=5)


def test_numpy_builds_no_array_of_objects():
    x = rf.ones([rf.Dim(4, name="feat")])
    for combine in (lambda: np.ones(4) * x, lambda: np.ones(4) + x, lambda: torch.ones(4) - x):
        with pytest.raises(DtypeError, match="convert_to_tensor"):
            combine()
    assert same(np.float64(2) * x, x * 2.0)
    assert same(torch.tensor(1.0) == x, x == 1.0)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_numpy_keeps_the_type(dtype):
    x = rf.zeros([rf.Dim(2, name="two")], dtype=dtype)
    assert np.asarray(x).dtype == dtype
    assert np.asarray(x, dtype="float64").dtype == "float64"


def test_methods_of_a_raw_tensor_say_how_to_give_it():
    feat = rf.Dim(3, name="feat")
    x, number = rf.zeros([feat]), rf.convert_to_tensor(2.0, name="number")
    raw, ones = torch.zeros(3), torch.ones(3)
    of_x, of_number = " → x.raw_tensor, for x {feat:3}", " → float(number), or number.raw_tensor, for number {}"

    def one_entry(key, value):
        raw[key] = value

    def in_place():
        nonlocal raw
        raw += x

    for call, said in (
        (lambda: raw.copy_(x), "raw.copy_(x)" + of_x),
        (lambda: raw.expand_as(x), "raw.expand_as(x)" + of_x),
        (lambda: raw.fill_(number), "raw.fill_(number)" + of_number),
        (lambda: raw.add_(ones, alpha=number), "raw.add_(ones, alpha=number)" + of_number),
        (lambda: raw.index_put_((torch.tensor([0]),), number), of_number),
        (lambda: one_entry(0, number), "= value → float(value), or value.raw_tensor, for value {}"),
        (lambda: one_entry(slice(1, 2), number), "[1:2] = value"),
        (lambda: raw[x], "raw[x]" + of_x),
        (in_place, "raw.add_(x)" + of_x),
    ):
        with pytest.raises(DimError) as error:
            call()
        assert said in str(error.value)
    assert not raw.any()


def test_a_raw_number_is_an_operand():
    x, total = rf.convert_to_tensor(2.0), torch.tensor(1.0)
    assert [float(y) for y in (total + x, total * x, total - x, total / x, total // x, total**x)] == [
        3,
        2,
        -1,
        0.5,
        0,
        1,
    ]
    total += x
    assert isinstance(total, rf.Tensor) and float(total) == 3.0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_a_rate_of_torch_is_a_number(optimizer):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    optimizer = optimizer([parameter], lr=1.0)
    torch.optim.lr_scheduler.LambdaLR(optimizer, rf.PiecewiseLinear({0: 0.5}))
    with pytest.raises(DimError, match=r"→ float\(x\), or x.raw_tensor, for x {}"):
        optimizer.step()
    assert (parameter == 1).all()


def test_functions_of_torch_that_call_methods_take_raw_tensors():
    weight, loss = rf.Parameter([rf.Dim(2, name="in"), rf.Dim(3, name="out")]), rf.convert_to_tensor(2.0)
    init = torch.nn.init
    for function in (init.zeros_, init.ones_, init.eye_, init.orthogonal_, init.trunc_normal_, init.kaiming_normal_):
        with pytest.raises((DimError, AttributeError), match=r"→ torch.nn.init takes weight.raw_tensor"):
            function(weight)
    with pytest.raises(DimError, match=r"→ torch.nn.init.uniform_\(weight.raw_tensor, …\)"):
        init.uniform_(weight)
    with pytest.raises(DimError, match=r"len\(loss\) → float\(loss\)"):
        torch.tensor([loss, loss])


def test_the_standard_deviation_that_is_said_is_that_of_torch():
    time, feat = rf.Dim(None, name="time"), rf.Dim(4, name="feat")
    x = rf.convert_to_tensor(torch.randn(2, 5, 4), dims=[rf.batch_dim, time, feat], lengths=[5, 3])
    for options in ({"dim": 1}, {"dim": 1, "unbiased": False}, {"dim": 1, "correction": 0}, {"axis": 1, "ddof": 0}):
        with pytest.raises(DimError) as error:
            x.std(**options)
        code = re.search(r"→ (.*), for x", str(error.value)).group(1)
        y = eval(code).copy_transpose([rf.batch_dim, feat]).raw_tensor
        for row, length in enumerate([5, 3]):
            torch.testing.assert_close(y[row], x.raw_tensor[row, :length].std(dim=0, correction=len(options) == 1))
