"""`rf.search.decode` with steps and numbers that do not fit, scores that are NaN or −∞, and nothing to search."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import ParameterError, SearchError


def step(prev, state):
    return torch.arange(4.0).expand(len(prev), 4) * 0.1, state


def decode(**given):
    return rf.search.decode(**{"step": step, "batch": 2, "start": 0, "end": 0, "limit": 3, **given})


def of_scores(make):
    """A step whose scores are `make(number of hypotheses)`."""
    return lambda prev, state: (make(len(prev)), state)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"beam": 2.5}, ParameterError, "an integer, 1 or more"),
        ({"batch": -1}, ParameterError, "batch"),
        ({"candidates": -1}, ParameterError, "candidates"),
        ({"limit": None}, ParameterError, "an integer of 0 or more, or a list of 2"),
        ({"limit": 2.7}, ParameterError, r"2\.7"),
        ({"start": [0, 1, 2]}, ParameterError, "a list of 2"),
        ({"start": torch.tensor([0, 1, 2])}, ParameterError, "a list of 2"),
        ({"tags": ["laugh"]}, ParameterError, "a name for each sequence"),
        ({"length_normalization_exponent": math.inf}, ParameterError, "finite number"),
        ({"threshold": math.nan}, ParameterError, "`threshold` is not a finite number"),
        ({"groups": 2, "early_stop": 1}, ParameterError, "`groups` is not possible"),
        ({"length_penalty": 0.6}, ParameterError, "length_normalization_exponent=…"),
        ({"length_normalization": False}, ParameterError, "length_normalization_exponent=0"),
        ({"num_beams": 4}, ParameterError, "beam=4"),
        ({"lables": ["</s>", "a"]}, ParameterError, "did you mean 'labels'"),
        ({"step": lambda prev, state: torch.zeros(len(prev), 4)}, SearchError, r"Tensor(.|\n)*return scores, state"),
        ({"step": lambda prev, state: (prev, state, 0)}, SearchError, "tuple of 3"),
        ({"step": lambda prev, state: None}, SearchError, "NoneType"),
        ({"step": of_scores(lambda n: np.zeros((n, 4), "float32"))}, SearchError, "ndarray"),
        ({"step": of_scores(lambda n: [[0.0] * 4] * n)}, SearchError, "list"),
        ({"step": of_scores(lambda n: torch.zeros(n, 0))}, SearchError, r"\(8, 0\)"),
        ({"end": 9}, SearchError, "end=9, scores of 4 labels"),
        ({"labels": ["</s>", "a", "b"]}, SearchError, "3 labels, scores of 4"),
        ({"labels": list("abcde")}, SearchError, "5 labels, scores of 4"),
        ({"state": torch.zeros(3, 1)}, SearchError, "first axis"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else None,
)
def test_wrong_arguments(options, error, words):
    with pytest.raises(error, match=words):
        decode(**options)


def test_a_step_of_too_few_rows_says_how_many_hypotheses_there_are():
    encoder_output = torch.ones(2, 1)
    with pytest.raises(RuntimeError) as caught:
        decode(step=of_scores(lambda n: torch.zeros(n, 4) + encoder_output))
    (note,) = caught.value.__notes__
    assert "called for 8 hypotheses" in note and "the output of an encoder, goes into the state" in note


def test_scores_of_another_size_at_a_later_step():
    sizes = [4, 5]
    with pytest.raises(SearchError, match=r"at step 1(.|\n)*\(8, 5\)(.|\n)*\(8, 4\)"):
        decode(step=of_scores(lambda n: torch.zeros(n, sizes.pop(0))))


def nan_from(step_number, sequence):
    steps = iter(range(9))

    def made(prev, state):
        scores = step(prev, state)[0].clone().view(2, -1, 4)
        if next(steps) >= step_number:
            scores[sequence] = math.nan
        return scores.view(-1, 4), state

    return made


@pytest.mark.parametrize("input_type", ["logits", "log_prob"])
def test_a_nan_is_reported_with_its_step_and_sequence(input_type):
    with pytest.raises(SearchError, match=r"^decode: (.|\n)*NaN after step 1(.|\n)*batch 1 \('cough'\)") as caught:
        decode(step=nan_from(1, 1), tags=["laugh", "cough"], input_type=input_type)
    assert "debug=" not in str(caught.value)


@pytest.mark.parametrize("input_type", ["logits", "log_prob"])
def test_where_nothing_is_allowed_the_hypothesis_dies(input_type):
    def none(prev, state):
        scores = step(prev, state)[0].clone().view(2, -1, 4)
        scores[1] = -math.inf
        return scores.view(-1, 4), state

    found = decode(step=none, end=None, input_type=input_type)
    assert found.flags == ["no hypothesis left at step 0: sequence 1"]
    assert len(found.nbest(4)[0]) == 4 and found.nbest(4)[1] == [] and found.best(found.lengths).tolist() == [3, 0]


def test_fewer_candidates_than_places():
    found = decode(beam=20, limit=1, candidates=3)
    assert found.nbest(20, text=False)[0] == [(3,), (2,), (1,), ()]
    assert found.tree[0].pruned(0) == [] and len(found.tree[0].nodes(0)) == 4


def test_as_little_as_possible():
    one = of_scores(lambda n: torch.zeros(n, 1))
    assert decode(step=one).nbest(2, text=False) == [[()], [()]]
    assert decode(step=one, end=None).nbest(2, text=False) == [[(0, 0, 0)], [(0, 0, 0)]]
    assert decode(limit=0).nbest(2, text=False) == [[()], [()]]
    assert decode(beam=1, end=None).nbest(2, text=False) == [[(3, 3, 3)], [(3, 3, 3)]]
    assert decode(batch=0).nbest(2) == decode(batch=None, state=torch.zeros(0, 3)).nbest(2) == []
    assert decode(start=torch.tensor([0, 1]), limit=np.array([0, 2])).trace.lengths[:, 0].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes_of_scores(dtype):
    found = decode(step=of_scores(lambda n: torch.arange(4.0).expand(n, 4).to(dtype)), end=None)
    assert found.nbest(1, text=False) == [[(3, 3, 3)], [(3, 3, 3)]]
    assert found.tree[0].best.score == pytest.approx(-0.4402, abs=1e-3)


def test_a_state_with_layers_first_is_named_beside_the_error_of_torch():
    gru, readout = torch.nn.GRU(8, 16, num_layers=2, batch_first=True), torch.nn.Linear(16, 5)

    def step(prev, state, turn):
        output, state = gru(torch.zeros(len(prev), 1, 8), turn(state))
        return readout(output[:, 0]).detach(), turn(state)

    options = {"beam": 3, "start": 0, "end": 1, "limit": 4}
    with pytest.raises(RuntimeError, match="hidden size") as caught:
        rf.search.decode(lambda *args: step(*args, lambda state: state), torch.zeros(2, 1, 16), **options)
    (note,) = caught.value.__notes__
    assert "counts the 6 hypotheses: (6, 1, 16)" in note and "state.transpose(0, 1)" in note
    turn = lambda state: state.transpose(0, 1).contiguous()  # noqa: E731
    assert len(rf.search.decode(lambda *args: step(*args, turn), torch.zeros(1, 2, 16), **options).nbest()) == 1
