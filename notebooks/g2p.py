"""Letters to phonemes: an attention model, trained and tested on the CMU Pronouncing Dictionary.

    python notebooks/g2p.py                              6 minutes of CPU time
    python notebooks/g2p.py --minutes 40 --size large --rate 3e-3 --save g2p.safetensors
    torchrun --standalone --nproc-per-node 2 notebooks/g2p.py

With N processes, each batch is dealt out to all of them. A step is the same as that of one process, but for the noise
of dropout, and learning rate and batch size stay as they are; what N changes is the number of steps in the time. The
same seed and the same `--steps` give the same weights, bit for bit, on one machine.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

import g2p_data
import rfnb as rf
from rfnb import Dim, Tensor, batch_dim

END = "</s>"
letter = Dim(len(g2p_data.LETTERS), name="letter", vocab=g2p_data.LETTERS)
phone = Dim(1 + len(g2p_data.PHONES), name="phone", vocab=[END, *g2p_data.PHONES])
end = phone.vocab.encode([END])[0]

spelling = Dim(None, name="spelling")
sounds = Dim(None, name="sounds")
answer = Dim(None, name="answer")
one = Dim(1, name="one")

Pairs = Sequence[tuple[str, g2p_data.Phones]]


# -- the model


class BothWays(rf.Module):
    """An LSTM from left to right and another from right to left."""

    def __init__(self, in_dim: Dim, size: int):
        self.left, self.right = Dim(size, name="forth"), Dim(size, name="back")
        self.out_dim = self.left + self.right
        self.forth = rf.LSTM(in_dim, self.left)
        self.back = rf.LSTM(in_dim, self.right)

    def __call__(self, x: Tensor) -> Tensor:
        """{batch, spelling, in_dim} → {batch, spelling, out_dim}"""
        start = self.default_initial_state(batch_dims=[batch_dim])
        left, _ = self.forth(x, state=start.forth, spatial_dim=spelling)
        x = rf.reverse_sequence(x, axis=spelling)
        right, _ = self.back(x, state=start.back, spatial_dim=spelling)
        right = rf.reverse_sequence(right, axis=spelling)
        both, _ = rf.concat((left, self.left), (right, self.right))
        return both


class Encoder(rf.Module):
    """A stack of bidirectional LSTMs over the letters."""

    def __init__(self, *, vec: int, size: int, layers: int, dropout: float):
        dim = Dim(vec, name="letter_vec")
        self.embedding = rf.Embedding(letter, dim)
        self.layers = rf.ModuleList()
        for _ in range(layers):
            self.layers.append(BothWays(dim, size))
            dim = self.layers[-1].out_dim
        self.out_dim = dim
        self.dropout = dropout

    def __call__(self, letters: Tensor) -> Tensor:
        """{batch, spelling} of letter → {batch, spelling, out_dim}"""
        x = self.embedding(letters)
        for layer in self.layers:
            x = layer(x)
            x = rf.dropout(x, self.dropout, axis=[batch_dim, layer.out_dim])  # a unit is dropped for the whole word
        return x.copy_transpose([batch_dim, spelling, self.out_dim])  # attention is faster in this order


class Attention(rf.Module):
    """Attention weights over the letters, computed by a small network (Bahdanau, Cho & Bengio 2015)."""

    def __init__(self, memory: Dim, query: Dim, size: int):
        self.size = Dim(size, name="key")
        self.key = rf.Linear(memory, self.size)
        self.query = rf.Linear(query, self.size, with_bias=False)
        self.energy = rf.Linear(self.size, one, with_bias=False)

    def __call__(self, h: Tensor, keys: Tensor) -> Tensor:
        """{batch, query}, {batch, spelling, key} → {batch, spelling}"""
        sums = rf.combine_bc(keys, "add", self.query(h))  # h may have more dims, such as a beam
        energy = self.energy(rf.tanh(sums))
        return rf.softmax(rf.squeeze(energy, one), axis=spelling)


class Decoder(rf.Module):
    """Produces one phone after the other: an LSTM whose input is the previous phone and the attention context."""

    def __init__(self, memory: Dim, *, vec: int, size: int, key: int, deep: int, dropout: float):
        self.memory = memory
        self.phone_vec, self.hidden, self.deep_dim = (
            Dim(n, name=name) for n, name in ((vec, "phone_vec"), (size, "hidden"), (deep, "deep"))
        )
        self.embedding = rf.Embedding(phone, self.phone_vec)
        self.lstm = rf.LSTM(self.phone_vec + memory, self.hidden, with_bias=False)
        self.attention = Attention(memory, self.hidden, key)
        self.deep = rf.Linear(self.hidden + memory, self.deep_dim)
        self.readout = rf.Linear(self.deep_dim, phone)
        self.dropout = dropout

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> rf.State:
        """Zeros: there is no previous output, and no attention context."""
        lstm = self.lstm.default_initial_state(batch_dims=batch_dims)
        return rf.State(lstm=lstm, context=rf.zeros([*batch_dims, self.memory]))

    def step(self, prev: Tensor, state: rf.State, encoded: Tensor, keys: Tensor) -> tuple[Tensor, rf.State]:
        """{batch, phone_vec} of the previous phone → {batch, hidden}, and the new state with this step's context"""
        x, _ = rf.concat((prev, self.phone_vec), (state.context, self.memory))
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        att = self.attention(h, keys)
        context = rf.dot(att, encoded, reduce=spelling)
        return h, rf.State(lstm=lstm, context=context)

    def scores(self, h: Tensor, context: Tensor) -> Tensor:
        """The scores of each phone, before the softmax. {…, hidden}, {…, memory} → {…, phone}"""
        both, dim = rf.concat((h, self.hidden), (context, self.memory))
        both = rf.dropout(both, self.dropout, axis=[batch_dim, dim])
        return self.readout(rf.tanh(self.deep(both)))


