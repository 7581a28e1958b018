"""Attention around `generate`: that of `output_attentions`, with rows that follow the hypotheses it returned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from tests.outside.library_loops import _bart, _gpt2, _t5

pytest.importorskip("transformers")
IDS = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 3, 11, 12]])


def random_model(make, seed):
    torch.manual_seed(seed)
    model = make()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model


def row_of(out, sequence, step, returned):
    """The row of the batch at a step that gave the label of a returned sequence."""
    return sequence if returned == "each" else int(out.beam_indices[sequence, step])


def expected(out, attentions, sequence, prompt, count, *, is_self):
    """The rows of all layers and heads for a returned sequence. [layers, heads, rows, columns]"""
    steps = []
    for step, layers in enumerate(attentions[: count - prompt]):
        row = row_of(out, sequence, step, "beam" if getattr(out, "beam_indices", None) is not None else "each")
        weights = np.stack([layer[row].numpy() for layer in layers])
        new = weights[:, :, -1:] if step else weights
        width = count - 1 if is_self else new.shape[-1]
        steps.append(np.pad(new, [(0, 0)] * 3 + [(0, width - new.shape[-1])]))
    return np.concatenate(steps, 2)


SETTINGS = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "several": {"num_beams": 4, "num_return_sequences": 3, "early_stopping": True},
    "short": {"num_beams": 3, "length_penalty": -2.0, "early_stopping": True},
    "long": {"num_beams": 3, "length_penalty": 2.0},
    "sampled": {"do_sample": True, "num_return_sequences": 2},
    "without_cache": {"num_beams": 3, "use_cache": False},
    "one_step": {"max_new_tokens": 1},
}


@pytest.mark.parametrize("make", [_t5, _bart, _gpt2])
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_matrix_is_what_the_model_gave_for_its_hypothesis(setting, make):
    lengths, moves = set(), 0
    for seed in range(4):
        model, ends = random_model(make, seed), [*range(3 + seed, 40, 5)]
        mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5]) if make is _gpt2 else torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
        given = {"max_new_tokens": 7, "no_repeat_ngram_size": 1, "eos_token_id": ends, "pad_token_id": 0, "attention_mask": mask} | SETTINGS[setting]
        model.set_attn_implementation("eager")
        torch.manual_seed(seed)
        out = model.generate(IDS, output_attentions=True, return_dict_in_generate=True, output_scores=True, **given)
        model.set_attn_implementation("sdpa" if seed % 2 else "eager")
        torch.manual_seed(seed)
        with rf.capture(model) as seen:
            same = model.generate(IDS, **given)
        assert torch.equal(same, out.sequences)
        moves += sum(len({*row} - {-1}) > 1 for row in getattr(out, "beam_indices", torch.zeros(0, 0)).tolist())
        prompt = 5 if make is _gpt2 else 1
        kinds = [("SelfAttention", "decoder"), ("EncDecAttention", "cross")] if make is _t5 else [
            ("self_attn", "decoder"), ("encoder_attn", "cross")]  # fmt: skip
        kinds = [("attn", None)] if make is _gpt2 else kinds
        for name, kind in kinds:
            items = [each for each in seen if each.name.endswith(name) and "encoder." not in each.name]
            assert len(items) == 2
            truth = out.attentions if kind is None else getattr(out, f"{kind}_attentions")
            for number, sequence in enumerate(out.sequences.tolist()):
                ended = [i + 1 for i, label in enumerate(sequence) if i >= prompt and label in ends]
                count = min([*ended, len(sequence)])
                lengths.add(count)
                source = number * 2 // len(out.sequences)
                wanted = expected(out, truth, number, prompt, count, is_self=kind != "cross")
                before = 2 if make is _gpt2 and source == 0 else 0  # padding on the left
                cols = wanted.shape[-1] - 2 if kind == "cross" and source == 1 else wanted.shape[-1]
                for layer, item in enumerate(items):
                    found = item.weights.raw_tensor[number, :, : count - 1 - before, : cols - before].numpy()
                    np.testing.assert_allclose(found, wanted[layer][:, before:, before:cols], atol=2e-5)
                    labels = item.labels[0][number]
                    shift = 1 if kind == "cross" else 0
                    assert labels == sequence[before + shift : count - 1 + shift]
                    sides = IDS[source][mask[source] == 1].tolist() if kind == "cross" else labels
                    assert item.labels[1][number] == sides
    assert setting == "one_step" or (len(lengths) > 1 and (moves > 0 or setting in ("greedy", "sampled", "short")))
