"""`rf.check`: the first op that padding gets into, and the first that makes a NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")


@pytest.fixture
def x() -> rf.Tensor:
    rows = [np.random.default_rng(n).normal(size=(n, 3)).astype("float32") for n in (4, 2, 3)]
    return rf.convert_to_tensor(rows, dims=[batch_dim, time, feat], tags=["apple", "banana", "cherry"])


class Pooled(rf.Module):
    """Sees padding, if told so."""

    def __init__(self, use_mask: bool):
        self.linear = rf.Linear(feat, feat)
        self.use_mask = use_mask

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        pooled = rf.reduce_max(self.linear(x), axis=time, use_mask=self.use_mask)
        return rf.tanh(pooled)


def accumulated(x: rf.Tensor, leak: float = 0.0) -> rf.Tensor:
    total = rf.reduce_sum(x, axis=time, use_mask=False)
    loop = rf.Loop(axis=time, name="adding")
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        x_t = loop.unstack(x)
        loop.state.h = loop.state.h + x_t
        mixed = loop.state.h + leak * total
        out = loop.stack(mixed)
    return out


def test_a_sound_model_passes(x):
    report = rf.check.batch_invariance(Pooled(use_mask=True), x)
    assert report
    assert report.results >= 3 * 3
    assert "agree" in repr(report)


def test_the_first_op_that_padding_changes_is_named():
    short = rf.convert_to_tensor(
        [-np.ones((4, 3)), -np.ones((2, 3))], dims=[batch_dim, time, feat], tags=["apple", "banana"]
    )
    report = rf.check.batch_invariance(lambda x: rf.reduce_max(x, axis=time, use_mask=False) * 2.0, short)
    assert not report
    assert (report.first.event.op, report.first.sequence) == ("reduce_max", "'banana' (sequence 1)")
    assert (report.first.together, report.first.alone) == (0.0, -1.0)
    text = repr(report)
    assert "test_check.py" in text
    assert "rf.reduce_max(x, axis=time, use_mask=False)" in text
    assert len(text.splitlines()) <= 12


def test_inside_of_modules_the_path_is_told(x):
    wild = x.copy_masked(9.0)
    report = rf.check.batch_invariance(Pooled(use_mask=False), wild)
    assert report.first.event.op == "reduce_max"
    assert report.first.event.path == "Pooled"


def test_values_of_loops_are_compared_step_by_step(x):
    loud = x.copy_masked(1.0)  # `total` sees padding: it is the first
    assert rf.check.batch_invariance(lambda x: accumulated(rf.tanh(x)), x)
    report = rf.check.batch_invariance(lambda x: accumulated(x, leak=1.0), loud)
    assert report.first.event.op == "reduce_sum"


def test_a_difference_in_a_loop_names_the_step(x):
    def fn(x: rf.Tensor) -> rf.Tensor:
        loop = rf.Loop(axis=time, name="mixing")
        loop.state.h = rf.zeros([batch_dim, feat])
        with loop:
            loop.state.h = loop.state.h + rf.reduce_mean(loop.unstack(x), axis=batch_dim)
            out = loop.stack(loop.state.h)
        return out

    report = rf.check.batch_invariance(fn, x)
    assert (report.first.event.loop, report.first.event.step) == ("mixing", 0)
    assert report.mixed.op == "reduce_mean"
    assert "combines the sequences" in repr(report)


def test_the_dims_have_their_lengths_again_afterwards(x):
    before = time.size.values.copy()
    rf.check.batch_invariance(rf.tanh, x)
    assert (time.size.values == before).all()
    assert (rf.tanh(x) + x).dims == x.dims

    def broken(x: rf.Tensor) -> None:
        if x.size_of(batch_dim).max == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        rf.check.batch_invariance(broken, x)
    assert (time.size.values == before).all()


@pytest.mark.parametrize("kind", ["dict", "TensorDict", "tuple"])
def test_batches_of_several_tensors(x, kind):
    labels = rf.convert_to_tensor(np.zeros((3, 4), "int64"), dims=[batch_dim, time], sparse_dim=feat)
    both = {"x": x, "labels": labels}
    batch = {"dict": both, "TensorDict": rf.TensorDict(both), "tuple": (x, labels)}[kind]

    def loss(batch):
        x, labels = batch if kind == "tuple" else (batch["x"], batch["labels"])
        return rf.cross_entropy(estimated=x, target=labels, axis=feat, estimated_type="logits")

    assert rf.check.batch_invariance(loss, batch)


def test_padding_is_seen_though_training_would_put_zeros_there(x):
    linear = rf.Linear(feat, feat)
    linear.bias.initial = 1.0
    report = rf.check.batch_invariance(lambda x: rf.reduce_sum(linear(x), axis=time, use_mask=False), x)
    assert report.first.event.op == "reduce_sum"


def test_a_function_may_take_gradients(x):
    linear = rf.Linear(feat, feat)

    def slope(x: rf.Tensor, use_mask: bool) -> rf.Tensor:
        x = rf.copy(x)
        rf.set_requires_gradient(x)
        return rf.gradient(rf.reduce_max(linear(x), axis=time, use_mask=use_mask), x)

    assert rf.check.batch_invariance(lambda x: slope(x, True), x)


def relative(x: rf.Tensor) -> rf.Tensor:
    """A query's score for each key depends on how far they are from each other."""
    key = rf.Dim(None, name="key")
    keys, _ = rf.replace_dim(x, in_dim=time, out_dim=key)
    far, distance = rf.relative_positional_encoding(query_spatial_dim=time, key_value_spatial_dim=key, feat_dim=even)
    ahead = rf.combine_bc(rf.range_over_dim(key), "sub", rf.range_over_dim(time))
    index = ahead + (time.get_dim_value_tensor() - 1)
    scores = rf.gather(rf.reduce_sum(far, axis=even), indices=index, axis=distance)
    return rf.matmul(rf.softmax(rf.expand_dim(scores, batch_dim), axis=key), keys, reduce=key)