class Model(rf.Module):
    """The loss of a batch, and the phones of words."""

    def __init__(self, *, vec: int, encoder: int, layers: int, decoder: int, key: int, deep: int, dropout: float):
        self.encoder = Encoder(vec=vec, size=encoder, layers=layers, dropout=dropout)
        self.decoder = Decoder(self.encoder.out_dim, vec=vec, size=decoder, key=key, deep=deep, dropout=dropout)
        self.dropout = dropout

    def __call__(self, batch: rf.TensorDict) -> Tensor:
        """The mean loss of a phone, with the true phones before it. → {}"""
        target = rf.label_smoothing(batch["phones"], 0.1)
        loss = rf.cross_entropy(estimated=self.logits(batch), target=target, axis=phone, estimated_type="logits")
        return rf.distributed.mean(loss)  # over the phones of all processes

    def logits(self, batch: rf.TensorDict) -> Tensor:
        """The scores of each phone, before the softmax, with the true phones before it. → {batch, sounds, phone}"""
        decoder = self.decoder
        encoded = self.encoder(batch["letters"])
        keys = decoder.attention.key(encoded)
        before = decoder.embedding(rf.shift_right(batch["phones"], axis=sounds, pad_value=end))
        before = rf.dropout(before, self.dropout, axis=[batch_dim, decoder.phone_vec])

        loop = rf.Loop(axis=sounds, name="training")
        loop.state.decoder = decoder.default_initial_state(batch_dims=[batch_dim])
        with loop:
            prev = loop.unstack(before)
            h, loop.state.decoder = decoder.step(prev, loop.state.decoder, encoded, keys)
            hs, contexts = loop.stack(h), loop.stack(loop.state.decoder.context)
        return decoder.scores(hs, contexts)

    @torch.no_grad()
    def search(self, words: Sequence[str], beam_size: int = 1) -> rf.search.Found:
        """The pronunciations of each word that are left at the end of a beam search, and all that was tried."""
        decoder, beam = self.decoder, Dim(beam_size, name="beam")
        encoded = self.encoder(letters_of(words))
        keys = decoder.attention.key(encoded)

        loop = rf.Loop(axis=answer, max_seq_len=30, name="decoder")
        loop.state.decoder = decoder.default_initial_state(batch_dims=[batch_dim, beam])
        loop.state.prev = rf.full(dims=[batch_dim, beam], fill_value=end, sparse_dim=phone)
        with loop:
            prev = decoder.embedding(loop.state.prev)
            h, loop.state.decoder = decoder.step(prev, loop.state.decoder, encoded, keys)
            logits = decoder.scores(h, loop.state.decoder.context)
            chosen = loop.choice(logits, beam=beam, axis=phone, input_type="logits")
            loop.state.prev = chosen.labels
            loop.end(chosen.labels == end, include_eos=False)
        return loop.found

    def pronounce(self, words: Sequence[str], beam_size: int = 1) -> dict[str, g2p_data.Phones]:
        """The phones of each word; with a beam of 1, the best phone at each step."""
        return best_of(self.search(words, beam_size))

    @torch.no_grad()
    def scores_of(self, pairs: Pairs) -> list[float]:
        """The score of each pronunciation, as the search compares them: the mean log-probability of phones and end."""
        batch = to_batch([sample(*pair) for pair in pairs])
        losses = rf.cross_entropy(
            estimated=self.logits(batch), target=batch["phones"], axis=phone, estimated_type="logits"
        )
        return (-rf.reduce_mean(losses, axis=sounds)).tolist()


