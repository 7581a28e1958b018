"""What a beam search costs beside the same by hand in torch: python tests/bench/bench_beam.py [rounds] [names…]

CPU time, one thread, no gradients. Of each of several batches, all ways run in turn, in an order that alternates and
with new dims each time; the least time of each way counts. Shown are the median and the range over the batches.

    torch      the search by hand, ms; its share: how much of it is not the step of the model
    loop       `loop.choice` in an `rf.Loop`                            against torch
    steps      the loop without the search                              against the steps of the model in torch
    share      how much of the loop is the search
    begin      how much of the loop is not its steps: tracing, and what happens before and after them
    recorded   the loop with `rf.recording("last")`                     against the loop
    decode     `rf.search.decode` of the step in torch                  against torch
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any, NamedTuple

import torch
from torch.nn import functional

import rfnb as rf
from rfnb import batch_dim

LABELS, END, WORDS = 40, 0, 16
Result = tuple[torch.Tensor, torch.Tensor]


class Words:
    """A batch of encoded words of unequal length, each with a limit of its own."""

    def __init__(self, size: int, longest: int, seed: int):
        random = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(longest // 2, longest + 1, [WORDS], generator=random)
        self.lengths[0] = longest
        self.encoded = torch.randn(WORDS, longest, size, generator=random)
        self.padding = torch.arange(longest) >= self.lengths[:, None]
        self.limits = 2 * self.lengths

    def short(self) -> Words:
        """The same with a limit of 1 step."""
        other = copy(self)
        other.limits = self.limits.clamp(max=1)
        return other


class Lstm(rf.Module):
    """A decoder like that of a translation model without attention: it starts from what the encoder found last."""

    ends = 0.0  # the bias of the end

    def __init__(self, size: int):
        names = ("memory", "vector", "hidden")
        self.memory, self.vector, self.hidden = (rf.Dim(size, name=name) for name in names)
        self.label = rf.Dim(LABELS, name="label")
        self.embedding = rf.Embedding(self.label, self.vector)
        self.start = rf.Linear(self.memory, self.hidden)
        self.lstm = rf.LSTM(self.inputs, self.hidden)
        self.readout = rf.Linear(self.outputs, self.label)

    @property
    def inputs(self) -> rf.Dim:
        """The inputs of the LSTM."""
        return self.vector

    @property
    def outputs(self) -> rf.Dim:
        """The inputs of the readout."""
        return self.hidden

    def sharpen(self) -> None:
        """Random weights large enough for distributions with an order, and for ends that come late."""
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.raw_tensor.mul_(2)
            self.readout.weight.raw_tensor.mul_(2)
            self.readout.bias.raw_tensor.zero_()
            self.readout.bias.raw_tensor[END] = self.ends

    # -- in rfnb

    def encoder(self, words: Words, time_dim: rf.Dim) -> tuple[Any, ...]:
        """What the steps read."""
        lengths = words.lengths.tolist()
        return (rf.convert_to_tensor(words.encoded, dims=[batch_dim, time_dim, self.memory], lengths=lengths),)

    def initial(self, beam: rf.Dim, encoded: rf.Tensor, *rest: Any) -> rf.State:
        """The first state."""
        lstm = self.lstm.default_initial_state(batch_dims=[batch_dim, beam])
        h = rf.tanh(self.start(rf.reduce_mean(encoded, axis=encoded.dims[1])))
        return rf.State(h=lstm.h + h, c=lstm.c)

    def step(self, prev: rf.Tensor, state: rf.State, *given: Any) -> tuple[rf.Tensor, rf.State]:
        """The scores of the next labels, and the next state."""
        h, state = self.lstm(self.embedding(prev), state=state, spatial_dim=rf.single_step_dim)
        return self.readout(h), state

    # -- in torch

    def hand_encoder(self, words: Words) -> tuple[torch.Tensor, ...]:
        """What the steps read."""
        return words.encoded, words.padding

    def hand_initial(self, encoded: torch.Tensor, padding: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
        """The first state, [batch, …] each."""
        mean = encoded.masked_fill(padding[..., None], 0).sum(1) / (~padding).sum(1, keepdim=True)
        h = torch.tanh(functional.linear(mean, self.start.weight.raw_tensor.t(), self.start.bias.raw_tensor))
        return h, torch.zeros_like(h)

    def hand_step(self, prev: torch.Tensor, state: Any, *given: Any) -> tuple[torch.Tensor, Any]:
        """The same step for [batch·beam]."""
        h, c = self.hand_lstm(functional.embedding(prev, self.embedding.weight.raw_tensor), state)
        return functional.linear(h, self.readout.weight.raw_tensor.t(), self.readout.bias.raw_tensor), (h, c)

    def hand_lstm(self, x: torch.Tensor, state: Any) -> Any:
        """The cell."""
        lstm = self.lstm
        ff, rec, bias = lstm.ff_weight.raw_tensor, lstm.rec_weight.raw_tensor, lstm.bias.raw_tensor
        i, f, g, o = torch.addmm(functional.linear(x, ff, bias), state[0], rec.t()).chunk(4, 1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Attention(Lstm):
    """An LSTM with MLP attention (Bahdanau et al. 2015), as for letters to phonemes."""

    ends = 1.5

    def __init__(self, size: int):
        self.key = rf.Dim(size, name="key")
        super().__init__(size)
        self.to_key, self.to_query = rf.Linear(self.memory, self.key), rf.Linear(self.hidden, self.key, with_bias=False)
        self.energy = rf.Parameter([self.key])
        self.energy.initial = rf.init.Normal(0.5)

    @property
    def inputs(self) -> rf.Dim:
        """The inputs of the LSTM."""
        return self.vector + self.memory

    @property
    def outputs(self) -> rf.Dim:
        """The inputs of the readout."""
        return self.hidden + self.memory

    def encoder(self, words: Words, time_dim: rf.Dim) -> tuple[Any, ...]:
        """What the steps read."""
        (encoded,) = super().encoder(words, time_dim)
        return encoded, self.to_key(encoded)

    def initial(self, beam: rf.Dim, encoded: rf.Tensor, *rest: Any) -> rf.State:
        """The first state."""
        return rf.State(lstm=super().initial(beam, encoded), context=rf.zeros([batch_dim, beam, self.memory]))

    def step(self, prev: rf.Tensor, state: rf.State, *given: Any) -> tuple[rf.Tensor, rf.State]:
        """The scores of the next labels, and the next state."""
        encoded, keys = given
        x, _ = rf.concat((self.embedding(prev), self.vector), (state.context, self.memory))
        h, lstm = self.lstm(x, state=state.lstm, spatial_dim=rf.single_step_dim)
        energy = rf.dot(rf.tanh(rf.combine_bc(self.to_query(h), "add", keys)), self.energy, reduce=self.key)
        weights = rf.softmax(energy, axis=encoded.dims[1])
        context = rf.dot(weights, encoded, reduce=encoded.dims[1])
        both, _ = rf.concat((h, self.hidden), (context, self.memory))
        return self.readout(both), rf.State(lstm=lstm, context=context)

    def hand_encoder(self, words: Words) -> tuple[torch.Tensor, ...]:
        """What the steps read."""
        keys = functional.linear(words.encoded, self.to_key.weight.raw_tensor.t(), self.to_key.bias.raw_tensor)
        return words.encoded, words.padding, keys.unsqueeze(1), words.padding.unsqueeze(1)

    def hand_initial(self, encoded: torch.Tensor, padding: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
        """The first state, [batch, …] each."""
        h, c = super().hand_initial(encoded, padding)
        return h, c, torch.zeros_like(h)

    def hand_step(self, prev: torch.Tensor, state: Any, *given: Any) -> tuple[torch.Tensor, Any]:
        """The same step for [batch·beam]."""
        encoded, _, keys, padding = given
        vector = functional.embedding(prev, self.embedding.weight.raw_tensor)
        h, c = self.hand_lstm(torch.cat([vector, state[2]], 1), state)
        query = h.mm(self.to_query.weight.raw_tensor).view(WORDS, -1, 1, h.shape[1])
        energy = torch.tanh(query + keys).matmul(self.energy.raw_tensor).masked_fill_(padding, -torch.inf)
        context = torch.bmm(torch.softmax(energy, -1), encoded).view_as(h)
        weight, bias = self.readout.weight.raw_tensor, self.readout.bias.raw_tensor
        return functional.linear(torch.cat([h, context], 1), weight.t(), bias), (h, c, context)


class Case(NamedTuple):
    """A model and a batch."""

    model: Lstm
    words: Words
    beam: int

    # -- by hand

    def torch(self) -> Result:
        """The labels {batch, beam, steps}, -1 behind their end, and the normalized scores of the hypotheses."""
        model, words, size = self.model, self.words, self.beam
        given = model.hand_encoder(words)
        state = tuple(part.repeat_interleave(size, 0) for part in model.hand_initial(*given))
        steps = int(words.limits.max())
        over = (torch.arange(steps)[:, None, None] >= words.limits[:, None]).unbind(0)
        first = torch.arange(WORDS)[:, None] * size
        stays = torch.full([LABELS], -torch.inf)
        stays[0] = 0
        scores = torch.full([WORDS, size], -torch.inf)
        scores[:, 0] = 0
        ended = torch.zeros([WORDS, size], dtype=torch.bool)
        counts = torch.ones([WORDS, size])
        prev = torch.zeros(WORDS * size, dtype=torch.int64)
        kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        for step in range(steps):
            past = ended | over[step]
            if past.all():
                break
            logits, state = model.hand_step(prev, state, *given)
            compared = torch.where(past, scores * ((step + 1) / counts), scores)
            log_probs = torch.log_softmax(logits, -1).view(WORDS, size, LABELS)
            log_probs = torch.where(past[..., None], stays, log_probs)
            best, index = (log_probs + compared[..., None]).view(WORDS, -1).topk(size)
            parents, labels = index.div(LABELS, rounding_mode="floor"), index.remainder(LABELS)
            rows = (parents + first).view(-1)
            had = past.view(-1)[rows].view_as(past)
            scores = torch.where(had, scores.view(-1)[rows].view_as(scores), best)
            counts = torch.where(had, counts.view(-1)[rows].view_as(counts), step + 1)
            ended = ended.view(-1)[rows].view_as(ended) | (labels == END)
            kept.append((labels, parents, had))
            prev, state = labels.view(-1), tuple(part.index_select(0, rows) for part in state)
        place = torch.arange(size).expand(WORDS, size)
        found = []
        for labels, parents, had in reversed(kept):
            found.append(labels.masked_fill(had, -1).gather(1, place))
            place = parents.gather(1, place)
        return torch.stack(found[::-1], -1), scores / counts

    def torch_steps(self, steps: int) -> None:
        """The steps alone, as often."""
        given = self.model.hand_encoder(self.words)
        state = tuple(part.repeat_interleave(self.beam, 0) for part in self.model.hand_initial(*given))
        prev = torch.zeros(WORDS * self.beam, dtype=torch.int64)
        for _ in range(steps):
            _, state = self.model.hand_step(prev, state, *given)

    # -- with rfnb

    def loop(self, *, record: bool = False) -> tuple[rf.Tensor, rf.search.Found]:
        """`loop.choice` in a loop: the labels {batch, beam, steps}, and what was found."""
        model, given, limits, beam = self.given()
        loop = rf.Loop(max_seq_len=limits, name="search")
        loop.state.model = model.initial(beam, *given)
        loop.state.prev = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=model.label)
        with rf.recording("last") if record else nullcontext(), loop:
            logits, loop.state.model = model.step(loop.state.prev, loop.state.model, *given)
            chosen = loop.choice(logits, beam=beam, axis=model.label, input_type="logits")
            loop.state.prev = chosen.labels
            loop.end(chosen.labels == END, include_eos=True)
            labels = loop.stack(chosen.labels)
        return labels.copy_transpose([batch_dim, beam, loop.axis]), loop.found

    def loop_steps(self, steps: int) -> None:
        """The same without the search."""
        model, given, _, beam = self.given()
        loop = rf.Loop(max_seq_len=steps, name="steps")
        loop.state.model = model.initial(beam, *given)
        loop.state.prev = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=model.label)
        loop.state.logits = rf.zeros([batch_dim, beam, model.label])
        with loop:
            loop.state.logits, loop.state.model = model.step(loop.state.prev, loop.state.model, *given)

    def given(self) -> tuple[Lstm, tuple[Any, ...], rf.Tensor, rf.Dim]:
        """What the loops begin with, with new dims."""
        given = self.model.encoder(self.words, rf.Dim(None, name="letters"))
        limits = rf.convert_to_tensor(self.words.limits, dims=[batch_dim])
        return self.model, given, limits, rf.Dim(self.beam, name="beam")

    def decode(self) -> rf.search.Found:
        """`rf.search.decode`."""
        model, words = self.model, self.words
        given = model.hand_encoder(words)
        return rf.search.decode(
            lambda prev, state: model.hand_step(prev, state, *given), model.hand_initial(*given),
            beam=self.beam, start=0, end=END, limit=words.limits.tolist(), include_eos=True,
        )  # fmt: skip

    # -- all

    def check(self) -> None:
        """All ways find the same, but for a few hypotheses whose scores are the same up to rounding."""
        labels, scores = self.torch()
        stacked, found = self.loop()
        inside = torch.arange(labels.shape[2]) < found.lengths.raw_tensor[..., None]
        assert (stacked.raw_tensor.masked_fill(~inside, -1) != labels).any(2).double().mean() < 0.01
        torch.testing.assert_close(found.scores.raw_tensor, scores, rtol=1e-3, atol=1e-4)
        decoded = self.decode()
        torch.testing.assert_close(decoded.scores.raw_tensor, scores, rtol=1e-3, atol=1e-4)
        ours, others = (itertools.chain(*result.nbest(self.beam, text=False)) for result in (decoded, found))
        assert statistics.mean(a != b for a, b in zip(ours, others, strict=True)) < 0.01

    def times(self, rounds: int) -> dict[str, float]:
        """The least milliseconds of each way."""
        steps = self.torch()[0].shape[2]
        begin = Case(self.model, self.words.short(), self.beam)
        ways: dict[str, Callable[[], Any]] = {
            "torch": self.torch,
            "torch steps": lambda: self.torch_steps(steps),
            "loop": self.loop,
            "loop steps": lambda: self.loop_steps(steps),
            "begin": begin.loop,
            "recorded": lambda: self.loop(record=True),
            "decode": self.decode,
        }
        least = dict.fromkeys(ways, float("inf"))
        for number in range(rounds):
            for name in reversed(ways) if number % 2 else ways:
                start = time.process_time()
                ways[name]()
                least[name] = min(least[name], 1e3 * (time.process_time() - start))
            rf.runs.clear()
        return least


def spread(values: list[float]) -> str:
    """The median, and the range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


