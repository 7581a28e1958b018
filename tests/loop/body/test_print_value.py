"""`rf.watch` shows values while a loop runs, and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import LoopError
from rfnb.loop.body.print_value import LINES
from tests.examples import examples

FEAT = rf.Dim(3, name="feat")
KEYS = rf.Dim(0, name="keys")


def counting(steps, watch, **options):
    """A loop that counts; `watch(value)` is called in its body."""
    loop = rf.Loop(max_seq_len=steps, name="count", **options)
    loop.state.n = rf.zeros([], dtype="int64")
    with loop:
        n = loop.state.n + 1
        watch(n)
        loop.state.n = n
        out = loop.stack(n * 2)
    return loop, out


def shown(capsys):
    return [int(line.partition(":")[0].rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]


def by_hand(steps, last):
    """The rule of the default, written out."""
    marks = {k * 10**e for k in (1, 2, 5) for e in range(1, 8)}
    return [i for i in range(last) if i < 10 or i in marks or i == last - 1] if steps is None else None


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 300))
def test_by_default_the_first_steps_then_fewer_and_the_last(capsys, length):
    counting(length, rf.watch)
    assert shown(capsys) == by_hand(None, length)


CHOICES = {
    "list": ([0, 7, 100], [0, 7]),
    "range": (range(1, 12, 4), [1, 5, 9]),
    "none": ([], []),
    "function": (lambda n: n > 10, [10, 11]),
    "function of Python": (lambda n: int(n) % 5 == 0, [4, 9]),
}


@pytest.mark.parametrize(("steps", "expected"), CHOICES.values(), ids=CHOICES)
def test_chosen_steps(capsys, steps, expected):
    counting(12, lambda n: rf.watch(n, steps=steps))
    assert shown(capsys) == expected


@pytest.mark.parametrize("steps", [3, "3", 1.5])
def test_other_choices_are_refused(steps):
    with pytest.raises(rf.errors.LoopError, match="`steps` must be numbers") as raised:
        rf.watch(rf.ones([]), steps=steps)
    assert raised.value.hint == ("steps=[3]" if steps == 3 else "steps=range(0, 1000, 100), or lambda x: …")


def test_what_is_no_tensor_is_refused():
    with pytest.raises(rf.errors.LoopError, match=r"not an rf\.Tensor"):
        rf.watch(3)


def test_a_flood_is_cut_off(capsys):
    counting(LINES + 50, lambda n: rf.watch(n, steps=range(10_000)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == LINES + 1
    assert "the rest of this run is left out" in lines[-1]


def test_a_line_has_loop_step_name_dims_type_and_values(capsys):
    time = rf.Dim(2, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [float("nan"), 2.0, 3.0]], dims=[time, FEAT])
    loop = rf.Loop(axis=time, name="rnn")
    loop.state.h = rf.zeros([FEAT])
    with loop:
        loop.state.h = rf.watch(loop.state.h + loop.unstack(x))
        y = rf.watch(loop.state.h * 2.0, steps=[0])
        rf.watch(y, steps=[0], name="twice")
        rf.watch(rf.expand_dim(y, rf.Dim(20, name="wide")), steps=[0], name="large")
    assert capsys.readouterr().out.splitlines() == [
        "rnn step 0: h {feat} float32  1 2 3",
        "rnn step 0: y {feat} float32  2 4 6",
        "rnn step 0: twice {feat} float32  2 4 6",
        "rnn step 0: large {wide, feat} float32  2 4 6 2 4 6 … (20×3)  min 2  max 6",
        "rnn step 1: h {feat} float32  nan 4 6  nan",
    ]


def test_outside_of_a_loop_it_is_shown_at_once(capsys):
    x = rf.ones([FEAT])
    assert rf.watch(x) is x
    y = rf.watch(x + 1.0)
    rf.watch(y, steps=[9], name="z")
    assert capsys.readouterr().out.splitlines() == [
        "tensor {feat} float32  1 1 1",
        "y {feat} float32  2 2 2",
        "z {feat} float32  2 2 2",
    ]


def test_nested_loops_print_the_steps_of_all_loops(capsys):
    outer = rf.Loop(max_seq_len=12, name="outer")
    outer.state.n = rf.zeros([])
    with outer:
        inner = rf.Loop(max_seq_len=3, name="inner")
        inner.state.k = outer.state.n
        with inner:
            inner.state.k = rf.watch(inner.state.k + 1.0, steps=[1])
        outer.state.n = inner.state.k
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "outer step 0, inner step 1: k {} float32  2"
    assert [line.partition(",")[0] for line in lines] == [f"outer step {i}" for i in range(11)]


class Net(rf.Module):
    def __init__(self, watched):
        super().__init__()
        self.w = rf.Linear(FEAT, FEAT)
        self.watched = watched

    def __call__(self, x):
        return rf.tanh(self.watched(self.w(x)))


def trained(watched, **options):
    """Outputs and gradients of a loop with hoisted, carried and put-off ops, each watched or not."""
    torch.manual_seed(3)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.randn(2, 5, 3), dims=[batch_dim, time, FEAT])
    net = Net(watched)
    loop = rf.Loop(axis=time, name="net", **options)
    loop.state.h = rf.zeros([batch_dim, FEAT])
    with loop:
        before = net(loop.unstack(x))
        loop.state.h = watched(rf.tanh(before + 0.5 * loop.state.h))
        noisy = rf.dropout(loop.state.h, 0.5, on_forward=True)
        out = loop.stack(watched(rf.softmax(noisy, axis=FEAT)))
    rf.reduce_sum(out * out, axis=out.dims).raw_tensor.backward()
    return loop, out, [p.raw_tensor.grad for p in net.parameters()]


@pytest.mark.parametrize("moved", [None, False])
def test_results_and_gradients_stay_the_same(capsys, moved):
    (plain, out, grads), (loop, watched_out, watched_grads) = (
        trained(watched, optimize_move_layers_out=moved) for watched in (lambda x: x, rf.watch)
    )
    torch.testing.assert_close(watched_out.raw_tensor, out.raw_tensor)
    torch.testing.assert_close(watched_grads, grads)
    torch.testing.assert_close(loop.state.h.raw_tensor, plain.state.h.raw_tensor)
    assert len(capsys.readouterr().out.splitlines()) == 15


def test_what_is_done_for_all_steps_together_stays_there(capsys):
    rows = {row.node.op: row.where for row in trained(rf.watch)[0].explain().rows}
    assert rows["linear"] == "all steps"
    assert rows["watch"] == "each step"
    assert rows["softmax"] == "each step"  # else it would be done after the steps, and shown too late
    assert "Net.w.linear" in capsys.readouterr().out


def test_names_of_recorded_values_stay_the_same_and_replays_show_nothing(capsys):
    runs = [trained(watched, debug=True)[0].run for watched in (lambda x: x, rf.watch)]
    capsys.readouterr()
    names = [[value.name for value in run[1].values()] for run in runs]
    assert "h" in names[1]
    assert set(names[0]) - set(names[1]) <= {"softmax", "tanh"}
    assert runs[1][1].check == "replay agrees"
    assert capsys.readouterr().out == ""


def test_an_axis_that_grows(capsys):
    time = rf.Dim(3, name="time")
    loop = rf.Loop(axis=time, name="grow")
    loop.state.seen, loop.state.keys = rf.zeros([KEYS]), KEYS
    x = rf.range_over_dim(time, dtype="float32")
    with loop:
        frame = loop.unstack(x)
        seen, loop.state.keys = rf.cum_concat_step(frame, prev_accum=loop.state.seen, axis=loop.state.keys)
        loop.state.seen = rf.watch(seen, name="seen")
    assert [line.rpartition("  ")[2] for line in capsys.readouterr().out.splitlines()] == ["0", "0 1", "0 1 2"]


def test_only_the_side_of_a_branch_that_is_taken(capsys):
    loop = rf.Loop(max_seq_len=3, name="count")
    loop.state.n = rf.zeros([], dtype="int64")
    with loop:
        n = loop.state.n
        loop.state.n = rf.cond(n > 0, lambda: rf.watch(n + 10, name="yes"), lambda: rf.watch(n + 1, name="no"))
    assert capsys.readouterr().out.splitlines() == [
        "count step 0: no {} int64  1", "count step 1: yes {} int64  11", "count step 2: yes {} int64  21"
    ]  # fmt: skip


def test_a_loop_that_fails_shows_what_came_last(capsys):
    def fails(raw):
        if int(raw) == 16:
            raise ValueError("sixteen")
        return raw.clone()

    def watch(n):
        rf.watch(n, steps=[0])
        rf.raw_call(fails, n, out_dims=[])

    with pytest.raises(ValueError, match="sixteen"):
        counting(40, watch)
    assert shown(capsys) == [0, 15]


def test_a_loop_that_is_entered_again_counts_anew(capsys):
    loop = rf.Loop(max_seq_len=2, name="count")
    loop.state.n = rf.zeros([])
    for _ in range(2):
        with loop:
            loop.state.n = rf.watch(loop.state.n + 1.0)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"count step {i}" for i in (0, 1, 0, 1)
    ]


def test_replays_of_a_loop_inside_show_nothing(capsys):
    outer = rf.Loop(max_seq_len=4, name="outer", debug=True)
    outer.state.n = rf.zeros([])
    with outer:
        inner = rf.Loop(max_seq_len=3, name="inner")
        inner.state.k = outer.state.n
        with inner:
            inner.state.k = rf.watch(inner.state.k + 1.0)
        outer.state.n = inner.state.k
    capsys.readouterr()
    for step in (0, 3):
        assert outer.run[step].check == "replay agrees"
    assert capsys.readouterr().out == ""


def test_sequences_that_have_ended_are_left_out(capsys):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [40.0]], dims=[rf.batch_dim, time])
    loop = rf.Loop(axis=time, name="by frames")
    with loop:
        rf.watch(loop.unstack(x), name="x")
    loop = rf.Loop(max_seq_len=5, name="by end")
    loop.state.n = rf.convert_to_tensor([0.0, 2.0], dims=[rf.batch_dim])
    with loop:
        n = rf.watch(loop.state.n + 1.0)  # the line stands before what ends the sequences
        loop.state.n = n
        loop.end(n >= 4.0, include_eos=True)
    said = [line.partition("float32  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said == ["1 40", "2 ·", "3 ·", "1 3", "2 4", "3 ·", "4 ·"]


def test_of_hypotheses_that_change_places_the_sequence_counts(capsys):
    beam = rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=3)
    loop.state.n = rf.convert_to_tensor([[0.0, 1.0], [0.0, 2.0]], dims=[rf.batch_dim, beam])
    with loop:
        n = rf.watch(loop.state.n + 1.0)
        loop.state.n = n
        loop.reorder(rf.convert_to_tensor([[1, 0], [1, 1]], dims=[rf.batch_dim, beam], sparse_dim=beam), beam)
        loop.end(n >= 2.5, include_eos=True)
    said = [line.partition("float32  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said[0] == "1 2 1 3"
    assert len(said) == 3
    assert said[1].count("·") == 0  # one hypothesis of the second sequence has ended, the other goes on


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
@pytest.mark.parametrize("several", [False, True])
def test_in_a_search_hypotheses_that_had_ended_are_dots(capsys, several):
    label, before, beam = rf.Dim(3, name="label"), rf.Dim(3, name="before"), rf.Dim(3, name="beam")
    table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.8], [3.0, 0.0, 0.0]], dims=[before, label])
    loop = rf.Loop(max_seq_len=6, name="search")
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        logits = rf.gather(table, indices=loop.state.prev, axis=before)
        if several:
            logits = loop.choice(logits, beam=beam, input_type="logits", axis=label, beam_size=4).follow(logits)
        chosen = loop.choice(logits, beam=beam, input_type="logits", axis=label, length_normalization=False)
        rf.watch(chosen.scores, name="after", resolve=False)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 0, include_eos=False)
    lines = capsys.readouterr().out.splitlines()
    ended = loop.found.trace.ended[:, 0]
    assert len(lines) == len(ended) and ended.any() and not ended.all()
    dots = [[entry == "·" for entry in line.partition("float32")[2].split()] for line in lines]
    assert dots == ended.tolist()


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_in_a_search_values_are_those_of_the_final_hypotheses(capsys, several, seed):
    label, before, beam = rf.Dim(3, name="label"), rf.Dim(3, name="before"), rf.Dim(3, name="beam")
    random = np.random.RandomState(seed)
    table = rf.convert_to_tensor(random.randint(-9, 0, (3, 3)).astype("float32"), dims=[before, label])
    loop = rf.Loop(max_seq_len=5, name="search")
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    loop.state.sum = rf.zeros([beam])
    with loop:
        old = rf.watch(loop.state.sum, name="old")
        scores = rf.gather(table, indices=loop.state.prev, axis=before)
        options = {"input_type": "log_prob", "axis": label, "length_normalization": False}
        if several:
            scores = loop.choice(scores, beam=beam, beam_size=4, **options).follow(scores)
        chosen = loop.choice(scores, beam=beam, **options)
        new = rf.watch(chosen.scores, name="new")
        loop.state.sum, loop.state.prev = chosen.scores, chosen.labels
        loop.end(chosen.labels == 0, include_eos=True)
        stacked = {"old": loop.stack(old), "new": loop.stack(new)}
    lines = capsys.readouterr().out.splitlines()
    lengths, alive = loop.found.lengths.tolist(), np.isfinite(loop.found.scores.tolist())
    for name, values in stacked.items():
        own = [line.partition("float32")[2].split("  min")[0].split() for line in lines if f": {name} " in line]
        expected = values.copy_transpose([loop.axis, beam]).tolist()
        assert len(own) == len(loop.found.trace.labels) >= len(expected)
        for step, row in enumerate(expected):
            wanted = [f"{x:.4g}" if alive[i] and step < lengths[i] else "·" for i, x in enumerate(row)]
            assert own[step] == wanted


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_a_search_that_fails_prints_what_it_has(capsys):
    label, beam = rf.Dim(3, name="label"), rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=5, name="search")
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with pytest.raises(ZeroDivisionError), loop:
        scores = rf.expand_dim(rf.cast(rf.range_over_dim(label), "float32"), beam)
        chosen = loop.choice(rf.watch(scores, name="x", steps=fails_at(2)), beam=beam, axis=label, input_type="logits")
        loop.state.prev = chosen.labels
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "search step 0",
        "search step 1",
    ]


def fails_at(last):
    """Steps of which the one with this number cannot be told."""
    seen = []

    def wanted(_):
        seen.append(1)
        return 1 // (last + 1 - len(seen)) >= 0

    return wanted


WRONG_STEPS = [[1, "a"], [1.5], [0, -1], {"a": 1}, b"ab", lambda: True, slice(0, 3), rf.ones([])]


@pytest.mark.parametrize("steps", WRONG_STEPS, ids=lambda steps: str(steps)[:20])
def test_what_no_step_can_be_is_refused(steps):
    with pytest.raises(LoopError, match="must be numbers, or a function of the tensor"):
        rf.watch(rf.ones([]), steps=steps)


@pytest.mark.parametrize(
    "result", [torch.tensor([True, False]), np.array([1, 2])], ids=lambda value: type(value).__name__
)
def test_a_function_of_the_tensor_says_true_or_false(result):
    with pytest.raises(LoopError, match="must return True or False"):
        counting(2, lambda n: rf.watch(n, steps=lambda x: result))
