"""Parameters: what they are made of, and how their values are set."""

from __future__ import annotations

import contextlib
import copy
import itertools

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core.ground.backends import backend_of_raw
from rfnb.errors import DimError, DtypeError, ParameterError

rows, cols, deep, some = (rf.Dim(n, name=name) for n, name in [(3, "rows"), (5, "cols"), (2, "deep"), (2, "some")])


def zeros():
    return rf.Parameter([rows, cols, deep])


INITIAL = {
    "number": 2.0,
    "array": np.full((3, 5), 2.0),
    "list": [[2.0] * 5] * 3,
    "tensor": rf.ones([cols, rows]) * 2.0,
    "some dims": rf.ones([cols]) * 2.0,
    "function": lambda dims, dtype: rf.full(dims=dims, fill_value=2.0, dtype=dtype),
    "initializer of numbers": lambda dims, dtype: np.full([d.dimension for d in dims], 2.0),
}


@pytest.mark.parametrize("initial", INITIAL)
def test_the_initial_value_may_be(initial):
    param = rf.Parameter([rows, cols], initial=INITIAL[initial])
    assert (param.raw_tensor == 2).all() and param.raw_tensor.shape == (3, 5) and param.initial is INITIAL[initial]
    param.initial = None
    assert (param.raw_tensor == 0).all()


def test_what_a_parameter_is_made_of():
    x = rf.convert_to_tensor([1, 2], dims=[some], sparse_dim=cols, dtype="int32")
    param = rf.Parameter(x)
    assert (param.dims, param.dtype, param.sparse_dim, param.trainable) == ((some,), "int32", cols, False)
    assert param.raw_tensor.tolist() == [1, 2] and param.raw_tensor is not x.raw_tensor
    made = rf.Parameter(dims=[some], dtype="float64", auxiliary=True, weight_decay=None, non_critical_for_restore=True)
    assert (made.trainable, made.weight_decay, made.non_critical_for_restore) == (False, None, True)
    made.trainable, made.weight_decay = True, 0.1
    assert made.raw_tensor.requires_grad and made.weight_decay == 0.1
    raw = torch.nn.Parameter(torch.ones(2))
    assert rf.Parameter([some], raw_tensor=raw, trainable=False).raw_tensor is raw and not raw.requires_grad


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rf.Parameter([rf.Dim(None)]), "fixed size"),
        (lambda: rf.Parameter([some], raw_tensor=torch.ones(3)), "does not match the dims"),
        (lambda: rf.Parameter([some], "float64", raw_tensor=torch.ones(2)), "has the wrong dtype"),
        (lambda: rf.Parameter([some], "int32", trainable=True), "only float and complex values"),
        (lambda: rf.Parameter([some], initial=np.ones(3)), "a different shape"),
        (lambda: rf.Parameter([some], initial=rf.ones([rows])), "has no dim rows"),
        (lambda: backend_of_raw(zeros().raw_tensor).parameter_assign(zeros(), 1.0, op="mul"), "unknown `op`"),
    ],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


KEYS = {"number": 1, "last": -1, "slice": slice(0, 2), "back": slice(None, 0, -1), "indices": [2, 0]}


