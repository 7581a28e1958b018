"""Recorded runs: any value of any step, as an independent computation gives it."""

from __future__ import annotations

import functools
import gc
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim


@pytest.fixture(autouse=True)
def recorded():
    rf.runs.clear()
    with rf.recording("last"):
        yield
    rf.runs.clear()


def sums(rows, **options):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=[f"seq-{i}" for i in range(len(rows))])
    loop = rf.Loop(axis=time, name="sum", **options)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        x_t = loop.unstack(x)
        doubled = x_t * 2.0
        loop.state.s = loop.state.s + doubled
    return loop.run


def test_a_state_that_is_no_variable_of_the_body_is_named_in_the_hint():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        total = loop.state.s + 2.0 * loop.unstack(x)
        loop.state.s = total
    run = loop.run
    with pytest.raises(rf.errors.LoopNameError, match=r"no value 's'") as caught:
        _ = run[1].s
    assert caught.value.hint == "the state is `.after.s` or `.before.s` of the step"
    assert run[1].after.s.raw_tensor[0] == 6.0
    with pytest.raises(rf.errors.LoopNameError, match=r"no value 'other'") as caught:
        _ = run[1].other
    assert caught.value.hint is None


@pytest.mark.parametrize(
    "unchanged",
    [
        rf.identity,
        functools.partial(rf.cast, dtype="float32"),
        lambda x: x.copy_transpose(x.dims),
    ],
    ids=["identity", "cast", "copy_transpose"],
)
@pytest.mark.parametrize("options", [{}, {"optimize_move_layers_out": False}], ids=str)
def test_what_an_op_gives_back_unchanged_is_a_value_with_its_own_name(unchanged, options):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time, **options)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        x_t = loop.unstack(x)
        same = unchanged(x_t)
        loop.state.s = loop.state.s + same
        kept = unchanged(loop.state.s)  # noqa: F841, its name is what counts
    run = loop.run
    assert [value.name for value in run[1].values()] == ["x_t", "same", "s", "kept"]
    assert run[1].same.raw_tensor.tolist() == run[1].x_t.raw_tensor.tolist() == [2.0, 5.0]
    assert run[1].kept.raw_tensor.tolist() == run[1].after.s.raw_tensor.tolist() == [3.0, 9.0]
    assert run.stack("same").raw_tensor[:2].tolist() == [[1.0, 4.0], [2.0, 5.0]]


def test_states_and_variables_of_each_step():
    run = sums([[1.0, 2.0, 3.0], [4.0, 5.0]])
    assert (run.name, run.steps, run.states, run.lengths) == ("sum", 3, ["s"], [3, 2])
    assert run.tags == ["seq-0", "seq-1"]
    assert run[0].before.s.raw_tensor.tolist() == [0.0, 0.0]
    assert run[1].after.s.raw_tensor.tolist() == [6.0, 18.0]
    assert run[2].after.s.raw_tensor.tolist() == [12.0, 18.0]
    assert run[1].doubled.raw_tensor.tolist() == [4.0, 10.0]
    assert run[1].x_t.raw_tensor.tolist() == [2.0, 5.0]
    assert [v.name for v in run[0].values()] == ["x_t", "doubled", "s"]
    assert all(run[i].check == "replay agrees" for i in range(3))


def test_a_variable_over_all_steps():
    run = sums([[1.0, 2.0, 3.0], [4.0, 5.0]])
    stacked = run.stack("doubled")
    assert stacked.dims[0] is run.axis
    assert stacked.copy_masked(0).raw_tensor.tolist() == [[2.0, 8.0], [4.0, 10.0], [6.0, 0.0]]


def test_names_and_lines_are_the_users():
    run = sums([[1.0]])
    lines = {value.name: run.source.lines[value.line - run.source.first_line] for value in run[0].values()}
    assert "doubled = x_t * 2.0" in lines["doubled"]
    assert run.source.lines[0].strip() == "with loop:"
    with pytest.raises(rf.errors.LoopError, match="doubled"):
        run[0].nothing  # noqa: B018
    with pytest.raises(rf.errors.LoopError, match="no step 1"):
        run[1]


