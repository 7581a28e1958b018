"""What a loop costs beside the same in plain torch, as one would write it: python tests/bench/bench_loop.py [names…]

CPU time, one thread, interleaved, medians. The first table has sequences of 50 to 100 % of the longest, the second one
sequences of one length. "torch" computes padding like frames, "with where" keeps the states of sequences that have
ended, and "by hand" moves all that needs no state out of the loop. Forward runs without gradients, as in inference.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

import rfnb as rf
from rfnb import batch_dim

Ways = dict[str, Callable[[], torch.Tensor]]


def raw(module: rf.Module) -> torch.Tensor:
    """The weight of a Linear as torch has it, without a bias."""
    return module.weight.raw_tensor


def projected(module: rf.Linear, x: torch.Tensor) -> torch.Tensor:
    """The Linear in torch."""
    return functional.linear(x, raw(module).t(), None if module.bias is None else module.bias.raw_tensor)


def lengths_of(batch: int, longest: int, unequal: bool) -> list[int]:
    """Uniform from half of the longest to all of it, or all equal."""
    if not unequal:
        return [longest] * batch
    drawn = torch.randint(longest // 2, longest + 1, [batch], generator=torch.Generator().manual_seed(1))
    return [longest, *drawn[1:].tolist()]


class Rnn:
    """h = tanh(W·x + U·h)"""

    parts = 1

    def __init__(self, batch: int, steps: int, size: int, unequal: bool):
        self.shape = batch, steps, size
        self.lengths = lengths_of(batch, steps, unequal)
        self.going = torch.arange(steps)[:, None, None] < torch.tensor(self.lengths)[:, None]
        self.time, self.feat = rf.Dim(None, name="time"), rf.Dim(size, name="feat")
        self.hidden, self.gates = rf.Dim(size, name="hidden"), rf.Dim(self.parts * size, name="gates")
        self.raw = torch.randn(batch, steps, size)
        self.x = rf.convert_to_tensor(self.raw, dims=[batch_dim, self.time, self.feat], lengths=self.lengths)
        self.w, self.u = rf.Linear(self.feat, self.gates), rf.Linear(self.hidden, self.gates, with_bias=False)

    def ours(self, hoisted: bool = True, recompute: int = 0) -> torch.Tensor:
        """As a Loop."""
        loop = rf.Loop(axis=self.time, optimize_move_layers_out=hoisted, recompute=recompute)
        loop.state.h = rf.zeros([batch_dim, self.hidden])
        with loop:
            step = rf.tanh(self.w(loop.unstack(self.x)) + self.u(loop.state.h))
            loop.state.h = rf.replace_dim_v2(step, in_dim=self.gates, out_dim=self.hidden)
            out = loop.stack(loop.state.h)
        return out.raw_tensor

    def torchs(self, frames: Iterator[torch.Tensor], keep: bool = False) -> torch.Tensor:
        """In torch, from the projected frames."""
        h, out = torch.zeros(self.shape[0], self.shape[2]), []
        for step, frame in enumerate(frames):
            new = torch.tanh(frame + h @ raw(self.u))
            h = torch.where(self.going[step], new, h) if keep else new
            out.append(h)
        return torch.stack(out)

    def ways(self) -> Ways:
        """Torch first."""
        return {
            "torch": lambda: self.torchs(projected(self.w, frame) for frame in self.raw.unbind(1)),
            "with where": lambda: self.torchs((projected(self.w, frame) for frame in self.raw.unbind(1)), keep=True),
            "by hand": lambda: self.torchs(iter(projected(self.w, self.raw).unbind(1))),
            "rfnb": self.ours,
            "not hoisted": lambda: self.ours(hoisted=False),
        }


class Pure(Rnn):
    """The same by `rf.scan` with a step that is marked by `rf.pure`."""

    def ours(self, hoisted: bool = True, recompute: int = 0) -> torch.Tensor:
        """Its step is kept from the third call on."""

        @rf.pure
        def step(x: rf.Tensor, h: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
            new = rf.replace_dim_v2(rf.tanh(self.w(x) + self.u(h)), in_dim=self.gates, out_dim=self.hidden)
            return new, new

        initial = rf.zeros([batch_dim, self.hidden])
        return rf.scan(spatial_dim=self.time, xs=self.x, initial=initial, body=step)[0].raw_tensor


class Lstm(Rnn):
    """Hochreiter & Schmidhuber (1997), with forget gates."""

    parts = 4

    def ours(self, hoisted: bool = True, recompute: int = 0) -> torch.Tensor:
        """As a Loop."""
        loop = rf.Loop(axis=self.time, optimize_move_layers_out=hoisted, recompute=recompute)
        loop.state.h = loop.state.c = rf.zeros([batch_dim, self.hidden])
        with loop:
            gates = self.w(loop.unstack(self.x)) + self.u(loop.state.h)
            parts = rf.Dim(4, name="parts")
            i, f, g, o = rf.unstack(rf.split_dims(gates, axis=self.gates, dims=[parts, self.hidden]), axis=parts)
            loop.state.c = rf.sigmoid(f) * loop.state.c + rf.sigmoid(i) * rf.tanh(g)
            loop.state.h = rf.sigmoid(o) * rf.tanh(loop.state.c)
            out = loop.stack(loop.state.h)
        return out.raw_tensor

    def torchs(self, frames: Iterator[torch.Tensor], keep: bool = False) -> torch.Tensor:
        """In torch, from the projected frames."""
        h = c = torch.zeros(self.shape[0], self.shape[2])
        out = []
        for step, frame in enumerate(frames):
            i, f, g, o = (frame + h @ raw(self.u)).chunk(4, 1)
            before = h, c
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            if keep:
                h, c = (torch.where(self.going[step], *pair) for pair in zip((h, c), before, strict=True))
            out.append(h)
        return torch.stack(out)


class Decoder:
    """An RNN with MLP attention (Bahdanau et al. 2015), teacher forcing, all dims of one size."""

    def __init__(self, batch: int, frames: int, steps: int, size: int, labels: int, unequal: bool):
        self.shape = batch, frames, steps, size
        self.lengths, enc_lengths = lengths_of(batch, steps, unequal), lengths_of(batch, frames, unequal)
        self.padding = torch.arange(frames) >= torch.tensor(enc_lengths)[:, None] if unequal else None
        self.going = torch.arange(steps)[:, None, None] < torch.tensor(self.lengths)[:, None]
        names = ["enc_feat", "hidden", "key", "emb", "readout"]
        enc_feat, hidden, key, emb, readout = (rf.Dim(size, name=name) for name in names)
        self.enc_feat, self.hidden, self.key = enc_feat, hidden, key
        self.enc_time, self.time = rf.Dim(None, name="enc_time"), rf.Dim(None, name="time")
        vocab = rf.Dim(labels, name="vocab")
        self.enc_raw, self.labels_raw = torch.randn(batch, frames, size), torch.randint(0, labels, (batch, steps))
        self.enc = rf.convert_to_tensor(self.enc_raw, dims=[batch_dim, self.enc_time, enc_feat], lengths=enc_lengths)
        self.labels = rf.convert_to_tensor(
            self.labels_raw, dims=[batch_dim, self.time], sparse_dim=vocab, lengths=self.lengths
        )
        self.embedding = rf.Embedding(vocab, emb)
        self.to_key, self.to_query = rf.Linear(enc_feat, key), rf.Linear(hidden, key, with_bias=False)
        self.energy = rf.Parameter([key])
        self.energy.initial = rf.init.Normal(0.1)
        self.of_label, self.of_att = rf.Linear(emb, hidden), rf.Linear(enc_feat, hidden, with_bias=False)
        self.of_state = rf.Linear(hidden, hidden, with_bias=False)
        self.readout, self.logits = rf.Linear(hidden, readout), rf.Linear(readout, vocab)

    def ours(self, hoisted: bool = True, recompute: int = 0) -> torch.Tensor:
        """As a Loop."""
        loop = rf.Loop(axis=self.time, optimize_move_layers_out=hoisted, recompute=recompute)
        loop.state.h, loop.state.att = rf.zeros([batch_dim, self.hidden]), rf.zeros([batch_dim, self.enc_feat])
        with loop:
            label = self.embedding(loop.unstack(self.labels))
            h = rf.tanh(self.of_label(label) + self.of_att(loop.state.att) + self.of_state(loop.state.h))
            energy = rf.tanh(self.to_key(self.enc) + self.to_query(h))
            weights = rf.softmax(rf.matmul(energy, self.energy, reduce=self.key), axis=self.enc_time)
            loop.state.h, loop.state.att = h, rf.matmul(weights, self.enc, reduce=self.enc_time)
            out = loop.stack(self.logits(rf.tanh(self.readout(h))))
        return out.raw_tensor

    def torchs(self, hoisted: bool, keep: bool = False) -> torch.Tensor:
        """In torch."""
        batch, _, steps, size = self.shape
        h = att = torch.zeros(batch, size)
        table = self.embedding.weight.raw_tensor
        keys = projected(self.to_key, self.enc_raw)
        labels = projected(self.of_label, functional.embedding(self.labels_raw, table)) if hoisted else None
        out = []
        for step in range(steps):
            if labels is None:
                keys = projected(self.to_key, self.enc_raw)
                label = projected(self.of_label, functional.embedding(self.labels_raw[:, step], table))
            else:
                label = labels[:, step]
            before = h, att
            h = torch.tanh(label + att @ raw(self.of_att) + h @ raw(self.of_state))
            energy = torch.tanh(keys + (h @ raw(self.to_query)).unsqueeze(1)) @ self.energy.raw_tensor
            energy = energy if self.padding is None else energy.masked_fill(self.padding, float("-inf"))
            att = torch.bmm(torch.softmax(energy, -1).unsqueeze(1), self.enc_raw).squeeze(1)
            if keep:
                h, att = (torch.where(self.going[step], *pair) for pair in zip((h, att), before, strict=True))
            out.append(h if hoisted else self.scores(h))
        return self.scores(torch.stack(out)) if hoisted else torch.stack(out)

    def scores(self, h: torch.Tensor) -> torch.Tensor:
        """Readout and logits in torch."""
        return projected(self.logits, torch.tanh(projected(self.readout, h)))

    def ways(self) -> Ways:
        """Torch first."""
        return {
            "torch": lambda: self.torchs(hoisted=False),
            "with where": lambda: self.torchs(hoisted=False, keep=True),
            "by hand": lambda: self.torchs(hoisted=True),
            "rfnb": self.ours,
            "not hoisted": lambda: self.ours(hoisted=False),
        }


def cases(unequal: bool) -> dict[str, Callable[[], Rnn | Decoder]]:
    """By name."""
    return {
        "rnn, H=256": lambda: Rnn(16, 100, 256, unequal),
        "rnn, H=16": lambda: Rnn(2, 100, 16, unequal),
        "rnn, H=16, rf.pure": lambda: Pure(2, 100, 16, unequal),
        "rnn, H=256, T=1000": lambda: Rnn(16, 1000, 256, unequal),
        "lstm, H=256": lambda: Lstm(16, 100, 256, unequal),
        "lstm, H=16": lambda: Lstm(2, 100, 16, unequal),
        "attention, H=256": lambda: Decoder(8, 100, 40, 256, 1000, unequal),
    }


def measure(ways: Ways, gradients: bool, rounds: int = 9) -> dict[str, float]:
    """Milliseconds by way."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(rounds + 1):
        for name, way in ways.items():
            start = time.process_time()
            if gradients:
                way().sum().backward()
            else:
                with torch.no_grad():
                    way()
            if round_:
                times[name].append((time.process_time() - start) * 1e3)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main(names: list[str]) -> None:
    """Prints two tables."""
    torch.set_num_threads(1)
    for unequal in (True, False):
        torch.manual_seed(0)
        header = f"{'lengths 50-100 %' if unequal else 'equal lengths'}, ms per loop"
        ways_shown = ("torch", "with where", "by hand", "rfnb", "not hoisted")
        print(f"{header:<34}" + "".join(f"{name:>18}" for name in ways_shown))
        for name, make in cases(unequal).items():
            if not names or name in names:
                show(name, make())


def show(name: str, case: Rnn | Decoder) -> None:
    """Prints the rows of a case."""
    ways = case.ways()
    valid = case.going.transpose(0, 1)
    expected = ways["torch"]().transpose(0, 1) * valid
    for way in ways.values():
        torch.testing.assert_close(way().transpose(0, 1) * valid, expected, rtol=1e-3, atol=1e-4)
    for gradients in (False, True):
        found = measure(ways, gradients)
        row = "".join(f"{taken:>10.1f} {taken / found['torch']:>5.2f}×" for taken in found.values())
        print(f"{name:<28}{'f+b' if gradients else 'fwd':<6}{row}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
