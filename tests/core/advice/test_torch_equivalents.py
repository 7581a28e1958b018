"""What an error about a missing feature dim says to write works when it is written."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError
from rfnb.search.score.scorer import ModuleScorer

time, feat, other = rf.Dim(3, name="time"), rf.Dim(4, name="feat"), rf.Dim(6, name="other")
batch_dim = rf.Dim(None, name="batch", kind=rf.Dim.Types.Batch)  # of its own: other tests bind `rf.batch_dim`
frames, places = rf.Dim(None, name="frames"), rf.Dim(2, name="places")
x = rf.convert_to_tensor(torch.ones(2, 3, 4), dims=[batch_dim, time, feat])
logits = rf.convert_to_tensor([[[[0.0] * 6] * 4] * 3] * 2, dims=[batch_dim, frames, feat, other])
labels = rf.convert_to_tensor([[1, 2], [1, 3]], dims=[batch_dim, places], dtype="int64")

CALLS = {
    "concat_features": ("rf.concat_features({x}, {x})", "x"),
    "reduce_out": ("rf.reduce_out({x}, mode='max', num_pieces=2)", "x"),
    "get_axis": ("{x}.get_axis_from_description('F')", "x"),
    "get_dim": ("{x}.get_dim_tag_from_description('feature')", "x"),
    "ctc_loss": (
        "rf.ctc_loss(logits={x}, targets=labels, input_spatial_dim=frames, targets_spatial_dim=places, blank_index=0)",
        "logits",
    ),
    "ctc_greedy_decode": ("rf.ctc_greedy_decode({x}, in_spatial_dim=frames, blank_index=0)", "logits"),
    "ctc_best_path": (
        "rf.ctc_best_path(logits={x}, targets=labels, input_spatial_dim=frames, targets_spatial_dim=places, "
        "blank_index=0)",
        "logits",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_tensor_that_the_hint_makes_is_accepted(name):
    call, tensor = CALLS[name]
    with pytest.raises(DimError) as error:
        eval(call.format(x=tensor))
    way = error.value.hint.split(";")[0]
    assert way == f"rf.set_feature_dim({tensor}, {'feat' if tensor == 'x' else 'other'})"
    eval(call.format(x=way))


ARGUMENTS = {
    "gating": ("rf.gating(x{more})", "rf.gating(x, axis=feat)"),
    "specaugment": ("rf.audio.specaugment(x, spatial_dim=time, only_on_train=False{more})", "feature_dim=feat"),
    "label_smoothed_log_prob_gradient": (
        "rf.label_smoothed_log_prob_gradient(x, 0.1{more})",
        "rf.label_smoothed_log_prob_gradient(…, axis=feat)",
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_argument_that_the_hint_names_is_accepted(name):
    call, hint = ARGUMENTS[name]
    with pytest.raises(DimError) as error:
        eval(call.format(more=""))
    assert error.value.hint == hint
    eval(call.format(more=", " + hint.rstrip(")").rpartition(", ")[2]))


def rnn(c, join):
    """A loop that joins a frame and a state, as a decoder does."""
    embedding, steps = rf.Dim(3, name="embedding"), rf.Dim(None, name="steps")
    embed, linear = rf.Linear(feat, embedding), rf.Linear(embedding + other, other)
    source = rf.convert_to_tensor(torch.ones(2, 5, 4), dims=[batch_dim, steps, feat])
    loop = rf.Loop(axis=steps)
    loop.state.c = c
    with loop:
        e = embed(loop.unstack(source))
        loop.state.c = linear(join(e, loop.state.c))
    return loop.state.c


def test_a_state_gets_its_feature_dim_where_it_is_made_or_where_it_is_read():
    rf.convert_to_tensor(torch.ones(2), dims=[batch_dim])
    with pytest.raises(DimError, match="has no feature dim") as error:
        rnn(rf.zeros([batch_dim, other]), rf.concat_features)
    read, made = error.value.hint.split("; or ")
    assert read == "rf.set_feature_dim(c, other)"
    assert made == "feature_dim=other where it is made: rf.zeros(…, feature_dim=other)"
    found = [
        rnn(
            rf.zeros([batch_dim, other]),
            lambda e, c: rf.concat_features(e, eval(read, {"rf": rf, "other": other, "c": c})),
        ),
        rnn(eval(made.partition(": ")[2].replace("…", "[batch_dim, other]")), rf.concat_features),
    ]
    assert [each.dims for each in found] == [(batch_dim, other)] * 2


@pytest.mark.parametrize("dims", [[batch_dim], []])
def test_without_a_dim_that_can_be_one_there_is_no_hint(dims):
    rf.convert_to_tensor(torch.ones(2), dims=[batch_dim])
    with pytest.raises(DimError, match="has no feature dim") as error:
        rf.concat_features(rf.zeros(dims), rf.zeros(dims))
    assert error.value.hint is None


class Scores(rf.Module):
    """Scores of words that depend on nothing; with a feature dim or without."""

    def __init__(self, words, marks):
        super().__init__()
        self.words, self.marks = words, marks

    def default_initial_state(self, *, batch_dims):
        return rf.State()

    def __call__(self, label, *, state, spatial_dim):
        scores = rf.expand_dims(rf.zeros([self.words]), dims=label.dims)
        return (rf.set_feature_dim(scores, self.words) if self.marks else scores), state


def test_scorers_of_a_search():
    words = rf.Dim(3, name="words", vocab=["</s>", "a", "b"])
    start = rf.zeros([batch_dim], dtype="int64", sparse_dim=words)
    rf.convert_to_tensor(torch.ones(2), dims=[batch_dim])

    def module(marks):
        return ModuleScorer(Scores(words, marks)).score(start, rf.State())

    def language_model(marks):
        def step(label, state, encoded):
            return Scores(words, marks)(label, state=state, spatial_dim=None)

        return rf.search.InternalLM(step, x, axis=time).score(start, None)

    for run in (module, language_model):
        with pytest.raises(DimError, match="no feature dim") as error:
            run(marks=False)
        assert error.value.hint.startswith("rf.set_feature_dim(scores, words)")
        run(marks=True)
