"""Searches of `generate` that are captured, whoever calls it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import SearchError, ViewError
from tests.outside.library_loops import _bart, _gpt2
from tests.trace.capture.test_steps import IDS, random_model

transformers = pytest.importorskip("transformers")
SETTINGS = {
    "beams": {"num_beams": 3, "length_penalty": 0.5},
    "several": {"num_beams": 4, "num_return_sequences": 2, "early_stopping": True},
    "greedy": {"repetition_penalty": 1.5},
    "sampled": {"do_sample": True, "top_k": 12, "temperature": 1.3},
}


@pytest.mark.parametrize("make", [_bart, _gpt2])
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_result_is_the_same_and_the_search_that_of_scores(setting, make):
    for seed in range(3):
        model = random_model(make, seed)
        given = {"max_new_tokens": 6, "eos_token_id": [3, 9, 20], "pad_token_id": 0, **SETTINGS[setting]}
        torch.manual_seed(seed)
        out = model.generate(IDS, output_scores=True, return_dict_in_generate=True, **given)
        torch.manual_seed(seed)
        before = dict(vars(model))
        with rf.capture(model, search=True, attention=True) as seen:
            same = model.generate(IDS, **given)
        assert torch.equal(same, out.sequences) and vars(model) == before
        [captured], expected = seen.search, rf.search.from_generate(out, None, model.generation_config, **given)
        assert len(captured.tree) == len(expected.tree) == 2
        for tree, wanted in zip(captured.tree, expected.tree, strict=True):
            assert [tuple(each.labels) for each in tree.hypotheses] == [
                tuple(each.labels) for each in wanted.hypotheses
            ]
            scores, others = ([each.score for each in one.hypotheses] for one in (tree, wanted))
            np.testing.assert_allclose(scores, others, rtol=1e-4, atol=1e-5)
        assert len(seen) > 0 and not any("#" in name for name in seen.names())


def test_attention_to_labels_and_source_at_once_is_one_matrix_per_step():
    sizes = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
    text = {**sizes, "num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["full_attention"]}
    image = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    encoder = {"text_config": text, "vision_config": {**image, "image_size": 8, "patch_size": 4}}
    config = transformers.T5Gemma2Config(encoder=encoder, decoder=text, image_token_index=39)
    model = transformers.T5Gemma2ForConditionalGeneration(config).eval()
    given = {"max_new_tokens": 3, "num_beams": 2, "decoder_start_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}
    out = model.generate(IDS, **given)
    with rf.capture(model, search=True, attention=True) as seen:
        assert torch.equal(model.generate(IDS, **given), out)
    (_, source) = IDS.shape
    in_decoder = [item.shape for item in seen if "decoder" in item.name]
    assert in_decoder == [(1, source + 1, 2), (1, source + 2, 2), (1, source + 3, 2)]


def test_a_pipeline_gets_the_same_and_its_search_has_words():
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"w{i}": i for i in range(40)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w0", eos_token="w2")
    model = random_model(_gpt2, 0)
    pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
    given = {"num_beams": 3, "max_new_tokens": 5, "do_sample": False}
    plain = pipe("w5 w6 w7", **given)
    with rf.capture(model, search=True, attention=False) as seen:
        assert pipe("w5 w6 w7", **given) == plain
        pipe("w8", **given)
    assert len(seen.search) == 2 and len(seen) == 0
    shown = rf.show(seen.search[0], tokenizer=tokenizer)
    best = seen.search[0].tree[0].hypotheses[0]
    ids = model.generate(torch.tensor([[5, 6, 7]]), **given, eos_token_id=2, pad_token_id=0)
    assert list(best.labels) == ids[0, 3:].tolist()
    assert all(f"w{i}" in shown.text for i in best.labels) and "w7" in shown.html
    assert rf.show(seen.search[0].tree[0], tokenizer=tokenizer).data["columns"]
    assert seen.search[-1] is seen.search[1] and seen.search[:1] == [seen.search[0]]


def test_what_cannot_be_made_again_is_an_error_when_it_is_read():
    model, assistant = random_model(_gpt2, 0), random_model(_gpt2, 1)
    given = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    plain = model.generate(IDS[:1], assistant_model=assistant, **given)
    with rf.capture(model, search=True) as seen:
        assert torch.equal(model.generate(IDS[:1], assistant_model=assistant, **given), plain)
    with pytest.raises(SearchError, match="assist"):
        _ = seen.search[0]
    with pytest.raises(ViewError, match="no such search"):
        _ = seen.search[1]
    with rf.capture(model) as nothing:
        pass
    with pytest.raises(ViewError, match="search=True"):
        _ = nothing.search[0]
    with pytest.raises(ViewError, match="nothing is to be captured"), rf.capture(model, attention=False):
        pass
    with pytest.raises(RuntimeError, match="mine"), rf.capture(model, search=True) as seen:
        model.generate(IDS, logits_processor=[fail], **given)
    assert len(seen.search) == 0 and "prepare_inputs_for_generation" not in vars(model)


def fail(labels, scores):
    raise RuntimeError("mine")


def test_a_large_vocabulary_keeps_the_best_candidates_only():
    config = transformers.GPT2Config(n_embd=8, n_head=1, n_layer=1, vocab_size=50_000, bos_token_id=1, eos_token_id=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    with rf.capture(model, search=True, attention=False) as seen:
        model.generate(torch.full((8, 2), 5), num_beams=5, max_new_tokens=5, pad_token_id=0, eos_token_id=None)
    [kept] = seen.search.kept
    held = sum(step.nbytes for step in kept.processor.steps) + kept.sequences.nbytes
    assert held < 40e6 / 200 * 5 / 10  # a tenth of 40 MB for 200 steps