even = rf.Dim(4, name="even")


def test_positions_up_to_the_longest_sequence_are_no_difference(x):
    assert rf.check.batch_invariance(relative, x)


def test_a_result_as_long_as_the_longest_sequence_is_one(x):
    def raw(x: rf.Tensor) -> rf.Tensor:
        return rf.convert_to_tensor(x.raw_tensor, dims=[batch_dim, rf.Dim(x.raw_tensor.shape[1], name="n"), feat])

    assert "n has 4 frames in the batch, 2 alone" in repr(rf.check.batch_invariance(lambda x: raw(x) * 2.0, x))

    def mean(x: rf.Tensor) -> rf.Tensor:
        padded = raw(x)
        return rf.reduce_mean(padded, axis=padded.dims[1])

    assert rf.check.batch_invariance(mean, x).first.event.op == "reduce_mean"


def test_what_was_rounded_once_may_differ_as_much_from_then_on(x):
    def rounded(x: rf.Tensor) -> rf.Tensor:
        mean = rf.cast(rf.reduce_mean(rf.cast(x, "bfloat16"), axis=time), "float32")
        return mean * (1.0 if x.size_of(batch_dim).max == 3 else 1.01)

    assert rf.check.batch_invariance(rounded, x)
    assert not rf.check.batch_invariance(rounded, x, tolerance=1e-4)


def test_random_ops_are_named_as_the_cause(x):
    report = rf.check.batch_invariance(lambda x: rf.dropout(x, 0.5, on_forward=True), x)
    assert report.first.event.random
    assert "dropout" in repr(report)


def test_finite_names_what_made_a_nan_and_what_made_the_infinity_before_it(x):
    def fn() -> rf.Tensor:
        energy = rf.log(rf.relu(x) * 0.0)
        weights = energy - energy
        return rf.tanh(weights) + 1.0

    report = rf.check.finite(fn)
    assert (report.first.kind, report.first.event.op, report.first.event.name) == ("NaN", "sub", "weights")
    assert (report.first.came_from.event.op, report.first.came_from.kind) == ("log", "infinity")
    assert report.passed == 2
    assert "first at batch 0 ('apple'), time 0, feat 0" in repr(report)


def test_padding_does_not_count(x):
    spoiled = x.like(x.copy_masked(1.0).copy_masked(float("nan")).raw_tensor)
    assert rf.check.finite(lambda: rf.tanh(spoiled) * 2.0)


def test_a_mask_of_infinities_is_meant(x):
    def fn() -> rf.Tensor:
        return rf.softmax(rf.where(x > 0.0, x, float("-inf")), axis=time)

    report = rf.check.finite(fn)
    assert not [found for found in report.made if found.kind == "infinity"]


def test_what_came_in_broken_is_told_apart(x):
    broken = x.like(x.raw_tensor.clone())
    broken.raw_tensor[1, 1, 2] = float("nan")
    report = rf.check.finite(lambda: rf.tanh(broken) + 1.0)
    assert not report.made
    assert not report
    assert "was already not finite at" in repr(report)