def letters_of(words: Sequence[str]) -> Tensor:
    """The letters of each word. → {batch, spelling}"""
    return rf.convert_to_tensor(words, dims=[batch_dim, spelling], sparse_dim=letter, tags=words)


def best_of(found: rf.search.Found) -> dict[str, g2p_data.Phones]:
    """The phones of the best hypothesis of each word."""
    return {tree.name: tree.best.text.split() for tree in found.tree}


SIZES = {
    "small": {"vec": 64, "encoder": 96, "layers": 1, "decoder": 160, "key": 96, "deep": 96, "dropout": 0.05},
    "large": {"vec": 64, "encoder": 128, "layers": 2, "decoder": 256, "key": 96, "deep": 128, "dropout": 0.15},
}
"""The arguments of `Model`: for a few minutes of training, and for longer."""


# -- the data


to_batch = rf.collate(
    {"letters": [batch_dim, spelling], "phones": [batch_dim, sounds]},
    sparse={"letters": letter, "phones": phone},
    tag="word",
)


def sample(word: str, phones: g2p_data.Phones) -> dict[str, Any]:
    """A pair as `to_batch` takes it."""
    return {"word": word, "letters": word, "phones": [*phones, END]}


class SimilarLengths:
    """Batches of words of similar length, in a new order on each pass; yields this process's share of each batch."""

    def __init__(self, pairs: Pairs, size: int, seed: int):
        self.sizes = torch.tensor([len(word) + len(phones) for word, phones in pairs])
        self.size = max(size, processes())
        self.random = torch.Generator().manual_seed(seed)  # the same order in all processes

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.argsort(self.sizes + torch.rand(len(self.sizes), generator=self.random))
        batches = order.split(self.size)
        for i in torch.randperm(len(batches), generator=self.random):
            if len(batches[i]) >= processes():  # otherwise the last process would have none
                yield batches[i][process() :: processes()].tolist()


def batches_without_end(pairs: Pairs, size: int, seed: int) -> Iterator[rf.TensorDict]:
    """Repeats the pairs forever, as shuffled batches."""
    samples = [sample(*pair) for pair in pairs]
    loader = torch.utils.data.DataLoader(samples, batch_sampler=SimilarLengths(pairs, size, seed), collate_fn=to_batch)
    while True:
        yield from loader


# -- processes: one, or those that torchrun started


def process() -> int:
    """The number of this process."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def processes() -> int:
    """The number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def furthest(done: float) -> float:
    """The largest value of all processes. They must agree on their progress, which determines the learning rate."""
    if processes() == 1:
        return done
    most = torch.tensor(done, dtype=torch.float64)
    distributed.all_reduce(most, distributed.ReduceOp.MAX)
    return most.item()


# -- training


class Check(NamedTuple):
    """The state of the training at some point: error rates on held-out words, in percent."""

    minutes: float
    steps: int
    loss: float
    per: float
    wer: float


def train(
    model: Model,
    data: g2p_data.Split,
    *,
    minutes: float = 6,
    steps: int | None = None,
    checks: int = 6,
    batch: int = 128,
    rate: float = 4e-3,
    seed: int = 1,
) -> list[Check]:
    """Trains for `minutes` of CPU time per process, or for `steps`. Returns the `checks` on the dev words.

    The learning rate rises for 200 steps, then falls linearly to 0. The time of the checks counts as training time.
    """
    net = rf.to_torch(model).train()
    net = net if processes() == 1 else DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), betas=(0.9, 0.98), fused=True)
    rf.set_random_seed(seed + process())  # each process has its own dropout
    history: list[Check] = []
    mean, done, begin = 0.0, 0.0, process_time()
    progress = rf.progress(islice(batches_without_end(data["train"], batch, seed), steps), total=steps)
    for step, samples in enumerate(progress, 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, step / 200) * (1 - done)

        loss = net(samples)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()

        mean += (loss.item() - mean) * max(0.01, 1 / step)
        progress.report(loss=loss)

        minutes_now = (process_time() - begin) / 60
        done = furthest(step / steps if steps else minutes_now / minutes)
        if done >= (len(history) + 1) / checks:
            history.append(Check(minutes_now, step, mean, *error_rates(model, data["dev"])))
            progress.report(dev_per=history[-1].per, dev_wer=history[-1].wer)
            if process() == 0:
                tqdm.write(LINE.format(*history[-1]))
        if done >= 1 and not steps:
            break
    return history


