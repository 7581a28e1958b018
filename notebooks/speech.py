"""Speech to text: a Conformer with CTC and a decoder with attention, for the sentences of `speech_data.py`.

    python notebooks/speech.py                  5 minutes of CPU time, after the sentences were spoken
    python notebooks/speech.py --minutes 15 --save long.safetensors

`data/speech/speech.safetensors` is what the first command saved. The command needs eSpeak NG; the weights do not.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

import rfnb as rf
import speech_data
from rfnb import Dim, Tensor, batch_dim
from speech_data import RATE, Spoken

FILE = speech_data.FOLDER / "speech.safetensors"
LETTERS = sorted({letter for text in speech_data.sentences()["train"] for letter in text if letter != " "})
letter = Dim(2 + len(LETTERS), name="letter", vocab=["</s>", "▁", *LETTERS])
END, BLANK = 0, letter.dimension
with_blank = Dim(letter.dimension + 1, name="letter or blank", vocab=[*letter.vocab.labels, "<blank>"])
mel = Dim(40, name="mel")

samples = Dim(None, name="samples")
spelling = Dim(None, name="spelling")


# -- the model


class Model(rf.Module):
    """Log-mel features, a Conformer with a frame for each 30 ms, the letters by CTC and by a decoder with attention."""

    def __init__(self, *, size: int = 72, layers: int = 3, heads: int = 4, dropout: float = 0.1):
        model = Dim(size, name="model")
        frontend = rf.ConformerConvSubsample(
            mel, out_dims=[16, 16], filter_sizes=[3, 3], strides=[(3, 2), (1, 2)], activation=rf.silu
        )
        options = {"ff_dim": 4 * size, "dropout": dropout, "att_dropout": dropout, "num_heads": heads}
        self.encoder = rf.ConformerEncoder(
            mel, model, num_layers=layers, input_layer=frontend, conv_kernel_size=9, input_dropout=dropout, **options
        )
        self.by_frame = rf.Linear(model, with_blank)
        self.decoder = rf.TransformerDecoder(model, letter, model, num_layers=1, **{**options, "num_heads": 1})

    def features(self, sound: Tensor) -> tuple[Tensor, Dim]:
        """Log-mel features each 10 ms, with mean 0 and variance 1 over time, and their dim. → {batch, time, mel}"""
        features, time = log_mel(sound)
        mean, variance = rf.moments(features, axis=time)
        return (features - mean) * rf.rsqrt(variance + 1e-2), time

    def encode(self, sound: Tensor) -> tuple[Tensor, Dim]:
        """The encoded frames, and their dim. {batch, samples} → {batch, frames, model}"""
        features, time = self.features(sound)
        features = rf.audio.specaugment(
            features, spatial_dim=time, feature_dim=mel, global_train_step_dependent=False, num_masks_per_seq=True,
            max_consecutive_spatial_dims=8, max_consecutive_feature_dims=6,
        )  # fmt: skip
        return self.encoder(features, in_spatial_dim=time)

    def log_probs(self, encoded: Tensor) -> Tensor:
        """The log-probabilities of the letters and of blank in each frame. {…, model} → {…, letter or blank}"""
        return rf.log_softmax(self.by_frame(encoded), axis=with_blank)

    def __call__(self, sound: Tensor, text: Tensor) -> Tensor:
        """The loss of each sequence, as a mean of its letters: 0.3 of CTC, 0.7 of attention. → {batch}"""
        encoded, frames = self.encode(sound)
        ctc = rf.ctc_loss(
            logits=self.log_probs(encoded), logits_normalized=True, targets=text, input_spatial_dim=frames,
            targets_spatial_dim=spelling, blank_index=BLANK,
        )  # fmt: skip
        before, time = rf.pad(text, axes=[spelling], padding=[(1, 0)], value=END)
        after, _ = rf.pad(text, axes=[spelling], padding=[(0, 1)], value=END, out_dims=time)
        logits, _ = self.decoder(
            before, spatial_dim=time[0], state=self.decoder.default_initial_state(batch_dims=[batch_dim]),
            encoder=self.decoder.transform_encoder(encoded, axis=frames),
        )  # fmt: skip
        attention = rf.cross_entropy(
            estimated=logits, target=rf.label_smoothing(after, 0.1), axis=letter, estimated_type="logits"
        )
        lengths = rf.cast(spelling.get_size_tensor(), "float32")
        return 0.3 * ctc / lengths + 0.7 * rf.reduce_mean(attention, axis=time[0])


def log_mel(sound: Tensor) -> tuple[Tensor, Dim]:
    """The energy of bands of frequencies each 10 ms, and their dim. {batch, samples} → {batch, time, mel}"""
    return rf.audio.log_mel_filterbank_from_raw(sound, in_spatial_dim=samples, out_dim=mel, sampling_rate=RATE)


def sounds_of(spoken: Sequence[Spoken]) -> Tensor:
    """The sounds of utterances as a batch. → {batch, samples}"""
    return rf.convert_to_tensor(
        [one.sound for one in spoken], dims=[batch_dim, samples], tags=[one.said.text for one in spoken]
    )


def texts_of(spoken: Sequence[Spoken]) -> Tensor:
    """The letters of utterances as a batch. → {batch, spelling}"""
    rows = [letter.vocab.encode(one.said.text.replace(" ", "▁")) for one in spoken]
    return rf.convert_to_tensor(rows, dims=[batch_dim, spelling], sparse_dim=letter)


# -- the search


@torch.no_grad()
def search(
    model: Model, spoken: Sequence[Spoken], *, beam: int = 8, ctc: float = 0.3, words: float = 0.0, debug: bool = False
) -> rf.search.Found:
    """The hypotheses by the decoder with attention, by CTC and by an n-gram model of words, with these two scales.

    debug: whether all states are kept, so that other hypotheses can be scored and continued.
    """
    decoder, hypotheses, answer = model.decoder, Dim(beam, name="beam"), Dim(None, name="answer")
    encoded, frames = model.encode(sounds_of(spoken))
    memory = decoder.transform_encoder(encoded, axis=frames)
    by_frame = rf.search.CTCPrefix(model.log_probs(encoded), axis=frames, classes=with_blank, blank=BLANK, end=END)
    scorers = {"ctc": (by_frame, ctc), "words": (word_ngram(), words)}
    scorers["spaces"] = rf.search.bad_words([["▁", "▁"], ["▁", "</s>"]], labels=letter)  # one between two words

    loop = rf.Loop(axis=answer, max_seq_len=60, name="decoder", debug=debug)
    loop.state.decoder = decoder.default_initial_state(batch_dims=[batch_dim, hypotheses])
    loop.state.prev = rf.full(dims=[batch_dim, hypotheses], fill_value=END, sparse_dim=letter)
    with loop:
        logits, loop.state.decoder = decoder(
            loop.state.prev, spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=memory
        )
        attention = rf.log_softmax(logits, axis=letter)
        chosen = loop.choice(
            {"attention": (attention, 1 - ctc), **scorers}, beam=hypotheses, axis=letter, input_type="log_prob",
            length_normalization=False,
        )  # fmt: skip
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == END, include_eos=False)
    return loop.found


@cache
def word_ngram() -> rf.search.WordNGram:
    """A trigram model of the words of the sentences in the training."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "words.arpa"
        file.write_text(arpa([text.split() for text in speech_data.sentences()["train"]]), encoding="utf-8")
        return rf.search.WordNGram(file, letter, lookahead=True)


