"""Loops as functions give what a plain Python loop gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, LoopError

time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")


def batch(lengths: list[int]) -> rf.Tensor:
    rows = [np.random.default_rng(n).normal(size=(n, 2)).astype("float32") for n in lengths]
    return rf.convert_to_tensor(rows, dims=[batch_dim, time, feat])


def looking(x: rf.Tensor) -> None:
    """Asks for a value, which no traced body may."""
    float(rf.reduce_sum(x, axis=x.dims))


def by_hand(x: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    h, outputs = np.zeros(2, "float32"), []
    for frame in x[:length]:
        h = np.tanh(h + frame)
        outputs.append(h * 2)
    return np.stack(outputs) if outputs else np.zeros((0, 2)), h


@pytest.mark.parametrize("eager", [False, True])
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any))
def test_scan_over_frames(eager, lengths):
    x = batch(lengths)

    def body(frame: rf.Tensor, h: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
        if eager:
            looking(frame)
        h = rf.tanh(h + frame)
        return h * 2.0, h

    outputs, last, dim = rf.scan(spatial_dim=time, xs=x, initial=rf.zeros([batch_dim, feat]), body=body)
    assert dim is time
    outputs, last = outputs.copy_transpose([batch_dim, time, feat]), last.copy_transpose([batch_dim, feat])
    for i, n in enumerate(lengths):
        expected, h = by_hand(x.numpy()[i], n)
        np.testing.assert_allclose(outputs.numpy()[i, :n], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last.numpy()[i], h, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("before", [True, False])
def test_scan_as_long_as_a_condition_holds(eager, before):
    limit = rf.convert_to_tensor(np.array([4.0, 2.0], "float32"), dims=[batch_dim])

    def body(_: None, n: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
        if eager:
            looking(n)
        return n, n + 1.0

    numbers, last, dim = rf.scan(
        initial=rf.zeros([batch_dim]),
        cond=lambda _, n: n < limit,
        cond_dims=[batch_dim],
        cond_before_body=before,
        body=body,
        ys=rf.Tensor("n", [batch_dim], "float32"),
    )
    assert dim.size.values.tolist() == [4, 2]
    assert last.raw_tensor.tolist() == [4.0, 2.0]
    assert numbers.copy_transpose([batch_dim, dim]).raw_tensor[0].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("longest", [3, "tensor"])
@pytest.mark.parametrize("eager", [False, True])
def test_scan_takes_no_more_steps_than_allowed(eager, longest):
    per_sequence = rf.convert_to_tensor(np.array([3, 1]), dims=[batch_dim])

    def body(_: None, n: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
        if eager:
            looking(n)
        return n, n + 1.0

    _, last, dim = rf.scan(initial=rf.zeros([batch_dim]), body=body, max_seq_len=3 if longest == 3 else per_sequence)
    expected = [3.0, 3.0] if longest == 3 else [3.0, 1.0]
    assert last.raw_tensor.tolist() == expected
    assert np.broadcast_to(dim.size.values, 2).tolist() == expected


def test_scan_with_structures_and_without_state():
    x = batch([3, 2])
    outputs, state, _ = rf.scan(
        spatial_dim=time, xs={"a": x, "b": x * 2.0}, body=lambda x, s: ((x["a"] + x["b"], x["a"]), s)
    )
    assert state is None
    np.testing.assert_allclose(outputs[0].copy_transpose(x.dims).numpy()[1, :2], 3 * x.numpy()[1, :2], rtol=1e-5)
    arrays, _, _ = rf.scan(spatial_dim=time, xs=x, body=lambda x, s: (x, s), return_tensor_arrays=True)
    assert isinstance(arrays, rf.TensorArray)
    assert len(arrays) == 3


ITEMS = rf.Dim(3, name="items")
BEAM = rf.Dim(1, name="beam")
SEARCH = {"state": rf.zeros([ITEMS, BEAM]), "dim": BEAM}
MAKE = {"y": rf.Tensor("y", [ITEMS, BEAM], "float32")}


def searched(x, state):
    """Two hypotheses, under a dim of this step."""
    beam = rf.Dim(2, name="beam")
    y = rf.reduce_mean(state["state"] + x, axis=state["dim"]) * rf.range_over_dim(beam, dtype="float32")
    return {"y": y}, {"state": y, "dim": beam}


def items(lengths=None):
    """{items, steps} of 0 to 8"""
    steps = rf.Dim(3, name="steps")
    if lengths is not None:
        steps = rf.Dim(rf.convert_to_tensor(lengths, dims=[ITEMS], dtype="int32"), name="steps")
    return rf.convert_to_tensor(torch.arange(9.0).view(3, 3), dims=[ITEMS, steps]), steps


@pytest.mark.parametrize("ys", [None, MAKE])
def test_scan_with_a_dim_that_changes_from_step_to_step(ys):
    x, steps = items()
    how = {"spatial_dim": steps, "xs": x, "initial": SEARCH, "body": searched, "return_tensor_arrays": True}
    arrays, last, dim = rf.scan(ys=ys, **how)
    assert dim is steps and len(arrays["y"]) == 3
    assert last["dim"].dimension == 2 and last["state"].dims == arrays["y"][-1].dims == (ITEMS, last["dim"])
    assert arrays["y"][-1].raw_tensor.tolist() == [[0.0, 2.5], [0.0, 7.75], [0.0, 13.0]]
    with pytest.raises(DimError, match=r"stack: .* has different dims"):
        arrays["y"].stack(axis=steps)


def test_scan_whose_outputs_have_the_dims_of_the_step_before():
    x, steps = items()
    grown = []

    def body(frame, state):
        grown.append(state["dim"])
        longer, dim = rf.concat((state["state"], state["dim"]), (rf.expand_dim(frame, BEAM), BEAM))
        return state["state"], {"state": longer, "dim": dim}

    initial = {"state": rf.zeros([ITEMS, BEAM]), "dim": BEAM}
    arrays, last, _ = rf.scan(spatial_dim=steps, xs=x, initial=initial, body=body, return_tensor_arrays=True)
    assert [y.dims[-1].dimension for y in arrays] == [1, 2, 3] and last["dim"].dimension == 4
    assert last["state"].raw_tensor.tolist() == [[0.0, 0, 1, 2], [0, 3, 4, 5], [0, 6, 7, 8]]


def test_scan_keeps_the_dim_of_a_sequence_that_has_ended():
    x, steps = items([3, 1, 2])
    _, last, _ = rf.scan(spatial_dim=steps, xs=x, initial=SEARCH, body=searched, return_tensor_arrays=True)
    found = last["state"].copy_transpose([ITEMS, last["dim"]])
    for i, n in enumerate([3, 1, 2]):
        state = {"state": rf.zeros([BEAM]), "dim": BEAM}
        for number in range(n):
            _, state = searched(rf.gather(rf.gather(x, axis=ITEMS, indices=i), axis=steps, indices=number), state)
        assert found.raw_tensor[i].tolist() == state["state"].raw_tensor.tolist()


def test_scan_by_a_condition_with_a_dim_that_changes():
    limit = rf.convert_to_tensor(np.array([3, 3, 3]), dims=[ITEMS])

    def body(_, state):
        beam = rf.Dim(2, name="beam")
        y = rf.reduce_sum(state["state"], axis=state["dim"]) + rf.range_over_dim(beam)
        return y, {"state": y, "dim": beam, "n": state["n"] + 1}

    arrays, last, dim = rf.scan(
        initial={"state": rf.zeros([ITEMS, BEAM], dtype="int64"), "dim": BEAM, "n": rf.zeros([ITEMS], dtype="int64")},
        cond=lambda _, state: state["n"] < limit, cond_dims=[ITEMS], body=body, return_tensor_arrays=True,
    )  # fmt: skip
    assert len(arrays) == 3 and dim.size.max == 3
    assert last["state"].copy_transpose([ITEMS, last["dim"]]).raw_tensor[0].tolist() == [3, 4]


def test_scan_without_steps_gives_empty_arrays():
    none = rf.Dim(0, name="none")
    how = {"spatial_dim": none, "xs": rf.zeros([ITEMS, none]), "initial": SEARCH, "body": searched}
    arrays, last, _ = rf.scan(ys=MAKE, return_tensor_arrays=True, **how)
    assert len(arrays["y"]) == 0 and last["dim"] is BEAM


def test_scan_without_outputs_in_tensor_arrays():
    x, steps = items()
    arrays, last, _ = rf.scan(
        spatial_dim=steps, xs=x, initial=rf.zeros([ITEMS]), body=lambda x, s: (None, s + x), return_tensor_arrays=True
    )
    assert arrays is None and last.raw_tensor.tolist() == [3.0, 12.0, 21.0]


def test_scan_of_a_single_step():
    output, state, dim = rf.scan(
        spatial_dim=rf.single_step_dim, xs=rf.ones([feat]), initial=rf.ones([feat]), body=lambda x, s: (x, x + s)
    )
    assert dim is rf.single_step_dim
    assert output.dims == state.dims == (feat,)


def test_scan_gives_gradients():
    x = batch([3, 1])
    rf.set_requires_gradient(x)
    _, last, _ = rf.scan(spatial_dim=time, xs=x, initial=rf.ones([batch_dim, feat]), body=lambda x, s: (None, s * x))
    [gradient] = torch.autograd.grad(last.raw_tensor.sum(), x.raw_tensor)
    raw = x.raw_tensor.detach()
    torch.testing.assert_close(gradient[0, 0], raw[0, 1] * raw[0, 2])
    assert gradient[1, 0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"body": lambda x, s: (x, s)}, LoopError, "number of steps"),
        ({"ys": rf.Tensor("y", [feat], "float32")}, DimError, "`ys` has different dims"),
        ({"cond": lambda x, s: x > 0.0, "cond_dims": [batch_dim]}, DimError, "`cond` has different dims"),
    ],
)
def test_scan_refuses_what_does_not_fit(arguments, error, text):
    x = batch([3, 1])
    given_: dict[str, Any] = {"body": lambda x, s: (x, s)}
    if "body" not in arguments:
        given_ |= {"spatial_dim": time, "xs": x}
    with pytest.raises(error, match=text):
        rf.scan(**{**given_, **arguments})


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("first", [0, 1, 7, 200])
def test_while_loop(eager, first):
    def body(state: dict[str, rf.Tensor]) -> dict[str, rf.Tensor]:
        if eager:
            int(state["n"])
        return {"n": state["n"] * 3, "steps": state["steps"] + 1}

    expected, steps = max(first, 1), 0
    while expected < 100:
        expected, steps = expected * 3, steps + 1
    start = {"n": rf.convert_to_tensor(max(first, 1)), "steps": rf.convert_to_tensor(0)}
    final = rf.while_loop(lambda state: state["n"] < 100, body, start)
    assert (final["n"].item(), final["steps"].item()) == (expected, steps)


def test_the_body_never_sees_a_state_that_the_condition_refuses():
    picks = rf.Dim(3, name="picks")
    table = rf.convert_to_tensor([5.0, 7.0, 9.0], dims=[picks])

    def body(state):
        i, total = state
        return i + 1, total + rf.gather(table, indices=i, axis=picks)  # behind the table, this would raise an error

    start = (rf.constant(0, dims=()), rf.constant(0.0, dims=()))
    i, total = rf.while_loop(lambda state: state[0] < picks.get_dim_value_tensor(), body, start)
    assert (i.item(), total.item()) == (3, 21.0)


@pytest.mark.parametrize("lengths", [[3, 1], [3, 3, 2], [1]])
def test_the_body_of_a_scan_never_sees_a_state_that_the_condition_refuses(lengths):
    values = [[5.0, 7.0, 9.0][:n] for n in lengths]
    time = rf.Dim(None, name="time")
    table = rf.convert_to_tensor(values, dims=[batch_dim, time])
    start = rf.zeros([batch_dim], dtype="int64"), rf.zeros([batch_dim])
    sums, (_, total), steps = rf.scan(
        initial=start,
        cond=lambda _, state: state[0] < time.get_size_tensor(),
        cond_dims=[batch_dim],
        body=lambda _, state: (state[1], (state[0] + 1, state[1] + rf.gather(table, indices=state[0], axis=time))),
    )
    assert total.raw_tensor.tolist() == [sum(each) for each in values]
    assert steps.get_size_tensor().raw_tensor.tolist() == lengths
    raw = sums.copy_compatible_to_dims_raw([batch_dim, steps]).tolist()
    assert [row[:n] for row, n in zip(raw, lengths, strict=True)] == [
        [sum(each[:i]) for i in range(len(each))] for each in values
    ]


def test_while_loop_with_numbers_of_python():
    assert rf.while_loop(lambda n: n < 5, lambda n: n + 2, 0) == 6
    with pytest.raises(LoopError, match="a different structure"):
        rf.while_loop(lambda s: len(s) < 5, lambda s: (*s, 1), (0,))


def test_while_loop_in_a_loop_runs_no_step_that_the_condition_refuses():
    steps, table = rf.convert_to_tensor([1, 2, 1, 1], dims=[rf.Dim(4, name="entry")]), [1, 2, 1, 1]
    time, seen = rf.Dim(3, name="time"), []

    def step(at: rf.Tensor) -> rf.Tensor:
        rf.raw_call(lambda raw: (seen.append(int(raw)), raw)[1], at, out_dims=[])
        return at + rf.gather(steps, indices=at, axis=steps.dims[0])  # an error if `at` is after the last entry

    loop = rf.Loop(axis=time)
    with loop:
        start = loop.unstack(rf.convert_to_tensor([1, 0, 9], dims=[time]))
        found = loop.stack(rf.while_loop(lambda at: at < 4, step, start))

    def alone(at: int) -> int:
        while at < 4:
            at += table[at]
        return at

    assert found.raw_tensor.tolist() == [alone(1), alone(0), 9]
    assert max(seen) < 4


def test_while_loop_inside_of_a_loop():
    x = batch([3, 3])

    def halved(frame: rf.Tensor) -> rf.Tensor:
        return rf.while_loop(lambda v: rf.reduce_max(v, axis=v.dims) > 0.1, lambda v: v * 0.5, frame)

    loop = rf.Loop(axis=time)
    with loop:
        out = loop.stack(halved(rf.abs(loop.unstack(x))))
    for t in range(3):
        expected = np.abs(x.numpy()[:, t])
        while expected.max() > 0.1:
            expected = expected * 0.5
        np.testing.assert_allclose(out.copy_transpose(x.dims).numpy()[:, t], expected, rtol=1e-6)


def test_tensor_array():
    template = rf.Tensor("x", [feat], "float32")
    array = rf.TensorArray(template)
    longer = array.push_back(rf.zeros([feat])).push_back(rf.ones([feat]))
    assert (len(array), len(longer)) == (0, 2)
    steps = rf.Dim(None, name="steps")
    assert longer.stack(axis=steps).dims == (steps, feat)
    assert steps.size.max == 2
    assert longer[-1].raw_tensor.tolist() == longer[rf.convert_to_tensor(1)].raw_tensor.tolist() == [1.0, 1.0]
    assert rf.TensorArray.unstack(longer.stack(axis=steps), axis=steps)[0].dims == (feat,)
    assert array.stack(axis=rf.Dim(None, name="none")).raw_tensor.shape == (0, 2)
    with pytest.raises(DimError, match="no tensor 2"):
        longer[2]
    with pytest.raises(DimError, match="different dims"):
        longer.push_back(rf.zeros([time]) if time.is_defined() else rf.zeros([]))
    with pytest.raises(rf.errors.DtypeError):
        longer.push_back(rf.zeros([feat], dtype="int64"))
    with pytest.raises(DimError, match="different size"):
        longer.stack(axis=rf.Dim(3, name="three"))


def test_what_is_behind_the_longest_sequence_is_not_stacked():
    """A search does one step more, in which the last hypothesis ends: its label is not in the lengths."""
    batch = rf.Dim(2, name="batch")
    array = rf.TensorArray(rf.Tensor("label", [batch], "int64"))
    for number in range(4):
        array = array.push_back(rf.full(dims=[batch], fill_value=number, dtype="int64"))
    out = rf.Dim(rf.convert_to_tensor([3, 1], dims=[batch], dtype="int32"), name="out")
    stacked = array.stack(axis=out)
    assert stacked.raw_tensor.tolist() == [[0, 0], [1, 1], [2, 2]] and stacked.dims == (out, batch)
    with pytest.raises(DimError, match="stack: long has a different size"):
        array.stack(axis=rf.Dim(rf.convert_to_tensor([5, 1], dims=[batch], dtype="int32"), name="long"))


def test_indices_may_point_at_what_was_not_stacked():
    """A search that goes back through its steps from the last one, which none of the sequences counts."""
    batch = rf.Dim(2, name="batch")
    array = rf.TensorArray(rf.Tensor("parents", [batch], "float32"))
    for number in range(5):
        array = array.push_back(rf.full(dims=[batch], fill_value=float(number)))
    out = rf.Dim(rf.convert_to_tensor([3, 2], dims=[batch], dtype="int32"), name="out")
    stacked = array.stack(axis=out)
    turned = rf.gather(stacked, indices=4 - rf.range_over_dim(out), axis=out)
    assert turned.dims == (out, batch) and turned.copy_transpose([batch, out]).raw_tensor.tolist() == [[4, 3, 2]] * 2
    assert rf.reduce_sum(turned, axis=out).raw_tensor.tolist() == [9, 7]
    assert rf.gather(stacked, indices=4, axis=out).raw_tensor.tolist() == [4, 4]
    assert rf.gather(stacked, indices=-1, axis=out).raw_tensor.tolist() == [2, 1]
    with pytest.raises(DimError, match="has no entry 5"):
        rf.gather(stacked, indices=5, axis=out)
    for indices in (4 - rf.range_over_dim(out), 4):
        with pytest.raises(DimError, match=r"shorter than the 5 tensors(.|\n)*axis=rf.Dim\(None"):
            rf.gather(stacked * 2.0, indices=indices, axis=out)


def test_a_tensor_array_keeps_lengths():
    x = batch([3, 1])
    array = rf.TensorArray.unstack(x, axis=feat)
    assert rf.reduce_sum(array.stack(axis=feat), axis=time).dims == (feat, batch_dim)
    torch.testing.assert_close(array.stack(axis=feat).copy_transpose(x.dims).raw_tensor, x.raw_tensor)


def counted(state):
    """The next state, with its keys in another order."""
    return rf.State(up=state.up + 1, inner={"c": state.inner["c"] + 1, "down": state.inner["down"] - 1})


@pytest.mark.parametrize("looks", [False, True], ids=["traced", "by steps"])
@pytest.mark.parametrize("lengths", [[3, 3], [3, 2]])
def test_a_state_is_known_by_its_keys_not_by_their_order(looks, lengths):
    zero = rf.zeros([batch_dim], dtype="int64")
    initial = rf.State(inner={"down": zero, "c": zero + 100}, up=zero)

    def body(x, state):
        assert not looks or state.up.raw_tensor.min() >= 0
        new = counted(state)
        return {"c": new.inner["c"], "up": new.up}, new

    outputs, last, _ = rf.scan(
        spatial_dim=time, xs=batch(lengths), initial=initial, body=body,
        ys={"up": rf.Tensor("up", [batch_dim], "int64"), "c": rf.Tensor("c", [batch_dim], "int64")},
    )  # fmt: skip
    assert last.up.raw_tensor.tolist() == lengths and list(last.inner) == ["down", "c"]
    assert last.inner["down"].raw_tensor.tolist() == [-n for n in lengths]
    assert last.inner["c"].raw_tensor.tolist() == [100 + n for n in lengths]
    assert outputs["c"].copy_transpose([batch_dim, time]).raw_tensor[0].tolist() == [101, 102, 103]

    def step(state):
        return body(None, state)[1]

    last = rf.while_loop(lambda state: rf.reduce_all(state.up < 4, axis=batch_dim), step, initial)
    assert last.inner["c"].raw_tensor.tolist() == [104, 104] and last.up.raw_tensor.tolist() == [4, 4]


def test_both_sides_of_a_cond_are_known_by_their_keys():
    loop = rf.Loop(axis=time)
    with loop:
        x = rf.reduce_max(loop.unstack(batch([3, 3])), axis=[batch_dim, feat])
        sides = rf.cond(x > 1e9, lambda: {"a": x, "b": x * 2}, lambda: {"b": x * 5, "a": x * 3})
        threes, x = loop.stack(sides["a"]), loop.stack(x)
    np.testing.assert_allclose(threes.numpy(), 3 * x.numpy(), rtol=1e-5)


@pytest.mark.parametrize("lengths", [[3, 3, 3], [3, 2, 1]])
@pytest.mark.parametrize("turned", [False, True])
def test_a_state_with_changing_dims_keeps_the_order_of_the_body(lengths, turned):
    """The dim of the last step is the one that the body made, also if sequences have ended before."""
    batch, first = rf.Dim(3, name="batch"), rf.Dim(1, name="first")
    time = rf.Dim(rf.convert_to_tensor(lengths, dims=[batch]), name="time")
    x = rf.convert_to_tensor(torch.arange(9.0).reshape(3, 3), dims=[batch, time])
    beams = []

    def body(x, s):
        beam = rf.Dim(2, name="beam")
        beams.append(beam)
        y = rf.reduce_mean(s["state"] + x, axis=s["dim"]) * rf.range_over_dim(beam, dtype="float32")
        y = y.copy_transpose([beam, batch]) if turned else y
        return y, {"state": y, "dim": beam}

    initial = {"state": rf.zeros([batch, first]), "dim": first}
    ys, state, _ = rf.scan(spatial_dim=time, xs=x, initial=initial, body=body, return_tensor_arrays=True)
    order = (beams[-1], batch) if turned else (batch, beams[-1])
    assert ys[-1].dims == order and state["state"].dims == order and state["dim"] is beams[-1]
    last = {3: [2.5, 7.75, 13.0], 2: [1.0, 5.5, 10.0], 1: [0.0, 3.0, 6.0]}
    expected = [[0.0, last[n][i]] for i, n in enumerate(lengths)]
    assert state["state"].copy_transpose([batch, beams[-1]]).tolist() == expected


def test_the_last_state_of_a_scan_has_the_order_of_the_body():
    batch, time, feat = rf.Dim(2, name="batch"), rf.Dim(3, name="time"), rf.Dim(4, name="feat")
    places = {"spatial_dim": time, "xs": rf.ones([batch, time, feat]), "initial": rf.zeros([feat, batch])}
    _, state, _ = rf.scan(**places, body=lambda x, s: (x + s, x + s))
    assert state.dims == (batch, feat) and (state.raw_tensor == 3).all()
