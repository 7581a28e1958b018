"""Gradients through time are those of autograd through a Python loop by hand."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.kit.blocks import to_html, to_text
from rfnb.display.run import gradients_view as view
from rfnb.errors import LoopError
from rfnb.loop.replay.gradients import Gradients, verdict
from tests.examples import examples

feat, hidden, hidden_out = Dim(2, name="feat"), Dim(3, name="hidden"), Dim(3, name="hidden_out")
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)


@pytest.fixture(autouse=True)
def _float64():
    rf.runs.clear()
    torch.manual_seed(3)
    with rf.set_default_float_dtype_ctx("float64"):
        yield
    rf.runs.clear()


def weights(*shape):
    return torch.randn(shape, dtype=torch.float64).requires_grad_()


def by_hand(step, states, lengths):
    """Retained gradients of what each step gives the states: step(t, states) → (new states, loss by sequence)."""
    kept = {name: [] for name in states}
    start = dict(states)
    total = torch.zeros((), dtype=torch.float64)
    for t in range(max(lengths)):
        new, losses = step(t, states)
        goes_on = torch.tensor([t < length for length in lengths])
        for name, raw in new.items():
            raw.retain_grad()
            kept[name].append(raw)
        states = {name: torch.where(goes_on[:, None], new[name], states[name]) for name in states}
        total = total + losses[goes_on].sum()
    total = total + sum((raw * 3).sum() for raw in states.values())
    total.backward()
    return kept, start


def assert_agrees(found, kept, start, lengths):
    for name, raws in kept.items():
        for t, raw in enumerate(raws):
            goes_on = np.array([t < length for length in lengths])
            each = raw.grad.flatten(1).norm(dim=1).numpy()
            np.testing.assert_allclose(found.per_sequence[name][t], np.where(goes_on, each, np.nan), rtol=1e-9)
            np.testing.assert_allclose(found.norm[name][t], np.linalg.norm(each[goes_on]), rtol=1e-9)
        np.testing.assert_allclose(found.start[name], start[name].grad.norm().item(), rtol=1e-9)


@examples(15)
@example([0, 3, 1], True)
@example([1], False)
@given(LENGTHS, st.booleans())
def test_an_rnn_with_a_loss_in_each_step(lengths, hoisted):
    w, u, v = weights(2, 3), weights(3, 3), weights(3)
    x, h0 = torch.randn(len(lengths), max(lengths), 2, dtype=torch.float64), weights(len(lengths), 3)

    def step(t, states):
        new = torch.tanh(x[:, t] @ w + states["h"] @ u)
        return {"h": new}, (new * v).sum(1).square()

    kept, start = by_hand(step, {"h": h0}, lengths)
    time = Dim(None, name="time")
    xs = rf.convert_to_tensor(x, dims=[batch_dim, time, feat], lengths=lengths)
    loop = rf.Loop(axis=time, debug=True, optimize_move_layers_out=hoisted or None)
    loop.state.h = rf.convert_to_tensor(h0, dims=[batch_dim, hidden])
    w_, v_ = rf.convert_to_tensor(w, dims=[feat, hidden]), rf.convert_to_tensor(v, dims=[hidden])
    u_ = rf.convert_to_tensor(u, dims=[hidden, hidden_out])
    with loop:
        recurrent = rf.matmul(loop.state.h, u_, reduce=hidden)
        h = rf.tanh(
            rf.matmul(loop.unstack(xs), w_, reduce=feat)
            + rf.replace_dim(recurrent, in_dim=hidden_out, out_dim=hidden)[0]
        )
        loop.state.h = h
        losses = loop.stack(rf.square(rf.reduce_sum(h * v_, axis=hidden)))
    loss = rf.reduce_sum(losses, axis=losses.dims) + rf.reduce_sum(loop.state.h * 3.0, axis=loop.state.h.dims)
    assert_agrees(loop.run.gradients(loss), kept, start, lengths)
    loss.raw_tensor.backward()  # the graph is still there
    with pytest.raises(LoopError, match="has been freed") as error:
        loop.run.gradients(loss)
    assert "before loss.backward()" in str(error.value)


@examples(8)
@given(LENGTHS)
def test_nested_states_and_a_loss_behind_the_last_step_only(lengths):
    x = torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64)
    h0, c0 = weights(len(lengths), 3), weights(len(lengths), 3)

    def step(t, states):
        gate = torch.sigmoid(x[:, t] + states["lstm.h"])
        c = gate * states["lstm.c"] + (1 - gate) * torch.tanh(x[:, t] - states["lstm.h"])
        h = gate * torch.tanh(c)
        return {"lstm.h": h, "lstm.c": c}, torch.zeros(len(lengths), dtype=torch.float64)

    kept, start = by_hand(step, {"lstm.h": h0, "lstm.c": c0}, lengths)
    time = Dim(None, name="time")
    xs = rf.convert_to_tensor(x, dims=[batch_dim, time, hidden], lengths=lengths)
    loop = rf.Loop(axis=time, debug=True)
    dims = [batch_dim, hidden]
    loop.state.lstm = rf.State(h=rf.convert_to_tensor(h0, dims=dims), c=rf.convert_to_tensor(c0, dims=dims))
    with loop:
        old, x_t = loop.state.lstm, loop.unstack(xs)
        gate = rf.sigmoid(x_t + old.h)
        c = gate * old.c + (1.0 - gate) * rf.tanh(x_t - old.h)
        loop.state.lstm = rf.State(h=gate * rf.tanh(c), c=c)
    loss = rf.reduce_sum((loop.state.lstm.h + loop.state.lstm.c) * 3.0, axis=dims)
    assert_agrees(loop.run.gradients(loss), kept, start, lengths)


def ends_early():
    """Each sequence doubles its h until it is over 10; the third takes most steps."""
    h0 = weights(3)
    h0.data = torch.tensor([3.0, 6.0, 1.0], dtype=torch.float64)
    loop = rf.Loop(max_seq_len=9, debug=True, name="doubles")
    loop.state.h = rf.convert_to_tensor(h0, dims=[batch_dim])
    with loop:
        h = loop.state.h * 2.0
        loop.state.h = h
        loop.end(h > 10.0, include_eos=True)
    return loop


def test_a_loop_with_an_end():
    loop = ends_early()
    found = loop.run.gradients(rf.reduce_sum(loop.state.h, axis=batch_dim))
    assert loop.run.lengths == [2, 1, 4]
    nan = np.nan
    np.testing.assert_array_equal(found.per_sequence["h"], [[2, 1, 8], [1, nan, 4], [nan, nan, 2], [nan, nan, 1]])
    np.testing.assert_allclose(found.norm["h"], [np.sqrt(69), np.sqrt(17), 2, 1])
    assert found.start["h"] == pytest.approx(np.linalg.norm([4, 2, 16]))


def test_sequences_that_have_ended_count_nothing():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 2, dtype=torch.float64), dims=[batch_dim, time], lengths=[2, 1])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.c = rf.convert_to_tensor(weights(2), dims=[batch_dim])
    loop.state.h = rf.zeros([batch_dim])
    with loop:
        loop.state.h = loop.state.h + loop.unstack(x)
        loop.state.c = loop.state.c
    found = loop.run.gradients(rf.reduce_sum(loop.state.c, axis=batch_dim))
    np.testing.assert_array_equal(found.per_sequence["c"], [[1, 1], [1, np.nan]])
    np.testing.assert_allclose(found.norm["c"], [np.sqrt(2), 1])


def test_a_value_of_the_body_is_a_loss_as_well():
    run = ends_early().run
    np.testing.assert_array_equal(run.gradients("h").per_sequence["h"][0], [3, 1, 15])
    again = run.fork(1).gradients("h")  # which has no results that a loss depends on
    np.testing.assert_array_equal(again.norm["h"], run.gradients("h").norm["h"])
    with pytest.raises(LoopError, match="no value 'q'"):
        run.gradients("q")


def test_padding_of_a_value_counts_nothing():
    time, enc = Dim(None, name="time"), Dim(None, name="enc")
    x = rf.convert_to_tensor(torch.ones(2, 2, dtype=torch.float64), dims=[batch_dim, time])
    keys = rf.convert_to_tensor(torch.ones(2, 3, dtype=torch.float64), dims=[batch_dim, enc], lengths=[3, 1])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim])
    with loop:
        h = loop.state.h + loop.unstack(x)
        scores = h * keys
        loop.state.h = rf.stop_gradient(h)
        loop.stack(scores)
    found = loop.run.gradients("scores")
    np.testing.assert_array_equal(found.per_sequence["h"], [[3, 1], [0, 0]])
    assert found.start["h"] == pytest.approx(np.linalg.norm([3, 1]))


def test_a_loop_behind_another_and_weights_that_are_trained():
    def run(record):
        torch.manual_seed(0)
        time = Dim(None, name="time")
        x = rf.convert_to_tensor(torch.randn(2, 6, 3, dtype=torch.float64), dims=[batch_dim, time, hidden])
        linear = rf.Linear(hidden, hidden_out)
        loops = []
        for _ in range(2):
            loop = rf.Loop(axis=time, debug=record)
            loop.state.h = rf.zeros([batch_dim, hidden])
            with loop:
                h = rf.tanh(
                    rf.replace_dim(linear(loop.state.h + loop.unstack(x)), in_dim=hidden_out, out_dim=hidden)[0]
                )
                loop.state.h = h
                x_next = loop.stack(h)
            x = x_next
            loops.append(loop)
        return loops, rf.reduce_sum(x * x, axis=x.dims), linear

    loops, loss, linear = run(record=True)
    found = [loop.run.gradients(loss) for loop in loops]
    assert all((each.norm["h"] > 0).all() for each in found)
    loss.raw_tensor.backward()
    _, expected, same = run(record=False)
    expected.raw_tensor.backward()
    for a, b in zip(rf.torch_parameters(linear), rf.torch_parameters(same), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-9, atol=0)


def test_what_a_loss_cannot_be():
    loop = ends_early()
    with pytest.raises(LoopError, match="does not depend"):
        loop.run.gradients(rf.convert_to_tensor(weights(2), dims=[feat]))
    with pytest.raises(LoopError, match="this loss has no gradient"):
        loop.run.gradients(rf.convert_to_tensor(1.0))
    with pytest.raises(LoopError, match="this loss has no gradient"):
        loop.run.gradients(3)
    with pytest.raises(LoopError, match=r"run.gradients\(\"loss\"\)"):
        loop.run.fork(1).gradients(rf.reduce_sum(loop.state.h, axis=batch_dim))
    other = ends_early()
    with pytest.raises(LoopError, match="does not depend"):
        loop.run.gradients(rf.reduce_sum(other.state.h, axis=batch_dim))


def test_a_recorded_run_does_not_keep_the_graph_alive():
    loop = ends_early()
    run, graph = loop.run, weakref.ref(loop.state.h.raw_tensor.grad_fn)
    assert graph() is not None
    del loop
    gc.collect()
    assert graph() is None
    assert run[0].check == "replay agrees"


def test_results_of_a_recorded_loop_can_be_changed_in_place():
    loop = ends_early()
    loop.state.h.raw_tensor.mul_(2)
    loop.state.h.raw_tensor.sum().backward()


def test_the_state_that_is_a_label_has_no_gradient():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.n, loop.state.h = rf.convert_to_tensor(0), rf.convert_to_tensor(1.0)
    with loop:
        loop.state.n = loop.state.n + 1
        loop.state.h = loop.state.h * rf.cast(loop.state.n, "float64")
    assert list(loop.run.gradients("h").norm) == ["h"]


VERDICTS = [
    ([], "no gradient"),
    ([0.0, 0.0], "no gradient"),
    ([1.0, 2.0], ""),
    ([1e-3, 1.0], ""),
    ([0.9e-3, 1.0], "vanishes before step 1"),
    ([0.0, 0.0, 1.0, 1.0, 0.0], "vanishes before step 2"),
    ([1.1e3, 999.0, 1.0], "explodes before step 1"),
    ([np.nan, np.inf, 1.0], "not finite up to step 1"),
]


@pytest.mark.parametrize(("norms", "words"), VERDICTS, ids=lambda value: str(value))
def test_verdicts(norms, words):
    assert verdict(norms) == words


def shown():
    run = ends_early().run
    run.name = "<b>"
    norms = {"h": np.array([1e-9, 1e-4, 0.1, 1.0]), "<i>": np.array([2.0, np.nan, 0.0, 0.5])}
    return view.to_page(view.describe(Gradients(run, "a < b", norms, {}, {})))


def test_the_table():
    assert to_text(shown()) == (
        "‖d a < b / d state‖  (<b>, 4 steps; one block higher means a factor of 10)\n"
        "  state  step by step  first  last  first/last\n"
        "  h      ▁▄▇█          1e-9   1     1e-9        vanishes before step 2\n"
        "  <i>    █×·▇          2      0.5   4           not finite up to step 1"
    )


def test_the_html_escapes_what_it_shows():
    html = to_html(shown())
    assert "<b>" not in html
    assert "<i>" not in html
    assert "a &lt; b" in html
    assert "vanishes before step 2" in html


def test_a_long_run_is_shown_in_part():
    assert len(view.levels([1.0] * 5000)) <= 64


def test_it_is_shown_by_its_view():
    found = ends_early().run.gradients("h")
    assert repr(found).startswith("‖d h / d state‖  (doubles, 4 steps")
    assert found.verdict == {"h": ""}
    assert "<table" in found._repr_mimebundle_()["text/html"]
