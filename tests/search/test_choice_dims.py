"""Choices with several batch dims, nested states, two choices per step, and inside of other loops; gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, LoopError
from tests.search.test_choice import STATE, Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def table_search(choose, beam_size=3, limit=3, debug=False):
    """A search with a table of scores; `choose(loop, scores, beam, label)` makes the labels of the step."""
    label, before, beam = (rf.Dim(n, name=name) for n, name in ((4, "label"), (4, "before"), (beam_size, "beam")))
    table = rf.convert_to_tensor(np.random.RandomState(0).randn(4, 4), dims=[before, label])
    loop = rf.Loop(max_seq_len=limit, debug=debug)
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=before)
    with loop:
        scores = rf.log_softmax(rf.gather(table, indices=loop.state.prev), axis=label)
        labels = choose(loop, scores, beam, label)
        loop.state.prev = rf.set_sparse_dim(labels, before)
    return loop, rf.log_softmax(table, axis=label).raw_tensor.numpy()


def chosen(loop, scores, beam, label, **options):
    return loop.choice(scores, beam=beam, axis=label, input_type="log_prob", length_normalization=False, **options)


@pytest.mark.parametrize(
    "mix",
    [
        lambda new, old, scores, label: new + old,
        lambda new, old, scores, label: rf.where(new > 0, new, old),
        lambda new, old, scores, label: rf.gather(scores, indices=new, axis=label),
        lambda new, old, scores, label: rf.combine_bc(new, "add", old),
        lambda new, old, scores, label: rf.equal(old, new),
    ],
    ids=["add", "where", "gather", "combine_bc", "equal"],
)
def test_hypotheses_before_and_after_a_choice_do_not_meet(mix):
    def wrong(loop, scores, beam, label):
        new = chosen(loop, scores, beam, label)
        mix(new.labels, loop.state.prev, scores, label)
        return new.labels

    with pytest.raises(DimError, match=r"before a choice(.|\n)*chosen\.follow\(x\)"):
        table_search(wrong)


def test_follow_takes_the_values_of_the_parents():
    seen = {}

    def choose(loop, scores, beam, label):
        new = chosen(loop, scores, beam, label)
        own = rf.gather(new.follow(scores), indices=new.labels, axis=label)
        seen["steps"] = loop.stack(own)
        seen["same"] = new.follow(new.labels) is new.labels and new.follow(3) == 3
        return new.labels

    loop, _ = table_search(choose)
    total = seen["steps"].copy_transpose([loop.axis, loop.found.beam]).raw_tensor.sum(0)
    assert seen["same"] and total.tolist() == pytest.approx(loop.found.scores.tolist())


@pytest.mark.parametrize("between", [2, 3, 7])
def test_two_choices_in_a_step_agree_with_a_search_over_pairs(between):
    stacked = {}

    def choose(loop, scores, beam, label):
        options = {"axis": label, "input_type": "log_prob", "length_normalization": False}
        first = loop.choice(scores, beam=beam, beam_size=between, **options)
        second = loop.choice(first.follow(scores), beam=beam, **options)
        stacked["first"], stacked["second"] = loop.stack(first.labels), loop.stack(second.labels)
        stacked["of first"] = loop.stack(second.follow(first.labels))
        return second.labels

    loop, table = table_search(choose, debug=True)
    beam = [((), 0.0, 0)]
    for _ in range(3):
        half = [((*at, a), score + table[prev, a], prev) for at, score, prev in beam for a in range(4)]
        half = sorted(half, key=lambda one: -one[1])[:between]
        whole = [((*at, b), score + table[prev, b], b) for at, score, prev in half for b in range(4)]
        beam = sorted(whole, key=lambda one: -one[1])[:3]
    order = [loop.found.beam, loop.axis]
    first, second, followed = (stacked[k].copy_transpose(order).tolist() for k in ("first", "second", "of first"))
    for place, (labels, score, _) in enumerate(beam):
        assert (tuple(first[place]), tuple(second[place])) == (labels[::2], labels[1::2])
        assert loop.found.scores.tolist()[place] == pytest.approx(score)
        both = zip(labels[::2], labels[1::2], strict=True)
        assert loop.found.tree[0].hypotheses[place].text == " ".join(f"{a}/{b}" for a, b in both)
    assert followed == first
    assert loop.run.found.trace.parents.tolist() == loop.found.trace.parents.tolist()
    assert loop.run.stack("first.labels").copy_transpose(order).tolist() == first


def test_several_batch_dims():
    net, groups = Net(5, 6, 2), [rf.Dim(2, name="group"), rf.Dim(3, name="member")]
    loop, _ = search(net, 6, 3, 4)
    expected = loop.found
    net.tensors[3] = rf.convert_to_tensor(net.x.reshape(2, 3, STATE), dims=[*groups, net.tensors[3].dims[1]])
    beam = rf.Dim(3, name="beam")
    loop = rf.Loop(max_seq_len=4)
    loop.state.prev = rf.zeros([*groups, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([groups[1], beam, net.state, groups[0]])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        new = loop.choice(logits, beam=beam, axis=net.label, input_type="logits")
        loop.state.prev = new.labels
        loop.end(new.labels == 1, include_eos=False)
    scores = loop.found.scores.copy_transpose([*groups, loop.found.beam]).raw_tensor.reshape(6, 3)
    np.testing.assert_allclose(scores, expected.scores.raw_tensor, rtol=1e-5)
    order = [dim for dim in loop.found.scores.dims if dim in groups]  # of the trees
    numbers = np.arange(6).reshape(2, 3).transpose([groups.index(dim) for dim in order]).reshape(6)
    assert loop.found.nbest(3) == [expected.nbest(3)[number] for number in numbers]


def test_nested_states_follow_their_hypotheses():
    net = Net(5, 3, 4)
    expected, _ = search(net, 3, 4, 5)
    beam = rf.Dim(4, name="beam")
    loop = rf.Loop(max_seq_len=5)
    h = rf.zeros([rf.batch_dim, beam, net.state])
    prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.decoder = rf.State(rnn=rf.State(h=h), prev=prev)
    with loop:
        h, logits = net.traced(loop.state.decoder.rnn.h, loop.state.decoder.prev)
        new = loop.choice(logits, beam=beam, axis=net.label, input_type="logits")
        loop.state.decoder = rf.State(rnn=rf.State(h=h), prev=new.labels)  # one from before, one from after it
        loop.end(new.labels == 1, include_eos=False)
    assert loop.found.nbest(4) == expected.found.nbest(4)


def test_a_loop_inside_the_step():
    """Two steps of the net by an inner loop are those written out."""
    net, found = Net(4, 2, 6), []
    for inner in (False, True):
        beam = rf.Dim(3, name="beam")
        loop = rf.Loop(max_seq_len=4, name="outer")
        loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
        loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
        with loop:
            if inner:
                twice = rf.Loop(max_seq_len=2, name="twice")
                twice.state.h = loop.state.h
                with twice:
                    twice.state.h, logits = net.traced(twice.state.h, loop.state.prev)
                    last = twice.last(logits)
                h = twice.state.h
            else:
                h, _ = net.traced(loop.state.h, loop.state.prev)
                h, last = net.traced(h, loop.state.prev)
            loop.state.h = h
            new = loop.choice(last, beam=beam, axis=net.label, input_type="logits")
            loop.state.prev = new.labels
            loop.end(new.labels == 1, include_eos=False)
        found.append(loop.found)
    assert found[0].nbest(3, text=False) == found[1].nbest(3, text=False)
    np.testing.assert_allclose(found[0].scores.raw_tensor, found[1].scores.raw_tensor)


def test_a_choice_in_an_inner_loop_is_an_error_that_says_what_to_do():
    label, beam = rf.Dim(4, name="label"), rf.Dim(2, name="beam")
    outer = rf.Loop(max_seq_len=2, name="outer")
    outer.state.n = rf.zeros([])
    with pytest.raises(LoopError, match=r"inner: choice in a loop inside of another(.|\n)*outer"), outer:
        inner = rf.Loop(max_seq_len=3, name="inner")
        inner.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
        with inner:
            scores = rf.one_hot(inner.state.prev) + outer.state.n
            new = inner.choice(scores, beam=beam, axis=label, input_type="logits")
            inner.state.prev = new.labels
        outer.state.n = outer.state.n + 1.0


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_gradients_are_those_of_the_labels_that_were_chosen(exponent):
    net = Net(5, 2, 3)
    for tensor in net.tensors:
        tensor.raw_tensor.requires_grad_()
    loop, _ = search(net, 2, 3, 4, length_normalization_exponent=exponent)
    scores = loop.found.scores.raw_tensor
    weights = torch.linspace(0.5, 2.0, scores.numel()).view_as(scores)
    got = torch.autograd.grad((scores * weights).sum(), [tensor.raw_tensor for tensor in net.tensors])
    raws = a, e, u, x = [tensor.raw_tensor.detach().clone().requires_grad_() for tensor in net.tensors]
    total = torch.zeros(())
    for number, tree in enumerate(loop.found.tree):
        for hypothesis in tree.hypotheses:
            labels = (*hypothesis.labels, *([1] if hypothesis.complete else []))
            h, score, prev = torch.zeros(STATE), torch.zeros(()), 0
            for label in labels:
                h = torch.tanh(h @ a + e[prev] + x[number])
                score, prev = score + torch.log_softmax(h @ u, -1)[label], label
            total = total + weights[number, hypothesis.place] * score / len(labels) ** exponent
            assert hypothesis.score == pytest.approx((score / len(labels) ** exponent).item(), abs=1e-4)
    for mine, theirs in zip(got, torch.autograd.grad(total, raws), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


def test_gradients_flow_through_the_scores_in_the_loop():
    net = Net(4, 2, 8)
    net.tensors[2].raw_tensor.requires_grad_()
    seen = {}
    beam = rf.Dim(2, name="beam")
    loop = rf.Loop(max_seq_len=3)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        new = loop.choice(logits, beam=beam, axis=net.label, input_type="logits", length_normalization=False)
        loop.state.prev = new.labels
        seen["scores"] = loop.stack(new.scores)
    last = seen["scores"].copy_transpose([loop.axis, *loop.found.scores.dims]).raw_tensor[-1]
    parameter = net.tensors[2].raw_tensor
    a, b = (torch.autograd.grad(x.sum(), parameter, retain_graph=True)[0] for x in (last, loop.found.scores.raw_tensor))
    assert a.abs().sum() > 0
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
