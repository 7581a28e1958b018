"""Searches of `generate` with beams, made again: all that its own search had at each step."""

import random

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.search.generate.scores import KeptScores
from tests.examples import FACTOR, PROFILE
from tests.search.generate.models import MODELS, generate, make_model, random_inputs, random_options, record

SETTINGS = range(500) if PROFILE == "nightly" else [*range(round(25 * FACTOR)), 225]
"""Seeds; of 225, a sequence is over before others, which would change its result."""
NONE = -1e5
"""Scores below are those of places without a hypothesis."""


@pytest.mark.parametrize("seed", SETTINGS)
def test_all_beams_of_each_step_are_those_of_generate(seed, monkeypatch):
    chance = random.Random(seed)
    name = MODELS[seed % len(MODELS)]
    model, inputs, options = make_model(name), random_inputs(name, chance), random_options(name, chance)
    after_others = "renormalize_logits" not in options  # which comes after processors of the caller
    kept = KeptScores.of(None, **options) if after_others and chance.random() < 0.5 else None
    recorded = record(monkeypatch)
    out = generate(model, inputs, **options, **({} if kept is None else {"logits_processor": [kept]}))
    found = rf.search.from_generate(out, None, model.generation_config, kept=kept, **options)
    check_beams(found, out, recorded, options["num_beams"])


@pytest.mark.parametrize("seed", range(round(8 * FACTOR)))
def test_sampled_beams_are_kept_as_they_were_drawn(seed, monkeypatch):
    chance = random.Random(seed)
    name = MODELS[seed % len(MODELS)]
    model, inputs, options = make_model(name), random_inputs(name, chance), random_options(name, chance)
    options |= {"do_sample": True, "temperature": chance.choice([0.7, 1.0, 2.0]), "top_k": chance.choice([0, 20])}
    torch.manual_seed(seed)
    without = generate(model, inputs, **options)
    torch.manual_seed(seed)
    recorded = record(monkeypatch)
    with rf.capture(model, search=True) as seen:
        out = generate(model, inputs, **options)
    assert torch.equal(out.sequences, without.sequences)
    check_beams(seen.search[0], out, recorded, options["num_beams"])


def check_beams(found, out, recorded, beams):
    """All beams of each step are the recorded ones, and the results those of the output."""
    prompt = out.sequences.shape[1] - out.beam_indices.shape[1]
    for row, tree in enumerate(found.tree):
        for step in range(tree.steps):
            nodes = sorted(tree.nodes(step), key=lambda node: node.place)
            last = step == tree.steps - 1
            if not last:
                expected = beams_after(recorded.running, recorded.running_scores, step, row)
                check([node for node in nodes if node.place < beams], tree, expected, prompt, "score")
            expected = beams_after(recorded.banked, recorded.banked_scores, step, row, recorded.finished)
            check([node for node in nodes if node.place >= beams], tree, expected, prompt, "compared")
        count = len(out.sequences) // len(found)
        results = slice(row * count, (row + 1) * count)
        check_results(tree, out.sequences[results, prompt:].tolist(), out.sequences_scores[results].tolist())


def beams_after(sequences, scores, step, row, finished=None):
    """Labels and scores of the hypotheses that there are after a step."""
    entries = zip(sequences[step][row].tolist(), scores[step][row].tolist(), strict=True)
    there = [True] * 99 if finished is None else finished[step][row]
    return [entry for i, entry in enumerate(entries) if entry[1] > NONE and there[i]]


def check(nodes, tree, expected, prompt, score):
    prefixes = [tree.prefix(node.step, node.place) for node in nodes]
    pairs = zip(prefixes, expected, strict=True)
    assert prefixes == [tuple(labels[prompt : prompt + len(prefix)]) for prefix, (labels, _) in pairs]
    scores = [getattr(node, score) for node in nodes]
    np.testing.assert_allclose(scores, [expected_score for _, expected_score in expected], rtol=1e-5)


def check_results(tree, sequences, scores):
    there = [(labels, score) for labels, score in zip(sequences, scores, strict=True) if score > NONE]
    hypotheses = tree.hypotheses[: len(there)]
    assert [each.score for each in hypotheses] == pytest.approx([score for _, score in there], rel=1e-5)
    for hypothesis, (labels, _) in zip(hypotheses, there, strict=True):
        assert tuple(labels[: len(hypothesis.labels)]) == hypothesis.labels
        assert hypothesis.complete == (labels[hypothesis.taken - 1] in tree.end_labels)