@pytest.mark.parametrize("op", ["assign", "add"])
@pytest.mark.parametrize(
    "named", [{axis: key} for axis in ("rows", "cols", "deep") for key in KEYS if (axis, key) != ("deep", "indices")]
    + [{"rows": a, "deep": b} for a, b in itertools.product(["number", "slice", "indices"], ["number", "slice"])]
    + [{"deep": "slice", "cols": "indices"}, {"cols": "number", "rows": "slice"}], ids=str,
)  # fmt: skip
def test_assign_key_is_that_of_numpy(op, named):
    by_name = {"rows": rows, "cols": cols, "deep": deep}
    param = zeros()
    param.assign(1.0)
    values, keys, key_dims, index, dims = np.ones((3, 5, 2)), [], [], [slice(None)] * 3, {}
    for name, key in named.items():
        axis, at = by_name[name], KEYS[key]
        new = rf.Dim(
            None if isinstance(at, int) else len(range(axis.dimension)[at]) if isinstance(at, slice) else len(at)
        )
        keys.append(rf.convert_to_tensor(at, dims=[new]) if isinstance(at, list) else at)
        key_dims.append(None if isinstance(at, int) else new)
        index[param.axis(axis)] = np.arange(axis.dimension)[at]
        dims[axis] = key_dims[-1]
    out = [dims.get(dim, dim) for dim in param.dims]
    index = np.ix_(*[np.atleast_1d(np.arange(n)[i]) for i, n in zip(index, (3, 5, 2), strict=True)])
    shape = values[index].shape
    new_values = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    values[index] = new_values if op == "assign" else values[index] + new_values
    squeezed = new_values.reshape([n for n, dim in zip(shape, out, strict=True) if dim is not None])
    value = rf.convert_to_tensor(squeezed, dims=[d for d in out if d is not None], dtype="float32")
    value = value.copy_transpose(value.dims[::-1])
    param.assign_key([by_name[name] for name in named], keys, key_dims, value, op=op)
    np.testing.assert_array_equal(param.raw_tensor.detach().numpy(), values)


def test_indices_that_share_a_dim_go_together():
    param = zeros()
    at_rows, at_cols = (rf.convert_to_tensor(i, dims=[some], sparse_dim=d) for i, d in (([2, 0], rows), ([4, 1], cols)))
    param.assign_key(None, [at_rows, at_cols], None, rf.range_over_dim(some, dtype="float32") + 1.0)
    expected = torch.zeros(3, 5, 2)
    expected[2, 4], expected[0, 1] = 1.0, 2.0
    assert torch.equal(param.raw_tensor, expected)


def test_indices_for_each_row_of_the_parameter():
    param = rf.Parameter([rows, cols])
    param.assign_key(cols, rf.convert_to_tensor([4, 0, 2], dims=[rows]), None, 1.0)
    assert torch.equal(param.raw_tensor, torch.eye(5)[[4, 0, 2]])


def test_each_of_several_values_for_one_place_is_added():
    param = rf.Parameter([rows, cols])
    twice = rf.convert_to_tensor([1, 1], dims=[some], sparse_dim=rows, dtype="int32")
    param.assign_key(None, twice, None, rf.range_over_dim(some, dtype="float32") + 1.0, op="add")
    assert param.raw_tensor[1].tolist() == [3.0] * 5 and param.raw_tensor.sum() == 15


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.assign_key(None, 1, None, 0.0), ParameterError, "`axis` is missing"),
        (lambda p: p.assign_key(some, 1, None, 0.0), DimError, "has no dim some"),
        (lambda p: p.assign_key(rows, 3, None, 0.0), ParameterError, "rows has no entry 3"),
        (lambda p: p.assign_key([rows, cols], [1], None, 0.0), ParameterError, "number of `axis` differs"),
        (lambda p: p.assign_key(rows, slice(0, 3), some, 0.0), ParameterError, "different size than `key_dim`"),
        (lambda p: p.assign_key(rows, 1, None, rf.ones([some])), ParameterError, "has no dim some"),
        (lambda p: p.assign_key(rows, rf.ones([some]), None, 0.0), DtypeError, "must be integers"),
        (
            lambda p: p.assign_key(rows, rf.full(dims=[some], fill_value=7), None, 0.0),
            DimError,
            "7 is not an index of rows",
        ),
        (lambda p: p.assign_key(rows, 1, None, 0.0, op="mul"), ParameterError, "unknown `op`"),
    ],
)
def test_a_key_that_does_not_fit_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call(zeros())


def layer():
    made = rf.Linear(rows, cols)
    made.bias.initial = 3.0
    made.bias.assign(5.0)
    made.bias.auxiliary, made.bias.trainable, made.weight.weight_decay = True, False, 0.1
    return made


