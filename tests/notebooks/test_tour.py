"""The tour's model: its loops against plain Python loops, its checkpoint, its error rate.

That the notebook runs is tested by `test_run_all`.
"""

from __future__ import annotations

import itertools
import json
import re

import make_checkpoint
import pytest
import torch

import rfnb as rf
import tour_cells
from rfnb import batch_dim

CELLS = json.loads(tour_cells.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
PER_BAR = 8.0
"""Percent of the phonemes of 300 dev words that may be wrong."""

WORDS = ["knight", "i", "alphabet", "o'clock", "thoroughly", "xylophone", "a"]
PAIRS = [("knight", ["N", "AY", "T"]), ("i", ["AY"]), ("alphabet", ["AE", "L", "F", "AH", "B", "EH", "T"])]

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def tour():
    """The names that the cells define, with the weights of the checkpoint."""
    names = make_checkpoint.namespace()
    rf.load_checkpoint(names["model"], make_checkpoint.CHECKPOINT)
    return names


def batch_of(tour, pairs):
    return tour["to_batch"]([tour["sample"](*pair) for pair in pairs])


# -- the notebook as a file


def test_cells_have_speaking_ids():
    ids = [cell["id"] for cell in CELLS]
    assert {"running-sum-loop", "training-loop", "decode", "attention"} <= set(ids)


# -- its parts


def parts() -> dict[str, list[str]]:
    """The code of the cells of each part, by the part's title."""
    found: dict[str, list[str]] = {}
    for cell in CELLS:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found[next(reversed(found))].append(text)
        elif text.startswith("## "):
            found[text.splitlines()[0].removeprefix("## ")] = []
    return {title: code for title, code in found.items() if code}


def test_the_table_of_contents_lists_the_parts_with_minutes():
    rows = re.findall(r"^\| \[(.*)\]\(#(.*)\) \| (\d+) \|", "".join(CELLS[0]["source"]), re.MULTILINE)
    assert [title for title, _, _ in rows] == list(parts())
    assert all(anchor == title.replace(" ", "-") for title, anchor, _ in rows)


@pytest.mark.slow
@pytest.mark.parametrize("title", parts())
def test_a_part_runs_alone(title, tmp_path, monkeypatch, capsys):
    (tmp_path / "data").symlink_to(tour_cells.HERE / "data")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    rf.runs.clear()
    with rf.recording("last"):
        for number, code in enumerate(parts()[title]):
            tour_cells.run(code, name=f"{title}, cell {number}", into=names)
    rf.runs.clear()
    assert ("Ran these cells" in capsys.readouterr().out) == (title != "A loop")


def test_a_part_keeps_what_was_changed_above_it(capsys):
    names = {name: None for cell in tour_cells.cells(["imports", "data"]) for name in defined(cell)}
    expected = dict(names)
    tour_cells.run_missing("imports", "data", into=names)
    assert names == expected
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_the_code_of_cells_that_were_run_for_a_part_is_shown(tour):
    with rf.recording("last"):
        tour["pronounce"](tour["model"], ["laugh"])
    source = rf.runs["decoder"].source
    assert source.file == "01_tour.ipynb, cell decode"
    assert "with loop:" in source.lines[0]
    rf.runs.clear()


def defined(cell) -> set[str]:
    return set(tour_cells.defined_names("".join(cell["source"])))


# -- the checkpoint


def test_the_checkpoint_fits_the_model_and_is_small(tour):
    report = rf.load_checkpoint(tour["Model"](), make_checkpoint.CHECKPOINT)
    assert not report.missing
    assert not report.unexpected
    assert make_checkpoint.CHECKPOINT.stat().st_size <= 2_000_000


def test_the_error_rate_on_held_out_words(tour):
    references = tour["data"]["dev"]
    words = list(references)[::8][:300]
    per, _ = tour["g2p_data"].error_rates(tour["pronounce"](tour["model"], words), references)
    assert len(words) == 300
    assert per < PER_BAR


# -- batches


def test_words_in_a_batch_are_decoded_as_one_at_a_time(tour):
    together = tour["pronounce"](tour["model"], WORDS)
    alone = [tour["pronounce"](tour["model"], [word])[word] for word in WORDS]
    assert list(together.values()) == alone


@pytest.mark.parametrize("junk", [0, 7])
def test_padding_changes_neither_loss_nor_gradients(tour, junk):
    batch = batch_of(tour, PAIRS)
    expected = loss_and_gradients(tour, batch)
    for name, dim in {"letters": tour["spelling"], "phones": tour["sounds"]}.items():
        for row, length in zip(batch[name].raw_tensor, batch[name].size_of(dim).values, strict=True):
            row[int(length) :] = junk
    for a, b in zip(loss_and_gradients(tour, batch), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_nan_behind_the_end_of_what_is_attended_to_changes_nothing(tour):
    """The encoder's output, as the loop of the decoder reads it."""
    encoder, decoder, spelling = tour["model"].encoder, tour["model"].decoder, tour["spelling"]
    batch = batch_of(tour, PAIRS)
    encoded = encoder(batch["letters"])
    h = rf.random_normal([batch_dim, tour["hidden"]])
    contexts = []
    for fill in (0.0, float("nan")):
        spoiled = encoded.copy_masked(fill)
        att = decoder.attend(h, decoder.key(spoiled))
        contexts.append(rf.dot(att, spoiled, reduce=spelling).raw_tensor)
    assert torch.isfinite(contexts[1]).all()
    torch.testing.assert_close(*contexts)


# -- the loops


def test_the_loss_and_its_gradients_are_those_of_a_plain_loop(tour):
    weights = {name: parameter.raw_tensor for name, parameter in tour["model"].named_parameters()}
    losses = [loss for word, phones in PAIRS for loss in plain_losses(tour, weights, word, phones)]
    expected = torch.stack(losses).mean()
    gradients = torch.autograd.grad(expected, list(weights.values()))
    for a, b in zip(loss_and_gradients(tour, batch_of(tour, PAIRS)), [expected, *gradients], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_decoding_is_a_plain_loop(tour):
    weights = {name: parameter.raw_tensor for name, parameter in tour["model"].named_parameters()}
    with torch.no_grad():
        expected = {word: plain_answer(tour, weights, word) for word in WORDS}
    assert tour["pronounce"](tour["model"], WORDS) == expected


def test_training_lowers_the_loss(tour, monkeypatch):
    monkeypatch.setitem(tour, "pairs", PAIRS * 20)
    model = tour["Model"]()
    losses = []
    for _ in range(2):
        losses.append(tour["training_loss"](model, batch_of(tour, PAIRS)).raw_tensor.item())
        assert tour["train"](model, 6, clock=itertools.count().__next__) == 5
    assert losses[1] < losses[0]


def loss_and_gradients(tour, batch):
    loss = tour["training_loss"](tour["model"], batch).raw_tensor
    return [loss, *torch.autograd.grad(loss, rf.torch_parameters(tour["model"]))]


# -- the same in plain torch, one word and one step at a time


def plain_losses(tour, w: Weights, word: str, phones: list[str]) -> list[torch.Tensor]:
    """One for each phone and for the end."""
    targets, losses, prev = tour["phone"].vocab.encode([*phones, tour["END"]]), [], tour["end"]
    step = plain_decoder(tour, w, word)
    for target in targets:
        log_probs = torch.log_softmax(step(prev), 0)
        smooth = torch.full_like(log_probs, 0.1 / (len(log_probs) - 1))
        smooth[target] = 0.9
        losses.append(-(smooth * log_probs).sum())
        prev = target
    return losses


def plain_answer(tour, w: Weights, word: str) -> list[str]:
    """The best phones, up to the end symbol."""
    step, prev, answer = plain_decoder(tour, w, word), tour["end"], []
    while len(answer) < 30:
        prev = int(step(prev).argmax())
        if prev == tour["end"]:
            break
        answer.append(tour["phone"].vocab.decode(prev))
    return answer


def plain_decoder(tour, w: Weights, word: str):
    """A function from the previous phone to the scores of the next."""
    encoded = plain_encoder(w, tour["letter"].vocab.encode(word))
    keys = linear(w, "decoder.key", encoded)
    size = w["decoder.lstm.rec_weight"].shape[1]
    h, c, context = torch.zeros(size), torch.zeros(size), torch.zeros(encoded.shape[1])

    def step(prev: int) -> torch.Tensor:
        nonlocal h, c, context
        h, c = lstm_step(w, "decoder.lstm", torch.cat([w["decoder.embedding.weight"][prev], context]), h, c)
        energy = linear(w, "decoder.energy", torch.tanh(keys + linear(w, "decoder.query", h)))
        context = torch.softmax(energy[:, 0], 0) @ encoded
        return linear(w, "decoder.readout", torch.tanh(linear(w, "decoder.deep", torch.cat([h, context]))))

    return step


def plain_encoder(w: Weights, letters: list[int]) -> torch.Tensor:
    vectors = list(w["encoder.embedding.weight"][letters])
    left = lstm_outputs(w, "encoder.forth", vectors)
    right = lstm_outputs(w, "encoder.back", vectors[::-1])[::-1]
    return torch.stack([torch.cat(pair) for pair in zip(left, right, strict=True)])


def lstm_outputs(w: Weights, name: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    h = c = torch.zeros(w[f"{name}.rec_weight"].shape[1])
    outputs = []
    for x in xs:
        h, c = lstm_step(w, name, x, h, c)
        outputs.append(h)
    return outputs


def lstm_step(w: Weights, name: str, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
    gates = w[f"{name}.ff_weight"] @ x + w[f"{name}.rec_weight"] @ h + w[f"{name}.bias"]
    into, keep, new, out = gates.chunk(4)
    c = keep.sigmoid() * c + into.sigmoid() * new.tanh()
    return out.sigmoid() * c.tanh(), c


def linear(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return x @ w[f"{name}.weight"] + w.get(f"{name}.bias", torch.zeros(()))