def arpa(texts: Sequence[Sequence[str]], order: int = 3) -> str:
    """An n-gram model in the ARPA format, smoothed as by Witten and Bell (1991)."""
    padded = [("<s>", *text, "</s>") for text in texts]
    counts = [
        Counter(text[i : i + n] for text in padded for i in range(len(text) - n + 1)) for n in range(1, order + 1)
    ]
    counts[0]["<s>",] = 0  # is never predicted
    totals, kinds = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for gram, count in (item for grams in counts for item in grams.items()):
        totals[gram[:-1]] += count
        kinds[gram[:-1]] += 1

    def backoff(context: tuple[str, ...]) -> float:
        return kinds[context] / (totals[context] + kinds[context]) if context else 0.0

    def probability(gram: tuple[str, ...]) -> float:
        context, count = gram[:-1], counts[len(gram) - 1][gram]
        share = backoff(context)
        return (1 - share) * count / totals[context] + (share * probability(gram[1:]) if context else 0.0)

    lines = ["\\data\\", *(f"ngram {n}={len(grams)}" for n, grams in enumerate(counts, 1))]
    for n, grams in enumerate(counts, 1):
        lines += ["", f"\\{n}-grams:"]
        for gram, count in grams.items():
            score = math.log10(probability(gram)) if count else -99.0
            after = f"\t{math.log10(backoff(gram)):.4f}" if totals[gram] else ""
            lines.append(f"{score:.4f}\t{' '.join(gram)}{after}")
    return "\n".join([*lines, "", "\\end\\", ""])


def word_error_rate(found: Iterable[rf.search.Found]) -> float:
    """The words that are wrong, in percent of those that were said."""
    found = list(found)
    return 100 * rf.search.report(found, [tree.name for each in found for tree in each.tree], words=True).error_rate


