"""Connectionist temporal classification, against a sum over all alignments."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, ParameterError
from tests.examples import examples

VOCAB = rf.Dim(3, name="vocab")
words = st.lists(st.integers(0, 1), max_size=3)
sequences = st.lists(st.tuples(st.integers(0, 4), words), min_size=1, max_size=3)
kinds = pytest.mark.parametrize(("blank", "label_loop"), [*itertools.product([0, 1, 2], [True, False])])


def labels_of(path, blank, label_loop):
    kept = [a for i, a in enumerate(path) if not label_loop or i == 0 or path[i - 1] != a]
    return [a for a in kept if a != blank]


def alignments(n, labels, blank, label_loop):
    """All ways to put the labels on n frames."""
    return [p for p in itertools.product(range(3), repeat=n) if labels_of(p, blank, label_loop) == labels]


def score(log_probs, path):
    return sum(float(log_probs[t, a]) for t, a in enumerate(path))


class Inputs:
    def __init__(self, sequences, blank, seed=0, normalized=False):
        self.time, self.word = rf.Dim(None, name="time"), rf.Dim(None, name="word")
        self.labels = [[a + (a >= blank) for a in labels] for _, labels in sequences]
        self.frames = [n for n, _ in sequences]
        raw = torch.randn(len(sequences), max(self.frames), 3, generator=torch.Generator().manual_seed(seed)).double()
        self.raw = (raw.log_softmax(-1) if normalized else raw).requires_grad_()
        self.logits = rf.convert_to_tensor(self.raw, dims=[batch_dim, self.time, VOCAB], lengths=self.frames)
        targets = np.full([len(sequences), max(map(len, self.labels))], -77)
        for row, labels in zip(targets, self.labels, strict=True):
            row[: len(labels)] = labels
        self.targets = rf.convert_to_tensor(
            targets, dims=[batch_dim, self.word], sparse_dim=VOCAB, lengths=list(map(len, self.labels))
        )
        self.given = {
            "logits": self.logits,
            "targets": self.targets,
            "input_spatial_dim": self.time,
            "targets_spatial_dim": self.word,
            "blank_index": blank,
        }


@kinds
@pytest.mark.parametrize("max_approx", [False, True])
@examples(15)
@given(sequences=sequences)
def test_the_loss_is_a_sum_over_all_alignments(sequences, blank, label_loop, max_approx):
    x = Inputs(sequences, blank)
    loss = rf.ctc_loss(**x.given, label_loop=label_loop, max_approx=max_approx)
    assert loss.dims == (batch_dim,)
    log_probs = x.raw.detach().log_softmax(-1)
    for i, (n, labels) in enumerate(zip(x.frames, x.labels, strict=True)):
        scores = [score(log_probs[i], path) for path in alignments(n, labels, blank, label_loop)]
        best = max(scores, default=-math.inf)
        expected = best if max_approx else np.logaddexp.reduce([-math.inf, *scores])
        assert loss.raw_tensor[i].item() == pytest.approx(-expected, abs=1e-6)


@kinds
@pytest.mark.parametrize("max_approx", [False, True])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_gradient_is_that_of_the_loss(blank, label_loop, max_approx, normalized):
    x = Inputs([(4, [0, 1]), (3, [1]), (3, []), (2, [0, 0, 1]), (0, [])], blank)
    options = {"label_loop": label_loop, "max_approx": max_approx, "logits_normalized": normalized}

    def loss(raw):
        found = rf.ctc_loss(**{**x.given, "logits": x.logits.like(raw)}, **options)
        return torch.where(torch.isinf(found.raw_tensor), 0.0, found.raw_tensor).sum()

    assert torch.autograd.gradcheck(loss, [x.raw])
    [gradient] = torch.autograd.grad(rf.ctc_loss(**x.given, **options).raw_tensor.sum(), [x.raw])
    assert (gradient[3] == 0).all()  # no alignment
    if normalized:  # the gradient of log probabilities is minus the probability of each label in each frame
        assert torch.allclose(gradient[0].sum(-1), torch.tensor(-1.0).double())


def test_scores_need_not_be_normalized():
    x = Inputs([(4, [0, 1]), (3, [1])], 2)
    plain = rf.ctc_loss(**{**x.given, "logits": rf.log_softmax(x.logits, axis=VOCAB)}, logits_normalized=True)
    assert torch.allclose(plain.raw_tensor, rf.ctc_loss(**x.given).raw_tensor)
    higher = rf.ctc_loss(**{**x.given, "logits": x.logits + 100.0}, logits_normalized=True)
    lower = rf.ctc_loss(**x.given, logits_normalized=True)
    assert (lower - higher).raw_tensor.tolist() == pytest.approx([400.0, 300.0])


@pytest.mark.parametrize("peak", [0.0, 50.0])
def test_probabilities_in_place_of_their_logarithms_are_refused(peak):
    x = Inputs([(4, [0, 1]), (3, [1]), (0, [])], 2)
    probs = rf.softmax(x.logits + peak * rf.one_hot(rf.convert_to_tensor(1, sparse_dim=VOCAB)), axis=VOCAB)
    rf.ctc_loss(**{**x.given, "logits": probs})  # as scores
    with pytest.raises(ParameterError, match="log probabilities") as failure:
        rf.ctc_loss(**{**x.given, "logits": probs}, logits_normalized=True)
    assert "safe_log" in failure.value.hint


@kinds
@examples(15)
@given(sequences=sequences)
def test_the_best_path_is_the_best_of_all(sequences, blank, label_loop):
    x = Inputs(sequences, blank)
    path = rf.ctc_best_path(**x.given, label_loop=label_loop)
    assert path.dims == (batch_dim, x.time) and path.sparse_dim is VOCAB and path.dtype == x.targets.dtype
    log_probs = x.raw.detach().log_softmax(-1)
    for i, (n, labels) in enumerate(zip(x.frames, x.labels, strict=True)):
        ways = alignments(n, labels, blank, label_loop)
        best = max(ways, key=lambda path: score(log_probs[i], path), default=(blank,) * n)
        assert path.raw_tensor[i, :n].tolist() == list(best)


def test_any_order_of_dims_and_more_of_them():
    """Several targets for each input: {batch, time, vocab} and {batch, hyp, word} give {batch, hyp}."""
    hyp = rf.Dim(2, name="hyp")
    x = Inputs([(4, [0, 1]), (3, [1])], 2)
    others = Inputs([(4, [1, 1]), (3, [0])], 2)
    assert others.targets.raw_tensor.shape == x.targets.raw_tensor.shape
    raw = torch.stack([x.targets.raw_tensor, others.targets.raw_tensor])
    both = rf.convert_to_tensor(raw, dims=[hyp, batch_dim, x.word], sparse_dim=VOCAB)
    given = {**x.given, "targets": both, "logits": x.logits.copy_transpose([VOCAB, batch_dim, x.time])}
    loss, path = rf.ctc_loss(**given), rf.ctc_best_path(**given)
    assert loss.dims_set == {batch_dim, hyp} and path.dims_set == {batch_dim, hyp, x.time}
    for number, targets in enumerate([x.targets, x.targets.like(others.targets.raw_tensor)]):
        alone = {**x.given, "targets": targets}
        found = rf.gather(loss, indices=number, axis=hyp)
        assert torch.allclose(found.raw_tensor, rf.ctc_loss(**alone).raw_tensor)
        found = rf.gather(path, indices=number, axis=hyp).copy_transpose([batch_dim, x.time])
        assert torch.equal(found.copy_masked(0).raw_tensor, rf.ctc_best_path(**alone).copy_masked(0).raw_tensor)


@pytest.mark.parametrize("options", [{}, {"label_loop": False}, {"max_approx": True}, {"logits_normalized": True}])
def test_padding_gets_no_gradient(options):
    x = Inputs([(4, [0, 1]), (2, [1])], 2)
    raw = x.raw.detach().clone()
    raw[1, 2:] = math.nan
    raw.requires_grad_()
    loss = rf.ctc_loss(**{**x.given, "logits": x.logits.like(raw)}, **options).raw_tensor
    assert torch.equal(loss, rf.ctc_loss(**x.given, **options).raw_tensor)
    [gradient] = torch.autograd.grad(loss.sum(), [raw])
    assert torch.isfinite(gradient).all() and not gradient[1, 2:].any()


def test_half_precision_counts_in_single():
    x = Inputs([(4, [0, 1])], 2)
    half = x.logits.like(x.raw.to(torch.bfloat16))
    assert rf.ctc_loss(**{**x.given, "logits": half}).dtype == "float32"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single = rf.ctc_loss(**{**x.given, "logits": x.logits.like(x.raw.float())})
    assert torch.allclose(single.raw_tensor.double(), rf.ctc_loss(**x.given).raw_tensor, atol=1e-5)


def test_classes_that_cannot_be():
    x = Inputs([(4, [0, 1]), (3, [1])], 2)
    raw = x.raw.detach().clone()
    raw[:, :, 1] = -math.inf  # label 1 is never said
    raw.requires_grad_()
    for options in ({}, {"label_loop": False}, {"max_approx": True}):
        loss = rf.ctc_loss(**{**x.given, "logits": x.logits.like(raw)}, **options).raw_tensor
        assert torch.isinf(loss).all() and not torch.autograd.grad(loss.sum(), [raw])[0].any()


@examples(30)
@given(paths=st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=4), blank=st.integers(0, 2))
def test_durations_and_greedy_decoding(paths, blank):
    time = rf.Dim(None, name="time")
    raw = np.full([len(paths), max(map(len, paths))], 1)
    for row, path in zip(raw, paths, strict=True):
        row[: len(path)] = path
    path = rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=VOCAB, lengths=list(map(len, paths)))
    given = {"path": path, "path_spatial_dim": time, "blank_index": blank}
    labels, out = rf.ctc_greedy_decode(rf.one_hot(path), in_spatial_dim=time, blank_index=blank)
    durations, states = rf.ctc_durations_from_path(**given)
    blanks, gaps = rf.ctc_no_label_loop_blank_durations_from_path(**given)
    assert labels.sparse_dim is VOCAB and durations.dtype == blanks.dtype == "int32"
    for i, frames in enumerate(paths):
        found = labels_of(frames, blank, True)
        assert labels.raw_tensor[i, : labels.size_of(out).values[i]].tolist() == found
        runs = [(a, len(list(run))) for a, run in itertools.groupby(frames)]
        expected = [0] if not runs or runs[0][0] != blank else []
        for (a, n), behind in itertools.pairwise([*runs, (None, 0)]):
            expected += [n] if a == blank or behind[0] == blank else [n, 0]
        n = int(durations.size_of(states).values[i])
        assert durations.raw_tensor[i, :n].tolist() == expected and n == 2 * len(found) + 1
        expected = [len(part) for part in "".join(" " if a == blank else "x" for a in frames).split("x")]
        assert blanks.raw_tensor[i, : blanks.size_of(gaps).values[i]].tolist() == expected


@pytest.mark.parametrize("durations_of", [rf.ctc_durations_from_path, rf.ctc_no_label_loop_blank_durations_from_path])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_durations_have_lengths_of_the_dtype_that_the_labels_have(durations_of, dtype):
    batch = rf.Dim(3, name="batch")
    time, word = (
        rf.Dim(rf.convert_to_tensor(lengths, dims=[batch], dtype=dtype), name=name)
        for name, lengths in {"time": [5, 3, 2], "word": [2, 1, 0]}.items()
    )
    raw = torch.tensor([[3, 1, 3, 3, 1], [3, 3, 0, 0, 0], [3, 3, 0, 0, 0]])
    path = rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=rf.Dim(4, name="vocab"))
    given = {"path": path, "path_spatial_dim": time, "blank_index": 3}
    _, out = durations_of(**given, targets_spatial_dim=word)
    _, counted = durations_of(**given)
    for dim, expected in ((out, dtype), (counted, "int64")):
        size = dim.dyn_size_ext
        assert size.dims == (batch,) and size.dtype == expected
    assert out.dyn_size_ext.tolist() == counted.dyn_size_ext.tolist()


def test_durations_of_the_best_path():
    x = Inputs([(4, [0, 1]), (3, [1]), (2, [])], 2)
    path = rf.ctc_best_path(**x.given)
    given = {"path": path, "path_spatial_dim": x.time, "blank_index": 2}
    durations, out = rf.ctc_durations_from_path(**given, targets_spatial_dim=x.word)
    assert out is 2 * x.word + 1
    assert rf.reduce_sum(durations, axis=out).raw_tensor.tolist() == [4, 3, 2]
    mine = rf.Dim(None, name="mine")
    assert rf.ctc_durations_from_path(**given, targets_spatial_dim=x.word, out_spatial_dim=mine)[1] is mine


def test_durations_that_do_not_fit():
    x = Inputs([(4, [0, 1]), (3, [1])], 2)
    given = {"path": rf.ctc_best_path(**x.given), "path_spatial_dim": x.time, "blank_index": 2}
    other = Inputs([(4, [0, 1, 0]), (3, [1])], 2).word
    with pytest.raises(DimError, match="word does not fit the path"):
        rf.ctc_durations_from_path(**given, targets_spatial_dim=other)
    with pytest.warns(UserWarning, match="word does not fit the path"):
        rf.ctc_durations_from_path(**given, targets_spatial_dim=other, stop_on_failed_check=False)


def test_greedy_decoding_without_blank_among_the_labels():
    time, letters = rf.Dim(4, name="time"), rf.Dim(2, name="letters")
    frames = rf.one_hot(rf.convert_to_tensor([0, 2, 0, 1], dims=[time], sparse_dim=VOCAB))
    labels, out = rf.ctc_greedy_decode(frames, in_spatial_dim=time, blank_index=2, target_dim=letters)
    assert labels.raw_tensor.tolist() == [0, 0, 1] and labels.sparse_dim is letters and labels.dims == (out,)
    with pytest.raises(DimError, match="blank label must come after the labels"):
        rf.ctc_greedy_decode(frames, in_spatial_dim=time, blank_index=0, target_dim=letters)


def test_errors():
    x = Inputs([(4, [0, 1])], 2)
    with pytest.raises(DimError, match="the blank label is not a class"):
        rf.ctc_loss(**{**x.given, "blank_index": 3})
    with pytest.raises(DimError, match="`logits` has no dim word"):
        rf.ctc_loss(**{**x.given, "input_spatial_dim": x.word})
    with pytest.raises(DimError, match="labels and classes have different dims"):
        letters = rf.Dim(3, name="letters")
        rf.ctc_loss(**{**x.given, "targets": rf.set_sparse_dim(x.targets, letters)})
    with pytest.raises(DimError, match="a label is not a class"):
        rf.ctc_loss(**{**x.given, "targets": x.targets + 5})
    with pytest.raises(DtypeError, match="`targets` must be integers"):
        rf.ctc_loss(**{**x.given, "targets": rf.cast(x.targets, "float32")})


@pytest.mark.parametrize("fn", [rf.ctc_loss, rf.ctc_best_path])
@pytest.mark.parametrize(("blank", "shift"), [(2, 1), (0, -1)])
def test_labels_that_are_off_by_one_so_that_one_is_blank(fn, blank, shift):
    x = Inputs([(4, [0]), (5, [0, 1])], blank)
    with pytest.raises(DimError, match="a label is the blank") as error:
        fn(**{**x.given, "targets": x.targets + shift})
    assert error.value.got == ("2 in sequence 1, label 1" if shift > 0 else "0 in sequence 0, label 0")


def test_in_a_loop():
    """One loss for each of several sequences of labels."""
    x = Inputs([(4, [0, 1]), (3, [1])], 2)
    hyp = rf.Dim(3, name="hyp")
    raw = x.targets.copy_masked(0).raw_tensor
    many = rf.convert_to_tensor(torch.stack([raw, 1 - raw, raw * 0]), dims=[hyp, batch_dim, x.word], sparse_dim=VOCAB)
    for options in ({}, {"label_loop": False}):
        with rf.Loop(axis=hyp) as loop:
            losses = loop.stack(rf.ctc_loss(**{**x.given, "targets": loop.unstack(many)}, **options))
        together = rf.ctc_loss(**{**x.given, "targets": many}, **options)
        assert torch.allclose(losses.copy_transpose(together.dims).raw_tensor, together.raw_tensor)


def test_a_batch_without_frames_can_be_trained_on():
    time, label, vocab = rf.Dim(None, name="time"), rf.Dim(None, name="label"), rf.Dim(3, name="vocab")
    logits = rf.convert_to_tensor(torch.zeros(2, 0, 3), dims=[batch_dim, time, vocab], lengths=[0, 0])
    rf.set_requires_gradient(logits)
    targets = rf.convert_to_tensor([[0], []], dims=[batch_dim, label], sparse_dim=vocab)
    loss = rf.ctc_loss(logits=logits, targets=targets, input_spatial_dim=time, targets_spatial_dim=label, blank_index=2)
    assert loss.tolist() == [float("inf"), 0]
    rf.reduce_sum(loss, axis=batch_dim).backward()
    assert logits.raw_tensor.grad.shape == (2, 0, 3)