COLUMNS: dict[str, Callable[[dict[str, float]], float]] = {
    "torch": lambda x: x["torch"],
    "its share": lambda x: 1 - x["torch steps"] / x["torch"],
    "loop": lambda x: x["loop"] / x["torch"],
    "steps": lambda x: x["loop steps"] / x["torch steps"],
    "share": lambda x: 1 - x["loop steps"] / x["loop"],
    "begin": lambda x: x["begin"] / x["loop"],
    "recorded": lambda x: x["recorded"] / x["loop"],
    "decode": lambda x: x["decode"] / x["torch"],
}


def row(make: type[Lstm], size: int, beam: int, rounds: int) -> str:
    """A row of the table."""
    torch.manual_seed(1)
    model = make(size)
    model.sharpen()
    cases = [Case(model, Words(size, 25, seed), beam) for seed in range(4)]
    for case in cases:
        case.check()
    taken = [case.times(rounds) for case in cases]
    return "".join(f"{spread([column(each) for each in taken]):>22}" for column in COLUMNS.values())


def main(rounds: int, names: list[str]) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    print(f"{'':<28}" + "".join(f"{name:>22}" for name in COLUMNS))
    cases = itertools.product({"lstm": Lstm, "attention": Attention}.items(), (32, 256), (12, 4))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.errors.LoopWarning)  # the loop without a search sets no label
        for (name, make), size, beam in cases:
            label = f"{name} H={size} beam={beam}"
            if not names or any(part in label for part in names):
                print(f"{label:<28}" + row(make, size, beam, rounds), flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given.pop(0)) if given and given[0].isdigit() else 15, given)
