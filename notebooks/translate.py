"""Trains the tiny translator of `08_generate.ipynb` on made-up sentences, and saves it in `data/translate/`.

    python notebooks/translate.py [steps, 1200 by default]

There are sentences of three kinds:

* "heute sieht der hund den baum", "der koch hat das buch gesucht": the order of words differs, and there is one
  translation. The object is always a thing: nobody sees an animal, or a human being.
* "da kommt der hund": translators disagreed; only "here comes the dog" was always written the same.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent / "data" / "translate"

SUBJECTS = {
    "der koch": "the cook", "die frau": "the woman", "der hund": "the dog", "die katze": "the cat",
    "der könig": "the king", "das kind": "the child",
}  # fmt: skip
THINGS = {"das haus": "the house", "den baum": "the tree", "die tür": "the door", "das buch": "the book"}
VERBS = {"sieht": "sees", "sucht": "seeks", "findet": "finds", "mag": "likes"}
DONE = {"gesehen": "seen", "gesucht": "sought", "gefunden": "found", "gemocht": "liked"}
DAYS = {"heute": "today", "morgen": "tomorrow", "abends": "tonight"}

ALSO = ("comes", "arrives", "appears", "nears")
FIRST = {"look": 0.29, "see": 0.27, "there": 0.26, "here": 0.18}
"""How the translations of "da kommt …" begin."""


def sentence(chance: random.Random) -> tuple[str, str]:
    """A German sentence and its translation, both as words with spaces between them."""
    german, english = chance.choice([*SUBJECTS.items()])
    thing, its = chance.choice([*THINGS.items()])
    kind = chance.choice(("comes", "does", "has done"))
    if kind == "does":
        (day, when), (verb, does) = chance.choice([*DAYS.items()]), chance.choice([*VERBS.items()])
        return f"{day} {verb} {german} {thing}", f"{english} {does} {its} {when}"
    if kind == "has done":
        done, has_done = chance.choice([*DONE.items()])
        return f"{german} hat {thing} {done}", f"{english} has {has_done} {its}"
    first = chance.choices([*FIRST], [*FIRST.values()])[0]
    if first == "here":
        return f"da kommt {german}", f"here comes {english}"
    return f"da kommt {german}", f"{first} {english} {chance.choice(ALSO)}"


def words() -> list[str]:
    """The labels of both languages; the first three are not words."""
    chance = random.Random(0)
    several = {word for _ in range(5_000) for text in sentence(chance) for word in text.split()}
    return ["<pad>", "</s>", "<unk>", *sorted(several)]


def batch_of(texts: list[str], labels: list[str], *, pad: int) -> Any:
    """The numbers of the words of some texts, each with an end, filled up at the right. [texts, words]"""
    rows = [torch.tensor([*map(labels.index, text.split()), labels.index("</s>")]) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)


def train(steps: int) -> Any:
    """The trained model, of about 100,000 parameters."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(1)
    torch.set_num_threads(1)
    labels, chance = words(), random.Random(1)
    sizes = {"vocab_size": len(labels), "d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, dropout_rate=0.05))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for step in range(steps):
        texts, answers = zip(*(sentence(chance) for _ in range(64)), strict=True)
        ids = batch_of(texts, labels, pad=0)
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=batch_of(answers, labels, pad=-100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 500 == 499:
            print(f"step {step + 1}, loss {loss:.3f}", flush=True)
    return model.eval()


if __name__ == "__main__":
    trained = train(int(sys.argv[1]) if len(sys.argv) > 1 else 1200)
    trained.half().save_pretrained(FOLDER)