@pytest.mark.parametrize(("mode", "bias"), [(None, 5.0), ("copy", 5.0), ("initial", 3.0), ("share", 5.0)])
def test_what_a_copy_of_a_module_has_for_parameters(mode, bias):
    one = layer()
    with contextlib.nullcontext() if mode is None else rf.set_parameter_copy_behavior_ctx(mode):
        two = copy.deepcopy(one)
    assert (two.weight is one.weight) is (mode == "share")
    assert torch.equal(two.weight.raw_tensor, one.weight.raw_tensor) is (mode != "initial")
    assert (two.bias.raw_tensor == bias).all() and (one.bias.raw_tensor == 5).all()
    assert (two.bias.auxiliary, two.bias.trainable, two.weight.weight_decay) == (True, False, 0.1)
    assert two.weight.dims == one.weight.dims
    if mode != "share":
        assert copy.copy(one.weight).raw_tensor is not one.weight.raw_tensor


def test_what_was_shared_is_shared_in_the_copy():
    module = rf.ModuleList(layer(), layer())
    module[1].weight = module[0].weight
    other = copy.deepcopy(module)
    assert other[1].weight is other[0].weight is not module[0].weight


def test_another_way_to_copy_is_told():
    with pytest.raises(ParameterError, match="unknown `mode`"), rf.set_parameter_copy_behavior_ctx("deep"):
        pass
    assert copy.deepcopy(layer()).weight is not layer().weight


def test_moved_in_place():
    param = zeros()
    raw = param.raw_tensor
    param.to(dtype="float64")
    assert param.raw_tensor is raw and param.dtype == "float64" and raw.dtype == torch.float64
    backend_of_raw(raw).parameter_move_to(param, device="cpu", dtype="float32")
    assert param.dtype == "float32"


def test_a_place_is_set_at_every_step_of_a_loop_and_not_by_its_trial():
    time = rf.Dim(3, name="time")
    places = rf.convert_to_tensor([2, 2, 0], dims=[time], sparse_dim=rows)
    count = rf.Parameter([rows], auxiliary=True)
    with rf.Loop(axis=time) as loop:
        count.assign_key(None, loop.unstack(places), None, 1.0, op="add")
        loop.stack(rf.ones([]))
    assert count.raw_tensor.tolist() == [1.0, 0.0, 2.0]


def test_gradients_are_clipped_by_torch():
    model = rf.Linear(rows, cols)
    weight, bias = raws = [param.raw_tensor for param in model.parameters()]
    weight.grad, bias.grad = torch.full_like(weight, 3.0), torch.full_like(bias, -4.0)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert norm.item() == pytest.approx((15 * 9 + 5 * 16) ** 0.5)
    assert torch.cat([raw.grad.flatten() for raw in raws]).norm().item() == pytest.approx(1.0, abs=1e-5)
    torch.nn.utils.clip_grad_value_(list(model.parameters()), 0.1)
    assert weight.grad.unique().item() == pytest.approx(0.1) and bias.grad.unique().item() == pytest.approx(-0.1)
    assert model.weight.grad.dims == (rows, cols)


def test_a_raw_tensor_that_would_end_the_training_is_refused():
    """`p.data = …` of torch keeps the parameter in its optimizer; this would not."""
    parameter = rf.Parameter([rows], initial=1.0)
    raw = parameter.raw_tensor
    with pytest.raises(ParameterError, match=r"(?s)would not be trained any more.*parameter\.assign\(…\)"):
        parameter.raw_tensor = torch.zeros(3)
    assert parameter.raw_tensor is raw and parameter.trainable
    parameter.raw_tensor = torch.nn.Parameter(torch.zeros(3))
    assert parameter.trainable
    frozen = rf.Parameter([rows], trainable=False)
    frozen.raw_tensor = torch.ones(3)
    assert frozen.tolist() == [1.0, 1.0, 1.0]