def searches(model: Model, spoken: Sequence[Spoken], **options: Any) -> list[rf.search.Found]:
    """The searches of many utterances, sorted by their length."""
    spoken = sorted(spoken, key=lambda one: len(one.sound))
    return [search(model, spoken[start : start + 50], **options) for start in range(0, len(spoken), 50)]


# -- training


class Check(NamedTuple):
    """The state of the training at some point: word error rate of greedy search on the dev sentences, in percent."""

    minutes: float
    steps: int
    loss: float
    wer: float


def varied(one: Spoken, chance: np.random.Generator) -> Spoken:
    """The utterance as another voice would say it, in noise: faster and higher, or slower and lower, by up to 15 %."""
    factor = np.exp(chance.uniform(-0.15, 0.15))
    places = np.arange(0, len(one.sound) - 1, factor)
    sound = np.interp(places, np.arange(len(one.sound)), one.sound)
    noise = chance.normal(size=len(sound)) * 10 ** chance.uniform(-4, -1.7)
    return one._replace(sound=(sound + noise).astype("float32"))


def batches_without_end(spoken: Sequence[Spoken], size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Sounds and texts of utterances of similar length, in a new order on each pass."""
    chance = np.random.default_rng(seed)
    lengths = np.array([len(one.sound) for one in spoken])
    while True:
        order = np.argsort(lengths * chance.uniform(0.9, 1.1, len(lengths)))
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        for i in chance.permutation(len(batches)):
            batch = [varied(spoken[k], chance) for k in batches[i]]
            yield sounds_of(batch), texts_of(batch)


def train(
    model: Model, data: dict[str, list[Spoken]], *, minutes: float = 5, steps: int | None = None, checks: int = 6,
    batch: int = 32, rate: float = 3e-3, seed: int = 1,
) -> list[Check]:  # fmt: skip
    """Trains for `minutes` of CPU time or for `steps`, checks included. Returns the checks on the dev sentences.

    The learning rate rises for 200 steps, then falls linearly to 0.
    """
    begin = process_time()
    rf.set_random_seed(seed)
    net = rf.to_torch(model).train()
    optimizer = torch.optim.AdamW(net.parameters(), betas=(0.9, 0.98), weight_decay=1e-3)
    history: list[Check] = []
    mean, done = 0.0, 0.0
    progress = rf.progress(islice(batches_without_end(data["train"], batch, seed), steps), total=steps)
    for step, (sounds, texts) in enumerate(progress, 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, step / 200) * (1 - done)

        loss = net(sounds, texts).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

        mean += (loss.item() - mean) * max(0.01, 1 / step)
        progress.report(loss=loss)
        minutes_now = (process_time() - begin) / 60
        done = step / steps if steps else minutes_now / minutes
        if done >= (len(history) + 1) / checks:
            wer = word_error_rate(searches(model, data["dev"], beam=1, ctc=0.0))
            history.append(Check(minutes_now, step, mean, wer))
            tqdm.write(LINE.format(*history[-1]))
        if done >= 1 and not steps:
            break
    return history


LINE = "{:6.2f} min {:6,} steps   loss {:.3f}   dev: {:5.2f} % of the words are wrong"


# -- files and the command


def save(model: Model, file: Path, history: Sequence[Check], rates: dict[str, float]) -> None:
    """Saves the weights as float16, which halves the file."""
    model.to(dtype="float16")
    rf.save(model, file, config={"history": [list(check) for check in history], "rates": rates})


def load(file: Path = FILE) -> tuple[Model, list[Check], dict[str, float]]:
    """The model in a file, the history of its training, and its word error rates on the test sentences."""
    model, config = Model(), rf.load_config(file)
    rf.load(file, model)
    return model, [Check(*values) for values in config["history"]], config["rates"]


def main() -> None:
    """Trains a model, and prints its word error rates on sentences that no training had, by voices that none had."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="CPU time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, default=FILE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = speech_data.load()
    rf.set_random_seed(options.seed)
    model = Model()
    history = train(model, data, minutes=options.minutes, seed=options.seed)
    rates = {name: word_error_rate(searches(model, data["test"], **choice)) for name, choice in SETTINGS.items()}
    for name, rate in rates.items():
        print(f"{name:<32}{rate:6.2f} % of the words of {len(data['test'])} test sentences are wrong")
    save(model, options.save, history, rates)


SETTINGS: dict[str, dict[str, Any]] = {
    "attention, beam 1": {"beam": 1, "ctc": 0.0},
    "attention, beam 8": {"beam": 8, "ctc": 0.0},
    "attention and CTC, beam 8": {"beam": 8, "ctc": 0.3},
    "attention, CTC and words, beam 8": {"beam": 8, "ctc": 0.3, "words": 0.3},
}
"""The searches that are compared, by name."""

if __name__ == "__main__":
    main()
