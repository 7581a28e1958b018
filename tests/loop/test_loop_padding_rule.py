"""Padding is finite: it spoils no value and no gradient, whatever is computed with it, in a body and outside of one.

Each form is computed for a batch and, in plain torch, for each of its sequences alone.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

H = rf.Dim(4, name="h")
Form = Callable[[Any, Any, Any, Any], Any]


def named(time: rf.Dim) -> SimpleNamespace:
    """The ops of the forms, on rf.Tensors: over the frames of a sequence (`time`), over the features (`h`)."""
    reductions = {
        f"{what}_{where}": lambda x, fn=fn, axis=axis: fn(x, axis=axis)
        for what, fn in (("sum", rf.reduce_sum), ("mean", rf.reduce_mean), ("max", rf.reduce_max))
        for where, axis in (("h", H), ("time", time))
    }
    same = {op: getattr(rf, op) for op in ("log", "log1p", "sqrt", "rsqrt", "reciprocal", "exp", "abs", "square")}
    return SimpleNamespace(
        **reductions,
        **same,
        softmax_h=lambda x: rf.softmax(x, axis=H),
        softmax_time=lambda x: rf.softmax(x, axis=time),
        cumsum_time=lambda x: rf.cumsum(x, spatial_dim=time),
    )


PLAIN = SimpleNamespace(
    **{
        f"{what}_{where}": lambda x, fn=fn, axis=axis: fn(x, dim=axis, keepdim=True)
        for what, fn in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax))
        for where, axis in (("h", 1), ("time", 0))
    },
    **{op: getattr(torch, op) for op in ("log", "log1p", "sqrt", "rsqrt", "reciprocal", "exp", "abs", "square")},
    softmax_h=lambda x: x.softmax(1),
    softmax_time=lambda x: x.softmax(0),
    cumsum_time=lambda x: x.cumsum(0),
)
"""The same ops in plain torch, for one sequence: [time or 1, h or 1]."""


def norm(o: Any, x: Any) -> Any:
    return o.sqrt(o.sum_h(o.square(x)))


def centred(o: Any, x: Any) -> Any:
    return x - o.mean_h(x)


def kl(o: Any, x: Any, g: Any, w: Any) -> Any:
    p = x * g / o.sum_h(x * g)
    return o.sum_h(p * (o.log(p) - o.log(o.softmax_h(w))))


FRAMES: dict[str, Form] = {
    "log(x * g)": lambda o, x, g, w: o.log(x * g),
    "log1p(x * g - 1)": lambda o, x, g, w: o.log1p(x * g - 1.0),
    "sqrt(x * g)": lambda o, x, g, w: o.sqrt(x * g),
    "rsqrt(x * g)": lambda o, x, g, w: o.rsqrt(x * g),
    "reciprocal(x * g)": lambda o, x, g, w: o.reciprocal(x * g),
    "1 / (x * g)": lambda o, x, g, w: 1.0 / (x * g),
    "(x * g) ** 0.5": lambda o, x, g, w: (x * g) ** 0.5,
    "(x * g) ** -1.5": lambda o, x, g, w: (x * g) ** -1.5,
    "(x * g) ** w": lambda o, x, g, w: (x * g) ** w,
    "g / x": lambda o, x, g, w: g / x,
    "w / x": lambda o, x, g, w: w / x,
    "g / (x * x)": lambda o, x, g, w: g / (x * x),
    "log of a sum": lambda o, x, g, w: o.log(o.sum_h(x * g)),
    "cosine of frames to a vector": lambda o, x, g, w: o.sum_h(x * g) / (norm(o, x) * norm(o, g)),
    "x * g over its norm": lambda o, x, g, w: x * g / norm(o, x * g),
    "x * g over its max": lambda o, x, g, w: x * g / o.max_h(x * g),
    "x * g over its sum": lambda o, x, g, w: x * g / o.sum_h(x * g),
    "KL": kl,
    "layer norm without eps": lambda o, x, g, w: centred(o, x * g) / norm(o, centred(o, x * g)) * w,
    "layer norm by rsqrt": lambda o, x, g, w: centred(o, x * g) * o.rsqrt(o.mean_h(o.square(centred(o, x * g)))),
    "standard deviation": lambda o, x, g, w: norm(o, centred(o, x * g)),
    "e / (1 + abs(e))": lambda o, x, g, w: (e := o.sum_h(x * g)) / (1.0 + o.abs(e)),
    "x * g / (1 - w + x * g)": lambda o, x, g, w: x * g / (1.0 - w * w + x * g),
    "log(abs(x * g)) * e": lambda o, x, g, w: o.log(o.abs(x * g)) * o.sum_h(x * w),
}
"""What is computed frame by frame. x {time, h}: positive, with 0 as padding; g {h}: of the sequence; w {h}: weight."""

SEQUENCES: dict[str, Form] = {
    "e * log(softmax(e) + 1e-8)": lambda o, x, g, w: (e := o.sum_h(x * g)) * o.log(o.softmax_time(e) + 1e-8),
    "rsqrt(softmax(e) + 1)": lambda o, x, g, w: o.rsqrt(o.softmax_time(o.sum_h(x * g)) + 1.0),
    "log(softmax(e))": lambda o, x, g, w: o.log(o.softmax_time(o.sum_h(x * g))),
    "e / (1 + coverage)": lambda o, x, g, w: (e := o.sum_h(x * g)) / (1.0 + o.cumsum_time(o.softmax_time(e))),
    "e / coverage": lambda o, x, g, w: (e := o.sum_h(x * g)) / o.cumsum_time(o.softmax_time(e)),
    "e / sum(e)": lambda o, x, g, w: (e := o.sum_h(x * g)) / o.sum_time(e),
    "w * g / sum(e) * x": lambda o, x, g, w: w * g / o.sum_time(o.sum_h(x * g)) * x,
    "x * g over its max over time": lambda o, x, g, w: x * g / o.max_time(x * g),
    "x * g over its norm over time": lambda o, x, g, w: x * g / o.sqrt(o.sum_time(o.square(x * g))),
    "x over its standard deviation over time": lambda o, x, g, w: (
        g * x * o.rsqrt(o.mean_time(o.square(x - o.mean_time(x * w))))
    ),
    "softmax by hand": lambda o, x, g, w: (a := o.exp((e := o.sum_h(x * g)) - o.max_time(e))) / o.sum_time(a) * x,
    "e minus the log of a sum": lambda o, x, g, w: (e := o.sum_h(x * g)) - o.log(o.sum_time(o.exp(e))),
}
"""What is computed over the frames of a sequence."""


class Data:
    """A batch of frames and weights in plain torch."""

    def __init__(self, lengths: list[int]):
        random = torch.Generator().manual_seed(1)
        self.lengths = lengths
        self.rows = [torch.rand(n, 4, generator=random) + 0.5 for n in lengths]
        self.weights = {
            name: torch.randn(*shape, generator=random) * 0.3
            for name, shape in (("weight", [4, 4]), ("bias", [4]), ("w", [4]))
        }

    def alone(self, of_sequence: Callable[..., torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The loss by plain torch, each sequence alone, and its gradients."""
        weight, bias, w = (each.requires_grad_() for each in self.weights.values())
        loss = torch.zeros(())
        for row in self.rows:
            if len(row.requires_grad_()):
                g = (row.mean(0, keepdim=True) @ weight + bias).exp()
                loss = loss + of_sequence(row, g, w[None])
        loss.backward()
        by_row = [torch.zeros_like(row) if row.grad is None else row.grad for row in self.rows]
        return loss.detach(), {"x": torch.nn.utils.rnn.pad_sequence(by_row, True)} | gradients(self.weights)

    def batched(self, of_batch: Callable[..., rf.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The loss by rfnb, of the padded batch, and its gradients."""
        time = rf.Dim(None, name="time")
        raw = torch.nn.utils.rnn.pad_sequence(self.rows, batch_first=True).requires_grad_()
        x = rf.convert_to_tensor(raw, dims=[batch_dim, time, H], lengths=self.lengths)
        lin, w = rf.Linear(H, H.copy(same_as_self=False)), rf.Parameter([H])
        parameters = {"weight": lin.weight.raw_tensor, "bias": lin.bias.raw_tensor, "w": w.raw_tensor}
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.weights[name])
        out, _ = rf.replace_dim(lin(rf.reduce_mean(x, axis=time)), in_dim=lin.out_dim, out_dim=H)
        loss = of_batch(named(time), time, x, rf.exp(out), w).raw_tensor
        loss.backward()
        return loss.detach(), gradients({"x": raw, **parameters})


def gradients(leaves: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradient of each; 0 where the loss does not depend on it."""
    return {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}


def check(lengths: list[int], of_batch: Callable[..., rf.Tensor], of_sequence: Callable[..., torch.Tensor]) -> None:
    """The loss and all gradients of the batch are finite, and equal to those of the sequences alone."""
    expected, expected_gradients = Data(lengths).alone(of_sequence)
    loss, found = Data(lengths).batched(of_batch)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    assert [name for name, gradient in found.items() if not gradient.isfinite().all()] == [], "not finite"
    for name, gradient in found.items():
        torch.testing.assert_close(
            gradient, expected_gradients[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def total(y: rf.Tensor) -> rf.Tensor:
    """A loss that depends on every entry."""
    return rf.reduce_sum(rf.sin(y), axis=y.dims)


all_forms = FRAMES | SEQUENCES
every_form = pytest.mark.parametrize("form", all_forms)
every_batch = pytest.mark.parametrize("lengths", [[3, 1], [3, 0]], ids=str)


@every_batch
@every_form
def test_a_padded_batch_gives_what_its_sequences_give_alone(form, lengths):
    fn = all_forms[form]
    check(
        lengths,
        lambda o, time, x, g, w: total(fn(o, x, g, w)),
        lambda x, g, w: fn(PLAIN, x, g, w).sin().sum(),
    )


@pytest.mark.parametrize("hoist", [None, True, False])
@every_batch
@pytest.mark.parametrize("form", FRAMES)
def test_frames_of_ended_sequences_do_no_harm_in_a_body(form, lengths, hoist):
    fn = FRAMES[form]

    def of_batch(o, time, x, g, w):
        loop = rf.Loop(axis=time, optimize_move_layers_out=hoist)
        loop.state.s = rf.zeros([batch_dim, H])
        with loop:
            y = fn(o, loop.unstack(x) + 0.1 * loop.state.s, g, w)
            loop.state.s = rf.sigmoid(y + loop.state.s)
            out = loop.stack(y)
        return total(out) + total(loop.state.s)

    def of_sequence(x, g, w):
        s, loss = torch.zeros(1, 4), torch.zeros(())
        for frame in x:
            y = fn(PLAIN, frame[None] + 0.1 * s, g, w)
            s = torch.sigmoid(y + s)
            loss = loss + y.sin().sum()
        return loss + s.sin().sum()

    check(lengths, of_batch, of_sequence)


@pytest.mark.parametrize("hoist", [None, True, False])
@every_batch
@every_form
def test_padding_inside_a_step_does_no_harm(form, lengths, hoist):
    fn = all_forms[form]

    def of_batch(o, time, x, g, w):
        steps = rf.Dim(None, name="steps")
        loop = rf.Loop(max_seq_len=time.get_size_tensor(), axis=steps, optimize_move_layers_out=hoist)
        loop.state.s = rf.zeros([batch_dim, H])
        with loop:
            y = fn(o, x + 0.1 * loop.state.s, g, w)
            context = rf.reduce_sum(rf.sin(y), axis=time)
            loop.state.s = rf.sigmoid(context + loop.state.s)
            out = loop.stack(context)
        return total(out) + total(loop.state.s)

    def of_sequence(x, g, w):
        s, loss = torch.zeros(1, 4), torch.zeros(())
        for _ in x:
            context = fn(PLAIN, x + 0.1 * s, g, w).sin().sum(0, keepdim=True)
            s = torch.sigmoid(context + s)
            loss = loss + context.sin().sum()
        return loss + s.sin().sum()

    check(lengths, of_batch, of_sequence)


GOES_WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "log": lambda o, c: o.log(c),
    "sqrt": lambda o, c: o.sqrt(c),
    "rsqrt": lambda o, c: o.rsqrt(c),
    "power": lambda o, c: c**1.5,
    "division": lambda o, c: 1.0 / (c + o.abs(c)),
    "log1p": lambda o, c: o.log1p(c - 1.0),
}
"""Each is defined for positive numbers only."""


ENDINGS = [
    ([3, 1], "axis"), ([3, 1], "max_seq_len"), ([3, 1], "end above"), ([3, 1], "end below"),
    ([3, 0], "axis"), ([3, 0], "max_seq_len"), ([3, 0], "end above"),
]  # fmt: skip
"""How the sequences end. Below the op, `loop.end` ends them after their last step."""


@pytest.mark.parametrize("hoist", [None, False])
@pytest.mark.parametrize(("lengths", "ends"), ENDINGS, ids=str)
@pytest.mark.parametrize("form", GOES_WRONG)
def test_what_a_body_computes_after_the_end_does_no_harm(form, lengths, ends, hoist):
    """The state is positive up to the end of the sequence; one step more would make it negative."""
    fn = GOES_WRONG[form]

    def of_batch(o, time, x, g, w):
        axis = time if ends == "axis" else rf.Dim(None, name="steps")
        size = time.get_size_tensor()
        longest = {"axis": None, "max_seq_len": size}.get(ends, 5)
        loop = rf.Loop(axis=axis, max_seq_len=longest, optimize_move_layers_out=hoist)
        loop.state.c = rf.zeros([batch_dim, H]) + 1.0
        part = 1.0 / (rf.cast(size, "float32") + 0.1)
        with loop:
            loop.state.c = loop.state.c - part * (rf.tanh(w) * 0.1 + 0.9)
            if ends == "axis":
                loop.unstack(x)
            if ends == "end above":
                loop.end(loop.iter_idx >= size, include_eos=False)
            out = loop.stack(fn(o, loop.state.c) * g)
            if ends == "end below":
                loop.end(loop.iter_idx + 1 >= size, include_eos=True)
        return total(out) + total(rf.where(size > 0, loop.state.c, 0.0))

    def of_sequence(x, g, w):
        c, loss = torch.ones(1, 4), torch.zeros(())
        for _ in x:
            c = c - (w.tanh() * 0.1 + 0.9) / (len(x) + 0.1)
            loss = loss + (fn(PLAIN, c) * g).sin().sum()
        return loss + c.sin().sum()

    check(lengths, of_batch, of_sequence)


OVER_NOTHING: dict[str, Form] = {
    "x times a max": lambda o, x, g, w: x * w * o.max_time(x * g),
    "w plus a max": lambda o, x, g, w: w * x + o.max_time(x * g),
    "w minus a min": lambda o, x, g, w: w * x - o.max_time(-x * g),
}
"""No valid frame depends on the max of a sequence that has none."""


@pytest.mark.parametrize("form", OVER_NOTHING)
def test_a_max_over_no_frames_does_no_harm(form):
    fn = OVER_NOTHING[form]
    check(
        [3, 0],
        lambda o, time, x, g, w: total(fn(o, x, g, w)),
        lambda x, g, w: fn(PLAIN, x, g, w).sin().sum(),
    )


@pytest.mark.parametrize("hoist", [None, False])
def test_a_max_over_no_frames_does_no_harm_in_a_body(hoist):
    def of_batch(o, time, x, g, w):
        loop = rf.Loop(axis=time, optimize_move_layers_out=hoist)
        loop.state.s = rf.zeros([batch_dim, H])
        with loop:
            highest = o.max_time(x * g)
            loop.state.s = rf.tanh(loop.unstack(x) * w + highest + loop.state.s)
            out = loop.stack(highest * w)
        return total(out) + total(loop.state.s)

    def of_sequence(x, g, w):
        s, highest = torch.zeros(1, 4), PLAIN.max_time(x * g)
        for frame in x:
            s = torch.tanh(frame * w + highest + s)
        return len(x) * (highest * w).sin().sum() + s.sin().sum()

    check([3, 0], of_batch, of_sequence)
