"""A kept step holds for sizes between those of two traces that gave the same step; what else there is, is traced."""

import pytest
import torch

import rfnb as rf
from rfnb.loop.kept.kept_steps import KeptSteps, equal

FEAT = rf.Dim(3, name="feat")
TIME = rf.Dim(None, name="time")


def run(steps, lengths, body=None, *, key=(), given=None, seed=0):
    """Sums over time of tanh(x · s + s), by a kept step if there is one."""
    draw = torch.Generator().manual_seed(seed)
    raw = torch.randn(len(lengths), max(lengths), 3, generator=draw)
    x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, TIME, FEAT], lengths=lengths)
    loop = rf.Loop(axis=TIME)
    loop.state.s = rf.zeros([rf.batch_dim, FEAT])
    tensors = [x] if given is None else [x, given]
    again = steps.find(loop, key, tensors)
    if again is not None:
        step, extra = again
        loop._run_traced(step)
        assert extra == "known"
        return step.outputs[0][1], loop.state.s
    loop.keep = steps.keeping(loop, key, tensors, lambda: key, lambda: "known")
    with loop:
        s = rf.tanh(loop.unstack(x) * loop.state.s + 0.5)
        loop.state.s = s if body is None else body(s)
        out = loop.stack(loop.state.s)
    return out, loop.state.s


def check(steps, lengths, **options):
    found, expected = run(steps, lengths, **options), run(KeptSteps(), lengths, **options)
    for a, b in zip(found, expected, strict=True):
        assert a.dims == b.dims and torch.equal(a.raw_tensor, b.raw_tensor)


def test_sizes_between_those_of_two_traces():
    steps = KeptSteps()
    for lengths, again in (([4, 2], 0), ([9, 3, 2], 0), ([5, 3, 4], 1), ([6, 5], 2), ([10, 2], 2), ([10, 9], 3)):
        check(steps, lengths)
        assert steps.again == again, lengths
    check(steps, [4, 4])  # no padding: another step
    assert steps.again == 3


def test_other_keys_and_objects():
    steps = KeptSteps()
    for key, again in (((1, "a"), 0), ((1, "a"), 1), ((2, "a"), 1), ((True, "a"), 1), ((1, "a", FEAT), 1)):
        check(steps, [4, 2], key=key)
        assert steps.again == again
    assert equal((1, FEAT), (1, FEAT)) and not equal((1,), (1.0,)) and not equal(([],), ([],))


def test_random_numbers_continue_the_same_way():
    steps = KeptSteps()
    for seed in range(3):
        torch.manual_seed(seed)
        found = run(steps, [4, 2], lambda s: rf.dropout(s, 0.5, axis=FEAT, on_forward=True))[0].raw_tensor
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        fresh = run(KeptSteps(), [4, 2], lambda s: rf.dropout(s, 0.5, axis=FEAT, on_forward=True))[0].raw_tensor
        assert torch.equal(found, fresh) and torch.equal(state, torch.get_rng_state())
    assert steps.again == 2


NOT_GIVEN = rf.convert_to_tensor([1.0, 2.0, 3.0], dims=[FEAT])
REFUSED = {
    "a tensor that is not given": lambda s: s + NOT_GIVEN,
    "outside of ops": lambda s: rf.raw_call(lambda raw: raw * 2, s, out_dims=s.dims),
    "an effect": lambda s: (rf.watch(s), s)[1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_kept(name, capsys):
    """The body is traced in each call, and the reason is counted."""
    steps = KeptSteps()
    for _ in range(2):
        check(steps, [3, 2], body=REFUSED[name])
    assert (steps.traced, steps.again) == (2, 0) and steps.refused.total() >= 2


def test_who_looks_at_the_body():
    steps = KeptSteps()
    check(steps, [3, 2])
    with rf.recording("last"):
        run(steps, [3, 2])
    assert steps.again == 0 and steps.refused["it is recorded"]
    rf.runs.clear()


def test_an_error_of_the_new_tensors_comes_from_the_traced_body():
    """A tensor of another batch."""
    steps = KeptSteps()
    other = rf.convert_to_tensor(torch.ones(2, 3), dims=[rf.batch_dim, FEAT])
    check(steps, [3, 2], body=lambda s: s + other, given=other)
    wrong = rf.convert_to_tensor(torch.ones(3, 3), dims=[rf.batch_dim, FEAT])
    with pytest.raises(rf.errors.RfError):
        run(steps, [3, 2], lambda s: s + wrong, given=wrong)
    check(steps, [3, 2], body=lambda s: s + other, given=other)
