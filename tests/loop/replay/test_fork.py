"""Forks: a run goes on from edited states as if it had come there by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import DimError, DtypeError, LoopError
from tests.examples import examples

feat = Dim(2, name="feat")
phones = Dim(4, name="phones", vocab=["</s>", "AH", "K", "T"])


@pytest.fixture(autouse=True)
def _no_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


def labels(lengths=(4, 2, 3), steps=6):
    """Sequences end when the label, which counts down, is 0; noise and the frames go into `s`."""
    time = Dim(None, name="time")
    torch.manual_seed(1)
    x = rf.convert_to_tensor(torch.randn(len(lengths), steps, 2), dims=[batch_dim, time, feat])
    start = rf.convert_to_tensor(torch.tensor(lengths).clamp(max=3), dims=[batch_dim], sparse_dim=phones)
    loop = rf.Loop(axis=time, name="labels", debug=True)
    loop.state.label = start
    loop.state.pair = rf.State(s=rf.zeros([batch_dim, feat]), n=rf.zeros([], dtype="int64"))
    with loop:
        noise = rf.random_normal([batch_dim])
        label = rf.set_sparse_dim(rf.relu(rf.set_sparse_dim(loop.state.label, None) - 1), phones)
        s = loop.state.pair.s + loop.unstack(x) + noise
        loop.state.pair = rf.State(s=s, n=loop.state.pair.n + 1)
        loop.state.label = label
        loop.end(rf.set_sparse_dim(label, None) == 0, include_eos=True)
    return loop.run


def same(a, b):
    return torch.equal(a.raw_tensor, b.raw_tensor)


def assert_same(a, b, steps):
    """All states before `steps` and after them."""
    for step in steps:
        for name in a.states:
            assert same(a[step].after[name], b[step].after[name]), (step, name)


@examples(20)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data(), st.sampled_from([2, 3, 20_000]))
def test_with_nothing_edited_it_is_the_run_itself_bit_for_bit(lengths, data, kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rfnb.loop.step.MAX_STATES", kept)
        run = labels(lengths)
        step = data.draw(st.integers(0, run.steps - 1))
        fork = run.fork(step)
        again = fork.fork(data.draw(st.integers(0, run.steps - 1)))
        for other in (fork, again):
            assert (other.steps, other.lengths, other.flags) == (run.steps, run.lengths, run.flags)
            assert_same(run, other, range(run.steps))
            assert [each.check for each in other] == ["replay agrees"] * run.steps
            assert same(run.stack("s"), other.stack("s"))


def test_an_edit_goes_on_as_a_loop_by_hand_and_touches_nothing_before():
    run = labels()
    before = [run[i].after["pair.s"].numpy().copy() for i in range(run.steps)]
    fork = run.fork(1, **{"pair.s": 10.0})
    assert (fork.parent, fork.forked_at, fork.steps) == (run, 1, run.steps)
    assert list(rf.runs) == [fork, run]
    s = np.full((3, 2), 10.0, "float32")
    for step in range(1, run.steps):
        done = run[step].after["pair.s"].numpy() - run[step].before["pair.s"].numpy()
        s = s + done
        np.testing.assert_allclose(fork[step].after["pair.s"].numpy(), s, rtol=1e-5)
    assert same(fork[0].after["pair.n"], run[0].after["pair.n"])
    assert fork[0].values()[0].tensor.raw_tensor.equal(run[0].values()[0].tensor.raw_tensor)
    assert [fork[0].check, fork[1].check] == ["replay agrees"] * 2
    for step, was in enumerate(before):
        np.testing.assert_array_equal(run[step].after["pair.s"].numpy(), was)


def test_fewer_and_more_steps_than_the_run():
    run = labels((3, 1, 2))
    assert (run.steps, run.lengths) == (3, [3, 1, 2])
    short = run.fork(0, label="AH")
    assert (short.steps, short.lengths) == (1, [1, 1, 1])
    long = run.fork(2, label="T")
    assert (long.steps, long.lengths) == (5, [5, 1, 2])  # those that had ended stay so
    assert long.stack("s").dims[0] is run.axis
    assert long.stack("s").raw_tensor.shape == (5, 3, 2)
    revived = run.fork(0, label=["T", "T", "AH"])
    assert (revived.steps, revived.lengths) == (3, [3, 3, 1])
    unfinished = run.fork(2, label=2).fork(3, label="T").fork(5, label="T")
    assert unfinished.steps == 6
    assert unfinished.flags[0].startswith("never ended")


def test_other_draws_with_another_seed():
    run = labels()
    same_draws, others, again = run.fork(1), run.fork(1, seed=5), run.fork(1, seed=5)
    assert same(others[0].noise, run[0].noise)
    assert same(same_draws[1].noise, run[1].noise)
    assert not same(others[1].noise, run[1].noise)
    assert same(others[1].noise, again[1].noise)
    assert same(others.fork(2)[2].noise, others[2].noise)


EDITS = [
    ({"label": "K"}, [2, 2, 2]),
    ({"label": ["T", "K", "AH"]}, [3, 2, 1]),
    ({"label": 1}, [1, 1, 1]),
    ({"label": np.int64(1)}, [1, 1, 1]),
    ({"label": [3, 2, "AH"]}, [3, 2, 1]),
]


@pytest.mark.parametrize(("states", "expected"), EDITS, ids=lambda value: str(value))
def test_labels_as_text_and_numbers(states, expected):
    assert labels().fork(1, **states)[1].before.label.raw_tensor.tolist() == expected


def test_lists_with_a_tensor_number_or_label_for_each_sequence():
    run = labels()
    ones, other = rf.ones([feat]), Dim(2, name="feat")
    fork = run.fork(1, **{"pair.s": [ones, 7, rf.convert_to_tensor([1, 2], dims=[feat])]})
    assert fork[1].before["pair.s"].tolist() == [[1, 1], [7, 7], [1, 2]]
    assert run.fork(1, **{"pair.s": (ones, ones, ones)})[1].before["pair.s"].tolist() == [[1, 1]] * 3
    two = rf.convert_to_tensor(2, dims=[], dtype="int64")
    assert run.fork(1, label=[two, "AH", 1])[1].before.label.tolist() == [2, 1, 1]
    assert run.fork(1, sequence=1, **{"pair.s": [5, ones, 5]})[1].before["pair.s"].tolist()[1] == [1, 1]
    for wrong in ([ones, ones], [rf.ones([other])] * 3, [run[1].before["pair.s"]] * 3):
        with pytest.raises(DimError):
            run.fork(1, **{"pair.s": wrong})
    with pytest.raises(DtypeError, match=r"torch\.Tensor"):
        run.fork(1, **{"pair.s": [torch.ones(2)] * 3})


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize(
    "edit", [{"h": 5.0, "sequence": 1}, {"h": 5.0}, {"h": [2.0, 7.0, 9.0], "sequence": 2}], ids=str
)
def test_gradients_of_a_fork_end_at_the_entries_that_were_edited(step, edit):
    time, steps, number = Dim(None, name="time"), 3, edit.get("sequence")
    torch.manual_seed(2)
    x = torch.randn(3, steps)
    frames = rf.convert_to_tensor(x, dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.ones([batch_dim])
    with loop:
        loop.state.h = rf.tanh(loop.state.h * 1.5) * loop.unstack(frames)
    found = loop.run.fork(step, **edit).fork(steps - 1).gradients("h")
    h = start = torch.ones(3, requires_grad=True)
    new = torch.tensor(edit["h"]).expand(3)
    each = [h]
    for i in range(steps):
        if i == step:
            h = torch.where(torch.tensor([number in (None, b) for b in range(3)]), new, h)
        h = torch.tanh(h * 1.5) * x[:, i]
        h.retain_grad()
        each.append(h)
    sum(h.sum() for h in each[1:]).backward()
    np.testing.assert_allclose(found.per_sequence["h"], [h.grad.abs().numpy() for h in each[1:]], rtol=1e-5)
    np.testing.assert_allclose(found.start["h"], start.grad.norm().item(), rtol=1e-5)


def test_tensors_in_any_order_and_with_fewer_dims():
    run = labels()
    swapped = rf.convert_to_tensor(torch.arange(6.0).reshape(2, 3), dims=[feat, batch_dim])
    assert run.fork(1, **{"pair.s": swapped})[1].before["pair.s"].raw_tensor.tolist() == [[0, 3], [1, 4], [2, 5]]
    one = rf.convert_to_tensor([1.0, 2.0], dims=[feat])
    fork = run.fork(1, pair=rf.State(s=one, n=7))
    assert fork[1].before["pair.s"].raw_tensor.tolist() == [[1, 2]] * 3
    assert fork[1].before["pair.n"].item() == 7
    one.raw_tensor.zero_()
    assert fork[1].before["pair.s"].raw_tensor.tolist() == [[1, 2]] * 3, "it is a copy"


ERRORS = [
    ({"lable": "AH"}, LoopError, "did you mean 'label'"),
    ({"pair": rf.State(q=1)}, LoopError, "there is no state 'pair.q'"),
    ({"label": "KK"}, DimError, "did you mean 'K'"),
    ({"label": ["K"]}, DimError, "1 for {batch:3}"),
    ({"label": 4}, DimError, "0 … 3"),
    ({"label": -1}, DimError, "no such label"),
    ({"label": 1.5}, DtypeError, "cannot hold"),
    ({"label": True}, DtypeError, "cannot hold"),
    ({"label": torch.zeros(3)}, DtypeError, "not an rf.Tensor"),
    ({"pair.s": "AH"}, DimError, "no vocabulary"),
    ({"pair.n": 2**70}, DtypeError, "does not fit into the state"),
    ({"pair.s": 10**400}, DtypeError, "does not fit into the state"),
    ({"sequence": 1.5, "label": 1}, LoopError, "there is no sequence 1.5"),
    ({"seed": "x", "label": 1}, DtypeError, "`seed`"),
    ({"pair.n": [1, 2]}, DimError, "needs one entry per sequence"),
    ({"pair.s": rf.zeros([Dim(3, name="other")])}, DimError, "unexpected dim other"),
    ({"pair.s": None}, DtypeError, "not an rf.Tensor"),
    ({"label": rf.zeros([], dtype="int64", sparse_dim=Dim(4, name="words"))}, DimError, "labels of another dim"),
]


@pytest.mark.parametrize(("states", "kind", "words"), ERRORS, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused_and_nothing_is_kept(states, kind, words):
    run = labels()
    with pytest.raises(kind) as error:
        run.fork(1, **states)
    assert words in str(error.value)
    assert list(rf.runs) == [run]


def test_a_finite_number_never_becomes_infinite():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.h = rf.convert_to_tensor([1.0, 2.0], dims=[batch_dim])
    with loop:
        loop.state.h = loop.state.h + 1.0
    for value in (1e60, [0.0, -1e60], rf.convert_to_tensor(1e60, dtype="float64")):
        with pytest.raises(DtypeError, match="does not fit into the state"):
            loop.run.fork(1, h=value)
    fork = loop.run.fork(1, h=[float("inf"), float("nan")])
    assert fork[1].before.h.tolist()[0] == float("inf")
    assert "not finite" in rf.show(fork).text


def test_numbers_that_do_not_fit_into_a_small_dtype():
    loop = rf.Loop(max_seq_len=2, debug=True)
    loop.state.n, loop.state.m = (
        rf.convert_to_tensor([1, 2], dims=[batch_dim], dtype=kind) for kind in ("uint8", "int32")
    )
    with loop:
        loop.state.n, loop.state.m = loop.state.n + 1, loop.state.m + 1
    assert loop.run.fork(1, n=255, m=[-(2**31), 2**31 - 1])[1].before.m.tolist() == [-(2**31), 2**31 - 1]
    for states in ({"n": 256}, {"n": -1}, {"m": 2**31}, {"m": [0, 2**40]}, {"n": rf.convert_to_tensor(300)}):
        with pytest.raises(DtypeError, match="does not fit into the state"):
            loop.run.fork(1, **states)


@pytest.mark.parametrize("step", [1.5, float("nan"), [1]])
def test_steps_are_whole_numbers(step):
    run = labels()
    for look in (lambda: run[step], lambda: run.fork(step)):
        with pytest.raises(DtypeError, match="is not a whole number"):
            look()
    assert run[np.int64(1)].values() and run[torch.tensor(1)].values()


def test_a_tensor_of_another_batch():
    run = labels()
    other = rf.convert_to_tensor(torch.ones(2), dims=[batch_dim])
    with pytest.raises(DimError, match="batch"):
        run.fork(1, **{"pair.s": other})


@pytest.mark.parametrize("step", [4, 3, -4])
def test_steps_that_there_are_not(step):
    with pytest.raises(LoopError, match="no step"):
        labels((3, 2, 1)).fork(step)
    assert labels((3, 2, 1)).fork(-1).forked_at == 2


def test_an_axis_that_grows():
    time, hist = Dim(None, name="time"), Dim(0, name="hist")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.hist, loop.state.all = hist, rf.zeros([batch_dim, hist])
    with loop:
        now = loop.unstack(x) + rf.reduce_sum(loop.state.all, axis=loop.state.hist)
        loop.state.all, loop.state.hist = rf.cum_concat_step(now, prev_accum=loop.state.all, axis=loop.state.hist)
    run = loop.run
    assert run[2].after.all.raw_tensor.tolist() == [[1.0, 3.0, 7.0]]
    assert run.fork(1)[2].after.all.raw_tensor.tolist() == [[1.0, 3.0, 7.0]]
    assert run.fork(1, all=5.0)[2].after.all.raw_tensor.tolist() == [[5.0, 7.0, 15.0]]
    with pytest.raises(LoopError, match="grows"):
        run.fork(1, hist=3)


def test_a_fork_has_no_effects():
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        rf.assert_(loop.state.n < 50, "too large")
        loop.state.n = loop.state.n + 1
    assert loop.run.fork(1, n=100)[2].after.n.item() == 102


def test_a_loop_that_reads_what_it_writes():
    count = rf.convert_to_tensor(torch.zeros(()), dims=[])
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.s = rf.zeros([])
    with loop:
        count.raw_tensor.add_(1)
        loop.state.s = loop.state.s + count
    assert loop.state.s.item() == 6
    assert "the loop changes something that it reads" in loop.run[0].check
    with pytest.raises(LoopError, match="reads"):
        loop.run.fork(1)


def test_running_statistics_that_nothing_reads_stay_as_they_are():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(torch.randn(3, 4, 2), dims=[batch_dim, time, feat])
    mean, variance = (rf.Parameter([feat], initial=start, trainable=False) for start in (0.0, 1.0))
    rf.init_train_step_run_ctx()
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([batch_dim, feat])
    with loop:
        normal = rf.batch_norm(
            loop.unstack(x), in_dim=feat, running_mean=mean, running_variance=variance, gamma=None, beta=None,
            affine=False, epsilon=1e-3, momentum=0.1,
        )  # fmt: skip
        loop.state.s = loop.state.s + normal
    was = mean.raw_tensor.clone()
    assert was.any()
    assert_same(loop.run, loop.run.fork(2), range(4))
    assert torch.equal(mean.raw_tensor, was)


def test_from_the_step_that_failed():
    loop = rf.Loop(max_seq_len=4, debug=True, name="fails")
    loop.state.n = rf.convert_to_tensor(0)
    with pytest.raises(AssertionError), loop:
        rf.assert_(loop.state.n != 2, "two")
        loop.state.n = loop.state.n + 1
    run = rf.runs["fails"]
    assert run.steps == 2
    fork = run.fork(2, n=5)
    assert (fork.steps, fork.flags, fork[3].after.n.item()) == (4, [], 7)


def test_a_fork_that_fails_says_so_and_can_be_looked_at():
    entry = Dim(3, name="entry")
    table = rf.convert_to_tensor([1, 2, 0], dims=[entry])
    loop = rf.Loop(max_seq_len=4, debug=True, name="look up")
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        found = rf.gather(table, indices=loop.state.n, axis=entry)
        loop.state.n = found + 0
    with pytest.raises(IndexError) as error:
        loop.run.fork(1, n=7)
    assert "in step 1 of look up" in error.value.__notes__[-1]
    fork = rf.runs["look up"]
    assert (fork.parent, fork.steps, fork.flags) == (loop.run, 1, ["failed: IndexError in step 1"])
    assert fork[0].after.n.item() == 7
    assert fork.fork(1, n=2)[1].after.n.item() == 0


def test_parents_are_kept_as_long_as_their_forks():
    with rf.recording("last"):
        run = labels()
        forks = [run.fork(0, label="AH") for _ in range(rf.options.keep + 1)]
        assert run in list(rf.runs)
        assert forks[0] not in list(rf.runs)


def test_views_say_what_it_is_a_fork_of():
    run = labels()
    fork = run.fork(2)
    assert f"fork of {run.serial} at" in repr(rf.runs)
    assert f"fork of {run.serial} at step 2" in rf.show(fork).text


def tagged_search(sizes=(2, 3)):
    """A search with a table of scores; the state `h` counts what each hypothesis has been given."""
    batch, beam = sizes
    tags = [f"word {i}" for i in range(batch)]
    before, width = Dim(4, name="before"), Dim(beam, name="beam")
    torch.manual_seed(3)
    table = rf.convert_to_tensor(torch.randn(batch, 4, 4), dims=[batch_dim, before, phones], tags=tags)
    loop = rf.Loop(max_seq_len=5, name="search", debug=True)
    loop.state.prev = rf.zeros([batch_dim, width], dtype="int64", sparse_dim=phones)
    loop.state.h = rf.zeros([batch_dim, width])
    loop.state.n = rf.zeros([], dtype="int64")
    with loop:
        scores = rf.gather(table, indices=rf.set_sparse_dim(loop.state.prev, before), axis=before)
        chosen = loop.choice(scores, beam=width, axis=phones, input_type="logits", length_normalization=False)
        loop.state.prev, loop.state.h, loop.state.n = chosen.labels, loop.state.h + 1, loop.state.n + 1
    return loop.run


@pytest.mark.parametrize("sequence", [1, "word 1", -1, None])
@pytest.mark.parametrize("hypothesis", [0, 2, None])
def test_only_one_sequence_and_hypothesis_is_edited(sequence, hypothesis):
    run = tagged_search()
    fork = run.fork(2, sequence=sequence, hypothesis=hypothesis, prev="K", h=9.0)
    before, after = (each[2].before for each in (run, fork))
    chosen = np.zeros((2, 3), bool)
    chosen[slice(None) if sequence is None else 1, slice(None) if hypothesis is None else hypothesis] = True
    np.testing.assert_array_equal(after.prev.numpy(), np.where(chosen, 2, before.prev.numpy()))
    np.testing.assert_array_equal(after.h.numpy(), np.where(chosen, 9.0, before.h.numpy()))
    assert fork[2].check == "replay agrees" and fork.found.trace.steps.tolist() == [5, 5]
    if sequence is not None:  # the others go on as before
        assert fork.found.nbest(3)[0] == run.found.nbest(3)[0]


def test_one_sequence_of_any_loop():
    run = labels((3, 2, 3))
    fork = run.fork(1, sequence=2, label="T", **{"pair.s": 7.0})
    assert fork[1].before.label.tolist() == [*run[1].before.label.tolist()[:2], 3]
    assert fork[1].before["pair.s"].numpy()[2].tolist() == [7.0, 7.0]
    assert fork.lengths == [3, 2, 4]


@pytest.mark.parametrize(
    ("only", "error", "words"),
    [
        ({"sequence": 5, "prev": 0}, LoopError, "no sequence 5"),
        ({"sequence": "word 7", "prev": 0}, LoopError, "word 7"),
        ({"hypothesis": 3, "prev": 0}, LoopError, "no hypothesis 3"),
        ({"hypothesis": -1, "prev": 0}, LoopError, "no hypothesis -1"),
        ({"sequence": 0, "n": 0}, DimError, "'n' is the same for all entries of batch"),
        ({"hypothesis": 0, "n": 0}, DimError, "'n' is the same for all entries of beam"),
        ({"hypothesis": 0, "prev": "nothing"}, DimError, "nothing"),
    ],
)
def test_what_cannot_be_edited_alone(only, error, words):
    run = tagged_search()
    with pytest.raises(error, match=words):
        run.fork(2, **only)
    assert list(rf.runs) == [run]


def test_only_a_search_has_hypotheses():
    with pytest.raises(LoopError, match="there is no hypothesis 0"):
        labels().fork(1, hypothesis=0, label="K")


def test_the_size_of_an_axis_that_grows_is_not_edited():
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.axis = Dim(0, name="history")
    loop.state.history = rf.zeros([batch_dim, loop.state.axis])
    with loop:
        history, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.history, axis=loop.state.axis)
        loop.state.history, loop.state.axis = history, axis
    [(name, reason)] = loop.run.replay.locked_states(loop.run, 1).items()
    assert name == "axis" and "size of an axis that grows" in reason
    with pytest.raises(LoopError, match="size of an axis that grows"):
        loop.run.fork(1, axis=2)
    assert labels().replay.locked_states(loop.run, 1) == {}


def test_a_loop_that_changes_what_it_reads_is_not_continued():
    count = rf.Parameter([], dtype="float32", trainable=False, auxiliary=True)
    count.initial = 0.0
    loop = rf.Loop(max_seq_len=3, debug=True)
    loop.state.h = rf.zeros([])
    with loop:
        count.assign_add(1.0)
        loop.state.h = loop.state.h + count
    with pytest.raises(LoopError, match="changes something that it reads"):
        loop.run.fork(1)
    assert "changes something that it reads" in loop.run.replay.locked_states(loop.run, 1)["h"]
