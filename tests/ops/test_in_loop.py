"""In the body of a loop every op gives what it gives for each step alone: values, gradients, and again in a replay."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.backend.base.tape import current_tape
from rfnb.backend.torch.math import ACTIVATION
from rfnb.core.dims import align
from rfnb.core.ground.nested import leaves
from rfnb.core.tensor.listener import active_listener
from rfnb.errors import DimError, DtypeError, ParameterError, RfError, TraceError
from tests.ops.batches import FEAT, HALF, OUT, VOCAB, Batch, batch_of
from tests.ops.test_promises import (
    CASES as PROMISED,
    NEEDS_FRAMES,
    PER_FRAME,
    SHARED,
    assert_close,
    assert_same,
    in_dims_of,
    valid,
)

pytestmark = pytest.mark.usefixtures("inference")

Case = Callable[[Batch], Any]
FACTORS = [1.0, 0.75, 0.75**2]
UNARY = [*ACTIVATION, "ones_like"]
BINARY = "pow minimum squared_difference not_equal less_equal greater greater_equal".split()
FURTHER: dict[str, Case] = {
    **{name: lambda b, name=name: getattr(rf, name)(rf.abs(b.x) + 0.1) for name in UNARY},
    **{name: lambda b, name=name: getattr(rf, name)(rf.abs(b.x), b.v) for name in BINARY},
    **{
        f"reduce_{mode}": lambda b, mode=mode: rf.reduce(b.x, mode=mode, axis=b.time)
        for mode in ("max", "min", "argmax", "argmin")
    },
    "logical": lambda b: [
        rf.logical_and(b.x > 0.0, b.y > 0.0),
        rf.logical_or(b.x > 0.0, b.y > 0.0),
        rf.logical_not(b.x > 0.0),
        rf.reduce_all(b.x > -2.0, axis=b.time),
    ],
    "combine": lambda b: rf.combine_bc(b.v, "mul", b.w),
    "compare": lambda b: rf.compare_bc(b.v, "less", b.w),
    "full": lambda b: rf.full(dims=[batch_dim, b.time], fill_value=3.0),
    "full of a value": lambda b: rf.full(dims=[batch_dim, b.time], fill_value=rf.reduce_sum(b.w, axis=[FEAT, OUT])),
    "range_over_dim": lambda b: rf.range_over_dim(b.time),
    "longest": lambda b: b.time.get_dim_value_tensor(),
    "entries_of": lambda b: b.x.num_elements(),
    "sequence_mask": lambda b: rf.sequence_mask([batch_dim, b.time]),
    "raw_call": lambda b: rf.raw_call(lambda raw: raw.sort(-1)[0], b.v, out_dims=[batch_dim, FEAT]),
    "cond": lambda b: rf.cond(len(b.x.dims) > 1, lambda: b.x * 2.0, lambda: b.x),
    "assert": lambda b: (rf.assert_(rf.reduce_all(b.v < 99.0, axis=b.v.dims), "too large"), b.v * 2.0)[1],
    "relative_positional_encoding": lambda b: rf.relative_positional_encoding(
        query_spatial_dim=b.time, key_value_spatial_dim=b.time, feat_dim=FEAT
    )[0],
    "where_nested": lambda b: rf.nested.where_nested({"x": b.x}, {"x": b.y}, condition=b.v > 0.0),
    "gradient": lambda b: slope(b),
    "stop_gradient_scope": lambda b: constant(b),
    "gradient_checkpoint_scope": lambda b: checkpointed(b),
}
CASES = {**PROMISED, **FURTHER}
SIZES = "the size of the result depends on values"
REFUSED = {
    "masked_select": SIZES,
    "masked_scatter selected": SIZES,
    "repeat": SIZES,
    "slice from tensor": SIZES,
    "slice to tensor": SIZES,
    "slice by tensor": SIZES,
    "ctc_greedy_decode": "the numbers of",
    "ctc_durations": "the numbers of",
    "ctc_blanks": "the numbers of",
    "gradient": "traced without gradients",
    "reduce_out": "the numbers of",  # not the op: its case looks at raw_tensor
}
"""What is not done in a body, mostly since its size would differ per step, and what the error says."""
SOME = [
    "add", "where", "clip_by_value tensors", "cast", "matmul time", "linear", "reduce_mean time, feat", "softmax time",
    "layer_norm", "cumsum", "conv same", "transposed_conv same", "pool max", "gather", "gather last", "one_hot",
    "scatter logsumexp", "concat time", "split time", "merge_dims", "slice last", "pad by dims", "reverse_sequence",
    "window", "sort", "top_k two", "dot_attention composed", "ctc_loss", "cross_entropy", "lstm", "stft", "get_mask",
    "scaled_gradient_ext time", "masked_scatter", "pad_packed", "edit_distance", "search_sorted", "assert", "raw_call",
]  # fmt: skip
works_in_loops = pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])


def slope(b: Batch) -> rf.Tensor:
    x = b.x * 1.0
    rf.set_requires_gradient(x)
    return rf.gradient(rf.square(x) * b.y, x)


def constant(b: Batch) -> rf.Tensor:
    with rf.stop_gradient_scope():
        y = b.x * b.v
    return y + b.y


def checkpointed(b: Batch) -> rf.Tensor:
    with rf.gradient_checkpoint_scope():
        y = rf.exp(b.x) * b.v
    return rf.square(y)


# -- what is compared


def results(name: str, batch: Batch) -> list[rf.Tensor]:
    return [leaf for leaf in leaves(CASES[name](batch)) if isinstance(leaf, rf.Tensor)]


def is_float(x: rf.Tensor) -> bool:
    return x.dtype.startswith("float")


def scaled(batch: Batch, factor: Any) -> Batch:
    return batch.map(lambda _, x: x * factor if is_float(x) else x)


def prepared(batch: Batch, number: float, label: int) -> Batch:
    """The same inputs with this in padding, under the same dims, as leaves that take gradients."""

    def spoil(_: str, x: rf.Tensor) -> rf.Tensor:
        raw = x.copy_masked(number if is_float(x) else label).raw_tensor.detach().clone()
        leaf = x.like(raw.requires_grad_(is_float(x)))
        leaf.lengths = x.lengths if math.isfinite(number) else x.lengths.infinite()
        return leaf

    return batch.map(spoil)


def steps_of(case: str, batch: Batch, **options: Any) -> tuple[list[list[rf.Tensor]], rf.Loop]:
    """The results of each step of a loop whose state scales the inputs."""
    loop = rf.Loop(max_seq_len=len(FACTORS), **options)
    loop.state.factor = rf.ones([], dtype="float64")
    with loop:
        found = results(case, scaled(batch, loop.state.factor))
        stacks = [loop.stack(y) for y in found]
        loop.state.factor = loop.state.factor * 0.75
    return [[rf.gather(y, indices=step, axis=loop.axis) for y in stacks] for step in range(len(FACTORS))], loop


def assert_steps(expected: list[list[rf.Tensor]], found: list[list[rf.Tensor]], what: str, count: int) -> None:
    for step, (some, others) in enumerate(zip(expected, found, strict=True)):
        for a, b in zip(some, others, strict=True):
            assert (a.dtype, a.sparse_dim and a.sparse_dim.name) == (b.dtype, b.sparse_dim and b.sparse_dim.name)
            assert_same(a, in_dims_of(a, b), f"{what}, step {step}", count)


def gradients(
    expected: list[list[rf.Tensor]], steps: list[list[rf.Tensor]], batch: Batch
) -> dict[str, torch.Tensor | None]:
    """Of a sum of all that is valid with different weights; the order of dims is that of `expected`."""
    total = torch.zeros((), dtype=torch.float64)
    for step, (templates, frame) in enumerate(zip(expected, steps, strict=True)):
        for template, y in zip(templates, frame, strict=True):
            if is_float(y) and y.raw_tensor.requires_grad:
                y = in_dims_of(template, y)
                positions = torch.arange(1, y.raw_tensor.numel() + 1).reshape(y.raw_tensor.shape)
                weights = y.like((positions * 0.37 + step).sin().to(y.raw_tensor.dtype))
                total = total + rf.reduce_sum(rf.where(rf.is_finite(y), y, 0.0) * weights, axis=y.dims).raw_tensor
    inputs = {key: x.raw_tensor for key, x in batch.tensors.items() if x.raw_tensor.requires_grad}
    if not total.requires_grad:
        return dict.fromkeys(inputs)
    return dict(zip(inputs, torch.autograd.grad(total, list(inputs.values()), allow_unused=True), strict=True))


# -- each op in a body


@works_in_loops
@pytest.mark.parametrize(("lengths", "number"), [([4, 2, 1], -77.0), ([0, 3], math.nan)], ids=str)
def test_each_step_is_what_the_op_gives_alone(name, lengths, number):
    """Also where padding is large or NaN in the loop, in values and gradients."""
    if 0 in lengths and name in NEEDS_FRAMES:
        return
    batch = batch_of(lengths)
    clean, spoiled = prepared(batch, 0.0, 0), prepared(batch, number, -999)
    alone = [results(name, scaled(clean, factor)) for factor in FACTORS]
    steps, _ = steps_of(name, spoiled)
    assert_steps(alone, steps, name, len(lengths))
    expected, found = gradients(alone, alone, clean), gradients(alone, steps, spoiled)
    for key, a in expected.items():
        if name in PER_FRAME and key in SHARED:
            continue
        b = found[key]
        assert (a is None) == (b is None), f"{name}, gradient of {key}"
        if a is not None and b is not None:
            assert_same(
                clean.tensors[key].like(a), clean.tensors[key].like(b), f"{name}, gradient of {key}", len(lengths)
            )


@works_in_loops
def test_each_frame_of_sequences_of_sequences(name):
    """The inputs of each step are frames of one tensor; each sequence ends at another step, and the replay agrees."""
    lengths, counts = [3, 2], [1, 3]
    first, *others = (batch_of(lengths, seed=seed) for seed in range(3))
    each = [first, *(first.map(lambda key, x, o=other: x.like(o.tensors[key].raw_tensor)) for other in others)]
    steps = Dim(None, name="steps")
    rf.convert_to_tensor(np.zeros((2, 3)), dims=[batch_dim, steps], lengths=counts)
    whole = first.map(
        lambda key, x: rf.convert_to_tensor(
            torch.stack([batch.tensors[key].raw_tensor for batch in each]),
            dims=[steps, *x.dims],
            sparse_dim=x.sparse_dim,
        )
    )
    loop = rf.Loop(axis=steps, debug=True)
    with loop, rf.recording(False):
        found = results(name, whole.map(lambda _, x: loop.unstack(x)))
        stacks = [loop.stack(y) for y in found]
    for step, batch in enumerate(each):
        again = {value.name: value.tensor for value in loop.run[step].values()}
        assert loop.run[step].check == "replay agrees"
        for number, (a, stacked) in enumerate(zip(results(name, batch), stacks, strict=True)):
            b = in_dims_of(a, rf.gather(stacked, indices=step, axis=steps))
            if f"found.{number}" in again:
                assert_bits(in_dims_of(a, again[f"found.{number}"]), b)
            else:  # the same value as another one
                assert any(found[number] is other for other in found[number + 1 :])
            for i in range(len(lengths)) if batch_dim in a.dims else ():
                if step < counts[i]:
                    assert_close(valid(a, i), valid(b, i), f"{name}, step {step}, sequence {i}")


def assert_bits(a: rf.Tensor, b: rf.Tensor) -> None:
    torch.testing.assert_close(a.raw_tensor, b.raw_tensor, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_in_a_body_is_refused(name):
    with pytest.raises(TraceError, match=REFUSED[name]) as raised:
        steps_of(name, batch_of([3, 2]), name="decoder")
    assert any("cases_" in str(entry.path) or entry.path == Path(__file__) for entry in raised.traceback[2:])
    assert raised.value.__notes__ == ["in step 0 of decoder, while its body was traced"]
    assert_idle()


@pytest.mark.parametrize("name", SOME)
def test_under_inference_mode(name):
    lengths = [3, 1]
    with torch.inference_mode():
        batch = batch_of(lengths)
        alone = [results(name, scaled(batch, factor)) for factor in FACTORS]
        steps, loop = steps_of(name, batch, debug=True)
        assert_steps(alone, steps, name, len(lengths))
    assert loop.run[1].check == "replay agrees"


@pytest.mark.parametrize("name", SOME)
def test_in_a_loop_of_a_loop(name):
    lengths = [3, 1]
    batch = prepared(batch_of(lengths), 0.0, 0)
    outer = rf.Loop(max_seq_len=2, name="outer")
    outer.state.factor = rf.ones([], dtype="float64")
    with outer:
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.factor = outer.state.factor
        with inner:
            stacks = [inner.stack(y) for y in results(name, scaled(batch, inner.state.factor))]
            inner.state.factor = inner.state.factor * 0.75
        stacks = [outer.stack(y) for y in stacks]
        outer.state.factor = inner.state.factor
    alone = [results(name, scaled(batch, 0.75**step)) for step in range(4)]
    frames = [
        [rf.gather(rf.gather(y, indices=i, axis=outer.axis), indices=k, axis=inner.axis) for y in stacks]
        for i in (0, 1)
        for k in (0, 1)
    ]
    assert_steps(alone, frames, name, len(lengths))
    expected, found = gradients(alone, alone, batch), gradients(alone, frames, batch)
    for key, a in expected.items():
        b = found[key]
        if a is not None and b is not None:
            assert_same(batch.tensors[key].like(a), batch.tensors[key].like(b), f"{name}, gradient of {key}", 2)
        else:
            assert a is b


# -- on an axis that grows


GROWING = [
    *SOME, "dot_attention causal", "slice step", "top_k_mask", "top_p_mask time", "split_dims", "reshape",
    "log_softmax time", "scatter mean", "gather one", "conv strided", "window strided", "concat three",
    "relative_positional_encoding",
]  # fmt: skip


def on_frames(x: rf.Tensor, time: Dim, batch: Batch) -> Batch:
    """Inputs of all kinds, made from the frames so far."""
    logits = rf.reduce_sum(rf.matmul(x, batch.wide, reduce=FEAT), axis=OUT)
    v = rf.reduce_sum(x, axis=time)
    made = {
        "x": x,
        "y": x * 0.5 + 0.1,
        "v": v,
        "h": rf.matmul(v, batch.w, reduce=FEAT),
        "logits": logits,
        "labels": rf.reduce_argmax(logits, axis=VOCAB),
        **{key: rf.set_sparse_dim(batch.tensors[key] * 0, time) for key in ("index", "at")},
    }
    return replace(batch, time=time, tensors={**batch.tensors, **made})


def sums(ys: list[rf.Tensor]) -> list[rf.Tensor]:
    """A number for each, as tensors of different sizes cannot be stacked."""
    finite = [
        rf.where(rf.is_finite(y), y, 0.0) for y in (rf.cast(rf.abs(y) if is_float(y) else y, "float64") for y in ys)
    ]
    return [rf.reduce_sum(rf.square(y) + y, axis=y.dims) if y.dims else rf.square(y) + y for y in finite]


@pytest.mark.parametrize("name", GROWING)
def test_on_an_axis_that_grows(name):
    batch, steps = batch_of([2, 2]), Dim(4, name="steps")
    raw = torch.randn(4, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    xs = rf.convert_to_tensor(raw, dims=[steps, batch_dim, FEAT])
    loop = rf.Loop(axis=steps, debug=True)
    loop.state.time = Dim(0, name="time")
    loop.state.x = rf.zeros([batch_dim, loop.state.time, FEAT], dtype="float64")
    with loop:
        x, time = rf.cum_concat_step(loop.unstack(xs), prev_accum=loop.state.x, axis=loop.state.time)
        found = results(name, on_frames(x, time, batch))
        stacks = [loop.stack(y) for y in sums(found)]
        loop.state.x, loop.state.time = x, time
    for step in range(4):
        assert loop.run[step].check == "replay agrees"
        for value in loop.run[step].values():
            shape = [value.tensor.size_of(dim).max for dim in value.tensor.dims]
            assert shape == list(value.tensor.raw_tensor.shape), value.name
        time = Dim(step + 1, name="time")
        x = rf.convert_to_tensor(raw[: step + 1], dims=[time, batch_dim, FEAT])
        for a, y in zip(sums(results(name, on_frames(x, time, batch))), stacks, strict=True):
            assert_close(a.raw_tensor.numpy(), y.raw_tensor[step].numpy(), f"{name}, step {step}")


def test_features_go_through_a_body():
    feat, steps = Dim(4, name="feat"), Dim(3, name="steps")
    x = rf.convert_to_tensor(torch.randn(3, 2, 4), dims=[steps, batch_dim, feat], feature_dim=feat)
    loop = rf.Loop(axis=steps)
    with loop:
        y = loop.stack(rf.reduce_out(loop.unstack(x), mode="max", num_pieces=2))
    expected = rf.reduce_out(x, mode="max", num_pieces=2)
    assert y.feature_dim is expected.feature_dim
    assert_bits(y, expected.copy_transpose(y.dims))


# -- random numbers


RANDOM: dict[str, Case] = {
    "uniform": lambda b: rf.random_uniform([batch_dim, b.time], minval=b.at, maxval=b.at + 3, dtype="float64"),
    "uniform whole": lambda b: rf.random_uniform([batch_dim, FEAT], minval=0, maxval=1000, dtype="int64"),
    "normal": lambda b: b.x + rf.random_normal([batch_dim, b.time, FEAT], mean=b.v, stddev=2.0, dtype="float64"),
    "truncated normal": lambda b: rf.random_truncated_normal([batch_dim, FEAT], mean=b.v, dtype="float64"),
    "bernoulli": lambda b: rf.random([batch_dim, b.time, FEAT], distribution="bernoulli", mean=0.5),
    "sparse": lambda b: rf.random([b.time, FEAT], sparse_dim=VOCAB, distribution="uniform", minval=0, maxval=5),
    "dropout": lambda b: rf.dropout(b.x, 0.5, on_forward=True),
    "dropout of frames": lambda b: rf.dropout(b.x, 0.5, axis=[batch_dim, b.time], on_forward=True),
    "dot_attention": lambda b: rf.dot_attention(
        b.x, b.z, b.z, key_dim=FEAT, axis=b.other, att_dropout=0.5, att_dropout_broadcast=False
    ),
    "choice with": lambda b: rf.random_choice_with_replacement(
        [batch_dim, b.time, OUT], probs=rf.softmax(b.logits, axis=VOCAB), axis=VOCAB
    ),
    "choice without": lambda b: rf.random_choice_without_replacement(
        log_probs=rf.log_softmax(b.logits, axis=VOCAB), axis=VOCAB, num_samples_dim=HALF
    ),
    "specaugment": lambda b: rf.audio.specaugment(
        b.x, spatial_dim=b.time, feature_dim=FEAT, global_train_step_dependent=False, max_consecutive_spatial_dims=2
    ),
    "two": lambda b: [rf.random_normal([batch_dim, FEAT]), rf.random_normal([batch_dim, FEAT])],
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_follow_the_seed_and_come_again_in_a_replay(name, monkeypatch):
    monkeypatch.setitem(CASES, name, RANDOM[name])
    batch, runs = batch_of([40, 30]), []
    with rf.get_run_ctx().train_flag_ctx(True):
        for seed in (7, 7, 8):
            rf.set_random_seed(seed)
            runs.append(steps_of(name, batch, debug=True))
    (first, loop), (second, _), (other, _) = runs
    for step, (some, others) in enumerate(zip(first, second, strict=True)):
        again = {value.name: value.tensor for value in loop.run[step].values()}
        for number, (a, b) in enumerate(zip(some, others, strict=True)):
            assert_bits(a, b)
            assert_bits(in_dims_of(a, again[f"found.{number}"]).copy_masked(0), a.copy_masked(0))
        assert loop.run[step].check == "replay agrees"
    assert not torch.equal(first[0][0].raw_tensor, first[1][0].raw_tensor), "another step draws other numbers"
    assert not torch.equal(first[0][0].raw_tensor, other[0][0].raw_tensor), "another seed draws other numbers"
    if name == "two":
        assert not torch.equal(first[0][0].raw_tensor, first[0][1].raw_tensor), "another op draws other numbers"


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_in_a_loop_of_a_loop(name):
    batch, runs = batch_of([40, 30]), []
    for _ in range(2):
        rf.set_random_seed(7)
        with rf.get_run_ctx().train_flag_ctx(True), (outer := rf.Loop(max_seq_len=2)):
            with (inner := rf.Loop(max_seq_len=2)):
                stacks = [inner.stack(y) for y in leaves(RANDOM[name](batch))]
            stacks = [outer.stack(y) for y in stacks]
        rest = [dim for dim in stacks[0].dims if dim not in (outer.axis, inner.axis)]
        runs.append(stacks[0].copy_transpose([outer.axis, inner.axis, *rest]).raw_tensor.flatten(0, 1))
    assert torch.equal(*runs)
    assert all(not torch.equal(runs[0][i], runs[0][k]) for i in range(4) for k in range(i))


# -- mistakes


def assert_idle() -> None:
    """No loop is open, nobody listens, and a new loop runs."""
    assert (active_listener(), current_tape(), torch.is_grad_enabled()) == (None, None, True)
    steps, _ = steps_of("add", batch_of([2, 1]))
    assert len(steps) == len(FACTORS)


MISTAKES: dict[str, tuple[type[RfError], Case]] = {
    "no such axis": (DimError, lambda b: rf.reduce_sum(b.v, axis=OUT)),
    "another axis of that name": (DimError, lambda b: rf.reduce_sum(b.v, axis=Dim(4, name="feat"))),
    "dims that do not match": (DimError, lambda b: b.v + rf.ones([Dim(3, name="feat")])),
    "matmul over nothing": (DimError, lambda b: rf.matmul(b.v, b.table, reduce=FEAT)),
    "indices that are floats": (DtypeError, lambda b: rf.gather(b.v, indices=b.h, axis=FEAT)),
    "sizes that do not add up": (DimError, lambda b: rf.split(b.v, axis=FEAT, out_dims=[1, 2])),
    "no labels": (DimError, lambda b: rf.one_hot(b.v)),
    "a mask of numbers": (DtypeError, lambda b: rf.where(b.v, b.v, 0.0)),
    "no probability": (ParameterError, lambda b: rf.dropout(b.v, 1.5)),
    "merge of what is not there": (DimError, lambda b: rf.merge_dims(b.v, dims=[FEAT, OUT])),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_told_as_outside_of_loops(kind):
    error, case = MISTAKES[kind]
    batch = batch_of([3, 2])
    with pytest.raises(error) as outside:
        case(batch)
    loop = rf.Loop(max_seq_len=3, name="decoder")
    loop.state.factor = rf.ones([], dtype="float64")
    with pytest.raises(error) as raised, loop:
        case(batch)
    assert str(raised.value) == str(outside.value)
    with pytest.raises(error) as raised, loop:
        case(scaled(batch, loop.state.factor))
    assert str(raised.value).splitlines()[0].split(":")[0] == str(outside.value).splitlines()[0].split(":")[0]
    assert raised.value.__notes__ == ["in step 0 of decoder, while its body was traced"]
    assert any(entry.lineno + 1 == case.__code__.co_firstlineno for entry in raised.traceback)
    assert_idle()
    with loop:  # it may be entered again
        loop.state.factor = loop.state.factor * 2.0
    assert loop.state.factor.item() == 8.0


LATER: dict[str, tuple[str, Callable[[Batch, rf.Tensor], Any]]] = {
    "gather": ("4 is not an index of feat", lambda b, n: rf.gather(b.v, indices=n + 2, axis=FEAT)),
    "assert": ("^n is large", lambda b, n: rf.assert_(n < 2, "n is large")),
    "raw_call": ("^2 is large", lambda b, n: rf.raw_call(lambda raw: check_small(raw), n, out_dims=[])),
}


def check_small(raw: torch.Tensor) -> torch.Tensor:
    if raw >= 2:
        raise ValueError(f"{raw} is large")
    return raw * 2


@pytest.mark.parametrize("kind", LATER)
def test_a_mistake_at_a_later_step_names_line_and_step(kind):
    text, case = LATER[kind]
    batch = batch_of([3, 2])
    loop = rf.Loop(max_seq_len=5, name="decoder", debug=True)
    loop.state.n = rf.zeros([], dtype="int64")
    with pytest.raises(Exception, match=text) as raised, loop:
        made = case(batch, loop.state.n)
        if made is not None:
            loop.stack(made)
        loop.state.n = loop.state.n + 1
    [note] = raised.value.__notes__
    assert note.startswith(f"in step 2 of decoder, test_in_loop.py:{case.__code__.co_firstlineno} ({kind})")
    assert loop.run.steps == (5 if kind == "gather" else 2)  # what outputs alone need is done behind all steps
    assert_idle()


def test_a_raw_call_gives_one_shape():
    loop = rf.Loop(max_seq_len=3, name="decoder")
    with pytest.raises(DimError, match="changes between steps") as raised, loop:
        loop.stack(rf.raw_call(lambda n: torch.zeros(int(n) + 1), loop.iter_idx, out_dims=[Dim(None, name="k")]))
    assert "in step 1 of decoder" in raised.value.__notes__[0]
    with pytest.raises(DimError, match="different axes"):
        rf.raw_call(lambda: torch.zeros(3), out_dims=[FEAT])


# -- memory


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["add", "softmax time", "linear", "gather", "concat time", "conv same", "sort", "lstm", "pad_packed", "dropout"],
)
def test_loops_leave_nothing_behind(name, monkeypatch):
    """Not even for the garbage collector."""
    monkeypatch.setitem(CASES, "dropout", RANDOM["dropout"])
    batch = prepared(batch_of([3, 1]), 0.0, 0)

    def loops(count: int) -> None:
        for _ in range(count):
            steps_of(name, batch)

    for _ in range(1100):
        align.sig([Dim(1, name="old")])  # fills the bounded table of signatures
    loops(5)
    gc.collect()
    gc.disable()
    try:
        before = alive()
        loops(25)
        left = {kind: count - before[kind] for kind, count in alive().items()}
        unreachable = gc.collect()
    finally:
        gc.enable()
    assert max(left.values()) < 10, left
    assert unreachable < 25


def alive() -> dict[type, int]:
    found = dict.fromkeys((rf.Tensor, Dim, align.Sig, torch.Tensor), 0)
    for thing in gc.get_objects():
        for kind in found:
            found[kind] += issubclass(type(thing), kind)
    return found