def test_random_numbers_come_back():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.zeros(2, 4), dims=[batch_dim, time])
    loop = rf.Loop(axis=time, name="noise")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        drawn = rf.random_normal([batch_dim])
        loop.state.s = loop.state.s + drawn + loop.unstack(x)
        out = loop.stack(drawn)
    for i in (3, 0, 2):
        assert torch.equal(loop.run[i].drawn.raw_tensor, out.raw_tensor[i])
        assert loop.run[i].check == "replay agrees"


def test_weights_that_changed_do_not_change_what_is_shown():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(1, 3), dims=[batch_dim, time])
    feat = rf.Dim(2, name="feat")
    weight = rf.Parameter([feat], initial=2.0)
    loop = rf.Loop(axis=time, name="scaled")
    loop.state.s = rf.zeros([batch_dim, feat])
    with loop:
        loop.state.s = loop.state.s + rf.combine_bc(loop.unstack(x), "mul", weight)
    weight.assign(100.0)
    assert loop.run[2].s.raw_tensor.tolist() == [[6.0, 6.0]]
    assert loop.run[2].check == "replay agrees"


def test_a_run_that_has_no_snapshot_says_so(monkeypatch):
    monkeypatch.setattr("rfnb.loop.replay.replay.SNAPSHOT_BUDGET", 0)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(1, 3), dims=[batch_dim, time])
    weight = rf.Parameter([], initial=2.0)
    loop = rf.Loop(axis=time, name="scaled")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = (loop.state.s + loop.unstack(x)) * weight
    weight.assign(100.0)
    assert loop.run[1].check == "with today's weights"


def test_flags():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.tensor([[1.0, float("nan")]]), dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    assert loop.run.flags == ["not finite"]
    loop = rf.Loop(max_seq_len=3)
    loop.state.n = rf.zeros([batch_dim])
    with pytest.warns(rf.errors.LoopWarning, match="never true"), loop:
        loop.state.n = loop.state.n + 1.0
        loop.end(loop.state.n > 10.0, include_eos=True)
    assert loop.run.flags == ["never ended"]


def test_the_newest_few_runs_of_each_loop_are_kept():
    for _ in range(10):
        last = sums([[1.0, 2.0]])
    assert len(rf.runs) == rf.options.keep
    assert rf.runs["sum"] is last
    rf.runs.pin(last.serial)
    for _ in range(10):
        sums([[1.0, 2.0]])
    assert last in list(rf.runs)


def test_nothing_is_recorded_unless_asked():
    with rf.recording(False):
        assert sums([[1.0]]) is None
        assert sums([[1.0]], debug=True) is not None


@pytest.mark.slow
def test_recording_many_runs_keeps_memory_flat(monkeypatch):
    monkeypatch.setattr("rfnb.core.dims.align._RECENT", 64)  # the table of signatures turns over soon

    def train(steps):
        for _ in range(steps):
            sums([[1.0] * 20] * 4)
        gc.collect()

        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    memory = [train(100) for _ in range(4)]  # the first ones fill the bounded tables
    tracemalloc.stop()
    assert min(later - earlier for earlier, later in pairwise(memory)) < 20_000, memory


def test_the_growing_axis_is_replayed():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[3.0, 1.0, 5.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.axis = rf.Dim(0, name="history")
    loop.state.history = rf.zeros([batch_dim, loop.state.axis])
    with loop:
        history, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.history, axis=loop.state.axis)
        loop.state.history, loop.state.axis = history, axis
        largest = rf.reduce_max(history, axis=axis)
        loop.stack(largest)
    assert [float(loop.run[i].largest.raw_tensor) for i in range(3)] == [3.0, 3.0, 5.0]
    assert loop.run[1].before.axis == 1
    assert loop.run[2].check == "replay agrees"


def test_a_long_run_keeps_some_states_and_computes_the_others_again(monkeypatch):
    monkeypatch.setattr("rfnb.loop.step.MAX_STATES", 8)
    loop = rf.Loop(max_seq_len=100, name="long")
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = loop.state.n * 0.9 + rf.cast(loop.iter_idx, "float32")
        out = loop.stack(loop.state.n)
    run = loop.run
    assert len(run.replay.kept) <= 8
    for i in (0, 1, 17, 63, 98, 99):
        assert torch.equal(run[i].after.n.raw_tensor, out.raw_tensor[i])
        assert torch.equal(run[i].n.raw_tensor, out.raw_tensor[i])
        assert run[i].check == "replay agrees"


