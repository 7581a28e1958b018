"""The model of `notebooks/g2p.py`: its loops, its training alone and in two processes, its checkpoint.

That the notebook runs is tested by `test_run_all`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional

import g2p
import g2p_data
import rfnb as rf
from rfnb import batch_dim
from tests.torchrun import run_in_two_processes

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "notebooks" / "data" / "g2p_large.safetensors"
PER_BAR = 7.0
"""Percent of the phonemes of 300 dev words that may be wrong."""

pytestmark = pytest.mark.filterwarnings("ignore:decoder.*never true:rfnb.errors.LoopWarning")  # hardly trained
TINY = {"vec": 5, "encoder": 6, "layers": 2, "decoder": 7, "key": 4, "deep": 3, "dropout": 0.2}
WORDS = ["knight", "i", "alphabet", "o'clock", "thoroughly", "a"]
PAIRS = [("knight", ["N", "AY", "T"]), ("i", ["AY"]), ("alphabet", ["AE", "L", "F", "AH", "B", "EH", "T"])]


@pytest.fixture(scope="module")
def data() -> g2p_data.Split:
    """Few words of the dictionary."""
    whole = g2p_data.load()
    return {"train": whole["train"][::400], "dev": dict(list(whole["dev"].items())[::100]), "test": {}}


@pytest.fixture(scope="module")
def trained() -> g2p.Model:
    """The model of the checkpoint."""
    return g2p.load(CHECKPOINT)[0]


def batch_of(pairs):
    return next(g2p.batches_without_end(pairs, size=len(pairs), seed=1))


def weights(model: rf.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.raw_tensor.detach().clone() for name, parameter in model.named_parameters()}


def seeded(**options) -> g2p.Model:
    rf.set_random_seed(1)
    return g2p.Model(**{**TINY, **options})


# -- the loops


def test_the_loss_is_that_of_a_plain_loop_over_the_phones_of_each_word():
    model = seeded()
    losses = torch.cat([plain_losses(model, *pair) for pair in PAIRS])
    torch.testing.assert_close(model(batch_of(PAIRS)).raw_tensor, losses.mean())


def test_words_in_a_batch_are_decoded_as_one_at_a_time(trained):
    alone = [trained.pronounce([word])[word] for word in WORDS]
    assert list(trained.pronounce(WORDS).values()) == alone


def test_decoding_takes_the_phone_that_the_loss_finds_best(trained):
    for word, phones in trained.pronounce(WORDS).items():
        scores = plain_scores(trained, word, phones)
        best = [g2p.phone.vocab.decode(int(i)) for i in scores.argmax(-1)]
        assert best == [*phones, g2p.END]


def test_answers_with_a_beam_are_those_of_the_beam(trained):
    greedy, beam = (g2p.answers(trained, [*WORDS, "islet"], size) for size in (1, 4))
    assert greedy["islet"][0] == "IH" and beam["islet"] == "AY L IH T".split()
    assert beam == trained.pronounce([*WORDS, "islet"], 4)


def test_a_step_takes_more_dims_than_the_batch():
    """As a beam has them."""
    model, beam = seeded(), rf.Dim(3, name="beam")
    decoder, encoded = model.decoder, model.encoder(batch_of(PAIRS)["letters"])
    keys = decoder.attention.key(encoded)
    prev = rf.random_normal([batch_dim, beam, decoder.phone_vec])
    state = decoder.default_initial_state(batch_dims=[batch_dim, beam])
    h, state = decoder.step(prev, state, encoded, keys)
    assert set(h.dims) == {batch_dim, beam, decoder.hidden}
    for i in range(3):
        alone = decoder.default_initial_state(batch_dims=[batch_dim])
        expected, after = decoder.step(rf.gather(prev, indices=i, axis=beam), alone, encoded, keys)
        same(rf.gather(h, indices=i, axis=beam), expected)
        same(rf.gather(state.context, indices=i, axis=beam), after.context)


def same(a, b):
    torch.testing.assert_close(a.copy_transpose(b.dims).raw_tensor, b.raw_tensor)


# -- training


@pytest.mark.slow
def test_training_lowers_the_loss(data):
    model = seeded(dropout=0.0)
    before = model(batch_of(data["train"])).raw_tensor.item()
    [check] = g2p.train(model, data, steps=100, checks=1, rate=0.05, batch=32)
    assert check.steps == 100
    assert model(batch_of(data["train"])).raw_tensor.item() < before - 0.2


def test_the_same_seed_gives_the_same_weights_bit_for_bit(data):
    runs = []
    for seed in (1, 1, 2):
        model = seeded()
        g2p.train(model, data, steps=6, checks=1, batch=32, seed=seed)
        runs.append(weights(model))
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert not all(torch.equal(runs[0][name], runs[2][name]) for name in runs[0])


@pytest.mark.slow
def test_training_ends_when_the_cpu_time_is_over(data):
    checks = g2p.train(seeded(), data, minutes=1 / 60, checks=2, batch=8)
    assert 0.5 / 60 <= checks[0].minutes <= checks[-1].minutes
    assert 1 / 60 <= checks[-1].minutes < 10 / 60


def test_dropout_is_on_in_training_only():
    model, batch = seeded(dropout=0.5), batch_of(PAIRS)
    assert model(batch).item() == model(batch).item()
    with rf.get_run_ctx().train_flag_ctx(True):
        assert model(batch).item() != model(batch).item()


# -- processes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_share_each_batch(data, monkeypatch, count):
    shares = []
    for number in range(count):
        monkeypatch.setattr(g2p, "process", lambda number=number: number)
        monkeypatch.setattr(g2p, "processes", lambda: count)
        shares.append(list(g2p.SimilarLengths(data["train"], 32, seed=1)))
    assert len({len(share) for share in shares}) == 1
    assert all(batch for share in shares for batch in share)
    seen = sorted(i for share in shares for batch in share for i in batch)
    assert len(set(seen)) == len(seen)
    assert len(data["train"]) - len(seen) < count


WORKER = """
import sys
from pathlib import Path

