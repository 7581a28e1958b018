"""`rf.search.decode`: a beam search with a step of plain torch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, ParameterError, SearchError
from tests.search.test_choice import Net, hypotheses, search, truth

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def step_of(net):
    a, e, u, x = map(torch.tensor, (net.a, net.e, net.u, net.x))

    def step(prev, state):
        h = torch.tanh(state["h"] @ a + e[prev] + state["x"])
        return h @ u, {"h": h, "x": state["x"]}

    return step, {"h": torch.zeros(len(x), len(a)), "x": x}


@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_agrees_with_a_search_over_dicts_and_with_a_loop(beam, exponent):
    net = Net(5, 3, beam)
    step, state = step_of(net)
    found = rf.search.decode(step, state, beam=beam, start=0, end=1, limit=6, length_normalization_exponent=exponent)
    for sequence, tree in enumerate(found.tree):
        expected = truth(net, sequence, beam, 6, exponent=exponent)
        assert [one.labels for one in tree.hypotheses] == [
            labels[:-1] if ended else labels for labels, _, ended in expected
        ]
        assert [one.score for one in tree.hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-4)
    options = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent}
    loop, labels = search(net, 3, beam, 6, **options)
    in_loop = [[text for text, _ in each] for each in hypotheses(loop, labels, 3)]
    assert in_loop == [[one.labels for one in tree.hypotheses] for tree in found.tree]


def test_limits_by_sequence_and_the_same_alone():
    net = Net(5, 3, 1)
    step, state = step_of(net)
    found = rf.search.decode(step, state, start=0, end="b", limit=[0, 2, 5], labels=list("abcde"), tags=["x", "y", "z"])
    for number, limit in enumerate([0, 2, 5]):
        one = {name: part[number : number + 1] for name, part in state.items()}
        alone = rf.search.decode(step, one, start="a", end=1, limit=limit, labels=list("abcde"))
        assert alone.nbest(4)[0] == found.nbest(4)[number]
    assert found.tree["z"].best.text == found.nbest(1)[2][0]


class Cache:
    """A cache that is changed in place, as those of Hugging Face are."""

    def __init__(self, h):
        self.h = h

    def reorder_cache(self, index):
        self.h = self.h.index_select(0, index)


def test_an_object_that_reorders_itself():
    net = Net(5, 2, 3)
    step, state = step_of(net)
    cache = Cache(torch.cat([state["h"], state["x"]], -1))

    def in_place(prev, cache):
        h, x = cache.h.chunk(2, -1)
        scores, new = step(prev, {"h": h, "x": x})
        cache.h = torch.cat([new["h"], x], -1)
        return scores, cache

    found = rf.search.decode(in_place, cache, batch=2, start=0, end=1, limit=6)
    assert found.nbest(4, text=False) == rf.search.decode(step, state, start=0, end=1, limit=6).nbest(4, text=False)


@pytest.mark.parametrize("labels", [7, 40, 300])
def test_of_equal_scores_the_lower_hypothesis_and_label_come_first(labels):
    found = rf.search.decode(
        lambda prev, state: (torch.zeros(len(prev), labels), state), batch=2, beam=4, start=0, end=None, limit=2
    )
    assert found.nbest(4, text=False) == [[(0, 0), (0, 1), (0, 2), (0, 3)]] * 2


def test_pruned_candidates_are_the_next_best():
    net = Net(5, 1, 3)
    step, state = step_of(net)
    narrow = rf.search.decode(step, state, beam=2, start=0, end=1, limit=1, candidates=2).trace
    wide = rf.search.decode(step, state, beam=4, start=0, end=1, limit=1).trace
    assert narrow.pruned.labels[0, 0].tolist() == wide.labels[0, 0, 2:].tolist()
    np.testing.assert_array_equal(narrow.pruned.scores[0, 0], wide.scores[0, 0, 2:])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"beam": 0}, ParameterError, "beam"),
        ({"limit": [1, 2, 3]}, ParameterError, "limit"),
        ({"limit": -1}, ParameterError, "limit"),
        ({"end": "b"}, ParameterError, "labels="),
        ({"state": {"h": torch.zeros(3, 4), "x": torch.zeros(2, 4)}}, SearchError, "first axis"),
        ({"step": lambda prev, state: (torch.zeros(2, 5), state)}, SearchError, "batch · beam"),
    ],
    ids=["beam", "limits", "negative", "text", "state", "scores"],
)
def test_wrong_arguments(wrong, error, words):
    step, state = step_of(Net(5, 2))
    given = {"step": step, "state": state, "start": 0, "end": 1, "limit": 3, **wrong}
    with pytest.raises(error, match=words):
        rf.search.decode(**given)


def test_its_steps_are_not_replayed_and_it_says_why():
    step, state = step_of(Net(5, 2))
    found = rf.search.decode(step, state, start=0, end=1, limit=3)
    for ask in (lambda: found.tree[0].keep(0, found.tree[0].pruned(0)[0].label), lambda: found.run.fork(1)):
        with pytest.raises(SearchError, match=r"rf.search.decode does not record its steps.*in place"):
            ask()


@pytest.mark.parametrize("options", [{}, {"ended": "apart"}, {"candidates": 0, "length_normalization_exponent": 0.0}])
@pytest.mark.parametrize("with_dim", [False, True])
def test_a_step_with_tensors_is_that_with_raw_ones(options, with_dim):
    net = Net(5, 3, 2)
    raw_step, raw_state = step_of(net)
    given = {"beam": 3, "start": 0, "end": 1, "limit": 6, **options}
    expected = rf.search.decode(raw_step, raw_state, **given)
    seen = []

    def step(prev, state):
        seen.append((prev.dims[0], prev.sparse_dim, state.h.dims_set))
        h, logits = net.traced(state.h, rf.set_sparse_dim(prev, net.label))
        return logits.copy_transpose([net.label, *(dim for dim in logits.dims if dim is not net.label)]), rf.State(h=h)

    first = rf.convert_to_tensor(
        np.zeros((3, 4), "float32"), dims=[rf.batch_dim, net.state], tags=["x", "y", "z"]
    ).copy_transpose([net.state, rf.batch_dim])
    found = rf.search.decode(step, rf.State(h=first), labels=net.label if with_dim else None, **given)
    assert [tree.tag for tree in found.tree] == ["x", "y", "z"]
    for mine, theirs in zip(found.tree, expected.tree, strict=True):
        assert [one.labels for one in mine.hypotheses] == [one.labels for one in theirs.hypotheses]
        assert [one.score for one in mine.hypotheses] == pytest.approx(
            [one.score for one in theirs.hypotheses], abs=1e-5
        )
    batch, sparse, dims = seen[-1]
    assert batch is rf.batch_dim and sparse is (net.label if with_dim else None) and len(dims) == 3


def test_tensors_of_a_state_have_the_batch_and_stay_of_each_hypothesis():
    label, width = rf.Dim(4, name="label"), rf.Dim(2, name="width")
    given = {"beam": 2, "start": 0, "end": 0, "limit": 3}

    def forgets(prev, state):
        scores = rf.expand_dim(rf.expand_dim(rf.ones([label]), prev.dims[1]), prev.dims[0])
        return scores, rf.reduce_sum(state, axis=prev.dims[1])

    with pytest.raises(DimError, match="lacks the dim beam"):
        rf.search.decode(forgets, of_batch(width), **given)
    with pytest.raises(DimError, match="lacks the dim batch"):
        rf.search.decode(forgets, rf.zeros([width]), batch=rf.batch_dim, **given)


@pytest.mark.parametrize("record", [False, True])
def test_a_transformer_decoder_is_searched_with_its_own_state(record):
    """Its position is a Tensor without batch, which all hypotheses share."""
    features, width = rf.Dim(8, name="features"), rf.Dim(16, name="width")
    label, time = rf.Dim(12, name="label"), rf.Dim(None, name="time")
    model = rf.TransformerDecoder(features, vocab_dim=label, model_dim=width, num_layers=2, num_heads=2)
    source = rf.convert_to_tensor(torch.randn(2, 5, 8), dims=[rf.batch_dim, time, features], lengths=[5, 3])
    encoded = model.transform_encoder(source, axis=time)

    def step(prev, state):
        return model(prev, spatial_dim=rf.single_step_dim, encoder=encoded, state=state)

    with torch.no_grad():
        state = model.default_initial_state(batch_dims=[rf.batch_dim])
        found = rf.search.decode(step, state, beam=3, start=0, end=1, limit=6, labels=label, record=record)
        for sequence, tree in enumerate(found.tree):
            assert len({tuple(one.labels) for one in tree.hypotheses}) == 3
            for one in tree.hypotheses:
                labels = [number for number in one.labels if number != 1]
                output = rf.Dim(len(labels) + 1, name="output")
                given = rf.convert_to_tensor(
                    torch.tensor([[0, *labels]] * 2), dims=[rf.batch_dim, output], sparse_dim=label
                )
                initial = model.default_initial_state(batch_dims=[rf.batch_dim])
                logits, _ = model(given, spatial_dim=output, encoder=encoded, state=initial)
                scores = rf.log_softmax(logits, axis=label).copy_transpose([rf.batch_dim, output, label]).raw_tensor
                wanted = [*labels, 1] if one.complete else labels
                expected = sum(float(scores[sequence, i, number]) for i, number in enumerate(wanted))
                assert one.sum == pytest.approx(expected, abs=1e-4)


def of_batch(width):
    return rf.convert_to_tensor(np.zeros((3, 2), "float32"), dims=[rf.batch_dim, width])


def test_the_score_of_a_reference_is_that_of_a_search_for_it_alone():
    step, state = step_of(Net(5, 1, 2))
    options = {"start": 0, "end": 1, "limit": 6, "labels": list("<>abc")}
    found = rf.search.decode(step, state, beam=8, **options)
    tree = found.tree[0]
    assert tree.best.complete
    for one in tree.hypotheses:
        only = rf.search.forced([[*one.labels, 1]])
        alone = rf.search.decode(step, state, beam=1, constraints=[only], **options)
        assert alone.tree[0].best.score == pytest.approx(one.score, abs=1e-5)
    narrow = rf.search.decode(step, state, beam=1, **options).tree[0]
    lost = next(one for one in tree.hypotheses if one.labels != narrow.best.labels)
    where = narrow.where(lost.labels)
    if where.verdict == "undecided":
        assert "rf.search.forced" in str(where)
    blamed = narrow.where(lost.labels, forced=lost.score).verdict
    assert blamed in {"over the limit", "search error" if lost.score > narrow.best.score else "model error"}


@dataclass(frozen=True, slots=True)
class Hidden:
    h: Any


@dataclass
class DecoderState:
    hidden: Hidden
    x: list
    calls: int = 0
    name: str = "decoder"


@pytest.mark.parametrize("with_tensors", [False, True])
def test_dataclasses_are_states_of_which_all_parts_follow(with_tensors):
    net = Net(5, 3, 4)
    plain, state = step_of(net)
    expected = rf.search.decode(plain, state, beam=4, start=0, end=1, limit=6)
    feat, vocab = rf.Dim(len(net.a), name="feat"), rf.Dim(len(net.e), name="vocab")
    if with_tensors:
        state = {
            "h": rf.convert_to_tensor(state["h"], dims=[rf.batch_dim, feat]),
            "x": rf.convert_to_tensor(state["x"], dims=[rf.batch_dim, feat]),
        }
    seen = []

    def step(prev, state):
        seen.append((type(state.hidden), type(state.x), state.calls, state.name))
        raws = {"h": state.hidden.h, "x": state.x[0]}
        if not with_tensors:
            scores, new = plain(prev, raws)
            return scores, DecoderState(Hidden(new["h"]), [new["x"]], state.calls + 1)
        order = [dim for dim in raws["h"].dims if dim != feat]
        flat = {name: raw.copy_transpose([*order, feat]).raw_tensor.flatten(0, 1) for name, raw in raws.items()}
        scores, new = plain(prev.copy_transpose(order).raw_tensor.flatten(), flat)
        sizes = prev.copy_transpose(order).raw_tensor.shape

        def back(raw, dim):
            return rf.convert_to_tensor(raw.reshape(*sizes, -1), dims=[*order, dim])

        return back(scores, vocab), DecoderState(Hidden(back(new["h"], feat)), [state.x[0]], state.calls + 1)

    options = {"labels": vocab} if with_tensors else {}
    initial = DecoderState(Hidden(state["h"]), [state["x"]])
    found = rf.search.decode(step, initial, beam=4, start=0, end=1, limit=6, **options)
    for tree, other in zip(found.tree, expected.tree, strict=True):
        scores = [one.score for one in other.hypotheses]
        assert [one.labels for one in tree.hypotheses] == [one.labels for one in other.hypotheses]
        assert [one.score for one in tree.hypotheses] == pytest.approx(scores, abs=1e-4)
    assert seen == [(Hidden, list, n, "decoder") for n in range(len(seen))]