@pytest.mark.slow
def test_a_run_and_the_leftovers_of_a_body_hold_no_graph_of_gradients():
    import weakref

    time = rf.Dim(None, name="time")
    weight = torch.ones(3, requires_grad=True)
    x = rf.convert_to_tensor(torch.ones(1, 3) * weight, dims=[batch_dim, time])
    scale = rf.reduce_sum(x, axis=time)
    loop = rf.Loop(axis=time, name="held")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        product = loop.unstack(x) * scale
        loop.state.s = loop.state.s + product
    held = weakref.ref(scale.raw_tensor)
    run, left_over = loop.run, product
    del x, scale, loop
    gc.collect()
    assert held() is None
    assert run[1].product.raw_tensor.item() == 3.0
    assert left_over.name == "product"


def test_a_state_that_a_line_gives_a_name_is_a_value_of_the_body():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 4.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.total = rf.zeros([batch_dim])
    with loop:
        prev = loop.state.total
        loop.state.total = prev + loop.unstack(x)
        totals = loop.stack(loop.state.total)
    assert totals.name == "totals"
    assert loop.run[2].prev.raw_tensor.tolist() == [3.0]
    assert loop.run[2].before.total.name == "total"
    assert [v.name for v in loop.run[0].values()] == ["prev", "unstack", "total"]


def test_a_variable_over_the_steps_of_a_loop_without_its_last():
    limit = rf.convert_to_tensor([2, 3], dims=[batch_dim])
    loop = rf.Loop(max_seq_len=6)
    loop.state.n = rf.zeros([batch_dim], dtype="int64")
    with loop:
        more = loop.state.n + 1
        loop.end(loop.state.n == limit, include_eos=False)
        loop.state.n = more
    stacked = loop.run.stack("more")
    assert stacked.copy_masked(0).raw_tensor.tolist() == [[1, 1], [2, 2], [0, 3]]


def test_nested_states_and_all_steps():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 4.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.pair = rf.State(a=rf.zeros([batch_dim]), b=rf.ones([batch_dim]))
    with loop:
        pair = loop.state.pair
        loop.state.pair = rf.State(a=pair.a + loop.unstack(x), b=pair.a)
    before = loop.run[2].before
    assert before.names() == ["pair.a", "pair.b"]
    assert before.pair.names() == ["a", "b"]
    assert before.pair.a.raw_tensor.tolist() == before["pair.a"].raw_tensor.tolist() == [3.0]
    assert before.pair["b"].raw_tensor.tolist() == [1.0]
    assert [step.after.pair.a.raw_tensor.item() for step in loop.run] == [1.0, 3.0, 7.0]


def test_states_in_a_list_go_by_number():
    loop = rf.Loop(max_seq_len=2)
    loop.state.pair = [rf.zeros([]), (rf.ones([]),)]
    with loop:
        loop.state.pair = [loop.state.pair[0] + 1.0, (loop.state.pair[1][0] * 2.0,)]
    after = loop.run[1].after.pair
    assert (after[0].item(), after[1][0].item()) == (2.0, 4.0)


def test_a_body_that_is_not_the_same_twice_is_told():
    calls = iter(range(100))
    loop = rf.Loop(max_seq_len=3)
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = rf.raw_call(lambda raw: raw + next(calls), loop.state.n, out_dims=[])
    assert loop.run[1].check == "replay differs"


def test_a_run_under_autocast_is_replayed_under_autocast():
    time, feat, out = rf.Dim(None, name="time"), rf.Dim(4, name="feat"), rf.Dim(4, name="out")
    x = rf.convert_to_tensor(torch.randn(2, 3, 4), dims=[batch_dim, time, feat], lengths=[3, 2])
    linear = rf.Linear(feat, out)
    loop = rf.Loop(axis=time)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loop.state.s = rf.zeros([batch_dim, out])
        with loop:
            y = linear(loop.unstack(x))
            loop.state.s = loop.state.s + y
    assert loop.run[1].y.dtype == "bfloat16"
    assert loop.run[1].check == "replay agrees"