def test_in_a_loop_the_step_is_named(x):
    def fn() -> rf.Tensor:
        loop = rf.Loop(axis=time, name="countdown")
        loop.state.n = rf.full(dims=[batch_dim], fill_value=2.0)
        with loop:
            frame = loop.unstack(x)
            loop.state.n = loop.state.n - 1.0
            ratio = frame / loop.state.n
            out = loop.stack(ratio)
        return out

    report = rf.check.finite(fn)
    assert (report.first.event.loop, report.first.event.step) == ("countdown", 1)
    assert (report.first.event.op, report.first.kind) == ("true_divide", "infinity")
    assert not [run for run in rf.runs if run.name == "countdown"]


def test_gradients_are_followed_back_to_the_op_that_breaks_them(x):
    weight = rf.Parameter([feat], initial=0.0)

    def loss() -> rf.Tensor:
        root = rf.sqrt(rf.square(x * weight))
        return rf.reduce_sum(rf.tanh(root), axis=root.dims)

    assert rf.check.finite(loss)
    report = rf.check.finite(loss, gradients=True)
    assert report.first.gradient
    assert (report.first.event.op, report.first.kind) == ("sqrt", "infinity")  # its slope at 0
    assert weight.raw_tensor.grad is None
    weight.assign(1.0)
    assert rf.check.finite(loss, gradients=True)


def test_a_failing_function_raises_as_it_does_alone():
    with pytest.raises(rf.errors.DimError):
        rf.check.finite(lambda: rf.reduce_sum(rf.ones([feat]), axis=time))
    assert torch.is_grad_enabled()


def test_batch_invariance_of_what_is_no_function(x):
    with pytest.raises(rf.errors.DtypeError, match="the first argument must be a function"):
        rf.check.batch_invariance(x, x)


def countdown(numbers: list[int]) -> rf.Tensor:
    """Each sequence counts its number down to 1; the logarithm of what would come next is no number."""
    steps = rf.Dim(None, name="steps")
    x = rf.convert_to_tensor([np.ones(n, "float32") for n in numbers], dims=[batch_dim, steps])
    loop = rf.Loop(axis=steps, name="countdown")
    loop.state.n = rf.convert_to_tensor([float(n) for n in numbers], dims=[batch_dim])
    with loop:
        n = loop.state.n
        logs = rf.log(n - (loop.state.n - n + loop.unstack(x)) * rf.cast(loop.iter_idx, "float32"))
        loop.state.n = n * 1.0
        out = loop.stack(logs)
    return out


def test_what_is_computed_for_sequences_that_have_ended_does_not_count():
    assert rf.check.finite(countdown, [3, 1])
    assert not rf.check.finite(lambda: countdown([3, 1]) / 0.0)


def test_the_tensors_of_the_first_findings_are_kept(x):
    def fn() -> rf.Tensor:
        for _ in range(10):
            made = rf.log(rf.relu(x) * 0.0)
        return made

    report = rf.check.finite(fn)
    assert len(report.made) == 10
    assert [found.tensor is not None for found in report.made] == [True] * 4 + [False] * 6
    assert not any(found.event.outputs or found.event.inputs for found in report.made[4:])
    first = report.first
    assert first.tensor.raw_tensor[first.place].item() == -np.inf


def test_the_place_of_a_difference(x):
    report = rf.check.batch_invariance(Pooled(use_mask=False), x.copy_masked(9.0))
    found = report.first
    entry = found.tensor.raw_tensor[found.place].item()
    assert entry == pytest.approx(found.together)
    assert found.place[found.tensor.dims.index(batch_dim)] == 1  # 'banana'
    assert report.sequences == 3
    assert "3 single sequences" in repr(rf.check.batch_invariance(rf.tanh, x))


class SpoiledOverFrames(torch.autograd.Function):
    """2 · x; the gradient is NaN if x has more than two axes, as when a loop computes an op for all steps together."""

    @staticmethod
    def forward(ctx, x):
        ctx.axes = x.ndim
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (float("nan") if ctx.axes > 2 else 2)


def test_gradients_are_checked_as_training_computes_them():
    @rf.op(frames="any", name="spoiled_over_frames")
    def spoiled(x):
        out = x.copy_template()
        out.raw_tensor = SpoiledOverFrames.apply(x.raw_tensor)
        return out

    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor(torch.ones(2, 5, 2), dims=[rf.batch_dim, time, feat], lengths=[5, 3])
    weight = rf.Parameter([feat])
    weight.initial = 1.0

    def loss(op):
        loop = rf.Loop(axis=time)
        with loop:
            out = loop.stack(op(loop.unstack(x) * weight))
        return rf.reduce_sum(out, axis=[rf.batch_dim, time, feat])

    assert rf.check.finite(lambda: loss(rf.tanh), gradients=True)
    report = rf.check.finite(lambda: loss(spoiled), gradients=True)
    assert not report and not report.made
    assert "a parameter of shape (2,) is not finite in training" in str(report)
