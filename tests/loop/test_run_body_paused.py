"""A loop that is paused and goes on gives what it would have given."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import DimError, LoopError, LoopWarning
from rfnb.trace.pause import Resume
from tests.trace.holding import (
    no_pauses,  # noqa: F401, an autouse fixture
    user,
)

FEAT, OUT = Dim(3, name="feat"), Dim(2, name="out")


def run(lengths, *, pause: bool = False, drop: float = 0.3, end: bool = False):
    """The outputs, the gradient of the weight, and the run of a small recurrent net with dropout."""
    torch.manual_seed(0)
    time = Dim(None, name="time")
    rows = [torch.randn(n, 3).tolist() for n in lengths]
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time, FEAT]) if any(lengths) else None
    if x is None:
        x = rf.zeros([batch_dim, time, FEAT])
    weight = torch.nn.Parameter(torch.randn(3, 2))
    w = rf.convert_to_tensor(weight, dims=[FEAT, OUT])
    rf.set_random_seed(3)
    loop = rf.Loop(axis=time, name="decoder", debug=True)
    loop.state.h = rf.zeros([batch_dim, OUT])
    with rf.get_run_ctx() and loop:
        h = rf.tanh(rf.matmul(loop.unstack(x), w, reduce=FEAT) + loop.state.h)
        h = rf.dropout(h, drop, on_forward=True)
        if pause:
            rf.pause()
        loop.state.h = h
        out = loop.stack(h)
    rf.reduce_sum(out, axis=out.dims).backward()
    return out.raw_tensor.detach().clone(), weight.grad, loop.run


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_outputs_and_gradients_are_bit_equal(lengths):
    out, gradient, plain = run(lengths)
    with user() as seen:
        paused, paused_gradient, recorded = run(lengths, pause=True)
    assert torch.equal(out, paused)
    assert torch.equal(gradient, paused_gradient)
    assert [step for step, _ in seen] == list(range(max(lengths)))
    assert recorded.steps == plain.steps
    assert [recorded[i].check for i in range(recorded.steps)] == ["replay agrees"] * recorded.steps


def test_a_condition_on_a_state_and_on_a_value():
    for where in (rf.when.over(0, "h"), "rf.reduce_any(after.h != 0, axis=after.h.dims)"):
        rf.pauses.clear()
        rf.pause_when(where, loop="decoder")
        with user() as seen:
            run([3, 1])
        assert [step for step, _ in seen] == [0, 1, 2]


def test_until_and_tests_of_the_user():
    answers = iter([Resume(until=3, why="step 3"), Resume(tests=(lambda at: at.step == 5,), why="a match"), Resume()])
    rf.pause_when(lambda at: at.step == 1, loop="decoder")
    with user(lambda paused: next(answers)) as seen:
        run([8])
    assert seen == [(1, "<lambda>"), (3, "step 3"), (5, "a match")]


def test_the_run_of_a_paused_loop_grows_and_stays_the_same():
    runs = []

    def look(paused):
        run = paused.run
        runs.append((run, run.steps, run.lengths, list(rf.runs).count(run)))
        return Resume()

    with user(look):
        *_, recorded = run([3, 2], pause=True)
    assert {id(found) for found, *_ in runs} == {id(recorded)}
    assert [steps for _, steps, *_ in runs] == [1, 2, 3]
    assert [lengths for *_, lengths, _ in runs] == [[1, 1], [2, 2], [3, 2]]
    assert {count for *_, count in runs} == {1}
    before = rf.runs.bytes
    rf.runs.forget(recorded.serial)
    assert rf.runs.bytes < before


def test_an_edit_is_what_the_loop_goes_on_with():
    def edit(paused):
        if paused.step == 1:
            paused.edit({"h": 0.25}, (None, None))
        return Resume()

    out, *_, plain = run([4, 3])
    with user(edit):
        edited, gradient, recorded = run([4, 3], pause=True)
    assert torch.equal(out[:2], edited[:2])
    assert not torch.equal(out[2:], edited[2:])
    assert recorded[2].before.h.raw_tensor.eq(0.25).all()
    assert (recorded.edits, "edited at step 2: h" in recorded.flags) == ({2: ["h"]}, True)
    assert [recorded[i].check for i in range(4)] == ["replay agrees"] * 4
    forked = plain.fork(2, h=0.25)
    assert torch.equal(forked[3].after.h.raw_tensor, recorded[3].after.h.raw_tensor)
    assert gradient.isfinite().all()


def test_an_edited_state_is_a_constant_to_gradients():
    def edit(paused):
        if paused.step == 2:
            paused.edit({"h": 0.0}, (None, None))
        return Resume()

    with user(edit):
        _, gradient, _ = run([4], pause=True, drop=0.0)
    parts = []
    for steps in (slice(0, 3), slice(3, 4)):
        torch.manual_seed(0)
        x, weight = torch.randn(4, 3)[steps], torch.nn.Parameter(torch.randn(3, 2))
        h, total = torch.zeros(2), 0
        for row in x:
            h = torch.tanh(row @ weight + h)
            total = total + h.sum()
        total.backward()
        parts.append(weight.grad)
    torch.testing.assert_close(gradient, sum(parts))


def test_a_paused_run_is_not_flagged_as_one_that_never_ended():
    loop = rf.Loop(max_seq_len=5, name="ending", debug=True)
    loop.state.n = rf.convert_to_tensor([1, 3], dims=[batch_dim])
    flags = []
    with user(lambda paused: (flags.append(paused.run.flags), Resume())[1]), loop:
        rf.pause()
        loop.state.n = loop.state.n + 1
        loop.end(loop.state.n > 4, include_eos=True)
    assert flags == [[]] * 4
    assert loop.run.flags == []


def test_a_wrong_edit_changes_nothing():
    def edit(paused):
        with pytest.raises(LoopError, match="no state 'c'"):
            paused.edit({"c": 0.0}, (None, None))
        with pytest.raises(DimError):
            paused.edit({"h": [1.0, 2.0, 3.0]}, (None, None))
        return Resume()

    out, *_ = run([3])
    with user(edit):
        again, _, recorded = run([3], pause=True)
    assert torch.equal(out, again)
    assert recorded.edits == {}


def test_conditions_for_an_inner_loop_are_told_and_ignored():
    rf.pause_when("m > 1", loop="inner")
    outer = rf.Loop(max_seq_len=2, name="outer", debug=True)
    outer.state.n = rf.convert_to_tensor(1)
    with user() as seen, pytest.warns(LoopWarning, match="inner runs inside of another loop") as told, outer:
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.m = outer.state.n
        with inner:
            inner.state.m = inner.state.m + 1
        outer.state.n = inner.state.m
    assert (seen, len(told)) == ([], 1)


def test_a_loop_without_steps_does_not_pause():
    loop = rf.Loop(max_seq_len=0, name="none", debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with user() as seen, loop:
        rf.pause()
        loop.state.n = loop.state.n + 1
    assert seen == []
    assert loop.state.n.item() == 1


def test_a_paused_search_and_what_it_finds():
    def search(pause):
        beam, labels = Dim(3, name="beam"), Dim(4, name="labels")
        scores = rf.convert_to_tensor(
            torch.randn(2, 4, generator=torch.Generator().manual_seed(0)).tolist(), dims=[batch_dim, labels]
        )
        loop = rf.Loop(max_seq_len=4, name="search", debug=True)
        loop.state.total = rf.zeros([batch_dim, beam])
        with loop:
            chosen = loop.choice(
                scores + rf.expand_dim(loop.state.total * 0, labels) * 0, beam=beam, input_type="logits"
            )
            loop.state.total = rf.cast(chosen.labels, "float32")
            if pause:
                rf.pause()
            loop.end(chosen.labels == 3, include_eos=False)
            found = loop.stack(chosen.labels)
        return found.raw_tensor, loop.found.scores.raw_tensor, loop.run

    plain = search(False)
    with user(lambda paused: (paused.run[paused.step].values(), rf.show(paused.run).text, Resume())[-1]) as seen:
        paused = search(True)
    assert seen
    assert torch.equal(plain[0], paused[0])
    assert torch.equal(plain[1], paused[1])
    assert paused[2].found.nbest() == plain[2].found.nbest()


@pytest.mark.parametrize("grad", [torch.no_grad, torch.enable_grad, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_modes_around_the_loop_stay(grad):
    def plain(pause):
        with grad():
            x = rf.ones([batch_dim, FEAT])
            w = rf.ones([FEAT, OUT])
            loop = rf.Loop(max_seq_len=3, name="modes", debug=True)
            loop.state.h = rf.zeros([batch_dim, OUT])
            with loop:
                h = rf.cast(rf.matmul(x, w, reduce=FEAT), "float32")
                if pause:
                    rf.pause()
                loop.state.h = loop.state.h + h
            return loop.state.h.raw_tensor

    rf.convert_to_tensor([0.0, 0.0], dims=[batch_dim])
    out = plain(False)
    with user(lambda paused: (paused.run[paused.step].values(), Resume())[1]):
        again = plain(True)
    assert torch.equal(out, again)
    assert out.requires_grad == again.requires_grad


EDITS = {
    "one sequence": ({"h": 0.5}, (1, None), [(1, ...)]),
    "by tag": ({"h": 0.5}, ("fig", None), [(1, ...)]),
    "all": ({"h": 0.5}, (None, None), [(...,)]),
    "a list for one sequence": ({"h": [0.0, 0.5]}, (1, None), [(1, ...)]),
    "some entries of a tensor": ({"h": "tensor"}, (None, None), [(0, 1), (1, 0)]),
    "some entries of a tensor, one sequence": ({"h": "tensor"}, (0, None), [(0, 1)]),
    "nothing": ({"h": "same"}, (None, None), []),
    "all without a dim": ({"h": "one"}, (None, None), [(...,)]),
}


def edited_net(steps, edit=None, at=1, *, hoisted=True, end=False, twice=False):
    """The outputs, the final state, the gradients of two weights, and the run of a recurrent net that is edited."""
    torch.manual_seed(1)
    time, hidden = Dim(None, name="time"), Dim(2, name="hidden")
    x = rf.convert_to_tensor(torch.randn(2, steps, 3), dims=[batch_dim, time, FEAT], tags=["kiwi", "fig"])
    w, u = (torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 2), (2, 2)))
    w_, u_ = rf.convert_to_tensor(w, dims=[FEAT, OUT]), rf.convert_to_tensor(u, dims=[hidden, OUT])
    loop = rf.Loop(axis=time, name="net", debug=True, optimize_move_layers_out=hoisted or None)
    loop.state.net = rf.State(h=rf.zeros([batch_dim, OUT]), n=rf.zeros([batch_dim], dtype="int64"))

    def answer(paused):
        if edit is not None and paused.step == at:
            edit(paused)
        return Resume()

    with user(answer), loop:
        rf.pause()
        h = rf.replace_dim(loop.state.net.h, in_dim=OUT, out_dim=hidden)[0]
        h = rf.tanh(rf.matmul(loop.unstack(x), w_, reduce=FEAT) + rf.matmul(h, u_, reduce=hidden))
        loop.state.net = rf.State(h=h, n=loop.state.net.n + 1)
        if end:
            loop.end(loop.state.net.n >= steps, include_eos=True)
        out = loop.stack(h)
    loss = rf.reduce_sum(out, axis=out.dims) + rf.reduce_sum(rf.square(loop.state.net.h), axis=[batch_dim, OUT])
    norms = loop.run.gradients(loss)
    loss.raw_tensor.backward()
    return out.copy_transpose([time, batch_dim, OUT]).raw_tensor.detach(), w.grad, u.grad, norms


def edited_by_hand(steps, new, mask, at):
    """The same by torch: entries in `mask` are replaced after step `at`."""
    torch.manual_seed(1)
    x = torch.randn(2, steps, 3)
    w, u = (torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 2), (2, 2)))
    h, outs, assigned = torch.zeros(2, 2), [], []
    for step in range(steps):
        h = torch.tanh(x[:, step] @ w + h @ u)
        h.retain_grad()
        outs.append(h)
        assigned.append(h)
        if step == at:
            h = torch.where(mask, new, h)
    (sum(out.sum() for out in outs) + h.square().sum()).backward()
    return torch.stack(outs).detach(), w.grad, u.grad, [each.grad.norm(dim=1).tolist() for each in assigned]


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize(
    ("steps", "at", "options"),
    [(3, 0, {}), (6, 1, {}), (6, 5, {}), (6, 2, {"hoisted": False}), (6, 2, {"end": True})],
    ids=str,
)
def test_gradients_of_entries_that_were_not_edited_go_on(name, steps, at, options):
    states, only, places = EDITS[name]
    plain = edited_net(steps)
    mask, old = torch.zeros(2, 2, dtype=torch.bool), plain[0][at]
    for place in places:
        mask[place] = True
    new = torch.where(mask, torch.tensor(0.5), old)
    value = {
        "tensor": rf.convert_to_tensor(new, dims=[batch_dim, OUT]),
        "same": rf.convert_to_tensor(old.T, dims=[OUT, batch_dim]),
        "one": rf.convert_to_tensor([0.5, 0.5], dims=[OUT]),
    }

    def edit(paused):
        paused.edit({f"net.{key}": value.get(each, each) if isinstance(each, str) else each
                     for key, each in states.items()}, only)  # fmt: skip

    out, w, u, norms = edited_net(steps, edit, at, **options)
    expected, w_grad, u_grad, expected_norms = edited_by_hand(steps, new, mask, at)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(w, w_grad)
    torch.testing.assert_close(u, u_grad)
    torch.testing.assert_close(norms.per_sequence["net.h"].tolist(), expected_norms, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("edits", [[], [(1, 0)], [(1, 0), (0, 2)], [(0, None)], [("fig", 1), (1, 1)]], ids=str)
def test_edits_of_hypotheses_cut_the_gradients_of_these_alone(edits):
    beam, words = Dim(3, name="beam"), Dim(4, name="words")
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(2, 4))
    scores = rf.convert_to_tensor(weight, dims=[batch_dim, words], tags=["kiwi", "fig"])
    loop = rf.Loop(max_seq_len=3, name="search", debug=True)
    loop.state.c, loop.state.edited = rf.ones([batch_dim, beam]), rf.zeros([batch_dim, beam])

    def answer(paused):
        for only in edits if paused.step == 1 else ():
            paused.edit({"c": 0.5, "edited": 1.0}, only)
        return Resume()

    with user(answer), loop:
        rf.pause()
        energies = rf.expand_dim(loop.state.c, words) * scores
        chosen = loop.choice(energies, beam=beam, input_type="logits", length_normalization=False)
        loop.state.c = chosen.follow(loop.state.c) * 1.1 + rf.gather(scores, indices=chosen.labels, axis=words)
        loop.state.edited = chosen.follow(loop.state.edited)
    c, descends = loop.state.c.raw_tensor, loop.state.edited.raw_tensor == 1
    slopes = [torch.autograd.grad(entry, weight, retain_graph=True)[0].sum() for entry in c.flatten()]
    torch.testing.assert_close(torch.stack(slopes).reshape(2, 3), torch.where(descends, 1.0, 1.1**2 + 1.1 + 1))
    assert descends.any() == bool(edits)