def test_what_is_the_same_at_every_step_is_a_value_of_the_body():
    """Also if it shares its data with what came from outside, and no call made it."""
    time, letters = rf.Dim(None, name="time"), rf.Dim(5, name="letters")
    x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[batch_dim, time], sparse_dim=letters)
    loop = rf.Loop(max_seq_len=2)
    with loop:
        numbers = rf.set_sparse_dim(x, None)  # noqa: F841
        mask = time.get_mask()  # noqa: F841
        loop.stack(loop.iter_idx)
    for step in (0, 1):
        assert loop.run[step].numbers.sparse_dim is None
        assert loop.run[step].numbers.copy_masked(0).raw_tensor.tolist() == [[1, 2, 3], [4, 0, 0]]
        assert loop.run[step].mask.raw_tensor.tolist() == [[True] * 3, [True, False, False]]
    assert loop.run.stack("numbers").dims == (loop.axis, batch_dim, time)


def test_values_that_a_line_assigns_together_have_their_names():
    time = rf.Dim(3, name="time")
    x = rf.convert_to_tensor(torch.tensor([1.0, 2.0, 3.0]), dims=[time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([])
    with loop:
        frame, before = loop.unstack(x), loop.state.h
        (now, twice), other = (frame + before, before * 2.0), frame - before
        loop.state.h = now + other + twice * 0.0
    assert loop.run.stack("before").raw_tensor.tolist() == [0.0, 2.0, 4.0]
    assert {"frame", "before", "now", "twice", "other"} <= {value.name for value in loop.run[1].values()}


class Deep(rf.Module):
    """Two layers, of which the first is like the last."""

    def __init__(self, feat):
        self.first, self.last = rf.Linear(feat, feat), rf.Linear(feat, feat)

    def __call__(self, x):
        return self.last(rf.tanh(self.first(x)))


def test_a_line_that_calls_a_module_has_its_result_and_not_what_is_inside():
    time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    deep = rf.Sequential(Deep(feat), Deep(feat))
    ones = rf.ones([time, feat])
    loop = rf.Loop(axis=time, name="deep")
    loop.state.h = rf.zeros([feat])
    with loop:
        x = loop.unstack(ones)
        y = deep(x + loop.state.h)
        loop.state.h = rf.tanh(y)
    run = loop.run
    assert [value.name for value in run[1].values()] == ["x", "add", "y", "h"]
    inner = [op for op in run[1].ops() if op.path]
    assert len([op for op in inner if op.op == "linear"]) == 4  # they are there when one looks into the line
    h = torch.zeros(2)
    for step in range(3):
        y = rf.convert_to_tensor(torch.ones(2) + h, dims=[feat])
        expected = deep(y).raw_tensor
        torch.testing.assert_close(run[step].y.raw_tensor, expected)
        h = expected.tanh().detach()


def test_a_state_that_grows_has_no_change():
    step, feat = rf.Dim(3, name="step"), rf.Dim(2, name="feat")
    attention = rf.CausalSelfAttention(
        feat, proj_dim=feat, key_dim_total=feat, value_dim_total=feat, num_heads=1, att_dropout=0.0
    )
    frames = rf.random_normal([step, feat])
    loop = rf.Loop(axis=step, name="grown")
    loop.state.att = attention.default_initial_state(batch_dims=[])
    with loop:
        x = loop.unstack(frames)
        _, loop.state.att = attention(x, axis=rf.single_step_dim, state=loop.state.att)
    rows = rf.show(loop.run).data["steps"]
    changes = {row["name"]: [view["states"][i]["change"] for view in rows] for i, row in enumerate(rows[0]["states"])}
    assert changes["att.k_accum"] == [None, None, None]
    assert changes["att.accum_axis"] == [1, 1, 1]


def test_threads_that_look_at_steps_get_their_own_numbers():
    """The panel steps through a run while the kernel reads it."""
    loop = rf.Loop(max_seq_len=40, debug=True)
    loop.state.total = rf.zeros([], dtype="int64")
    with loop:
        double = rf.cast(loop.iter_idx, "int64") * 2
        loop.state.total = loop.state.total + double
    steps, pause = [*range(0, 40, 17), *range(40)] * 20, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda step: loop.run[step].double.raw_tensor.item(), steps))
    finally:
        sys.setswitchinterval(pause)
    assert found == [2 * step for step in steps]
