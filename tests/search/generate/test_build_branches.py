"""Searches of `generate` without beams: their labels, and the candidates beside them."""

import random

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.search.generate.scores import KeptScores
from tests.search.generate.models import MODELS, generate, make_model, random_inputs

GREEDY = {"max_new_tokens": 9, "eos_token_id": [8, 29, 11, 19], "pad_token_id": 0}
SAMPLED = {**GREEDY, "do_sample": True, "top_k": 0}
ENDS = [3, 5, 6, 8, 9, 12, 15, 16, 21, 24, 28, 31, 36]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("returned", [0, 1, 3])
def test_each_branch_is_a_result_with_its_log_probabilities(name, kept, returned):
    options = {**SAMPLED, "num_return_sequences": returned, "eos_token_id": ENDS} if returned else GREEDY
    model, inputs = make_model(name), random_inputs(name, random.Random(3))
    processor = KeptScores.of(None, **options)
    torch.manual_seed(5)
    out = generate(model, inputs, **options, logits_processor=[processor])
    result = (out.sequences, processor) if kept else (out, None)
    found = rf.search.from_generate(result[0], None, model.generation_config, kept=result[1], **options)
    prompt, count = out.sequences.shape[1] - len(out.scores), max(returned, 1)
    logs = torch.stack(out.scores, 1).log_softmax(-1)
    for row, tree in enumerate(found.tree):
        for branch in range(count):
            labels = out.sequences[row * count + branch, prompt:]
            stops = [i for i, label in enumerate(labels) if label in options["eos_token_id"]]
            length = stops[0] + 1 if stops else len(labels)
            chosen = logs[row * count + branch, range(length), labels[:length]]
            hypothesis = next(each for each in tree.hypotheses if each.place == branch)
            assert hypothesis.labels == tuple(labels[: length - bool(stops)].tolist())
            assert (hypothesis.taken, hypothesis.complete) == (length, bool(stops))
            assert hypothesis.score == pytest.approx(float(chosen.sum()), rel=1e-4)
            probabilities = logs[row * count + branch, :length].exp()
            entropies = torch.special.entr(probabilities).sum(-1)
            np.testing.assert_allclose(tree.own.entropies[:length, 0, branch], entropies, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_candidates_beside_a_branch_are_the_best_others(options):
    model, inputs = make_model("gpt2"), {"input_ids": torch.tensor([[5, 6, 7]])}
    torch.manual_seed(2)
    out = generate(model, inputs, **options)
    tree = rf.search.from_generate(out, None, model.generation_config, candidates=5, **options).tree[0]
    before = 0.0
    for step, node in ((step, tree.node(step, 0)) for step in range(tree.steps)):
        best = out.scores[step][0].log_softmax(-1).sort(descending=True)
        others = [(n, s) for n, s in zip(best.indices.tolist(), best.values.tolist(), strict=True) if n != node.label]
        assert [each.label for each in tree.pruned(step)] == [label for label, _ in others[:5]]
        scores = [before + score for _, score in others[:5]]
        assert [each.score for each in tree.pruned(step)] == pytest.approx(scores, rel=1e-4)
        before = node.score


def test_a_better_label_that_was_not_sampled_is_named():
    model, inputs = make_model("gpt2"), {"input_ids": torch.tensor([[5, 6, 7]])}
    for seed in range(9):
        torch.manual_seed(seed)
        out = generate(model, inputs, **SAMPLED)
        tree = rf.search.from_generate(out, None, model.generation_config, **SAMPLED).tree[0]
        best = int(out.scores[0].argmax())
        if tree.node(0, 0).label != best:
            assert "at rank 1 was not sampled" in tree.where([best]).fall.words
            return
    raise AssertionError("all samples were the best label")
