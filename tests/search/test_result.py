"""What a search returns: n-best lists, the best entry of a Tensor, and its text."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.result import Found
from tests.search.dict_search import random_model, traced


def test_nbest_lists():
    found = Found(traced([random_model(1), random_model(2)], 3, vocab=["</s>", "L", "AE", "F"]))
    assert [len(each) for each in found.nbest(2)] == [2, 2]
    assert found.nbest(9) == [[each.text for each in tree.hypotheses] for tree in found.tree]
    assert found.nbest(1, text=False) == [[tree.best.labels] for tree in found.tree]
    with pytest.raises(SearchError, match="nbest"):
        found.nbest(0)


def test_the_text_shows_the_first_sequences():
    found = Found(traced([random_model(i) for i in range(5)], 6))
    assert repr(found).startswith("search: 5 sequences, beam 6\nsequence 0\n   1  ")
    assert repr(found).endswith("… 2 more sequences") and repr(found).count("\n") == 1 + 3 * 5
    assert repr(Found(traced([], 2))) == "search: 0 sequences, beam 2"


def with_tensors(trace):
    beam = rf.Dim(trace.labels.shape[2], name="beam")
    dims = [rf.batch_dim, beam]
    scores, lengths = (rf.convert_to_tensor(x, dims=dims) for x in (trace.final_scores, trace.lengths))
    return Found(trace, scores=scores, lengths=lengths, beam=beam)


def test_the_entry_of_the_best_hypothesis():
    found = with_tensors(traced([random_model(3), random_model(4)], 3))
    steps = rf.Dim(found.lengths, name="steps")
    x = rf.convert_to_tensor(np.arange(steps.get_dim_value() * 6).reshape(-1, 2, 3), dims=[steps, *found.scores.dims])
    best = found.best(x)
    assert found.beam not in best.dims and rf.batch_dim in best.dims
    (axis,) = (dim for dim in best.dims if dim != rf.batch_dim)
    for i, tree in enumerate(found.tree):
        length = len(tree.best.labels)
        assert best.size_of(axis).over((rf.batch_dim,))[i] == length
        mine = best.copy_transpose([rf.batch_dim, axis]).tolist()[i][:length]
        assert mine == [step * 6 + i * 3 + tree.best.place for step in range(length)]


def test_reranked_scores_are_tensors_again():
    found = with_tensors(traced([random_model(3, names=("model", "lm"))], 3, scales={"model": 1.0, "lm": 0.4}))
    again = found.rerank(lm=5.0)
    assert again.scores.dims == found.scores.dims
    np.testing.assert_allclose(again.scores.tolist(), again.trace.final_scores)
    best = again.best(rf.range_over_dim(found.beam)).tolist()
    assert best == [again.tree[0].best.place] or best == again.tree[0].best.place


def test_best_needs_the_beam_of_the_search():
    found = with_tensors(traced([random_model(3)], 3))
    with pytest.raises(SearchError, match="does not have the beam"):
        found.best(rf.zeros([rf.Dim(3, name="beam")]))
    with pytest.raises(SearchError, match="without Tensors"):
        Found(found.trace).best(rf.zeros([found.beam]))


def test_what_a_loop_found_explains_itself():
    label, beam = rf.Dim(3, name="label", vocab=["</s>", "a", "b"]), rf.Dim(2, name="beam")
    logits = rf.convert_to_tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.5]], dims=[rf.batch_dim, label])
    loop = rf.Loop(max_seq_len=3)
    loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=label)
    with loop:
        now = logits + 0.0 * rf.cast(loop.state.prev, "float32")
        chosen = loop.choice(now, beam=beam, axis=label, input_type="logits")
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 0, include_eos=False)
        labels = loop.stack(chosen.labels)
    found = loop.found
    assert found.nbest(2) == [["aaa", "aab"], ["", "b"]]
    assert found.best(labels).copy_transpose([rf.batch_dim, loop.axis]).tolist()[0] == [1, 1, 1]
    assert found.tree[1].where("b").verdict == "model error"


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"did you mean rf\.search\.report"):
        _ = rf.search.reports
    assert set(dir(rf.search)) >= {"Found", "Tree", "beam_step", "load", "report"}
