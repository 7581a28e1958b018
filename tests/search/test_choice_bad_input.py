"""`loop.choice` with arguments that do not fit, scores that are NaN or −∞, and nothing to search."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, DtypeError, LoopError, ParameterError, SearchError

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

LABELS = 4


class Search:
    """A search with a table of scores by the label before: {before, label}."""

    def __init__(self, *, batch=2, beam=3, labels=LABELS, limit=4, table=None, debug=False, with_beam=True):
        self.label = rf.Dim(labels, name="label", vocab=[chr(97 + i) for i in range(labels)])
        self.beam = rf.Dim(beam, name="beam")
        before = rf.Dim(labels, name="before")
        if table is None:
            table = np.random.RandomState(0).randn(labels, labels).astype("float32")
        self.table = rf.convert_to_tensor(table, dims=[before, self.label])
        self.numbers = rf.convert_to_tensor(np.arange(batch), dims=[rf.batch_dim])
        self.loop = rf.Loop(max_seq_len=limit, name="search", debug=debug)
        dims = [rf.batch_dim, *([self.beam] if with_beam else [])]
        self.loop.state.prev = rf.zeros(dims, dtype="int64", sparse_dim=before)

    def run(self, change=lambda scores, self: scores, *, end=0, choose=None, include_eos=False, **options):
        loop, given = self.loop, {"beam": self.beam, "axis": self.label, "input_type": "logits", **options}
        with loop:
            scores = rf.gather(self.table, indices=loop.state.prev)
            scores = change(scores, self)
            chosen = loop.choice(scores, **given) if choose is None else choose(loop, scores, given)
            loop.state.prev = rf.set_sparse_dim(chosen.labels, self.table.dims[0])
            if end is not None:
                loop.end(chosen.labels == end, include_eos=include_eos)
            self.labels = loop.stack(chosen.labels)
        return loop.found

    def at(self, step, sequence):
        """Whether this is the step and the sequence."""
        return rf.logical_and(self.loop.iter_idx == step, self.numbers == sequence)


def two_axes(loop, scores, given):
    return loop.choice([scores, scores], **{**given, "axis": [given["axis"]]})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"beam": None}, DimError, r'beam = rf\.Dim\(4, name="beam"\)'),
        ({"beam": 3}, DimError, r"got +3"),
        ({"beam": rf.Dim(None, name="beam")}, DimError, "of fixed size"),
        ({"beam": rf.Dim(3, name="wide")}, DimError, r"no state has the dim wide(.|\n)*loop\.state\.prev = rf\.zeros"),
        ({"beam": rf.Dim(3, name="beam")}, DimError, r"another Dim(.|\n)*same name(.|\n)*beam = rf\.Dim\("),
        ({"axis": rf.Dim(4, name="other")}, DimError, r"which dim of `scores`(.|\n)*axis=label_dim"),
        ({"axis": rf.batch_dim}, DimError, "cannot be that of the batch"),
        ({"beam_size": 0}, ParameterError, "1 or more"),
        ({"beam_size": 2.5}, ParameterError, "an integer"),
        ({"source_beam_sizes": [0]}, ParameterError, "source_beam_sizes"),
        ({"beam_size": 5}, DimError, r"beam_size=3(.|\n)*leave out beam_size"),
        ({"input_type": "log"}, ParameterError, '"log_prob"'),
        ({"length_normalization_exponent": math.nan}, ParameterError, "finite number"),
        ({"prob_scale": "1"}, ParameterError, "prob_scale"),
        ({"length_penalty": 0.6}, ParameterError, "length_normalization_exponent"),
        ({"choose": two_axes}, ParameterError, "a dim for each source"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else None,
)
def test_wrong_options(options, error, words):
    search = Search()
    with pytest.raises(error, match=words):
        search.run(**options)
    assert search.loop.found is None and list(search.loop.state.prev.dims) == [rf.batch_dim, search.beam]
    if "choose" not in options:
        assert search.run().nbest(1) == Search().run().nbest(1)  # the states are those before the call


def test_the_labels_are_not_those_of_the_beam():
    search = Search()
    with pytest.raises(DimError, match="cannot be that of the beam"):
        search.run(axis=search.beam)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda scores, search: rf.reduce_mean(scores, axis=search.beam), DimError, r"rf\.expand_dim\(scores, beam\)"),
        (lambda scores, search: rf.cast(scores, "int64"), DtypeError, r"rf\.cast"),
        (lambda scores, search: torch.zeros(2, 3, 4), DtypeError, r"rf\.convert_to_tensor"),
        (lambda scores, search: scores + rf.zeros([rf.Dim(2, name="more")]), DimError, "more"),
    ],
    ids=["without beam", "int", "torch", "one more dim"],
)
def test_wrong_scores(change, error, words):
    with pytest.raises(error, match=words):
        Search().run(change)


def test_scores_that_are_the_same_for_all_hypotheses_if_it_is_said():
    def same(scores, search):
        return rf.expand_dim(rf.reduce_mean(scores, axis=search.beam), search.beam)

    assert len(Search().run(same).nbest(3)[0]) == 3


def test_a_state_without_the_beam():
    with pytest.raises(DimError, match=r"prev \{batch:2\}(.|\n)*loop\.state\.prev = rf\.zeros\(\[…, beam\]"):
        Search(with_beam=False).run()


def test_a_choice_outside_of_a_body_or_in_a_branch():
    search = Search()
    with pytest.raises(LoopError, match="inside `with loop:`"):
        search.loop.choice(search.table, beam=search.beam)

    def in_branch(loop, scores, given):
        return rf.cond(loop.iter_idx > 0, lambda: loop.choice(scores, **given).labels, lambda: loop.state.prev)

    with pytest.raises(LoopError, match=r"in one side of a `cond`(.|\n)*rf\.cond"):
        search.run(choose=in_branch)


# -- NaN


def with_root(step, sequence):
    """Scores with a NaN from one step of one sequence on, which a root makes."""

    def change(scores, search):
        negative = rf.where(search.at(step, sequence), -1.0, 1.0)
        return scores + rf.sqrt(negative)

    return change


@pytest.mark.parametrize("input_type", ["logits", "log_prob"])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_a_nan_is_reported_with_its_step_and_sequence(input_type, exponent):
    options = {"input_type": input_type, "length_normalization_exponent": exponent}
    with pytest.raises(SearchError, match=r"NaN after step 2(.|\n)*batch 1;(.|\n)*debug=True") as caught:
        Search().run(with_root(2, 1), **options)
    assert "sqrt" not in str(caught.value)


def test_a_recorded_search_names_the_op_that_made_the_nan():
    search = Search(debug=True)
    with pytest.raises(SearchError, match=r"step 1(.|\n)*batch 1;(.|\n)*first made by sqrt at .*, in step 1"):
        search.run(with_root(1, 1))
    assert search.loop.run.steps == 4  # it can be looked at
    with pytest.raises(SearchError, match="first made by sqrt"):
        _ = search.loop.run.found


def test_the_first_nan_is_that_of_a_state_of_an_earlier_step():
    search = Search(debug=True)
    loop, beam = search.loop, search.beam
    loop.state.h = rf.ones([rf.batch_dim, beam])
    with pytest.raises(SearchError, match=r"NaN after step 2(.|\n)*first made by log at .*, in step 1"), loop:
        scores = rf.gather(search.table, indices=loop.state.prev) + loop.state.h
        chosen = loop.choice(scores, beam=beam, axis=search.label, input_type="log_prob")
        loop.state.prev = rf.set_sparse_dim(chosen.labels, search.table.dims[0])
        loop.state.h = rf.log(rf.where(search.at(1, 0), -1.0, chosen.scores * 0 + 1.0))
        loop.end(chosen.labels == 99, include_eos=False)


def test_a_nan_of_a_label_that_gets_no_place_is_no_error():
    table = np.random.RandomState(0).randn(LABELS, LABELS).astype("float32")
    table[:, 3] = math.nan
    assert [len(each) for each in Search(table=table).run(input_type="log_prob").nbest(3)] == [3, 3]


# -- nothing allowed, fewer candidates than places


@pytest.mark.parametrize("input_type", ["logits", "log_prob", "prob"])
@pytest.mark.parametrize("include_eos", [False, True])
@pytest.mark.parametrize("debug", [False, True])
def test_where_nothing_is_allowed_the_hypothesis_dies(input_type, include_eos, debug):
    nothing = 0.0 if input_type == "prob" else -math.inf

    def change(scores, search):
        scores = rf.exp(scores) if input_type == "prob" else scores
        return rf.where(search.at(1, 1), nothing, scores)

    search = Search(debug=debug)
    found = search.run(change, end=99, input_type=input_type, include_eos=include_eos)
    assert found.flags == ["no hypothesis left at step 1: sequence 1"] and found.flags[0] in repr(found)
    assert len(found.nbest(3)[0]) == 3 and found.nbest(3)[1] == []
    assert found.scores.raw_tensor[1].tolist() == [-math.inf] * 3
    assert found.lengths.raw_tensor.tolist() == [[4, 4, 4], [0, 0, 0]]
    assert found.tree[1].died_at == 1 and found.trace.steps.tolist() == [4, 2]
    assert found.best(search.labels).dims == (search.loop.axis, rf.batch_dim)
    if debug:
        assert "no hypothesis left: 1 of 2" in search.loop.run.flags and "not finite" not in search.loop.run.flags
        assert search.loop.run.found.nbest(3) == found.nbest(3)


def test_one_hypothesis_dies_and_the_others_go_on():
    """After the label b, nothing is allowed; it is never revived, though there is room for it."""
    table = np.log(np.array([[0.1, 0.5, 0.4], [0, 0, 0], [0.4, 0.2, 0.4]]) + 1e-38).astype("float32")
    table[1] = -math.inf
    found = Search(table=table, labels=3, beam=8, limit=3).run(input_type="log_prob", end=0)
    for texts in found.nbest(8):
        assert texts and not any("b" in text[:-1] for text in texts)
    assert found.flags == []
    live = [int((scores > -math.inf).sum()) for scores in found.trace.scores[:, 0]]
    assert live == [3, 4, 5]


@pytest.mark.parametrize("include_eos", [False, True])
def test_fewer_candidates_than_places(include_eos):
    search = Search(labels=2, beam=9, limit=2)
    found = search.run(include_eos=include_eos)
    assert sorted(found.nbest(9, text=False)[0]) == ([(0,), (1, 0), (1, 1)] if include_eos else [(), (1,), (1, 1)])
    assert len({hypothesis.labels for hypothesis in found.tree[0].hypotheses}) == 3
    dead = ~np.isfinite(found.scores.raw_tensor.numpy())
    assert dead.sum() == 12 and (found.lengths.raw_tensor.numpy()[dead] == 0).all()
    assert [len(found.tree[0].nodes(step)) for step in range(2)] == [2, 3] and repr(found).count("\n") == 8


# -- as little as possible


def test_one_label():
    found = Search(labels=1).run()
    assert found.nbest(3) == [[""], [""]] and found.lengths.raw_tensor[:, 0].tolist() == [0, 0]
    found = Search(labels=1).run(end=99)
    assert found.nbest(3) == [["aaaa"], ["aaaa"]] and "reached the limit" in repr(found)


def test_without_labels():
    none = rf.Dim(0, name="label")
    with pytest.raises(DimError, match="one label or more"):
        Search().run(lambda scores, search: rf.zeros([rf.batch_dim, search.beam, none]), axis=none)


def test_beam_1_is_greedy():
    found, search = Search(beam=1).run(end=None), Search()
    table, label, expected = search.table.raw_tensor.numpy(), 0, ""
    for _ in range(4):
        label = int(table[label].argmax())
        expected += "abcd"[label]
    assert found.nbest(1) == [[expected], [expected]]


def test_without_an_end():
    found = Search().run(end=None)
    assert found.lengths.raw_tensor.tolist() == [[4] * 3] * 2 and "limit" not in repr(found)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("end", [0, None])
def test_limit_0(debug, end):
    search = Search(limit=0, debug=debug)
    found = search.run(end=end)
    assert found.nbest(3) == [[""], [""]] and found.scores.raw_tensor[:, 0].tolist() == [0, 0]
    assert found.best(search.labels).raw_tensor.shape == (0, 2) and found.trace.steps.tolist() == [0, 0]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("end", [0, None])
def test_a_batch_of_0(debug, end):
    search = Search(batch=0, debug=debug)
    found = search.run(end=end)
    assert (found.nbest(2), found.flags, len(found), repr(found)) == ([], [], 0, "search: 0 sequences, beam 3")
    assert found.scores.raw_tensor.shape == found.lengths.raw_tensor.shape == (0, 3)
    assert found.best(search.labels).raw_tensor.shape[1:] == (0,)
    if debug:
        assert search.loop.run.found.nbest(2) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_scores_of_half_precision_add_up_in_single_precision(dtype):
    expected = Search(limit=12).run(end=None)
    found = Search(limit=12).run(lambda scores, search: rf.cast(scores, dtype), end=None)
    assert found.scores.dtype == ("float64" if dtype == "float64" else "float32")
    np.testing.assert_allclose(found.scores.tolist(), expected.scores.tolist(), atol=2e-2)