import torch

import g2p, g2p_data, rfnb as rf

whole = g2p_data.load()
few = {part: dict(list(whole[part].items())[::100]) for part in ("dev", "test")}
g2p_data.load = lambda: {"train": whole["train"][::100], **few}
g2p.SIZES["small"] |= {"encoder": 6, "decoder": 7}


def save(model, file, size, history, saved=g2p.save):
    saved(model, file, size, history)
    folder, number = Path(file).parent, g2p.process()
    torch.save(rf.to_torch(model).state_dict(), folder / f"{number}.pt")
    batch = next(g2p.batches_without_end(whole["train"][:100], 8, seed=1))
    (folder / f"{number}.txt").write_text(" ".join(batch["letters"].size_of(batch_dim).tags))


batch_dim = rf.batch_dim
g2p.save = save
g2p.main()
"""


@pytest.mark.slow
def test_two_processes_of_torchrun_end_with_the_same_weights(python, tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    file = tmp_path / "model.safetensors"
    options = ["--steps", "6", "--checks", "2", "--batch", "32", "--save", file]
    printed = run_in_two_processes(python, tmp_path / "worker.py", *options, paths=(ROOT / "notebooks",), timeout=300)
    assert printed.count("part   words") == 1
    first, second = (torch.load(tmp_path / f"{number}.pt") for number in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert file.exists()


# -- files


@pytest.mark.slow
def test_the_checkpoint_is_small_and_right_on_held_out_words(trained):
    assert CHECKPOINT.stat().st_size <= 3_000_000
    references = g2p_data.load()["dev"]
    words = list(references)[::8][:300]
    per, _ = g2p_data.error_rates(g2p.answers(trained, words), references)
    assert per < PER_BAR


def test_the_checkpoint_has_the_history_of_its_training():
    _, history = g2p.load(CHECKPOINT)
    assert [check.minutes for check in history] == sorted(check.minutes for check in history)
    assert history[-1].per < history[0].per


def test_a_model_is_loaded_as_it_went_on_after_it_was_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(g2p.SIZES, "tiny", TINY)
    model, history = seeded(), [g2p.Check(0.5, 10, 3.25, 50.0, 100.0)]
    g2p.save(model, tmp_path / "model.safetensors", "tiny", history)
    again, told = g2p.load(tmp_path / "model.safetensors")
    assert told == history
    expected = weights(model)
    assert all(torch.equal(value, expected[name]) for name, value in weights(again).items())
    assert {value.dtype for value in expected.values()} == {torch.float32}


# -- the same in plain torch, one word at a time


def plain_losses(model: g2p.Model, word: str, phones: list[str]) -> torch.Tensor:
    """One for each phone and for the end."""
    targets = torch.tensor(g2p.phone.vocab.encode([*phones, g2p.END]))
    size = g2p.phone.dimension
    smooth = torch.full((len(targets), size), 0.1 / (size - 1)).scatter(1, targets[:, None], 0.9)
    return -(smooth * plain_scores(model, word, phones).log_softmax(-1)).sum(-1)


def plain_scores(model: g2p.Model, word: str, phones: list[str]) -> torch.Tensor:
    """[len(phones) + 1, phone], with these phones as those before."""
    w = {name: parameter.raw_tensor for name, parameter in model.named_parameters()}
    encoded = w["encoder.embedding.weight"][g2p.letter.vocab.encode(word)]
    for layer in ("encoder.layers.0", "encoder.layers.1"):
        left = plain_lstm(w, f"{layer}.forth", encoded)
        right = plain_lstm(w, f"{layer}.back", encoded.flip(0)).flip(0)
        encoded = torch.cat([left, right], -1)
    keys = functional.linear(encoded, w["decoder.attention.key.weight"].t(), w["decoder.attention.key.bias"])
    size = w["decoder.lstm.rec_weight"].shape[1]
    h, c, context, scores = torch.zeros(size), torch.zeros(size), torch.zeros(encoded.shape[1]), []
    for prev in [g2p.end, *g2p.phone.vocab.encode(phones)]:
        x = torch.cat([w["decoder.embedding.weight"][prev], context])
        h, c = plain_lstm_step(w, "decoder.lstm", x, h, c)
        energy = torch.tanh(keys + h @ w["decoder.attention.query.weight"]) @ w["decoder.attention.energy.weight"]
        context = energy[:, 0].softmax(0) @ encoded
        deep = torch.tanh(torch.cat([h, context]) @ w["decoder.deep.weight"] + w["decoder.deep.bias"])
        scores.append(deep @ w["decoder.readout.weight"] + w["decoder.readout.bias"])
    return torch.stack(scores)


def plain_lstm(w, name: str, xs: torch.Tensor) -> torch.Tensor:
    h = c = torch.zeros(w[f"{name}.rec_weight"].shape[1])
    outputs = []
    for x in xs:
        h, c = plain_lstm_step(w, name, x, h, c)
        outputs.append(h)
    return torch.stack(outputs)


def plain_lstm_step(w, name: str, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
    gates = w[f"{name}.ff_weight"] @ x + w[f"{name}.rec_weight"] @ h + w.get(f"{name}.bias", torch.zeros(()))
    into, keep, new, out = gates.chunk(4)
    c = keep.sigmoid() * c + into.sigmoid() * new.tanh()
    return out.sigmoid() * c.tanh(), c
