"""Ended hypotheses that stay apart, patience and early stops, against searches over dicts."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import LoopError, ParameterError
from rfnb.search.beam import bound
from rfnb.search.rules import BeamRules
from tests.examples import examples
from tests.search.test_choice import STATE, Net, search
from tests.search.test_decoding import step_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def truth(net, sequence, living, limit, *, patience=None, exponent=1.0, room=None, ends=(1,)):
    """Kasai et al. 2022, algorithm 1, with what is left at the limit: (labels, score), the best first."""
    beam, done = [((), 0.0, np.zeros(STATE, "float32"))], []
    for _ in range(limit):
        candidates = []
        for labels, score, h in beam:
            new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
            candidates += [((*labels, i), score + log_prob, new) for i, log_prob in enumerate(log_probs)]
        beam, stop = [], False
        for one in sorted(candidates, key=lambda one: -one[1]):
            if len(beam) == living:
                break
            if one[0][-1] not in ends:
                beam.append(one)
            else:
                done.append((one[0], one[1] / len(one[0]) ** exponent))
                if patience is not None and len(done) >= patience * living:
                    beam, stop = [], True
                    break
        if room is not None:
            done = sorted(done, key=lambda one: -one[1])[:room]
        if stop or not beam:
            break
    found = [*done, *((labels, score / max(len(labels), 1) ** exponent) for labels, score, _ in beam)]
    return sorted(found, key=lambda one: -one[1])


def same(tree, expected):
    """Whether a tree has the hypotheses that are expected."""
    got = [(tuple(one.labels), one.score) for one in tree.hypotheses]
    assert [labels for labels, _ in got] == [labels for labels, _ in expected]
    assert [score for _, score in got] == pytest.approx([score for _, score in expected], abs=1e-4)


SIZES = {
    "labels": st.integers(2, 5), "batch": st.integers(1, 3), "living": st.integers(1, 4), "limit": st.integers(0, 6),
    "patience": st.sampled_from([None, 0.5, 1.0, 2.0]), "exponent": st.sampled_from([0.0, 1.0]),
    "seed": st.integers(0, 1000),
}  # fmt: skip


def length(exponent):
    return {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}


@pytest.mark.slow
@examples(60)
@given(**SIZES)
def test_apart_in_a_loop_is_a_search_with_a_list_of_ended_ones(labels, batch, living, limit, patience, exponent, seed):
    net, room = Net(labels, batch, seed), int(np.ceil(living * (patience or 1.0)))
    given = {"ended": "apart", "patience": patience, "living": living, **length(exponent)}
    found = search(net, batch, living + room, limit, include_eos=True, **given)[0].found
    for sequence, tree in enumerate(found.tree):
        kept = room if patience is None else None
        same(tree, truth(net, sequence, living, limit, patience=patience, exponent=exponent, room=kept))


@examples(40)
@given(**SIZES)
def test_apart_in_decode(labels, batch, living, limit, patience, exponent, seed):
    net = Net(labels, batch, seed)
    step, state = step_of(net)
    sizes = []

    def counted(prev, state):
        sizes.append(len(prev))
        return step(prev, state)

    found = rf.search.decode(
        counted, state, beam=living, start=0, end=1, limit=limit, include_eos=True, ended="apart", patience=patience,
        length_normalization_exponent=exponent,
    )  # fmt: skip
    assert set(sizes) <= {batch * living}  # the model sees those that go on
    for sequence, tree in enumerate(found.tree):
        room = max(living, int(np.ceil(living * (patience or 1.0)))) if patience is None else None
        same(tree, truth(net, sequence, living, limit, patience=patience, exponent=exponent, room=room))


@pytest.mark.slow
@examples(40)
@given(**SIZES, sure=st.integers(1, 3), apart=st.booleans(), offset=st.sampled_from([0.0, 5.0]))
def test_an_early_stop_changes_nothing_that_is_certain(
    labels, batch, living, limit, patience, exponent, seed, sure, apart, offset
):
    net = Net(labels, batch, seed)
    given = {**length(exponent), "length_normalization_offset": offset} | ({"ended": "apart"} if apart else {})
    whole = search(net, batch, living + 3, limit, **given)[0].found
    early = search(net, batch, living + 3, limit, early_stop=sure, **given)[0].found
    for a, b in zip(whole.tree, early.tree, strict=True):
        assert b.steps <= a.steps
        best, certain = a.hypotheses[:sure], b.hypotheses[:sure]
        assert [one.labels for one in certain] == [one.labels for one in best]
        assert [one.score for one in certain] == pytest.approx([one.score for one in best], abs=1e-5)
        if b.steps < a.steps:
            assert len(certain) == sure and all(one.complete for one in b.hypotheses)


@examples(20)
@given(**SIZES)
def test_a_batch_is_its_sequences_alone(labels, batch, living, limit, patience, exponent, seed):
    net = Net(labels, batch, seed)
    step, state = step_of(net)
    given = {"ended": "apart", "patience": patience, "early_stop": 2, "length_normalization_exponent": exponent}
    given |= {"beam": living, "start": 0, "end": 1}
    limits = [limit, 2, 5][:batch]
    found = rf.search.decode(step, state, limit=limits, **given)
    for number, own in enumerate(limits):
        one = {name: part[number : number + 1] for name, part in state.items()}
        alone = rf.search.decode(step, one, limit=own, **given)
        assert alone.nbest(9, text=False)[0] == found.nbest(9, text=False)[number]
        assert alone.tree[0].steps == found.tree[number].steps


def test_early_stops_save_steps_and_say_what_they_need():
    net = Net(5, 6, 1)
    options = {"length_normalization": False}
    whole, early = (search(net, 6, 4, 12, early_stop=n, **options)[0].found for n in (0, 1))
    assert sum(tree.steps for tree in early.tree) < sum(tree.steps for tree in whole.tree)
    assert [texts[0] for texts in early.nbest(1)] == [texts[0] for texts in whole.nbest(1)]
    reward = {"length_normalization": False, "most_gain": 0.5}
    later = search(net, 6, 4, 12, early_stop=1, **reward)[0].found
    assert all(a.steps <= b.steps <= c.steps for a, b, c in zip(early.tree, later.tree, whole.tree, strict=True))


@examples(40)
@given(
    scores=st.lists(st.floats(-9, 3), min_size=1, max_size=4), count=st.integers(1, 4), more=st.integers(0, 5),
    exponent=st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]), offset=st.sampled_from([0.0, 5.0]),
    gain=st.sampled_from([0.0, 0.4]), data=st.data(),
)  # fmt: skip
def test_no_continuation_exceeds_the_bound(scores, count, more, exponent, offset, gain, data):
    beam = rf.Dim(len(scores), name="beam")
    limit = count + more
    rules = BeamRules(exponent=exponent, offset=offset, most_gain=gain)
    most = bound(rf.convert_to_tensor(scores, dims=[beam]), count, limit, rules).raw_tensor.tolist()
    for score, highest in zip(scores, most, strict=True):
        for length in range(count, limit + 1):
            drawn = data.draw(st.lists(st.floats(-3, gain), min_size=length - count, max_size=length - count))
            for gains in (drawn, [gain] * (length - count)):
                final = (score + sum(gains)) / (length + offset) ** exponent
                assert final <= highest + 1e-4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"patience": 1.0}, "stay apart"),
        ({"ended": "apart", "living": 4}, "no room"),
        ({"ended": "apart", "patience": 3.0, "living": 2}, "at least 8 places"),
        ({"ended": "apart", "keep_beams": True}, "keep_beams"),
        ({"ended": "apart", "groups": 2}, "groups"),
        ({"early_stop": 1, "random_sample_scale": 1.0}, "most_gain"),
        ({"early_stop": True}, "number of hypotheses"),
    ],
)
def test_what_does_not_fit_together(wrong, words):
    with pytest.raises(ParameterError, match=words):
        search(Net(4, 1), 1, 4, 3, **wrong)


def test_a_loop_without_an_end_is_told():
    net, beam = Net(4, 1), rf.Dim(4, name="beam")
    loop = rf.Loop(max_seq_len=3, name="search")
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
    loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
    with pytest.raises(LoopError, match="needs the end"), loop:
        loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
        chosen = loop.choice(logits, beam=beam, axis=net.label, input_type="logits", ended="apart", end="b")
        loop.state.prev = chosen.labels


def test_files_and_where_know_it(tmp_path):
    net = Net(5, 3, 4)
    found = search(net, 3, 4, 6, ended="apart", patience=1.0)[0].found
    loaded = rf.search.load(found.save(tmp_path / "x.rfbeam"))
    as_json = rf.search.Tree.from_json(found.tree[0].to_json())
    for trace in (found.trace, loaded.trace, as_json.trace):
        assert (trace.living, trace.stops) == (2, True)
    tree = next(tree for tree in found.tree if tree.steps > 1)
    for label in "acde":
        fall = tree.where([label, "a"]).fall
        going = [node for node in tree.nodes(fall.step) if not (node.ended or node.ends)]
        if fall.reason != "stopped":
            assert fall.last == going[-1]


def test_a_search_that_stops_early_finds_the_same_alone():
    """Though other sequences of its batch go on, and the hypotheses that were stopped make room in the next step."""
    for seed in (0, 13, 42, 86, 94):
        net = Net(6, 3, seed)
        net.u *= 2
        step, state = step_of(net)
        options = {"beam": 3, "start": 0, "end": 1, "limit": 7, "early_stop": 1}
        for number, tree in enumerate(rf.search.decode(step, state, **options).tree):
            one = {name: part[number : number + 1] for name, part in state.items()}
            alone = rf.search.decode(step, one, **options).tree[0]
            assert [each.labels for each in tree.hypotheses] == [each.labels for each in alone.hypotheses]
            scores = [each.score for each in alone.hypotheses]
            assert [each.score for each in tree.hypotheses] == pytest.approx(scores, abs=1e-4)