LINE = "{:6.2f} min {:7,} steps   loss {:.3f}   dev: PER {:5.2f} %  WER {:5.2f} %"


# -- the result


def answers(model: Model, words: Sequence[str], beam: int = 1) -> dict[str, g2p_data.Phones]:
    """The phones of each word, found with this beam; each process decodes its share of the words."""
    own = sorted(words, key=len)[process() :: processes()]
    found: dict[str, g2p_data.Phones] = {}
    for part in pieces(own):
        found |= model.pronounce(part, beam)
    shares: list[dict[str, g2p_data.Phones]] = [found] * processes()
    if processes() > 1:
        distributed.all_gather_object(shares, found)
    return {word: phones for share in shares for word, phones in share.items()}


def pieces(whole: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    """The sequence in pieces that fit into memory."""
    return (whole[start : start + size] for start in range(0, len(whole), size))


def error_rates(model: Model, references: dict[str, list[g2p_data.Phones]], beam: int = 1) -> tuple[float, float]:
    """Phoneme and word error rate, in percent."""
    return g2p_data.error_rates(answers(model, list(references), beam), references)


def print_table(model: Model, data: g2p_data.Split) -> None:
    """The error rates on held-out words, without a beam and with one of 4."""
    rows = [(part, len(data[part]), beam, *error_rates(model, data[part], beam)) for part in PARTS for beam in (1, 4)]
    if process() == 0:
        print("part   words   beam   phoneme error rate   word error rate")
        for row in rows:
            print("{:<5}{:>7,}{:>7}{:>19.2f} %{:>16.2f} %".format(*row))


PARTS: tuple[g2p_data.Part, ...] = ("dev", "test")


# -- files


def save(model: Model, file: Path, size: str, history: Sequence[Check]) -> None:
    """Saves the weights as float16, which halves the file, and rounds those of the model in the same way."""
    model.to(dtype="float16")
    if process() == 0:
        rf.save(model, file, config={"size": size, "history": [list(check) for check in history]})
    model.to(dtype="float32")


def load(file: Path) -> tuple[Model, list[Check]]:
    """The model in a file, and the history of its training."""
    config = rf.load_config(file)
    model = Model(**SIZES[config["size"]])
    rf.load(file, model)
    return model, [Check(*values) for values in config["history"]]


# -- the command


def main() -> None:
    """Trains or loads a model, and prints its error rates."""
    options = arguments()
    torch.set_num_threads(1)  # for a model this small, more threads mostly wait for each other
    if "WORLD_SIZE" in os.environ:  # started by torchrun
        distributed.init_process_group("gloo")
    data = g2p_data.load()
    if options.load:
        model, _ = load(options.load)
    else:
        rf.set_random_seed(options.seed)
        model = Model(**SIZES[options.size])
        how = {name: getattr(options, name) for name in ("minutes", "steps", "checks", "batch", "rate", "seed")}
        history = train(model, data, **how)
        if options.save:
            save(model, options.save, options.size, history)
    print_table(model, data)
    if distributed.is_initialized():
        distributed.destroy_process_group()


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model")
    parser.add_argument("--minutes", type=float, default=6, help="of CPU time of each process, 6 if not given")
    parser.add_argument("--steps", type=int, help="so many steps instead")
    parser.add_argument("--checks", type=int, default=6, help="how often the dev words are decoded meanwhile")
    parser.add_argument("--batch", type=int, default=128, help="words in a step, of all processes together")
    parser.add_argument("--rate", type=float, default=4e-3, help="the highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="the weights, as safetensors")
    parser.add_argument("--load", type=Path, help="weights to test, without training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
