"""Constraints in a loop against a search over dicts that only tries what a predicate allows."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples
from tests.search.test_choice import STATE, Net

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

END = 1


def search(net, beam_size, limit, parts, debug=False, **options):
    """The loop of a search with constraints."""
    beam = rf.Dim(beam_size, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search", debug=debug)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        chosen = loop.choice({"model": logits, **parts}, beam=beam, axis=net.label, input_type="logits", **options)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == END, include_eos=False)
    return loop


def truth(net, sequence, beam_size, limit, allows):
    """The hypotheses of one sequence, (labels, score), the best first. allows: from the labels so far and the next."""
    beam = [((), 0.0, False, np.zeros(STATE, "float32"))]
    for step in range(limit):
        found = []
        for labels, score, ended, h in beam:
            if ended:
                found.append((score * (step + 1) / len(labels), (labels, score, True, h)))
                continue
            new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
            for label, log_prob in enumerate(log_probs):
                if allows(labels, label):
                    total = score + log_prob
                    found.append((total, ((*labels, label), total, label == END, new)))
        beam = [one for _, one in sorted(found, key=lambda each: -each[0])[:beam_size]]
        if all(ended for _, _, ended, _ in beam):
            break
    return [(labels[:-1] if ended else labels, score / max(len(labels), 1)) for labels, score, ended, _ in beam]


def check(found, net, batch, beam, limit, allows):
    """allows: from sequence, labels so far, and the next."""
    for sequence in range(batch):
        expected = truth(net, sequence, beam, limit, lambda *given, sequence=sequence: allows(sequence, *given))
        got = found.tree[sequence].hypotheses
        assert [one.labels for one in got] == [labels for labels, _ in expected]
        assert [one.score for one in got] == pytest.approx([score for _, score in expected], abs=1e-4)


def again(before, new, n, within):
    """Whether the last n labels with the new one are already among the last `within` before it."""
    row = (*before, new)[-n:]
    last = before[-within:]
    return len(row) == n and any(tuple(last[i : i + n]) == row for i in range(len(last) - n + 1))


@st.composite
def cases(draw):
    labels, batch = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    label, length = st.integers(0, labels - 1), st.integers(0, 4)
    parts, rules = {}, []
    if draw(st.booleans()):
        n = draw(st.integers(1, 3))
        within = draw(st.integers(n, 6))
        parts["no repeat"] = rf.search.no_repeat(n, within=within)
        rules.append(lambda _, before, new: not again(before, new, n, within))
    if draw(st.booleans()):
        least = draw(st.lists(length, min_size=batch, max_size=batch))
        most = draw(st.none() | length | st.lists(length, min_size=batch, max_size=batch))
        if isinstance(most, int):
            least, most = min([*least, most]), most
        parts["lengths"] = rf.search.lengths(end=END, minimum=least, maximum=most)
        first = least if isinstance(least, list) else [least] * batch
        last = most if isinstance(most, list) else [math.inf if most is None else most] * batch
        rules.append(lambda b, before, new: len(before) >= first[b] if new == END else len(before) < last[b])
    if draw(st.booleans()):
        prefix = draw(st.lists(st.lists(label, max_size=3), min_size=batch, max_size=batch))
        parts["forced"] = rf.search.forced(prefix)
        rules.append(lambda b, before, new: len(before) >= len(prefix[b]) or prefix[b][len(before)] == new)
    if draw(st.booleans()):
        some = draw(st.sets(label))
        parts["allowed"] = rf.search.allowed(sorted(some))
        rules.append(lambda _, before, new: new in some)
    return labels, batch, parts, lambda *given: all(rule(*given) for rule in rules)


@examples(60)
@given(case=cases(), beam=st.integers(1, 5), limit=st.integers(0, 6), seed=st.integers(0, 1000))
def test_agrees_with_a_search_over_dicts(case, beam, limit, seed):
    labels, batch, parts, allows = case
    net = Net(labels, batch, seed)
    check(search(net, beam, limit, parts).found, net, batch, beam, limit, allows)


def test_replays_and_forks_agree():
    net = Net(5, 3, 1)
    parts = {
        "a": rf.search.no_repeat(2),
        "b": rf.search.lengths(end="b", minimum=2),
        "c": rf.search.forced([[2], [], [3]]),
    }
    run = search(net, 4, 7, parts, debug=True).run
    assert [run[step].check for step in range(run.steps)] == ["replay agrees"] * run.steps
    fork = run.fork(0)
    assert fork.found.trace.scores.tolist() == run.found.trace.scores.tolist()


def test_parts_of_hypotheses_that_are_left_are_zero():
    found = search(Net(5, 2, 3), 4, 6, {"once": rf.search.no_repeat(1)}).found
    for tree in found.tree:
        for one in tree.hypotheses:
            assert one.parts["once"] == 0 and one.sum == pytest.approx(one.parts["model"], abs=1e-5)
            assert len(set(one.labels)) == len(one.labels)


def test_prefixes_and_lengths_as_tensors_are_those_of_lists():
    net = Net(5, 3, 2)
    batch = rf.batch_dim
    axis = rf.Dim(None, name="prefix")
    prefix = rf.convert_to_tensor([[2, 3], [0, 0], [4, 0]], dims=[batch, axis], lengths=[2, 0, 1])
    least = rf.convert_to_tensor([1, 3, 0], dims=[batch])
    given = {"f": rf.search.forced(prefix), "l": rf.search.lengths(end="b", minimum=least, maximum=4)}
    lists = {"f": rf.search.forced(["cd", "", "e"]), "l": rf.search.lengths(end=1, minimum=[1, 3, 0], maximum=4)}
    found = search(net, 4, 8, given).found
    assert found.nbest(4) == search(net, 4, 8, lists).found.nbest(4)
    assert {text[:2] for text in found.nbest(4)[0]} == {"cd"} and {text[0] for text in found.nbest(4)[2]} == {"e"}


def test_arrays_are_lists():
    net = Net(5, 2, 2)
    arrays = {"f": rf.search.forced([np.array([2, 3]), [4]]), "l": rf.search.lengths(end=1, minimum=np.array([4, 3]))}
    lists = {"f": rf.search.forced([[2, 3], [4]]), "l": rf.search.lengths(end=1, minimum=[4, 3])}
    assert search(net, 3, 6, arrays).found.nbest(3) == search(net, 3, 6, lists).found.nbest(3)
    same = search(net, 3, 6, {"f": rf.search.forced(np.array([2, 3]))}).found
    assert same.nbest(3) == search(net, 3, 6, {"f": rf.search.forced([2, 3])}).found.nbest(3)


def test_an_empty_batch():
    batch, beam, label = rf.Dim(0, name="batch"), rf.Dim(3, name="beam"), rf.Dim(4, name="label")
    last = rf.zeros([batch, beam], dtype="int64", sparse_dim=label)
    words = rf.search.trie([[2]], labels=label, end=1)
    for one in (rf.search.forced([]), rf.search.lengths(end=1, minimum=[]), rf.search.no_repeat(2), words):
        state = one.initial_state(batch_dims=[batch, beam])
        for _ in range(2):
            scores, state = one.score(last, state)
        assert label in scores.dims_set


def test_one_prefix_for_all_sequences_and_any_label_in_it():
    net = Net(5, 2, 2)
    same = search(net, 3, 6, {"f": rf.search.forced("cd")}).found
    assert same.nbest(3) == search(net, 3, 6, {"f": rf.search.forced([["c", "d"], [2, 3]])}).found.nbest(3)
    every = rf.convert_to_tensor([-1, 3], dims=[rf.Dim(2, name="prefix")])
    texts = [text for one in search(net, 3, 6, {"f": rf.search.forced(every)}).found.nbest(3) for text in one]
    assert {text[1] for text in texts} == {"d"} and len({text[0] for text in texts}) > 1


def test_a_mask_may_differ_between_sequences():
    net = Net(4, 2, 5)
    mask = np.array([[0, 1, 1, 0], [1, 1, 0, 1]], bool)
    parts = {"mask": rf.search.allowed(rf.convert_to_tensor(mask, dims=[rf.batch_dim, net.label]))}
    check(search(net, 3, 5, parts).found, net, 2, 3, 5, lambda b, _, new: mask[b, new])


def test_hypotheses_die_where_nothing_is_allowed():
    net = Net(4, 2, 5)
    found = search(net, 3, 6, {"none": rf.search.allowed([])}).found
    assert found.nbest(3) == [[], []] and "no hypothesis is left" in found.text
    some = {"one": rf.search.forced([[2, 2], [3]]), "once": rf.search.no_repeat(1)}
    found = search(net, 3, 6, some).found
    assert found.nbest(1)[0] == [] and found.nbest(1)[1][0].startswith("d")


def test_a_constraint_works_without_a_loop_too():
    label = rf.Dim(4, name="label")
    batch, beam = rf.Dim(2, name="batch"), rf.Dim(3, name="beam")
    once = rf.search.no_repeat(1)
    state = once.initial_state(batch_dims=[batch, beam])
    last = rf.convert_to_tensor([[0, 0, 0], [0, 0, 0]], dims=[batch, beam], sparse_dim=label)
    scores, state = once.score(last, state)
    assert (scores.copy_transpose([batch, beam, label]).raw_tensor == 0).all()
    last = rf.convert_to_tensor([[0, 1, 2], [3, 3, 1]], dims=[batch, beam], sparse_dim=label)
    scores, _ = once.score(last, state)
    banned = rf.is_neg_infinite(scores).copy_transpose([batch, beam, label]).raw_tensor.numpy()
    assert banned.nonzero()[2].tolist() == [0, 1, 2, 3, 3, 1]


def test_dims_of_the_size_of_the_labels_are_no_accident():
    net = Net(4, 2, 1)
    samples, beam = rf.Dim(4, name="samples"), rf.Dim(4, name="beam")
    loop = rf.Loop(max_seq_len=4)
    loop.state.prev = rf.zeros([rf.batch_dim, samples, beam], dtype="int64", sparse_dim=net.label)
    scores = rf.random_normal([rf.batch_dim, samples, net.label])
    parts = {"once": rf.search.no_repeat(1), "lengths": rf.search.lengths(end=END, minimum=1)}
    parts |= {"forced": rf.search.forced("c"), "words": rf.search.trie(["cd", "ca"], labels=net.label, end="b")}
    with loop:
        drawn = rf.search.truncated(rf.log_softmax(scores, axis=net.label), axis=net.label, top_k=3, top_p=0.99)
        chosen = loop.choice({"model": drawn, **parts}, beam=beam, axis=net.label, input_type="log_prob", groups=2)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == END, include_eos=False)
    assert {text for one in loop.found.nbest(4) for text in one} <= {"cd", "ca"}


@pytest.mark.parametrize(
    ("parts", "error", "text"),
    [
        (lambda: rf.search.no_repeat(0), ParameterError, "`n` is out of range"),
        (lambda: rf.search.no_repeat(3, within=2), ParameterError, "within=2"),
        (lambda: rf.search.lengths(end=1, minimum=3, maximum=2), ParameterError, "no length is allowed"),
        (lambda: rf.search.lengths(end=1, minimum=[1]), ParameterError, "a number for each sequence"),
        (lambda: rf.search.lengths(end="?"), Exception, r"\?"),
        (lambda: rf.search.lengths(end=9), ParameterError, "no such label"),
        (lambda: rf.search.forced([[1]]), ParameterError, "a list with those of each"),
        (lambda: rf.search.forced([[1], 2]), ParameterError, "a list with those of each"),
        (lambda: rf.search.forced([[7], [1]]), ParameterError, "no such label"),
        (lambda: rf.search.forced(rf.convert_to_tensor(1)), DimError, "which dim counts"),
        (lambda: rf.search.allowed([4]), ParameterError, "no such label"),
        (lambda: rf.search.allowed(rf.convert_to_tensor(True)), DimError, "the mask"),
    ],
)
def test_errors(parts, error, text):
    with pytest.raises(error, match=text):
        search(Net(4, 2), 2, 3, {"one": parts()})


def test_labels_must_say_what_they_count():
    beam = rf.Dim(2, name="beam")
    with pytest.raises(DimError, match="which labels are there"):
        rf.search.no_repeat(2).score(rf.zeros([beam], dtype="int64"), None)
