"""weighted_sum over windows and cumsum, against plain numpy."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import NetworkError
from tests.netdict.layers.ragged import FEW, LENGTHS, drawn, parts_of


def built(**options):
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    return net.construct_from_dict({"output": {"class": "weighted_sum", "from": "data", **options}})


@FEW
@given(LENGTHS, st.integers(1, 4), st.sampled_from(["same", "valid"]))
def test_over_windows(lengths, size, padding):
    x, net = drawn(lengths), built(axes="T", size=(size,), padding=padding)
    net.set_param_values_by_dict({"output": {"W": (w := np.arange(1.0, size + 1))}})
    before = (size - 1) // 2
    for found, row, length in zip(
        parts_of(net, net.forward({"data": (x, lengths)})["output"]), x, lengths, strict=True
    ):
        if padding == "same":
            row = np.concatenate([np.zeros((before, 3)), row, np.zeros((size, 3))])
        count = length if padding == "same" else max(length - size + 1, 0)
        expected = [(row[i : i + size] * w[:, None]).sum(0) for i in range(count)]
        np.testing.assert_allclose(found, np.reshape(expected, (count, 3)), rtol=1e-4, atol=1e-5)


def test_over_two_axes():
    x, net = drawn([5]), built(axes=["T", "F"], size=(2, 2))
    w = np.array([[1.0, 2.0], [3.0, 4.0]])
    net.set_param_values_by_dict({"output": {"W": w}})
    found = parts_of(net, net.forward({"data": (x, [5])})["output"])[0]
    expected = [[(x[0, i : i + 2, j : j + 2] * w).sum() for j in range(2)] for i in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert net.template("output").feature_dim.dimension == 2


def test_a_whole_axis_is_a_window_too():
    net = built(axes="F", keep_dims=True)
    x = drawn([4, 2])
    found = parts_of(net, net.forward({"data": (x, [4, 2])})["output"])
    np.testing.assert_allclose(found[1], x[1, :2].mean(-1, keepdims=True), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{"size": (2, 3), "axes": "T"}, {"axes": "T"}, {"axes": "T", "keep_dims": True}])
def test_sizes_are_checked(options):
    with pytest.raises(NetworkError, match="weighted_sum"):
        built(**options)


@FEW
@given(LENGTHS, st.sampled_from([None, 0, 2, -1.5, "zeros", "ones"]), st.booleans(), st.booleans(), st.booleans())
def test_cumsum_begins_with_its_initial_output(lengths, initial, in_loop, moved, masked):
    x, layer = drawn(lengths), {"class": "cumsum", "from": "data", "initial_output": initial}
    if in_loop and masked:
        mask = {"class": "compare", "kind": "greater", "value": 0.0, "from": "score"}
        score = {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"}
        layer = {"class": "masked_computation", "mask": "mask", "from": "data", "unit": layer}
        unit = {"score": score, "mask": mask, "output": layer}
    else:
        unit = {"output": {**layer, "axis": "T"}}
    if in_loop:
        unit = {"output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": moved}}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}})).construct_from_dict(unit)
    out = net.forward({"data": (x, lengths)})["output"]
    dims = [rf.batch_dim, next(dim for dim in out.dims if dim.is_dynamic() and not dim.is_batch_dim())]
    found = out.copy_transpose([*dims, out.feature_dim]).raw_tensor.detach().numpy()
    first = {None: 0, "zeros": 0, "ones": 1}.get(initial, initial)
    for row, y, n in zip(x, found, lengths, strict=True):
        taken = row[:n].sum(1, keepdims=True) > 0 if in_loop and masked else 1
        np.testing.assert_allclose(y[:n], first + np.cumsum(row[:n] * taken, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("moved", [True, False])
def test_cumsum_may_begin_with_a_layer_or_what_is_trained(moved):
    x, lengths = drawn([4, 2, 0]), [4, 2, 0]
    for initial in ("base:mean", "var"):
        unit = {"output": {"class": "cumsum", "from": "data", "initial_output": initial}}
        unit["output"]["additional_left_summand_per_element"] = 0.5
        net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
        net.construct_from_dict({
            "mean": {"class": "reduce", "mode": "sum", "axis": "T", "from": "data"},
            "output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": moved},
        })  # fmt: skip
        if initial == "var":
            net.get_layer("output/output").params["init_output_var"].assign(np.array([1.0, 2.0, 3.0], "float32"))
        out = net.forward({"data": (x, lengths)})["output"]
        found = out.copy_transpose([rf.batch_dim, net.template("output").dims[0], out.feature_dim]).raw_tensor
        for row, y, n in zip(x, found.detach().numpy(), lengths, strict=True):
            first = [1.0, 2.0, 3.0] if initial == "var" else row[:n].sum(0)
            np.testing.assert_allclose(y[:n], first + np.cumsum(row[:n] + 0.5, 0), rtol=1e-4, atol=1e-5)
