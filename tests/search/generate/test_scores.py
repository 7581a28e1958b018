"""What the last logits processor keeps of a search of `generate`."""

import itertools

import numpy as np
import pytest
import torch

from rfnb.search.generate.scores import KeptScores
from tests.outside.library_loops import _gpt2, _t5

IDS = torch.tensor([[5, 6, 7, 8], [9, 4, 3, 11]])
OPTIONS = {"max_new_tokens": 6, "output_scores": True, "return_dict_in_generate": True}


def generated(model, **options):
    kept = KeptScores.of(model.generation_config, **options)
    torch.manual_seed(1)
    out = model.generate(IDS, logits_processor=[kept], **OPTIONS, **options)
    kept.finish(out.sequences)
    torch.manual_seed(1)
    return kept, out, model.generate(IDS, **OPTIONS, **options)


@pytest.mark.parametrize("make", [_gpt2, _t5])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_the_best_candidates_are_kept_and_nothing_changes(make, sampled, beams):
    kept, out, without = generated(make(), num_beams=beams, do_sample=sampled)
    assert torch.equal(out.sequences, without.sequences)
    for step, scores in zip(kept.steps, out.scores, strict=True):
        best = scores.topk(step.labels.shape[1], -1)
        np.testing.assert_array_equal(step.scores, best.values)
        np.testing.assert_array_equal(scores.gather(1, torch.as_tensor(step.labels).long()), best.values)


def test_without_beams_the_taken_labels_have_their_scores():
    kept, out, _ = generated(_gpt2(), do_sample=True)
    for i, (step, scores) in enumerate(zip(kept.steps, out.scores, strict=True)):
        taken = out.sequences[:, 4 + i]
        np.testing.assert_array_equal(step.taken, taken)
        np.testing.assert_array_equal(step.taken_scores, scores.gather(1, taken[:, None])[:, 0])
        logs = scores.log_softmax(-1)
        np.testing.assert_allclose(step.log_total, scores.logsumexp(-1), rtol=1e-6)
        np.testing.assert_allclose(step.entropy, -(logs.exp() * logs).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("sampled", [False, True])
def test_with_beams_the_taken_labels_lead_to_the_result(sampled):
    kept, out, _ = generated(_t5(), num_beams=3, do_sample=sampled)
    for rows, row in zip(out.beam_indices.tolist(), out.sequences[:, 1:].tolist(), strict=True):
        for step, (parent, now) in enumerate(itertools.pairwise(rows)):
            if now >= 0:
                assert (kept.steps[step].parents[now], kept.steps[step].taken[now]) == (parent, row[step])


@pytest.mark.parametrize("sampled", [False, True])
def test_what_is_kept_is_small(sampled):
    kept = KeptScores(beams=5, most=18, sampled=sampled)
    kept(torch.zeros(40, 1, dtype=torch.long), torch.randn(40, 5000))
    kept(torch.zeros(40, 2, dtype=torch.long), torch.randn(40, 5000))
    assert 200 * kept.steps[0].nbytes < 2e6
    assert not [value for value in vars(kept).values() if isinstance(value, torch.Tensor) and value.numel() > 100]
