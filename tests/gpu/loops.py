"""Loops over a batch of unequal lengths: an RNN by hand, an LSTM, a decoder with attention, a search with an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim

feat, hidden, vocab = Dim(16, name="feat"), Dim(32, name="hidden"), Dim(12, name="vocab")


def batch(device: str, lengths: list[int]) -> tuple[Tensor, Dim]:
    """{batch, time, feat}"""
    time = Dim(None, name="time")
    raw = torch.randn(len(lengths), max(lengths), feat.dimension or 0, generator=torch.Generator().manual_seed(1))
    x = rf.convert_to_tensor(raw.to(device).requires_grad_(), dims=[batch_dim, time, feat], lengths=lengths)
    return x, time


class RNN(rf.Module):
    """A loop of two products."""

    def __init__(self) -> None:
        self.inside, self.again = rf.Linear(feat, hidden), rf.Linear(hidden, hidden.copy(same_as_self=False))

    def __call__(self, x: Tensor, time: Dim) -> Tensor:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch_dim, hidden])
        with loop:
            again, _ = rf.replace_dim(self.again(loop.state.h), in_dim=self.again.out_dim, out_dim=hidden)
            loop.state.h = rf.tanh(self.inside(loop.unstack(x)) + again)
            out = loop.stack(loop.state.h)
        return out


class LSTM(rf.Module):
    """A recurrent layer."""

    def __init__(self) -> None:
        self.lstm = rf.LSTM(feat, hidden)

    def __call__(self, x: Tensor, time: Dim) -> Tensor:
        start = self.lstm.default_initial_state(batch_dims=[batch_dim])
        out, _ = self.lstm(x, state=start, spatial_dim=time)
        return out


class Decoder(rf.Module):
    """Each step attends to all frames; the sum of its weights is fed back."""

    def __init__(self) -> None:
        self.key, self.query, self.out = rf.Linear(feat, hidden), rf.Linear(hidden, hidden), rf.Linear(feat, hidden)

    def __call__(self, x: Tensor, time: Dim) -> Tensor:
        keys = self.key(x)
        loop = rf.Loop(axis=Dim(None, name="steps"), max_seq_len=time.get_size_tensor())
        loop.state.h = rf.zeros([batch_dim, hidden])
        loop.state.coverage = rf.zeros([batch_dim, time])
        with loop:
            energy = rf.matmul(keys, self.query(loop.state.h), reduce=hidden) / (1.0 + loop.state.coverage)
            weights = rf.softmax(energy, axis=time)
            loop.state.coverage = loop.state.coverage + weights
            loop.state.h = rf.tanh(self.out(rf.matmul(weights, x, reduce=time)))
            out = loop.stack(loop.state.h)
        return out


class Search(rf.Module):
    """The best label goes into the next step, up to one that ends the sequence, or to the number of its frames."""

    def __init__(self) -> None:
        self.start, self.out = rf.Linear(feat, hidden), rf.Linear(hidden, vocab)
        self.table = rf.Embedding(vocab, hidden)

    def __call__(self, x: Tensor, time: Dim) -> Tensor:
        loop = rf.Loop(max_seq_len=x.size_of(time).max)
        loop.state.h = self.start(rf.reduce_mean(x, axis=time))
        with loop:
            label = rf.reduce_argmax(self.out(loop.state.h), axis=vocab)
            loop.state.h = rf.tanh(loop.state.h + self.table(label))
            last = loop.iter_idx + 1 >= time.get_size_tensor(device=x.device)
            loop.end(rf.logical_or(label == 0, last), include_eos=True)
            out = loop.stack(loop.state.h)
        return out


LOOPS: dict[str, Callable[[], Any]] = {"RNN": RNN, "LSTM": LSTM, "decoder": Decoder, "search": Search}


def loss(model: Any, x: Tensor, time: Dim) -> torch.Tensor:
    """A sum over all valid frames."""
    out = model(x, time)
    return rf.reduce_sum(rf.square(out), axis=out.dims).raw_tensor
