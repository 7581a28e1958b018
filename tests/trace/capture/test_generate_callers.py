"""`generate` called by others: a Trainer that predicts, and a pipeline for speech with time stamps."""

import copy
import os

import numpy as np
import pytest
import torch
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
    pipeline,
)

import rfnb as rf
from tests.search.generate.models import make_model


def test_searches_of_a_trainer_that_predicts_are_kept(tmp_path):
    model = copy.deepcopy(make_model("t5"))
    pairs = [((5, 6, 7, 8), (4, 5, 2)), ((9, 4, 3, 11), (7, 2)), ((8, 8, 5, 6), (4, 2))]
    data = [{"input_ids": ids, "attention_mask": [1] * 4, "labels": [*labels, -100][:3]} for ids, labels in pairs]
    data = [{name: torch.tensor(value) for name, value in row.items()} for row in data]
    options = {"predict_with_generate": True, "generation_max_length": 8, "generation_num_beams": 3, "use_cpu": True}
    arguments = Seq2SeqTrainingArguments(
        os.fspath(tmp_path), **options, per_device_eval_batch_size=2, report_to=[], disable_tqdm=True
    )
    trainer = Seq2SeqTrainer(model=model, args=arguments, eval_dataset=data)
    expected = trainer.predict(data).predictions
    with rf.capture(model, search=True, attention=True) as seen:
        predictions = trainer.predict(data).predictions
    np.testing.assert_array_equal(predictions, expected)
    trees = [tree for found in seen.search for tree in found.tree]
    assert len(seen.search) == 2 and len(trees) == len(predictions)
    for tree, row in zip(trees, predictions, strict=True):
        labels = tree.best.labels
        assert tuple(row[1 : 1 + len(labels)]) == labels
    assert rf.show_attention(seen, batch=1).data["cols"] == ["9", "4", "3", "11"]


@pytest.fixture
def speech():
    """A pipeline of tiny random weights, whose labels are letters and time stamps."""
    specials = ["<pad>", "<|startoftranscript|>", "<|endoftext|>", "<start>", "<|notimestamps|>"]
    labels = [*specials, *map(chr, range(97, 97 + 26))]
    labels += [f"<|{i * 0.02:.2f}|>" for i in range(51)]
    tokenizer = WhisperTokenizer(vocab={label: i for i, label in enumerate(labels)}, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": [label for label in labels if label[0] == "<"]})
    torch.manual_seed(3)
    sizes = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    config = WhisperConfig(
        vocab_size=len(labels), d_model=16, encoder_layers=1, decoder_layers=2, num_mel_bins=8,
        max_source_positions=50, max_target_positions=20, suppress_tokens=[], begin_suppress_tokens=[], **sizes, **ids,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval()
    model.proj_out.weight.data.mul_(9.0)
    model.generation_config.suppress_tokens = model.generation_config.begin_suppress_tokens = None
    model.generation_config.no_timestamps_token_id = 4
    features = WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    return pipeline("automatic-speech-recognition", model=model, feature_extractor=features, tokenizer=tokenizer)


def test_a_pipeline_for_speech_has_searches_with_time_stamps(speech):
    wave = np.random.default_rng(0).standard_normal(9000).astype(np.float32)
    options = {"return_timestamps": True, "generate_kwargs": {"num_beams": 3, "max_new_tokens": 8}}
    expected = speech(wave.copy(), **options)
    with rf.capture(speech.model, search=True, attention=True) as seen:
        assert speech(wave.copy(), **options) == expected
    features = speech.feature_extractor(wave, sampling_rate=16000, return_tensors="pt").input_features
    tree = seen.search[0].force(speech.model, speech.tokenizer, input_features=features).tree[0]
    labels = list(map(tree.label, tree.prefix(tree.steps - 1, tree.best.place)))
    stamps = [label for label in labels if label.startswith("<|0.")]
    assert labels[0] in stamps and stamps == sorted(stamps)
    [sums] = tree.trace.model.forced({0: [tree.prefix(tree.steps - 1, tree.best.place)]})[0]
    assert sums[-1] == pytest.approx(tree.best.sum, rel=1e-4)  # with the rules of time stamps
    view = rf.show_attention(seen, tokenizer=speech.tokenizer)
    assert view.data["rows"][: len(labels)] == labels and "encoder_attn" in view.text
