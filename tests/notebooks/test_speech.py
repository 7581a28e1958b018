"""The model of `notebooks/speech.py`, its sentences, its training, and what the notebook says of its weights."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import rfnb as rf
import speech
import speech_data
from speech_data import RATE, Spoken, Utterance
from tests.notebooks.cells import ran

SMALL = {"size": 16, "layers": 1, "heads": 2, "dropout": 0.0}
FEW = {"train": 40, "dev": 5, "test": 5}


@pytest.fixture(scope="module")
def examples() -> list[Spoken]:
    return speech_data.examples()


def seeded(**options) -> speech.Model:
    rf.set_random_seed(1)
    return speech.Model(**{**SMALL, **options})


# -- the sentences


def test_no_sentence_and_no_voice_of_the_test_is_in_the_training():
    said = speech_data.utterances()
    assert {part: len(some) for part, some in said.items()} == speech_data.COUNTS
    for of in (lambda one: one.text, lambda one: one.speaker):
        train, dev, test = ({of(one) for one in said[part]} for part in ("train", "dev", "test"))
        assert not (train & dev or train & test or dev & test)
    words = {word for one in said["train"] for word in one.text.split()}
    assert {word for one in said["test"] for word in one.text.split()} <= words


def test_sentences_and_voices_are_the_same_each_time():
    assert speech_data.utterances(FEW) == speech_data.utterances(FEW)
    first = speech_data.utterances()["train"][0]
    assert first == Utterance("what is forty two plus six", "en-us", "m2", speed=140, pitch=48)


def test_another_rate_keeps_what_is_heard():
    times = np.arange(22050) / 22050
    low, high = (np.sin(2 * np.pi * hertz * times) for hertz in (1_000, 7_000))
    kept = speech_data.resampled(low + high, 22050)
    np.testing.assert_allclose(kept, np.sin(2 * np.pi * 1_000 * np.arange(RATE) / RATE), atol=0.02)


def test_files_keep_the_sounds(tmp_path):
    said = speech_data.utterances(FEW)["dev"]
    sounds = [np.sin(np.arange(100 + i) / 3).astype("float32") for i in range(len(said))]
    np.savez(tmp_path / "x.npz", **speech_data.as_arrays({"dev": [*map(Spoken, said, sounds)]}))
    for one, utterance, sound in zip(speech_data.read(tmp_path / "x.npz", "dev", said), said, sounds, strict=True):
        assert one.said == utterance
        np.testing.assert_allclose(one.sound, sound, atol=1e-4)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed, which speaks the words")
def test_what_is_spoken_is_the_same_each_time_and_faster_on_demand(examples):
    said = examples[1].said
    [once], [again] = speech_data.spoken([said]), speech_data.spoken([said])
    np.testing.assert_array_equal(once.sound, again.sound)
    assert abs(once.sound).max() > 0.2 and 1 < len(once.sound) / RATE < 3
    [faster] = speech_data.spoken([said._replace(speed=2 * said.speed)])
    assert len(faster.sound) < 0.8 * len(once.sound)


# -- the model


def test_the_loss_of_a_sentence_is_the_same_in_a_batch_and_alone(examples):
    model = seeded()
    together = model(speech.sounds_of(examples), speech.texts_of(examples)).raw_tensor
    alone = [model(speech.sounds_of([one]), speech.texts_of([one])).raw_tensor for one in examples]
    torch.testing.assert_close(together, torch.cat(alone))
    with torch.no_grad():
        assert rf.check.batch_invariance(lambda sounds: model.encode(sounds)[0], speech.sounds_of(examples[:3]))


def test_probabilities_of_the_words_add_up_to_one(tmp_path):
    texts = ["a b a", "b b", "a c b a"]
    (tmp_path / "lm.arpa").write_text(speech.arpa([text.split() for text in texts]))
    word, beam = rf.Dim(4, name="word", vocab=["</s>", "a", "b", "c"]), rf.Dim(1, name="beam")
    lm = rf.search.NGram(tmp_path / "lm.arpa", word)
    state, scores = lm.initial_state(batch_dims=[beam]), []
    for label in [0, 1, 3, 2, 1, 1]:  # the first one does not count; "a a" never occurs
        found, state = lm.score(rf.convert_to_tensor([label], dims=[beam], sparse_dim=word), state)
        scores.append(found.raw_tensor[0])
    totals = torch.stack(scores).exp().sum(-1)
    torch.testing.assert_close(totals, torch.ones(6), atol=2e-3, rtol=0)
    seen, rest = 2 / 3, 4 / 12  # of the three texts, two begin with a; of the twelve words and ends, four are a
    assert scores[0][1].exp().item() == pytest.approx(3 / 5 * seen + 2 / 5 * rest, abs=1e-3)


def test_a_varied_sentence_is_faster_or_slower(examples):
    chance = np.random.default_rng(1)
    lengths = [len(speech.varied(examples[0], chance).sound) / len(examples[0].sound) for _ in range(50)]
    assert 0.85 < min(lengths) < 0.9 and 1.1 < max(lengths) < 1.17


@pytest.mark.slow
def test_a_short_training_lowers_the_loss(examples):
    def loss() -> float:
        return model(speech.sounds_of(examples), speech.texts_of(examples)).raw_tensor.mean().item()

    model = seeded()
    before = loss()
    [check] = speech.train(model, {"train": examples, "dev": examples[:2]}, steps=50, checks=1, batch=5, rate=1e-2)
    assert check.steps == 50 and loss() < before - 0.6


def test_a_joint_search_has_the_parts_of_all_models(examples):
    model = speech.load()[0]
    found = speech.search(model, examples[:3], words=0.3)
    for tree in found.tree:
        parts = tree.best.parts
        total = 0.7 * parts["attention"] + 0.3 * parts["ctc"] + 0.3 * parts["words"]
        assert tree.best.score == pytest.approx(total, abs=1e-3)


# -- the files


def test_the_weights_are_small_and_as_good_as_they_say():
    sizes = {file.name: file.stat().st_size for file in speech_data.FOLDER.iterdir()}
    assert sizes["speech.safetensors"] < 1_000_000 and sizes["examples.npz"] < 300_000 and len(sizes) == 2
    _, history, rates = speech.load()
    assert history[-1].minutes < 15.5 and rates["attention, CTC and words, beam 8"] <= 5


# -- the notebook


@pytest.fixture(scope="module")
def names():
    """The names that the cells define, and the results of the cells by id."""
    with ran("09_speech.ipynb") as names:
        yield names


@pytest.mark.slow
def test_all_three_models_hear_more_than_attention_alone(names):
    rates = names["rates"]
    greedy, beam, ctc, words = (rates[name] for name in speech.SETTINGS)
    assert words < ctc < min(greedy, beam)
    report = names["cell report-is"]
    assert report["all three"].error_rate < 0.15 < report["attention"].error_rate


@pytest.mark.slow
def test_padding_is_found_as_the_cause_of_errors_in_a_batch(names):
    assert speech.word_error_rate(names["apart"]) < 15 and speech.word_error_rate(names["together"]) > 30
    found = names["cell check-careless"]
    assert not found and found.first.event.op == "mean" and "padding affects the result" in str(found)
    assert names["cell check-model"]


@pytest.mark.slow
def test_the_sound_is_in_the_view_of_attention(names):
    view = names["cell attention-is"]
    assert "1.2 s of sound" in view.text and '<audio controls src="data:audio/wav;base64,' in view.html
    assert view.data["cols"][:3] == ["0", "0.03", "0.06"] and view.data["rows"][-1] == "</s>"
